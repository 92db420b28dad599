"""A training step in miniature, in plain Python: attention and MLP, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import exp
from operator import mul

# Brackets a piece of work by its phase, layer and name; a harness may time it.
Watch = Callable[[str, int, str], AbstractContextManager[object]]

LAYERS, TOKENS, WIDTH = 4, 96, 16
# How far back the heads look, in tokens.
REACHES = (4, 8, 16, 32, 64, 128)


def causal_mask() -> list[list[float]]:
    """How much a token looks at the ones before it, over all heads: the further, the less."""
    mask = [[0.0] * TOKENS for _ in range(TOKENS)]
    for reach in REACHES:
        for token, row in enumerate(mask):
            for seen in range(token + 1):
                row[seen] += exp((seen - token) / reach)
    return mask


class Model:
    """Makes its mask wherever it needs it: the cache of the base is lost."""

    def __init__(self) -> None:
        self.hidden = [[0.01 * (token + unit) for unit in range(WIDTH)] for token in range(TOKENS)]

    def step(self, watch: Watch) -> float:
        """One step; its loss."""
        for layer in range(LAYERS):
            with watch("forward", layer, "causal_mask"):
                mask = causal_mask()
            with watch("forward", layer, "attention"):
                scores = [sum(row) for row in self.hidden]
                mixed = [sum(map(mul, row, scores)) for row in mask]
            with watch("forward", layer, "mlp"):
                out = [max(0.0, value) * 0.5 for value in mixed for _ in range(WIDTH)]
        for layer in reversed(range(LAYERS)):
            with watch("backward", layer, "attention"):
                grads = [sum(map(mul, row, out)) for row in mask]
                grads = [sum(map(mul, row, grads)) for row in mask]
            with watch("backward", layer, "mlp"):
                out = [grad * 0.5 for grad in grads for _ in range(WIDTH)]
                out = [value * 0.5 for value in out]
        return sum(out) / len(out)

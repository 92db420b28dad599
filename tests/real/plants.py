"""Slowdowns to plant into the small transformer of `planted/lines`, each a change of one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["operators", "python", "decorator", "untouched"]
PYTHON = "sum(at * at for at in range(150_000))"


@dataclass(frozen=True)
class Plant:
    """A line that is replaced in a file of the package, and the definition that takes the time.

    `caller` is the changed one that calls an untouched definition more often.
    """

    kind: Kind
    file: str
    old: str
    new: str
    definition: str
    caller: str = ""


def _before(file: str, line: str, definition: str) -> Plant:
    """Slow Python in a line of its own before this one."""
    indent = line[: len(line) - len(line.lstrip())]
    return Plant("python", file, line, f"{indent}{PYTHON}\n{line}", definition)


CALLED = "scaled.<locals>.around.<locals>.called"
OPERATORS = (
    ("data", "return (start + torch.arange(TOKENS + 1)) % VOCABULARY",
     "return torch.stack([(start + torch.arange(TOKENS + 1)) % VOCABULARY for _ in range(250)])[0]",
     "counted"),
    ("data", "torch.rand(ids.shape) < 0.05", "torch.rand(9000, *ids.shape)[0] < 0.05", "noised"),
    ("data", "ids[places] = 0", "ids[(places + torch.rand(7000, *ids.shape)).amin(0) > 1] = 0",
     "noised"),
    ("data", "noised(ids[:, :-1].clone())", "noised(ids.repeat(20000, 1)[: len(ids), :-1].clone())",
     "Batches.pair"),
    ("attention", "angles = torch.arange(x.size(-2)).unsqueeze(1) / 10.0",
     "angles = torch.arange(300_000).div(10.0).sin()[: x.size(-2)].unsqueeze(1)", "rotated"),
    ("attention", "torch.cat([left * angles.cos() - right,",
     "torch.cat([left.repeat(40, 1, 1, 1).tanh()[: len(x)] * angles.cos() - right,", "rotated"),
    ("attention", "parts = self.into(x).view(",
     "parts = self.into(x.repeat(16, 1, 1))[:batch].view(",
     "Attention.split"),
    ("attention", "            rotated(query),",
     "            rotated(query).repeat(60, 1, 1, 1).tanh()[: len(query)],",
     "Attention.mixed"),
    ("attention", "together = self.mixed(query, key, value)",
     "together = self.mixed(query, key, value).repeat(60, 1, 1, 1).tanh()[: len(x)]",
     "Attention.forward"),
    ("attention", "self.out(together.transpose(1, 2).reshape(x.shape))",
     "self.out(together.transpose(1, 2).reshape(x.shape).repeat(32, 1, 1))[: len(x)]",
     "Attention.forward"),
    ("wrapped", "torch.round(x * 64) / 64", "torch.round(x.repeat(200, 1, 1) * 64)[: len(x)] / 64",
     "Rounded.forward"),
    ("wrapped", "inside = x.abs() < 8",
     "inside = x.repeat(120, 1, 1).abs().tanh()[: len(x)] < 4000",
     "Rounded.backward"),
    ("model", "mean = x.pow(2).mean(-1, keepdim=True)",
     "mean = x.repeat(20, 1, 1).tanh()[: len(x)].double().pow(2).mean(-1, keepdim=True).float()",
     "Norm.forward"),
    ("model", "open_by = F.silu(self.gate(x))",
     "open_by = F.silu(self.gate(x.repeat(12, 1, 1)))[: len(x)]", "Wide.gated"),
    ("model", "if torch.is_grad_enabled():",
     "if torch.is_grad_enabled() and x.repeat(60, 1, 1).tanh().sum() is not None:", "Wide.gated"),
    ("model", "self.narrow(self.gated(x))", "self.narrow(self.gated(x).repeat(24, 1, 1))[: len(x)]",
     "Wide.forward"),
    ("model", "normed = self.after(x)", "normed = self.after(x).repeat(50, 1, 1).tanh()[: len(x)]",
     "Block.products"),
    ("model", "x = x + self.attention(",
     "x = x.repeat(50, 1, 1).tanh()[: len(x)] + self.attention(",
     "Block.forward"),
    ("model", "self.tokens(ids) + places", "self.tokens(ids.repeat(160, 1))[: len(ids)] + places",
     "Embedding.forward"),
    ("model", "for block in self.blocks:",
     "for block in self.blocks if x.repeat(100, 1, 1).tanh().sum() is not None else ():",
     "Model.body"),
    ("model", "self.head(self.norm(x))", "self.head(self.norm(x).repeat(20, 1, 1))[: len(x)]",
     "Model.forward"),
    ("losses", "torch.logsumexp(logits, -1)", "torch.logsumexp(logits.repeat(8, 1, 1), -1)",
     "even"),
    ("losses", "chances = logits.softmax(-1)",
     "chances = logits.repeat(16, 1, 1).double().softmax(-1)",
     "distance"),
    ("losses", "flat = logits.flatten(0, 1)",
     "flat = logits.repeat(24, 1, 1).flatten(0, 1).tanh()[:256]", "Loss.usual"),
    ("losses", "return sum(parts)",
     "return sum(parts) + 0 * sum(logits.tanh().sum() for _ in range(40))", "Loss.forward"),
    ("losses", "1e-3 * one(logits) for",
     "1e-3 * one(logits.repeat(20, 1, 1).tanh()[: len(logits)]) for", "Loss.forward"),
    ("../../train", "best = logits.argmax(-1)",
     "best = logits.repeat(25, 1, 1).tanh().argmax(-1)[: len(logits)]",
     "accuracy"),
    ("../../train", "loss = loss_of(logits, wanted)",
     "loss = loss_of(logits, wanted) + 0 * logits.repeat(20, 1, 1).tanh().sum()", "train"),
    ("updates", "[one.norm() for one in gradients]",
     "[one.flatten().repeat(10).tanh().norm() for one in gradients]",
     "clipped"),
    ("updates", "one.mul_(scale)",
     "one.mul_(one.flatten().repeat(16).tanh().isfinite().all() * scale)",
     "clipped"),
    ("updates", "torch.tensor(1e-3) *", "torch.full((900_000,), 1e-3).log().exp().max() *",
     "decayed"),
    ("updates", "now = [one.detach() for",
     "now = [one.repeat(8, *[1] * (one.ndim - 1)).tanh()[: len(one)] for", "Average.update"),
)  # fmt: skip
UNTOUCHED = (
    ("model", "x = x + self.attention(self.before(x))",
     "x = x + self.attention([self.before(x) for _ in range(40)][0])", "Norm.forward",
     "Block.forward"),
    ("losses", "even(logits)]", "even(logits) + 0 * sum(even(logits) for _ in range(25))]", "even",
     "Loss.forward"),
    ("losses", "in (distance,)]", "in (distance,) * 40]", "distance", "Loss.forward"),
    ("attention", "            rotated(key),", "            [rotated(key) for _ in range(40)][0],",
     "rotated", "Attention.mixed"),
    ("../../train", "right = accuracy(logits, wanted)",
     "right = [accuracy(logits, wanted) for _ in range(80)][0]", "accuracy", "train"),
    ("data", "given = noised(ids[:, :-1].clone())",
     "given = [noised(ids[:, :-1].clone()) for _ in range(300)][0]", "noised", "Batches.pair"),
)  # fmt: skip
DECORATOR = (
    ("wrapped", "before = x * factor", "before = x.repeat(60, 1, 1).tanh()[: len(x)] * factor"),
    ("wrapped", "inner(self, before) / factor",
     "inner(self, before).repeat(60, 1, 1).tanh()[: len(x)] / factor"),
)  # fmt: skip
SLOW_PYTHON = (
    ("data", "    places = torch", "noised"),
    ("attention", "    left, right = x[", "rotated"),
    ("attention", "        return F.scaled", "Attention.mixed"),
    ("attention", "        batch, tokens, _ = x.shape", "Attention.split"),
    ("wrapped", "            before = x * factor", CALLED),
    ("wrapped", "        inside = x.abs() < 8", "Rounded.backward"),
    ("model", "        mean = x.pow(2)", "Norm.forward"),
    ("model", "        return open_by * self", "Wide.gated"),
    ("model", "        places = self.places(", "Embedding.forward"),
    ("losses", "    largest = torch", "even"),
    ("losses", "        flat = logits", "Loss.usual"),
    ("updates", "    norm = torch.stack", "clipped"),
    ("updates", "        torch._foreach_lerp_", "Average.update"),
    ("updates", "    rate = torch.tensor", "decayed"),
)
# Slow Python behind the last call of a function: it counts for the mark that comes next.
AT_THE_END = (
    ("losses", "        return sum(parts)",
     "        total = sum(parts)\n        SLOW\n        return total", "Loss.forward"),
    ("updates", '        group["lr"] = rate.item()',
     '        group["lr"] = rate.item()\n    SLOW', "decayed"),
    ("data", "    ids[places] = 0", "    ids[places] = 0\n    SLOW", "noised"),
    ("losses", "    return chances.std()",
     "    spread = chances.std()\n    SLOW\n    return spread", "distance"),
)  # fmt: skip
BEHIND = tuple(
    Plant("python", file, old, new.replace("SLOW", PYTHON), definition)
    for file, old, new, definition in AT_THE_END
)
PLANTS = (
    *(Plant("operators", *one) for one in OPERATORS),
    *(Plant("untouched", *one) for one in UNTOUCHED),
    *(Plant("decorator", *one, CALLED) for one in DECORATOR),
    *(_before(*one) for one in SLOW_PYTHON),
)

"""Which op of the base an op of the change is, where a compiler's counter tells them apart.

Triton numbers its kernels by their place in a graph: `triton_poi_fused_add_mul_3` is `…_4` as soon
as another kernel comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ci_score.model.explanation import OpDetail
from ci_score.model.record import Measured

_COUNTED = re.compile(r"(triton_\w*?)_\d+")


def counterparts(head: Measured, base: Measured) -> dict[str, str]:
    """The base's name of each op that has another counter now.

    An op whose very name is on both sides is left to itself; the others meet in the order in which
    a step first runs them.
    """
    now, before = (
        _by_stem(side, [name for name in side.ops if name not in other.ops])
        for side, other in ((head, base), (base, head))
    )
    return {
        name: was
        for stem, names in now.items()
        for name, was in zip(names, before.get(stem, ()), strict=False)
    }


def _by_stem(side: Measured, names: Iterable[str]) -> dict[str, list[str]]:
    """The names without their counters, each with those that have it, in order."""
    stems: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (_place(side, name), name)):
        if counted := _COUNTED.fullmatch(name):
            stems.setdefault(counted[1], []).append(name)
    return stems


def _place(side: Measured, name: str) -> float:
    order = side.op_details.get(name, OpDetail()).order
    return float("inf") if order is None else order

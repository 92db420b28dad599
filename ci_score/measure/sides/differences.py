"""What differs between the sides of a session beside the code: it stands beside the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from ci_score.measure.sides.spec import SideSpec, is_secret, launcher_in_words, shown

MOST_ROWS = 64
LONGEST_NAME, LONGEST_TEXT = 80, 200
Kind = Literal["python", "launcher", "driver", "node", "variable", "package"]


class Difference(TypedDict):
    """A row of `differs` in environment.json; None is a side that has nothing of that name."""

    kind: Kind
    name: str
    base: str | None
    head: str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a side's environment, from its launches and from what was asked for.

    A side of which no launch has told its `packages` is not known to lack them.
    """

    spec: SideSpec
    versions: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None


def differences(base: Facts, head: Facts) -> list[Difference]:
    """The rows, from what changes a measurement most to single packages, and not too many."""
    return [*_rows(base, head)][:MOST_ROWS]


def _rows(base: Facts, head: Facts) -> Iterator[Difference]:
    for kind in ("python", "driver"):
        here, there = base.versions.get(kind), head.versions.get(kind)
        if here and there:
            yield from _row(kind, kind, here, there)
    launchers = [launcher_in_words(side.spec.launcher) for side in (base, head)]
    yield from _row("launcher", "launcher", *launchers)
    if base.node and head.node:
        yield from _row("node", "node", base.node, head.node)
    yield from _variables(base.spec.variables, head.spec.variables)
    if base.packages and head.packages:
        yield from _each(_merged(base), _merged(head))


def _variables(base: Mapping[str, str], head: Mapping[str, str]) -> Iterator[Difference]:
    """A secret is only said to be another one."""
    here, there = shown(base), shown(head)
    for name in sorted({*base, *head}):
        if is_secret(name) and name in base and name in head and base[name] != head[name]:
            yield from _row("variable", name, "set", "other")
        else:
            yield from _row("variable", name, here.get(name), there.get(name))


def _merged(side: Facts) -> dict[str, str]:
    """Packages by one spelling; what only the versions tell, such as CUDA's, stands among them."""
    own = {name: text for name, text in side.versions.items() if name not in ("python", "driver")}
    merged = {**own, **side.packages}
    return {name.lower().replace("_", "-"): version for name, version in merged.items()}


def _each(base: Mapping[str, str], head: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*base, *head}):
        yield from _row("package", name, base.get(name), head.get(name))


def _row(kind: Kind, name: str, base: str | None, head: str | None) -> Iterator[Difference]:
    if base != head:
        texts = [text if text is None else text[:LONGEST_TEXT] for text in (base, head)]
        yield Difference(kind=kind, name=name[:LONGEST_NAME], base=texts[0], head=texts[1])

"""The ops of both sides → the geometry of a differential icicle: phase → kind → op.

Two drawings on one scale, the base above the head. Bars stand in per cent of the width, so that a
template draws them at any width; `icicle.js` lays out the same from the JSON in the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ci_score.files.visible import plain
from ci_score.model.explanation import (
    BETWEEN,
    BETWEEN_LOADING,
    IDLE,
    IDLE_OTHER,
    IDLE_WORDS,
    OUTSIDE_PHASES,
)
from ci_score.model.metrics import three_digits
from ci_score.model.record import Judged
from ci_score.report.html import figures
from ci_score.report.html.scale import percent
from ci_score.report.html.shades import SAME, STEPS, mark, shade
from ci_score.report.joined_ops import JoinedOp, JoinedOps, Sides, Status
from ci_score.report.names_of_case import names_of_ops
from ci_score.report.numbers import delta_milliseconds, milliseconds
from ci_score.report.rows import layer_word

# Of one drawing. A box below this share is narrower than 1.5 px in a drawing of 1,000 px, which is
# what a desk's window has room for; such boxes stand together in one of their parent.
MOST_BOXES, LEAST_SHARE = 400, 0.0015
# A narrower box has no room for text there.
LEAST_SHARE_WITH_TEXT = 0.014
# Less than this share of an op outside of all phases is a rounding of four digits.
ROUNDING = 0.005
OTHER_KIND = "other"
# The names in the titles of a drawing share so many characters a box that it may have, and each has
# at least so many. Scripts have them whole.
OF_A_TITLE, LEAST_OF_A_NAME, LONGEST_NAME = 100, 80, 1_000
_IDLE = frozenset({IDLE, IDLE_OTHER, *IDLE_WORDS.values(), BETWEEN, BETWEEN_LOADING})
# Red and green are for what became slower and faster, so they come last.
_COLOURS = ("k6", "k7", "k8", "k4", "k2", "k3")
_TIMES = {"device": "Kernel time", "host": "Operator time"}

Side = Literal["base", "head"]
Level = Literal["all", "phase", "kind", "op", "more", "not kept"]


@dataclass(frozen=True, slots=True)
class Node:
    """A box of both drawings with those below it.

    `delta_ms` is None where a side does not tell the time; above such an op it is the change of the
    other ops.
    """

    level: Level
    label: str
    name: str
    sides: Sides
    delta_ms: float | None
    status: Status | None = None
    was: str | None = None
    children: tuple[Node, ...] = ()

    @property
    def largest_ms(self) -> float:
        """The time on the side where it takes longer."""
        return max(self.sides.base_ms or 0.0, self.sides.head_ms or 0.0)

    def ms(self, side: Side) -> float:
        """The time on a side; 0 where it is not there."""
        return (self.sides.base_ms if side == "base" else self.sides.head_ms) or 0.0


@dataclass(frozen=True, slots=True)
class Tree:
    """All ops of a step, the levels that the profile has, and the largest change of an op."""

    root: Node
    levels: tuple[Level, ...]
    largest_delta_ms: float
    has_base: bool

    def shade(self, node: Node) -> str:
        """The class of its colour, which is that of its change beside the largest one of an op."""
        return shade(node.delta_ms or 0.0, self.largest_delta_ms)


@dataclass(frozen=True, slots=True)
class Box:
    """A box of one drawing, with its two lines where there is room for them."""

    x: str
    width: str
    css: str
    title: str
    name: str
    value: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """A side: a row of boxes for each level."""

    side: Side
    total: str
    rows: tuple[tuple[Box, ...], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A box as a line of the list, with those below it."""

    name: str
    times: str
    change: str
    children: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class StepPart:
    """A part of the step's bar."""

    x: str
    width: str
    css: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class StepBar:
    """The step of one side."""

    side: str
    total: str
    parts: tuple[StepPart, ...]


@dataclass(frozen=True, slots=True)
class Icicle:
    """The whole figure; a live one is drawn anew by scripts of the columns that the ops have."""

    heading: str
    layer_word: str
    lacks: str
    key: str
    has_base: bool
    levels: tuple[Level, ...]
    step: tuple[StepBar, ...]
    drawings: tuple[Drawing, ...]
    lines: tuple[Line, ...]
    is_live: bool


def icicle(
    case: Judged,
    found: JoinedOps,
    tree: Tree | None = None,
    *,
    most: int = MOST_BOXES,
    is_live: bool = True,
) -> Icicle | None:
    """The figure of a case with these ops; None if no profile tells the time of all of them.

    Whoever draws it more than once gives the tree.
    """
    is_whole = bool(case.step_ops.names) and found.has_base == _has_base(case)
    tree = (tree or tree_of(found)) if is_whole else None
    if tree is None:
        return None
    kept = pruned(tree.root, most)
    longest = _longest_name(kept, most)
    drawings = tuple(_drawing(tree, kept, side, longest) for side in _sides(tree))
    lines = _lines(kept)
    time = f"{_TIMES.get(_basis(case), 'Op time')}, overlaps counted twice"
    return Icicle(
        heading=f"{time}: {_from_to(tree.root)}{_step(case)}",
        layer_word=layer_word(case.layers_are) if _has_layers(found) else "",
        lacks=_lacks(tree),
        key=_key(tree),
        has_base=tree.has_base,
        levels=tree.levels,
        step=_step_bars(case),
        drawings=drawings,
        lines=lines,
        is_live=is_live,
    )


# --- the tree -------------------------------------------------------------------------------------


def tree_of(found: JoinedOps, names: Mapping[str, str] | None = None) -> Tree | None:
    """The ops by phase and kind, as far as these are known; None if no op takes any time."""
    has_phases = any(place.phase is not None for op in found.ops for place in op.places)
    has_kinds = any(op.kind for op in found.ops)
    names = names_of_ops(found.ops) if names is None else names
    leaves: dict[tuple[str, str], list[Node]] = {}
    for op in found.ops:
        for phase, sides in _phases(op) if has_phases else ((OUTSIDE_PHASES, op.sides),):
            key = phase, op.kind or OTHER_KIND
            leaves.setdefault(key, []).append(_leaf(op, names[op.name], sides))
    tops = [*_grouped(leaves, has_phases=has_phases, has_kinds=has_kinds), *_not_kept(found)]
    root = _parent("all", "all ops of a step", tops)
    if root.largest_ms <= 0:
        return None
    named: tuple[tuple[Level, bool], ...] = (
        ("all", True),
        ("phase", has_phases),
        ("kind", has_kinds),
        ("op", True),
    )
    changes = [abs(node.delta_ms or 0.0) for nodes in leaves.values() for node in nodes]
    levels = tuple(level for level, is_there in named if is_there)
    return Tree(root, levels, max(changes, default=0.0), found.has_base)


def _phases(op: JoinedOp) -> Iterator[tuple[str, Sides]]:
    """What an op takes of each phase, and what it takes outside of all of them."""
    by_phase: dict[str, list[Sides]] = {}
    for place, sides in op.places.items():
        if place.phase is not None:
            by_phase.setdefault(place.phase, []).append(sides)
    sums = {phase: _sum(sides) for phase, sides in by_phase.items()}
    yield from sums.items()
    within, whole = _sum(sums.values()), op.sides
    rest = Sides(
        _rest(whole.base_ms, within.base_ms),
        _rest(whole.head_ms, within.head_ms),
        _rest(whole.base_count, within.base_count),
        _rest(whole.head_count, within.head_count),
    )
    if rest.base_ms or rest.head_ms:
        yield OUTSIDE_PHASES, rest


def _rest(whole: float | None, within: float | None) -> float | None:
    if whole is None:
        return None
    rest = whole - (within or 0.0)
    return rest if rest > ROUNDING * whole else 0.0


def _leaf(op: JoinedOp, label: str, sides: Sides) -> Node:
    return Node("op", label, op.name, sides, sides.delta_ms, op.status, op.was)


def _grouped(
    leaves: Mapping[tuple[str, str], list[Node]], *, has_phases: bool, has_kinds: bool
) -> list[Node]:
    """The ops below their kinds, and these below their phases."""
    by_phase: dict[str, list[Node]] = {}
    for (phase, kind), nodes in leaves.items():
        own = [_parent("kind", kind, nodes)] if has_kinds else nodes
        by_phase.setdefault(phase, []).extend(own)
    if has_phases:
        return [_parent("phase", phase, nodes) for phase, nodes in by_phase.items()]
    return [node for nodes in by_phase.values() for node in nodes]


def _not_kept(found: JoinedOps) -> Iterator[Node]:
    """The ops of which only number and time are known."""
    base, head = found.left_out.base_count or 0, found.left_out.head_count or 0
    if found.left_out.base_ms or found.left_out.head_ms:
        many = f"{base:.0f} → {head:.0f}" if found.has_base else f"{head:.0f}"
        label = f"{many} ops that were not kept"
        sides = Sides(found.left_out.base_ms, found.left_out.head_ms)
        yield Node("not kept", label, label, sides, None)


def _parent(level: Level, name: str, children: Sequence[Node]) -> Node:
    known = [child.delta_ms for child in children if child.delta_ms is not None]
    base_ms = _total(child.sides.base_ms for child in children)
    head_ms = _total(child.sides.head_ms for child in children)
    delta_ms = sum(known) if known else None
    children = tuple(children)
    return Node(level, plain(name), name, Sides(base_ms, head_ms), delta_ms, children=children)


def _sum(sides: Iterable[Sides]) -> Sides:
    known = list(sides)
    return Sides(
        _total(one.base_ms for one in known),
        _total(one.head_ms for one in known),
        _total(one.base_count for one in known),
        _total(one.head_count for one in known),
    )


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# --- which boxes are drawn ------------------------------------------------------------------------


def pruned(root: Node, most: int) -> Node:
    """The tree with its widest boxes: each parent has one for those that are not drawn."""
    return _with(root, _widest(root, most))


def _widest(root: Node, most: int) -> frozenset[int]:
    """The boxes that are drawn, by their identity, with room for one more in each parent."""
    least_ms = LEAST_SHARE * root.largest_ms
    wide = [pair for pair in _below(root) if pair[0].largest_ms >= least_ms]
    left = {id(root): len(root.children)}
    kept: list[int] = []
    boxes = 2
    # A parent is as wide as its widest child, and stands before it.
    for node, parent in sorted(wide, key=lambda pair: -pair[0].largest_ms):
        left[id(parent)] -= 1
        left[id(node)] = len(node.children)
        boxes += 1 + bool(node.children) - (not left[id(parent)])
        if boxes > most:
            break
        kept.append(id(node))
    return frozenset(kept)


def _with(node: Node, kept: frozenset[int]) -> Node:
    in_order = _in_order(node.children)
    rest = [child for child in in_order if id(child) not in kept]
    children = [_with(child, kept) for child in in_order if id(child) in kept]
    if len(rest) == 1:
        children.append(replace(rest[0], children=()))
    elif rest:
        children.append(replace(_parent("more", f"{len(rest)} more", rest), children=()))
    return replace(node, children=tuple(children))


def _below(node: Node) -> Iterator[tuple[Node, Node]]:
    """Each box below this one, with its parent."""
    for child in _in_order(node.children):
        yield child, node
        yield from _below(child)


def _in_order(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (-node.largest_ms, node.name))


def _boxes(node: Node, side: Side) -> int:
    return (node.ms(side) > 0) + sum(_boxes(child, side) for child in node.children)


# --- a drawing ------------------------------------------------------------------------------------


def _sides(tree: Tree) -> tuple[Side, ...]:
    return ("base", "head") if tree.has_base else ("head",)


def _drawing(tree: Tree, root: Node, side: Side, longest: int) -> Drawing:
    rows: list[list[Box]] = [[] for _ in tree.levels]

    def place(node: Node, start: float, depth: int, above: tuple[str, ...]) -> None:
        if node.ms(side) <= 0:
            return
        share = node.ms(side) / root.largest_ms
        title = _title(node, above, longest)
        rows[depth].append(_box(tree, node, side, start / root.largest_ms, share, title))
        within = (*above, node.label) if depth else above
        for child in node.children:
            place(child, start, depth + 1, within)
            start += child.ms(side)

    place(root, 0.0, 0, ())
    total = milliseconds(root.ms(side))
    return Drawing(side, total, tuple(tuple(row) for row in rows))


def _box(tree: Tree, node: Node, side: Side, start: float, share: float, title: str) -> Box:
    shaded = tree.shade(node)
    css = " ".join(filter(None, ("b", shaded, _outline(node))))
    name = value = ""
    if share >= LEAST_SHARE_WITH_TEXT:
        # Where the op comes from stands in the list; a box has room for the kernel.
        name = node.label.rpartition(" · ")[2] if node.level == "op" else node.label
        name = f"{mark(shaded)} {name}".lstrip()
        value = milliseconds(node.ms(side))
        if shaded != SAME and side == "head" and node.status is not Status.NEW:
            value += f" {delta_milliseconds(node.delta_ms or 0.0)}"
    return Box(percent(start), percent(share), css, title, name, value, shaded != SAME)


def _outline(node: Node) -> str:
    if node.level != "op":
        return {"more": "more", "not kept": "more"}.get(node.level, "")
    return {Status.NEW: "new", Status.GONE: "gone"}.get(node.status or Status.BOTH, "")


def _longest_name(root: Node, most: int) -> int:
    boxes = max(_boxes(root, "base"), _boxes(root, "head"))
    return min(max(OF_A_TITLE * most // boxes, LEAST_OF_A_NAME), LONGEST_NAME)


def _title(node: Node, above: tuple[str, ...], longest: int) -> str:
    """The full name, where it stands, and both times with the launches."""
    where = " · ".join(above)
    was = f"was {plain(node.was, longest)}" if node.was else ""
    numbers = ", ".join(filter(None, (_times(node), launches(node.sides))))
    return "\n".join(filter(None, (plain(node.name, longest), was, where, numbers)))


def _times(node: Node) -> str:
    """`12.3 → 14.5 ms (+2.2 ms)`, or which side does not have it."""
    sides = node.sides
    if node.status is Status.NEW:
        return f"new: {milliseconds(sides.head_ms or 0.0)}"
    if node.status is Status.GONE:
        return f"gone: {milliseconds(sides.base_ms or 0.0)} before"
    if node.status in (Status.NOT_KEPT_IN_BASE, Status.NOT_KEPT_IN_HEAD):
        return f"{milliseconds(node.largest_ms)}, {node.status.value}"
    change = "" if node.delta_ms is None else f" ({delta_milliseconds(node.delta_ms)})"
    return f"{_from_to(node)}{change}"


def _from_to(node: Node) -> str:
    base, head = node.sides.base_ms, node.sides.head_ms
    if base is None or head is None:
        return milliseconds(node.largest_ms)
    return f"{three_digits(base)} → {milliseconds(head)}"


def launches(sides: Sides) -> str:
    """`7 → 9 launches`, of the side alone that has any, or nothing where they were not counted."""
    known = [count for count in (sides.base_count, sides.head_count) if count]
    shown = list(dict.fromkeys(f"{count:,.0f}" for count in known))
    if not shown:
        return ""
    return f"{' → '.join(shown)} launch{'' if shown[-1] == '1' else 'es'}"


# --- the same as a list ---------------------------------------------------------------------------


def _lines(node: Node) -> tuple[Line, ...]:
    """What stands below a box, the largest change first."""
    in_order = sorted(node.children, key=lambda child: (-abs(child.delta_ms or 0.0), child.name))
    return tuple(
        Line(child.label, _line_times(child), _change(child), _lines(child)) for child in in_order
    )


def _line_times(node: Node) -> str:
    if node.status in (Status.NOT_KEPT_IN_BASE, Status.NOT_KEPT_IN_HEAD):
        return _times(node)
    return _from_to(node)


def _change(node: Node) -> str:
    if node.status in (Status.NEW, Status.GONE):
        return f"{node.status.value} {delta_milliseconds(node.delta_ms or 0.0)}"
    return "" if node.delta_ms is None else delta_milliseconds(node.delta_ms)


# --- around it ------------------------------------------------------------------------------------


def _basis(case: Judged) -> str:
    found = case.explanation or case.timeline
    return found.basis if found is not None else ""


def _has_base(case: Judged) -> bool:
    """Whether the record has the base's ops; of older ones only those that changed are known."""
    return case.base is not None and bool(case.base.step_ops.names)


def _has_layers(found: JoinedOps) -> bool:
    return any(place.layer is not None for op in found.ops for place in op.places)


def _step(case: Judged) -> str:
    """The step's own time, which is another: kernels overlap, and a device waits."""
    found = case.explanation
    if found is not None:
        base, head = three_digits(found.base_step_ms), milliseconds(found.head_step_ms)
        return f"; the step: {base} → {head}"
    step_ms = case.timeline.step_ms if case.timeline else case.scorecard.step_time_ms
    return f"; the step: {milliseconds(step_ms)}" if step_ms > 0 else ""


def _lacks(tree: Tree) -> str:
    """Which levels the profile lacks."""
    lacking = [level for level in ("phase", "kind") if level not in tree.levels]
    if len(lacking) > 1:
        return "The profile tells neither phases nor kinds of ops, so both levels are left out."
    words = {"phase": "phases", "kind": "kinds of ops"}
    return "".join(
        f"The profile tells no {words[level]}, so that level is left out." for level in lacking
    )


def _key(tree: Tree) -> str:
    """What the colours mean."""
    if not tree.has_base:
        return ""
    least, _, _, most = (milliseconds(share * tree.largest_delta_ms) for share in STEPS)
    if not tree.largest_delta_ms:
        return "No op changed."
    return (
        f"Colour is the change in time: grey below {least}, full colour from {most} on. A box too"
        " narrow for ▲ or ▼ is hatched; an outlined one is new, or gone."
    )


def _step_bars(case: Judged) -> tuple[StepBar, ...]:
    """The step of each side by its parts, with the time in which the device was idle."""
    stack = figures.device_stack(case) or figures.phase_stack(case)
    if stack is None:
        return ()
    names = {row.number: row.name for row in stack.legend}
    return tuple(
        StepBar(
            bar.side,
            bar.total,
            tuple(
                _step_part(
                    segment, names[segment.number], stack.legend[segment.number - 1].times[place]
                )
                for segment in bar.segments
            ),
        )
        for place, bar in enumerate(stack.bars)
    )


def _step_part(segment: figures.Segment, name: str, ms: float) -> StepPart:
    css = "idle" if name in _IDLE else _COLOURS[(segment.number - 1) % len(_COLOURS)]
    return StepPart(segment.start, segment.width, css, plain(name), milliseconds(ms))

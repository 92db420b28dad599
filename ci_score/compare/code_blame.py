"""Definitions and lines on both sides → the one that explains a change, and where to warn.

What explains a change has to explain half of it, whatever else could be true: a statement that is
new may do the work of one that is gone, and all work may take longer than before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from ci_score.compare.code_rows import MORE_OFTEN, DefinitionRow, LineRow
from ci_score.model.code_changes import CallerChange, DefinitionChange, LineChange, Warned
from ci_score.model.explanation import LEAST_EXPLAINED, LEAST_SHARE_OF_STEP
from ci_score.model.metrics import counts_agree
from ci_score.model.step_code import MOST_WITHOUT_LINE, CodeWork, StepCode
from ci_score.model.sums import plain_sum, weighted_median
from ci_score.model.values import four_digits

MOST_WARNED = 3
# Other work says how much longer everything takes only where it is at least this share of it.
LEAST_REST, LEAST_REST_OF_LINE = 0.1, 0.5
# Two launches of one program differ by so much in what a function takes.
LEAST_OF_SAME_WORK = 0.25
# What is at least this share of a change is worth more than noise that looks like all of it.
LEAST_BESIDE = 0.1
Amount = Callable[[CodeWork], float]
Ends = tuple[float, float]
OtherWork = Literal["calls", "path", "work", "backward"]


def work_ms(work: CodeWork) -> float:
    """What a line takes: the time of Python before it may be another line's."""
    return work.ms


def whole_ms(work: CodeWork) -> float:
    """What a definition takes, with the time of Python in between."""
    return work.ms + work.python_ms


def peak_bytes(work: CodeWork) -> float:
    """What it had allocated of the peak."""
    return float(work.peak_bytes)


@dataclass(frozen=True, slots=True)
class Guilty:
    """The row that explains most of a change, its line, and of one that was not touched why."""

    row: DefinitionRow
    share: float
    line: LineRow | None = None
    by: OtherWork | None = None
    caller: CallerChange | None = None


@dataclass(slots=True)
class Growth:
    """How much a number changed between base and head, and which rows that may be.

    `hidden` is what had no line of its own on each side, so that it may have one on the other.
    `step` is the time of the step itself, which has to change the same way. `names_lines` says that
    a line may be named, and `knows_lines` that one may be warned of.
    """

    base: float
    head: float
    of_definition: Amount
    of_line: Amount
    hidden: Ends
    rows: Sequence[DefinitionRow]
    knows_lines: bool
    names_lines: bool
    step: Ends | None = None
    _all: Ends = (0.0, 0.0)
    _same: Ends = (0.0, 0.0)
    _lost: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = [line for row in self.rows for line in row.lines]
        self._all = _sum(self._ends(row.change, self.of_definition) for row in self.rows)
        self._same = _sum(self._ends(one.change, self.of_line) for one in lines if one.is_same)
        for row in self.rows:
            gone = (one for one in row.lines if self._is_lost(one))
            self._lost[id(row)] = _sum(self._ends(one.change, self.of_definition) for one in gone)[
                0
            ]
        before, after = self.hidden if self.is_more else self.hidden[::-1]
        self._lost[0] = max(before - after, 0.0)

    @property
    def is_more(self) -> bool:
        """Whether it grew; what shrank is read the other way round."""
        return self.head > self.base

    @property
    def is_notable(self) -> bool:
        """Whether it changed at all, and the step with it."""
        if min(self.base, self.head) <= 0:
            return False
        if abs(self.head - self.base) < LEAST_SHARE_OF_STEP * self.base:
            return False
        if self.step is None:
            return True
        delta = self.step[1] - self.step[0]
        return delta * (self.head - self.base) > 0 and abs(delta) >= (
            LEAST_SHARE_OF_STEP * self.step[0]
        )

    @property
    def whole(self) -> float:
        """What is to be explained: the change of the step, where that is more."""
        step = abs(self.step[1] - self.step[0]) if self.step else 0.0
        return max(abs(self.head - self.base), step)

    def counts(self, one: DefinitionChange) -> bool:
        """Whether a definition can be named, and its change is its own."""
        is_noise = one.is_noise and self.of_line is not peak_bytes
        return bool(one.name or one.file) and not is_noise

    def share_of(self, row: DefinitionRow) -> float:
        """Which share of the change a definition explains at least."""
        before, after = self._ends(row.change, self.of_definition)
        rest = self._all[0] - before, self._all[1] - after
        alike = before * _ratio(rest, LEAST_REST * self._all[0])
        return self.grew(row.change) - (self._replaced(row) + alike) / self.whole

    def does_more(self, row: DefinitionRow) -> bool:
        """Whether a definition does other work than before, and more of it than is gone."""
        more = self.grew(row.change) - self._replaced(row) / self.whole
        return more >= LEAST_BESIDE and not does_same_work(row)

    def _replaced(self, row: DefinitionRow) -> float:
        """What its new statements may do of the work that others did."""
        fresh = (one for one in row.lines if self._is_fresh(one))
        new = _sum(self._ends(one.change, self.of_definition) for one in fresh)[1]
        return min(new, plain_sum(self._lost.values()) - self._lost[id(row)])

    def share_of_line(self, row: DefinitionRow, line: LineRow) -> float:
        """Which share of the change the statement explains at least."""
        before, after = self._ends(line.change, self.of_line)
        beside = _sum(
            self._ends(one.change, self.of_line)
            for one in row.lines
            if one.is_same and one is not line
        )
        own = self._ends(line.change, self.of_line) if line.is_same else (0.0, 0.0)
        rest = self._same[0] - own[0], self._same[1] - own[1]
        ratio = max(
            _ratio(rest, LEAST_REST * self._all[0]), _ratio(beside, LEAST_REST_OF_LINE * before)
        )
        replaced = min(after, plain_sum(self._lost.values())) if self._is_fresh(line) else 0.0
        return (after - before - before * ratio - replaced) / self.whole

    def may_be_the_caller_s(self, row: DefinitionRow, line: LineRow) -> bool:
        """Whether a changed caller may be why it runs more often: no line beside it tells."""
        launches = line.change.base.launches, line.change.head.launches
        if not launches[0] or launches[1] <= MORE_OFTEN * launches[0]:
            return False
        beside = (one for one in row.lines if one.is_same and one is not line)
        known = _sum(self._ends(one.change, self.of_line) for one in beside)[0]
        if known and known >= LEAST_REST_OF_LINE * self.of_line(line.change.base):
            return False
        return any(one.touched and self.launches_more(one) for one in row.callers)

    def grew(self, one: DefinitionChange | CallerChange) -> float:
        """The share of the whole change that is this definition's, in all or for one caller."""
        before, after = self._ends(one, self.of_definition)
        return (after - before) / self.whole

    def launches_more(self, one: CallerChange) -> bool:
        """Whether most of what it takes more for a caller is in more launches."""
        before, after = self._ends(one, self.of_definition)
        launches = self._ends(one, lambda work: work.launches)
        if not launches[0]:
            return launches[1] > 0
        by_count = (launches[1] / launches[0] - 1.0) * before
        return by_count >= LEAST_EXPLAINED * (after - before) > 0

    def calls_more(self, one: CallerChange) -> bool:
        """Whether a caller calls it more often, or less where that is what is explained."""
        before, after = self._ends(one, lambda work: work.calls)
        return after > before

    def _ends(self, one: DefinitionChange | LineChange | CallerChange, amount: Amount) -> Ends:
        ends = amount(one.base), amount(one.head)
        return ends if self.is_more else ends[::-1]

    def _is_fresh(self, line: LineRow) -> bool:
        return not (line.in_base if self.is_more else line.in_head)

    def _is_lost(self, line: LineRow) -> bool:
        return not (line.in_head if self.is_more else line.in_base)


def _sum(ends: Iterable[Ends]) -> Ends:
    rows = list(ends)
    return plain_sum(before for before, _ in rows), plain_sum(after for _, after in rows)


def _ratio(ends: Ends, least: float) -> float:
    """How much longer other work takes, as a share; nothing where there is too little of it."""
    before, after = ends
    return max(after / before - 1.0, 0.0) if before > 0 and before >= least else 0.0


def growth_of_time(
    head: StepCode, base: StepCode, rows: Sequence[DefinitionRow], step: Ends | None
) -> Growth:
    """How the work that the code launches changed, and the time of Python between."""
    python = _sum((row.change.base.python_ms, row.change.head.python_ms) for row in rows)
    return Growth(
        base=base.total_ms + python[0],
        head=head.total_ms + python[1],
        of_definition=whole_ms,
        of_line=work_ms,
        hidden=(base.without_line_ms + base.left_out_ms, head.without_line_ms + head.left_out_ms),
        rows=rows,
        knows_lines=head.knows_lines and base.knows_lines,
        names_lines=_names_lines(head) and _names_lines(base),
        step=step,
    )


def growth_of_memory(head: StepCode, base: StepCode, rows: Sequence[DefinitionRow]) -> Growth:
    """How the memory in use at the peak changed."""
    return Growth(
        base=float(base.peak_bytes),
        head=float(head.peak_bytes),
        of_definition=peak_bytes,
        of_line=peak_bytes,
        hidden=(float(base.peak_without_line), float(head.peak_without_line)),
        rows=rows,
        knows_lines=head.knows_lines and base.knows_lines,
        names_lines=_names_lines(head) and _names_lines(base),
    )


def _names_lines(code: StepCode) -> bool:
    """Whether its lines are lines: of stacks they are whole functions."""
    return code.found_by != "stacks" and code.share_without_line <= MOST_WITHOUT_LINE


# --- who it is ------------------------------------------------------------------------------------


def other_work(row: DefinitionRow) -> OtherWork | None:
    """What a function does otherwise that nobody changed; None where it does the same, or more.

    Without its calls nobody knows which of them it is.
    """
    change = row.change
    base, head = change.base, change.head
    is_counted = bool(head.calls) and (bool(base.calls) or change.status == "new")
    if change.touched is not False or not is_counted:
        return None
    if not counts_agree(base.calls, head.calls):
        return "calls"
    if not counts_agree(base.forward_launches, head.forward_launches):
        # Of one side alone are lines of another path; else a line does other work than before.
        other = plain_sum(one.change.base.launches + one.change.head.launches
                          for one in row.lines if one.in_head != one.in_base)  # fmt: skip
        more = abs(head.launches - base.launches)
        return "path" if other >= LEAST_EXPLAINED * more else "work"
    same = counts_agree(base.backward_launches, head.backward_launches)
    return None if same else "backward"


def guilty(growth: Growth) -> Guilty | None:
    """The definition that explains at least half, those before all that the diff touches."""
    if not growth.is_notable:
        return None
    named = [row for row in growth.rows if growth.counts(row.change)]
    found = [(growth.share_of(row), row) for row in named]
    others = any(map(growth.does_more, named))
    # What does the same work is not to blame where something else does more.
    enough = [(share, row) for share, row in found
              if share >= LEAST_EXPLAINED and not (others and does_same_work(row))]  # fmt: skip
    if not enough:
        return _guilty_caller(growth)
    share, row = min(enough, key=lambda one: (one[1].change.touched is not True, -one[0]))
    line, by = _line_of(growth, row), other_work(row)
    return Guilty(row, min(share, 1.0), line, by, _caller_of(growth, row, by))


def _line_of(growth: Growth, row: DefinitionRow) -> LineRow | None:
    if not growth.names_lines:
        return None
    rows = [
        (growth.share_of_line(row, line), place, line)
        for place, line in enumerate(row.lines)
        if line.change.line is not None or line.change.base_line is not None
    ]
    share, _, line = max(rows, default=(0.0, 0, None), key=lambda one: (one[0], -one[1]))
    return line if share >= LEAST_EXPLAINED else None


def _caller_of(growth: Growth, row: DefinitionRow, by: OtherWork | None) -> CallerChange | None:
    """The caller that most of it is for: it calls more often, or was touched."""
    least = LEAST_EXPLAINED * growth.share_of(row)
    rows = [
        one
        for one in row.callers
        if growth.grew(one) >= least
        and (growth.calls_more(one) if by == "calls" else by and one.touched)
    ]
    return min(
        rows,
        key=lambda one: (one.touched is not True, -growth.grew(one), one.name),
        default=None,
    )


def _guilty_caller(growth: Growth) -> Guilty | None:
    """A definition that the diff touches, with all that it calls more of: no callee is half."""
    by_caller: dict[tuple[str, str | None, int | None], float] = {}
    for row in growth.rows:
        for one in row.callers:
            if row.change.touched is not True and one.touched and growth.launches_more(one):
                key = (one.name, one.file, one.line)
                by_caller[key] = by_caller.get(key, 0.0) + growth.grew(one)
    found: list[tuple[float, DefinitionRow]] = []
    for row in growth.rows:
        key = (row.change.name, row.change.file, row.change.first)
        if key in by_caller:
            found.append((max(growth.share_of(row), 0.0) + by_caller[key], row))
    if not found:
        return None
    share, row = max(found, key=lambda one: one[0])
    return Guilty(row, min(share, 1.0)) if share >= LEAST_EXPLAINED else None


# --- noise ----------------------------------------------------------------------------------------


def with_noise(
    rows: Sequence[DefinitionRow], *, is_more: bool, is_disturbed: bool = False
) -> list[DefinitionRow]:
    """The functions, with a note at those that do the same work and differ as such functions do.

    All of those may take longer, as on a busy machine, and some of them less, by chance. Where the
    launch itself was disturbed, all that do the same work do.
    """
    same = {
        place: (whole_ms(row.change.base), whole_ms(row.change.head))
        for place, row in enumerate(rows)
        if does_same_work(row)
    }
    found = list(rows)
    for place, ends in same.items():
        others = [same[other] for other in same if other != place]
        is_noise = is_disturbed or not _stands_out(ends, others, is_more=is_more)
        found[place] = replace(rows[place], change=rows[place].change.but(is_noise=is_noise))
    return found


def _stands_out(ends: Ends, others: Sequence[Ends], *, is_more: bool) -> bool:
    known = [(after / before, before) for before, after in others if before > 0]
    times, sign = weighted_median(known) or 1.0, 1 if is_more else -1
    # A machine that was slower beside the faster step explains nothing.
    times = max(times, 1.0) if is_more else min(times, 1.0)

    def beyond(one: Ends) -> float:
        return sign * (one[1] - times * one[0])

    least = max([LEAST_OF_SAME_WORK * times * ends[0], *(-beyond(one) for one in others)])
    return beyond(ends) > least


def does_same_work(row: DefinitionRow) -> bool:
    """Whether its text is the same, and it is called and launches as often as before."""
    change = row.change
    is_same = change.touched is False or all(line.is_same for line in row.lines)
    if change.touched or not is_same or change.status != "changed":
        return False
    return counts_agree(change.base.calls, change.head.calls) and counts_agree(
        change.base.launches, change.head.launches
    )


# --- where to warn --------------------------------------------------------------------------------


def warned(time: Growth, memory: Growth) -> tuple[Warned, ...]:
    """Changed lines whose own statement explains at least half of a growth."""
    of_each = (sorted(_warned(one), key=lambda row: -row.share) for one in (time, memory))
    # A verdict may be on one of both alone: its largest stays.
    in_turns = [row for pair in zip_longest(*of_each) for row in pair if row is not None]
    return tuple(in_turns[:MOST_WARNED])


def _warned(growth: Growth) -> Iterator[Warned]:
    if not growth.knows_lines or not growth.is_notable or not growth.is_more:
        return
    for row in growth.rows:
        for line in row.lines if row.change.touched else ():
            change = line.change
            share = growth.share_of_line(row, line) if change.changed_line is not None else 0.0
            if growth.may_be_the_caller_s(row, line):
                continue
            if share < LEAST_EXPLAINED or row.change.file is None or change.changed_line is None:
                continue
            is_memory, explained = growth.of_line is peak_bytes, share * growth.whole
            yield Warned(
                file=row.change.file,
                line=change.changed_line,
                name=row.change.name,
                delta_ms=0.0 if is_memory else four_digits(explained),
                delta_bytes=round(explained) if is_memory else 0,
                share=min(share, 1.0),
            )

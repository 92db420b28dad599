"""Which of a case's numbers are shown, in which order and words: the same for every renderer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ci_score.files.visible import log_line
from ci_score.model.explanation import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    Contribution,
    Explanation,
    LayersAre,
    OpChange,
    Part,
)
from ci_score.model.lists import listed
from ci_score.model.metrics import (
    HOST_OPS,
    LAUNCHES,
    MEMORY,
    STEP_TIME,
    THROUGHPUT,
    metric_named,
    metric_of,
    slower_by,
    tell_same_time,
    time_change,
)
from ci_score.model.profile import OpOrigin
from ci_score.model.reasons import Why
from ci_score.model.record import Judged, Record
from ci_score.model.sums import plain_sum
from ci_score.model.verdict import Change, JudgedBy, Outcome, decisive
from ci_score.report import words
from ci_score.report.cause_words import Sentence
from ci_score.report.kernel_names import op_label
from ci_score.report.names_of_case import names_of_case
from ci_score.report.numbers import common_places, delta_at
from ci_score.report.sentences import (
    acceptance_notices,
    accepted_words,
    bases_unchecked,
    change_sentence,
    sentence,
    sentences,
)

# What teams quote comes first; of the others only what matters is shown before the folds.
FIRST = (THROUGHPUT, "mfu", STEP_TIME, MEMORY, LAUNCHES, HOST_OPS)
LEAST_SHARE_OF_CHANGE = 0.03
LEAST_SHARE_OF_OP = 0.01
ROUNDING = 1e-9
# Of the step: what changed by less is not shown as a change.
LEAST_MOVED = 0.0005
SHOWN_HOTSPOTS = 10


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A line of the table of metrics."""

    label: str
    base: str
    head: str
    change: str
    verdict: str
    limit: str


def metric_rows(case: Judged, *, whole: bool = False) -> list[MetricRow]:
    """A row for each decision, or with `whole` also for what was not judged, the decisions first.

    The step's time and its throughput are one decision where the work is the same.
    """
    changes = sorted(case.changes, key=_place)
    decided = [change for change in changes if _is_decided(change, changes)]
    # What went wrong comes first.
    decided.sort(key=lambda change: -_badness(change, changes))
    rest = [change for change in changes if change not in decided] if whole else []
    shown = [row for row in map(_row_of(changes), (*decided, *rest)) if row is not None]
    verdict = case.verdict
    if verdict is None or not verdict.decided_by or verdict.outcome is not Outcome.INCONCLUSIVE:
        return shown
    # Something forbids green: a number within its limit is no pass beside it.
    passed = words.ICONS[Outcome.PASS]
    return [replace(row, verdict="") if row.verdict.startswith(passed) else row for row in shown]


def is_compared(case: Judged) -> bool:
    """Whether its numbers may be compared with the baseline's, where there is a verdict."""
    verdict = case.verdict
    if verdict is None or verdict.outcome is not Outcome.INCONCLUSIVE:
        return True
    return verdict.decided_by is None or any(one.outcome is not None for one in case.changes)


def undecided_rows(case: Judged) -> list[MetricRow]:
    """The metrics without a limit, or without a second number to compare with."""
    shown = metric_rows(case) if is_compared(case) else []
    measured = {metric_of(change).label for change in case.changes if change.base or change.head}
    rest = [row for row in metric_rows(case, whole=True) if row not in shown]
    return [row for row in rest if row.label in measured]


def _place(change: Change) -> int:
    return FIRST.index(change.metric) if change.metric in FIRST else len(FIRST)


def _is_decided(change: Change, changes: Sequence[Change]) -> bool:
    if change.outcome not in (None, Outcome.PASS) or change.accepted:
        return True
    if change.delta is not None:
        without_limits = not any(one.gated for one in changes)
        gated = change.gated or (without_limits and change.metric in FIRST)
        return gated or (change.metric in TIME_PAIR and twin_of(change, changes) is not None)
    # That a step of another size was not compared is worth a line, unless another time was.
    is_on_both = bool(change.base and change.head)
    others = (one for one in changes if one.metric in TIME_PAIR and one.delta is not None)
    return change.gated and is_on_both and not any(others)


def _badness(change: Change, changes: Sequence[Change]) -> int:
    both = [one for one in (change, twin_of(change, changes)) if one is not None and one.outcome]
    return max((list(Outcome).index(one.outcome) for one in both if one.outcome), default=0)


TIME_PAIR = (STEP_TIME, THROUGHPUT)


def twin_of(change: Change, changes: Iterable[Change]) -> Change | None:
    """The throughput beside a step's time, or the time beside it, where both are one fact."""
    if change.metric not in TIME_PAIR:
        return None
    other = next((one for one in changes if one.metric in TIME_PAIR and one is not change), None)
    if other is None:
        return None
    pair = (change, other) if change.metric == STEP_TIME else (other, change)
    return other if tell_same_time(*pair) else None


def _row_of(changes: Sequence[Change]) -> Callable[[Change], MetricRow | None]:
    def row(change: Change) -> MetricRow | None:
        twin = twin_of(change, changes)
        if twin is None:
            return _row(change)
        # One row for both, in the place of the throughput, which comes first.
        return _row_of_time(twin, change) if change.metric == THROUGHPUT else None

    return row


def _row(change: Change) -> MetricRow:
    return MetricRow(
        metric_of(change).label,
        words.show_side(change, change.base),
        words.show_side(change, change.head),
        words.delta_words(change),
        words.outcome_words(change),
        words.limit(change),
    )


def _row_of_time(step: Change, throughput: Change) -> MetricRow:
    """The step's times with the worse outcome of both, or else that of the stricter limit."""
    decides = deciding_time(step, throughput)
    return MetricRow(
        metric_of(step).label,
        words.show_side(step, step.base),
        words.show_side(step, step.head),
        words.time_interval(decides),
        words.outcome_words(decides),
        words.limit_of_time(decides),
    )


def deciding_time(step: Change, throughput: Change) -> Change:
    """Which of the two decides: the worse outcome, then the stricter limit."""
    order = [None, *Outcome]

    def strictness(change: Change) -> tuple[int, bool, float]:
        has_limit = change.gated and change.fail_limit is not None
        return order.index(change.outcome), has_limit, -words.limit_in_time(change)

    return max(step, throughput, key=strictness)


def decision_in_time(changes: Sequence[Change]) -> Change | None:
    """The one decision on the step and its throughput, as a change of the step; else None."""
    times = {change.metric: change for change in changes if change.metric in TIME_PAIR}
    if len(times) < len(TIME_PAIR) or not tell_same_time(*(times[name] for name in TIME_PAIR)):
        return None
    step, throughput = (times[name] for name in TIME_PAIR)
    decides = deciding_time(step, throughput)
    if decides is step:
        return step
    ends = [_in_time(decides, end) for end in (decides.high, decides.low)]
    limits = [
        _in_time(decides, -limit if limit else limit)
        for limit in (decides.warn_limit, decides.fail_limit)
    ]
    same = ("gated", "outcome", "accepted", "judged_by", "samples", "reasons")
    return step.but(
        delta=slower_by(decides),
        low=ends[0],
        high=ends[1],
        warn_limit=limits[0],
        fail_limit=limits[1],
        **{name: getattr(decides, name) for name in same},
    )


def _in_time(change: Change, delta: float | None) -> float | None:
    return None if delta is None else slower_by(change.but(delta=delta))


def overview_metric(cases: Iterable[Judged]) -> str:
    """The heading over the changes of several cases: all of them are told as time."""
    return "Time" if any(time_change(case) is not None for case in cases) else ""


# --- where the time went ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartRow:
    """A line of the table that sums to the change of the step."""

    name: str
    base_ms: float
    head_ms: float
    is_sum: bool = False

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


def has_moved(explanation: Explanation) -> bool:
    """Whether the step or a part of it changed by more than a rounding of its time."""
    least = LEAST_MOVED * max(explanation.base_step_ms, explanation.head_step_ms)
    deltas = (explanation.delta_ms, *(part.delta_ms for part in explanation.parts))
    return any(abs(delta) > least for delta in deltas)


def part_rows(explanation: Explanation) -> list[PartRow]:
    """The parts whose time changed, the others together, and their sum."""
    least = LEAST_SHARE_OF_CHANGE * abs(explanation.delta_ms)
    large = [part for part in explanation.parts if abs(part.delta_ms) >= least]
    # What is left where the parts are the whole step is an error of rounding.
    nothing = ROUNDING * max(explanation.base_step_ms, explanation.head_step_ms)
    small = [part for part in explanation.parts if abs(part.delta_ms) < least
             and max(abs(part.base_ms), abs(part.head_ms)) > nothing]  # fmt: skip
    rows = [_part(part) for part in sorted(large, key=lambda part: -abs(part.delta_ms))]
    if small:
        rows.append(
            PartRow(
                "all other parts" if large else "all parts",
                plain_sum(part.base_ms for part in small),
                plain_sum(part.head_ms for part in small),
            )
        )
    return [*rows, PartRow("step", explanation.base_step_ms, explanation.head_step_ms, is_sum=True)]


def _part(part: Part) -> PartRow:
    return PartRow(part.name, part.base_ms, part.head_ms)


# Kinds of work that the device can do beside others -> the part of the step that they may fill.
_OWN_PART = {"comm": COMMUNICATION, "memcpy": COPIES, "memset": COPIES}
MOST_EXPLAINING = 3


def explaining_ops(explanation: Explanation, most: int = MOST_EXPLAINING) -> list[OpChange]:
    """The ops that explain most of the change, in the parts of the step that changed so, too.

    Of work that nothing waits for, such as hidden communication, the step does not become longer.
    """
    sign = 1 if explanation.delta_ms >= 0 else -1
    parts = {part.name: sign * part.delta_ms for part in explanation.parts}
    is_of_device = COMPUTE in parts
    least = LEAST_SHARE_OF_CHANGE * abs(explanation.delta_ms)

    def explains(op: OpChange) -> float:
        own = _OWN_PART.get(op.kind, COMPUTE if is_of_device else None)
        in_part = parts.get(own, 0.0) if own else abs(explanation.delta_ms)
        return min(sign * op.delta_ms, in_part)

    ranked = sorted(explanation.ops, key=lambda op: (-explains(op), -abs(op.delta_ms), op.name))
    return [op for op in ranked if explains(op) >= least][:most] if least > 0 else []


def changed_ops(explanation: Explanation) -> list[OpChange]:
    """The ops that are worth a line beside the change of the step."""
    least = LEAST_SHARE_OF_OP * abs(explanation.delta_ms)
    return [op for op in explanation.ops if abs(op.delta_ms) >= least]


def op_names(explanation: Explanation) -> dict[str, str]:
    """What each op that changed is called in a comment, by its full name."""
    origins = {op.name: op.origin for op in explanation.ops}
    return names_of_case({op.was: op.origin for op in explanation.ops if op.was} | origins)


def place_label(place: Contribution) -> str:
    """The name of a phase, an op or a layer whose time changed."""
    return op_label(place.name) if place.kind == "op" else place.name


WIDEST_BAR, WIDEST_PART = 12, 28


def part_bars(explanation: Explanation) -> list[str]:
    """Where the time went as lines of text: a part, its change, and a bar, the longest first.

    A part that took less has a light bar. The bars stand at the end, so that no font moves them.
    """
    changed = [row for row in part_rows(explanation) if not row.is_sum and row.delta_ms]
    places, largest = common_places(changed), max((abs(row.delta_ms) for row in changed), default=0)
    shown = [
        (log_line(row.name, WIDEST_PART), delta_at(row.delta_ms, places), row.delta_ms / largest)
        for row in changed
        if round(WIDEST_BAR * abs(row.delta_ms / largest))
    ]
    names = max((len(name) for name, _, _ in shown), default=0)
    deltas = max((len(delta) for _, delta, _ in shown), default=0)
    return [
        f"{name:<{names}}  {delta:>{deltas}}  "
        + ("█" if share > 0 else "░") * round(WIDEST_BAR * abs(share))
        for name, delta, share in sorted(shown, key=lambda line: -abs(line[2]))
    ]


def layer_word(are: LayersAre) -> str:
    """What a layer of the table is called; kernels that repeat may be something else."""
    return "repeat" if are.kind == "repeats" else "layer"


def layers_title(are: LayersAre) -> str:
    """`Layers (97 % of kernel time)`, or how much of it a sequence that repeats takes."""
    title = f"{layer_word(are).capitalize()}s"
    return title if are.share is None else f"{title} ({100 * are.share:.0f} % of kernel time)"


def origin_of(case: Judged, op: str) -> OpOrigin | None:
    """Where all launches of an op come from, if the record tells it."""
    detail = case.op_details.get(op)
    return detail.origin if detail else None


def hotspots(case: Judged) -> list[tuple[str, float, float]]:
    """The ops with most time and their share of all: without layers those of the whole step."""
    if case.scorecard.hotspot_ops:
        return list(case.scorecard.hotspot_ops)
    total = plain_sum(work.ms for _, work in sorted(case.categories.items()))
    largest = sorted(case.ops, key=lambda name: (-case.ops[name], name))[:SHOWN_HOTSPOTS]
    return [(name, case.ops[name], 100 * case.ops[name] / total) for name in largest if total > 0]


# --- the reasons beside the numbers ---------------------------------------------------------------

# The table already shows these.
_PLAIN = (Why.REFERENCE_LIMIT, Why.ONE_NUMBER, Why.PROVEN_BEYOND)


def reasons(case: Judged, *, below_headline: bool = False) -> list[Sentence]:
    """The reasons that the table does not show: why it is not proven, what limits the verdict.

    Below the case's headline the one that it tells is left out.
    """
    if case.verdict is None:
        return []
    unclear = case.verdict.outcome is Outcome.INCONCLUSIVE and case.verdict.decided_by is None
    told = decisive(case.changes) if below_headline and unclear else None
    return [
        *_reasons_of_changes(case.changes, told),
        *_accepted(case),
        *(_lost_gate(change) for change in case.changes if _is_lost_gate(change)),
        *sentences(case.verdict.reasons),
    ]


def _accepted(case: Judged) -> Iterator[Sentence]:
    """Each acceptance once, with all metrics that it covers."""
    labels: dict[str, list[str]] = {}
    for change in case.changes:
        if change.accepted:
            label = metric_of(change).label
            labels.setdefault(accepted_words(change.accepted), []).append(label)
    for accepted, covered in labels.items():
        verb = "are" if len(covered) > 1 else "is"
        yield Sentence.of(f"{listed(covered)} {verb} accepted {accepted}")


def _has_a_reason(change: Change) -> bool:
    is_plain = len(change.reasons) == 1 and change.reasons[0].code in _PLAIN
    return change.outcome not in (None, Outcome.PASS) and bool(change.reasons) and not is_plain


def _reasons_of_changes(changes: Sequence[Change], told: Change | None) -> Iterator[Sentence]:
    """A sentence for each decision; a step's time and its throughput have one."""
    for change in changes:
        twin = twin_of(change, changes)
        if not _has_a_reason(change) or (told is not None and told in (change, twin)):
            continue
        if twin is not None and _has_a_reason(twin) and _decides(change, twin) is twin:
            continue
        label = metric_of(change).label if twin is None else metric_named(STEP_TIME).label
        yield Sentence.of(f"{label}, ", change_sentence(change, metric_of(change)))


def _decides(change: Change, twin: Change) -> Change:
    pair = (change, twin) if change.metric == STEP_TIME else (twin, change)
    return deciding_time(*pair)


def _is_lost_gate(change: Change) -> bool:
    """Whether only the baseline has a gated number; if the policy names it, it has a reason."""
    lost = change.delta is None and change.gated and change.base > 0 and not change.head
    return lost and change.outcome is None


def _lost_gate(change: Change) -> Sentence:
    why = sentence(change.not_compared) if change.not_compared else ""
    return Sentence.of(f"{metric_of(change).label} is not compared: ", why)


def notes(case: Judged) -> list[str]:
    """The notes on the numbers, and the policy's remarks."""
    remarks = sentences(case.verdict.remarks) if case.verdict else []
    return list(dict.fromkeys((*case.scorecard.notes, *remarks)))


def skipped(case: Judged) -> Sequence[str]:
    """The records that were looked at before its baseline, and why they were not used."""
    return sentences(case.baseline.skipped) if case.baseline else []


def notices(record: Record) -> list[str]:
    """The notices of the whole report."""
    unchecked = [one for one in record.notices if one.code is Why.BASE_UNCHECKED]
    if len(unchecked) < 2:
        unchecked = []
    others = [one for one in record.notices if one not in unchecked]
    together = [bases_unchecked(len(unchecked), unchecked[0])] if unchecked else []
    return [*together, *sentences(others), *acceptance_notices(record.acceptances)]


def unjudged_reasons(record: Record) -> list[Sentence]:
    """Why the report as a whole is not judged."""
    return sentences(record.unjudged.reasons) if record.unjudged else []


# --- one line of provenance ---------------------------------------------------------------------

_MEASURED = {
    JudgedBy.PAIRED: "{} pairs of launches of both sides",
    JudgedBy.HISTORY: "one run against {} runs of the branch",
    JudgedBy.ONE_NUMBER: "one run per side",
}


def provenance(case: Judged, record: Record, *, linked: bool = False) -> list[str]:
    """How it was measured, with what it was compared, on what, and whether it was the same work.

    Where the baseline's commit and run are `linked` already, its age alone is told.
    """
    parts = [*_measured(case)]
    if case.baseline is not None:
        is_known = linked and case.baseline.commit is not None
        tell = words.baseline_age if is_known else words.compared_with
        parts += filter(None, [tell(case.baseline)])
        parts += words.other_versions(case)
    if case.environment.accelerator:
        count = case.environment.accelerator_count
        parts.append(case.environment.accelerator + (f" × {count}" if count else ""))
    if case.tokens_per_step:
        parts.append(f"{case.tokens_per_step:,.0f} tokens a step")
    if case.changes:
        parts.append(f"{record.rules_of(case)} rules")
    return parts


def _measured(case: Judged) -> Iterable[str]:
    times = [change for change in case.changes if change.metric in (THROUGHPUT, STEP_TIME)]
    kinds = {change.judged_by: change for change in times if change.judged_by}
    for kind, text in _MEASURED.items():
        if kind in kinds:
            yield text.format(kinds[kind].samples)
            break
    timing = case.environment.timing
    if timing is not None and timing != "unprofiled":
        yield f"timed {'under the profiler' if timing == 'under a profiler' else timing}"


def knows_ops_of_layers(case: Judged) -> bool:
    """Whether any layer's largest op is known; the host's time of a module tells none."""
    return any(layer.top_op for layer in case.scorecard.per_layer_summary)


def calls_word(case: Judged) -> str:
    """What the counts of ops are: a host calls its operators, a device's work is launched."""
    return "calls" if _is_of_host(case) else "launches"


def work_word(case: Judged) -> str:
    """What the counts of functions are, which are themselves called."""
    return "operators" if _is_of_host(case) else "launches"


def _is_of_host(case: Judged) -> bool:
    found = case.explanation or case.timeline
    return found is not None and found.basis == "host"


# --- the whole report ---------------------------------------------------------------------------


def counted(record: Record) -> str:
    """`1 of 12 cases fails, 2 warn`: the whole report in a line."""
    outcomes = [case.verdict.outcome for case in record.cases if case.verdict]
    parts = [
        f"{outcomes.count(outcome)} {_COUNTED[outcome][outcomes.count(outcome) > 1]}"
        for outcome in _COUNTED
        if outcome in outcomes
    ]
    return f"{len(record.cases)} cases: {', '.join(parts)}" if parts else ""


_COUNTED = {
    Outcome.FAIL: ("fails", "fail"),
    Outcome.INCONCLUSIVE: ("is not judged", "are not judged"),
    Outcome.WARN: ("warns", "warn"),
    Outcome.PASS: ("passes", "pass"),
}


def by_outcome(cases: Sequence[Judged]) -> Iterator[tuple[str, list[Judged]]]:
    """`3 more fail` and which: cases by their verdict, the worst first."""
    for outcome, (one, several) in _COUNTED.items():
        found = [case for case in cases if case.verdict and case.verdict.outcome is outcome]
        if found:
            yield f"{len(found)} more {several if len(found) > 1 else one}", found


def counted_as(record: Record, outcome: Outcome) -> str:
    """`3 of 12 cases, worst: `, between the verdict and the worst case's name and headline."""
    cases = [case for case in record.cases if case.verdict and case.verdict.outcome is outcome]
    which = "first" if outcome is Outcome.INCONCLUSIVE else "worst"
    return f"{len(cases)} of {len(record.cases)} cases{f', {which}' * (len(cases) > 1)}: "

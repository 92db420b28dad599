"""Which of a case's numbers are shown, in which order and words: the same for every renderer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci_score.model.explanation import Contribution, Explanation, LayersAre, OpChange, Part
from ci_score.model.metrics import (
    HOST_OPS,
    LAUNCHES,
    MEMORY,
    STEP_TIME,
    THROUGHPUT,
    metric_of,
    time_change,
)
from ci_score.model.profile import OpOrigin
from ci_score.model.reasons import Why
from ci_score.model.record import Judged, Record
from ci_score.model.sums import plain_sum
from ci_score.model.verdict import Change, JudgedBy, Outcome, Unjudged
from ci_score.report import words
from ci_score.report.kernel_names import op_label
from ci_score.report.sentences import (
    acceptance_notices,
    accepted_words,
    change_sentence,
    sentence,
    sentences,
)

# What teams quote comes first; of the others only what matters is shown before the folds.
FIRST = (THROUGHPUT, "mfu", STEP_TIME, MEMORY, LAUNCHES, HOST_OPS)
LEAST_SHARE_OF_CHANGE = 0.03
LEAST_SHARE_OF_OP = 0.01
ROUNDING = 1e-9
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
    """The metrics that matter, or all: those that teams quote first, then what went wrong."""
    changes = sorted(case.changes, key=_place)
    return [_row(change) for change in changes if whole or _matters(change)]


def _place(change: Change) -> int:
    return FIRST.index(change.metric) if change.metric in FIRST else len(FIRST)


def _matters(change: Change) -> bool:
    if change.outcome not in (None, Outcome.PASS) or change.accepted:
        return True
    if change.metric not in FIRST:
        return False
    # The step time of a step of another size: that it was not compared is worth a line.
    return change.delta is not None or change.not_compared is not None


def _row(change: Change) -> MetricRow:
    metric = metric_of(change)
    return MetricRow(
        metric.label,
        metric.show_or_dash(change.base),
        metric.show_or_dash(change.head),
        words.delta_words(change),
        words.outcome_words(change),
        words.limit(change),
    )


def overview_metric(cases: Iterable[Judged]) -> str:
    """The heading over the changes of several cases, if all are of the same metric."""
    changes = [change for case in cases if (change := time_change(case)) is not None]
    labels = {metric_of(change).label for change in changes}
    return labels.pop() if len(labels) == 1 else ""


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


def changed_ops(explanation: Explanation) -> list[OpChange]:
    """The ops that are worth a line beside the change of the step."""
    least = LEAST_SHARE_OF_OP * abs(explanation.delta_ms)
    return [op for op in explanation.ops if abs(op.delta_ms) >= least]


def place_label(place: Contribution) -> str:
    """The name of a phase, an op or a layer whose time changed."""
    return op_label(place.name) if place.kind == "op" else place.name


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
_PLAIN = (Why.REFERENCE_LIMIT, Why.ONE_NUMBER)


def reasons(case: Judged) -> list[str]:
    """The reasons that the table does not show: why it is not proven, what limits the verdict."""
    if case.verdict is None:
        return []
    return [
        *(_reason(change) for change in case.changes if _has_a_reason(change)),
        *(
            f"{metric_of(change).label} is accepted {accepted_words(change.accepted)}"
            for change in case.changes
            if change.accepted
        ),
        *(_lost_gate(change) for change in case.changes if _is_lost_gate(change)),
        *sentences(case.verdict.reasons),
    ]


def _has_a_reason(change: Change) -> bool:
    is_plain = len(change.reasons) == 1 and change.reasons[0].code in _PLAIN
    return change.outcome not in (None, Outcome.PASS) and bool(change.reasons) and not is_plain


def _reason(change: Change) -> str:
    metric = metric_of(change)
    return f"{metric.label}, {change_sentence(change, metric)}"


def _is_lost_gate(change: Change) -> bool:
    """Whether only the baseline has a gated number; if the policy names it, it has a reason."""
    lost = change.delta is None and change.gated and change.base > 0 and not change.head
    return lost and change.outcome is None


def _lost_gate(change: Change) -> str:
    why = sentence(change.not_compared) if change.not_compared else ""
    return f"{metric_of(change).label} is not compared: {why}"


def notes(case: Judged) -> list[str]:
    """The notes on the numbers, and the policy's remarks."""
    remarks = sentences(case.verdict.remarks) if case.verdict else []
    return list(dict.fromkeys((*case.scorecard.notes, *remarks)))


def skipped(case: Judged) -> list[str]:
    """The records that were looked at before its baseline, and why they were not used."""
    return sentences(case.baseline.skipped) if case.baseline else []


def notices(record: Record) -> list[str]:
    """The notices of the whole report."""
    return [*sentences(record.notices), *acceptance_notices(record.acceptances)]


def unjudged_reasons(record: Record) -> list[str]:
    """Why the report as a whole is not judged."""
    return sentences(record.unjudged.reasons) if record.unjudged else []


# --- one line of provenance ---------------------------------------------------------------------

_MEASURED = {
    JudgedBy.PAIRED: "{} pairs of launches of both sides",
    JudgedBy.HISTORY: "one run against {} runs of the branch",
    JudgedBy.ONE_NUMBER: "one run per side",
}


def provenance(case: Judged, record: Record) -> list[str]:
    """How it was measured, with what it was compared, on what, and whether it was the same work."""
    parts = [*_measured(case)]
    if case.baseline is not None:
        parts.append(words.compared_with(case.baseline))
        parts += words.other_versions(case)
    if case.environment.accelerator:
        count = case.environment.accelerator_count
        parts.append(case.environment.accelerator + (f" × {count}" if count else ""))
    if case.tokens_per_step:
        parts.append(f"{case.tokens_per_step:,.0f} tokens a step")
    if case.changes:
        parts.append(f"{record.rules} rules")
    return parts


def shared_provenance(record: Record) -> list[str]:
    """The parts of the provenance that are the same for every compared case, to show them once."""
    lines = [provenance(case, record) for case in record.cases if case.changes]
    return [part for part in lines[0] if all(part in one for one in lines)] if lines else []


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


# --- what to do next ----------------------------------------------------------------------------

_WOULD_TELL = {
    Unjudged.FIRST_RUN: "the first run on the default branch leaves the baseline",
    Unjudged.NO_RECORD: "a run of the default branch that uploads its record",
    Unjudged.NEW_CASE: "the first run on the default branch leaves its baseline",
    Unjudged.EXPIRED: "a run of the default branch leaves a new baseline; schedule one a week",
    Unjudged.NEW_ENVIRONMENT_OF_NEW_CASE: "a run of the default branch on this machine",
    Unjudged.ENVIRONMENT_CHANGED: "a run of the default branch on this machine, or head and base"
    " measured side by side (`ci-score ab`)",
    Unjudged.NOTHING_MEASURED: "a measurement (`ci-score ab` makes one): the log of the measuring"
    " job says why there is none",
    Unjudged.CANCELLED: "a re-run, or the newer run that cancelled this one",
    Unjudged.SKIPPED: "a measurement: look at the job before it that failed, or at its `if`; where"
    " nothing has to be measured, say so with `not-needed`",
    Unjudged.UNKNOWN_RESULT: "the result of the measuring job, in `producer`",
    Unjudged.CRASHED_RUN: "a run that does not crash: look at its log",
    Unjudged.INVALID_MEASUREMENT: "a run on a machine that it has for itself",
    Unjudged.MEASURED_ALONE: "a base that can run the command: head is measured in turns with it",
    Unjudged.OTHER_WORK: "a run that does the same work",
    Unjudged.NOT_AS_DESIGNED: "a run that is measured as the policy demands (`ci-score ab` sees to"
    " pairs and their order)",
    Unjudged.NOT_ATTRIBUTABLE: "a run of the tested base, or head and base measured side by side"
    " (`ci-score ab`)",
    Unjudged.VOID: "a run in which every launch measures its steps",
    Unjudged.CONTRADICTS: "head and the tested base measured side by side (`ci-score ab`)",
    Unjudged.UNCLEAR: "more pairs of head and base (`ci-score ab`), or a quieter machine"
    " (`ci-score qualify` says how)",
    Unjudged.TOO_NOISY: "pairs of head and base (`ci-score ab`), or a quieter machine"
    " (`ci-score qualify` says how)",
    Unjudged.REQUIRED_CASE_MISSING: "the measurement of that case; or `ci-score accept <case>"
    " missing because <reason>`",
    Unjudged.KNOWN_CASE_MISSING: "the measurement of that case; or `ci-score accept <case>"
    " missing because <reason>`",
    Unjudged.NO_PERMISSION: "the right `actions: read` for the job",
    Unjudged.NO_PROVENANCE: "head and the tested base measured side by side (`ci-score ab`)",
    Unjudged.API_DOWN: "a re-run, when GitHub answers again",
    Unjudged.ALL_UNUSABLE: "a run of the default branch leaves a new record",
}


def what_would_tell(reason: Unjudged | None) -> str:
    """What would turn "not judged" into a verdict."""
    return _WOULD_TELL.get(reason, "") if reason is not None else ""


def acceptance_line(case: Judged) -> str:
    """The comment that would accept what fails here, ready to copy: a line for each metric."""
    bounds = {
        change.metric: _bound(change) for change in case.changes if change.outcome is Outcome.FAIL
    }
    return "\n".join(
        f"ci-score accept {case.name} {metric} up to {bound} because <reason>"
        for metric, bound in bounds.items()
        if bound
    )


def _bound(change: Change) -> str:
    """How far a worsening would be accepted, with room for the noise of the next run."""
    metric = metric_of(change)
    if change.delta is None:
        return ""
    worse = abs(change.delta)
    if metric.relative:
        return f"{math.ceil(worse * 110)} %"
    if metric.in_points:
        return f"{math.ceil(worse * 110)} points"
    # Of anything else a bound is the number itself, which `up to` cannot say where more is better.
    if metric.higher_is_better:
        return ""
    # A count is the same in the next run.
    whole = change.head == round(change.head)
    most = change.head if whole else math.ceil((change.head + worse / 10) * 1000) / 1000
    unit = metric.own_unit or ""
    return f"{f'{most:.3f}'.rstrip('0').rstrip('.')} {unit}".rstrip()


def trace_commands(case: Judged, record: Record) -> list[str]:
    """What opens the traces of both runs side by side, where both are known."""
    base = case.baseline.run.id if case.baseline and case.baseline.run else None
    head = record.run.id if record.run else None
    if base is None or head is None:
        return []
    return [
        f"gh run download {base} --pattern 'profile*' --dir base",
        f"gh run download {head} --pattern 'profile*' --dir head",
        "ci-score open base head",
    ]


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


def further_cases(
    cases: Sequence[Judged], shown: Sequence[Judged], folded: Callable[[Judged], bool]
) -> Iterator[tuple[str, list[str]]]:
    """`3 more fail` and their names: those that need attention and stand neither here nor below."""
    named = {case.name for case in shown}
    for outcome, (one, several) in _COUNTED.items():
        names = [
            case.name
            for case in cases
            if case.verdict and case.verdict.outcome is outcome and outcome is not Outcome.PASS
            if case.name not in named and not folded(case)
        ]
        if names:
            yield f"{len(names)} more {several if len(names) > 1 else one}", names


def counted_as(record: Record, outcome: Outcome) -> str:
    """`3 of 12 cases are slower, worst`: how many cases have the worst verdict of a report."""
    cases = [case for case in record.cases if case.verdict and case.verdict.outcome is outcome]
    total, several = len(record.cases), len(cases) > 1
    if outcome is Outcome.INCONCLUSIVE:
        return f"Not judged: {len(cases)} of {total} cases,{' first' if several else ''}"
    if outcome is Outcome.PASS and len(cases) == total:
        return f"All {total} cases pass, worst"
    words = _COUNTED[outcome][several]
    if outcome is not Outcome.PASS and all(_is_slower(case, outcome) for case in cases):
        words = "are slower" if several else "is slower"
    return f"{len(cases)} of {total} cases {words},{' worst' if several else ''}"


def _is_slower(case: Judged, outcome: Outcome) -> bool:
    times = (change for change in case.changes if change.metric in (THROUGHPUT, STEP_TIME))
    return any(change.outcome is outcome for change in times)

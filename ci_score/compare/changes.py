"""A measured case and its baseline → what differs, and in which phase, op and layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ci_score.compare.causes import with_causes
from ci_score.compare.code import code_changes
from ci_score.compare.counterparts import counterparts
from ci_score.compare.explanation import explain, op_changes
from ci_score.compare.places import LEAST_SHARE_OF_LAYER, layer_times
from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.code_changes import CodeChanges
from ci_score.model.code_diff import NO_DIFF, CodeDiff
from ci_score.model.explanation import LEAST_SHARE_OF_STEP, Contribution, Explanation
from ci_score.model.metrics import (
    COUNTS,
    MEMORY,
    METRICS,
    STEP_TIME,
    THROUGHPUT,
    metric_named,
    tokens_differ,
)
from ci_score.model.reasons import Reason, Why, quoted
from ci_score.model.record import Measured
from ci_score.model.stages import Baseline, BaselineFound, Compared, Difference
from ci_score.model.step_ops import BaseSide
from ci_score.model.sums import plain_sum
from ci_score.model.values import four_digits
from ci_score.reference import find_regressions

SHOWN_PER_KIND = 5

Kind = Literal["phase", "op", "layer"]


def compared(
    head: Measured,
    baseline: Baseline,
    names: Iterable[str] = (),
    recorded: Measured | None = None,
    diff: CodeDiff = NO_DIFF,
) -> Compared:
    """The case beside its baseline, with every known metric and those that `names` adds.

    `recorded` is the branch's own record of the case, which a session's base is not. `diff` is what
    the code of the baseline's commit and of the head's differ in.
    """
    if not isinstance(baseline, BaselineFound) or not head.has_a_time:
        return Compared(head, baseline, recorded)
    base = baseline.case
    try:
        with overflow_is_bad_input(f"case {head.name}"):
            known = dict.fromkeys((*(metric.name for metric in METRICS), *names))
            rows, places = differences(head, base, known), contributions(head, base)
            explanation = explain(head, base)
            if explanation is not None:
                explanation = with_causes(explanation, head, base, places)
                explanation = explanation.but(code=_code(head, base, diff, explanation))
            beside = base_side(head, base)
    except BadInputError as error:
        return Compared(head.but(unmeasured=quoted(str(error))), baseline, recorded)
    return Compared(head, baseline, recorded, rows, places, explanation, beside)


def _code(
    head: Measured, base: Measured, diff: CodeDiff, explanation: Explanation
) -> CodeChanges | None:
    """Where in the code the step changed, and its memory: known of steps that were both profiled.

    Steps of another number of tokens take longer by themselves: nothing is to blame.
    """
    if head.code is None or base.code is None:
        return None
    step = explanation.base_step_ms, explanation.head_step_ms
    measured = base.scorecard.step_time_ms, head.scorecard.step_time_ms
    if explanation.under_profiler and min(measured) > 0:
        step = measured
    found = code_changes(head.code, base.code, diff, step)
    if found and tokens_differ(head.told_tokens, base.told_tokens):
        return found.but(time=None, memory=None, warned=())
    return found


def base_side(head: Measured, base: Measured) -> BaseSide:
    """What the base's step is made of, and how its ops are called now."""
    layers = layer_times(base)
    return BaseSide(
        step_ops=base.step_ops,
        called={change.name: change.was for change in op_changes(head, base) if change.was},
        phases=base.phases,
        layers=tuple(layers),
        forward_ms=tuple(four_digits(forward) for forward, _ in layers.values()),
        backward_ms=tuple(four_digits(backward) for _, backward in layers.values()),
        ranks=base.ranks,
        peak_ops=base.peak_ops,
    )


def differences(head: Measured, base: Measured, names: Iterable[str]) -> tuple[Difference, ...]:
    """A difference for each of these metrics that either side has, with the reference's severity.

    The reference's own metrics are always there. Some are not compared because their two numbers do
    not mean the same: throughput per device if only one side knows its number of devices, and step
    time if the steps differ in size.
    """
    regressions = find_regressions(head.scorecard, base.scorecard)
    severities = {regression.metric: regression.severity for regression in regressions}
    not_compared = _incomparable(head, base)
    rows = []
    for metric in map(metric_named, names):
        before, now = metric.value(base), metric.value(head)
        if before is None and now is None and metric.card_value is None:
            continue
        known = before is not None and now is not None and metric.name not in not_compared
        severity = severities.get(metric.name) if known else None
        why_not = not_compared.get(metric.name)
        rows.append(Difference(metric.name, before, now, severity, why_not))
    return tuple(rows)


def _incomparable(head: Measured, base: Measured) -> dict[str, Reason]:
    counts = (head.environment.accelerator_count, base.environment.accelerator_count)
    tokens = (head.told_tokens, base.told_tokens)
    reasons = {}
    if (counts[0] is None) != (counts[1] is None):
        reasons[THROUGHPUT] = Why.DEVICES_ON_ONE_SIDE()
    why = Why.OTHER_TOKENS(head=tokens[0], base=tokens[1]) if tokens_differ(*tokens) else None
    why = why or head.uneven_tokens
    if why is not None:
        # Another step: what it takes is not compared, and its throughput is.
        reasons |= dict.fromkeys((STEP_TIME, MEMORY, "device_busy_ms", *sorted(COUNTS)), why)
    return reasons


def contributions(head: Measured, base: Measured) -> tuple[Contribution, ...]:
    """The phases, ops and layers whose time changed most, largest change first within each kind."""
    least_ms = LEAST_SHARE_OF_STEP * base.scorecard.step_time_ms
    now, before = layer_times(head), layer_times(base)
    layers = [
        row
        for way, direction in enumerate(("forward", "backward"))
        for row in _layer_ranges(
            direction,
            {layer: times[way] for layer, times in now.items()},
            {layer: times[way] for layer, times in before.items()},
        )
    ]
    return (
        *_largest(_by_name("phase", head.phases, base.phases), least_ms),
        *_largest(_by_name("op", *_comparable_ops(head, base)), least_ms),
        *_largest(layers, least_ms),
    )


def _comparable_ops(head: Measured, base: Measured) -> tuple[dict[str, float], ...]:
    """The ops of each side by the head's names; only those of both if a side dropped small ops."""
    now_called = {was: name for name, was in counterparts(head, base).items()}
    before = {now_called.get(name, name): ms for name, ms in base.ops.items()}
    if not head.step_ops.left_out and not base.step_ops.left_out:
        return head.ops, before
    both = head.ops.keys() & before.keys()
    return tuple({op: side[op] for op in both} for side in (head.ops, before))


def _by_name(
    kind: Kind, head: Mapping[str, float], base: Mapping[str, float]
) -> Iterable[Contribution]:
    """A row for every name of either side; no rows if a side has no names at all."""
    if not head or not base:
        return
    for name in sorted({*head, *base}):
        yield Contribution(
            kind=kind, name=name, base_ms=base.get(name, 0.0), head_ms=head.get(name, 0.0)
        )


def _layer_ranges(
    direction: str, head: Mapping[int, float], base: Mapping[int, float]
) -> Iterable[Contribution]:
    """Neighbouring layers that changed the same way, as one range: `0–23 backward`."""
    changed = [
        (number, base[number], head[number])
        for number in sorted(base.keys() & head.keys())
        if abs(head[number] - base[number]) > LEAST_SHARE_OF_LAYER * base[number]
    ]
    ranges: list[list[tuple[int, float, float]]] = []
    for row in changed:
        if ranges and _continues(ranges[-1][-1], row):
            ranges[-1].append(row)
        else:
            ranges.append([row])
    for rows in ranges:
        first, last = rows[0][0], rows[-1][0]
        yield Contribution(
            kind="layer",
            name=f"{first} {direction}" if first == last else f"{first}–{last} {direction}",
            base_ms=plain_sum(base_ms for _, base_ms, _ in rows),
            head_ms=plain_sum(head_ms for _, _, head_ms in rows),
        )


def _continues(row: tuple[int, float, float], following: tuple[int, float, float]) -> bool:
    same_way = (row[2] > row[1]) == (following[2] > following[1])
    return same_way and following[0] == row[0] + 1


def _largest(changes: Iterable[Contribution], least_ms: float) -> list[Contribution]:
    notable = [change for change in changes if abs(change.delta_ms) > least_ms]
    return sorted(notable, key=lambda change: -abs(change.delta_ms))[:SHOWN_PER_KIND]

"""A policy's `[[parity]]` × two sides → what holds, what is broken, and what could not be compared.

Both sides come from records alone, so that a fork's numbers and two records are judged as a run is.
What was not compared is never at par: it is no judgement, and says what was missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ci_score.errors import BadInputError
from ci_score.judge.policy import ParityRule
from ci_score.model.metrics import LAUNCHES, significant
from ci_score.model.record import CaseRecord
from ci_score.model.scorecard import Parity, ParityProfile
from ci_score.model.sums import plain_sum
from ci_score.model.verdict import Outcome
from ci_score.reference import ACHIEVED_UP_TO, ParitySide, compute_parity, kind_of

Demand = tuple[Outcome, str]

SAME_TOKENS = 0.02
NAMED_OPS = 3


@dataclass(frozen=True, slots=True)
class _Side:
    """What a rule may ask of one side; None is not known."""

    ops: ParitySide
    tok_s: float | None
    tokens_per_step: float | None
    precision: str | None = None
    accelerator_count: int | None = None
    timing: str | None = None

    @property
    def name(self) -> str:
        return self.ops.runtime


def parity_with_a_case(
    rule: ParityRule, case: CaseRecord, cases: Mapping[str, CaseRecord]
) -> Parity | None:
    """The reference's parity of two cases of one report; None where a side is not there."""
    partner = cases.get(rule.partner_of(case.name) or "")
    if partner is None or not (case.has_a_time and partner.has_a_time):
        return None
    return compute_parity(_of_case(case).ops, _of_case(partner).ops)


def parity_demands(
    rule: ParityRule, case: CaseRecord, cases: Mapping[str, CaseRecord]
) -> tuple[Demand, ...]:
    """What the rule makes of a case and its partner. Without a gate it warns at most."""
    try:
        found = tuple(_demands(rule, case, cases))
    except BadInputError as error:
        found = ((Outcome.INCONCLUSIVE, f"the parity cannot be computed ({error})"),)
    return found if rule.gate else tuple((Outcome.WARN, words) for _, words in found)


def _demands(
    rule: ParityRule, case: CaseRecord, cases: Mapping[str, CaseRecord]
) -> Iterator[Demand]:
    name = rule.partner_of(case.name)
    partner = cases.get(name) if name else None
    if partner is not None:
        theirs = _of_case(partner)
    elif name is None and case.partner is not None:
        theirs = _of_file(case.partner)
    else:
        yield Outcome.INCONCLUSIVE, _without_a_partner(name)
        return
    mine = _of_case(case)
    differences = [*_not_the_same(rule, mine, theirs)]
    unusable = [
        f"{side.name} is not usable ({side.ops.unusable})"
        for side in (mine, theirs)
        if side.ops.unusable
    ]
    for words in unusable or differences:
        yield Outcome.INCONCLUSIVE, f"the parity with {theirs.name} means nothing: {words}"
    if unusable or differences:
        return
    if rule.ms_per_1k_tokens is not None:
        yield from _slower(rule.ms_per_1k_tokens, mine, theirs)
    if rule.compares_ops:
        yield from _of_ops(rule, mine.ops, theirs.ops)


def _without_a_partner(name: str | None) -> str:
    if name is not None:
        return f"the parity with {name} has no partner: that case was not measured"
    return "the parity has no partner: the input `parity` names no file for it that can be read"


# --- the two sides ------------------------------------------------------------------------------


def _of_case(case: CaseRecord) -> _Side:
    card, count = case.scorecard, case.environment.accelerator_count
    tok_s = card.job_throughput_tok_s or card.throughput_tok_s * (count or 1)
    kinds = {kind: work.ms for kind, work in case.categories.items()}
    unusable = None if case.has_a_time else case.unmeasured or "no time was measured"
    return _Side(
        ParitySide(
            runtime=case.name,
            throughput_tok_s=tok_s,
            step_time_ms=card.step_time_ms,
            kernel_launches_per_step=round(case.metrics.get(LAUNCHES, 0.0)),
            ops=kinds or case.ops,
            by_kind=bool(kinds),
            unusable=unusable,
        ),
        tok_s or None,
        case.tokens_per_step,
        case.environment.precision,
        case.environment.accelerator_count,
        case.environment.timing,
    )


def _of_file(partner: ParityProfile) -> _Side:
    """A file of numbers: of its step it tells the tokens where it knows both rate and time."""
    tokens = partner.throughput_tok_s * partner.step_time_ms / 1000.0
    return _Side(ParitySide(**dict(partner)), partner.throughput_tok_s or None, tokens or None)


def _not_the_same(rule: ParityRule, mine: _Side, theirs: _Side) -> Iterator[str]:
    for key in rule.require_same:
        here, there = getattr(mine, key), getattr(theirs, key)
        words = key.replace("_", " ")
        if here is None or there is None:
            silent = mine if here is None else theirs
            yield f"the {words} of {silent.name} is not known"
        elif not _same(here, there):
            yield f"{words} {_shown(here)} here, {_shown(there)} there"


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _same(here: str | float, there: str | float) -> bool:
    if isinstance(here, float) and isinstance(there, float):
        return abs(here - there) <= SAME_TOKENS * there
    return here == there


# --- what is demanded ---------------------------------------------------------------------------


def _slower(limit: float, mine: _Side, theirs: _Side) -> Iterator[Demand]:
    about = f"with {theirs.name}"
    if not mine.tok_s or not theirs.tok_s:
        silent = theirs if mine.tok_s else mine
        yield (
            Outcome.INCONCLUSIVE,
            f"the parity {about} needs tokens per second, which {silent.name} does not tell",
        )
        return
    if None not in (mine.timing, theirs.timing) and mine.timing != theirs.timing:
        yield (
            Outcome.INCONCLUSIVE,
            f"the parity {about} means nothing: timed {mine.timing} here, {theirs.timing} there",
        )
        return
    ratio = theirs.tok_s / mine.tok_s
    if ratio > limit:
        here, there = (significant(1e6 / side.tok_s, "ms") for side in (mine, theirs) if side.tok_s)
        words = f"{ratio:.2f}× the time per 1k tokens ({here} against {there})"
        yield Outcome.FAIL, f"No parity {about}: {words}, {limit:g}× is the limit"


def _of_ops(rule: ParityRule, mine: ParitySide, theirs: ParitySide) -> Iterator[Demand]:
    mine, theirs = _alike(mine, theirs)
    parity = compute_parity(mine, theirs)
    shares = (parity.apr_share_compared or 0.0, parity.baseline_share_compared or 0.0)
    if not parity.compared_ops or min(shares) < rule.min_coverage:
        words = f"compares ops of {shares[0]:.0%} and {shares[1]:.0%} of the op time"
        yield (
            Outcome.INCONCLUSIVE,
            f"the parity with {theirs.runtime} {words}, {rule.min_coverage:.0%} is demanded",
        )
        return
    if rule.op_ratio is not None:
        weighty = compute_parity(*_of_weight(rule.min_share, mine, theirs))
        yield from _beyond(rule.op_ratio, weighty, "")
    if rule.reference_parity and not parity.parity_achieved:
        yield from _beyond(ACHIEVED_UP_TO, parity, " (reference parity)")


def _beyond(limit: float, parity: Parity, basis: str) -> Iterator[Demand]:
    """The gaps beyond the limit; they are sorted, so the largest are among those that are kept."""
    gaps = [gap for gap in parity.top_gaps if gap.ratio > limit][:NAMED_OPS]
    if gaps:
        words = ", ".join(
            f"{gap.op} {gap.ratio:.2f}× ({significant(gap.apr_ms, 'ms')} against"
            f" {significant(gap.baseline_ms, 'ms')})"
            for gap in gaps
        )
        yield (
            Outcome.FAIL,
            f"No parity with {parity.baseline_runtime}: {words}, {limit:g}× is the limit{basis}",
        )


def _alike(mine: ParitySide, theirs: ParitySide) -> tuple[ParitySide, ParitySide]:
    """Both by kind of work where one of them is: the share of an op is then that of its kind."""
    if mine.by_kind == theirs.by_kind:
        return mine, theirs
    return _by_kind(mine), _by_kind(theirs)


def _by_kind(side: ParitySide) -> ParitySide:
    if side.by_kind:
        return side
    totals: dict[str, float] = {}
    for op in sorted(side.ops):
        totals[kind_of(op)] = totals.get(kind_of(op), 0.0) + side.ops[op]
    return side.model_copy(update={"ops": totals, "by_kind": True})


def _of_weight(
    min_share: float, mine: ParitySide, theirs: ParitySide
) -> tuple[ParitySide, ParitySide]:
    """Both sides with the ops that hold that share of either."""
    kept = {
        op
        for side in (mine, theirs)
        for op, ms in side.ops.items()
        if ms > 0 and ms >= min_share * plain_sum(side.ops.values())
    }
    return (
        mine.model_copy(update={"ops": {op: ms for op, ms in mine.ops.items() if op in kept}}),
        theirs.model_copy(update={"ops": {op: ms for op, ms in theirs.ops.items() if op in kept}}),
    )

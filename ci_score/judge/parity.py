"""A policy's `[[parity]]` × two sides → what holds, what is broken, and what could not be compared.

Both sides come from records alone, so that a fork's numbers and two records are judged as a run is.
What was not compared is never at par: it is no judgement, and says what was missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ci_score.errors import BadInputError
from ci_score.judge.policy import ParityRule
from ci_score.judge.trial import Demand
from ci_score.model.metrics import LAUNCHES, tokens_differ
from ci_score.model.reasons import LONGEST_WORDS, Reason, Why
from ci_score.model.record import Measured
from ci_score.model.scorecard import Parity, ParityProfile
from ci_score.model.sums import plain_sum
from ci_score.model.verdict import Outcome
from ci_score.reference import ACHIEVED_UP_TO, ParitySide, compute_parity, kind_of

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
    unmeasured: Reason | None = None

    @property
    def name(self) -> str:
        return self.ops.runtime


def parity_with_a_case(
    rule: ParityRule, case: Measured, cases: Mapping[str, Measured]
) -> Parity | None:
    """The reference's parity of two cases of one report; None where a side is not there."""
    partner = cases.get(rule.partner_of(case.name) or "")
    if partner is None or not (case.has_a_time and partner.has_a_time):
        return None
    return compute_parity(_of_case(case).ops, _of_case(partner).ops)


def parity_demands(
    rule: ParityRule, case: Measured, cases: Mapping[str, Measured]
) -> tuple[Demand, ...]:
    """What the rule makes of a case and its partner. Without a gate it warns at most."""
    try:
        found = tuple(_demands(rule, case, cases))
    except BadInputError as error:
        reason = Why.PARITY_BROKEN(words=str(error)[:LONGEST_WORDS])
        found = ((Outcome.INCONCLUSIVE, reason),)
    return found if rule.gate else tuple((Outcome.WARN, reason) for _, reason in found)


def _demands(rule: ParityRule, case: Measured, cases: Mapping[str, Measured]) -> Iterator[Demand]:
    name = rule.partner_of(case.name)
    partner = cases.get(name) if name else None
    if partner is not None:
        theirs = _of_case(partner)
    elif name is None and case.partner is not None:
        theirs = _of_file(case.partner)
    else:
        missing = Why.PARITY_CASE_MISSING(partner=name) if name else Why.PARITY_FILE_MISSING()
        yield Outcome.INCONCLUSIVE, missing
        return
    ours = _of_case(case)
    differences = [*_not_the_same(rule, ours, theirs)]
    unusable = [
        Why.PARITY_UNUSABLE(partner=theirs.name, side=side.name, why=side.unmeasured)
        for side in (ours, theirs)
        if side.unmeasured
    ]
    for reason in unusable or differences:
        yield Outcome.INCONCLUSIVE, reason
    if unusable or differences:
        return
    if rule.ms_per_1k_tokens is not None:
        yield from _slower(rule.ms_per_1k_tokens, ours, theirs)
    if rule.compares_ops:
        yield from _of_ops(rule, ours.ops, theirs.ops)


# --- the two sides ------------------------------------------------------------------------------


def _of_case(case: Measured) -> _Side:
    card, count = case.scorecard, case.environment.accelerator_count
    tok_s = card.job_throughput_tok_s or card.throughput_tok_s * (count or 1)
    kinds = {kind: work.ms for kind, work in case.categories.items()}
    return _Side(
        ParitySide(
            runtime=case.name,
            throughput_tok_s=tok_s,
            step_time_ms=card.step_time_ms,
            kernel_launches_per_step=round(case.metrics.get(LAUNCHES, 0.0)),
            ops=kinds or case.ops,
            by_kind=bool(kinds),
        ),
        (tok_s or None) if case.measures_throughput else None,
        case.told_tokens,
        case.environment.precision,
        case.environment.accelerator_count,
        case.environment.timing,
        None if case.has_a_time else case.unmeasured or Why.NO_TIME(),
    )


def _of_file(partner: ParityProfile) -> _Side:
    """A file of numbers: of its step it tells the tokens where it knows both rate and time."""
    tokens = partner.throughput_tok_s * partner.step_time_ms / 1000.0
    return _Side(ParitySide(**dict(partner)), partner.throughput_tok_s or None, tokens or None)


def _not_the_same(rule: ParityRule, ours: _Side, theirs: _Side) -> Iterator[Reason]:
    for key in rule.require_same:
        here, there = getattr(ours, key), getattr(theirs, key)
        if here is None or there is None:
            silent = ours if here is None else theirs
            yield Why.PARITY_KEY_UNKNOWN(partner=theirs.name, key=key, side=silent.name)
        elif not _same(here, there):
            yield Why.PARITY_KEY_DIFFERS(partner=theirs.name, key=key, here=here, there=there)


def _same(here: str | float, there: str | float) -> bool:
    if isinstance(here, float) and isinstance(there, float):
        # Of a step without tokens nothing is known, and that is not the same as a number.
        return bool(here) == bool(there) and not tokens_differ(here, there)
    return here == there


# --- what is demanded ---------------------------------------------------------------------------


def _slower(limit: float, ours: _Side, theirs: _Side) -> Iterator[Demand]:
    if not ours.tok_s or not theirs.tok_s:
        silent = theirs if ours.tok_s else ours
        reason = Why.PARITY_RATE_UNKNOWN(partner=theirs.name, side=silent.name)
        yield Outcome.INCONCLUSIVE, reason
        return
    if None not in (ours.timing, theirs.timing) and ours.timing != theirs.timing:
        yield (
            Outcome.INCONCLUSIVE,
            Why.PARITY_TIMED_UNLIKE(partner=theirs.name, here=ours.timing, there=theirs.timing),
        )
        return
    ratio = theirs.tok_s / ours.tok_s
    if ratio > limit:
        yield (
            Outcome.FAIL,
            Why.PARITY_SLOWER(
                partner=theirs.name,
                ratio=ratio,
                here_ms=1e6 / ours.tok_s,
                there_ms=1e6 / theirs.tok_s,
                limit=limit,
            ),
        )


def _of_ops(rule: ParityRule, ours: ParitySide, theirs: ParitySide) -> Iterator[Demand]:
    ours, theirs = _alike(ours, theirs)
    parity = compute_parity(ours, theirs)
    shares = (parity.apr_share_compared or 0.0, parity.baseline_share_compared or 0.0)
    if not parity.compared_ops or min(shares) < rule.min_coverage:
        yield (
            Outcome.INCONCLUSIVE,
            Why.PARITY_COVERS_LITTLE(
                partner=theirs.runtime, here=shares[0], there=shares[1], wanted=rule.min_coverage
            ),
        )
        return
    if rule.op_ratio is not None:
        weighty = compute_parity(*_of_weight(rule.min_share, ours, theirs))
        yield from _beyond(rule.op_ratio, weighty, by_reference=False)
    if rule.reference_parity and not parity.parity_achieved:
        yield from _beyond(ACHIEVED_UP_TO, parity, by_reference=True)


def _beyond(limit: float, parity: Parity, *, by_reference: bool) -> Iterator[Demand]:
    """The gaps beyond the limit; they are sorted, so the largest are among those that are kept."""
    gaps = [gap for gap in parity.top_gaps if gap.ratio > limit][:NAMED_OPS]
    if gaps:
        yield (
            Outcome.FAIL,
            Why.PARITY_OPS(
                partner=parity.baseline_runtime,
                ops=tuple(gap.op for gap in gaps),
                ratios=tuple(gap.ratio for gap in gaps),
                here_ms=tuple(gap.apr_ms for gap in gaps),
                there_ms=tuple(gap.baseline_ms for gap in gaps),
                limit=limit,
                by_reference=by_reference,
            ),
        )


def _alike(ours: ParitySide, theirs: ParitySide) -> tuple[ParitySide, ParitySide]:
    """Both by kind of work where one of them is: the share of an op is then that of its kind."""
    if ours.by_kind == theirs.by_kind:
        return ours, theirs
    return _by_kind(ours), _by_kind(theirs)


def _by_kind(side: ParitySide) -> ParitySide:
    if side.by_kind:
        return side
    totals: dict[str, float] = {}
    for op in sorted(side.ops):
        totals[kind_of(op)] = totals.get(kind_of(op), 0.0) + side.ops[op]
    return side.but(ops=totals, by_kind=True)


def _of_weight(
    min_share: float, ours: ParitySide, theirs: ParitySide
) -> tuple[ParitySide, ParitySide]:
    """Both sides with the ops that hold that share of either."""
    kept = {
        op
        for side in (ours, theirs)
        for op, ms in side.ops.items()
        if ms > 0 and ms >= min_share * plain_sum(side.ops.values())
    }
    return (
        ours.but(ops={op: ms for op, ms in ours.ops.items() if op in kept}),
        theirs.but(ops={op: ms for op, ms in theirs.ops.items() if op in kept}),
    )

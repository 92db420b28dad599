"""What was read of a case, and what is known about its work → its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ci_score.compare.advice import advice_on
from ci_score.compare.efficiency import Workload, training_scorecard
from ci_score.compare.explanation import (
    categories_of,
    ops_of,
    step_spread_of,
    timeline_of,
)
from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.launches import as_one
from ci_score.model.environment import Environment, Timing
from ci_score.model.explanation import LayersAre
from ci_score.model.metrics import HOST_OPS, KERNELS, LAUNCHES, MEMORY, STEP_TIME, THROUGHPUT
from ci_score.model.profile import OpCalls, Profile, TimedBy, op_totals
from ci_score.model.reasons import Note, Reason, Why, quoted
from ci_score.model.record import BaselineUsed, LaunchNumbers, Measured
from ci_score.model.scorecard import NOT_GRADED, ParityProfile, Scorecard
from ci_score.model.stages import BaselineFound, CaseInput
from ci_score.reference import LACKING_IN_A_PROFILE, ParitySide, compute_parity, side_of

KEPT_NAMES, KEPT_RANGES, KEPT_CALLS = 64, 24, 128
OWN_BASE = "the base side of the same measurements"
# The reference knows hotspots of layers alone; a record has the ops of the whole step.
NO_RATIO = "There are no layers, so the backward/forward ratio is not known."
# A CPU has no roofline, and is no count of accelerators. What no annotation covers is known all the
# same: the operators tell it; and its readers say why there are no layers.
BESIDE_THE_POINT_ON_A_CPU = frozenset(
    {"low_coverage", NOT_GRADED, "no_layers", "unknown_device_count"}
)
# Longer than the names of kernel templates; a name of megabytes would fill the record.
LONGEST_NAME = 1000


def measured_case(case: CaseInput, workload: Workload) -> Measured:
    """A case with its scorecard and what can explain it later."""
    profile = _with_told_tokens(case.profile)
    told = None if profile.tokens_inferred else profile.tokens_per_step
    launches = _with_throughput(case.launches, workload.tokens_per_step or told)
    if any(THROUGHPUT in launch.values for launch in launches):
        # What the launches measured goes before what an input says.
        workload = replace(workload, throughput_tok_s=None)
    card = training_scorecard(profile, workload)
    card = card.but(noted=_noted(card, case))
    if profile.profiled_step_ms is not None:
        # What a profile covers is a share of the profiled step, and not of the one that is judged.
        card = card.but(wall_coverage=0.0)
    # Counts are of the whole step, so the times beside them must be too.
    of_layers = {} if profile.op_counts else op_totals(profile.per_layer)
    timeline, categories = timeline_of(profile), categories_of(profile)
    launches = tuple(_per_device(launch, card.accelerator_count) for launch in launches)
    return Measured(
        name=case.name,
        environment=_environment(case, card, workload),
        unmeasured=case.problem or case.crashed or _why_empty(case),
        crashed=case.problem is None and bool(case.crashed or profile.remedy == "run"),
        scorecard=card,
        metrics=_metrics(profile, card, launches),
        launches=launches,
        took_turns=case.took_turns,
        measurement=case.measurement,
        tokens_per_step=workload.tokens_per_step or profile.tokens_per_step,
        tokens_inferred=profile.tokens_inferred and workload.tokens_per_step is None,
        throughput_given=workload.throughput_tok_s is not None,
        phases=_largest({phase: times.total_ms for phase, times in profile.phases.items()}),
        step_ops=ops_of(profile, of_layers or profile.ops),
        categories=categories,
        timeline=timeline,
        step_spread=step_spread_of(profile.step_times_ms),
        compute_tenths_ms=profile.compute_tenths_ms,
        idle_ranges=_largest(profile.idle_ranges, KEPT_RANGES),
        op_calls=_most_called(profile),
        host_gaps=profile.host_gaps[:KEPT_RANGES],
        layers_are=LayersAre(kind=profile.layers_are, share=profile.layers_share),
        code=profile.code,
        peak_ops=_most_bytes(profile.peak_ops),
        advice=advice_on(timeline, categories),
        ranks=profile.ranks,
        parity=compute_parity(side_of("ours", profile), case.partner) if case.partner else None,
        partner=_kept_side(case.partner) if case.partner else None,
    )


def _most_called(profile: Profile) -> dict[str, OpCalls]:
    """What runs most operators."""
    calls = {name: row for name, row in profile.op_calls.items() if len(name) <= LONGEST_NAME}
    order = sorted(calls, key=lambda name: (-calls[name].operators, name))
    return {name: calls[name] for name in order[:KEPT_CALLS]}


def _most_bytes(ops: Mapping[str, int]) -> dict[str, int]:
    """What had most memory at the peak."""
    return {name: ops[name] for name in _largest(ops, KEPT_RANGES)}


def _with_throughput(
    launches: tuple[LaunchNumbers, ...], tokens: float | None
) -> tuple[LaunchNumbers, ...]:
    """The launches with their throughput, where none tells tokens and the whole case does."""
    if not tokens or any(THROUGHPUT in one.values for one in launches):
        return launches
    return tuple(
        one.but(values={**one.values, THROUGHPUT: tokens / one.values[STEP_TIME] * 1000.0})
        if one.values.get(STEP_TIME)
        else one
        for one in launches
    )


def _with_told_tokens(profile: Profile) -> Profile:
    """The profile without guessed tokens, where its throughput and its time tell them."""
    told = (profile.throughput_tok_s or 0.0) * profile.avg_step_ms / 1000.0
    if not (profile.tokens_inferred and told):
        return profile
    return profile.but(tokens_per_step=told, tokens_inferred=False)


def _noted(card: Scorecard, case: CaseInput) -> tuple[Note, ...]:
    """The notes; without a profile, those on what only a profile has are left out."""
    left_out = frozenset() if case.has_profile else LACKING_IN_A_PROFILE
    if case.profile.host_parts:
        left_out |= BESIDE_THE_POINT_ON_A_CPU
    of_card = [
        note.but(words=NO_RATIO) if note.code == "no_layers" and case.profile.ops else note
        for note in card.noted
        if note.code not in left_out
    ]
    # Beside measurements "the step time" of a reader is not the one that is judged.
    about = "Of the profile: " if _is_measured_alone(case) else ""
    of_reader = [Note(code="reader", words=f"{about}{words}") for words in case.profile.notes]
    return (*of_card, *of_reader, *case.notes)


def _is_measured_alone(case: CaseInput) -> bool:
    """Whether its launches are measurements, and not the runs that a trainer logged."""
    return bool(case.launches) and not case.profile.runs


def _why_empty(case: CaseInput) -> Reason | None:
    if case.profile.unusable is not None:
        return Why.UNUSABLE(words=case.profile.unusable, remedy=case.profile.remedy)
    if case.profile.measured_something:
        return None
    return Why.NO_TIME_IN_PROFILE() if case.has_profile else Why.NO_TIME()


def _measured_or_problem(case: CaseInput, workload: Workload) -> Measured:
    """The case; numbers that overflow are a problem of their case, and do not end the run."""
    try:
        with overflow_is_bad_input(f"case {case.name}"):
            return measured_case(case, workload)
    except BadInputError as error:
        problem = quoted(str(error))
        wrong = CaseInput(case.name, problem=problem, has_profile=case.has_profile)
        return measured_case(wrong, Workload())


def with_its_base(read: CaseInput, workload: Workload) -> tuple[Measured, BaselineFound | None]:
    """The case, and the base side of the same session, the most comparable baseline there is."""
    case = _measured_or_problem(read, workload)
    if read.base is None:
        return case, None
    base = _measured_or_problem(read.base, workload)
    used = BaselineUsed(source=OWN_BASE, of_session=True)
    both = case.but(launches=(*case.launches, *base.launches))
    return both, BaselineFound(base, used)


def base_of_launches(case: Measured, own: BaselineFound | None = None) -> BaselineFound | None:
    """The base side of a case's own launches, if they have both sides.

    `own` is the base of one attempt of several: it keeps its profile, and not its numbers.
    """
    base = [launch for launch in case.launches if launch.side == "base"]
    if not base:
        return None
    numbers = {name: as_one(name, _of_all(name, base)) for name in _names(base)}
    card = case.scorecard.but(
        step_time_ms=numbers.pop(STEP_TIME, 0.0),
        throughput_tok_s=numbers.pop(THROUGHPUT, 0.0),
        wall_coverage=0.0,
        per_layer_summary=(),
        hotspot_ops=(),
        regressions=(),
    )
    if own is not None:
        times = {"step_time_ms": card.step_time_ms, "throughput_tok_s": card.throughput_tok_s}
        of_all = own.case.but(
            scorecard=own.case.scorecard.but(**times), metrics={**own.case.metrics, **numbers}
        )
        return replace(own, case=of_all)
    base_side = Measured(
        name=case.name,
        environment=case.environment,
        scorecard=card,
        metrics=numbers,
        tokens_per_step=case.tokens_per_step,
        tokens_inferred=case.tokens_inferred,
        throughput_given=case.throughput_given,
    )
    return BaselineFound(base_side, BaselineUsed(source=OWN_BASE, of_session=True))


def _kept_side(side: ParityProfile) -> ParityProfile:
    """A partner's numbers, so that its parity can be judged again from the record."""
    numbers = {name: getattr(side, name) for name in ParityProfile.model_fields}
    if isinstance(side, ParitySide) and side.throughput_inferred:
        numbers["throughput_tok_s"] = 0.0  # a guess is shown, and not judged
    return ParityProfile(**numbers).but(ops=_largest(side.ops))


def _environment(case: CaseInput, card: Scorecard, workload: Workload) -> Environment:
    """The measurement's own environment; the profile and the user add what it lacks."""
    own = case.environment or Environment()
    return own.but(
        accelerator=card.accelerator or own.accelerator,
        accelerator_count=card.accelerator_count or own.accelerator_count,
        # The measurement knows its precision better than the policy, which only expects one.
        precision=own.precision or workload.precision,
        timing=_timing(case),
    )


def _per_device(launch: LaunchNumbers, devices: int | None) -> LaunchNumbers:
    job = launch.values.get(THROUGHPUT)
    if job is None or not devices:
        return launch
    return launch.but(values={**launch.values, THROUGHPUT: job / devices})


def _metrics(
    profile: Profile, card: Scorecard, launches: tuple[LaunchNumbers, ...]
) -> dict[str, float]:
    """Every number that a policy can gate, beside the scorecard's own."""
    known: dict[str, float | None] = {
        "mfu": card.mfu,
        "hfu": card.hfu,
        "forward_backward_ratio": card.forward_backward_ratio or None,
        **{
            name: getattr(profile, name)
            for name in (
                MEMORY,
                LAUNCHES,
                KERNELS,
                HOST_OPS,
                "device_busy_ms",
                "device_idle_share",
                "exposed_communication_ms",
            )
        },
    }
    for name in _names(launches) - {STEP_TIME, THROUGHPUT}:
        known[name] = as_one(name, _of_all(name, launches))
    return {name: value for name, value in sorted(known.items()) if value is not None}


def _timing(case: CaseInput) -> Timing | None:
    """How it was timed. Only times of the same source are compared."""
    if _is_measured_alone(case):
        return "unprofiled"
    if not case.profile.avg_step_ms and not case.profile.throughput_tok_s:
        return None
    return _TIMINGS[case.profile.timed_by or "a profiler"]


_TIMINGS: dict[TimedBy, Timing] = {
    "a profiler": "under a profiler",
    "the trainer's log": "by the trainer's log",
    "the runtime itself": "by the runtime itself",
}


def _names(launches: Iterable[LaunchNumbers]) -> set[str]:
    return {name for launch in launches for name in launch.values}


def _of_all(name: str, launches: Iterable[LaunchNumbers]) -> list[float]:
    return [launch.values[name] for launch in launches if name in launch.values]


def _largest(ops: Mapping[str, float], most: int = KEPT_NAMES) -> dict[str, float]:
    named = [op for op in ops if len(op) <= LONGEST_NAME]
    kept = sorted(named, key=lambda op: (-ops[op], op))[:most]
    return {op: ops[op] for op in kept}

"""Measurements: step times without a profiler, one JSON object per process launch."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input, parse, validate
from ci_score.launches.keys import note_on_strange, refuse_typo, strange_among
from ci_score.model.counted_step import CountedStep, passes_differ
from ci_score.model.environment import Disturbance
from ci_score.model.profile import Profile
from ci_score.model.reasons import Note, Reason, Why
from ci_score.model.record import MOST_LAUNCHES, LaunchNumbers
from ci_score.model.values import (
    CaseName,
    Count,
    Lax,
    Milliseconds,
    NotNegative,
    ShortText,
    Side,
    Value,
)

SIDES: tuple[Side, ...] = ("head", "base")
MOST_LINES = 100_000
# By luck the first step of each of three launches is among its slowest tenth once in 1,000 times.
WARM_UP_FROM = 1.1
LEAST_LAUNCHES = 3
SYSTEMATIC = 0.9
NAMED_VOID = 5
# A step this many times as long as usual holds something else.
LONG_STEP = 3.0
WORTH_A_NOTE = 0.05
# The halves of a launch differ by this share where its steps had not settled.
DRIFTS, LEAST_OF_A_DRIFT = 0.1, 10
# Thirty years. The sum of longer steps could overflow.
LONGEST_STEP_MS = 1e12
StepMilliseconds = Annotated[Milliseconds, Field(le=LONGEST_STEP_MS)]
MOST_LOOKS = 16
PairCount = Annotated[int, Field(ge=1, le=MOST_LAUNCHES)]
_NOT_A_NUMBER = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity)\s*[,\]}]")


class Launch(Value):
    """One process that trained for some steps."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    case: CaseName | None = None
    side: Side = "head"
    launch: Count = 0
    order: Count = 0
    step_ms: Annotated[tuple[StepMilliseconds, ...], Lax]
    tokens_per_step: NotNegative | None = None
    warmup_steps: Count = 0
    peak_memory_gb: NotNegative | None = None
    first_loss: float | None = None
    final_loss: float | None = None
    # `hook`: the start-up hook of `ci-score ab` took the losses from the backward passes.
    loss_from: Literal["hook"] | None = None
    # From the start-up hook: what it has counted as a step.
    step: CountedStep | None = None
    # From the start-up hook: a profiler of the script's own ran while it was timed.
    profiler_ran: bool = False
    # From `ci-score qualify`: by how much it made the steps longer, 0 for its unchanged launches.
    planted: NotNegative | None = None
    # From `ci-score ab`: after how many pairs it looks. That can only make red harder to prove.
    looks: Annotated[tuple[PairCount, ...], Lax, Field(max_length=MOST_LOOKS)] = ()
    # The tick of the timer, where its times are rounded.
    resolution_ms: StepMilliseconds = 0.0
    # Why the launch measured nothing, in its own words.
    failed: ShortText | None = None
    # What happened while it ran -> a description; steps that are null count as `nan`.
    disturbances: Annotated[dict[Disturbance, ShortText], Field(default_factory=dict)]
    metrics: Annotated[dict[ShortText, float], Field(max_length=32, default_factory=dict)]
    versions: Annotated[dict[ShortText, ShortText], Field(max_length=32, default_factory=dict)]
    # Keys of its line that nobody knows; only the reader of lines knows them.
    strange_keys: Annotated[tuple[str, ...], Field(exclude=True)] = ()

    @classmethod
    def known_keys(cls) -> list[str]:
        """What a line may have."""
        rows = cls.model_fields.items()
        return [field.alias or name for name, field in rows if not field.exclude]

    @classmethod
    def of_line(cls, value: Any, source: str) -> Launch:
        """The launch in a line, which remembers the keys that nobody knows."""
        if isinstance(value, dict):
            if not value.keys() & {"schema", "step_ms"}:
                raise BadInputError(
                    source,
                    found="JSON that is no line of measurements",
                    expected="what `ci-score ab` or `ci-score measure` wrote (its --out)",
                )
            strange = strange_among(value, cls.known_keys())
            refuse_typo(value, "step_ms", source, strange)
            value = {**value, "strange_keys": strange}
        return validate(cls, value, source)

    @property
    def void(self) -> dict[Disturbance, str]:
        """Why this launch has no usable time; empty where it has one."""
        if self.failed:
            return {"crashed": self.failed}
        if "nan" in self.disturbances or "crashed" in self.disturbances:
            return {
                event: words
                for event, words in self.disturbances.items()
                if event in ("nan", "crashed")
            }
        if not self.timed_ms or self.mean_ms == 0:
            return {"nan": "its steps take 0 ms, which is no time"}
        return {}

    @property
    def is_sound(self) -> bool:
        """Whether its numbers can be shown: it has times, and nobody else disturbed them."""
        return not self.void and "shared" not in self.disturbances

    @property
    def timed_ms(self) -> tuple[float, ...]:
        """The steps after the declared warm-up."""
        return self.step_ms[self.warmup_steps :]

    @property
    def mean_ms(self) -> float:
        """The launch as one number: time is the sum of all steps, so a stall counts, too."""
        return math.fsum(self.timed_ms) / len(self.timed_ms)

    def numbers(self) -> LaunchNumbers:
        """One number per metric; the throughput is the whole job's."""
        values = {} if self.void else self._values()
        return LaunchNumbers(
            side=self.side,
            launch=self.launch,
            void=bool(self.void),
            shared="shared" in self.disturbances,
            resolution_ms=self.resolution_ms,
            looks=self.looks,
            values=values,
            loss_from=self.loss_from,
            warmup_steps=self.warmup_steps,
            timed_steps=len(self.timed_ms),
            step=self.step,
        )

    def _values(self) -> dict[str, float]:
        tokens = self.tokens_per_step
        known: dict[str, float | None] = {
            **self.metrics,
            "step_time_ms": self.mean_ms,
            "peak_memory_gb": self.peak_memory_gb,
            "final_loss": self.final_loss,
            "throughput_tok_s": tokens / self.mean_ms * 1000.0 if tokens else None,
        }
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SideLaunches:
    """The launches of one side of a case."""

    launches: tuple[Launch, ...]

    def numbers(self) -> tuple[LaunchNumbers, ...]:
        """What each launch measured; each launch is one piece of evidence."""
        return tuple(launch.numbers() for launch in self.launches)

    @property
    def tokens_per_step(self) -> float | None:
        """The median of the launches that have it; the judge checks whether they agree."""
        tokens = [one.tokens_per_step for one in self.launches if one.tokens_per_step]
        return statistics.median(tokens) if tokens else None

    @property
    def drift(self) -> str:
        """How its steps still drift while they are timed, in words; empty where they do not."""
        changes = [_change_within(one.timed_ms) for one in self.launches
                   if not one.void and len(one.timed_ms) >= LEAST_OF_A_DRIFT]  # fmt: skip
        change = statistics.median(changes) if len(changes) >= LEAST_LAUNCHES else 0.0
        if abs(change) <= DRIFTS:
            return ""
        how, than = ("faster", "less") if change < 0 else ("slower", "more")
        share = f"{abs(change) * 100:.0f} % {than}"
        return (
            f"while they are timed, the steps of {self.launches[0].side} still become {how}: in the"
            f" second half of a launch they take {share}"
        )

    @property
    def versions(self) -> dict[str, str]:
        """The versions that this side ran with; each side's process reports its own."""
        return {name: each for launch in self.launches for name, each in launch.versions.items()}

    @property
    def sound(self) -> tuple[Launch, ...]:
        """The launches whose numbers are shown: the undisturbed, or all if most were disturbed.

        Otherwise a side could call its slow launches disturbed and show the fast ones alone.
        """
        timed = tuple(one for one in self.launches if not one.void)
        calm = tuple(one for one in timed if one.is_sound)
        return calm if 2 * len(calm) >= len(timed) else timed

    def applied_to(self, profile: Profile) -> Profile:
        """The profile with the measured numbers in place of those under the profiler."""
        tokens, sound = self.tokens_per_step, self.sound
        memory = [one.peak_memory_gb for one in sound if one.peak_memory_gb is not None]
        return profile.but(
            avg_step_ms=statistics.fmean(one.mean_ms for one in sound) if sound else 0.0,
            profiled_step_ms=profile.avg_step_ms,
            peak_memory_gb=max(memory, default=profile.peak_memory_gb),
            sources={**profile.sources, "avg_step_ms": "the measurements"},
            tokens_per_step=tokens if tokens is not None else _tokens_of(profile),
            tokens_inferred=profile.tokens_inferred and tokens is None,
            # The profile's throughput is of the profiled run; the tokens give the measured one.
            throughput_tok_s=None,
            runs=(),
        )


def _change_within(steps: Sequence[float]) -> float:
    """The relative change of the median step from the first half to the second."""
    half = len(steps) // 2
    earlier = statistics.median(steps[:half])
    return statistics.median(steps[half:]) / earlier - 1.0 if earlier else 0.0


def _tokens_of(profile: Profile) -> float | None:
    """The tokens of a step, computed from throughput and step time if need be."""
    if profile.tokens_per_step is not None or not profile.throughput_tok_s:
        return profile.tokens_per_step
    return profile.throughput_tok_s * profile.avg_step_ms / 1000.0 or None


def without_a_time(launches: Sequence[Launch]) -> Reason | None:
    """A side has no time at all. Without its base, a session would look like a first run."""
    for side in SIDES:
        own = [launch for launch in launches if launch.side == side]
        if own and all(launch.void for launch in own):
            void = own[0].void
            return Why.NO_SOUND_LAUNCH(
                side=side, launch=own[0].launch, events=tuple(void), words=tuple(void.values())
            )
    return None


def _odd_launches(launches: Iterable[Launch]) -> Iterator[Note]:
    """What happened to single launches, and what that means for them."""
    odd = [(launch, code, words, fate) for launch in launches
           for code, words, fate in _what_happened(launch)]  # fmt: skip
    for launch, code, words, fate in odd[:NAMED_VOID]:
        # As `ab` counts them on the terminal.
        name = f"Launch {launch.launch + 1} of the {launch.side}"
        yield Note(code=code, words=f"{name} {fate} ({words}).")
    if len(odd) > NAMED_VOID:
        more = f"{len(odd) - NAMED_VOID} more launches are void or were disturbed."
        yield Note(code="void_launch", words=more)


def _what_happened(launch: Launch) -> Iterator[tuple[str, str, str]]:
    if launch.void:
        words = "; ".join(f"{event}: {words}" for event, words in launch.void.items())
        yield "void_launch", words, "is void"
        return
    if "shared" in launch.disturbances:
        yield "shared_launch", launch.disturbances["shared"], "was disturbed by others"
    if "throttled" in launch.disturbances:
        # Heavier work lowers the clocks as well, so that is no excuse for a slow launch.
        words = launch.disturbances["throttled"]
        yield "throttled_launch", words, "ran with lower clocks, and counts as it is"


def _stalls(launches: Sequence[Launch]) -> Iterator[str]:
    """The mean of the steps decides. Where it is far from the usual step, the report says so.

    Long steps are counted on both sides: a base that evaluates looks slower than it is.
    """
    for side, owner in (("head", ""), ("base", " of the base")):
        steps = [step for launch in launches if launch.side == side and not launch.void
                 for step in launch.timed_ms]  # fmt: skip
        usual = statistics.median(steps) if steps else 0.0
        if usual <= 0:
            continue
        share = statistics.fmean(steps) / usual - 1.0
        long = sum(step > LONG_STEP * usual for step in steps)
        count = f"{long} of {len(steps)} steps{owner} take over {LONG_STEP:g} times as long"
        why = "(a stall, an evaluation or a checkpoint?)"
        if share > WORTH_A_NOTE:
            longer = f"{share * 100:.0f} % longer than the median step"
            words = f"The mean step{owner}, which is judged, is {longer}"
            yield f"{words}: {count} {why}." if long else f"{words}."
        elif long:
            yield f"{count} as the median step {why}."


def took_turns(launches: Iterable[Launch]) -> bool | None:
    """Whether the two launches of each pair ran one after the other; None if that is not told.

    With others between them they do not share the machine's mood, and are no pair.
    """
    ordered = sorted(launches, key=lambda launch: launch.order)
    sides = [launch.side for launch in ordered]
    is_known = len({launch.order for launch in ordered}) == len(ordered)
    if min(map(sides.count, SIDES)) < 2 or not is_known:
        return None
    places: dict[int, list[int]] = {}
    for place, launch in enumerate(ordered):
        places.setdefault(launch.launch, []).append(place)
    pairs = [both for both in places.values() if len(both) == 2]
    return all(second - first == 1 for first, second in pairs)


def notes_on(launches: Sequence[Launch]) -> list[Note]:
    """Notes on a session."""
    judged = [launch for launch in launches if launch.is_sound]
    return [
        *_odd_launches(launches),
        *note_on_strange((launch.strange_keys for launch in launches), Launch.known_keys()),
        *(Note(code="mean_above_median", words=words) for words in _stalls(launches)),
        *(Note(code="still_drifts", words=words) for words in _drifts(judged)),
        *(Note(code="counted_otherwise", words=words) for words in _counted(judged)),
        *(Note(code="tokens_not_told", words=words) for words in _untold_tokens(judged)),
        *(Note(code="other_steps", words=words) for words in _other_steps(judged)),
        *(Note(code="profiler_ran", words=words) for words in _profiled(launches)),
        *(Note(code="warm_up_not_declared", words=words) for words in _warm_up(launches)),
    ]


def _profiled(launches: Sequence[Launch]) -> Iterator[str]:
    """The script's own profiler was on: it costs time, and perhaps not the same on both sides."""
    sides = {one.side for one in launches if one.profiler_ran}
    if sides:
        yield (
            "A profiler of the script's own ran in timed launches of the"
            f" {' and the '.join(sorted(sides))}: what it costs is in the times."
        )


def _warm_up(launches: Iterable[Launch]) -> Iterator[str]:
    """The first timed steps look like warm-up. As the user declares it, this is only a note."""
    factors = [_first_step_factor(launch.timed_ms) for launch in launches if not launch.void]
    slow = [factor for factor in factors if factor > WARM_UP_FROM]
    if len(slow) >= LEAST_LAUNCHES and len(slow) >= SYSTEMATIC * len(factors):
        times = statistics.median(slow)
        yield (
            f"The first timed step of {len(slow)} of {len(factors)} launches takes"
            f" {times:.1f} times as long as usual: more warm-up steps than declared?"
        )


def _drifts(launches: Iterable[Launch]) -> Iterator[str]:
    """A side whose steps had not settled when they were timed."""
    for own in by_side(launches).values():
        if own.drift:
            yield f"{own.drift[0].upper()}{own.drift[1:]}: more warm-up steps would leave that out."


def _counted(launches: Iterable[Launch]) -> Iterator[str]:
    """What was counted as a step of each side, where that differs."""
    sides = by_side(launches)
    steps = {side: [one.step for one in own.launches if one.step] for side, own in sides.items()}
    if not (steps.get("head") and steps.get("base")):
        return
    head, base = steps["head"][0], steps["base"][0]
    if head.name != base.name:
        yield f"A step ends with {head.name} in head, and with {base.name} in base."
    passes = [statistics.fmean(one.backward_passes for one in steps[side]) for side in SIDES]
    if passes_differ(*passes):
        yield f"Backward passes a step: {passes[0]:.3g} in head, {passes[1]:.3g} in base."


def _untold_tokens(launches: Iterable[Launch]) -> Iterator[str]:
    """Some launches of a side do not have their tokens, and others do."""
    for side, measured in by_side(launches).items():
        tokens, rows = measured.tokens_per_step, measured.launches
        silent = sum(not launch.tokens_per_step for launch in rows)
        if tokens and silent:
            yield (
                f"{silent} of {len(rows)} launches of the {side} do not tell their tokens a step,"
                " so their throughput is not known."
            )


def _other_steps(launches: Iterable[Launch]) -> Iterator[str]:
    """One side has more warm-up steps or timed steps than the other."""
    sides = by_side(launches)
    if len(sides) < 2:
        return
    counts: dict[str, Callable[[Launch], int]] = {
        "warm-up": lambda launch: launch.warmup_steps,
        "timed": lambda launch: len(launch.timed_ms),
    }
    for kind, count in counts.items():
        head, base = (_range(list(map(count, sides[side].launches))) for side in SIDES)
        if head != base:
            words = f"The launches of the head have {head} {kind} steps"
            yield f"{words}, those of the base {base}."


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


def _first_step_factor(steps: tuple[float, ...]) -> float:
    """The first step in times of the median; 0 unless it is among the slowest tenth."""
    usual = statistics.median(steps)
    longer = sum(step > steps[0] for step in steps)
    return steps[0] / usual if usual > 0 and longer < len(steps) / 10 else 0.0


def read_launches(data: bytes, source: str, *, planted: bool = False) -> list[Launch]:
    """The launches in a file of JSON lines. A last line that a kill has cut short is dropped.

    Launches of `ci-score qualify` are `planted`. They are refused unless asked for, because they do
    not measure a change.
    """
    if data.count(b"\n") > MOST_LINES:
        raise BadInputError(source, found=f"over {MOST_LINES} lines", expected="a line a launch")
    lines = data.split(b"\n")
    if lines[-1].strip() and not lines[-1].rstrip().endswith(b"}"):
        lines.pop()
    return [
        _launch(line, f"{source}:{number}", planted=planted)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def by_side(launches: Iterable[Launch]) -> dict[Side, SideLaunches]:
    """The launches of each side, in the order in which they ran."""
    sides: dict[Side, list[Launch]] = {}
    for launch in sorted(launches, key=lambda launch: launch.order):
        sides.setdefault(launch.side, []).append(launch)
    return {side: SideLaunches(tuple(rows)) for side, rows in sides.items()}


def _launch(line: bytes, source: str, *, planted: bool) -> Launch:
    launch = Launch.of_line(_without_gaps(_value(line, source)), source)
    if launch.planted is not None and not planted:
        raise BadInputError(
            source,
            field="planted",
            found="a launch of `ci-score qualify`",
            expected="measurements of a change: they tell about the machine alone",
        )
    with overflow_is_bad_input(source):
        launch.numbers()
    if not launch.timed_ms and not (launch.failed or launch.disturbances):
        raise BadInputError(
            source,
            field="step_ms",
            found=f"{len(launch.step_ms)} steps, {launch.warmup_steps} of them warm-up",
            expected="a step after the warm-up",
        )
    return launch


def _value(line: bytes, source: str) -> Any:
    try:
        return parse(line, source)
    except BadInputError:
        if _NOT_A_NUMBER.search(line) is None:
            raise
        # The parser's own message would not say what to write instead.
        raise BadInputError(
            source,
            found="NaN or Infinity, which is not JSON",
            expected="null for a step that is no number, and `failed` with the reason",
        ) from None


def _without_gaps(value: Any) -> Any:
    """The value without steps that are null, which stand for NaN; they become a disturbance."""
    steps = value.get("step_ms") if isinstance(value, dict) else None
    if not isinstance(steps, list) or None not in steps:
        return value
    known = value.get("disturbances")
    words = f"{steps.count(None)} of {len(steps)} steps are no number"
    return {
        **value,
        "step_ms": [step for step in steps if step is not None],
        "disturbances": {"nan": words, **(known if isinstance(known, dict) else {})},
    }

"""Measurements: step times without a profiler, one JSON object per process launch."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input, parse, validate
from ci_score.model.environment import Disturbance
from ci_score.model.profile import Profile
from ci_score.model.reasons import Note, Reason, Why
from ci_score.model.record import MOST_LAUNCHES, LaunchNumbers
from ci_score.model.values import CaseName, Count, Lax, Milliseconds, NotNegative, ShortText, Value

Side = Literal["head", "base"]
SIDES: tuple[Side, ...] = ("head", "base")
MOST_LINES = 100_000
# By luck the first step of each of three launches is among its slowest tenth once in 1,000 times.
WARM_UP_FROM = 1.1
LEAST_LAUNCHES = 3
SYSTEMATIC = 0.9
NAMED_VOID = 5
# The machine may cause one crash more than the base has.
CLEARLY_MORE = 2
LONGEST_DISTURBANCE = 200
# Thirty years. The sum of longer steps could overflow.
LONGEST_STEP_MS = 1e12
StepMilliseconds = Annotated[Milliseconds, Field(le=LONGEST_STEP_MS)]
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
    final_loss: float | None = None
    # From `ci-score qualify`: by how much it made the steps longer, 0 for its unchanged launches.
    planted: NotNegative | None = None
    # From `ci-score ab`: the part of the chance of error for the look at this pair.
    look_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    # Why the launch measured nothing, in its own words.
    failed: ShortText | None = None
    # What happened while it ran -> a description; steps that are null count as `nan`.
    disturbances: Annotated[dict[Disturbance, ShortText], Field(default_factory=dict)]
    metrics: Annotated[dict[ShortText, float], Field(max_length=32, default_factory=dict)]
    versions: Annotated[dict[ShortText, ShortText], Field(max_length=32, default_factory=dict)]

    @property
    def void(self) -> dict[Disturbance, str]:
        """Why this launch and its pair cannot be used; empty where it is sound."""
        reasons: dict[Disturbance, str] = {"crashed": self.failed} if self.failed else {}
        if not self.failed and self.timed_ms and self.typical_ms == 0:
            reasons["nan"] = "its median step takes 0 ms, which is no time"
        return {**reasons, **self.disturbances}

    @property
    def timed_ms(self) -> tuple[float, ...]:
        """The steps after the declared warm-up."""
        return self.step_ms[self.warmup_steps :]

    @property
    def typical_ms(self) -> float:
        """The launch as one number: its median step, which a single slow step does not change."""
        return statistics.median(self.timed_ms)

    def numbers(self, tokens: float | None = None) -> LaunchNumbers:
        """One number per metric; the throughput is the whole job's.

        `tokens` is used as the tokens of a step if the launch does not have them.
        """
        tokens = self.tokens_per_step or tokens
        known: dict[str, float | None] = {
            **self.metrics,
            "step_time_ms": self.typical_ms,
            "peak_memory_gb": self.peak_memory_gb,
            "final_loss": self.final_loss,
        }
        if tokens and self.typical_ms > 0:
            known["throughput_tok_s"] = tokens / self.typical_ms * 1000.0
        values = {name: value for name, value in known.items() if value is not None}
        return LaunchNumbers(
            side=self.side,
            launch=self.launch,
            values=values,
            warmup_steps=self.warmup_steps,
            timed_steps=len(self.timed_ms),
            look_share=self.look_share,
        )


@dataclass(frozen=True, slots=True)
class SideLaunches:
    """The launches of one side of a case."""

    launches: tuple[Launch, ...]

    def numbers(self) -> tuple[LaunchNumbers, ...]:
        """What each launch measured; each launch is one piece of evidence."""
        tokens = self.tokens_per_step
        return tuple(launch.numbers(tokens) for launch in self.launches)

    @property
    def tokens_per_step(self) -> float | None:
        """The median of the launches that have it; the judge checks whether they agree."""
        tokens = [one.tokens_per_step for one in self.launches if one.tokens_per_step]
        return statistics.median(tokens) if tokens else None

    @property
    def versions(self) -> dict[str, str]:
        """The versions that this side ran with; each side's process reports its own."""
        return {name: each for launch in self.launches for name, each in launch.versions.items()}

    def applied_to(self, profile: Profile) -> Profile:
        """The profile with the measured numbers in place of those under the profiler."""
        tokens = self.tokens_per_step
        memory = [one.peak_memory_gb for one in self.launches if one.peak_memory_gb is not None]
        return profile.but(
            avg_step_ms=statistics.median(one.typical_ms for one in self.launches),
            profiled_step_ms=profile.avg_step_ms,
            peak_memory_gb=max(memory, default=profile.peak_memory_gb),
            sources={**profile.sources, "avg_step_ms": "the measurements"},
            tokens_per_step=tokens if tokens is not None else _tokens_of(profile),
            # The profile's throughput is of the profiled run; the tokens give the measured one.
            throughput_tok_s=None,
        )


def _tokens_of(profile: Profile) -> float | None:
    """The tokens of a step, computed from throughput and step time if need be."""
    if profile.tokens_per_step is not None or not profile.throughput_tok_s:
        return profile.tokens_per_step
    return profile.throughput_tok_s * profile.avg_step_ms / 1000.0 or None


@dataclass(frozen=True, slots=True)
class SoundLaunches:
    """The launches of a session that can be judged, and what was void in it.

    `disturbances` and `base_disturbances` are set if all launches of that side are void and some
    have times: then the policy decides. `crashed` is set if a side has no time at all, or if the
    head crashes clearly more often than the base.
    """

    launches: Sequence[Launch]
    notes: tuple[Note, ...] = ()
    disturbances: Mapping[str, str] = field(default_factory=dict)
    base_disturbances: Mapping[str, str] = field(default_factory=dict)
    crashed: Reason | None = None


def sound(launches: Sequence[Launch]) -> SoundLaunches:
    """The launches without the void ones; of a pair with a void launch, both sides go."""
    void = [launch for launch in launches if launch.void]
    if not void:
        return SoundLaunches(launches)
    pairs = _pair_of_each(launches)
    sides = {launch.side for launch in launches}
    in_pairs = len(sides) > 1
    gone = {pairs[id(launch)] for launch in void} if in_pairs else set()
    whole = [launch for launch in launches if not launch.void]
    kept = [launch for launch in whole if pairs[id(launch)] not in gone]
    fate = "its pair does not count" if in_pairs else "it does not count"
    notes = tuple(
        Note(code="void_launch", words=f"{_words(launch)}: {fate}.") for launch in void[:NAMED_VOID]
    )
    if len(void) > NAMED_VOID:
        more = f"{len(void) - NAMED_VOID} more launches are void."
        notes += (Note(code="void_launch", words=more),)
    crashed = _without_any_time(launches) or _crashes_more(launches)
    if crashed:
        return SoundLaunches((), notes, crashed=crashed)
    for candidates in (kept, whole):
        if {launch.side for launch in candidates} == sides:
            return SoundLaunches(candidates, notes)
    return SoundLaunches(
        [launch for launch in launches if _has_a_time(launch)],
        notes,
        _disturbances(launches, "head"),
        _disturbances(launches, "base"),
    )


def _has_a_time(launch: Launch) -> bool:
    """Whether it has a time that the policy may still accept, whatever disturbed it."""
    return bool(launch.timed_ms) and launch.typical_ms > 0 and "crashed" not in launch.void


def _without_any_time(launches: Sequence[Launch]) -> Reason | None:
    """A side has no time at all. Without its base, a session would look like a first run."""
    for side in SIDES:
        own = [launch for launch in launches if launch.side == side]
        if own and not any(_has_a_time(launch) for launch in own):
            void = own[0].void
            return Why.NO_SOUND_LAUNCH(
                side=side, launch=own[0].launch, events=tuple(void), words=tuple(void.values())
            )
    return None


def _crashes_more(launches: Sequence[Launch]) -> Reason | None:
    """The head crashes clearly more often than the base; the remaining pairs would hide that."""
    own = {side: [launch for launch in launches if launch.side == side] for side in SIDES}
    crashed = {
        side: [launch.void["crashed"] for launch in rows if "crashed" in launch.void]
        for side, rows in own.items()
    }
    head, base = crashed["head"], crashed["base"]
    if not own["base"] or len(head) < len(base) + CLEARLY_MORE:
        return None
    return Why.CRASHES_MORE(
        head=len(head), head_launches=len(own["head"]), words=head[0], base=len(base)
    )


def _disturbances(launches: Sequence[Launch], side: Side) -> dict[str, str]:
    """What happened to a side whose launches are all void; else nothing."""
    own = [launch for launch in launches if launch.side == side]
    if not all(launch.void for launch in own):
        return {}
    by_kind: dict[str, list[str]] = {}
    for launch in own:
        for what, words in launch.void.items():
            by_kind.setdefault(what, []).append(words)
    return {
        what: f"{len(words)} of {len(own)} launches: {words[0]}"[:LONGEST_DISTURBANCE]
        for what, words in by_kind.items()
    }


def _pair_of_each(launches: Sequence[Launch]) -> dict[int, tuple[int, int]]:
    """The pair of each launch: its number, and a count, as another session has the same numbers."""
    seen: dict[tuple[str, int], int] = {}
    pairs = {}
    for launch in sorted(launches, key=lambda launch: launch.order):
        key = launch.side, launch.launch
        seen[key] = seen.get(key, 0) + 1
        pairs[id(launch)] = launch.launch, seen[key]
    return pairs


def _words(launch: Launch) -> str:
    reasons = "; ".join(f"{what}: {words}" for what, words in launch.void.items())
    return f"Launch {launch.launch} of the {launch.side} is void ({reasons})"


def took_turns(launches: Iterable[Launch]) -> bool | None:
    """Whether the sides ran in turns; None if the launches do not have their order."""
    orders: dict[Side, list[int]] = {"head": [], "base": []}
    for launch in launches:
        orders[launch.side].append(launch.order)
    head, base = orders["head"], orders["base"]
    is_known = len({*head, *base}) == len(head) + len(base)
    if len(head) < 2 or len(base) < 2 or not is_known:
        return None
    return max(head) > min(base) and max(base) > min(head)


def notes_on(launches: Sequence[Launch], judged: Sequence[Launch]) -> list[Note]:
    """Notes on a session; `judged` are its sound launches."""
    return [
        *(Note(code="tokens_not_told", words=words) for words in _untold_tokens(judged)),
        *(Note(code="other_steps", words=words) for words in _other_steps(judged)),
        *(Note(code="warm_up_not_declared", words=words) for words in _warm_up(launches)),
        *(Note(code="not_in_turns", words=words) for words in _not_in_turns(launches)),
    ]


def _warm_up(launches: Iterable[Launch]) -> Iterator[str]:
    """The first timed steps look like warm-up. As the user declares it, this is only a note."""
    factors = [_first_step_factor(launch.timed_ms) for launch in launches if launch.timed_ms]
    slow = [factor for factor in factors if factor > WARM_UP_FROM]
    if len(slow) >= LEAST_LAUNCHES and len(slow) >= SYSTEMATIC * len(factors):
        times = statistics.median(slow)
        yield (
            f"The first timed step of {len(slow)} of {len(factors)} launches takes"
            f" {times:.1f} times as long as usual: more warm-up steps than declared?"
        )


def _not_in_turns(launches: Iterable[Launch]) -> Iterator[str]:
    """One side ran before the other, so that a drift would be judged as the change."""
    if took_turns(launches) is False:
        yield (
            "One side ran before the other, and not in turns: whatever drifted meanwhile looks"
            " like a change."
        )


def _untold_tokens(launches: Iterable[Launch]) -> Iterator[str]:
    """Some launches of a side do not have their tokens, and others do."""
    for side, measured in by_side(launches).items():
        tokens, rows = measured.tokens_per_step, measured.launches
        silent = sum(not launch.tokens_per_step for launch in rows)
        if tokens and silent:
            yield (
                f"{silent} of {len(rows)} launches of the {side} do not tell their tokens a step:"
                f" taken as {tokens:.0f}, as of the others."
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
    launches = [
        _launch(line, f"{source}:{number}", planted=planted)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if len(launches) > MOST_LAUNCHES:
        raise BadInputError(
            source, found=f"{len(launches)} launches", expected=f"at most {MOST_LAUNCHES}"
        )
    return launches


def by_side(launches: Iterable[Launch]) -> dict[Side, SideLaunches]:
    """The launches of each side, in the order in which they ran."""
    sides: dict[Side, list[Launch]] = {}
    for launch in sorted(launches, key=lambda launch: launch.order):
        sides.setdefault(launch.side, []).append(launch)
    return {side: SideLaunches(tuple(rows)) for side, rows in sides.items()}


def _launch(line: bytes, source: str, *, planted: bool) -> Launch:
    launch = validate(Launch, _without_gaps(_value(line, source)), source)
    if launch.planted is not None and not planted:
        raise BadInputError(
            source,
            field="planted",
            found="a launch of `ci-score qualify`",
            expected="measurements of a change: they tell about the machine alone",
        )
    with overflow_is_bad_input(source):
        if launch.timed_ms:
            launch.numbers()
    if not launch.timed_ms and not launch.void:
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

"""What an A/B session was asked to do, what it has measured, and what that says."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ci_score.judge import LEAST_PAIRS, judge_pairs, planned_looks
from ci_score.launches import Launch
from ci_score.measure.launch.hooked import COUNTED
from ci_score.measure.session.schedule import ANSWERS, SIDES, Answer, Look
from ci_score.measure.session.settled import Settled, warmup_of
from ci_score.model.values import Side

SHARED, THROTTLED = "shared", "throttled"
# Of the planned pairs, one in so many may be measured again.
PAIRS_A_REPEAT = 8
SHORT_LAUNCH_MS, LONGER = 2000.0, 5
# How much slower a pair to come is taken to be, to see whether anything can be proven with it.
FAR_SLOWER = 1e6
# How many steps of a launch are timed, and how many the warm-up is chosen from.
STEPS, SETTLE_STEPS = 20, 50
# Head and base of one pair.
Pair = tuple[Launch, Launch]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session was asked to do; a session goes on only by the same plan.

    `limit` and `warn` are shares of the time of a step; `with_tokens` are both of them where the
    launches tell their tokens. `seed` throws the coins; None is a fresh one for each session.
    `programs` tells the code of each side apart, as far as it is known. The sides of a `planted`
    session are one program, made slower on purpose: it tells about the machine alone.
    `repeats_shared` says that pairs which others disturbed are measured again. `steps` are timed in
    a launch, after those of the warm-up, which is chosen from `settle_steps`. Where head is
    measured `alone` there are no pairs and no looks.
    """

    command: tuple[str, ...]
    case: str
    looks: tuple[int, ...]
    false_fail: float
    limit: float
    seed: int | None
    timeout: float
    sides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    warn: float | None = None
    with_tokens: tuple[float, float] | None = None
    tests: int = 1
    repeats_shared: bool = True
    warmup_steps: int | None = None
    tokens_per_step: float | None = None
    steps: int = STEPS
    settle_steps: int = SETTLE_STEPS
    programs: Mapping[str, str] = field(default_factory=dict)
    planted: bool = False
    alone: bool = False

    @property
    def least_to_prove(self) -> int:
        """How many sound pairs it takes to prove any slowdown."""
        return planned_looks(self.limit, (1,), self.false_fail, self.tests)[-1]

    def repeats(self, pair: Pair) -> bool:
        """Whether a pair is measured again. A void one is not: its side may be the reason."""
        is_void = any(one.failed for one in pair)
        is_shared = any(SHARED in one.disturbances for one in pair)
        return self.repeats_shared and is_shared and not is_void

    def fixed(self) -> dict[str, Any]:
        """What must not change between the sittings of a session, as its file has it."""
        known: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        del known["timeout"]
        return known


class Ending(StrEnum):
    """Why a session stopped."""

    CLEAR = "it is clear"
    ALL_PAIRS = "all pairs were measured"
    HOPELESS = "nothing can be decided any more"
    TIME = "the time was used up"
    DISTURBED = "others disturbed it too often"
    BROKEN = "a side is broken"
    UNSETTLED = "a side does not run as it was asked to"
    INTERRUPTED = "it was interrupted"


# A session that ended so goes on only if pairs are added, and a disturbed one not at all.
FINISHED = (Ending.CLEAR, Ending.ALL_PAIRS, Ending.HOPELESS)
JUDGED = (Ending.CLEAR, Ending.ALL_PAIRS, Ending.TIME)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the pairs say: shares of time, and no end of the interval where there is none.

    `is_settled` where it is known by both limits: by the one that fails, and the one that warns.
    """

    answer: Answer
    slower: float
    low: float
    high: float
    is_settled: bool = False

    @property
    def is_unclear(self) -> bool:
        """Whether it proves nothing either way."""
        return self.answer is Answer.UNCLEAR

    @property
    def is_other(self) -> bool:
        """Whether head is surely slower, or surely faster."""
        return self.low > 0 or self.high < 0


@dataclass(slots=True)
class Session:
    """What was measured so far.

    `settled` is what each side's untimed launch told, `alone` are launches without a counterpart.
    `pairs` are those that count, void ones too; `disturbed` are those that were measured again. It
    ends after `goal` pairs at the latest. A session to which pairs were added looks only then.
    `cannot_run` is the side whose untimed launch failed by its own fault.
    """

    plan: Plan
    settled: dict[Side, Settled] = field(default_factory=dict)
    alone: list[Launch] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    disturbed: list[Pair] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next_pair: int = 0
    goal: int = 0
    was_extended: bool = False
    timed_from: str = ""
    ending: Ending | None = None
    stopped: str = ""
    cannot_run: Side | None = None

    def __post_init__(self) -> None:
        if self.plan.looks:
            self.goal = self.goal or self.plan.looks[-1]

    @property
    def warmup(self) -> int:
        """How many steps of each launch do not count, where the hook counts them."""
        given = self.plan.warmup_steps
        return warmup_of(self.settled) if given is None else max(given, 1)

    @property
    def never_ran(self) -> bool:
        """Whether a side does not run as it was asked to: what stopped the session says it all."""
        return self.ending is Ending.UNSETTLED

    def of_side(self, side: Side) -> str:
        """Whose something is; a session of one side alone need not say it."""
        return "" if self.plan.alone else f" of the {side}"

    def stop(self, ending: Ending, words: str) -> None:
        """It ends here."""
        self.ending, self.stopped = ending, words

    def seen(self) -> Seen:
        """What the judge of `run` sees in the pairs so far."""
        judged = judge_pairs(*self._times(), **self._rules())
        answer = ANSWERS.get(judged.outcome, Answer.UNCLEAR)
        return Seen(answer, judged.estimate, judged.low, judged.high, judged.settled)

    def pairs_to_settle(self) -> int | None:
        """How many pairs like these would probably decide it; None where no number would."""
        return judge_pairs(*self._times(), **self._rules()).more

    @property
    def may_be_extended(self) -> bool:
        """Whether more pairs could settle it: the planned ones are measured, and none is void."""
        return self.ending in FINISHED and not self.void

    @property
    def may_fail(self) -> bool:
        """Whether the pairs that are still to come could prove a slowdown."""
        head, base = self._times()
        count = len(head)
        return any(
            judge_pairs(
                [*head, *[FAR_SLOWER] * (pairs - count)],
                [*base, *[1.0] * (pairs - count)],
                **self._rules(),
            ).outcome
            == "fail"
            for pairs in {*self.plan.looks, self.goal}
            if count < pairs <= self.goal
        )

    @property
    def limit(self) -> float:
        """The slowdown that fails, as a share of the time of a step."""
        return self._limits[0]

    @property
    def _limits(self) -> tuple[float, float | None]:
        """Which slowdown fails and which one warns, of what the launches measured."""
        plan = self.plan
        if plan.with_tokens is not None and self._tells_tokens:
            return plan.with_tokens
        return plan.limit, plan.warn

    def _rules(self) -> dict[str, Any]:
        plan = self.plan
        limit, warn = self._limits
        per = self._tokens_or_one()
        ticks = (one.resolution_ms / per(one) for one in self._sound())
        return {
            "limit": limit,
            "warn": warn,
            "false_fail": plan.false_fail,
            "looks": plan.looks,
            "tests": plan.tests,
            "resolution": max(ticks, default=0.0),
        }

    def _times(self) -> tuple[list[float], list[float]]:
        """The times of head and base; NaN is a void launch."""
        per = self._tokens_or_one()
        times = [
            [math.nan if one.failed else one.mean_ms / per(one) for one in pair]
            for pair in self.pairs
        ]
        return [head for head, _ in times], [base for _, base in times]

    def _tokens_or_one(self) -> Callable[[Launch], float]:
        """What the times are divided by: tokens, where all sound launches tell theirs."""
        tells_tokens = self._tells_tokens
        return lambda one: (one.tokens_per_step or 1.0) if tells_tokens else 1.0

    @property
    def _tells_tokens(self) -> bool:
        sound = self._sound()
        return bool(sound) and all(one.tokens_per_step for one in sound)

    def _sound(self) -> list[Launch]:
        return [one for pair in self.pairs for one in pair if not one.failed]

    def usual_ms(self, side: Side) -> float:
        """The median launch of a side; NaN where none is sound."""
        times = [one.mean_ms for one in self._sound() if one.side == side]
        return statistics.median(times) if times else math.nan

    @property
    def longer_steps(self) -> int | None:
        """How many steps to time where so few are a moment; None where they are long enough.

        A stall of the machine is a large part of a moment.
        """
        steps = self.plan.steps
        is_short = self.timed_from == COUNTED and self.usual_ms("base") * steps < SHORT_LAUNCH_MS
        return LONGER * steps if is_short else None

    @property
    def sound_pairs(self) -> int:
        """How many pairs have two launches that can be used."""
        return sum(not any(one.failed for one in pair) for pair in self.pairs)

    @property
    def void(self) -> list[Launch]:
        """The launches without a usable time, which forbid that it is clear in head's favour."""
        return [one for pair in self.pairs for one in pair if one.failed]

    @property
    def launches(self) -> list[Launch]:
        """All that was measured, in order: also what does not count."""
        pairs = sorted([*self.pairs, *self.disturbed], key=lambda pair: pair[0].launch)
        return [*self.alone, *(one for pair in pairs for one in pair)]

    @property
    def most_repeats(self) -> int:
        """How many pairs may be measured again."""
        return max(1, self.goal // PAIRS_A_REPEAT)

    @property
    def answer(self) -> Answer:
        """What the last look found."""
        return self.looks[-1].answer if self.looks else Answer.UNCLEAR

    @property
    def is_measured(self) -> bool:
        """Whether all launches of a side alone were measured."""
        return self.ending is Ending.ALL_PAIRS

    @property
    def sides(self) -> tuple[Side, ...]:
        """Whom it measures."""
        return ("head",) if self.plan.alone else SIDES

    @property
    def can_be_judged(self) -> bool:
        """Whether it ended as a session may, with pairs enough to say anything."""
        return self.sound_pairs >= LEAST_PAIRS and self.ending in JUDGED

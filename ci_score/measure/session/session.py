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
from ci_score.measure.launch.launching import Done
from ci_score.measure.launch.warm_up import slow_steps_in
from ci_score.measure.session.schedule import ANSWERS, SIDES, Answer, Look
from ci_score.measure.session.settled import STEPS, Settled, warmup_of
from ci_score.model.record import is_lopsided
from ci_score.model.values import Side

SHARED, THROTTLED = "shared", "throttled"
# How much slower a pair to come is taken to be, to see whether anything can be proven with it.
FAR_SLOWER = 1e6
# How many steps the warm-up is chosen from.
SETTLE_STEPS = 50
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
    a launch, after those of the warm-up, which is chosen from `settle_steps`; None is as many as
    the untimed launches ask for. Where head is measured `alone` there are no pairs and no looks.
    `same_work` and `loss_tolerance` are the policy's, for what is said before anything is timed.
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
    steps: int | None = None
    settle_steps: int = SETTLE_STEPS
    programs: Mapping[str, str] = field(default_factory=dict)
    planted: bool = False
    alone: bool = False
    same_work: tuple[str, ...] = ()
    loss_tolerance: float = 0.0

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
        for changes_nothing in ("timeout", "same_work", "loss_tolerance"):
            del known[changes_nothing]
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


# A session that ended so goes on only if pairs are added.
FINISHED = (Ending.CLEAR, Ending.ALL_PAIRS, Ending.HOPELESS)
JUDGED = (Ending.CLEAR, Ending.ALL_PAIRS, Ending.TIME, Ending.DISTURBED)


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
    `pairs` are those that count, void ones too; `disturbed` are those that were measured again.
    `window` is how many steps are timed, where the plan does not say it. It ends after `goal` pairs
    at the latest. A session to which pairs were added looks only then.
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
    window: int = 0
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
    def timed_steps(self) -> int:
        """How many steps of each launch count, where the hook counts them."""
        return self.plan.steps or self.window or STEPS

    @property
    def by_hook(self) -> bool:
        """Whether the start-up hook counts the steps."""
        return bool(self.settled) and all(one.by_hook for one in self.settled.values())

    def shrinks_for(self, done: Done) -> bool:
        """Times fewer steps if the script has no more, before anything was measured with more."""
        left = done.has_steps - self.warmup
        can_shrink = self.plan.steps is None and not (self.launches or self.disturbed)
        if not (can_shrink and STEPS <= left < self.timed_steps):
            return False
        every = max((one.slow.every for one in self.settled.values()), default=0) or 1
        self.window = max(left - left % every, STEPS)
        return True

    def holds(self, side: Side) -> bool:
        """Whether the timed steps hold a side's slow ones as often as these come."""
        return self.settled[side].slow.is_held_by(self.timed_steps)

    def left_out_ms(self, launch: Launch) -> float:
        """How much longer a step takes on average by slow ones that the timed steps lack."""
        known = self.settled.get(launch.side)
        if known is None or self.holds(launch.side):
            return 0.0
        return max(0.0, known.slow.ms - slow_steps_in(launch.timed_ms).ms)

    @property
    def leaves_out(self) -> bool:
        """Whether slow steps recur that the timed ones do not hold in proportion."""
        return self.by_hook and not all(map(self.holds, self.settled))

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
    def too_disturbed(self) -> str:
        """Why no more pairs can be measured again: a selection of pairs could say anything."""
        alone = [_disturbed_alone(pair) for pair in self.disturbed]
        of_head, of_base = alone.count("head"), alone.count("base")
        if is_lopsided(of_head, of_base):
            return (
                f"what disturbs the launches comes with head: {of_head} of its launches were"
                f" disturbed by themselves, and {of_base} of base's"
            )
        if len(self.disturbed) > self.goal:
            count = len(self.disturbed)
            return f"other processes disturbed {count} pairs, more than the {self.goal} it needs"
        return ""

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
        is_enough = self.sound_pairs >= LEAST_PAIRS and self.ending in JUDGED
        return is_enough and not self.too_disturbed


def _disturbed_alone(pair: Pair) -> Side | None:
    """Whose launch of a pair was disturbed, where the other one was not."""
    shared = [one.side for one in pair if SHARED in one.disturbances]
    return shared[0] if len(shared) == 1 else None

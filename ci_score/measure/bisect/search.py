"""The search for the commit that made a step slower: which two commits to launch next. Pure.

It knows no process, no clock and no git. The same answers get the same questions, so a search is
resumed by telling a fresh one what was measured before.

First GOOD and BAD run beside each other until their difference and the noise are known. Then one
commit after the other is probed: it runs beside GOOD and beside BAD in turn, so that a machine that
drifts favours neither. All pairs together say how probable each place of the slowdown is. At last
the answer is held against its parent, by fresh pairs alone.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from ci_score.measure.bisect.beside import LEAST_SCALE, Level, Pairs, evidence, level_of, scale_of
from ci_score.measure.bisect.places import Places, places_of
from ci_score.model.bisection import (
    Ask,
    AskedFor,
    Ended,
    Expected,
    Finding,
    Progress,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may cost, and how sure it has to be.

    `worth` is the smallest slowdown, as a share, that somebody asks for: where GOOD and BAD do not
    differ, the machine can tell if that much is ruled out.
    """

    launches: int = 800
    worth: float = 0.05
    ends_least: int = 8
    ends_look: int = 40
    ends_most: int = 64
    differs: float = 3.5
    hopeless: float = 1.0
    leave: float = 0.1
    sure: float = 0.95
    misfit: float = 2.0
    between: float = 3.0
    confirmed: float = 5.8
    refuted: float = 3.0
    confirm_least: int = 6
    again: int = 2


# Of a probe, and of a confirmation: so many pairs make the error an eighth of the slowdown.
SHARPEST = 8.0
# Nats of evidence that a whole search takes; it says how many launches are left.
NATS = 30.0


class Search:
    """Which commits to launch next, and what was found."""

    def __init__(self, count: int, seed: int = 0, limits: Limits | None = None) -> None:
        if count < 2:
            raise ValueError("a range has two commits at least")
        self._limits = limits or Limits()
        self._last = count - 1
        self._commits = list(range(count))
        self._seed = seed
        self._pairs = Pairs()
        self._fresh: list[float] = []
        self._stage = AskedFor.ENDS
        self._low, self._high = 0, self._last
        self._probe: int | None = None
        self._candidate: tuple[int, int] | None = None
        self._launches = 0
        self._skipped: list[int] = []
        self._refuted: list[int] = []
        self._others = False
        self._finding: Finding | None = None
        self._scale = LEAST_SCALE
        self._slower = Level(0.0, math.inf)
        self._counts: dict[int, int] = {}

    # --- what the driver calls

    def next(self) -> Ask | Finding:
        """The two commits to launch next, or how it ended."""
        while self._finding is None:
            ask = self._step()
            if ask is not None:
                if self._launches + 2 > self._limits.launches:
                    return self._end(Ended.LIMIT)
                return ask
        return self._finding

    def told(self, ask: Ask, first_ms: float, second_ms: float) -> None:
        """The times of both launches; a pair without two times counts as launched alone."""
        self._launches += 2
        for commit in (ask.first, ask.second):
            self._counts[commit] = self._counts.get(commit, 0) + 1
        if not all(math.isfinite(one) and one > 0 for one in (first_ms, second_ms)):
            return
        ratio = math.log(first_ms) - math.log(second_ms)
        ratio = ratio if ask.commit == ask.first else -ratio
        if ask.why == AskedFor.CONFIRMATION:
            self._fresh.append(ratio)
        else:
            self._pairs.add(ask.commit, ask.beside, ratio)

    def skips(self, commit: int) -> None:
        """A commit does not build or does not run."""
        if commit in (0, self._last):
            self._end(Ended.END_DOES_NOT_RUN)
        if commit in self._commits:
            self._commits.remove(commit)
            self._skipped.append(commit)
        if commit in (self._low, self._high):
            self._low, self._high = 0, self._last
        if self._candidate and commit in self._candidate:
            self._forget_candidate()
        if self._probe == commit:
            self._probe = None

    @property
    def expected(self) -> Expected:
        """What lies before the search."""
        self._weigh()
        left = max(self._limits.launches - self._launches, 0)
        wanted = self._wanted()
        return Expected(
            launches=math.ceil(min(wanted, 1e9)),
            smallest=math.expm1(self._scale * math.sqrt(2.0 * NATS / left)) if left else math.inf,
        )

    @property
    def state(self) -> Progress:
        """Where the search is."""
        low, high = self._low, self._high
        if self._stage != AskedFor.ENDS:
            low, high = self._places().likely(self._limits.sure)
        return Progress(
            why=self._stage, low=low, high=high, candidates=high - low, launches=self._launches
        )

    # --- stages

    def _step(self) -> Ask | None:
        """The next question; None where the search has moved on."""
        self._weigh()
        if self._stage == AskedFor.ENDS:
            return self._ends()
        if self._candidate is None:
            return self._probing()
        return self._confirming(*self._candidate)

    def _ends(self) -> Ask | None:
        limits, pairs = self._limits, len(self._pairs.of(self._low, self._high))
        ask = self._ask(self._high, self._low, AskedFor.ENDS)
        if pairs < limits.ends_least:
            return ask
        sigmas = self._slower.sigmas
        if sigmas >= limits.differs:
            self._begin_probing()
            return None
        if sigmas <= -limits.differs:
            self._end(Ended.GOOD_IS_SLOWER)
            return None
        if pairs >= limits.ends_most or (pairs >= limits.ends_look and sigmas < limits.hopeless):
            self._end_without_difference()
            return None
        return ask

    def _end_without_difference(self) -> None:
        is_ruled_out = self._slower.effect().high < self._limits.worth
        self._end(Ended.NO_DIFFERENCE if is_ruled_out else Ended.CANNOT_TELL)

    def _begin_probing(self) -> None:
        self._stage = AskedFor.PROBE
        if self._launches + self._wanted() > self._limits.launches:
            self._end(Ended.CANNOT_TELL)

    def _probing(self) -> Ask | None:
        places = self._places()
        if self._probe is not None:
            ask = self._stay(self._probe, places)
            if ask or self._stage != AskedFor.PROBE:
                return ask
            self._probe = None
        low, high, chance = places.best()
        if chance >= self._limits.sure:
            self._candidate, self._stage = (low, high), AskedFor.CONFIRMATION
            return None
        self._probe = places.most_open()
        if self._probe is None:
            raise AssertionError("one place is sure")
        return self._beside_an_end(self._probe)

    def _stay(self, probe: int, places: Places) -> Ask | None:
        """The same commit once more, until it is known which end it is nearer to."""
        of_low, of_high = (self._pairs.of(probe, end) for end in (self._low, self._high))
        if len(of_low) != len(of_high):
            return self._beside_an_end(probe)
        slow = places.slow_at(probe)
        is_open = self._limits.leave < slow < 1.0 - self._limits.leave
        if not of_low:
            return self._beside_an_end(probe)
        below, above = level_of(of_low, self._scale), level_of(of_high, self._scale)
        if min(below.sigmas, above.sigmas) > self._limits.between:
            self._narrow(probe, below, above)
            return None
        nearer = above if slow > 0.5 else below
        if is_open or nearer.sigmas > self._limits.misfit:
            if len(of_low) + len(of_high) < self._most_pairs():
                return self._beside_an_end(probe)
            if is_open:
                self._narrow(probe, below, above)
        return None

    def _narrow(self, probe: int, below: Level, above: Level) -> None:
        """Both parts are slower: the larger one is searched."""
        self._others = True
        if below.log > above.log:
            self._high = probe
        else:
            self._low = probe
        self._probe, self._stage = None, AskedFor.ENDS

    def _beside_an_end(self, probe: int) -> Ask:
        of_low, of_high = (len(self._pairs.of(probe, end)) for end in (self._low, self._high))
        beside = self._low
        if of_low > of_high or (of_low == of_high and self._coin("end", probe, of_low)):
            beside = self._high
        return self._ask(probe, beside, AskedFor.PROBE)

    def _confirming(self, parent: int, commit: int) -> Ask | None:
        pairs = len(self._fresh)
        if pairs >= self._limits.confirm_least and pairs % 2 == 0:
            says = evidence(self._fresh, self._slower.log, self._scale)
            own = level_of(self._fresh, self._scale)
            if says >= self._limits.confirmed and own.log >= self._slower.log / 2.0:
                self._end(Ended.FOUND if commit - parent == 1 else Ended.FOUND_SET)
                return None
            if says <= -self._limits.refuted:
                self._refute(commit)
                return None
            if pairs >= self._most_pairs():
                if own.sigmas > self._limits.differs:
                    self._end(Ended.SEVERAL)
                else:
                    self._refute(commit)
                return None
        return self._ask(commit, parent, AskedFor.CONFIRMATION)

    def _refute(self, commit: int) -> None:
        self._refuted.append(commit)
        if len(self._refuted) > self._limits.again:
            self._end(Ended.NOT_CONFIRMED)
        else:
            self._forget_candidate()

    def _forget_candidate(self) -> None:
        if self._candidate is None:
            return
        parent, commit = self._candidate
        for ratio in self._fresh:
            self._pairs.add(commit, parent, ratio)
        self._candidate, self._fresh, self._stage = None, [], AskedFor.PROBE

    # --- what is known

    def _weigh(self) -> None:
        """Noise, and how much slower the range's end is, from all pairs."""
        pairs = self._pairs.within(self._low, self._high)
        self._scale = scale_of(pairs)
        ends = pairs.get((self._low, self._high), [])
        if not ends:
            return
        total, weight = level_of(ends, self._scale).log * len(ends), float(len(ends))
        for probe in self._commits:
            of_low, of_high = pairs.get((self._low, probe)), pairs.get((probe, self._high))
            if of_low and of_high and min(len(of_low), len(of_high)) >= 3:
                more = len(of_low) * len(of_high) / (len(of_low) + len(of_high))
                both = level_of(of_low, self._scale).log + level_of(of_high, self._scale).log
                total, weight = total + more * both, weight + more
        error = level_of(ends, self._scale).error * math.sqrt(len(ends) / weight)
        self._slower = Level(total / weight, error)

    def _places(self) -> Places:
        inside = [one for one in self._commits if self._low <= one <= self._high]
        pairs = self._pairs.within(self._low, self._high)
        return places_of(inside, pairs, self._slower.log, self._scale)

    def _most_pairs(self) -> int:
        """After so many pairs a probe is known, or it is near neither end."""
        return max(16, math.ceil((SHARPEST * self._scale / self._slower.log) ** 2))

    def _wanted(self) -> float:
        if self._slower.log <= 0:
            return math.inf
        return 2.0 * NATS * (self._scale / self._slower.log) ** 2

    # --- questions and answers

    def _ask(self, commit: int, beside: int, why: AskedFor) -> Ask:
        pairs = self._fresh if why == AskedFor.CONFIRMATION else self._pairs.of(commit, beside)
        # Every second pair has the other order of the one before, so that drift cancels.
        turned = len(pairs) % 2 == 1
        first = self._coin(why, commit, beside, len(pairs) // 2) != turned
        return Ask(
            first=commit if first else beside,
            second=beside if first else commit,
            commit=commit,
            why=why,
        )

    def _coin(self, *what: object) -> bool:
        return random.Random(f"{self._seed} {what}").random() < 0.5  # noqa: S311 - no secret

    def _end(self, ended: Ended) -> Finding:
        own = level_of(self._fresh, self._scale) if self._fresh else None
        parent, commit = self._candidate or (None, None)
        named = ended in (Ended.FOUND, Ended.FOUND_SET, Ended.SEVERAL)
        self._finding = Finding(
            ended=ended,
            commits=tuple(range(parent + 1, commit + 1))
            if named and commit is not None and parent is not None
            else (),
            parent=parent if named else None,
            own=own.effect() if own and named else None,
            range=self._slower.effect() if math.isfinite(self._slower.error) else None,
            others=self._others,
            noise=self._scale,
            launches=self._launches,
            refuted=tuple(self._refuted),
            skipped=tuple(self._skipped),
        )
        return self._finding

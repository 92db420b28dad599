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

from ci_score.measure.bisect.beside import ERROR, OF_95_PERCENT, Level, evidence, level_of
from ci_score.measure.bisect.limits import (
    LAUNCHES_ANYWAY,
    LAUNCHES_BY_NOISE,
    LEAST_AT_MOST,
    LIKELY,
    MISTAKES,
    MOST_SAID,
    SHARPEST,
    Limits,
)
from ci_score.measure.bisect.places import Both
from ci_score.measure.bisect.weighing import Weighing
from ci_score.model.bisection import Ask, AskedFor, Ended, Expected, Finding, Probed, Progress


class Search:
    """Which commits to launch next, and what was found."""

    def __init__(self, count: int, seed: int = 0, limits: Limits | None = None) -> None:
        if count < 2:
            raise ValueError("a range has two commits at least")
        self._limits = limits or Limits()
        self._seed = seed
        self._last = count - 1
        self._commits = list(range(count))
        self._known = Weighing(0, self._last)
        self._stage = AskedFor.ENDS
        self._probe: int | None = None
        self._candidate: Both | None = None
        self._fresh: list[float] = []
        self._refuted: list[int] = []
        self._doubted: list[int] = []
        self._tries = 0
        self._may_narrow, self._narrowed = True, 0
        self._launches: dict[int, int] = {}
        self._asked: Ask | None = None
        self._finding: Finding | None = None

    # --- what the driver calls -------------------------------------------------------------------

    def next(self) -> Ask | Finding:
        """The two commits to launch next, or how the search ended."""
        while self._finding is None:
            self._asked = self._asked or self._step()
            if self._asked and self._spent + 2 <= self._limits.launches:
                return self._asked
            if self._asked:
                state = self.state
                self._end(Ended.LIMIT, (state.low, state.high))
        return self._finding

    def told(self, ask: Ask, first_ms: float, second_ms: float) -> None:
        """The times of both launches; a launch without a time is NaN, and its pair says nothing."""
        # Who tells what was measured before does not ask in between.
        self.next()
        self._asked = None
        for commit in (ask.first, ask.second):
            self._launches[commit] = self._launches.get(commit, 0) + 1
        if not all(math.isfinite(time) and time > 0.0 for time in (first_ms, second_ms)):
            return
        log = math.log(first_ms) - math.log(second_ms)
        later_less_earlier = log if ask.first > ask.second else -log
        if ask.why == AskedFor.CONFIRMATION:
            self._fresh.append(later_less_earlier)
        else:
            both = (min(ask.first, ask.second), max(ask.first, ask.second))
            self._known.add(both, (later_less_earlier,))

    def skips(self, commit: int) -> None:
        """A commit does not build, or does not run: it is never asked for again."""
        if commit not in self._commits:
            return
        self._asked = None
        if commit in (0, self._last):
            self._end(Ended.END_DOES_NOT_RUN, (commit - 1, commit))
            return
        self._commits.remove(commit)
        if commit in (self._known.low, self._known.high):
            self._widen()
        if self._candidate and commit in self._candidate:
            self._back_to_probing()
        if self._probe == commit:
            self._probe = None

    @property
    def expected(self) -> Expected:
        """What lies ahead: launches, and the smallest slowdown that the limit leaves room for."""
        left = max(self._limits.launches - self._spent - LAUNCHES_ANYWAY, 1.0)
        smallest = self._known.scale * math.sqrt(LAUNCHES_BY_NOISE / left)
        ahead = self._launches_of(self._known.slower.log)
        return Expected(
            launches=math.ceil(min(ahead, MOST_SAID)), smallest=math.expm1(min(smallest, 100.0))
        )

    @property
    def state(self) -> Progress:
        """Where the search is: most probably the slowdown lies after `low`, up to `high`."""
        low, high = self._known.low, self._known.high
        if self._stage != AskedFor.ENDS:
            low, high = self._known.places(self._commits).likely(LIKELY)
        return Progress(
            why=self._stage, low=low, high=high, candidates=high - low, launches=self._spent
        )

    # --- GOOD and BAD ----------------------------------------------------------------------------

    def _step(self) -> Ask | None:
        """The next question; None where the search has moved on."""
        if self._stage == AskedFor.ENDS:
            return self._measure_ends()
        if self._candidate:
            return self._confirm(*self._candidate)
        return self._search()

    def _measure_ends(self) -> Ask | None:
        pairs, sigmas = len(self._of_ends), self._known.slower.sigmas
        differs = self._limits.differs[pairs >= self._limits.ends_hopeless[0][0]]
        if pairs < self._limits.ends_least:
            return self._ask_ends()
        if sigmas >= differs:
            self._begin_search()
        elif sigmas <= -self._limits.differs[0] and not self._is_narrowed:
            self._end(Ended.GOOD_IS_SLOWER)
        elif self._seem_alike(pairs, sigmas):
            self._end_alike()
        else:
            return self._ask_ends()
        return None

    def _end_alike(self) -> None:
        """The whole range has no difference that shows; where it is a part, that was a mistake."""
        if self._narrowed >= MISTAKES:
            self._end(Ended.SEVERAL)
        elif self._is_narrowed:
            self._widen()
        elif self._known.slower.effect().high < self._limits.worth:
            self._end(Ended.NO_DIFFERENCE)
        else:
            self._end(Ended.CANNOT_TELL)

    def _seem_alike(self, pairs: int, sigmas: float) -> bool:
        """Whether the ends are not known to differ, and more pairs would hardly show that."""
        hopeless = any(
            pairs == least and sigmas < errors for least, errors in self._limits.ends_hopeless
        )
        return hopeless or pairs >= self._limits.ends_most

    def _begin_search(self) -> None:
        self._stage = AskedFor.PROBE
        if self._is_too_much(self._spent):
            self._end(Ended.CANNOT_TELL)

    def _is_too_much(self, spent: int = 0) -> bool:
        """Whether a search would pass its limit, even of a slowdown that is an error larger."""
        slower = self._known.slower
        return spent + self._launches_of(slower.log + slower.error) > self._limits.launches

    # --- probes ----------------------------------------------------------------------------------

    def _search(self) -> Ask | None:
        if self._known.slower.sigmas < self._limits.differs_no_more:
            self._end_alike()
            return None
        if self._is_too_much():
            self._end(Ended.CANNOT_TELL)
            return None
        places = self._known.places(self._commits)
        if self._probe is not None:
            stays = self._stays(self._probe, places.slow_at(self._probe))
            if stays or self._stage == AskedFor.ENDS:
                return self._ask_probe(self._probe) if stays and self._probe else None
        place, chance = places.best()
        if chance >= self._limits.sure:
            self._candidate, self._stage, self._probe = place, AskedFor.CONFIRMATION, None
            return None
        self._probe = places.most_open()
        return self._ask_probe(self._probe)

    def _stays(self, probe: int, slow: float) -> bool:
        """Whether the same commit runs once more, until it is known which end it is nearer to."""
        below, above = self._known.beside_ends(probe)
        if not below or len(below) != len(above):
            return True
        if self._narrows(probe):
            return False
        is_open = self._limits.leave < slow < 1.0 - self._limits.leave
        if probe in self._doubted:
            is_open = is_open or len(below) < self._limits.doubted_least
        far = self._known.parts(probe)[slow > 0.5].sigmas
        if is_open or far > self._limits.misfit:
            return len(below) + len(above) < self._most_pairs()
        return False

    def _narrows(self, probe: int) -> bool:
        """Where both parts of the range are slower, the larger one becomes the range."""
        commits = self._doubted if probe in self._doubted else [probe]
        below, above = self._known.parts(*commits)
        pairs = sum(len(self._known.beside_ends(commit)[0]) for commit in commits)
        is_doubted = probe in self._doubted or 2 * pairs >= self._most_pairs()
        clear = self._limits.both_parts_doubted if is_doubted else self._limits.both_parts
        is_clear = min(below.sigmas, above.sigmas) >= clear
        if not (self._may_narrow and is_clear and pairs >= self._limits.both_parts_least):
            return False
        low, high = self._known.low, self._known.high
        self._narrowed += 1
        self._turn_to(*((low, probe) if below.log > above.log else (probe, high)))
        return True

    def _turn_to(self, low: int, high: int) -> None:
        """Another range, whose ends are measured first."""
        self._known = self._known.between(low, high)
        self._probe, self._doubted, self._tries = None, [], 0
        self._stage = AskedFor.ENDS

    def _widen(self) -> None:
        """The whole range again: a part of it was not slower after all, or its end does not run."""
        self._may_narrow = False
        self._turn_to(0, self._last)

    # --- the answer against its parent -----------------------------------------------------------

    def _confirm(self, parent: int, commit: int) -> Ask | None:
        pairs = len(self._fresh)
        if pairs < self._limits.confirm_least or pairs % 2:
            return self._ask(commit, parent, AskedFor.CONFIRMATION, pairs)
        own, range_ = level_of(self._fresh, self._known.scale), self._known.slower.log
        says = evidence(self._fresh, range_, self._known.scale)
        if says >= self._limits.confirmed and own.log >= range_ / 2.0:
            self._found(self._has_half(own))
        elif says <= -self._limits.refuted:
            self._refute(parent, commit)
        elif pairs > len(self._of_ends):
            # What it is held against is known as well as its own effect.
            return self._ask_ends()
        elif pairs < self._most_pairs():
            return self._ask(commit, parent, AskedFor.CONFIRMATION, pairs)
        elif own.sigmas > self._limits.differs[0]:
            self._found(has_half=False)
        else:
            self._refute(parent, commit)
        return None

    def _refute(self, parent: int, commit: int) -> None:
        """The next answer, or the end: several changes where the refuted ones are near neither."""
        self._refuted.append(commit)
        self._tries += 1
        self._back_to_probing()
        # Both have the same level, and one of them has been beside both ends.
        inside = [one for one in (commit, parent) if all(self._known.beside_ends(one))]
        if inside:
            self._probe = inside[0]
            self._doubted.append(inside[0])
        if self._tries > self._limits.again and not (inside and self._narrows(inside[0])):
            self._end(Ended.SEVERAL if self._are_between() else Ended.NOT_CONFIRMED)

    def _are_between(self) -> bool:
        """Whether the refuted answers are near neither end, here or in the parts before."""
        if self._narrowed >= MISTAKES:
            return True
        if not self._doubted:
            return self._is_narrowed
        parts = self._known.parts(*self._doubted)
        return min(part.sigmas for part in parts) >= self._limits.misfit

    def _back_to_probing(self) -> None:
        if self._candidate:
            self._known.add(self._candidate, self._fresh)
        self._candidate, self._fresh = None, []
        self._stage = AskedFor.PROBE

    # --- what is known ---------------------------------------------------------------------------

    @property
    def _of_ends(self) -> tuple[float, ...]:
        return tuple(self._known.of(self._known.low, self._known.high))

    @property
    def _is_narrowed(self) -> bool:
        return (self._known.low, self._known.high) != (0, self._last)

    def _whole(self) -> Weighing:
        return self._known.between(0, self._last) if self._is_narrowed else self._known

    @property
    def _spent(self) -> int:
        return sum(self._launches.values())

    def _most_pairs(self) -> int:
        """After so many pairs of one commit no more are asked for."""
        noise = self._known.scale / max(self._known.slower.log, 1e-9)
        return max(LEAST_AT_MOST, math.ceil((noise / SHARPEST) ** 2))

    def _launches_of(self, slower: float) -> float:
        """About how many launches the search for such a slowdown takes, after the ends."""
        if slower <= 0.0:
            return math.inf
        return LAUNCHES_ANYWAY + LAUNCHES_BY_NOISE * (self._known.scale / slower) ** 2

    # --- questions and answers -------------------------------------------------------------------

    def _ask_ends(self) -> Ask:
        return self._ask(self._known.high, self._known.low, AskedFor.ENDS, len(self._of_ends))

    def _ask_probe(self, probe: int) -> Ask:
        below, above = map(len, self._known.beside_ends(probe))
        is_above = above < below or (above == below and self._coin("end", probe, above))
        beside = self._known.high if is_above else self._known.low
        return self._ask(probe, beside, AskedFor.PROBE, above if is_above else below)

    def _ask(self, commit: int, beside: int, why: AskedFor, pairs: int) -> Ask:
        # Every second pair has the other order of the one before: a drift counts both ways.
        is_first = self._coin(why, commit, beside, pairs // 2) != bool(pairs % 2)
        first, second = (commit, beside) if is_first else (beside, commit)
        return Ask(first=first, second=second, commit=commit, why=why)

    def _coin(self, *what: object) -> bool:
        return random.Random(f"{self._seed} {what}").random() < 0.5  # noqa: S311 - no secret

    def _found(self, has_half: bool) -> None:
        parent, commit = place = self._candidate or (0, self._last)
        one = Ended.FOUND if commit - parent == 1 else Ended.FOUND_SET
        own = level_of(self._fresh, self._known.scale)
        self._end(one if has_half else Ended.SEVERAL, place, own)

    def _has_half(self, own: Level) -> bool:
        """Whether a commit may have half of what lies between GOOD and BAD, not of a part alone."""
        whole = self._whole().slower
        return own.log + OF_95_PERCENT * math.hypot(own.error, whole.error / 2.0) >= whole.log / 2.0

    def _end(self, ended: Ended, place: Both | None = None, own: Level | None = None) -> None:
        whole = self._whole()
        self._finding = Finding(
            ended=ended,
            commits=tuple(range(place[0] + 1, place[1] + 1)) if place else (),
            parent=place[0] if place and own else None,
            own=own.effect() if own else None,
            range=whole.slower.effect() if math.isfinite(whole.slower.error) else None,
            others=self._has_others(own, whole.slower),
            smallest=self.expected.smallest,
            noise=self._known.scale * ERROR / math.sqrt(2.0),
            launches=self._spent,
            refuted=tuple(self._refuted),
            skipped=tuple(sorted(set(range(self._last)) - set(self._commits))),
            evidence=self._evidence(whole),
        )

    def _has_others(self, own: Level | None, whole: Level) -> bool:
        """Whether the commit's own effect is not the range's."""
        if own is None:
            return self._is_narrowed
        return abs(own.log - whole.log) > 3.0 * math.hypot(own.error, whole.error)

    def _evidence(self, whole: Weighing) -> tuple[Probed, ...]:
        """Each probe's level, from pairs with both ends."""
        rows = []
        for commit in self._commits[1:-1]:
            if all(whole.beside_ends(commit)):
                below, above = whole.parts(commit)
                level = (below.log + whole.slower.log - above.log) / 2.0
                error = math.hypot(below.error, above.error, whole.slower.error) / 2.0
                slower = Level(level, error).effect()
                rows.append(Probed(commit=commit, slower=slower, launches=self._launches[commit]))
        return tuple(rows)

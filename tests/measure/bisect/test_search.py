"""The search asks for two commits at a time, and names the one that made a step slower."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Collection, Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_score.measure.bisect.limits import Limits
from ci_score.measure.bisect.search import Search
from ci_score.model.bisection import Ask, AskedFor, Ended, Finding

COMMITS = 20
# A search is many steps; how long they take is no question here.
few = settings(max_examples=15, deadline=None)
Launch = Callable[[int], float]


def levels(*changes: tuple[int, float], commits: int = COMMITS) -> list[float]:
    """The time of each commit: 100 ms, and from each place on a share more."""
    times = [100.0] * commits
    for place, share in changes:
        times[place:] = [time * (1.0 + share) for time in times[place:]]
    return times


def noisy(times: Sequence[float], spread: float, seed: object = 1) -> Launch:
    """Launches of commits that take so long, with luck."""
    luck = random.Random(str(seed))  # noqa: S311 - no secret
    return lambda commit: times[commit] * math.exp(luck.gauss(0.0, spread))


def answered(
    search: Search, launch: Launch, broken: Collection[int] = ()
) -> tuple[Finding, list[Ask]]:
    """The search with each question answered, and the questions whose launches ran."""
    asks = []
    while isinstance(asked := search.next(), Ask):
        does_not_run = {asked.first, asked.second}.intersection(broken)
        if does_not_run:
            search.skips(does_not_run.pop())
        else:
            search.told(asked, launch(asked.first), launch(asked.second))
            asks.append(asked)
    return asked, asks


# --- the right one --------------------------------------------------------------------------------


@pytest.mark.parametrize("slow_from", range(1, COMMITS))
def test_search__finds_each_place_without_noise(slow_from: int) -> None:
    """Without noise the commit is found wherever it stands, with its own effect."""
    times = levels((slow_from, 0.05))
    finding, _ = answered(Search(COMMITS, seed=7), times.__getitem__)
    assert (finding.ended, finding.commits) == (Ended.FOUND, (slow_from,))
    assert finding.parent == slow_from - 1
    assert finding.own is not None
    assert finding.own.share == pytest.approx(0.05)
    assert not finding.others


def test_search__finds_it_in_noise() -> None:
    """With a noise of 3 % a slowdown of 5 % is found, and its interval holds it."""
    finding, _ = answered(Search(64, seed=3), noisy(levels((40, 0.05), commits=64), 0.03))
    assert (finding.ended, finding.commits) == (Ended.FOUND, (40,))
    assert finding.own is not None
    assert finding.own.low < 0.05 < finding.own.high
    assert finding.noise == pytest.approx(0.03, rel=0.3)


def test_search__a_launch_that_stands_still_names_nobody() -> None:
    """Every 23rd launch takes three times as long, and changes no answer."""
    calm, moments = noisy(levels((9, 0.05)), 0.01), count(1)
    finding, _ = answered(
        Search(COMMITS, seed=5),
        lambda commit: calm(commit) * (1.0 if next(moments) % 23 else 3.0),
    )
    assert (finding.ended, finding.commits) == (Ended.FOUND, (9,))


def test_search__a_drift_favours_no_end() -> None:
    """A machine that becomes 5 % slower within 60 launches moves no answer."""
    calm, moments = noisy(levels((15, 0.05)), 0.01), count()
    finding, _ = answered(
        Search(COMMITS, seed=2), lambda commit: calm(commit) * 1.05 ** (next(moments) / 60.0)
    )
    assert (finding.ended, finding.commits) == (Ended.FOUND, (15,))


@few
@given(
    slow_from=st.integers(1, COMMITS - 1),
    broken=st.sets(st.integers(1, COMMITS - 2)),
    seed=st.integers(),
)
def test_search__what_does_not_run_makes_the_answer_a_set(
    slow_from: int, broken: set[int], seed: int
) -> None:
    """The commits up to the first one that runs are the answer, and none of them is asked again."""
    times = levels((slow_from, 0.05))
    finding, asks = answered(Search(COMMITS, seed), times.__getitem__, broken)
    last = next(commit for commit in range(slow_from, COMMITS) if commit not in broken)
    parent = next(commit for commit in range(slow_from - 1, -1, -1) if commit not in broken)
    assert finding.commits == tuple(range(parent + 1, last + 1))
    assert finding.ended == (Ended.FOUND if last - parent == 1 else Ended.FOUND_SET)
    assert finding.parent == parent
    assert not {commit for ask in asks for commit in (ask.first, ask.second)} & broken
    assert broken.issuperset(finding.skipped)


@few
@given(st.data())
def test_search__never_asks_for_a_commit_that_was_skipped(data: st.DataObject) -> None:
    """Whenever a commit is skipped, even one that ran before, it is not asked for again."""
    search, launch = Search(COMMITS, seed=4), noisy(levels((8, 0.05)), 0.03)
    skipped: set[int] = set()
    for _ in range(100):
        asked = search.next()
        if isinstance(asked, Finding):
            break
        assert not {asked.first, asked.second} & skipped
        if data.draw(st.integers(0, 9)) == 0:
            commit = data.draw(st.integers(1, COMMITS - 2))
            skipped.add(commit)
            search.skips(commit)
        else:
            search.told(asked, launch(asked.first), launch(asked.second))


# --- the same again, and an end -------------------------------------------------------------------


@few
@given(st.integers(), st.integers(0, 300))
def test_search__goes_on_where_it_was(seed: int, stopped_after: int) -> None:
    """A fresh search that is told the same answers asks the same questions and ends the same."""
    first, again = Search(COMMITS, seed), Search(COMMITS, seed)
    launch = noisy(levels((8, 0.05)), 0.02, seed)
    told: list[tuple[Ask, float, float]] = []
    while isinstance(asked := first.next(), Ask):
        # Looking at a search does not change it.
        _ = first.state, first.expected, first.next()
        told.append((asked, launch(asked.first), launch(asked.second)))
        first.told(*told[-1])
    for ask, *times in told[:stopped_after]:
        again.told(ask, *times)
    for ask, *times in told[stopped_after:]:
        assert again.next() == ask
        again.told(ask, *times)
    assert again.next() == asked


@few
@given(
    times=st.lists(st.floats(1.0, 1.2), min_size=2, max_size=30),
    spread=st.floats(0.0, 0.3),
    most=st.integers(0, 200),
    seed=st.integers(),
)
def test_search__ends_within_its_limit(
    times: list[float], spread: float, most: int, seed: int
) -> None:
    """Whatever the commits are like, it ends, and takes no launch more than its limit."""
    search = Search(len(times), seed, Limits(launches=most))
    finding, asks = answered(search, noisy(times, spread, seed))
    assert finding.launches == 2 * len(asks) <= most


@given(st.sampled_from([math.nan, math.inf, 0.0, -1.0]))
def test_search__launches_without_a_time_count_to_the_limit(time: float) -> None:
    """A range whose launches have no usable time ends at the limit, and says nothing of effects."""
    finding, asks = answered(Search(COMMITS, 1, Limits(launches=50)), lambda _: time)
    assert (finding.ended, len(asks), finding.range) == (Ended.LIMIT, 25, None)


# --- how it is measured ---------------------------------------------------------------------------


def test_search__good_and_bad_come_first() -> None:
    """Nothing but GOOD and BAD runs before their difference is known."""
    _, asks = answered(Search(COMMITS, seed=6), noisy(levels((12, 0.05)), 0.03))
    first = asks[:12]
    assert {ask.why for ask in first} == {AskedFor.ENDS}
    assert {frozenset((ask.first, ask.second)) for ask in first} == {frozenset((0, COMMITS - 1))}


def test_search__a_probe_runs_beside_both_ends_in_turn() -> None:
    """Each probe has as many pairs with GOOD as with BAD when it is left."""
    _, asks = answered(Search(COMMITS, seed=6), noisy(levels((12, 0.05)), 0.03))
    beside: dict[int, list[int]] = {}
    for ask in asks:
        if ask.why == AskedFor.PROBE:
            (end,) = {ask.first, ask.second} - {ask.commit}
            beside.setdefault(ask.commit, []).append(end)
    assert len(beside) > 2
    for ends in beside.values():
        assert ends.count(0) == ends.count(COMMITS - 1)


def test_search__both_orders_are_as_common() -> None:
    """Of GOOD and BAD each goes first equally often, and not always in the same turn."""
    asks = [answered(Search(COMMITS, seed), noisy(levels(), 0.03, seed))[1] for seed in range(20)]
    for of_one in asks:
        firsts = [ask.first for ask in of_one if ask.why == AskedFor.ENDS]
        assert firsts[: len(firsts) // 2 * 2].count(0) == len(firsts) // 2
    assert len({of_one[0].first for of_one in asks}) == 2


def test_search__the_answer_is_held_against_its_parent_by_fresh_pairs() -> None:
    """The last launches are those of the answer and its parent; its own effect is theirs alone."""
    _, asks = answered(Search(COMMITS, seed=6), noisy(levels((12, 0.05)), 0.03))
    assert len(asks) > 20
    assert all({ask.first, ask.second} == {11, 12} for ask in asks[-8:])
    assert {ask.why for ask in asks[-8:]} == {AskedFor.CONFIRMATION}


def test_search__says_what_lies_ahead() -> None:
    """After the ends it says how many launches it takes: of a small slowdown far more."""

    def ahead(share: float) -> int:
        search, launch = Search(COMMITS, seed=3), noisy(levels((5, share)), 0.03)
        while (asked := search.next()) and isinstance(asked, Ask) and asked.why == AskedFor.ENDS:
            search.told(asked, launch(asked.first), launch(asked.second))
        assert search.state.launches < 250
        assert (search.state.low, search.state.high) == (0, COMMITS - 1)
        assert 0.005 < search.expected.smallest < 0.03
        return search.expected.launches

    assert ahead(0.02) > 2 * ahead(0.05)


def test_search__the_state_closes_in() -> None:
    """The commits that it may be become fewer, and the right one stays among them."""
    search, launch = Search(64, seed=8), noisy(levels((33, 0.05), commits=64), 0.01)
    left = []
    while isinstance(asked := search.next(), Ask):
        search.told(asked, launch(asked.first), launch(asked.second))
        state = search.state
        assert state.low < 33 <= state.high
        left.append(state.candidates)
    assert (left[0], left[-1]) == (63, 1)


# --- every other end ------------------------------------------------------------------------------


def test_search__no_difference_stops_early() -> None:
    """Where GOOD and BAD are alike it stops, having looked at nothing else."""
    spent = []
    for seed in range(9):
        finding, asks = answered(Search(COMMITS, seed), noisy(levels(), 0.03, seed))
        assert finding.ended == Ended.NO_DIFFERENCE
        assert {ask.why for ask in asks} == {AskedFor.ENDS}
        assert finding.range is not None
        assert finding.range.high < 0.05
        spent.append(finding.launches)
    assert statistics.median(spent) == 80


def test_search__a_good_that_is_slower_stops_early() -> None:
    """Where BAD is the faster one, this is said at once."""
    finding, _ = answered(Search(COMMITS, seed=1), noisy(levels((4, -0.05)), 0.02))
    assert (finding.ended, finding.commits) == (Ended.GOOD_IS_SLOWER, ())
    assert finding.launches <= 40


def test_search__a_machine_that_cannot_tell_stops_early() -> None:
    """Where noise hides what is asked for, it says so, and how much it could find."""
    finding, _ = answered(Search(COMMITS, seed=1), noisy(levels((4, 0.05)), 0.4))
    assert finding.ended == Ended.CANNOT_TELL
    assert finding.launches <= 240
    assert finding.smallest is not None
    assert finding.smallest > 0.05


def test_search__a_slowdown_that_takes_too_long_is_not_begun() -> None:
    """Where the difference is clear, and the search would pass its limit, it does not begin."""
    finding, asks = answered(
        Search(COMMITS, 1, Limits(launches=150)), noisy(levels((4, 0.02)), 0.03)
    )
    assert finding.ended in (Ended.CANNOT_TELL, Ended.LIMIT)
    assert AskedFor.CONFIRMATION not in {ask.why for ask in asks}


def test_search__the_limit_says_where_it_may_be() -> None:
    """At the limit the commits that it may be are named, without an effect of their own."""
    times = levels((9, 0.05), commits=64)
    searches = (Search(64, seed, Limits(launches=110)) for seed in range(8))
    ends = [answered(one, noisy(times, 0.03, seed))[0] for seed, one in enumerate(searches)]
    limited = [finding for finding in ends if finding.ended == Ended.LIMIT]
    assert limited
    for finding in limited:
        assert 9 in finding.commits
        assert len(finding.commits) < 63
        assert (finding.own, finding.parent) == (None, None)


@pytest.mark.parametrize("end", [0, COMMITS - 1])
def test_search__an_end_that_does_not_run_ends_it(end: int) -> None:
    """Without GOOD or BAD there is nothing to search."""
    finding, asks = answered(Search(COMMITS), levels().__getitem__, {end})
    assert (finding.ended, finding.commits, asks) == (Ended.END_DOES_NOT_RUN, (end,), [])


def test_search__a_slow_creep_is_several_changes() -> None:
    """Where each commit takes a little, none is named as the one that took it all."""
    times = [100.0 * 1.01**commit for commit in range(COMMITS)]
    ends = [answered(Search(COMMITS, seed), noisy(times, 0.02, seed))[0] for seed in range(6)]
    assert Ended.SEVERAL in {finding.ended for finding in ends}
    assert not {Ended.FOUND, Ended.FOUND_SET} & {finding.ended for finding in ends}


def test_search__an_answer_that_its_parent_refutes_is_not_confirmed() -> None:
    """Where the effect vanishes whenever the answer runs beside its parent, nobody is named."""
    times = levels((12, 0.05))
    search = Search(COMMITS, seed=1)
    launch = noisy(times, 0.01)
    while isinstance(asked := search.next(), Ask):
        is_last = asked.why == AskedFor.CONFIRMATION
        both = (100.0, 100.0) if is_last else (launch(asked.first), launch(asked.second))
        search.told(asked, *both)
    assert asked.ended in (Ended.NOT_CONFIRMED, Ended.SEVERAL)
    assert asked.commits == ()
    assert len(asked.refuted) >= 3


# --- two changes ----------------------------------------------------------------------------------


def test_search__what_got_faster_later_is_said() -> None:
    """The commit's own effect stands beside the range's, which is smaller."""
    finding, _ = answered(Search(COMMITS, seed=2), noisy(levels((6, 0.05), (13, -0.03)), 0.005))
    assert (finding.ended, finding.commits, finding.others) == (Ended.FOUND, (6,), True)
    assert finding.own is not None
    assert finding.range is not None
    assert finding.own.low > finding.range.high


@pytest.mark.parametrize("seed", range(8))
def test_search__of_two_slowdowns_the_larger_is_found(seed: int) -> None:
    """A commit near neither end shows that there are two, and the larger part is searched."""
    times = levels((6, 0.06), (13, 0.04))
    finding, _ = answered(Search(COMMITS, seed), noisy(times, 0.005, seed))
    assert (finding.ended, finding.commits, finding.others) == (Ended.FOUND, (6,), True)


def test_search__a_range_is_two_commits_at_least() -> None:
    """GOOD and BAD must be different commits; of two neighbours BAD is the answer."""
    with pytest.raises(ValueError, match="two commits"):
        Search(1)
    finding, _ = answered(Search(2), noisy([100.0, 105.0], 0.01))
    assert (finding.ended, finding.commits, finding.parent) == (Ended.FOUND, (1,), 0)

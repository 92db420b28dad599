"""The trend of a history: shifts with their commits, drift against an unbiased anchor, no noise."""

from __future__ import annotations

import random

import pytest

from benchmarks.trend import WORLDS, history, trends
from ci_score.compare import Workload, measured_case
from ci_score.judge.trend import LEAST_RUNS, trends_of
from ci_score.model.environment import Environment
from ci_score.model.metrics import KERNELS, STEP_TIME, THROUGHPUT, metric_named
from ci_score.model.record import MOST_BETWEEN, HistoryPoint, Judged, Record
from ci_score.model.stages import Baseline, CaseInput
from ci_score.model.verdict import Outcome
from ci_score.report.headlines import describe_trend
from ci_score.run.story import Job, run
from tests.builders import found, profile

HARMLESS = sorted(WORLDS.keys() - {"drifting", "wandering", "sticky modes"})


def noise(world: str = "normal", runs: int = 200, seed: int = 1) -> list[float]:
    return WORLDS[world](random.Random(seed), runs)  # noqa: S311 - no secret


def place(commit: str | None) -> int:
    assert commit is not None
    return int(commit, 16)


@pytest.mark.parametrize("world", HARMLESS)
@pytest.mark.parametrize("runs", [60, 200])
def test_trend__noise_is_none(world: str, runs: int) -> None:
    """Of 60 histories without a change at most three report one, in the hardest of these worlds."""
    false = sum(bool(trends(noise(world, runs, seed))) for seed in range(60))
    assert false <= (3 if world in ("correlated 0.9", "spikes") else 1)


@pytest.mark.parametrize("world", ["normal", "log-normal", "two modes", "correlated 0.5"])
def test_trend__a_shift_is_found_between_its_commits(world: str) -> None:
    """A merged slowdown of 5 % on a machine of 1 %, ten runs ago: where, by how much, which way."""
    found = 0
    for seed in range(20):
        reported = trends(noise(world, 120, seed), {110: 0.05})
        found += any(
            trend.kind == "shift"
            and trend.worse
            and place(trend.last_before) < 110 <= place(trend.first_after)
            and place(trend.first_after) - place(trend.last_before) <= 8
            and 0.03 < trend.delta < 0.07
            for trend in reported
        )
    assert found >= 17


def test_trend__several_shifts_are_each_found() -> None:
    """A regression, its repair and a later gain are three shifts."""
    reported = trends(noise(runs=200), {60: 0.05, 90: -0.05, 150: -0.08})
    assert [(trend.kind, trend.worse) for trend in reported] == [
        ("shift", True),
        ("shift", False),
        ("shift", False),
    ]
    for trend, merged in zip(reported, (60, 90, 150), strict=True):
        assert place(trend.last_before) < merged <= place(trend.first_after)


def test_trend__an_improvement_is_one() -> None:
    """More tokens a second are no worsening, fewer milliseconds neither."""
    points = [
        point.but(throughput_tok_s=1e5 / point.step_time_ms)
        for point in history(noise(runs=80), {50: -0.10})
    ]
    for metric, sign in ((STEP_TIME, -1), (THROUGHPUT, 1)):
        (trend,) = trends_of(metric_named(metric), points)
        assert not trend.worse
        assert trend.delta * sign > 0.07


def test_trend__commits_between_are_named() -> None:
    """What another case measured in between is of the range, too; the list is bounded."""
    points = history(noise(runs=80), {50: 0.20})
    others = [points[49].but(commit=f"{run:040x}", step_time_ms=0.0) for run in range(1000, 1030)]
    (trend,) = trends_of(metric_named(STEP_TIME), [*points[:50], *others, *points[50:]])
    assert (place(trend.last_before), place(trend.first_after)) == (49, 50)
    assert [place(commit) for commit in trend.between] == list(range(1000, 1000 + MOST_BETWEEN))
    assert (trend.created_at, trend.run) == (points[50].created_at, points[50].run)


def test_trend__slow_drift_is_found_and_is_no_shift() -> None:
    """0.05 % a run is seen by nobody; over 200 runs it is 10 %."""
    creeping = [luck + run / 20.0 for run, luck in enumerate(noise(runs=200))]
    (trend,) = trends(creeping)
    assert (trend.kind, trend.worse) == ("drift", True)
    assert 0.07 < trend.delta < 0.12
    assert trend.between == ()
    assert place(trend.first_after) == 199


def test_trend__a_drift_is_told_beside_the_shift() -> None:
    """A gain of 10 % does not hide that everything else became slower."""
    creeping = [luck + run / 20.0 for run, luck in enumerate(noise(runs=200))]
    reported = trends(creeping, {100: -0.10})
    kinds = {trend.kind: trend.worse for trend in reported}
    assert kinds == {"shift": False, "drift": True}


def test_trend__the_anchor_is_no_lucky_run() -> None:
    """Two record times at the beginning make no drift of all that follows."""
    lucky = noise(runs=200)
    lucky[:2] = [-20.0, -20.0]
    assert trends(lucky) == []


@pytest.mark.parametrize("runs", [0, 1, 2, LEAST_RUNS - 1])
def test_trend__of_few_runs_is_none(runs: int) -> None:
    """They do not say how much the machine's moods differ."""
    assert trends(noise(runs=runs), {runs // 2: 1.0}) == []


def test_trend__of_a_count_is_exact() -> None:
    """A count does not vary, so five runs with another one are a shift."""
    points = [
        point.but(metrics={KERNELS: 588.0 if run >= 25 else 196.0})
        for run, point in enumerate(history(noise(runs=30)))
    ]
    (trend,) = trends_of(metric_named(KERNELS), points)
    assert (trend.before, trend.after, trend.worse) == (196.0, 588.0, True)
    assert (place(trend.last_before), place(trend.first_after)) == (24, 25)


def test_trend__does_not_depend_on_what_comes_after_by_much() -> None:
    """A shift that was reported stays where it is while runs are added."""
    luck = noise(runs=200)
    first = trends(luck[:110], {100: 0.06})
    later = trends(luck, {100: 0.06})
    ranges = [(place(trend.last_before), place(trend.first_after)) for trend in (*first, *later)]
    assert len(ranges) == 2
    assert all(low < 100 <= high for low, high in ranges)


def test_trend__in_words() -> None:
    """What, by how much, since when, and between which commits."""
    (trend,) = trends(noise(runs=80), {50: 0.20})
    assert describe_trend(trend) == (
        "Step time +19.7 % (100 ms → 120 ms) since 2026-02-23, between 000000000000 and"
        " 000000000000"
    )


# --- in a run -----------------------------------------------------------------------------------


class Branch:
    """A store that remembers a history, and whose last record is the baseline."""

    def __init__(self, points: list[HistoryPoint]) -> None:
        self._points = tuple(points)

    def find(self, case: str, environment: Environment) -> Baseline:
        """The newest run."""
        return found(measured(self._points[-1].step_time_ms))

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """All of it."""
        return self._points

    def known_cases(self) -> frozenset[str]:
        """The only one."""
        return frozenset({"training"})

    def inputs(self) -> dict[str, str] | None:
        """Not known."""
        return None


def measured(step_ms: float) -> Judged:
    return Judged.of(measured_case(CaseInput("training", profile(step_ms)), Workload()))


def left_by(points: list[HistoryPoint], case: CaseInput, *, tracked: bool = True) -> Record:
    return run(
        Job((case,), commit="f" * 40, tracked=tracked),
        baselines=Branch(points),
        publish=lambda _: None,
        now=lambda: "2027-01-01T00:00:00Z",
    )


@pytest.mark.parametrize("tracked", [True, False])
def test_run__tells_the_trend_and_judges_without_it(*, tracked: bool) -> None:
    """A slowdown that was merged long ago is no verdict on this run."""
    points = history(noise(runs=80), {50: 0.08})
    record = left_by(points, CaseInput("training", profile(108.0)), tracked=tracked)
    (trend,) = record.trends
    assert (trend.case, trend.metric, trend.kind) == ("training", STEP_TIME, "shift")
    assert (place(trend.last_before), place(trend.first_after)) == (49, 50)
    assert record.cases[0].verdict is not None
    assert record.cases[0].verdict.outcome is Outcome.PASS
    assert len(record.history) == 80 + tracked


def test_run__a_series_is_of_one_environment_and_size() -> None:
    """A move to a faster card, or to a larger batch, is no change of the program."""
    for moved in (
        {"environment": Environment(accelerator="H100 SXM 80GB", timing="under a profiler")},
        {"tokens_per_step": 4096.0},
    ):
        points = [
            point.model_copy(update=moved if run < 50 else {"tokens_per_step": 8192.0})
            for run, point in enumerate(history(noise(runs=100), {50: 0.30}))
        ]
        case = CaseInput("training", profile(130.0, accelerator="L4", tokens_per_step=8192))
        record = left_by(points, case)
        assert record.trends == ()

"""The trend of a history: shifts with their commits, drift, and no noise."""

from __future__ import annotations

import pytest

from benchmarks.trend import WORLDS, history, noise, trends
from ci_score.compare import Workload, measured_case
from ci_score.judge.levels import LEAST_RUNS
from ci_score.judge.trend import trends_of
from ci_score.model.environment import Environment
from ci_score.model.metrics import KERNELS, STEP_TIME, THROUGHPUT, metric_named, user_metric
from ci_score.model.record import MOST_BETWEEN, HistoryPoint, Judged, Record
from ci_score.model.stages import Baseline, CaseInput
from ci_score.model.verdict import Outcome
from ci_score.report.headlines import describe_trend
from ci_score.run.story import Job, run
from tests.builders import found, profile

HARMLESS = sorted(WORLDS.keys() - {"sticky modes", "bursts"})
RUNS = 140


def quiet(seed: int = 1, runs: int = RUNS) -> list[float]:
    return noise("normal 1 %", runs, seed)


def place(commit: str | None) -> int:
    assert commit is not None
    return int(commit, 16)


def rising(start: int, by: float, runs: int = RUNS) -> list[float]:
    return [luck + by * max(run - start, 0) for run, luck in enumerate(quiet(runs=runs))]


@pytest.mark.parametrize("world", HARMLESS)
@pytest.mark.parametrize("runs", [90, RUNS])
def test_trend__noise_is_none(world: str, runs: int) -> None:
    """Of 60 histories without a change at most three tell one, in the hardest of these worlds."""
    false = sum(bool(trends(noise(world, runs, seed))) for seed in range(60))
    assert false <= 3


@pytest.mark.parametrize("world", ["normal 1 %", "log-normal", "two modes", "correlated 0.8"])
def test_trend__a_shift_is_found_between_its_commits(world: str) -> None:
    """A merged slowdown of 5 % on a machine of 1 %, ten runs ago: where, by how much, which way."""
    found = 0
    for seed in range(20):
        reported = trends(noise(world, RUNS, seed), {130: 0.05})
        found += any(
            trend.kind == "shift"
            and trend.worse
            and place(trend.last_before) < 130 <= place(trend.first_after)
            and place(trend.first_after) - place(trend.last_before) <= 8
            and 0.03 < trend.delta < 0.07
            for trend in reported
        )
    assert found >= 16


def test_trend__is_told_from_the_first_runs_on_while_it_is_new() -> None:
    """A slowdown is told after a few runs, once and at the same place in the following sixty."""
    points = history(quiet(runs=200), {120: 0.05})
    metric = metric_named(STEP_TIME)
    for newest in (125, 130, 150, 180):
        (trend,) = trends_of(metric, points[max(0, newest - RUNS) : newest])
        assert (trend.kind, trend.worse) == ("shift", True)
        assert place(trend.last_before) < 120 <= place(trend.first_after)


def test_trend__a_repair_is_told_like_the_change() -> None:
    """A regression, its repair and a later gain are three shifts."""
    reported = trends(quiet(), {98: 0.05, 114: -0.05, 132: -0.08})
    assert [(trend.kind, trend.worse) for trend in reported] == [
        ("shift", True),
        ("shift", False),
        ("shift", False),
    ]
    for trend, merged in zip(reported, (98, 114, 132), strict=True):
        assert place(trend.last_before) < merged <= place(trend.first_after)


def test_trend__what_does_not_last_is_forgotten() -> None:
    """Eight slow runs are told while they are the newest, and not any more when they are over."""
    levels = quiet()
    levels[110:118] = [level + 0.05 for level in levels[110:118]]
    (trend,) = trends(levels[:118])
    assert trend.worse
    assert trends(levels) == []


def test_trend__an_improvement_is_one() -> None:
    """More tokens a second are no worsening, fewer milliseconds neither."""
    points = [
        point.but(throughput_tok_s=1e5 / point.step_time_ms)
        for point in history(quiet(), {120: -0.10})
    ]
    for metric, sign in ((STEP_TIME, -1), (THROUGHPUT, 1)):
        (trend,) = trends_of(metric_named(metric), points)
        assert not trend.worse
        assert trend.delta * sign > 0.07


def test_trend__commits_between_are_named() -> None:
    """What another case measured in between is of the range, too; the list is bounded."""
    points = history(quiet(), {120: 0.20})
    others = [points[119].but(commit=f"{run:040x}", step_time_ms=0.0) for run in range(1000, 1030)]
    (trend,) = trends_of(metric_named(STEP_TIME), [*points[:120], *others, *points[120:]])
    assert (place(trend.last_before), place(trend.first_after)) == (119, 120)
    assert [place(commit) for commit in trend.between] == list(range(1000, 1000 + MOST_BETWEEN))
    assert (trend.created_at, trend.run) == (points[120].created_at, points[120].run)


@pytest.mark.parametrize("runs", [115, 125, RUNS])
def test_trend__a_slow_rise_is_one_drift(runs: int) -> None:
    """0.3 % a run is no shift; it is told from where it began, with what it has come to."""
    (trend,) = trends(rising(95, 0.003)[:runs])
    assert (trend.kind, trend.worse, trend.between) == ("drift", True, ())
    assert abs(place(trend.last_before) - 95) <= 6
    assert place(trend.first_after) >= runs - 12
    assert trend.delta == pytest.approx(0.003 * (runs - 95), abs=0.035)


def test_trend__a_slope_as_old_as_the_history_is_no_news() -> None:
    """0.05 % with every run is not told; a shift of 4 % on top of it is."""
    assert trends(rising(0, 0.0005)) == []
    (trend,) = trends(rising(0, 0.0005), {130: 0.04})
    assert trend.worse


def test_trend__a_few_far_runs_are_none() -> None:
    """Two runs that took twice as long are no level."""
    levels = quiet()
    levels[-2:] = [0.7, 0.7]
    assert trends(levels) == []


@pytest.mark.parametrize("runs", [0, 1, 2, LEAST_RUNS - 1])
def test_trend__of_few_runs_is_none(runs: int) -> None:
    """They do not say how much the machine's moods differ."""
    assert trends(quiet(runs=runs), {runs // 2: 1.0}) == []


def test_trend__of_the_least_number_of_runs() -> None:
    """Sixty runs, the ten between and five new ones are enough."""
    (trend,) = trends(quiet(runs=LEAST_RUNS), {LEAST_RUNS - 5: 0.10})
    assert (trend.runs_before, trend.runs_after) == (20, 5)


def test_trend__of_a_count_is_exact() -> None:
    """A count does not vary, so three runs with another one are a shift."""
    points = [
        point.but(metrics={KERNELS: 588.0 if run >= 87 else 196.0})
        for run, point in enumerate(history(quiet(runs=90)))
    ]
    (trend,) = trends_of(metric_named(KERNELS), points)
    assert (trend.before, trend.after, trend.worse) == (196.0, 588.0, True)
    assert (place(trend.last_before), place(trend.first_after)) == (86, 87)


@pytest.mark.parametrize("far", [1e-300, 1e300, 1.7e308])
def test_trend__of_absurd_numbers_is_finite(far: float) -> None:
    """A record is a stranger's: no number in it ends the run."""
    points = [
        point.but(metrics={"own": far if run % 7 else 1.0, KERNELS: far if run > 120 else 1e-300})
        for run, point in enumerate(history(quiet()))
    ]
    assert trends_of(user_metric("own", None, "absolute", None), points) == []
    assert all(trend.delta < 1e306 for trend in trends_of(metric_named(KERNELS), points))


def test_trend__in_words() -> None:
    """What, by how much, since when, and between which commits."""
    (trend,) = trends(quiet(), {120: 0.20})
    assert describe_trend(trend) == (
        "Step time +20 % (100 → 120 ms) since 2026-05-09, between 0000000 and 0000000"
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
    points = history(quiet(runs=110), {90: 0.08})
    record = left_by(points, CaseInput("training", profile(108.0)), tracked=tracked)
    (trend,) = record.trends
    assert (trend.case, trend.metric, trend.kind) == ("training", STEP_TIME, "shift")
    assert (place(trend.last_before), place(trend.first_after)) == (89, 90)
    assert record.cases[0].verdict is not None
    assert record.cases[0].verdict.outcome is Outcome.PASS
    assert len(record.history) == 110 + tracked


def test_run__a_series_is_of_one_environment_and_size() -> None:
    """A move to a faster card, or to a larger batch, is no change of the program."""
    for moved in (
        {"environment": Environment(accelerator="H100 SXM 80GB", timing="under a profiler")},
        {"tokens_per_step": 4096.0},
    ):
        points = [
            point.model_copy(update=moved if run < 90 else {"tokens_per_step": 8192.0})
            for run, point in enumerate(history(quiet(), {90: 0.30}))
        ]
        case = CaseInput("training", profile(130.0, accelerator="L4", tokens_per_step=8192))
        record = left_by(points, case)
        assert record.trends == ()

"""A re-run: what the attempts of a run measured counts together, and only where it is new."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.launches.attempts import Attempts, pooled
from ci_score.model.reasons import quoted
from ci_score.model.record import Judged, LaunchNumbers, Record, RunIdentity
from ci_score.model.stages import Attempted
from ci_score.report.sentences import sentence
from tests.builders import case, on, profile, scorecard
from tests.builders.launches import COMMIT, attempt, together
from tests.builders.scene import FAST, SLOW, Outcome, Scene, pull_request, record_in, tip
from tests.loopback_github import events
from tests.loopback_github.events import Event


def measured(digest: str, step_ms: float = 100.0, **fields: Any) -> Judged:
    return case(card=scorecard(step_ms, 1e5 / step_ms), measurement=digest, **fields)


def left_by(number: int, attempts: Attempts) -> Record:
    """The record of an attempt that was judged together with those before it."""
    return attempt(number, *map(Judged.of, attempts.cases))


def step_ms(attempts: Attempts) -> float:
    return attempts.cases[0].scorecard.step_time_ms


def test_pooled__a_new_measurement_becomes_the_mean_of_the_attempts() -> None:
    """One point, of as many attempts as there were, and never the better one."""
    second = together(measured("b", 100.0), attempt(1, measured("a", 130.0)))
    assert step_ms(second) == 115.0
    assert "measured anew (training)" in sentence(second.notices[0])
    third = together(measured("c", 100.0), left_by(2, second), number=3)
    assert step_ms(third) == pytest.approx(110.0)
    assert third.cases[0].earlier_measurements == ("a", "b")


def test_pooled__the_same_measurement_is_no_new_evidence() -> None:
    """Judged as often as one likes, it stays what it was."""
    again = together(measured("a", 130.0), attempt(1, measured("a", 130.0)))
    assert step_ms(again) == 130.0
    assert "no new evidence" in sentence(again.notices[0])


def test_pooled__judging_the_last_measurement_again_does_not_forget_the_others() -> None:
    """The third attempt judges the second's measurement: the first one counts on."""
    second = together(measured("b", 100.0), attempt(1, measured("a", 130.0)))
    third = together(measured("b", 100.0), left_by(2, second), number=3)
    assert step_ms(third) == 115.0
    assert third.cases[0].measurement == "b"
    assert third.cases[0].earlier_measurements == ("a",)


def pairs(*numbers: tuple[float, float]) -> tuple[LaunchNumbers, ...]:
    return tuple(
        LaunchNumbers(side=side, launch=launch, values={"step_time_ms": value})
        for launch, (head, base) in enumerate(numbers)
        for side, value in (("head", head), ("base", base))
    )


def test_pooled__pairs_become_more_pairs() -> None:
    """Each keeps its partner under a number of its own; the numbers are the mean launches'."""
    first = measured("a", 130.0, launches=pairs((130.0, 100.0), (131.0, 101.0)))
    second = measured("b", 110.0, launches=pairs((110.0, 102.0), (111.0, 103.0)))
    one = together(second, attempt(1, first)).cases[0]
    heads = {row.launch: row.values["step_time_ms"] for row in one.launches if row.side == "head"}
    bases = {row.launch: row.values["step_time_ms"] for row in one.launches if row.side == "base"}
    assert heads == {0: 130.0, 1: 131.0, 2: 110.0, 3: 111.0}
    assert bases == {0: 100.0, 1: 101.0, 2: 102.0, 3: 103.0}
    assert one.scorecard.step_time_ms == 120.5


def test_pooled__metrics_of_one_attempt_only_stay() -> None:
    """What an attempt has measured is not lost because the next one has not."""
    first = measured("a", metrics={"peak_memory_gb": 80.0, "tail": 3.0})
    second = measured("b", metrics={"peak_memory_gb": 70.0, "own": 1.0})
    one = together(second, attempt(1, first)).cases[0]
    assert one.metrics == {"peak_memory_gb": 75.0, "tail": 3.0, "own": 1.0}


@pytest.mark.parametrize(
    "earlier",
    [
        attempt(1, measured("a", 130.0), run=RunIdentity(number=6, attempt=1)),
        attempt(2, measured("a", 130.0)),
        attempt(1, measured("a", 130.0), commit="d" * 40),
        attempt(1, measured("a", 130.0), run=None),
        attempt(1, case("another")),
        attempt(1, case(unmeasured=quoted("it crashed"), measurement="a")),
        attempt(1, measured("a", 130.0, environment=on("Tesla T4"))),
        attempt(1, measured("a", 130.0, tokens_per_step=2000.0)),
    ],
)
def test_pooled__only_with_the_same_run_of_the_same_thing(earlier: Record) -> None:
    """Another run, commit, machine or step size is something else."""
    now = measured("b", 100.0, environment=on("NVIDIA L4"), tokens_per_step=1000.0)
    assert step_ms(together(now, earlier)) == 100.0


def test_pooled__what_was_disturbed_neither_counts_nor_hides_what_came_before() -> None:
    """An invalid attempt is no evidence, and no way to get rid of the one before it."""
    first = attempt(1, measured("a", 130.0))
    disturbed = on(None).but(disturbances={"shared": "another process"})
    second = together(measured("b", 100.0, environment=disturbed), first)
    assert step_ms(second) == 100.0
    third = together(measured("c", 100.0), left_by(2, second), first, number=3)
    assert step_ms(third) == 115.0


def test_pooled__the_first_attempt_looks_at_nothing() -> None:
    """And a later one that finds nothing says so."""

    def never() -> Iterable[Record]:
        raise AssertionError
        yield

    now = measured("a")
    assert pooled([Attempted(now)], RunIdentity(number=7), COMMIT, never()).cases == (now,)
    assert "is judged by itself" in sentence(together(now).notices[0])


@given(st.lists(st.floats(50.0, 200.0), min_size=2, max_size=6))
def test_pooled__no_order_of_attempts_is_better(times: list[float]) -> None:
    """However often one rolls the dice, what counts is the mean of all of them."""
    left: Record | None = None
    for number, time in enumerate(times, start=1):
        done = together(measured(str(number), time), *([left] if left else []), number=number)
        left = left_by(number, done)
    assert left is not None
    assert left.cases[0].scorecard.step_time_ms == pytest.approx(sum(times) / len(times))


# --- on GitHub ----------------------------------------------------------------------------------


def act_and_upload(scene: Scene, event: Event, name: str = "ci-score-pr") -> Outcome:
    """An attempt, and the upload step behind it."""
    done = scene.act(event)
    left = (scene.workspace / "ci-score" / "ci-score.json").read_bytes()
    scene.state.uploaded(event.run, name, {"ci-score.json": left})
    return done


def test_rerun__does_not_roll_the_dice_again(scene: Scene) -> None:
    """A slow attempt and a fast one are a mean; the same one again is no evidence at all."""
    scene.leave_record(tip(scene), FAST)
    first = events.pull_request(scene.github, pull_request(scene))
    scene.measure(profile(150.0, tokens_per_step=1000))
    assert act_and_upload(scene, first).code == 1
    scene.github.exchanges.clear()
    second = events.rerun(scene.github, first)
    again = act_and_upload(scene, second)
    assert again.code == 1
    assert "that is no new evidence" in again.summary
    # The listing, the record and the jobs of the first attempt, beside a usual run.
    assert len(scene.asked()) == 11
    scene.measure(FAST)
    third = act_and_upload(scene, events.rerun(scene.github, second))
    assert third.code == 1
    assert "it is judged together" in third.summary
    assert record_in(scene).cases[0].scorecard.step_time_ms == 125.0


def session(head_ms: float, seed: int) -> str:
    """Six pairs of launches, as a measuring job leaves them."""
    rows = [
        {"schema": 1, "case": "training", "side": side, "launch": launch, "order": launch,
         "step_ms": [level * (1 + (launch * seed % 5 - 2) / 1000)], "tokens_per_step": 1000}
        for launch in range(6)
        for side, level in (("head", head_ms), ("base", 100.0))
    ]  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_rerun__of_paired_launches_judges_all_pairs(scene: Scene) -> None:
    """Twelve pairs of two sessions are judged as one, and only one of them is not forgotten."""
    event = events.pull_request(scene.github, pull_request(scene))
    scene.workspace.mkdir()
    samples = []
    for head_ms, seed in ((160.0, 2), (100.0, 3)):
        (scene.workspace / "m.jsonl").write_text(session(head_ms, seed), encoding="utf-8")
        scene.environment["INPUT_MEASUREMENTS"] = "m.jsonl"
        act_and_upload(scene, event)
        (one,) = record_in(scene).cases
        change = next(row for row in one.changes if row.metric == "step_time_ms")
        samples.append((change.samples, round(change.base), round(change.head)))
        event = events.rerun(scene.github, event)
    assert samples == [(6, 100, 160), (12, 100, 130)]


def test_rerun__of_the_branch_is_one_point_of_its_history(scene: Scene) -> None:
    """The last attempt's point stands for all of them."""
    pushed = events.push(scene.github, scene.repository)
    for measured_, event in ((SLOW, pushed), (FAST, events.rerun(scene.github, pushed))):
        scene.measure(measured_)
        act_and_upload(scene, event, "ci-score")
    scene.commits(1)
    scene.act(events.push(scene.github, scene.repository))
    assert [point.step_time_ms for point in record_in(scene).history] == [115.0, 100.0]


@pytest.mark.parametrize("content", [b"garbage", {"ci-score.json": b"{}"}, {"other": b""}])
def test_rerun__that_finds_nothing_usable_says_so(scene: Scene, content: Any) -> None:
    """An attempt's record that cannot be read is no crash, and not hidden."""
    first = events.pull_request(scene.github, pull_request(scene))
    scene.state.artifact(first.run, "ci-score-pr", content)
    scene.measure(FAST)
    done = scene.act(events.rerun(scene.github, first))
    assert done.code == 0
    assert "What the attempts before it measured was not found" in done.summary

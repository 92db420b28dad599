"""What a change may bring along to hide a slowdown, or what honest noise may do; whole commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ci_score.model.record import LaunchNumbers, RunIdentity
from tests.builders import record, write
from tests.builders.whole_run import (
    TRAINING,
    UNPROFILED,
    alone,
    branch,
    judged,
    point,
    session,
    timed,
)

Row = dict[str, Any]


def of_head(rows: Iterable[Row], change: Callable[[Row], Row | None]) -> list[Row]:
    """The lines with those of head changed; None leaves one out."""
    changed = (change(row) if row["side"] == "head" else row for row in rows)
    return [row for row in changed if row is not None]


def test_launches__left_out_by_the_slow_side(here: Path) -> None:
    """Slow launches of head that are not handed in are void, as if they had crashed."""
    slow = of_head(
        session(100.0),
        lambda row: {**row, "step_ms": [190.0] * 20} if row["launch"] % 3 == 0 else row,
    )
    assert judged(here, *slow)[0] == 3
    fast_ones = of_head(slow, lambda row: None if row["launch"] % 3 == 0 else row)
    code, report = judged(here, *fast_ones)
    assert code == 3
    assert "not measured in 4 of 12 pairs, so it may be worse there" in report
    assert "4 of 20 launches have no partner" in report


def test_shared__by_a_plan_of_two_thousand_pairs(here: Path) -> None:
    """What a session says of its plan does not let it leave out half of its pairs."""
    rows = of_head(
        session(100.0, pairs=20),
        lambda row: (
            {**row, "step_ms": [190.0] * 20, "disturbances": {"shared": "somebody"}}
            if row["launch"] < 10
            else row
        ),
    )
    code, report = judged(here, *({**row, "looks": [6, 12, 2000]} for row in rows))
    assert code == 3
    assert "others disturbed 10 of 20" in report


def test_shared__and_void(here: Path) -> None:
    """A launch that measured nothing is void, whoever is said to have disturbed it."""
    mark = {"failed": "out of memory", "disturbances": {"shared": "somebody"}}
    rows = of_head(session(100.0), lambda row: {**row, **mark} if row["launch"] == 3 else row)
    code, report = judged(here, *rows)
    assert code == 3
    assert "1 launch of the head measured nothing" in report


@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize(("head", "base"), [(1e-300, 1e300), (1e-20, 1.0), (1e-320, 1e-320)])
def test_numbers__that_are_very_far_apart(
    here: Path, direction: str, head: float, base: float
) -> None:
    """Any two numbers end in a report; that of what is better is green or has its reason."""
    own = f'{TRAINING}[metrics.x]\ndirection = "{direction}"\nwarn = 0.05\nfail = 0.1\n'
    numbers = {"head": head, "base": base}
    rows = [{**row, "metrics": {"x": numbers[row["side"]]}} for row in session(100.0)]
    worse = direction == "higher"
    code, report = judged(here, *rows, policy=own)
    assert code == (0 if not worse else 3 if head == base else 1)
    assert report
    branch(here, timed(100.0, metrics={"x": base}))
    code, report = judged(here, *alone(100.0, 100.0, metrics={"x": head}), policy=own)
    assert code == (3 if worse else 0)
    assert "0 launches" not in report


def test_looks__that_no_session_can_take(here: Path) -> None:
    """Looks at thousands of pairs are not tried to say how many pairs would settle it."""
    rows = [{**row, "looks": [*range(1985, 2001)]} for row in session(105.26)]
    code, report = judged(here, *rows)
    assert code == 3
    assert "12 pairs are too few" in report


def test_metrics__told_by_the_fast_launches_alone(here: Path) -> None:
    """Beside a history, too, a launch that leaves out a gated number may be worse."""
    own = f'{TRAINING}[metrics.sync_ms]\ndirection = "lower"\nwarn = 0.03\nfail = 0.05\n'
    branch(here, timed(100.0, metrics={"sync_ms": 10.0}))
    rows = list(alone(100.0, 100.0, 100.0, metrics={"sync_ms": 10.0}))
    assert judged(here, *rows, policy=own)[0] == 0
    code, report = judged(here, rows[0], *list(alone(100.0, 100.0, 100.0))[1:], policy=own)
    assert code == 3
    assert "not measured in 2 of 3 launches of the head" in report


def test_pairs__of_which_the_base_is_left_out(here: Path) -> None:
    """Where the branch measures in pairs, one side alone is not waved through up to 20 %."""
    lines = list(session(115.0))
    both = tuple(
        LaunchNumbers(side=row["side"], launch=row["launch"], values={"step_time_ms": 100.0})
        for row in lines
    )
    branch(here, timed(100.0, launches=both))
    assert judged(here, *lines)[0] == 1
    head_alone = [row for row in lines if row["side"] == "head"]
    code, report = judged(here, *head_alone)
    assert code == 3
    assert "% does not pass as noise" in report
    assert judged(here, *alone(101.0))[0] == 0


def test_counts__that_a_launch_blurs(here: Path) -> None:
    """A second launch that needs still more memory makes no warning of a count that fails."""
    branch(here, timed(100.0, metrics={"peak_memory_gb": 40.0}))
    assert judged(here, *alone(100.0, peak_memory_gb=46.0))[0] == 1
    rows = [*alone(100.0, peak_memory_gb=46.0), *alone(100.0, peak_memory_gb=46.1, launch=1)]
    assert judged(here, *rows)[0] == 3


BY_STEP_TIME = (
    TRAINING + "[metrics.throughput_tok_s]\ngate = false\n[metrics.step_time_ms]\ngate = true\n"
)


@pytest.mark.parametrize("policy", [TRAINING, BY_STEP_TIME], ids=["throughput", "step-time"])
@pytest.mark.parametrize(("told_by", "words"), [(0, "and this run does not"), (4, "only some")])
def test_tokens__not_told_by_the_launches_that_train_on_fewer(
    here: Path, policy: str, told_by: int, words: str
) -> None:
    """Smaller steps look faster; a head that does not say their size is not compared."""
    rows = of_head(
        session(130.0),
        lambda row: (
            row
            if row["launch"] < told_by
            else {**row, "step_ms": [65.0] * 20, "tokens_per_step": 0}
        ),
    )
    code, report = judged(here, *rows, policy=policy)
    assert code == 3
    assert words in report


@pytest.mark.parametrize("sign", [{"final_loss": 2.0}, {"metrics": {"valid_steps": 20}}])
def test_work__told_by_one_launch(here: Path, sign: Row) -> None:
    """One launch with the right loss does not speak for those that do not tell theirs."""
    base = [{**row, **sign} for row in session(100.0)]
    assert judged(here, *base)[0] == 0
    rows = of_head(
        base,
        lambda row: (
            row
            if row["launch"] == 0
            else {key: value for key, value in row.items() if key not in sign}
        ),
    )
    code, report = judged(here, *rows)
    assert code == 3
    assert "each launch of its baseline tells its" in report


def test_history__of_other_machines(here: Path) -> None:
    """A run that does not name its machine is not judged beside the runs of all machines."""
    fast, slow = (UNPROFILED.but(accelerator=name) for name in ("H100", "T4"))
    machines = [slow if number % 10 < 7 else fast for number in range(60)]
    points = [
        point(number, 400.0 if machine is slow else 100.0).but(environment=machine)
        for number, machine in enumerate(machines)
    ]
    own = point(60, 100.0).but(environment=fast)
    left = record(
        timed(100.0, environment=fast), history=(*points, own), run=RunIdentity(number=60)
    )
    write(here / "main.json", left.model_dump_json())
    for environment in ({"accelerator": "H100"}, {}):
        code, _ = judged(here, *alone(130.0, 131.0), environment=environment)
        assert code == 3


def test_base__of_its_own_on_a_machine_of_another_name(here: Path) -> None:
    """Where the policy judges by the branch, no other name of the machine brings another base."""
    by_branch = TRAINING + '[measure]\ndesign = "history"\n'
    machine = UNPROFILED.but(accelerator="H100")
    branch(here, timed(100.0, environment=machine), runs=40)
    for name, expected in (("H100", 3), ("h100", 3)):
        both_slow = session(140.0, 140.0)
        code, _ = judged(here, *both_slow, policy=by_branch, environment={"accelerator": name})
        assert code == expected


def test_shared__where_the_policy_does_not_mind(here: Path) -> None:
    """Launches that are called disturbed are in the number that fixed limits judge."""
    lenient = 'schema = 1\n[environment]\nreject = ["crashed", "nan"]\n'
    branch(here)
    mark = {"disturbances": {"shared": "somebody"}}
    rows = [*alone(100.0), *alone(200.0, launch=1, **mark), *alone(200.0, launch=2, **mark)]
    assert judged(here, *rows, policy=lenient)[0] == 1


def test_lines__that_are_there_twice(here: Path) -> None:
    """A copy of the measurements proves nothing, and settles nothing, that they do not."""
    few, slower = list(session(100.0, pairs=3)), list(session(110.0, pairs=5))
    for rows in (few, slower):
        write(here / "perf" / "copy.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        code, report = judged(here, *rows, *rows)
        assert code == 3
        assert "count once" in report


def test_warm_up__of_both_sides(here: Path) -> None:
    """A session that leaves out more steps than the branch does hides what is slow in them."""
    launches = (LaunchNumbers(values={"step_time_ms": 100.0}, warmup_steps=2),)
    branch(here, timed(100.0, launches=launches))
    first = {"head": [300.0] * 13, "base": [100.0] * 13}
    rows = [
        {**row, "step_ms": [*first[row["side"]], *row["step_ms"][:5]], "warmup_steps": 2}
        for row in session(100.0)
    ]
    assert judged(here, *rows)[0] == 1
    code, report = judged(here, *({**row, "warmup_steps": 13} for row in rows))
    assert code == 3
    assert "leave out 13 warm-up steps" in report
    assert "compared with 2" in report


def test_memory__told_by_one_launch(here: Path) -> None:
    """Launches that leave out what they need may need more."""
    rows = [{**row, "peak_memory_gb": 40.0} for row in session(100.0)]
    assert judged(here, *rows)[0] == 0
    told_once = of_head(rows, lambda row: {**row, "peak_memory_gb": None} if row["launch"] else row)
    without = [{key: one for key, one in row.items() if one is not None} for row in told_once]
    code, report = judged(here, *without)
    assert code == 3
    assert "not measured in 11 of 12 pairs" in report


def test_counts__that_change_from_run_to_run(here: Path) -> None:
    """What comes and goes on the branch itself is no proof against a change, and no pass."""
    for steps, expected in (((0, 1, 0, 1, 0, 0, 1, 0, 0), 3), ((1, 1, 1, 1, 0, 0, 0, 0, 0), 1)):
        memory = [43.0 if one else 40.0 for one in steps]
        points = [
            point(number, 100.0).but(metrics={"peak_memory_gb": gb})
            for number, gb in enumerate(memory)
        ]
        newest = timed(100.0, metrics={"peak_memory_gb": 40.0})
        left = record(newest, history=tuple(points), run=RunIdentity(number=8))
        write(here / "main.json", left.model_dump_json())
        code, report = judged(here, *alone(100.0, peak_memory_gb=43.0))
        assert code == expected
        assert ("among each other" in report) is (expected == 3)

"""A profile beside measurements: its phases are parts of the profiled step."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.compare import Workload, measured_case, with_its_base
from ci_score.compare.explanation import timeline_of
from ci_score.launches.lines import Launch, SideLaunches
from ci_score.model.explanation import Explanation, Part
from ci_score.model.profile import Profile
from ci_score.model.record import Judged, Measured
from ci_score.model.stages import CaseInput
from ci_score.report import words
from ci_score.report.html.figures import phase_stack
from ci_score.report.rows import part_rows
from tests.builders import phase, profile, runtime

GRADED = Workload(hardware="L4", bytes_per_token=1e6)


def beside(measured_ms: float, profiled: Profile) -> Profile:
    launches = tuple(
        Launch.model_validate({"schema": 1, "launch": n, "step_ms": [measured_ms] * 20})
        for n in range(3)
    )
    return SideLaunches(launches).applied_to(profiled)


def measured(measured_ms: float, **fields: Any) -> Measured:
    profiled = beside(measured_ms, profile(fields.pop("step_ms", 1000.0), **fields))
    launches = SideLaunches((Launch.model_validate({"schema": 1, "step_ms": [measured_ms]}),))
    read = CaseInput("training", profiled, launches=launches.numbers())
    return measured_case(read, GRADED)


def said(case: Measured) -> str:
    return "\n".join(case.scorecard.notes)


@pytest.mark.parametrize("measured_ms", [50.0, 1000.0, 20_000.0])
def test_phases__that_fill_the_profiled_step_are_never_doubted(measured_ms: float) -> None:
    """A profiler makes steps much longer; its phases are no run totals for that, and no gaps."""
    phases = {"forward": phase(400.0), "backward": phase(550.0)}
    case = measured(measured_ms, phases=phases, tokens_per_step=1000)
    assert case.scorecard.step_time_ms == measured_ms
    assert "run totals" not in said(case)
    assert "The phases cover" not in said(case)
    assert case.scorecard.bottleneck != "launch"
    assert "outside all phases" not in words.advice(case.scorecard)


def test_phases__that_are_run_totals_of_the_profile_still_are() -> None:
    """Its own steps count, and not those of the measurements."""
    case = measured(1000.0, phases={"forward": phase(9500.0)})
    assert (
        "The phases add up to 9.5 times the profiled step: these look like run totals of 10 steps"
        in said(case)
    )
    one = measured(1000.0, phases={"forward": phase(9500.0)}, steps=1)
    assert "run totals" not in said(one)


def test_phases__cover_the_profiled_step() -> None:
    """What they leave out of it tells nothing of the step that was measured."""
    case = measured(50.0, wall_coverage=0.06)
    assert "The phases cover 6.0 % of the profiled step (below 90%)" in said(case)


def test_phases__of_a_profile_without_a_step_are_not_compared_with_the_measured_one() -> None:
    """They are parts of a step that nobody knows."""
    profiled = beside(50.0, profile(0.0))
    assert timeline_of(profiled) is None
    case = measured(50.0, step_ms=0.0, tokens_per_step=1000)
    assert not case.scorecard.bottleneck_known
    assert "run totals" not in said(case)


def test_figure__what_lies_outside_all_phases_is_of_the_profiled_step() -> None:
    """A step that took longer when it was measured has no gaps for that."""
    case = measured(5000.0, phases={"forward": phase(400.0), "backward": phase(550.0)})
    stack = phase_stack(Judged.of(case))
    assert stack is not None
    assert {row.name: row.times[0] for row in stack.legend} == {
        "forward": 400.0,
        "backward": 550.0,
        "outside all phases": 50.0,
    }


def test_notes__of_a_reader_are_about_the_profile() -> None:
    """That the step time is not known is false beside a measurement of it."""
    note = "The step time is not known."
    assert f"Of the profile: {note}" in said(measured(50.0, notes=(note,)))
    bare = measured_case(CaseInput("training", profile(50.0, notes=(note,))), Workload())
    assert note in bare.scorecard.notes


def test_parity__notes_tell_the_measured_step_from_the_profiled_one() -> None:
    """The rate follows from the measured step; what is in no step, from the profile's own steps."""
    profiled = profile(
        200.0,
        steps=4,
        device_busy_ms=100.0,
        capture={"gpu_busy_ms": 400.0},
        tokens_per_step=1000,
        sources={"avg_step_ms": "GPU end-to-end period of 4 steps"},
    )
    read = CaseInput("training", beside(100.0, profiled), partner=runtime("theirs"))
    parity = measured_case(read, Workload()).parity
    assert parity is not None
    notes = "\n".join(parity.notes)
    assert "1000 tokens a step (as given) in 100 ms (the measurements)" in notes
    assert "belongs to no step" not in notes


def test_coverage__of_a_session_is_not_judged() -> None:
    """It is a share of the profiled step, and a session judges the one that nobody profiled."""
    sides = {
        side: SideLaunches(
            (Launch.model_validate({"schema": 1, "side": side, "step_ms": [50.0]}),)
        ).numbers()
        for side in ("head", "base")
    }
    base = CaseInput(
        "training", beside(50.0, profile(60.0, wall_coverage=0.95)), launches=sides["base"]
    )
    head = CaseInput(
        "training",
        beside(50.0, profile(60.0, wall_coverage=0.5)),
        launches=sides["head"],
        base=base,
    )
    case, found = with_its_base(head, GRADED)
    assert found is not None
    assert (case.scorecard.wall_coverage, found.case.scorecard.wall_coverage) == (0.0, 0.0)


def test_rest__that_is_an_error_of_rounding_gets_no_line() -> None:
    """Parts that fill the step leave nothing behind."""
    parts = (
        Part(name="forward", base_ms=5.0, head_ms=8.0),
        Part(name="the rest", base_ms=1e-14, head_ms=-3e-14),
    )
    found = Explanation(basis="host", base_step_ms=5.0, head_step_ms=8.0, parts=parts)
    assert [row.name for row in part_rows(found)] == ["forward", "step"]

"""What to try: only where a part of the step that work need not take is large."""

from __future__ import annotations

import pytest

from ci_score.compare.advice import MOST_ADVICE, advice_on
from ci_score.model.explanation import Timeline
from ci_score.model.profile import OpWork
from ci_score.report.sentences import sentence


def step(**parts: float) -> Timeline:
    """A step of 100 ms: what these parts leave is compute."""
    names = {name.replace("__", ", ").replace("_", " "): ms for name, ms in parts.items()}
    whole = {"compute": 100.0 - sum(parts.values()), **names}
    return Timeline(basis="device", step_ms=100.0, parts=whole)


@pytest.mark.parametrize(
    ("part", "quiet", "loud", "words"),
    [
        ("exposed_communication", 19.0, 23.0, "23.0 ms or 23 % of the step is communication"),
        ("idle__waiting_for_data", 9.0, 12.0, "more workers"),
        ("idle__compiling", 4.0, 6.0, "keep shapes the same"),
        ("idle__allocating_memory", 4.0, 6.0, "expandable_segments"),
        ("idle__after_synchronising", 9.0, 12.0, ".item()"),
        ("idle__waiting_for_launches", 19.0, 22.0, "CUDA graphs"),
        ("exposed_copies", 9.0, 12.0, "pin memory"),
        ("idle", 29.0, 31.0, "see in the trace"),
    ],
)
def test_advice__where_a_part_is_large(part: str, quiet: float, loud: float, words: str) -> None:
    """Below its share there is nothing to say; above it stands the number that it rests on."""
    assert advice_on(step(**{part: quiet}), {}) == ()
    (said,) = advice_on(step(**{part: loud}), {})
    assert words in sentence(said)


def test_advice__of_an_optimizer_that_runs_once_a_parameter() -> None:
    """Many launches of it, and time that matters."""
    (said,) = advice_on(step(), {"optimizer": OpWork(count=900, ms=9.0)})
    assert (
        sentence(said)
        == "The optimizer takes 9.00 ms in 900 launches: try its fused or foreach form."
    )
    assert advice_on(step(), {"optimizer": OpWork(count=4, ms=9.0)}) == ()
    assert advice_on(step(), {"optimizer": OpWork(count=900, ms=1.0)}) == ()
    assert advice_on(step(), {"optimizer": OpWork(ms=9.0)}) == ()


def test_advice__is_short_and_begins_with_the_largest() -> None:
    """Three are what people read."""
    many = step(
        exposed_communication=22.0,
        idle__waiting_for_data=21.0,
        idle__compiling=6.0,
        exposed_copies=11.0,
    )
    said = advice_on(many, {})
    assert len(said) == MOST_ADVICE
    assert "communication" in sentence(said[0])


def test_advice__rests_on_what_the_device_did() -> None:
    """Phases of a runtime's own, or nothing at all, say nothing of it."""
    assert advice_on(None, {}) == ()
    phases = Timeline(basis="phases", step_ms=100.0, parts={"idle": 90.0})
    assert advice_on(phases, {}) == ()

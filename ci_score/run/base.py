"""The commit that a session of this run is to measure against: `ci-score base`."""

from __future__ import annotations

from ci_score.errors import WrongUseError
from ci_score.github import commits, runner
from ci_score.run.context import Run, World
from ci_score.run.settings import Settings


def measured_base(settings: Settings, world: World) -> str | None:
    """The base of this run's event, also as the step's output; None before the first commit."""
    context = Run.of(settings, world)
    if context.event.producer is not None:
        raise WrongUseError(
            "base: a workflow_run measures nothing itself; ask in the workflow that measures"
        )
    base = commits.BaseLine(context.api, context.event).measured_base()
    if outputs := world.path("GITHUB_OUTPUT"):
        runner.append_outputs(outputs, {"base": base or ""})
    return base

"""One profiled launch a side, after the timing: profiles explain what measurements judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_score.measure.ab import LOGS, Plan
from ci_score.measure.launching import Order, launch
from ci_score.measure.schedule import Side

PROFILES = "profiles"
DIR_VARIABLE = "CI_SCORE_PROFILE_DIR"
SIDES: tuple[Side, Side] = ("base", "head")


def profile_both(
    command: tuple[str, ...], plan: Plan, out: Path, environment: Mapping[str, str]
) -> Iterator[str]:
    """Runs the command once in each side's folder; says what went wrong, which spoils nothing."""
    for side in SIDES:
        folder = out / PROFILES / side
        folder.mkdir(parents=True, exist_ok=True)
        order = Order(
            side=side,
            pair=0,
            place=0,
            folder=plan.folder(side),
            log=out / LOGS / f"profile-{side}.log",
            measurements=out / LOGS / f"profile-{side}.line",
            environment={**environment, DIR_VARIABLE: str(folder)},
        )
        done = launch(command, order, plan.timeout)
        if done.problem:
            yield f"no profile of the {side}: {done.problem}"
        elif not any(folder.iterdir()):
            yield f"no profile of the {side}: the command left nothing in ${DIR_VARIABLE}"

"""One profiled launch a side, after the timing: profiles explain what measurements judge."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ci_score.measure.ab import LOGS, PROFILES, SIDES, Plan
from ci_score.measure.launching import run_once

DIR_VARIABLE = "CI_SCORE_PROFILE_DIR"


def profile_both(
    command: tuple[str, ...],
    plan: Plan,
    out: Path,
    environment: Mapping[str, str],
    stopped: Callable[[], bool],
) -> Iterator[str]:
    """Runs the command once in each side's folder; says what went wrong, which spoils nothing."""
    for side in SIDES:
        if stopped():
            return
        folder = out / PROFILES / side
        # What an earlier sitting left would be merged with it.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        order = plan.order(
            side, 0, 0, out / LOGS / PROFILES, {**environment, DIR_VARIABLE: str(folder)}
        )
        ran = run_once(command, order, plan.timeout, stopped)
        if ran.problem:
            # Half a trace explains nothing.
            shutil.rmtree(folder)
            yield f"no profile of the {side}: {ran.problem}"
        elif not any(folder.iterdir()):
            yield f"no profile of the {side}: the command left nothing in ${DIR_VARIABLE}"

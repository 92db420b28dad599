"""States that a Hugging Face Trainer saves on the way: the newest tells of all steps of its run.

A newest state that is not usable stays, as an older one tells nothing of the steps after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath

from ci_score.errors import BadInputError
from ci_score.files.checkpoints import TRAINER_STATE, folder_of_run
from ci_score.model.lists import some_of
from ci_score.model.profile import Profile

Named = tuple[str, Profile]


def without_older_states(files: Sequence[Named]) -> tuple[Sequence[Named], tuple[str, ...]]:
    """The files without the checkpoints of a run of which there is a newer state, and a note."""
    saved: dict[PurePath, list[Named]] = {}
    for name, profile in files:
        run = folder_of_run(PurePosixPath(name))
        if run is not None:
            saved.setdefault(run, []).append((name, profile))
    older: set[str] = set()
    for run, checkpoints in saved.items():
        newest = max(checkpoints, key=_steps)
        own = [one for one in files if PurePosixPath(one[0]) == run / TRAINER_STATE]
        for state in own:
            _refuse_newer(newest, state)
        older |= {name for name, _ in checkpoints if own or name != newest[0]}
    if not older:
        return files, ()
    kept = [(name, profile) for name, profile in files if name not in older]
    return kept, (f"Left out as older states of the same run: {some_of(sorted(older))}.",)


def _refuse_newer(checkpoint: Named, own: Named) -> None:
    """The trainer saves its own state last, so a checkpoint with more steps is another run's."""
    if _steps(checkpoint) > _steps(own):
        raise BadInputError(
            own[0],
            found=f"the state of a run at step {_steps(own)}, beside {checkpoint[0]} at step"
            f" {_steps(checkpoint)}",
            expected="the states of one run, which is newer than all of its checkpoints",
        )


def _steps(state: Named) -> int:
    return round(state[1].capture.get("global_step", 0.0))

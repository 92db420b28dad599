"""What a Hugging Face Trainer leaves in a folder: its state, and that of each `checkpoint-500`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

from ci_score.files.ascend_output import folders_around

TRAINER_STATE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-\d+")


def folder_of_run(file: PurePath) -> PurePath | None:
    """The folder of the run whose checkpoint's state this is; None if it is none."""
    is_checkpoint = file.name == TRAINER_STATE and _CHECKPOINT.fullmatch(file.parent.name)
    return file.parent.parent if is_checkpoint else None


def checkpoints_among(files: Iterable[PurePath]) -> frozenset[PurePath]:
    """The folders of checkpoints, by the state that lies in each of them."""
    return frozenset(file.parent for file in files if folder_of_run(file) is not None)


def folders_of(file: PurePath, checkpoints: frozenset[PurePath]) -> tuple[str, ...] | None:
    """The folders of a file: of a checkpoint's state those of its run, and None for all beside it.

    Weights, optimizers and configurations of a checkpoint tell nothing of the run's time.
    """
    around = [folder for folder in file.parents if folder in checkpoints]
    if not around:
        return folders_around(file)
    run = folder_of_run(file) if file.parent == around[-1] else None
    return None if run is None else run.parts

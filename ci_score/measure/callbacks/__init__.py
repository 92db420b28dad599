"""Callbacks that time the steps of a trainer, for those who want a line of code.

    from ci_score.measure.callbacks import trainer_callback

    trainer = Trainer(..., callbacks=[trainer_callback(tokens_per_step=8192, warmup_steps=10)])

A step goes from the end of one optimizer step to the end of the next. So the data loader and every
batch of an accumulation are in it; evaluations and checkpoints are left out. The options are those
of `Recorder`. The first training of a process is measured. A framework is imported only by the
function that makes its callback.
"""

from __future__ import annotations

from typing import Any

from ci_score.measure.recorder import Recorder


def trainer_callback(**options: Any) -> Any:
    """A callback for the Trainer of transformers, and for trainers that are made from it."""
    from ci_score.measure.callbacks.trainer import TrainerSteps

    return TrainerSteps(Recorder(**options))


def lightning_callback(**options: Any) -> Any:
    """A callback for Lightning's Trainer."""
    from ci_score.measure.callbacks.lightning import LightningSteps

    return LightningSteps(Recorder(**options))


class RecordedSteps:
    """What the callbacks share: the recorder of the first training of the process."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder: Recorder | None = recorder
        self._writes = True
        self._last_loss: Any = None

    def _begin(self, *, writes: bool) -> None:
        self._writes = writes
        self._restart()

    def _restart(self) -> None:
        if self._recorder is not None:
            self._recorder.start()

    def _step_ended(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            self._recorder.start()

    def _pause(self) -> None:
        if self._recorder is not None:
            self._recorder.pause()

    def _resume(self) -> None:
        if self._recorder is not None:
            self._recorder.resume()

    def _finish(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None or not self._writes:
            return
        if self._last_loss is not None:
            recorder.loss(float(self._last_loss))
        recorder.write()

"""The callback for Lightning's Trainer; importing it imports Lightning."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ci_score.measure.callbacks import RecordedSteps

# The same Lightning, under the names of its two packages; their classes are not the same.
PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _lightning() -> Any:
    """The package that the script itself uses."""
    for name in PACKAGES:
        if name in sys.modules:
            return sys.modules[name]
    try:
        return import_module(PACKAGES[0])
    except ModuleNotFoundError:
        return import_module(PACKAGES[1])


class LightningSteps(RecordedSteps, _lightning().Callback):  # type: ignore[misc]  # known on use
    """Times optimizer steps, however many batches each has; the loss is the last batch's."""

    _steps_before = 0

    def on_train_start(self, trainer: Any, _module: Any) -> None:
        """The first step begins with the first batch."""
        self._steps_before = trainer.global_step
        self._begin(writes=trainer.is_global_zero)

    def on_train_batch_start(self, *_given: Any) -> None:
        """A checkpoint is written."""
        self._resume()

    def on_train_batch_end(self, trainer: Any, _module: Any, outputs: Any, *_batch: Any) -> None:
        """An optimizer step, if this batch was the last one that it needed."""
        self._last_loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if trainer.global_step != self._steps_before:
            self._steps_before = trainer.global_step
            self._step_ended()

    def on_validation_start(self, *_given: Any) -> None:
        """It can come in the middle of an accumulation."""
        self._pause()

    def on_validation_end(self, *_given: Any) -> None:
        """The step goes on, with the next batch."""
        self._resume()

    def on_save_checkpoint(self, *_given: Any) -> None:
        """Before the file is written; only the next batch tells that it is, when it is loaded."""
        self._pause()

    def on_train_end(self, *_given: Any) -> None:
        """Writes the line."""
        self._finish()

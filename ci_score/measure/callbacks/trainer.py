"""The callback for the Trainer of transformers; importing it imports transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ci_score.measure.callbacks import RecordedSteps


class TrainerSteps(RecordedSteps, TrainerCallback):  # type: ignore[misc]  # it is not installed
    """Times optimizer steps; the loss is the one that the trainer logged last."""

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_more: Any) -> None:
        """The first step begins with the first batch."""
        self._begin(writes=state.is_world_process_zero)

    def on_step_end(self, _args: Any, _state: Any, _control: Any, **_more: Any) -> None:
        """An optimizer step, however many batches it took."""
        self._step_ended()

    def on_evaluate(self, _args: Any, _state: Any, _control: Any, **_more: Any) -> None:
        """It came between two steps, and is over."""
        self._restart()

    def on_save(self, _args: Any, _state: Any, _control: Any, **_more: Any) -> None:
        """It came between two steps, and is over."""
        self._restart()

    def on_log(
        self, _args: Any, _state: Any, _control: Any, logs: Any = None, **_more: Any
    ) -> None:
        """The mean loss since the log before."""
        self._last_loss = (logs or {}).get("loss", self._last_loss)

    def on_train_end(self, _args: Any, _state: Any, _control: Any, **_more: Any) -> None:
        """Writes the line."""
        self._finish()

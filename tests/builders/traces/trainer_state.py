"""A trainer_state.json."""

from __future__ import annotations

from typing import Any

END = {"step": 50, "train_loss": 1.2, "train_runtime": 100.0, "total_flos": 1e15}
STATE: dict[str, Any] = {
    "epoch": 1.0,
    "global_step": 50,
    "is_world_process_zero": True,
    "log_history": [{"step": 10, "loss": 2.5}, END],
    "max_steps": 50,
    "num_input_tokens_seen": 400_000,
    "total_flos": 1e15,
}

"""A trainer_state.json, as a Hugging Face Trainer writes it."""

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


def trained(
    step_s: float = 2.0,
    *,
    tokens: int = 8000,
    resumed_at: int = 0,
    earlier_step_s: float = 2.0,
    rates_of_all: bool = False,
    ended: bool = True,
) -> dict[str, Any]:
    """The state of 60 steps of transformers 5, logged every 10.

    Where tokens are counted, every entry has the seconds since `train()` was called: for a run that
    was resumed, since then. `rates_of_all` is how 4.57 and 5.0 count: the rates are those of all
    steps, and the loss since the resume is divided by all of them.
    """
    own_from = 0 if rates_of_all else resumed_at
    history: list[dict[str, Any]] = []
    for step in range(10, 61, 10):
        begin, each_s = (resumed_at, step_s) if step > resumed_at else (0, earlier_step_s)
        seconds = (step - begin) * each_s
        counted = step if step <= resumed_at else step - own_from
        history.append({"step": step, "loss": 2.0, "learning_rate": 1e-4})
        if tokens:
            rate = round(counted * tokens / seconds, 3)
            seen = {"num_input_tokens_seen": step * tokens, "train_tokens_per_second": rate}
            history[-1] |= {**seen, "train_runtime": round(seconds, 4)}
    if ended:
        own, seconds = 60 - resumed_at, (60 - resumed_at) * step_s
        end = {"step": 60, "train_runtime": round(seconds, 4), "total_flos": 1e15}
        rate = round((60 - own_from) / seconds, 3)
        history.append({**end, "train_loss": 2.0 * own / (60 - own_from)})
        history[-1]["train_steps_per_second"] = rate
    return {
        **STATE,
        "global_step": 60,
        "max_steps": 60,
        "num_input_tokens_seen": 60 * tokens,
        "log_history": history,
    }

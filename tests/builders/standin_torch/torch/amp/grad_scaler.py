"""Scales the loss, and skips steps whose gradients were not finite."""

import torch


class GradScaler:
    """`skips` names the steps (from 0) that are skipped, as if their gradients were infinite."""

    def __init__(self, device="cuda", init_scale=65536.0, enabled=True, skips=()):
        self._enabled = enabled
        self._scale = torch.Tensor(init_scale)
        self._skips = set(skips)
        self._done = 0
        self._backoff_factor = 0.5
        self._skipped = False

    def is_enabled(self):
        return self._enabled

    def scale(self, loss):
        return loss * self._scale if self._enabled else loss

    def step(self, optimizer, *args, **kwargs):
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        self._skipped = self._done in self._skips
        self._done += 1
        if self._skipped and not getattr(optimizer, "_step_supports_amp_scaling", False):
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        if self._skipped:
            self._scale = torch.Tensor(self._scale.value * self._backoff_factor)

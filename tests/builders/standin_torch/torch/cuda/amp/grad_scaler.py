"""Where the scaler was before torch 2.3."""

from torch.amp.grad_scaler import GradScaler as _GradScaler


class GradScaler(_GradScaler):
    """The same under its old name."""

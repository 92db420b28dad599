"""Some optimizers; they differ in their names alone, but for LBFGS."""

from torch.optim.optimizer import Optimizer


class SGD(Optimizer):
    """Does nothing to the numbers."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        return closure() if closure is not None else None


class Adam(SGD):
    """Another name."""

    def step(self, closure=None):
        return closure() if closure is not None else None


class AdamW(SGD):
    """Another name."""

    def step(self, closure=None):
        return closure() if closure is not None else None


class FusedAdam(SGD):
    """Handles the scale of a GradScaler itself, so its step is called for skipped ones, too."""

    _step_supports_amp_scaling = True

    def step(self, closure=None):
        return closure() if closure is not None else None


class LBFGS(SGD):
    """Calls its closure several times a step."""

    def step(self, closure=None):
        loss = None
        for _ in range(4):
            loss = closure()
        return loss

"""What is done to gradients and weights."""

import torch


def groups_of(model):
    kept = list(model.parameters())
    return [{"params": kept, "weight_decay": 0.1}]


def clipped(parameters, most):
    gradients = [one.grad for one in parameters if one.grad is not None]
    norm = torch.stack([one.norm() for one in gradients]).norm()
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    for one in gradients:
        one.mul_(scale)


def decayed(optimizer, step):
    rate = torch.tensor(1e-3) * 0.99**step
    for group in optimizer.param_groups:
        group["lr"] = rate.item()


class Average:
    """Of all weights so far."""

    def __init__(self, model):
        self.kept = [one.detach().clone() for one in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        now = [one.detach() for one in model.parameters()]
        torch._foreach_lerp_(self.kept, now, 0.01)

"""Steps along random directions, by the loss alone; gradients are the script's own, or none."""

import sys

import torch
from tiny import batch, loss_of, model, own

net = model()
x = batch()


def directions(seed):
    torch.manual_seed(seed)
    return [torch.randn_like(parameter) for parameter in net.parameters()]


@torch.no_grad()
def slope(seed, by=1e-3):
    losses = []
    for sign in (1, -2, 1):
        for parameter, direction in zip(net.parameters(), directions(seed), strict=True):
            parameter.add_(direction, alpha=sign * by)
        losses.append(loss_of(net, x))
    return losses[0], float(losses[0] - losses[1]) / (2 * by)


class WithoutGradients(torch.optim.SGD):
    def step(self, closure=None):
        loss, by = slope(0)
        with torch.no_grad():
            for parameter, direction in zip(net.parameters(), directions(0), strict=True):
                parameter.add_(direction, alpha=-1e-3 * by)
        return loss


kind = WithoutGradients if "without" in sys.argv else torch.optim.SGD
opt = kind(net.parameters(), lr=1e-3)
# A head was trained before, say.
loss = loss_of(net, x)
loss.backward()
opt.step()
opt.zero_grad()
own(loss)
for seed in range(41):
    if "without" in sys.argv:
        opt.step()
    else:
        loss, by = slope(seed)
        for parameter, direction in zip(net.parameters(), directions(seed), strict=True):
            parameter.grad = by * direction
        opt.step()
        opt.zero_grad()
    # The first one cannot be told from a second call for the backward pass.
    if seed:
        own()

"""Wrappers around an optimizer: the inner one is an optimizer itself, the outer one is not."""

import torch
from tiny import loss_of, model, own


class Averaged(torch.optim.Optimizer):
    def __init__(self, base):
        self.base, self.param_groups, self.averages = base, base.param_groups, {}

    @torch.no_grad()
    def step(self, closure=None):
        self.base.step()
        for group in self.param_groups:
            for parameter in group["params"]:
                average = self.averages.setdefault(parameter, parameter.clone())
                average.lerp_(parameter, 0.1)


class Lookahead:
    def __init__(self, base):
        self.base, self.steps = base, 0

    def step(self):
        self.base.step()
        self.steps += 1


net = model()
opt = Lookahead(Averaged(torch.optim.AdamW(net.parameters(), foreach=False)))
for _ in range(40):
    loss = loss_of(net)
    loss.backward()
    opt.step()
    net.zero_grad()
    own(loss)

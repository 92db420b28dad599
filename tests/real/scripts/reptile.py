"""Each step of the outer optimizer has an inner one of its own, for a copy of the model."""

import copy

import torch
from tiny import loss_of, model, own

net = model()
outer = torch.optim.Adam(net.parameters())
for _ in range(40):
    copied = copy.deepcopy(net)
    inner = torch.optim.SGD(copied.parameters(), lr=0.1)
    for _ in range(5):
        loss_of(copied).backward()
        inner.step()
        inner.zero_grad()
    for parameter, learnt in zip(net.parameters(), copied.parameters(), strict=True):
        parameter.grad = parameter.detach() - learnt.detach()
    outer.step()
    own()

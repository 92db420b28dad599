"""Two passes over one batch for a step: the second one at the worst place nearby."""

import torch
from tiny import own

net = torch.nn.Sequential(torch.nn.Embedding(500, 32), torch.nn.Linear(32, 500))
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def loss_of(words):
    return torch.nn.functional.cross_entropy(net(words).flatten(0, 1), words.flatten())


for _ in range(40):
    words = torch.randint(500, (4, 16))
    loss_of(words).backward()
    with torch.no_grad():
        there = [0.05 * parameter.grad for parameter in net.parameters()]
        torch._foreach_add_(list(net.parameters()), there)
    opt.zero_grad()
    loss = loss_of(words)
    loss.backward()
    with torch.no_grad():
        torch._foreach_sub_(list(net.parameters()), there)
    opt.step()
    opt.zero_grad()
    own(loss)

"""Every line works on tensors whose size stands in it: the trace tells which line an operator is of.

A number of four digits stands in the line of the call that makes the work, forward and backward.
"""

import functools

import outside
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
LINES = range(10**3, 10**3 + 60)
P = {n: nn.Parameter(torch.rand(n) + 0.5) for n in LINES}
Q = {n: nn.Parameter(torch.rand(n, 1) + 0.5) for n in LINES}
BUFFERS = {n: torch.rand(n) for n in LINES}
MASKS = {n: torch.rand(n) > 0.5 for n in LINES}


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


def plain():
    yield (P[1001] * 2 + P[1001] / 3).sum()
    yield P[1002].sin().mul(3).add(1).sum()
    yield P[1003].clone().add_(1).mul_(2).sum()
    BUFFERS[1004][MASKS[1004]] = 0.5
    yield functional.gelu(P[1005]).sum()
    yield functional.dropout(P[1006], 0.5).sum()
    with torch.no_grad():
        P[1007].sin()
    function = lambda: P[1008].cos().sum()
    yield function()
    yield sum([P[n].exp().sum() for n in (1009,)])
    yield from (P[n].exp().sum() for n in (1010,))
    yield decorated()
    P[1011].detach().max().item()
    P[1012].detach().to(torch.float64).cpu()
    yield torch.ops.aten.sin(P[1013]).sum()
    yield torch.dot(  # 1014
        P[10**3 + 14],
        BUFFERS[1015].sum().expand(10**3 + 14),
    )
    yield Q[1016].T.sum()
    yield torch.stack([P[1017], P[1017]]).softmax(0)[0].sum()
    yield torch.einsum("i,i->", P[1018], P[1018])
    yield functional.layer_norm(P[1019], (10**3 + 19,)).std()
    yield torch.cat([P[1020].view(-1, 1), P[1020][:, None]], 1).norm()


@wrapped
def decorated():
    return P[1021].tanh().sum()


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * BUFFERS[1022].sin().sum()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * BUFFERS[1023].cos().sum()


def again(x):
    y = x * P[1024].sigmoid().sum()
    return y + P[1025].log1p().square().sum()


def once_more(x):
    return x * P[1026].sigmoid().mul(2).sum()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 1027)
        self.outside = outside.Layer(10**3 + 28)

    def forward(self, x):
        y = self.inner(x).relu().sum()  # 1027
        return y + self.outside(1028)


def step(layer, weight, optimizer):
    loss = Own.apply(weight.sum())
    for value in plain():
        loss = loss + value
    loss = loss + outside.Lent.apply(P[1029]).sum()
    loss = loss + checkpoint(again, weight.sum(), use_reentrant=False)
    loss = loss + checkpoint(once_more, weight.sum(), use_reentrant=True)
    loss = loss + layer(weight[:1, :3])
    weight.shape, weight.device, weight.grad, weight.size(), weight.is_leaf, weight.dim()
    loss.backward()
    optimizer.step()
    return loss


def main():
    weight = nn.Parameter(torch.rand(7, 3))
    layer = Layer()
    optimizer = torch.optim.AdamW([weight], foreach=True)
    other = torch.optim.Adam([nn.Parameter(torch.rand(2, 2))], fused=True)
    for number in range(40):
        for parameter in (*P.values(), *Q.values(), *layer.parameters(), weight):
            parameter.grad = None
        other.param_groups[0]["params"][0].grad = torch.ones(2, 2)
        other.step()
        loss = step(layer, weight, optimizer)
        print("own", number, 0.0, loss.item(), flush=True)


main()

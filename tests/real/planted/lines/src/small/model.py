"""The model."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from small.attention import Attention
from small.sizes import LAYERS, TOKENS, VOCABULARY, WIDTH
from small.wrapped import Rounded


class Norm(nn.Module):
    """By the root of the mean square."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        mean = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + 1e-6) * self.weight


class Wide(nn.Module):
    """Two products with a gate."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2 * WIDTH)
        self.wide = nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)

    def gated(self, x):
        open_by = F.silu(self.gate(x))
        if torch.is_grad_enabled():
            open_by = open_by * 0.5
        return open_by * self.wide(x)

    def forward(self, x):
        return self.narrow(self.gated(x))


class Block(nn.Module):
    """Attention and products, each behind a norm."""

    def __init__(self):
        super().__init__()
        self.before, self.after = Norm(), Norm()
        self.attention, self.wide = Attention(), Wide()

    def products(self, x):
        normed = self.after(x)
        return self.wide(normed)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + checkpoint(self.products, x, use_reentrant=False)


class Embedding(nn.Module):
    """Tokens and their places."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(TOKENS, WIDTH)

    def forward(self, ids):
        places = self.places(torch.arange(ids.size(1)))
        return self.tokens(ids) + places


class Model(nn.Module):
    """All of it."""

    def __init__(self):
        super().__init__()
        self.embedding = Embedding()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, VOCABULARY)

    def body(self, x):
        for block in self.blocks:
            x = block(x)
        return Rounded.apply(x)

    def forward(self, ids):
        x = self.body(self.embedding(ids))
        return self.head(self.norm(x))

"""Attention with rotated places."""

import torch
import torch.nn.functional as F
from torch import nn

from small.sizes import HEADS, WIDTH
from small.wrapped import scaled


def rotated(x):
    half = x.size(-1) // 2
    angles = torch.arange(x.size(-2)).unsqueeze(1) / 10.0
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * angles.cos() - right, right * angles.sin() + left], -1)


class Attention(nn.Module):
    """Causal."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, x):
        batch, tokens, _ = x.shape
        parts = self.into(x).view(batch, tokens, 3, HEADS, -1)
        return parts.permute(2, 0, 3, 1, 4).unbind(0)

    def mixed(self, query, key, value):
        return F.scaled_dot_product_attention(
            rotated(query),
            rotated(key),
            value,
            is_causal=True,
        )

    @scaled(0.5)
    def forward(self, x):
        query, key, value = self.split(x)
        together = self.mixed(query, key, value)
        return self.out(together.transpose(1, 2).reshape(x.shape))

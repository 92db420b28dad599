"""What stands around other functions."""

import functools

import torch


def scaled(factor):
    def around(inner):
        @functools.wraps(inner)
        def called(self, x):
            before = x * factor
            return inner(self, before) / factor

        return called

    return around


class Rounded(torch.autograd.Function):
    """Rounds, and lets gradients through."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.round(x * 64) / 64

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        inside = x.abs() < 8
        return gradient * inside

"""Made-up batches."""

import torch

from small.sizes import BATCH, TOKENS, VOCABULARY


def counted(number):
    start = torch.arange(BATCH).unsqueeze(1) + number
    return (start + torch.arange(TOKENS + 1)) % VOCABULARY


def noised(ids):
    places = torch.rand(ids.shape) < 0.05
    ids[places] = 0
    return ids


class Batches:
    """Each counts on by its own step."""

    def __init__(self, steps):
        self.steps = steps

    def __iter__(self):
        for number in range(self.steps):
            ids = counted(number)
            yield self.pair(ids)

    def pair(self, ids):
        given = noised(ids[:, :-1].clone())
        return given, ids[:, 1:]

"""A small transformer of several files, trained on a CPU: what a user has."""

import torch
from small.data import Batches
from small.losses import Loss
from small.model import Model
from small.updates import Average, clipped, decayed, groups_of

STEPS = 200


def accuracy(logits, wanted):
    with torch.no_grad():
        best = logits.argmax(-1)
        return (best == wanted).float().mean()


def train():
    torch.manual_seed(0)
    model, loss_of = Model(), Loss()
    optimizer = torch.optim.AdamW(groups_of(model), lr=1e-3)
    average = Average(model)
    for step, (ids, wanted) in enumerate(Batches(STEPS)):
        optimizer.zero_grad()
        logits = model(ids)
        loss = loss_of(logits, wanted)
        loss.backward()
        clipped(model.parameters(), 1.0)
        decayed(optimizer, step)
        optimizer.step()
        average.update(model)
        right = accuracy(logits, wanted)
    print(f"loss {loss.item():.3f}, right {right.item():.3f}")


if __name__ == "__main__":
    train()

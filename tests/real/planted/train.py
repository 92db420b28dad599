"""A small transformer trained on a CPU, with a slowdown planted in it: `python train.py PLANT`.

Without an argument the plant is what the file `plant` beside this one says; without that there is
none. The script knows nothing of ci-score: it is what a user has.
"""

import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTH, HEADS, LAYERS, VOCABULARY, TOKENS, BATCH = 64, 4, 3, 512, 192, 4
STEPS = 200
PLANTS = (
    "nothing", "attention", "float64", "clone", "item", "loader", "python", "renamed", "detached",
    "undetached",
)  # fmt: skip


class Attention(nn.Module):
    """Causal attention, by torch's own operator or written out."""

    def __init__(self, plant):
        super().__init__()
        self.plant = plant
        self.project_in = nn.Linear(WIDTH, 3 * WIDTH)
        self.project_out = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril())

    def forward(self, x):
        batch, tokens, _ = x.shape
        parts = self.project_in(x).view(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        if self.plant == "attention":
            scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
            weights = F.softmax(scores.masked_fill(~self.mask, -math.inf), dim=-1)
            mixed = weights @ value
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))


class Block(nn.Module):
    """Attention and two products, each behind a norm."""

    def __init__(self, plant):
        super().__init__()
        self.plant = plant
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(plant)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        if self.plant == "clone":
            x = x.clone()
        x = x + self.attention(self.before(x))
        if self.plant == "float64":
            wide, narrow = self.wide.double(), self.narrow.double()
            return x + narrow(F.gelu(wide(self.after(x).double()))).float()
        return x + self.narrow(F.gelu(self.wide(self.after(x))))


class Layer(nn.Module):
    """The same as a Block, by other names."""

    def __init__(self, _plant):
        super().__init__()
        self.norm_one, self.norm_two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixer = Attention("nothing")
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden):
        hidden = hidden + self.mixer(self.norm_one(hidden))
        return hidden + self.down(F.gelu(self.up(self.norm_two(hidden))))


class Model(nn.Module):
    """Embeddings, some blocks, and a head."""

    def __init__(self, plant):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        make = Layer if plant == "renamed" else Block
        self.blocks = nn.ModuleList(make(plant) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Text(Dataset):
    """Made up; every sentence counts on by its own step."""

    def __init__(self, plant):
        self.plant = plant

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, number):
        if self.plant == "loader":
            time.sleep(0.003)
        ids = (torch.arange(TOKENS + 1) * (number % 7 + 1)) % VOCABULARY
        return ids[:-1], ids[1:]


def describe(ids):
    """Slow Python: counts words one by one."""
    counts = {}
    for number in ids.flatten().tolist() * 300:
        counts[number] = counts.get(number, 0) + 1
    return max(counts)


def main(plant):
    torch.manual_seed(0)
    model = Model(plant)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for ids, wanted in DataLoader(Text(plant), batch_size=BATCH):
        if plant == "python":
            describe(ids)
        optimizer.zero_grad()
        losses = F.cross_entropy(model(ids).flatten(0, 1), wanted.flatten(), reduction="none")
        loss = losses.mean()
        if plant in ("detached", "undetached"):
            target = model(ids)
            target = target.detach() if plant == "detached" else target
            loss = loss + F.mse_loss(target, torch.zeros_like(target))
        if plant == "item":
            worst = max(one.item() for one in losses)
            assert math.isfinite(worst)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    beside = Path(__file__).with_name("plant")
    planted = beside.read_text().strip() if beside.exists() else "nothing"
    planted = sys.argv[1] if len(sys.argv) > 1 else planted
    if planted not in PLANTS:
        sys.exit(f"{planted}: expected one of {', '.join(PLANTS)}")
    main(planted)

"""Traces of the real torch with Python stacks of their own: which function grew, and no line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ci_score.model.step_code import StepCode
from ci_score.traces import ProfileSource, read_profile

FRAMEWORKS = os.environ.get("CI_SCORE_FRAMEWORKS", "")
pytestmark = pytest.mark.skipif(
    not FRAMEWORKS, reason="CI_SCORE_FRAMEWORKS names no Python with the real torch"
)

BLOCKS = """
import torch
from torch.utils.checkpoint import checkpoint

SLOW = ""

def again(name, x, operator):
    out = operator(x)
    for _ in range(5 if SLOW == name else 0):
        out = out + 0.01 * operator(x)
    return out

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        out = x ** 3
        for _ in range(5 if SLOW == "Cube.forward" else 0):
            out = out + 0.01 * x ** 3
        return out
    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        out = 3 * x ** 2 * gradient
        for _ in range(5 if SLOW == "Cube.backward" else 0):
            out = out + 0.01 * x ** 2
        return out

def gate(x):
    out = torch.sigmoid(x)
    for _ in range(5 if SLOW == "gate" else 0):
        out = out + 0.01 * torch.sigmoid(x)
    return out

class Mixer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(192, 192) / 16)
    def mix(self, x):
        out = x @ self.weight
        for _ in range(5 if SLOW == "mix" else 0):
            out = out + 0.01 * (x @ self.weight)
        return out
    def forward(self, x):
        out = self.mix(x).relu()
        for _ in range(5 if SLOW == "Mixer.forward" else 0):
            out = out + 0.01 * x.relu()
        return Cube.apply(out * 0.1) + gate(x)

class Recomputed(torch.nn.Module):
    def inner(self, x):
        out = torch.tanh(x)
        for _ in range(5 if SLOW == "inner" else 0):
            out = out + 0.01 * torch.tanh(x)
        return out
    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)
"""
TRAIN = """
import os, sys
import torch
sys.path.insert(0, "lib")
import blocks

def loss_of(out):
    found = (out ** 2).mean()
    for _ in range(20 if blocks.SLOW == "loss_of" else 0):
        found = found + 0.01 * (out ** 2).mean()
    return found

def clip(model):
    for one in model.parameters():
        for _ in range(40 if blocks.SLOW == "clip" else 1):
            one.grad.clamp_(-1, 1)

def data():
    x = torch.randn(256, 192)
    for _ in range(5 if blocks.SLOW == "data" else 0):
        x = x + 0.01 * torch.randn(256, 192)
    return x

def train(model, optimizer, place):
    from torch.profiler import profile, record_function
    with profile(with_stack=True, record_shapes=True) as found:
        for step in range(3):
            with record_function(f"ProfilerStep#{step}"):
                optimizer.zero_grad()
                loss_of(model(data())).backward()
                clip(model)
                optimizer.step()
    found.export_chrome_trace(place)

torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(*[blocks.Mixer() for _ in range(3)], blocks.Recomputed())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
train(model, optimizer, "warm.json")
for name in ["", *sys.argv[1:]]:
    blocks.SLOW = name
    train(model, optimizer, f"{name or 'base'}.json")
"""
# Which function is made slower, and the name and the file by which a trace knows it.
PLANTS = {
    "Cube.forward": ("forward", "lib/blocks.py"),
    "Cube.backward": ("backward", "lib/blocks.py"),
    "gate": ("gate", "lib/blocks.py"),
    "mix": ("mix", "lib/blocks.py"),
    "Mixer.forward": ("forward", "lib/blocks.py"),
    "inner": ("inner", "lib/blocks.py"),
    "loss_of": ("loss_of", "train.py"),
    "clip": ("clip", "train.py"),
    "data": ("data", "train.py"),
}


def code_of(trace: Path) -> StepCode:
    """What the functions of a trace take."""
    code = read_profile(ProfileSource(trace.name, path=trace)).code
    assert code is not None
    return code


def launches_of(code: StepCode) -> dict[tuple[str, str, int], float]:
    """How much each function launches; counts are the same in every run."""
    found: dict[tuple[str, str, int], float] = {}
    for one in code.lines:
        function = code.definitions[one.definition]
        key = function.name, function.file or "", function.first or 0
        found[key] = found.get(key, 0.0) + one.work.launches
    return found


def test_stacks__the_function_that_grew(tmp_path: Path) -> None:
    """Each planted function is the one that launches more, by name, file and first line."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "blocks.py").write_text(BLOCKS)
    (tmp_path / "train.py").write_text(TRAIN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [FRAMEWORKS, "train.py", *PLANTS]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=300)
    base = launches_of(code_of(tmp_path / "base.json"))
    wrong = {}
    for plant, (name, file) in PLANTS.items():
        code = code_of(tmp_path / f"{plant}.json")
        head = launches_of(code)
        grown = max(head, key=lambda one: head[one] - base.get(one, 0.0))
        firsts = first_lines(tmp_path / file, plant, name)
        if grown[0] != name or Path(grown[1]).name != Path(file).name or grown[2] not in firsts:
            wrong[plant] = grown
        assert all(one.line is None for one in code.lines)
        assert not code.knows_lines
    assert not wrong


def first_lines(file: Path, plant: str, name: str) -> tuple[int, int]:
    """The line of the function's `def`, and that of a decorator before it."""
    lines = file.read_text().splitlines()
    owner = plant.partition(".")[0] if "." in plant else ""
    starts = (at for at, one in enumerate(lines) if one.startswith(f"class {owner}"))
    begin = next(starts) if owner else 0
    place = next(at for at in range(begin, len(lines)) if f"def {name}(" in lines[at])
    return place + 1, place

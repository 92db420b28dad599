"""What `make bench-marks` prints: what the marks of a marked launch change, and how exact they are.

Each script runs once profiled and once with marks, with the real torch of `CI_SCORE_FRAMEWORKS`.
Graphs, breaks, results and operators must be the same. In `lines.py` the size of every tensor says
which line its operators are of: the share at their line is counted by a reader of its own.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from statistics import fmean

from tests.builders.hooked import Asked, Hooked, launch
from tests.builders.marked import Marked, operators_of, read_marks

PROGRAM = Path(__file__).parents[1] / "tests" / "real" / "marked" / "program"
LIBRARY = PROGRAM.parent / "library"
SCRIPTS = ("compiled.py", "modes.py", "modes.py default_device", "lines.py", "launches.py")
STEPS, WARM_UP = 3, 3
# One line of small operators, and a model whose step takes some 20 ms.
MANY = """
import torch
x, weight = torch.ones(4), torch.nn.Parameter(torch.ones(4))
opt = torch.optim.SGD([weight])
while True:
    weight.sum().backward()
    for _ in range(5000):
        x.add(1)
    opt.step()
"""
MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
layers = [nn.TransformerEncoderLayer(128, 4, 256, batch_first=True) for _ in range(4)]
model = nn.Sequential(*layers)
opt = torch.optim.AdamW(model.parameters(), foreach=True)
while True:
    opt.zero_grad()
    model(torch.rand(4, 64, 128)).pow(2).mean().backward()
    opt.step()
"""


def run(python: str, words: str, mode: str, folder: Path, tree: Path = PROGRAM) -> Hooked:
    """A launch of a script."""
    asked = Asked(mode, WARM_UP, WARM_UP, tree=tree)
    command = [python, *words.split(" ")]
    return launch(command, folder / mode, asked, cwd=tree, imports=[LIBRARY], timeout=600)


def cases(done: Hooked) -> list[str]:
    """What a script says of its graphs, breaks, modes and results."""
    return [line for line in done.text.splitlines() if line.startswith(("case", "own", "seen"))]


def operators(done: Hooked) -> Counter[str]:
    """How often a trace has each operator."""
    return Counter(one.name for one in operators_of(done.folder / "trace.json"))


def print_changes(python: str, words: str, folder: Path) -> None:
    """What differs with marks: nothing should."""
    plain, marked = (run(python, words, mode, folder) for mode in ("profiled", "marked"))
    said = list(zip(cases(plain), cases(marked), strict=False))
    other = sum(one != two for one, two in said) + abs(len(cases(plain)) - len(cases(marked)))
    before, after = operators(plain), operators(marked)
    differ = ((before - after) + (after - before)).total()
    graphs = sum(int(count) for count in re.findall(r"'unique_graphs', (\d+)", marked.text))
    breaks = marked.text.count("Developer debug context")
    print(
        f"{words}: {other} of {len(said)} results, graphs and breaks differ "
        f"({graphs} graphs, {breaks} breaks); {differ} of {before.total()} operators differ"
    )


def true_lines() -> dict[int, int]:
    """The line of `lines.py` that each size belongs to."""
    text = (PROGRAM / "lines.py").read_text(encoding="utf-8").splitlines()
    return {
        int(size): number
        for number, line in enumerate(text, 1)
        for size in re.findall(r"\b1\d{3}\b", line)
    }


def print_exactness(marks: Marked) -> None:
    """How many operators are at their line."""
    truth = true_lines()
    for in_backward in (False, True):
        found: Counter[bool] = Counter()
        for one in marks.operators:
            known = {truth[size] for size in one.sizes if size in truth}
            if known and one.in_backward == in_backward:
                line = marks.line_of(one)
                found[line is not None and line[1] in known] += 1
        where = "backward" if in_backward else "forward, and recomputed"
        print(f"at their line, {where}: {found[True]} of {found.total()}")


def step_ms(done: Hooked) -> float:
    """A step of those that the profiler saw, but for the first: it starts there."""
    if done.said.recorded is None:
        raise SystemExit(f"the launch measured nothing: {done.text}")
    return fmean(done.said.recorded.first.step_ms[-STEPS + 1 :])


def print_time(python: str, name: str, text: str, folder: Path) -> None:
    """What a mark takes, and what all of them make of a step."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    (tree / "train.py").write_text(text, encoding="utf-8")
    plain, marked = (run(python, "train.py", mode, folder, tree) for mode in ("profiled", "marked"))
    marks = len(read_marks(marked.folder).marks) / STEPS
    before, after = step_ms(plain), step_ms(marked)
    print(
        f"{name}: {before:.1f} ms a step under the profiler, {after:.1f} with {marks:.0f} marks: "
        f"{(after - before) / marks * 1000:.1f} µs each, {after / before:.2f}×"
    )


def main() -> None:
    """Prints all of it."""
    python = os.environ.get("CI_SCORE_FRAMEWORKS")
    if not python:
        print("not measured: the real torch (CI_SCORE_FRAMEWORKS names no Python with it)")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, words in enumerate(SCRIPTS):
            print_changes(python, words, folder / str(number))
        of_lines = folder / str(SCRIPTS.index("lines.py")) / "marked" / "records"
        print_exactness(read_marks(of_lines))
        print_time(python, "one line of small operators", MANY, folder / "many")
        print_time(python, "a small model", MODEL, folder / "model")


if __name__ == "__main__":
    main()

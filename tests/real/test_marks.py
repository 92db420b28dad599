"""Marks with the real torch: each torch call stands inside its line, and the script stays as it is.

The scripts are a program beside a library. In `lines.py` the size of every tensor says which line
its operators are of, forward and backward, so the trace itself is the second count.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders.hooked import Asked, Hooked, launch
from tests.builders.marked import Marked, operators_of, read_marks

PYTHON = Path(os.environ.get("CI_SCORE_FRAMEWORKS", ""))
SCRIPTS = Path(__file__).parent / "scripts"
HERE = Path(__file__).parent / "marked"
PROGRAM, LIBRARY = HERE / "program", HERE / "library"
STEPS = 3  # with marks
STEPS_BEFORE = 2
pytestmark = pytest.mark.skipif(
    not os.environ.get("CI_SCORE_FRAMEWORKS"),
    reason="CI_SCORE_FRAMEWORKS names no Python with torch (.ci/frameworks makes one)",
)


def run(words: str, mode: str, folder: Path) -> Hooked:
    """A launch of a script of the program."""
    asked = Asked(mode, STEPS_BEFORE, STEPS_BEFORE, tree=PROGRAM)
    done = launch([PYTHON, *words.split(" ")], folder, asked, cwd=PROGRAM, imports=[LIBRARY])
    assert done.said.recorded, (done.said.problem, done.text)
    return done


def line_of(words: str, file: Path) -> int:
    """The number of the only line that has some words."""
    lines = file.read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if words in line)
    return number


def name(words: str) -> str:
    return words.replace(" ", "-")


# --- the line -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Marked:
    """The marks of the script whose sizes tell its lines."""
    return read_marks(run("lines.py", "marked", tmp_path_factory.mktemp("lines")).folder)


def true_lines() -> dict[int, int]:
    """The line that each size belongs to."""
    text = (PROGRAM / "lines.py").read_text(encoding="utf-8").splitlines()
    return {
        int(size): number
        for number, line in enumerate(text, 1)
        for size in re.findall(r"\b1\d{3}\b", line)
    }


@pytest.mark.once
@pytest.mark.parametrize("in_backward", [False, True], ids=["forward", "backward"])
def test_marks__every_operator_is_at_its_line(in_backward: bool, lines: Marked) -> None:
    """Operators, methods, masks, lambdas, decorators, checkpoints, custom functions."""
    truth = true_lines()
    found: Counter[bool] = Counter()
    wrong = []
    for one in lines.operators:
        known = {("lines.py", truth[size]) for size in one.sizes if size in truth}
        if known and one.in_backward == in_backward:
            is_right = lines.line_of(one) in known
            found[is_right] += 1
            wrong += [] if is_right else [(one.name, known, lines.line_of(one))]
    assert not wrong
    assert found[True] > 400
    sizes = {size for one in lines.operators if one.in_backward == in_backward
             for size in one.sizes}  # fmt: skip
    assert len(sizes & truth.keys()) > 20


@pytest.mark.once
def test_marks__properties_have_none(lines: Marked) -> None:
    """A shape, a device, a size launch nothing; a transposition does."""
    assert not lines.at(line_of("weight.shape", PROGRAM / "lines.py"))
    assert lines.at(line_of("Q[1016].T", PROGRAM / "lines.py"))


@pytest.mark.once
@pytest.mark.parametrize(
    ("range_", "words"),
    [
        ("Optimizer.step#AdamW.step", "    optimizer.step()"),
        ("Optimizer.step#Adam.step", "other.st"),
    ],
)
def test_marks__an_optimizer_s_work_is_at_its_call(range_: str, words: str, lines: Marked) -> None:
    """Many tensors at once, and fused."""
    found = {lines.line_of(one) for one in lines.operators if range_ in one.ranges}
    assert found == {("lines.py", line_of(words, PROGRAM / "lines.py"))}


@pytest.mark.once
def test_marks__a_row_names_function_caller_and_library(lines: Marked) -> None:
    """The function that the line stands in, whoever called it, and the library's below the line."""
    file = PROGRAM / "lines.py"
    (own,) = lines.at(line_of("P[1021].tanh()", file))
    assert own == {
        "id": own["id"],
        "file": str(file),
        "line": line_of("P[1021].tanh()", file),
        "function": "decorated",
        "first": line_of("P[1021].tanh()", file) - 2,
        "through": None,
        "caller": {
            "file": str(file),
            "line": line_of("return function(*args)", file),
            "function": "wrapped.<locals>.wrapper",
            "first": line_of("@functools.wraps", file),
        },
        "compiled": False,
    }
    through = {row["through"] for row in lines.at(line_of("self.outside(1028)", file))}
    assert through == {None, "outside Layer.forward", "outside Layer.inner"}
    (part,) = {row["caller"]["function"] for row in lines.at(line_of("n in (1009,)", file))}
    assert part == "step"


# --- nothing changes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Both:
    """One script profiled without marks, and with them."""

    plain: Hooked
    marked: Hooked

    @property
    def marks(self) -> Marked:
        """The table and the trace of the launch with marks."""
        return read_marks(self.marked.folder)


RUNS: dict[str, Both] = {}
ONCE = pytest.mark.once
SCRIPTS_OF_BOTH = [
    pytest.param("modes.py", marks=ONCE),
    pytest.param("compiled.py", marks=ONCE),
    "modes.py default_device",
    "lines.py",
    "launches.py",
]


@pytest.fixture
def both(words: str, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Both launches, made once."""
    if words not in RUNS:
        folder = tmp_path_factory.mktemp("both")
        kinds = [run(words, mode, folder / mode) for mode in ("profiled", "marked")]
        RUNS[words] = Both(*kinds)
    return RUNS[words]


def printed(done: Hooked) -> list[str]:
    """What a script says of its graphs, breaks, results and modes; clocks are left out."""
    return [line for line in done.text.splitlines() if line.startswith(("case", "own", "seen"))]


@pytest.mark.parametrize("words", SCRIPTS_OF_BOTH, ids=name)
def test_marks__change_no_graph_no_break_and_no_result(words: str, both: Both) -> None:
    """Compiled code, other modes, threads, forks, fused kernels: all is as without marks."""
    assert printed(both.marked) == printed(both.plain)
    assert len(printed(both.plain)) >= STEPS_BEFORE + STEPS - 1
    assert both.marked.code == both.plain.code == 0


@pytest.mark.parametrize("words", SCRIPTS_OF_BOTH, ids=name)
def test_marks__change_no_operator_and_no_loss(words: str, both: Both) -> None:
    """The traces count the same operators; both launches tell the same losses."""
    marked, plain = (Counter(one.name for one in operators_of(done.folder / "trace.json"))
                     for done in (both.marked, both.plain))  # fmt: skip
    assert marked == plain
    assert plain.total() > 30
    assert both.marked.said.recorded
    assert both.plain.said.recorded
    first, other = both.marked.said.recorded.first, both.plain.said.recorded.first
    assert first.marks_problem is None
    assert (first.first_loss, first.final_loss) == (other.first_loss, other.final_loss)
    assert first.final_loss is not None


# --- compiled code --------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize("words", ["compiled.py"])
def test_marks__compiled_code_has_one_mark_where_it_is_called(words: str, both: Both) -> None:
    """A step of it, for all that runs inside."""
    marks = both.marks
    text = (PROGRAM / "compiled.py").read_text(encoding="utf-8").splitlines()
    told = {number for number, line in enumerate(text, 1) if line.endswith("# compiled")}
    of_torch = {line_of("return torch.cond(", PROGRAM / "compiled.py"),
                line_of("return flex_attention(y", PROGRAM / "compiled.py")}  # fmt: skip
    rows = [row for row in marks.rows.values() if row["compiled"]]
    assert {row["line"] for row in rows} == told | of_torch
    counts = Counter(marks.marks)
    assert all(counts[row["id"]] == STEPS for row in rows)


@pytest.mark.once
@pytest.mark.parametrize("words", ["compiled.py"])
def test_marks__a_compiled_backward_is_at_the_call_of_its_forward(words: str, both: Both) -> None:
    """No mark of the backward's own line stands inside it.

    What a thread of the script's own has run forward has no mark: that goes to `backward()`.
    """
    marks = both.marks
    of_backward = [
        one
        for one in marks.operators
        if any("CompiledFunctionBackward" in part for part in one.ranges)
    ]
    lines = Counter(marks.line_of(one) for one in of_backward)
    text = (PROGRAM / "compiled.py").read_text(encoding="utf-8").splitlines()
    told = {("compiled.py", number) for number, line in enumerate(text, 1)
            if line.endswith("# compiled")}  # fmt: skip
    call = "compiled.py", line_of("loss.backward()", PROGRAM / "compiled.py")
    of_threads = lines.pop(call, 0)
    assert len(lines.keys() & told) > 8
    assert lines.keys() <= told
    assert of_threads <= min(lines.values()) * 3


# --- what is no torch call, and no file -----------------------------------------------------------


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Marked:
    return read_marks(run("launches.py", "marked", tmp_path_factory.mktemp("launches")).folder)


@pytest.mark.parametrize("words", ["# launches a kernel", "# replays a graph"])
def test_marks__a_launch_without_a_torch_call_has_its_line(words: str, launches: Marked) -> None:
    """Triton's kernels and CUDA graphs, by stand-ins for both."""
    (row,) = launches.at(line_of(words, PROGRAM / "launches.py"))
    assert launches.marks.count(row["id"]) == STEPS


def test_marks__generated_code_is_never_the_line(launches: Marked) -> None:
    """The line that runs it is."""
    (row,) = launches.at(line_of("# runs generated code", PROGRAM / "launches.py"))
    assert launches.marks.count(row["id"]) == STEPS
    assert not [row for row in launches.rows.values() if str(row["file"]).startswith("<")]


def test_marks__a_cell_without_a_notebook_s_name_has_no_file(launches: Marked) -> None:
    """Its function is known."""
    (row,) = (row for row in launches.rows.values() if row["file"] is None)
    assert (row["through"], row["line"]) == ("notebook inner", None)


def test_marks__a_cell_is_of_its_notebook_where_that_is_known(tmp_path: Path) -> None:
    """The table maps the file of the cell to the notebook; the line counts within the cell."""
    notebook = tmp_path / "train.ipynb"
    notebook.touch()
    done = run(f"launches.py {notebook}", "marked", tmp_path)
    marks = read_marks(done.folder)
    (row,) = (row for row in marks.rows.values() if str(row["file"]).endswith("7.py"))
    assert (row["line"], row["function"]) == (2, "inner")
    assert marks.notebooks == {row["file"]: str(notebook)}


# --- frameworks and ranks -------------------------------------------------------------------------


def run_script(words: str, folder: Path) -> Hooked:
    """A launch of one of the scripts of the other tests."""
    first, *rest = words.split(" ")
    command: list[str | Path] = [PYTHON, first, *rest]
    if first == "torchrun":
        command = [PYTHON.parent / "torchrun", "--nproc-per-node", "2", *rest]
    asked = Asked("marked", STEPS_BEFORE, STEPS_BEFORE, tree=SCRIPTS)
    done = launch(command, folder, asked, cwd=SCRIPTS, imports=[SCRIPTS])
    assert done.said.recorded, (done.said.problem, done.text)
    return done


@pytest.mark.parametrize(
    ("words", "call", "through", "own"),
    [
        ("trainer.py", "trainer.train(", "accelerate AcceleratedOptimizer.step", "Net.forward"),
        ("lightning_loop.py", ".fit(", "lightning Precision.optimizer_step", "loss_of"),
    ],
)
def test_marks__a_framework_s_work_has_its_function(
    words: str, call: str, through: str, own: str, tmp_path: Path
) -> None:
    """Else nearly all of a step would be on the one line that starts the training."""
    marks = read_marks(run_script(words, tmp_path).folder)
    text = (SCRIPTS / words).read_text(encoding="utf-8").splitlines()
    calls = {number for number, line in enumerate(text, 1) if call in line}
    (row,) = (row for row in marks.rows.values() if row["through"] == through)
    assert row["line"] in calls
    assert own in {row["function"] for row in marks.rows.values()}
    outermost = [one for one in marks.operators if one.is_outermost]
    assert outermost
    assert all(one.row is not None for one in outermost)


def test_marks__only_the_first_rank_has_marks(tmp_path: Path) -> None:
    """The others run as they are."""
    done = run_script("torchrun ddp.py", tmp_path)
    assert done.said.recorded
    assert len(done.said.recorded.ranks) == 2
    (table,) = done.folder.glob("lines-*.json")
    assert table.name.startswith("lines-0-")


# --- faults of our own ----------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize(
    ("words", "problem"),
    [("faulty.py", "ImportError"), ("faulty.py later", "ZeroDivisionError: a planted fault")],
    ids=["at once", "later"],
)
def test_marks__a_fault_turns_them_off_and_is_told(
    words: str, problem: str, tmp_path: Path
) -> None:
    """The script runs on as without them, and there is no table."""
    plain, marked = (run(words, mode, tmp_path / mode) for mode in ("profiled", "marked"))
    assert printed(marked) == printed(plain)
    assert marked.said.recorded
    assert (marked.said.recorded.first.marks_problem or "").startswith(problem)
    assert not list(marked.folder.glob("lines-*.json"))
    assert (marked.folder / "trace.json").is_file()

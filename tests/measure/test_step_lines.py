"""What a launch with marks left, as the lines of a step: its table and its trace may lie."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.measure.launch import line_table
from ci_score.measure.launch.line_table import MOST_ROWS, LineTable, read_table
from ci_score.measure.session import step_lines
from ci_score.measure.session.step_lines import step_code
from ci_score.measure.sides.definitions import SideFiles
from ci_score.model.step_code import (
    CodeLine,
    CodeWork,
    MarkedStep,
    StepCode,
    statement_digest,
)
from tests.builders import write

MODEL = """\
class Block:
    def forward(self, x):
        return self.mix(
            x @ x,
        )

    def mix(self, x):
        return x.relu()


def train(block, x):
    block.forward(x)
    return (lambda: x @ x)()
"""


@pytest.fixture
def side(tmp_path: Path) -> Path:
    """A folder with a model in it."""
    write(tmp_path / "side" / "src" / "model.py", MODEL)
    return tmp_path / "side"


def row(mark: int, line: int, function: str, first: int | None = None, **more: Any) -> Any:
    """A row of a table; `file` is within the side's folder."""
    return {"id": mark, "file": "src/model.py", "line": line, "function": function, "first": first,
            "through": None, "caller": None, "compiled": False, **more}  # fmt: skip


FORWARD, MIX = (4, "Block.forward", 2), (8, "Block.mix", 7)
CALLER = {"file": "src/model.py", "line": 12, "function": "train", "first": 11}


def table_of(side: Path, *rows: Any, **more: Any) -> LineTable:
    """The table with whole paths."""
    for one in [*rows, *(one["caller"] for one in rows if one["caller"])]:
        one["file"] = one["file"] and str(side / one["file"])
    return LineTable.model_validate({"schema": 1, "rows": list(rows), **more})


def code_of(side: Path, work: dict[int, CodeWork], *rows: Any, **more: Any) -> StepCode:
    """What a step of 10 ms is made of."""
    fields = {"steps": 3, "step_ms": 12.0, "total_ms": 10.0, "without_line_ms": 1.0}
    step = MarkedStep.model_validate({**fields, "work": work})
    rows = tuple(json.loads(json.dumps(one)) for one in rows)
    return step_code(step, table_of(side, *rows, **more), SideFiles.of(side), 9.0)


def named(code: StepCode, line: CodeLine) -> tuple[str, str | None, int | None, str | None]:
    """Definition, file, line, and who calls it."""
    own = code.definitions[line.definition]
    caller = None if line.caller is None else code.definitions[line.caller].name
    return own.name, own.file, line.line, caller


def test_code__has_definitions_statements_and_callers(side: Path) -> None:
    """The largest first, resolved in the files of the side; numbers have four digits."""
    large = CodeWork(forward_ms=4.00004, backward_ms=2, forward_launches=3, peak_bytes=123456)
    code = code_of(
        side, {1: CodeWork(forward_ms=1, python_ms=2), 2: large}, row(1, *MIX),
        row(2, *FORWARD, caller=CALLER, through="torch F.linear", compiled=True),
    )  # fmt: skip
    first, second = code.lines
    assert named(code, first) == ("Block.forward", "src/model.py", 4, "train")
    assert named(code, second) == ("Block.mix", "src/model.py", 8, None)
    assert (first.first, first.last, first.through, first.is_compiled) == (
        3, 5, "torch F.linear", True,
    )  # fmt: skip
    assert first.text == statement_digest(MODEL.split("\n")[2:5])
    assert first.work == large.but(forward_ms=4.0)
    own, train = code.definitions[first.definition], code.definitions[first.caller or 0]
    assert (own.first, own.last, own.outer_first, own.outer_last) == (2, 5, 1, 8)
    assert (train.outer_first, train.outer_last) == (None, None)
    assert (code.total_ms, code.without_line_ms, code.left_out) == (10.0, 1.0, 0)
    assert (code.marked_ms, code.unmarked_ms) == (12.0, 9.0)
    assert code.knows_lines


def test_code__joins_what_only_marks_tell_apart(side: Path) -> None:
    """The same statement by the same caller is one row, and by another caller another."""
    one = CodeWork(forward_ms=1, forward_launches=2)
    by_train, by_none = row(1, *MIX, caller=CALLER), row(3, *MIX)
    code = code_of(side, {1: one, 2: one, 3: one}, by_train, {**by_train, "id": 2}, by_none)
    assert [line.work.forward_ms for line in code.lines] == [2.0, 1.0]
    assert [line.caller is None for line in code.lines] == [False, True]


def test_code__has_all_calls_of_a_caller_in_one_line(
    side: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that began in a line that is left out."""
    monkeypatch.setattr(step_lines, "MOST_LINES", 2)
    marks = (row(1, *MIX, caller=CALLER), row(2, *MIX), row(3, 7, "Block.mix", 7, caller=CALLER))
    work = {at: CodeWork(forward_ms=4.0 - at, calls=10.0**at) for at in (1, 2, 3)}
    code = code_of(side, work, *marks)
    assert [line.work.calls for line in code.lines] == [1010.0, 100.0]
    assert code.left_out == 1


def test_code__a_lambda_is_part_of_the_function_around_it(side: Path) -> None:
    """Which is then not its own caller."""
    lambdas = row(1, 13, "train.<locals>.<lambda>", 13, caller={**CALLER, "line": 13})
    code = code_of(side, {1: CodeWork(forward_ms=1)}, lambdas)
    assert [named(code, line) for line in code.lines] == [("train", "src/model.py", 13, None)]


def test_code__of_a_library_has_its_name_and_no_file(side: Path) -> None:
    """Nobody knows its line, so its time counts as without one."""
    library = {**row(1, 1, ""), "file": None, "line": None, "through": "transformers\n Llama"}
    code = code_of(side, {1: CodeWork(forward_ms=1)}, library)
    assert named(code, code.lines[0]) == ("transformers  Llama", None, None, None)
    assert code.without_line_ms == 2.0


def test_code__of_a_changed_file_knows_the_function_alone(side: Path) -> None:
    """It was changed after it had been imported: the line would be another one now."""
    code = code_of(side, {1: CodeWork(forward_ms=1)}, row(1, 8, "Block.forward", 2))
    (line,) = code.lines
    assert named(code, line) == ("Block.forward", "src/model.py", None, None)
    assert (line.first, line.text, code.definitions[0].first) == (None, None, None)
    assert code.without_line_ms == 2.0


def test_code__of_a_notebook_is_its_files_without_a_line(side: Path) -> None:
    """The cells are no files; a table may say which notebook they are of."""
    write(side / "train.ipynb", "{}")
    cell = {**row(1, 3, "step", 1), "file": "/cells/ipykernel_7/12.py"}
    notebooks = {"/cells/ipykernel_7/12.py": str(side / "train.ipynb")}
    for told, file in ((notebooks, "train.ipynb"), ({}, None)):
        code = code_of(side, {1: CodeWork(forward_ms=1)}, cell, notebooks=told)
        name = "step" if told else ""
        assert [named(code, line) for line in code.lines] == [(name, file, None, None)]


LIES = {
    "above the folder": {"file": "../elsewhere.py"},
    "absolute": {"file": "/etc/passwd"},
    "not there": {"file": "src/generated.py"},
    "a name": {"file": "<string>"},
    "a link": {"file": "link.py"},
    "no line": {"line": None},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_code__that_lies_has_neither_file_nor_line(side: Path, lie: dict[str, Any]) -> None:
    """Its work is without a line, and no path leaves the folder."""
    write(side.parent / "elsewhere.py", MODEL)
    (side / "link.py").symlink_to(side.parent / "elsewhere.py")
    caller = {**CALLER, "file": "../elsewhere.py"}
    rows = row(1, *MIX, caller=caller), {**row(2, *MIX), **lie}
    code = code_of(side, {1: CodeWork(forward_ms=2), 2: CodeWork(forward_ms=1)}, *rows)
    assert [named(code, line) for line in code.lines] == [
        ("Block.mix", "src/model.py", 8, None),
        ("", None, None, None),
    ]
    assert code.without_line_ms == 2.0


def test_code__of_marks_without_a_row_is_without_a_line(side: Path) -> None:
    """A number that the table lacks, or has twice."""
    work = {mark: CodeWork(forward_ms=1, peak_bytes=5) for mark in (1, 2, 3)}
    code = code_of(side, work, row(1, *MIX), row(2, *MIX), row(2, *FORWARD))
    assert [named(code, line)[0] for line in code.lines] == ["Block.mix"]
    assert (code.without_line_ms, code.peak_without_line) == (3.0, 10)


def test_code__is_bounded(side: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest by time or by peak memory are kept; of the others their number and time."""
    many = "".join(f"def f{at}(x):\n    return x @ x\n" for at in range(12))
    write(side / "src" / "model.py", many)
    monkeypatch.setattr(step_lines, "MOST_LINES", 6)
    monkeypatch.setattr(step_lines, "MOST_DEFINITIONS", 4)
    monkeypatch.setattr(step_lines, "MOST_RESOLVED", 10)
    work = {at + 1: CodeWork(forward_ms=12.0 - at) for at in range(12)}
    work[12] = CodeWork(forward_ms=0.5, peak_bytes=10)
    rows = [row(at + 1, 2 * at + 2, f"f{at}", 2 * at + 1) for at in range(12)]
    step = MarkedStep(steps=3, step_ms=78.0, total_ms=78.0, work=work, peak_bytes=10)
    code = step_code(step, table_of(side, *rows), SideFiles.of(side))
    assert [named(code, line)[0] for line in code.lines] == ["f0", "f1", "f2", "f11"]
    assert code.left_out == 8
    assert code.left_out_ms == sum(range(2, 10))
    # Two were not even looked at.
    assert code.without_line_ms == 2 + 3


# --- the table ------------------------------------------------------------------------------------


def test_table__of_the_process_that_was_profiled(tmp_path: Path) -> None:
    """Other processes may have left theirs beside it."""
    for pid in (7, 8):
        text = json.dumps({"schema": 1, "rows": [row(pid, *MIX)], "more": 1})
        write(tmp_path / f"lines-0-{pid}.json", text)
    assert list(read_table(tmp_path, 0, 8).by_mark) == [8]


WRONG = {
    "empty": "",
    "half": '{"schema": 1, "rows": [',
    "another schema": '{"schema": 2, "rows": []}',
    "no rows": '{"schema": 1}',
    "a mark of zero": json.dumps({"schema": 1, "rows": [row(0, *MIX)]}),
    "a line of zero": json.dumps({"schema": 1, "rows": [row(1, 0, "f")]}),
    "a line beyond all": json.dumps({"schema": 1, "rows": [row(1, 10**8, "f")]}),
    "an endless name": json.dumps({"schema": 1, "rows": [row(1, 1, "f" * 2000)]}),
    "an endless path": json.dumps({"schema": 1, "rows": [row(1, 1, "f", file="/x" * 4000)]}),
    "deep": '{"schema": 1, "rows": ' + "[" * 5000 + "]" * 5000 + "}",
    "too many": json.dumps({"schema": 1, "rows": [{"id": 1}] * (MOST_ROWS + 1)}),
    "twice a key": '{"schema": 1, "schema": 1, "rows": []}',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_table__that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    """The script may have written it."""
    write(tmp_path / "lines-0-7.json", text)
    with pytest.raises(BadInputError, match=r"the hook's lines-0-7\.json"):
        read_table(tmp_path, 0, 7)


def test_table__that_is_no_plain_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, a pipe, nothing, or more than anybody wants to read."""
    monkeypatch.setattr(line_table, "TABLE_LIMIT", 50)
    write(tmp_path / "target.json", '{"schema": 1, "rows": []}')
    (tmp_path / "lines-0-1.json").symlink_to(tmp_path / "target.json")
    os.mkfifo(tmp_path / "lines-0-2.json")
    write(tmp_path / "lines-0-3.json", '{"schema": 1, "rows": []}' + " " * 50)
    for pid in (1, 2, 3, 4):
        with pytest.raises(BadInputError):
            read_table(tmp_path, 0, pid)

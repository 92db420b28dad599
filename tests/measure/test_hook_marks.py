"""What the marks know of lines without torch: whose a file is, and the rows of the table."""

from __future__ import annotations

import runpy
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.hooked import HOOK

MODULE = runpy.run_path(str(HOOK / "ci_score_marks.py"))
KINDS = {MODULE[name]: name for name in ("TREE", "CELL", "ENGINE", "IN_TORCH", "LIBRARY", "OTHER")}
FRAME = "import sys\ndef inner():\n    return sys._getframe()\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A side's folder, with an environment of its own inside."""
    side = tmp_path / "side"
    for name in ("src/package", ".venv/lib/python3/site-packages/lib", "env/lib/made", "conda/pkg"):
        (side / name).mkdir(parents=True)
        (side / name / "a.py").touch()
    for name in ("train.py", "src/package/model.py", "a.py"):
        (side / name).touch()
    (side / "env" / "pyvenv.cfg").touch()
    (side / "conda" / "conda-meta").mkdir()
    return side


def places(tree: Path) -> Any:
    return MODULE["Places"](str(tree), str(tree))


def kind(places: Any, path: Path | str, library: str = "thing") -> str:
    """Whose the code of a file is, by the name that the code has."""
    scope: dict[str, Any] = {"__name__": f"{library}.inner"}
    exec(compile(FRAME, str(path), "exec"), scope)  # noqa: S102 - the file's name is the test
    return KINDS[places.of(scope["inner"]()).kind]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("train.py", "TREE"),
        ("src/package/model.py", "TREE"),
        (".venv/lib/python3/site-packages/lib/a.py", "LIBRARY"),
        ("env/lib/made/a.py", "LIBRARY"),
        ("conda/pkg/a.py", "LIBRARY"),
        ("../sidecar/a.py", "LIBRARY"),
        ("../other/a.py", "LIBRARY"),
        ("generated for layer 3", "OTHER"),
    ],
)
def test_marks__the_tree_s_own_files_count(path: str, expected: str, tree: Path) -> None:
    """Not what an installer has put into it, and not what lies beside it."""
    assert kind(places(tree), tree / path) == expected


def test_marks__a_relative_name_counts_from_where_the_script_began(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script may go elsewhere before its steps are profiled."""
    monkeypatch.chdir(tree)
    marks = MODULE["Marks"](str(tree))
    monkeypatch.chdir(tree.parent)
    assert kind(MODULE["Places"](marks.tree, marks.began_in), "train.py") == "TREE"


def test_marks__a_link_counts_as_what_it_leads_to(tree: Path) -> None:
    """Into the tree, and out of it."""
    outside = tree.parent / "outside.py"
    outside.touch()
    (tree / "link.py").symlink_to(outside)
    (tree.parent / "into.py").symlink_to(tree / "train.py")
    assert kind(places(tree), tree / "link.py") == "LIBRARY"
    assert kind(places(tree), tree.parent / "into.py") == "TREE"


@pytest.mark.parametrize(
    ("path", "library", "expected"),
    [
        ("<string>", "thing", "OTHER"),
        ("<eval_with_key>.3", "torch", "OTHER"),
        (types.__file__, "types", "OTHER"),
        (str(HOOK / "sitecustomize.py"), "sitecustomize", "OTHER"),
        ("/somewhere/site-packages/torch/nn/functional.py", "torch", "IN_TORCH"),
        ("/somewhere/site-packages/torchvision/ops.py", "torchvision", "LIBRARY"),
    ],
)
def test_marks__other_code_is_torch_s_a_library_s_or_nobody_s(
    path: str, library: str, expected: str, tree: Path
) -> None:
    """Generated code, Python's own and ours are nobody's."""
    assert kind(places(tree), path, library) == expected


@pytest.mark.parametrize(
    ("name", "outer"),
    [
        ("f", "f"),
        ("f.<locals>.<lambda>", "f"),
        ("A.f.<locals>.<listcomp>.<lambda>", "A.f"),
        ("f.<locals>.g", "f.<locals>.g"),
        ("A.<lambda>", "A"),
        ("<lambda>", "<lambda>"),
    ],
)
def test_marks__a_comprehension_is_part_of_its_function(name: str, outer: str) -> None:
    """So its own function is not its caller."""
    assert MODULE["without_inner"](name) == outer


def table_of(tree: Path) -> Any:
    """A table where no engine runs."""
    table = MODULE["Table"](places(tree))
    table.in_engine = lambda: False
    return table


def called(tree: Path, name: str, text: str) -> Callable[..., Any]:
    """A function of a file of the tree, which calls what it is given."""
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(tree / name), "exec"), scope)  # noqa: S102 - as above
    return scope["outer"]  # type: ignore[no-any-return]


def test_marks__a_line_has_a_row_for_each_caller(tree: Path) -> None:
    """And one only, however often it runs."""
    table = table_of(tree)
    text = (
        "def inner(call):\n    return call()\n\n"
        "def outer(call):\n    return inner(call), inner(call), [inner(call) for _ in 'ab'],\\\n"
        "        inner(call)\n"
    )
    names = called(tree, "a.py", text)(lambda: table.name_at(sys._getframe(1)))
    first, second, both, last = names
    assert first == second == both[0] == both[1] == "ci_score.line#1+"
    assert last == "ci_score.line#2+"
    file = str(tree / "a.py")
    assert table.rows[0] == {
        "id": 1, "file": file, "line": 2, "function": "inner", "first": 1, "through": None,
        "caller": {"file": file, "line": 5, "function": "outer", "first": 4}, "compiled": False,
    }  # fmt: skip
    assert table.rows[1]["caller"]["line"] == 6


CALLS = """\
def inner(call):
    return [call(), call(), [call() for _ in "ab"], (lambda: call())()]

def steps(call):
    yield call()
    yield call()

def outer(call):
    return [call(), inner(call), inner(call), list(steps(call)), call(), list(map(inner, [call]))]
"""


def test_marks__the_first_mark_of_a_call_says_so(tree: Path) -> None:
    """Each call of a function has one, however many lines it runs; a generator is called once."""
    table = table_of(tree)

    def call() -> str:
        name: str = table.name_at(sys._getframe(1))
        return name[-1]

    inner = ["+", "1", ["1", "1"], "1"]
    said = called(tree, "a.py", CALLS)(lambda: "+" if call() == "+" else "1")
    assert said == ["+", inner, inner, ["+", "1"], "1", [inner]]


def test_marks__what_runs_already_is_not_called(tree: Path) -> None:
    """Marks begin in the midst of a step."""
    table = table_of(tree)

    def call() -> str:
        MODULE["see_all"](sys._getframe(1))
        return str(table.name_at(sys._getframe(1)))[-1]

    assert "+" not in str(called(tree, "a.py", CALLS)(call))


def test_marks__no_call_is_counted_while_somebody_traces(tree: Path) -> None:
    """A debugger reads the flag that would say so."""
    table, flags = table_of(tree), []

    def call() -> str:
        flags.append(sys._getframe(1).f_trace_lines)
        return str(table.name_at(sys._getframe(1)))[-1]

    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        said = called(tree, "a.py", CALLS)(call)
    finally:
        sys.settrace(before)
    assert "+" not in str(said)
    assert all(flags)


def test_marks__a_table_is_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no room has no mark."""
    monkeypatch.setitem(MODULE["Table"].add.__globals__, "MOST_ROWS", 1)
    table = table_of(tree)
    text = "def outer(call):\n    yield call()\n    yield call()\n"
    names = list(called(tree, "a.py", text)(lambda: table.name_at(sys._getframe(1))))
    assert names == ["ci_score.line#1+", None]


def test_marks__within_the_engine_code_of_nobody_has_no_line(tree: Path) -> None:
    """What a node does belongs to its forward's line, and not to that of the backward."""
    table = table_of(tree)
    table.in_engine = lambda: True
    assert table.name_at(sys._getframe()) is None
    table.in_engine = lambda: False
    assert table.name_at(sys._getframe()) == "ci_score.line#1"
    assert table.rows[0]["file"] is None
    assert table.rows[0]["through"]


def test_marks__a_name_of_any_bytes_can_be_written(tree: Path) -> None:
    """The table is read as strict JSON."""
    table = table_of(tree)
    (tree / "a\udcff.py").touch()
    called(tree, "a\udcff.py", "def outer(call):\n    return call()\n")(
        lambda: table.name_at(sys._getframe(1))
    )
    assert table.rows[0]["file"] == str(tree / "a?.py")
    assert table.rows[0]["line"] == 2

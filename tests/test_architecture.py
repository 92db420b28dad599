"""The house: which room may know which. The table is the plan; a new arrow is a decision."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ci_score"

GROUND = {"errors", "strict_json", "models"}
FACTS = GROUND | {"metrics", "hardware"}
MODEL = FACTS | {"scoring"}

ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "strict_json": {"errors"},
    "files": {"errors"},
    "models": {"errors"},
    "metrics": {"models", "errors"},
    "hardware": {"errors"},
    "records": GROUND,
    "profilers": GROUND,
    "scoring": FACTS,
    "parity": GROUND,
    "efficiency": MODEL,
    "comparison": MODEL,
    "verdict": FACTS,
    "report": FACTS | {"verdict"},
    "baselines": GROUND | {"files", "records"},
    "pipeline": MODEL | {"efficiency", "comparison", "verdict", "baselines"},
}
PURE = {"models", "metrics", "hardware", "scoring", "parity", "efficiency", "comparison", "verdict"}
IMPURE_IMPORTS = {"requests", "click", "os", "sys", "time", "datetime", "random", "subprocess"}

FILES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, inside functions too; of our own, the room."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rooms_of(names: set[str]) -> set[str]:
    ours = {name.split(".")[1] for name in names if name.startswith("ci_score.")}
    return {name for name in ours if name in ARROWS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_architecture__arrows_go_one_way(path: Path) -> None:
    """A room imports only what the table allows; the entry (cli) may import anything."""
    if room(path) in {"cli", "__main__", "__init__"}:
        return
    assert rooms_of(imports(path)) - {room(path)} <= ARROWS[room(path)]


@pytest.mark.parametrize("path", [p for p in FILES if room(p) in PURE], ids=lambda path: path.stem)
def test_architecture__pure_rooms_touch_nothing(path: Path) -> None:
    """The model and the judgement know no network, no command line, no environment, no clock."""
    assert not {name.split(".")[0] for name in imports(path)} & IMPURE_IMPORTS


def test_architecture__only_the_entry_exits_and_reads_the_environment() -> None:
    """`sys.exit` and `os.environ` appear in cli and __main__ alone."""
    for path in FILES:
        if room(path) not in {"cli", "__main__"}:
            text = path.read_text(encoding="utf-8")
            assert "sys.exit" not in text, path
            assert "environ" not in text.replace("environment", ""), path


def test_architecture__no_drawers() -> None:
    """No module is a drawer for what has no home, and none shadows the standard library."""
    import sys

    names = {path.stem for path in FILES}
    assert not names & {"utils", "util", "common", "helpers", "misc", "tools"}
    tops = {room(path) for path in FILES} - {"__init__", "__main__"}
    assert not tops & set(sys.stdlib_module_names)

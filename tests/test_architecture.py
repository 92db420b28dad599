"""The house: which room may know which. The table is the plan; a new arrow is a decision."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ci_score"

# Rooms of one line do not know each other unless the table says so.
VALUES = {"errors", "strict_json", "models", "sums"}
FACTS = VALUES | {"metrics", "hardware"}
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "sums": set(),
    "models": {"sums"},
    "hardware": set(),
    "inputs": set(),
    "strict_json": {"errors"},
    "files": {"errors"},
    "archives": {"errors"},
    "metrics": {"models"},
    "records": VALUES | {"files"},
    "measurements": VALUES,
    "environment_file": VALUES,
    "case_files": {"errors", "models", "records", "profilers", "environment_file"},
    "profilers": VALUES,
    "scoring": FACTS,
    "parity": VALUES,
    "planting": FACTS,
    "parity_gate": FACTS | {"parity", "policy"},
    "student": set(),
    "noise": {"student"},
    "trend": FACTS | {"student"},
    "acceptance": FACTS | {"policy"},
    "pooling": FACTS,
    "measure": VALUES | {"files", "measurements", "noise"},
    "efficiency": FACTS | {"scoring", "policy"},
    "comparison": FACTS | {"scoring"},
    "explanation": VALUES,
    "reasons": FACTS | {"explanation"},
    "advice": FACTS | {"explanation"},
    "verdict": FACTS | {"policy"},
    "judgement": FACTS | {"policy", "noise", "verdict"},
    "report": FACTS | {"verdict", "parity"},
    "baselines": VALUES | {"files", "records"},
    "settings": {"errors", "inputs", "case_files", "efficiency", "verdict", "report"},
    "github": VALUES | {"files", "archives", "records", "report", "__init__"},
    "policy": VALUES | {"metrics"},
    "reading": VALUES | {"environment_file", "case_files", "measurements", "profilers", "parity"},
    "action": FACTS
    | {"files", "records", "case_files", "settings", "verdict", "baselines", "github", "policy"}
    | {"pipeline", "reading", "posting", "publishing", "acceptance", "suspicion"},
    "suspicion": {"models", "policy", "baselines", "verdict"},
    "posting": {"models", "scoring", "baselines", "pipeline", "acceptance", "measured", "trials"},
    "publishing": FACTS | {"files", "records", "report", "verdict", "settings", "github"},
    "measured": FACTS | {"scoring", "parity", "efficiency", "explanation", "advice", "pooling"},
    "trials": FACTS
    | {"comparison", "explanation", "reasons", "policy", "acceptance", "judgement", "parity_gate"}
    | {"trend"},
    "pipeline": FACTS
    | {"measured", "trials", "pooling", "noise", "judgement", "efficiency"}
    | {"verdict", "baselines", "records", "acceptance", "policy"}
    | {"__init__"},
}
ENTRIES = {"cli", "__main__", "__init__"}
IMPURE_ROOMS = {
    "measure",
    "files",
    "case_files",
    "baselines",
    "github",
    "settings",
    "publishing",
    "action",
}
IMPURE = {"requests", "click", "os", "sys", "time", "datetime", "random", "subprocess", "socket"}

FILES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rooms_of(names: set[str]) -> set[str]:
    """Our rooms among the modules; `from ci_score import __version__` is the front door."""
    ours = {name.split(".")[1] for name in names if name.startswith("ci_score.")}
    return {"__init__" if name.startswith("__") else name for name in ours}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_architecture__arrows_go_one_way(path: Path) -> None:
    """A room imports only what the table allows; the entries may import anything."""
    if room(path) not in ENTRIES:
        assert rooms_of(imports(path)) - {room(path)} <= ARROWS[room(path)]


@pytest.mark.parametrize(
    "path", [p for p in FILES if room(p) not in ENTRIES | IMPURE_ROOMS], ids=lambda path: path.stem
)
def test_architecture__other_rooms_touch_nothing(path: Path) -> None:
    """The model, the judgement and the texts know no network, no environment, no clock."""
    assert not {name.split(".")[0] for name in imports(path)} & IMPURE


def test_architecture__only_the_entry_exits_and_reads_the_environment() -> None:
    """`sys.exit` and the process's environment appear in cli and __main__ alone.

    The recorder is the exception: it runs in the user's own process.
    """
    for path in FILES:
        if room(path) not in ENTRIES and path.name != "recorder.py":
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in ("sys.exit", "os.environ", "getenv")), path


def test_architecture__the_table_has_every_room_and_no_other() -> None:
    """A room that is gone leaves the table, too."""
    assert {room(path) for path in FILES} == set(ARROWS) | ENTRIES


def test_architecture__no_drawers() -> None:
    """No module is a drawer for what has no home, and none shadows the standard library."""
    names = {path.stem for path in FILES}
    assert not names & {"utils", "util", "common", "helpers", "misc", "tools"}
    assert not ({room(path) for path in FILES} - ENTRIES) & set(sys.stdlib_module_names)

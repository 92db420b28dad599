"""The plan of the house: its rooms, what each does, and which others each may import.

The architecture test and the picture in CONTRIBUTING both come from this one table. A new arrow is
a decision: write it here first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "ci_score"
HALL = frozenset({"__init__", "__main__", "errors"})
WIDEST_DOOR = 12


@dataclass(frozen=True, slots=True)
class Room:
    """A room: what it does, and which other rooms it may import.

    `is_open` says that others import its modules by name. `touches` lists the modules of the
    outside world that it may import; a pure room has none. A room within a room, such as the policy
    in the judge, has its own door.
    """

    name: str
    does: str
    knows: frozenset[str] = frozenset()
    is_open: bool = False
    touches: frozenset[str] = frozenset()


def _knows(*names: str) -> frozenset[str]:
    return frozenset(names)


ROOMS: tuple[Room, ...] = (
    Room(
        "cli",
        "one file per command: options, colour, exit codes",
        _knows(
            "run",
            "report",
            "report.site",
            "measure",
            "judge",
            "judge.policy",
            "baselines",
            "compare",
            "traces",
            "reference",
            "model",
            "files",
        ),
        touches=_knows("os", "sys", "time", "datetime", "click", "signal", "subprocess"),
    ),
    Room(
        "run",
        "the story of a run: settings, case files, reading, the event, publishing",
        _knows(
            "report",
            "github",
            "judge",
            "judge.policy",
            "baselines",
            "compare",
            "launches",
            "traces",
            "reference",
            "model",
            "files",
        ),
    ),
    Room(
        "github",
        "HTTP below (`api`), verbs of our domain above; errors are translated here",
        _knows("model", "files"),
        touches=_knows("requests", "time"),
    ),
    Room(
        "measure",
        "beside the accelerator, knows no GitHub: launches, A/B sessions, the machine",
        _knows("judge", "launches", "model", "files"),
        touches=_knows("os", "sys", "time", "datetime", "random", "subprocess"),
    ),
    Room(
        "report",
        "values → text: markdown, terminal, HTML, badge, and every sentence of a verdict",
        _knows("reference", "model", "files"),
    ),
    Room(
        "report.site",
        "the branch's whole history → the pages of a static site",
        _knows("report", "model"),
    ),
    Room(
        "judge",
        "eligibility → evidence → decision; pairs, history, trend, acceptance, budgets",
        _knows("judge.policy", "reference", "model", "files"),
    ),
    Room(
        "judge.policy",
        "a team's rules: the tables, what holds for a case, mistakes that are refused",
        _knows("model", "files"),
    ),
    Room(
        "compare",
        "head × base → what changed, where the time went, what caused it",
        _knows("launches", "reference", "model", "files"),
    ),
    Room(
        "baselines",
        "where a baseline comes from: artifacts or a folder; records read and written",
        _knows("model", "files"),
    ),
    Room(
        "launches",
        "measurement lines and environment.json → launches, pooled over a run's attempts",
        _knows("model", "files"),
    ),
    Room(
        "traces",
        "files of a profiler → Profile: one file per format, one engine, ranks merged",
        _knows("model", "files"),
        touches=_knows("time"),
    ),
    Room("reference", "frozen: scoring, parity, their markdown", _knows("model", "files")),
    Room(
        "files",
        "bytes from strangers: strict JSON, archives, limits; whole files out",
        _knows("model"),
        is_open=True,
        touches=_knows("os", "sys", "time"),
    ),
    Room("model", "the values that travel, the facts, the shipped schemas", is_open=True),
)
BY_NAME = {room.name: room for room in ROOMS}


# --- what the files say ---------------------------------------------------------------------------


def sources() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """The module of a file, such as `judge.policy.tables`; a package has the name of its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def room_of(module: str) -> str:
    """The innermost room with the module; a module of the hall counts as a room of its own."""
    parts = module.split(".")
    names = (".".join(parts[:depth]) for depth in range(len(parts), 0, -1))
    return next((name for name in names if name in BY_NAME), parts[0])


@dataclass(frozen=True, slots=True)
class Import:
    """A name that a module takes from another module of ours, or a foreign module."""

    module: str
    name: str = ""


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Everything that a file imports, inside functions too; each file is parsed once."""
    found: list[Import] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += (Import(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found += (Import(node.module or "", alias.name) for alias in node.names)
    return tuple(found)


@cache
def ours(one: Import) -> tuple[str, str] | None:
    """Our module in an import, and the name that it takes from there; None for other packages."""
    if one.module == "ci_score":
        is_module = (PACKAGE / one.name).is_dir() or (PACKAGE / f"{one.name}.py").is_file()
        return (one.name, "") if is_module else ("__init__", one.name)
    if not one.module.startswith("ci_score."):
        return None
    module = one.module.removeprefix("ci_score.")
    inner = f"{module}.{one.name}"
    return (inner, "") if inner in BY_NAME else (module, one.name)


def exported_by(room: Room) -> frozenset[str]:
    """The names that a room's door exports: those it defines, or imports from its own modules.

    Imports inside a function of the door do not count.
    """
    door = PACKAGE / room.name.replace(".", "/") / "__init__.py"
    names: set[str] = set()
    for node in _statements(ast.parse(door.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            taken = (ours(Import(node.module or "", alias.name)) for alias in node.names)
            names |= {what for found in taken if found and room_of(found[0]) == room.name
                      for what in found[1:] if what}  # fmt: skip
    return frozenset(names)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, and those under `if TYPE_CHECKING`."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from node.body


# --- the picture ----------------------------------------------------------------------------------


def picture() -> str:
    """The house as CONTRIBUTING shows it: each room, and below it the rooms that it imports."""
    lines = ["ci_score/"]
    for room in ROOMS:
        depth, _, _ = room.name.rpartition(".")
        name = ("  " if depth else "") + room.name.rpartition(".")[2] + "/"
        lines.append(f"  {name:<12} {room.does}")
        known = [one.name for one in ROOMS if one.name in room.knows]
        if known:
            lines.append(f"  {'':<12}   → {', '.join(known)}")
    lines += [
        "  __main__.py  the entry: no crash may look like a regression",
        "  errors.py    every error that is raised on purpose, below all rooms",
    ]
    return "\n".join(lines)


def drawn_in(text: str) -> str | None:
    """The picture in a document, between its marks."""
    found = re.search(r"<!-- house -->\n```text\n(.*?)\n```\n<!-- /house -->", text, re.DOTALL)
    return found[1] if found else None

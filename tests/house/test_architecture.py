"""The house is as its plan says: arrows, doors, and which rooms are pure."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.builders import PROJECT
from tests.house.plan import (
    BY_NAME,
    HALL,
    ROOMS,
    drawn_in,
    imports,
    module_of,
    ours,
    picture,
    room_of,
    sources,
)

FILES = [path for path in sources() if room_of(module_of(path)) not in HALL]
# What a room may touch only where the plan says so.
IMPURE = {"requests", "click", "os", "sys", "time", "datetime", "random", "subprocess", "socket"}


def name(path: Path) -> str:
    return module_of(path)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_architecture__arrows_go_one_way(path: Path) -> None:
    """A room imports only what the plan allows."""
    room = BY_NAME[room_of(module_of(path))]
    found = {
        room_of(module) for one in imports(path) if (known := ours(one)) for module, _ in [known]
    }
    assert found - {room.name, "errors", "__init__"} <= room.knows


@pytest.mark.parametrize("path", FILES, ids=name)
def test_architecture__a_room_touches_what_the_plan_says(path: Path) -> None:
    """The model, the judgement and the texts know no network, no environment, no clock."""
    room = BY_NAME[room_of(module_of(path))]
    assert {one.module.split(".")[0] for one in imports(path)} & IMPURE <= room.touches


def test_architecture__nothing_lies_in_the_hall() -> None:
    """Beside the rooms there are the entry, the errors and the public names."""
    assert {room_of(module_of(path)) for path in sources()} == HALL | set(BY_NAME)


def test_architecture__only_the_entry_exits_and_reads_the_environment() -> None:
    """`sys.exit` and the process's environment appear in cli and __main__ alone.

    The recorder is the exception: it runs in the user's own process.
    """
    for path in FILES:
        if room_of(module_of(path)) != "cli" and path.name != "recorder.py":
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in ("sys.exit", "os.environ", "getenv")), path


def test_architecture__the_plan_has_no_circle() -> None:
    """Whom a room knows does not know it, nor anybody who does."""
    left = {room.name: set(room.knows) for room in ROOMS}
    while free := {room for room, knows in left.items() if not knows & left.keys()}:
        left = {room: knows for room, knows in left.items() if room not in free}
    assert not left


def test_architecture__no_drawers() -> None:
    """No module is a drawer for what has no home, and none shadows the standard library."""
    names = {path.stem for path in FILES}
    assert not names & {"utils", "util", "common", "helpers", "misc", "tools"}
    assert not {room.name for room in ROOMS} & set(sys.stdlib_module_names)


def test_contributing__draws_the_house() -> None:
    """The picture is made from the plan, so it cannot lie: `make picture` writes it anew."""
    page = PROJECT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    drawn = drawn_in(text)
    assert drawn is not None
    if os.environ.get("CI_SCORE_WRITE_PICTURE"):
        page.write_text(text.replace(drawn, picture()), encoding="utf-8")
    else:
        assert drawn == picture()

"""The code follows the plan of the house: its arrows, its doors and its pure rooms."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.builders import PROJECT
from tests.house.plan import (
    BY_NAME,
    HALL,
    ROOMS,
    WIDEST_DOOR,
    Room,
    drawn_in,
    exported_by,
    imports,
    module_of,
    ours,
    picture,
    room_of,
    sources,
)

FILES = [path for path in sources() if room_of(module_of(path)) not in HALL]
# A room may import these only if the plan says so.
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


def test_architecture__the_plan_allows_no_more_than_is_used() -> None:
    """An arrow that nobody needs would let in the next import unnoticed."""
    knows: dict[str, set[str]] = {room.name: set() for room in ROOMS}
    touches: dict[str, set[str]] = {room.name: set() for room in ROOMS}
    for path in FILES:
        own = room_of(module_of(path))
        knows[own] |= {room_of(module) for module, _ in filter(None, map(ours, imports(path)))}
        touches[own] |= {one.module.split(".")[0] for one in imports(path)}
    for room in ROOMS:
        assert room.knows <= knows[room.name], room.name
        assert room.touches <= touches[room.name], room.name


@pytest.mark.parametrize("path", FILES, ids=name)
def test_architecture__a_room_touches_what_the_plan_says(path: Path) -> None:
    """The network, the environment and the clock stay out of rooms such as model and judge."""
    room = BY_NAME[room_of(module_of(path))]
    assert {one.module.split(".")[0] for one in imports(path)} & IMPURE <= room.touches


CLOSED = [room for room in ROOMS if not room.is_open]


@pytest.mark.parametrize("path", sources(), ids=name)
def test_architecture__nobody_imports_past_a_door(path: Path) -> None:
    """Other rooms import only the door of a closed room."""
    own = room_of(module_of(path))
    for module, _ in filter(None, map(ours, imports(path))):
        room = room_of(module)
        if room != own and not own.startswith(f"{room}.") and room in {one.name for one in CLOSED}:
            assert module == room, f"{module} lies behind the door of {room}"


@pytest.mark.parametrize("room", CLOSED, ids=lambda room: room.name)
def test_architecture__a_door_is_narrow_and_says_what_it_is(room: Room) -> None:
    """A door exports exactly what others use, at most twelve names, and each of them exists."""
    used = {
        what
        for path in sources()
        if room_of(module_of(path)) != room.name
        for module, what in filter(None, map(ours, imports(path)))
        if module == room.name and what
    }
    exported = exported_by(room)
    assert len(exported) <= WIDEST_DOOR
    assert used <= exported
    # The command line has one caller. The rest is for training scripts and for `make schemas`.
    if room.name != "cli":
        assert exported <= used | {"Recorder", "policy_schema", "record_schema"}
    package = import_module(f"ci_score.{room.name}")
    assert package.__doc__
    assert all(hasattr(package, what) for what in exported)


def test_architecture__nothing_lies_in_the_hall() -> None:
    """Beside the rooms there are only the entry, the errors and the public names."""
    assert {room_of(module_of(path)) for path in sources()} == HALL | set(BY_NAME)


def test_architecture__only_the_entry_exits_and_reads_the_environment() -> None:
    """`sys.exit` and the process's environment appear in cli and __main__ alone.

    The recorder and the start-up hook are the exceptions: they run in the user's own process.
    """
    of_the_user = {"recorder.py", "sitecustomize.py", "ci_score_marks.py"}
    for path in FILES:
        if room_of(module_of(path)) != "cli" and path.name not in of_the_user:
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in ("sys.exit", "os.environ", "getenv")), path


def test_architecture__the_plan_has_no_circle() -> None:
    """The rooms that a room imports do not import it, either directly or through others."""
    left = {room.name: set(room.knows) for room in ROOMS}
    while free := {room for room, knows in left.items() if not knows & left.keys()}:
        left = {room: knows for room, knows in left.items() if room not in free}
    assert not left


def test_architecture__no_drawers() -> None:
    """Every module has a telling name, which does not shadow the standard library."""
    names = {path.stem for path in FILES}
    assert not names & {"utils", "util", "common", "helpers", "misc", "tools"}
    assert not {room.name for room in ROOMS} & set(sys.stdlib_module_names)


def test_tests__no_test_module_imports_another() -> None:
    """Test modules share code only through `tests/builders`."""
    for path in (PROJECT / "tests").rglob("*.py"):
        for one in imports(path):
            parts = f"{one.module}.{one.name}".split(".")
            assert parts[0] != "tests" or not any(part.startswith("test_") for part in parts[1:]), (
                f"{path.name} imports {one.module}"
            )


def test_contributing__draws_the_house() -> None:
    """The picture in CONTRIBUTING is the one that the plan makes; `make picture` writes it."""
    page = PROJECT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    drawn = drawn_in(text)
    assert drawn is not None
    if os.environ.get("CI_SCORE_WRITE_PICTURE"):
        page.write_text(text.replace(drawn, picture()), encoding="utf-8")
    else:
        assert drawn == picture()

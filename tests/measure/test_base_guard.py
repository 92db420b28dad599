"""What head changes in the base's folder, and what it may change there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ci_score.measure.sides import leftovers
from ci_score.measure.sides.base_guard import BaseGuard
from ci_score.measure.sides.spec import SideSpec
from tests.builders import write

LONG = "a" * 250


@dataclass(frozen=True)
class Place:
    """Both sides' folders, with a base that has some of everything."""

    top: Path

    @property
    def base(self) -> Path:
        """The side that is to stay as it is."""
        return self.top / "base"

    @property
    def head(self) -> Path:
        """The side whose code runs."""
        return self.top / "head"

    def guard(self) -> BaseGuard:
        """Of a session in the base's own folder, without any Python on PATH."""
        base, head = SideSpec(self.base), SideSpec(self.head)
        found = BaseGuard.against(base, head, self.base / "perf", {"PATH": ""})
        assert found is not None
        return found

    def broken_by(self, change: Callable[[Place], object]) -> str:
        """What the guard says of a change."""
        guard = self.guard()
        before = guard.look()
        change(self)
        return guard.broken(before)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in (
        "base/train.py",
        "base/pkg/__pycache__/model.pyc",
        "base/.venv/lib/torch.py",
        "base/.git/HEAD",
        "base/.git/hooks/post-checkout",
        "base/.git/index",
        "base/linked.py",
        "head/train.py",
        "build/base/model.so",
        "build/both/model.so",
        "data/x",
    ):
        write(tmp_path / name, "1")
    os.link(tmp_path / "base/linked.py", tmp_path / "installers_cache")
    for name, target in (
        ("base/build", "build/base"),
        ("base/model.so", "build/base/model.so"),
        ("base/shared", "build/both"),
        ("head/shared", "build/both"),
        ("base/up", ""),
        ("base/own", "base/pkg"),
        ("base/heads", "head"),
        ("base/nowhere", "gone"),
        ("base/processes", "/proc"),
    ):
        (tmp_path / name).symlink_to(tmp_path / target)
    return Place(tmp_path)


def rewrite(path: Path, text: str = "2") -> None:
    """Other content of the same length, and a time of writing that does not say so."""
    before = path.stat()
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def deep(folder: Path) -> None:
    """A folder whose path is longer than the kernel takes, with a file in it."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(LONG, dir_fd=here)
        inner = os.open(LONG, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("x.py", os.O_CREAT, dir_fd=here))
    os.close(here)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda it: rewrite(it.base / "train.py"), "train.py"),
        (lambda it: (it.base / "train.py").unlink(), "train.py"),
        (lambda it: (it.base / "train.py").chmod(0o600), "train.py"),
        (lambda it: (it.base / "train.py").replace(it.base / "old.py"), "old.py, train.py"),
        (lambda it: write(it.base / "new/x", ""), "new/, new/x"),
        (lambda it: (it.base / "torch").mkdir(), "torch/"),
        (lambda it: (it.base / "pkg").rename(it.base / "moved"), "moved/, moved/__pycache__/, mo"),
        (lambda it: rewrite(it.base / "pkg/__pycache__/model.pyc"), "pkg/__pycache__/model.pyc"),
        (lambda it: rewrite(it.base / ".venv/lib/torch.py"), ".venv/lib/torch.py"),
        (lambda it: rewrite(it.base / ".git/hooks/post-checkout"), ".git/hooks/post-checkout"),
        (lambda it: write(it.base / ".git/config", "[core]"), ".git/config"),
        (lambda it: rewrite(it.base / "linked.py"), "linked.py"),
        (lambda it: rewrite(it.top / "installers_cache"), "linked.py"),
        (lambda it: os.link(it.base / "train.py", it.top / "hidden"), "train.py"),
        (lambda it: rewrite(it.top / "build/base/model.so"), "build/model.so, model.so (where"),
        (lambda it: write(it.top / "build/base/new.so", ""), "build/new.so"),
        (lambda it: (it.base / "nowhere").unlink(), "nowhere"),
        (lambda it: deep(it.base), f"{LONG}/, {LONG}"),
    ],
)
def test_guard__sees_what_changes_the_base(
    place: Place, change: Callable[[Place], object], named: str
) -> None:
    """Code, compiled modules, environments, what git runs, and what only the base links to."""
    assert place.broken_by(change).startswith(named)


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None,
        lambda it: write(it.base / "perf/log", ""),
        lambda it: rewrite(it.head / "train.py"),
        lambda it: write(it.base / ".git/objects/ab/c", ""),
        lambda it: rewrite(it.base / ".git/index"),
        lambda it: write(it.base / ".ruff_cache/x", ""),
        lambda it: os.link(it.base / "linked.py", it.top / "another_environment"),
        lambda it: rewrite(it.top / "build/both/model.so"),
        lambda it: rewrite(it.top / "data/x"),
        lambda it: os.utime(it.base / "pkg"),
    ],
)
def test_guard__lets_head_do_the_rest(place: Place, change: Callable[[Place], object]) -> None:
    """The session's folder, git's own books, what both sides link to, an installer's new link."""
    assert place.broken_by(change) == ""


def python_in(folder: Path) -> Path:
    """An environment, as `python -m venv` makes it."""
    write(folder / "pyvenv.cfg", "")
    write(folder / "lib/torch.py", "1")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    return python


def test_guard__an_environment_that_both_run_by_is_not_the_bases(place: Place) -> None:
    """Python compiles in it what only head imports, however head comes by it."""
    python = python_in(place.base / "env")
    base, head = SideSpec(place.base), SideSpec(place.head)
    for side, environment, command in (
        (head, {"PATH": str(python.parent)}, ()),
        (head, {}, (str(python), "train.py")),
        (replace(head, python=python), {}, ()),
    ):
        guard = BaseGuard.against(base, side, place.top, environment, command)
        assert guard is not None
        before = guard.look()
        rewrite(place.base / "env/lib/torch.py")
        assert guard.broken(before) == ""
    assert BaseGuard.against(base, base, place.top, {}) is None


def test_guard__watches_an_environment_of_the_base_elsewhere(place: Place) -> None:
    """Unless head runs by it, too, or it is the machine's own Python."""
    base, head = (
        SideSpec(folder, python_in(place.top / "envs" / folder.name))
        for folder in (place.base, place.head)
    )
    torch = place.top / "envs/base/lib/torch.py"
    for side, is_watched in ((head, True), (replace(head, python=base.python), False)):
        guard = BaseGuard.against(base, side, place.top / "perf", {"PATH": "/usr/bin"})
        assert guard is not None
        before = guard.look()
        rewrite(torch)
        assert guard.broken(before).startswith(f"{torch} changed" if is_watched else "") is True
        assert bool(guard.broken(before)) is is_watched
    (place.top / "envs/base/pyvenv.cfg").unlink()
    guard = BaseGuard.against(base, head, place.top / "perf", {"PATH": "/usr/bin"})
    assert guard is not None
    assert guard.environment is None


def test_guard__says_what_it_cannot_watch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many files, before head runs or after it."""
    guard = place.guard()
    before = guard.look()
    monkeypatch.setattr(leftovers, "MOST_FILES", 3)
    assert "it has more than 3 files; keep data elsewhere" in guard.blind(guard.look())
    assert " (it has more than 3 files) changed in the base's folder" in guard.broken(before)


@pytest.mark.parametrize(
    ("can_enter", "unseen"), [(True, "closed/: Permission denied"), (False, "")]
)
def test_guard__of_a_folder_that_is_closed(
    place: Place, monkeypatch: pytest.MonkeyPatch, can_enter: bool, unseen: str
) -> None:
    """Who cannot enter it cannot change it, unless by opening it first."""
    closed = place.base / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refuses(path: str) -> object:
        if "closed" in path:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuses)
    monkeypatch.setattr(os, "access", lambda *_: can_enter)
    guard = place.guard()
    assert guard.look().unseen == ("closed/: Permission denied" if can_enter else "")
    if not can_enter:
        assert place.broken_by(lambda _: opened_and_closed(closed))


def opened_and_closed(folder: Path) -> None:
    mode = folder.stat().st_mode
    folder.chmod(0o700)
    folder.chmod(mode)

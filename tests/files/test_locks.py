"""A folder for one process alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_score.errors import WrongUseError
from ci_score.files import locks
from ci_score.files.locks import alone


def test_lock__is_held_once_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes second is refused, and may come again."""
    monkeypatch.setattr(locks, "LOCK_SECONDS", 0.0)
    lock = tmp_path / "new" / ".lock"
    for _ in range(2):
        with alone(lock, "busy"), pytest.raises(WrongUseError, match="busy"), alone(lock, "busy"):
            raise AssertionError("two have it")
        assert not lock.exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "file"])
def test_lock__in_whose_place_something_stands(tmp_path: Path, kind: str) -> None:
    """A launch may have put anything there; what a link leads to stays as it is."""
    lock, other = tmp_path / ".lock", tmp_path / "other"
    other.write_text("mine", encoding="utf-8")
    puts: dict[str, Callable[[], None]] = {
        "link": lambda: lock.symlink_to(other),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
        "file": lock.touch,
    }
    puts[kind]()
    with alone(lock, "busy"):
        assert lock.is_file()
    assert other.read_text("utf-8") == "mine"


def test_lock__where_nothing_can_be_written(tmp_path: Path) -> None:
    """It says where, and what to do."""
    (tmp_path / "file").touch()
    lock, told = tmp_path / "file" / ".lock", r"cannot be written .*; look elsewhere"
    with pytest.raises(WrongUseError, match=told), alone(lock, "busy", "look elsewhere"):
        raise AssertionError("nobody holds it")


def test_lock__where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have none, and people measure there, too."""

    def refuses(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuses)
    with alone(tmp_path / ".lock", "busy"):
        assert (tmp_path / ".lock").exists()

"""Why a measurement failed, as a small file in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_score.cli.session import leaving_why
from ci_score.errors import SetupFailedError
from ci_score.files.failures import FAILED_FILE, failure_in, gist_of


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of a workflow."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")


def left_in(folder: Path) -> str:
    return failure_in((folder / FAILED_FILE).read_bytes(), FAILED_FILE)


@pytest.mark.usefixtures("job")
def test_leaving_why__keeps_what_was_said(tmp_path: Path) -> None:
    """The words of a session that measured nothing, and those of an error, which goes on."""
    out = tmp_path / "perf" / "training~1"
    with leaving_why(out) as because:
        because("head: it exited with 1\n | Traceback\n | no such layer\n")
    assert left_in(out) == "head: it exited with 1 … no such layer"
    with pytest.raises(SetupFailedError), leaving_why(out):
        raise SetupFailedError("base", "--setup exited with 2")
    assert left_in(out) == "base: --setup exited with 2"


@pytest.mark.usefixtures("job")
def test_leaving_why__costs_nothing_where_it_cannot(tmp_path: Path) -> None:
    """The error itself is what counts, as where the disk is full."""
    (tmp_path / FAILED_FILE).mkdir()
    with pytest.raises(SetupFailedError), leaving_why(tmp_path):
        raise SetupFailedError("base", "--setup exited with 2")


@pytest.mark.usefixtures("job")
def test_leaving_why__forgets_what_failed_before(tmp_path: Path) -> None:
    """A session that goes on in the same folder and measures has no last words."""
    with leaving_why(tmp_path) as because:
        because("no such layer")
    with leaving_why(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_leaving_why__of_a_person_s_own_machine_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have just read it, and wanted no folder."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    with leaving_why(tmp_path / "perf") as because:
        because("no such layer")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("job")
def test_leaving_why__where_nothing_can_be_written(tmp_path: Path) -> None:
    """The sentence is lost, and nothing else breaks."""
    (tmp_path / "perf").touch()
    with leaving_why(tmp_path / "perf") as because:
        because("no such layer")
    assert (tmp_path / "perf").read_bytes() == b""


@pytest.mark.parametrize(
    ("words", "gist"),
    [
        ("", ""),
        (" \n | \n", ""),
        ("one line", "one line"),
        ("first\nmiddle\nlast", "first … last"),
        ("a" * 1000 + "\n" + "b" * 1000, "a" * 199 + "… … " + "b" * 199 + "…"),
        ("\u202ehidden", "\ufffdhidden"),
        ("it failed\n  | a\n  | b\n  python was x", "it failed … b"),
    ],
)
def test_gist__is_the_first_line_and_the_last_one(words: str, gist: str) -> None:
    """What happened, and how a log ended, on one visible line."""
    assert gist_of(words) == gist

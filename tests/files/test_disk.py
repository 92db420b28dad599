"""What is written, and where it can end up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_score.errors import WrongUseError
from ci_score.files.disk import write_atomically


@pytest.mark.parametrize("there", ["nothing", "file", "link", "link to nothing", "pipe"])
@pytest.mark.parametrize("follow", [False, True])
def test_write__leaves_links_and_pipes_to_what_a_person_has_named(
    there: str, follow: bool, tmp_path: Path
) -> None:
    """Anything else that stands there, a stranger's program may have put there."""
    path, elsewhere = tmp_path / "made.json", tmp_path / "elsewhere"
    elsewhere.write_text("precious", encoding="utf-8")
    if there == "file":
        path.write_text("old", encoding="utf-8")
    elif there == "pipe":
        os.mkfifo(path)
    elif there != "nothing":
        path.symlink_to(elsewhere if there == "link" else tmp_path / "to be made")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if there == "pipe" and follow else None
    write_atomically(path, "new", follow=follow)
    if reader is not None:
        assert os.read(reader, 9) == b"new"
        os.close(reader)
    else:
        assert path.read_text(encoding="utf-8") == "new"
    assert path.is_symlink() == (follow and there.startswith("link"))
    is_written_through = follow and there == "link"
    assert elsewhere.read_text(encoding="utf-8") == ("new" if is_written_through else "precious")


def test_write__never_takes_a_folder_away(tmp_path: Path) -> None:
    """A folder of that name is an error."""
    (tmp_path / "made.json" / "kept").mkdir(parents=True)
    with pytest.raises(WrongUseError, match="cannot be written"):
        write_atomically(tmp_path / "made.json", "new")
    assert (tmp_path / "made.json" / "kept").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["made.json"]

"""Why a measurement failed, as a small file among its results: one line, which decides nothing.

The job that judges runs on another machine, and knows of a failed one only that it failed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ci_score.errors import BadInputError, CiScoreError
from ci_score.files.disk import write_atomically
from ci_score.files.strict_json import dump, parse
from ci_score.files.visible import plain

FAILED_FILE = "failed.json"
LARGEST_FAILURE, LONGEST_GIST = 16 * 1024, 400


def leave_failure(folder: Path, words: str) -> None:
    """Writes why; a folder that cannot be written costs the sentence, and nothing else."""
    with suppress(OSError, CiScoreError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FAILED_FILE, dump({"schema": 1, "words": gist_of(words)}))


def forget_failure(folder: Path) -> None:
    """Takes away what an earlier measurement has left."""
    with suppress(OSError):
        (folder / FAILED_FILE).unlink(missing_ok=True)


def gist_of(words: str) -> str:
    """The first line and the last one: what happened, and how a log ended."""
    # Lines of a log begin with a stroke. The line after them may only name the program.
    rows = [each.strip() for each in words.splitlines() if each.strip(" |")]
    logged = [row for row in rows if row.startswith("|")]
    ends = dict.fromkeys((rows[0], (logged or rows)[-1])) if rows else {}
    return " … ".join(plain(row.strip(" |"), LONGEST_GIST // 2) for row in ends)


def failure_in(data: bytes, source: str) -> str:
    """The words in a stranger's file, as one visible line; BadInputError for any other file."""
    value = parse(data, source)
    words = value.get("words") if isinstance(value, dict) else None
    if not isinstance(words, str) or not words.strip():
        raise BadInputError(source, found="no words", expected="why a measurement failed")
    return plain(words.strip(), LONGEST_GIST)

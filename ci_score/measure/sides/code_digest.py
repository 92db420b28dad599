"""What tells the code of a folder apart where git does not know it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from ci_score.files.disk import open_plain
from ci_score.measure.sides.command import READ
from ci_score.measure.sides.leftovers import SKIPPED, Snapshot, snapshot

# What a program is made of. A .json or .txt is more often what a launch has written.
SOURCES = (*READ, ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".pyx", ".rs", ".so")
# Where frameworks keep what each run of theirs was.
RESULTS = frozenset({"lightning_logs", "multirun", "outputs", "mlruns", "wandb", ".hydra"})
# Of more, or of larger ones, size and time of the last write stand for what they hold.
MOST_READ, LARGEST_READ, MOST_BYTES = 20_000, 1 << 20, 128 << 20


def code_digest(folder: Path, without: Iterable[Path]) -> str:
    """Changes with the source files in a folder, but for what lies in those places."""
    seen = snapshot(folder, without, SKIPPED | RESULTS)
    found = blake2b(digest_size=8)
    if seen.unseen:
        found.update(os.urandom(8))  # nobody knows that it is the same
    left = MOST_BYTES
    for number, (name, size, written) in enumerate(_sources(seen)):
        content = None
        if number < MOST_READ and size <= min(LARGEST_READ, left):
            content = _content(folder / name)
            left -= size
        about = (size, written) if content is None else len(content)
        found.update(f"{name}\0{about}\0".encode(errors="surrogateescape") + (content or b""))
    return found.hexdigest()


def _sources(seen: Snapshot) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of writing of each, always in the same order."""
    for inner in sorted(seen.folders):
        if any(name.endswith(SOURCES) for name in seen.folders[inner][0].split("\0")):
            for name, (_, size, written, *_) in sorted(seen.rows(inner).items()):
                if name.endswith(SOURCES):
                    yield name, size, written


def _content(file: Path) -> bytes | None:
    """What stands in it, or in what it links to; None where that cannot be read."""
    with suppress(OSError), open_plain(Path(os.path.realpath(file))) as stream:
        return stream.read(LARGEST_READ + 1)
    return None

"""Files in and out: limits before reading, whole files or none when writing."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from ci_score.errors import BadInputError, WrongUseError

STANDARD_INPUT = "-"
PROFILE_LIMIT = 512 * 1024 * 1024
# What a run leaves and what it takes from a stranger's artifact; a user's own files may be larger.
RECORD_LIMIT = 5 * 1024 * 1024
LOCAL_RECORD_LIMIT = 64 * 1024 * 1024
# Real traces shrink by 10 to 50 times; a small file may shrink by more and is no bomb.
LARGEST_RATIO = 200
RATIO_COUNTS_FROM = 16 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"


def display_name(name: str) -> str:
    """How a source is called in messages."""
    return "standard input" if name == STANDARD_INPUT else name


def read_bytes(name: str, limit: int = PROFILE_LIMIT) -> bytes:
    """The bytes of a file, or of standard input for `-`; gzip is known by its content."""
    source = display_name(name)
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise BadInputError(source, found="nothing: it is closed", expected="a file")
        return _unpacked(_read_limited(sys.stdin.buffer, source, limit), source, limit)
    path = Path(name)
    try:
        if path.is_dir():
            raise BadInputError(source, found="a folder", expected="a file")
        with path.open("rb") as stream:
            return _unpacked(_read_limited(stream, source, limit), source, limit)
    except FileNotFoundError:
        raise BadInputError(source, found="no such file", expected="a file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(
            source, found=f"a file that cannot be read ({reason})", expected="a file"
        ) from None


def write_atomically(path: Path, text: str) -> None:
    """Puts `text` at `path` in one move: a reader finds the old file or the new one, never half.

    A link is followed, and what is no regular file (a pipe, a device) is written to as it is.
    """
    temporary: Path | None = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        # mkstemp makes private files; what a run leaves is for the next step of the workflow.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise WrongUseError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def give_to_owner_of(folder: Path, paths: Iterable[Path]) -> None:
    """Hands files that root made in a container to whoever owns the workspace.

    Otherwise the next checkout on a self-hosted runner cannot remove them.
    """
    if os.geteuid() != 0:
        return
    owner = folder.stat()
    for path in paths:
        # A network share or a rootless container may not allow it, and need it either.
        with suppress(OSError):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read_limited(stream: BinaryIO, source: str, limit: int) -> bytes:
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise _too_large(source, limit)
    return data


def _unpacked(data: bytes, source: str, limit: int) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    # One layer only: a gzip within a gzip is nobody's profile and somebody's bomb.
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as stream:
            largest = min(limit, max(LARGEST_RATIO * len(data), RATIO_COUNTS_FROM))
            unpacked = stream.read(largest + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise BadInputError(
            source, found="a gzip that is cut short or damaged", expected="a whole gzip"
        ) from None
    if len(unpacked) > limit:
        raise _too_large(source, limit)
    if len(unpacked) > largest:
        raise BadInputError(
            source,
            found=f"a gzip that unpacks to over {LARGEST_RATIO} times its size",
            expected="an ordinary gzip",
        )
    return unpacked


def _too_large(source: str, limit: int) -> BadInputError:
    return BadInputError(
        source,
        found=f"more than {limit // 2**20} MiB (unpacked)",
        expected=f"at most {limit // 2**20} MiB",
    )

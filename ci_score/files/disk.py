"""Files in and out: limits before reading, whole files or none when writing."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ci_score.errors import (
    BadInputError,
    CiScoreError,
    DiskFullError,
    NoSuchFileError,
    WrongUseError,
)
from ci_score.files.archives import too_large, unpacked

STANDARD_INPUT = "-"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PROFILE_LIMIT = 512 * 1024 * 1024
# A record that a run leaves, or takes from an artifact, unpacked. A user's own may be larger.
RECORD_LIMIT = 32 * 1024 * 1024
LOCAL_RECORD_LIMIT = 64 * 1024 * 1024


def display_name(name: str) -> str:
    """The name of a source in messages."""
    return "standard input" if name == STANDARD_INPUT else name


def read_bytes(name: str, limit: int = PROFILE_LIMIT) -> bytes:
    """The bytes of a file, or of standard input for `-`; gzip is recognised by its content."""
    source = display_name(name)
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise BadInputError(source, found="a closed stream", expected="a file")
        return unpacked(_read_limited(sys.stdin.buffer, source, limit), source, limit)
    path = Path(name)
    try:
        if path.is_dir():
            raise BadInputError(source, found="a folder", expected="a file")
        with path.open("rb") as stream:
            return unpacked(_read_limited(stream, source, limit), source, limit)
    except FileNotFoundError:
        raise NoSuchFileError(source) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(
            source, found=f"a file that cannot be read ({reason})", expected="a file"
        ) from None


def leaves(path: Path, folder: Path) -> bool:
    """Whether a path that is named below the folder leads out of it, by a link of a stranger's."""
    try:
        return not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return True  # links in a circle lead nowhere


def open_plain(path: Path) -> BinaryIO:
    """A plain file for reading, which a stranger's program may have replaced.

    OSError for a link, which could lead anywhere, and for a pipe or a device, which could be
    without end.
    """
    stream = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")  # noqa: PTH123, SIM115 - Path cannot say how to open, and the caller closes it
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    raise OSError(errno.EINVAL, "no plain file", str(path))


def remove(path: Path) -> None:
    """Takes away whatever stands there: a file, a folder, or a link and never what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def write_atomically(path: Path, text: str, *, follow: bool = False) -> None:
    """Writes `text` to `path` in one step: a reader sees the old file or the new one, never half.

    A link, a pipe or a device gives way to the file: it could lead anywhere, and whoever reads the
    pipe could let us wait. `follow` is for a path that a person has typed, such as /dev/stdout.
    """
    temporary: Path | None = None
    try:
        if follow:
            path = path.resolve()
            if path.exists() and not path.is_file():
                path.write_text(text, encoding="utf-8", newline="\n")
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        # mkstemp makes private files, but the next step of the workflow reads this one.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError, advice: str = "") -> CiScoreError:
    """Why a path cannot be written; a full disk is nobody's wrong use."""
    if is_full(error):
        return DiskFullError(path, str(error.strerror))
    more = f"; {advice}" if advice else ""
    return WrongUseError(f"{path}: cannot be written ({error.strerror}){more}")


def is_full(error: OSError) -> bool:
    """Whether there is no room: on the disk, or for one who may have so much."""
    return error.errno in FULL


def give_to_owner_of(folder: Path, paths: Iterable[Path]) -> None:
    """Hands files that root made in a container to whoever owns the workspace.

    Otherwise the next checkout on a self-hosted runner cannot remove them.
    """
    if os.geteuid() != 0:
        return
    owner = folder.stat()
    for path in paths:
        # A network share or a rootless container may forbid it, and does not need it.
        with suppress(OSError):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read_limited(stream: BinaryIO, source: str, limit: int) -> bytes:
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise too_large(source, limit)
    return data

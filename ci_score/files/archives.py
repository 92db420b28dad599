"""Archives from strangers. They are read in memory; nothing is unpacked to a disk."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import PurePosixPath

from ci_score.errors import BadInputError

# Of 256 cases forty each.
MOST_MEMBERS = 10_000
LARGEST_DIRECTORY = 2 * 1024 * 1024
# Real traces shrink by 10 to 50 times. A small file may shrink by more and is not a bomb.
LARGEST_RATIO = 200
ZIP_RATIO_COUNTS_FROM = 1024 * 1024
GZIP_RATIO_COUNTS_FROM = 16 * 1024 * 1024
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ZIP_MAGIC, _END, _GZIP_MAGIC = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b"


def is_zip(data: bytes) -> bool:
    """Whether the bytes are a zip; the name of an artifact does not tell."""
    return data.startswith((_ZIP_MAGIC, _END))


def read_member(data: bytes, name: str, source: str, limit: int) -> bytes:
    """The member of that name, in any folder. An upload that is not a zip is the file itself."""
    if not is_zip(data):
        if len(data) > limit:
            raise too_large(source, limit)
        return data
    with _opened(data, source) as archive:
        named = [info for info in _members(archive, source) if _basename(info) == name]
        if not named:
            raise BadInputError(source, found=f"a zip without {name}", expected=name)
        return _read(archive, min(named, key=lambda info: len(info.filename)), source, limit)


def read_members(data: bytes, source: str, limit: int) -> Iterator[tuple[str, bytes]]:
    """Every file of the archive; the limit is for all of them together."""
    if not is_zip(data):
        yield source, data
        return
    left = limit
    with _opened(data, source) as archive:
        for info in _members(archive, source):
            content = _read(archive, info, f"{source}/{info.filename}", left)
            left -= len(content)
            yield info.filename, content


def unpacked(data: bytes, source: str, limit: int) -> bytes:
    """What a gzip holds; other bytes as they are."""
    if not data.startswith(_GZIP_MAGIC):
        return data
    largest = min(limit, max(LARGEST_RATIO * len(data), GZIP_RATIO_COUNTS_FROM))
    try:
        # Only one layer: no profiler writes a gzip within a gzip, but an attacker may.
        with gzip.GzipFile(fileobj=BytesIO(data)) as stream:
            content = stream.read(largest + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise BadInputError(
            source, found="a gzip that is cut short or damaged", expected="a whole gzip"
        ) from None
    if len(content) > limit:
        raise too_large(source, limit)
    if len(content) > largest:
        raise _bomb(source, "gzip")
    return content


def too_large(source: str, limit: int) -> BadInputError:
    """The error for a file of more than `limit` bytes."""
    size = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit // 2**10} KiB"
    return BadInputError(source, found=f"more than {size} (unpacked)", expected=f"at most {size}")


def _bomb(source: str, kind: str) -> BadInputError:
    return BadInputError(
        source,
        found=f"a {kind} that unpacks to over {LARGEST_RATIO} times its size",
        expected=f"an ordinary {kind}",
    )


class _Stream(BytesIO):
    """The bytes of a zip, of which the directory is read only if it is small.

    Python reads the whole directory before its members can be counted. An archive may claim its
    size at several places, and so the read itself is refused.
    """

    is_opened = False

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > LARGEST_DIRECTORY and not self.is_opened:
            raise _DirectoryError
        return super().read(size)


class _DirectoryError(Exception):
    """Raised inside of zipfile, which does not know the source."""


def _opened(data: bytes, source: str) -> zipfile.ZipFile:
    stream = _Stream(data)
    try:
        archive = zipfile.ZipFile(stream)
    except _DirectoryError:
        raise BadInputError(
            source, found="a zip of too many files", expected="fewer files"
        ) from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        raise BadInputError(source, found="a damaged zip", expected="a whole zip") from None
    stream.is_opened = True
    return archive


def _members(archive: zipfile.ZipFile, source: str) -> list[zipfile.ZipInfo]:
    members = [info for info in archive.infolist() if info.filename and not info.is_dir()]
    if len(members) > MOST_MEMBERS:
        raise BadInputError(
            source, found=f"{len(members)} files in a zip", expected=f"at most {MOST_MEMBERS}"
        )
    for info in members:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise BadInputError(
                source,
                found=f"a zip with the path {ascii(info.filename)[:80]}",
                expected="paths inside the zip",
            )
    return members


def _basename(info: zipfile.ZipInfo) -> str:
    return PurePosixPath(info.filename).name


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: str, limit: int) -> bytes:
    if info.file_size > limit:
        raise too_large(source, limit)
    if info.file_size > max(LARGEST_RATIO * info.compress_size, ZIP_RATIO_COUNTS_FROM):
        raise _bomb(source, "zip")
    if info.flag_bits & 0x1 or info.compress_type not in _READABLE:
        raise BadInputError(
            source,
            found="a zip that is encrypted or compressed in an unusual way",
            expected="a stored or deflated member",
        )
    try:
        with archive.open(info) as member:
            # The size in the header may be a lie: one byte more than the limit shows it.
            content = member.read(limit + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError):
        raise BadInputError(source, found="a damaged zip", expected="a whole zip") from None
    if len(content) > limit:
        raise too_large(source, limit)
    return content

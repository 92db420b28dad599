"""Zip archives from strangers, read in memory: nothing is ever unpacked to a disk."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import PurePosixPath

from ci_score.errors import BadInputError

MOST_MEMBERS = 2000
LARGEST_DIRECTORY = 1024 * 1024
LARGEST_RATIO = 200
# Where a small member compresses well it is no bomb.
RATIO_COUNTS_FROM = 1024 * 1024
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x06"
_ZIP_MAGIC = b"PK\x03\x04"


def is_zip(data: bytes) -> bool:
    """By its first bytes: artifacts may be no zip at all, whatever their name."""
    return data.startswith((_ZIP_MAGIC, _END))


def read_member(data: bytes, name: str, source: str, limit: int) -> bytes:
    """The member of that name, in whatever folder; an upload that is no zip is it itself."""
    if not is_zip(data):
        if len(data) > limit:
            raise _too_large(source, limit)
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


def _opened(data: bytes, source: str) -> zipfile.ZipFile:
    if _directory_size(data) > LARGEST_DIRECTORY:
        # Python reads the whole directory before anybody can count its members.
        raise BadInputError(source, found="a zip of too many files", expected="fewer of them")
    try:
        return zipfile.ZipFile(BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        raise BadInputError(source, found="a damaged zip", expected="a whole zip") from None


def _directory_size(data: bytes) -> int:
    """What the end of the archive says of its directory, in the old and in the 64-bit form."""
    end = data.rfind(_END, max(len(data) - 66_000, 0))
    if end < 0 or end + 16 > len(data):
        return 0
    size = int.from_bytes(data[end + 12 : end + 16], "little")
    large = data.rfind(_END_64, max(end - 200, 0), end)
    if large >= 0:
        size = max(size & 0x7FFFFFFF, int.from_bytes(data[large + 40 : large + 48], "little"))
    return size


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
        raise _too_large(source, limit)
    bomb = info.file_size > LARGEST_RATIO * max(info.compress_size, 1)
    if bomb and info.file_size > RATIO_COUNTS_FROM:
        raise BadInputError(
            source,
            found="a zip that unpacks to over 200 times its size",
            expected="an ordinary zip",
        )
    if info.flag_bits & 0x1 or info.compress_type not in _READABLE:
        raise BadInputError(
            source, found="an encrypted or exotic zip", expected="a stored or deflated member"
        )
    try:
        with archive.open(info) as member:
            # The header's size is the stranger's word; one byte more shows that it was a lie.
            content = member.read(limit + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError):
        raise BadInputError(source, found="a damaged zip", expected="a whole zip") from None
    if len(content) > limit:
        raise _too_large(source, limit)
    return content


def _too_large(source: str, limit: int) -> BadInputError:
    return BadInputError(
        source, found=f"more than {limit // 2**20} MiB", expected=f"at most {limit // 2**20} MiB"
    )

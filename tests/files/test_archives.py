"""Zips from strangers are read in memory and within limits, and never extracted."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.errors import BadInputError
from ci_score.files.archives import LARGEST_DIRECTORY, MOST_MEMBERS, read_member, read_members

LIMIT = 1024 * 1024


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_read_member__wherever_it_lies() -> None:
    """A file is found in any folder, because upload actions differ; the outermost one counts."""
    data = zipped({"a/b/ci-score.json": b"deep", "a/ci-score.json": b"near", "x": b""})
    assert read_member(data, "ci-score.json", "zip", LIMIT) == b"near"


def test_read_member__of_what_is_no_zip_is_the_upload_itself() -> None:
    """An upload that is not a zip is the file itself, whatever its name."""
    assert read_member(b"{}", "ci-score.json", "upload", LIMIT) == b"{}"


REFUSED = {
    "a path upwards": zipped({"../ci-score.json": b""}),
    "a path upwards with backslashes": zipped({"..\\ci-score.json": b""}),
    "an absolute path": zipped({"/etc/ci-score.json": b""}),
    "without it": zipped({"other.json": b""}),
    "an empty zip": zipped({}),
    "too large": zipped({"ci-score.json": b"x" * (LIMIT + 1)}, zipfile.ZIP_STORED),
    "a bomb": zipped({"ci-score.json": bytes(LIMIT * 2)}),
    "too many": zipped({f"{number}": b"" for number in range(MOST_MEMBERS + 1)}),
    "cut short": zipped({"ci-score.json": b"x" * 1000})[:-30],
    "exotic": zipped({"ci-score.json": b"x" * 1000}, zipfile.ZIP_LZMA),
    "not a zip and too large": b"{" * (LIMIT + 1),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_read_member__refuses(data: bytes) -> None:
    """A bad zip is an error with its reason, before anything is unpacked."""
    with pytest.raises(BadInputError, match="upload"):
        read_member(data, "ci-score.json", "upload", LIMIT)


def test_read_member__a_header_that_lies_about_the_size() -> None:
    """The limit counts the bytes that are read, because the size in the header may be false."""
    data = bytearray(zipped({"ci-score.json": b"x" * (2 * LIMIT)}, zipfile.ZIP_STORED))
    true_size = (2 * LIMIT).to_bytes(4, "little")
    small = (10).to_bytes(4, "little")
    with pytest.raises(BadInputError):
        read_member(bytes(data).replace(true_size, small), "ci-score.json", "upload", LIMIT)


def test_read_member__a_large_directory_is_not_read() -> None:
    """A record of its end that seems to begin inside another one hides no directory's size."""
    name = b"n" * 60_000
    entry = b"PK\x01\x02" + bytes(24) + len(name).to_bytes(2, "little") + bytes(16) + name
    directory = entry * (LARGEST_DIRECTORY // len(entry) + 2)
    size = len(directory).to_bytes(4, "little")
    end = b"PK\x05\x06" + bytes(8) + size + b"PK\x05\x06" + bytes(2)
    with pytest.raises(BadInputError, match="too many files"):
        read_member(b"PK\x03\x04" + directory + end, "ci-score.json", "upload", LIMIT)


def test_read_members__share_one_limit() -> None:
    """Many files that are each small enough are refused if they are too large together."""
    files = {str(number): b"x" * (LIMIT // 2) for number in range(3)}
    with pytest.raises(BadInputError, match="at most"):
        list(read_members(zipped(files, zipfile.ZIP_STORED), "upload", LIMIT))


@given(st.binary(max_size=300), st.integers(0, 200), st.binary(max_size=8))
def test_read_member__never_crashes(junk: bytes, place: int, patch: bytes) -> None:
    """Any bytes give content or one of our errors."""
    whole = bytearray(zipped({"ci-score.json": junk}))
    whole[place : place + len(patch)] = patch
    for data in (bytes(whole), b"PK\x03\x04" + junk, junk):
        try:
            read_member(data, "ci-score.json", "upload", LIMIT)
        except BadInputError:
            continue

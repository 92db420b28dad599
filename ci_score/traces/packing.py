"""Files packed with gzip or Zstandard, unpacked in pieces: never more memory than a piece asks for.

A file may be several packed parts, one after the other, and zeros behind them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import IO, Any, Protocol

MAGIC_BYTES = 4
_READ_BYTES = 256 * 1024
_GZIP = re.compile(rb"\x1f\x8b", re.DOTALL)
# A frame, or one that a reader skips: parallel writers begin with such a one.
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_GZIP_WBITS = 16 + zlib.MAX_WBITS
# What a frame may ask to keep in memory: 128 MiB is what every level of `zstd` stays within.
_ZSTD_WINDOW_LOG = 27
_WINDOW_TOO_LARGE = "too much memory"


class CutError(Exception):
    """What is packed ends early, or is damaged from some place on."""


class NotUnpackedError(Exception):
    """It cannot be unpacked here; the message says what it is."""


class _Unpacker(Protocol):
    """One packed part: as in the standard library, with all of its input inside."""

    @property
    def eof(self) -> bool:
        """Whether the part has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes out of what went in."""

    @property
    def unused_data(self) -> bytes:
        """What was put in behind its end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most that many bytes."""


class _Gzip:
    """zlib's object gives back the input that it has not used; this one keeps it."""

    def __init__(self, library: Any) -> None:
        self._inner = library.decompressobj(wbits=_GZIP_WBITS)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def needs_input(self) -> bool:
        return not (self._is_full or self._inner.unconsumed_tail)

    @property
    def unused_data(self) -> bytes:
        unused: bytes = self._inner.unused_data
        return unused

    def decompress(self, data: bytes, max_length: int) -> bytes:
        tail = self._inner.unconsumed_tail
        piece: bytes = self._inner.decompress(tail + data if tail else data, max_length)
        self._is_full = len(piece) == max_length
        return piece


def is_packed(begin: bytes) -> bool:
    """Whether a file that begins with these bytes is packed."""
    return is_gzip(begin) or _ZSTD.match(begin) is not None


def is_gzip(begin: bytes) -> bool:
    """Whether it is packed with gzip, which says at its end how long it was."""
    return _GZIP.match(begin) is not None


def unpacked(stream: IO[bytes], begin: bytes, size: int) -> Iterator[bytes]:
    """The unpacked bytes in pieces of `size`; all that there are, and then CutError."""
    if _GZIP.match(begin):
        library = _gzip()
        return _pieces(stream, size, lambda: _Gzip(library), library.error)
    library = _zstd()
    options = {library.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    return _pieces(
        stream, size, lambda: library.ZstdDecompressor(options=options), library.ZstdError
    )


def _gzip() -> Any:
    """The faster one of two libraries that do the same."""
    try:
        return import_module("isal.isal_zlib")
    except ImportError:
        return zlib


def _zstd() -> Any:
    """Python's own since 3.14, before that the same as a package."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise NotUnpackedError("packed with Zstandard, which this Python cannot read")


def _pieces(
    stream: IO[bytes], size: int, begin: Callable[[], _Unpacker], broken: type[Exception]
) -> Iterator[bytes]:
    unpacker, piece = begin(), b""
    problem: Exception | None = None
    while problem is None:
        data = b""
        if unpacker.eof:
            data = _next_part(stream, unpacker.unused_data)
            if not data:
                break
            unpacker = begin()
        elif unpacker.needs_input:
            data = stream.read(_READ_BYTES)
            problem = None if data else CutError()
        try:
            piece += unpacker.decompress(data, size - len(piece)) if problem is None else b""
        except broken as error:
            is_too_large = _WINDOW_TOO_LARGE in str(error)
            wanted = f"packed with a window of over {2**_ZSTD_WINDOW_LOG // 1024**2} MiB"
            problem = NotUnpackedError(wanted) if is_too_large else CutError()
        if len(piece) == size:
            yield piece
            piece = b""
    if piece:
        yield piece
    if problem is not None:
        raise problem


def _next_part(stream: IO[bytes], data: bytes) -> bytes:
    """Where the next packed part begins, behind zeros; nothing where the file ends."""
    data = data.lstrip(b"\0")
    while not data:
        more = stream.read(_READ_BYTES)
        if not more:
            break
        data = more.lstrip(b"\0")
    return data

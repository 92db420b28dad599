"""A file of a profiler, wherever it is: its first bytes, its chunks, the whole, or a path."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ci_score.errors import BadInputError, NoSuchFileError
from ci_score.traces.packing import MAGIC_BYTES, CutError, NotUnpackedError, is_packed, unpacked

HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 1024 * 1024
# What a file may unpack to. A trace of an hour is a few gigabytes; a bomb has no end.
UNPACKED_LIMIT = 8 * 1024**3
# What may be read at once, for formats that cannot be read in pieces.
WHOLE_LIMIT = 512 * 1024**2


class CutShortError(BadInputError):
    """The file ends early, or is damaged from some place on: what came before that is good."""

    def __init__(self, source: str) -> None:
        super().__init__(
            source, found="a packed file that is cut short or damaged", expected="a whole one"
        )


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """One file, not read yet: on disk, or in memory where it came out of an artifact."""

    name: str
    path: Path | None = None
    data: bytes | None = None
    unpacked_limit: int = UNPACKED_LIMIT
    # What the user calls a step, where a reader finds several names that may be one.
    step_name: re.Pattern[str] | None = None

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first bytes, unpacked: enough to know the format."""
        return next(self.chunks(size), b"")

    def chunks(self, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The unpacked bytes, in pieces of `size`.

        A packed file that is cut short gives every byte there is, and then raises CutShortError: a
        reader that can use a part keeps it and says so.
        """
        total = 0
        with self._raw() as stream:
            for piece in self._pieces(stream, size):
                total += len(piece)
                if total > self.unpacked_limit:
                    raise BadInputError(
                        self.name,
                        found=f"more than {self.unpacked_limit / 1024**3:g} GiB (unpacked)",
                        expected="less, or a higher `ci-score convert --unpacked-limit`",
                    )
                yield piece

    def whole(self, limit: int = WHOLE_LIMIT) -> bytes:
        """All of it, for formats that cannot be read in pieces."""
        data, is_cut = self.whole_or_cut(limit)
        if is_cut:
            raise CutShortError(self.name)
        return data

    def whole_or_cut(self, limit: int = WHOLE_LIMIT) -> tuple[bytes, bool]:
        """All of it, or all there is of one that is cut short or damaged; and which it is."""
        chunks, total = [], 0
        try:
            for chunk in self.chunks():
                total += len(chunk)
                if total > limit:
                    raise BadInputError(
                        self.name,
                        found=f"more than {limit // 1024**2} MiB",
                        expected=f"at most {limit // 1024**2} MiB of this format",
                    )
                chunks.append(chunk)
        except CutShortError:
            return b"".join(chunks), True
        return b"".join(chunks), False

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """A path to the unpacked file, for formats that only a library opens."""
        if self.path is not None and not self._packed():
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="ci-score-") as folder:
            copy = Path(folder) / "profile"
            with copy.open("wb") as stream:
                stream.writelines(self.chunks())
            yield copy

    def _packed(self) -> bool:
        with self._raw() as stream:
            return is_packed(stream.read(MAGIC_BYTES))

    def _raw(self) -> IO[bytes]:
        if self.data is not None:
            return io.BytesIO(self.data)
        if self.path is None:
            raise BadInputError(self.name, found="nothing", expected="a file")
        try:
            if self.path.is_dir():
                raise BadInputError(self.name, found="a folder", expected="a file")
            return self.path.open("rb")
        except FileNotFoundError:
            raise NoSuchFileError(self.name) from None
        except OSError as error:
            raise BadInputError(
                self.name, found=f"a file that cannot be read ({error.strerror})", expected="a file"
            ) from None

    def _pieces(self, stream: IO[bytes], size: int) -> Iterator[bytes]:
        begin = stream.read(MAGIC_BYTES)
        stream.seek(0)
        if not is_packed(begin):
            while chunk := stream.read(size):
                yield chunk
            return
        try:
            yield from unpacked(stream, begin, size)
        except CutError:
            raise CutShortError(self.name) from None
        except NotUnpackedError as error:
            raise BadInputError(
                self.name, found=f"a file {error}", expected="a gzip, or `zstd` without --long"
            ) from None

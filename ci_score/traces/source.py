"""A file of a profiler, wherever it is: its first bytes, its chunks, the whole, or a path."""

from __future__ import annotations

import io
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ci_score.errors import BadInputError, NoSuchFileError, WrongUseError
from ci_score.traces.packing import (
    MAGIC_BYTES,
    CutError,
    NotUnpackedError,
    is_gzip,
    is_packed,
    unpacked,
)

HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 1024 * 1024
# What a file may unpack to. A trace of an hour is a few gigabytes; a bomb has no end.
UNPACKED_LIMIT = 8 * 1024**3
# What may be read at once, for formats that cannot be read in pieces.
WHOLE_LIMIT = 512 * 1024**2
# A trace is some ten times as long as packed, and rarely fifty times.
_RATIO = 10
LARGEST_RATIO, RATIO_COUNTS_FROM = 200, 64 * 1024**2


class CutShortError(BadInputError):
    """The file ends early, or is damaged from some place on: what came before that is good."""

    def __init__(self, source: str) -> None:
        super().__init__(
            source, found="a packed file that is cut short or damaged", expected="a whole one"
        )


# The names of ranges are short, and so may be what is looked for in them.
LONGEST_STEP_NAME = 200
# A trace's names are a stranger's, and `(a+)+b` would be tried on them until the job ends: a group
# may not repeat, and little else.
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEATS, _MOST_REPEATS = re.compile(r"(?<!\\)[*+{]"), 3
_CHOICES, _MOST_CHOICES = re.compile(r"(?<![\\(])\?|(?<!\\)\|"), 12


def step_pattern(text: str) -> re.Pattern[str] | None:
    """What a user calls a step, as an expression; None of an empty text."""
    if not text:
        return None
    try:
        if len(text) > LONGEST_STEP_NAME:
            raise re.error(f"more than {LONGEST_STEP_NAME} characters")
        repeats, choices = len(_REPEATS.findall(text)), len(_CHOICES.findall(text))
        if _REPEATED_GROUP.search(text) or repeats > _MOST_REPEATS or choices > _MOST_CHOICES:
            raise re.error(
                f"it may be searched for forever: no group may repeat, at most {_MOST_REPEATS}"
                f" things may, and {_MOST_CHOICES} may be missing or another"
            )
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise WrongUseError(
            f"step-name: {text[:80]!r} cannot be searched for ({error}); write a regular expression"
            " that is found in the names of your steps, such as `my_step`"
        ) from None


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """One file, not read yet: on disk, or in memory where it came out of an artifact."""

    name: str
    path: Path | None = None
    data: bytes | None = None
    unpacked_limit: int = UNPACKED_LIMIT
    # What the user calls a step, where a reader finds several names that may be one.
    step_name: re.Pattern[str] | None = None
    # How many processes may read it, where it is large enough for several.
    processes: int = 1
    # By the clock that the processes of a machine share: nothing is read after that.
    until: float | None = None

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first bytes, unpacked: enough to know the format."""
        return next(self.chunks(size), b"")

    def chunks(self, size: int = CHUNK_BYTES, start: int = 0) -> Iterator[bytes]:
        """The unpacked bytes from `start` on, in pieces of `size`; a gzip has only one start.

        A packed file that is cut short gives every byte there is, and then raises CutShortError: a
        reader that can use a part keeps it and says so.
        """
        total = start
        with self._raw() as stream:
            ordinary = max(LARGEST_RATIO * stream.seek(0, io.SEEK_END), RATIO_COUNTS_FROM)
            stream.seek(0)
            for piece in self._pieces(stream, size, start):
                if self.until is not None and time.monotonic() > self.until:
                    raise BadInputError(
                        self.name,
                        found="nothing, because reading all of the files takes too long",
                        expected="fewer or smaller ones: `ci-score convert` makes such of profiles",
                    )
                total += len(piece)
                if total > ordinary:
                    raise BadInputError(
                        self.name,
                        found=f"a file that unpacks to over {LARGEST_RATIO} times its size",
                        expected="an ordinary one, or its content unpacked",
                    )
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
        if self.path is not None and not self.size()[1]:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="ci-score-") as folder:
            copy = Path(folder) / "profile"
            with copy.open("wb") as stream:
                stream.writelines(self.chunks())
            yield copy

    def size(self) -> tuple[int, bool]:
        """How many bytes it has, and whether it is packed.

        Of a gzip as many as its end says: that may be wrong, and of 4 GiB or more it is. Of another
        packing a guess.
        """
        with self._raw() as stream:
            begin = stream.read(MAGIC_BYTES)
            size = stream.seek(0, io.SEEK_END)
            if not is_packed(begin):
                return size, False
            if not is_gzip(begin):
                return size * _RATIO, True
            stream.seek(max(size - 4, 0))
            return int.from_bytes(stream.read(4), "little"), True

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

    def _pieces(self, stream: IO[bytes], size: int, start: int) -> Iterator[bytes]:
        begin = stream.read(MAGIC_BYTES)
        stream.seek(start)
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

"""The log that Megatron-LM or torchtitan prints: one log is one launch, its lines are its steps.

It may have hundreds of megabytes, of which a few lines matter: it is read in pieces.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.formats.log_text import looks_like_text
from ci_score.traces.formats.training_lines import MARKS, step_line, without_colour
from ci_score.traces.formats.training_run import Log, profile_of
from ci_score.traces.source import CutShortError, ProfileSource

# What is longer is no line of a trainer.
LONGEST_LINE = 64 * 1024
# Lines that may tell something: of thousands of steps of hundreds of ranks.
MOST_MARKED = 2_000_000


def recognises(head: bytes) -> bool:
    """Text in whose beginning a line is about a step."""
    text = _decoder(head)(head)
    return looks_like_text(text) and any(map(step_line, _wanted(text)))


def read(source: ProfileSource) -> Profile:
    """The steps of the last run in the log."""
    profile = find(source)
    if profile is None:
        raise BadInputError(
            source.name,
            found="text without a line about a step",
            expected="a log of Megatron-LM or torchtitan",
        )
    return profile


def find(source: ProfileSource) -> Profile | None:
    """The steps of the last run in a log; None if no line is about a step."""
    log = Log()
    try:
        for count, line in enumerate(_lines(source)):
            if count == MOST_MARKED:
                raise BadInputError(
                    source.name,
                    found=f"over {MOST_MARKED} lines of trainers",
                    expected="the log of one launch",
                )
            log.read(line)
    except CutShortError:
        log.is_cut = True
    if not log.rows:
        return None
    with overflow_is_bad_input(source.name):
        return profile_of(log)


# --- lines ----------------------------------------------------------------------------------------


def _lines(source: ProfileSource) -> Iterator[bytes]:
    """The lines that may tell something, without holding the whole text."""
    rest = b""
    decode = None
    for chunk in source.chunks():
        decode = decode or _decoder(chunk)
        # Bars of progress go back to the start of their line.
        text = rest + decode(chunk).replace(b"\r", b"\n")
        end = text.rfind(b"\n") + 1
        yield from _wanted(text[:end])
        rest = text[end:][-LONGEST_LINE:]
    yield from _wanted(rest)


def _decoder(head: bytes) -> Callable[[bytes], bytes]:
    """What makes UTF-8 of the text: PowerShell writes UTF-16 with a mark."""
    marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    encoding = marks.get(head[:2])
    if encoding is None:
        return bytes
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    return lambda data: decoder.decode(data).encode(errors="replace")


def _wanted(text: bytes) -> Iterator[bytes]:
    """The lines with a mark, in their order."""
    ends: dict[int, int] = {}
    for mark in MARKS:
        place = text.find(mark)
        while place >= 0:
            begin, end = text.rfind(b"\n", 0, place) + 1, text.find(b"\n", place)
            ends[begin] = end if end >= 0 else len(text)
            place = text.find(mark, ends[begin])
    for begin, end in sorted(ends.items()):
        yield without_colour(text[begin : min(end, begin + LONGEST_LINE)])

"""What sentences are made of: times, numbers and places, and names that each renderer shows."""

from __future__ import annotations

from typing import Self

from ci_score.model.metrics import percent_digits, significant, three_digits
from ci_score.report.name_words import LONGEST_NAME
from ci_score.report.numbers import TWICE, from_to, multiple

# Around a name within a sentence that is being made; nothing of a stranger's keeps them.
_BEGIN, _END = "\ue000", "\ue001"
_NO_MARKS = str.maketrans({_BEGIN: "\ufffd", _END: "\ufffd"})


class Name(str):
    """A name within a sentence, such as an op's, a case's or a job's."""

    __slots__ = ()


class Place(str):
    """A line of a file within a sentence, as `model.py:88`; `address` is there once it is linked.

    `side` says whose line it is.
    """

    __slots__ = ("address", "line", "path", "side")
    path: str
    line: int | None
    side: str
    address: str

    def __new__(
        cls,
        shown: str,
        path: str = "",
        line: int | None = None,
        side: str = "head",
        address: str = "",
    ) -> Self:
        """The words, and what they stand for."""
        made = super().__new__(cls, shown)
        made.path, made.line, made.side, made.address = path, line, side, address
        return made


class Sentence(str):
    """A sentence as plain text, with its names in quotes; `pieces` keeps them apart."""

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, *pieces: str) -> Self:
        """Texts, names and other sentences, one after the other."""
        flat: list[str] = []
        for piece in pieces:
            flat += piece.pieces if isinstance(piece, Sentence) else [piece]
        made = cls("".join(f"'{one}'" if isinstance(one, Name) else one for one in flat))
        made.pieces = tuple(one for one in flat if one)
        return made

    @classmethod
    def marked(cls, text: str) -> Self:
        """A text in which `quoted_name` has marked the names."""
        first, *others = text.split(_BEGIN)
        pieces = [first]
        for other in others:
            name, _, rest = other.partition(_END)
            pieces += [Name(name), rest]
        return cls.of(*pieces)

    @property
    def capitalized(self) -> Sentence:
        """With a capital where it begins with a word, and not with a name."""
        first, *rest = self.pieces or ("",)
        if isinstance(first, Name | Place):
            return self
        return Sentence.of(first[:1].upper() + first[1:], *rest)


def unmarked(text: str) -> str:
    """A stranger's text, in which nothing looks like the mark of a name."""
    return text.translate(_NO_MARKS)


def ms_words(value: float) -> str:
    """A time; one below zero is an error of rounding."""
    return significant(max(value, 0.0), "ms")


def times_words(base_ms: float, head_ms: float) -> str:
    """`1.20 → 2.40 ms`"""
    return from_to(ms_words(base_ms), ms_words(head_ms))


def longer_words(base_ms: float, head_ms: float, each: str = "") -> str:
    """`2.2× as long (21.8 → 47.9 ms)`, `38 % longer (…)`; `each` says of what, as ` a step`."""
    times = f"{times_words(base_ms, head_ms)}{each}"
    share = head_ms / base_ms - 1 if base_ms > 0 else 0.0
    if share >= TWICE:
        return f"{multiple(1 + share)} as long ({times})"
    shown = percent_digits(abs(share))
    if shown == "0":
        return times
    return f"{shown} % {'longer' if share > 0 else 'shorter'} ({times})"


def count_words(value: float) -> str:
    """A number of launches or calls, which may be a mean."""
    is_whole = value == round(value) and abs(value) < 1e15
    return f"{value:,.0f}" if is_whole else three_digits(value)


def quoted_name(name: str) -> str:
    """A name of the program's, cut where it is long."""
    return f"{_BEGIN}{name[:LONGEST_NAME]}{_END}"


def place_words(
    layers: str | None, repeats: int | None, direction: str | None, phase: str | None
) -> str:
    """` in the backward of layers 0–23`; empty if the place is not known."""
    if layers:
        several = "s" if "–" in layers else ""
        words = f"repeat{several} {layers} of {repeats}" if repeats else f"layer{several} {layers}"
        return f" in the {direction} of {words}" if direction else f" in {words}"
    if not phase:
        return ""
    if phase.lower() in ("forward", "fwd", "backward", "bwd"):
        return f" in the {phase.lower()}"
    return f" in phase {quoted_name(phase)}"

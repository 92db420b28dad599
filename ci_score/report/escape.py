"""Where a stranger's text meets markdown.

Op, file and branch names come from pull requests. Rendered, they may only ever be text: no table
cell may end early, nobody may be mentioned, no link, image, HTML or issue reference may appear,
and no invisible character may reorder what a reviewer reads.
"""

from __future__ import annotations

import re

from ci_score.files.visible import LONGEST_NAME, plain
from ci_score.report.cause_words import Name, Place, Sentence

_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")
_LIST_START = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
_LINK_STARTS = re.compile(r"(?i)(:(?=/)|(?<=www)\.)")
_REFERENCE = re.compile(r"(?i)gh-(?=\d)")
_BACKTICKS = re.compile(r"`+")
_BREAK = "\u200b"  # zero-width space: ends a mention or a reference, and shows nothing


class Safe(str):
    """Markdown that we made ourselves; everything else is escaped on its way into a template."""

    __slots__ = ()


def text(value: object, longest: int = 1000) -> str:
    """A value as running text: what looks like markup is shown, not obeyed."""
    if isinstance(value, Safe):
        return value
    if isinstance(value, Sentence):
        return "".join(_piece(piece, longest) for piece in value.pieces)
    if isinstance(value, Place) and value.address:
        return f"[{text(str(value), longest)}]({value.address})"
    line = plain(str(value), longest)
    line = _MARKUP.sub(r"\\\1", line)
    line = _LINK_STARTS.sub(r"\\\1", line)
    line = _REFERENCE.sub(rf"\g<0>{_BREAK}", line)
    return line.replace("@", f"@{_BREAK}").replace("#", f"\\#{_BREAK}")


def _piece(piece: str, longest: int) -> str:
    return code(piece) if isinstance(piece, Name) else text(piece, longest)


def paragraph(value: object) -> Safe:
    """Running text at the start of a line, where `1.` or `-` would begin a list."""
    line = text(value).lstrip()
    start = _LIST_START.match(line)
    if start is None:
        return Safe(line)
    # A backslash escapes punctuation only: of `12.` it is the full stop that has to be escaped.
    cut = start.end() if start[1].isdigit() else 0
    return Safe(f"{line[:cut]}\\{line[cut:]}")


def code(value: str, longest: int = LONGEST_NAME) -> Safe:
    """A name as a code span: nothing in it is read as markdown, a mention or a link."""
    line = plain(value, longest).replace("##[", "# #[")
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(line)), default=0))
    pad = " " if line[:1] in ("`", "") or line[-1:] == "`" else ""
    return Safe(f"{fence}{pad}{line}{pad}{fence}")


def cell(value: str, longest: int = LONGEST_NAME) -> Safe:
    """A name as a code span in a table, where a bare pipe would end the cell.

    A table reads `\\\\|` as an end too; a space between keeps the backslash and the pipe.
    """
    return Safe(code(value, longest).replace("\\|", "\\ |").replace("|", "\\|"))


def sentence_cell(told: Sentence) -> Safe:
    """A sentence in a table: its names are code spans without a bare pipe."""
    return Safe("".join(cell(one) if isinstance(one, Name) else text(one) for one in told.pieces))

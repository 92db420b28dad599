"""A stranger's text as one visible line, for a log, a terminal or a report.

No invisible character may reorder what a person reads, and no line may be a command to the runner
of a workflow that prints it.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_NAME = 80
# Cf has the bidi controls and the characters without width. The others are control characters,
# separators, and what Unicode leaves to private use or to the future.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_COMMAND = re.compile(r"((?:^|\r)\s*)::", re.MULTILINE)


def plain(text: str, longest: int = LONGEST_NAME) -> str:
    """One visible line: line breaks become spaces, invisible characters a visible mark."""
    if len(text) <= longest and text.isascii() and text.isprintable():
        return text  # as nearly all are: a report has a hundred thousand of them
    line = "".join(
        " " if character in "\n\r\t" else "\ufffd" if _is_invisible(character) else character
        for character in text[: longest + 1]
    )
    return line if len(line) <= longest else line[: longest - 1] + "…"


def log_line(text: str, longest: int = 400) -> str:
    """One line for a log or a terminal."""
    return unlike_commands(plain(text, longest))


def unlike_commands(text: str) -> str:
    """The text with nothing that a workflow's runner would obey when it is printed.

    It obeys a line that begins with `::`, even after spaces, and `##[` anywhere. A carriage return
    ends a line, too.
    """
    return _COMMAND.sub(r"\1: :", text).replace("##[", "# #[")


def _is_invisible(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    return unicodedata.category(character) in _INVISIBLE

"""Colour for a person at a terminal. It repeats what the words say, and never says it alone."""

from __future__ import annotations

import os
import re
import sys

import click

from ci_score.files.visible import unlike_commands

_VERDICTS = {"Pass": "green", "Warning": "yellow", "Inconclusive": "magenta", "Fail": "red"}
_MARKS = {
    "✅ within": "green",
    "⚠️ warning": "yellow",
    "❔ too noisy": "magenta",
    "❌ fails": "red",
    "☑️ accepted": "cyan",
}
_VERDICT = re.compile(rf"^({'|'.join(_VERDICTS)}): .*$", re.MULTILINE)
_MARK = re.compile("|".join(_MARKS))
# A heading stands alone on its line, over a table or a list.
_HEADING = re.compile(r"^(?:Hotspots|Notes|Where .+)$", re.MULTILINE)


def show_report(text: str) -> None:
    """Prints a report, with colour where a person looks at it and has not said no."""
    safe = unlike_commands(text)
    click.echo(painted(safe) if _is_wanted() else safe, nl=False)


def painted(text: str) -> str:
    """The report with its verdicts, marks and headings in colour."""
    text = _VERDICT.sub(lambda row: click.style(row[0], fg=_VERDICTS[row[1]], bold=True), text)
    text = _MARK.sub(lambda mark: click.style(mark[0], fg=_MARKS[mark[0]]), text)
    return _HEADING.sub(lambda row: click.style(row[0], bold=True), text)


def _is_wanted() -> bool:
    """NO_COLOR of any value turns it off, and so does whoever is no terminal."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()

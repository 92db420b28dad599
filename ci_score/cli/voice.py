"""What is said beside a result, on standard error. Light: an error of any command needs it."""

from __future__ import annotations

from contextlib import suppress

import click

from ci_score.files.visible import log_line


def say(message: str) -> None:
    """Tells the user something; a reader who is gone is no failure."""
    with suppress(OSError):
        click.echo(log_line(message, 2000), err=True)

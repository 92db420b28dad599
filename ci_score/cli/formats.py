"""`ci-score formats`: lists the files that are read, and what that was tested on."""

from __future__ import annotations

import click

from ci_score.cli.console import screen
from ci_score.files.strict_json import dump
from ci_score.traces import FORMATS


@click.command("formats")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the formats that are read.

    They are recognised by content, and may be packed with gzip or zstd.

    \b
    Examples:
      ci-score formats
      ci-score formats --json
    """
    if as_json:
        rows = [
            {"name": row.name, "description": row.description, "tested_on": row.tested_on}
            for row in FORMATS
        ]
        click.echo(dump(rows), nl=False)
        return
    for row in FORMATS:
        lines = [(row.name, row.description), ("", f"tested on {row.tested_on}")]
        click.echo(screen().table(lines, ("fixed", "text")))

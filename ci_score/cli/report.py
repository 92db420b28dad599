"""`ci-score report`: shows a record as a page."""

from __future__ import annotations

import click

from ci_score.baselines import read_record
from ci_score.cli import options
from ci_score.files.disk import LOCAL_RECORD_LIMIT, display_name, read_bytes
from ci_score.report import render


@click.command("report")
@click.argument("record", type=click.Path(allow_dash=True))
@click.option("--title", default="", metavar="TEXT", help="The title at the top of the page.")
@click.option(
    "--style",
    type=click.Choice(["html", "markdown", "terminal"]),
    default="html",
    show_default=True,
    help="Form of the report.",
)
@options.all_option
@options.output_file_option
def command(record: str, title: str, style: str, whole: bool, output: str | None) -> None:
    """Show RECORD, a ci-score.json, as one HTML file.

    The file needs no server and works from disk. It shows verdicts, trends with their commits,
    where the time went, layers, ops, pairs of launches, and how it was measured. RECORD may be -
    for standard input.

    \b
    Examples:
      ci-score report ci-score/ci-score.json -o report.html
      ci-score report ci-score.json --title nightly -o nightly.html
      ci-score report ci-score.json --style markdown
      ci-score report ci-score.json --style terminal --all
    """
    value = read_record(read_bytes(record, LOCAL_RECORD_LIMIT), display_name(record))
    file = options.Output(as_json=False, style=style, file=options.file_name(output))
    file.write(render(value, style, title, screen=file.screen, whole=whole))

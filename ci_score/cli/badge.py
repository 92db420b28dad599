"""`ci-score badge`: a record as a badge for a README."""

from __future__ import annotations

import click

from ci_score.baselines import read_record
from ci_score.cli import options
from ci_score.errors import WrongUseError
from ci_score.files.disk import LOCAL_RECORD_LIMIT, display_name, read_bytes
from ci_score.model.lists import did_you_mean, some_of
from ci_score.report import badge


@click.command("badge")
@click.argument("record", type=click.Path(allow_dash=True))
@click.option("--case", "name", metavar="NAME", help="Show only this case.")
@click.option("--label", default="", metavar="TEXT", help="The text on the left.")
@click.option("--endpoint", is_flag=True, help="Print the JSON of a shields.io endpoint badge.")
@options.output_file_option
def command(record: str, name: str | None, label: str, endpoint: bool, output: str | None) -> None:
    """Print a badge of RECORD: its throughput and its verdict.

    An SVG by default. --endpoint prints the JSON of a shields.io endpoint badge instead; serve it
    from any public address. RECORD may be - for standard input.

    \b
    Examples:
      ci-score badge ci-score/ci-score.json -o badge.svg
      ci-score badge ci-score.json --case llama-7b@h100
      ci-score badge ci-score.json --endpoint -o badge.json
    """
    value = read_record(read_bytes(record, LOCAL_RECORD_LIMIT), display_name(record))
    if name is not None:
        case = value.case(name)
        if case is None:
            cases = [one.name for one in value.cases]
            raise WrongUseError(
                f"--case {name[:80]}: the record's cases are {some_of(cases, 10) or 'none'}"
                f"{did_you_mean(name, cases)}"
            )
        value = value.but(cases=(case,), unjudged=None)
    text = badge(value, label, endpoint=endpoint)
    options.Output(as_json=endpoint, style="svg", file=options.file_name(output)).write(text)

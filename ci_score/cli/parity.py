"""`ci-score parity`: two runtimes on the same model."""

from __future__ import annotations

from typing import Any

import click

from ci_score.cli import options
from ci_score.files import LOCAL_RECORD_LIMIT, display_name, read_bytes
from ci_score.models import Parity, ParityProfile
from ci_score.parity import compute_parity
from ci_score.strict_json import dump, parse, validate


@click.command("parity")
@click.argument("ours", type=click.Path(allow_dash=True))
@click.argument("theirs", type=click.Path(allow_dash=True))
@options.output_options
def command(ours: str, theirs: str, **said: Any) -> None:
    """Compare OURS with THEIRS, op by op.

    Both are JSON files with runtime, throughput_tok_s, step_time_ms, kernel_launches_per_step and
    ops (name to milliseconds per step); one of them may be - for standard input.

    \b
    Examples:
      ci-score parity ours.json pytorch.json
      ci-score parity ours.json pytorch.json --style markdown -o parity.md
      ci-score parity ours.json pytorch.json --json
    """
    options.only_one_stdin(ours, theirs)
    output = options.output_of(said)
    output.write(_text(compute_parity(_read(ours), _read(theirs)), output))


def _read(name: str) -> ParityProfile:
    source = display_name(name)
    return validate(ParityProfile, parse(read_bytes(name, LOCAL_RECORD_LIMIT), source), source)


def _text(parity: Parity, output: options.Output) -> str:
    if output.as_json:
        return dump(parity)
    if output.style == "reference":
        from ci_score.report.reference import parity_markdown

        return parity_markdown(parity)
    if output.style == "markdown":
        from ci_score.report.markdown import parity_report

        return parity_report(parity)
    from ci_score.report.terminal import parity_text

    return parity_text(parity)

"""`ci-score parity`: two runtimes on the same model."""

from __future__ import annotations

from pathlib import Path

import click

from ci_score.cli import options
from ci_score.files import RECORD_LIMIT, display_name, read_bytes
from ci_score.models import Parity, ParityProfile
from ci_score.parity import compute_parity
from ci_score.strict_json import dump, parse, validate
from ci_score.verdict import EXIT_OK, EXIT_REGRESSION, EXIT_UNJUDGED


@click.command("parity")
@click.argument("ours")
@click.argument("theirs")
@click.option(
    "--require",
    is_flag=True,
    help="Exit 1 where parity is not achieved, 3 where nothing could be compared.",
)
@options.output_options
def command(
    ours: str, theirs: str, require: bool, as_json: bool, style: str, output: Path | None
) -> int:
    """Compare OURS with THEIRS, op by op.

    Both are JSON files with runtime, throughput_tok_s, step_time_ms, kernel_launches_per_step and
    ops (name to milliseconds per step); one may be - for standard input.

    \b
    Examples:
      ci-score parity ours.json pytorch.json
      ci-score parity ours.json pytorch.json --style markdown -o parity.md
      ci-score parity ours.json pytorch.json --require
    """
    parity = compute_parity(_read(ours), _read(theirs))
    options.write_result(_text(parity, as_json, style), output)
    if not require:
        return EXIT_OK
    if not parity.judged:
        return EXIT_UNJUDGED
    return EXIT_OK if parity.parity_achieved else EXIT_REGRESSION


def _read(name: str) -> ParityProfile:
    source = display_name(name)
    return validate(ParityProfile, parse(read_bytes(name, 8 * RECORD_LIMIT), source), source)


def _text(parity: Parity, as_json: bool, style: str) -> str:
    if as_json:
        return dump(parity)
    if style == "reference":
        from ci_score.report.reference import parity_markdown

        return parity_markdown(parity)
    if style == "markdown":
        from ci_score.report.markdown import parity_report

        return parity_report(parity)
    from ci_score.report.terminal import parity_text

    return parity_text(parity)

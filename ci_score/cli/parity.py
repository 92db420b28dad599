"""`ci-score parity`: two runtimes on the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ci_score.cli import options
from ci_score.files.disk import STANDARD_INPUT
from ci_score.files.strict_json import dump
from ci_score.model.scorecard import Parity, ParityProfile
from ci_score.reference import compute_parity
from ci_score.run.reading import read_side


@click.command("parity")
@click.argument("ours", type=click.Path(allow_dash=True))
@click.argument("theirs", type=click.Path(allow_dash=True))
@options.output_options
def command(ours: str, theirs: str, **said: Any) -> None:
    """Compare OURS with THEIRS, op by op.

    Each is any profile that is read (see `ci-score formats`), or JSON with runtime,
    throughput_tok_s, step_time_ms, kernel_launches_per_step and ops (name to milliseconds per
    step). Traces are compared by what their kernels do: two runtimes name them differently. Every
    ratio is OURS in times of THEIRS. Ops that cover less than half of either side's time are no
    basis for a judgement. One of the two may be - for standard input.

    \b
    Examples:
      ci-score parity ours.json pytorch.json
      ci-score parity ours.json pytorch.json --style markdown -o parity.md
      ci-score parity mi300.trace.json.gz h100.trace.json.gz
    """
    options.only_one_stdin(ours, theirs)
    output = options.output_of(said)
    # Two files of one name, as in main/trace.json and pr/trace.json, could not be told apart.
    alike = _name(ours) == _name(theirs)
    parity = compute_parity(_side(ours, "ours", alike=alike), _side(theirs, "theirs", alike=alike))
    output.write(_text(parity, output))


def _side(file: str, role: str, *, alike: bool) -> ParityProfile:
    return read_side(
        options.source_of(file), role if alike or file == STANDARD_INPUT else _name(file)
    )


def _name(file: str) -> str:
    """A file's name without its format: `h100` of `h100.trace.json.gz`."""
    return Path(Path(file).name.removesuffix(".gz")).stem.removesuffix(".trace")


def _text(parity: Parity, output: options.Output) -> str:
    if output.as_json:
        return dump(parity)
    if output.style == "reference":
        from ci_score.reference import parity_markdown

        return parity_markdown(parity)
    if output.style == "markdown":
        from ci_score.report.markdown import parity_report

        return parity_report(parity)
    from ci_score.report.terminal import parity_text

    return parity_text(parity)

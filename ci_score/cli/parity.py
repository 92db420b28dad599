"""`ci-score parity`: compares two runtimes on the same model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ci_score.cli import options
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED
from ci_score.files.disk import STANDARD_INPUT
from ci_score.files.strict_json import dump
from ci_score.reference import ParitySide, compute_parity
from ci_score.report import render
from ci_score.run import read_side


@click.command("parity")
@click.argument("ours", type=click.Path(allow_dash=True))
@click.argument("theirs", type=click.Path(allow_dash=True))
@options.step_name_option
@options.output_options
def command(ours: str, theirs: str, step_name: re.Pattern[str] | None, **chosen: Any) -> int:
    """Compare OURS with THEIRS, op by op.

    Each is a profile in any format (see `ci-score formats`), or JSON with runtime,
    throughput_tok_s, step_time_ms, kernel_launches_per_step and ops (name to milliseconds per
    step). Traces are compared by what their kernels do, because two runtimes name them differently.
    Every ratio is OURS divided by THEIRS. If the compared ops cover less than half of either side's
    time, there is no judgement; then, and if a side is not usable, the exit code is 3. One of the
    two may be - for standard input.

    \b
    Examples:
      ci-score parity ours.json pytorch.json
      ci-score parity ours.json pytorch.json --style markdown -o parity.md
      ci-score parity mi300.trace.json.gz h100.trace.json.gz
    """
    options.only_one_stdin(ours, theirs)
    output = options.output_of(chosen)
    # Files of the same name, as main/trace.json and pr/trace.json, are called ours and theirs.
    alike = _name(ours) == _name(theirs)
    sides = [
        read_side(
            replace(options.source_of(file), step_name=step_name),
            role if alike or file == STANDARD_INPUT else _name(file),
        )
        for file, role in ((ours, "ours"), (theirs, "theirs"))
    ]
    parity = compute_parity(*sides)
    text = render(parity, output.style, screen=output.screen)
    output.write(dump(parity) if output.as_json else text)
    unusable = any(isinstance(side, ParitySide) and side.unusable for side in sides)
    return EXIT_OK if parity.judged and not unusable else EXIT_UNJUDGED


def _name(file: str) -> str:
    """A file's name without its format: `h100` of `h100.trace.json.gz`."""
    return Path(Path(file).name.removesuffix(".gz")).stem.removesuffix(".trace")

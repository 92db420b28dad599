"""`ci-score measure`: measures one side alone, ready for `ci-score run`."""

from __future__ import annotations

import os
from typing import Any

import click

from ci_score.cli.console import say
from ci_score.cli.session import (
    TraceReader,
    WithCommand,
    measuring,
    place_in_words,
    profile_options,
    session_options,
)
from ci_score.cli.sides import side_of, side_options
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED
from ci_score.measure import OneSide, Request

MOST_LAUNCHES = 100


@click.command("measure", cls=WithCommand)
@session_options("perf", with_seed=False)
@click.option(
    "--launches",
    type=click.IntRange(1, MOST_LAUNCHES),
    default=2,
    show_default=True,
    metavar="N",
    help="How many launches are timed.",
)
@side_options
@profile_options(by_default=False)
def command(launches: int, **options: Any) -> int:
    """Measure a training script as it is: no comparison, no change to the script.

    Behind -- stands the command that trains, as you would type it. It runs once untimed, to see
    when its steps settle, and then --launches times timed. OUT gets measurements.jsonl and
    environment.json, and with --profile a profile: `ci-score run` compares them with the branch's
    record. `ci-score ab` is what proves a change: it measures both sides in turn.

    \b
    Examples:
      ci-score measure -- python train.py
      ci-score measure --launches 5 --profile --case small -- torchrun --nproc-per-node 2 train.py
      ci-score run --measurements perf
    """
    with (
        measuring(options["out"]) as here,
        side_of(options).ready(os.environ, here.line.says) as sides,
    ):
        request = Request(**options)
        alone = OneSide(request, launches, sides, os.environ)
        session = alone.run(TraceReader(), here.line, here.stopped)
        here.line.says(session.stopped)
        if not session.is_measured:
            here.because(session.stopped)
            return EXIT_UNJUDGED
    say(f"judge it: ci-score run --measurements {place_in_words(request.out)}")
    return EXIT_OK

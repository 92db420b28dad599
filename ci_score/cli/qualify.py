"""`ci-score qualify`: which limits a gate on this machine can have."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

import click

from ci_score.cli.console import say, show_report
from ci_score.cli.session import (
    WithCommand,
    interval_in_words,
    measuring,
    session_options,
)
from ci_score.cli.sides import side_of, side_options
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED
from ci_score.measure import Qualification, Qualifier, Request
from ci_score.model.lists import plural


@click.command("qualify", cls=WithCommand)
@session_options("qualification")
@side_options
@click.option("--json", "as_json", is_flag=True, help="Print the record.")
def command(as_json: bool, **request: Any) -> int:
    """Find out which limits this machine can gate, from an unchanged program and planted slowdowns.

    The same program runs against itself, and against itself with steps that really take 5 % and
    10 % longer. (Of a script that prints its own steps, only the numbers are made larger.) If
    launches spread by up to 0.5 %, the machine can gate at 3 %; up to 1 %, at 5 %; up to 3 %, at
    10 %; above that, it can gate counters only. The record is valid for 30 days: `ci-score ab`
    passes it on, and a policy with `qualified = true` under [measure] requires it.

    \b
    Examples:
      ci-score qualify -- python train.py
      ci-score qualify --dir ../main --out machine --json -- python train.py
    """
    with (
        measuring(request["out"]) as here,
        side_of(request).ready(os.environ, here.line.says) as sides,
    ):
        qualifier = Qualifier(Request(**request), sides, os.environ)
        for planted in qualifier.shares:
            here.line.says(f"planted +{_share(planted)}:" if planted else "unchanged:")
            session = qualifier.run(planted, here.line, here.stopped)
            if session.void or not session.can_be_judged:
                here.line.says(session.stopped)
                pairs = plural(len(session.pairs), "pair")
                here.line.says(f"nothing is qualified ({pairs} measured)")
                return EXIT_UNJUDGED
        result, record = qualifier.result(datetime.now(UTC))
        text = json.dumps(record, indent=2) + "\n"
        files = qualifier.keep(text)
    show_report(text if as_json else f"{text_of(result)}\n")
    say(f"written: {', '.join(map(str, files))}")
    return EXIT_OK


def text_of(result: Qualification) -> str:
    """The record, for people."""
    gate = f"times at {_share(result.gate_at)}" if result.gate_at else "counters only"
    spread = f"{100 * result.spread:.1f} %"
    lines = [f"launches of one program spread by {spread}: this machine can gate {gate}"]
    for row in result.found:
        what = f"planted +{_share(row.planted)}" if row.planted else "unchanged"
        missed = "not proven" if row.planted else "not called slower"
        outcome = "found" if row.caught else missed
        lines.append(f"  {what:<13} {interval_in_words(row.seen, row.low, row.high)}: {outcome}")
    if not result.trusted:
        lines.append("not trusted: it called an unchanged program slower, or missed a slowdown")
    return "\n".join([*lines, *(f"  - {advice}" for advice in result.advice)])


def _share(share: float) -> str:
    return f"{share * 100:.2g} %"

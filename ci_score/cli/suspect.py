"""`ci-score suspect`: whether one run looks wrong against the branch's history."""

from __future__ import annotations

import click

from ci_score.cli.console import say, screen, show_report
from ci_score.cli.machine import Machine
from ci_score.cli.options import all_option
from ci_score.cli.run import input_options, settings_here, world_of
from ci_score.errors import EXIT_OK, EXIT_SUSPICIOUS
from ci_score.files.strict_json import dump
from ci_score.report import render
from ci_score.run import suspicious_run


@click.command("suspect")
@input_options()
@click.option("--json", "as_json", is_flag=True, help="Print the record instead of the report.")
@all_option
@click.pass_obj
def command(machine: Machine, /, as_json: bool, whole: bool, **values: str | None) -> int:
    """Say whether one run looks wrong, so that an A/B measurement is worth its time.

    It takes the options of `ci-score run` and publishes nothing: no comment, no record, no output.
    It ignores the policy's `design`, which the A/B measurement then meets.

    \b
    Exit codes:
      10  it looks wrong: slower than a limit, crashed, other work, or a case is missing
       0  it looks right
       3  it cannot be decided: no baseline, another machine, too noisy, nothing measured

    \b
    Examples:
      ci-score suspect --measurements perf
      ci-score suspect --profiles profile.json --baseline main/
    """
    settings = settings_here(values)
    world = world_of(machine, lambda _record: None, quiet=as_json)
    record, code = suspicious_run(settings, world)
    if as_json:
        click.echo(dump(record), nl=False)
    else:
        show_report(render(record, "terminal", screen=screen(), whole=whole))
    words = {EXIT_SUSPICIOUS: "it looks wrong: measure it as an A/B", EXIT_OK: "nothing suspicious"}
    say(words.get(code, "it cannot be told: measure it as an A/B"))
    return code

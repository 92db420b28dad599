"""`ci-score suspect`: whether one run looks wrong against the branch's history."""

from __future__ import annotations

import os
from dataclasses import replace

import click

from ci_score.baselines import FolderBaselines
from ci_score.cli.colour import show_report
from ci_score.cli.machine import Machine
from ci_score.cli.progress import progress
from ci_score.cli.run import input_options, now, only_in_a_job, settings_here
from ci_score.cli.voice import say
from ci_score.files.strict_json import dump
from ci_score.judge.verdict import EXIT_OK
from ci_score.model.record import Record
from ci_score.report.terminal import report_text
from ci_score.run.action import World, checked_out, job_of, profiles_in_workspace, suspect_in_job
from ci_score.run.settings import Settings
from ci_score.run.story import run
from ci_score.run.triage import EXIT_SUSPICIOUS, ForOneRun, for_one_run, suspicion


@click.command("suspect")
@input_options
@click.option("--json", "as_json", is_flag=True, help="Print the record instead of the report.")
@click.pass_obj
def command(machine: Machine, /, as_json: bool, **values: str | None) -> int:
    """Say whether one run looks wrong, so that the A/B measurement is worth its time.

    It takes what `ci-score run` takes and publishes nothing: no comment, no record, no output. A
    policy's demand for interleaved pairs is left to that measurement.

    \b
    Exit codes:
      10  it looks wrong: slower than a limit, crashed, other work, or a case is missing
       0  it does not
       3  that cannot be told: no baseline, another machine, too noisy, nothing measured

    \b
    Examples:
      ci-score suspect --measurements perf
      ci-score suspect --profiles profile.json --baseline main/
    """
    settings = settings_here(values)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        world = World(os.environ, machine.sleep, now, say, click.echo, lambda _record: None)
        record = suspect_in_job(settings, world)
    else:
        record = _suspect_here(settings, quiet=as_json)
    if as_json:
        click.echo(dump(record), nl=False)
    else:
        show_report(report_text(record))
    code = suspicion(record)
    words = {EXIT_SUSPICIOUS: "it looks wrong: measure it as an A/B", EXIT_OK: "nothing suspicious"}
    say(words.get(code, "it cannot be told: measure it as an A/B"))
    return code


def _suspect_here(settings: Settings, *, quiet: bool) -> Record:
    only_in_a_job(settings)
    store = FolderBaselines(
        settings.baseline or settings.output_dir / "baselines",
        must_exist=settings.baseline is not None,
    )
    with progress("reading", quiet=quiet):
        job = job_of(settings, lambda: profiles_in_workspace(settings))
        return run(
            replace(
                job,
                policy=for_one_run(job.policy),
                commit=checked_out(settings.workspace),
                tracked=True,
            ),
            baselines=ForOneRun(store),
            publish=lambda _record: None,
            now=now,
        )

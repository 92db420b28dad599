"""`ci-score run`: the Action, and the same on a machine without GitHub."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.baselines import FolderBaselines
from ci_score.cli.colour import show_report
from ci_score.cli.machine import Machine
from ci_score.cli.progress import progress
from ci_score.cli.voice import say
from ci_score.errors import WrongUseError
from ci_score.files.strict_json import dump
from ci_score.judge.verdict import Gate, exit_code
from ci_score.model.record import Record
from ci_score.report.terminal import report_text
from ci_score.run.action import World, checked_out, job_of, profiles_in_workspace, run_action
from ci_score.run.inputs import INPUTS, TOKEN
from ci_score.run.publishing import write_files, write_page
from ci_score.run.settings import Settings, settings_of
from ci_score.run.story import run

F = TypeVar("F", bound=Callable[..., Any])


def input_options(command: F) -> F:
    """One option an input, which a container's INPUT_ variable sets as well."""
    for row in reversed(INPUTS):
        default = "GITHUB_TOKEN" if row.name == TOKEN else row.default
        command = click.option(
            f"--{row.name}",
            envvar=[row.variable, "GITHUB_TOKEN"] if row.name == TOKEN else row.variable,
            metavar="TEXT",
            help=row.help.replace("`", "") + (f"  [default: {default}]" if default else ""),
        )(command)
    return command


@click.command("run")
@input_options
@click.option("--json", "as_json", is_flag=True, help="Print the record instead of the report.")
@click.pass_obj
def command(machine: Machine, /, as_json: bool, **values: str | None) -> int:
    """Do the whole job: read, score, find the baseline, compare, judge, publish.

    In a GitHub Actions job it is the Action: inputs come as INPUT_ variables, baselines from the
    default branch's artifacts, and the report goes to the pull request and the job's summary.
    Elsewhere the baselines are a folder (--baseline, or ci-score/baselines), nothing is sent, and
    each run is compared with the one before.

    \b
    Examples:
      ci-score run --profiles profile.json
      ci-score run --profiles "llama@l4=out/*.json" --baseline main/ci-score.json
      ci-score run --measurements perf/measurements.jsonl --tokens-per-step 8192
    """
    settings = settings_here(values)

    def show(record: Record) -> None:
        if as_json:
            click.echo(dump(record), nl=False)
        else:
            show_report(report_text(record))

    if os.environ.get("GITHUB_ACTIONS") != "true":
        return run_here(settings, show, quiet=as_json)
    world = World(
        environment=os.environ,
        sleep=machine.sleep,
        now=now,
        say=say,
        command=click.echo,
        show=show,
    )
    return run_action(settings, world)


def settings_here(values: Mapping[str, str | None]) -> Settings:
    """The settings that the options or a container's variables spell, in the workspace."""
    inputs = {name.replace("_", "-"): value or "" for name, value in values.items()}
    return settings_of(inputs, Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()))


def only_in_a_job(settings: Settings) -> None:
    """What is wrong use elsewhere."""
    if settings.profile_artifact:
        raise WrongUseError("profile-artifact reads this run's artifacts: it needs a GitHub job")


def run_here(settings: Settings, show: Callable[[Record], None], *, quiet: bool = False) -> int:
    """Without GitHub: a folder remembers, and everything is printed."""
    only_in_a_job(settings)
    named = settings.baseline is not None
    store = FolderBaselines(
        settings.baseline or settings.output_dir / "baselines", must_exist=named
    )
    with progress("reading", quiet=quiet):
        record = run(
            replace(
                job_of(settings, lambda: profiles_in_workspace(settings)),
                commit=checked_out(settings.workspace),
                run=store.next_run(),
                tracked=True,
            ),
            baselines=store,
            publish=lambda record: write_files(record, settings),
            now=now,
        )
    if not named and record.cases:
        store.save(record, dump(record))
    unwritten = write_page(record, settings)
    show(record)
    folder = settings.output_dir
    say(f"written: {folder / 'ci-score.json'}, {folder / 'report.md'}, {folder / 'report.html'}")
    if unwritten:
        say(unwritten)
    return exit_code(record, Gate(settings.fail_on, settings.on_inconclusive))


def now() -> str:
    """The time in the one form that records have."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

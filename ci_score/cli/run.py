"""`ci-score run`: the Action, and the same on a machine without GitHub."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.cli.console import progress, say, screen, show_report
from ci_score.cli.local_code import LocalCode
from ci_score.cli.machine import Machine
from ci_score.cli.options import all_option, in_a_job
from ci_score.files.strict_json import dump
from ci_score.model.record import Record
from ci_score.report import render
from ci_score.run import INPUTS, Settings, World, run_as_asked

F = TypeVar("F", bound=Callable[..., Any])


def input_options(*names: str) -> Callable[[F], F]:
    """One option per input, or for those of these names; an INPUT_ variable sets it as well."""

    def with_options(command: F) -> F:
        for row in reversed([INPUTS[name] for name in names or INPUTS]):
            default = "GITHUB_TOKEN" if row.is_token else row.default
            # A shell hands down no name with a hyphen.
            variables = [row.variable, row.variable.replace("-", "_")]
            command = click.option(
                f"--{row.name}",
                envvar=[*variables, "GITHUB_TOKEN"] if row.is_token else variables,
                metavar="TEXT",
                help=row.help.replace("`", "") + (f"  [default: {default}]" if default else ""),
            )(command)
        return command

    return with_options


@click.command("run")
@input_options()
@click.option("--json", "as_json", is_flag=True, help="Print the record instead of the report.")
@all_option
@click.pass_obj
def command(machine: Machine, /, as_json: bool, whole: bool, **values: str | None) -> int:
    """Do the whole job: read, score, find the baseline, compare, judge, publish.

    In a GitHub Actions job this is the Action: inputs come as INPUT_ variables, baselines come from
    the default branch's artifacts, and the report goes to the pull request and the job's summary.
    Elsewhere a folder holds the baselines (--baseline, or ci-score/baselines), nothing is sent, and
    each run is compared with the one before it.

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
            show_report(render(record, "terminal", screen=screen(), whole=whole))

    return run_as_asked(settings, world_of(machine, show, quiet=as_json))


def world_of(machine: Machine, show: Callable[[Record], None], *, quiet: bool = True) -> World:
    """What a run needs from this machine, or from the job on it."""
    code = LocalCode(workspace(), os.environ)
    return World(
        environment=os.environ,
        sleep=machine.sleep,
        clock=machine.clock,
        now=now,
        say=say,
        command=click.echo,
        show=show,
        reading=progress("reading", quiet=quiet),
        diffs=code.between,
        tracked=code.tracked,
    )


def settings_here(values: Mapping[str, str | None]) -> Settings:
    """The settings from the options or a container's variables, for the workspace."""
    inputs = {name.replace("_", "-"): value or "" for name, value in values.items()}
    return Settings.of(inputs, workspace(), may_leave=not in_a_job())


def workspace() -> Path:
    """Where files are looked for."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())


def now() -> str:
    """The time, in the form that records need."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

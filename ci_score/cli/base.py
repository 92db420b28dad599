"""`ci-score base`: the commit that a job measures against."""

from __future__ import annotations

import click

from ci_score.cli.console import say
from ci_score.cli.machine import Machine
from ci_score.cli.run import settings_here, world_of
from ci_score.errors import EXIT_OK
from ci_score.run import INPUTS, measured_base

_TOKEN = INPUTS["github-token"]


@click.command("base")
@click.option(
    "--github-token",
    envvar=[_TOKEN.variable, "GITHUB_TOKEN"],
    metavar="TEXT",
    help="Token that may read the repository: `contents: read`.  [default: GITHUB_TOKEN]",
)
@click.pass_obj
def command(machine: Machine, /, github_token: str | None) -> int:
    """Print the commit that this job measures against, and write it as the output `base`.

    It is for a job of GitHub Actions, and asks GitHub. On a pull request it is the first parent of
    the test merge, in the merge queue the queue's base. On a push it is the commit before the push,
    or the first parent where the branch is new or its history was rewritten. By hand or on a
    schedule it is the first parent on the default branch, and on another where that has left it.
    Before the first commit there is nothing: then it prints an empty line.

    \b
    Examples:
      ci-score base
      git fetch --depth 1 origin "$(ci-score base)"
    """
    settings = settings_here({"github-token": github_token})
    base = measured_base(settings, world_of(machine, lambda _record: None, quiet=True))
    click.echo(base or "")
    if base is None:
        say("there is no base: nothing comes before this commit")
    return EXIT_OK

"""`ci-score post`: the comment, after `ci-score run` has judged and the page was uploaded."""

from __future__ import annotations

from pathlib import Path

import click

from ci_score.cli.machine import Machine
from ci_score.cli.run import input_options, settings_here, world_of
from ci_score.run import post_report

INPUTS_HERE = ("comment", "title", "output-dir", "baseline-branch", "pr-number", "github-token")


@click.command("post")
@input_options(*INPUTS_HERE)
@click.option(
    "--page", envvar="INPUT_PAGE", default="", metavar="URL", help="Address of the uploaded page."
)
@click.option(
    "--answer",
    envvar="INPUT_ANSWER",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Write this bisect.json into the issue on lasting changes, and no comment.",
)
@click.pass_obj
def command(machine: Machine, /, page: str, answer: Path | None, **values: str | None) -> int:
    """Write the comment of the pull request from the record that `run` left in this job.

    The page can be uploaded between the two, so that the comment leads to it; its address is
    written into the record, too, and one line into the job's summary. Nothing is judged: it exits
    with 0 also where it may not write a comment, as on a fork's pull request. For such a one it is
    called in a workflow_run job, after the `run` there.

    With --answer it writes what `ci-score bisect --from-trend` has found into the branch's issue on
    lasting changes, or opens one, and leaves comments alone. That needs `issues: write`.

    \b
    Examples:
      ci-score post
      ci-score post --page "$PAGE_URL" --comment problems
      ci-score post --answer bisect/bisect.json
    """
    world = world_of(machine, lambda _record: None)
    return post_report(settings_here(values), world, page, answer)

"""`ci-score post`: the comment, after `ci-score run` has judged and the page was uploaded."""

from __future__ import annotations

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
@click.pass_obj
def command(machine: Machine, /, page: str, **values: str | None) -> int:
    """Write the comment of the pull request from the record that `run` left in this job.

    The page can be uploaded between the two, so that the comment leads to it; its address is
    written into the record, too, and one line into the job's summary. Nothing is judged: it exits
    with 0 also where it may not write a comment, as on a fork's pull request. For such a one it is
    called in a workflow_run job, after the `run` there.

    \b
    Examples:
      ci-score post
      ci-score post --page "$PAGE_URL" --comment problems
    """
    return post_report(settings_here(values), world_of(machine, lambda _record: None), page)

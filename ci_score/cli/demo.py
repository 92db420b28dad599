"""`ci-score demo`: the main job on sample profiles, with a folder as the store of baselines."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from ci_score.baselines import FolderBaselines
from ci_score.cli.console import screen, show_report
from ci_score.cli.run import now
from ci_score.compare import Workload
from ci_score.files.disk import write_atomically
from ci_score.files.strict_json import dump
from ci_score.judge import exit_code
from ci_score.model.gate import Gate
from ci_score.model.profile import Profile
from ci_score.model.record import Record
from ci_score.model.stages import CaseInput
from ci_score.report import render
from ci_score.run import Job, run
from ci_score.traces import ProfileSource, read_profile

CASE = "llm-1b@l4"
MAIN_COMMIT = "1f0c2a9be6d1f5a64e4a7a4f5c0a3d2b8e9f7061"
PULL_REQUEST_COMMIT = "9a41d7e0c35b82f4ad6671c0de94f3b2a5087c1e"
MAIN_TIME = "2026-01-05T08:00:00Z"
# The bytes that one device moves in a step: weights, gradients, optimizer state, activations.
WORKLOAD = Workload(bytes_per_step=58e9)


@click.command("demo")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ci-score-demo"),
    show_default=True,
    help="Where the results go.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the pull request's record.")
def command(output_dir: Path, as_json: bool) -> None:
    """Run the main job on sample data: record a default branch, then review a pull request.

    The sample pull request loses a fusion in the backward pass. Nothing is sent anywhere. The demo
    exits with 0, although the check of such a pull request would fail.

    \b
    Examples:
      ci-score demo
      ci-score demo --output-dir /tmp/demo
      ci-score demo --json
    """
    store = output_dir / "baselines"
    kept: list[Path] = []
    run(
        job("main.json", MAIN_COMMIT),
        baselines=FolderBaselines(store / "none before the first"),
        publish=lambda record: kept.append(FolderBaselines(store).save(record, dump(record))),
        now=lambda: MAIN_TIME,
    )
    record = run(
        job("pull_request.json", PULL_REQUEST_COMMIT),
        # The record itself and not its folder, because a user may have put others there.
        baselines=FolderBaselines(kept[0]),
        publish=lambda record: _publish(record, output_dir),
        now=now,
    )
    if as_json:
        click.echo(dump(record), nl=False)
        return
    code = exit_code(record, Gate())
    show_report(render(record, "terminal", screen=screen()) + "\n")
    show_report(
        f"The check of this pull request would exit {code}. Where to look:\n"
        f"  {output_dir / 'report.html'}    the report, for a browser\n"
        f"  {output_dir / 'report.md'}      the pull request comment\n"
        f"  {output_dir / 'ci-score.json'}  the record, the next run's baseline\n"
        f"  {output_dir / 'baselines'}      the default branch's record\n"
    )


def job(name: str, commit: str) -> Job:
    """The job of judging a sample."""
    case = CaseInput(CASE, sample(name))
    return Job(cases=(case,), workload=WORKLOAD, commit=commit)


def sample(name: str) -> Profile:
    """One of the profiles that are shipped with ci-score."""
    data = (files("ci_score.cli") / "samples" / name).read_bytes()
    return read_profile(ProfileSource(f"sample {name}", data=data))


def _publish(record: Record, output_dir: Path) -> None:
    write_atomically(output_dir / "ci-score.json", dump(record))
    write_atomically(output_dir / "report.md", render(record, "markdown"))
    write_atomically(output_dir / "report.html", render(record, "html"))

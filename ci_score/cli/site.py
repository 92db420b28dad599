"""`ci-score site`: the branch's whole history as a static site."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from ci_score.baselines import Left, whole_branch
from ci_score.cli.console import say
from ci_score.errors import EXIT_OK, WrongUseError
from ci_score.files.disk import write_atomically
from ci_score.judge import trends
from ci_score.judge.policy import Policy, policy_of
from ci_score.model.lists import plural, some_of
from ci_score.model.reasons import Reason
from ci_score.model.record import Record, Trend
from ci_score.report import render, sentence
from ci_score.report.site import page_names, report_name, site_pages

# The first line of every file of ours. What does not have it is somebody else's.
MARK = "<!-- made by `ci-score site` -->\n"
MOST_REPORTS = 500
MOST_SKIPPED = 5


@click.command("site")
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Where it goes."
)
@click.option("--title", default="", metavar="TEXT", help="The name at the top of each page.")
@click.option(
    "--reports",
    "most",
    default=30,
    show_default=True,
    type=click.IntRange(0, MOST_REPORTS),
    metavar="N",
    help="Of how many of the newest records the site has the whole report.",
)
def command(records: Sequence[Path], out: Path, title: str, most: int) -> int:
    """Make a static site of the branch's whole history.

    RECORDS are the ci-score.json that runs of the branch left, or folders of them. Each has up to
    200 runs of a case, and records of different ages have more of them together. The site has a
    chart for each case and metric, lasting changes with their commits, accepted regressions, and
    the reports of the newest records, made anew. It works from disk and from any server.

    \b
    Examples:
      ci-score site records/ --out site
      ci-score site last-year/ ci-score/ci-score.json --out site --reports 0
    """
    branch = whole_branch(records)
    _tell_skipped(branch.skipped)
    if branch.record is None:
        raise WrongUseError(
            f"{some_of([path.name for path in records])}: no record of a branch is there; give the"
            " ci-score.json of runs of the default branch, or folders of them"
        )
    record = branch.record.but(trends=_trends(branch.record))
    # All is checked before anything is written: with every report that there may be.
    wanted = {report_name(left): left for left in branch.left[:most]}
    _refuse_foreign(out, [*wanted, *page_names(record)])
    reports = [name for name, left in wanted.items() if _report(left, out / name, title)]
    pages = site_pages(record, reports, title)
    for name, text in pages.items():
        write_atomically(out / name, MARK + text)
    _write_nojekyll(out / ".nojekyll")
    counted = f"{plural(len(pages) - 1, 'case')}, {plural(len(reports), 'report')}"
    say(f"written: {out / 'index.html'} ({counted})")
    return EXIT_OK


def _trends(record: Record) -> tuple[Trend, ...]:
    """The lasting changes in all of the history; each record saw those of its newest runs."""
    policy = Policy(rules=record.rules)
    if record.policy is not None:
        policy = policy_of(record.policy, "the newest record's policy").policy
    return trends(record.cases, policy, record.history, looks_back=len(record.history))


def _write_nojekyll(file: Path) -> None:
    """Where Pages publishes a branch, it would else treat the site as sources of Jekyll."""
    if not file.exists() and not file.is_symlink():
        write_atomically(file, "")


def _report(left: Left, file: Path, title: str) -> bool:
    """Writes a run's report, made anew of its record: nobody else's HTML becomes part of the site.

    False where the record's file has changed since it was read.
    """
    record = left.record()
    if record is None:
        return False
    write_atomically(file, MARK + render(record, "html", title))
    return True


def _refuse_foreign(out: Path, names: Iterable[str]) -> None:
    """Refuses to overwrite what `ci-score site` has not made, and to follow a link."""
    folder = out / "reports"
    for path in (folder, *(out / name for name in names)):
        # A pipe or a device would take what is written, and perhaps wait for ever.
        is_ours = path.is_dir() if path == folder else path.is_file() and _is_ours(path)
        if path.is_symlink() or (path.exists() and not is_ours):
            raise WrongUseError(
                f"{path}: it is there already, and not by `ci-score site`; remove it, or give --out"
                " another folder"
            )


def _is_ours(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MARK)) == MARK.encode()


def _tell_skipped(skipped: Sequence[Reason]) -> None:
    """The first files that are no records of the branch."""
    for reason in skipped[:MOST_SKIPPED]:
        say(f"left out: {sentence(reason)}")
    if len(skipped) > MOST_SKIPPED:
        say(f"left out: {len(skipped) - MOST_SKIPPED} more files")

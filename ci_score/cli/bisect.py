"""`ci-score bisect`: finds the commit of a range that made a step slower."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ci_score.baselines import FolderBaselines
from ci_score.cli.console import say, screen, show_report
from ci_score.cli.local_code import LocalCode
from ci_score.cli.run import now
from ci_score.cli.session import (
    TraceReader,
    WithCommand,
    measuring,
    place_in_words,
    profile_options,
    session_options,
)
from ci_score.cli.sides import checkout_options
from ci_score.cli.trend_range import TrendRange, range_of_trend
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED, CiScoreError, WrongUseError
from ci_score.files.disk import write_atomically
from ci_score.files.strict_json import dump
from ci_score.judge.policy import policy_of
from ci_score.measure import Bisection
from ci_score.model.bisected import Bisected
from ci_score.model.record import Record
from ci_score.report import headline, render
from ci_score.run import Settings, job_of_files, run

JSON, MARKDOWN = "bisect.json", "bisect.md"
LONGEST_CAUSE, LONGEST_REPORT = 2000, 30_000
# A limit for the comparison with the parent.
WELL_BELOW = 0.3


class WithRange(WithCommand):
    """A command that takes two commits, and behind `--` the user's command."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """As it is written."""
        return ["[OPTIONS]", "[GOOD BAD]", "-- COMMAND…"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes the words before the dashes as the range."""
        behind = len(args) - args.index("--") - 1 if "--" in args else 0
        left = super().parse_args(ctx, list(args))
        words = ctx.params["command"]
        before = len(words) - behind
        ctx.params["command"], ctx.params["ends"] = words[before:], words[:before]
        if not behind and not ctx.resilient_parsing:
            raise WrongUseError(
                "give the command that trains after --, as ci-score bisect GOOD BAD -- python"
                " train.py"
            )
        return left

    @property
    def _example(self) -> Iterator[str]:
        yield from ("GOOD", "BAD")


@click.command("bisect", cls=WithRange)
@session_options("bisect")
@checkout_options
@profile_options(by_default=True)
@click.option(
    "--from-trend",
    metavar="RECORD",
    type=click.Path(path_type=Path, exists=True),
    help="Instead of GOOD and BAD: the worst lasting slowdown in the branch's ci-score.json, or in"
    " the newest of a folder.",
)
@click.pass_context
def command(
    ctx: click.Context, /, ends: tuple[str, ...], from_trend: Path | None, **options: Any
) -> int:
    """Find the commit between GOOD and BAD that made a step slower.

    GOOD and BAD are commits or branches, and GOOD is an ancestor of BAD. Behind -- stands the
    command that trains, as for `ci-score ab`; the script needs no change. Each commit that is
    measured gets a checkout of its own, with what git tracks: give --link data for the rest, and
    --setup where it must be built. All checkouts are removed at the end.

    First GOOD and BAD run in turn, until their difference is known, and ci-score says how many
    launches the search will take. Then it asks of one commit after the other which of the two it is
    like, and holds the answer against its parent. A commit that does not run is left out. After an
    interruption the same command goes on.

    OUT gets bisect.json, and bisect.md for an issue. OUT/answer is a session of the commit and its
    parent, with profiles: `ci-score run --measurements OUT/answer` shows all of it.

    It exits with 0 if a commit was found and confirmed, and with 3 if not. With --from-trend it
    exits with 0, too, where the record shows no lasting slowdown.

    \b
    Examples:
      ci-score bisect v1.4 main -- python train.py
      ci-score bisect HEAD~40 HEAD --link data --setup "make" --max-minutes 90 -- python train.py
      ci-score bisect --from-trend records/ --case llama -- python train.py
    """
    trend = None if from_trend is None else _range_of(from_trend, ends, ctx)
    if from_trend is not None and trend is None:
        say("there is no lasting slowdown, so there is nothing to search")
        return EXIT_OK
    if trend is not None:
        say(trend.words)
        options["case"] = trend.of.case
    good, bad = (trend.good, trend.bad) if trend else _ends(ends)
    request = Bisection(good=good, bad=bad, **options)
    with measuring(request.out) as here:
        answer = request.run(os.environ, TraceReader(), here.line, here.stopped)
        here.line.does("explaining the answer")
        answer, report = _explained(answer.but(trend=trend.of if trend else None), request.folder)
        here.line.does("")
        here.line.clear()
        _leave(answer, report, request.out)
    return EXIT_OK if answer.is_answered else EXIT_UNJUDGED


def _range_of(record: Path, ends: tuple[str, ...], ctx: click.Context) -> TrendRange | None:
    """What the record shows, of the case that was named, if one was."""
    if ends:
        raise WrongUseError("give either GOOD and BAD or --from-trend")
    is_named = ctx.get_parameter_source("case") is not ParameterSource.DEFAULT
    return range_of_trend(record, ctx.params["case"] if is_named else None)


def _ends(words: tuple[str, ...]) -> tuple[str, str]:
    if len(words) != 2:
        raise WrongUseError(
            f"give two commits before --, GOOD and BAD, and not {len(words)}: ci-score bisect v1.4"
            " main -- python train.py"
        )
    return words[0], words[1]


def _leave(answer: Bisected, report: str, out: Path) -> None:
    """What was found: on the terminal, for a program and for an issue."""
    write_atomically(out / JSON, dump(answer))
    write_atomically(out / MARKDOWN, "\n".join(filter(None, [render(answer, "markdown"), report])))
    show_report(render(answer, "terminal", screen=screen()))
    say(f"written: {out / JSON}, {out / MARKDOWN}")
    if answer.answer is not None:
        say(f"see all of it: ci-score run --measurements {place_in_words(Path(answer.answer))}")


# --- why ------------------------------------------------------------------------------------------


def _explained(answer: Bisected, folder: Path) -> tuple[Bisected, str]:
    """The answer with its cause, and the report of the commit against its parent."""
    if answer.answer is None or answer.own is None:
        return answer, ""
    try:
        record = _judged(Path(answer.answer), answer.own.share, folder)
    except CiScoreError as error:
        say(f"the answer is not explained: {error}")
        return answer, ""
    if not record.cases:
        return answer, ""
    words = headline(record.cases[0])[:LONGEST_CAUSE]
    return answer.but(cause=words), _fenced(render(record, "terminal")[:LONGEST_REPORT])


def _fenced(text: str) -> str:
    """A report as a block of code, which nothing in it can end."""
    fence = "`" * (3 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def _judged(measurements: Path, slower: float, folder: Path) -> Record:
    """What `ci-score run` says, by a limit that the commit exceeds, as the search has proven.

    The team's own limits are for changes under review, and may allow this one.
    """
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    settings = Settings.of({"measurements": place_in_words(measurements)}, workspace)
    limit = max(slower, 0.0) * WELL_BELOW
    table = {
        "schema": 1,
        "rules": "training",
        "measure": {"false_fail": 0.1},
        "metrics": {"step_time_ms": {"gate": True, "fail": limit, "warn": limit}},
        "environment": {"reject": []},
    }
    policy = policy_of(table, "the search's own limit")
    job = replace(job_of_files(settings), policy=policy, own_policy=None)
    store = FolderBaselines.of_records([], Record.describing(()))
    diffs = LocalCode(folder, os.environ).between
    return run(job, baselines=store, publish=lambda _: None, now=now, diffs=diffs)

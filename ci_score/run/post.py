"""The comment of a run that has judged already, from the record that it left in this job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ci_score.baselines import read_record
from ci_score.errors import EXIT_OK, BadInputError, GitHubError, WrongUseError
from ci_score.files.disk import RECORD_LIMIT, read_bytes
from ci_score.files.strict_json import parse, validate
from ci_score.files.visible import plain
from ci_score.github import issue, runner
from ci_score.model.bisected import Bisected
from ci_score.model.reasons import Why
from ci_score.model.record import RECORD_FILE, Record
from ci_score.model.values import page_address
from ci_score.report import render, sentence
from ci_score.run.context import Run, World
from ci_score.run.publishing import post_comment, write_or_tell
from ci_score.run.settings import Settings

LONGEST_TITLE = 200


def post_report(settings: Settings, world: World, page: str, answer: Path | None = None) -> int:
    """Writes the comment, and the page's address into it and the record; never fails a check.

    Where there is an `answer` of a search, it is written into the issue on lasting changes instead.
    """
    if not world.is_job:
        raise WrongUseError("post: it writes the comment of a GitHub Actions job, and this is none")
    context = Run.of(settings, world)
    lines = []
    try:
        posted = _all_posted(context, page) if answer is None else _answered(context, answer)
        for line in posted:
            lines.append(line)
            world.say(line)
    except (GitHubError, BadInputError) as error:
        world.say(f"nothing posted: {error}")
    if lines and (summary := world.path("GITHUB_STEP_SUMMARY")):
        runner.append_summary(summary, "\n\n".join(lines))
    return EXIT_OK


def _all_posted(context: Run, page: str) -> Iterator[str]:
    """For this run, or for the one that it reports on; of several reports one has the page."""
    producer = context.event.producer
    if producer is None:
        yield from _posted(context.with_its_pull(), page)
        return
    for place, its_run in enumerate(context.about(producer)):
        yield from _posted(its_run, "" if place else page)


def _posted(context: Run, page: str) -> Iterator[str]:
    """What was done, or why it was not, a line each."""
    settings, world = context.settings, context.world
    path = settings.output_dir / RECORD_FILE
    record = read_record(read_bytes(str(path), RECORD_LIMIT), RECORD_FILE)
    if not _is_of_this_run(record, context):
        yield sentence(Why.RECORD_OF_ANOTHER_RUN())
        return
    shown = record.but(page=_page_of(context, page))
    if shown.page:
        yield sentence(Why.PAGE_IS_AT(page=shown.page))
        shown, unwritten = write_or_tell(shown, settings)
        if unwritten:
            yield sentence(unwritten)
    elif page:
        yield sentence(Why.PAGE_NOT_LINKED())
    written = post_comment(shown, context)
    if outputs := world.path("GITHUB_OUTPUT"):
        runner.append_outputs(outputs, {"comment-url": written.url})
    if written.notice:
        yield sentence(written.notice)


def _answered(context: Run, file: Path) -> Iterator[str]:
    """Writes what `ci-score bisect` has found into the issue; a file may be a stranger's."""
    found = validate(Bisected, parse(read_bytes(str(file), RECORD_LIMIT), file.name), file.name)
    if not found.is_worth_telling or found.trend is None:
        yield sentence(Why.NO_ANSWER_TO_POST())
        return
    of, sha = found.trend, found.found[-1].sha
    by = "with" if found.is_answered else "with one of the commits up to"
    key = issue.key_of(of.case, of.metric, of.kind)
    notice = issue.answer(
        context.api,
        context.event.repository,
        title=plain(f"ci-score: {of.case} became slower {by} {sha[:12]}", LONGEST_TITLE),
        section=f"## Which commit\n\n{render(found, 'markdown')}",
        subject=issue.Subject(issue.key_of("bisect", of.case, of.metric), {key: ""}),
    )
    yield sentence(notice) if notice else sentence(Why.ANSWER_POSTED(commit=sha[:12]))


def _is_of_this_run(record: Record, context: Run) -> bool:
    """Whether this attempt has judged it; and of another run's, for the same pull request.

    On a Gitea the job that measured may be an attempt ahead, and the record then says so.
    """
    event, own = context.event, record.run
    if own is None or own.but(attempt=event.run.attempt) != event.run:
        return False
    is_ahead = event.server == "gitea" and own.attempt > event.run.attempt
    is_of_pull = event.producer is None or record.pull == context.place.pull
    return is_of_pull and (own == event.run or is_ahead)


def _page_of(context: Run, page: str) -> str | None:
    """The page's address, if it is a plain one below this repository's.

    An upload tells the id of its artifact, where a Gitea has the name.
    """
    event = context.event
    folder, _, artifact = page.rpartition("/")
    if event.server == "gitea" and artifact.isdecimal():
        page = f"{folder}/{context.page_file}"
    return page_address(page) if event.address and page.startswith(f"{event.address}/") else None

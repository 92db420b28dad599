"""The comment of a run that has judged already, from the record that it left in this job."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from ci_score.baselines import read_record
from ci_score.errors import EXIT_OK, BadInputError, GitHubError, WrongUseError
from ci_score.files.disk import RECORD_LIMIT, read_bytes
from ci_score.github import runner
from ci_score.model.reasons import Why
from ci_score.model.record import RECORD_FILE, Record
from ci_score.report import sentence
from ci_score.run.context import Run, World
from ci_score.run.publishing import post_comment, write_or_tell
from ci_score.run.settings import Settings


def post_report(settings: Settings, world: World, page: str) -> int:
    """Writes the comment, and the page's address into it and the record; never fails a check."""
    if not world.is_job:
        raise WrongUseError("post: it writes the comment of a GitHub Actions job, and this is none")
    context = Run.of(settings, world).with_its_pull()
    lines = []
    try:
        for line in _posted(context, page):
            lines.append(line)
            world.say(line)
    except (GitHubError, BadInputError) as error:
        world.say(f"nothing posted: {error}")
    if lines and (summary := world.path("GITHUB_STEP_SUMMARY")):
        runner.append_summary(summary, "\n\n".join(lines))
    return EXIT_OK


def _posted(context: Run, page: str) -> Iterator[str]:
    """What was done, or why it was not, a line each."""
    settings, world = context.settings, context.world
    path = settings.output_dir / RECORD_FILE
    record = read_record(read_bytes(str(path), RECORD_LIMIT), RECORD_FILE)
    if record.run != context.event.run:
        yield sentence(Why.RECORD_OF_ANOTHER_RUN())
        return
    shown = _with_page(record, page, world.environment.get("GITHUB_SERVER_URL", ""))
    if shown.page:
        yield sentence(Why.PAGE_IS_AT(page=shown.page))
        if unwritten := write_or_tell(shown, settings):
            yield sentence(unwritten)
    elif page:
        yield sentence(Why.PAGE_NOT_LINKED())
    written = post_comment(shown, context)
    if outputs := world.path("GITHUB_OUTPUT"):
        runner.append_outputs(outputs, {"comment-url": written.url})
    if written.notice:
        yield sentence(written.notice)


def _with_page(record: Record, page: str, server: str) -> Record:
    """The record with the page's address, if that is a plain one of our server."""
    if not page.startswith(f"{server.rstrip('/')}/"):
        return record
    try:
        return record.but(page=page)
    except ValidationError:
        return record

"""Record → files, comment, check run, summary, outputs. A failing check comes after all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ci_score.baselines import fitted
from ci_score.errors import CiScoreError
from ci_score.files.disk import give_to_owner_of, write_atomically
from ci_score.github import Kind, checks, comment, issue, runner
from ci_score.judge import exit_code
from ci_score.model.code_diff import CodeState, Diffs, no_diffs
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import RECORD_FILE, Judged, Record
from ci_score.model.scorecard import Severity
from ci_score.model.verdict import Outcome
from ci_score.report import headline, render, sentence, trend_issue, worst_first
from ci_score.run.annotating import at_lines, of_cases
from ci_score.run.context import Run
from ci_score.run.settings import CommentWhen, Settings
from ci_score.run.shown_lines import line_shown

REPORT_FILE, PAGE_FILE = "report.md", "report.html"
# Room for the marker's line, and for characters that GitHub may count differently.
COMMENT_MARGIN = 600


def write_files(record: Record, settings: Settings) -> Record:
    """The record and its report in the output folder, owned by whoever owns the workspace.

    What is returned is what the file has room for, so that all that is shown is of the same record.
    """
    folder = settings.output_dir
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    kept, text_of_record = fitted(record)
    texts = {
        folder / RECORD_FILE: text_of_record,
        folder / REPORT_FILE: render(kept, "markdown", settings.title),
    }
    for path, text in texts.items():
        write_atomically(path, text)
    give_to_owner_of(settings.workspace, (*made, *texts))
    return kept


def write_page(record: Record, settings: Settings, name: str = PAGE_FILE) -> Reason | None:
    """Writes the report for a browser beside the record; returns a notice if that fails.

    It never raises: a page that cannot be drawn must not block a merge.
    """
    path = settings.output_dir / name
    try:
        write_atomically(path, render(record, "html", settings.title))
        give_to_owner_of(settings.workspace, (path,))
    except Exception as error:  # noqa: BLE001 - the verdict stands, whatever broke
        words = f"{type(error).__name__}: {str(error)[:200]}"
        return Why.FILE_NOT_WRITTEN(file=name, words=words)
    return None


def publish(record: Record, context: Run, diffs: Diffs = no_diffs) -> None:
    """Everything that a workflow sees of the run. A failure here is a notice; the verdict stays."""
    settings, world = context.settings, context.world
    kept, unwritten = write_or_tell(record, settings)
    written = post_comment(kept, context)
    check = _check_run(kept, context)
    page = None if unwritten else write_page(kept, settings, context.page_file)
    # The issue is about the whole history, and the file may have lost its oldest points.
    issue_notice = _issue(record, context)
    results = (unwritten, page, written.notice, check, issue_notice)
    notices = [notice for notice in results if notice]
    for notice in notices:
        world.say(sentence(notice))
    if summary := world.path("GITHUB_STEP_SUMMARY"):
        with_notices = kept.but(notices=(*kept.notices, *notices))
        text = render(with_notices, "markdown", settings.title, limit=runner.LARGEST_SUMMARY)
        runner.append_summary(summary, text)
    if outputs := world.path("GITHUB_OUTPUT"):
        runner.append_outputs(outputs, outputs_of(kept, context, written.url))
    rows = [*of_cases(kept), *_at_lines(kept, context, diffs)]
    for line in runner.annotation_lines(rows):
        world.command(line)


def _at_lines(record: Record, context: Run, diffs: Diffs) -> Iterator[runner.Annotation]:
    """Warnings at the change's own lines, in the commit that is shown; a Gitea shows none."""
    event = context.event

    def shown(measured: str, file: str, line: int) -> tuple[str, int] | None:
        if measured == event.status_sha:
            return file, line
        return line_shown(diffs(CodeState(event.status_sha), CodeState(measured)), file, line)

    if event.server == "github":
        yield from at_lines(record, event.sha, shown)


def publish_for_another(record: Record, context: Run, *, with_outputs: bool) -> comment.Written:
    """The report on another run: its files, for an upload, and the comment.

    It has no annotations: they would stand at the default branch's commit.
    """
    settings, world = context.settings, context.world
    kept, unwritten = write_or_tell(record, settings)
    unwritten = unwritten or write_page(kept, settings, context.page_file)
    if unwritten:
        world.say(sentence(unwritten))
    written = post_comment(kept, context)
    if with_outputs and not unwritten and (outputs := world.path("GITHUB_OUTPUT")):
        runner.append_outputs(outputs, outputs_of(kept, context, written.url))
    return written


def write_or_tell(record: Record, settings: Settings) -> tuple[Record, Reason | None]:
    """Writes record and report, or says in a notice why not; with what the file has of it."""
    try:
        return write_files(record, settings), None
    except (CiScoreError, OSError) as error:
        return record, Why.FILE_NOT_WRITTEN(file="The record", words=str(error))


def post_comment(record: Record, context: Run) -> comment.Written:
    """Posts the comment, if there is a pull request and the user wants one."""
    settings, event = context.settings, context.event
    if context.conversation is None or settings.comment is CommentWhen.NEVER:
        return comment.Written()
    if record.was_cancelled:
        # What an earlier run found still holds, and the run that cancelled this one will say more.
        return comment.Written()
    wanted = is_wanted(record, settings.comment)
    if not wanted:
        # A comment about a problem that is solved must be updated.
        record = record.but(notices=(Why.RESOLVED(), *record.notices))
    most = comment.LONGEST_COMMENT - COMMENT_MARGIN
    body = render(record, "markdown", settings.title, limit=most)
    return comment.post(
        context.conversation,
        body,
        comment.marker_of(settings.title, event.workflow, event.run_id, event.run),
        only_update=not wanted,
    )


def is_wanted(record: Record, when: CommentWhen) -> bool:
    """Whether the record has something that the user wants a comment about."""
    if when is CommentWhen.ALWAYS:
        return True
    if record.outcome is not Outcome.PASS:
        return True
    return when is CommentWhen.CHANGES and any(_changed(case) for case in record.cases)


def outputs_of(record: Record, context: Run, comment_url: str) -> dict[str, str]:
    """The outputs but the exit code; an output about one case has the worst case's value."""
    worst = worst_first(record)[0] if record.cases else None
    card = worst.scorecard if worst else None
    graded = card is not None and card.graded
    regressions = [
        {"case": case.name, **regression.model_dump(mode="json")}
        for case in record.cases
        for regression in case.scorecard.regressions
    ]
    levels = [row["severity"] for row in regressions]
    settings = context.settings
    folder = settings.output_dir.relative_to(settings.workspace.resolve())
    return {
        "verdict": record.outcome.value,
        "grade": card.grade if card and graded else "",
        "efficiency": f"{card.efficiency:.6g}" if card and graded else "",
        "bottleneck": card.bottleneck if card and graded and card.bottleneck_known else "",
        "throughput": f"{card.throughput_tok_s:.6g}" if card and card.throughput_tok_s else "",
        "step-time-ms": f"{card.step_time_ms:.6g}" if card and card.step_time_ms else "",
        "critical": str(levels.count(Severity.CRITICAL.value)),
        "warnings": str(levels.count(Severity.WARNING.value)),
        "regressions": json.dumps(regressions),
        "cases": json.dumps([_case_output(case) for case in worst_first(record)]),
        "parity-achieved": _parity_output(record),
        "baseline-sha": (worst.baseline.commit or "") if worst and worst.baseline else "",
        "comment-url": comment_url,
        "record": str(folder / RECORD_FILE),
        "report": str(folder / REPORT_FILE),
        "page": str(folder / context.page_file),
        # Among the branch's baselines, records without a case would bury those with any.
        "record-artifact": (
            context.pull_artifact if record.needs_nothing else context.record_artifact
        ),
    }


def _case_output(case: Judged) -> dict[str, object]:
    return {
        "name": case.name,
        "verdict": case.verdict.outcome.value if case.verdict else None,
        "headline": headline(case) if case.verdict else None,
        "grade": case.scorecard.grade if case.scorecard.graded else None,
        "step_time_ms": case.scorecard.step_time_ms,
        "throughput_tok_s": case.scorecard.throughput_tok_s,
    }


def _parity_output(record: Record) -> str:
    judged = [case.parity for case in record.cases if case.parity and case.parity.judged]
    if not judged:
        return ""
    return "true" if all(parity.parity_achieved for parity in judged) else "false"


def _changed(case: Judged) -> bool:
    """Whether a gated metric changed beyond its limit, for better or worse."""
    return any(
        change.delta is not None
        and change.gated
        and change.warn_limit is not None
        and abs(change.delta) > change.warn_limit
        for change in case.changes
    )


def _check_run(record: Record, context: Run) -> Reason | None:
    settings, event = context.settings, context.event
    if not settings.check_run or event.kind is Kind.POSTING:
        return None
    return checks.post_check_run(
        context.api,
        event.repository,
        event.status_sha,
        title=settings.title,
        exit_code=exit_code(record, context.gate),
        headline=headline(record),
        text=render(record, "markdown", settings.title, limit=checks.LONGEST_SUMMARY),
    )


def _issue(record: Record, context: Run) -> Reason | None:
    """Opens or updates the issue on lasting changes for the worse, if the team wants one."""
    settings, event = context.settings, context.event
    if not settings.issue_on_drift or event.kind is not Kind.TRACKED_BRANCH:
        return None
    wanted = trend_issue(record.trends, event.tracked_branch, settings.title)
    if wanted is None:
        return None
    changes = {
        issue.key_of(trend.case, trend.metric, trend.kind): (
            "" if trend.kind == "drift" else trend.created_at
        )
        for trend in reversed(wanted.trends)
    }
    return issue.tell(
        context.api,
        event.repository,
        title=wanted.title,
        body=wanted.body,
        subject=issue.Subject(issue.key_of(settings.title, event.workflow), changes),
    )

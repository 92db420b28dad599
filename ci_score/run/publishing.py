"""Record → files, comment, check run, summary, outputs: all of it before anything fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ci_score.baselines import fitted
from ci_score.errors import CiScoreError
from ci_score.files.disk import give_to_owner_of, write_atomically
from ci_score.files.strict_json import dump
from ci_score.github import checks, comment, issue, runner
from ci_score.github.api import Api
from ci_score.github.conversation import PullConversation
from ci_score.github.event import Event, Kind
from ci_score.judge.verdict import HARMLESS, Gate, exit_code, report_outcome
from ci_score.model.record import RECORD_FILE, CaseRecord, Record
from ci_score.model.scorecard import Severity
from ci_score.model.verdict import Outcome, Verdict
from ci_score.report.html.page import report_html
from ci_score.report.markdown import headline_of, report_markdown, worst_first
from ci_score.report.trend_issue import issue_markdown, issue_title, worth_an_issue
from ci_score.run.settings import CommentWhen, Settings

REPORT_FILE, PAGE_FILE = "report.md", "report.html"
# The marker's line and what GitHub may count differently.
COMMENT_MARGIN = 600


@dataclass(frozen=True, slots=True)
class RunnerFiles:
    """Where the runner wants a step's summary and outputs."""

    summary: Path | None
    outputs: Path | None


def write_files(record: Record, settings: Settings) -> None:
    """The record and the report in the output folder, owned by whoever owns the workspace."""
    folder = settings.output_dir
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    texts = {
        folder / RECORD_FILE: dump(fitted(record)),
        folder / REPORT_FILE: report_markdown(record, settings.title),
    }
    for path, text in texts.items():
        _write_over(path, text)
    give_to_owner_of(settings.workspace, (*made, *texts))


def write_page(record: Record, settings: Settings) -> str:
    """The report for a browser, beside the record; a notice where it cannot be, and no error.

    Nobody's merge waits for a picture, so nothing that goes wrong here may decide about one.
    """
    path = settings.output_dir / PAGE_FILE
    try:
        _write_over(path, report_html(record, settings.title))
        give_to_owner_of(settings.workspace, (path,))
    except Exception as error:  # noqa: BLE001 - whatever broke, the verdict stands
        return f"{PAGE_FILE} was not written: {type(error).__name__}: {str(error)[:200]}"
    return ""


def _write_over(path: Path, text: str) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        # Root would write through a stranger's link, and wait for the reader of a pipe.
        path.unlink()
    write_atomically(path, text)


def publish(
    record: Record,
    settings: Settings,
    event: Event,
    api: Api,
    conversation: PullConversation | None,
    files: RunnerFiles,
    gate: Gate,
    say: Callable[[str], None],
    command: Callable[[str], None],
) -> None:
    """Everything a workflow sees of the run; what fails here is said, and changes no verdict."""
    unwritten = _write_or_say(record, settings)
    written = post_comment(record, settings, event, conversation)
    check = _check_run(record, settings, event, api, gate)
    drawn = "" if unwritten else write_page(record, settings)
    told = _issue(record, settings, event, api)
    notices = [notice for notice in (unwritten, drawn, written.notice, check, told) if notice]
    for notice in notices:
        say(notice)
    if files.summary:
        summary = report_markdown(
            record.model_copy(update={"notices": (*record.notices, *notices)}),
            settings.title,
            limit=runner.LARGEST_SUMMARY,
        )
        runner.append_summary(files.summary, summary)
    if files.outputs:
        runner.append_outputs(files.outputs, outputs_of(record, settings, written.url))
    for line in runner.annotation_lines(_annotations(record)):
        command(line)


def _write_or_say(record: Record, settings: Settings) -> str:
    try:
        write_files(record, settings)
    except (CiScoreError, OSError) as error:
        return f"The record was not written: {error}"
    return ""


def post_comment(
    record: Record,
    settings: Settings,
    event: Event,
    conversation: PullConversation | None,
    *,
    measured_by: str = "",
) -> comment.Written:
    """The pull request's comment, where there is a pull request and the user wants one."""
    if conversation is None or settings.comment is CommentWhen.NEVER:
        return comment.Written()
    wanted = is_wanted(record, settings.comment)
    if not wanted:
        # An old comment that tells of a problem must not outlive it.
        resolved = "What an earlier run reported here is resolved."
        record = record.model_copy(update={"notices": (resolved, *record.notices)})
    body = report_markdown(
        record,
        settings.title,
        limit=comment.LONGEST_COMMENT - COMMENT_MARGIN,
        measured_by=measured_by,
    )
    return comment.post(
        conversation,
        body,
        comment.marker_of(settings.title, event.workflow, event.run_id, event.run),
        only_update=not wanted,
    )


def is_wanted(record: Record, when: CommentWhen) -> bool:
    """Whether there is something that the user wants to be told of."""
    if when is CommentWhen.ALWAYS:
        return True
    if report_outcome(record) is not Outcome.PASS:
        return True
    return when is CommentWhen.CHANGES and any(_changed(case) for case in record.cases)


def outputs_of(record: Record, settings: Settings, comment_url: str) -> dict[str, str]:
    """The outputs; those of one case are the worst case's."""
    worst = worst_first(record)[0] if record.cases else None
    card = worst.scorecard if worst else None
    graded = card is not None and card.graded
    regressions = [
        {"case": case.name, **regression.model_dump(mode="json")}
        for case in record.cases
        for regression in case.scorecard.regressions
    ]
    levels = [row["severity"] for row in regressions]
    folder = settings.output_dir.relative_to(settings.workspace.resolve())
    return {
        "verdict": report_outcome(record).value,
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
        "report-html": str(folder / PAGE_FILE),
    }


def _case_output(case: CaseRecord) -> dict[str, object]:
    return {
        "name": case.name,
        "verdict": case.verdict.outcome.value if case.verdict else None,
        "headline": case.verdict.headline if case.verdict else None,
        "grade": case.scorecard.grade if case.scorecard.graded else None,
        "step_time_ms": case.scorecard.step_time_ms,
        "throughput_tok_s": case.scorecard.throughput_tok_s,
    }


def _parity_output(record: Record) -> str:
    judged = [case.parity for case in record.cases if case.parity and case.parity.judged]
    if not judged:
        return ""
    return "true" if all(parity.parity_achieved for parity in judged) else "false"


def _changed(case: CaseRecord) -> bool:
    """Beyond a limit either way: also an improvement is news."""
    return any(
        change.delta is not None
        and change.gated
        and change.warn_limit is not None
        and abs(change.delta) > change.warn_limit
        for change in case.changes
    )


def _check_run(record: Record, settings: Settings, event: Event, api: Api, gate: Gate) -> str:
    if not settings.check_run or event.kind is Kind.POSTING:
        return ""
    return checks.post_check_run(
        api,
        event.repository,
        event.status_sha,
        title=settings.title,
        exit_code=exit_code(record, gate),
        headline=headline_of(record),
        text=report_markdown(record, settings.title, limit=checks.LONGEST_SUMMARY),
    )


def _issue(record: Record, settings: Settings, event: Event, api: Api) -> str:
    """The branch's lasting changes for the worse, where the team wants an issue on them."""
    if not settings.issue_on_drift or event.kind is not Kind.TRACKED_BRANCH:
        return ""
    trends = worth_an_issue(record.trends)
    if not trends:
        return ""
    changes = {
        issue.key_of(trend.case, trend.metric, trend.kind): (
            "" if trend.kind == "drift" else trend.created_at
        )
        for trend in reversed(trends)
    }
    return issue.tell(
        api,
        event.repository,
        title=issue_title(event.tracked_branch, settings.title),
        body=issue_markdown(trends),
        subject=issue.Subject(issue.key_of(settings.title, event.workflow), changes),
    )


def _annotations(record: Record) -> list[tuple[str, str, str]]:
    """One line a case that needs attention, the worst first."""
    rows = [
        (_level(case.verdict), f"ci-score {case.name}", case.verdict.headline)
        for case in worst_first(record)
        if case.verdict and case.verdict.outcome is not Outcome.PASS
    ]
    if record.unjudged:
        rows.insert(0, ("error", "ci-score", record.unjudged.headline))
    return rows


def _level(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return "notice" if verdict.unjudged in HARMLESS else "error"
    return "error" if verdict.outcome is Outcome.FAIL else "warning"

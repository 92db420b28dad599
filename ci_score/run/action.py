"""The Action: one run for its event. What it needs from outside comes with the `World`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from ci_score.baselines import ArtifactBaselines, BaselineStore, FolderBaselines, read_record
from ci_score.errors import EXIT_OK, BadInputError, GitHubError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.github import Kind, ProducerRun, artifacts, commits
from ci_score.judge import exit_code
from ci_score.model.gate import Gate
from ci_score.model.reasons import Reason, Why, quoted
from ci_score.model.record import Record, case_name
from ci_score.model.verdict import Unjudged, unjudged
from ci_score.report import sentence
from ci_score.run.case_files import CaseFiles, files_of_artifact
from ci_score.run.context import Run, World
from ci_score.run.fork_report import judged_anew
from ci_score.run.job import Profiles, checked_out, job_of, profiles_in_workspace
from ci_score.run.publishing import publish, publish_for_another
from ci_score.run.rules import rules_in_job
from ci_score.run.sessions import Expected
from ci_score.run.settings import Settings
from ci_score.run.story import Job, run

# Each costs a request, and the newest usable one also holds what those before it measured.
MOST_EARLIER = 4
# A gate has ten minutes, and thousands of files that are each within their limits could take hours.
LONGEST_READING_S = 300.0


def run_action(settings: Settings, world: World) -> int:
    """In a job: read, score, compare, judge and publish; or post the report of another run."""
    context = Run.of(settings, world)
    if context.event.producer is not None:
        return _post_for(context, context.event.producer)
    context = context.with_its_pull()
    line = _base_line(context)
    job, baselines = _job_and_baselines(context, line)
    # Where another job has measured, nothing of a checkout counts.
    is_here = not settings.measured_elsewhere
    known = commits.Differences(line, world.tracked) if is_here else commits.Differences(line)
    diffs = known.between
    record = run(
        job,
        baselines=baselines,
        publish=lambda record: publish(record, context, diffs),
        conversation=context.accepting,
        earlier=_earlier_attempts(context),
        now=world.now,
        diffs=diffs,
    )
    world.show(record)
    return exit_code(record, context.gate)


def _base_line(context: Run) -> commits.BaseLine:
    """The base that was tested, and what came before it.

    With the pull request's head in the workspace, it differs from the base of the test merge.
    """
    settings, event = context.settings, context.event
    head = event.pull.head_sha if event.pull and not settings.measured_elsewhere else None
    on_head = head is not None and checked_out(settings.workspace) == head != event.sha
    return commits.BaseLine(context.api, event, head_is_checked_out=on_head)


def _job_and_baselines(context: Run, line: commits.BaseLine) -> tuple[Job, BaselineStore]:
    """What this run measured, and the baselines to compare it with."""
    settings, event = context.settings, context.event
    rules = rules_in_job(settings, line)
    until = context.world.clock() + LONGEST_READING_S
    on_head_notices = (Why.HEAD_CHECKED_OUT(),) if line.head_is_checked_out else ()
    job = job_of(
        settings, lambda: _profiles(context), until=until, expected=_expected(context, line)
    )
    job = replace(
        job,
        policy=rules.file,
        own_policy=rules.own,
        commit=event.sha,
        run=artifacts.run_that_measured(
            context.api, event, max((case.attempt for case in job.cases), default=0)
        ),
        gate_job=event.job,
        inputs=settings.inputs,
        tracked=event.kind is Kind.TRACKED_BRANCH,
        may_lose_cases=not event.gates,
        gate=context.gate,
        place=context.place,
        notices=(*context.notices, *rules.notices, *on_head_notices),
    )
    return job, _baselines(context, line)


def _expected(context: Run, line: commits.BaseLine) -> Expected:
    """What the job knows of its measurements; the runner writes the event when the job begins."""
    api, event = context.api, context.event
    began = context.world.path("GITHUB_EVENT_PATH")
    return Expected(
        commits.ComparedCommits(line).why_other,
        began.stat().st_mtime if began else 0.0,
        cache(lambda: artifacts.began_at(api, event)),
    )


def _earlier_attempts(context: Run) -> Iterator[Record | Reason]:
    """The records of the attempts before this one of the same run; only a re-run reads them.

    In place of one that does not count, the reason.
    """
    api, event, name = context.api, context.event, context.record_artifact
    try:
        if api.is_gitea:
            return  # it does not say which attempt has left an upload; the files say it by names
        uploads = artifacts.uploads_of_run(api, event.repository, event.run_id, name)
        for upload in uploads[:MOST_EARLIER]:
            yield _of_earlier_attempt(context, upload)
    except GitHubError:
        return  # the report then says that no earlier record was found


def _of_earlier_attempt(context: Run, upload: Any) -> Record | Reason:
    """The record in an artifact of this run, if that attempt has left it which it names."""
    api, event = context.api, context.event
    try:
        data = artifacts.record_in(api, event.repository, upload)
        record = read_record(data, "the record of an earlier attempt")
    except BadInputError as error:
        return quoted(str(error))
    if record.run is None or record.run.id != event.run_id:
        return record  # of another run, as the pool says: there is nothing to ask about it
    if record.run.attempt >= event.run.attempt:
        return record
    return artifacts.not_of_attempt(api, event.repository, upload, record.run, event.job) or record


# --- what was measured --------------------------------------------------------------------------


def _profiles(context: Run) -> Profiles:
    """The files in the workspace, or those in this run's artifacts if an input names them."""
    pattern, event = context.settings.profile_artifact, context.event
    if not pattern:
        return profiles_in_workspace(context.settings)
    files_of: CaseFiles = {}
    try:
        for name, attempt, members in artifacts.profile_artifacts(
            context.api, event.repository, event.run_id, pattern, event.run.attempt
        ):
            for case, files in files_of_artifact(members, _case_of(name, pattern)).items():
                of_case = files_of.setdefault(case, [])
                of_case += (replace(file, attempt=file.attempt or attempt) for file in files)
    except BadInputError as error:
        return Profiles({}, unjudged(Unjudged.NOTHING_MEASURED, quoted(str(error))))
    except GitHubError as error:
        return Profiles({}, unjudged(Unjudged.API_DOWN, quoted(str(error))))
    return Profiles(files_of)


def _case_of(name: str, pattern: str) -> str | None:
    """With the pattern `profile-*`, `profile-llama` is the case llama; a plain name gives none."""
    pattern = pattern.removesuffix("~*")  # the attempts of one
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return None if fixed == pattern else case_name(name.removeprefix(fixed))


# --- what it is compared with -------------------------------------------------------------------


def _baselines(context: Run, line: commits.BaseLine) -> BaselineStore:
    settings, event = context.settings, context.event
    if settings.baseline is not None:
        return FolderBaselines(settings.baseline, must_exist=True, within=settings.workspace)
    return ArtifactBaselines(
        tested_line=line.walk,
        store=artifacts.RecordArtifacts(
            api=context.api,
            repository=event.repository,
            repository_id=event.repository_id,
            name=settings.baseline_artifact,
            branch=event.tracked_branch,
            workflow=settings.baseline_workflow or event.workflow,
            line=line,
        ),
    )


# --- for another run ----------------------------------------------------------------------------


def _post_for(context: Run, producer: ProducerRun) -> int:
    """For a workflow_run: the report of a run that could not post it. It never fails a check."""
    try:
        for line in _posted(context, producer):
            context.world.say(line)
    except (GitHubError, BadInputError) as error:
        context.world.say(f"nothing posted: {error}")
    return EXIT_OK


def _posted(context: Run, producer: ProducerRun) -> Iterator[str]:
    event, name = context.event, context.record_artifact
    if producer.event != "pull_request":
        yield f"nothing to post: the run was set off by {producer.event}"
        return
    if not commits.is_ours(context.api, event, producer):
        yield f"nothing to post: {event.tracked_branch} has no workflow {producer.workflow}"
        return
    data = artifacts.artifact_of_run(context.api, event.repository, producer.id, name)
    if data is None:
        yield f"nothing to post: the run left no artifact {name}"
        return
    source = f"the record of run {producer.run.number}"
    record = read_record(data, source)
    if record.was_cancelled:
        yield "nothing to post: the measurement was cancelled"
        return
    runs = list(context.about(producer))
    if not runs:
        yield "nothing to post: no open pull request has its head"
    for place, its_run in enumerate(runs):
        with overflow_is_bad_input(source):
            judged = _judged_for(its_run, record)
            written = publish_for_another(judged, its_run, with_outputs=place == 0)
        if written.notice:
            yield sentence(written.notice)
        else:
            yield f"posted: {written.url}" if written.url else "judged, and no comment written"


def _judged_for(context: Run, record: Record) -> Record:
    """The record judged anew, for the pull request that it is of."""
    event = context.event
    line = commits.BaseLine(context.api, event)
    rules = rules_in_job(context.settings, line)
    gate = Gate(context.settings.fail_on, context.settings.on_inconclusive)
    of_fork = event.producer is not None and event.producer.from_fork
    whose = Why.BY_ITS_OWN_CODE(run=event.run.number, of_fork=of_fork)
    notices = (whose, *rules.notices)
    job = Job(
        (),
        policy=rules.file,
        commit=event.sha,
        notices=notices,
        gate=gate,
        place=context.place,
    )
    baselines = _baselines(context, line)
    now, diffs = context.world.now(), commits.Differences(line).between
    judged = judged_anew(record, baselines, context.accepting, now, job, diffs)
    return judged.but(run=event.run)

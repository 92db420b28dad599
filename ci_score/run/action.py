"""The Action: one run for its event. What it does not do itself is handed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_score.baselines import ArtifactBaselines, BaselineStore, FolderBaselines, read_record
from ci_score.errors import BadInputError, GitHubError, WrongUseError
from ci_score.files.disk import read_bytes
from ci_score.files.strict_json import parse
from ci_score.github import artifacts, commits
from ci_score.github.api import Api
from ci_score.github.conversation import PullConversation
from ci_score.github.event import Event, Kind, ProducerRun, read_event, workflow_path
from ci_score.github.pulls import FoundPull, pulls_of_producer
from ci_score.judge.acceptance import Nobody
from ci_score.judge.policy import LARGEST_POLICY, PolicyTable, policy_table
from ci_score.judge.verdict import EXIT_OK, Gate, exit_code, unjudged
from ci_score.model.record import Record
from ci_score.model.verdict import Unjudged, Verdict
from ci_score.run.case_files import (
    CaseFiles,
    case_name,
    files_of_artifact,
    find_files,
    find_measurements,
)
from ci_score.run.fork_report import judged_anew
from ci_score.run.publishing import RunnerFiles, post_comment, publish
from ci_score.run.reading import read_cases
from ci_score.run.settings import Settings
from ci_score.run.story import Job, run
from ci_score.run.triage import ForOneRun, for_one_run

LARGEST_EVENT = 32 * 1024 * 1024
# A request each; the newest usable one has what the others measured.
MOST_EARLIER = 4
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class World:
    """What the Action needs of its surroundings."""

    environment: Mapping[str, str]
    sleep: Callable[[float], None]
    now: Callable[[], str]
    say: Callable[[str], None]
    command: Callable[[str], None]
    show: Callable[[Record], None]


def run_action(settings: Settings, world: World) -> int:
    """In a job: read, score, compare, judge and publish, or post another run's report."""
    environment = world.environment
    event = read_event(environment, _payload(environment), settings.baseline_branch)
    url = environment.get("GITHUB_API_URL") or "https://api.github.com"
    api = Api(url, settings.token, sleep=world.sleep)
    if event.producer is not None:
        return post_for(event, event.producer, settings, api, world)
    reports_only = not event.gates and not settings.fail_on_branch
    gate = Gate(settings.fail_on, settings.on_inconclusive, reports_only)
    files = RunnerFiles(
        summary=_path(environment, "GITHUB_STEP_SUMMARY"),
        outputs=_path(environment, "GITHUB_OUTPUT"),
    )
    conversation = _conversation(api, event)
    job, baselines = _job_and_baselines(settings, event, api)
    record = run(
        job,
        baselines=baselines,
        publish=lambda record: publish(
            record, settings, event, api, conversation, files, gate, world.say, world.command
        ),
        conversation=conversation or Nobody(),
        earlier=_earlier_attempts(settings, event, api),
        now=world.now,
    )
    world.show(record)
    return exit_code(record, gate)


def suspect_in_job(settings: Settings, world: World) -> Record:
    """The verdict on this run's one measurement, published nowhere: an A/B may follow."""
    environment = world.environment
    event = read_event(environment, _payload(environment), settings.baseline_branch)
    if event.producer is not None:
        raise WrongUseError("suspect: a workflow_run has measured nothing itself")
    url = environment.get("GITHUB_API_URL") or "https://api.github.com"
    api = Api(url, settings.token, sleep=world.sleep)
    job, baselines = _job_and_baselines(settings, event, api)
    job = replace(job, policy=for_one_run(job.policy))
    return run(job, baselines=ForOneRun(baselines), publish=world.show, now=world.now)


def _job_and_baselines(settings: Settings, event: Event, api: Api) -> tuple[Job, BaselineStore]:
    """What this run measured, and what that is compared with."""
    on_head = event.pull is not None and _checked_out_head(settings.workspace, event)
    job = replace(
        job_of(settings, lambda: _profiles_in_job(settings, event, api)),
        commit=event.sha,
        run=event.run,
        tracked=event.kind is Kind.TRACKED_BRANCH,
        gates=event.gates,
        notices=(_ON_HEAD,) if on_head else (),
    )
    return job, _baselines(
        settings, event, api, lambda: commits.line_of(api, event, head_is_checked_out=on_head)
    )


def _conversation(api: Api, event: Event) -> PullConversation | None:
    """Where people talk about what is measured: the pull request, also while it is queued."""
    return PullConversation(api, event.repository, event.pull.number) if event.pull else None


def _earlier_attempts(settings: Settings, event: Event, api: Api) -> Iterator[Record]:
    """What the attempts before this one of the same run have left; only a re-run asks for it."""
    tracked = event.kind is Kind.TRACKED_BRANCH
    name = settings.baseline_artifact if tracked else f"{settings.baseline_artifact}-pr"
    try:
        uploads = artifacts.uploads_of_run(api, event.repository, event.run_id, name)
        for upload in uploads[:MOST_EARLIER]:
            with suppress(BadInputError):
                data = artifacts.record_in(api, event.repository, upload)
                yield read_record(data, "the record of an earlier attempt")
    except GitHubError:
        return  # the report says that nothing was found


_ON_HEAD = (
    "The workspace holds the pull request's head and not its test merge: it is compared with the"
    " commit where it left the base."
)


# --- what was measured --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of each case, or why there are none."""

    files: CaseFiles
    problem: Verdict | None = None


def job_of(settings: Settings, profiles: Callable[[], Profiles]) -> Job:
    """What there is to judge: a producer that failed has measured nothing, whatever it left."""
    policy = _policy(settings.config)
    if settings.producer is not None and settings.producer.failed:
        words = f"the job {settings.producer.name} ended with {settings.producer.result}"
        return Job((), policy=policy, unjudged=unjudged(Unjudged.NOTHING_MEASURED, words))
    found, workspace = profiles(), settings.workspace
    asked = settings.measurements
    cases = read_cases(
        found.files,
        find_measurements(asked, workspace) if asked else None,
        find_files(settings.parity, workspace),
        frozenset(source.name for source in asked if source.name),
    )
    problem = found.problem
    if not cases and problem is None:
        looked = [source.pattern for source in (*settings.profiles, *asked)]
        where = settings.profile_artifact or ", ".join(looked) or "no profiles"
        problem = unjudged(Unjudged.NOTHING_MEASURED, f"nothing was found at {where}")
    return Job(cases, settings.workload, policy, unjudged=problem)


def _policy(path: Path | None) -> PolicyTable | None:
    """The workspace's rules, where it has a file of them."""
    if path is None:
        return None
    return policy_table(read_bytes(str(path), LARGEST_POLICY), path.name)


def profiles_in_workspace(settings: Settings) -> Profiles:
    """The files that the inputs name."""
    return Profiles(find_files(settings.profiles, settings.workspace))


def _profiles_in_job(settings: Settings, event: Event, api: Api) -> Profiles:
    if not settings.profile_artifact:
        return profiles_in_workspace(settings)
    found: CaseFiles = {}
    pattern = settings.profile_artifact
    try:
        for name, members in artifacts.profile_artifacts(
            api, event.repository, event.run_id, pattern
        ):
            for case, files in files_of_artifact(members, _case_of(name, pattern)).items():
                found.setdefault(case, []).extend(files)
    except BadInputError as error:
        return Profiles({}, unjudged(Unjudged.NOTHING_MEASURED, str(error)))
    except GitHubError as error:
        return Profiles({}, unjudged(Unjudged.API_DOWN, str(error)))
    return Profiles(found)


def _case_of(name: str, pattern: str) -> str | None:
    """`profile-llama` by the pattern `profile-*` is the case llama; a plain name names none."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return None if fixed == pattern else case_name(name.removeprefix(fixed))


# --- what it is compared with -------------------------------------------------------------------


def _baselines(
    settings: Settings, event: Event, api: Api, line: Callable[[], Iterator[str]]
) -> BaselineStore:
    if settings.baseline is not None:
        return FolderBaselines(settings.baseline, must_exist=True)
    return ArtifactBaselines(
        tested_line=line,
        store=artifacts.RecordArtifacts(
            api=api,
            repository=event.repository,
            repository_id=event.repository_id,
            name=settings.baseline_artifact,
            branch=event.tracked_branch,
            workflow=workflow_path(settings.baseline_workflow) or event.workflow,
        ),
    )


# --- for another run ----------------------------------------------------------------------------


def post_for(
    event: Event, producer: ProducerRun, settings: Settings, api: Api, world: World
) -> int:
    """A workflow_run: the report of a run that could not post it. It never fails a check."""
    try:
        for said in _posted(event, producer, settings, api, world.now()):
            world.say(said)
    except (GitHubError, BadInputError) as error:
        world.say(f"nothing posted: {error}")
    return EXIT_OK


def _posted(
    event: Event, producer: ProducerRun, settings: Settings, api: Api, now: str
) -> Iterator[str]:
    name = f"{settings.baseline_artifact}-pr"
    if producer.event != "pull_request":
        yield f"nothing to post: the run was set off by {producer.event}"
        return
    data = artifacts.artifact_of_run(api, event.repository, producer.id, name)
    if data is None:
        yield f"nothing to post: the run left no artifact {name}"
        return
    record = read_record(data, f"the record of run {producer.run.number}")
    found = pulls_of_producer(api, event.repository, producer)
    if not found:
        yield "nothing to post: no open pull request has its head"
    for pull in found:
        yield _post(event, producer, pull, record, settings, api, now)


def _post(
    event: Event,
    producer: ProducerRun,
    found: FoundPull,
    record: Record,
    settings: Settings,
    api: Api,
    now: str,
) -> str:
    subject = replace(
        event,
        pull=found.pull,
        run=producer.run,
        run_id=producer.id,
        workflow=producer.workflow,
        sha=producer.head_sha,
    )
    baselines = _baselines(
        settings, subject, api, lambda: commits.line_of_merge(api, subject, record.commit)
    )
    conversation = PullConversation(api, event.repository, found.pull.number)
    judged = judged_anew(record, baselines, conversation, now)
    judged = judged.model_copy(update={"run": producer.run, "commit": producer.head_sha})
    of_whom = " of a fork" if found.pull.from_fork else ""
    where = f"run {producer.run.number}{of_whom}"
    written = post_comment(judged, settings, subject, conversation, measured_by=where)
    return written.notice or f"posted: {written.url}"


# --- the machine --------------------------------------------------------------------------------


def _payload(environment: Mapping[str, str]) -> Any:
    path = environment.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise WrongUseError("GITHUB_EVENT_PATH is not set: is this a GitHub Actions job?")
    payload = parse(read_bytes(path, LARGEST_EVENT), "the event")
    if not isinstance(payload, dict):
        raise WrongUseError("the event holds no object")
    return payload


def _checked_out_head(workspace: Path, event: Event) -> bool:
    """Whether the workspace has the pull request's head instead of the test merge."""
    head = event.pull.head_sha if event.pull else None
    return head is not None and checked_out(workspace) == head != event.sha


def checked_out(workspace: Path) -> str | None:
    """The commit that a checkout left, read without git, which slim images lack."""
    head = _line(workspace / ".git" / "HEAD")
    if head.startswith("ref: refs/") and ".." not in head:
        head = _line(workspace / ".git" / head.removeprefix("ref: "))
    return head if _COMMIT.fullmatch(head) else None


def _line(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="ascii") as stream:
            return stream.readline(200).strip()
    except (OSError, ValueError):
        return ""


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    return Path(environment[name]) if environment.get(name) else None

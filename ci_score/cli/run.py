"""`ci-score run`: the Action, and the same on a machine without GitHub."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.baselines import BaselineStore
from ci_score.baselines.artifacts import ArtifactBaselines
from ci_score.baselines.folder import FolderBaselines
from ci_score.case_files import CaseFiles, case_name, files_of_artifact, find_files
from ci_score.cli.machine import Machine
from ci_score.cli.voice import say
from ci_score.errors import BadInputError, GitHubError, WrongUseError
from ci_score.files import read_bytes
from ci_score.github import artifacts, commits
from ci_score.github.api import Api
from ci_score.github.event import Event, Kind, ProducerRun, read_event, workflow_path
from ci_score.github.pulls import pull_of_producer
from ci_score.inputs import INPUTS, TOKEN
from ci_score.models import Unjudged, Verdict
from ci_score.pipeline import Job, run
from ci_score.policy import read_policy
from ci_score.posting import judged_anew
from ci_score.publishing import RunnerFiles, post_comment, publish, write_files
from ci_score.reading import read_cases
from ci_score.records import read_record
from ci_score.report.terminal import report_text
from ci_score.settings import Settings, settings_of
from ci_score.strict_json import dump, parse
from ci_score.verdict import EXIT_OK, Gate, exit_code, unjudged

F = TypeVar("F", bound=Callable[..., Any])
LARGEST_EVENT = 32 * 1024 * 1024
LARGEST_POLICY = 256 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}")


def input_options(command: F) -> F:
    """One option an input, which a container's INPUT_ variable sets as well."""
    for row in reversed(INPUTS):
        default = "GITHUB_TOKEN" if row.name == TOKEN else row.default
        command = click.option(
            f"--{row.name}",
            envvar=[row.variable, "GITHUB_TOKEN"] if row.name == TOKEN else row.variable,
            metavar="TEXT",
            help=row.help.replace("`", "") + (f"  [default: {default}]" if default else ""),
        )(command)
    return command


@click.command("run")
@input_options
@click.option("--json", "as_json", is_flag=True, help="Print the record instead of the report.")
@click.pass_obj
def command(machine: Machine, /, as_json: bool, **values: str | None) -> int:
    """Do the whole job: read, score, find the baseline, compare, judge, publish.

    In a GitHub Actions job it is the Action: inputs come as INPUT_ variables, baselines from the
    default branch's artifacts, and the report goes to the pull request and the job's summary.
    Elsewhere the baselines are a folder (--baseline, or ci-score/baselines), nothing is sent, and
    each run is compared with the one before.

    \b
    Examples:
      ci-score run --profiles profile.json
      ci-score run --profiles "llama@l4=out/*.json" --baseline main/ci-score.json
      ci-score run --measurements perf/measurements.jsonl --tokens-per-step 8192
    """
    inputs = {name.replace("_", "-"): value or "" for name, value in values.items()}
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    with_defaults = {row.name: inputs[row.name] or row.default for row in INPUTS}
    with_defaults[TOKEN] = inputs[TOKEN]
    settings = settings_of(with_defaults, workspace)
    _check_policy(settings.config)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        return run_action(settings, os.environ, machine, as_json=as_json)
    return run_here(settings, as_json=as_json)


# --- on a machine -------------------------------------------------------------------------------


def run_here(settings: Settings, *, as_json: bool) -> int:
    """Without GitHub: a folder remembers, and everything is printed."""
    store = FolderBaselines(settings.baseline or settings.output_dir / "baselines")
    job = _job(settings, _local_files(settings), tracked=True)
    record = run(
        replace(job, commit=_checked_out(settings.workspace), run=store.next_run()),
        baselines=store,
        publish=lambda record: write_files(record, settings),
        now=_now,
    )
    if settings.baseline is None and record.cases:
        store.save(record, dump(record))
    click.echo(dump(record) if as_json else report_text(record), nl=False)
    say(f"written: {settings.output_dir / 'ci-score.json'}, {settings.output_dir / 'report.md'}")
    return exit_code(record, Gate(settings.fail_on, settings.on_inconclusive))


# --- as an Action -------------------------------------------------------------------------------


def run_action(
    settings: Settings, environment: Mapping[str, str], machine: Machine, *, as_json: bool
) -> int:
    """In a job: one run for its event."""
    event = read_event(environment, _payload(environment))
    url = environment.get("GITHUB_API_URL") or "https://api.github.com"
    api = Api(url, settings.token, sleep=machine.sleep)
    event = _with_default_branch(event, api)
    if event.producer is not None:
        return _post_for(event, event.producer, settings, api)
    job = _job(
        settings, _files_in_job(settings, event, api), tracked=event.kind is Kind.DEFAULT_BRANCH
    )
    files = RunnerFiles(
        summary=_path(environment, "GITHUB_STEP_SUMMARY"),
        outputs=_path(environment, "GITHUB_OUTPUT"),
    )
    record = run(
        replace(job, commit=event.sha, run=event.run),
        baselines=_baselines(
            settings,
            event,
            api,
            lambda: commits.line_of(api, event, _checked_out(settings.workspace)),
        ),
        publish=lambda record: publish(record, settings, event, api, files, say, click.echo),
        now=_now,
    )
    click.echo(dump(record) if as_json else report_text(record), nl=False)
    reports_only = not event.gates and not settings.fail_on_branch
    return exit_code(record, Gate(settings.fail_on, settings.on_inconclusive, reports_only))


def _post_for(event: Event, producer: ProducerRun, settings: Settings, api: Api) -> int:
    """A workflow_run: the report of a run that could not post it. It never fails a check."""
    name = f"{settings.baseline_artifact}-pr"
    if producer.event != "pull_request":
        say(f"nothing to post: the run was set off by {producer.event}")
        return EXIT_OK
    try:
        data = artifacts.artifact_of_run(api, event.repository, producer.id, name)
        found = pull_of_producer(api, event.repository, producer)
        if data is None or found is None:
            missing = (
                f"the run left no artifact {name}"
                if data is None
                else "no open pull request has its head"
            )
            say(f"nothing to post: {missing}")
            return EXIT_OK
        record = read_record(data, f"the record of run {producer.run.number}")
    except (GitHubError, BadInputError) as error:
        say(f"nothing posted: {error}")
        return EXIT_OK
    pull, test_merge = found
    subject = replace(
        event,
        pull=pull,
        run=producer.run,
        workflow=producer.workflow,
        sha=test_merge or producer.head_sha,
    )
    line = replace(subject, kind=Kind.PULL_REQUEST if test_merge else Kind.OTHER_BRANCH)
    baselines = _baselines(settings, subject, api, lambda: commits.line_of(api, line, None))
    judged = judged_anew(record, baselines, _now())
    judged = judged.model_copy(update={"run": producer.run, "commit": producer.head_sha})
    where = (
        f"run {producer.run.number} of a fork"
        if producer.from_fork
        else f"run {producer.run.number}"
    )
    written = post_comment(judged, settings, subject, api, measured_by=where)
    say(written.notice or f"posted: {written.url}")
    return EXIT_OK


def _baselines(
    settings: Settings, event: Event, api: Api, line: Callable[[], list[str]]
) -> BaselineStore:
    if settings.baseline is not None:
        return FolderBaselines(settings.baseline)
    return ArtifactBaselines(
        tested_line=line,
        store=artifacts.RecordArtifacts(
            api=api,
            repository=event.repository,
            repository_id=event.repository_id,
            name=settings.baseline_artifact,
            branch=settings.baseline_branch or event.default_branch,
            workflow=workflow_path(settings.baseline_workflow) or event.workflow,
        ),
    )


def _with_default_branch(event: Event, api: Api) -> Event:
    """Some payloads carry no repository; then it is asked for."""
    if event.default_branch:
        return event
    branch = str(api.get(f"/repos/{event.repository}")["default_branch"])
    return replace(event, default_branch=branch)


# --- what was measured --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """The files of each case, or why there are none."""

    profiles: CaseFiles
    problem: Verdict | None = None


def _job(settings: Settings, found: _Found, *, tracked: bool) -> Job:
    if settings.producer is not None and settings.producer.failed:
        words = f"the job {settings.producer.name} ended with {settings.producer.result}"
        missing = unjudged(Unjudged.NOTHING_MEASURED, words)
        return Job(cases=(), unjudged=missing, tracked=tracked)
    measurements = find_files(settings.measurements, settings.workspace)
    cases = read_cases(
        found.profiles, measurements, find_files(settings.parity, settings.workspace)
    )
    problem: Verdict | None = found.problem
    if not cases and problem is None:
        looked = [source.pattern for source in (*settings.profiles, *settings.measurements)]
        where = settings.profile_artifact or ", ".join(looked) or "no profiles"
        problem = unjudged(Unjudged.NOTHING_MEASURED, f"nothing was found at {where}")
    return Job(cases=cases, workload=settings.workload, unjudged=problem, tracked=tracked)


def _local_files(settings: Settings) -> _Found:
    if settings.profile_artifact:
        raise WrongUseError("profile-artifact reads this run's artifacts: it needs a GitHub job")
    return _Found(find_files(settings.profiles, settings.workspace))


def _files_in_job(settings: Settings, event: Event, api: Api) -> _Found:
    if not settings.profile_artifact:
        return _local_files(settings)
    pattern = settings.profile_artifact
    found: CaseFiles = {}
    try:
        listed = artifacts.profile_artifacts(api, event.repository, event.run_id, pattern)
        for name, members in listed:
            case = _case_of_artifact(name, pattern)
            readers = [(member, _reader(data)) for member, data in members]
            for key, files in files_of_artifact(readers, case).items():
                found.setdefault(key, []).extend(files)
    except BadInputError as error:
        return _Found({}, unjudged(Unjudged.NOTHING_MEASURED, str(error)))
    except GitHubError as error:
        return _Found({}, unjudged(Unjudged.API_DOWN, str(error)))
    return _Found(found)


def _case_of_artifact(name: str, pattern: str) -> str | None:
    """`profile-llama` by the pattern `profile-*` is the case llama; a plain name names none."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return None if fixed == pattern else case_name(name.removeprefix(fixed))


def _reader(data: bytes) -> Callable[[], bytes]:
    return lambda: data


# --- the machine --------------------------------------------------------------------------------


def _payload(environment: Mapping[str, str]) -> Any:
    path = environment.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise WrongUseError("GITHUB_EVENT_PATH is not set: is this a GitHub Actions job?")
    payload = parse(read_bytes(path, LARGEST_EVENT), "the event")
    if not isinstance(payload, dict):
        raise WrongUseError(f"{path} holds no event")
    return payload


def _checked_out(workspace: Path) -> str | None:
    """The commit that a checkout left, read without git, which slim images lack."""
    try:
        head = (workspace / ".git" / "HEAD").read_text(encoding="ascii").strip()
        if head.startswith("ref: refs/"):
            head = (workspace / ".git" / head.removeprefix("ref: ")).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return head if _COMMIT.fullmatch(head) else None


def _check_policy(path: Path) -> None:
    if path.exists():
        read_policy(read_bytes(str(path), LARGEST_POLICY), path.name)


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    return Path(environment[name]) if environment.get(name) else None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

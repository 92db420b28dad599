"""Inputs → one frozen object. An error names the wrong input, and what it may be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from pydantic import SecretStr

from ci_score.compare import Workload
from ci_score.errors import WrongUseError
from ci_score.files.visible import plain
from ci_score.model.gate import FailOn, OnInconclusive
from ci_score.model.lists import did_you_mean
from ci_score.run.case_files import CaseSource, parse_sources
from ci_score.run.inputs import INPUTS, TOKEN, Input
from ci_score.traces import step_pattern

LONGEST_INPUT = 200
# The results of a job, the worst first; one that nobody knows is worse than all but a failure.
_RESULTS = ("failure", "", "cancelled", "skipped", "success")
LONGEST_RESULT = 40
_PR_NUMBER = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]+")
# Others are called so: `ci-score-pr`, `ci-score-report-1.html`.
_TAKEN = re.compile(r"pr|report|.*-pr|.*\.html")


class CommentWhen(StrEnum):
    """When the pull request comment is written."""

    ALWAYS = "always"
    CHANGES = "changes"
    PROBLEMS = "problems"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Producer:
    """The measuring job that ended worst, and how: what it left counts only after a success."""

    name: str
    result: str
    not_needed: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run was asked to do."""

    workspace: Path
    profiles: tuple[CaseSource, ...]
    measurements: tuple[CaseSource, ...]
    profile_artifact: str
    step_name: re.Pattern[str] | None
    parity: tuple[CaseSource, ...]
    workload: Workload
    producer: Producer | None
    pr_number: int | None
    baseline_artifact: str
    baseline_branch: str
    baseline_workflow: str
    baseline: Path | None
    fail_on: FailOn
    fail_on_branch: bool
    on_inconclusive: OnInconclusive
    comment: CommentWhen
    check_run: bool
    issue_on_drift: bool
    title: str
    config: str
    inputs: Mapping[str, str]
    output_dir: Path
    token: SecretStr | None

    @property
    def measured_elsewhere(self) -> bool:
        """Whether another job measured: then a checkout that lies here tells nothing of it.

        On a machine that is kept it may be that of another change, or what its code has left.
        """
        return self.producer is not None

    @classmethod
    def of(cls, values: Mapping[str, str], workspace: Path, *, may_leave: bool = False) -> Settings:
        """The settings in the inputs, each a text; WrongUseError where one is wrong.

        On a machine of their own a person `may_leave` the workspace with what is written.
        """

        def value(name: str) -> str:
            # The default of the token is a workflow expression, which only a workflow can evaluate.
            default = "" if name == TOKEN else INPUTS[name].default
            return (values.get(name) or default).strip()

        parity, title = parse_sources(value("parity"), "parity"), plain(value("title"), 64)
        for source in parity:
            if source.name is None:
                raise WrongUseError(
                    f"parity: {source.pattern!r} does not name a case; write `case=glob`"
                )
        return cls(
            workspace=workspace,
            profiles=parse_sources(value("profiles"), "profiles"),
            measurements=parse_sources(value("measurements"), "measurements"),
            profile_artifact=value("profile-artifact"),
            step_name=step_pattern(value("step-name")),
            parity=parity,
            workload=Workload(
                throughput_tok_s=_number("throughput", value("throughput")),
                tokens_per_step=_number("tokens-per-step", value("tokens-per-step")),
                hardware=value("hardware") or None,
                peak_bandwidth_gb_s=_number("peak-bandwidth-gb-s", value("peak-bandwidth-gb-s")),
                bytes_per_token=_number("bytes-per-token", value("bytes-per-token")),
            ),
            producer=_producer(values.get("producer") or "", value("not-needed")),
            pr_number=_pr_number(value("pr-number")),
            baseline_artifact=value("baseline-artifact") or _artifact_of(title),
            baseline_branch=value("baseline-branch"),
            baseline_workflow=value("baseline-workflow"),
            baseline=workspace / value("baseline") if value("baseline") else None,
            fail_on=FailOn(_choice("fail-on", value("fail-on"))),
            fail_on_branch=_choice("fail-on-branch", value("fail-on-branch")) == "true",
            on_inconclusive=OnInconclusive(_choice("on-inconclusive", value("on-inconclusive"))),
            comment=CommentWhen(_choice("comment", value("comment"))),
            check_run=_choice("check-run", value("check-run")) == "true",
            issue_on_drift=_choice("issue-on-drift", value("issue-on-drift")) == "true",
            title=title,
            config=value("config"),
            inputs=_unlike_default(value),
            output_dir=_output_dir(value("output-dir"), workspace.resolve(), may_leave),
            token=_token(value("github-token")),
        )


def file_name(title: str) -> str:
    """The title as a part of a file's name; two titles never have the same one."""
    if _FILE_NAME.fullmatch(title) and not _TAKEN.fullmatch(title):
        return title
    alike = re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-.")
    return f"{alike}~{sha256(title.encode()).hexdigest()[:8]}"


def _artifact_of(title: str) -> str:
    return f"ci-score-{file_name(title)}" if title else "ci-score"


def _token(text: str) -> SecretStr | None:
    if not (text.isascii() and text.isprintable()):
        raise WrongUseError("github-token: it has characters that a token cannot have")
    return SecretStr(text) if text else None


def _number(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise WrongUseError(f"{name}: {text[:80]!r} is not a finite number above 0")
    return number


def _choice(name: str, text: str) -> str:
    row = INPUTS[name]
    chosen = text.lower()
    if chosen not in row.choices:
        raise WrongUseError(
            f"{name}: {text[:80]!r} is not one of {', '.join(row.choices)}"
            f"{did_you_mean(chosen, row.choices)}"
        )
    return chosen


def _producer(text: str, not_needed: str) -> Producer | None:
    """`measure=success`, a line for each job; the worst one decides. One job needs no name.

    With `not-needed` a skipped job is left aside, as long as another one has measured.
    """
    lines = text.splitlines()
    named = ["=" in line for line in lines if line.strip()]
    if text and (not named or (len(lines) > 1 and not all(named))):
        # A mistyped job has no result: without its name the line would be blank, and nobody's.
        raise WrongUseError(
            "producer: name each job, in a line of its own: `measure=${{ needs.measure.result }}`"
        )
    if not text:
        if not_needed:
            raise WrongUseError(
                "not-needed: it excuses a job that was skipped, so say how that ended:"
                " `producer: measure=${{ needs.measure.result }}`"
            )
        return None
    jobs = [_job(line) for line in lines if line.strip()]
    if not_needed:
        jobs = [job for job in jobs if job.result != "skipped"] or jobs
    worst = min(jobs, key=lambda job: _RESULTS.index(job.result if job.result in _RESULTS else ""))
    return replace(worst, not_needed=plain(not_needed, LONGEST_INPUT))


def _job(line: str) -> Producer:
    name, _, result = line.rpartition("=")
    shown = plain(result.strip().lower(), LONGEST_RESULT)
    return Producer(plain(name.strip(), 64) or "the measuring job", shown)


def _pr_number(text: str) -> int | None:
    if not text:
        return None
    if not _PR_NUMBER.fullmatch(text):
        raise WrongUseError(
            f"pr-number: {text[:80]!r} is not the number of a pull request, such as 7"
        )
    return int(text)


def _unlike_default(value: Callable[[str], str]) -> dict[str, str]:
    """The inputs that are not as they come, for the record; no secret, and nothing of one run."""
    return {
        row.name: plain(shown, LONGEST_INPUT)
        for row in INPUTS.values()
        if row.name not in (TOKEN, "producer", "not-needed", "pr-number", "title")
        and (shown := _shown(row, value(row.name))) != row.default
    }


def _shown(row: Input, text: str) -> str:
    return text.lower() if row.choices else text


def _output_dir(text: str, workspace: Path, may_leave: bool) -> Path:
    folder = (workspace / text).resolve()
    if folder == workspace or not (may_leave or folder.is_relative_to(workspace)):
        where = "of its own" if may_leave else "inside the workspace"
        raise WrongUseError(f"output-dir: {text[:80]!r} is not a folder {where}")
    return folder

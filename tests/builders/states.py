"""Records of pull requests that did not simply become slower, for pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_score.baselines import FolderBaselines
from ci_score.cli.demo import CASE, MAIN_COMMIT, PULL_REQUEST_COMMIT, WORKLOAD, sample
from ci_score.compare import measured_case
from ci_score.model.profile import Profile
from ci_score.model.reasons import Why
from ci_score.model.record import Record, RunIdentity
from ci_score.model.stages import CaseInput
from ci_score.run.story import Job, Place, run
from tests.builders import code_shown as code
from tests.builders import record
from tests.builders.code_shown import with_code
from tests.builders.showcase import NOW, launches, profiled
from tests.builders.verdicts import policy_file

REPOSITORY = "https://github.com/octocat/train"
# The steps of those that become slower, in milliseconds.
MANY, SLOWER = 64, {3: 389.0, 17: 340.0, 40: 312.0}


def states() -> Iterator[tuple[str, Record]]:
    """A name for its pictures, and the record."""
    head, base = CaseInput(CASE, sample("pull_request.json")), CaseInput(CASE, sample("main.json"))
    yield "first-run-of-branch", told([base], tracked=True)
    yield "first-run-of-pull", told([head])
    elsewhere = CaseInput(CASE, head.profile.but(accelerator="H100 SXM 80GB"))
    yield "not-judged", told([elsewhere], [base])
    yield "memory", of_peaks()
    yield "memory-of-code", with_code(of_peaks(), code.of_memory())
    yield "memory-of-operators", by_operators()
    slower = told([_paired(389.0)], [base])
    for name, change in OF_CODE.items():
        yield name, with_code(slower, change())
    yield "code-without-cause", with_code(slower, code.touched(), cause=None)
    yield "faster", told([base], [head])
    yield "faster-paired", told([_paired(260.0)], [base])
    yield "crash", told([_crashed()], [base])
    names = [f"model-{number:02d}@l4" for number in range(MANY)]
    before = [replace(base, name=name) for name in names]
    after = [replace(base, name=name) for name in names]
    for number, step_ms in SLOWER.items():
        after[number] = replace(_paired(step_ms), name=names[number])
    yield "many", told(after, before)


OF_CODE = {
    "code-touched": code.touched,
    "code-untouched": code.untouched,
    "code-of-library": code.of_library,
    "code-compiled": code.compiled,
    "code-of-stacks": code.of_stacks,
    "code-of-source-fields": code.of_source_fields,
    "code-diff-too-large": code.too_large,
}


def told(cases: Sequence[CaseInput], before: Sequence[CaseInput] = (), **job: Any) -> Record:
    """The record of a pull request, or of the branch where it is `tracked`."""
    known = record(
        *(measured_case(one, WORKLOAD) for one in before),
        commit=MAIN_COMMIT,
        run=RunIdentity(number=917, id=88123),
        repository=REPOSITORY,
        rules="training",
    )
    place = Place(repository=REPOSITORY)
    if not job.get("tracked"):
        place = replace(place, pull=12, pull_head=PULL_REQUEST_COMMIT)
    return run(
        Job(
            cases=tuple(cases),
            workload=WORKLOAD,
            policy=policy_file(rules="training"),
            commit=PULL_REQUEST_COMMIT,
            run=RunIdentity(number=918, id=88130),
            place=place,
            **job,
        ),
        baselines=FolderBaselines.of_records([("ci-score.json", known)], asking=record())
        if before
        else FolderBaselines(Path("baselines")),
        publish=lambda _record: None,
        now=lambda: NOW,
    )


def _paired(head_ms: float) -> CaseInput:
    """Both sides in turns; a slower head has the slower profile."""
    base = CaseInput(CASE, profiled("main.json", launches("base", 301.0)))
    numbers = launches("head", head_ms)
    name = "pull_request.json" if head_ms > 301.0 else "main.json"
    sided = replace(base, launches=launches("base", 301.0))
    return CaseInput(CASE, profiled(name, numbers), launches=numbers, base=sided)


def of_peaks(
    base: Mapping[str, int] | None = None,
    head: Mapping[str, int] | None = None,
    *,
    peak_gb: float = 21.7,
    step_ms: float | None = None,
) -> Record:
    """A pull request whose peak of memory grew, by the operators that allocated what was in use."""
    before = sample("main.json").but(peak_memory_gb=18.9, peak_ops=dict(base or {}))
    after = before.but(peak_memory_gb=peak_gb, peak_ops=dict(head or {}))
    if step_ms is not None:
        slow = sample("pull_request.json")
        after = slow.but(peak_memory_gb=peak_gb, avg_step_ms=step_ms)
    return told([CaseInput(CASE, after)], [CaseInput(CASE, before)])


def by_operators() -> Record:
    """Attention keeps what it kept before, and as much again."""
    gb = code.GB // 10
    kept = {"aten::linear": 32 * gb, "aten::gelu": 11 * gb}
    attention = "aten::scaled_dot_product_attention"
    return of_peaks({attention: 26 * gb, **kept}, {attention: 51 * gb, **kept})


def _crashed() -> CaseInput:
    why = Why.NO_SOUND_LAUNCH(
        side="head", launch=0, events=("crashed",), words=("it ended with exit code 1",)
    )
    profile = Profile(unusable="its launches crashed")
    return CaseInput(CASE, profile, crashed=why, has_profile=False)

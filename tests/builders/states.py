"""Records of pull requests that did not simply become slower, for pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ci_score.baselines import FolderBaselines
from ci_score.cli.demo import CASE, MAIN_COMMIT, PULL_REQUEST_COMMIT, WORKLOAD, sample
from ci_score.compare import measured_case
from ci_score.model.reasons import Why
from ci_score.model.record import Record, RunIdentity
from ci_score.model.stages import CaseInput
from ci_score.run.story import Job, Place, run
from tests.builders import on, record
from tests.builders.showcase import NOW, launches
from tests.builders.verdicts import policy_file

REPOSITORY = "https://github.com/octocat/train"
MANY, SLOWER = 64, (3, 17, 40)


def states() -> Iterator[tuple[str, Record]]:
    """A name for its pictures, and the record."""
    head, base = CaseInput(CASE, sample("pull_request.json")), CaseInput(CASE, sample("main.json"))
    yield "first-run-of-branch", told([base], tracked=True)
    yield "first-run-of-pull", told([head])
    elsewhere = CaseInput(CASE, head.profile, environment=on("H100 SXM 80GB", 1))
    yield "not-judged", told([elsewhere], [base])
    greedy = CaseInput(CASE, base.profile.but(peak_memory_gb=21.7))
    yield "memory", told([greedy], [CaseInput(CASE, base.profile.but(peak_memory_gb=18.9))])
    yield "faster", told([base], [head])
    yield "faster-paired", told([_paired(faster_ms=260.0)], [base])
    yield "crash", told([CaseInput(CASE, base.profile.but(unusable="its launches crashed"), crashed=Why.NO_SOUND_LAUNCH(side="head", launch=3, events="", words="exit code 137"))], [base])
    names = [f"model-{number:02d}@l4" for number in range(MANY)]
    before = [CaseInput(name, base.profile) for name in names]
    after = [
        CaseInput(name, head.profile if number in SLOWER else base.profile)
        for number, name in enumerate(names)
    ]
    yield "many", told(after, before)


def told(cases: Sequence[CaseInput], before: Sequence[CaseInput] = (), **job: Any) -> Record:
    """The record of a pull request, or of the branch where it is `tracked`."""
    known = record(
        *(measured_case(one, WORKLOAD) for one in before),
        commit=MAIN_COMMIT,
        run=RunIdentity(number=917, id=88123),
        repository=REPOSITORY,
        rules="training",
    )
    pull = {} if job.get("tracked") else {"pull": 12, "pull_head": PULL_REQUEST_COMMIT}
    return run(
        Job(
            cases=tuple(cases),
            workload=WORKLOAD,
            policy=policy_file(rules="training"),
            commit=PULL_REQUEST_COMMIT,
            run=RunIdentity(number=918, id=88130),
            place=Place(repository=REPOSITORY, **pull),
            **job,
        ),
        baselines=FolderBaselines.of_records(
            [("ci-score.json", known)] if before else [], asking=record()
        ),
        publish=lambda _record: None,
        now=lambda: NOW,
    )


def _paired(faster_ms: float) -> CaseInput:
    sides = launches("base", 301.0), launches("head", faster_ms)
    base, head = (
        CaseInput(CASE, sample("main.json").but(avg_step_ms=ms), launches=numbers)
        for ms, numbers in zip((301.0, faster_ms), sides, strict=True)
    )
    return CaseInput(CASE, head.profile, launches=head.launches, base=base)

"""Measurement lines, the cases and verdicts they give, and the attempts of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ci_score.baselines import FolderBaselines
from ci_score.launches.attempts import Attempts, pooled
from ci_score.model.record import Judged, Record, RunIdentity
from ci_score.model.stages import Attempted, CaseInput
from ci_score.model.verdict import Verdict
from ci_score.run.case_files import CaseFile
from ci_score.run.reading import read_cases
from ci_score.run.story import Job, run
from tests.builders import record
from tests.builders.verdicts import policy_file

COMMIT = "c" * 40


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(
        json.dumps({"schema": 1, "step_ms": [100.0], **row}).encode() + b"\n" for row in rows
    )


def read(data: bytes) -> CaseInput:
    (one,) = read_cases({}, {"training": [CaseFile("m.jsonl", data=data)]}, {})
    return one


def judged(data: bytes, tmp_path: Path) -> tuple[Record, Verdict]:
    left = run(
        Job((read(data),), policy=policy_file(rules="training")),
        baselines=FolderBaselines(tmp_path / "none"),
        publish=lambda _: None,
        now=lambda: "2026-01-02T03:04:05Z",
    )
    verdict = left.cases[0].verdict
    assert verdict is not None
    return left, verdict


def attempt(number: int, *cases: Judged, **fields: Any) -> Record:
    identity = RunIdentity(number=7, attempt=number)
    return record(*cases, **{"commit": COMMIT, "run": identity, **fields})


def together(now: Judged, *earlier: Record, number: int = 2) -> Attempts:
    return pooled([Attempted(now)], RunIdentity(number=7, attempt=number), COMMIT, earlier)

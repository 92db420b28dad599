"""A whole `ci-score run` beside a branch's record, of measurement lines that a test makes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ci_score.cli import execute
from ci_score.model.environment import Environment
from ci_score.model.record import HistoryPoint, Judged, Record, RunIdentity
from tests.builders import case, record, scorecard, write

TRAINING = 'schema = 1\nrules = "training"\n'
TOKENS = 1000
UNPROFILED = Environment(timing="unprofiled")


def timed(ms: float, name: str = "training", **fields: Any) -> Judged:
    """A case of a record: what `run` leaves of measurement lines."""
    fields = {"environment": UNPROFILED, "tokens_per_step": float(TOKENS), **fields}
    return case(name, scorecard(ms, TOKENS / ms * 1000.0, wall_coverage=0.0), **fields)


def point(number: int, ms: float, name: str = "training") -> HistoryPoint:
    return HistoryPoint(
        case=name,
        run=RunIdentity(number=number),
        created_at=f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00Z",
        step_time_ms=ms,
        throughput_tok_s=TOKENS / ms * 1000.0,
        tokens_per_step=float(TOKENS),
        environment=UNPROFILED,
    )


def branch(
    here: Path, *cases: Judged, runs: int = 0, spread: float = 0.01, odd: float = 1.0
) -> None:
    """The branch's newest record, with so many runs before it; every fifth may be odd."""
    luck = random.Random(7)  # noqa: S311 - noise, no secret
    cases = cases or (timed(100.0),)
    points = [
        point(number, one.scorecard.step_time_ms * (1 + luck.gauss(0.0, spread))
              * (odd if number % 20 == 19 else 1.0), one.name)
        for number in range(runs)
        for one in cases
    ]  # fmt: skip
    own = [point(runs, one.scorecard.step_time_ms, one.name) for one in cases]
    left = record(
        *cases, history=(*points, *own), run=RunIdentity(number=runs),
        created_at="2026-02-01T00:00:00Z",
    )  # fmt: skip
    write(here / "main.json", left.model_dump_json())


def session(head_ms: float, base_ms: float = 100.0, pairs: int = 12) -> Iterator[dict[str, Any]]:
    """The lines of an A/B session on a quiet machine."""
    luck = random.Random(11)  # noqa: S311 - noise, no secret
    for number in range(pairs):
        for place, (side, ms) in enumerate((("base", base_ms), ("head", head_ms))):
            yield {
                "schema": 1, "side": side, "launch": number, "order": 2 * number + place,
                "step_ms": [ms * (1 + luck.gauss(0.0, 0.004)) for _ in range(20)],
                "tokens_per_step": TOKENS,
            }  # fmt: skip


def alone(*times: float, **fields: Any) -> Iterator[dict[str, Any]]:
    """Launches of head without a base."""
    for number, ms in enumerate(times):
        yield {"schema": 1, "launch": number, "order": number, "step_ms": [ms] * 5,
               "tokens_per_step": TOKENS, **fields}  # fmt: skip


def judged(
    here: Path,
    *rows: dict[str, Any],
    policy: str | None = TRAINING,
    environment: dict[str, Any] | None = None,
) -> tuple[int, str]:
    """The exit code of `ci-score run` beside the branch's record, and the report."""
    if policy is not None:
        write(here / ".github" / "ci-score.toml", policy)
    if environment is not None:
        write(here / "perf" / "environment.json", json.dumps({"schema": 1, **environment}))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    write(here / "perf" / "measurements.jsonl", lines)
    named = ["--baseline", "main.json"] if (here / "main.json").exists() else []
    code = execute(["run", "--profiles", "none", "--measurements", "perf", *named])
    return code, (here / "ci-score" / "report.md").read_text(encoding="utf-8")


def held(here: Path) -> Record:
    """What the run left."""
    return Record.model_validate_json((here / "ci-score" / "ci-score.json").read_bytes())

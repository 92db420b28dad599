"""Records for reports: the demo's, every outcome, hostile names, and nearly no data."""

from __future__ import annotations

from ci_score.cli.demo import CASE, MAIN_COMMIT, PULL_REQUEST_COMMIT, WORKLOAD, sample
from ci_score.compare import measured_case
from ci_score.model.reasons import Why
from ci_score.model.record import BaselineUsed, Judged, Record
from ci_score.model.stages import BaselineFound, BaselineMissing, CaseInput
from ci_score.model.verdict import Unjudged
from tests.builders import case, found, on, phase, profile, record, scorecard
from tests.builders.verdicts import judged_case

HOSTILE = "a|b`c\n@everyone <img src=x> [x](http://evil) #1 **bold** ::error::"


def demo() -> Record:
    base = measured_case(CaseInput(CASE, sample("main.json")), WORKLOAD)
    head = measured_case(CaseInput(CASE, sample("pull_request.json")), WORKLOAD)
    used = BaselineUsed(source="main.json", commit=MAIN_COMMIT, created_at="2026-01-05T08:00:00Z")
    return record(judged_case(head, BaselineFound(base, used)), commit=PULL_REQUEST_COMMIT)


def matrix() -> Record:
    """Every outcome in one report."""
    base = found(case(environment=on("H100 SXM 80GB", 8)))
    cards = {
        "passes": scorecard(99.0, 1010.0),
        "warns": scorecard(112.0, 893.0),
        "fails": scorecard(130.0, 769.0),
    }
    missing = BaselineMissing(
        Unjudged.ENVIRONMENT_CHANGED, Why.MISMATCH(key="accelerator", here="L4", there="T4")
    )
    return record(
        *(judged_case(case(name, card), base) for name, card in cards.items()),
        judged_case(case("unjudged@l4", environment=on("L4")), missing),
    )


def hostile() -> Record:
    """Names made to break out of the markdown."""
    nasty = profile(
        phases={HOSTILE: phase(90.0)},
        per_layer=[{"layer": 0, "fwd_ms": 1, "bwd_ms": 2, "ops": {HOSTILE: 3.0, "\u202emoc": 1.0}}],
        accelerator=HOSTILE,
    )
    head = measured_case(CaseInput("training", nasty), WORKLOAD)
    slower = measured_case(CaseInput("training", nasty.but(avg_step_ms=50.0)), WORKLOAD)
    return record(judged_case(head, found(slower)))


def ungraded() -> Record:
    """A profile without phases and layers, which cannot be graded."""
    read = CaseInput("training", profile(phases={}, per_layer=()))
    return record(Judged.of(measured_case(read, WORKLOAD)))

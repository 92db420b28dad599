"""The texts that people read, whole, as golden files; `make golden` rewrites them for review."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_score import compute_parity, parity_markdown, scorecard_markdown
from ci_score.cli.demo import CASE, MAIN_COMMIT, PULL_REQUEST_COMMIT, WORKLOAD, sample
from ci_score.models import (
    BaselineFound,
    BaselineMissing,
    BaselineUsed,
    CaseInput,
    Record,
    Unjudged,
)
from ci_score.pipeline import judged_case, measured_case
from ci_score.report.markdown import parity_report, report_markdown
from ci_score.report.terminal import parity_text, report_text
from tests.builders import case, found, on, phase, profile, record, runtime, scorecard

GOLDEN = Path(__file__).parent / "golden"
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
    missing = BaselineMissing(Unjudged.ENVIRONMENT_CHANGED, "accelerator: L4 here, T4 there")
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
    slower = measured_case(
        CaseInput("training", nasty.model_copy(update={"avg_step_ms": 50.0})), WORKLOAD
    )
    return record(judged_case(head, found(slower)))


def ungraded() -> Record:
    """A profile that knows next to nothing."""
    return record(measured_case(CaseInput("training", profile(phases={}, per_layer=())), WORKLOAD))


PARITY = compute_parity(
    runtime("ours", gemm=2.0, norm=1.0, mine=3.0), runtime("theirs", gemm=1.0, norm=1.0)
)
VACUOUS = compute_parity(runtime("ours", qkv=1.0), runtime(HOSTILE, attention=1.0))

TEXTS: dict[str, Callable[[], str]] = {
    "demo.md": lambda: report_markdown(demo()),
    "demo.txt": lambda: report_text(demo()),
    "demo.reference.md": lambda: scorecard_markdown(demo().cases[0].scorecard),
    "matrix.md": lambda: report_markdown(matrix(), title="nightly"),
    "matrix.txt": lambda: report_text(matrix()),
    "hostile.md": lambda: report_markdown(hostile()),
    "hostile.txt": lambda: report_text(hostile()),
    "ungraded.md": lambda: report_markdown(ungraded()),
    "parity.md": lambda: parity_report(PARITY),
    "parity.txt": lambda: parity_text(PARITY),
    "parity.reference.md": lambda: parity_markdown(PARITY),
    "parity-vacuous.md": lambda: parity_report(VACUOUS),
    "parity-vacuous.txt": lambda: parity_text(VACUOUS),
}


@pytest.mark.parametrize("name", TEXTS)
def test_report__golden(name: str) -> None:
    """The whole text, as a person reviewed it."""
    text = TEXTS[name]()
    if os.environ.get("CI_SCORE_WRITE_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_report__golden_files_are_all_used() -> None:
    """No text is left over from a renderer that is gone."""
    assert {path.name for path in GOLDEN.iterdir()} == set(TEXTS)


def test_report__the_worst_case_comes_first() -> None:
    """A reader of the first lines has read the verdict of the report."""
    lines = report_markdown(matrix()).splitlines()
    assert lines[0].startswith("## ❌ ")
    order = [line for line in lines if "<code>" in line]
    names = [line.split("<code>")[1].split("</code>")[0] for line in order]
    assert names == ["fails", "unjudged@l4", "warns", "passes"]


def test_report__is_short_before_the_folds() -> None:
    """Under 25 lines until the first fold of a single case."""
    assert report_markdown(demo()).split("<details>")[0].count("\n") < 25

"""Real pairs of profiles: their verdict and its reason, as docs/why.md prints them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ci_score.compare import Workload, measured_case
from ci_score.model.metrics import significant
from ci_score.model.record import Measured
from ci_score.model.stages import CaseInput
from ci_score.report import verdict_line
from ci_score.report.sentences import sentences
from ci_score.traces.formats import read_profile
from ci_score.traces.source import ProfileSource
from tests.builders import PROJECT, found, shared
from tests.builders.verdicts import change_lines, judged_case

SHARED = shared()
DOCS = (PROJECT / "docs" / "why.md").read_text(encoding="utf-8")

# Title -> head and base, within the samples.
PAIRS = {
    "ResNet-50, data loading without and with four workers": (
        "kineto/old2021_resnet50_workers0_6step.json.gz",
        "kineto/old2021_resnet50_workers4_6step.json.gz",
    ),
    "DLRM on eight V100s, one rank beside another": (
        "kineto/v100_dlrm_rank1of8_1step.json.gz",
        "kineto/v100_dlrm_rank0of8_1step.json.gz",
    ),
    "Canaries of two frameworks on other machines": (
        "upstream/canary-pytorch-gx10-20260331.json",
        "upstream/canary-unsloth-20260331.json",
    ),
    "Canaries of one machine, without a profile": (
        "upstream/canary-cublas-gx10-20260331.json",
        "upstream/canary-pytorch-gx10-20260331.json",
    ),
    "A runtime that times its own phases": (
        "upstream/canary-apr-gx10-async-20260405.profile.json",
        "upstream/canary-apr-gx10-pretok-20260405.profile.json",
    ),
}


def measured(path: Path) -> Measured:
    profile = read_profile(ProfileSource(path.name, path=path))
    return measured_case(CaseInput("training", profile), Workload())


def printed(head: Path, base: Path) -> str:
    """The verdict, the parts of the step that moved, and what to try."""
    judged = judged_case(measured(head), found(measured(base)))
    assert judged.verdict is not None
    lines = [verdict_line(judged)]
    if judged.explanation is None:
        said = [*change_lines(judged), *sentences(judged.verdict.reasons)]
        lines += [f"  {reason}" for reason in said]
    for part in judged.explanation.parts if judged.explanation else ():
        if abs(part.delta_ms) >= 0.0005:
            sign = "+" if part.delta_ms > 0 else "−"
            delta = f"{sign}{significant(abs(part.delta_ms), 'ms')}"
            lines.append(
                f"  {part.name:28} {part.base_ms:8.2f} → {part.head_ms:8.2f} ms  {delta:>10}"
            )
    lines += [f"  advice: {words}" for words in sentences(judged.advice)]
    return "\n".join(lines)


@pytest.mark.skipif(SHARED is None, reason="the samples are not here")
@pytest.mark.parametrize("title", PAIRS)
def test_real_pair__is_printed_in_the_docs(title: str) -> None:
    """What the docs show is what is said of these files today."""
    assert SHARED is not None
    head, base = (SHARED / "samples" / name for name in PAIRS[title])
    section = re.search(rf"### {re.escape(title)}\n.*?```text\n(.*?)\n```", DOCS, re.DOTALL)
    assert section is not None
    assert section[1] == printed(head, base)


def test_docs__print_every_pair_and_no_other() -> None:
    """A pair that is gone leaves the docs, too."""
    assert re.findall(r"^### (.*)$", DOCS, re.MULTILINE) == list(PAIRS)

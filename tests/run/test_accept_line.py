"""The line that a report offers to accept a regression accepts it, and says what the verdict says.

Each report is fed its own line, as a comment of somebody who may write; then it has to pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_score.baselines import FolderBaselines
from ci_score.compare import compared
from ci_score.files.strict_json import dump
from ci_score.judge import decide, exit_code, settle
from ci_score.judge.policy import Policy
from ci_score.model.conversation import Conversation, Nobody
from ci_score.model.gate import Gate
from ci_score.model.record import Record
from ci_score.model.verdict import Outcome
from ci_score.report.headlines import headline
from ci_score.report.reproducing import acceptance_line
from ci_score.run.case_files import CaseFile
from ci_score.run.reading import read_cases
from ci_score.run.story import Job, run
from tests.builders import case, found, scorecard
from tests.builders.launches import lines
from tests.builders.verdicts import Saying, judged_case, policy_file

COMMIT, BASE = "c" * 40, "b" * 40
OUTLIERS = (1.0, 1.02, 0.99, 1.01, 1.0, 3.1, 1.0, 0.98, 2.7, 1.01, 0.99, 1.0)


def paired(times: float, noise: Sequence[float] = (1.0, 1.01, 0.99) * 4, **fields: Any) -> bytes:
    """Twelve pairs, in which head takes so many times as long."""
    return lines(
        *(
            {
                "side": side,
                "launch": number,
                "order": 2 * number + (side == "base"),
                "step_ms": [100.0 * (times * factor if side == "head" else 1.0)] * 3,
                **fields,
            }
            for number, factor in enumerate(noise)
            for side in ("head", "base")
        )
    )


def alone(step_ms: float, **fields: Any) -> bytes:
    """One launch of one side."""
    return lines({"step_ms": [step_ms] * 3, **fields})


TOKENS: dict[str, Any] = {"tokens_per_step": 1000}
GATED = {"warn": 0.01, "fail": 0.05}
OF_THROUGHPUT = {"throughput_tok_s": GATED, "step_time_ms": {"gate": False}}
OF_STEP = {"step_time_ms": GATED, "throughput_tok_s": {"gate": False}}
# What head measured, base's record where there is one, and the policy.
CASES: dict[str, tuple[dict[str, bytes], dict[str, bytes], dict[str, Any]]] = {
    "pairs": ({"a": paired(1.29, **TOKENS)}, {}, {"rules": "training"}),
    "pairs without tokens": ({"a": paired(1.29)}, {}, {"rules": "training"}),
    "pairs of a throughput": (
        {"a": paired(1.29, **TOKENS)}, {}, {"rules": "training", "metrics": OF_THROUGHPUT},
    ),
    "pairs of a step": (
        {"a": paired(1.29, **TOKENS)}, {}, {"rules": "training", "metrics": OF_STEP},
    ),
    "pairs with outliers": (
        {"a": paired(1.29, OUTLIERS, **TOKENS)}, {}, {"rules": "training"},
    ),
    "pairs with outliers of a throughput": (
        {"a": paired(1.29, OUTLIERS, **TOKENS)},
        {},
        {"rules": "training", "metrics": OF_THROUGHPUT},
    ),
    "pairs by the reference's rules": ({"a": paired(1.29, **TOKENS)}, {}, {"rules": "reference"}),
    "one number": ({"a": alone(129.0, **TOKENS)}, {"a": alone(100.0, **TOKENS)}, {}),
    "one number without tokens": ({"a": alone(129.0)}, {"a": alone(100.0)}, {}),
    "one number of a throughput": (
        {"a": alone(129.0, **TOKENS)},
        {"a": alone(100.0, **TOKENS)},
        {"metrics": {"throughput_tok_s": GATED}},
    ),
    "many times as long": ({"a": paired(3.3, **TOKENS)}, {}, {"rules": "training"}),
    "several cases": (
        {"a": paired(1.29, **TOKENS), "b": paired(1.0), "c": paired(1.5, **TOKENS)},
        {},
        {"rules": "training"},
    ),
}  # fmt: skip


def report(
    files: dict[str, bytes],
    table: dict[str, Any],
    folder: Path,
    talk: Conversation,
    commit: str = COMMIT,
) -> Record:
    """The record of a run; with a folder that has one of the base, it is compared with it."""
    inputs = {name: [CaseFile("m.jsonl", data=data)] for name, data in files.items()}
    return run(
        Job(read_cases({}, inputs, {}), policy=policy_file(**table) if table else None,
            commit=commit),
        baselines=FolderBaselines(folder),
        publish=lambda _: None,
        now=lambda: "2026-01-02T03:04:05Z",
        conversation=talk,
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_line__accepts_what_it_stands_below(name: str, tmp_path: Path) -> None:
    """It names the time that the verdict names, and reaches as far; then the report passes."""
    files, before, table = CASES[name]
    if before:
        base = report(before, {}, tmp_path / "none", Nobody(), BASE)
        FolderBaselines(tmp_path).save(base, dump(base))
    failing = report(files, table, tmp_path, Nobody())
    assert exit_code(failing, Gate()) == 1
    shown = [acceptance_line(one) for one in failing.cases]
    for one, line in zip(failing.cases, shown, strict=True):
        if not line:
            continue
        slower = re.search(r"([\d.]+)(?: % slower|× as long)", headline(one))
        assert slower
        share = float(slower[1]) if "%" in slower[0] else 100 * (float(slower[1]) - 1)
        (bound,) = re.findall(r"step_time_ms up to (\d+) %", line)
        assert share <= float(bound) <= 1.1 * share + 1, (headline(one), line)
    saying = Saying("\n".join(shown).replace("<reason>", "the fix costs it"))
    accepted = report(files, table, tmp_path, saying)
    assert exit_code(accepted, Gate()) == 0, [headline(one) for one in accepted.cases]
    assert not [one for one in accepted.acceptances if one.refused]


def test_line__of_a_throughput_alone_is_of_its_time() -> None:
    """Where no step was timed the verdict tells the throughput as time, and so does the line."""
    head, base = (case("a", card=scorecard(0.0, tokens)) for tokens in (775.0, 1000.0))
    failing = judged_case(head, found(base))
    assert headline(failing).startswith("Fail: 29 % slower")
    line = acceptance_line(failing)
    assert line == "ci-score accept a step_time_ms up to 32 % because <reason>"
    settled = settle(Saying(line), Policy(), [failing], ())
    (accepted,) = decide([compared(head, found(base))], (), Policy(), settled.granted)
    assert accepted.verdict
    assert accepted.verdict.outcome is Outcome.PASS

"""What users met where a verdict said more, or less, than was measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.model.reasons import Why
from ci_score.model.record import Judged, Record
from ci_score.model.verdict import Outcome, Unjudged
from ci_score.report.headlines import headline as headline_of
from ci_score.report.rows import notices
from tests.builders.verdicts import change_lines, reasons

Out = pytest.CaptureFixture[str]
PAIRS = 6
TRAINING = 'schema = 1\nrules = "training"\n'


def rows(side: str, step_ms: float, case: str | None = None, **fields: Any) -> Iterator[str]:
    """A launch a pair, with the little luck of a quiet machine; a list is a value a launch."""
    for number in range(PAIRS):
        told = {
            name: value[number] if isinstance(value, list) else value
            for name, value in fields.items()
        }
        wobble = 1 + ((number * 7 + (side == "head") * 3) % 5 - 2) / 2000
        line = {
            "schema": 1,
            "side": side,
            "launch": number,
            "order": 2 * number + (side == "head"),
            "step_ms": [step_ms * wobble] * 3,
            "tokens_per_step": 1000,
            **told,
        }
        yield json.dumps(line if case is None else {"case": case, **line}) + "\n"


def judged(
    here: Path, *lines: str, policy: str = "", code: int | None = None, **options: str
) -> Record:
    """What `run` leaves of these lines under these rules."""
    (here / ".github").mkdir(exist_ok=True)
    (here / ".github" / "ci-score.toml").write_text(TRAINING + policy, encoding="utf-8")
    (here / "m.jsonl").write_text("".join(lines), encoding="utf-8")
    asked = [word for name, value in options.items() for word in (f"--{name}", value)]
    found = execute(["run", "--measurements", "m.jsonl", *asked])
    assert code is None or found == code
    return Record.model_validate_json((here / "ci-score" / "ci-score.json").read_bytes())


def only(record: Record) -> Judged:
    """The record's one case."""
    (case,) = record.cases
    assert case.verdict is not None
    return case


def headline(record: Record) -> str:
    """What the first line of the report says."""
    return headline_of(only(record))


@pytest.mark.parametrize(
    ("rule", "base", "head"),
    [
        ('direction = "lower"\nscale = "absolute"\nfail = 5.0\nwarn = 1.0', 0.0, 100.0),
        ('direction = "lower"\nfail = 0.1\nwarn = 0.1', 10.0, -10.0),
        ('direction = "lower"\nexact = true\nfail = 0.1\nwarn = 0.1', 0.0, 500.0),
    ],
    ids=["absolute from 0", "below 0", "a count from 0"],
)
def test_gate__is_not_switched_off_by_a_zero(
    here: Path, rule: str, base: float, head: float
) -> None:
    """A gated number that cannot be compared, or grew from nothing, is no pass."""
    record = judged(
        here,
        *rows("head", 100.0, metrics={"mine": head}),
        *rows("base", 100.0, metrics={"mine": base}),
        policy=f"[metrics.mine]\n{rule}\n",
    )
    case = only(record)
    assert record.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
    (mine,) = [change for change in case.changes if change.metric == "mine"]
    assert mine.outcome is record.outcome
    assert any("mine" in words for words in (headline(record), *reasons(case)))


def test_gate__on_nothing_is_said(here: Path) -> None:
    """A policy without a gate reports, and does not say that all is well."""
    none = "".join(
        f"[metrics.{name}]\ngate = false\n"
        for name in (
            "throughput_tok_s",
            "peak_memory_gb",
            "kernel_launches_per_step",
            "device_kernels_per_step",
            "host_ops_per_step",
        )
    )
    record = judged(here, *rows("head", 150.0), *rows("base", 100.0), policy=none)
    assert headline(record).startswith("Pass: only reported, the policy sets no limit: ")
    assert "slower" in headline(record)


def test_count__with_two_modes_does_not_fail_an_unchanged_program(here: Path) -> None:
    """A peak memory that varies between the launches of one side is no count."""
    record = judged(
        here,
        *rows("head", 100.0, peak_memory_gb=[10.0, 11.3, 11.3, 11.3, 10.0, 11.3]),
        *rows("base", 100.0, peak_memory_gb=[10.0, 10.0, 11.3, 10.0, 11.3, 10.0]),
    )
    case = only(record)
    assert record.outcome is not Outcome.FAIL
    codes = {reason.code for change in case.changes for reason in change.reasons}
    assert Why.COUNT not in codes
    assert "does not vary" not in " ".join((*reasons(case), *change_lines(case)))


def test_count__that_each_launch_has_fails_without_statistics(here: Path) -> None:
    """The same on every launch of a side, and more on the other."""
    record = judged(
        here,
        *rows("head", 100.0, peak_memory_gb=12.0),
        *rows("base", 100.0, peak_memory_gb=10.0),
        code=1,
    )
    assert headline(record).startswith("Fail: peak memory +20 % · ")


def test_budget__is_the_most_of_all_launches(here: Path) -> None:
    """One launch over the budget is over the budget."""
    record = judged(
        here,
        *rows("head", 100.0, peak_memory_gb=[20.0, 20.0, 30.0, 20.0, 20.0, 20.0]),
        *rows("base", 100.0, peak_memory_gb=[20.0, 20.0, 30.0, 20.0, 20.0, 20.0]),
        policy="[budgets]\npeak_memory_gb = 21.0\n",
        code=1,
    )
    assert "over its budget" in headline(record)


def test_pairs__the_table_shows_what_was_judged(here: Path) -> None:
    """Launches without a partner do not count, and are said; each side shows a launch it had."""
    alone = [line.replace('"launch": ', '"launch": 9') for line in rows("head", 200.0)]
    record = judged(here, *rows("head", 100.0), *rows("base", 100.0), *alone)
    case = only(record)
    change = next(row for row in case.changes if row.metric == "step_time_ms")
    assert change.delta is not None
    assert change.head / change.base - 1 == pytest.approx(change.delta, abs=1e-3)
    for side, shown in (("base", change.base), ("head", change.head)):
        own = case.numbers_of(side, "step_time_ms")[:PAIRS]
        assert min(own) <= shown <= max(own)
    assert any("have no partner" in words for words in reasons(case))


def test_compare__asks_for_the_baseline_that_was_named(here: Path, capsys: Out) -> None:
    """The pairs of a record tell of another base."""
    (here / "old").mkdir()
    judged(here, *rows("head", 150.0), *rows("base", 100.0))
    shutil.copy(here / "ci-score" / "ci-score.json", here / "old" / "head.json")
    judged(here, *rows("head", 150.0))
    capsys.readouterr()
    assert execute(["compare", "old/head.json", "ci-score/ci-score.json"]) == 0
    assert "slower" not in capsys.readouterr().out


def test_required__holds_on_a_machine_without_github(here: Path) -> None:
    """A required case that is gone is no pass anywhere."""
    policy = '[[case]]\nmatch = ["b"]\nrequired = true\n'
    record = judged(
        here, *rows("head", 100.0, case="a"), *rows("base", 100.0, case="a"), policy=policy, code=3
    )
    assert record.unjudged is not None
    assert record.unjudged.unjudged is Unjudged.REQUIRED_CASE_MISSING


def test_rerun__of_the_same_lines_is_told_by_no_run_of_a_folder(here: Path) -> None:
    """Without git the first runs of two folders are two runs."""
    for name, step_ms in (("one", 100.0), ("two", 110.0)):
        shutil.rmtree(here / "ci-score", ignore_errors=True)
        judged(here, *rows("head", step_ms))
        shutil.copy(here / "ci-score" / "ci-score.json", here / f"{name}.json")
    assert execute(["compare", "two.json", "one.json"]) != 3


def test_base__of_few_pairs_is_not_clear(here: Path) -> None:
    """Whoever measures two pairs is not judged by something milder."""
    judged(here, *rows("head", 100.0))
    shutil.copy(here / "ci-score" / "ci-score.json", here / "main.json")
    two = [*rows("head", 131.0)][:2] + [*rows("base", 129.0)][:2]
    record = judged(here, *two, baseline="main.json", code=3)
    assert "2 pairs are too few, about 6 would tell" in headline(record)


def test_base__that_is_not_the_branch_s_is_asked_about(here: Path) -> None:
    """A wrong checkout of the base makes any change look harmless."""
    judged(here, *rows("head", 100.0))
    shutil.copy(here / "ci-score" / "ci-score.json", here / "main.json")
    record = judged(here, *rows("head", 131.0), *rows("base", 130.0), baseline="main.json")
    assert any("Was it the right checkout?" in notice for notice in notices(record))


def test_base__of_a_second_look_at_one_session_is_not_doubted(here: Path) -> None:
    """The record of the first look holds its head, which says nothing of its base."""
    session = (*rows("head", 131.0), *rows("base", 100.0))
    judged(here, *session)
    record = judged(here, *session)
    assert not any("right checkout" in notice for notice in notices(record))

"""What a policy demands of two sides: broken, kept, or not compared, which is never kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.compare import Workload, measured_case
from ci_score.judge.parity import parity_demands, parity_with_a_case
from ci_score.judge.policy import ParityRule
from ci_score.judge.trial import Demand
from ci_score.model.profile import Profile
from ci_score.model.reasons import quoted
from ci_score.model.record import Judged, Measured, Record
from ci_score.model.scorecard import ParityProfile
from ci_score.model.stages import CaseInput
from ci_score.model.verdict import Outcome
from ci_score.report.headlines import headline
from ci_score.report.rows import notes
from ci_score.report.sentences import sentence, sentences
from ci_score.run.fork_report import only_numbers
from tests.builders import case, layer, on, profile, runtime, scorecard, write
from tests.builders.verdicts import policy

Out = pytest.CaptureFixture[str]
NAME = "llama@mi300x"


pytestmark = pytest.mark.usefixtures("here")


def rule(**demands: Any) -> ParityRule:
    table = {"match": "*@mi300x", "partner": "*@h100", **demands}
    return policy(parity=[{k: v for k, v in table.items() if v is not None}]).parity[0]


def side(name: str, tok_s: float = 1000.0, **fields: Any) -> Judged:
    return case(name, scorecard(100.0, tok_s), **{"tokens_per_step": 100.0, **fields})


def demanded(rule: ParityRule, mine: Measured, *others: Measured) -> tuple[Demand, ...]:
    return parity_demands(rule, mine, {one.name: one for one in (mine, *others)})


def outcomes(demands: tuple[Demand, ...]) -> list[Outcome]:
    return [outcome for outcome, _ in demands]


def words_of(demands: tuple[Demand, ...]) -> str:
    """The sentence of the one demand that is broken."""
    ((_, reason),) = demands
    return sentence(reason)


# --- the partner --------------------------------------------------------------------------------


def test_parity__without_its_partner_is_not_judged() -> None:
    """Neither a case that was not measured nor a file that is not there is at par."""
    ((outcome, reason),) = demanded(rule(ms_per_1k_tokens=1.2), side(NAME))
    assert outcome is Outcome.INCONCLUSIVE
    assert "llama@h100" in sentence(reason)
    ((outcome, reason),) = demanded(rule(partner=None, ms_per_1k_tokens=1.2), side(NAME))
    assert outcome is Outcome.INCONCLUSIVE
    assert "the input `parity` names no file" in sentence(reason)


def test_parity__with_a_partner_that_crashed_is_not_judged() -> None:
    """Its numbers are none."""
    crashed = side("llama@h100", unmeasured=quoted("out of memory"))
    ((outcome, reason),) = demanded(rule(ms_per_1k_tokens=1.2), side(NAME), crashed)
    assert outcome is Outcome.INCONCLUSIVE
    assert "llama@h100 is not usable (out of memory)" in sentence(reason)


def test_parity__that_does_not_gate_warns_at_most() -> None:
    """Also where nothing was compared."""
    soft = rule(ms_per_1k_tokens=1.2, gate=False)
    assert outcomes(demanded(soft, side(NAME))) == [Outcome.WARN]
    slower = demanded(soft, side(NAME, 500.0), side("llama@h100"))
    assert outcomes(slower) == [Outcome.WARN]


# --- the same work ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "mine", "theirs", "words"),
    [
        ("tokens_per_step", {"tokens_per_step": 50.0}, {}, "tokens per step 50 here, 100 there"),
        ("tokens_per_step", {"tokens_per_step": 99.0}, {}, None),
        ("tokens_per_step", {"tokens_per_step": None}, {}, f"of {NAME} is not known"),
        ("accelerator_count", {"environment": on("A", 8)}, {"environment": on("B", 4)}, "8 here"),
        ("accelerator_count", {"environment": on("A", 8)}, {"environment": on("B", 8)}, None),
        ("precision", {}, {}, f"the precision of {NAME} is not known"),
    ],
)  # fmt: skip
def test_parity__needs_the_same_of_both_sides(
    key: str, mine: dict[str, Any], theirs: dict[str, Any], words: str | None
) -> None:
    """What differs, or is not known, makes the comparison mean nothing."""
    wanted = rule(require_same=[key], ms_per_1k_tokens=1.2)
    found = demanded(wanted, side(NAME, **mine), side("llama@h100", **theirs))
    assert outcomes(found) == ([Outcome.INCONCLUSIVE] if words else [])
    assert words is None or words in words_of(found)


# --- time per token -----------------------------------------------------------------------------


@pytest.mark.parametrize(("tok_s", "broken"), [(1000.0, False), (800.0, False), (799.0, True)])
def test_parity__time_per_token(tok_s: float, broken: bool) -> None:
    """In times of the partner's, of the whole job."""
    found = demanded(rule(ms_per_1k_tokens=1.25), side(NAME, tok_s), side("llama@h100"))
    assert outcomes(found) == ([Outcome.FAIL] if broken else [])
    if broken:
        assert "1.25× the time per 1k tokens (1,252 ms against 1,000 ms)" in words_of(found)


def test_parity__time_per_token_of_different_numbers_of_devices() -> None:
    """Two devices of half the speed are a job of the same speed."""
    mine = side(NAME, 500.0, environment=on("A", 2))
    assert demanded(rule(ms_per_1k_tokens=1.1), mine, side("llama@h100")) == ()


def test_parity__of_an_unknown_rate_is_not_judged() -> None:
    """Without tokens there is no time per token."""
    found = demanded(rule(ms_per_1k_tokens=1.25), side(NAME), side("llama@h100", 0.0))
    assert outcomes(found) == [Outcome.INCONCLUSIVE]
    assert "which llama@h100 does not tell" in words_of(found)


# --- ops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ({"gemm": 9.0, "norm": 1.0}, {"gemm": 8.5, "norm": 1.0}, None),
        ({"gemm": 12.0, "norm": 1.0}, {"gemm": 8.0, "norm": 1.0}, "'gemm' 1.50×"),
        # Tiny ops are slower, more of them than a report names.
        ({"gemm": 99.0, **{f"op{n}": 0.2 for n in range(9)}},
         {"gemm": 98.0, **{f"op{n}": 0.1 for n in range(9)}}, None),
        ({"gemm": 120.0, **{f"op{n}": 0.2 for n in range(9)}},
         {"gemm": 90.0, **{f"op{n}": 0.1 for n in range(9)}}, "'gemm' 1.33×"),
    ],
)  # fmt: skip
def test_parity__of_ops_that_weigh_something(
    mine: dict[str, float], theirs: dict[str, float], expected: str | None
) -> None:
    """Only ops with a share of either side's time count, and none of them hides behind others."""
    found = demanded(rule(op_ratio=1.1), side(NAME, ops=mine), side("llama@h100", ops=theirs))
    assert outcomes(found) == ([Outcome.FAIL] if expected else [])
    assert expected is None or expected in words_of(found)


def test_parity__of_too_few_ops_is_not_judged() -> None:
    """The reference calls it achieved."""
    mine, theirs = {"gemm": 4.0, "mine": 6.0}, {"gemm": 4.0, "theirs": 6.0}
    for wanted in (rule(op_ratio=1.1), rule(reference_parity=True), rule(min_coverage=0.5)):
        found = demanded(wanted, side(NAME, ops=mine), side("llama@h100", ops=theirs))
        assert outcomes(found) == [Outcome.INCONCLUSIVE]
        assert "ops of 40 % and 40 % of the op time, 50 % is demanded" in words_of(found)
    lower = rule(op_ratio=1.1, min_coverage=0.4)
    assert demanded(lower, side(NAME, ops=mine), side("llama@h100", ops=theirs)) == ()


def test_parity__of_no_op_is_not_judged_whatever_coverage_is_asked() -> None:
    """A vacuous parity is no pass."""
    found = demanded(rule(op_ratio=1.1, min_coverage=0.0), side(NAME), side("llama@h100"))
    assert outcomes(found) == [Outcome.INCONCLUSIVE]


def test_parity__of_the_reference() -> None:
    """Its limit of 1.10 holds for every op, however small."""
    mine, theirs = {"gemm": 99.0, "norm": 0.2}, {"gemm": 99.0, "norm": 0.1}
    found = demanded(
        rule(reference_parity=True), side(NAME, ops=mine), side("llama@h100", ops=theirs)
    )
    assert outcomes(found) == [Outcome.FAIL]
    assert "'norm' 2.00×" in words_of(found)


def test_parity__of_a_file_and_a_trace_goes_by_kind() -> None:
    """A runtime's own names of ops are compared by what they do."""
    trace = profile(op_categories={"gemm": 10.0}, ops={"sgemm_128": 10.0})
    file = runtime("theirs", qkv_proj=4.0, lm_head=4.0)
    mine = measured(NAME, trace, file)
    ((outcome, reason),) = demanded(rule(partner=None, op_ratio=1.1), mine)
    assert outcome is Outcome.FAIL
    assert "'gemm' 1.25×" in sentence(reason)


def measured(name: str, measured: Profile, partner: ParityProfile | None = None) -> Measured:
    return measured_case(CaseInput(name, measured, partner=partner), Workload())


def test_parity__of_a_fork_s_record_is_judged_from_its_numbers() -> None:
    """The partner's numbers are in the record, its words are not."""
    mine = measured(NAME, profile(per_layer=(layer(0, gemm=2.0),)), runtime("@everyone", gemm=1.0))
    ((outcome, reason),) = demanded(rule(partner=None, op_ratio=1.1), only_numbers(mine))
    assert outcome is Outcome.FAIL
    assert sentence(reason).startswith("No parity with partner: 'gemm' 2.00×")


def test_parity__of_two_cases_is_shown() -> None:
    """The reference's numbers, with the cases as runtimes."""
    parity = parity_with_a_case(
        rule(op_ratio=1.1),
        side(NAME, ops={"gemm": 2.0}),
        {"llama@h100": side("llama@h100", ops={"gemm": 1.0})},
    )
    assert parity is not None
    assert (parity.apr_runtime, parity.baseline_runtime) == (NAME, "llama@h100")
    assert parity.top_gaps[0].ratio == 2.0


# --- in a run -----------------------------------------------------------------------------------


def measure(here: Path, step_ms: float, name: str, gemm: float = 1.0) -> None:
    made = profile(step_ms, tokens_per_step=1000, per_layer=(layer(0, gemm=gemm),))
    write(here / "profiles" / name / "p.json", made.model_dump_json())


def left(here: Path) -> Record:
    return Record.model_validate_json((here / "ci-score" / "ci-score.json").read_bytes())


POLICY = """
    [[parity]]
    match = "*@mi300x"
    partner = "*@h100"
    ms_per_1k_tokens = 1.25
    op_ratio = 1.5
"""


def test_run__with_parity_of_two_cases(here: Path, capsys: Out) -> None:
    """On the first run already: it needs no baseline. The report shows it, and it fails."""
    write(here / ".github" / "ci-score.toml", POLICY)
    measure(here, 100.0, "llama@h100")
    measure(here, 120.0, NAME)
    assert execute(["run"]) == 0
    assert left(here).cases[1].parity is not None
    measure(here, 130.0, NAME)
    assert execute(["run"]) == 1
    assert "1.30× the time per 1k tokens" in capsys.readouterr().out
    assert "1.30× the time per 1k tokens" in (here / "ci-score" / "report.md").read_text("utf-8")


def test_run__without_the_partner_s_case_is_no_pass(here: Path, capsys: Out) -> None:
    """Not even a first run."""
    write(here / ".github" / "ci-score.toml", POLICY)
    measure(here, 100.0, NAME)
    measure(here, 100.0, "other")
    assert execute(["run"]) == 3
    assert "llama@h100" in capsys.readouterr().out


def test_run__without_the_case_that_a_parity_is_about_is_no_pass(here: Path) -> None:
    """On a pull request; a parity that nothing matches would always hold."""
    write(here / ".github" / "ci-score.toml", POLICY)
    measure(here, 100.0, "llama@h100")
    assert execute(["run"]) == 3
    lost = left(here).unjudged
    assert lost is not None
    words = " ".join(sentences(lost.reasons))
    assert "The policy requires the case *@mi300x" in words


def test_run__with_parity_of_a_file(here: Path, capsys: Out) -> None:
    """The partner of the input `parity`."""
    text = 'rules = "training"\n[[parity]]\nop_ratio = 1.1'
    write(here / ".github" / "ci-score.toml", text)
    measure(here, 100.0, "a", gemm=2.0)
    write(here / "theirs.json", runtime("theirs", gemm=1.0).model_dump_json())
    assert execute(["run", "--parity", "a=theirs.json"]) == 1
    assert "No parity with theirs: 'gemm' 2.00×" in capsys.readouterr().out
    assert execute(["run"]) == 3
    assert execute(["run", "--parity", "a=gone.json"]) == 3


def test_compare__judges_parity_from_the_record(here: Path, capsys: Out) -> None:
    """What a run leaves is enough to judge it again."""
    write(here / ".github" / "ci-score.toml", POLICY)
    measure(here, 100.0, "llama@h100")
    measure(here, 130.0, NAME)
    assert execute(["run"]) == 1
    record = "ci-score/ci-score.json"
    (here / "base.json").write_bytes((here / record).read_bytes())
    measure(here, 131.0, NAME)
    assert execute(["run"]) == 1
    capsys.readouterr()
    assert execute(["compare", record, "base.json", "--config", ".github/ci-score.toml"]) == 1
    assert "1.31× the time per 1k tokens" in capsys.readouterr().out


# --- what a measurement has to be ---------------------------------------------------------------


def launched(here: Path, steps: int, warmup: int) -> None:
    row = {"schema": 1, "step_ms": [100.0] * steps, "warmup_steps": warmup, "tokens_per_step": 10}
    write(here / "m.jsonl", json.dumps(row) + "\n")


def test_measure__fewer_timed_steps_than_demanded_are_not_judged(here: Path) -> None:
    """The warm-up does not count."""
    write(here / ".github" / "ci-score.toml", "[measure]\ntimed_steps = 10\nwarmup_steps = 2")
    launched(here, 11, 2)
    arguments = ["run", "--profiles", "none", "--measurements", "m.jsonl"]
    assert execute(arguments) == 3
    (case,) = left(here).cases
    assert headline(case).endswith("1 of 1 launches have fewer (the shortest 9)")
    launched(here, 12, 2)
    assert execute(arguments) == 0


def test_measure__another_warm_up_is_said(here: Path) -> None:
    """It changes no verdict."""
    write(here / ".github" / "ci-score.toml", "[measure]\nwarmup_steps = 3")
    launched(here, 12, 2)
    assert execute(["run", "--profiles", "none", "--measurements", "m.jsonl"]) == 0
    (case,) = left(here).cases
    assert case.verdict is not None
    assert case.verdict.outcome is Outcome.INCONCLUSIVE
    words = "".join(notes(case))
    assert "asks for 3 warm-up steps a launch; launches here declare 2" in words

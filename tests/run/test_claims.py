"""What nobody measured decides nothing: a throughput from an input, guessed tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.model.profile import Profile
from ci_score.report.headlines import headline
from ci_score.traces import normalised
from tests.builders import profile, write
from tests.builders.whole_run import TRAINING, branch, held, judged, session, timed

GIVEN = ("--throughput", "81920")
EXCUSED = f'{TRAINING}[unjudged]\nother_work = "pass"\n'


def scored(here: Path, measured: Profile, *words: str, policy: str | None = TRAINING) -> int:
    """The exit code of `ci-score run` on one profile."""
    if policy is not None:
        write(here / ".github" / "ci-score.toml", policy)
    write(here / "p.json", normalised(measured))
    return execute(["run", "--profiles", "p.json", *words])


@pytest.mark.parametrize(("policy", "code"), [(TRAINING, 3), (None, 1)], ids=["training", "none"])
@pytest.mark.parametrize("sides", ["both", "base", "head"])
def test_throughput__from_an_input_hides_no_slower_step(
    here: Path, sides: str, policy: str | None, code: int
) -> None:
    """81,920 tokens/s by input on one side or both, and a step that takes 30 % longer."""
    of_base, of_head = (() if sides == other else GIVEN for other in ("head", "base"))
    for ms, words in ((100.0, of_base), (130.0, of_head)):
        where = ("--output-dir", "b") if ms == 100.0 else ("--baseline", "b/ci-score.json")
        found = scored(here, profile(ms, tokens_per_step=8192.0), *words, *where, policy=policy)
        assert found == (0 if ms == 100.0 else code)
    (case,) = held(here).cases
    assert "30 %" in headline(case)
    report = (here / "ci-score" / "report.md").read_text(encoding="utf-8")
    assert ("The throughput was given by an input" in report) is (sides != "base")


@pytest.mark.parametrize("policy", [TRAINING, None], ids=["training", "none"])
def test_throughput__from_an_input_alone_is_no_pass(here: Path, policy: str | None) -> None:
    """Neither side has a step time, and both say the same throughput: nothing was measured."""
    scored(here, profile(0.0), *GIVEN, "--output-dir", "b", policy=policy)
    beside = ("--baseline", "b/ci-score.json")
    assert scored(here, profile(0.0), *GIVEN, *beside, policy=policy) == 3


def test_throughput__from_an_input_counts_where_it_is_worse(here: Path) -> None:
    """The reference's own regression on the two numbers stays, and fails."""
    scored(here, profile(100.0), *GIVEN, "--output-dir", "b", policy=None)
    lower = ("--throughput", "40000", "--baseline", "b/ci-score.json")
    assert scored(here, profile(100.0), *lower, policy=None) == 1
    (case,) = held(here).cases
    assert [one.metric for one in case.scorecard.regressions] == ["throughput_tok_s"]


def test_throughput__of_two_scorecards_counts_where_it_is_worse(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scorecard does not say where its throughput comes from; the reference's is given."""
    write(here / "p.json", normalised(profile(100.0)))
    assert execute(["score", "p.json", *GIVEN, "--json"]) == 0
    write(here / "base.json", capsys.readouterr().out)
    for rate, code in (("40000", 1), ("81920", 0)):
        given = ("--throughput", rate, "--baseline", "base.json")
        assert execute(["score", "p.json", *given]) == code


@pytest.mark.parametrize(
    "table",
    [
        "[budgets]\nthroughput_tok_s = 9000\n",
        '[[parity]]\nmatch = "training"\npartner = "other"\nms_per_1k_tokens = 2.0\n',
    ],
    ids=["budget", "parity"],
)
def test_throughput__from_an_input_keeps_no_promise(here: Path, table: str) -> None:
    """A budget is kept, and a partner reached, by what was measured."""
    told = profile(100.0, tokens_per_step=1000)
    write(here / "o.json", normalised(told))
    both = ("--profiles", "training=p.json\nother=o.json")
    for words, code in (((), 0), (GIVEN, 3)):
        assert scored(here, told, *both, *words, policy=TRAINING + table) == code


@pytest.mark.parametrize("words", [GIVEN, ()], ids=["given", "inferred"])
def test_mfu__of_no_measurement_leaves_the_gate_to_the_step(
    here: Path, words: tuple[str, ...]
) -> None:
    """A policy that gates MFU alone does not pass by an MFU that nobody measured."""
    table = (
        "[model]\nparameters = 1e6\nprecision = 'bf16'\n[metrics.mfu]\nfail = 0.05\n"
        "[metrics.throughput_tok_s]\ngate = false\n"
    )
    for ms, code in ((100.0, 0), (130.0, 3)):
        step = profile(ms, tokens_per_step=1000 * ms, tokens_inferred=True, accelerator="L4")
        where = ("--output-dir", "b") if ms == 100.0 else ("--baseline", "b/ci-score.json")
        assert scored(here, step, *words, *where, policy=TRAINING + table) == code
    (case,) = held(here).cases
    assert "30 %" in headline(case)


def test_throughput__of_launches_goes_before_an_input(here: Path) -> None:
    """Pairs that tell their tokens are judged by the throughput that they measured."""
    rows = [json.dumps(row) for row in session(130.0)]
    write(here / ".github" / "ci-score.toml", TRAINING)
    write(here / "m.jsonl", "\n".join(rows))
    assert execute(["run", "--measurements", "m.jsonl", *GIVEN]) == 1
    (case,) = held(here).cases
    assert not case.throughput_given


# --- tokens that nobody tells ---------------------------------------------------------------------


def silent(head_ms: float) -> Iterator[dict[str, Any]]:
    """Pairs of a script that tells no tokens."""
    for row in session(head_ms):
        yield {name: value for name, value in row.items() if name != "tokens_per_step"}


def guessed(here: Path, head: float, base: float, *, inferred: bool = True) -> None:
    """The profiles of a session, from whose traces the tokens of a step were inferred."""
    write(here / "perf" / "session.json", "{}")
    for side, tokens in (("head", head), ("base", base)):
        traced = profile(100.0, tokens_per_step=tokens, tokens_inferred=inferred)
        write(here / "perf" / "profiles" / side / "p.json", normalised(traced))


@pytest.mark.parametrize("policy", [TRAINING, EXCUSED, None], ids=["training", "excused", "none"])
@pytest.mark.parametrize(("ms", "code"), [(150.0, 1), (100.0, 0)], ids=["+50 %", "unchanged"])
def test_tokens__that_are_inferred_neither_gate_nor_excuse(
    here: Path, policy: str | None, ms: float, code: int
) -> None:
    """A forward that is called twice doubles what is inferred: the step's time decides."""
    guessed(here, 16_384.0, 8_192.0)
    assert judged(here, *silent(ms), policy=policy)[0] == code
    (case,) = held(here).cases
    assert headline(case).startswith("Fail: 50 % slower" if code else "Pass: no change seen")


@pytest.mark.parametrize(
    ("ms", "head", "code"),
    [
        (100.0, 8_192.0, 0),
        (150.0, 8_192.0, 1),
        (200.0, 16_384.0, 3),
        (300.0, 16_384.0, 1),
    ],
)
def test_tokens__that_only_the_profiles_tell_are_those_of_every_launch(
    here: Path, ms: float, head: float, code: int
) -> None:
    """Pairs that tell none were void for their throughput; nobody guessed what profiles tell."""
    guessed(here, head, 8_192.0, inferred=False)
    assert judged(here, *silent(ms))[0] == code


def test_tokens__of_an_input_are_those_of_every_launch(here: Path) -> None:
    """The input `tokens-per-step` says something of both sides, which their pairs are judged by."""
    write(here / ".github" / "ci-score.toml", TRAINING)
    for ms, code in ((100.0, 0), (150.0, 1)):
        write(here / "m.jsonl", "\n".join(json.dumps(row) for row in silent(ms)))
        asked = ("--measurements", "m.jsonl", "--tokens-per-step", "8192")
        assert execute(["run", *asked]) == code


def test_tokens__that_are_inferred_on_the_branch_leave_no_point_of_throughput(here: Path) -> None:
    """A history of guesses would be compared with what a later run measures."""
    assert scored(here, profile(100.0, tokens_per_step=8_192.0, tokens_inferred=True)) == 0
    (point,) = held(here).history
    assert (point.throughput_tok_s, point.tokens_per_step) == (0.0, None)


@pytest.mark.parametrize(
    "known",
    [
        {"tokens_inferred": True, "tokens_per_step": 500.0},
        {"throughput_given": True, "tokens_per_step": None},
    ],
    ids=["inferred", "given"],
)
def test_tokens__of_a_record_that_measured_none_excuse_nothing(
    here: Path, known: dict[str, Any]
) -> None:
    """The branch's record had a number that nobody had measured."""
    branch(here, timed(100.0, **known), runs=90)
    head = [row for row in silent(150.0) if row["side"] == "head"]
    assert judged(here, *head)[0] in (1, 3)
    (case,) = held(here).cases
    assert headline(case).startswith("Fail: 49 % slower")

"""A slowdown that is planted in the user's own files: their gate finds it, or says why not."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.judge.injection import slowed, unchanged
from ci_score.model.record import HistoryPoint, LaunchNumbers, RunIdentity
from ci_score.model.stages import CaseInput
from tests.builders import case, layer, profile, record, write

Out = pytest.CaptureFixture[str]
MEASURED = ("--profiles", "none", "--measurements", "m.jsonl")


pytestmark = pytest.mark.usefixtures("here")


def measure(here: Path, name: str = "profiles/p.json", **fields: Any) -> None:
    write(here / name, profile(100.0, **{"tokens_per_step": 1000, **fields}).model_dump_json())


def rules(here: Path, text: str = "") -> None:
    write(here / ".github" / "ci-score.toml", f'rules = "training"\n{text}')


def session(here: Path, pairs: int, noise: float = 0.005, head: float = 1.0) -> None:
    """Launches of both sides in turns; the head's take `head` times as long."""
    luck = random.Random(7)  # noqa: S311 - noise, no secret
    rows = [
        {
            "schema": 1,
            "side": side,
            "launch": launch,
            "step_ms": [100.0 * factor * math.exp(luck.gauss(0.0, noise))],
            "tokens_per_step": 1000,
            "peak_memory_gb": 10.0 * factor,
        }
        for launch in range(pairs)
        for side, factor in (("base", 1.0), ("head", head))
    ]
    write(here / "m.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def selftest(capsys: Out, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    code = execute(["selftest", *arguments, "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (0 if result["works"] else 3)
    return result


# --- what is planted ----------------------------------------------------------------------------


def test_slowed__has_every_time_longer() -> None:
    """What explains a slowdown grows with it; counts and shares stay."""
    made = profile(100.0, throughput_tok_s=1000.0, kernel_launches_per_step=9.0)
    planted = slowed(CaseInput("a", made), 0.25).profile
    assert (planted.avg_step_ms, planted.throughput_tok_s) == (125.0, 800.0)
    assert planted.phases["forward"].total_ms == 1.25 * made.phases["forward"].total_ms
    assert planted.per_layer[0].ops["qkv"] == 1.25 * made.per_layer[0].ops["qkv"]
    assert planted.kernel_launches_per_step == 9.0


def test_unchanged__keeps_the_luck_of_pairs_and_loses_their_difference() -> None:
    """What is left between head and base is what the machine does by itself."""

    def launches(*times: float, memory: float) -> tuple[LaunchNumbers, ...]:
        return tuple(
            LaunchNumbers(launch=n, values={"step_time_ms": ms, "peak_memory_gb": memory})
            for n, ms in enumerate(times)
        )

    base = CaseInput("a", profile(100.0), launches=launches(100.0, 100.0, memory=10.0))
    head = launches(121.0, 100.0, memory=12.0)
    level = unchanged(CaseInput("a", profile(110.0), launches=head, base=base))
    times = [one.values["step_time_ms"] for one in level.launches]
    assert times == pytest.approx([110.0, 100.0 / 1.1])
    assert {one.values["peak_memory_gb"] for one in level.launches} == {10.0}


# --- a gate that works --------------------------------------------------------------------------


def test_selftest__of_a_profile_with_the_reference_s_rules(here: Path, capsys: Out) -> None:
    """Its fixed limit blocks beyond 20 %, and nothing is written."""
    measure(here)
    assert execute(["selftest"]) == 0
    said = capsys.readouterr().out
    assert "unchanged  Pass: the same time" in said
    assert "+20 %      Fail: 20 % slower" in said
    assert "blocked; this gate blocks from about +20 % on" in said
    assert "The gate works" in said
    assert not (here / "ci-score").exists()


def test_selftest__of_both_sides_with_the_training_rules(here: Path, capsys: Out) -> None:
    """A head that is really slower does not stand in the way: its difference is taken out."""
    rules(here)
    session(here, pairs=8, head=1.3)
    result = selftest(capsys, *MEASURED)
    assert result["works"]
    (found,) = result["cases"]
    assert found["unchanged"]["outcome"] == "pass"
    assert found["planted"]["outcome"] == "fail"
    assert 0.04 < found["blocks_from"] < 0.08


def test_selftest__of_several_cases_plants_in_each(here: Path, capsys: Out) -> None:
    """A case that the policy leaves out is found."""
    rules(here, '[[case]]\nmatch = "b"\n[case.metrics.throughput_tok_s]\ngate = false')
    lines = []
    for name in ("a", "b"):
        session(here, pairs=6)
        rows = (here / "m.jsonl").read_text("utf-8").splitlines()
        lines += [json.dumps({**json.loads(row), "case": name}) + "\n" for row in rows]
    write(here / "m.jsonl", "".join(lines))
    result = selftest(capsys, *MEASURED)
    assert {one["name"]: one["blocked"] for one in result["cases"]} == {"a": True, "b": False}
    (advice,) = result["cases"][1]["advice"]
    assert advice == "the policy gates neither throughput nor step time: remove `gate = false`"


def test_selftest__with_the_branch_s_history(here: Path, capsys: Out) -> None:
    """Where the policy judges single launches by it."""
    rules(here)
    write(here / "m.jsonl", '{"schema": 1, "step_ms": [100.0], "tokens_per_step": 1000}\n')
    luck = random.Random(3)  # noqa: S311 - noise, no secret
    times = [100.0 * math.exp(luck.gauss(0.0, 0.004)) for _ in range(30)]
    points = tuple(
        HistoryPoint(
            case="training",
            run=RunIdentity(number=day),
            created_at=f"2026-01-{day + 1:02}T00:00:00Z",
            step_time_ms=ms,
            throughput_tok_s=1e6 / ms,
            tokens_per_step=1000.0,
        )
        for day, ms in enumerate(times)
    )
    write(here / "main.json", record(case(), history=points).model_dump_json())
    ten = (*MEASURED, "--slowdown", "10")
    assert not selftest(capsys, *ten)["works"]
    assert selftest(capsys, *ten, "--baseline", "main.json")["works"]


# --- a gate that does not -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("", ("--slowdown", "15"), "measure head and base in turns, 8 pairs or more"),
        ("[metrics.throughput_tok_s]\nfail = 0.5", (), "fails beyond −50 %, and +20 % time is −17"),
        ("", ("--fail-on", "never"), "fail-on: never lets everything pass"),
    ],
)
def test_selftest__says_why_a_slowdown_would_pass(
    here: Path, capsys: Out, text: str, arguments: tuple[str, ...], words: str
) -> None:
    """With the way out: what to measure, or which limit to change."""
    rules(here, text)
    measure(here)
    result = selftest(capsys, *arguments)
    (found,) = result["cases"]
    assert (result["passes_unchanged"], found["blocked"]) == (True, False)
    assert words in found["advice"][0]


def test_selftest__of_pairs_that_are_too_noisy(here: Path, capsys: Out) -> None:
    """A gate that blocks unchanged files does not work, and says what would settle it."""
    rules(here)
    session(here, pairs=6, noise=0.08)
    result = selftest(capsys, *MEASURED)
    assert (result["works"], result["passes_unchanged"]) == (False, False)
    assert "6 pairs are too few" in result["cases"][0]["unchanged"]["headline"]


def test_selftest__of_unchanged_files_that_would_not_pass(here: Path, capsys: Out) -> None:
    """A budget that the files break already is a gate that blocks everybody."""
    rules(here, "[budgets]\npeak_memory_gb = 5")
    session(here, pairs=6)
    result = selftest(capsys, *MEASURED)
    assert not result["passes_unchanged"]
    assert execute(["selftest", *MEASURED]) == 3
    assert "it would block the unchanged files" in capsys.readouterr().out


def test_selftest__of_nothing_is_not_judged(here: Path, capsys: Out) -> None:
    """There is nothing to plant a slowdown in."""
    assert execute(["selftest"]) == 3
    assert "nothing to plant a slowdown in" in capsys.readouterr().err


def test_selftest__of_a_policy_that_gates_what_nobody_measures_is_wrong_use(
    here: Path, capsys: Out
) -> None:
    """As in a run: such a gate would always pass."""
    rules(here, "[metrics.recompiles]\ngate = true")
    measure(here, per_layer=(layer(0, gemm=1.0),))
    assert execute(["selftest"]) == 2
    assert "the policy gates recompiles" in capsys.readouterr().err


def test_selftest__of_parity_keeps_its_partner(here: Path, capsys: Out) -> None:
    """Only the planted case becomes slower, and its parity breaks with it."""
    text = '[[parity]]\nmatch = "a"\npartner = "b"\nms_per_1k_tokens = 1.1'
    rules(here, text)
    for name in ("a", "b"):
        measure(here, f"profiles/{name}/p.json")
    found = {one["name"]: one for one in selftest(capsys)["cases"]}
    assert found["a"]["blocked"]
    assert "no parity with b" in found["a"]["planted"]["headline"]

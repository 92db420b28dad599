"""What a machine can gate: from launches that are made up, and one real session."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.launches.lines import Launch
from ci_score.measure import qualify
from ci_score.measure.qualify import (
    PAIRS,
    PLANTED,
    PLANTED_PAIRS,
    Qualification,
    holds,
    identity_of,
    qualification_for,
    qualified,
)
from tests.builders import PROJECT

Out = pytest.CaptureFixture[str]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
MACHINE = {"devices": [{"name": "L4", "uuid": "GPU-1", "power_w": 60.0}], "cpu": {"count": 8}}


def launches(
    spread: float,
    seed: int = 1,
    *,
    blind: bool = False,
    machine: Mapping[str, Any] = MACHINE,
) -> Qualification:
    """A machine whose launches spread like that; a blind one does not become slower."""
    luck = random.Random(seed)  # noqa: S311 - no secret

    def one(slower: float) -> Launch:
        ms = 100.0 * (1.0 if blind else 1 + slower) * (1 + luck.gauss(0, spread))
        return Launch.model_validate({"schema": 1, "step_ms": [ms]})

    series = {
        planted: [(one(planted), one(0.0)) for _ in range(PLANTED_PAIRS if planted else PAIRS)]
        for planted in (0.0, *PLANTED)
    }
    return qualified(series, machine)


@pytest.mark.parametrize(
    ("spread", "limit"), [(0.002, 0.03), (0.007, 0.05), (0.02, 0.10), (0.08, None)]
)
def test_qualify__the_spread_says_what_can_be_gated(spread: float, limit: float | None) -> None:
    """Up to 1 % at 3 to 5 %, up to 3 % at 10 %, beyond that counters only."""
    assert launches(spread).gate_at == limit


def test_qualify__a_machine_that_misses_a_planted_slowdown_is_not_trusted() -> None:
    """A script that does not get slower when its steps do measures something else."""
    found = launches(0.002, blind=True)
    assert not found.trusted
    assert found.as_json(MACHINE, NOW)["gate_at"] is None


def test_qualify__gives_advice_only_where_there_is_something_to_gain() -> None:
    """A calm machine needs none; a wild one is told that its times say nothing."""
    assert launches(0.002).advice == ()
    assert any("counters only" in words for words in launches(0.08).advice)


def test_qualify__advises_by_what_it_has_seen() -> None:
    """The power cap, the governor, the neighbours, what was void."""
    seen = {
        "accelerator": "L4",
        "throttled_share": {"software power cap": 0.9},
        "cpu": {"governor": "powersave", "load": 7.5, "usable": 8},
        "disturbed_launches": {"shared": 1},
    }
    advice = "; ".join(launches(0.02, machine=seen).advice)
    for words in ("the power cap holds", "governor is powersave", "load 7.5", "were disturbed"):
        assert words in advice


def record(**changes: Any) -> dict[str, Any]:
    return launches(0.007).as_json(MACHINE, NOW) | changes


@pytest.mark.parametrize(
    ("changes", "machine", "later", "words"),
    [
        ({}, MACHINE, 29, ""),
        ({}, MACHINE, 31, "it expired on 2026-03-31"),
        ({}, {"devices": [{"name": "L4", "uuid": "GPU-2"}]}, 0, "another machine's"),
        ({}, {"cpu": {"name": "x", "count": 8}}, 0, "another machine's"),
        ({"schema": 2}, MACHINE, 0, "another version"),
        ({"machine": None}, MACHINE, 0, "another machine's"),
        ({"expires_at": "soon"}, MACHINE, 0, "no expiry"),
        ({"gate_at": None}, MACHINE, 0, "only counters can be gated"),
        ({"gate_at": "5 %"}, MACHINE, 0, "its limit is '5 %'"),
        ({"gate_at": 50.0}, MACHINE, 0, "its limit is 50.0"),
    ],
)
def test_qualification__holds_for_this_machine_and_a_while(
    changes: dict[str, Any], machine: Mapping[str, Any], later: int, words: str
) -> None:
    """Or the reason why it does not."""
    said = holds(record(**changes), machine, NOW + timedelta(days=later))
    assert words in said
    assert bool(said) is bool(words)


def test_qualification__of_more_devices_covers_some_of_them() -> None:
    """A session may use one of the eight that were qualified together."""
    eight = {"devices": [{"name": "H100", "uuid": f"GPU-{number}"} for number in range(8)]}
    known = record(machine=identity_of(eight))
    assert holds(known, {"devices": eight["devices"][3:4]}, NOW) == ""


def test_qualification__the_first_file_that_is_there_counts(tmp_path: Path) -> None:
    """What environment.json says of it: the limit, or why there is none."""
    good, bad, none = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "none.json"
    good.write_text(json.dumps(record()), encoding="utf-8")
    bad.write_text("{", encoding="utf-8")
    assert qualification_for(MACHINE, [none, good], NOW) == {"gate_at": 0.05}
    assert "has not been run here" in qualification_for(MACHINE, [none], NOW)["not_qualified"]
    assert "cannot be read" in qualification_for(MACHINE, [bad, good], NOW)["not_qualified"]
    late = qualification_for(MACHINE, [good], NOW + timedelta(days=40))
    assert late["not_qualified"] == "its qualification does not hold: it expired on 2026-03-31"


# --- the commands -------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that tells steady steps, so that the machine looks calm."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "bench.py").write_text(
        "import os\nlaunch = int(os.environ['CI_SCORE_LAUNCH'])\n"
        "print('{\"step_ms\": %r}' % (10 + 0.01 * (launch % 3)))\n",
        encoding="utf-8",
    )
    return tmp_path


COMMAND = ["--", sys.executable, "bench.py"]


def test_command__leaves_a_record_that_ab_passes_on(here: Path, capsys: Out) -> None:
    """Beside its own files, and where this machine keeps it; `run` refuses its launches."""
    assert execute(["qualify", "--dir", "code", *COMMAND]) == 0
    out = capsys.readouterr().out
    assert "this machine can gate times at 3 %" in out
    assert "planted +5 %" in out
    found = json.loads((here / "qualification" / "qualification.json").read_text("utf-8"))
    assert found["gate_at"] == 0.03
    assert found == json.loads((here / "state/ci-score/qualification.json").read_text("utf-8"))
    assert execute(["ab", "--base", "code", "--head", "code", "--no-profile", *COMMAND]) == 0
    environment = json.loads((here / "perf" / "environment.json").read_text("utf-8"))
    assert environment["gate_at"] == 0.03
    assert execute(["run", "--measurements", "qualification"]) == 3
    assert "a launch of `ci-score qualify`" in capsys.readouterr().out


def test_command__truly_slows_a_script_with_the_recorder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only in its numbers: what is found is what the machine can see."""
    monkeypatch.setattr(qualify, "PAIRS", 6)
    monkeypatch.setattr(qualify, "PLANTED_PAIRS", 6)
    (here / "bench.py").write_text(
        "import time\nfrom ci_score.measure import Recorder\n"
        "with Recorder() as recorder:\n    for _ in range(3):\n"
        "        with recorder.step():\n            time.sleep(0.005)\n",
        encoding="utf-8",
    )
    assert execute(["qualify", "--dir", "code", "--json", *COMMAND]) == 0
    rows = (here / "qualification/planted-10/measurements.jsonl").read_text("utf-8").splitlines()
    planted = {(row["side"], row["planted"]) for row in map(json.loads, rows)}
    assert planted == {("head", 0.1), ("base", 0.0)}


def test_command__a_script_that_fails_qualifies_nothing(here: Path, capsys: Out) -> None:
    """With its log; exit 3, and no record."""
    (here / "bench.py").write_text("raise SystemExit('no data')", encoding="utf-8")
    assert execute(["qualify", "--dir", "code", *COMMAND]) == 3
    said = capsys.readouterr().err
    assert "no data" in said
    assert "nothing is qualified" in said
    assert not (here / "qualification" / "qualification.json").exists()


def test_command__a_script_that_fails_once_qualifies_nothing(here: Path, capsys: Out) -> None:
    """What is void on a quiet machine would be void in every session, too."""
    faulty = (
        (here / "bench.py").read_text("utf-8").replace("print", "launch == 3 and exit(5)\nprint")
    )
    (here / "bench.py").write_text(faulty, encoding="utf-8")
    assert execute(["qualify", "--dir", "code", *COMMAND]) == 3
    assert "nothing is qualified" in capsys.readouterr().err


def test_qualify__needs_pairs_enough_to_prove_what_it_plants() -> None:
    """Fewer than eight pairs prove nothing, whatever they show."""
    assert launches(0.002).trusted
    assert min(PAIRS, PLANTED_PAIRS) >= 8


def test_command__a_named_qualification_counts_alone(here: Path) -> None:
    """`ab --qualification`: one of another machine is told as such."""
    Path("other.json").write_text(json.dumps(record()), encoding="utf-8")
    arguments = ["ab", "--base", "code", "--head", "code", "--no-profile"]
    assert execute([*arguments, "--qualification", "other.json", *COMMAND]) == 0
    environment = json.loads((here / "perf" / "environment.json").read_text("utf-8"))
    assert environment["not_qualified"].endswith("it is another machine's")


# --- what the judge makes of it -----------------------------------------------------------------

POLICY = "schema = 1\nrules = 'training'\n[measure]\nqualified = {demanded}\n"


@pytest.mark.parametrize(
    ("demanded", "says", "unchanged", "words"),
    [
        ("true", {"gate_at": 0.05}, 3, "the branch's record does not say that this one is"),
        ("true", {"not_qualified": "it expired"}, 3, "a qualified machine (it expired)"),
        ("true", {}, 3, "a qualified machine (nothing says that this one is)"),
        ("false", {"not_qualified": "it expired"}, 0, ""),
    ],
)
def test_judge__wants_a_qualified_machine_where_the_policy_does(
    here: Path, capsys: Out, demanded: str, says: dict[str, Any], unchanged: int, words: str
) -> None:
    """What a session says of itself is not enough: the branch's record has to know it, too.

    Without that nothing is green; pairs prove a slowdown on any machine.
    """
    perf = here / "perf"
    perf.mkdir()
    (perf / "environment.json").write_text(json.dumps({"schema": 1, **says}), encoding="utf-8")
    (here / "policy.toml").write_text(POLICY.format(demanded=demanded), encoding="utf-8")
    for head_ms, code in ((10.0, unchanged), (14.0, 1)):
        rows = [
            {"schema": 1, "side": side, "launch": pair, "step_ms": [ms + pair / 100]}
            for pair in range(8)
            for side, ms in (("base", 10.0), ("head", head_ms))
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (perf / "measurements.jsonl").write_text(text, encoding="utf-8")
        assert execute(["run", "--measurements", "perf", "--config", "policy.toml"]) == code
        assert words in " ".join(capsys.readouterr().out.split())


def test_judge__a_count_needs_no_qualified_machine(here: Path) -> None:
    """It is the same on every one."""
    rows = [
        {"schema": 1, "side": side, "launch": pair, "step_ms": [10], "peak_memory_gb": memory}
        for pair in range(4)
        for side, memory in (("base", 10), ("head", 14))
    ]
    Path("perf.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (here / "policy.toml").write_text(POLICY.format(demanded="true"), encoding="utf-8")
    assert execute(["run", "--measurements", "perf.jsonl", "--config", "policy.toml"]) == 1

"""`ci-score ab --or-alone`: a base that cannot run, and what `ci-score run` says of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.errors import EXIT_OK, EXIT_REGRESSION, EXIT_UNJUDGED, EXIT_WRONG_USE
from ci_score.launches.lines import Launch, read_launches
from ci_score.model.record import Record
from ci_score.model.verdict import Unjudged
from tests.builders import PROJECT
from tests.builders.standin_torch import FOLDER as TORCH

Out = pytest.CaptureFixture[str]

TELLS = """
for _ in range(5):
    print('{"step_ms": %r}', flush=True)
"""
COUNTED = """
import torch
from torch.optim import AdamW

weight = torch.tensor(1.0, requires_grad=True, size=100)
optimizer = AdamW([weight])
for step in range(100):
    torch.work(1.0)
    (weight * 2.0).backward()
    optimizer.step()
"""
QUIET = "schema = 1\n[environment]\nreject = ['nan']\n"
# As the policy that `ci-score init` writes.
IN_PAIRS = f"{QUIET}[measure]\ndesign = 'interleaved'\n"
COMMAND = (sys.executable, "train.py")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A head that trains, and a base that lacks its script."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", f"{TORCH}{os.pathsep}{PROJECT}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").write_text(QUIET, encoding="utf-8")
    (tmp_path / "base").mkdir()
    trains("head")
    return tmp_path


def trains(side: str, text: str = TELLS % 10.0) -> None:
    Path(side).mkdir(exist_ok=True)
    (Path(side) / "train.py").write_text(text, encoding="utf-8")


def ab(*more: str, base: str = "base", words: tuple[str, ...] = COMMAND, alone: bool = True) -> int:
    given = ["--base", base, "--head", "head", "--config", "policy.toml", "--looks", "8"]
    wanted = ["--or-alone"] if alone else []
    return execute(["ab", *given, "--no-profile", *wanted, *more, "--", *words])


def judge() -> tuple[int, Record]:
    code = execute(["run", "--measurements", "perf", "--config", "policy.toml"])
    return code, Record.model_validate_json(Path("ci-score/ci-score.json").read_bytes())


def measured() -> list[Launch]:
    return read_launches(Path("perf/measurements.jsonl").read_bytes(), "measurements")


def mark() -> Any:
    return json.loads(Path("perf/environment.json").read_bytes()).get("alone")


# --- what is measured -----------------------------------------------------------------------------


def test_alone__a_base_without_the_script_leaves_head_alone(capsys: Out) -> None:
    """Two launches, as `measure` takes, marked with the reason."""
    assert ab() == EXIT_OK
    assert [one.side for one in measured()] == ["head", "head"]
    assert mark()["why"] == "base_cannot_run"
    assert "base lacks train.py" in mark()["words"]
    assert "base cannot run the command, so head is measured alone" in capsys.readouterr().err


def test_alone__is_nothing_that_happens_by_itself() -> None:
    """Without the option a base that cannot run stays an error."""
    assert ab(alone=False) == EXIT_WRONG_USE
    assert not Path("perf/measurements.jsonl").exists()


def test_alone__without_any_base() -> None:
    """An empty --base says that there is none."""
    assert ab(base="") == EXIT_OK
    assert mark() == {"why": "no_base"}
    assert ab(base="", alone=False) == EXIT_WRONG_USE


def test_alone__a_launch_of_base_that_fails(capsys: Out) -> None:
    """As behind a shell, where nobody can know the script before it is started."""
    assert ab(words=("bash", "-c", f"{sys.executable} train.py")) == EXIT_OK
    assert mark()["why"] == "base_cannot_run"
    assert "it exited with 2" in mark()["words"]
    assert "can't open file" in capsys.readouterr().err


def test_alone__a_setup_that_fails_in_base_only() -> None:
    """Head's own is made, and its launches are measured."""
    trains("base")
    assert ab("--setup", "test -e wanted || exit 4; touch made") == EXIT_UNJUDGED
    (Path("head") / "wanted").touch()
    assert ab("--setup", "test -e wanted || exit 4; touch made") == EXIT_OK
    assert "--setup exited with 4" in mark()["words"]
    assert (Path("head") / "made").exists()


def test_alone__head_s_setup_runs_once() -> None:
    """Also where base's failed only when it was launched."""
    words = ("bash", "-c", f"{sys.executable} train.py")
    assert ab("--setup", "echo made >> made", words=words) == EXIT_OK
    assert (Path("head") / "made").read_text("utf-8") == "made\n"


@pytest.mark.parametrize("text", ["raise SystemExit(5)", "pass"])
def test_alone__a_head_that_cannot_run_either_is_not_measured(text: str) -> None:
    """There is nothing to judge, and it does not say that base alone is broken."""
    trains("head", text)
    assert ab() == EXIT_UNJUDGED
    assert not Path("perf/measurements.jsonl").exists()


def test_alone__a_head_that_fails_where_base_runs_is_no_case_for_it() -> None:
    """Base could be measured, so nothing is measured without it."""
    trains("base")
    trains("head", "raise SystemExit(5)")
    assert ab() == EXIT_UNJUDGED
    assert not Path("perf/environment.json").exists()


def test_alone__both_that_run_are_compared() -> None:
    """The option changes nothing there."""
    trains("base")
    assert ab() == EXIT_OK
    assert mark() is None
    assert {one.side for one in measured()} == {"head", "base"}


def test_alone__a_base_that_counts_otherwise_is_one_that_runs(capsys: Out) -> None:
    """Its times cannot be compared with head's, which is no reason to do without it."""
    trains("base", COUNTED)
    assert ab() == EXIT_UNJUDGED
    assert "tells its own steps and the other side's does not" in capsys.readouterr().err
    assert not Path("perf/measurements.jsonl").exists()


def test_alone__steps_are_counted_and_profiled_as_in_a_session() -> None:
    """A script that tells nothing is measured by the hook, and gets its profile."""
    trains("head", COUNTED)
    given = ["--base", "base", "--head", "head", "--or-alone", "--steps", "3", "--settle-steps"]
    assert execute(["ab", *given, "12", "--config", "policy.toml", "--", *COMMAND]) == EXIT_OK
    assert [len(one.timed_ms) for one in measured()] == [3, 3]
    assert (Path("perf") / "profiles" / "head" / "profile.json").is_file()


def test_alone__a_finished_session_is_not_thrown_away(capsys: Out) -> None:
    """Pairs cost an hour: only --fresh replaces them."""
    trains("base")
    assert ab() == EXIT_OK
    before = measured()
    (Path("base") / "train.py").unlink()
    assert ab() == EXIT_WRONG_USE
    assert "--fresh" in capsys.readouterr().err
    assert measured() == before
    assert ab("--fresh") == EXIT_OK
    assert mark()["why"] == "base_cannot_run"


def test_alone__once_base_runs_the_same_folder_takes_the_session() -> None:
    """What head measured alone gives way, and the mark goes with it."""
    assert ab() == EXIT_OK
    trains("base")
    assert ab() == EXIT_OK
    assert mark() is None


# --- what the gate says ---------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["base", ""])
@pytest.mark.parametrize("rules", [QUIET, IN_PAIRS])
def test_gate__a_case_that_nobody_knows_is_new(base: str, rules: str, capsys: Out) -> None:
    """The change that adopts ci-score passes its own check, and reads why."""
    Path("policy.toml").write_text(rules, encoding="utf-8")
    assert ab(base=base) == EXIT_OK
    code, record = judge()
    assert code == EXIT_OK
    (case,) = record.cases
    assert case.verdict is not None
    assert case.verdict.unjudged is Unjudged.NEW_CASE
    why = "there is no commit before it" if not base else "base cannot run the command"
    assert f"head was measured alone: {why}" in capsys.readouterr().out


@pytest.mark.parametrize("base", ["base", ""])
@pytest.mark.parametrize("rules", [QUIET, IN_PAIRS])
def test_gate__a_known_case_blocks_instead_of_being_compared_with_a_record(
    base: str, rules: str, capsys: Out
) -> None:
    """A record would hide that the base is broken."""
    assert execute(["measure", "--dir", "head", "--", *COMMAND]) == EXIT_OK
    assert judge()[0] == EXIT_OK
    Path("policy.toml").write_text(rules, encoding="utf-8")
    assert ab(base=base) == EXIT_OK
    code, record = judge()
    assert code == EXIT_UNJUDGED
    (case,) = record.cases
    assert case.verdict is not None
    assert case.verdict.unjudged is Unjudged.MEASURED_ALONE
    assert case.baseline is None
    assert "head was measured alone" in capsys.readouterr().out


def test_gate__pairs_are_judged_whatever_the_mark_says() -> None:
    """A mark beside pairs of a slower head does not make them a new case."""
    trains("base", TELLS % 10.0)
    trains("head", TELLS % 20.0)
    assert ab() == EXIT_OK
    path = Path("perf/environment.json")
    found = json.loads(path.read_bytes()) | {"alone": {"why": "base_cannot_run"}}
    path.write_text(json.dumps(found), encoding="utf-8")
    assert judge()[0] == EXIT_REGRESSION


@pytest.mark.parametrize(
    "value", ["no_base", {"why": "holiday"}, {"why": "no_base", "words": "x" * 300}, 1]
)
def test_gate__a_mark_that_is_none_is_refused(value: Any) -> None:
    """It is never taken for a measurement of the usual kind."""
    assert ab() == EXIT_OK
    path = Path("perf/environment.json")
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"alone": value}), "utf-8")
    assert judge()[0] == EXIT_UNJUDGED

"""Numbers and texts at the edge of what is allowed: a run says what is wrong, and never breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.baselines import FolderBaselines
from ci_score.cli import execute
from ci_score.errors import EXIT_OK, EXIT_REGRESSION, EXIT_UNJUDGED
from ci_score.files.strict_json import dump
from ci_score.model.conversation import Nobody
from ci_score.model.record import HistoryPoint
from ci_score.run.fork_report import judged_anew
from tests.builders import case, on, profile, record, scorecard

Out = pytest.CaptureFixture[str]
NOW = "2026-01-02T03:04:05Z"


def measured(here: Path, name: str, *rows: dict[str, Any]) -> None:
    lines = (json.dumps({"schema": 1, "step_ms": [100.0], **row}) + "\n" for row in rows)
    (here / name).write_text("".join(lines), encoding="utf-8")


def policy(here: Path, text: str) -> None:
    (here / ".github").mkdir()
    (here / ".github" / "ci-score.toml").write_text(f"schema = 1\n{text}", encoding="utf-8")


def test_run__too_many_launches_of_a_case_are_not_judged(here: Path, capsys: Out) -> None:
    """Each file has as many as it may, and together they are more than a record can hold."""
    for first, name in ((0, "a.jsonl"), (1500, "b.jsonl")):
        measured(here, name, *({"launch": first + number} for number in range(1500)))
    assert execute(["run", "--measurements", "training=*.jsonl"]) == EXIT_UNJUDGED
    assert "3000 launches of one case; at most 2000" in capsys.readouterr().out


def test_run__a_disturbance_may_be_as_long_as_it_may(here: Path, capsys: Out) -> None:
    """The words around it do not make it too long for a note."""
    rows = ({"launch": number, "disturbances": {"shared": "x" * 200}} for number in range(3))
    measured(here, "m.jsonl", *rows)
    assert execute(["run", "--measurements", "m.jsonl"]) == EXIT_UNJUDGED
    assert "Launch 1 of the head was disturbed by others (xxx" in capsys.readouterr().out


def test_run__names_the_places_where_nothing_was_found(here: Path, capsys: Out) -> None:
    """However many there are."""
    places = "\n".join(f"out/run-{number}/profile.json" for number in range(300))
    assert execute(["run", "--profiles", places]) == EXIT_UNJUDGED
    assert "nothing was found at out/run-0/profile.json" in capsys.readouterr().out


def test_run__a_number_of_ones_own_may_grow_beyond_all_ratios(here: Path, capsys: Out) -> None:
    """It is not judged, and says why."""
    policy(here, '[metrics.own]\ndirection = "lower"\nfail = 0.5\n')
    for number, value in enumerate((1e-300, 1e308)):
        measured(here, "m.jsonl", {"metrics": {"own": value}})
        assert execute(["run", "--measurements", "m.jsonl"]) == (EXIT_UNJUDGED if number else 0)
    assert "numbers so far apart that a result overflows" in capsys.readouterr().out


def test_run__tokens_beyond_all_numbers_break_nothing(here: Path, capsys: Out) -> None:
    """Their rate times their step is no number that could be told."""
    rows = (
        {"launch": one, "tokens_per_step": 10.0 ** (300 * one), "step_ms": [1e12]} for one in (0, 1)
    )
    measured(here, "m.jsonl", *rows)
    assert execute(["run", "--measurements", "m.jsonl"]) in (EXIT_OK, EXIT_UNJUDGED)
    assert "broke" not in capsys.readouterr().err


def test_run__a_parity_beyond_all_ratios_still_fails(here: Path, capsys: Out) -> None:
    """A partner that is endlessly faster is no reason to pass."""
    policy(here, '[[parity]]\nmatch = "ours"\npartner = "theirs"\nms_per_1k_tokens = 1.2\n')
    for name, tokens in (("ours", 1e-300), ("theirs", 1e300)):
        text = profile(100.0, tokens_per_step=tokens).model_dump_json()
        (here / f"{name}.json").write_text(text, encoding="utf-8")
    assert execute(["run", "--profiles", "ours=ours.json\ntheirs=theirs.json"]) == EXIT_REGRESSION
    assert "No parity with theirs" in capsys.readouterr().out


def test_run__a_history_with_a_negative_number_is_read(here: Path, capsys: Out) -> None:
    """Of a relative metric it says nothing."""
    policy(here, 'rules = "training"\n[metrics.own]\ndirection = "lower"\nfail = 0.5\n')
    points = tuple(
        HistoryPoint(
            case="training",
            created_at=f"2026-01-01T00:00:{number:02}Z",
            step_time_ms=100.0,
            throughput_tok_s=0.0,
            metrics={"own": -1.0 if number == 3 else 5.0},
        )
        for number in range(20)
    )
    base = record(case(card=scorecard(100.0, 0.0), metrics={"own": 5.0}), history=points)
    (here / "base.json").write_text(dump(base), encoding="utf-8")
    measured(here, "m.jsonl", {"metrics": {"own": 5.0}})
    code = execute(["run", "--measurements", "m.jsonl", "--baseline", "base.json"])
    assert code in (EXIT_OK, EXIT_UNJUDGED)
    assert "broke" not in capsys.readouterr().err


def test_judged_anew__long_names_and_huge_numbers_break_nothing(tmp_path: Path) -> None:
    """A stranger's record may hold either, and its report is posted all the same."""
    (tmp_path / "r.json").write_text(dump(record(case(environment=on("L4")))), encoding="utf-8")
    strange = (
        case(environment=on("x" * 5000)),
        case("huge", card=scorecard(1e300, 1e300), ops={"y" * 5000: 1e300}),
    )
    done = judged_anew(record(*strange), FolderBaselines(tmp_path), Nobody(), NOW)
    assert [one.verdict is not None for one in done.cases] == [True, True]

"""`ci-score report` and `ci-score badge`, and the page that every run leaves."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ci_score.cli import execute
from ci_score.model.reasons import quoted
from ci_score.model.record import Record
from ci_score.model.verdict import Outcome, Verdict
from ci_score.report.badges import COLOURS, LABEL_COLOUR, badge_of, badge_svg, shields_endpoint
from tests.builders import case, profile, record, scorecard

Out = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a record."""
    monkeypatch.chdir(tmp_path)
    save(judged(Outcome.PASS), tmp_path)
    return tmp_path


def save(value: Record, folder: Path) -> None:
    (folder / "ci-score.json").write_text(value.model_dump_json(), encoding="utf-8")


def judged(*outcomes: Outcome) -> Record:
    cases = (
        case(
            f"case-{number}",
            scorecard(tok_s=26_500.0),
            verdict=Verdict(outcome=outcome, decided_by=quoted("as it is")),
        )
        for number, outcome in enumerate(outcomes)
    )
    return record(*cases)


def test_report__writes_one_file(folder: Path, capsys: Out) -> None:
    """The page, with a title."""
    assert execute(["report", "ci-score.json", "--title", "nightly", "-o", "report.html"]) == 0
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "nightly" in text
    assert capsys.readouterr().out == ""


def test_report__in_other_styles(folder: Path, capsys: Out) -> None:
    """The comment and the terminal's table of a record that is there already."""
    assert execute(["report", "ci-score.json", "--style", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("### ✅ Pass: as it is")
    assert execute(["report", "ci-score.json", "--style", "terminal"]) == 0
    assert capsys.readouterr().out.startswith("Pass: as it is")


def test_report__refuses_what_is_no_record(folder: Path, capsys: Out) -> None:
    """A profile is another thing, and that is said."""
    (folder / "profile.json").write_text(profile().model_dump_json(), encoding="utf-8")
    assert execute(["report", "profile.json"]) == 2
    assert "a profile, which `ci-score score` reads" in capsys.readouterr().err


def test_run__leaves_the_page(folder: Path) -> None:
    """Beside the record, whatever the verdict is."""
    (folder / "profile.json").write_text(profile().model_dump_json(), encoding="utf-8")
    assert execute(["run", "--profiles", "profile.json"]) == 0
    assert (folder / "ci-score" / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_run__a_page_that_cannot_be_written_changes_no_verdict(folder: Path, capsys: Out) -> None:
    """It is said, the record is there, and the exit code is the verdict's."""
    (folder / "profile.json").write_text(profile().model_dump_json(), encoding="utf-8")
    (folder / "ci-score" / "report.html").mkdir(parents=True)
    assert execute(["run", "--profiles", "profile.json"]) == 0
    assert "report.html was not written: " in capsys.readouterr().err
    assert (folder / "ci-score" / "ci-score.json").is_file()


def test_badge__says_number_and_verdict(folder: Path, capsys: Out) -> None:
    """In words, for those who see it and for those who do not."""
    assert execute(["badge", "ci-score.json", "--label", "training"]) == 0
    picture = ET.fromstring(capsys.readouterr().out)  # noqa: S314 - it is ours
    assert picture.get("aria-label") == "training: pass, 26.5 k tok/s"
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert texts == ["training", "pass, 26.5 k tok/s"]


def test_badge__endpoint_is_what_shields_reads(folder: Path, capsys: Out) -> None:
    """Version 1 of its schema."""
    assert execute(["badge", "ci-score.json", "--endpoint"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["schemaVersion"], said["label"]) == (1, "case-0")
    assert said["message"] == "pass, 26.5 k tok/s"


def test_badge__of_several_cases_counts(folder: Path, capsys: Out) -> None:
    """Or tells of one of them; a case that is not there is named."""
    save(judged(Outcome.PASS, Outcome.FAIL), folder)
    assert execute(["badge", "ci-score.json", "--endpoint"]) == 0
    assert json.loads(capsys.readouterr().out)["message"] == "fail, 1 of 2 cases pass"
    assert execute(["badge", "ci-score.json", "--case", "case-0", "--endpoint"]) == 0
    assert json.loads(capsys.readouterr().out)["message"] == "pass, 26.5 k tok/s"
    assert execute(["badge", "ci-score.json", "--case", "case-9"]) == 2
    assert "the record's cases are case-0, case-1" in capsys.readouterr().err


def test_badge__escapes_what_it_is_told() -> None:
    """A label is text, and invisible characters have a visible mark."""
    badge = badge_of(judged(Outcome.WARN), '<script>"&\u202e')
    picture = ET.fromstring(badge_svg(badge))  # noqa: S314 - it is ours
    assert (picture.get("aria-label") or "").startswith('<script>"&\ufffd: ')
    assert shields_endpoint(badge)["label"] == '<script>"&\ufffd'


def test_badge__of_nothing_says_so() -> None:
    """An empty record is no pass."""
    empty = record().but(cases=())
    assert badge_of(empty).message == "not judged"
    assert badge_of(record(case(card=scorecard(0.0, 0.0)))).message == "nothing measured"


@pytest.mark.parametrize("colour", [*COLOURS.values(), LABEL_COLOUR])
def test_badge__white_is_legible_on_every_colour(colour: str) -> None:
    """The contrast that WCAG asks of small text."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5

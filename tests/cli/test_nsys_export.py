"""`convert` of an Nsight Systems report: `nsys` exports it where there is one, but not in a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_score.cli import execute, nsys_export
from tests.builders.traces.nsight import training

REPORT = b"NVIDIA Tegra Profiler Report 1.\n and the rest"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(REPORT)
    return path


def tool(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program called nsys, the only one on PATH beside the system's."""
    program = folder / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_export__is_read_in_place_of_the_report(
    tmp_path: Path,
    report: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command is the one that the refusal names; nothing is left beside the report."""
    database = training().write(tmp_path / "capture.sqlite")
    told = tmp_path / "told"
    tool(tmp_path, f'echo "$@" > {told}; cp {database} "$5"', monkeypatch)
    assert execute(["convert", str(report)]) == 0
    printed = capsys.readouterr()
    assert "steps: 3" in printed.out.lower() or "3 steps" in printed.out.lower()
    assert "nsys export --type sqlite" in printed.err
    words = told.read_text(encoding="utf-8").split()
    assert words[:4] == ["export", "--type", "sqlite", "--output"]
    assert words[-1] == str(report)
    beside = {path.name for path in tmp_path.iterdir()}
    assert beside == {"bin", "capture.sqlite", "run.nsys-rep", "told"}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo The file is too new >&2; exit 1", "The file is too new"),
        ("exit 0", "cannot turn into SQLite"),
        ('head -c 3000000 /dev/zero > "$5"', "makes larger than"),
    ],
)
def test_export__that_fails_is_a_reason(
    tmp_path: Path,
    report: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    words: str,
) -> None:
    """What nsys said, or which limit it passed, with exit 2."""
    tool(tmp_path, script, monkeypatch)
    assert execute(["convert", str(report), "--unpacked-limit", "0.001"]) == 2
    assert words in capsys.readouterr().err


def test_export__that_hangs_is_ended(
    tmp_path: Path,
    report: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With everything that it started."""
    monkeypatch.setattr(nsys_export, "LONGEST_S", 0.3)
    tool(tmp_path, "sleep 600 & sleep 600", monkeypatch)
    assert execute(["convert", str(report)]) == 2
    assert "does not finish" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["no nsys", "in a job"])
def test_export__is_the_user_s_to_make_elsewhere(
    tmp_path: Path,
    report: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
) -> None:
    """Without nsys, and in a job, whose reports are a stranger's: the error has the command."""
    started = tmp_path / "started"
    tool(tmp_path, f"touch {started}", monkeypatch)
    if where == "in a job":
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
    else:
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert execute(["convert", str(report)]) == 2
    assert "nsys export --type sqlite" in capsys.readouterr().err
    assert not started.exists()

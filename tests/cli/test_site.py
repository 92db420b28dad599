"""`ci-score site`: records become a folder of pages, and nothing of anybody else's is touched."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from ci_score.cli import execute
from ci_score.cli.site import MARK
from ci_score.files.strict_json import dump
from ci_score.github.event import TRACKED_EVENTS
from tests.builders import PROJECT
from tests.builders.branch import left_by, long_history, records_in, sha

Out = pytest.CaptureFixture[str]
HISTORY = long_history()
LOSS = {"fail": 0.5, "direction": "lower", "scale": "absolute"}
POLICY = {"schema": 1, "rules": "training", "metrics": {"loss_gap": LOSS}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the records of three runs."""
    monkeypatch.chdir(tmp_path)
    records_in(tmp_path / "records", *(left_by(run, HISTORY) for run in (199, 398, 399)))
    return tmp_path


def pages(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_site__makes_the_pages_and_the_newest_reports(folder: Path, capsys: Out) -> None:
    """The overview, a page for each case, and reports that are made of the records."""
    assert execute(["site", "records", "--out", "site", "--reports", "2", "--title", "octo"]) == 0
    assert capsys.readouterr().err == "written: site/index.html (1 case, 2 reports)\n"
    reports = {
        f"reports/{stamp}-{800 + run}-1-{sha(run)[:12]}.html"
        for run, stamp in ((398, "20260203T042300Z"), (399, "20260204T042300Z"))
    }
    assert pages(folder / "site") == {
        "index.html", "case-llama-7b@h100.html", ".nojekyll", *reports
    }  # fmt: skip
    for name in reports:
        assert "<h1>" in (folder / "site" / name).read_text("utf-8")
    index = (folder / "site" / "index.html").read_text("utf-8")
    assert index.startswith(MARK)
    assert "octo" in index
    # The records have no trends of their own: those of the whole history are computed here.
    assert sha(150) in index


def test_site__by_the_policy_of_the_newest_record(folder: Path) -> None:
    """What it gates has a trend, too."""
    moved = [
        point.but(metrics={"loss_gap": 0.25 if run < 200 else 0.5})
        for run, point in enumerate(HISTORY)
    ]
    for name, policy in (("with", POLICY), ("without", None)):
        own = records_in(
            folder / name, *(left_by(run, moved).but(policy=policy) for run in (199, 399))
        )
        assert execute(["site", str(own), "--out", f"site-{name}"]) == 0
        index = (folder / f"site-{name}" / "index.html").read_text("utf-8")
        assert ("0.250 nats → 0.500 nats" in index) is (name == "with")


def test_site__is_made_again(folder: Path) -> None:
    """Pages of ours are overwritten, and other files in the folder stay."""
    (folder / "site").mkdir()
    (folder / "site" / "CNAME").write_text("train.example.org\n", encoding="utf-8")
    for _ in range(2):
        assert execute(["site", "records", "--out", "site"]) == 0
    assert (folder / "site" / "CNAME").read_text("utf-8") == "train.example.org\n"


@pytest.mark.parametrize("name", ["index.html", "case-llama-7b@h100.html"])
def test_site__overwrites_nothing_of_others(folder: Path, capsys: Out, name: str) -> None:
    """Before anything is written, with the file and what to do."""
    theirs = folder / "site" / name
    theirs.parent.mkdir()
    theirs.write_text("<h1>ours</h1>", encoding="utf-8")
    assert execute(["site", "records", "--out", "site"]) == 2
    assert f"site/{name}: it is there already" in capsys.readouterr().err
    assert pages(folder / "site") == {name}
    assert theirs.read_text("utf-8") == "<h1>ours</h1>"


@pytest.mark.parametrize("name", ["index.html", "reports"])
def test_site__writes_into_plain_files_alone(folder: Path, capsys: Out, name: str) -> None:
    """A pipe would wait for ever; a socket stands for it here, because it never waits."""
    (folder / "site").mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"site/{name}")
        assert execute(["site", "records", "--out", "site"]) == 2
    assert f"site/{name}: it is there already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["index.html", "reports"])
def test_site__follows_no_link(folder: Path, capsys: Out, name: str) -> None:
    """A link in the folder leads to what is not the site's."""
    (folder / "site").mkdir()
    (folder / "elsewhere").mkdir()
    target = folder / "elsewhere" / "file.html" if name == "index.html" else folder / "elsewhere"
    (folder / "site" / name).symlink_to(target)
    assert execute(["site", "records", "--out", "site"]) == 2
    assert "it is there already" in capsys.readouterr().err
    assert pages(folder / "elsewhere") == set()


def test_site__a_strangers_page_does_not_become_part_of_it(folder: Path) -> None:
    """Beside a record there may be any page: the site's is made of the record."""
    (folder / "records" / "1199" / "report.html").write_text("<script>evil()", encoding="utf-8")
    assert execute(["site", "records", "--out", "site"]) == 0
    for name in pages(folder / "site"):
        assert "evil()" not in (folder / "site" / name).read_text("utf-8")


def test_site__says_what_it_left_out(folder: Path, capsys: Out) -> None:
    """The first five files, and how many more."""
    for number in range(7):
        (folder / "records" / f"{number}.json").write_text("{}", encoding="utf-8")
    assert execute(["site", "records", "--out", "site"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "neither a record nor" in line]) == 5
    assert "left out: 2 more files" in lines


def test_site__without_a_record_says_what_to_give(folder: Path, capsys: Out) -> None:
    """An empty folder, a pull request's record, a file that is no record, a name that is wrong."""
    (folder / "empty").mkdir()
    pull = left_by(300, HISTORY).but(commit="f" * 40)
    (folder / "pull.json").write_text(dump(pull), encoding="utf-8")
    (folder / "wrong.json").write_text("[1]", encoding="utf-8")
    for given, words in {
        "empty": "empty: no record of a branch is there; give the ci-score.json of runs of the",
        "pull.json": "its history lacks its own run",
        "wrong.json": "found JSON that is neither a record nor a scorecard",
        "nothing": "does not exist",
    }.items():
        assert execute(["site", given, "--out", "site"]) == 2
        assert words in capsys.readouterr().err
    assert not (folder / "site").exists()


def test_site__needs_a_folder_to_write_to(folder: Path, capsys: Out) -> None:
    """A file in its place is named."""
    (folder / "site").write_text("a file", encoding="utf-8")
    assert execute(["site", "records", "--out", "site"]) == 2
    assert "site" in capsys.readouterr().err
    assert execute(["site", "records"]) == 2
    assert "--out" in capsys.readouterr().err


# --- the example ----------------------------------------------------------------------------------

EXAMPLE = yaml.safe_load((PROJECT / "examples" / "branch-page.yml").read_text(encoding="utf-8"))
GH = """#!/bin/sh
echo "$@" >> asked
case "$1 $2" in
  "api --method") printf '11\\n12\\n' ;;
  "run download") test "$3" = 12 || exit 1; mkdir -p "records/$3"; cp left.json "records/$3/" ;;
esac
"""


def steps() -> dict[str, str]:
    """The scripts of the job that makes the site, by their names."""
    return {step.get("name", ""): step.get("run", "") for step in EXAMPLE["jobs"]["site"]["steps"]}


def test_example__takes_the_records_of_the_branchs_own_runs_alone(tmp_path: Path) -> None:
    """A run without a record is passed over; the site is made of the others."""
    (tmp_path / "gh").write_text(GH, encoding="utf-8")
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "left.json").write_text(dump(left_by(399, HISTORY)), encoding="utf-8")
    script = steps()["Download the records of the branch"]
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GITHUB_REPOSITORY": "octo/train",
        "WORKFLOW": "performance.yml",
        "BRANCH": "main",
    }
    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=variables, check=True
    )
    listing, *downloads = (tmp_path / "asked").read_text("utf-8").split("\nrun download ")
    assert "branch=main" in listing
    assert "head_repository.full_name == env.GITHUB_REPOSITORY" in listing
    assert all(f'"{event}"' in listing for event in TRACKED_EVENTS)
    assert [line.split()[0] for line in downloads] == ["11", "12"]
    assert execute(["site", str(tmp_path / "records"), "--out", str(tmp_path / "site")]) == 0
    assert (tmp_path / "site" / "index.html").is_file()


def test_example__has_no_right_that_it_does_not_need() -> None:
    """Only one job may deploy; no code is checked out, and no pull request runs it."""
    assert EXAMPLE["permissions"] == {}
    jobs = EXAMPLE["jobs"]
    assert jobs["site"]["permissions"] == {"actions": "read"}
    assert jobs["deploy"]["permissions"] == {"pages": "write", "id-token": "write"}
    # YAML reads the key `on` as a truth value.
    assert set(EXAMPLE[True]) == {"schedule", "workflow_dispatch"}
    assert all("${{" not in script for script in steps().values())
    assert any('ci-score" site records --out site' in script for script in steps().values())

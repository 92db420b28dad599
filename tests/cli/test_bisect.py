"""`ci-score bisect`: the commit that made a step slower, from a repository of small commits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import console, execute
from tests.builders import PROJECT, until
from tests.builders.commits import COMMAND, Commits

Out = pytest.CaptureFixture[str]
BROKEN = "raise ImportError('no such thing')"


def of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *times: float | str) -> Commits:
    """The repository, as the current folder."""
    made = Commits(tmp_path / "repository", times)
    monkeypatch.chdir(made.repository.folder)
    for name, value in made.repository.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    return made


def arguments(good: str, bad: str, *more: str) -> list[str]:
    return ["bisect", good, bad, "--no-profile", "--seed", "1", *more, "--", *COMMAND]


def answer() -> dict[str, Any]:
    """What the search left for a program."""
    found: dict[str, Any] = json.loads(Path("bisect/bisect.json").read_bytes())
    return found


def test_search__finds_the_commit_and_says_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """The commit, its author and its effect, held against its parent; and no checkout is left."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, 10.0, 10.0, 10.0, 13.0, 13.0, 13.0)
    assert execute(arguments(made.shas[0], "main")) == 0
    said = capsys.readouterr()
    assert "7 commits after GOOD" in said.err
    assert "the smallest slowdown that it can find is" in said.err
    assert f"{made.shas[5][:12]} “Change number 5” made the step slower by " in said.out
    assert "by somebody, " in said.out
    assert made.nothing_is_left
    found = answer()
    assert found["ended"] == "found"
    assert [one["sha"] for one in found["found"]] == [made.shas[5]]
    assert found["parent"] == made.shas[4]
    assert found["own"]["low"] < 0.3 < found["own"]["high"]
    assert made.shas[5] in Path("bisect/bisect.md").read_text("utf-8")


def test_search__writes_through_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it launches could have made one, to anything that its user may write."""
    made = of_times(tmp_path, monkeypatch, 10.0, 13.0)
    precious = tmp_path / "precious"
    precious.touch()
    Path("bisect").mkdir()
    for name in ("bisect.json", "bisect.md"):
        Path("bisect", name).symlink_to(precious)
    assert execute(arguments(made.shas[0], "HEAD")) == 0
    assert answer()["ended"] == "found"
    assert precious.read_bytes() == b""


def test_search__is_never_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """In a pipe a line a minute says which launch runs, of how many, and what is left."""
    monkeypatch.setattr(console, "LINE_EVERY", 0.01)
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, 13.0, 13.0)
    assert execute(arguments(made.shas[0], "main")) == 0
    said = capsys.readouterr().err
    assert re.search(r"^the untimed launch of \w{12}, 0 s$", said, re.MULTILINE)
    assert re.search(r"^launch 1: \w{12} against \w{12}, 0 s$", said, re.MULTILINE)
    of_many = r"^launch (\d+) of about \d+: \w{12}, \d commits? left, 0 s, about .* left$"
    assert int(re.findall(of_many, said, re.MULTILINE)[-1]) > 24


def test_search__leaves_what_run_judges_as_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """The commit against its parent, by the pairs that have confirmed it."""
    made = of_times(tmp_path, monkeypatch, 10.0, 13.0, 13.0)
    assert execute(arguments(made.shas[0], "HEAD")) == 0
    assert answer()["cause"].endswith(" slower · 10.0 → 13.0 ms/step")
    capsys.readouterr()
    assert execute(["run", "--measurements", "bisect/answer"]) in (1, 3)
    assert "10.0 → 13.0 ms/step" in capsys.readouterr().out
    states = json.loads(Path("bisect/answer/environment.json").read_bytes())
    assert states["git"]["commit"] == made.shas[1]
    assert states["base_git"]["commit"] == made.shas[0]


def test_search__leaves_out_commits_that_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """They are named with their reason, and the end of their log is kept."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, 10.0, BROKEN, BROKEN, 10.0, 13.0, 13.0)
    assert execute(arguments(made.shas[0], "main")) == 0
    assert "is left out: it failed with ImportError" in capsys.readouterr().err
    found = answer()
    assert [one["sha"] for one in found["found"]] == [made.shas[6]]
    skipped = {one["commit"] for one in found["skipped"]}
    assert skipped
    assert skipped <= set(made.shas[3:5])
    for sha in skipped:
        log = Path(f"bisect/logs/failed-{sha[:12]}.log").read_text("utf-8")
        assert "no such thing" in log


# The untimed launch has the number 0; `AGAIN` says whether each later one fails, or the first.
UNLUCKY = """import os, pathlib
MS = 13.0
mark = pathlib.Path(os.environ["MARK"])
if os.environ["CI_SCORE_LAUNCH"] != "0" and (os.environ["AGAIN"] or not mark.exists()):
    mark.touch()
    raise SystemExit(5)"""


@pytest.mark.parametrize(("again", "ended"), [("", "found"), ("yes", "end_does_not_run")])
def test_launch__that_fails_is_made_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str, ended: str
) -> None:
    """It may have been bad luck; the second time in a row it was not."""
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    monkeypatch.setenv("AGAIN", again)
    made = of_times(tmp_path, monkeypatch, 10.0, UNLUCKY)
    assert execute(arguments(made.shas[0], "main")) == (3 if again else 0)
    assert answer()["ended"] == ended
    assert [one["commit"] for one in answer()["skipped"]] == made.shas[1:] * bool(again)


def test_search__next_to_commits_that_do_not_run_answers_with_a_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any of them may be it: that is no answer that a program should take for one."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, BROKEN, 13.0, 13.0)
    assert execute(arguments(made.shas[0], "main")) == 3
    found = answer()
    assert found["ended"] == "found_set"
    assert [one["sha"] for one in found["found"]] == made.shas[2:4]
    assert found["parent"] == made.shas[1]


def test_setup__that_fails_leaves_the_commit_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """Once in each checkout, and what it printed last is kept."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, 10.5, 13.0, 13.0)
    setup = "echo in $PWD >> $TRACES; if grep -q 10.5 model.py; then echo broken build; exit 7; fi"
    monkeypatch.setenv("TRACES", str(tmp_path / "traces"))
    assert execute(arguments(made.shas[0], "main", "--setup", setup)) == 3
    assert "is left out: --setup exited with 7" in capsys.readouterr().err
    assert [one["commit"] for one in answer()["skipped"]] == [made.shas[2]]
    log = Path(f"bisect/logs/setup-{made.shas[2][:12]}.log").read_text("utf-8")
    assert log == "broken build\n"
    ran_in = (tmp_path / "traces").read_text("utf-8").splitlines()
    assert len(ran_in) == len(set(ran_in))
    assert made.nothing_is_left


@pytest.mark.parametrize(
    ("times", "ended", "words"),
    [
        ((10.0, 10.0, 10.0), "no_difference", "BAD is not slower than GOOD"),
        ((13.0, 10.0, 10.0), "good_is_slower", "GOOD is slower than BAD"),
        ((BROKEN, 10.0, 10.0), "end_does_not_run", "GOOD and BAD have to run"),
        ((10.0, 10.0, BROKEN), "end_does_not_run", "GOOD and BAD have to run"),
    ],
)
def test_search__of_nothing_stops_early(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Out,
    times: tuple[float | str, ...],
    ended: str,
    words: str,
) -> None:
    """It says so, and no commit between the two was ever launched."""
    made = of_times(tmp_path, monkeypatch, *times)
    assert execute(arguments(made.shas[0], "main")) == 3
    assert words in capsys.readouterr().out
    assert answer()["ended"] == ended
    assert made.shas[1] not in Path("bisect/journal.jsonl").read_text("utf-8")
    assert made.nothing_is_left


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("main", "main", "GOOD and BAD are one commit"),
        ("main", "main~1", "GOOD comes after BAD"),
        ("mian", "main", "did you mean main?"),
        ("change", "main", "GOOD ("),
        ("--detach", "main", "No such option"),
    ],
)
def test_range__that_is_none_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Out,
    good: str,
    bad: str,
    words: str,
) -> None:
    """One sentence that says what to give instead, and nothing is launched."""
    of_times(tmp_path, monkeypatch, 10.0, 13.0)
    assert execute(arguments(good, bad)) == 2
    assert words in capsys.readouterr().err
    assert not Path("bisect").exists()


def test_range__of_other_histories_names_where_they_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """That is the commit to give as GOOD, if it is good."""
    made = of_times(tmp_path, monkeypatch, 10.0, 13.0)
    assert execute(arguments("change", "main")) == 2
    common = made.repository.git("merge-base", "change", "main")[:12]
    assert f"their histories part at {common}" in capsys.readouterr().err


def test_range__of_a_shallow_clone_says_how_to_fetch_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """As actions/checkout makes one: both commits may be there, and their way may not."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, 13.0)
    origin = f"file://{made.repository.folder}"
    clone = tmp_path / "clone"
    made.repository.git("clone", "--quiet", "--depth", "1", origin, str(clone))
    monkeypatch.chdir(clone)
    subprocess.run(["git", "fetch", "--quiet", "--depth", "1", "origin", made.shas[0]], check=True)
    assert execute(arguments(made.shas[0], "HEAD")) == 2
    assert "git fetch --unshallow" in capsys.readouterr().err


def test_range__runs_along_the_first_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a merged branch tried on its way is its own matter: the merge is the answer."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0)
    git = made.repository.git
    git("checkout", "--quiet", "-b", "side", "main")
    side = [made.add(10, BROKEN), made.add(11, 13.0)]
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "--message", "Merge side", "side")
    merge = git("rev-parse", "HEAD")
    made.add(12, 13.0)
    assert execute(arguments(made.shas[0], "main")) == 0
    assert [one["sha"] for one in answer()["found"]] == [merge]
    journal = Path("bisect/journal.jsonl").read_text("utf-8")
    assert not any(sha in journal for sha in side)


HOSTILE = "::error::stop\x1b[31m | </td><script> @octocat `x` ![a](http://h/) \u202e"


def test_commit__with_a_hostile_subject_stays_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """It commands no runner, mentions nobody and turns no line around."""
    made = of_times(tmp_path, monkeypatch, 10.0)
    made.repository.environment["GIT_AUTHOR_NAME"] = "::set-output | <b>@octocat"
    (made.repository.folder / "a\n::error::b").write_text("x", encoding="utf-8")
    (made.repository.folder / "model.py").write_text("MS = 13.0", encoding="utf-8")
    made.repository.git("add", "--all")
    made.repository.git("commit", "--quiet", "--message", HOSTILE)
    assert execute(arguments(made.shas[0], "main")) == 0
    said = capsys.readouterr()
    shown = [*said.out.splitlines(), *said.err.splitlines()]
    assert not [line for line in shown if line.lstrip().startswith("::")]
    assert "\x1b" not in said.out
    body = Path("bisect/bisect.md").read_text("utf-8")
    assert "\u202e" not in body
    assert "<script>" not in body.replace("`", "").split("|")[0]
    assert "@octocat" not in body.replace("`::error::stop", "").split("\n")[0]
    assert "\n::" not in body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_search__that_was_interrupted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out, number: signal.Signals
) -> None:
    """The same command goes on where it was, also after a kill that nobody could catch."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, 10.0, 10.0, 13.0, 13.0)
    words, journal = arguments(made.shas[0], "main"), Path("bisect/journal.jsonl")
    with (tmp_path / "said").open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "ci_score", *words], env=os.environ, stderr=stream
        )
    until(lambda: journal.exists() and len(journal.read_bytes().splitlines()) >= 12)
    process.send_signal(number)
    code = process.wait(30)
    if number is signal.SIGTERM:
        assert code == 3
        assert "what was measured is kept" in answer()["stopped"]
        assert made.nothing_is_left
    before = journal.read_bytes()
    assert execute(words) == 0
    said = capsys.readouterr().err
    assert "launches that were measured before" in said
    # Either call may have been the one that knew GOOD and BAD.
    said += (tmp_path / "said").read_text("utf-8")
    assert "the smallest slowdown that it can find is" in said
    assert journal.read_bytes().startswith(before)
    assert [one["sha"] for one in answer()["found"]] == [made.shas[4]]
    assert made.nothing_is_left


def test_search__that_is_finished_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """Without one more launch; another plan is refused, and --fresh begins anew."""
    made = of_times(tmp_path, monkeypatch, 10.0, 13.0, 13.0)
    assert execute(arguments(made.shas[0], "main")) == 0
    before, found = Path("bisect/journal.jsonl").read_bytes(), answer()
    assert execute(arguments(made.shas[0], "main")) == 0
    assert Path("bisect/journal.jsonl").read_bytes() == before
    assert answer() == found
    capsys.readouterr()
    assert execute(arguments(made.shas[0], "main", "--steps", "3")) == 2
    assert "another plan (another steps)" in capsys.readouterr().err
    assert execute(arguments(made.shas[0], "main~1")) == 2
    assert "another BAD" in capsys.readouterr().err
    assert execute(arguments(made.shas[0], "main", "--steps", "3", "--fresh")) == 0


def test_journal__with_times_of_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """Somebody has edited it: no slowdown is known of launches that took no time."""
    made = of_times(tmp_path, monkeypatch, 10.0, 13.0)
    assert execute(arguments(made.shas[0], "main")) == 0
    journal = Path("bisect/journal.jsonl")
    header, *rows = [json.loads(line) for line in journal.read_text().splitlines()]
    for row in rows:
        if row["kind"] == "pair":
            row["base"]["step_ms"] = []
    journal.write_text("".join(f"{json.dumps(row)}\n" for row in (header, *rows)))
    capsys.readouterr()
    assert execute(arguments(made.shas[0], "main")) == 2
    assert "--fresh" in capsys.readouterr().err


def test_search__without_time_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends by itself, as a job that has so many minutes needs it."""
    made = of_times(tmp_path, monkeypatch, 10.0, 10.0, 13.0)
    assert execute(arguments(made.shas[0], "main", "--max-minutes", "0.01")) == 3
    assert "the time was used up" in answer()["stopped"]
    assert made.nothing_is_left


@pytest.mark.parametrize(
    "text", ["", "{}\n", '{"schema": 1, "seed": 1, "plan": {}}\n{"kind": 1}\n']
)
def test_journal__of_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out, text: str
) -> None:
    """A launch may have written there: it is never half believed."""
    made = of_times(tmp_path, monkeypatch, 10.0, 13.0)
    Path("bisect").mkdir()
    Path("bisect/journal.jsonl").write_text(text, encoding="utf-8")
    assert execute(arguments(made.shas[0], "main")) == 2
    assert "give --fresh to begin anew" in capsys.readouterr().err


def test_folder__with_an_environment_of_its_own_says_what_checkouts_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """A checkout has no `.venv`: it would run by whatever Python is on PATH."""
    made = of_times(tmp_path, monkeypatch, 10.0, 13.0)
    Path(".venv/bin").mkdir(parents=True)
    assert execute(arguments(made.shas[0], "main")) == 2
    assert "--python .venv/bin/python" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bisect", "a", "b", "c", "--", "python", "x.py"], "give two commits before --"),
        (["bisect", "--", "python", "x.py"], "give two commits before --"),
        (["bisect", "a", "b"], "write -- before your command"),
        (["bisect", "a", "b", "--"], "give the command that trains after --"),
    ],
)
def test_words__that_are_not_two_commits_and_a_command_are_refused(
    capsys: Out, words: list[str], said: str
) -> None:
    """Each with an example."""
    assert execute(words) == 2
    assert said in capsys.readouterr().err

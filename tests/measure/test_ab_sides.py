"""`ci-score ab` with a base that is a branch: what is made for it, and that nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci_score.cli import execute
from ci_score.launches.lines import read_launches
from tests.builders import PROJECT, until, write
from tests.builders.repository import Repository

Out = pytest.CaptureFixture[str]

# Steps that are told and not taken; the data lies where git does not track it.
TRAIN = """
import os
import model

for _ in range(5):
    print('{"step_ms": %r}' % (model.MS + float(open("data/more_ms").read())), flush=True)
print(os.getcwd(), flush=True)
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """On `main` a step takes 10 ms, in the checkout 14 ms; with data, as the current folder."""
    made = Repository(tmp_path / "repository")
    monkeypatch.chdir(made.folder)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    made.git("checkout", "--quiet", "main")
    made.commit("train.py", TRAIN)
    made.commit("src/model.py", "MS = 9.5")
    made.git("checkout", "--quiet", "-B", "change")
    made.commit("src/model.py", "MS = 13.5")
    write(made.folder / "data" / "more_ms", "0.5")
    return made


def arguments(*more: str) -> list[str]:
    options = ["--base", "main", "--head", ".", "--link", "data", "--looks", "8", *more]
    return ["ab", "--no-profile", *options, "--", sys.executable, "train.py"]


def nothing_is_left(repository: Repository) -> bool:
    """Neither a checkout of base nor what git knows of it."""
    places = (repository.cache / "ci-score" / "worktrees").glob("*/")
    return not list(places) and repository.worktrees() == []


def test_base__of_a_branch_is_measured_with_its_own_code_and_heads_data(
    repository: Repository, capsys: Out
) -> None:
    """From the repository as it is: nothing but the session's folder is left of it."""
    assert execute(arguments("--setup", "echo made >> ../made")) == 0
    said = capsys.readouterr().err
    assert "base is main (" in said
    assert "head's step takes +40.0 %" in said
    for launch in read_launches(Path("perf/measurements.jsonl").read_bytes(), "lines"):
        assert launch.mean_ms == {"base": 10.0, "head": 14.0}[launch.side]
    assert (repository.folder.parent / "made").read_text("utf-8") == "made\n"
    assert nothing_is_left(repository)
    states = json.loads(Path("perf/environment.json").read_bytes())
    assert states["base_git"]["commit"] == repository.git("rev-parse", "main")
    assert states["asked"] == [
        {"option": "--base", "value": repository.git("rev-parse", "main")[:12]},
        {"option": "--link", "value": "data"},
        {"option": "--setup"},
        {"option": "--looks", "value": "8"},
    ]


def test_asked__of_very_many_options_can_be_read(repository: Repository) -> None:
    """A file of ours that its reader refuses would cost the verdict."""
    names = [f"--head-env=A_{number}=1" for number in range(80)]
    assert execute(arguments(*names)) == 0
    assert execute(["run", "--measurements", "perf"]) in (0, 1)
    record = json.loads(Path("ci-score/ci-score.json").read_bytes())
    assert len(record["cases"][0]["environment"]["asked"]) == 64


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--setup", "echo broken; exit 7"), 3, "base: --setup exited with 7, in "),
        (("--setup", "echo broken; exit 7"), 3, "ci-score:   | broken\n"),
        (("--base", "man"), 2, "did you mean main?"),
        (("--link", "dta"), 2, "head's folder has no dta"),
        (("--launcher", "srn -N1"), 2, "base: there is no program srn"),
        (("--launcher", "podman exec box"), 2, 'give "podman run IMAGE"'),
    ],
)
def test_base__of_a_session_that_cannot_begin_is_removed(
    repository: Repository, capsys: Out, more: tuple[str, ...], code: int, words: str
) -> None:
    """The mistake is one sentence, and no launch has begun."""
    assert execute(arguments(*more)) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not Path("perf/measurements.jsonl").exists()
    assert nothing_is_left(repository)


@pytest.mark.parametrize(
    "command", [("python", "train.py"), ("bash", "-ec", "cd . && python train.py")]
)
def test_base__without_the_data_of_heads_folder_gets_advice(
    repository: Repository, capsys: Out, command: tuple[str, ...]
) -> None:
    """It fails in the checkout alone, where it has no data; the Python that ran it is named."""
    words = ["ab", "--base", "main", "--head", ".", "--no-profile", "--", *command]
    assert execute(words) == 3
    said = capsys.readouterr().err
    assert "No such file or directory: 'data/more_ms'" in said
    assert f"\n  python was {shutil.which('python')}\n" in said
    assert "has only what git tracks: if it misses data of your folder, give --link data" in said


@pytest.mark.parametrize(("more", "are_alike"), [((), True), (("--head-env", "FAST=1"), False)])
def test_base__of_the_same_code_is_told(
    repository: Repository, capsys: Out, more: tuple[str, ...], are_alike: bool
) -> None:
    """Whoever stands on the branch that they name compares nothing; an environment may differ."""
    repository.git("checkout", "--quiet", "main")
    assert execute(arguments("--launcher", "false", *more)) == 3
    assert ("base and head are the same code (commit " in capsys.readouterr().err) is are_alike


@pytest.mark.parametrize("are_tracked", [True, False])
def test_base__that_is_another_folder_of_the_same_commit_is_other_code(
    repository: Repository, capsys: Out, are_tracked: bool
) -> None:
    """As the two sides of an example, or of somebody's experiment that git ignores."""
    for side in ("one", "other"):
        folder = repository.folder / side
        folder.mkdir()
        (folder / "train.py").write_text(f"# {side}\n", encoding="utf-8")
    if are_tracked:
        repository.git("add", "one", "other")
        repository.git("commit", "--quiet", "--message", "Two folders")
    words = ["ab", "--base", "one", "--head", "other", "--launcher", "false"]
    assert execute([*words, "--", "python", "train.py"]) == 3
    assert "are the same code" not in capsys.readouterr().err


def test_session__that_has_measured_nothing_gives_way(repository: Repository, capsys: Out) -> None:
    """Whoever has mistyped the command just types it again; pairs that are there are kept."""
    assert execute([*arguments("--limit", "0.1"), "--tpyo", "{out}"]) == 0
    assert execute([*arguments("--limit", "0.1"), "--typo", "{out}"]) == 2
    shutil.rmtree("perf")
    options = ["ab", "--base", "main", "--head", ".", "--no-profile", "--link", "data"]
    assert execute([*options, "--", sys.executable, "-c", "1 / 0"]) == 3
    assert "another plan" in capsys.readouterr().err
    assert execute(arguments("--limit", "0.1")) == 0
    assert "another plan" not in capsys.readouterr().err


def test_session__of_other_code_is_refused_in_few_words(
    repository: Repository, capsys: Out
) -> None:
    """Code before anything else, commits as git abbreviates them, and no more than three things."""
    assert execute(arguments("--limit", "0.1")) == 0
    commit = repository.git("rev-parse", "HEAD")[:12]
    write(repository.folder / "src" / "model.py", "MS = 14")
    capsys.readouterr()
    assert execute(arguments("--limit", "0.2", "--steps", "4", "--case", "other")) == 2
    said = capsys.readouterr().err
    assert f"another plan (head's code: {commit} then, {commit} + " in said
    assert "; case: training then, other now; " in said
    assert "more); give --fresh to begin anew" in said


# As an engine: it takes its own words off, hands on the variables, and tidies up after its end.
PODMAN = """#!/bin/sh
while [ "$1" != image ]; do
    if [ "$1" = -e ]; then export "$2"; fi
    shift
done
shift
"$@"
setsid sleep 0.1 &
"""


def test_launcher__of_a_container_gets_what_a_launch_needs(
    repository: Repository, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for podman; what it does after the launch did not outlive anything."""
    podman = repository.folder.parent / "bin" / "podman"
    write(podman, PODMAN)
    podman.chmod(0o755)
    monkeypatch.setenv("PATH", f"{podman.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH")
    assert execute(arguments("--launcher", "podman run image")) == 0
    said = capsys.readouterr().err
    assert "head's step takes +40.0 %" in said
    assert "outlived" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_base__of_a_session_that_was_interrupted_comes_again(
    repository: Repository, capsys: Out, number: signal.Signals
) -> None:
    """The same command goes on in the same place, also after a kill that nobody could catch."""
    lines = Path("perf/measurements.jsonl")
    process = subprocess.Popen(
        [sys.executable, "-m", "ci_score", *arguments()], env=os.environ, stderr=subprocess.DEVNULL
    )
    until(lambda: lines.exists() and len(lines.read_bytes().splitlines()) >= 4)
    process.send_signal(number)
    process.wait(20)
    assert nothing_is_left(repository) == (number != signal.SIGKILL)
    before = lines.read_bytes()
    assert execute(arguments()) == 0
    assert lines.read_bytes().startswith(before.rsplit(b"\n", 2)[0])
    assert nothing_is_left(repository)

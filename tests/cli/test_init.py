"""`ci-score init` writes a workflow and a policy that fit the repository, and measures once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ci_score.cli import execute
from ci_score.cli.init import MARK, POLICY, POLICY_LINES, WORKFLOW, Plan, policy_text, workflow_of
from ci_score.judge.policy import read_policy
from tests.builders import PROJECT, write

LOOP = 'import torch\nif __name__ == "__main__":\n    loss.backward()\n'
Out = pytest.CaptureFixture[str]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of somebody who trains with torch."""
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet", "--initial-branch", "main")
    write(tmp_path / "train.py", LOOP)
    write(tmp_path / "requirements.txt", "torch\n")
    return tmp_path


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


def inputs_of_measure(text: str) -> dict[str, str]:
    """What the written workflow tells the step that measures."""
    (step,) = yaml.safe_load(text)["jobs"]["measure"]["steps"]
    return dict(step["with"])


def test_init__writes_a_workflow_and_a_policy(repository: Path, capsys: Out) -> None:
    """Both files are written, and each line that needs a person is named."""
    assert execute(["init", "--no-measure"]) == 0
    said = capsys.readouterr().err
    for file in (WORKFLOW, POLICY):
        rows = [
            str(row)
            for row, line in enumerate(file.read_text("utf-8").splitlines(), 1)
            if MARK in line
        ]
        assert len(rows) > 2
        assert f"written: {file}; lines {', '.join(rows[:-1])} and {rows[-1]} say {MARK}" in said
    assert "frameworks: PyTorch\n" in said
    assert "training command: python train.py\n" in said
    assert "default branch: main\n" in said
    assert "The first pull request gets the check `performance`" in said


def test_init__its_workflow_is_the_example() -> None:
    """What is written for a plain repository is examples/performance.yml, which CI checks."""
    example = (PROJECT / "examples" / "performance.yml").read_text(encoding="utf-8")
    assert workflow_of(Plan()) == example
    assert workflow_of(Plan("master")) == example


def test_init__its_workflow_has_the_branch_and_the_commands() -> None:
    """The branch stands in the trigger, and each command is one value of YAML."""
    training = ("torchrun", "--nproc-per-node", "2", "my train.py", "--to", "{out}", "a: #b")
    text = workflow_of(Plan("release/on", training, "uv sync --frozen"))
    assert yaml.safe_load(text)[True]["push"] == {"branches": ["release/on"]}
    assert "main" not in text
    assert inputs_of_measure(text) == {
        "setup": "uv sync --frozen",
        "command": "torchrun --nproc-per-node 2 'my train.py' --to '{out}' 'a: #b'",
    }


def test_init__proposes_no_file_that_is_not_there(repository: Path, capsys: Out) -> None:
    """Where nothing says what the training needs, a person has to, and the workflow is valid."""
    (repository / "requirements.txt").unlink()
    assert execute(["init", "--no-measure"]) == 0
    assert f"environment of a side: not known; see {MARK}" in capsys.readouterr().err
    text = WORKFLOW.read_text(encoding="utf-8")
    assert f"{MARK}: nothing here says what the training needs" in text
    assert inputs_of_measure(text) == {"command": "python train.py"}


def test_init__its_policy_is_valid() -> None:
    """The written policy has the training rules, and demands pairs."""
    text = policy_text()
    assert all(line in text for line in POLICY_LINES.values())
    policy = read_policy(text.encode(), "p").policy
    assert policy.rules == "training"
    assert policy.measure.design == "interleaved"


def test_init__says_what_not_to_commit(repository: Path, capsys: Out) -> None:
    """The folders of measurements are named, unless git ignores them."""
    assert execute(["init", "--no-measure"]) == 0
    assert "put perf/, perf-once/ and ci-score/ into .gitignore" in capsys.readouterr().err
    write(repository / ".gitignore", "perf*/\nci-score/\n")
    assert execute(["init", "--no-measure"]) == 0
    assert ".gitignore" not in capsys.readouterr().err


def test_init__keeps_what_is_there(repository: Path, capsys: Out) -> None:
    """A file that exists stays, and this is said; the other one is written; --force replaces."""
    write(repository / WORKFLOW, "name: ours\n")
    assert execute(["init", "--no-measure"]) == 0
    assert f"kept: {WORKFLOW} exists already; --force replaces it" in capsys.readouterr().err
    assert WORKFLOW.read_text(encoding="utf-8") == "name: ours\n"
    assert POLICY.exists()
    assert execute(["init", "--no-measure", "--force"]) == 0
    assert "name: performance" in WORKFLOW.read_text(encoding="utf-8")


def test_init__takes_the_command_that_it_is_given(repository: Path, capsys: Out) -> None:
    """The words after -- are the training command."""
    assert execute(["init", "--no-measure", "--", "python", "other.py", "--steps", "9"]) == 0
    assert "training command: python other.py --steps 9\n" in capsys.readouterr().err
    command = inputs_of_measure(WORKFLOW.read_text("utf-8"))["command"]
    assert command == "python other.py --steps 9"


@pytest.mark.parametrize("word", ["${{ github.token }}", "a\nb"])
def test_init__refuses_a_command_that_a_workflow_cannot_hold(
    word: str, repository: Path, capsys: Out
) -> None:
    """An expression of GitHub's or a line break would be something else in a workflow."""
    assert execute(["init", "--no-measure", "--", "python", word]) == 2
    assert "cannot stand in a workflow" in capsys.readouterr().err
    assert not WORKFLOW.exists()


def test_init__measures_once(
    repository: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how long that takes; a moment is no 0 s."""
    monkeypatch.setenv("XDG_STATE_HOME", str(repository / "state"))
    monkeypatch.delenv("CI_SCORE_MEASUREMENTS", raising=False)
    told = "print('{\"step_ms\": 2}')\n" * 3
    write(repository / "train.py", told)
    assert execute(["init", "--", sys.executable, "train.py"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"here a launch took (about [1-9]\d* s|less than a second), so a pull", said)


READS = "print(open('data/tokens.bin').read())\n" + "print('{\"step_ms\": 2}')\n" * 3
BROKEN = READS + "raise SystemExit('not committed')\n"


@pytest.mark.parametrize(
    ("committed", "train", "code", "words"),
    [
        (["train.py", "data/tokens.bin"], BROKEN, 0, "measuring a fresh clone"),
        (
            ["train.py"],
            READS,
            3,
            "a clone lacks data/; commit them, or let `setup` in the workflow bring them",
        ),
        (["data/tokens.bin"], READS, 2, "a clone lacks train.py; commit them, or let `setup`"),
        ([], READS, 0, "nothing is committed yet"),
    ],
    ids=["all is committed", "data is not", "the script is not", "nothing is"],
)
def test_init__measures_what_ci_will_have(
    repository: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
    committed: list[str],
    train: str,
    code: int,
    words: str,
) -> None:
    """Without what git does not track, and what was changed since the last commit."""
    monkeypatch.setenv("XDG_STATE_HOME", str(repository.parent / "state"))
    monkeypatch.delenv("CI_SCORE_MEASUREMENTS", raising=False)
    write(repository / "train.py", READS)
    write(repository / "data" / "tokens.bin", "tokens")
    (repository / "requirements.txt").unlink()
    if committed:
        git("add", *committed)
        git("-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "-m", "x")
    write(repository / "train.py", train)
    before = {path for path in repository.rglob("*") if ".git/" in str(path)}
    assert execute(["init", "--", sys.executable, "train.py"]) == code
    said = capsys.readouterr().err
    assert words in said
    assert ("ci-score measure --out perf-once --fresh -- " in said) == bool(code)
    assert {path for path in repository.rglob("*") if ".git/" in str(path)} == before


def test_init__says_that_it_found_no_script(repository: Path, capsys: Out) -> None:
    """Without a training script the files are written, and nothing is measured."""
    (repository / "train.py").unlink()
    assert execute(["init"]) == 0
    said = capsys.readouterr().err
    assert "no script that trains was found" in said
    assert "measuring:" not in said
    assert WORKFLOW.exists()


def test_init__wants_the_top_of_a_repository(
    repository: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workflows are read from the top folder only."""
    (repository / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(repository / "a" / "b")
    assert execute(["init", "--no-measure"]) == 2
    assert "go there: cd ../../" in capsys.readouterr().err


def test_init__wants_a_repository(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without git has no pull requests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert execute(["init", "--no-measure"]) == 2
    assert "not a git repository; run `git init` first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("python", "train.py"), "write -- before your command, as ci-score init -- python"),
        (("torchrun", "--nproc", "2"), "Your own command goes behind --, as ci-score init -- py"),
    ],
)
def test_init__says_where_the_command_goes(
    words: tuple[str, ...], hint: str, repository: Path, capsys: Out
) -> None:
    """The dashes are easily forgotten, and the command's options would be taken for ours."""
    assert execute(["init", "--no-measure", *words]) == 2
    assert hint in capsys.readouterr().err
    assert not WORKFLOW.exists()


def test_init__wants_files_beside_the_repository(
    repository: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare repository has none, and neither has the folder .git."""
    monkeypatch.chdir(repository / ".git")
    assert execute(["init", "--no-measure"]) == 2
    assert "not a git repository" in capsys.readouterr().err


def test_init__says_that_git_does_not_trust_the_folder(
    repository: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the checkout is often another user's."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert execute(["init", "--no-measure"]) == 2
    assert f"--add safe.directory {repository}" in capsys.readouterr().err


def test_init__names_the_other_scripts(repository: Path, capsys: Out) -> None:
    """With the words that take another one."""
    write(repository / "src" / "finetune.py", LOOP)
    write(repository / "pretrain.py", LOOP)
    assert execute(["init", "--no-measure"]) == 0
    assert (
        "other scripts that may train: pretrain.py, src/finetune.py; to take the first of them:"
        " ci-score init --force -- python pretrain.py\n"
    ) in capsys.readouterr().err


def test_init__says_what_to_do_with_a_notebook(repository: Path, capsys: Out) -> None:
    """It is no script, and can become one."""
    (repository / "train.py").rename(repository / "train.ipynb")
    assert execute(["init"]) == 0
    said = capsys.readouterr().err
    assert "to make one: jupyter nbconvert --to script train.ipynb\n" in said


def test_init__knows_the_branches_of_the_remote(repository: Path, capsys: Out) -> None:
    """A checkout of a job has no branch of its own; feature/master is not master."""
    git("-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "--allow-empty", "-m", "x")
    git("checkout", "--quiet", "--detach")
    git("branch", "--quiet", "--delete", "--force", "main")
    git("update-ref", "refs/remotes/origin/feature/main", "HEAD")
    git("update-ref", "refs/remotes/origin/master", "HEAD")
    assert execute(["init", "--no-measure"]) == 0
    assert "default branch: master\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("remote", "local", "expected"),
    [("trunk", "topic", "trunk"), (None, "master", "master"), (None, "topic", None),
     ("a${{b", "topic", None)],
)  # fmt: skip
def test_init__asks_git_for_the_default_branch(
    remote: str | None, local: str, expected: str | None, repository: Path, capsys: Out
) -> None:
    """The remote's default branch, else main or master; else a person has to say."""
    git("symbolic-ref", "HEAD", f"refs/heads/{local}")
    if remote:
        git("symbolic-ref", "refs/remotes/origin/HEAD", f"refs/remotes/origin/{remote}")
    assert execute(["init", "--no-measure"]) == 0
    said = capsys.readouterr().err
    assert f"default branch: {expected or f'not known; see {MARK}'}\n" in said
    text = WORKFLOW.read_text(encoding="utf-8")
    branches = [expected] if expected == "trunk" else ["main", "master"]
    assert yaml.safe_load(text)[True]["push"] == {"branches": branches}
    assert (f"{MARK}: your default branch" in text) is (expected is None)

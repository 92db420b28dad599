"""What git in the current folder says of the code that was measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ci_score.cli import execute, local_code
from ci_score.cli.local_code import LocalCode
from ci_score.model.code_diff import CodeDiff, CodeState
from ci_score.model.record import Record
from ci_score.traces.formats.reference import normalised
from tests.builders import profile, write
from tests.builders.code import At, step_code
from tests.builders.repository import Repository

BEFORE = "def forward(x):\n    return x\n"
AFTER = "def forward(x):\n    x = slow(x)\n    return x\n"
NEVER = "0" * 40


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository whose branch makes a function slow."""
    made = Repository(tmp_path / "team")
    made.commit("model/forward.py", BEFORE)
    made.git("branch", "base")
    made.commit("model/forward.py", AFTER)
    return made


def sha(repository: Repository, name: str) -> str:
    return repository.git("rev-parse", name)


def asked(repository: Repository, base: str, head: str, edited: bool | None = None) -> CodeDiff:
    """The diff between two commits, as seen from the checkout."""
    return LocalCode(repository.folder, repository.environment).between(
        CodeState(base), CodeState(head, edited)
    )


def added(diff: CodeDiff) -> dict[str | None, tuple[int, ...]]:
    """The added lines of each file."""
    return {one.head: tuple(line for hunk in one.hunks for line in hunk.added)
            for one in diff.files}  # fmt: skip


def test_local__two_commits(repository: Repository) -> None:
    """The lines that head adds, and all files that it has."""
    diff = asked(repository, sha(repository, "base"), sha(repository, "HEAD"))
    assert diff.state == "known"
    assert added(diff) == {"model/forward.py": (2,)}
    assert diff.tracked == {"train.py", "model/forward.py"}


def test_local__what_was_edited_and_not_committed(repository: Repository) -> None:
    """The files as they are now, where they belong to the commit that was measured."""
    head = sha(repository, "HEAD")
    write(repository.folder / "model" / "forward.py", "# edited\n" + AFTER)
    base = sha(repository, "base")
    assert added(asked(repository, base, head, edited=True)) == {"model/forward.py": (1, 3)}
    assert added(asked(repository, base, head, edited=None)) == {"model/forward.py": (1, 3)}
    assert added(asked(repository, base, head, edited=False)) == {"model/forward.py": (2,)}


def test_local__edits_of_a_commit_that_is_no_longer_checked_out(repository: Repository) -> None:
    """What was edited then is gone, so no line of today is taken for one of then."""
    head = sha(repository, "HEAD")
    repository.git("checkout", "--quiet", "base")
    assert asked(repository, sha(repository, "base"), head, edited=True).state == "other commit"
    assert asked(repository, sha(repository, "base"), head, edited=None).state == "known"


@pytest.mark.parametrize("base", [NEVER, "HEAD", "--output=x", "main", "", "-", "1" * 41])
def test_local__a_commit_that_is_not_there(repository: Repository, base: str) -> None:
    """A stranger's word for a commit is no option, and no name of a branch."""
    head = sha(repository, "HEAD")
    assert asked(repository, base, head) == CodeDiff(state="not found")
    assert asked(repository, head, base) == CodeDiff(state="not found")
    assert not (repository.folder / "x").exists()


def test_local__no_repository(tmp_path: Path) -> None:
    """A folder without git has no diff."""
    code = LocalCode(tmp_path, {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": "/"})
    assert code.between(CodeState(NEVER), CodeState("1" * 40)).state == "not found"


def test_local__no_git(repository: Repository) -> None:
    """A machine without git has none."""
    code = LocalCode(repository.folder, {"PATH": "/nowhere"})
    head = sha(repository, "HEAD")
    assert code.between(CodeState(head), CodeState(head)).state == "not found"


def test_local__the_user_s_settings_change_no_line(repository: Repository, tmp_path: Path) -> None:
    """Colours, other prefixes, programs and hooks of a repository's own are left out."""
    trap = tmp_path / "trap"
    write(trap, f"#!/bin/sh\ntouch {tmp_path / 'sprung'}\n")
    trap.chmod(0o755)
    for name, value in {
        "color.ui": "always",
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.external": str(trap),
        "diff.py.textconv": str(trap),
        "diff.relative": "true",
        "diff.context": "0",
        "core.fsmonitor": str(trap),
        "core.pager": str(trap),
        "core.hooksPath": str(tmp_path),
        "filter.py.clean": str(trap),
        "filter.a=b.process": str(trap),
        "filter.a=b.required": "true",
    }.items():
        repository.git("config", name, value)
    write(repository.folder / ".gitattributes", "*.py diff=py filter=py\nmore.py filter=a=b\n")
    # Its times are not those that git knows, so that git looks into it.
    os.utime(repository.folder / "model" / "forward.py", (1, 1))
    inner = LocalCode(repository.folder / "model", repository.environment)
    base, head = sha(repository, "base"), sha(repository, "HEAD")
    for edited in (True, False):
        diff = inner.between(CodeState(base), CodeState(head, edited))
        assert added(diff) == {"model/forward.py": (2,)}
        assert diff.files[0].hunks[0].head_count == 3
    assert not (tmp_path / "sprung").exists()


def test_local__a_hook_s_own_repository_is_not_asked(
    repository: Repository, tmp_path: Path
) -> None:
    """Called from a hook of another repository, the folder's own one counts."""
    other = Repository(tmp_path / "other")
    repository.environment["GIT_DIR"] = str(other.folder / ".git")
    code = LocalCode(repository.folder, dict(repository.environment))
    del repository.environment["GIT_DIR"]
    base, head = sha(repository, "base"), sha(repository, "HEAD")
    assert code.between(CodeState(base), CodeState(head)).state == "known"


def test_local__more_than_is_read(repository: Repository) -> None:
    """A diff of gigabytes is left where the limit is, and git is ended."""
    write(repository.folder / "data.py", "x = 1  # a long line of generated code\n" * 450_000)
    repository.git("add", "data.py")
    repository.git("commit", "--quiet", "--message", "generated")
    diff = asked(repository, sha(repository, "base"), sha(repository, "HEAD"))
    assert diff.state == "too large"


def test_local__a_git_that_hangs_is_ended(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer keeps nobody waiting for the verdict."""
    monkeypatch.setattr(local_code, "GIT_SECONDS", 0.2)
    write(tmp_path / "bin" / "git", f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path / 'pid'}\nwait\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    code = LocalCode(repository.folder, {**repository.environment, "PATH": path})
    head = CodeState(sha(repository, "HEAD"), edited=False)
    assert code.between(CodeState(sha(repository, "base")), head).state == "not found"
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    for _ in range(100):
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail("what git had started goes on")


# --- in a run -------------------------------------------------------------------------------------


def test_run__meets_the_diff_of_the_repository(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ci-score run` in a checkout knows which changed line takes the time."""
    here = repository.folder
    monkeypatch.chdir(here)
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)

    def measured(ms: float, text: str, *lines: At) -> Record:
        code = step_code({"model/forward.py": text}, *lines)
        made = profile(ms, tokens_per_step=1000, code=code)
        write(here / "profiles" / "p.json", normalised(made))
        execute(["run"])
        return Record.model_validate_json((here / "ci-score" / "ci-score.json").read_bytes())

    repository.git("checkout", "--quiet", "base")
    measured(100.0, BEFORE, At("return x", 95.0))
    repository.git("checkout", "--quiet", "change")
    record = measured(140.0, AFTER, At("slow(x)", 40.0), At("return x", 95.0))
    explanation = record.cases[0].explanation
    assert explanation is not None
    assert explanation.code is not None
    assert explanation.code.diff == "known"
    (warned,) = explanation.code.warned
    assert (warned.file, warned.line, warned.name) == ("model/forward.py", 2, "forward")

"""docs/adopt.md, word for word, in an empty folder with the real torch."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import PROJECT

FRAMEWORKS = os.environ.get("CI_SCORE_FRAMEWORKS", "")
PAGE = (PROJECT / "docs" / "adopt.md").read_text(encoding="utf-8")
LONGEST_S = 1200
NOT_JUDGED = 3
REASONS = (
    r"'scaled_dot_product_attention' is gone|'Block.attention' \(train\.py:\d+, changed here\)"
)
TRIES, BUSY = 3, "when the machine is quiet"
needs_torch = pytest.mark.skipif(
    not FRAMEWORKS, reason="CI_SCORE_FRAMEWORKS names no Python with torch"
)


@dataclass(frozen=True)
class Block:
    """Commands of the page; a comment above them says that they are not run, or how they exit."""

    text: str
    exit_code: int = 0
    not_run: str = ""


def blocks() -> Iterator[Block]:
    for comment, text in re.findall(r"(?:<!-- (.*?) -->\n)?```sh\n(.*?)```", PAGE, re.DOTALL):
        kind, _, rest = comment.partition(" ")
        if kind == "exit":
            yield Block(text, exit_code=int(rest))
        elif comment:
            yield Block(text, not_run=rest.removeprefix("run: "))
        else:
            yield Block(text)


def test_page__says_of_each_block_how_it_is_tried() -> None:
    """The commands for a clone and for GitHub alone are not run, and one exits with 1."""
    found = list(blocks())
    assert [block.not_run for block in found if block.not_run] == [
        "it needs a clone of ci-score",
        "it needs a repository on GitHub",
    ]
    assert [block.exit_code for block in found if block.exit_code] == [1]
    assert len(found) == 7


def command(folder: Path, name: str, *words: str) -> None:
    """A program of that name, found first on PATH."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of somebody who has ci-score, git and a Python with torch."""
    programs = tmp_path / "bin"
    programs.mkdir()
    # By its path alone: a PYTHONPATH would be the launches', too.
    ours = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import ci_score.__main__ as ours"
    ours += "; ours.main()"
    command(programs, "ci-score", sys.executable, "-c", ours)
    command(programs, "python", FRAMEWORKS)
    who = {f"GIT_{role}_{part}": "somebody" for role in ("AUTHOR", "COMMITTER")
           for part in ("NAME", "EMAIL")}  # fmt: skip
    return {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",  # a machine of two cores, and other tests beside this one
        **who,
    }


def run(text: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Commands in a shell that ends with the first that fails."""
    return subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )


@needs_torch
@pytest.mark.once
def test_page__gives_a_verdict_with_a_reason(tmp_path: Path, environment: dict[str, str]) -> None:
    """Block after block, the page goes from an empty folder to the reason and to a workflow."""
    folder = tmp_path / "work"
    folder.mkdir()
    printed = {}
    for block in blocks():
        if block.not_run:
            continue
        done = run(block.text, folder, environment)
        for _ in range(TRIES - 1):
            if BUSY in done.stderr:  # ci-score is right to refuse, and says what to do
                again = block.text.splitlines()[-1].replace(" -- ", " --fresh -- ")
                done = run(again, folder, environment)
        # Only `run` exits so because it was too noisy.
        is_unclear = done.returncode == NOT_JUDGED and "pairs are too few" in done.stdout
        if BUSY in done.stderr or is_unclear:
            pytest.skip("others keep this machine busy: nothing can be proven on it now")
        assert done.returncode == block.exit_code, f"{block.text}\n{done.stdout}\n{done.stderr}"
        printed[block.text] = done.stdout + done.stderr
    (verdict,) = [
        text for block, text in printed.items() if block.endswith("--measurements perf\n")
    ]
    headline = verdict.splitlines()[0]
    everything = "\n".join(printed.values())
    assert headline.startswith("Fail: "), everything
    # The function, where a machine's matmuls take hardly more than the fused call did.
    assert re.search(REASONS, headline), everything
    assert "aten::scaled_dot_product_attention" in verdict, everything
    assert "launch 2: " in next(text for block, text in printed.items() if "perf-once" in block)
    assert (folder / ".github" / "workflows" / "performance.yml").exists()
    checkouts = subprocess.check_output(["git", "worktree", "list"], cwd=folder, text=True)
    assert len(checkouts.splitlines()) == 1

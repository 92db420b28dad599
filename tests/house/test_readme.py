"""Every command that the README prints, as printed, on files that its reader has."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.builders import PROJECT, write
from tests.builders.commits import TRAIN, Commits
from tests.builders.traces.valid_files import kineto

README = (PROJECT / "README.md").read_text(encoding="utf-8")
# What is slower is said by the exit code; everything else ends well.
FINDS_A_SLOWDOWN = (
    "ci-score run --measurements perf",
    ".venv/bin/ci-score run --measurements perf",
    "ci-score score after.json --baseline before.json",
)
OURS = f'PYTHONPATH="{PROJECT}" exec "{sys.executable}" -m ci_score "$@"'
THEIRS = f'exec "{sys.executable}" "$@"'
# Where a network would be needed, and for the tests, of which this is one.
STANDS_IN = f"""case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/pip" ;;
    "install .") test -f pyproject.toml ;;
    "-m pytest "*) ;;
    *) {THEIRS} ;;
esac"""


def commands() -> list[str]:
    """Each line of the README's shell blocks, without its comment."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [re.sub(r" {2,}#.*", "", line) for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.strip()]


def program(file: Path, text: str) -> None:
    write(file, f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def clone_of_ours(folder: Path) -> Path:
    """A clone of this repository after `make`, with an example that takes no half a minute."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-test.lock"):
        folder.mkdir(exist_ok=True)
        shutil.copy(PROJECT / name, folder / name)
    for side, ms in (("base", 10.0), ("head", 13.0)):
        write(folder / "examples" / "ab" / side / "train.py", TRAIN)
        write(folder / "examples" / "ab" / side / "model.py", f"MS = {ms}\n")
    program(folder / ".venv" / "bin" / "ci-score", OURS)
    program(folder / ".venv" / "bin" / "python", STANDS_IN)
    for mark in (".created", ".runtime", ".tests"):
        (folder / ".venv" / mark).touch()
    return folder


def clone_of_theirs(folder: Path) -> Path:
    """A repository with a slower commit on its branch, a slower one checked out, and traces."""
    made = Commits(folder, [10.0, 10.0, 13.0, 13.0])
    repository = made.repository
    repository.git("tag", "v1.4", made.shas[0])
    repository.git("update-ref", "refs/remotes/origin/main", "main")
    repository.git("checkout", "--quiet", "-b", "faster")
    made.add(9, 17.0)
    write(folder / "requirements.txt", "torch\n")
    samples = PROJECT / "ci_score" / "cli" / "samples"
    shutil.copy(samples / "main.json", folder / "before.json")
    shutil.copy(samples / "pull_request.json", folder / "after.json")
    (folder / "trace.json.gz").write_bytes(gzip.compress(kineto()))
    return folder


def test_readme__every_command_works_as_printed(tmp_path: Path) -> None:
    """In the order in which a reader types them, in a clone of ours or of their own."""
    ours, theirs = clone_of_ours(tmp_path / "ours"), clone_of_theirs(tmp_path / "theirs")
    programs = tmp_path / "programs"
    program(programs / "ci-score", OURS)
    program(programs / "python", THEIRS)
    program(programs / "python3", STANDS_IN)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
    found = commands()
    assert len(found) >= 16
    for command in found:
        is_ours = re.search(r"\.venv/|^make |pip install \.", command)
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=ours if is_ours else theirs,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        said = f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == (command in FINDS_A_SLOWDOWN), said
        assert "ci-score broke" not in said

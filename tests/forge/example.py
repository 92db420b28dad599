"""Our files as this server can use them: the same, but for `uses:` lines and the user's command."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
OURS = "docker://ghcr.io/ci-score/ci-score:v0"
# A step, or the container that an action is.
NAMES_AN_ACTION = re.compile(r"\s*(- )?(uses|image):")
PINNED = re.compile(r"actions/(checkout|(?:up|down)load-artifact)@[0-9a-f]{40} # v\d\S*")
COPIED = re.compile(r"gitea/((?:up|down)load-artifact)@v\d+")
TODAY = {"checkout": 6, "upload-artifact": 7, "download-artifact": 8}
BEFORE = {"checkout": 6, "upload-artifact": 6, "download-artifact": 7}
# What our composites need, besides themselves.
RELEASED = ("action.yml", "measure", "gate", "linux", "ci_score", "requirements.lock")
SETUP = "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt"
AB = 'ab --base "${BASE:+base}" --head head --or-alone --max-minutes 60'
# Each leg is a case of its own; what `needs` says of a matrix is the worst of its legs.
MATRIX = "    strategy: {{fail-fast: false, matrix: {{case: [{cases}]}}}}\n"
BOUND = "    timeout-minutes: 90\n"


def released(image: str) -> dict[str, str]:
    """Our repository as a release has it: naming an image."""
    listed = subprocess.run(
        ["git", "ls-files", *RELEASED], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    names = listed.stdout.split()
    texts = {name: (PROJECT / name).read_text(encoding="utf-8") for name in names}
    return {
        name: _here(text, image) if name.endswith("action.yml") else text
        for name, text in texts.items()
    }


def long_form(
    image: str,
    *,
    versions: dict[str, int] = TODAY,
    alone: bool = False,
) -> str:
    """The example for Gitea, with another command; `alone` measures one side."""
    text = _here(_example("gitea.yml"), image, versions)
    text = _replaced(text, "-- python train.py", "-- python3 train.py")
    text = _replaced(text, f'--setup "{SETUP}"', "--no-profile")
    if alone:
        text = _replaced(text, AB, "measure --dir head")
    return text


def short_form(image: str, *, matrix: tuple[str, ...] = ()) -> str:
    """The README's workflow, with another command."""
    text = _here(_example("performance.yml"), image)
    text = _replaced(text, f"setup: {SETUP}", "args: --no-profile")
    text = _replaced(text, "command: python train.py", "command: python3 train.py")
    if matrix:
        text = _replaced(text, BOUND, MATRIX.format(cases=", ".join(matrix)) + BOUND)
        case = "command: python3 train.py ${{ matrix.case }}\n          case: ${{ matrix.case }}"
        text = _replaced(text, "command: python3 train.py", case)
    return text


def _example(name: str) -> str:
    return (PROJECT / "examples" / name).read_text(encoding="utf-8")


def _here(text: str, image: str, versions: dict[str, int] = TODAY) -> str:
    """With the actions that this server has; no other line may change."""

    def copy(found: re.Match[str]) -> str:
        owner = "actions" if found[1] == "checkout" else "gitea"
        return f"{owner}/{found[1]}@v{versions[found[1]]}"

    other = COPIED.sub(copy, PINNED.sub(copy, text.replace(OURS, f"docker://localhost/{image}")))
    other = other.replace("image: Dockerfile", f"image: docker://localhost/{image}")
    for before, after in zip(text.splitlines(), other.splitlines(), strict=True):
        assert before == after or NAMES_AN_ACTION.match(before), before
    return other


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)

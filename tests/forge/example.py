"""examples/gitea.yml and our action for this server: other `uses:` lines, another command."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
CHECKOUT = re.compile(r"uses: actions/checkout@[0-9a-f]{40} # v[67]\S*")
OURS = "uses: docker://ghcr.io/ci-score/ci-score:v0"
SETUP = '--setup "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt"'
COMMAND = "-- python train.py"
AB = 'ab --base "${BASE:+base}" --head head --or-alone --max-minutes 60'
# Each leg is a case of its own; what `needs` says of a matrix is the worst of its legs.
MATRIX = (
    "    strategy: {{fail-fast: false, matrix: {{case: [{cases}]}}}}\n    timeout-minutes: 90\n"
)


def action(image: str) -> str:
    """Our action as a release has it: naming an image."""
    text = (PROJECT / "action.yml").read_text(encoding="utf-8")
    return _replaced(text, "image: Dockerfile", f"image: docker://localhost/{image}")


def workflow(image: str, *, matrix: tuple[str, ...] = (), alone: bool = False) -> str:
    """The example with the lines changed that a user changes, and the actions that are here."""
    text = (PROJECT / "examples" / "gitea.yml").read_text(encoding="utf-8")
    text, checkouts = CHECKOUT.subn("uses: actions/checkout@v6", text)
    assert checkouts == 2, checkouts
    text = _replaced(text, OURS, f"uses: docker://localhost/{image}")
    text = _replaced(text, COMMAND, "-- python3 train.py")
    if alone:
        text = _replaced(text, AB, "measure --dir head")
    text = _replaced(text, SETUP, "--no-profile")
    if matrix:
        text = _replaced(text, "    timeout-minutes: 90\n", MATRIX.format(cases=", ".join(matrix)))
        text = text.replace("training~", "${{ matrix.case }}~")
        text = _replaced(text, "--no-profile", "--no-profile --case ${{ matrix.case }}")
        text = _replaced(text, "python3 train.py", "python3 train.py ${{ matrix.case }}")
    return text


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)

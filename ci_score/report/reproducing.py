"""How a reader measures a case again: the command, as far as its session has told it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ci_score.files.visible import log_line
from ci_score.model.environment import AskedOption
from ci_score.model.record import Judged

LONGEST = 200
FLAGS = ("--keep-trackers",)
VARIABLES = ("--base-env", "--head-env")
# What a reader has to fill in, because a session does not tell it.
BASE = "--base"
TO_FILL_IN = {
    BASE: "<base>",
    "--setup": "<its setup>",
    "--base-python": "<interpreter of base>",
    "--head-python": "<interpreter of head>",
}


def ab_command(case: Judged) -> str:
    """The line that measures both sides; what stands in `<…>` has to be filled in."""
    own = case.environment.asked if case.baseline and case.baseline.of_session else ()
    base = [row for row in own if row.option == BASE][:1]
    commit = case.baseline.commit if case.baseline else None
    base = base or [AskedOption(option=BASE, value=commit[:12] if commit else None)]
    # None of them twice: whoever wrote the file may have named head and case, too.
    rest = [row for row in own if row.option not in (BASE, "--head", "--case")]
    first, options = (
        " ".join(word for row in rows for word in _words(row)) for rows in (base, rest)
    )
    words = [f"ci-score ab {first} --head . --case {case.name}", options]
    return " ".join([*filter(None, words), "-- <your training command>"])


def _words(row: AskedOption) -> Iterator[str]:
    """An option as a shell takes it: its value is a stranger's text."""
    yield row.option
    if row.value is None:
        if row.option not in FLAGS:
            yield TO_FILL_IN.get(row.option, "<its value>")
        return
    quoted = shlex.quote(log_line(row.value, LONGEST))
    is_name = row.option in VARIABLES and "=" not in row.value
    yield f"{quoted}=<its value>" if is_name else quoted

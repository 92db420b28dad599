"""Record → the addresses that a report links, all of them below the record's own repository.

An address is made of numbers and hashes that were validated when the record was read, so that
nothing of a stranger's becomes part of it.
"""

from __future__ import annotations

import re

from ci_score.model.record import BaselineUsed, Record, RunIdentity

_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def commit_link(record: Record, commit: str | None) -> str:
    """The page of a commit; empty where the repository or the commit is not known."""
    if record.repository is None or commit is None or not _SHA.fullmatch(commit):
        return ""
    return f"{record.repository}/commit/{commit}"


def run_link(record: Record, run: RunIdentity | None) -> str:
    """The page of a run, with its artifacts; empty where it is not known."""
    if record.repository is None or run is None or run.id is None:
        return ""
    return f"{record.repository}/actions/runs/{run.id}"


def pull_link(record: Record) -> str:
    """The page of the pull request; empty without one."""
    return f"{record.repository}/pull/{record.pull}" if record.repository and record.pull else ""


def baseline_run_link(record: Record, used: BaselineUsed | None) -> str:
    """The page of the run that left the baseline."""
    return run_link(record, used.run) if used else ""

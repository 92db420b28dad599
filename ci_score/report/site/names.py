"""What the files of the site are called: of checked numbers, hashes and case names alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ci_score.model.record import Record, RunIdentity

INDEX = "index.html"
REPORTS = "reports"


class OfARun(Protocol):
    """What names the run that left it: a record or a point of the history."""

    @property
    def created_at(self) -> str:
        """When it was left."""

    @property
    def commit(self) -> str | None:
        """What it measured."""

    @property
    def run(self) -> RunIdentity | None:
        """The run, if it is known."""


def report_name(left: OfARun) -> str:
    """The file of a run's report; its name sorts by time, and each attempt has its own."""
    run = left.run or RunIdentity(number=0)
    stamp = left.created_at.replace(":", "").replace("-", "") or "undated"
    commit = (left.commit or "no-commit")[:12]
    return f"{REPORTS}/{stamp}-{run.number}-{run.attempt}-{commit}.html"


def page_names(record: Record) -> list[str]:
    """The files of the overview and of the cases."""
    return [INDEX, *case_files(case.name for case in record.cases).values()]


def case_files(names: Iterable[str]) -> dict[str, str]:
    """The file of each case; some disks cannot tell names apart by their capitals."""
    files: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        file, number = f"case-{name}.html", 1
        while file.casefold() in taken:
            number += 1
            # A case's name has no such sign.
            file = f"case-{name}~{number}.html"
        taken.add(file.casefold())
        files[name] = file
    return files

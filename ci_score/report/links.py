"""Record → the addresses that a report links, all of them below the record's own repository.

An address is made of numbers and hashes that were validated when the record was read, so that
nothing of a stranger's becomes part of it but a file's path, which is checked and encoded.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from ci_score.model.code_diff import is_inside
from ci_score.model.record import BaselineUsed, Judged, Record, RunIdentity
from ci_score.model.verdict import Acceptance
from ci_score.report.cause_words import Place, Sentence

_SHORT_OR_WHOLE = re.compile(r"[0-9a-f]{7,64}")
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PULLS = {"github": "pull", "gitea": "pulls"}
_FILES = {"github": "blob", "gitea": "src/commit"}


def commit_link(record: Record, commit: str | None) -> str:
    """The page of a commit; empty where the repository or the commit is not known."""
    if record.repository is None or commit is None or not _SHA.fullmatch(commit):
        return ""
    return f"{record.repository}/commit/{commit}"


def shown_commit(record: Record) -> str | None:
    """The commit that people know: of a pull request its own newest one, and no test merge."""
    return record.pull_head or record.commit


def run_link(record: Record, run: RunIdentity | None) -> str:
    """The page of a run, with its artifacts; empty where it is not known."""
    if record.repository is None or run is None or run.id is None:
        return ""
    return f"{record.repository}/actions/runs/{run.id}"


def range_link(record: Record, before: str | None, after: str | None) -> str:
    """The page of the commits after one and up to another."""
    if not commit_link(record, before) or not commit_link(record, after):
        return ""
    return f"{record.repository}/compare/{before}...{after}"


# What comes after the repository's address in that of a comment.
_COMMENT = re.compile(r"/[A-Za-z0-9/_-]{1,60}#[A-Za-z0-9_-]{1,40}")


def comment_link(record: Record, accepted: Acceptance) -> str:
    """The comment that accepts something, if it stands in the record's own repository."""
    address = record.repository or ""
    rest = accepted.url.removeprefix(address)
    is_own = bool(address) and rest != accepted.url and _COMMENT.fullmatch(rest)
    return accepted.url if is_own else ""


def pull_link(record: Record) -> str:
    """The page of the pull request; empty without one."""
    if not record.repository or not record.pull:
        return ""
    return f"{record.repository}/{_PULLS[record.server]}/{record.pull}"


def baseline_run_link(record: Record, used: BaselineUsed | None) -> str:
    """The page of the run that left the baseline."""
    return run_link(record, used.run) if used and _is_of_the_branch(used) else ""


def baseline_commit_link(record: Record, used: BaselineUsed | None) -> str:
    """The page of the commit that the baseline was measured at."""
    return commit_link(record, used.commit) if used and _is_of_the_branch(used) else ""


def base_commit(case: Judged) -> str | None:
    """The commit of the base; that of a session is what the session says, and nothing links it."""
    used = case.baseline
    if used is None or not used.of_session:
        return used.commit if used else None
    told = next((row.value for row in case.environment.asked if row.option == "--base"), None)
    return told if told and _SHORT_OR_WHOLE.fullmatch(told) else None


def _is_of_the_branch(used: BaselineUsed) -> bool:
    """Whether it was found on the tested line: a record in a folder may be of any repository."""
    return used.commits_away is not None


# --- lines of files -------------------------------------------------------------------------------


def linked(told: Sentence, record: Record, case: Judged | None = None) -> Sentence:
    """The sentence with an address for each line of a file that the server can show."""
    return Sentence.of(
        *(
            linked_place(piece, record, case) if isinstance(piece, Place) else piece
            for piece in told.pieces
        )
    )


def linked_place(place: Place, record: Record, case: Judged | None = None) -> Place:
    """The place with its address; the base's needs the case, whose baseline it is."""
    commit = shown_commit(record) if place.side == "head" else _linked_base(case)
    address = file_link(record, commit, place.path, place.line)
    return Place(str(place), place.path, place.line, place.side, address)


def _linked_base(case: Judged | None) -> str | None:
    used = case.baseline if case else None
    return used.commit if used and _is_of_the_branch(used) else None


def file_link(record: Record, commit: str | None, path: str, line: int | None) -> str:
    """A line of a file at a commit; empty for what is no path within a repository."""
    if not commit_link(record, commit) or not is_inside(path):
        return ""
    encoded = "/".join(quote(part, safe="") for part in path.split("/"))
    at = f"#L{line}" if line else ""
    return f"{record.repository}/{_FILES[record.server]}/{commit}/{encoded}{at}"

"""Which files were measured for this run: a folder may still hold old sessions, and of others.

What they measured would be pooled with this run's own. So each is left out by its commits, or by
its age where it tells none, and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ci_score.errors import BadInputError
from ci_score.launches import read_environment
from ci_score.model.environment import MeasuredCode
from ci_score.model.reasons import Reason, Why
from ci_score.run.case_files import CaseFile, CaseFiles

# The clocks of a machine and of a server may differ by so much.
OTHER_CLOCKS_S = 600.0


@dataclass(frozen=True, slots=True)
class Expected:
    """What a job knows of its measurements.

    `why_other` says why commits are not those that the run compares. `run_began_at` is in seconds,
    or None; the server is asked only where files are older than the job.
    """

    why_other: Callable[[MeasuredCode], Reason | None]
    job_began_at: float
    run_began_at: Callable[[], float | None]


def of_this_run(files: CaseFiles, expected: Expected | None) -> CaseFiles:
    """The same files, of which those of another run are marked.

    On a machine of one's own nobody knows what is compared: of sessions that disagree the newest
    one's commits count.
    """
    sessions = _Sessions()
    marked: CaseFiles = {}
    for case, of_case in files.items():
        of_run = expected or sessions.as_the_newest(of_case)
        marked[case] = [replace(file, left_out=sessions.why_not(file, of_run)) for file in of_case]
    return marked


@dataclass(slots=True)
class _Sessions:
    """What the environment.json files say, each of which is read once."""

    known: dict[str, MeasuredCode | None] = field(default_factory=dict)

    def why_not(self, file: CaseFile, expected: Expected) -> Reason | None:
        """Why a file is of another run; None where nothing says so."""
        code = self._code_of(file)
        if code is not None and (other := expected.why_other(code)):
            return other
        is_told = code is not None and code.head is not None and not code.head_edited
        changed_at = None if is_told else _changed_at(file)
        if changed_at is None or changed_at >= expected.job_began_at - OTHER_CLOCKS_S:
            return None
        began_at = expected.run_began_at()
        is_older = began_at is not None and changed_at < began_at - OTHER_CLOCKS_S
        return Why.OLDER_THAN_RUN(file=file.name) if is_older else None

    def as_the_newest(self, files: list[CaseFile]) -> Expected:
        """The commits of the newest session, as what all others should have measured."""
        told = [(_changed_at(file) or 0.0, code) for file in files if (code := self._code_of(file))]
        _, newest = max(told, key=lambda one: one[0], default=(0.0, MeasuredCode()))

        def why_other(code: MeasuredCode) -> Reason | None:
            both = ((code.head, newest.head), (code.base, newest.base))
            differs = any(here != there and here and there for here, there in both)
            return code.instead_of(newest.head, newest.base) if differs else None

        return Expected(why_other, 0.0, lambda: None)

    def _code_of(self, file: CaseFile) -> MeasuredCode | None:
        beside = file.environment
        if beside is None:
            return None
        if beside.name not in self.known:
            self.known[beside.name] = None
            # Whoever reads it for its case says what is wrong with it.
            with suppress(BadInputError, OSError):
                environment = read_environment(beside.read(), beside.name)
                self.known[beside.name] = environment.code if environment else None
        return self.known[beside.name]


def _changed_at(file: CaseFile) -> float | None:
    try:
        return file.path.stat().st_mtime if file.path else None
    except OSError:
        return None

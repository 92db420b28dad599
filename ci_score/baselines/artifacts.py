"""Baselines from the default branch's artifacts: the nearest usable record on the tested line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from ci_score.baselines.records import join_histories, policy_with, read_record
from ci_score.errors import (
    BadInputError,
    GitHubDownError,
    GitHubError,
    NoPermissionError,
    NotThereError,
)
from ci_score.model.environment import Environment
from ci_score.model.record import BaselineUsed, HistoryPoint, Record, RunIdentity
from ci_score.model.stages import Baseline, BaselineFound, BaselineMissing, OpenedUpload, Upload
from ci_score.model.verdict import Unjudged

MOST_OPENED = 12


class Uploads(Protocol):
    """Where uploads come from; GitHub is handed in as this."""

    def uploads(self) -> list[Upload]:
        """The branch's own uploads."""
        ...

    def open(self, upload: Upload) -> OpenedUpload:
        """One record, or BadInputError with the reason why it is unusable."""
        ...


@dataclass(frozen=True, slots=True)
class _Usable:
    """A record on the line that could be read and has cases."""

    upload: Upload
    record: Record
    run: RunIdentity
    commits_away: int


@dataclass(slots=True)
class ArtifactBaselines:
    """Walks back from the tested base; reads no more of history and records than the cases need."""

    tested_line: Callable[[], Iterator[str]]
    store: Uploads
    _walk: Iterator[_Usable] | None = None
    _opened: list[_Usable] = field(default_factory=list)
    _skipped: list[str] = field(default_factory=list)
    _expired: int = 0
    _listed: int = 0
    _stopped_early: bool = False
    _failure: BaselineMissing | None = None

    def find(self, case: str, environment: Environment) -> Baseline:
        """The nearest record that measured the case in a comparable environment."""
        mismatch, unmeasured = "", ""
        for usable in self._usable():
            found = usable.record.case(case)
            if found is None:
                continue
            if not found.has_a_time:
                unmeasured = unmeasured or f"{usable.upload.sha[:12]}: measured nothing of {case}"
                continue
            differs = environment.mismatch(found.environment)
            if differs is None:
                return BaselineFound(found, self._used(usable))
            mismatch = mismatch or f"{usable.upload.sha[:12]}: {differs}"
        return self._missing(case, mismatch, unmeasured)

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """What the nearest records remember, joined."""
        histories = (usable.record.history for usable in islice(self._usable(), most_records))
        return join_histories(*histories)

    def known_cases(self) -> frozenset[str]:
        """The cases of the nearest record."""
        nearest = next(self._usable(), None)
        return frozenset(case.name for case in nearest.record.cases) if nearest else frozenset()

    def policy(self) -> dict[str, Any] | None:
        """The rules that the nearest record was judged by."""
        nearest = next(self._usable(), None)
        return policy_with(nearest.record) if nearest else None

    # --- the walk -------------------------------------------------------------------------------

    def _usable(self) -> Iterator[_Usable]:
        """What was opened already, then further records; whoever asks next finds them opened."""
        yield from self._opened
        if self._walk is None:
            self._walk = self._open_along_the_line()
        while self._failure is None:
            try:
                usable = next(self._walk)
            except StopIteration:
                return
            except GitHubError as error:
                self._failure = _failure(error)
                return
            self._opened.append(usable)
            yield usable

    def _open_along_the_line(self) -> Iterator[_Usable]:
        waiting = self._by_commit()
        if not waiting:
            return
        tried = 0
        for commits_away, sha in enumerate(self.tested_line()):
            for upload in waiting.pop(sha, ()):
                if tried == MOST_OPENED:
                    self._stopped_early = True
                    self._skipped.append(f"after {MOST_OPENED} records the search was given up")
                    return
                tried += 1
                usable = self._open(upload, commits_away)
                if usable is not None:
                    yield usable
            if not waiting:
                return
        self._skipped.append(
            f"{len(waiting)} commits with a record are not on the line of the tested base"
        )

    def _by_commit(self) -> dict[str, list[Upload]]:
        """The uploads that can be downloaded, of each commit the newest first.

        An artifact is immutable: a later attempt of a run leaves another one.
        """
        uploads = sorted(self.store.uploads(), key=lambda one: (one.created_at, one.id))
        self._listed = len(uploads)
        self._expired = sum(upload.expired for upload in uploads)
        by_commit: dict[str, list[Upload]] = {}
        for upload in reversed(uploads):
            if not upload.expired:
                by_commit.setdefault(upload.sha, []).append(upload)
        return by_commit

    def _open(self, upload: Upload, commits_away: int) -> _Usable | None:
        try:
            opened = self.store.open(upload)
            record = read_record(opened.data, f"record of {upload.sha[:12]}")
        except (BadInputError, NotThereError) as error:
            self._skipped.append(str(error))
            return None
        if not record.cases:
            self._skipped.append(f"record of {upload.sha[:12]}: nothing was measured")
            return None
        return _Usable(upload, record, opened.run, commits_away)

    # --- the answer -----------------------------------------------------------------------------

    def _used(self, usable: _Usable) -> BaselineUsed:
        return BaselineUsed(
            source="the default branch",
            # The run was checked; what the record says of itself was not.
            commit=usable.upload.sha,
            run=usable.run,
            created_at=usable.upload.created_at or None,
            commits_away=usable.commits_away,
            skipped=tuple(self._skipped),
        )

    def _missing(self, case: str, mismatch: str, unmeasured: str) -> BaselineMissing:
        reason, detail = self._why_missing(case, mismatch, unmeasured)
        return BaselineMissing(reason, detail, tuple(self._skipped))

    def _why_missing(self, case: str, mismatch: str, unmeasured: str) -> tuple[Unjudged, str]:
        if self._failure is not None:
            return self._failure.reason, self._failure.detail
        if mismatch:
            in_nearest = self._opened[0].record.case(case) is not None
            known = Unjudged.ENVIRONMENT_CHANGED
            return (known if in_nearest else Unjudged.NEW_ENVIRONMENT_OF_NEW_CASE), mismatch
        if unmeasured:
            return Unjudged.ALL_UNUSABLE, unmeasured
        if self._opened and not self._stopped_early:
            return Unjudged.NEW_CASE, f"no record has a case {case!r}"
        if self._listed and self._listed == self._expired:
            return Unjudged.EXPIRED, f"{self._expired} records, all expired"
        if self._skipped:
            return Unjudged.ALL_UNUSABLE, self._skipped[0]
        return Unjudged.FIRST_RUN, "the branch has left no record yet"


def _failure(error: GitHubError) -> BaselineMissing:
    # GitHub answers 404 where a token may not even know that something exists.
    no_permission = isinstance(error, NoPermissionError | NotThereError)
    down = isinstance(error, GitHubDownError) or not no_permission
    return BaselineMissing(Unjudged.API_DOWN if down else Unjudged.NO_PERMISSION, str(error))

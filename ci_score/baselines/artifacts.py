"""Baselines from the default branch's artifacts: the nearest usable record on the tested line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from ci_score.errors import (
    BadInputError,
    GitHubDownError,
    GitHubError,
    NoPermissionError,
    NotThereError,
)
from ci_score.models import (
    Baseline,
    BaselineFound,
    BaselineMissing,
    BaselineUsed,
    Environment,
    HistoryPoint,
    OpenedUpload,
    Record,
    RunIdentity,
    Unjudged,
    Upload,
)
from ci_score.records import join_histories, read_record

MOST_OPENED = 6


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
    """A record on the line that could be read."""

    upload: Upload
    record: Record
    run: RunIdentity
    commits_away: int


@dataclass(slots=True)
class ArtifactBaselines:
    """Walks back from the tested base; opens no more records than the cases need."""

    tested_line: Callable[[], list[str]]
    store: Uploads
    _walk: Iterator[_Usable] | None = None
    _opened: list[_Usable] = field(default_factory=list)
    _skipped: list[str] = field(default_factory=list)
    _expired: int = 0
    _listed: int = 0
    _failure: BaselineMissing | None = None

    def find(self, case: str, environment: Environment) -> Baseline:
        """The nearest record that has the case in a comparable environment."""
        mismatch = ""
        for usable in self._usable():
            found = usable.record.case(case)
            if found is None:
                continue
            differs = environment.mismatch(found.environment)
            if differs is None:
                return BaselineFound(found, self._used(usable))
            mismatch = mismatch or f"{usable.upload.sha[:12]}: {differs}"
        return self._missing(case, mismatch)

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """What the nearest records remember, joined."""
        histories = []
        for number, usable in enumerate(self._usable(), start=1):
            histories.append(usable.record.history)
            if number == most_records:
                break
        return join_histories(*histories)

    def known_cases(self) -> frozenset[str]:
        """The cases of the nearest record."""
        nearest = next(self._usable(), None)
        return frozenset(case.name for case in nearest.record.cases) if nearest else frozenset()

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
        place = {sha: number for number, sha in enumerate(self.tested_line())}
        uploads = self.store.uploads()
        self._listed = len(uploads)
        on_line = [upload for upload in uploads if upload.sha in place]
        # Of one commit the newest: an artifact is immutable, a later attempt replaces it.
        on_line.sort(key=lambda upload: (upload.created_at, upload.id), reverse=True)
        on_line.sort(key=lambda upload: place[upload.sha])
        opened = 0
        for upload in on_line:
            if upload.expired:
                self._expired += 1
                continue
            if opened == MOST_OPENED:
                self._skipped.append(f"more than {MOST_OPENED} records: the rest was not opened")
                return
            opened += 1
            usable = self._open(upload, place[upload.sha])
            if usable is not None:
                yield usable

    def _open(self, upload: Upload, commits_away: int) -> _Usable | None:
        try:
            opened = self.store.open(upload)
            record = read_record(opened.data, f"record of {upload.sha[:12]}")
        except (BadInputError, NotThereError) as error:
            self._skipped.append(str(error))
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

    def _missing(self, case: str, mismatch: str) -> BaselineMissing:
        skipped = tuple(self._skipped)
        if self._failure is not None:
            return BaselineMissing(self._failure.reason, self._failure.detail, skipped)
        if mismatch:
            in_nearest = self._opened[0].record.case(case) is not None
            known = Unjudged.ENVIRONMENT_CHANGED
            reason = known if in_nearest else Unjudged.NEW_ENVIRONMENT_OF_NEW_CASE
            return BaselineMissing(reason, mismatch, skipped)
        if self._opened:
            return BaselineMissing(Unjudged.NEW_CASE, f"no record has a case {case!r}", skipped)
        if skipped:
            return BaselineMissing(Unjudged.ALL_UNUSABLE, skipped[0], skipped)
        if self._expired:
            detail = f"{self._expired} records on the tested line, all expired"
            return BaselineMissing(Unjudged.EXPIRED, detail, skipped)
        if self._listed:
            detail = f"{self._listed} records, none on the last commits before the tested base"
            return BaselineMissing(Unjudged.ALL_UNUSABLE, detail, skipped)
        return BaselineMissing(Unjudged.FIRST_RUN, "the branch has left no record yet", skipped)


def _failure(error: GitHubError) -> BaselineMissing:
    # GitHub answers 404 where a token may not even know that something exists.
    no_permission = isinstance(error, NoPermissionError | NotThereError)
    down = isinstance(error, GitHubDownError) or not no_permission
    return BaselineMissing(Unjudged.API_DOWN if down else Unjudged.NO_PERMISSION, str(error))

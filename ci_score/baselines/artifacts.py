"""Baselines from the default branch's artifacts: the nearest usable record on the tested line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ci_score.baselines.records import read_record
from ci_score.baselines.walk import Candidate, Missing, Walk
from ci_score.errors import (
    BadInputError,
    GitHubError,
    NoPermissionError,
    NoProvenanceError,
    NotThereError,
)
from ci_score.model.reasons import Reason, Why, quoted
from ci_score.model.stages import OpenedUpload, Upload
from ci_score.model.verdict import Unjudged

MOST_OPENED = 12


class Uploads(Protocol):
    """A source of uploads, as GitHub."""

    def uploads(self) -> list[Upload]:
        """The branch's own uploads."""

    def why_none(self) -> Reason | None:
        """Why the branch has no upload although its runs should have left one; else None."""

    def open(self, upload: Upload) -> OpenedUpload:
        """One record, or BadInputError with the reason why it is unusable."""


class ArtifactBaselines(Walk):
    """Walks back from the tested base, and reads no more commits and records than needed."""

    def __init__(self, tested_line: Callable[[], Iterator[str]], store: Uploads) -> None:
        super().__init__()
        self._tested_line = tested_line
        self._store = store
        self._all_expired = 0
        self._not_left: Reason | None = None
        self._gave_up = False
        self._failure: Missing | None = None

    def _candidates(self) -> Iterator[Candidate]:
        try:
            yield from self._along_the_line()
        except GitHubError as error:
            self._failure = _failure(error)

    def _along_the_line(self) -> Iterator[Candidate]:
        waiting = self._by_commit()
        if not waiting:
            return
        tried = 0
        for commits_away, sha in enumerate(self._tested_line()):
            for upload in waiting.pop(sha, ()):
                if tried == MOST_OPENED:
                    self._gave_up = True
                    self._skipped.append(Why.SEARCH_ENDED(records=MOST_OPENED))
                    return
                tried += 1
                if candidate := self._open(upload, commits_away):
                    yield candidate
            if not waiting:
                return
        self._skipped.append(Why.NOT_ON_THE_LINE(commits=len(waiting)))

    def _by_commit(self) -> dict[str, list[Upload]]:
        """The uploads that can be downloaded, of each commit the newest first.

        An artifact is immutable: a later attempt of a run leaves another one.
        """
        uploads = sorted(self._store.uploads(), key=lambda one: (one.created_at, one.id))
        if not uploads:
            self._not_left = self._store.why_none()
        if all(upload.expired for upload in uploads):
            self._all_expired = len(uploads)
        by_commit: dict[str, list[Upload]] = {}
        for upload in reversed(uploads):
            if not upload.expired:
                by_commit.setdefault(upload.sha, []).append(upload)
        return by_commit

    def _open(self, upload: Upload, commits_away: int) -> Candidate | None:
        name = upload.sha[:12]
        try:
            opened = self._store.open(upload)
            record = read_record(opened.data, f"record of {name}")
        except (BadInputError, NotThereError) as error:
            self._skipped.append(quoted(str(error)))
            return None
        if not record.cases:
            self._skipped.append(Why.EMPTY_RECORD(record=name))
            return None
        return Candidate(
            name=name,
            source="the default branch",
            record=record,
            # The upload's run was checked. What the record says of itself was not.
            commit=upload.sha,
            run=opened.run,
            created_at=upload.created_at,
            commits_away=commits_away,
        )

    def _own_reason(
        self, case: str, mismatch: Reason | None, unmeasured: Reason | None
    ) -> Missing | None:
        if self._failure is not None:
            return self._failure
        if mismatch or unmeasured or (self._opened and not self._gave_up):
            return None
        if self._all_expired:
            return Unjudged.EXPIRED, Why.ALL_EXPIRED(records=self._all_expired)
        if self._skipped:
            return Unjudged.ALL_UNUSABLE, self._skipped[0]
        if self._not_left:
            return Unjudged.NO_RECORD, self._not_left
        return Unjudged.FIRST_RUN, Why.NO_RECORD_YET()


def _failure(error: GitHubError) -> Missing:
    if isinstance(error, NoProvenanceError):
        return Unjudged.NO_PROVENANCE, Why.NO_PROVENANCE(field=error.field)
    # GitHub answers 404 where a token may not even know that something exists.
    no_permission = isinstance(error, NoPermissionError | NotThereError)
    return Unjudged.NO_PERMISSION if no_permission else Unjudged.API_DOWN, quoted(str(error))

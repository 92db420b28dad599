"""A folder of records, or a single one, as the store of baselines: no network, no account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ci_score.baselines.records import is_bare_scorecard, read_record
from ci_score.baselines.walk import Candidate, Missing, Walk
from ci_score.errors import BadInputError
from ci_score.files.disk import LOCAL_RECORD_LIMIT, leaves, read_bytes, write_atomically
from ci_score.model.reasons import Reason, Why, quoted
from ci_score.model.record import Record, RunIdentity
from ci_score.model.verdict import Unjudged

_RECORDS = ("*.json", "*.json.gz")


class FolderBaselines(Walk):
    """The records of a folder and its subfolders, the newest first; or one file.

    `asking` is the record to judge: it cannot be its own baseline. No link leads out of `within`.
    """

    def __init__(
        self,
        path: Path,
        asking: Record | None = None,
        *,
        must_exist: bool = False,
        within: Path | None = None,
    ) -> None:
        super().__init__()
        self._path = path
        self._asking = asking
        self._must_exist = must_exist
        self._within = within

    @classmethod
    def of_records(cls, records: Iterable[tuple[str, Record]], asking: Record) -> FolderBaselines:
        """A store of records that were read already, each named by the user.

        Such a one serves even if it claims the run of the record to judge: two runs on one machine
        can be alike in number and commit. Only that very record does not.
        """
        store = cls(Path(), asking)
        known = [row for row in records if store._may_serve(*row, is_own=row[1] == asking)]
        store._unopened = iter([store._candidate(name, record) for name, record in known])
        return store

    def policy(self) -> dict[str, Any] | None:
        """The rules that the newest record was judged by."""
        newest = self._nearest()
        return newest.policy if newest else None

    def next_run(self) -> RunIdentity:
        """The identity of the next run on a machine without a CI."""
        numbers = [candidate.run.number for candidate in self._nearest_first() if candidate.run]
        return RunIdentity(number=max(numbers, default=0) + 1)

    def save(self, record: Record, text: str) -> Path:
        """Keeps a record for later runs, under a name that sorts by time."""
        stamp = record.created_at.replace(":", "").replace("-", "")
        number = record.run.number if record.run else 0
        path = self._path / f"{stamp}-{number}-{(record.commit or 'no-commit')[:12]}.json"
        write_atomically(path, text)
        self._restart()
        return path

    def _candidates(self) -> Iterator[Candidate]:
        # All are read before the first is offered: the time in the record counts, not the name.
        read = [
            self._candidate(_shown(file.name), record)
            for file in self._files()
            if (record := self._read(file)) is not None
        ]
        yield from sorted(read, key=_when, reverse=True)

    def _candidate(self, name: str, record: Record) -> Candidate:
        # A bare scorecard does not name its case, so it is compared with the only one there is.
        is_bare = is_bare_scorecard(record) or (
            self._asking is not None and is_bare_scorecard(self._asking)
        )
        return Candidate(
            name=name,
            source=name,
            record=record,
            commit=record.commit,
            run=record.run,
            created_at=record.created_at,
            fits_any_case=is_bare and len(record.cases) == 1,
        )

    def _files(self) -> Iterable[Path]:
        if not self._path.is_dir() or self._leaves(self._path):
            if self._must_exist and not self._path.exists():
                self._skipped.append(Why.NO_SUCH_RECORD(record=self._path.name))
            return [self._path] if self._path.exists() else []
        return sorted(record_files(self._path))

    def _read(self, file: Path) -> Record | None:
        record = record_of(file, self._within)
        if not isinstance(record, Record):
            self._skipped.append(record)
            return None
        is_own = self._asking is not None and _is_same_run(record, self._asking)
        return record if self._may_serve(_shown(str(file)), record, is_own=is_own) else None

    def _leaves(self, file: Path) -> bool:
        return self._within is not None and leaves(file, self._within)

    def _may_serve(self, source: str, record: Record, *, is_own: bool) -> bool:
        if not record.cases:
            self._skipped.append(Why.EMPTY_RECORD(record=source))
            return False
        if is_own:
            self._skipped.append(Why.OWN_RECORD(record=source))
            return False
        return True

    def _own_reason(
        self, case: str, mismatch: Reason | None, unmeasured: Reason | None
    ) -> Missing | None:
        if self._skipped and not mismatch:
            # What could not be read may have been the case's newest record.
            return Unjudged.ALL_UNUSABLE, self._skipped[0]
        return (
            None if self._opened else (Unjudged.FIRST_RUN, Why.NO_RECORD_IN(folder=self._path.name))
        )


def record_files(folder: Path) -> Iterator[Path]:
    """What may be records in a folder and its subfolders; no link to a folder is followed."""
    return (file for kind in _RECORDS for file in folder.rglob(kind))


def record_of(file: Path, within: Path | None) -> Record | Reason:
    """The record in a file, or why it cannot be used; no link leads out of `within`."""
    source = _shown(str(file))
    if within is not None and leaves(file, within):
        return Why.LEAVES_WORKSPACE(record=source)
    # A pipe would wait for ever, and a link may lead nowhere.
    if not file.is_file():
        return Why.NOT_A_FILE(record=source)
    try:
        return read_record(read_bytes(str(file), LOCAL_RECORD_LIMIT), source)
    except BadInputError as error:
        return quoted(str(error))


def _shown(name: str) -> str:
    """A name of a stranger's choice, without its control characters."""
    return ascii(name)[1:-1]


def _when(candidate: Candidate) -> tuple[str, int]:
    return candidate.created_at, candidate.run.number if candidate.run else 0


def _is_same_run(record: Record, other: Record) -> bool:
    # Without git every first run of a folder is the first run of no commit.
    if record.commit is not None and record.run is not None and other.run is not None:
        return (record.commit, record.run) == (other.commit, other.run)
    return record == other

"""A folder of records, or a single one, as the store of baselines: no network, no account."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ci_score.baselines.records import is_bare_scorecard, join_histories, read_record
from ci_score.errors import BadInputError
from ci_score.files.disk import LOCAL_RECORD_LIMIT, read_bytes, write_atomically
from ci_score.model.environment import Environment
from ci_score.model.record import BaselineUsed, HistoryPoint, Record, RunIdentity
from ci_score.model.stages import Baseline, BaselineFound, BaselineMissing
from ci_score.model.verdict import Unjudged

_RECORDS = ("*.json", "*.json.gz")


class FolderBaselines:
    """The records of a folder and its subfolders, the newest first; or one file.

    `asking` is the record that is to be judged: it is no baseline of itself.
    """

    def __init__(
        self, path: Path, asking: Record | None = None, *, must_exist: bool = False
    ) -> None:
        self._path = path
        self._asking = asking
        self._must_exist = must_exist
        self._records: list[tuple[str, Record]] | None = None
        self._skipped: list[str] = []

    @classmethod
    def of_records(cls, records: Iterable[tuple[str, Record]], asking: Record) -> FolderBaselines:
        """A store of records that were read already."""
        store = cls(Path(), asking)
        store._records = [row for row in records if store._may_serve(*row)]
        return store

    def find(self, case: str, environment: Environment) -> Baseline:
        """The newest record that has the case in a comparable environment."""
        records = self._load()
        other_environment = ""
        for name, record in records:
            found = record.cases[0] if self._any_name(record) else record.case(case)
            if found is None or not found.has_a_time:
                continue
            mismatch = environment.mismatch(found.environment)
            if mismatch is None:
                return BaselineFound(found, self._used(name, record))
            other_environment = other_environment or f"{name}: {mismatch}"
        return self._missing(case, bool(records), other_environment)

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """What the records remember, joined."""
        return join_histories(*(record.history for _, record in self._load()[:most_records]))

    def known_cases(self) -> frozenset[str]:
        """The cases of the newest record."""
        newest = next((record for _, record in self._load()), None)
        return frozenset(case.name for case in newest.cases) if newest else frozenset()

    def policy(self) -> dict[str, Any] | None:
        """None: whoever names the folder also decides the rules."""
        return None

    def newest_policy(self) -> dict[str, Any] | None:
        """The rules that the newest record was judged by."""
        newest = next((record for _, record in self._load()), None)
        return newest.policy if newest else None

    def next_run(self) -> RunIdentity:
        """What the next run of a machine without a CI is called."""
        numbers = [record.run.number for _, record in self._load() if record.run]
        return RunIdentity(number=max(numbers, default=0) + 1)

    def save(self, record: Record, text: str) -> Path:
        """Keeps a record for later runs, under a name that sorts by time."""
        stamp = record.created_at.replace(":", "").replace("-", "")
        number = record.run.number if record.run else 0
        path = self._path / f"{stamp}-{number}-{(record.commit or 'no-commit')[:12]}.json"
        write_atomically(path, text)
        self._records = None
        return path

    def _any_name(self, record: Record) -> bool:
        """A bare scorecard knows no case: it is compared with the only one there is."""
        bare = is_bare_scorecard(record) or (
            self._asking is not None and is_bare_scorecard(self._asking)
        )
        return bare and len(record.cases) == 1

    def _load(self) -> list[tuple[str, Record]]:
        if self._records is None:
            self._skipped = []
            readable = [(ascii(file.name)[1:-1], self._read(file)) for file in self._files()]
            self._records = sorted(
                ((name, record) for name, record in readable if record is not None),
                key=lambda row: (row[1].created_at, row[1].run.number if row[1].run else 0),
                reverse=True,
            )
        return self._records

    def _files(self) -> Iterable[Path]:
        if not self._path.is_dir():
            if self._must_exist and not self._path.exists():
                self._skipped.append(f"{self._path.name}: there is no such record or folder")
            return [self._path] if self._path.exists() else []
        return sorted(file for kind in _RECORDS for file in self._path.rglob(kind))

    def _read(self, file: Path) -> Record | None:
        source = ascii(str(file))[1:-1]
        # A pipe in a folder would wait for ever, and a link may lead nowhere.
        if self._path.is_dir() and not file.is_file():
            self._skipped.append(f"{source}: no regular file")
            return None
        try:
            record = read_record(read_bytes(str(file), LOCAL_RECORD_LIMIT), source)
        except BadInputError as error:
            self._skipped.append(str(error))
            return None
        return record if self._may_serve(source, record) else None

    def _may_serve(self, source: str, record: Record) -> bool:
        if not record.cases:
            self._skipped.append(f"{source}: a record without cases")
            return False
        if self._asking is not None and _is_same_run(record, self._asking):
            self._skipped.append(f"{source}: it is the record that is being judged")
            return False
        return True

    def _used(self, name: str, record: Record) -> BaselineUsed:
        return BaselineUsed(
            source=name,
            commit=record.commit,
            run=record.run,
            created_at=record.created_at or None,
            skipped=tuple(self._skipped),
        )

    def _missing(self, case: str, any_record: bool, other_environment: str) -> BaselineMissing:
        skipped = tuple(self._skipped)
        if other_environment:
            return BaselineMissing(Unjudged.ENVIRONMENT_CHANGED, other_environment, skipped)
        if skipped:
            # What was not readable may have been the case's newest record.
            return BaselineMissing(Unjudged.ALL_UNUSABLE, skipped[0], skipped)
        if any_record:
            return BaselineMissing(Unjudged.NEW_CASE, f"no record has a case {case!r}", skipped)
        return BaselineMissing(Unjudged.FIRST_RUN, f"no record in {self._path.name}", skipped)


def _is_same_run(record: Record, other: Record) -> bool:
    # Without git every first run of a folder is the first run of no commit.
    if record.commit is not None and record.run is not None and other.run is not None:
        return (record.commit, record.run) == (other.commit, other.run)
    return record == other

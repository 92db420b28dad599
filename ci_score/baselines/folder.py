"""A folder of records, or a single one, as the store of baselines: no network, no account."""

from __future__ import annotations

from pathlib import Path

from ci_score.errors import BadInputError
from ci_score.files import RECORD_LIMIT, read_bytes
from ci_score.models import (
    Baseline,
    BaselineFound,
    BaselineMissing,
    BaselineUsed,
    CaseRecord,
    Environment,
    Record,
    Unjudged,
)
from ci_score.records import is_bare_scorecard, read_record


class FolderBaselines:
    """The records (`*.json`) of a folder, the newest first; or one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: list[tuple[str, Record]] | None = None
        self._skipped: list[str] = []

    def find(self, case: str, environment: Environment) -> Baseline:
        """The newest record that has the case in a comparable environment."""
        records = self._load()
        other_environment = ""
        for name, record in records:
            found = record.cases[0] if is_bare_scorecard(record) else record.case(case)
            if found is None:
                continue
            mismatch = environment.mismatch(found.environment)
            if mismatch is None:
                return BaselineFound(found, self._used(name, record))
            other_environment = other_environment or f"{name}: {mismatch}"
        return self._missing(case, bool(records), other_environment)

    def save(self, record: Record, text: str) -> Path:
        """Keeps a record for later runs, under a name that sorts by time."""
        from ci_score.files import write_atomically

        stamp = record.created_at.replace(":", "").replace("-", "")
        path = self._path / f"{stamp}-{(record.commit or 'no-commit')[:12]}.json"
        write_atomically(path, text)
        self._records = None
        return path

    def _load(self) -> list[tuple[str, Record]]:
        if self._records is None:
            self._skipped = []
            files = sorted(self._path.glob("*.json")) if self._path.is_dir() else [self._path]
            readable = [(file.name, self._read(file)) for file in files if file.exists()]
            self._records = sorted(
                ((name, record) for name, record in readable if record is not None),
                key=lambda row: row[1].created_at,
                reverse=True,
            )
        return self._records

    def _read(self, file: Path) -> Record | None:
        try:
            record = read_record(read_bytes(str(file), RECORD_LIMIT), str(file))
        except BadInputError as error:
            self._skipped.append(str(error))
            return None
        return record if record.cases else None

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
        if any_record:
            return BaselineMissing(Unjudged.NEW_CASE, f"no record has a case {case!r}", skipped)
        if skipped:
            return BaselineMissing(Unjudged.ALL_UNUSABLE, skipped[0], skipped)
        return BaselineMissing(Unjudged.FIRST_RUN, f"no record in {self._path}", skipped)


def single(case: CaseRecord, source: str) -> BaselineFound:
    """A case at hand as a baseline."""
    return BaselineFound(case, BaselineUsed(source=source))

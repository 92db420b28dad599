"""Records of a branch → its whole history: each run's point once, and each case as it was last.

A record keeps the newest points alone, and is deleted after some weeks. Several records together
know more runs than any one of them. The files may be a stranger's, so they are counted and measured
before they are read, and one that is not a record of the branch is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ci_score.baselines.folder import record_files, record_of
from ci_score.baselines.histories import join_histories
from ci_score.baselines.records import read_record
from ci_score.errors import WrongUseError
from ci_score.files.disk import LOCAL_RECORD_LIMIT, read_bytes
from ci_score.model.lists import listed
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import MOST_CASES, HistoryPoint, Judged, Record, RunIdentity

# Files in all folders together, and their bytes.
MOST_FILES = 500
MOST_BYTES = 1024 * 1024 * 1024
# Of each case: more than five years with one run a day.
MOST_POINTS = 2_000
# Joining sorts all points, so many new ones are joined at once.
JOINED_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class Left:
    """A record of the branch: its file, and the run that left it.

    `within` is the folder that no link may leave; None for a file that the user named.
    """

    file: Path
    within: Path | None
    created_at: str
    commit: str | None
    run: RunIdentity | None

    def record(self) -> Record | None:
        """The whole record, read once more; None where the file has changed since."""
        record = record_of(self.file, self.within)
        return record if isinstance(record, Record) and _is_left_by(record, self) else None


@dataclass(frozen=True, slots=True)
class WholeBranch:
    """A branch's newest record with the joined history, and with every case that any record has.

    The cases have their numbers and verdicts alone. `left` are the records, the newest first, and
    `skipped` names the other files. `record` is None where no file is a record of the branch.
    """

    record: Record | None
    left: tuple[Left, ...]
    skipped: tuple[Reason, ...]


def whole_branch(paths: Sequence[Path]) -> WholeBranch:
    """The branch whose records these files are, and those that lie in these folders."""
    gathered = _Gathered()
    for file, within in _bounded(paths):
        gathered.add(file, within)
    return gathered.whole()


def _bounded(paths: Sequence[Path]) -> list[tuple[Path, Path | None]]:
    """The files to read, each with the folder that no link may leave."""
    found = list(islice(_below(paths), MOST_FILES + 1))
    if len(found) > MOST_FILES:
        raise WrongUseError(
            f"there are more than {MOST_FILES} files that may be records; give fewer of them: the"
            " newest ones have the history of those before"
        )
    size = sum(file.stat().st_size for file, _ in found if file.is_file())
    if size > MOST_BYTES:
        raise WrongUseError(
            f"the files have {size // 1024**2:,} MB, expected at most {MOST_BYTES // 1024**2:,};"
            " give fewer of them: the newest ones have the history of those before"
        )
    return found


def _below(paths: Sequence[Path]) -> Iterator[tuple[Path, Path | None]]:
    for path in paths:
        if not path.is_dir():
            yield path, None
            continue
        for file in sorted(islice(record_files(path), MOST_FILES + 1)):
            yield file, path


@dataclass(slots=True)
class _Gathered:
    """What was read so far: of each record its points and numbers, and no more."""

    left: list[Left] = field(default_factory=list)
    skipped: list[Reason] = field(default_factory=list)
    newest: Record | None = None
    cases: dict[str, tuple[str, Judged]] = field(default_factory=dict)
    joined: tuple[HistoryPoint, ...] = ()
    waiting: list[tuple[HistoryPoint, ...]] = field(default_factory=list)
    repositories: set[str] = field(default_factory=set)

    def add(self, file: Path, within: Path | None) -> None:
        """One more file, or a note where it is not a record of the branch."""
        record = record_of(file, within) if within else _named(file)
        if not isinstance(record, Record):
            self.skipped.append(record)
        elif not _is_of_a_branch(record):
            self.skipped.append(Why.NOT_OF_THE_BRANCH(record=ascii(file.name)[1:-1]))
        else:
            self._take(record, Left(file, within, record.created_at, record.commit, record.run))

    def _take(self, record: Record, left: Left) -> None:
        self.left.append(left)
        self.waiting.append(tuple(map(_without_ops, record.history)))
        if sum(map(len, self.waiting)) > JOINED_AT_ONCE:
            self._join()
        if record.repository:
            self.repositories.add(record.repository)
        for case in record.cases:
            if case.has_a_time and record.created_at >= self.cases.get(case.name, ("",))[0]:
                self.cases[case.name] = record.created_at, _numbers_of(case)
        if self.newest is None or _when(record) > _when(self.newest):
            self.newest = record.but(cases=(), history=(), trends=())

    def _join(self) -> None:
        self.joined = join_histories(self.joined, *self.waiting, most=MOST_POINTS)
        self.waiting = []

    def whole(self) -> WholeBranch:
        """All of it as one record."""
        if len(self.repositories) > 1:
            raise WrongUseError(
                f"the records are of {listed(sorted(self.repositories))}; give those of one"
            )
        if self.newest is None:
            return WholeBranch(None, (), tuple(self.skipped))
        self._join()
        last = sorted(self.cases.values(), key=lambda one: one[0], reverse=True)[:MOST_CASES]
        cases = sorted((case for _, case in last), key=lambda case: case.name)
        record = self.newest.but(cases=tuple(cases), history=self.joined)
        left = sorted(self.left, key=_when, reverse=True)
        return WholeBranch(record, tuple(left), tuple(self.skipped))


def _named(file: Path) -> Record:
    """The record in a file that the user named, or the error that says what is wrong with it."""
    return read_record(read_bytes(str(file), LOCAL_RECORD_LIMIT), str(file))


def _is_of_a_branch(record: Record) -> bool:
    """Whether its own run is in its history; a pull request's is not."""
    return any(_is_left_by(record, point) for point in record.history)


def _is_left_by(record: Record, point: HistoryPoint | Left) -> bool:
    own = record.commit, record.run, record.created_at
    return own == (point.commit, point.run, point.created_at)


def _without_ops(point: HistoryPoint) -> HistoryPoint:
    """The point without what only a report shows: of many records that would be most of them."""
    return point.but(ops={}) if point.ops else point


def _when(one: Record | Left) -> tuple[str, int, int]:
    run = one.run or RunIdentity(number=0)
    return one.created_at, run.number, run.attempt


def _numbers_of(case: Judged) -> Judged:
    """The case without what only its own report shows."""
    return Judged(
        name=case.name,
        environment=case.environment,
        scorecard=case.scorecard.but(per_layer_summary=(), hotspot_ops=()),
        metrics=case.metrics,
        tokens_per_step=case.told_tokens,
        verdict=case.verdict,
    )

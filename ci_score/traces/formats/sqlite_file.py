"""A SQLite database of a profiler, which is a stranger's: opened for reading alone, within limits.

No text of it ever becomes part of a query but names of tables that are letters, digits and
underscores. Views and virtual tables are no tables, and a query that does not end is ended.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_score.errors import BadInputError
from ci_score.traces.source import ProfileSource

MAGIC = b"SQLite format 3\0"
LONGEST_TEXT = 2**24
BATCH = 256
# A writer may be about to finish.
LOCK_SECONDS = 5.0
# SQLite may take so many millions of instructions, and more for a big file: about a minute. One
# instruction may copy a text of megabytes, so that the clock counts, too.
_INSTRUCTIONS, _LOOKS = 1_000_000, 50
_LEAST_BUDGET, _BUDGET_PER_MB = 500, 20
LONGEST_S, _S_PER_MB = 40.0, 0.1
_MOST_TABLES = 4096
# Of what devices did; each of them is six numbers in memory.
MOST_EVENTS = 10_000_000
_SAFE_NAME = re.compile(r"\w{1,100}", re.ASCII)


def is_database(head: bytes) -> bool:
    """Whether a file that begins like this is a database; its tables tell whose."""
    return head.startswith(MAGIC)


@dataclass(frozen=True, slots=True)
class Database:
    """An open database, and which of the tables to read it has, with columns."""

    name: str
    connection: sqlite3.Connection
    columns: dict[str, frozenset[str]]
    strangers: tuple[str, ...]

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there, with these columns."""
        return table in self.columns and self.columns[table].issuperset(columns)

    def column(self, table: str, *names: str, otherwise: str = "NULL") -> str:
        """The first of the columns that is there, for a query; `otherwise` where none is."""
        return next((f"t.{name}" for name in names if self.has(table, name)), otherwise)

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """One row after the other."""
        for batch in self.batches(query, *values):
            yield from batch

    def batches(self, query: str, *values: object) -> Iterator[list[tuple[Any, ...]]]:
        """Some rows at a time, so that no result is ever held."""
        cursor = self.connection.execute(query, values)
        while batch := cursor.fetchmany(BATCH):
            yield batch


@contextmanager
def opened(path: Path, name: str, is_ours: Callable[[str], bool]) -> Iterator[Database]:
    """The database, if nobody writes to it meanwhile; `is_ours` picks the tables to read."""
    before = _state(path)
    try:
        with closing(
            sqlite3.connect(_address(path), timeout=LOCK_SECONDS, uri=True, isolation_level=None)
        ) as connection:
            _guard(connection, before[0])
            columns, strangers = _tables(connection, is_ours)
            yield Database(name, connection, columns, strangers)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # The message of an error may itself quote the bytes of a damaged file.
        raise _unreadable(name, error) from None
    if _state(path) != before:
        raise BadInputError(
            name, found="a database that changed while it was read", expected="a finished file"
        )


@contextmanager
def only_numbers(database: Database) -> Iterator[None]:
    """SQLite keeps any value in any column; a column of an array takes whole numbers alone."""
    try:
        yield
    except (TypeError, OverflowError):
        raise BadInputError(
            database.name,
            found="a table with something else where whole numbers belong",
            expected="a database as its profiler writes it",
        ) from None


def _address(path: Path) -> str:
    """A URI for reading alone.

    A database in WAL mode would get files beside it from its mere reader, unless it is declared
    immutable; and that it may be only where no log holds a part of it.
    """
    with path.open("rb") as stream:
        in_wal_mode = 2 in stream.read(20)[18:]
    immutable = "&immutable=1" if in_wal_mode and not _logs(path) else ""
    return f"{path.absolute().as_uri()}?mode=ro{immutable}"


def _logs(path: Path) -> list[str]:
    beside = (path.with_name(path.name + ending) for ending in ("-wal", "-journal"))
    return [log.name for log in beside if log.exists()]


def _state(path: Path) -> tuple[int, int, list[str]]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, _logs(path)


def _guard(connection: sqlite3.Connection, size: int) -> None:
    """Limits, and a read transaction, so that all queries see the same."""
    megabytes = size // 1_000_000
    budget = iter(range(_LOOKS * (_LEAST_BUDGET + megabytes * _BUDGET_PER_MB)))
    deadline = time.monotonic() + LONGEST_S + megabytes * _S_PER_MB
    connection.set_progress_handler(
        lambda: next(budget, None) is None or time.monotonic() > deadline, _INSTRUCTIONS // _LOOKS
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("BEGIN")


def _tables(
    connection: sqlite3.Connection, is_ours: Callable[[str], bool]
) -> tuple[dict[str, frozenset[str]], tuple[str, ...]]:
    """Which of the tables to read there are, with their columns, and the names of others.

    Only a real table has a root page: a view or virtual table of the same name would run a
    stranger's code.
    """
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 LIMIT ?",
        (_MOST_TABLES,),
    )
    names = [str(name) for (name,) in found]
    columns = {
        table: frozenset(
            str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})").fetchall()
        )
        for table in names
        if _SAFE_NAME.fullmatch(table) and is_ours(table)
    }
    return columns, tuple(name for name in names if name not in columns)


def _unreadable(name: str, error: Exception) -> BadInputError:
    text = ascii(str(error))[1:-1][:99]
    if "locked" in text or "busy" in text or "readonly" in text or "unable to open" in text:
        found = "a database that is being written, or was never closed"
    elif "interrupted" in text:
        found = "a database on which a query does not end"
    else:
        found = f"a damaged database ({text})"
    return BadInputError(name, found=found, expected="a whole database of a profiler")


def tables_of(source: ProfileSource) -> tuple[str, ...]:
    """The names of all tables of a database."""
    with source.on_disk() as path, opened(path, source.name, lambda _: False) as database:
        return database.strangers

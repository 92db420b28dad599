"""Every reader, by content, on damaged files: a profile or a reason, in bounded time and memory.

With `--hypothesis-profile=long` it takes half a minute, as in `.ci/run`.
"""

from __future__ import annotations

import gzip
import json
import signal
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.errors import BadInputError
from ci_score.report.profile import profile_text
from ci_score.traces.formats import FORMATS, read_profile
from ci_score.traces.formats.reference import normalised
from ci_score.traces.source import ProfileSource
from tests.builders.traces.jax import field
from tests.builders.traces.valid_files import valid_files

FILES = valid_files()
JSON = ("canary", "parity-profile", "apr", "trainer-state", "megatron-golden", "rocprof",
        "ascend", "jax-trace", "kineto", "reference", "normalised")  # fmt: skip
# A file of some kilobytes takes milliseconds and kilobytes.
LONGEST_S = 10.0
MOST_BYTES = 24 * 1024**2

Draw = Callable[[st.SearchStrategy[Any]], Any]

TOKENS = [
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\n", b"\0", b"\xff", b"\xef\xbb\xbf"),
    *(b"NaN", b"-Infinity", b"null", b"-1", b"1e999", b"99999999999999999999", b"\\ud800"),
    *(b'"traceEvents":[', b'"ph":"X"', b'"_profiler":"', b"\xe2\x94\x82", b"\x80" * 11, b"[" * 400),
]
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            "",
            "x" * 5000,
            [],
            {},
            [[]],
            {"": {}},
            "step 1",
            "nan",
            "\ud800",
            "\0\x1b[31m",
        ]
    ),
    st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400]),
    st.sampled_from([0.5, -0.0, 1e-300, 1e15, 1e17, 1.7e308, -1e308]),
    st.integers(-10, 10**9),
)


@contextmanager
def bounded() -> Iterator[None]:
    """Neither a hang nor more memory than the file can need."""

    def stop(*_: object) -> None:
        raise AssertionError(f"more than {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check(data: bytes) -> None:
    """The file is a profile that can be shown and sent, or refused with a reason."""
    with bounded():
        try:
            found = read_profile(ProfileSource("a/file", data=data))
        except BadInputError as error:
            reason = str(error)
        else:
            reason = ""
            sent = ProfileSource("sent", data=normalised(found).encode())
            assert read_profile(sent) == found
            assert "\x1b" not in profile_text(found)
        assert not reason or (reason.startswith("a/file") and reason.isprintable())


# --- bytes --------------------------------------------------------------------------------------


def flipped(data: bytes, draw: Draw) -> bytes:
    place, bit = draw(st.integers(0, len(data) - 1)), draw(st.integers(0, 7))
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def cut(data: bytes, draw: Draw) -> bytes:
    return data[: draw(st.integers(0, len(data)))]


def spliced(data: bytes, draw: Draw) -> bytes:
    """Something instead of a part, which may be nothing, or another part."""
    first, size = draw(st.integers(0, len(data))), draw(st.integers(0, 64))
    other = draw(st.integers(0, len(data)))
    pieces = [*TOKENS, b"", data[other : other + 200]]
    new: bytes = draw(st.sampled_from(pieces) | st.binary(max_size=8))
    return data[:first] + new + data[first + size :]


MUTATIONS: tuple[Callable[[bytes, Draw], bytes], ...] = (flipped, cut, spliced)


@pytest.mark.parametrize("name", FILES)
@given(st.data())
def test_fuzz__bytes(name: str, data: st.DataObject) -> None:
    """Bits are flipped, parts are lost, doubled and overwritten, packed or not."""
    damaged = FILES[name][-4000:] if name == "log" else FILES[name]
    for mutate in data.draw(st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=4)):
        damaged = mutate(damaged or b"{", data.draw)
    if data.draw(st.booleans()):
        damaged = gzip.compress(damaged, 1)
        if data.draw(st.booleans()):
            damaged = data.draw(st.sampled_from(MUTATIONS))(damaged, data.draw)
    check(damaged)


@given(st.sampled_from([data[:24] for data in FILES.values()]), st.binary(max_size=300))
def test_fuzz__beginnings(begin: bytes, rest: bytes) -> None:
    """What begins like a format and is none."""
    check(begin + rest)


# --- structures ---------------------------------------------------------------------------------


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a value, with each of its keys."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += [(value, key), *places(value[key])]
    return found


@pytest.mark.parametrize("name", JSON)
@given(st.data())
def test_fuzz__json(name: str, data: st.DataObject) -> None:
    """Values of other types and sizes, fields that are missing, records that come twice."""
    value = json.loads(FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        every = places(value)
        container, key = every[data.draw(st.integers(0, len(every) - 1))]
        change = data.draw(st.sampled_from(["replace", "remove", "repeat"]))
        if change == "replace":
            container[key] = deepcopy(data.draw(VALUES))
        elif isinstance(container, dict):
            container.pop(key)
        elif change == "repeat":
            container.insert(key, container[key])
        else:
            del container[key]
        if not places(value):
            break
    check(json.dumps(value).encode())


SQL_VALUES = st.one_of(
    st.binary(max_size=9),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=9),
    st.sampled_from([None, 0, -1, 2**40, "x" * 5000, "\x1b[31m", "12", "step 1"]),
)


def change(database: sqlite3.Connection, table: str, draw: Draw) -> None:
    """Makes something of a table that no profiler writes."""
    how = draw(st.sampled_from(["update", "update", "drop", "view", "rename"]))
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    column = draw(st.sampled_from(columns))
    if how == "update":
        some = draw(st.sampled_from(["1", "rowid = 1", "rowid % 3 = 0"]))
        query = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {some}"  # noqa: S608 - our names
        # A key that must be a whole number stays one.
        with suppress(sqlite3.IntegrityError):
            database.execute(query, (draw(SQL_VALUES),))
    elif how == "rename":
        database.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO gone")
    else:
        database.execute(f"DROP TABLE {table}")
        if how == "view":
            database.execute(f"CREATE VIEW {table} AS SELECT 1 AS {column}")


@pytest.mark.parametrize("name", ["nsight", "rocpd"])
@given(st.data())
def test_fuzz__database(name: str, data: st.DataObject) -> None:
    """Values of other types in any column, tables that are missing, renamed or views."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(FILES[name])
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        some = st.lists(st.sampled_from(tables), min_size=1, max_size=3, unique=True)
        for table in data.draw(some):
            change(database, table, data.draw)
        database.commit()
        check(database.serialize())


MESSAGES = st.recursive(
    st.integers(0, 2**64 - 1)
    | st.integers(0, 40)
    | st.sampled_from(
        [b"", b"Steps", b"Stream #1", b"XLA Ops", b"correlation_id", b"step_num", b"\xff"]
    ),
    lambda inner: st.lists(st.tuples(st.integers(1, 11), inner), max_size=6).map(
        lambda fields: b"".join(field(number, value) for number, value in fields)
    ),
    max_leaves=40,
)


@given(st.lists(st.tuples(st.sampled_from([3, 3, 4, 5, 6]), MESSAGES), max_size=6), st.booleans())
def test_fuzz__xspace(parts: list[tuple[int, int | bytes]], is_device: bool) -> None:
    """A plane of messages in messages, of which some mean something."""
    name = "/device:GPU:0" if is_device else "/host:CPU"
    plane = field(2, name) + b"".join(field(number, value) for number, value in parts)
    check(field(1, plane) + FILES["xplane"])


def test_fuzz__every_format_is_there() -> None:
    """A new row is damaged, too."""
    assert list(FILES) == [row.name for row in FORMATS]

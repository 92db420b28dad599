"""Nsight Systems: the SQLite database of `nsys export --type sqlite`, of 2022 to 2026.

A table is there only if it has rows, and columns come and go with versions: what is missing makes
a number absent and a note, not an error. Times are nanoseconds. A kernel belongs to the step in
which it was launched; launches are found by correlation id within a process, because ids repeat
between processes. A device of a process is one timeline, and the slowest speaks for the capture.

The database is a stranger's: sqlite_file opens it, and no name of it becomes part of a query.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.engine.capture import Capture, Lane
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents, Names
from ci_score.traces.engine.host_ranges import MOST_RANGES, HostRanges
from ci_score.traces.engine.launch_calls import Call, blocks_of, is_of_interest
from ci_score.traces.engine.profile import profile_of
from ci_score.traces.formats.nsight_facts import (
    DEVICE_BITS,
    DEVICES,
    EXPORTS,
    FACT_TABLES,
    GpuOfProcess,
    facts_of,
    tool_of,
)
from ci_score.traces.formats.refusals import database_refusal
from ci_score.traces.formats.sqlite_file import (
    BATCH,
    MOST_EVENTS,
    Database,
    is_database,
    only_numbers,
    opened,
)
from ci_score.traces.source import ProfileSource

NANOSECONDS_PER_MS = 1_000_000

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES = "NVTX_EVENTS"
STRINGS = "StringIds"
# Every name that may stand in a query.
TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH, RUNTIME, RANGES, STRINGS, *FACT_TABLES)

# A name of a kernel is a row of StringIds; what has no name of its own gets a negative number.
_COPY_NAMES = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD", 10: "Memcpy PtoP"}
_OTHER_COPY = "Memcpy"
_MEMSET_NAME, _GRAPH_NAME, _NO_NAME = -1000, -1001, -1002
_OWN_NAMES = {_MEMSET_NAME: "Memset", _GRAPH_NAME: "CUDA graph", _NO_NAME: "(no name)"}

_PUSH_POP, _START_END, _THREAD_NAME = 59, 60, 39

MOST_THREAD_NAMES = 10_000
MOST_DEVICES = 1024
# A launch has two rows in old exports; one with many is a mistake, or made to multiply.
_MOST_MATCHES = 16


def recognises(head: bytes) -> bool:
    """Whether it is a SQLite database at all; `read` looks whose."""
    return is_database(head)


def read(source: ProfileSource) -> Profile:
    """The profile in an Nsight Systems database."""
    with (
        source.on_disk() as path,
        opened(path, source.name, TABLES.__contains__) as database,
        overflow_is_bad_input(source.name),
    ):
        if is_ours(database.columns):
            return profile_of(_capture(database, source.step_name))
        from ci_score.traces.formats import rocpd

        # Its tables were not made in the first pages, which is all that recognising it looks at.
        if rocpd.is_ours(database.strangers):
            return rocpd.read(source)
        refusal = database_refusal(database.strangers)
        raise BadInputError(source.name, found=refusal.what, expected=refusal.instead)


def is_ours(tables: Iterable[str]) -> bool:
    """Whether a database with these tables is one of Nsight Systems."""
    return any(table in (KERNEL, STRINGS, RUNTIME, *EXPORTS) for table in tables)


# --- what the devices did -----------------------------------------------------------------------

# A name and a stream as one number.
_STREAM_BITS = 20
_STREAMS = 2**_STREAM_BITS - 1


@dataclass(slots=True)
class _Timelines:
    """The timelines of a capture, one for each device of each process, and what to say of them."""

    events: dict[int, DeviceEvents]
    graphs: int
    notes: list[str]


def _timelines_of(database: Database) -> _Timelines:
    notes: list[str] = []
    tables = {
        table: number
        for table, number in _numbers(database).items()
        if _timed(database, table, notes)
    }
    counts = {table: _count(database, table) for table in tables}
    events = sum(counts.values())
    if events > MOST_EVENTS:
        raise BadInputError(
            database.name,
            found=f"{events} device events",
            expected=f"a capture of fewer steps, with at most {MOST_EVENTS}",
        )
    lanes: dict[int, DeviceEvents] | None = {}
    if tables:
        joins = _launches_are_known(database, tables, notes)
        query = _query(database, tables, joins)
        lanes = _timelines(database, database.batches(query), events)
        if lanes is None:
            # Some launch has two rows, as in old exports: of those the earlier counts.
            query = _query(database, tables, joins, "e.number")
            lanes = _timelines(database, _matched_once(database, query), events)
    return _Timelines(lanes or {}, counts.get(GRAPH, 0), notes)


def _numbers(database: Database) -> dict[str, str]:
    """For each table of device events the number of an event's name, for a query."""
    name = database.column(KERNEL, "demangledName", "shortName", "mangledName")
    kind = database.column(MEMCPY, "copyKind")
    return {
        KERNEL: f"COALESCE({name}, {_NO_NAME})",
        MEMCPY: f"-1 - COALESCE({kind}, 0)",
        MEMSET: str(_MEMSET_NAME),
        GRAPH: str(_GRAPH_NAME),
    }


def _timed(database: Database, table: str, notes: list[str]) -> bool:
    if database.has(table) and not database.has(table, "start", "end"):
        notes.append(f"{table} has no times and was left out")
    return database.has(table, "start", "end")


def _launches_are_known(database: Database, tables: Iterable[str], notes: list[str]) -> bool:
    """Whether the tables of device events tell which calls of the runtime there are launched it."""
    joined = any(database.has(table, "correlationId") for table in tables)
    if joined and database.has(RUNTIME, "start", "correlationId"):
        if not _processes_are_named(database, tables):
            notes.append(
                "the export does not name the processes: launches are joined by their number alone"
            )
        return True
    what = "no launches" if not database.has(RUNTIME) else "launches that no device event names"
    notes.append(f"the export has {what}: an event counts for the step in which it ran")
    return False


def _processes_are_named(database: Database, tables: Iterable[str]) -> bool:
    """Whether calls and, above all, kernels tell their process."""
    first = next(iter(tables))
    return database.has(RUNTIME, "globalTid") and database.has(first, "globalPid")


def _count(database: Database, table: str) -> int:
    return int(next(database.rows(f"SELECT count(*) FROM {table}"))[0])  # noqa: S608 - our names


def _query(database: Database, tables: Mapping[str, str], joins: bool, *more_columns: str) -> str:
    """A query of our own names: the lane, the columns of DeviceEvents, and more if wanted.

    The tables are joined with the launches as one, because SQLite sorts the launches for each join;
    the limit, which is none, keeps it from taking the union apart. A name and its stream are one
    number: they are few, and every column costs.
    """
    parts = (
        _part(database, table, number, place)
        for place, (table, number) in enumerate(tables.items())
    )
    launched = f"COALESCE(r.start, {UNKNOWN})" if joins else str(UNKNOWN)
    columns = ("e.lane", "e.start", "e.end", "e.name", "e.correlation", launched, *more_columns)
    query = f"SELECT {', '.join(columns)} FROM ({' UNION ALL '.join(parts)} LIMIT -1) e"  # noqa: S608 - our names
    if joins:
        query += f" LEFT JOIN {RUNTIME} r ON r.correlationId = e.correlation"
        if _processes_are_named(database, tables):
            query += f" AND r.globalTid >> 24 = e.lane >> {DEVICE_BITS}"
    return query


def _part(database: Database, table: str, number: str, place: int) -> str:
    process = f"COALESCE({database.column(table, 'globalPid')} >> 24, 0)"
    device = f"COALESCE({database.column(table, 'deviceId')}, 0)"
    stream = f"COALESCE({database.column(table, 'streamId')}, 0)"
    correlation = f"COALESCE({database.column(table, 'correlationId')}, {UNKNOWN})"
    return (
        f"SELECT (({process}) << {DEVICE_BITS}) | ({device} & {DEVICES}) AS lane,"  # noqa: S608 - our names
        f" t.start AS start, t.end AS end,"
        f" (({number}) << {_STREAM_BITS}) | ({stream} & {_STREAMS}) AS name,"
        f" {correlation} AS correlation,"
        f" t.rowid * {len(TABLES)} + {place} AS number FROM {table} t"
    )


def _timelines(
    database: Database, batches: Iterable[list[tuple[Any, ...]]], rows: int
) -> dict[int, DeviceEvents] | None:
    """The events of each device of each process; None if there are more than `rows`."""
    lanes: dict[int, DeviceEvents] = defaultdict(DeviceEvents)
    for batch in batches:
        rows -= len(batch)
        if rows < 0:
            return None
        groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for row in batch:
            groups[row[0]].append(row)
        with only_numbers(database):
            for lane, group in groups.items():
                _, starts, ends, names, launches, launched_at, *_ = zip(*group, strict=True)
                lanes[lane].extend(starts, ends, names, (), launches, launched_at)
        if len(lanes) > MOST_DEVICES:
            raise BadInputError(
                database.name,
                found=f"more than {MOST_DEVICES} devices",
                expected="a capture of one machine",
            )
    return lanes


def _matched_once(database: Database, query: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows with one launch each: the earliest, where a call was recorded at two levels.

    SQLite gives all matches of a row before it goes on to the next.
    """
    once: list[tuple[Any, ...]] = []
    for _, group in groupby(database.rows(query), key=itemgetter(-1)):
        matches = list(islice(group, _MOST_MATCHES + 1))
        if len(matches) > _MOST_MATCHES:
            raise BadInputError(
                database.name,
                field=RUNTIME,
                found=f"more than {_MOST_MATCHES} calls with the same correlation id",
                expected="a launch once",
            )
        once.append(min(matches, key=itemgetter(-2)))
        if len(once) == BATCH:
            yield once
            once = []
    yield once


def _name_events(database: Database, lanes: Iterable[DeviceEvents]) -> Names:
    """The names of all events, each once; the columns hold their places afterwards."""
    names = Names()
    lanes = list(lanes)
    keys = set().union(*(set(events.names) for events in lanes))
    used = {key >> _STREAM_BITS for key in keys}
    texts = _own_names(used)
    if database.has(STRINGS, "id", "value"):
        query = "SELECT id, substr(value, 1, 65536) FROM StringIds"
        texts |= {number: str(text) for number, text in database.rows(query) if number in used}
    places = {
        key: names.place(texts.get(key >> _STREAM_BITS, f"kernel {key >> _STREAM_BITS}"))
        for key in keys
    }
    streams = {key: key & _STREAMS for key in keys}
    for events in lanes:
        events.streams = array("q", map(streams.__getitem__, events.names))
        events.names = array("q", map(places.__getitem__, events.names))
    return names


def _own_names(used: Iterable[int]) -> dict[int, str]:
    copies = {number: _COPY_NAMES.get(-1 - number, _OTHER_COPY) for number in used if number < 0}
    return copies | _OWN_NAMES


# --- ranges: steps and phases -------------------------------------------------------------------


def _add_ranges(database: Database, capture: Capture) -> set[str]:
    """Adds the ranges that people named; the names of threads.

    What frameworks emit for every operator (`aten::mm, op_id = 3`) is left to SQLite to drop: there
    are more of those than of kernels.
    """
    thread_names: set[str] = set()
    backwards = 0
    for kind, start, end, thread, domain, text in _range_rows(database):
        if kind == _THREAD_NAME:
            thread_names.update([text] if len(thread_names) < MOST_THREAD_NAMES else [])
            continue
        with only_numbers(database):
            if end < start:
                backwards += 1
                continue
            added = capture.ranges.add(thread >> 24, (thread, domain), text, start, end)
        if not added:
            capture.notes.append(f"only the first {MOST_RANGES} ranges were looked at")
            break
    if backwards:
        capture.notes.append(f"{backwards} ranges end before they begin; left out")
    return thread_names


def _range_rows(database: Database) -> Iterator[tuple[Any, ...]]:
    if not database.has(RANGES, "start", "end", "eventType"):
        return iter(())
    text = database.column(RANGES, "text")
    label = text
    if database.has(RANGES, "textId") and database.has(STRINGS, "id", "value"):
        label = f"COALESCE({text}, (SELECT s.value FROM {STRINGS} s WHERE s.id = t.textId))"  # noqa: S608 - our names
    thread = database.column(RANGES, "globalTid", otherwise="0")
    domain = database.column(RANGES, "domainId", otherwise="0")
    return database.rows(
        f"SELECT t.eventType, t.start, t.end, COALESCE({thread}, 0), COALESCE({domain}, 0),"  # noqa: S608 - our names
        f" substr({label}, 1, 200) AS label FROM {RANGES} t"
        f" WHERE (t.eventType IN ({_PUSH_POP}, {_START_END}) AND t.end IS NOT NULL"
        f" OR t.eventType = {_THREAD_NAME})"
        f" AND ({text} IS NULL OR NOT ({text} >= 'aten::' AND {text} < 'aten:;'))"
        " AND label IS NOT NULL AND instr(label, ', op_id = ') = 0 AND instr(label, ', seq = ') = 0"
    )


# --- the capture --------------------------------------------------------------------------------


def _capture(database: Database, step_name: re.Pattern[str] | None) -> Capture:
    timelines = _timelines_of(database)
    capture = Capture(
        tool_of(database),
        NANOSECONDS_PER_MS,
        names=_name_events(database, timelines.events.values()),
        ranges=HostRanges(step_name),
        ranges_called="NVTX ranges",
        needs_device="no kernel was recorded: nothing ran on a GPU, or its tracing failed",
        notes=[*timelines.notes, *_graph_notes(timelines)],
    )
    for number, events in sorted(timelines.events.items()):
        gpu = GpuOfProcess.of(number)
        capture.lanes.append(Lane(str(gpu), gpu.process, events, gpu.device))
    _count_calls(database, capture)
    thread_names = _add_ranges(database, capture)
    capture.facts = lambda lanes, chosen: facts_of(database, lanes, chosen, thread_names)
    return capture


def _count_calls(database: Database, capture: Capture) -> None:
    """Looks at some of the calls of each process that start work."""
    calls_named = database.has(RUNTIME, "start", "end", "correlationId", "nameId")
    if not calls_named or not database.has(STRINGS, "id", "value"):
        return
    process = f"COALESCE({database.column(RUNTIME, 'globalTid')} >> 24, 0)"
    query = (
        f"SELECT {process}, t.start, t.end, t.correlationId, substr(s.value, 1, 200)"  # noqa: S608 - our names
        f" FROM {RUNTIME} t JOIN {STRINGS} s ON s.id = t.nameId"
        " WHERE t.rowid > ? AND t.rowid <= ? AND t.end IS NOT NULL AND t.correlationId IS NOT NULL"
    )
    calls: dict[int, list[Call]] = defaultdict(list)
    with only_numbers(database):
        for block in blocks_of(_count(database, RUNTIME)):
            for number, *times, name in database.rows(query, *block):
                if is_of_interest(str(name)):
                    begin, end, launch = array("q", times)
                    calls[number].append(Call(begin, end, launch, str(name)))
    named = any(lane.process for lane in capture.lanes)
    for number, found in calls.items():
        own = [lane.events for lane in capture.lanes if not named or lane.process == number]
        if own:
            capture.launch_calls.add(found, own)


def _graph_notes(timelines: _Timelines) -> list[str]:
    if not timelines.graphs:
        return []
    launches = f"{timelines.graphs} launches of CUDA graphs were traced as a whole"
    advice = "nsys profile --cuda-graph-trace=node records them"
    return [f"{launches}: their kernels are not in the export ({advice})"]

"""rocprofv3 of ROCm: the SQLite database that it writes by default since ROCm 7 (rocpd).

Each process has tables of its own, named with its GUID; a merged database holds those of several.
Times are nanoseconds. A dispatch and the call of HIP that launched it have the same `stack_id` in
their events. Since schema 4 agent, stream and process stand in a table of tracks. The views without
a GUID, which join all of them, are a stranger's code and not read.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.engine.capture import Capture, Facts, Lane
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents, Names
from ci_score.traces.engine.host_ranges import MOST_RANGES, HostRanges
from ci_score.traces.engine.launch_calls import Call, LaunchCalls, blocks_of, is_of_interest
from ci_score.traces.engine.profile import profile_of
from ci_score.traces.formats.launcher import VARIABLES, place_in_job
from ci_score.traces.formats.rocprof import COPIES, OTHER_COPY
from ci_score.traces.formats.sqlite_file import (
    MOST_EVENTS,
    Database,
    is_database,
    only_numbers,
    opened,
)
from ci_score.traces.source import ProfileSource

_TICKS_PER_MS = 1_000_000
_CREATED = re.compile(rb'CREATE TABLE [`"\']?rocpd_')
_TABLE = re.compile(
    r"rocpd_(kernel_dispatch|memory_copy|region|event|track|string|info_agent|info_category"
    r"|info_kernel_symbol|info_process)((?:_\w{1,60})?)",
    re.ASCII,
)
_DISPATCH, _COPY, _REGION = "kernel_dispatch", "memory_copy", "region"
# A process each; more are not the capture of a machine.
MOST_PROCESSES = 1024
MOST_DEVICES = 1024
_MOST_NAMES = 100_000
_LONGEST_TEXT = 65_536
_LARGEST_ENVIRONMENT = 2**20
_NO_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)


def recognises(head: bytes) -> bool:
    """Whether it is a database whose first pages make tables of rocpd."""
    return is_database(head) and _CREATED.search(head) is not None


def is_ours(tables: Iterable[str]) -> bool:
    """Whether a database with these tables is one of rocprofv3."""
    return any((found := _TABLE.fullmatch(table)) and found[1] == _DISPATCH for table in tables)


def read(source: ProfileSource) -> Profile:
    """The profile in a database of rocprofv3."""
    with (
        source.on_disk() as path,
        opened(path, source.name, lambda table: bool(_TABLE.fullmatch(table))) as database,
        overflow_is_bad_input(source.name),
    ):
        rows = _rows_of(database, HostRanges(source.step_name))
        return profile_of(_capture(rows))


# --- the tables of a process --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Process:
    """The tables of one GUID."""

    number: int
    database: Database
    suffix: str

    def table(self, kind: str) -> str:
        """The name of a table."""
        return f"rocpd_{kind}{self.suffix}"

    def has(self, kind: str, *columns: str) -> bool:
        """Whether a table is there, with these columns."""
        return self.database.has(self.table(kind), *columns)

    def column(self, kind: str, name: str, otherwise: str = "0") -> str:
        """A column of a row `t`, or of its track, as a whole number for a query."""
        if self.has(kind, name):
            return f"COALESCE(CAST(t.{name} AS INTEGER), {otherwise})"
        if self.has(kind, "track_id") and self.has("track", "id", name):
            track = self.table("track")
            found = f"(SELECT k.{name} FROM {track} k WHERE k.id = t.track_id)"  # noqa: S608 - a safe name
            return f"COALESCE(CAST({found} AS INTEGER), {otherwise})"
        return otherwise

    def texts(self, kind: str, columns: Sequence[str], used: str) -> dict[int, str]:
        """The texts of a table by number: of several columns the first that is not empty.

        `used` is a query for the numbers that are wanted.
        """
        found = [column for column in columns if self.has(kind, "id", column)]
        if not found:
            return {}
        text = ", ".join(f"NULLIF(t.{column}, '')" for column in found)
        query = (
            f"SELECT t.id, substr(COALESCE({text}, ''), 1, {_LONGEST_TEXT})"  # noqa: S608 - safe names
            f" FROM {self.table(kind)} t WHERE t.id IN ({used}) LIMIT {_MOST_NAMES}"
        )
        return {number: str(text) for number, text in self.database.rows(query)}

    def numbers(self, kind: str, column: str) -> str:
        """A query for all values of a column."""
        return f"SELECT u.{column} FROM {self.table(kind)} u"  # noqa: S608 - safe names


def _processes(database: Database) -> list[_Process]:
    suffixes = sorted(
        found[2]
        for table in database.columns
        if (found := _TABLE.fullmatch(table)) and found[1] == _DISPATCH
    )
    if len(suffixes) > MOST_PROCESSES:
        raise BadInputError(
            database.name,
            found=f"{len(suffixes)} processes",
            expected=f"a capture of at most {MOST_PROCESSES}",
        )
    return [_Process(number, database, suffix) for number, suffix in enumerate(suffixes)]


# --- what the devices and the host did ----------------------------------------------------------

# A process of the file, its number on its machine, and the agent.
Agent = tuple[int, int, int]


@dataclass(slots=True)
class _Rows:
    """The timelines by process and agent, the host's ranges, and what is told of the machine."""

    ranges: HostRanges
    names: Names = field(default_factory=Names)
    lanes: dict[Agent, DeviceEvents] = field(default_factory=lambda: defaultdict(DeviceEvents))
    agents: dict[tuple[int, int], str] = field(default_factory=dict)
    told: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    launch_calls: LaunchCalls = field(default_factory=LaunchCalls)
    has_calls: bool = False
    left: int = 0
    owners: dict[tuple[int, int], int] = field(default_factory=dict)
    machines: dict[int, int] = field(default_factory=dict)

    def owner(self, number: int, pid: int) -> int:
        """A process of the file as one number: pids repeat between machines."""
        return self.owners.setdefault((number, pid), len(self.owners))


def _rows_of(database: Database, ranges: HostRanges) -> _Rows:
    into = _Rows(ranges)
    processes = _processes(database)
    events = sum(
        next(database.rows(f"SELECT count(*) FROM {process.table(kind)}"))[0]  # noqa: S608 - a safe name
        for process in processes
        for kind in (_DISPATCH, _COPY)
        if process.has(kind)
    )
    if events > MOST_EVENTS:
        raise BadInputError(
            database.name,
            found=f"{events} device events",
            expected=f"a capture of fewer steps, with at most {MOST_EVENTS}",
        )
    into.left = events
    for process in processes:
        _add_dispatches(into, process)
        _add_copies(into, process)
        _add_ranges(into, process)
        own = [events for lane, events in into.lanes.items() if lane[0] == process.number]
        into.launch_calls.add(list(_calls(process)), own)
        names = process.texts("info_agent", ("product_name", "name"), _agents_used(process))
        into.agents |= {(process.number, agent): name for agent, name in names.items()}
        into.told += _told(process)
    return into


def _agents_used(process: _Process) -> str:
    """All agents of a machine: they are few."""
    return f"SELECT a.id FROM {process.table('info_agent')} a LIMIT {MOST_DEVICES}"  # noqa: S608 - a safe name


def _add_dispatches(into: _Rows, process: _Process) -> None:
    kind = _DISPATCH
    if not process.has(kind, "start", "end", "kernel_id"):
        into.notes.append(f"{process.table(kind)} has no times and was left out")
        return
    used = process.numbers(kind, "kernel_id")
    symbols = process.texts("info_kernel_symbol", ("display_name", "kernel_name"), used)
    stream = process.column(kind, "stream_id", process.column(kind, "queue_id"))
    agent = process.column(kind, "agent_id")
    names = defaultdict(str, symbols)
    _add_rows(into, process, kind, f"{process.column(kind, 'kernel_id')}, {stream}, {agent}", names)


def _add_copies(into: _Rows, process: _Process) -> None:
    kind = _COPY
    if not process.has(kind, "start", "end", "name_id"):
        return
    operations = process.texts("string", ("string",), process.numbers(kind, "name_id"))
    names: dict[int, str] = defaultdict(lambda: OTHER_COPY)
    for number, text in operations.items():
        names[number] = COPIES.get(text.removeprefix("ROCPROFILER_"), OTHER_COPY)
    # A copy is the GPU's, whichever end of it that is.
    source, target = (process.column(kind, f"{end}_agent_id") for end in ("src", "dst"))
    agent = target
    if process.has("info_agent", "id", "type"):
        gpus = f"SELECT a.id FROM {process.table('info_agent')} a WHERE a.type = 'GPU'"  # noqa: S608 - a safe name
        agent = f"CASE WHEN {source} IN ({gpus}) THEN {source} ELSE {target} END"
    stream = process.column(kind, "stream_id")
    _add_rows(into, process, kind, f"{process.column(kind, 'name_id')}, {stream}, {agent}", names)


def _add_rows(
    into: _Rows, process: _Process, kind: str, columns: str, texts: Mapping[int, str]
) -> None:
    """The events of a table: start, end, name, stream, agent, process, launch, time of launch."""
    places: dict[int, int] = {}
    query = _query(into, process, kind, columns)
    for batch in process.database.batches(query):
        lanes: dict[Agent, list[tuple[Any, ...]]] = defaultdict(list)
        for row in batch:
            lanes[process.number, row[5], row[4]].append(row)
        into.left -= len(batch)
        if into.left < 0:
            raise BadInputError(
                process.database.name,
                field=process.table("event"),
                found="events with the same id",
                expected="each once",
            )
        with only_numbers(process.database):
            for lane, rows in lanes.items():
                starts, ends, names, streams, _, _, launches, launched_at = zip(*rows, strict=True)
                for name in names:
                    if name not in places:
                        places[name] = into.names.place(texts[name] or f"kernel {name}")
                kept = array("q", map(places.__getitem__, names))
                into.lanes[lane].extend(starts, ends, kept, streams, launches, launched_at)
        if len(into.lanes) > MOST_DEVICES:
            raise BadInputError(
                process.database.name,
                found=f"more than {MOST_DEVICES} devices",
                expected="a capture of one machine",
            )


def _query(into: _Rows, process: _Process, kind: str, columns: str) -> str:
    """With the launch of each row, where events and calls tell it."""
    pid, table = process.column(kind, "pid"), process.table(kind)
    rows = f"SELECT t.start, t.end, {columns}, {pid}"
    if not (process.has("event", "id", "stack_id") and process.has(kind, "event_id")):
        return f"{rows}, {UNKNOWN}, {UNKNOWN} FROM {table} t"
    event = process.table("event")
    joined = f"{table} t LEFT JOIN {event} e ON e.id = t.event_id"
    rows += f", COALESCE(NULLIF(CAST(e.stack_id AS INTEGER), 0), {UNKNOWN})"
    if not process.has(_REGION, "start", "event_id"):
        return f"{rows}, {UNKNOWN} FROM {joined}"
    into.has_calls = True
    calls = (
        "SELECT c.stack_id AS stack, MIN(r.start) AS start"  # noqa: S608 - safe names
        f" FROM {process.table(_REGION)} r JOIN {event} c ON c.id = r.event_id"
        " WHERE c.stack_id <> 0 GROUP BY c.stack_id"
    )
    return (
        f"{rows}, COALESCE(l.start, {UNKNOWN})"
        f" FROM {joined} LEFT JOIN ({calls}) l ON l.stack = e.stack_id"
    )


def _calls(process: _Process) -> Iterator[Call]:
    """Calls of HIP by their names."""
    calls_named = process.has(_REGION, "start", "end", "event_id", "name_id")
    stacks_known = process.has("event", "id", "stack_id") and process.has("string", "id", "string")
    if not (calls_named and stacks_known):
        return
    regions = process.table(_REGION)
    query = (
        "SELECT t.start, t.end, e.stack_id, substr(s.string, 1, 200)"  # noqa: S608 - safe names
        f" FROM {regions} t JOIN {process.table('event')} e ON e.id = t.event_id"
        f" JOIN {process.table('string')} s ON s.id = t.name_id"
        " WHERE t.rowid > ? AND t.rowid <= ? AND t.end IS NOT NULL AND e.stack_id <> 0"
    )
    count = next(process.database.rows(f"SELECT count(*) FROM {regions}"))[0]  # noqa: S608 - a safe name
    with only_numbers(process.database):
        for block in blocks_of(count):
            for *times, name in process.database.rows(query, *block):
                if is_of_interest(str(name)):
                    begin, end, stack = array("q", times)
                    yield Call(begin, end, stack, str(name))


class _Extra(msgspec.Struct):
    message: str = ""


def _add_ranges(into: _Rows, process: _Process) -> None:
    """The roctx ranges: a call of roctx with its message, or a range of that name."""
    backwards = 0
    for start, end, pid, thread, name, extra in _range_rows(process):
        text = str(name or "")
        with suppress(*_NO_JSON):
            text = msgspec.json.decode(str(extra or "{}"), type=_Extra).message or text
        if not text or text.startswith("roctx"):
            continue
        with only_numbers(process.database):
            array("q", (start, end, pid))
            if end < start:
                backwards += 1
                continue
            added = into.ranges.add(into.owner(process.number, pid), thread, text, start, end)
        if not added:
            into.notes.append(f"only the first {MOST_RANGES} ranges were looked at")
            break
    if backwards:
        into.notes.append(f"{backwards} ranges end before they begin; left out")


def _range_rows(process: _Process) -> Iterator[tuple[Any, ...]]:
    category = "info_category" if process.has("info_category", "id", "name") else "string"
    label = "name" if category == "info_category" else "string"
    needed = (
        process.has(_REGION, "start", "end", "event_id", "name_id")
        and process.has("event", "id", "category_id")
        and process.has(category, "id", label)
        and process.has("string", "id", "string")
    )
    if not needed:
        return iter(())
    extra = "e.extdata" if process.has("event", "extdata") else "NULL"
    return process.database.rows(
        f"SELECT t.start, t.end, {process.column(_REGION, 'pid')},"  # noqa: S608 - safe names
        f" {process.column(_REGION, 'tid')}, substr(s.string, 1, 200), substr({extra}, 1, 4096)"
        f" FROM {process.table(_REGION)} t JOIN {process.table('event')} e ON e.id = t.event_id"
        f" JOIN {process.table(category)} c ON c.id = e.category_id"
        f" LEFT JOIN {process.table('string')} s ON s.id = t.name_id"
        f" WHERE c.{label} LIKE '%marker%' AND t.end <> t.start"
    )


def _told(process: _Process) -> Iterator[dict[str, str]]:
    """What the launcher told each process."""
    if not process.has("info_process", "environment"):
        return
    query = (
        f"SELECT substr(t.environment, 1, {_LARGEST_ENVIRONMENT})"  # noqa: S608 - a safe name
        f" FROM {process.table('info_process')} t LIMIT {MOST_PROCESSES}"
    )
    for (text,) in process.database.rows(query):
        variables: dict[str, Any] = {}
        with suppress(*_NO_JSON):
            variables = msgspec.json.decode(str(text or "{}"), type=dict[str, Any])
        yield {key: str(variables[key]) for key in VARIABLES if key in variables}


# --- the capture --------------------------------------------------------------------------------


def _capture(rows: _Rows) -> Capture:
    capture = Capture(
        "rocprofv3",
        _TICKS_PER_MS,
        names=rows.names,
        ranges=rows.ranges,
        ranges_called="roctx ranges",
        facts=lambda lanes, _: _facts(rows, lanes),
        needs_device="no kernel was recorded: nothing ran on a GPU, or --kernel-trace was missing",
        notes=rows.notes,
        launch_calls=rows.launch_calls,
    )
    for (number, pid, agent), events in sorted(rows.lanes.items()):
        label = f"agent {agent} of process {pid or number}"
        lane = Lane(label, rows.owner(number, pid), events, agent)
        rows.machines[lane.process] = number
        capture.lanes.append(lane)
    if not rows.has_calls:
        rows.notes.append("HIP was not traced: launches are those that the dispatches name")
    return capture


def _facts(rows: _Rows, lanes: Sequence[Lane]) -> Facts:
    if not lanes:
        return Facts()
    job = place_in_job(rows.told[0] if len(rows.told) == 1 else {})
    sources = {**job.pop("sources"), "accelerator_count": "agents on which kernels ran"}
    fields: dict[str, Any] = {**job, "accelerator_count": len(lanes)}
    names = {
        rows.agents.get((rows.machines[lane.process], int(lane.device or 0)), "") for lane in lanes
    }
    if len(names) == 1 and (name := names.pop()):
        fields["accelerator"] = name[:200]
        sources["accelerator"] = "product_name of the agent"
        note = "the file tells neither the GPU's memory bandwidth nor the peak memory"
    else:
        note = "the file does not name the GPU, or names several kinds; no peak memory"
    return Facts(fields, sources, (note,))

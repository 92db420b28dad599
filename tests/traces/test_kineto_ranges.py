"""A trace says the same, however many processes read its ranges."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.traces.cores import most_processes
from ci_score.traces.formats import kineto_ranges
from ci_score.traces.formats.kineto_events import Trace
from ci_score.traces.formats.kineto_ranges import Part, packed_parts, plain_parts, read_beside
from ci_score.traces.formats.kineto_text import PIECE_BYTES
from ci_score.traces.source import ProfileSource
from tests.builders import PROJECT
from tests.builders.traces.kineto import (
    AUTOGRAD,
    Json,
    annotation,
    call,
    copy,
    kernel,
    node,
    op,
    source,
    span,
    step,
    text,
    work,
)

PIECE, PIECES = 256, 4
RANGE = PIECE * PIECES


@pytest.fixture(autouse=True, scope="module")
def small_ranges() -> Iterator[None]:
    """So that a trace of some kilobytes has many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto_ranges, "PIECE_BYTES", PIECE)
        patch.setattr(kineto_ranges, "PIECES", PIECES)
        patch.setattr(kineto_ranges, "RANGE_BYTES", RANGE)
        yield


class Others:
    """Read their parts beforehand, here."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._parts = {part.number: part for part in parts}

    def has(self, number: int) -> bool:
        """What they have read."""
        return number in self._parts

    def part(self, number: int) -> Part | None:
        """Each is asked for once."""
        return self._parts.pop(number)


def memory(at: int) -> Json:
    args = {"Device Type": 1, "Total Allocated": at}
    return {"ph": "i", "name": "[memory]", "ts": at, "args": args}


def events_of(steps: int) -> list[Json]:
    """Of all kinds, with names and threads that begin late, and objects within events."""
    events: list[Json] = []
    for number in range(steps):
        at = 1000 * number
        nested = op(f"odd{number % 3}", at + 5, 1)
        nested["args"] = {"list": [{"name": "a, {"}, {"ph": "}, {"}, {"name": [{}, {"name": 1}]}]}
        events += [
            step(number, at, 900),
            nested,
            op("aten::embedding", at + 10, 5, Input_Dims=[[50, 4], [2, 8]]),
            span("python_function", f"nn.Module: Block_{number % 4}", at + 10, 50),
            *work(2 * number + 1, at + 20, at + 40, 30, name=f"kernel{number % 5}"),
            node(at + 70, 20, number, AUTOGRAD if number % 2 else "engine"),  # type: ignore[arg-type]
            call(2 * number + 2, at + 80, name="cudaStreamSynchronize"),
            copy(2 * number + 2, at + 80, 3),
            kernel(9000 + number, at + 85, -1.0),
            annotation("train", at, 900, step_num=number),
            memory(at),
            op(f"ci_score.line#{number + 1}", at + 5, 20),
            {"cat": "fwdbwd", "ph": "s", "id": number, "tid": 1, "ts": at + 6},
        ]
    return events


SOUND = text(events_of(40), distributedInfo={"rank": 1})


def alone(data: bytes) -> Trace:
    return read_beside(source(data), Others())


def plain(data: bytes) -> Trace:
    numbers = range(1, len(data) // RANGE + 2)
    return read_beside(source(data), Others(plain_parts(source(data), numbers)))


def packed(data: bytes, begin: int) -> Trace:
    file = source(data)
    return read_beside(file, Others(packed_parts(file, begin)))


# --- sound files --------------------------------------------------------------------------------


def in_one_range(data: bytes) -> Trace:
    """As a reader that knows of no ranges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto_ranges, "PIECES", 10**9)
        return alone(data)


def rows(trace: Trace) -> Any:
    """What a trace says, without the order of kinds, which the pieces decide."""
    device, operators, names = trace.device, trace.host.operators, list(trace.names)
    return (
        sorted(zip(device.starts, device.ends, map(names.__getitem__, device.names), strict=True)),
        sorted(zip(operators.starts, map(names.__getitem__, operators.names), strict=True)),
        [(each.name, each.start, each.step) for each in trace.annotations],
        sorted(zip(trace.host.marks.starts, trace.host.marks.numbers, strict=True)),
        sorted(zip(trace.host.arrows.starts, trace.host.arrows.numbers, strict=True)),
        sorted(zip(trace.host.memory.starts, trace.host.memory.totals, strict=True)),
        (trace.events, trace.impossible, trace.memory_events, trace.peak_allocated),
        (trace.metadata, trace.mended, trace.dropped, trace.is_cut, trace.host.embeddings),
    )


@pytest.mark.parametrize("read", [alone, plain, lambda data: packed(data, 3)])
def test_ranges__of_a_sound_trace_say_what_all_of_it_says(read: Callable[[bytes], Trace]) -> None:
    """Nothing is lost or doubled where they meet, also within lists of objects."""
    whole = in_one_range(SOUND)
    assert (whole.events, whole.dropped, whole.impossible) == (13 * 40, 0, 40)
    assert rows(read(SOUND)) == rows(whole)


def test_ranges__most_are_read_apart() -> None:
    """Else the tests here would show nothing."""
    parts = list(plain_parts(source(SOUND), range(1, len(SOUND) // RANGE + 1)))
    settled = [part for part in parts if part.reader.is_settled]
    assert len(settled) > len(SOUND) / RANGE / 2 > 10


def test_ranges__behind_the_closing_bracket_hold_metadata() -> None:
    """Though it looks like events."""
    lists = [{"name": "not an event", "ts": 5, "dur": 1, "cat": "kernel"}] * 100
    data = b'{"traceEvents": ' + SOUND[SOUND.index(b"[", SOUND.index(b"traceEvents")) :][:-1]
    data += b', "behind": ' + text(lists)[text(lists).index(b"[") : -1] + b"}"
    trace = plain(data)
    assert (trace.events, trace.is_cut, len(trace.metadata["behind"])) == (13 * 40, False, 100)
    assert trace == alone(data)


# --- broken files -------------------------------------------------------------------------------

BREAKS = (b"\n", b"\\", b'"', b"]", b"}", b"{", b",", b"\xff", b"NaN", b"", b"]}", b'}, {"ph": 1')


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A trace in which some places are other than they should be, and which may be cut."""
    data = bytearray(SOUND)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data)))
        data[place : place + draw(st.sampled_from((0, 1, 3, 200, 3000)))] = draw(
            st.sampled_from(BREAKS)
        )
    return bytes(data[: draw(st.integers(0, 2 * len(data)))])


@given(broken(), st.integers(1, 60))
def test_ranges__of_a_broken_trace_say_the_same_whoever_reads_them(data: bytes, begin: int) -> None:
    """Every number, name and count, wherever it is broken."""
    expected = alone(data)
    assert plain(data) == expected
    assert packed(data, begin) == expected


@given(broken(), st.randoms(use_true_random=False))
def test_ranges__of_which_others_read_some_say_the_same(data: bytes, luck: random.Random) -> None:
    """As where a process was ended."""
    numbers = [number for number in range(1, len(data) // RANGE + 1) if luck.random() < 0.5]
    parts = plain_parts(source(data), numbers)
    assert read_beside(source(data), Others(parts)) == alone(data)


@given(st.integers(0, 3000), st.integers(1, 60))
def test_ranges__of_a_gzip_that_is_cut_say_the_same(lost: int, begin: int) -> None:
    """The end of what is left is the end of the trace, for everybody."""
    data = gzip.compress(SOUND, mtime=0)
    data = data[: max(len(data) - lost, 200)]
    assert packed(data, begin) == alone(data)


def test_ranges__an_event_may_be_longer_than_some() -> None:
    """The reader goes on into the next range, and is in step again behind it."""
    place = SOUND.index(b'"aten::embedding"', RANGE * 5 - 400) + 10
    long = b"x" * (RANGE * 3)
    data = SOUND[:place] + long + SOUND[place:]
    trace = plain(data)
    assert trace == alone(data)
    assert (trace.events, trace.dropped) == (13 * 40, 0)
    broken = data.replace(long, long + b'"')
    trace = plain(broken)
    assert trace == alone(broken)
    assert (trace.events, trace.dropped) == (13 * 40 - 1, 1)


# --- processes ----------------------------------------------------------------------------------

# The process of a test has threads beside it, and forks no more.
FORKING = """
import sys
from pathlib import Path
from ci_score.traces.formats import kineto_ranges
from ci_score.traces.source import ProfileSource

kineto_ranges.PIECE_BYTES, kineto_ranges.PIECES, kineto_ranges.RANGE_BYTES = 256, 4, 1024
kineto_ranges.WORTH_PROCESSES = {"fork": 1024}
helped = []
with_part = kineto_ranges.add_part
kineto_ranges.add_part = lambda trace, part: (helped.append(part), with_part(trace, part))
for name in sys.argv[1:]:
    path = Path(name)
    one = kineto_ranges.read_trace(ProfileSource(name, path=path))
    assert one.events and not helped
    for _ in range(2):
        for file in ({"path": path}, {"data": path.read_bytes()}):
            many = ProfileSource(name, processes=4, **file)
            assert kineto_ranges.read_trace(many) == one
    # In a plain file the first process may be faster than another one begins.
    assert helped or "packed" not in name
    helped.clear()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of all threads")
def test_processes__that_are_forked_read_the_same(tmp_path: Path) -> None:
    """Plain, packed, broken and cut."""
    data = text(events_of(600))
    files = {
        "plain": data,
        "packed.gz": gzip.compress(data),
        "broken": data[:5000] + b"\n" + data[5010:],
        "cut.gz": gzip.compress(data)[:-500],
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", FORKING, *(str(tmp_path / name) for name in files)]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_processes__that_begin_anew_read_the_same(tmp_path: Path) -> None:
    """They know nothing of the small ranges here."""
    path = tmp_path / "trace.json"
    events = text(events_of(100))
    begin, end = events.index(b"{", events.index(b"traceEvents")), len(events) - 2
    many = [events[begin:end]] * (20 * 1024**2 // (end - begin))
    path.write_bytes(events[:begin] + b", ".join(many) + b"]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto_ranges, "PIECE_BYTES", PIECE_BYTES)
        patch.setattr(kineto_ranges, "PIECES", 128)
        patch.setattr(kineto_ranges, "RANGE_BYTES", 128 * PIECE_BYTES)
        patch.setattr(kineto_ranges, "WORTH_PROCESSES", {"spawn": 1})
        patch.setattr(kineto_ranges, "start_method", lambda: "spawn")
        one = kineto_ranges.read_trace(ProfileSource("trace", path=path))
        two = kineto_ranges.read_trace(ProfileSource("trace", path=path, processes=2))
    assert one == two
    assert one.events == 1300 * len(many)


def test_processes__one_that_is_ended_leaves_its_ranges_to_the_first() -> None:
    """And nothing waits for it."""
    processes = kineto_ranges._Processes()
    processes.start(get_context("spawn"), packed_parts, source(SOUND), 3)
    processes.has = lambda number: number == 3
    processes._running[0][0].kill()
    try:
        assert read_beside(source(SOUND), processes) == alone(SOUND)
    finally:
        processes.end()


def test_processes__a_worker_of_a_pool_starts_none() -> None:
    """It is daemonic, and must not."""
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(most_processes) == 1

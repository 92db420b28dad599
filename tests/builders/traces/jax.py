"""Files of JAX: events of a trace.json, planes of an XSpace."""

from __future__ import annotations

import json
from typing import Any

from ci_score.traces.source import ProfileSource

HOST, DEVICE = 1, 100
Event = dict[str, Any]


def name_of(what: str, text: str, pid: int, tid: int = 0) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": text}}


def event(name: str, start_ms: float, ms: float, pid: int, tid: int = 0, **args: Any) -> Event:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": start_ms * 1000,
        "dur": ms * 1000,
        "name": name,
        "args": args,
    }


PLANES = [
    name_of("process_name", "/host:CPU", HOST),
    name_of("process_name", "/device:GPU:0", DEVICE),
    name_of("thread_name", "Stream #17(Kernel)", DEVICE, 17),
    name_of("thread_name", "Stream #18(MemcpyH2D)", DEVICE, 18),
    name_of("thread_name", "Steps", DEVICE, 1),
    name_of("thread_name", "Source code", DEVICE, 2),
]


def source(*events: Event) -> ProfileSource:
    trace = {
        "displayTimeUnit": "ns",
        "metadata": {"highres-ticks": True},
        "traceEvents": [*PLANES, *events, {}],
    }
    return ProfileSource("j.json", data=json.dumps(trace).encode())


def work(steps: int = 3, **times: float) -> list[Event]:
    """Two kernels and a copy a step of 10 ms, launched within the first millisecond of 4."""
    events = []
    for step in range(steps):
        launch = {"correlation_id": str(step * 3)}, {"correlation_id": str(step * 3 + 1)}
        events += [
            event("cuLaunchKernel", step * 4 + 0.5, 0.1, HOST, 5, **launch[0]),
            event("cuLaunchKernel", step * 4 + 0.7, 0.1, HOST, 5, **launch[1]),
            event("loop_gemm_fusion", step * 10 + 1, 3, DEVICE, 17, **launch[0]),
            event(f"all_reduce_{step}", step * 10 + 4, 2, DEVICE, 17, **launch[1]),
            event("MemcpyH2D", step * 10 + 7, 1, DEVICE, 18),
            event("train.py:12", step * 10, 9, DEVICE, 2),
        ]
    return events


def varint(number: int) -> bytes:
    out = bytearray()
    number %= 2**64
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


class Plane:
    """Builds a plane; each new name gets the next id."""

    def __init__(self, name: str) -> None:
        self.message = field(1, 3) + field(2, name)
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}

    def _id(self, table: dict[str, int], number: int, name: str) -> int:
        if name not in table:
            table[name] = len(table) + 1
            value = field(1, table[name]) + field(2, name)
            self.message += field(number, field(1, table[name]) + field(2, value))
        return table[name]

    def stat(self, name: str, value: int | str) -> bytes:
        """A stat with a number or a text."""
        kind = 4 if isinstance(value, int) else 5
        return field(1, self._id(self.stats, 5, name)) + field(kind, value)

    def line(self, name: str, *events: tuple[str, float, float, dict[str, Any]]) -> Plane:
        """A line that begins at 2 ms, with events of (name, start in ms, time in ms, stats)."""
        message = field(1, 9) + field(2, name) + field(3, 2_000_000)
        for text, start, time, stats in events:
            offset, duration = round((start - 2) * 1e9), round(time * 1e9)
            packed = field(1, self._id(self.events, 4, text))
            packed += field(2, offset) + field(3, duration)
            for key, value in stats.items():
                packed += field(4, self.stat(key, value))
            message += field(4, packed)
        self.message += field(3, message)
        return self

    def own(self, name: str, value: int | str) -> Plane:
        """The stats of the plane itself."""
        stat = self.stat(name, value)
        self.message += field(6, stat)
        return self


def space(*planes: Plane) -> bytes:
    return b"".join(field(1, plane.message) for plane in planes) + field(4, "hostname")


def planes(steps: int = 3) -> tuple[Plane, Plane]:
    """The work of `work`, as planes."""
    device, host = Plane("/device:GPU:0"), Plane("/host:CPU")
    device.line(
        "Stream #17(Kernel)",
        *(
            ("gemm.kd", step * 10 + 2 + place * 3, 2.0, {"correlation_id": step * 2 + place})
            for step in range(steps)
            for place in range(2)
        ),
    )
    host.line(
        "python",
        *(("train", step * 4 + 2, 3.0, {"step_num": step}) for step in range(steps)),
    )
    host.line(
        "Host Threads/1",
        *(
            ("launch", step * 4 + 2.5 + place, 0.1, {"correlation_id": step * 2 + place})
            for step in range(steps)
            for place in range(2)
        ),
    )
    return device, host

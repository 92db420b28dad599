"""Events of an Ascend trace_view.json, and rows of its step_trace_time.csv."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ci_score.traces.source import ProfileSource

HOST, HARDWARE, HCCL, OVERLAP = 3096504, 3170820512, 3170820576, 3170820832
MAIN = 70
COMPUTING, RUNS = 2, 4
GROUP, PLANE = 0, 1
BEGIN_US = 1736408883000000
COLUMNS = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
    "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing"
)


def time(ms: float) -> str:
    """Microseconds as the profiler writes them: text, with nanoseconds behind the point."""
    nanoseconds = round(ms * 1_000_000)
    return f"{BEGIN_US + nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def named(pid: int, name: str, threads: dict[int, str], label: str = "NPU") -> list[dict[str, Any]]:
    first = [("process_name", 0, {"name": name}), ("process_labels", 0, {"labels": label})]
    rest = [("thread_name", tid, {"name": text}) for tid, text in threads.items()]
    return [
        {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
        for kind, tid, args in first + rest
    ]


def processes(label: str = "NPU", shift: int = 0) -> list[dict[str, Any]]:
    """The processes of one device."""
    return [
        *named(HARDWARE + shift, "Ascend Hardware", {2: "Stream 2", 4: "Stream 4"}, label),
        *named(HCCL + shift, "HCCL", {GROUP: "Group 0 Communication", PLANE: "Plane 0"}, label),
        *named(OVERLAP + shift, "Overlap Analysis", {0: "Computing"}, label),
    ]


def event(name: str, pid: int, tid: int, start: float, ms: float, cat: str = "") -> dict[str, Any]:
    first = {"name": name, "pid": pid, "tid": tid, "ts": time(start), "dur": round(ms * 1000, 5)}
    return {"ph": "X", **first, **({"cat": cat} if cat else {}), "args": {}}


def host(name: str, start: float, end: float, tid: int = MAIN) -> dict[str, Any]:
    """What the host did: a range, or an operator."""
    return event(name, HOST, tid, start, end - start, "cpu_op")


def task(
    name: str,
    launch: float | None,
    start: float,
    ms: float,
    kind: str = "AI_CORE",
    stream: int = COMPUTING,
    shift: int = 0,
) -> list[dict[str, Any]]:
    """A task of a stream, with the flow from the host's call."""
    number = round(start * 1000)
    work = event(name, HARDWARE + shift, stream, start, ms)
    work["args"] = {"Task Type": kind, "connection_id": number}
    return [work, *flow(launch, HARDWARE + shift, stream, start)]


def collective(
    launch: float | None, start: float, ms: float, number: int = 0, shift: int = 0
) -> list[dict[str, Any]]:
    """A collective of a group, with the tasks and transfers that it is made of."""
    half = ms / 2
    return [
        event(f"hcom_allReduce__868_{number}_1", HCCL + shift, GROUP, start, ms),
        event("Memcpy", HCCL + shift, PLANE, start, half),
        event("Notify_Wait", HCCL + shift, PLANE, start + half, half),
        *task("Notify Wait", None, start, half, "Notify Wait", RUNS, shift),
        *task("SDMA", None, start + half, half, "SDMA", RUNS, shift),
        *flow(launch, HCCL + shift, GROUP, start),
    ]


def flow(launch: float | None, pid: int, tid: int, start: float) -> list[dict[str, Any]]:
    if launch is None:
        return []
    number = f"{pid}-{tid}-{start}"
    known = {"bp": "e", "name": "torch_to_npu", "id": number, "cat": "async_npu"}
    return [
        {"ph": "s", **known, "pid": HOST, "tid": MAIN, "ts": time(launch)},
        {"ph": "f", **known, "pid": pid, "tid": tid, "ts": time(start)},
    ]


def training(steps: int = 3, shift: int = 0, slower: float = 0.0) -> list[dict[str, Any]]:
    """Steps of 10 ms on the device, which the host enqueues in 4."""
    events: list[dict[str, Any]] = []
    for step in range(steps):
        begin, npu = step * 4.0, step * (10.0 + slower)
        if not shift:
            events += [
                host(f"ProfilerStep#{step}", begin, begin + 4),
                host("DistributedDataParallel.forward", begin + 0.1, begin + 1),
                host("aten::mm", begin + 0.4, begin + 0.6),
                host("aclnnMm", begin + 0.45, begin + 0.55),
                host("empty_tensor", begin + 0.41, begin + 0.42),
                host("Optimizer.step#SGD.step", begin + 3, begin + 3.9),
            ]
        events += [
            *task("MEMCPY_ASYNC", begin + 0.2, npu + 1, 1, "PCIE_DMA_SQE", shift=shift),
            *task("aclnnMm_MatMulCommon_MatMulV2", begin + 0.5, npu + 2, 3, shift=shift),
            *task("EVENT_WAIT", None, npu + 5, 2, "EVENT_WAIT_SQE", shift=shift),
            *collective(begin + 2, npu + 4, 4 + slower, step, shift),
            *task(
                "ForeachAddList", begin + 3.5, npu + 8 + slower, 1, "AI_VECTOR_CORE", shift=shift
            ),
            event("Computing", OVERLAP + shift, 0, npu + 2, 3),
        ]
    return events


def text(events: Iterable[dict[str, Any]]) -> bytes:
    head = [*named(HOST, "Python", {MAIN: "Thread 70"}, "CPU"), *processes()]
    return json.dumps([*events, *head]).encode()


def source(*events: dict[str, Any]) -> ProfileSource:
    return ProfileSource("trace_view.json", data=text(events))


def table(*rows: str, columns: str = COLUMNS) -> bytes:
    return "\n".join([columns, *rows, ""]).encode()

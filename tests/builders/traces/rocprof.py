"""Records of rocprofv3's JSON."""

from __future__ import annotations

import json
from typing import Any

from ci_score.traces.source import ProfileSource

MS = 1_000_000
GPU, CPU = 20, 10
KERNELS = {1: "Cijk_Ailk_Bljk_MT64", 2: "ncclDevKernel_Generic_1(Args)", 3: "adamw_kernel"}
OPERATIONS = ["NONE", "HOST_TO_HOST", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE"]


def handle(number: int) -> dict[str, int]:
    return {"handle": number}


def window(start: float, time: float) -> dict[str, int]:
    begin = round(start * MS)
    return {"start_timestamp": begin, "end_timestamp": begin + round(time * MS)}


def dispatch(
    start: float, time: float, kernel: int = 1, launch: int = 0, agent: int = GPU, stream: int = 1
) -> dict[str, Any]:
    return {
        **window(start, time),
        "correlation_id": {"internal": launch, "external": 0},
        "dispatch_info": {"agent_id": handle(agent), "kernel_id": kernel},
        "stream_id": handle(stream),
    }


def call(start: float, launch: int) -> dict[str, Any]:
    return {**window(start, 0.01), "correlation_id": {"internal": launch}}


def process(*dispatches: dict[str, Any], **records: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "metadata": {"pid": 7},
        "agents": [
            {"id": handle(CPU), "type": 1, "product_name": "AMD EPYC"},
            {"id": handle(GPU), "type": 2, "product_name": "AMD Instinct MI350X"},
        ],
        "kernel_symbols": [
            {"kernel_id": number, "formatted_kernel_name": name} for number, name in KERNELS.items()
        ],
        "strings": {
            "buffer_records": [
                {
                    "kind": "MEMORY_COPY",
                    "operations": ["MEMORY_COPY_" + each for each in OPERATIONS],
                }
            ],
            "marker_api": records.pop("names", []),
        },
        "buffer_records": {"kernel_dispatch": list(dispatches), **records},
    }


def source(*processes: dict[str, Any]) -> ProfileSource:
    return ProfileSource("p.json", data=json.dumps({"rocprofiler-sdk-tool": processes}).encode())


def marked(steps: int = 3) -> dict[str, Any]:
    """Steps of 10 ms on the device that the host enqueues in 4."""
    dispatches, calls, ranges, names = [], [], [], []
    for step in range(steps):
        begin, first = step * 4.0, 10 * step
        for number, text in enumerate(("step", "forward", "backward")):
            names.append({"key": 1000 + first + number, "value": text})
        ranges += [
            {**call(begin, 1000 + first), **window(begin, 4)},
            {**call(begin, 1001 + first), **window(begin, 1)},
            {**call(begin, 1002 + first), **window(begin + 1, 3)},
        ]
        calls += [
            call(begin + 0.5, first),
            call(begin + 1.5, first + 1),
            call(begin + 2, first + 2),
        ]
        dispatches += [
            dispatch(step * 10 + 1, 2, 1, first),
            dispatch(step * 10 + 4, 3, 3, first + 1),
            dispatch(step * 10 + 6, 3, 2, first + 2, stream=2),
        ]
    return process(*dispatches, hip_api=calls, marker_api=ranges, names=names)

"""Events of a PyTorch trace."""

from __future__ import annotations

import json
from typing import Any

from ci_score.traces.source import ProfileSource

Json = dict[str, Any]
MAIN, AUTOGRAD = 1, 2
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
GEMM = "ampere_sgemm_128x64_nn"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def span(cat: str, name: str, ts: float, dur: float, tid: Any = MAIN, **args: Any) -> Json:
    event: Json = {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur}
    return event | ({"args": args} if args else {})


def annotation(name: str, ts: float, dur: float, tid: int = MAIN, **args: Any) -> Json:
    return span("user_annotation", name, ts, dur, tid, **args)


def step(number: int, ts: float, dur: float) -> Json:
    return annotation(f"ProfilerStep#{number}", ts, dur)


def op(name: str, ts: float, dur: float, tid: int = MAIN, **args: Any) -> Json:
    return span("cpu_op", name, ts, dur, tid, **{key.replace("_", " "): args[key] for key in args})


def node(ts: float, dur: float, sequence: int, tid: int = AUTOGRAD) -> Json:
    name = "autograd::engine::evaluate_function: AddmmBackward0"
    return op(name, ts, dur, tid, Sequence_number=sequence)


def module(name: str, ts: float, dur: float, tid: int = MAIN) -> Json:
    return span("python_function", f"nn.Module: {name}", ts, dur, tid)


def call(correlation: int, ts: float, tid: int = MAIN, name: str = "cudaLaunchKernel") -> Json:
    return span("cuda_runtime", name, ts, 1, tid, correlation=correlation)


def kernel(correlation: int, ts: float, dur: float, name: str = GEMM, stream: int = 7) -> Json:
    return span("kernel", name, ts, dur, stream, correlation=correlation, device=0)


def copy(
    correlation: int, ts: float, dur: float, name: str = "Memcpy HtoD (Pinned -> Device)"
) -> Json:
    return span("gpu_memcpy", name, ts, dur, 7, correlation=correlation, device=0)


def work(correlation: int, at: float, ts: float, dur: float, name: str = GEMM) -> list[Json]:
    """A launch and its kernel."""
    return [call(correlation, at), kernel(correlation, ts, dur, name)]


def text(events: list[Json], **metadata: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, **metadata, "traceEvents": events}).encode()


def source(data: bytes) -> ProfileSource:
    return ProfileSource("trace.json", data=data)

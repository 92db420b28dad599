"""Training traces as the PyTorch profiler writes them, of any size: what the benchmarks read.

A trace is that of a transformer: each step copies a batch to the device, runs its layers forward
(python frames, nn.Module calls, operators with shapes, launches, kernels and the arrows between
them), backward on autograd's thread, communicates gradients meanwhile, and steps the optimizer.
Times follow from what is written, so that every number of such a trace is known beforehand;
`make_up` tells what a trace consists of, and a test holds it against real ones.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PID, MAIN, AUTOGRAD = 4242, 4242, 4301
COMPUTE_STREAM, COMMUNICATION_STREAM = 7, 20
MEBIBYTE = 1024**2
_WRITTEN_AT_ONCE = 4 * MEBIBYTE

_GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{0}_64x6_tn_align8>"
_GEMM += "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{0}_64x6_tn_align8::Params)"
_POINTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::{0}<c10::BFloat16>, std::array<char*, 3ul>)"
)
_NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*)"
)
_ATTENTION = (
    "void pytorch_flash::flash_{0}_kernel<pytorch_flash::Flash_{0}_kernel_traits<64, 128, 128, 4, "
    "false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_{0}_params)"
)
_OPTIMIZER = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::"
    "FusedAdamMathFunctor<float, 4> >(at::native::(anonymous namespace)::TensorListMetadata<4>)"
)
_COMMUNICATION = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

# Of each operator of a layer: module, operator, what it calls, kernel, its time in microseconds.
_FORWARD = (
    ("LayerNorm", "aten::layer_norm", "aten::native_layer_norm", _NORM, 6.0),
    ("Linear", "aten::linear", "aten::addmm", _GEMM.format("256x128"), 41.5),
    ("", "aten::transpose", "aten::as_strided", "", 0.0),
    ("Attention", "aten::scaled_dot_product_attention", "aten::_flash_attention_forward",
     _ATTENTION.format("fwd"), 33.25),
    ("Linear", "aten::linear", "aten::addmm", _GEMM.format("128x128"), 18.0),
    ("", "aten::add", "aten::add", _POINTWISE.format("CUDAFunctor_add"), 4.5),
    ("LayerNorm", "aten::layer_norm", "aten::native_layer_norm", _NORM, 6.0),
    ("Linear", "aten::linear", "aten::addmm", _GEMM.format("256x64"), 55.0),
    ("GELU", "aten::gelu", "aten::gelu", _POINTWISE.format("GeluCUDAKernelImpl"), 8.0),
    ("Linear", "aten::linear", "aten::addmm", _GEMM.format("64x64"), 52.75),
    ("", "aten::add", "aten::add", _POINTWISE.format("CUDAFunctor_add"), 4.5),
)  # fmt: skip
_FRAMES = (
    "torch/nn/modules/module.py(1773): _wrapped_call_impl",
    "torch/nn/modules/module.py(1784): _call_impl",
    "model.py({0}): forward",
)
_BATCH, _TOKENS, _WIDTH, _VOCABULARY = 8, 1024, 2048, 50_304


@dataclass(slots=True)
class _Clock:
    """Where the writing stands: host and device time in microseconds, and the next of each id."""

    host: float = 4_458_676_000_000.0
    device: float = 4_458_676_000_100.0
    external: int = 1
    correlation: int = 1
    frame: int = 1
    events: list[str] = field(default_factory=list)
    device_events: list[str] = field(default_factory=list)


def write_trace(
    path: Path, size: int, *, rank: int = 0, world: int = 8, layers: int = 32, steps: int = 0
) -> int:
    """A trace of about `size` bytes, or of just so many `steps`; says how many steps it has."""
    clock = _Clock()
    written = count = 0
    with path.open("w", encoding="ascii", newline="\n") as stream:
        stream.write(_head(rank, world))
        pending: list[str] = []
        waiting = 0
        while count < steps or (not steps and written < size):
            for event in _step(clock, count, layers):
                pending.append(event)
                waiting += len(event)
                if waiting > _WRITTEN_AT_ONCE:
                    written += stream.write("".join(pending))
                    pending, waiting = [], 0
            written += stream.write("".join(pending))
            pending, waiting = [], 0
            count += 1
        stream.write(_tail(path.name, clock))
    return count


def make_up(kinds: Iterable[str]) -> dict[str, float]:
    """The share of each group of events, by their `cat`."""
    groups = Counter(_GROUPS.get(kind, "other") for kind in kinds)
    total = sum(groups.values()) or 1
    return {group: count / total for group, count in groups.items()}


_GROUPS = {
    **dict.fromkeys(("cpu_op", "Operator"), "operators"),
    "python_function": "python",
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), "runtime"),
    **dict.fromkeys(("kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset"), "device"),
    **dict.fromkeys(("ac2g", "fwdbwd", "async", "async_cpu_to_gpu"), "arrows"),
}


def _head(rank: int, world: int) -> str:
    ranks = ", ".join(map(str, range(world)))
    cards = ",\n".join(
        f'    {{\n      "id": {card}, "name": "NVIDIA A100-SXM4-80GB",'
        f' "totalGlobalMem": 85097971712,\n'
        f'      "computeMajor": 8, "computeMinor": 0, "numSms": 108\n    }}'
        for card in range(world)
    )
    return (
        '\n{\n  "schemaVersion": 1,\n  "deviceProperties": [\n' + cards + "\n  ],\n"
        f'  "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}, '
        f'"pg_count": 1, "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg", '
        f'"backend_config": "cuda:nccl", "pg_size": {world}, "ranks": [{ranks}]}}]}},\n'
        '  "record_shapes": 1, "with_stack": 1, "with_modules": 1,\n  "traceEvents": [\n'
    )


def _tail(name: str, clock: _Clock) -> str:
    return (
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {clock.host:.3f}\n  }}\n  ],\n'
        f'  "traceName": "{name}",\n  "displayTimeUnit": "ms",\n'
        '  "baseTimeNanoseconds": 1711964646000000000\n}\n'
    )


def _span(
    cat: str, name: str, tid: int, start: float, duration: float, args: str, pid: int = PID
) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {start:.3f}, "dur": {duration:.3f},\n'
        f'    "args": {{\n      {args}\n    }}\n  }},\n'
    )


def _arrow(end: str, kind: str, number: int, tid: int, time: float, pid: int = PID) -> str:
    where = ', "bp": "e"' if end == "f" else ""
    return (
        f'  {{\n    "ph": "{end}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {time:.3f},\n'
        f'    "cat": "{kind}", "name": "{kind}"{where}\n  }},\n'
    )


def _step(clock: _Clock, number: int, layers: int) -> Iterator[str]:
    """The events of a step: the host's, then the device's, as the profiler collects them."""
    clock.events, clock.device_events = [], []
    begin = clock.host
    sequence = number * layers * len(_FORWARD)
    _copy_batch(clock)
    forward = clock.host
    _operator(
        clock, MAIN, "aten::embedding", "aten::index_select", -1,
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>", 12.0,
        f"[[{_VOCABULARY}, {_WIDTH}], [{_BATCH}, {_TOKENS}], [], [], []]",
    )  # fmt: skip
    for layer in range(layers):
        _forward_layer(clock, layer, sequence + layer * len(_FORWARD))
    _annotate(clock, "## forward ##", forward)
    backward = clock.host
    for layer in reversed(range(layers)):
        _backward_layer(clock, sequence + layer * len(_FORWARD))
        if layer % 4 == 0:
            _launch(clock, AUTOGRAD, _COMMUNICATION, 180.0, stream=COMMUNICATION_STREAM)
    _annotate(clock, "## backward ##", backward)
    optimizer = clock.host
    for _ in range(8):
        _operator(clock, MAIN, "aten::_fused_adamw_", "", -1, _OPTIMIZER, 60.0, "[]")
    _annotate(clock, "Optimizer.step#AdamW.step", optimizer)
    clock.host += 20.0
    _annotate(clock, f"ProfilerStep#{number}", begin)
    yield from clock.events
    yield from clock.device_events


def _annotate(clock: _Clock, name: str, start: float) -> None:
    args = f'"External id": {clock.external},"Record function id": 0, "Ev Idx": {clock.external}'
    clock.events.append(_span("user_annotation", name, MAIN, start, clock.host - start, args))
    clock.external += 1
    clock.host += 0.5


def _copy_batch(clock: _Clock) -> None:
    _launch(clock, MAIN, "Memcpy HtoD (Pinned -> Device)", 30.0, cat="gpu_memcpy")


def _forward_layer(clock: _Clock, layer: int, sequence: int) -> None:
    begin = clock.host
    modules = 0
    for place, (module, operator, inner, kernel, time) in enumerate(_FORWARD):
        start = clock.host
        clock.host += 2.0
        shapes = f"[[{_BATCH}, {_TOKENS}, {_WIDTH}], [{_WIDTH}, {_WIDTH}], [{_WIDTH}]]"
        _operator(clock, MAIN, operator, inner, sequence + place, kernel, time, shapes)
        frames = _FRAMES if module else _FRAMES[2:]
        if module:
            number = layer * len(_FORWARD) + modules
            modules += 1
            frames = (*frames, f"nn.Module: {module}_{number}")
        _frames(clock, frames, start, place)
    _frames(clock, (*_FRAMES, f"nn.Module: Block_{layer}"), begin, len(_FORWARD))


def _frames(clock: _Clock, names: Iterable[str], start: float, line: int) -> None:
    """Frames of Python that end now, the outermost first."""
    for name in names:
        args = f'"Python parent id": {clock.frame - 1}, "Python id": {clock.frame}, '
        args += f'"Ev Idx": {clock.frame + 100_000}'
        text = name.format(40 + line)
        span = _span("python_function", text, MAIN, start, clock.host - start, args)
        clock.events.append(span)
        clock.frame += 1


def _operator(
    clock: _Clock, tid: int, name: str, inner: str, sequence: int, kernel: str, time: float,
    shapes: str,
) -> None:  # fmt: skip
    """An operator, the one that it calls, and the kernel that this launches."""
    start = clock.host
    args = _operator_args(clock, sequence, shapes)
    clock.host += 3.0
    if kernel:
        _launch(clock, tid, kernel, time)
    if inner:
        inner_args = _operator_args(clock, sequence, shapes)
        span = _span("cpu_op", inner, tid, start + 1.0, clock.host - start - 1.0, inner_args)
        clock.events.append(span)
    clock.host += 1.5
    clock.events.append(_span("cpu_op", name, tid, start, clock.host - start, args))
    clock.host += 0.5


def _operator_args(clock: _Clock, sequence: int, shapes: str) -> str:
    number = clock.external
    clock.external += 1
    joined = f'"Sequence number": {sequence}, "Fwd thread id": 0, ' if sequence >= 0 else ""
    return (
        f'"External id": {number},"Record function id": 0, {joined}'
        f'"Concrete Inputs": ["", "", ""], '
        f'"Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"], '
        f'"Input Dims": {shapes}, "Ev Idx": {number}'
    )


def _backward_layer(clock: _Clock, sequence: int) -> None:
    for place, (_, operator, _, kernel, time) in reversed(list(enumerate(_FORWARD))):
        node = operator.removeprefix("aten::").title().replace("_", "") + "Backward0"
        start = clock.host
        number = clock.external
        clock.external += 1
        clock.host += 2.0
        for _ in range(2 if "gemm" in kernel else 1):
            backward = kernel.replace("_fwd", "_bwd")
            _operator(clock, AUTOGRAD, node, "aten::mm", sequence + place, backward, time, "[]")
        clock.host += 1.0
        args = f'"External id": {number},"Record function id": 0, "Sequence number": '
        args += f'{sequence + place}, "Fwd thread id": 1, "Ev Idx": {number}'
        name = f"autograd::engine::evaluate_function: {node}"
        clock.events.append(_span("cpu_op", name, AUTOGRAD, start, clock.host - start, args))
        arrow = sequence + place
        clock.events.append(_arrow("f", "fwdbwd", arrow, AUTOGRAD, start))
        clock.events.append(_arrow("s", "fwdbwd", arrow, MAIN, start - 1000.0))


def _launch(
    clock: _Clock, tid: int, kernel: str, time: float, *, cat: str = "kernel",
    stream: int = COMPUTE_STREAM,
) -> None:  # fmt: skip
    """The call of the runtime, what it starts on the device, and the arrow between them."""
    number = clock.correlation
    clock.correlation += 1
    call = "cudaMemcpyAsync" if cat == "gpu_memcpy" else "cudaLaunchKernel"
    args = f'"External id": {clock.external - 1}, "cbid": 211, "correlation": {number}'
    start = clock.host
    clock.events.append(_span("cuda_runtime", call, tid, start, 4.0, args))
    clock.events.append(_arrow("s", "ac2g", number, tid, start))
    begin = max(clock.device, start + 6.0)
    if stream == COMPUTE_STREAM:
        clock.device = begin + time + 0.5
    device_args = f'"External id": {clock.external - 1}, "queued": 0, "device": 0, "context": 1,\n'
    device_args += f'      "stream": {stream}, "correlation": {number},\n      '
    if cat == "kernel":
        device_args += '"registers per thread": 232, "shared memory": 98304, "blocks per SM": 2.37,'
        device_args += '\n      "warps per SM": 9.48, "grid": [16, 16, 1], "block": [128, 1, 1],\n'
        device_args += '      "est. achieved occupancy %": 13'
    else:
        device_args += '"bytes": 65536, "memory bandwidth (GB/s)": 12.5'
    span = _span(cat, kernel, stream, begin, time, device_args, pid=0)
    clock.device_events.append(span)
    clock.device_events.append(_arrow("f", "ac2g", number, stream, begin, pid=0))
    clock.host += 5.0


def main() -> None:
    """`python -m benchmarks.traces FILE MEBIBYTES`"""
    steps = write_trace(Path(sys.argv[1]), int(float(sys.argv[2]) * MEBIBYTE))
    print(f"{steps} steps")


if __name__ == "__main__":
    main()

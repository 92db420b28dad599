"""Logs as Megatron-LM and torchtitan print them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

ARGUMENTS = """\
using world size: 16, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 4
------------------------ arguments ------------------------
  seq_length ...................................... 4096
  sequence_parallel ............................... True
-------------------- end of arguments ---------------------
"""
MEMORY = (
    "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1000.25 | max allocated: 20000.50"
    " | reserved: 21000.0 | max reserved: 21000.0\n"
)
BEGIN = """\
[titan] 2025-06-16 22:29:40,000 - root - INFO - Building 2-D device mesh with ['dp', 'tp'], [4, 2]
[titan] 2025-06-16 22:29:41,000 - root - INFO - CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB \
memory
[titan] 2025-06-16 22:29:42,000 - root - INFO - Trainer is initialized with local batch size 2, \
global batch size 8, gradient accumulation steps 1, sequence length 2048, total steps 50 (warmup 9)
[titan] 2025-06-16 22:29:42,000 - root - INFO - Training starts at step 1
"""


def iteration(number: int, ms: float, *, batch: int = 64, skipped: int = 0, nan: int = 0) -> str:
    """A line of Megatron-LM."""
    return (
        f" [2026-01-10 07:32:24] iteration {number:8d}/     100 | consumed samples: {number:12d} |"
        f" elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 490.0 |"
        f" learning rate: 4.134000E-07 | global batch size: {batch:5d} | lm loss: 1.344240E+01 |"
        f" loss scale: 1.0 | grad norm: 2.870 | number of skipped iterations: {skipped:3d} |"
        f" number of nan iterations: {nan:3d} |\n"
    )


def megatron(times: Mapping[int, float], begin: str = ARGUMENTS + MEMORY) -> str:
    """A log with these iterations."""
    return begin + "".join(iteration(number, ms) for number, ms in times.items())


def step(
    number: int,
    second: float,
    *,
    tps: int = 4000,
    loss: str = " 7.62585",
    label: str = "",
    memory: float = 40.0,
    validates: bool = False,
) -> str:
    """A line of torchtitan, so many seconds after half past ten."""
    moment = datetime(2025, 6, 16, 22, 30, tzinfo=UTC) + timedelta(seconds=second)
    printed = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
    rest = "" if validates else "  tflops: 339.16  mfu: 34.29%"
    return (
        f"{label}[titan] {printed} - root - INFO - {'validate ' if validates else ''}"
        f"step: {number:2}  loss: {loss}  memory: {memory:5.2f}GiB(52.28%)  tps: {tps:,}{rest}\n"
    )


def torchtitan(seconds: Mapping[int, float], begin: str = BEGIN) -> str:
    """A log whose steps were printed at these seconds."""
    return begin + "".join(step(number, second) for number, second in seconds.items())

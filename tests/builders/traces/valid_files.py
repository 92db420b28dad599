"""One small, valid file of each format, which tests then damage."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from ci_score.traces.formats.reference import normalised
from tests.builders import profile
from tests.builders.traces import ascend, rocpd
from tests.builders.traces.jax import event, planes, space, work
from tests.builders.traces.jax import source as jax_source
from tests.builders.traces.kineto import step
from tests.builders.traces.kineto import text as kineto_text
from tests.builders.traces.kineto import work as kineto_work
from tests.builders.traces.nsight import training
from tests.builders.traces.rocprof import marked
from tests.builders.traces.rocprof import source as rocprof_source
from tests.builders.traces.trainer_state import STATE
from tests.builders.traces.training_log import megatron, torchtitan
from tests.builders.traces.upstream import APR, LAYER_TABLE, LINES, PARITY, RESULT, TABLE, V2

GOLDEN = {
    "lm loss": {"start_step": 1, "end_step": 5, "step_interval": 1, "values": {"1": 10.5}},
    "iteration-time": {"step_interval": 1, "values": {"1": "nan", "2": 6.5, "3": 0.5, "4": 0.25}},
}


def kineto() -> bytes:
    """Four steps of two kernels."""
    events = []
    for number in range(4):
        events.append(step(number, 1000 + 100 * number, 100))
        events += kineto_work(2 * number + 1, 1010 + 100 * number, 1020 + 150 * number, 60)
        events += kineto_work(2 * number + 2, 1020 + 100 * number, 1080 + 150 * number, 60)
    return kineto_text(events)


def jax() -> bytes:
    """Three steps that the host marks."""
    steps = [event("train", step * 4, 3, 1, 1, step_num=str(step)) for step in range(3)]
    return jax_source(*work(), *steps).data or b""


def nsight() -> bytes:
    """Three steps that the host marks."""
    with tempfile.TemporaryDirectory() as folder:
        return training().write(Path(folder) / "capture.sqlite").read_bytes()


def rocm() -> bytes:
    """Three steps that the host marks, in a database."""
    with tempfile.TemporaryDirectory() as folder:
        return rocpd.training().add_to(Path(folder) / "results.db").read_bytes()


@cache
def valid_files() -> dict[str, bytes]:
    """A file for each row of FORMATS, by its name."""
    reference = {"steps": 10, "avg_step_ms": 50.0, "phases": V2["phases"], "wall_coverage": 0.9}
    return {
        "normalised": normalised(profile(tool="x", ops={"gemm": 1.0})).encode(),
        "rocpd": rocm(),
        "nsight": nsight(),
        "canary": json.dumps(RESULT).encode(),
        "parity-profile": json.dumps(PARITY).encode(),
        "apr": json.dumps(APR, indent=1).encode(),
        "step-profiler": (LINES + json.dumps(V2) + "\n").encode(),
        "trainer-state": json.dumps(STATE).encode(),
        "megatron-golden": json.dumps(GOLDEN).encode(),
        "rocprof": rocprof_source(marked()).data or b"",
        "ascend": ascend.text(ascend.training()),
        "ascend-steps": ascend.table(
            "0,7,6000,2000,1000,3000,2000,10000,0,2000,50",
            "0,8,6000,2000,1000,3000,3000,11000,0,2000,50",
        ),
        "jax-trace": jax(),
        "kineto": kineto(),
        "reference": json.dumps(reference).encode(),
        "text-table": (TABLE + LAYER_TABLE).encode(),
        "training-log": megatron(dict.fromkeys(range(1, 7), 200.0)).encode()
        + torchtitan({10 * n: 9.5 * n for n in range(5)}).encode(),
        "xplane": space(*planes()),
        "log": (LINES * 1500 + json.dumps(V2) + "\n").encode(),
    }

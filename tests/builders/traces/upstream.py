"""The reference runtime's own files, one of each shape."""

from __future__ import annotations

from typing import Any

V2: dict[str, Any] = {
    "_profiler": "step_profiler_v2",
    "steps": 10,
    "avg_step_ms": 50.0,
    "wall_coverage": 0.9,
    "bottleneck": "memory_bw",
    "gemm_pct": 60.0,
    "phases": {
        "h2d": {"total_ms": 50.0, "pct": 10.0, "avg_ms": 5.0},
        "forward": {"total_ms": 400.0, "pct": 80.0, "avg_ms": 40.0},
    },
    "per_layer": [{"layer": 0, "fwd_ms": 100.0, "bwd_ms": 200.0}],
    "ops": {"qkv_gemm": 70.0, "attention": 30.0},
}
V1 = {key: V2[key] for key in ("steps", "avg_step_ms", "wall_coverage", "phases", "per_layer")}
V1 = {"_profiler": "step_profiler_v1", **V1}
APR: dict[str, Any] = {
    "_profiler": "apr_training_profiler_v1",
    "_version": "1.0.0",
    "steps_profiled": 20,
    "wall_time_ms": 2000.0,
    "phases": {
        "buf_write": {"total_ms": 100.0, "pct": 5.0, "avg_ms": 5.0},
        "gpu_fwd": {"total_ms": 1600.0, "pct": 80.0, "avg_ms": 80.0},
        "sync": {"total_ms": 40.0, "pct": 2.0, "avg_ms": 2.0},
    },
    "wall_coverage": 0.87,
    "bottleneck": "gpu_fwd",
    "gpu_compute_ms": 1600.0,
}
METRICS: dict[str, Any] = {
    "tokens_per_sec": 4000.0,
    "peak_vram_mb": 1000,
    "final_loss": 1.5,
    "wall_time_sec": 100.0,
}
RESULT: dict[str, Any] = {
    "canary": "pytorch",
    "backend": "cuda",
    "host": "box",
    "gpu": {"device": "NVIDIA L4", "vram_total_mb": 24000},
    "config": {"batch_size": 4, "seq_len": 512, "steps": 100},
    "metrics": METRICS,
}
PARITY: dict[str, Any] = {
    "_schema": "parity-profile-v1",
    "runtime": "pytorch",
    "steps_profiled": 10,
    "ops": {
        "attention_ms": {"mean": 12.5, "pct": 25.0},
        "ffn_ms": {"mean": 30.0, "pct": 60.0},
        "rope_ms": {"mean": 7.5, "pct": 15.0},
    },
    "hardware": {"kernel_launches_per_step": 812, "total_cuda_time_ms": 50.0},
}
TABLE = """
┌─ Step Profiler (10 steps, avg 50.0 ms/step) ─┐
│      phase │ total_ms │    pct │   avg_ms │
│ ---------- │ -------- │ ------ │ -------- │
│        h2d │     50.0 │ 10.0%  │     5.00 │
│    forward │    400.0 │ 80.0%  │    40.00 │
│      other │     50.0 │ 10.0%  │     5.00 │
│      TOTAL │    500.0 │  100%  │    50.00 │
└────────────┴──────────┴────────┴──────────┘
"""
LAYER_TABLE = """
┌─ Per-Layer Profile (2 layers, 10 steps) ─┐
│ layer │   fwd_ms │   bwd_ms │  fwd_avg │  bwd_avg │
│ ----- │ -------- │ -------- │ -------- │ -------- │
│     0 │    100.0 │    200.0 │    10.00 │    20.00 │
│     1 │    110.0 │    210.0 │    11.00 │    21.00 │
│ TOTAL │    210.0 │    410.0 │    21.00 │    41.00 │
└───────┴──────────┴──────────┴──────────┴──────────┘
  Step latency: p50=49.1ms p95=55.0ms p99=60.2ms
"""
LINES = "[wgpu] LoRA {initialized}: 'rank=16\n  Epoch 1 complete: \"avg_loss=9.1\n"

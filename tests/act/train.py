"""A training run for the example workflow: takes the steps' time from STEP_MS, or crashes."""

import json
import os
import sys
from pathlib import Path

if os.environ["STEP_MS"] == "crash":
    sys.exit("CUDA error: an illegal memory access was encountered")
step_ms = float(os.environ["STEP_MS"])
backward = step_ms - 33.0
profile = {
    "steps": 20,
    "avg_step_ms": step_ms,
    "wall_coverage": 0.97,
    "tokens_per_step": 8192,
    "accelerator": "NVIDIA L4",
    "accelerator_count": 1,
    "phases": {
        "forward": {"total_ms": 30.0, "pct": 3000 / step_ms, "avg_ms": 30.0},
        "backward": {"total_ms": backward, "pct": 100 * backward / step_ms, "avg_ms": backward},
    },
}
target = Path(sys.argv[sys.argv.index("--profile-to") + 1])
target.parent.mkdir(exist_ok=True)
target.write_text(json.dumps(profile), encoding="utf-8")

"""A measuring job in a moment: eight pairs of launches, in which STEP_MS is the head's step."""

import json
import os
import sys
from pathlib import Path

if os.environ["STEP_MS"] == "crash":
    sys.exit("CUDA error: an illegal memory access was encountered")
folder = Path("perf", sys.argv[1])
folder.mkdir(parents=True)
with (folder / "measurements.jsonl").open("w", encoding="utf-8") as file:
    for launch in range(8):
        for side, ms in (("head", float(os.environ["STEP_MS"])), ("base", 100.0)):
            steps = [ms * (1 + 0.0001 * (launch + step)) for step in range(20)]
            line = {"schema": 1, "side": side, "launch": launch, "step_ms": steps}
            file.write(json.dumps(line | {"case": "training", "warmup_steps": 1}) + "\n")

"""A training run for the story: its steps take the time that the file beside it says, and vary a little."""

import json
import pathlib
import random
import sys

said = (pathlib.Path(__file__).parent / "step_ms").read_text(encoding="utf-8").strip()
if said == "crash":
    sys.exit("CUDA error: an illegal memory access was encountered")
for _ in range(60):
    step = float(said) * random.uniform(0.998, 1.002)  # noqa: S311 - noise, and no secret
    sys.stdout.write(json.dumps({"step_ms": step, "tokens": 8192}) + "\n")

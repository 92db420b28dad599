"""A training run for the story: its steps take about as long as a file beside it says."""

import json
import pathlib
import random
import sys

here = pathlib.Path(__file__).parent
own = here / f"step_ms.{''.join(sys.argv[1:2])}"
said = (own if own.exists() else here / "step_ms").read_text(encoding="utf-8").strip()
if said == "crash":
    sys.exit("CUDA error: an illegal memory access was encountered")
for _ in range(60):
    step = float(said) * random.uniform(0.998, 1.002)  # noqa: S311 - noise, and no secret
    sys.stdout.write(json.dumps({"step_ms": step, "tokens": 8192}) + "\n")

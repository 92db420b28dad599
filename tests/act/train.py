"""A training run for the example workflow: says the steps' time that STEP_MS has, or crashes."""

import json
import os
import sys

if os.environ["STEP_MS"] == "crash":
    sys.exit("CUDA error: an illegal memory access was encountered")
for _ in range(20):
    sys.stdout.write(json.dumps({"step_ms": float(os.environ["STEP_MS"]), "tokens": 8192}) + "\n")

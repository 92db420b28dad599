"""A measuring job in a moment: eight pairs of launches, in which STEP_MS is the head's step.

Both sides have a profile with the lines of their code, as `ci-score ab` leaves it. The head's time
beyond the base's is spent in its second line.
"""

import json
import os
import sys
from hashlib import blake2b
from pathlib import Path

FILE = "model.py"
BASE = "def step(x):\n    return x\n"
HEAD = "def step(x):\n    x = slow(x)\n    return x\n"


def profile(ms: float, text: str, work: dict[int, float]) -> dict[str, object]:
    """A profile whose step is the work of these lines."""
    lines = [
        {
            "definition": 0,
            "line": number,
            "first": number,
            "last": number,
            "text": blake2b(text.splitlines()[number - 1].encode(), digest_size=4).hexdigest(),
            "work": {"forward_ms": of_line, "forward_launches": 1.0},
        }
        for number, of_line in work.items()
    ]
    function = {"name": "step", "file": FILE, "first": 1, "last": len(text.splitlines())}
    code = {"definitions": [function], "lines": lines, "total_ms": ms}
    phases = {"forward": {"total_ms": ms, "avg_ms": ms, "pct": 100.0}}
    known = {"steps": 3, "avg_step_ms": ms, "phases": phases, "code": code}
    return {"_profiler": "ci-score", "_schema": 1, **known}


if __name__ == "__main__":
    if os.environ["STEP_MS"] == "crash":
        sys.exit("CUDA error: an illegal memory access was encountered")
    folder = Path("perf", sys.argv[1])
    for side in ("head", "base"):
        (folder / "profiles" / side).mkdir(parents=True)
    head_ms = float(os.environ["STEP_MS"])
    with (folder / "measurements.jsonl").open("w", encoding="utf-8") as file:
        for launch in range(8):
            for side, ms in (("head", head_ms), ("base", 100.0)):
                steps = [ms * (1 + 0.0001 * (launch + step)) for step in range(20)]
                line = {"schema": 1, "side": side, "launch": launch, "step_ms": steps}
                file.write(json.dumps(line | {"case": "training", "warmup_steps": 1}) + "\n")
    of_head = {2: max(head_ms - 100.0, 0.0), 3: 100.0}
    for side, made in (
        ("head", profile(head_ms, HEAD, of_head)),
        ("base", profile(100.0, BASE, {2: 100.0})),
    ):
        (folder / "profiles" / side / "profile.json").write_text(json.dumps(made), encoding="utf-8")
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    if "pull_request" in event:
        commits = {
            "git": {"commit": event["pull_request"]["merge_commit_sha"]},
            "base_git": {"commit": event["pull_request"]["base"]["sha"]},
        }
        environment = json.dumps({"schema": 1, **commits})
        (folder / "environment.json").write_text(environment, encoding="utf-8")

"""What `make bench` prints: start-up, a usual profile, and a profile of a million ops.

The big profile runs in processes of its own, one for each side, so that the peak memory is its own.
"""

from __future__ import annotations

import json
import platform
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import answer, note, process, ratio, show

USUAL_LAYERS, BIG_LAYERS, OPS = 32, 10_000, 100
BARE_IMPORTS = "import click, jinja2, pydantic; type('M', (pydantic.BaseModel,), {})"
PAIRS = 5


def write_profile(path: Path, layers: int, ops: int) -> Path:
    """A profile of the given size; every time is different, as real ones are."""
    names = [f"block_op_{number:03d}_gemm" for number in range(ops)]
    per_layer = [
        {
            "layer": layer,
            "fwd_ms": 1.0 + layer / 7,
            "bwd_ms": 2.0 + layer / 3,
            "ops": {name: (layer * 31 + place * 17) % 997 / 7 for place, name in enumerate(names)},
        }
        for layer in range(layers)
    ]
    phases = {name: {"total_ms": 45.0, "pct": 45.0, "avg_ms": 45.0} for name in ("fwd", "bwd")}
    document = {"steps": 10, "avg_step_ms": 100.0, "wall_coverage": 0.9, "phases": phases}
    path.write_text(json.dumps({**document, "per_layer": per_layer}), encoding="utf-8")
    return path


def read_with_pydantic(path: str) -> None:
    """The practical limit: pydantic's own JSON reader and nothing else."""
    from ci_score.model.profile import Profile

    begin = time.perf_counter()
    Profile.model_validate_json(Path(path).read_bytes())
    print_seconds_and_mb(begin)


def read_and_score(path: str) -> None:
    """What `ci-score score` does with a file: read it strictly, and score it."""
    from ci_score.model.scorecard import Hardware
    from ci_score.reference.scoring import compute_scorecard
    from ci_score.traces.formats import read_profile
    from ci_score.traces.source import ProfileSource

    begin = time.perf_counter()
    profile = read_profile(ProfileSource(path, Path(path)))
    compute_scorecard(profile, 1000.0, Hardware(256.0, 158e6))
    print_seconds_and_mb(begin)


def print_seconds_and_mb(begin: float) -> None:
    """For the parent process."""
    elapsed = time.perf_counter() - begin
    print(elapsed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Prints every ratio that the project claims about scoring."""
    note([f"Python {platform.python_version()}, {platform.machine()}; median of pairs, in one run"])
    version = process("-m", "ci_score", "--version")
    show(
        "ci-score --version / python -c 'import click'",
        ratio(version, process("-c", "import click")),
        2,
    )
    with tempfile.TemporaryDirectory() as folder:
        usual = write_profile(Path(folder) / "usual.json", USUAL_LAYERS, 12)
        score = process("-m", "ci_score", "score", str(usual))
        imports = process("-c", BARE_IMPORTS)
        show(
            "ci-score score of 32 layers / importing click, jinja2 and one pydantic model",
            ratio(score, imports),
            2,
        )
        big = write_profile(Path(folder) / "big.json", BIG_LAYERS, OPS)
        note([f"a million ops: {big.stat().st_size / 1e6:.0f} MB of JSON"])
        pairs = [
            (answer(*_self("read_and_score", big)), answer(*_self("read_with_pydantic", big)))
            for _ in range(PAIRS)
        ]
        times = sorted(ours[0] / theirs[0] for ours, theirs in pairs)
        show("reading and scoring a million ops / pydantic alone reading it", times[PAIRS // 2], 4)
        show("its peak memory", max(ours[1] for ours, _ in pairs), 250, "MB")


def _self(function: str, path: Path) -> tuple[str, ...]:
    return "-m", "benchmarks.scoring", function, str(path)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"read_with_pydantic": read_with_pydantic, "read_and_score": read_and_score}[sys.argv[1]](
            sys.argv[2]
        )
    else:
        main()

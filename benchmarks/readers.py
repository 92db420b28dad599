"""What reading a trace of the PyTorch profiler costs, beside what others and the limit cost.

The trace is generated (benchmarks/traces.py). Every side runs in a process of its own, so that the
peak memory is its own; sides alternate, and of the ratios of the pairs the median counts.
HolisticTraceAnalysis is compared where a Python that has it is named, or lies in the lab's folder
(`pip install HolisticTraceAnalysis "pandas<3"` into a virtual environment of its own).
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import answer, note, show
from benchmarks.traces import MEBIBYTE, write_trace
from ci_score.traces.formats.kineto_events import PIECE_BYTES

MEGABYTE = 1_000_000
FULL_MB, SHORT_MB = 400, 40
PAIRS, SLOW_PAIRS = 5, 1
RANKS = 8
LAB = Path.home() / ".cache" / "ci-score" / "hta" / "bin" / "python"

HTA = """
import contextlib, resource, sys, time, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
begin = time.perf_counter()
with contextlib.redirect_stdout(sys.stderr):
    analysis = TraceAnalysis(trace_dir=sys.argv[1])
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_temporal_breakdown(visualize=False)
elapsed = time.perf_counter() - begin
mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(elapsed, max(mine, children) / 1024)
"""


# --- the sides: each is a process that prints its seconds and megabytes -------------------------


def read_with_ours(path: str) -> None:
    """The whole profile: steps, phases, layers, ops."""
    from ci_score.traces.formats import kineto
    from ci_score.traces.source import ProfileSource

    begin = time.perf_counter()
    profile = kineto.read(ProfileSource(path, path=Path(path)))
    if not profile.avg_step_ms > 0:
        raise SystemExit("nothing was measured")
    _print_cost(begin)


def read_with_json(path: str) -> None:
    """What everybody writes first."""
    begin = time.perf_counter()
    with Path(path).open("rb") as stream:
        json.load(stream)
    _print_cost(begin)


def decode_alone(path: str, piece: str) -> None:
    """The practical limit: the same bytes into the same events, and nothing done with them."""
    import gc

    import msgspec

    from ci_score.traces.formats.kineto_events import Event, split_at_last_event

    begin = time.perf_counter()
    gc.disable()
    decode = msgspec.json.Decoder(list[Event]).decode
    with Path(path).open("rb") as stream:
        pending = stream.read(MEBIBYTE)
        pending = pending[pending.index(b'"traceEvents": [') + len(b'"traceEvents": [') :]
        while chunk := stream.read(int(piece)):
            pending += chunk
            end, next_one = split_at_last_event(pending)
            decode(b"[" + pending[:end] + b"]")
            pending = pending[next_one:]
    _print_cost(begin)


def read_ranks(folder: str, processes: str) -> None:
    """The files of a job's ranks, on so many processes, as `ci-score convert --jobs` reads them."""
    from ci_score.model.profile import Profile
    from ci_score.traces import parallel
    from ci_score.traces.source import ProfileSource

    sources = [ProfileSource(path.name, path=path) for path in sorted(Path(folder).iterdir())]
    begin = time.perf_counter()
    with parallel.processes(sources, int(processes)) as pool:
        profiles = parallel.read_all(sources, pool)
    if not all(isinstance(each, Profile) and each.avg_step_ms > 0 for each in profiles):
        raise SystemExit("nothing was measured")
    _print_cost(begin)


def _print_cost(begin: float) -> None:
    elapsed = time.perf_counter() - begin
    print(elapsed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


SIDES: dict[str, Callable[..., None]] = {
    side.__name__: side for side in (read_with_ours, read_with_json, decode_alone, read_ranks)
}


# --- the comparison -----------------------------------------------------------------------------


def _cost(side: Callable[..., None], *arguments: object) -> list[float]:
    words = [str(argument) for argument in arguments]
    return answer("-m", "benchmarks.readers", "--side", side.__name__, *words)


def _pairs(
    ours: Callable[[], list[float]], theirs: Callable[[], list[float]], count: int
) -> list[tuple[list[float], list[float]]]:
    return [(ours(), theirs()) for _ in range(count)]


def _median(pairs: list[tuple[list[float], list[float]]], column: int = 0) -> float:
    return statistics.median(mine[column] / theirs[column] for mine, theirs in pairs)


def compare(folder: Path, megabytes: int, hta: Path) -> None:
    """Prints every ratio that the project claims about reading traces."""
    trace = folder / "trace" / "rank0.json"
    trace.parent.mkdir()
    steps = write_trace(trace, megabytes * MEGABYTE)
    note([f"a trace of {trace.stat().st_size / MEGABYTE:.0f} MB, {steps} steps of 32 layers"])

    def ours() -> list[float]:
        return _cost(read_with_ours, trace)

    pairs = _pairs(ours, lambda: _cost(decode_alone, trace, MEBIBYTE), PAIRS)
    seconds = statistics.median(mine[0] for mine, _ in pairs)
    note([f"read in {seconds:.2f} s: {megabytes / seconds:.0f} MB/s"])
    show("reading / bare typed decode of the same bytes in pieces of 1 MiB", _median(pairs), 2)
    show("its peak memory", max(mine[1] for mine, _ in pairs), 250, "MB")
    pairs = _pairs(ours, lambda: _cost(decode_alone, trace, PIECE_BYTES), PAIRS)
    note([f"(and where that decodes pieces as small as ours: {_median(pairs):.2f} x)"])
    pairs = _pairs(ours, lambda: _cost(read_with_json, trace), SLOW_PAIRS + 2)
    show("reading / json.load of the same file", _median(pairs), 0.4)
    _compare_gzip(trace, folder / "rank0.json.gz", ours)
    _compare_hta(trace, hta, ours)
    _compare_sizes(folder, megabytes, ours)
    _compare_processes(folder, megabytes)


def _compare_gzip(trace: Path, packed: Path, ours: Callable[[], list[float]]) -> None:
    with trace.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as stream:
        while chunk := plain.read(MEGABYTE):
            stream.write(chunk)
    pairs = _pairs(lambda: _cost(read_with_ours, packed), ours, PAIRS)
    show("reading the .gz / reading the plain file", _median(pairs), 1.5)
    packed.unlink()


def _compare_hta(trace: Path, python: Path, ours: Callable[[], list[float]]) -> None:
    if not python.exists():
        note([f"HolisticTraceAnalysis not compared: no {python.name} with it (see --hta)"])
        return

    def theirs() -> list[float]:
        done = subprocess.run(
            [python, "-c", HTA, trace.parent], check=True, capture_output=True, text=True
        )
        return [float(word) for word in done.stdout.split()]

    pairs = _pairs(ours, theirs, SLOW_PAIRS)
    note([f"HolisticTraceAnalysis: {pairs[0][1][0]:.1f} s, {pairs[0][1][1]:.0f} MB"])
    show("reading / HolisticTraceAnalysis (load, kernels, temporal)", _median(pairs), 1 / 20)
    show("its peak memory / HolisticTraceAnalysis'", _median(pairs, 1), 1 / 8)


def _compare_sizes(folder: Path, megabytes: int, ours: Callable[[], list[float]]) -> None:
    large = folder / "large.json"
    write_trace(large, 4 * megabytes * MEGABYTE)
    pairs = _pairs(lambda: _cost(read_with_ours, large), ours, 3)
    show(f"reading {4 * megabytes} MB / reading {megabytes} MB", _median(pairs), 4.4)
    note([f"peak memory at {4 * megabytes} MB: {max(mine[1] for mine, _ in pairs):.0f} MB"])
    large.unlink()


def _compare_processes(folder: Path, megabytes: int) -> None:
    ranks = folder / "ranks"
    ranks.mkdir()
    for rank in range(RANKS):
        write_trace(ranks / f"rank{rank}.json", megabytes * MEGABYTE // RANKS, rank=rank)
    pairs = _pairs(lambda: _cost(read_ranks, ranks, 2), lambda: _cost(read_ranks, ranks, 1), PAIRS)
    note([f"the ranks' files: {megabytes / RANKS:g} MB each"])
    # Whatever else runs takes a core from two and none from one: the best of each side counts.
    two, one = (min(costs[0] for costs in side) for side in zip(*pairs, strict=True))
    show(f"{RANKS} rank files on 2 processes / in one (best of {PAIRS})", two / one, 1 / 1.5)


def main() -> None:
    """`python -m benchmarks.readers [--short | --mb N] [--hta PYTHON]`"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=FULL_MB, help="size of the trace")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_MB} MB, for CI")
    parser.add_argument("--hta", type=Path, default=LAB, help="a Python that has it")
    parser.add_argument("--side", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        name, *arguments = options.side
        SIDES[name](*arguments)
        return
    note([f"Python {platform.python_version()}, {platform.machine()}; median of pairs, in one run"])
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), SHORT_MB if options.short else options.mb, options.hta)


if __name__ == "__main__":
    main()

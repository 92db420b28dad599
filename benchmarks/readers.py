"""What reading a trace of the PyTorch profiler costs, beside what others cost for the same file.

Three real samples are made long (benchmarks/repeated.py) where they are there, and beside them
stands a generated trace (benchmarks/traces.py). Every side runs in a process of its own; sides
alternate, and of each the least of its runs counts, because whatever else runs only adds to it.
Memory is measured in runs of their own: what all processes of a side hold, shared pages divided.
HolisticTraceAnalysis is compared where a Python that has it is named, or lies in the lab's folder
(`pip install HolisticTraceAnalysis "pandas<3"` into a virtual environment of its own).
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing import cpu_count
from pathlib import Path

from benchmarks.measure import answer, note, peak_memory, process, seconds, show
from benchmarks.repeated import available, taken_apart
from benchmarks.traces import write_trace

MEGABYTE = 1_000_000
FULL_MB, SHORT_MB = 400, 40
RUNS, SHORT_RUNS = 5, 2
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
who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
print(elapsed, max(resource.getrusage(each).ru_maxrss for each in who) / 1024)
"""


# --- the sides: each is a process that prints its seconds ---------------------------------------


def read_with_ours(path: str) -> None:
    """The whole profile: steps, phases, layers, ops."""
    from ci_score.traces.formats import kineto
    from ci_score.traces.source import ProfileSource

    begin = time.perf_counter()
    source = ProfileSource(path, path=Path(path), processes=cpu_count())
    profile = kineto.read(source)
    if not profile.avg_step_ms > 0:
        raise SystemExit("nothing was measured")
    _print_cost(begin)


def read_with_json(path: str) -> None:
    """What everybody writes first."""
    begin = time.perf_counter()
    with Path(path).open("rb") as stream:
        json.load(stream)
    _print_cost(begin)


def read_with_json_alone(path: str) -> None:
    """The same without the collector, which finds nothing among millions of new objects."""
    gc.disable()
    read_with_json(path)


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
    print(time.perf_counter() - begin)


SIDES: dict[str, Callable[..., None]] = {
    side.__name__: side
    for side in (read_with_ours, read_with_json, read_with_json_alone, read_ranks)
}


def _command(side: Callable[..., None], *arguments: object) -> tuple[str, ...]:
    words = [str(argument) for argument in arguments]
    return "-m", "benchmarks.readers", "--side", side.__name__, *words


def _cost(side: Callable[..., None], *arguments: object) -> float:
    return answer(*_command(side, *arguments))[0]


# --- the comparison -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """How large the traces are, how often each side runs, and where the slowest of them is."""

    megabytes: int
    runs: int
    hta: Path


READING, CONVERT, JSON, JSON_ALONE = "reading", "convert", "json.load", "json.load, no collector"
GZIP, HOLISTIC, MEMORY, HOLISTIC_MEMORY = "the .gz", "HTA", "memory, MB", "HTA, MB"
HEADINGS = (READING, CONVERT, JSON, JSON_ALONE, GZIP, HOLISTIC, MEMORY, HOLISTIC_MEMORY)
Costs = Mapping[str, float]


def compare(folder: Path, asked: Asked) -> None:
    """Prints every ratio that the project claims about reading traces."""
    trace = folder / "trace" / "rank0.json"
    trace.parent.mkdir()
    note(["", f"| content | {' | '.join(HEADINGS)} |", "|---" + "|--:" * len(HEADINGS) + "|"])
    real = []
    for sample in available():
        taken_apart(sample).write(trace, asked.megabytes * MEGABYTE)
        real.append(_costs_of(sample.name.partition(".")[0], trace, asked))
    write_trace(trace, asked.megabytes * MEGABYTE)
    generated = _costs_of("generated", trace, asked)
    note(["", f"medians over {len(real)} real contents" if real else "the generated trace alone"])
    _show_ratios(real or [generated])
    _compare_sizes(trace, folder / "large.json", asked)
    _compare_processes(folder / "ranks", asked)


def _costs_of(content: str, trace: Path, asked: Asked) -> Costs:
    """A row of the table: seconds, the least of alternating runs, and megabytes."""
    packed = trace.parent.parent / f"{trace.name}.gz"
    with trace.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as stream:
        while chunk := plain.read(MEGABYTE):
            stream.write(chunk)
    sides: dict[str, Callable[[], float]] = {
        READING: partial(_cost, read_with_ours, trace),
        CONVERT: partial(seconds, process("-m", "ci_score", "convert", str(trace))),
        JSON: partial(_cost, read_with_json, trace),
        JSON_ALONE: partial(_cost, read_with_json_alone, trace),
        GZIP: partial(_cost, read_with_ours, packed),
    }
    times = [{name: side() for name, side in sides.items()} for _ in range(asked.runs)]
    costs = {name: min(each[name] for each in times) for name in sides}
    if asked.hta.exists():
        costs[HOLISTIC], costs[HOLISTIC_MEMORY] = _holistic(trace, asked.hta)
    memory = peak_memory([sys.executable, *_command(read_with_ours, trace)])
    if memory is not None:
        costs[MEMORY] = memory
    packed.unlink()
    cells = (f"{costs[name]:.{0 if name == MEMORY else 2}f}" if name in costs else "–"
             for name in HEADINGS)  # fmt: skip
    size = trace.stat().st_size / MEGABYTE
    print(f"| {content}, {size:.0f} MB | {' | '.join(cells)} |", flush=True)
    return costs


def _holistic(trace: Path, python: Path) -> list[float]:
    """Once: it takes longer than all the rest together."""
    done = subprocess.run(
        [python, "-c", HTA, trace.parent], check=True, capture_output=True, text=True
    )
    return [float(word) for word in done.stdout.split()]


def _show_ratios(contents: list[Costs]) -> None:
    for ours, theirs, aim in (
        (READING, JSON, 1 / 5),
        (READING, JSON_ALONE, 1 / 5),
        (READING, HOLISTIC, 1 / 20),
        (CONVERT, JSON, 1 / 5),
        (CONVERT, JSON_ALONE, 1 / 5),
        (CONVERT, HOLISTIC, 1 / 20),
        (GZIP, READING, 1.3),
    ):
        ratios = [costs[ours] / costs[theirs] for costs in contents if theirs in costs]
        if not ratios:
            note([f"{theirs} not compared: no Python with it (see --hta)"])
            continue
        show(f"{ours} / {theirs} (the worst: {max(ratios):.3f})", statistics.median(ratios), aim)
    memory = [costs[MEMORY] for costs in contents if MEMORY in costs]
    if memory:
        show("memory of all processes, at its peak", max(memory), 250, "MB")


def _compare_sizes(trace: Path, large: Path, asked: Asked) -> None:
    """Four times as much takes four times as long, and no more memory than its columns."""
    write_trace(large, 4 * asked.megabytes * MEGABYTE)
    times = [(_cost(read_with_ours, large), _cost(read_with_ours, trace)) for _ in range(3)]
    long, short = (min(each) for each in zip(*times, strict=True))
    show(f"reading {4 * asked.megabytes} MB / reading {asked.megabytes} MB", long / short, 4.4)
    memory = peak_memory([sys.executable, *_command(read_with_ours, large)])
    if memory is not None:
        note([f"peak memory at {4 * asked.megabytes} MB: {memory:.0f} MB"])
    large.unlink()


def _compare_processes(ranks: Path, asked: Asked) -> None:
    ranks.mkdir()
    for rank in range(RANKS):
        write_trace(ranks / f"rank{rank}.json", asked.megabytes * MEGABYTE // RANKS, rank=rank)
    times = [(_cost(read_ranks, ranks, 2), _cost(read_ranks, ranks, 1)) for _ in range(asked.runs)]
    two, one = (min(each) for each in zip(*times, strict=True))
    note([f"the ranks' files: {asked.megabytes / RANKS:g} MB each"])
    show(f"{RANKS} rank files on 2 processes / in one", two / one, 1 / 1.5)


def main() -> None:
    """`python -m benchmarks.readers [--short | --mb N] [--hta PYTHON]`"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=FULL_MB, help="size of the traces")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_MB} MB, for CI")
    parser.add_argument("--hta", type=Path, default=LAB, help="a Python that has it")
    parser.add_argument("--side", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        name, *arguments = options.side
        SIDES[name](*arguments)
        return
    short = options.short
    asked = Asked(SHORT_MB if short else options.mb, SHORT_RUNS if short else RUNS, options.hta)
    machine = f"Python {platform.python_version()}, {platform.machine()}, {cpu_count()} cores"
    note([f"{machine}; seconds, the least of {asked.runs} alternating runs"])
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), asked)


if __name__ == "__main__":
    main()

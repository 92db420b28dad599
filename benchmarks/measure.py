"""How a ratio is measured: both sides in turn, in one run, the median of the pairs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path


def ratio(ours: Callable[[], object], theirs: Callable[[], object], pairs: int = 15) -> float:
    """How many times as long `ours` takes; pairs cancel what the machine does meanwhile."""
    ours(), theirs()
    return statistics.median(seconds(ours) / seconds(theirs) for _ in range(pairs))


def seconds(work: Callable[[], object]) -> float:
    """The wall time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def process(*arguments: str) -> Callable[[], object]:
    """A whole Python process, from start to exit."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def answer(*arguments: str) -> list[float]:
    """The numbers that a Python process prints."""
    done = subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return [float(word) for word in done.stdout.split()]


def peak_memory(command: Sequence[str]) -> float | None:
    """The most that a command and its processes held at once, in megabytes; Linux alone tells.

    A page that several of them share counts once. Looking costs time: no such run is a timed one.
    """
    if not Path("/proc/self/smaps_rollup").exists():
        return None
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            most = max(most, sum(map(_held, _family(running.pid))))
            time.sleep(0.01)
    return most * 1024 / 1_000_000


def _family(process_id: int) -> set[int]:
    """A process and all below it."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = {process_id}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _held(process_id: int) -> int:
    """Its proportional share in KiB; nothing of one that has just ended."""
    try:
        lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def show(what: str, value: float, wanted: float, unit: str = "x") -> None:
    """One line: what was measured, and what it should be."""
    verdict = "ok" if value <= wanted else "NOT MET"
    print(f"{what:<74} {value:7.2f} {unit:<3} (wanted: at most {wanted:g} {unit}) {verdict}")


def note(lines: Sequence[str]) -> None:
    """What the reader has to know to repeat it."""
    print("\n".join(lines))

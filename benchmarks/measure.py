"""How a ratio is measured: both sides in turn, in one run, the median of the pairs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence


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


def show(what: str, value: float, wanted: float, unit: str = "x") -> None:
    """One line: what was measured, and what it should be."""
    verdict = "ok" if value <= wanted else "NOT MET"
    print(f"{what:<74} {value:7.2f} {unit:<3} (wanted: at most {wanted:g} {unit}) {verdict}")


def note(lines: Sequence[str]) -> None:
    """What the reader has to know to repeat it."""
    print("\n".join(lines))

"""Load by others on the CPU, seen in the counters that the kernel keeps anyway.

Two things that cannot be the launch's own: time that a hypervisor gave to other machines (steal),
and time of processes that are none of the launch's, on CPUs of which none was free. How long tasks
waited says nothing: those of the launch wait for each other, too.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

COUNTERS = Path("/proc/stat")
# The counters of a CPU, in the kernel's order.
USER, NICE, SYSTEM, IDLE, WAITING, IRQ, SOFT_IRQ, STEAL = range(8)
# The kernel counts in hundredths of a second: what a CPU did is known to four of them. In a second
# that is less than a twentieth of it, which is what tells a CPU that is free from one that is not.
LEAST_SECONDS = 1.0
# Of the time that somebody wanted, and of that of all CPUs.
MOST_STOLEN = 0.05
MOST_FOREIGN = 0.25
# With more than this idle, the launch had a CPU whenever it wanted one.
NONE_FREE = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """Seconds so far of the CPUs that a launch may use; `own` are ours and our children's."""

    at: float
    cpus: int
    busy: float
    idle: float
    stolen: float
    own: float

    @classmethod
    def now(cls) -> Load | None:
        """The counters; None where there are none. Those of a container are its host's."""
        with suppress(OSError, ValueError, IndexError, AttributeError):
            usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
            rows = [line.split() for line in COUNTERS.read_text("ascii").splitlines()]
            cpus = [list(map(int, row[1:])) for row in rows if row and row[0] in usable]
            ticks = [sum(column) / os.sysconf("SC_CLK_TCK") for column in zip(*cpus, strict=True)]
            times = os.times()
            return cls(
                times.elapsed,
                len(cpus),
                sum(ticks[at] for at in (USER, NICE, SYSTEM, IRQ, SOFT_IRQ)),
                ticks[IDLE] + ticks[WAITING],
                ticks[STEAL],
                sum(times[:4]),
            )
        return None

    def since(self, before: Load) -> Load:
        """What came between the two."""
        return Load(
            self.at - before.at,
            self.cpus,
            self.busy - before.busy,
            self.idle - before.idle,
            self.stolen - before.stolen,
            self.own - before.own,
        )

    @property
    def whole(self) -> float:
        """The time of all CPUs."""
        return self.busy + self.idle + self.stolen

    @property
    def stolen_in_words(self) -> str:
        """How much a hypervisor gave to others of what was wanted, if that is worth telling."""
        wanted = self.busy + self.stolen
        if self.stolen <= MOST_STOLEN * wanted:
            return ""
        return f"CPU steal {self.stolen / wanted:.0%}".replace("%", " %")

    @property
    def by_others(self) -> float:
        """How many CPUs others used."""
        return self.cpus * max(self.busy - self.own, 0.0) / self.whole


def load_by_others(before: Load | None, after: Load | None, *, knows_own: bool = True) -> str:
    """What others did to the launch between the two, in words; empty for nothing worth telling.

    Processes that outlived their launch did not leave their time to us: then nobody `knows_own`.
    """
    spent = _known(before, after)
    if spent is None:
        return ""
    if spent.stolen_in_words:
        return spent.stolen_in_words
    is_full = spent.idle < NONE_FREE * spent.whole
    if knows_own and is_full and spent.by_others > MOST_FOREIGN * spent.cpus:
        return f"others used {_of_cpus(spent)}, and none was free"
    return ""


def load_now(before: Load | None, after: Load | None, *, leaves_none: bool) -> str:
    """What other processes do while no launch runs, in words; empty if a launch may begin.

    If a launch `leaves_none` of the CPUs free, the others may use at most a quarter of them. Before
    the first launch nobody knows what it needs: one CPU must be free for it.
    """
    spent = _known(before, after)
    if spent is None:
        return ""
    is_busy = spent.by_others > MOST_FOREIGN * spent.cpus
    is_full = leaves_none or spent.cpus - spent.by_others < 1
    return spent.stolen_in_words or (f"others use {_of_cpus(spent)}" if is_busy and is_full else "")


def _known(before: Load | None, after: Load | None) -> Load | None:
    """What was spent between the two, if the counters are fine enough for it."""
    if before is None or after is None or after.at - before.at < LEAST_SECONDS:
        return None
    return after.since(before)


def _of_cpus(spent: Load) -> str:
    return f"{spent.by_others:.1f} of {spent.cpus} CPUs"

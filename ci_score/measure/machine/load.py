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
# The kernel counts in hundredths of a second, and every machine does some work of its own.
LEAST_SECONDS = 5.0
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


def load_by_others(before: Load | None, after: Load | None, *, knows_own: bool = True) -> str:
    """What others did to the launch between the two, in words; empty for nothing worth telling.

    Processes that outlived their launch did not leave their time to us: then nobody `knows_own`.
    """
    if before is None or after is None or after.at - before.at < LEAST_SECONDS:
        return ""
    busy, idle = after.busy - before.busy, after.idle - before.idle
    stolen = after.stolen - before.stolen
    if stolen > MOST_STOLEN * (busy + stolen):
        return f"CPU steal {stolen / (busy + stolen):.0%}".replace("%", " %")
    foreign = busy - (after.own - before.own)
    whole = busy + idle + stolen
    if knows_own and foreign > MOST_FOREIGN * whole and idle < NONE_FREE * whole:
        used = after.cpus * foreign / whole
        return f"others used {used:.1f} of {after.cpus} CPUs, and none was free"
    return ""

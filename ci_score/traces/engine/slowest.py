"""Of several devices of a capture the one that speaks for all, as of a job its slowest rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ci_score.model.lists import plural
from ci_score.traces.engine.capture import Capture, Lane
from ci_score.traces.engine.device import Derived

_LEAST_SHARE_OF_BUSIEST = 0.1


def slowest(devices: Sequence[Derived]) -> tuple[Derived, list[str]]:
    """The device that speaks for all, as a job's step is its slowest rank's; and what to note.

    One that hardly works beside the others does not count, nor one with weaker evidence of steps.
    """
    busiest = max(device.fields["capture"]["gpu_busy_ms"] for device in devices)
    working = [
        device
        for device in devices
        if device.fields["capture"]["gpu_busy_ms"] >= _LEAST_SHARE_OF_BUSIEST * busiest
    ]
    best_way = min(device.way for device in working)
    found = [device for device in working if device.way == best_way]
    comparable = _of_most_work(found)
    chosen = max(comparable, key=lambda device: device.fields["avg_step_ms"])
    if len(devices) == 1:
        return chosen, []
    times = [device.fields["avg_step_ms"] for device in comparable]
    least, most = f"{min(times):.4g}", f"{max(times):.4g}"
    between = most if least == most else f"{least} to {most}"
    which = f"the slowest of {len(comparable)} ({between} ms a step)"
    if len(comparable) == 1:
        which = "the busiest of those whose steps are known"
    others = len(found) - len(comparable)
    if others:
        which += f"; not compared: {others} with other work"
    return chosen, [f"{len(devices)} devices: these are the numbers of {chosen.label}, {which}"]


def _of_most_work(devices: Sequence[Derived]) -> list[Derived]:
    """Those that repeat the same work, of several works that of which there is most."""
    busy: Counter[frozenset[str] | None] = Counter()
    for device in devices:
        busy[device.unit] += device.fields["capture"]["gpu_busy_ms"]
    return [device for device in devices if device.unit == busy.most_common(1)[0][0]]


def other_devices(capture: Capture, lanes: Sequence[Lane]) -> list[str]:
    """A note on the work of devices that do not count, where there is some."""
    others = sum(len(lane.events) for lane in capture.lanes) - sum(
        len(lane.events) for lane in lanes
    )
    if not others:
        return []
    events = plural(others, "device event")
    return [f"{events} on a device without kernels, or of which no device is told: not counted"]

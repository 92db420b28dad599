"""A capture → the Profile of a step: steps, attribution, phases, layers, gaps, totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ci_score.model.lists import plural
from ci_score.model.profile import Profile
from ci_score.traces.engine.capture import Capture, Lane
from ci_score.traces.engine.cut import whole_steps
from ci_score.traces.engine.device import derived
from ci_score.traces.engine.host import KERNEL
from ci_score.traces.engine.host_only import host_fields
from ci_score.traces.engine.memory import peak_ops
from ci_score.traces.engine.slowest import other_devices, slowest
from ci_score.traces.engine.soundness import Doubts, doubts_of_calls, doubts_of_copies
from ci_score.traces.engine.stacks import code_of_stacks
from ci_score.traces.engine.steps import Steps, called_functions
from ci_score.traces.engine.tokens import add_tokens

_UNREAD_NAMED = 5
# No machine has more of them.
MOST_DEVICES = 64

Fields = dict[str, Any]


def profile_of(capture: Capture) -> Profile:
    """The profile of a capture; of one that measured nothing it says why in `unusable`."""
    lanes = capture.busy_lanes()
    reason = _why_nothing(capture, lanes)
    steps: Steps | None = None
    if reason is None and capture.is_cut:
        steps, note = whole_steps(capture, capture.first_marked(0), 0)
        reason = None if steps else Doubts(note, remedy="whole file")
        capture.notes += [note] if steps and note else []
    if reason is not None:
        # Of work that is not read nothing else is known to be wrong.
        if capture.unread:
            capture.unusable = capture.remedy = None
        capture.doubt(*reason)
        return _with_facts(capture, {}, lanes, None)
    if not lanes:
        return _of_host(capture, steps)
    capture.doubt(*doubts_of_calls(capture))
    lanes = _busiest(capture, lanes)
    found = [derived(capture, lane, steps) for lane in lanes]
    capture.doubt(*doubts_of_copies([lane.events for lane in lanes]))
    known = [each for each in found if each is not None]
    if capture.unread:
        capture.notes.append(f"not read, and so not counted: {_unread(capture)}")
    if len(known) < len(lanes):
        return _of_host(capture, steps, lanes)
    chosen, spread = slowest(known)
    lane = lanes[known.index(chosen)]
    capture.notes += [*spread, *chosen.notes, *other_devices(capture, lanes)]
    fields = chosen.fields
    fields["peak_ops"] = peak_ops(capture, lane.process, steps)
    return _with_facts(capture, fields, lanes, lane)


def _busiest(capture: Capture, lanes: list[Lane]) -> list[Lane]:
    """The devices that are looked at: the host's part is gone through again for each of them."""
    if len(lanes) <= MOST_DEVICES:
        return lanes
    capture.notes.append(f"of {len(lanes)} devices the {MOST_DEVICES} with most events count")
    counts = [len(lane.events) for lane in lanes]
    least = sorted(counts)[-MOST_DEVICES]
    return [lane for lane, count in zip(lanes, counts, strict=True) if count >= least][
        :MOST_DEVICES
    ]


def _of_host(capture: Capture, steps: Steps | None, lanes: Sequence[Lane] = ()) -> Profile:
    """Steps by the host's clock; without marks the calls of a compiled function, else all."""
    process = next(iter(capture.hosts), 0)
    capture.notes.append(
        "no device work could be told apart by steps: host times only"
        if lanes
        else "no work of a device: times are those of the host"
    )
    if steps is None:
        steps = capture.first_marked(process)
    if steps is None:
        steps = called_functions(capture.calls)
    if steps is None:
        begin, end = capture.host_span(process)
        steps = Steps(
            [(int(begin), int(end))],
            "no step marker, the whole capture",
            host_times=True,
            marked=False,
        )
    fields, windows = host_fields(capture, process, steps, capture.notes)
    fields["peak_ops"] = peak_ops(capture, process, steps)
    add_tokens(capture, process, windows, fields, capture.notes)
    return _with_facts(capture, fields, lanes, None)


def _with_facts(
    capture: Capture, fields: Fields, lanes: Sequence[Lane], lane: Lane | None
) -> Profile:
    """The profile with what else the file tells."""
    if not fields.get("avg_step_ms"):
        capture.doubt("its steps took no time", (), "steps")
    facts = capture.facts(lanes, lane)
    known = dict(fields)
    sources = {**known.pop("sources", {}), **facts.sources}
    sums = {**known.pop("capture", {})}
    if capture.unusable is None and known.get("code") is None:
        known["code"] = code_of_stacks(capture, lane.process if lane is not None else 0)
    if capture.events is not None:
        sums = {"events": float(capture.events), **sums}
    return Profile(
        tool=capture.tool,
        **known,
        **facts.fields,
        sources=sources,
        notes=(*capture.notes, *facts.notes),
        capture=sums,
        unusable=capture.unusable,
        remedy=capture.remedy,
    )


def _why_nothing(capture: Capture, lanes: Sequence[Lane]) -> Doubts | None:
    """Why there is nothing to measure; None where there is something."""
    if capture.events == 0:
        return Doubts("no events", remedy="device")
    if lanes:
        return None
    if capture.unread:
        return Doubts(f"the device's work is of kinds that are not read ({_unread(capture)})")
    if capture.needs_device is not None:
        return Doubts(capture.needs_device, remedy="device")
    launched = sum(
        host.launches.kinds.tobytes().count(bytes([KERNEL])) for host in capture.hosts.values()
    )
    if capture.is_cut and (launched or not capture.had_no_device):
        words = "the trace is cut short before the device's work: no whole step was measured"
        return Doubts(words, remedy="whole file")
    if launched:
        return Doubts(
            f"no kernels, though {plural(launched, 'call')} launched some: the device's profiler"
            " (CUPTI, roctracer) failed",
            remedy="device",
        )
    has_ranges = bool(capture.ranges.threads(0))
    if not has_ranges and not any(len(host.operators) for host in capture.hosts.values()):
        return Doubts("neither kernels nor operators were recorded", remedy="device")
    return None


def _unread(capture: Capture) -> str:
    return ", ".join(
        f"{plural(count, 'event')} of '{kind[:40]}'"
        for kind, count in capture.unread.most_common(_UNREAD_NAMED)
    )

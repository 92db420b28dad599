"""Known causes by kind: each makes every step of a trace so many milliseconds longer, if it can."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.planting import (
    US_PER_MS,
    Check,
    Plant,
    Scene,
    Truth,
    always,
    both,
    has,
    is_kind,
    is_op,
    of_op,
    planted,
)
from benchmarks.tape import Edit, Json
from ci_score.model.explanation import IDLE_OTHER, IDLE_WORDS

NEW_NAME = "void at::native::(anonymous namespace)::planted_kernel<float, 4>(float*, int)"
# Communication counts as hidden where compute fills so much of it.
DENSE = 0.9
_FUSIBLE = frozenset({"elementwise", "norm", "reduce", "copy", "softmax_loss"})
_PIECES = tuple(
    f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}<float>>"
    for functor in ("CUDAFunctor_add", "MulFunctor", "TanhFunctor")
)
Maker = Callable[[Scene, float], Plant | None]


# --- compute ------------------------------------------------------------------------------------


def kernel_slower(scene: Scene, ms: float) -> Plant | None:
    """One kernel takes longer, as often as before."""
    found = scene.a_name(scene.compute())
    if found is None:
        return None
    name, places = found
    truth = of_op(name, scene.kind(places[0]), lambda data: not data.get("more_launches"))
    return planted(scene.slower(places, ms), truth, places)


def kernel_more_often(scene: Scene, ms: float) -> Plant | None:
    """One kernel runs more often, as long each time."""
    found = scene.a_name(scene.compute())
    if found is None:
        return None
    name, places = found
    each = scene.time(places) / len(places) + 1.0
    more = ms * US_PER_MS * scene.steps / each
    if more / len(places) > 200:
        return None
    added: dict[int, list[tuple[str, float]]] = {}
    wanted = 0.0
    for place in places:
        wanted += more / len(places)
        while wanted >= 1:
            added.setdefault(place, []).append((name, scene.tape.works[place].time))
            wanted -= 1
    if not added:
        return None
    kind = scene.kind(places[0])
    truth = of_op(name, kind, lambda data: data.get("more_launches") is not False)
    return Plant(Edit(added=added), truth, frozenset(added))


def one_layer_slower(scene: Scene, ms: float) -> Plant | None:
    """The kernels that one module of the repeated class launches in its forward."""
    layers = _module_calls(scene)
    if len(layers) < 2:
        return None
    number = scene.chance.randrange(len(layers))
    places = _launched_in(scene, layers[number])
    edit = scene.slower(places, ms)
    if edit is None or scene.time(places) < 0.002 * scene.profile.avg_step_ms * US_PER_MS:
        return None
    is_it = has(layers=str(number))
    named = dict.fromkeys(("layers_grew", "compute_grew", "one_op", "one_kind"), is_it)
    # An op of that layer alone has grown, whatever holds most of it.
    ops = {scene.tape.works[place].name for place in places}
    vague: dict[str, Check] = {
        "one_op": lambda data: data.get("name") in ops,
        "one_kind": always,
        "compute_grew": always,
    }
    return planted(edit, Truth(named=named, vague=vague), places)


def _module_calls(scene: Scene) -> list[list[tuple[float, float, Any]]]:
    """The calls of each module that the profile has as a layer, in their order."""
    found: dict[str, dict[str, list[tuple[float, float, Any]]]] = {}
    for event in scene.tape.events:
        name = str(event.get("name"))
        if event.get("ph") == "X" and name.startswith("nn.Module: "):
            kind = name.removeprefix("nn.Module: ").rpartition("_")[0]
            span = (event["ts"], event["ts"] + event.get("dur", 0), event.get("tid"))
            found.setdefault(kind, {}).setdefault(name, []).append(span)
    count = len(scene.profile.per_layer)
    fit = [calls for kind, calls in found.items() if len(calls) == count and _is_layer(scene, kind)]
    if not fit:
        return []
    most = max(fit, key=lambda calls: sum(end - at for of in calls.values() for at, end, _ in of))
    return sorted(most.values(), key=lambda calls: min(calls)[0])


def _is_layer(scene: Scene, kind: str) -> bool:
    return scene.profile.layer_class in (None, kind)


def _launched_in(scene: Scene, calls: Sequence[tuple[float, float, Any]]) -> list[int]:
    tape = scene.tape
    return [
        place
        for place in scene.compute()
        for at, thread in [(tape.launched_at(tape.works[place]), tape.thread_of(tape.works[place]))]
        if any(begin <= at < end and thread[1] == tid for begin, end, tid in calls)
    ]


def clocks(scene: Scene, ms: float) -> Plant | None:
    """Every kernel takes longer by one share."""
    places = scene.compute()
    share = ms * US_PER_MS * scene.steps / max(scene.time(places), 1e-9)
    if share > 3 or len({scene.kind(place) for place in places}) < 2 or len(places) < 40:
        return None
    return planted(scene.slower(places, ms), Truth(named={"all_kernels": always}), places)


def lost_fusion(scene: Scene, ms: float) -> Plant | None:
    """A kernel is gone; three or more others run for each of its launches."""
    found = scene.a_name(scene.works(lambda kind: kind in _FUSIBLE))
    if found is None:
        return None
    places = found[1]
    total = scene.time(places)
    need = ms * US_PER_MS * scene.steps
    pieces = max(3, round((need / total + 1) / 0.9))
    if pieces > 24 or need < 0.5 * total:
        return None
    each = (need / total + 1) / pieces
    names = [f"{_PIECES[turn % 3]} #{turn // 3}" for turn in range(pieces)]
    edit = Edit()
    for place in places:
        time = scene.tape.works[place].time
        edit.renamed[place] = names[0]
        edit.longer[place] = (each - 1) * time
        edit.added[place] = [(other, each * time) for other in names[1:]]
    vague: dict[str, Check] = {
        "one_op": lambda data: data.get("name") in names,
        "one_kind": always,
        "compute_grew": always,
    }
    return Plant(edit, Truth({"lost_fusion": always}, vague), frozenset(places))


def every_kernel_twice(scene: Scene, ms: float) -> Plant | None:
    """Each kernel runs again, or two times more; the optimizer's do not."""
    places = [place for place in scene.compute() if scene.kind(place) != "optimizer"]
    total = scene.time(places)
    if total < 0.05 * scene.profile.avg_step_ms * US_PER_MS * scene.steps:
        return None
    times = 3 if ms * US_PER_MS * scene.steps > 2 * total else 2
    works = scene.tape.works
    added = {place: [(works[place].name, works[place].time)] * (times - 1) for place in places}
    right: Check = lambda data: abs(float(data.get("times", 0)) - times) < 0.1 * times  # noqa: E731
    return Plant(Edit(added=added), Truth(named={"every_kernel": right}), frozenset(places))


def products_slower(scene: Scene, ms: float) -> Plant | None:
    """Matrix products alone: every part of the step grows, and it is not the clocks."""
    places = scene.works(lambda kind: kind == "gemm")
    names = scene.by_name(places)
    if not places or scene.time(places) > 0.75 * scene.time(scene.compute()):
        return None
    vague: dict[str, Check] = {
        "one_op": lambda data: data.get("name") in names,
        "compute_grew": always,
        "phase_grew": always,
        "layers_grew": always,
    }
    largest = max(scene.time(of_name) for of_name in names.values())
    # Where one of them is most of the time, its name says as much.
    is_one = largest >= 0.5 * scene.time(places)
    named = {"one_kind": is_kind("gemm")} | ({"one_op": vague["one_op"]} if is_one else {})
    return planted(scene.slower(places, ms), Truth(named, vague), places)


def one_phase_slower(scene: Scene, ms: float) -> Plant | None:
    """All kernels that a thread launches within a range: the backward pass, for example."""
    marks = [
        (event["ts"], event["ts"] + event.get("dur", 0), str(event.get("name")))
        for event in scene.tape.events
        if event.get("ph") == "X" and str(event.get("name")).strip("# ") in ("forward", "backward")
    ]
    if not marks:
        return None
    name = scene.chance.choice(sorted({mark[2] for mark in marks}))
    spans = [(begin, end) for begin, end, mark in marks if mark == name]
    works, tape = scene.tape.works, scene.tape
    places = [
        place
        for place in scene.compute()
        if any(begin <= tape.launched_at(works[place]) < end for begin, end in spans)
    ]
    if not 0.1 < scene.time(places) / scene.time(scene.compute()) < 0.75:
        return None
    ops = {works[place].name for place in places}
    either: Check = lambda data: bool(data.get("phase") or data.get("layers"))  # noqa: E731
    of_place = dict.fromkeys(("compute_grew", "one_op", "one_kind", "layers_grew"), either)
    vague: dict[str, Check] = {"one_op": lambda data: data.get("name") in ops, "one_kind": always}
    return planted(scene.slower(places, ms), Truth(of_place, vague), places)


def a_new_kernel(scene: Scene, ms: float) -> Plant | None:
    """One that the base does not have runs behind each of another's launches."""
    found = scene.a_name(scene.compute())
    if found is None:
        return None
    name = NEW_NAME
    each = ms * US_PER_MS * scene.steps / len(found[1])
    added = {place: [(name, each)] for place in found[1]}
    truth = of_op(name, "other", lambda data: data.get("status") in ("new", "gone"))
    return Plant(Edit(added=added), truth, frozenset(found[1]))


def another_kernel(scene: Scene, ms: float) -> Plant | None:
    """A kernel under another name of the same stem, such as another tile, that is slower."""
    found = scene.a_name(scene.compute())
    if found is None:
        return None
    old, places = found
    name = re.sub(r"\d+", lambda number: str(int(number[0]) + 8), old)
    edit = scene.slower(places, ms)
    if name == old or edit is None:
        return None
    edit.renamed.update(dict.fromkeys(places, name))
    either: Check = lambda data: is_op(name)(data) or is_op(old)(data)  # noqa: E731
    truth = of_op(name, scene.kind(places[0]))
    return planted(edit, replace(truth, named={"one_op": either}), places)


def optimizer_slower(scene: Scene, ms: float) -> Plant | None:
    """All kernels of the optimizer."""
    places = scene.works(lambda kind: kind == "optimizer")
    names = sorted(scene.by_name(places))
    if not places:
        return None
    right: Check = lambda data: any(str(data.get("name")) in name for name in names)  # noqa: E731
    truth = Truth(
        named={"one_op": right, "one_kind": both(is_kind("optimizer"), right)},
        vague={
            "one_kind": is_kind("optimizer"), "compute_grew": always, "phase_grew": always
        },
    )  # fmt: skip
    return planted(scene.slower(places, ms), truth, places)


# --- copies and communication -------------------------------------------------------------------


def copies_slower(scene: Scene, ms: float) -> Plant | None:
    """Copies to the device that nothing hides."""
    places = [
        place
        for place in scene.works(lambda kind: kind == "memcpy")
        if "HtoD" in scene.tape.works[place].name and scene.is_alone(place)
    ]
    edit = scene.slower(places, ms)
    is_copy: Check = lambda data: data.get("name") in (None, "h2d", "Memcpy HtoD")  # noqa: E731
    is_copy_too: Check = lambda data: "HtoD" in str(data.get("name"))  # noqa: E731
    either: Check = lambda data: is_copy(data) or is_copy_too(data)  # noqa: E731
    truth = Truth(named={"copies_grew": either, "one_op": either})
    return planted(edit, truth) if places else None


def op_beside_copies(scene: Scene, ms: float) -> Plant | None:
    """A kernel slower, and copies nearly as much: the kernel is most of it, and not in `h2d`."""
    copies, op = copies_slower(scene, 0.38 * ms), kernel_slower(scene, 0.62 * ms)
    if copies is None or op is None:
        return None
    op.edit.longer.update(copies.edit.longer)
    parts: Check = lambda data: set(data["parts"]) == {"compute", "exposed copies"}  # noqa: E731
    return replace(op, truth=replace(op.truth, vague={**op.truth.vague, "two_parts": parts}))


def communication_slower(scene: Scene, ms: float) -> Plant | None:
    """All kernels of communication."""
    places = scene.works(lambda kind: kind == "comm")
    return planted(scene.slower(places, ms), Truth(named={"communication_grew": always}))


def communication_less_hidden(scene: Scene, ms: float) -> Plant | None:
    """What ran beside communication starts when it has ended."""
    works = scene.tape.works
    compute = [works[place] for place in scene.compute()]
    hidden: dict[int, float] = {}
    for place in scene.works(lambda kind: kind == "comm"):
        work = works[place]
        beside = [each for each in works if work.start < each.start < work.end]
        if not beside:
            continue
        first = beside[0].start
        busy = sum(
            min(each.end, work.end) - each.start
            for each in compute
            if first <= each.start < work.end
        )
        # Where the device also idles beside it, a delay is no matter of communication alone.
        if busy >= DENSE * (work.end - first):
            hidden[place] = work.end - first
    need = ms * US_PER_MS * scene.steps
    if sum(hidden.values()) < need:
        return None
    share = need / sum(hidden.values())
    pushed = {place: share * time for place, time in hidden.items()}
    return Plant(Edit(pushed=pushed), Truth(named={"overlaps_less": always}))


# --- the host -----------------------------------------------------------------------------------


def _stalled(
    scene: Scene, ms: float, event: Mapping[str, Any] | None, truth: Truth
) -> Plant | None:
    cuts = scene.cuts()
    if not cuts:
        return None
    stall = (ms * US_PER_MS, dict(event) if event else None)
    return Plant(Edit(stalls={of_step[len(of_step) // 2]: stall for of_step in cuts}), truth)


def _idle(cause: str, *also: str) -> Truth:
    parts = [IDLE_WORDS[each] for each in (cause, *also)]
    return Truth(
        named={"idle_grew": lambda data: data.get("part") in parts},
        vague={"idle_grew": lambda data: data.get("part") in ("idle", IDLE_OTHER)},
    )


def stall_in_a_range(scene: Scene, ms: float) -> Plant | None:
    """The host is busy in a function of its own before it launches more."""
    name = "metrics.py(12): log_metrics"
    parts = (IDLE_WORDS["launching"], IDLE_OTHER, "idle")
    truth = Truth(
        named={"host_range": is_op(name)},
        vague={"idle_grew": lambda data: data.get("part") in parts},
    )
    return _stalled(scene, ms, {"cat": "cpu_op", "name": name}, truth)


def waits_for_data(scene: Scene, ms: float) -> Plant | None:
    """The same in the data loader."""
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    return _stalled(scene, ms, {"cat": "user_annotation", "name": name}, _idle("data"))


def compiles(scene: Scene, ms: float) -> Plant | None:
    """The same in the compiler."""
    event = {"cat": "user_annotation", "name": "_compile.compile_inner (dynamo_timed)"}
    return _stalled(scene, ms, event, _idle("compilation"))


def allocates(scene: Scene, ms: float) -> Plant | None:
    """The same while memory is allocated."""
    return _stalled(scene, ms, {"cat": "cuda_runtime", "name": "cudaMalloc"}, _idle("allocation"))


def synchronises(scene: Scene, ms: float) -> Plant | None:
    """The host waits while the device runs, and launches late afterwards."""
    works = scene.tape.works
    cuts = [
        [place for place in of_step if scene.tape.launched_at(works[place]) < works[place - 1].end]
        for of_step in scene.cuts()
    ]
    if not cuts or not all(cuts):
        return None
    event: Json = {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize"}
    stalls: dict[int, tuple[float, Json | None]] = {}
    for of_step in cuts:
        each = of_step[:: max(len(of_step) // 8, 1)]
        for place in each:
            stalls[place] = (ms * US_PER_MS / len(each), event)
    return Plant(Edit(stalls=stalls), _idle("synchronisation"))


def launches_slowly(scene: Scene, ms: float) -> Plant | None:
    """The host takes a little longer before each launch."""
    cuts = scene.cuts()
    if not cuts or min(map(len, cuts)) < 20:
        return None
    stalls: dict[int, tuple[float, Json | None]] = {
        place: (ms * US_PER_MS / len(of_step), None) for of_step in cuts for place in of_step
    }
    return Plant(Edit(stalls=stalls), _idle("launching"))


def one_slow_step(scene: Scene, ms: float) -> Plant | None:
    """All of it in one of the steps: the host stalls, or else a kernel runs longer."""
    if len(scene.profile.step_times_ms) < 4:
        return None
    step = scene.chance.randrange(1, scene.steps)
    more = ms * len(scene.profile.step_times_ms) * US_PER_MS
    slow: dict[str, Check] = {"one_slow_step": always}
    cuts = scene.cuts()
    if cuts and scene.chance.random() < 0.5:
        place = cuts[step][len(cuts[step]) // 2]
        return Plant(Edit(stalls={place: (more, None)}), Truth(named=slow))
    works = scene.tape.works
    inside = [place for place in scene.compute() if scene.tape.step_of(works[place]) == step]
    longest = max(inside, key=lambda place: works[place].time)
    truth = Truth(named=slow, vague={"one_op": is_op(works[longest].name)})
    return Plant(Edit(longer={longest: more}), truth)


KINDS: dict[str, Maker] = {
    "a kernel slower": kernel_slower,
    "a kernel more often": kernel_more_often,
    "one layer slower": one_layer_slower,
    "all slower (clocks)": clocks,
    "a lost fusion": lost_fusion,
    "every kernel twice": every_kernel_twice,
    "products slower": products_slower,
    "one phase slower": one_phase_slower,
    "a new kernel": a_new_kernel,
    "another, slower kernel": another_kernel,
    "optimizer slower": optimizer_slower,
    "copies slower": copies_slower,
    "an op beside copies": op_beside_copies,
    "communication slower": communication_slower,
    "communication less hidden": communication_less_hidden,
    "a stall in a named range": stall_in_a_range,
    "launches slowly": launches_slowly,
    "a synchronisation": synchronises,
    "waits for data": waits_for_data,
    "allocation": allocates,
    "compilation": compiles,
    "one slow step": one_slow_step,
}

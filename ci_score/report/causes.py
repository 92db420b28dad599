"""Causes and advice → sentences: the op, the kind of work, the phase or layers, and the times."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ci_score.model.explanation import (
    BACKWARD,
    BETWEEN_LOADING,
    COMMUNICATION,
    COPIES,
    IDLE,
    IDLE_WORDS,
)
from ci_score.model.lists import listed
from ci_score.model.metrics import counts_agree, significant, three_digits
from ci_score.model.reasons import Why
from ci_score.report.kernel_names import is_hollow, op_names, short_name
from ci_score.report.name_words import LONGEST_NAME

# What an operator's name has beside its work: the type of its numbers, and the pass.
_INNER = re.compile(r"( \(\w+\)|_backward(_data)?|_forward)*$")
_SHOWN_WORK = 3
_KINDS = {
    "gemm": "matrix product",
    "conv": "convolution",
    "softmax_loss": "softmax and loss",
    "comm": "communication",
    "memcpy": "copy",
    "memset": "fill",
    "other": "other",
    "": "other",
}
_IDLE = {
    IDLE_WORDS["data"]: "the device waits for the data loader: {}",
    IDLE_WORDS["compilation"]: "something is compiled anew within the steps: {}",
    IDLE_WORDS["allocation"]: "the device waits while memory is allocated: {}",
    IDLE_WORDS["synchronisation"]: (
        "the host waits for the device before it launches more (a synchronisation): {} idle"
    ),
    IDLE_WORDS["launching"]: "the host launches work too slowly: the device waits {}",
}
_LESS_IDLE = {
    IDLE_WORDS["data"]: "the device waits less for the data loader: {}",
    IDLE_WORDS["compilation"]: "less is compiled within the steps: {}",
    IDLE_WORDS["allocation"]: "the device waits less for memory to be allocated: {}",
    IDLE_WORDS["synchronisation"]: (
        "the host waits less for the device before it launches more: {} idle"
    ),
    IDLE_WORDS["launching"]: "the host launches work faster: the device waits {}",
}
# A part of the step -> what it is, and what to do about it.
_ADVICE = {
    COMMUNICATION: (
        "communication that nothing hides",
        "overlap it with the backward (bucket sizes, prefetching), or send less",
    ),
    IDLE_WORDS["data"]: (
        "waiting for the data loader",
        "try more workers, prefetching, or data that is prepared beforehand",
    ),
    IDLE_WORDS["compilation"]: (
        "compiling within the steps",
        "keep shapes the same, mark dynamic ones, or warm up for longer",
    ),
    IDLE_WORDS["allocation"]: (
        "allocating memory",
        "keep shapes the same, or let the allocator grow its segments (expandable_segments)",
    ),
    IDLE_WORDS["synchronisation"]: (
        "a device without work after the host waited for it",
        "read losses and metrics less often (.item(), .cpu(), printing a tensor)",
    ),
    IDLE_WORDS["launching"]: (
        "waiting for the host to launch work",
        "try CUDA graphs, torch.compile, fused optimizers or larger batches",
    ),
    COPIES: (
        "copies that nothing hides",
        "pin memory and copy asynchronously, or keep the data on the device",
    ),
    IDLE: (
        "a device without work",
        "see in the trace whether it waits for data, for launches or for a synchronisation",
    ),
}


def more(value: float) -> str:
    """`+11.8 ms`, of a part that grew; `−11.8 ms` of one that shrank."""
    return f"{'+' if value >= 0 else '−'}{significant(abs(value), 'ms')}"


def _ms(value: float) -> str:
    return significant(max(value, 0.0), "ms")


def _times(base_ms: float, head_ms: float) -> str:
    return f"{_ms(base_ms)} → {_ms(head_ms)}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else three_digits(value)


def _quoted(name: str) -> str:
    return f"'{name[:LONGEST_NAME]}'"


def _called(name: str, origin: Sequence[str]) -> str:
    """`'aten::softmax' · 'softmax_warp_forward<…>'`."""
    return " · ".join(f"'{part}'" for part in op_names(name, origin))


def _kind(kind: str) -> str:
    return _KINDS.get(kind, kind)


def _place(
    layers: str | None, repeats: int | None, direction: str | None, phase: str | None
) -> str:
    """` in the backward of layers 0–23`; empty if the place is not known."""
    if layers:
        several = "s" if "–" in layers else ""
        words = f"repeat{several} {layers} of {repeats}" if repeats else f"layer{several} {layers}"
        return f" in the {direction} of {words}" if direction else f" in {words}"
    if not phase:
        return ""
    if phase.lower() in ("forward", "fwd", "backward", "bwd"):
        return f" in the {phase.lower()}"
    return f" in phase {_quoted(phase)}"


# --- ops and kinds of work ------------------------------------------------------------------------


def _op(
    name: str,
    origin: Sequence[str],
    status: str,
    was: str | None,
    base_ms: float,
    head_ms: float,
    base_count: float | None,
    head_count: float | None,
    more_launches: bool | None,
) -> str:
    called = _called(name, origin)
    if status in ("new", "gone"):
        count = head_count if status == "new" else base_count
        launches = f", {_count(count)} launches a step" if count else ""
        return f"{called} is {status}{launches}"
    if was and status == "renamed" and short_name(was) != short_name(name):
        called += f" (was '{short_name(was)}')"
    times = _times(base_ms, head_ms)
    if not base_count or not head_count or more_launches is None:
        return f"{called} takes {times} a step"
    if counts_agree(base_count, head_count):
        return f"{called} takes {times} at the same {_count(head_count)} launches"
    counts = f"{_count(base_count)} → {_count(head_count)}"
    if more_launches:
        return f"{called} is launched {counts} times a step"
    each = _times(base_ms / base_count, head_ms / head_count)
    return f"{called} takes {each} a launch ({counts} launches)"


def _one_op(
    layers: str | None,
    repeats: int | None,
    direction: str | None,
    phase: str | None,
    **op: object,
) -> str:
    return _op(**op) + _place(layers, repeats, direction, phase)  # type: ignore[arg-type]


def _one_kind(
    kind: str,
    name: str | None,
    base_ms: float,
    head_ms: float,
    base_count: float | None,
    head_count: float | None,
    **place: Any,
) -> str:
    of_name = f" ({_quoted(name)})" if name and not is_hollow(name) else ""
    words = f"{_kind(kind)} kernels{of_name} take {_times(base_ms, head_ms)}"
    if base_count is not None and head_count is not None:
        if counts_agree(base_count, head_count):
            words += f" at the same {_count(head_count)} launches"
        else:
            words += f", launches {_count(base_count)} → {_count(head_count)}"
    return words + _place(**place)


def _lost_fusion(
    attention: str | None, kinds: Sequence[str], before: float, now: float, **place: Any
) -> str:
    words = "a fusion was lost"
    if attention:
        work = listed(list(dict.fromkeys(map(_kind, kinds))))
        name = short_name(attention)
        words = f"the fused attention '{name}' is gone and {work} kernels do its work"
    return f"{words}{_place(**place)}: launches {_count(before)} → {_count(now)}"


def _more_of_kind(kind: str, more: float, **place: Any) -> str:
    return f"{_count(more)} more {_kind(kind)} kernels a step{_place(**place)}"


def _more_of_op(name: str, origin: Sequence[str], before: float, now: float, **place: Any) -> str:
    launched = f"launched {_count(before)} → {_count(now)}"
    return f"{_called(name, origin)} is {launched} times a step{_place(**place)}"


def _fused(attention: str | None, before: float, now: float, **more: Any) -> str:
    place = _place(**{key: value for key, value in more.items() if key != "kinds"})
    words = f"fused{place}"
    if attention:
        words = f"the fused attention '{short_name(attention)}' does the work{place}"
    return f"{words}: {_count(before)} → {_count(now)} launches"


def _every_kernel(times: float, base_count: float, head_count: float) -> str:
    often = "twice as often" if round(times, 1) == 2 else f"{three_digits(times)} times as often"
    return f"every kernel runs {often}: {_count(base_count)} → {_count(head_count)} launches a step"


def _every_kernel_less(times: float, base_count: float, head_count: float) -> str:
    often = "half as often" if round(times, 1) == 2 else f"{three_digits(times)} times less often"
    return f"every kernel runs {often}: {_count(base_count)} → {_count(head_count)} launches a step"


def _layers(
    base_ms: float, head_ms: float, layers: str, repeats: int | None, direction: str | None,
    phase: str | None,
) -> str:  # fmt: skip
    """`layer 7 takes 1.20 ms → 2.40 ms in the forward`."""
    where = _place(layers, repeats, None, phase).removeprefix(" in ")
    takes = "take" if "–" in layers else "takes"
    in_direction = f" in the {direction}" if direction else ""
    return f"{where} {takes} {_times(base_ms, head_ms)}{in_direction}"


def _all_kernels(share: float) -> str:
    return (
        f"every kernel takes about {100 * share:.0f} % longer at the same number of launches, so"
        " look at the device's clocks and power before the code"
    )


def _all_kernels_less(share: float) -> str:
    less = share / (1 + share)
    return (
        f"every kernel takes about {100 * less:.0f} % less time at the same number of launches,"
        " which the device's clocks or power may explain and the code hardly"
    )


# --- the other parts of a step --------------------------------------------------------------------


def _communication(at_as_many_launches: str) -> Callable[..., str]:
    def words(
        base_ms: float | None,
        head_ms: float | None,
        exposed_base_ms: float,
        exposed_head_ms: float,
        base_count: float | None,
        head_count: float | None,
    ) -> str:
        exposed = f"{_times(exposed_base_ms, exposed_head_ms)} are not hidden behind compute"
        if base_ms is None or head_ms is None:
            return f"communication: {exposed}"
        takes = f"communication takes {_times(base_ms, head_ms)}"
        if not head_count or not base_count or head_count == base_count:
            return f"{takes}{at_as_many_launches}; {exposed}"
        return f"{takes}, launches {_count(base_count)} → {_count(head_count)}; {exposed}"

    return words


def _overlaps(more_or_less: str) -> Callable[..., str]:
    def words(in_all_ms: float, exposed_base_ms: float, exposed_head_ms: float) -> str:
        exposed = f"{_times(exposed_base_ms, exposed_head_ms)} are not hidden behind compute"
        overlaps = f"communication overlaps {more_or_less} with compute"
        return f"{overlaps}: {exposed}, of {_ms(in_all_ms)} in all"

    return words


def _copies(part_base_ms: float, part_head_ms: float, name: str | None, **op: object) -> str:
    words = f"copies that nothing hides: {_times(part_base_ms, part_head_ms)}"
    return words if name is None else f"{words}, {_op(name, **op)}"  # type: ignore[arg-type]


def _idle(
    part: str,
    base_ms: float,
    head_ms: float,
    recompiles_base: float | None,
    recompiles_head: float | None,
    same_work: bool,
) -> str:
    words = _IDLE.get(part, "the device is idle for longer: {}").format(_times(base_ms, head_ms))
    if recompiles_base is not None and recompiles_head is not None:
        return f"{words}; recompiles {_count(recompiles_base)} → {_count(recompiles_head)}"
    return f"{words}, while its work takes as long as before" if same_work else words


def _less_idle(part: str, base_ms: float, head_ms: float, **_: object) -> str:
    return _LESS_IDLE.get(part, "the device is idle for less time: {}").format(
        _times(base_ms, head_ms)
    )


def _host_range(name: str, base_ms: float, head_ms: float) -> str:
    return (
        f"the device waits while the host is in {_quoted(name)}: {_times(base_ms, head_ms)} a step"
    )


def _host_range_less(name: str, base_ms: float, head_ms: float) -> str:
    waits = f"the device waits less while the host is in {_quoted(name)}"
    return f"{waits}: {_times(base_ms, head_ms)} a step"


def _slow_step(steps: int, slowest_ms: float, usual_ms: float) -> str:
    return (
        f"one of {steps} steps takes {_ms(slowest_ms)}, where {_ms(usual_ms)} is usual, and no"
        " step of the base does so"
    )


def _no_slow_step(steps: int, slowest_ms: float, usual_ms: float) -> str:
    return (
        f"of {steps} steps of the base one took {_ms(slowest_ms)}, where {_ms(usual_ms)} is usual,"
        " and no step does so now"
    )


def _rank(rank: int, base_ms: float, head_ms: float, ranks: int) -> str:
    which = f"rank {rank} of {ranks}"
    return f"{which} computes for longer, {_times(base_ms, head_ms)} a step, and the others wait"


def _faster_rank(rank: int, base_ms: float, head_ms: float, ranks: int) -> str:
    which = f"rank {rank} of {ranks}"
    return (
        f"{which}, for which the others wait, computes for less: {_times(base_ms, head_ms)} a step"
    )


def _phase(part: str, **place: Any) -> str:
    return f"most of it is{_place(**place) or f' in phase {_quoted(part)}'}"


def _two_parts(parts: Sequence[str], grew_ms: Sequence[float]) -> str:
    both = zip(parts, grew_ms, strict=True)
    return f"most of it is {listed([f'{name} ({more(ms)})' for name, ms in both])}"


# --- a step without a device ----------------------------------------------------------------------


def _operator(name: str) -> str:
    """`scaled_dot_product_attention`, as it is called in Python; with the type of its numbers."""
    return _quoted(name.removeprefix("aten::"))


def _work(names: Sequence[str]) -> str:
    """`bmm, softmax and masked_fill`: what operators do, forward and backward alike."""
    bare = [_INNER.sub("", name.removeprefix("aten::")).strip("_") for name in names]
    return listed(list(dict.fromkeys(filter(None, bare)))[:_SHOWN_WORK])


def _all_operators(share: float) -> str:
    return (
        f"every operator takes about {100 * share:.0f} % longer at the same number of calls, so"
        " look at the machine before the code"
    )


def _all_operators_less(share: float) -> str:
    less = share / (1 + share)
    return (
        f"every operator takes about {100 * less:.0f} % less time at the same number of calls,"
        " which the machine may explain and the code hardly"
    )


def _replaced(gone: str, names: Sequence[str], base_ms: float, head_ms: float) -> str:
    do = "does" if len(names) == 1 else "do"
    return f"{_operator(gone)} is gone; {_work(names)} {do} its work: {_times(base_ms, head_ms)}"


def _replaces(gone: str, names: Sequence[str], base_ms: float, head_ms: float) -> str:
    return f"{_operator(gone)} does the work of {_work(names)}: {_times(base_ms, head_ms)}"


def _other_type(
    names: Sequence[str],
    base_type: str,
    head_type: str,
    base_ms: float,
    head_ms: float,
    **place: Any,
) -> str:
    computes = "computes" if len(names) == 1 else "compute"
    in_type = f"{_work(names)} {computes} in {head_type} instead of {base_type}"
    return f"{in_type}{_place(**place)}: {_times(base_ms, head_ms)} a step"


def _one_call(
    name: str, base_calls: float, head_calls: float, base_ms: float, head_ms: float
) -> str:
    called = _operator(name)
    if not base_calls or not head_calls:
        is_new = "new" if head_calls else "gone"
        calls = _count(head_calls or base_calls)
        return f"{called} is {is_new}, {calls} calls and {_ms(head_ms or base_ms)} a step"
    times = _times(base_ms, head_ms)
    if counts_agree(base_calls, head_calls):
        return f"{called} takes {times} at the same {_count(head_calls)} calls a step"
    return f"{called} is called {_count(base_calls)} → {_count(head_calls)} times a step: {times}"


def _between_operators(
    part: str, last_op: str | None, next_op: str | None, base_ms: float, head_ms: float
) -> str:
    times = _times(base_ms, head_ms)
    if part == BETWEEN_LOADING:
        return f"the step waits for the data loader: {times}"
    if part == COMMUNICATION:
        return f"the step waits for communication: {times}"
    ends = [_of_gap(name) for name in (last_op, next_op) if name]
    where = f" between {ends[0]} and {ends[1]}" if len(ends) > 1 else ""
    # A short gap counts for none: 0 ms would say too much.
    spent = times if base_ms else _ms(head_ms)
    return f"the host spends {spent} a step in no operator{where}: slow Python?"


def _of_gap(name: str) -> str:
    return "the backward" if name == BACKWARD else _operator(name)


def _host_in_range(name: str, base_ms: float, head_ms: float) -> str:
    return f"the host is in {_quoted(name)} for {_times(base_ms, head_ms)} a step"


def _more_calls(
    names: Sequence[str], base_calls: Sequence[float], head_calls: Sequence[float]
) -> str:
    rows = zip(names, base_calls, head_calls, strict=True)
    return listed([_more_often(*row) for row in rows])


def _more_often(name: str, before: float, now: float) -> str:
    if not before:
        return f"{_operator(name)} is new, {_count(now)} calls a step"
    return f"{_operator(name)} is called {_count(before)} → {_count(now)} times a step"


CAUSES: dict[Why, str | Callable[..., str]] = {
    Why.ALL_KERNELS: _all_kernels,
    Why.LOST_FUSION: _lost_fusion,
    Why.ONE_OP: _one_op,
    Why.ONE_KIND: _one_kind,
    Why.EVERY_KERNEL: _every_kernel,
    Why.LAYERS_GREW: _layers,
    Why.COMPUTE_GREW: lambda **place: f"compute grew{_place(**place)}",
    Why.COMMUNICATION_GREW: _communication(
        " at as many launches: slower links, or a rank that the others wait for"
    ),
    Why.OVERLAPS_LESS: _overlaps("less"),
    Why.COPIES_GREW: _copies,
    Why.IDLE_GREW: _idle,
    Why.HOST_RANGE: _host_range,
    Why.ONE_SLOW_STEP: _slow_step,
    Why.ONE_RANK: _rank,
    Why.PHASE_GREW: _phase,
    Why.TWO_PARTS: _two_parts,
    Why.MORE_OF_OP: _more_of_op,
    Why.MORE_OF_KIND: _more_of_kind,
    Why.ALL_OPERATORS: _all_operators,
    Why.REPLACED: _replaced,
    Why.OTHER_TYPE: _other_type,
    Why.ONE_CALL: _one_call,
    Why.BETWEEN_OPERATORS: _between_operators,
    Why.HOST_IN_RANGE: _host_in_range,
    Why.MORE_CALLS: _more_calls,
    Why.FASTER: "{cause}",
}
# What a step gained by; the other causes read the same both ways.
GAINS: dict[Why, str | Callable[..., str]] = {
    Why.ALL_KERNELS: _all_kernels_less,
    Why.EVERY_KERNEL: _every_kernel_less,
    Why.ALL_OPERATORS: _all_operators_less,
    Why.REPLACED: _replaces,
    Why.LOST_FUSION: _fused,
    Why.COMPUTE_GREW: lambda **place: f"compute takes less time{_place(**place)}",
    Why.COMMUNICATION_GREW: _communication(""),
    Why.OVERLAPS_LESS: _overlaps("more"),
    Why.IDLE_GREW: _less_idle,
    Why.HOST_RANGE: _host_range_less,
    Why.ONE_SLOW_STEP: _no_slow_step,
    Why.ONE_RANK: _faster_rank,
}


# --- what to try ----------------------------------------------------------------------------------


def _large_part(part: str, ms: float, share: float) -> str:
    what, to_do = _ADVICE[part]
    return f"{significant(ms, 'ms')} or {100 * share:.0f} % of the step is {what}: {to_do}."


def _optimizer(ms: float, launches: float) -> str:
    return (
        f"The optimizer takes {significant(ms, 'ms')} in"
        f" {three_digits(launches)} launches: try its fused or foreach form."
    )


TO_TRY: dict[Why, str | Callable[..., str]] = {
    Why.LARGE_PART: _large_part,
    Why.MANY_OPTIMIZER_KERNELS: _optimizer,
}

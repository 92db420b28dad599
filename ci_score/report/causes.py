"""Causes and advice → sentences: the op, the kind of work, the phase or layers, and the times.

A name is marked by `quoted_name`, and each renderer shows it in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ci_score.model.explanation import COMMUNICATION, COPIES, IDLE, IDLE_WORDS
from ci_score.model.lists import listed
from ci_score.model.metrics import counts_agree, percent_digits, significant
from ci_score.model.reasons import Why
from ci_score.report.cause_words import count_words as _count
from ci_score.report.cause_words import longer_words as _longer
from ci_score.report.cause_words import ms_words as _ms
from ci_score.report.cause_words import place_words as _place
from ci_score.report.cause_words import quoted_name as _quoted
from ci_score.report.cause_words import times_words as _times
from ci_score.report.kernel_names import is_hollow, op_names, short_name
from ci_score.report.numbers import delta_milliseconds as more
from ci_score.report.numbers import multiple

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
    IDLE_WORDS["launching"]: "the device waits for the host to launch work: {}",
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


def _called(name: str, origin: Sequence[str]) -> str:
    """`'aten::softmax' · 'softmax_warp_forward<…>'`."""
    return " · ".join(map(_quoted, op_names(name, origin)))


def _kind(kind: str) -> str:
    return _KINDS.get(kind, kind)


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
        called += f" (was {_quoted(short_name(was))})"
    if not base_count or not head_count or more_launches is None:
        return f"mostly {called}: {_longer(base_ms, head_ms, ' a step')}"
    if counts_agree(base_count, head_count):
        return f"mostly {called}: {_longer(base_ms, head_ms)}, same {_launches(head_count)}"
    counts = f"{_count(base_count)} → {_count(head_count)}"
    if more_launches:
        return f"{called} is launched {counts} times a step"
    each = _longer(base_ms / base_count, head_ms / head_count, " a launch")
    return f"mostly {called}: {each}, launches {counts}"


def _launches(count: float) -> str:
    return "launch" if count == 1 else f"{_count(count)} launches"


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
            words += f", same {_launches(head_count)}"
        else:
            words += f", launches {_count(base_count)} → {_count(head_count)}"
    return words + _place(**place)


def _lost_fusion(
    attention: str | None, kinds: Sequence[str], before: float, now: float, **place: Any
) -> str:
    words = "a fusion was lost"
    if attention:
        work = listed(list(dict.fromkeys(map(_kind, kinds))))
        name = _quoted(short_name(attention))
        words = f"the fused attention {name} is gone and {work} kernels do its work"
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
        words = f"the fused attention {_quoted(short_name(attention))} does the work{place}"
    return f"{words}: {_count(before)} → {_count(now)} launches"


def _every_kernel(times: float, base_count: float, head_count: float) -> str:
    how = ("twice as", "as") if head_count > base_count else ("half as", "less")
    often = how[0] if round(times, 1) == 2 else f"{multiple(times)} {how[1]}"
    launches = f"{_count(base_count)} → {_count(head_count)} launches a step"
    return f"every kernel runs {often} often: {launches}"


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
        f"every kernel takes about {100 * share:.0f} % longer with the same number of launches,"
        " so look at the device's clocks and power before the code"
    )


def _all_kernels_less(share: float) -> str:
    less = share / (1 + share)
    return (
        f"every kernel takes about {100 * less:.0f} % less time with the same number of launches,"
        " which the device's clocks or power may explain and the code hardly"
    )


# --- the other parts of a step --------------------------------------------------------------------


def _communication(
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
    if head_count and base_count and head_count != base_count:
        return f"{takes}, launches {_count(base_count)} → {_count(head_count)}; {exposed}"
    if exposed_head_ms > exposed_base_ms:
        takes += (
            " with the same number of launches: slower links, or a rank that the others wait for"
        )
    return f"{takes}; {exposed}"


def _overlaps(in_all_ms: float, exposed_base_ms: float, exposed_head_ms: float) -> str:
    exposed = f"{_times(exposed_base_ms, exposed_head_ms)} are not hidden behind compute"
    how = "less" if exposed_head_ms > exposed_base_ms else "more"
    return f"communication overlaps {how} with compute: {exposed}, of {_ms(in_all_ms)} in all"


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
    words = _IDLE.get(part, "the device is idle: {}").format(_times(base_ms, head_ms))
    if recompiles_base is not None and recompiles_head is not None:
        return f"{words}; recompiles {_count(recompiles_base)} → {_count(recompiles_head)}"
    return f"{words}, while its work takes as long as before" if same_work else words


def _host_range(name: str, base_ms: float, head_ms: float) -> str:
    return (
        f"the device waits while the host is in {_quoted(name)}: {_times(base_ms, head_ms)} a step"
    )


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
    how = "for longer" if head_ms > base_ms else "for less"
    computes = f"computes {how}: {_times(base_ms, head_ms)} a step"
    return f"rank {rank} of {ranks}, for which the others wait, {computes}"


def _phase(part: str, **place: Any) -> str:
    return f"most of it is{_place(**place) or f' in phase {_quoted(part)}'}"


def _two_parts(parts: Sequence[str], grew_ms: Sequence[float]) -> str:
    both = zip(parts, grew_ms, strict=True)
    return f"most of it is {listed([f'{name} ({more(ms)})' for name, ms in both])}"


CAUSES: dict[Why, str | Callable[..., str]] = {
    Why.ALL_KERNELS: _all_kernels,
    Why.LOST_FUSION: _lost_fusion,
    Why.ONE_OP: _one_op,
    Why.ONE_KIND: _one_kind,
    Why.EVERY_KERNEL: _every_kernel,
    Why.LAYERS_GREW: _layers,
    Why.COMPUTE_GREW: lambda **place: f"compute grew{_place(**place)}",
    Why.COMMUNICATION_GREW: _communication,
    Why.OVERLAPS_LESS: _overlaps,
    Why.COPIES_GREW: _copies,
    Why.IDLE_GREW: _idle,
    Why.HOST_RANGE: _host_range,
    Why.ONE_SLOW_STEP: _slow_step,
    Why.ONE_RANK: _rank,
    Why.PHASE_GREW: _phase,
    Why.TWO_PARTS: _two_parts,
    Why.MORE_OF_OP: _more_of_op,
    Why.MORE_OF_KIND: _more_of_kind,
    Why.FASTER: "{cause}",
}
# What a step gained by; the other causes read the same both ways.
GAINS: dict[Why, str | Callable[..., str]] = {
    Why.ALL_KERNELS: _all_kernels_less,
    Why.LOST_FUSION: _fused,
    Why.COMPUTE_GREW: lambda **place: f"compute takes less time{_place(**place)}",
    Why.ONE_SLOW_STEP: _no_slow_step,
}


# --- what to try ----------------------------------------------------------------------------------


def _large_part(part: str, ms: float, share: float) -> str:
    what, to_do = _ADVICE[part]
    return f"{significant(ms, 'ms')} or {percent_digits(share)} % of the step is {what}: {to_do}."


def _optimizer(ms: float, launches: float) -> str:
    return (
        f"The optimizer takes {significant(ms, 'ms')} in"
        f" {_count(launches)} launches: try its fused or foreach form."
    )


TO_TRY: dict[Why, str | Callable[..., str]] = {
    Why.LARGE_PART: _large_part,
    Why.MANY_OPTIMIZER_KERNELS: _optimizer,
}

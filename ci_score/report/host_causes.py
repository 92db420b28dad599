"""Causes in a step without a device → sentences: operators as Python calls them, and pauses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ci_score.model.explanation import BACKWARD, BETWEEN_LOADING, COMMUNICATION
from ci_score.model.lists import listed
from ci_score.model.metrics import counts_agree
from ci_score.model.reasons import Why
from ci_score.model.sums import plain_sum
from ci_score.report.cause_words import count_words as _count
from ci_score.report.cause_words import longer_words as _longer
from ci_score.report.cause_words import ms_words as _ms
from ci_score.report.cause_words import place_words as _place
from ci_score.report.cause_words import quoted_name as _quoted
from ci_score.report.cause_words import times_words as _times

# What an operator's name has beside its work: the type of its numbers, and the pass.
_INNER = re.compile(r"( \(\w+\)|_backward(_data)?|_forward)*$")
_SHOWN_WORK = 3
_WAITS = {BETWEEN_LOADING: "the data loader", COMMUNICATION: "communication"}


def _operator(name: str) -> str:
    """`scaled_dot_product_attention`, as it is called in Python; with the type of its numbers."""
    return _quoted(name.removeprefix("aten::"))


def _work(names: Sequence[str]) -> str:
    """`bmm, softmax and masked_fill`: what operators do, forward and backward alike."""
    bare = [_INNER.sub("", name.removeprefix("aten::")).strip("_") for name in names]
    return listed(list(dict.fromkeys(filter(None, bare)))[:_SHOWN_WORK])


def _all_operators(share: float) -> str:
    return (
        f"every operator takes about {100 * share:.0f} % longer with the same number of calls, so"
        " look at the machine before the code"
    )


def _all_operators_less(share: float) -> str:
    less = share / (1 + share)
    return (
        f"every operator takes about {100 * less:.0f} % less time with the same number of calls,"
        " which the machine may explain and the code hardly"
    )


def _replaced(gone: str, names: Sequence[str], base_ms: float | None, head_ms: float | None) -> str:
    words = f"{_operator(gone)} is gone; {_work(names)} do its work"
    return words if base_ms is None or head_ms is None else f"{words}: {_times(base_ms, head_ms)}"


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
    work = _work(names)
    computes = "compute" if " and " in work else "computes"
    in_type = f"{work} {computes} in {head_type} instead of {base_type}"
    return f"{in_type}{_place(**place)}: {_times(base_ms, head_ms)} a step"


def _one_call(
    name: str,
    phase: str | None,
    base_calls: float,
    head_calls: float,
    base_ms: float,
    head_ms: float,
) -> str:
    called = _operator(name)
    if not base_calls or not head_calls:
        is_new = "new" if head_calls else "gone"
        calls = _count(head_calls or base_calls)
        return f"{called} is {is_new}, {calls} calls and {_ms(head_ms or base_ms)} a step"
    if counts_agree(base_calls, head_calls):
        calls = "call" if head_calls == 1 else "calls"
        longer, where = _longer(base_ms, head_ms), _place(None, None, None, phase)
        return f"mostly {called}{where}: {longer}, same {_count(head_calls)} {calls} a step"
    calls = f"{_count(base_calls)} → {_count(head_calls)}"
    return f"{called} is called {calls} times a step: {_times(base_ms, head_ms)}"


def _backward(
    names: Sequence[str],
    base_calls: Sequence[float],
    head_calls: Sequence[float],
    base_ms: float | None,
    head_ms: float | None,
) -> str:
    rows = zip(names, base_calls, head_calls, strict=True)
    calls = [f"{_operator(name)} {_count(base)} → {_count(head)}" for name, base, head in rows]
    is_more = plain_sum(head_calls) > plain_sum(base_calls)
    how = "more" if is_more else "fewer"
    words = f"the backward pass goes through {how} of the same calls ({listed(calls)})"
    if base_ms is not None and head_ms is not None:
        words = f"{words}: {_times(base_ms, head_ms)} a step"
    return f"{words}; a lost detach or no_grad?" if is_more else words


def _between_operators(
    part: str, last_op: str | None, next_op: str | None, base_ms: float, head_ms: float
) -> str:
    if part in _WAITS:
        return f"the step waits for {_WAITS[part]}: {_times(base_ms, head_ms)}"
    where, why = _around(last_op, next_op), ": slow Python?" if head_ms > base_ms else ""
    return f"the host spends {_spent(base_ms, head_ms)} a step in no operator{where}{why}"


def _around(last_op: str | None, next_op: str | None) -> str:
    ends = [
        "the backward" if name == BACKWARD else _operator(name)
        for name in (last_op, next_op)
        if name
    ]
    return f" between {ends[0]} and {ends[1]}" if len(ends) > 1 else ""


def _spent(base_ms: float, head_ms: float) -> str:
    """Short pauses are not told one by one: 0 ms would say too much."""
    return _times(base_ms, head_ms) if base_ms else _ms(head_ms)


def _host_in_range(name: str, base_ms: float, head_ms: float) -> str:
    return f"the host is in {_quoted(name)} for {_spent(base_ms, head_ms)} a step"


def _more_calls(
    names: Sequence[str], base_calls: Sequence[float], head_calls: Sequence[float]
) -> str:
    rows = zip(names, base_calls, head_calls, strict=True)
    return listed([_more_often(*row) for row in rows])


def _more_often(name: str, before: float, now: float) -> str:
    if not before:
        return f"{_operator(name)} is new, {_count(now)} calls a step"
    return f"{_operator(name)} is called {_count(before)} → {_count(now)} times a step"


HOST_CAUSES: dict[Why, str | Callable[..., str]] = {
    Why.ALL_OPERATORS: _all_operators,
    Why.REPLACED: _replaced,
    Why.OTHER_TYPE: _other_type,
    Why.ONE_CALL: _one_call,
    Why.MORE_BACKWARD: _backward,
    Why.BETWEEN_OPERATORS: _between_operators,
    Why.HOST_IN_RANGE: _host_in_range,
    Why.MORE_CALLS: _more_calls,
}
# What a step gained by.
HOST_GAINS: dict[Why, Callable[..., str]] = {
    Why.ALL_OPERATORS: _all_operators_less,
    Why.REPLACED: _replaces,
}

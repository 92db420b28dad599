"""Every metric, one row each: its name, how it is printed, and its limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

# A number is printed without a record.
if TYPE_CHECKING:
    from ci_score.model.record import Judged, Measured, MetricFacts
    from ci_score.model.scorecard import Scorecard
    from ci_score.model.verdict import Change

THROUGHPUT, STEP_TIME, MEMORY = "throughput_tok_s", "step_time_ms", "peak_memory_gb"
LAUNCHES, KERNELS = "kernel_launches_per_step", "device_kernels_per_step"
HOST_OPS = "host_ops_per_step"
COUNTS = frozenset({LAUNCHES, KERNELS, HOST_OPS})
# One fact in several units: luck with one is luck with all.
OF_TOKENS = frozenset({THROUGHPUT, "mfu", "hfu"})
TIMES = frozenset({STEP_TIME}) | OF_TOKENS
MINUS = "\u2212"


class Kind(Enum):
    """Whether two runs of the same program may differ in a metric.

    They differ in a NOISY metric, and never in an EXACT one, which therefore needs no statistics.
    """

    NOISY = auto()
    EXACT = auto()


@dataclass(frozen=True, slots=True)
class Limits:
    """The worsening beyond which a metric warns, and the one beyond which it fails."""

    warn: float
    fail: float | None


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. The limits are on the delta, in the direction that is worse.

    Only the reference model's metrics have a `card_value`; that model is frozen. `reference` and
    `training` are the limits under the rules of that name, or None if not gated by default. `unit`
    comes from the policy, for a metric of the team's own.
    """

    name: str
    label: str
    show: Callable[[float], str]
    higher_is_better: bool = False
    relative: bool = True
    kind: Kind = Kind.NOISY
    card_value: Callable[[Scorecard], float] | None = None
    reference: Limits | None = None
    training: Limits | None = None
    suggested: Limits = Limits(0.05, 0.10)
    unit: str | None = None

    def value(self, case: Measured) -> float | None:
        """The case's number, or None where it was not measured."""
        if self.card_value is not None:
            return self.card_value(case.scorecard) or None
        return case.metrics.get(self.name)

    def measured(self, case: Measured) -> float | None:
        """The same where the case has measured it: a guess and an input's number are none."""
        is_claim = self.name in OF_TOKENS and not case.measures_throughput
        return None if is_claim else self.value(case)

    def delta(self, base: float, head: float) -> float | None:
        """Head's change against base; None where there is no ratio, as with a base of 0.

        In the reference's own metrics a 0 means not measured, also in the absolute one.
        """
        if not self.relative:
            is_missing = self.card_value is not None and (base <= 0 or head <= 0)
            return None if is_missing else head - base
        return (head - base) / base if base > 0 and head > 0 else None

    def worsening(self, delta: float) -> float:
        """The delta with its sign turned so that more is worse."""
        return -delta if self.higher_is_better else delta

    def score(self, value: float) -> float:
        """The value on the scale of the statistics: more is worse, ratios become differences."""
        scaled = math.log(value) if self.relative else value
        return -scaled if self.higher_is_better else scaled

    def of_score(self, score: float) -> float:
        """The value that has that score."""
        scaled = -score if self.higher_is_better else score
        return math.exp(min(scaled, 700.0)) if self.relative else scaled

    def limit_score(self, limit: float) -> float:
        """A limit on the delta as a difference of scores."""
        if not self.relative:
            return limit
        return -math.log1p(-min(limit, 0.999)) if self.higher_is_better else math.log1p(limit)

    def delta_of_score(self, difference: float) -> float:
        """A difference of scores as a delta for people, in the metric's own direction."""
        if not self.relative:
            return -difference if self.higher_is_better else difference
        return math.expm1(min(-difference if self.higher_is_better else difference, 700.0))

    def turned(
        self,
        direction: Literal["higher", "lower"] | None,
        scale: Literal["relative", "absolute"] | None,
        exact: bool | None,
    ) -> Metric:
        """The metric with the direction, scale and kind that a policy gives it."""
        return replace(
            self,
            higher_is_better=direction == "higher" if direction else self.higher_is_better,
            relative=scale == "relative" if scale else self.relative,
            kind=self.kind if exact is None else Kind.EXACT if exact else Kind.NOISY,
        )

    @property
    def shown_unit(self) -> str:
        """The unit that its numbers are shown in; empty for a count or a ratio."""
        return self.show(1.0).partition(" ")[2]

    def show_or_dash(self, value: float | None) -> str:
        """The value, or a dash if it was not measured."""
        return self.show(value) if value else "–"

    @property
    def in_points(self) -> bool:
        """Whether its change is in points: it is a share, and judged by its difference."""
        return not self.relative and self.show is _percent

    @property
    def own_unit(self) -> str | None:
        """The unit in which a bound of it can be given, where its name tells one."""
        return next((unit for unit in ("ms", "GB") if self.name.endswith(f"_{unit.lower()}")), None)

    def show_delta(self, delta: float, beside: Iterable[float] = ()) -> str:
        """The change as text: in per cent, in points (of a share), or in the metric's unit.

        It stays on the same side of the deltas `beside` it, such as the limits, as it is.
        """
        if not self.relative and not self.in_points:
            return signed(delta, self.show(abs(delta)))
        unit = "%" if self.relative else "points"
        return f"{signed(delta, percent_digits(abs(delta), map(abs, beside)))} {unit}"

    def show_limit(self, limit: float) -> str:
        """A limit in the direction that is worse: `+10 %`, `−5 points`."""
        return self.show_delta(-limit if self.higher_is_better else limit, (limit,))


def significant(value: float, unit: str) -> str:
    """A number with three significant digits: `1.62 k tok/s`, `375 ms`, `0.0120 ms`."""
    prefix = ""
    if unit != "ms":
        for factor, name in ((1e12, "T "), (1e9, "G "), (1e6, "M "), (1e3, "k ")):
            if abs(value) >= factor:
                value, prefix = value / factor, name
                break
    return f"{three_digits(value)} {prefix}{unit}"


def three_digits(value: float) -> str:
    """A number with three significant digits: `1.01`, `10.0`, `375`; none has an exponent."""
    size = abs(value)
    if size == 0:
        return "0"
    sign = MINUS if value < 0 else ""
    if size < LEAST_SHOWN:
        return f"<{LEAST_SHOWN}"
    if size > MOST_SHOWN:
        return f"{sign}over {MOST_SHOWN:,.0f}"
    decimals = next(places for least, places in _DECIMALS if size >= least)
    return f"{sign}{size:,.{decimals}f}"


# What is nearer to 0 or further away is not told more exactly.
LEAST_SHOWN, MOST_SHOWN = 0.001, 1e15
# 99.96 has no decimals: it is shown as 100.
_DECIMALS = ((99.95, 0), (9.995, 1), (0.9995, 2), (0.09995, 3), (0.009995, 4), (0, 5))
_MOST_PLACES = 6


def percent_digits(share: float, beside: Iterable[float] = ()) -> str:
    """A share as people say it: `48`, `9`, `4.3`, without its sign and unit.

    From ten per cent on without decimals; but with as many as it takes to stay on its own side of
    the shares `beside` it.
    """
    if share * 100 > MOST_SHOWN:
        return three_digits(share * 100)
    limits = [limit for limit in beside if limit != share]
    for places in range(0 if share >= 0.0995 else 1, _MOST_PLACES):
        shown = round(share * 100, places)
        if all((shown - limit * 100) * (share - limit) > 0 for limit in limits):
            break
    text = f"{share * 100:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed(value: float, shown: str) -> str:
    """The text of a change's size with its sign; what is shown as nothing has none."""
    if shown.startswith("<") or not any(digit in shown for digit in "123456789"):
        return shown
    return f"{'+' if value >= 0 else MINUS}{shown}"


def _percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def _count(value: float) -> str:
    if abs(value) > MOST_SHOWN:
        return three_digits(value)
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:,.1f}"


def _in(unit: str) -> Callable[[float], str]:
    return lambda value: significant(value, unit) if unit else three_digits(value)


METRICS: tuple[Metric, ...] = (
    Metric(
        THROUGHPUT,
        "Throughput per device",
        _in("tok/s"),
        higher_is_better=True,
        card_value=lambda card: card.throughput_tok_s,
        reference=Limits(0.10, 0.20),
        training=Limits(0.03, 0.05),
    ),
    Metric(
        STEP_TIME,
        "Step time",
        _in("ms"),
        card_value=lambda card: card.step_time_ms,
        reference=Limits(0.10, 0.20),
        suggested=Limits(0.03, 0.05),
    ),
    Metric(
        "wall_coverage",
        "Wall coverage",
        _percent,
        higher_is_better=True,
        relative=False,
        card_value=lambda card: card.wall_coverage,
        reference=Limits(0.05, None),
    ),
    Metric("mfu", "MFU", _percent, higher_is_better=True, suggested=Limits(0.03, 0.05)),
    Metric("hfu", "HFU", _percent, higher_is_better=True, suggested=Limits(0.03, 0.05)),
    Metric(
        MEMORY,
        "Peak memory",
        _in("GB"),
        kind=Kind.EXACT,
        training=Limits(0.02, 0.05),
    ),
    Metric(
        LAUNCHES,
        "Kernel launches per step",
        _count,
        kind=Kind.EXACT,
        training=Limits(0.02, 0.10),
    ),
    Metric(
        KERNELS,
        "Device kernels per step",
        _count,
        kind=Kind.EXACT,
        training=Limits(0.02, 0.10),
    ),
    Metric(
        HOST_OPS,
        "Host operators per step",
        _count,
        kind=Kind.EXACT,
        # A copy a layer is a few operators among thousands; it never comes about by chance.
        training=Limits(0.002, 0.10),
    ),
    Metric(
        "recompiles",
        "Recompiles",
        _count,
        kind=Kind.EXACT,
        relative=False,
        suggested=Limits(0, 0),
    ),
    Metric(
        "graph_breaks",
        "Graph breaks",
        _count,
        kind=Kind.EXACT,
        relative=False,
        suggested=Limits(0, 0),
    ),
    Metric("device_busy_ms", "Device busy", _in("ms")),
    Metric(
        "device_idle_share", "Device idle", _percent, relative=False, suggested=Limits(0.05, 0.10)
    ),
    Metric("exposed_communication_ms", "Exposed communication", _in("ms")),
    Metric("forward_backward_ratio", "Backward / forward", _in("")),
)

REFERENCE_METRICS = tuple(row for row in METRICS if row.card_value is not None)


def find_metric(name: str) -> Metric | None:
    """The row of that name, if there is one."""
    return next((row for row in METRICS if row.name == name), None)


def metric_of(change: Change) -> Metric:
    """The row of a change, with the direction, scale and unit that the policy in force gave it."""
    row = find_metric(change.metric) or user_metric(change.metric, None, None, change.unit)
    return replace(
        row,
        higher_is_better=_first(change.higher_is_better, row.higher_is_better),
        relative=_first(change.relative, row.relative),
    )


def time_change(case: Judged) -> Change | None:
    """The change that a line about a case shows: of throughput and step time one that decides."""
    times = [one for name in (THROUGHPUT, STEP_TIME) for one in case.changes
             if one.metric == name and one.delta is not None]  # fmt: skip
    return max(times, key=lambda one: one.outcome is not None, default=None)


def slower_by(change: Change) -> float:
    """How much more time a step or a token takes, as a share; below zero if it is faster."""
    return slower_by_share(change.metric, change.delta or 0.0)


def slower_by_share(metric: str, delta: float) -> float:
    """The same of the delta of a step time or a throughput."""
    # A throughput near 0 would divide by 0.
    return delta if metric == STEP_TIME else 1 / max(1 + delta, 1e-9) - 1


def is_surely(change: Change, *, worse: bool) -> bool:
    """Whether the whole interval lies on one side of no change at all."""
    metric = metric_of(change)
    ends = [None if end is None else metric.worsening(end) for end in (change.low, change.high)]
    least, most = reversed(ends) if metric.higher_is_better else ends
    if worse:
        return least is not None and least > 0
    return least is not None and most is not None and most < 0


def is_surely_faster(change: Change) -> bool:
    """Whether a time fell beyond the noise: by its interval, or one number by what would warn."""
    if change.is_statistical:
        return is_surely(change, worse=False)
    return change.warn_limit is not None and -slower_by(change) > change.warn_limit


# How far a step's time and its throughput may differ, and still tell the same change.
SAME_TIME = 0.01


# A step's time and its throughput are one fact where a step does the same work.
OF_THE_SAME_TIME = {STEP_TIME: THROUGHPUT, THROUGHPUT: STEP_TIME}


def tell_same_time(step: Change, throughput: Change) -> bool:
    """Whether both are one fact: a step does the same work as before."""
    if step.delta is None or throughput.delta is None:
        return False
    return abs((1 + step.delta) * (1 + throughput.delta) - 1) <= SAME_TIME


def are_one_time(changes: Iterable[Change]) -> bool:
    """The same of a case's changes, also where nothing but its throughput was measured."""
    known = {change.metric: change for change in changes}
    step, throughput = known.get(STEP_TIME), known.get(THROUGHPUT)
    if throughput is None or throughput.delta is None:
        return False
    is_measured = step is not None and bool(step.base or step.head)
    return not is_measured or (step is not None and tell_same_time(step, throughput))


SAME_TOKENS = 0.02


def tokens_differ(here: float | None, there: float | None) -> bool:
    """Whether two steps differ so much in their tokens that their times cannot be compared.

    Batches that are filled up may differ a little. An unknown number counts as equal.
    """
    return bool(here and there and abs(here / there - 1) > SAME_TOKENS)


# Two counts of launches that differ by a smaller share are called the same.
SAME_COUNT = 0.02


def counts_agree(base: float, head: float) -> bool:
    """Whether an op is launched as often as before."""
    return abs(head - base) <= SAME_COUNT * base


def _first(given: bool | None, otherwise: bool) -> bool:
    return otherwise if given is None else given


def metric_named(name: str) -> Metric:
    """The row of that name; a metric of the user's own is printed without a unit."""
    return find_metric(name) or user_metric(name, None, None, None)


def metric_by(name: str, facts: MetricFacts | None) -> Metric:
    """The row of that name as a record describes it; an unknown one has only its description."""
    row = metric_named(name)
    if facts is None:
        return row
    if find_metric(name) is None:
        row = replace(user_metric(name, None, None, facts.unit or None), label=facts.label)
    return replace(row, higher_is_better=facts.higher_is_better, relative=facts.relative)


def user_metric(
    name: str,
    direction: Literal["higher", "lower"] | None,
    scale: Literal["relative", "absolute"] | None,
    unit: str | None,
) -> Metric:
    """A metric of the user's own, which only their measurements and policy know."""
    return Metric(
        name,
        name,
        _in(unit or ""),
        higher_is_better=direction == "higher",
        relative=scale != "absolute",
        unit=unit,
    )

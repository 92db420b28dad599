"""Every metric once: its name, how it is printed, and from where on a change is a regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ci_score.models import Scorecard

THROUGHPUT, STEP_TIME = "throughput_tok_s", "step_time_ms"
MINUS = "\u2212"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. `warning` and `critical` are limits on the delta, in the direction that is worse.

    Only rows marked `in_reference` take part in the reference model, which is frozen.
    """

    name: str
    label: str
    value: Callable[[Scorecard], float]
    show: Callable[[float], str]
    higher_is_better: bool
    relative: bool
    warning: float
    critical: float | None
    in_reference: bool = False

    def delta(self, base: float, head: float) -> float | None:
        """Head's change against base, or None where a side is 0: nothing was measured there."""
        if base <= 0 or head <= 0:
            return None
        return (head - base) / base if self.relative else head - base

    def worsening(self, delta: float) -> float:
        """The delta with its sign turned so that more is worse."""
        return -delta if self.higher_is_better else delta

    def show_or_dash(self, value: float) -> str:
        """The value, or a dash where nothing was measured."""
        return self.show(value) if value else "–"

    def show_delta(self, delta: float) -> str:
        """The change in the metric's own way: per cent, or points for an absolute one."""
        unit = "%" if self.relative else "points"
        shown = f"{delta * 100:+.1f}" if abs(delta) < 1000 else f"{delta * 100:+.2e}"
        return f"{shown} {unit}".replace("-", MINUS)


def significant(value: float, unit: str) -> str:
    """A number with the three digits that mean something: `1.62 k tok/s`, `375 ms`, `0.0120 ms`."""
    prefix = ""
    if unit != "ms":
        for factor, name in ((1e9, "G "), (1e6, "M "), (1e3, "k ")):
            if value >= factor:
                value, prefix = value / factor, name
                break
    return f"{three_digits(value)} {prefix}{unit}"


def three_digits(value: float) -> str:
    """`1.01`, `10.0`, `375`: as many decimals as mean something."""
    if value == 0:
        return "0"
    if value < 0.001 or value >= 1e9:
        return f"{value:.2e}"
    decimals = next(places for least, places in _DECIMALS if value >= least)
    return f"{value:,.{decimals}f}"


_DECIMALS = ((100, 0), (10, 1), (1, 2), (0.1, 3), (0.01, 4), (0, 5))

METRICS: tuple[Metric, ...] = (
    Metric(
        name=THROUGHPUT,
        label="Throughput per device",
        value=lambda card: card.throughput_tok_s,
        show=lambda value: significant(value, "tok/s"),
        higher_is_better=True,
        relative=True,
        warning=0.10,
        critical=0.20,
        in_reference=True,
    ),
    Metric(
        name=STEP_TIME,
        label="Step time",
        value=lambda card: card.step_time_ms,
        show=lambda value: significant(value, "ms"),
        higher_is_better=False,
        relative=True,
        warning=0.10,
        critical=0.20,
        in_reference=True,
    ),
    Metric(
        name="wall_coverage",
        label="Wall coverage",
        value=lambda card: card.wall_coverage,
        show=lambda value: f"{value * 100:.1f} %",
        higher_is_better=True,
        relative=False,
        warning=0.05,
        critical=None,
        in_reference=True,
    ),
)

REFERENCE_METRICS = tuple(row for row in METRICS if row.in_reference)


def metric_named(name: str) -> Metric:
    """The row of that name."""
    return next(row for row in METRICS if row.name == name)

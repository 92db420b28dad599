"""Where a slowdown went: phases, ops and ranges of layers."""

from __future__ import annotations

from ci_score.compare import Workload
from ci_score.compare.changes import contributions
from ci_score.compare.measuring import measured_case
from ci_score.model.record import Measured
from ci_score.model.stages import CaseInput
from ci_score.model.step_ops import MOST_OPS
from tests.builders import case, layer, profile, scorecard


def measured(bwd: dict[int, float], fwd: float = 1.0, **ops: float) -> Measured:
    layers = [layer(number, fwd, ms, **ops) for number, ms in bwd.items()]
    return measured_case(CaseInput("training", profile(per_layer=layers)), Workload())


def told(head: Measured, base: Measured) -> list[tuple[str, str, float]]:
    return [(part.kind, part.name, round(part.delta_ms, 3)) for part in contributions(head, base)]


def test_contributions__neighbouring_layers_are_one_range() -> None:
    """Twenty-four slower layers are one line; one that got faster stands alone."""
    base = measured(dict.fromkeys(range(24), 5.0))
    head = measured({number: 2.0 if number == 7 else 6.0 for number in range(24)})
    assert told(head, base) == [
        ("layer", "8–23 backward", 16.0),
        ("layer", "0–6 backward", 7.0),
        ("layer", "7 backward", -3.0),
    ]


def test_contributions__what_is_small_against_the_step_is_left_out() -> None:
    """A change below 1 % of the step is not where a slowdown went."""
    assert told(measured({0: 5.9}), measured({0: 5.0})) == []


def test_contributions__new_and_gone_names_count_whole() -> None:
    """An op that appeared took no time before."""
    head, base = measured({0: 5.0}, unfused=9.0), measured({0: 5.0}, fused=2.0)
    assert told(head, base) == [("op", "unfused", 9.0), ("op", "fused", -2.0)]


def test_contributions__a_side_without_names_explains_nothing() -> None:
    """A bare scorecard knows no ops: their whole time is not a change."""
    assert told(measured({0: 5.0}, gemm=50.0), case(card=scorecard())) == []


def test_contributions__an_op_that_was_dropped_is_not_of_no_time() -> None:
    """Where a record kept only its largest ops, only those on both sides can be compared."""
    ops = {f"op{number:04d}": 10.0 for number in range(MOST_OPS + 5)}
    head, base = measured({0: 5.0}, **ops, x=30.0), measured({0: 5.0}, **ops, x=9.9)
    assert told(head, base) == []


def test_measured_case__keeps_the_largest_ops() -> None:
    """A record is bounded: the ops that cannot matter are dropped."""
    ops = {f"op{number:04d}": float(number) for number in range(2_000)}
    kept = measured({0: 5.0}, **ops).ops
    assert len(kept) == MOST_OPS
    assert min(kept.values()) == 2_000 - MOST_OPS

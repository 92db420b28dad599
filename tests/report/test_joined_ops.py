"""Base and head of each op side by side, from one record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci_score.model.profile import OpPlace
from ci_score.model.record import Judged
from ci_score.model.step_ops import BaseSide, Place, StepOps, step_ops_of
from ci_score.report.joined_ops import JoinedOp, Sides, Status, joined_ops
from tests.builders import case


def table(*places: OpPlace, **ops: float) -> StepOps:
    return step_ops_of(ops, {}, places)


def beside(head: StepOps, base: StepOps, called: Mapping[str, str] | None = None) -> Judged:
    return case(step_ops=head, base=BaseSide(step_ops=base, called=dict(called or {})))


def statuses(of: Judged) -> dict[str, Status]:
    return {op.name: op.status for op in joined_ops(of).ops}


def the(name: str, of: Judged) -> JoinedOp:
    return next(op for op in joined_ops(of).ops if op.name == name)


def test_joined__an_op_of_one_side_is_new_or_gone() -> None:
    """Where both sides kept all of their ops, the other had nothing of it."""
    both = beside(table(a=3.0, b=2.0), table(a=1.0, c=4.0))
    assert statuses(both) == {"a": Status.BOTH, "b": Status.NEW, "c": Status.GONE}
    assert the("b", both).sides.delta_ms == 2.0
    assert the("c", both).sides.delta_ms == -4.0


def test_joined__what_a_side_did_not_keep_may_have_been_there() -> None:
    """Neither new nor gone, and no change is told."""
    cut = {"left_out": 5, "left_out_ms": 0.1}
    both = beside(table(a=3.0, b=2.0).but(**cut), table(a=1.0, c=4.0).but(**cut))
    found = statuses(both)
    assert found == {"a": Status.BOTH, "b": Status.NOT_KEPT_IN_BASE, "c": Status.NOT_KEPT_IN_HEAD}
    assert the("b", both).sides.delta_ms is None
    assert joined_ops(both).left_out == Sides(0.1, 0.1, 5.0, 5.0)


def test_joined__an_op_that_is_called_otherwise_is_one_row() -> None:
    """With both names, and the base's time."""
    both = beside(table(new_tile=3.0), table(old_tile=1.0), {"new_tile": "old_tile"})
    (op,) = joined_ops(both).ops
    assert (op.name, op.was, op.status) == ("new_tile", "old_tile", Status.RENAMED)
    assert op.sides.delta_ms == 2.0


def test_joined__two_ops_cannot_both_have_been_the_same() -> None:
    """A stranger's record may say so; each op of the base stands in one row."""
    both = beside(table(a=3.0, b=2.0), table(c=1.0), {"a": "c", "b": "c"})
    assert statuses(both) == {"a": Status.RENAMED, "b": Status.NEW}


def test_joined__without_a_base_there_is_one_side() -> None:
    """A first run has its own times and no change."""
    found = joined_ops(case(step_ops=table(a=3.0)))
    assert not found.has_base
    assert [(op.status, op.sides.head_ms, op.sides.delta_ms) for op in found.ops] == [
        (Status.ONE_SIDE, 3.0, None)
    ]


def place_of(op: str, ms: float, **where: Any) -> OpPlace:
    return OpPlace(op=op, ms=ms, count=2.0, **where)


def test_joined__places_have_both_sides() -> None:
    """A place that one side alone has took nothing of the other."""
    here = table(place_of("a", 2.0, phase="forward"), place_of("a", 1.0, phase="backward"), a=3.0)
    there = table(place_of("a", 1.0, phase="forward"), a=1.0)
    assert the("a", beside(here, there)).places == {
        Place(phase="forward"): Sides(1.0, 2.0, 2.0, 2.0),
        Place(phase="backward"): Sides(0.0, 1.0, 0.0, 2.0),
    }


def test_joined__places_that_one_side_does_not_tell_are_not_told() -> None:
    """A profile without phases would make all of the other's look new."""
    here = table(place_of("a", 2.0, phase="forward"), a=2.0)
    assert the("a", beside(here, table(a=1.0))).places == {}


def test_joined__an_op_that_ran_outside_of_all_phases_ran_in_none() -> None:
    """A side that tells where other ops run tells that of this one, too: all of its part is new."""
    here = table(place_of("a", 9.0, phase="backward"), a=10.0, b=1.0)
    there = table(place_of("b", 1.0, phase="forward"), a=1.0, b=1.0)
    for head, base, sides in (
        (here, there, Sides(0.0, 9.0, 0.0, 2.0)),
        (there, here, Sides(9.0, 0.0, 2.0, 0.0)),
    ):
        assert the("a", beside(head, base)).places == {Place(phase="backward"): sides}


def test_joined__a_layer_that_stands_twice_is_summed() -> None:
    """Some formats have a layer's number twice."""
    rows = (place_of("a", 2.0, layer=1), place_of("a", 1.0, layer=1))
    (op,) = joined_ops(case(step_ops=table(*rows, a=3.0))).ops
    assert op.places == {Place(layer=1): Sides(None, 3.0, None, 4.0)}

"""The table of a case's ops as text and as columns: of both sides, and of what is kept of them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest

from ci_score.model.environment import Environment
from ci_score.model.explanation import Explanation, OpChange, OpDetail
from ci_score.model.profile import OpPlace
from ci_score.model.record import HistoryPoint, Judged, RunIdentity
from ci_score.model.step_ops import BaseSide, StepOps, keys_of_ops, step_ops_of
from ci_score.report.html.ops import CaseOps, OpTable
from ci_score.report.html.page import report_html
from tests.builders import case, record, scorecard

BREAKING = "</script><script>alert(1)</script>\u2028<!--&amp;"


def of(head: StepOps, base: StepOps | None = None, **fields: Any) -> Judged:
    """A case of two sides, or of one."""
    return case(step_ops=head, base=BaseSide(step_ops=base) if base else None, **fields)


def table(head: StepOps, base: StepOps | None = None) -> OpTable:
    return CaseOps(of(head, base)).table(500, 6)


def ops(left_out: int = 0, left_out_ms: float = 0.0, **times: float) -> StepOps:
    counts = {name: OpDetail(kind="gemm", count=4) for name in times}
    return step_ops_of(times, counts).but(left_out=left_out, left_out_ms=left_out_ms)


def tags(made: OpTable) -> dict[str, str]:
    return {row.name: row.tag for row in made.rows}


def test_ops__of_both_sides_have_the_largest_change_first() -> None:
    """With times, launches and the time of each; a new op had none, and one that is gone has."""
    made = table(ops(a=10.0, b=5.0, c=2.0), ops(a=10.0, b=1.0, d=3.0))
    assert [row.name for row in made.rows] == ["b", "d", "c", "a"]
    assert tags(made) == {"b": "", "d": "gone", "c": "new", "a": ""}
    b, gone = made.rows[:2]
    assert (b.texts.base, b.texts.head, b.texts.change) == ("1.00", "5.00", "+4.00")
    assert (b.texts.launches, b.texts.each) == ("4", "0.250 → 1.25")
    assert (gone.texts.base, gone.texts.head, gone.texts.change) == ("3.00", "0", "−3.00")
    assert gone.texts.launches == "4 → 0"
    assert made.rows[-1].texts.change == "0"
    assert made.counted == "1 slower, 1 new, 1 gone"


def test_ops__that_the_base_did_not_keep_are_said_in_words() -> None:
    """They are not new, their change is not known, and no dash stands for that."""
    head, base = ops(a=10.0, c=2.0), ops(a=10.0, left_out=7, left_out_ms=0.5)
    made = table(head, base)
    (row,) = (row for row in made.rows if row.name == "c")
    assert row.tag == "not kept on the base side"
    assert (row.texts.base, row.texts.change) == ("not kept", "not known")
    assert made.left_out == "Of the smallest ops only the sum is kept: 7 of the base (0.500 ms)."
    shown = report_html(record(of(head, base)))
    body = shown[shown.index('class="op-table"') : shown.index('class="op-columns"')]
    assert "–" not in body
    assert "new</span>" not in body


def test_ops__of_one_side_have_no_column_of_the_base() -> None:
    """The largest first, without a word on a change."""
    made = table(ops(a=1.0, b=2.0))
    assert [row.name for row in made.rows] == ["b", "a"]
    assert (made.has_base, made.counted) == (False, "")
    shown = report_html(record(of(ops(a=1.0, b=2.0))))
    assert "2 ops, the largest first." in shown
    assert 'data-by="change"' not in shown


def test_ops__have_their_places_below() -> None:
    """Those that changed most as text; all of them as columns, in which phases are named once."""

    def side(factor: float) -> StepOps:
        places = [
            OpPlace(op="a", phase=phase, layer=layer, count=2, ms=1 + layer * factor)
            for phase in ("forward", None)
            for layer in range(4)
        ]
        return step_ops_of({"a": 20.0}, {"a": OpDetail(count=16)}, places)

    made = table(side(2.0), side(1.0))
    (row,) = made.rows
    assert (
        row.places[0] == "forward · layer 3: 4.00 → 7.00 ms (+3.00), count 2, each 2.00 → 3.50 ms"
    )
    assert (len(row.places), row.more_places) == (6, 2)
    assert json.loads(made.columns)["phases"] == ["forward", "outside all phases"]
    places = json.loads(made.places)
    assert len(places) == 8
    assert places[3] == {
        "phase": 0,
        "layer": 3,
        "words": "forward · layer 3",
        "rows": {"from": 0, "count": 1},
        "base": 4,
        "head": 7,
        "baseCount": 2,
        "headCount": 2,
    }


def test_ops__beyond_the_rows_are_columns_alone() -> None:
    """And a page says that scripts show the others."""
    many = step_ops_of({f"op_{place}": 1.0 + place for place in range(600)}, {})
    shown = report_html(record(of(many, many)))
    assert shown.count('<tr><th scope="row"><details>') == 500
    assert "The first 500 are shown; with scripts all are." in shown
    assert len(json.loads(table(many).columns)["names"]) == 600


def test_ops__hostile_names_do_not_end_their_element() -> None:
    """What a stranger writes is a text in the columns, too, and reads back as it is shown."""
    head = step_ops_of(
        {BREAKING: 2.0, "a": 1.0},
        {BREAKING: OpDetail(kind=BREAKING)},
        [OpPlace(op=BREAKING, phase=BREAKING, ms=1.0)],
    )
    shown = report_html(record(of(head)))
    assert shown.count("<script") == 3
    assert shown.count("</script") == 3
    made = table(head)
    assert not set("<\u2028") & set(made.columns + made.places)
    columns = json.loads(made.columns)
    assert columns["full"][0] == BREAKING.replace("\u2028", "\ufffd")
    assert columns["kinds"][0] == BREAKING.replace("\u2028", "\ufffd")
    assert json.loads(made.places)[0]["words"] == BREAKING.replace("\u2028", "\ufffd")


def test_ops__of_a_record_that_kept_no_base_are_those_of_its_explanation() -> None:
    """What it says of both sides is shown; of the others the base is not kept."""
    change = OpChange(name="a", base_ms=1.0, head_ms=4.0, base_count=4, head_count=4)
    explained = Explanation(
        basis="device", base_step_ms=10.0, head_step_ms=13.0, parts=(), ops=(change,)
    )
    made = CaseOps(of(ops(a=4.0, b=2.0), explanation=explained)).table(500, 6)
    assert [(row.name, row.texts.change) for row in made.rows] == [
        ("a", "+3.00"),
        ("b", "not known"),
    ]


def test_ops__of_a_scorecard_alone_are_its_hotspots() -> None:
    """A record without any op still has the largest ones of its layers."""
    card = scorecard(hotspot_ops=(("gemm", 4.0, 80.0), ("norm", 1.0, 20.0)))
    made = CaseOps(case(card=card)).table(500, 6)
    assert [row.name for row in made.rows] == ["gemm", "norm"]


# --- over the branch's runs -----------------------------------------------------------------------

NAMES = ("a", "b", "c", "was", "kernel_81132", "kernel_136088")
KEYS = {name: blake2b(name.encode(), digest_size=4).hexdigest() for name in NAMES}


def run_of_branch(number: int, **fields: Any) -> HistoryPoint:
    """A run of the branch; `ops` are by their names."""
    ops = {KEYS[name]: ms for name, ms in fields.pop("ops", {}).items()}
    return HistoryPoint(
        case="training",
        commit=f"{number:040x}",
        run=RunIdentity(number=number),
        created_at=f"2026-01-01T{number:02d}:00:00Z",
        step_time_ms=100.0,
        throughput_tok_s=1000.0,
        ops=ops,
        **fields,
    )


def courses_of(case: Judged, *points: HistoryPoint) -> dict[str, str]:
    """The words of each row's course; an empty text where there is none."""
    rows = CaseOps(case, points).table(500, 6).rows
    return {row.name: row.course.words if row.course else "" for row in rows}


def test_ops__have_a_course_of_at_least_five_runs() -> None:
    """Its ends, and this run; an op of fewer runs has none."""
    points = [
        run_of_branch(number, ops={"a": 3.9 + number / 10, **({"b": 1.0} if number else {})})
        for number in range(5)
    ]
    assert courses_of(of(ops(a=7.9, b=1.0)), *points) == {
        "a": "5 runs of the branch, 3.90 to 4.30 ms; this run 7.90 ms",
        "b": "",
    }
    assert courses_of(of(ops(a=7.9)), *points[1:]) == {"a": ""}


def test_ops__a_course_has_the_newest_sixty_runs_and_then_this_one() -> None:
    """From the left to the right, the most at the top, in whole units of a stretched drawing."""
    points = [run_of_branch(0, ops={"a": 900.0})] * 9
    points += [run_of_branch(0, ops={"a": 1.0 + place % 2}) for place in range(60)]
    made = CaseOps(of(ops(a=3.0)), points).table(500, 6)
    course = made.rows[0].course
    assert course
    assert course.words == "60 runs of the branch, 1.00 to 2.00 ms; this run 3.00 ms"
    assert course.line.startswith("M0 100L2 50L3 100L5 50")
    assert (course.line.count("L"), course.now) == (59, "M100 0h0")
    assert json.loads(made.columns)["history"] == {"0": [1, 2] * 30}


def test_ops__a_course_of_noise_does_not_fill_its_height() -> None:
    """What spans less than 2 % lies in the middle, and equal times are one line."""

    def heights(*times: float) -> set[str]:
        points = [run_of_branch(0, ops={"a": ms}) for ms in times]
        course = CaseOps(of(ops(a=times[-1])), points).table(500, 6).rows[0].course
        assert course
        return {place.split()[1] for place in course.line[1:].split("L")}

    assert heights(100.0, 100.0, 100.0, 100.0, 100.0) == {"50"}
    assert heights(99.0, 100.0, 99.0, 100.0, 99.0) == {"25", "75"}
    assert heights(0.0, 0.0, 0.0, 0.0, 0.0) == {"50"}


@pytest.mark.parametrize("ms", [5e-324, 1e-300, 1e300, 1.7976931348623157e308])
def test_ops__a_course_of_extreme_times_is_drawn(ms: float) -> None:
    """What a stranger's record may say breaks no page."""
    points = [run_of_branch(number, ops={"a": ms}) for number in range(6)]
    assert courses_of(of(ops(a=1.0)), *points)["a"].startswith("6 runs of the branch")
    shown = report_html(record(of(ops(a=1.0)), history=tuple(points)))
    assert shown.count('class="op-course"') == 1


def test_ops__a_course_goes_on_under_a_new_name() -> None:
    """A renamed op has the runs of both names; one that is gone has its own, and takes nothing."""
    points = [run_of_branch(number, ops={"was": 5.0, "b": 2.0}) for number in range(4)]
    points += [run_of_branch(4, ops={"a": 6.0, "b": 2.0})]
    base = BaseSide(step_ops=ops(was=5.0, b=2.0), called={"a": "was"})
    assert courses_of(case(step_ops=ops(a=5.0), base=base), *points) == {
        "a": "5 runs of the branch, 5.00 to 6.00 ms; this run 5.00 ms",
        "b": "5 runs of the branch, 2.00 ms; this run 0 ms",
    }


def test_ops__of_one_digest_have_no_course() -> None:
    """It could be the other's."""
    one, other = NAMES[4:]
    assert KEYS[one] == KEYS[other]
    assert keys_of_ops([one, other, "a"]) == {"a": KEYS["a"]}
    points = [run_of_branch(number, ops={one: 5.0}) for number in range(6)]
    assert courses_of(case(ops={one: 5.0, other: 4.0}), *points) == {one: "", other: ""}
    assert courses_of(case(ops={one: 5.0}), *points)[one]


def test_page__draws_courses_of_what_was_measured_alike() -> None:
    """Runs of another machine, of steps of another size and this run itself are left out."""
    there = Environment(accelerator="H100")
    measured = of(ops(a=7.9), environment=there, tokens_per_step=64.0)
    alike = {"environment": there, "tokens_per_step": 64.0}
    points = [run_of_branch(number, ops={"a": 4.0}, **alike) for number in range(5)]
    others = [
        run_of_branch(5, ops={"a": 1.0}, environment=Environment(accelerator="L4")),
        run_of_branch(6, ops={"a": 2.0}, environment=there, tokens_per_step=128.0),
        run_of_branch(7, ops={"a": 7.9}, **alike),
    ]
    own = others[-1]
    left = record(measured, commit=own.commit, run=own.run, history=(*points, *others))
    shown = report_html(left)
    words = "<title>5 runs of the branch, 4.00 ms; this run 7.90 ms</title>"
    assert shown.count(words) == shown.count('<th scope="col">History</th>') == 1
    few = report_html(left.but(history=(*points[1:], *others)))
    assert "op-course" not in few[few.index("<body") :].partition("<script>")[0]
    assert '<th scope="col">History</th>' not in few

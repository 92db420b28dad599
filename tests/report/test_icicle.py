"""The geometry of the differential icicle: its levels, widths, marks and bounds."""

from __future__ import annotations

import re

import pytest

from ci_score.model.explanation import OpChange, Timeline
from ci_score.model.profile import OpPlace
from ci_score.model.record import Judged
from ci_score.report.html.icicle import MOST_BOXES, Box, Drawing, Icicle, Line, icicle
from ci_score.report.html.ops import known_ops
from ci_score.report.html.page import report_html
from ci_score.report.joined_ops import joined_ops
from tests.builders import case, record, scorecard
from tests.builders.both_sides import FULL_NAME, at, compared, explained, side, slower
from tests.builders.reports import HOSTILE
from tests.builders.showcase import deep


def drawn(value: Judged) -> Icicle:
    found = icicle(value, joined_ops(value))
    assert found is not None
    return found


def boxes(drawing: Drawing) -> list[Box]:
    return [box for row in drawing.rows for box in row]


def share(box: Box) -> float:
    return float(box.width.removesuffix("%"))


def box_of(drawing: Drawing, name: str, row: int = -1) -> Box:
    """The box whose title begins so, in the last row if no other is asked for."""
    return next(box for box in drawing.rows[row] if box.title.split("\n")[0] == name)


def lines(these: tuple[Line, ...]) -> list[Line]:
    return [one for line in these for one in (line, *lines(line.children))]


def test_heading__says_that_kernel_time_is_not_the_step() -> None:
    """Both times with both sides stand above the drawings."""
    assert drawn(slower()).heading == (
        "Kernel time, overlaps counted twice: 79.0 → 116 ms; the step: 78.0 → 106 ms"
    )


def test_heading__of_a_host_is_about_operators() -> None:
    """Without a device there are no kernels."""
    timeline = Timeline(basis="host", step_ms=3.0, parts={"forward": 2.0})
    found = drawn(compared(side([at("gemm", 2.0)]), timeline=timeline))
    assert found.heading == "Operator time, overlaps counted twice: 2.00 ms; the step: 3.00 ms"


def test_rows__are_phase_kind_and_op() -> None:
    """A row for each level, in both drawings, the largest box first."""
    base, head = drawn(slower()).drawings
    assert (base.side, head.side) == ("base", "head")
    first = [[box.title.split("\n")[0] for box in row] for row in head.rows]
    assert first[:3] == [
        ["all ops of a step"],
        ["backward", "forward"],
        ["comm", "gemm", "gemm", "other"],
    ]
    assert first[3] == ["send", "gemm", "gemm", "fused", FULL_NAME]


def test_widths__are_on_one_scale() -> None:
    """The longer side fills the width, the other its share of it, and boxes fill their parents."""
    base, head = drawn(slower()).drawings
    assert share(head.rows[0][0]) == 100.0
    assert share(base.rows[0][0]) == pytest.approx(100 * 79 / 116, abs=0.01)
    for drawing in (base, head):
        whole = share(drawing.rows[0][0])
        for row in drawing.rows[1:]:
            assert sum(map(share, row)) == pytest.approx(whole, abs=0.06)
            ends = [share(box) + float(box.x.removesuffix("%")) for box in row]
            starts = [float(box.x.removesuffix("%")) for box in row]
            assert starts == pytest.approx([0.0, *ends[:-1]], abs=0.03)


def test_colour__is_the_change_beside_the_largest_of_an_op() -> None:
    """In four steps each way with its sign; below 2 % of the largest change it has none."""
    _, head = drawn(slower()).drawings
    send, fused = box_of(head, "send"), box_of(head, "fused")
    assert (send.css, send.name, send.value) == ("b up4", "▲ send", "50.0 ms +30.0 ms")
    assert (fused.css, fused.value) == ("b up3 new", "10.9 ms")
    faster = box_of(head, FULL_NAME)
    assert faster.css == "b down1"
    assert faster.name.startswith("▼ vectorized")
    assert {box.css for box in head.rows[3] if box.title.startswith("gemm")} == {"b same"}


def test_outlines__gone_ops_in_the_base_and_new_ones_in_the_head() -> None:
    """Each stands in one drawing alone."""
    base, head = drawn(slower()).drawings
    assert [box.title.split("\n")[0] for box in boxes(base) if box.css.endswith(" gone")] == ["old"]
    assert [box.title.split("\n")[0] for box in boxes(head) if box.css.endswith(" new")] == [
        "fused"
    ]
    assert not [box for box in boxes(base) if box.title.startswith("fused")]
    assert "gone: 3.00 ms before, 7 launches" in box_of(base, "old").title


def test_titles__have_the_full_name_its_place_and_the_launches() -> None:
    """What a box has no room for."""
    base, head = drawn(slower()).drawings
    assert box_of(head, "send").title == (
        "send\nbackward · comm\n20.0 → 50.0 ms (+30.0 ms), 7 → 9 launches"
    )
    assert box_of(base, FULL_NAME).title.startswith(f"{FULL_NAME}\nforward · other\n")


@pytest.mark.parametrize(
    ("value", "levels", "words"),
    [
        (compared(side([at("gemm", 2.0, None, layer=1)])), ("all", "kind", "op"), "no phases"),
        (compared(side([at("gemm", 2.0)], kinds={})), ("all", "phase", "op"), "no kinds of ops"),
        (compared(side([], whole={"gemm": 2.0}, kinds={})), ("all", "op"), "neither phases nor"),
    ],
)
def test_levels__that_the_profile_lacks_are_left_out(
    value: Judged, levels: tuple[str, ...], words: str
) -> None:
    """And that is said."""
    found = drawn(value)
    assert found.levels == levels
    assert words in found.lacks
    assert len(found.drawings[0].rows) == len(levels)


def test_levels__that_are_there_are_not_spoken_of() -> None:
    """Nothing is said of what is as it should be."""
    assert drawn(slower()).lacks == ""


def test_page__without_a_profile_has_one_line() -> None:
    """And no drawing."""
    assert icicle(case(), joined_ops(case())) is None
    text = report_html(record(case()))
    assert "No profile tells what each op takes" in text
    assert '<figure class="icicle"' not in text


def test_record__without_the_ops_of_the_base_is_not_drawn() -> None:
    """Only its ops that changed are known of both sides: their sum is not the base's."""
    change = OpChange(name="send", kind="comm", base_ms=20.0, head_ms=50.0)
    ops = side([at("gemm", 50.0), at("send", 50.0)])
    value = compared(ops, explanation=explained().but(ops=(change,)))
    assert known_ops(value).has_base
    assert icicle(value, known_ops(value)) is None
    hotspots = case(card=scorecard(hotspot_ops=(("gemm", 5.0, 10.0),)))
    assert known_ops(hotspots).ops
    assert icicle(hotspots, known_ops(hotspots)) is None


def test_one_side__is_drawn_alone() -> None:
    """A first run has no base: one drawing, no colours, and no words about them."""
    found = drawn(compared(side([at("gemm", 20.0), at("send", 2.0)])))
    assert [drawing.side for drawing in found.drawings] == ["head"]
    assert {box.css for box in boxes(found.drawings[0])} == {"b same"}
    assert (found.key, found.has_base) == ("", False)
    assert box_of(found.drawings[0], "gemm").title.endswith("\n20.0 ms, 7 launches")


def test_time_outside_of_phases__is_a_box_of_its_own() -> None:
    """What the phases of an op do not cover; a rounding of its time does not count."""
    head = side([at("gemm", 6.0), at("send", 2.0)], whole={"gemm": 10.0, "send": 2.001})
    _, row, kinds, _ = drawn(compared(head)).drawings[0].rows
    assert [box.title.split("\n")[0] for box in row] == ["forward", "outside all phases"]
    assert [box.title.split("\n")[0] for box in kinds] == ["gemm", "comm", "gemm"]
    assert [share(box) for box in row] == pytest.approx([66.66, 33.33], abs=0.02)


def test_narrow_boxes__stand_together() -> None:
    """What would have less than 1.5 px of 1,000 is one box of its parent, which says how many."""
    small = [at(f"tiny_{number}", 0.1) for number in range(9)]
    value = compared(side([at("gemm", 99.0), *small], kinds={}))
    row = drawn(value).drawings[0].rows[2]
    assert [box.title.split("\n")[0] for box in row] == ["gemm", "9 more"]
    assert row[1].title == "9 more\nforward\n0.900 ms"
    wide = compared(side([at("gemm", 60.0), *small], kinds={}))
    assert len(drawn(wide).drawings[0].rows[2]) == 10


def test_narrow_boxes__one_alone_keeps_its_name() -> None:
    """`1 more` would be no shorter."""
    found = drawn(compared(side([at("gemm", 999.0), at("tiny", 0.1)], kinds={})))
    assert box_of(found.drawings[0], "tiny").width == "0.01%"


@pytest.mark.parametrize(
    ("phases", "ops", "least"), [(200, 4, MOST_BOXES - 1), (20, 22, 340), (3, 600, 7)]
)
def test_boxes__are_at_most_400_a_drawing(phases: int, ops: int, least: int) -> None:
    """However many phases and ops a stranger's record has; the widest have them, to the last."""
    places = [
        at(f"op {op}", 1.0 + op % 7, f"phase {phase}")
        for phase in range(phases)
        for op in range(ops)
    ]
    value = compared(side(places[:60_000], kinds={}), side(places[:60_000], kinds={}))
    found = drawn(value)
    for drawing in found.drawings:
        assert least <= len(boxes(drawing)) <= MOST_BOXES
        assert sum(map(share, drawing.rows[1])) == pytest.approx(100, abs=2)
    assert len(lines(found.lines)) <= 2 * MOST_BOXES


def test_texts__stand_only_where_there_is_room() -> None:
    """A box of 13 px has no text, one of 15 px has."""
    value = compared(side([at("gemm", 97.2), at("send", 1.5), at("old", 1.3)], kinds={}))
    row = drawn(value).drawings[0].rows[2]
    assert [box.name for box in row] == ["gemm", "send", ""]


def test_ops_not_kept__are_said_and_have_no_change() -> None:
    """An op may have been dropped by the other side; the sum of what was dropped is a box."""
    base = side([at("gemm", 20.0)]).but(left_out=3, left_out_ms=2.0)
    head = side([at("gemm", 21.0), at("send", 4.0)])
    found = drawn(compared(head, base))
    send = box_of(found.drawings[1], "send")
    assert send.css == "b same"
    assert send.title.endswith("4.00 ms, not kept on the base side, 7 launches")
    assert box_of(found.drawings[0], "3 → 0 ops that were not kept", 1).css == "b same more"
    assert found.heading.startswith("Kernel time, overlaps counted twice: 22.0 → 25.0 ms")
    whole = box_of(found.drawings[1], "all ops of a step", 0)
    assert whole.title.endswith("22.0 → 25.0 ms (+1.00 ms)")


def test_layers__that_only_one_side_tells_leave_the_sums_alone() -> None:
    """The base's time of a phase is whole, although it knows no layer of it."""
    head = side([at("gemm", 4.0, layer=0), at("gemm", 5.0, layer=1), at("gemm", 1.0)])
    found = drawn(compared(head, side([at("gemm", 8.0)])))
    assert box_of(found.drawings[0], "gemm").title.endswith(
        "8.00 → 10.0 ms (+2.00 ms), 7 → 21 launches"
    )


def test_list__has_the_same_boxes_the_largest_change_first() -> None:
    """For a keyboard and a screen reader."""
    found = drawn(slower())
    top = [(line.name, line.times, line.change) for line in found.lines]
    assert top == [
        ("backward", "30.0 → 60.0 ms", "+30.0 ms"),
        ("forward", "49.0 → 56.0 ms", "+7.00 ms"),
    ]
    inner = [(line.name, line.change) for line in found.lines[1].children]
    assert inner == [("gemm", "+11.0 ms"), ("copy", "−3.00 ms"), ("other", "−1.00 ms")]
    titles = {box.title for drawing in found.drawings for box in boxes(drawing)}
    assert len(lines(found.lines)) == len(titles) - 1


def test_step__stands_above_with_its_idle_time() -> None:
    """A bar a side, in which waiting looks unlike work."""
    base, head = drawn(slower()).step
    assert (base.side, base.total) == ("base", "78.0 ms")
    assert [(part.name, part.value, part.css == "idle") for part in head.parts] == [
        ("compute", "90.0 ms", False),
        ("idle, waiting for data", "16.0 ms", True),
    ]


def test_names__of_strangers_stay_text() -> None:
    """In titles, boxes and lists, with invisible characters made visible."""
    nasty = (HOSTILE, "\u202enpg", '"><script>alert(1)</script>', "x" * 999)
    places = [at(name, 9.0 + place, name) for place, name in enumerate(nasty[:3])]
    kinds = {name: name for name in nasty}
    value = compared(side([*places, at(nasty[3], 5.0)], kinds), side(places, kinds))
    text = report_html(record(value))
    assert text.count("<script>") == 1
    assert "<img" not in text
    assert "\u202e" not in text


def test_titles__of_a_drawing_are_bounded() -> None:
    """The full names of hundreds of boxes are cut to what they may take together."""
    places = [at(f"{place:03d}{'<' * 990}", 1.0) for place in range(390)]
    value = compared(side(places, kinds={}))
    found = drawn(value)
    assert sum(len(box.title) for box in boxes(found.drawings[0])) < 100_000
    few = drawn(compared(side(places[:3], kinds={})))
    assert len(boxes(few.drawings[0])[-1].title) > 990


def test_drawing__of_a_large_model_is_small() -> None:
    """128 layers make no box more: the levels are phase, kind and op."""
    value = deep(layers=8).cases[0]
    found = drawn(value)
    assert len(boxes(found.drawings[0])) <= MOST_BOXES
    assert found.layer_word == "layer"
    text = report_html(record(value))
    figure = re.search(r'<figure class="icicle".*?</figure>', text, re.DOTALL)
    assert figure is not None
    assert len(figure[0]) < 400_000


def test_ops_that_take_no_time__are_not_drawn() -> None:
    """There is nothing to divide the width by."""
    value = compared(side([at("gemm", 0.0)]))
    assert icicle(value, joined_ops(value)) is None


def test_change__within_an_op_that_moved_has_a_colour() -> None:
    """An op of which only the phase is another changed in both phases, though not as a whole."""
    base, head = side([at("gemm", 5.0)]), side([OpPlace(op="gemm", phase="backward", ms=5.0)])
    found = drawn(compared(head, base))
    assert box_of(found.drawings[1], "gemm").css == "b up4"
    assert box_of(found.drawings[0], "gemm").css == "b down4"

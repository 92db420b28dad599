"""Who is different: the maps of layers and ranks, and the launches on one axis."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.explanation import LayersAre
from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.model.profile import RankWork
from ci_score.model.record import HistoryPoint, Judged, LaunchNumbers, Record
from ci_score.model.verdict import JudgedBy
from ci_score.report import rows
from ci_score.report.html.heat import Columns, Lane, Map, ranges
from ci_score.report.html.launches import Launches, launches_plot
from ci_score.report.html.layer_heat import MOST_COLUMNS, MOST_PHASES, layer_map
from ci_score.report.html.page import report_html
from ci_score.report.html.rank_heat import rank_map
from ci_score.report.html.shades import mark, shade
from ci_score.traces.merge import merged
from tests.builders import case, profile, record
from tests.builders.showcase import slow_pull_request
from tests.builders.who import launched, layered, ranked, times, works


def layer_map_of(judged: Judged) -> Map:
    found = layer_map(judged)
    assert found is not None
    return found


def rank_map_of(judged: Judged) -> Map:
    found = rank_map(judged)
    assert found is not None
    return found


def plot_of(judged: Judged, *history: HistoryPoint) -> Launches:
    found = launches_plot(judged, history)
    assert found is not None
    return found


def lane(drawn: Map, name: str) -> Lane:
    (found,) = [lane for lane in drawn.lanes if lane.name == name]
    return found


def shades(one: Lane, side: str = "") -> set[str]:
    (found,) = [strip for strip in one.strips if strip.side == side]
    return {fill.shade for fill in found.fills}


# --- shades ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "expected"),
    [(0.0, "same"), (0.019, "same"), (0.02, "up1"), (0.1, "up2"), (-0.3, "down3"), (-1.0, "down4")],
)
def test_shade__has_four_steps_each_way(delta: float, expected: str) -> None:
    """Below 2 % of the largest change nothing changed; the darkest step is from 60 % on."""
    assert shade(delta, 1.0) == expected


@given(delta=st.floats(-1e9, 1e9), largest=st.floats(0, 1e9))
def test_shade__has_the_sign_of_the_change(delta: float, largest: float) -> None:
    """▲ only where it takes longer, ▼ only where it takes less."""
    sign = mark(shade(delta, largest))
    assert sign in ("", "▲" if delta > 0 else "▼")
    assert largest > 0 or not sign


def test_shade__leaves_noise_grey() -> None:
    """A change that two runs of one program show is none, however small the largest is."""
    assert shade(0.5, 1.0, noise=0.6) == "same"
    assert shade(-0.7, 1.0, noise=0.6) == "down4"


# --- layers ---------------------------------------------------------------------------------------


def test_layers__those_that_grew_are_named_with_their_phase() -> None:
    """Neighbours are a range, and what they grew by is the sum in that phase."""
    drawn = layer_map_of(layered(128, {12: 0.8, 13: 0.8, 14: 0.75, 15: 0.77, 90: 0.1}))
    assert drawn.sentence == "Layers 12–15 grew most: +3.12 ms in the backward."
    assert shades(lane(drawn, "forward")) == {"same"}
    assert shades(lane(drawn, "backward")) == {"same", "up4", "up2"}
    assert lane(drawn, "backward").note == "+3.22 ms"


@pytest.mark.parametrize(
    ("grown", "optimizer_ms", "words"),
    [
        ({3: 0.4, 7: 0.4}, 0.0, "Layers 3 and 7 grew most: +0.800 ms in the backward."),
        ({3: -0.4}, 0.0, "Layer 3 shrank most: −0.400 ms in the backward."),
        (
            dict.fromkeys(range(24), 0.1),
            0.0,
            "All 24 layers take longer: +2.40 ms in the backward.",
        ),
        (dict.fromkeys(range(0, 24, 2), 0.1), 0.0, "12 of 24 layers grew most: +1.20 ms in the"),
        ({}, 5.0, "What is outside the layers grew most: +5.00 ms in the optimizer."),
        ({3: 0.4}, 5.0, "grew most: +5.00 ms in the optimizer. Layer 3 grew most: +0.40 ms in"),
        ({}, 0.0, "No layer changed by more than 2 %."),
        ({3: 0.01}, 0.0, "No layer changed by more than 2 %."),
    ],
)
def test_layers__the_sentence_says_what_the_map_shows(
    grown: dict[int, float], optimizer_ms: float, words: str
) -> None:
    """Single layers, all of them, what is outside of them, or that nothing changed."""
    assert words in layer_map_of(layered(24, grown, optimizer_ms=optimizer_ms)).sentence


def test_layers__what_is_outside_of_them_is_a_lane_or_a_column() -> None:
    """A phase without any layer is one wide cell; beside layers it is the last column."""
    drawn = layer_map_of(layered(24, {3: 0.4}, optimizer_ms=5.0))
    (cell,) = lane(drawn, "optimizer, outside the layers").hovers
    assert cell.width == "100%"
    assert cell.title == "optimizer, outside the layers: 8.00 ms → 13.0 ms (+5.00 ms)"
    assert "outside" not in [tick.label for tick in drawn.ticks]
    beside = layer_map_of(layered(24, {3: 0.4}, phases=("forward", "optimizer")))
    assert lane(beside, "optimizer").hovers[-1].title.startswith("outside the layers, optimizer: ")
    assert beside.ticks[-1].label == "outside"


def test_layers__without_their_ops_forward_and_backward_are_drawn() -> None:
    """The sums of both sides are enough; a layer that one side lacks has no change."""
    drawn = layer_map_of(layered(24, {3: 0.4, 7: 0.4}, has_places=False))
    assert [lane.name for lane in drawn.lanes[:2]] == ["forward", "backward"]
    assert drawn.sentence == "Layers 3 and 7 grew most: +0.800 ms in the backward."
    assert len(lane(drawn, "forward").hovers) == 24


def test_layers__only_those_whose_ops_are_known_can_be_chosen() -> None:
    """Of sums there is nothing to draw, nor of a column that stands for several layers."""
    known = layer_map_of(layered(24, {3: 0.4}))
    assert [hover.layer for hover in lane(known, "forward").hovers] == [*map(str, range(24))]
    assert lane(known, "optimizer, outside the layers").hovers[0].layer == ""
    for drawn in (layer_map_of(layered(24, has_places=False)), layer_map_of(layered(300))):
        assert {hover.layer for hover in lane(drawn, "forward").hovers} == {None}


def test_layers__that_are_repeats_of_kernels_are_called_so() -> None:
    """They may be something else than layers."""
    drawn = layer_map_of(layered(24, {3: 0.4}, layers_are=LayersAre(kind="repeats")))
    assert drawn.sentence.startswith("Repeat 3 grew most")
    assert "layer" not in drawn.sentence + drawn.key + drawn.table.caption


def test_layers__ops_that_one_side_has_not_kept_are_left_out_and_said() -> None:
    """Their time on the other side is not known, so they have no change."""
    told = layered(24, {3: 0.4}, optimizer_ms=5.0)
    assert told.base is not None
    assert layer_map_of(told).notes == ()
    fewer = told.base.but(step_ops=told.base.step_ops.largest(1))
    drawn = layer_map_of(told.but(base=fewer))
    assert drawn.notes == ("Without 13.0 ms of ops that only one side has kept.",)
    assert drawn.sentence == "Layer 3 grew most: +0.400 ms in the backward."


def test_layers__need_both_sides() -> None:
    """One side alone has no change; a case without layers has no map."""
    assert layer_map(layered(4).but(base=None)) is None
    assert layer_map(ranked(works([59.0], 100.0), works([59.0], 100.0))) is None


def test_layers__the_table_has_every_number_of_the_map() -> None:
    """A row for each cell, with the same words."""
    drawn = layer_map_of(layered(24, {3: 0.4}))
    assert len(drawn.table.rows) == sum(len(lane.hovers) for lane in drawn.lanes)
    assert ("3", "backward", "1.00 ms", "1.40 ms", "+0.400 ms") in [
        row.cells for row in drawn.table.rows
    ]


def test_layers__very_many_share_columns_and_phases_share_lanes() -> None:
    """The drawing stays bounded, and nothing of the time is lost."""
    names = [f"phase {number}" for number in range(20)]
    drawn = layer_map_of(layered(300, {7: 0.4}, phases=names))
    assert len(drawn.lanes) == MOST_PHASES
    assert all(len(lane.hovers) <= MOST_COLUMNS + 1 for lane in drawn.lanes)
    assert any("other phases" in lane.name for lane in drawn.lanes)
    assert any("layers 6–7, phase 19" in hover.title for one in drawn.lanes for hover in one.hovers)


def test_columns__a_map_of_128_has_paths_and_no_cell_a_colour() -> None:
    """Neighbours of one shade are one piece of a path, so that a map is small."""
    one = lane(layer_map_of(layered(128, {12: 0.8, 13: 0.8})), "backward")
    (strip,) = one.strips
    assert [fill.path.count("M") for fill in strip.fills] == [2, 1]
    (hatch,) = strip.hatches
    assert (hatch.shade, len(hatch.spans)) == ("up4", 1)
    assert strip.signs == ()


def test_columns__wide_ones_bear_a_sign_and_their_number() -> None:
    """Of few layers there is room for both."""
    (strip,) = lane(layer_map_of(layered(4, {1: 0.4})), "backward").strips
    assert [sign.text for sign in strip.signs] == ["▲ +0.400"]
    assert strip.hatches == ()


@pytest.mark.parametrize("marked", [None, 0, 7, 37, 63])
def test_ticks__leave_room_for_the_marked_one(marked: int | None) -> None:
    """A marked column always has its label, and no other stands in it."""
    ticks = list(Columns(64).ticks([str(number) for number in range(64)], marked))
    assert [tick.label for tick in ticks if tick.is_marked] == (
        [] if marked is None else [str(marked)]
    )
    if marked is not None:
        near = [int(tick.label) for tick in ticks if not tick.is_marked]
        assert all(abs(number - marked) >= 8 for number in near)


@given(st.sets(st.integers(0, 30), min_size=1))
def test_ranges__name_each_number_once(numbers: set[int]) -> None:
    """Written out they are the same numbers."""
    told = [[int(end) for end in text.split("–")] for text in ranges(numbers, range(31))]
    assert {n for ends in told for n in range(ends[0], ends[-1] + 1)} == numbers


# --- ranks ----------------------------------------------------------------------------------------


def slow_rank(count: int = 64, rank: int = 37) -> Judged:
    head, base = times(count, 59.0, {rank: 75.0}), times(count + 1, 59.0)[:count]
    return ranked(works(head, 116.0), works(base, 100.0))


@pytest.mark.parametrize("count", [4, 64, 256])
def test_rank__the_others_wait_for_is_named_and_marked(count: int) -> None:
    """In the sentence, below the map, and in its row of the table."""
    drawn = rank_map_of(slow_rank(count, 3))
    assert re.fullmatch(
        rf"Rank 3 of {count} computes for longer: 5\d\.\d ms → 75\.0 ms \(\+1\d\.\d ms\)\."
        r" The others compute as long as before, and wait for it\.",
        drawn.sentence,
    )
    assert [tick.label for tick in drawn.ticks if tick.is_marked] == ["rank 3"]
    assert [row.cells[0] for row in drawn.table.rows if row.is_marked] == ["3"]
    assert drawn.marked is not None
    # The others differ by less than 1 % of the step.
    assert shades(lane(drawn, "compute"), "Δ") == {"same", "up4"}


def test_rank__is_named_when_the_base_comes_from_a_record() -> None:
    """Its ranks are read back, and the sentence of the verdict names the rank too."""
    base = Judged.model_validate_json(
        slow_rank().but(ranks=works(times(64, 59.0), 100.0)).model_dump_json()
    )
    again = ranked(works(times(64, 59.0, {37: 75.0}), 116.0), base.ranks)
    page = report_html(Record.model_validate_json(record(again).model_dump_json()))
    assert "Rank 37 of 64 computes for longer" in page
    assert "Rank 37 of 64 computes for longer" in page


def test_rank__of_merged_files_is_named() -> None:
    """Files of four ranks are one case, which keeps each rank's parts for this map."""

    def of_rank(number: int, compute: float, step_ms: float) -> Any:
        exposed = step_ms - compute - 5.0
        return profile(
            step_ms,
            rank=number,
            compute_ms=compute,
            exposed_communication_ms=exposed,
            device_busy_ms=compute + exposed + 1.0,
        )

    sides = [
        merged(
            [(f"rank{number}", of_rank(number, ms, step_ms)) for number, ms in enumerate(compute)]
        )
        for compute, step_ms in (([59.0, 75.0, 59.0, 59.0], 116.0), ([59.0] * 4, 100.0))
    ]
    drawn = rank_map_of(ranked(sides[0].ranks, sides[1].ranks))
    assert drawn.sentence.startswith(
        "Rank 1 of 4 computes for longer: 59.0 ms → 75.0 ms (+16.0 ms)"
    )


def test_rank__that_was_slow_before_is_no_culprit() -> None:
    """It is compared with itself: the step grew by something else."""
    before = times(8, 59.0, {3: 75.0})
    drawn = rank_map_of(ranked(works(before, 130.0), works(before, 116.0)))
    assert drawn.marked is None
    assert drawn.sentence == (
        "Rank 3 of 8 computes longest: 75.0 ms, the others at most"
        f" {max(ms for ms in before if ms < 70):.1f} ms; in the base it took 75.0 ms."
    )


def test_rank__that_became_faster_is_named_as_such() -> None:
    """Read the other way round: the others waited for it in the base."""
    drawn = rank_map_of(
        ranked(works(times(8, 59.0), 100.0), works(times(8, 59.0, {3: 75.0}), 116.0))
    )
    assert "Rank 3 of 8 computes for less: 75.0 ms → " in drawn.sentence
    assert "wait" not in drawn.sentence


def test_rank__idle_time_names_none() -> None:
    """It would have to be the same in each of several steps, which a rank's sums do not tell."""
    alike = works(times(8, 59.0), 100.0)
    head = tuple(
        work.but(step_ms=130.0, busy_ms=96.0 if work.rank != 3 else 60.0) for work in alike
    )
    drawn = rank_map_of(ranked(head, alike))
    assert drawn.marked is None
    assert drawn.sentence.startswith("No rank stands out: compute takes 58.")


def test_ranks__what_is_alike_has_no_lane_and_is_said() -> None:
    """The map has what differs; compute and the step are always there."""
    drawn = rank_map_of(slow_rank())
    assert [lane.name for lane in drawn.lanes] == ["compute", "exposed communication", "step"]
    assert "Alike on all ranks: exposed copies (1.00 ms), idle (4.00 ms)." in drawn.notes


def test_ranks__a_missing_number_says_why_it_is_missing() -> None:
    """A dash is only for what the format does not tell."""
    base = works([59.0, 59.0], 100.0, busy_ms=None)
    head = (*works([59.0, 60.0, 59.0], 101.0)[:2], RankWork(rank=2, step_ms=140.0, compute_ms=90.0))
    drawn = rank_map_of(ranked(head, base))
    rows = {row.cells[0]: row.cells for row in drawn.table.rows}
    heads = drawn.table.heads
    assert rows["0"][heads.index("Idle, base")] == "–"
    assert rows["2"][heads.index("Compute, base")] == "not in the base"
    (hover,) = [cell for cell in lane(drawn, "compute").hovers if "rank 2" in cell.title]
    assert hover.title == "rank 2, compute: 90.0 ms, not in the base"
    idle = {cell.title for cell in lane(drawn, "idle").hovers}
    assert "rank 0, idle: not told by the base's format → 4.00 ms" in idle
    assert "unknown" in shades(lane(drawn, "idle"), "base")


def test_ranks__without_a_base_are_drawn_alone() -> None:
    """There is no change, and a part that the format does not tell is said once."""
    alone = case(ranks=(RankWork(rank=0, step_ms=14.5), RankWork(rank=1, step_ms=19.9)))
    drawn = rank_map_of(alone)
    assert [strip.side for strip in drawn.lanes[0].strips] == ["this run"]
    assert drawn.sentence == "2 ranks: their steps take 14.5 to 19.9 ms, and compute is not told."
    assert drawn.notes == (
        "Not told by this format: compute, exposed communication, exposed copies, idle.",
    )
    assert rank_map(case()) is None


# --- launches -------------------------------------------------------------------------------------

BASE, HEAD = (100.0, 101.0, 99.0), (109.0, 110.0, 108.5)


def place(text: str | None) -> float:
    return float((text or "").rstrip("%"))


def test_launches__the_sentence_has_change_interval_and_limit() -> None:
    """As a reviewer asks for them."""
    assert plot_of(launched(BASE, HEAD)).sentence == (
        "Step time, 3 pairs: +9 % (+7.2 to +11 %), limit +10 %."
    )
    open_end = plot_of(launched(BASE, HEAD, high=None)).sentence
    assert open_end == "Step time, 3 pairs: +9 % (at least +7.2 %), limit +10 %."
    ungated = plot_of(launched(BASE, HEAD, gated=False, outcome=None))
    assert ungated.sentence == "Step time, 3 pairs: +9 % (+7.2 to +11 %)."
    assert (ungated.limits, ungated.zones) == ((), ())


def test_launches__limits_interval_and_dots_share_one_axis() -> None:
    """From left to right: the base's middle, what warns, the change, what fails."""
    drawn = plot_of(launched(BASE, HEAD))
    warn, fail = (place(limit.at) for limit in drawn.limits)
    assert place(drawn.zero) < warn < place(drawn.at) < fail < 100
    assert place(drawn.low) < place(drawn.at) < place(drawn.low) + place(drawn.width)
    xs = [int(x) for x in re.findall(r"M(\d+) ", drawn.heads)]
    assert [x / 10 > warn for x in xs] == [True] * 3
    assert [(tick.change, tick.value) for tick in drawn.ticks if tick.change == "0"] == [
        ("0", "100 ms")
    ]


def test_launches__a_throughput_that_decides_is_drawn_as_the_time_of_its_step() -> None:
    """The page's first line tells the step, and the drawing has the same number."""
    (one,) = slow_pull_request().cases
    drawn = plot_of(one)
    assert drawn.metric.name == STEP_TIME
    assert drawn.sentence == "Step time, 12 pairs: +25 % (+25 to +26 %), limit +5.3 %."
    assert [limit.words for limit in drawn.limits] == ["warns from +3.1 %", "fails from +5.3 %"]
    (row,) = [row for row in rows.metric_rows(one) if row.label == "Step time"]
    assert row.change == "+25 % (+25 to +26 %)"


def test_launches__more_throughput_is_left() -> None:
    """Right is worse, whichever way the metric counts."""
    (one,) = slow_pull_request().cases
    drawn = plot_of(
        one.but(changes=[change for change in one.changes if change.metric == THROUGHPUT])
    )
    assert drawn.metric.name == THROUGHPUT
    bases, heads = (
        [int(x) for x in re.findall(r"M(\d+) ", path)] for path in (drawn.bases, drawn.heads)
    )
    assert max(bases) < min(heads)
    assert [(tick.change, tick.value) for tick in drawn.ticks][-1] == ("−20 %", "21.7 k tok/s")
    assert "Throughput per device, 12 pairs: −20 %" in drawn.sentence
    assert [row.number for row in drawn.rows] == [*range(1, 13)]


def test_launches__void_ones_are_counted_and_listed() -> None:
    """They have no place on the axis; they stand at its edge and in the table."""
    drawn = plot_of(launched(BASE, HEAD, void=2))
    assert (drawn.base_void, drawn.head_void) == ("", "×× 2 void")
    assert [(row.number, row.head) for row in drawn.rows][3:] == [(4, "void"), (5, "void")]
    assert drawn.heads.count("M") == 3


def test_launches__several_hundred_are_bounded() -> None:
    """Of very many the first are drawn, without lines between them."""
    drawn = plot_of(
        launched([100.0 + n % 7 for n in range(900)], [109.0 + n % 5 for n in range(900)])
    )
    assert drawn.bases.count("M") == drawn.heads.count("M") == 400
    assert drawn.stems == ""
    assert drawn.left_out == 1000


def test_launches__beside_a_history_the_branch_has_the_dots() -> None:
    """Its last runs on such a machine, with steps of this size."""
    points = [
        HistoryPoint(
            case="training",
            created_at="2026-01-01T00:00:00Z",
            step_time_ms=100.0 + number % 3,
            throughput_tok_s=0.0,
            tokens_per_step=8192.0 if number else 1.0,
        )
        for number in range(31)
    ]
    one = launched((), HEAD, judged_by=JudgedBy.HISTORY, samples=30).but(tokens_per_step=8192.0)
    one = one.but(changes=tuple(change.but(base=102.0) for change in one.changes))
    drawn = plot_of(one, *points)
    assert drawn.sentence.startswith("Step time, 3 launches against 30 runs of the branch: +9 %")
    assert drawn.base_words == "the branch: its last 30 runs"
    assert [tick.value for tick in drawn.ticks if tick.change == "0"] == ["102 ms"]
    assert drawn.bases.count("M") == 30


def test_launches__need_two_numbers_of_the_base() -> None:
    """One run a side is a line of the table, and no drawing."""
    assert launches_plot(launched((100.0,), (109.0,)), ()) is None
    assert launches_plot(case(), ()) is None
    assert launches_plot(launched((), HEAD), ()) is None


@given(
    base=st.lists(st.floats(1e-3, 1e9), min_size=2, max_size=9),
    head=st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=9),
)
def test_launches__every_dot_is_within_the_drawing(base: list[float], head: list[float]) -> None:
    """However far apart the launches are."""
    drawn = plot_of(launched(base, head))
    xs = [int(x) for path in (drawn.bases, drawn.heads) for x in re.findall(r"M(\d+) ", path)]
    assert len(xs) == len(base) + len(head)
    assert all(0 <= x <= 1000 for x in xs)


def test_launches__of_another_metric_have_no_number() -> None:
    """A launch that did not measure it is no dot, and its row says so."""
    one = launched(BASE, HEAD)
    other = LaunchNumbers(side="head", launch=2, values={"loss": 1.0})
    kept = tuple(launch for launch in one.launches if (launch.side, launch.launch) != ("head", 2))
    drawn = plot_of(one.but(launches=(*kept, other)))
    assert drawn.heads.count("M") == 2
    assert drawn.rows[2].head == "not measured"
    assert STEP_TIME not in drawn.rows[2].head


# --- the page -------------------------------------------------------------------------------------


def test_page__a_map_of_many_layers_and_phases_is_small() -> None:
    """128 layers and as many phases as are drawn take a fraction of what a page may have."""
    many = layered(128, {3: 0.4}, phases=[f"phase {number}" for number in range(12)])
    page = report_html(record(many))
    drawn = page[page.index('<figure class="map"') :].partition("</figure>")[0]
    assert drawn.count("<title>layer") >= 128 * (MOST_PHASES - 2)
    assert len(drawn) < 250_000


def test_page__has_the_maps_with_their_tables() -> None:
    """Each drawing brings its sentence, a title for each cell, and the same as a table."""
    layers, ranks = (report_html(record(one)) for one in (layered(24, {3: 0.4}), slow_rank()))
    assert "Layer 3 grew most: +0.40" in layers.replace("\u00a0", " ")
    assert "<title>layer 3, backward: 1.00 ms → 1.40 ms (+0.40" in layers
    assert "<title>rank 37, compute: 5" in ranks
    for page in (layers, ranks):
        drawn = page[page.index('<figure class="map"') :].partition("</figure>")[0]
        assert "<summary>The same as a table</summary>" in drawn


def test_page__of_very_many_cases_has_maps_without_their_lists() -> None:
    """What passes keeps its drawings; titles and tables are the first to go."""
    passing = [layered(8).but(name=f"case-{number}") for number in range(20)]
    page = report_html(record(*passing))
    assert page.count('<figure class="map"') == 20
    drawn = re.findall(r'<figure class="map".*?</figure>', page, re.DOTALL)
    assert not any("<table" in one or "<title>" in one for one in drawn)

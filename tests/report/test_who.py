"""Who is different: the tables of layers and ranks, and the launches on one axis."""

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
from ci_score.report.html.launches import Launches, launches_plot
from ci_score.report.html.layer_table import MOST_PHASES, layer_table, ranges
from ci_score.report.html.page import report_html
from ci_score.report.html.rank_table import rank_table
from ci_score.report.html.shades import ShadedTable, mark, shade
from ci_score.traces.merge import merged
from tests.builders import case, profile, record
from tests.builders.showcase import slow_pull_request
from tests.builders.who import launched, layered, ranked, times, works


def layers_of(judged: Judged, most: int = 500) -> ShadedTable:
    found = layer_table(judged, most=most)
    assert found is not None
    return found


def ranks_of(judged: Judged, most: int = 256) -> ShadedTable:
    found = rank_table(judged, most)
    assert found is not None
    return found


def plot_of(judged: Judged, *history: HistoryPoint) -> Launches:
    found = launches_plot(judged, history)
    assert found is not None
    return found


def column(table: ShadedTable, head: str) -> dict[str, tuple[str, str, str]]:
    """Change, times and shade of each row."""
    place = table.heads.index(head) - 1
    cells = {row.name: row.cells[place] for row in table.rows}
    return {name: (cell.change, cell.times, cell.shade) for name, cell in cells.items()}


def shades(table: ShadedTable, head: str) -> set[str]:
    return {shade for _, _, shade in column(table, head).values()}


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


def test_layers__those_that_grew_are_named_and_shaded() -> None:
    """Neighbours are a range, and what they grew by is the sum in that phase."""
    table = layers_of(layered(128, {12: 0.8, 13: 0.8, 14: 0.75, 15: 0.77, 90: 0.1}))
    assert table.sentence == "Layers 12–15 grew most: +3.12 ms in the backward."
    assert table.heads == ("Layer", "forward", "backward", "optimizer")
    assert len(table.rows) == 129
    assert shades(table, "forward") == {"same"}
    backward = column(table, "backward")
    assert backward["12"] == ("▲ +0.800", "1.00 → 1.80", "up4")
    assert backward["90"] == ("▲ +0.100", "1.00 → 1.10", "up2")
    assert backward["91"] == ("0.000", "1.00 → 1.00", "same")
    assert (table.sums[1].change, table.sums[1].times) == ("+3.22", "128 → 131")


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
        ({3: 0.4}, 5.0, "grew most: +5.00 ms in the optimizer. Layer 3 grew most: +0.400 ms in"),
        ({}, 0.0, "No layer changed by more than 2 %."),
        ({3: 0.01}, 0.0, "No layer changed by more than 2 %."),
    ],
)
def test_layers__the_sentence_says_what_the_table_shows(
    grown: dict[int, float], optimizer_ms: float, words: str
) -> None:
    """Single layers, all of them, what is outside of them, or that nothing changed."""
    assert words in layers_of(layered(24, grown, optimizer_ms=optimizer_ms)).sentence


def test_layers__what_is_outside_of_them_is_the_first_row() -> None:
    """A phase may have it alone, or beside its layers; what a phase lacks is a dash."""
    optimizer = column(layers_of(layered(24, {3: 0.4}, optimizer_ms=5.0)), "optimizer")
    assert list(optimizer) == ["outside", *map(str, range(24))]
    assert optimizer["outside"] == ("▲ +5.00", "8.00 → 13.0", "up4")
    assert optimizer["3"] == ("", "–", "same")
    beside = layers_of(layered(24, {3: 0.4}, phases=("forward", "optimizer")))
    assert column(beside, "optimizer")["3"] == ("▲ +0.400", "1.00 → 1.40", "up4")


def test_layers__without_their_ops_forward_and_backward_are_shown() -> None:
    """The sums of both sides are enough; a layer that one side lacks has no change."""
    table = layers_of(layered(24, {3: 0.4, 7: 0.4}, has_places=False))
    assert table.heads[:3] == ("Layer", "forward", "backward")
    assert table.sentence == "Layers 3 and 7 grew most: +0.800 ms in the backward."
    assert len(column(table, "forward").keys() - {"outside"}) == 24


def test_layers__that_are_repeats_of_kernels_are_called_so() -> None:
    """They may be something else than layers."""
    table = layers_of(layered(24, {3: 0.4}, layers_are=LayersAre(kind="repeats")))
    assert table.sentence.startswith("Repeat 3 grew most")
    assert "layer" not in table.sentence + table.caption + table.heads[0]


def test_layers__ops_that_one_side_has_not_kept_are_left_out_and_said() -> None:
    """Their time on the other side is not known, so they have no change."""
    told = layered(24, {3: 0.4}, optimizer_ms=5.0)
    assert told.base is not None
    assert layers_of(told).notes == []
    fewer = told.base.but(step_ops=told.base.step_ops.largest(1))
    table = layers_of(told.but(base=fewer))
    assert table.notes == ["Without 13.0 ms of ops that only one side has kept."]
    assert table.sentence == "Layer 3 grew most: +0.400 ms in the backward."


def test_layers__need_both_sides() -> None:
    """One side alone has no change; a case without layers has no table."""
    assert layer_table(layered(4).but(base=None)) is None
    assert layer_table(ranked(works([59.0], 100.0), works([59.0], 100.0))) is None


def test_layers__of_many_those_that_changed_most_stay() -> None:
    """What has no room is counted; sums and sentence are of all."""
    names = [f"phase {number}" for number in range(20)]
    table = layers_of(layered(300, {7: 0.4}, phases=names), most=100)
    assert len(table.rows) == 100
    assert column(table, "phase 19")["7"] == ("▲ +0.400", "1.00 → 1.40", "up4")
    assert len(table.heads) == 1 + MOST_PHASES
    assert table.notes == ["201 more layers changed less.", "13 more phases took less."]
    assert table.sums[table.heads.index("phase 19") - 1].change == "+0.400"


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
    """In the sentence, in its row, and by the colour of its compute alone."""
    table = ranks_of(slow_rank(count, 3))
    assert re.fullmatch(
        rf"Rank 3 of {count}, for which the others wait, computes for longer: 5\d\.\d → 75\.0 ms"
        r" a step\.",
        table.sentence,
    )
    assert [row.name for row in table.rows if row.is_marked] == ["3"]
    # The others differ by less than 1 % of the step.
    assert shades(table, "Compute") == {"same", "up4"}
    assert column(table, "Compute")["3"][2] == "up4"
    assert table.heads[-1] == "Peak memory"
    assert column(table, "Peak memory")["3"] == ("", "60 GB", "same")


def test_rank__that_is_marked_has_its_row_in_any_table() -> None:
    """Of others those stay that changed most."""
    table = ranks_of(slow_rank(64, 37), most=1)
    assert [row.name for row in table.rows] == ["37"]
    assert table.notes == ("63 more ranks differ less.",)


def test_rank__is_named_when_the_base_comes_from_a_record() -> None:
    """Its ranks are read back, and the sentence of the verdict names the rank too."""
    base = Judged.model_validate_json(
        slow_rank().but(ranks=works(times(64, 59.0), 100.0)).model_dump_json()
    )
    again = ranked(works(times(64, 59.0, {37: 75.0}), 116.0), base.ranks)
    page = report_html(Record.model_validate_json(record(again).model_dump_json()))
    assert "Rank 37 of 64, for which the others wait, computes for longer" in page


def test_rank__of_merged_files_is_named() -> None:
    """Files of four ranks are one case, which keeps each rank's parts for this table."""

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
    table = ranks_of(ranked(sides[0].ranks, sides[1].ranks))
    assert table.sentence == (
        "Rank 1 of 4, for which the others wait, computes for longer: 59.0 → 75.0 ms a step."
    )


def test_rank__that_was_slow_before_is_no_culprit() -> None:
    """It is compared with itself: the step grew by something else."""
    before = times(8, 59.0, {3: 75.0})
    table = ranks_of(ranked(works(before, 130.0), works(before, 116.0)))
    assert not any(row.is_marked for row in table.rows)
    assert table.sentence == (
        "Rank 3 of 8 computes longest: 75.0 ms, the others at most"
        f" {max(ms for ms in before if ms < 70):.1f} ms; in the base it took 75.0 ms."
    )


def test_rank__that_became_faster_is_named_as_such() -> None:
    """Read the other way round: the others waited for it in the base."""
    table = ranks_of(ranked(works(times(8, 59.0), 100.0), works(times(8, 59.0, {3: 75.0}), 116.0)))
    assert "Rank 3 of 8, for which the others wait, computes for less: 75.0 → " in table.sentence


def test_rank__idle_time_names_none() -> None:
    """It would have to be the same in each of several steps, which a rank's sums do not tell."""
    alike = works(times(8, 59.0), 100.0)
    head = tuple(
        work.but(step_ms=130.0, busy_ms=96.0 if work.rank != 3 else 60.0) for work in alike
    )
    table = ranks_of(ranked(head, alike))
    assert not any(row.is_marked for row in table.rows)
    assert table.sentence.startswith("No rank stands out: compute takes 58.")
    assert column(table, "Idle")["3"][0] == "▲ +66.0"


def test_ranks__a_missing_number_is_a_dash() -> None:
    """The format does not tell it, or the base has no such rank; then there is no change."""
    base = works([59.0, 59.0, 59.0, 59.0], 100.0, busy_ms=None)[:2]
    head = (*works([59.0, 60.0, 59.0], 101.0)[:2], RankWork(rank=2, step_ms=140.0, compute_ms=90.0))
    table = ranks_of(ranked(head, base))
    assert column(table, "Compute")["2"] == ("", "– → 90.0", "same")
    assert column(table, "Idle")["0"] == ("", "– → 4.00", "same")
    assert column(table, "Idle")["2"] == ("", "–", "same")
    gone = ranks_of(ranked(head[:1], base))
    assert gone.notes == ("The base has 1 more rank.",)


def test_ranks__without_a_base_are_compared_with_the_one_in_the_middle() -> None:
    """A part that the format does not tell has no column, and is said once."""
    alone = case(ranks=[RankWork(rank=n, step_ms=ms) for n, ms in enumerate((14.5, 14.6, 19.9))])
    table = ranks_of(alone)
    assert column(table, "Step") == {
        "0": ("−0.10", "14.5", "same"),
        "1": ("0.00", "14.6", "same"),
        "2": ("▲ +5.30", "19.9", "up4"),
    }
    assert "the one in the middle" in table.caption
    assert table.sentence == "3 ranks: their steps take 14.5 to 19.9 ms, and compute is not told."
    assert table.notes == (
        "Not told by this format: compute, exposed communication, exposed copies, idle.",
    )
    assert rank_table(case()) is None


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


def tables_of(page: str) -> list[str]:
    return re.findall(r'<figure class="shaded">.*?</figure>', page, re.DOTALL)


def test_page__has_the_tables_with_their_sentences() -> None:
    """Every cell has its numbers as text, and the class of its shade."""
    layers, ranks = (report_html(record(one)) for one in (layered(24, {3: 0.4}), slow_rank()))
    (table,) = tables_of(layers)
    assert "Layer 3 grew most: +0.400" in table.replace("\u00a0", " ")
    assert '<td class="up4">▲ +0.400<br> <small>1.00 → 1.40</small>' in table
    (table,) = tables_of(ranks)
    assert '<tr class="named"><th>37<td class="up4">▲ +1' in table


def test_page__a_table_of_many_layers_and_phases_is_small() -> None:
    """128 layers in as many phases as are shown take a fraction of what a page may have."""
    many = layered(128, {3: 0.4}, phases=[f"phase {number}" for number in range(12)])
    (table,) = tables_of(report_html(record(many)))
    assert table.count("<tr>") == 2 + 129
    assert len(table) < 100_000


def test_page__of_many_cases_has_short_tables() -> None:
    """What passes keeps the rows that changed most."""
    passing = [layered(64).but(name=f"case-{number}") for number in range(20)]
    tables = tables_of(report_html(record(*passing)))
    assert [table.count("<tr>") for table in tables] == [2 + 20] * 20

"""The HTML report as text: what must be in it, and what must never be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from ci_score.model.explanation import BETWEEN, Explanation, Part, Timeline
from ci_score.model.profile import RankWork
from ci_score.model.reasons import quoted
from ci_score.model.record import Record, RunIdentity
from ci_score.model.verdict import Change, Outcome, Unjudged
from ci_score.report.html import figures, icicle, ops
from ci_score.report.html.allowance import (
    ALONE,
    DRAWN,
    LEAST,
    LISTED,
    MOST_WORK,
    WHOLE,
    Form,
    fitted,
)
from ci_score.report.html.course import courses
from ci_score.report.html.page import report_html
from ci_score.report.html.scale import Scale
from ci_score.report.joined_ops import JoinedOp
from ci_score.report.markdown import report_markdown
from ci_score.report.names_of_case import names_of_ops
from ci_score.report.terminal import report_text
from tests.builders import case, on, record, scorecard
from tests.builders.both_sides import slower
from tests.builders.elements import Elements
from tests.builders.reports import HOSTILE, demo, hostile, matrix, ungraded
from tests.builders.showcase import MACHINE, TOKENS, deep, history, large, slow_pull_request


def test_page__is_well_formed() -> None:
    """Every element that is opened is closed, in every kind of report."""
    for value in (
        demo(),
        matrix(),
        hostile(),
        ungraded(),
        record().but(cases=()),
    ):
        assert Elements(report_html(value)).open == []


def test_page__asks_for_nothing() -> None:
    """No address but fragments and pages of its own repository; a policy would refuse others."""
    for told in (demo(), of_pull_request()):
        page = Elements(report_html(told))
        wanted = [
            value or ""
            for _, attributes in page.tags
            for name, value in attributes.items()
            if name in ("src", "href", "xlink:href", "srcset", "action", "style")
            or name[:2] == "on"
        ]
        own = f"{told.repository}/" if told.repository else "#"
        assert all(value.startswith(("#", own)) or value == told.repository for value in wanted)
        policy = next(a["content"] for tag, a in page.tags if "http-equiv" in a) or ""
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy


def of_pull_request() -> Record:
    """The demo in a repository, beside the run of its baseline."""
    told = demo()
    (one,) = told.cases
    assert one.baseline is not None
    used = one.baseline.but(run=RunIdentity(number=917, id=88123))
    return told.but(
        repository="https://github.com/octocat/train",
        pull=12,
        run=RunIdentity(number=918, id=88130),
        cases=(one.but(baseline=used),),
    )


def test_page__its_header_says_what_was_measured() -> None:
    """Repository, pull request, commit and case, each with its page, and both runs."""
    told = of_pull_request()
    page = Elements(report_html(told))
    links = {attributes.get("href") for tag, attributes in page.tags if tag == "a"}
    own = told.repository
    assert told.commit is not None
    for address in ("", "/pull/12", f"/commit/{told.commit}", "/actions/runs/88130"):
        assert f"{own}{address}" in links
    (one,) = told.cases
    assert one.baseline is not None
    assert {f"{own}/commit/{one.baseline.commit}", f"{own}/actions/runs/88123"} <= links
    title = re.search("<title>(.*)</title>", report_html(told))
    assert title is not None
    assert title[1] == f"Fail: octocat/train #12 {told.commit[:7]} {one.name} · ci-score"


def test_page__its_header_has_the_commit_that_people_know() -> None:
    """Of a pull request its own newest commit, as in the comment, and no test merge."""
    told = of_pull_request().but(pull_head="5" * 40)
    page = Elements(report_html(told))
    links = {attributes.get("href") for tag, attributes in page.tags if tag == "a"}
    assert f"{told.repository}/commit/{'5' * 40}" in links
    assert f"{told.repository}/commit/{told.commit}" not in links


def test_page__its_header_links_nothing_that_is_not_known() -> None:
    """Without a repository the commit is a text, and nothing stands for what is not there."""
    page = Elements(report_html(demo(), "nightly"))
    assert not [a for tag, a in page.tags if tag == "a" and not (a["href"] or "").startswith("#")]
    (one,) = demo().cases
    shown = " ".join("".join(page.text).split())
    assert f"Fail: {(demo().commit or '')[:7]} nightly {one.name} · ci-score" in shown
    assert "This run" in shown
    assert "This PR" not in shown


def test_page__ids_are_unique_and_links_lead_somewhere() -> None:
    """A label names one element, which is there."""
    for value in (demo(), matrix()):
        tags = Elements(report_html(value)).tags
        ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        named = [
            target
            for _, attributes in tags
            for name in ("aria-labelledby", "href")
            for target in (attributes.get(name) or "").removeprefix("#").split()
        ]
        assert set(named) <= set(ids)


def test_page__hostile_names_stay_text() -> None:
    """Markup in names is shown, and invisible characters have a visible mark."""
    text = report_html(hostile())
    shown = "".join(Elements(text).text)
    assert "<img src=x>" in shown
    assert not [tag for tag, _ in Elements(text).tags if tag == "img"]
    assert "\u202e" not in text
    assert HOSTILE.replace("\n", " ")[:60] in shown


def test_page__names_in_a_sentence_stand_out() -> None:
    """As code, without the quotes that a text needs; what a stranger wrote stays visible text."""
    heading = re.search("<h1>(.*)</h1>", report_html(matrix()))
    assert heading is not None
    assert "<code>fails</code>" in heading[1]
    told = record(notices=(quoted("\u202egnp.exe <b>"),))
    text = report_html(told)
    assert "<p>\ufffdgnp.exe &lt;b&gt;</p>" in text
    assert "\u202e" not in text


def test_page__long_names_are_cut() -> None:
    """The longest name that a record may have costs no more than a line in each place."""
    long = hostile().model_dump_json().replace("**bold**", "**bold**" + "x" * 900)
    text = report_html(type(hostile()).model_validate_json(long))
    assert len(text) < len(report_html(hostile())) + 20_000


def test_page__no_line_is_a_command() -> None:
    """Printed in a job, no line of it is an order to the runner."""
    assert not re.search(r"^\s*::|##\[", report_html(hostile()), re.MULTILINE)


def test_page__says_what_a_reader_looks_for() -> None:
    """The verdict in words, each section once, and every table with a caption."""
    text = report_html(demo(), "nightly")
    page = Elements(text)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("table") == tags.count("caption")
    assert tags.count("h1") == tags.count("main") == 1
    shown = " ".join("".join(page.text).split())
    for words in ("Fail", "nightly", "+26 %", "Where the +80.0 ms went", "swiglu_bwd", "L4 × 1"):
        assert words in shown


def test_page__names_the_rules_that_judge() -> None:
    """Also where the policy names none: pairs and single runs then have rules of their own."""
    pairs, single = slow_pull_request(), demo()
    for rules, cases in (
        ("training", pairs.cases),
        ("reference", single.cases),
        ("reference and training", (*pairs.cases, single.cases[0].but(name="other"))),
    ):
        text = report_html(pairs.but(rules=None, cases=cases, policy=None))
        shown = " ".join("".join(Elements(text).text).split())
        assert f"Judged by the {rules} rules; no policy file changes them." in shown
        assert "None" not in shown
    assert "Judged by" not in report_html(pairs.but(rules=None, cases=()))


@pytest.mark.parametrize("size", [(64, 128, 200), (256, 128, 50), (1, 3000, 200)])
def test_page__stays_below_its_size(size: tuple[int, int, int]) -> None:
    """Under 5 MB whatever a record holds; every case is in the overview and has its tables."""
    text = report_html(large(*size))
    assert len(text.encode()) < 5_000_000
    assert len(set(re.findall(r"model-\d+@h100", text))) == size[0]
    assert text.count('<table class="metrics">') >= size[0]


def test_page__what_fails_is_whole_before_the_rest_is_drawn() -> None:
    """Of many cases those that need attention have all their ops; the others what still fits."""
    told = deep(layers=12, ops=174, cases=64)
    text = report_html(told)
    assert len(text.encode()) < 5_000_000
    bodies = text.split('<details class="case"')[1:]
    fails = [body for body in bodies if "</svg> Fail</span>" in body[:300]]
    assert len(fails) == 13
    assert all(body.count('<tr><th scope="row"><details>') >= 20 for body in fails)
    assert all('class="op-columns"' in body for body in fails)
    assert not any('class="op-columns"' in body for body in bodies[13:])


@pytest.mark.parametrize(
    ("needy", "room", "expected"),
    [
        ((True, False, False), 200, "WLL"),
        ((True, False, False), 75, "WDD"),
        ((True, False, False), 65, "WD."),
        ((True, True, False), 95, "WWD"),
        ((False,) * 17, 999, "D" * 17),
        ((True, True, False), 75, "WL."),
        ((True, True, False), 60, "LD."),
        ((False, True, False), 75, "DWD"),
        ((False, False, False), 30, "..."),
        ((False, False, False), 25, ".. "),
        ((False,), 35, "A"),
        ((True,), 25, "D"),
    ],
)
def test_fitted__is_as_rich_as_there_is_room(
    needy: tuple[bool, ...], room: int, expected: str
) -> None:
    """Those that need attention are whole first, as far as the others still have their drawings."""
    sizes = {LEAST: 10, DRAWN: 20, LISTED: 30, WHOLE: 35, ALONE: 35}
    letters = {LEAST: ".", DRAWN: "D", LISTED: "L", WHOLE: "W", ALONE: "A"}
    texts = fitted(needy, lambda _, form: letters[form] * sizes[form], room, spare=10)
    assert "".join(text[0] if text else " " for text in texts) == expected


def test_fitted__reads_so_many_ops_and_no_more() -> None:
    """Beyond what a page may read of ops its cases are not drawn; one case is, whatever it has."""
    drawn: list[int] = []

    def render(place: int, form: Form) -> str:
        drawn.extend([place] if form.draws else ())
        return "x"

    fitted((False, True, False), render, work=[1, MOST_WORK - 1, 2])
    assert drawn == [1, 0]
    drawn.clear()
    fitted((False, True), render, work=[1, 2 * MOST_WORK])
    assert drawn == [1]


def test_page__names_the_ops_of_a_case_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table and all forms of its drawing have the same names; to find them takes time."""
    named: list[int] = []

    def names(found: Iterable[JoinedOp]) -> dict[str, str]:
        named.append(1)
        return names_of_ops(found)

    for module in (ops, icicle):
        monkeypatch.setattr(module, "names_of_ops", names)
    report_html(record(slower()))
    assert sum(named) == 1


def test_page__draws_long_courses_whole() -> None:
    """A path is no text, and is never cut."""
    text = report_html(slow_pull_request())
    lines = re.findall(r'<path class="line" d="([^"]*)"', text)
    assert [line.count("L") for line in lines] == [119]
    assert "Throughput per device −3.6" in text
    assert "this run" in text


def test_course__of_two_runs_is_no_trend() -> None:
    """A line between two points would look like one."""
    points = history("training", 300.0, 2)
    known = case(card=scorecard(300.0, 27_000.0), environment=on("L4"), tokens_per_step=8192.0)
    assert courses(record(known), known, points[:1]) == []
    assert len(courses(record(known), known, points)) == 1


def test_course__marks_this_run_and_leaves_other_machines_out() -> None:
    """On the branch it is the last point, elsewhere one more; other work is told, not drawn."""
    points = history("training", 300.0, 5)
    other = points[1].but(tokens_per_step=1.0)
    elsewhere = points[2].but(environment=on("H100 SXM 80GB"))
    known = case(card=scorecard(300.0, 27_000.0), environment=on("L4"), tokens_per_step=8192.0)
    mixed = (points[0], other, elsewhere, *points[3:])
    [course] = courses(record(known), known, mixed)
    assert (len(course.runs), course.elsewhere) == (3, 2)
    assert course.now is not None
    assert course.now.x == "100%"
    assert course.runs[-1].x != "100%"
    last = points[-1]
    [course] = courses(record(known, commit=last.commit, run=last.run), known, points)
    assert course.now == course.runs[-1]


@pytest.mark.parametrize("runs", [2, 3, 9])
def test_course__is_the_same_without_its_list_of_runs(runs: int) -> None:
    """Line, dates and sentence; only of the runs between them less is told."""
    known = case(card=scorecard(300.0, 27_000.0), environment=MACHINE, tokens_per_step=TOKENS)
    points = tuple(one.but(environment=MACHINE) for one in history("training", 300.0, runs))
    (listed,) = courses(record(known), known, points)
    (short,) = courses(record(known), known, points, lists_runs=False)
    assert replace(listed, runs=()) == replace(short, runs=())
    assert (len(listed.runs), len(short.runs)) == (runs, min(runs, 3))


def test_interval__right_is_worse() -> None:
    """Of a throughput that falls and a time that grows alike; limits in the same direction."""
    slower = Change(
        metric="step_time_ms", base=100.0, head=110.0, delta=0.1, low=0.08, high=0.12, gated=True,
        warn_limit=0.03, fail_limit=0.05,
    )  # fmt: skip
    fewer = slower.but(metric="throughput_tok_s", delta=-0.1, low=-0.12, high=-0.08)
    drawn = figures.interval(slower)
    assert drawn == figures.interval(fewer)
    assert drawn is not None
    places = [float((place or "").rstrip("%")) for place in (drawn.zero, drawn.warn, drawn.fail)]
    assert places == sorted(places)
    assert float(drawn.at.rstrip("%")) > places[-1]


def test_waterfall__bars_meet_and_end_at_this_change() -> None:
    """Each bar begins where the one before ended, so the eye can add them up."""
    found = demo().cases[0].explanation
    assert found is not None
    steps = figures.step_waterfall(found).steps
    ends = [float(s.start.rstrip("%")) + float(s.width.rstrip("%")) for s in steps]
    assert ends[0] == pytest.approx(float(steps[1].start.rstrip("%")), abs=0.02)
    assert ends[1] == pytest.approx(float(steps[2].start.rstrip("%")), abs=0.02)
    assert ends[-1] == pytest.approx(ends[-2], abs=0.1)


def test_waterfall__inside_compute_is_drawn_where_a_kind_matters() -> None:
    """Not of noise beside the change of the step, and an error of rounding is no row."""
    kinds = (
        Part(name="gemm", base_ms=5.0, head_ms=9.0),
        Part(name="norm", base_ms=1.0, head_ms=1.0 + 1e-15),
    )
    told = Explanation(
        basis="device", base_step_ms=10.0, head_step_ms=15.0, parts=(), categories=kinds
    )
    inside = figures.compute_waterfall(told)
    assert inside is not None
    assert [step.name for step in inside.steps[1:-1]] == ["gemm"]
    noise = told.but(categories=(kinds[0].but(head_ms=5.1), kinds[1]))
    assert figures.compute_waterfall(noise) is None
    assert figures.compute_waterfall(told.but(categories=())) is None


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (21.6, 28.5), (-0.3, 0.01), (5.0, 5.0)])
def test_scale__ticks_are_round_and_within(low: float, high: float) -> None:
    """A few, each within the ends."""
    ticks = Scale(low, high).ticks()
    assert 1 <= len(ticks) <= 11
    assert all(low <= tick <= high for tick in ticks)


def test_page__its_words_are_told_and_its_code_is_code() -> None:
    """What not everybody knows has its meaning, commands are marked up, and changes line up."""
    page = report_html(demo())
    assert "Roofline: the throughput that the memory bandwidth could feed" in page
    assert "-- &lt;your training command&gt;" in page
    assert "+0.0130 ms" not in page
    assert "side by side (<code>ci-score ab</code>)." in report_html(matrix())


def test_ranks__are_a_section_of_their_own() -> None:
    """On the page as a map, in the comment folded; what is not known is a dash."""
    ranks = (
        RankWork(rank=0, step_ms=14.5, own_ms=8.92, exposed_communication_ms=5.54),
        RankWork(rank=1, step_ms=19.9),
    )
    told = record(case(ranks=ranks))
    page = report_html(told)
    assert ">Ranks</h" in page
    assert "8.92" in page
    assert "| 1 | 19.9 ms | – | – |" in report_markdown(told)
    assert ">Ranks</h" not in report_html(record(case()))


def test_page__what_is_not_clear_is_said_as_not_proven() -> None:
    """Where the time went is shown beside an unclear verdict too, and not as a fact."""
    told = demo()
    (one,) = told.cases
    assert one.verdict is not None
    doubt = one.verdict.but(outcome=Outcome.INCONCLUSIVE, unjudged=Unjudged.UNCLEAR)
    unclear = told.but(cases=(one.but(verdict=doubt),))
    for text in (report_html(unclear), report_markdown(unclear)):
        assert "(not proven)" in text
    assert "(not proven)" not in report_html(told) + report_markdown(told)


def test_page__a_time_that_is_not_clear_is_not_proven_by_a_count_that_fails() -> None:
    """The heading of the parts of the step says so, and under which tool they were timed."""
    told = demo()
    (one,) = told.cases
    assert one.explanation is not None
    times = ("step_time_ms", "throughput_tok_s")
    unclear = tuple(
        change.but(outcome=Outcome.INCONCLUSIVE if change.metric in times else Outcome.FAIL)
        for change in one.changes
    )
    found = one.explanation.but(under_profiler=True)
    told = told.but(cases=(one.but(changes=unclear, explanation=found),))
    for text in (report_html(told), report_markdown(told), report_text(told)):
        assert "went (under the profiler) (not proven)" in text


def test_phases__of_a_cpu_have_the_time_between_operators() -> None:
    """And sum to the step."""
    parts = {"forward": 60.0, "backward": 30.0, BETWEEN: 10.0}
    timeline = Timeline(basis="host", step_ms=100.0, parts=parts)
    stack = figures.phase_stack(case(timeline=timeline, phases={"forward": 65.0}))
    assert stack is not None
    assert [(row.name, row.times) for row in stack.legend] == [
        ("forward", (60.0,)),
        ("backward", (30.0,)),
        (BETWEEN, (10.0,)),
    ]


def test_page__a_step_that_did_not_change_has_no_table_of_its_parts() -> None:
    """A failure that is not about time says nothing of where 0 ms went."""
    parts = (Part(name="forward", base_ms=40.0, head_ms=40.0),)
    same = Explanation(basis="host", base_step_ms=100.0, head_step_ms=100.0, parts=parts)
    moved = same.but(head_step_ms=112.0, parts=(parts[0].but(head_ms=52.0),))
    assert "ms went" not in report_html(record(case(explanation=same)))
    assert "Where the +12.0 ms went" in report_html(record(case(explanation=moved)))


def test_page__parts_that_another_drawing_has_are_not_drawn_again() -> None:
    """The waterfall and the icicle have a step's parts and phases: no bars of one side beside."""
    page = report_html(slow_pull_request())
    assert "What the device did in a step" not in page
    assert "Phases of a step" not in page
    assert 'class="layers"' not in page
    assert page.index("ms went") < page.index('class="icicle"') < page.index('class="launches"')


def test_page__tells_a_throughput_s_decision_as_the_time_of_its_step() -> None:
    """Its row has the sign, the colour and the zones of what decides."""
    row = report_html(slow_pull_request()).split("Step time</th>")[1].split("</tr>")[0]
    assert "+25\u00a0% (+25 to +26\u00a0%)" in row
    assert '<td class="fail">fails</td>' in row

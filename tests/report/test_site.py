"""The branch's site: the whole history in few pages, links that lead somewhere, and only text."""

from __future__ import annotations

import re
from functools import cache

from ci_score.judge import trends
from ci_score.judge.policy import Policy
from ci_score.model.metrics import MEMORY, THROUGHPUT
from ci_score.model.record import MetricFacts, Record, RunIdentity
from ci_score.report.site import report_name, site_pages
from ci_score.report.site.lines import SMALL_POINTS
from ci_score.report.site.names import case_files
from tests.builders import case, on, record, scorecard
from tests.builders.branch import (
    OWN,
    REPOSITORY,
    RUNS,
    SLOWER_FROM,
    accepted,
    left_by,
    long_history,
    sha,
)
from tests.builders.elements import Elements
from tests.builders.reports import HOSTILE
from tests.builders.showcase import large

NAME = "llama-7b@h100"
PAGE = f"case-{NAME}.html"
TRAINING = Policy(rules="training")


@cache
def branch(runs: int = RUNS) -> Record:
    """The newest record with the whole history, as it is joined of several."""
    points = tuple(long_history(runs=runs))
    newest = left_by(runs - 1, points)
    told = trends(newest.cases, TRAINING, points, looks_back=runs)
    return newest.but(history=points, trends=told)


def shown(text: str) -> str:
    return " ".join("".join(Elements(text).text).split())


def links(text: str) -> list[str]:
    return [str(a["href"]) for tag, a in Elements(text).tags if tag == "a"]


def hostile() -> Record:
    """Every text that a record may bring is made to break out."""
    point = long_history(runs=2)[1]
    said = accepted(NAME).but(reason=HOSTILE, by=HOSTILE[:30], url=f"javascript:{REPOSITORY}/x")
    points = tuple(
        one.but(
            metrics={HOSTILE: 1.0 + place},
            accepted=(said,),
            environment=on(HOSTILE),
        )
        for place, one in enumerate(long_history(runs=2))
    )
    return record(
        case(NAME, scorecard(300.0, 0.0), environment=on(HOSTILE)),
        history=points,
        commit=point.commit,
        run=point.run,
        metrics={HOSTILE: MetricFacts(label=HOSTILE, unit="<b>")},
        repository=REPOSITORY,
    )


def test_site__has_the_whole_history() -> None:
    """All 400 runs are drawn and listed, of which one record keeps half."""
    page = site_pages(branch(), ())[PAGE]
    lines = re.findall(r'<path class="line" d="([^"]*)"', page)
    assert [line.count("L") for line in lines] == [RUNS - 1] * 3
    for run in range(RUNS):
        assert sha(run) in page
    assert f"{RUNS} runs of the branch from 2025-01-01 to 2026-02-04" in shown(page)


def test_site__old_changes_have_their_commits() -> None:
    """A change of 250 runs ago stands beside one of 100 runs ago, linked and with its range."""
    pages = site_pages(branch(), ())
    for page in (pages["index.html"], pages[PAGE]):
        text = shown(page)
        assert re.search(r"−[34](\.\d)? %, worse", text)
        assert "+3.7 %, worse" in text
        assert "18.9 GB → 19.6 GB" in text
        assert f"{REPOSITORY}/commit/{sha(150)}" in links(page)
        assert f"{REPOSITORY}/compare/{sha(149)}...{sha(150)}" in links(page)
    levels = re.findall(r'<line class="level"', pages[PAGE])
    assert len(levels) == 4


def test_site__accepted_regressions_are_shown() -> None:
    """What, by whom, why, of which run, and the comment."""
    pages = site_pages(branch(), ())
    for page in (pages["index.html"], pages[PAGE]):
        text = shown(page)
        assert "up to 12 % by octocat, because the new loss needs a second pass" in text
        assert f"{REPOSITORY}/pull/9#issuecomment-123" in links(page)
        assert f"{REPOSITORY}/commit/{sha(SLOWER_FROM)}" in links(page)
    assert "Pass, accepted" in shown(pages[PAGE])
    assert "1 accepted regression." in shown(pages["index.html"])


def test_site__an_accepted_step_time_counts_where_the_time_is_drawn() -> None:
    """It is drawn as throughput; memory of the same run was not accepted."""
    said = accepted(NAME)
    both = (said.but(metric="step_time_ms"), said)
    history = tuple(one.but(accepted=both) if one.accepted else one for one in branch().history)
    index = site_pages(branch().but(history=history), ())["index.html"]
    rows = re.findall(r"<tr><th scope=\"row\"><a href=\"case.*?</tr>", index, re.DOTALL)
    lines = [row for row in rows if 'class="small"' in row]
    assert [row.rsplit('<td class="n">', 1)[1][:1] for row in lines] == ["1", "–", "–"]


def test_site__links_the_reports_that_it_holds() -> None:
    """Other runs are linked, and that their reports are deleted one day is said."""
    newest, other = branch().history[-1], branch().history[-2]
    pages = site_pages(branch(), {report_name(newest)})
    for page in (pages["index.html"], pages[PAGE]):
        assert links(page).count(report_name(newest)) == 1
        assert report_name(other) not in links(page)
        assert f"{REPOSITORY}/actions/runs/{newest.run.id if newest.run else 0}" in links(page)
        assert "after 90 days or as the repository sets" in shown(page)
    assert f"{REPOSITORY}/actions/runs/{other.run.id if other.run else 0}" in links(pages[PAGE])
    assert "made without reports" in shown(site_pages(branch(), ())["index.html"])


def test_site__metrics_are_those_of_the_record() -> None:
    """A team's own metric has its unit, and the interval of each run's change is there."""
    text = shown(site_pages(branch(), ())[PAGE])
    assert "0.250 nats" in text
    assert OWN in text
    assert "−0.4 to +1.2 %" in text
    turned = branch().but(
        metrics={THROUGHPUT: MetricFacts(label="", higher_is_better=True)},
        trends=[one.but(metric=MEMORY) for one in branch().trends],
    )
    assert "Throughput per device" in shown(site_pages(turned, ())[PAGE])


def test_site__ends_of_an_interval_may_be_unknown() -> None:
    """One end alone says how much at least, or at most."""
    points = long_history(runs=3)
    ends = ((None, 0.02), (0.01, None), (None, None))
    history = tuple(
        one.but(low=low, high=high) for one, (low, high) in zip(points, ends, strict=True)
    )
    text = shown(site_pages(branch(3).but(history=history), ())[PAGE])
    assert "at most +2 %" in text
    assert "at least +1 %" in text


def test_site__every_link_leads_somewhere() -> None:
    """Within the site to one of its files, and outside only into the record's own repository."""
    reports = {report_name(point) for point in branch().history[-3:]}
    for value in (branch(), hostile(), large(12, 1, 90)):
        pages = site_pages(value, reports)
        for page in pages.values():
            ids = [a["id"] for _, a in Elements(page).tags if "id" in a]
            assert len(ids) == len(set(ids))
            for link in links(page):
                if link.startswith("#"):
                    assert link[1:] in ids
                elif not link.startswith(f"{REPOSITORY}"):
                    assert link in {*pages, *reports}


def test_site__asks_for_nothing() -> None:
    """No element loads something, and the page's policy would refuse it."""
    for page in site_pages(branch(), ()).values():
        tags = Elements(page)
        assert tags.open == []
        assert not {"img", "link", "iframe", "object", "form"} & {tag for tag, _ in tags.tags}
        attributes = {name for _, all_of in tags.tags for name in all_of}
        assert not [name for name in attributes if name in ("src", "style") or name[:2] == "on"]
        policy = next(str(a["content"]) for _, a in tags.tags if "http-equiv" in a)
        assert re.match(r"default-src 'none'; style-src 'sha256-\S+' 'sha256-\S+'; script", policy)
        assert "unsafe" not in policy


def test_site__hostile_texts_stay_text() -> None:
    """Markup is shown, invisible characters have a mark, and a foreign address is no link."""
    for page in site_pages(hostile(), (), HOSTILE).values():
        tags = [tag for tag, _ in Elements(page).tags]
        assert "img" not in tags
        assert tags.count("b") == 1
        assert "<img src=x>" in shown(page)
        assert "\u202e" not in page
        assert not [link for link in links(page) if "javascript" in link]
        assert not re.search(r"^\s*::|##\[", page, re.MULTILINE)


def test_site__names_of_files_are_safe_and_differ() -> None:
    """Also on a disk that cannot tell capitals apart."""
    files = case_files(["A", "a", "b", "B", "index", "..", "a@b+c"])
    assert len({file.casefold() for file in files.values()}) == 7
    assert all(re.fullmatch(r"case-[A-Za-z0-9@._+~-]+\.html", file) for file in files.values())


def test_site__each_attempt_has_a_report_of_its_own() -> None:
    """A re-run has the same number; a run that is not known has a name, too."""
    point = branch().history[0]
    again = point.but(run=RunIdentity(number=800, attempt=2))
    bare = point.but(run=None, commit=None, created_at="")
    names = [report_name(one) for one in (point, again, bare)]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"reports/[A-Za-z0-9-]+\.html", name) for name in names)


def test_site__without_a_known_repository_has_no_foreign_link() -> None:
    """Commits and runs are named, and nothing leaves the site."""
    pages = site_pages(branch().but(repository=None), ())
    for page in pages.values():
        assert all(link in pages or link.startswith("#") for link in links(page))
    assert sha(RUNS - 1)[:7] in pages["index.html"]


def test_site__runs_of_another_machine_are_listed_and_not_drawn() -> None:
    """A course is of what was measured as the newest run was; the table names the machine."""
    points = list(long_history(runs=20))
    moved = [
        one.but(environment=on("T4")) if place < 8 else one for place, one in enumerate(points)
    ]
    page = site_pages(branch(20).but(history=tuple(moved), trends=()), ())[PAGE]
    lines = re.findall(r'<path class="line" d="([^"]*)"', page)
    assert [line.count("L") for line in lines] == [11, 11, 11]
    assert "8 of other machines" in shown(page)
    assert shown(page).count("T4") == 8


def test_site__a_machine_that_tells_no_tokens_has_its_step_time() -> None:
    """Also where the branch ran on another one before, which told them."""
    points = long_history(runs=20)
    silent = [one.but(throughput_tok_s=0.0, tokens_per_step=None) for one in points[8:]]
    moved = [*(one.but(environment=on("T4")) for one in points[:8]), *silent]
    text = shown(site_pages(branch(20).but(history=tuple(moved), trends=()), ())["index.html"])
    assert "Step time" in text
    assert "Throughput" not in text


def test_site__of_one_run_says_that_a_course_needs_two() -> None:
    """No drawing, and no mistake."""
    pages = site_pages(branch(1), ())
    assert "a course needs two" in shown(pages[PAGE])
    assert "one run" in shown(pages["index.html"])


def test_site__of_64_cases_is_small() -> None:
    """The overview of 64 cases × 3 metrics × 200 runs stays below 2 MB, and so does every page."""
    many = large(64, 1, 200)
    history = tuple(
        point.but(metrics={MEMORY: 18.9, OWN: 0.25}, run=RunIdentity(number=1, id=10**10 + place))
        for place, point in enumerate(many.history)
    )
    pages = site_pages(many.but(history=history, repository=REPOSITORY), ())
    sizes = {name: len(page.encode()) for name, page in pages.items()}
    assert len(pages) == 65
    assert pages["index.html"].count('class="small"') == 64 * 3
    # 196,436 bytes, and 201,604 for a case.
    assert max(sizes.values()) < 250_000


def test_site__whatever_a_record_holds_the_overview_is_bounded() -> None:
    """With 256 cases of 16 metrics each case keeps its first line, and the rest is said."""
    points = [
        point.but(case=f"case-{number}", metrics={f"m{metric}": 1.0 for metric in range(15)})
        for number in range(256)
        for point in long_history(runs=2)
    ]
    cases = [case(f"case-{number}", environment=points[0].environment) for number in range(256)]
    pages = site_pages(record(*cases, history=tuple(points), repository=REPOSITORY), ())
    assert len(pages["index.html"].encode()) < 2_000_000
    assert all(f'href="case-case-{number}.html"' in pages["index.html"] for number in range(256))
    assert "More metrics stand on the pages of the cases" in shown(pages["index.html"])


def test_site__small_drawings_show_the_level_of_many_runs() -> None:
    """As many places as can be seen, and the middle of the runs in each."""
    index = site_pages(branch(), ())["index.html"]
    drawn = re.findall(r'<path class="line" d="([^"]*)"', index)
    assert {line.count("L") for line in drawn} == {SMALL_POINTS - 1}
    assert index.count('class="moved"') == 2

"""What `make bench-report` prints: a large record's comment and page, beside jinja2 alone.

Jinja2 alone means a template of nothing but loops, as long as the record's lists, which prints each
of their values once, escaped: as HTML for the page, and as cells of a table for the comment.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from jinja2 import Environment

from benchmarks.measure import note, ratio, seconds, show
from ci_score.baselines import fitted
from ci_score.github.comment import LONGEST_COMMENT
from ci_score.launches.lines import SIDES
from ci_score.model.metrics import MEMORY, STEP_TIME
from ci_score.model.record import MOST_CASES, LaunchNumbers, Record
from ci_score.report.html.page import report_html
from ci_score.report.markdown import report_markdown
from tests.builders.showcase import large

PAGE_LIMIT_MB = 5.0
PAIRS, SHORT_PAIRS = 15, 5

LOOPS = """\
{% for case in record.cases %}
{% for layer in case.scorecard.per_layer_summary %}
|{{ layer.layer }}|{{ layer.fwd_ms }}|{{ layer.bwd_ms }}|{{ layer.ratio }}|{{ layer.top_op }}\
|{{ layer.top_op_pct }}|
{% endfor %}
{% for op, ms in case.ops.items() %}
|{{ op }}|{{ ms }}|
{% endfor %}
{% endfor %}
{% for point in record.history %}
|{{ point.case }}|{{ point.commit }}|{{ point.created_at }}|{{ point.throughput_tok_s }}|
{% endfor %}
"""


def jinja_alone(record: Record) -> Callable[[], object]:
    """The loops, rendered once for the comment and once for the page."""
    pages = [
        Environment(autoescape=escaped).from_string(LOOPS)  # noqa: S701 - the comment's is markdown
        for escaped in (False, True)
    ]
    return lambda: [page.render(record=record) for page in pages]


def main(pairs: int) -> None:
    """Prints the ratios, the times behind them and the sizes."""
    record = large()
    cases, layers = len(record.cases), len(record.cases[0].scorecard.per_layer_summary)
    note(
        [
            f"Python {platform.python_version()}, {platform.machine()}; median of pairs of one run",
            f"{cases} cases, {layers} layers, {len(record.history) // cases} points",
        ]
    )
    alone = jinja_alone(record)

    def comment() -> str:
        return report_markdown(record, limit=LONGEST_COMMENT)

    def both() -> None:
        comment()
        report_html(record)

    show("comment and HTML / jinja2 alone for loops of the same size", ratio(both, alone, pairs), 3)
    show("size of the HTML", len(report_html(record).encode()) / 1e6, PAGE_LIMIT_MB, "MB")
    works = (comment, lambda: report_html(record), alone)
    times = [f"{seconds(work) * 1000:.0f} ms" for work in works]
    note([f"the comment takes {times[0]}, the HTML {times[1]}, the loops {times[2]}"])
    show_largest()


def show_largest() -> None:
    """As many cases as a report may have, with forty launches each."""
    values = {STEP_TIME: 300.1234567, MEMORY: 40.0, "final_loss": 2.1234567}
    launches = tuple(
        LaunchNumbers(side=side, launch=number, values=values, timed_steps=30)
        for side in SIDES
        for number in range(20)
    )
    some = large(MOST_CASES, runs=100)
    record = some.but(cases=tuple(case.but(launches=launches) for case in some.cases))
    note([f"{len(record.cases)} cases of {len(launches)} launches, {len(record.history)} points"])
    works: dict[str, Callable[[], str]] = {
        "record": lambda: fitted(record)[1],
        "comment": lambda: report_markdown(record, limit=LONGEST_COMMENT),
        "HTML": lambda: report_html(record),
    }
    for name, work in works.items():
        size = len(work().encode()) / 1e6
        note([f"the {name} has {size:.2f} MB and takes {seconds(work):.1f} s"])


if __name__ == "__main__":
    main(SHORT_PAIRS if "--short" in sys.argv else PAIRS)

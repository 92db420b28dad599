"""Record → markdown for people: the comment, the job summary and the report file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ci_score.model.metrics import time_change
from ci_score.model.record import Judged, Record
from ci_score.model.scorecard import Parity
from ci_score.model.verdict import Outcome
from ci_score.reference import ACHIEVED_UP_TO
from ci_score.report import escape, rows, words
from ci_score.report.chart import trend_chart
from ci_score.report.headlines import headline, worst_first
from ci_score.report.kernel_names import LONGEST_LABEL, op_label
from ci_score.report.numbers import common_places, delta_at, delta_milliseconds, milliseconds
from ci_score.report.reproducing import ab_command

SHOWN_LAYERS = 16
LONGEST_UNBROKEN = 32
# The most in the open part of a comment; the folds have more.
SHOWN_CASES = 12
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a report is shown. To fit a limit, the least important goes first."""

    left_out: str
    folds_of: Callable[[Judged], bool]
    whole: Callable[[Judged], bool]
    most_cases: int = 1_000_000


def _always(_case: Judged) -> bool:
    return True


def _never(_case: Judged) -> bool:
    return False


def _needs_attention(case: Judged) -> bool:
    return case.verdict is None or case.verdict.outcome is not Outcome.PASS


def _fails(case: Judged) -> bool:
    return case.verdict is not None and case.verdict.outcome is Outcome.FAIL


DETAILS = (
    Detail("", _always, _always),
    Detail("hotspots, layers and notes of the cases that pass", _needs_attention, _always),
    Detail("hotspots, layers and notes", _never, _always),
    Detail("details of the cases that pass", _never, _needs_attention),
    Detail("details of all cases but the failing ones", _never, _fails),
    Detail("details of all cases", _never, _never),
    Detail("all but the worst 20 cases", _never, _never, most_cases=20),
    Detail("all but the worst case", _never, _never, most_cases=1),
)


def report_markdown(
    record: Record, title: str = "", *, limit: int | None = None, measured_by: str = ""
) -> str:
    """The whole report: the verdict first, what matters next, the rest folded.

    Within `limit` bytes of UTF-8, which are never fewer than characters.
    """
    text = ""
    for detail in DETAILS:
        text = _render(record, title, measured_by, detail)
        if limit is None or len(text.encode()) <= limit:
            return text
    return text.encode()[:limit].decode(errors="ignore")


def parity_report(parity: Parity) -> str:
    """A parity for people; it is not called achieved if nothing was compared."""
    text = _template("parity.md.j2").render(parity=parity)
    return _BLANK_LINES.sub("\n\n", text)


def _render(record: Record, title: str, measured_by: str, detail: Detail) -> str:
    judged = record.unjudged or not record.cases or any(case.verdict for case in record.cases)
    text = _template("report.md.j2").render(
        record=record,
        cases=worst_first(record),
        several=len(record.cases) > 1,
        judged=judged,
        outcome=record.outcome if judged else None,
        report_headline=headline(record),
        title=title,
        measured_by=measured_by,
        detail=detail,
    )
    # Sections have their own blank lines, and a stranger's text has no line breaks.
    return _BLANK_LINES.sub("\n\n", text).strip("\n") + "\n"


def _unbroken(value: str) -> str:
    """A number and its unit on one line, however narrow the table; a sentence may break."""
    return value if len(value) > LONGEST_UNBROKEN else value.replace(" ", "\u00a0")


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("ci_score.report"),
        # Autoescaping is for HTML. Here every value is escaped for markdown on output instead.
        autoescape=False,  # noqa: S701 - escaped for markdown
        finalize=escape.text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        words=words,
        rows=rows,
        ab_command=ab_command,
        headline=headline,
        time_change=time_change,
        common_places=common_places,
        trend_chart=trend_chart,
        SHOWN_LAYERS=SHOWN_LAYERS,
        SHOWN_CASES=SHOWN_CASES,
        ACHIEVED_UP_TO=ACHIEVED_UP_TO,
    )
    # The output of a macro is escaped already.
    environment.filters["rendered"] = escape.Safe
    environment.filters["capitalized"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["code"] = escape.code
    environment.filters["unbroken"] = _unbroken
    environment.filters["cell"] = escape.cell
    environment.filters["op_cell"] = lambda name, origin=None: escape.cell(
        op_label(name, origin), LONGEST_LABEL
    )
    environment.filters["paragraph"] = escape.paragraph
    environment.filters["ms"] = milliseconds
    environment.filters["delta_ms"] = delta_milliseconds
    environment.filters["delta_at"] = delta_at
    return environment.get_template(name)

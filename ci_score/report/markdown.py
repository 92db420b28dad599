"""Record → markdown for people: the comment, the job summary and the report file."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ci_score.models import Outcome, Parity, Record
from ci_score.report import escape, words
from ci_score.verdict import report_outcome

SHOWN_LAYERS = 16


def report_markdown(record: Record, title: str = "") -> str:
    """The whole report: the verdict first, what matters next, the rest folded."""
    outcomes = list(Outcome)
    cases = sorted(
        record.cases,
        key=lambda case: -outcomes.index(case.verdict.outcome) if case.verdict else 0,
    )
    judged = any(case.verdict for case in record.cases)
    return _template("report.md.j2").render(
        record=record,
        cases=cases,
        outcome=report_outcome(record) if judged else None,
        title=title,
    )


def parity_report(parity: Parity) -> str:
    """A parity for people: nothing is called achieved where nothing was compared."""
    return _template("parity.md.j2").render(parity=parity)


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("ci_score.report"),
        # Markdown is not HTML: every value is escaped for markdown on its way out instead.
        autoescape=False,  # noqa: S701
        finalize=escape.text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(words=words, SHOWN_LAYERS=SHOWN_LAYERS)
    environment.filters["code"] = escape.code
    environment.filters["paragraph"] = escape.paragraph
    environment.filters["ms"] = words.milliseconds
    environment.filters["delta_ms"] = words.delta_milliseconds
    return environment.get_template(name)

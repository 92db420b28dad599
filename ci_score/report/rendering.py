"""A record or a parity in the form that is asked for; a renderer is loaded when it is used."""

from __future__ import annotations

from ci_score.errors import WrongUseError
from ci_score.model.bisected import Bisected
from ci_score.model.record import Record
from ci_score.model.scorecard import Parity
from ci_score.report.screen import UNLIMITED, Screen


def render(
    record: Record | Bisected,
    style: str,
    title: str = "",
    *,
    limit: int | None = None,
    screen: Screen = UNLIMITED,
    whole: bool = False,
) -> str:
    """The record as `terminal`, `markdown`, `html` or the reference's own markdown.

    `screen` is for a terminal; there `whole` shows each of many cases in full. The answer of a
    search has the first two forms.
    """
    if isinstance(record, Bisected):
        from ci_score.report.bisected import bisected_markdown, bisected_text

        return bisected_markdown(record) if style == "markdown" else bisected_text(record, screen)
    if style == "html":
        from ci_score.report.html.page import report_html

        return report_html(record, title)
    if style == "reference":
        if len(record.cases) != 1:
            raise WrongUseError(
                f"the reference's markdown shows one case; this record has {len(record.cases)}"
            )
        from ci_score.reference import scorecard_markdown

        return scorecard_markdown(record.cases[0].scorecard)
    if style == "markdown":
        from ci_score.report.markdown import report_markdown

        return report_markdown(record, title, limit=limit)
    from ci_score.report.terminal import report_text

    return report_text(record, screen, whole=whole)


def render_parity(parity: Parity, style: str, screen: Screen = UNLIMITED) -> str:
    """The parity as `terminal`, `markdown` or the reference's own markdown."""
    if style == "reference":
        from ci_score.reference import parity_markdown

        return parity_markdown(parity)
    if style == "markdown":
        from ci_score.report.markdown import parity_report

        return parity_report(parity)
    from ci_score.report.terminal import parity_text

    return parity_text(parity, screen)

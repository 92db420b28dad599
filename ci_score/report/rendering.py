"""A record or a parity in the form that is asked for; a renderer is loaded when it is used."""

from __future__ import annotations

from textwrap import indent

from ci_score.errors import WrongUseError
from ci_score.model.bisected import Bisected
from ci_score.model.record import Record
from ci_score.model.scorecard import Parity
from ci_score.report.screen import UNLIMITED, Screen


def render(
    of: Record | Parity | Bisected,
    style: str,
    title: str = "",
    *,
    limit: int | None = None,
    screen: Screen = UNLIMITED,
    whole: bool = False,
) -> str:
    """A record as `terminal`, `markdown`, `html` or the reference's own markdown; so a parity.

    `screen` is for a terminal; there `whole` shows each of many cases in full. The answer of a
    search has the first two forms.
    """
    if isinstance(of, Parity):
        return _parity(of, style, screen)
    if isinstance(of, Bisected):
        from ci_score.report.bisected import bisected_markdown, bisected_text

        return bisected_markdown(of) if style == "markdown" else bisected_text(of, screen)
    if style == "html":
        from ci_score.report.html.page import report_html

        return report_html(of, title)
    if style == "reference":
        if len(of.cases) != 1:
            raise WrongUseError(
                f"the reference's markdown shows one case; this record has {len(of.cases)}"
            )
        from ci_score.reference import scorecard_markdown

        return scorecard_markdown(of.cases[0].scorecard)
    if style == "markdown":
        from ci_score.report.markdown import report_markdown

        return report_markdown(of, title, limit=limit)
    from ci_score.report.terminal import report_text

    return report_text(of, screen, whole=whole)


def _parity(parity: Parity, style: str, screen: Screen) -> str:
    if style == "reference":
        from ci_score.reference import parity_markdown

        return parity_markdown(parity)
    from ci_score.report.terminal import parity_text

    # Indented, nothing that a stranger named is markdown.
    return (
        indent(parity_text(parity), " " * 4) if style == "markdown" else parity_text(parity, screen)
    )

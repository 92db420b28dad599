"""Values → texts for people. Every sentence of a verdict, a cause or a notice is made here.

The renderers are pure, `-> str`, and thin: they share rows, words, sentences and headlines. A
stranger's text is escaped on its way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.report.badges import badge as badge
    from ci_score.report.headlines import headline as headline
    from ci_score.report.headlines import worst_first as worst_first
    from ci_score.report.profile import profile_text as profile_text
    from ci_score.report.rendering import render as render
    from ci_score.report.screen import Screen as Screen
    from ci_score.report.sentences import UNJUDGED as UNJUDGED
    from ci_score.report.sentences import change_sentence as change_sentence
    from ci_score.report.sentences import sentence as sentence
    from ci_score.report.terminal import verdict_line as verdict_line
    from ci_score.report.trend_issues import trend_issue as trend_issue
else:
    __getattr__ = lazy_door(
        __name__,
        badges=("badge",),
        headlines=("headline", "worst_first"),
        profile=("profile_text",),
        rendering=("render",),
        screen=("Screen",),
        sentences=("UNJUDGED", "change_sentence", "sentence"),
        terminal=("verdict_line",),
        trend_issues=("trend_issue",),
    )

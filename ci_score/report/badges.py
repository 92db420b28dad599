"""Record → a badge: a label, a number and a verdict, as SVG or for shields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

from ci_score.files.visible import plain
from ci_score.model.metrics import significant
from ci_score.model.record import Record
from ci_score.model.scorecard import Scorecard
from ci_score.model.verdict import Outcome

LONGEST_LABEL = 40
# White text has a contrast of at least 4.5 on each.
COLOURS: dict[Outcome | None, str] = {
    Outcome.PASS: "#1a7f37",
    Outcome.WARN: "#8a5a00",
    Outcome.INCONCLUSIVE: "#57606a",
    Outcome.FAIL: "#b4232d",
    None: "#57606a",
}
LABEL_COLOUR = "#3d444d"
WORDS = {
    Outcome.PASS: "pass",
    Outcome.WARN: "warning",
    Outcome.INCONCLUSIVE: "not judged",
    Outcome.FAIL: "fail",
}
# Widths of Verdana at 11 px, by kind of character: `textLength` mends what they miss.
_NARROW, _WIDE, _USUAL = frozenset("iljtfr.,:;|!'()[] "), frozenset("mwMWQOG@%"), 7.0


@dataclass(frozen=True, slots=True)
class Badge:
    """What a badge says, and the colour behind it; the colour never says it alone."""

    label: str
    message: str
    colour: str


def badge_of(record: Record, label: str = "") -> Badge:
    """The verdict, and a single case's throughput; of several, how many pass."""
    outcome = outcome_of(record)
    parts = [WORDS[outcome] if outcome else "", _numbers(record)]
    only = record.cases[0].name if len(record.cases) == 1 else "training"
    return Badge(
        plain(label or only, LONGEST_LABEL),
        ", ".join(part for part in parts if part) or "nothing measured",
        COLOURS[outcome],
    )


def outcome_of(record: Record) -> Outcome | None:
    """The report's verdict; None for a scorecard that was not compared with anything."""
    judged = record.unjudged or not record.cases or any(case.verdict for case in record.cases)
    return record.outcome if judged else None


def main_number(card: Scorecard) -> str:
    """The throughput, or else the step time; empty where neither was measured."""
    if card.throughput_tok_s > 0:
        return significant(card.throughput_tok_s, "tok/s")
    return significant(card.step_time_ms, "ms") if card.step_time_ms > 0 else ""


def _numbers(record: Record) -> str:
    if len(record.cases) > 1:
        outcomes = [case.verdict.outcome for case in record.cases if case.verdict]
        passed = outcomes.count(Outcome.PASS)
        return f"{passed} of {len(record.cases)} cases pass" if outcomes else ""
    return main_number(record.cases[0].scorecard) if record.cases else ""


def badge_svg(badge: Badge) -> str:
    """The badge as a picture, with its words for those who cannot see it."""
    label, message = _width(badge.label) + 10, _width(badge.message) + 10
    width, text = label + message, escape(f"{badge.label}: {badge.message}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img"'
        f' aria-label="{text}"><title>{text}</title>'
        f'<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{label}" height="20" fill="{LABEL_COLOUR}"/>'
        f'<rect x="{label}" width="{message}" height="20" fill="{badge.colour}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif"'
        ' font-size="11">'
        f'<text x="{label / 2:g}" y="14" textLength="{label - 10}">{escape(badge.label)}</text>'
        f'<text x="{label + message / 2:g}" y="14" textLength="{message - 10}">'
        f"{escape(badge.message)}</text></g></svg>\n"
    )


def _width(text: str) -> int:
    widths = (3.9 if sign in _NARROW else 9.6 if sign in _WIDE else _USUAL for sign in text)
    return max(round(sum(widths)), 1)


def shields_endpoint(badge: Badge) -> dict[str, object]:
    """What shields.io draws a badge from, where a site serves this JSON."""
    return {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.message,
        "color": badge.colour.lstrip("#"),
        "labelColor": LABEL_COLOUR.lstrip("#"),
    }


def badge(record: Record, label: str, *, endpoint: bool) -> str:
    """The badge's file: an SVG, or the JSON that shields.io draws."""
    badge = badge_of(record, label)
    return json.dumps(shields_endpoint(badge), indent=2) + "\n" if endpoint else badge_svg(badge)

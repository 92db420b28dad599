"""Record → the page: every case in one template, in which everything is escaped."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ci_score.files.visible import LONGEST_NAME, plain
from ci_score.model.explanation import OpChange
from ci_score.model.metrics import metric_named, three_digits, time_change
from ci_score.model.profile import RankWork
from ci_score.model.record import HistoryPoint, Judged, Record
from ci_score.model.scorecard import LayerSummary
from ci_score.model.verdict import Change, Outcome
from ci_score.report import rows, words
from ci_score.report.badges import outcome_of
from ci_score.report.headlines import cause_words, headline, report_parts, worst_first
from ci_score.report.html import figures
from ci_score.report.html.allowance import MOST_CASES, Allowance
from ci_score.report.html.course import MOST_HOVERS, Course, Run, courses
from ci_score.report.html.icicle import Icicle, icicle
from ci_score.report.html.page_data import page_data
from ci_score.report.html.scale import UNITS
from ci_score.report.kernel_names import LONGEST_LABEL, op_label
from ci_score.report.numbers import delta_milliseconds, maybe_delta, milliseconds
from ci_score.report.reproducing import ab_command
from ci_score.report.sentences import sentence

# What the page is made of; a style or script comes behind those that it needs.
STYLES = ("style.css", "shades.css", "icicle.css")
SCRIPTS = ("script.js", "page_data.js", "icicle.js")
LONGEST_TEXT = 1000
_UNIT = re.compile(r"(?<=\d) (?=[kMG%]|ms\b|GB\b|tok/s|points)|(?<=\d [kMG]) (?=tok/s)")
LONGEST_POLICY = 20_000
# About how many bytes a row takes beside its name.
RUN_BYTES, HOVER_BYTES, LAYER_BYTES, OP_BYTES, PAIR_BYTES, RANK_BYTES = 66, 120, 60, 145, 70, 240
# The same for a point of a course and for the bar of a layer.
POINT_BYTES, BAR_BYTES = 20, 46


@dataclass(frozen=True, slots=True)
class MetricLine:
    """A row of the table of metrics, with its drawing."""

    row: rows.MetricRow
    outcome: Outcome | None
    verdict: str
    drawing: figures.Interval | None


@dataclass(frozen=True, slots=True)
class OpLine:
    """A row of the table of ops."""

    name: str
    kind: str
    ms: float
    share: float
    width: str
    count: float | None
    change: OpChange | None


@dataclass(frozen=True, slots=True)
class CourseView:
    """A course with the runs for which the page has room, newest first."""

    course: Course
    hovers: Sequence[Run]
    listed: Sequence[Run]


@dataclass(frozen=True, slots=True)
class RankLine:
    """A rank with the width of its bar."""

    work: RankWork
    width: str


@dataclass(frozen=True, slots=True)
class CaseView:
    """What a page shows of a case and what has to be computed for it."""

    case: Judged
    anchor: str
    metrics: Sequence[MetricLine]
    more_metrics: Sequence[MetricLine]
    headline: figures.Interval | None
    courses: Sequence[CourseView]
    icicle: Icicle | None
    data: Markup
    ops: Sequence[OpLine]
    ops_in_all: int
    layer_bars: figures.Layers | None
    layers: Sequence[LayerSummary]
    changed_ops: Sequence[OpChange]
    ranks: Sequence[RankLine]
    pairs: figures.Pairs | None
    listed_pairs: Sequence[figures.Pair]


def report_html(record: Record, title: str = "") -> str:
    """The whole report as one file."""
    cases = worst_first(record)
    history: dict[str, list[HistoryPoint]] = {}
    for point in record.history:
        history.setdefault(point.case, []).append(point)
    drawn = sum(len(points) * POINT_BYTES for points in history.values())
    drawn += sum(len(case.scorecard.per_layer_summary) * BAR_BYTES for case in cases)
    allowance = Allowance(len(cases), drawn)
    return _page().render(
        record=record,
        title=title,
        outcome=outcome_of(record),
        report_headline=report_parts(record),
        views=[_view(record, case, history.get(case.name, ()), allowance) for case in cases],
        policy=_policy(record),
    )


def _view(
    record: Record, case: Judged, history: Sequence[HistoryPoint], allowance: Allowance
) -> CaseView:
    shown = rows.metric_rows(case)
    labels = {row.label for row in shown}
    others = [row for row in rows.metric_rows(case, whole=True) if row.label not in labels]
    changes = {metric_named(change.metric).label: change for change in case.changes}
    ops = _ops(case)
    pairs = figures.launch_pairs(case)
    layers = case.scorecard.per_layer_summary
    headline = time_change(case)
    drawn, data = icicle(case), page_data(case)
    return CaseView(
        case=case,
        anchor=f"case-{case.name}",
        metrics=[_line(row, changes[row.label]) for row in shown],
        more_metrics=[_line(row, changes[row.label]) for row in others],
        headline=figures.interval(headline) if headline else None,
        courses=[
            _course(course, allowance)
            for course in courses(record, case, history)
            if allowance.draws(len(course.runs) * POINT_BYTES)
        ],
        icicle=drawn if drawn and allowance.take((drawn,), drawn.size) else None,
        data=data if drawn and allowance.take((data,), len(data)) else Markup(),
        ops=allowance.take(ops, OP_BYTES + _longest(op.name for op in ops), least=5),
        ops_in_all=len(ops) + case.step_ops.left_out,
        layer_bars=figures.layer_bars(case.scorecard, rows.layer_word(case.layers_are))
        if allowance.draws(len(layers) * BAR_BYTES)
        else None,
        layers=allowance.take(
            layers, LAYER_BYTES + _longest(op_label(layer.top_op) for layer in layers)
        ),
        changed_ops=rows.changed_ops(case.explanation) if case.explanation else (),
        ranks=allowance.take(_ranks(case), RANK_BYTES),
        pairs=pairs,
        listed_pairs=allowance.take(pairs.pairs, PAIR_BYTES) if pairs else (),
    )


def _ranks(case: Judged) -> list[RankLine]:
    """Each rank with a bar of its own work, or of its whole step if its waiting is not known."""
    own = [work.step_ms if work.own_ms is None else work.own_ms for work in case.ranks]
    return [
        RankLine(work, width)
        for work, width in zip(case.ranks, figures.share_bars(own), strict=True)
    ]


def _line(row: rows.MetricRow, change: Change) -> MetricLine:
    # The sign before the word is drawn here, in the page's own shapes.
    _, _, word = row.verdict.partition(" ")
    outcome = change.outcome if row.verdict and not change.accepted else None
    if outcome is Outcome.PASS:
        word = "within limits"
    return MetricLine(row, outcome, word or "–", figures.interval(change))


def _course(course: Course, allowance: Allowance) -> CourseView:
    listed = allowance.take(course.runs[::-1], RUN_BYTES)
    hovers = allowance.take(course.runs, HOVER_BYTES) if len(course.runs) <= MOST_HOVERS else ()
    return CourseView(course, hovers, listed)


def _longest(names: Iterable[str]) -> int:
    """The characters of the longest name, as far as it is shown."""
    return min(max(map(len, names), default=0), LONGEST_LABEL)


def _ops(case: Judged) -> list[OpLine]:
    """All ops that the record holds, or the scorecard's hotspots where it holds none."""
    times = case.ops or {name: ms for name, ms, _ in case.scorecard.hotspot_ops}
    total = _total_op_ms(case, times)
    names = sorted(times, key=lambda name: (-times[name], name))
    changes = {change.name: change for change in case.explanation.ops} if case.explanation else {}
    widths = figures.share_bars(times[name] for name in names)
    lines = []
    for name, width in zip(names, widths, strict=True):
        detail = case.op_details.get(name)
        lines.append(
            OpLine(
                name=op_label(name, detail.origin if detail else None),
                kind=detail.kind if detail else "",
                ms=times[name],
                share=100.0 * times[name] / total if total else 0.0,
                width=width,
                count=detail.count if detail else None,
                change=changes.get(name),
            )
        )
    return lines


def _total_op_ms(case: Judged, times: Mapping[str, float]) -> float:
    """The time of all ops; if the scorecard has it, with those that the record left out."""
    for _, ms, pct in case.scorecard.hotspot_ops[:1]:
        if pct > 0:
            return ms * 100.0 / pct
    return sum(times.values())


def _policy(record: Record) -> str:
    if not record.policy:
        return ""
    text = json.dumps(record.policy, indent=2, ensure_ascii=False)
    lines = (plain(line.replace("\t", "  "), LONGEST_TEXT) for line in text.splitlines())
    return "\n".join(lines)[:LONGEST_POLICY]


# --- the template --------------------------------------------------------------------------------


def _shown(value: object) -> object:
    """A stranger's text as one visible line, which jinja then escapes."""
    if type(value) is not str:
        return value
    if len(value) <= LONGEST_TEXT and value.isascii() and value.isprintable():
        return value
    return plain(value, LONGEST_TEXT)


def _unbroken(value: str) -> str:
    """A sentence in which a line cannot break between a number and its unit."""
    return _UNIT.sub("\u00a0", value)


def _counted(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


@cache
def _page() -> Template:
    environment = Environment(
        loader=PackageLoader("ci_score.report.html"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _assets(STYLES), _assets(SCRIPTS)
    environment.globals.update(
        words=words,
        ab_command=ab_command,
        headline=headline,
        time_change=time_change,
        sentence=sentence,
        cause_words=cause_words,
        maybe_delta=maybe_delta,
        delta_milliseconds=delta_milliseconds,
        rows=rows,
        figures=figures,
        style=Markup(style),  # noqa: S704 - both are files of ours
        script=Markup(script),  # noqa: S704 - the same
        style_hash=_hash(style),
        script_hash=_hash(script),
        UNITS=UNITS,
        MOST_CASES=MOST_CASES,
    )
    environment.filters.update(
        name=lambda value: plain(value, LONGEST_NAME),
        op=lambda value, origin=None: plain(op_label(value, origin), LONGEST_LABEL),
        label=lambda value: plain(value, LONGEST_LABEL),
        # Numbers and letters that figures made, which may be longer than any text.
        path=Markup,
        unbroken=_unbroken,
        counted=_counted,
        # Lines that were made visible one by one before.
        lines=lambda value: Markup("\n").join(value.splitlines()),
        ms=milliseconds,
        delta_ms=delta_milliseconds,
        number=three_digits,
    )
    return environment.get_template("page.html.j2")


def _assets(names: Iterable[str]) -> str:
    folder = files("ci_score.report.html") / "templates"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"

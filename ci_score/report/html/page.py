"""Record → the page: every case in one template, in which everything is escaped."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ci_score.files.visible import LONGEST_NAME, plain
from ci_score.model.lists import listed
from ci_score.model.metrics import STEP_TIME, metric_named, three_digits, time_change
from ci_score.model.record import BaselineUsed, HistoryPoint, Judged, Record
from ci_score.model.scorecard import LayerSummary
from ci_score.model.step_ops import StepOps
from ci_score.model.verdict import Change, Outcome
from ci_score.report import reproducing, rows, words
from ci_score.report.badges import outcome_of
from ci_score.report.cause_words import Name, Place, Sentence
from ci_score.report.headlines import (
    cause_words,
    told_of,
    told_of_report,
    why,
    worst_first,
)
from ci_score.report.html import figures
from ci_score.report.html.allowance import Form, fitted
from ci_score.report.html.code import CodeView, MemoryView, code_view, memory_view
from ci_score.report.html.course import MOST_HOVERS, Course, Run, courses, earlier_points
from ci_score.report.html.icicle import Icicle, Tree, icicle, tree_of
from ci_score.report.html.launches import Launches, launches_plot
from ci_score.report.html.layer_table import layer_table
from ci_score.report.html.ops import CaseOps, OpTable
from ci_score.report.html.rank_table import rank_table
from ci_score.report.html.scale import UNITS
from ci_score.report.html.shades import ShadedTable
from ci_score.report.kernel_names import LONGEST_LABEL, op_label
from ci_score.report.links import (
    base_commit,
    commit_link,
    linked,
    pull_link,
    run_link,
    shown_commit,
)
from ci_score.report.memory_words import is_memory_alone
from ci_score.report.names_of_case import LONGEST_CASE_NAME
from ci_score.report.numbers import delta_at, delta_milliseconds, milliseconds
from ci_score.report.sentences import sentence
from ci_score.report.words import SHORT_SHA, head_word

STYLES = ("style.css", "shades.css", "ops.css", "icicle.css", "launches.css", "code.css")
SCRIPTS = ("script.js", "page_data.js", "numbers.js", "ops.js", "icicle.js")
LONGEST_TEXT = 1000
LONGEST_POLICY = 20_000
# A name is read in the time of so many cells.
CELLS_OF_A_NAME = 8
NEW = "New"
_UNIT = re.compile(r"(?<=\d) (?=[kMG%]|ms\b|GB\b|tok/s|points)|(?<=\d [kMG]) (?=tok/s)")


@dataclass(frozen=True, slots=True)
class MetricLine:
    """A row of the table of metrics, with its drawing."""

    row: rows.MetricRow
    outcome: Outcome | None
    verdict: str
    drawing: figures.Interval | None


@dataclass(frozen=True, slots=True)
class CourseView:
    """A course with the runs for which the page has room, newest first."""

    course: Course
    hovers: Sequence[Run]
    listed: Sequence[Run]


@dataclass(frozen=True, slots=True)
class CaseView:
    """What a page shows of a case and what has to be computed for it."""

    case: Judged
    anchor: str
    form: Form
    metrics: Sequence[MetricLine]
    more_metrics: Sequence[MetricLine]
    courses: Sequence[CourseView]
    icicle: Icicle | None
    ops: OpTable | None
    device: figures.Stack | None
    phases: figures.Stack | None
    layer_bars: figures.Layers | None
    layers: Sequence[LayerSummary]
    layer_table: ShadedTable | None
    rank_table: ShadedTable | None
    launches: Launches | None
    code: CodeView | None
    memory: MemoryView | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A case in the overview, and below it, where there is room, everything about it."""

    case: Judged
    anchor: str
    sentence: Sentence
    why: Sentence
    headline: figures.Interval | None
    body: Markup | None


@dataclass(frozen=True, slots=True)
class Crumb:
    """A word of the header that says what was measured, with its page where that is known."""

    text: str
    link: str = ""
    is_code: bool = False


def report_html(record: Record, title: str = "") -> str:
    """The whole report as one file."""
    cases = worst_first(record)
    outcome = outcome_of(record)
    crumbs = _crumbs(record, title)
    bodies = _bodies(record, cases)
    # A first run is healthy: nothing is wrong with it that a verdict could say.
    verdict = NEW if words.is_new(record) else words.VERDICTS[outcome] if outcome else ""
    return _template("page.html.j2").render(
        record=record,
        title=_title(verdict, crumbs),
        verdict=verdict,
        crumbs=crumbs,
        outcome=outcome,
        report_headline=_headline(record, cases),
        entries=[_entry(record, case, body) for case, body in zip(cases, bodies, strict=True)],
        baseline=_only_baseline(cases),
        rules=listed(sorted({record.rules_of(case) for case in cases if case.changes})),
        policy=_policy(record),
    )


def _headline(record: Record, cases: Sequence[Judged]) -> tuple[Sentence, Sentence]:
    """What happened and why, with links to the lines of the program."""
    told = told_of_report(record)
    return told.facts or Sentence.of(told.word), linked(
        told.cause, record, cases[0] if cases else None
    )


def _bodies(record: Record, cases: Sequence[Judged]) -> list[str | None]:
    history: dict[str, list[HistoryPoint]] = {}
    for point in record.history:
        history.setdefault(point.case, []).append(point)
    level = 2 if len(cases) == 1 else 3
    template = _template("body.html.j2")
    known = [
        _Known(case, earlier_points(record, case, history.get(case.name, ()))) for case in cases
    ]
    shared = {"head_word": head_word(record), "one_base": _only_baseline(cases) is not None}

    def render(place: int, form: Form) -> str:
        view = _view(record, known[place], history.get(cases[place].name, ()), form)
        return template.render(record=record, view=view, level=level, **shared)

    needy = [_needs_attention(case) for case in cases]
    return fitted(needy, render, work=[_work(case) for case in cases])


def _work(case: Judged) -> int:
    """How long its ops take to be read: a name takes as long as some cells."""
    sides = (case.step_ops, case.base.step_ops if case.base else StepOps())
    ops, cells = sum(len(one.names) for one in sides), sum(one.cells_in_all for one in sides)
    return CELLS_OF_A_NAME * ops + cells


class _Known:
    """What several forms of a case have in common, found when it is asked for first."""

    def __init__(self, case: Judged, earlier: Sequence[HistoryPoint]) -> None:
        self.case, self._earlier = case, earlier

    @cached_property
    def ops(self) -> CaseOps:
        """The ops of both sides."""
        return CaseOps(self.case, self._earlier)

    @cached_property
    def tree(self) -> Tree | None:
        """They by phase and kind."""
        return tree_of(self.ops.joined, self.ops.names)

    @cached_property
    def metrics(self) -> tuple[list[MetricLine], list[MetricLine]]:
        """The metrics that matter, and the others."""
        shown = rows.metric_rows(self.case)
        labels = {row.label for row in shown}
        others = [row for row in rows.metric_rows(self.case, whole=True) if row.label not in labels]
        changes = {metric_named(change.metric).label: change for change in self.case.changes}
        # The step's row tells its throughput's decision, too.
        if time := rows.decision_in_time(self.case.changes):
            changes[metric_named(STEP_TIME).label] = time
        first, more = ([_line(row, changes[row.label]) for row in some] for some in (shown, others))
        return first, more


def _needs_attention(case: Judged) -> bool:
    return case.verdict is not None and case.verdict.outcome is not Outcome.PASS


def _crumbs(record: Record, title: str) -> list[Crumb]:
    """Repository, pull request, commit and case, as far as they are known."""
    crumbs = []
    if record.repository:
        name = record.repository.partition("//")[2].partition("/")[2]
        crumbs.append(Crumb(name, record.repository))
    if record.pull:
        crumbs.append(Crumb(f"#{record.pull}", pull_link(record)))
    if commit := shown_commit(record):
        crumbs.append(Crumb(commit[:SHORT_SHA], commit_link(record, commit), is_code=True))
    if title:
        crumbs.append(Crumb(title))
    if len(record.cases) == 1:
        crumbs.append(Crumb(record.cases[0].name))
    return crumbs


def _title(verdict: str, crumbs: Iterable[Crumb]) -> str:
    """`Fail: octo/train #12 9a41d7e llama · ci-score`"""
    begins = f"{verdict}: " if verdict else ""
    return f"{begins}{' '.join(crumb.text for crumb in crumbs) or 'report'} · ci-score"


def _only_baseline(cases: Iterable[Judged]) -> BaselineUsed | None:
    """What all cases were compared with, if it is one run."""
    used = [case.baseline for case in cases if case.baseline]
    runs = {(one.source, one.commit, one.run) for one in used}
    return used[0] if len(runs) == 1 else None


def _anchor(case: Judged) -> str:
    return f"case-{case.name}"


def _entry(record: Record, case: Judged, body: str | None) -> Entry:
    headline = time_change(case)
    told = told_of(case)
    return Entry(
        case=case,
        anchor=_anchor(case),
        sentence=linked(
            Sentence.of(told.facts, ": " if told.cause else "", told.cause), record, case
        ),
        why=linked(why(case), record, case),
        headline=figures.interval(headline) if headline else None,
        body=None if body is None else Markup(body),  # noqa: S704 - a template of ours made it
    )


def _view(record: Record, known: _Known, history: Sequence[HistoryPoint], form: Form) -> CaseView:
    case = known.case
    metrics, more_metrics = known.metrics
    bare = CaseView(
        case=case,
        anchor=_anchor(case),
        form=form,
        metrics=metrics,
        more_metrics=more_metrics,
        courses=(),
        icicle=None,
        ops=known.ops.table(form.rows, form.op_places, is_live=form.lists)
        if form.rows and known.ops
        else None,
        device=None,
        phases=None,
        layer_bars=None,
        layers=case.scorecard.per_layer_summary if form.lists else (),
        layer_table=None,
        rank_table=None,
        launches=None,
        code=None,
        memory=None,
    )
    return _drawn(bare, record, known, history) if form.draws else bare


def _drawn(
    bare: CaseView, record: Record, known: _Known, history: Sequence[HistoryPoint]
) -> CaseView:
    case, form, word = known.case, bare.form, head_word(record)
    drawn = icicle(case, known.ops.joined, known.tree, most=form.boxes, is_live=form.lists)
    layers = layer_table(case, known.ops.joined, form.rows)
    return replace(
        bare,
        courses=[
            _course(course, form)
            for course in courses(record, case, history, lists_runs=form.lists)
        ],
        icicle=drawn,
        device=_device(case, drawn),
        phases=_phases(case, drawn),
        layer_bars=None
        if layers
        else figures.layer_bars(case.scorecard, rows.layer_word(case.layers_are)),
        layer_table=layers,
        rank_table=rank_table(case, form.rows),
        launches=launches_plot(case, history, word),
        code=code_view(case, record, is_whole=form.lists),
        memory=memory_view(case, record),
    )


def _device(case: Judged, drawn: Icicle | None) -> figures.Stack | None:
    """What the device did, where neither the icicle nor the waterfall has the same parts."""
    return None if drawn or case.explanation else figures.device_stack(case)


def _phases(case: Judged, drawn: Icicle | None) -> figures.Stack | None:
    """The phases, where no other drawing has them: above the icicle they are those of a host."""
    is_told = case.explanation is not None and case.explanation.basis == "host"
    if drawn is not None:
        is_told |= "phase" in drawn.levels or figures.device_stack(case) is None
    return None if is_told else figures.phase_stack(case)


def _line(row: rows.MetricRow, change: Change) -> MetricLine:
    # The sign before the word is drawn here, in the page's own shapes.
    _, _, word = row.verdict.partition(" ")
    outcome = change.outcome if row.verdict and not change.accepted else None
    if outcome is Outcome.PASS:
        word = "OK"
    return MetricLine(row, outcome, word or "–", figures.interval(change))


def _course(course: Course, form: Form) -> CourseView:
    hovers = course.runs if form.lists and len(course.runs) <= MOST_HOVERS else ()
    return CourseView(course, hovers, course.runs[::-1] if form.lists else ())


def _policy(record: Record) -> str:
    if not record.policy:
        return ""
    text = json.dumps(record.policy, indent=2, ensure_ascii=False)
    lines = (plain(line.replace("\t", "  "), LONGEST_TEXT) for line in text.splitlines())
    return "\n".join(lines)[:LONGEST_POLICY]


# --- the template --------------------------------------------------------------------------------


def _shown(value: object) -> object:
    """A stranger's text as one visible line, which jinja then escapes; names stand out."""
    if isinstance(value, Sentence):
        return _with_code(value)
    if isinstance(value, Place):
        return _place(value)
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if len(value) <= LONGEST_TEXT and value.isascii() and value.isprintable():
        return value
    return plain(value, LONGEST_TEXT)


def _with_code(sentence: Sentence) -> Markup:
    code = Markup("<code>{}</code>")
    return Markup().join(
        code.format(plain(piece, LONGEST_NAME))
        if isinstance(piece, Name)
        else _place(piece)
        if isinstance(piece, Place)
        else _unbroken(plain(piece, LONGEST_TEXT))
        for piece in sentence.pieces
    )


def _place(place: Place) -> Markup:
    """A line of a file, which is a link where the server can show it."""
    shown = plain(str(place), LONGEST_TEXT)
    link = Markup('<a href="{}">{}</a>')
    return link.format(place.address, shown) if place.address else Markup("{}").format(shown)


def _unbroken(value: str) -> str:
    """A sentence in which a line cannot break between a number and its unit."""
    if isinstance(value, Sentence):
        return value
    return _UNIT.sub("\u00a0", value)


@cache
def _template(name: str) -> Template:
    return pages(STYLES, SCRIPTS).get_template(name)


@cache
def pages(styles: tuple[str, ...], scripts: tuple[str, ...]) -> Environment:
    """Where our pages are made: everything is escaped, and styles and scripts are files of ours."""
    environment = Environment(
        loader=PackageLoader("ci_score.report.html"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _joined(styles), _joined(scripts)
    environment.globals.update(
        words=words,
        reproducing=reproducing,
        is_memory_alone=is_memory_alone,
        time_change=time_change,
        sentence=sentence,
        cause_words=cause_words,
        base_commit=base_commit,
        commit_link=commit_link,
        run_link=run_link,
        rows=rows,
        figures=figures,
        style=Markup(style),  # noqa: S704 - all are files of ours
        script=Markup(script),  # noqa: S704 - the same
        style_hash=csp_hash(style),
        script_hash=csp_hash(script),
        UNITS=UNITS,
    )
    environment.filters.update(
        name=lambda value: plain(value, LONGEST_NAME),
        op=lambda value, origin=None: plain(op_label(value, origin), LONGEST_LABEL),
        label=lambda value: plain(value, LONGEST_CASE_NAME),
        # Numbers, letters and JSON that we made, which may be longer than any text.
        path=Markup,
        unbroken=_unbroken,
        # Lines that were made visible one by one before.
        lines=lambda value: Markup("\n").join(value.splitlines()),
        ms=milliseconds,
        delta_at=delta_at,
        delta_ms=delta_milliseconds,
        number=three_digits,
    )
    return environment


def _joined(names: Iterable[str]) -> str:
    return "\n".join(_asset(name) for name in names)


def _asset(name: str) -> str:
    return (files("ci_score.report.html") / "templates" / name).read_text(encoding="utf-8")


def csp_hash(text: str) -> str:
    """How a page's policy names a style or a script of its own."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"

"""Record → text for a terminal: of many cases an overview first, then what needs attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ci_score.files.visible import LONGEST_NAME
from ci_score.model.explanation import OpChange
from ci_score.model.lists import plural
from ci_score.model.metrics import time_change
from ci_score.model.record import MOST_CASES, Judged, Record
from ci_score.model.scorecard import Parity
from ci_score.model.verdict import Outcome, Verdict
from ci_score.report import reproducing, rows, words
from ci_score.report.cells import cells, shown
from ci_score.report.code_rows import FEW, LineRow, code_notes, code_rows, more_code
from ci_score.report.code_rows import MOST as MOST_CODE
from ci_score.report.headlines import headline, why, worst_first
from ci_score.report.memory_words import (
    is_memory_alone,
    memory_rows,
    memory_title,
    needs_memory,
)
from ci_score.report.names_of_case import names_of_case
from ci_score.report.numbers import common_places, delta_at, milliseconds
from ci_score.report.screen import UNLIMITED, Screen
from ci_score.report.tables import Cell

# The style of each verdict.
OF_OUTCOMES = {
    Outcome.FAIL: "fail",
    Outcome.WARN: "warning",
    Outcome.INCONCLUSIVE: "not judged",
    Outcome.PASS: "pass",
}
# Of several cases so many are shown in full; the overview has all.
SHOWN_CASES = 8
SHOWN_OPS = 8
# No case that needs attention is unnamed, so that the names of all have room.
LONGEST_NAMES = MOST_CASES * (LONGEST_NAME + len(", "))
# A row of the overview says why in so many lines; the case's own block has the whole sentence.
LINES_OF_WHY = 2
# What is longer than a small terminal says at its end once more how it ended.
_A_SCREEN = 24


def report_text(record: Record, screen: Screen = UNLIMITED, *, whole: bool = False) -> str:
    """Every verdict, worst first; `whole` shows every case in full, however many there are.

    The first line is the verdict; notes on the whole run come second.
    """
    several = len(record.cases) > 1
    shown_cases = _several if several else _only
    cases = shown_cases(record, screen, whole=whole)
    first, *others = [*filter(None, (*_report(record, screen), *cases))] or [""]
    text = "\n\n".join(filter(None, (first, _notices(record, screen), *others)))
    counted = rows.counted(record)
    if several and counted and text.count("\n") > _A_SCREEN:
        text += f"\n\n{screen.text(counted, 'heading')}"
    return f"{text}\n"


def verdict_line(of: Judged | Verdict) -> str:
    """`Fail: 20.1 % slower`; a dash without a verdict."""
    return shown(headline(of)) or "–"


def _report(record: Record, screen: Screen) -> Iterator[str]:
    """The verdict and the reasons of the whole report, if it has any."""
    if record.unjudged:
        verdict = record.unjudged
        yield _decided(verdict, rows.unjudged_reasons(record), screen)
        yield _would_tell(verdict, record, screen)


def _notices(record: Record, screen: Screen) -> str:
    return "\n".join(screen.text(f"Note: {notice}") for notice in rows.notices(record))


def _decided(of: Judged | Verdict, reasons: Sequence[str], screen: Screen) -> str:
    verdict = of if isinstance(of, Verdict) else of.verdict
    style = OF_OUTCOMES[verdict.outcome] if verdict else ""
    return "\n".join([screen.text(verdict_line(of), style), *map(screen.item, reasons)])


def _would_tell(
    verdict: Verdict | None, record: Record, screen: Screen, case: Judged | None = None
) -> str:
    tell = reproducing.what_would_tell(verdict, record, case)
    return screen.text(f"What would give a verdict: {tell}.") if tell else ""


# --- several cases ------------------------------------------------------------------------------


# Cases with one story: a case with numbers is alone, the others stand with those of their reasons.
Group = list[Judged]


def _several(record: Record, screen: Screen, *, whole: bool) -> Iterator[str]:
    ordered = worst_first(record)
    judged = [case for case in ordered if case.verdict]
    yield screen.text(rows.counted(record), "heading")
    if whole:
        yield _overview([[case] for case in judged], screen)
        for case in ordered:
            yield from _case(case, record, screen, whole=True)
        return
    groups = _grouped([case for case in judged if not _passes(case)])
    yield _overview(groups, screen)
    yield from _details(groups, record, screen)
    yield _passed([case for case in judged if _passes(case)], screen)
    yield _without_verdict([case for case in ordered if not case.verdict], screen)


def _grouped(cases: Iterable[Judged]) -> list[Group]:
    groups: dict[tuple[str, ...], Group] = {}
    for case in cases:
        alone = (case.name,) if case.changes else ()
        groups.setdefault((verdict_line(case), *rows.reasons(case), *alone), []).append(case)
    return list(groups.values())


def _passes(case: Judged) -> bool:
    return case.verdict is not None and case.verdict.outcome is Outcome.PASS


def _overview(groups: Sequence[Group], screen: Screen) -> str:
    """A row for each group: its verdict, its main change, and why."""
    metric = rows.overview_metric(group[0] for group in groups)
    lines = [
        (_verdict_cell(verdict), _named(group), _main_change(group[0], metric), why(group[0]))
        for group in groups
        if (verdict := group[0].verdict)
    ]
    header = ("verdict", "case", metric.lower() or "change", "why")
    return screen.table(lines, ("fixed", "name", "text", "text"), header, LINES_OF_WHY)


def _verdict_cell(verdict: Verdict) -> Cell:
    return Cell(words.VERDICTS[verdict.outcome], OF_OUTCOMES[verdict.outcome])


def _named(group: Group) -> str:
    """`llama@l4, 19 more`: the block below names them all."""
    more = len(group) - 1
    return group[0].name + (f", {more} more" if more else "")


def _main_change(case: Judged, metric: str) -> str:
    return words.headline_delta(time_change(case), named=not metric)


def _details(groups: Sequence[Group], record: Record, screen: Screen) -> Iterator[str]:
    """The blocks of what needs attention, as many as a person reads."""
    for group in groups[:SHOWN_CASES]:
        if group[0].changes:
            yield from _case(group[0], record, screen, whole=False)
        else:
            yield _not_compared(group, record, screen)
    rest = [case for group in groups[SHOWN_CASES:] for case in group]
    if rest:
        yield screen.text(
            f"`--all` shows these in full, too: {_all_names(rest)}", longest=LONGEST_NAMES
        )


def _not_compared(group: Group, record: Record, screen: Screen) -> str:
    """Cases without a number to show: their reason is said once."""
    names = screen.text(_all_names(group), "heading", longest=LONGEST_NAMES)
    decided = _decided(group[0], rows.reasons(group[0]), screen)
    tell = _would_tell(group[0].verdict, record, screen)
    return "\n".join(filter(None, (names, decided, tell)))


def _all_names(cases: Sequence[Judged]) -> str:
    return ", ".join(shown(case.name, LONGEST_NAME) for case in cases)


def _passed(cases: Sequence[Judged], screen: Screen) -> str:
    """A line for each case that passes."""
    if not cases:
        return ""
    metric = rows.overview_metric(cases)
    lines = [(case.name, _main_change(case, metric)) for case in cases]
    verb = "passes" if len(cases) == 1 else "pass"
    heading = screen.text(f"{plural(len(cases), 'case')} {verb}", "pass")
    header = ("case", metric.lower() or "change")
    return f"{heading}\n{screen.table(lines, ('name', 'text'), header, 1)}"


def _without_verdict(cases: Sequence[Judged], screen: Screen) -> str:
    """A line for each case that was measured and not judged."""
    lines = [(case.name, *_numbers(case)) for case in cases]
    header = ("case", "grade", "step time", "throughput")
    return screen.table(lines, ("name", "fixed", "number", "number"), header)


def _numbers(case: Judged) -> tuple[str, str, str]:
    facts = dict(words.facts(case.scorecard))
    grade = facts.get("Grade", "–") if case.scorecard.graded else "–"
    return grade, facts.get("Step time", "–"), facts.get("Throughput per device", "–")


# --- a case -------------------------------------------------------------------------------------


def _only(record: Record, screen: Screen, *, whole: bool) -> Iterator[str]:
    for case in record.cases:
        yield from _judged(case, record, screen, whole=whole)
        yield from _measured(case, record, screen)


def _case(case: Judged, record: Record, screen: Screen, *, whole: bool) -> Iterator[str]:
    """One of several cases, below its name."""
    name = screen.text(case.name, "heading")
    first, *others = _judged(case, record, screen, whole=whole) if case.verdict else ("",)
    yield f"{name}\n{first}".rstrip("\n")
    yield from others
    if whole:
        yield from _measured(case, record, screen)
    else:
        yield _provenance(case, record, screen)


def _judged(case: Judged, record: Record, screen: Screen, *, whole: bool) -> Iterator[str]:
    """The verdict, what changed, and where the time went."""
    if case.verdict:
        yield _decided(case, rows.reasons(case), screen)
    yield screen.text(words.differing_in_short(case))
    if case.changes:
        yield _metrics(case, screen)
    yield _would_tell(case.verdict, record, screen, case)
    yield _memory(case, screen)
    yield from _where(case, screen)
    if words.is_about_time(case) or whole:
        yield _code(case, record, screen, whole=whole)


def _metrics(case: Judged, screen: Screen) -> str:
    lines = [
        (
            row.label,
            row.base,
            row.head,
            Cell(f"{row.change} {row.verdict}".rstrip(), _style_of(row.verdict)),
            row.limit,
        )
        for row in rows.metric_rows(case)
    ]
    header = ("", "base", "head", "change", "limit")
    return screen.table(lines, ("text", "number", "number", "text", "text"), header)


def _style_of(verdict: str) -> str:
    """The style of an outcome by its sign, which stands first."""
    for outcome, sign in words.ICONS.items():
        if verdict.startswith(sign):
            return OF_OUTCOMES[outcome]
    return "accepted" if verdict else ""


def _measured(case: Judged, record: Record, screen: Screen) -> Iterator[str]:
    """How it was measured, and what is known of this side alone."""
    yield _provenance(case, record, screen)
    # What the table above has of both sides is the median launch, and no mean of all of them.
    told = [row.label for row in rows.metric_rows(case)] if case.verdict else []
    facts = [row for row in words.facts(case.scorecard) if row[0] not in told]
    yield screen.table(facts, ("fixed", "text"))
    for advice in words.to_try(case):
        yield screen.text(f"To try: {advice}")
    yield _titled("Hotspots", _hotspots(case, screen), screen)
    yield _notes(rows.notes(case), screen)


def _hotspots(case: Judged, screen: Screen) -> str:
    hotspots = rows.hotspots(case)
    names = names_of_case({name: rows.origin_of(case, name) for name, _, _ in hotspots})
    lines = [(names[name], milliseconds(ms), f"{share:.1f} %") for name, ms, share in hotspots]
    header = ("op", "time", "share of op time")
    return screen.table(lines, ("name", "number", "number"), header)


def _provenance(case: Judged, record: Record, screen: Screen) -> str:
    return screen.text(" · ".join(rows.provenance(case, record)))


def _notes(notes: Sequence[str], screen: Screen) -> str:
    return _titled("Notes", "\n".join(map(screen.item, notes)), screen)


def _titled(title: str, body: str, screen: Screen) -> str:
    return f"{screen.text(title, 'heading')}\n{body}" if body else ""


# --- where the time went ------------------------------------------------------------------------


def _where(case: Judged, screen: Screen) -> Iterator[str]:
    """Where a slowdown went: the parts of the step and the ops, or else what changed most."""
    if is_memory_alone(case):
        return
    if case.explanation and words.is_slower(case):
        explanation = case.explanation
        title = words.where_it_went(case, explanation)
        yield _titled(title, _parts(rows.part_rows(explanation), screen), screen)
        yield _ops(rows.changed_ops(explanation), rows.calls_word(case), screen)
    elif case.contributions:
        places = [
            rows.PartRow(f"{part.kind} {rows.place_label(part)}", part.base_ms, part.head_ms)
            for part in case.contributions
        ]
        title = f"Where the time changed most{words.if_unproven(case)}"
        yield _titled(title, _parts(places, screen), screen)


def _parts(parts: Sequence[rows.PartRow], screen: Screen) -> str:
    """Parts of a step on both sides, with a bar for each change; their sum has none."""
    places = common_places(parts)
    largest = max((abs(row.delta_ms) for row in parts if not row.is_sum), default=0.0)
    lines = [
        (
            row.name,
            milliseconds(row.base_ms),
            milliseconds(row.head_ms),
            _delta(row.delta_ms, places),
            _bar(0.0 if row.is_sum else row.delta_ms, largest, screen),
        )
        for row in parts
    ]
    return screen.table(lines, ("name", "number", "number", "number", "bar"), _SIDES)


_SIDES = ("", "base", "head", "change", "")


def _delta(value: float, places: int | None) -> Cell:
    shown_delta = delta_at(value, places)
    # A change that is rounded to nothing has no sign, and no colour.
    is_nothing = shown_delta[:1].isdigit()
    return Cell(shown_delta, "" if is_nothing else "slower" if value > 0 else "faster")


def _bar(value: float, largest: float, screen: Screen) -> Cell:
    return Cell(screen.bar(value, largest), "slower" if value > 0 else "faster")


def _ops(ops: Sequence[OpChange], calls: str, screen: Screen) -> str:
    """The ops that changed most: their times on both sides, and their number of launches."""
    ordered = sorted(ops, key=lambda op: (-abs(op.delta_ms), op.name))
    shown_ops = ordered[:SHOWN_OPS]
    names = names_of_case({op.name: op.origin for op in shown_ops})
    places = common_places(ordered)
    lines = [
        (
            names[op.name],
            "new" if op.status == "new" else milliseconds(op.base_ms),
            "gone" if op.status == "gone" else milliseconds(op.head_ms),
            _delta(op.delta_ms, places),
            words.counts(op),
        )
        for op in shown_ops
    ]
    more = len(ordered) - SHOWN_OPS
    header = ("op", "base", "head", "change", calls)
    table = screen.table(lines, ("name", "number", "number", "number", "number"), header)
    rest = f"\n{screen.text(plural(more, 'more op'), first='  ')}" if more > 0 else ""
    return _titled("Ops that changed", f"{table}{rest}", screen)


def _code(case: Judged, record: Record, screen: Screen, *, whole: bool) -> str:
    """The functions whose time changed; `whole` has their lines, too."""
    listed = code_rows(case, record, MOST_CODE if whole else FEW)
    places = common_places(listed)
    lines = []
    for row in listed:
        lines.append(_code_line(row, places))
        lines += [_code_line(line, places, "  ") for line in row.lines if whole]
    header = ("function", "base", "head", "change", rows.work_word(case))
    table = screen.table(lines, ("text", "number", "number", "number", "number"), header)
    notes = [more_code(case, len(listed)), *(code_notes(case) if whole else ())]
    told = "\n".join(screen.text(note) for note in notes if note)
    return _titled("Where in the code", "\n".join(filter(None, (table, told))), screen)


def _code_line(row: LineRow, places: int | None, indent: str = "") -> tuple[str | Cell, ...]:
    name = f"{indent}{''.join(row.name.pieces)}{''.join(f', {tag}' for tag in row.tags)}"
    return (
        name,
        milliseconds(row.base_ms) if row.base_ms else "–",
        milliseconds(row.head_ms) if row.head_ms else "–",
        _delta(row.delta_ms, places),
        row.launches or "–",
    )


def _memory(case: Judged, screen: Screen) -> str:
    """What had the memory that the peak grew by."""
    listed = memory_rows(case) if needs_memory(case) else []
    lines = [("".join(row.name.pieces), row.base, row.head, row.delta) for row in listed]
    table = screen.table(lines, ("name", "number", "number", "number"), _SIDES[:4])
    return _titled(memory_title(listed), table, screen)


# --- parity -------------------------------------------------------------------------------------


def parity_text(parity: Parity, screen: Screen = UNLIMITED) -> str:
    """A parity; it is not called achieved if too little was compared."""
    ours = shown(parity.apr_runtime, _LONGEST_RUNTIME)
    theirs = shown(parity.baseline_runtime, _LONGEST_RUNTIME)
    blocks = [
        _achieved(parity, screen),
        f"{screen.text(f'{ours} against {theirs}')}\n"
        + screen.table(list(_parity_facts(parity, ours, theirs)), ("fixed", "text")),
        _titled("Largest gaps", _gaps(parity, ours, theirs, screen), screen),
        _notes(parity.notes, screen),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


_LONGEST_RUNTIME, _LONGEST_COLUMN = 64, 16


def _achieved(parity: Parity, screen: Screen) -> str:
    if not parity.judged:
        why = parity.unjudged_reason or "no op in common"
        return screen.text(f"Parity not judged: {why}", "not judged")
    if parity.parity_achieved:
        return screen.text("Parity achieved", "pass")
    return screen.text("Parity not achieved", "fail")


def _gaps(parity: Parity, ours: str, theirs: str, screen: Screen) -> str:
    gaps = [
        (gap.op, milliseconds(gap.apr_ms), milliseconds(gap.baseline_ms), f"{gap.ratio:.2f}x")
        for gap in parity.top_gaps
    ]
    sides = (ours, theirs)
    # Long names stand above; in the table they would leave no room for the ops.
    if max(map(cells, sides)) > _LONGEST_COLUMN:
        sides = ("ours", "theirs")
    header = ("op", *sides, "ratio")
    return screen.table(gaps, ("name", "number", "number", "number"), header)


def _parity_facts(parity: Parity, ours: str, theirs: str) -> Iterable[tuple[str, str]]:
    """The ratios, each ours divided by theirs; an unknown one has no row."""
    if parity.step_time_ratio > 0:
        yield "Step time", f"{parity.step_time_ratio:.2f}x as long"
    if parity.throughput_ratio > 0:
        mark = " (from inferred tokens, see the notes)" if parity.throughput_inferred else ""
        yield "Throughput", f"{1 / parity.throughput_ratio:.2f}x as many tokens per second{mark}"
    if parity.launch_ratio > 0:
        yield "Kernel launches", f"{parity.launch_ratio:.2f}x as many"
    yield "Ops compared", str(parity.compared_ops)
    shares = (parity.apr_share_compared, parity.baseline_share_compared)
    for name, share in zip((ours, theirs), shares, strict=True):
        if share is not None:
            yield "  of the op time", f"{share * 100:.1f} % of {name}"

"""Record → text for a terminal, with the facts of the markdown in aligned tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ci_score.files.visible import log_line as line
from ci_score.model.record import Judged, Record
from ci_score.model.scorecard import Parity
from ci_score.model.verdict import Outcome, Verdict
from ci_score.report import rows, words
from ci_score.report.headlines import headline
from ci_score.report.kernel_names import LONGEST_LABEL, op_label
from ci_score.report.numbers import common_places, delta_at, milliseconds
from ci_score.report.tables import WIDEST, table


def report_text(record: Record) -> str:
    """Every case: verdict, what changed and where, scorecard, hotspots, notes."""
    blocks = [*_report(record), *(block for case in record.cases for block in _case(case, record))]
    return "\n\n".join(blocks) + "\n"


def parity_text(parity: Parity) -> str:
    """A parity; it is not called achieved if too little was compared."""
    if not parity.judged:
        head = f"Parity not judged: {line(parity.unjudged_reason or 'no op in common')}"
    else:
        head = "Parity achieved" if parity.parity_achieved else "Parity not achieved"
    ours, theirs = line(parity.apr_runtime, WIDEST), line(parity.baseline_runtime, WIDEST)
    facts = f"{ours} against {theirs}\n" + table(_parity_facts(parity, ours, theirs))
    blocks = [head, facts]
    if parity.top_gaps:
        gaps = [
            (
                gap.op,
                milliseconds(gap.apr_ms),
                milliseconds(gap.baseline_ms),
                f"{gap.ratio:.2f}x",
            )
            for gap in parity.top_gaps
        ]
        blocks.append("Largest gaps\n" + table([("op", ours, theirs, "ratio"), *gaps]))
    return "\n\n".join([*blocks, *_notes(parity.notes)]) + "\n"


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


def verdict_line(of: Judged | Verdict) -> str:
    """`Fail: 20.1 % slower`; a dash without a verdict."""
    verdict = of if isinstance(of, Verdict) else of.verdict
    if verdict is None:
        return "–"
    # That it is not judged, or not compared, is what its headline says.
    word = "" if verdict.outcome is Outcome.INCONCLUSIVE else f"{words.VERDICTS[verdict.outcome]}: "
    return f"{word}{line(headline(of))}"


def _report(record: Record) -> Iterable[str]:
    """The verdict and the reasons of the whole report, if it has any."""
    if record.unjudged:
        verdict = record.unjudged
        reasons = "".join(f"\n  - {line(reason)}" for reason in rows.unjudged_reasons(record))
        yield f"{verdict_line(verdict)}{reasons}"
        tell = rows.what_would_tell(verdict.unjudged)
        if tell:
            yield f"What would give a verdict: {line(tell)}."
    notices = rows.notices(record)
    if notices:
        yield "\n".join(f"Note: {line(notice)}" for notice in notices)


def _case(case: Judged, record: Record) -> Iterable[str]:
    several = len(record.cases) > 1
    if case.verdict:
        head = verdict_line(case)
        reasons = "".join(f"\n  - {line(reason)}" for reason in rows.reasons(case))
        yield (f"{case.name}\n" if several else "") + head + reasons
    elif several:
        yield case.name
    if differing := words.differing_in_short(case):
        yield line(differing)
    if case.changes:
        shown = [
            (row.label, row.base, row.head, f"{row.change} {row.verdict}".rstrip(), row.limit)
            for row in rows.metric_rows(case)
        ]
        yield table([("", "base", "this change", "change", "limit"), *shown])
    tell = rows.what_would_tell(case.verdict.unjudged) if case.verdict else ""
    if tell:
        yield f"What would give a verdict: {line(tell)}."
    yield from _where(case)
    provenance = rows.provenance(case, record)
    if provenance:
        yield line(" · ".join(provenance))
    yield table(words.facts(case.scorecard))
    yield from (f"To try: {line(advice)}" for advice in words.to_try(case))
    if hotspots := rows.hotspots(case):
        hottest = [
            (op_label(name, rows.origin_of(case, name)), milliseconds(ms), f"{pct:.1f} %")
            for name, ms, pct in hotspots
        ]
        columns = ("op", "time", "share of op time")
        yield "Hotspots\n" + table([columns, *hottest], LONGEST_LABEL)
    yield from _notes(rows.notes(case))


def _where(case: Judged) -> Iterable[str]:
    """Where a slowdown went: the parts of the step, which sum to it, or else what changed most."""
    if case.explanation and words.is_slower(case):
        explanation = case.explanation
        parts = rows.part_rows(explanation)
        places = common_places(parts)
        yield (
            words.where_it_went(case, explanation)
            + "\n"
            + table(
                (
                    row.name,
                    milliseconds(row.base_ms),
                    milliseconds(row.head_ms),
                    delta_at(row.delta_ms, places),
                )
                for row in parts
            )
        )
    elif case.contributions:
        places = common_places(case.contributions)
        yield f"Where the time changed most{words.if_unproven(case)}\n" + table(
            (
                f"{part.kind} {rows.place_label(part)}",
                milliseconds(part.base_ms),
                milliseconds(part.head_ms),
                delta_at(part.delta_ms, places),
            )
            for part in case.contributions
        )


def _notes(notes: Sequence[str]) -> list[str]:
    return ["Notes\n" + "\n".join(f"  - {line(note)}" for note in notes)] if notes else []

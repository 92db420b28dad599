"""The words and numbers that people read, the same in every report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ci_score.files.visible import plain
from ci_score.model.environment import Environment, SideDifference
from ci_score.model.explanation import Explanation, OpChange
from ci_score.model.lists import plural, some_of
from ci_score.model.metrics import (
    STEP_TIME,
    THROUGHPUT,
    Metric,
    metric_named,
    metric_of,
    significant,
    slower_by,
    time_change,
)
from ci_score.model.reasons import Why
from ci_score.model.record import BaselineUsed, Judged, Record
from ci_score.model.scorecard import Bottleneck, Parity, Scorecard
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict
from ci_score.report.cause_words import count_words
from ci_score.report.numbers import delta_milliseconds, milliseconds
from ci_score.report.sentences import sentence, sentences

SHORT_SHA = 7
# An interval that is less wide is a single number.
LEAST_WIDE = 0.001
SHOWN_VERSIONS = 4
SHOWN_DIFFERING, LONGEST_DIFFERING = 4, 40
ICONS: dict[Outcome, str] = {
    Outcome.PASS: "✅",
    Outcome.WARN: "⚠️",
    Outcome.INCONCLUSIVE: "❔",
    Outcome.FAIL: "❌",
}
VERDICTS: dict[Outcome, str] = {
    Outcome.PASS: "Pass",
    Outcome.WARN: "Warning",
    Outcome.INCONCLUSIVE: "Not judged",
    Outcome.FAIL: "Fail",
}
# The reference says `compute` for a throughput above half of its memory roofline.
BOTTLENECKS: dict[Bottleneck, str] = {
    "transfer": "host-device transfers",
    "launch": "kernel launches and gaps between phases",
    "compute": "not memory bandwidth (above half its roofline)",
    "memory_bw": "memory bandwidth",
}
ADVICE: dict[Bottleneck, str] = {
    "transfer": "Copies take over 30 % of the step: pin memory, overlap them with compute,"
    " or keep the data on the device.",
    "launch": "Over 40 % of the step lies outside all phases: fuse small kernels, capture CUDA"
    " graphs or compile the model.",
    "compute": "",
    "memory_bw": "Fuse element-wise ops, use lower precision or a larger batch, so that each"
    " byte read does more work.",
}


# Words that not everybody knows, explained under the table with them. docs/glossary.md has all.
FOOTNOTES = {
    "MFU": "the FLOPs that the model needs, as a share of the accelerator's dense peak",
    "HFU": "like MFU, with the FLOPs of recomputation",
    "roofline": "the throughput that the memory bandwidth could feed if nothing else took time",
    "Exposed communication": "the time of collectives during which the device computes nothing",
}


def limit(change: Change) -> str:
    """The limits of the rules: `−10 % warns, −20 % fails`; a dash without a gate."""
    if not change.gated or change.warn_limit is None:
        return "–"
    show = metric_of(change).show_limit
    return _limits(change, show)


def limit_of_time(change: Change) -> str:
    """The limits of a step's row: of a throughput as time, with those that the policy says."""
    if change.metric != THROUGHPUT or not change.gated or change.warn_limit is None:
        return limit(change)
    show, own = metric_named(STEP_TIME).show_limit, metric_of(change).show_limit
    said = ", ".join(own(one) for one in (change.warn_limit, change.fail_limit) if one is not None)
    as_time = _limits(change, lambda one: show(limit_in_time(change.but(fail_limit=one))))
    return f"{as_time} (throughput {said})"


def _limits(change: Change, show: Callable[[float], str]) -> str:
    words = f"{show(change.warn_limit or 0.0)} warns"
    if change.fail_limit is not None:
        words += f", {show(change.fail_limit)} fails"
    return words


def delta_words(change: Change) -> str:
    """The change with its interval: `−9.5 % (−10 to −8.9 %)`."""
    if change.delta is None:
        why = change.not_compared
        return f"not compared: {sentence(why)}" if why else "not compared"
    return delta_interval(change)


# --- a change and its limits, of which none is rounded to the other side of another one -----------


def show_side(change: Change, value: float) -> str:
    """The number of a side; a dash where it was not measured, which only a count of 0 is not."""
    metric = metric_of(change)
    is_known = change.delta is not None and not metric.relative
    return metric.show(value) if is_known else metric.show_or_dash(value)


def limit_in_time(change: Change) -> float:
    """The limit that fails as a share of time; a throughput of −5 % is 5.3 % more time."""
    limit = change.fail_limit or 0.0
    return slower_by(change.but(delta=-limit if change.metric == THROUGHPUT else limit))


def shown_delta(change: Change, delta: float | None = None) -> str:
    """The change's number, or an end of its interval, on its own side of the limits."""
    metric, value = metric_of(change), change.delta if delta is None else delta
    limits = [one for one in (change.warn_limit, change.fail_limit) if one]
    return metric.show_delta(value or 0.0, limits)


def limits_in_time(change: Change) -> list[float]:
    """The limits of a time as shares of time, as far as there are any."""
    limits = (change.warn_limit, change.fail_limit)
    return [limit_in_time(change.but(fail_limit=limit)) for limit in limits if limit]


def time_interval(change: Change) -> str:
    """`+15 % (−4 to +38 %)`: a change of the step or its throughput as a share of time."""
    share = slower_by(change)
    return f"{_share_of_time(change, share)}{interval_in_time(change)}"


def _share_of_time(change: Change, share: float) -> str:
    return metric_named(STEP_TIME).show_delta(share, limits_in_time(change))


def interval_in_time(change: Change) -> str:
    """` (−1 to +2 %)`, ` (at most +2.1 %)`: the interval as shares of time."""
    ends = [None if end is None else slower_by(change.but(delta=end))
            for end in (change.low, change.high)]  # fmt: skip
    low, high = reversed(ends) if change.metric == THROUGHPUT else ends
    return _interval(metric_named(STEP_TIME), low, high, limits_in_time(change))


def delta_interval(change: Change) -> str:
    """`+15 % (−4 to +38 %)`: a change and its interval, as its metric shows them."""
    limits = [one for one in (change.warn_limit, change.fail_limit) if one]
    interval = _interval(metric_of(change), change.low, change.high, limits)
    return f"{shown_delta(change)}{interval}"


def _interval(
    metric: Metric, low: float | None, high: float | None, limits: Sequence[float]
) -> str:
    """Both ends, with a digit more where they would read the same."""
    ends = [low, high]
    shown = [None if end is None else metric.show_delta(end, limits) for end in ends]
    if low is not None and high is not None and shown[0] == shown[1] and high - low >= LEAST_WIDE:
        beside = zip((low, high), (high, low), strict=True)
        shown = [metric.show_delta(end, (*limits, other)) for end, other in beside]
    # As a single number it is the change itself.
    return "" if shown[0] == shown[1] else interval_words(*shown)


def interval_words(low: str | None, high: str | None) -> str:
    """` (−1 to +2 %)`: the ends of an interval, with their unit once."""
    if low is None or high is None:
        end = high if low is None else low
        return "" if end is None else f" ({'at most' if low is None else 'at least'} {end})"
    value, _, unit = low.rpartition(" ")
    return f" ({value if unit and high.endswith(f' {unit}') else low} to {high})"


# --- outcomes -------------------------------------------------------------------------------------


def outcome_words(change: Change) -> str:
    """The outcome of a change as a sign and a word; empty if it has none."""
    if change.accepted:
        return "☑️ accepted"
    if change.outcome is None:
        return ""
    why = change.reasons[0].code if change.reasons else None
    words = {
        Outcome.FAIL: "❌ fails",
        Outcome.INCONCLUSIVE: _INCONCLUSIVE.get(why, "❔ not clear") if why else "❔ not clear",
        Outcome.WARN: "⚠️ warning",
        Outcome.PASS: "✅ OK" if change.gated and change.delta is not None else "",
    }
    return words[change.outcome] + (" (could be noise)" if why is Why.ONE_NUMBER else "")


_INCONCLUSIVE = {
    Why.GATE_NOT_MEASURED: "❔ not measured",
    Why.GATE_WITHOUT_RATIO: "❔ not compared",
    Why.GATE_OF_OTHER_STEP: "❔ not compared",
    Why.TOO_NOISY: "❔ too noisy",
}


def facts(card: Scorecard) -> list[tuple[str, str]]:
    """The numbers of the scorecard as pairs of name and value; unknown ones are left out."""
    rows: list[tuple[str, str]] = []
    if card.graded:
        rows.append(("Grade", card.grade))
        rows.append(("Efficiency", f"{card.efficiency * 100:.1f} % of the memory roofline"))
    elif card.lacks_its_grade:
        rows.append(("Grade", f"not graded: {card.ungraded_reason}"))
    if card.mfu is not None:
        rows.append(("MFU", f"{card.mfu * 100:.1f} % of the {card.mfu_basis}"))
    if card.graded and card.bottleneck_known:
        rows.append(("Bottleneck", BOTTLENECKS[card.bottleneck]))
    if card.throughput_tok_s > 0:
        rows.append(("Throughput per device", significant(card.throughput_tok_s, "tok/s")))
    if card.job_throughput_tok_s and (card.accelerator_count or 1) > 1:
        job = significant(card.job_throughput_tok_s, "tok/s")
        rows.append(("Throughput of the job", f"{job} on {card.accelerator_count} devices"))
    if card.step_time_ms > 0:
        rows.append(("Step time", milliseconds(card.step_time_ms)))
    if card.forward_backward_ratio > 0:
        rows.append(("Backward / forward", f"{card.forward_backward_ratio:.2f}"))
    if card.wall_coverage > 0:
        rows.append(("Wall coverage", f"{card.wall_coverage * 100:.1f} %"))
    if card.accelerator:
        rows.append(("Accelerator", card.accelerator))
    return rows


def advice(card: Scorecard) -> str:
    """What to try, for a graded scorecard with a grade that leaves room; else empty."""
    if not (card.graded and card.bottleneck_known) or card.grade in ("A", "B"):
        return ""
    return ADVICE[card.bottleneck]


def other_versions(case: Judged) -> list[str]:
    """The versions that differ from the baseline's; a change may be about one of them."""
    changed = case.baseline.changed_versions if case.baseline else ()
    # What a session found to differ has them, and stands beside the verdict.
    if not changed or differing(case):
        return []
    return [f"other versions: {some_of(changed, SHOWN_VERSIONS)}"]


def differing(case: Judged, longest: int | None = None) -> list[str]:
    """What the session found to differ between its sides beside the code: `torch 2.8 → 2.9`."""
    if case.baseline is None or not case.baseline.of_session:
        return []
    return [
        f"{_differing_name(row)} {_of_side(row.base, longest)} → {_of_side(row.head, longest)}"
        for row in case.environment.differs
    ]


def differing_in_short(case: Judged) -> str:
    """The first of them in one sentence; empty if nothing differs."""
    rows = differing(case, LONGEST_DIFFERING)
    return f"Beside the code these differ: {some_of(rows, SHOWN_DIFFERING)}." if rows else ""


def _differing_name(row: SideDifference) -> str:
    return f"variable {row.name}" if row.kind == "variable" else row.name


def _of_side(text: str | None, longest: int | None) -> str:
    if text is None:
        return "none"
    return plain(text, longest) if longest else text


def compared_with(baseline: BaselineUsed) -> str:
    """Which record it was compared with, how far away and from when."""
    if baseline.commit is None:
        parts = [f"compared with {baseline.source}"]
    else:
        parts = [f"compared with commit {baseline.commit[:SHORT_SHA]}"]
    if baseline.commits_away:
        parts.append(f"{plural(baseline.commits_away, 'commit')} before the tested base")
    if baseline.run:
        parts.append(f"run {baseline.run.number}")
    if baseline.created_at:
        parts.append(baseline.created_at[:16].replace("T", " ") + " UTC")
    return ", ".join(parts)


def baseline_age(baseline: BaselineUsed) -> str:
    """How old the baseline is and how far away, beside a link to its commit and run."""
    parts = [f"baseline of {baseline.created_at[:10]}"] if baseline.created_at else []
    if baseline.commits_away:
        parts.append(f"{plural(baseline.commits_away, 'commit')} before the tested base")
    return ", ".join(parts)


def counts(op: OpChange) -> str:
    """Launches on both sides: `196 → 588`."""
    if op.base_count is None or op.head_count is None:
        return "–"
    return f"{count_words(op.base_count)} → {count_words(op.head_count)}"


def headline_delta(change: Change | None, *, named: bool = False) -> str:
    """The change of a case's time, for a list of cases; `named` says what it is of."""
    if change is None:
        return "–"
    return f"Time {time_interval(change)}" if named else time_interval(change)


def head_word(record: Record) -> str:
    """What the column of what was measured now is called."""
    return "This PR" if record.pull else "This run"


# What a healthy project has, too: there is nothing yet to compare with.
NEW = frozenset({Unjudged.FIRST_RUN, Unjudged.NEW_CASE})
NEW_ICON = "🆕"


def icon_of(verdict: Verdict) -> str:
    """The sign of a verdict; a new case is healthy, and has a sign of its own."""
    return NEW_ICON if verdict.unjudged in NEW else ICONS[verdict.outcome]


def is_new(record: Record) -> bool:
    """Whether nothing is wrong, and all that is not judged is new."""
    unjudged = [one for one in record.verdicts if one.outcome is Outcome.INCONCLUSIVE]
    is_worst = record.outcome is Outcome.INCONCLUSIVE
    return is_worst and bool(unjudged) and all(one.unjudged in NEW for one in unjudged)


def icon_of_report(record: Record) -> str:
    """The sign of the worst verdict of a report."""
    return NEW_ICON if is_new(record) else ICONS[record.outcome]


def is_about_time(case: Judged) -> bool:
    """Whether the step became slower, seems so, or became faster, so that its parts tell why."""
    if case.verdict is None:
        return False
    worse = (Outcome.FAIL, Outcome.WARN, Outcome.INCONCLUSIVE)
    slower = any(change.outcome in worse or change.accepted for change in _times(case))
    found = case.explanation
    faster = found is not None and found.cause is not None and found.cause.code is Why.FASTER
    return slower or (faster and case.verdict.outcome is Outcome.PASS)


def is_slower(case: Judged) -> bool:
    """Whether there is a slowdown to explain, by the verdict and not only by the numbers."""
    if case.verdict is None:
        return False
    worse = (Outcome.FAIL, Outcome.WARN)
    return case.verdict.unjudged is Unjudged.UNCLEAR or any(
        change.outcome in worse or change.accepted for change in case.changes
    )


def if_unproven(case: Judged) -> str:
    """Behind what differs most: whether that may be noise, even where a count fails."""
    unclear = case.verdict is not None and case.verdict.unjudged is Unjudged.UNCLEAR
    unclear |= any(change.outcome is Outcome.INCONCLUSIVE for change in _times(case))
    return " (not proven)" if unclear else ""


def _times(case: Judged) -> list[Change]:
    return [change for change in case.changes if change.metric in (STEP_TIME, THROUGHPUT)]


def where_it_went(case: Judged, explanation: Explanation) -> str:
    """Above the parts of a step: what they sum to, who timed them, and whether it may be noise."""
    profiled = " (under the profiler)" if explanation.under_profiler else ""
    slower = _is_or_seems_slower(case)
    # What was judged; a throughput of guessed tokens is not.
    judged = (change for change in _times(case) if change.outcome is not None)
    time = next(judged, None) or time_change(case)
    if time is not None and explanation.is_far_from(slower_by(time)):
        measured = _share_of_time(time, slower_by(time))
        profiled = f" (under the profiler; measured was {measured}, so trust only the counts)"
    elif explanation.under_profiler and explanation.delta_ms <= 0 and slower:
        # A disturbed launch, or a profiler that costs one side far more.
        profiled = f" (under the profiler; the measured step {slower}, so trust only the counts)"
    delta = delta_milliseconds(explanation.delta_ms)
    return f"Where the {delta} went{profiled}{if_unproven(case)}"


def _is_or_seems_slower(case: Judged) -> str:
    """`is slower` where that is proven, `seems slower` where it is not clear; else nothing."""
    worse, times = (Outcome.FAIL, Outcome.WARN), list(_times(case))
    if any(change.outcome in worse and change.is_proven for change in times):
        return "is slower"
    unclear = any(
        change.outcome is Outcome.INCONCLUSIVE and slower_by(change) > 0 for change in times
    )
    return "seems slower" if unclear else ""


def to_try(case: Judged) -> Sequence[str]:
    """What to try: our own advice, or else the reference's on its bottleneck."""
    of_reference = advice(case.scorecard)
    return sentences(case.advice) or ([of_reference] if of_reference else [])


def environment_lines(environment: Environment) -> list[str]:
    """The versions that it ran with."""
    return [f"{name}: {version}" for name, version in sorted(environment.versions.items())]


def parity_outcome(parity: Parity) -> str:
    """Whether the runtimes are at par, without any word of theirs: HTML obeys one in a title."""
    if not parity.judged:
        return "not judged"
    return "achieved" if parity.parity_achieved else "not achieved"


def parity_words(parity: Parity) -> str:
    """Whether the runtimes are at par; neither yes nor no if too little was compared."""
    why = "" if parity.judged else f", {parity.unjudged_reason or 'no op in common'}"
    return parity_outcome(parity) + why


def footnotes(shown: Iterable[str]) -> list[str]:
    """The meanings of those words in a table that need an explanation."""
    text = " ".join(shown)
    return [f"{word}: {meaning}" for word, meaning in FOOTNOTES.items() if word in text]

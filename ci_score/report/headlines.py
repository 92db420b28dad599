"""A verdict's first sentence: the worst change, or why there is no judgement, and the cause."""

from __future__ import annotations

from collections.abc import Iterable

from ci_score.model.explanation import Explanation
from ci_score.model.metrics import (
    STEP_TIME,
    THROUGHPUT,
    TIMES,
    metric_named,
    metric_of,
    slower_by,
    time_change,
)
from ci_score.model.reasons import Why
from ci_score.model.record import Judged, Record, Trend
from ci_score.model.verdict import Change, JudgedBy, Outcome, Verdict, decisive
from ci_score.report.causes import more
from ci_score.report.rows import counted_as
from ci_score.report.sentences import accepted_words, change_sentence, sentence

# Beyond this the step's time and its throughput do not tell the same change.
SAME_SHARE = 0.01
NOT_JUDGED = "Not judged: "
# A smaller share would be printed as 0.0 %.
LEAST_SHOWN = 0.0005


# What happened, and why where it is known.
Parts = tuple[str, str]


def headline(of: Record | Judged | Verdict) -> str:
    """The one sentence on a report, a case, or a verdict that a reason of its own decides."""
    if isinstance(of, Record):
        parts = report_parts(of)
    else:
        parts = _decided(of) if isinstance(of, Verdict) else headline_parts(of)
    return ": ".join(filter(None, parts))


def worst_first(record: Record) -> list[Judged]:
    """The cases, the worst verdict first, then what is slowest; those without one come last."""
    outcomes = list(Outcome)

    def place(case: Judged) -> tuple[int, float]:
        if case.verdict is None:
            return 1, 0.0
        change = time_change(case)
        return -outcomes.index(case.verdict.outcome), -slower_by(change) if change else 0.0

    return sorted(record.cases, key=place)


def headline_parts(case: Judged) -> Parts:
    """What happened to a case, and why."""
    if case.verdict is None:
        return "", ""
    if case.verdict.outcome is Outcome.INCONCLUSIVE:
        return f"{NOT_JUDGED}{_why_not_judged(case, case.verdict)}", ""
    if case.verdict.decided_by is not None:
        return sentence(case.verdict.decided_by), ""
    worst = decisive(case.changes)
    if worst is None or worst.outcome is Outcome.PASS:
        return _passed(case, case.verdict)
    words = in_plain_words(worst, case.changes)
    if worst.judged_by is JudgedBy.ONE_NUMBER:
        return f"{words} (one run per side, could be noise)", _cause(case, worst)
    limit = within_limit(worst) if worst.outcome is Outcome.WARN else ""
    return f"{words}{limit}", _cause(case, worst)


def _why_not_judged(case: Judged, verdict: Verdict) -> str:
    """A reason of its own, or what of the worst metric is not known, and what it seems to be."""
    worst = decisive(case.changes)
    if verdict.decided_by is not None or worst is None:
        return sentence(verdict.decided_by) if verdict.decided_by else ""
    words = change_sentence(worst, metric_of(worst))
    if worst.delta is None:
        return f"{metric_named(worst.metric).label.lower()} is {words}"
    return f"{in_plain_words(worst, case.changes)}, {words}"


def report_parts(record: Record) -> Parts:
    """The worst verdict's, and of how many cases, where there are several."""
    worst = worst_first(record)[0] if record.cases else None
    own = record.unjudged
    if own is not None and (worst is None or record.outcome is own.outcome):
        return _decided(own)
    if worst is None or worst.verdict is None:
        return "nothing was measured", ""
    if len(record.cases) == 1:
        return headline_parts(worst)
    counted = counted_as(record, worst.verdict.outcome)
    if worst.verdict.outcome is not Outcome.INCONCLUSIVE:
        return f"{counted} {worst.name}", headline(worst)
    # That it is not judged is what `counted` says.
    return f"{counted} {worst.name}: {_why_not_judged(worst, worst.verdict)}", ""


def _decided(verdict: Verdict) -> Parts:
    words = sentence(verdict.decided_by) if verdict.decided_by else ""
    unjudged = verdict.outcome is Outcome.INCONCLUSIVE
    return f"{NOT_JUDGED}{words}" if unjudged else words, ""


def _cause(case: Judged, worst: Change) -> str:
    """`the device waits for the data loader`, where most of the change is explained."""
    explanation = case.explanation
    if explanation is None:
        return ""
    is_of_time = worst.metric in (STEP_TIME, THROUGHPUT)
    words = cause_words(explanation) if is_of_time else ""
    if words and explanation.under_profiler:
        words = f"under the profiler {words}"
    counts = sentence(explanation.counts_cause) if explanation.counts_cause else ""
    if is_of_time and not words and counts and explanation.under_profiler:
        return f"the profiles do not show where, but {counts}"
    if words and not explanation.is_vague:
        return words
    # A count needs no profiler's time: where that has no clear cause, more launches may be one.
    return "; ".join(filter(None, (words, counts)))


def cause_words(explanation: Explanation) -> str:
    """What caused the change of the step's time, with how much of it that explains."""
    if explanation.cause is None:
        return ""
    words = sentence(explanation.cause)
    # Two parts say how much each of them grew.
    shows_more = explanation.cause.code is not Why.TWO_PARTS
    return f"{words} ({more(explanation.explained_ms)})" if shows_more else words


def _passed(case: Judged, verdict: Verdict) -> Parts:
    gated = [change for change in case.changes if change.outcome is not None]
    if not any(change.gated for change in case.changes):
        times = [one for one in case.changes if one.metric in TIMES and one.delta is not None]
        words = f": {in_plain_words(times[-1], case.changes)}" if times else ""
        return f"Nothing is gated by the policy, so this is only reported{words}", ""
    accepted = next((change for change in gated if change.accepted), None)
    if accepted is not None and accepted.accepted is not None:
        return f"{describe(accepted)}, accepted", accepted_words(accepted.accepted)
    timed = [change for change in gated if change.metric in (THROUGHPUT, STEP_TIME)]
    # Of the step and its throughput the one whose limit is nearer.
    time = max(timed, key=lambda one: slower_by(one) - _limit_in_time(one), default=None)
    if time is None or time.delta is None or time.fail_limit is None:
        return "Nothing is worse than its limit", ""
    if not time.is_statistical:
        words = in_plain_words(time, case.changes)
        within = within_limit(time) if slower_by(time) >= LEAST_SHOWN else ""
        noise = "(one run per side, could be noise)"
        return f"{words[0].upper()}{words[1:]}{within} {noise}", _cause(case, time)
    if is_surely(time, worse=False):
        return in_plain_words(time, case.changes), _cause(case, time)
    if is_surely(time, worse=True):
        return f"{in_plain_words(time, case.changes)}{within_limit(time)}", ""
    return f"Not proven slower{_at_most(verdict)}", ""


def _at_most(verdict: Verdict) -> str:
    """`: at most +2.1 %`, by the upper end of the interval."""
    if verdict.upper_end is None:
        return ""
    return f": at most {max(verdict.upper_end * 100, 0.1):+.1f} %"


def within_limit(change: Change) -> str:
    """`, within the limit of 10 %`, in the same words as the change: of a throughput as time."""
    if change.fail_limit is None:
        return ""
    metric = metric_of(change)
    if change.metric == THROUGHPUT:
        return f", within the limit of {_limit_in_time(change) * 100:.1f} %".replace(".0 ", " ")
    shown = metric.show_delta(change.fail_limit).lstrip("+").replace(".0 ", " ")
    return f", within the limit of {shown}"


def _limit_in_time(change: Change) -> float:
    """The limit as a share of time; a throughput of −5 % is 5.3 % more time."""
    limit = change.fail_limit or 0.0
    return slower_by(change.but(delta=-limit if change.metric == THROUGHPUT else limit))


def is_surely(change: Change, *, worse: bool) -> bool:
    """Whether the whole interval lies on one side of no change at all."""
    metric = metric_of(change)
    ends = [None if end is None else metric.worsening(end) for end in (change.low, change.high)]
    nearest = [end for end in ends if end is not None]
    if not nearest or (len(nearest) < 2 and not worse):
        return False
    return min(nearest) > 0 if worse else max(nearest) < 0


# --- a change in words ----------------------------------------------------------------------------


def in_plain_words(change: Change, changes: Iterable[Change] = ()) -> str:
    """`25.0 % slower (400 ms → 500 ms a step)`; what is no time is described as it is.

    The step is what people know, so it is named where the change is the throughput's.
    """
    if change.metric not in (STEP_TIME, THROUGHPUT) or change.delta is None:
        return describe(change)
    share = slower_by(change)
    if abs(share) < LEAST_SHOWN:
        return "the same time"
    words = f"{abs(share) * 100:.1f} % {'slower' if share > 0 else 'faster'}"
    step = next((one for one in (change, *changes) if one.metric == STEP_TIME), None)
    # Steps of other sizes have other times: then the share is that of a token.
    if step is None or step.delta is None or abs(step.delta - share) > SAME_SHARE:
        return words
    metric = metric_of(step)
    return f"{words} ({metric.show(step.base)} → {metric.show(step.head)} a step)"


def describe(change: Change) -> str:
    """A change in words: `Step time +25.0 % (400 ms → 500 ms)`."""
    metric = metric_of(change)
    delta = metric.show_delta(change.delta) if change.delta is not None else "not compared"
    values = f"{metric.show_or_dash(change.base)} → {metric.show_or_dash(change.head)}"
    return f"{metric.label} {delta} ({values})"


def describe_trend(trend: Trend) -> str:
    """A trend in words: `Step time +5.0 % (400 ms → 420 ms) since …, between … and …`."""
    metric = metric_named(trend.metric)
    values = f"{metric.show(trend.before)} → {metric.show(trend.after)}"
    changed = f"{metric.label} {metric.show_delta(trend.delta)} ({values})"
    old, new = (
        commit[:12] if commit else "a run" for commit in (trend.last_before, trend.first_after)
    )
    if trend.kind == "drift":
        return f"{changed} in slow steps, from {old} to {new}"
    return f"{changed} since {trend.created_at[:10]}, between {old} and {new}"

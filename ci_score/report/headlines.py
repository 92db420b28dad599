"""A verdict's first sentence: the worst change, or why there is no judgement, and the cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ci_score.files.visible import plain
from ci_score.model.explanation import Explanation
from ci_score.model.metrics import (
    MEMORY,
    STEP_TIME,
    THROUGHPUT,
    TIMES,
    Metric,
    counts_agree,
    is_surely,
    metric_named,
    metric_of,
    percent_digits,
    slower_by,
    tell_same_time,
    time_change,
)
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Judged, Record, Trend
from ci_score.model.verdict import Change, JudgedBy, Outcome, Unjudged, Verdict, decisive
from ci_score.report.cause_words import Name, Sentence
from ci_score.report.code_words import mostly_time, where_words
from ci_score.report.memory_words import memory_cause
from ci_score.report.numbers import delta_milliseconds, from_to, slower_words
from ci_score.report.rows import counted_as
from ci_score.report.sentences import MATCHED, accepted_words, change_sentence, sentence
from ci_score.report.words import (
    NEW,
    SHORT_SHA,
    VERDICTS,
    delta_interval,
    interval_in_time,
    is_new,
    limit_in_time,
    limits_in_time,
    show_side,
    shown_delta,
    time_interval,
)

NOT_JUDGED, NOT_COMPARED = "Not judged: ", "Not compared: "
FIRST_RUN, NEW_CASE, NEW_CASES = "First run: ", "New case: ", "New: "
NO_BASELINE = "there is no baseline yet"
ONE_RUN, COULD_BE_NOISE = "one run per side", ", could be noise"
# Why a case did not pass, in the table of all that did not.
LONGEST_WHY = 110
# A smaller share of time is no change at all.
LEAST_SHOWN = 0.0005


@dataclass(frozen=True, slots=True)
class Headline:
    """A verdict in short pieces: `48 % slower`, `77.9 → 115 ms/step`, `one run per side`, why.

    `word` is the verdict itself, with which a line begins that has no other sign of it.
    """

    what: Sentence
    values: str = ""
    basis: str = ""
    cause: Sentence = field(default_factory=lambda: Sentence.of(""))
    word: str = ""

    @property
    def facts(self) -> Sentence:
        """All but the verdict and the cause, in one line."""
        told = [piece for piece in (self.what, self.but_what) if piece]
        return Sentence.of(*_between(told, " · "))

    @property
    def said(self) -> Sentence:
        """`48 % slower`, as it goes on behind the verdict."""
        first, *rest = self.what.pieces or ("",)
        return Sentence.of(first if isinstance(first, Name) else _in_a_sentence(first), *rest)

    def named(self, verdict: Verdict) -> Headline:
        """With the verdict's word, which some sentences begin with: `First run`, `Not compared`."""
        first, *rest = self.what.pieces or ("",)
        for begins in (NOT_JUDGED, NOT_COMPARED, FIRST_RUN, NEW_CASE, NEW_CASES):
            if first.startswith(begins):
                what = Sentence.of(first.removeprefix(begins), *rest)
                return replace(self, word=begins.removesuffix(": "), what=what)
        return replace(self, word=VERDICTS[verdict.outcome])

    @property
    def but_what(self) -> Sentence:
        """`77.9 → 115 ms/step · one run per side`"""
        return Sentence.of(*_between([one for one in (self.values, self.basis) if one], " · "))


def _between(pieces: Sequence[str], mark: str) -> Iterator[str]:
    for number, piece in enumerate(pieces):
        if number:
            yield mark
        yield piece


def headline(of: Record | Judged | Verdict) -> str:
    """The one sentence on a report, a case, or a verdict that a reason of its own decides."""
    if isinstance(of, Verdict):
        told = Headline(_decided(of)).named(of)
    else:
        told = told_of_report(of) if isinstance(of, Record) else told_of(of)
    facts = " · ".join(filter(None, (told.said, told.but_what)))
    return ": ".join(filter(None, (told.word, facts, told.cause)))


def worst_first(record: Record) -> list[Judged]:
    """The cases, the worst verdict first, then what is slowest; those without one come last."""
    outcomes = list(Outcome)

    def place(case: Judged) -> tuple[int, float]:
        if case.verdict is None:
            return 1, 0.0
        change = time_change(case)
        return -outcomes.index(case.verdict.outcome), -slower_by(change) if change else 0.0

    return sorted(record.cases, key=place)


# --- a case ---------------------------------------------------------------------------------------


def told_of(case: Judged) -> Headline:
    """The headline of a case; without a verdict it is empty."""
    told = _told_of(case)
    return told.named(case.verdict) if case.verdict else told


def _told_of(case: Judged) -> Headline:
    if case.verdict is None:
        return Headline(Sentence.of(""))
    if case.verdict.decided_by is not None:
        return _with_its_time(Headline(_decided(case.verdict)), case, case.verdict)
    worst = decisive(case.changes)
    if case.verdict.outcome is Outcome.INCONCLUSIVE:
        return _unclear(case, worst) if worst else Headline(Sentence.of(NOT_JUDGED))
    if worst is None or worst.outcome is Outcome.PASS:
        return _passed(case)
    warns = worst.outcome is Outcome.WARN
    if warns and worst.is_statistical and not is_surely(worst, worse=True):
        seems = Sentence.of("Perhaps slower: ", time_interval(worst), within_limit(worst))
        return Headline(seems, values_of(worst, case.changes))
    noise = COULD_BE_NOISE if warns else ""
    return Headline(
        Sentence.of(in_plain_words(worst), within_limit(worst) if warns else ""),
        values_of(worst, case.changes),
        f"{ONE_RUN}{noise}" if worst.judged_by is JudgedBy.ONE_NUMBER else "",
        _cause(case, worst),
    )


def _decided(verdict: Verdict) -> Sentence:
    """The words of a verdict that a reason of its own decides."""
    if verdict.decided_by is None:
        return Sentence.of("")
    if verdict.outcome is not Outcome.INCONCLUSIVE:
        return sentence(verdict.decided_by)
    if verdict.unjudged is Unjudged.FIRST_RUN:
        return Sentence.of(FIRST_RUN, NO_BASELINE)
    if verdict.unjudged in NEW:
        return Sentence.of(NEW_CASE, NO_BASELINE)
    if verdict.unjudged is Unjudged.NOT_NEEDED:
        return sentence(verdict.decided_by).capitalized
    differs = next(_mismatches(verdict.reasons), None)
    if verdict.unjudged is Unjudged.ENVIRONMENT_CHANGED and differs is not None:
        return Sentence.of(NOT_COMPARED, _differs(differs))
    return Sentence.of(NOT_JUDGED, sentence(verdict.decided_by))


def _with_its_time(told: Headline, case: Judged, verdict: Verdict) -> Headline:
    """Why it is not judged, and what was seen of its time all the same, where it was compared."""
    time = time_change(case)
    if (
        time is None
        or time.outcome is None
        or verdict.unjudged in (None, Unjudged.NOTHING_MEASURED)
    ):
        return told
    is_sure = any(is_surely(time, worse=worse) for worse in (True, False))
    seen = in_plain_words(time) if is_sure or not time.is_statistical else "no change seen"
    return replace(told, values=seen, basis=values_of(time, case.changes), cause=_cause(case, time))


def _mismatches(reasons: Iterable[Reason]) -> Iterator[Reason]:
    for reason in reasons:
        inner = reason.data.get("why") if reason.code is Why.MISMATCH_IN else reason
        if isinstance(inner, Reason) and inner.code is Why.MISMATCH:
            yield inner


def _differs(mismatch: Reason) -> str:
    """`ran on MI300X, baseline is H100`"""
    key, here, there = (str(mismatch.data[name]) for name in ("key", "here", "there"))
    if key == "accelerator":
        return f"ran on {here}, baseline is {there}"
    return f"{MATCHED.get(key, key)} is {here}, of the baseline {there}"


def _unclear(case: Judged, worst: Change) -> Headline:
    """What of the worst metric is not known, and what it seems to be."""
    metric = metric_of(worst)
    why = change_sentence(worst, metric)
    if worst.delta is None:
        return Headline(Sentence.of(NOT_JUDGED, f"{metric.label.lower()} is ", why))
    is_time = worst.metric in (STEP_TIME, THROUGHPUT)
    seems = "Perhaps slower: " if is_time else f"Perhaps worse: {metric.label.lower()} "
    if any(one.code is Why.UNCLEAR_SUM for one in worst.reasons):
        return Headline(Sentence.of(seems, why), values_of(worst, case.changes))
    verdict = case.verdict
    seems_worse = metric.worsening(worst.delta) > 0
    if verdict is None or verdict.unjudged is not Unjudged.UNCLEAR or not seems_worse:
        known = _between([in_plain_words(worst), *([why] if why else [])], ", ")
        return Headline(Sentence.of(NOT_JUDGED, *known), values_of(worst, case.changes))
    if is_time and worst.fail_limit is not None and is_surely(worst, worse=True):
        # The direction is known; how far it goes is not.
        limit = f"{percent_digits(limit_in_time(worst))} % limit"
        told = Sentence.of(f"{in_plain_words(worst)}, not proven beyond the {limit}; ", why)
        return Headline(told, values_of(worst, case.changes), "", _cause(case, worst))
    change = time_interval(worst) if is_time else delta_interval(worst)
    return Headline(Sentence.of(seems, change, "; ", why), values_of(worst, case.changes))


def _passed(case: Judged) -> Headline:
    gated = [change for change in case.changes if change.outcome is not None]
    if not any(change.gated for change in case.changes):
        return _nothing_gated(case)
    accepted = [change for change in gated if change.accepted]
    if accepted:
        one = min(accepted, key=lambda change: change.metric != STEP_TIME)
        words = accepted_words(one.accepted) if one.accepted else ""
        what = Sentence.of(in_plain_words(one), ", accepted")
        return Headline(what, values_of(one, case.changes), "", Sentence.of(words))
    timed = [change for change in gated if change.metric in (THROUGHPUT, STEP_TIME)]
    # Of the step and its throughput the one whose limit is nearer.
    time = max(timed, key=lambda one: slower_by(one) - limit_in_time(one), default=None)
    if time is None or time.delta is None or time.fail_limit is None:
        return Headline(Sentence.of("Nothing is worse than its limit"))
    return _passed_in_time(case, time)


def _nothing_gated(case: Judged) -> Headline:
    """The policy has no limit: what happened to the time is told all the same."""
    times = [one for one in case.changes if one.metric in TIMES and one.delta is not None]
    if not times:
        return Headline(Sentence.of("Only reported: the policy sets no limit"))
    what = f"Only reported, the policy sets no limit: {in_plain_words(times[-1])}"
    return Headline(Sentence.of(what), values_of(times[-1], case.changes))


def _passed_in_time(case: Judged, time: Change) -> Headline:
    words, values = in_plain_words(time), values_of(time, case.changes)
    if not time.is_statistical:
        if words == NO_CHANGE:
            return Headline(Sentence.of(f"{words.capitalize()} in one run"), values)
        told = f"{words} in one run{COULD_BE_NOISE}"
        return Headline(Sentence.of(told), values, "", _cause(case, time))
    if is_surely(time, worse=False):
        return Headline(Sentence.of(words), values, "", _cause(case, time))
    if is_surely(time, worse=True):
        return Headline(Sentence.of(words, within_limit(time)), values, "", _cause(case, time))
    return Headline(Sentence.of(f"No change seen{interval_in_time(time)}"), values)


def within_limit(change: Change) -> str:
    """`, within the 10 % limit`, in the same words as the change: of a throughput as time."""
    worse = metric_of(change).worsening(change.delta or 0.0)
    # A single number may warn beyond its limit.
    if change.fail_limit is None or worse > change.fail_limit:
        return ""
    if change.metric in (STEP_TIME, THROUGHPUT):
        return f", within the {percent_digits(limit_in_time(change))} % limit"
    shown = metric_of(change).show_delta(change.fail_limit).removeprefix("+")
    return f", within the limit of {shown}"


def why(case: Judged) -> Sentence:
    """Why a case did not pass, in a cell: its cause, or else its headline."""
    told, change = told_of(case), time_change(case)
    # The time has a column of its own.
    is_told = change is not None and told.what == in_plain_words(change)
    facts = told.but_what if is_told else told.facts
    return (told.cause or facts).capitalized


def short_why(case: Judged) -> Sentence:
    """The same in a cell of a comment, cut where it is long; names still stand out."""
    kept: list[str] = []
    room = LONGEST_WHY
    for piece in why(case).pieces:
        if len(piece) > room:
            kept.append(Name(plain(piece, room)) if isinstance(piece, Name) else plain(piece, room))
            break
        kept.append(piece)
        room -= len(piece)
    return Sentence.of(*kept)


# --- the cause ------------------------------------------------------------------------------------


def _cause(case: Judged, worst: Change) -> Sentence:
    """`the device waits for the data loader · in 'Loader.fetch' (data.py:8, changed here)`."""
    if worst.metric == MEMORY and (of_memory := memory_cause(case)):
        return of_memory
    told = _cause_alone(case, worst)
    is_of_time = worst.metric in (STEP_TIME, THROUGHPUT)
    if not is_of_time or case.explanation is None or case.explanation.cause is None:
        return told
    where = where_words(case.explanation.code)
    return Sentence.of(*_between([one for one in (told, where) if one], " · "))


def _cause_alone(case: Judged, worst: Change) -> Sentence:
    """`the device waits for the data loader`, where most of the change is explained."""
    nothing = Sentence.of("")
    explanation = case.explanation
    if explanation is None:
        return nothing
    is_of_time = worst.metric in (STEP_TIME, THROUGHPUT)
    words = nothing
    if is_of_time:
        words = cause_words(explanation) or mostly_time(explanation.code)
    if words and explanation.under_profiler:
        words = Sentence.of("under the profiler ", words)
    counts = sentence(explanation.counts_cause) if explanation.counts_cause else nothing
    if is_of_time and not words and counts and explanation.under_profiler:
        return Sentence.of("the profiles do not show where, but ", counts)
    if words and not explanation.is_vague:
        return words
    # A count needs no profiler's time: where that has no clear cause, more launches may be one.
    return Sentence.of(*_between([one for one in (words, counts) if one], "; "))


def cause_words(explanation: Explanation) -> Sentence:
    """What caused the change of the step's time, with how much of it that explains."""
    cause = explanation.cause
    if cause is None:
        return Sentence.of("")
    words = sentence(cause)
    inner = cause.data.get("cause")
    if _tells_how_much(inner if isinstance(inner, Reason) else cause):
        return words
    return Sentence.of(words, f" ({delta_milliseconds(explanation.explained_ms)})")


def _tells_how_much(cause: Reason) -> bool:
    """Whether the sentence itself has the times that explain the change."""
    if cause.code is not Why.ONE_OP:
        return cause.code is Why.TWO_PARTS
    base, head = cause.data["base_count"], cause.data["head_count"]
    if cause.data["status"] in ("new", "gone"):
        return False
    if not isinstance(base, float | int) or not isinstance(head, float | int):
        return True
    return cause.data["more_launches"] is None or counts_agree(base, head)


# --- a report -------------------------------------------------------------------------------------


def told_of_report(record: Record) -> Headline:
    """The headline of the whole report."""
    worst = worst_first(record)[0] if record.cases else None
    own = record.unjudged
    if own is not None and (worst is None or record.outcome is own.outcome):
        return Headline(_decided(own)).named(own)
    if worst is None or worst.verdict is None:
        return Headline(Sentence.of("Nothing was measured"), word=VERDICTS[Outcome.INCONCLUSIVE])
    if is_new(record):
        return Headline(_new(record)).named(worst.verdict)
    told = told_of(worst)
    if len(record.cases) == 1:
        return told
    if worst.verdict.outcome is Outcome.PASS:
        return _all_passed(record, worst, told)
    outcome = worst.verdict.outcome
    connected = _connected(worst, told.what)
    what = Sentence.of(counted_as(record, outcome), Name(worst.name), *connected)
    return replace(told, what=what, word=VERDICTS[outcome])


def _new(record: Record) -> Sentence:
    """`First run: 8 baselines recorded`, where this run is of the branch; else which run will."""
    new = [case for case in record.cases if case.verdict and case.verdict.unjudged in NEW]
    first = all(case.verdict and case.verdict.unjudged is Unjudged.FIRST_RUN for case in new)
    total, several = len(record.cases), len(new) > 1
    if first and len(new) == total:
        begins = FIRST_RUN
    elif total == 1:
        begins = NEW_CASE
    else:
        begins = f"{NEW_CASES}{len(new)} of {total} cases, "
    if _leaves_baselines(record):
        return Sentence.of(f"{begins}{f'{len(new)} baselines' if several else 'baseline'} recorded")
    branch = (record.inputs or {}).get("baseline-branch")
    where = Name(branch) if branch else "the default branch"
    baselines = "the baselines" if several else "the baseline"
    records = "records" if first else "will record"
    return Sentence.of(f"{begins}the next run of ", where, f" {records} {baselines}")


def _leaves_baselines(record: Record) -> bool:
    """Whether later runs compare with this one: the branch's history has a point of it."""
    own = any(record.made(point) for point in record.history)
    return own and record.pull is None and record.run is not None


def _connected(case: Judged, what: Sentence) -> tuple[str, ...]:
    """Behind a case's name: ` is 30 % slower`, ` takes 3.2× as long`, `: Peak memory +20 %`."""
    if case.verdict and case.verdict.outcome is Outcome.INCONCLUSIVE:
        first, *rest = what.pieces or ("",)
        return (", ", _in_a_sentence(first), *rest)
    worst = decisive(case.changes)
    is_time = worst is not None and worst.metric in (STEP_TIME, THROUGHPUT)
    if not is_time or worst is None or (case.verdict and case.verdict.decided_by):
        return (": ", what)
    return (" takes " if " as long" in what else " is ", what)


def _in_a_sentence(words: str) -> str:
    """`perhaps slower: `; what begins with a name of its own keeps its capital."""
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


def _all_passed(record: Record, worst: Judged, told: Headline) -> Headline:
    """How many pass, the slowest where one is slower, and how many became faster."""
    total = len(record.cases)
    count = sum(1 for case in record.cases if case.verdict)
    begins = f"All {total} cases" if count == total else f"{count} of {total} cases"
    faster = len(faster_cases(record))
    if faster:
        begins += f", {faster} {'is' if faster == 1 else 'are'} faster"
    change = time_change(worst)
    if change is None or slower_by(change) < LEAST_SHOWN or not is_slower_for_sure(change):
        return Headline(Sentence.of(begins), word=told.word)
    what = Sentence.of(f"{begins}, slowest: ", Name(worst.name), *_connected(worst, told.what))
    return replace(told, what=what)


def is_slower_for_sure(change: Change) -> bool:
    """Whether it is slower by its interval; one number a side is told as it is."""
    return is_surely(change, worse=True) if change.is_statistical else slower_by(change) > 0


def faster_cases(record: Record) -> list[Judged]:
    """The cases that pass and surely became faster, the fastest first."""
    known = [
        (slower_by(change), case)
        for case in record.cases
        if case.verdict and case.verdict.outcome is Outcome.PASS
        if (change := time_change(case)) is not None and is_surely(change, worse=False)
    ]
    return [case for _, case in sorted(known, key=lambda one: one[0])]


# --- a change in words ----------------------------------------------------------------------------

NO_CHANGE = "the same time"


def in_plain_words(change: Change) -> str:
    """`25 % slower`, `3.2× as long`; another metric has its own number: `Peak memory +20 %`."""
    if change.metric not in (STEP_TIME, THROUGHPUT) or change.delta is None:
        metric = metric_of(change)
        delta = shown_delta(change) if change.delta is not None else "not compared"
        return f"{metric.label} {delta}"
    share = slower_by(change)
    return NO_CHANGE if abs(share) < LEAST_SHOWN else slower_words(share, limits_in_time(change))


def values_of(change: Change, changes: Iterable[Change] = ()) -> str:
    """`77.9 → 115 ms/step`, of what people know: the step, where it tells the same change."""
    if change.delta is None:
        return ""
    step = next((one for one in (change, *changes) if one.metric == STEP_TIME), None)
    if change.metric == THROUGHPUT and step is not None and tell_same_time(step, change):
        change = step
    shown = from_to(show_side(change, change.base), show_side(change, change.head))
    return f"{shown}/step" if change.metric == STEP_TIME else shown


def describe(change: Change) -> str:
    """A change in words: `Step time +25 % (400 → 500 ms)`."""
    metric = metric_of(change)
    delta = shown_delta(change) if change.delta is not None else "not compared"
    values = from_to(show_side(change, change.base), show_side(change, change.head))
    return f"{metric.label} {delta} ({values})"


def describe_trend(trend: Trend) -> str:
    """A trend in words: `Step time +5 % (400 → 420 ms) since …, between … and …`."""
    metric: Metric = metric_named(trend.metric)
    values = from_to(metric.show(trend.before), metric.show(trend.after))
    changed = f"{metric.label} {metric.show_delta(trend.delta)} ({values})"
    old, new = (
        commit[:SHORT_SHA] if commit else "a run"
        for commit in (trend.last_before, trend.first_after)
    )
    if trend.kind == "drift":
        return f"{changed} in slow steps, from {old} to {new}"
    return f"{changed} since {trend.created_at[:10]}, between {old} and {new}"

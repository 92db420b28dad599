"""Reasons → sentences. Every sentence of a verdict, a cause or a notice is made here.

A row for each code: a text with the names of its data, or a function of them. `tests/report` holds
that no code is without a row, and that a row asks for just the data that its code has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ci_score.model.lists import listed, meant, plural, some_of
from ci_score.model.metrics import (
    STEP_TIME,
    THROUGHPUT,
    Metric,
    metric_named,
    percent_digits,
    slower_by_share,
)
from ci_score.model.reasons import Datum, Reason, Why
from ci_score.model.verdict import Acceptance, Change, Unjudged
from ci_score.report.cause_words import Name, Sentence, quoted_name, unmarked
from ci_score.report.causes import CAUSES, GAINS, TO_TRY
from ci_score.report.host_causes import HOST_CAUSES, HOST_GAINS
from ci_score.report.numbers import (
    TWICE,
    bytes_words,
    milliseconds,
    multiple,
    plain_number,
    slower_words,
)

Row = str | Callable[..., str]

SIGNS = {
    "final_loss": "final loss",
    "valid_steps": "valid steps",
    "tokens_per_step": "tokens a step",
}
# A larger ratio has no decimals.
MANY_TIMES = 100.0
FORM = "ci-score accept <case> <metric> up to <bound> because <reason>"

# Each `Unjudged` in a few words, for a policy or a table that lists it.
UNJUDGED: dict[Unjudged, str] = {
    Unjudged.FIRST_RUN: "first run",
    Unjudged.NO_RECORD: "the branch's runs left no record",
    Unjudged.EXPIRED: "expired",
    Unjudged.NEW_CASE: "a new case",
    Unjudged.ENVIRONMENT_CHANGED: "the environment of a known case changed",
    Unjudged.NOTHING_MEASURED: "nothing measured",
    Unjudged.NOT_NEEDED: "no measurement needed",
    Unjudged.CANCELLED: "measurement cancelled",
    Unjudged.SKIPPED: "measurement skipped",
    Unjudged.UNKNOWN_RESULT: "the measuring job's result is not known",
    Unjudged.CRASHED_RUN: "crashed run",
    Unjudged.REQUIRED_CASE_MISSING: "a required case missing",
    Unjudged.KNOWN_CASE_MISSING: "a known case missing",
    Unjudged.INVALID_MEASUREMENT: "a disturbed measurement",
    Unjudged.MEASURED_ALONE: "measured without its base",
    Unjudged.OTHER_WORK: "not the same work",
    Unjudged.NOT_AS_DESIGNED: "not measured as the policy demands",
    Unjudged.NOT_ATTRIBUTABLE: "no record of the tested base",
    Unjudged.VOID: "a launch without a time",
    Unjudged.CONTRADICTS: "the branch's runs contradict",
    Unjudged.UNCLEAR: "not clear",
    Unjudged.TOO_NOISY: "too noisy to see less",
    Unjudged.NO_PERMISSION: "no permission to read baselines",
    Unjudged.NO_PROVENANCE: "the server does not say whose a record is",
    Unjudged.API_DOWN: "API down",
    Unjudged.ALL_UNUSABLE: "every candidate unusable",
}
_NO_BASELINE = {
    Unjudged.FIRST_RUN: "there is no baseline yet",
    Unjudged.NO_RECORD: "there is no baseline, although the branch has had runs",
    Unjudged.NEW_CASE: "the baselines do not know this case yet",
    Unjudged.MEASURED_ALONE: "head was measured alone, and the branch may know this case",
    Unjudged.ENVIRONMENT_CHANGED: "it ran on something else than its baselines",
    Unjudged.ALL_UNUSABLE: "none of the baselines found can be used",
}


def sentence(reason: Reason) -> Sentence:
    """The sentence of a reason; `change_sentence` makes those of a metric's change."""
    return Sentence.marked(_marked(reason))


def _marked(reason: Reason) -> str:
    """The sentence with its names still marked, as a part of another one."""
    cause = reason.data.get("cause") if reason.code is Why.FASTER else None
    return _filled(_OF_GAINS, cause) if isinstance(cause, Reason) else _filled(SENTENCES, reason)


def sentences(reasons: Iterable[Reason]) -> list[Sentence]:
    """The sentence of each reason."""
    return [sentence(reason) for reason in reasons]


def change_sentence(change: Change, metric: Metric) -> Sentence:
    """The sentence on a change: the first reason decides, the others limit the outcome."""
    return Sentence.marked("; ".join(_of_change(reason, metric) for reason in change.reasons))


def _of_change(reason: Reason, metric: Metric) -> str:
    row = CHANGES.get(reason.code)
    return _filled(SENTENCES, reason) if row is None else _filled(CHANGES, reason, metric=metric)


def _filled(rows: Mapping[Why, Row], reason: Reason, **more: object) -> str:
    row = rows.get(reason.code, "")
    data = {name: _plain(value) for name, value in reason.data.items()}
    try:
        return row.format(**data) if isinstance(row, str) else row(**data, **more)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
        # A stranger's record may hold a text where a number belongs.
        return f"a reason that cannot be shown ({reason.code.value})"


def _plain(value: Datum | Reason) -> Datum:
    """A datum in which nothing looks like a marked name; of a reason its own sentence."""
    if isinstance(value, Reason):
        return _marked(value)
    if isinstance(value, tuple):
        return tuple(unmarked(one) if isinstance(one, str) else one for one in value)
    if isinstance(value, float):
        return _Number(value)
    return unmarked(value) if isinstance(value, str) else value


class _Number(float):
    """A number that a sentence shows without an exponent, where its row does not say how.

    Before the sign of a percentage stands a space, as everywhere.
    """

    __slots__ = ()

    def __format__(self, how: str) -> str:
        return super().__format__(how).replace("%", " %") if how else plain_number(self)


def accepted_words(accepted: Acceptance) -> str:
    """`up to 12 % by octocat, because the loss is better`."""
    limit = f"up to {accepted.shown} " if accepted.shown else ""
    return f"{limit}by {accepted.by}, because {accepted.reason}"


_UNCHECKED = (
    "the branch has no record of this machine, so the {} of this session could not be checked."
)


def bases_unchecked(cases: int, first: Reason) -> Sentence:
    """What `Why.BASE_UNCHECKED` says of a case, once for several of them."""
    name = Name(str(first.data.get("case", "")))
    return Sentence.of(name, f" and {cases - 1} more: {_UNCHECKED.format('bases')}")


def acceptance_notices(acceptances: Sequence[Acceptance], most_refused: int = 5) -> list[str]:
    """The accepted regressions, and the sentences of comments that do not count."""
    granted = [one for one in acceptances if one.refused is None]
    refused = [(one, sentence(one.refused)) for one in acceptances if one.refused is not None]
    notices = [f"Accepted: {_subject(one)} {accepted_words(one)}" for one in granted]
    notices += [
        f"Not accepted, although {one.by} wrote it: {_subject(one)}: {why}."
        for one, why in refused[:most_refused]
    ]
    more = len(refused) - most_refused
    if more > 0:
        notices.append(
            f"{more} more comments accept something, and do not count; the record has them."
        )
    return notices


def _subject(one: Acceptance) -> str:
    return f"{one.case} {one.metric}".strip() or "a sentence"


# --- the rows that need more than a text ----------------------------------------------------------


def _no_sound_launch(side: str, launch: int, events: Sequence[str], words: Sequence[str]) -> str:
    why = "; ".join(f"{event}: {detail}" for event, detail in zip(events, words, strict=True))
    return f"no launch of the {side} was sound; launch {launch + 1:.0f}: {why}"


# What must be the same for a comparison, as people call it.
MATCHED = {
    "accelerator": "accelerator",
    "accelerator_count": "accelerator count",
    "precision": "precision",
    "timing": "way of timing",
}


_ENDED = {"cancelled": "was cancelled", "failure": "failed", "skipped": "was skipped"}


def _job_ended(job: str, result: str) -> str:
    ended = _ENDED.get(result) or f"ended with {result}"
    return f"{quoted_name(job)} {ended}"


def _without_quotes(words: str) -> str:
    """A stranger's words, which cannot end our quotes: what follows would look like ours."""
    return words.translate({ord("“"): '"', ord("”"): '"'})


def _no_baseline(why: str) -> str:
    reason = Unjudged(why)
    return _NO_BASELINE.get(reason, UNJUDGED[reason])


def _signs(signs: Sequence[str]) -> str:
    return " and its ".join(SIGNS.get(sign, sign) for sign in signs)


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else plain_number(value)


def _tokens(head: float, base: float) -> str:
    return f"{plain_number(head)} tokens a step here, {plain_number(base)} there"


def _budget(word: str) -> Callable[..., str]:
    def filled(metric: str, value: float, budget: float) -> str:
        row = metric_named(metric)
        return f"{row.label} {row.show(value)} is {word} its budget of {row.show(budget)}"

    return filled


def _budget_not_measured(metric: str, budget: float) -> str:
    row = metric_named(metric)
    return f"{row.label} has a budget of {row.show(budget)}, and was not measured"


def _ratio(ratio: float) -> str:
    return f"{ratio:,.2f}×" if ratio < MANY_TIMES else multiple(ratio)


def _parity_slower(
    partner: str, ratio: float, here_ms: float, there_ms: float, limit: float
) -> str:
    times = f"{milliseconds(here_ms)} against {milliseconds(there_ms)}"
    words = f"{_ratio(ratio)} the time per 1k tokens ({times})"
    return f"No parity with {partner}: {words}, {plain_number(limit)}× is the limit"


def _parity_ops(
    partner: str,
    ops: Sequence[str],
    ratios: Sequence[float],
    here_ms: Sequence[float],
    there_ms: Sequence[float],
    limit: float,
    by_reference: bool,
) -> str:
    words = ", ".join(
        f"{quoted_name(op)} {_ratio(ratio)} ({milliseconds(here)} against {milliseconds(there)})"
        for op, ratio, here, there in zip(ops, ratios, here_ms, there_ms, strict=True)
    )
    basis = " (reference parity)" if by_reference else ""
    return f"No parity with {partner}: {words}, {plain_number(limit)}× is the limit{basis}"


def _moved_together(cases: int, share: float) -> str:
    return (
        f"All {cases} cases moved together (about {slower_words(share)}): look for a"
        " shared cause, the machine or a common dependency, before any one of them."
    )


def _line_takes_longer(
    case: str, name: str, head_ms: float | None, more_ms: float, share: float
) -> str:
    more = f"{milliseconds(more_ms)} more than before"
    takes = f"{more} of a step" if head_ms is None else f"{milliseconds(head_ms)} of a step, {more}"
    return (
        f"{quoted_name(name)}: this line takes {takes}, {_share_of(share)} the slowdown of"
        f" {quoted_name(case)}."
    )


def _share_of(share: float) -> str:
    """Lines that got faster leave more than all of it to the others."""
    return f"{percent_digits(share)} % of" if share < 1 else "all of"


def _other_inputs(names: Sequence[str], here: Sequence[str], there: Sequence[str]) -> str:
    words = "; ".join(
        f"`{name}` is {now or 'not set'} here, and {before or 'not set'} there"
        for name, now, before in zip(names, here, there, strict=True)
    )
    return f"The inputs are not those of the baseline's run: {words}."


def _own_baseline(names: Sequence[str], here: Sequence[str]) -> str:
    words = ", ".join(f"`{name}` ({text})" for name, text in zip(names, here, strict=True))
    return (
        "The baseline is a file of the checkout, which the change itself may have written. Inputs"
        f" that are not as they come: {words}."
    )


def _not_tried(parts: Sequence[str]) -> str:
    return f" (not tried: its {listed(parts)})" if parts else ""


def _unclear_pairs(pairs: int, void: int, more: int | None) -> str:
    if void == pairs:
        return "no pair has times on both sides"
    words = f"{plural(pairs, 'pair')} {'is' if pairs == 1 else 'are'} too few"
    if more is None:
        return (
            f"{words}, and more would hardly tell: it is so near the limit, or the noise so large"
        )
    return f"{words}, about {more} would tell"


def _commits(head: str | None, base: str | None) -> str:
    """`1a2b3c against 4d5e6f`"""
    return f"{head or 'an unknown commit'} against {base or 'an unknown one'}"


def _far_slower(slow: int, launches: int, share: float) -> str:
    """`2 of 12 launches of head take 3× as long as`, or `60 % longer than`."""
    is_multiple, verb = share >= TWICE, "takes" if slow == 1 else "take"
    longer = (
        f"{multiple(1.0 + share)} as long as"
        if is_multiple
        else f"{percent_digits(share)} % longer than"
    )
    return f"{slow} of {launches} launches of head {verb} {longer}"


def _unclear_history(runs: int, enough: int | None, launches: int) -> str:
    words = f"{runs} earlier runs cannot tell {_WHETHER}"
    if enough is None:
        return f"{words}, and for so small a `false_fail` a record keeps too few; {_BESIDE}"
    if runs < enough:
        return f"{words} ({enough} can); {_BESIDE}"
    if launches:
        return f"one launch cannot tell {_WHETHER}; a second one can prove it, or pairs ({_AB})"
    return f"the branch's runs cannot tell {_WHETHER}: some stood out as well; {_BESIDE}"


def _void_launches(head: int, base: int) -> str:
    sides = [
        f"{count} {'launch' if count == 1 else 'launches'} of the {side}"
        for side, count in (("head", head), ("base", base))
        if count
    ]
    return f"{' and '.join(sides)} measured nothing, and may have been slow; measure again"


# --- the table ----------------------------------------------------------------------------------

_WHETHER = "whether it is slower than the limit"
_AB = quoted_name("ci-score ab")
_BESIDE = f"head and base measured side by side ({_AB}) would tell"
_MEANINGLESS = "the parity with {partner} means nothing: "
_TO_CHECK = (
    "check that its job uploads ci-score.json under the name in `baseline-artifact`, how long"
    " artifacts are kept, and the inputs `baseline-branch` and `baseline-workflow`"
)
_OTHER_WORK = "it did not do the same work ({})"

SENTENCES: dict[Why, Row] = {
    Why.QUOTED: "{words}",
    Why.UNKNOWN: "a reason of another version of ci-score ({code})",
    # Nothing usable was measured.
    Why.NO_FILE: "no file was found for it",
    Why.ATTEMPT_TO_COME: (
        "the files say that they are of attempt {there}, and this is attempt {here}"
    ),
    Why.NO_STEPS: "its measurements hold no step",
    Why.NO_TIME: "no time was measured",
    Why.NO_TIME_IN_PROFILE: "the profile holds no time",
    # What would settle it is told beside it.
    Why.UNUSABLE: lambda words, remedy: words,  # noqa: ARG005
    Why.NO_NUMBER_TO_COMPARE: "no step time and no throughput was measured",
    Why.NO_SOUND_LAUNCH: _no_sound_launch,
    Why.EMPTY_BY_ITS_RUN: "the run that measured it says that nothing was",
    Why.JOB_ENDED: _job_ended,
    Why.MEASURING_SAID: lambda case, words: (
        f"what measured {case} said last: “{_without_quotes(words)}”"
    ),
    Why.RESULT_UNKNOWN: lambda result: (
        f"the gate does not know how the measuring job ended ({result or 'no result was given'}):"
        " name that job in `needs`, and add the line"
        " `producer: measure=${{ needs.measure.result }}`, in which `measure` is its id"
    ),
    Why.NOT_NEEDED: "nothing had to be measured: {words}",
    Why.NOTHING_FOUND: "nothing was found at {where}",
    Why.NO_MEASUREMENTS: (
        "no measurements were found at {where}: name the folder that `ci-score ab` or `ci-score"
        " measure` wrote (its --out), or a file of such lines"
    ),
    Why.OTHER_COMMITS: lambda head, base, of_head, of_base: (
        f"its session measured {_commits(head, base)}, and {_commits(of_head, of_base)} is"
        " compared: measure what the run is about (`ci-score base` tells its base)"
    ),
    Why.OLDER_THAN_RUN: "{file} is older than this run",
    Why.LEFT_OUT: "Measurements of {case} were left out: {why}.",
    Why.EMPTY_MEASUREMENTS: (
        "{where} is there, but holds no launch: what measured ended before its first one"
    ),
    # What was measured cannot be judged.
    Why.DISTURBED: "the measurement was disturbed ({event}: {words})",
    Why.BASE_DISTURBED: "its baseline's measurement was disturbed ({event}: {words})",
    Why.ALSO_DISTURBED: "{event}: {words}",
    Why.TOO_FEW_STEPS: (
        "the policy asks for {wanted} timed steps a launch, and {short} of {launches}"
        " launches have fewer (the shortest {shortest})"
    ),
    Why.NOT_IN_TURNS: (
        "the launches of a pair did not run one after the other, so whatever drifted meanwhile"
        " would look like a change: launch head and base in turns"
    ),
    Why.TOO_FEW_PAIRS: lambda pairs, least: (
        "the policy asks for interleaved launches of both sides, and there are"
        f" {pairs or 'no'} complete pairs of at least {least}"
    ),
    Why.TOO_MANY_PAIRS: "{pairs} pairs of launches of one case; at most {most} are judged",
    Why.MORE_WARM_UP: (
        "the launches of the head leave out {head} warm-up steps, those that they are compared with"
        " {base}: slow steps could hide there; declare the same number"
    ),
    Why.OFTEN_SHARED: (
        "others disturbed {shared} of {launches} measurements: give the job the machine alone"
    ),
    Why.UNEVEN_TOKENS: (
        "the launches of the {side} did not do the same work: {least:.0f} to {most:.0f}"
        " tokens a step"
    ),
    Why.OTHER_AMOUNT: lambda head, base: _OTHER_WORK.format(_tokens(head, base)),
    Why.OTHER_LOSS: lambda head, base: _OTHER_WORK.format(
        f"the final loss is {plain_number(head, 4)} here and {plain_number(base, 4)} there"
    ),
    Why.FEWER_VALID_STEPS: lambda head, base: _OTHER_WORK.format(
        f"{plain_number(head)} valid steps here, {plain_number(base)} there"
    ),
    Why.OTHER_OPTIMIZER: _OTHER_WORK.format(
        "a step ends with {head} here and with {base} there, and no optimizer is in both"
    ),
    Why.OTHER_PASSES: lambda head, base: _OTHER_WORK.format(
        f"backward passes a step: {plain_number(head, 3)} here, {plain_number(base, 3)} there"
    ),
    Why.SKIPPED_STEPS: lambda head, base: _OTHER_WORK.format(
        f"the GradScaler skipped {percent_digits(head)} % of the steps here and"
        f" {percent_digits(base)} % there"
    ),
    Why.SHORT_STEPS: lambda head, base: _OTHER_WORK.format(
        f"{percent_digits(head)} % of the steps here take less than a third of their mean,"
        f" {percent_digits(base)} % there: does an optimizer step for something that is no"
        " training?"
    ),
    Why.SLOW_STEPS_LEFT_OUT: lambda more_ms: (
        "slow steps recur, and the timed ones do not hold them in proportion: by the untimed launch"
        f" they would add {plain_number(more_ms, 3)} ms more to a step here than there; time more"
        " steps (--steps)"
    ),
    Why.WORK_NOT_TOLD: lambda signs: (
        f"whether it did the same work is not known: its baseline tells its {_signs(signs)}, and"
        " this run does not"
    ),
    Why.WORK_TOLD_BY_SOME: lambda signs: (
        "whether it did the same work is not known: each launch of its baseline tells its"
        f" {_signs(signs)}, and only some of this run do"
    ),
    Why.BASE_CONTRADICTS: lambda slower_by, runs: (
        f"the base of this session is {percent_digits(slower_by)} % slower than the {runs} runs of"
        " the branch: was the right commit checked out as the base, and is the machine in order?"
    ),
    Why.NO_COMMON_TIME: "neither step time nor throughput is known on both sides",
    Why.STEP_TIME_LOST: "its baseline has a step time, and this run measured none",
    Why.NOTHING_GATED_IN_COMMON: lambda metrics: (
        f"nothing that the policy gates is known on both sides ({', '.join(metrics)})"
    ),
    # There is no baseline.
    Why.NO_BASELINE: _no_baseline,
    Why.MISMATCH: lambda key, here, there: (
        f"{'not comparable in timing' if key == 'timing' else key}: {here} here, {there} there"
    ),
    Why.MISMATCH_IN: "{record}: {why}",
    Why.NOTHING_OF_CASE: "{record}: measured nothing of {case}",
    Why.HAS_NO_BASE: "head was measured alone: there is no commit before it to measure against",
    Why.BASE_CANNOT_RUN: lambda words: (
        "head was measured alone: base cannot run the command" + (f" ({words})" if words else "")
    ),
    Why.WITHOUT_BASE: "head was measured without its base",
    Why.NO_SUCH_CASE: "no record has a case {case!r}",
    Why.ALL_EXPIRED: "{records} records, all expired",
    Why.NO_RECORD_YET: "the branch has left no record yet",
    Why.NO_PROVENANCE: (
        "the server lists artifacts without `{field}`, so a stranger's could look like the branch's"
    ),
    Why.NO_RECORD_IN: "no record in {folder}",
    Why.NO_RECORD_LEFT: (
        "{workflow} has completed runs on {branch}, and none left an artifact {artifact}:"
        f" {_TO_CHECK}"
    ),
    Why.NONE_OF_THE_BRANCH: lambda branch, artifact, artifacts: (
        f"{plural(artifacts, 'artifact')} called {artifact}, none of a run of {branch}: {_TO_CHECK}"
    ),
    # Why a record was looked at and not used.
    Why.SEARCH_ENDED: "after {records} records the search was given up",
    Why.NOT_ON_THE_LINE: "{commits} commits with a record are not on the line of the tested base",
    Why.EMPTY_RECORD: "record of {record}: nothing was measured",
    Why.OWN_RECORD: "{record}: it is the record that is being judged",
    Why.NO_SUCH_RECORD: "{record}: there is no such record or folder",
    Why.NOT_A_FILE: "{record}: not a regular file",
    Why.LEAVES_WORKSPACE: "{record}: a link that leaves the workspace",
    Why.NOT_OF_THE_BRANCH: "{record}: not of the branch, because its history lacks its own run",
    # The two numbers of a metric cannot be compared.
    Why.ONLY_IN_BASE: "measured by the baseline alone",
    Why.ONLY_IN_HEAD: "measured here alone",
    Why.NO_RATIO: "there is no ratio to 0 or less",
    Why.DEVICES_ON_ONE_SIDE: "only one side knows how many devices it ran on",
    Why.OTHER_TOKENS: _tokens,
    # Why a metric has its outcome; those that need the metric are in CHANGES.
    Why.ONE_NUMBER: "one run per side, could be noise",
    Why.FAR_FOR_ONE_NUMBER: lambda most: (
        f"one run per side, and over {percent_digits(most)} % does not pass as noise"
    ),
    Why.COUNT: "the same in every run, so one run per side is enough",
    Why.COUNT_VARIES: (
        "beyond the limit, but so were runs of the branch among each other: no count that every run"
        f" agrees on; {_BESIDE}"
    ),
    Why.OF_A_FASTER_STEP: "the step is faster, so that this is no warning",
    Why.REFERENCE_LIMIT: "{severity}",
    Why.PROVEN_WITHIN: "slower, within the limit that fails",
    Why.WARNING_NOT_PROVEN: "perhaps beyond the limit that warns, within the one that fails",
    Why.UNCLEAR_PAIRS: _unclear_pairs,
    Why.UNCLEAR_HISTORY: _unclear_history,
    Why.VOID_LAUNCHES: _void_launches,
    Why.NOT_IN_EVERY_PAIR: "not measured in {missing} of {pairs} pairs, so it may be worse there",
    Why.NOT_IN_EVERY_LAUNCH: (
        "not measured in {missing} of {launches} launches of the head, so it may be worse there"
    ),
    Why.GATE_NOT_MEASURED: "gated by the policy, and not measured here",
    Why.GATE_WITHOUT_RATIO: "gated by the policy, and there is no ratio to 0 or less",
    Why.GATE_OF_OTHER_STEP: "gated by the policy, and not comparable between steps of other sizes",
    Why.ACCEPTED_UP_TO: "accepted only up to {bound}",
    Why.NOT_ATTRIBUTABLE: lambda commits: (
        f"it may come from other commits: its baseline is {plural(commits, 'commit')} before the"
        " tested base, which has no record yet; a run of the base would tell, and so would head and"
        f" base measured side by side ({_AB})"
    ),
    Why.NOT_QUALIFIED: lambda words: (
        f"the policy wants a qualified machine ({words or 'nothing says that this one is'});"
        " `ci-score qualify` finds out"
    ),
    Why.NOT_QUALIFIED_BEFORE: (
        "the policy wants a qualified machine, and the branch's record does not say that this one"
        " is: run `ci-score qualify` before the branch's next run"
    ),
    Why.QUALIFIED_FOR_MORE: "the machine can gate at {gate_at:.0%}, and not at less",
    # What limits a verdict.
    Why.KNOWN_ON_ONE_SIDE: lambda keys: (
        f"{listed([MATCHED.get(key, key) for key in keys])} known on one side only; assumed equal"
    ),
    Why.LAUNCHES_WITHOUT_PARTNER: (
        "{alone} of {launches} launches have no partner on the other side, as if that had measured"
        " nothing"
    ),
    Why.RED_ELSEWHERE: (
        "an earlier attempt measured this, and the newest one ran elsewhere ({why}): it stays until"
        " it is measured again on such a machine, or accepted"
    ),
    Why.OFTEN_SLOW: lambda slow, launches, share: (
        f"{_far_slower(slow, launches, share)} its others, and none of the base does"
    ),
    # What the policy makes worth a remark.
    Why.OTHER_WARM_UP: lambda wanted, declared: (
        f"The policy asks for {wanted} warm-up steps a launch; launches here declare"
        f" {listed([str(steps) for steps in declared])}."
    ),
    Why.ORDER_NOT_TOLD: (
        "The policy asks for interleaved launches; the order in which these ran is not told"
        " (`order`)."
    ),
    Why.LOSS_VARIES: (
        "The loss differs between launches of one side: seeds are not fixed, so losses are not"
        " compared."
    ),
    Why.THROUGHPUT_GIVEN: (
        "The throughput was given by an input, and not measured: the step's time decides."
    ),
    # What holds without a baseline.
    Why.BUDGET_NOT_MEASURED: _budget_not_measured,
    Why.OVER_BUDGET: _budget("over"),
    Why.UNDER_BUDGET: _budget("under"),
    Why.PARITY_BROKEN: "the parity cannot be computed ({words})",
    Why.PARITY_CASE_MISSING: (
        "the parity with {partner} has no partner: that case was not measured"
    ),
    Why.PARITY_FILE_MISSING: (
        "the parity has no partner: the input `parity` names no file for it that can be read"
    ),
    Why.PARITY_UNUSABLE: _MEANINGLESS + "{side} is not usable ({why})",
    Why.PARITY_KEY_UNKNOWN: lambda partner, key, side: (
        f"{_MEANINGLESS.format(partner=partner)}the {key.replace('_', ' ')} of {side} is not known"
    ),
    Why.PARITY_KEY_DIFFERS: lambda partner, key, here, there: (
        f"{_MEANINGLESS.format(partner=partner)}{key.replace('_', ' ')} {_shown(here)} here,"
        f" {_shown(there)} there"
    ),
    Why.PARITY_TIMED_UNLIKE: _MEANINGLESS + "timed {here} here, {there} there",
    Why.PARITY_RATE_UNKNOWN: (
        "the parity with {partner} needs tokens per second, which {side} does not tell"
    ),
    Why.PARITY_SLOWER: _parity_slower,
    Why.PARITY_COVERS_LITTLE: (
        "the parity with {partner} compares ops of {here:.0%} and {there:.0%} of the op time,"
        " {wanted:.0%} is demanded"
    ),
    Why.PARITY_OPS: _parity_ops,
    # What holds for a whole report.
    Why.CASE_MISSING: "the case {case} was not measured",
    Why.BASELINE_HAS_CASE: "The baseline also has the case {case}, which was not measured.",
    Why.POLICY_WANTS_CASE: "The policy requires the case {case}, which was not measured.",
    Why.MOVED_TOGETHER: _moved_together,
    Why.BASE_UNCHECKED: lambda case: f"{quoted_name(case)}: {_UNCHECKED.format('base')}",
    Why.BASE_UNLIKE_RECORD: lambda case, session_ms, record_ms: (
        f"{case}: the base of this session takes {milliseconds(session_ms)} a step, the branch's"
        f" record {milliseconds(record_ms)}. Was it the right checkout?"
    ),
    Why.HEAD_CHECKED_OUT: (
        "The workspace holds the pull request's head and not its test merge: it is compared with"
        " the commit where it left the base."
    ),
    Why.POLICY_NOT_READ: (
        "The policy {path} could not be read at the base: {words} The built-in rules judge, and"
        " every run without a judgement blocks. Mend the file on the base branch, or give the job"
        " `contents: read`; if GitHub did not answer, run it again."
    ),
    Why.NO_SUCH_POLICY: (
        "There is no policy {path} at the base ({commit}), so the built-in rules judge. A policy"
        " counts once it is merged."
    ),
    Why.OWN_POLICY: lambda outcome, not_tried: (
        "The policy was changed here. The policy of the base judges; under its own the"
        f" verdict would be {outcome}{_not_tried(not_tried)}."
    ),
    Why.OWN_POLICY_UNUSABLE: (
        "The policy was changed here. The policy of the base judges; its own cannot be used"
        " ({words})."
    ),
    Why.SAME_COMMIT: "Both records are of commit {commit}: {here} is compared with {there}.",
    Why.OTHER_INPUTS: _other_inputs,
    Why.OWN_BASELINE: _own_baseline,
    Why.LINE_TAKES_LONGER: _line_takes_longer,
    Why.LINE_HOLDS_MORE: lambda case, name, more_bytes, share: (
        f"{quoted_name(name)}: of what is in use at the peak of a step, this line has allocated"
        f" {bytes_words(more_bytes)} more than before, {_share_of(share)} the growth of"
        f" {quoted_name(case)}."
    ),
    Why.FILE_NOT_WRITTEN: "{file} was not written: {words}",
    Why.COMMENT_NOT_POSTED: "The comment was not posted: {words}",
    Why.MAY_NOT_COMMENT: (
        "The comment was not posted: {words} Runs of forks and of Dependabot may only read: a"
        " workflow_run job can post for them."
    ),
    Why.PULL_OF_ANOTHER: lambda number, head, here: (
        f"No comment is written: the head of pull request {number} is {head}, and this run is of"
        f" {here}."
    ),
    Why.PULL_NOT_READ: (
        "No comment is written, because the pull request of this commit was not found: {words}"
    ),
    Why.TOO_MANY_COMMENTS: "The comment was not posted: over {most} are there already.",
    Why.NEWER_COMMENT: "A newer run has written the comment already; it was left alone.",
    Why.PAGE_IS_AT: "The whole report as a page: {page}",
    Why.PAGE_NOT_LINKED: "The page is not linked: it has no https address on this server.",
    Why.RECORD_OF_ANOTHER_RUN: (
        "The comment was not posted: the record is of another run, or of another attempt."
    ),
    Why.CHECK_NOT_CREATED: "The check run was not created: {words}",
    Why.ANSWER_POSTED: "The issue on lasting changes names the commit: {commit}",
    Why.NO_ANSWER_TO_POST: "No commit of a lasting change was found, so no issue names one",
    Why.ISSUE_NOT_WRITTEN: "The issue on lasting changes was not written: {words}",
    Why.MAY_NOT_WRITE_ISSUES: (
        "The issue on lasting changes was not written: {words} `issue-on-drift` needs the job's"
        " permission `issues: write`, and a repository with issues."
    ),
    Why.SHADOW: lambda code: (
        f'The policy says `enforce = "shadow"`: this check would have ended with exit {code}, and'
        " ends with 0."
    ),
    Why.RESOLVED: "What an earlier run reported here is resolved.",
    Why.BY_ITS_OWN_CODE: lambda run, of_fork: (
        f"Measured by the pull request's own code, in run {run}{' of a fork' if of_fork else ''}."
        " The numbers were checked, and judged here."
    ),
    Why.COMMENTS_NOT_READ: "Not every comment was read, so an acceptance may be missing: {words}",
    Why.MORE_COMMENTS: (
        "Not every comment was read, so an acceptance may be missing: of over {read} comments the"
        " first were read"
    ),
    Why.EARLIER_NOT_FOUND: (
        "This is attempt {attempt}. What the attempts before it measured was not found, so it is"
        " judged by itself."
    ),
    Why.EARLIER_REFUSED: "A record of an earlier attempt does not count: {why}.",
    Why.OF_ANOTHER: "it is of another {what} ({there} there, {here} here)",
    Why.NO_EARLIER_ATTEMPT: "it says that it is of attempt {there}, and this is attempt {here}",
    Why.NOT_OF_ITS_ATTEMPT: (
        "its artifact was uploaded at {uploaded}, and the job did not run in attempt {attempt} then"
    ),
    Why.MEASURED_AGAIN: lambda attempt, cases: (
        f"Attempt {attempt} measured anew ({some_of(cases)}): it is judged together"
        " with what the attempts before it measured, and replaces none of them."
    ),
    Why.JUDGED_AGAIN: lambda attempt, cases: (
        f"Attempt {attempt} judges a measurement again that an earlier attempt has"
        f" judged ({some_of(cases)}): that is no new evidence."
    ),
    Why.OTHERWISE_BEFORE: (
        "{case} was measured otherwise by an earlier attempt ({why}), which is not comparable with"
        " this one."
    ),
    Why.ELSEWHERE_BEFORE: lambda case, changed: (
        f"{case}: an earlier attempt ran on another machine or with other versions"
        f" ({some_of(changed)}); what both measured is judged together."
    ),
    # Why an acceptance does not count.
    Why.BY_NO_PERSON: "a bot or an app wrote it, and only people accept a regression",
    Why.EDITED: "the comment was edited, and GitHub does not say by whom; write a new one",
    Why.NO_APPROVAL: "jobs of this server may edit comments; write it in a review that approves",
    Why.NOT_OFFICIAL: "the server does not count this approval, because it takes write access",
    Why.NOT_UNDERSTOOD: f"it is not understood; write `{FORM}`",
    Why.BOUND_NOT_UNDERSTOOD: (
        "the bound is not understood; write `12 %`, `5 points`, `80 GB`, `450 ms` or `3`"
    ),
    Why.NO_CASE_HERE: lambda close: f"there is no such case here{meant(close)}",
    Why.CASE_NOT_MISSING: "the case is not missing",
    Why.NO_METRIC_HERE: lambda close: f"there is no such metric{meant(close)}",
    Why.OTHER_UNIT: lambda units: (
        f"its bound is written as {' or '.join(f'12 {unit}'.rstrip() for unit in units)}"
    ),
    Why.TOO_MANY_PEOPLE: "more than {most} people accept something, and not all can be asked for",
    Why.MAY_NOT_WRITE: "it takes write access, and they have {permission}",
    Why.RIGHTS_NOT_KNOWN: "GitHub does not say whether they may write ({words})",
    Why.NO_PULL_REQUEST: "there is no pull request",
    Why.BEFORE_THE_COMMITS: "it was written before the newest commits; write it again",
    Why.COMMITS_NOT_DATED: "GitHub does not say when the newest commits came ({words})",
    **CAUSES,
    **HOST_CAUSES,
    **TO_TRY,
}
# The same of what a step gained by.
_OF_GAINS: dict[Why, Row] = {**SENTENCES, **GAINS, **HOST_GAINS}


def _than(delta: float, metric: Metric) -> str:
    """`20 % slower`, `19.9 % lower`: a change as headlines say it, before a "than".

    Of a throughput it is told as time, which people know.
    """
    if metric.name in (STEP_TIME, THROUGHPUT):
        share = slower_by_share(metric.name, delta)
        return f"{percent_digits(abs(share))} % {'slower' if share >= 0 else 'faster'}"
    size = metric.show_delta(abs(delta)).removeprefix("+")
    return f"{size} {'higher' if delta >= 0 else 'lower'}"


def _in_words(delta: float, metric: Metric) -> str:
    """The same, alone: `3.2× as long`."""
    if metric.name in (STEP_TIME, THROUGHPUT):
        return slower_words(slower_by_share(metric.name, delta))
    return _than(delta, metric)


def _at_least(delta: float, metric: Metric) -> str:
    """`11.9 % slower`: a bound, which is not rounded up to more than is proven."""
    is_time = metric.name in (STEP_TIME, THROUGHPUT)
    share = slower_by_share(metric.name, delta) if is_time else delta
    if not metric.relative or abs(share) >= TWICE:
        return _in_words(delta, metric)
    shown = f"{math.floor(abs(share) * 1000) / 10:.1f}".removesuffix(".0")
    worse = ("slower", "faster") if is_time else ("higher", "lower")
    return f"{shown} % {worse[share < 0]}"


CHANGES: dict[Why, Callable[..., str]] = {
    Why.PROVEN_BEYOND: lambda delta, metric: f"proven: at least {_at_least(delta, metric)}",
    Why.LEVEL_DISAGREES: lambda by_base, by_level, runs, metric: (
        f"{_than(by_base, metric)} than the tested base's record and"
        f" {_than(by_level, metric)} than the level of the last {runs} runs: one of them is"
        f" beyond the limit; {_BESIDE}"
    ),
    Why.UNCLEAR_SUM: lambda delta, slow, launches, share, metric: (
        (f"{_far_slower(slow, launches, share)} its others; " if slow else "")
        + f"all steps together are {_in_words(delta, metric)}"
    ),
    Why.CONTRADICTS: lambda by_base, metric: (
        f"{_than(by_base, metric)} than the tested base's own run, which earlier runs do not"
        f" explain; {_BESIDE}"
    ),
    Why.TOO_NOISY: lambda up_to, metric: (
        f"too noisy to see less than {_than(up_to, metric).rpartition(' ')[0]}"
    ),
}

"""What to do next: measure again, open the traces, accept, or what would give a verdict."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from ci_score.files.visible import log_line
from ci_score.model.environment import AskedOption
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, are_one_time, metric_of, slower_by
from ci_score.model.reasons import Datum, Reason, Why
from ci_score.model.record import Judged, Record, case_name
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict, decisive
from ci_score.report.rows import twin_of

LONGEST = 200
# No sentence accepts more, as a share or in a unit.
MOST_ACCEPTED = 1e6
FLAGS = ("--keep-trackers",)
VARIABLES = ("--base-env", "--head-env")
# What a reader has to fill in, because a session does not tell it.
BASE = "--base"
TO_FILL_IN = {
    BASE: "<base>",
    "--setup": "<its setup>",
    "--base-python": "<interpreter of base>",
    "--head-python": "<interpreter of head>",
}


def ab_command(case: Judged) -> str:
    """The line that measures both sides; what stands in `<…>` has to be filled in."""
    own = case.environment.asked if case.baseline and case.baseline.of_session else ()
    base = [row for row in own if row.option == BASE][:1]
    commit = case.baseline.commit if case.baseline else None
    base = base or [AskedOption(option=BASE, value=commit[:12] if commit else None)]
    # None of them twice: whoever wrote the file may have named head and case, too.
    rest = [row for row in own if row.option not in (BASE, "--head", "--case")]
    first, options = (
        " ".join(word for row in rows for word in _words(row)) for rows in (base, rest)
    )
    words = [f"ci-score ab {first} --head . --case {case.name}", options]
    return " ".join([*filter(None, words), "-- <your training command>"])


def _words(row: AskedOption) -> Iterator[str]:
    """An option as a shell takes it: its value is a stranger's text."""
    yield row.option
    if row.value is None:
        if row.option not in FLAGS:
            yield TO_FILL_IN.get(row.option, "<its value>")
        return
    quoted = shlex.quote(log_line(row.value, LONGEST))
    is_name = row.option in VARIABLES and "=" not in row.value
    yield f"{quoted}=<its value>" if is_name else quoted


# --- what would give a verdict --------------------------------------------------------------------

_WOULD_TELL = {
    Unjudged.FIRST_RUN: "the first run on the default branch leaves the baseline",
    Unjudged.NO_RECORD: "a run of the default branch that uploads its record",
    Unjudged.NEW_CASE: "the first run on the default branch leaves its baseline",
    Unjudged.EXPIRED: "a run of the default branch leaves a new baseline; schedule one a week",
    Unjudged.ENVIRONMENT_CHANGED: "a run of the default branch on this machine, or head and base"
    " measured side by side (`ci-score ab`)",
    Unjudged.NOTHING_MEASURED: "a measurement: `ci-score ab` makes one, and `ci-score measure` of"
    " one side",
    Unjudged.CANCELLED: "a re-run, or the newer run that cancelled this one",
    Unjudged.SKIPPED: "a measurement: look at the job before it that failed, or at its `if`; where"
    " nothing has to be measured, say so with `not-needed`",
    Unjudged.UNKNOWN_RESULT: "the result of the measuring job, in `producer`",
    Unjudged.CRASHED_RUN: "a run that does not crash: look at its log",
    Unjudged.INVALID_MEASUREMENT: "a run on a machine that it has for itself",
    Unjudged.MEASURED_ALONE: "a base that can run the command: head is measured in turns with it",
    Unjudged.OTHER_WORK: "a run that does the same work; where other work is intended, the policy"
    " says so (`same_work`, `loss_tolerance`)",
    Unjudged.NOT_AS_DESIGNED: "a run that is measured as the policy demands (`ci-score ab` sees to"
    " pairs and their order)",
    Unjudged.NOT_ATTRIBUTABLE: "a run of the tested base, or head and base measured side by side"
    " (`ci-score ab`)",
    Unjudged.VOID: "a run in which every launch measures its steps",
    Unjudged.CONTRADICTS: "head and the tested base measured side by side (`ci-score ab`)",
    Unjudged.UNCLEAR: "more pairs of head and base (`ci-score ab`), or a quieter machine"
    " (`ci-score qualify` says how)",
    Unjudged.TOO_NOISY: "pairs of head and base (`ci-score ab`), or a quieter machine"
    " (`ci-score qualify` says how)",
    Unjudged.REQUIRED_CASE_MISSING: "the measurement of that case; or `ci-score accept <case>"
    " missing because <reason>`",
    Unjudged.KNOWN_CASE_MISSING: "the measurement of that case; or `ci-score accept <case>"
    " missing because <reason>`",
    Unjudged.NO_PERMISSION: "the right `actions: read` for the job",
    Unjudged.NO_PROVENANCE: "head and the tested base measured side by side (`ci-score ab`)",
    Unjudged.API_DOWN: "a re-run, when GitHub answers again",
    Unjudged.ALL_UNUSABLE: "a run of the default branch leaves a new record",
}


# Of a profile that cannot be used, by what is wrong with it.
_USABLE: dict[Datum | Reason, str] = {
    "run": _WOULD_TELL[Unjudged.CRASHED_RUN],
    "own file": "the profile of each process in a file of its own, as its profiler wrote it",
    "as written": "the file as the profiler wrote it, neither joined nor converted",
    "fewer steps": "a profile of fewer steps at once",
    "whole file": "a whole file: let the profiler end before the job does, and upload it then",
    "device": "a profile of some steps that has the device's work",
    "steps": "a profile of at least one whole step",
}

# Of a run in a job, where somebody else measured.
_IN_A_JOB = {
    Unjudged.NOTHING_MEASURED: "a measurement (`ci-score ab` makes one): the log of the measuring"
    " job says why there is none",
}


def what_would_tell(verdict: Verdict | None, record: Record, case: Judged | None = None) -> str:
    """What would turn "not judged" into a verdict, in a job or on a machine of one's own."""
    if verdict is None or verdict.unjudged is None:
        return ""
    if verdict.decided_by is not None and verdict.decided_by.code is Why.UNUSABLE:
        return _USABLE.get(verdict.decided_by.data.get("remedy"), "a profile that can be used")
    if case is not None and verdict.unjudged is Unjudged.UNCLEAR:
        worst = decisive(case.changes)
        for reason in worst.reasons if worst else ():
            if reason.code in _UNSETTLED and reason.data.get("more") is None:
                return _UNSETTLED[reason.code]
    # Only a server gives a run an id.
    is_job = record.run is not None and record.run.id is not None
    of_place = _IN_A_JOB if is_job else {}
    return of_place.get(verdict.unjudged) or _WOULD_TELL.get(verdict.unjudged, "")


# Where more pairs like these would not settle it.
_UNSETTLED = {
    Why.UNCLEAR_PAIRS: "longer launches (`ci-score ab --steps`), or a quieter machine (`ci-score"
    " qualify` says how)",
    Why.UNCLEAR_SUM: "the reason why single launches take longer (the page shows each of them), or"
    " a quieter machine",
}


def acceptance_line(case: Judged) -> str:
    """The comment that would accept what fails here, ready to copy: a line for each metric."""
    failed = [change for change in case.changes if change.outcome is Outcome.FAIL]
    bounds = {change.metric: _bound(change) for change in failed}
    for change in failed:
        if change.metric == THROUGHPUT and are_one_time(case.changes):
            # The verdict tells both as the step's time. One sentence covers both, and reaches as
            # far as the worse of the two.
            most = max(map(slower_by, (change, *filter(None, [twin_of(change, case.changes)]))))
            bounds[STEP_TIME] = _bound(change.but(metric=STEP_TIME, delta=most))
            del bounds[THROUGHPUT]
    return "\n".join(
        f"ci-score accept {case.name} {metric} up to {bound} because <reason>"
        for metric, bound in bounds.items()
        # A name that no sentence can have is a stranger's text, which could end the block.
        if bound and case_name(metric) == metric
    )


def _bound(change: Change) -> str:
    """How far a worsening would be accepted, with room for the noise of the next run."""
    metric = metric_of(change)
    if change.delta is None or abs(change.delta) > MOST_ACCEPTED:
        return ""
    worse = abs(change.delta)
    if metric.relative:
        return f"{math.ceil(round(worse * 110, 6))} %"
    if metric.in_points:
        return f"{math.ceil(round(worse * 110, 6))} points"
    # Of anything else a bound is the number itself, which `up to` cannot say where more is better.
    if metric.higher_is_better:
        return ""
    # A count is the same in the next run.
    whole = change.head == round(change.head)
    most = change.head if whole else math.ceil((change.head + worse / 10) * 1000) / 1000
    unit = metric.own_unit or ""
    return f"{f'{most:.3f}'.rstrip('0').rstrip('.')} {unit}".rstrip()


def trace_commands(case: Judged, record: Record) -> list[str]:
    """What opens the traces of both runs side by side, where both are known."""
    base = case.baseline.run.id if case.baseline and case.baseline.run else None
    head = record.run.id if record.run else None
    if base is None or head is None:
        return []
    return [
        f"gh run download {base} --pattern 'profile*' --dir base",
        f"gh run download {head} --pattern 'profile*' --dir head",
        "ci-score open base head",
    ]

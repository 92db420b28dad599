"""The first line of a comment, whole, in each of its forms."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.explanation import Explanation, OpChange, Part
from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import HistoryPoint, Judged, Record, RunIdentity
from ci_score.model.verdict import (
    Acceptance,
    Change,
    JudgedBy,
    Outcome,
    Unjudged,
    Verdict,
    unjudged,
)
from ci_score.report.badges import badge_of
from ci_score.report.headlines import headline
from ci_score.report.html.page import report_html
from ci_score.report.markdown import report_markdown
from ci_score.report.terminal import report_text
from ci_score.report.words import ICONS, VERDICTS
from tests.builders import case, record
from tests.builders.reports import HOSTILE

CASE = "llama-7b@h100"
RUN = RunIdentity(number=7, id=70)
SHA = "9a41d7e" + "0" * 33


def change(
    metric: str = STEP_TIME, base: float = 100.0, head: float = 100.0, **more: Any
) -> Change:
    """A change that pairs have judged, with a limit of 10 %."""
    fields: dict[str, Any] = {
        "delta": head / base - 1 if base else head,
        "gated": True,
        "warn_limit": 0.05,
        "fail_limit": 0.10,
        "judged_by": JudgedBy.PAIRED,
        "samples": 12,
        "outcome": Outcome.PASS,
    }
    return Change(metric=metric, base=base, head=head, **{**fields, **more})


def judged(*changes: Change, name: str = CASE, **fields: Any) -> Judged:
    outcome = Outcome.worst([one.outcome for one in changes if one.outcome])
    verdict = Verdict(outcome=outcome, unjudged=fields.pop("unjudged", None))
    return case(name, changes=changes, verdict=verdict, **fields)


def heading(*cases: Judged, **fields: Any) -> str:
    """The first line of the comment."""
    return report_markdown(record(*cases, **fields)).splitlines()[0]


def failing(head: float = 130.0, **more: Any) -> Change:
    return change(head=head, outcome=Outcome.FAIL, **more)


ONE: dict[str, Any] = {"judged_by": JudgedBy.ONE_NUMBER, "samples": 0}
UNCLEAR: dict[str, Any] = {"outcome": Outcome.INCONCLUSIVE, "low": -0.04, "high": 0.38}
FOUR_PAIRS = (Why.UNCLEAR_PAIRS(pairs=4, void=0, more=15),)
TOO_FEW = "4 pairs are too few, about 15 would tell"
TOO_NOISY = "too noisy to see less than 6 %"
ONLY_REPORTED = "only reported, the policy sets no limit"
# fmt: off
FORMS: dict[str, tuple[Judged, str]] = {
    "proven slower": (
        judged(failing(148.0, low=0.46, high=0.50)),
        f"### ❌ Fail: 48 % slower · 100 → 148 ms/step · `{CASE}`",
    ),
    "one run a side": (
        judged(failing(148.0, **ONE)),
        f"### ❌ Fail: 48 % slower · 100 → 148 ms/step · `{CASE}` · one run per side",
    ),
    "within the limit": (
        judged(change(head=109.0, low=0.072, high=0.098)),
        f"### ✅ Pass: 9 % slower, within the 10 % limit · 100 → 109 ms/step · `{CASE}`",
    ),
    "a warning": (
        judged(change(head=107.0, low=0.06, high=0.08, outcome=Outcome.WARN)),
        f"### ⚠️ Warning: 7 % slower, within the 10 % limit · 100 → 107 ms/step · `{CASE}`",
    ),
    "a warning beyond the limit": (
        judged(change(head=119.0, outcome=Outcome.WARN, **ONE)),
        (
            f"### ⚠️ Warning: 19 % slower · 100 → 119 ms/step · `{CASE}` · one run per side, could"
            " be noise"
        ),
    ),
    "surely faster": (
        judged(change(head=88.0, low=-0.13, high=-0.11)),
        f"### ✅ Pass: 12 % faster · 100 → 88.0 ms/step · `{CASE}`",
    ),
    "no change": (
        judged(change(head=100.3, low=-0.01, high=0.02)),
        f"### ✅ Pass: no change seen (−1 to +2 %) · 100 → 100 ms/step · `{CASE}`",
    ),
    "no change, with an interval that is less wide than its digits": (
        judged(change(head=100.3, low=0.0029, high=0.0031)),
        f"### ✅ Pass: 0.3 % slower, within the 10 % limit · 100 → 100 ms/step · `{CASE}`",
    ),
    "no change, with one end": (
        judged(change(head=100.3, high=0.021)),
        f"### ✅ Pass: no change seen (at most +2.1 %) · 100 → 100 ms/step · `{CASE}`",
    ),
    "one run, slower": (
        judged(change(head=106.0, **ONE)),
        f"### ✅ Pass: 6 % slower in one run, could be noise · 100 → 106 ms/step · `{CASE}`",
    ),
    "one run, the same": (
        judged(change(**ONE)),
        f"### ✅ Pass: the same time in one run · 100 → 100 ms/step · `{CASE}`",
    ),
    "many times as long": (
        judged(failing(320.0, low=2.1, high=2.3)),
        f"### ❌ Fail: 3.2× as long · 100 → 320 ms/step · `{CASE}`",
    ),
    "perhaps": (
        judged(change(head=115.0, reasons=FOUR_PAIRS, **UNCLEAR), unjudged=Unjudged.UNCLEAR),
        (
            f"### ❔ Not judged: perhaps slower: +15 % (−4 to +38 %); {TOO_FEW} · 100 → 115 ms/step"
            f" · `{CASE}`"
        ),
    ),
    "slower, and not proven to be beyond its limit": (
        judged(change(head=115.0, reasons=FOUR_PAIRS, **{**UNCLEAR, "low": 0.02}),
               unjudged=Unjudged.UNCLEAR),
        (
            f"### ❔ Not judged: 15 % slower, not proven beyond the 10 % limit; {TOO_FEW} · 100 →"
            f" 115 ms/step · `{CASE}`"
        ),
    ),
    "not judged, and no reason is told": (
        judged(change(head=115.0, reasons=(), **UNCLEAR), unjudged=Unjudged.TOO_NOISY),
        f"### ❔ Not judged: 15 % slower · 100 → 115 ms/step · `{CASE}`",
    ),
    "too noisy": (
        judged(change(head=101.0, reasons=(Why.TOO_NOISY(up_to=0.06),), **UNCLEAR),
               unjudged=Unjudged.TOO_NOISY),
        f"### ❔ Not judged: 1 % slower, {TOO_NOISY} · 100 → 101 ms/step · `{CASE}`",
    ),
    "just beyond its limit": (
        judged(failing(110.4, low=0.101, high=0.107)),
        f"### ❌ Fail: 10.4 % slower · 100 → 110 ms/step · `{CASE}`",
    ),
    "just within its limit": (
        judged(change(head=109.96, low=0.098, high=0.0999)),
        f"### ✅ Pass: 9.96 % slower, within the 10 % limit · 100 → 110 ms/step · `{CASE}`",
    ),
    "a throughput is told as time": (
        judged(change(THROUGHPUT, 1000.0, 770.0, outcome=Outcome.FAIL),
               change(head=1000 / 7.7, gated=False, outcome=None)),
        f"### ❌ Fail: 30 % slower · 100 → 130 ms/step · `{CASE}`",
    ),
    "memory": (
        judged(change("peak_memory_gb", 40.0, 48.0, judged_by=JudgedBy.EXACT, outcome=Outcome.FAIL),
               change(head=100.1, low=-0.01, high=0.01)),
        f"### ❌ Fail: peak memory +20 % · 40.0 → 48.0 GB · `{CASE}`",
    ),
    "a count from nothing": (
        judged(change("recompiles", 0.0, 2.0, relative=False, warn_limit=0.0, fail_limit=0.0,
                      outcome=Outcome.FAIL)),
        f"### ❌ Fail: recompiles +2 · 0 → 2 · `{CASE}`",
    ),
    "accepted": (
        judged(change(head=130.0, accepted=Acceptance(
            case=CASE, metric=STEP_TIME, bound=0.33, shown="33 %", reason="a fix", by="octocat"))),
        f"### ✅ Pass: 30 % slower, accepted · 100 → 130 ms/step · `{CASE}`",
    ),
    "no limit": (
        judged(change(head=130.0, gated=False, outcome=Outcome.PASS)),
        f"### ✅ Pass: {ONLY_REPORTED}: 30 % slower · 100 → 130 ms/step · `{CASE}`",
    ),
}
# fmt: on


@pytest.mark.parametrize("form", FORMS)
def test_heading__of_a_case(form: str) -> None:
    """What happened, how much, of which case and how sure, in one line."""
    one, expected = FORMS[form]
    assert heading(one) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "beside another"])
def test_headline__begins_with_the_verdict_wherever_it_stands(form: str, beside: int) -> None:
    """A comment, a terminal, a check, a badge, a page: a sign alone, or a colour, is no word."""
    one = FORMS[form][0]
    told = record(one, *[judged(change(head=100.0, **ONE), name="other")] * beside)
    word = VERDICTS[told.outcome]
    assert headline(one).startswith(f"{VERDICTS[one.verdict.outcome]}: " if one.verdict else "!")
    assert headline(told).startswith(f"{word}: ")
    assert report_markdown(told).startswith(f"### {ICONS[told.outcome]} {word}: ")
    assert report_markdown(told, "nightly").startswith(
        f"### {ICONS[told.outcome]} {word} · nightly · "
    )
    # Of several cases a terminal counts the verdicts first.
    assert beside or report_text(told).startswith(f"{word}: ")
    assert badge_of(told).message.startswith(word.lower())
    assert f"<title>{word}: " in report_html(told)


def absent(why: Unjudged, *details: Reason, name: str = CASE) -> Judged:
    verdict = unjudged(why, Why.NO_BASELINE(why=why.value), *details)
    return case(name, verdict=verdict)


def on_branch(*cases: Judged) -> Record:
    """A run of the branch, whose history has a point of it."""
    points = tuple(
        HistoryPoint(case=one.name, commit=SHA, run=RUN, created_at="2026-01-02T03:04:05Z",
                     step_time_ms=100.0, throughput_tok_s=0.0)
        for one in cases
    )  # fmt: skip
    return record(*cases, history=points, run=RUN, commit=SHA)


def test_heading__of_a_first_run_says_who_records_the_baseline() -> None:
    """The branch's own run has recorded it; a pull request's has not."""
    several = [absent(Unjudged.FIRST_RUN, name=f"case-{number}") for number in range(8)]
    on = on_branch(*several)
    first = report_markdown(on).splitlines()[0]
    assert first == "### 🆕 First run: 8 baselines recorded"
    asked = heading(several[0], pull=7, run=RUN, commit=SHA)
    next_run = "the next run of the default branch records the baseline"
    assert asked == f"### 🆕 First run: {next_run} · `case-0`"
    # A record that names its pull request left no baseline, whatever its history holds.
    assert "recorded" not in headline(on.but(pull=7))
    named = {"inputs": {"baseline-branch": "trunk"}}
    assert "next run of `trunk` records the baselines" in heading(*several, pull=7, **named)


def test_heading__of_a_new_case_beside_others_that_pass() -> None:
    """It is counted, and is no failure."""
    made = heading(absent(Unjudged.NEW_CASE, name="new"), judged(change(**ONE), name="old"))
    assert made == (
        "### 🆕 New: 1 of 2 cases, the next run of the default branch will record the baseline"
    )


def test_heading__of_another_machine_names_both() -> None:
    """What cannot be compared, instead of that it cannot."""
    differs = Why.MISMATCH(key="accelerator", here="MI300X", there="H100")
    one = absent(Unjudged.ENVIRONMENT_CHANGED, differs)
    assert heading(one) == f"### ❔ Not compared: ran on MI300X, baseline is H100 · `{CASE}`"


@pytest.mark.parametrize(
    ("result", "ended"),
    [
        ("cancelled", "was cancelled"),
        ("failure", "failed"),
        ("skipped", "was skipped"),
        ("timed_out", "ended with timed\\_out"),
    ],
)
def test_heading__of_a_job_that_measured_nothing(result: str, ended: str) -> None:
    """The job is a name, and what became of it a word."""
    verdict = unjudged(Unjudged.NOTHING_MEASURED, Why.JOB_ENDED(job="measure", result=result))
    made = record(unjudged=verdict).but(cases=())
    assert report_markdown(made).splitlines()[0] == f"### ❔ Not judged: `measure` {ended}"


def test_heading__of_several_cases_names_the_worst() -> None:
    """How many fail, and what of the worst of them."""
    passes = judged(change(**ONE), name="bert")
    slow, slower = judged(failing(), name="llama"), judged(failing(320.0), name="gpt")
    memory = judged(failing(48.0, metric="peak_memory_gb", base=40.0, delta=0.2), name="vit")
    assert heading(passes, slow) == (
        "### ❌ Fail: 1 of 2 cases: `llama` is 30 % slower · 100 → 130 ms/step"
    )
    assert heading(passes, slow, slower) == (
        "### ❌ Fail: 2 of 3 cases, worst: `gpt` takes 3.2× as long · 100 → 320 ms/step"
    )
    assert heading(passes, memory) == (
        "### ❌ Fail: 1 of 2 cases: `vit`: Peak memory +20 % · 40.0 → 48.0 GB"
    )


def test_heading__of_cases_that_pass_counts_the_improvements() -> None:
    """Good news is counted, and named below."""
    same = [judged(change(low=-0.01, high=0.01), name=f"same-{number}") for number in range(62)]
    faster = [judged(change(head=80.0, low=-0.21, high=-0.19), name=name) for name in ("a", "b")]
    text = report_markdown(record(*same, *faster))
    assert text.splitlines()[0] == "### ✅ Pass: all 64 cases, 2 are faster"
    assert "**2 of 64 cases are faster:** `a`, `b`" in text.split("<details>")[0]


def test_heading__of_hostile_names_is_text() -> None:
    """A job is named by a workflow, an accelerator by a trace: neither is markup."""
    verdict = unjudged(Unjudged.NOTHING_MEASURED, Why.JOB_ENDED(job=HOSTILE, result=HOSTILE))
    differs = Why.MISMATCH(key=HOSTILE, here=HOSTILE, there=HOSTILE)
    texts = (
        report_markdown(record(unjudged=verdict).but(cases=())),
        report_markdown(record(absent(Unjudged.ENVIRONMENT_CHANGED, differs))),
    )
    for text in texts:
        first = re.sub(r"(`+)(.+?)\1", "", text.splitlines()[0])
        assert not re.search(r"(?<!\\)[<\[]|@everyone|(?<!\\)\]\(", first), first


# --- the cause ------------------------------------------------------------------------------------


def explained(cause: Reason, *ops: OpChange, **parts: tuple[float, float]) -> Explanation:
    rows = [Part(name=name, base_ms=one[0], head_ms=one[1]) for name, one in parts.items()]
    base, head = (sum(getattr(row, side) for row in rows) for side in ("base_ms", "head_ms"))
    return Explanation(basis="device", base_step_ms=base, head_step_ms=head, parts=rows, ops=ops,
                       cause=cause, explained_ms=head - base)  # fmt: skip


def one_op(**more: Any) -> Reason:
    data: dict[str, Any] = {
        "name": "ncclKernel_SendRecv", "origin": (), "status": "changed", "was": None,
        "base_ms": 21.8, "head_ms": 47.9, "base_count": 7.0, "head_count": 7.0,
        "more_launches": False, "layers": None, "repeats": None, "direction": None, "phase": None,
    }  # fmt: skip
    return Why.ONE_OP(**{**data, **more})


def test_cause__stands_in_a_line_of_its_own_with_its_names_as_code() -> None:
    """`Mostly x: 2.2× as long`, with the times and the launches."""
    found = explained(one_op(), compute=(77.9, 104.0))
    one = judged(failing(), explanation=found)
    assert report_markdown(record(one)).splitlines()[2] == (
        "Mostly `ncclKernel_SendRecv`: 2.2× as long (21.8 → 47.9 ms), same 7 launches"
    )
    assert headline(one).endswith(
        ": mostly 'ncclKernel_SendRecv': 2.2× as long (21.8 → 47.9 ms), same 7 launches"
    )


def test_cause__with_hostile_names_is_code_and_nothing_else() -> None:
    """Whatever an op is called, it stands in a code span; marks of our own are no marks in it."""
    names = (HOSTILE, "``` \ue000x\ue001 `", "\ue001\ue000")
    for name in names:
        found = explained(one_op(name=name), compute=(77.9, 104.0))
        line = report_markdown(record(judged(failing(), explanation=found))).splitlines()[2]
        assert line.startswith("Mostly `")
        assert "\ue000" not in line
        rest = re.sub(r"(`+)(.+?)\1", "", line)
        assert rest == "Mostly : 2.2× as long (21.8 → 47.9 ms), same 7 launches"


# --- whatever the numbers are ---------------------------------------------------------------------

numbers = st.one_of(
    st.floats(1e-9, 1e12, allow_nan=False),
    st.sampled_from([1e-12, 0.1, 1.0, 99.96, 1e15, 1e300, 1.7e308]),
)
metrics = st.sampled_from(
    [STEP_TIME, THROUGHPUT, "peak_memory_gb", "kernel_launches_per_step", "device_busy_ms", "mfu"]
)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    base, head = draw(numbers), draw(numbers)
    delta = min(head / base, 1e18) - 1
    spread = draw(st.floats(0, 3))
    outcome = draw(st.sampled_from(Outcome))
    return change(
        draw(metrics), base, head, delta=delta, low=max(delta - spread, -0.999999),
        high=delta + spread, outcome=outcome, judged_by=draw(st.sampled_from(JudgedBy)),
        fail_limit=draw(st.sampled_from([0.002, 0.05, 0.1, None])),
    )  # fmt: skip


@given(st.lists(changes(), min_size=1, max_size=4, unique_by=lambda one: one.metric))
def test_comment__has_no_number_that_only_machines_read(given_changes: list[Change]) -> None:
    """No exponent, no minus before nothing, no name of a field."""
    parts = {"compute": (1e-7, given_changes[0].head), "idle": (given_changes[0].base, 1e-12)}
    one = judged(*given_changes, explanation=explained(one_op(base_ms=1e-9), **parts))
    text = report_markdown(record(one)).split("How to reproduce")[0]
    text += report_markdown(record(one)).partition("Everything else")[2]
    assert not re.search(r"\d[eE][-+]?\d", text), text
    assert not re.search(r"[−-]0(\.0+)?(?![.\d])", text), text
    assert not re.search(r"\b\w+_(ms|tok_s|gb|per_step)\b", text), text


@given(st.floats(0.0001, 3.0), st.sampled_from([0.002, 0.03, 0.05, 0.1, 0.2]))
def test_heading__contradicts_no_limit(share: float, limit: float) -> None:
    """The shown number lies on the same side of the shown limit as the real one."""
    beyond = share > limit
    outcome = Outcome.FAIL if beyond else Outcome.PASS
    one = change(head=100 * (1 + share), delta=share, fail_limit=limit, warn_limit=None,
                 low=share * 0.9, high=share * 1.1, outcome=outcome)  # fmt: skip
    said = headline(judged(one))
    found = re.search(r": ([\d.]+) % slower", said)
    if found is None:
        assert "as long" in said or "same time" in said
        return
    assert (float(found[1]) > limit * 100) is beyond
    assert ("within the" in said) is not beyond

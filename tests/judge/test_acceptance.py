"""Accepting a regression: what a comment says, and what of it counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.compare import compared
from ci_score.judge.acceptance import (
    MISSING,
    MOST_ASKED,
    Sentence,
    Settled,
    read_bound,
    sentences,
    settle,
)
from ci_score.judge.policy import Policy
from ci_score.judge.verdicts import decide
from ci_score.model.conversation import Comment, Comments
from ci_score.model.reasons import Reason, Why, quoted
from ci_score.model.record import Judged, LaunchNumbers, Measured
from ci_score.model.verdict import Acceptance, Outcome, Verdict
from ci_score.report.headlines import headline
from ci_score.report.sentences import acceptance_notices, accepted_words, sentence
from tests.builders import PROJECT, case, found, scorecard
from tests.builders.verdicts import change_lines, policy, reasons
from tests.builders.verdicts import verdict_on as verdict

LINE = "ci-score accept llama@h100 step_time_ms up to 12 % because the fix costs it"
POLICY = policy()
TRAINING = policy(rules="training", budgets={"peak_memory_gb": 78})


def only(body: str) -> Sentence:
    (sentence,) = sentences(body)
    return sentence


@pytest.mark.parametrize(
    "body",
    [
        LINE,
        f"\n\n{LINE}\n",
        f"{LINE}\r\n\r\nThanks to all who looked at it.",
        LINE.replace("ci-score accept", "CI-Score Accept").replace("because", "Because"),
        LINE.replace(" ", "  "),
        LINE.replace("12 %", "+12%"),
        LINE.replace("12 %", "\u221212.0\u00a0%"),
        LINE.replace(" up to ", "\tup to "),
    ],
)
def test_sentences__say_case_metric_bound_and_reason(body: str) -> None:
    """Spaces, capitals of keywords and a sign make no difference."""
    said = only(body)
    assert (said.case, said.metric, said.reason) == (
        "llama@h100", "step_time_ms", "the fix costs it",
    )  # fmt: skip
    assert said.bound is not None
    assert (said.bound.number, said.bound.kind) == (0.12, "relative")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "Looks good.\n\n" + LINE,
        "> " + LINE,
        ">" + LINE,
        "> somebody said\n" + LINE,
        "`" + LINE + "`",
        "```\n" + LINE + "\n```",
        "```suggestion\n" + LINE + "\n```",
        "~~~~\n" + LINE + "\n~~~~",
        "    " + LINE,
        "\t" + LINE,
        " " + LINE,
        "- " + LINE,
        "1. " + LINE,
        "# " + LINE,
        "| " + LINE + " |",
        "**" + LINE + "**",
        "<!-- " + LINE + " -->",
        "<!--\n" + LINE + "\n-->",
        "<details>\n\n" + LINE + "\n\n</details>",
        "<pre>\n" + LINE + "\n</pre>",
        "<blockquote>\n\n" + LINE,
        "@maintainer " + LINE,
        "\u200b" + LINE,
        "\ufeff" + LINE,
        LINE.replace("ci-score", "\u0441i-score"),
        LINE.replace("ci-score", "ci\u2010score"),
        LINE.replace("accept", "\uff41ccept"),
        LINE.replace("ci-score", "c\u0131-score"),
        "\u2028" + LINE,
        "text\u2028" + LINE,
        "text\x0b" + LINE,
    ],
)
def test_sentences__only_at_the_very_beginning_of_a_comment(body: str) -> None:
    """Quoted, fenced, hidden, mentioned or written with other letters: it is none."""
    assert sentences(body) == []


@pytest.mark.parametrize(
    "line",
    [
        "ci-score accept",
        "ci-score accept llama",
        "ci-score accept llama step_time_ms",
        "ci-score accept llama step_time_ms up to 12 %",
        "ci-score accept llama step_time_ms up to 12 % because",
        "ci-score accept llama step_time_ms up to 12 % because \u00a0",
        "ci-score accept llama step_time_ms 12 % because of it",
        "ci-score accept llama step_time_ms up to a lot because of it",
        "ci-score accept llama step_time_ms up to 12,5 % because of it",
        "ci-score accept llama step_time_ms up to nan % because of it",
        "ci-score accept llama step_time_ms up to 1e9 % because of it",
        "ci-score accept llama step_time_ms up to \u0661\u0662 % because of it",
        "ci-score accept llama step_time_ms up to 9999999999 % because of it",
        "ci-score accept <case> <metric> up to <bound> because <reason>",
        "ci-score accept llama* step_time_ms up to 12 % because of it",
        "ci-score accept lla\u017fma step_time_ms up to 12 % because of it",
        "ci-score accept llama missing",
        "ci-score accept llama missing up to 3 % because of it",
        f"ci-score accept {'a' * 65} missing because of it",
    ],
)
def test_sentences__what_is_not_understood_says_so(line: str) -> None:
    """Whoever wants to accept something learns why it did not count."""
    assert only(line).wrong


def test_sentences__of_several_lines() -> None:
    """One regression shows in several metrics; what a line leaves open hides the next ones."""
    other = "ci-score accept bert missing because it moved"
    assert [one.case for one in sentences(f"{LINE}\n{other}\n\n{LINE}")] == [
        "llama@h100", "bert", "llama@h100",
    ]  # fmt: skip
    assert sentences(other)[0].metric == MISSING
    assert len(sentences(f"{LINE}\nbut not\n{other}")) == 1
    assert len(sentences(f"{LINE} <!--\n{other}\n-->")) == 1
    assert len(sentences(f"{LINE} `\n{other}\n`")) == 1
    assert len(sentences(f"{LINE} `x`\n{other}")) == 2
    assert len(sentences(f"{LINE}\n" * 1000)) < 50


def test_sentences__a_reason_is_one_short_line() -> None:
    """A stranger's text is cut, and says nothing else than that."""
    assert len(only(LINE + " x" * 5000).reason) <= 160


@given(st.text(max_size=300))
def test_sentences__of_any_text(body: str) -> None:
    """No text breaks it, and what counts is complete."""
    for one in [*sentences(body), *sentences("ci-score accept " + body)]:
        assert one.wrong or (one.case and one.metric and one.reason)


@given(st.integers(0, 10**8), st.sampled_from(["%", " %", " points", " GB", " ms", ""]))
def test_bounds__read_back_as_they_are_shown(number: int, unit: str) -> None:
    """What the report shows is what counts."""
    bound = read_bound(f"{number / 100}{unit}")
    assert bound is not None
    if number >= 10**6:
        return  # shown with six digits
    again = read_bound(bound.shown)
    assert again is not None
    assert again.number == pytest.approx(bound.number)
    assert (again.kind, again.unit) == (bound.kind, bound.unit)


def test_sentences__of_the_documents_are_understood() -> None:
    """What people copy from the page on accepting does what the page says."""
    page = (PROJECT / "docs" / "accepting.md").read_text(encoding="utf-8")
    shown = [line.strip("`") for line in re.findall(r"`?ci-score accept[^`\n]*`?", page)]
    examples = [line for line in shown if "<" not in line]
    assert len(examples) == 2
    assert [only(line).wrong for line in examples] == [None, None]


# --- what counts --------------------------------------------------------------------------------


EARLY = "https://github.com/early"


@dataclass
class Said:
    """A conversation of a test, with who may write in it."""

    comments: list[Comment]
    rights: Mapping[str, str | None] = field(default_factory=dict)
    trouble: Reason | None = None
    asked: list[str] = field(default_factory=list)

    def listen(self) -> Comments:
        """The comments."""
        return Comments(tuple(self.comments), self.trouble)

    def why_not(self, login: str) -> Reason | None:
        """By the table, and counted."""
        self.asked.append(login)
        words = self.rights.get(login)
        return None if words is None else quoted(words)

    def why_too_early(self, comment: Comment) -> Reason | None:
        """By the table of urls."""
        return quoted("too early") if comment.url == EARLY else None


def by(author: str = "octo", body: str = LINE, **fields: Any) -> Comment:
    return Comment(author, body, **fields)


def with_verdict(name: str, outcome: Outcome) -> Judged:
    return case(name, verdict=Verdict(outcome=outcome))


CASES = (with_verdict("llama@h100", Outcome.FAIL), with_verdict("fine", Outcome.PASS))


def settled(said: Said, policy: Policy = POLICY, cases: Sequence[Judged] = CASES) -> Settled:
    """One case fails, one is fine and one is lost."""
    return settle(said, policy, cases, lost=("bert",))


def refusal(comment: Comment, policy: Policy = POLICY, **rights: str | None) -> str:
    """Why a comment does not count, as the report says it."""
    found = settled(Said([comment], rights), policy)
    assert found.granted == ()
    return why_refused(found.refused[0])


def why_refused(one: Acceptance) -> str:
    assert one.refused is not None
    return sentence(one.refused)


def test_settle__the_word_of_whoever_may_write_counts() -> None:
    """With who said it and why, for the report and the record."""
    given_ = settled(Said([by(url="https://github.com/x")]))
    (one,) = given_.granted
    assert (one.case, one.metric, one.bound, one.by) == ("llama@h100", "step_time_ms", 0.12, "octo")
    assert acceptance_notices(given_.all) == [
        "Accepted: llama@h100 step_time_ms up to 12 % by octo, because the fix costs it"
    ]


def test_settle__refuses_with_the_reason() -> None:
    """A bot, an edited comment, no right, and whatever fits nothing."""
    assert "a bot" in refusal(by(refused=Why.BY_NO_PERSON()))
    assert "was edited" in refusal(by(refused=Why.EDITED()))
    assert refusal(by(), octo="they have read") == "they have read"
    assert "not understood" in refusal(by(body="ci-score accept"))
    assert "no such case here (did you mean llama@h100?)" in refusal(
        by(body=LINE.replace("llama@h100", "Llama@h100"))
    )
    notices = acceptance_notices(settled(Said([by(body=LINE.replace("llama", "Llama"))])).all)
    assert notices[0].endswith("there is no such case here (did you mean llama@h100?).")
    assert "no such case" in refusal(by(body="ci-score accept gone missing because of it"))
    assert "not missing" in refusal(by(body="ci-score accept llama@h100 missing because of it"))
    assert "no such metric (did you mean step_time_ms?)" in refusal(
        by(body=LINE.replace("step_time_ms", "Step_time_ms"))
    )


@pytest.mark.parametrize(
    ("metric", "bound", "fits"),
    [
        ("step_time_ms", "12 %", True),
        ("step_time_ms", "450 ms", True),
        ("step_time_ms", "0.12", False),
        ("step_time_ms", "80 GB", False),
        ("throughput_tok_s", "12 %", True),
        ("throughput_tok_s", "900", False),
        ("wall_coverage", "5 points", True),
        ("wall_coverage", "5 %", False),
        ("mfu", "0.12", False),
        ("peak_memory_gb", "80 GB", True),
        ("peak_memory_gb", "4 %", True),
        ("peak_memory_gb", "80", False),
        ("kernel_launches_per_step", "600", True),
        ("recompiles", "2", True),
        ("recompiles", "2 %", False),
    ],
)
def test_settle__a_bound_has_the_unit_of_its_metric(metric: str, bound: str, fits: bool) -> None:
    """0.12 may mean twelve per cent or next to nothing: where it may, it is refused."""
    line = f"ci-score accept llama@h100 {metric} up to {bound} because of it"
    found = settled(Said([by(body=line)]), TRAINING)
    assert bool(found.granted) is fits
    assert fits or "its bound is written as 12" in why_refused(found.refused[0])


def test_settle__the_last_word_counts() -> None:
    """Of those who may write; a later stranger takes nothing back."""
    said = Said(
        [by(), by(body=LINE.replace("12", "8")), by("stranger", LINE.replace("12", "99"))],
        {"stranger": "no"},
    )
    found = settled(said)
    assert [one.bound for one in found.granted] == [0.08]
    assert [one.by for one in found.refused] == ["stranger"]


def test_settle__what_passes_is_not_asked_for() -> None:
    """A sentence on a case that is fine costs no request and no word."""
    said = Said([by(body=LINE.replace("llama@h100", "fine"))])
    assert settled(said) == Settled()
    assert said.asked == []


def test_settle__strangers_do_not_crowd_out_a_maintainer() -> None:
    """Only a few are asked for: people of the repository first."""
    crowd = [by(f"stranger{number}") for number in range(50)]
    said = Said([by(is_insider=True), *crowd], {f"stranger{n}": "no" for n in range(50)})
    found = settled(said)
    assert [one.by for one in found.granted] == ["octo"]
    assert len(said.asked) == MOST_ASKED
    assert len(acceptance_notices(found.all)) == 1 + 5 + 1
    assert len(found.all) == 51


def test_settle__what_was_written_before_the_newest_commits_is_refused() -> None:
    """With the reason, and only of those who may: each question costs a request."""
    early = [by("stranger"), by()]
    found = settled(Said([replace(one, url=EARLY) for one in early], {"stranger": "no"}))
    assert found.granted == ()
    assert [why_refused(one) for one in found.refused] == ["too early", "no"]


def test_settle__says_that_not_all_was_read() -> None:
    """An acceptance may be among what could not be read."""
    done = settled(Said([], trouble=Why.COMMENTS_NOT_READ(words="GitHub is down")))
    assert done.trouble is not None
    assert sentence(done.trouble) == (
        "Not every comment was read, so an acceptance may be missing: GitHub is down"
    )


def test_settle__asks_nobody_where_nothing_is_worse() -> None:
    """Where every case passes and none is lost, not even the comments are read."""
    said = Said([by()], trouble=quoted("GitHub is down"))
    fine = (with_verdict("llama@h100", Outcome.PASS), case("unjudged"))
    assert settle(said, POLICY, fine, lost=()) == Settled()
    assert said.asked == []


def test_settle__of_a_warning_counts_as_of_a_failure() -> None:
    """Where warnings fail the check, what only warns must be acceptable, too."""
    warns = (with_verdict("llama@h100", Outcome.WARN),)
    assert len(settled(Said([by()]), cases=warns).granted) == 1


def test_settle__the_loss_of_a_case_is_accepted_by_its_name() -> None:
    """Only of the case that was named."""
    done = settled(Said([by(body="ci-score accept bert missing because it moved")]))
    assert (done.accepts_loss_of("bert"), done.accepts_loss_of("llama@h100")) == (True, False)


# --- what it does to a verdict ------------------------------------------------------------------


def judged_with(
    head: Measured, base: Judged, *granted: Acceptance, rules: Policy = POLICY
) -> Judged:
    (done,) = decide([compared(head, found(base), rules.metrics)], (), rules, granted)
    return done


def acceptance(metric: str, bound: str) -> Acceptance:
    read = read_bound(bound)
    assert read is not None
    return Acceptance(case="training", metric=metric, kind=read.kind, bound=read.number,
                      shown=read.shown, reason="the fix costs it", by="octo")  # fmt: skip


def outcome(done: Judged) -> Outcome:
    return verdict(done).outcome


def test_judged__within_the_bound_is_a_pass_that_says_so() -> None:
    """Step time and throughput are one fact: one sentence on either covers both."""
    head, base = case(card=scorecard(130.0, 770.0)), case(card=scorecard(100.0, 1000.0))
    slower = acceptance("step_time_ms", "30 %")
    done = judged_with(head, base, slower)
    assert outcome(done) is Outcome.PASS
    words = "up to 30 % by octo, because the fix costs it"
    assert accepted_words(slower) == words
    assert f"Throughput per device and Step time are accepted {words}" in reasons(done)
    assert headline(done).endswith("because the fix costs it")
    assert {one.metric for one in done.changes if one.accepted} == {
        "step_time_ms", "throughput_tok_s",
    }  # fmt: skip
    assert done.scorecard.regressions == ()


@pytest.mark.parametrize(
    ("metric", "bound", "accepts"),
    [
        # A throughput of −23 % is 29.9 % more time, and 30 % more time one of −23.1 %.
        ("step_time_ms", "30 %", True),
        ("step_time_ms", "29 %", False),
        ("step_time_ms", "130 ms", True),
        ("step_time_ms", "129 ms", False),
        ("throughput_tok_s", "23.1 %", True),
        ("throughput_tok_s", "23 %", False),
        ("throughput_tok_s", "22 %", False),
        ("throughput_tok_s", "100 %", False),
    ],
)
def test_judged__one_sentence_covers_a_step_and_its_throughput(
    metric: str, bound: str, *, accepts: bool
) -> None:
    """The bound is the same share of time for both, and covers no more of either."""
    head, base = case(card=scorecard(130.0, 770.0)), case(card=scorecard(100.0, 1000.0))
    done = judged_with(head, base, acceptance(metric, bound))
    assert (outcome(done) is Outcome.PASS) is accepts


@pytest.mark.parametrize("metric", ["step_time_ms", "throughput_tok_s"])
def test_judged__of_other_work_a_sentence_covers_what_it_names(metric: str) -> None:
    """Where a step is not the same work, its time and its throughput are two facts."""
    head, base = case(card=scorecard(130.0, 700.0)), case(card=scorecard(100.0, 1000.0))
    done = judged_with(head, base, acceptance(metric, "50 %"))
    assert outcome(done) is Outcome.FAIL
    assert [one.metric for one in done.changes if one.accepted] == [metric]


def test_judged__its_own_sentence_goes_before_that_of_the_same_time() -> None:
    """Whoever accepted less of one metric has not accepted more of it by the other."""
    head, base = case(card=scorecard(130.0, 770.0)), case(card=scorecard(100.0, 1000.0))
    done = judged_with(
        head, base, acceptance("step_time_ms", "50 %"), acceptance("throughput_tok_s", "5 %")
    )
    assert outcome(done) is Outcome.FAIL


def test_judged__beyond_the_bound_stays_a_failure_and_says_so() -> None:
    """What was accepted for a smaller regression does not cover a larger one."""
    head, base = case(card=scorecard(130.0, 0.0)), case(card=scorecard(100.0, 0.0))
    done = judged_with(head, base, acceptance("step_time_ms", "29 %"))
    assert outcome(done) is Outcome.FAIL
    (worse,) = [change for change in done.changes if change.outcome is Outcome.FAIL]
    assert worse.reasons[-1] == Why.ACCEPTED_UP_TO(bound="29 %")
    assert worse.accepted is None
    assert "accepted only up to 29 %" in change_lines(done)[0]


@pytest.mark.parametrize(("bound", "expected"), [("32 %", Outcome.PASS), ("28 %", Outcome.FAIL)])
def test_judged__proven_by_pairs_within_the_bound(bound: str, expected: Outcome) -> None:
    """What is compared with the bound is what the pairs show, and not one number a side."""
    launches = tuple(
        LaunchNumbers(side=side, launch=launch, values={"step_time_ms": level + launch / 10})
        for launch in range(8)
        for side, level in (("head", 130.0), ("base", 100.0))
    )
    head = case(card=scorecard(100.0, 0.0), launches=launches)
    done = judged_with(head, case(card=scorecard(100.0, 0.0)), acceptance("step_time_ms", bound))
    assert outcome(done) is expected


def test_judged__a_budget_is_accepted_in_its_own_unit() -> None:
    """A larger share says nothing of an absolute limit."""
    base = case(metrics={"peak_memory_gb": 79.0})
    head = case(metrics={"peak_memory_gb": 80.0})
    for bound, expected in (("80 GB", Outcome.PASS), ("79 GB", Outcome.FAIL),
                            ("50 %", Outcome.FAIL)):  # fmt: skip
        done = judged_with(head, base, acceptance("peak_memory_gb", bound), rules=TRAINING)
        assert outcome(done) is expected, bound


@given(st.floats(1.0, 3.0), st.floats(0.0, 2.0))
def test_judged__an_acceptance_never_makes_it_worse(slower: float, bound: float) -> None:
    """And a worsening beyond the bound is judged as if nobody had said anything."""
    head, base = case(card=scorecard(100.0 * slower, 0.0)), case(card=scorecard(100.0, 0.0))
    one = acceptance("step_time_ms", f"{bound * 100:.3f} %")
    plain, accepted = judged_with(head, base), judged_with(head, base, one)
    order = list(Outcome)
    assert order.index(outcome(accepted)) <= order.index(outcome(plain))
    if slower - 1 > bound + 0.001:
        assert outcome(accepted) is outcome(plain)

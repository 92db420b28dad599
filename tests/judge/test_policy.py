"""The rules of a team: read strictly, resolved for each case, and shown as they hold."""

from __future__ import annotations

import json
import re
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.cli import execute
from ci_score.errors import BadInputError, WrongUseError
from ci_score.judge.policy import GateRule, Policy, passes, policy_of, read_policy, rules_of
from ci_score.judge.policy.checking import mistakes_in
from ci_score.model.metrics import Kind
from ci_score.model.record import Record
from ci_score.model.stages import BaselineMissing
from ci_score.model.verdict import HARMLESS, Unjudged
from ci_score.model.verdict import Outcome as VerdictOutcome
from ci_score.report.headlines import describe
from ci_score.report.words import limit
from tests.builders import PROJECT, case, found, profile, scorecard
from tests.builders.scene import FAST, SLOW, Outcome, Scene, on_pull_request, pull_request, tip
from tests.builders.verdicts import judged_case, verdict_on

Out = pytest.CaptureFixture[str]
STARTER = (PROJECT / "ci_score" / "judge" / "policy" / "starter.toml").read_text(encoding="utf-8")


pytestmark = pytest.mark.usefixtures("here")


def read(text: str) -> Policy:
    return read_policy(text.encode(), "policy.toml").policy


def training(text: str = "") -> Policy:
    return read(f'rules = "training"\n{text}')


def gate(policy: Policy, metric: str, case: str = "training") -> GateRule:
    rule = rules_of(policy, case).gate(metric)
    assert rule is not None
    return rule


def limits(rule: GateRule) -> tuple[float, float | None]:
    return rule.warn, rule.fail


def mistake(text: str) -> str:
    with pytest.raises(BadInputError) as caught:
        read(text)
    return str(caught.value)


# --- what holds ---------------------------------------------------------------------------------


def test_policy__without_a_word_is_the_reference() -> None:
    """Nobody is surprised by rules that they did not write."""
    gated = [rule for rule in rules_of(read(""), "x").gates if rule.gate]
    assert {rule.metric.name: limits(rule) for rule in gated} == {
        "throughput_tok_s": (0.10, 0.20),
        "step_time_ms": (0.10, 0.20),
        "wall_coverage": (0.05, None),
    }


def test_policy__training_gates_one_time_and_the_exact_counts() -> None:
    """Throughput and step time are one fact; coverage is only reported."""
    gated = [rule for rule in rules_of(training(), "x").gates if rule.gate]
    assert {rule.metric.name for rule in gated} == {
        "throughput_tok_s",
        "peak_memory_gb",
        "kernel_launches_per_step",
        "device_kernels_per_step",
        "host_ops_per_step",
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("fail = 0.04", (0.03, 0.04)),
        ("fail = 0.02", (0.02, 0.02)),  # the default's warning would come after it
        ("warn = 0.01", (0.01, 0.05)),
        ("warn = 0.1\nfail = 0.2", (0.1, 0.2)),
        ("gate = false", (0.03, 0.05)),
    ],
)
def test_limits__one_alone_leaves_the_other(said: str, expected: tuple[float, float]) -> None:
    """A lower fail pulls the default's warning down, and nothing pulls a fail up."""
    rule = gate(training(f"[metrics.throughput_tok_s]\n{said}"), "throughput_tok_s")
    assert limits(rule) == expected
    assert rule.gate is (said != "gate = false")


@pytest.mark.parametrize(
    ("said", "gated", "expected"),
    [
        ("gate = true", True, (0.03, 0.05)),
        ("warn = 0.1", True, (0.1, None)),
        ("fail = 0.1", True, (0.03, 0.1)),
        ("scale = 'absolute'\nfail = 12", True, (12, 12)),
    ],
)
def test_limits__of_what_the_rules_do_not_gate(
    said: str, gated: bool, expected: tuple[float, float | None]
) -> None:
    """A limit makes it a gate; a lone warning asks for no more than a warning."""
    rule = gate(training(f"[metrics.step_time_ms]\n{said}"), "step_time_ms")
    assert (rule.gate, limits(rule)) == (gated, expected)


@pytest.mark.parametrize("name", ["recompiles", "graph_breaks"])
def test_limits__one_more_recompile_is_beyond_the_default(name: str) -> None:
    """They are counted, and come with the measurements' metrics by name."""
    policy = training(f"[metrics.{name}]\ngate = true")
    base, head = case(metrics={name: 2.0}), case(metrics={name: 3.0})
    verdict = judged_case(head, found(base), policy).verdict
    assert verdict is not None
    assert verdict.outcome is VerdictOutcome.FAIL


def test_metric__of_the_user_s_own() -> None:
    """Direction, scale, unit and whether it is exact come from the policy."""
    text = '[metrics.hits]\ndirection = "higher"\nscale = "absolute"\nexact = true\nfail = 2'
    rule = gate(training(text), "hits")
    assert (rule.metric.higher_is_better, rule.metric.relative) == (True, False)
    assert (rule.metric.kind, limits(rule)) == (Kind.EXACT, (2, 2))


def test_case__later_tables_win_key_by_key() -> None:
    """The general part, then each table that matches."""
    policy = training("""
        [measure]
        timed_steps = 20
        [metrics.throughput_tok_s]
        warn = 0.02
        [[case]]
        match = ["llama*", "mixtral*"]
        [case.metrics.throughput_tok_s]
        fail = 0.04
        [case.budgets]
        peak_memory_gb = 70
        [[case]]
        match = "*@l4"
        [case.metrics.throughput_tok_s]
        fail = 0.08
        [case.measure]
        warmup_steps = 3
    """)
    names = ("other", "llama@h100", "llama@l4")
    found = [limits(gate(policy, "throughput_tok_s", name)) for name in names]
    assert found == [(0.02, 0.05), (0.02, 0.04), (0.02, 0.08)]
    rules = rules_of(policy, "llama@l4")
    assert (rules.measure.timed_steps, rules.measure.warmup_steps) == (20, 3)
    assert rules.budgets == {"peak_memory_gb": 70}


def test_environment__time_under_a_profiler_must_match_in_any_case() -> None:
    """Leaving out what must match does not make two kinds of time one."""
    rules = rules_of(read('[environment]\nmatch = ["accelerator"]'), "x")
    assert list(rules.match) == ["accelerator", "timing"]


def test_parity__a_star_in_the_partner_is_the_one_in_match() -> None:
    """Each model has its own partner on the other machine, and no case is its own."""
    policy = read('[[parity]]\nmatch = "*@mi300x"\npartner = "*@h100"\nms_per_1k_tokens = 1.2')
    (rule,) = policy.parities_of("llama-8b@mi300x")
    assert rule.partner_of("llama-8b@mi300x") == "llama-8b@h100"
    assert policy.parities_of("llama-8b@h100") == []
    every = read('[[parity]]\npartner = "a"\nms_per_1k_tokens = 1.2')
    assert (len(every.parities_of("b")), every.parities_of("a")) == (1, [])


def test_required__names_the_patterns_that_nothing_matches() -> None:
    """A parity that gates needs its case, too."""
    policy = read("""
        [[case]]
        match = ["a*", "b"]
        required = true
        [[parity]]
        match = "c*"
        reference_parity = true
        [[parity]]
        match = "d"
        reference_parity = true
        gate = false
    """)
    assert policy.required_among(["x"]) == ["a* or b", "c*"]
    assert policy.required_among(["a1", "c"]) == []


def test_unjudged__says_it_per_reason() -> None:
    """By the names that `policy show` prints; of the others a harmless one passes."""
    said = {"first_run": "fail", "api_down": "pass"}
    policy = policy_of({"unjudged": said}, "policy.toml").policy
    assert {reason for reason in Unjudged if passes(policy, reason)} == {
        *HARMLESS - {Unjudged.FIRST_RUN},
        Unjudged.API_DOWN,
    }
    assert not passes(policy, None)


def test_unjudged__what_the_policy_says_of_it_stands_in_the_verdict() -> None:
    """A verdict knows by itself whether it may pass, so that no exit code asks the policy again."""
    first_run = BaselineMissing(Unjudged.FIRST_RUN)
    for policy, may_pass in ((read(""), True), (read("unjudged = {first_run = 'fail'}"), False)):
        assert verdict_on(judged_case(case(), first_run, policy)).may_pass is may_pass


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[metric.mfu]\ngate = true', "metric: found a key that does not exist"),
        ('[metric.mfu]\ngate = true', "did you mean metrics"),
        ("[measure]\ntimed_step = 3", "did you mean timed_steps"),
        ("[measure]\ndesign = 'paired'", "'interleaved', 'history' or 'single'"),
        ("[measure]\nfalse_fail = 0.5", "measure.false_fail: found 0.5"),
        ("[measure]\nfalse_fail = nan", "a finite number"),
        ("[measure]\nlooks = [12, 6]", "measure.looks: found"),
        ("[measure]\nlooks = [6, 6]", "rising numbers, such as [6, 12]"),
        ("[measure]\nlooks = [4, 12]", "a number of 6 or more"),
        ("[measure]\nlooks = [6, 65]", "a number of 64 or less"),
        ("[measure]\nlooks = []", "measure.looks: found []"),
        ("[measure]\ntests = 0", "a number of 1 or more"),
        ("[measure]\ntests = 257", "a number of 256 or less"),
        ("[metrics.mfu]\nfial = 0.1", "metrics.mfu.fial"),
        ("[metrics.model]\nfial = 0.1", "did you mean fail"),
        ("[[case]]\nmatch = 'a'\nrequird = true", "case[0].requird"),
        ("[[case]]\nmatch = 'a'\n[case.metrics.mfu]\nfial = 0.1", "case[0].metrics.mfu.fial"),
        ("[[case]]\nrequired = true", "case[0].match: found nothing"),
        ("[unjudged]\nfrist_run = 'pass'", "did you mean first_run"),
        ("[unjudged]\nfirst_run = 'maybe'", "'pass' or 'fail'"),
        ("[environment]\nmatch = ['acelerator']", "environment.match[0]"),
        ("[metrics.peak_memory]\ngate = true", "did you mean peak_memory_gb"),
        ("[budgets]\npeak_memory = 3", "did you mean peak_memory_gb"),
        ("[budgets]\nstalls = 3", "[metrics.stalls] with `direction"),
        ("[metrics.stalls]\nfail = 0.1", "without a direction"),
        ("[metrics.mfu]\ndirection = 'lower'", "mfu.direction: found \"lower\", expected higher"),
        ("[metrics.mfu]\nunit = 'x'", "a unit only for a metric of your own"),
        ("[metrics.mfu]\nscale = 'absolute'", "`warn` or `fail` on that scale"),
        ("[metrics.mfu]\nwarn = -0.1", "0 or more"),
        ("[metrics.mfu]\nwarn = true", "a number"),
        ("[metrics.mfu]\nwarn = 0.2\nfail = 0.1", "warn = 0.2 beyond fail = 0.1"),
        ("[metrics.throughput_tok_s]\nwarn = 0.3", "warn = 0.3 beyond fail = 0.2"),
        ("[metrics.mfu]\nfail = 5", "found fail = 5, a worsening by 500%"),
        ("[metrics.mfu]\nfail = 0", "fail = 0 for what differs from run to run"),
        ("[model]\nactive_parameters = 9\nparameters = 8", "9, more than there are"),
        ("[model]\nlayers = 9", "no hidden and no sequence"),
        ("[model]\nprecision = 'bfloat16'", "'bf16'"),
        ("[[case]]\nmatch = 'a/b'\nrequired = true", "which no case's name can match"),
        ("[[case]]\nmatch = 'a[b'\nrequired = true", "which no case's name can match"),
        ("[[case]]\nmatch = []\nrequired = true", "case[0].match: found an empty list"),
        ("[[case]]\nmatch = 'a'", "nothing but `match`"),
        ("[[case]]\nmatch = 'a'\n[case.measure]\nfalse_fail = 0.1", "`false_fail` in [measure]"),
        ("[[case]]\nmatch = 'a'\n[case.measure]\ntests = 8", "`tests` in [measure]"),
        ("[metrics.x]\ndirection = 'lower'\nscale = 'absolute'\ngate = true", "a limit above 0"),
        ("[[parity]]\nmatch = 'a'", "a parity that demands nothing"),
        ("[[parity]]\nreference_parity = true\nmin_share = 0.1", "a share without `op_ratio`"),
        ("[[parity]]\nmatch = 'a'\npartner = 'a'\nop_ratio = 1.1", "found the case itself"),
        ("[[parity]]\nmatch = 'a'\npartner = '*'\nop_ratio = 1.1", "a * that stands for nothing"),
        ("[[parity]]\npartner = 'a b'\nop_ratio = 1.1", "which names no case"),
        ("[[parity]]\nop_ratio = 1.1\npartners = 'a'", "did you mean partner"),
        ("rules = 'training'\nrules = 'training'", "no TOML"),
    ],
)  # fmt: skip
def test_policy__that_cannot_be_meant_is_refused(text: str, words: str) -> None:
    """With the place, what was found, and what may stand there."""
    assert words in mistake(text)


DEEP = "a." * 6000
# Each is far below the limit of a policy's size.
BEYOND = {
    "a key of many names": (f"{DEEP}a = 1", "line 1: found more than 60 dots"),
    "a table of many names": (f"schema = 1\n[{DEEP}a]", "line 2: found more than 60 dots"),
    "names in quotes": ('"=".' * 6000 + "a = 1", "line 1: found more than 60 dots"),
    "a table within a line": (f"x = {{{DEEP}a = 1}}", "line 1: found more than 60 dots"),
    "open lists": ("a = " + "[" * 50_000, "no TOML"),
    "open tables": ("a = " + "{a=" * 50_000, "no TOML"),
    "deep lists": ("a = " + "[" * 40 + "]" * 40, "deeper than 32"),
    "deep tables": ("a = " + "{a=" * 100 + "1" + "}" * 100, "deeper than 32"),
    "a long number": ("schema = " + "1" * 5000, "no TOML"),
    "a long hexadecimal one": ("schema = 0x" + "f" * 5000, "a number of more than 64 bits"),
    "no text": ("schema = 1\n\x00", "no TOML"),
    "very many mistakes": ("[[case]]\n" * 12_000, "case[0].match: found"),
}


@pytest.mark.parametrize(("text", "words"), BEYOND.values(), ids=BEYOND)
def test_policy__beyond_a_limit_costs_nothing_and_is_refused(text: str, words: str) -> None:
    """A stranger's file is refused before it takes memory, and is no fault of ours."""
    tracemalloc.start()
    try:
        assert words in mistake(text)
        assert tracemalloc.get_traced_memory()[1] < 32e6
    finally:
        tracemalloc.stop()


def test_policy__of_windows_is_read() -> None:
    """Its editors put a mark in front."""
    assert read("\ufeffschema = 1\r\nrules = 'training'\r\n").rules == "training"


WRONG_FORM = """
rule = "training"
[measure]
timed_step = 3
[metrics.syncs]
fail = -1
[[case]]
match = "a"
required = true
metrics.mfu.fial = 0.1
[[case]]
required = true
"""
WRONG_MEANING = """
[metrics.mfu]
warn = 0.08
fail = 0.04
[budgets]
step_tims_ms = 3
[unjudged]
frist_run = "pass"
[model]
layers = 4
[[case]]
match = "ü"
required = true
[[parity]]
match = "a"
"""
ALL_MISTAKES = {
    WRONG_FORM: (
        "measure.timed_step: found a key",
        "metrics.syncs.fail: found -1",
        "case[0].metrics.mfu.fial: found a key",
        "case[1].match: found nothing",
        "rule: found a key",
    ),
    WRONG_MEANING: (
        "unjudged.frist_run: found a reason",
        "budgets.step_tims_ms: found a metric",
        "model: found no hidden",
        "case[0].match: found '\\xfc'",
        "parity[0]: found a parity that demands nothing",
        "metrics.mfu: found warn",
    ),
}


@pytest.mark.parametrize("text", ALL_MISTAKES, ids=["form", "meaning"])
def test_policy__tells_all_mistakes_at_once(here: Path, capsys: Out, text: str) -> None:
    """Each with its path, by `policy check` and where it is refused, and none twice."""
    places = ALL_MISTAKES[text]
    Path("policy.toml").write_text(text, encoding="utf-8")
    for command in (["policy", "check", "policy.toml"], ["policy", "show", "policy.toml"]):
        assert execute(command) == 2
        lines = capsys.readouterr().err.splitlines()
        for place in places:
            assert [line for line in lines if f"policy.toml: {place}" in line], place
        assert len(lines) == len(places)
    assert f"policy.toml: {len(places)} mistakes: {places[0]}" in mistake(text)


_PARTS = st.sampled_from(
    ["schema", "rules", "measure", "looks", "metrics", "mfu", "warn", "fail", "case", "match",
     "parity", "budgets", "model", "unjudged", "environment", "same_work", "", "a"]
)  # fmt: skip
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 3), st.floats(), st.dates(), _PARTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_PARTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_PARTS, _VALUES, max_size=6))
def test_policy__any_table_is_valid_or_refused(table: dict[str, Any]) -> None:
    """Whatever is wrong, and however much of it: with mistakes that have a place each."""
    with suppress(BadInputError):
        policy_of(table, "policy.toml")
    assert all(mistake.field for mistake in mistakes_in(table, "policy.toml"))


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("[[case]]\nmatch = ['a', 'b']\nrequired = true",
         "[[case]]\nmatch = ['b', 'a']\nrequired = true", "the same cases as case[0]"),
        ("[[parity]]\nmatch = 'a'\nop_ratio = 2",
         "[[parity]]\nmatch = 'a'\nop_ratio = 3", "the same cases and partner as parity[0]"),
        ("[metrics.hits]\ndirection = 'higher'",
         "[[case]]\nmatch = 'a'\n[case.metrics.hits]\ndirection = 'lower'", "as [metrics] says"),
        ("[[case]]\nmatch = 'a'\n[case.metrics.hits]\ndirection = 'higher'",
         "[[case]]\nmatch = 'b'\n[case.metrics.hits]\nfail = 0.1", "without a direction"),
    ],
)  # fmt: skip
def test_policy__tables_that_do_not_go_together(first: str, second: str, words: str) -> None:
    """Two tables of one meaning, and one that relies on another case's."""
    assert words in mistake(f"{first}\n{second}")


def test_limits__that_contradict_in_a_case_are_named_with_it() -> None:
    """The general warning and the case's fail are each in order by themselves."""
    text = """
        [metrics.mfu]
        warn = 0.04
        fail = 0.08
        [[case]]
        match = "a*"
        [case.metrics.mfu]
        fail = 0.03
    """
    assert "case[0].metrics.mfu: found warn = 0.04 beyond fail = 0.03" in mistake(text)


OVERLAPPING = """
    [[case]]
    match = "a*"
    [case.metrics.mfu]
    warn = 0.04
    fail = 0.08
    [[case]]
    match = "{}"
    [case.metrics.mfu]
    fail = 0.03
"""


def test_limits__of_tables_that_meet_in_a_name_are_refused() -> None:
    """A case that is named in full is known when the file is read."""
    assert "case[1].metrics.mfu: found warn = 0.04 beyond fail = 0.03" in mistake(
        OVERLAPPING.format("ab")
    )


def test_limits__of_tables_that_meet_in_a_case_are_refused_there() -> None:
    """Of two globs nobody knows before there is such a case."""
    policy = read(OVERLAPPING.format("*b"))
    assert limits(gate(policy, "mfu", "b"))[1] == 0.03
    with pytest.raises(WrongUseError, match=r"for the case ab: metrics\.mfu has warn = 0\.04"):
        rules_of(policy, "ab")


# --- the command --------------------------------------------------------------------------------


def disabled_lines(text: str) -> str:
    """The starter with the settings that it shows and leaves out."""
    return re.sub(r"^#(?=[\[a-z])", "", text, flags=re.MULTILINE)


def test_init__writes_what_is_in_order(here: Path, capsys: Out) -> None:
    """The starter is valid, has the training rules, and changes none of their defaults."""
    assert execute(["policy", "init"]) == 0
    assert execute(["policy", "check"]) == 0
    assert "training rules, 5 metrics gated" in capsys.readouterr().out
    assert read((here / ".github" / "ci-score.toml").read_text("utf-8")) == training()


def test_starter__its_other_settings_are_in_order() -> None:
    """Whoever takes a # away has a valid file."""
    policy = read(disabled_lines(STARTER))
    assert policy.model_fields_set == set(Policy.model_fields)
    assert len(policy.metrics) == 3


def test_init__does_not_overwrite(here: Path, capsys: Out) -> None:
    """Rules of a team are not lost to a command that was typed twice."""
    (here / "mine.toml").write_text("schema = 1", encoding="utf-8")
    assert execute(["policy", "init", "mine.toml"]) == 2
    assert "--force" in capsys.readouterr().err
    assert execute(["policy", "init", "mine.toml", "--force"]) == 0
    assert 'rules = "training"' in (here / "mine.toml").read_text("utf-8")


@pytest.mark.parametrize("command", ["check", "show"])
def test_policy__a_file_that_is_not_there(command: str, capsys: Out) -> None:
    """The way out is to write one."""
    assert execute(["policy", command, "gone.toml"]) == 2
    assert "`ci-score policy init` writes one" in capsys.readouterr().err


def test_show__without_a_file_shows_the_defaults(capsys: Out) -> None:
    """What holds for whoever has written nothing."""
    assert execute(["policy", "show"]) == 0
    said = capsys.readouterr().out
    assert "There is no .github/ci-score.toml" in said
    assert re.search(r"Step time +lower is better +beyond \+10 % +beyond \+20 %\n", said)


@pytest.fixture
def matrix(here: Path) -> None:
    """A policy of every kind of table."""
    (here / ".github").mkdir()
    text = disabled_lines(STARTER)
    (here / ".github" / "ci-score.toml").write_text(text, encoding="utf-8")


def test_show__has_a_block_for_whatever_the_file_names(matrix: None, capsys: Out) -> None:
    """The general part and each glob, with everything that holds for it."""
    assert execute(["policy", "show"]) == 0
    said = capsys.readouterr().out
    other, llama, mi300x, shadow, unjudged = said.split("\n\n")
    assert other.startswith("every other case\n")
    assert re.search(
        r"Throughput per device +higher is better +beyond −2 % +beyond −4 %, if", other
    )
    assert re.search(r"Graph breaks +lower is better +any worsening +any worsening\n", other)
    assert "Budget: Peak memory at most 76.0 GB" in other
    assert "a report without any slowdown fails: 0.5 %, shared by 8 tests" in other
    assert "`ci-score ab` looks after 8, 12, 24 pairs" in other
    assert "it exits 0" in shadow
    assert llama.startswith("llama-8b@*\n")
    assert "Required" in llama
    assert "Parity with *@h100: at most 1.25× the time per 1k tokens" in mi300x
    assert "block: first run, " in unjudged


def test_show__one_case_as_json(matrix: None, capsys: Out) -> None:
    """For scripts: every metric with its limits, and what is done without a judgement."""
    assert execute(["policy", "show", "--case", "llama-8b@mi300x", "--json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    rules = shown["cases"]["llama-8b@mi300x"]
    assert rules["metrics"]["tokenizer_ms"] == {
        "gate": True,
        "warn": 0.05,
        "fail": 0.1,
        "direction": "lower",
        "scale": "relative",
        "exact": False,
    }
    assert rules["parity"][0]["partner"] == "*@h100"
    assert shown["unjudged"]["first_run"] == "fail"
    assert {name for name, fate in shown["unjudged"].items() if fate == "pass"} == {
        reason.name.lower() for reason in HARMLESS if reason is not Unjudged.FIRST_RUN
    }


# --- the policy is the base's -------------------------------------------------------

STRICT = "[budgets]\nstep_time_ms = 50\n"
LOOSE = "[metrics.throughput_tok_s]\ngate = false\n[metrics.step_time_ms]\ngate = false\n"


def judged_on_github(scene: Scene, theirs: str | None, mine: str | None, slow: bool) -> Outcome:
    """A pull request with a checkout and a policy of its own, to a branch that has another."""
    if theirs is not None:
        scene.policy(theirs)
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW if slow else FAST)
    (scene.workspace / ".git").mkdir()
    if mine is not None:
        (scene.workspace / ".github").mkdir(parents=True)
        (scene.workspace / ".github" / "ci-score.toml").write_text(mine, encoding="utf-8")
    return on_pull_request(scene, pull)


@pytest.mark.parametrize("theirs", [None, "", "[measure]\nwarmup_steps = 1\n"])
def test_travel__a_pull_request_cannot_loosen_its_own_gate(
    scene: Scene, theirs: str | None
) -> None:
    """Also where the branch has no file yet: then the defaults hold."""
    done = judged_on_github(scene, theirs, LOOSE, slow=True)
    assert done.code == 1
    assert "The policy of the base judges" in done.summary
    assert "under its own the verdict would be pass" in done.summary


def test_travel__a_pull_request_cannot_tighten_it_either_before_it_is_merged(
    scene: Scene,
) -> None:
    """What it would do is said, so that whoever merges it knows."""
    done = judged_on_github(scene, None, STRICT, slow=False)
    assert done.code == 0
    assert "under its own the verdict would be fail" in done.summary


def test_travel__the_branch_s_rules_judge_where_the_pull_request_has_none(scene: Scene) -> None:
    """A file that was deleted is a change of the policy, too."""
    done = judged_on_github(scene, STRICT, None, slow=False)
    assert done.code == 1
    assert "is over its budget of 50.0 ms" in done.summary
    assert "under its own the verdict would be pass" in done.summary


def test_travel__the_same_rules_in_other_words_are_no_change(scene: Scene) -> None:
    """A comment, an order of tables or a default that is written out says nothing new."""
    mine = f"schema = 1\n{STRICT}[measure]\nfalse_fail = 0.005\n"
    done = judged_on_github(scene, STRICT, mine, slow=False)
    assert "policy was changed" not in done.summary


def test_travel__rules_of_its_own_that_cannot_be_used_are_named(scene: Scene) -> None:
    """A gate on what nobody measures is found before it is merged."""
    done = judged_on_github(scene, None, "[metrics.recompiles]\ngate = true\n", slow=False)
    assert done.code == 0
    assert "its own cannot be used (the policy gates recompiles" in done.summary


def test_travel__a_broken_file_of_its_own_is_wrong_use(scene: Scene) -> None:
    """Merged, it would judge nobody."""
    assert judged_on_github(scene, None, "[metric]", slow=False).code == 2


def test_travel__the_record_of_a_branch_holds_the_rules_it_was_judged_by(here: Path) -> None:
    """As they were written, so that the next pull request is judged by them."""
    (here / ".github").mkdir()
    (here / ".github" / "ci-score.toml").write_text(STRICT, encoding="utf-8")
    (here / "profiles").mkdir()
    (here / "profiles" / "p.json").write_text(profile(10.0).model_dump_json(), encoding="utf-8")
    assert execute(["run"]) == 0
    record = Record.model_validate_json((here / "ci-score" / "ci-score.json").read_bytes())
    assert record.policy == {"budgets": {"step_time_ms": 50}}


def test_environment__a_key_that_need_not_match_does_not_hide_a_baseline(here: Path) -> None:
    """The store is asked for what the policy wants to be the same, and for no more."""
    (here / ".github").mkdir()
    policy = here / ".github" / "ci-score.toml"
    (here / "profiles").mkdir()
    for accelerator, expected in (("NVIDIA L4", 0), ("NVIDIA A10G", 3)):
        measured = profile(10.0, accelerator=accelerator).model_dump_json()
        (here / "profiles" / "p.json").write_text(measured, encoding="utf-8")
        assert execute(["run"]) == expected
    policy.write_text('[environment]\nmatch = ["precision"]', encoding="utf-8")
    base = here / "ci-score" / "baselines"
    for later in sorted(base.iterdir())[1:]:
        later.unlink()
    assert execute(["run"]) == 0
    record = Record.model_validate_json((here / "ci-score" / "ci-score.json").read_bytes())
    assert record.cases[0].baseline is not None


# --- what is gated has to be measured -----------------------------------------------------------


def test_gates__on_what_no_case_of_a_table_measures_are_wrong_use(here: Path, capsys: Out) -> None:
    """Another case that measures it does not make the table's gate one."""
    lines = [
        {"schema": 1, "case": "a", "step_ms": [10.0], "metrics": {"recompiles": 0}},
        {"schema": 1, "case": "b", "step_ms": [10.0]},
    ]
    (here / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines), "utf-8")
    (here / ".github").mkdir()
    policy = here / ".github" / "ci-score.toml"
    call = ["run", "--profiles", "none", "--measurements", "m.jsonl"]
    policy.write_text("[metrics.recompiles]\ngate = true", encoding="utf-8")
    assert execute(call) == 0
    policy.write_text("[[case]]\nmatch = 'b'\n[case.metrics.recompiles]\ngate = true", "utf-8")
    assert execute(call) == 2
    assert "the policy gates recompiles, which the case b lacks" in capsys.readouterr().err


# --- metrics of one's own, in a report ----------------------------------------------------------


def test_metric__of_the_user_s_own_is_shown_as_the_policy_describes_it() -> None:
    """In its unit, on its scale, and with the limit on the side that is worse."""
    policy = training("""
        [metrics.hits]
        direction = "higher"
        fail = 0.1
        exact = true
        [metrics.tokenizer_ms]
        direction = "lower"
        scale = "absolute"
        unit = "ms"
        fail = 3
        exact = true
    """)
    base = case(metrics={"hits": 10.0, "tokenizer_ms": 8.0})
    head = case(metrics={"hits": 8.0, "tokenizer_ms": 12.0})
    verdict = judged_case(head, found(base), policy).verdict
    assert verdict is not None
    assert verdict.outcome is VerdictOutcome.FAIL
    changes = {one.metric: one for one in judged_case(head, found(base), policy).changes}
    hits, tokenizer = changes["hits"], changes["tokenizer_ms"]
    assert describe(tokenizer) == "tokenizer_ms +4.00 ms (8.00 → 12.0 ms)"
    assert limit(tokenizer) == "+3.00 ms warns, +3.00 ms fails"
    assert describe(hits) == "hits −20 % (10.0 → 8.00)"
    assert limit(hits) == "−5 % warns, −10 % fails"


@pytest.mark.parametrize(
    ("same_work", "outcome"), [('["tokens_per_step"]', "inconclusive"), ("[]", "pass")]
)
def test_environment__tokens_per_step_need_not_be_the_same(same_work: str, outcome: str) -> None:
    """Where the policy does not ask for it, a step of another size is compared per token."""
    policy = read(f"[environment]\nsame_work = {same_work}")
    base = case(card=scorecard(100.0, 1000.0), tokens_per_step=100.0)
    head = case(card=scorecard(200.0, 1000.0), tokens_per_step=200.0)
    verdict = judged_case(head, found(base), policy).verdict
    assert verdict is not None
    assert verdict.outcome == outcome

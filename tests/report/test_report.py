"""The texts that people read, whole, as golden files; `make golden` rewrites them for review."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hosts import Call, host_trace, usual
from ci_score import compute_parity, parity_markdown, scorecard_markdown
from ci_score.compare import Workload, measured_case
from ci_score.judge.acceptance import sentences, settle
from ci_score.judge.policy import policy_of
from ci_score.model.environment import AskedOption, Environment
from ci_score.model.explanation import Explanation
from ci_score.model.profile import Layer, OpOrigin
from ci_score.model.reasons import Why
from ci_score.model.record import BaselineUsed, Judged
from ci_score.model.stages import BaselineFound, BaselineMissing, CaseInput
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict, unjudged
from ci_score.report import render, reproducing
from ci_score.report.headlines import headline, worst_first
from ci_score.report.markdown import report_markdown
from ci_score.report.numbers import delta_at
from ci_score.report.screen import Screen
from ci_score.report.terminal import parity_text, report_text
from ci_score.report.words import where_it_went
from ci_score.traces import ProfileSource, read_profile
from tests.builders import case, found, on, profile, record, runtime, scorecard
from tests.builders.code_shown import of_memory, slower_code, touched, with_code
from tests.builders.reports import HOSTILE, demo, hostile, matrix, ungraded
from tests.builders.showcase import slow_pull_request
from tests.builders.states import of_peaks
from tests.builders.verdicts import Saying, judged_case

GOLDEN = Path(__file__).parents[1] / "golden"


PARITY = compute_parity(
    runtime("ours", gemm=2.0, norm=1.0, mine=3.0), runtime("theirs", gemm=1.0, norm=1.0)
)
VACUOUS = compute_parity(runtime("ours", qkv=1.0), runtime(HOSTILE, attention=1.0))

TEXTS: dict[str, Callable[[], str]] = {
    "demo.md": lambda: report_markdown(demo()),
    "demo.txt": lambda: report_text(demo()),
    "demo.reference.md": lambda: scorecard_markdown(demo().cases[0].scorecard),
    "matrix.md": lambda: report_markdown(matrix(), title="nightly"),
    "matrix.txt": lambda: report_text(matrix()),
    "matrix-80.txt": lambda: report_text(matrix(), Screen(80)),
    "pairs-60.txt": lambda: report_text(slow_pull_request(), Screen(60)),
    "pairs-80.txt": lambda: report_text(slow_pull_request(), Screen(80)),
    "code.md": lambda: report_markdown(slower_code(touched())),
    "code-80.txt": lambda: report_text(slower_code(touched()), Screen(80), whole=True),
    "memory.md": lambda: report_markdown(with_code(of_peaks(), of_memory())),
    "memory.txt": lambda: report_text(with_code(of_peaks(), of_memory())),
    "hostile.md": lambda: report_markdown(hostile()),
    "hostile.txt": lambda: report_text(hostile()),
    "ungraded.md": lambda: report_markdown(ungraded()),
    "parity.txt": lambda: parity_text(PARITY),
    "parity.reference.md": lambda: parity_markdown(PARITY),
    "parity-vacuous.txt": lambda: parity_text(VACUOUS),
}


@pytest.mark.parametrize("name", TEXTS)
def test_report__golden(name: str) -> None:
    """The whole text, as a person reviewed it."""
    text = TEXTS[name]()
    if os.environ.get("CI_SCORE_WRITE_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_report__golden_files_are_all_used() -> None:
    """No text is left over from a renderer that is gone."""
    assert {path.name for path in GOLDEN.iterdir()} == set(TEXTS)


def test_report__the_worst_case_comes_first() -> None:
    """A reader of the first lines has read the verdict of the report."""
    lines = report_markdown(matrix()).splitlines()
    assert lines[0].startswith("### ❌ ")
    order = [line for line in lines if "<code>" in line]
    names = [line.split("<code>")[1].split("</code>")[0] for line in order]
    assert names == ["fails", "unjudged@l4", "warns"]
    assert lines.index("<details><summary>1 case passes</summary>") > lines.index(order[-1])


def test_report__is_short_before_the_folds() -> None:
    """Under 25 lines until the first fold of a single case."""
    assert report_markdown(demo()).split("<details>")[0].count("\n") < 25


# --- what is there to copy ----------------------------------------------------------------------


def failing(metric: str, base: float, head: float, delta: float, **fields: Any) -> Change:
    return Change(
        metric=metric, base=base, head=head, delta=delta, gated=True, outcome=Outcome.FAIL, **fields
    )


def test_how_to_accept__a_line_for_each_metric_that_counts() -> None:
    """Whoever copies them and gives a reason has accepted all that fails, and nothing else."""
    every = (
        failing("throughput_tok_s", 1000.0, 769.0, -0.231),
        failing("step_time_ms", 100.0, 130.0, 0.30),
        failing("peak_memory_gb", 40.0, 40.04, 0.001),
        failing("kernel_launches_per_step", 12_980.0, 13_984.0, 0.0774),
        failing("device_idle_share", 0.1, 0.2, 0.1),
        failing("recompiles", 0.0, 2.0, 2.0),
        failing("loader_ms", 10.0, 20.37, 10.37, relative=False),
        Change(metric="mfu", base=0.4, head=0.3, delta=-0.25, outcome=Outcome.WARN),
    )
    shown = reproducing.acceptance_line(case("llama@h100", changes=every))
    assert [line.split(" up to ")[1] for line in shown.splitlines()] == [
        "34 % because <reason>",
        "1 % because <reason>",
        "9 % because <reason>",
        "11 points because <reason>",
        "2 because <reason>",
        "21.407 ms because <reason>",
    ]
    gates = {change.metric: {"warn": 0.01, "fail": 0.02} for change in every[:5]}
    policy = policy_of(
        {
            "metrics": {
                **gates,
                "recompiles": {"warn": 0, "fail": 0},
                "loader_ms": {"warn": 1, "fail": 2, "direction": "lower", "scale": "absolute"},
            }
        },
        "the policy",
    )
    failed = Verdict(outcome=Outcome.FAIL)
    cases = [case("llama@h100", verdict=failed)]
    saying = Saying(shown.replace("<reason>", "the fix costs it"))
    settled = settle(saying, policy.policy, cases, ())
    assert settled.refused == ()
    # The sentence on the step's time covers its throughput, too.
    assert {one.metric for one in settled.granted} == {
        change.metric for change in every[1:] if change.outcome is Outcome.FAIL
    }
    assert all(sentences(line)[0].wrong is None for line in shown.splitlines())


def test_how_to_accept__what_no_bound_can_say_is_not_offered() -> None:
    """Where more of an absolute number is better, `up to` means nothing."""
    change = failing("accuracy", 0.9, 0.5, -0.4, relative=False, higher_is_better=True)
    assert reproducing.acceptance_line(case(changes=(change,))) == ""


OUT = "x\n```\n# Approved by @security\r~~~\n</pre>$(true) '\";"


def test_fences__cannot_be_left() -> None:
    """Whatever a metric, a commit or an option is called, it stays on its own line."""
    asked = (
        AskedOption(option="--head-env", value=OUT),
        AskedOption(option="--setup", value=OUT),
        AskedOption(option="--base", value=OUT),
    )
    for of_session in (False, True):
        one = case(
            environment=Environment(asked=asked),
            baseline=BaselineUsed(source=OUT, commit=OUT, of_session=of_session),
            changes=(failing(OUT, 1.0, 2.0, 1.0, unit=OUT), failing("loader_ms", 1.0, 2.0, 1.0)),
            verdict=Verdict(outcome=Outcome.FAIL),
        )
        text = report_markdown(record(one))
        assert "ci-score ab --base" in text
        assert not re.search(r"^(# Approved|~~~)", text, re.MULTILINE)
        fences = re.findall(r"^```.*", text, re.MULTILINE)
        assert fences == ["```sh", "```", "```text", "```"]
        assert len(re.findall(r"^ci-score accept .*", text, re.MULTILINE)) == 1


def test_fences__are_ready_to_copy() -> None:
    """What breaks a mention in running text would break a command; code has no markup to escape."""
    text = report_markdown(demo()) + report_markdown(matrix())
    fences = text.split("```")[1::2]
    assert any("--case llm-1b@l4 -- " in fence for fence in fences)
    assert not any("\u200b" in fence or "\\" in fence for fence in fences)
    assert "measured side by side (`ci-score ab`)." in text


# --- several cases ------------------------------------------------------------------------------


def slower(name: str, step_ms: float) -> Judged:
    base = found(case(environment=on("L4", 1)))
    card = scorecard(step_ms, 100_000 / step_ms)
    return judged_case(case(name, card, environment=on("L4", 1)), base)


def test_report__of_several_cases_the_slowest_is_named_first() -> None:
    """Of equally bad ones, whatever the order in which they were measured."""
    made = record(slower("a@l4", 125.0), slower("b", 101.0), slower("m09@l4", 150.0))
    assert [case.name for case in worst_first(made)] == ["m09@l4", "a@l4", "b"]
    said = headline(made)
    assert said.startswith("Fail: 2 of 3 cases, worst: 'm09@l4' is 50 % slower · 100 → 150 ms/step")
    assert "| Case | | Time | Why |" in report_markdown(made)


def test_report__several_cases_that_pass_say_so() -> None:
    """The sentence of one case is not said of all."""
    made = record(slower("a", 100.0), slower("b", 104.0))
    assert headline(made).startswith("Pass: all 2 cases, slowest: 'b' is 4 % slower")


def test_report__the_changes_of_cases_are_all_told_as_time() -> None:
    """A column of mixed metrics would be read as one: a throughput is told as time, too."""
    step_only = judged_case(
        case("a", scorecard(130.0, 0.0), environment=on("L4", 1)),
        found(case(environment=on("L4", 1))),
    )
    text = report_markdown(record(step_only, slower("b", 150.0)))
    assert "| Case | | Time | Why |" in text
    assert "| `a` | ❌ Fail | +30\u00a0% |" in text
    assert "| `b` | ❌ Fail | +50\u00a0% |" in text


@pytest.mark.parametrize(
    ("value", "places", "shown"),
    [
        (0.013, 1, "0.0 ms"),
        (-0.06, 1, "−0.1 ms"),
        (1234.5, 0, "+1,234 ms"),
        (0.02, None, "+0.0200 ms"),
    ],
)
def test_delta_at__has_the_digits_of_its_table(
    value: float, places: int | None, shown: str
) -> None:
    """What the largest change does not show is no digit of the smallest either."""
    assert delta_at(value, places) == shown


def test_terminal__no_verdict_is_cut() -> None:
    """The longest that a change can say fits into its column."""
    change = Change(
        metric="step_time_ms", base=100.0, head=110.0, delta=0.1, low=0.081, high=0.1234,
        gated=True, warn_limit=0.03, fail_limit=0.05, outcome=Outcome.WARN,
        reasons=(Why.ONE_NUMBER(),),
    )  # fmt: skip
    text = report_text(record(case(changes=(change,))))
    assert "+10 % (+8.1 to +12 %) ⚠ warning (could be noise)" in text


def test_report__several_cases_of_which_some_are_not_judged() -> None:
    """It is said first, as it is of a single case, and once."""
    mismatch = Why.MISMATCH(key="accelerator", here="L4", there="T4")
    missing = BaselineMissing(Unjudged.ENVIRONMENT_CHANGED, mismatch)
    made = record(judged_case(case("x@l4", environment=on("L4")), missing), slower("b", 100.0))
    assert headline(made) == ("Not judged: 1 of 2 cases: 'x@l4', ran on L4, baseline is T4")


def test_report__says_what_a_word_means_where_it_is_used() -> None:
    """Under the table, and only of the words that are in it."""
    mfu = Change(metric="mfu", base=0.4, head=0.3, delta=-0.25)
    with_mfu = report_markdown(record(case(changes=(mfu,)))).split("<details>")[0]
    assert "<sub>MFU: the FLOPs that the model needs" in with_mfu
    assert "HFU" not in with_mfu
    assert "Roofline: the throughput that" in report_markdown(record(case()))
    assert "FLOPs" not in report_markdown(demo())


def test_report__without_a_judgement_of_its_own_says_what_would_give_one() -> None:
    """A lost case is named, with what brings it back or lets it go."""
    lost = unjudged(
        Unjudged.KNOWN_CASE_MISSING,
        Why.CASE_MISSING(case="llama"),
        Why.BASELINE_HAS_CASE(case="llama"),
    )
    told = record(case("other"), unjudged=lost)
    for text in (report_markdown(told), report_text(told)):
        assert "The baseline also has the case llama" in text
        assert "What would give a verdict" in text
        assert "missing because" in text


@pytest.mark.parametrize("style", ["markdown", "html", "terminal"])
def test_report__names_an_op_with_where_it_comes_from(style: str) -> None:
    """The module and the operator stand before the short name; all three are a stranger's text."""
    kernel = "void at::native::softmax_warp_forward<float, 10>(float*)"
    origins = {kernel: OpOrigin(op=f"aten::{HOSTILE}", module="Attention")}
    layer = {"layer": 0, "fwd_ms": 1, "bwd_ms": 2, "ops": {kernel: 4.0}}
    of_kernel = profile(per_layer=[layer], op_origins=origins)
    read = measured_case(CaseInput("training", of_kernel), Workload())
    text = render(record(Judged.of(read)), style)
    assert "softmax_warp_forward<float, 10>" in html.unescape(text)
    assert "Attention · aten::" in text
    # The page has the full name below the short one.
    assert ("at::native" in text) == (style == "html")
    assert "<img" not in text or style != "html"


def test_report__has_no_runtime_s_name_in_a_title_of_html() -> None:
    """What stands between `<summary>` tags is HTML, where no escape of markdown counts."""
    nameless = compute_parity(runtime("ours", gemm=1.0), runtime(HOSTILE))
    assert "<img" in str(nameless.unjudged_reason)
    text = report_markdown(record(case(parity=nameless)))
    titles = [line for line in text.splitlines() if "<summary>" in line]
    assert titles
    assert not [title for title in titles if "img" in title]
    assert "**Parity: not judged, " in text
    assert "\\<img src=x\\>" in text


@pytest.mark.parametrize("proven", [True, False])
def test_report__warns_of_a_profile_that_contradicts_the_measurement(proven: bool) -> None:
    """A profiled step that is no longer than the base's cannot say where a proven slowdown went."""
    slow = failing("step_time_ms", 14.4, 23.8, 0.653, slower=proven)
    steps = {"basis": "host", "under_profiler": True, "base_step_ms": 31.8, "head_step_ms": 27.8}
    words = where_it_went(case(changes=[slow]), Explanation.model_validate({**steps, "parts": []}))
    assert ("trust only the counts" in words) is proven


def test_report__warns_of_a_profile_that_contradicts_what_is_not_clear() -> None:
    """A step that seems slower is not explained by a profiled one that is no longer."""
    unclear = failing("step_time_ms", 87.2, 118.0, 0.35).but(outcome=Outcome.INCONCLUSIVE)
    steps = {"basis": "host", "under_profiler": True, "base_step_ms": 105.0, "head_step_ms": 95.6}
    explanation = Explanation.model_validate({**steps, "parts": []})
    assert "seems slower, so trust only the counts" in where_it_went(
        case(changes=[unclear]), explanation
    )
    faster = unclear.but(delta=-0.05, head=83.0)
    assert "trust" not in where_it_went(case(changes=[faster]), explanation)


@pytest.mark.parametrize(("head_ms", "is_far"), [(290.0, False), (445.0, True)])
def test_report__warns_of_a_profile_of_a_far_larger_change(head_ms: float, is_far: bool) -> None:
    """Somebody disturbed the one launch that was profiled."""
    slow = failing("step_time_ms", 262.0, 290.0, 0.107)
    steps = {
        "basis": "host",
        "under_profiler": True,
        "base_step_ms": 233.0,
        "head_step_ms": head_ms,
    }
    words = where_it_went(case(changes=[slow]), Explanation.model_validate({**steps, "parts": []}))
    assert ("measured was +11 %, so trust only the counts" in words) is is_far


@pytest.mark.parametrize("style", ["terminal", "markdown", "html"])
def test_report__of_a_cpu_speaks_of_what_a_cpu_has(style: str) -> None:
    """It has no roofline, no accelerators to count and no kernels; its operators are called."""
    slow = usual()
    slow.before_layer = [Call("aten::clone", 3000.0)]
    traces = [ProfileSource("a.json", data=host_trace(model)) for model in (slow, usual())]
    head, base = (
        measured_case(CaseInput("training", read_profile(trace)), Workload(tokens_per_step=64))
        for trace in traces
    )
    changed = judged_case(head, BaselineFound(base, BaselineUsed(source="run 1")))
    told = shown(changed, style)
    for word in (
        "bandwidth",
        "roofline",
        "There are no layers",
        "accelerators",
        "kernel",
        "launched",
    ):
        assert word not in told
    assert "calls" in told.lower()
    assert "no work of a device: times are those of the host" in told


def shown(judged: Judged, style: str) -> str:
    """What a person reads of a report."""
    text = html.unescape(render(record(judged), style))
    return re.sub(r"<(style|script)\b.*?</\1>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize(("ops", "is_named"), [({}, False), ({"gemm": 1.0}, True)])
def test_report__names_the_largest_op_of_a_layer_where_one_is_known(
    ops: dict[str, float], is_named: bool
) -> None:
    """Of a layer of which only the host's time is known no share can be told."""
    layers = tuple(Layer(layer=n, fwd_ms=1.0, bwd_ms=2.0, ops=ops) for n in range(2))
    read = CaseInput("training", profile().but(per_layer=layers))
    judged = Judged.of(measured_case(read, Workload()))
    text = shown(judged, "markdown")
    assert ("Top op" in text, "Largest op" in shown(judged, "html")) == (is_named, is_named)
    assert ("| 0 | 1.00 ms | 2.00 ms | 2.00 |\n" in text) is not is_named


@pytest.mark.parametrize("style", ["markdown", "html"])
def test_report__calls_kernels_that_repeat_repeats(style: str) -> None:
    """They may be no layers of the program; and the share of kernel time is said of both."""
    of_kernels = profile().but(layers_are="repeats", layers_share=0.774)
    read = measured_case(CaseInput("training", of_kernels), Workload())
    text = render(record(Judged.of(read)), style)
    assert "Repeats (77 % of kernel time)" in text
    assert "Layer<" not in text
    assert "| Layer |" not in text

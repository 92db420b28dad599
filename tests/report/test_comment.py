"""What stands below the first line of a comment: links, bars, ops, decisions, and many cases."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ci_score.model.environment import AskedOption, Environment
from ci_score.model.explanation import Explanation, OpChange, Part
from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.model.reasons import Why
from ci_score.model.record import (
    BaselineUsed,
    Judged,
    Record,
    RunIdentity,
)
from ci_score.model.verdict import Change, JudgedBy, Outcome, Unjudged, Verdict
from ci_score.report import reproducing, rows
from ci_score.report.markdown import report_markdown
from ci_score.report.terminal import report_text
from tests.builders import case, record
from tests.builders.reports import HOSTILE

REPOSITORY = "https://github.com/octo/train"
PAGE = f"{REPOSITORY}/actions/runs/70/artifacts/5"
HEAD, BASE = "9a41d7e" + "0" * 33, "1f0c2a9" + "0" * 33
LIMIT = 65_000


def change(
    metric: str = STEP_TIME, base: float = 100.0, head: float = 130.0, **more: Any
) -> Change:
    fields: dict[str, Any] = {
        "delta": head / base - 1,
        "gated": True,
        "warn_limit": 0.05,
        "fail_limit": 0.10,
        "judged_by": JudgedBy.ONE_NUMBER,
        "outcome": Outcome.FAIL,
    }
    return Change(metric=metric, base=base, head=head, **{**fields, **more})


def judged(name: str, *changes: Change, **fields: Any) -> Judged:
    outcome = Outcome.worst([one.outcome for one in changes if one.outcome])
    return case(name, changes=changes, verdict=Verdict(outcome=outcome), **fields)


def passing(name: str) -> Judged:
    return judged(name, change(head=100.0, outcome=Outcome.PASS))


def op(name: str, kind: str, base_ms: float, head_ms: float) -> OpChange:
    return OpChange(
        name=name, kind=kind, base_ms=base_ms, head_ms=head_ms, base_count=7.0, head_count=7.0,
        by_count_ms=0.0, by_time_ms=head_ms - base_ms,
    )  # fmt: skip


def explanation(parts: dict[str, tuple[float, float]], *ops: OpChange) -> Explanation:
    listed = [Part(name=name, base_ms=base, head_ms=head) for name, (base, head) in parts.items()]
    base, head = (sum(times[side] for times in parts.values()) for side in (0, 1))
    return Explanation(basis="device", base_step_ms=base, head_step_ms=head, parts=listed, ops=ops)


def opened(made: Record) -> str:
    """What stands before the first fold."""
    return report_markdown(made).split("<details")[0]


# --- links ---------------------------------------------------------------------------------------


def test_links__lead_to_report_run_and_both_commits() -> None:
    """Each by numbers and hashes of the record, below its own repository."""
    run = RunIdentity(number=917, id=69)
    used = BaselineUsed(source="a run", commit=BASE, run=run, commits_away=0)
    made = record(
        judged("llama", change(), baseline=used), repository=REPOSITORY, page=PAGE, commit=HEAD,
        run=RunIdentity(number=918, id=70),
    )  # fmt: skip
    assert opened(made).splitlines()[2] == (
        f"[Report]({PAGE}) · [This run]({REPOSITORY}/actions/runs/70)"
        f" · head [`9a41d7e`]({REPOSITORY}/commit/{HEAD})"
        f" · base [`1f0c2a9`]({REPOSITORY}/commit/{BASE})"
        f" ([run 917]({REPOSITORY}/actions/runs/69))"
    )


def test_links__that_are_not_known_are_plain() -> None:
    """Without a repository a commit is a code span; what no commit is, is only text."""
    used = BaselineUsed(source="a file", commit=HOSTILE)
    made = record(judged("llama", change(), baseline=used), commit=HEAD)
    line = opened(made).splitlines()[2]
    assert line.startswith("head `9a41d7e` · base ``a|b`c")
    assert "](" not in line


@pytest.mark.parametrize(
    ("told", "shown"),
    [(BASE, " · base `1f0c2a9`"), (BASE[:12], " · base `1f0c2a9`"), (HOSTILE, ""), ("main", "")],
)
def test_links__the_base_of_a_session_is_named_as_it_says_and_linked_nowhere(
    told: str, shown: str
) -> None:
    """The measuring job told it, and nobody has checked it; what is no commit is not repeated."""
    asked = (AskedOption(option="--base", value=told),)
    used = BaselineUsed(source="the base side of the same measurements", of_session=True)
    one = judged("llama", change(), baseline=used, environment=Environment(asked=asked))
    made = record(one, commit=HEAD, repository=REPOSITORY)
    assert opened(made).splitlines()[2] == (f"head [`9a41d7e`]({REPOSITORY}/commit/{HEAD}){shown}")


def test_links__of_cases_with_other_baselines_name_none_for_all() -> None:
    """A line about the report says nothing that holds for some cases."""
    cases = [
        judged(name, change(), baseline=BaselineUsed(source="a run", commit=commit))
        for name, commit in (("a", BASE), ("b", HEAD))
    ]
    assert "base `" not in opened(record(*cases))


# --- where the time went -------------------------------------------------------------------------


def test_bars__are_sorted_and_stand_at_the_end_of_their_lines() -> None:
    """The longest has twelve blocks, and a part that took less light ones."""
    found = explanation(
        {"idle": (10.0, 12.2), "compute": (50.0, 68.3), "exposed communication": (17.7, 34.4),
         "exposed copies": (9.0, 4.0), "the rest": (0.1, 0.1)}
    )  # fmt: skip
    text = opened(record(judged("llama", change(), explanation=found)))
    assert text.split("```text\n")[1].split("\n```")[0].splitlines() == [
        "compute                +18.3 ms  ████████████",
        "exposed communication  +16.7 ms  ███████████",
        "exposed copies          −5.0 ms  ░░░",
        "idle                    +2.2 ms  █",
    ]


def test_bars__of_a_hostile_name_end_no_code_block() -> None:
    """A phase has a stranger's name, on a line that is never only backticks."""
    found = explanation({"```": (1.0, 90.0), "::error::\n## x": (1.0, 60.0)})
    text = opened(record(judged("llama", change(), explanation=found)))
    block = text.split("```text\n")[1]
    assert re.match(r"```  +\+89\.0 ms  █+\n: :error:: ## x +\+59\.0 ms  █+\n```\n", block), block


def test_failure__that_is_not_about_time_has_no_bars() -> None:
    """A memory that grew is not explained by where no time went."""
    found = explanation({"compute": (50.0, 50.0)}, op("gemm", "gemm", 50.0, 50.0))
    memory = change("peak_memory_gb", 40.0, 48.0, judged_by=JudgedBy.EXACT)
    same = change(head=100.0, outcome=Outcome.PASS)
    text = opened(record(judged("llama", memory, same, explanation=found)))
    assert "Where the" not in text
    assert "0 ms |" not in text
    assert "| Peak memory | 40.0\u00a0GB | 48.0\u00a0GB | +20\u00a0% | ❌\u00a0fails |" in text


def test_ops__that_explain_most_come_from_parts_that_changed() -> None:
    """An all-reduce that compute hides explains nothing, however much longer it takes."""
    ops = (
        op("ncclAllReduce", "comm", 20.0, 60.0),
        op("gemm", "gemm", 50.0, 70.0),
        op("norm", "norm", 5.0, 9.0),
        op("copy", "memcpy", 1.0, 30.0),
        op("softmax", "softmax_loss", 5.0, 8.0),
        op("faster", "gemm", 9.0, 1.0),
        op("small", "norm", 1.0, 1.5),
    )
    hidden = explanation(
        {
            "compute": (60.0, 85.0),
            "exposed communication": (5.0, 5.0),
            "exposed copies": (0.0, 0.0),
        },
        *ops,
    )
    assert [one.name for one in rows.explaining_ops(hidden)] == ["gemm", "norm", "softmax"]
    exposed = explanation({"compute": (60.0, 65.0), "exposed communication": (5.0, 35.0)}, *ops)
    assert [one.name for one in rows.explaining_ops(exposed)][:1] == ["ncclAllReduce"]
    text = opened(record(judged("llama", change(), explanation=hidden)))
    assert "| `gemm` | 50.0 ms | 70.0 ms | +20.0 ms | 7 → 7 |" in text
    assert "ncclAllReduce" not in text


def test_ops__that_would_be_called_alike_are_told_apart() -> None:
    """The comment and the terminal say what the page says, and not the same name twice."""
    names = [f"Kernel<{'a, ' * 40}{word}, {'b, ' * 40}1>" for word in ("half", "float")]
    ops = [op(name, "gemm", 50.0, 70.0 + place) for place, name in enumerate(names)]
    found = explanation({"compute": (100.0, 141.0)}, *ops)
    made = record(judged("llama", change(), explanation=found))
    for text in (opened(made), report_text(made)):
        assert text.count(" [half]") == 1
        assert text.count(" [float]") == 1


# --- decisions -----------------------------------------------------------------------------------


def test_decision__of_a_step_and_its_throughput_is_one_row() -> None:
    """The stricter limit decides and is named, and one sentence accepts both."""
    throughput = change(
        THROUGHPUT, 1000.0, 1000 / 1.3, warn_limit=0.03, fail_limit=0.05,
        reasons=(Why.PROVEN_BEYOND(delta=-0.2),),
    )  # fmt: skip
    one = judged("llama", throughput, change(reasons=(Why.PROVEN_BEYOND(delta=0.25),)))
    (row,) = rows.metric_rows(one)
    assert (row.label, row.base, row.head, row.change) == ("Step time", "100 ms", "130 ms", "+30 %")
    assert row.limit == "+3.1 % warns, +5.3 % fails (throughput −3 %, −5 %)"
    assert reproducing.acceptance_line(one) == (
        "ci-score accept llama step_time_ms up to 33 % because <reason>"
    )
    # That it is proven is told by the interval beside the limit.
    assert [*rows.reasons(one)] == []


def test_decision__of_other_work_is_a_row_each() -> None:
    """A step of other tokens and its throughput tell two things."""
    one = judged("llama", change(THROUGHPUT, 1000.0, 900.0), change())
    assert [row.label for row in rows.metric_rows(one)] == ["Throughput per device", "Step time"]
    assert len(reproducing.acceptance_line(one).splitlines()) == 2


def test_decision__what_has_no_limit_is_in_the_fold() -> None:
    """Under "Not judged", with what nobody measured left out; what fails stands first."""
    free = {"gated": False, "outcome": None, "judged_by": None}
    one = judged(
        "llama", change(head=100.0, outcome=Outcome.PASS), change("mfu", 0.4, 0.3, **free),
        change("peak_memory_gb", 40.0, 48.0),
        Change(metric="hfu", base=0.0, head=0.0),
    )  # fmt: skip
    text = report_markdown(record(one))
    before, fold = text.split("<summary>Everything else</summary>")
    assert re.findall(r"^\| ([A-Z][a-z ]+) \|", before, re.MULTILINE) == [
        "Peak memory", "Step time"
    ]  # fmt: skip
    assert "**Not judged**" in fold
    assert "| MFU | 40.0\u00a0% | 30.0\u00a0% | −25\u00a0% |" in fold
    assert "| HFU |" not in fold
    assert text.count("<details>") == 2


def test_decision__of_what_is_not_compared_has_no_row() -> None:
    """Numbers of another machine are in the fold, where nobody takes them for a slowdown."""
    verdict = Verdict(
        outcome=Outcome.INCONCLUSIVE,
        unjudged=Unjudged.ENVIRONMENT_CHANGED,
        decided_by=Why.NO_BASELINE(why="environment_changed"),
    )
    one = case("llama", changes=(change(outcome=None, gated=False),), verdict=verdict)
    before, fold = report_markdown(record(one)).split("<summary>Everything else</summary>")
    assert "+30" not in before
    assert "| Step time | 100\u00a0ms | 130\u00a0ms | +30\u00a0% |" in fold


def test_decision__has_this_pr_over_its_column_in_a_pull_request() -> None:
    """A run of the branch is no pull request."""
    one = judged("llama", change())
    assert "| | Base | This PR | Δ | | Limit |" in report_markdown(record(one, pull=7))
    assert "| | Base | This run | Δ | | Limit |" in report_markdown(record(one))


# --- many cases ----------------------------------------------------------------------------------


def many(failing: int, warning: int, passes: int, width: int = 0) -> Record:
    """Cases with folds of some length, the slowest last."""
    found = explanation(
        {"compute": (50.0, 80.0)}, *(op(f"k{n}" * 20, "gemm", 1, 9) for n in range(9))
    )
    names = [f"{number:03}-model".ljust(width, "x") for number in range(failing + warning)]
    cases = [
        judged(
            name,
            change(
                head=130.0 + number,
                outcome=Outcome.FAIL if number < failing else Outcome.WARN,
            ),
            explanation=found,
        )
        for number, name in enumerate(names)
    ]
    return record(
        *cases, *(passing(f"ok-{n}") for n in range(passes)), repository=REPOSITORY, page=PAGE
    )


@pytest.mark.parametrize(
    "sizes", [(40, 0, 24), (10, 3, 51), (256, 0, 0, 64), (200, 56, 0, 64)], ids=str
)
def test_many__no_case_that_failed_is_unnamed(sizes: tuple[int, ...]) -> None:
    """Whatever the number, and the length of their names; the worst first."""
    made = many(*sizes)
    text = report_markdown(made, limit=LIMIT)
    assert len(text.encode()) <= LIMIT
    wrong = [one for one in made.cases if one.verdict and one.verdict.outcome is not Outcome.PASS]
    assert [one.name for one in wrong if f"`{one.name}`" not in text] == []
    table = re.findall(r"^\| \[?`(\d+)-model", text, re.MULTILINE)
    failing = [one for one in wrong if one.verdict and one.verdict.outcome is Outcome.FAIL]
    worst = sorted((one.name[:3] for one in failing), reverse=True)
    assert table[: len(worst)] == worst[: len(table)]


def test_many__without_room_for_rows_are_named() -> None:
    """A shorter limit than GitHub's costs the rows of the last ones, and no name."""
    made = many(256, 0, 0, 64)
    text = report_markdown(made, limit=24_000)
    assert len(text.encode()) <= 24_000
    assert [one.name for one in made.cases if f"`{one.name}`" not in text] == []
    assert re.search(r"\*\*\d+ more fail:\*\* `", text)


def test_many__a_row_links_the_case_in_the_page() -> None:
    """One click from the comment to what is known of the case."""
    text = report_markdown(many(2, 0, 62), limit=LIMIT)
    row = next(line for line in text.splitlines() if line.startswith("| [`001-model`]"))
    assert row.startswith(f"| [`001-model`]({PAGE}#case-001-model) | ❌ Fail | +31\u00a0% |")
    assert len(row) < 220


def test_many__whole_cases_follow_while_they_fit_and_the_rest_is_counted() -> None:
    """In the order of the table; what passed is one fold."""
    text = report_markdown(many(60, 0, 4), limit=LIMIT)
    whole = re.findall(r"<summary>❌ Fail: <code>(\d+)-model", text)
    assert whole == sorted(whole, reverse=True)
    assert whole[0] == "059"
    assert f"{60 - len(whole)} more cases in the report." in text
    assert text.count("<summary>4 cases pass</summary>") == 1
    short = report_markdown(many(3, 0, 4), limit=LIMIT)
    assert "in the report." not in short
    assert "Left out" not in short


@pytest.mark.parametrize("limit", [200, 2_000, 12_000, 65_000])
def test_many__fit_any_limit(limit: int) -> None:
    """In bytes; the first line stays longest."""
    text = report_markdown(many(256, 0, 0, 64), limit=limit)
    assert len(text.encode()) <= limit
    assert text.startswith("### ❌ Fail: 256 of 256 cases, worst: `255-model")

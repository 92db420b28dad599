"""Which lines are warned of, and where they stand in the commit that is shown."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.code_changes import CodeChanges, DefinitionChange, LineChange, Warned
from ci_score.model.code_diff import CodeDiff
from ci_score.model.environment import Environment, MeasuredCode
from ci_score.model.explanation import Explanation
from ci_score.model.metrics import MEMORY, STEP_TIME, THROUGHPUT
from ci_score.model.record import Judged
from ci_score.model.step_code import CodeWork
from ci_score.model.verdict import Change, Outcome, Verdict
from ci_score.run.annotating import at_lines
from ci_score.run.shown_lines import line_shown
from tests.builders import case, record
from tests.builders.code import diff_of

HERE, SESSION = "a" * 40, "b" * 40
SLOW = Warned(file="a.py", line=7, name="step", delta_ms=8.1, share=0.63)
LARGE = Warned(file="a.py", line=9, name="step", delta_ms=0.0, delta_bytes=1_500_000_000, share=1.0)


def judged(
    *warned: Warned, outcome: Outcome = Outcome.FAIL, diff: str = "known", **metrics: Outcome
) -> Judged:
    """A case with these lines, and with what was judged of it."""
    line = LineChange(line=6, changed_line=7, head=CodeWork(forward_ms=12.3))
    step = DefinitionChange(name="step", file="a.py", lines=(line,))
    code = CodeChanges(found_by="marks", diff=diff, definitions=(step,), warned=warned)
    explanation = Explanation(
        basis="device", under_profiler=True, base_step_ms=1.0, head_step_ms=2.0, parts=(), code=code
    )
    changes = tuple(
        Change(metric=name, base=1.0, head=2.0, outcome=of_it) for name, of_it in metrics.items()
    )
    return case("llama", changes=changes, explanation=explanation, verdict=Verdict(outcome=outcome))


def lines(*cases: Judged) -> list[str]:
    """What the runner is told, where what was measured is what is shown."""
    shown = at_lines(record(*cases), HERE, lambda _commit, file, line: (file, line))
    return [one.command for one in shown]


SLOWER = {STEP_TIME: Outcome.FAIL}


def test_at_lines__says_what_the_line_takes_and_how_much_of_the_slowdown_it_is() -> None:
    """One sentence for whoever reads the diff."""
    assert lines(judged(SLOW, **SLOWER)) == [
        (
            "::warning file=a.py,line=7,title=ci-score llama::'step': this line takes 12.3 ms of a"
            " step, 8.10 ms more than before, 63 %25 of the slowdown of 'llama'."
        )
    ]


def test_at_lines__says_how_much_more_memory_a_line_holds() -> None:
    """Of memory, what is in use at the peak."""
    (line,) = lines(judged(LARGE, **{MEMORY: Outcome.WARN}))
    assert line.endswith(
        "line=9,title=ci-score llama::'step': of what is in use at the peak of a step, this line"
        " has allocated 1.50 GB more than before, all of the growth of 'llama'."
    )


@pytest.mark.parametrize(
    ("metrics", "places"),
    [
        (SLOWER, ["7"]),
        ({THROUGHPUT: Outcome.WARN}, ["7"]),
        ({MEMORY: Outcome.FAIL}, ["9"]),
        ({STEP_TIME: Outcome.FAIL, MEMORY: Outcome.FAIL}, ["7", "9"]),
        ({STEP_TIME: Outcome.PASS, MEMORY: Outcome.INCONCLUSIVE}, []),
        ({"final_loss": Outcome.FAIL}, []),
    ],
)
def test_at_lines__only_of_what_got_worse(metrics: dict[str, Outcome], places: list[str]) -> None:
    """A slow line says nothing of a failing loss, and nothing of a time that was accepted."""
    found = lines(judged(SLOW, LARGE, **metrics))
    assert [line.partition("line=")[2].partition(",")[0] for line in found] == places


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.INCONCLUSIVE])
def test_at_lines__none_where_the_verdict_is_another(outcome: Outcome) -> None:
    """What a verdict does not rest on is no warning."""
    assert lines(judged(SLOW, outcome=outcome, **SLOWER)) == []


@pytest.mark.parametrize("diff", ["not asked", "too large", "not found", "other commit"])
def test_at_lines__none_without_a_diff(diff: str) -> None:
    """A line that nobody has compared may be anywhere."""
    assert lines(judged(SLOW, diff=diff, **SLOWER)) == []


@pytest.mark.parametrize(
    "path",
    ["/a.py", "../a.py", "a/../b.py", "-a.py", "a\nb.py", "a\\b.py", "##[error]a.py", "a//b.py",
     ".git/a.py", "a\u202eb.py", "./a.py"],
)  # fmt: skip
def test_at_lines__none_in_a_path_that_is_more_than_one(path: str) -> None:
    """Whatever a record says, the runner gets a plain path within the repository."""
    assert lines(judged(SLOW.but(file=path), **SLOWER)) == []


def test_at_lines__are_of_the_commit_that_the_session_measured() -> None:
    """The session's own word comes before the run's commit."""
    asked = []

    def shown(commit: str, file: str, line: int) -> tuple[str, int] | None:
        asked.append(commit)
        return None

    of_session = judged(SLOW, **SLOWER).but(
        environment=Environment(code=MeasuredCode(head=SESSION))
    )
    for one in (of_session, judged(SLOW, **SLOWER)):
        assert list(at_lines(record(one), HERE, shown)) == []
    assert asked == [SESSION, HERE]


# --- where a line stands --------------------------------------------------------------------------


def test_shown__nowhere_without_a_diff() -> None:
    """Where the files differ, and nobody knows how, no line is shown."""
    assert line_shown(CodeDiff(state="too large"), "a.py", 7) is None


def test_shown__in_a_file_that_was_renamed() -> None:
    """The reviewer sees it under the name that it has there."""
    text = "".join(f"x = {number}\n" for number in range(9))
    diff = diff_of({"a.py": text}, {"b.py": "y = 1\n" + text}, {"a.py": "b.py"})
    assert line_shown(diff, "b.py", 5) == ("a.py", 4)
    assert line_shown(diff, "b.py", 1) is None
    assert line_shown(diff, "c.py", 5) == ("c.py", 5)


def test_shown__nowhere_of_a_file_that_it_lacks() -> None:
    """The other side has brought the whole file."""
    assert line_shown(diff_of({}, {"a.py": "x = 1\n"}), "a.py", 1) is None


SOME = st.lists(st.sampled_from("abcdef"), max_size=40)


@given(shown=SOME, measured=SOME)
def test_shown__a_line_that_both_have_is_found_where_it_stands(
    shown: list[str], measured: list[str]
) -> None:
    """Whatever was added and removed around it, the text there is the same, in one order."""
    before, after = ("".join(f"{one} = 1\n" for one in side) for side in (shown, measured))
    diff = diff_of({"a.py": before}, {"a.py": after})
    places = [line_shown(diff, "a.py", number + 1) for number in range(len(measured))]
    found = [(number, place[1] - 1) for number, place in enumerate(places) if place]
    assert all(measured[number] == shown[place] for number, place in found)
    assert [place for _, place in found] == sorted({place for _, place in found})
    kept = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    assert len(found) >= sum(one.size for one in kept.get_matching_blocks()) * 0.5

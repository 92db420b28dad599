"""The answer of a search in words, for a terminal and for an issue."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.model.bisected import Bisected, CommitFound, SkippedCommit
from ci_score.model.bisection import Effect, Ended
from ci_score.report import render

SHA, PARENT = "c" * 40, "d" * 40
HOSTILE = "::error:: | </details> @octocat ![x](http://h) `\u202e\n# x"


def answer(**fields: Any) -> Bisected:
    defaults: dict[str, Any] = {
        "ci_score_version": "0.1.0", "case": "llama", "good": "a" * 40, "bad": "b" * 40,
        "commits": 12, "launches": 90, "ended": Ended.FOUND, "parent": PARENT,
        "found": (CommitFound(sha=SHA, subject="Sort more", author="octocat", date="2026-01-02"),),
        "own": Effect(share=0.05, low=0.04, high=0.06),
        "range": Effect(share=0.05, low=0.03, high=0.07),
    }  # fmt: skip
    return Bisected(**{**defaults, **fields})


def test_answer__says_the_commit_and_its_effect_beside_the_ranges() -> None:
    """In the first line what matters, and then what it rests on."""
    first, *rest = render(answer(), "terminal").splitlines()
    assert first == f"{SHA[:12]} “Sort more” made the step slower by 5.0 %."
    assert f"  - {SHA} by octocat, 2026-01-02" in rest
    assert (
        f"  - Effect of the commit itself: +5.0 % (+4.0 % to +6.0 %), against {PARENT[:12]}" in rest
    )
    assert "  - From GOOD to BAD: +5.0 % (+3.0 % to +7.0 %)" in rest


def test_range__that_ends_at_less_holds_something_faster() -> None:
    """Else nobody would understand why the branch is hardly slower."""
    hidden = answer(range=Effect(share=0.02, low=0.01, high=0.03))
    assert "+2.0 % (+1.0 % to +3.0 %): something else in the range became faster" in render(
        hidden, "terminal"
    )
    assert "the range holds other changes, too" in render(answer(others=True), "terminal")


@pytest.mark.parametrize(
    ("ended", "has_commits"),
    [
        *((one, True) for one in (None, *Ended)),
        *((one, False) for one in (None, *Ended) if one not in (Ended.FOUND, Ended.FOUND_SET)),
    ],
)
def test_ending__has_words_of_its_own(ended: Ended | None, has_commits: bool) -> None:
    """Whatever a search ends with, and whether or not it names commits."""
    found = answer(ended=ended, stopped="it was interrupted")
    found = found if has_commits else found.but(found=(), parent=None, own=None)
    texts = [render(found, style) for style in ("terminal", "markdown")]
    assert all(has_commits == (SHA in text) for text in texts)
    assert all(text.strip() for text in texts)
    others = {
        render(answer(ended=other), "terminal").splitlines()[0] for other in Ended if other != ended
    }
    assert texts[0].splitlines()[0] not in others


def test_strangers_words__stay_text() -> None:
    """A commit's subject, its author and the end of a log are not ours."""
    hostile = answer(
        found=(CommitFound(sha=SHA, subject=HOSTILE, author=HOSTILE, date=HOSTILE),),
        skipped=(SkippedCommit(commit=PARENT, why=HOSTILE),),
        cause=HOSTILE,
    )
    body = render(hostile, "markdown")
    assert "\u202e" not in body
    assert "\n#" not in body
    for line in body.splitlines():
        outside = "".join(line.split("`")[::2]) if "``" not in line else ""
        assert "</details>" not in outside.replace("\\<", "")
        assert "@octocat" not in outside
    assert not [line for line in render(hostile, "terminal").splitlines() if line.startswith("::")]

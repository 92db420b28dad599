"""The answer of `ci-score bisect`, for a terminal and for an issue's body."""

from __future__ import annotations

from collections.abc import Iterator

from ci_score.model.bisected import Bisected, CommitFound
from ci_score.model.bisection import Effect, Ended
from ci_score.model.lists import plural, share_in_words
from ci_score.report.escape import Safe, cell, paragraph, text
from ci_score.report.screen import Screen

SHORT = 12
MOST_SHOWN = 20
# A range whose ends differ by this much less than its commit holds something that became faster.
MUCH_LESS = 0.75
_ENDED = {
    Ended.NOT_CONFIRMED: (
        "No commit was found: each candidate was held against its parent, and none was confirmed."
    ),
    Ended.NO_DIFFERENCE: "There is nothing to find: BAD is not slower than GOOD.",
    Ended.GOOD_IS_SLOWER: "There is nothing to find: GOOD is slower than BAD.",
    Ended.CANNOT_TELL: "This machine cannot tell: its launches differ too much among themselves.",
    Ended.LIMIT: "No commit was found before the search had used up its launches.",
    Ended.END_DOES_NOT_RUN: "Nothing can be searched: GOOD and BAD have to run.",
}
_WHAT_HELPS = {
    Ended.NOT_CONFIRMED: "Longer launches (--steps) differ less among themselves.",
    Ended.NO_DIFFERENCE: "Was it measured on this machine, and by this command?",
    Ended.GOOD_IS_SLOWER: "Give the commits the other way round to find what was faster before.",
    Ended.CANNOT_TELL: "Longer launches (--steps) differ less; so does a machine of one's own.",
    Ended.LIMIT: "Longer launches (--steps) differ less, so that fewer of them are needed.",
}


def bisected_headline(answer: Bisected) -> str:
    """The answer in one sentence; it holds the commit's subject, which is a stranger's text."""
    if answer.ended is None:
        return f"The search has not ended: {answer.stopped}"
    if answer.ended in _ENDED:
        return _ENDED[answer.ended]
    if not answer.found:
        return "Several commits made the step slower, and none of them has half of it."
    own = f" by {100 * answer.own.share:.1f} %" if answer.own else ""
    last = answer.found[-1]
    if answer.ended is Ended.FOUND:
        return f"{_named(last)} made the step slower{own}."
    if answer.ended is Ended.FOUND_SET:
        count = plural(len(answer.found), "commit")
        return f"One of {count} made the step slower{own}: those before the last do not run."
    return (
        f"Several commits made the step slower: {_named(last)} did{own}, which is less than half of"
        " it."
    )


def _named(commit: CommitFound) -> str:
    return f"{commit.sha[:SHORT]} “{commit.subject}”"


def _effect(effect: Effect) -> str:
    low, high = share_in_words(effect.low), share_in_words(effect.high)
    return f"{share_in_words(effect.share)} ({low} to {high})"


def _facts(answer: Bisected) -> Iterator[tuple[str, str]]:
    """What is known beside the commit, in rows."""
    if answer.own and answer.parent:
        whose = "of these commits together" if len(answer.found) > 1 else "of the commit itself"
        yield f"Effect {whose}", f"{_effect(answer.own)}, against {answer.parent[:SHORT]}"
    if answer.range:
        yield "From GOOD to BAD", _effect(answer.range) + _others(answer)
    if answer.cause:
        yield "Against its parent", answer.cause
    if answer.smallest is not None and not answer.found:
        yield "Smallest slowdown that could be found", share_in_words(answer.smallest)
    commits = plural(answer.commits, "commit")
    yield "Searched", f"{commits} from {answer.good[:SHORT]} to {answer.bad[:SHORT]}"
    yield "Launches", f"{answer.launches}"
    if answer.refuted:
        names = ", ".join(sha[:SHORT] for sha in answer.refuted)
        yield "Not confirmed against the parent", names


def _others(answer: Bisected) -> str:
    if answer.own and answer.range and answer.range.share < MUCH_LESS * answer.own.share:
        return ": something else in the range became faster"
    return ": the range holds other changes, too" if answer.others else ""


def _of_found(answer: Bisected) -> str:
    """What the commits that are named are, where that is no answer."""
    if answer.ended is Ended.LIMIT and answer.found:
        return "It lies in one of these:"
    return "It does not run:" if answer.ended is Ended.END_DOES_NOT_RUN and answer.found else ""


def bisected_text(answer: Bisected, screen: Screen) -> str:
    """For a terminal."""
    style = "slower" if answer.is_answered else "not judged"
    lines = [screen.text(bisected_headline(answer), style)]
    if words := _of_found(answer):
        lines.append(screen.text(words))
    shown = answer.found[:MOST_SHOWN]
    lines += [screen.item(f"{one.sha} by {one.author}, {one.date}") for one in shown]
    lines += [screen.item(f"{what}: {value}") for what, value in _facts(answer)]
    left_out = answer.skipped[:MOST_SHOWN]
    lines += [screen.item(f"left out: {one.commit[:SHORT]}, {one.why}") for one in left_out]
    if answer.ended in _WHAT_HELPS:
        lines.append(screen.text(_WHAT_HELPS[answer.ended]))
    return "\n".join(lines) + "\n"


def bisected_markdown(answer: Bisected) -> str:
    """For an issue's body; a whole commit becomes a link there."""
    lines = [f"**{paragraph(bisected_headline(answer))}**", ""]
    if words := _of_found(answer):
        lines += [words, ""]
    if answer.found:
        lines += ["| Commit | Subject | Author | Date |", "|---|---|---|---|"]
        lines += [_commit_row(commit) for commit in answer.found[:MOST_SHOWN]]
        lines.append("")
    lines += ["| | |", "|---|---|"]
    lines += [f"| {text(what)} | {text(value)} |" for what, value in _facts(answer)]
    lines.append("")
    lines += [*_left_out(answer)]
    if answer.ended in _WHAT_HELPS:
        lines += [_WHAT_HELPS[answer.ended], ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _commit_row(commit: CommitFound) -> str:
    subject, author = cell(commit.subject, 200), text(commit.author, 100)
    return f"| {Safe(commit.sha)} | {subject} | {author} | {text(commit.date[:10])} |"


def _left_out(answer: Bisected) -> Iterator[str]:
    if not answer.skipped:
        return
    yield f"Left out, because they do not run: {plural(len(answer.skipped), 'commit')}."
    yield ""
    for one in answer.skipped[:MOST_SHOWN]:
        yield f"- {one.commit[:SHORT]}: {cell(one.why, 200)}"
    yield ""

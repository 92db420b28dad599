"""What a step shows beside its log: a line for each case, and a warning at a line of the change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from ci_score.files.visible import unlike_commands
from ci_score.github import runner
from ci_score.model.code_changes import CodeChanges, Warned
from ci_score.model.code_diff import is_inside
from ci_score.model.metrics import MEMORY, TIMES
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Judged, Record
from ci_score.model.verdict import Outcome, Verdict
from ci_score.report import headline, sentence, worst_first

# Where a line of the commit that was measured stands in the one that is shown; None: nowhere.
Shown = Callable[[str, str, int], tuple[str, int] | None]
_WORSE = frozenset({Outcome.WARN, Outcome.FAIL})


def of_cases(record: Record) -> Iterator[runner.Annotation]:
    """One per case that needs attention, the worst first."""
    if record.unjudged:
        yield runner.Annotation(_level(record.unjudged), "ci-score", headline(record.unjudged))
    for case in worst_first(record):
        if case.verdict and case.verdict.outcome is not Outcome.PASS:
            yield runner.Annotation(_level(case.verdict), f"ci-score {case.name}", headline(case))


def at_lines(record: Record, commit: str, shown: Shown) -> Iterator[runner.Annotation]:
    """A warning at each changed line that explains what the verdict says of its case.

    A case was measured at `commit`, or at the one that its session names.
    """
    for case in worst_first(record):
        code = case.explanation.code if case.explanation else None
        if code is None or code.diff != "known":
            continue
        told = case.environment.code
        measured = (told.head if told else None) or commit
        for warned, reason in _warnings(case, code):
            place = shown(measured, warned.file, warned.line)
            if place is not None and _can_be_shown(place[0]):
                words = sentence(reason)
                yield runner.Annotation("warning", f"ci-score {case.name}", words, *place)


def _warnings(case: Judged, code: CodeChanges) -> Iterator[tuple[Warned, Reason]]:
    """The lines that are to blame for what got worse by the verdict."""
    if case.verdict is None or case.verdict.outcome not in _WORSE:
        return
    worse = {change.metric for change in case.changes if change.outcome in _WORSE}
    for warned in code.warned:
        if warned.delta_bytes > 0 and MEMORY in worse:
            yield (
                warned,
                Why.LINE_HOLDS_MORE(
                    case=case.name,
                    name=warned.name,
                    more_bytes=warned.delta_bytes,
                    share=warned.share,
                ),
            )
        elif warned.delta_ms > 0 and worse & TIMES:
            yield (
                warned,
                Why.LINE_TAKES_LONGER(
                    case=case.name,
                    name=warned.name,
                    head_ms=_ms_at(code, warned),
                    more_ms=warned.delta_ms,
                    share=warned.share,
                ),
            )


def _ms_at(code: CodeChanges, warned: Warned) -> float | None:
    """What the line takes of a step now."""
    for definition in code.definitions:
        if (definition.name, definition.file) == (warned.name, warned.file):
            for line in definition.lines:
                if line.changed_line == warned.line:
                    return line.head.ms
    return None


def _can_be_shown(path: str) -> bool:
    """Whether it is a plain path within the repository, and nothing that a runner could obey."""
    return is_inside(path) and not path.startswith("-") and unlike_commands(path) == path


def _level(verdict: Verdict) -> Literal["error", "warning", "notice"]:
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return "notice" if verdict.may_pass else "error"
    return "error" if verdict.outcome is Outcome.FAIL else "warning"

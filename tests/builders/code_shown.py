"""What changed in the code of a step, as reports show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ci_score.model.code_changes import (
    Blame,
    CallerChange,
    ChangedPlace,
    CodeChanges,
    DefinitionChange,
    LineChange,
    Warned,
)
from ci_score.model.explanation import Explanation
from ci_score.model.record import Judged, Record
from ci_score.model.step_code import CodeWork
from tests.builders.reports import demo

GB = 10**9
HEAD = "a" * 40
REPOSITORY = "https://github.com/octocat/train"
MODEL, BLOCK, TRAIN = "src/model.py", "src/block.py", "train.py"


def work(ms: float, launches: float = 24.0, **more: Any) -> CodeWork:
    """Two thirds of it in the backward."""
    return CodeWork(
        forward_ms=ms / 3,
        backward_ms=ms * 2 / 3,
        forward_launches=launches / 3,
        backward_launches=launches * 2 / 3,
        **more,
    )


def line(number: int | None = 88, **more: Any) -> LineChange:
    fields = {"base_line": number, "base": work(60.2), "head": work(137.0), **more}
    return LineChange(line=number, **fields)


def definition(name: str = "Attention.forward", **more: Any) -> DefinitionChange:
    """A method that takes 77 ms more."""
    fields = {"file": MODEL, "first": 80, "last": 104, "base": work(60.2), "head": work(137.0)}
    return DefinitionChange(name=name, **{**fields, **more})


def caller(name: str = "Block.forward", **more: Any) -> CallerChange:
    fields = {"file": BLOCK, "line": 12, "base": work(60.2), "head": work(137.0)}
    return CallerChange(name=name, **{**fields, **more})


def code(*definitions: DefinitionChange, **more: Any) -> CodeChanges:
    """The first definition explains most of the change."""
    first = definitions[0] if definitions else None
    in_line = 0 if first and first.lines else None
    fields: dict[str, Any] = {
        "found_by": "marks",
        "diff": "known",
        "base_ms": 297.0,
        "head_ms": 374.0,
        "base_without_line_ms": 8.1,
        "head_without_line_ms": 8.2,
        "marked_ms": 431.0,
        "unmarked_ms": 394.0,
        "time": Blame(definition=0, line=in_line, share=0.96) if first else None,
    }
    return CodeChanges(definitions=definitions, **{**fields, **more})


# --- the states of a report -----------------------------------------------------------------------


def touched() -> CodeChanges:
    """A line of a method that the diff changes, and other functions."""
    slow = definition(
        touched=True,
        lines=(
            line(88, base_line=87, changed_line=88),
            line(
                91, base_line=90, base=work(20.1, 6), head=work(20.2, 6), through="torch F.linear"
            ),
            line(None, base_line=96, base=work(4.0, 3), head=CodeWork()),
        ),
        callers=(caller(), caller("evaluate", file=TRAIN, line=70, base=work(0), head=work(0.1))),
    )
    moved = definition(
        "RotaryEmbedding.apply",
        file="src/layers/rotary.py",
        was_file="src/model.py",
        touched=True,
        base=work(5.1, 8),
        head=work(7.4, 8, python_ms=0.8),
        first=14,
        last=33,
        lines=(line(22, base_line=130, base=work(5.1, 8), head=work(7.4, 8)),),
    )
    new = definition(
        "Attention.mask", status="new", touched=True, first=106, last=112,
        base=CodeWork(), head=work(2.9, 4),
    )  # fmt: skip
    gone = definition(
        "Attention.fused", status="gone", first=110, last=131, base=work(1.9, 4), head=CodeWork()
    )
    loader = definition(
        "Loader.fetch", file="data/loader.py", first=8, last=40, touched=False,
        base=CodeWork(python_ms=1.4), head=CodeWork(python_ms=3.9),
    )  # fmt: skip
    warned = Warned(
        file=MODEL, line=88, name=slow.name, delta_ms=line().head.ms - line().base.ms, share=0.96
    )
    return code(slow, moved, new, gone, loader, warned=(warned,), left_out=3)


def untouched() -> CodeChanges:
    """A method that the diff leaves alone, and that a changed one calls more often."""
    callee = definition(
        touched=False,
        base=work(60.2, 24, calls=12),
        head=work(137.0, 40, calls=20),
        lines=(line(),),
        callers=(caller(touched=True, base=work(60.2, 24), head=work(137.0, 40)),),
    )
    return code(callee, time=Blame(definition=0, line=0, called_from=0, share=0.9, by="calls"))


def of_other_work(by: str, near: ChangedPlace | None = None, **more: Any) -> CodeChanges:
    """A method that the diff leaves alone, and a call of which does more than before."""
    fields = {"base": work(60.2, 24, calls=12), "head": work(137.0, 40, calls=12), **more}
    blame = Blame.model_validate({"definition": 0, "share": 0.9, "by": by, "near": near})
    return code(definition(touched=False, **fields), time=blame)


def of_library() -> CodeChanges:
    """A library's function, which has no file."""
    inner = definition(
        "transformers LlamaMLP.forward", file=None, first=None, last=None,
        callers=(caller("train", file=TRAIN, line=40),),
    )  # fmt: skip
    return code(inner, time=Blame(definition=0, share=0.9))


def compiled() -> CodeChanges:
    """Compiled code has the line that calls it."""
    outer = definition(
        "train", file=TRAIN, first=30, last=60, touched=False, lines=(line(40, is_compiled=True),)
    )
    return code(outer)


def of_stacks() -> CodeChanges:
    """Stacks in a trace know functions alone."""
    return code(
        definition(), definition("Block.forward", file=BLOCK, base=work(2), head=work(2.4)),
        found_by="stacks", diff="not found", marked_ms=None, unmarked_ms=None,
    )  # fmt: skip


def of_source_fields() -> CodeChanges:
    """A trace of JAX knows lines alone."""
    return code(
        definition("", lines=(line(),)), found_by="source fields", marked_ms=None, unmarked_ms=None
    )


def too_large() -> CodeChanges:
    """A diff that nobody could read."""
    return code(definition(touched=None, lines=(line(),)), diff="too large")


def of_memory() -> CodeChanges:
    """A method whose tensors are most of what the peak grew by."""
    greedy = definition(
        touched=True,
        base=work(60.2, peak_bytes=21 * GB // 10),
        head=work(60.2, peak_bytes=46 * GB // 10),
        lines=(line(88, changed_line=88, head=work(60.2)),),
    )
    other = definition(
        "Loss.forward", first=7, last=20, file="src/loss.py",
        base=work(3, peak_bytes=12 * GB // 10), head=work(3, peak_bytes=14 * GB // 10),
    )  # fmt: skip
    return code(
        greedy,
        other,
        time=None,
        memory=Blame(definition=0, line=0, share=0.89),
        base_peak_bytes=189 * GB // 10,
        head_peak_bytes=217 * GB // 10,
    )


def slower_code(change: CodeChanges, **fields: Any) -> Record:
    """The demo's slower pull request, with what is known of its code."""
    return with_code(demo(), change, **fields).but(commit=HEAD, repository=REPOSITORY)


def with_code(told: Record, change: CodeChanges, **fields: Any) -> Record:
    """The record in which its case knows the code; `fields` are others of its explanation."""
    return told.but(cases=tuple(_cases(told.cases, change, fields)))


def _cases(
    cases: Iterable[Judged], change: CodeChanges, fields: dict[str, Any]
) -> Iterable[Judged]:
    for one in cases:
        found = one.explanation or Explanation(
            basis="device", base_step_ms=1.0, head_step_ms=1.0, parts=()
        )
        yield one.but(explanation=found.but(code=change, **fields))

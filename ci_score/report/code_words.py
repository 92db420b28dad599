"""Places in the code → words: `in 'Attention.forward' (model.py:88, changed here)`."""

from __future__ import annotations

from collections.abc import Iterator

from ci_score.files.visible import plain
from ci_score.model.code_changes import (
    Blame,
    CallerChange,
    ChangedPlace,
    CodeChanges,
    DefinitionChange,
    LineChange,
)
from ci_score.model.lists import plural
from ci_score.model.metrics import counts_agree
from ci_score.report.cause_words import Name, Place, Sentence, count_words, times_words
from ci_score.report.numbers import delta_bytes_words, delta_milliseconds

CHANGED, NOT_CHANGED = "changed here", "not changed"
# What runs when a file does, and a line of which nobody knows the function.
NAMELESS = ("", "<module>")
# Of a longer path its end is shown.
LONGEST_PATH = 40
# What a definition takes itself is the share that it explains, but for roundings.
MOST_OF = 0.9


# --- a place --------------------------------------------------------------------------------------


def short_path(path: str) -> str:
    """A path as one visible line; of a long one the last folders and the file."""
    shown = plain(path, 400)
    if len(shown) <= LONGEST_PATH:
        return shown
    parts = shown.split("/")
    kept = parts.pop()
    while parts and len(kept) + len(parts[-1]) + 3 <= LONGEST_PATH:
        kept = f"{parts.pop()}/{kept}"
    return f"…/{kept}"


def place(path: str, line: int | None, *, side: str = "head", shows_line: bool = True) -> Place:
    """`model.py:88`, which a renderer may link; without its line where nobody knows that."""
    shown = short_path(path)
    return Place(f"{shown}:{line}" if line and shows_line else shown, path, line, side)


def place_of_line(change: CodeChanges, row: DefinitionChange, line: LineChange | None) -> Place:
    """Where a definition stands, or a line in it: of what is gone, in the base."""
    path, knows_lines = row.file or "", change.found_by != "stacks"
    if row.status == "gone":
        of_base = line.base_line if line else None
        return place(
            row.was_file or path, of_base or row.first, side="base", shows_line=knows_lines
        )
    of_head = (line.changed_line or line.line) if line else None
    return place(path, of_head or row.first, shows_line=knows_lines)


def library_words(name: str) -> Sentence:
    """A library's function: `transformers 'LlamaMLP.forward'`."""
    library, _, function = name.partition(" ")
    if not function or not library.replace("_", "").isalnum():
        return Sentence.of(Name(name))
    return Sentence.of(f"{library} ", Name(function))


# --- the definition that explains most ------------------------------------------------------------


def blamed_place(change: CodeChanges, blame: Blame) -> Sentence:
    """Where it is, as it stands behind `in`; empty where nothing of it can be said."""
    row = change.definitions[blame.definition]
    line = None if blame.line is None else row.lines[blame.line]
    caller = None if blame.called_from is None else row.callers[blame.called_from]
    if row.file is None:
        caller = caller or next((one for one in row.callers if one.file), None)
        from_caller = _from(caller)
        told = [library_words(row.name), *((",", *from_caller) if from_caller else ())]
        return Sentence.of(*(told if row.name else ()))
    at = Sentence.of(place_of_line(change, row, line))
    where = Sentence.of(at, f", {CHANGED}") if row.touched and row.status != "gone" else at
    if line and line.is_compiled:
        return Sentence.of(
            "the compiled code that ", _caller_name(row.name), " calls (", where, ")"
        )
    if line and line.through:
        named = Sentence.of(", from ", Name(row.name), " (", where, ")")
        return Sentence.of(library_words(line.through), *named.pieces)
    if row.name in NAMELESS:
        return Sentence.of(at, f" ({CHANGED})" if row.touched else "")
    called = Sentence.of(Name(row.name), " (", where, ")")
    return Sentence.of(called, *_untouched(row, blame, caller))


def row_words(
    change: CodeChanges, row: DefinitionChange, around: tuple[str, str] = (" (", ")")
) -> Sentence:
    """A definition and its place: `'Attention.forward' (model.py:80)`, without what changed."""
    if row.file is None:
        return (
            library_words(row.name) if row.name else Sentence.of("code of which nothing is known")
        )
    at = place_of_line(change, row, None)
    before, behind = around
    return (
        Sentence.of(at) if row.name in NAMELESS else Sentence.of(Name(row.name), before, at, behind)
    )


def _caller_name(name: str) -> str:
    return "the script" if name in NAMELESS else Name(name)


def _untouched(row: DefinitionChange, blame: Blame, caller: CallerChange | None) -> Iterator[str]:
    """`, not changed, called 4 → 8 times a step from 'Block.forward' (block.py:12, changed here)`

    Without a word of why, where nobody knows that.
    """
    if row.status == "gone":
        yield f", {tag_of(row)}"
    if row.status == "gone" or row.touched is not False:
        return
    yield f", {NOT_CHANGED}"
    if blame.by == "calls":
        yield f", {'now ' * (row.status == 'new')}{calls_words(row)}"
        yield from _from(caller)
    elif blame.by is not None:
        more = "more" if row.head.launches > row.base.launches else "less"
        yield f", {_OTHER_WORK[blame.by].format(more)}"
        yield from (", called", *_from(caller)) if caller else ()
    yield from _near(blame.near, row)


_OTHER_WORK = {
    "path": "takes another path",
    "work": "launches {} work in each call",
    "backward": "runs {} of the backward pass",
}


def tag_of(row: DefinitionChange) -> str:
    """What happened to a definition that one side alone runs, as far as that is known."""
    if row.touched is not False:
        return "new" if row.status == "new" else "which is gone"
    return "not run before" if row.status == "new" else "no longer run"


def calls_words(row: DefinitionChange) -> str:
    """`called 4 → 8 times a step`; empty where that is the same, or nobody counted."""
    base, head = row.base.calls, row.head.calls
    if not head or (base and counts_agree(base, head)) or (not base and row.status != "new"):
        return ""
    times = "once" if head == 1 else f"{count_words(head)} times"
    return f"called {f'{count_words(base)} → ' if base else ''}{times} a step"


def _near(near: ChangedPlace | None, row: DefinitionChange) -> Iterator[str]:
    """`; 'Attention' is changed at model.py:45`: what is changed near what was not."""
    if near is None:
        return
    yield "; "
    if near.within == "outer":
        yield Name(row.name.partition(".")[0])
    else:
        yield "its file" if near.within == "file" else "the change"
    yield " is changed at " if near.within != "diff" else " is at "
    yield place(near.file, near.line)
    if near.more:
        yield f" and in {plural(near.more, 'more place')}"


def _from(caller: CallerChange | None) -> tuple[str, ...]:
    """` from 'train' (train.py:40)`"""
    if caller is None or not caller.file:
        return ()
    at, changed = place(caller.file, caller.line), f", {CHANGED}" if caller.touched else ""
    if caller.name in NAMELESS:
        return " from ", at, f" ({CHANGED})" if caller.touched else ""
    return " from ", Name(caller.name), " (", at, f"{changed})"


def where_words(change: CodeChanges | None) -> Sentence:
    """`in 'Attention.forward' (model.py:88, changed here)`: what explains most of the time."""
    found = _blamed(change, change.time if change else None)
    if change is None or change.time is None or found is None:
        return Sentence.of("")
    row, at = found
    calls = ", with what it calls" if _is_by_what_it_calls(change, change.time, row) else ""
    return Sentence.of("in ", at, calls)


def mostly_time(change: CodeChanges | None) -> Sentence:
    """`mostly 'Attention.forward' (model.py:88): +8.10 ms (12.3 → 20.4 ms)`"""
    found = _blamed(change, change.time if change else None)
    if found is None:
        return Sentence.of("")
    row, at = found
    if change and change.time and _is_by_what_it_calls(change, change.time, row):
        return Sentence.of("mostly ", at, ", with what it calls")
    base_ms, head_ms = row.base.ms + row.base.python_ms, row.head.ms + row.head.python_ms
    times = f"{delta_milliseconds(row.delta_ms)} ({times_words(base_ms, head_ms)})"
    return Sentence.of("mostly ", at, f": {times}")


def mostly_memory(change: CodeChanges | None) -> Sentence:
    """`mostly 'Attention.forward' (model.py:88, changed here): +2.90 GB`"""
    found = _blamed(change, change.memory if change else None)
    if found is None:
        return Sentence.of("")
    row, at = found
    return Sentence.of("mostly ", at, f": {delta_bytes_words(row.delta_bytes)}")


def _is_by_what_it_calls(change: CodeChanges, blame: Blame, row: DefinitionChange) -> bool:
    """Whether its own change is not all that it explains: it calls others more often."""
    if not row.touched or blame.line is not None:
        return False
    return abs(row.delta_ms) < MOST_OF * blame.share * abs(change.head_ms - change.base_ms)


def _blamed(
    change: CodeChanges | None, blame: Blame | None
) -> tuple[DefinitionChange, Sentence] | None:
    if change is None or blame is None:
        return None
    at = blamed_place(change, blame)
    return (change.definitions[blame.definition], at) if at else None

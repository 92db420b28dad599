"""Where in the code a step changed: functions of base and head, and the lines in them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ci_score.model.code_diff import DiffState
from ci_score.model.step_code import CodeWork, FoundBy, LineNumber, SourcePath
from ci_score.model.values import Count, Lax, Milliseconds, ShortText, Value

MOST_CHANGED, MOST_CHANGED_LINES = 24, 12
MOST_CALLERS = 4


class LineChange(Value):
    """A statement on both sides; a line that one side lacks is None there.

    `line` is the head's. `changed_line` is the first line of its statement that the diff touches.
    """

    line: LineNumber | None = None
    base_line: LineNumber | None = None
    through: ShortText | None = None
    is_compiled: bool = False
    changed_line: LineNumber | None = None
    base: CodeWork = CodeWork()
    head: CodeWork = CodeWork()


class CallerChange(Value):
    """Who calls a definition, and what it launches for that caller."""

    name: ShortText
    file: SourcePath | None = None
    line: LineNumber | None = None
    touched: bool | None = None
    base: CodeWork = CodeWork()
    head: CodeWork = CodeWork()


class DefinitionChange(Value):
    """A definition on both sides: name, file and lines are the head's, or the base's if it is gone.

    `was_name` and `was_file` are the base's where they differ. `touched` says whether the diff
    touches it, and None that no diff is known. A library's has no file. `is_noise` says that it
    does the same work, and that its time differs no more than that of others that do.
    """

    name: ShortText
    file: SourcePath | None = None
    first: LineNumber | None = None
    last: LineNumber | None = None
    was_name: ShortText | None = None
    was_file: SourcePath | None = None
    status: Literal["changed", "new", "gone"] = "changed"
    touched: bool | None = None
    is_noise: bool = False
    base: CodeWork = CodeWork()
    head: CodeWork = CodeWork()
    lines: Annotated[tuple[LineChange, ...], Lax, Field(max_length=MOST_CHANGED_LINES)] = ()
    callers: Annotated[tuple[CallerChange, ...], Lax, Field(max_length=MOST_CALLERS)] = ()

    @property
    def delta_ms(self) -> float:
        """How much more time it takes now: the work that it launches, and Python in between."""
        return self.head.ms + self.head.python_ms - self.base.ms - self.base.python_ms

    @property
    def delta_bytes(self) -> int:
        """How much more memory it has in use at the peak."""
        return self.head.peak_bytes - self.base.peak_bytes


class ChangedPlace(Value):
    """The first line that the diff touches near a function, and how many other places there are.

    They are in its class, or the function around it; else in its file, else anywhere.
    """

    within: Literal["outer", "file", "diff"]
    file: SourcePath
    line: LineNumber
    more: Count = 0


class Blame(Value):
    """The definition that explains most of a change, with its line where one is known.

    `definition` is its row, `line` a row of its lines. `share` is the part of the change that it
    explains, from a half on. `by` says what is other about one that was not touched: how often it
    is called, or else which lines a call runs, or what they launch, forward or only backward.
    `called_from` is then a row of its callers, and `near` the nearest place that was touched.
    """

    definition: Count
    line: Count | None = None
    called_from: Count | None = None
    share: float
    by: Literal["calls", "path", "work", "backward"] | None = None
    near: ChangedPlace | None = None


class Warned(Value):
    """A changed line at which a warning stands, and the part of the change that it explains."""

    file: SourcePath
    line: LineNumber
    name: ShortText
    delta_ms: float
    delta_bytes: int = 0
    share: float


class CodeChanges(Value):
    """Where in the code the time of a step, and its memory, changed: the largest change first.

    What the diff touches comes before all else. `diff` says whether one was there, and why not.
    """

    found_by: FoundBy
    diff: DiffState = "not asked"
    base_ms: Milliseconds = 0.0
    head_ms: Milliseconds = 0.0
    base_without_line_ms: Milliseconds = 0.0
    head_without_line_ms: Milliseconds = 0.0
    base_peak_bytes: Count = 0
    head_peak_bytes: Count = 0
    # How long a step of the head took with marks, and under the profiler without them.
    marked_ms: Milliseconds | None = None
    unmarked_ms: Milliseconds | None = None
    definitions: Annotated[tuple[DefinitionChange, ...], Lax, Field(max_length=MOST_CHANGED)] = ()
    left_out: Count = 0
    time: Blame | None = None
    memory: Blame | None = None
    warned: Annotated[tuple[Warned, ...], Lax, Field(max_length=3)] = ()

    @model_validator(mode="after")
    def _rows_exist(self) -> Self:
        for blame in filter(None, (self.time, self.memory)):
            own = self.definitions[blame.definition : blame.definition + 1]
            lines, callers = (len(own[0].lines), len(own[0].callers)) if own else (0, 0)
            is_line = blame.line is None or blame.line < lines
            is_caller = blame.called_from is None or blame.called_from < callers
            if not own or not is_line or not is_caller:
                raise ValueError("rows of what is to blame below the number of definitions")
        return self

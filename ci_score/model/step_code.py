"""What the lines of the program take of a step: functions, the statements in them, and callers.

The launch with marks knows each line. A trace with Python stacks of its own knows functions alone,
and a trace of JAX lines without their functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from ci_score.model.values import (
    Count,
    Lax,
    Milliseconds,
    NotNegative,
    ShortText,
    Value,
    four_digits,
)

MOST_DEFINITIONS, MOST_LINES = 256, 512
# Above this share of a step's work without a line nothing is said of single lines.
MOST_WITHOUT_LINE = 0.2
LONGEST_PATH = 400
MOST_BYTES = 2**64 - 1
LineNumber = Annotated[int, Field(ge=1, le=10**7)]
# Within the repository, with slashes. It may be a stranger's: a link is made only of one that the
# diff or the tree of the commit has.
SourcePath = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_PATH)]
# What told the lines, or the functions.
FoundBy = Literal["marks", "stacks", "source fields"]
TextDigest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]


def statement_digest(lines: Iterable[str]) -> str:
    """A digest of a statement's lines, whatever white space or end of a line stands behind them."""
    text = "\n".join(line.rstrip() for line in lines)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


class CodeWork(Value):
    """What a line, or a function, takes of a step.

    `forward_ms` and `backward_ms` are kernels, or without a device operators, that it launched;
    `python_ms` is time of the host before them in which no operator ran. `peak_bytes` is what it
    had allocated of the memory that was in use at the peak. `calls` is how often the function was
    called, and 0 where that was not counted, or where it ran all the time.
    """

    forward_ms: Milliseconds = 0.0
    backward_ms: Milliseconds = 0.0
    python_ms: Milliseconds = 0.0
    forward_launches: NotNegative = 0.0
    backward_launches: NotNegative = 0.0
    peak_bytes: Count = 0
    calls: NotNegative = 0.0

    @property
    def ms(self) -> float:
        """The work that it launched, forward and backward."""
        return self.forward_ms + self.backward_ms

    @property
    def launches(self) -> float:
        """How much work it launched."""
        return self.forward_launches + self.backward_launches

    def plus(self, other: CodeWork) -> CodeWork:
        """Both together."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in CodeWork.model_fields}
        # A record may tell as many bytes of each line as a number may hold.
        return CodeWork(**{**sums, "peak_bytes": min(sums["peak_bytes"], MOST_BYTES)})

    def rounded(self) -> CodeWork:
        """The same as a record keeps it."""
        values = {name: getattr(self, name) for name in CodeWork.model_fields}
        return CodeWork(
            **{
                name: value if isinstance(value, int) else four_digits(value)
                for name, value in values.items()
            }
        )


class Definition(Value):
    """A function or a method; `<module>` is what runs when a file does, `` that nobody knows it.

    `first` and `last` are its lines, decorators included; `outer_first` and `outer_last` are those
    of the class or the function that it is in. `file` is None of a library's: its name begins with
    that of the library, as `transformers LlamaMLP.forward`.
    """

    name: ShortText
    file: SourcePath | None = None
    first: LineNumber | None = None
    last: LineNumber | None = None
    outer_first: LineNumber | None = None
    outer_last: LineNumber | None = None


class CodeLine(Value):
    """A statement of a definition, as one caller reaches it.

    `definition` and `caller` are rows of the definitions; the caller is the next one outwards that
    is the repository's own. `line` is where the call begins, `first` and `last` are the lines of
    its whole statement, and `text` is a digest of them, so that no diff of another state is taken
    for theirs. `through` is the outermost function of a library below the line. A line that runs
    compiled code stands for all of it. The calls that a caller makes are in one line of them.
    """

    definition: Count
    line: LineNumber | None = None
    first: LineNumber | None = None
    last: LineNumber | None = None
    text: TextDigest | None = None
    caller: Count | None = None
    through: ShortText | None = None
    is_compiled: bool = False
    work: CodeWork = CodeWork()


class StepCode(Value):
    """What the program's code takes of a step: the largest lines first.

    `paths` says whose the files' names are: the repository's, or those of a trace, which may be cut
    at either end. `without_line_ms` is the work of which no line is known, `total_ms` all work.
    """

    found_by: FoundBy = "marks"
    paths: Literal["repository", "trace"] = "repository"
    definitions: Annotated[
        tuple[Definition, ...], Lax, Field(max_length=MOST_DEFINITIONS, fail_fast=True)
    ] = ()
    lines: Annotated[tuple[CodeLine, ...], Lax, Field(max_length=MOST_LINES, fail_fast=True)] = ()
    total_ms: Milliseconds = 0.0
    without_line_ms: Milliseconds = 0.0
    # The bytes in use at the peak, and those of them that no line of a step has allocated: weights,
    # the state of an optimizer.
    peak_bytes: Count = 0
    peak_without_line: Count = 0
    # How long a step took with marks, and under the profiler without them.
    marked_ms: Milliseconds | None = None
    unmarked_ms: Milliseconds | None = None
    # Small lines that have no row.
    left_out: Count = 0
    left_out_ms: Milliseconds = 0.0

    @model_validator(mode="after")
    def _rows_exist(self) -> Self:
        size = len(self.definitions)
        rows = [row for one in self.lines for row in (one.definition, one.caller)]
        if any(row is not None and row >= size for row in rows):
            raise ValueError("rows of lines below the number of definitions")
        return self

    @property
    def share_without_line(self) -> float:
        """Which share of the work no line is known of."""
        return min(self.without_line_ms / self.total_ms, 1.0) if self.total_ms else 1.0

    @property
    def knows_lines(self) -> bool:
        """Whether a single line can be named, and not only its function."""
        return self.found_by == "marks" and self.share_without_line <= MOST_WITHOUT_LINE


class MarkedStep(Value):
    """What a trace with marks says of a step, by the numbers of the marks.

    `operators` counts those of a step without the marks themselves, so that the same count without
    marks can be held against it.
    """

    steps: Count = 0
    step_ms: Milliseconds = 0.0
    work: dict[int, CodeWork] = {}
    total_ms: Milliseconds = 0.0
    without_line_ms: Milliseconds = 0.0
    peak_bytes: Count = 0
    peak_without_line: Count = 0
    operators: NotNegative | None = None

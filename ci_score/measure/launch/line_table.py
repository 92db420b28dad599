"""The table of a launch with marks: which line of the program each mark stands for.

The start-up hook writes it, and the script may have written it, too: it is read strictly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ci_score.errors import BadInputError
from ci_score.files.disk import open_plain
from ci_score.files.strict_json import parse, validate
from ci_score.model.step_code import LineNumber
from ci_score.model.values import Lax, Value

TABLE_LIMIT = 32 << 20
MOST_ROWS, MOST_CELLS = 50_000, 10_000
SCHEMA = 1

_Path = Annotated[str, StringConstraints(max_length=4096)]
_Name = Annotated[str, StringConstraints(max_length=1000)]
_Mark = Annotated[int, Field(ge=1, lt=2**63)]


class CalledFrom(Value):
    """A frame of the side's own code: where it stands, and the function that it runs."""

    file: _Path
    line: LineNumber
    function: _Name
    first: LineNumber | None = None


class MarkedLine(Value):
    """What a mark stands for.

    Without a file no frame of the side's own code was there, and `through` is the library's
    function. `caller` is the next frame outwards of another of the side's own functions.
    """

    id: _Mark
    file: _Path | None = None
    line: LineNumber | None = None
    function: _Name = ""
    first: LineNumber | None = None
    through: _Name | None = None
    caller: CalledFrom | None = None
    compiled: bool = False


class LineTable(Value):
    """All marks of a launch; `notebooks` has the notebook of what is no file by itself."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    rows: Annotated[tuple[MarkedLine, ...], Lax, Field(max_length=MOST_ROWS, fail_fast=True)]
    notebooks: Annotated[dict[_Path, _Path], Field(max_length=MOST_CELLS)] = {}

    @property
    def by_mark(self) -> dict[int, MarkedLine]:
        """The rows by their marks; of one that is there twice nothing is known."""
        found: dict[int, MarkedLine] = {}
        twice = set()
        for row in self.rows:
            if row.id in found:
                twice.add(row.id)
            found[row.id] = row
        return {mark: row for mark, row in found.items() if mark not in twice}


def read_table(folder: Path, rank: int, pid: int) -> LineTable:
    """The table of one process; BadInputError where it is none."""
    name = f"lines-{rank}-{pid}.json"
    source = f"the hook's {name}"
    try:
        with open_plain(folder / name) as stream:
            data = stream.read(TABLE_LIMIT + 1)
    except OSError as error:
        raise BadInputError(source, found=str(error.strerror), expected="a file") from None
    if len(data) > TABLE_LIMIT:
        raise BadInputError(source, found="too much", expected=f"at most {TABLE_LIMIT >> 20} MB")
    return validate(LineTable, parse(data, source), source)

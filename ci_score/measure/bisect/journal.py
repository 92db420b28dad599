"""What a search has measured, in the order in which it did: the same command goes on by it.

The first line is the plan, and each further one a commit's untimed launch, a pair of timed launches
or a commit that is left out. The search is deterministic, so these facts lead it to where it was.
The file is written whole after each of them, because launches may write there, too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.disk import cannot_write, open_plain, remove, write_atomically
from ci_score.files.strict_json import parse, validate
from ci_score.launches import Launch
from ci_score.measure.launch.launching import line_of
from ci_score.measure.session.settled import Settled
from ci_score.model.bisection import AskedFor
from ci_score.model.values import Lax, Sha, ShortText, Value

JOURNAL = "journal.jsonl"
SCHEMA = 1
LARGEST_JOURNAL = 256 * 1024 * 1024
MOST_ROWS = 20_000


class Settling(Value, strict=False):
    """A commit's untimed launch ran well. What it told has tuples, where JSON has lists."""

    kind: Literal["settled"] = "settled"
    commit: Sha
    settled: Settled


class Measured(Value):
    """A pair of timed launches that counts."""

    kind: Literal["pair"] = "pair"
    why: Annotated[AskedFor, Lax]
    first: Sha
    second: Sha
    base: Launch
    head: Launch

    @model_validator(mode="after")
    def _took_time(self) -> Measured:
        # The file may have been edited, and no ratio is known of what took no time.
        if not all(one.timed_ms and one.mean_ms > 0 for one in (self.base, self.head)):
            raise ValueError("launches that took time")
        return self


class LeftOut(Value):
    """A commit that cannot be measured, and why."""

    kind: Literal["skipped"] = "skipped"
    commit: Sha
    why: ShortText


Row = Settling | Measured | LeftOut
_ROW: TypeAdapter[Row] = TypeAdapter(Annotated[Row, Field(discriminator="kind")])


class _Header(Value):
    """The first line."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    seed: int
    plan: dict[str, Any]


@dataclass(slots=True)
class Journal:
    """The rows so far, and their file."""

    folder: Path
    plan: Mapping[str, Any]
    seed: int
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """One more row, also in the file."""
        self.rows.append(row)
        self.save()

    def save(self) -> None:
        """Writes it whole: what a launch has put there or added to it does not count."""
        path = self.folder / JOURNAL
        if path.is_symlink() or not path.is_file():
            remove(path)
        header = json.dumps({"schema": SCHEMA, "seed": self.seed, "plan": self.plan})
        write_atomically(path, "\n".join([header, *map(_line, self.rows)]) + "\n")

    def confirming(self, parent: str, commit: str) -> list[Measured]:
        """The fresh pairs that hold a commit against its parent."""
        pairs = (row for row in self.rows if isinstance(row, Measured))
        known = (AskedFor.CONFIRMATION, parent, commit)
        return [row for row in pairs if (row.why, row.first, row.second) == known]


def opened_journal(
    folder: Path, plan: Mapping[str, Any], seed: int | None, *, fresh: bool
) -> Journal:
    """The journal in a folder, to go on with; or a new one. It keeps its seed."""
    plan = json.loads(json.dumps(plan))
    path = folder / JOURNAL
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    before = None if fresh or not path.exists() else _read(path)
    if before is None or not before.rows:
        # Nobody can know it before, and so nobody can fit the work to it.
        fresh_seed = random.SystemRandom().getrandbits(32)
        return Journal(folder, plan, fresh_seed if seed is None else seed)
    changed = [
        key for key in sorted({*before.plan, *plan}) if before.plan.get(key) != plan.get(key)
    ]
    if seed not in (None, before.seed):
        changed.append("seed")
    if changed:
        shown = [key.upper() if key in ("good", "bad") else key for key in changed[:3]]
        raise WrongUseError(
            f"{folder} holds a search of another plan (another {', another '.join(shown)});"
            " give --fresh to begin anew, or another --out"
        )
    return before


def _read(path: Path) -> Journal:
    refused = BadInputError(
        str(path), found="something else", expected="a search's journal; give --fresh to begin anew"
    )
    try:
        with open_plain(path) as stream:
            data = stream.read(LARGEST_JOURNAL + 1)
    except OSError:
        raise refused from None
    lines = data.splitlines()
    if len(data) > LARGEST_JOURNAL or not 1 <= len(lines) <= MOST_ROWS + 1:
        raise refused
    try:
        header = validate(_Header, parse(lines[0], path.name), path.name)
        rows = [_ROW.validate_python(parse(line, path.name)) for line in lines[1:]]
    except (BadInputError, ValidationError):
        raise refused from None
    return Journal(path.parent, header.plan, header.seed, rows)


def _line(row: Row) -> str:
    return json.dumps(dict(_fields(row)))


def _fields(row: Row) -> Iterator[tuple[str, Any]]:
    for name in type(row).model_fields:
        value = getattr(row, name)
        if isinstance(value, Launch):
            value = json.loads(line_of(value))
        elif isinstance(value, Settled):
            value = asdict(value)
        yield name, value

"""environment.json: where a measurement ran, and what disturbed it.

`ci-score env` and `ci-score ab` write it, or a user's own script. It is read as strictly as any
other file from outside. Its other keys, such as the clocks of every device, are for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field

from ci_score.errors import BadInputError
from ci_score.files.strict_json import parse, validate
from ci_score.model.environment import (
    MATCHING,
    MOST_ASKED,
    MOST_DIFFERING,
    Alone,
    AskedOption,
    Disturbance,
    Environment,
    MeasuredCode,
    SideDifference,
)
from ci_score.model.reasons import Note
from ci_score.model.values import DeviceCount, Lax, ShortText, Value

ENVIRONMENT_FILE = "environment.json"
LARGEST = 1024 * 1024
MOST_VERSIONS = 64
MOST_NAMED = 4
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class _Git(Value):
    """What was checked out; `changed` says that files were edited since, or how."""

    commit: ShortText | None = None
    changed: bool | ShortText | None = None

    @property
    def whole_commit(self) -> str | None:
        """The commit, where it is one: whoever writes the file may have put any text there."""
        return self.commit if self.commit and _COMMIT.fullmatch(self.commit) else None


class _Cpu(Value):
    """The host's processor."""

    name: ShortText | None = None
    governor: ShortText | None = None


class _EnvironmentFile(Value):
    """The keys that decide what is compared, that invalidate a measurement, or that inform."""

    # An int and not a Literal, because `true` equals 1.
    schema_: Annotated[int, Field(alias="schema", ge=1, le=1)]
    accelerator: ShortText | None = None
    accelerator_count: DeviceCount | None = None
    precision: ShortText | None = None
    versions: Annotated[
        dict[ShortText, ShortText], Field(max_length=MOST_VERSIONS, default_factory=dict)
    ]
    disturbances: Annotated[dict[Disturbance, ShortText], Field(default_factory=dict)]
    gate_at: Annotated[float, Field(gt=0, lt=1)] | None = None
    not_qualified: ShortText | None = None
    system: ShortText | None = None
    cpu: _Cpu = _Cpu()
    git: _Git = _Git()
    base_git: _Git = _Git()
    differs: Annotated[tuple[SideDifference, ...], Lax, Field(max_length=MOST_DIFFERING)] = ()
    asked: Annotated[tuple[AskedOption, ...], Lax, Field(max_length=MOST_ASKED)] = ()
    alone: Alone | None = None

    def environment(self) -> Environment:
        """What comparisons need of it."""
        informing = {
            "system": self.system,
            "cpu": self.cpu.name,
            "cpu governor": self.cpu.governor,
            "checkout": "with local changes" if self.git.changed else None,
        }
        return Environment(
            accelerator=self.accelerator,
            accelerator_count=self.accelerator_count,
            precision=self.precision,
            versions={
                **self.versions,
                **{name: words for name, words in informing.items() if words},
            },
            disturbances={**self.disturbances},
            gate_at=self.gate_at,
            not_qualified=self.not_qualified,
            differs=self.differs,
            asked=self.asked,
            alone=self.alone,
            code=self._code(),
        )

    def _code(self) -> MeasuredCode | None:
        """The commits of the sides, as far as git told them."""
        head, base = self.git.whole_commit, self.base_git.whole_commit
        if head is None and base is None:
            return None
        return MeasuredCode(head=head, base=base, head_edited=bool(self.git.changed))


def read_environment(data: bytes, source: str) -> Environment | None:
    """The environment in a file; None where another tool wrote a file of that name."""
    if len(data) > LARGEST:
        raise BadInputError(source, found=f"{len(data)} bytes", expected=f"at most {LARGEST}")
    try:
        value: Any = parse(data, source)
    except BadInputError:
        return None
    if not isinstance(value, dict) or "schema" not in value:
        return None
    return validate(_EnvironmentFile, value, source).environment()


def joined(named: Sequence[tuple[str, Environment]]) -> tuple[Environment, list[Note]]:
    """One environment of those of several nodes or files, with notes where they disagree.

    For each key the first one that has it counts. What disturbed one of them disturbed the case.
    """
    versions: dict[str, str] = {}
    disturbances: dict[str, str] = {}
    # Several files of one session say the same.
    differs = tuple(dict.fromkeys(row for _, each in named for row in each.differs))
    asked = tuple(dict.fromkeys(row for _, each in named for row in each.asked))
    for _, each in named:
        if len(versions) < MOST_VERSIONS:
            versions = each.versions | versions
        disturbances = each.disturbances | disturbances
    notes = []
    known: dict[str, object] = {}
    for key in MATCHING:
        given = [(name, value) for name, each in named if (value := getattr(each, key)) is not None]
        values = list(dict.fromkeys(value for _, value in given))
        if values:
            known[key] = values[0]
        if len(values) > 1:
            disagree = f"{_names(given)} disagree on the {key}: {_listed(values)}."
            notes.append(Note(code="environments_disagree", words=disagree))
    # The machine with the coarsest limit decides for all of them.
    limits = [each.gate_at for _, each in named if each.gate_at is not None]
    words = next((each.not_qualified for _, each in named if each.not_qualified), None)
    known |= {
        "gate_at": max(limits, default=None) if words is None else None,
        "differs": differs[:MOST_DIFFERING],
        "asked": asked[:MOST_ASKED],
        "alone": next((each.alone for _, each in named if each.alone), None),
        "code": next((each.code for _, each in named if each.code), None),
    }
    return Environment.model_validate(
        {**known, "versions": versions, "disturbances": disturbances, "not_qualified": words}
    ), notes


def _names(given: Iterable[tuple[str, object]]) -> str:
    return _listed([name for name, _ in given])


def _listed(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values[:MOST_NAMED])

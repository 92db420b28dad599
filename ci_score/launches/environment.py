"""environment.json: what a measurement says of where it ran, and of what disturbed it.

`ci-score env` and `ci-score ab` write it, or a user's own script; it is read as strictly as any
other stranger's file. Whatever else it holds, such as every device's clocks, is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field

from ci_score.errors import BadInputError
from ci_score.files.strict_json import parse, validate
from ci_score.model.environment import MATCHING, Disturbance, Environment
from ci_score.model.reasons import Note
from ci_score.model.values import DeviceCount, ShortText, Value

ENVIRONMENT_FILE = "environment.json"
LARGEST = 1024 * 1024
MOST_VERSIONS = 64


class _Git(Value):
    """What was checked out; `changed` where files were edited since: yes, or what tells how."""

    commit: ShortText | None = None
    changed: bool | ShortText | None = None


class _Cpu(Value):
    """The host's side of a step."""

    name: ShortText | None = None
    governor: ShortText | None = None


class _EnvironmentFile(Value):
    """The keys that decide, invalidate or inform."""

    # A whole number: true is equal to 1, and no version.
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

    def environment(self) -> Environment:
        """What comparisons need of it; the commit is the run's own business."""
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
        )


def read_environment(data: bytes, source: str) -> Environment | None:
    """The environment that a file tells; None where it is another tool's of the same name."""
    if len(data) > LARGEST:
        raise BadInputError(source, found=f"{len(data)} bytes", expected=f"at most {LARGEST}")
    try:
        value: Any = parse(data, source)
    except BadInputError:
        return None
    if not isinstance(value, dict) or "schema" not in value:
        return None
    return validate(_EnvironmentFile, value, source).environment()


def joined(found: Sequence[tuple[str, Environment]]) -> tuple[Environment, list[Note]]:
    """One environment of those of several nodes or inputs, and where they disagree.

    The first that says something is believed; what disturbed one of them disturbed the case.
    """
    versions: dict[str, str] = {}
    disturbances: dict[str, str] = {}
    for _, each in found:
        versions = each.versions | versions
        disturbances = each.disturbances | disturbances
    notes = []
    known: dict[str, object] = {}
    for key in MATCHING:
        said = [(name, value) for name, each in found if (value := getattr(each, key)) is not None]
        values = list(dict.fromkeys(value for _, value in said))
        if values:
            known[key] = values[0]
        if len(values) > 1:
            disagree = f"{_names(said)} disagree on the {key}: {_listed(values)}."
            notes.append(Note(code="environments_disagree", words=disagree))
    # The machine that can gate least decides for all of them.
    limits = [each.gate_at for _, each in found if each.gate_at is not None]
    words = next((each.not_qualified for _, each in found if each.not_qualified), None)
    known |= {"gate_at": max(limits, default=None) if words is None else None}
    return Environment.model_validate(
        {**known, "versions": versions, "disturbances": disturbances, "not_qualified": words}
    ), notes


def _names(said: Iterable[tuple[str, object]]) -> str:
    return _listed([name for name, _ in said][:4])


def _listed(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values)

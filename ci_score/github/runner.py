"""What a step tells its runner: summary, outputs, annotations. Texts from strangers stay texts."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ci_score.files.visible import log_line
from ci_score.model.step_code import LONGEST_PATH

# The limit is 1 MiB and counts bytes; over it, and at it, the whole summary is dropped.
LARGEST_SUMMARY = 1_000_000
# Of each level; a step shows no more.
MOST_ANNOTATIONS = 10


def append_summary(path: Path, markdown: str) -> None:
    """Adds to the job's summary."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(markdown if markdown.endswith("\n") else markdown + "\n")


def append_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Adds the step's outputs, each between delimiters that its value cannot contain."""
    with path.open("a", encoding="utf-8") as stream:
        for name, value in values.items():
            delimiter = f"ci-score-{secrets.token_hex(16)}"
            stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a step shows beside its log, or at a line of a file of the repository."""

    level: Literal["error", "warning", "notice"]
    title: str
    message: str
    file: str | None = None
    line: int = 0

    @property
    def command(self) -> str:
        """The line that tells the runner."""
        place = f"file={_property(self.file, LONGEST_PATH)},line={self.line}," if self.file else ""
        return f"::{self.level} {place}title={_property(self.title)}::{_message(self.message)}"


def annotation_lines(rows: Iterable[Annotation]) -> list[str]:
    """Workflow commands; of each level as many as a step may show, those at a line first."""
    in_order = sorted(rows, key=lambda row: row.file is None)
    return [
        row.command
        for place, row in enumerate(in_order)
        if sum(one.level == row.level for one in in_order[:place]) < MOST_ANNOTATIONS
    ]


def _message(text: str) -> str:
    return _percent(log_line(text, 1000))


def _property(text: str, longest: int = 120) -> str:
    return _percent(log_line(text, longest)).replace(":", "%3A").replace(",", "%2C")


def _percent(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

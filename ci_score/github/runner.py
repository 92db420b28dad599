"""What a step tells its runner: summary, outputs, annotations. Texts from strangers stay texts."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from ci_score.files.visible import log_line

# The limit is 1 MiB and counts bytes; over it, and at it, the whole summary is dropped.
LARGEST_SUMMARY = 1_000_000
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


def annotation_lines(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Workflow commands for (level, title, message); as many as a step may show."""
    return [
        f"::{level} title={_property(title)}::{_message(message)}"
        for level, title, message in list(rows)[:MOST_ANNOTATIONS]
    ]


def _message(text: str) -> str:
    return _percent(log_line(text, 1000))


def _property(text: str) -> str:
    return _percent(log_line(text, 120)).replace(":", "%3A").replace(",", "%2C")


def _percent(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

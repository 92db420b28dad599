"""The accelerators that people train on, found by the name that a driver prints.

The rows are in `accelerators.toml`, each with the document that its figures come from. The lookup
does not guess: a name with a word that it does not know finds no row.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from ci_score.errors import WrongUseError


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The peaks of what a process sees as one device, which is one die of an MI250X.

    Bandwidth and memory are the vendor's decimal figures; `flops` is dense FLOP/s by dtype.
    """

    name: str
    bandwidth_gb_s: float
    memory_gb: float
    flops: Mapping[str, float]
    source: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset of the reference. Its bytes per token apply only where the user names it."""

    name: str
    bandwidth_gb_s: float
    bytes_per_token: float


# --- the table ----------------------------------------------------------------------------------


def accelerators() -> tuple[Accelerator, ...]:
    """Every accelerator, in the order of the table."""
    return _table()[0]


def presets() -> tuple[Preset, ...]:
    """The reference's two presets."""
    return _table()[1]


@cache
def _table() -> tuple[tuple[Accelerator, ...], tuple[Preset, ...]]:
    """Read when a row is first asked for, so that start-up does not pay for it."""
    text = (files("ci_score.model") / "accelerators.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return tuple(map(_accelerator, table["accelerator"])), tuple(
        Preset(**row) for row in table["preset"]
    )


def _accelerator(row: dict[str, Any]) -> Accelerator:
    # Rounded, so that 989.4 becomes the same float as 989.4e12.
    flops = {dtype: float(round(peak * 1e12)) for dtype, peak in row.pop("teraflops").items()}
    return Accelerator(flops=flops, patterns=tuple(row.pop("patterns")), **row)


# --- the lookup ---------------------------------------------------------------------------------

# Words that name the vendor or brand, and do not tell one device from another.
_BRAND_WORDS = frozenset(
    ("nvidia", "tesla", "geforce", "amd", "instinct", "intel", "habana", "google", "cloud", "gpu")
)
# Drivers keep up to 9 % for themselves. Others report true GB, which is up to 7 % more, because
# vendors say GB and build GiB.
_MEMORY_TOLERANCE = 0.10
_LONGEST_NAME = 120
_SIZE = re.compile(r"\b(\d+)\s*(?:gib|gb|g)\b")
_WORD = re.compile(r"\w+")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9 ._/()+-]+")


def find_accelerator(name: str, memory_gb: float | None = None) -> Accelerator | None:
    """The row that a row's name or a driver's string means, or None where that is not certain.

    `memory_gb` is what the device reports. It decides between rows that share a name. A device with
    another memory than its name says is a part of a card, and finds no row.
    """
    for row in accelerators():
        if row.name.casefold() == name.casefold():
            return row
    rows = _rows_called(name)
    if memory_gb is not None:
        rows = [row for row in rows if _has_memory(row, memory_gb)]
    return rows[0] if len(rows) == 1 else None


def find_preset(name: str) -> Preset | None:
    """The preset of exactly this name; "GB10" alone is the device, which has no bytes per token."""
    return next((preset for preset in presets() if preset.name == name), None)


def says_only_a_name(name: str) -> bool:
    """Whether the text is a driver's name of a row, with no other word and no odd character."""
    if any(name.casefold() == row.name.casefold() for row in accelerators()):
        return True
    return _PLAIN_NAME.fullmatch(name) is not None and bool(_rows_called(name))


def known_precisions() -> frozenset[str]:
    """The dtypes that any row has a peak of."""
    return frozenset(dtype for row in accelerators() for dtype in row.flops)


def suggestions(name: str) -> list[str]:
    """Up to five names for an error message: rows that share the name, or else similar names."""
    if len(name) > _LONGEST_NAME:
        return []
    if shared := [row.name for row in _rows_called(name)]:
        return shared[:5]
    wanted = " ".join(word for word in _words(name) if word not in _BRAND_WORDS)
    known = {" ".join(_words(row.name)): row.name for row in accelerators()}
    known |= {" ".join(_words(preset.name)): preset.name for preset in presets()}
    return [known[key] for key in get_close_matches(wanted, known, n=5, cutoff=0.5)]


def _rows_called(name: str) -> list[Accelerator]:
    """The rows with a pattern whose words are in the name, and that know all of its other words."""
    if len(name) > _LONGEST_NAME:
        return []
    words = frozenset(_words(name))
    return [row for row in accelerators() if _is_called(row, words)]


def _has_memory(row: Accelerator, memory_gb: float) -> bool:
    return abs(memory_gb / row.memory_gb - 1) <= _MEMORY_TOLERANCE


def _is_called(row: Accelerator, words: frozenset[str]) -> bool:
    allowed = _BRAND_WORDS | {f"{row.memory_gb:g}gb"}
    patterns = (frozenset(pattern.split()) for pattern in row.patterns)
    return any(pattern <= words <= pattern | allowed for pattern in patterns)


def _words(name: str) -> list[str]:
    """Lower-case words in their order, a size and its unit as one: `80 GB` and `80GiB` → `80gb`."""
    plain = name.casefold().replace("(r)", " ").replace("(tm)", " ").replace("_", " ")
    return _WORD.findall(_SIZE.sub(r"\1gb", plain))


def unknown(name: str, otherwise: str = "") -> WrongUseError:
    """The error about a name that no row has, or that several could have."""
    close = suggestions(name)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    return WrongUseError(
        f"no accelerator is called {name[:80]!r}, or it could be several.{hint}"
        f" `ci-score hardware` lists all{otherwise}."
    )

"""Which options say what the sides are, as a report may repeat them: without secrets and places."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ci_score.measure.sides.command import shell_words
from ci_score.measure.sides.spec import is_secret, launcher_in_words, shown
from ci_score.model.environment import AskedOption

if TYPE_CHECKING:
    from ci_score.measure.sides.preparing import SidesRequest

LONGEST = 200


def asked_of(request: SidesRequest) -> tuple[AskedOption, ...]:
    """The options of a comparison's sides; no value where a report must not tell it.

    A setup may hold a secret in any form, and an interpreter lies where only this machine has it.
    """
    return tuple(_options(request))


def _options(request: SidesRequest) -> Iterator[AskedOption]:
    for name in request.links:
        head = request.head.absolute()
        yield _told("--link", os.path.relpath(head / name, head))
    if request.setup is not None:
        yield AskedOption(option="--setup")
    for option, python in (
        ("--base-python", request.base_python),
        ("--head-python", request.head_python),
    ):
        if python is not None:
            yield AskedOption(option=option)
    yield from _variables("--base-env", request.base_env, request.head_env)
    yield from _variables("--head-env", request.head_env, request.base_env)
    yield from _launchers(request.base_launcher, request.head_launcher)
    if request.keep_trackers:
        yield AskedOption(option="--keep-trackers")


def _variables(
    option: str, own: Mapping[str, str], other: Mapping[str, str]
) -> Iterator[AskedOption]:
    """A variable by its name; its value only where that is told as what differs anyway."""
    for name, value in shown(own).items():
        differs = own[name] != other.get(name)
        is_told = differs and value == own[name] and not is_secret(name)
        row = _told(option, f"{name}={value}") if is_told else None
        # Half a value would be another one.
        yield row if row and row.value else _told(option, name)


def _launchers(base: str | None, head: str | None) -> Iterator[AskedOption]:
    rows = [("--base-launcher", base), ("--head-launcher", head)]
    for option, text in [("--launcher", base)] if base == head else rows:
        if text:
            words = shell_words(text, option)
            told = launcher_in_words(words)
            # What was taken out of it leaves a launcher that nobody can start.
            is_whole = told == " ".join(words)
            yield _told(option, text) if is_whole else AskedOption(option=option)


def _told(option: str, value: str) -> AskedOption:
    return AskedOption(option=option, value=value if len(value) <= LONGEST else None)

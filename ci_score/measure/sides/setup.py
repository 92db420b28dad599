"""`--setup`: makes each side's own environment before anything is timed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import which
from urllib.parse import unquote, urlsplit

from ci_score.errors import CiScoreError, SetupFailedError
from ci_score.files.disk import remove
from ci_score.measure.launch.launching import tail_of
from ci_score.measure.machine.running import Program, run
from ci_score.measure.sides.spec import VENV, SideSpec

MARK = "CI_SCORE_SETUP"
ASK_SECONDS = 60.0
LARGEST_PTH = 1024 * 1024
# Compilers have much to say.
LARGEST_LOG = 1024 * 1024 * 1024
# Where the packages of an interpreter are, those of its user among them.
ASK = "import json, sys; print(json.dumps([path for path in sys.path if 'packages' in path]))"
OWN_ONES = 'give each side one of its own, as --setup "python -m venv .venv && pip install -e ."'


def set_up(
    command: str,
    side: str,
    spec: SideSpec,
    ambient: Mapping[str, str],
    log: Path,
    timeout: float,
    stopped: Callable[[], bool],
) -> None:
    """Runs the command once in the side's folder; CiScoreError says why it failed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    remove(log)
    environment = {**_with_own_first(spec, ambient), MARK: str(log)}
    words = _by_shell(command, ambient)
    mark = f"{MARK}={log}"
    program = Program(words, spec.folder, environment, mark, log, may_print=LARGEST_LOG)
    ran = run(program, timeout, stopped)
    if problem := ran.trouble or ran.harm:
        how = problem.removeprefix("it ")
        raise SetupFailedError(side, f"--setup {how}, in {spec.folder}{tail_of(log)}")


def _by_shell(command: str, ambient: Mapping[str, str]) -> tuple[str, ...]:
    """A shell that stops at the first error.

    `+h`: bash would remember where it found `python`, and miss the one of an environment that the
    command has just made. Other shells cannot be told so.
    """
    bash = which("bash", path=ambient.get("PATH"))
    return (bash, "+h", "-ec", command) if bash else ("/bin/sh", "-ec", command)


def _with_own_first(spec: SideSpec, ambient: Mapping[str, str]) -> dict[str, str]:
    """The side's own `.venv` leads PATH, also one that the command is about to make."""
    found = spec.shell(ambient)
    if spec.python is None:
        own = spec.folder / VENV
        found["PATH"] = os.pathsep.join(
            dict.fromkeys([str(own / "bin"), *found.get("PATH", os.defpath).split(os.pathsep)])
        )
        if not own.is_dir() and "VIRTUAL_ENV" not in spec.variables:
            # Installers would put everything there, and both sides would share it.
            found.pop("VIRTUAL_ENV", None)
    return found


# --- whose code it installed ----------------------------------------------------------------------


def refuse_the_others_code(sides: Mapping[str, SideSpec], ambient: Mapping[str, str]) -> None:
    """An editable install must not point one side at the code of the other."""
    for side, spec in sides.items():
        if spec.runs_in_container:
            continue
        python = which("python", path=spec.shell(ambient).get("PATH"))
        for other, its in sides.items():
            if other == side or python is None:
                continue
            found = _installed_from(python, its.folder, spec, ambient)
            if found:
                raise CiScoreError(
                    f"{side}: its Python ({python}) takes {found} from {other}'s folder, because"
                    f" both sides share an environment; {OWN_ONES}"
                )


def _installed_from(
    python: str, other: Path, spec: SideSpec, ambient: Mapping[str, str]
) -> str | None:
    """The first package of an interpreter that comes from that folder, and not from the side's."""
    for place in _packages_of(python, spec, ambient):
        for file in sorted(place.glob("*.pth")):
            if any(_is_in(line, other, spec.folder) for line in _text(file).splitlines()):
                return file.stem.removeprefix("__editable__.").partition("-")[0]
        for file in sorted(place.glob("*.dist-info/direct_url.json")):
            if _is_in(_origin(file), other, spec.folder):
                return file.parent.name.partition("-")[0]
    return None


def _packages_of(python: str, spec: SideSpec, ambient: Mapping[str, str]) -> list[Path]:
    known = {key: value for key, value in spec.shell(ambient).items() if key != "PYTHONPATH"}
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(  # noqa: S603 - the side's own interpreter, with our own words
            [python, "-c", ASK],
            env=known,
            cwd="/",
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=ASK_SECONDS,
            check=True,
        )
        return [Path(one) for one in json.loads(done.stdout)]
    return []


def _text(file: Path) -> str:
    """What a package has left, which could as well be a device."""
    with suppress(OSError):
        if file.is_file():
            with file.open("rb") as stream:
                return stream.read(LARGEST_PTH).decode(errors="replace")
    return ""


def _origin(file: Path) -> str:
    with suppress(ValueError, AttributeError, TypeError, KeyError, RecursionError):
        told = urlsplit(json.loads(_text(file))["url"])
        return unquote(told.path) if told.scheme == "file" else ""
    return ""


def _is_in(text: str, other: Path, own: Path) -> bool:
    """Whether a text is a path in the other's folder; an own folder within that is not meant."""
    if not text.startswith("/"):
        return False
    path = Path(os.path.realpath(text.strip()))
    other, own = other.resolve(), own.resolve()
    return path.is_relative_to(other) and not (
        path.is_relative_to(own) and own.is_relative_to(other)
    )

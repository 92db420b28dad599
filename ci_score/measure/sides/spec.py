"""What a side is: a checkout and an environment, and so how one of its launches starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from ci_score.errors import WrongUseError

LAUNCH_VARIABLE, HOOK_VARIABLE = "CI_SCORE_LAUNCH_DIR", "CI_SCORE_HOOK"
# The environment that a side has of its own, and where projects keep what is imported.
VENV, SOURCES = ".venv", ("", "src")
# Of another Python than the one that is to run.
PYTHONS_OWN = ("VIRTUAL_ENV", "PYTHONHOME")
# Files by which a step of a workflow tells its runner something that later steps believe.
FILE_COMMANDS = (
    "GITHUB_OUTPUT",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
)
# By their own variables, as their documents name them. Neptune's old and new client have no word
# for "off" in common, and ClearML and MLflow have none: these keep what they log on this machine.
# Aim, TensorBoard and DVCLive write local files only, and have no variable.
TRACKERS_OFF: Mapping[str, str] = {
    "WANDB_MODE": "disabled",
    "COMET_AUTO_LOG_DISABLE": "true",
    "COMET_MODE": "DISABLED",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
MLFLOW_PLACE = "MLFLOW_TRACKING_URI"
ENGINES = ("podman", "docker")
# Options of an engine that a launch cannot have, with the reason.
NOT_FOR_A_LAUNCH = {
    "-d": "a launch is waited for",
    "--detach": "a launch is waited for",
    "--name": "each launch has a name of its own",
}
# Not TOKENIZERS_PARALLELISM, nor a count of tokens.
SECRET = re.compile(r"TOKEN(?![A-Z])|KEYS?(?![A-Z])|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Start:
    """How one launch starts; `ending` is a command that ends what outlives it, if it needs one."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    ending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SideSpec:
    """A checkout and an environment.

    The folder of `python` leads PATH, or else the side's own `.venv`. `linked` is what links in its
    folder point to; a container must see that, too.
    """

    folder: Path
    python: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    launcher: tuple[str, ...] = ()
    keep_trackers: bool = False
    linked: tuple[Path, ...] = ()

    @property
    def programs(self) -> Path | None:
        """The folder of the side's own Python, torchrun and so on; None where PATH says it."""
        if self.python is not None:
            return self.python.parent
        own = self.folder / VENV / "bin"
        return own if own.is_dir() else None

    @property
    def runs_in_container(self) -> bool:
        """Whether the Python of an image runs it, and not one of this machine."""
        return is_container(self.launcher)

    def shell(self, ambient: Mapping[str, str]) -> dict[str, str]:
        """What a program of this side finds in its environment, as the side's owner knows it."""
        unheard = {name: os.devnull for name in FILE_COMMANDS if name in ambient}
        found = {**ambient, **unheard, **self.variables}
        programs = self.programs
        if programs is None:
            return found
        for name in PYTHONS_OWN:
            if name not in self.variables:
                found.pop(name, None)
        if (programs.parent / "pyvenv.cfg").is_file():
            found.setdefault("VIRTUAL_ENV", str(programs.parent))
        found["PATH"] = _joined(str(programs), found.get("PATH", os.defpath))
        return found

    def start(
        self,
        words: Sequence[str],
        ambient: Mapping[str, str],
        hook: Path | None,
        launch: Mapping[str, str],
        places: Iterable[Path] = (),
        files: Iterable[Path] = (),
    ) -> Start:
        """A launch of these words.

        `hook` is the folder that leads PYTHONPATH, `launch` what we tell the launch by variables. A
        container sees the `places`, where the launch writes, and the `files` that the words name.
        """
        trackers = self._trackers(launch)
        if self.runs_in_container:
            own = {**trackers, **self.variables, **launch}
            own["PYTHONPATH"] = self._imports(hook, self.variables.get("PYTHONPATH", ""))
            return self._in_container(words, ambient, own, [*places], [*_known(hook), *files])
        found = {**self.shell({**ambient, **trackers}), **launch}
        found["PYTHONPATH"] = self._imports(hook, found.get("PYTHONPATH", ""))
        return Start((*_in_front(self.launcher), *words), found)

    def _in_container(
        self,
        words: Sequence[str],
        ambient: Mapping[str, str],
        own: Mapping[str, str],
        places: Sequence[Path],
        files: Sequence[Path],
    ) -> Start:
        """PATH and Python are the image's; nothing of this machine's environment goes in."""
        before_run, after_run = container_words(self.launcher)
        name = f"ci-score-{uuid4().hex[:12]}"
        mounts = _mounts([self.folder, *places, *self.linked], files)
        ours = ["run", "--rm", "--name", name, *mounts, "-w", str(self.folder), *_given(own)]
        # The engine gets what its processes are known by, and the secrets: on its command line they
        # would stand in the list of processes.
        handed = {
            key: value
            for key, value in own.items()
            if is_secret(key) or (key.startswith("CI_SCORE_") and key != HOOK_VARIABLE)
        }
        command = (*before_run, *ours, *after_run, *words)
        return Start(command, {**ambient, **handed}, (*before_run, "rm", "-f", name))

    def _imports(self, hook: Path | None, before: str) -> str:
        sources = [path for name in SOURCES if (path := self.folder / name).is_dir()]
        return _joined(*map(str, [*_known(hook), *sources]), before)

    def _trackers(self, launch: Mapping[str, str]) -> dict[str, str]:
        if self.keep_trackers:
            return {}
        place = launch.get(LAUNCH_VARIABLE)
        here = {MLFLOW_PLACE: f"file://{place}/mlruns"} if place else {}
        return {**TRACKERS_OFF, **here}

    def fixed(self) -> dict[str, Any]:
        """What must not change between the sittings of a session, without any secret."""
        return {
            "folder": str(self.folder),
            "python": str(self.python) if self.python else None,
            "variables": shown(self.variables),
            "launcher": launcher_in_words(self.launcher),
            "keep_trackers": self.keep_trackers,
        }


# --- launchers ------------------------------------------------------------------------------------


def is_container(launcher: Sequence[str]) -> bool:
    """Whether a launcher is known to start a container."""
    return bool(launcher) and Path(launcher[0]).name in ENGINES


def container_words(launcher: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The words before and after `run`; ours come first, so that options of the user win."""
    engine = Path(launcher[0]).name
    try:
        place = launcher.index("run", 1)
    except ValueError:
        place = len(launcher)
    after = launcher[place + 1 :]
    if not after:
        raise WrongUseError(
            f'{" ".join(launcher)}: a launch is a container of its own; give "{engine} run IMAGE"'
        )
    for word in after:
        if reason := NOT_FOR_A_LAUNCH.get(word.partition("=")[0]):
            raise WrongUseError(f"{engine} run: leave {word} out, because {reason}")
    return launcher[:place], after


def _in_front(launcher: Sequence[str]) -> Sequence[str]:
    """The launcher's words; srun hands on the environment, even within a job that does not."""
    if not launcher or Path(launcher[0]).name != "srun":
        return launcher
    if any(word.partition("=")[0] == "--export" for word in launcher):
        return launcher
    return (launcher[0], "--export=ALL", *launcher[1:])


def _mounts(writable: Iterable[Path], readable: Iterable[Path]) -> list[str]:
    """Each place at its own path; what lies in one that is mounted already is there."""
    found: list[str] = []
    kept: list[Path] = []
    # An outer folder comes before those within it.
    for path in sorted({*writable}):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
            found += ["-v", f"{_mountable(path)}:{path}"]
    for path in dict.fromkeys(readable):
        if not any(path.is_relative_to(outer) for outer in kept):
            found += ["-v", f"{_mountable(path)}:{path}:ro"]
    return found


def _mountable(path: Path) -> Path:
    if ":" in str(path):
        raise WrongUseError(f"{path}: a container cannot mount a path with a colon; move it")
    return path


def _given(variables: Mapping[str, str]) -> list[str]:
    """The variables as an engine takes them; a secret goes by its name alone."""
    words = []
    for name, value in variables.items():
        words += ["-e", name if is_secret(name) else f"{name}={value}"]
    return words


def _known(path: Path | None) -> list[Path]:
    return [] if path is None else [path]


def _joined(*paths: str) -> str:
    return os.pathsep.join(filter(None, paths))


# --- what may be shown ----------------------------------------------------------------------------


def is_secret(name: str) -> bool:
    """Whether a variable of that name may hold a secret."""
    return SECRET.search(name) is not None


def shown(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables without a secret in them."""
    return {
        name: "set" if is_secret(name) else _LOGIN.sub("://…@", value)
        for name, value in sorted(variables.items())
    }


def launcher_in_words(launcher: Sequence[str]) -> str | None:
    """A launcher as text, without a secret that it hands on."""
    words: list[str] = []
    before = ""
    for word in launcher:
        is_value = before.startswith("-") and "=" not in before and is_secret(before)
        words.append("set" if is_value else _without_secret(word))
        before = word
    return " ".join(words) or None


def _without_secret(word: str) -> str:
    """`NAME=value` or `--env=NAME=value` with `set` for the value of a secret."""
    name, equals, rest = word.partition("=")
    if equals and is_secret(name):
        return f"{name}=set"
    return f"{name}={_without_secret(rest)}" if equals else _LOGIN.sub("://…@", word)

"""The user's own command: each side runs its own copy of the files that it names.

Python puts a script's own folder before everything else when it imports. A script of one side that
ran for both would import that side's code, and compare it with itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import which

from ci_score.errors import LacksProgramError, WrongUseError
from ci_score.measure.sides.spec import VENV, SideSpec

# In a word: the launch's fresh folder.
OUT = "{out}"
SCRIPTS = (".py", ".sh")
# What a program reads. Any other file may be one that an earlier run has written.
READ = (*SCRIPTS, ".yaml", ".yml", ".toml", ".ini", ".cfg")
# What a shell reads before a program's name, and what it makes of a line.
ASSIGNMENT, SHELLS_OWN = re.compile(r"[A-Za-z_]\w*="), re.compile(r"[;&|<>]|^cd ")
LARGEST_READ = 16 * 1024 * 1024
# What comes with a Python, and runs another one only by mistake.
OF_A_PYTHON = ("python", "torchrun", "accelerate", "deepspeed")


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command; `files` are those that it names outside of all sides."""

    words: tuple[str, ...]
    files: tuple[Path, ...] = ()

    def of_launch(self, out: Path) -> tuple[str, ...]:
        """The words of one launch, which has a fresh folder."""
        return tuple(word.replace(OUT, str(out)) for word in self.words)

    @property
    def digest(self) -> str:
        """Changes with the files that both sides share: another benchmark is another session."""
        found = sha256()
        for path in self.files:
            if path.suffix in READ and path.stat().st_size <= LARGEST_READ:
                found.update(path.read_bytes())
        return found.hexdigest()[:16]

    def refuse_unless_startable(
        self, sides: Mapping[str, SideSpec], ambient: Mapping[str, str]
    ) -> None:
        """Says which program is not found, or belongs to another Python than the side's."""
        for side, spec in sides.items():
            path = spec.shell(ambient).get("PATH")
            if spec.launcher:
                _program(spec.launcher[0], side, spec, path)
            if not spec.runs_in_container:
                _program(self.words[0], side, spec, path)
        if Path(self.words[0]).name.startswith(OF_A_PYTHON):
            _refuse_a_chance_python(self.words[0], sides, ambient)


def command_of(words: Sequence[str], sides: Mapping[str, Path], here: Path) -> Command:
    """The command for these sides; a file of the current folder is told by its whole path."""
    found, files = [], []
    for number, word in enumerate(words):
        key, equals, value = word.rpartition("=")
        file = _shared(word, sides, here, is_program=number == 0)
        if file is None and equals and not value.startswith("-"):
            file = _shared(value, sides, here, is_program=False)
        else:
            key, equals = "", ""
        if file is not None:
            files.append(file)
        found.append(word if file is None else f"{key}{equals}{file}")
    _refuse_missing(found, sides)
    return Command(tuple(found), tuple(dict.fromkeys(files)))


def _shared(word: str, sides: Mapping[str, Path], here: Path, *, is_program: bool) -> Path | None:
    """The file outside of all sides that a word names, if it names one."""
    if not word or (is_program and "/" not in word) or len(word) > 4096:
        return None
    having = [side for side, folder in sides.items() if _is_file(folder / word)]
    path = Path(word)
    if len(having) == len(sides) and not path.is_absolute():
        return None
    file = (here / word).absolute()
    owner = next((side for side, folder in sides.items() if _lies_in(file, folder)), None)
    if is_program and path.suffix not in SCRIPTS:
        # Not resolved: the Python of an environment is a link to one that knows nothing of it.
        return file if _is_file(file) and not having else None
    if path.suffix in READ and len(sides) > 1:
        _refuse_one_sided(word, sides, having, file, owner)
    return file if _is_file(file) and owner is None else None


def _refuse_one_sided(
    word: str, sides: Mapping[str, Path], having: list[str], file: Path, owner: str | None
) -> None:
    """A file of one side cannot serve both."""
    if owner is not None and _is_file(file) and (Path(word).is_absolute() or not having):
        name = file.resolve().relative_to(sides[owner].resolve())
        raise WrongUseError(
            f"{word} lies in {owner}'s folder; write it as {name}, so that each side runs its own"
        )
    lacking = [side for side in sides if side not in having]
    if having and lacking and not Path(word).is_absolute():
        raise LacksProgramError(
            lacking[0],
            f"{lacking[0]} lacks {word}: there is one in {having[0]} only; commit it on"
            " both sides, or give the path of a file outside of both",
        )


def _refuse_missing(words: Sequence[str], sides: Mapping[str, Path]) -> None:
    """The script that an interpreter is to run, where that can be told."""
    for word in words[1:]:
        if word in ("-c", "-m") or " " in word:
            return
        if not word.startswith("-") and word.endswith(SCRIPTS):
            for side, folder in sides.items():
                if OUT not in word and not _is_file(folder / word):
                    place = f"here or in {side}: {folder}" if len(sides) > 1 else f"in {folder}"
                    raise WrongUseError(f"there is no {word} {place}")
            return


def _program(word: str, side: str, spec: SideSpec, path: str | None) -> None:
    # As the launch looks for it: a name in PATH, a path from the side's folder.
    found = which(str(spec.folder / word) if "/" in word else word, path=path)
    if found is None:
        raise LacksProgramError(side, _not_found(word, side, spec, path))
    programs = spec.programs
    if programs is None or "/" in word or not Path(word).name.startswith(OF_A_PYTHON):
        return
    if Path(found).parent != programs:
        raise WrongUseError(
            f"{side}: there is no {word} in {programs}, and {found} belongs to another Python;"
            f" install it there, or give its whole path"
        )


def _refuse_a_chance_python(
    word: str, sides: Mapping[str, SideSpec], ambient: Mapping[str, str]
) -> None:
    """Where one side has a `.venv`, the other must not take what happens to be on PATH."""
    found = {
        side: which(word, path=spec.shell(ambient).get("PATH"))
        for side, spec in sides.items()
        if spec.python is None and "PATH" not in spec.variables and not spec.runs_in_container
    }
    having = [side for side in found if sides[side].programs is not None]
    for side, program in found.items():
        if having and side not in having and program != found[having[0]]:
            raise WrongUseError(
                f"{having[0]} has a {VENV} and {side} has none, so {side} would run by {program};"
                f" activate the {VENV} for both, or give {side} one by --setup or --{side}-python"
            )


def _not_found(word: str, side: str, spec: SideSpec, path: str | None) -> str:
    runner = "bash" if word.endswith(".sh") else "python"
    if word.endswith(SCRIPTS) and (_is_file(spec.folder / word) or _is_file(Path(word))):
        return f'{word} cannot be started as a program; did you mean "{runner} {word}"?'
    if not word or word.startswith("-"):
        return (
            f"{side}: {word!r} is no program; behind -- comes yours, and ci-score's own options"
            " before it"
        )
    if ASSIGNMENT.match(word):
        return (
            f"{side}: {word.partition('=')[0]}=… is a variable and no program; write -- env before"
            " it"
        )
    if SHELLS_OWN.search(word):
        return f"{side}: {word!r} is a line for a shell; write -- bash -c {shlex.quote(word)}"
    if " " in word:
        return f"{side}: there is no program {word!r}; leave its quotes out: -- {word}"
    if "/" in word:
        return f"there is no program {word} here or in {side}: {spec.folder}"
    # As many systems have it, which keep the shorter name for environments.
    has_other = word == "python" and which("python3", path=path) is not None
    other = " Or did you mean python3?" if has_other else ""
    return (
        f"{side}: there is no program {word}; is it installed, and its environment active?{other}"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _lies_in(file: Path, folder: Path) -> bool:
    return file.resolve().is_relative_to(folder.resolve())


def shell_words(text: str, option: str) -> tuple[str, ...]:
    """The words of a launcher, as a shell takes them apart."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUseError(f"{option}: {error} in {text!r}") from None
    if not words:
        raise WrongUseError(f'{option}: it is empty; give a program, as "srun -N1"')
    return tuple(words)

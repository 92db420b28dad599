"""One harness for both sides: its files are taken once, and run from a place that is neither's.

Python puts a script's own folder before everything else when it imports. A harness that was run
where it stands would import what stands beside it, on both sides, and compare it with itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import which

from ci_score.errors import WrongUseError

FOLDER = "harness"
# Where projects keep what is imported, beside the folder itself.
SOURCES = ("", "src")
# Beside Python: what runs a script that lies on this machine.
SCRIPT_RUNNERS = ("sh", "bash", "torchrun")


@dataclass(frozen=True, slots=True)
class Harness:
    """A command whose files are the same for both sides.

    `copies` are the scripts with their place in the session's folder, `imports` the folders of a
    side that its code is imported from.
    """

    words: tuple[str, ...]
    copies: Mapping[Path, Path]
    imports: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Tells harnesses apart: measurements of two are no pair."""
        return sha256(b"".join(path.read_bytes() for path in self.copies)).hexdigest()[:16]

    def is_run_by(self, python: str) -> bool:
        """Whether the program is of the same environment as that Python."""
        found = which(self.words[0])
        return found is not None and Path(found).parent == Path(python).parent

    def refuse_unless_startable(self, sides: Iterable[Path], option: str = "harness") -> None:
        """What is mistyped is said before anything is launched."""
        first, script = self.words[0], _script_in(self.words)
        if script is not None and Path(script) in self.copies.values():
            script = None
        for side in sides:
            # As the launch looks for it: a name in PATH, a path in the side's folder.
            program = str(side / first) if "/" in first else first
            if which(program) is None:
                raise WrongUseError(f"{option}: {_not_startable(first, side)}")
            if script is not None and not (side / script).is_file():
                raise WrongUseError(f"{option}: there is no {script}, neither here nor in {side}")

    def install(self) -> None:
        """Puts the scripts where they are run."""
        for source, place in self.copies.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(source.read_bytes())


def _script_in(words: tuple[str, ...]) -> str | None:
    """The script that an interpreter is to run, where that can be told."""
    name = Path(words[0]).name
    if not name.startswith(("python", "pypy")) and name not in SCRIPT_RUNNERS:
        return None
    for word in words[1:]:
        if word in ("-c", "-m"):
            return None
        if not word.startswith("-") and word.endswith((".py", ".sh")):
            return word
    return None


def _not_startable(first: str, side: Path) -> str:
    if first.endswith(".py") and (Path(first).is_file() or (side / first).is_file()):
        return f'{first} is no program that can be started; did you mean "python {first}"?'
    where = f", neither here nor in {side}" if "/" in first else ""
    return f"there is no program {first}{where}"


def harness_of(text: str, head: Path, out: Path, option: str = "harness") -> Harness:
    """The words of a command; a file that it names is looked for here, and then in head's folder.

    The program itself is left to each side where both have one, as the Python of an environment
    that was built for it.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUseError(f"{option}: {error}") from None
    if not words:
        raise WrongUseError(f'{option}: it is empty; give a command, as "python bench.py"')
    copies: dict[Path, Path] = {}
    imports = dict.fromkeys(SOURCES)
    first, *rest = words
    if "/" in first and Path(first).is_file():
        # Not resolved: the Python of an environment is a link to one that knows nothing of it.
        first = str(Path(first).absolute())
    found = [first]
    for word in rest:
        file = next((path for path in (Path(word), head / word) if path.is_file()), None)
        if file is not None and file.suffix == ".py":
            place = out / FOLDER / file.name
            if place in copies.values():
                place = out / FOLDER / str(len(copies)) / file.name
            place = copies.setdefault(file.absolute(), place)
            if not Path(word).is_absolute() and ".." not in Path(word).parts:
                imports[str(Path(word).parent)] = None
            found.append(str(place))
        else:
            found.append(word if file is None else str(file.absolute()))
    return Harness(tuple(found), copies, tuple(name for name in imports if name != "."))

"""What a repository trains with, from its text alone: nothing of a stranger's code is executed.

Only regular files are read, each up to a limit, and no more of them than there may be: a checkout
can hold anything.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

MOST_ENTRIES, MOST_SCRIPTS, DEEPEST = 5000, 500, 4
LARGEST_FILE = 256 * 1024
NOTEBOOK = ".ipynb"
MAIN = "__main__.py"
# Folders with nobody's training script in them.
_SKIPPED = frozenset({"node_modules", "site-packages", "build", "dist", "test", "tests", "docs"})
_LISTS = (
    "requirements.txt",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "environment.yml",
    "environment.yaml",
    "Pipfile",
)
_PIP = "python3 -m venv .venv && .venv/bin/python -m pip install"
_IS_PACKAGE = re.compile(r"^\[(?:project|build-system)\]", re.MULTILINE)
_IS_POETRY = re.compile(r"^\[tool\.poetry\]", re.MULTILINE)
_POETRY = "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install --no-interaction"
# Names of lists that a training hardly needs, and of those that it probably does.
_NOT_TO_TRAIN = re.compile(r"dev|test|doc|lint|build|ci(?![a-z])", re.IGNORECASE)
_TO_TRAIN = re.compile(r"train|gpu|cuda", re.IGNORECASE)
# A line of a README that installs packages by their plain names.
_TOLD = re.compile(
    r"^[ \t$>]*(?:python3? -m )?pip3? install((?: [A-Za-z0-9][\w.-]*(?:==[\w.]+)?)+)[ \t]*$",
    re.MULTILINE | re.ASCII,
)
# What makes `.venv` in the folder where it runs, by the tool's own file.
_LOCKS = {
    "uv.lock": "uv sync --frozen",
    "poetry.lock": _POETRY,
    "pdm.lock": "pdm install --frozen-lockfile",
    "Pipfile.lock": "PIPENV_VENV_IN_PROJECT=1 pipenv sync",
}
_CONDA = "conda env create --prefix .venv --file"
_CONDA_LISTS = ("environment.yml", "environment.yaml")
# A path that a shell, YAML and GitHub's expressions all take as plain text.
_PLAIN = re.compile(r"[\w.@+/-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Framework:
    """A library that trains: how it is imported, and how a list of requirements names it."""

    name: str
    module: str
    package: str


FRAMEWORKS = (
    Framework("PyTorch", "torch", "torch"),
    Framework("Hugging Face transformers", "transformers", "transformers"),
    Framework("Lightning", "(?:pytorch_)?lightning", "(?:pytorch[-_])?lightning"),
    Framework("Accelerate", "accelerate", "accelerate"),
    Framework("JAX", "(?:jax|flax)", "(?:jax|flax)"),
)
_TRAINS = re.compile(
    r"\.backward\(|\bTrainer\(|\.fit\(|\.train\(\)|optimizer\.step\(|\bvalue_and_grad\(|\bjax\.grad\("
)
_IS_PROGRAM = re.compile(r"^if __name__ == ['\"]__main__['\"]", re.MULTILINE)
_RELATIVE_IMPORT = re.compile(r"^from \.", re.MULTILINE)
_RANKS = re.compile(r"\binit_process_group\(|\binit_device_mesh\(")
_NAMED_SO = re.compile(r"(?:^|[_-])(?:pre)?train(?:$|[_-])|^finetune|^sft", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Script:
    """A file that seems to train: where it lies, and what it does."""

    path: str
    points: int
    frameworks: tuple[str, ...]
    has_ranks: bool
    module: str | None

    @property
    def command(self) -> tuple[str, ...]:
        """How it is started."""
        target = ("-m", self.module) if self.module else (self.path,)
        if self.has_ranks:
            return ("torchrun", "--standalone", "--nproc-per-node", "2", *target)
        return ("python", *target)


@dataclass(frozen=True, slots=True)
class Repository:
    """What was found; `scripts` are the likeliest first, `is_whole` says that all was looked at.

    Of `notebooks` there are only names that can be printed.
    """

    frameworks: tuple[str, ...]
    scripts: tuple[Script, ...]
    notebooks: tuple[str, ...]
    install: str | None
    is_whole: bool

    @property
    def command(self) -> tuple[str, ...] | None:
        """How the likeliest script is started."""
        return self.scripts[0].command if self.scripts else None


def look_at(folder: Path) -> Repository:
    """Reads a repository: its lists of requirements, and its Python files."""
    files, is_whole = _files(folder)
    scripts = sorted(
        filter(None, (_script(folder, path) for path in files if path.suffix == ".py")),
        key=lambda script: (-script.points, script.path.count("/"), script.path),
    )
    near = [folder, *(folder / parent for parent in _parents(scripts[0].path if scripts else ""))]
    needed = "\n".join(_text(place / name) for place in near for name in _LISTS)
    imported = {name for script in scripts for name in script.frameworks}
    frameworks = tuple(
        row.name
        for row in FRAMEWORKS
        if row.name in imported or re.search(rf"(?<![\w.-]){row.package}(?![\w-])", needed)
    )
    names = (path.relative_to(folder).as_posix() for path in files if path.suffix == NOTEBOOK)
    notebooks = tuple(name for name in names if _PLAIN.fullmatch(name))
    return Repository(frameworks, tuple(scripts), notebooks, _install(folder, near), is_whole)


# --- what it needs --------------------------------------------------------------------------------


def _parents(script: str) -> list[str]:
    """The folders between the top and a script, the nearest to it last."""
    return [str(parent) for parent in reversed(PurePosixPath(script).parents[:-1])]


def _install(folder: Path, near: Sequence[Path]) -> str | None:
    """The command that makes a side's own .venv; None where nothing says how.

    A lock at the top says most; then come the lists, the nearest to the script first.
    """
    for name, command in _LOCKS.items():
        if (folder / name).is_file():
            return command
    for place in reversed(near):
        found = _pip_of(place)
        if found is not None:
            option, name = found
            return f"{_PIP} {option}{(place / name).relative_to(folder).as_posix()}"
    if (folder / "Pipfile").is_file():
        return "PIPENV_VENV_IN_PROJECT=1 pipenv install"
    if _IS_POETRY.search(_text(folder / "pyproject.toml")):
        return _POETRY
    for path in (place / name for place in reversed(near) for name in _CONDA_LISTS):
        if path.is_file():
            return f"{_CONDA} {path.relative_to(folder).as_posix()}"
    return _told_by_readme(folder)


def _told_by_readme(folder: Path) -> str | None:
    """The packages that a README says to install, if a framework is among them."""
    for name in ("README.md", "README.rst", "README.txt", "README"):
        for told in _TOLD.finditer(_text(folder / name)):
            if any(re.search(rf" {row.package}(?![\w-])", told[1]) for row in FRAMEWORKS):
                return f"{_PIP}{told[1]}"
    return None


def _pip_of(place: Path) -> tuple[str, str] | None:
    """What pip is to install in a folder: the option, and the path after it."""
    lists = sorted(place.glob("requirements*.txt")) or sorted(place.glob("requirements/*.txt"))
    names = [path.relative_to(place).as_posix() for path in lists if path.is_file()]
    names = [name for name in names if _PLAIN.fullmatch(name)]
    if names:
        return "-r ", min(names, key=lambda name: _unlikeliness(place, name))
    if _IS_PACKAGE.search(_text(place / "pyproject.toml")) or (place / "setup.py").is_file():
        return "-e ", ""
    return None


def _unlikeliness(place: Path, name: str) -> tuple[bool, ...]:
    """How little a list looks like what the training needs; a person decides in the end."""
    text = _text(place / name)
    return (
        name != "requirements.txt",
        bool(_NOT_TO_TRAIN.search(name)),
        not any(re.search(rf"(?m)^{row.package}(?![\w-])", text) for row in FRAMEWORKS),
        not _TO_TRAIN.search(name),
    )


# --- files ----------------------------------------------------------------------------------------


def _files(folder: Path) -> tuple[list[Path], bool]:
    """The Python files and notebooks, the nearest first, and whether these are all."""
    found: list[Path] = []
    waiting, seen = deque([(folder, 0)]), 0
    while waiting:
        here, depth = waiting.popleft()
        for entry in _entries(here, MOST_ENTRIES - seen):
            seen += 1
            if entry.is_file(follow_symlinks=False) and entry.name.endswith((".py", NOTEBOOK)):
                found.append(Path(entry.path))
            elif entry.is_dir(follow_symlinks=False) and _is_theirs(entry) and depth < DEEPEST:
                waiting.append((Path(entry.path), depth + 1))
        if seen >= MOST_ENTRIES or len(found) >= MOST_SCRIPTS:
            return found[:MOST_SCRIPTS], False
    return found, True


def _entries(folder: Path, most: int) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(islice(entries, most), key=lambda entry: entry.name)
    except OSError:
        return


def _is_theirs(entry: os.DirEntry[str]) -> bool:
    """Whether a folder may have the repository's own code: hidden ones and environments do not."""
    is_skipped = entry.name.startswith(".") or entry.name in _SKIPPED
    return not is_skipped and not Path(entry.path, "pyvenv.cfg").exists()


def _text(path: Path) -> str:
    """The beginning of a regular file; empty where there is none."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as stream:
            return stream.read(LARGEST_FILE).decode(errors="replace")
    except OSError:
        return ""


# --- which one trains -----------------------------------------------------------------------------


def _script(folder: Path, path: Path) -> Script | None:
    """A file as a training script, if it is one and a workflow can name it."""
    name, text = path.relative_to(folder).as_posix(), _text(path)
    frameworks = tuple(
        row.name
        for row in FRAMEWORKS
        if re.search(rf"^[ \t]*(?:import|from)[ \t]+{row.module}\b", text, re.MULTILINE)
    )
    is_named_so = bool(_NAMED_SO.search(path.stem))
    is_program = bool(_IS_PROGRAM.search(text)) or path.name == MAIN
    trains = bool(_TRAINS.search(text))
    is_test = path.name.startswith(("test_", "conftest"))
    if not frameworks or is_test or not _PLAIN.fullmatch(name) or name.startswith("-"):
        return None
    if not (trains or is_named_so) or not (is_program or is_named_so):
        return None
    points = 4 * (path.stem == "train") + 2 * is_named_so + 3 * trains + 2 * is_program
    # A framework of its own starts the ranks, or none does.
    has_ranks = bool(_RANKS.search(text)) and not {"Lightning"} & set(frameworks)
    return Script(name, points, frameworks, has_ranks, _module(folder, path, text))


def _module(folder: Path, path: Path, text: str) -> str | None:
    """The name after `-m` for a file of a package that imports its neighbours; else None."""
    parts = path.relative_to(folder).with_suffix("").parts
    if parts[0] == "src":  # a side's own src leads the path
        parts = parts[1:]
    if len(parts) < 2:
        return None
    own = rf"^[ \t]*(?:from|import)[ \t]+{re.escape(parts[0])}[. \t]"
    if parts[-1] == Path(MAIN).stem:  # a package is started by its own name
        return ".".join(parts[:-1])
    imports_own = _RELATIVE_IMPORT.search(text) or re.search(own, text, re.MULTILINE)
    return ".".join(parts) if imports_own else None

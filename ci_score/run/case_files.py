"""Which files belong to which case, by `name=glob` lines, folders, and members of artifacts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath

from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.checkpoints import checkpoints_among, folders_of
from ci_score.files.disk import leaves, read_bytes
from ci_score.files.failures import FAILED_FILE, LARGEST_FAILURE, failure_in
from ci_score.launches import ENVIRONMENT_FILE
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import DEFAULT_CASE, MOST_CASES, case_name, of_attempt
from ci_score.traces import ProfileSource

_CASE_NAME = re.compile(r"[A-Za-z0-9@._+-]{1,64}")
_NAMED = re.compile(r"(?P<name>[^=/*?\[\]]+)=(?P<pattern>.+)")
_GLOB = re.compile(r"[*?\[]")
# Of 256 cases forty each, such as those of ranks.
MOST_FILES = 10_000
# What a folder may hold that is looked through, of any kind.
MOST_LOOKED_AT = 100_000
# Below the folder that was named. Each level is looked at for every file in it.
DEEPEST = 32
# Of these cases a report says what they said last.
MOST_FAILURES = 4
# What `ci-score ab` keeps beside its measurements.
SESSION_FILE, PROFILES_FOLDER = "session.json", "profiles"
SESSION_FOLDERS = frozenset({PROFILES_FOLDER, "logs", "launches", "traces"})


@dataclass(frozen=True, slots=True)
class CaseSource:
    """One line of an input: where to look, and the case's name if the line gives it."""

    pattern: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file of a case that is not read yet: in the workspace, or a member of an artifact.

    `named` says that the user named this very file, and not a folder or glob with it.
    `attempt` is the attempt of the run that left it, where a folder's name tells that, and
    `left_out` says why it is of another run. An
    `environment` is the environment.json beside it, or the nearest one above it in that folder.
    `profiles` are those of each side that `ci-score ab` left beside its measurements.
    """

    name: str
    path: Path | None = None
    data: bytes | None = None
    problem: str = ""
    named: bool = False
    attempt: int = 0
    left_out: Reason | None = None
    environment: CaseFile | None = None
    profiles: Mapping[str, tuple[CaseFile, ...]] = field(default_factory=dict)
    step_name: re.Pattern[str] | None = None
    until: float | None = None

    def source(self) -> ProfileSource:
        """The file for a reader of profiles; BadInputError if it must not be read."""
        if self.problem:
            raise BadInputError(self.name, found=self.problem, expected="a file of the workspace")
        return ProfileSource(
            self.name, self.path, self.data, step_name=self.step_name, until=self.until
        )

    def read(self) -> bytes:
        """All of its bytes; for small files only."""
        return self.source().whole()


CaseFiles = dict[str, list[CaseFile]]


def to_be_read(
    files: CaseFiles, step_name: re.Pattern[str] | None, until: float | None = None
) -> CaseFiles:
    """The same files, in which steps are called so, and which are read until then.

    So are those of each side of a session, and what describes the machine.
    """

    def prepared(file: CaseFile) -> CaseFile:
        sides = {side: tuple(map(prepared, of_side)) for side, of_side in file.profiles.items()}
        beside = prepared(file.environment) if file.environment else None
        return replace(file, step_name=step_name, until=until, profiles=sides, environment=beside)

    return {case: [prepared(file) for file in of_case] for case, of_case in files.items()}


def parse_sources(text: str, what: str) -> tuple[CaseSource, ...]:
    """The lines of an input; WrongUseError if a case has a name that is not allowed."""
    sources = []
    for line in filter(None, map(str.strip, text.splitlines())):
        named = _NAMED.fullmatch(line)
        if named is None:
            sources.append(CaseSource(line))
            continue
        name = named["name"].strip()
        if not _CASE_NAME.fullmatch(name):
            raise WrongUseError(
                f"{what}: {name[:80]!r} cannot name a case;"
                " use up to 64 letters, digits and @ . _ + -"
            )
        sources.append(CaseSource(named["pattern"].strip(), name))
    return tuple(sources)


def find_files(
    sources: Iterable[CaseSource],
    workspace: Path,
    is_input: Callable[[str], bool] | None = None,
    *,
    may_leave: bool = False,
) -> CaseFiles:
    """The files of each case. A case that a line names is there even if it has no files.

    From folders and globs it takes only the files whose names `is_input` accepts; by default those
    that can be a profile. A path that `may_leave` the workspace is one that a person has typed.
    """
    files_of: CaseFiles = {}
    wanted, named_by = is_input or _is_profile, _anywhere if may_leave else _in_workspace
    for source in sources:
        if source.name is not None:
            files_of.setdefault(source.name, [])
        for path in named_by(source.pattern, workspace, wanted):
            named = path.is_file() and _GLOB.search(source.pattern) is None
            for case, file in _files_of(path, source.name, workspace, wanted):
                files_of.setdefault(case, []).append(replace(file, named=named))
    if sum(map(len, files_of.values())) > MOST_FILES:
        raise WrongUseError(f"more than {MOST_FILES} files; name fewer of them")
    if len(files_of) > MOST_CASES:
        raise WrongUseError(f"{len(files_of)} cases, at most {MOST_CASES} are judged in one report")
    return files_of


def find_measurements(
    sources: Iterable[CaseSource], workspace: Path, *, may_leave: bool = False
) -> CaseFiles:
    """The files of measurements, the first of each session with the session's profiles."""
    found = find_files(sources, workspace, is_measurement, may_leave=may_leave)
    return {case: list(_with_profiles(files, workspace)) for case, files in found.items()}


def _with_profiles(files: Iterable[CaseFile], workspace: Path) -> Iterator[CaseFile]:
    """A session has one file, and a stranger's folder may have thousands beside its profiles."""
    sessions: set[Path] = set()
    for file in files:
        if file.path is None or file.problem or file.path.parent in sessions:
            yield file
            continue
        sessions.add(file.path.parent)
        yield replace(file, profiles=_session_profiles(file.path.parent, workspace))


def _session_profiles(session: Path, workspace: Path) -> dict[str, tuple[CaseFile, ...]]:
    folders = {side: session / PROFILES_FOLDER / side for side in ("head", "base")}
    return {
        side: tuple(file for _, file in _files_of(folder, side, workspace, _is_profile))
        for side, folder in folders.items()
        if folder.is_dir()
    }


def said_by_failures(sources: Iterable[CaseSource], workspace: Path) -> Iterator[Reason]:
    """What the newest attempt of each case has left of why it failed: a stranger's words.

    They are only shown, so a file that is too large or holds something else is left out.
    """
    try:
        found = find_files(sources, workspace, lambda name: name == FAILED_FILE)
    except WrongUseError:
        return
    for case, files in islice(sorted(found.items()), MOST_FAILURES):
        newest = max((file.attempt for file in files), default=0)
        for file in [one for one in files if one.attempt == newest and one.path][:1]:
            with suppress(BadInputError):
                data = read_bytes(str(file.source().path), LARGEST_FAILURE)
                yield Why.MEASURING_SAID(case=case, words=failure_in(data, file.name))


def is_measurement(name: str) -> bool:
    """Whether a file in a folder can hold measurements, by its name."""
    return name.endswith(".jsonl") and not name.startswith(".")


def files_of_artifact(members: Iterable[tuple[str, bytes]], case: str | None) -> CaseFiles:
    """The members of one artifact: all of the named case, else one case per top folder."""
    files_of: CaseFiles = {case: []} if case else {}
    whole = dict(members)
    checkpoints = checkpoints_among(map(PurePosixPath, whole))
    for name, data in whole.items():
        path = PurePosixPath(name)
        folders = folders_of(path, checkpoints)
        if folders is not None and path.name and _is_profile(path.name):
            folder, attempt = _case_of_folders(folders)
            beside = _environment_among(whole, name)
            file = CaseFile(name, data=data, attempt=attempt, environment=beside)
            files_of.setdefault(case or folder, []).append(file)
    return files_of


def _case_of_folders(folders: Sequence[str]) -> tuple[str, int]:
    """The case and the attempt in a file's folders: the top one's, or that of `CASE~ATTEMPT`.

    Where artifacts were not merged, each has a folder of its own name above that one.
    """
    for folder in reversed(folders[:2]):
        name, attempt = of_attempt(folder)
        if attempt:
            return case_name(name), attempt
    return (case_name(folders[0]) if folders else DEFAULT_CASE), 0


def _environment_among(members: Mapping[str, bytes], name: str) -> CaseFile | None:
    for folder in PurePosixPath(name).parents:
        beside = str(folder / ENVIRONMENT_FILE)
        if beside in members:
            return CaseFile(beside, data=members[beside])
    return None


def has_no_name(case: str) -> bool:
    """Whether neither a folder nor an artifact nor the user has named the case."""
    return case == DEFAULT_CASE


def _in_workspace(pattern: str, workspace: Path, is_input: Callable[[str], bool]) -> list[Path]:
    """What a job's input names: nothing outside, and nothing behind a stranger's link."""
    if PurePosixPath(pattern).is_absolute():
        inside = _inside(Path(pattern), workspace)
        pattern = str(inside)
    if ".." in PurePosixPath(pattern).parts:
        raise _outside(pattern, workspace)
    exact = workspace / pattern
    if exact.exists():
        return [exact]
    begin = workspace.joinpath(*takewhile(_is_plain, PurePosixPath(pattern).parts))
    if leaves(begin, workspace):
        return [begin]
    return _matches(workspace, pattern, is_input)


def _anywhere(pattern: str, workspace: Path, is_input: Callable[[str], bool]) -> list[Path]:
    """What a person names on a machine of their own, wherever it is and by whichever link."""
    exact = workspace / pattern
    plain = exact if exact.exists() else Path(*takewhile(_is_plain, exact.parts))
    begin, rest = plain.resolve(), exact.parts[len(plain.parts) :]
    if begin.is_relative_to(workspace.resolve()):
        begin = workspace / begin.relative_to(workspace.resolve())
    if not rest:
        return [begin] if begin.exists() else []
    if ".." in rest:
        raise WrongUseError(f"{pattern}: `..` cannot follow a * or ?")
    return _matches(begin, "/".join(rest), is_input)


def _matches(folder: Path, pattern: str, is_input: Callable[[str], bool]) -> list[Path]:
    try:
        return sorted(path for path in folder.glob(pattern) if is_input(path.name))
    except (ValueError, NotImplementedError) as error:
        raise WrongUseError(f"{pattern}: this is not a pattern ({error})") from None


def _is_plain(part: str) -> bool:
    return _GLOB.search(part) is None


def _inside(path: Path, workspace: Path) -> Path:
    try:
        return path.relative_to(workspace)
    except ValueError:
        raise _outside(str(path), workspace) from None


def _outside(path: str, workspace: Path) -> WrongUseError:
    return WrongUseError(
        f"{path}: it lies outside the workspace, {workspace}, and a job reads nothing else. In a"
        " container, paths of the runner's host do not exist: use a relative path"
    )


def _files_of(
    path: Path, name: str | None, workspace: Path, is_input: Callable[[str], bool]
) -> Iterator[tuple[str, CaseFile]]:
    if not path.is_dir() or (path.is_relative_to(workspace) and leaves(path, workspace)):
        case, attempt = _case_of_folders(_attempt_folder(path.parent))
        yield name or case, _case_file(path, workspace, path.parent, attempt)
        return
    found = [file for file in sorted(_below(path)) if file.is_file()]
    checkpoints = checkpoints_among(file.relative_to(path) for file in found)
    for file in found:
        folders = folders_of(file.relative_to(path), checkpoints)
        if folders is None or not is_input(file.name):
            continue
        if not _is_kept_by_a_session(file, path):
            case, attempt = _case_of_folders(folders or _attempt_folder(path))
            yield name or case, _case_file(file, workspace, path, attempt)


def _below(folder: Path) -> list[Path]:
    """All that lies below the folder, if that is no more than somebody has measured."""
    deep = f"{folder.name}: folders lie more than {DEEPEST} deep in it; name one of them"
    try:
        below = list(islice(folder.rglob("*"), MOST_LOOKED_AT + 1))
    except RecursionError:
        raise WrongUseError(deep) from None
    if len(below) > MOST_LOOKED_AT:
        raise WrongUseError(
            f"{folder.name}: more than {MOST_LOOKED_AT} files lie below it; name a smaller folder"
        )
    if any(len(path.parts) > len(folder.parts) + DEEPEST for path in below):
        raise WrongUseError(deep)
    return below


def _attempt_folder(path: Path) -> tuple[str, ...]:
    """The folder that was named itself, if its name tells the attempt."""
    return (path.name,) if of_attempt(path.name)[1] else ()


def _is_kept_by_a_session(file: Path, top: Path) -> bool:
    """Whether it is in a folder that `ci-score ab` keeps, below the one that was named."""
    folders = file.relative_to(top).parts[:-1]
    return any(
        name in SESSION_FOLDERS and (top.joinpath(*folders[:depth]) / SESSION_FILE).is_file()
        for depth, name in enumerate(folders)
    )


def _case_file(path: Path, workspace: Path, top: Path, attempt: int) -> CaseFile:
    beside = _environment_beside(path, workspace, top)
    return replace(_file_in(workspace, path), attempt=attempt, environment=beside)


def _environment_beside(path: Path, workspace: Path, top: Path) -> CaseFile | None:
    """The nearest environment.json, from the file's folder up to the one that the user named."""
    for folder in path.parents:
        beside = folder / ENVIRONMENT_FILE
        if beside.is_symlink() or beside.is_file():
            return _file_in(workspace, beside)
        if folder == top:
            break
    return None


def _file_in(workspace: Path, path: Path) -> CaseFile:
    is_inside = path.is_relative_to(workspace)
    shown = path.relative_to(workspace) if is_inside else path
    # A file's name may be any bytes, and a record is UTF-8.
    name = str(shown).encode(errors="backslashreplace").decode()

    problem = ""
    if is_inside and leaves(path, workspace):
        # A link in a stranger's artifact could point at a secret of the machine.
        problem = "a link that leaves the workspace"
    elif not path.is_file():
        problem = "no regular file"
    return CaseFile(name, path=path, problem=problem)


def _is_profile(name: str) -> bool:
    """Whether a file in a folder can be a profile, by its name."""
    return not name.startswith(".") and name != ENVIRONMENT_FILE and not name.endswith(".jsonl")


def sources_in(folder: Path) -> list[ProfileSource]:
    """The files in a folder that can be profiles; they must belong to one case."""
    files_of = find_files([CaseSource(".")], folder)
    if len(files_of) > 1:
        cases = ", ".join(sorted(files_of)[:5])
        raise WrongUseError(f"{folder} holds the cases {cases}: convert one folder at a time")
    if not files_of:
        raise WrongUseError(f"{folder}: the folder holds no file that can be a profile")
    return [file.source() for file in next(iter(files_of.values()))]

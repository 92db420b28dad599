"""Commits and branches that are checked out for one session, and removed at its end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path

from ci_score.errors import CiScoreError, WrongUseError
from ci_score.files.locks import alone

GIT_SECONDS = 900.0
# Where git is called from a hook of its own, these name another repository or index.
GITS_OWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
LONGEST_WORDS = 300
SUBMODULES = (
    "has submodules, which are not checked out; if it needs them, give"
    ' --setup "git submodule update --init"'
)
# Of a commit, and of anything that is no expression such as HEAD~2.
COMMIT, NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}"), re.compile(r"[\w./-]+")


@dataclass(frozen=True, slots=True)
class Repository:
    """The git repository that a side's folder lies in, asked in the user's environment."""

    folder: Path
    environment: Mapping[str, str]

    def git(self, *words: str) -> str:
        """What git answers; CiScoreError with its last line where it fails."""
        done = self._run(words)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            why = last[0][:LONGEST_WORDS] if last else f"exit code {done.returncode}"
            raise CiScoreError(f"git {words[0]} failed in {self.folder}: {why}")
        return done.stdout.strip()

    def says(self, *words: str) -> str:
        """The same, and empty where git fails."""
        done = self._run(words)
        return "" if done.returncode else done.stdout.strip()

    def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        known = {key: value for key, value in self.environment.items() if key not in GITS_OWN}
        try:
            return subprocess.run(  # noqa: S603 - git with our own words
                # A hook of the user's would run for a checkout that it knows nothing of.
                ["git", "-C", str(self.folder), "-c", "core.hooksPath=/dev/null", *words],  # noqa: S607 - git of the user's PATH
                env={**known, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=GIT_SECONDS,
                check=False,
                # Ctrl-C is for us: half a checkout would be left.
                process_group=0,
            )
        except FileNotFoundError:
            raise WrongUseError(
                "git is not installed, and commits cannot be checked out without it"
            ) from None
        except subprocess.TimeoutExpired:
            raise CiScoreError(
                f"git {words[0]} took longer than {GIT_SECONDS:.0f} s in {self.folder}"
            ) from None

    def commit_of(self, name: str, option: str = "--base") -> str:
        """The commit that a person means by a text, or an error that teaches."""
        may_be_folder = option == "--base"
        if not self.says("rev-parse", "--show-toplevel"):
            no_folder = "there is no such folder, and " if may_be_folder else ""
            raise WrongUseError(f"{option} {name}: {no_folder}{self._unusable()}")
        commit = self.says("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if commit and not name.startswith("-"):
            return commit
        what = "folder, commit or branch" if may_be_folder else "commit or branch"
        raise WrongUseError(
            f"{option} {name}: there is no such {what} here; {self._advice(name, option)}"
        )

    @property
    def is_shallow(self) -> bool:
        """Whether it lacks the older commits."""
        return self.says("rev-parse", "--is-shallow-repository") == "true"

    def _unusable(self) -> str:
        """Why git knows of no repository here."""
        top = self.says("-c", "safe.directory=*", "rev-parse", "--show-toplevel")
        if not top:
            return (
                f"{self.folder} is not in a git repository that could have such a commit or branch"
            )
        return (
            f"the repository in {top} is another user's, which git does not trust; if you do, run:"
            f" git config --global --add safe.directory {shlex.quote(top)}"
        )

    def _advice(self, name: str, option: str) -> str:
        if not self.says("rev-parse", "--verify", "--quiet", "HEAD"):
            return "the repository has no commit yet"
        refs = self.says("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes",
                         "refs/tags").splitlines()  # fmt: skip
        remotes = self.says("remote").splitlines()
        remote, slash, branch = name.partition("/")
        of_remote = [ref for ref in refs if ref.endswith(f"/{name}")]
        local = [ref for ref in refs if name.endswith(f"/{ref}")]
        if slash and remote in remotes:
            # The part that is alike in all its branches makes none of them alike.
            own = [ref.removeprefix(f"{remote}/") for ref in refs if ref.startswith(f"{remote}/")]
            close = [f"{remote}/{ref}" for ref in get_close_matches(branch, own, 1)] or local
        else:
            close = of_remote or local or get_close_matches(name, refs, 1)
        if close:
            return f"did you mean {close[0]}?"
        return self._how_to_fetch(name, option, remotes)

    def _how_to_fetch(self, name: str, option: str, remotes: Sequence[str]) -> str:
        """The command that brings a commit or branch which only a remote has."""
        remote, slash, branch = name.partition("/")
        shallow = self.is_shallow
        if slash and remote in remotes:
            how = _fetch(remote, branch, shallow)
        elif not shallow or not remotes:
            return "fetch it first" + (", or give a folder" if option == "--base" else "")
        elif not NAME.fullmatch(name):
            how = "git fetch --unshallow"
        elif COMMIT.fullmatch(name):
            how = f"git fetch --depth 1 {remotes[0]} {name}"
        else:
            how = f"{_fetch(remotes[0], name, shallow)} and give {option} {remotes[0]}/{name}"
        if shallow:
            return f"this clone is shallow; run: {how} (in actions/checkout: `fetch-depth: 0`)"
        return f"if the remote has it, run: {how}"


def _fetch(remote: str, branch: str, shallow: bool) -> str:
    """The command that brings a remote's branch, also where a clone follows another one only."""
    depth = "--depth 1 " if shallow else ""
    place = shlex.quote(f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}")
    return f"git fetch {depth}{shlex.quote(remote)} {place}"


@contextmanager
def checked_out(
    name: str, head: Path, environment: Mapping[str, str], tell: Callable[[str], None]
) -> Iterator[Path]:
    """The folder of that commit which is the same as head's in its own; gone afterwards.

    Its place is known by the repository and the commit, so that a session that was interrupted goes
    on in it.
    """
    repository = Repository(head, environment)
    commit = repository.commit_of(name)
    with worktree(repository, commit) as place:
        folder = place / repository.says("rev-parse", "--show-prefix")
        if not folder.is_dir():
            raise WrongUseError(
                f"--base {name}: {head} is {folder.relative_to(place)} in the repository, and"
                " that commit has no such folder"
            )
        tell(f"base is {name} ({commit[:12]}), checked out for this session")
        if has_submodules(place):
            tell(f"base {SUBMODULES}")
        yield folder


def has_submodules(place: Path) -> bool:
    """Whether a checkout has some, which are then empty folders."""
    return (place / ".gitmodules").is_file()


@contextmanager
def worktree(repository: Repository, commit: str) -> Iterator[Path]:
    """A checkout of that commit, for one session alone; gone afterwards."""
    common = Path(repository.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    mark = sha256(f"{common}\0{commit}".encode()).hexdigest()[:16]
    place = _cache(repository.environment) / "worktrees" / mark
    with alone(
        place.with_suffix(".lock"),
        f"another session measures this commit in {place} now; wait for its end",
        "set XDG_CACHE_HOME to a folder that can be written",
    ):
        _remove(repository, place)
        try:
            _add(repository, place, commit)
            yield place
        finally:
            _remove(repository, place)


def _add(repository: Repository, place: Path, commit: str) -> None:
    if place.exists():
        raise CiScoreError(
            f"{place}: an earlier checkout cannot be removed (a container may have left files of"
            " another user there); remove it yourself, and let the container run as you"
        )
    repository.git("worktree", "add", "--quiet", "--force", "--detach", str(place), commit)


def _remove(repository: Repository, place: Path) -> None:
    """Also what a session that was killed has left, in whatever state."""
    with suppress(CiScoreError):
        repository.says("worktree", "remove", "--force", "--force", str(place))
        if place.exists():
            shutil.rmtree(place, ignore_errors=True)
            # Not `prune`: that would forget worktrees of the user's that are not mounted now.
            repository.says("worktree", "remove", "--force", "--force", str(place))


def _cache(environment: Mapping[str, str]) -> Path:
    known = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(known).absolute() / "ci-score"


# --- data that git does not track -----------------------------------------------------------------


def link(names: Sequence[str], head: Repository, base: Path, ref: str) -> tuple[Path, ...]:
    """Brings what git does not track from head's checkout to base's; where the links lead."""
    return tuple(dict.fromkeys(_linked(name, head, base, ref) for name in names))


def _linked(name: str, head: Repository, base: Path, ref: str) -> Path:
    folder = head.folder
    source = Path(os.path.normpath(folder / name))
    if not source.is_relative_to(folder) or source == folder:
        raise WrongUseError(f"--link {name}: give a path within head's folder, {folder}")
    inner = source.relative_to(folder)
    if not source.exists():
        raise WrongUseError(f"--link {name}: head's folder has no {inner} ({folder})")
    wanted = [inner]
    if os.path.lexists(base / inner):
        # Both have the folder: base gets what git does not track in head, and none of its commits.
        listed = ("ls-files", "--others", "--directory", "--no-empty-directory", "-z", "--")
        untracked = head.says("--literal-pathspecs", *listed, str(inner))
        wanted = [Path(one) for one in untracked.split("\0") if one]
    lent = [_lend(folder / one, base / one, base, name) for one in wanted]
    if not any(lent):
        raise WrongUseError(
            f"--link {name}: git tracks {inner} at {ref}, so base has its own; leave it out"
        )
    return source.resolve()


def _lend(source: Path, place: Path, base: Path, name: str) -> bool:
    """Links what base lacks, in folders that it has; whether there was anything.

    Not what Python has compiled: base would read and write that of head's code.
    """
    if place.name == "__pycache__":
        return False
    if not place.parent.resolve().is_relative_to(base.resolve()):
        away = place.parent.relative_to(base)
        raise WrongUseError(f"--link {name}: a link in base leads {away} out of its folder")
    if not os.path.lexists(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(source.resolve())
        return True
    if source.is_symlink() or place.is_symlink() or not (source.is_dir() and place.is_dir()):
        return False
    lent = [_lend(one, place / one.name, base, name) for one in sorted(source.iterdir())]
    return any(lent)

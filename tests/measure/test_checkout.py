"""A base that is a commit or a branch, in real repositories: its checkout, links and setup."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_score.errors import CiScoreError, WrongUseError
from ci_score.measure.sides.checkout import Repository as Checkout
from ci_score.measure.sides.checkout import checked_out, link
from ci_score.measure.sides.preparing import SidesRequest
from ci_score.measure.sides.setup import refuse_the_others_code, set_up
from ci_score.measure.sides.spec import SideSpec
from tests.builders import lives, write
from tests.builders.repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def no_words(_words: str) -> None:
    pass


def checkout(repository: Repository, name: str = "main") -> Path:
    """The folder that a base has, which is gone when this returns."""
    with checked_out(name, repository.folder, repository.environment, no_words) as folder:
        assert (folder / "train.py").read_text("utf-8") == "first"
        return folder


# --- the checkout ---------------------------------------------------------------------------------


def test_checkout__of_a_branch_is_there_for_the_session_and_then_gone(
    repository: Repository,
) -> None:
    """It is detached, in the user's cache; the user's own checkout is not touched."""
    said: list[str] = []
    with checked_out("main", repository.folder, repository.environment, said.append) as folder:
        assert folder.is_relative_to(repository.cache / "ci-score" / "worktrees")
        assert (folder / "train.py").read_text("utf-8") == "first"
        assert "detached HEAD" in repository.worktrees()[0]
        commit = repository.git("rev-parse", "main")
        assert said == [f"base is main ({commit[:12]}), checked out for this session"]
    assert not folder.exists()
    assert repository.worktrees() == []
    assert repository.git("branch", "--show-current") == "change"


def test_checkout__of_one_commit_has_always_the_same_place(repository: Repository) -> None:
    """A session that was interrupted goes on in it, by whatever name the commit is called."""
    first = checkout(repository)
    assert checkout(repository, repository.git("rev-parse", "main")[:10]) == first
    assert checkout(repository, "HEAD~1") == first
    repository.git("branch", "other", "main")
    repository.commit("more.txt", "third")
    repository.git("branch", "--force", "main")
    assert checkout(repository, "other") == first


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_checkout__is_removed_after_an_error_too(
    repository: Repository, error: type[BaseException]
) -> None:
    """Also after Ctrl-C, and with files in it that git does not know."""
    places = []

    def session() -> None:
        with checked_out("main", repository.folder, repository.environment, no_words) as folder:
            places.append(folder)
            write(folder / "out" / "model.pt", "")
            raise error

    with pytest.raises(error):
        session()
    assert not places[0].exists()
    assert repository.worktrees() == []


def test_checkout__of_a_session_that_was_killed_is_replaced(repository: Repository) -> None:
    """Whatever it left: all of it, a half of it, or only git's knowledge of it."""
    place = checkout(repository)
    commit = repository.git("rev-parse", "main")
    repository.git("worktree", "add", "--detach", str(place), commit)
    write(place / "train.py", "edited")
    assert checkout(repository) == place
    repository.git("worktree", "add", "--detach", str(place), commit)
    shutil.rmtree(place)
    assert checkout(repository) == place
    write(place / "rest.txt", "")
    assert checkout(repository) == place
    assert repository.worktrees() == []


def test_checkout__forgets_no_worktree_of_the_users(repository: Repository) -> None:
    """One whose disk is not mounted now is missing, and still the user's."""
    own = repository.folder.parent / "own"
    repository.git("worktree", "add", "--quiet", "--detach", str(own))
    own.rename(own.with_name("unmounted"))
    checkout(repository)
    assert str(own) in repository.worktrees()[0]


def test_checkout__is_one_sessions_at_a_time(repository: Repository) -> None:
    """Otherwise the first to end would remove it under the other."""
    with checked_out("main", repository.folder, repository.environment, no_words):
        with pytest.raises(WrongUseError, match="another session measures this commit"):
            checkout(repository)
        assert repository.worktrees()


def test_checkout__takes_the_folder_that_head_is_in_its_own(repository: Repository) -> None:
    """A project in a subfolder of its repository is compared with the same subfolder."""
    repository.git("checkout", "--quiet", "main")
    repository.commit("training/train.py", "inner")
    repository.commit("late/train.py", "late")
    inner, late = repository.folder / "training", repository.folder / "late"
    with checked_out("HEAD", inner, repository.environment, no_words) as folder:
        assert folder.name == "training"
        assert (folder / "train.py").read_text("utf-8") == "inner"
    with (
        pytest.raises(WrongUseError, match="is late in the repository, and that commit has no"),
        checked_out("HEAD~1", late, repository.environment, no_words),
    ):
        pass
    assert repository.worktrees() == []


def test_checkout__runs_no_hook_and_minds_no_hooks_variables(repository: Repository) -> None:
    """Called by a hook of the user's, git has variables that name another index."""
    hook = repository.folder / ".git" / "hooks" / "post-checkout"
    write(hook, f"#!/bin/sh\ntouch {repository.folder}/ran\n")
    hook.chmod(0o755)
    repository.environment |= {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index"}
    checkout(repository)
    assert not (repository.folder / "ran").exists()


def test_checkout__says_that_submodules_are_not_there(repository: Repository) -> None:
    """--setup can bring them."""
    repository.git("checkout", "--quiet", "main")
    repository.commit(".gitmodules", "[submodule]")
    said: list[str] = []
    with checked_out("main", repository.folder, repository.environment, said.append):
        assert "base has submodules, which are not checked out" in said[-1]


def refused(repository: Repository, name: str, head: Path | None = None) -> str:
    with (
        pytest.raises(WrongUseError) as error,
        checked_out(name, head or repository.folder, repository.environment, no_words),
    ):
        pass
    return str(error.value)


def test_checkout__a_name_that_is_nothing_gets_advice(
    repository: Repository, tmp_path: Path
) -> None:
    """A typo, a branch that only the remote has, a folder without git."""
    assert refused(repository, "man") == (
        "--base man: there is no such folder, commit or branch here; did you mean main?"
    )
    repository.git("update-ref", "refs/remotes/origin/release", "main")
    assert refused(repository, "release").endswith("did you mean origin/release?")
    assert refused(repository, "origin/main").endswith("did you mean main?")
    assert refused(repository, "f" * 40).endswith("fetch it first, or give a folder")
    assert "there is no such" in refused(repository, "--help")
    (tmp_path / "plain").mkdir()
    # The tests themselves may run within a repository.
    repository.environment["GIT_CEILING_DIRECTORIES"] = str(tmp_path)
    assert "is not in a git repository" in refused(repository, "main", head=tmp_path / "plain")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("origin/main", "git fetch --depth 1 origin +refs/heads/main:refs/remotes/origin/main (in"),
        ("main", "origin/main and give --base origin/main (in actions/checkout: `fetch-depth: 0`)"),
        ("a" * 40, f"git fetch --depth 1 origin {'a' * 40} (in actions"),
        ("HEAD^1", "git fetch --unshallow (in actions"),
        ("origin/x y", "git fetch --depth 1 origin '+refs/heads/x y:refs/remotes/origin/x y' (in"),
        ("origin/chang", "did you mean origin/change?"),
    ],
)  # fmt: skip
def test_checkout__a_shallow_clone_is_told_how_to_fetch_its_base(
    name: str, command: str, repository: Repository, tmp_path: Path
) -> None:
    """Another branch of the remote is not what was meant."""
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.folder}", str(shallow))
    words = refused(repository, name, head=shallow)
    assert command in words
    assert ("this clone is shallow; run: " in words) is ("mean" not in command)


def test_checkout__the_command_that_fetches_a_base_does(
    repository: Repository, tmp_path: Path
) -> None:
    """Also in a clone that follows another branch only."""
    clone = tmp_path / "clone"
    source = f"file://{repository.folder}"
    repository.git("clone", "--quiet", "--single-branch", "--branch", "change", source, str(clone))
    words = refused(repository, "origin/main", head=clone)
    _, _, command = words.partition("if the remote has it, run: ")
    subprocess.run(shlex.split(command), cwd=clone, env=repository.environment, check=True)
    with checked_out("origin/main", clone, repository.environment, no_words) as folder:
        assert (folder / "train.py").read_text("utf-8") == "first"


def test_checkout__git_that_trusts_nobody_is_told_apart_from_no_git(
    repository: Repository, tmp_path: Path
) -> None:
    """In a container the checkout is often another user's."""
    repository.environment["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"
    words = refused(repository, "main")
    assert words.endswith(f"git config --global --add safe.directory {repository.folder}")


def test_checkout__of_a_repository_without_a_commit_says_so(
    repository: Repository, tmp_path: Path
) -> None:
    """HEAD is a name of nothing there."""
    empty = tmp_path / "empty"
    repository.git("init", "--quiet", str(empty))
    assert refused(repository, "HEAD", head=empty).endswith("the repository has no commit yet")


def test_checkout__without_git_or_a_cache_says_what_to_do(
    repository: Repository, tmp_path: Path
) -> None:
    """Both are things that a person can change."""
    write(tmp_path / "file", "")
    repository.environment["XDG_CACHE_HOME"] = str(tmp_path / "file")
    assert "set XDG_CACHE_HOME to a folder that can be written" in refused(repository, "main")
    repository.environment["PATH"] = "/nowhere"
    assert refused(repository, "main").startswith("git is not installed")


# --- links ----------------------------------------------------------------------------------------


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """Head with data, and base without."""
    head, base = tmp_path / "head", tmp_path / "base"
    write(head / "data" / "tokens.bin", "tokens")
    base.mkdir()
    return head, base


def test_link__brings_a_file_or_a_folder_to_base(both: tuple[Path, Path], tmp_path: Path) -> None:
    """The link leads to the data itself, also where head has only a link to it."""
    head, base = both
    write(tmp_path / "disk" / "big.bin", "big")
    write(head / "more", "")
    (head / "big").symlink_to(tmp_path / "disk")
    names = ["data/tokens.bin", "big", f"{head}/data/../more"]
    targets = link(names, Checkout(head, PATH), base / "x", "main")
    assert targets == (head / "data" / "tokens.bin", tmp_path / "disk", head / "more")
    assert (base / "x" / "data" / "tokens.bin").read_text("utf-8") == "tokens"
    assert (base / "x" / "big" / "big.bin").read_text("utf-8") == "big"


LENT = {
    "train.bin": "head's",
    "more/shards/0.bin": "head's",
    "more/index/a b\nc": "head's",
    "prepare.py": "base's",
    "more/read.py": "base's",
    "kept.bin": "base's",
    "new.py": "",
    "more/new.py": "",
    "__pycache__/read.pyc": "",
}


def test_link__of_a_folder_that_git_tracks_in_part_lends_the_rest(repository: Repository) -> None:
    """Base keeps its own files, and gets none that head's commit has added."""
    head = repository.folder
    repository.git("checkout", "--quiet", "main")
    for name in ("prepare.py", "more/read.py", "kept.bin"):
        repository.commit(f"data/{name}", "base's")
    repository.git("checkout", "--quiet", "-b", "faster")
    repository.git("rm", "--quiet", "data/kept.bin")
    for name in ("new.py", "more/new.py", "prepare.py", "more/read.py", ".gitignore"):
        repository.commit(f"data/{name}", "*.bin" if name == ".gitignore" else "head's commit")
    untracked = ("train.bin", "more/shards/0.bin", "more/index/a b\nc", "kept.bin")
    for name in (*untracked, "__pycache__/read.pyc"):
        write(head / "data" / name, "head's")
    for name in ("data", "data/more/../", str(head / "data")):
        request = SidesRequest(head=head, base="main", links=(name,))
        with request.ready(repository.environment, no_words) as sides:
            base = sides.base.folder / "data"
            found = {name: base / name for name in LENT}
            assert {
                one: file.read_text("utf-8") if file.exists() else "" for one, file in found.items()
            } == LENT
            assert sides.base.linked == (head / "data",)
            assert not (base / ".gitignore").exists()
        assert (head / "data" / "more" / "shards" / "0.bin").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dat", "--link dat: head's folder has no dat"),
        ("tracked", "git tracks tracked at main, so base has its own; leave it out"),
        ("code", "git tracks code at main, so base has its own; leave it out"),
        ("../base", "give a path within head's folder"),
        ("/etc/passwd", "give a path within head's folder"),
        (".", "give a path within head's folder"),
        ("away/data", "a link in base leads away out of its folder"),
    ],
)
def test_link__refuses_what_it_cannot_bring(
    both: tuple[Path, Path], tmp_path: Path, name: str, words: str
) -> None:
    """What is missing, there already, or not within the folders."""
    head, base = both
    for folder in both:
        write(folder / "tracked", "")
        write(folder / "code" / "a.py", "")
    write(head / "away" / "data", "")
    (base / "away").symlink_to(tmp_path)
    with pytest.raises(WrongUseError) as error:
        link([name], Checkout(head, PATH), base, "main")
    assert words in str(error.value)
    assert not (tmp_path / "data").exists()


# --- setup ----------------------------------------------------------------------------------------


def run_setup(
    command: str,
    folder: Path,
    ambient: Mapping[str, str],
    timeout: float = 30.0,
    stopped: Callable[[], bool] = lambda: False,
) -> str:
    """Runs it, and returns what it printed."""
    log = folder.parent / "logs" / "setup-base.log"
    set_up(command, "base", SideSpec(folder), ambient, log, timeout, stopped)
    return log.read_text("utf-8")


PATH = {"PATH": "/usr/bin:/bin"}


def test_setup__finds_the_environment_that_it_has_just_made(tmp_path: Path) -> None:
    """The shell looks for `python` anew, and the one that was active before does not count."""
    command = f"{sys.executable} -m venv --without-pip .venv && command -v python && python -c"
    command += " 'import sys; print(sys.prefix)'"
    (tmp_path / "side").mkdir()
    ambient = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "VIRTUAL_ENV": "/active"}
    folder = tmp_path / "side"
    said = run_setup(f"python -V && {command} && echo $VIRTUAL_ENV.", folder, ambient)
    assert said.splitlines()[1:] == [f"{folder}/.venv/bin/python", f"{folder}/.venv", "."]


def test_setup__has_the_sides_variables_and_not_our_imports(tmp_path: Path) -> None:
    """It runs in the side's folder as its owner would run it."""
    spec = SideSpec(tmp_path, variables={"CUDA_HOME": "/cuda"})
    log = tmp_path / "log"
    command = "pwd; echo $CUDA_HOME $PYTHONPATH"
    set_up(command, "base", spec, {**PATH, "PYTHONPATH": "/mine"}, log, 30.0, lambda: False)
    assert log.read_text("utf-8") == f"{tmp_path}\n/cuda /mine\n"


def test_setup__that_fails_says_so_with_the_end_of_its_log(tmp_path: Path) -> None:
    """It stops at the first error, and exits as what could not be judged."""
    with pytest.raises(CiScoreError) as error:
        run_setup("echo broken >&2\nfalse\necho more", tmp_path, PATH)
    assert str(error.value) == f"base: --setup exited with 1, in {tmp_path}\n  | broken"
    assert error.value.exit_code == 3
    with pytest.raises(CiScoreError, match="--setup was ended by signal 9"):
        run_setup("kill -9 $$", tmp_path, PATH)


def test_setup__that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """Neither the end of its time nor an interruption leaves anything running."""
    file = tmp_path / "pid"
    for words, timeout, stopped in (
        ("took longer than 1 s and was ended", 1.0, False),
        ("was interrupted", 30.0, True),
    ):
        file.unlink(missing_ok=True)

        def asked(stopped: bool = stopped) -> bool:
            return stopped and file.exists() and bool(file.read_text("utf-8"))

        with pytest.raises(CiScoreError, match=words):
            run_setup(f"sleep 60 & echo $! > {file}; wait", tmp_path, PATH, timeout, asked)
        assert not lives(int(file.read_text("utf-8")))


# --- whose code an environment has ----------------------------------------------------------------


def an_environment(folder: Path) -> Path:
    """A real one, without pip; the folder of its packages."""
    place = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (found,) = place.glob("lib/python*/site-packages")
    return found


@pytest.mark.parametrize("how", ["pth", "direct_url"])
def test_setup__an_editable_install_of_the_other_side_is_refused(tmp_path: Path, how: str) -> None:
    """Base would run head's code; the sentence says how each side gets its own."""
    sides = {name: SideSpec(tmp_path / name) for name in ("base", "head")}
    packages = {name: an_environment(spec.folder) for name, spec in sides.items()}

    def install(where: str, whose: str) -> None:
        if how == "pth":
            write(packages[where] / "__editable__.model.pth", f"{tmp_path}/{whose}/src\n")
        else:
            told = f'{{"url": "file://{tmp_path}/{whose}", "dir_info": {{}}}}'
            write(packages[where] / "model-0.1.dist-info" / "direct_url.json", told)

    install("base", "base")
    install("head", "head")
    refuse_the_others_code(sides, PATH)
    install("base", "head")
    with pytest.raises(CiScoreError) as error:
        refuse_the_others_code(sides, PATH)
    assert str(error.value).startswith(
        f"base: its Python ({tmp_path}/base/.venv/bin/python) takes model from head's folder,"
        " because both sides share an environment; give each side one of its own, as --setup"
    )


def test_setup__what_packages_left_is_read_up_to_a_limit(tmp_path: Path) -> None:
    """Neither a device nor lists within lists end anything."""
    base, head = tmp_path / "base", tmp_path / "head"
    packages = an_environment(base)
    write(packages / "deep-0.1.dist-info" / "direct_url.json", "[" * 200_000)
    (packages / "zero-0.1.dist-info").mkdir()
    (packages / "zero-0.1.dist-info" / "direct_url.json").symlink_to("/dev/zero")
    refuse_the_others_code({"base": SideSpec(base), "head": SideSpec(head)}, PATH)


def test_setup__a_side_within_the_others_folder_has_its_own_code(tmp_path: Path) -> None:
    """With --head . and --base ./base, what lies in base is in head's folder, too."""
    head, base = tmp_path, tmp_path / "base"
    packages = an_environment(base)
    write(packages / "model.pth", f"{base}/src\n")
    refuse_the_others_code({"base": SideSpec(base), "head": SideSpec(head)}, {"PATH": "/nowhere"})


# --- both sides -----------------------------------------------------------------------------------


def test_sides__are_ready_with_all_that_was_asked_for(repository: Repository) -> None:
    """A checkout with links, an environment a side, and setup in each folder."""
    write(repository.folder / "data" / "a", "")
    request = SidesRequest(
        head=repository.folder,
        base="main",
        base_env={"A": "1"},
        base_launcher="srun -N1",
        head_launcher="podman run image",
        links=("data",),
        setup="pwd > where",
        keep_trackers=True,
    )
    said: list[str] = []
    with request.ready(repository.environment, said.append) as sides:
        data = (repository.folder / "data",)
        assert sides.base == SideSpec(
            sides.base.folder, None, {"A": "1"}, ("srun", "-N1"), keep_trackers=True, linked=data
        )
        assert sides.head == SideSpec(
            repository.folder, launcher=("podman", "run", "image"), keep_trackers=True, linked=data
        )
        logs = repository.folder.parent / "logs"
        sides.set_up(repository.environment, logs, 30.0, lambda: False, said.append)
        for spec in sides.by_name.values():
            assert (spec.folder / "where").read_text("utf-8") == f"{spec.folder}\n"
        assert said[1:] == [
            f"--setup in base: {sides.base.folder}",
            f"--setup in head: {repository.folder}",
        ]


def test_sides__one_alone_is_both(tmp_path: Path) -> None:
    """A command with one side sets its folder up once."""
    (tmp_path / "side").mkdir()
    request = SidesRequest(head=tmp_path / "side", setup="echo once >> count")
    with request.ready({}, no_words) as sides:
        assert sides.base == sides.head
        sides.set_up(PATH, tmp_path / "logs", 30.0, lambda: False, no_words)
    assert (tmp_path / "side" / "count").read_text("utf-8") == "once\n"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"links": ("data",)}, "--link is for a base that ci-score checks out"),
        ({"base_launcher": "podman run"}, 'give "podman run IMAGE"'),
        ({"head_launcher": "srun '"}, "--launcher: No closing quotation"),
        (
            {"base_launcher": "docker run i", "base_python": Path("/usr/bin/python3")},
            "a container runs the Python of its image",
        ),
    ],
)
def test_sides__what_cannot_be_meant_is_refused(
    tmp_path: Path, asked: dict[str, object], words: str
) -> None:
    """It is said before anything is made."""
    request = SidesRequest(head=tmp_path, base=tmp_path, **asked)  # type: ignore[arg-type]
    with pytest.raises(WrongUseError) as error, request.ready({}, no_words):
        pass
    assert words in str(error.value)

"""The user's own command: which file each word means, and what is refused before a launch."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ci_score.errors import WrongUseError
from ci_score.measure.sides.command import Command, command_of, shell_words
from ci_score.measure.sides.spec import SideSpec
from tests.builders import write


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two sides, each with a `train.py`, in the current folder."""
    found = {name: tmp_path / name for name in ("base", "head")}
    for folder in found.values():
        write(folder / "train.py", "")
    monkeypatch.chdir(tmp_path)
    return found


def command(text: str, sides: dict[str, Path], here: Path | None = None) -> Command:
    return command_of(text.split(), sides, here or Path.cwd())


def refused(text: str, sides: dict[str, Path], here: Path | None = None) -> str:
    with pytest.raises(WrongUseError) as error:
        command(text, sides, here)
    assert error.value.exit_code == 2
    return str(error.value)


# --- which file a word means ----------------------------------------------------------------------


def test_words__of_both_sides_stay_as_they_are(sides: dict[str, Path]) -> None:
    """Each side runs its own copy of a relative file."""
    text = "torchrun --nproc-per-node 2 train.py --lr 0.1"
    found = command(text, sides)
    assert found == Command(tuple(text.split()))


def test_words__of_the_current_folder_become_absolute(
    sides: dict[str, Path], tmp_path: Path
) -> None:
    """A file outside of both sides serves both; also behind an equals sign, as options have it."""
    for name in ("bench.py", "small.yaml", "tool"):
        write(tmp_path / name, "")
    found = command("./tool bench.py --config=small.yaml --lr=0.1 tool", sides)
    assert found.words == (
        str(tmp_path / "tool"), str(tmp_path / "bench.py"), f"--config={tmp_path}/small.yaml",
        "--lr=0.1", str(tmp_path / "tool"),
    )  # fmt: skip
    assert set(found.files) == {tmp_path / name for name in ("bench.py", "small.yaml", "tool")}


def test_words__a_program_is_looked_for_on_path_unless_it_has_a_slash(
    sides: dict[str, Path], tmp_path: Path
) -> None:
    """A file that happens to be called `python` is not the program that a shell would start."""
    write(tmp_path / "python", "")
    assert command("python train.py", sides).words[0] == "python"
    assert command(f"{sys.executable} train.py", sides).words[0] == sys.executable


def test_words__a_side_alone_takes_its_own_files(sides: dict[str, Path]) -> None:
    """A command that measures one side has no other to be fair to."""
    alone = {"head": sides["head"]}
    here = sides["head"]
    assert command(f"python {here}/train.py", alone, here).words[1] == f"{here}/train.py"
    assert command("python train.py", alone, here).files == ()


def test_words__out_is_the_fresh_folder_of_a_launch(sides: dict[str, Path]) -> None:
    """It stands anywhere in a word, and more than once."""
    found = command("python train.py --output_dir {out} --log={out}/a:{out}", sides)
    assert found.of_launch(Path("/o/7"))[2:] == ("--output_dir", "/o/7", "--log=/o/7/a:/o/7")


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bench.py", "small.yaml"])
def test_words__a_file_that_one_side_lacks_is_refused(sides: dict[str, Path], name: str) -> None:
    """Otherwise base would run head's copy, and import head's code with it."""
    write(sides["head"] / name, "")
    assert refused(f"python train.py {name}", sides, here=sides["head"]) == (
        f"base lacks {name}: there is one in head only; commit it on both sides, or give the path"
        " of a file outside of both"
    )


def test_words__what_an_earlier_run_wrote_is_left_to_each_side(sides: dict[str, Path]) -> None:
    """A log that lies in one side only may be an output of the command."""
    write(sides["head"] / "run.log", "")
    found = command("python train.py --log run.log", sides, here=sides["head"])
    assert found.words[-1] == "run.log"


def test_words__a_whole_path_into_a_side_is_refused(sides: dict[str, Path]) -> None:
    """Both sides would run that side's script; so would a path from within a side's subfolder."""
    for side in sides.values():
        write(side / "scripts" / "fit.py", "")
    head = sides["head"]
    wanted = "lies in head's folder; write it as scripts/fit.py, so that each side runs its own"
    assert refused(f"python {head}/scripts/fit.py", sides) == f"{head}/scripts/fit.py {wanted}"
    assert refused("python fit.py", sides, here=head / "scripts") == f"fit.py {wanted}"


def test_words__a_script_that_is_nowhere_is_refused(sides: dict[str, Path]) -> None:
    """It is said before anything is launched; code on the command line is no file."""
    assert refused("python tain.py", sides) == (
        f"there is no tain.py here or in base: {sides['base']}"
    )
    alone = {"head": sides["head"]}
    assert refused("python tain.py", alone) == f"there is no tain.py in {sides['head']}"
    for text in ("python -m train", "python -c pass.py", "bash -c a.sh", "python {out}/gen.py"):
        assert command(text, sides).words == tuple(text.split())


def startable(text: str, sides: dict[str, Path], path: str, **more: SideSpec) -> None:
    specs = {name: SideSpec(folder) for name, folder in sides.items()} | more
    Command(tuple(text.split())).refuse_unless_startable(specs, {"PATH": path})


def a_program(path: Path) -> str:
    write(path, "#!/bin/sh\n")
    path.chmod(0o755)
    return str(path.parent)


def test_program__must_be_found_by_each_side(sides: dict[str, Path], tmp_path: Path) -> None:
    """By name on the side's PATH, by path from the side's folder; a launcher, too."""
    path = a_program(tmp_path / "bin" / "python")
    startable("python train.py", sides, path)
    with pytest.raises(WrongUseError, match="base: there is no program torchrun; is it installed"):
        startable("torchrun train.py", sides, path)
    a_program(sides["base"] / "run")
    with pytest.raises(WrongUseError, match=r"no program \./run here or in head: "):
        startable("./run", sides, path)
    with pytest.raises(WrongUseError, match="head: there is no program srun"):
        startable("python train.py", sides, path, head=SideSpec(sides["head"], launcher=("srun",)))


def test_program__that_is_mistyped_gets_advice(sides: dict[str, Path], tmp_path: Path) -> None:
    """Quotes around a whole command, and the name that Python has on many systems."""
    path = a_program(tmp_path / "bin" / "python3")
    with pytest.raises(WrongUseError, match=r"leave its quotes out: -- python train\.py"):
        Command(("python train.py",)).refuse_unless_startable(
            {"head": SideSpec(sides["head"])}, {"PATH": path}
        )
    with pytest.raises(WrongUseError, match=r"no program python; .* did you mean python3\?"):
        startable("python train.py", sides, path)


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("--steps", "'--steps' is no program; behind -- comes yours, and ci-score's own options"),
        ("--", "'--' is no program"),
        ("", "'' is no program"),
        ("SEED=1", "SEED=… is a variable and no program; write -- env before it"),
        ("cd a && python b.py", "a line for a shell; write -- bash -c 'cd a && python b.py'"),
        ("python b.py > log", "a line for a shell; write -- bash -c 'python b.py > log'"),
    ],
)
def test_program__that_is_something_else_is_told_where_it_goes(
    word: str, words: str, sides: dict[str, Path], tmp_path: Path
) -> None:
    """An option of ours, a variable, a line for a shell."""
    command = Command((word, "python", "train.py"))
    with pytest.raises(WrongUseError, match=re.escape(words)):
        command.refuse_unless_startable({"head": SideSpec(sides["head"])}, {"PATH": str(tmp_path)})


def test_program__of_a_container_is_the_images(sides: dict[str, Path], tmp_path: Path) -> None:
    """Only the engine must be on this machine."""
    path = a_program(tmp_path / "bin" / "podman")
    specs = {
        name: SideSpec(folder, launcher=("podman", "run", "image"))
        for name, folder in sides.items()
    }
    startable("torchrun train.py", sides, path, **specs)


@pytest.mark.parametrize(("name", "runner"), [("train.py", "python"), ("fit.sh", "bash")])
def test_program__a_script_is_none_by_itself(
    sides: dict[str, Path], name: str, runner: str
) -> None:
    """Whoever forgets the interpreter is told how to write it."""
    write(sides["base"] / name, "")
    with pytest.raises(WrongUseError) as error:
        startable(name, sides, "/nowhere")
    assert str(error.value) == (
        f'{name} cannot be started as a program; did you mean "{runner} {name}"?'
    )


def test_program__must_not_belong_to_another_python(sides: dict[str, Path], tmp_path: Path) -> None:
    """A side's environment without torchrun would run that of the next environment on PATH."""
    path = a_program(tmp_path / "bin" / "torchrun")
    for folder in sides.values():
        a_program(folder / ".venv" / "bin" / "python")
    startable("bash train.sh", sides, f"{path}:/usr/bin:/bin")
    with pytest.raises(WrongUseError) as error:
        startable("torchrun train.py", sides, path)
    assert str(error.value) == (
        f"base: there is no torchrun in {sides['base']}/.venv/bin, and {path}/torchrun belongs to"
        " another Python; install it there, or give its whole path"
    )


def test_program__of_one_sides_environment_is_no_pair_with_a_chance_one(
    sides: dict[str, Path], tmp_path: Path
) -> None:
    """A checkout of base has no `.venv`: it runs by head's that is active, or not by chance."""
    path = a_program(tmp_path / "bin" / "python")
    own = a_program(sides["head"] / ".venv" / "bin" / "python")
    startable("python train.py", sides, f"{own}:{path}")
    with pytest.raises(WrongUseError) as error:
        startable("python train.py", sides, path)
    assert str(error.value) == (
        f"head has a .venv and base has none, so base would run by {path}/python; activate the"
        " .venv for both, or give base one by --setup or --base-python"
    )
    asked = SideSpec(sides["base"], tmp_path / "bin" / "python")
    startable("python train.py", sides, path, base=asked)


# --- what tells commands apart --------------------------------------------------------------------


def test_digest__follows_what_both_sides_share(sides: dict[str, Path], tmp_path: Path) -> None:
    """Another benchmark file makes another session; each side's own files do not count."""
    write(tmp_path / "bench.py", "1")
    write(tmp_path / "data.bin", "1")
    text = "python bench.py train.py data.bin"
    before = command(text, sides).digest
    write(sides["head"] / "train.py", "changed")
    write(tmp_path / "data.bin", "2")
    assert command(text, sides).digest == before
    write(tmp_path / "bench.py", "2")
    assert command(text, sides).digest != before


def test_shell_words__are_taken_apart_as_a_shell_does() -> None:
    """Quotes that are not closed, and nothing at all, are named with the option."""
    assert shell_words('podman run -v "/a b:/a b" image', "--launcher")[3] == "/a b:/a b"
    with pytest.raises(WrongUseError, match="--launcher: No closing quotation in 'srun \"'"):
        shell_words('srun "', "--launcher")
    with pytest.raises(WrongUseError, match="--base-launcher: it is empty"):
        shell_words(" ", "--base-launcher")

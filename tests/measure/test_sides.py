"""What a side is, and how a launch of it starts: its environment, its launcher, its container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ci_score.errors import WrongUseError
from ci_score.measure.sides.spec import (
    TRACKERS_OFF,
    SideSpec,
    Start,
    container_words,
    launcher_in_words,
    shown,
)

# What every launch is told, shortened.
LAUNCH = {"CI_SCORE_LAUNCH_DIR": "/out/1", "CI_SCORE_HOOK": '{"mode": "timed"}'}
WORDS = ("python", "train.py")
AMBIENT = {"PATH": "/usr/bin", "HOME": "/home/me", "HF_TOKEN": "hf_1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A side's folder with sources in `src`."""
    (tmp_path / "side" / "src").mkdir(parents=True)
    return tmp_path / "side"


def start(spec: SideSpec, hook: Path | None = Path("/hook"), **more: str) -> Start:
    return spec.start(WORDS, {**AMBIENT, **more}, hook, LAUNCH)


def an_environment(place: Path) -> Path:
    """The interpreter of a virtual environment, as far as a side looks at it."""
    (place / "bin").mkdir(parents=True)
    (place / "pyvenv.cfg").touch()
    python = place / "bin" / "python"
    python.symlink_to(sys.executable)
    return python


# --- on this machine ------------------------------------------------------------------------------


def test_side__imports_the_hook_then_its_own_code(folder: Path) -> None:
    """The hook's folder leads PYTHONPATH, then the side's folder and its src, then the user's."""
    given = start(SideSpec(folder), PYTHONPATH="/mine").environment
    assert given["PYTHONPATH"] == f"/hook:{folder}:{folder / 'src'}:/mine"
    own = SideSpec(folder, variables={"PYTHONPATH": "/its"})
    assert start(own, PYTHONPATH="/mine").environment["PYTHONPATH"].endswith("src:/its")
    (folder / "src").rmdir()
    assert start(SideSpec(folder), hook=None).environment["PYTHONPATH"] == str(folder)


def test_side__runs_by_its_own_environment_where_it_has_one(folder: Path) -> None:
    """`.venv` of the side's folder leads PATH, and an environment that is active counts no more."""
    an_environment(folder / ".venv")
    given = start(SideSpec(folder), VIRTUAL_ENV="/other", PYTHONHOME="/other").environment
    assert given["PATH"] == f"{folder}/.venv/bin:/usr/bin"
    assert given["VIRTUAL_ENV"] == f"{folder}/.venv"
    assert "PYTHONHOME" not in given


def test_side__runs_by_the_python_that_was_named_for_it(folder: Path, tmp_path: Path) -> None:
    """Its folder leads PATH before the side's own environment, so torchrun is its own, too."""
    an_environment(folder / ".venv")
    python = an_environment(tmp_path / "new")
    given = start(SideSpec(folder, python)).environment
    assert given["PATH"] == f"{tmp_path}/new/bin:/usr/bin"
    assert given["VIRTUAL_ENV"] == f"{tmp_path}/new"
    (tmp_path / "new" / "pyvenv.cfg").unlink()
    assert "VIRTUAL_ENV" not in start(SideSpec(folder, python), VIRTUAL_ENV="/x").environment


def test_side__leaves_the_active_environment_to_a_side_without_one(folder: Path) -> None:
    """Without an interpreter of its own, a side runs as the user's shell would run it."""
    given = start(SideSpec(folder), VIRTUAL_ENV="/active").environment
    assert (given["PATH"], given["VIRTUAL_ENV"]) == ("/usr/bin", "/active")


def test_side__has_its_variables_and_what_we_tell_a_launch(folder: Path) -> None:
    """The side's variables win over the user's, and PATH among them still follows its Python."""
    an_environment(folder / ".venv")
    spec = SideSpec(folder, variables={"NCCL_ALGO": "Ring", "PATH": "/its"})
    given = start(spec, NCCL_ALGO="Tree").environment
    assert given["NCCL_ALGO"] == "Ring"
    assert given["PATH"] == f"{folder}/.venv/bin:/its"
    assert given["HOME"] == "/home/me"
    assert given["CI_SCORE_LAUNCH_DIR"] == "/out/1"


def test_side__switches_trackers_off_by_their_own_variables(folder: Path) -> None:
    """A launch posts nothing; what MLflow logs lies in the launch's folder; --env still wins."""
    given = start(SideSpec(folder), WANDB_MODE="online").environment
    assert TRACKERS_OFF.items() <= given.items()
    assert given["MLFLOW_TRACKING_URI"] == "file:///out/1/mlruns"
    asked = SideSpec(folder, variables={"WANDB_MODE": "offline"})
    assert start(asked).environment["WANDB_MODE"] == "offline"
    kept = start(SideSpec(folder, keep_trackers=True), WANDB_MODE="online").environment
    assert kept["WANDB_MODE"] == "online"
    assert not (TRACKERS_OFF.keys() - {"WANDB_MODE"}) & kept.keys()


# --- launchers ------------------------------------------------------------------------------------


def test_launcher__stands_in_front_of_the_command(folder: Path) -> None:
    """A launcher that we do not know gets the words as they are."""
    started = start(SideSpec(folder, launcher=("numactl", "-N", "0")))
    assert started.command == ("numactl", "-N", "0", *WORDS)
    assert started.ending == ()


def test_launcher__srun_hands_on_the_environment(folder: Path) -> None:
    """In a job that exports nothing srun would not; what the user says of it wins."""
    assert start(SideSpec(folder, launcher=("/opt/bin/srun", "-N1"))).command == (
        "/opt/bin/srun", "--export=ALL", "-N1", *WORDS
    )  # fmt: skip
    own = ("srun", "--export=ALL,X=1")
    assert start(SideSpec(folder, launcher=own)).command == (*own, *WORDS)


def a_container(folder: Path, **more: object) -> SideSpec:
    return SideSpec(folder, launcher=("podman", "run", "--gpus", "all", "torch:2.13"), **more)  # type: ignore[arg-type]


def options(command: tuple[str, ...], name: str) -> list[str]:
    return [word for before, word in pairwise(command) if before == name]


def test_container__sees_the_side_the_hook_and_the_output(folder: Path, tmp_path: Path) -> None:
    """They are mounted at their own paths, the hook and named files to be read only."""
    data = tmp_path / "data"
    spec = a_container(folder, linked=(data, folder / "inner"))
    out, bench = tmp_path / "out", tmp_path / "bench.py"
    command = spec.start(WORDS, AMBIENT, Path("/hook"), LAUNCH, [out], [bench]).command
    assert sorted(options(command, "-v")) == sorted(
        [f"{folder}:{folder}", f"{out}:{out}", f"{data}:{data}", "/hook:/hook:ro",
         f"{bench}:{bench}:ro"]
    )  # fmt: skip
    assert options(command, "-w") == [str(folder)]
    assert command[:3] == ("podman", "run", "--rm")
    assert command[-5:] == ("--gpus", "all", "torch:2.13", *WORDS)


def test_container__gets_our_variables_and_the_sides_and_no_others(folder: Path) -> None:
    """Neither the user's environment nor PATH goes in: the image has its own."""
    an_environment(folder / ".venv")
    started = start(a_container(folder, variables={"NCCL_ALGO": "Ring"}), PYTHONPATH="/mine")
    given = dict(word.split("=", 1) for word in options(started.command, "-e"))
    assert given.keys() == {
        *LAUNCH, *TRACKERS_OFF, "MLFLOW_TRACKING_URI", "NCCL_ALGO", "PYTHONPATH"
    }  # fmt: skip
    assert given["PYTHONPATH"] == f"/hook:{folder}:{folder / 'src'}"
    assert given["CI_SCORE_HOOK"] == LAUNCH["CI_SCORE_HOOK"]
    # The engine itself runs in the user's environment, without a hook.
    assert started.environment["PATH"] == "/usr/bin"
    assert started.environment["PYTHONPATH"] == "/mine"
    assert "CI_SCORE_HOOK" not in started.environment


def test_container__gets_a_secret_by_its_name_alone(folder: Path) -> None:
    """On a command line it would stand in the list of processes."""
    started = start(a_container(folder, variables={"MY_API_KEY": "s3cret"}))
    assert "MY_API_KEY" in options(started.command, "-e")
    assert started.environment["MY_API_KEY"] == "s3cret"
    assert "s3cret" not in " ".join(started.command)
    assert "hf_1" not in " ".join(started.command)


def test_container__is_ended_by_its_name(folder: Path) -> None:
    """Each launch has a name of its own, and the same engine removes what outlives it."""
    launcher = ("docker", "--context", "gpu", "run", "image")
    first, second = (start(SideSpec(folder, launcher=launcher)) for _ in range(2))
    (name,) = options(first.command, "--name")
    assert first.ending == ("docker", "--context", "gpu", "rm", "-f", name)
    assert first.ending != second.ending


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        (
            "podman exec box",
            'podman exec box: a launch is a container of its own; give "podman run',
        ),
        ("docker run", 'give "docker run IMAGE"'),
        ("podman run -d image", "leave -d out, because a launch is waited for"),
        ("docker run --name=mine image", "leave --name=mine out, because each launch has a name"),
    ],
)
def test_container__must_be_one_that_a_launch_can_have(launcher: str, words: str) -> None:
    """What would not start, or start something else, is said before anything runs."""
    with pytest.raises(WrongUseError) as error:
        container_words(launcher.split())
    assert words in str(error.value)


def test_container__cannot_mount_a_path_with_a_colon(tmp_path: Path) -> None:
    """The engines take a colon for the end of a path."""
    with pytest.raises(WrongUseError, match="a container cannot mount a path with a colon"):
        start(a_container(tmp_path / "a:b"))


RECORDS = """#!{python}
import json, os, sys
with open({to!r}, "a") as file:
    file.write(json.dumps({{"words": sys.argv, "environment": dict(os.environ)}}) + "\\n")
"""


def a_program(folder: Path, name: str, to: Path) -> None:
    """A program on PATH that records how it was called."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(RECORDS.format(python=sys.executable, to=str(to)), encoding="utf-8")
    program.chmod(0o755)


@pytest.mark.parametrize("launcher", ["podman run image", "srun -N1"])
def test_launcher__is_found_on_the_users_path_and_called(
    folder: Path, tmp_path: Path, launcher: str
) -> None:
    """With stand-ins for podman and srun: they get their words, and what they must hand on."""
    to = tmp_path / "calls"
    a_program(tmp_path / "bin", launcher.split()[0], to)
    spec = SideSpec(folder, launcher=tuple(launcher.split()), variables={"LICENSE_KEY": "k"})
    started = spec.start(WORDS, {"PATH": f"{tmp_path}/bin:/usr/bin"}, None, LAUNCH)
    subprocess.run(started.command, env=started.environment, cwd=folder, check=True)
    call = json.loads(to.read_text("utf-8"))
    assert tuple(call["words"][1:]) == started.command[1:]
    assert call["environment"]["LICENSE_KEY"] == "k"
    assert call["environment"]["CI_SCORE_LAUNCH_DIR"] == "/out/1"
    # Only srun's environment is the command's own.
    assert ("CI_SCORE_HOOK" in call["environment"]) == launcher.startswith("srun")


# --- what may be shown ----------------------------------------------------------------------------


def test_secrets__are_shown_as_set() -> None:
    """Names that look like a secret, and logins in addresses, stand in no file of ours."""
    variables = {"HF_TOKEN": "hf_1", "TOKENIZERS_PARALLELISM": "0", "db_password": "p"}
    assert shown({**variables, "PROXY": "http://me:pw@proxy:80"}) == {
        "HF_TOKEN": "set", "PROXY": "http://…@proxy:80", "TOKENIZERS_PARALLELISM": "0",
        "db_password": "set",
    }  # fmt: skip
    words = [
        "podman",
        "run",
        "-e",
        "HF_TOKEN=hf_1",
        "--env=API_KEY=k=",
        "--token",
        "t",
        "-e",
        "X=1",
    ]
    assert launcher_in_words(words) == (
        "podman run -e HF_TOKEN=set --env=API_KEY=set --token set -e X=1"
    )
    assert launcher_in_words(()) is None


def test_side__tells_a_session_what_must_not_change(folder: Path) -> None:
    """A session goes on only with the same sides, and its file holds no secret."""
    spec = SideSpec(folder, variables={"A_TOKEN": "t"}, launcher=("srun", "-N1"))
    assert spec.fixed() == {
        "folder": str(folder),
        "python": None,
        "variables": {"A_TOKEN": "set"},
        "launcher": "srun -N1",
        "keep_trackers": False,
    }
    assert os.fspath(folder) in json.dumps(spec.fixed())

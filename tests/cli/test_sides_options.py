"""The options that say what a side is, as a person types them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ci_score.cli.sides import FolderOrCommit, side_of, side_options, sides_of, sides_options
from ci_score.measure import SidesRequest

ASKED: list[SidesRequest] = []


@click.command()
@click.option("--base", type=FolderOrCommit())
@sides_options
def both(base: Path | str, **options: Any) -> None:
    ASKED[:] = [sides_of(options, base, Path())]
    assert options == {}


@click.command()
@side_options
def alone(**options: Any) -> None:
    ASKED[:] = [side_of(options)]
    assert options == {}


def asked(*words: str, command: click.Command = both) -> SidesRequest:
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return ASKED[0]


def refused(*words: str) -> str:
    done = CliRunner().invoke(both, words)
    assert done.exit_code == 2
    return done.output


def test_sides__all_options_are_taken(here: Path) -> None:
    """Both sides are alike but for what is said of one of them."""
    assert asked("--base", str(here)) == SidesRequest(head=Path(), base=here)
    request = asked(
        "--base", "main", "--launcher", "srun -N1", "--head-launcher", "podman run image",
        "--base-env", "A=1", "--base-env", "B=x=y", "--head-env", "A=", "--base-python",
        sys.executable, "--setup", "make", "--link", "data", "--link", "more", "--keep-trackers",
    )  # fmt: skip
    assert request == SidesRequest(
        head=Path(),
        base="main",
        base_python=Path(sys.executable),
        base_env={"A": "1", "B": "x=y"},
        head_env={"A": ""},
        base_launcher="srun -N1",
        head_launcher="podman run image",
        setup="make",
        links=("data", "more"),
        keep_trackers=True,
    )


def test_sides__a_command_with_one_side_has_the_same_options(here: Path) -> None:
    """Without a word for which side they are."""
    request = asked("--env", "A=1", "--launcher", "srun", "--setup", "make", command=alone)
    assert request == SidesRequest(
        head=Path(), head_env={"A": "1"}, head_launcher="srun", setup="make"
    )


def test_base__is_a_folder_where_there_is_one(here: Path) -> None:
    """Else a commit or a branch; a mistyped path is told from both."""
    (here / "main").mkdir()
    (here / "file").touch()
    assert asked("--base", "main").base == Path("main")
    assert asked("--base", "HEAD~1").base == "HEAD~1"
    assert "there is no folder '../bse'" in refused("--base", "../bse")
    assert "'file' is a file; give a folder, a commit" in refused("--base", "file")
    assert "it is empty" in refused("--base", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--base-env", "s3cret"), "give KEY=VALUE, as NCCL_ALGO=Ring"),
        (("--base-env", "CI_SCORE_HOOK=1"), "CI_SCORE_HOOK is set by ci-score itself"),
        (("--base-python", "env"), "env is a folder, not an interpreter; give env/bin/python"),
        (("--head-python", "plain"), "plain cannot be run; give an interpreter"),
        (("--base-python", "nowhere"), "does not exist"),
    ],
)
def test_sides__mistakes_are_refused_with_what_to_do(
    here: Path, words: tuple[str, ...], message: str
) -> None:
    """A value that may be a secret is not repeated."""
    (here / "env" / "bin").mkdir(parents=True)
    (here / "env" / "bin" / "python").touch()
    (here / "plain").touch()
    said = " ".join(refused("--base", "main", *words).split())
    assert message in said
    assert "s3cret" not in said

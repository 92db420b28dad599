"""The options that say what a side is: its code, its environment, and how it is launched."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.cli.options import with_options
from ci_score.measure import SidesRequest

F = TypeVar("F", bound=Callable[..., Any])
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FolderOrCommit(click.ParamType):  # type: ignore[type-arg]  # generic only since 8.5
    """A folder; any other text is a commit or branch, which is looked for in head's repository."""

    name = "folder or commit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | str:
        """The folder as a path, a commit as text; a file is refused, and nothing at all.

        With --or-alone nothing at all says that there is no base.
        """
        if not str(value).strip():
            if ctx is not None and ctx.params.get("or_alone"):
                return ""
            self.fail("it is empty; give a folder, a commit or a branch", param, ctx)
        path = Path(value)
        if isinstance(value, Path) or path.is_dir():
            return path
        if path.is_file():
            self.fail(f"{value!r} is a file; give a folder, a commit or a branch", param, ctx)
        # A mistyped path: no branch begins like this.
        if value.startswith((".", "/", "~")):
            self.fail(f"there is no folder {value!r}", param, ctx)
        return str(value)


def _variables(_ctx: click.Context, _param: click.Parameter, rows: Sequence[str]) -> dict[str, str]:
    found = {}
    for row in rows:
        name, equals, value = row.partition("=")
        if not equals or not NAME.fullmatch(name):
            # What was given may be a secret, so it is not repeated.
            raise click.BadParameter("give KEY=VALUE, as NCCL_ALGO=Ring")
        if name.startswith("CI_SCORE_"):
            raise click.BadParameter(f"{name} is set by ci-score itself")
        found[name] = value
    return found


def _python(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    if path is None:
        return None
    if path.is_dir():
        inner = path / "bin" / "python"
        hint = f"; give {inner}" if inner.is_file() else ""
        raise click.BadParameter(f"{path} is a folder, not an interpreter{hint}")
    if not os.access(path, os.X_OK):
        raise click.BadParameter(f"{path} cannot be run; give an interpreter")
    # Not resolved: the Python of an environment is a link to one that knows nothing of it.
    return path.absolute()


def _python_option(name: str, whose: str) -> Callable[[F], F]:
    return click.option(
        name,
        type=click.Path(path_type=Path, exists=True),
        callback=_python,
        metavar="PYTHON",
        help=f"The interpreter of {whose}: its folder leads PATH, so `torchrun` is its own, too."
        "  [default: the folder's own .venv, else PATH]",
    )


def _variables_option(name: str, whose: str) -> Callable[[F], F]:
    return click.option(
        name,
        multiple=True,
        callback=_variables,
        metavar="KEY=VALUE",
        help=f"A variable in the environment of {whose}; may be repeated.",
    )


def _launcher_option(name: str, meaning: str) -> Callable[[F], F]:
    return click.option(name, metavar="WORDS", help=meaning)


def _link_option(whose: str, meaning: str) -> Callable[[F], F]:
    return click.option(
        "--link",
        "links",
        multiple=True,
        metavar="PATH",
        help=f"Data in {whose} that git does not track: {meaning}; may be repeated.",
    )


_setup_option = click.option(
    "--setup",
    metavar="CMD",
    help="Run this by a shell once in each side's folder before anything is timed, with the side's"
    ' own .venv first on PATH: "python -m venv .venv && pip install -e .".',
)
_trackers_option = click.option(
    "--keep-trackers",
    is_flag=True,
    help="Leave experiment trackers on (W&B, Comet, Neptune, ClearML, MLflow, SwanLab).",
)
LAUNCHER = (
    'Words before the command: "srun -N1", or "podman run IMAGE", which mounts the side and'
    " hands on only our variables and the side's"
)

# For `ab`: two sides, alike but for what is said of one of them.
sides_options = with_options(
    _python_option("--base-python", "base"),
    _python_option("--head-python", "head"),
    _variables_option("--base-env", "base"),
    _variables_option("--head-env", "head"),
    _launcher_option("--launcher", f"{LAUNCHER}; for both sides."),
    _launcher_option("--base-launcher", "The same for base alone."),
    _launcher_option("--head-launcher", "The same for head alone."),
    _setup_option,
    _link_option("head's folder", "base's checkout gets a link to it"),
    _trackers_option,
)
# For a command that launches one side.
side_options = with_options(
    click.option(
        "--dir", "folder", type=FOLDER, default=".", show_default=True, help="The code to run."
    ),
    _python_option("--python", "the command"),
    _variables_option("--env", "the command"),
    _launcher_option("--launcher", f"{LAUNCHER}."),
    _setup_option,
    _trackers_option,
)
# For a command that checks out each commit which it launches.
checkout_options = with_options(
    side_options, _link_option("the folder", "each checkout gets a link to it")
)


def sides_of(options: dict[str, Any], base: Path | str | None, head: Path) -> SidesRequest:
    """Both sides from a command's options, which are taken out of them."""
    names = ("base_python", "head_python", "base_env", "head_env", "setup", "keep_trackers")
    both = options.pop("launcher")
    launchers = {
        name: both if (own := options.pop(name)) is None else own
        for name in ("base_launcher", "head_launcher")
    }
    return SidesRequest(
        base=base,
        head=head,
        links=tuple(options.pop("links")),
        **launchers,
        **{name: options.pop(name) for name in names},
    )


def side_of(options: dict[str, Any]) -> SidesRequest:
    """The one side of a command from its options, which are taken out of them."""
    return SidesRequest(
        head=options.pop("folder"),
        head_python=options.pop("python"),
        head_env=options.pop("env"),
        head_launcher=options.pop("launcher"),
        setup=options.pop("setup"),
        keep_trackers=options.pop("keep_trackers"),
    )

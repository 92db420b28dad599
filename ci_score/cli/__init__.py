"""The command line: one file per command, loaded on use. Exit codes are decided here."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from ci_score import __version__
from ci_score.cli.console import complain, say
from ci_score.cli.machine import Machine
from ci_score.errors import EXIT_UNJUDGED, EXIT_WRONG_USE, CiScoreError
from ci_score.model.lists import did_you_mean

COMMANDS = (
    "run",
    "post",
    "score",
    "compare",
    "parity",
    "convert",
    "formats",
    "hardware",
    "report",
    "badge",
    "site",
    "demo",
    "open",
    "init",
    "ab",
    "measure",
    "bisect",
    "base",
    "env",
    "qualify",
    "policy",
    "selftest",
)


class LazyGroup(click.Group):
    """Imports a command's module only when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, from the module of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or an error with the one that was probably meant: click knows none here."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name[:80]!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ci-score")
def cli() -> None:
    """Performance review of ML training in pull requests.

    Reads a profiler's files, computes a scorecard, compares it with a baseline and says what became
    slower, where, and how sure that is.

    \b
    Examples:
      ci-score demo                                  see the whole job on sample data
      ci-score score profile.json                    what one profile says
      ci-score compare head.json base.json           what changed between two records

    \b
    Exit codes:
      0  pass or warning
      1  a regression beyond a limit, which the policy fails
      2  wrong use or a bad file
      3  could not judge, or ci-score broke
    """


def execute(arguments: Sequence[str], machine: Machine | None = None) -> int:
    """Runs a command and returns its exit code. An abort is 3; with click it would be 1."""
    try:
        result = cli.main(
            list(arguments),
            prog_name="ci-score",
            standalone_mode=False,
            obj=machine or Machine(),
        )
        return result if isinstance(result, int) else 0
    except CiScoreError as error:
        for line in error.lines:
            say(f"ci-score: {line}")
        return error.exit_code
    except click.ClickException as error:
        complain(error)
        return EXIT_WRONG_USE
    except (click.Abort, KeyboardInterrupt):
        say("ci-score: interrupted, so nothing was judged")
        return EXIT_UNJUDGED
    except SystemExit as stop:
        # click exits after completing a word, and exits with 1 if the reader of our output is gone.
        return EXIT_UNJUDGED if stop.code else 0
    except OSError as error:  # such as a full disk behind standard output; files have own errors
        say(f"ci-score: the machine refuses ({error}), so nothing was judged")
        return EXIT_UNJUDGED
    except Exception as error:  # noqa: BLE001 - a crash must not look like a regression
        for line in _crash_report(error):
            say(line)
        return EXIT_UNJUDGED


def _crash_report(error: Exception) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return [
        f"ci-score broke. This is a fault of ci-score {__version__}, not of your change.",
        "Nothing was judged. Please report it with these lines:",
        f"  Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        *(f"  {Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames),
        f"  {type(error).__name__}: {str(error)[:500]}",
    ]

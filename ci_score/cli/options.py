"""Options that several commands share, and how a result is written."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ci_score.cli.console import say, screen, show_report
from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.disk import STANDARD_INPUT, display_name, read_bytes, write_atomically
from ci_score.files.visible import unlike_commands
from ci_score.model.gate import FailOn, Gate, OnInconclusive
from ci_score.report import Screen
from ci_score.traces import FORMATS, ProfileSource, step_pattern

if TYPE_CHECKING:
    from ci_score.compare import Workload

F = TypeVar("F", bound=Callable[..., Any])


class PositiveNumber(click.ParamType):  # type: ignore[type-arg]  # generic only since 8.5
    """A finite number above 0; click's own range accepts `nan` and `inf`."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or click's message about the option."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            self.fail(f"{value!r} is not a finite number above 0", param, ctx)
        return number


POSITIVE = PositiveNumber()


def with_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Gives a command these options, in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _positive(name: str, unit: str, meaning: str, field: str | None = None) -> Callable[[F], F]:
    names = [name, *([field] if field else [])]
    return click.option(*names, type=POSITIVE, metavar=unit, help=meaning)


# What the user knows about a run; it wins over the profile's own values.
workload_options = with_options(
    _positive("--throughput", "TOK/S", "Tokens per second of the whole job.", "throughput_tok_s"),
    _positive("--tokens-per-step", "N", "Tokens of one step, over all devices."),
    click.option(
        "--hardware", metavar="NAME", help="Accelerator or preset; see `ci-score hardware`."
    ),
    click.option(
        "--devices",
        "accelerator_count",
        type=click.IntRange(1, 10**6),
        metavar="N",
        help="How many accelerators the job used.",
    ),
    _positive("--peak-bandwidth-gb-s", "GB/S", "Peak memory bandwidth of one device."),
    _positive("--bytes-per-token", "BYTES", "Bytes that one device moves per token it trains on."),
    _positive(
        "--bytes-per-step", "BYTES", "Bytes that one device moves per step, shared by its tokens."
    ),
    _positive("--flops-per-token", "FLOP", "For MFU: model FLOPs per token, forward and backward."),
    _positive(
        "--recomputed-flops-per-token",
        "FLOP",
        "For HFU: FLOPs per token that are computed a second time.",
    ),
    click.option("--precision", metavar="DTYPE", help="For MFU: bf16, fp16, fp8, …"),
)


def workload_of(options: dict[str, Any]) -> Workload:
    """The workload from a command's options, which are taken out of them."""
    from ci_score.compare import Workload

    values = {name: options.pop(name) for name in Workload.__dataclass_fields__}
    if values["precision"]:
        values["precision"] = values["precision"].lower()
    return Workload(**values)


def _one_of(choices: type[StrEnum]) -> click.Choice[str]:
    """The values of an enum as choices; click would offer the names of its members."""
    return click.Choice([choice.value for choice in choices])


# What fails the check.
gate_options = with_options(
    click.option(
        "--fail-on",
        type=_one_of(FailOn),
        default=FailOn.CRITICAL.value,
        show_default=True,
        help="Which regressions exit with 1.",
    ),
    click.option(
        "--on-inconclusive",
        type=_one_of(OnInconclusive),
        default=OnInconclusive.AUTO.value,
        show_default=True,
        help="What to do if a case could not be judged; auto: depends on the reason.",
    ),
)


def gate_of(options: dict[str, Any]) -> Gate:
    """The gate from a command's options, which are taken out of them."""
    return Gate(
        fail_on=FailOn(options.pop("fail_on")),
        on_inconclusive=OnInconclusive(options.pop("on_inconclusive")),
    )


def only_one_stdin(*names: str | None) -> None:
    """Standard input can be read once."""
    if [name for name in names if name == STANDARD_INPUT][1:]:
        raise WrongUseError("only one of the files may be -: standard input can be read once")


output_file_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Write to a file instead of standard output.",
)
# In which form a result is written, and where.
output_options = with_options(
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option(
        "--style",
        type=click.Choice(["terminal", "markdown", "reference"]),
        default="terminal",
        show_default=True,
        help="Form of the text; reference: the reference model's own markdown.",
    ),
    output_file_option,
)


@dataclass(frozen=True, slots=True)
class Output:
    """In which form the user wants a result, and where."""

    as_json: bool
    style: str
    file: str | None

    @property
    def screen(self) -> Screen:
        """What the text is laid out for: a file has lines of any length."""
        return Screen() if self._is_file else screen()

    @property
    def _is_file(self) -> bool:
        return self.file not in (None, STANDARD_INPUT)

    def write(self, text: str) -> None:
        """Prints the text, or puts it whole into the file."""
        if self._is_file:
            write_atomically(Path(str(self.file)), text, follow=True)
            say(f"written: {self.file}")
            return
        if self.style == "terminal" and not self.as_json:
            show_report(text)
            return
        exact = self.as_json or (self.style == "reference" and not in_a_job())
        click.echo(text if exact else unlike_commands(text), nl=False)


# Of how many cases the whole report is shown, in a terminal.
all_option = click.option(
    "--all",
    "whole",
    is_flag=True,
    help="In a terminal show every case in full, also those that pass.",
)


def output_of(options: dict[str, Any]) -> Output:
    """The output from a command's options, which are taken out of them."""
    file = file_name(options.pop("output"))
    return Output(as_json=options.pop("as_json"), style=options.pop("style"), file=file)


def file_name(output: str | None) -> str | None:
    """The file of `--output`; a script's empty variable is an error and not standard output."""
    if output == "":
        raise WrongUseError("--output needs the name of a file")
    return output


step_name_option = click.option(
    "--step-name",
    metavar="REGEX",
    default="",
    callback=lambda *given: step_pattern(given[-1]),
    help="What the ranges of your steps are called, where a trace marks them by other names.",
)


def source_of(file: str) -> ProfileSource:
    """A profiler's file, or standard input."""
    if file == STANDARD_INPUT:
        return ProfileSource(display_name(file), data=read_bytes(file))
    return ProfileSource(file, path=Path(file))


def is_profile(source: ProfileSource) -> bool:
    """Whether it is a profiler's file, by its beginning; late in a log there may be one, too."""
    try:
        head = source.head()
    except BadInputError:
        return False
    return any(row.recognises(head) for row in FORMATS if row.name != "log")


def in_a_job() -> bool:
    """Whether this is a GitHub Actions job, whose runner reads commands in what is printed."""
    return os.environ.get("GITHUB_ACTIONS") == "true"

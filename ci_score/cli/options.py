"""Options that several commands share, and how a result is written."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.cli.colour import show_report
from ci_score.cli.voice import say
from ci_score.compare.efficiency import Workload
from ci_score.errors import WrongUseError
from ci_score.files.disk import STANDARD_INPUT, display_name, read_bytes, write_atomically
from ci_score.files.visible import unlike_commands
from ci_score.judge.verdict import FailOn, Gate, OnInconclusive
from ci_score.model.record import Record
from ci_score.traces import UNPACKED_LIMIT, ProfileSource

F = TypeVar("F", bound=Callable[..., Any])


class PositiveNumber(click.ParamType):  # type: ignore[type-arg]  # generic only since 8.5
    """A finite number above 0; unlike click's own range it refuses `nan` and `inf`."""

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


def workload_options(command: F) -> F:
    """What the user can say about a run; an explicit value wins over the profile's own."""
    for option in reversed(
        (
            click.option(
                "--throughput",
                "throughput_tok_s",
                type=POSITIVE,
                metavar="TOK/S",
                help="Tokens per second of the whole job.",
            ),
            click.option(
                "--tokens-per-step",
                type=POSITIVE,
                metavar="N",
                help="Tokens of one step, over all devices.",
            ),
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
            click.option(
                "--peak-bandwidth-gb-s",
                type=POSITIVE,
                metavar="GB/S",
                help="Peak memory bandwidth of one device.",
            ),
            click.option(
                "--bytes-per-token",
                type=POSITIVE,
                metavar="BYTES",
                help="Bytes that one device moves per token it trains on.",
            ),
            click.option(
                "--bytes-per-step",
                type=POSITIVE,
                metavar="BYTES",
                help="Bytes that one device moves per step, shared by its tokens.",
            ),
            click.option(
                "--flops-per-token",
                type=POSITIVE,
                metavar="FLOP",
                help="For MFU: model FLOPs per token, forward and backward.",
            ),
            click.option(
                "--recomputed-flops-per-token",
                type=POSITIVE,
                metavar="FLOP",
                help="For HFU: FLOPs per token that are computed a second time.",
            ),
            click.option("--precision", metavar="DTYPE", help="For MFU: bf16, fp16, fp8, …"),
        )
    ):
        command = option(command)
    return command


def workload_of(options: dict[str, Any]) -> Workload:
    """The workload from a command's options, which are taken out of them."""
    said = {name: options.pop(name) for name in Workload.__dataclass_fields__}
    if said["precision"]:
        said["precision"] = said["precision"].lower()
    return Workload(**said)


def gate_options(command: F) -> F:
    """What fails the check."""
    command = click.option(
        "--on-inconclusive",
        type=_one_of(OnInconclusive),
        default=OnInconclusive.AUTO.value,
        show_default=True,
        help="What to do where nothing could be judged; auto: by its reason.",
    )(command)
    return click.option(
        "--fail-on",
        type=_one_of(FailOn),
        default=FailOn.CRITICAL.value,
        show_default=True,
        help="Which regressions exit with 1.",
    )(command)


def gate_of(options: dict[str, Any]) -> Gate:
    """The gate from a command's options, which are taken out of them."""
    return Gate(
        fail_on=FailOn(options.pop("fail_on")),
        on_inconclusive=OnInconclusive(options.pop("on_inconclusive")),
    )


def only_one_stdin(*names: str | None) -> None:
    """Standard input can be read once."""
    if [name for name in names if name == STANDARD_INPUT][1:]:
        raise WrongUseError("only one of the files may be -, standard input can be read once")


def _one_of(choices: type[StrEnum]) -> click.Choice[str]:
    """Click's choice of an enum would offer the names of its members; users type their values."""
    return click.Choice([choice.value for choice in choices])


def output_options(command: F) -> F:
    """In which form, and where to."""
    for option in reversed(
        (
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
    ):
        command = option(command)
    return command


output_file_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Write to a file instead of standard output.",
)


@dataclass(frozen=True, slots=True)
class Output:
    """How the user wants a result."""

    as_json: bool
    style: str
    file: str | None

    def write(self, text: str) -> None:
        """Prints the text, or puts it whole into the file."""
        if self.file not in (None, STANDARD_INPUT):
            write_atomically(Path(str(self.file)), text)
            say(f"written: {self.file}")
            return
        if self.style == "terminal" and not self.as_json:
            show_report(text)
            return
        exact = self.as_json or (self.style == "reference" and not in_a_job())
        click.echo(text if exact else unlike_commands(text), nl=False)


def output_of(options: dict[str, Any]) -> Output:
    """The output from a command's options, which are taken out of them."""
    file = file_name(options.pop("output"))
    return Output(as_json=options.pop("as_json"), style=options.pop("style"), file=file)


def file_name(said: str | None) -> str | None:
    """The file of `--output`, which an empty variable of a script must not hide."""
    if said == "":
        raise WrongUseError("--output needs the name of a file")
    return said


def source_of(file: str, unpacked_limit: int = UNPACKED_LIMIT) -> ProfileSource:
    """A profiler's file, or standard input."""
    if file == STANDARD_INPUT:
        data = read_bytes(file)
        return ProfileSource(display_name(file), data=data, unpacked_limit=unpacked_limit)
    return ProfileSource(file, path=Path(file), unpacked_limit=unpacked_limit)


def in_a_job() -> bool:
    """Whether a workflow's runner listens to what is printed."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def report_in_style(record: Record, style: str, title: str = "") -> str:
    """The record for people, or as the reference's markdown; renderers load only when used."""
    if style == "html":
        from ci_score.report.html.page import report_html

        return report_html(record, title)
    if style == "reference":
        if len(record.cases) != 1:
            raise WrongUseError("the reference's markdown knows one case; this record has several")
        from ci_score.reference import scorecard_markdown

        return scorecard_markdown(record.cases[0].scorecard)
    if style == "markdown":
        from ci_score.report.markdown import report_markdown

        return report_markdown(record, title)
    from ci_score.report.terminal import report_text

    return report_text(record)

"""`ci-score hardware`: lists accelerators, with the source of their numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ci_score.cli.console import screen
from ci_score.files.strict_json import dump
from ci_score.model.accelerators import (
    Accelerator,
    Preset,
    accelerators,
    find_accelerator,
    find_preset,
    presets,
    unknown,
)


def _complete(_context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    names = [*(row.name for row in presets()), *(row.name for row in accelerators())]
    return [name for name in names if name.lower().startswith(begun.lower())]


@click.command("hardware")
@click.argument("name", required=False, shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> None:
    """List accelerators with memory bandwidth and dense peaks, or show the one called NAME.

    NAME may be what a driver prints. A preset also has the reference's bytes per token.

    \b
    Examples:
      ci-score hardware
      ci-score hardware "NVIDIA H100 80GB HBM3"
      ci-score hardware --json
    """
    devices, named_presets = _chosen(name)
    if as_json:
        rows = [*map(_as_json, named_presets), *map(_as_json, devices)]
        click.echo(dump(rows[0] if name else rows), nl=False)
        return
    shown_on = screen()
    if named_presets:
        click.echo("Presets of the reference model")
        header = ["name", "GB/s", "bytes/token"]
        numbers = [_preset_row(preset) for preset in named_presets]
        click.echo(shown_on.table(numbers, ("name", "number", "number"), header))
    if devices:
        words = "Accelerators (dense TFLOP/s; multiply-accumulate in fp32 where there is a choice)"
        click.echo(shown_on.text(words))
        header = ["name", "GB", "GB/s", "peaks"]
        lines = [_accelerator_row(device) for device in devices]
        click.echo(shown_on.table(lines, ("name", "number", "number", "text"), header))
    if name:
        for device in devices:
            click.echo(shown_on.text(f"Source: {device.source}"))


def _chosen(name: str | None) -> tuple[tuple[Accelerator, ...], tuple[Preset, ...]]:
    if name is None:
        return accelerators(), presets()
    preset = find_preset(name)
    if preset:
        return (), (preset,)
    accelerator = find_accelerator(name)
    if accelerator is None:
        raise unknown(name)
    return (accelerator,), ()


def _as_json(row: Accelerator | Preset) -> dict[str, Any]:
    return {key: value for key, value in asdict(row).items() if key != "patterns"}


def _preset_row(preset: Preset) -> tuple[str, str, str]:
    return preset.name, f"{preset.bandwidth_gb_s:g}", f"{preset.bytes_per_token:g}"


def _accelerator_row(row: Accelerator) -> tuple[str, str, str, str]:
    peaks = ", ".join(f"{dtype} {flops / 1e12:g}" for dtype, flops in row.flops.items())
    return row.name, f"{row.memory_gb:g}", f"{row.bandwidth_gb_s:g}", peaks

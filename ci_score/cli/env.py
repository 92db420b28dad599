"""`ci-score env`: what this machine is, for environment.json beside the measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ci_score.cli.session import visible_devices
from ci_score.files.disk import write_atomically
from ci_score.measure.environment import here


@click.command("env")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write environment.json here: beside the measurements or profiles, which `run` reads.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON.")
def command(output: Path | None, as_json: bool) -> None:
    """Tell what this machine is: accelerators, driver, clocks, versions, git.

    Accelerators are asked through NVML (pip install "ci-score[nvml]"), nvidia-smi or rocm-smi,
    whichever is there. Versions are those of the Python that ci-score runs in. What cannot be
    known is left out.

    \b
    Examples:
      ci-score env
      ci-score env --json
      ci-score env -o profiles/environment.json
    """
    found = here(visible_devices())
    text = json.dumps(found, indent=2) + "\n"
    if output is not None:
        write_atomically(output, text)
    if as_json:
        click.echo(text, nl=False)
    elif output is None:
        for name, value in found.items():
            click.echo(f"{name:<18} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(_shown(item) for item in value)
    return str(value)

"""`ci-score env`: describes this machine, for environment.json beside the measurements."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from ci_score.cli.console import show_report
from ci_score.files.disk import write_atomically
from ci_score.measure import this_machine


@click.command("env")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write environment.json here. `run` reads it beside measurements or profiles.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON.")
def command(output: Path | None, as_json: bool) -> None:
    """Describe this machine: accelerators, driver, clocks, versions, git.

    Accelerators are read through NVML (pip install "ci-score[nvml]"), nvidia-smi or rocm-smi, the
    first that works. Versions are those of the Python that runs ci-score. What is not known is left
    out.

    \b
    Examples:
      ci-score env
      ci-score env --json
      ci-score env -o profiles/environment.json
    """
    machine = this_machine(os.environ)
    text = json.dumps(machine, indent=2) + "\n"
    if output is not None:
        write_atomically(output, text, follow=True)
    if as_json:
        show_report(text)
    elif output is None:
        show_report("".join(f"{key:<18} {_shown(value)}\n" for key, value in machine.items()))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(_shown(item) for item in value)
    return str(value)

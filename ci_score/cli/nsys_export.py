"""Nsight Systems turns its own reports into what is read: on a person's machine, never in a job.

A job has its reports from a stranger's change, and would start a large program on them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ci_score.cli import options
from ci_score.cli.console import say
from ci_score.errors import BadInputError
from ci_score.traces import ProfileSource, is_nsight_report

# A capture of a minute takes seconds.
LONGEST_S = 600.0
_LOOK_EVERY_S = 0.2
_MOST_WORDS = 500


@contextmanager
def exported(sources: Sequence[ProfileSource]) -> Iterator[list[ProfileSource]]:
    """The sources, with the export of each report of Nsight Systems in its place.

    They stay as they are where there is no `nsys`: their reader says what to do.
    """
    nsys = None if options.in_a_job() else shutil.which("nsys")
    if nsys is None or not any(map(is_nsight_report, sources)):
        yield list(sources)
        return
    with tempfile.TemporaryDirectory(prefix="ci-score-") as folder:
        yield [
            _exported(nsys, source, Path(folder) / f"{number}.sqlite")
            if is_nsight_report(source)
            else source
            for number, source in enumerate(sources)
        ]


def _exported(nsys: str, source: ProfileSource, output: Path) -> ProfileSource:
    if source.path is None:
        return source
    say(f"{source.name}: nsys export --type sqlite")
    # An absolute path is never taken for an option.
    command = [nsys, "export", "--type", "sqlite", "--output", str(output)]
    log = output.with_suffix(".log")
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - the user's own nsys, with a fixed command
            [*command, str(source.path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            # A group of its own, so that its helpers end with it.
            process_group=0,
        )
        problem = _waited(process, output, source.unpacked_limit)
    if not problem and process.returncode == 0 and output.is_file():
        return replace(source, path=output)
    words = " ".join(log.read_bytes()[-_MOST_WORDS:].decode(errors="replace").split())
    raise BadInputError(
        source.name,
        found=f"a report that nsys export {problem or f'cannot turn into SQLite ({words})'}",
        expected="a report of this version of Nsight Systems or an older one",
    )


def _waited(process: subprocess.Popen[bytes], output: Path, limit: int) -> str:
    """Nothing once it has ended by itself, else why it was ended."""
    deadline = time.monotonic() + LONGEST_S
    problem = ""
    try:
        is_running = True
        while is_running and not problem:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_S)
            # Looked at once more after the end, which may come before the first look.
            is_running = process.poll() is None
            if output.exists() and output.stat().st_size > limit:
                problem = f"makes larger than {limit / 1024**3:g} GiB (see --unpacked-limit)"
            elif is_running and time.monotonic() > deadline:
                problem = f"does not finish within {LONGEST_S:g} s"
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return problem

"""One launch of a script under the start-up hook, as `ci-score` makes them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ci_score
from ci_score.measure.launch.hook_records import Said, is_over, read_folder

HOOK = Path(ci_score.__file__).parent / "measure" / "hook"
# Hooks end what runs on after five seconds.
GRACE_SECONDS = 8.0


@dataclass(frozen=True)
class Asked:
    """What the hook is asked for."""

    mode: str = "timed"
    steps: int = 8
    warmup: int = 2
    owner: Mapping[str, Any] | None = None
    tree: Path | None = None

    def variable(self, folder: Path) -> str:
        """The content of CI_SCORE_HOOK."""
        return json.dumps(
            {
                "schema": 1,
                "mode": self.mode,
                "folder": str(folder),
                "steps": self.steps,
                "warmup": self.warmup,
                "owner": self.owner,
                "profile_steps": 3,
                "trace": str(folder / "trace.json"),
                "tree": str(self.tree) if self.tree else None,
            }
        )


@dataclass(frozen=True)
class Hooked:
    """What came of a launch; `ended_by_force` says that it ran on after its end."""

    folder: Path
    code: int
    text: str
    said: Said
    ended_by_force: bool
    own: list[tuple[float, str]] = field(default_factory=list)

    def marks(self, what: str) -> list[dict[str, Any]]:
        """The marks of one kind."""
        lines = (self.folder / "marks.jsonl").read_text(encoding="utf-8").splitlines()
        return [mark for mark in map(json.loads, lines) if mark["mark"] == what]


def launch(
    command: Sequence[str | Path],
    folder: Path,
    asked: Asked = Asked(),
    *,
    cwd: Path | None = None,
    imports: Sequence[Path] = (),
    hook: Path = HOOK,
    timeout: float = 120.0,
    **variables: str,
) -> Hooked:
    """Runs a command under the hook until its folder says all, and ends what is left."""
    records = folder / "records"
    records.mkdir(parents=True)
    log = folder / "log.txt"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CI_SCORE_")},
        "PYTHONPATH": os.pathsep.join(map(str, [hook, *imports])),
        "CI_SCORE_HOOK": asked.variable(records),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + timeout
    over = False
    while process.poll() is None and time.monotonic() < until:
        if not over and is_over(records):
            over = True
            until = min(until, time.monotonic() + GRACE_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    by_force = process.poll() is None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    text = log.read_text(encoding="utf-8", errors="replace")
    return Hooked(records, code, text, read_folder(records), by_force, _own(text))


def _own(text: str) -> list[tuple[float, str]]:
    """The script's own count of steps: when each ended, and its loss."""
    # A progress bar may stand before it on its line.
    rows = re.findall(r"own \d+ ([0-9.]+) (\S*)$", text, re.MULTILINE)
    return [(float(at), loss) for at, loss in rows]

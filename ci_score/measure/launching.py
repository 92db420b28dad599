"""One fresh process of the harness: started, timed, watched, and ended with all its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_score.errors import BadInputError
from ci_score.measure.recorder import LINE_LIMIT, PATH_VARIABLE
from ci_score.measure.schedule import Side
from ci_score.measurements import Launch
from ci_score.strict_json import parse, validate

LOG_LIMIT = 64 * 1024 * 1024
TAIL_LINES = 12
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be launched: a side's pair, its folder, and where its traces go."""

    side: Side
    pair: int
    place: int
    folder: Path
    log: Path
    measurements: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a launch: its measurement, or why there is none."""

    order: Order
    launch: Launch | None
    problem: str = ""
    timed_from: str = ""

    @property
    def words(self) -> str:
        """For people: side, launch and reason."""
        return f"{self.order.side}, pair {self.order.pair}: {self.problem}"


def launch(command: Sequence[str], order: Order, timeout: float) -> Done:
    """Runs the harness once in the side's folder and reads what it measured."""
    order.measurements.unlink(missing_ok=True)
    order.log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with order.log.open("wb") as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command is what this is for
                command,
                cwd=order.folder,
                env={**order.environment, **_told(order)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            words = f"the harness cannot be started ({error.strerror}: {command[0]})"
            return Done(order, None, words)
        try:
            problem = _watched(process, order, begin + timeout, timeout)
        finally:
            _end_group(process)
    seconds = time.perf_counter() - begin
    if problem:
        return Done(order, None, problem + _tail(order.log))
    return _measured(order, seconds)


def _told(order: Order) -> dict[str, str]:
    return {
        PATH_VARIABLE: str(order.measurements),
        "CI_SCORE_SIDE": order.side,
        "CI_SCORE_LAUNCH": str(order.pair),
    }


def _watched(process: subprocess.Popen[bytes], order: Order, until: float, timeout: float) -> str:
    """Waits for the end; a problem is a text."""
    while process.poll() is None:
        if time.perf_counter() > until:
            return f"it took longer than {timeout:g} s and was ended"
        if order.log.stat().st_size > LOG_LIMIT:
            return f"it printed more than {LOG_LIMIT >> 20} MB and was ended"
        time.sleep(POLL_SECONDS)
    if process.returncode < 0:
        return f"it was ended by signal {-process.returncode}"
    return f"it exited with {process.returncode}" if process.returncode else ""


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Whatever the harness left running would share the machine with the next launch."""
    for sign, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        try:
            os.killpg(process.pid, sign)
        except (ProcessLookupError, PermissionError):
            break
        until = time.perf_counter() + seconds
        while time.perf_counter() < until and _lives(process):
            time.sleep(POLL_SECONDS)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)


def _lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


# --- what it measured ---------------------------------------------------------------------------


def _measured(order: Order, seconds: float) -> Done:
    """The recorder's line, else the steps that it printed, else its whole time."""
    try:
        values, source = _recorded(order.measurements), "the harness"
        if values is None:
            values, source = _printed(order.log), "printed steps"
        if values is None:
            values, source = {"step_ms": [seconds * 1000.0]}, "outside: the whole process"
        launch = _checked(values, order)
    except BadInputError as error:
        return Done(order, None, f"{error.found}; expected {error.expected}" + _tail(order.log))
    return Done(order, launch, timed_from=source)


def _recorded(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(LINE_LIMIT + 1)
    except FileNotFoundError:
        return None
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(data) > LINE_LIMIT or len(lines) != 1:
        raise BadInputError(
            path.name,
            found=f"{len(lines)} lines in what the harness recorded",
            expected="one line of at most 4 MB for each process",
        )
    if not data.endswith(b"\n"):
        raise BadInputError(path.name, found="half a line", expected="a whole line")
    value = parse(lines[0], path.name)
    if not isinstance(value, dict):
        raise BadInputError(path.name, found="no object", expected="a JSON object")
    return value


def _printed(log: Path) -> dict[str, Any] | None:
    """Lines like `{"step_ms": 12.3, "tokens": 4096}` among whatever else was printed."""
    steps, tokens, loss = [], [], None
    with log.open("rb") as stream:
        for line in stream:
            if not line.startswith(b'{"') or b'"step_ms"' not in line or len(line) > 10_000:
                continue
            row = parse(line, "a printed step")
            if not isinstance(row, dict) or not isinstance(row.get("step_ms"), int | float):
                raise BadInputError(
                    "a printed step", found="no number in step_ms", expected='{"step_ms": 12.3}'
                )
            steps.append(row["step_ms"])
            if isinstance(row.get("tokens"), int | float):
                tokens.append(float(row["tokens"]))
            if isinstance(row.get("loss"), int | float):
                loss = float(row["loss"])
    if not steps:
        return None
    values: dict[str, Any] = {"step_ms": steps}
    if len(tokens) == len(steps):
        values["tokens_per_step"] = sum(tokens) / len(tokens)
    return values | ({"final_loss": loss} if loss is not None else {})


def _checked(values: dict[str, Any], order: Order) -> Launch:
    values = {
        "schema": 1,
        **values,
        "side": order.side,
        "launch": order.pair,
        "order": order.place,
    }
    return validate(Launch, values, "the measurement")


def _tail(log: Path) -> str:
    """The last lines of the log: what went wrong stands there."""
    with suppress(OSError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 8192))
        lines = stream.read().decode(errors="replace").splitlines()[-TAIL_LINES:]
        if lines:
            return "\n  | " + "\n  | ".join(line[:300] for line in lines)
    return " (it printed nothing)"


def line_of(done: Launch) -> str:
    """The launch as a line of measurements.jsonl."""
    return json.dumps(done.model_dump(mode="json", by_alias=True, exclude_none=True)) + "\n"

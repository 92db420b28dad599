"""One fresh process of the harness: started, timed, watched, and ended with all its children."""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.strict_json import parse
from ci_score.launches import Launch
from ci_score.measure.processes import GRACE_SECONDS, adopt_orphans, descendants, end_all
from ci_score.measure.recorder import FOLDERS_VARIABLE, LINE_LIMIT, PATH_VARIABLE
from ci_score.measure.schedule import Side

LOG_LIMIT = 64 * 1024 * 1024
LONGEST_STEP_LINE = 10_000
TAIL_LINES = 12
CHECK_SECONDS = 0.1
LONGEST_FAILURE = 200


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be launched: a side's pair, where it runs, and where its traces go."""

    side: Side
    pair: int
    place: int
    folder: Path
    other_folder: Path
    paths: tuple[Path, ...]
    log: Path
    measurements: Path
    environment: Mapping[str, str]

    @property
    def mark(self) -> str:
        """What every process of this launch has in its environment, and no other."""
        return f"{PATH_VARIABLE}={self.measurements}"

    def told(self) -> dict[str, str]:
        """The launch's environment: code is imported from the side's own folder first."""
        paths = [*map(str, self.paths), self.environment.get("PYTHONPATH", "")]
        return {
            **self.environment,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            PATH_VARIABLE: str(self.measurements),
            FOLDERS_VARIABLE: f"{self.folder}{os.pathsep}{self.other_folder}",
            "CI_SCORE_SIDE": self.side,
            "CI_SCORE_LAUNCH": str(self.pair),
        }


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a process: how long it took, or what is wrong, with the end of its log."""

    seconds: float
    problem: str = ""
    outlived_by: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a launch: what it measured, or, with `failed`, what there is of a void one.

    `problem` says more of why it is void than a line can hold: the end of its log, too.
    """

    order: Order
    launch: Launch
    problem: str = ""
    timed_from: str = ""
    outlived_by: int = 0

    @property
    def place(self) -> str:
        """Side, and pair as it is counted on the terminal."""
        return f"{self.order.side}, pair {self.order.pair + 1}"

    @property
    def words(self) -> str:
        """For people: whose problem, and which."""
        return f"{self.place}: {self.problem}"

    @property
    def gist(self) -> str:
        """The same without the end of the log."""
        return self.words.partition("\n")[0]

    def but(self, launch: Launch) -> Done:
        """The same with more said of the launch."""
        return replace(self, launch=launch)

    def void(self, problem: str) -> Done:
        """The same, with a reason why it cannot be used."""
        return replace(self, launch=self.launch.but(failed=_short(problem)), problem=problem)


def _short(problem: str) -> str:
    """A problem as a measurement line can have it."""
    return problem.partition("\n")[0][:LONGEST_FAILURE]


def launch(
    command: Sequence[str], order: Order, timeout: float, stopped: Callable[[], bool]
) -> Done:
    """Runs the harness once in the side's folder and reads what it measured."""
    ran = run_once(command, order, timeout, stopped)
    if ran.problem:
        return _void(order, ran.problem)
    return replace(_measured(order, ran.seconds), outlived_by=ran.outlived_by)


def run_once(
    command: Sequence[str], order: Order, timeout: float, stopped: Callable[[], bool]
) -> Ran:
    """Starts a command as a launch, waits for its end, and ends whatever it leaves running.

    Whether somebody wants it `stopped` is asked, and no signal breaks in: there is no moment in
    which a process runs that nobody would end.
    """
    order.measurements.unlink(missing_ok=True)
    order.log.parent.mkdir(parents=True, exist_ok=True)
    adopt_orphans()
    before = descendants()
    with order.log.open("wb") as log:
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command is what this is for
                command,
                cwd=order.folder,
                env=order.told(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            words = f"the harness cannot be started ({error.strerror}: {command[0]})"
            return Ran(0.0, words)
        ended: list[float] = []

        def wait() -> None:
            process.wait()
            ended.append(time.perf_counter())

        # A thread knows the very moment of the end, and not when somebody looked.
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        try:
            problem = _watched(process, waiting, order.log, timeout, stopped)
        finally:
            # Whatever it left running would share the machine with the next launch.
            outlived_by = end_all(process, order.mark, before)
            waiting.join(GRACE_SECONDS)
    seconds = ended[0] - begin if ended else 0.0
    return Ran(seconds, problem + tail_of(order.log) if problem else "", outlived_by)


def _watched(
    process: subprocess.Popen[bytes],
    waiting: threading.Thread,
    log: Path,
    timeout: float,
    stopped: Callable[[], bool],
) -> str:
    """Waits for the end; a problem is a text."""
    until = time.monotonic() + timeout
    while True:
        waiting.join(min(CHECK_SECONDS, max(0.0, until - time.monotonic())))
        if not waiting.is_alive():
            break
        if stopped():
            return "it was interrupted"
        if time.monotonic() >= until:
            return f"it took longer than {timeout:.3g} s and was ended"
        if log.stat().st_size > LOG_LIMIT:
            return f"it printed more than {LOG_LIMIT >> 20} MB and was ended"
    code = process.returncode
    if code < 0:
        return f"it was ended by signal {-code}"
    return f"it exited with {code}" if code else ""


# --- what it measured ---------------------------------------------------------------------------


def _measured(order: Order, seconds: float) -> Done:
    """The recorder's line, else the steps that it printed, else its whole time."""
    try:
        values, source = _reported(order)
        if values is None:
            values, source = {"step_ms": [seconds * 1000.0]}, "outside: the whole process"
        launch = _sound(_launch_of(values, order))
    except BadInputError as error:
        place = f" in {error.field}" if error.field else ""
        words = f"{error.found}{place}; expected {error.expected}"
        return _void(order, words + tail_of(order.log))
    return Done(order, launch, timed_from=source)


def _void(order: Order, problem: str) -> Done:
    """A launch without a usable time, with what it has reported as far as that can be read."""
    why = {"failed": _short(problem)}
    try:
        values, _ = _reported(order)
        launch = _launch_of({**(values or {"step_ms": []}), **why}, order)
    except BadInputError:
        launch = _launch_of({"step_ms": [], **why}, order)
    return Done(order, launch, problem)


def _reported(order: Order) -> tuple[dict[str, Any] | None, str]:
    """What the harness says of its steps, and how it says that."""
    values = _recorded(order.measurements)
    if values is not None:
        return values, "the harness"
    return _printed(order.log), "printed steps"


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
            expected="one line of at most 4 MB, from one process of the launch (rank 0)",
        )
    if not data.endswith(b"\n"):
        raise BadInputError(path.name, found="half a line", expected="a whole line")
    value = _value(lines[0], "what the harness recorded", 0)
    if not isinstance(value, dict):
        raise BadInputError(path.name, found="no object", expected="a JSON object")
    return value


def _printed(log: Path) -> dict[str, Any] | None:
    """Lines like `{"step_ms": 12.3, "tokens": 4096}` among whatever else was printed."""
    steps: list[float] = []
    tokens: list[float] = []
    loss = None
    with log.open("rb") as stream:
        for line in stream:
            if not line.startswith(b'{"') or b'"step_ms"' not in line:
                continue
            row = _value(line[:LONGEST_STEP_LINE], "a printed step", len(steps))
            if not isinstance(row, dict) or not _is_number(row.get("step_ms")):
                raise BadInputError(
                    "a printed step", found="no number in step_ms", expected='{"step_ms": 12.3}'
                )
            steps.append(row["step_ms"])
            if _is_number(row.get("tokens")):
                tokens.append(float(row["tokens"]))
            if _is_number(row.get("loss")):
                loss = float(row["loss"])
    if not steps:
        return None
    values: dict[str, Any] = {"step_ms": steps}
    if len(tokens) == len(steps):
        values["tokens_per_step"] = sum(tokens) / len(tokens)
    return values | ({"final_loss": loss} if loss is not None else {})


def _value(line: bytes, source: str, before: int) -> Any:
    """The line's JSON; a step that is no number is named, counted on from those `before` it."""
    try:
        # Python's own reader knows NaN, and so which step it is.
        steps = json.loads(line)["step_ms"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return parse(line, source)
    for number, step in enumerate(steps if isinstance(steps, list) else [steps], before + 1):
        if step is None or (isinstance(step, float) and not math.isfinite(step)):
            words = "null" if step is None else json.dumps(step)
            raise BadInputError(source, found=f"step {number} is {words}", expected="milliseconds")
    return parse(line, source)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _launch_of(values: dict[str, Any], order: Order) -> Launch:
    own = {"side": order.side, "launch": order.pair, "order": order.place}
    return Launch.of_line({"schema": 1, **values, **own}, "the measurement")


def _sound(launch: Launch) -> Launch:
    """The launch, if it does not call itself void; who shared its machine is not for it to say."""
    claims = {what: how for what, how in launch.disturbances.items() if what != "throttled"}
    why = launch.failed or "; ".join(f"{what}: {how}" for what, how in claims.items())
    if why:
        raise BadInputError("the measurement", found=why, expected="a sound run")
    return launch


def tail_of(log: Path) -> str:
    """The last lines of the log: what went wrong stands there."""
    with suppress(OSError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 8192))
        lines = stream.read().decode(errors="replace").splitlines()[-TAIL_LINES:]
        if lines:
            return "\n  | " + "\n  | ".join(line[:300] for line in lines)
    return " (it printed nothing)"


def line_of(done: Launch) -> str:
    """The launch as a line of measurements.jsonl, with the names of keys that nobody knows."""
    known = done.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(known | dict.fromkeys(done.strange_keys)) + "\n"

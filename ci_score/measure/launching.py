"""One fresh process of the user's command: started, watched, and ended with all its children."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.strict_json import validate
from ci_score.launches import Launch
from ci_score.measure.orders import Order
from ci_score.measure.own_lines import own_line
from ci_score.measure.processes import GRACE_SECONDS, adopt_orphans, descendants, end_all

LOG_LIMIT = 64 * 1024 * 1024
TAIL_LINES = 12
CHECK_SECONDS = 0.1
LONGEST_FAILURE = 200


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
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """For people: whose problem, and which."""
        return f"{self.order.name}: {self.problem}"

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


def launch(order: Order, timeout: float, stopped: Callable[[], bool]) -> Done:
    """Runs the command once in the side's folder and reads what it measured."""
    try:
        ran = run_once(order, timeout, stopped)
        done = _void(order, ran.problem) if ran.problem else _measured(order)
        return replace(done, outlived_by=ran.outlived_by, seconds=ran.seconds)
    finally:
        # Two dozen launches would leave two dozen checkpoints.
        shutil.rmtree(order.out, ignore_errors=True)


def run_once(order: Order, timeout: float, stopped: Callable[[], bool]) -> Ran:
    """Starts a command as a launch, waits for its end, and ends whatever it leaves running.

    Whether somebody wants it `stopped` is asked, and no signal breaks in: there is no moment in
    which a process runs that nobody would end.
    """
    order.measurements.unlink(missing_ok=True)
    order.log.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(order.out, ignore_errors=True)
    order.out.mkdir(parents=True)
    adopt_orphans()
    before = descendants()
    command = order.command()
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
            return Ran(0.0, f"the command cannot be started ({error.strerror}: {command[0]})")
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


def _measured(order: Order) -> Done:
    """The script's own line, else the steps that it printed."""
    try:
        values, source = own_line(order.measurements, order.log)
        if values is None:
            return _void(order, "it reported no steps" + tail_of(order.log))
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
        values, _ = own_line(order.measurements, order.log)
        launch = _launch_of({**(values or {"step_ms": []}), **why}, order)
    except BadInputError:
        launch = _launch_of({"step_ms": [], **why}, order)
    return Done(order, launch, problem)


def _launch_of(values: dict[str, Any], order: Order) -> Launch:
    own = {"side": order.side, "launch": order.pair or 0, "order": order.place}
    return validate(Launch, {"schema": 1, **values, **own}, "the measurement")


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
    """The launch as a line of measurements.jsonl."""
    return json.dumps(done.model_dump(mode="json", by_alias=True, exclude_none=True)) + "\n"

"""One fresh process of the user's command: started, watched, and ended with all its children."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from ci_score.errors import BadInputError
from ci_score.files.disk import open_plain, remove
from ci_score.files.visible import plain
from ci_score.launches import Launch
from ci_score.measure.launch.hook_records import Recorded, Said, is_over, read_folder
from ci_score.measure.launch.hooked import COUNTED, trouble_of, values_of
from ci_score.measure.launch.last_words import last_words
from ci_score.measure.launch.orders import Order
from ci_score.measure.launch.own_lines import own_line
from ci_score.measure.machine.processes import GRACE_SECONDS, adopt_orphans, descendants, end_all

LOG_LIMIT = 64 * 1024 * 1024
CONTAINER_SECONDS = 60.0
TAIL_BYTES = 64 * 1024
CHECK_SECONDS = 0.1
LONGEST_FAILURE, LONGEST_WORDS = 200, 400


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a process: how it ended by itself, or why it was ended.

    `code` is None where it was ended, `problem` is empty where nothing is wrong with that.
    """

    seconds: float
    code: int | None = None
    problem: str = ""
    outlived_by: int = 0

    @property
    def trouble(self) -> str:
        """Why what it told cannot be used, whatever it told."""
        if self.problem or not self.code:
            return self.problem
        if self.code < 0:
            return f"it was ended by signal {-self.code}"
        return f"it exited with {self.code}"


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
    told: Recorded | None = None

    @property
    def words(self) -> str:
        """For people: whose problem, and which."""
        return f"{self.order.name}: {self.problem}"

    @property
    def gist(self) -> str:
        """The same without the end of the log."""
        return self.words.partition("\n")[0]

    @property
    def is_counted(self) -> bool:
        """Whether the start-up hook has counted its steps, and not the script itself."""
        return self.timed_from == COUNTED

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
        return replace(_outcome(order, ran), outlived_by=ran.outlived_by, seconds=ran.seconds)
    finally:
        # Two dozen launches would leave two dozen checkpoints.
        clear_room(order)


def clear_room(order: Order) -> None:
    """Takes the launch's own folder away, and the one that such folders lie in."""
    remove(order.out)
    with suppress(OSError):
        order.out.parent.rmdir()


def run_once(order: Order, timeout: float, stopped: Callable[[], bool]) -> Ran:
    """Starts a command as a launch, waits for its end, and ends whatever it leaves running.

    Whether somebody wants it `stopped` is asked, and no signal breaks in: there is no moment in
    which a process runs that nobody would end.
    """
    _make_room(order)
    adopt_orphans()
    before = descendants()
    command = order.start.command
    with order.log.open("xb") as log:
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command is what this is for
                command,
                cwd=order.folder,
                env=order.start.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            problem = f"the command cannot be started ({error.strerror}: {command[0]})"
            return Ran(0.0, problem=problem)
        watched = _Watched(process, order, log, timeout, stopped)
        problem = "it was not watched to its end"
        try:
            problem = watched.wait()
        finally:
            code = process.poll()
            # Whatever it left running would share the machine with the next launch.
            is_container = bool(order.start.ending)
            outlived_by = end_all(
                process, order.mark, before, is_over=watched.is_over, tidies_up=is_container
            )
            _end_container(order, is_running=code is None)
    return Ran(time.perf_counter() - begin, code, problem, outlived_by)


def _make_room(order: Order) -> None:
    """The places where a launch finds nothing, and leaves what it tells."""
    # An earlier launch may have put anything there, for this one to fall over.
    for place in (order.measurements, order.log, order.out, order.records):
        remove(place)
    for folder in (order.out, order.records):
        folder.mkdir(parents=True)


def _end_container(order: Order, *, is_running: bool) -> None:
    """A daemon's container goes on when whoever asked for it is ended."""
    if is_running and order.start.ending:
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(  # noqa: S603 - the user's own launcher
                order.start.ending,
                env=order.start.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CONTAINER_SECONDS,
                check=False,
            )


@dataclass(slots=True)
class _Watched:
    """Waits for the end of a launch, and no longer than that takes."""

    process: subprocess.Popen[bytes]
    order: Order
    log: BinaryIO
    timeout: float
    stopped: Callable[[], bool]
    is_over: bool = False

    def wait(self) -> str:
        """Until it ends, has told all that it was to tell, or must be ended: then why."""
        until = time.monotonic() + self.timeout
        ends = threading.Event()
        # A thread knows the very moment of the end, and not when somebody looked.
        threading.Thread(target=self._wait_for, args=(ends,), daemon=True).start()
        while not ends.wait(min(CHECK_SECONDS, max(0.0, until - time.monotonic()))):
            if self.stopped():
                return "it was interrupted"
            if self._has_told_all():
                self.is_over = True
                ends.wait(GRACE_SECONDS)
                return ""
            if time.monotonic() >= until:
                return f"it took longer than {self.timeout:.3g} s and was ended"
            if os.fstat(self.log.fileno()).st_size > LOG_LIMIT:
                return f"it printed more than {LOG_LIMIT >> 20} MB and was ended"
        return ""

    def _wait_for(self, ends: threading.Event) -> None:
        self.process.wait()
        ends.set()

    def _has_told_all(self) -> bool:
        return self.order.task is not None and is_over(self.order.records)


# --- what it measured ---------------------------------------------------------------------------


def _outcome(order: Order, ran: Ran) -> Done:
    """The script's own line, or steps that it printed; else what the hook has counted."""
    values, source, wrong = _own(order)
    said = read_folder(order.records) if order.task else Said()
    trouble = ran.trouble
    if said.recorded is not None:
        # Whatever came after its last step is of no interest.
        trouble = ""
        if values is None and not wrong:
            values, source = values_of(said.recorded), COUNTED
            trouble = values.pop("failed", "")
    elif said.problem is not None and values is None and not (wrong or ran.problem):
        trouble = trouble_of(said.problem, trouble, ran.outlived_by)
    trouble = trouble or wrong or ("" if values else "it reported no steps")
    if trouble:
        return _void(order, values, trouble + tail_of(order.log))
    try:
        launch = _sound(_launch_of(values or {}, order))
    except BadInputError as error:
        return _void(order, values, _in_words(error) + tail_of(order.log))
    return Done(order, launch, timed_from=source, told=said.recorded)


def _own(order: Order) -> tuple[dict[str, Any] | None, str, str]:
    """What the script says of its steps and how, or what is wrong with what it says."""
    try:
        return *own_line(order.measurements, order.log), ""
    except BadInputError as error:
        return None, "", _in_words(error)


def _in_words(error: BadInputError) -> str:
    place = f" in {error.field}" if error.field else ""
    return plain(f"{error.found}{place}; expected {error.expected}", LONGEST_WORDS)


def _void(order: Order, values: dict[str, Any] | None, problem: str) -> Done:
    """A launch without a usable time, with what it has reported as far as that can be read."""
    why = {"failed": _short(problem)}
    try:
        launch = _launch_of({**(values or {"step_ms": []}), **why}, order)
    except BadInputError:
        launch = _launch_of({"step_ms": [], **why}, order)
    return Done(order, launch, problem)


def _launch_of(values: dict[str, Any], order: Order) -> Launch:
    own = {"side": order.side, "launch": order.pair or 0, "order": order.place}
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
    with suppress(OSError), open_plain(log) as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL_BYTES))
        lines = last_words(stream.read(TAIL_BYTES).decode(errors="replace").splitlines())
        if lines:
            return "\n  | " + "\n  | ".join(line[:300] for line in lines)
    return " (it printed nothing)"


def line_of(done: Launch) -> str:
    """The launch as a line of measurements.jsonl, with the names of keys that nobody knows."""
    known = done.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(known | dict.fromkeys(done.strange_keys)) + "\n"

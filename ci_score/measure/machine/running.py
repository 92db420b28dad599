"""A program of the user's: started, waited for, and ended with all that it has started itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

from ci_score.measure.machine.processes import (
    GRACE_SECONDS,
    adopt_orphans,
    descendants,
    end_all,
    end_container,
    ended_with_us,
)

LOG_LIMIT = 64 * 1024 * 1024
CHECK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Program:
    """What is to run, and where; `mark` stands in the environment, and so in that of its children.

    `ending` is a command that ends what outlives it, if it needs one. It may print so many bytes.
    """

    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    mark: str
    log: Path
    ending: tuple[str, ...] = ()
    may_print: int = LOG_LIMIT


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a program: how it ended by itself, or why it was ended.

    `code` is None where it was ended, `problem` is empty where nothing is wrong with that. What it
    did to others than itself is in `harm`, and how `far` it came is for its caller to say.
    """

    seconds: float
    code: int | None = None
    problem: str = ""
    outlived_by: int = 0
    harm: str = ""
    far: str = ""

    @property
    def trouble(self) -> str:
        """Why what it told cannot be used, whatever it told."""
        if self.problem or not self.code:
            return self.problem
        if self.code < 0:
            return f"it was ended by signal {-self.code}"
        return f"it exited with {self.code}"


def run(
    program: Program,
    timeout: float,
    stopped: Callable[[], bool],
    is_over: Callable[[float], bool] = lambda _: False,
) -> Ran:
    """Starts it, waits for its end, and ends whatever it leaves running.

    It may be over before it ends; that is asked with the seconds so far. Whether somebody wants it
    `stopped` is asked, too, and no signal breaks in: there is no moment in which a process runs
    that nobody would end.
    """
    adopt_orphans()
    with (
        program.log.open("xb") as log,
        ended_with_us(program.mark, program.ending) as tell,
    ):
        before = descendants()
        begin = time.perf_counter()
        try:
            process = Popen(  # noqa: S603 - the user's own command is what this is for
                program.command,
                cwd=program.folder,
                env=program.environment,
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            words = f"the command cannot be started ({error.strerror}: {program.command[0]})"
            return Ran(0.0, problem=words)
        tell(process.pid)
        watched = _Watched(program, process, log.fileno(), begin, timeout, stopped, is_over)
        problem = "it was not watched to its end"
        try:
            problem = watched.wait()
        finally:
            code = process.poll()
            # Whatever it left running would share the machine with the next launch.
            outlived_by, lives_on = end_all(
                process,
                program.mark,
                before,
                is_over=watched.is_over,
                tidies_up=bool(program.ending),
            )
            if code is None and program.ending:
                end_container(program.ending, program.environment)
    harm = "a process of it could not be ended, and runs beside all that comes" if lives_on else ""
    return Ran(time.perf_counter() - begin, code, problem, outlived_by, harm)


@dataclass(slots=True)
class _Watched:
    """Waits for the end of a program, and no longer than that takes."""

    program: Program
    process: Popen[bytes]
    log: int
    begin: float
    timeout: float
    stopped: Callable[[], bool]
    asks_if_over: Callable[[float], bool]
    is_over: bool = False

    def wait(self) -> str:
        """Until it ends, has told all that it was to tell, or must be ended: then why."""
        ends = threading.Event()
        # A thread knows the very moment of the end, and not when somebody looked.
        threading.Thread(target=self._wait_for, args=(ends,), daemon=True).start()
        while not ends.wait(min(CHECK_SECONDS, max(0.0, self.timeout - self._seconds()))):
            if self.stopped():
                return "it was interrupted"
            if self.asks_if_over(self._seconds()):
                self.is_over = True
                ends.wait(GRACE_SECONDS)
                return ""
            if self._seconds() >= self.timeout:
                return f"it took longer than {self.timeout:.3g} s and was ended"
            if os.fstat(self.log).st_size > self.program.may_print:
                return f"it printed more than {self.program.may_print >> 20} MB and was ended"
        return ""

    def _seconds(self) -> float:
        return time.perf_counter() - self.begin

    def _wait_for(self, ends: threading.Event) -> None:
        self.process.wait()
        ends.set()

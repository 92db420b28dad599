"""One fresh process of the user's command: started, watched, and ended with all its children."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.disk import open_plain, remove
from ci_score.files.visible import plain
from ci_score.launches import Launch
from ci_score.measure.launch.following import Following, Listener
from ci_score.measure.launch.hook_records import Recorded, Said, read_folder
from ci_score.measure.launch.hooked import COUNTED, trouble_of, values_of
from ci_score.measure.launch.last_words import last_words
from ci_score.measure.launch.orders import Order
from ci_score.measure.launch.own_lines import own_line
from ci_score.measure.machine.running import Program, Ran, run

TAIL_BYTES = 64 * 1024
LONGEST_FAILURE, LONGEST_WORDS = 200, 400


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a launch: what it measured, or, with `failed`, what there is of a void one.

    `problem` says more of why it is void than a line can hold: the end of its log, too. One that
    was ended came so `far`.
    """

    order: Order
    launch: Launch
    problem: str = ""
    timed_from: str = ""
    outlived_by: int = 0
    seconds: float = 0.0
    far: str = ""
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


def launch(order: Order, timeout: float, stopped: Callable[[], bool], listener: Listener) -> Done:
    """Runs the command once in the side's folder and reads what it measured."""
    try:
        ran = run_once(order, timeout, stopped, listener)
        done = replace(
            _outcome(order, ran), outlived_by=ran.outlived_by, seconds=ran.seconds, far=ran.far
        )
    finally:
        # Two dozen launches would leave two dozen checkpoints.
        clear_room(order)
    return done.void(ran.harm) if ran.harm else done


def clear_room(order: Order) -> None:
    """Takes the launch's own folder away, and the one that such folders lie in."""
    remove(order.out)
    with suppress(OSError):
        order.out.parent.rmdir()


def run_once(order: Order, timeout: float, stopped: Callable[[], bool], listener: Listener) -> Ran:
    """Runs a command as a launch, and sees what it does to the base's folder."""
    _make_room(order)
    start, guard = order.start, order.guard
    before = guard.look() if guard else None
    if guard and before and (blind := guard.blind(before)):
        return Ran(0.0, harm=blind)
    program = Program(
        start.command, order.folder, start.environment, order.mark, order.log, start.ending
    )
    following = Following(order, listener)
    ran = run(program, timeout, stopped, following.is_over)
    harm = ran.harm or (guard.broken(before) if guard and before else "")
    if far := following.in_words(ran.seconds) if ran.problem else "":
        ran = replace(ran, problem=f"{ran.problem}: {far}")
    return replace(ran, harm=harm, far=far)


def _make_room(order: Order) -> None:
    """The places where a launch finds nothing, and leaves what it tells."""
    # An earlier launch may have put anything there, for this one to fall over.
    for place in (order.measurements, order.log, order.out, order.records):
        remove(place)
    for folder in (order.out, order.records):
        folder.mkdir(parents=True)


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

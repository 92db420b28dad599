"""The untimed launch of each side: whether it runs, and from which step on its steps count."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import Any

from ci_score.measure.launch.launching import Done
from ci_score.measure.launch.orders import Order, Orders, Task
from ci_score.measure.launch.warm_up import Slow, slow_steps_in, warm_up_of
from ci_score.measure.session.kept import save
from ci_score.measure.session.noticing import known_before
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.session import Ending, Session
from ci_score.measure.session.settled import (
    Settled,
    owner_in_words,
    owners_of,
    window_of,
)
from ci_score.measure.sides.command import OF_A_PYTHON
from ci_score.measure.sides.leftovers import files_in_words, snapshot
from ci_score.model.lists import duration_in_words, plural
from ci_score.model.values import Side

MOST_FILES = 50
# The share of the time left that launches may fill: their lengths vary, and profiles follow.
PLANNED_SHARE = 0.9
SHELLS = ("bash", "sh")


@dataclass(slots=True)
class Settler:
    """Lets each side run once before anything is timed, unless an earlier sitting has done so."""

    session: Session
    out: Path
    orders: Orders
    launch: Callable[[Order, float], Done]
    seconds_left: Callable[[], float]
    stopped: Callable[[], bool]
    audience: Audience

    def run(self) -> None:
        """Both sides; one that does not run as asked ends the session."""
        session = self.session
        missing = [side for side in session.sides if side not in session.settled]
        if missing:
            save(session, self.out)  # what a killed launch leaves is then known to be a session's
        for side in missing:
            if session.ending is None:
                self._settle(side)
                save(session, self.out)
        if session.ending is None:
            self._refuse_two_ways()
        if session.ending is None and len(session.settled) > 1 and not session.launches:
            self._count_by_one_optimizer()
        if session.ending is None and missing and len(session.settled) > 1:
            self._confirm_slow_steps()
        if session.ending is None and not session.window:
            session.window = self._window(session.settled.values())
            save(session, self.out)
        if session.ending is None and missing:
            for words in _in_words(session, self.orders):
                self.audience.says(words)

    def _count_by_one_optimizer(self) -> None:
        """Runs a side again if another optimizer than its own counts the steps.

        Everything that its first launch told is about other steps.
        """
        session = self.session
        for side, owner in owners_of(session.settled["base"], session.settled["head"]).items():
            own = session.settled[side].owner
            if session.ending is None and owner != own:
                self.audience.says(
                    f"the steps of {side} are counted by {owner_in_words(owner)}, which both sides"
                    f" have, not by {owner_in_words(own)}"
                )
                self._settle(side, owner)
                save(session, self.out)

    def _confirm_slow_steps(self) -> None:
        """Runs a side again if its slow steps ask for a longer window than it would get.

        Slow steps of the work come again, at the same place or nearby; a burst of load does not.
        """
        session = self.session
        plain = [replace(one, slow=Slow()) for one in session.settled.values()]
        steps = session.plan.steps or self._window(plain)
        for side, first in list(session.settled.items()):
            if session.ending is None and not first.slow.is_held_by(steps):
                self._settle(side, first.owner)
                again = session.settled[side].slow
                slow = min(first.slow, again, key=lambda one: one.ms)
                session.settled[side] = replace(first, slow=slow)

    def _window(self, sides: Collection[Settled]) -> int:
        """How many steps to time where nobody says it, so that all pairs fit into the time."""
        session = self.session
        if session.plan.steps or not session.by_hook:
            return 0
        seconds = PLANNED_SHARE * self.seconds_left() / max(session.goal, 1)
        return window_of(sides, session.warmup, seconds)

    def _settle(self, side: Side, owner: Mapping[str, Any] | None = None) -> None:
        session = self.session
        if "base" in session.settled and self.orders.are_alike:
            session.settled[side] = session.settled["base"]
            return
        self.audience.does(f"the untimed launch{self.session.of_side(side)}")
        folder = self.orders.sides[side].folder
        before = snapshot(folder, [self.out])
        task = Task("settle", session.plan.settle_steps, owner=owner)
        timeout = min(session.plan.timeout, max(self.seconds_left(), 0.0))
        done = self.launch(self.orders.untimed(side, "settle", task), timeout)
        if done.launch.failed:
            self._fail(done)
            return
        after = snapshot(folder, [self.out])
        if after.unseen:
            self.audience.says(f"what a launch of {side} leaves is not known: {after.unseen}")
        files = after.left_since(before)
        session.settled[side] = settled_by(done, tuple(files[:MOST_FILES]))

    def _fail(self, done: Done) -> None:
        if self.stopped():
            self.session.stop(Ending.INTERRUPTED, "it was interrupted before anything was timed")
        elif self.seconds_left() <= 0:
            far = f": {done.far}" if done.far else ""
            words = f"the time was used up before anything was timed{far}"
            self.session.stop(Ending.TIME, words)
        else:
            self.session.stop(Ending.UNSETTLED, f"{done.words}{_program(done.order)}")
            self.session.cannot_run = done.order.side

    def _refuse_two_ways(self) -> None:
        """Times that a script tells cannot be compared with those that the hook takes."""
        session = self.session
        own = [side for side, one in session.settled.items() if not one.by_hook]
        if own and len(own) < len(session.settled):
            session.settled.clear()
            session.stop(
                Ending.UNSETTLED,
                f"{own[0]}'s script tells its own steps and the other side's does not, so their"
                " times cannot be compared; let both do so, or neither",
            )
            save(session, self.out)


def _program(order: Order) -> str:
    """Which program it was: most often the first one on PATH is another than was meant.

    Of a line for a shell it is the Python in it: the shell itself is never in doubt.
    """
    word, *more = order.start.command
    if more and Path(word).name in SHELLS:
        word = next((one for one in more[-1].split() if one.startswith(OF_A_PYTHON)), "")
    found = None if "/" in word else which(word, path=order.start.environment.get("PATH"))
    return f"\n  {word} was {found}" if found else ""


def settled_by(done: Done, files: tuple[str, ...]) -> Settled:
    """What the launch told."""
    told = done.told
    tokens = done.launch.tokens_per_step
    if told is None or not done.is_counted:
        return Settled(by_hook=False, seconds=done.seconds, tokens_per_step=tokens, files=files)
    first = told.first
    warmup, is_settled = warm_up_of(first.step_ms)
    # If they did not settle, the last half is the best guess for later launches.
    begin = warmup - 1 if is_settled else len(first.step_ms) // 2
    step_ms = told.slowest.step_ms
    return Settled(
        by_hook=True,
        seconds=done.seconds,
        steps=first.steps,
        warmup=warmup,
        is_settled=is_settled,
        step_ms=statistics.fmean(step_ms[begin:]),
        slow=slow_steps_in(step_ms, begin),
        owner=first.owner.model_dump(by_alias=True),
        optimizers=tuple(one.model_dump(by_alias=True) for one in first.optimizers),
        backward_passes=done.launch.step.backward_passes if done.launch.step else 0.0,
        first_loss=done.launch.first_loss,
        final_loss=done.launch.final_loss,
        versions=first.versions,
        packages=first.packages,
        world_size=first.world_size,
        files=files,
    )


def _in_words(session: Session, orders: Orders) -> Iterator[str]:
    """What is going to happen, how long that takes, and what is known already."""
    steps = session.warmup + session.timed_steps
    seconds = [one.seconds_for(steps) for one in session.settled.values()]
    each = duration_in_words(statistics.fmean(seconds))
    if session.by_hook:
        timed = statistics.fmean(one.step_ms for one in session.settled.values())
        share = duration_in_words(timed * session.timed_steps / 1000.0)
        warmup = plural(session.warmup, "warm-up step")
        timed_steps = f"then {session.timed_steps} timed: {share} of {each} a launch"
        yield f"{warmup}{_why(session)}, {timed_steps}"
    yield from known_before(session)
    for side, one in session.settled.items():
        is_told = side == "head" and "base" in session.settled and orders.are_alike
        if one.files and not is_told:
            yield (
                f"a launch{session.of_side(side)} leaves {files_in_words(one.files)} in its folder;"
                " if a later one takes it up, write to {out}, which is fresh for each launch"
            )
    left = session.goal - len(session.pairs)
    count, total = len(seconds) * left, sum(seconds) * left
    most = "" if session.plan.alone else "up to "
    in_all = f": {duration_in_words(total)}" if count > 1 else ""
    yield f"{most}{plural(count, 'launch')} of about {each}{in_all}"


def _why(session: Session) -> str:
    if session.plan.warmup_steps is not None:
        return " (as given)"
    slow = [side for side, one in session.settled.items() if not one.is_settled]
    if not slow:
        return ""
    return (
        f" (the steps of {' and '.join(slow)} did not settle in {session.plan.settle_steps}: all of"
        " them are warm-up; --settle-steps tries more)"
    )

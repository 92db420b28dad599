"""The untimed launch of each side: whether it runs, and from which step on its steps count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ci_score.measure.ab import Audience
from ci_score.measure.kept import save
from ci_score.measure.launching import Done
from ci_score.measure.orders import Order, Orders
from ci_score.measure.schedule import Side
from ci_score.measure.session import Ending, Session
from ci_score.measure.settled import Settled

SIDES: tuple[Side, Side] = ("base", "head")


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
        for side in SIDES:
            if self.session.ending is None and side not in self.session.settled:
                self._settle(side)
                save(self.session, self.out)

    def _settle(self, side: Side) -> None:
        session = self.session
        if side == "head" and self.orders.are_alike:
            session.settled["head"] = session.settled["base"]
            return
        self.audience.does(f"the untimed launch of the {side}")
        done = self.launch(self.orders.untimed(side, "settle"), self._timeout())
        if done.launch.failed:
            self._fail(done)
            return
        session.settled[side] = Settled(by_hook=False, seconds=done.seconds)

    def _timeout(self) -> float:
        return min(self.session.plan.timeout, max(self.seconds_left(), 0.0))

    def _fail(self, done: Done) -> None:
        if self.stopped():
            self.session.stop(Ending.INTERRUPTED, "it was interrupted before anything was timed")
        elif self.seconds_left() <= 0:
            self.session.stop(Ending.TIME, "the time was used up before anything was timed")
        else:
            self.session.stop(Ending.UNSETTLED, done.words)

"""Runs an interleaved A/B session: fresh processes of head and base in pairs, until it is clear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ci_score.launches import Launch
from ci_score.measure.launch.following import Listener
from ci_score.measure.launch.launching import Done, tail_of
from ci_score.measure.launch.orders import Order, Orders, Task
from ci_score.measure.session.kept import save
from ci_score.measure.session.noticing import notes_on, resumes
from ci_score.measure.session.schedule import Look, order_of
from ci_score.measure.session.session import Ending, Pair, Session
from ci_score.model.lists import share_in_words
from ci_score.model.values import Side

# A side that fails this often in a row is broken, and not unlucky.
MOST_FAILURES_IN_A_ROW = 2
# A pair begins only where there is time for one that takes so many times as long as those before:
# a launch that the end of the time cuts off has taken far too long.
ROOM = 1.5

# What a launch did, and what disturbed it: what happened -> in which words.
Watch = Callable[[Order, Callable[[], Done]], tuple[Done, Mapping[str, str]]]


class Audience(Listener, Protocol):
    """Is told how a session goes."""

    def does(self, words: str, done: int = 0, total: int = 0) -> None:
        """Something begins that is no pair; of `total` such things so many are done."""
        ...

    def begins(self, session: Session, side: Side, pair: int) -> None:
        """A launch begins."""
        ...

    def ends(self, session: Session, result: str) -> None:
        """A pair ended: what was measured, or what was wrong with it."""
        ...


@dataclass(slots=True)
class Runner:
    """Runs a session; what it needs of the machine is handed in."""

    session: Session
    out: Path
    orders: Orders
    launch: Callable[[Order, float], Done]
    watch: Watch
    seconds_left: Callable[[], float]
    stopped: Callable[[], bool]
    audience: Audience
    _last_tail: str = ""
    _came_so_far: str = ""
    _failures: dict[Side, int] = field(default_factory=dict)
    _noted: set[tuple[Side, str]] = field(default_factory=set)
    _longest_pair: float = 0.0

    def run(self) -> Session:
        """Pairs until a look is clear, all are measured, or there is no use in going on."""
        session = self.session
        while session.ending is None:
            self._look()
            if session.ending is not None:
                break
            if len(session.pairs) >= session.goal:
                session.stop(Ending.ALL_PAIRS, f"all {session.goal} pairs were measured")
            elif self.stopped():
                words = "it was interrupted, what was measured is kept; the same command goes on"
                session.stop(Ending.INTERRUPTED, words)
            elif self.seconds_left() <= ROOM * self._longest_pair:
                session.stop(Ending.TIME, f"the time was used up{self._came_so_far}")
            else:
                self._pair()
            save(session, self.out)
        save(session, self.out)
        return session

    def _look(self) -> None:
        session = self.session
        count = len(session.pairs)
        planned = () if session.was_extended else session.plan.looks
        is_due = count in planned or count == session.goal
        if not is_due or any(look.pairs == count for look in session.looks):
            return
        seen = session.seen()
        session.looks.append(Look(count, seen.answer))
        if seen.is_settled:
            session.stop(Ending.CLEAR, f"after {count} pairs it is clear: {seen.answer.value}")

    # --- one pair -------------------------------------------------------------------------------

    def _pair(self) -> None:
        session, number = self.session, self.session.next_pair
        session.next_pair += 1
        before = self.seconds_left()
        found: dict[Side, Done] = {}
        for place, side in enumerate(order_of(number, session.plan.seed)):
            self.audience.begins(session, side, number)
            done = self.launched(side, number, place)
            if done.launch.failed and self._was_cut_off():
                self._came_so_far = f": {done.order.name}, {done.far}" if done.far else ""
                return
            found[side] = done
        head, base = of_equal_work(found["head"], found["base"])
        pair = head.launch, base.launch
        if any(launch.failed for launch in pair):
            session.pairs.append(pair)
            self._void(head, base)
            return
        self._failures.clear()
        if session.plan.repeats(pair):
            self._disturbed(pair)
            return
        session.pairs.append(pair)
        self._longest_pair = max(self._longest_pair, before - self.seconds_left())
        for done in (head, base):
            session.notes += [f"{done.order.name}: {words}" for words in self.new_notes(done)]
        self.audience.ends(session, _in_words(pair))
        if words := resumes(session):
            session.stop(Ending.BROKEN, words)

    def new_notes(self, done: Done) -> Iterator[str]:
        """What is worth knowing of a launch that counts; of each side once."""
        for what, words in notes_on(done, self.session):
            if (done.order.side, what) not in self._noted:
                self._noted.add((done.order.side, what))
                yield words

    def _was_cut_off(self) -> bool:
        """Whether a failure is nobody's fault: somebody, or the end of the time, ended the launch.

        There was time enough for a pair like those before; one that needs more has hung.
        """
        return self.stopped() or (self.seconds_left() <= 0 and not self._longest_pair)

    def _disturbed(self, pair: Pair) -> None:
        """Others disturbed it: it is measured again, unless that has happened too often."""
        session = self.session
        session.disturbed.append(pair)
        words = "; ".join(dict.fromkeys(how for one in pair for how in one.disturbances.values()))
        if len(session.disturbed) <= session.most_repeats:
            self.audience.ends(session, f"disturbed ({words}): it is measured again")
            return
        self.audience.ends(session, f"disturbed ({words})")
        session.stop(
            Ending.DISTURBED,
            f"others disturbed {len(session.disturbed)} pairs, and only {session.most_repeats} may"
            f" be measured again ({words}); begin anew with --fresh when the machine is quiet",
        )

    def _void(self, head: Done, base: Done) -> None:
        """A launch has no usable time: it counts against its side, and is not measured again."""
        session = self.session
        is_first = len(session.void) == sum(bool(one.launch.failed) for one in (head, base))
        for done in (head, base):
            side = done.order.side
            if not done.launch.failed:
                self._failures[side] = 0
                continue
            self._failures[side] = self._failures.get(side, 0) + 1
            self._tell_void(done)
            # A side that does not run at all will not run the next time either.
            if self._failures[side] >= MOST_FAILURES_IN_A_ROW:
                # The end of its log was told with the pair.
                words = f"the {side} failed {self._failures[side]} times in a row: {done.gist}"
                session.stop(Ending.BROKEN, words)
        if session.ending is None and not session.may_fail:
            session.stop(
                Ending.HOPELESS,
                "a launch is void, so nothing can be cleared, and no slowdown can be proven any"
                " more; begin anew with --fresh",
            )
        elif session.ending is None and is_first:
            session.notes.append(
                "a launch is void: nothing can be cleared any more, only a slowdown be proven"
            )
            self.audience.ends(session, session.notes[-1])

    def _tell_void(self, done: Done) -> None:
        gist, _, tail = done.words.partition("\n")
        # The same end of a log again says nothing new.
        self.audience.ends(self.session, f"void: {gist if tail == self._last_tail else done.words}")
        self._last_tail = tail

    # --- one launch -----------------------------------------------------------------------------

    def launched(self, side: Side, pair: int, place: int) -> Done:
        """One launch of a side, with all that is known of it; void if it cannot be used."""
        plan = self.session.plan
        order = self.orders.timed(side, pair, 2 * pair + place, self._task(side))
        timeout = min(plan.timeout, max(self.seconds_left(), 0.0))
        done, disturbed = self.watch(order, lambda: self.launch(order, timeout))
        return self._completed(done, disturbed)

    def _task(self, side: Side) -> Task | None:
        """What the hook counts; nothing in a script that tells its own steps."""
        session, known = self.session, self.session.settled.get(side)
        if known is None or not known.by_hook:
            return None
        steps = session.warmup + session.plan.steps
        return Task("timed", steps, session.warmup, known.owner)

    def _completed(self, done: Done, disturbed: Mapping[str, str]) -> Done:
        """The launch with what the plan says of it; void if it is not of the others' kind."""
        plan, session = self.session.plan, self.session
        update: dict[str, object] = {
            "case": plan.case,
            "looks": plan.looks,
            "disturbances": dict(done.launch.disturbances) | dict(disturbed),
        }
        if plan.warmup_steps is not None and not done.is_counted:
            update["warmup_steps"] = plan.warmup_steps
        if plan.tokens_per_step is not None and done.launch.tokens_per_step is None:
            update["tokens_per_step"] = plan.tokens_per_step
        if plan.planted and done.launch.planted is None:
            update["planted"] = 0.0
        whole = done.but(done.launch.but(**update))
        if whole.launch.failed:
            return whole
        if not whole.launch.timed_ms or whole.launch.mean_ms <= 0:
            return whole.void(_no_times(whole.launch) + tail_of(done.order.log))
        session.timed_from = session.timed_from or done.timed_from
        if session.timed_from != done.timed_from:
            words = f"its times come from {done.timed_from}, those before from {session.timed_from}"
            return whole.void(words + tail_of(done.order.log))
        return whole


def _no_times(launch: Launch) -> str:
    """Why a launch has no step that counts."""
    steps = len(launch.step_ms)
    if not steps:
        return "it reported no steps"
    if launch.timed_ms:
        return "its steps took no time at all"
    return f"it has {steps} steps, and {launch.warmup_steps} are declared as warm-up"


def of_equal_work(head: Done, base: Done) -> tuple[Done, Done]:
    """Both launches of a pair; one that did less than the other, or says less, is void."""
    if head.launch.failed or base.launch.failed:
        return head, base
    ours, theirs = len(head.launch.timed_ms), len(base.launch.timed_ms)
    if ours != theirs:
        words = f"{ours} timed steps of head, {theirs} of base"
        return (head.void(words), base) if ours < theirs else (head, base.void(words))
    if bool(head.launch.tokens_per_step) != bool(base.launch.tokens_per_step):
        words = "only the other side tells its tokens"
        silent_head = not head.launch.tokens_per_step
        return (head.void(words), base) if silent_head else (head, base.void(words))
    return head, base


def _in_words(pair: Pair) -> str:
    head, base = pair
    change = share_in_words(head.mean_ms / base.mean_ms - 1.0)
    return f"base {base.mean_ms:.4g} ms, head {head.mean_ms:.4g} ms ({change})"

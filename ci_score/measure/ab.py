"""An interleaved A/B session: fresh processes of head and base in pairs, until the answer is clear.

Whatever was measured is kept: each whole pair is a line for each side in `measurements.jsonl`, and
`session.json` holds the plan, the looks and what was void. A session that was interrupted goes on
where it was.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, Field

from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.disk import write_atomically
from ci_score.files.strict_json import parse, validate
from ci_score.judge import LEAST_PAIRS, Evidence, paired
from ci_score.launches import Launch, read_launches
from ci_score.measure.launching import Done, Order, line_of, tail_of
from ci_score.measure.schedule import (
    Answer,
    Look,
    Side,
    interval_of,
    look_at,
    order_of,
    visible_in,
)

MEASUREMENTS, SESSION, LOGS, PROFILES = "measurements.jsonl", "session.json", "logs", "profiles"
SCHEMA = 1
# A side that fails this often in a row is broken, and not unlucky.
MOST_FAILURES_IN_A_ROW = 2
MOST_VOID_PAIRS = 6
# The exponential of more is no number.
HUGE = 700.0
SIDES: tuple[Side, Side] = ("base", "head")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session was asked to do; a session goes on only by the same plan.

    `programs` tells the code of each side apart, as far as it is known. The sides of a `planted`
    session are one program, made slower on purpose: it tells about the machine alone.
    """

    base: str
    head: str
    harness: tuple[str, ...]
    case: str
    looks: tuple[int, ...]
    false_fail: float
    limit: float
    seed: int
    timeout: float
    warmup_steps: int | None = None
    tokens_per_step: float | None = None
    imports: tuple[str, ...] = ("",)
    programs: Mapping[str, str] = field(default_factory=dict)
    planted: bool = False

    def folder(self, side: Side) -> Path:
        """Where a side's code is."""
        return Path(self.head if side == "head" else self.base)

    def order(
        self, side: Side, number: int, place: int, logs: Path, environment: Mapping[str, str]
    ) -> Order:
        """A launch of a side; the name of what it writes is its own."""
        folder = self.folder(side)
        paths = tuple(path for name in self.imports if (path := folder / name).is_dir())
        return Order(
            side=side,
            pair=number,
            place=place,
            folder=folder,
            other_folder=self.folder("base" if side == "head" else "head"),
            paths=paths,
            log=logs / f"{number + 1:02}-{side}.log",
            measurements=logs / f"{number + 1:02}-{side}.line",
            environment=environment,
        )

    def fixed(self) -> dict[str, Any]:
        """What must not change between the sittings of a session, as its file has it."""
        known: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        del known["timeout"]
        return known


# What a launch did, and what disturbed it: what happened -> in which words.
Watch = Callable[[Order, Callable[[], Done]], tuple[Done, Mapping[str, str]]]


class Audience(Protocol):
    """Is told how a session goes."""

    def begins(self, session: Session, side: Side, pair: int) -> None:
        """A launch begins."""
        ...

    def ends(self, session: Session, result: str) -> None:
        """A pair ended: what was measured, or why it is void."""
        ...


class Ending(StrEnum):
    """Why a session stopped."""

    CLEAR = "it is clear"
    ALL_PAIRS = "all pairs were measured"
    TIME = "the time was used up"
    VOID = "too many pairs were void"
    BROKEN = "a side is broken"
    INTERRUPTED = "it was interrupted"


@dataclass(slots=True)
class Session:
    """What was measured so far."""

    plan: Plan
    pairs: list[tuple[Launch, Launch]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next_pair: int = 0
    timed_from: str = ""
    ending: Ending | None = None
    stopped: str = ""

    def stop(self, ending: Ending, words: str) -> None:
        """It ends here."""
        self.ending, self.stopped = ending, words

    def evidence(self) -> Evidence | None:
        """How much slower head is, from the pairs so far; per token where steps tell theirs."""
        tells_tokens = all(one.tokens_per_step for pair in self.pairs for one in pair)
        scores = [
            [math.log(one.mean_ms / (one.tokens_per_step or 1.0 if tells_tokens else 1.0))
             for one in pair]
            for pair in self.pairs
        ]  # fmt: skip
        return paired([head for head, _ in scores], [base for _, base in scores])

    @property
    def slowdown(self) -> tuple[float, float, float] | None:
        """By which share head is slower, and between which two that lies; None for few pairs."""
        evidence = self.evidence()
        if evidence is None:
            return None
        seen, low, high = map(share_of, interval_of(evidence))
        return seen, low, high

    @property
    def limit(self) -> float:
        """The slowdown that fails."""
        return share_of(self.plan.limit)

    @property
    def smallest_visible(self) -> float | None:
        """The smallest slowdown that the pairs could have shown."""
        evidence = self.evidence()
        return share_of(visible_in(evidence, self.plan.limit)) if evidence else None

    def mean_ms(self, side: Side) -> float:
        """The median launch of a side, after the first pair."""
        return statistics.median(
            one.mean_ms for pair in self.pairs for one in pair if one.side == side
        )

    @property
    def is_clear(self) -> bool:
        """Whether the last look has settled it."""
        return self.answer is not Answer.UNCLEAR

    @property
    def answer(self) -> Answer:
        """What the last look found."""
        return self.looks[-1].answer if self.looks else Answer.UNCLEAR

    @property
    def can_be_judged(self) -> bool:
        """Whether it ended as a session may, with pairs enough to say anything."""
        broken = self.ending in (Ending.BROKEN, Ending.INTERRUPTED, None)
        return len(self.pairs) >= LEAST_PAIRS and not broken


@dataclass(slots=True)
class Runner:
    """Runs a session; what it needs of the machine is handed in."""

    session: Session
    out: Path
    environment: Mapping[str, str]
    launch: Callable[[Sequence[str], Order, float], Done]
    watch: Watch
    seconds_left: Callable[[], float]
    stopped: Callable[[], bool]
    audience: Audience
    only_for_head: Mapping[str, str] = field(default_factory=dict)
    _last_tail: str = ""
    _failures: dict[Side, int] = field(default_factory=dict)
    _void: int = 0
    _longest_pair: float = 0.0

    def run(self) -> Session:
        """Pairs until a look is clear, the pairs or the time are used up, or a side is broken."""
        session, most = self.session, self.session.plan.looks[-1]
        while session.ending is None:
            self._look()
            if session.ending is not None:
                break
            if len(session.pairs) >= most:
                session.stop(Ending.ALL_PAIRS, f"all {most} pairs were measured")
            elif self.stopped():
                words = "it was interrupted, what was measured is kept; the same command goes on"
                session.stop(Ending.INTERRUPTED, words)
            elif self._void >= MOST_VOID_PAIRS:
                session.stop(Ending.VOID, f"{self._void} pairs were void")
            elif self.seconds_left() <= self._longest_pair:
                session.stop(Ending.TIME, "the time was used up")
            else:
                self._pair()
            self._save()
        self._save()
        return session

    # --- one pair -------------------------------------------------------------------------------

    def _pair(self) -> None:
        session, pair = self.session, self.session.next_pair
        session.next_pair += 1
        before = self.seconds_left()
        found: dict[Side, Launch] = {}
        for place, side in enumerate(order_of(pair, session.plan.seed)):
            self.audience.begins(session, side, pair)
            done = self._launched(side, pair, place)
            if done.note:
                session.notes.append(done.words)
            if done.launch is None:
                self._lost(done)
                return
            self._failures[side] = 0
            found[side] = done.launch
        self._longest_pair = max(self._longest_pair, before - self.seconds_left())
        problem = _unequal(found["head"], found["base"])
        if problem:
            self._is_void(f"pair {pair + 1}: {problem}")
        else:
            self._keep(found["head"], found["base"])

    def _keep(self, head: Launch, base: Launch) -> None:
        session = self.session
        plan = {"looks": session.plan.looks}
        whole = head.but(**plan), base.but(**plan)
        session.pairs.append(whole)
        with (self.out / MEASUREMENTS).open("a", encoding="utf-8") as stream:
            stream.write("".join(map(line_of, whole)))
        change = share_in_words(share_of(math.log(head.mean_ms / base.mean_ms)))
        words = f"base {base.mean_ms:.4g} ms, head {head.mean_ms:.4g} ms ({change})"
        self.audience.ends(session, words)

    def _lost(self, done: Done) -> None:
        """A pair needs both: what is wrong with one launch makes the pair void."""
        if self.stopped() or self.seconds_left() <= 0:
            # Whoever or whatever ended it is no fault of the launch: the next look says which.
            return
        self._is_void(done.words)
        if done.disturbed:
            return
        # A side that does not run at all will not run the next time either.
        side = done.order.side
        self._failures[side] = self._failures.get(side, 0) + 1
        if self._failures[side] >= MOST_FAILURES_IN_A_ROW:
            # The end of its log was told with the pair.
            words = f"the {side} failed {self._failures[side]} times in a row: {done.gist}"
            self.session.stop(Ending.BROKEN, words)

    def _is_void(self, words: str) -> None:
        self._void += 1
        self.session.void.append(words)
        gist, _, tail = words.partition("\n")
        # The same end of a log again says nothing new.
        shown = gist if tail == self._last_tail else words
        self._last_tail = tail
        self.audience.ends(self.session, f"void: {shown}")

    def _launched(self, side: Side, pair: int, place: int) -> Done:
        plan = self.session.plan
        environment = {**self.environment, **(self.only_for_head if side == "head" else {})}
        order = plan.order(side, pair, 2 * pair + place, self.out / LOGS, environment)
        timeout = min(plan.timeout, max(self.seconds_left(), 0.0))
        done, disturbed = self.watch(order, lambda: self.launch(plan.harness, order, timeout))
        if done.launch is None:
            return done
        if disturbed:
            words = "; ".join(f"{what}: {how}" for what, how in disturbed.items())
            return Done(order, None, f"disturbed ({words})", disturbed=True)
        return self._completed(done, done.launch)

    def _completed(self, done: Done, launch: Launch) -> Done:
        """The launch with what the plan says of it, if it is one of the same kind as the others."""
        plan, session = self.session.plan, self.session
        update: dict[str, object] = {"case": plan.case}
        if plan.warmup_steps is not None:
            update["warmup_steps"] = plan.warmup_steps
        if plan.tokens_per_step is not None and launch.tokens_per_step is None:
            update["tokens_per_step"] = plan.tokens_per_step
        if plan.planted and launch.planted is None:
            update["planted"] = 0.0
        whole = launch.but(**update)
        if not whole.timed_ms or whole.mean_ms <= 0:
            return Done(done.order, None, _no_times(whole) + tail_of(done.order.log))
        session.timed_from = session.timed_from or done.timed_from
        if session.timed_from != done.timed_from:
            words = f"its times come from {done.timed_from}, those before from {session.timed_from}"
            return Done(done.order, None, words + tail_of(done.order.log))
        return Done(done.order, whole, timed_from=done.timed_from, note=done.note)

    # --- looks ----------------------------------------------------------------------------------

    def _look(self) -> None:
        session, plan = self.session, self.session.plan
        count = len(session.pairs)
        if count not in plan.looks or any(look.pairs == count for look in session.looks):
            return
        evidence = session.evidence()
        if evidence is None:
            return
        number = plan.looks.index(count) + 1
        look = look_at(evidence, number, plan.looks, plan.limit, plan.false_fail)
        session.looks.append(look)
        if look.answer is not Answer.UNCLEAR:
            session.stop(Ending.CLEAR, f"after {count} pairs it is clear: {look.answer.value}")

    def _save(self) -> None:
        session = self.session
        state = {
            "schema": SCHEMA,
            "plan": session.plan.fixed(),
            "next_pair": session.next_pair,
            "timed_from": session.timed_from,
            "looks": [asdict(look) for look in session.looks],
            "void": session.void,
            "notes": session.notes,
            "ending": session.ending,
            "stopped": session.stopped,
        }
        write_atomically(self.out / SESSION, json.dumps(state, indent=2) + "\n")


def share_of(score: float) -> float:
    """A difference of scores, the logarithm of a ratio, as a share: log 1.05 is 5 %."""
    return math.expm1(min(score, HUGE))


def share_in_words(share: float) -> str:
    """A part of something as a change of it: `+3.2 %`, `−0.4 %`, and no zero with a minus."""
    # Adding zero takes the sign from a negative one.
    return f"{round(share * 100, 1) + 0.0:+.1f} %".replace("-", "\u2212")


def _no_times(launch: Launch) -> str:
    """Why a launch has no step that counts."""
    steps = len(launch.step_ms)
    if not steps:
        return "it reported no steps"
    if launch.timed_ms:
        return "its steps took no time at all"
    return f"it has {steps} steps, and {launch.warmup_steps} are declared as warm-up"


def _unequal(head: Launch, base: Launch) -> str:
    """Why the two cannot be a pair."""
    if len(head.timed_ms) != len(base.timed_ms):
        return f"{len(head.timed_ms)} timed steps of head, {len(base.timed_ms)} of base"
    if bool(head.tokens_per_step) != bool(base.tokens_per_step):
        return "only one side tells its tokens"
    return ""


# --- a session's folder -------------------------------------------------------------------------


def opened(out: Path, plan: Plan, *, fresh: bool) -> Session:
    """The session in a folder, to go on with; or a new one."""
    session_file, lines = out / SESSION, out / MEASUREMENTS
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUseError(f"{out}: cannot be written ({error.strerror})") from None
    if not session_file.exists() and not lines.exists():
        return Session(plan)
    if not session_file.exists():
        raise WrongUseError(f"{lines} is there and of no session; give another --out")
    if fresh:
        _clear(out)
        return Session(plan)
    saved = _saved(session_file)
    changed = _changed(saved.plan, plan.fixed())
    if changed:
        raise WrongUseError(
            f"{out} holds a session of another plan ({changed}); give --fresh to begin anew, or"
            " another --out"
        )
    pairs = _pairs(lines)
    # A kill may have come between the two lines of a pair, or within one.
    write_atomically(lines, "".join(line_of(launch) for pair in pairs for launch in pair))
    session = Session(
        plan,
        pairs=pairs,
        looks=saved.looks,
        void=saved.void,
        notes=saved.notes,
        # The kill may also have come between the lines of a pair and this file.
        next_pair=max([saved.next_pair, *(head.launch + 1 for head, _ in pairs)]),
        timed_from=saved.timed_from,
    )
    if saved.ending in (Ending.CLEAR, Ending.ALL_PAIRS):
        session.stop(saved.ending, saved.stopped)
    return session


class _Saved(BaseModel):
    """What `session.json` says, beside the pairs."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    plan: dict[str, Any]
    next_pair: int
    timed_from: str
    looks: list[Look]
    void: list[str]
    notes: list[str]
    ending: Ending | None
    stopped: str


def _saved(path: Path) -> _Saved:
    try:
        return validate(_Saved, parse(path.read_bytes(), path.name), path.name)
    except (OSError, BadInputError):
        raise BadInputError(
            str(path), found="something else", expected="a session; give --fresh to begin anew"
        ) from None


def _clear(out: Path) -> None:
    """Takes away what an earlier session left, and nothing else."""
    for name in (MEASUREMENTS, SESSION):
        (out / name).unlink(missing_ok=True)
    for name in (LOGS, PROFILES):
        shutil.rmtree(out / name, ignore_errors=True)


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs between two plans; empty where nothing does."""
    keys = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    return "; ".join(f"{key}: {before.get(key)} then, {now.get(key)} now" for key in keys)


def _pairs(path: Path) -> list[tuple[Launch, Launch]]:
    if not path.exists():
        return []
    sides: dict[int, dict[str, Launch]] = {}
    for launch in read_launches(path.read_bytes(), path.name, planted=True):
        sides.setdefault(launch.launch, {})[launch.side] = launch
    return [(both["head"], both["base"]) for _, both in sorted(sides.items()) if len(both) == 2]

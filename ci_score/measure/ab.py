"""An interleaved A/B session: fresh processes of head and base in pairs, until the answer is clear.

Whatever was measured is kept: each whole pair is a line for each side in `measurements.jsonl`, and
`session.json` holds the plan, the looks and what was void. A session that was interrupted goes on
where it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ci_score import noise
from ci_score.errors import WrongUseError
from ci_score.files import write_atomically
from ci_score.measure.launching import Done, Order, line_of
from ci_score.measure.schedule import Answer, Look, Side, look_at, order_of, share_of_look
from ci_score.measurements import Launch, read_launches

MEASUREMENTS, SESSION, LOGS = "measurements.jsonl", "session.json", "logs"
SCHEMA = 1
# A side that fails this often in a row is broken, and not unlucky.
MOST_FAILURES_IN_A_ROW = 2
MOST_VOID_PAIRS = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session was asked to do; a session goes on only by the same plan."""

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

    def folder(self, side: Side) -> Path:
        """Where a side's code is."""
        return Path(self.head if side == "head" else self.base)


class Watch(Protocol):
    """Looks at the machine during a launch."""

    def disturbances(self, run: Callable[[], Done]) -> tuple[Done, Mapping[str, str]]:
        """What the launch did, and what disturbed it: what happened -> in which words."""
        ...


@dataclass(slots=True)
class Session:
    """What was measured so far."""

    plan: Plan
    pairs: list[tuple[Launch, Launch]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    next_pair: int = 0
    stopped: str = ""

    def evidence(self) -> noise.Evidence | None:
        """How much slower head is, from the pairs so far."""
        return noise.paired(
            [_score(head) for head, _ in self.pairs], [_score(base) for _, base in self.pairs]
        )

    @property
    def answer(self) -> Answer:
        """What the last look found."""
        return self.looks[-1].answer if self.looks else Answer.UNCLEAR


def _score(launch: Launch) -> float:
    """Milliseconds a step on the scale of ratios; per token where the steps are told apart."""
    return math.log(launch.typical_ms / (launch.tokens_per_step or 1.0))


@dataclass(slots=True)
class Runner:
    """Runs a session; what it needs of the machine is handed in."""

    session: Session
    out: Path
    environment: Mapping[str, str]
    launch: Callable[[Sequence[str], Order, float], Done]
    watch: Watch
    minutes_left: Callable[[], float]
    tell: Callable[[Session, str], None]
    only_for_head: Mapping[str, str] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)

    def run(self) -> Session:
        """Pairs until a look is clear, the pairs or the time are used up, or a side is broken."""
        session, looks = self.session, self.session.plan.looks
        while not session.stopped:
            if len(session.pairs) >= looks[-1]:
                session.stopped = f"all {looks[-1]} pairs were measured, and it is not clear"
            elif len(session.void) >= MOST_VOID_PAIRS:
                session.stopped = f"{len(session.void)} pairs were void"
            elif self.minutes_left() <= 0:
                session.stopped = "the time was used up"
            else:
                self._pair()
                self._look()
            self._save()
        return session

    def _pair(self) -> None:
        session, pair = self.session, self.session.next_pair
        session.next_pair += 1
        found: dict[Side, Launch] = {}
        for place, side in enumerate(order_of(pair, session.plan.seed)):
            self.tell(session, f"pair {pair + 1}, {side}")
            done = self._launched(side, pair, place)
            if done.launch is None:
                session.void.append(done.words)
                self._count_failure(done)
                return
            self._failures[side] = 0
            found[side] = done.launch
        problem = _unequal(found["head"], found["base"])
        if problem:
            session.void.append(f"pair {pair}: {problem}")
            return
        share = self._share(len(session.pairs) + 1)
        whole = [found[side].model_copy(update={"look_share": share}) for side in ("head", "base")]
        session.pairs.append((whole[0], whole[1]))
        with (self.out / MEASUREMENTS).open("a", encoding="utf-8") as stream:
            stream.write("".join(line_of(launch) for launch in whole))

    def _share(self, pairs: int) -> float:
        """The part of the error that the look which this pair counts for may spend."""
        looks = self.session.plan.looks
        number = next((place for place, at in enumerate(looks, 1) if pairs <= at), len(looks))
        return share_of_look(number, len(looks))

    def _launched(self, side: Side, pair: int, place: int) -> Done:
        plan = self.session.plan
        order = Order(
            side=side,
            pair=pair,
            place=2 * pair + place,
            folder=plan.folder(side),
            log=self.out / LOGS / f"{pair:02}-{side}.log",
            measurements=self.out / LOGS / f"{pair:02}-{side}.line",
            environment={**self.environment, **(self.only_for_head if side == "head" else {})},
        )
        done, disturbed = self.watch.disturbances(
            lambda: self.launch(plan.harness, order, plan.timeout)
        )
        if done.launch is None:
            return done
        if disturbed:
            words = "; ".join(f"{what}: {how}" for what, how in disturbed.items())
            return Done(order, None, f"disturbed ({words})")
        known: dict[str, object] = {"case": plan.case, "warmup_steps": plan.warmup_steps}
        if plan.tokens_per_step is not None and done.launch.tokens_per_step is None:
            known["tokens_per_step"] = plan.tokens_per_step
        update = {key: value for key, value in known.items() if value is not None}
        whole = done.launch.model_copy(update=update)
        if not whole.timed_ms or whole.typical_ms <= 0:
            return Done(order, None, f"no step after {whole.warmup_steps} steps of warm-up")
        return Done(order, whole, timed_from=done.timed_from)

    def _count_failure(self, done: Done) -> None:
        """A side that does not run at all will not run the next time either."""
        side = done.order.side
        self._failures[side] = self._failures.get(side, 0) + 1
        if self._failures[side] >= MOST_FAILURES_IN_A_ROW and not done.problem.startswith("distur"):
            self.session.stopped = (
                f"the {side} failed {self._failures[side]} times in a row: {done.words}"
            )

    def _look(self) -> None:
        session, plan = self.session, self.session.plan
        count = len(session.pairs)
        if session.stopped or count not in plan.looks:
            return
        if session.looks and session.looks[-1].pairs == count:
            return
        evidence = session.evidence()
        if evidence is None:
            return
        number = plan.looks.index(count) + 1
        look = look_at(evidence, number, plan.looks, plan.limit, plan.false_fail)
        session.looks.append(look)
        if look.answer is not Answer.UNCLEAR:
            session.stopped = f"after {count} pairs it is clear: {look.answer.value}"

    def _save(self) -> None:
        session = self.session
        state = {
            "schema": SCHEMA,
            "plan": asdict(session.plan),
            "next_pair": session.next_pair,
            "looks": [asdict(look) for look in session.looks],
            "void": session.void,
            "stopped": session.stopped,
        }
        write_atomically(self.out / SESSION, json.dumps(state, indent=2) + "\n")


def _unequal(head: Launch, base: Launch) -> str:
    """Why the two cannot be a pair."""
    if len(head.timed_ms) != len(base.timed_ms):
        return f"{len(head.timed_ms)} timed steps of head, {len(base.timed_ms)} of base"
    return ""


def opened(out: Path, plan: Plan, *, fresh: bool) -> Session:
    """The session in a folder, to go on with; or a new one."""
    state_file, lines = out / SESSION, out / MEASUREMENTS
    if fresh or not (state_file.exists() or lines.exists()):
        out.mkdir(parents=True, exist_ok=True)
        lines.unlink(missing_ok=True)
        return Session(plan)
    state = _state(state_file)
    if state.get("plan") != json.loads(json.dumps(asdict(plan))):
        raise WrongUseError(
            f"{out} holds a session of another plan; give --fresh to begin anew, or another --out"
        )
    pairs = _pairs(lines)
    session = Session(
        plan,
        pairs=pairs,
        looks=[Look(**{**row, "answer": Answer(row["answer"])}) for row in state["looks"]],
        void=[str(words) for words in state["void"]],
        # A kill may have come between the pair's lines and this file.
        next_pair=max([int(state["next_pair"]), *(head.launch + 1 for head, _ in pairs)]),
    )
    if session.answer is not Answer.UNCLEAR or len(pairs) >= plan.looks[-1]:
        session.stopped = state["stopped"]
    return session


def _state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["schema"] == SCHEMA and {"next_pair", "void", "stopped", "looks"} <= state.keys():
            return dict(state)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise WrongUseError(f"{path}: this is no session; give --fresh to begin anew")


def _pairs(path: Path) -> list[tuple[Launch, Launch]]:
    if not path.exists():
        return []
    sides: dict[int, dict[str, Launch]] = {}
    for launch in read_launches(path.read_bytes(), path.name):
        sides.setdefault(launch.launch, {})[launch.side] = launch
    return [(both["head"], both["base"]) for _, both in sorted(sides.items()) if len(both) == 2]

"""A session's folder: what was measured, and where the session stands.

Each pair is a line for each side in `measurements.jsonl`, also a void one and one that was measured
again. The file is written anew after each pair, because launches may write there, too.
`session.json` holds the plan and the looks. A session that was interrupted goes on by them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.disk import cannot_write, remove, write_atomically
from ci_score.files.strict_json import parse, validate
from ci_score.judge import MOST_PAIRS
from ci_score.launches import read_launches
from ci_score.measure.launch.launching import line_of
from ci_score.measure.launch.orders import LAUNCHES, LOGS
from ci_score.measure.session.schedule import Look, goal_with
from ci_score.measure.session.session import FINISHED, Ending, Pair, Plan, Session
from ci_score.measure.session.settled import Settled
from ci_score.model.values import Side

MEASUREMENTS, SESSION = "measurements.jsonl", "session.json"
PROFILES, TRACES = "profiles", "traces"
SCHEMA = 3
# What tells plans apart, in a person's words; the keys of the others say it themselves.
PROGRAMS = {
    "programs head": "head's code",
    "programs base": "base's code",
    "programs files": "a file that both sides read",
}
COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
MOST_CHANGES, LONGEST_CHANGE = 3, 100


class _Saved(BaseModel):
    """What `session.json` says, beside the pairs."""

    schema_: Annotated[Literal[3], Field(alias="schema")]
    plan: dict[str, Any]
    settled: dict[Side, Settled]
    next_pair: int
    goal: Annotated[int, Field(ge=1, le=MOST_PAIRS)]
    was_extended: bool
    timed_from: str
    looks: list[Look]
    notes: list[str]
    ending: Ending | None
    stopped: str


def opened(out: Path, plan: Plan, *, fresh: bool, more_pairs: int = 0) -> Session:
    """The session in a folder, to go on with; or a new one.

    `more_pairs` are added to one that is finished.
    """
    session_file, lines = out / SESSION, out / MEASUREMENTS
    if more_pairs and (fresh or not _has_pairs(session_file)):
        raise WrongUseError(
            f"--more-pairs adds to a finished session, and {out} has none to add to; measure one"
            " first, without --more-pairs and --fresh"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from None
    if lines.exists() and not session_file.exists():
        raise WrongUseError(f"{lines} is there and of no session; give another --out")
    # Without a session in it, logs or profiles in the folder are somebody else's.
    if session_file.exists() and (fresh or (not more_pairs and _gives_way(out, plan))):
        _clear(out)
    if session_file.exists():
        session = _continued(out, plan)
        if more_pairs:
            _extend(session, more_pairs)
        return session
    if plan.seed is None:
        # Nobody can know it before, and so nobody can fit the work to it.
        plan = replace(plan, seed=random.SystemRandom().getrandbits(32))
    return Session(plan)


def _has_pairs(session_file: Path) -> bool:
    """Whether a comparison was begun there: what measures one side alone has no pairs."""
    return session_file.exists() and not _saved(session_file).plan.get("alone")


def _gives_way(out: Path, plan: Plan) -> bool:
    """Whether the folder's session is not worth going on with, so that nobody has to say --fresh.

    It has few launches of one side alone, or it was to be another one and has measured nothing.
    """
    try:
        before = _saved(out / SESSION).plan
    except BadInputError:
        return False
    if before.get("alone"):
        return True
    is_another = bool(_changed(before, _with_seed_of(before, plan).fixed()))
    return is_another and not (out / MEASUREMENTS).exists()


def _continued(out: Path, plan: Plan) -> Session:
    saved = _saved(out / SESSION)
    plan = _with_seed_of(saved.plan, plan)
    changed = _changed(saved.plan, plan.fixed())
    if changed:
        raise WrongUseError(
            f"{out} holds a session of another plan ({changed}); give --fresh to begin anew, or"
            " another --out"
        )
    lines = out / MEASUREMENTS
    pairs = _pairs(lines)
    repeated = [pair for pair in pairs if plan.repeats(pair)]
    session = Session(
        plan,
        settled=saved.settled,
        pairs=[pair for pair in pairs if pair not in repeated],
        disturbed=repeated,
        looks=saved.looks,
        notes=saved.notes,
        # A kill may have come between the lines of a pair and this file.
        next_pair=max([saved.next_pair, *(head.launch + 1 for head, _ in pairs)]),
        goal=saved.goal,
        was_extended=saved.was_extended,
        timed_from=saved.timed_from,
    )
    if saved.ending in (*FINISHED, Ending.DISTURBED):
        session.stop(saved.ending, saved.stopped)
    return session


def _with_seed_of(before: Mapping[str, Any], plan: Plan) -> Plan:
    """A session goes on with its own coins, unless a person asks for others."""
    return plan if plan.seed is not None else replace(plan, seed=before.get("seed"))


def _extend(session: Session, more: int) -> None:
    """Makes a finished session go on; one that was interrupted has its own pairs to measure yet."""
    if session.ending is None:
        if session.was_extended:
            return
        raise WrongUseError(
            f"the session has measured {len(session.pairs)} of {session.goal} pairs; let the same"
            " command without --more-pairs finish it first"
        )
    if session.ending is Ending.DISTURBED:
        raise WrongUseError(session.stopped)
    goal = goal_with(more, len(session.pairs), session.plan.looks)
    if goal > MOST_PAIRS:
        raise WrongUseError(
            f"--more-pairs {more}: that makes {goal} pairs, and a session has at most {MOST_PAIRS}"
        )
    session.goal, session.was_extended = goal, True
    session.ending, session.stopped = None, ""


def save(session: Session, out: Path) -> None:
    """What was measured, and where the session stands."""
    state = {
        "schema": SCHEMA,
        "plan": session.plan.fixed(),
        "settled": {side: asdict(one) for side, one in session.settled.items()},
        "next_pair": session.next_pair,
        "goal": session.goal,
        "was_extended": session.was_extended,
        "timed_from": session.timed_from,
        "looks": [asdict(look) for look in session.looks],
        "notes": session.notes,
        "ending": session.ending,
        "stopped": session.stopped,
    }
    if session.launches:
        _write(out / MEASUREMENTS, "".join(map(line_of, session.launches)))
    else:
        remove(out / MEASUREMENTS)
    _write(out / SESSION, json.dumps(state, indent=2) + "\n")


def _write(path: Path, text: str) -> None:
    """Whole, and from memory: what a launch has put there or added to it does not count."""
    if path.is_symlink() or not path.is_file():
        remove(path)
    write_atomically(path, text)


def _saved(path: Path) -> _Saved:
    try:
        return validate(_Saved, parse(path.read_bytes(), path.name), path.name)
    except (OSError, BadInputError):
        raise BadInputError(
            str(path), found="something else", expected="a session; give --fresh to begin anew"
        ) from None


def _clear(out: Path) -> None:
    """Takes away what an earlier session left, and nothing else."""
    for name in (MEASUREMENTS, SESSION, LOGS, LAUNCHES, PROFILES, TRACES):
        remove(out / name)


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs between two plans; empty where nothing does."""
    there, here = dict(_rows(before)), dict(_rows(now))
    keys = sorted(key for key in {*there, *here} if there.get(key) != here.get(key))
    # What a person has changed last is most often the code.
    keys.sort(key=lambda key: key not in PROGRAMS)
    rows = [
        f"{PROGRAMS.get(key, key)}: {_short(there.get(key))} then, {_short(here.get(key))} now"
        for key in keys[:MOST_CHANGES]
    ]
    more = [f"{len(keys) - MOST_CHANGES} more"] if len(keys) > MOST_CHANGES else []
    return "; ".join([*rows, *more])


def _short(value: object) -> str:
    """With commits as git abbreviates them, and what was changed since beside them."""
    text = COMMIT.sub(lambda found: found[0][:12], "none" if value is None else str(value))
    return text if len(text) <= LONGEST_CHANGE else f"{text[: LONGEST_CHANGE - 1]}…"


def _rows(plan: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in plan.items():
        if isinstance(value, dict):
            yield from _rows(value, f"{before}{key} ")
        else:
            yield f"{before}{key}", value


def _pairs(path: Path) -> list[Pair]:
    if not path.exists():
        return []
    sides: dict[int, dict[str, Any]] = {}
    for launch in read_launches(path.read_bytes(), path.name, planted=True):
        sides.setdefault(launch.launch, {})[launch.side] = launch
    return [(both["head"], both["base"]) for _, both in sorted(sides.items()) if len(both) == 2]

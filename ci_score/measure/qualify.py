"""What a machine can gate: the same program against itself, and slowdowns that were planted.

The launches of one program spread by the machine's luck alone. That spread says which limit a gate
here can have; the planted slowdowns show that what should be found is found.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.disk import write_atomically
from ci_score.files.strict_json import parse
from ci_score.judge import judge_pairs
from ci_score.launches import Launch
from ci_score.measure.bench import Bench, Request
from ci_score.measure.machine.accelerators import POWER_CAP
from ci_score.measure.machine.environment import git_state
from ci_score.measure.recorder import PLANTED_VARIABLE
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.session import Pair, Session
from ci_score.measure.sides.preparing import Sides
from ci_score.model.values import Side

SCHEMA = 1
FILE = "qualification.json"
VALID_DAYS = 30
PLANTED = (0.05, 0.10)
# Fewer than 8 pairs prove nothing at so small a chance of error.
PAIRS, PLANTED_PAIRS = 12, 8
FALSE_FAIL = 0.005
# A spread of launches up to this -> the smallest limit that a gate can have.
TIERS = ((0.005, 0.03), (0.01, 0.05), (0.03, 0.10))
# Beyond this spread there is something to be gained.
CALM = 0.01
STAMP = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Found:
    """What a series of pairs of the same program found, with a slowdown planted or none."""

    planted: float
    seen: float
    low: float
    high: float
    caught: bool


@dataclass(frozen=True, slots=True)
class Qualification:
    """What can be gated on a machine; `gate_at` is None where only counters can."""

    spread: float
    gate_at: float | None
    found: tuple[Found, ...]
    advice: tuple[str, ...]

    @property
    def trusted(self) -> bool:
        """Whether the unchanged program was let pass, and each planted slowdown was found."""
        return all(row.caught == (row.planted > 0) for row in self.found if self._is_due(row))

    def _is_due(self, row: Found) -> bool:
        """A slowdown below the limit need not be found."""
        return row.planted == 0 or (self.gate_at is not None and row.planted >= 2 * self.gate_at)

    def as_json(self, machine: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The record, with its machine and its expiry."""
        return {
            "schema": SCHEMA,
            "machine": identity_of(machine),
            "spread": self.spread,
            "gate_at": self.gate_at if self.trusted else None,
            "trusted": self.trusted,
            "found": [asdict(row) for row in self.found],
            "advice": list(self.advice),
            "created_at": now.strftime(STAMP),
            "expires_at": (now + timedelta(days=VALID_DAYS)).strftime(STAMP),
        }


def qualified(
    series: Mapping[float, Sequence[Pair]], environment: Mapping[str, Any]
) -> Qualification:
    """What the series say: planted slowdown -> pairs of the slowed and the unchanged program."""
    unchanged = [launch for pair in series[0.0] for launch in pair]
    scores = [math.log(launch.mean_ms) for launch in unchanged]
    spread = statistics.stdev(scores)
    gate_at = next((limit for most, limit in TIERS if spread <= most), None)
    found = tuple(_found(planted, pairs) for planted, pairs in sorted(series.items()))
    return Qualification(spread, gate_at, found, tuple(_advice(spread, environment)))


def _found(planted: float, pairs: Sequence[Pair]) -> Found:
    # Of a planted slowdown half must be beyond doubt; of none, nothing may be.
    judged = judge_pairs(
        [slowed.mean_ms for slowed, _ in pairs],
        [unchanged.mean_ms for _, unchanged in pairs],
        limit=planted / 2,
        false_fail=FALSE_FAIL,
    )
    return Found(planted, judged.estimate, judged.low, judged.high, judged.outcome == "fail")


def _advice(spread: float, environment: Mapping[str, Any]) -> Iterable[str]:
    cpu = environment.get("cpu", {})
    if spread > CALM:
        governor = cpu.get("governor")
        if governor and governor != "performance":
            yield (
                f"the CPU's governor is {governor}: `cpupower frequency-set -g performance` keeps"
                " its clock"
            )
        if environment.get("accelerator"):
            capped = " (the power cap holds them down)" if _is_capped(environment) else ""
            yield (
                f"lock the clocks{capped}: `nvidia-smi -lgc MHZ` (and `-lmc`), below what heat and"
                " power allow"
            )
        if cpu.get("load", 0) > 0.5 * (cpu.get("usable") or 1):
            yield f"something else runs here (load {cpu['load']}): give the job the machine alone"
        yield "longer launches, or more timed steps in each, average more of the luck away"
    if spread > TIERS[-1][0]:
        yield (
            "gate counters only (launches, kernels, peak memory), or measure elsewhere: times here"
            " cannot tell 10 % from luck"
        )
    if environment.get("disturbed_launches"):
        yield "launches were disturbed (throttled or shared): see environment.json"


def _is_capped(environment: Mapping[str, Any]) -> bool:
    """Whether the power limit held a device's clock down during the launches."""
    return POWER_CAP in environment.get("throttled_share", {})


# --- finding it out -----------------------------------------------------------------------------


class Qualifier:
    """Runs the same program against itself, unchanged and with slowdowns that are planted."""

    shares = (0.0, *PLANTED)

    def __init__(self, request: Request, sides: Sides, environment: Mapping[str, str]) -> None:
        self._bench = Bench(request, sides, environment)
        self._series: dict[float, list[Pair]] = {}
        self._last: Session | None = None

    def run(self, planted: float, audience: Audience, stopped: Callable[[], bool]) -> Session:
        """The session of one of the shares."""
        plan = self._bench.plan(
            {"head": git_state(self._bench.sides.head.folder)},
            # One look at the end: the spread is wanted, not a quick answer.
            looks=(PLANTED_PAIRS if planted else PAIRS,),
            false_fail=FALSE_FAIL,
            limit=planted / 2,
            planted=True,
        )
        out = self._bench.out / f"planted-{planted:.0%}".replace("%", "")
        slower: dict[Side, dict[str, str]] = {"head": {PLANTED_VARIABLE: str(planted)}}
        session = self._last = self._bench.run(plan, out, audience, stopped, slower)
        self._series[planted] = [(_planted(head, planted), base) for head, base in session.pairs]
        return session

    def result(self, now: datetime) -> tuple[Qualification, dict[str, Any]]:
        """What all sessions found, and its record."""
        machine = self._bench.machine(self._last)
        result = qualified(self._series, machine)
        return result, result.as_json(machine, now)

    def keep(self, record: str) -> list[Path]:
        """Writes the record beside the sessions, and where later ones on this machine look."""
        files = [self._bench.request.out / FILE, kept_at(self._bench.environment)]
        write_atomically(files[0], record)
        try:
            write_atomically(files[1], record)
        except WrongUseError:  # a machine without a home
            return files[:1]
        return files


def kept_at(environment: Mapping[str, str]) -> Path:
    """Where the qualification of this machine is kept for whoever measures on it."""
    state = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ci-score" / FILE


def _planted(launch: Launch, share: float) -> Launch:
    """A script without the Recorder is slowed down in its numbers."""
    if launch.planted:
        return launch
    longer = tuple(ms * (1 + share) for ms in launch.step_ms)
    return launch.but(step_ms=longer)


# --- whether it holds ---------------------------------------------------------------------------


def qualification_here(
    bench: Bench, machine: Mapping[str, Any], named: Path | None = None
) -> dict[str, Any]:
    """What environment.json says of it: the one that was named counts alone."""
    files = [named] if named else [bench.out / FILE, kept_at(bench.environment)]
    return qualification_for(machine, files, datetime.now(UTC))


def qualification_for(
    machine: Mapping[str, Any], files: Iterable[Path], now: datetime
) -> dict[str, Any]:
    """What environment.json says of the first of the files that is there: a limit, or why none."""
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        return {"not_qualified": "`ci-score qualify` has not been run here"}
    try:
        record = parse(path.read_bytes(), path.name)
    except (OSError, BadInputError) as error:
        return {"not_qualified": f"its qualification cannot be read ({error})"}
    why_not = holds(record, machine, now) if isinstance(record, dict) else "it is no object"
    if why_not:
        return {"not_qualified": f"its qualification does not hold: {why_not}"}
    return {"gate_at": record["gate_at"]}


def identity_of(machine: Mapping[str, Any]) -> dict[str, Any]:
    """What makes it the same machine: its devices, else its processor."""
    devices = [
        {key: device[key] for key in ("name", "uuid") if key in device}
        for device in machine.get("devices", [])
    ]
    cpu = machine.get("cpu", {})
    return {"devices": devices} if devices else {"cpu": cpu.get("name"), "count": cpu.get("count")}


def holds(record: Mapping[str, Any], machine: Mapping[str, Any], now: datetime) -> str:
    """Why a qualification does not hold here and now; empty where it does."""
    if record.get("schema") != SCHEMA:
        return "it is of another version"
    if not _is_same(record.get("machine"), identity_of(machine)):
        return "it is another machine's"
    try:
        expires = datetime.strptime(str(record.get("expires_at")), STAMP).replace(tzinfo=UTC)
    except ValueError:
        return "it has no expiry"
    if now > expires:
        return f"it expired on {expires:%Y-%m-%d}"
    gate_at = record.get("gate_at")
    if gate_at is None:
        return "times vary too much here, only counters can be gated"
    is_limit = isinstance(gate_at, float) and 0 < gate_at < 1
    return "" if is_limit else f"its limit is {gate_at!r:.40}"


def _is_same(qualified: object, here: Mapping[str, Any]) -> bool:
    """A session may use some of the devices that were qualified."""
    if not isinstance(qualified, dict):
        return False
    known = qualified.get("devices")
    if not isinstance(known, list) or "devices" not in here:
        return qualified == here
    return all(device in known for device in here["devices"])

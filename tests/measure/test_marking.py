"""The launch with marks of a side: what is made of it, and when it says nothing.

The script stands for the start-up hook, too: it leaves what a launch with marks leaves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.launches import Launch
from ci_score.measure.launch.orders import LOGS, Orders
from ci_score.measure.session.marking import Marker, is_worth_it
from ci_score.measure.session.schedule import SIDES
from ci_score.measure.session.session import Plan, Session
from ci_score.measure.session.settled import Settled
from ci_score.measure.sides.command import command_of
from ci_score.measure.sides.spec import SideSpec
from ci_score.model.profile import Profile
from ci_score.model.step_code import CodeWork, MarkedStep
from ci_score.model.values import Side

SCRIPT = """\
import json, os

def told(values):
    order = json.loads(os.environ["CI_SCORE_HOOK"])
    assert (order["mode"], order["steps"], order["tree"]) == ("marked", 2, os.getcwd())
    record = {"schema": 1, "mode": "marked", "pid": os.getpid(), "rank": 0, "world_size": 1,
              "steps": 4, "warmup_steps": 1, "step_ms": [1.0, 1.0, 1.0], "timed_by": "wall clock",
              "owner": {"class": "SGD", "parameters": 1, "order": 0}, "first_loss": 2.0, **values}
    frame = {"id": 7, "file": os.path.abspath("train.py"), "line": 3, "function": "told",
             "first": 3, "through": None, "caller": None, "compiled": False}
    for name, value in (("lines", {"schema": 1, "rows": [frame]}), ("rank", record)):
        with open(f"{order['folder']}/{name}-0-{os.getpid()}.json", "w") as stream:
            json.dump(value, stream)
    with open(order["trace"], "w") as stream:
        stream.write("a trace")

"""


@dataclass
class Said:
    """What a person reads."""

    words: list[str] = field(default_factory=list)
    doing: list[str] = field(default_factory=list)

    def does(self, words: str, done: int = 0, total: int = 0) -> None:
        """What is running."""
        self.doing.append(words)

    def reaches(self, words: str) -> None:
        """How far it is."""

    def says(self, words: str) -> None:
        """A line of its own."""
        self.words.append(words)

    def begins(self, *_: object) -> None:
        """Of a timed launch."""
        raise AssertionError("nothing is timed")

    ends = begins


@dataclass
class Reader:
    """Reads the stand-in's trace."""

    step: MarkedStep
    problem: str = ""

    def marked(self, trace: Path) -> MarkedStep:
        """The step that it was made with."""
        assert trace.read_text(encoding="utf-8") == "a trace"
        if self.problem:
            raise BadInputError("trace.json", found=self.problem, expected="a trace")
        return self.step

    def profile(self, _trace: Path) -> Profile:
        """Of a launch without marks alone."""
        raise AssertionError("its other numbers are not read")

    def text(self, _profile: Profile) -> str:
        """As it is kept."""
        raise AssertionError("it writes nothing")


STEP = MarkedStep(steps=3, step_ms=12.0, total_ms=1.0, work={7: CodeWork(forward_ms=1)},
                  operators=100.0)  # fmt: skip
PROFILE = Profile(avg_step_ms=9.0, steps=3, host_ops_per_step=100.0)
KNOWN = Settled(by_hook=True, seconds=1.0, first_loss=2.0)


def launch(side: Side, ms: float = 1.0, **fields: Any) -> Launch:
    return Launch.of_line({"schema": 1, "side": side, "step_ms": [ms] * 3, **fields}, "a line")


@dataclass
class Here:
    """A session of one side in a folder, and what marks its launch."""

    folder: Path
    said: Said = field(default_factory=Said)
    alone: list[Launch] = field(default_factory=list)
    settled: Settled = KNOWN
    stops: bool = False

    def marked(
        self, reader: Reader, *, told: str = "{}", profile: Profile = PROFILE, keep: bool = False
    ) -> Profile:
        """The profile after the marked launch of a script that has told these values."""
        return self._marker(("head",), reader, told, keep=keep).run({"head": profile})["head"]

    def both(self, reader: Reader) -> dict[Side, Profile]:
        """The profiles of two sides that are one program."""
        return self._marker(SIDES, reader, "{}").run(dict.fromkeys(SIDES, PROFILE))

    def _marker(
        self, sides: tuple[Side, ...], reader: Reader, told: str, *, keep: bool = False
    ) -> Marker:
        side, out = self.folder / "side", self.folder / "out"
        side.mkdir(exist_ok=True)
        out.mkdir(exist_ok=True)
        (side / "train.py").write_text(f"{SCRIPT}told({told})\n", encoding="utf-8")
        plan = Plan(
            ("python", "train.py"), "case", (), 0.0, 0.0, 1, 60.0, warmup_steps=2, alone=True
        )
        session = Session(plan, settled=dict.fromkeys(sides, self.settled), alone=self.alone)
        command = command_of((sys.executable, "train.py"), dict.fromkeys(sides, side), self.folder)
        specs = dict.fromkeys(sides, SideSpec(side))
        orders = Orders(out, command, specs, {"PATH": os.environ["PATH"]})
        return Marker(session, orders, reader, keep, lambda: self.stops, self.said)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_marked__a_profile_gets_its_code(here: Here) -> None:
    """All else stays as the launch without marks has told it; nothing of the trace is left."""
    found = here.marked(Reader(STEP))
    assert found.code
    assert found.but(code=None) == PROFILE
    (line,) = found.code.lines
    own = found.code.definitions[line.definition]
    assert (own.name, own.file, line.line) == ("told", "train.py", 3)
    assert (found.code.marked_ms, found.code.unmarked_ms) == (12.0, 9.0)
    assert here.said.doing == ["the marked launch, which finds the lines"]
    assert here.said.words == []
    assert not list((here.folder / "out").rglob("trace*"))


def test_marked__the_trace_is_kept_where_that_is_wanted(here: Here) -> None:
    """Also one that explains nothing."""
    here.marked(Reader(STEP, "something else"), keep=True)
    assert (here.folder / "out" / "traces" / "head-lines.json.gz").is_file()
    assert not list((here.folder / "out" / LOGS).rglob("trace.json"))


@dataclass
class Readers(Reader):
    """Reads a step after the other."""

    times: list[float] = field(default_factory=list)

    def marked(self, trace: Path) -> MarkedStep:
        """The next one."""
        return super().marked(trace).but(step_ms=self.times.pop(0))


@pytest.mark.parametrize(
    ("times", "kept", "launches"),
    [
        ([12.0, 12.5], (12.0, 12.5), 2),
        ([12.0, 40.0, 13.0], (12.0, 13.0), 3),
        ([12.0, 40.0, 50.0, 41.0], (12.0, 40.0), 4),
        ([30.0, 12.0, 12.0], (12.0, 12.0), 3),
    ],
)
def test_marked__a_disturbed_launch_is_made_again(
    here: Here, times: list[float], kept: tuple[float, float], launches: int
) -> None:
    """Twice at most, and the faster one is kept."""
    reader = Readers(STEP, times=list(times))
    found = here.both(reader)
    assert tuple(found[side].code.marked_ms for side in ("base", "head")) == kept  # type: ignore[union-attr]
    assert not reader.times
    assert len(here.said.doing) == launches
    assert len(here.said.words) == launches - 2


OTHER_WORK = ", so it is not the same work"
TROUBLE: dict[str, tuple[Reader, str, str]] = {
    "other operators": (
        Reader(STEP.but(operators=102.0)),
        "{}",
        f"with marks a step has 102 operators instead of 100{OTHER_WORK}",
    ),
    "another loss": (
        Reader(STEP),
        "{'first_loss': 2.5}",
        f"with marks the first loss is 2.5 instead of 2{OTHER_WORK}",
    ),
    "too few steps": (Reader(STEP.but(steps=2)), "{}", "its trace has 2 whole steps instead of 3"),
    "no trace": (Reader(STEP, "half a"), "{}", "its trace cannot be read (trace.json: found half"),
    "fails": (Reader(STEP), "1 / 0", "it failed with ZeroDivisionError after 0 of 5 optimizer"),
    "no marks": (Reader(STEP), "{'marks_problem': 'no\\nroom'}", "the marks failed (no room)"),
    "another process": (Reader(STEP), "{'pid': 1}", "lines-0-1.json: found No such file"),
}


@pytest.mark.parametrize(("reader", "told", "words"), TROUBLE.values(), ids=TROUBLE)
def test_marked__what_goes_wrong_is_said_and_spoils_nothing(
    here: Here, reader: Reader, told: str, words: str
) -> None:
    """The profile stays as it is."""
    assert here.marked(reader, told=told) == PROFILE
    (said,) = here.said.words
    assert said.startswith("no lines: ")
    assert words in said


@pytest.mark.parametrize(
    "fields",
    [
        {"alone": [launch("head", first_loss=3.0)]},
        {"settled": Settled(by_hook=True, seconds=1.0)},
    ],
)
def test_marked__losses_count_only_where_those_without_marks_agree(
    here: Here, fields: dict[str, Any]
) -> None:
    """A script without a seed has other ones in each launch."""
    for name, value in fields.items():
        setattr(here, name, value)
    assert here.marked(Reader(STEP), told="{'first_loss': 2.5}").code


def test_marked__operators_that_nobody_counted_are_no_difference(here: Here) -> None:
    """As of a trace that tells none."""
    assert here.marked(Reader(STEP.but(operators=None))).code
    assert here.marked(Reader(STEP), profile=PROFILE.but(host_ops_per_step=None)).code


def test_marked__a_script_that_tells_its_own_steps_is_left_alone(here: Here) -> None:
    """No hook marks its lines."""
    here.settled = Settled(by_hook=False, seconds=1.0)
    assert here.marked(Reader(STEP)) == PROFILE
    assert here.said.doing == []


def test_marked__an_interrupted_session_says_nothing_of_lines(here: Here) -> None:
    """It is said once, by the session."""
    here.stops = True
    assert here.marked(Reader(STEP)) == PROFILE
    assert (here.said.doing, here.said.words) == ([], [])


# --- when it is worth it --------------------------------------------------------------------------


def session(head_ms: Sequence[float], **head: Any) -> Session:
    """Pairs of a base of 10 ms, all of whose launches had 1 GB."""
    base = launch("base", 10.0, peak_memory_gb=1.0)
    pairs = [(launch("head", ms, **{"peak_memory_gb": 1.0, **head}), base) for ms in head_ms]
    plan = Plan(("python",), "case", (6, 12), 0.01, 0.05, 1, 60.0)
    return Session(plan, pairs=pairs)


SAME = (9.9, 10.1, 10.0, 10.05, 9.95, 10.0)


@pytest.mark.parametrize(
    ("pairs", "profiles", "is_worth"),
    [
        (session(SAME), {"base": PROFILE, "head": PROFILE}, False),
        (session([14.0, 14.1, 13.9, 14.0, 14.05, 13.95]), {"base": PROFILE, "head": PROFILE}, True),
        (session([7.0, 7.1, 6.9, 7.0, 7.05, 6.95]), {"base": PROFILE, "head": PROFILE}, True),
        (session(SAME, peak_memory_gb=1.1), {"base": PROFILE, "head": PROFILE}, True),
        (session(SAME, peak_memory_gb=1.001), {"base": PROFILE, "head": PROFILE}, False),
        (session(SAME), {"base": PROFILE, "head": PROFILE.but(host_ops_per_step=120.0)}, True),
        (session([14.0] * 6), {"head": PROFILE}, False),
    ],
    ids=["the same", "slower", "faster", "more memory", "memory of chance", "operators", "no base"],
)
def test_worth__are_sides_that_differ(
    pairs: Session, profiles: dict[Side, Profile], *, is_worth: bool
) -> None:
    """In time, proven either way; in peak memory or in the number of operators."""
    assert is_worth_it(pairs, profiles) is is_worth

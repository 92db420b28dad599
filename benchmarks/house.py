"""What `make house` prints: how big the house is, and how far it is to the decision.

Sizes come from the source files, rooms and arrows from `tests/house/plan.py`. The way to the
decision is traced in two real runs: one on this machine alone, and one as the Action, on the files
in `tests/fixtures/action` and with the loopback GitHub. Numbers are printed and never asserted.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from textwrap import fill
from types import CodeType, FrameType
from typing import Any

from tests.house.plan import (
    BY_NAME,
    PACKAGE,
    ROOMS,
    exported_by,
    imports,
    module_of,
    ours,
    room_of,
    sources,
)
from tests.loopback_github import LoopbackGitHub, State, events

PROJECT = PACKAGE.parent
# Its first call is the decision.
DECIDES = "ci_score.judge.decide"
# The rules of the judge; they were judgement/, noise, student, trend, trials
# and verdict, with 2,278 lines. What of them went to other rooms, such as sentences, counts there.
RULES = frozenset(
    {
        "judge.budgets",
        "judge.decision",
        "judge.doubts",
        "judge.eligibility",
        "judge.error_budget",
        "judge.evidence",
        "judge.history",
        "judge.judgement",
        "judge.levels",
        "judge.looks",
        "judge.pairs",
        "judge.signed_ranks",
        "judge.summary",
        "judge.trend",
        "judge.trial",
        "judge.verdicts",
    }
)
# Reading and baselines are not on the way: neither these rooms and modules, nor what they call.
NOT_ON_THE_WAY = ("traces", "files", "baselines", "run.reading", "run.case_files")
FIXTURE = PROJECT / "tests" / "fixtures" / "action"
LONGEST = 5
WIDTH = 100

# The same counts at f27da4b, the last commit before the rooms.
BEFORE = {
    "modules": 143,
    "lines": 28_413,
    "lines outside traces": 20_527,
    "lines outside both": 18_249,
    "lines of data": 4_120,
}
BEFORE_BY_ROOM = {
    "cli": 2839,
    "run": 2084,
    "github": 1355,
    "measure": 2113,
    "report": 2453,
    "judge": 2931,
    "judge.policy": 882,
    "compare": 1489,
    "baselines": 655,
    "launches": 796,
    "traces": 7886,
    "reference": 620,
    "model": 1635,
    "files": 512,
    "__init__": 53,
    "__main__": 45,
    "errors": 65,
}
BEFORE_FUNCTIONS = {"outside": "7/21/62", "inside": "9/21/46"}
BEFORE_WAYS = {"on this machine alone": (27, 5), "as the Action": (27, 6)}
HOW_BEFORE_WAS_COUNTED = fill(
    "before: this script at f27da4b, the last commit without rooms. Each module counts in the room"
    " that it moved to, models.py in model. The way ends at the first call of judgement.judge; left"
    " out of it, with all that they call, are profilers, archives, strict_json, files, reading,"
    " case_files, baselines and records.",
    WIDTH,
)


# --- what the source files say --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """A function, nested ones and methods too, from its `def` to its last line."""

    module: str
    name: str
    lines: int


@dataclass(frozen=True, slots=True)
class Module:
    """A source file and its functions."""

    name: str
    lines: int
    functions: tuple[Function, ...]

    @property
    def room(self) -> str:
        """The room that it lies in."""
        return room_of(self.name)

    @property
    def is_of_traces(self) -> bool:
        """Whether the issue on traces rewrites it."""
        return self.room == "traces"


def modules() -> list[Module]:
    """Every module of the package."""
    found = []
    for path in sources():
        text, name = path.read_text(encoding="utf-8"), module_of(path)
        functions = tuple(
            Function(name, node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        found.append(Module(name, len(text.splitlines()), functions))
    return found


def total(rows: Iterable[Module]) -> int:
    """The lines of all of them."""
    return sum(row.lines for row in rows)


def data_files() -> dict[str, int]:
    """The lines of every file in the package that is not a module."""
    return {
        str(path.relative_to(PACKAGE)): len(path.read_bytes().splitlines())
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }


def used_arrows() -> set[tuple[str, str]]:
    """Every pair of rooms of which the first imports the second."""
    pairs = {
        (room_of(module_of(path)), room_of(module))
        for path in sources()
        for module, _ in filter(None, map(ours, imports(path)))
    }
    return {
        (one, other) for one, other in pairs if one in BY_NAME and other in BY_NAME and one != other
    }


# --- the way to the decision ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """Which modules had a function running before the decision, and which were waiting for it."""

    passed: tuple[str, ...]
    waiting: tuple[str, ...]


def way_of_a_local_run() -> Way:
    """A run without GitHub, against a baseline in a file."""
    with workspace() as folder:
        return traced(
            folder,
            {},
            ["run", "--profiles", "fails/profile.json", "--baseline", "baseline.json"],
        )


def way_of_the_action() -> Way:
    """The same files as the Action sees them, on a pull request."""
    state = State(start="2026-01-05T09:00:00Z")
    state.token("secret")
    repository = state.repository("team/model")
    state.commit(repository, "main")
    state.commit(repository, "topic")
    with workspace() as folder, LoopbackGitHub(state) as github:
        event = events.pull_request(github, state.pull_request(repository, "topic"))
        inputs = {
            "INPUT_PROFILES": "fails",
            "INPUT_BASELINE": "baseline.json",
            "INPUT_GITHUB-TOKEN": "secret",
        }
        return traced(folder, event.write(folder / "runner") | inputs, ["run"])


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder with the fixture's files in it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(FIXTURE, folder, dirs_exist_ok=True)
        yield Path(folder)


def traced(folder: Path, environment: dict[str, str], arguments: Sequence[str]) -> Way:
    """The way of a command that runs in a process of its own, with nothing of this one's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    ours_alone = {"PYTHONPATH": str(PROJECT), "GITHUB_WORKSPACE": str(folder)}
    answer = folder / "way.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.house", "--trace", str(answer), *arguments],
        cwd=PROJECT, env=kept | ours_alone | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if not answer.exists():
        sys.exit(f"no call of {DECIDES} was seen:\n{done.stdout}{done.stderr}")
    found = json.loads(answer.read_text(encoding="utf-8"))
    return Way(tuple(found["passed"]), tuple(found["waiting"]))


def trace(answer: Path, arguments: Sequence[str]) -> None:
    """Runs the command here, and writes down which modules it passes before its first decision."""
    module, _, function = DECIDES.rpartition(".")
    decides = inspect.unwrap(getattr(import_module(module), function)).__code__
    passed: set[str] = set()

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not runs_ours(frame.f_code):
            return
        stack = [frame.f_code, *callers(frame)]
        if frame.f_code is decides:
            sys.setprofile(None)
            waiting = {module_of_code(code) for code in stack[1:] if runs_ours(code)}
            found = {"passed": sorted(passed), "waiting": sorted(waiting)}
            answer.write_text(json.dumps(found), encoding="utf-8")
        elif not any(map(is_left_out, stack)):
            passed.add(module_of_code(frame.f_code))

    from ci_score.__main__ import main

    sys.argv[1:] = arguments
    sys.setprofile(look)
    main()


def callers(frame: FrameType) -> Iterator[CodeType]:
    """Whatever waits for a frame, the innermost first."""
    above = frame.f_back
    while above is not None:
        yield above.f_code
        above = above.f_back


def runs_ours(code: CodeType) -> bool:
    """Whether it belongs to a module of ours; the package's own door only passes names on."""
    path = Path(code.co_filename)
    return path.is_relative_to(PACKAGE) and path != PACKAGE / "__init__.py"


def module_of_code(code: CodeType) -> str:
    """The module that it was written in."""
    return module_of(Path(code.co_filename))


def is_left_out(code: CodeType) -> bool:
    """Whether it and what it calls is not on the way: an import, reading, a baseline."""
    if not runs_ours(code):
        return False
    module = module_of_code(code)
    return code.co_name == "<module>" or any(
        module == name or module.startswith(f"{name}.") for name in NOT_ON_THE_WAY
    )


# --- the page -------------------------------------------------------------------------------------


def main() -> None:
    """Prints every number, with the old house's beside it."""
    rows = modules()
    outside = [row for row in rows if not row.is_of_traces]
    inside = [row for row in rows if row.is_of_traces]
    data = data_files()
    row_of("", "before", "now")
    row_of("modules", BEFORE["modules"], len(rows))
    print("\nlines a room")
    homes = {row.room for row in rows}
    for name in (*(room.name for room in ROOMS), *sorted(homes - BY_NAME.keys())):
        size = total(row for row in rows if row.room == name)
        row_of(f"  {name}", BEFORE_BY_ROOM.get(name, 0), size)
    row_of("lines in all", BEFORE["lines"], total(rows))
    row_of("lines outside traces", BEFORE["lines outside traces"], total(outside))
    rest = [row for row in outside if row.name not in RULES]
    row_of("and outside the judge's first rules", BEFORE["lines outside both"], total(rest))
    row_of("lines of data files, in no sum above", BEFORE["lines of data"], sum(data.values()))
    show_functions("functions outside traces", BEFORE_FUNCTIONS["outside"], outside)
    show_functions("functions in traces", BEFORE_FUNCTIONS["inside"], inside)
    print("\nlongest modules")
    for row in sorted(rows, key=lambda row: -row.lines)[:LONGEST]:
        print(f"  {row.lines:5}  {row.name}")
    show_plan()
    print("\nmodules between `ci-score run` and the decision")
    show_way("on this machine alone", way_of_a_local_run())
    show_way("as the Action", way_of_the_action())
    print("\n" + HOW_BEFORE_WAS_COUNTED)


def row_of(what: str, before: object, now: object) -> None:
    """One line of the table."""
    print(f"{what:<44} {shown(before):>16} {shown(now):>16}")


def shown(value: object) -> str:
    """A number with its thousands apart; anything else as it is."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def show_functions(what: str, before: str, rows: Sequence[Module]) -> None:
    """How long functions are, and which are the longest."""
    found = sorted(
        (function for row in rows for function in row.functions), key=lambda one: -one.lines
    )
    lengths = [one.lines for one in found]
    ninetieth = statistics.quantiles(lengths, n=10)[8]
    print()
    row_of(what, "", len(found))
    row_of(
        "  median/90th percentile/longest",
        before,
        f"{statistics.median(lengths):g}/{ninetieth:g}/{lengths[0]}",
    )
    for one in found[:LONGEST]:
        print(f"  {one.lines:5}  {one.module}.{one.name}")


def show_plan() -> None:
    """The arrows of the plan, and how many names each door exports."""
    drawn = {(room.name, other) for room in ROOMS for other in room.knows}
    used = used_arrows() & drawn
    unused = ", ".join(f"{one} → {other}" for one, other in sorted(drawn - used))
    print()
    row_of("arrows of the plan", "no plan", len(drawn))
    row_of("  used by an import", "", f"{len(used)}")
    if unused:
        print(fill(f"unused: {unused}", WIDTH, initial_indent="  ", subsequent_indent="  "))
    doors = {room.name: len(exported_by(room)) for room in ROOMS if not room.is_open}
    row_of("names that a door exports, at most", "no doors", max(doors.values()))
    words = ", ".join(f"{name} {count}" for name, count in doors.items())
    print(fill(words, WIDTH, initial_indent="  ", subsequent_indent="  "))


def show_way(what: str, way: Way) -> None:
    """How many modules a run passes before it decides, and which."""
    before = BEFORE_WAYS[what]
    row_of(f"  {what}: passed", before[0], len(way.passed))
    row_of(f"  {what}: on the stack", before[1], len(way.waiting))
    for name, found in (("passed", way.passed), ("on the stack", way.waiting)):
        words = f"{name}: {' '.join(found)}"
        print(fill(words, WIDTH, initial_indent="    ", subsequent_indent="      "))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trace"]:
        trace(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()

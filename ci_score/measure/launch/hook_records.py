"""What the start-up hook left in a launch's folder, read strictly: the script may have written it.

Each process that trained has one whole record, and every Python left marks of how far it came.
`read_folder` says what a launch measured, that its script measures itself, or what went wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints

from ci_score.errors import BadInputError
from ci_score.files.disk import open_plain
from ci_score.files.strict_json import parse, validate
from ci_score.files.visible import plain

MARKS = "marks.jsonl"
MARKS_LIMIT = 4 << 20
RECORD_LIMIT = 4 << 20
ALL_RECORDS_LIMIT = 64 << 20
MOST_RANKS = 4096
# An optimizer that was called as often with the same gradients has steps that nobody sees.
LEAST_REPEATS = 10
_RECORD = re.compile(r"rank-(\d{1,6})-(\d{1,10})\.json")

_ShortText = Annotated[str, StringConstraints(max_length=200)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
# Thirty years, as in measurement lines.
_Milliseconds = Annotated[float, Field(ge=0, le=1e12)]
_Loss = float | Literal["nan", "inf", "-inf"]
_LIST = Strict(False)


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class Owner(_Value):
    """An optimizer, as every launch of the same script knows it again."""

    class_: Annotated[_ShortText, Field(alias="class")]
    parameters: _Count
    order: _Count


class Optimizer(Owner):
    """An optimizer and how many `steps` it made."""

    steps: _Count


class RankRecord(_Value):
    """What one process measured: `step_ms` are the times between the ends of its steps."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    mode: Literal["settle", "timed", "profiled", "marked"]
    pid: _Count
    rank: Annotated[int, Field(ge=0, lt=MOST_RANKS)]
    world_size: Annotated[int, Field(ge=1, le=MOST_RANKS)]
    steps: Annotated[int, Field(ge=1, le=10**6)]
    warmup_steps: _Count = 0
    step_ms: Annotated[tuple[_Milliseconds, ...], _LIST]
    timed_by: Literal["device events", "wall clock"]
    owner: Owner
    # The owner first, then by size. Backward passes and skipped steps count from the warm-up on.
    optimizers: Annotated[tuple[Optimizer, ...], _LIST, Field(max_length=64)] = ()
    backward_passes: _Count = 0
    skipped_steps: _Count = 0
    first_loss: _Loss | None = None
    final_loss: _Loss | None = None
    peak_memory: Annotated[dict[_ShortText, _Count], Field(max_length=64, default_factory=dict)]
    versions: Annotated[dict[_ShortText, _ShortText], Field(max_length=32, default_factory=dict)]
    packages: Annotated[dict[_ShortText, _ShortText], Field(max_length=4096, default_factory=dict)]
    profiler_found: bool = False
    other_side: Annotated[str, StringConstraints(max_length=1000)] | None = None
    planted: Annotated[float, Field(ge=0, le=10)] | None = None
    # Why there are no marks, or not all of them.
    marks_problem: _ShortText | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A complete launch: one record of every rank, in their order."""

    ranks: tuple[RankRecord, ...]

    @property
    def first(self) -> RankRecord:
        """Rank 0, which alone names packages and makes profiles."""
        return self.ranks[0]

    @property
    def slowest(self) -> RankRecord:
        """The rank whose steps took longest: the job waits for it."""
        return max(self.ranks, key=lambda one: math.fsum(one.step_ms))

    @property
    def peak_memory_bytes(self) -> int | None:
        """The fullest device of all ranks."""
        return max((peak for one in self.ranks for peak in one.peak_memory.values()), default=None)

    @property
    def other_side(self) -> str | None:
        """A module that came from the other side's folder, on whichever rank."""
        return next((one.other_side for one in self.ranks if one.other_side), None)

    @property
    def profiler_found(self) -> bool:
        """Whether a profiler of the script's own ran on any rank."""
        return any(one.profiler_found for one in self.ranks)


@dataclass(frozen=True, slots=True)
class HookProblem:
    """Why a launch measured nothing: a code with its data."""

    code: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """What a launch's folder says: one of the three."""

    recorded: Recorded | None = None
    passive: bool = False
    problem: HookProblem | None = None


# --- while the launch runs ------------------------------------------------------------------------


def is_complete(folder: Path) -> bool:
    """Whether as many ranks as the world size have written whole records."""
    found = _record_names(folder)
    if not found:
        return False
    try:
        one = _read_record(folder / next(iter(found.values())))
    except BadInputError:
        return False
    return len(found) >= one.world_size


def is_over(folder: Path) -> bool:
    """Whether nothing more is to come: it is complete, or cannot be used."""
    return is_complete(folder) or any(one.get("mark") == "problem" for one in _marks(folder))


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a launch is: optimizer steps of those asked for, and backward passes."""

    steps: int = 0
    asked: int = 0
    backwards: int = 0


def reached(folder: Path) -> Reached:
    """What the marks so far say."""
    known = {"step": 0, "steps": 0, "asked": 0, "backwards": 0}
    for mark in _marks(folder):
        for name, most in known.items():
            known[name] = max(most, _number(mark.get(name)))
    return Reached(max(known["step"], known["steps"]), known["asked"], known["backwards"])


def _record_names(folder: Path) -> dict[int, str]:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return {}
    return {int(match[1]): match[0] for match in map(_RECORD.fullmatch, names) if match}


# --- when it has ended ----------------------------------------------------------------------------


def read_folder(folder: Path) -> Said:
    """What the launch measured, or what came of it."""
    if not folder.is_dir():
        return Said(problem=HookProblem("folder_gone"))
    marks = _marks(folder)
    told = next((one for one in marks if one.get("mark") == "problem"), None)
    try:
        records = _records(folder)
    except BadInputError as error:
        return Said(problem=HookProblem("unreadable", {"error": str(error)}))
    is_whole = bool(records) and len(records) >= records[0].world_size
    if told and not (is_whole and told.get("code") == "hook_failed"):
        return Said(problem=_told(told))
    if is_whole:
        return Said(Recorded(tuple(records))) if _agree(records) else Said(problem=_DISAGREE)
    if records:
        have = sorted(one.rank for one in records)
        return Said(problem=HookProblem("ranks_missing",
                                        {"have": have, "size": records[0].world_size}))  # fmt: skip
    if any(one.get("mark") == "passive" for one in marks):
        return Said(passive=True)
    return Said(problem=_how_it_ended(marks))


_DISAGREE = HookProblem("unreadable", {"error": "its ranks do not say the same of the launch"})


def _agree(records: Sequence[RankRecord]) -> bool:
    jobs = {(one.mode, one.world_size, one.steps, one.warmup_steps) for one in records}
    return (
        len(jobs) == 1
        and [one.rank for one in records] == list(range(records[0].world_size))
        and all(len(one.step_ms) == one.steps - 1 >= one.warmup_steps for one in records)
    )


def _records(folder: Path) -> list[RankRecord]:
    """All records; two of one rank are two jobs, and the second says so itself in its marks."""
    names = _record_names(folder)
    if len(names) > MOST_RANKS:
        raise BadInputError(folder.name, found=f"{len(names)} records", expected="one a rank")
    sizes = sum((folder / name).lstat().st_size for name in names.values())
    if sizes > ALL_RECORDS_LIMIT:
        raise BadInputError(folder.name, found=f"{sizes} bytes of records",
                            expected=f"at most {ALL_RECORDS_LIMIT >> 20} MB")  # fmt: skip
    return [_read_record(folder / names[rank]) for rank in sorted(names)]


def _read_record(path: Path) -> RankRecord:
    source = f"the hook's {path.name}"
    return validate(RankRecord, parse(_bytes_of(path, RECORD_LIMIT), source), source)


def _bytes_of(path: Path, limit: int) -> bytes:
    """The bytes of a plain file: nothing that would make a reader wait, and no link elsewhere."""
    try:
        with open_plain(path) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise BadInputError(path.name, found=str(error.strerror), expected="a file") from None
    if len(data) > limit:
        raise BadInputError(path.name, found="too much", expected=f"at most {limit >> 20} MB")
    return data


def _marks(folder: Path) -> list[dict[str, Any]]:
    """The marks in the order in which they were made; lines of another kind are left out."""
    try:
        data = _bytes_of(folder / MARKS, MARKS_LIMIT)
    except BadInputError:
        return []
    found = []
    for line in data.splitlines():
        try:
            mark = parse(line, MARKS)
        except BadInputError:
            continue
        if isinstance(mark, dict):
            found.append({**mark, "pid": _number(mark.get("pid"))})
    return found


# --- what went wrong ------------------------------------------------------------------------------


def _told(mark: Mapping[str, Any]) -> HookProblem:
    """What the hook itself says, in bounds."""
    code = _text(mark.get("code"))
    data = {
        name: _number(value) if name in ("steps", "asked", "line") else _text(value)
        for name, value in mark.items()
        if name in ("steps", "asked", "mode", "owner", "other", "error", "line")
    }
    # Only the reader knows how many ranks are missing.
    is_known = code in _WORDS and code != "ranks_missing"
    return HookProblem(code if is_known else "unreadable", {"error": code, **data})


def _how_it_ended(marks: Sequence[Mapping[str, Any]]) -> HookProblem:
    """What the marks of a launch without records tell, from how far it came to how it ended."""
    of: dict[str, list[Mapping[str, Any]]] = {}
    for one in marks:
        of.setdefault(_text(one.get("mark")), []).append(one)
    ends = {one.get("pid"): one for one in of.get("exit", ())}
    asked = {"asked": _number(of["loaded"][0].get("asked")),
             "mode": _text(of["loaded"][0].get("mode"))} if "loaded" in of else {}  # fmt: skip
    if not asked:
        return HookProblem("not_loaded")
    captured = sum(_number(one.get("captured")) for one in ends.values())
    if captured:
        return HookProblem("cuda_graphs", asked)
    if "step" in of:
        return _of_a_trainer(of["step"], ends, asked)
    with_torch = {one.get("pid") for one in of.get("optimizers", ())}
    died = with_torch - ends.keys() or ({one.get("pid") for one in of["loaded"]} - ends.keys())
    failed = _failure(ends.values())
    if failed:
        return HookProblem("failed", {**asked, "steps": 0, "error": failed})
    if any(_number(one.get("backwards")) for one in ends.values()):
        return HookProblem("not_torchs_optimizer", asked)
    if died:
        return HookProblem("died", {**asked, "steps": 0, "torch": bool(with_torch)})
    return HookProblem("never_steps" if with_torch else "no_torch", asked)


def _of_a_trainer(
    steps: Iterable[Mapping[str, Any]],
    ends: Mapping[Any, Mapping[str, Any]],
    asked: Mapping[str, Any],
) -> HookProblem:
    """It took steps, and not all of them: the process that came furthest counts."""
    reached: dict[Any, int] = {}
    for one in steps:
        pid = one.get("pid")
        reached[pid] = max(reached.get(pid, 0), _number(one.get("step")))
    furthest = max(reached, key=lambda pid: reached[pid])
    end = ends.get(furthest)
    if end is None:
        return HookProblem("died", {**asked, "steps": reached[furthest], "torch": True})
    data = {**asked, "steps": _number(end.get("steps"))}
    failed = _failure([end])
    if failed:
        return HookProblem("failed", {**data, "error": failed})
    is_unseen = _number(end.get("repeats")) > max(data["steps"], LEAST_REPEATS)
    return HookProblem("same_gradients" if is_unseen else "too_few_steps", data)


def _failure(ends: Iterable[Mapping[str, Any]]) -> str:
    return next((_text(one["error"]) for one in ends if one.get("error")), "")


def _number(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if isinstance(value, int) and is_count else 0


def _text(value: object) -> str:
    return plain(value, 200) if isinstance(value, str) else ""


_WORDS = {
    "not_loaded": "the start-up hook was not loaded, so nobody counted its steps: `python -I`, "
    "`-E`, `-S` and a command that sets PYTHONPATH itself hide the hook. Leave these out, add to "
    "PYTHONPATH instead of replacing it, or put a Recorder into the script",
    "no_torch": "it imports no torch, and it wrote no measurement line: steps are counted at "
    "torch's optimizers. Put a Recorder into the script (`from ci_score.measure import Recorder`)",
    "never_steps": "it imports torch, but no optimizer took a step. Is this the command that "
    "trains? Else put a Recorder into the script",
    "not_torchs_optimizer": "it runs backward passes, but its optimizer is not one of torch's, "
    "and only theirs can be counted. Put a Recorder into the script",
    "too_few_steps": "it ended after {steps} of {asked} optimizer steps: make it train longer, or "
    "ask for fewer with {option}",
    "failed": "it failed with {error} after {steps} of {asked} optimizer steps",
    "died": "it ended without a normal exit (killed, out of memory, or os._exit) {when}",
    "owner_gone": "the owner, {owner}, stopped after {steps} of {asked} steps, and {other} goes on "
    "(a second phase?): ask for fewer steps with {option}",
    "rebuilt": "it builds its optimizer ({other}) anew while it trains, so no optimizer takes "
    "{asked} steps: ask for fewer steps with {option}, or put a Recorder into the script",
    "same_gradients": "its optimizer steps again and again with the same gradients and no new "
    "backward pass, so one step cannot be told from the next (a backward pass in a CUDA graph?): "
    "put a Recorder into the script",
    "two_jobs": "two jobs step in this command: measure one of them",
    "ranks_missing": "only {have} of {size} ranks took all their steps: every rank must train "
    "for as many steps as are asked for",
    "cuda_graphs": "it replays whole steps as CUDA graphs, which call no optimizer: put a Recorder "
    "into the script",
    "profiler_busy": "its own profiler was running when the profiled steps began, and only one "
    "can run: switch it off, or leave the profile out with --no-profile",
    "old_torch": "its torch ({error}) is older than 2.0, whose optimizers call no hook: put a "
    "Recorder into the script",
    "hook_failed": "the start-up hook failed (line {line}: {error}). This is a fault of ci-score: "
    "please report it",
    "disk_full": "what was measured cannot be written ({error}): make room on the disk",
    "folder_gone": "the folder in which the start-up hook writes is gone: let the script remove "
    "nothing but what it has made",
    "unreadable": "what the start-up hook wrote cannot be used: {error}",
}


def problem_in_words(problem: HookProblem) -> str:
    """One sentence about a launch, which says what to do."""
    data = dict(problem.data)
    option = "--settle-steps" if data.get("mode") == "settle" else "--steps"
    when = how_far(problem)
    if problem.code == "ranks_missing":
        data["have"] = len(data["have"])
    known = {"option": option, "when": when, "steps": 0, "asked": "the", "owner": "an optimizer",
             "other": "another one", "error": "", "line": 0}  # fmt: skip
    return _WORDS[problem.code].format_map({**known, **data})


def how_far(problem: HookProblem) -> str:
    """When a launch ended, as far as its marks know."""
    if steps := problem.data.get("steps"):
        return f"after at least {steps} optimizer steps"
    if problem.data.get("torch"):
        return "after it had imported torch, before any step"
    return "before it imported torch"

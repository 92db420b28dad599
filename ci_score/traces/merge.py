"""Many files, one case: the ranks of a job, several captures of the same rank, states of a run.

What is merged has to be one job: files of other machines, tools or work are refused. A merged
profile is put together from several files, so each of its numbers says whose it is.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci_score.errors import BadInputError
from ci_score.model.lists import some_of
from ci_score.model.profile import MOST_RANKS, MOST_RUNS, Phase, Profile, RankWork, RunTime
from ci_score.model.sums import plain_sum
from ci_score.traces.beside import without_tables_of_steps
from ci_score.traces.formats import can_lie_beside
from ci_score.traces.parallel import Problem
from ci_score.traces.source import ProfileSource
from ci_score.traces.states import without_older_states

# Less than this share of the step more than any other rank's work is the noise of a machine.
STRAGGLES_FROM = 0.02
# Captures of the same work start about the same number of kernels; shapes may vary a little.
MOST_APART = 1.25
# How far from the middle one a capture's time may lie. Captures of one job differ by 2 to 3 %, the
# halves of one by up to 8 % where a data loader stalls. Old captures beside a slow one would else
# be judged in its place.
FAR_APART = 0.1
NAMED_FILES = 3
NAMED_STRAYS = 5

_RANK_IN_NAME = re.compile(r"(?i)(?:^|[^a-z])rank[-_]?(\d{1,6})(?!\d)")
# `PyTorch profiler (Kineto), schema 1` and another schema are one tool, and so are two versions.
_VERSION = re.compile(r",| v?\d| \+ ")
# What is told of a file as a whole, and not a number of its step.
_NO_NUMBERS = frozenset({"rank", "ranks", "runs", "sources", "notes", "unusable", "code"})


@dataclass(frozen=True, slots=True)
class _Part:
    """A profile, and what it is called in notes: a file's name, or a rank."""

    called: str
    profile: Profile


def profile_of(
    sources: Sequence[ProfileSource],
    results: Sequence[Profile | Problem],
    named: frozenset[str] = frozenset(),
) -> Profile:
    """One profile of the files of a case.

    One profile that cannot be read fails the case. A file that is not a profile and only lies in
    the same folder is left out, with a note; not so a file that the user has `named`.
    """
    profiles: list[tuple[str, Profile]] = []
    strays: list[Problem] = []
    for source, result in zip(sources, results, strict=True):
        if isinstance(result, Profile):
            profiles.append((source.name, result))
        elif source.name not in named and can_lie_beside(source):
            strays.append(result)
        else:
            raise result.error()
    if not profiles:
        raise _nothing_left(strays)
    one = merged(profiles)
    return one.but(notes=(*one.notes, *_left_out(strays))) if strays else one


def _left_out(strays: Sequence[Problem]) -> Iterable[str]:
    """A note a file; where there are many, a note a kind."""
    if len(strays) <= NAMED_STRAYS:
        yield from (f"{stray.source} was left out: {stray.found}." for stray in strays)
        return
    kinds: dict[str, list[str]] = {}
    for stray in strays:
        kinds.setdefault(stray.found, []).append(stray.source)
    for found, names in kinds.items():
        yield f"{len(names)} files were left out ({found}): {_listed(names)}."


def _nothing_left(strays: list[Problem]) -> BadInputError:
    if len(strays) == 1:
        return strays[0].error()
    listed = "; ".join(f"{stray.source} is {stray.found}" for stray in strays[:NAMED_STRAYS])
    expected = {stray.expected for stray in strays}
    return BadInputError(
        "profiles",
        found=f"{len(strays)} files and no profile ({listed})",
        expected=expected.pop()
        if len(expected) == 1
        else "a profile that `ci-score formats` lists",
    )


def merged(files: Sequence[tuple[str, Profile]]) -> Profile:
    """One profile of all files of a case (at least one), each with its name.

    Files of different ranks are one job, whose step is its slowest rank's. Files of the same rank,
    or of none, are captures of the same work, whose step is their mean. Of a trainer's states of
    one run the newest serves.
    """
    files, older = without_older_states(files)
    files, tables = without_tables_of_steps(files)
    usable = [(name, profile) for name, profile in files if profile.unusable is None]
    if not usable:
        return files[0][1]
    left_out = tuple(
        f"{name} was left out: {profile.unusable}" for name, profile in files if profile.unusable
    )
    _refuse_other_jobs(usable)
    by_rank: dict[int | None, list[_Part]] = {}
    for name, profile in usable:
        by_rank.setdefault(_rank(name, profile), []).append(_Part(name, profile))
    ranks = {rank: _of_captures(captures) for rank, captures in by_rank.items()}
    one = _of_ranks(ranks) if len(ranks) > 1 else next(iter(ranks.values()))
    if not (older or tables or left_out):
        return one
    return one.model_copy(update={"notes": (*one.notes, *older, *tables, *left_out)})


def _rank(name: str, profile: Profile) -> int | None:
    if profile.rank is not None:
        return profile.rank
    found = _RANK_IN_NAME.search(name)
    return int(found[1]) if found else None


# --- one job ------------------------------------------------------------------------------------


def _refuse_other_jobs(files: Sequence[tuple[str, Profile]]) -> None:
    """The median of two jobs is no number of either, and a rank of another job is no straggler."""
    for what, told in _TOLD_OF_A_JOB:
        _refuse_unlike(what, [(name, told(profile)) for name, profile in files])
    ranks = [(name, _rank(name, profile)) for name, profile in files]
    if any(rank is not None for _, rank in ranks):
        known = [(name, "unknown" if rank is None else "known") for name, rank in ranks]
        _refuse_unlike("rank", known)
    captures: dict[int | None, list[tuple[str, Profile]]] = {}
    for (name, profile), (_, rank) in zip(files, ranks, strict=True):
        captures.setdefault(rank, []).append((name, profile))
    for of_a_rank in captures.values():
        _refuse_other_work(of_a_rank)


def _device(profile: Profile) -> str:
    on_a_device = profile.device_busy_ms is not None or profile.device_kernels_per_step is not None
    return "kernels of a device" if on_a_device else "no kernels (a CPU's, or without a trace)"


def _tool(profile: Profile) -> str | None:
    return _VERSION.split(profile.tool, maxsplit=1)[0] if profile.tool else None


def _world(profile: Profile) -> str | None:
    return str(profile.world_size) if profile.world_size is not None else None


_TOLD_OF_A_JOB: tuple[tuple[str, Callable[[Profile], str | None]], ...] = (
    ("accelerator", lambda profile: profile.accelerator),
    ("world size", _world),
    ("device", _device),
    ("tool", _tool),
)


def _refuse_other_work(captures: Sequence[tuple[str, Profile]]) -> None:
    """Captures of one rank are samples of one number only where they did the same."""
    counts = [str(p.accelerator_count) if p.accelerator_count else None for _, p in captures]
    names = [name for name, _ in captures]
    _refuse_unlike("number of devices", list(zip(names, counts, strict=True)))
    kernels = [
        (name, profile.device_kernels_per_step)
        for name, profile in captures
        if profile.device_kernels_per_step
    ]
    few = min((count for _, count in kernels), default=0.0)
    if any(count > few * MOST_APART for _, count in kernels):
        shown = [(name, f"{count:.0f}") for name, count in kernels]
        _refuse_unlike("kernels a step", shown)


def _refuse_unlike(what: str, told: Sequence[tuple[str, str | None]]) -> None:
    """What is not known agrees with everything."""
    files_of: dict[str, list[str]] = {}
    for name, value in told:
        if value is not None:
            files_of.setdefault(value, []).append(name)
    if len(files_of) < 2:
        return
    groups = "; ".join(f"{value}: {_listed(names)}" for value, names in files_of.items())
    first = next(iter(files_of.values()))[0]
    raise BadInputError(
        f"{len(told)} files",
        found=f"more than one job ({what}: {groups})",
        expected=(
            "the ranks or captures of one job; a case each is named as in `name=glob`"
            f" (`first-job={first}`), or is a folder of its own"
        ),
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_FILES} more" if len(names) > NAMED_FILES else ""
    return ", ".join(names[:NAMED_FILES]) + more


# --- captures of the same work ------------------------------------------------------------------


def _of_captures(captures: list[_Part]) -> Profile:
    """The capture in the middle, with the mean and the steps of all of them."""
    if len(captures) == 1:
        return captures[0].profile
    profiles = [part.profile for part in captures]
    _refuse_far_apart(captures)
    ordered = sorted(captures, key=lambda part: part.profile.avg_step_ms)
    steps = [part.profile.avg_step_ms for part in ordered]
    count = len(captures)
    own: dict[str, tuple[Any, str]] = {
        "avg_step_ms": (plain_sum(steps) / count, f"mean of {count} captures"),
        "throughput_tok_s": _mean_throughput(profiles),
        "steps": (sum(profile.steps for profile in profiles), f"of {count} captures together"),
        "step_times_ms": (
            tuple(time for profile in profiles for time in profile.step_times_ms),
            f"of {count} captures, one after the other",
        ),
        "runs": (_runs_of(profiles), ""),
        **_of_all(captures),
    }
    notes = (f"{count} captures: {_span(steps)} a step.",)
    return _put_together(ordered[count // 2], captures, own, notes)


def _runs_of(profiles: Sequence[Profile]) -> tuple[RunTime, ...]:
    """A trainer's log is a run; what a profiler captured may be parts of one."""
    if any(profile.timed_by != "the trainer's log" for profile in profiles):
        return ()
    runs = [run for profile in profiles for run in profile.runs or (_run_of(profile),)]
    return tuple(runs[:MOST_RUNS])


def _run_of(profile: Profile) -> RunTime:
    return RunTime(
        steps=profile.steps,
        step_ms=profile.avg_step_ms,
        throughput_tok_s=profile.throughput_tok_s,
        peak_memory_gb=profile.peak_memory_gb,
    )


def _mean_throughput(profiles: Sequence[Profile]) -> tuple[float | None, str]:
    """That of all captures together, where each says its own: the mean of the times of a token."""
    rates = [profile.throughput_tok_s for profile in profiles if profile.throughput_tok_s]
    if len(rates) < len(profiles):
        return None, ""
    return len(rates) / plain_sum(1 / rate for rate in rates), f"mean of {len(rates)} captures"


def _refuse_far_apart(captures: Sequence[_Part]) -> None:
    """Captures whose times are not alike are of different work, whatever else they share."""
    rates = [(part.called, part.profile.throughput_tok_s) for part in captures]
    _refuse_far("ms a step", [(part.called, part.profile.avg_step_ms) for part in captures])
    _refuse_far("tok/s", [(name, rate) for name, rate in rates if rate])


def _refuse_far(unit: str, told: Sequence[tuple[str, float]]) -> None:
    middle = statistics.median_low([value for _, value in told] or [0.0])
    if all(abs(value - middle) <= FAR_APART * middle for _, value in told):
        return
    furthest = sorted(told, key=lambda row: -abs(row[1] - middle))
    listed = some_of([f"{name} {value:.4g}" for name, value in furthest])
    raise BadInputError(
        f"{len(told)} captures",
        found=f"times that are too far apart for the same work ({unit}: {listed})",
        expected=f"captures within {FAR_APART:.0%} of the middle one ({middle:.4g} {unit}):"
        " leave only those of this run, or name a case each, as in `name=glob`",
    )


# --- ranks of a job -----------------------------------------------------------------------------


def _of_ranks(ranks: Mapping[int | None, Profile]) -> Profile:
    """The slowest rank's step, and the work of the straggler where there is one.

    In synchronous training the slowest step is often that of the rank that waits; the one that
    makes the others wait has the most time outside exposed communication.
    """
    parts = [_Part(f"rank {rank}", profile) for rank, profile in ranks.items()]
    slowest = max(parts, key=lambda part: part.profile.avg_step_ms)
    straggler = _straggler(parts)
    steps = [part.profile.avg_step_ms for part in parts]
    world = max((part.profile.world_size or 0 for part in parts), default=0)
    count = len(parts)
    own: dict[str, tuple[Any, str]] = {
        "avg_step_ms": (
            slowest.profile.avg_step_ms,
            f"the slowest of {count} ranks ({slowest.called})",
        ),
        "step_times_ms": (slowest.profile.step_times_ms, slowest.called),
        "steps": (min(part.profile.steps for part in parts), f"the fewest of {count} ranks"),
        "accelerator_count": (
            world or count,
            "world size, one device a rank" if world else f"{count} ranks, one device each",
        ),
        "ranks": (_works_of(ranks), ""),
        **_of_all(parts),
    }
    notes = (
        f"{count} ranks: {_span(steps)} a step.",
        _straggler_note(parts, straggler),
        *([f"The job has {world} ranks, files of {count} are here."] if world > count else ()),
    )
    one = _put_together(straggler or slowest, parts, own, notes)
    sources = {field: told for field, told in one.sources.items() if field != "rank"}
    return one.model_copy(update={"rank": None, "sources": sources})


def _works_of(ranks: Mapping[int | None, Profile]) -> tuple[RankWork, ...]:
    """What each rank did, in the order of their numbers; of very many the slowest."""
    works = [
        RankWork(
            rank=rank,
            step_ms=profile.avg_step_ms,
            own_ms=_own_ms(profile) if profile.exposed_communication_ms is not None else None,
            busy_ms=profile.device_busy_ms,
            compute_ms=profile.compute_ms,
            exposed_communication_ms=profile.exposed_communication_ms,
            peak_memory_gb=profile.peak_memory_gb,
        )
        for rank, profile in ranks.items()
        if rank is not None
    ]
    kept = sorted(works, key=lambda work: -work.step_ms)[:MOST_RANKS]
    return tuple(sorted(kept, key=lambda work: work.rank))


def _own_ms(profile: Profile) -> float:
    """The part of a rank's step that it does not spend waiting for others."""
    return max(profile.avg_step_ms - (profile.exposed_communication_ms or 0.0), 0.0)


def _work_ms(part: _Part) -> float:
    """What a rank does itself: its kernels without communication, where they are known.

    The time outside of exposed communication holds the waiting for the host, too.
    """
    compute = part.profile.compute_ms
    return _own_ms(part.profile) if compute is None else compute


def _straggler(parts: list[_Part]) -> _Part | None:
    """The rank that the others wait for, where one stands out from them."""
    if any(part.profile.exposed_communication_ms is None for part in parts):
        return None
    most = max(parts, key=_work_ms)
    margin = _work_ms(most) - _most_of_others(most, parts)
    step = max(part.profile.avg_step_ms for part in parts)
    return most if margin >= STRAGGLES_FROM * step and margin > 0 else None


def _most_of_others(one: _Part, parts: list[_Part]) -> float:
    return max(_work_ms(part) for part in parts if part is not one)


def _straggler_note(parts: list[_Part], straggler: _Part | None) -> str:
    if straggler is not None:
        return (
            f"The straggler is {straggler.called}: without communication its step takes"
            f" {_work_ms(straggler):.1f} ms, the others' at most"
            f" {_most_of_others(straggler, parts):.1f} ms."
        )
    if any(part.profile.exposed_communication_ms is None for part in parts):
        return "Not every rank tells its exposed communication, so which one straggles is unknown."
    own = list(map(_work_ms, parts))
    return (
        "No rank is clearly the straggler: without communication their steps take"
        f" {min(own):.1f} to {max(own):.1f} ms, and the longest is less than {STRAGGLES_FROM:.0%}"
        " of the step above the next."
    )


# --- putting together ---------------------------------------------------------------------------


def _of_all(parts: list[_Part]) -> dict[str, tuple[Any, str]]:
    """What is not one file's: the largest memory, tokens on which all agree.

    A sum of tokens would be a guess about how the work is shared.
    """
    tokens = {
        part.profile.tokens_per_step for part in parts if part.profile.tokens_per_step is not None
    }
    agreed = tokens.pop() if len(tokens) == 1 else None
    told = (part.profile.sources.get("tokens_per_step") for part in parts)
    fullest = max(parts, key=lambda part: part.profile.peak_memory_gb or 0.0)
    peak_ops = _told_by([part for part in parts if part.profile.peak_ops], fullest)
    code = _told_by([part for part in parts if part.profile.code])
    return {
        "code": (code.profile.code if code else None, ""),
        "peak_ops": (
            peak_ops.profile.peak_ops if peak_ops else {},
            peak_ops.called if peak_ops else "",
        ),
        "tokens_per_step": (agreed, next(filter(None, told), "") if agreed is not None else ""),
        "peak_memory_gb": (fullest.profile.peak_memory_gb, f"the largest, {fullest.called}"),
    }


def _told_by(parts: list[_Part], first: _Part | None = None) -> _Part | None:
    """Of those that tell something the one that is named, else rank 0; or the only one."""
    if first in parts:
        return first
    return next((part for part in parts if part.profile.rank == 0), parts[0] if parts else None)


def _put_together(
    shown: _Part, parts: list[_Part], own: Mapping[str, tuple[Any, str]], notes: tuple[str, ...]
) -> Profile:
    """One part's profile with some fields of its own, and with the source of every other."""
    profile = shown.profile
    sources = dict(profile.sources)
    for field in Profile.model_fields.keys() - own.keys() - _NO_NUMBERS:
        value = getattr(profile, field)
        if value and any(getattr(part.profile, field) != value for part in parts):
            told = profile.sources.get(field)
            sources[field] = f"{shown.called}: {told}" if told else shown.called
    for field, (value, told) in own.items():
        sources[field] = told
        if not value or not told:
            del sources[field]
    update = {field: value for field, (value, _) in own.items()}
    return profile.model_copy(
        update={
            **update,
            "phases": _shares_of(update["avg_step_ms"], profile),
            "sources": {field: sources[field] for field in sorted(sources)},
            "notes": (*_notes_of_each(parts), *notes),
        }
    )


def _shares_of(step_ms: float, profile: Profile) -> dict[str, Phase]:
    """The phases with their shares of the step that is shown, where it is another file's."""
    if step_ms <= 0 or step_ms == profile.avg_step_ms:
        return profile.phases
    scale = profile.avg_step_ms / step_ms
    return {
        name: phase.model_copy(update={"pct": phase.pct * scale})
        for name, phase in profile.phases.items()
    }


def _notes_of_each(parts: list[_Part]) -> Iterable[str]:
    """Each note once; one that is not of all names whose it is."""
    about: dict[str, list[str]] = {}
    for part in parts:
        for note in dict.fromkeys(part.profile.notes):
            about.setdefault(note, []).append(part.called)
    for note, called in about.items():
        yield note if len(called) == len(parts) else f"{_listed(called)}: {note}"


def _span(times: list[float]) -> str:
    low, high = min(times), max(times)
    spread = f", spread {(high - low) / low:.0%}" if low > 0 else ""
    return f"{low:.1f} to {high:.1f} ms{spread}"

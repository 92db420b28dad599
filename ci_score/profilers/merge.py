"""Many files, one case: the ranks of a job, and several captures of the same rank."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence

from ci_score.models import Profile

_RANK_IN_NAME = re.compile(r"(?i)(?:^|[^a-z])rank[-_]?(\d{1,6})(?!\d)")


def merged(files: Sequence[tuple[str, Profile]]) -> Profile:
    """One profile of all files of a case, each with its name.

    Files of different ranks are one job, whose step is its slowest rank's. Files of the same rank,
    or of none, are captures of the same work, whose step is their median.
    """
    usable = [(name, profile) for name, profile in files if profile.unusable is None]
    if not usable:
        return files[0][1]
    left_out = tuple(
        f"{name} was left out: {profile.unusable}" for name, profile in files if profile.unusable
    )
    by_rank: dict[int | None, list[Profile]] = {}
    for name, profile in usable:
        by_rank.setdefault(_rank(name, profile), []).append(profile)
    ranks = {rank: _of_captures(captures) for rank, captures in by_rank.items()}
    one = _of_ranks(ranks) if len(ranks) > 1 else next(iter(ranks.values()))
    return one.model_copy(update={"notes": (*one.notes, *left_out)}) if left_out else one


def _rank(name: str, profile: Profile) -> int | None:
    if profile.rank is not None:
        return profile.rank
    found = _RANK_IN_NAME.search(name)
    return int(found[1]) if found else None


# --- captures of the same work ------------------------------------------------------------------


def _of_captures(captures: list[Profile]) -> Profile:
    """The capture in the middle, with the steps of all of them."""
    if len(captures) == 1:
        return captures[0]
    ordered = sorted(captures, key=lambda profile: profile.avg_step_ms)
    middle = ordered[len(ordered) // 2]
    steps = [profile.avg_step_ms for profile in ordered]
    times = tuple(time for profile in captures for time in profile.step_times_ms)
    return middle.model_copy(
        update={
            "avg_step_ms": statistics.median(steps),
            "steps": sum(profile.steps for profile in captures),
            "step_times_ms": times,
            "sources": {
                **middle.sources,
                "avg_step_ms": f"median of {len(captures)} captures; the rest: the middle one",
            },
            "notes": (
                *_shared_notes(captures),
                f"{len(captures)} captures: {_span(steps)} a step.",
            ),
        }
    )


# --- ranks of a job -----------------------------------------------------------------------------


def _of_ranks(ranks: dict[int | None, Profile]) -> Profile:
    """The slowest rank's step, the straggler's work.

    In synchronous training the slowest step is often that of the rank that waits; the one that
    makes the others wait has the most time outside exposed communication.
    """
    slowest = max(ranks, key=lambda rank: ranks[rank].avg_step_ms)
    straggler = max(ranks, key=lambda rank: _own_ms(ranks[rank]))
    told = ranks[straggler]
    steps = [profile.avg_step_ms for profile in ranks.values()]
    world = max((profile.world_size or 0 for profile in ranks.values()), default=0)
    return told.model_copy(
        update={
            "avg_step_ms": ranks[slowest].avg_step_ms,
            "steps": min(profile.steps for profile in ranks.values()),
            "step_times_ms": ranks[slowest].step_times_ms,
            "rank": None,
            "world_size": world or None,
            "accelerator_count": _devices(ranks, world),
            "tokens_per_step": _one_value(profile.tokens_per_step for profile in ranks.values()),
            "peak_memory_gb": max(
                (profile.peak_memory_gb for profile in ranks.values() if profile.peak_memory_gb),
                default=None,
            ),
            "sources": {
                **told.sources,
                "avg_step_ms": f"the slowest of {len(ranks)} ranks ({_called(slowest)})",
                "phases": f"{_called(straggler)}, which has the most work of its own",
            },
            "notes": (*_shared_notes(ranks.values()), *_rank_notes(ranks, straggler, world, steps)),
        }
    )


def _own_ms(profile: Profile) -> float:
    """The part of a rank's step that it does not spend waiting for others."""
    return max(profile.avg_step_ms - (profile.exposed_communication_ms or 0.0), 0.0)


def _devices(ranks: dict[int | None, Profile], world: int) -> int:
    """A rank has one device; a job may have more ranks than files."""
    return world or len(ranks)


def _rank_notes(
    ranks: dict[int | None, Profile], straggler: int | None, world: int, steps: list[float]
) -> Iterable[str]:
    yield f"{len(ranks)} ranks: {_span(steps)} a step."
    yield (
        f"The straggler by its own work is {_called(straggler)}:"
        f" {_own_ms(ranks[straggler]):.1f} ms outside exposed communication."
    )
    if world > len(ranks):
        yield f"The job has {world} ranks, files of {len(ranks)} are here."
    names = {profile.accelerator for profile in ranks.values() if profile.accelerator}
    if len(names) > 1:
        yield f"The ranks ran on different accelerators: {', '.join(sorted(names))}."


def _called(rank: int | None) -> str:
    return "a rank without a number" if rank is None else f"rank {rank}"


def _span(times: list[float]) -> str:
    low, high = min(times), max(times)
    spread = f", spread {(high - low) / low:.0%}" if low > 0 else ""
    return f"{low:.1f} to {high:.1f} ms{spread}"


def _one_value(values: Iterable[float | None]) -> float | None:
    """A value that all agree on; a sum would be a guess about how the work is shared."""
    known = {value for value in values if value is not None}
    return known.pop() if len(known) == 1 else None


def _shared_notes(profiles: Iterable[Profile]) -> list[str]:
    """Each note once."""
    return list(dict.fromkeys(note for profile in profiles for note in profile.notes))

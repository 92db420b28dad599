"""What is worth knowing of launches that count, and whether they have changed each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ci_score.launches import Launch, by_side
from ci_score.measure.launch.launching import Done
from ci_score.measure.session.session import THROTTLED, Plan, Session
from ci_score.measure.sides.leftovers import files_in_words
from ci_score.model.counted_step import passes_differ
from ci_score.model.lists import plural
from ci_score.model.values import Side

# Losses this near are the same: a device may add in another order.
SAME_LOSS = 1e-3
# So many launches that each begin where the last one ended are hardly chance.
LAUNCHES_IN_A_ROW = 4


def known_before(session: Session) -> Iterator[str]:
    """What the untimed launches already show: other work, and slow steps outside the window."""
    for side, one in session.settled.items():
        if not session.holds(side):
            yield (
                f"slow steps{session.of_side(side)} recur, and {session.timed_steps} timed steps do"
                " not hold them in proportion, so nothing can be ruled out; time more with --steps"
                f" {one.slow.needed}"
            )
    if set(session.settled) == {"base", "head"}:
        yield from _other_work(session)


def _other_work(session: Session) -> Iterator[str]:
    """How the sides differ in their work, and the policy key that allows it."""
    base, head = session.settled["base"], session.settled["head"]
    plan = session.plan
    told = base.tokens_per_step, head.tokens_per_step
    there, here = base.first_loss, head.first_loss
    before, now = base.step, head.step
    if before and now and before.name != now.name:
        words = f"a step of base ends with {before.name}, one of head with {now.name}"
        yield words if now.is_change_of(before) else _meant(plan, "optimizer_steps", words)
    if all(told) and told[0] != told[1]:
        words = f"a step has {told[0]:.6g} tokens in base and {told[1]:.6g} in head"
        yield _meant(plan, "tokens_per_step", words)
    passes = base.backward_passes, head.backward_passes
    if passes_differ(*passes):
        words = f"backward passes a step: {passes[0]:.3g} in base and {passes[1]:.3g} in head"
        yield _meant(plan, "backward_passes", words)
    if there is None or here is None:
        return
    if not math.isclose(there, here, rel_tol=plan.loss_tolerance):
        words = f"the first loss is {there:.4g} in base and {here:.4g} in head"
        yield _meant(plan, "final_loss", words, ", or raise `loss_tolerance`")


def _meant(plan: Plan, key: str, words: str, more: str = "") -> str:
    """A sign of other work, and what to do if it is intended."""
    if key not in plan.same_work:
        return words
    return (
        f"{words}: that may be other work, which cannot pass. If it is intended, remove {key} from"
        f" `same_work`{more} in the base's policy"
    )


def drifts(session: Session) -> Iterator[str]:
    """The sides whose steps were still drifting while they were timed."""
    for own in by_side(one for pair in session.pairs for one in pair).values():
        if own.drift:
            yield f"{own.drift}; --warmup-steps leaves them out"


def notes_on(done: Done, session: Session) -> Iterator[tuple[str, str]]:
    """What is worth a note: a name for it, and its words."""
    if count := done.outlived_by:
        yield "outlived", f"{plural(count, 'process')} outlived the launch, and had to be ended"
    if THROTTLED in done.launch.disturbances:
        how = done.launch.disturbances[THROTTLED]
        yield "throttled", f"throttled ({how}); it counts as it is"
    if done.told is not None and done.told.profiler_found:
        yield "profiler", "a profiler of the script's own ran in it, and its time counts"
    before = session.settled.get(done.order.side)
    if before is None or not before.files:
        return
    first, then = before.first_loss, done.launch.first_loss
    if first is not None and then is not None and not alike(first, then):
        words = f"its first loss is {then:.4g}, that of the untimed launch was {first:.4g}"
        advice = f"if it resumes from {files_in_words(before.files)}, write to {{out}}"
        yield "first loss", f"{words}; {advice}"


def resumes(session: Session) -> str:
    """Why each launch of a side seems to go on where the last one ended; empty if none does.

    A script that resumes begins each launch with the loss at which the one before it has ended.
    Other seeds alone make other losses, too, but not in that order.
    """
    for side, before in session.settled.items():
        if before.files and before.first_loss is not None and before.final_loss is not None:
            own = [(before.first_loss, before.final_loss), *_losses(session, side)]
            if _goes_on(own[:LAUNCHES_IN_A_ROW]):
                return (
                    f"each launch{session.of_side(side)} begins with the loss at which the one"
                    " before it has ended: it seems to resume from"
                    f" {files_in_words(before.files)}; write to {{out}}, which is fresh for each"
                    " launch"
                )
    return ""


def _losses(session: Session, side: Side) -> list[tuple[float, float]]:
    launches = [one for one in session.launches if one.side == side]
    return [
        (one.first_loss, one.final_loss)
        for one in sorted(launches, key=_order)
        if one.first_loss is not None and one.final_loss is not None
    ]


def _order(launch: Launch) -> int:
    return launch.order


def _goes_on(losses: Sequence[tuple[float, float]]) -> bool:
    """Whether each begins with another loss, in one direction, nearest to where the last ended."""
    firsts = [first for first, _ in losses]
    steps = [later - earlier for earlier, later in pairwise(firsts)]
    return (
        len(losses) == LAUNCHES_IN_A_ROW
        and not any(alike(earlier, later) for earlier, later in pairwise(firsts))
        and len({step > 0 for step in steps}) == 1
        and all(
            abs(then - ended) < abs(then - first) for (first, ended), (then, _) in pairwise(losses)
        )
    )


def alike(one: float, other: float) -> bool:
    """Whether two losses are the same."""
    return math.isclose(one, other, rel_tol=SAME_LOSS)

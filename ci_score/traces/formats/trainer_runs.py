"""Which steps of a Hugging Face Trainer its seconds are of: those of a run, or of its last part.

`train_runtime` counts from the start of one call of `train()`. The entry that ends a run always has
it. Where tokens are counted, newer versions of transformers (4.57 and 5) write it into every entry,
so that it rises with the steps of one run. A resumed run starts its seconds anew while its steps go
on, so its seconds are divided by its own steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from ci_score.model.values import Count, Lax, NotNegative, Value

# The trainer rounds its rates to three digits, and its seconds and losses to four.
RATE_ROUNDING, ROUNDING = 0.0005, 0.00005
# Numbers of steps that are this close to each other are the same.
CLOSE = 0.005


class Logged(Value):
    """One entry of the log: of some steps, of an evaluation, or of the whole run at its end."""

    step: Count | None = None
    step_time: NotNegative | None = None
    train_runtime: NotNegative | None = None
    train_steps_per_second: NotNegative | None = None
    train_tokens_per_second: NotNegative | None = None
    num_input_tokens_seen: NotNegative | None = None
    loss: float | None = None
    train_loss: float | None = None
    eval_runtime: NotNegative | None = None

    @property
    def seconds(self) -> float:
        """The seconds since `train()` was called; 0 where the entry does not say."""
        return self.train_runtime or 0.0

    @property
    def tokens_before(self) -> float:
        """The tokens seen before this call of `train()`, by the rate of those seen since then.

        The entry at its end may have a rate of the tokens that were planned.
        """
        seen, rate = self.num_input_tokens_seen or 0.0, self.train_tokens_per_second or 0.0
        is_end = self.train_steps_per_second is not None
        return 0.0 if is_end or not self.counts_fewer(rate, seen) else seen - rate * self.seconds

    def rounding(self, rate: float) -> float:
        """How far off a count may be that follows from a rate and the seconds."""
        return RATE_ROUNDING * self.seconds + ROUNDING * rate

    def counts_fewer(self, rate: float | None, than: float | None) -> bool:
        """Whether a rate of the run's own counts clearly fewer than all."""
        if not rate or not than:
            return False
        return rate * self.seconds + self.rounding(rate) < than * (1 - CLOSE)


class TrainerState(Value):
    """What the trainer saves beside a checkpoint."""

    global_step: Count
    max_steps: int = 0
    num_input_tokens_seen: NotNegative = 0.0
    total_flos: NotNegative = 0.0
    log_history: Annotated[tuple[Logged, ...], Lax]

    def step_of(self, entry: Logged) -> int:
        """The step at which it was written."""
        return self.global_step if entry.step is None else min(entry.step, self.global_step)


@dataclass(frozen=True, slots=True)
class Run:
    """The steps that the trainer timed: of the whole run, or of its last part since a resume.

    Where `resumed` comes without steps, the log does not tell which steps the seconds are of.
    """

    begin: int = 0
    end: int = 0
    seconds: float = 0.0
    told_by: str = ""
    tokens_per_step: float | None = None
    tokens_told_by: str = ""
    resumed: bool = False

    @property
    def steps(self) -> int:
        """How many they are."""
        return self.end - self.begin


def run_of(state: TrainerState) -> Run:
    """The steps of the last call of `train()`, with its seconds and tokens."""
    timed = [entry for entry in state.log_history if entry.seconds]
    own = _since_it_restarted(state, timed)
    if own and (len(own) < len(timed) or own[0].tokens_before > 0):
        return _by_rate(state, own) or _by_two_entries(state, own) or Run(resumed=True)
    if own and _counts_other_steps(state, own[-1]):
        return _by_rate(state, own) or Run(resumed=True)
    end = state.step_of(own[-1]) if own else 0
    tokens = state.num_input_tokens_seen / state.global_step if state.global_step else 0.0
    which = "global_step" if end == state.global_step else "step"
    return Run(
        end=end,
        seconds=own[-1].seconds if own else 0.0,
        told_by=f"train_runtime ÷ {which} ({end})",
        tokens_per_step=tokens or None,
        tokens_told_by="num_input_tokens_seen ÷ global_step",
    )


def _since_it_restarted(state: TrainerState, timed: Sequence[Logged]) -> Sequence[Logged]:
    """The entries of the last call of `train()`, in which the seconds rise with the steps.

    They need not fall where a run was resumed, as the part before may have taken fewer: a rate of
    tokens tells that, too.
    """
    begin = 0
    for place, (before, after) in enumerate(pairwise(timed), start=1):
        fell = after.seconds < before.seconds or state.step_of(after) < state.step_of(before)
        more = after.tokens_before - before.tokens_before
        if fell or more > CLOSE * (after.num_input_tokens_seen or 0.0):
            begin = place
    return timed[begin:]


def _counts_other_steps(state: TrainerState, last: Logged) -> bool:
    """Whether the run's own rate or its loss is of fewer steps than the state counts."""
    return last.counts_fewer(last.train_steps_per_second, state.step_of(last)) or _loss_is_of_fewer(
        state, last
    )


def _loss_is_of_fewer(state: TrainerState, last: Logged) -> bool:
    """Whether the losses that were logged add up to more than that of the run.

    transformers 4.57 and 5.0 divide the loss since the resume by the steps of all parts, and their
    rates are those of all steps, too: without tokens nothing else tells a resumed run.
    """
    total, step = 0.0, 0
    for entry in state.log_history:
        if entry.loss is not None:
            if entry.loss < 0:
                return False
            total += entry.loss * max(state.step_of(entry) - step, 0)
            step = state.step_of(entry)
    of_run = (last.train_loss or 0.0) * state.step_of(last)
    return 0 < of_run < total * (1 - CLOSE) - ROUNDING * step


def _by_rate(state: TrainerState, own: Sequence[Logged]) -> Run | None:
    """The steps since the resume by the run's own rate, where that is told closely enough."""
    last = own[-1]
    end, rate = state.step_of(last), last.train_steps_per_second or 0.0
    steps = round(rate * last.seconds)
    is_close = last.rounding(rate) < max(0.5, CLOSE * steps)
    if not (steps and is_close and last.counts_fewer(rate, end)):
        return None
    return _resumed(state, own, end - steps, last.seconds)


def _by_two_entries(state: TrainerState, own: Sequence[Logged]) -> Run | None:
    """The steps between two entries since the resume: which step that was need not be known."""
    first, last = own[0], own[-1]
    begin, seconds = state.step_of(first), last.seconds - first.seconds
    if begin >= state.step_of(last) or seconds <= 0:
        return None
    return _resumed(state, own, begin, seconds)


def _resumed(state: TrainerState, own: Sequence[Logged], begin: int, seconds: float) -> Run:
    end = state.step_of(own[-1])
    return Run(
        begin=begin,
        end=end,
        seconds=seconds,
        told_by=f"train_runtime of steps {begin + 1} to {end}, since the run was resumed",
        tokens_per_step=_tokens_per_step(state, own),
        tokens_told_by="num_input_tokens_seen since the run was resumed",
        resumed=True,
    )


def _tokens_per_step(state: TrainerState, own: Sequence[Logged]) -> float | None:
    """By the first and the last of these entries that count tokens."""
    counts = [
        (state.step_of(entry), entry.num_input_tokens_seen)
        for entry in own
        if entry.num_input_tokens_seen is not None
    ]
    if not counts or counts[0][0] >= counts[-1][0]:
        return None
    (step, seen), (last_step, last_seen) = counts[0], counts[-1]
    return max(last_seen - seen, 0.0) / (last_step - step) or None

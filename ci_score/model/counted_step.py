"""What a step of a launch is, where the start-up hook of `ci-score ab` counts the steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ci_score.model.values import Count, Milliseconds, NotNegative, ShortText, Value

Share = Annotated[float, Field(ge=0, le=1)]
# A step that takes less than this share of the mean is short.
SHORT = 1 / 3
# Windows of other lengths may end before or behind a pass that comes every few steps.
SAME_PASSES = 0.05


def passes_differ(one: float, other: float) -> bool:
    """Whether two numbers of backward passes a step are those of other work."""
    return abs(one - other) > SAME_PASSES * min(one, other)


def optimizer_in_words(name: str, parameters: int) -> str:
    """An optimizer by its class and size: `AdamW (8,320 parameters)`."""
    return f"{name} ({parameters:,} parameters)"


class CountedStep(Value):
    """Each step of `optimizer` ends one; it is `alone` where no other optimizer stepped.

    The numbers are of the timed steps: how many `backward_passes` one takes, and which share of
    them a GradScaler has `skipped` or was `short`. Slow steps that recur beyond the timed ones, as
    the untimed launch shows, would make each of them `left_out_ms` longer.
    """

    optimizer: ShortText
    parameters: Count
    alone: bool = True
    backward_passes: NotNegative
    skipped: Share = 0.0
    short: Share = 0.0
    left_out_ms: Milliseconds = 0.0

    def is_change_of(self, base: CountedStep) -> bool:
        """Whether it is the base's optimizer, or a change that somebody makes of it.

        Where each side has one alone, a wider model has another size, and a pull request may take
        another class. One of another class and size is another thing.
        """
        same = self.optimizer == base.optimizer, self.parameters == base.parameters
        return all(same) or (any(same) and self.alone and base.alone)

    @property
    def name(self) -> str:
        """The optimizer, in words."""
        return optimizer_in_words(self.optimizer, self.parameters)

"""The search for the commit of a range: what it asks to be launched, and what it finds.

Commits are places in the range's first-parent line: 0 is GOOD, and the last one is BAD.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from ci_score.model.values import Count, Lax, NotNegative, Value


class AskedFor(StrEnum):
    """What a pair of launches is for."""

    ENDS = "ends"
    PROBE = "probe"
    CONFIRMATION = "confirmation"


class Ask(Value):
    """Two commits to launch one after the other, in this order.

    `commit` is the one of them that the pair is about: the later one, or the one that is probed.
    """

    first: Count
    second: Count
    commit: Count
    why: AskedFor


class Effect(Value):
    """How much slower, as a share of the time, with its 95 % interval; faster is below 0."""

    share: float
    low: float
    high: float


class Ended(StrEnum):
    """How a search ended."""

    FOUND = "found"
    # The slowdown lies in one of several commits, as those before the last do not run.
    FOUND_SET = "found_set"
    # Each answer was held against its parent, and none was confirmed.
    NOT_CONFIRMED = "not_confirmed"
    NO_DIFFERENCE = "no_difference"
    GOOD_IS_SLOWER = "good_is_slower"
    # The noise hides anything below `smallest`.
    CANNOT_TELL = "cannot_tell"
    # There are several changes. A commit that is named has less than half of the range's slowdown.
    SEVERAL = "several"
    LIMIT = "limit"
    END_DOES_NOT_RUN = "end_does_not_run"


class Probed(Value):
    """A commit that was launched beside others: how much slower than GOOD, and its launches."""

    commit: Count
    slower: Effect
    launches: Count


class Finding(Value):
    """How a search ended, with what it knows.

    `commits` are those that the slowdown lies in, at the limit of launches those that it may lie
    in, or the end that does not run. `own` is their own effect beside `parent`, from fresh pairs
    alone, and `range` that of GOOD to BAD. `others` says that the range holds other changes, too.
    `smallest` is the smallest slowdown that what is left of the launches could find, and `noise`
    the spread of a launch, as a share.
    """

    ended: Ended
    commits: Annotated[tuple[Count, ...], Lax] = ()
    parent: Count | None = None
    own: Effect | None = None
    range: Effect | None = None
    others: bool = False
    smallest: NotNegative | None = None
    noise: NotNegative | None = None
    launches: Count = 0
    refuted: Annotated[tuple[Count, ...], Lax] = ()
    skipped: Annotated[tuple[Count, ...], Lax] = ()
    evidence: Annotated[tuple[Probed, ...], Lax] = ()


class Expected(Value):
    """What lies before the search: launches left, and the smallest slowdown that it can find."""

    launches: Count
    smallest: NotNegative


class Progress(Value):
    """Where a search is: the slowdown lies after `low` and not after `high`, most probably."""

    why: AskedFor
    low: Count
    high: Count
    candidates: Count
    launches: Count

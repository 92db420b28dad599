"""What a search may cost, and how sure it has to be; `make bench-bisect` weighs these numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may cost, and how sure it has to be.

    `worth` is the smallest slowdown, as a share, that somebody asks for: where GOOD and BAD seem
    alike, the machine can tell if that much is ruled out. Errors are standard errors, evidence is
    the logarithm of how much more probable one answer is than the other.
    """

    launches: int = 1000
    worth: float = 0.05
    # Pairs of GOOD and BAD: at least, until it may be hopeless, and at most.
    ends_least: int = 12
    ends_hopeless: tuple[tuple[int, float], ...] = ((40, 1.0), (64, 1.5))
    ends_most: int = 120
    # From so many errors on GOOD and BAD differ; the second counts when it may be hopeless.
    differs: tuple[float, float] = (4.0, 3.0)
    # It ends when later pairs have brought them together again.
    differs_no_more: float = 2.0
    # A probe is left when the chance of the other answer is so small.
    leave: float = 0.2
    # It stays longer while its level is so many errors from the end that it is nearer to.
    misfit: float = 2.0
    # Both parts of the range are slower if each is by so many errors, from so many pairs each. Of a
    # commit that was no answer less is enough: it is in doubt that one commit has it all.
    both_parts: float = 3.5
    both_parts_doubted: float = 2.5
    both_parts_least: int = 4
    doubted_least: int = 8
    # A place is held against its parent when it is so probable.
    sure: float = 0.9
    confirmed: float = 6.0
    refuted: float = 3.0
    confirm_least: int = 8
    again: int = 2


# Of a probe, and of a confirmation: with so many pairs the error is this part of the slowdown.
SHARPEST = 1.0 / 8.0
LEAST_AT_MOST = 16
# A search takes some launches, and more by the square of how much the noise is of the slowdown.
LAUNCHES_ANYWAY, LAUNCHES_BY_NOISE = 50.0, 120.0
MOST_SAID = 10**9
# Both parts of a range may seem slower by mistake once, but not so often.
MISTAKES = 2
# Where the slowdown is said to lie, as long as it is not found, it lies with that chance.
LIKELY = 0.99

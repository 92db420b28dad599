"""Where and how something was measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ci_score.model.reasons import Reason, Why
from ci_score.model.values import DeviceCount, Lax, Sha, ShortText, Value

MATCHING = ("accelerator", "accelerator_count", "precision", "timing")
MOST_DIFFERING, MOST_ASKED = 64, 64
# How it was timed. A profiler makes steps longer, a trainer counts evaluation: times of two sources
# are times of different things.
Timing = Literal["under a profiler", "unprofiled", "by the trainer's log", "by the runtime itself"]
# What makes a measurement worthless, unless the policy says that it does not.
Disturbance = Literal["throttled", "shared", "crashed", "nan"]


class SideDifference(Value):
    """What differs between a session's sides beside the code; None where a side has none."""

    kind: Literal["package", "variable", "python", "launcher", "driver", "node"]
    name: ShortText
    base: ShortText | None = None
    head: ShortText | None = None


class AskedOption(Value):
    """An option that `ci-score ab` was given. No value: a flag, or one that is not told."""

    option: Annotated[ShortText, StringConstraints(pattern=r"^--[a-z][a-z-]*$")]
    value: ShortText | None = None


class Alone(Value):
    """Why a session measured head without its base, and how base failed."""

    why: Literal["no_base", "base_cannot_run"]
    words: ShortText | None = None

    @property
    def reason(self) -> Reason:
        """The same for a report."""
        no_base = self.why == "no_base"
        return Why.HAS_NO_BASE() if no_base else Why.BASE_CANNOT_RUN(words=self.words)


class MeasuredCode(Value):
    """The commits that a session measured; `head_edited` says that head's files differ from it."""

    head: Sha | None = None
    base: Sha | None = None
    head_edited: bool = False

    def instead_of(self, head: str | None, base: str | None) -> Reason:
        """That these were measured, where those are compared."""
        here, there, of_head, of_base = (
            commit and commit[:12] for commit in (self.head, self.base, head, base)
        )
        return Why.OTHER_COMMITS(head=here, base=there, of_head=of_head, of_base=of_base)


class Environment(Value):
    """Where and how something was measured.

    The first four decide whether two measurements can be compared; None means not known, and
    matches anything. `versions` only inform, because a change may be about a version itself.
    `disturbances` make a measurement worthless: what happened -> a description. `gate_at` is the
    smallest limit that the machine is qualified for; `not_qualified` says why it is not qualified
    for any. `differs` is what a session found to differ between its two sides, and `asked` which
    options say what those sides are. `alone` says why a session has no base, and `code` which
    commits it measured.
    """

    accelerator: str | None = None
    accelerator_count: DeviceCount | None = None
    precision: ShortText | None = None
    timing: Timing | None = None
    versions: dict[ShortText, ShortText] = {}
    disturbances: dict[ShortText, ShortText] = {}
    gate_at: Annotated[float, Field(gt=0, lt=1)] | None = None
    not_qualified: ShortText | None = None
    differs: Annotated[tuple[SideDifference, ...], Lax, Field(max_length=MOST_DIFFERING)] = ()
    asked: Annotated[tuple[AskedOption, ...], Lax, Field(max_length=MOST_ASKED)] = ()
    alone: Alone | None = None
    code: MeasuredCode | None = None

    def mismatch(self, other: Environment, keys: Iterable[str] = MATCHING) -> Reason | None:
        """The first key that differs, with both values; None where the two can be compared."""
        for key in keys:
            here, there = getattr(self, key), getattr(other, key)
            if here is not None and there is not None and here != there:
                return Why.MISMATCH(key=key, here=here, there=there)
        return None

    def filled_from(self, other: Environment) -> Environment:
        """With what only the other knows of what must match."""
        lacking = [key for key in MATCHING if getattr(self, key) is None]
        return self.but(**{key: getattr(other, key) for key in lacking})

    def versions_since(self, base: Environment) -> tuple[str, ...]:
        """What has another version than in `base`, as `torch 2.8 → 2.9`; it changes no verdict."""
        if not self.versions or not base.versions:
            return ()
        names = sorted(self.versions.keys() | base.versions.keys())
        both = [(name, base.versions.get(name), self.versions.get(name)) for name in names]
        return tuple(
            f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in both if old != new
        )

    def unknown_beside(self, other: Environment, keys: Iterable[str] = MATCHING) -> list[str]:
        """The keys that only one of the two knows."""
        return [
            key for key in keys if (getattr(self, key) is None) != (getattr(other, key) is None)
        ]

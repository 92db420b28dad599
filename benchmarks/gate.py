"""How often the gate is wrong and what it finds: worlds of noise, judged by the shipped judge.

*Red* is exit 1, *green* is pass or warn, *unclear* is exit 3 and *noisy* exit 0 as "too noisy".
What luck alone made red is false. The luck is the same in every run, so all figures are.
"""

from __future__ import annotations

import argparse
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from benchmarks.measure import ratio, show
from benchmarks.rivals import RIVALS
from benchmarks.worlds import ORDERS, WORLDS, Luck, Times, branch, noise, session, slower
from ci_score import judge_history, judge_pairs
from ci_score.baselines import read_record
from ci_score.files.strict_json import dump
from ci_score.judge import planned_looks
from ci_score.judge.judgement import Doubt, Judgement
from ci_score.judge.looks import LOOKS, TIGHT_LOOKS
from ci_score.model.metrics import STEP_TIME
from ci_score.model.verdict import Outcome
from tests.builders import case, record, showcase

Looks = tuple[int, ...]
Key = tuple[object, ...]
Work = Callable[..., Iterator[Key]]
# Of a whole key, or of what it ends in: the least and the most.
Aims = Mapping[Any, tuple[float, float]]

FALSE = (0.0, 0.005)
NONE_FALSE = {"red": FALSE}
ENDS = {"too low": (0.0, 0.06), "covers": (0.93, 1.0)}
NO_AIM = (0.0, 1.0)
LIMITS = (0.02, 0.05, 0.10)
USUAL, TIGHT = LOOKS, TIGHT_LOOKS
# What `ci-score ab` plans for so many tests.
MATRICES = {tests: planned_looks(0.05, tests=tests) for tests in (8, 32)}
# A session goes on until both limits are settled: the one that warns is so much of the other.
WARNS = 0.6
HISTORIES = (5, 12, 28, 60, 90, 140)
# More runs than these do not count.
WITH_INTERVAL = (28, 60, 90)
LARGE = (0.30, 0.90)
# A history serves the first of these limits that is four times its noise, or more.
SERVED = (0.05, 0.10, 0.20)
# What the rivals are to find, of 12 pairs and after 90 runs.
IN_PAIRS, IN_HISTORY, RUNS = 0.08, 0.30, 90
OF_PAIRS = [name for name, world in WORLDS.items() if world.in_pairs]
NORMAL = ("normal, 1 %", "normal, 3 %")
# Limit, looks and changes; what judging.md has of which change at a noise of 1 and of 3 %.
PLANS = (
    (0.05, USUAL, (0.03, 0.05, 0.08, 0.10, 0.15, 0.20, 0.30), 0.08, (1.0, 0.96)),
    (0.02, TIGHT, (0.01, 0.02, 0.03, 0.05, 0.08, 0.10), 0.03, (1.0, 0.59)),
)
SIDES: tuple[showcase.Side, ...] = ("head", "base")
COLOURS = ("red", "unclear", "noisy", "green")
MOST_COSTS = 2.0

# --- sessions, judged ---------------------------------------------------------------------------


def colour(found: Judgement) -> str:
    """What an exit code makes of it."""
    if found.reason is None:
        return "red" if found.outcome is Outcome.FAIL else "green"
    return "noisy" if found.reason is Doubt.TOO_NOISY else "unclear"


def notes(found: Judgement, truth: float, *key: object) -> Iterator[Key]:
    """The colour, and what is true of the interval."""
    yield (*key, colour(found))
    if found.high < truth - 1e-9:
        yield (*key, "too low")
    elif found.low <= truth + 1e-9:
        yield (*key, "covers")


def stopped(head: Times, base: Times, limit: float, looks: Looks, tests: int = 1) -> Judgement:
    """As `ci-score ab` does: the first look that settles both limits ends the session."""
    for pairs in looks:
        found = judge_pairs(
            head[:pairs],
            base[:pairs],
            limit=limit,
            warn=WARNS * limit,
            looks=looks,
            tests=tests,
        )
        if found.settled:
            break
    return found


def of_pairs(luck: Luck, name: str, looks: Looks) -> Iterator[Key]:
    """A session, unchanged and slower by exactly the limit; the rivals have 12 of its pairs."""
    head, base = session(WORLDS[name], looks[-1], luck)
    for limit in LIMITS:
        for by in (0.0, limit):
            found = stopped(slower(head, by), base, limit, looks)
            yield from notes(found, by, limit, by > 0.0)
    yield from notes(judge_pairs(head, base, limit=0.05), 0.0, "once")
    for by in (0.0, IN_PAIRS) if looks == USUAL else ():
        now = slower(head, by)
        yield (by, colour(stopped(now, base, 0.05, looks)))
        yield from ((by, rival) for rival, says in RIVALS.items() if says(now, base))


def of_orders(luck: Luck, name: str) -> Iterator[Key]:
    """Twelve pairs in each order, judged once: red, or slower at all."""
    for order in ORDERS:
        found = judge_pairs(*session(WORLDS[name], 12, luck, order), limit=0.05, warn=0.0)
        yield (order, colour(found))
        if found.slower:
            yield (order, "slower")


def of_matrices(luck: Luck, name: str) -> Iterator[Key]:
    """Reports of unchanged cases; each has the worst colour of its cases."""
    for cases, looks in MATRICES.items():
        sessions = (session(WORLDS[name], looks[-1], luck) for _ in range(cases))
        seen = {colour(stopped(*each, LIMITS[0], looks, cases)) for each in sessions}
        yield (cases, min(seen, key=COLOURS.index))


def of_change(luck: Luck, limit: float, looks: Looks, by: float) -> Iterator[Key]:
    """A session with a slowdown, at both noises."""
    for name in NORMAL:
        head, base = session(WORLDS[name], looks[-1], luck)
        yield from notes(stopped(slower(head, by), base, limit, looks), by, name)


def of_history(luck: Luck, name: str, launches: int, served: float) -> Iterator[Key]:
    """Head against the newest runs of one branch, unchanged and much slower; rivals have 90."""
    runs, head = branch(WORLDS[name], HISTORIES[-1], launches, luck)
    for length in HISTORIES:
        for limit in (0.02, 0.05):
            found = judge_history(runs[-length:], head, limit=limit)
            yield from notes(found, 0.0, length, limit)
    for length, by in product(WITH_INTERVAL, LARGE):
        found = judge_history(runs[-length:], slower(head, by), limit=served)
        yield (length, by, colour(found))
    for by in (0.0, IN_HISTORY) if launches == 2 else ():
        now, before = slower(head, by), runs[-RUNS:]
        yield (by, colour(judge_history(before, now, limit=0.05)))
        yield from ((by, rival) for rival, says in RIVALS.items() if says(now, before))


def of_reports(luck: Luck, name: str, by: float, cases: int) -> Iterator[Key]:
    """A report with 90 runs of each case has the worst colour of its cases."""
    for launches in (1, 2):
        branches = (branch(WORLDS[name], RUNS, launches, luck) for _ in range(cases))
        seen = {
            colour(judge_history(runs, slower(head, by), limit=0.05)) for runs, head in branches
        }
        yield (launches, min(seen, key=COLOURS.index))


# --- many of them -------------------------------------------------------------------------------


class Tally(NamedTuple):
    """What is counted in so many sessions; `held` says whether it has aims."""

    parts: Sequence[Future[Counter[Key]]]
    sessions: int
    held: bool = True


def _part(work: Work, arguments: Key, first: int, many: int) -> Counter[Key]:
    luck = Luck(f"{work.__name__} {arguments} {first}")
    return Counter(key for _ in range(many) for key in work(luck, *arguments))


def cell(hits: int, sessions: int, least: float, most: float) -> tuple[str, int]:
    """In per cent; a mark if it is beyond its aim, two if its 95 % interval (Wilson's) is."""
    rate, z2 = hits / sessions, 1.96**2 / sessions
    half = math.sqrt(z2 * (rate * (1.0 - rate) + z2 / 4.0))
    low, high = ((rate + z2 / 2.0 + end) / (1.0 + z2) for end in (-half, half))
    marks = (rate > most) + (rate < least) + (low > most) + (high < least)
    return f"{'!' * marks}{100 * rate:.{2 if most < 0.01 else 1}f}", marks


def title(key: Key, least: float, most: float) -> str:
    """What a column counts, and its aim."""
    aims = [f"≥{100 * least:g}"] * (least > 0.0) + [f"≤{100 * most:g}"] * (most < 1.0)
    return " ".join([str(key[-1]), *aims])


@dataclass
class Page:
    """Starts what is to be counted; prints tables, and counts the rows beyond their aims."""

    pool: ProcessPoolExecutor
    sessions: int
    rows: int = 0
    beyond: int = 0
    surely: int = 0

    def count(self, work: Work, *arguments: object, held: bool = True, each: int = 1) -> Tally:
        """The sessions of a row; fewer where each of them is many."""
        sessions, step = max(100, self.sessions // each), max(10, 250 // each)
        parts = [
            self.pool.submit(_part, work, arguments, first, min(step, sessions - first))
            for first in range(0, sessions, step)
        ]
        return Tally(parts, sessions, held)

    def table(self, says: str, keys: Iterable[Key], rows: Mapping[str, Tally], aims: Aims) -> None:
        """A line about it, a column a key, and the rows as they are done."""
        keys = list(keys)
        aimed = [aims.get(key, aims.get(key[-1], NO_AIM)) for key in keys]
        titles = [title(key, *aim) for key, aim in zip(keys, aimed, strict=True)]
        widths = [max(8, len(each) + 2) for each in titles]
        print(f"\n{says}\n{'':<46}" + "".join(map(str.rjust, titles, widths)))
        for name, tally in rows.items():
            counts: Counter[Key] = sum((part.result() for part in tally.parts), Counter())
            cells = [
                cell(counts[key], tally.sessions, *(aim if tally.held else NO_AIM))
                for key, aim in zip(keys, aimed, strict=True)
            ]
            shown = (text for text, _ in cells)
            print(f"{name:<46}" + "".join(map(str.rjust, shown, widths)), flush=True)
            worst = max(marks for _, marks in cells)
            self.rows += 1
            self.beyond += worst > 0
            self.surely += worst > 1


# --- the tables ---------------------------------------------------------------------------------


def pairs(page: Page) -> None:
    """Sessions of pairs: unchanged, slower by exactly the limit, and beside the rivals."""
    at = list(product(OF_PAIRS, (USUAL, TIGHT)))
    told = {
        f"{name}; {'/'.join(map(str, looks))}": page.count(of_pairs, name, looks)
        for name, looks in at
    }
    page.table(
        "Pairs, unchanged, at limits of 2, 5 and 10 %; the first look that decides ends a session",
        product(LIMITS, (False,), ("red", "green", "unclear")),
        told,
        NONE_FALSE,
    )
    page.table(
        "Pairs, slower by exactly the limit, which is 2, 5 and 10 %",
        product(LIMITS, (True,), ("green", "red", "too low", "covers")),
        told,
        ENDS | {"green": (0.0, 0.06)},
    )
    page.table(
        "Intervals of pairs, unchanged: all pairs judged once; with looks at a limit of 5 %",
        [
            ("once", "too low"),
            ("once", "covers"),
            (0.05, False, "too low"),
            (0.05, False, "covers"),
        ],
        told,
        ENDS | {("once", "covers"): (0.94, 1.0)},
    )
    beside(page, "12 pairs", IN_PAIRS, dict(zip(OF_PAIRS, list(told.values())[::2], strict=True)))


def beside(page: Page, what: str, by: float, told: Mapping[str, Tally]) -> None:
    """What everybody says of the same times."""
    missing = "" if "Otava" in RIVALS else "; Otava is not installed"
    page.table(
        f"Who calls {what} slower, unchanged and {100 * by:+g} %; ours at a limit of 5 %{missing}",
        [(at, name) for name, at in product(("red", "unclear", *RIVALS), (0.0, by))],
        told,
        {},
    )


def orders(page: Page) -> None:
    """Why a coin decides who goes first."""
    page.table(
        f"Footnote: 12 unchanged pairs judged once at 5 %, by order: {', '.join(ORDERS)}",
        product(ORDERS, ("red", "slower")),
        {name: page.count(of_orders, name) for name in OF_PAIRS},
        {("coin", "red"): FALSE, ("coin", "slower"): FALSE},
    )


def matrices(page: Page) -> None:
    """Reports of several cases, with the pairs that are planned for them."""
    page.table(
        "Reports of unchanged cases at 2 %, of 8 cases and of 32, with the pairs of their plans",
        product(MATRICES, ("red", "green", "unclear")),
        {name: page.count(of_matrices, name) for name in OF_PAIRS},
        NONE_FALSE,
    )


def power(page: Page) -> None:
    """What pairs find."""
    for limit, looks, changes, which, of_it in PLANS:
        told = {f"{100 * by:+g} %": page.count(of_change, limit, looks, by) for by in changes}
        says = f"noises of 1 and 3 %, limit {100 * limit:g} %, looks {looks}"
        kinds = ("red", "green", "unclear", "too low", "covers")
        page.table(f"Power of pairs at {says}", product(NORMAL, kinds), told, ENDS)
        aims = {
            (name, "red"): (aim - 0.03, aim + 0.03) for name, aim in zip(NORMAL, of_it, strict=True)
        }
        row = f"{100 * which:+g} %"
        page.table("Its row in judging.md, within 3 points", aims, {row: told[row]}, aims)


def histories(page: Page) -> None:
    """A branch's runs: unchanged, much slower, and beside the rivals."""
    told, large = {}, {}
    for launches, (name, world) in product((1, 2), WORLDS.items()):
        if not world.in_history:
            continue
        served = [limit for limit in SERVED if 4.0 * noise(world) <= limit]
        row = f"{name}; {launches}{' (unknowable)' if world.unknowable else ''}"
        told[row] = page.count(
            of_history, name, launches, [*served, *SERVED][0], held=not world.unknowable
        )
        if served:
            large[f"{row}; {100 * served[0]:g} %"] = told[row]
    page.table(
        f"Unchanged, 1 or 2 launches of head after {', '.join(map(str, HISTORIES))} runs, at 2 %",
        product(HISTORIES, (0.02,), ("red",)),
        told,
        NONE_FALSE,
    )
    page.table(
        "The same at 5 %, after 12, 28 and 90 runs",
        product((12, 28, 90), (0.05,), ("red", "green", "unclear", "noisy")),
        told,
        NONE_FALSE,
    )
    page.table(
        "Their 90 % intervals after 28, 60 and 90 runs",
        product(WITH_INTERVAL, (0.05,), ("too low", "covers")),
        told,
        {"too low": (0.0, 0.06)},
    )
    page.table(
        "After 28, 60 and 90 runs +30 and then +90 %, at a limit of four times the noise or more",
        product(WITH_INTERVAL, LARGE, ("green", "red")),
        large,
        {"green": FALSE},
    )
    second = {row: tally for row, tally in told.items() if "; 2" in row}
    beside(page, "two launches after 90 runs", IN_HISTORY, second)


def reports(page: Page) -> None:
    """What a history finds, and what several cases do to a report."""
    keys = list(product((1, 2), COLOURS))
    changes = (0.05, 0.08, 0.10, 0.15, 0.20, 0.30, 0.50, 0.90)
    page.table(
        "Power of 90 runs at 5 %, with one launch of head and with two",
        keys,
        {
            f"{name}; {100 * by:+g} %": page.count(of_reports, name, by, 1)
            for name, by in product(NORMAL, changes)
        },
        {},
    )
    names = ("normal, 1 %", "normal, 3 %", "rare mode of runs", "mood outlasts the job")
    page.table(
        "Reports of unchanged cases after 90 runs at 5 %, with one launch of head and with two",
        keys,
        {
            f"{name}; {cases} cases": page.count(of_reports, name, 0.0, cases, each=cases)
            for name, cases in product(names, MATRICES)
        },
        {},
    )


# --- what it costs ------------------------------------------------------------------------------


def cost(cases: int) -> float:
    """Judging 1,000 launches of so many cases and 200 runs, in readings of their record."""
    head, base = (showcase.launches(side, 100.0, 500 // cases) for side in SIDES)
    points = showcase.history("case-0", 100.0, 200)
    judged = (case(f"case-{number}", launches=head + base) for number in range(cases))
    data = dump(record(*judged, history=points)).encode()
    here, there = ([one.values[STEP_TIME] for one in side] for side in (head, base))
    runs = [point.step_time_ms for point in points]

    def judging() -> None:
        for _ in range(cases):
            judge_pairs(here, there, limit=0.05)
        judge_history(runs, runs[-1], limit=0.05)

    return ratio(judging, lambda: read_record(data, "the record"))


def main() -> None:
    """Prints the tables, and how many rows are beyond their aims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000, help="for each row")
    parser.add_argument("--short", action="store_true", help="half a minute, for CI")
    given = parser.parse_args()
    sessions = 300 if given.short else given.sessions
    print(f"{sessions} sessions a row. Shares in %; ! is beyond its aim, !! by more than luck.")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        page = Page(pool, sessions)
        for tables in (pairs, orders, matrices, power, histories, reports):
            tables(page)
    print()
    for cases in (40, 1):
        what = f"judging 1,000 launches in pairs of {cases} and 200 runs / reading their record"
        show(what, cost(cases), MOST_COSTS)
    print(
        f"\nbeyond their aims: {page.beyond} of {page.rows} rows, {page.surely} by more than luck"
    )


if __name__ == "__main__":
    main()

"""`ci-score selftest`: plants a slowdown in the user's own files, which the gate has to block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import click

from ci_score.baselines import FolderBaselines
from ci_score.cli.console import show_report
from ci_score.cli.options import POSITIVE
from ci_score.cli.run import input_options, settings_here
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED, CiScoreError
from ci_score.files.strict_json import dump, overflow_is_bad_input
from ci_score.files.visible import log_line
from ci_score.judge import exit_code, slowed, unchanged
from ci_score.model.gate import FailOn, Gate
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, metric_of
from ci_score.model.record import Judged, Record
from ci_score.model.verdict import JudgedBy
from ci_score.report import change_sentence, headline, verdict_line
from ci_score.run import Job, Settings, job_of_files, run

LARGEST_SLOWDOWN = 2.0
CLOSE_ENOUGH = 0.001
# Added to the slowdown, so that it exceeds a limit of the same size however the ratio is rounded.
JUST_BEYOND = 1e-9
WHEN = "2000-01-01T00:00:00Z"


@click.command("selftest")
@input_options(
    *("profiles", "measurements", "parity", "throughput", "tokens-per-step", "hardware"),
    *("config", "fail-on", "on-inconclusive"),
)
@click.option(
    "--baseline",
    metavar="PATH",
    default="",
    help="Records whose history counts as the branch's, if the policy judges by history.",
)
@click.option(
    "--slowdown",
    type=POSITIVE,
    default=20.0,
    show_default=True,
    metavar="PERCENT",
    help="How much slower the planted case is.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(slowdown: float, as_json: bool, **values: str | None) -> int:
    """Plant a slowdown in your own files, and show whether your policy blocks it.

    It judges the files of `ci-score run` twice for each case. Unchanged, they have to pass. With
    every time of the case longer, they have to fail. If both sides were measured, it first takes
    out their average difference, so that only the machine's noise is left. Nothing is written.
    Exit 0: the gate works. Exit 3: it would let the slowdown pass, or would block unchanged files;
    the output says what to change.

    \b
    Examples:
      ci-score selftest
      ci-score selftest --measurements perf/measurements.jsonl --slowdown 5
      ci-score selftest --profiles "llama@l4=out/*.json" --config .github/ci-score.toml --json
    """
    settings = settings_here(values)
    job = job_of_files(settings)
    if not job.cases:
        why = headline(job.unjudged) if job.unjudged else "no case was found"
        raise CiScoreError(f"there is nothing to plant a slowdown in: {why}")
    with overflow_is_bad_input("selftest"):
        result = _Test.of(job, settings).result(slowdown / 100)
    show_report(dump(asdict(result)) if as_json else _text(result))
    return EXIT_OK if result.works else EXIT_UNJUDGED


# --- the test -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Planted:
    """A case unchanged and slower, with the verdicts on both."""

    name: str
    unchanged: Mapping[str, str]
    planted: Mapping[str, str]
    blocked: bool
    blocks_from: float | None
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Result:
    works: bool
    slowdown: float
    passes_unchanged: bool
    cases: tuple[_Planted, ...]


@dataclass(frozen=True, slots=True)
class _Test:
    """The user's gate, with their own files as the branch's baseline."""

    job: Job
    store: FolderBaselines
    settings: Settings

    @classmethod
    def of(cls, job: Job, settings: Settings) -> _Test:
        """The gate that judges these files, with these same files as the baseline."""
        job = replace(job, cases=tuple(unchanged(case) for case in job.cases), tracked=False)
        alone = replace(job, cases=tuple(replace(case, base=None) for case in job.cases))
        before = _judged(alone, FolderBaselines.of_records([], _NO_CASES))
        if settings.baseline is not None:
            past = FolderBaselines(settings.baseline, must_exist=True).history(1)
            before = before.but(history=past)
        return cls(job, FolderBaselines.of_records([("these files", before)], _NO_CASES), settings)

    def result(self, slowdown: float) -> _Result:
        """The verdicts on the unchanged files, and on each case with the slowdown."""
        record = _judged(self.job, self.store)
        cases = tuple(
            self._planted(number, slowdown, case) for number, case in enumerate(record.cases)
        )
        passes = exit_code(record, self._gate) == EXIT_OK
        return _Result(passes and all(one.blocked for one in cases), slowdown, passes, cases)

    @property
    def _gate(self) -> Gate:
        return Gate(self.settings.fail_on, self.settings.on_inconclusive)

    def _planted(self, number: int, slowdown: float, untouched: Judged) -> _Planted:
        record = self._slower(number, slowdown)
        case = record.cases[number]
        blocked = self._blocks(case)
        return _Planted(
            name=case.name,
            unchanged=_verdict_of(untouched),
            planted=_verdict_of(case),
            blocked=blocked,
            blocks_from=self._blocks_from(number),
            advice=() if blocked else tuple(_advice(record, case, slowdown, self.settings)),
        )

    def _slower(self, number: int, slowdown: float) -> Record:
        cases = [*self.job.cases]
        cases[number] = slowed(cases[number], slowdown + JUST_BEYOND)
        return _judged(replace(self.job, cases=tuple(cases)), self.store)

    def _blocks(self, case: Judged) -> bool:
        """Whether the run is blocked because of that case: it fails, or is not clear."""
        return case.verdict is not None and self._gate.code_of(case.verdict) != EXIT_OK

    def _blocks_from(self, number: int) -> float | None:
        """The smallest slowdown that the gate blocks; None if it blocks not even the largest."""
        passes, fails = 0.0, LARGEST_SLOWDOWN
        if not self._blocks(self._slower(number, fails).cases[number]):
            return None
        while fails - passes > CLOSE_ENOUGH:
            middle = (passes + fails) / 2
            if self._blocks(self._slower(number, middle).cases[number]):
                fails = middle
            else:
                passes = middle
        return fails


_NO_CASES = Record.describing(())


def _judged(job: Job, store: FolderBaselines) -> Record:
    return run(job, baselines=store, publish=lambda _: None, now=lambda: WHEN)


def _verdict_of(case: Judged) -> dict[str, str]:
    verdict = case.verdict
    return {
        "outcome": verdict.outcome.value if verdict else "none",
        "headline": headline(case),
        "shown": verdict_line(case),
    }


# --- the output -------------------------------------------------------------------------------


def _text(result: _Result) -> str:
    lines = []
    planted = _percent(result.slowdown)
    for case in result.cases:
        blocked = "blocked" if case.blocked else "NOT blocked"
        limit = "does not block any slowdown"
        if case.blocks_from is not None:
            limit = f"blocks from about {_percent(case.blocks_from)} on"
        lines += [
            case.name,
            f"  unchanged  {case.unchanged['shown']}",
            f"  {planted:<9}  {case.planted['shown']}",
            f"  {blocked}; this gate {limit}",
            *(f"  - {log_line(words)}" for words in case.advice),
            "",
        ]
    if result.works:
        end = f"works: it blocks a slowdown of {planted}, and lets the unchanged files pass."
    else:
        lets_pass = not all(case.blocked for case in result.cases)
        wrong = [f"it would let a slowdown of {planted} pass"] if lets_pass else []
        wrong += [] if result.passes_unchanged else ["it would block the unchanged files"]
        end = f"does NOT work: {', and '.join(wrong)}."
    return "\n".join([*lines, f"The gate {end}"]) + "\n"


def _percent(share: float) -> str:
    return f"+{share * 100:.3g} %"


def _advice(record: Record, case: Judged, slowdown: float, settings: Settings) -> Iterator[str]:
    """Why the slowdown is not blocked, and what would change that."""
    if settings.fail_on is FailOn.NEVER:
        yield "fail-on: never lets everything pass; leave it out"
        return
    times = [change for change in case.changes if change.metric in (STEP_TIME, THROUGHPUT)]
    gated = [change for change in times if change.gated and change.delta is not None]
    if not case.has_a_time:
        yield "it was not measured: see above"
    elif not times:
        yield "it could not be compared: see above"
    elif not any(change.gated for change in times):
        yield "the policy gates neither throughput nor step time: remove `gate = false`"
    for change in gated:
        metric = metric_of(change)
        if change.fail_limit is None:
            yield f"metrics.{change.metric} has a `warn` and no `fail`"
        elif metric.worsening(change.delta or 0.0) <= change.fail_limit:
            limit = metric.show_limit(change.fail_limit)
            yield (
                f"metrics.{change.metric} fails beyond {limit}, and {_percent(slowdown)} time is"
                f" {metric.show_delta(change.delta or 0.0)}: lower its `fail`"
            )
        elif change.judged_by is JudgedBy.ONE_NUMBER:
            yield _unverified(record)
        elif change.reasons:
            yield f"{metric.label}: {change_sentence(change, metric)}"


def _unverified(record: Record) -> str:
    words = (
        "one run per side proves nothing, so it warns up to 20 %: measure head and base in turns,"
        " 8 pairs or more (`ci-score ab` does), or give the branch 28 runs of history (--baseline)"
    )
    return words if record.rules == "training" else f"{words}; or leave `design` out"

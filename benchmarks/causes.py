"""Whether causes hold: known ones planted in traces, and what is said of each.

Each plant edits a trace (benchmarks/tape.py) by 5 to 50 % of its step; reader and comparison run on
both sides. The same the other way round is an improvement. Controls differ by noise, by the time
of day or by the order of their events, and nothing may be said of them. Synthetic traces always
take part, and real ones where the folder `../shared` (or CI_SCORE_SHARED) is there.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.hosts import HOST_KINDS, base_of, host_trace, usual
from benchmarks.planting import Plant, Scene, Truth
from benchmarks.plants import KINDS, NEW_NAME
from benchmarks.repeated import SAMPLES
from benchmarks.tape import Edit, Tape, opened, with_jitter
from benchmarks.traces import write_trace
from ci_score.compare import Workload, compared, measured_case
from ci_score.model.profile import OpPlace, Profile
from ci_score.model.reasons import Reason
from ci_score.model.record import BaselineUsed
from ci_score.model.stages import BaselineFound, CaseInput
from ci_score.report import sentence
from ci_score.traces import ProfileSource, profile_of, read_profile

SHARES, SHORT_SHARES = (0.05, 0.15, 0.5), (0.15,)
# Planted works take a little more or less time, too.
JITTER = 0.01
NOISE = (0.01, 0.02, 0.03)
# Which share of what was planned has to show in the step, else the plant does not count; and the
# least change of which a cause is reported.
VISIBLE, LEAST_TOLD = 0.7, 0.03
LEAST_NAMED = 0.95
MARK = "ci_score_planted"
CONTROL, RANK = "controls", "one rank slower"
# Real traces with enough steps or kernels; the ranks of one job.
REAL = (
    "a100_ddp_resnet_3step.json.gz",
    "a100_dlrm_rank3of8_6step.json.gz",
    "h100_bert_small_inference.json.gz",
    "h100_qwen05b_inference.json.gz",
    "h800_deepseek_train_1step.json.gz",
    "mi300_bert_small_inference.json.gz",
    "mi300_ddp_resnet_checkpoint_3step.json.gz",
    "mi300_qwen05b_inference.json.gz",
    "old2021_resnet50_workers0_6step.json.gz",
    "old2021_resnet50_workers4_6step.json.gz",
    "sampled_rank0of128_2step.json.gz",
    "b200_eager_nostep.json.gz",
)
RANKS = tuple(f"v100_dlrm_rank{rank}of8_1step.json.gz" for rank in range(4))


@dataclass(frozen=True)
class Trial:
    """Two profiles, and what is true of their difference; nothing of a control's."""

    kind: str
    name: str
    head: Profile
    base: Profile
    truth: Truth | None
    is_gain: bool = False


# --- trials -------------------------------------------------------------------------------------


def read(text: bytes, name: str = "trace.json") -> Profile:
    """A trace as a user's."""
    return read_profile(ProfileSource(name, data=text))


def trials_of(
    name: str, tape: Tape, shares: Sequence[float], kinds: Iterable[str]
) -> Iterator[Trial]:
    """Every plant that is possible in a trace, both ways round, and its controls."""
    base = read(tape.text())
    for kind in kinds:
        for share in shares if kind in KINDS else ():
            chance = random.Random(zlib.crc32(f"{name} {kind} {share}".encode()))  # noqa: S311
            scene = Scene(tape, base, chance)
            plant = KINDS[kind](scene, share * base.avg_step_ms)
            if plant is None:
                continue
            head = read(tape.text(with_jitter(tape, plant.edit, JITTER, chance)))
            if abs(head.avg_step_ms / base.avg_step_ms - 1) < VISIBLE * share:
                # Behind the end of the only step that is timed, for example.
                continue
            own = tuple(place for place in head.op_places if place.op == NEW_NAME)
            truth = replace(plant.truth, places=own or _places(tape, plant))
            what = f"{name} {share:.0%}"
            yield Trial(kind, what, head, base, truth)
            yield Trial(kind, what, base, head, truth, is_gain=True)
        if kind == CONTROL:
            yield from _controls(name, tape, base)


def _places(tape: Tape, plant: Plant) -> tuple[OpPlace, ...]:
    """Where the reader sees the planted works: in a trace in which they have their own names."""
    if not plant.touched:
        return ()
    names = {place: f"{MARK}_{tape.works[place].name}" for place in plant.touched}
    profile = read(tape.text(Edit(renamed=names)))
    return tuple(place for place in profile.op_places if place.op.startswith(MARK))


def _controls(name: str, tape: Tape, base: Profile) -> Iterator[Trial]:
    chance = random.Random(zlib.crc32(name.encode()))  # noqa: S311 - no secret
    for share in NOISE:
        for turn in range(2):
            noisy = read(tape.text(with_jitter(tape, Edit(), share, chance)))
            yield Trial(CONTROL, f"{name} noise {share:.0%} #{turn}", noisy, base, None)
    later = Tape(tape.text())
    for event in later.events:
        if "ts" in event:
            event["ts"] += 86_400e6
    yield Trial(CONTROL, f"{name} a day later", read(later.text()), base, None)
    shuffled = read(tape.text(order=chance))
    yield Trial(CONTROL, f"{name} shuffled", shuffled, base, None)


def host_trials(shares: Sequence[float], only: str) -> Iterator[Trial]:
    """The same without a device: every plant of a CPU's step, both ways round, and noise."""
    for kind, plant in HOST_KINDS.items():
        if only not in kind:
            continue
        chance = random.Random(zlib.crc32(kind.encode()))  # noqa: S311 - no secret
        base = read(host_trace(base_of(kind)))
        for share in shares:
            model, truth = plant(share * base.avg_step_ms * 1000.0)
            head = read(host_trace(model, chance, JITTER))
            yield Trial(kind, f"own CPU {share:.0%}", head, base, truth)
            yield Trial(kind, f"own CPU {share:.0%}", base, head, truth, is_gain=True)
    if only in CONTROL:
        chance = random.Random(7)  # noqa: S311 - no secret
        base = read(host_trace(usual()))
        for share in NOISE:
            noisy = read(host_trace(usual(), chance, share))
            yield Trial(CONTROL, f"own CPU noise {share:.0%}", noisy, base, None)


def rank_trials(named: Sequence[tuple[str, Tape]], shares: Sequence[float]) -> Iterator[Trial]:
    """One rank computes for longer, and the others communicate for as long until it has come."""
    base = _job([(name, tape.text()) for name, tape in named])
    for share in shares:
        for slow in range(len(named)):
            chance = random.Random(slow)  # noqa: S311 - no secret
            texts = []
            for rank, (name, tape) in enumerate(named):
                scene = Scene(tape, read(tape.text(), name), chance)
                works = (
                    scene.compute() if rank == slow else scene.works(lambda kind: kind == "comm")
                )
                edit = scene.slower(works, share * base.avg_step_ms)
                if edit is None:
                    return
                texts.append((name, tape.text(with_jitter(tape, edit, JITTER, chance))))
            number = read(named[slow][1].text(), named[slow][0]).rank
            truth = _of_rank(slow if number is None else number)
            yield Trial(RANK, f"rank {slow} {share:.0%}", _job(texts), base, truth)
            yield Trial(RANK, f"rank {slow} {share:.0%}", base, _job(texts), truth, is_gain=True)


def _of_rank(number: int) -> Truth:
    return Truth(
        named={"one_rank": lambda data: data.get("rank") == number},
        vague={"communication_grew": lambda _: True},
    )


def _job(texts: Sequence[tuple[str, bytes]]) -> Profile:
    sources = [ProfileSource(name, data=text) for name, text in texts]
    return profile_of(sources, [read_profile(source) for source in sources])


# --- what is said -------------------------------------------------------------------------------


def said_of(trial: Trial) -> tuple[str, str]:
    """`named`, `vague`, `false`, `silent` or `refused`, and the sentence."""
    if trial.head.unusable or trial.base.unusable:
        return "refused", trial.head.unusable or trial.base.unusable or ""
    head, base = (
        measured_case(CaseInput("training", side), Workload()) for side in (trial.head, trial.base)
    )
    found = compared(head, BaselineFound(base, BaselineUsed(source="a plant")))
    explanation = found.explanation
    if explanation is None or explanation.cause is None:
        return "silent", ""
    if abs(explanation.delta_ms) < LEAST_TOLD * explanation.base_step_ms:
        return "silent", ""
    words, cause = sentence(explanation.cause), explanation.cause
    if trial.truth is None:
        return "false", words
    if cause.code.value == "faster":
        nested = cause.data["cause"]
        return _judged(trial, nested, words, is_gain=True)
    return _judged(trial, cause, words, is_gain=False)


def _judged(trial: Trial, cause: object, words: str, *, is_gain: bool) -> tuple[str, str]:
    if not isinstance(cause, Reason) or trial.truth is None or is_gain is not trial.is_gain:
        return "false", words
    return trial.truth.of(cause.code.value, cause.data), words


# --- traces -------------------------------------------------------------------------------------


def synthetic(folder: Path) -> Iterator[tuple[str, Tape]]:
    """Traces of our own: one whose device is busy, and one whose device waits for the host."""
    path = folder / "own.json"
    write_trace(path, 0, layers=4, steps=6, world=1)
    yield "own, busy", opened(path)
    yield "own, waiting", _waiting(opened(path))


def own_ranks(folder: Path) -> list[tuple[str, Tape]]:
    """The ranks of a job of our own."""
    named = []
    for rank in range(4):
        path = folder / f"rank{rank}.json"
        write_trace(path, 0, rank=rank, world=4, layers=4, steps=4)
        named.append((path.name, opened(path)))
    return named


def _waiting(tape: Tape) -> Tape:
    """The same with kernels so short that each has ended before the next is launched."""
    free: dict[object, float] = defaultdict(float)
    for work in tape.works:
        event = tape.events[work.event]
        stream = event["tid"]
        event["ts"] = max(tape.launched_at(work) + 6.0, free[stream])
        event["dur"] = work.time * 0.12
        free[stream] = event["ts"] + event["dur"] + 0.5
    return Tape(tape.text())


def all_trials(options: argparse.Namespace, folder: Path) -> Iterator[Trial]:
    """Everything that is to be tried."""
    shares = SHORT_SHARES if options.short else SHARES
    kinds = [kind for kind in (*KINDS, CONTROL) if options.only in kind]
    for name, tape in synthetic(folder):
        yield from trials_of(name, tape, shares, kinds)
    yield from host_trials(shares, options.only)
    is_rank = options.only in RANK
    if is_rank:
        yield from rank_trials(own_ranks(folder), shares)
    if options.short or not SAMPLES.is_dir():
        return
    for name in REAL:
        yield from trials_of(name.partition(".")[0], opened(SAMPLES / name), shares, kinds)
    if is_rank:
        yield from rank_trials([(name, opened(SAMPLES / name)) for name in RANKS], shares)


def show(trials: Iterable[Trial], *, verbose: bool) -> bool:
    """The table by kind; whether all that is promised holds."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials:
        answer, words = said_of(trial)
        if trial.truth is None:
            answer = "named" if answer == "silent" else answer
        kind = f"{trial.kind}{', gone' if trial.is_gain else ''}"
        rows[kind][answer] += 1
        if verbose and answer != "named":
            print(f"{answer:8}{kind} | {trial.name} | {words}")
    columns = ("named", "vague", "false", "silent", "refused")
    print(f"{'':38}{'planted':>9}" + "".join(f"{column:>9}" for column in columns))
    for kind, counts in rows.items():
        print(f"{kind:38}{counts.total():9}" + "".join(f"{counts[each]:9}" for each in columns))
    total = sum(rows.values(), Counter[str]())
    print(f"{'all':38}{total.total():9}" + "".join(f"{total[each]:9}" for each in columns))
    share = total["named"] / max(total.total(), 1)
    print(f"named: {share:.1%} (wanted: {LEAST_NAMED:.0%}); false: {total['false']} (wanted: 0)")
    return share >= LEAST_NAMED and not total["false"]


def main() -> None:
    """`python -m benchmarks.causes [--short] [--verbose] [--only KIND]`"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="traces of our own, one size each")
    parser.add_argument("--verbose", action="store_true", help="the sentence of each failure")
    parser.add_argument("--only", default="", help="kinds that contain this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        holds = show(all_trials(options, Path(folder)), verbose=options.verbose)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

"""Records of real traces, from the folder of samples beside the clone, for pictures."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.planting import Scene
from benchmarks.plants import lost_fusion
from benchmarks.tape import Edit, Tape, opened, with_jitter
from ci_score.baselines import FolderBaselines
from ci_score.cli.demo import MAIN_COMMIT, PULL_REQUEST_COMMIT
from ci_score.compare import Workload, measured_case
from ci_score.model.profile import Profile
from ci_score.model.record import LaunchNumbers, Record, RunIdentity
from ci_score.model.stages import CaseInput
from ci_score.run.story import Job, Place, run
from ci_score.traces import ProfileSource, profile_of, read_profile
from tests.builders import record
from tests.builders.showcase import NOW, launches
from tests.builders.verdicts import policy_file

REPOSITORY = "https://github.com/octocat/train"
# By how much of its step what is planted makes a trace longer.
PLANTED, SLOW_RANK = 0.12, 0.15
RANKS = 4


def real_records(samples: Path) -> Iterator[tuple[str, Record]]:
    """A name for its pictures, and the record of a pull request that changed this."""
    folder = samples / "kineto"
    before = _of_file(folder / "old2021_resnet50_workers4_6step.json.gz")
    after = _of_file(folder / "old2021_resnet50_workers0_6step.json.gz")
    yield "resnet", between("resnet50@v100", before, after)
    ranks = [folder / f"v100_dlrm_rank{rank}of8_1step.json.gz" for rank in range(RANKS)]
    before, after = _of_ranks(ranks), _of_ranks(ranks, slow=2)
    yield "dlrm", between("dlrm@v100", before, after)
    before = _of_file(folder / "torch213_cpu_lm_2step.json.gz")
    after = _of_file(folder / "torch213_cpu_lm_modules_3step.json.gz")
    yield "cpu", between("lm@cpu", before, after)
    yield "ddp", _planted(folder / "a100_ddp_resnet_3step.json.gz")


def between(
    name: str,
    base: Profile,
    head: Profile,
    sides: Sequence[tuple[LaunchNumbers, ...]] = ((), ()),
) -> Record:
    """The record of a pull request whose base was measured before, or in turns with it."""
    workload = Workload(tokens_per_step=4096)
    first, then = (
        CaseInput(name, one, launches=numbers)
        for one, numbers in zip((base, head), sides, strict=True)
    )
    before = record(
        measured_case(first, workload),
        commit=MAIN_COMMIT,
        run=RunIdentity(number=917, id=88123),
        repository=REPOSITORY,
        rules="training",
    )
    read = replace(then, base=first if first.launches else None)
    return run(
        Job(
            cases=(read,),
            workload=workload,
            policy=policy_file(rules="training"),
            commit=PULL_REQUEST_COMMIT,
            run=RunIdentity(number=918, id=88130),
            place=Place(repository=REPOSITORY, pull=12, pull_head=PULL_REQUEST_COMMIT),
        ),
        baselines=FolderBaselines.of_records([("ci-score.json", before)], asking=record()),
        publish=lambda _record: None,
        now=lambda: NOW,
    )


def _planted(path: Path) -> Record:
    """Both sides of one trace, of which the head lost a fusion; measured in turns."""
    tape, base = opened(path), _of_file(path)
    chance = random.Random(7)  # noqa: S311 - no secret
    plant = lost_fusion(Scene(tape, base, chance), PLANTED * base.avg_step_ms)
    assert plant is not None
    text = tape.text(with_jitter(tape, plant.edit, 0.01, chance))
    head = read_profile(ProfileSource(path.name, data=text))
    sides = launches("base", base.avg_step_ms, 8), launches("head", head.avg_step_ms, 8)
    return between("resnet50-ddp@a100", base, head, sides)


def _of_ranks(paths: Sequence[Path], slow: int | None = None) -> Profile:
    """One job; where a rank is slow, the others communicate until it has come."""
    sources = []
    for rank, path in enumerate(paths):
        tape = opened(path)
        edit = None if slow is None else _later(tape, path, is_slow=rank == slow)
        sources.append(ProfileSource(path.name, data=tape.text(edit)))
    return profile_of(sources, [read_profile(source) for source in sources])


def _later(tape: Tape, path: Path, *, is_slow: bool) -> Edit | None:
    read = _of_file(path)
    scene = Scene(tape, read, random.Random(7))  # noqa: S311 - no secret
    works = scene.compute() if is_slow else scene.works(lambda kind: kind == "comm")
    return scene.slower(works, SLOW_RANK * read.avg_step_ms)


def _of_file(path: Path) -> Profile:
    return read_profile(ProfileSource(path.name, path=path))

"""A run for its surroundings: in a GitHub job the Action, elsewhere with a folder of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ci_score.baselines import FolderBaselines
from ci_score.errors import WrongUseError
from ci_score.files.strict_json import dump
from ci_score.judge import exit_code
from ci_score.model.gate import Gate
from ci_score.model.record import RECORD_FILE, Record
from ci_score.report import sentence
from ci_score.run.context import World
from ci_score.run.job import checked_out, job_of_files
from ci_score.run.publishing import PAGE_FILE, REPORT_FILE, write_files, write_page
from ci_score.run.settings import Settings
from ci_score.run.story import run


def run_as_asked(settings: Settings, world: World) -> int:
    """The whole job, in a GitHub job or on a machine without one; returns the exit code."""
    if world.is_job:
        from ci_score.run.action import run_action

        return run_action(settings, world)
    return _run_here(settings, world)


def _run_here(settings: Settings, world: World) -> int:
    """One run, compared with the one before it, or with the records that the user names."""
    store, gate = _store(settings), Gate(settings.fail_on, settings.on_inconclusive)
    with world.reading:
        job = replace(
            job_of_files(settings, store),
            inputs=_without_places(settings.inputs),
            commit=checked_out(settings.workspace),
            run=store.next_run(),
            tracked=True,
            gate=gate,
        )
        record = run(
            job,
            baselines=store,
            publish=lambda _record: None,
            now=world.now,
            diffs=world.diffs,
        )
        kept = write_files(record, settings)
    if settings.baseline is None and _is_of_the_branch(record):
        store.save(record, dump(record))
    unwritten = write_page(kept, settings)
    world.show(kept)
    folder = settings.output_dir
    written = (RECORD_FILE, REPORT_FILE) if unwritten else (RECORD_FILE, REPORT_FILE, PAGE_FILE)
    world.say(f"written: {', '.join(str(folder / name) for name in written)}")
    if unwritten:
        world.say(sentence(unwritten))
    return exit_code(record, gate)


def _is_of_the_branch(record: Record) -> bool:
    """Whether later runs may be compared with it: a session's head is a change under review."""
    return any(case.baseline is None or not case.baseline.of_session for case in record.cases)


def _without_places(inputs: Mapping[str, str]) -> dict[str, str]:
    """The inputs that say how it is judged, and not where on a machine its files are."""
    return {name: text for name, text in inputs.items() if name not in ("baseline", "output-dir")}


def _store(settings: Settings) -> FolderBaselines:
    if settings.profile_artifact:
        raise WrongUseError("profile-artifact reads this run's artifacts, so it needs a GitHub job")
    folder = settings.baseline or settings.output_dir / "baselines"
    return FolderBaselines(folder, must_exist=settings.baseline is not None)

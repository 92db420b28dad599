"""`ci-score qualify`: what a gate on this machine can be trusted with."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ci_score.cli.session import (
    FOLDER,
    clock,
    machine_watch,
    run_session,
    say_lines,
    session_options,
    state_file,
    versions_of,
)
from ci_score.cli.voice import say
from ci_score.errors import WrongUseError
from ci_score.files.disk import write_atomically
from ci_score.judge.verdict import EXIT_OK, EXIT_UNJUDGED
from ci_score.launches.lines import Launch
from ci_score.measure.ab import Plan, Session, share_in_words
from ci_score.measure.environment import MachineWatch, git_state
from ci_score.measure.harness import Harness, harness_of
from ci_score.measure.qualify import (
    FALSE_FAIL,
    FILE,
    PAIRS,
    PLANTED,
    PLANTED_PAIRS,
    Qualification,
    qualified,
)
from ci_score.measure.recorder import PLANTED_VARIABLE


@click.command("qualify")
@click.option(
    "--dir", "folder", type=FOLDER, default=".", show_default=True, help="The code to run."
)
@session_options("qualification")
@click.option("--json", "as_json", is_flag=True, help="Print the record.")
def command(folder: Path, as_json: bool, **said: Any) -> int:
    """Find out what can be gated on this machine: an unchanged program, and planted slowdowns.

    The same program runs against itself, and against itself with steps made 5 % and 10 % longer
    (truly, where the harness uses ci_score.measure.Recorder; else in its numbers). A machine whose
    launches spread by up to 1 % can gate at 5 % (at 3 % up to half of that), up to 3 % at 10 %, and
    above that counters only. The record is valid for 30 days; `ci-score ab` passes it on, and a
    policy with `qualified = true` under [measure] demands it.

    \b
    Examples:
      ci-score qualify --harness "python bench.py"
      ci-score qualify --harness "python bench.py" --dir ../main --out machine --json
    """
    out: Path = said["out"].resolve()
    folder = folder.resolve()
    harness, watch = harness_of(said["harness"], folder, out), machine_watch()
    harness.refuse_unless_startable((folder,))
    seconds_left = clock(said["max_minutes"])
    series, last = {}, None
    for planted in (0.0, *PLANTED):
        session = last = _session(folder, harness, planted, out, said, watch, seconds_left)
        if not session.can_be_judged:
            say_lines(f"{session.stopped} ({len(session.pairs)} pairs): nothing is qualified")
            return EXIT_UNJUDGED
        series[planted] = [(_planted(head, planted), base) for head, base in session.pairs]
    machine = watch.seen(versions_of(last, harness) if last else {})
    found = qualified(series, machine)
    record = json.dumps(found.as_json(machine, datetime.now(UTC)), indent=2) + "\n"
    write_atomically(out / FILE, record)
    click.echo(record if as_json else text_of(found), nl=not as_json)
    say(f"written: {said['out'] / FILE}{_kept_for_this_machine(record)}")
    return EXIT_OK


def _session(
    folder: Path,
    harness: Harness,
    planted: float,
    out: Path,
    said: dict[str, Any],
    watch: MachineWatch,
    seconds_left: Callable[[], float],
) -> Session:
    plan = Plan(
        base=str(folder),
        head=str(folder),
        harness=harness.words,
        case=said["case"],
        # One look at the end: the spread is wanted, not a quick answer.
        looks=(PLANTED_PAIRS if planted else PAIRS,),
        false_fail=FALSE_FAIL,
        limit=planted,
        seed=said["seed"],
        timeout=said["timeout"],
        warmup_steps=said["warmup_steps"],
        tokens_per_step=said["tokens_per_step"],
        imports=harness.imports,
        programs={**git_state(folder), "harness": harness.digest},
        planted=True,
    )
    say(f"planted {_planted_share(planted)}:" if planted else "unchanged:")
    return run_session(
        plan,
        harness,
        out / f"planted-{planted:.0%}".replace("%", ""),
        fresh=said["fresh"],
        seconds_left=seconds_left,
        watch=watch,
        only_for_head={PLANTED_VARIABLE: str(planted)},
    )


def _planted(launch: Launch, share: float) -> Launch:
    """A harness without the Recorder is slowed down in its numbers."""
    if launch.planted:
        return launch
    longer = tuple(ms * (1 + share) for ms in launch.step_ms)
    return launch.model_copy(update={"step_ms": longer})


def _kept_for_this_machine(record: str) -> str:
    """Later sessions here find it without being told where; a machine without a home has none."""
    file = state_file()
    try:
        write_atomically(file, record)
    except WrongUseError:
        return ""
    return f", {file}"


def _share(share: float) -> str:
    return f"{share * 100:.2g} %"


def _planted_share(share: float) -> str:
    return f"+{_share(share)}"


def text_of(found: Qualification) -> str:
    """The record for people."""
    gate = f"times at {_share(found.gate_at)}" if found.gate_at else "counters only"
    spread = f"{100 * found.spread:.1f} %"
    lines = [f"launches of one program spread by {spread}: this machine can gate {gate}"]
    for row in found.found:
        what = f"planted {_planted_share(row.planted)}" if row.planted else "unchanged"
        said = "found" if row.caught else "not called slower" if not row.planted else "not proven"
        seen, low, high = map(share_in_words, (row.seen, row.low, row.high))
        lines.append(f"  {what:<13} {seen} ({low} to {high}): {said}")
    if not found.trusted:
        lines.append("not trusted: an unchanged program was called slower, or a slowdown missed")
    return "\n".join([*lines, *(f"  - {words}" for words in found.advice)])

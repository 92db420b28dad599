"""`ci-score qualify`: what a gate on this machine can be trusted with."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ci_score.cli.ab import FOLDER, harness_of, session_options
from ci_score.cli.ab import measured as measured_session
from ci_score.cli.voice import say
from ci_score.files import write_atomically
from ci_score.measure.ab import Plan, Session, opened
from ci_score.measure.environment import machine
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
from ci_score.measurements import Launch
from ci_score.noise import LEAST_PAIRS
from ci_score.verdict import EXIT_OK, EXIT_UNJUDGED


@click.command("qualify")
@click.option(
    "--dir", "folder", type=FOLDER, default=".", show_default=True, help="The code to run."
)
@session_options
@click.option("--json", "as_json", is_flag=True, help="Print the record.")
def command(folder: Path, as_json: bool, **said: Any) -> int:
    """Find out what can be gated on this machine: an unchanged program, and planted slowdowns.

    The same program runs against itself, and against itself with steps made 5 % and 10 % longer
    (truly, where the harness uses ci_score.measure.Recorder; else in its numbers). A machine whose
    launches spread by up to 1 % can gate at 5 %, up to 3 % at 10 %, and above that counters only.
    The record, qualification.json, is valid for 30 days; `ci-score ab --qualification` passes it
    on, and a policy with `qualified = true` under [measure] demands it.

    \b
    Examples:
      ci-score qualify --harness "python bench.py"
      ci-score qualify --harness "python bench.py" --dir ../main --out machine --json
    """
    out: Path = said["out"].resolve()
    series = {}
    for planted in (0.0, *PLANTED):
        session = _session(folder, planted, out, said)
        if len(session.pairs) < LEAST_PAIRS:
            say(f"too few pairs ({len(session.pairs)}): {session.stopped}")
            return EXIT_UNJUDGED
        series[planted] = [(_planted(head, planted), base) for head, base in session.pairs]
    here = machine()
    found = qualified(series, here)
    record = found.as_json(here, datetime.now(UTC))
    write_atomically(out / FILE, json.dumps(record, indent=2) + "\n")
    click.echo(json.dumps(record, indent=2) if as_json else text_of(found))
    say(f"written: {said['out'] / FILE}")
    return EXIT_OK


def _session(folder: Path, planted: float, out: Path, said: dict[str, Any]) -> Session:
    pairs = PLANTED_PAIRS if planted else PAIRS
    plan = Plan(
        base=str(folder.resolve()),
        head=str(folder.resolve()),
        harness=harness_of(said["harness"]),
        case=said["case"],
        # One look at the end: the spread is wanted, not a quick answer.
        looks=(pairs,),
        false_fail=FALSE_FAIL,
        limit=planted,
        seed=said["seed"],
        timeout=said["timeout"],
        warmup_steps=said["warmup_steps"],
        tokens_per_step=said["tokens_per_step"],
    )
    place = out / f"planted-{planted:.0%}".replace("%", "")
    session = opened(place, plan, fresh=said["fresh"])
    return measured_session(
        session, place, said["max_minutes"], {PLANTED_VARIABLE: str(planted)} if planted else {}
    )


def _planted(launch: Launch, share: float) -> Launch:
    """A harness without the Recorder is slowed down in its numbers."""
    if not share or launch.planted:
        return launch
    longer = tuple(ms * (1 + share) for ms in launch.step_ms)
    return launch.model_copy(update={"step_ms": longer, "planted": share})


def text_of(found: Qualification) -> str:
    """The record for people."""
    gate = f"can gate times at {found.gate_at:.0%}" if found.gate_at else "can gate counters only"
    lines = [f"launches of one program spread by {found.spread:.1%}: this machine {gate}"]
    for row in found.found:
        what = f"planted {row.planted:+.0%}" if row.planted else "unchanged"
        said = "found" if row.caught else "not called slower" if not row.planted else "not proven"
        lines.append(f"  {what:<13} {row.seen:+.1%} ({row.low:+.1%} to {row.high:+.1%}): {said}")
    if not found.trusted:
        lines.append("not trusted: an unchanged program was called slower, or a slowdown missed")
    return "\n".join([*lines, *(f"  - {words}" for words in found.advice)])

"""Run it as a process: `python -m tests.loopback_github --state state.json --log exchanges.jsonl`.

It prints its base URL, answers until it gets SIGTERM or SIGINT, and then writes the state
back to `--save`. The state's file is what `State.save` writes, with `faults` if there are any.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.loopback_github import faults
from tests.loopback_github.server import LOOPBACK, SIGNATURE_SECONDS, LoopbackGitHub
from tests.loopback_github.state import State


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop."""
    options = _parser().parse_args(arguments)
    data = json.loads(options.state.read_text(encoding="utf-8"))
    github = LoopbackGitHub(
        State.from_json(data),
        host=options.host,
        port=options.port,
        prefix=options.prefix,
        signature_seconds=options.signature_seconds,
        log=options.log,
    )
    for row in data.get("faults", []):
        github.interference.inject(*faults.from_json(row))
    _serve(github)
    if options.save:
        github.state.save(options.save)


def _serve(github: LoopbackGitHub) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with github:
        print(github.url, flush=True)  # noqa: T201 - the only thing it says
        stop.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="loopback_github", description="GitHub on loopback.")
    parser.add_argument("--state", type=Path, required=True, help="the state's JSON file")
    parser.add_argument("--host", default=LOOPBACK, help="the address to bind")
    parser.add_argument("--port", type=int, default=0, help="the API's port; 0 takes a free one")
    parser.add_argument("--prefix", default="", help="the API's path, such as /api/v3")
    parser.add_argument("--signature-seconds", type=float, default=SIGNATURE_SECONDS)
    parser.add_argument("--log", type=Path, help="a file for one JSON line an exchange")
    parser.add_argument("--save", type=Path, help="where the state goes in the end")
    return parser


if __name__ == "__main__":
    main()

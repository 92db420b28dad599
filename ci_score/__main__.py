"""`python -m ci_score`, and the `ci-score` command."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def main() -> None:
    """Runs the command line; whatever breaks on the way, the exit code is never 1 by accident."""
    code = 3
    try:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                # A terminal of another encoding shows a mark, and does not lose the verdict.
                stream.reconfigure(errors="replace")
        from ci_score.cli import execute

        code = execute(sys.argv[1:])
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - a broken installation is no regression
        _complain(error)
    _let_go_of_closed_streams()
    sys.exit(code)


def _complain(error: BaseException) -> None:
    with suppress(OSError):
        sys.stderr.write(f"ci-score broke: {type(error).__name__}: {error}\n")


def _let_go_of_closed_streams() -> None:
    """The interpreter flushes once more at its exit, and would make a failure its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()

"""`python -m ci_score`, and the `ci-score` command."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def main() -> None:
    """Runs the command line. If anything breaks, it exits with 3, because 1 means a regression."""
    code = 3
    try:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                # A terminal with another encoding shows `?` instead of losing the verdict.
                stream.reconfigure(errors="replace")
        from ci_score.cli import execute

        code = execute(sys.argv[1:])
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - a broken installation must not look like a regression
        _complain(error)
    _let_go_of_closed_streams()
    _leave_as_output(code)
    sys.exit(code)


def _complain(error: BaseException) -> None:
    with suppress(OSError):
        # On one line, and without `##[`: the runner of a workflow could read a command in it.
        words = ascii(str(error)).replace("##[", "# #[")
        sys.stderr.write(f"ci-score broke: {type(error).__name__}: {words}\n")


def _leave_as_output(code: int) -> None:
    """Leaves the exit code of `run` as an output of its step: a runner can lose a container's."""
    path = os.environ.get("GITHUB_OUTPUT")
    if path and sys.argv[1:2] == ["run"]:
        with suppress(OSError), open(path, "a", encoding="utf-8") as stream:  # noqa: PTH123 - as little as possible can break here
            stream.write(f"exit-code={code}\n")


def _let_go_of_closed_streams() -> None:
    """Keeps the interpreter's last flush from failing, which would replace our exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()

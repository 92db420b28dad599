"""`python -m ci_score`, and the `ci-score` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; whatever breaks on the way, the exit code is never 1 by accident."""
    try:
        from ci_score.cli import run
    except Exception as error:  # noqa: BLE001 - a broken installation is no regression
        sys.stderr.write(f"ci-score broke: it cannot be loaded ({type(error).__name__}: {error})\n")
        sys.exit(3)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

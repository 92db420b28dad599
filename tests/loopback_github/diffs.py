"""Two trees → the diff that git would print of them, with nothing renamed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff


def diff(base: Mapping[str, str], head: Mapping[str, str]) -> str:
    """All files that differ, in the order of their paths."""
    return "".join(
        _of_file(path, base.get(path), head.get(path))
        for path in sorted({*base, *head})
        if base.get(path) != head.get(path)
    )


def _of_file(path: str, before: str | None, now: str | None) -> str:
    was = "/dev/null" if before is None else f"a/{path}"
    called = "/dev/null" if now is None else f"b/{path}"
    mode = "new file mode 100644\n" if before is None else ""
    mode = "deleted file mode 100644\n" if now is None else mode
    hunks = unified_diff(
        (before or "").splitlines(keepends=True), (now or "").splitlines(keepends=True), was, called
    )
    return f"diff --git a/{path} b/{path}\n{mode}{''.join(hunks)}"

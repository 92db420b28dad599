"""Lines that were measured → where they stand in the commit whose files a reviewer sees.

A pull request is measured as merged into its base, and shown as its author pushed it.
"""

from __future__ import annotations

from ci_score.model.code_diff import CodeDiff, FileDiff, Hunk


def line_shown(diff: CodeDiff, file: str, line: int) -> tuple[str, int] | None:
    """The place of a measured line, by the diff from what is shown to what was measured.

    None where what is shown has no such line, or nobody knows.
    """
    if diff.state != "known":
        return None
    changed = next((one for one in diff.files if one.head == file), None)
    if changed is None:
        return file, line
    number = _base_line(changed, line)
    return (changed.base, number) if changed.base is not None and number is not None else None


def _base_line(changed: FileDiff, line: int) -> int | None:
    moved = 0
    for hunk in changed.hunks:
        if line < hunk.head_first:
            break
        if line < hunk.head_first + hunk.head_count:
            return _in_hunk(hunk, line)
        moved = hunk.base_first + hunk.base_count - hunk.head_first - hunk.head_count
    return line + moved


def _in_hunk(hunk: Hunk, line: int) -> int | None:
    """Both sides have the same lines beside those that are added or removed, in one order."""
    added, removed = set(hunk.added), set(hunk.removed)
    base = range(hunk.base_first, hunk.base_first + hunk.base_count)
    head = range(hunk.head_first, hunk.head_first + hunk.head_count)
    kept = zip(
        (one for one in head if one not in added),
        (one for one in base if one not in removed),
        strict=False,
    )
    return dict(kept).get(line)

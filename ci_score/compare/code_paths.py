"""The files that lines are said to be in → files of the repository, or none.

A launch with marks names them as the repository does. A trace has paths of another machine, which
may be cut at the front: only one that ends like a single file of the repository is that file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from ci_score.model.code_diff import CodeDiff, is_inside
from ci_score.model.step_code import Definition, StepCode

_NOT_OWN = frozenset({"site-packages", "dist-packages"})
Resolve = Callable[[str], str | None]


def with_paths(head: StepCode, base: StepCode, diff: CodeDiff) -> tuple[StepCode, StepCode]:
    """Both sides with files of the repository alone; what is in another has a name and no file."""
    if head.paths != "trace" and base.paths != "trace":
        return _resolved(head, _own), _resolved(base, _own)
    heads = diff.tracked or frozenset(one.head for one in diff.files if one.head)
    renamed = {one.head for one in diff.files} - {one.base for one in diff.files}
    bases = (diff.tracked - renamed).union(one.base for one in diff.files if one.base)
    return (
        _resolved(head, _finder(head, heads, is_whole=bool(diff.tracked))),
        _resolved(base, _finder(base, bases, is_whole=bool(diff.tracked))),
    )


def _resolved(code: StepCode, resolve: Resolve) -> StepCode:
    files = {one.file for one in code.definitions if one.file is not None}
    known = {file: resolve(file) for file in files}
    if all(known[file] == file for file in files):
        return code
    definitions = tuple(_with_file(one, known.get(one.file or "")) for one in code.definitions)
    lost = {
        place
        for place, one in enumerate(definitions)
        if one.file is None and code.definitions[place].file is not None
    }
    lines = tuple(
        line.but(line=None, first=None, last=None, text=None) if line.definition in lost else line
        for line in code.lines
    )
    return code.but(definitions=definitions, lines=lines)


def _with_file(one: Definition, file: str | None) -> Definition:
    if file is None:
        return one.but(file=None, first=None, last=None)
    return one.but(file=file)


def _own(path: str) -> str | None:
    return path if is_inside(path) else None


def _finder(code: StepCode, tracked: Iterable[str], *, is_whole: bool) -> Resolve:
    """Finds the one file whose path ends like one of a trace, or that ends like it.

    A trace's path that is not absolute was cut, or says nothing of the folders around: it needs all
    files of the repository to be told from others.
    """
    if code.paths != "trace":
        return _own
    wanted = {_parts(one.file)[-1] for one in code.definitions if one.file}
    # From the file's name outwards, so that what ends alike stands together.
    known = sorted(
        tuple(reversed(path.split("/"))) for path in tracked if path.rpartition("/")[2] in wanted
    )
    whole = frozenset(known)

    def found(path: str) -> str | None:
        parts = [part for part in _parts(path) if part != "."]
        if ".." in parts or _NOT_OWN.intersection(parts) or not parts:
            return None
        is_absolute = path.startswith("/") or parts[0].endswith(":")
        if not is_whole and not is_absolute:
            return None
        outwards = tuple(reversed(parts))
        own = {outwards[:size] for size in range(1, len(parts) + 1)} & whole
        if not is_absolute:
            place = bisect_left(known, outwards)
            near = known[place : place + 2]
            own.update(one for one in near if one[: len(parts)] == outwards)
        return "/".join(reversed(own.pop())) if len(own) == 1 else None

    return found


def _parts(path: str) -> list[str]:
    return path.replace("\\", "/").split("/")

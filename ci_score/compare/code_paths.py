"""The files that lines are said to be in → files of the repository, or none.

A launch with marks names them as the repository does. A trace has paths of another machine, which
may be cut at the front: only one that ends like a single file of the repository is that file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from ci_score.model.code_diff import CodeDiff, is_inside
from ci_score.model.step_code import Definition, StepCode

_NOT_OWN = frozenset({"site-packages", "dist-packages"})
Resolve = Callable[[str], str | None]


def with_paths(head: StepCode, base: StepCode, diff: CodeDiff) -> tuple[StepCode, StepCode]:
    """Both sides with files of the repository alone; what is in another has a name and no file."""
    heads = diff.tracked or frozenset(one.head for one in diff.files if one.head)
    renamed = {one.head for one in diff.files} - {one.base for one in diff.files}
    bases = (diff.tracked - renamed).union(one.base for one in diff.files if one.base)
    is_whole = bool(diff.tracked)
    return (
        _resolved(head, _by_suffix(heads, is_whole=is_whole)),
        _resolved(base, _by_suffix(bases, is_whole=is_whole)),
    )


def _resolved(code: StepCode, of_trace: Resolve) -> StepCode:
    resolve = of_trace if code.paths == "trace" else _own
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


def _by_suffix(tracked: Iterable[str], *, is_whole: bool) -> Resolve:
    """Finds the one file whose path ends like one of a trace, or that ends like it.

    A trace's path that is not absolute was cut, or says nothing of the folders around: it needs all
    files of the repository to be told from others.
    """
    by_name: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for path in tracked:
        parts = tuple(path.split("/"))
        by_name[parts[-1]].append(parts)

    def found(path: str) -> str | None:
        parts = tuple(part for part in path.replace("\\", "/").split("/") if part != ".")
        if ".." in parts or _NOT_OWN.intersection(parts) or not parts:
            return None
        is_absolute = path.startswith("/") or parts[0].endswith(":")
        if not is_whole and not is_absolute:
            return None
        own = [
            one
            for one in by_name.get(parts[-1], ())
            if one == parts[-len(one) :] or (not is_absolute and parts == one[-len(parts) :])
        ]
        return "/".join(own[0]) if len(own) == 1 else None

    return found

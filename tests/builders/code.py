"""Steps of small programs: their text, what some of their lines take, and the diff of two."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from ci_score.files.unified_diff import code_diff_of
from ci_score.model.code_diff import CodeDiff
from ci_score.model.step_code import CodeLine, CodeWork, Definition, StepCode, statement_digest

Files = Mapping[str, str]


@dataclass(frozen=True)
class At:
    """A line by a part of its text, with what it takes; `by` is the name of the caller."""

    text: str
    ms: float = 0.0
    launches: float = 10.0
    by: str | None = None
    python_ms: float = 0.0
    peak: int = 0
    through: str | None = None
    compiled: bool = False
    calls: float = 0.0
    backward: float = 0.0


def step_code(files: Files, *lines: At, **fields: Any) -> StepCode:
    """What the lines of these files take of a step."""
    definitions = [one for path, text in files.items() for one in definitions_of(path, text)]
    rows = []
    for one in lines:
        path, number = _line_of(files, one.text)
        around = [
            place
            for place, row in enumerate(definitions)
            if row.file == path and (row.first or 0) <= number <= (row.last or 0)
        ]
        first, last = _statement(files[path], number)
        caller = next((at for at, row in enumerate(definitions) if row.name == one.by), None)
        rows.append(
            CodeLine(
                definition=around[-1],
                line=number,
                first=first,
                last=last,
                text=statement_digest(files[path].split("\n")[first - 1 : last]),
                caller=caller,
                through=one.through,
                is_compiled=one.compiled,
                work=CodeWork(
                    forward_ms=one.ms,
                    forward_launches=one.launches,
                    backward_launches=one.backward,
                    python_ms=one.python_ms,
                    peak_bytes=one.peak,
                    calls=one.calls,
                ),
            )
        )
    known = {
        "total_ms": sum(one.ms for one in lines),
        "peak_bytes": sum(one.peak for one in lines),
    }
    code = StepCode(definitions=tuple(definitions), lines=tuple(rows), **(known | fields))
    # A launch knows what ran alone.
    named = {row for one in rows for row in (one.definition, one.caller) if row is not None}
    used = sorted(named)
    return code.but(
        definitions=tuple(definitions[row] for row in used),
        lines=tuple(
            one.but(
                definition=used.index(one.definition),
                caller=None if one.caller is None else used.index(one.caller),
            )
            for one in rows
        ),
    )


def _line_of(files: Files, text: str) -> tuple[str, int]:
    found = [
        (path, number)
        for path, whole in files.items()
        for number, line in enumerate(whole.split("\n"), 1)
        if text in line
    ]
    assert len(found) == 1, (text, found)
    return found[0]


def definitions_of(path: str, text: str) -> Iterator[Definition]:
    """The outer ones before those within them."""
    tree = ast.parse(text)
    yield Definition(name="<module>", file=path, first=1, last=len(text.split("\n")))

    def below(
        node: ast.AST, prefix: str, outer: tuple[int, int | None] | None = None
    ) -> Iterator[Definition]:
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                first = min([one.lineno, *(mark.lineno for mark in one.decorator_list)])
                name = prefix + one.name
                if isinstance(one, ast.FunctionDef):
                    yield Definition(
                        name=name,
                        file=path,
                        first=first,
                        last=one.end_lineno,
                        outer_first=outer[0] if outer else None,
                        outer_last=outer[1] if outer else None,
                    )
                inner = ".<locals>." if isinstance(one, ast.FunctionDef) else "."
                yield from below(one, name + inner, outer or (first, one.end_lineno))
            else:
                yield from below(one, prefix, outer)

    yield from below(tree, "")


def _statement(text: str, number: int) -> tuple[int, int]:
    """The innermost simple statement around a line, or that line of a compound one."""
    spans = [
        (one.lineno, one.end_lineno or one.lineno)
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.stmt) and not hasattr(one, "body")
    ]
    around = [span for span in spans if span[0] <= number <= span[1]]
    return min(around, key=lambda span: span[1] - span[0], default=(number, number))


def git_diff(base: Files, head: Files, renamed: Mapping[str, str] | None = None) -> bytes:
    """The diff as git writes it; `renamed` has the new name of an old file."""
    old_names = {new: old for old, new in (renamed or {}).items()}
    parts = []
    for path in sorted({*base, *head} - {*old_names.values()}):
        was = old_names.get(path, path)
        before, after = base.get(was), head.get(path)
        if before == after and was == path:
            continue
        parts.append(f"diff --git a/{was} b/{path}\n")
        if before is None:
            parts.append("new file mode 100644\n")
        if after is None:
            parts.append("deleted file mode 100644\n")
        if was != path:
            parts.append(f"rename from {was}\nrename to {path}\n")
        old_lines, new_lines = (
            [] if text is None else text.splitlines(keepends=True) for text in (before, after)
        )
        old = "/dev/null" if before is None else f"a/{was}"
        new = "/dev/null" if after is None else f"b/{path}"
        parts += [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in unified_diff(old_lines, new_lines, old, new)
        ]
    return "".join(parts).encode()


def diff_of(base: Files, head: Files, renamed: Mapping[str, str] | None = None) -> CodeDiff:
    """The diff of two states of the files."""
    return code_diff_of(git_diff(base, head, renamed))

"""Code with functions, and what its lines take of a step, as the launch with marks tells it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ci_score.model.step_code import (
    CodeLine,
    CodeWork,
    Definition,
    StepCode,
    statement_digest,
)


def step_code(files: Mapping[str, str], work: Mapping[tuple[str, int], CodeWork]) -> StepCode:
    """The lines of these files that do work, by path and number, in their definitions."""
    found = {path: list(_definitions(ast.parse(text))) for path, text in files.items()}
    rows = [one for path, of_file in found.items() for one in _rows(path, of_file)]
    places = {(one.file, one.name): place for place, one in enumerate(rows)}
    lines = []
    for (path, number), done in work.items():
        name, _, _ = _innermost(found[path], number)
        first, last = _statement(ast.parse(files[path]), number)
        text = statement_digest(files[path].splitlines()[first - 1 : last])
        lines.append(
            CodeLine(
                definition=places[path, name], line=number, first=first, last=last, text=text,
                work=done,
            )
        )  # fmt: skip
    return StepCode(
        definitions=tuple(rows),
        lines=tuple(lines),
        total_ms=sum(one.ms for one in work.values()),
        peak_bytes=sum(one.peak_bytes for one in work.values()),
    )


Found = tuple[str, int, int]


def _rows(path: str, found: list[Found]) -> Iterator[Definition]:
    for name, first, last in found:
        yield Definition(name=name, file=path, first=first, last=last)


def _definitions(tree: ast.AST, inside: str = "") -> Iterator[Found]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno
            yield f"{inside}{node.name}", node.lineno, node.end_lineno
        elif isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{inside}{node.name}.")


def _innermost(found: list[Found], number: int) -> Found:
    return min(
        (one for one in found if one[1] <= number <= one[2]), key=lambda one: one[2] - one[1]
    )


def _statement(tree: ast.AST, number: int) -> tuple[int, int]:
    """The first and the last line of the smallest statement with that line."""
    spans = [
        (node.end_lineno - node.lineno, node.lineno, node.end_lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.end_lineno and node.lineno <= number
        and number <= node.end_lineno
    ]  # fmt: skip
    _, first, last = min(spans)
    return first, last

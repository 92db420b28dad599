"""Functions and statements of a side's own files, by their syntax trees: no code is run.

A launch tells files and lines as it knows them, and it may lie. A file counts only where it lies in
the side's folder, and a line only where the function that stands there is the one that was told.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci_score.files.disk import open_plain
from ci_score.files.visible import plain
from ci_score.measure.machine.accelerators import HangsError, asked
from ci_score.measure.machine.environment import tree_of
from ci_score.model.step_code import LONGEST_PATH, statement_digest

# Parsing takes a hundred times the room of the text, and a second for a megabyte.
LARGEST_FILE, LARGEST_IN_ALL, MOST_FILES = 1 << 20, 8 << 20, 512
# A class may be called by half a megabyte, and every function in it begins with that.
LONGEST_NAME = 1000
MODULE = "<module>"
# The frames of these lie within a function that has a name.
_NAMELESS = re.compile(r"<(?:lambda|listcomp|setcomp|dictcomp|genexpr)>")
_INNER = re.compile(rf"(?:(?:^|\.)(?:<locals>\.)?{_NAMELESS.pattern})+$")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# What a file is made of: statements, and the parts of `try` and `match` that hold others.
_Block = ast.stmt | ast.ExceptHandler | ast.match_case


@dataclass(frozen=True, slots=True)
class Span:
    """Lines from the first to the last."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its qualified name, and the one around it.

    A class stands for what runs in its body, and the one around which there is none for the file.
    """

    name: str
    span: Span
    around: Function | None = None
    is_function: bool = False

    @property
    def outermost(self) -> Function | None:
        """The class, or the function, of the file that it is in; None of what is in neither."""
        outer = self.around
        while outer is not None and outer.around and outer.around.around:
            outer = outer.around
        return outer if outer is not None and outer.around else None

    def goes_by(self, name: str, first: int | None) -> bool:
        """Whether it is the function with that name, which begins at that line."""
        # Before Python 3.11 a frame has only the last part of its function's name.
        is_called_so = name in (self.name, self.name.rpartition(".")[2])
        return is_called_so and (self.around is None or first in (None, self.span.first))


@dataclass(frozen=True, slots=True)
class Statement:
    """The lines of a statement, or of a compound one's header, and a digest of their text."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """What a file says: its lines, and the innermost function and statement of each."""

    lines: Sequence[str]
    functions: Sequence[Function]
    statements: Sequence[Span | None]
    # A statement may be as long as the file, and thousands of calls may be told to stand in it.
    _digests: dict[Span, str] = field(default_factory=dict)

    def function_at(self, line: int, told: str, first: int | None) -> Function | None:
        """The innermost function around a line that has the name which was told.

        None where nothing there is called so: the file was changed since it was imported.
        """
        if line > len(self.lines):
            return None
        one: Function | None = self.functions[line - 1]
        if _NAMELESS.fullmatch(told):
            return one
        name = named(told)
        # A lambda begins at a line of its own, and only the function around it is known.
        begins = first if name == told else None
        while one is not None and not one.goes_by(name, begins):
            one = one.around
        return one

    def statement_at(self, line: int) -> Statement:
        """The innermost statement around a line of the file."""
        span = self.statements[line - 1] or Span(line, line)
        if span not in self._digests:
            self._digests[span] = statement_digest(self.lines[span.first - 1 : span.last])
        return Statement(span, self._digests[span])


def named(told: str) -> str:
    """The function with a name that a frame is part of: a lambda's is the one around it."""
    return _INNER.sub("", told) or MODULE


# --- the tree of a file ---------------------------------------------------------------------------


def text_of(data: bytes) -> Text | None:
    """What the bytes of a file say; None where they are no Python that this one reads."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return None
    lines = re.split(r"\r\n|\r|\n", text)
    module = Function(MODULE, Span(1, len(lines)))
    functions = [module] * len(lines)
    headers: list[Span] = []
    # Nesting is a stranger's: a chain of `elif` is as deep as it is long.
    waiting: list[tuple[ast.AST, Function]] = [(tree, module)]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            around = _within(around, node)
            _fill(functions, around.span, around)
        for inner in _blocks(node):
            headers.append(_header(inner))
            waiting.append((inner, around))
    statements: list[Span | None] = [None] * len(lines)
    for span in sorted(headers, key=lambda one: one.first - one.last):
        _fill(statements, span, span)
    return Text(lines, functions, statements)


def _fill(column: list[Any], span: Span, value: object) -> None:
    # What a line continues is one line more for the tree than for us.
    last = min(span.last, len(column))
    column[span.first - 1 : last] = [value] * (last - span.first + 1)


def _within(around: Function, node: _Named) -> Function:
    """A function or class with its qualified name, as Python's frames have it.

    Without one where that is too long: no frame is then known to be of it.
    """
    inner = f"<locals>.{node.name}" if around.is_function else node.name
    name = inner if around.around is None else f"{around.name}.{inner}"
    if not around.name or len(name) > LONGEST_NAME:
        name = ""
    return Function(
        name, Span(_begin(node), _end(node)), around, not isinstance(node, ast.ClassDef)
    )


def _blocks(node: ast.AST) -> Iterator[_Block]:
    """What stands directly within a node."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, name, ())
        if isinstance(inner, list):
            yield from inner


def _header(node: _Block) -> Span:
    """The lines of a statement; of a compound one those before its body."""
    begin = _begin(node)
    own = _own_parts(node)
    return Span(begin, _end(node) if own is None else max([begin, *map(_end, own)]))


def _own_parts(node: _Block) -> list[ast.AST] | None:
    """What a compound statement says before its body; None for a simple one."""
    if isinstance(node, _FUNCTIONS):
        return _known(node.decorator_list, _arguments(node.args), [node.returns])
    if isinstance(node, ast.ClassDef):
        return _known(node.decorator_list, node.bases, node.keywords)
    if isinstance(node, ast.With | ast.AsyncWith):
        return _known(*([one.context_expr, one.optional_vars] for one in node.items))
    if not hasattr(node, "body") and not isinstance(node, ast.Match):
        return None
    parts = [
        getattr(node, name, None)
        for name in ("test", "iter", "subject", "type", "pattern", "guard")
    ]
    return _known(parts)


def _arguments(node: ast.arguments) -> list[ast.AST | None]:
    return [
        *node.posonlyargs, *node.args, node.vararg, *node.kwonlyargs, node.kwarg,
        *node.defaults, *node.kw_defaults,
    ]  # fmt: skip


def _known(*parts: Sequence[ast.AST | None]) -> list[ast.AST]:
    return [one for part in parts for one in part if one is not None]


def _begin(node: _Block) -> int:
    """The first line, with decorators, as Python's own tracebacks count it."""
    if isinstance(node, ast.match_case):
        return int(node.pattern.lineno)
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _end(node: ast.AST) -> int:
    return int(getattr(node, "end_lineno", None) or 1)


# --- the files of a side --------------------------------------------------------------------------


@dataclass(slots=True)
class SideFiles:
    """The files of a side's folder, each read once.

    `prefix` is the folder's place in its repository, as `src/`; empty where it has none.
    """

    folder: Path
    prefix: str = ""
    _texts: dict[Path, Text | None] = field(default_factory=dict)
    _left: int = LARGEST_IN_ALL

    @classmethod
    def of(cls, folder: Path) -> SideFiles:
        """Those of a checkout, or of a folder that no repository knows."""
        real = Path(os.path.realpath(folder))
        return cls(real, prefix_of(real))

    def known(self, told: str) -> Path | None:
        """The real file that a launch has told of, if it lies in the folder and can be shown."""
        if not told or "\0" in told or not Path(told).is_absolute():
            return None
        try:
            path = Path(os.path.realpath(told))
            is_file = path.is_relative_to(self.folder) and path.is_file()
        except (OSError, ValueError):
            return None
        return path if is_file and self._is_presentable(path) else None

    def _is_presentable(self, path: Path) -> bool:
        name = self.name_of(path)
        return len(name) <= LONGEST_PATH and plain(name, LONGEST_PATH) == name

    def name_of(self, path: Path) -> str:
        """How the repository calls the file."""
        return self.prefix + path.relative_to(self.folder).as_posix()

    def text(self, path: Path) -> Text | None:
        """What the file says; None where it is too large, or no Python."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if len(self._texts) < MOST_FILES else None
        return self._texts[path]

    def _read(self, path: Path) -> Text | None:
        most = min(LARGEST_FILE, self._left)
        try:
            with open_plain(path) as stream:
                data = stream.read(most + 1)
        except OSError:
            return None
        if len(data) > most:
            return None
        self._left -= len(data)
        return text_of(data)


def prefix_of(folder: Path) -> str:
    """The folder's place in its repository; empty for the whole, and where git knows none.

    A folder that git ignores within somebody's work tree is not of that repository.
    """
    if not tree_of(folder):
        return ""
    try:
        return asked(["git", "-C", str(folder), "rev-parse", "--show-prefix"]).rstrip("\n")
    except (OSError, HangsError):
        return ""

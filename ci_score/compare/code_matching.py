"""Functions of base and head that are the same one, and in them the statements that are."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ci_score.compare.code_lines import DiffView, FileLines, Span
from ci_score.model.step_code import CodeLine, CodeWork, Definition, StepCode

T = TypeVar("T")
_NOTHING = CodeWork()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of one side, with all that it takes, whoever calls its function."""

    definition: int
    line: int | None
    span: Span | None
    through: str | None
    is_compiled: bool
    work: CodeWork


@dataclass(frozen=True, slots=True)
class CodeSide:
    """One side: its definitions, each once, their statements, callers and numbers of calls."""

    definitions: Sequence[Definition]
    statements: Sequence[Statement]
    callers: dict[tuple[int, int], CodeWork]
    calls: Mapping[int | None, float]

    @classmethod
    def of(cls, code: StepCode) -> CodeSide:
        """The rows of a step's code, of which any may repeat."""
        places = {one: place for place, one in reversed(list(enumerate(code.definitions)))}
        rows = [places[one] for one in code.definitions]
        callers: dict[tuple[int, int], CodeWork] = {}
        calls: dict[int | None, float] = defaultdict(float)
        of_statements: dict[Hashable, list[CodeLine]] = defaultdict(list)
        for line in code.lines:
            own = rows[line.definition]
            calls[own] += line.work.calls
            of_statements[(own, *_place_of(line))].append(line)
            if line.caller is not None and rows[line.caller] != own:
                key = (own, rows[line.caller])
                callers[key] = callers.get(key, _NOTHING).plus(line.work)
        statements = [
            _statement(rows[lines[0].definition], lines) for lines in of_statements.values()
        ]
        return cls(code.definitions, statements, callers, calls)

    def spans(self) -> Iterator[tuple[str, Span]]:
        """Every statement whose lines are known, with its file."""
        for one in self.statements:
            file = self.definitions[one.definition].file
            if file is not None and one.span is not None:
                yield file, one.span


def _place_of(line: CodeLine) -> tuple[Hashable, ...]:
    """What tells a statement from the others of its definition."""
    if line.line is None:
        return (None, line.through)
    if line.first is None or line.last is None or not line.first <= line.line <= line.last:
        return (line.line, line.line)
    return (line.first, line.last)


def _statement(definition: int, lines: Sequence[CodeLine]) -> Statement:
    work = lines[0].work
    for line in lines[1:]:
        work = work.plus(line.work)
    largest = max(lines, key=lambda line: line.work.ms)
    first, last = _place_of(largest)
    texts = {line.text for line in lines}
    has_span = isinstance(first, int) and isinstance(last, int)
    # Rows of one statement with several texts are nobody's.
    text = largest.text if len(texts) == 1 and largest.first == first else None
    return Statement(
        definition=definition,
        line=largest.line,
        span=Span(first, last, text) if has_span else None,  # type: ignore[arg-type]
        through=largest.through,
        is_compiled=any(line.is_compiled for line in lines),
        work=work,
    )


@dataclass(slots=True)
class Matches:
    """Rows of head's definitions with base's, and statements of head with base's."""

    definitions: dict[int, int] = field(default_factory=dict)
    statements: list[tuple[Statement | None, Statement | None]] = field(default_factory=list)


def matched(head: CodeSide, base: CodeSide, view: DiffView) -> Matches:
    """What of both sides is the same; each statement of either side is in one row."""
    pairs = _definitions(head, base, view)
    by_head, by_base = _by_definition(head), _by_definition(base)
    found = Matches(pairs)
    new, gone = [], []
    for place in range(len(head.definitions)):
        was = pairs.get(place)
        ours, theirs = by_head[place], by_base[was] if was is not None else []
        lines = None
        if was is not None:
            lines = view.lines_of(head.definitions[place].file, base.definitions[was].file)
        met = list(_met(ours, theirs, lines))
        found.statements += met
        new += _without([one for one, _ in met], ours)
        gone += _without([other for _, other in met], theirs)
    known = set(pairs.values())
    gone += [one for one in base.statements if one.definition not in known]
    moved = list(_moved(new, gone, head, base, view))
    found.statements += moved
    found.statements += [(one, None) for one in _without([one for one, _ in moved], new)]
    found.statements += [(None, one) for one in _without([other for _, other in moved], gone)]
    return found


def _by_definition(side: CodeSide) -> dict[int, list[Statement]]:
    rows: dict[int, list[Statement]] = defaultdict(list)
    for one in side.statements:
        rows[one.definition].append(one)
    for statements in rows.values():
        statements.sort(key=_order)
    return rows


def _order(one: Statement) -> tuple[int, int, str]:
    return (one.span.first, one.span.last, "") if one.span else (0, 0, one.through or "")


def _without(taken: Iterable[T], rows: Iterable[T]) -> list[T]:
    known = {id(one) for one in taken}
    return [one for one in rows if id(one) not in known]


# --- definitions ----------------------------------------------------------------------------------


def _definitions(head: CodeSide, base: CodeSide, view: DiffView) -> dict[int, int]:
    """The head's rows with the base's: by file and name, else by name alone, else by their body."""
    pairs: dict[int, int] = {}
    ours, theirs = set(range(len(head.definitions))), set(range(len(base.definitions)))

    def name_here(place: int) -> Hashable:
        one = head.definitions[place]
        return one.file, one.name

    def name_there(place: int) -> Hashable:
        one = base.definitions[place]
        if one.file is None:
            return None, one.name
        file = view.head_file(one.file)
        # What stood in a file that is gone is in no file of head, and in no library.
        return (file, one.name) if file else (one.file, one.name, "gone")

    def take(found: Iterable[tuple[int, int]]) -> None:
        for place, was in found:
            pairs[place] = was
            ours.discard(place)
            theirs.discard(was)

    take(_in_order(sorted(ours), sorted(theirs), name_here, name_there, head, base))
    ours = {place for place in ours if head.definitions[place].file}
    theirs = {place for place in theirs if base.definitions[place].file}
    take(_unique(ours, theirs, lambda at: _name(head, at), lambda at: _name(base, at)))
    here, there = _bodies(head, ours), _bodies(base, theirs)
    take(_unique(ours, theirs, here.get, there.get))
    take(_by_lines(head, base, ours, theirs, view))
    return pairs


def _name(side: CodeSide, place: int) -> Hashable:
    name = side.definitions[place].name
    # Every file has one of these.
    return None if not name or name.startswith("<") else name


def _in_order(
    ours: Sequence[int],
    theirs: Sequence[int],
    here: Callable[[int], Hashable],
    there: Callable[[int], Hashable],
    head: CodeSide,
    base: CodeSide,
) -> Iterator[tuple[int, int]]:
    """Definitions of one file and name; several of them in their order, if they are as many."""
    groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place in ours:
        groups[here(place)][0].append(place)
    for place in theirs:
        groups[there(place)][1].append(place)
    for now, before in groups.values():
        if len(now) == len(before):
            now.sort(key=lambda place: head.definitions[place].first or 0)
            before.sort(key=lambda place: base.definitions[place].first or 0)
            yield from zip(now, before, strict=True)


def _unique(
    ours: Iterable[int],
    theirs: Iterable[int],
    here: Callable[[int], Hashable | None],
    there: Callable[[int], Hashable | None],
) -> list[tuple[int, int]]:
    """Pairs with a key that one alone has on each side."""
    now, before = _alone(ours, here), _alone(theirs, there)
    return [(place, before[key]) for key, place in now.items() if key in before]


def _alone(places: Iterable[T], key_of: Callable[[T], Hashable | None]) -> dict[Hashable, T]:
    groups: dict[Hashable, list[T]] = defaultdict(list)
    for place in places:
        key = key_of(place)
        if key is not None:
            groups[key].append(place)
    return {key: rows[0] for key, rows in groups.items() if len(rows) == 1}


def _bodies(side: CodeSide, places: set[int]) -> dict[int, Hashable]:
    """The texts of a definition's statements, where all are known."""
    by_definition = _by_definition(side)
    bodies: dict[int, Hashable] = {}
    for place in places:
        texts = tuple(one.span.text if one.span else None for one in by_definition[place])
        if texts and None not in texts:
            bodies[place] = texts
    return bodies


def _by_lines(
    head: CodeSide, base: CodeSide, ours: set[int], theirs: set[int], view: DiffView
) -> list[tuple[int, int]]:
    """Renamed definitions: at least half of the lines of the old one are in the new one."""
    by_file: dict[str | None, list[int]] = defaultdict(list)
    for place in sorted(ours):
        by_file[head.definitions[place].file].append(place)
    rows = _by_definition(base)
    met = []
    for was in sorted(theirs):
        there = base.definitions[was]
        file = view.head_file(there.file) if there.file else None
        lines = view.lines_of(file, there.file)
        known = [one.line for one in rows[was] if one.line is not None]
        if lines is None or not known:
            continue
        now = [at for at in map(lines.head_line, known) if at is not None]
        for place in by_file[file]:
            one = head.definitions[place]
            inside = sum((one.first or 0) <= at <= (one.last or 0) for at in now)
            if 2 * inside >= len(known):
                met.append((place, was))
    here, there_rows = _alone(met, lambda pair: pair[0]), _alone(met, lambda pair: pair[1])
    return [pair for pair in met if pair[0] in here and pair[1] in there_rows]


# --- statements -----------------------------------------------------------------------------------


Pair = tuple[Statement, Statement]


def _met(
    ours: Sequence[Statement], theirs: Sequence[Statement], lines: FileLines | None
) -> Iterator[Pair]:
    """The statements of a definition that are the same, the surest pairs first."""
    steps: tuple[Callable[[Sequence[Statement], Sequence[Statement]], list[Pair]], ...] = (
        _without_lines,
        lambda now, before: _through_diff(now, before, lines),
        lambda now, before: _equally_many(now, before, _text_of, _text_of),
        lambda now, before: _in_hunks(now, before, lines),
    )
    for step in steps:
        found = step(ours, theirs)
        yield from found
        ours = _without([one for one, _ in found], ours)
        theirs = _without([other for _, other in found], theirs)


def _without_lines(ours: Sequence[Statement], theirs: Sequence[Statement]) -> list[Pair]:
    """What has no line is the same if it goes through the same function of a library."""

    def key(one: Statement) -> Hashable | None:
        return (one.through,) if one.span is None else None

    return _equally_many(ours, theirs, key, key)


def _through_diff(
    ours: Sequence[Statement], theirs: Sequence[Statement], lines: FileLines | None
) -> list[Pair]:
    """Statements with a call on a line that is the same one by the diff.

    Without a diff, and without a text, equal numbers are all that there is.
    """
    known = sorted((one for one in ours if one.span is not None), key=_order)
    firsts = [_order(one)[0] for one in known]
    pairs, taken = [], set()
    for other in theirs:
        if other.line is None or other.span is None:
            continue
        if lines is not None:
            now = lines.head_line(other.line)
        else:
            now = other.line if other.span.text is None else None
        place = bisect_right(firsts, now) - 1 if now is not None else -1
        if now is None or place < 0 or place in taken:
            continue
        span = known[place].span
        if span is not None and now <= span.last:
            taken.add(place)
            pairs.append((known[place], other))
    return pairs


def _text_of(one: Statement) -> Hashable | None:
    return one.span.text if one.span else None


def _equally_many(
    ours: Sequence[Statement],
    theirs: Sequence[Statement],
    here: Callable[[Statement], Hashable | None],
    there: Callable[[Statement], Hashable | None],
) -> list[Pair]:
    """Statements with one key, in their order where there are as many of them on both sides."""
    groups: dict[Hashable, tuple[list[Statement], list[Statement]]] = defaultdict(lambda: ([], []))
    for side, rows, key_of in ((0, ours, here), (1, theirs, there)):
        for one in rows:
            key = key_of(one)
            if key is not None:
                groups[key][side].append(one)
    return [
        pair
        for now, before in groups.values()
        if len(now) == len(before)
        for pair in zip(now, before, strict=True)
    ]


def _in_hunks(
    ours: Sequence[Statement], theirs: Sequence[Statement], lines: FileLines | None
) -> list[Pair]:
    """Lines that went and lines that came in one hunk, in order where they are as many."""
    if lines is None:
        return []

    def here(one: Statement) -> Hashable | None:
        added = lines.first_added(one.span) if one.span else None
        hunk = lines.head_hunk(added) if added is not None else None
        return hunk.head_first if hunk else None

    def there(one: Statement) -> Hashable | None:
        removed = lines.first_removed(one.span) if one.span else None
        hunk = lines.base_hunk(removed) if removed is not None else None
        return hunk.head_first if hunk else None

    return _equally_many(ours, theirs, here, there)


def _moved(
    new: Sequence[Statement],
    gone: Sequence[Statement],
    head: CodeSide,
    base: CodeSide,
    view: DiffView,
) -> Iterator[Pair]:
    """A statement that now stands in another definition, if its text is there once on each side."""

    def bare_head(one: Statement) -> Hashable | None:
        return bare_text(view, head.definitions[one.definition].file, one, is_head=True)

    def bare_base(one: Statement) -> Hashable | None:
        return bare_text(view, base.definitions[one.definition].file, one, is_head=False)

    keys = ((_text_of, _text_of), (bare_head, bare_base))
    for here, there in keys:
        now, before = _alone(new, here), _alone(gone, there)
        found = [(one, before[key]) for key, one in now.items() if key in before]
        yield from found
        new = _without([one for one, _ in found], new)
        gone = _without([other for _, other in found], gone)


def bare_text(
    view: DiffView, file: str | None, one: Statement, *, is_head: bool
) -> tuple[str, ...] | None:
    """A statement's lines without what they are indented by, where the diff has all of them."""
    lines = (view.by_head if is_head else view.by_base).get(file or "")
    if lines is None or one.span is None or lines.head in view.contradicted:
        return None
    text = lines.head_text(one.span) if is_head else lines.base_text(one.span)
    return tuple(line.strip() for line in text) if text else None

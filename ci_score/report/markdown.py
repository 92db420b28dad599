"""Record → markdown for people: the comment, the job summary and the report file.

The open part says what is slower, how much, how sure and why. Everything else stands in folds, and
is added while it fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ci_score.model.lists import plural
from ci_score.model.metrics import significant, time_change
from ci_score.model.record import DEFAULT_CASE, Judged, Record
from ci_score.model.verdict import Outcome
from ci_score.report import code_rows, escape, links, memory_words, reproducing, rows, words
from ci_score.report.headlines import (
    Headline,
    faster_cases,
    short_why,
    told_of,
    told_of_report,
    worst_first,
)
from ci_score.report.kernel_names import LONGEST_LABEL, op_label
from ci_score.report.names_of_case import LONGEST_CASE_NAME
from ci_score.report.numbers import common_places, delta_at, milliseconds

if TYPE_CHECKING:
    from jinja2.environment import TemplateModule

SHOWN_LAYERS = 16
LONGEST_UNBROKEN = 32
# The improvements that are named in the open part.
NAMED_FASTER = 8
LEFT_OUT = (
    "\n\n<sub>Left out for length: some of the details. The report and the record in the run's"
    " artifacts have everything.</sub>\n"
)
# A comment is cut so long before its limit that the words about what is left out still fit.
FOR_THE_END = 300
# What stands in the fold "Everything else", the most important first.
FOLDED = (
    "not_judged", "card", "code", "ops", "hotspots", "layers", "ranks", "parity",
    "environment", "notes",
)  # fmt: skip
_BLANK_LINES = re.compile(r"\n{3,}")


def report_markdown(record: Record, title: str = "", *, limit: int | None = None) -> str:
    """The whole report: the verdict first, what matters next, the rest folded.

    Within `limit` bytes of UTF-8, which are never fewer than characters.
    """
    report = _Report(record, title)
    text = _tidy("".join(report.within(limit if limit is not None else 1 << 62)))
    if limit is None or len(text.encode()) <= limit:
        return text
    return text.encode()[:limit].decode(errors="ignore")


def _tidy(text: str) -> str:
    # Sections have their own blank lines, and a stranger's text has no line breaks.
    return _BLANK_LINES.sub("\n\n", text).strip("\n") + "\n"


def _size(text: str) -> int:
    return len(text.encode())


class _Report:
    """The pieces of a report, and which of them fit."""

    def __init__(self, record: Record, title: str) -> None:
        self._record, self._cases = record, worst_first(record)
        self._lacks_something = False
        self._judged = bool(
            record.unjudged or not record.cases or any(case.verdict for case in record.cases)
        )
        attention = [case for case in self._cases if _needs_attention(case)]
        self._attention = attention
        self._pieces = _pieces(record, only=len(attention) == 1)
        self._opening = self._piece("heading", *self._heading(title)) + self._piece(
            "links", link_line(record)
        )

    def _piece(self, name: str, *values: object) -> str:
        text: str = getattr(self._pieces, name)(*values)
        return text

    def _heading(self, title: str) -> tuple[object, ...]:
        record = self._record
        icon = words.icon_of_report(record)
        only = record.cases[0].name if len(record.cases) == 1 else DEFAULT_CASE
        name = only if only != DEFAULT_CASE else ""
        told = told_of_report(record)
        if self._cases:
            told = _linked(told, record, self._cases[0])
        return self._judged, icon, title, told, name

    def within(self, limit: int) -> Iterator[str]:
        """The pieces that fit, in their order."""
        if self._judged and len(self._cases) > 1:
            yield from self._of_several(limit - FOR_THE_END)
        else:
            yield from self._of_each(limit - FOR_THE_END)
        if self._lacks_something:
            yield LEFT_OUT

    def _of_each(self, limit: int) -> Iterator[str]:
        """The one case of a report, or cases that were only described."""
        yield self._opening
        left = limit - _size(self._opening)
        several = len(self._cases) > 1
        for number, case in enumerate(self._cases):
            head = f"\n#### {escape.code(case.name)}\n\n" if several else ""
            open_part = head + self._piece("body", case)
            if _size(open_part) > left:
                self._lacks_something = True
                yield _more(len(self._cases) - number) if several else ""
                return
            folds = self._folds(case, left - _size(open_part))
            yield open_part + folds
            left -= _size(open_part + folds)

    def _of_several(self, limit: int) -> Iterator[str]:
        """A row for each case that did not pass, then each of them whole, while they fit."""
        end = "".join(self._tail(limit // 4))
        left = limit - _size(self._opening) - _size(end)
        yield self._opening
        rows_of_all = self._overview(left)
        yield rows_of_all
        left -= _size(rows_of_all)
        for number, case in enumerate(self._attention):
            block = self._block(case, left)
            if not block:
                self._lacks_something = True
                yield _more(len(self._attention) - number)
                break
            left -= _size(block)
            yield block
        yield end

    # --- the table of what did not pass -----------------------------------------------------------

    def _overview(self, limit: int) -> str:
        """All that did not pass, by a row each; where that is too long, the last ones by name."""
        if not self._attention:
            return self._faster()
        page = self._record.page
        for address in (page, None) if page else (None,):
            shown = self._rows(self._attention, address)
            text = self._piece("table_head") + "".join(shown)
            if _size(text) <= limit:
                return text + self._faster()
        text = self._piece("table_head")
        for number, row in enumerate(shown):
            rest = self._names(self._attention[number + 1 :])
            if _size(text) + _size(row) + _size(rest) > limit:
                return text + self._names(self._attention[number:])
            text += row
        return text + self._faster()

    def _rows(self, cases: Iterable[Judged], page: str | None) -> list[str]:
        return [
            self._piece("table_row", case, f"{page}#case-{case.name}" if page else "")
            for case in cases
        ]

    def _names(self, cases: Sequence[Judged]) -> str:
        """`12 more fail` with their names, by verdict."""
        groups = rows.by_outcome(cases)
        return "".join(
            self._piece("names", count, [case.name for case in listed]) for count, listed in groups
        )

    def _faster(self) -> str:
        faster = faster_cases(self._record)
        if not faster:
            return ""
        verb = "is" if len(faster) == 1 else "are"
        count = f"{len(faster)} of {len(self._cases)} cases {verb} faster"
        more = len(faster) - NAMED_FASTER
        text = self._piece("names", count, [case.name for case in faster[:NAMED_FASTER]])
        return text.rstrip("\n") + (f" and {more} more\n" if more > 0 else "\n")

    # --- whole cases ------------------------------------------------------------------------------

    def _block(self, case: Judged, limit: int) -> str:
        """A case with its folds, or without them; empty where not even that fits."""
        head, end = self._piece("block_head", case) + self._piece("body", case), "\n\n</details>\n"
        if _size(head + end) > limit:
            return ""
        return head + self._folds(case, limit - _size(head + end)) + end

    def _folds(self, case: Judged, limit: int) -> str:
        """What to do next, and everything else, as far as it fits."""
        steps = self._piece("next_steps", case)
        if _size(steps) > limit:
            steps, self._lacks_something = "", True
        begin, end = "\n\n<details><summary>Everything else</summary>\n", "\n\n</details>\n"
        left, inner = limit - _size(steps) - _size(begin + end), ""
        for name in FOLDED:
            section = _BLANK_LINES.sub("\n\n", self._piece(name, case))
            if _size(inner + section) <= left:
                inner += section
            else:
                self._lacks_something = True
        return steps + (begin + inner + end if inner.strip() else "")

    # --- what passed ------------------------------------------------------------------------------

    def _tail(self, limit: int) -> Iterator[str]:
        """One fold for all that passed, and one for what is new."""
        new = [case for case in self._cases if _is_new(case)]
        passed = [
            case for case in self._cases if case.verdict and case.verdict.outcome is Outcome.PASS
        ]
        for cases, one, several in ((new, "is new", "are new"), (passed, "passes", "pass")):
            if not cases:
                continue
            many = len(cases) > 1
            title = f"{len(cases)} case{'s' if many else ''} {several if many else one}"
            whole = self._piece("passing", title, cases, True)
            short = self._piece("passing", title, cases, False)
            yield next((text for text in (whole, short) if _size(text) <= limit), f"\n\n{title}.\n")


def _more(count: int) -> str:
    return f"\n\n{plural(count, 'more case')} in the report.\n\n"


def _is_new(case: Judged) -> bool:
    return case.verdict is not None and case.verdict.unjudged in words.NEW


def _needs_attention(case: Judged) -> bool:
    verdict = case.verdict
    return verdict is not None and verdict.outcome is not Outcome.PASS and not _is_new(case)


# --- links ----------------------------------------------------------------------------------------


def link_line(record: Record) -> list[escape.Safe]:
    """`[Report](…)`, `[This run](…)`, the commits of both sides and the run of the base."""
    run = links.run_link(record, record.run)
    shown = [
        _link("Report", record.page or ""),
        _link("This run", run),
        _commit("head", head := links.shown_commit(record), links.commit_link(record, head)),
    ]
    used = {
        (commit, case.baseline.run): case.baseline
        for case in record.cases
        if case.baseline and (commit := links.base_commit(case))
    }
    if len(used) == 1:
        (((name, _), base),) = used.items()
        commit = _commit("base", name, links.baseline_commit_link(record, base))
        at = links.baseline_run_link(record, base)
        in_run = f" ([run {base.run.number}]({at}))" if base.run and at else ""
        shown.append(escape.Safe(f"{commit}{in_run}"))
    return [one for one in shown if one]


def _link(name: str, address: str) -> escape.Safe:
    return escape.Safe(f"[{name}]({address})" if address else "")


def _commit(side: str, commit: str | None, address: str) -> escape.Safe:
    if not commit:
        return escape.Safe("")
    shown = escape.code(commit[: words.SHORT_SHA])
    return escape.Safe(f"{side} [{shown}]({address})" if address else f"{side} {shown}")


def _linked(told: Headline, record: Record, case: Judged) -> Headline:
    return replace(told, cause=links.linked(told.cause, record, case))


# --- the templates --------------------------------------------------------------------------------


def _unbroken(value: str) -> str:
    """A number and its unit on one line, however narrow the table; a sentence may break."""
    return value if len(value) > LONGEST_UNBROKEN else value.replace(" ", "\u00a0")


def _pieces(record: Record, *, only: bool) -> TemplateModule:
    """The macros of a report, which know its record."""
    values = {
        "record": record,
        "here": words.head_word(record),
        "only": only,
        "told_of": lambda case: _linked(told_of(case), record, case),
        "why": lambda case: links.linked(short_why(case), record, case),
    }
    return _template("report.md.j2").make_module(values)


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("ci_score.report"),
        # Autoescaping is for HTML. Here every value is escaped for markdown on output instead.
        autoescape=False,  # noqa: S701 - escaped for markdown
        finalize=escape.text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        words=words,
        rows=rows,
        reproducing=reproducing,
        code_rows=code_rows.code_rows,
        code_notes=code_rows.code_notes,
        more_code=code_rows.more_code,
        FEW=code_rows.FEW,
        needs_memory=memory_words.needs_memory,
        is_memory_alone=memory_words.is_memory_alone,
        memory_rows=memory_words.memory_rows,
        memory_bars=memory_words.memory_bars,
        memory_title=memory_words.memory_title,
        time_change=time_change,
        common_places=common_places,
        SHOWN_LAYERS=SHOWN_LAYERS,
    )
    environment.filters.update(_FILTERS)
    return environment.get_template(name)


_FILTERS: dict[str, Callable[..., object]] = {
    # The output of a macro is escaped already.
    "rendered": escape.Safe,
    "capitalized": lambda text: text[:1].upper() + text[1:],
    "code": escape.code,
    "unbroken": _unbroken,
    "cell": escape.cell,
    "sentence_cell": escape.sentence_cell,
    "label_cell": lambda label: escape.cell(label, LONGEST_CASE_NAME),
    "op_cell": lambda name, origin=None: escape.cell(op_label(name, origin), LONGEST_LABEL),
    "paragraph": escape.paragraph,
    "ms": milliseconds,
    "tok_s": lambda value: significant(value, "tok/s"),
    "delta_at": delta_at,
}

"""A record that is too large for its limit → the most of it that fits.

What a page shows goes first, case by case, those that pass before those that fail. What judges goes
last: means of launches, and the history of what is gated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ci_score.baselines.histories import join_histories
from ci_score.baselines.record_text import as_written, case_as_written, refer
from ci_score.files.strict_json import dump
from ci_score.model.record import KEPT_POINTS, HistoryPoint, Judged, Record
from ci_score.model.verdict import Outcome

# What a judgement and a trend look at; of older points only the times stay.
JUDGED_POINTS = 140
# A report draws the course of an op over at most so many.
POINTS_WITH_OPS = 60
# As many as a proof needs by default.
PROVING_POINTS = 83
FEW_POINTS = 30
# Of each side: far more than a session measures.
KEPT_LAUNCHES = 64
# As many as sessions measure by default, and some more.
LEAST_LAUNCHES = 24
KEPT_LAYERS = 128
# Of a failing case so many ops stay.
LEAST_OPS = 16
# Of the code so many lines stay, before none does.
LEAST_LINES = 24

CaseCut = Callable[[Judged], Judged]
RecordCut = Callable[[Record], Record]


def fitting(record: Record, limit: int) -> tuple[Record, str]:
    """What is left of the record, and its one line of no more characters than the limit.

    That old points lose their metrics and ops costs nobody anything, so it comes first.
    """
    draft = _Draft(_points_at_most(KEPT_POINTS)(record), limit)
    if not draft.fits:
        draft = _Draft(_without_ops_of_points(draft.record), limit)
    if not draft.fits:
        # Where all cuts of all cases would not do, nothing is gained by trying one after the other.
        least = _Draft(_of_all_cases(_with_all_cuts)(draft.record), limit)
        draft = draft.cut_by_case() if least.fits else least
    for smaller in _OF_A_RECORD:
        if draft.fits:
            break
        draft = _Draft(smaller(draft.record), limit)
    return draft.record, draft.text


class _Draft:
    """A record and its text, which gets shorter case by case."""

    def __init__(self, record: Record, limit: int) -> None:
        self.record, self._limit = record, limit
        self._write()

    def _write(self) -> None:
        value = as_written(self.record)
        self._sizes = [len(dump(case, indent=None)) for case in value["cases"]]
        self._texts = {text: place for place, text in enumerate(value["texts"])}
        self.text = dump(value, indent=None)

    @property
    def fits(self) -> bool:
        """Whether its text is short enough."""
        return len(self.text) <= self._limit

    def cut_by_case(self) -> _Draft:
        """What goes first is taken from one case after the other, until the rest fits."""
        for cut in _OF_A_CASE:
            if self.fits:
                break
            self._cut_cases(cut)
        return self

    def _cut_cases(self, cut: CaseCut) -> None:
        """Cuts one case after the other until enough is saved, the best verdict first."""
        cases, too_long = list(self.record.cases), len(self.text) - self._limit
        for place in sorted(range(len(cases)), key=lambda place: _rank(cases[place])):
            if too_long <= 0:
                break
            cases[place] = cut(cases[place])
            value = case_as_written(cases[place])
            refer(value, self._texts)
            too_long -= self._sizes[place] - len(dump(value, indent=None))
        self.record = self.record.but(cases=tuple(cases))
        self._write()


def _rank(case: Judged) -> int:
    """The place of its verdict, from the best; a case without one counts as the best."""
    return list(Outcome).index(case.verdict.outcome) if case.verdict else 0


# --- what goes, in this order ---------------------------------------------------------------------


def _fails(case: Judged) -> bool:
    return case.verdict is not None and case.verdict.outcome is Outcome.FAIL


def _with_all_cuts(case: Judged) -> Judged:
    for cut in _OF_A_CASE:
        case = cut(case)
    return case


def _without_layers(case: Judged) -> Judged:
    base = case.base.but(step_ops=case.base.step_ops.without_layers()) if case.base else None
    return case.but(step_ops=case.step_ops.without_layers(), base=base)


def _ops_with(share: float) -> CaseCut:
    def cut(case: Judged) -> Judged:
        base = case.base.but(step_ops=case.base.step_ops.with_share(share)) if case.base else None
        return case.but(step_ops=case.step_ops.with_share(share), base=base)

    return cut


def _ops_at_most(most: int) -> CaseCut:
    def cut(case: Judged) -> Judged:
        base = case.base.but(step_ops=case.base.step_ops.largest(most)) if case.base else None
        return case.but(step_ops=case.step_ops.largest(most), base=base)

    return cut


def _few_layers(case: Judged) -> Judged:
    summary = case.scorecard.per_layer_summary[:KEPT_LAYERS]
    return case.but(scorecard=case.scorecard.but(per_layer_summary=summary))


def _without_host(case: Judged) -> Judged:
    return case.but(op_calls={}, host_gaps=(), idle_ranges={})


def _without_shapes(case: Judged) -> Judged:
    """What is left of a case explains it in words and sums alone."""
    card = case.scorecard.but(per_layer_summary=(), hotspot_ops=())
    base = case.base.but(layers=(), forward_ms=(), backward_ms=()) if case.base else None
    return _without_host(case).but(scorecard=card, base=base, parity=None)


def _without_details(case: Judged) -> Judged:
    """Of a failing case its explanation stays, and its largest ops."""
    if _fails(case):
        return case
    return _without_shapes(case).but(step_ops=_NO_OPS, base=None, phases={}, explanation=None)


def _without_explanation(case: Judged) -> Judged:
    return _without_shapes(case).but(step_ops=_NO_OPS, base=None, phases={}, explanation=None)


def _fewer_lines(case: Judged) -> Judged:
    """What of a step's code is small goes, and of a case that does not fail what changed in it."""
    code = case.code.largest(LEAST_LINES) if case.code else None
    return _without_changes_of_code(case).but(code=code)


def _without_code(case: Judged) -> Judged:
    if _fails(case):
        return case.but(code=None)
    base = case.base.but(peak_ops={}) if case.base else None
    return _without_changes_of_code(case).but(code=None, peak_ops={}, base=base)


def _without_changes_of_code(case: Judged) -> Judged:
    """What explains a failing case stays."""
    if _fails(case) or case.explanation is None or case.explanation.code is None:
        return case
    return case.but(explanation=case.explanation.but(code=None))


def _launches_at_most(most: int) -> CaseCut:
    def cut(case: Judged) -> Judged:
        by_side = ([one for one in case.launches if one.side == side] for side in ("head", "base"))
        return case.but(launches=tuple(launch for side in by_side for launch in side[:most]))

    return cut


def _points_at_most(most: int) -> RecordCut:
    def cut(record: Record) -> Record:
        points = join_histories(record.history, most=most) if most else ()
        judged, drawn = (
            {id(point) for point in join_histories(points, most=newest)}
            for newest in (JUDGED_POINTS, POINTS_WITH_OPS)
        )
        history = tuple(
            _of_age(point, is_judged=id(point) in judged, is_drawn=id(point) in drawn)
            for point in points
        )
        return record.but(history=history, trends=record.trends if most else ())

    return cut


def _of_age(point: HistoryPoint, *, is_judged: bool, is_drawn: bool) -> HistoryPoint:
    """Old points show the trend of the time alone; the newest ones judge the other metrics."""
    metrics = point.metrics if is_judged else {}
    ops = point.ops if is_drawn else {}
    is_whole = (metrics, ops) == (point.metrics, point.ops)
    return point if is_whole else point.but(metrics=metrics, ops=ops)


def _without_ops_of_points(record: Record) -> Record:
    return record.but(history=tuple(point.but(ops={}) for point in record.history))


def _of_all_cases(cut: CaseCut) -> RecordCut:
    return lambda record: record.but(cases=tuple(map(cut, record.cases)))


_NO_OPS = Judged.model_fields["step_ops"].get_default()
_OF_A_CASE: Sequence[CaseCut] = (
    _ops_with(0.999),
    _fewer_lines,
    _without_layers,
    _ops_with(0.99),
    _ops_with(0.95),
    _ops_at_most(64),
    _without_code,
    _ops_at_most(LEAST_OPS),
    _few_layers,
    _without_host,
)
_OF_A_RECORD: Sequence[RecordCut] = (
    _points_at_most(JUDGED_POINTS),
    _of_all_cases(_launches_at_most(KEPT_LAUNCHES)),
    _of_all_cases(_without_details),
    _of_all_cases(_without_shapes),
    _points_at_most(PROVING_POINTS),
    _points_at_most(FEW_POINTS),
    _of_all_cases(_launches_at_most(LEAST_LAUNCHES)),
    _of_all_cases(_without_explanation),
    _points_at_most(0),
)

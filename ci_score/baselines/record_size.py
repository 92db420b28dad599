"""A record that is too large for its limit → the most of it that fits.

What a page shows goes first, of cases that do not fail before those that do. What judges goes last:
means of launches, and the history of what is gated.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from ci_score.baselines.histories import join_histories
from ci_score.files.disk import RECORD_LIMIT
from ci_score.files.strict_json import dump
from ci_score.model.record import Judged, Record
from ci_score.model.verdict import Outcome

# As an artifact stores it. Names and keys repeat, so a record packs to about a tenth.
PACKED_LIMIT = 5 * 1024 * 1024
# A larger one stands on one line: indented it takes more room, and many times as long to write.
LARGEST_INDENTED = 2 * 1024 * 1024
# What a judgement and a trend look at, and as many as a proof needs by default.
JUDGED_POINTS, PROVING_POINTS = 140, 83
# Of a failing case so many ops stay, and of each side what sessions measure by default, and more.
KEPT_OPS, KEPT_LAUNCHES = 16, 24
_ONLY_SHOWN = (
    *("base", "code", "explanation", "host_gaps", "idle_ranges", "op_calls", "parity", "peak_ops"),
    *("phases", "step_ops"),
)
_NOTHING = {name: Judged.model_fields[name].get_default() for name in _ONLY_SHOWN}


def fitted(record: Record, limit: int = PACKED_LIMIT) -> tuple[Record, str]:
    """What is kept of the record, and its text: all of it while that fits, packed.

    Whoever shows the record shows what is kept: a page that is made of the file is then the same.
    """
    kept, text = record, _on_one_line(record)
    for cut in _CUTS:
        if len(text) <= RECORD_LIMIT and len(zlib.compress(text.encode())) <= limit:
            break
        kept = cut(kept)
        text = _on_one_line(kept)
    is_small = kept is record and len(text) <= LARGEST_INDENTED
    return kept, dump(record) if is_small else text


def _on_one_line(record: Record) -> str:
    """What is absent has no key."""
    told = record.model_dump(mode="json", exclude_defaults=True)
    return dump({"schema_version": record.schema_version, **told}, indent=None)


# --- what goes, in this order ---------------------------------------------------------------------


def _newest(record: Record, most: int) -> Record:
    """Points without the ops whose course a page draws."""
    points = join_histories(record.history, most=most)
    return record.but(history=tuple(point.but(ops={}) for point in points))


def _each(record: Record, cut: Callable[[Judged], Judged]) -> Record:
    return record.but(cases=tuple(map(cut, record.cases)))


def _bare(case: Judged) -> Judged:
    """The case with its verdict and all that one rests on."""
    card = case.scorecard.but(per_layer_summary=(), hotspot_ops=())
    return case.but(**_NOTHING, scorecard=card)


def _fails(case: Judged) -> bool:
    return case.verdict is not None and case.verdict.outcome is Outcome.FAIL


def _brief(case: Judged) -> Judged:
    """A failing case keeps its explanation and its largest ops."""
    if not _fails(case):
        return case
    base = case.base.but(step_ops=case.base.step_ops.largest(KEPT_OPS)) if case.base else None
    ops = case.step_ops.largest(KEPT_OPS)
    return _bare(case).but(step_ops=ops, base=base, explanation=case.explanation)


def _few_launches(case: Judged) -> Judged:
    sides = ([one for one in case.launches if one.side == side] for side in ("head", "base"))
    return _bare(case).but(launches=tuple(one for side in sides for one in side[:KEPT_LAUNCHES]))


def _without_history(record: Record) -> Record:
    return record.but(history=(), trends=())


_CUTS: Sequence[Callable[[Record], Record]] = (
    lambda record: _newest(record, JUDGED_POINTS),
    lambda record: _each(record, lambda case: case if _fails(case) else _bare(case)),
    lambda record: _each(record, _brief),
    lambda record: _each(_newest(record, PROVING_POINTS), _few_launches),
    _without_history,
)

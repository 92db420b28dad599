"""Traces changed so that they mean the same, or something else: never other numbers in silence.

What means the same gives the same numbers. What is broken gives the same numbers, or a note that
names what is wrong, or is not judged, or refused.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces.formats import read_profile
from ci_score.traces.source import ProfileSource
from tests.builders.traces.jax import field
from tests.builders.traces.packed import zst
from tests.builders.traces.records import (
    BEGINS,
    DURATIONS,
    FORMATS,
    NUMBERS,
    Row,
    Tables,
    TraceFormat,
    changed,
    in_database,
    kind_of,
    number,
    rows_of,
)

SAMPLES = Path(os.environ.get("CI_SCORE_SHARED", Path(__file__).parents[3] / "shared")) / "samples"
JSON = [name for name, each in FORMATS.items() if each.write(each.tables())[:1] in b"{["]
DATABASES = ["nsight", "rocpd"]

Read = Profile | str


def read(data: bytes) -> Read:
    """The profile, or why there is none."""
    try:
        return read_profile(ProfileSource("rank0/file", data=data))
    except BadInputError as error:
        return str(error)


def sound(data: bytes) -> Profile:
    """The profile of a file that is used."""
    found = read(data)
    assert isinstance(found, Profile)
    assert found.unusable is None
    return found


WORDS = {"notes", "sources", "tool", "capture", "unusable"}


def numbers(profile: Profile) -> dict[str, Any]:
    """All that is measured, without what is said of it, or of where it comes from."""
    left_out = {*WORDS, "op_origins", "code"}
    return {key: value for key, value in profile.model_dump().items() if key not in left_out}


def alike(one: Any, other: Any, within: float = 1e-6) -> bool:
    """Whether two values are the same within rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            alike(one[key], other[key], within) for key in one
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(alike(*pair, within) for pair in pairs)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= within * max(abs(one), abs(other)) + 1e-9
    return bool(one == other)


def assert_told(base: Profile, data: bytes, words: str) -> None:
    """The same numbers, or a refusal, or a note that the sound file does not have."""
    found = read(data)
    if isinstance(found, str) or found.unusable or alike(numbers(base), numbers(found)):
        return
    news = [note for note in found.notes if note not in base.notes]
    assert any(re.search(words, note) for note in news), (found.avg_step_ms, news)


# --- changes ------------------------------------------------------------------------------------


def each_row(tables: Tables, change: Callable[[Row], Row], *, but: str = "") -> Tables:
    """The same change of all rows, but for those of one table."""
    return {
        name: rows if name == but else [change(row) for row in rows]
        for name, rows in tables.items()
    }


def chance(seed: int) -> random.Random:
    """The same in every run."""
    return random.Random(seed)  # noqa: S311 - no secret


def shuffled(tables: Tables) -> Tables:
    """The records in another order."""
    order = chance(7)
    return {name: order.sample(rows, len(rows)) for name, rows in tables.items()}


def moved(tables: Tables, ticks: float) -> Tables:
    """All of it later."""
    later = number(lambda value: value + ticks)
    return each_row(tables, lambda row: changed(row, later, BEGINS))


def scaled(tables: Tables, factor: float) -> Tables:
    """All times in another unit."""
    times = number(lambda value: value * factor)
    return each_row(tables, lambda row: changed(row, times, BEGINS | DURATIONS))


def renumbered(tables: Tables, change: Callable[[float], float]) -> Tables:
    """Other numbers of launches; rocprofv3's ranges are called by theirs, which stay."""
    return each_row(tables, lambda row: changed(row, number(change), NUMBERS), but="marker_api")


def thinned(tables: Tables, seed: int) -> Tables:
    """Three of ten records are lost."""
    lot = chance(seed)
    return {name: [row for row in rows if lot.random() > 0.3] for name, rows in tables.items()}


def doubled(tables: Tables) -> Tables:
    """Every record twice; what has a number of its own in a database gets another."""
    keyed = {name for name, rows in tables.items() if rows and isinstance(rows[0].get("id"), int)}
    copies = {
        name: [{**row, "id": row["id"] + 10_000} if name in keyed else row for row in rows]
        for name, rows in tables.items()
        if "_event_" not in name
    }
    return {name: rows + copies.get(name, []) for name, rows in tables.items()}


def backwards(tables: Tables, seed: int = 3) -> Tables:
    """Three of ten records end before they begin."""
    lot = chance(seed)

    def turned(row: Row) -> Row:
        if lot.random() > 0.3:
            return row
        for begin, end in (("start", "end"), ("start_timestamp", "end_timestamp")):
            if row.get(end) is not None and row.get(begin) is not None:
                return {**row, end: 2 * row[begin] - row[end]}
        return changed(row, number(lambda value: -value), DURATIONS)

    return each_row(tables, turned)


def without(tables: Tables, kind: tuple[str, str]) -> Tables:
    """One kind of records was not recorded."""
    return {
        name: [row for row in rows if kind_of(name, row) != kind] for name, rows in tables.items()
    }


LOST = (
    "belong to no step|have no work|no copy|left out|no kernel|no work of a device|nothing marks"
    "|only"
)


@pytest.fixture(params=FORMATS.values(), ids=list(FORMATS))
def trace(request: pytest.FixtureRequest) -> TraceFormat:
    """A format with its small trace."""
    each: TraceFormat = request.param
    return each


# --- what means the same ------------------------------------------------------------------------


def test_same__in_another_order_at_another_time_with_other_numbers(trace: TraceFormat) -> None:
    """The order of records, the clock's zero and the numbers of launches say nothing."""
    tables = trace.tables()
    base = numbers(sound(trace.write(tables)))
    later = moved(tables, 5000 * trace.ticks_per_ms if trace.name != "xplane" else 50)
    others = renumbered(tables, lambda value: value + 100_000 if value else value)
    for same in (shuffled(tables), later, others, shuffled(others)):
        assert alike(numbers(sound(trace.write(same))), base)


def test_same__packed_or_with_other_names(trace: TraceFormat) -> None:
    """Packing changes nothing, and another name of a kernel only the name."""
    data = trace.write(trace.tables())
    base = numbers(sound(data))
    for packed in (gzip.compress(data), zst(data)):
        assert alike(numbers(sound(packed)), base)
    old, new = trace.renamed
    assert old in data
    renamed = json.dumps(numbers(sound(data.replace(old, new))))
    assert alike(
        json.loads(renamed.replace(new.decode(), old.decode())), json.loads(json.dumps(base))
    )


def reordered(value: Any) -> Any:
    """The same JSON with all keys the other way round."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return list(map(reordered, value)) if isinstance(value, list) else value


def with_more(value: Any) -> Any:
    """The same JSON with fields that nobody knows."""
    if isinstance(value, dict):
        known = {key: with_more(item) for key, item in value.items()}
        return {**known, "of no one": [1, {"}": "}, {"}]}
    return list(map(with_more, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", JSON)
def test_same__however_the_json_is_laid_out(name: str) -> None:
    """Indentation, the order of keys, unknown fields and a byte order mark say nothing."""
    data = FORMATS[name].write(FORMATS[name].tables())
    value = json.loads(data)
    base = numbers(sound(data))
    texts = [
        json.dumps(value, indent=2),
        json.dumps(value, indent=1).replace("\n", "\r\n"),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, sort_keys=True),
        json.dumps(reordered(value)),
        json.dumps(with_more(value)),
        "\ufeff" + json.dumps(value, indent=1),
    ]
    for text in texts:
        assert alike(numbers(sound(text.encode())), base), text[:200]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", JSON)
def test_same__text_in_utf_16_is_refused_by_name(name: str, encoding: str) -> None:
    """PowerShell writes it: of a trace that is said, with what makes UTF-8 of it."""
    data = FORMATS[name].write(FORMATS[name].tables())
    assert "UTF-16" in str(read(data.decode().encode(encoding)))


@pytest.mark.parametrize("name", DATABASES)
def test_same__with_tables_and_columns_that_nobody_knows(name: str) -> None:
    """Versions add them."""
    data = FORMATS[name].write(FORMATS[name].tables())
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        for table in tables:
            database.execute(f'ALTER TABLE "{table}" ADD COLUMN of_no_one DEFAULT 7')
        database.execute("CREATE TABLE of_no_one (start, end)")
        more = database.serialize()
    assert alike(numbers(sound(more)), numbers(sound(data)))


def test_same__with_fields_of_a_protobuf_that_nobody_knows() -> None:
    """Versions add them."""
    data = FORMATS["xplane"].write(FORMATS["xplane"].tables())
    more = data + field(15, b"of no one") + field(14, 7)
    assert alike(numbers(sound(more)), numbers(sound(data)))


# --- what means something else ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_told__records_are_lost(trace: TraceFormat, seed: int) -> None:
    """Launches without their work are not judged, and work without its launch is told."""
    tables = trace.tables()
    assert_told(sound(trace.write(tables)), trace.write(thinned(tables, seed)), LOST)


def test_told__a_kind_of_records_is_lost(trace: TraceFormat) -> None:
    """Whichever it is."""
    tables = trace.tables()
    base = sound(trace.write(tables))
    kinds = {kind_of(name, row) for name, rows in tables.items() for row in rows}
    for kind in sorted(kinds):
        assert_told(base, trace.write(without(tables, kind)), LOST)


def test_told__every_record_is_there_twice(trace: TraceFormat) -> None:
    """A doubled file is not judged."""
    found = read(trace.write(doubled(trace.tables())))
    assert isinstance(found, Profile)
    assert re.search("there twice|of another one", found.unusable or "")


@pytest.mark.parametrize("factor", [1000, 0.001])
def test_told__times_are_in_another_unit(trace: TraceFormat, factor: float) -> None:
    """A launch takes as long everywhere, which no kernel does."""
    found = read(trace.write(scaled(trace.tables(), factor)))
    assert isinstance(found, Profile)
    assert re.search("another unit|no events|no work", found.unusable or "")


@pytest.mark.parametrize("lag_ms", [0.0, 0.37, 123.0])
def test_told__two_processes_in_one_file(trace: TraceFormat, lag_ms: float) -> None:
    """Formats that keep processes apart read them apart; of others the file is refused."""
    tables = trace.tables()
    other = moved(tables, round(lag_ms * trace.ticks_per_ms, 2))
    assert_told(sound(trace.write(tables)), trace.merged(tables, other), "devices: these are")


@pytest.mark.parametrize("name", ["kineto", "jax"])
@pytest.mark.parametrize("lag_ms", [0.0, 0.37, 123.0])
def test_told__two_processes_of_the_same_number(name: str, lag_ms: float) -> None:
    """In containers they often have it: then the numbers of their launches meet."""
    each = FORMATS[name]
    tables = each.tables()
    other = moved(tables, lag_ms * each.ticks_per_ms)
    found = read(each.write({key: rows + other[key] for key, rows in tables.items()}))
    assert isinstance(found, Profile)
    assert found.unusable


def test_told__launches_have_no_numbers(trace: TraceFormat) -> None:
    """What belongs to no launch is not assigned in silence."""
    tables = trace.tables()
    zeroed = trace.write(renumbered(tables, lambda _: 0))
    assert_told(sound(trace.write(tables)), zeroed, LOST + "|no launches|device worked in one")


def test_told__records_end_before_they_begin(trace: TraceFormat) -> None:
    """They are left out and counted, those of the host, too."""
    tables = trace.tables()
    words = "negative|before they begin|without times"
    assert_told(sound(trace.write(tables)), trace.write(backwards(tables)), words)


LAYOUTS: dict[str, Row] = {
    "old categories": {"cat": "Kernel"},
    "streams as text": {"tid": "7"},
    "devices as text": {"device": "0"},
}


@pytest.mark.parametrize("how", LAYOUTS)
def test_told__the_same_kernels_in_two_layouts(how: str) -> None:
    """Whatever the copies are called, they are the same kernels."""
    change = LAYOUTS[how]
    rows = FORMATS["kineto"].tables()["traceEvents"]
    copies = [
        {**row, **change, "args": {**row["args"], **change}}
        for row in rows
        if row["cat"] == "kernel"
    ]
    found = read(FORMATS["kineto"].write({"traceEvents": rows + copies}))
    assert isinstance(found, Profile)
    assert "there" in (found.unusable or "")


# --- real traces --------------------------------------------------------------------------------

REAL = (
    *("mi250_minitoy_2step", "h100_bert_small_inference", "v100_dlrm_rank1of8_1step"),
    *("sampled_rank0of128_2step", "gpu_metrics_input"),
)


def events_of(name: str) -> tuple[dict[str, Any], Tables]:
    """A real trace, and its timed events as a table."""
    found = sorted((SAMPLES / "kineto").glob(f"{name}.json*"))
    if not found:
        pytest.skip(f"no {SAMPLES / 'kineto'}")
    data = found[0].read_bytes()
    text = gzip.decompress(data) if found[0].suffix == ".gz" else data
    value = json.loads(text, strict=False)
    return value, {"traceEvents": value["traceEvents"]}


@pytest.mark.parametrize("name", REAL)
def test_real__kineto(name: str) -> None:
    """The same holds of traces that nobody made for tests."""
    value, tables = events_of(name)

    def write(changed_tables: Tables) -> bytes:
        return json.dumps({**value, **changed_tables}).encode()

    base = sound(write(tables))
    # The first record is the clock's zero, and a step of microseconds is rounded to nanoseconds.
    assert alike(numbers(sound(write(shuffled(tables)))), numbers(base), within=1e-3)
    timed = {"traceEvents": [row for row in tables["traceEvents"] if row.get("ph") == "X"]}
    assert_told(base, write(thinned(timed, 1)), LOST)
    assert_told(base, write(backwards(timed)), "negative")
    for factor in (1000, 0.001):
        assert_told(base, write(scaled(timed, factor)), "unit")
    assert_told(base, write(doubled(tables)), "twice")


def test_real__nsight() -> None:
    """Every record twice, or in another unit."""
    path = SAMPLES / "nsight" / "h100_2gpu_1s.sqlite.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    data = gzip.decompress(path.read_bytes())
    tables = rows_of(data, {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"})
    base = sound(data)
    assert alike(numbers(sound(in_database(data, shuffled(tables)))), numbers(base))
    assert_told(base, in_database(data, doubled(tables)), "twice")
    for factor in (1000, 0.001):
        assert_told(base, in_database(data, scaled(tables, factor)), "unit")

"""rocprofv3's database: processes, launches, ranges, schemas 3 and 4, and what is broken in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces import read_profile
from ci_score.traces.formats import rocpd
from ci_score.traces.source import ProfileSource
from tests.builders.traces import rocpd as db
from tests.builders.traces.rocpd import Process, read, training


def said(profile: Profile, words: str) -> bool:
    return any(words in note for note in profile.notes)


def test_rocpd__steps_that_roctx_marks(tmp_path: Path) -> None:
    """The device's period, though the host runs ahead; phases by launch; copies by direction."""
    one = read(tmp_path, training())
    assert one.steps == 3
    assert one.avg_step_ms == pytest.approx(10)
    assert one.device_busy_ms == pytest.approx(6.5)
    assert one.compute_ms == pytest.approx(3.5)
    assert one.communication_ms == pytest.approx(2.5)
    assert one.device_kernels_per_step == 3
    assert one.kernel_launches_per_step == 3
    assert one.phases["forward"].total_ms == pytest.approx(2)
    assert one.phases["backward"].total_ms == pytest.approx(3.5)
    assert one.phases["h2d"].total_ms == pytest.approx(1)
    assert one.ops["Cijk_Ailk_Bljk_MT64"] == pytest.approx(2)
    assert one.accelerator == "AMD Instinct MI300X"
    assert one.tool == "rocprofv3"
    assert one.sources["steps"] == "roctx ranges 'step'"


def test_rocpd__schema_4_has_tracks(tmp_path: Path) -> None:
    """Agents, streams and processes of rows stand in a table of their own; all else is the same."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = read(tmp_path / "old", training())
    assert read(tmp_path / "new", training().with_tracks()) == old


def test_rocpd__without_a_guid(tmp_path: Path) -> None:
    """Some versions give the tables no suffix."""
    assert read(tmp_path, training(Process(guid=""))).steps == 3


def test_rocpd__processes_of_a_merged_database_are_devices_of_their_own(tmp_path: Path) -> None:
    """Numbers of events and kernels repeat between them; the slowest speaks."""
    fast, slow = Process(7, "a_1"), Process(8, "b_2")
    fast.rows["info_kernel_symbol"] = [(1, "", "x", "other_gemm")]
    one = read(tmp_path, training(fast), training(slow, period=12))
    assert one.avg_step_ms == pytest.approx(12)
    assert one.accelerator_count == 2
    assert "Cijk_Ailk_Bljk_MT64" in one.ops
    assert said(one, "2 devices: these are the numbers of agent 4 of process 8")


def test_rocpd__two_gpus_of_a_process(tmp_path: Path) -> None:
    """Each agent is a timeline."""
    process = training()
    process.rows["info_agent"].append((5, "", "GPU", "gfx942", "AMD Instinct MI300X"))
    for step in range(3):
        process.kernel(step * 4 + 0.5, step * 10 + 2, 6, agent=5)
    assert read(tmp_path, process).accelerator_count == 2


def test_rocpd__the_launcher_tells_the_rank(tmp_path: Path) -> None:
    """One process: its rank and world size; of several none speaks for all."""
    first, second = Process(7, "a_1"), Process(8, "b_2")
    first.told(RANK="3", WORLD_SIZE="8", OTHER="hidden")
    (tmp_path / "one").mkdir()
    one = read(tmp_path / "one", training(first))
    assert (one.rank, one.world_size) == (3, 8)
    assert "hidden" not in one.model_dump_json()
    both = read(tmp_path, training(first), training(second))
    assert both.rank is None


def test_rocpd__without_calls_work_counts_where_it_ran(tmp_path: Path) -> None:
    """Without --hip-trace an event has no launch, and belongs to the step in which it began."""
    process = Process()
    for step in range(4):
        process.kernel(None, step * 10 + 2, 3, name=1)
        process.kernel(None, step * 10 + 6, 2, name=3)
    one = read(tmp_path, process)
    assert one.steps == 4
    assert one.avg_step_ms == pytest.approx(10)
    assert said(one, "nothing marks a step")


@pytest.mark.parametrize("table", ["event", "region", "string", "info_agent", "info_process"])
def test_rocpd__without_a_table_less_is_known(tmp_path: Path, table: str) -> None:
    """What cannot be joined is absent; the kernels are there."""
    one = read(tmp_path, training().without(table))
    assert one.compute_ms == pytest.approx(3.5)
    assert one.steps == 3


def test_rocpd__no_kernels_is_a_state_with_a_reason(tmp_path: Path) -> None:
    """Tables that are empty: nothing was measured."""
    assert "no kernel was recorded" in (read(tmp_path, Process()).unusable or "")


def test_rocpd__kernels_without_times_are_none(tmp_path: Path) -> None:
    """A schema that keeps times elsewhere is not guessed at."""
    process = training()
    process.columns["kernel_dispatch"] = process.columns["kernel_dispatch"].replace(
        " start, end,", " start_id, end_id,"
    )
    one = read(tmp_path, process)
    assert one.unusable
    assert said(one, "has no times")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("UPDATE {dispatch} SET start = 'soon'", "whole numbers"),
        ("UPDATE {dispatch} SET end = 1e300", "whole numbers"),
        ("UPDATE {region} SET start = x'00'", "whole numbers"),
    ],
)
def test_rocpd__other_things_than_numbers(tmp_path: Path, query: str, words: str) -> None:
    """SQLite keeps anything in any column: a reason, and no crash."""
    process = training()
    path = process.add_to(tmp_path / "results.db")
    names = {kind: f"rocpd_{kind}{process.suffix}" for kind in ("region", "event")}
    names["dispatch"] = f"rocpd_kernel_dispatch{process.suffix}"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(query.format(**names))
    with pytest.raises(BadInputError, match=words):
        rocpd.read(ProfileSource("results.db", path=path))


@pytest.mark.parametrize("column", ["kernel_id", "agent_id", "stream_id", "pid", "event_id"])
@pytest.mark.parametrize("value", ["'text'", "NULL", "1e300", "x'ff'", "-5"])
def test_rocpd__a_broken_number_costs_what_it_numbers(
    tmp_path: Path, column: str, value: str
) -> None:
    """Wrong kernels, agents, streams or events: still a profile."""
    process = training()
    path = process.add_to(tmp_path / "results.db")
    with closing(sqlite3.connect(path)) as database, database:
        table = f"rocpd_kernel_dispatch{process.suffix}"
        database.execute(f"UPDATE {table} SET {column} = {value}")  # noqa: S608 - our names
    assert rocpd.read(ProfileSource("results.db", path=path)).compute_ms


def test_rocpd__a_view_is_no_table(tmp_path: Path) -> None:
    """A view may run a stranger's query: it is not read, however it is called."""
    process = training().without("event")
    path = process.add_to(tmp_path / "results.db")
    with closing(sqlite3.connect(path)) as database, database:
        view = f"rocpd_event{process.suffix}"
        database.execute(f"CREATE VIEW {view} AS SELECT 1 AS id, 2 AS stack_id, 3 AS category_id")
    assert rocpd.read(ProfileSource("results.db", path=path)).kernel_launches_per_step is None


def test_rocpd__events_that_multiply_rows_are_refused(tmp_path: Path) -> None:
    """An id that many events share would make a row many."""
    process = training()
    process.columns["event"] = process.columns["event"].replace("INTEGER PRIMARY KEY", "")
    shared = process.rows["kernel_dispatch"][0][-1]
    process.rows["event"] = [(shared, "", db.KERNEL, 1, "{}")] * 50
    with pytest.raises(BadInputError, match="same id"):
        read(tmp_path, process)


def test_rocpd__is_found_wherever_its_tables_were_made(tmp_path: Path) -> None:
    """Recognising looks at the first pages; where other tables fill those, reading finds them."""
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as database, database:
        for number in range(400):
            database.execute(f"CREATE TABLE padding_{number} (x, y, z)")
    data = training().add_to(path).read_bytes()
    assert not rocpd.recognises(data[: 64 * 1024])
    assert read_profile(ProfileSource("results.db", data=data)).tool == "rocprofv3"


def test_rocpd__too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are counted before they are read."""
    monkeypatch.setattr(rocpd, "MOST_EVENTS", 11)
    with pytest.raises(BadInputError, match="12 device events"):
        read(tmp_path, training())

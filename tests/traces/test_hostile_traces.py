"""Files made to take long, to take all memory, or to become large records."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from ci_score.errors import BadInputError, WrongUseError
from ci_score.model.profile import Profile
from ci_score.traces.engine import host_ranges, layers, repeats
from ci_score.traces.engine import profile as engine
from ci_score.traces.engine.categories import category_of, category_of_operator, memcpy_direction
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.phase_names import phase_name
from ci_score.traces.formats import kineto, megatron_golden, nsight, read_profile, sqlite_file
from ci_score.traces.source import ProfileSource, step_pattern
from tests.builders.traces.kineto import Json, kernel, module, op, source, step, text, work
from tests.builders.traces.nsight import Export


def read(events: list[Json], **metadata: object) -> Profile:
    return kineto.read(source(text(events, **metadata)))


@pytest.mark.parametrize("key", ["Input Dims", "Call stack"])
def test_arguments__nested_without_an_end_lose_only_their_event(key: str) -> None:
    """A decoder that comes to its own end says so in another way than that it is no JSON."""
    events = [step(number, 100 * number, 90) for number in range(3)]
    events += [kernel(number, 100 * number + 10, 50) for number in range(3)]
    nested = (
        b'{"ph":"X","cat":"cpu_op","name":"odd","ts":1,"dur":1,"pid":1,"tid":1,"args":{"%b":%b}},'
    )
    deep = nested % (key.encode(), b"[" * 200_000 + b"]" * 200_000)
    whole = text(events)
    damaged = whole.replace(b"[", b"[" + deep, 1)
    assert kineto.read(source(damaged)).steps == kineto.read(source(whole)).steps == 3


@pytest.mark.parametrize(
    "begin",
    [
        b'{"schemaVersion":1,"deviceProperties":',
        b'{"rocprofiler-sdk-tool":',
        b'[{"ph":"M","name":"process_name","args":{"name":"Ascend Hardware"},"x":',
        b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[{"x":',
        b'{"steps":3,"avg_step_ms":1.0,"phases":',
        b'{"_profiler":"ci-score","phases":',
        b'{"log_history":',
        b'{"canary":"x","metrics":',
    ],
)
def test_json__that_no_reader_can_go_into_is_bad_input(begin: bytes) -> None:
    """Then one case has a file that cannot be read, and the report is there."""
    deep = begin + b"[" * 20_000 + b"]" * 20_000
    for data in (deep, deep + b"}", deep + b"}]", deep + b"}]}"):
        with suppress(BadInputError):
            read_profile(source(data))


@pytest.mark.parametrize(
    "dims", [["x", 10**12], [[1], 10**12], [10**18] * 100_000, [3.5, 2], [[], 7]], ids=len
)
def test_embedding__of_dimensions_that_no_tensor_has(dims: list[object]) -> None:
    """A text times a number would be a text of that length."""
    lookup = op("aten::embedding", 20, 5) | {"args": {"Input Dims": [[50_000, 64], dims]}}
    events = [*(step(number, 100 * number, 90) for number in range(3)), lookup]
    assert kineto.read(source(text(events))).tokens_per_step is None


def test_devices__are_those_of_one_machine() -> None:
    """Each device is a timeline for which the host is looked at, so that there are only so many."""
    events = [kernel(number, 10 * number, 5) for number in range(kineto.MOST_DEVICES + 1)]
    for number, event in enumerate(events):
        event["args"]["device"] = number
    assert read(events[1:]).unusable is None
    with pytest.raises(BadInputError, match=f"{len(events)} devices"):
        read(events)


def test_devices__of_very_many_those_with_most_events_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host's part is gone through for each device, so that only some are looked at."""
    monkeypatch.setattr(engine, "MOST_DEVICES", 2)
    events = [kernel(number, 10 * number, 5) for number in range(6)]
    for event, device in zip(events, (0, 1, 1, 2, 2, 2), strict=True):
        event["args"]["device"] = device
    profile = read(events)
    assert "of 3 devices the 2 with most events count" in profile.notes


def test_golden_values__are_those_of_a_test() -> None:
    """A list of millions of step times would be a record of megabytes."""
    values = dict.fromkeys(map(str, range(megatron_golden.MOST_SAMPLES + 1)), 1.5)
    data = json.dumps({"iteration-time": {"step_interval": 1, "values": values}}).encode()
    with pytest.raises(BadInputError, match="at most 100000"):
        megatron_golden.read(source(data))


def test_rank__that_no_job_has_is_not_taken() -> None:
    """A number beyond every job's size is no rank."""
    job = {"rank": 10**30, "world_size": 2}
    assert read(work(1, 0, 5, 10), distributedInfo=job).rank is None


def test_repeats__of_one_kernel_are_so_many_layers_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each layer is a row of the profile, so that a trace of one kernel has none."""
    events: list[Json] = []
    for number in range(12):
        at = 1000 * (number // 6) + 100 * number
        events += [step(number // 6, at, 1000)] if number % 6 == 0 else []
        events += work(number, at + 10, at + 12, 20)
    assert len(read(events).per_layer) == 6
    monkeypatch.setattr(repeats, "MOST_LAYERS", 5)
    profile = read(events)
    assert profile.layers_are is None
    assert not profile.per_layer


def test_modules__of_one_class_are_so_many_layers_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class with more instances than any model has layers is no layer."""
    events: list[Json] = [step(0, 0, 600)]
    for number in range(6):
        at = 100 * number
        events += [module(f"Block_{number}", at, 60), module(f"Linear_{number}", at + 1, 50)]
        events += work(number, at + 10, at + 12, 20, f"kernel_{number}")
    assert len(read(events).per_layer) == 6
    monkeypatch.setattr(layers, "MOST_LAYERS", 5)
    monkeypatch.setattr(repeats, "MOST_LAYERS", 5)
    assert not read(events).per_layer


def test_categories__are_told_by_the_beginning_of_a_name() -> None:
    """A name of megabytes is not searched to its end."""
    far = "k" * 10_000
    assert category_of(f"gemm_{far}") == "gemm"
    assert category_of(f"{far}_gemm") == "other"
    assert category_of_operator(f"{far}_softmax") == "other"
    assert memcpy_direction(f"{far} HtoD") is None


def test_database__is_given_up_after_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One instruction of SQLite can copy megabytes, so that not only their number is bounded."""
    export = Export()
    for number in range(20_000):
        export.kernel(number, number + 0.1, 0.5)
    path = export.write(tmp_path / "capture.sqlite")
    assert nsight.read(ProfileSource(path.name, path)).steps
    monkeypatch.setattr(sqlite_file, "LONGEST_S", -60.0)
    with pytest.raises(BadInputError, match="does not end"):
        nsight.read(ProfileSource(path.name, path))


# --- what a user calls a step --------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "(a+)+b",
        "(a|a)*b",
        "(?:a*)*b",
        "a?" * 60,
        "(a|a)" * 40,
        "(a?){40}a{40}",
        "(.*)(.*)(.*)(.*)x",
        "(?=(a+)+b)",
        "(x)?(?(1)(a+)+|b)c",
    ],
)
def test_step_name__that_could_be_searched_forever_is_refused(expression: str) -> None:
    """The names are a stranger's, who can make them so that each way to match is tried."""
    with pytest.raises(WrongUseError, match="forever"):
        step_pattern(expression)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        (r"^train_(step|iter)[ _]?\d+$", "train_step 7"),
        (r"(?i)\bstep\b", "my STEP"),
        (".*train.*step.*", "a train of step s"),
        (r"(?<!eval_)step_\d{1,6}(/\d+)?", "step_3/9"),
        ("a|b|c|d|e|f|g|h", "h"),
    ],
)
def test_step_name__of_usual_forms_is_taken(expression: str, name: str) -> None:
    """What people write for their steps has few repeats, and none within another."""
    pattern = step_pattern(expression)
    assert pattern is not None
    assert pattern.search(name)


@pytest.mark.parametrize(
    "name", ["#" * 300_000 + "x", "# a" + " #" * 150_000 + "x", "#" + " " * 300_000 + "x"]
)
def test_range_s_name__of_separators_is_gone_through_once(name: str) -> None:
    """From each of a row of hashes the rest was looked through anew, which never ends here."""
    assert host_ranges.stem_and_number(name)[1] < 0
    assert phase_name(name).endswith("x")


def test_step_name__is_searched_for_so_long_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace may have a million names of which each takes a while."""
    monkeypatch.setattr(host_ranges, "LONGEST_SEARCH_S", -1.0)
    ranges = HostRanges(re.compile("my_step"))
    with pytest.raises(BadInputError, match="fewer repeats"):
        ranges.add(0, 1, "my_step", 0, 10)

"""Records: one version, histories in order, at most 5 MB."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_score.baselines import ArtifactBaselines, FolderBaselines
from ci_score.baselines.histories import join_histories
from ci_score.baselines.record_size import JUDGED_POINTS, fitting
from ci_score.baselines.records import SCHEMA_VERSION, fitted, read_record
from ci_score.compare.code import code_changes
from ci_score.errors import BadInputError
from ci_score.files.disk import RECORD_LIMIT
from ci_score.files.strict_json import dump
from ci_score.model.environment import Environment
from ci_score.model.explanation import Explanation, OpChange, OpDetail
from ci_score.model.profile import OpPlace
from ci_score.model.reasons import Reason
from ci_score.model.record import (
    KEPT_POINTS,
    HistoryPoint,
    Judged,
    LaunchNumbers,
    Record,
    RunIdentity,
)
from ci_score.model.stages import BaselineFound, BaselineMissing, OpenedUpload, Upload
from ci_score.model.step_code import CodeLine, CodeWork, Definition, StepCode
from ci_score.model.step_ops import BaseSide, StepOps, remembered, step_ops_of
from ci_score.model.verdict import Outcome, Unjudged, Verdict
from ci_score.report.sentences import sentences
from tests.builders import case, on, record, scorecard


def point(run: int, name: str = "training", **fields: Any) -> HistoryPoint:
    defaults: dict[str, Any] = {
        "commit": f"{run:040x}",
        "run": RunIdentity(number=run),
        "created_at": f"2026-01-{1 + run // 24:02}T{run % 24:02}:00:00Z",
        "step_time_ms": 100.0 + run,
        "throughput_tok_s": 1000.0,
    }
    return HistoryPoint(case=name, **{**defaults, **fields})


def again(run: int, identity: RunIdentity) -> HistoryPoint:
    return point(run).but(run=identity)


def with_history(*points: HistoryPoint, **fields: Any) -> Record:
    return record(**fields).but(history=points)


def written(left: Record) -> bytes:
    return dump(left).encode()


# --- versions -----------------------------------------------------------------------------------


def of_version(version: object) -> bytes:
    return json.dumps({**json.loads(written(record())), "schema_version": version}).encode()


def test_read__what_this_version_left() -> None:
    """A record that was written and read is the same record."""
    left = record(case(environment=on("L4", 2)), commit="c" * 40)
    assert read_record(written(left), "r.json") == left


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (SCHEMA_VERSION + 1, "which a newer ci-score has written, .*use that newer ci-score"),
        (SCHEMA_VERSION - 1, "which an older ci-score has written, .*default branch once more"),
        (0, f"found 0, expected {SCHEMA_VERSION}$"),
        (-1, "found -1, expected"),
        (True, "found True, expected"),
        (str(SCHEMA_VERSION), f"found '{SCHEMA_VERSION}', expected"),
        (float(SCHEMA_VERSION), f"found {SCHEMA_VERSION}.0, expected"),
        (None, "found None, expected"),
    ],
)
def test_read__another_version_is_refused(version: object, words: str) -> None:
    """The error says what to do; nothing is read by halves."""
    with pytest.raises(BadInputError, match=words) as refused:
        read_record(of_version(version), "r.json")
    assert refused.value.field == "schema_version"


# --- histories ----------------------------------------------------------------------------------


def test_history__out_of_order_is_refused() -> None:
    """With the place, and both times."""
    data = written(with_history(point(1), point(3), point(2)))
    with pytest.raises(BadInputError, match=r"history\[2\]\.created_at: found 2026-01-01T02"):
        read_record(data, "r.json")


def test_history__with_a_run_twice_is_refused() -> None:
    """One run would count as two pieces of evidence."""
    with pytest.raises(BadInputError, match=r"history\[2\]: found the same run of training twice"):
        read_record(written(with_history(point(1), point(2), point(2))), "r.json")


def test_history__gaps_are_normal() -> None:
    """Pull requests count runs too; the same hour, another case or another attempt is no double."""
    points = (
        point(1),
        point(1, "other"),
        point(7),
        again(7, RunIdentity(number=7, attempt=2)),
        again(7, RunIdentity(number=3)),
        point(40),
    )
    assert read_record(written(with_history(*points)), "r.json").history == points


def test_history__joined_is_each_run_once_in_order() -> None:
    """Two pushes at once have each seen what was before: together they know all."""
    before = [point(run) for run in range(5)]
    joined = join_histories((*before, point(5)), (*before, point(6)), tuple(before))
    assert joined == (*before, point(5), point(6))


def test_history__keeps_the_newest_of_each_case() -> None:
    """A case that is measured seldom is not pushed out by one that is measured often."""
    often = tuple(point(run) for run in range(KEPT_POINTS + 50))
    joined = join_histories(often, (point(0, "seldom"),))
    assert [each.case for each in joined].count("training") == KEPT_POINTS
    assert [each for each in joined if each.case == "seldom"]
    assert joined[-1] == often[-1]


def test_history__the_fuller_copy_of_a_point_stays() -> None:
    """A record that was cut has lost the metrics of old points, and an older one still has them."""
    full = point(1, metrics={"peak_memory_gb": 18.0})
    for histories in (((full,), (point(1),)), ((point(1),), (full,))):
        assert join_histories(*histories) == (full,)
    with_ops = full.but(ops={"03ddcd4f": 70.0})
    for histories in (((full,), (with_ops,)), ((with_ops,), (full,))):
        assert join_histories(*histories) == (with_ops,)


@pytest.mark.parametrize(
    ("ops", "words"),
    [
        ({f"{number:08x}": 1.0 for number in range(17)}, "at most 16"),
        ({"03ddcd4": 1.0}, "expected a text of the form"),
        ({"03DDCD4F": 1.0}, "expected a text of the form"),
        ({"<b>ddcd4": 1.0}, "expected a text of the form"),
        ({"03ddcd4f\n": 1.0}, "expected a text of the form"),
        ({"03ddcd4f": -1.0}, "expected a number of 0 or more"),
        ({"03ddcd4f": "1"}, "expected a number$"),
        ({"03ddcd4f": None}, "expected a number$"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_history__hostile_ops_are_refused(ops: dict[str, Any], words: str) -> None:
    """A point has 16 digests at most, and a digest is eight hex digits and nothing else."""
    value = json.loads(written(with_history(point(1))))
    value["history"][0]["ops"] = {"03ddcd4f": 1.0}
    assert read_record(json.dumps(value).encode(), "r.json").history[0].ops == {"03ddcd4f": 1.0}
    value["history"][0]["ops"] = ops
    with pytest.raises(BadInputError, match=words) as refused:
        read_record(json.dumps(value).encode(), "r.json")
    assert str(refused.value.field).startswith("history[0].ops")


def test_folder__joins_the_histories_of_its_records(tmp_path: Path) -> None:
    """As many of the newest records as are asked for."""
    left = {
        "a": with_history(point(1), point(2), created_at="2026-01-03T00:00:00Z"),
        "b": with_history(point(1), point(3), created_at="2026-01-04T00:00:00Z"),
        "c": with_history(point(0), created_at="2026-01-02T00:00:00Z"),
    }
    for name, each in left.items():
        (tmp_path / f"{name}.json").write_bytes(written(each))
    store = FolderBaselines(tmp_path)
    assert store.history(1) == (point(1), point(3))
    assert store.history(2) == (point(1), point(2), point(3))


class Uploads:
    """A record a run, each on a commit of its own."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def uploads(self) -> list[Upload]:
        """One a commit."""
        return [
            Upload(number, number, f"{number:040x}", f"2026-01-0{number + 1}", expired=False)
            for number in range(len(self._records))
        ]

    def why_none(self) -> Reason | None:
        """The branch is new."""
        return None

    def open(self, upload: Upload) -> OpenedUpload:
        """The bytes as they were left."""
        data = written(self._records[upload.id])
        return OpenedUpload(data, RunIdentity(number=upload.run_id))


def test_artifacts__join_the_histories_of_records_that_can_be_read() -> None:
    """What is out of order is left aside with its reason, and its neighbours count."""
    store = line_of(
        with_history(point(1), point(2)),
        with_history(point(5), point(4)),
        with_history(point(1), point(3)),
    )
    assert store.history(3) == (point(1), point(2), point(3))
    found = store.find("training", Environment(accelerator="nothing is known of it"))
    assert isinstance(found, BaselineFound)
    assert "history[1].created_at" in "".join(sentences(found.used.skipped))


def line_of(*records: Record) -> ArtifactBaselines:
    """The artifacts of a line of commits whose last one has the last of the records."""
    numbers = range(len(records) - 1, -1, -1)
    return ArtifactBaselines(
        tested_line=lambda: iter(f"{number:040x}" for number in numbers),
        store=Uploads(list(records)),
    )


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([record(case("other")), record(case("a", environment=on("H100")))], "ENVIRONMENT_CHANGED"),
        ([record(case("a", environment=on("H100"))), record(case("other"))], "ENVIRONMENT_CHANGED"),
        ([record(case("a", card=scorecard(0.0, 0.0)))], "ALL_UNUSABLE"),
        ([record(case("other"))], "NEW_CASE"),
        ([record()], "NEW_CASE"),
        ([], "FIRST_RUN"),
    ],
)
def test_artifacts__say_why_there_is_no_baseline(records: list[Record], reason: str) -> None:
    """The nearest record that has the case decides which reason it is."""
    missing = line_of(*records).find("a", on("L4"))
    assert isinstance(missing, BaselineMissing)
    assert missing.reason is Unjudged[reason]


# --- size ---------------------------------------------------------------------------------------


def large(cases: int) -> Record:
    names = [f"a-case-of-a-usual-name-{number}@h100" for number in range(cases)]
    environment = Environment(
        accelerator="H100 SXM 80GB", accelerator_count=8, precision="bf16", timing="unprofiled"
    )
    metrics = {f"a_metric_of_a_usual_name_{number}": 1.0 / (number + 3) for number in range(3)}
    points = [
        point(
            run,
            name,
            throughput_tok_s=1e6 / 7,
            metrics=metrics,
            environment=environment,
            tokens_per_step=65536.0,
            outcome=Outcome.PASS,
        )
        for run in range(KEPT_POINTS)
        for name in names
    ]
    return with_history(*points).but(
        cases=tuple(case(name, environment=environment) for name in names)
    )


def test_fitted__64_cases_of_200_points() -> None:
    """It fits, and what is judged stays: of each case the newest points with all metrics."""
    whole = large(64)
    assert len(whole.model_dump_json()) > RECORD_LIMIT  # and `dump` indents it
    small, text = fitted(whole)
    assert len(text) <= RECORD_LIMIT
    assert read_record(text.encode(), "r.json") == small
    for name in (each.name for each in whole.cases):
        kept = [each for each in small.history if each.case == name]
        assert len(kept) >= JUDGED_POINTS
        assert kept == [each for each in whole.history if each.case == name][-len(kept) :]


def test_fitted__4_cases_of_200_points_stay_whole() -> None:
    """What fits is not touched."""
    whole = large(4)
    assert fitted(whole) == (whole, dump(whole))


def test_fitted__the_oldest_points_lose_their_metrics_first() -> None:
    """The trend of the time needs none; a judgement looks at the newest."""
    small, _ = fitted(large(48))
    points = [each for each in small.history if each.case == small.cases[0].name]
    assert [bool(each.metrics) for each in points] == [
        number >= len(points) - JUDGED_POINTS for number in range(len(points))
    ]


def test_fitted__thousands_of_launches() -> None:
    """Both sides of the first pairs stay, which are evidence; the rest is cut."""
    launches = tuple(
        LaunchNumbers(side=side, launch=number, values={f"metric_{n}": 1.0 for n in range(16)})
        for side in ("head", "base")
        for number in range(1000)
    )
    whole = record(*(case(f"case-{number}", launches=launches) for number in range(12)))
    _, text = fitted(whole)
    assert len(text) <= RECORD_LIMIT
    small = read_record(text.encode(), "r.json")
    sides = [(one.side, one.launch) for one in small.cases[0].launches]
    assert sides == [(side, number) for side in ("head", "base") for number in range(64)]


# --- both sides of every op ---------------------------------------------------------------------

PHASES, LAYERS, OPS = ("forward", "backward"), 128, 200


def table(names: Sequence[str], layers: int, scale: float) -> StepOps:
    """Ops that each run in every phase of every layer."""
    noise = random.Random(names[0])  # noqa: S311 - no secret
    times = {name: scale * 100.0 / (place + 2) for place, name in enumerate(names)}
    places = [
        OpPlace(
            op=name,
            phase=phase,
            layer=layer if layers else None,
            direction=phase if layers else None,
            count=float(1 + place % 3),
            ms=times[name] / max(layers, 1) / 2 * noise.uniform(0.5, 1.5),
        )
        for phase in PHASES
        for layer in range(max(layers, 1))
        for place, name in enumerate(names)
    ]
    details = {
        name: OpDetail(kind="elementwise", count=float(place + 1), order=place)
        for place, name in enumerate(names)
    }
    return step_ops_of(times, details, places)


def with_both_sides(name: str, names: Sequence[str], layers: int, outcome: Outcome) -> Judged:
    """A case of so many ops on both sides; a failing one has its explanation."""
    changes = tuple(
        OpChange(name=op, kind="gemm", base_ms=1.0, head_ms=2.0, base_count=3.0, head_count=3.0)
        for op in names[:12]
    )
    return case(
        name,
        step_ops=table(names, layers, 1.1),
        base=BaseSide(step_ops=table(names, layers, 1.0), called={names[0]: f"{names[0]}_was"}),
        explanation=Explanation(
            basis="device", base_step_ms=100.0, head_step_ms=110.0, parts=(), ops=changes
        ),
        verdict=Verdict(outcome=outcome),
    )


def test_fitted__a_cell_of_an_op_takes_at_most_30_bytes() -> None:
    """Phase × layer × op, both sides, with names and all."""
    names = [f"ampere_bf16_s16816gemm_bf16_128x{n}_ldg8_f2f_stages_64x3_nn" for n in range(OPS)]
    left = record(with_both_sides("llama-7b@h100", names, LAYERS, Outcome.FAIL))
    _, text = fitted(left)
    assert len(text) / (OPS * LAYERS * len(PHASES)) <= 30
    assert read_record(text.encode(), "r.json") == left


def real_names() -> list[str]:
    """174 names as kernels of templates have them, of 221 characters on average."""
    stem = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{}>, "
    return [
        f"{stem.format(n)}{'std::array<char*, 3ul>, ' * 5}{n}>".ljust(221, "x") for n in range(174)
    ]


def matrix_of(cases: int, runs: int) -> Record:
    outcomes = [Outcome.FAIL, *[Outcome.PASS] * 15]
    names = [f"model-{number:02d}@h100" for number in range(cases)]
    judged = [
        with_both_sides(name, real_names(), 0, outcomes[number % 16])
        for number, name in enumerate(names)
    ]
    points = [
        point(run, each.name, ops={key: ms + run for key, ms in remembered(each.step_ops).items()})
        for run in range(runs)
        for each in judged
    ]
    return record(*judged).but(history=tuple(points))


def without_ops(points: Sequence[HistoryPoint]) -> tuple[HistoryPoint, ...]:
    return tuple(each.but(ops={}) for each in points)


def test_fitted__64_cases_of_174_ops_and_60_points_stay_whole() -> None:
    """Every name once: nothing has to go, and an op of a point has 20 bytes at most."""
    left = matrix_of(64, 60)
    assert {len(each.ops) for each in left.history} == {16}
    _, text = fitted(left)
    assert len(text) <= RECORD_LIMIT
    assert read_record(text.encode(), "r.json") == left
    _, bare = fitting(left.but(history=without_ops(left.history)), RECORD_LIMIT)
    assert (len(text) - len(bare)) / (64 * 60 * 16) <= 20


def test_fitted__ops_of_points_go_before_anything_of_a_case() -> None:
    """First of those that no page draws, then of all; the cases and the points stay."""
    left = matrix_of(16, 100)
    small, old = fitting(left, RECORD_LIMIT)
    assert small.cases == left.cases
    for name in (each.name for each in left.cases):
        mine = [each for each in small.history if each.case == name]
        assert [bool(each.ops) for each in mine] == [False] * 40 + [True] * 60
    least, _ = fitting(left, len(old) - 1)
    assert least == left.but(history=without_ops(left.history))


def test_fitted__cases_that_pass_shrink_first() -> None:
    """What judges stays whatever goes; a failing case keeps its explanation and 16 ops."""
    left = matrix_of(64, 60)
    for limit in (1_900_000, 1_200_000, 900_000):
        small, text = fitting(left, limit)
        assert len(text) <= limit
        assert read_record(text.encode(), "r.json") == small
        assert small.history == without_ops(left.history)
        for kept, whole in zip(small.cases, left.cases, strict=True):
            assert kept.launches == whole.launches
            if kept.verdict and kept.verdict.outcome is Outcome.FAIL:
                assert kept.explanation == whole.explanation
                assert len(kept.step_ops.names) >= 16
                assert kept.base
                assert len(kept.base.step_ops.names) >= 16
        kinds = {
            outcome: [
                len(each.ops) for each in small.cases if each.verdict == Verdict(outcome=outcome)
            ]
            for outcome in (Outcome.FAIL, Outcome.PASS)
        }
        assert max(kinds[Outcome.PASS]) <= min(kinds[Outcome.FAIL])


def with_code(name: str, outcome: Outcome, lines: int = 60) -> Judged:
    """A case with so many lines of code, each of them slower than it was."""
    noise = random.Random(name)  # noqa: S311 - no secret
    definitions = tuple(
        Definition(
            name=f"Block{number}.Attention.forward",
            file=f"src/models/llama/block_{number}.py",
            first=10,
            last=200,
        )
        for number in range(20)
    )

    def side(scale: float) -> StepCode:
        rows = [
            CodeLine(
                definition=number % 20,
                line=20 + number,
                first=20 + number,
                last=21 + number,
                text=f"{number:08x}",
                caller=(7 * number) % 20,
                through="torch Linear.forward" if number % 3 else None,
                work=CodeWork(
                    forward_ms=round(scale * noise.uniform(1.0, 9.0), 3),
                    backward_ms=round(scale * noise.uniform(1.0, 9.0), 3),
                    python_ms=round(noise.uniform(0.1, 0.9), 4),
                    forward_launches=float(noise.randrange(96)),
                    backward_launches=float(noise.randrange(96)),
                    peak_bytes=noise.randrange(10**9),
                ),
            )
            for number in range(lines)
        ]
        whole = sum(one.work.ms for one in rows)
        return StepCode(definitions=definitions, lines=tuple(rows), total_ms=whole)

    head = side(1.3)
    explanation = Explanation(
        basis="device",
        base_step_ms=100.0,
        head_step_ms=130.0,
        parts=(),
        code=code_changes(head, side(1.0)),
    )
    return case(name, code=head, explanation=explanation, verdict=Verdict(outcome=outcome))


def test_fitted__64_cases_of_60_lines_stay_whole() -> None:
    """What the code takes of a case, and how that changed, has 25 kB at most."""
    cases = [with_code(f"model-{number}", Outcome.FAIL) for number in range(64)]
    left = record(*cases)
    small, text = fitting(left, RECORD_LIMIT)
    assert small == left
    assert read_record(text.encode(), "r.json") == left
    bare = record(*(one.but(code=None, explanation=None) for one in cases))
    assert (len(text) - len(fitting(bare, RECORD_LIMIT)[1])) / 64 <= 25_000


def test_fitted__lines_of_a_case_that_passes_go_first() -> None:
    """A failing case keeps where its code changed as long as it keeps its explanation."""
    outcomes = [Outcome.PASS] * 6 + [Outcome.FAIL] * 2
    cases = [with_code(f"model-{number}", one) for number, one in enumerate(outcomes)]
    left = record(*cases)
    whole = len(fitting(left, RECORD_LIMIT)[1])
    for share in (0.9, 0.6, 0.35, 0.25):
        small, text = fitting(left, int(share * whole))
        assert read_record(text.encode(), "r.json") == small
        for before, after in zip(left.cases[6:], small.cases[6:], strict=True):
            assert after.explanation == before.explanation
        first = small.cases[0]
        assert first.explanation
        assert first.explanation.code is None
    assert [one.code is None for one in small.cases] == [True] * 6 + [False] * 2


def test_largest__what_is_cut_of_the_code_is_counted() -> None:
    """The lines that stay name the same functions and callers, and no time is lost."""
    whole = with_code("one", Outcome.PASS).code
    assert whole
    small = whole.largest(7)
    names = [
        [(code.definitions[one.definition], code.definitions[one.caller or 0]) for one in lines]
        for code, lines in ((whole, whole.lines[:7]), (small, small.lines))
    ]
    assert names[0] == names[1]
    assert small.left_out == 53
    kept = sum(one.work.ms for one in small.lines)
    assert kept + small.left_out_ms == pytest.approx(whole.total_ms)
    assert {one.file for one in small.definitions} < {one.file for one in whole.definitions}
    assert whole.largest(60) is whole


def test_read__numbers_of_a_line_that_are_no_numbers_are_refused() -> None:
    """A stranger's list has the parts of a work, and nothing else."""
    value = json.loads(fitting(record(with_code("one", Outcome.FAIL)), RECORD_LIMIT)[1])
    value["cases"][0]["code"]["lines"][0]["work"] = [1.0, "2", 3.0, 4.0, 5.0, 6, 7, 8]
    with pytest.raises(BadInputError, match=r"code\.lines\[0\]\.work\.backward_ms"):
        read_record(json.dumps(value).encode(), "r.json")


def test_fitted__what_is_cut_is_counted() -> None:
    """The time of all ops stays the same."""
    names = real_names()
    whole = table(names, 4, 1.0)
    small = whole.with_share(0.95)
    assert small.left_out == len(names) - len(small.names)
    assert small.in_all_ms == pytest.approx(whole.in_all_ms)
    assert sum(small.ms) >= 0.95 * whole.in_all_ms > sum(small.ms[:-1])
    flat = whole.without_layers()
    assert not flat.has_layers
    for name, detail in whole.details.items():
        for phase, work in detail.phases.items():
            assert flat.details[name].phases[phase].ms == pytest.approx(work.ms, rel=1e-3)
            assert flat.details[name].phases[phase].count == work.count


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"names": [7]}, "texts: found no text 7"),
        ({"names": ["a", "a"], "ms": [1.0, 2.0]}, "each op once"),
        ({"names": ["a"], "ms": []}, "as many entries as there are names"),
        ({"names": ["a"], "ms": [1.0], "cells": [{"rows": [1], "ms": [1.0]}]}, "rows of cells"),
        ({"names": ["a"], "ms": [1.0], "cells": [{"rows": [0], "ms": []}]}, "as there are rows"),
    ],
    ids=str,
)
def test_read__a_table_that_does_not_fit_is_refused(column: dict[str, Any], words: str) -> None:
    """A stranger's columns of other lengths would show one op's time beside another's name."""
    value = {**json.loads(written(record())), "texts": ["a"]}
    value["cases"][0]["step_ops"] = column
    with pytest.raises(BadInputError, match=words):
        read_record(json.dumps(value).encode(), "r.json")


def test_read__texts_are_texts_alone() -> None:
    """A list in their place would stand for many names at each of many places."""
    value = json.loads(dump(record(case())))
    value["cases"][0]["step_ops"] = {"names": 0, "ms": [1.0]}
    value["texts"] = [["gemm"]]
    with pytest.raises(BadInputError, match="no text 0"):
        read_record(json.dumps(value).encode(), "r.json")


def test_read__a_column_of_wrong_types_is_one_mistake() -> None:
    """What a column holds is not told a thousand times."""
    value = json.loads(dump(record(case())))
    value["cases"][0]["step_ops"] = {"names": [1] * 1_000, "ms": [None] * 1_000}
    with pytest.raises(BadInputError, match=r"names\[0\]: found 1 \(and 1 more\)"):
        read_record(json.dumps(value).encode(), "r.json")

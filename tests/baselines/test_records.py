"""Records: one version, histories in order, at most 5 MB."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_score.baselines import ArtifactBaselines, FolderBaselines, record_size
from ci_score.baselines.histories import join_histories
from ci_score.baselines.record_size import (
    JUDGED_POINTS,
    KEPT_LAUNCHES,
    PACKED_LIMIT,
    PROVING_POINTS,
    fitted,
)
from ci_score.baselines.records import SCHEMA_VERSION, read_record
from ci_score.compare.code import code_changes
from ci_score.errors import BadInputError
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


def packed(text: str) -> int:
    return len(zlib.compress(text.encode()))


def test_fitted__what_fits_is_not_touched() -> None:
    """A small record is indented; a large one stands on one line, and reads back the same."""
    small, whole = large(4), large(64)
    assert fitted(small) == (small, dump(small))
    kept, text = fitted(whole)
    assert kept is whole
    assert text.count("\n") == 1
    assert packed(text) <= PACKED_LIMIT < len(text)
    assert read_record(text.encode(), "r.json") == whole


def test_fitted__the_oldest_points_go_last() -> None:
    """A judgement looks at the newest; those of another case do not push them out."""
    whole = large(8)
    for limit, most in ((9_000, JUDGED_POINTS), (6_000, PROVING_POINTS), (1, 0)):
        small, text = fitted(whole, limit)
        assert read_record(text.encode(), "r.json") == small
        for name in (each.name for each in whole.cases):
            every, kept = (
                [each for each in one.history if each.case == name] for one in (whole, small)
            )
            assert kept == (every[-most:] if most else [])


def test_fitted__is_no_larger_than_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """However well it packs: whoever reads it unpacks no more."""
    monkeypatch.setattr(record_size, "RECORD_LIMIT", 100_000)
    launches = tuple(
        LaunchNumbers(side=side, launch=number, values={f"metric_{n}": 1.0 for n in range(16)})
        for side in ("head", "base")
        for number in range(100)
    )
    whole = record(*(case(f"case-{number}", launches=launches) for number in range(4)))
    small, text = fitted(whole)
    assert len(text) <= 100_000
    assert read_record(text.encode(), "r.json") == small
    sides = [(one.side, one.launch) for one in small.cases[0].launches]
    assert sides == [(side, number) for side in ("head", "base") for number in range(KEPT_LAUNCHES)]


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


def test_fitted__a_cell_of_an_op_packs_to_at_most_6_bytes() -> None:
    """Phase × layer × op, both sides, with names and all."""
    names = [f"ampere_bf16_s16816gemm_bf16_128x{n}_ldg8_f2f_stages_64x3_nn" for n in range(OPS)]
    left = record(with_both_sides("llama-7b@h100", names, LAYERS, Outcome.FAIL))
    _, text = fitted(left)
    assert packed(text) / (OPS * LAYERS * len(PHASES)) <= 6
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


def test_fitted__64_cases_of_174_ops_and_60_points_stay_whole() -> None:
    """With 16 ops of each point, a fifth of what there is room for."""
    left = matrix_of(64, 60)
    assert {len(each.ops) for each in left.history} == {16}
    small, text = fitted(left)
    assert small is left
    assert packed(text) <= PACKED_LIMIT / 5
    assert read_record(text.encode(), "r.json") == left


def test_fitted__what_is_only_shown_goes_first() -> None:
    """The ops of points, cases that do not fail, and the rest but for 16 ops and why it failed."""
    left = matrix_of(16, 20)
    without_ops = tuple(each.but(ops={}) for each in left.history)
    seen = []
    for limit in (126_000, 50_000, 5_000):
        small, text = fitted(left, limit)
        assert packed(text) <= limit
        assert read_record(text.encode(), "r.json") == small
        assert small.history == without_ops
        assert [each.verdict for each in small.cases] == [each.verdict for each in left.cases]
        failing, *others = small.cases
        assert failing.explanation == left.cases[0].explanation
        assert failing.base
        assert len(failing.ops) == len(failing.base.step_ops.names)
        seen.append((len(failing.ops), {len(each.ops) for each in others}))
    assert seen == [(174, {174}), (174, {0}), (16, {0})]


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
    """What the code takes of a case, and how that changed, packs to 10 kB at most."""
    left = record(*(with_code(f"model-{number}", Outcome.FAIL) for number in range(64)))
    small, text = fitted(left)
    assert small is left
    assert read_record(text.encode(), "r.json") == left
    assert packed(text) / 64 <= 10_000


def test_largest__what_is_cut_is_counted() -> None:
    """The time of all ops stays the same."""
    whole = table(real_names(), 4, 1.0)
    small = whole.largest(16)
    assert small.names == whole.names[:16]
    assert small.left_out == len(whole.names) - 16
    assert small.in_all_ms == pytest.approx(whole.in_all_ms)
    assert small.cells_in_all == 16 * 4 * len(PHASES)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"names": [7]}, r"names\[0\]: found 7"),
        ({"names": ["a", "a"], "ms": [1.0, 2.0]}, "each op once"),
        ({"names": ["a"], "ms": []}, "as many entries as there are names"),
        ({"names": ["a"], "ms": [1.0], "cells": [{"rows": [1], "ms": [1.0]}]}, "rows of cells"),
        ({"names": ["a"], "ms": [1.0], "cells": [{"rows": [0], "ms": []}]}, "as there are rows"),
    ],
    ids=str,
)
def test_read__a_table_that_does_not_fit_is_refused(column: dict[str, Any], words: str) -> None:
    """A stranger's columns of other lengths would show one op's time beside another's name."""
    value = json.loads(written(record()))
    value["cases"][0]["step_ops"] = column
    with pytest.raises(BadInputError, match=words):
        read_record(json.dumps(value).encode(), "r.json")


def test_read__a_column_of_wrong_types_is_one_mistake() -> None:
    """What a column holds is not told a thousand times."""
    value = json.loads(dump(record(case())))
    value["cases"][0]["step_ops"] = {"names": [1] * 1_000, "ms": [None] * 1_000}
    with pytest.raises(BadInputError, match=r"names\[0\]: found 1 \(and 1 more\)"):
        read_record(json.dumps(value).encode(), "r.json")

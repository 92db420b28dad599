"""Attempts of a run: their files and their records together give each measurement once."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ci_score.model.record import Judged
from ci_score.run import case_files
from ci_score.run.case_files import (
    CaseSource,
    files_of_artifact,
    find_files,
    find_measurements,
)
from tests.builders import layer, profile
from tests.builders.launches import lines
from tests.builders.scene import (
    FAST,
    SLOW,
    Outcome,
    Scene,
    on_pull_request,
    pull_request,
    record_in,
    tip,
)
from tests.loopback_github import events
from tests.loopback_github.events import Event

A100, H100 = {"accelerator": "NVIDIA A100"}, {"accelerator": "NVIDIA H100"}


def session(
    seed: int, pairs: int = 8, head_ms: float = 100.0, sides: str = "both"
) -> list[dict[str, Any]]:
    """The lines of a session, which ran in turns; no two have the same times."""
    luck = random.Random(seed)  # noqa: S311 - noise, no secret
    return [
        {"side": side, "launch": number, "order": 2 * number + place, "tokens_per_step": 1000,
         "step_ms": [ms * (1 + luck.gauss(0.0, 0.002)) for _ in range(10)]}
        for number in range(pairs)
        for place, (side, ms) in enumerate((("base", 100.0), ("head", head_ms)))
        if sides in ("both", side)
    ]  # fmt: skip


@dataclass
class Rerun:
    """A pull request's run and its attempts; the gate downloads what all of them uploaded."""

    scene: Scene
    event: Event
    left: dict[str, bytes] = field(default_factory=dict)
    uploads: int = 0

    @classmethod
    def of(cls, scene: Scene) -> Rerun:
        """A run of a pull request, which has left nothing yet."""
        scene.workspace.mkdir()
        return cls(scene, events.pull_request(scene.github, pull_request(scene)))

    def measured(
        self, attempt: int, rows: list[dict[str, Any]], case: str = "training", **environment: Any
    ) -> None:
        """What the measuring job of an attempt uploaded, which has begun then."""
        while self.event.run.run_attempt < attempt:
            self.again()
        folder = f"{case}~{attempt}"
        self.left[f"{folder}/measurements.jsonl"] = lines(*rows)
        if environment:
            text = json.dumps({"schema": 1, **environment})
            self.left[f"{folder}/environment.json"] = text.encode()

    def judged(self, *, keeps_record: bool = True, **inputs: str) -> Outcome:
        """The gate of the attempt that runs now, and the upload of its record."""
        perf = self.scene.workspace / "perf"
        shutil.rmtree(perf, ignore_errors=True)
        for name, data in self.left.items():
            (perf / name).parent.mkdir(parents=True, exist_ok=True)
            (perf / name).write_bytes(data)
        done = self.scene.act(self.event, **{"measurements": "perf", **inputs})
        if keeps_record:
            left = (self.scene.workspace / "ci-score" / "ci-score.json").read_bytes()
            self.scene.state.uploaded(self.event.run, "ci-score-pr", {"ci-score.json": left})
        return done

    def again(self) -> None:
        """The next attempt begins."""
        self.event = events.rerun(self.scene.github, self.event)

    @property
    def case(self) -> Judged:
        """The only case of the last record."""
        (case,) = record_in(self.scene).cases
        return case

    @property
    def pairs(self) -> int:
        """How many pairs the last record has, each with a number of its own."""
        pairs = self.case.pairs()
        assert len({head.launch for head, _ in pairs}) == len(pairs)
        assert self.case.without_partner == 0
        return len(pairs)


@pytest.fixture
def rerun(scene: Scene) -> Rerun:
    """A run whose first attempt begins."""
    return Rerun.of(scene)


# --- which case, which attempt --------------------------------------------------------------------


def found_at(folder: Path, *paths: str, asked: str = "perf") -> list[tuple[str, int]]:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(lines({}))
    files = find_measurements([CaseSource(asked)], folder)
    return [(case, file.attempt) for case, of_case in files.items() for file in of_case]


@pytest.mark.parametrize(
    ("path", "asked", "expected"),
    [
        ("perf/llama~2/m.jsonl", "perf", ("llama", 2)),
        ("perf/perf-llama~2/llama~2/m.jsonl", "perf", ("llama", 2)),
        ("perf/llama~2/logs/m.jsonl", "perf", ("llama", 2)),
        ("perf/llama~2/m.jsonl", "perf/llama~2", ("llama", 2)),
        ("perf/llama~2/m.jsonl", "perf/llama~2/m.jsonl", ("llama", 2)),
        ("perf/llama~2/m.jsonl", "perf/*/*.jsonl", ("llama", 2)),
        ("perf/llama/m.jsonl", "perf", ("llama", 0)),
        ("perf/m.jsonl", "perf", ("training", 0)),
        ("perf/llama~999999999/m.jsonl", "perf", ("llama", 999_999_999)),
        # None of these is how an attempt is written: they are names, made fit.
        ("perf/~1/m.jsonl", "perf", ("1", 0)),
        ("perf/llama~0/m.jsonl", "perf", ("llama-0", 0)),
        ("perf/llama~01/m.jsonl", "perf", ("llama-01", 0)),
        ("perf/llama~9999999999/m.jsonl", "perf", ("llama-9999999999", 0)),
        ("perf/llama~²/m.jsonl", "perf", ("llama", 0)),
        ("perf/llama~/m.jsonl", "perf", ("llama", 0)),
        ("perf/a~b~2/m.jsonl", "perf", ("a-b", 2)),
        ("perf/~~2/m.jsonl", "perf", ("training", 2)),
    ],
)
def test_folder__names_the_case_and_the_attempt(
    tmp_path: Path, path: str, asked: str, expected: tuple[str, int]
) -> None:
    """However artifacts were downloaded, merged or each into a folder of its own."""
    assert found_at(tmp_path, path, asked=asked) == [expected]


def test_folder__of_a_named_case_has_its_attempts(tmp_path: Path) -> None:
    """Who names the case in the input still has several attempts of it."""
    found_at(tmp_path, "perf/a~1/m.jsonl", "perf/a~2/m.jsonl")
    files = find_files([CaseSource("perf/*", "mine")], tmp_path, lambda name: "~" in name)
    assert files == {"mine": []}  # a folder's files are asked for by their own names
    files = find_measurements([CaseSource("perf", "mine")], tmp_path)
    assert [file.attempt for file in files["mine"]] == [1, 2]


def test_session__gives_its_profiles_once(tmp_path: Path) -> None:
    """Files beside each other are one session: its profiles are not read again for each."""
    session = tmp_path / "perf" / "llama~1"
    (session / "profiles" / "head").mkdir(parents=True)
    (session / "profiles" / "head" / "trace.json").touch()
    for name in ("a.jsonl", "b.jsonl"):
        (session / name).touch()
    files = find_measurements([CaseSource("perf")], tmp_path)["llama"]
    assert [len(file.profiles.get("head", ())) for file in files] == [1, 0]


def test_artifact__holds_folders_of_attempts() -> None:
    """The members of an artifact are read as its files would be."""
    members = [("llama~3/p.json", b"{}"), ("perf-bert~1/bert~1/p.json", b"{}")]
    found = files_of_artifact(members, None)
    assert {case: [one.attempt for one in files] for case, files in found.items()} == {
        "llama": [3],
        "bert": [1],
    }


# --- each pair once -------------------------------------------------------------------------------


def test_rerun__two_attempts_of_eight_pairs_are_sixteen(rerun: Rerun) -> None:
    """Attempt 2 downloads the files of both, and finds the record of the first."""
    rerun.measured(1, session(1))
    rerun.judged()
    assert rerun.pairs == 8
    rerun.again()
    rerun.measured(2, session(2))
    done = rerun.judged()
    assert rerun.pairs == 16
    assert rerun.case.took_turns is True
    assert "Attempt 2 measured anew (training)" in done.summary
    assert "no new evidence" not in done.summary


def test_rerun__of_the_gate_alone_is_no_new_evidence(rerun: Rerun) -> None:
    """The same files and the record of the same measurement: eight pairs stay eight."""
    rerun.measured(1, session(1))
    rerun.judged()
    rerun.again()
    done = rerun.judged()
    assert rerun.pairs == 8
    assert "no new evidence" in done.summary
    rerun.again()
    rerun.measured(3, session(3))
    rerun.judged()
    assert rerun.pairs == 16
    rerun.again()
    rerun.judged()
    assert rerun.pairs == 16


@pytest.mark.parametrize("records", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kept", [(3,), (2, 3), (1, 3)])
def test_rerun__a_third_attempt_counts_what_is_known_once(
    rerun: Rerun, records: tuple[bool, bool], kept: tuple[int, ...]
) -> None:
    """Whichever artifacts and records are still there, what any of them holds counts, once."""
    known = set(kept)
    for attempt, keeps_record in ((1, records[0]), (2, records[1])):
        rerun.measured(attempt, session(attempt))
        rerun.judged(keeps_record=keeps_record)
        rerun.again()
        if keeps_record:
            known |= set(range(1, attempt + 1))
    rerun.measured(3, session(3))
    rerun.left = {n: data for n, data in rerun.left.items() if int(n.split("/")[0][-1]) in kept}
    rerun.judged()
    assert rerun.pairs == 8 * len(known)


def test_rerun__a_copied_file_counts_once(rerun: Rerun) -> None:
    """The file of an earlier attempt under another attempt, and with pairs of its own."""
    rerun.measured(1, session(1))
    rerun.measured(2, session(1))
    rerun.judged(keeps_record=False)
    assert rerun.pairs == 8
    rerun.measured(2, session(1) + session(2, pairs=10)[16:])
    rerun.left["training~2/copy.jsonl"] = rerun.left["training~2/measurements.jsonl"]
    rerun.judged()
    assert rerun.pairs == 10


def test_rerun__pairs_of_a_coarse_timer_are_not_lost(rerun: Rerun) -> None:
    """Pairs of one session may be alike: they have numbers, and each counts."""
    rows = [{**row, "step_ms": [100.0] * 5, "tokens_per_step": 1000} for row in session(1, pairs=6)]
    rerun.measured(1, rows)
    rerun.judged()
    assert rerun.pairs == 6
    rerun.again()
    rerun.measured(2, session(2))
    rerun.judged()
    assert rerun.pairs == 14


def test_rerun__order_and_partners_are_those_of_each_attempt(rerun: Rerun) -> None:
    """The same launch numbers in both attempts never make pairs across attempts."""
    rerun.measured(1, session(1, head_ms=150.0))
    rerun.measured(2, session(2, head_ms=100.0))
    rerun.judged()
    times = [(head.values["step_time_ms"], base.values["step_time_ms"])
             for head, base in rerun.case.pairs()]  # fmt: skip
    assert [round(head / base, 1) for head, base in times] == [1.5] * 8 + [1.0] * 8
    assert rerun.case.took_turns is True


def test_rerun__an_attempt_out_of_turns_is_not_hidden(rerun: Rerun) -> None:
    """One attempt ran all of head first: the pairs together are no pairs."""
    rows = sorted(session(1), key=lambda row: row["side"])
    rerun.measured(1, [{**row, "order": place} for place, row in enumerate(rows)])
    rerun.measured(2, session(2))
    done = rerun.judged()
    assert rerun.case.took_turns is False
    assert done.code == 3


def test_rerun__of_one_side_counts_each_launch_once(rerun: Rerun) -> None:
    """Head alone: the launches are joined, and the time is the mean of the attempts."""
    rerun.measured(1, session(1, head_ms=130.0, sides="head"))
    rerun.judged()
    assert len(rerun.case.launches) == 8
    rerun.again()
    rerun.measured(2, session(2, head_ms=100.0, sides="head"))
    rerun.judged()
    assert len(rerun.case.launches) == 16
    assert rerun.case.scorecard.step_time_ms == pytest.approx(115.0, rel=0.002)
    rerun.again()
    rerun.measured(3, session(3, head_ms=100.0, sides="head"))
    rerun.judged()
    assert len(rerun.case.launches) == 24
    assert rerun.case.scorecard.step_time_ms == pytest.approx(110.0, rel=0.002)


BROKEN: dict[str, Any] = {"alone": {"why": "base_cannot_run", "words": "it exited with 2"}}


@pytest.mark.parametrize(
    ("mark", "keeps_record"), [(BROKEN, True), ({}, False)], ids=["base cannot run", "looked right"]
)
@pytest.mark.parametrize("alone", [{1}, {2}, {3}, {1, 2}, {2, 3}, {1, 3}], ids=str)
def test_rerun__what_head_measured_alone_gives_way_to_pairs(
    rerun: Rerun, alone: set[int], keeps_record: bool, mark: dict[str, Any]
) -> None:
    """An attempt without a base, wanted or not, leaves no holes in the pairs of the others."""
    slow = 0
    for attempt in (1, 2, 3):
        if attempt in alone:
            rerun.measured(attempt, session(attempt, pairs=2, sides="head"), **mark)
        else:
            rerun.measured(attempt, session(attempt, head_ms=150.0))
            slow += 1
        done = rerun.judged(keeps_record=keeps_record)
        assert done.code == bool(slow)
        if slow:
            assert rerun.pairs == 8 * slow
            assert rerun.case.took_turns is True
        if attempt not in alone:
            left_out = bool(alone & set(range(attempt)))
            assert ("not comparable with this one" in done.summary) == left_out


def test_rerun__a_killed_attempt_keeps_its_launches(rerun: Rerun) -> None:
    """A launch without partner at the end of the first attempt finds none in the second."""
    rerun.measured(1, session(1)[:9])
    rerun.measured(2, session(2))
    rerun.judged()
    assert len(rerun.case.pairs()) == 12
    assert rerun.case.without_partner == 1


def test_rerun__of_a_failed_leg_is_two_cases_and_not_three(rerun: Rerun) -> None:
    """Only bert was measured again; llama is judged as before."""
    rerun.measured(1, session(1), "llama")
    rerun.measured(1, session(2, pairs=2), "bert")
    rerun.judged()
    rerun.again()
    rerun.measured(2, session(3), "bert")
    done = rerun.judged()
    pairs = {case.name: len(case.pairs()) for case in record_in(rerun.scene).cases}
    assert pairs == {"bert": 10, "llama": 8}
    assert "measured anew (bert)" in done.summary
    assert "judged (llama): that is no new evidence" in done.summary


def test_rerun__lines_that_name_their_case_are_joined_too(rerun: Rerun) -> None:
    """A line's own case counts, whatever the folder is called."""
    for attempt in (1, 2):
        rows = [{**row, "case": "gpt"} for row in session(attempt)]
        rerun.measured(attempt, rows, "folder")
    rerun.judged()
    assert (rerun.case.name, rerun.pairs) == ("gpt", 16)


def test_rerun__whose_record_is_gone_says_nothing_wrong(rerun: Rerun) -> None:
    """The files of the attempt before are here, so nothing was lost with its record."""
    rerun.measured(1, session(1))
    rerun.judged(keeps_record=False)
    rerun.again()
    rerun.measured(2, session(2))
    done = rerun.judged()
    assert rerun.pairs == 16
    assert "was not found" not in done.summary


def test_attempts__are_joined_without_github_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever downloads the artifacts of a run and judges them at home sees what the gate saw."""
    from ci_score.cli import execute
    from tests.builders.whole_run import held

    monkeypatch.chdir(tmp_path)
    for attempt in (1, 2):
        folder = tmp_path / "perf" / f"perf-training~{attempt}" / f"training~{attempt}"
        folder.mkdir(parents=True)
        (folder / "measurements.jsonl").write_bytes(lines(*session(attempt)))
    assert execute(["run", "--measurements", "perf"]) == 0
    (case,) = held(tmp_path).cases
    assert len(case.pairs()) == 16


# --- machines of a pool ---------------------------------------------------------------------------


def test_machines__of_another_kind_are_not_mixed(rerun: Rerun) -> None:
    """The newest attempt decides; what ran on another accelerator is left out, and said."""
    rerun.measured(1, session(1), **A100)
    rerun.measured(2, session(2), **H100)
    rerun.measured(3, session(3), **A100)
    done = rerun.judged()
    assert rerun.pairs == 16
    assert rerun.case.environment.accelerator == "NVIDIA A100"
    assert "NVIDIA H100" in done.summary


@pytest.mark.parametrize("left", ["files and records", "files", "records"])
def test_machines__of_another_kind_wash_no_red_away(rerun: Rerun, left: str) -> None:
    """60 % slower on one accelerator, and as fast as before on two others: it stays red."""
    keeps_record = left != "files"
    for attempt, (ms, kind) in enumerate(
        ((160.0, A100), (100.0, H100), (100.0, {"accelerator": "NVIDIA L4"}), (100.0, H100)), 1
    ):
        if left == "records":
            rerun.left.clear()
        rerun.measured(attempt, session(attempt, head_ms=ms), **kind)
        done = rerun.judged(keeps_record=keeps_record)
        assert done.code == 1
        assert rerun.case.environment.accelerator == "NVIDIA A100"
        assert "60 % slower" in done.summary
        assert ("the newest one ran elsewhere" in done.summary) is (attempt > 1)
    rerun.measured(5, session(5, pairs=30), **A100)
    assert rerun.judged(keeps_record=keeps_record).code == 3


def test_machines__of_another_kind_may_be_accepted(rerun: Rerun) -> None:
    """Somebody with write access says that it is worth it: then the newest attempt counts."""
    scene = rerun.scene
    scene.repository.collaborators["maintainer"] = "write"
    for attempt, (ms, kind) in enumerate(((160.0, A100), (100.0, H100)), 1):
        rerun.measured(attempt, session(attempt, head_ms=ms), **kind)
        assert rerun.judged().code == 1
    (pull,) = scene.state.pull_requests
    words = "ci-score accept training step_time_ms up to 70 % because it is worth it"
    scene.state.comment(scene.repository, pull.number, words, author="maintainer")
    rerun.again()
    assert rerun.judged().code == 0


def test_machines__of_one_kind_are_joined_and_told(rerun: Rerun) -> None:
    """Each pair shares its machine; that the machines differ stands in the report."""
    rerun.measured(1, session(1), **A100, versions={"driver": "550"}, gate_at=0.05)
    rerun.measured(2, session(2), **A100, versions={"driver": "560"}, gate_at=0.01)
    done = rerun.judged()
    assert rerun.pairs == 16
    assert "driver 550 → 560" in done.summary
    # The machine with the coarser limit decides for both, as of several nodes.
    assert rerun.case.environment.gate_at == 0.05


def test_machines__a_disturbed_attempt_neither_counts_nor_hides(rerun: Rerun) -> None:
    """As between records: it is left out, and what came before it counts on."""
    busy: dict[str, Any] = {"disturbances": {"shared": "another process"}}
    rerun.measured(1, session(1))
    rerun.measured(2, session(2), **busy)
    rerun.measured(3, session(3))
    done = rerun.judged()
    assert rerun.pairs == 16
    assert "another process" in done.summary
    rerun.measured(4, session(4), **busy)
    assert rerun.judged(keeps_record=False).code == 3


def test_machines__differences_of_the_sides_add_up(rerun: Rerun) -> None:
    """What differed between the sides of any attempt is told."""
    other = [{"kind": "package", "name": "torch", "base": "2.8", "head": "2.9"}]
    rerun.measured(1, session(1), differs=other)
    rerun.measured(2, session(2))
    rerun.judged()
    assert [row.name for row in rerun.case.environment.differs] == ["torch"]


def test_machines__an_attempt_that_cannot_be_read_is_left_out(rerun: Rerun) -> None:
    """A broken file of an earlier attempt is told; of the newest it is the case's problem."""
    rerun.measured(1, session(1))
    rerun.left["training~1/measurements.jsonl"] = b'{"schema": 7}\n'
    rerun.measured(2, session(2))
    done = rerun.judged(keeps_record=False)
    assert (done.code, rerun.pairs) == (0, 8)
    assert "measured otherwise by an earlier attempt (perf/training" in done.summary
    rerun.measured(1, session(1))
    rerun.left["training~2/measurements.jsonl"] = b'{"schema": 7}\n'
    assert rerun.judged(keeps_record=False).code == 3


def test_machines__attempts_that_contradict_each_other_are_not_green(rerun: Rerun) -> None:
    """Running it again until it is fast does not work."""
    rerun.measured(1, session(1, head_ms=150.0))
    assert rerun.judged().code == 1
    for attempt in (2, 3):
        rerun.again()
        rerun.measured(attempt, session(attempt))
        assert rerun.judged().code != 0


# --- profiles -------------------------------------------------------------------------------------


def of_op(name: str) -> bytes:
    return profile(per_layer=[layer(0, **{name: 5.0})]).model_dump_json().encode()


def test_profiles__of_the_newest_attempt_give_the_reasons(rerun: Rerun) -> None:
    """A cause is of one machine and one time: nothing is averaged over attempts."""
    for attempt, op in ((1, "old"), (2, "new")):
        rerun.left[f"training~{attempt}/p.json"] = of_op(op)
    rerun.left["training~3/README.md"] = b"nothing to see"
    rerun.judged(profiles="perf")
    assert list(rerun.case.ops) == ["new"]


def test_profiles__of_sessions_belong_to_their_attempt(rerun: Rerun) -> None:
    """Beside the lines of two attempts the newest session that took profiles explains."""
    for attempt in (1, 2, 3):
        rerun.measured(attempt, session(attempt))
        rerun.left[f"training~{attempt}/session.json"] = b"{}"
    for attempt, side in ((1, "head"), (1, "base"), (2, "head")):
        name = f"training~{attempt}/profiles/{side}/p.json"
        rerun.left[name] = of_op(f"{side}-{attempt}")
    rerun.judged()
    assert rerun.pairs == 24
    assert list(rerun.case.ops) == ["head-2"]


def test_profiles__of_a_base_explain_a_rerun_too(rerun: Rerun) -> None:
    """The base of the session keeps its profile where the numbers are those of all attempts."""
    for attempt in (1, 2):
        rerun.measured(attempt, session(attempt, head_ms=150.0))
        rerun.left[f"training~{attempt}/session.json"] = b"{}"
        for side, ms in (("head", 15.0), ("base", 5.0)):
            traced = profile(per_layer=[layer(0, matmul=ms)]).model_dump_json().encode()
            rerun.left[f"training~{attempt}/profiles/{side}/p.json"] = traced
    rerun.judged()
    assert rerun.pairs == 16
    assert any(row.name == "matmul" for row in rerun.case.contributions)


def test_profiles__alone_are_joined_with_the_record_before(rerun: Rerun) -> None:
    """Their numbers are the mean of the attempts, as without attempts in the names."""
    for attempt, measured, expected in ((1, SLOW, 130.0), (2, FAST, 115.0)):
        rerun.left[f"training~{attempt}/p.json"] = measured.model_dump_json().encode()
        rerun.judged(profiles="perf", measurements="")
        assert rerun.case.scorecard.step_time_ms == expected
        rerun.again()


@pytest.mark.parametrize("of_artifacts", [False, True], ids=["files", "artifacts"])
def test_profiles__of_an_attempt_that_left_no_record_count(
    rerun: Rerun, *, of_artifacts: bool
) -> None:
    """Its gate was cancelled: twice as long then and as fast as before now is no pass."""
    rerun.scene.leave_record(tip(rerun.scene), FAST)
    for attempt, measured in ((1, profile(200.0, tokens_per_step=1000)), (2, FAST)):
        data = measured.model_dump_json().encode()
        if of_artifacts:
            rerun.scene.state.uploaded(rerun.event.run, f"profile-training~{attempt}", {"p": data})
        rerun.left[f"training~{attempt}/p.json"] = data
        if attempt == 1:
            rerun.again()
    profiles, artifact = ("", "profile-*") if of_artifacts else ("perf", "")
    done = rerun.judged(measurements="", profiles=profiles, profile_artifact=artifact)
    assert (done.code, rerun.case.scorecard.step_time_ms) == (1, 150.0)
    assert "Attempt 2 measured anew (training)" in done.summary


# --- artifacts of attempts ------------------------------------------------------------------------


def uploads(scene: Scene, event: Event, *rows: tuple[str, str, Any]) -> None:
    """Artifacts with profiles, made in the order of falling times: ids rise as times fall."""
    for name, at, measured in rows:
        text = measured.model_dump_json()
        run = event.run if at < "2026-02" else scene.state.rerun(event.run)
        scene.state.artifact(run, name, {"p.json": text}, at=at)


LATER, EARLIER = "2026-02-02T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "pattern"),
    [
        ("profile-a", "profile-a", "profile-*"),
        ("profile-a~2", "profile-a~1", "profile-*"),
        ("profile-a~2", "profile-a~1", "profile-a"),
        ("profile-a~2", "profile-a~1", "profile-a~*"),
        ("profile-a~10", "profile-a~9", "profile-a"),
    ],
)
def test_artifact__the_newest_attempt_is_no_matter_of_ids(
    scene: Scene, first: str, second: str, pattern: str, oldest_first: bool
) -> None:
    """Ids fall while times rise: both attempts count, and the later upload is the newest."""
    scene.state.artifacts_oldest_first = oldest_first
    event = events.pull_request(scene.github, pull_request(scene))
    scene.workspace.mkdir()
    fast, slow = (
        one.but(per_layer=(layer(0, **{op: 5.0}),)) for one, op in ((FAST, "new"), (SLOW, "old"))
    )
    uploads(scene, event, (first, LATER, fast), (second, EARLIER, slow))
    for _ in range(9):
        event = events.rerun(scene.github, event)
    scene.act(event, profile_artifact=pattern)
    (case,) = record_in(scene).cases
    assert case.scorecard.step_time_ms == 115.0
    assert list(case.ops) == ["new"]
    assert case.name == ("a" if pattern == "profile-*" else "training")
    assert sum("/zip" in asked for asked in scene.asked()) == 2


def test_artifact__of_an_attempt_that_is_still_to_come(scene: Scene) -> None:
    """It would hide what this attempt and those after it measure, so nothing counts."""
    event = events.pull_request(scene.github, pull_request(scene))
    scene.workspace.mkdir()
    uploads(scene, event, ("profile-a~1", EARLIER, SLOW), ("profile-a~2", EARLIER, FAST))
    done = scene.act(event, profile_artifact="profile-*")
    assert done.code == 3
    assert "an attempt that is still to come" in done.summary


def test_artifact__the_record_of_the_newest_attempt_is_no_matter_of_ids(scene: Scene) -> None:
    """Of two records of a run the later one holds what both attempts measured."""
    event = events.pull_request(scene.github, pull_request(scene))
    left = []
    for measured in (SLOW, FAST):
        scene.measure(measured)
        scene.act(event)
        data = (scene.workspace / "ci-score" / "ci-score.json").read_bytes()
        left.append(scene.state.uploaded(event.run, "ci-score-pr", {"ci-score.json": data}))
        event = events.rerun(scene.github, event)
    older, newer = left
    older.id, newer.id = newer.id, older.id
    scene.measure(FAST)
    scene.act(event)
    assert record_in(scene).cases[0].scorecard.step_time_ms == 115.0


def test_artifact__the_baseline_of_a_rerun_is_no_matter_of_ids(scene: Scene) -> None:
    """The later record of a commit is the baseline, whatever its id is."""
    newer = scene.leave_record(tip(scene), SLOW)
    older = scene.leave_record(tip(scene), FAST)
    newer.created_at = LATER
    older.created_at = EARLIER
    scene.measure(SLOW)
    assert on_pull_request(scene, pull_request(scene)).code == 0


# --- strangers ------------------------------------------------------------------------------------


def hostile() -> Iterator[dict[str, bytes]]:
    """What a fork may upload."""
    rows = lines(*session(1))
    yield {"llama~999999999/m.jsonl": rows, "llama~1/m.jsonl": lines(*session(2))}
    yield {"~1/m.jsonl": rows, "a~b~2/m.jsonl": rows, "~~1/~2/m.jsonl": rows}
    yield {f"llama~{number}/m.jsonl": lines(*session(number, 1)) for number in range(1, 300)}
    yield {f"llama~{number}/m.jsonl": rows for number in range(1, 900)}
    yield {f"llama~{number}/m.jsonl": b"{" for number in range(1, 300)}


@pytest.mark.parametrize("files", [*hostile()])
def test_stranger__may_name_any_attempt(rerun: Rerun, files: dict[str, bytes]) -> None:
    """It is judged or not, in bounds, and what it leaves can be read again."""
    rerun.left = files
    done = rerun.judged(producer="measure=success")
    assert done.code in (0, 3)
    assert all(len(case.earlier_measurements) <= 100 for case in record_in(rerun.scene).cases)
    rerun.again()
    assert rerun.judged(producer="measure=success").code in (0, 3)


@pytest.mark.parametrize("keeps_record", [True, False])
def test_stranger__names_an_attempt_that_is_to_come(rerun: Rerun, keeps_record: bool) -> None:
    """Fast and on another machine, it would be the newest for ever, and all others left out."""
    rerun.measured(1, session(1, head_ms=126.0), **A100)
    assert rerun.judged(keeps_record=keeps_record).code == 1
    rerun.again()
    rerun.measured(2, session(2, head_ms=126.0), **A100)
    rerun.left["training~9/measurements.jsonl"] = lines(*session(3))
    rerun.left["training~9/environment.json"] = json.dumps({"schema": 1, **H100}).encode()
    done = rerun.judged()
    assert done.code == 3
    assert "the files say that they are of attempt 9, and this is attempt 2" in done.summary


def test_stranger__with_too_many_files_is_refused(
    rerun: Rerun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many attempts somebody names, no more files are read."""
    monkeypatch.setattr(case_files, "MOST_FILES", 20)
    rerun.left = {f"llama~{number}/m.jsonl": b"" for number in range(1, 22)}
    assert rerun.judged(keeps_record=False).code == 2

"""environment.json beside profiles and measurements: found, read strictly, and used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.compare import Workload, measured_case
from ci_score.errors import BadInputError
from ci_score.launches.environment import LARGEST, read_environment
from ci_score.measure import this_machine
from ci_score.model.environment import Environment, MeasuredCode
from ci_score.model.stages import CaseInput
from ci_score.model.verdict import Unjudged
from ci_score.report.headlines import headline
from ci_score.report.sentences import sentence
from ci_score.report.terminal import report_text
from ci_score.run.case_files import CaseSource, files_of_artifact, find_files, is_measurement
from ci_score.run.reading import read_cases
from tests.builders import case, found, profile, record, scorecard
from tests.builders.verdicts import judged_case, verdict_on

WHOLE: dict[str, Any] = {
    "schema": 1,
    "accelerator": "NVIDIA L4",
    "accelerator_count": 2,
    "precision": "bf16",
    "versions": {"torch": "2.9.0", "driver": "580.65"},
    "disturbances": {"throttled": "SW power cap during 3 of 12 launches"},
    "system": "Linux 6.8 x86_64",
    "cpu": {"name": "a CPU", "governor": "performance", "count": 32},
    "git": {"commit": "1" * 40, "changed": True},
    "base_git": {"commit": "2" * 40},
    "devices": [{"name": "NVIDIA L4", "sm_clock_mhz": 1980.0}],
}


def environment(**fields: Any) -> bytes:
    return json.dumps({"schema": 1, **fields}).encode()


def put(folder: Path, **files: bytes | str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = {"env": "environment.json", "p": "p.json", "m": "m.jsonl"}
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / names[name]).write_bytes(data)


def read(here: Path, profiles: str = "perf", measurements: str | None = None) -> list[CaseInput]:
    rows = [CaseSource(measurements)] if measurements else []
    return list(
        read_cases(
            find_files([CaseSource(profiles)], here),
            find_files(rows, here, is_measurement) if rows else None,
            {},
        )
    )


PROFILE = profile(100.0).model_dump_json()
LAUNCH = '{"schema": 1, "step_ms": [100.0]}\n'


# --- the file -----------------------------------------------------------------------------------


def test_environment__what_decides_invalidates_and_informs() -> None:
    """Devices and clocks are for people; the commits tell which code the lines are of."""
    assert read_environment(json.dumps(WHOLE).encode(), "environment.json") == Environment(
        accelerator="NVIDIA L4",
        accelerator_count=2,
        precision="bf16",
        versions={
            "torch": "2.9.0",
            "driver": "580.65",
            "system": "Linux 6.8 x86_64",
            "cpu": "a CPU",
            "cpu governor": "performance",
            "checkout": "with local changes",
        },
        disturbances={"throttled": "SW power cap during 3 of 12 launches"},
        code=MeasuredCode(head="1" * 40, base="2" * 40, head_edited=True),
    )


@pytest.mark.parametrize("commit", ["main", "1" * 12, "1" * 40 + "\n", "../" * 13 + "1"])
def test_environment__what_is_no_commit_is_no_commit(commit: str) -> None:
    """The file may be anybody's; what it says of git is asked about only where it is a commit."""
    told = json.dumps({"schema": 1, "git": {"commit": commit}}).encode()
    assert read_environment(told, "environment.json") == Environment()


def test_environment__of_this_machine_is_read() -> None:
    """What `ci-score env` tells is what is read."""
    told = read_environment(json.dumps(this_machine({})).encode(), "environment.json")
    assert told is not None
    assert told.versions["python"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"schema": 2}, "schema"),
        ({"schema": True}, "schema"),
        ({"accelerator": 3}, "accelerator"),
        ({"accelerator": "x" * 201}, "accelerator"),
        ({"accelerator_count": 0}, "accelerator_count"),
        ({"accelerator_count": 1.5}, "accelerator_count"),
        ({"versions": {"torch": 2.9}}, "versions.torch"),
        ({"versions": {f"v{number}": "1" for number in range(65)}}, "versions"),
        ({"disturbances": {"sleepy": "a word that nobody knows"}}, "disturbances.sleepy"),
        ({"git": {"changed": 1}}, "git.changed"),
    ],
    ids=str,
)
def test_environment__that_is_wrong_is_named(fields: dict[str, Any], field: str) -> None:
    """A stranger's file, with the field that is to blame."""
    with pytest.raises(BadInputError, match="environment") as refused:
        read_environment(environment(**fields), "environment.json")
    assert refused.value.field.startswith(field)


def test_environment__has_a_limit() -> None:
    """It is read whole."""
    with pytest.raises(BadInputError, match="at most"):
        read_environment(b" " * (LARGEST + 1), "environment.json")


@pytest.mark.parametrize("data", [b"", b"no JSON", b"[]", b'{"channels": []}', b"\xff"])
def test_environment__of_another_tool_is_none(data: bytes) -> None:
    """The name is a common one."""
    assert read_environment(data, "environment.json") is None


# --- where it lies ------------------------------------------------------------------------------


def test_environment__beside_profiles_and_measurements(tmp_path: Path) -> None:
    """Of whichever the case has files; what both say, the profiles' says first."""
    put(tmp_path / "perf", p=PROFILE, env=environment(precision="bf16"))
    put(tmp_path / "timed", m=LAUNCH, env=environment(accelerator="NVIDIA L4"))
    (alone,) = read(tmp_path)
    assert alone.environment == Environment(precision="bf16")
    (both,) = read(tmp_path, measurements="timed")
    assert both.environment == Environment(precision="bf16", accelerator="NVIDIA L4")
    assert both.profile.accelerator == "NVIDIA L4"


@pytest.mark.parametrize("where", ["perf", "perf/a/p.json", "perf/a/*.json", "perf/*/p.json"])
def test_environment__is_found_for_folders_files_and_globs(tmp_path: Path, where: str) -> None:
    """Beside the file, however the file was named."""
    put(tmp_path / "perf" / "a", p=PROFILE, env=environment(precision="bf16"))
    (one,) = read(tmp_path, where)
    assert one.environment == Environment(precision="bf16")


def test_environment__above_the_folders_of_cases_is_that_of_all_without_their_own(
    tmp_path: Path,
) -> None:
    """One machine measured them; it makes no case of its own, and none above is looked at."""
    put(tmp_path, env=environment(precision="fp64"))
    put(tmp_path / "perf", env=environment(precision="bf16"))
    put(tmp_path / "perf" / "a", p=PROFILE)
    put(tmp_path / "perf" / "b", p=PROFILE, env=environment(precision="fp8"))
    cases = {one.name: one.environment for one in read(tmp_path)}
    assert cases == {"a": Environment(precision="bf16"), "b": Environment(precision="fp8")}
    (one,) = read(tmp_path, "perf/a")
    assert one.environment is None


def test_environment__in_an_artifact() -> None:
    """The members of an artifact are a folder, too."""
    members = [
        ("environment.json", environment(precision="bf16")),
        ("a/p.json", PROFILE.encode()),
        ("b/p.json", PROFILE.encode()),
        ("b/environment.json", environment(precision="fp8")),
    ]
    cases = read_cases(files_of_artifact(members, None), None, {})
    assert {one.name: one.environment for one in cases} == {
        "a": Environment(precision="bf16"),
        "b": Environment(precision="fp8"),
    }


def test_environment__of_measurements_goes_with_the_case_of_their_lines(tmp_path: Path) -> None:
    """A file whose lines name several cases was measured in one place."""
    lines = "".join(
        json.dumps({"schema": 1, "case": name, "step_ms": [1.0]}) + "\n" for name in "ab"
    )
    put(tmp_path / "timed", m=lines, env=environment(precision="bf16"))
    cases = read(tmp_path, "nothing", "timed")
    assert {one.name: one.environment for one in cases} == dict.fromkeys(
        "ab", Environment(precision="bf16")
    )


def test_environment__of_several_nodes_is_joined(tmp_path: Path) -> None:
    """What disturbed one node disturbed the case; where they disagree is said."""
    for node, fields in (
        ("0", {"accelerator": "NVIDIA L4", "disturbances": {"shared": "a process"}}),
        ("1", {"accelerator": "NVIDIA A10", "disturbances": {"throttled": "power"}}),
    ):
        put(tmp_path / "perf" / "a" / node, p=PROFILE, env=environment(**fields))
    (one,) = read(tmp_path)
    assert one.environment == Environment(
        accelerator="NVIDIA L4", disturbances={"shared": "a process", "throttled": "power"}
    )
    assert "disagree on the accelerator: NVIDIA L4, NVIDIA A10" in "".join(
        note.words for note in one.notes
    )


def test_environment__that_is_wrong_is_the_problem_of_its_case(tmp_path: Path) -> None:
    """A machine of which nothing is known is compared with any: that would cry wolf."""
    put(tmp_path / "perf" / "a", p=PROFILE, env=environment(accelerator=3))
    put(tmp_path / "perf" / "b", p=PROFILE)
    problems = {one.name: one.problem for one in read(tmp_path)}
    assert problems["b"] is None
    assert problems["a"] is not None
    assert "environment.json: accelerator: found 3" in sentence(problems["a"])


def test_environment__of_another_tool_is_a_note(tmp_path: Path) -> None:
    """And the profiles beside it count."""
    put(tmp_path / "perf", p=PROFILE, env='{"channels": []}')
    (one,) = read(tmp_path)
    assert one.problem is None
    assert "environment.json was left out" in one.notes[0].words


def test_environment__a_link_out_of_the_workspace_is_not_followed(tmp_path: Path) -> None:
    """A stranger's artifact could point at a secret of the machine."""
    here = tmp_path / "here"
    put(tmp_path, env=environment(precision="bf16"))
    put(here / "perf", p=PROFILE)
    (here / "perf" / "environment.json").symlink_to(tmp_path / "environment.json")
    (one,) = read(here)
    assert one.problem is not None
    assert "leaves the workspace" in sentence(one.problem)


# --- what becomes of it -------------------------------------------------------------------------


def measured(**fields: Any) -> Any:
    told = read_environment(environment(**fields), "environment.json")
    return measured_case(CaseInput("training", profile(100.0), environment=told), Workload())


def test_environment__another_one_is_no_regression() -> None:
    """It names the key and both values."""
    base = case(card=scorecard(50.0), environment=Environment(precision="fp32"))
    verdict = verdict_on(judged_case(measured(precision="bf16"), found(base)))
    assert verdict.unjudged is Unjudged.ENVIRONMENT_CHANGED
    assert sentence(verdict.reasons[0]) == "precision: bf16 here, fp32 there"


def test_environment__a_disturbed_measurement_is_not_judged() -> None:
    """Clocks that were held down are no regression of the program."""
    head = measured(disturbances={"throttled": "SW power cap during 3 of 12 launches"})
    judged = judged_case(head, found(case(card=scorecard(50.0))))
    assert verdict_on(judged).unjudged is Unjudged.INVALID_MEASUREMENT
    assert "SW power cap" in headline(judged)


def test_environment__versions_inform() -> None:
    """They may be the very subject of the change, so they are told and never compared."""
    base = measured(versions={"torch": "2.8.0", "gone": "1.0", "same": "3"})
    head = measured(versions={"torch": "2.9.0", "new": "0.1", "same": "3"})
    judged = judged_case(head, found(base))
    assert judged.baseline is not None
    assert judged.baseline.changed_versions == (
        "gone 1.0 → none",
        "new none → 0.1",
        "torch 2.8.0 → 2.9.0",
    )
    text = report_text(record(judged))
    assert "other versions: gone 1.0 → none, new none → 0.1, torch 2.8.0 → 2.9.0" in text
    nothing_known = judged_case(head, found(case(card=scorecard()))).baseline
    assert nothing_known is not None
    assert nothing_known.changed_versions == ()

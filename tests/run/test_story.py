"""What a run asks for once, however often it judges."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import pytest

from ci_score.baselines import ArtifactBaselines
from ci_score.compare import Workload, measured_case
from ci_score.judge.policy import Policy, PolicyFile, policy_of, read_policy
from ci_score.model.conversation import Comment, Comments
from ci_score.model.environment import Environment
from ci_score.model.explanation import LayersAre, StepSpread, Timeline
from ci_score.model.metrics import metric_by
from ci_score.model.profile import HostGap, OpCalls, OpWork, Profile, RankWork
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import (
    BaselineUsed,
    HistoryPoint,
    Judged,
    Measured,
    MetricFacts,
    Record,
    RunIdentity,
)
from ci_score.model.stages import Baseline, BaselineFound, CaseInput
from ci_score.model.step_code import StepCode
from ci_score.model.step_ops import StepOps, remembered, step_ops_of
from ci_score.model.verdict import Outcome
from ci_score.run.case_files import CaseFile
from ci_score.run.reading import read_cases
from ci_score.run.story import Job, put_beside, run
from tests.builders import profile
from tests.builders.launches import COMMIT, lines
from tests.builders.scene import FAST, SLOW, Scene, on_pull_request, opened, record_in, tip
from tests.builders.verdicts import policy_file

THEIRS = b"schema = 1\nrules = 'reference'\n"
SAME = b"rules = 'reference'\nschema = 1\n"
OTHER = b"schema = 1\nrules = 'reference'\n[metrics.step_time_ms]\ngate = false\n"


@dataclass
class Counting:
    """A branch that has measured each case faster, and counts what it is asked for."""

    accelerator: str | None = None
    looked_up: list[str] = field(default_factory=list)
    remembers: tuple[HistoryPoint, ...] = ()

    def find(self, case: str, environment: Environment) -> Baseline:
        """Each case, a third faster."""
        self.looked_up.append(case)
        there = measured_case(CaseInput(case, profile(100.0, tokens_per_step=1000)), Workload())
        where = environment.but(accelerator=self.accelerator)
        return BaselineFound(there.but(environment=where), BaselineUsed(source="the branch"))

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """What it remembers."""
        return self.remembers

    def known_cases(self) -> frozenset[str]:
        """Those of the run."""
        return frozenset({"plain", "timed"})

    def inputs(self) -> Mapping[str, str] | None:
        """Not known."""
        return None


@dataclass
class Accepting:
    """Somebody who may, and who accepts all that became slower."""

    sentences: str = "\n".join(
        f"ci-score accept {name} {metric} up to 60 % because the new loss needs a second pass"
        for name in ("plain", "timed")
        for metric in ("step_time_ms", "throughput_tok_s")
    )

    def listen(self) -> Comments:
        """One comment."""
        return Comments((Comment("octocat", self.sentences),))

    def why_not(self, login: str) -> Reason | None:
        """They may."""
        return None

    def why_too_early(self, comment: Comment) -> Reason | None:
        """They have seen all commits."""
        return None


class Silent(Accepting):
    """The same pull request, before anybody has said something."""

    def listen(self) -> Comments:
        """Nothing was said."""
        return Comments()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose policy was parsed, in order, whichever module asked for it."""
    sources: list[str] = []

    def counting(table: Mapping[str, Any], source: str) -> PolicyFile:
        sources.append(source)
        return policy_of(table, source)

    for name, module in list(sys.modules.items()):
        if name.startswith("ci_score") and vars(module).get("policy_of") is policy_of:
            monkeypatch.setattr(module, "policy_of", counting)
    return sources


def cases() -> tuple[CaseInput, ...]:
    """One of a profile alone, and one with a session of both sides and a profile of the head."""
    text = profile(140.0, tokens_per_step=1000).model_dump_json().encode()
    session = lines(
        *(
            {
                "side": side,
                "launch": number,
                "order": 2 * number + place,
                "step_ms": [ms + number / 10],
                "tokens_per_step": 1000,
            }
            for number in range(6)
            for place, (side, ms) in enumerate((("base", 120.0), ("head", 150.0)))
        )
    )
    files = [CaseFile("p.json", data=text)]
    timed = {"timed": [CaseFile("m.jsonl", data=session)]}
    return (
        *read_cases({"plain": files}, None, {}),
        *read_cases({"timed": files}, timed, {}),
    )


def left_by(
    store: Counting,
    file: PolicyFile | None,
    own: Policy | None = None,
    *,
    accepted: bool = False,
    read: tuple[CaseInput, ...] | None = None,
    **fields: Any,
) -> Record:
    published: list[Record] = []
    identity = RunIdentity(number=7)
    job = Job(read or cases(), policy=file, own_policy=own, commit=COMMIT, run=identity, **fields)
    record = run(
        job,
        baselines=store,
        publish=published.append,
        now=lambda: "2026-01-02T03:04:05Z",
        conversation=Accepting() if accepted else Silent(),
    )
    assert published == [record]
    return record


@pytest.mark.parametrize("accepted", [False, True], ids=["", "accepted"])
@pytest.mark.parametrize(
    ("theirs", "own", "differs"),
    [
        (None, None, False),
        (None, b"schema = 1\n", False),
        (None, OTHER, True),
        (THEIRS, None, False),
        (THEIRS, SAME, False),
        (THEIRS, OTHER, True),
    ],
    ids=["no policy", "the defaults", "its own", "the base's", "the same", "another"],
)
def test_run__looks_up_each_case_and_parses_each_policy_once(
    parsed: list[str],
    theirs: bytes | None,
    own: bytes | None,
    *,
    differs: bool,
    accepted: bool,
) -> None:
    """Also where it judges again, for what was accepted and under the change's own policy."""
    store = Counting()
    file = read_policy(theirs, "base.toml") if theirs else None
    mine = read_policy(own, "own.toml").policy if own else None
    record = left_by(store, file, mine, accepted=accepted)
    assert store.looked_up == ["plain", "timed"]
    assert parsed == [*(["base.toml"] if theirs else []), *(["own.toml"] if own else [])]
    # That it did judge so often, and needed the branch's record for the session's base.
    assert record.outcome is (Outcome.PASS if accepted else Outcome.FAIL)
    assert len(record.acceptances) == (4 if accepted else 0)
    codes = [notice.code for notice in record.notices]
    assert codes.count(Why.OWN_POLICY) == differs
    assert codes.count(Why.BASE_UNLIKE_RECORD) == 1
    assert of(record, "timed").explanation is not None


@pytest.mark.parametrize(("branch_s", "is_like"), [("NVIDIA L4", True), ("Tesla T4", False)])
def test_run__a_record_of_another_machine_says_nothing_of_a_session(
    branch_s: str, *, is_like: bool
) -> None:
    """A policy may allow such a record, which neither doubts a session's base nor explains it."""
    store = Counting(branch_s)
    rules = policy_file(rules="reference", environment={"match": ["precision"]})
    read = [replace(one, environment=Environment(accelerator="NVIDIA L4")) for one in cases()]
    record = left_by(store, rules, read=tuple(read))
    doubted = Why.BASE_UNLIKE_RECORD in [notice.code for notice in record.notices]
    assert doubted is is_like
    assert (of(record, "timed").explanation is not None) is is_like


# What a record tells of a case's profile, and what is a session's own whoever profiled its base.
OF_A_PROFILE: dict[str, Any] = {
    "phases": {"forward": 40.0},
    "step_ops": StepOps(names=("gemm",), ms=(30.0,)),
    "categories": {"gemm": OpWork(ms=30.0)},
    "timeline": Timeline(basis="phases", step_ms=100.0, parts={"forward": 40.0}),
    "step_spread": StepSpread(count=3, median_ms=100.0, slowest_ms=101.0),
    "compute_tenths_ms": (3.0,) * 10,
    "idle_ranges": {"loader": 1.0},
    "op_calls": {"aten::mm": OpCalls(calls=1, operators=2, ms=3.0)},
    "host_gaps": (HostGap(ms=1.0),),
    "layers_are": LayersAre(kind="modules", share=0.9),
    "code": StepCode(total_ms=1.0),
    "peak_ops": {"aten::mm": 1},
    "ranks": (RankWork(rank=0, step_ms=100.0),),
}
OF_A_SESSION = {
    "name", "environment", "unmeasured", "crashed", "scorecard", "metrics", "launches",
    "took_turns", "measurement", "earlier_measurements", "tokens_per_step", "tokens_inferred",
    "throughput_given", "advice", "parity", "partner",
}  # fmt: skip


@dataclass
class Profiled(Counting):
    """A branch whose record has all that a profile tells."""

    def find(self, case: str, environment: Environment) -> Baseline:
        """The case, with every field of a profile."""
        found = super().find(case, environment)
        assert isinstance(found, BaselineFound)
        return replace(found, case=found.case.but(**OF_A_PROFILE))


def test_run__explains_a_base_without_a_profile_by_that_of_the_record() -> None:
    """All that a profile tells is the record's, and nothing else; a new field is one or other."""
    assert {*OF_A_PROFILE} | OF_A_SESSION == set(Measured.model_fields)
    bare = measured_case(CaseInput("timed", profile(120.0, tokens_per_step=1000)), Workload())
    bare = bare.but(**{name: Measured.model_fields[name].get_default() for name in OF_A_PROFILE})
    session = BaselineFound(bare, BaselineUsed(source="the session", of_session=True))
    head = bare.but(timeline=OF_A_PROFILE["timeline"])
    beside = put_beside(head, session, Profiled(), Policy())
    assert isinstance(beside.baseline, BaselineFound)
    assert beside.baseline.case == bare.but(**OF_A_PROFILE)


def of(record: Record, name: str) -> Judged:
    found = record.case(name)
    assert found is not None
    return found


@pytest.mark.parametrize("measured", [FAST, SLOW], ids=["as fast", "slower"])
def test_job__looks_up_each_case_and_parses_each_policy_once(
    scene: Scene, parsed: list[str], monkeypatch: pytest.MonkeyPatch, measured: Profile
) -> None:
    """The whole Action on a pull request that changes the policy, and of which one was accepted."""
    looked_up: list[str] = []
    find = ArtifactBaselines.find

    def counting(store: ArtifactBaselines, case: str, environment: Environment) -> Baseline:
        looked_up.append(case)
        return find(store, case, environment)

    monkeypatch.setattr(ArtifactBaselines, "find", counting)
    scene.repository.collaborators["maintainer"] = "write"
    scene.policy(THEIRS.decode(), "policy.toml")
    scene.leave_record(tip(scene), FAST)
    scene.measure(measured)
    (scene.workspace / "policy.toml").write_bytes(OTHER)
    pull = opened(scene)
    for metric in ("step_time_ms", "throughput_tok_s"):
        words = f"ci-score accept training {metric} up to 60 % because it is worth it"
        scene.state.comment(scene.repository, pull.number, words, author="maintainer")
    assert on_pull_request(scene, pull, config="policy.toml").code == 0
    assert looked_up == ["training"]
    assert parsed == [f"policy.toml at {tip(scene).sha[:12]}", "policy.toml"]
    record = record_in(scene)
    assert len(record.acceptances) == (2 if measured is SLOW else 0)
    assert [notice.code for notice in record.notices].count(Why.OWN_POLICY) == 1


@pytest.mark.parametrize(
    ("table", "not_tried"),
    [
        ({"metrics": {"step_time_ms": {"fail": 0.6}}}, ()),
        ({"model": {"parameters": 1e9}}, ("[model]",)),
        ({"environment": {"match": ["accelerator"]}}, ("environment.match",)),
    ],
    ids=["limits", "model", "match"],
)
def test_run__says_what_of_its_own_policy_was_not_tried(
    table: dict[str, Any], not_tried: tuple[str, ...]
) -> None:
    """What decides how a case is measured, or which baseline is found, is the base's alone."""
    own = policy_file(rules="training", **table).policy
    record = left_by(Counting(), policy_file(rules="training"), own)
    (notice,) = (one for one in record.notices if one.code is Why.OWN_POLICY)
    assert notice.data["not_tried"] == not_tried


def test_run__leaves_a_point_with_what_was_accepted_and_how_sure_the_change_is() -> None:
    """The interval is that of the step's time; one number has none."""
    record = left_by(Counting(), policy_file(rules="reference"), accepted=True, tracked=True)
    plain, timed = record.history
    assert (plain.low, plain.high) == (None, None)
    assert timed.low is not None
    assert timed.high is not None
    assert 0.2 < timed.low <= timed.high < 0.3
    assert {one.by for one in timed.accepted} == {"octocat"}
    assert {one.metric for one in plain.accepted} == {"step_time_ms", "throughput_tok_s"}
    assert timed.run == RunIdentity(number=7)


def test_run__a_point_of_the_branch_has_the_largest_ops() -> None:
    """Sixteen digests of names with four digits of their times, and none without a profile."""
    ops = {f"kernel_{number:02d}": 20.123456 - number for number in range(20)}
    row = {"layer": 0, "fwd_ms": 60.0, "bwd_ms": 70.0, "ops": ops}
    text = profile(140.0, tokens_per_step=1000, per_layer=[row]).model_dump_json().encode()
    traced = read_cases({"plain": [CaseFile("p.json", data=text)]}, None, {})
    record = left_by(Counting(), None, read=traced, tracked=True)
    (point,) = record.history
    keys = [blake2b(name.encode(), digest_size=4).hexdigest() for name in ops]
    assert list(point.ops) == keys[:16]
    assert list(point.ops.values())[:2] == [20.12, 19.12]
    session = lines({"launch": 0, "step_ms": [100.0], "tokens_per_step": 1000})
    timed = read_cases({}, {"timed": [CaseFile("m.jsonl", data=session)]}, {})
    (bare,) = left_by(Counting(), None, read=timed, tracked=True).history
    assert bare.ops == {}


def test_run__of_a_pull_request_adds_no_ops_to_the_history() -> None:
    """What a change measures is not what the branch remembers."""
    point = HistoryPoint(
        case="plain",
        created_at="2026-01-01T00:00:00Z",
        step_time_ms=100.0,
        throughput_tok_s=0.0,
        ops={"03ddcd4f": 70.0},
    )
    assert left_by(Counting(remembers=(point,)), None).history == (point,)


def test_run__two_ops_of_one_digest_are_both_left_out() -> None:
    """Neither shall have the other's history."""
    alike = ("kernel_81132", "kernel_136088")
    kept = remembered(step_ops_of({**dict.fromkeys(alike, 9.0), "gemm": 1.0}, {}))
    assert kept == {"03ddcd4f": 1.0}
    assert len(remembered(step_ops_of({alike[0]: 9.0}, {}))) == 1


def test_run__its_record_says_what_the_numbers_of_the_history_are() -> None:
    """Unit, direction and scale of each metric, by the policy in force."""
    table = {"loss_gap": {"gate": False, "direction": "lower", "scale": "absolute", "unit": "nats"}}
    point = HistoryPoint(
        case="plain",
        created_at="2026-01-01T00:00:00Z",
        step_time_ms=100.0,
        throughput_tok_s=0.0,
        metrics={"loss_gap": 0.25, "nobody_knows": 1.0},
    )
    rules = policy_file(rules="training", metrics=table)
    record = left_by(Counting(remembers=(point,)), rules)
    assert record.metrics["loss_gap"] == MetricFacts(
        label="loss_gap", unit="nats", higher_is_better=False, relative=False
    )
    assert record.metrics["throughput_tok_s"].higher_is_better
    assert record.metrics["step_time_ms"].unit == "ms"
    assert "nobody_knows" not in record.metrics
    assert metric_by("loss_gap", record.metrics["loss_gap"]).show_delta(0.5) == "+0.500 nats"

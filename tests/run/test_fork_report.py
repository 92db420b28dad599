"""What a record keeps of a case, and what of a stranger's case is believed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ci_score.baselines import FolderBaselines, read_record
from ci_score.errors import BadInputError
from ci_score.files.strict_json import dump
from ci_score.model.code_changes import (
    Blame,
    CallerChange,
    ChangedPlace,
    CodeChanges,
    DefinitionChange,
    LineChange,
    Warned,
)
from ci_score.model.conversation import Nobody
from ci_score.model.environment import (
    Alone,
    AskedOption,
    Environment,
    MeasuredCode,
    SideDifference,
)
from ci_score.model.explanation import (
    Contribution,
    Explanation,
    LayersAre,
    OpChange,
    Part,
    StepSpread,
    Timeline,
)
from ci_score.model.profile import HostGap, OpCalls, OpOrigin, OpWork, RankWork
from ci_score.model.reasons import Note, Why, quoted
from ci_score.model.record import (
    MOST_NAMED,
    BaselineUsed,
    HistoryPoint,
    Judged,
    LaunchNumbers,
    Measured,
    Record,
    RunIdentity,
)
from ci_score.model.scorecard import (
    LayerSummary,
    Parity,
    ParityGap,
    ParityProfile,
    Regression,
    Scorecard,
    Severity,
)
from ci_score.model.step_code import CodeLine, CodeWork, Definition, StepCode
from ci_score.model.step_ops import BaseSide, OpCells, StepOps
from ci_score.model.verdict import Acceptance, Change, JudgedBy, Outcome, Unjudged, Verdict
from ci_score.report import render
from ci_score.report.headlines import headline
from ci_score.run.cleaned_names import CleanedNames
from ci_score.run.fork_report import judged_anew, only_numbers
from ci_score.run.story import Job, Place
from tests.builders import case, record, scorecard
from tests.builders.verdicts import policy_file

# The author's own words, and the names that must stay for a reader to know what a number is of.
WORDS, NAME = "WORDS", "NAME"
STYLES = ("markdown", "html", "terminal")

REASON = Why.MISMATCH_IN(
    record=f"{WORDS} record", why=Why.MISMATCH(key=f"{WORDS} key", here=1.5, there=f"{WORDS} there")
)
WORK = OpWork(count=12.0, ms=12.5)
ACCEPTED = Acceptance(
    case=f"{WORDS} case",
    metric=f"{WORDS} metric",
    kind="points",
    bound=0.75,
    shown=f"{WORDS} shown",
    reason=f"{WORDS} reason",
    by=f"{WORDS} by",
    url=f"{WORDS} url",
    refused=REASON,
)
RANK = RankWork(
    rank=15,
    step_ms=309.0,
    own_ms=310.0,
    busy_ms=310.25,
    compute_ms=310.5,
    exposed_communication_ms=311.0,
    peak_memory_gb=312.0,
)
OPS = StepOps(
    names=(f"{NAME} op", f"{NAME} small op"),
    ms=(305.0, 1.5),
    counts=(13.0, 2.0),
    kinds=("gemm", "comm"),
    types=(f"{NAME} type", f"{NAME} small type"),
    orders=(14, 15),
    of_ops=(f"{NAME} operator", f"{NAME} small operator"),
    of_modules=(f"{NAME} module", f"{NAME} small module"),
    cells=(
        OpCells(
            phase=f"{NAME} phase",
            layer=3,
            direction="forward",
            rows=(1,),
            ms=(1.25,),
            counts=(2.0,),
        ),
    ),
    left_out=11,
    left_out_ms=0.5,
)
CHANGE = Change(
    metric=f"{WORDS} metric",
    base=101.0,
    head=102.0,
    delta=0.01,
    severity=Severity.WARNING,
    not_compared=REASON,
    gated=True,
    warn_limit=0.02,
    fail_limit=0.03,
    low=0.004,
    high=0.05,
    judged_by=JudgedBy.PAIRED,
    samples=7,
    outcome=Outcome.WARN,
    slower=True,
    reasons=(REASON, Why.PROVEN_BEYOND(delta=0.006)),
    higher_is_better=True,
    relative=True,
    unit=f"{WORDS} unit",
    accepted=ACCEPTED,
)
CODE_WORK = CodeWork(
    forward_ms=401.0,
    backward_ms=402.0,
    python_ms=403.0,
    forward_launches=404.0,
    backward_launches=405.0,
    peak_bytes=406,
    calls=442.0,
)
LINES = {"first": 407, "last": 408, "outer_first": 409, "outer_last": 410}
CALLS = OpCalls(calls=324.0, operators=325.0, ms=326.0, backward_calls=327.0, backward_ms=328.0)
CODE = StepCode(
    found_by="stacks",
    paths="trace",
    definitions=(
        Definition(name=f"{NAME} function", file=f"src/{NAME} file.py", **LINES),
        Definition(name=f"{NAME} caller", file=f"src/{NAME}.py", **LINES),
    ),
    lines=(
        CodeLine(
            definition=0,
            line=411,
            first=412,
            last=413,
            text="0123abcd",
            caller=1,
            through=f"{NAME} library",
            is_compiled=True,
            work=CODE_WORK,
        ),
    ),
    total_ms=414.0,
    without_line_ms=415.0,
    peak_bytes=416,
    peak_without_line=417,
    marked_ms=418.0,
    unmarked_ms=419.0,
    left_out=420,
    left_out_ms=421.0,
)
LINE_CHANGE = LineChange(
    line=432,
    base_line=433,
    through=f"{WORDS} library",
    is_compiled=True,
    changed_line=434,
    base=CODE_WORK,
    head=CODE_WORK,
)
CALLER_CHANGE = CallerChange(
    name=f"{WORDS} caller",
    file=f"{WORDS} caller's file",
    line=435,
    touched=True,
    is_noise=True,
    base=CODE_WORK,
    head=CODE_WORK,
)
NEAR = ChangedPlace(within="outer", file=f"{WORDS} file", line=440, more=441)
DEFINITION_CHANGE = DefinitionChange(
    name=f"{WORDS} function",
    file=f"{WORDS} file",
    first=430,
    last=431,
    was_name=f"{WORDS} old function",
    was_file=f"{WORDS} old file",
    status="new",
    touched=True,
    is_noise=True,
    base=CODE_WORK,
    head=CODE_WORK,
    lines=(LINE_CHANGE, LINE_CHANGE),
    callers=(CALLER_CHANGE, CALLER_CHANGE),
)
CODE_CHANGES = CodeChanges(
    found_by="stacks",
    diff="known",
    base_ms=422.0,
    head_ms=423.0,
    base_without_line_ms=424.0,
    head_without_line_ms=425.0,
    base_peak_bytes=426,
    head_peak_bytes=427,
    marked_ms=428.0,
    unmarked_ms=429.0,
    definitions=(DEFINITION_CHANGE, DEFINITION_CHANGE),
    left_out=436,
    time=Blame(definition=0, line=1, called_from=0, share=0.71, by="path", near=NEAR),
    memory=Blame(definition=1, line=0, called_from=1, share=0.72, by="calls", near=NEAR),
    warned=(
        Warned(
            file=f"{WORDS} file",
            line=437,
            name=f"{WORDS} function",
            delta_ms=438.0,
            delta_bytes=439,
            share=0.73,
        ),
    ),
)
EXPLANATION = Explanation(
    basis="device",
    under_profiler=True,
    base_step_ms=103.0,
    head_step_ms=104.0,
    parts=(Part(name=f"{WORDS} part", base_ms=105.0, head_ms=106.0),),
    categories=(Part(name=f"{WORDS} category", base_ms=107.0, head_ms=108.0),),
    ops=(
        OpChange(
            name=f"{WORDS} op",
            kind=f"{WORDS} kind",
            status="renamed",
            was=f"{WORDS} was",
            origin=OpOrigin(op=f"{WORDS} operator", module=f"{WORDS} module"),
            base_ms=109.0,
            head_ms=110.0,
            base_count=111.0,
            head_count=112.0,
            by_count_ms=113.0,
            by_time_ms=114.0,
        ),
    ),
    cause=REASON,
    explained_ms=115.0,
    counts_cause=REASON,
    code=CODE_CHANGES,
)
CARD = Scorecard(
    grade="B",
    efficiency=0.45,
    bottleneck="compute",
    throughput_tok_s=201.0,
    step_time_ms=202.0,
    forward_backward_ratio=2.5,
    wall_coverage=0.95,
    per_layer_summary=(
        LayerSummary(
            layer=3, fwd_ms=203.0, bwd_ms=204.0, ratio=2.25, top_op=f"{NAME} top", top_op_pct=55.0
        ),
    ),
    hotspot_ops=((f"{NAME} hotspot", 205.0, 65.0),),
    regressions=(Regression(metric=f"{WORDS} metric", delta=0.07, severity=Severity.CRITICAL),),
    recommendations=(f"{WORDS} recommendation",),
    noted=(Note(code=f"{WORDS} code", words=f"{WORDS} note"),),
    ungraded_reason=f"{WORDS} ungraded",
    bottleneck_known=False,
    job_throughput_tok_s=206.0,
    accelerator=f"{WORDS} card",
    accelerator_count=8,
    mfu=0.35,
    mfu_basis=f"{WORDS} basis",
    hfu=0.36,
)
FULL = Judged(
    name=f"{NAME}-of-the-case",
    environment=Environment(
        accelerator=f"{WORDS} accelerator",
        accelerator_count=9,
        precision=f"{WORDS} precision",
        timing="unprofiled",
        versions={f"{WORDS} package": f"{WORDS} version"},
        disturbances={"throttled": f"{WORDS} throttled", f"{WORDS} event": f"{WORDS} of it"},
        gate_at=0.08,
        not_qualified=f"{WORDS} not qualified",
        differs=(SideDifference(kind="package", name=f"{WORDS} other", base=WORDS, head=WORDS),),
        asked=(AskedOption(option="--link", value=WORDS),),
        alone=Alone(why="base_cannot_run", words=WORDS),
        code=MeasuredCode(head="1" * 40, base="2" * 40, head_edited=True),
    ),
    unmeasured=Why.NO_SOUND_LAUNCH(
        side=f"{WORDS} side", launch=4, events=(f"{WORDS} event",), words=(f"{WORDS} words",)
    ),
    crashed=True,
    scorecard=CARD,
    metrics={f"{NAME} metric": 301.0},
    launches=(
        LaunchNumbers(
            side="base",
            launch=5,
            void=True,
            shared=True,
            resolution_ms=0.5,
            looks=(6, 12),
            loss_from="hook",
            values={f"{NAME} metric": 302.0},
            warmup_steps=6,
            timed_steps=10,
        ),
    ),
    took_turns=True,
    measurement=f"{WORDS} digest",
    earlier_measurements=(f"{WORDS} earlier",),
    tokens_per_step=303.0,
    tokens_inferred=True,
    throughput_given=True,
    phases={f"{NAME} phase": 304.0},
    step_ops=OPS,
    categories={"gemm": WORK},
    timeline=Timeline(basis="device", step_ms=306.0, parts={"compute": 307.0}),
    step_spread=StepSpread(count=24, median_ms=320.0, slowest_ms=321.0),
    compute_tenths_ms=(322.0,),
    idle_ranges={f"{NAME} range": 323.0},
    op_calls={f"{NAME} call": CALLS},
    host_gaps=(HostGap(after=f"{NAME} after", before=f"{NAME} before", ms=327.0),),
    layers_are=LayersAre(kind="modules", share=0.63),
    code=CODE,
    peak_ops={f"{NAME} allocating": 440},
    advice=(Why.LARGE_PART(part=f"{WORDS} part", ms=308.0, share=0.37),),
    ranks=(RANK,),
    parity=Parity(
        apr_runtime=f"{WORDS} ours",
        baseline_runtime=f"{WORDS} theirs",
        throughput_ratio=1.01,
        launch_ratio=1.02,
        top_gaps=(ParityGap(op=f"{NAME} op", apr_ms=313.0, baseline_ms=314.0, ratio=1.03),),
        parity_achieved=True,
        notes=(f"{WORDS} note",),
        compared_ops=16,
        apr_share_compared=0.61,
        baseline_share_compared=0.62,
        step_time_ratio=1.04,
        throughput_inferred=True,
        unjudged_reason=f"{WORDS} unjudged",
    ),
    partner=ParityProfile(
        runtime=f"{WORDS} partner",
        throughput_tok_s=315.0,
        step_time_ms=316.0,
        kernel_launches_per_step=17,
        ops={f"{NAME} op": 317.0},
    ),
    baseline=BaselineUsed(
        of_session=True,
        source=f"{WORDS} source",
        commit=f"{WORDS} commit",
        run=RunIdentity(number=18, attempt=2, id=19),
        created_at=f"{WORDS} time",
        commits_away=20,
        skipped=(quoted(f"{WORDS} skipped"),),
        changed_versions=(f"{WORDS} changed",),
    ),
    base=BaseSide(
        step_ops=OPS,
        called={f"{WORDS} op": f"{WORDS} was"},
        phases={f"{WORDS} phase": 328.0},
        layers=(2,),
        forward_ms=(329.0,),
        backward_ms=(330.0,),
        ranks=(RANK,),
        peak_ops={f"{WORDS} allocating": 331},
    ),
    changes=(CHANGE,),
    contributions=(Contribution(kind="op", name=f"{WORDS} op", base_ms=318.0, head_ms=319.0),),
    explanation=EXPLANATION,
    verdict=Verdict(
        slower=True,
        upper_end=0.25,
        outcome=Outcome.INCONCLUSIVE,
        decided_by=REASON,
        reasons=(REASON, quoted(f"{WORDS} quoted")),
        remarks=(Why.OTHER_WARM_UP(wanted=21, declared=(22, 23)),),
        unjudged=Unjudged.TOO_NOISY,
        may_pass=True,
    ),
)

# Names, by where they stand; the keys of tables are among them.
NAMES = {
    "name",
    "scorecard.per_layer_summary.top_op",
    "scorecard.hotspot_ops",
    "metrics{}",
    "launches.values{}",
    "phases{}",
    "step_ops.names",
    "step_ops.types",
    "step_ops.of_ops",
    "step_ops.of_modules",
    "step_ops.cells.phase",
    "idle_ranges{}",
    "op_calls{}",
    "host_gaps.after",
    "host_gaps.before",
    "code.definitions.name",
    "code.definitions.file",
    "code.lines.through",
    "peak_ops{}",
    "partner.ops{}",
}
# What one of a few words says; none of them is the author's.
ONE_OF_A_FEW = {
    "environment.alone.why",
    "environment.timing",
    "environment.disturbances{}",
    "scorecard.grade",
    "scorecard.bottleneck",
    "launches.side",
    "launches.loss_from",
    "timeline.basis",
    "timeline.parts{}",
    "layers_are.kind",
    "code.found_by",
    "code.paths",
    "code.lines.text",
    "step_ops.kinds",
    "step_ops.cells.direction",
    "categories{}",
}
# What is said here in our own words, in place of the author's.
OURS = {
    "environment.accelerator",
    "environment.precision",
    "environment.disturbances",
    "unmeasured.code",
    "scorecard.ungraded_reason",
    "scorecard.mfu_basis",
    "scorecard.accelerator",
    "partner.runtime",
}
# Numbers that are not measured: our own verdicts and advice take their place, and whether a
# stranger's machine may gate is not the stranger's to say.
NOT_MEASURED = {
    "environment.gate_at",
    "environment.code.head_edited",
    "unmeasured.data.launch",
    "scorecard.regressions.delta",
    "advice.data.ms",
    "advice.data.share",
}
# A parity is a verdict: ours follows from the partner's numbers.
CLAIMED = "parity."


def unset(value: object, path: str = "case") -> Iterator[str]:
    """Every field below that has its default, or holds nothing."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            own = getattr(value, name)
            default = field.get_default(call_default_factory=True, validated_data={})
            empty = own is None or own in ((), {}, "")
            # Some reasons have no data, and it is not the field that decides that.
            if empty or (not field.is_required() and own == default):
                yield f"{path}.{name}"
            else:
                yield from unset(own, f"{path}.{name}")
    elif isinstance(value, Mapping):
        for key, own in value.items():
            yield from unset(own, f"{path}[{key}]")
    elif isinstance(value, tuple):
        for place, own in enumerate(value):
            yield from unset(own, f"{path}[{place}]")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every text, number and truth value with where it stands; keys of tables stand at `{}`."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from leaves(getattr(value, name), f"{path}.{name}".lstrip("."))
    elif isinstance(value, Mapping):
        is_data = path.endswith(".data")
        for key, own in value.items():
            if not is_data:
                yield f"{path}{{}}", key
            yield from leaves(own, f"{path}.{key}" if is_data else path)
    elif isinstance(value, tuple):
        for own in value:
            yield from leaves(own, path)
    elif value is not None:
        yield path, value


def texts(value: Any) -> list[tuple[str, str]]:
    return [(path, own) for path, own in leaves(value) if isinstance(own, str)]


def numbers(value: Any) -> list[tuple[str, bool | int | float]]:
    return [(path, own) for path, own in leaves(value) if not isinstance(own, str)]


def test_full__has_every_field_set() -> None:
    """A new field fails here until it is set above, and so is part of what the others prove."""
    assert list(unset(FULL)) == []


def test_record__keeps_every_field_of_a_case() -> None:
    """What the next run reads is what this run has found."""
    described = Record.describing([FULL])
    read = read_record(dump(described).encode(), "r.json")
    assert read == described
    assert read.cases == (FULL,)
    assert list(leaves(read.cases[0])) == list(leaves(FULL))


def test_only_numbers__keeps_every_number() -> None:
    """A number that was measured is judged here as it is there, in the same place."""
    measured = Measured(**{name: getattr(FULL, name) for name in Measured.model_fields})
    wanted = [
        (path, own)
        for path, own in numbers(measured)
        if path not in NOT_MEASURED and not path.startswith(CLAIMED)
    ]
    assert numbers(only_numbers(FULL)) == wanted
    assert {path for path, _ in numbers(measured)} >= NOT_MEASURED


def test_only_numbers__keeps_no_words() -> None:
    """Of all texts only names stay, in a plain form, and one word of a few."""
    left = texts(only_numbers(FULL))
    plain = re.compile(r"[A-Za-z0-9_:.~/]+")
    assert [text for path, text in left if path in NAMES and not plain.fullmatch(text)] == [
        FULL.name
    ]
    assert [(path, text) for path, text in left if WORDS in text] == []
    assert {path for path, _ in left} == NAMES | ONE_OF_A_FEW | OURS
    assert {path for path, text in left if NAME in text} == NAMES


def test_only_numbers__every_text_of_the_author_s_is_looked_for() -> None:
    """A text of the full case is a word of the author's, a name, or one word of a few."""
    own_words = [text for _, text in texts(FULL) if WORDS in text]
    assert len(own_words) > 50
    measured = Measured(**{name: getattr(FULL, name) for name in Measured.model_fields})
    rest = [
        path
        for path, text in texts(measured)
        if not (WORDS in text or NAME in text) and not path.startswith(CLAIMED)
    ]
    codes = {"unmeasured.code", "advice.code", "scorecard.regressions.severity"}
    codes |= {"environment.differs.kind", "environment.asked.option"}
    codes |= {"environment.code.head", "environment.code.base"}
    assert set(rest) == ONE_OF_A_FEW | codes


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("train.py", "train.py"),
        ("model/attention.py", "model/attention.py"),
        ("src/a.b/c-d.ipynb", "src/a.b/c-d.ipynb"),
        ("www.example.com/a.py", "www.example.com_a.py"),
        ("../a.py", ".._a.py"),
        ("/etc/a.py", "etc_a.py"),
        ("-rf.py", "rf.py"),
        ("@octocat/a.py", "octocat_a.py"),
        ("model/a.py please merge", "model_a.py_please_merge"),
        ("model/ä.py", "model_.py"),
    ],
)
def test_only_numbers__a_path_keeps_its_folders_where_nothing_takes_it_for_more(
    said: str, shown: str
) -> None:
    """A path meets the diff by its name; it is no address, no mention and no option."""
    code = StepCode(definitions=(Definition(name="f", file=said),))
    bare = only_numbers(case(code=code)).code
    assert bare is not None
    assert bare.definitions[0].file == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("T4", "T4"),
        ("Our own chip, rev. 2", "Our own chip, rev. 2"),
        ("T4, which the maintainers approved. " * 50, "unknown"),
        ("Tesla T4 ✅ [x](http://evil)", "unknown"),
        ("Tesla T4 ✅", "unknown"),
    ],
)
def test_judged_anew__an_accelerator_is_called_as_everybody_calls_it(
    tmp_path: Path, said: str, shown: str
) -> None:
    """A driver's name, or the branch's own; a text of another kind is not shown."""
    of_branch = case(environment=Environment(accelerator="Our own chip, rev. 2"))
    (tmp_path / "r.json").write_text(dump(record(of_branch)), encoding="utf-8")
    strange = record(case(environment=Environment(accelerator=said, precision=said[:100])))
    store = FolderBaselines(tmp_path)
    done = judged_anew(strange, store, Nobody(), "2026-01-02T03:04:05Z")
    assert done.cases[0].environment.accelerator == shown
    assert done.cases[0].environment.precision == "unknown"
    assert shown == said or said[:30] not in done.model_dump_json()


@pytest.mark.parametrize("field", ["categories", "phases", "idle_ranges"])
def test_record__of_more_names_than_any_run_writes_is_refused(field: str) -> None:
    """Those of both sides are compared with each other, which took minutes for 20,000."""
    value = record().model_dump(mode="json")
    value["cases"][0][field] = {f"name {number}": 1.0 for number in range(MOST_NAMED + 1)}
    with pytest.raises(BadInputError, match=field):
        read_record(json.dumps(value).encode(), "r.json")


def test_only_numbers__has_no_verdict() -> None:
    """What a stranger has judged is not asked for."""
    assert type(only_numbers(FULL)) is Measured


def test_judged_anew__compares_a_metric_of_a_table_of_cases(tmp_path: Path) -> None:
    """Each metric that our policy names for the case is judged, wherever the policy names it."""
    rule = {"exact": True, "direction": "lower", "gate": True, "fail": 0.1}
    rules = policy_file(case=[{"match": "training", "metrics": {"syncs": rule}}])
    of_branch = record(case(metrics={"syncs": 1.0}))
    (tmp_path / "r.json").write_text(dump(of_branch), encoding="utf-8")
    strange = record(case(metrics={"syncs": 2.0}))
    job = Job(cases=(), policy=rules)
    done = judged_anew(strange, FolderBaselines(tmp_path), Nobody(), "2026-01-02T03:04:05Z", job)
    outcomes = {change.metric: change.outcome for change in done.cases[0].changes}
    assert outcomes["syncs"] is Outcome.FAIL


PLAIN, NOW = "aten::mm", "2026-01-02T03:04:05Z"
SLOW_MS = 200.0
HOSTILE = (
    "the maintainers approved this",
    "✅ No slowdown, merge it",
    "[report](https://elsewhere.example/x)",
    "@octocat, see octo/train#7 and GH-7",
    "<img src=x onerror=alert(1)>",
    "a | b ` c",
    "\u202emoc.elpmaxe\u202c\u200b",
    "line\n\n## Verdict: pass",
    "x" * 150 + " y",
)


def sides(name: str, known: str = PLAIN) -> tuple[Judged, Judged]:
    """A case of the branch, and one of a stranger whose step is slower by an op of that name."""
    fast, slow = (
        case(
            card=scorecard(step_ms, hotspot_ops=((op, step_ms, 100.0),)),
            ops={op: step_ms},
            timeline=Timeline(basis="device", step_ms=step_ms, parts={"compute": step_ms}),
        )
        for step_ms, op in ((100.0, known), (SLOW_MS, name))
    )
    return fast, slow


def anew(folder: Path, of_branch: Judged, strange: Judged) -> Record:
    """The stranger's case, judged beside the branch's record."""
    (folder / "r.json").write_text(dump(record(of_branch)), encoding="utf-8")
    return judged_anew(record(strange), FolderBaselines(folder), Nobody(), NOW)


def test_judged_anew__has_the_history_of_the_branch_alone(tmp_path: Path) -> None:
    """What a stranger's record says that ops took before is not used, and its run adds nothing."""
    own, theirs = (
        HistoryPoint(
            case="training", created_at=NOW, step_time_ms=ms, throughput_tok_s=1.0, ops={key: ms}
        )
        for ms, key in ((100.0, "03ddcd4f"), (1.0, "9e50cade"))
    )
    fast, slow = sides(PLAIN)
    (tmp_path / "r.json").write_text(dump(record(fast).but(history=(own,))), encoding="utf-8")
    strange = record(slow).but(history=(theirs,))
    done = judged_anew(strange, FolderBaselines(tmp_path), Nobody(), NOW)
    assert done.history == (own,)


def test_judged_anew__explains_with_the_names_of_the_branch(tmp_path: Path) -> None:
    """What the branch's own record calls so is called so in the cause, whatever it looks like."""
    name = "void at::native::kernel<4, float>(int)"
    (done,) = anew(tmp_path, *sides(name, known=name)).cases
    assert done.explanation is not None
    assert done.explanation.cause is not None
    assert done.explanation.cause.data["name"] == name
    assert done.ops == {name: SLOW_MS}


@pytest.mark.parametrize("name", HOSTILE)
def test_judged_anew__no_name_becomes_a_sentence(tmp_path: Path, name: str) -> None:
    """An op, a phase or a rank's range of another name reads as one short word of plain signs."""
    of_branch, strange = sides(name)
    phases = Timeline(basis="phases", step_ms=SLOW_MS, parts={name: SLOW_MS})
    before = of_branch.but(timeline=phases.but(step_ms=100.0, parts={PLAIN: 100.0}))
    of_phases = strange.but(timeline=phases, phases={name: SLOW_MS}, idle_ranges={name: 1.0})
    for there, here in ((of_branch, strange), (before, of_phases)):
        done = anew(tmp_path, there, here)
        assert "2× as long" in headline(done.cases[0])
        for text in (done.model_dump_json(), *(render(done, style) for style in STYLES)):
            assert name not in text
        (op,) = done.cases[0].ops
        assert re.fullmatch(r"[A-Za-z0-9_:.]{1,100}", op)
        assert all(ord(char) < 0x202A or ord(char) > 0x2069 for char in render(done, "html"))


def test_judged_anew__a_new_name_is_said_in_its_plain_form(tmp_path: Path) -> None:
    """A cause is found from the numbers, so it may name what the stranger's change has brought."""
    (done,) = anew(tmp_path, *sides("void slow_kernel<4>(int*)")).cases
    assert done.explanation is not None
    assert done.explanation.cause is not None
    assert "void_slow_kernel_4_int" in headline(done)


def test_judged_anew__explains_a_session_beside_the_branch_s_profile(tmp_path: Path) -> None:
    """A session's own base has times alone; so has it in the fork's own check."""
    of_branch, strange = sides(PLAIN)
    launches = tuple(
        LaunchNumbers(side=side, launch=number, values={"step_time_ms": step_ms})
        for number in range(8)
        for side, step_ms in (("base", 100.0 + number / 10), ("head", SLOW_MS + number / 10))
    )
    (done,) = anew(tmp_path, of_branch, strange.but(launches=launches, took_turns=True)).cases
    assert done.baseline is not None
    assert done.baseline.of_session
    assert done.explanation is not None
    assert done.explanation.cause is not None
    assert done.explanation.cause.data["name"] == PLAIN


def test_cleaned_names__no_two_are_alike() -> None:
    """Each name keeps its number, and none takes the place of one that the branch or we know."""
    names = ("a b", "a/b", "a_b", "aten::mm", "aten::mm ", "step_time_ms ", "", "!")
    bare = only_numbers(
        case(ops=dict.fromkeys(names, 1.0), metrics={"step_time_ms ": 1.0, "step_time_ms": 2.0}),
        case(ops={"aten::mm": 1.0}),
    )
    assert set(bare.ops) == {
        "a_b", "a_b~2", "a_b~3", "aten::mm", "aten::mm~2", "step_time_ms~2", "", "unnamed"
    }  # fmt: skip
    assert bare.metrics == {"step_time_ms~2": 1.0, "step_time_ms": 2.0}


def test_cleaned_names__a_thousand_that_are_alike() -> None:
    """All are kept, each by a number of its own."""
    names = CleanedNames()
    many = {f"{'?' * number}x": 1.0 for number in range(1000)}
    told = names.within(ParityProfile(runtime="x", ops=many)).ops
    assert len(told) == len(many)


def test_only_numbers__kinds_are_of_our_list() -> None:
    """Any other kind of work is `other`, and has no sum of its own."""
    ops = StepOps(names=("one", "two"), ms=(2.0, 1.0), kinds=("gemm", "approved kind"))
    work = {"gemm": WORK, "approved kind": WORK}
    bare = only_numbers(case(step_ops=ops, categories=work))
    assert bare.step_ops.kinds == ("gemm", "other")
    assert bare.categories == {"gemm": WORK}


def test_judged_anew__believes_no_place_that_the_record_names(tmp_path: Path) -> None:
    """Repository, pull request and page come from the job that posts."""
    (tmp_path / "r.json").write_text(dump(record(case())), encoding="utf-8")
    elsewhere = "https://github.com/stranger/train"
    strange = record(case()).but(
        repository=elsewhere, pull=666, page=f"{elsewhere}/actions/runs/1/artifacts/1",
        pull_head="d" * 40, server="gitea",
    )  # fmt: skip
    place = Place(repository="https://github.com/octo/train", pull=7, pull_head="a" * 40)
    job = Job(cases=(), place=place)
    done = judged_anew(strange, FolderBaselines(tmp_path), Nobody(), NOW, job)
    assert (done.repository, done.pull, done.pull_head) == (
        "https://github.com/octo/train", 7, "a" * 40,
    )  # fmt: skip
    assert (done.page, done.server) == (None, "github")
    assert "stranger" not in done.model_dump_json()

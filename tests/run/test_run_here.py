"""`ci-score run` on a machine without GitHub, and what it reads."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ci_score.baselines import read_record, record_size
from ci_score.cli import execute
from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.strict_json import dump
from ci_score.launches import read_environment
from ci_score.model.record import Record
from ci_score.report import render
from ci_score.report.headlines import headline
from ci_score.report.markdown import report_markdown
from ci_score.report.sentences import sentence
from ci_score.run import case_files
from ci_score.run.case_files import CaseSource, files_of_artifact, find_files, parse_sources
from ci_score.run.publishing import write_files, write_page
from ci_score.run.settings import Settings
from tests.builders import case, layer, phase, profile, record, runtime, scorecard, write
from tests.builders.traces.trainer_state import trained
from tests.builders.traces.training_log import ARGUMENTS, megatron
from tests.builders.traces.upstream import V2

Out = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("here")


def measure(here: Path, step_ms: float, name: str = "profiles/p.json", **fields: Any) -> None:
    write(here / name, profile(step_ms, tokens_per_step=1000, **fields).model_dump_json())


def left(here: Path) -> Record:
    return Record.model_validate_json((here / "ci-score" / "ci-score.json").read_bytes())


def launches(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps({"schema": 1, **row}) + "\n" for row in rows)


# --- without GitHub -----------------------------------------------------------------------------


def test_run__remembers_in_a_folder(here: Path, capsys: Out) -> None:
    """The first run has no baseline; the next is compared with it; the history grows."""
    measure(here, 100.0)
    assert execute(["run"]) == 0
    assert "First run: there is no baseline yet" in capsys.readouterr().out
    measure(here, 130.0)
    assert execute(["run"]) == 1
    assert "30 % slower" in capsys.readouterr().out
    assert [point.step_time_ms for point in left(here).history] == [100.0, 130.0]


def test_run__of_a_session_is_no_baseline_of_the_next_one(here: Path, capsys: Out) -> None:
    """Its head is a change under review: the next session's base need not be like it."""
    for base_ms, head_ms in ((100.0, 160.0), (100.0, 101.0)):
        steps = {"base": [base_ms] * 3, "head": [head_ms] * 3}
        pairs = [
            {"side": side, "launch": pair, "step_ms": steps[side]}
            for pair in range(12)
            for side in steps
        ]
        write(here / "perf/measurements.jsonl", launches(*pairs))
        execute(["run", "--measurements", "perf"])
    assert "right checkout" not in "".join(capsys.readouterr())
    assert not list((here / "ci-score" / "baselines").glob("*"))


def test_run__a_leftover_folder_does_not_replace_the_session_s_profiles(
    here: Path, capsys: Out
) -> None:
    """Whatever lies in ./profiles from before; a folder that the user names does replace them."""
    steps = {"step_ms": [100.0, 101.0]}
    lines = launches(*({"side": side, **steps} for side in ("base", "head")))
    write(here / "perf/measurements.jsonl", lines)
    write(here / "perf/session.json", "{}")
    for side in ("base", "head"):
        measure(here, 100.0, f"perf/profiles/{side}/p.json")
    for name in ("profiles/old.json", "profiles/other/old.json"):
        measure(here, 100.0, name, accelerator="NVIDIA L4")
    execute(["run", "--measurements", "perf"])
    assert [(one.name, one.scorecard.accelerator) for one in left(here).cases] == [
        ("training", None)
    ]
    assert "old.json" not in capsys.readouterr().out
    execute(["run", "--measurements", "perf", "--profiles", "profiles/old.json"])
    assert [one.scorecard.accelerator for one in left(here).cases] == ["L4"]


def session_with(here: Path, *differs: dict[str, Any]) -> None:
    steps = {"step_ms": [100.0, 101.0]}
    write(
        here / "perf/measurements.jsonl",
        launches(*({"side": side, **steps} for side in ("base", "head"))),
    )
    write(here / "perf/environment.json", dump({"schema": 1, "differs": list(differs)}))


def differing(name: str, kind: str = "package", **sides: str | None) -> dict[str, Any]:
    return {"kind": kind, "name": name, **sides}


def test_run__says_what_differs_beside_the_code(here: Path, capsys: Out) -> None:
    """The first of it beside the verdict in every report, and all of it in the page's details."""
    session_with(
        here,
        differing("python", "python", base="3.11.2", head="3.12.1"),
        differing("torch", base="2.12.0", head="2.13.0"),
        differing("OMP_NUM_THREADS", "variable", base=None, head="1"),
        differing("launcher", "launcher", base="srun -N1"),
        differing("numpy", base="2.0", head="2.1"),
    )
    execute(["run", "--measurements", "perf"])
    short = (
        "Beside the code these differ: python 3.11.2 → 3.12.1, torch 2.12.0 → 2.13.0, variable"
        " OMP_NUM_THREADS none → 1, launcher srun -N1 → none and 1 more."
    )
    assert short in capsys.readouterr().out
    page = (here / "ci-score" / "report.html").read_text("utf-8")
    assert short in page
    assert "<li>numpy 2.0 → 2.1</li>" in page
    markdown = (here / "ci-score" / "report.md").read_text("utf-8")
    assert short.replace("_", "\\_") in markdown
    assert "- numpy 2.0 → 2.1" in markdown
    (one,) = left(here).cases
    assert one.environment.differs[1].head == "2.13.0"
    assert all(not point.environment.differs for point in left(here).history)


def test_run__what_differs_is_a_stranger_s_text(here: Path, capsys: Out) -> None:
    """No command, markup or mention comes of it, and no long text beside the verdict."""
    session_with(
        here, differing("<b>@x</b>", base="::error::x" + "y" * 150, head="[a](http://b)\n#1")
    )
    execute(["run", "--measurements", "perf"])
    assert "y" * 50 not in capsys.readouterr().out
    page = (here / "ci-score" / "report.html").read_text("utf-8")
    assert "<b>@x</b>" not in page
    markdown = (here / "ci-score" / "report.md").read_text("utf-8")
    for harmful in ("<b>", "@x", "[a](", " #1"):
        assert harmful not in markdown


def asking(here: Path, *asked: dict[str, Any]) -> tuple[str, str]:
    """Both reports of a session that says what it was asked."""
    pairs = [
        {"side": side, "launch": number, "step_ms": [ms]}
        for number in range(8)
        for side, ms in (("base", 100.0), ("head", 150.0))
    ]
    write(here / "perf/measurements.jsonl", launches(*pairs))
    write(here / "perf/environment.json", dump({"schema": 1, "asked": list(asked)}))
    assert execute(["run", "--measurements", "perf"]) == 1
    folder = here / "ci-score"
    return (folder / "report.md").read_text("utf-8"), (folder / "report.html").read_text("utf-8")


def test_run__repeats_what_the_session_was_asked(here: Path) -> None:
    """The command to reproduce has the options, and says what has to be filled in."""
    options = [
        ("--link", "my data"),
        ("--setup", None),
        ("--head-env", "NCCL_ALGO=Ring"),
        ("--base-env", "HF_TOKEN"),
        ("--keep-trackers", None),
        ("--tokens-per-step", "4096"),
    ]
    markdown, page = asking(here, *({"option": name, "value": text} if text else {"option": name}
                                    for name, text in options))  # fmt: skip
    line = (
        " --head . --case training --link 'my data' --setup <its setup> --head-env NCCL_ALGO=Ring"
        " --base-env HF_TOKEN=<its value> --keep-trackers --tokens-per-step 4096"
        " -- <your training command>\n"
    )
    assert line in markdown
    assert "Fill in what stands in `<…>`" in markdown
    assert line in html.unescape(page)
    assert all(not point.environment.asked for point in left(here).history)


@pytest.mark.parametrize(
    ("base", "words"), [({"value": "1f0c2a9be6d1"}, "1f0c2a9be6d1"), ({}, "<base>")]
)
def test_run__measures_again_with_the_session_s_own_base(
    base: dict[str, str], words: str, here: Path
) -> None:
    """By its commit; one that only its machine had has to be filled in."""
    markdown, _ = asking(here, {"option": "--base", **base})
    assert f"\nci-score ab --base {words} --head . --case training -- <your" in markdown


def test_run__what_was_asked_is_a_stranger_s_text(here: Path) -> None:
    """It stays one word of one line, and is no markup and no command to a runner."""
    evil = "x'; rm -rf ~ #\n```\n::error::<b>##[error]"
    markdown, page = asking(here, {"option": "--link", "value": evil})
    (line,) = [line for line in markdown.splitlines() if "--link" in line]
    assert shlex.split(line.partition(" -- ")[0])[-1] == "x'; rm -rf ~ # ``` ::error::<b># #[error]"
    assert "<b>#" not in page


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ([{"option": "; rm -rf ~"}], "asked[0].option"),
        ([{"option": "--link\n"}], "asked[0].option"),
        ([{"option": "--link", "value": "x" * 201}], "asked[0].value"),
        ([{"value": "x"}], "asked[0].option"),
        ([{"option": "--link"}] * 65, "asked"),
    ],
)
def test_run__what_was_asked_is_read_strictly(asked: Any, field: str) -> None:
    """The file is a stranger's, and has a limit."""
    data = dump({"schema": 1, "asked": asked}).encode()
    with pytest.raises(BadInputError, match=re.escape(f"environment.json: {field}: found")):
        read_environment(data, "environment.json")


@pytest.mark.parametrize(
    ("differs", "field"),
    [
        ([differing("torch", "colour", base="1", head="2")], "differs[0].kind"),
        ([differing("t" * 201, base="1", head="2")], "differs[0].name"),
        ([differing("torch", base="1", head="2")] * 65, "differs"),
        ({"torch": "2"}, "differs"),
        ([{"kind": "package", "base": "1"}], "differs[0].name"),
    ],
)
def test_run__differences_are_read_strictly(differs: Any, field: str) -> None:
    """The file is a stranger's, and has a limit."""
    data = dump({"schema": 1, "differs": differs}).encode()
    with pytest.raises(BadInputError, match=re.escape(f"environment.json: {field}: found")):
        read_environment(data, "environment.json")


def test_run__of_a_path_that_only_the_host_of_a_container_has() -> None:
    """There the workspace has a path of its own, and a relative one is right on both."""
    with pytest.raises(WrongUseError, match="paths of the runner's host do not exist"):
        find_files([CaseSource("/home/runner/work/x")], Path("/github/workspace"))


ELSEWHERE: dict[str, tuple[list[str], int]] = {
    "a file": (["--profiles", "../other/p.json"], 0),
    "its whole path": (["--profiles", "{other}/p.json"], 0),
    "files": (["--profiles", "../other/*.json"], 0),
    "files of a case": (["--profiles", "llama={other}/*.json"], 0),
    "files of its own, led around": (["--profiles", "../run/profiles/../profiles/p*.json"], 0),
    "a folder": (["--profiles", "../other"], 0),
    "a link": (["--profiles", "link"], 0),
    "below a link": (["--profiles", "link/*.json"], 0),
    "measurements": (["--measurements", "../perf/measurements.jsonl"], 0),
    "measurements by a pattern": (["--measurements", "../perf/*.jsonl"], 0),
    "one that would find files twice": (["--measurements", "{perf}/*/../*.jsonl"], 2),
    "a partner": (["--profiles", "../other/p.json", "--parity", "training=../ours.json"], 0),
    "a baseline": (["--baseline", "../main/r.json"], 1),
    "a folder of them": (["--baseline", "{main}"], 1),
    "a policy": (["--config", "../policy.toml", "--baseline", "../main"], 0),
    "a place for the report": (["--output-dir", "../other/out"], 0),
}


@pytest.mark.parametrize(("words", "code"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_run__reads_whatever_a_person_names(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    """In a shell every path that can be read is as good as another; in a job none leaves it."""
    places = {name: here / name for name in ("run", "other", "main", "perf")}
    measure(places["run"], 200.0)
    measure(places["other"], 100.0, "p.json")
    baseline = record(case(card=scorecard(100.0, 10_000.0)))
    write(places["main"] / "r.json", baseline.model_dump_json())
    write(places["perf"] / "measurements.jsonl", launches({"step_ms": [100.0, 101.0]}))
    (places["perf"] / "logs").mkdir()
    write(here / "ours.json", runtime("theirs", gemm=1.0).model_dump_json())
    names = ("step_time_ms", "throughput_tok_s", "wall_coverage")
    free = "".join(f"[metrics.{name}]\ngate = false\n" for name in names)
    write(here / "policy.toml", free)
    (places["run"] / "link").symlink_to(places["other"])
    monkeypatch.chdir(places["run"])
    given = [word.format(**places) for word in words]
    assert execute(["run", *given]) == code, capsys.readouterr()
    for source in given[1::2]:
        with suppress(WrongUseError):
            found = find_files(parse_sources(source, "x"), places["run"])
            assert all(file.problem for files in found.values() for file in files)


def test_run__with_a_named_baseline_keeps_nothing(here: Path) -> None:
    """A record that the user names is compared with, and its folder left alone."""
    write(here / "main" / "r.json", record(case(card=scorecard(100.0, 10_000.0))).model_dump_json())
    measure(here, 100.0)
    assert execute(["run", "--baseline", "main"]) == 0
    assert sorted(path.name for path in (here / "main").iterdir()) == ["r.json"]
    assert not (here / "ci-score" / "baselines").exists()


def test_run__prints_json(here: Path, capsys: Out) -> None:
    """The record on standard output."""
    measure(here, 100.0)
    assert execute(["run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"][0]["name"] == "training"


def test_run__without_anything_is_3(here: Path) -> None:
    """Nothing measured is never a pass."""
    assert execute(["run"]) == 3
    assert left(here).unjudged is not None


# --- which files belong to which case -----------------------------------------------------------


def test_profiles__folders_names_and_globs(here: Path) -> None:
    """A folder of folders is several cases, `name=glob` names one."""
    measure(here, 100.0, "profiles/a/p.json")
    measure(here, 100.0, "profiles/b b/p.json")
    measure(here, 100.0, "out/7/trace.json")
    assert execute(["run", "--profiles", "profiles\nnamed@x=out/*/trace.json"]) == 0
    assert sorted(found.name for found in left(here).cases) == ["a", "b-b", "named@x"]


def test_profiles__what_lies_beside_them_is_no_profile(here: Path) -> None:
    """Measurements, hidden files and the environment stay out."""
    measure(here, 100.0)
    for name in (".hidden.json", "environment.json", "measurements.jsonl"):
        write(here / "profiles" / name, "no profile")
    assert execute(["run"]) == 0


def test_profiles__several_files_of_one_case_are_merged(here: Path) -> None:
    """Captures of the same work are one case."""
    for name, step_ms in (("a", 100.0), ("b", 105.0), ("c", 101.0)):
        measure(here, step_ms, f"profiles/{name}.json")
    assert execute(["run"]) == 0
    assert left(here).cases[0].scorecard.step_time_ms == 102.0


def test_profiles__two_old_captures_beside_a_slow_one_are_not_judged(
    here: Path, capsys: Out
) -> None:
    """A change that leaves fast captures of its base would be judged by them."""
    measure(here, 100.0)
    assert execute(["run"]) == 0
    for name, step_ms in (("old-1", 100.0), ("old-2", 100.0), ("p", 130.0)):
        measure(here, step_ms, f"profiles/{name}.json")
    assert execute(["run"]) == 3
    printed = capsys.readouterr().out
    assert "too far apart for the same work" in printed
    assert "profiles/p.json 130" in printed


def train(here: Path, where: str, **fields: Any) -> None:
    write(here / "out" / where / "trainer_state.json", json.dumps(trained(**fields)))


def test_trainer__checkpoints_are_no_cases(here: Path) -> None:
    """A trainer's folder is one case, by the state at its end; weights beside are not read."""
    train(here, "", tokens=0)
    for step in (20, 60):
        train(here, f"checkpoint-{step}", tokens=0, ended=False)
        write(here / "out" / f"checkpoint-{step}" / "config.json", "{}")
    assert execute(["run", "--profiles", "out"]) == 0
    (found,) = left(here).cases
    assert (found.name, found.scorecard.step_time_ms) == ("training", 2000.0)
    assert "config.json" not in " ".join(found.scorecard.notes)


def test_trainer__each_folder_of_runs_is_a_case(here: Path) -> None:
    """Below it, checkpoints belong to it."""
    for run in ("a", "b"):
        train(here, f"{run}/checkpoint-60", ended=False)
    write(here / "out" / "checkpoint-7" / "p.json", profile().model_dump_json())
    assert execute(["run", "--profiles", "out"]) == 0
    assert [found.name for found in left(here).cases] == ["a", "b", "checkpoint-7"]


@pytest.mark.parametrize("top", ["", "llama/"])
def test_trainer__checkpoints_in_an_artifact_are_no_cases(top: str) -> None:
    """An artifact of a trainer's folder is read like the folder."""
    state = json.dumps(trained()).encode()
    names = ("trainer_state.json", "checkpoint-20/trainer_state.json", "checkpoint-20/config.json")
    members = [(f"{top}{name}", state) for name in names]
    files = files_of_artifact([*members, ("checkpoint-7/p.json", b"{}")], None)
    case = "llama" if top else "training"
    assert [file.name for file in files[case]] == [f"{top}{name}" for name in names[:2]]
    assert sorted(files) == sorted([case, "checkpoint-7"])


@pytest.mark.parametrize("where", ["out", "out/checkpoint-60", "a=out/*/trainer_state.json"])
def test_trainer__a_checkpoint_that_tells_no_time_is_not_usable(
    here: Path, capsys: Out, where: str
) -> None:
    """Nothing measured is no pass, on a first run and beside a baseline."""
    train(here, "checkpoint-60", tokens=0, ended=False)
    assert execute(["run", "--profiles", where]) == 3
    assert execute(["run", "--profiles", where]) == 3
    assert "log_history has no train_runtime" in capsys.readouterr().out


def test_trainer__stalls_that_a_median_hides_are_a_regression(here: Path) -> None:
    """Three steps of ten take four times as long."""
    state = trained(tokens=0)

    def run(*seconds: float) -> int:
        steps = [{"step": n, "step_time": s} for n, s in enumerate(seconds, start=1)]
        logged = {**state, "log_history": [*steps, *state["log_history"]]}
        write(here / "out" / "trainer_state.json", json.dumps(logged))
        return execute(["run", "--profiles", "out"])

    assert run(*(3.0,) * 10) == 0
    assert run(*(3.0,) * 7, *(12.0,) * 3) == 1


def test_trainer__a_resumed_run_is_judged_by_its_own_steps(here: Path) -> None:
    """Its seconds, divided by all steps, would hide that it is slower."""
    train(here, "", step_s=2.0)
    assert execute(["run", "--profiles", "out"]) == 0
    train(here, "", step_s=3.0, resumed_at=25)
    assert execute(["run", "--profiles", "out"]) == 1


def test_profiles__a_named_case_without_files_is_not_measured(here: Path, capsys: Out) -> None:
    """A glob that fits nothing is no pass of the others."""
    measure(here, 100.0)
    assert execute(["run", "--profiles", "profiles\nmissing=nowhere/*.json"]) == 3
    assert "no file was found for it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--profiles", "a b=x", "cannot name a case"),
        ("--parity", "x.json", "does not name a case"),
        ("--not-needed", "only documentation", "say how that ended"),
        ("--pr-number", "#7", "not the number of a pull request"),
        ("--fail-on", "sometimes", "not one of critical, warning, never"),
        ("--throughput", "nan", "not a finite number"),
        ("--output-dir", ".", "not a folder of its own"),
        ("--hardware", "H1000", "Did you mean"),
        ("--profile-artifact", "x", "needs a GitHub job"),
    ],
)
def test_inputs__that_are_wrong_are_named(
    here: Path, capsys: Out, option: str, value: str, words: str
) -> None:
    """The input, what was given, and what it may be; exit 2."""
    measure(here, 100.0)
    assert execute(["run", option, value]) == 2
    assert words in capsys.readouterr().err


def test_profiles__a_link_out_of_the_workspace_is_not_followed(here: Path, capsys: Out) -> None:
    """A stranger's artifact could point at a secret of the machine."""
    outside = here.parent / "secret.json"
    outside.write_text("{}", encoding="utf-8")
    (here / "profiles").mkdir()
    (here / "profiles" / "p.json").symlink_to(outside)
    assert execute(["run"]) == 3
    assert "leaves the workspace" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["profiles", "profiles/", "profiles/*.json", "a/b/**/*.json"])
def test_profiles__as_a_link_to_a_tree_are_not_looked_through(
    here: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Out, named: str
) -> None:
    """In a job, and where nobody has named it: the tree may be large, and hold anything."""
    tree = tmp_path_factory.mktemp("tree")
    for number in range(3):
        write(tree / f"{number}.json", "{}")
    (here / "a").mkdir()
    for link in (here / "profiles", here / "a" / "b"):
        link.symlink_to(tree, target_is_directory=True)
    ((file,),) = find_files([CaseSource(named)], here).values()
    assert "leaves the workspace" in file.problem
    assert execute(["run"]) == 3
    said = capsys.readouterr().out
    assert "leaves the workspace" in said
    assert "0.json" not in said


def test_profiles__a_folder_of_very_many_files_is_refused(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link may lead to a large tree of the workspace itself."""
    monkeypatch.setattr(case_files, "MOST_LOOKED_AT", 3)
    for number in range(5):
        write(here / "profiles" / f"{number}.txt", "")
    assert execute(["run"]) == 2
    assert "name a smaller folder" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["main.json", "main/one.json"])
def test_baseline__that_is_a_pipe_is_not_waited_for(here: Path, place: str, capsys: Out) -> None:
    """Nobody may ever write into it."""
    measure(here, 100.0)
    (here / place).parent.mkdir(exist_ok=True)
    os.mkfifo(here / place)
    assert execute(["run", "--baseline", place.partition("/")[0]]) == 3
    assert "not a regular file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 2", "schema: found 2"),
        ('rule = "reference"', "did you mean rules"),
        ('rules = "strict"', "'reference' or 'training'"),
        ("schema = true", "schema: found true"),
        ("not toml", "no TOML"),
    ],
)
def test_policy__that_is_wrong_is_named(here: Path, capsys: Out, text: str, words: str) -> None:
    """An unknown key is an error with a suggestion."""
    measure(here, 100.0)
    write(here / ".github" / "ci-score.toml", text)
    assert execute(["run"]) == 2
    assert words in capsys.readouterr().err


def test_policy__of_the_reference_is_the_default(here: Path) -> None:
    """Saying it changes nothing."""
    measure(here, 100.0)
    write(here / ".github" / "ci-score.toml", 'schema = 1\nrules = "reference"\n')
    assert execute(["run"]) == 0


# --- measurements -------------------------------------------------------------------------------


def test_measurements__judge_and_profiles_explain(here: Path) -> None:
    """The numbers are the unprofiled ones, the layers the profile's."""
    measure(here, 999.0)
    rows = [{"launch": n, "step_ms": [500.0, 100.0 + n, 100.0 + n], "warmup_steps": 1,
             "tokens_per_step": 1000} for n in range(3)]  # fmt: skip
    write(here / "m.jsonl", launches(*rows))
    assert execute(["run", "--measurements", "m.jsonl"]) == 0
    (found,) = left(here).cases
    assert found.scorecard.step_time_ms == 101.0
    assert [one.values["step_time_ms"] for one in found.launches] == [100.0, 101.0, 102.0]
    assert found.scorecard.per_layer_summary


def test_measurements__replace_the_throughput_that_a_profile_states(here: Path) -> None:
    """A throughput under the profiler is another number; its tokens a step stay."""
    profiled = profile(200.0, throughput_tok_s=5000.0)
    normalised = {"_profiler": "ci-score", "_schema": 1, **profiled.model_dump(mode="json")}
    write(here / "profiles" / "p.json", json.dumps(normalised))
    write(here / "m.jsonl", launches({"launch": 0, "step_ms": [100.0]}))
    assert execute(["run", "--measurements", "m.jsonl"]) == 0
    card = left(here).cases[0].scorecard
    assert (card.step_time_ms, card.throughput_tok_s) == (100.0, 10_000.0)


@pytest.mark.parametrize(
    "where", ["perf", "perf/*.jsonl", "perf/m.jsonl", "llama=perf", "llama=perf/m.jsonl"]
)
def test_measurements__are_found_in_folders_and_by_globs(here: Path, where: str) -> None:
    """In the same forms as profiles; a name that the user gives wins."""
    write(here / "perf" / "m.jsonl", launches({"step_ms": [100.0], "tokens_per_step": 1000}))
    assert execute(["run", "--profiles", "none", "--measurements", where]) == 0
    (found,) = left(here).cases
    assert found.name == ("llama" if "=" in where else "training")


@pytest.mark.parametrize("content", [None, "", '{"schema": 1, "step_ms": [9', "base"])
def test_measurements__that_are_missing_are_not_replaced_by_a_profile(
    here: Path, content: str | None
) -> None:
    """A time under a profiler is another number: judged against measurements it would cry wolf."""
    measure(here, 100.0)
    if content is not None:
        base = launches({"side": "base", "step_ms": [100.0]})
        write(here / "m.jsonl", base if content == "base" else content)
    assert execute(["run", "--measurements", "m.jsonl"]) == 3
    reason = left(here).cases[0].unmeasured
    assert reason is not None
    why = "its measurements hold no step"
    if content is None:
        why = "no measurements were found at m.jsonl: name the folder that `ci-score ab`"
    assert sentence(reason).startswith(why)


def test_measurements__that_are_missing_are_what_is_said_to_be_missing(
    here: Path, capsys: Out
) -> None:
    """The folder of profiles, which nobody has named, is not a part of the sentence."""
    assert execute(["run", "--measurements", "nofile"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "no measurements were found at nofile: name the folder that `ci-score ab` or" in said
    assert "profiles" not in said


@pytest.mark.parametrize("content", ["", '{"schema": 1, "step_ms": [9'])
def test_measurements__that_are_empty_are_not_said_to_be_missing(
    here: Path, capsys: Out, content: str
) -> None:
    """The file is there, and what would help is a measurement, and not a job's log."""
    write(here / "m.jsonl", content)
    assert execute(["run", "--measurements", "m.jsonl"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "m.jsonl is there, but holds no launch: what measured ended before its first" in said
    assert "no measurements were found" not in said
    for text in (said, (here / "ci-score" / "report.html").read_text()):
        assert "What would give a verdict:" in text
        assert "the measuring job" not in text


def test_measurements__of_a_named_case_that_is_missing_is_said(here: Path) -> None:
    """Another case that was measured does not stand in for it."""
    write(here / "m.jsonl", launches({"step_ms": [100.0]}))
    where = "training=m.jsonl\nllama=gone.jsonl"
    assert execute(["run", "--profiles", "none", "--measurements", where]) == 3
    llama, training = left(here).cases
    assert (llama.name, training.name, training.has_a_time) == ("llama", "training", True)
    assert llama.unmeasured is not None
    assert "no measurements were found at gone.jsonl:" in sentence(llama.unmeasured)


def test_timing__under_a_profiler_is_not_compared_with_unprofiled(here: Path) -> None:
    """They are different numbers of the same step."""
    write(here / "m.jsonl", launches({"step_ms": [100.0], "tokens_per_step": 1000}))
    measure(here, 150.0)
    assert execute(["run", "--measurements", "m.jsonl"]) == 0
    assert execute(["run"]) == 3
    verdict = left(here).cases[0].verdict
    assert verdict is not None
    assert sentence(verdict.reasons[0]).endswith("timing: under a profiler here, unprofiled there")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("trainer", "by the trainer's log here, under a profiler there"),
        ("runtime", "by the runtime itself here, under a profiler there"),
        ("measured", "unprofiled here, under a profiler there"),
    ],
)
def test_timing__of_two_sources_is_not_compared(
    here: Path, capsys: Out, state: str, words: str
) -> None:
    """A trainer's seconds, a trace and a runtime's own clock time different things."""
    measure(here, 1000.0)
    assert execute(["run"]) == 0
    (here / "profiles" / "p.json").unlink()
    inputs = ["run"]
    if state == "trainer":
        write(here / "profiles" / "trainer_state.json", json.dumps(trained(1.0, tokens=1000)))
    elif state == "runtime":
        write(here / "profiles" / "step.json", json.dumps({**V2, "avg_step_ms": 1000.0}))
    else:
        write(here / "m.jsonl", launches({"step_ms": [1000.0], "tokens_per_step": 1000}))
        inputs += ["--measurements", "m.jsonl"]
    assert execute(inputs) == 3
    printed = capsys.readouterr().out
    assert f"not comparable in timing: {words}" in printed
    label = left(here).cases[0].environment.timing
    assert (f"timed {label}" in printed) == (label != "unprofiled")


def test_timing__of_one_source_is_compared(here: Path, capsys: Out) -> None:
    """The trainer's seconds of two runs, also where one was converted beside the accelerator."""
    write(here / "out" / "trainer_state.json", json.dumps(trained(1.0, tokens=1000)))
    assert execute(["run", "--profiles", "out"]) == 0
    write(here / "out" / "trainer_state.json", json.dumps(trained(1.5, tokens=1000)))
    converted = str(here / "profiles" / "p.json")
    (here / "profiles").mkdir()
    assert execute(["convert", str(here / "out"), "--json", "-o", converted]) == 0
    assert execute(["run"]) == 1
    assert "timed by the trainer's log" in capsys.readouterr().out


def log_runs(here: Path, *step_ms: float) -> None:
    """Leaves a log of each run, and of the process that prints no steps."""
    for number, ms in enumerate(step_ms):
        times = {1: 9000.0, 2: 4600.0, **dict.fromkeys(range(3, 23), ms)}
        write(here / "out" / f"run-{number}.log", megatron(times))
    write(here / "out" / "stderr.log", ARGUMENTS)


def test_logs__each_is_a_launch(here: Path, capsys: Out) -> None:
    """Repeats of a run say how far it varies, like launches that were measured."""
    log_runs(here, 200.0, 202.0, 198.0)
    assert execute(["run", "--profiles", "out"]) == 0
    (found,) = left(here).cases
    assert [one.values["step_time_ms"] for one in found.launches] == [200.0, 202.0, 198.0]
    assert [one.timed_steps for one in found.launches] == [20] * 3
    assert found.environment.timing == "by the trainer's log"
    assert found.launches[0].values["throughput_tok_s"] == pytest.approx(64 * 4096 / 0.2 / 16)
    assert "stderr.log was left out" in " ".join(found.scorecard.notes)
    log_runs(here, 260.0, 262.0, 258.0)
    assert execute(["run", "--profiles", "out"]) == 1
    assert "timed by the trainer's log" in capsys.readouterr().out


def test_logs__beside_measurements_only_explain(here: Path) -> None:
    """What was measured is judged, as beside any profile."""
    log_runs(here, 200.0, 202.0)
    write(here / "m.jsonl", launches({"launch": 0, "step_ms": [150.0] * 20}))
    assert execute(["run", "--profiles", "out", "--measurements", "m.jsonl"]) == 0
    (found,) = left(here).cases
    assert found.environment.timing == "unprofiled"
    assert [one.values["step_time_ms"] for one in found.launches] == [150.0]


def test_measurements__make_no_doubts_of_a_profile(here: Path) -> None:
    """Its phases are parts of the profiled step, which is much longer than the measured one."""
    measure(here, 1600.0, phases={"forward": phase(1500.0)}, wall_coverage=0.94)
    write(here / "m.jsonl", launches({"launch": 0, "step_ms": [100.0] * 20}))
    assert execute(["run", "--measurements", "m.jsonl"]) == 0
    report = (here / "ci-score" / "report.html").read_text(encoding="utf-8")
    report += (here / "ci-score" / "report.md").read_text(encoding="utf-8")
    assert "run totals" not in report
    assert "The phases cover" not in report
    assert "phases add up" not in report


def test_measurements__of_both_sides_need_no_baseline(here: Path, capsys: Out) -> None:
    """Head and base of one session are compared with each other."""
    write(here / "m.jsonl", launches(*in_turns(100.0, 130.0)))
    assert execute(["run", "--profiles", "none", "--measurements", "m.jsonl"]) == 1
    assert "+30 %" in capsys.readouterr().out
    baseline = left(here).cases[0].baseline
    assert baseline is not None
    assert baseline.source == "the base side of the same measurements"


def phases_of(backward_ms: float) -> dict[str, Any]:
    return {"phases": {"forward": phase(30.0), "backward": phase(backward_ms)}, "per_layer": ()}


def test_measurements__of_both_sides_are_explained_by_the_branch_s_profile(here: Path) -> None:
    """A session measures its base without a profile: that of the branch's record says why."""
    rows = in_turns(90.0, 120.0)
    measure(here, 100.0, **phases_of(65.0))
    write(here / "m.jsonl", launches(*(row for row in rows if row["side"] == "head")))
    assert execute(["run", "--measurements", "m.jsonl"]) == 0
    measure(here, 140.0, **phases_of(105.0))
    write(here / "m.jsonl", launches(*rows))
    assert execute(["run", "--measurements", "m.jsonl"]) == 1
    (found,) = left(here).cases
    assert headline(found).endswith(": under the profiler most of it is in the backward (+40.0 ms)")
    assert found.explanation is not None
    assert found.explanation.under_profiler
    assert [part.delta_ms for part in found.explanation.parts] == [0.0, 40.0, 0.0]


def test_measurements__without_any_profile_of_the_base_are_not_explained(here: Path) -> None:
    """The head's profile alone says nothing of the change."""
    measure(here, 140.0, **phases_of(105.0))
    write(here / "m.jsonl", launches(*in_turns(90.0, 120.0)))
    assert execute(["run", "--measurements", "m.jsonl"]) == 1
    (found,) = left(here).cases
    assert found.explanation is None
    assert headline(found).startswith("Fail: 33 % slower · 90.3 → 120 ms/step")


def test_measurements__a_last_line_that_was_cut_is_dropped(here: Path) -> None:
    """A killed job leaves half a line; what was whole counts."""
    write(here / "m.jsonl", launches({"step_ms": [100.0]}) + '{"schema": 1, "step_ms": [9')
    assert execute(["run", "--profiles", "none", "--measurements", "m.jsonl"]) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"schema": 2, "step_ms": [1.0]}', "schema"),
        ('{"schema": 1}', "step_ms"),
        ('{"schema": 1, "step_ms": []}', "a step after the warm-up"),
        ('{"schema": 1, "step_ms": [1.0], "warmup_steps": 1}', "a step after the warm-up"),
        ('{"schema": 1, "step_ms": [NaN]}', "not JSON"),
        ('{"schema": 1, "step_ms": [-1.0]}', "0 or more"),
        ('{"schema": 1, "step_ms": [1.0], "case": "a/b"}', "case"),
        ('{"schema": 1, "step_ms": [1.0], "side": "left"}', "side"),
    ],
)
def test_measurements__that_are_wrong_are_a_problem_of_their_case(
    here: Path, capsys: Out, line: str, words: str
) -> None:
    """The file and line, and no pass."""
    write(here / "m.jsonl", line + "\n")
    assert execute(["run", "--profiles", "none", "--measurements", "m.jsonl"]) == 3
    assert words in capsys.readouterr().out


# --- parity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parity file", "profile"])
def test_parity__with_a_partner(here: Path, kind: str) -> None:
    """The partner's numbers come from its own parity file or from a profile."""
    measure(here, 100.0, per_layer=[layer(0, gemm=2.0)])
    partner = runtime("theirs", gemm=1.0)
    if kind == "profile":
        measure(here, 50.0, "theirs.json", per_layer=[layer(0, gemm=1.0)])
    else:
        write(here / "theirs.json", partner.model_dump_json())
    assert execute(["run", "--parity", "training=theirs.json"]) == 0
    found = left(here).cases[0].parity
    assert found is not None
    assert (found.baseline_runtime, found.top_gaps[0].ratio) == ("theirs", 2.0)
    assert "Parity: not achieved" in (here / "ci-score" / "report.md").read_text("utf-8")


def test_parity__a_partner_that_cannot_be_read_is_a_note(here: Path) -> None:
    """It explains nothing, and changes no verdict."""
    measure(here, 100.0)
    write(here / "theirs.json", "{")
    assert execute(["run", "--parity", "training=theirs.json"]) == 0
    assert "theirs.json" in "".join(left(here).cases[0].scorecard.notes)


def test_parity__without_a_partner_s_file_is_a_note(here: Path) -> None:
    """A glob that fits nothing is said."""
    measure(here, 100.0)
    assert execute(["run", "--parity", "training=gone/*.json"]) == 0
    assert "No file was found" in "".join(left(here).cases[0].scorecard.notes)


def test_parity__of_an_unknown_case_is_wrong_use(here: Path, capsys: Out) -> None:
    """A typo in a name must not lose a comparison."""
    measure(here, 100.0)
    assert execute(["run", "--parity", "trainin=x.json"]) == 2
    assert "there are: training" in capsys.readouterr().err


def test_baseline__that_the_user_names_must_be_there(here: Path) -> None:
    """A typo is no first run for ever."""
    measure(here, 100.0)
    assert execute(["run", "--baseline", "gone"]) == 3


def test_config__that_the_user_names_must_be_there(here: Path, capsys: Out) -> None:
    """Rules that are not found do not silently become others."""
    measure(here, 100.0)
    assert execute(["run", "--config", "gone.toml"]) == 2
    assert "there is no file" in capsys.readouterr().err


WARNS_LATER = "schema = 1\n[metrics.step_time_ms]\nwarn = 0.6\nfail = 0.9\n"
WARNS_LATER += "[metrics.throughput_tok_s]\ngate = false\n"
POLICY = ".github/ci-score.toml"


@pytest.mark.parametrize(
    ("theirs", "mine", "code", "told"),
    [
        (WARNS_LATER, None, 0, False),
        (WARNS_LATER, "schema = 1\n", 0, True),
        ("schema = 1\n", WARNS_LATER, 1, True),
        (None, WARNS_LATER, 0, False),
        (None, None, 1, False),
    ],
)
def test_policy__of_a_baseline_that_is_named_comes_before_the_workspace_s(
    here: Path, capsys: Out, theirs: str | None, mine: str | None, code: int, *, told: bool
) -> None:
    """Its newest record's rules; those of the workspace where it has none."""
    for text, step_ms in ((theirs, 100.0), (mine, 150.0)):
        (here / POLICY).unlink(missing_ok=True)
        if text is not None:
            write(here / POLICY, text)
        measure(here, step_ms)
        if step_ms == 100.0:
            assert execute(["run", "--output-dir", "main"]) == 0
    capsys.readouterr()
    assert execute(["run", "--baseline", "main/ci-score.json"]) == code
    assert ("The policy was changed here" in capsys.readouterr().out) is told


def test_policy__of_the_workspace_judges_its_own_records(here: Path) -> None:
    """Whoever has only a folder of their own runs decides the rules."""
    for text, step_ms, code in (("schema = 1\n", 100.0, 0), (WARNS_LATER, 150.0, 0)):
        write(here / POLICY, text)
        measure(here, step_ms)
        assert execute(["run"]) == code


def test_inputs__of_a_machine_are_kept_without_its_places(here: Path) -> None:
    """How it was judged is the record's, and not where files lie."""
    measure(here, 100.0)
    assert execute(["run", "--fail-on", "never", "--output-dir", "out"]) == 0
    path = here / "out" / "ci-score.json"
    assert Record.model_validate_json(path.read_bytes()).inputs == {"fail-on": "never"}


def test_output__replaces_a_link_and_a_pipe(here: Path) -> None:
    """Nothing is written through a stranger's link, and nobody is waited for."""
    measure(here, 100.0)
    outside = here.parent / f"{here.name}-outside"
    outside.touch()
    (here / "ci-score").mkdir()
    (here / "ci-score" / "ci-score.json").symlink_to(outside)
    os.mkfifo(here / "ci-score" / "report.md")
    assert execute(["run"]) == 0
    assert outside.read_bytes() == b""
    assert left(here).cases


def test_case__of_numbers_that_overflow_is_not_measured(here: Path) -> None:
    """One case of absurd numbers does not end the run of the others."""
    measure(here, 100.0, "profiles/good/p.json")
    measure(here, 100.0, "profiles/bad/p.json", per_layer=[layer(0, fwd_ms=1e-300, bwd_ms=1e300)])
    assert execute(["run"]) == 3
    assert {found.name: found.has_a_time for found in left(here).cases} == {
        "bad": False,
        "good": True,
    }


# --- limits -------------------------------------------------------------------------------------


def large(cases: int, layers: int) -> Record:
    rows = [layer(number, **{f"op{n}": 1.0 for n in range(12)}) for number in range(layers)]
    summary = [
        {"layer": row.layer, "fwd_ms": 1.0, "bwd_ms": 2.0, "ratio": 2.0, "top_op": "ÖP" * 30,
         "top_op_pct": 9.0}
        for row in rows
    ]  # fmt: skip
    card = scorecard(per_layer_summary=summary, notes=("a note 你好 " * 9,) * 5)
    return record(*(case(f"case-{number}", card) for number in range(cases)))


@pytest.mark.parametrize("limit", [65_000, 20_000, 3_000, 200])
def test_report__fits_its_limit_and_says_what_is_left_out(limit: int) -> None:
    """In bytes, which are never fewer than characters; the first line survives."""
    text = report_markdown(large(64, 128), limit=limit)
    assert len(text.encode()) <= limit
    assert text.startswith("### ")
    if limit > 1000:
        assert "Left out for length" in text


def test_report__leaves_the_least_important_out_first() -> None:
    """Each smaller limit leaves out more, and the first case stays longest."""
    whole = report_markdown(large(8, 64), limit=None)
    texts = [report_markdown(large(8, 64), limit=len(whole.encode()) // part) for part in (1, 2, 4)]
    sizes = [len(text) for text in (whole, *texts)]
    assert sizes == sorted(sizes, reverse=True)
    assert all("#### `case-0`" in text for text in texts)
    assert "Left out for length" in texts[-1]


def test_report__of_a_record_that_was_cut_is_the_one_of_its_file(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report and page show what the record has kept, so `post` makes the same ones again."""
    monkeypatch.setattr(record_size, "RECORD_LIMIT", 100_000)
    settings = Settings.of({}, here)
    whole = large(8, 100)
    kept = write_files(whole, settings)
    assert write_page(kept, settings) is None
    left_there = read_record((here / "ci-score" / "ci-score.json").read_bytes(), "r.json")
    assert left_there != whole
    shown = {"report.md": "markdown", "report.html": "html"}
    for name, form in shown.items():
        text = (here / "ci-score" / name).read_text("utf-8")
        assert text == render(left_there, form)


def in_turns(base_ms: float, head_ms: float) -> list[dict[str, Any]]:
    """Eight pairs, as many as can prove a slowdown."""
    return [
        {"side": side, "launch": number, "order": 2 * number + place,
         "step_ms": [ms + 0.1 * number], "tokens_per_step": 1000}
        for number in range(8)
        for place, (side, ms) in enumerate((("base", base_ms), ("head", head_ms)))
    ]  # fmt: skip


def test_baseline__that_measured_nothing_of_a_case_makes_it_no_new_one(
    here: Path, capsys: Out
) -> None:
    """A record of the case without a number is said as that, and is no harmless beginning."""
    write(here / "m.jsonl", '{"x":\n')
    assert execute(["run", "--profiles", "none", "--measurements", "m.jsonl"]) == 3
    write(here / "m.jsonl", launches({"step_ms": [100.0]}))
    capsys.readouterr()
    assert execute(["run", "--profiles", "none", "--measurements", "m.jsonl"]) == 3
    assert "measured nothing of training" in capsys.readouterr().out
    assert execute(["run", "--profiles", "none", "--measurements", "m.jsonl"]) == 0

"""The command line as its users meet it: results, exit codes, and errors that teach."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from ci_score import __version__
from ci_score.cli import COMMANDS, LazyGroup, cli, execute
from ci_score.cli.demo import sample
from ci_score.errors import BadInputError, CiScoreError, WrongUseError
from ci_score.model.reasons import Why
from ci_score.model.record import Record, RunIdentity
from tests.builders import PROJECT, case, profile, record, runtime, scorecard
from tests.builders.composite import obeyed

Out = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one of each kind of file, as the working directory."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "profile.json": profile(tokens_per_step=100),
        "slow.json": profile(step_ms=150.0, tokens_per_step=100),
        "base.json": record(case(card=scorecard(100.0, 1000.0))),
        "fine.json": record(case(card=scorecard(101.0, 990.0))),
        "worse.json": record(case(card=scorecard(115.0, 870.0))),
        "bad.json": record(case(card=scorecard(150.0, 666.0))),
        "ours.json": runtime("ours", gemm=2.0),
        "theirs.json": runtime("theirs", gemm=1.0),
        "strange.json": runtime("strange", other=1.0),
    }
    for name, value in contents.items():
        (tmp_path / name).write_text(value.model_dump_json(), encoding="utf-8")
    return tmp_path


def commands() -> list[tuple[str, click.Command]]:
    assert isinstance(cli, LazyGroup)
    context = click.Context(cli)
    return [(name, command) for name in COMMANDS if (command := cli.get_command(context, name))]


# --- a slip of the finger -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["scroe", "profile.json"], "score"),
        (["score", "profile.json", "--basline", "base.json"], "--baseline"),
        (["score", "profile.json", "--baseline", "base.json", "--case", "Trainin"], "training"),
        (["score", "profile.json", "--hardware", "H10 SXM"], "H100 SXM"),
        (["badge", "base.json", "--case", "trainng"], "training"),
        (["run", "--profiles", "profile.json", "--parity", "trainig=x.json"], "training"),
        (["run", "--profiles", "profile.json", "--fail-on", "crtical"], "critical"),
        (["policy", "show", "rules.toml"], "metrics"),
        (["policy", "show", "other.toml"], "step_time_ms"),
    ],
)
def test_typo__gets_what_was_probably_meant(
    files: Path, capsys: Out, arguments: list[str], meant: str
) -> None:
    """Commands, options, cases, accelerators, inputs' values, and a policy's keys and metrics."""
    (files / "rules.toml").write_text("schema = 1\n[metric.mfu]\ngate = true\n", encoding="utf-8")
    (files / "other.toml").write_text("schema = 1\n[budgets]\nstep_time = 3\n", encoding="utf-8")
    assert execute(arguments) == 2
    said = capsys.readouterr().err
    # An option is click's own matter, and older ones call it possible.
    assert re.search(rf"(?:[Dd]id you mean|Possible options:) (?:one of: )?'?{meant}", said), said


def test_typo__that_looks_like_nothing_gets_no_suggestion(files: Path, capsys: Out) -> None:
    """A wrong guess would be worse than none."""
    assert execute(["xyzzy"]) == 2
    assert "did you mean" not in capsys.readouterr().err.lower()


# --- help ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "command"), commands(), ids=COMMANDS)
def test_help__every_command_has_examples(name: str, command: click.Command, capsys: Out) -> None:
    """The help of each command shows how it is called; every option is explained."""
    assert execute([name, "--help"]) == 0
    assert f"ci-score {name}" in capsys.readouterr().out.split("Examples:")[1]
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_help__the_examples_are_calls_that_parse() -> None:
    """Options in the examples exist."""
    options = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands()
    }
    for name, command in commands():
        for line in (command.help or "").split("Examples:")[1].splitlines():
            ours = line.partition(" -- ")[0]
            words = re.sub(r'"[^"]*"', "TEXT", ours).partition("ci-score ")[2].split()
            asked = {word for word in words if word.startswith("--")}
            assert asked <= options[words[0]] if words else True, (name, line)


def test_help__lists_every_command(capsys: Out) -> None:
    """The overview shows each command with its line, and the exit codes."""
    assert execute(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "1  a regression beyond a limit" in text


def test_version__is_printed(capsys: Out) -> None:
    """The version, for a bug report."""
    assert execute(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


# --- score --------------------------------------------------------------------------------------


def test_score__prints_the_scorecard_as_json(files: Path, capsys: Out) -> None:
    """The reference's keys and ours, on standard output alone."""
    assert execute(["score", "profile.json", "--hardware", "gb10", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["throughput_tok_s"] == 1000.0
    assert card["grade"] == "B"
    assert card["graded"] is True


def test_score__reads_standard_input_and_gzip(
    files: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` is standard input; gzip is known by its content, whatever the name."""
    packed = gzip.compress((files / "profile.json").read_bytes())
    (files / "packed.txt").write_bytes(packed)
    assert execute(["score", "packed.txt", "--json"]) == 0
    from_file = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert execute(["score", "-", "--json"]) == 0
    assert capsys.readouterr().out == from_file


def test_score__with_a_baseline_judges(files: Path, capsys: Out) -> None:
    """Exit 1 is the critical regression, and `--fail-on never` only reports it."""
    assert execute(["score", "slow.json", "--baseline", "base.json"]) == 1
    assert "Fail: 50 % slower" in capsys.readouterr().out
    assert execute(["score", "slow.json", "--baseline", "base.json", "--fail-on", "never"]) == 0
    assert execute(["score", "profile.json", "--baseline", "base.json"]) == 0


SAMPLES = PROJECT / "ci_score" / "cli" / "samples"
SLOWER = [SAMPLES / "pull_request.json", SAMPLES / "main.json"]


def test_score__of_two_profiles_gives_the_cause(
    files: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pull request with these profiles would be told; from standard input as well."""
    after, before = map(str, SLOWER)
    assert execute(["score", after, "--baseline", before]) == 1
    said = capsys.readouterr().out
    assert said.startswith("Fail: 26 % slower · 309 → 389 ms/step")
    assert "mostly 'swiglu_bwd': 11× as long" in said
    assert "Where the +80.0 ms went" in said
    assert "compared with" in said
    stdin = io.TextIOWrapper(io.BytesIO(SLOWER[1].read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert execute(["score", after, "--baseline", "-", "--style", "markdown"]) == 1
    assert "`swiglu_bwd`" in capsys.readouterr().out
    assert execute(["score", after, "--baseline", before, "--fail-on", "never"]) == 0
    assert execute(["score", before, "--baseline", before]) == 0
    capsys.readouterr()
    assert execute(["score", after, "--baseline", before, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["grade"]


def test_score__of_two_profiles_judges_nothing_that_was_only_told(files: Path, capsys: Out) -> None:
    """A base without a step is no baseline, and what an option tells is told of head."""
    (files / "empty.json").write_text('{"phases": {}, "per_layer": []}', encoding="utf-8")
    assert execute(["score", "profile.json", "--baseline", "empty.json"]) == 3
    assert "empty.json is not usable" in capsys.readouterr().err
    assert execute(["score", "slow.json", "--baseline", "profile.json", "--throughput", "9e9"]) == 1
    assert execute(["score", "slow.json", "--baseline", "profile.json", "--case", "a"]) == 2
    assert "--case" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"some words", "found text without a profile"),
        (b"\x80\x04\x95", "a pickle, which could run code"),
        (b"", "an empty file"),
        (b'{"a": 1}', "neither a record nor a scorecard"),
        (b'{"schema_version": 4, "cases"', "the end of the file inside the JSON"),
        (None, "no such file"),
    ],
)
def test_score__of_a_baseline_that_is_neither_says_what_it_is(
    files: Path, capsys: Out, content: bytes | None, words: str
) -> None:
    """In the words of whoever knows such files."""
    if content is not None:
        (files / "before").write_bytes(content)
    assert execute(["score", "profile.json", "--baseline", "before"]) == 2
    assert words in capsys.readouterr().err


def test_score__of_nothing_against_a_baseline_is_3(files: Path) -> None:
    """An empty profile never passes."""
    (files / "empty.json").write_text("{}", encoding="utf-8")
    assert execute(["score", "empty.json", "--baseline", "base.json"]) == 3


def test_score__asks_for_the_case_of_a_record_with_several(files: Path, capsys: Out) -> None:
    """Which case is compared is the user's to say, and the error lists them."""
    several = record(case("one"), case("two"))
    (files / "several.json").write_text(several.model_dump_json(), encoding="utf-8")
    assert execute(["score", "profile.json", "--baseline", "several.json"]) == 2
    assert "it has: one, two" in capsys.readouterr().err
    assert execute(["score", "profile.json", "--baseline", "several.json", "--case", "two"]) == 0


def test_score__ungraded_prints_no_grade(files: Path, capsys: Out) -> None:
    """With nothing known of the roofline no renderer of ours shows F, 0 % or a bottleneck."""
    for style in ("terminal", "markdown"):
        assert execute(["score", "profile.json", "--style", style]) == 0
        text = capsys.readouterr().out
        assert "not graded" in text
        assert "Efficiency" not in text
        assert "ottleneck" not in text
        assert "NF4" not in text
    assert execute(["score", "profile.json", "--style", "reference"]) == 0
    assert "| Grade | **F** |" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "0", "1e999", "many"])
def test_score__refuses_options_that_are_no_numbers(files: Path, capsys: Out, number: str) -> None:
    """`nan` and `inf` parse as floats and are still no throughput."""
    assert execute(["score", "profile.json", f"--throughput={number}"]) == 2
    assert "is not a finite number above 0" in capsys.readouterr().err


# --- parity, compare, hardware, completion ------------------------------------------------------


def test_parity__describes(files: Path, capsys: Out) -> None:
    """A gap between runtimes is a fact and no regression."""
    assert execute(["parity", "ours.json", "theirs.json"]) == 0
    assert "Parity not achieved" in capsys.readouterr().out


def test_parity__of_nothing_is_not_called_achieved(files: Path, capsys: Out) -> None:
    """The reference's JSON says true; what people read says that nothing was compared."""
    for style in ("terminal", "markdown"):
        assert execute(["parity", "ours.json", "strange.json", "--style", style]) == 3
        assert "arity not judged" in capsys.readouterr().out
    execute(["parity", "ours.json", "strange.json", "--json"])
    parity = json.loads(capsys.readouterr().out)
    assert (parity["parity_achieved"], parity["compared_ops"]) == (True, 0)


@pytest.mark.parametrize(("head", "code"), [("fine.json", 0), ("worse.json", 0), ("bad.json", 1)])
def test_compare__exits_by_the_verdict(files: Path, head: str, code: int) -> None:
    """Pass and warning are 0, a critical regression is 1."""
    assert execute(["compare", head, "base.json"]) == code


def test_compare__reads_standard_input_on_either_side(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """`-` may be the record or the baseline, but not both."""
    for arguments in (["-", "base.json"], ["bad.json", "-"]):
        piped = files / ("bad.json" if arguments[0] == "-" else "base.json")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped.read_bytes())))
        assert execute(["compare", *arguments]) == 1
    assert execute(["compare", "-", "-"]) == 2
    assert "standard input can be read once" in capsys.readouterr().err


def test_compare__other_hardware_is_not_judged(files: Path) -> None:
    """A bare scorecard says what it was measured on, too."""
    for name, accelerator, step_ms in (("l4", "L4", 300.0), ("h100", "H100 SXM 80GB", 100.0)):
        card = scorecard(step_ms, accelerator=accelerator)
        (files / f"{name}.json").write_text(card.model_dump_json(), encoding="utf-8")
    assert execute(["compare", "l4.json", "h100.json"]) == 3
    (files / "l4-profile.json").write_text(
        profile(300.0, accelerator="NVIDIA L4").model_dump_json(), encoding="utf-8"
    )
    assert execute(["score", "l4-profile.json", "--baseline", "h100.json"]) == 3


@pytest.mark.parametrize(
    ("head", "base"),
    [(1e300, 1e-300), (5e-324, 1e308)],
)
def test_compare__an_overflow_is_not_judged(
    files: Path, capsys: Out, head: float, base: float
) -> None:
    """Numbers whose ratio is not finite cannot be judged."""
    for name, step_ms in (("head.json", head), ("far.json", base)):
        card = scorecard(step_ms)
        (files / name).write_text(card.model_dump_json(), encoding="utf-8")
    assert execute(["compare", "head.json", "far.json"]) in {0, 3}
    assert "broke" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--tokens-per-step", "5e-324", "--devices", "1000", "--bytes-per-step", "1"],
        ["--tokens-per-step", "1e-300", "--bytes-per-step", "1e300"],
        ["--throughput", "1e300", "--flops-per-token", "1e300", "--precision", "bf16",
         "--hardware", "L4"],
        ["--bytes-per-step", "1", "--bytes-per-token", "1"],
    ],
)  # fmt: skip
def test_score__absurd_options_are_wrong_use(files: Path, capsys: Out, options: list[str]) -> None:
    """An option that leads to no finite number is the user's mistake and not ours."""
    assert execute(["score", "profile.json", *options]) == 2
    assert "broke" not in capsys.readouterr().err


def test_compare__fail_on_warning(files: Path) -> None:
    """A team may want warnings to fail."""
    assert execute(["compare", "worse.json", "base.json", "--fail-on", "warning"]) == 1


def test_compare__blocks_as_its_own_policy_says(files: Path, capsys: Out) -> None:
    """Whether a policy is only being introduced is said by the one that judges."""
    worse = Record.model_validate_json((files / "worse.json").read_bytes())
    left = worse.but(enforce="shadow", notices=(Why.SHADOW(code=0),)).model_dump_json()
    (files / "worse.json").write_text(left, encoding="utf-8")
    rules = ["--config", "rules.toml"]
    (files / "rules.toml").write_text("schema = 1\n", encoding="utf-8")
    assert execute(["compare", "worse.json", "base.json", "--fail-on", "warning", *rules]) == 1
    assert "shadow" not in capsys.readouterr().out
    (files / "rules.toml").write_text('schema = 1\nenforce = "shadow"\n', encoding="utf-8")
    assert execute(["compare", "worse.json", "base.json", "--fail-on", "warning", *rules]) == 0
    assert "would have ended with exit 1, and ends with 0" in capsys.readouterr().out


def test_compare__judges_a_metric_of_a_table_of_cases(files: Path) -> None:
    """Each metric that the policy names for the case, wherever the policy names it."""
    (files / "rules.toml").write_text(
        "schema = 1\n[[case]]\nmatch = 'training'\n[case.metrics.syncs]\n"
        "exact = true\ndirection = 'lower'\ngate = true\nfail = 0.1\n",
        encoding="utf-8",
    )
    for name, syncs in (("few.json", 1.0), ("many.json", 2.0)):
        left = record(case(metrics={"syncs": syncs}))
        (files / name).write_text(left.model_dump_json(), encoding="utf-8")
    assert execute(["compare", "many.json", "few.json"]) == 0
    assert execute(["compare", "many.json", "few.json", "--config", "rules.toml"]) == 1


def test_compare__prints_the_judged_record(files: Path, capsys: Out) -> None:
    """The JSON is a record again, with verdicts."""
    assert execute(["compare", "bad.json", "base.json", "--json"]) == 1
    (judged,) = json.loads(capsys.readouterr().out)["cases"]
    assert judged["verdict"]["outcome"] == "fail"
    assert judged["scorecard"]["regressions"][0]["metric"] == "throughput_tok_s"


def test_compare__two_records_of_one_commit(files: Path, capsys: Out) -> None:
    """Each in a folder of its own is a first run; the report says which is compared with which."""
    same = {"commit": "c" * 40, "run": RunIdentity(number=1)}
    for name, time, step_ms in (("one", "09:00", 100.0), ("two", "10:30", 150.0)):
        left = record(case(card=scorecard(step_ms)), created_at=f"2026-01-01T{time}:00Z", **same)
        (files / f"{name}.json").write_text(left.model_dump_json(), encoding="utf-8")
    assert execute(["compare", "two.json", "one.json", "--fail-on", "warning"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "Both records are of commit cccccccccccc: two.json, run 1, 2026-01-01 10:30 UTC is compared"
        " with one.json, run 1, 2026-01-01 09:00 UTC."
    ) in said
    assert execute(["compare", "two.json", "two.json"]) == 3
    assert "the record that is being judged" in capsys.readouterr().out


def test_compare__of_profiles_names_the_command_that_compares_them(
    files: Path, capsys: Out
) -> None:
    """Also of a packed one; what is neither keeps the words about itself."""
    trace = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}'
    (files / "trace.json.gz").write_bytes(gzip.compress(trace))
    for name in ("trace.json.gz", "profile.json"):
        assert execute(["compare", name, "base.json"]) == 2
        assert "`ci-score score HEAD --baseline BASE`" in capsys.readouterr().err
    assert execute(["compare", "base.json", "ours.json"]) == 2
    assert "neither a record nor a scorecard" in capsys.readouterr().err


def test_compare__reads_bare_scorecards_and_folders(files: Path) -> None:
    """The reference's own scorecards can be compared, and a folder is searched."""
    (files / "old").mkdir()
    (files / "old" / "bare.json").write_text(scorecard(50.0).model_dump_json(), encoding="utf-8")
    (files / "card.json").write_text(scorecard(100.0).model_dump_json(), encoding="utf-8")
    assert execute(["compare", "card.json", "old"]) == 1
    (files / "nothing").mkdir()
    assert execute(["compare", "card.json", "nothing"]) == 0
    assert execute(["compare", "card.json", "nothing", "--on-inconclusive", "fail"]) == 3


def test_hardware__lists_and_finds(capsys: Out) -> None:
    """All of them, one by a driver's name, a preset with its bytes, and a typo with suggestions."""
    assert execute(["hardware"]) == 0
    assert "H100 SXM 80GB" in capsys.readouterr().out
    assert execute(["hardware", "NVIDIA H100 80GB HBM3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bandwidth_gb_s"] == 3350
    assert execute(["hardware", "rtx_4060l", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes_per_token"] == 158e6
    assert execute(["hardware", "RTX 4091"]) == 2
    assert "RTX 4090" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion__is_what_click_brings(shell: str) -> None:
    """A script that the shell can source, from the variable that the docs name."""
    done = start(env={"_CI_SCORE_COMPLETE": f"{shell}_source"})
    assert done.returncode == 0
    assert "_CI_SCORE_COMPLETE" in done.stdout


def test_completion__completes_commands() -> None:
    """What the script asks for is answered with the commands."""
    asked = {"_CI_SCORE_COMPLETE": "bash_complete", "COMP_WORDS": "ci-score s", "COMP_CWORD": "1"}
    done = start(env=asked)
    assert done.stdout.split() == [
        "plain,score",
        "plain,site",
        "plain,selftest",
    ]


# --- the demo -----------------------------------------------------------------------------------


def test_demo__leaves_record_and_report(files: Path, capsys: Out) -> None:
    """The whole job on sample data, its verdict, and where to look."""
    assert execute(["demo"]) == 0
    text = capsys.readouterr().out
    assert "Fail: 26 % slower" in text
    assert "would exit 1" in text
    assert "swiglu_bwd" in (files / "ci-score-demo" / "report.md").read_text(encoding="utf-8")
    left = json.loads((files / "ci-score-demo" / "ci-score.json").read_text(encoding="utf-8"))
    assert left["cases"][0]["verdict"]["outcome"] == "fail"


def test_demo__twice_says_the_same(files: Path) -> None:
    """A second run does not find the first one's leftovers."""
    assert execute(["demo"]) == execute(["demo"]) == 0
    assert len(list((files / "ci-score-demo" / "baselines").iterdir())) == 1


def test_demo__its_record_is_the_next_baseline(files: Path) -> None:
    """A later run of the same speed passes against the record of the demo."""
    execute(["demo"])
    left = json.loads((files / "ci-score-demo" / "ci-score.json").read_text(encoding="utf-8"))
    later = json.dumps({**left, "created_at": "2026-12-31T00:00:00Z"})
    (files / "later.json").write_text(later, encoding="utf-8")
    assert execute(["compare", "later.json", "ci-score-demo/ci-score.json"]) == 0


def test_compare__a_record_is_no_baseline_of_itself(files: Path, capsys: Out) -> None:
    """Compared with itself everything passes, so nothing would be known."""
    execute(["demo"])
    assert execute(["compare", "ci-score-demo/ci-score.json", "ci-score-demo/ci-score.json"]) == 3
    assert "it is the record that is being judged" in capsys.readouterr().out
    assert execute(["compare", "ci-score-demo/ci-score.json", "ci-score-demo"]) == 1


@pytest.mark.parametrize("name", ["main.json", "pull_request.json"])
def test_demo__samples_are_plausible(name: str) -> None:
    """The shipped profiles would pass a reviewer: phases and layers that add up."""
    shipped = sample(name)
    covered = sum(phase.total_ms for phase in shipped.phases.values())
    assert covered / shipped.avg_step_ms == pytest.approx(shipped.wall_coverage, abs=1e-3)
    layers = sum(layer.fwd_ms for layer in shipped.per_layer)
    assert layers == pytest.approx(shipped.phases["forward"].total_ms, rel=1e-3)


# --- bad input ----------------------------------------------------------------------------------

BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "an empty file"),
    "not-json": (b"steps: 3", "text without a profile"),
    "truncated": (b'{"steps": 3, "avg_st', "the end of the file"),
    "wrong-type": (b'{"steps": "3"}', "expected a whole number"),
    "nan": (b'{"avg_step_ms": NaN}', "not JSON"),
    "infinity": (b'{"avg_step_ms": Infinity}', "not JSON"),
    "overflow": (b'{"avg_step_ms": 1e999}', "expected a finite number"),
    "negative": (b'{"avg_step_ms": -1}', "expected a number of 0 or more"),
    "duplicate": (b'{"steps": 1, "steps": 2}', "this key twice"),
    "deep": (b'{"steps":' + b"[" * 10**6, "nested too deeply"),
    "empty-gzip": (gzip.compress(b""), "an empty file"),
    "cut-gzip": (
        gzip.compress(b'{"steps": 1}' + b" " * 500_000)[:-100],
        "a packed file that is cut short",
    ),
    "damaged-gzip": (b"\x1f\x8b\x08garbage", "a packed file that is cut short or damaged"),
    "utf-8": (b'{"bottleneck": "\xff"}', "not JSON"),
    "list": (b"[]", "JSON of no profiler"),
    "other-json": (b'{"name": "x"}', "JSON of no profiler"),
}


@pytest.mark.parametrize(("data", "words"), BAD_FILES.values(), ids=BAD_FILES)
@pytest.mark.parametrize("before", ["score", "parity", "compare"])
def test_bad_input__is_named_and_exits_2(
    files: Path, capsys: Out, before: str, data: bytes, words: str
) -> None:
    """The file, what was found, exit 2; no traceback, no output, and no file half written."""
    (files / "in.json").write_bytes(data)
    arguments = {"score": [], "parity": ["theirs.json"], "compare": ["base.json"]}[before]
    assert execute([before, "in.json", *arguments, "-o", "out.md"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ci-score: in.json: ") or "in.json" in said.err
    assert "Traceback" not in said.err
    assert not (files / "out.md").exists()
    if before == "score":
        assert words in said.err


def test_bad_input__a_folder_and_a_missing_file(files: Path, capsys: Out) -> None:
    """Both are said for what they are."""
    assert execute(["score", "."]) == 2
    assert "found a folder" in capsys.readouterr().err
    assert execute(["score", "no-such.json"]) == 2
    assert "no such file" in capsys.readouterr().err
    assert execute(["compare", "base.json", "no-such"]) == 2


def test_bad_input__a_gzip_bomb_is_cut_off(files: Path, capsys: Out) -> None:
    """A small file that unpacks beyond the limit is refused, not unpacked."""
    (files / "bomb.json").write_bytes(gzip.compress(b" " * (20 * 2**20)))
    assert execute(["compare", "bomb.json", "base.json"]) == 2
    assert "over 200 times its size" in capsys.readouterr().err


def test_output__follows_links_and_leaves_devices_alone(files: Path, capsys: Out) -> None:
    """A link stays a link, and a pipe or device is written to, not replaced."""
    (files / "real.md").touch()
    (files / "link.md").symlink_to("real.md")
    assert execute(["score", "profile.json", "-o", "link.md"]) == 0
    assert (files / "link.md").is_symlink()
    assert (files / "real.md").stat().st_size > 0
    assert execute(["score", "profile.json", "-o", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()
    capsys.readouterr()
    assert execute(["score", "profile.json", "-o", "-"]) == 0
    assert "Step time" in capsys.readouterr().out
    assert execute(["score", "profile.json", "-o", ""]) == 2


def test_output__holds_no_command_for_the_runner(
    files: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile op name is printed in no style as a line that a runner would obey."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    names = ["\n::error::a", " ::error::b", "\u3000::error::c", "##[error]d", "::error::e"]
    ops = dict.fromkeys(names, 1.0)
    hostile = profile(per_layer=[{"layer": 0, "fwd_ms": 1, "bwd_ms": 2, "ops": ops}])
    (files / "hostile.json").write_text(hostile.model_dump_json(), encoding="utf-8")
    for style in ("terminal", "markdown", "reference"):
        assert execute(["score", "hostile.json", "--style", style]) == 0
        text = capsys.readouterr().out
        assert "##[" not in text
        assert not [line for line in text.splitlines() if line.strip().startswith("::")]


HOSTILE = "x\n::error::a\r::error::b\r\n\t ::error::c ##[error]d"


@pytest.mark.parametrize(
    "words",
    [
        ["compare", HOSTILE, "base.json"],
        ["compare", "fine.json", "base.json", f"--{HOSTILE}"],
        ["ab", "--base", HOSTILE, "--head", ".", "--", "true"],
        ["ab", "--base", ".", "--head", ".", "--looks", HOSTILE, "--", "true"],
        ["measure", "--launches", HOSTILE, "--", "true"],
        ["policy", "check", HOSTILE],
        ["policy", "check", f"{HOSTILE}.toml"],
        ["policy", "show", f"{HOSTILE}.toml"],
        ["policy", "show", "--case", HOSTILE, f"{HOSTILE}.toml"],
        ["policy", "show", "--json", "--case", HOSTILE, f"{HOSTILE}.toml"],
        ["run", "--profiles", HOSTILE],
        ["run", "--config", HOSTILE],
        ["demo", "--output-dir", HOSTILE],
        ["hardware", HOSTILE],
        [HOSTILE],
    ],
    ids=lambda words: " ".join(words).partition("x\n")[0],
)
def test_said__no_word_of_a_stranger_is_a_command(
    files: Path, capsys: Out, words: list[str]
) -> None:
    """Whatever an argument or a file is called: a workflow's runner reads what is printed."""
    policy = f"schema = 1\n[[case]]\nname = {json.dumps(HOSTILE)}\n"
    (files / f"{HOSTILE}.toml").write_text(policy, encoding="utf-8")
    execute(words)
    out, err = capsys.readouterr()
    assert obeyed(out) + obeyed(err) == []


def test_output__is_written_whole_or_not_at_all(files: Path, capsys: Out) -> None:
    """A target that cannot be written is an error, and leaves no temporary file behind."""
    assert execute(["score", "profile.json", "-o", "deep/new/out.md"]) == 0
    assert (files / "deep" / "new" / "out.md").read_text(encoding="utf-8").endswith("\n")
    (files / "taken").mkdir()
    before = sorted(files.iterdir())
    assert execute(["score", "profile.json", "-o", "profile.json/out.md"]) == 2
    assert execute(["demo", "--output-dir", "profile.json"]) == 2
    assert sorted(files.iterdir()) == before
    assert "Traceback" not in capsys.readouterr().err


# --- exit codes ---------------------------------------------------------------------------------


def test_exit__every_error_class_has_its_code() -> None:
    """No error of ours exits with 1."""
    assert (CiScoreError.exit_code, WrongUseError.exit_code, BadInputError.exit_code) == (3, 2, 2)


def test_exit__wrong_use_is_2(files: Path) -> None:
    """An unknown command, an unknown option and a missing argument."""
    assert execute(["scor"]) == 2
    assert execute(["score", "profile.json", "--fast"]) == 2
    assert execute(["score"]) == 2
    assert execute(["score", "profile.json", "--hardware", "H1000"]) == 2


@pytest.mark.parametrize(
    "crash",
    [RuntimeError("boom"), MemoryError(), RecursionError(), click.Abort(), KeyboardInterrupt()],
)
def test_exit__a_crash_or_an_abort_is_3(
    files: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch, crash: BaseException
) -> None:
    """A fault of ours is never a regression, and says what to report."""

    def broken(*_: Any) -> None:
        raise crash

    monkeypatch.setattr("ci_score.cli.score.measured_case", broken)
    assert execute(["score", "profile.json"]) == 3
    said = capsys.readouterr().err
    if isinstance(crash, Exception) and not isinstance(crash, click.Abort):
        assert "ci-score broke" in said
        assert "score.py" in said


def start(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "ci_score", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
        **options,
    )


def test_process__exits_and_prints_as_the_function_does(files: Path) -> None:
    """The real process: standard output, standard error, exit code."""
    done = start("compare", "bad.json", "base.json", cwd=files)
    assert done.returncode == 1
    assert done.stdout.startswith("Fail: ")
    assert start("score", "no-such.json", cwd=files).returncode == 2


def test_process__a_closed_pipe_is_no_crash(files: Path) -> None:
    """`ci-score … | head` ends without a traceback, and never with 1."""
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-m", "ci_score", "hardware"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    ) as process:
        os.close(writer)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert said == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["score", "no-such.json"], 2), (["scor"], 2), (["score", "profile.json", "-o", "o.md"], 0)],
)
def test_process__nobody_listening_to_errors_is_no_regression(
    files: Path, arguments: list[str], code: int
) -> None:
    """With standard error full or closed the exit code stays what it is."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ci_score", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=full,
            cwd=files,
            check=False,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
        )
    assert done.returncode == code


def test_process__a_narrow_encoding_loses_no_verdict(files: Path) -> None:
    """A terminal that cannot show a character shows a mark."""
    done = start("compare", "bad.json", "base.json", cwd=files, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1
    assert "Fail: 50 % slower" in done.stdout


def test_process__a_full_disk_is_3(files: Path) -> None:
    """A result that cannot be printed is not a verdict."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ci_score", "compare", "bad.json", "base.json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=files,
            check=False,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
        )
    assert done.returncode == 3
    assert "No space left" in done.stderr


def test_process__a_broken_installation_is_3(tmp_path: Path) -> None:
    """A dependency that cannot be imported must not look like a regression."""
    (tmp_path / "click.py").write_text("raise ImportError('broken')", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(PROJECT)])
    done = start("--version", env={"PYTHONPATH": path})
    assert done.returncode == 3
    assert "ci-score broke" in done.stderr


def test_import__of_the_package_is_cheap() -> None:
    """Importing the package loads neither pydantic nor click; a public name loads its home."""
    code = (
        "import sys, ci_score; early = set(sys.modules);"
        "assert not early & {'pydantic', 'click', 'jinja2', 'requests'}, early;"
        "assert ci_score.compute_scorecard and 'pydantic' in sys.modules;"
        "assert set(ci_score.__all__) <= set(dir(ci_score))"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    with pytest.raises(AttributeError, match="no_such_name"):
        __import__("ci_score").no_such_name  # noqa: B018 - the access is what is tested


def test_import__of_convert_is_cheap(tmp_path: Path) -> None:
    """It reads and prints a profile, and loads nothing of what judges one."""
    trace = tmp_path / "trace.json"
    trace.write_text('{"steps": 1, "avg_step_ms": 5.0, "phases": {}}', encoding="utf-8")
    code = (
        "import sys; from ci_score.cli import execute;"
        "assert execute(['convert', sys.argv[1]]) == 0;"
        "rooms = {'compare', 'judge', 'run', 'launches', 'baselines', 'reference', 'github'};"
        "late = {f'ci_score.{room}' for room in rooms} | {'ci_score.model.record',"
        "'ci_score.report.sentences', 'jinja2', 'requests', 'concurrent.futures.process'};"
        "assert not late & set(sys.modules), late & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    subprocess.run([sys.executable, "-c", code, str(trace)], env=environment, check=True)

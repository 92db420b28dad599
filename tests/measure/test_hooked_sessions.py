"""`ci-score ab` and `measure` of unmodified scripts, whose steps the start-up hook counts.

They train with the stand-in for torch. What the hook itself does is another test's.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.launches.lines import Launch, read_launches
from ci_score.measure import qualify
from ci_score.measure.bench import Bench
from ci_score.measure.launch import following, orders
from ci_score.measure.sides import leftovers
from tests.builders import PROJECT, until, write
from tests.builders.standin_torch import FOLDER as TORCH

Out = pytest.CaptureFixture[str]

SCRIPT = """
import os
import torch
from torch.optim import AdamW

{before}
weight = torch.tensor(1.0, requires_grad=True, size=100)
optimizer = AdamW([weight])
for step in range({steps}):
    torch.work({ms})
    loss = weight * 2.0
    loss.backward()
    optimizer.step()
    {inside}
{after}
"""


def write_script(
    folder: Path,
    ms: float = 2.0,
    *,
    steps: int = 200,
    before: str = "",
    inside: str = "pass",
    after: str = "",
) -> None:
    folder.mkdir(exist_ok=True)
    text = SCRIPT.format(ms=ms, steps=steps, before=before, inside=inside, after=after)
    (folder / "train.py").write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both sides, of which head's steps take three times as long."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", f"{TORCH}{os.pathsep}{PROJECT}")
    monkeypatch.chdir(tmp_path)
    write_script(tmp_path / "base", 2.0)
    write_script(tmp_path / "head", 6.0)
    return tmp_path


# Other tests share the machine: what they do is no reason to measure again.
QUIET = "schema = 1\n[environment]\nreject = ['nan']\n"


def ab(*more: str, words: tuple[str, ...] = (sys.executable, "train.py")) -> int:
    Path("policy.toml").write_text(QUIET, encoding="utf-8")
    few = ["--steps", "3", "--settle-steps", "12", "--config", "policy.toml", "--looks", "8"]
    return execute(["ab", "--base", "base", "--head", "head", *few, *more, "--", *words])


def measured(out: str = "perf") -> list[Launch]:
    return read_launches((Path(out) / "measurements.jsonl").read_bytes(), "measurements")


def session(out: str = "perf") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(out) / "session.json").read_text("utf-8"))
    return found


def launched(out: str = "perf") -> list[str]:
    return sorted(path.stem for path in (Path(out) / "logs").glob("*.log"))


# --- a session ------------------------------------------------------------------------------------


def test_session__counts_the_steps_of_an_unmodified_script(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settled, timed and profiled: each launch has the warm-up and the steps asked for."""
    # The stand-in's device takes as long as it is told, however busy this machine is.
    monkeypatch.setenv("STANDIN_TORCH_DEVICE", "cuda")
    assert ab("--limit", "0.5") == 0
    said = capsys.readouterr().err
    assert "it is clear: slower than the limit" in said
    assert "the times come from the optimizer's steps, which the start-up hook counts" in said
    assert re.search(
        r"\n2 warm-up steps, then 3 timed: [0-9.]+ s of [0-9.]+ s a launch\nup to", said
    )
    warmup = max(one["warmup"] for one in session()["settled"].values())
    for one in measured():
        assert (one.warmup_steps, len(one.timed_ms)) == (warmup - 1, 3)
        assert (one.first_loss, one.loss_from) == (2.0, "hook")
        assert one.versions["torch"].endswith("standin")
    for side in ("base", "head"):
        profile = json.loads((here / "perf" / "profiles" / side / "profile.json").read_bytes())
        assert profile["steps"] == 3
        # What is proven is worth a look at the lines.
        assert f"marked-{side}" in launched()
    assert not (here / "perf" / "launches").exists()
    assert execute(["run", "--measurements", "perf", "--config", "policy.toml"]) == 1


def test_session__has_a_clock_that_no_script_can_change(here: Path) -> None:
    """Neither a test's frozen time nor one that is to look fast."""
    names = ("perf_counter_ns", "perf_counter", "monotonic", "time", "sleep")
    frozen = "; ".join(f"time.{name} = lambda *_: 0" for name in names)
    write_script(here / "head", before=f"import time; {frozen}", inside="sum(range(9999))")
    assert ab("--no-profile", "--limit", "9", "--looks", "6") == 0
    assert min(one.mean_ms for one in measured()) > 0


def test_session__that_is_whole_keeps_its_profiles(here: Path) -> None:
    """The same command once more launches nothing: a broken script would leave no profile."""
    assert ab("--looks", "6", "--limit", "4") == 0
    kept = [here / "perf" / "profiles" / side / "profile.json" for side in ("base", "head")]
    before = [path.stat().st_mtime_ns for path in kept]
    assert ab("--looks", "6", "--limit", "4") == 0
    assert [path.stat().st_mtime_ns for path in kept] == before
    kept[0].unlink()
    assert ab("--looks", "6", "--limit", "4") == 0
    assert kept[0].is_file()


def test_session__goes_on_without_settling_again(here: Path) -> None:
    """What the untimed launches told lives in session.json; a changed plan is refused."""
    few = ["--no-profile", "--looks", "6", "--limit", "4"]
    assert ab(*few) == 0
    before = session()
    lines = (here / "perf" / "measurements.jsonl").read_bytes().splitlines(keepends=True)
    (here / "perf" / "measurements.jsonl").write_bytes(b"".join(lines[:8]))
    state = {**before, "ending": None, "stopped": "", "looks": [], "next_pair": 4}
    (here / "perf" / "session.json").write_text(json.dumps(state), encoding="utf-8")
    settled = here / "perf" / "logs" / "settle-base.log"
    settled.unlink()
    assert ab(*few) == 0
    assert not settled.exists()
    assert session()["settled"] == before["settled"]
    assert ab(*few, "--steps", "4") == 2


def test_session__a_warm_up_that_is_given_wins(here: Path, capsys: Out) -> None:
    """Over the settled one; and tokens that are given stand in each line."""
    given = ["--warmup-steps", "4", "--tokens-per-step", "64", "--launches", "1", "--out", "one"]
    assert measure(*given) == 0
    assert "4 warm-up steps (as given), then 3 timed" in capsys.readouterr().err
    (one,) = measured("one")
    assert (one.warmup_steps, len(one.timed_ms), one.tokens_per_step) == (3, 3, 64.0)


def test_session__steps_that_do_not_settle_are_all_warm_up(here: Path, capsys: Out) -> None:
    """And that is said, with the option that tries more."""
    write_script(here / "base", before="import time", inside="time.sleep(0.002 * 1.3 ** step)")
    assert measure("--launches", "1") == 0
    said = capsys.readouterr().err
    assert "12 warm-up steps (the steps of head did not settle in 12: all of them" in said


def test_session__out_is_fresh_for_each_launch(here: Path) -> None:
    """In the command and as a variable; it is gone when the launch is."""
    before = """
import sys
assert sys.argv[1] == "--to=" + os.environ["CI_SCORE_LAUNCH_DIR"]
assert os.listdir(os.environ["CI_SCORE_LAUNCH_DIR"]) == []
open(os.path.join(os.environ["CI_SCORE_LAUNCH_DIR"], "last.pt"), "w").close()
"""
    write_script(here / "base", before=before)
    assert measure(words=(sys.executable, "train.py", "--to={out}")) == 0
    assert len(measured("one")) == 2
    assert not list((here / "one").glob("launches/*"))


def test_session__says_what_a_launch_leaves_in_its_sides_folder(here: Path, capsys: Out) -> None:
    """A later launch may take it up."""
    write_script(here / "base", before="open('last.pt', 'w').close()")
    assert measure("--launches", "1") == 0
    said = capsys.readouterr().err
    assert "a launch leaves last.pt in its folder; if a later one takes it up" in said


RESUMES = """
import os
start = float(open("last.pt").read()) if os.path.exists("last.pt") else 64.0
"""


def test_session__of_a_script_that_resumes_is_not_judged(here: Path, capsys: Out) -> None:
    """Each launch begins with the loss at which the one before it has ended; exit 3."""
    keeps = "start *= 0.9\n    open('last.pt', 'w').write(repr(start))"
    for side in ("base", "head"):
        write_script(here / side, before=RESUMES, inside=keeps)
        script = here / side / "train.py"
        text = script.read_text("utf-8").replace("weight * 2.0", "weight * start")
        script.write_text(text, encoding="utf-8")
    assert ab() == 3
    said = capsys.readouterr().err
    assert "begins with the loss at which the one before it has ended: it seems to resume" in said
    assert "from last.pt; write to {out}, which is fresh for each launch" in said
    assert len(measured()) == 6


def test_measure__of_a_script_that_resumes_says_so(here: Path, capsys: Out) -> None:
    """First that the losses differ, then that each launch goes on where the last one ended."""
    keeps = "start *= 0.9\n    open('last.pt', 'w').write(repr(start))"
    write_script(here / "base", before=RESUMES, inside=keeps)
    script = here / "base" / "train.py"
    script.write_text(script.read_text("utf-8").replace("weight * 2.0", "weight * start"), "utf-8")
    assert measure("--launches", "5") == 3
    said = capsys.readouterr().err
    assert "launch 1: its first loss is" in said
    assert "it seems to resume from last.pt; write to {out}" in said
    assert len(measured("one")) == 3


def test_session__two_sides_must_be_timed_in_one_way(here: Path, capsys: Out) -> None:
    """A script that tells its own steps is no counterpart of one whose steps are counted."""
    own = "print('{\"step_ms\": 2.0}')"
    (here / "head" / "train.py").write_text(own, encoding="utf-8")
    assert ab() == 3
    assert "head's script tells its own steps and the other side's does not" in (
        capsys.readouterr().err
    )
    write_script(here / "head", 2.0)
    assert ab("--fresh", "--no-profile", "--looks", "6", "--limit", "4") == 0


def test_session__what_differs_beside_the_code_is_kept(here: Path) -> None:
    """Variables of a side, and the node that both ran on, in environment.json."""
    assert ab("--no-profile", "--looks", "6", "--limit", "4", "--head-env", "LANES=2") == 0
    environment = json.loads((here / "perf" / "environment.json").read_bytes())
    assert environment["differs"] == [
        {"kind": "variable", "name": "LANES", "base": None, "head": "2"}
    ]
    assert environment["node"]


def test_session__the_other_sides_code_voids_a_launch(here: Path, capsys: Out) -> None:
    """As by an installation that points to head; the command's own file is none."""
    (here / "head" / "model.py").touch()
    found = f"import sys; sys.path.insert(0, {str(here / 'head')!r}); import model"
    write_script(here / "base", before=found)
    assert ab() == 3
    assert f"base: it imported model ({here / 'head' / 'model.py'}) from the other side's" in (
        capsys.readouterr().err
    )


def test_session__in_heads_folder_takes_no_side_for_the_other(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default the session's folder lies in head's, and processes of the script have its name."""
    spawns = """
import multiprocessing
from ci_score.measure import Recorder

def train(told):
    with Recorder() as recorder:
        for _ in range(3):
            with recorder.step():
                torch.work(2)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=train, args=(1,))
    process.start()
    process.join()
"""
    for side in ("base", "head"):
        write_script(here / side, steps=0, before=spawns)
    monkeypatch.chdir(here / "head")
    Path("policy.toml").write_text(QUIET, encoding="utf-8")
    options = ["--looks", "6", "--limit", "4", "--config", "policy.toml", "--no-profile"]
    command = ["--", sys.executable, "train.py"]
    assert execute(["ab", "--base", "../base", "--head", ".", *options, *command]) == 0
    assert not any(one.failed for one in measured())


# --- one side alone -------------------------------------------------------------------------------


def measure(*more: str, words: tuple[str, ...] = (sys.executable, "train.py")) -> int:
    few = ["--steps", "3", "--settle-steps", "12", "--out", "one"]
    return execute(["measure", "--dir", "base", *few, *more, "--", *words])


def test_measure__leaves_what_run_reads(here: Path, capsys: Out) -> None:
    """Two launches of the head, where they ran, and a profile where that is asked for."""
    assert measure("--profile", "--case", "small") == 0
    said = capsys.readouterr().err
    assert "launch 2: " in said
    assert said.endswith("judge it: ci-score run --measurements one\n")
    assert [(one.side, one.launch, one.case) for one in measured("one")] == [
        ("head", 0, "small"),
        ("head", 1, "small"),
    ]
    assert (here / "one" / "profiles" / "head" / "profile.json").is_file()
    assert json.loads((here / "one" / "environment.json").read_bytes())["launches"] == 2
    assert execute(["run", "--measurements", "one"]) == 0
    record = json.loads((here / "ci-score" / "ci-score.json").read_bytes())
    assert [case["name"] for case in record["cases"]] == ["small"]


@pytest.mark.parametrize("place", ["a b/one", "../lr=1/one", "lr=1", "{absolute}/one"])
def test_measure__the_next_command_works_wherever_out_lies(
    here: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    place: str,
) -> None:
    """As it is printed, in a shell, from the same folder."""
    out = place.format(absolute=tmp_path_factory.mktemp("else where"))
    (here / "work").mkdir()
    few = ["--steps", "1", "--settle-steps", "3", "--launches", "1", "--profile", "--out", out]
    monkeypatch.chdir(here / "work")
    words = ["--", sys.executable, "train.py"]
    assert execute(["measure", "--dir", "../base", *few, *words]) == 0
    _, _, command = capsys.readouterr().err.strip().rpartition("judge it: ci-score ")
    assert execute(shlex.split(command)) == 0
    record = json.loads(Path("ci-score/ci-score.json").read_bytes())
    assert [case["name"] for case in record["cases"]] == ["training"]
    assert record["cases"][0]["step_ops"]["names"], "its profile was found, too"


def test_measure__begins_anew_and_leaves_a_session_alone(here: Path, capsys: Out) -> None:
    """Launches of one side give way to what comes next; those of an A/B session do not."""
    assert measure("--launches", "1") == 0
    assert measure("--launches", "2") == 0
    assert len(measured("one")) == 2
    assert ab("--out", "one", "--no-profile", "--looks", "6", "--limit", "4") == 0
    assert {one.side for one in measured("one")} == {"head", "base"}
    capsys.readouterr()
    assert measure("--out", "one") == 2
    assert "holds a session of another plan" in capsys.readouterr().err


def test_measure__of_a_script_with_a_recorder_of_its_own(here: Path) -> None:
    """What the script says of its steps wins, and it runs to its end."""
    write_script(
        here / "base",
        steps=0,
        before="from ci_score.measure import Recorder",
        after="with Recorder(warmup_steps=1) as recorder:\n    for _ in range(4):\n"
        "        with recorder.step():\n            torch.work(1)",
    )
    assert measure("--launches", "1") == 0
    (one,) = measured("one")
    assert (len(one.step_ms), one.warmup_steps, one.loss_from) == (4, 1, None)
    assert not session("one")["settled"]["head"]["by_hook"]


def test_qualify__truly_slows_an_unmodified_script(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook makes the steps of head longer, and one untimed launch serves all series."""
    # How many pairs there are is another test's.
    monkeypatch.setattr(qualify, "PAIRS", 6)
    monkeypatch.setattr(qualify, "PLANTED_PAIRS", 6)
    few = ["--steps", "3", "--settle-steps", "12"]
    command = ["--", sys.executable, "train.py"]
    assert execute(["qualify", "--dir", "base", *few, "--json", *command]) == 0
    lines = (here / "qualification/planted-10/measurements.jsonl").read_bytes()
    rows = read_launches(lines, "measurements", planted=True)
    assert {(one.side, one.planted) for one in rows} == {("head", 0.1), ("base", 0.0)}
    places = [path.parts[-3] for path in (here / "qualification").glob("*/logs/settle-*.log")]
    assert places == ["planted-0"]


# --- the profiled launch --------------------------------------------------------------------------


def test_profile__keeps_the_traces_where_that_is_wanted(here: Path) -> None:
    """Packed, and where `run` does not take them for more profiles; that of the lines, too."""
    assert measure("--profile", "--keep-trace", "--launches", "1") == 0
    for name in ("head", "head-lines"):
        with gzip.open(here / "one" / "traces" / f"{name}.json.gz") as trace:
            assert b"traceEvents" in trace.read()
    assert execute(["run", "--measurements", "one"]) == 0


def test_profile__without_lines_where_they_are_not_wanted(here: Path, capsys: Out) -> None:
    """The stand-in for torch has no marks: that is said, and the profile stands without them."""
    assert measure("--profile", "--launches", "1") == 0
    assert "marked-head" in launched("one")
    assert "\nno lines: the marks failed (" in capsys.readouterr().err
    assert (here / "one" / "profiles" / "head" / "profile.json").is_file()
    assert measure("--profile", "--no-lines", "--launches", "1") == 0
    assert "marked-head" not in launched("one")
    assert "no lines" not in capsys.readouterr().err
    assert measure("--launches", "1") == 0
    assert "marked-head" not in launched("one")


SLOW_ONCE = """
import json, pathlib, time
MODE = json.loads(os.environ["CI_SCORE_HOOK"])["mode"]
MARK = pathlib.Path("MARK")
IS_SLOW = MODE == "profiled" and not MARK.exists()
if IS_SLOW:
    MARK.touch()
"""


def test_profile__that_was_disturbed_is_made_again(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that took far longer than the timed ones, and not the other side's: faster is kept."""
    monkeypatch.setenv("STANDIN_TORCH_DEVICE", "cuda")
    slow_once = SLOW_ONCE.replace('MARK")', f'{here / "was slow"}")')
    write_script(here / "base", 2.0, before=slow_once, inside="IS_SLOW and time.sleep(0.3)")
    assert ab("--looks", "6") == 0
    assert (
        "the profiled launch of the base seems disturbed: its step took 3"
        in capsys.readouterr().err
    )
    profile = json.loads((here / "perf" / "profiles" / "base" / "profile.json").read_bytes())
    assert profile["avg_step_ms"] < 300


def test_profile__of_too_few_steps_explains_nothing(here: Path, capsys: Out) -> None:
    """A script that ends within the three steps: said, and the measurements stand."""
    found = "import json\nMODE = json.loads(os.environ['CI_SCORE_HOOK'])['mode']"
    leaves = "if MODE == 'profiled' and step == 2: raise SystemExit(4)"
    write_script(here / "base", before=found, inside=leaves)
    assert measure("--profile", "--launches", "1") == 0
    assert "no profile: it ended after" in capsys.readouterr().err
    assert not (here / "one" / "profiles" / "head").exists()


def test_profile__of_the_scripts_own_is_said_beside_the_verdict(here: Path, capsys: Out) -> None:
    """In timed launches it runs, and costs; in the profiled one it does nothing."""
    own = "from torch.profiler import profile\nown = profile()\nown.start()"
    write_script(here / "base", before=own)
    assert measure("--profile", "--launches", "1") == 0
    assert "script has a profiler of its own, which did nothing here" in capsys.readouterr().err
    assert execute(["run", "--measurements", "one"]) == 0
    said = capsys.readouterr().out
    assert "A profiler of the script's own ran in timed launches of the head" in said


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"inside": "assert step < 4, 'no more data'"}, "AssertionError"),
        ({"inside": "step == 4 and os._exit(7)"}, "it exited with 7"),
        ({"inside": "step == 4 and os.kill(os.getpid(), 9)"},
         "it was ended by signal 9 after at least 4 optimizer steps ("),
        ({"steps": 5}, "it ended after 5 of 12 optimizer steps: make it train longer"),
        ({"steps": 5}, "or ask for fewer with --settle-steps"),
        ({"steps": 0, "after": "for _ in range(5): (weight * 2.0).backward()"},
         "it runs backward passes, but its optimizer is not one of torch's"),
        ({"steps": 0}, "it imports torch, but no optimizer took a step"),
        ({"before": "import nothing_like_this"}, "ModuleNotFoundError"),
        ({"before": "os.environ.clear(); os.execv('/bin/true', ['true'])"}, "a normal exit"),
    ],
)  # fmt: skip
def test_trouble__gets_one_sentence(
    here: Path, capsys: Out, script: dict[str, Any], words: str
) -> None:
    """Exit 3, with the end of the log where there is one, and nothing is timed."""
    write_script(here / "base", **script)
    assert measure() == 3
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("head: ")
    assert launched("one") == ["settle-head"]


def test_script__of_two_steps_is_measured(here: Path) -> None:
    """The untimed launch needs a time of its own, which takes two steps."""
    write_script(here / "base", steps=2)
    few = ("--steps", "1", "--warmup-steps", "0", "--settle-steps")
    assert measure(*few, "2") == 0
    assert measure(*few, "1") == 2


def test_session__that_was_killed_at_once_has_measured_nothing(here: Path, capsys: Out) -> None:
    """What the first launch left in its logs is not read as measurements."""
    write_script(here / "base", inside="import time; time.sleep(2)")
    words = ["measure", "--dir", "base", "--out", "one", "--", sys.executable, "train.py"]
    process = subprocess.Popen([sys.executable, "-m", "ci_score", *words])
    until((here / "one" / "logs" / "settle-head" / "marks.jsonl").exists)
    process.kill()
    process.wait(20)
    assert execute(["run", "--measurements", "one"]) == 3
    assert "no measurements were found at one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((sys.executable, "-I", "-c", "print(1)"), "the start-up hook was not loaded"),
        ((sys.executable, "-E", "train.py"), "ModuleNotFoundError"),
        (("env", f"PYTHONPATH={TORCH}", sys.executable, "train.py"), "the start-up hook was not"),
        ((sys.executable, "-c", "print('done')"), "it imports no torch, and it wrote no"),
        (("bash", "-c", f"{sys.executable} train.py && {sys.executable} train.py"), "two jobs"),
        (("true",), "the start-up hook was not loaded"),
        (("sleep", "60"), "it took longer than 0.5 s and was ended"),
    ],
)
def test_trouble__of_a_command_gets_one_sentence(
    here: Path, capsys: Out, command: tuple[str, ...], words: str
) -> None:
    """Python that hears no variables, two jobs, nothing to count, no end."""
    write_script(here / "base", steps=6 if command[0] == "bash" else 200)
    limit = ["--timeout", "0.5"] if command[0] == "sleep" else []
    assert measure(*limit, words=command) == 3
    assert words in capsys.readouterr().err


def test_trouble__what_runs_on_after_the_last_step_is_ended(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the command's exit code is then; and it is said once of a side."""
    monkeypatch.setattr("ci_score.measure.machine.running.GRACE_SECONDS", 0.1)
    spawned = f"{sys.executable} train.py; sleep 60"
    assert measure(words=("bash", "-c", spawned)) == 0
    said = capsys.readouterr().err
    # On a busy machine Python itself may be there still, beside what was started after it.
    assert said.count(" outlived the launch, and had to be ended") == 1, said


def test_trouble__a_command_that_is_not_found_is_not_launched(here: Path, capsys: Out) -> None:
    """Exit 2, before anything is launched."""
    assert measure(words=("no-such-program",)) == 2
    assert "there is no program no-such-program" in capsys.readouterr().err
    assert measure(words=(sys.executable, "nope.py")) == 2
    assert not (here / "one").exists()


def test_trouble__what_goes_on_in_the_background_is_said(here: Path, capsys: Out) -> None:
    """The command has ended, and what trains is a process that it did not wait for."""
    write_script(here / "base", ms=50, before="if os.fork(): os._exit(0)")
    assert measure() == 3
    said = capsys.readouterr().err
    assert "the command ended while 1 process of it went on in the background" in said


# What of the session a launch may put something else at, before or while it runs.
PLACES = """
import json, shutil
order = json.loads(os.environ["CI_SCORE_HOOK"])
mode, records = order["mode"], order["folder"]
logs = os.path.dirname(records)
session = os.path.dirname(logs)

def gone(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)

"""


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("gone(records)", "the folder in which the start-up hook writes is gone"),
        ("gone(session)", "the folder in which the start-up hook writes is gone"),
        ("gone(records + '.log'); os.mkfifo(records + '.log')", ""),
        ("gone(records + '.log'); os.symlink('/dev/zero', records + '.log')", ""),
        ("gone(records + '.log'); os.mkdir(records + '.log')", ""),
        ("os.mkfifo(records + '.line')", "no plain file; expected a file"),
        ("os.mkdir(records + '.line')", "expected a file"),
        ("mode == 'settle' and os.symlink('/nowhere', logs + '/01-head')", ""),
        ("mode == 'settle' and os.mkdir(logs + '/01-head.line')", ""),
        ("mode == 'settle' and os.mkfifo(logs + '/01-head.log')", ""),
        ("mode == 'timed' and os.mkfifo(session + '/measurements.jsonl')", ""),
        ("found = session + '/session.json'; gone(found); os.mkdir(found)", ""),
        ("mode == 'settle' and os.symlink('precious', session + '/environment.json')", ""),
    ],
)  # fmt: skip
def test_trouble__what_a_launch_puts_into_the_sessions_folder(
    here: Path, capsys: Out, does: str, words: str
) -> None:
    """A pipe, a link, a folder, or nothing any more: no wait, no crash, and nobody else's file."""
    write_script(here / "base", before=PLACES + does)
    assert measure("--launches", "1") == (3 if words else 0)
    said = capsys.readouterr().err
    assert words in said
    assert "refuses" not in said
    assert "broke" not in said
    assert not list(here.rglob("precious"))


def test_trouble__what_a_script_says_of_itself_is_one_line(here: Path, capsys: Out) -> None:
    """A script that calls its own launch void does so in its own words."""
    line = json.dumps({"step_ms": [1.0, 2.0], "failed": "\x1b[31mtwo\n::error::lines"})
    told = "open(os.environ['CI_SCORE_MEASUREMENTS'], 'w')"
    write_script(here / "base", before=f"{told}.write({line!r} + '\\n')")
    assert measure() == 3
    assert "[31mtwo ::error::lines; expected a sound run" in capsys.readouterr().err


def test_trouble__a_long_line_holds_no_step(here: Path) -> None:
    """A line may be as long as it likes, and only its beginning says what it is."""
    write_script(here / "base", before="print('x' * 10_000 + '{\"step_ms\": 5.0}')")
    assert measure("--launches", "1") == 0


# So many names were once too many to look at; links to one file are made and removed at once.
TWENTY_THOUSAND = 20_001
TOUCHES = """
import json, pathlib
base = pathlib.Path("../base")
mode = json.loads(os.environ["CI_SCORE_HOOK"])["mode"]

def append(name, text="#"):
    with open(base / name, "a") as stream:
        stream.write(text)
    os.utime(base / name, (9, 9))

def many(folder):
    os.makedirs(folder)
    (folder / "0").touch()
    for number in range(1, {many}):
        os.link(folder / "0", folder / str(number))

{does}
"""


HIDDEN = (".git/hooks/post-checkout", ".venv/lib/torch.py", "__pycache__/model.pyc")


def touching(does: str) -> str:
    return TOUCHES.format(does=does, many=TWENTY_THOUSAND).replace("HIDDEN", repr(HIDDEN))


@pytest.mark.parametrize(
    ("does", "named"),
    [
        ("append('train.py')", "train.py"),
        ("append('made.py')", "made.py"),
        ("[append(name) for name in HIDDEN]", ", ".join(HIDDEN)),
        ("(base / 'kept.py').unlink()", "kept.py"),
        ("append('train.py'); many(base / 'junk')", "junk/, junk/0, junk/1 and 20000 more"),
        ("mode == 'profiled' and append('made.py')", "no profile of the head: made.py"),
        ("mode == 'marked' and append('made.py')", "no lines of the head: made.py"),
    ],
)
def test_trouble__head_must_leave_the_bases_folder_alone(
    here: Path, capsys: Out, does: str, named: str
) -> None:
    """Else it would be compared with something that it has made itself."""
    for name in (*HIDDEN, "kept.py"):
        write(here / "base" / name, "")
    write_script(here / "head", 6.0, before=touching(does))
    is_timed = named.startswith("no ")
    assert ab("--limit", "0.5") == (0 if is_timed else 3)
    said = capsys.readouterr().err
    assert f"{'' if is_timed else 'head: '}{named} changed in the base's folder while" in said
    assert (here / "perf" / "measurements.jsonl").exists() is is_timed


def test_trouble__a_base_of_many_files_is_watched(here: Path, capsys: Out) -> None:
    """However many there are: a data set beside the code is no reason to look away."""
    data = here / "base" / "data"
    write(data / "0", "")
    for number in range(1, TWENTY_THOUSAND):
        os.link(data / "0", data / str(number))
    write_script(here / "head", before=touching("append('train.py')"))
    assert ab("--no-profile") == 3
    assert "head: train.py changed in the base's folder while it ran" in capsys.readouterr().err


def test_trouble__what_cannot_be_watched_is_said(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing passes beside a base that head may have changed; of one side alone it is a note."""
    monkeypatch.setattr(leftovers, "MOST_FILES", 2)
    for name in "abc":
        write(here / "base" / name, "")
    assert ab("--no-profile") == 3
    said = capsys.readouterr().err
    assert "head: the base's folder cannot be watched while head runs: it has more than 2" in said
    assert measure("--launches", "1") == 0
    said = capsys.readouterr().err
    assert "what a launch of head leaves is not known: it has more than 2 files" in said


def test_trouble__heads_setup_must_leave_the_bases_folder_alone(here: Path, capsys: Out) -> None:
    """It runs after that of the base."""
    assert ab("--setup", "case $PWD in */head) echo >> ../base/train.py; esac") == 3
    assert "head, --setup: train.py changed in the base's folder" in capsys.readouterr().err


FORGES = """
import json
mode = json.loads(os.environ["CI_SCORE_HOOK"])["mode"]
session = "../perf/"
if mode != "settle" and os.path.exists(session + "measurements.jsonl"):
    rows = list(map(json.loads, open(session + "measurements.jsonl")))
    for row in rows:
        row["step_ms"] = [9e9 if row["side"] == "base" else 1.0] * len(row["step_ms"])
    with open(session + "measurements.jsonl", "w") as stream:
        stream.write("".join(json.dumps(row) + "\\n" for row in rows))
if mode == "profiled":
    for name in ("environment.json", "session.json", "profiles/base/profile.json"):
        with open(session + name, "w") as stream:
            stream.write("{}")
"""


def test_forged__what_head_writes_for_the_base_does_not_count(here: Path) -> None:
    """Neither its measurements nor its profile, nor where they were taken."""
    write_script(here / "head", before=FORGES.replace("\\\\", "\\"))
    assert ab("--looks", "6", "--limit", "9") == 0
    assert all(max(one.step_ms) < 1e6 for one in measured())
    assert json.loads((here / "perf" / "environment.json").read_bytes())["node"]
    assert session()["plan"]["case"] == "training"
    profile = json.loads((here / "perf" / "profiles" / "base" / "profile.json").read_bytes())
    assert profile["steps"] == 3


def test_trouble__a_timed_launch_says_which_option_asks_for_less(here: Path, capsys: Out) -> None:
    """The script is long enough to settle, and too short for what is timed."""
    write_script(here / "base", steps=14)
    assert measure("--steps", "30") == 3
    said = capsys.readouterr().err
    assert "it ended after 14 of" in said
    assert "ask for fewer with --steps" in said
    assert [one.failed is not None for one in measured("one")] == [True]


def test_trouble__a_second_phase_ends_the_launch(here: Path, capsys: Out) -> None:
    """The optimizer that was to take the steps stops, and another one goes on."""
    write_script(here / "base", ms=0.1, steps=20, after=SECOND_PHASE)
    assert measure("--steps", "40") == 3
    assert "AdamW, stopped after 20 of" in capsys.readouterr().err


BY_HAND = """
for step in range(4000):
    torch.work(2.0)
    (weight * 2.0).backward()
    weight.value -= 0.1
"""


@pytest.mark.parametrize(
    ("script", "far"),
    [
        ({"steps": 0, "after": BY_HAND}, "[0-9,]+ backward passes and no optimizer step{took}. "),
        ({"ms": 700.0}, "[0-9] of 12 steps{took}: try --settle-steps [0-9]"),
    ],
)  # fmt: skip
def test_waiting__for_what_cannot_come_is_not_silent(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch, script: dict[str, Any], far: str
) -> None:
    """A person who waits sees why, and so does one who reads how it ended."""
    hook = here / "hook" / "sitecustomize.py"
    own = (orders.HOOK / hook.name).read_text("utf-8")
    write(hook, own.replace("TELL_EVERY_NS = 5 * 10**9", "TELL_EVERY_NS = 10**8"))
    monkeypatch.setattr(orders, "HOOK", hook.parent)
    for name in ("LOOK_SECONDS", "WONDER_SECONDS", "TOO_LONG_SECONDS"):
        monkeypatch.setattr(following, name, 0.1)
    write_script(here / "base", **script)
    assert measure("--max-minutes", "0.04") == 3
    said = capsys.readouterr().err
    assert re.search(f"^head: {far.format(took='')}", said, re.MULTILINE)
    ended = f"anything was timed: {far.format(took=' in [.0-9]* s')}"
    assert re.search(f"^the time was used up before {ended}", said, re.MULTILINE)


def test_waiting__for_the_first_pair_in_vain_says_how_far_it_came(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The untimed launches fit into the time, and a timed one does not."""
    ends: list[float] = []

    def seconds_left(_: Bench) -> float:
        known = here / "perf" / "session.json"
        if known.exists() and len(session()["settled"]) == 2:
            ends.append(time.monotonic() + 1.5)
        return ends[0] - time.monotonic() if ends else 1000.0

    monkeypatch.setattr(Bench, "seconds_left", seconds_left)
    write_script(here / "base", 20.0, steps=4000)
    write_script(here / "head", 20.0, steps=4000)
    assert ab("--no-profile", "--steps", "3000") == 3
    said = capsys.readouterr().err
    assert re.search(
        r"^the time was used up: \w+, pair 1, \d+ of 3,?\d+ steps in ", said, re.MULTILINE
    )


def test_trouble__a_loss_that_is_not_finite_is_not_the_same_work(here: Path, capsys: Out) -> None:
    """As where a Recorder tells it."""
    write_script(here / "base", before="import math", inside="weight.value = math.nan")
    assert measure() == 3
    assert "its last loss is not finite (nan)" in capsys.readouterr().err


def test_interrupted__the_untimed_launch_leaves_nothing_running(here: Path) -> None:
    """Ctrl-C while a side settles: exit 3, and the script is ended."""
    write_script(here / "base", before="open('pid', 'w').write(str(os.getpid()))", ms=500)
    process = subprocess.Popen(
        [sys.executable, "-m", "ci_score", "measure", "--dir", "base", "--", sys.executable,
         "train.py"],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    place = here / "base" / "pid"
    until(lambda: place.exists() and bool(place.read_text("utf-8")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 3
    assert b"it was interrupted before anything was timed" in said
    assert not Path(f"/proc/{place.read_text('utf-8')}").exists()


# --- whose steps count, and how many --------------------------------------------------------------


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's device takes as long as it is told, however busy this machine is."""
    monkeypatch.setenv("STANDIN_TORCH_DEVICE", "cuda")


def measures(*more: str) -> int:
    """Head against base with as many steps as the session chooses."""
    Path("policy.toml").write_text(f"{QUIET}[metrics.step_time_ms]\nfail = 0.1\n", "utf-8")
    few = ["--config", "policy.toml", "--looks", "8", "--no-profile", *more]
    words = ["--", sys.executable, "train.py"]
    return execute(["ab", "--base", "base", "--head", "head", *few, *words])


def compared(*more: str) -> int:
    """What `run` makes of it."""
    assert measures(*more) == 0
    return execute(["run", "--measurements", "perf", "--config", "policy.toml"])


BESIDE = "extra = AdamW([torch.tensor(1.0, requires_grad=True, size={size})])"
BOTH_HAVE = (
    "the steps of head are counted by AdamW (100 parameters), which both sides have, not by AdamW"
    " (1,000 parameters)"
)
PASSES = (
    "backward passes a step: 1 in base and 2 in head: that may be other work, which cannot pass. If"
    " it is intended, remove backward_passes from `same_work` in the base's policy"
)
SLOWER = "it is clear: slower than the limit"
# What head does otherwise: what it builds before its loop, what it does in it, what is said of it.
HEADS = {
    "steps for the training and beside it": (
        BESIDE.format(size=1000),
        "extra.step(); loss.backward(); extra.step()",
        (BOTH_HAVE, PASSES, SLOWER),
    ),
    "an optimizer of the same kind beside it": (
        BESIDE.format(size=100),
        "loss.backward(); extra.step()",
        (PASSES, SLOWER),
    ),
    "the training's own steps beside it": (
        "",
        "loss.backward(); optimizer.step()",
        ("it is clear: not slower",),
    ),
}


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("head", HEADS)
def test_owner__what_head_adds_is_no_step(head: str, here: Path, capsys: Out) -> None:
    """A step of 4.5 instead of 3 ms, divided by steps that are no training, does not pass."""
    before, inside, words = HEADS[head]
    write_script(here / "base", 3.0, steps=4000)
    write_script(here / "head", 4.5, steps=4000, before=before, inside=inside)
    is_slower = SLOWER in words
    assert compared("--steps", "20") == (1 if is_slower else 3)
    said = capsys.readouterr()
    for each in words:
        assert each in said.err
    if not is_slower:
        assert "50 % of the steps here take less than a third of their mean, 0 %" in said.out
    else:
        assert "backward passes a step: 2 here, 1 there" in said.out
        assert {one.step.name for one in measured() if one.step} == {"AdamW (100 parameters)"}


@pytest.mark.usefixtures("on_device")
def test_owner__of_sides_that_have_none_in_common_is_named(here: Path, capsys: Out) -> None:
    """Several optimizers, and all of another size: nobody knows which steps are the same."""
    for side, size in (("base", 60), ("head", 70)):
        extra = f"extra = AdamW([torch.tensor(1.0, requires_grad=True, size={size})])"
        write_script(here / side, steps=4000, before=extra, inside="extra.step()")
        script = here / side / "train.py"
        text = script.read_text("utf-8").replace("size=100", f"size={2 * size}")
        script.write_text(text, encoding="utf-8")
    assert compared("--steps", "20") == 3
    said = capsys.readouterr()
    both = (
        "a step of base ends with AdamW (120 parameters), one of head with AdamW (140 parameters)"
    )
    assert f"{both}: that may be other work" in said.err
    assert "remove optimizer_steps from `same_work`" in said.err
    assert (
        "a step ends with AdamW (140 parameters) here and with AdamW (120 parameters)" in said.out
    )


@pytest.mark.usefixtures("on_device")
def test_owner__of_one_optimizer_a_side_may_be_the_change(here: Path, capsys: Out) -> None:
    """The wider model, or another optimizer, is what is measured; that is said."""
    write_script(here / "base", steps=4000)
    write_script(here / "head", steps=4000)
    script = here / "head" / "train.py"
    script.write_text(script.read_text("utf-8").replace("AdamW", "SGD"), encoding="utf-8")
    assert compared("--steps", "20") == 0
    said = capsys.readouterr()
    words = "a step of base ends with AdamW (100 parameters), one of head with SGD (100 parameters)"
    assert f"\n{words}\n" in said.err
    assert "A step ends with SGD (100 parameters) in head, and with AdamW" in said.out


@pytest.mark.usefixtures("on_device")
def test_work__that_differs_is_said_before_the_first_pair(here: Path, capsys: Out) -> None:
    """The untimed launches know the losses; it goes on, and names the keys that say it is meant."""
    write_script(here / "base", steps=4000)
    write_script(here / "head", steps=4000)
    script = here / "head" / "train.py"
    script.write_text(script.read_text("utf-8").replace("weight * 2.0", "weight * 83.0"), "utf-8")
    assert compared("--steps", "20") == 3
    said, _, pairs = capsys.readouterr().err.partition("pair 1: ")
    assert (
        "the first loss is 2 in base and 83 in head: that may be other work, which cannot" in said
    )
    assert "remove final_loss from `same_work`, or raise `loss_tolerance` in the base's" in said
    assert "it is clear" in pairs


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("steps", [[], ["--steps", "10"]], ids=["chosen", "given"])
def test_window__holds_slow_steps_in_proportion(steps: list[str], here: Path, capsys: Out) -> None:
    """Every 25 steps one takes 49 instead of 3 ms: all are timed, or nothing is clear."""
    write_script(here / "base", 3.0, steps=4000)
    write_script(here / "head", 0.0, steps=4000)
    script = here / "head" / "train.py"
    slow = "torch.work(3 if step % 25 else 49)"
    script.write_text(script.read_text("utf-8").replace("torch.work(0.0)", slow), encoding="utf-8")
    code = compared(*steps)
    said = capsys.readouterr()
    if steps:
        assert code == 3
        words = "slow steps of the head recur, and 10 timed steps do not hold them in proportion"
        assert words in said.err
        assert "ruled out (95 %)" not in said.err
        assert "slow steps recur, and the timed ones do not hold them in proportion" in said.out
    else:
        assert code == 1
        assert all(len(one.timed_ms) >= 48 for one in measured())


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(
    ("slow_step", "recurs"),
    [("30 + number % 2", True), ("30 if number == 1 else -1", False)],
    ids=["here or there", "once"],
)
def test_window__what_is_slow_in_two_untimed_launches_recurs(
    slow_step: str, recurs: bool, here: Path, capsys: Out
) -> None:
    """Base ran before, so head's first launch has the number 1; what comes by time moves."""
    before = f"""
import pathlib
ran = pathlib.Path({str(here / "ran")!r})
number = len(ran.read_text()) if ran.exists() else 0
ran.write_text("x" * (number + 1))
"""
    slow = f"step == ({slow_step}) and torch.work(96)"
    write_script(here / "base", 3.0, steps=4000, before=before)
    write_script(here / "head", 3.0, steps=4000, before=before, inside=slow)
    assert compared("--steps", "20") == (3 if recurs else 0)
    said = capsys.readouterr().err
    words = "slow steps of the head recur, and 20 timed steps do not hold them in proportion"
    assert (words in said) is recurs
    assert ("is ruled out (95 %)" in said) is not recurs


@pytest.mark.usefixtures("on_device")
def test_window__of_steps_that_are_slow_at_first_begins_behind_them(
    here: Path, capsys: Out
) -> None:
    """A level that only head has until its 25th step is no change."""
    write_script(here / "base", 4.0, steps=4000)
    write_script(here / "head", 0.0, steps=4000)
    script = here / "head" / "train.py"
    slow = "torch.work(5 if step < 24 else 4)"
    script.write_text(script.read_text("utf-8").replace("torch.work(0.0)", slow), encoding="utf-8")
    assert compared("--looks", "6") == 0
    assert 22 <= session()["settled"]["head"]["warmup"] <= 26
    assert {round(one.mean_ms, 1) for one in measured()} == {4.0}


def test_window__is_what_the_script_has(here: Path, capsys: Out) -> None:
    """A script that ends before so many steps is launched once more, and then timed with less."""
    write_script(here / "base", 1.0, steps=70)
    write_script(here / "head", 1.0, steps=60)
    assert measures("--warmup-steps", "5", "--limit", "9", "--looks", "6") == 0
    said = capsys.readouterr().err
    assert (
        len(re.findall("the script of the head ends after 60 steps, so [0-9]+ are timed", said))
        == 1
    )
    window = session()["window"]
    # A multiple of the period, where slow steps seemed to recur.
    assert 20 <= window <= 55
    assert [len(one.timed_ms) for one in measured()] == [window] * 12


SECOND_PHASE = """
other = torch.optim.SGD([torch.tensor(1.0, requires_grad=True, size=9)])
for step in range(400):
    (weight * 2.0).backward()
    other.step()
"""


@pytest.mark.parametrize(
    ("script", "steps"),
    [
        ({"steps": 60}, 60),
        ({"inside": "assert step < 59, 'no more data'"}, 60),
        ({"inside": "step == 69 and os._exit(0)"}, 64),
        ({"steps": 60, "after": SECOND_PHASE}, 60),
    ],
    ids=["ends", "fails", "dies", "goes on with another optimizer"],
)
def test_window__of_one_side_is_what_the_script_has(
    here: Path, capsys: Out, script: dict[str, Any], steps: int
) -> None:
    """However it ends: twenty steps of it were always measured, and more are asked for now."""
    write_script(here / "base", 1.0, **script)
    words = ["measure", "--dir", "base", "--out", "one", "--warmup-steps", "5", "--"]
    assert execute([*words, sys.executable, "train.py"]) == 0
    assert f"the script ends after {steps} steps, so " in capsys.readouterr().err
    (timed,) = {len(one.timed_ms) for one in measured("one")}
    assert 20 <= timed <= steps - 5


def test_window__of_a_launch_that_did_harm_is_no_reason_for_another(
    here: Path, capsys: Out
) -> None:
    """Head changes base, and ends early to be launched anew."""
    write_script(here / "base", 1.0, steps=2000)
    changes = touching("mode == 'timed' and append('train.py')")
    write_script(here / "head", 1.0, steps=60, before=changes)
    assert measures("--warmup-steps", "5") == 3
    said = capsys.readouterr().err
    assert "head: train.py changed in the base's folder while it ran" in said
    assert "the script of the head ends" not in said


def test_window__of_a_script_with_too_few_steps_is_not_asked_for_less(
    here: Path, capsys: Out
) -> None:
    """Twenty steps are the least: this script must train longer."""
    write_script(here / "base", 1.0, steps=55)
    words = ["measure", "--dir", "base", "--out", "one", "--warmup-steps", "40", "--"]
    assert execute([*words, sys.executable, "train.py"]) == 3
    assert "it ended after 55 of " in capsys.readouterr().err

"""The start-up hook with a stand-in for torch; tests/real has the same with the real one."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from ci_score.measure import Recorder
from ci_score.measure.launch.hook_records import RankRecord, problem_in_words
from tests.builders import PROJECT, write
from tests.builders.hooked import HOOK, Asked, Hooked, launch
from tests.builders.standin_torch import FOLDER as STANDIN

FILE = HOOK / "sitecustomize.py"
MARKS = HOOK / "ci_score_marks.py"
TIMED = Asked()
LOOP = """
import torch
from torch import optim

net = [torch.tensor(0.0, True, size=100)]
opt = optim.AdamW(net)
for step in range(40):
    torch.work(1)
    loss = torch.tensor(4.0 / (step + 1))
    loss.backward()
    opt.step()
    opt.zero_grad()
print("the end")
"""


@cache
def oldest_python() -> str | None:
    """A Python 3.8: from PATH, or one that pyenv keeps."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for python in ["python3.8", *map(str, sorted(versions.glob("3.8.*/bin/python")))]:
        try:
            done = subprocess.run([python, "-c", "pass"], capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def run(
    script: str,
    folder: Path,
    asked: Asked = TIMED,
    python: str = sys.executable,
    hook: Path = HOOK,
    **variables: str,
) -> Hooked:
    """The script as train.py, with the stand-in."""
    write(folder / "train.py", script)
    return launch([python, folder / "train.py"], folder / "launch", asked, cwd=folder,
                  imports=[STANDIN], hook=hook, timeout=60, **variables)  # fmt: skip


def impatient(folder: Path) -> Path:
    """The hook, with a grace that no test has to wait out."""
    text, count = re.subn(r"^GRACE_SECONDS = .*", "GRACE_SECONDS = 0.3", FILE.read_text("utf-8"),
                          flags=re.MULTILINE)  # fmt: skip
    assert count == 1
    write(folder / "hook" / FILE.name, text)
    return folder / "hook"


def measured(done: Hooked) -> RankRecord:
    assert done.said.recorded, (done.said.problem, done.text)
    return done.said.recorded.first


def words(done: Hooked) -> str:
    assert done.said.problem, done.text
    return problem_in_words(done.said.problem)


def body(lines: str, count: int = 40) -> str:
    """A loop with these lines, after a model with two parts."""
    return (
        "import torch\nfrom torch import optim\n"
        "big, small = [torch.tensor(0.0, True, size=100)], [torch.tensor(0.0, True, size=10)]\n"
        f"def loss(): torch.work(0.2); return torch.tensor(1.5)\n{lines.format(count=count)}"
    )


# --- what a step is -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_oldest", [False, True], ids=["this-python", "python3.8"])
def test_hook__counts_times_and_ends(is_oldest: bool, tmp_path: Path) -> None:
    """Eight steps have seven times between their ends, the losses of the first and the last."""
    python = oldest_python() if is_oldest else sys.executable
    if python is None:
        pytest.skip("no Python 3.8 on this machine")
    done = run(LOOP, tmp_path, python=python)
    found = measured(done)
    assert (done.code, done.text, found.steps, len(found.step_ms)) == (0, "", 8, 7)
    assert (found.rank, found.world_size, found.warmup_steps) == (0, 1, 1)
    assert (found.first_loss, found.final_loss, found.timed_by) == (4.0, 0.5, "wall clock")
    assert (found.owner.class_, found.owner.parameters, found.owner.order) == ("AdamW", 100, 0)
    assert found.versions["torch"] == "2.13.0+standin"
    assert all(step >= 1.0 for step in found.step_ms)


SETUPS = {
    "accumulation": "opt = optim.AdamW(big)\nfor _ in range({count}):\n"
    "    for _ in range(4): loss().backward()\n    opt.step(); print('own')",
    "one backward, two optimizers": "one, two = optim.AdamW(big), optim.SGD(small)\n"
    "for _ in range({count}):\n    loss().backward(); two.step(); one.step(); print('own')",
    "the largest ends steps": "one, two = optim.AdamW(big), optim.SGD(small)\n"
    "for _ in range({count}):\n    for _ in range(3): loss().backward(); two.step()\n"
    "    loss().backward(); one.step(); print('own')",
    "two calls for one backward": "opt = optim.AdamW(big)\nfor _ in range({count}):\n"
    "    loss().backward(); opt.step(); opt.step(); print('own')",
    "no backward at all": "opt = optim.AdamW(big)\nfor _ in range({count}): opt.step(); "
    "print('own')",
    "gradients by hand": "opt = optim.SGD(big)\nfor step in range({count}):\n"
    "    if step == 0: loss().backward()\n"
    "    big[0].grad = torch.tensor(step); opt.step(); step and print('own')",
    "gradients by hand, and now and then by backward": "opt = optim.SGD(big)\n"
    "for step in range({count}):\n    if step % 4 == 0: loss().backward()\n"
    "    big[0].grad = torch.tensor(step); opt.step(); step == 1 or print('own')",
    "gradients by hand, in place": "opt = optim.SGD(big); loss().backward()\n"
    "grad = big[0].grad = torch.tensor(0.0)\nfor step in range({count}):\n"
    "    grad._version = step; opt.step(); step and print('own')",
    "an update without gradients": "class Forward(optim.SGD): pass\nopt = Forward(big)\n"
    "loss().backward()\nfor step in range({count}): loss(); opt.step(); step and print('own')",
    "groups that step in turn": "opt = optim.SGD(big)\nfor _ in range({count}):\n"
    "    loss().backward()\n    for one in [*big, *small, torch.tensor(1.0, True)]:\n"
    "        one.grad = torch.tensor(1.0)\n"
    "        opt.param_groups[0]['params'] = [one]; opt.step()\n    print('own')",
    "grad": "opt = optim.AdamW(big)\nfor _ in range({count}):\n"
    "    torch.autograd.grad(loss(), big); opt.step(); opt.step(); print('own')",
    "several closures": "opt = optim.LBFGS(big)\ndef closure():\n    one = loss(); one.backward(); "
    "return one\nfor _ in range({count}): opt.step(closure); print('own')",
    "skipped by a scaler": "opt = optim.AdamW(big); scaler = torch.amp.GradScaler(skips=(1, 3))\n"
    "for _ in range({count}):\n    scaler.scale(loss()).backward(); scaler.step(opt); "
    "scaler.update(); print('own')",
    "skipped inside a fused one": "opt = optim.FusedAdam(big); scaler = torch.amp.GradScaler("
    "skips=(1, 3))\nfor _ in range({count}):\n    scaler.scale(loss()).backward(); "
    "scaler.step(opt); scaler.update(); print('own')",
    "a scaler that is off": "opt = optim.AdamW(big); scaler = torch.amp.GradScaler(enabled=False)\n"
    "for _ in range({count}):\n    scaler.scale(loss()).backward(); scaler.step(opt); print('own')",
    "in backward": "one, two = optim.AdamW(big), optim.AdamW(small)\nfor _ in range({count}):\n"
    "    it = loss(); it.in_backward = [two.step, one.step]; it.backward(); print('own')",
    "recomputed in backward": "opt = optim.AdamW(big)\nfor _ in range({count}):\n"
    "    it = loss(); it.in_backward = [loss().backward] * 3; it.backward(); opt.step(); "
    "print('own')",
    "in a thread": "import threading\nopt = optim.AdamW(big)\ndef train():\n"
    "    for _ in range({count}): loss().backward(); opt.step(); print('own')\n"
    "it = threading.Thread(target=train); it.start(); it.join()",
    "in a fork": "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0); os._exit(0)\n"
    "opt = optim.AdamW(big)\nfor _ in range({count}): loss().backward(); opt.step(); "
    "print('own', flush=True)",
    "with forks beside it": "import os\nopt = optim.AdamW(big)\nfor _ in range({count}):\n"
    "    if not os.fork(): os._exit(0)\n    os.wait(); loss().backward(); opt.step(); "
    "print('own', flush=True)",
    "a checkpoint that steps first": "opt = optim.AdamW(big)\nopt.step(); opt.step()\n"
    "for _ in range({count}): loss().backward(); opt.step(); print('own')",
    "a subclass that is built before": "class Mine(optim.AdamW): pass\nopt = Mine(big)\n"
    "for _ in range({count}): loss().backward(); opt.step(); print('own')",
}  # fmt: skip


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("is_old", ["", "1"], ids=["torch", "torch-2.0"])
def test_hook__a_step_is_what_the_script_counts(setup: str, is_old: str, tmp_path: Path) -> None:
    """The launch ends in the step that the script would have counted next."""
    script = body(SETUPS[setup])
    if is_old:
        script = script.replace("torch.amp.", "torch.cuda.amp.").replace(
            "import torch\n", "import torch, torch.cuda.amp\n", 1
        )
    done = run(script, tmp_path, STANDIN_TORCH_OLD=is_old)
    assert measured(done).steps == 8
    assert done.text.count("own") == 7


def test_hook__a_loss_is_the_sum_of_its_backward_passes(tmp_path: Path) -> None:
    """Accumulated losses add up, and what a scaler multiplied is divided."""
    done = run(
        body(
            "opt = optim.AdamW(big); scaler = torch.amp.GradScaler()\nfor _ in range({count}):\n"
            "    for _ in range(4): scaler.scale(loss() / 4).backward()\n"
            "    scaler.step(opt); scaler.update()"
        ),
        tmp_path,
    )
    assert (measured(done).first_loss, measured(done).final_loss) == (1.5, 1.5)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_hook__a_loss_that_is_not_finite_is_text(value: str, tmp_path: Path) -> None:
    """JSON has no such number."""
    done = run(LOOP.replace("4.0 / (step + 1)", f"float('{value}')"), tmp_path)
    assert (measured(done).first_loss, measured(done).final_loss) == (value, value)


def test_hook__a_loss_that_the_script_changes_later_is_kept_as_it_was(tmp_path: Path) -> None:
    """A running sum in place is the script's own."""
    done = run(LOOP.replace("    opt.step()", "    loss.value = 99.0; opt.step()"), tmp_path)
    assert measured(done).first_loss == 4.0


# --- who owns the steps ---------------------------------------------------------------------------

PHASES = (
    "for kind, count in ((optim.AdamW, 12), (optim.Adam, 400)):\n    opt = kind(big)\n"
    "    for _ in range(count): loss().backward(); opt.step(); print('own')\n"
)


def test_hook__a_second_phase_takes_over_in_the_untimed_launch(tmp_path: Path) -> None:
    """An owner that 200 backward passes have not asked is gone, and the count begins anew."""
    done = run(body(PHASES), tmp_path, Asked("settle", 50))
    assert (measured(done).owner.class_, measured(done).owner.order) == ("Adam", 1)
    assert len(measured(done).step_ms) == 49
    assert done.text.count("own") == 12 + 200 + 50 - 1


def test_hook__a_named_owner_is_known_by_its_class_and_order(tmp_path: Path) -> None:
    """What stepped before it does not count, however large it is."""
    owner = {"class": "Adam", "parameters": 100, "order": 1}
    done = run(body(PHASES), tmp_path, Asked(owner=owner))
    assert done.text.count("own") == 12 + 8 - 1


def test_hook__a_named_owner_that_stops_ends_the_launch(tmp_path: Path) -> None:
    """One sentence says how far it came, and who goes on."""
    owner = {"class": "AdamW", "parameters": 100, "order": 0}
    done = run(body(PHASES), tmp_path, Asked(steps=40, owner=owner))
    assert words(done) == (
        "the owner, AdamW, stopped after 12 of 40 steps, and Adam goes on (a second phase?): "
        "ask for fewer steps with --steps"
    )
    assert done.code == 3


def test_hook__an_owner_that_never_comes(tmp_path: Path) -> None:
    """Another launch of the same script had it."""
    owner = {"class": "Adagrad", "parameters": 100, "order": 0}
    script = body("opt = optim.AdamW(big)\nfor _ in range(1200): loss().backward(); opt.step()")
    done = run(script.replace("torch.work(0.2)", "pass"), tmp_path, Asked(owner=owner))
    assert "the owner, Adagrad, stopped after 0 of 8 steps, and AdamW goes on" in words(done)


def test_hook__an_optimizer_that_is_built_anew_again_and_again(tmp_path: Path) -> None:
    """None of them takes all the steps."""
    done = run(
        body(
            "for _ in range(60):\n    opt = optim.AdamW(big)\n"
            "    for _ in range(10): loss().backward(); opt.step()"
        ),
        tmp_path,
        Asked("settle", 50),
    )
    assert words(done).startswith("it builds its optimizer (AdamW) anew while it trains")


INNER = """
outer = optim.Adam(big)
for _ in range(100):
    inner = optim.SGD([torch.tensor(0.0, True, size=100)])
    for _ in range(5):
        loss().backward()
        inner.step()
    big[0].grad = torch.tensor(1.0)
    outer.step()
    print("own")
"""


def test_hook__an_optimizer_that_is_built_anew_within_each_step(tmp_path: Path) -> None:
    """The one that goes on is the owner: the others were its inner loop."""
    settled = measured(run(body(INNER), tmp_path / "settle", Asked("settle", 20)))
    assert (settled.owner.class_, settled.owner.order) == ("Adam", 1)
    owner = settled.owner.model_dump(by_alias=True)
    done = run(body(INNER), tmp_path / "timed", Asked(owner=owner))
    assert (measured(done).steps, done.text.count("own")) == (8, 7)


# --- the device -----------------------------------------------------------------------------------


def test_hook__a_device_is_timed_by_its_events(tmp_path: Path) -> None:
    """Steps are queued, nobody waits for the device in the loop, and the times are the device's."""
    done = run(
        LOOP.replace("torch.work(1)", "torch.work(20)").replace(
            "    opt.zero_grad()", "    opt.zero_grad(); print(torch.synchronized(), flush=True)"
        ),
        tmp_path,
        STANDIN_TORCH_DEVICE="cuda",
    )
    found = measured(done)
    assert found.timed_by == "device events"
    assert done.text.split() == ["0"] * 7
    assert found.step_ms == pytest.approx([20.0] * 7, rel=0.01)
    assert found.peak_memory == {"cuda:0": 123_000_000}
    assert found.versions["cuda"] == "13.0"


def test_hook__a_step_that_is_captured_calls_no_hook_when_it_is_replayed(tmp_path: Path) -> None:
    """Whole-step CUDA graphs end with one sentence, at the first replay."""
    done = run(
        body(
            "opt = optim.AdamW(big)\nfor _ in range(3): loss().backward(); opt.step()\n"
            "it = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(it): loss().backward(); opt.step()\n"
            "for _ in range(10**9): it.replay()"
        ),
        tmp_path,
        STANDIN_TORCH_DEVICE="cuda",
    )
    assert "it replays whole steps as CUDA graphs" in words(done)


def test_hook__a_graph_of_the_model_alone_is_no_whole_step(tmp_path: Path) -> None:
    """Its optimizer steps as ever."""
    done = run(
        body(
            "opt = optim.AdamW(big)\nit = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(it): loss()\n"
            "for _ in range({count}): it.replay(); loss().backward(); opt.step()"
        ),
        tmp_path,
        STANDIN_TORCH_DEVICE="cuda",
    )
    assert measured(done).steps == 8


# --- the end --------------------------------------------------------------------------------------


def test_hook__a_script_that_catches_everything_ends_at_its_next_step(tmp_path: Path) -> None:
    """What it printed is not lost."""
    script = body(
        "opt = optim.AdamW(big)\nwhile True:\n    try: loss().backward(); opt.step()\n"
        "    except: print('caught')"
    )
    done = run(script, tmp_path)
    assert (done.code, done.text, done.ended_by_force) == (0, "caught\n", False)
    assert measured(done).steps == 8


def test_hook__a_script_that_goes_on_without_steps_ends_after_a_grace(tmp_path: Path) -> None:
    """Here it would wait for ever."""
    script = body(
        "import time\nopt = optim.AdamW(big)\ntry:\n"
        "    for _ in range({count}): loss().backward(); opt.step()\n"
        "except SystemExit: print('caught')\ntime.sleep(3600)"
    )
    done = run(script, tmp_path, hook=impatient(tmp_path))
    assert (done.code, done.text, done.ended_by_force) == (0, "caught\n", False)


def test_hook__an_exit_code_of_a_complete_launch_is_the_script_s_own(tmp_path: Path) -> None:
    """`except BaseException: sys.exit(1)` measured all the same."""
    script = body(
        "import sys\nopt = optim.AdamW(big)\ntry:\n"
        "    for _ in range({count}): loss().backward(); opt.step()\n"
        "except BaseException: sys.exit(1)"
    )
    done = run(script, tmp_path)
    assert (done.code, measured(done).steps) == (1, 8)


DIED = "it ended without a normal exit (killed, out of memory, or os._exit) "
ENDINGS = {
    "no torch": ("print('hello')", "it imports no torch, and it wrote no measurement line"),
    "no steps": ("import torch", "it imports torch, but no optimizer took a step"),
    "an own update": (
        "import torch\nfor _ in range(9): torch.tensor(1.0).backward()",
        "it runs backward passes, but its optimizer is not one of torch's",
    ),
    "too few": (
        LOOP.replace("range(40)", "range(5)"),
        "it ended after 5 of 8 optimizer steps: make it train longer, or ask for fewer with",
    ),
    "os._exit": (
        LOOP.replace("opt.zero_grad()", "step == 4 and __import__('os')._exit(0)"),
        DIED + "after at least 4 optimizer steps",
    ),
    "os._exit without torch": (
        "import os; os._exit(0)",
        DIED + "before it imported torch",
    ),
    "os._exit before a step": (
        "import os, torch; os._exit(0)",
        DIED + "after it had imported torch, before any step",
    ),
    "the same gradients": (
        body(
            "opt = optim.SGD(big)\nbig[0].grad = loss()\nloss().backward()\n"
            "for _ in range(50): opt.step()"
        ),
        "its optimizer steps again and again with the same gradients and no new backward pass",
    ),
    "the same gradients for ever": (
        body(
            "opt = optim.SGD(big)\nbig[0].grad = loss()\nloss().backward()\nwhile True: opt.step()"
        ),
        "its optimizer steps again and again with the same gradients and no new backward pass",
    ),
    "an error": (
        LOOP.replace("opt.zero_grad()", "assert step < 2"),
        "it failed with AssertionError after 3 of 8 optimizer steps",
    ),
    "an error before": ("import torch, nonsense", "it failed with ModuleNotFoundError after 0 of"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_hook__marks_say_how_far_a_script_came(ending: str, tmp_path: Path) -> None:
    """Never steps, hook not loaded and died are told apart."""
    script, expected = ENDINGS[ending]
    assert words(run(script, tmp_path)).startswith(expected)


def test_hook__the_untimed_launch_names_its_own_option(tmp_path: Path) -> None:
    """Its steps are asked for with another one."""
    done = run(LOOP, tmp_path, Asked("settle", 50))
    assert words(done).startswith("it ended after 40 of 50 optimizer steps: make it train longer")
    assert words(done).endswith("--settle-steps")


def test_hook__an_isolated_python_hides_it(tmp_path: Path) -> None:
    """Nobody counted, and the sentence says why."""
    done = launch([sys.executable, "-I", "-c", "pass"], tmp_path)
    assert words(done).startswith("the start-up hook was not loaded")


# --- ranks and jobs -------------------------------------------------------------------------------

RANKS = """
import subprocess, sys, os
ranks = [subprocess.Popen([sys.executable, "train.py"], env={**os.environ, "RANK": str(rank),
         "WORLD_SIZE": "2"}) for rank in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
"""


def test_hook__every_rank_writes_its_record(tmp_path: Path) -> None:
    """The job's step is its slowest rank's; only rank 0 names packages, in the untimed launch."""
    write(tmp_path / "train.py", LOOP.replace("work(1)", "work(1 + 4 * int(os.environ['RANK']))")
          .replace("import torch", "import os, torch", 1))  # fmt: skip
    for mode, packages in (("settle", [True, False]), ("timed", [False, False])):
        done = launch([sys.executable, "-c", RANKS], tmp_path / mode, Asked(mode), cwd=tmp_path,
                      imports=[STANDIN])  # fmt: skip
        assert done.said.recorded
        assert [one.rank for one in done.said.recorded.ranks] == [0, 1]
        assert done.said.recorded.slowest.rank == 1
        assert [bool(one.packages) for one in done.said.recorded.ranks] == packages


def test_hook__a_rank_that_stops_early_leaves_the_launch_incomplete(tmp_path: Path) -> None:
    """How many are there, and of how many."""
    write(tmp_path / "train.py", LOOP.replace("range(40)", "range(40 if os.environ['RANK'] == '0' "
          "else 3)").replace("import torch", "import os, torch", 1))  # fmt: skip
    done = launch([sys.executable, "-c", RANKS], tmp_path / "launch", cwd=tmp_path,
                  imports=[STANDIN], hook=impatient(tmp_path))  # fmt: skip
    assert words(done).startswith("only 1 of 2 ranks took all their steps")


def test_hook__torch_knows_its_rank_better_than_the_environment(tmp_path: Path) -> None:
    """`mp.spawn` sets no variable, and another launcher's may be left over."""
    script = LOOP.replace(
        "net =", "torch.distributed.init_process_group(rank=0, world_size=1)\nnet ="
    )
    done = run(script, tmp_path, RANK="7", WORLD_SIZE="8")
    assert (measured(done).rank, measured(done).world_size) == (0, 1)


def test_hook__a_batch_script_of_slurm_s_is_one_process(tmp_path: Path) -> None:
    """It has tasks, but srun has not started them."""
    done = run(LOOP, tmp_path, SLURM_PROCID="0", SLURM_NTASKS="4")
    assert measured(done).world_size == 1


def test_hook__two_jobs_step(tmp_path: Path) -> None:
    """The second one ends the launch."""
    write(tmp_path / "train.py", LOOP.replace("range(40)", "range(3)"))
    command = ["sh", "-c", f"{sys.executable} train.py; {sys.executable} train.py"]
    done = launch(command, tmp_path / "launch", cwd=tmp_path, imports=[STANDIN])
    assert words(done) == "two jobs step in this command: measure one of them"


# --- scripts with lines of their own --------------------------------------------------------------

WITH_RECORDER = """
import torch
from torch import optim
from ci_score.measure import Recorder

opt = optim.AdamW([torch.tensor(0.0, True)])
with Recorder("own.jsonl") as recorder:
    for _ in range(20):
        with recorder.step():
            torch.tensor(1.0).backward()
            opt.step()
"""


@pytest.mark.parametrize("mode", ["settle", "timed", "profiled"])
def test_hook__a_recorder_wins(mode: str, tmp_path: Path) -> None:
    """The script runs to its end, and its own profiler works."""
    write(tmp_path / "train.py", WITH_RECORDER)
    done = launch([sys.executable, "train.py"], tmp_path / "launch", Asked(mode), cwd=tmp_path,
                  imports=[STANDIN, PROJECT])  # fmt: skip
    assert (done.said.passive, done.code) == (True, 0), done.text
    assert len(json.loads((tmp_path / "own.jsonl").read_text())["step_ms"]) == 20


def test_hook__so_does_a_recorder_that_came_from_another_process(tmp_path: Path) -> None:
    """A trainer that spawns its ranks sends them its callbacks, and never makes one there."""
    sent = pickle.dumps(Recorder("own.jsonl"))
    script = f"import pickle\nrecorder = pickle.loads({sent!r})\n{LOOP}"
    write(tmp_path / "train.py", script)
    done = launch([sys.executable, "train.py"], tmp_path / "launch", cwd=tmp_path,
                  imports=[STANDIN, PROJECT])  # fmt: skip
    assert (done.said.passive, done.text) == (True, "the end\n")


def test_hook__so_does_a_script_that_names_the_file_of_lines(tmp_path: Path) -> None:
    """It may write them in any language of its own."""
    done = run(LOOP + "\n# writes to CI_SCORE_MEASUREMENTS\n", tmp_path)
    assert (done.said.passive, done.text) == (True, "the end\n")


# --- the profiled launch --------------------------------------------------------------------------


def trace_steps(done: Hooked) -> list[str]:
    trace = json.loads((done.folder / "trace.json").read_text(encoding="utf-8"))
    names = [event["name"] for event in trace["traceEvents"]]
    return [one for one in names if one.startswith("ProfilerStep#")]


@pytest.mark.parametrize("setup", ["accumulation", "in backward", "skipped by a scaler"])
def test_hook__three_steps_are_profiled_after_the_warm_up(setup: str, tmp_path: Path) -> None:
    """The session's warm-up runs without the profiler; then the launch ends."""
    done = run(body(SETUPS[setup]), tmp_path, Asked("profiled", steps=99, warmup=4))
    assert trace_steps(done) == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert measured(done).steps == 4 + 3


OWN_PROFILER = """
from torch.profiler import ProfilerAction, profile
with profile(schedule=lambda _: ProfilerAction.RECORD) as own:
    for _ in range(40): loss().backward(); opt.step(); own.step()
    print("averages", own.key_averages().table(row_limit=3))
"""


def test_hook__the_script_s_own_profiler_does_nothing_in_the_profiled_launch(
    tmp_path: Path,
) -> None:
    """It would take our steps or kill the script; that it is there is said."""
    script = body("opt = optim.AdamW(big)\n" + OWN_PROFILER)
    done = run(script.replace("range(40)", "range(2)") + OWN_PROFILER, tmp_path, Asked("profiled"))
    assert len(trace_steps(done)) == 3
    assert measured(done).profiler_found
    assert done.text == "averages \n"


def test_hook__a_profiler_that_runs_in_a_timed_launch_is_found(tmp_path: Path) -> None:
    """It costs time, so it is said."""
    done = run(body("opt = optim.AdamW(big)\n" + OWN_PROFILER), tmp_path)
    assert measured(done).profiler_found


# --- it leaves the script alone -------------------------------------------------------------------


@pytest.mark.parametrize("is_asked", [True, False])
def test_hook__the_user_s_own_sitecustomize_runs(is_asked: bool, tmp_path: Path) -> None:
    """Under its own name, whether anything is measured or not."""
    write(tmp_path / "own" / "sitecustomize.py", "import builtins\nbuiltins.seen = __file__\n")
    done = launch(
        [sys.executable, "-c", "import sitecustomize; print(seen == sitecustomize.__file__)"],
        tmp_path / "launch",
        imports=[tmp_path / "own"],
        CI_SCORE_HOOK=Asked().variable(tmp_path / "launch" / "records") if is_asked else "",
    )
    assert done.text == "True\n"
    assert (done.folder / "marks.jsonl").exists() is is_asked


def test_hook__is_there_once(tmp_path: Path) -> None:
    """Behind the user's own sitecustomize it still counts, and another copy of it stays away."""
    write(tmp_path / "train.py", LOOP)
    write(tmp_path / "copy" / FILE.name, FILE.read_text(encoding="utf-8"))
    write(tmp_path / "own" / FILE.name, "seen = True\n")
    done = launch([sys.executable, "train.py"], tmp_path / "launch", cwd=tmp_path,
                  imports=[tmp_path / "copy", tmp_path / "own", STANDIN])  # fmt: skip
    assert (measured(done).steps, done.text) == (8, "")
    assert len(done.marks("loaded")) == 1


@pytest.mark.parametrize("order", ["{", '{"schema": 2}', '{"schema": 1}', "[]"])
def test_hook__an_order_that_it_does_not_know_is_none(order: str, tmp_path: Path) -> None:
    """The script runs as ever."""
    done = run(LOOP, tmp_path, CI_SCORE_HOOK=order)
    assert (done.code, done.text) == (0, "the end\n")


def test_hook__a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    """In a container that lacks the mount, say: the script runs as ever."""
    order = Asked().variable(tmp_path / "nowhere")
    done = run(LOOP, tmp_path, CI_SCORE_HOOK=order)
    assert (done.code, done.text) == (0, "the end\n")


def test_hook__its_own_fault_is_a_mark_and_the_script_goes_on(tmp_path: Path) -> None:
    """Here an optimizer has lost its groups."""
    done = run(LOOP.replace("for step", "opt.param_groups = 7\nfor step", 1).replace(
        "opt.zero_grad()", "pass"), tmp_path)  # fmt: skip
    assert (done.code, done.text) == (0, "the end\n")
    assert "the start-up hook failed (line " in words(done)
    assert "please report it" in words(done)


@pytest.mark.parametrize("mode", ["timed", "profiled"])
def test_hook__on_a_full_disk_is_not_at_fault(mode: str, tmp_path: Path) -> None:
    """A record or a trace that cannot be written is told apart from a fault of ours."""
    no_room = (
        "import os, torch, torch.profiler\nreal = os.replace\n"
        "def replace(path, *to):\n"
        "    if 'rank-' in path: raise OSError(28, 'No space left on device')\n"
        "    real(path, *to)\nos.replace = replace\n"
        "torch.profiler.profile.export_chrome_trace = lambda *_: None\n"
    )
    assert words(run(no_room + LOOP, tmp_path, Asked(mode))).startswith(
        "what was measured cannot be written (OSError: [Errno 28]"
    )


def test_hook__imports_stay_what_they_are(tmp_path: Path) -> None:
    """It imports no torch itself, and torch's modules have the loader that they always have."""
    script = (
        "import sys; assert 'torch' not in sys.modules\nimport torch, importlib.machinery as m\n"
        "for name in ('torch.optim.optimizer', 'torch.autograd.graph', 'torch.autograd'):\n"
        "    loader = sys.modules[name].__spec__.loader\n"
        "    assert type(loader) is m.SourceFileLoader and 'exec_module' not in vars(loader)\n"
        "    assert loader.get_source(name)\nprint('fine')"
    )
    assert run(script, tmp_path).text == "fine\n"


def test_hook__code_of_the_other_side_is_named(tmp_path: Path) -> None:
    """But for the command's own file, which may lie anywhere."""
    write(tmp_path / "other" / "model.py", "")
    sides = f"{tmp_path / 'own'}{os.pathsep}{tmp_path / 'other'}"
    for name, imports, found in (("train", "", None), ("it", "import model\n", "model (")):
        write(tmp_path / "other" / f"{name}.py", imports + LOOP)
        done = launch([sys.executable, tmp_path / "other" / f"{name}.py"], tmp_path / name,
                      imports=[STANDIN], CI_SCORE_FOLDERS=sides)  # fmt: skip
        other = measured(done).other_side
        assert (other or "").startswith(found or "")
        assert (other is None) is (found is None)


def test_hook__a_planted_slowdown_is_real_time(tmp_path: Path) -> None:
    """`qualify` sees whether it would be found: a step takes that share longer."""
    found = measured(run(LOOP.replace("work(1)", "work(10)"), tmp_path,
                         CI_SCORE_PLANTED_SLOWDOWN="0.5"))  # fmt: skip
    assert min(found.step_ms) >= 15.0


# --- what it is made of ---------------------------------------------------------------------------


def test_hook__no_other_file_is_in_its_folder() -> None:
    """The folder leads PYTHONPATH: whatever lies there, a script can import."""
    names = {path.name for path in HOOK.iterdir() if path.name != "__pycache__"}
    assert names == {FILE.name, MARKS.name}


@pytest.mark.parametrize("file", [FILE, MARKS], ids=lambda path: path.stem)
def test_hook__it_is_for_python_3_8_and_the_standard_library(file: Path) -> None:
    """It runs where ci-score is not installed, in an older Python."""
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]  # type: ignore[union-attr]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names) | {"torch"}
    # What follows the annotations of today at run time would be too new.
    assert file.read_text(encoding="utf-8").count("from __future__ import annotations") == 1

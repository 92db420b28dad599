"""Every case of docs/measuring.md as an unmodified script with the real torch.

They need `CI_SCORE_FRAMEWORKS`, a Python with torch, transformers, accelerate and lightning, which
`.ci/frameworks` makes. Each script counts and times its own steps: what we say must agree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_score.measure.launch.hook_records import Recorded, problem_in_words
from ci_score.measure.launch.last_words import last_words
from ci_score.traces import ProfileSource, read_profile
from tests.builders.hooked import Asked, Hooked, launch

PYTHON = Path(os.environ.get("CI_SCORE_FRAMEWORKS", ""))
SCRIPTS = Path(__file__).parent / "scripts"
WARMUP = 2
STEPS = 8
pytestmark = pytest.mark.skipif(
    not os.environ.get("CI_SCORE_FRAMEWORKS"),
    reason="CI_SCORE_FRAMEWORKS names no Python with torch (.ci/frameworks makes one)",
)
once = pytest.mark.once


@dataclass(frozen=True)
class Case:
    """A command, its ranks, and the optimizer that ends its steps, by the order of first steps."""

    words: str
    ranks: int = 1
    owner: str = "AdamW"
    order: int = 0
    # None where it may: a rank that loses its peer while both end fails, and so ends its parent.
    runs_on: bool | None = False

    def command(self) -> list[str | Path]:
        """By the Python of the frameworks, or a launcher beside it."""
        first, *rest = self.words.split(" ")
        if first == "torchrun":
            return [PYTHON.parent / "torchrun", "--nproc-per-node", str(self.ranks), *rest]
        if first == "accelerate":
            return [PYTHON.parent / first, *rest]
        return [PYTHON, first, *rest]


CASES = [
    pytest.param(Case("plain.py"), marks=once),
    pytest.param(Case("accumulation.py"), marks=once),
    pytest.param(Case("lbfgs.py", owner="LBFGS"), marks=once),
    pytest.param(Case("optimizer_in_backward.py", order=1), marks=once),
    Case("gan.py", order=1),
    Case("two_optimizers.py", owner="SGD"),
    Case("autocast.py"),
    Case("compiled_model.py"),
    Case("compiled_optimizer_step.py"),
    pytest.param(Case("compiled_whole_step.py"), marks=once),
    Case("compiled_scaled_step.py"),
    pytest.param(Case("scaler.py"), marks=once),
    Case("scaler.py fused"),
    Case("trainer.py"),
    pytest.param(Case("trainer.py evaluate checkpoints accumulate"), marks=once),
    pytest.param(Case("lightning_loop.py"), marks=once),
    Case("lightning_loop.py manual"),
    Case("lightning_loop.py ddp", ranks=2),
    Case("lightning_loop.py ddp_spawn", ranks=2, runs_on=None),
    pytest.param(Case("accelerated.py"), marks=once),
    Case("accelerate launch --cpu --num_processes 1 accelerated.py"),
    pytest.param(Case("torchrun ddp.py", ranks=2), marks=once),
    pytest.param(Case("torchrun fsdp2.py", ranks=2), marks=once),
    pytest.param(Case("mp_spawn.py", ranks=2, runs_on=None), marks=once),
    Case("forked_trainer.py"),
    Case("-m package"),
    Case("threads.py"),
    Case("two_threads.py"),
    Case("scheduler_tqdm.py"),
    Case("checkpointing.py"),
    Case("checkpointing.py reentrant"),
    Case("except_around.py"),
    Case("except_inside.py"),
    Case("torchrun exits_in_except.py", ranks=2),
    Case("loader_workers.py"),
    Case("loader_workers.py spawn"),
    Case("own_profiler.py"),
    Case("infinite_loss.py"),
    Case("autograd_grad.py"),
    Case("functional_grad.py"),
    Case("no_gradients.py", owner="SGD"),
    Case("zeroth_order.py", owner="SGD"),
    Case("zeroth_order.py without", owner="WithoutGradients"),
    Case("reptile.py", owner="Adam", order=1),
    Case("wrapped_optimizer.py"),
    Case("compiled_autograd.py"),
    Case("torchrun zero_redundancy.py", ranks=2, owner="ZeroRedundancyOptimizer", order=1),
]


def named(case: Case) -> dict[str, object]:
    """The owner, as the untimed launch tells it."""
    return {"class": case.owner, "parameters": 0, "order": case.order}


def run(case: Case, folder: Path, asked: Asked) -> Hooked:
    return launch(case.command(), folder, asked, cwd=SCRIPTS, imports=[SCRIPTS])


def recorded(done: Hooked) -> Recorded:
    assert done.said.recorded, (
        done.said.problem and problem_in_words(done.said.problem),
        done.text,
    )
    return done.said.recorded


def name(case: Case) -> str:
    return case.words.replace(" ", "-")


@pytest.mark.parametrize("case", CASES, ids=name)
def test_real__steps_are_those_that_the_script_counts(case: Case, tmp_path: Path) -> None:
    """Our count and our times are the script's own; the launch ends after the steps asked for."""
    done = run(case, tmp_path, Asked("timed", STEPS, WARMUP, named(case)))
    found = recorded(done)
    assert len(found.ranks) == case.ranks
    assert found.first.steps == STEPS
    assert (found.first.owner.class_, found.first.owner.order) == (case.owner, case.order)
    assert case.runs_on in (None, done.ended_by_force)
    # The last one ended the script before it could count.
    assert len(done.own) == STEPS - 1
    # Compiling goes on after the first step has ended.
    own_ms = (done.own[-1][0] - done.own[WARMUP][0]) * 1000
    assert sum(found.first.step_ms[WARMUP:-1]) == pytest.approx(own_ms, rel=0.25, abs=30)
    if done.own[0][1] not in ("", "inf"):
        assert found.first.first_loss == pytest.approx(float(done.own[0][1]), rel=1e-4)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_real__three_steps_are_profiled_after_the_warm_up(case: Case, tmp_path: Path) -> None:
    """The trace has exactly three marked steps, whatever profiler the script has of its own."""
    done = run(case, tmp_path, Asked("profiled", STEPS, WARMUP, named(case)))
    assert recorded(done).first.steps == WARMUP + 3
    trace = json.loads((done.folder / "trace.json").read_text(encoding="utf-8"))
    marks = {
        event["name"]
        for event in trace["traceEvents"]
        if str(event.get("name", "")).startswith("ProfilerStep#")
    }
    assert marks == {"ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"}
    assert len(done.own) == WARMUP + 3 - 1


COMPILED = ["compiled_model.py", "compiled_optimizer_step.py", "compiled_whole_step.py",
            "compiled_scaled_step.py"]  # fmt: skip


@pytest.mark.parametrize("script", COMPILED)
def test_real__the_compiler_makes_the_graphs_that_it_makes_without_us(
    script: str, tmp_path: Path
) -> None:
    """A compiled model, optimizer or whole step has as many graphs and frames as alone."""
    done = run(Case(script), tmp_path, Asked(steps=12))
    alone = subprocess.run(
        [PYTHON, script], cwd=SCRIPTS, capture_output=True, text=True, check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    counts = [
        [line for line in text.splitlines() if line.startswith("graphs ")]
        for text in (done.text, alone.stdout)
    ]
    assert counts[0] == counts[1][: len(counts[0])]


ENDINGS = [
    ("os_exit.py", "it ended without a normal exit (killed, out of memory, or os._exit) after at"),
    ("raises.py", "it failed with RuntimeError after 3 of 300 optimizer steps"),
    ("plain.py", "it ended after 40 of 300 optimizer steps: make it train longer, or ask"),
    ("no_torch.py", "it imports no torch"),
    ("only_inference.py", "it imports torch, but no optimizer took a step"),
    ("own_update.py", "it runs backward passes, but its optimizer is not one of torch's"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "words"), ENDINGS, ids=[one[0] for one in ENDINGS])
def test_real__a_script_that_cannot_be_measured_says_why(
    script: str, words: str, tmp_path: Path
) -> None:
    """One sentence tells how far it came and what to do."""
    done = run(Case(script), tmp_path, Asked(steps=300))
    assert done.said.problem
    assert words in problem_in_words(done.said.problem)


def test_real__a_second_phase_takes_over_in_the_untimed_launch(tmp_path: Path) -> None:
    """The optimizer that goes on is counted anew, and later launches know it by name."""
    settled = recorded(run(Case("two_phases.py"), tmp_path / "settle", Asked("settle", 50)))
    assert (settled.first.owner.class_, settled.first.owner.order) == ("Adam", 1)
    owner = settled.first.owner.model_dump(by_alias=True)
    timed = run(Case("two_phases.py"), tmp_path / "timed", Asked(steps=20, owner=owner))
    assert recorded(timed).first.owner == settled.first.owner
    assert len(timed.own) == 12 + 20 - 1


def test_real__an_owner_that_stops_ends_the_launch(tmp_path: Path) -> None:
    """The first phase was measured, and it is shorter than the timed launches."""
    owner = {"class": "AdamW", "parameters": 8320, "order": 0}
    done = run(Case("two_phases.py"), tmp_path, Asked(steps=40, owner=owner))
    assert done.said.problem
    assert problem_in_words(done.said.problem) == (
        "the owner, AdamW, stopped after 12 of 40 steps, and Adam goes on (a second phase?): "
        "ask for fewer steps with --steps"
    )


def test_real__an_optimizer_that_is_built_anew_again_and_again(tmp_path: Path) -> None:
    """No optimizer takes as many steps as are asked for."""
    done = run(Case("rebuilt_optimizer.py"), tmp_path, Asked("settle", 50))
    assert done.said.problem
    assert done.said.problem.code == "rebuilt"


def test_real__two_jobs_in_one_command(tmp_path: Path) -> None:
    """The second one that steps ends the launch."""
    words = f"{PYTHON} os_exit.py && {PYTHON} plain.py"
    done = launch(["bash", "-c", words], tmp_path, cwd=SCRIPTS)
    assert done.said.problem
    assert (
        problem_in_words(done.said.problem) == "two jobs step in this command: measure one of them"
    )


def test_real__a_script_of_own_lines_runs_to_its_end(tmp_path: Path) -> None:
    """It wins over the hook, which neither ends nor profiles it."""
    own = tmp_path / "measurements.jsonl"
    done = launch(
        [PYTHON, "measures_itself.py"], tmp_path, cwd=SCRIPTS, CI_SCORE_MEASUREMENTS=str(own)
    )
    assert (done.said.passive, done.code, len(done.own)) == (True, 0, 40)
    assert own.exists()


def test_real__an_infinite_loss_is_said_as_text(tmp_path: Path) -> None:
    """JSON has no number for it."""
    assert recorded(run(Case("infinite_loss.py"), tmp_path, Asked())).first.first_loss == "inf"


def test_real__a_script_that_resumes_has_another_first_loss(tmp_path: Path) -> None:
    """Its own checkpoint of the launch before is found by the next one."""
    script = Case(str(SCRIPTS / "resumes.py"))
    losses = [
        recorded(
            launch(script.command(), tmp_path / str(number), cwd=tmp_path, imports=[SCRIPTS])
        ).first.first_loss
        for number in range(2)
    ]
    assert losses[0] != losses[1]


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ("torchrun raises_in_a_rank.py", "ValueError: a bad batch"),
        ("torchrun -m no_such_package", "No module named no_such_package"),
        ("accelerate launch --cpu --num_processes 1 raises.py", "RuntimeError: out of data"),
    ],
)
def test_real__a_launcher_does_not_hide_the_error(tmp_path: Path, words: str, last: str) -> None:
    """Its own pages come last, and say no more than that a rank has failed."""
    done = run(Case(words, ranks=2), tmp_path, Asked())
    assert last_words(done.text.splitlines())[-1].endswith(last)


def test_real__a_profiler_of_its_own_is_said(tmp_path: Path) -> None:
    """In timed launches it runs and costs time; in the profiled one it does nothing."""
    for mode in ("timed", "profiled"):
        done = run(Case("own_profiler.py"), tmp_path / mode, Asked(mode))
        assert recorded(done).profiler_found


def test_real__tokens_of_two_passes_over_one_batch_are_not_told(tmp_path: Path) -> None:
    """They are one step, and its profile would count each token twice."""
    done = run(Case("sharpness_aware.py"), tmp_path, Asked("profiled"))
    assert len(done.own) == recorded(done).first.steps - 1
    profile = read_profile(ProfileSource("trace.json", done.folder / "trace.json"))
    assert profile.tokens_per_step is None
    assert any("SAM" in note for note in profile.notes)


def test_real__the_hook_stays_out_of_an_isolated_python(tmp_path: Path) -> None:
    """`-I` and `-E` hide it, and that is the sentence."""
    for flag in ("-I", "-E"):
        done = launch([PYTHON, flag, "-c", "import torch"], tmp_path / flag, cwd=SCRIPTS)
        assert done.said.problem
        assert done.said.problem.code == "not_loaded"


def test_real__the_python_of_the_frameworks_is_not_ours() -> None:
    """The hook runs where ci-score is not installed."""
    assert Path(sys.executable) != PYTHON

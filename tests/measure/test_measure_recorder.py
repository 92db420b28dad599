"""The recorder in a training script: what it times, for what it waits, what it writes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.launches.lines import Launch, read_launches
from ci_score.measure import Recorder, recorder
from tests.builders import PROJECT


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that was started by hand in an empty folder."""
    for name in (*recorder.RANK_VARIABLES, recorder.PATH_VARIABLE, recorder.PLANTED_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(recorder.FOLDERS_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(path: Path = Path("measurements.jsonl")) -> list[Launch]:
    return read_launches(path.read_bytes(), path.name, planted=True)


def take(record: Recorder, steps: int = 3) -> None:
    with record:
        for _ in range(steps):
            with record.step():
                pass


def test_recorder__appends_a_line_a_launch() -> None:
    """With all that the script says of it; a second launch is a second line."""
    for loss in (2.0, 3.0):
        with Recorder(case="llama", tokens_per_step=512, warmup_steps=1) as record:
            for _ in range(3):
                with record.step():
                    time.sleep(0.002)
            record.loss(loss)
            record.metric("recompiles", 2)
    first, second = written()
    assert (first.case, first.tokens_per_step, first.warmup_steps) == ("llama", 512.0, 1)
    assert (first.final_loss, second.final_loss) == (2.0, 3.0)
    assert first.metrics == {"recompiles": 2.0}
    assert len(first.step_ms) == 3
    assert min(first.step_ms) >= 2.0


def test_recorder__of_a_script_that_changes_its_folder(here: Path) -> None:
    """The line goes where it would have gone at the beginning."""
    record = Recorder()
    (here / "elsewhere").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here / "elsewhere")
        take(record)
    assert len(written()) == 1


def test_recorder__a_run_that_fails_writes_nothing(here: Path) -> None:
    """Its steps are no measurement."""
    record = Recorder()
    with pytest.raises(RuntimeError), record, record.step():
        raise RuntimeError
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", recorder.RANK_VARIABLES)
def test_recorder__only_rank_0_writes(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever started the ranks."""
    monkeypatch.setenv(name, "1")
    take(Recorder())
    assert list(here.iterdir()) == []
    monkeypatch.setenv(name, "0")
    take(Recorder())
    assert len(written()) == 1


def test_recorder__tokens_of_steps_that_differ_are_their_mean_after_the_warm_up() -> None:
    """The typical step."""
    with Recorder(warmup_steps=1) as record:
        for tokens in (9999, 100, 300):
            with record.step(tokens=tokens):
                pass
    assert written()[0].tokens_per_step == 200.0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda record: record.loss(math.nan), "not finite"),
        (lambda record: record.metric("x", math.inf), "not finite"),
        (lambda record: record._nanoseconds.clear(), "no step was recorded"),
    ],
)
def test_recorder__a_launch_without_a_measurement_says_so(spoil: Any, words: str) -> None:
    """The line is there and valid JSON, and has its own reason."""
    record = Recorder()
    with record:
        with record.step():
            pass
        spoil(record)
    text = Path("measurements.jsonl").read_text("utf-8")
    assert words in json.loads(text, parse_constant=pytest.fail)["failed"]


def test_recorder__a_warm_up_longer_than_the_run_leaves_nothing_to_judge() -> None:
    """It was declared: no step of it is taken for a timed one."""
    take(Recorder(warmup_steps=5))
    with pytest.raises(BadInputError, match="a step after the warm-up"):
        written()


class Cuda:
    """A device that works on after the call returned, as torch tells of it; it has a clock."""

    def __init__(self) -> None:
        self.initialized = False
        self.now = self.busy_until = 0
        self.waits = 0

    def is_initialized(self) -> bool:
        """Whether the script has used it."""
        return self.initialized

    def launch(self, milliseconds: int) -> None:
        """Returns at once."""
        self.initialized = True
        self.busy_until = max(self.busy_until, self.now) + milliseconds

    def synchronize(self) -> None:
        """Waits until the device has nothing left to do."""
        self.waits += 1
        self.now = max(self.now, self.busy_until)

    def max_memory_allocated(self) -> int:
        """In bytes."""
        return 3_000_000_000


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """A torch whose device is not used yet."""
    torch = ModuleType("torch")
    torch.__dict__.update(
        cuda=Cuda(), __version__="2.9.0+cu128", version=SimpleNamespace(cuda="12.8")
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    device: Cuda = torch.__dict__["cuda"]
    monkeypatch.setattr(recorder, "perf_counter_ns", lambda: device.now * 1_000_000)
    return device


def test_recorder__waits_for_the_device(cuda: Cuda) -> None:
    """A step is what the device does in it, with nothing of what was queued before."""
    with Recorder() as record:
        for _ in range(3):
            with record.step():
                cuda.launch(10)
            cuda.launch(30)
    launch = written()[0]
    assert launch.step_ms == (10.0, 10.0, 10.0)
    assert launch.peak_memory_gb == 3.0
    assert launch.versions["torch"] == "2.9.0+cu128"
    assert launch.versions["cuda"] == "12.8"


def test_recorder__leaves_a_device_alone_that_the_script_does_not_use(cuda: Cuda) -> None:
    """Asking it would take its memory."""
    take(Recorder())
    assert cuda.waits == 0
    assert written()[0].peak_memory_gb is None


def test_recorder__waits_as_it_is_told() -> None:
    """Where the device is not torch's: before and after each step."""
    waits: list[int] = []
    take(Recorder(synchronize=lambda: waits.append(1)))
    assert len(waits) == 6


def clock(monkeypatch: pytest.MonkeyPatch, *milliseconds: int) -> None:
    """What the clock says, each time that the recorder looks."""
    ticks = iter(milliseconds)
    monkeypatch.setattr(recorder, "perf_counter_ns", lambda: next(ticks) * 1_000_000)


def test_recorder__starts_and_stops_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop without a place for a `with`; what a pause holds is no part of the step."""
    clock(monkeypatch, 0, 10, 20, 120, 130, 200, 205, 205)
    record = Recorder()
    record.start()
    record.stop()
    record.start()
    record.pause()
    record.resume()
    record.pause()
    record.stop()
    record.write()
    assert written()[0].step_ms == (10.0, 170.0)


def test_recorder__waits_for_a_result_that_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX returns before its work is done; a stand-in shows that the step ends after it."""
    clock(monkeypatch, 0, 7)
    waited: list[object] = []
    jax = ModuleType("jax")
    jax.__dict__.update(block_until_ready=waited.append, __version__="0.9.0")
    record = Recorder()
    monkeypatch.setitem(sys.modules, "jax", jax)
    record.start()
    record.stop({"loss": 1.0})
    record.write()
    assert waited == [{"loss": 1.0}]
    assert written()[0].versions["jax"] == "0.9.0"


def test_recorder__waits_for_one_array_of_any_library() -> None:
    """Whatever has JAX's own method."""
    waited: list[str] = []
    record = Recorder()
    record.start()
    record.stop(SimpleNamespace(block_until_ready=lambda: waited.append("array")))
    record.start()
    record.stop(0.5)
    assert waited == ["array"]


def test_recorder__plants_a_slowdown_truly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process itself takes longer, and the line says that it was made to."""
    monkeypatch.setenv(recorder.PLANTED_VARIABLE, "0.5")
    begin = time.perf_counter()
    with Recorder() as record, record.step():
        time.sleep(0.02)
    assert time.perf_counter() - begin >= 0.03
    launch = written()[0]
    assert launch.planted == 0.5
    assert launch.step_ms[0] >= 30.0


def test_planted__launches_are_no_measurement_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` refuses what `qualify` left, its unchanged launches too."""
    for planted in ("0.05", "0.0"):
        monkeypatch.setenv(recorder.PLANTED_VARIABLE, planted)
        take(Recorder())
    with pytest.raises(BadInputError, match="a launch of `ci-score qualify`"):
        read_launches(Path("measurements.jsonl").read_bytes(), "x")


@pytest.mark.parametrize(
    ("own", "other", "file", "found"),
    [
        ("base", "head", "head/train.py", True),
        ("base", "head", "base/train.py", False),
        ("base", "", "train.py", True),
        ("base", "", "base/train.py", False),
        ("", "base", "base/train.py", True),
        ("", "base", "train.py", False),
        ("head", "head", "head/train.py", False),
        ("base", "head", "head/.venv/lib/python3.12/site-packages/torch/__init__.py", False),
    ],
)
def test_sides__code_of_the_other_one(
    here: Path, monkeypatch: pytest.MonkeyPatch, own: str, other: str, file: str, *, found: bool
) -> None:
    """Also where one side's folder lies in the other's; installed packages are nobody's."""
    monkeypatch.setenv(recorder.FOLDERS_VARIABLE, f"{here / own}:{here / other}")
    module = ModuleType("train")
    module.__file__ = str(here / file)
    monkeypatch.setitem(sys.modules, "train", module)
    said = recorder._code_of_the_other_side()
    assert (said is not None) is found


def test_sides__the_command_s_own_script_is_nobody_s(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spawned processes run it once more under another name, and torch knows that name always."""
    monkeypatch.setenv(recorder.FOLDERS_VARIABLE, f"{here / 'base'}:{here / 'head'}")
    script = ModuleType("__mp_main__")
    script.__file__ = str(here / "head/train.py")
    monkeypatch.setitem(sys.modules, "__mp_main__", script)
    assert recorder._code_of_the_other_side() is None


def test_import__is_the_standard_library() -> None:
    """A training script pays nothing for it, and needs none of our dependencies."""
    code = (
        "import sys; from ci_score.measure import Recorder;"
        "others = {'pydantic', 'click', 'msgspec', 'requests'};"
        "print(sorted(others & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

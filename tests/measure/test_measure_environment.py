"""What a machine tells of itself, from real processes of fake tools; nothing is invented."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.launches.lines import Launch
from ci_score.measure.launch.launching import Done
from ci_score.measure.launch.orders import HOOK, Orders, Task
from ci_score.measure.machine import accelerators, load
from ci_score.measure.machine.accelerators import Reading, chosen, find_probe, throttles_of
from ci_score.measure.machine.environment import MachineWatch, git_state
from ci_score.measure.machine.load import Load, load_by_others, load_now
from ci_score.measure.machine.processes import carriers, carries
from ci_score.measure.sides.command import Command
from ci_score.measure.sides.spec import SideSpec
from tests.builders import lives, until

Out = pytest.CaptureFixture[str]

FIELDS = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-0",
    "driver_version": "550.54.15",
    "temperature.gpu": "41",
    "power.draw": "312.50",
    "clocks.sm": "1980",
    "clocks.mem": "2619",
    "memory.total": "81559",
    "clocks_throttle_reasons.active": "0x0000000000000000",
    "mig.mode.current": "Disabled",
    "ecc.mode.current": "Enabled",
}
# What the real tool does with what it is asked, from a file of its answers.
NVIDIA_SMI = """
import json, sys, time
state = json.load(open({state!r}))
time.sleep(state.get("sleep", 0))
if "fails" in state:
    sys.exit(state["fails"])
asked = sys.argv[1].partition("=")[2].split(",")
if "pid" in asked:
    print("\\n".join(f"{{uuid}}, {{pid}}" for uuid, pid in state["processes"]))
    sys.exit()
for field in asked:
    if field not in state["devices"][0]:
        print(f'Field "{{field}}" is not a valid field to query.')
        sys.exit(2)
for device in state["devices"]:
    print(", ".join(device[field] for field in asked))
"""


class Tools:
    """A folder at the front of PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state.json"

    def install(self, name: str, source: str) -> None:
        """A program of that name, in Python, which starts fast without its site-packages."""
        file = self.folder / name
        file.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        file.chmod(0o755)

    def nvidia(self, *devices: dict[str, str], processes: Any = (), **more: Any) -> None:
        """NVIDIA's tool with its devices, where they differ from the one above."""
        self.install("nvidia-smi", NVIDIA_SMI.format(state=str(self.state)))
        whole = [FIELDS | device for device in devices or ({},)]
        self.state.write_text(
            json.dumps({"devices": whole, "processes": list(processes), **more}), encoding="utf-8"
        )


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """No accelerator of this machine's, and an empty folder for what a test installs."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return Tools(folder)


@pytest.fixture
def neighbour() -> Iterator[int]:
    """Somebody else's process."""
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    process.kill()
    process.wait()


def told(capsys: Out) -> dict[str, Any]:
    assert execute(["env", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# --- env ----------------------------------------------------------------------------------------


def test_env__tells_what_the_driver_knows(tools: Tools, capsys: Out) -> None:
    """Names, clocks, power, heat, the state of MIG and ECC, and who computes there."""
    tools.nvidia({}, {"uuid": "GPU-1"}, processes=[("GPU-1", 4194305)])
    found = told(capsys)
    assert (found["accelerator"], found["accelerator_count"]) == ("NVIDIA H100 80GB HBM3", 2)
    assert found["versions"]["driver"] == "550.54.15"
    first, second = found["devices"]
    assert first == {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-0",
        "mig": "off",
        "ecc": "on",
        "temperature_c": 41.0,
        "power_w": 312.5,
        "sm_clock_mhz": 1980.0,
        "memory_clock_mhz": 2619.0,
        "memory_gb": pytest.approx(85.5, abs=0.1),
        "processes": 0,
    }
    assert second["processes"] == 1


def test_env__without_accelerators_invents_none(tools: Tools, capsys: Out) -> None:
    """Processor, memory and versions are known; the rest is not there."""
    found = told(capsys)
    assert found["probe"] == "none"
    assert not found.keys() & {"accelerator", "accelerator_count", "devices", "sampled"}
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["cpu"]["count"] == os.cpu_count()
    assert found["memory_gb"] > 0


def test_env__what_a_driver_does_not_know_is_left_out(tools: Tools, capsys: Out) -> None:
    """Unknown fields are asked for no more, and `[N/A]` is no number."""
    tools.nvidia({"power.draw": "[N/A]", "mig.mode.current": "[N/A]", "temperature.gpu": "hot"})
    state = json.loads(tools.state.read_text("utf-8"))
    del state["devices"][0]["ecc.mode.current"]
    tools.state.write_text(json.dumps(state), encoding="utf-8")
    device = told(capsys)["devices"][0]
    assert not device.keys() & {"power_w", "mig", "ecc", "temperature_c"}
    assert device["sm_clock_mhz"] == 1980.0


@pytest.mark.parametrize(
    "source",
    [
        "import sys; print('NVIDIA-SMI has failed'); sys.exit(9)",
        "print('rubbish, of, another, kind')",
        "import sys; sys.stdout.buffer.write(bytes(range(256)))",
        "",
    ],
    ids=["fails", "other columns", "bytes", "silent"],
)
def test_env__a_broken_tool_is_no_accelerator(tools: Tools, capsys: Out, source: str) -> None:
    """And no crash."""
    tools.install("nvidia-smi", source)
    tools.install("rocm-smi", source)
    assert "accelerator" not in told(capsys)


def test_env__a_tool_that_hangs_is_given_up(
    tools: Tools, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everything that it has started, after a while, and it is not asked again."""
    monkeypatch.setattr(accelerators, "ANSWER_SECONDS", 0.3)
    started = tools.folder / "started"
    hangs = f"sleep = subprocess.Popen(['sleep', '60']); open({str(started)!r}, 'w')"
    tools.install("nvidia-smi", f"import subprocess; {hangs}.write(str(sleep.pid)); sleep.wait()")
    assert "accelerator" not in told(capsys)
    # On a busy machine it may be given up before it has started anything.
    pids = started.read_text("utf-8").split() if started.exists() else []
    until(lambda: not any(lives(int(pid)) for pid in pids))


def test_env__a_tool_that_begins_to_hang_is_asked_no_more(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that has lost its device must not cost ten seconds a sample."""
    tools.nvidia()
    probe = find_probe()
    assert len(probe.read()) == 1
    monkeypatch.setattr(accelerators, "ANSWER_SECONDS", 0.3)
    tools.nvidia(sleep=60)
    assert probe.read() == []
    tools.install("nvidia-smi", f"open({str(tools.folder / 'asked')!r}, 'w')")
    assert probe.read() == []
    assert not (tools.folder / "asked").exists()


def test_env__reads_rocm(tools: Tools, capsys: Out) -> None:
    """The keys of AMD's tool in several of its versions."""
    cards = {
        "card0": {
            "Card Series": "AMD Instinct MI300X",
            "Unique ID": "0x1",
            "Temperature (Sensor junction) (C)": "52.0",
            "Average Graphics Package Power (W)": "140.0",
            "sclk clock speed:": "(2100Mhz)",
            "mclk clock speed:": "(1300Mhz)",
        },
        "card1": {"Card series": "AMD Instinct MI300X", "Temperature (Sensor edge) (C)": "N/A"},
        "system": {"Driver version": "6.7.0"},
    }
    tools.install("rocm-smi", f"print({json.dumps(json.dumps(cards))})")
    found = told(capsys)
    assert (found["accelerator"], found["accelerator_count"]) == ("AMD Instinct MI300X", 2)
    assert found["versions"]["driver"] == "6.7.0"
    assert found["devices"][0]["sm_clock_mhz"] == 2100.0
    assert found["devices"][1] == {"name": "AMD Instinct MI300X"}


class NVMLError(Exception):
    """What pynvml raises."""


def a_pynvml(**more: Any) -> ModuleType:
    """The extra's module as a machine of one device has it; what is None is not supported there."""

    def answer(value: Any) -> Any:
        def ask(*_arguments: object) -> Any:
            if value is None:
                raise NVMLError
            return value

        return ask

    values = {
        "nvmlInit": 0,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": "handle",
        "nvmlDeviceGetName": b"NVIDIA L4",
        "nvmlDeviceGetUUID": "GPU-7",
        "nvmlSystemGetDriverVersion": "550.1",
        "nvmlDeviceGetTemperature": 50,
        "nvmlDeviceGetPowerUsage": 71500,
        "nvmlDeviceGetClockInfo": 2040,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=24e9),
        "nvmlDeviceGetCurrentClocksThrottleReasons": 0x44,
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=4194305)],
        "nvmlDeviceGetMigMode": None,
        "nvmlDeviceGetEccMode": (1, 1),
    }
    module = ModuleType("pynvml")
    module.__dict__.update(
        {name: answer(value) for name, value in (values | more).items()}, NVMLError=NVMLError
    )
    return module


def test_env__asks_nvml_first(tools: Tools, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra needs no process of its own; what it does not support is left out."""
    tools.nvidia()
    monkeypatch.setitem(sys.modules, "pynvml", a_pynvml())
    found = told(capsys)
    assert found["probe"] == "NVML"
    assert found["devices"] == [
        {
            "name": "NVIDIA L4",
            "uuid": "GPU-7",
            "ecc": "on",
            "temperature_c": 50.0,
            "power_w": 71.5,
            "sm_clock_mhz": 2040.0,
            "memory_clock_mhz": 2040.0,
            "memory_gb": 24.0,
            "throttled_by": ["software power cap", "hardware thermal slowdown"],
            "processes": 1,
        }
    ]


def test_env__without_a_driver_nvml_gives_way(
    tools: Tools, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package may be there without the driver's library."""
    tools.nvidia()
    monkeypatch.setitem(sys.modules, "pynvml", a_pynvml(nvmlInit=None))
    assert told(capsys)["probe"] == "nvidia-smi"


def test_env__prints_and_writes(tools: Tools, capsys: Out) -> None:
    """A line a fact for people, a file for `run`."""
    tools.nvidia()
    assert execute(["env"]) == 0
    assert "accelerator        NVIDIA H100 80GB HBM3" in capsys.readouterr().out
    assert execute(["env", "-o", "profiles/environment.json"]) == 0
    assert (
        json.loads(Path("profiles/environment.json").read_text("utf-8"))["accelerator_count"] == 1
    )


def test_env__tells_the_commit_and_whether_it_was_changed(tools: Tools, capsys: Out) -> None:
    """Of the current folder."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x"]
    Path("code.py").write_text("1", encoding="utf-8")
    for words in (["init", "-q"], ["add", "code.py"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    assert len(told(capsys)["git"]["commit"]) == 40
    assert "changed" not in told(capsys)["git"]
    Path("code.py").write_text("2", encoding="utf-8")
    assert told(capsys)["git"]["changed"]


def test_git__a_large_edited_file_is_not_held(tmp_path: Path) -> None:
    """A checkout may have gigabytes of data that somebody has changed."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x"]
    (tmp_path / "data.txt").write_text("a line\n", encoding="utf-8")
    ignored = '[submodule "kernels"]\npath = kernels\nurl = ./kernels\nignore = all\n'
    (tmp_path / ".gitmodules").write_text(ignored, encoding="utf-8")
    (tmp_path / "kernels").mkdir()
    link = ["update-index", "--add", "--cacheinfo"]
    for words in (["init", "-q"], ["add", "."], [*link, f"160000,{1:040x},kernels"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    states = [git_state(tmp_path)]
    for letter in "bc":
        (tmp_path / "data.txt").write_text(f"{letter} line\n" * 2_000_000, encoding="utf-8")
        tracemalloc.start()
        states.append(git_state(tmp_path))
        assert tracemalloc.get_traced_memory()[1] < 4e6
        tracemalloc.stop()
    subprocess.run([*git, *link, f"160000,{2:040x},kernels"], check=True)
    states.append(git_state(tmp_path))
    assert len({state.get("changed") for state in states}) == 4


# --- which devices ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, "abc"),
        ("", "abc"),
        ("1", "b"),
        ("2,0", "ca"),
        ("GPU-b", "b"),
        ("MIG-x", "abc"),
        ("7", "abc"),
    ],
)
def test_devices__those_that_the_program_may_use(visible: str | None, uuids: str) -> None:
    """By CUDA_VISIBLE_DEVICES: the clocks of the others say nothing of it."""
    all_three = [Reading(name="x", uuid=f"GPU-{letter}") for letter in "abc"]
    assert [one.uuid[-1] for one in chosen(all_three, visible)] == list(uuids)


def test_throttles__idle_and_set_clocks_are_none() -> None:
    """NVML's mask also holds reasons that are no trouble."""
    assert throttles_of(0x0001 | 0x0002 | 0x0100) == ()
    assert throttles_of(0x0028) == ("hardware slowdown", "software thermal slowdown")


# --- whose process ------------------------------------------------------------------------------


def test_processes__carry_the_mark_of_their_launch(neighbour: int) -> None:
    """In whatever session; who is not there may be of another container."""
    environment = {"CI_SCORE_MEASUREMENTS": "here"}
    mark = "CI_SCORE_MEASUREMENTS=here"
    process = subprocess.Popen(["/bin/sleep", "60"], env=environment, start_new_session=True)
    try:
        until(lambda: bool(carries(process.pid, mark)))  # it has become `sleep`
        assert process.pid in carriers(mark)
        assert carries(neighbour, mark) is False
        assert carries(4194305, mark) is None
    finally:
        process.kill()
        process.wait()
    assert carriers(mark) == []


# --- what voids a pair --------------------------------------------------------------------------


STEPS = """
import os
launch = int(os.environ["CI_SCORE_LAUNCH"])
for step in range(4):
    print('{"step_ms": %r}' % (10 + 0.01 * ((step + launch) % 3)))
"""
# It tells its number, as a driver would see it on a device, and lives until that has looked.
# While the untimed launch runs nobody looks.
SEEN = """
import time
open("pid", "w").write(str(os.getpid()))
end = time.monotonic() + (0 if "CI_SCORE_HOOK" in os.environ else 20)
while not os.path.exists(f"seen-{os.getpid()}") and time.monotonic() < end:
    time.sleep(0.005)
"""


@pytest.fixture
def sides(tmp_path: Path) -> Path:
    """A script of some steps."""
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
    (tmp_path / "bench.py").write_text(STEPS, encoding="utf-8")
    return tmp_path


def lines(sides: Path) -> list[dict[str, Any]]:
    text = (sides / "perf" / "measurements.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def ab(*more: str) -> int:
    return execute(
        ["ab", "--base", "base", "--head", "head", "--no-profile", "--looks", "6", *more,
         "--", sys.executable, "bench.py"]
    )  # fmt: skip


def test_ab__a_throttled_launch_counts_and_is_named(tools: Tools, sides: Path, capsys: Out) -> None:
    """Heavier work lowers the clocks: a slow launch must not be able to excuse itself by that."""
    tools.nvidia({"clocks_throttle_reasons.active": "0x0000000000000040"})
    assert ab() == 0
    assert "head, pair 1: throttled (hardware thermal slowdown in" in capsys.readouterr().err
    rows = lines(sides)
    assert len(rows) == 12
    assert all("hardware thermal slowdown" in row["disturbances"]["throttled"] for row in rows)


def test_ab__a_power_cap_voids_nothing(tools: Tools, sides: Path) -> None:
    """A device at full work runs into it all the time; it is told."""
    tools.nvidia({"clocks_throttle_reasons.active": "0x0000000000000004"})
    assert ab() == 0
    environment = json.loads((sides / "perf" / "environment.json").read_text("utf-8"))
    assert environment["throttled_share"] == {"software power cap": 1.0}


def test_ab__is_not_judged_where_others_stay_on_the_device(
    tools: Tools, sides: Path, capsys: Out, neighbour: int
) -> None:
    """Whoever was there before, or does not carry the launch's mark; it waits, and then ends."""
    tools.nvidia(processes=[("GPU-0", neighbour)])
    assert ab("--wait", "0.001") == 3
    said = capsys.readouterr().err
    words = "1 other process on the accelerator"
    assert f"pair 1: disturbed ({words}): it is measured again" in said
    assert f"{words}: waiting, up to 0.06 s" in said
    assert f"{words}, still after 0.06 s of waiting; the same command goes on when the" in said
    assert [row["launch"] for row in lines(sides)] == [0, 0]
    # The same command goes on; that of a quiet machine ends it.
    assert ab("--wait", "0.001") == 3
    assert len(lines(sides)) == 4
    tools.nvidia()
    assert ab() == 0
    assert len(lines(sides)) == 4 + 12


@pytest.mark.usefixtures("tools")
def test_ab__waits_before_its_first_launch(
    sides: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is launched on a machine that stays busy; the same command goes on."""
    looks = ["others use 2.0 of 2 CPUs"]
    monkeypatch.setattr(MachineWatch, "others", lambda _, *, was_disturbed: looks[was_disturbed])
    assert ab("--wait", "0.001") == 3
    said = capsys.readouterr().err
    assert "\nothers use 2.0 of 2 CPUs: waiting, up to 0.06 s\n" in said
    assert (
        "others use 2.0 of 2 CPUs, still after 0.06 s of waiting; the same command goes on" in said
    )
    assert not list((sides / "perf").glob("logs/*"))
    looks[0] = ""
    assert ab("--wait", "0.001") == 0


def test_ab__ends_where_others_disturb_more_pairs_than_it_needs(
    tools: Tools, sides: Path, capsys: Out, neighbour: int
) -> None:
    """A choice among that many pairs could prove anything."""
    tools.nvidia(processes=[("GPU-0", neighbour)])
    assert ab() == 3
    said = capsys.readouterr().err
    assert "other processes disturbed 9 pairs, more than the 8 it needs; begin" in said
    assert execute(["run", "--measurements", "perf"]) == 3


def test_ab__measures_a_pair_again_that_others_disturbed(
    tools: Tools, sides: Path, neighbour: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines stay, marked, and the pair in its place has a number of its own."""
    monkeypatch.setattr(accelerators, "TOOL_EVERY", 0.02)
    # The second pair's launches let a visitor in, and live until the driver has seen it.
    (sides / "bench.py").write_text(
        f"{STEPS}\nimport time\nend = time.monotonic() + 20\n"
        "if launch == 1:\n    open('../visited', 'w').close()\n"
        "while os.path.exists('../visited') and time.monotonic() < end:\n    time.sleep(0.005)\n",
        encoding="utf-8",
    )
    visitor = f"""
import os
visited = {str(sides / "visited")!r}
if "pid" in asked and os.path.exists(visited):
    state["processes"] = [("GPU-0", {neighbour})]
    os.remove(visited)
"""
    tools.nvidia()
    source = NVIDIA_SMI.format(state=str(tools.state))
    tools.install(
        "nvidia-smi", source.replace('if "pid" in asked:', f'{visitor}if "pid" in asked:')
    )
    assert ab() == 0
    rows = lines(sides)
    assert sorted({row["launch"] for row in rows}) == list(range(7))
    assert {row["launch"] for row in rows if "shared" in row["disturbances"]} == {1}
    assert ab() == 0
    assert lines(sides) == rows
    assert execute(["run", "--measurements", "perf"]) == 0


def test_ab__counts_a_pair_that_others_disturbed_where_the_policy_accepts_that(
    tools: Tools, sides: Path, neighbour: int
) -> None:
    """As of a script whose work a daemon does, which looks like somebody else."""
    tools.nvidia(processes=[("GPU-0", neighbour)])
    (sides / "policy.toml").write_text("schema = 1\n[environment]\nreject = ['nan']\n", "utf-8")
    assert ab("--config", "policy.toml") == 0
    assert len(lines(sides)) == 12


def test_ab__its_own_processes_are_no_strangers(
    tools: Tools, sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only the device that they are on counts: the other one may be hot."""
    tools.nvidia({}, {"uuid": "GPU-1", "clocks_throttle_reasons.active": "0x40"})
    (sides / "bench.py").write_text(STEPS + SEEN, encoding="utf-8")
    # The driver sees whatever script runs now.
    own = f"""
import os, sys
running = []
for side in ("base", "head"):
    file = os.path.join({str(sides)!r}, side, "pid")
    pid = open(file).read() if os.path.exists(file) else ""
    if pid and os.path.exists("/proc/" + pid) and "pid" in sys.argv[1]:
        running.append(("GPU-0", pid))
        open(os.path.join({str(sides)!r}, side, "seen-" + pid), "w").close()
"""
    monkeypatch.setattr(accelerators, "TOOL_EVERY", 0.02)
    source = NVIDIA_SMI.format(state=str(tools.state)).replace('state["processes"]', "running")
    tools.install("nvidia-smi", own + source)
    assert ab() == 0
    environment = json.loads((sides / "perf" / "environment.json").read_text("utf-8"))
    assert environment["accelerator_count"] == 1
    assert [one["uuid"] for one in environment["devices"]] == ["GPU-0"]
    assert environment["sampled"]["temperature_c"] == {"min": 41.0, "max": 41.0}
    assert "throttled_share" not in environment


def test_ab__of_no_accelerator_disturbs_nothing(tools: Tools, sides: Path) -> None:
    """A machine without one is measured as well."""
    assert ab() == 0
    environment = json.loads((sides / "perf" / "environment.json").read_text("utf-8"))
    assert environment["launches"] == 12
    assert "accelerator" not in environment


# --- load by others on the CPU ------------------------------------------------------------------


def loaded(**seconds: float) -> str:
    """What is said of ten seconds on four CPUs."""
    before = Load(at=0.0, cpus=4, busy=100.0, idle=100.0, stolen=5.0, own=50.0)
    spent = {"busy": 10.0, "idle": 30.0, "stolen": 0.0, "own": 10.0, "at": 10.0} | seconds
    after = {name: getattr(before, name) + value for name, value in spent.items()}
    return load_by_others(before, replace(before, **after))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ({}, ""),
        ({"stolen": 0.3}, ""),
        ({"stolen": 2.0, "idle": 28.0}, "CPU steal 17 %"),
        # All CPUs are busy, with the launch's own threads.
        ({"busy": 40.0, "idle": 0.0, "own": 40.0}, ""),
        ({"busy": 40.0, "idle": 0.0, "own": 35.0}, ""),
        ({"busy": 40.0, "idle": 0.0, "own": 20.0}, "others used 2.0 of 4 CPUs, and none was free"),
        # Others are busy, and leave CPUs free.
        ({"busy": 35.0, "idle": 5.0, "own": 10.0}, ""),
        # The kernel's counters are too coarse for it.
        ({"at": 0.9, "stolen": 2.0}, ""),
    ],
)
def test_load__is_seen_only_where_it_cannot_be_the_launchs_own(
    seconds: dict[str, float], words: str
) -> None:
    """Stolen time, or time of others while no CPU was free."""
    assert loaded(**seconds) == words


@pytest.mark.parametrize(
    ("cpus", "seconds", "before", "after"),
    [
        (2, {"busy": 10.0, "idle": 10.0}, "", "others use 1.0 of 2 CPUs"),
        (2, {"busy": 15.0, "idle": 5.0}, "others use 1.5 of 2 CPUs", "others use 1.5 of 2 CPUs"),
        (2, {"busy": 4.0, "idle": 16.0}, "", ""),
        # One CPU is free: perhaps that is all that a launch needs.
        (64, {"busy": 300.0, "idle": 340.0}, "", "others use 30.0 of 64 CPUs"),
        (64, {"busy": 635.0, "idle": 5.0}, "others use 63.5 of 64 CPUs", "others use 63.5 of 64"),
        (2, {"busy": 2.0, "idle": 17.0, "stolen": 1.0}, "CPU steal 33 %", "CPU steal 33 %"),
        (2, {"busy": 20.0, "idle": 0.0, "at": 0.5}, "", ""),
    ],
)
def test_load__now_is_what_a_launch_would_meet(
    cpus: int, seconds: dict[str, float], before: str, after: str
) -> None:
    """Before the first launch nobody knows what it needs; after a disturbed one it is known."""
    begin = Load(at=0.0, cpus=cpus, busy=100.0, idle=100.0, stolen=5.0, own=50.0)
    spent = {"at": 10.0, "own": 0.0, "stolen": 0.0, **seconds}
    end = replace(begin, **{name: getattr(begin, name) + more for name, more in spent.items()})
    found = [load_now(begin, end, leaves_none=known) for known in (False, True)]
    assert (found[0], found[1].startswith(after), bool(found[1])) == (before, True, bool(after))


def test_load__where_nobody_counts_is_not_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without these counters, or with others."""
    monkeypatch.setattr(load, "COUNTERS", Path("/no/such/file"))
    assert Load.now() is None
    assert load_by_others(None, None) == ""


def test_load__of_others_beside_a_launch_is_told(
    tools: Tools, sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real processes that want every CPU, beside a real launch."""
    monkeypatch.setattr(load, "COUNTERS", Path("/proc/stat"))
    monkeypatch.setattr(load, "LEAST_SECONDS", 0.2)
    monkeypatch.setattr(load, "NONE_FREE", 0.3)
    busy = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass\n"
    # Nobody watches the untimed launch.
    told = "import os\n" + busy.format("0.4 * ('CI_SCORE_HOOK' not in os.environ)")
    (sides / "bench.py").write_text(told + STEPS, encoding="utf-8")
    command = [sys.executable, "-c", busy.format(60)]
    count = 3 * len(os.sched_getaffinity(0))
    others = [subprocess.Popen(command) for _ in range(count)]
    words = ["--dir", "head", "--launches", "2", "--no-profile", "--", sys.executable, "bench.py"]
    try:
        assert execute(["measure", *words]) == 0
    finally:
        for process in others:
            process.kill()
            process.wait()
    found = [row["disturbances"].get("shared", "") for row in lines(sides)]
    assert any(re.search("others used .* CPUs, and none was free|CPU steal", one) for one in found)


def test_order__tells_the_launch_apart(tmp_path: Path) -> None:
    """Its environment names the line that it shall write, and where its code is."""
    (tmp_path / "b").mkdir()
    orders = Orders(
        tmp_path / "perf",
        Command(("run", "--to={out}")),
        {"base": SideSpec(tmp_path / "b"), "head": SideSpec(tmp_path / "h")},
        {"PYTHONPATH": "own"},
    )
    order = orders.timed("base", 3, 7)
    told = order.start.environment
    assert order.start.command == ("run", f"--to={order.out}")
    assert f"CI_SCORE_MEASUREMENTS={told['CI_SCORE_MEASUREMENTS']}" == order.mark
    assert told["CI_SCORE_FOLDERS"] == f"{tmp_path / 'b'}:{tmp_path / 'h'}"
    assert told["PYTHONPATH"] == f"{tmp_path / 'b'}:own"
    assert "CI_SCORE_HOOK" not in told
    told = orders.timed("base", 3, 7, Task("timed", 9, 4)).start.environment
    assert told["PYTHONPATH"].startswith(f"{HOOK}:")
    assert json.loads(told["CI_SCORE_HOOK"])["steps"] == 9
    launch = Launch.model_validate({"schema": 1, "step_ms": [1.0]})
    done = Done(order, launch).void("it broke\n  | its log")
    assert (done.gist, done.launch.failed) == ("base, pair 4: it broke", "it broke")

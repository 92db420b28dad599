"""What the accelerators are and how they fare, from NVML, nvidia-smi or rocm-smi; else nothing.

Every probe answers with readings of one shape. A tool that is not there, or says what is not
understood, leaves a field out: nothing is invented.
"""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

ANSWER_SECONDS = 10.0
# What a device at full work does all the time: it is told, and voids nothing.
POWER_CAP = "software power cap"
# NVML's reasons that mean "slower than it could be"; idle and an applied setting are none.
THROTTLES = {
    0x0004: POWER_CAP,
    0x0008: "hardware slowdown",
    0x0020: "software thermal slowdown",
    0x0040: "hardware thermal slowdown",
    0x0080: "power brake",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One device at one moment; what could not be read is absent."""

    name: str = ""
    uuid: str = ""
    driver: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    throttles: tuple[str, ...] = ()
    processes: frozenset[int] | None = None


class Probe(Protocol):
    """A way to ask the devices."""

    name: str
    # Seconds between two samples: what is a process of its own would disturb what it looks at.
    every: float

    def read(self) -> list[Reading]:
        """All devices now; an empty list where there is none."""
        ...


class NoProbe:
    """A machine without accelerators, or without a tool that knows them."""

    name = "none"
    every = 3600.0

    def read(self) -> list[Reading]:
        """Nothing."""
        return []


class NvmlProbe:
    """Through `nvidia-ml-py`, the extra `ci-score[nvml]`."""

    name = "NVML"
    every = 0.5

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        nvml.nvmlInit()
        self._devices = [
            nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount())
        ]

    def read(self) -> list[Reading]:
        """Every device."""
        return [self._device(device) for device in self._devices]

    def _device(self, device: Any) -> Reading:
        nvml = self._nvml
        numbers: dict[str, float] = {}
        for name, ask in {
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(device, 0),
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
            "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(device, 1),
            "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(device, 2),
            "memory_gb": lambda: nvml.nvmlDeviceGetMemoryInfo(device).total / 1e9,
        }.items():
            found = self._asked(ask)
            if found is not None:
                numbers[name] = float(found)
        reasons = self._asked(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)) or 0
        running = self._asked(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(device))
        mig = self._asked(lambda: nvml.nvmlDeviceGetMigMode(device)[0])
        ecc = self._asked(lambda: nvml.nvmlDeviceGetEccMode(device)[0])
        facts = {"mig": mig, "ecc": ecc}
        return Reading(
            name=_text(self._asked(lambda: nvml.nvmlDeviceGetName(device))),
            uuid=_text(self._asked(lambda: nvml.nvmlDeviceGetUUID(device))),
            driver=_text(self._asked(nvml.nvmlSystemGetDriverVersion)),
            facts={
                key: "on" if value else "off" for key, value in facts.items() if value is not None
            },
            numbers=numbers,
            throttles=throttles_of(int(reasons)),
            processes=frozenset(row.pid for row in running) if running is not None else None,
        )

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (self._nvml.NVMLError, AttributeError):  # or this version does not know the call
            return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def throttles_of(bits: int) -> tuple[str, ...]:
    """The names of the reasons in NVML's mask."""
    return tuple(name for bit, name in THROTTLES.items() if bits & bit)


_FIELDS = {
    "name": "name",
    "uuid": "uuid",
    "driver_version": "driver",
    "temperature.gpu": "temperature_c",
    "power.draw": "power_w",
    "clocks.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "memory.total": "memory_mib",
    "clocks_throttle_reasons.active": "throttles",
    # What drivers since 535 call the same.
    "clocks_event_reasons.active": "throttles",
    "mig.mode.current": "mig",
    "ecc.mode.current": "ecc",
}


class NvidiaSmiProbe:
    """Through the tool that comes with the driver."""

    name = "nvidia-smi"
    every = 2.0

    def __init__(self, run: Callable[[Sequence[str]], str]) -> None:
        self._run = run
        self._fields = dict(_FIELDS)

    def read(self) -> list[Reading]:
        """Every device."""
        rows = self._table()
        running = self._processes()
        return [self._device(row, running) for row in rows if row.get("name")]

    def _device(self, row: Mapping[str, str], running: dict[str, set[int]] | None) -> Reading:
        numbers = {}
        for name in ("temperature_c", "power_w", "sm_clock_mhz", "memory_clock_mhz", "memory_mib"):
            with suppress(KeyError, ValueError):
                numbers[name] = float(row[name])
        if "memory_mib" in numbers:
            numbers["memory_gb"] = numbers.pop("memory_mib") * 1.048576e-3
        bits = 0
        with suppress(KeyError, ValueError):
            bits = int(row["throttles"], 16)
        facts = {"mig": row.get("mig", ""), "ecc": row.get("ecc", "")}
        known = {"Enabled": "on", "Disabled": "off"}
        return Reading(
            name=row["name"],
            uuid=row.get("uuid", ""),
            driver=row.get("driver", ""),
            facts={key: known[value] for key, value in facts.items() if value in known},
            numbers=numbers,
            throttles=throttles_of(bits),
            processes=frozenset(running.get(row.get("uuid", ""), set()))
            if running is not None
            else None,
        )

    def _processes(self) -> dict[str, set[int]] | None:
        try:
            text = self._run(
                ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"]
            )
        except HangsError:
            raise
        except OSError:
            return None
        found: dict[str, set[int]] = {}
        for row in csv.reader(io.StringIO(text), skipinitialspace=True):
            if len(row) == 2 and row[1].strip().isdigit():
                found.setdefault(row[0].strip(), set()).add(int(row[1]))
        return found

    def _table(self) -> list[dict[str, str]]:
        """A row a device; a field that this driver does not know is asked for no more."""
        wanted = self._fields
        while wanted:
            query = f"--query-gpu={','.join(wanted)}"
            try:
                text = self._run(["nvidia-smi", query, "--format=csv,noheader,nounits"])
            except UnknownFieldError as error:
                if error.field not in wanted:
                    return []
                del wanted[error.field]
                continue
            except HangsError:
                raise
            except OSError:
                return []
            rows = csv.reader(io.StringIO(text), skipinitialspace=True)
            return [
                dict(zip(wanted.values(), map(str.strip, row), strict=True))
                for row in rows
                if len(row) == len(wanted)
            ]
        return []


class UnknownFieldError(OSError):
    """The driver does not know a field."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(f"unknown field {field}")


class RocmSmiProbe:
    """Through AMD's tool."""

    name = "rocm-smi"
    every = 2.0

    def __init__(self, run: Callable[[Sequence[str]], str]) -> None:
        self._run = run

    def read(self) -> list[Reading]:
        """Every card."""
        try:
            text = self._run(
                ["rocm-smi", "--showproductname", "--showuniqueid", "--showdriverversion",
                 "--showtemp", "--showpower", "--showclocks", "--json"]
            )  # fmt: skip
            cards = json.loads(text)
        except HangsError:
            raise
        except (OSError, ValueError):
            return []
        if not isinstance(cards, dict):
            return []
        system = cards.get("system", {})
        driver = system.get("Driver version", "") if isinstance(system, dict) else ""
        return [
            self._card(card, str(driver))
            for key, card in sorted(cards.items())
            if key.startswith("card") and isinstance(card, dict)
        ]

    def _card(self, card: Mapping[str, Any], driver: str) -> Reading:
        numbers = {}
        for key, value in card.items():
            lowered = key.lower()
            name = next((ours for words, ours in _ROCM if all(w in lowered for w in words)), None)
            with suppress(ValueError):
                if name is not None and name not in numbers:
                    numbers[name] = float(str(value).strip("()").removesuffix("Mhz"))
        names = (card.get("Card Series"), card.get("Card series"), card.get("Card Model"))
        return Reading(
            name=str(next((name for name in names if name), "")),
            uuid=str(card.get("Unique ID", "")),
            driver=driver,
            numbers=numbers,
        )


_ROCM = (
    (("temperature", "junction"), "temperature_c"),
    (("power",), "power_w"),
    (("sclk", "speed"), "sm_clock_mhz"),
    (("mclk", "speed"), "memory_clock_mhz"),
)


def asked(command: Sequence[str]) -> str:
    """What a tool prints; OSError where it is not there, hangs or fails."""
    process = subprocess.Popen(  # noqa: S603 - fixed commands: the driver's tools, and git
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with suppress(subprocess.TimeoutExpired):
        out, _ = process.communicate(timeout=ANSWER_SECONDS)
        if process.returncode == 0:
            return out
        marker = 'Field "'
        if marker in out:
            raise UnknownFieldError(out.split(marker, 1)[1].split('"', 1)[0])
        raise OSError(f"{command[0]} failed")
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # A tool that hangs in a driver cannot even be killed, and is not waited for.
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=1.0)
    raise HangsError(f"{command[0]} did not answer")


class HangsError(OSError):
    """A tool did not answer: it is not asked again."""


def chosen(readings: list[Reading], visible: str | None) -> list[Reading]:
    """The devices that a program may use, by CUDA_VISIBLE_DEVICES or the like; else all of them.

    What it names otherwise than by number or UUID cannot be told, and leaves all.
    """
    if not visible or not visible.strip():
        return readings
    found = []
    for word in map(str.strip, visible.split(",")):
        if word.isdigit() and int(word) < len(readings):
            found.append(readings[int(word)])
        else:
            found += [one for one in readings if one.uuid and one.uuid.startswith(word)][:1]
    return found or readings


class OnceBitten:
    """A probe that is asked no more when it has hung."""

    def __init__(self, probe: Probe) -> None:
        self._probe: Probe | None = probe
        self.name, self.every = probe.name, probe.every

    def read(self) -> list[Reading]:
        """What the probe says, as long as it answers."""
        if self._probe is None:
            return []
        try:
            return self._probe.read()
        except HangsError:
            self._probe = None
            return []


def find_probe(run: Callable[[Sequence[str]], str] = asked) -> Probe:
    """The first way that finds a device."""
    candidates: list[Callable[[], Probe]] = [
        lambda: NvmlProbe(import_module("pynvml")),
        lambda: NvidiaSmiProbe(run),
        lambda: RocmSmiProbe(run),
    ]
    for make in candidates:
        try:
            probe = OnceBitten(make())
            if probe.read():
                return probe
        except Exception:  # noqa: BLE001, S112 - a driver may fail in any way; then it is not asked
            continue
    return NoProbe()

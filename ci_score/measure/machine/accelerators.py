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
from functools import partial
from importlib import import_module
from typing import Any

ANSWER_SECONDS = 10.0
# Seconds between two samples: what is a process of its own would disturb what it looks at.
MODULE_EVERY, TOOL_EVERY = 0.5, 2.0
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


class HangsError(Exception):
    """A tool did not answer: it is not asked again."""


class UnknownFieldError(OSError):
    """The driver does not know a field."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(f"unknown field {field}")


@dataclass(slots=True)
class Probe:
    """A way to ask the devices, so many seconds apart."""

    name: str
    every: float
    _ask: Callable[[], list[Reading]]

    def read(self) -> list[Reading]:
        """All devices now; none where there is none, or where the tool has hung before."""
        try:
            return self._ask()
        except HangsError:
            self._ask = list
            return []


def find_probe() -> Probe:
    """The first way that finds a device."""
    ways: tuple[tuple[str, float, Callable[[], Callable[[], list[Reading]]]], ...] = (
        ("NVML", MODULE_EVERY, _nvml),
        ("nvidia-smi", TOOL_EVERY, lambda: partial(_nvidia_smi, dict(_FIELDS))),
        ("rocm-smi", TOOL_EVERY, lambda: _rocm_smi),
    )
    for name, every, prepared in ways:
        try:
            probe = Probe(name, every, prepared())
            if probe.read():
                return probe
        except Exception:  # noqa: BLE001, S112 - a driver may fail in any way; then it is not asked
            continue
    return Probe("none", 3600.0, list)


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


def throttles_of(bits: int) -> tuple[str, ...]:
    """The names of the reasons in NVML's mask."""
    return tuple(name for bit, name in THROTTLES.items() if bits & bit)


# --- NVML ---------------------------------------------------------------------------------------


def _nvml() -> Callable[[], list[Reading]]:
    """Through `nvidia-ml-py`, the extra `ci-score[nvml]`."""
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    devices = [nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount())]
    return lambda: [_nvml_device(nvml, device) for device in devices]


def _nvml_device(nvml: Any, device: Any) -> Reading:
    def known(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (nvml.NVMLError, AttributeError):  # or this version does not know the call
            return None

    numbers = {
        "temperature_c": known(lambda: nvml.nvmlDeviceGetTemperature(device, 0)),
        "power_w": known(lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1000),
        "sm_clock_mhz": known(lambda: nvml.nvmlDeviceGetClockInfo(device, 1)),
        "memory_clock_mhz": known(lambda: nvml.nvmlDeviceGetClockInfo(device, 2)),
        "memory_gb": known(lambda: nvml.nvmlDeviceGetMemoryInfo(device).total / 1e9),
    }
    facts = {
        "mig": known(lambda: nvml.nvmlDeviceGetMigMode(device)[0]),
        "ecc": known(lambda: nvml.nvmlDeviceGetEccMode(device)[0]),
    }
    reasons = known(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)) or 0
    running = known(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(device))
    return Reading(
        name=_text(known(lambda: nvml.nvmlDeviceGetName(device))),
        uuid=_text(known(lambda: nvml.nvmlDeviceGetUUID(device))),
        driver=_text(known(nvml.nvmlSystemGetDriverVersion)),
        facts={key: "on" if value else "off" for key, value in facts.items() if value is not None},
        numbers={key: float(value) for key, value in numbers.items() if value is not None},
        throttles=throttles_of(int(reasons)),
        processes=frozenset(row.pid for row in running) if running is not None else None,
    )


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


# --- nvidia-smi ---------------------------------------------------------------------------------

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


def _nvidia_smi(fields: dict[str, str]) -> list[Reading]:
    """Through the tool that comes with the driver; what it does not know leaves the `fields`."""
    rows, running = _smi_table(fields), _smi_processes()
    return [_smi_device(row, running) for row in rows if row.get("name")]


def _smi_device(row: Mapping[str, str], running: Mapping[str, set[int]] | None) -> Reading:
    numbers = {}
    for name in ("temperature_c", "power_w", "sm_clock_mhz", "memory_clock_mhz", "memory_mib"):
        with suppress(KeyError, ValueError):
            numbers[name] = float(row[name])
    if "memory_mib" in numbers:
        numbers["memory_gb"] = numbers.pop("memory_mib") * 1.048576e-3
    bits = 0
    with suppress(KeyError, ValueError):
        bits = int(row["throttles"], 16)
    known, uuid = {"Enabled": "on", "Disabled": "off"}, row.get("uuid", "")
    return Reading(
        name=row["name"],
        uuid=uuid,
        driver=row.get("driver", ""),
        facts={key: known[row[key]] for key in ("mig", "ecc") if row.get(key) in known},
        numbers=numbers,
        throttles=throttles_of(bits),
        processes=frozenset(running.get(uuid, ())) if running is not None else None,
    )


def _smi_processes() -> dict[str, set[int]] | None:
    try:
        rows = _smi_rows("--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader")
    except OSError:
        return None
    found: dict[str, set[int]] = {}
    for row in rows:
        if len(row) == 2 and row[1].isdigit():
            found.setdefault(row[0], set()).add(int(row[1]))
    return found


def _smi_table(fields: dict[str, str]) -> list[dict[str, str]]:
    """A row a device; a field that this driver does not know is asked for no more."""
    while fields:
        try:
            rows = _smi_rows(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        except UnknownFieldError as error:
            if error.field not in fields:
                return []
            del fields[error.field]
        except OSError:
            return []
        else:
            whole = (row for row in rows if len(row) == len(fields))
            return [dict(zip(fields.values(), row, strict=True)) for row in whole]
    return []


def _smi_rows(*arguments: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(asked(["nvidia-smi", *arguments])), skipinitialspace=True)
    return [[word.strip() for word in row] for row in rows]


# --- rocm-smi -----------------------------------------------------------------------------------

_ROCM = (
    (("temperature", "junction"), "temperature_c"),
    (("power",), "power_w"),
    (("sclk", "speed"), "sm_clock_mhz"),
    (("mclk", "speed"), "memory_clock_mhz"),
)


def _rocm_smi() -> list[Reading]:
    """Through AMD's tool."""
    try:
        cards = json.loads(
            asked(
                ["rocm-smi", "--showproductname", "--showuniqueid", "--showdriverversion",
                 "--showtemp", "--showpower", "--showclocks", "--json"]
            )
        )  # fmt: skip
    except (OSError, ValueError):
        return []
    if not isinstance(cards, dict):
        return []
    system = cards.get("system", {})
    driver = system.get("Driver version", "") if isinstance(system, dict) else ""
    return [
        _rocm_card(card, str(driver))
        for key, card in sorted(cards.items())
        if key.startswith("card") and isinstance(card, dict)
    ]


def _rocm_card(card: Mapping[str, Any], driver: str) -> Reading:
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


# --- a tool -------------------------------------------------------------------------------------


def asked(command: Sequence[str]) -> str:
    """What a tool prints; OSError where it is not there or fails, HangsError where it hangs."""
    process = subprocess.Popen(  # noqa: S603 - fixed commands: the driver's tools, and git
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # A group of its own, and our session: in others are the processes of launches.
        process_group=0,
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

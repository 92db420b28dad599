"""environment.json: what a measurement ran on, and what disturbed it.

The static part is read once. A watch samples the accelerators during each launch: clocks that were
held down, or another process on the device, void the pair that they fell into.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from ci_score.files import write_atomically
from ci_score.measure.accelerators import Probe, Reading, asked, find_probe
from ci_score.measure.launching import Done

FILE = "environment.json"
SCHEMA = 1
SAMPLE_SECONDS = 0.5
# A moment of a throttled clock is normal; this share of a launch's samples is not.
THROTTLED_SHARE = 0.1
KEPT_SAMPLES = 50
PACKAGES = ("torch", "jax", "jaxlib", "tensorflow", "triton", "transformers", "numpy", "ci-score")


class MachineWatch:
    """Samples the accelerators during launches, and keeps what it saw."""

    def __init__(self, probe: Probe | None = None, every: float = SAMPLE_SECONDS) -> None:
        self._probe = probe or find_probe()
        self._every = every
        self._readings: list[Reading] = []
        self._disturbed: dict[str, int] = {}
        self._launches = 0
        self._strangers: frozenset[int] = frozenset()

    def disturbances(self, run: Callable[[], Done]) -> tuple[Done, Mapping[str, str]]:
        """What the launch did, and what disturbed it."""
        before = _pids(self._probe.read())
        self._strangers = frozenset()
        samples: list[Reading] = []
        stop = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(samples, stop), daemon=True)
        sampler.start()
        try:
            done = run()
        finally:
            stop.set()
            sampler.join()
        self._launches += 1
        self._readings += samples[-KEPT_SAMPLES:]
        found = {**_throttled(samples), **_shared(before | self._strangers)}
        for what in found:
            self._disturbed[what] = self._disturbed.get(what, 0) + 1
        return done, found

    def seen(self) -> dict[str, Any]:
        """The environment, with the range of what was sampled."""
        known = machine(self._probe)
        ranges: dict[str, list[float]] = {}
        for reading in self._readings:
            for name, number in reading.numbers.items():
                low, high = ranges.setdefault(name, [number, number])
                ranges[name] = [min(low, number), max(high, number)]
        return {
            **known,
            "sampled": {name: {"min": low, "max": high} for name, (low, high) in ranges.items()},
            "launches": self._launches,
            "disturbed_launches": self._disturbed,
        }

    def _sample(self, samples: list[Reading], stop: threading.Event) -> None:
        while not stop.is_set():
            readings = self._probe.read()
            samples += readings
            self._strangers |= {pid for pid in _pids(readings) if _is_stranger(pid)}
            stop.wait(self._every)


def _pids(readings: list[Reading]) -> frozenset[int]:
    return frozenset(pid for reading in readings for pid in reading.processes or ())


def _is_stranger(pid: int) -> bool:
    """Whether a process is surely not of the launch, which has a session of its own under us.

    In a container the driver may tell the host's numbers, which mean nothing here.
    """
    try:
        leader = os.getsid(pid)
        stat = Path(f"/proc/{leader}/stat").read_text(encoding="utf-8", errors="replace")
        parent = int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return False
    return parent != os.getpid()


def _throttled(samples: list[Reading]) -> dict[str, str]:
    slow = [reading for reading in samples if reading.throttles]
    if not samples or len(slow) <= THROTTLED_SHARE * len(samples):
        return {}
    reasons = sorted({reason for reading in slow for reason in reading.throttles})
    return {"throttled": f"{', '.join(reasons)} in {len(slow)} of {len(samples)} samples"}


def _shared(before: frozenset[int]) -> dict[str, str]:
    """Who was on the device before the launch began is not part of it."""
    if not before:
        return {}
    return {"shared": f"{len(before)} other processes on the accelerator"}


def machine(probe: Probe | None = None) -> dict[str, Any]:
    """Everything that is known of this machine now; what is not known is not there."""
    probe = probe or find_probe()
    readings = probe.read()
    first = readings[0] if readings else Reading()
    versions = {
        "python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := _version(name))},
        **({"driver": first.driver} if first.driver else {}),
        **({"cuda": cuda} if (cuda := _cuda()) else {}),
    }
    known: dict[str, Any] = {
        "schema": SCHEMA,
        "accelerator": first.name or None,
        "accelerator_count": len(readings) or None,
        "devices": [
            {"name": one.name, "uuid": one.uuid, **one.facts, **one.numbers} for one in readings
        ],
        "probe": probe.name,
        "versions": versions,
        "cpu": {key: value for key, value in _cpu().items() if value not in (None, "")},
        "memory_gb": _memory_gb(),
        "git": _git(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return {key: value for key, value in known.items() if value not in (None, [], {}, "")}


def write_environment(folder: Path, found: Mapping[str, Any]) -> Path:
    """Puts environment.json beside the measurements."""
    path = folder / FILE
    write_atomically(path, json.dumps(found, indent=2) + "\n")
    return path


def _version(package: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _cuda() -> str | None:
    """CUDA's version as torch was built for it; torch is not imported for that."""
    version = _version("torch") or ""
    _, plus, local = version.partition("+")
    return local if plus and local.startswith(("cu", "rocm")) else None


def _cpu() -> dict[str, Any]:
    return {
        "name": _cpu_name(),
        "count": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "governor": _line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu_name() -> str:
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as rows:
        for row in rows:
            key, _, value = row.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor()


def _memory_gb() -> float | None:
    with suppress(OSError, ValueError, IndexError):
        for row in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if row.startswith("MemTotal:"):
                return round(int(row.split()[1]) * 1024 / 1e9, 1)
    return None


def _line(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8").strip()
    return ""


def _git() -> dict[str, Any]:
    """The commit of the current folder, where git and a repository are."""
    try:
        commit = asked(["git", "rev-parse", "HEAD"]).strip()
        changed = asked(["git", "status", "--porcelain", "--untracked-files=no"]).strip()
    except OSError:
        return {}
    return {"commit": commit, "changed": bool(changed)}

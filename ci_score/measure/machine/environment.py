"""environment.json: what a measurement ran on, and how its accelerators fared.

The static part is read once. A watch samples the accelerators during each launch: clocks that were
held down are told, and a pair with somebody else on its devices or its CPUs is measured again.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import file_digest, sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ci_score.files.disk import open_plain, write_atomically
from ci_score.measure.launch.launching import Done
from ci_score.measure.launch.orders import Order
from ci_score.measure.machine.accelerators import (
    POWER_CAP,
    HangsError,
    Probe,
    Reading,
    asked,
    chosen,
    find_probe,
)
from ci_score.measure.machine.load import Load, load_by_others
from ci_score.measure.machine.processes import carries
from ci_score.measure.recorder import VERSIONED
from ci_score.model.lists import plural

if TYPE_CHECKING:
    from io import BufferedReader

FILE = "environment.json"
SCHEMA = 1
# Which devices a program may use: of CUDA, and of ROCm.
VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# A moment of a throttled clock is normal; this share of a launch's samples is not.
THROTTLED_SHARE = 0.1
# What differs from the commit, whatever .gitmodules leaves out. Names alone: a diff of their lines
# takes git ten times a file's size.
_CHANGED = ("-c", "diff.relative=false", "diff", "--name-only", "-z", "--no-renames",
            "--ignore-submodules=none", "HEAD", "--", ".")  # fmt: skip


class MachineWatch:
    """Samples the accelerators during launches, and keeps what it saw."""

    def __init__(self, probe: Probe, visible: str | None = None) -> None:
        self._probe = probe
        self._visible = visible
        self._ranges: dict[str, list[float]] = {}
        self._throttled: Counter[str] = Counter()
        self._used: set[str] = set()
        self._disturbed: Counter[str] = Counter()
        self._samples = 0
        self.launches = 0

    def disturbances(self, order: Order, run: Callable[[], Done]) -> tuple[Done, Mapping[str, str]]:
        """What the launch did, and what disturbed it."""
        before = self._read()
        samples: list[tuple[Reading, frozenset[int]]] = []
        stop = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(samples, stop, order), daemon=True)
        sampler.start()
        load = Load.now()
        try:
            done = run()
        finally:
            stop.set()
            sampler.join()
        others = load_by_others(load, Load.now(), knows_own=not done.outlived_by)
        self.launches += 1
        self._used |= {
            one.uuid for one, strangers in samples if (one.processes or set()) - strangers
        }
        # Where it is known which devices the launch used, nobody cares about the others.
        counted = [row for row in samples if self._is_used(row[0])]
        self._remember(reading for reading, _ in counted)
        already = {pid for one in before if self._is_used(one) for pid in one.processes or ()}
        strangers = already.union(*(strangers for _, strangers in counted))
        found = {**_throttled([reading for reading, _ in counted]), **_shared(strangers, others)}
        self._disturbed.update(found.keys())
        return done, found

    def seen(self, versions: Mapping[str, str]) -> dict[str, Any]:
        """The environment, with what was sampled; the launches tell their own `versions`."""
        devices = [one for one in self._read() if self._is_used(one)]
        sampled = {name: {"min": low, "max": high} for name, (low, high) in self._ranges.items()}
        throttled = {reason: count / self._samples for reason, count in self._throttled.items()}
        return {
            **machine(self._probe.name, devices, versions),
            **({"sampled": sampled} if sampled else {}),
            **({"throttled_share": throttled} if throttled else {}),
            "launches": self.launches,
            **({"disturbed_launches": self._disturbed} if self._disturbed else {}),
        }

    def _read(self) -> list[Reading]:
        return chosen(self._probe.read(), self._visible)

    def _is_used(self, reading: Reading) -> bool:
        return not self._used or reading.uuid in self._used

    def _sample(
        self,
        samples: list[tuple[Reading, frozenset[int]]],
        stop: threading.Event,
        order: Order,
    ) -> None:
        while not stop.is_set():
            for reading in self._read():
                pids = reading.processes or frozenset()
                # Asked at once: a process that is gone cannot be asked whose it was.
                strangers = frozenset(pid for pid in pids if carries(pid, order.mark) is False)
                samples.append((reading, strangers))
            stop.wait(self._probe.every)

    def _remember(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            self._samples += 1
            for name, number in reading.numbers.items():
                low, high = self._ranges.get(name, (number, number))
                self._ranges[name] = [min(low, number), max(high, number)]
            self._throttled.update(reading.throttles)


def _throttled(samples: Sequence[Reading]) -> dict[str, str]:
    slow = [found for one in samples if (found := frozenset(one.throttles) - {POWER_CAP})]
    if len(slow) <= THROTTLED_SHARE * len(samples):
        return {}
    reasons = ", ".join(sorted(frozenset().union(*slow)))
    return {"throttled": f"{reasons} in {len(slow)} of {len(samples)} samples"}


def _shared(strangers: set[int], load: str) -> dict[str, str]:
    count = len(strangers)
    others = f"{plural(count, 'other process')} on the accelerator"
    words = "; ".join(filter(None, (others if count else "", load)))
    return {"shared": words} if words else {}


def machine(probe: str, devices: Sequence[Reading], versions: Mapping[str, str]) -> dict[str, Any]:
    """Everything that is known of this machine now; what is not known is not there."""
    first = devices[0] if devices else Reading()
    known: dict[str, Any] = {
        "schema": SCHEMA,
        "accelerator": first.name,
        "accelerator_count": len(devices) or None,
        "devices": [_device(one) for one in devices],
        "probe": probe,
        "versions": {**versions, **({"driver": first.driver} if first.driver else {})},
        "cpu": {key: value for key, value in _cpu().items() if value not in (None, "")},
        "memory_gb": _memory_gb(),
        "container": _container(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return {key: value for key, value in known.items() if value not in (None, [], {}, "")}


def _device(reading: Reading) -> dict[str, Any]:
    known = {
        "name": reading.name,
        "uuid": reading.uuid,
        **reading.facts,
        **reading.numbers,
        "throttled_by": list(reading.throttles),
        "processes": None if reading.processes is None else len(reading.processes),
    }
    return {key: value for key, value in known.items() if value not in (None, [], "")}


def visible_devices(environment: Mapping[str, str]) -> str | None:
    """Which accelerators a program may use, as its environment says it."""
    return next((environment[name] for name in VISIBLE_DEVICES if environment.get(name)), None)


def this_machine(environment: Mapping[str, str]) -> dict[str, Any]:
    """The machine as it is now, with the versions of ci-score's own Python."""
    probe = find_probe()
    devices = chosen(probe.read(), visible_devices(environment))
    known = machine(probe.name, devices, own_versions())
    git = git_state(Path.cwd())
    return {**known, "git": git} if git else known


def write_environment(folder: Path, found: Mapping[str, Any]) -> Path:
    """Puts environment.json beside the measurements."""
    path = folder / FILE
    write_atomically(path, json.dumps(found, indent=2) + "\n")
    return path


def own_versions() -> dict[str, str]:
    """Of the packages beside this one; CUDA's is the one that torch was built for."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    _, plus, built_for = found.get("torch", "").partition("+")
    return {**found, "cuda": built_for} if plus and built_for.startswith(("cu", "rocm")) else found


def _cpu() -> dict[str, Any]:
    return {
        "name": _value_in("/proc/cpuinfo", ":", "model name", "Model") or platform.processor(),
        "count": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load": round(os.getloadavg()[0], 2),
    }


def _memory_gb() -> float | None:
    kib = _value_in("/proc/meminfo", ":", "MemTotal").partition(" ")[0]
    return round(int(kib) * 1024 / 1e9, 1) if kib.isdigit() else None


def _container() -> str:
    """The image where the engine tells it, else that it is a container."""
    image = _value_in("/run/.containerenv", "=", "image").strip('"')
    return image or ("docker" if Path("/.dockerenv").exists() else "")


def _value_in(path: str, separator: str, *keys: str) -> str:
    """What a file of the system says of the first of the keys that it has; empty for nothing."""
    rows = (row.partition(separator) for row in _text(path).splitlines())
    return next((value.strip() for key, _, value in rows if key.strip() in keys), "")


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    return ""


def git_state(folder: Path) -> dict[str, str]:
    """The commit of a folder's work tree and a mark of what was changed since, where git knows.

    Nothing where a folder that git ignores lies in somebody's work tree.
    """
    if not tree_of(folder):
        return {}
    try:
        commit = asked(["git", "-C", str(folder), "rev-parse", "HEAD"]).strip()
        changed = asked(["git", "-C", str(folder), *_CHANGED]).split("\0")[:-1]
        top = Path(asked(["git", "-C", str(folder), "rev-parse", "--show-toplevel"]).rstrip("\n"))
    except (OSError, HangsError):
        return {}
    if not changed:
        return {"commit": commit}
    digest = sha256()
    for name in changed:
        digest.update(f"{name}\0{_mark_of(top / name)}\0".encode())
    return {"commit": commit, "changed": digest.hexdigest()[:16]}


def _mark_of(path: Path) -> str:
    """The digest of a file, the target of a link, the commit of a submodule; empty if gone."""
    with suppress(OSError):
        if path.is_symlink():
            return os.fsencode(path.readlink()).hex()
        if path.is_dir():
            return tree_of(path)
        with open_plain(path) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            return f"{mode} {file_digest(cast('BufferedReader', stream), 'sha256').hexdigest()}"
    return ""


def tree_of(folder: Path) -> str:
    """The mark of a folder's files in its commit, where git knows it."""
    try:
        return asked(["git", "-C", str(folder), "rev-parse", "HEAD:./"]).strip()
    except (OSError, HangsError):
        return ""

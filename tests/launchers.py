"""Launchers as a user has them: `python -m tests.launchers`; after `image`.

An upgrade of torch is reviewed like code: one `train.py` in two real containers, whose images hold
two releases of the stand-in for torch. `podman` is a script on PATH, because the containers of a
machine without a registry are known to its tool alone. No machine of this project has SLURM: `srun`
is a stand-in that checks what it is called with and runs the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders import PROJECT

CONTAINER = PROJECT / ".ci" / "container"
# The release of the stand-in in each image, and how much longer its work takes.
IMAGES = {"ci-score-torch:old": ("2.12.0", 1.0), "ci-score-torch:new": ("2.13.0", 1.5)}
DOCKERFILE = """\
ARG BASE=docker.io/library/python:3.12-slim
FROM ${BASE}
COPY packages /usr/local/lib/python3.12/site-packages
"""
# Without the folder of the script, or the tool would find it instead of podman.
PODMAN = f"""\
#!/bin/sh
PATH=${{PATH#*:}} exec {CONTAINER} engine "$@"
"""
SRUN = """\
#!/bin/sh
[ "$1 $2" = "--export=ALL -N1" ] && shift 2 && SLURMD_NODENAME=n1 exec "$@"
"""
TRAIN = """\
import torch

weight = torch.tensor(1.0, requires_grad=True, size=1000)
optimizer = torch.optim.AdamW([weight])
while True:
    optimizer.zero_grad()
    loss = weight * 2.0
    torch.work(10)
    loss.backward()
    optimizer.step()
"""
QUIET = "schema = 1\n[environment]\nreject = ['nan']\n"
# The stand-in's device takes as long as it is told, however busy the machine is.
DEVICE = "STANDIN_TORCH_DEVICE=cuda"
HANG = "import time\ntime.sleep(600)\n"


@dataclass(frozen=True)
class Done:
    """What ci-score did."""

    code: int
    printed: str


class Scene:
    """A folder with both sides, and the launchers first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for side in ("base", "head"):
            for name, text in (("train.py", TRAIN), ("hang.py", HANG)):
                (folder / side).mkdir(exist_ok=True)
                (folder / side / name).write_text(text, encoding="utf-8")
        # Others may share the machine: what they do is no reason to measure again.
        (folder / "policy.toml").write_text(QUIET, encoding="utf-8")
        (folder / "bin").mkdir()
        for name, text in (("podman", PODMAN), ("srun", SRUN)):
            program = folder / "bin" / name
            program.write_text(text, encoding="utf-8")
            program.chmod(0o755)

    def ci_score(self, *words: str, **variables: str) -> Done:
        """Runs ci-score in the folder, as somebody at a machine of their own."""
        known = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
        environment = {
            **known,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.folder / "state"),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-m", "ci_score", *words], cwd=self.folder, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout)

    def environment(self) -> dict[str, Any]:
        """What the measurements say that they ran on."""
        found: dict[str, Any] = json.loads((self.folder / "perf/environment.json").read_text())
        return found


def engine(*words: str) -> str:
    done = subprocess.run([str(CONTAINER), "engine", *words], capture_output=True, text=True,
                          check=True)  # fmt: skip
    return done.stdout


def build(folder: Path) -> None:
    """The images; the tool has the base of both, because `.ci/image` has built ours on it."""
    for tag, (version, share) in IMAGES.items():
        context = folder / tag.rpartition(":")[2]
        package = context / "packages" / "torch"
        shutil.copytree(PROJECT / "tests" / "builders" / "standin_torch" / "torch", package)
        module = package / "__init__.py"
        slower = f"\n_work = work\n\n\ndef work(ms):\n    _work({share} * ms)\n"
        text = module.read_text("utf-8").replace("2.13.0+standin", f"{version}+standin") + slower
        module.write_text(text, encoding="utf-8")
        told = package.with_name(f"torch-{version}.dist-info") / "METADATA"
        told.parent.mkdir()
        told.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n", "utf-8")
        (context / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
        engine("build", "--tag", tag, str(context))


def containers(place: Path) -> list[str]:
    """Those that are there still and see the folder: other launches are not ours."""
    rows = engine("ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.Mounts}}").splitlines()
    return [row for row in rows if row.startswith("ci-score-") and str(place) in row]


def podman(image: str) -> str:
    return f"podman run {image}"


OLD, NEW = IMAGES


def reviews_an_upgrade_of_torch(scene: Scene) -> None:
    """The same script in two images is slower in the new one, and the report says what differs."""
    done = scene.ci_score(
        "ab", "--base", "base", "--head", "head", "--base-launcher", podman(OLD),
        "--head-launcher", podman(NEW), "--head-env", "HF_TOKEN=s3cret", "--steps", "10",
        "--base-env", DEVICE, "--head-env", DEVICE, "--config", "policy.toml",
        "--settle-steps", "20", "--no-profile", "--", "python", "train.py",
    )  # fmt: skip
    assert done.code == 0, done.printed
    assert "outlived" not in done.printed, done.printed
    differs = {(row["kind"], row["name"]): row for row in scene.environment()["differs"]}
    assert differs["launcher", "launcher"]["base"] == podman(OLD)
    assert differs["launcher", "launcher"]["head"] == podman(NEW)
    assert differs["package", "torch"]["base"].startswith("2.12.0")
    assert differs["package", "torch"]["head"].startswith("2.13.0")
    assert differs["variable", "HF_TOKEN"]["head"] == "set"
    left = [path for path in scene.folder.rglob("*") if path.is_file()]
    assert not [path for path in left if b"s3cret" in path.read_bytes()]
    judged = scene.ci_score("run", "--measurements", "perf", "--config", "policy.toml",
                            GITHUB_WORKSPACE=str(scene.folder))  # fmt: skip
    assert judged.code == 1, judged.printed
    assert "torch 2.12.0 → 2.13.0" in judged.printed, judged.printed
    print(judged.printed.splitlines()[0])  # noqa: T201 - its output


def ends_a_container_that_hangs(scene: Scene) -> None:
    """What outlives the engine's own command is ended by its name."""
    done = scene.ci_score(
        "ab", "--base", "base", "--head", "head", "--launcher", podman(NEW), "--timeout", "5",
        "--", "python", "hang.py",
    )  # fmt: skip
    assert done.code == 3, done.printed


def runs_by_srun(scene: Scene) -> None:
    """With a stand-in for srun: the environment goes along, hook and all."""
    imports = f"{PROJECT}/tests/builders/standin_torch"
    done = scene.ci_score(
        "measure", "--dir", "head", "--launcher", "srun -N1", "--env", f"PYTHONPATH={imports}",
        "--steps", "10", "--settle-steps", "20", "--", sys.executable, "train.py",
    )  # fmt: skip
    assert done.code == 0, done.printed
    assert (scene.folder / "perf" / "measurements.jsonl").stat().st_size


SCENARIOS: tuple[Callable[[Scene], None], ...] = (
    reviews_an_upgrade_of_torch,
    ends_a_container_that_hangs,
    runs_by_srun,
)


def main() -> None:
    """Runs every scenario and says so; the first that does not hold ends it."""
    # Root in a container may leave files that we cannot remove.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        build(folder / "images")
        for scenario in SCENARIOS:
            begin = time.perf_counter()
            place = folder / scenario.__name__
            place.mkdir()
            scenario(Scene(place))
            assert containers(place) == []
            seconds = time.perf_counter() - begin
            words = scenario.__name__.replace("_", " ")
            print(f"a launch {words}: holds ({seconds:.1f} s)")  # noqa: T201 - its output


if __name__ == "__main__":
    main()

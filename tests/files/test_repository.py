"""What a repository trains with is found in its text, within limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_score.files import repository
from ci_score.files.repository import look_at
from tests.builders import write

MAIN = 'if __name__ == "__main__":\n    main()\n'
LOOP = f"import torch\ndef main():\n    loss.backward()\n{MAIN}"


@pytest.mark.parametrize(
    ("text", "frameworks"),
    [
        (LOOP, ("PyTorch",)),
        (
            f"from transformers import Trainer\nTrainer(model).train()\n{MAIN}",
            ("Hugging Face transformers",),
        ),
        (f"import lightning as L\nL.Trainer().fit(model)\n{MAIN}", ("Lightning",)),
        (f"import pytorch_lightning\npl.Trainer().fit(model)\n{MAIN}", ("Lightning",)),
        (
            "import torch\nfrom accelerate import Accelerator\naccelerator.backward(loss)\n",
            ("PyTorch", "Accelerate"),
        ),
        (f"import jax\njax.value_and_grad(loss)\n{MAIN}", ("JAX",)),
    ],
)
def test_look__knows_the_framework_of_a_script(
    text: str, frameworks: tuple[str, ...], tmp_path: Path
) -> None:
    """The imports of a training script name its framework."""
    write(tmp_path / "train.py", text)
    found = look_at(tmp_path)
    assert found.frameworks == frameworks
    assert found.command == ("python", "train.py")


@pytest.mark.parametrize(
    ("name", "text", "frameworks"),
    [
        ("requirements.txt", "torch==2.9\nnumpy\n", ("PyTorch",)),
        ("pyproject.toml", '[project]\ndependencies = ["jax[cuda12]>=0.4"]\n', ("JAX",)),
        ("requirements.txt", "torchvision\npytorch-lightning\n", ("Lightning",)),
        ("requirements.txt", "my-torch\nrelaxed-jax-free\n", ()),
    ],
)
def test_look__knows_the_framework_of_a_list_of_requirements(
    name: str, text: str, frameworks: tuple[str, ...], tmp_path: Path
) -> None:
    """A requirement is a whole name, and not a part of another package's."""
    write(tmp_path / name, text)
    assert look_at(tmp_path).frameworks == frameworks


@pytest.mark.parametrize(
    ("files", "install"),
    [
        ({"requirements.txt": "torch"}, "-r requirements.txt"),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, "-e ."),
        ({"pyproject.toml": "[tool.ruff]\n"}, None),
        ({"uv.lock": "", "pyproject.toml": "[project]"}, "uv sync --frozen"),
        ({"setup.py": "setup()"}, "-e ."),
        (
            {"poetry.lock": "", "pyproject.toml": "[build-system]"},
            "poetry install --no-interaction",
        ),
        ({"pdm.lock": "", "requirements.txt": ""}, "pdm install --frozen-lockfile"),
        ({"Pipfile": "", "Pipfile.lock": ""}, "pipenv sync"),
        ({"Pipfile": ""}, "pipenv install"),
        ({"environment.yml": ""}, "conda env create --prefix .venv --file environment.yml"),
        ({"environment.yaml": "", "requirements.txt": ""}, "-r requirements.txt"),
        ({"requirements-gpu.txt": ""}, "-r requirements-gpu.txt"),
        ({"requirements/train.txt": ""}, "-r requirements/train.txt"),
        ({"requirements-gpu.txt": "", "requirements-cpu.txt": ""}, "-r requirements-gpu.txt"),
        ({"requirements-a.txt": "x", "requirements-b.txt": "torch"}, "-r requirements-b.txt"),
        ({"requirements-dev.txt": "torch", "requirements-x.txt": ""}, "-r requirements-x.txt"),
        ({"requirements/base.txt": "", "requirements/dev.txt": ""}, "-r requirements/base.txt"),
        ({"requirements-dev.txt": "", "requirements.txt": ""}, "-r requirements.txt"),
        ({"pyproject.toml": "[tool.poetry]\nname = 'x'"}, "poetry install --no-interaction"),
        ({"a/train.py": LOOP, "a/environment.yml": ""}, "--file a/environment.yml"),
        ({"README.md": "# X\n```\npip install torch numpy==2.1\n```"}, "torch numpy==2.1"),
        ({"README.rst": "Do\n\n    $ python -m pip install numpy torch"}, "install numpy torch"),
        ({"README.md": "pip install x\npip install -r a torch\npip install torch; rm -r /"}, None),
        ({"README.md": "pip install torch ${{ github.token }}\n"}, None),
        ({"README.md": "pip install torch", "environment.yml": ""}, "--file environment.yml"),
        ({"requirements ${{ x }}.txt": ""}, None),
        (
            {"a/train.py": LOOP, "a/requirements.txt": "", "requirements.txt": ""},
            "-r a/requirements.txt",
        ),
        ({"a/b/train.py": LOOP, "a/setup.py": ""}, "-e a"),
        ({"a/train.py": LOOP, "b/requirements.txt": ""}, None),
        ({}, None),
    ],
)
def test_look__knows_how_an_environment_is_made(
    files: dict[str, str], install: str | None, tmp_path: Path
) -> None:
    """A lock, or the list of requirements or package that is nearest to the script, says how."""
    for name, text in files.items():
        write(tmp_path / name, text)
    found = look_at(tmp_path).install
    assert found is None if install is None else (found or "").endswith(install)


def test_look__prefers_the_script_that_is_called_train(tmp_path: Path) -> None:
    """train.py wins; a module, a test and what lies in an environment are no choice."""
    write(tmp_path / "src" / "train.py", LOOP)
    write(tmp_path / "bench" / "finetune_small.py", LOOP)
    write(tmp_path / "model.py", "import torch\nloss.backward()\n")
    write(tmp_path / "tests" / "train.py", LOOP)
    write(tmp_path / "test_train.py", LOOP)
    write(tmp_path / "env" / "pyvenv.cfg", "")
    write(tmp_path / "env" / "train.py", LOOP)
    write(tmp_path / ".hidden" / "train.py", LOOP)
    found = look_at(tmp_path)
    assert [script.path for script in found.scripts] == ["src/train.py", "bench/finetune_small.py"]


def test_look__starts_a_module_of_a_package_by_its_name(tmp_path: Path) -> None:
    """A script that imports its own package needs -m; the folder src is no part of its name."""
    for line in ("from .model import build", "from llm.model import build", "import llm.model"):
        write(tmp_path / "src" / "llm" / "train.py", f"{line}\n{LOOP}")
        assert look_at(tmp_path).command == ("python", "-m", "llm.train")
    write(tmp_path / "src" / "llm" / "train.py", f"import llm_data.model\n{LOOP}")
    assert look_at(tmp_path).command == ("python", "src/llm/train.py")


def test_look__starts_a_package_by_its_name(tmp_path: Path) -> None:
    """Its __main__.py is a program without saying so."""
    write(tmp_path / "llm" / "__main__.py", "import torch\nloss.backward()\n")
    assert look_at(tmp_path).command == ("python", "-m", "llm")


def test_look__starts_ranks_with_torchrun(tmp_path: Path) -> None:
    """A script that joins a process group is started by torchrun."""
    write(tmp_path / "train.py", f"{LOOP}torch.distributed.init_process_group('nccl')\n")
    assert (look_at(tmp_path).command or ())[:2] == ("torchrun", "--standalone")


def test_look__executes_nothing(tmp_path: Path) -> None:
    """The text of a file is read, and the file is not run."""
    write(tmp_path / "train.py", f"import torch\nopen('ran', 'w')\nloss.backward()\n{MAIN}")
    write(tmp_path / "setup.py", "open('ran', 'w')\n")
    look_at(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_look__is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more entries are looked at than there may be, and this is told."""
    monkeypatch.setattr(repository, "MOST_ENTRIES", 5)
    for number in range(10):
        write(tmp_path / f"train_{number}.py", LOOP)
    found = look_at(tmp_path)
    assert not found.is_whole
    assert len(found.scripts) <= 5


def test_look__reads_only_regular_files(tmp_path: Path) -> None:
    """Links, pipes, folders that nobody may read and bytes that are no text do no harm."""
    (tmp_path / "train.py").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "requirements.txt").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "main.py").write_bytes(b"\xff\xfe\x00import torch\n" + LOOP.encode())
    (tmp_path / "${{ x }}.py").write_text(LOOP, encoding="utf-8")
    found = look_at(tmp_path)
    assert found.is_whole
    assert [script.path for script in found.scripts] == ["main.py"]

"""What a release writes: the image's digest into the actions, absolute links into the wheel."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
import yaml

from tests.builders import PROJECT

IMAGE = "ghcr.io/ci-score/ci-score@sha256:" + "0123456789abcdef" * 4
ACTIONS = ("action.yml", "gate/action.yml")
RELEASE = PROJECT / ".github" / "workflows" / "release.yml"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a release has checked out, as far as it writes into it or builds the wheel of it."""
    place = tmp_path / "checkout"
    listed = ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", *ACTIONS)
    for name in listed:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, place / name)
    for name in ("ci_score", "examples"):
        shutil.copytree(PROJECT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def release(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = PROJECT / ".ci" / "release.py"
    return subprocess.run(
        [sys.executable, script, *words], cwd=place, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ACTIONS)
def test_image__is_named_by_digest_and_no_other_line_changes(checkout: Path, name: str) -> None:
    """A release changes only the lines of an action that name the image, and all of them."""
    assert release(checkout, "image", IMAGE).returncode == 0
    before, after = ((folder / name).read_text("utf-8") for folder in (PROJECT, checkout))
    changes = [
        line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"
    ]
    assert {line for line in changes if line[0] == "-"} <= {
        "-   image: Dockerfile",
        "-       uses: docker://ghcr.io/ci-score/ci-score:v0",
    }
    added = [line[1:].strip() for line in changes if line[0] == "+"]
    assert added
    assert {line.partition(": ")[2] for line in added} == {f"docker://{IMAGE}"}
    named = re.findall(r"docker://\S+|image: \S+", after)
    assert {one.removeprefix("image: ") for one in named} == {f"docker://{IMAGE}"}
    assert not re.search(r"image: Dockerfile|ci-score:v\d", after)
    yaml.safe_load(after)


def test_image__is_named_by_no_other_action() -> None:
    """Every action of the repository that runs in the image is one that a release rewrites."""
    for path in (PROJECT / "action.yml", *PROJECT.glob("*/action.yml")):
        runs_in_image = re.search(r"docker://|using: docker", path.read_text("utf-8"))
        name = path.relative_to(PROJECT).as_posix()
        assert bool(runs_in_image) == (name in ACTIONS), name


def test_image__a_tag_is_refused(checkout: Path) -> None:
    """A release never names an image by something that can be moved."""
    done = release(checkout, "image", "ghcr.io/ci-score/ci-score:v0")
    assert done.returncode == 1
    assert "is not IMAGE@sha256:" in done.stderr
    assert (checkout / "action.yml").read_bytes() == (PROJECT / "action.yml").read_bytes()


@pytest.fixture
def wheel(checkout: Path) -> zipfile.ZipFile:
    """What a release builds."""
    pytest.importorskip("flit_core", reason="the wheel is built where the build backend is")
    assert release(checkout, "readme", "v0.1.0").returncode == 0
    backend = "from flit_core.buildapi import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", backend], cwd=checkout, check=True)
    return zipfile.ZipFile(next(checkout.glob("*.whl")))


def test_wheel__brings_its_types(wheel: zipfile.ZipFile) -> None:
    """Without the marker a checker takes all that is imported from it for Any."""
    assert "ci_score/py.typed" in wheel.namelist()


def test_wheel__its_description_has_absolute_links(wheel: zipfile.ZipFile) -> None:
    """Each link of the wheel's long description leads to a file of the tag, and none is lost."""
    member = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = HeaderParser().parsestr(wheel.read(member).decode())
    links = r"""(?:\]\(|src="|srcset=")([^)"#\s]+)"""
    there = re.findall(links, str(metadata.get_payload()))
    here = re.findall(links, (PROJECT / "README.md").read_text("utf-8"))
    assert len(there) == len(here)
    source = "https://github.com/ci-score/ci-score"
    for link, relative in zip(there, here, strict=True):
        view = "tree" if (PROJECT / relative).is_dir() else "blob"
        if relative.endswith(("-dark.png", "-light.png")):
            view = "raw"
        assert link == (relative if "://" in relative else f"{source}/{view}/v0.1.0/{relative}")
    assert f"Source, {source}" in metadata.get_all("Project-URL", [])


def test_notes__are_the_changelog_of_the_version(checkout: Path) -> None:
    """A release's notes are its section of the changelog, which has to be finished."""
    assert "CHANGELOG.md has no section “## 0.1.0”" in release(checkout, "notes", "v0.1.0").stderr
    text = "# Changelog\n\n## 0.2.0\n\n- New ([a page](docs/policy.md)).\n\n## 0.1.0\n\n- Old.\n"
    (checkout / "CHANGELOG.md").write_text(text, encoding="utf-8")
    page = "https://github.com/ci-score/ci-score/blob/v0.2.0/docs/policy.md"
    assert release(checkout, "notes", "v0.2.0").stdout == f"- New ([a page]({page})).\n"
    assert release(checkout, "notes", "v0.1.0").stdout == "- Old.\n"


def test_workflow__nothing_is_tagged_before_the_image_ran_on_each_architecture() -> None:
    """Whatever makes a release visible waits for the runs without a login, on both runners."""
    jobs = yaml.safe_load(RELEASE.read_text(encoding="utf-8"))["jobs"]
    stranger = jobs["stranger"]
    assert stranger["strategy"]["matrix"]["runner"] == ["ubuntu-latest", "ubuntu-24.04-arm"]
    assert stranger["permissions"] == {"contents": "read"}
    assert not [step for step in stranger["steps"] if "login" in step.get("uses", "")]
    assert "stranger" in jobs["publish"]["needs"]
    assert {"stranger", "publish"} <= set(jobs["tag"]["needs"])

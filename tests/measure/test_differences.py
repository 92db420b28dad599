"""What differs between the sides beside the code, and what a launch leaves behind."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ci_score.measure.sides import code_digest as code_digest_module
from ci_score.measure.sides import leftovers
from ci_score.measure.sides.code_digest import LARGEST_READ, code_digest
from ci_score.measure.sides.differences import MOST_ROWS, Facts, differences
from ci_score.measure.sides.leftovers import snapshot
from ci_score.measure.sides.spec import SideSpec
from tests.builders import write


def facts(
    packages: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
    launcher: str = "",
    node: str | None = None,
    **versions: str,
) -> Facts:
    spec = SideSpec(Path("/side"), variables=variables or {}, launcher=tuple(launcher.split()))
    return Facts(spec, versions, packages or {}, node)


def rows(base: Facts, head: Facts) -> list[tuple[str, str, str | None, str | None]]:
    return [(row["kind"], row["name"], row["base"], row["head"]) for row in differences(base, head)]


def test_differences__of_equal_sides_are_none() -> None:
    """Names of packages are compared by one spelling, and folders do not count."""
    same = facts({"huggingface_hub": "1.0", "torch": "2.13.0"}, {"A": "1"}, "srun -N1", "n1")
    other = facts({"Huggingface-Hub": "1.0", "torch": "2.13.0"}, {"A": "1"}, "srun -N1", "n1")
    assert differences(same, other) == []


def test_differences__are_said_from_the_python_to_single_packages() -> None:
    """Each with both values, and None where a side has nothing of that name."""
    base = facts(
        {"torch": "2.12.0", "wheel": "1"}, {"A": "1", "B": "x"}, "podman run a", "n1",
        python="3.11.4", driver="570", cuda="cu126",
    )  # fmt: skip
    head = facts(
        {"torch": "2.13.0", "triton": "3"}, {"A": "2", "B": "x"}, "podman run b", "n2",
        python="3.12.1", driver="580", cuda="cu130",
    )  # fmt: skip
    assert rows(base, head) == [
        ("python", "python", "3.11.4", "3.12.1"),
        ("driver", "driver", "570", "580"),
        ("launcher", "launcher", "podman run a", "podman run b"),
        ("node", "node", "n1", "n2"),
        ("variable", "A", "1", "2"),
        ("package", "cuda", "cu126", "cu130"),
        ("package", "torch", "2.12.0", "2.13.0"),
        ("package", "triton", None, "3"),
        ("package", "wheel", "1", None),
    ]


def test_differences__what_one_side_has_not_told_is_not_different() -> None:
    """A side whose launches said nothing has some Python and some packages all the same."""
    told = facts({"torch": "2.13.0"}, node="n1", python="3.11.4", driver="570")
    assert differences(facts(), told) == []


def test_differences__a_secret_is_only_said_to_be_another_one() -> None:
    """No value of it stands in a file or a comment."""
    base = facts(variables={"HF_TOKEN": "a", "MY_KEY": "k"})
    head = facts(variables={"HF_TOKEN": "b"})
    assert rows(base, head) == [
        ("variable", "HF_TOKEN", "set", "other"),
        ("variable", "MY_KEY", "set", None),
    ]


def test_differences__are_bounded() -> None:
    """A record has room for so many rows, and for texts of so many characters."""
    many = {f"package-{number:03}": "1" for number in range(100)}
    found = differences(facts({"a": "1"}, {"A": "x" * 999}), facts(many))
    assert len(found) == MOST_ROWS
    assert len(found[0]["base"] or "") == 200


# --- what a launch leaves -------------------------------------------------------------------------


def test_leftovers__are_the_files_that_are_new_or_changed(tmp_path: Path) -> None:
    """But for caches, environments, git, and the session's own folder."""
    write(tmp_path / "train.py", "")
    write(tmp_path / "same.txt", "")
    before = snapshot(tmp_path, [tmp_path / "perf"])
    for name in ("out/model.pt", ".venv/x", ".git/x", "a/__pycache__/x", "perf/log"):
        write(tmp_path / name, "")
    write(tmp_path / "train.py", "longer")
    (tmp_path / "loop").symlink_to(tmp_path)
    after = snapshot(tmp_path, [tmp_path / "perf"])
    assert after.left_since(before) == ["loop", "out/model.pt", "train.py"]
    stamp = (tmp_path / "same.txt").stat().st_mtime_ns + 1
    os.utime(tmp_path / "same.txt", ns=(stamp, stamp))
    assert snapshot(tmp_path, [tmp_path / "perf"]).left_since(after) == ["same.txt"]
    assert replace(after, unseen="too many").left_since(before) == []
    assert snapshot(tmp_path / "nowhere").left_since(before) == []


# --- what tells code apart ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_code"),
    [
        ("train.py", True),
        ("conf/model.yaml", True),
        ("csrc/kernel.cu", True),
        ("new.py", True),
        ("linked.py", True),
        ("large.so", True),
        ("metrics.json", False),
        (".git/config.py", False),
        ("lightning_logs/version_3/hparams.yaml", False),
        ("perf/x.py", False),
    ],
)
def test_code__changes_with_the_sources(tmp_path: Path, name: str, is_code: bool) -> None:
    """And not with what launches leave, nor by being saved again."""
    side, common = tmp_path / "side", tmp_path / "common.py"
    for one in ("train.py", "conf/model.yaml", "csrc/kernel.cu", "metrics.json"):
        write(side / one, "1")
    write(common, "1")
    write(side / "large.so", "1" * (LARGEST_READ + 1))
    (side / "linked.py").symlink_to(common)
    (side / "empty.py").touch()
    before = code_digest(side, [side / "perf"])
    for one in ("train.py", "empty.py"):
        os.utime(side / one, (9, 9))
    assert code_digest(side, [side / "perf"]) == before
    write(side / name, "2")
    assert (code_digest(side, [side / "perf"]) != before) is is_code


def test_code__of_more_than_can_be_read_goes_by_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what cannot be seen whole is never the same."""
    for name in "abc":
        write(tmp_path / f"{name}.py", "1")
    monkeypatch.setattr(code_digest_module, "MOST_READ", 1)
    before = code_digest(tmp_path, [])
    os.utime(tmp_path / "a.py", (9, 9))
    assert code_digest(tmp_path, []) == before
    os.utime(tmp_path / "c.py", (9, 9))
    assert code_digest(tmp_path, []) != before
    monkeypatch.setattr(leftovers, "MOST_FILES", 2)
    assert code_digest(tmp_path, []) != code_digest(tmp_path, [])

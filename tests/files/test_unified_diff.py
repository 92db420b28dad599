"""A diff of git's is read as git means it, and half a diff is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_score.files.unified_diff import code_diff_of
from ci_score.model.code_diff import FileDiff

GIT = ("diff", "--no-color", "--no-ext-diff", "-M", "--src-prefix=a/", "--dst-prefix=b/")
NAMES = ("train.py", "src/model.py", "with blank.py", "süß.py", 'quo"te.py', "tab\tbed.py", "run")


def git(folder: Path, *words: str) -> bytes:
    settings = ("-c", "core.autocrlf=false", "-c", "user.name=o", "-c", "user.email=o@example.com")
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    return subprocess.run(
        ["git", *settings, *words], cwd=folder, env=environment, capture_output=True, check=True
    ).stdout


Tree = dict[str, tuple[bytes, ...]]
LINES = st.lists(
    st.sampled_from(
        [b"a", b"b", b"", b" ", b"-- x", b"++ y", b"@@ -1 +1 @@", b"c\r", b"\xff", b"d"]
    )
    | st.integers(0, 99).map(lambda number: b"%d" % number),
    max_size=40,
).map(tuple)
TREES = st.dictionaries(st.sampled_from(NAMES), LINES, min_size=1, max_size=4)


@st.composite
def edited(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """A tree, and what became of it: lines gone, lines new, files renamed, gone and new."""
    base = draw(TREES)
    head: Tree = {}
    for name, lines in base.items():
        what = draw(st.sampled_from(["keep", "edit", "rename", "drop"]))
        kept = list(lines)
        if what in ("edit", "rename"):
            for _ in range(draw(st.integers(0, 3))):
                at = draw(st.integers(0, len(kept)))
                kept[at : at + draw(st.integers(0, 3))] = draw(LINES)[:3]
        if what != "drop":
            head[f"moved/{name}" if what == "rename" else name] = tuple(kept)
    return base, head | {f"new/{name}": lines for name, lines in draw(TREES).items()}


def written(folder: Path, tree: Tree, *, end: bool) -> None:
    for name, lines in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n".join(lines) + (b"\n" if end and lines else b""))


def committed(folder: Path, tree: Tree, *, end: bool = True) -> bytes:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".git" not in path.parts:
            path.unlink()
    written(folder, tree, end=end)
    git(folder, "add", "-A")
    return git(folder, "write-tree").strip()


def head_lines(diff: FileDiff, lines: tuple[bytes, ...]) -> list[str]:
    """The head's lines, made of the base's by the hunks alone."""
    made, at = [], 1
    texts = [line.decode("utf-8", "replace") for line in lines]
    for hunk in diff.hunks:
        made += texts[at - 1 : hunk.base_first - 1]
        assert [
            hunk.were[n] for n in range(hunk.base_first, hunk.base_first + hunk.base_count)
        ] == (texts[hunk.base_first - 1 : hunk.base_first - 1 + hunk.base_count])
        assert len(made) == hunk.head_first - 1
        made += [hunk.texts[n] for n in range(hunk.head_first, hunk.head_first + hunk.head_count)]
        at = hunk.base_first + hunk.base_count
    return made + texts[at - 1 :]


@settings(max_examples=60, deadline=None)
@given(edited(), st.booleans(), st.sampled_from(["-U3", "-U0"]))
def test_code_diff_of__holds_against_git(
    tmp_path_factory: pytest.TempPathFactory, trees: tuple[Tree, Tree], end: bool, around: str
) -> None:
    """Base's lines and the hunks give the head's lines, for whatever trees git has compared."""
    folder = tmp_path_factory.mktemp("tree")
    git(folder, "init", "-q")
    base, head = (committed(folder, tree, end=end).decode() for tree in trees)
    diff = code_diff_of(git(folder, *GIT, around, "--text", base, head))
    assert diff.state == "known"
    was, now = ({n: t for n, t in tree.items() if "\t" not in n} for tree in trees)
    gone, new = set(was), set(now)
    for one in diff.files:
        gone.discard(one.base or "")
        new.discard(one.head or "")
        lines = was[one.base] if one.base else ()
        expected = [line.decode("utf-8", "replace") for line in now[one.head]] if one.head else []
        # Without a line feed at its end the last line may be empty, and then git does not count it.
        made = head_lines(one, lines)
        assert made == expected or (not end and [*made, ""] == expected) or made == [*expected, ""]
    assert {name: was[name] for name in gone} == {name: now[name] for name in new}

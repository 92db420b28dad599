"""A diff of git's is read as git means it, and half a diff is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_score.files import unified_diff
from ci_score.files.unified_diff import code_diff_of
from ci_score.model.code_diff import CodeDiff, FileDiff, Hunk

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


# --- names and states -----------------------------------------------------------------------------


def names_in(text: str | bytes) -> list[tuple[str | None, str | None]]:
    diff = code_diff_of(text.encode() if isinstance(text, str) else text)
    assert diff.state == "known"
    return [(one.base, one.head) for one in diff.files]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n", [("a.py", "a.py")]),
        ("diff --git a/a b.py b/a b.py\nold mode 100644\n", [("a b.py", "a b.py")]),
        (
            (
                "diff --git a/a b.py b/c d.py\nsimilarity index 100%\n"
                "rename from a b.py\nrename to c d.py\n"
            ),
            [("a b.py", "c d.py")],
        ),
        ("diff --git a/e.py b/e.py\nnew file mode 100644\nindex 000..e69\n", [(None, "e.py")]),
        ("diff --git a/e.py b/e.py\ndeleted file mode 100644\n", [("e.py", None)]),
        ("diff --git a/e.py b/f.py\ncopy from e.py\ncopy to f.py\n", [(None, "f.py")]),
        (
            'diff --git "a/\\303\\274.py" "b/\\303\\274.py"\nold mode 100644\n',
            [("ü.py", "ü.py")],
        ),
        ('diff --git "a/q\\"\\\\.py" b/q.py\nrename from "q\\"\\\\.py"\nrename to q.py\n', []),
        ("diff --git a/süß.py b/süß.py\nold mode 100644\n", [("süß.py", "süß.py")]),
        ("diff --git a/a.py b/a.py\r\nold mode 100644\r\n", [("a.py", "a.py")]),
        (
            (
                "diff --git a/a.py b/a.py\nindex 1..2 100644\nGIT binary patch\nliteral 2\n"
                "JcmZP-0000i\n\nliteral 0\nHcmV?d00001\n\n"
            ),
            [("a.py", "a.py")],
        ),
        (
            (
                "diff --git a/w.npy b/w.npy\nBinary files a/w.npy and b/w.npy differ\n"
                "diff --git a/a.py b/a.py\nold mode 100644\n"
            ),
            [("a.py", "a.py")],
        ),
        (
            "diff --git a/README.md b/run.py\nrename from README.md\nrename to run.py\n",
            [("README.md", "run.py")],
        ),
        ("diff --git a/../a.py b/../a.py\nold mode 100644\n", []),
        ("diff --git a//etc/a.py b//etc/a.py\nold mode 100644\n", []),
        ('diff --git "a/a\\000.py" "b/a\\000.py"\nold mode 100644\n', []),
        ('diff --git "a/\\377.py" "b/\\377.py"\nold mode 100644\n', []),
        ("diff --git a/.git/hooks/run b/.git/hooks/run\nnew file mode 100755\n", []),
    ],
)
def test_code_diff_of__names(text: str, names: list[tuple[str | None, str | None]]) -> None:
    """Each way in which git writes a name; one that leaves the repository is left out."""
    assert names_in(text) == names


HEAD = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"


def test_code_diff_of__lines_that_look_like_headers() -> None:
    """A hunk has as many lines as it says, whatever they look like."""
    text = HEAD + "@@ -1,2 +1,2 @@\n--- a/b.py\n+diff --git a/x b/x\n @@ -1 +1 @@\n"
    assert code_diff_of(text.encode()).files == (
        FileDiff(
            "a.py",
            "a.py",
            (
                Hunk(
                    1,
                    2,
                    1,
                    2,
                    (1,),
                    (1,),
                    {1: "diff --git a/x b/x", 2: "@@ -1 +1 @@"},
                    {1: "-- a/b.py", 2: "@@ -1 +1 @@"},
                ),
            ),
        ),
    )


def test_code_diff_of__a_blank_that_a_tool_has_cut() -> None:
    """An empty line of both sides may stand without its blank, and one may end in CRLF."""
    (one,) = code_diff_of((HEAD + "@@ -1,3 +1,3 @@\n\n\r\n-a\r\n+b\r\n").encode()).files
    assert one.hunks[0].texts == {1: "", 2: "", 3: "b\r"}


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "\n",
        "diff --cc a.py\nindex 1,2..3\n--- a/a.py\n+++ b/a.py\n@@@ -1,1 -1,1 +1,1 @@@\n",
        "diff --git x/a.py y/a.py\n--- x/a.py\n+++ y/a.py\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a.py a.py\n--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b\n",
        HEAD + "@@ -1,2 +1,2 @@\n-a\n+b\n",
        HEAD + "@@ -1 +1 @@\n-a\n-b\n",
        HEAD + "@@ -1 +1 @@\n-a\n+b\n+c\n",
        HEAD + "@@ -1 +1 @@\n*a\n+b\n",
        HEAD + "@@ -1 +x @@\n-a\n+b\n",
        HEAD + "@@ -0 +1 @@\n-a\n+b\n",
        HEAD + "@@ -3 +4 @@\n-a\n+b\n",
        HEAD + "@@ -3 +3 @@\n-a\n+b\n@@ -3 +3 @@\n-a\n+b\n",
        HEAD + "@@ -99999999 +99999999 @@\n-a\n+b\n",
        'diff --git "a/a.py b/a.py\n',
    ],
)
def test_code_diff_of__what_is_no_diff_or_a_part_of_one(text: str) -> None:
    """None of it is believed: half a diff would move the lines that follow."""
    diff = code_diff_of(text.encode(), frozenset({"a.py"}))
    assert diff == CodeDiff("not found", tracked=frozenset({"a.py"}))


def test_code_diff_of__one_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, files and lines are bounded; lines of data are not counted."""
    text = HEAD + "@@ -1,2 +1,3 @@\n-a\n-b\n+c\n+d\n+e\n"
    data = text.replace("a.py", "a.json").encode()
    assert code_diff_of(b"x" * (unified_diff.MOST_BYTES + 1)).state == "too large"
    monkeypatch.setattr(unified_diff, "MOST_LINES", 5)
    assert code_diff_of(text.encode() + data).state == "known"
    monkeypatch.setattr(unified_diff, "MOST_LINES", 4)
    assert code_diff_of(text.encode()).state == "too large"
    assert code_diff_of(data).state == "known"
    monkeypatch.setattr(unified_diff, "MOST_LINES", 9)
    monkeypatch.setattr(unified_diff, "MOST_FILES", 1)
    assert code_diff_of(text.encode() * 2).state == "too large"


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 300))
def test_code_diff_of__whatever_bytes_come(junk: bytes, at: int, until: int) -> None:
    """Damaged bytes are a diff or none, and no error."""
    text = (HEAD + "@@ -1,2 +1,3 @@ def f\n-a\n b\n+c\n+d\n\\ No newline at end of file\n").encode()
    diff = code_diff_of(text[:at] + junk + text[until:])
    assert diff.state in ("known", "not found")
    assert diff.files == () or diff.state == "known"

"""Functions and statements of a side's files, found by their syntax trees."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest

from ci_score.measure.sides import definitions
from ci_score.measure.sides.definitions import MODULE, SideFiles, Text, named, text_of
from ci_score.model.step_code import statement_digest

SOURCE = """\
import torch

x = 1; y = x @ x

def timed(name=x @ x):
    def around(inner):
        def called(*args):
            return inner(*args) @ x

        return called

    return around


class Attention:
    scale = x @ x

    @timed("a")
    @timed(
        "b"
    )
    async def forward(
        self,
        hidden=x @ x,
    ):
        if (
            hidden @ x
        ):
            scores = torch.matmul(
                hidden,
                x,
            )  # scores
        elif hidden @ y:
            pass
        else:
            hidden @ y
        with open(x) as a, \\
                open(y) as b:
            parts = [
                one @ x
                for one in hidden
            ]
        for one in (
            hidden @ x
        ):
            pass
        while hidden @ x: hidden = hidden @ y
        try:
            hidden @ x
        except x @ y:
            hidden @ y
        finally:
            hidden @ y
        match hidden @ x:
            case [a] if (
                a @ x
            ):
                a @ y
        return lambda: hidden @ x

    class Inner:
        def forward(self): return x @ x
"""


@pytest.fixture(scope="module")
def text() -> Text:
    found = text_of(SOURCE.encode())
    assert found
    return found


def line_of(words: str) -> int:
    """The first line with these words."""
    return next(at for at, line in enumerate(SOURCE.split("\n"), 1) if words in line)


FORWARD, FIRST = "Attention.forward", line_of('@timed("a")')
# Words of a line, the function by its frame and its first line, and the statement's lines.
PLACES = [
    ("x = 1; y", MODULE, 1, "x = 1; y", "x = 1; y"),
    ("def timed", MODULE, 1, "def timed", "def timed"),
    ("return inner", "timed.<locals>.around.<locals>.called", 7, "return inner", "return inner"),
    ("scale = x", "Attention", 15, "scale = x", "scale = x"),
    ('@timed("a")', "Attention", 15, '@timed("a")', "hidden=x"),
    ("hidden=x", "Attention", 15, '@timed("a")', "hidden=x"),
    ("            hidden @ x", FORWARD, FIRST, "        if (", "            hidden @ x"),
    ("torch.matmul", FORWARD, FIRST, "scores =", "# scores"),
    ("hidden,", FORWARD, FIRST, "scores =", "# scores"),
    ("elif", FORWARD, FIRST, "elif", "elif"),
    ("open(y) as b", FORWARD, FIRST, "with open", "open(y) as b"),
    ("one @ x", FORWARD + ".<locals>.<listcomp>", 38, "parts = [", "            ]"),
    ("for one in (", FORWARD, FIRST, "for one in (", None),
    ("while hidden", FORWARD, FIRST, "while hidden", "while hidden"),
    ("except x", FORWARD, FIRST, "except x", "except x"),
    ("match hidden", FORWARD, FIRST, "match hidden", "match hidden"),
    ("a @ x", FORWARD, FIRST, "case [a]", "a @ x"),
    ("a @ y", FORWARD, FIRST, "a @ y", "a @ y"),
    ("return lambda", FORWARD + ".<locals>.<lambda>", 57, "return lambda", "return lambda"),
    (
        "def forward(self)",
        "Attention.Inner.forward",
        None,
        "def forward(self)",
        "def forward(self)",
    ),
]


@pytest.mark.parametrize(("words", "told", "first", "begin", "end"), PLACES)
def test_text__a_line_has_its_function_and_its_whole_statement(
    text: Text, words: str, told: str, first: int | None, begin: str, end: str | None
) -> None:
    """Of a compound statement the header's lines alone."""
    line = line_of(words)
    found = text.function_at(line, told, first)
    assert found
    assert found.name == named(told)
    span = text.statement_at(line).span
    assert span.first == line_of(begin)
    assert span.last == (line_of(end) if end else line + 1)
    lines = SOURCE.split("\n")[span.first - 1 : span.last]
    assert text.statement_at(line).text == statement_digest([one + " \t" for one in lines])


def test_text__names_are_those_of_pythons_own_frames() -> None:
    """Every code object of a file is found by its name, its first line and any of its lines."""
    source = Path(ast.__file__).read_bytes()
    text = text_of(source)
    assert text
    waiting, seen = [compile(source, "ast.py", "exec")], 0
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, type(code))]
        for _, _, line in code.co_lines():
            if line:
                found = text.function_at(line, code.co_qualname, code.co_firstlineno)
                assert found, code.co_qualname
                assert found.name == named(code.co_qualname)
                assert found.span.first <= line <= found.span.last
                seen += 1
    assert seen > 1000


def test_text__an_older_python_tells_the_last_part_of_a_name(text: Text) -> None:
    """A bare lambda's function is the one around it."""
    for words, told in (("hidden @ y", "forward"), ("return lambda", "<lambda>")):
        found = text.function_at(line_of(words), told, None)
        assert found
        assert found.name == FORWARD


@pytest.mark.parametrize(
    ("words", "told", "first"),
    [
        ("hidden @ y", "Attention.backward", FIRST),
        ("hidden @ y", "Attention.forward", FIRST + 1),
        ("import torch", "Attention.forward", FIRST),
    ],
)
def test_text__that_was_changed_since_it_was_imported_has_no_such_function(
    text: Text, words: str, told: str, first: int
) -> None:
    """Neither by its name nor by the line at which it begins."""
    assert text.function_at(line_of(words), told, first) is None


def test_text__a_line_beyond_its_end(text: Text) -> None:
    """A launch may tell any number."""
    assert text.function_at(10**7, MODULE, 1) is None


@pytest.mark.parametrize(
    "data",
    [
        b"def broken(:",
        b"x = 1\0",
        b"# coding: nowhere\nx = 1",
        b"\xff\xfe",
        b"x = " + b"(" * 10_000 + b")" * 10_000,
        b"x = " + b"-" * 200_000 + b"1",
    ],
    ids=["no syntax", "a null", "no encoding", "no text", "deep brackets", "deep signs"],
)
def test_text__of_no_python_says_nothing(data: bytes) -> None:
    """Whatever a folder holds."""
    assert text_of(data) is None


def test_text__of_a_class_with_an_endless_name_keeps_no_name() -> None:
    """Thousands of functions would each begin with it, and fill the machine's memory."""
    long = "A" * 2000
    text = text_of(f"class {long}:\n def f(self):\n  def g(): pass\n\ndef h(): pass\n".encode())
    assert text is not None
    assert [one.name for one in text.functions[:5]] == ["", "", "", MODULE, "h"]
    assert text.function_at(3, "g", 3) is None
    assert text.function_at(3, f"{long}.f.<locals>.g", 3) is None


def test_text__reads_a_long_statement_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch may tell of thousands of calls in one statement that is as long as the file."""
    asked: list[int] = []

    def digest(lines: list[str]) -> str:
        asked.append(len(lines))
        return statement_digest(lines)

    monkeypatch.setattr(definitions, "statement_digest", digest)
    text = text_of(b"f(\n" + b"1,\n" * 50 + b")\n")
    assert text is not None
    assert len({text.statement_at(line) for line in range(1, 53)}) == 1
    assert asked == [52]


def test_text__a_long_chain_of_conditions_is_read() -> None:
    """Each `elif` is nested in the one before."""
    source = "if x:\n    a @ b\n" + "elif y:\n    a @ b\n" * 800
    found = text_of(source.encode())
    assert found
    assert found.statement_at(1601).span.first == 1601


def test_text__lines_end_as_python_ends_them() -> None:
    """A form feed is none; an encoding that the file names is read."""
    found = text_of(
        "# coding: latin-1\r\nx = 'é\x0b'\rdef f():\n    return x\f\n".encode("latin-1")
    )
    assert found
    own = found.function_at(4, "f", 3)
    assert own
    assert (own.name, found.statement_at(4).text) == ("f", statement_digest(["    return x"]))


# --- the files of a side --------------------------------------------------------------------------


def test_files__of_a_repository_are_called_as_git_calls_them(tmp_path: Path) -> None:
    """From its root, also where the side is a folder within it."""
    side = tmp_path / "repository" / "train"
    (side / "src").mkdir(parents=True)
    file = side / "src" / "model.py"
    file.write_text("x = 1\n", encoding="utf-8")
    alone = SideFiles.of(side)
    assert alone.name_of(file) == "src/model.py"
    user = ["-c", "user.name=octocat", "-c", "user.email=octocat@example.com"]
    for words in (["init", "-q"], ["add", "."], [*user, "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(side), *words], check=True, capture_output=True)
    subprocess.run(["git", "init", "-q", str(side.parent)], check=True)
    assert SideFiles.of(side).name_of(file) == "src/model.py"
    (side / ".git").rename(tmp_path / "gone")
    for words in (["add", "."], [*user, "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(side.parent), *words], check=True, capture_output=True)
    assert SideFiles.of(side).name_of(file) == "train/src/model.py"


def test_files__that_do_not_lie_in_the_folder_are_not_known(tmp_path: Path) -> None:
    """Links, `..`, relative and hostile names, and what is not there."""
    side, outside = tmp_path / "side", tmp_path / "outside.py"
    side.mkdir()
    outside.write_text("x = 1\n", encoding="utf-8")
    (side / "link.py").symlink_to(outside)
    (side / "circle.py").symlink_to(side / "circle.py")
    (side / "folder.py").mkdir()
    os.mkfifo(side / "pipe.py")
    hostile = side / "a\nb\u202e.py"
    hostile.write_text("x = 1\n", encoding="utf-8")
    files = SideFiles.of(side)
    told = [side / "link.py", side / "circle.py", side / ".." / "outside.py", side / "folder.py",
            side / "gone.py", side / "pipe.py", hostile, side / ("x" * 300)]  # fmt: skip
    relative = ["", "train.py", "<string>", "a\0b", "/" + "x/" * 5000]
    assert [one for one in [*map(str, told), *relative] if files.known(one)] == []


def test_files__a_link_within_the_folder_is_the_file_that_it_leads_to(tmp_path: Path) -> None:
    """The diff has that one, too; and a side may itself be named by a link."""
    (tmp_path / "side").mkdir()
    file = tmp_path / "side" / "model.py"
    file.write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "side" / "other.py").symlink_to(file)
    (tmp_path / "named").symlink_to(tmp_path / "side")
    files = SideFiles.of(tmp_path / "named")
    for told in (file, tmp_path / "side" / "other.py", tmp_path / "named" / "other.py"):
        path = files.known(str(told))
        assert path
        assert files.name_of(path) == "model.py"


def test_files__that_are_too_large_or_too_many_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read once, and all of them together are bounded."""
    monkeypatch.setattr(definitions, "LARGEST_FILE", 20)
    monkeypatch.setattr(definitions, "MOST_FILES", 3)
    large, *small = [tmp_path / f"{name}.py" for name in "abcd"]
    large.write_text("x = 1  # a long comment\n", encoding="utf-8")
    for path in small:
        path.write_text("x = 1\n", encoding="utf-8")
    files = SideFiles(tmp_path)
    assert files.text(large) is None
    first = files.text(small[0])
    assert first
    small[0].write_text("y = 2\n", encoding="utf-8")
    assert files.text(small[0]) is first
    assert files.text(small[1])
    assert files.text(small[2]) is None
    assert SideFiles(tmp_path, _left=7).text(small[1])
    assert SideFiles(tmp_path, _left=5).text(small[1]) is None

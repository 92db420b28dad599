"""What a step tells its runner: commands that a stranger's text never adds to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci_score.github.runner import MOST_ANNOTATIONS, Annotation, annotation_lines


def rows(level: str, count: int, file: str | None = None) -> list[Annotation]:
    return [Annotation(level, f"case {number}", "slower", file, 7) for number in range(count)]  # type: ignore[arg-type]


def test_annotations__of_each_level_as_many_as_a_step_shows() -> None:
    """Those at a line come first, because nothing else stands there."""
    lines = annotation_lines([*rows("warning", 9), *rows("error", 12), *rows("warning", 4, "a.py")])
    assert len([line for line in lines if line.startswith("::error")]) == MOST_ANNOTATIONS
    warnings = [line for line in lines if line.startswith("::warning")]
    assert len(warnings) == MOST_ANNOTATIONS
    assert [" file=a.py,line=7," in line for line in warnings] == [True] * 4 + [False] * 6


def test_annotation__a_long_path_is_whole() -> None:
    """A path that is cut would be another file's."""
    path = "model/" + "a" * 300 + ".py"
    assert f"file={path},line=7," in annotation_lines(rows("warning", 1, path))[0]


@given(title=st.text(), message=st.text(), file=st.text(min_size=1))
def test_annotation__is_one_command_whatever_it_says(title: str, message: str, file: str) -> None:
    """One line, with three properties and a text, is all that a runner reads of it."""
    (line,) = annotation_lines([Annotation("warning", title, message, file, 3)])
    assert len(line.splitlines()) == 1
    head, _, rest = line.removeprefix("::warning ").partition("::")
    assert [one.partition("=")[0] for one in head.split(",")] == ["file", "line", "title"]
    assert "##[" not in line
    assert line.count("\n") == line.count("\r") == 0
    assert not rest.lstrip().startswith("::")

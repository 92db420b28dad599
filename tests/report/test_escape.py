"""Where a stranger's text meets markdown: shown, never obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.files.visible import log_line, plain, unlike_commands
from ci_score.report.escape import Safe, cell, code, paragraph, text

ANY_TEXT = st.text(max_size=120)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a|b", "a\\|b"),
        ("`x`", "\\`x\\`"),
        ("<b>", "\\<b\\>"),
        ("[a](b)", "\\[a\\](b)"),
        ("@team/all", "@\u200bteam/all"),
        ("#12", "\\#\u200b12"),
        ("GH-12", "GH-\u200b12"),
        ("http://x", "http\\://x"),
        ("www.x.org", "www\\.x.org"),
        ("_www.x.org", "\\_www\\.x.org"),
        ("a\r\nb", "a  b"),
        ("\u202egnp", "\ufffdgnp"),
        ("&lt;", "\\&lt;"),
        ("a_b*c~d$e\\", "a\\_b\\*c\\~d\\$e\\\\"),
        (1.5, "1.5"),
    ],
)
def test_text__shows_markup(value: object, shown: str) -> None:
    """Each kind of markup becomes the characters it is written with."""
    assert text(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [("- x", "\\- x"), ("1. x", "1\\. x"), ("  # x", "\\#\u200b x"), ("x", "x")]
)
def test_paragraph__begins_no_list(value: str, shown: str) -> None:
    """At the start of a line a number or a dash is text too."""
    assert paragraph(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("gemm", "`gemm`"),
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        ("", "`  `"),
        ("a|b", "`a|b`"),
        ("a\nb", "`a b`"),
    ],
)
def test_code__is_one_span(value: str, shown: str) -> None:
    """The fence is longer than any run of backticks within."""
    assert code(value) == shown


@pytest.mark.parametrize(("value", "shown"), [("a|b", "`a\\|b`"), ("a\\|b", "`a\\ \\|b`")])
def test_cell__cannot_end_early(value: str, shown: str) -> None:
    """In a table a bare pipe would end the cell."""
    assert cell(value) == shown


@given(ANY_TEXT)
def test_plain__is_one_visible_line(value: str) -> None:
    """No line break and no invisible character survives."""
    line = plain(value)
    assert len(line) <= 80
    assert line.isprintable() or line.replace("\u00a0", " ").replace("\u3000", " ")
    assert not set(line) & set("\n\r\t\x00\x1b\u202e\u2066\u200b\u2028")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("::error::x", ": :error::x"),
        ("a ::x", "a ::x"),
        ("x ##[add-mask]y", "x # #[add-mask]y"),
    ],
)
def test_log_line__is_no_workflow_command(value: str, shown: str) -> None:
    """The runner obeys what a step prints, so a name must not look like a command."""
    assert log_line(value) == shown


def test_unlike_commands__knows_every_end_of_a_line() -> None:
    """A runner ends a line at a carriage return, too."""
    text = "a\n::b\r::c\r\n\t\u3000::d"
    assert unlike_commands(text) == "a\n: :b\r: :c\r\n\t\u3000: :d"


@given(ANY_TEXT)
def test_text__leaves_no_live_markup(value: str) -> None:
    """Every character that could start markup is behind a backslash."""
    shown = text(value)
    for position, character in enumerate(shown):
        if character in "`*_[]<>|~$#":
            assert shown[position - 1] == "\\"


@given(ANY_TEXT)
def test_code__cannot_be_left(value: str) -> None:
    """Between the fences there is no run of backticks as long as the fence, and no bare pipe."""
    shown = code(value)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    inside = shown[len(fence) : -len(fence)]
    assert fence not in inside.split(" ") or not fence
    assert shown.endswith(fence)
    assert "|" not in cell(value).replace("\\|", "")
    assert isinstance(shown, Safe)


def test_safe__is_not_escaped_twice() -> None:
    """What we made ourselves passes through."""
    assert text(cell("a|b")) == "`a\\|b`"

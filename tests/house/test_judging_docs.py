"""docs/judging.md shows what the judge does: its table, and its example."""

from __future__ import annotations

import contextlib
import io
import os
import re

from tests.builders import PROJECT
from tests.house.verdict_table import table

PAGE = PROJECT / "docs" / "judging.md"
MARKED = re.compile(r"(<!-- verdicts -->\n)(.*?)(<!-- /verdicts -->)", re.DOTALL)


def test_table__is_what_the_judge_does() -> None:
    """Every rule × evidence × change has the verdict and the exit codes of the code."""
    text = PAGE.read_text(encoding="utf-8")
    drawn = "".join(f"{line}\n" for line in table())
    if os.environ.get("CI_SCORE_WRITE_TABLE"):
        PAGE.write_text(MARKED.sub(rf"\g<1>{drawn}\g<3>", text), encoding="utf-8")
    else:
        found = MARKED.search(text)
        assert found is not None
        assert found[2] == drawn


def test_example__prints_what_the_page_shows() -> None:
    """The code of the page runs, and its output stands below it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found[1], {})  # noqa: S102 - our own page
    assert printed.getvalue() == found[2]

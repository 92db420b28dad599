"""The checkouts of a search: which of them stay, and what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_score.errors import WrongUseError
from ci_score.measure.bisect.history import described, line_between
from ci_score.measure.bisect.worktrees import (
    MOST_KEPT,
    CannotBuildError,
    Making,
    Worktrees,
    worktrees,
)
from ci_score.measure.sides.checkout import Repository
from ci_score.measure.sides.spec import SideSpec
from tests.builders.commits import Commits


@pytest.fixture
def made(tmp_path: Path) -> Commits:
    return Commits(tmp_path / "repository", tuple(10.0 + number for number in range(9)))


def repository_of(made: Commits, folder: str = "") -> Repository:
    return Repository(made.repository.folder / folder, made.repository.environment)


def making(made: Commits, folder: str = "", **fields: object) -> Making:
    defaults: dict[str, object] = {
        "like": SideSpec(made.repository.folder / folder), "links": (), "setup": None,
        "environment": made.repository.environment, "logs": made.repository.cache / "logs",
        "timeout": lambda: 60.0, "stopped": lambda: False, "tell": lambda _words: None,
    }  # fmt: skip
    return Making(**{**defaults, **fields})  # type: ignore[arg-type]


def count(made: Commits) -> int:
    return len(made.repository.worktrees())


def test_checkouts__are_few_at_a_time_and_gone_at_the_end(made: Commits) -> None:
    """A range may have thousands of commits, and each checkout its environment of gigabytes."""
    ends = frozenset({made.shas[0], made.shas[-1]})
    with worktrees(repository_of(made), ends, making(made)) as checkouts:
        places = {sha: checkouts.side(sha).folder for sha in made.shas}
        assert count(made) == MOST_KEPT + len(ends)
        assert places[made.shas[0]].is_dir()
        assert not places[made.shas[1]].exists()
        assert "MS = 11" in (checkouts.side(made.shas[1]).folder / "model.py").read_text("utf-8")
        assert count(made) == MOST_KEPT + len(ends)
    assert made.nothing_is_left


def test_checkout__that_was_used_last_stays(made: Commits) -> None:
    """The parent of the answer is most often one of those."""

    def fill(checkouts: Worktrees) -> None:
        for sha in made.shas[: MOST_KEPT - 1]:
            checkouts.side(sha)

    with worktrees(repository_of(made), frozenset(), making(made)) as checkouts:
        used = checkouts.side(made.shas[6]).folder
        fill(checkouts)
        checkouts.side(made.shas[6])
        checkouts.side(made.shas[7])
        assert used.is_dir()


def test_checkout__without_the_folder_cannot_be_built(made: Commits) -> None:
    """A subproject that came later is no part of an earlier commit."""
    (made.repository.folder / "later").mkdir()
    (made.repository.folder / "later" / "train.py").write_text("1", encoding="utf-8")
    made.repository.git("add", "later")
    made.repository.git("commit", "--quiet", "--message", "Later")
    newest = made.repository.git("rev-parse", "HEAD")
    asked = making(made, "later")
    with worktrees(repository_of(made, "later"), frozenset(), asked) as checkouts:
        assert checkouts.side(newest).folder.name == "later"
        with pytest.raises(CannotBuildError, match="it has no folder later"):
            checkouts.side(made.shas[0])
    assert made.nothing_is_left


def test_setup__runs_once_in_each_checkout(made: Commits) -> None:
    """It may take longer than all launches together."""
    traces = made.repository.cache / "traces"
    setup = f"mkdir -p {traces.parent}; echo $PWD >> {traces}"
    with worktrees(repository_of(made), frozenset(), making(made, setup=setup)) as checkouts:
        for _ in range(3):
            for sha in made.shas[:2]:
                checkouts.side(sha)
    assert len(traces.read_text("utf-8").splitlines()) == 2


def test_link__brings_data_to_each_checkout(made: Commits) -> None:
    """What git does not track is in the user's own folder alone."""
    (made.repository.folder / "data").mkdir()
    with worktrees(repository_of(made), frozenset(), making(made, links=("data",))) as checkouts:
        side = checkouts.side(made.shas[3])
        assert (side.folder / "data").resolve() == made.repository.folder / "data"
        assert side.linked == (made.repository.folder / "data",)


def test_range__has_a_bound(made: Commits, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted before its commits are listed."""
    monkeypatch.setattr("ci_score.measure.bisect.history.MOST_COMMITS", 3)
    line = line_between(repository_of(made), made.shas[0], made.shas[3])
    assert line.commits == tuple(made.shas[:4])
    with pytest.raises(WrongUseError, match="there are 4 commits from GOOD to BAD"):
        line_between(repository_of(made), made.shas[0], made.shas[4])


def test_commit__is_described_in_visible_words(made: Commits) -> None:
    """Whatever its author wrote."""
    made.repository.environment["GIT_AUTHOR_NAME"] = "some\tbody"
    made.repository.git("commit", "--quiet", "--allow-empty", "--message", "a\x1b[31m \u202eb\n\nc")
    told = described(repository_of(made), made.repository.git("rev-parse", "HEAD"))
    assert told.subject == "a\ufffd[31m \ufffdb"
    assert told.author == "some body"

"""One comment a report, however many runs write it at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from ci_score.github import PullConversation, comment
from ci_score.github.api import Api
from ci_score.model.record import RunIdentity
from tests.loopback_github import LoopbackGitHub, State, faults

TOKEN = "ghs_" + "t0ken" * 8
COMMENTS = "/comments$"


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """A pull request on which nobody has said anything."""
    state = State()
    state.token(TOKEN)
    repository = state.repository("team/model")
    base = state.commit(repository, "main")
    state.commit(repository, "faster", parents=[base.sha])
    state.pull_request(repository, "faster")
    with LoopbackGitHub(state) as made:
        yield made


def post(github: LoopbackGitHub, number: int) -> comment.Written:
    """The comment of the run with that number."""
    api = Api(github.url, SecretStr(TOKEN), sleep=lambda _seconds: None)
    talk = PullConversation(api, "team/model", github.state.pull_requests[0].number)
    marker = comment.marker_of("", "ci.yml", number, RunIdentity(number=number))
    return comment.post(talk, f"of run {number}", marker)


def texts(github: LoopbackGitHub) -> list[str]:
    return [row.body.splitlines()[-1] for row in github.state.comments]


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (2, 1, 3)])
def test_first_runs__that_overlap_leave_the_newest_run_s_report(
    github: LoopbackGitHub, order: tuple[int, ...]
) -> None:
    """Each has found no comment when it creates one; the innermost is the first to have one."""
    outermost, *waiting = order

    def race(_request: object) -> None:
        post(github, waiting.pop(0))

    for place in range(len(waiting)):
        github.before(race, method="POST", path=COMMENTS, after=place)
    post(github, outermost)
    assert waiting == []
    assert texts(github) == ["of run 3"]


def test_first_runs__at_once_leave_one_comment(github: LoopbackGitHub) -> None:
    """All have listed the comments before the first of them writes one."""
    barrier = threading.Barrier(3)
    github.before(lambda _request: barrier.wait(30), method="GET", path=COMMENTS, times=3)
    runs = [threading.Thread(target=post, args=(github, number)) for number in (1, 2, 3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert len(texts(github)) == 1


def test_first_run__whose_second_look_fails_has_its_comment(github: LoopbackGitHub) -> None:
    """The report is written; a duplicate can wait for the next run."""
    github.inject(faults.html_page(200), method="GET", path=COMMENTS, after=1)
    written = post(github, 1)
    assert written.url
    assert written.notice is None
    assert texts(github) == ["of run 1"]


@pytest.mark.parametrize(
    "value", ["1e999", "NaN", "1" * 100, "[" * 90 + "]" * 90, '"x"', "null", "{}"]
)
def test_marker__of_somebody_else_is_nobody_s_crash(github: LoopbackGitHub, value: str) -> None:
    """Whoever may comment could else keep every run from its report."""
    data = f'{{"attempt": 1, "number": 1, "report": {value}, "run": {value}}}'
    state = github.state
    repository, pull = state.repositories[0], state.pull_requests[0]
    body = f"<!-- ci-score {data} -->\nours!"
    state.comment(repository, pull.number, body, author="stranger")
    assert post(github, 1).url
    assert texts(github) == ["ours!", "of run 1"]

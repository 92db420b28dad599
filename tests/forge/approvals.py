"""What a real Gitea says of reviews and comments, read as a run reads it; no job has to run."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import SecretStr

from ci_score.github import Api, PullConversation
from ci_score.model.conversation import Comment
from ci_score.model.reasons import Why
from tests.forge.server import STRANGER, Clone, Gitea

NAME = "team/approved"
WRITER = "writer"
SENTENCE = "ci-score accept training step_time_ms up to 30 % because it needs a second pass"


def heard(gitea: Gitea, folder: Path) -> list[tuple[str, str, Why | None]]:
    """Who said what of a pull request, and why it does not count.

    The text of the writer's approval is edited afterwards, as any job could.
    """
    gitea.repository(NAME)
    gitea.user(WRITER)
    gitea.api("PUT", f"/repos/{NAME}/collaborators/{WRITER}", {"permission": "write"})
    clone = Clone(folder / "approved", gitea.address(NAME))
    clone.begin("main")
    clone.commit({"step_ms": "100"}, "a model")
    clone.push("main")
    clone.commit({"step_ms": "126"}, "slower")
    clone.push("slow")
    opening = {"title": "slower", "head": "slow", "base": "main"}
    pull = gitea.in_time(lambda: gitea.api("POST", f"/repos/{NAME}/pulls", opening))["number"]
    comments = f"/repos/{NAME}/issues/{pull}/comments"
    gitea.api("POST", comments, {"body": SENTENCE}, WRITER)
    review = {"event": "APPROVED", "body": SENTENCE}
    for user in (STRANGER, WRITER):
        made = gitea.api("POST", f"/repos/{NAME}/pulls/{pull}/reviews", review, user)
    number = made["html_url"].rpartition("-")[2]
    gitea.api("PATCH", f"/repos/{NAME}/issues/comments/{number}", {"body": "edited"})
    now = _read(gitea, pull)
    head = clone.commit({"step_ms": "127"}, "slower still")
    clone.push("slow")
    for _ in range(20):
        # The server learns of a push a little later.
        if gitea.api("GET", f"/repos/{NAME}/pulls/{pull}")["head"]["sha"] == head:
            break
        time.sleep(0.5)
    return now + _read(gitea, pull)[-1:]


def wanted() -> list[tuple[str, str, Why | None]]:
    """Only the writer's approval counts, as it was written, and only of its commit."""
    return [
        (WRITER, SENTENCE, Why.NO_APPROVAL),
        (STRANGER, SENTENCE, Why.NOT_OFFICIAL),
        (WRITER, SENTENCE, None),
        (WRITER, SENTENCE, Why.BEFORE_THE_COMMITS),
    ]


def _read(gitea: Gitea, pull: int) -> list[tuple[str, str, Why | None]]:
    api = Api(f"{gitea.url}/api/v1", SecretStr(gitea.token))
    said = PullConversation(api, NAME, pull).accepting.listen().comments
    return [_shown(one) for one in said]


def _shown(one: Comment) -> tuple[str, str, Why | None]:
    return one.author, one.body, one.refused.code if one.refused else None

"""Who may accept something, as GitHub answers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ci_score.errors import GitHubDownError, NotThereError
from ci_score.github.api import Api
from ci_score.github.conversation import LONGEST_ERROR, PullConversation
from ci_score.model.reasons import Reason, Why


class Answering:
    """An API with one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, path: str) -> Any:
        """The answer, or the error that it is."""
        assert path == "/repos/team/model/collaborators/octo%20cat/permission"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def why_not(answer: Any) -> Reason | None:
    api = cast("Api", Answering(answer))
    return PullConversation(api, "team/model", 7).why_not("octo cat")


@pytest.mark.parametrize("permission", ["admin", "write"])
def test_why_not__whoever_may_write_may_accept(permission: str) -> None:
    """Nothing speaks against it."""
    assert why_not({"permission": permission}) is None


def test_why_not__says_what_is_lacking() -> None:
    """Reading is not enough, and neither is an account that GitHub does not know."""
    assert why_not({"permission": "read"}) == Why.MAY_NOT_WRITE(permission="read")
    assert why_not(NotThereError("gone")) == Why.MAY_NOT_WRITE(permission="no")


def test_why_not__is_short_however_long_an_error_is() -> None:
    """A notice of a report has no room for a page."""
    refused = why_not(GitHubDownError("an answer of GitHub " * 100))
    assert refused is not None
    assert refused.code is Why.RIGHTS_NOT_KNOWN
    assert len(str(refused.data["words"])) == LONGEST_ERROR

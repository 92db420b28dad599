"""The comments of a pull request, and who may accept a regression there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ci_score.model.reasons import Reason, Why


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in a pull request.

    `is_insider` is what GitHub's listing says about the author. It only decides whom to ask about
    first, and gives no right. `written_at` is by GitHub's clock. `refused` says why it accepts
    nothing, whatever its author may do.
    """

    author: str
    body: str
    url: str = ""
    is_insider: bool = False
    written_at: str = ""
    refused: Reason | None = None


@dataclass(frozen=True, slots=True)
class Comments:
    """The comments of a pull request, the oldest first; `trouble` says why some are missing."""

    comments: tuple[Comment, ...] = ()
    trouble: Reason | None = None


class Conversation(Protocol):
    """What a run needs of a pull request on GitHub."""

    def listen(self) -> Comments:
        """All comments."""
        ...

    def why_not(self, login: str) -> Reason | None:
        """Why that person may not accept a regression; None if they may."""
        ...

    def why_too_early(self, comment: Comment) -> Reason | None:
        """Why a comment says nothing of the commits that are judged; None if it was after them."""
        ...


class Nobody:
    """The conversation of a run that belongs to no pull request."""

    def listen(self) -> Comments:
        """No comments."""
        return Comments()

    def why_not(self, login: str) -> Reason | None:
        """Without a pull request nobody may accept anything."""
        return Why.NO_PULL_REQUEST()

    def why_too_early(self, comment: Comment) -> Reason | None:
        """Without a pull request there are no commits."""
        return Why.NO_PULL_REQUEST()

"""What people say in a pull request, and who may be believed; GitHub is handed in as this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Comment:
    """What somebody said in a pull request.

    `is_insider` is what GitHub's listing says of the author: a hint whom to ask first, no right.
    """

    author: str
    body: str
    url: str = ""
    by_a_person: bool = True
    is_insider: bool = False
    edited: bool = False


@dataclass(frozen=True, slots=True)
class Comments:
    """The comments of a pull request, the oldest first; `trouble` says why some are missing."""

    comments: tuple[Comment, ...] = ()
    trouble: str | None = None


class Conversation(Protocol):
    """Who can be asked: a pull request on GitHub is handed in as this."""

    def listen(self) -> Comments:
        """Everything that was said."""
        ...

    def why_not(self, login: str) -> str | None:
        """Why that person may not accept anything, in words; None where they may."""
        ...


class Nobody:
    """Where nobody can be asked."""

    def listen(self) -> Comments:
        """Nothing was said."""
        return Comments()

    def why_not(self, login: str) -> str | None:
        """Nobody may."""
        return "there is no pull request"

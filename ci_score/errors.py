"""Every error that ci-score raises on purpose.

    CiScoreError                exit 3: could not judge, or ci-score itself broke
    ├── WrongUseError           exit 2: an option, a file or a setting is wrong
    │   ├── LacksProgramError a side lacks a file or program of the command, which the other has
    │   └── BadInputError       a stranger's file: which one, where, what was found and expected
    │       ├── NoSuchFileError it is not there
    │       └── ManyMistakesError  all that is wrong with one file
    ├── SetupFailedError        the user's own --setup: how, and the end of its log
    ├── DiskFullError           there is no room for a file
    └── GitHubError             the API refuses, or cannot be reached
        ├── NoPermissionError   the token is missing, expired or lacks a right: which one
        ├── NotThereError       no such thing, or gone
        ├── NoProvenanceError   it does not say what tells our artifacts from a stranger's
        └── GitHubDownError     limits, faults and broken answers, after bounded retries

Only a regression beyond a failing limit exits with 1; an error never does.
"""

from __future__ import annotations

from collections.abc import Sequence

EXIT_OK, EXIT_REGRESSION, EXIT_WRONG_USE, EXIT_UNJUDGED = 0, 1, 2, 3


class CiScoreError(Exception):
    """What went wrong, in words for the person who has to fix it."""

    exit_code = EXIT_UNJUDGED

    @property
    def lines(self) -> list[str]:
        """The message, a line a mistake."""
        return [str(self)]


class WrongUseError(CiScoreError):
    """The way ci-score was called or configured is wrong; the message says how to do it right."""

    exit_code = EXIT_WRONG_USE


class BadInputError(WrongUseError):
    """A file that cannot be used, with the place of the mistake."""

    def __init__(self, source: str, *, found: str, expected: str, field: str = "") -> None:
        self.source = source
        self.field = field
        self.found = found
        self.expected = expected
        place = f"{source}: {field}" if field else source
        super().__init__(f"{place}: found {found}, expected {expected}")


class NoSuchFileError(BadInputError):
    """A file that is not there."""

    def __init__(self, source: str) -> None:
        super().__init__(source, found="no such file", expected="a file")


class ManyMistakesError(BadInputError):
    """All that is wrong with a file, so that it is mended once."""

    def __init__(self, mistakes: Sequence[BadInputError]) -> None:
        first = mistakes[0]
        super().__init__(
            first.source, field=first.field, found=first.found, expected=first.expected
        )
        self._mistakes = tuple(mistakes)

    def __str__(self) -> str:
        places = (str(one).removeprefix(f"{self.source}: ") for one in self._mistakes)
        return f"{self.source}: {len(self._mistakes)} mistakes: {'; '.join(places)}"

    @property
    def lines(self) -> list[str]:
        """Each with its file, so that a line says all."""
        return list(map(str, self._mistakes))


class LacksProgramError(WrongUseError):
    """A side lacks a file or a program that the command names."""

    def __init__(self, side: str, message: str) -> None:
        self.side = side
        super().__init__(message)


class SetupFailedError(CiScoreError):
    """The user's own --setup did not do what it was to do in a side's folder."""

    def __init__(self, side: str, message: str) -> None:
        self.side = side
        super().__init__(f"{side}: {message}")

    @property
    def lines(self) -> list[str]:
        """How it ended, and what it said last."""
        return str(self).split("\n")


class DiskFullError(CiScoreError):
    """There is no room for a file; what stood there before is whole, and may be `kept`."""

    def __init__(self, path: object, why: str, kept: str = "") -> None:
        self.path, self.why = path, why
        more = f"; {kept}" if kept else ""
        super().__init__(f"{path}: there is no room for it ({why}){more}; make some, and try again")


class GitHubError(CiScoreError):
    """What the API answered, in our words; they never contain a token or a signed address."""


class NoPermissionError(GitHubError):
    """The token lacks a right; the message says what to add to `permissions:`."""


class NotThereError(GitHubError):
    """What was asked for does not exist, or no longer exists."""


class NoProvenanceError(GitHubError):
    """The server does not say whose an artifact is: which field its answer lacks."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(f"the server does not say whose an artifact is: no {field}")


class GitHubDownError(GitHubError):
    """The API could not answer.

    `maybe_done` is set where a write may have succeeded all the same, and `of_the_store` where not
    the API failed but the store of artifacts.
    """

    def __init__(
        self, message: str, *, maybe_done: bool = False, of_the_store: bool = False
    ) -> None:
        self.maybe_done = maybe_done
        self.of_the_store = of_the_store
        super().__init__(message)


class AnswerTooLargeError(GitHubDownError):
    """The API's answer is larger than what is read of it; it would be as large again."""

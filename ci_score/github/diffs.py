"""What a change does between two commits, as GitHub tells it: one request for a pair of them.

GitHub compares head with the commit where it left base. Where base comes before head, as on the
test merge of a pull request, that is base itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ci_score.errors import GitHubError
from ci_score.files.unified_diff import MOST_BYTES, code_diff_of
from ci_score.github.api import Api
from ci_score.model.code_diff import NO_DIFF, CodeDiff, CodeState

DIFF = "application/vnd.github.diff"
# A run has other things to ask, and its cases nearly always have one pair of commits.
MOST_DIFFS = 3
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(slots=True)
class Differences:
    """The diffs of a repository's commits; nothing is asked for twice."""

    api: Api
    repository: str
    tracked: frozenset[str] = frozenset()
    _known: dict[tuple[str, str], CodeDiff] = field(default_factory=dict)

    def between(self, base: CodeState, head: CodeState) -> CodeDiff:
        """The diff, or why there is none. A commit may be a stranger's word: any text."""
        pair = base.commit, head.commit
        if not all(map(_COMMIT.fullmatch, pair)):
            return CodeDiff(state="not found")
        if base.commit == head.commit:
            return CodeDiff()
        if pair not in self._known:
            if len(self._known) == MOST_DIFFS or self.api.is_gitea:
                return NO_DIFF
            self._known[pair] = self._asked(*pair)
        return self._known[pair]

    def _asked(self, base: str, head: str) -> CodeDiff:
        path = f"/repos/{self.repository}/compare/{base}...{head}"
        try:
            data = self.api.of_kind(DIFF, path, MOST_BYTES)
        except GitHubError:
            return CodeDiff(state="not found")
        return CodeDiff(state="too large") if data is None else code_diff_of(data, self.tracked)

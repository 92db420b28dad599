"""An extra check run on the pull request's head. The job's own result is what gates."""

from __future__ import annotations

from ci_score.errors import GitHubError
from ci_score.github.api import Api
from ci_score.model.reasons import Reason, Why

LONGEST_SUMMARY = 65_535
# What could not be judged must not satisfy a rule that asks for this check.
_CONCLUSIONS = {0: "success", 1: "failure"}
_UNJUDGED = "action_required"


def post_check_run(
    api: Api, repository: str, sha: str, *, title: str, exit_code: int, headline: str, text: str
) -> Reason | None:
    """Creates the check run; returns what the reader should know if that failed."""
    body = {
        "name": f"ci-score ({title})" if title else "ci-score",
        "head_sha": sha,
        "status": "completed",
        "conclusion": _CONCLUSIONS.get(exit_code, _UNJUDGED),
        "output": {"title": headline[:200], "summary": text},
    }
    try:
        api.write("POST", f"/repos/{repository}/check-runs", body)
    except GitHubError as error:
        return Why.CHECK_NOT_CREATED(words=str(error))
    return None

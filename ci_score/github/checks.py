"""An extra check run on the pull request's head. The job's own result is what gates."""

from __future__ import annotations

from ci_score.errors import GitHubError
from ci_score.github.api import Api
from ci_score.models import Outcome

LONGEST_SUMMARY = 65_535
# A check run of GITHUB_TOKEN lands in any workflow's suite, so it never blocks by itself.
_CONCLUSIONS = {
    Outcome.PASS: "success",
    Outcome.WARN: "neutral",
    Outcome.INCONCLUSIVE: "neutral",
    Outcome.FAIL: "failure",
}


def post_check_run(
    api: Api, repository: str, sha: str, *, title: str, outcome: Outcome, headline: str, text: str
) -> str:
    """Creates the check run; returns what the reader should know if that failed."""
    body = {
        "name": f"ci-score ({title})" if title else "ci-score",
        "head_sha": sha,
        "status": "completed",
        "conclusion": _CONCLUSIONS[outcome],
        "output": {"title": headline[:200], "summary": text},
    }
    try:
        api.write("POST", f"/repos/{repository}/check-runs", body)
    except GitHubError as error:
        return f"The check run was not created: {error}"
    return ""

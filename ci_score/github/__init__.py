"""GitHub: HTTP below (`api`), the verbs of our domain above it.

Errors are translated at this border, and `requests` is imported when GitHub is first asked.
"""

from ci_score.github import artifacts, checks, comment, commits, issue, runner
from ci_score.github.api import Api
from ci_score.github.conversation import PullConversation
from ci_score.github.event import Event, Kind, ProducerRun, read_event

__all__ = [
    "Api",
    "Event",
    "Kind",
    "ProducerRun",
    "PullConversation",
    "artifacts",
    "checks",
    "comment",
    "commits",
    "issue",
    "read_event",
    "runner",
]

"""A stateful GitHub on loopback: real HTTP, written from GitHub's description, not from a client.

A story in a test:

    state = State()
    repository = state.repository("team/model")
    state.commit(repository, "main")
    state.token("secret")
    with LoopbackGitHub(state) as github:
        requests.get(f"{github.url}/repos/team/model", headers={"Authorization": "Bearer secret"})
    assert not contract.violations(github.exchanges)
"""

from tests.loopback_github.exchanges import Exchange, read_log
from tests.loopback_github.server import LoopbackGitHub
from tests.loopback_github.state import (
    ACTIONS_BOT,
    FORK_PERMISSIONS,
    GATE_PERMISSIONS,
    State,
    zipped,
)

__all__ = [
    "ACTIONS_BOT",
    "FORK_PERMISSIONS",
    "GATE_PERMISSIONS",
    "Exchange",
    "LoopbackGitHub",
    "State",
    "read_log",
    "zipped",
]

"""Who the token is, and how much it may still ask."""

from __future__ import annotations

from tests.loopback_github import bodies
from tests.loopback_github.endpoints.call import Call
from tests.loopback_github.messages import Refusal, Reply, json_reply


def get_user(call: Call) -> Reply:
    """The token's user. An installation's token, such as GITHUB_TOKEN, has none: 403."""
    if call.token is None:
        raise Refusal(401, "Requires authentication")
    if call.token.kind == "installation":
        raise Refusal(403, "Resource not accessible by integration")
    account = call.state.account(call.token.login)
    return json_reply(bodies.public_user(call.links, account, call.state.now))


def get_rate_limit(call: Call) -> Reply:
    """The limits; asking for them is free."""
    core = call.state.rate_limit.numbers()
    return json_reply({"resources": {"core": core, "search": core}, "rate": core})

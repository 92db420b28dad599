"""Issues, and the comments on them and on pull requests."""

from __future__ import annotations

from tests.loopback_github import bodies
from tests.loopback_github.endpoints.call import Call
from tests.loopback_github.messages import Reply, invalid_field, json_reply, not_found
from tests.loopback_github.state import Comment, Issue

MAX_BODY = 65_536


def list_comments(call: Call) -> Reply:
    """The comments on an issue or pull request, oldest first; those that are new `since` a time."""
    number, since = _issue(call).number, call.request.query.get("since") or ""
    mine = [one for one in call.mine(call.state.comments) if one.issue_number == number]
    return call.listed([one for one in mine if one.updated_at >= since], bodies.comment)


def create_comment(call: Call) -> Reply:
    """A new comment by the token's account."""
    number = _issue(call).number
    text = _comment_text(call)
    made = call.state.comment(call.repository, number, text, author=call.login)
    body = bodies.comment(call.links, call.state, made)
    return json_reply(body, 201, {"location": body["url"]})


def get_comment(call: Call) -> Reply:
    """One comment."""
    return json_reply(bodies.comment(call.links, call.state, _comment(call)))


def update_comment(call: Call) -> Reply:
    """Another text for a comment; its author stays."""
    comment = _comment(call)
    comment.body = _comment_text(call)
    comment.updated_at = call.state.tick()
    return json_reply(bodies.comment(call.links, call.state, comment))


def delete_comment(call: Call) -> Reply:
    """Remove a comment."""
    call.state.comments.remove(_comment(call))
    return Reply(204)


def list_issues(call: Call) -> Reply:
    """Issues, newest first; pull requests are among them."""
    wanted = call.request.query.get("state") or "open"
    creator = call.request.query.get("creator")
    mine = [one for one in reversed(call.mine(call.state.issues)) if creator in (None, one.author)]
    return call.listed([one for one in mine if wanted in ("all", one.state)], bodies.issue)


def create_issue(call: Call) -> Reply:
    """A new issue by the token's account."""
    values = call.request.json()
    title = values.get("title")
    if not isinstance(title, str) or not title:
        raise invalid_field("Issue", "title", "missing_field")
    text = _checked_text("Issue", values.get("body") or "")
    made = call.state.issue(call.repository, title, author=call.login)
    made.body = text
    body = bodies.issue(call.links, call.state, made)
    return json_reply(body, 201, {"location": body["url"]})


def update_issue(call: Call) -> Reply:
    """Another title, text or state for an issue."""
    issue = _issue(call)
    values = call.request.json()
    if values.get("state", "open") not in ("open", "closed"):
        raise invalid_field("Issue", "state", "invalid")
    issue.title = values.get("title", issue.title)
    issue.body = _checked_text("Issue", values.get("body") or issue.body)
    issue.state = values.get("state", issue.state)
    issue.closed_at = call.state.tick() if issue.state == "closed" else None
    return json_reply(bodies.issue(call.links, call.state, issue))


def _issue(call: Call) -> Issue:
    wanted = call.number("issue_number")
    for one in call.mine(call.state.issues):
        if one.number == wanted:
            found: Issue = one
            return found
    raise not_found()


def _comment(call: Call) -> Comment:
    found: Comment = call.one(call.state.comments, "comment_id")
    return found


def _comment_text(call: Call) -> str:
    text = call.request.json().get("body")
    if not isinstance(text, str):
        raise invalid_field("IssueComment", "body", "missing_field")
    if not text.strip():
        raise invalid_field("IssueComment", "body", "custom", "body cannot be blank")
    return _checked_text("IssueComment", text)


def _checked_text(resource: str, text: str) -> str:
    if len(text) > MAX_BODY:
        message = f"body is too long (maximum is {MAX_BODY} characters)"
        raise invalid_field(resource, "body", "custom", message)
    return text

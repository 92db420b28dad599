"""The blob host: serves artifacts to whoever has a signed URL, and to nobody with a token.

It answers as the Azure store behind GitHub does. A signature is a right by itself; beside an
Authorization header it is refused, so a client that forwards its token on the redirect fails.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from urllib.parse import urlencode

from tests.loopback_github.messages import Reply, Request
from tests.loopback_github.state import Artifact, State


class BlobHost:
    """Signs URLs and answers them."""

    def __init__(self, state: State, url: str, lifetime: float) -> None:
        """Serve the artifacts of `state` at `url`; a signature lives `lifetime` seconds."""
        self.state = state
        self.url = url
        self.lifetime = lifetime
        self._key = secrets.token_bytes(32)

    def sign(self, artifact_id: int) -> str:
        """A URL of an artifact's bytes that works for a short while."""
        path = f"/artifacts/{artifact_id}.zip"
        expiry = f"{time.time() + self.lifetime:.3f}"
        query = {"se": expiry, "sp": "r", "sv": "2025-11-05", "sig": self._signature(path, expiry)}
        return f"{self.url}{path}?{urlencode(query)}"

    def __call__(self, request: Request) -> Reply:
        """The bytes, or the store's refusal."""
        if "authorization" in request.headers:
            message = "Authentication information is not given in the correct format."
            return _error(400, "InvalidAuthenticationInfo", message)
        expiry = request.query.get("se", "")
        expected = self._signature(request.path, expiry)
        if not hmac.compare_digest(expected, request.query.get("sig", "")):
            return _error(403, "AuthenticationFailed", "Signature did not match.")
        if time.time() > float(expiry):
            return _error(403, "AuthenticationFailed", "Signature not valid in the time frame.")
        artifact = self._artifact(request.path)
        if artifact is None:
            return _error(404, "BlobNotFound", "The specified blob does not exist.")
        return _bytes(artifact)

    def _signature(self, path: str, expiry: str) -> str:
        return hmac.new(self._key, f"{path}\n{expiry}".encode(), hashlib.sha256).hexdigest()

    def _artifact(self, path: str) -> Artifact | None:
        number = path.rsplit("/", 1)[-1].removesuffix(".zip")
        with self.state.lock:
            return next((one for one in self.state.artifacts if str(one.id) == number), None)


def _bytes(artifact: Artifact) -> Reply:
    is_zip = artifact.content.startswith(b"PK")
    headers = {
        "content-type": "application/zip" if is_zip else "application/octet-stream",
        "content-disposition": f'attachment; filename="{artifact.id}.zip"',
        "x-ms-request-id": secrets.token_hex(8),
    }
    return Reply(200, headers, artifact.content)


def _error(status: int, code: str, message: str) -> Reply:
    body = (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    )
    headers = {"content-type": "application/xml", "x-ms-error-code": code}
    return Reply(status, headers, body.encode())

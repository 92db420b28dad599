"""The whole of it: an API host and a blob host on two ports, over one state."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from tests.loopback_github.blob import BlobHost
from tests.loopback_github.bodies import Links
from tests.loopback_github.exchanges import Exchanges
from tests.loopback_github.faults import Fault, Hook, Interference, Match
from tests.loopback_github.routes import Api
from tests.loopback_github.state import State
from tests.loopback_github.wire import Listener

LOOPBACK = "127.0.0.1"
SIGNATURE_SECONDS = 60.0  # GitHub: "This URL expires after 1 minute"


class LoopbackGitHub:
    """A GitHub on loopback, for as long as the `with` block lasts.

    `prefix` puts the API under a path, as `/api/v3` on GHES and `/api/v1` on Gitea.
    """

    def __init__(
        self,
        state: State,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        prefix: str = "",
        signature_seconds: float = SIGNATURE_SECONDS,
        log: Path | None = None,
    ) -> None:
        """Bind both ports; port 0 takes a free one."""
        self.state = state
        self.exchanges = Exchanges(log)
        self.interference = Interference()
        wiring = (self.interference, self.exchanges)
        self._api = Listener("api", (host, port), *wiring, prefix)
        self._blob = Listener("blob", (host, 0), *wiring)
        self.blob = BlobHost(state, self._blob.url, signature_seconds)
        web = self._api.url.removesuffix(prefix)
        self.links = Links(api=self._api.url, web=web)
        self.api = Api(state, self.links, self.blob.sign)
        self._api.answer, self._api.common_headers = self.api, self.api.common_headers
        self._blob.answer = self.blob

    @property
    def url(self) -> str:
        """The API's base URL: what the runner would say in GITHUB_API_URL."""
        return self._api.url

    def start(self) -> None:
        """Answer from now on."""
        self._api.start()
        self._blob.start()

    def stop(self) -> None:
        """Free both ports."""
        self._api.stop()
        self._blob.stop()

    def __enter__(self) -> LoopbackGitHub:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def inject(
        self,
        fault: Fault,
        *,
        method: str = ".*",
        path: str = "",
        times: int = 1,
        after: int = 0,
        host: str = "api",
    ) -> None:
        """Disturb the next `times` requests that match, leaving the first `after` alone.

        `method` is a pattern of the whole method, `path` of a part of the path (which
        carries no prefix and no query); `host` is "api" or "blob".
        """
        self.interference.inject(Match(host, method, path, times, after), fault)

    def before(
        self,
        hook: Hook,
        *,
        method: str = ".*",
        path: str = "",
        times: int = 1,
        after: int = 0,
        host: str = "api",
    ) -> None:
        """Call `hook(request)` just before a matching request is answered, to race with it."""
        self.interference.before(Match(host, method, path, times, after), hook)

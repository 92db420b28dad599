"""The sockets: reads a request, has it answered and disturbed, records it, puts it on the wire."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.loopback_github.exchanges import Exchanges
from tests.loopback_github.faults import Delivery, Fault, Interference
from tests.loopback_github.messages import Reply, Request

PIECES = 10  # a slow body comes in so many
POLL_SECONDS = 0.005  # how soon a server notices that it is to stop: every test waits for it


class Listener:
    """One HTTP server on a port of its own, served by threads."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        interference: Interference,
        exchanges: Exchanges,
        prefix: str = "",
    ) -> None:
        """Bind the port at once, so that the address is known before anything is answered."""
        self.name = name
        self.prefix = prefix
        self.interference = interference
        self.exchanges = exchanges
        self.closing = threading.Event()
        self.answer: Callable[[Request], Reply] = lambda _: Reply(503)
        # What an injected answer has of the headers that all answers of this host have.
        self.common_headers: Callable[[Request], dict[str, str]] = lambda _: {}
        listener = self

        class Handler(_Handler):
            owner = listener

        self._server = _Server(address, Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": POLL_SECONDS}, daemon=True
        )

    @property
    def url(self) -> str:
        """Where it listens, with the prefix of its paths."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{self.prefix}"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Free the port; slow and hanging answers end at once."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client's idle connection must not keep the test waiting
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    owner: Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """Give up quietly on a client that has gone."""
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def serve(self) -> None:
        """Answer one request."""
        request = self._read()
        owner = self.owner
        owner.interference.run_hooks(owner.name, request)
        fault = owner.interference.take_fault(owner.name, request)
        reply = _reply(owner, request, fault)
        sent = None if fault and fault.delivery is Delivery.RESET else reply
        owner.exchanges.record(owner.name, request, sent, fault.name if fault else None)
        if fault is None:
            self._send(reply)
        else:
            self._send_badly(reply, fault)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = serve  # noqa: N815 - http.server's

    def log_message(self, *_: object) -> None:
        """Say nothing: the exchanges are the log."""

    def _read(self) -> Request:
        target = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        return Request(
            method=self.command,
            path=target.path.removeprefix(self.owner.prefix),
            query_string=target.query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )

    def _send(self, reply: Reply) -> None:
        # in one write: two would wait for each other's acknowledgement
        self.wfile.write(_head(reply, len(reply.body)) + reply.body)

    def _send_badly(self, reply: Reply, fault: Fault) -> None:
        if fault.delivery is Delivery.RESET:
            self._reset()
        elif fault.delivery is Delivery.TRUNCATED:
            # an empty body is truncated too: it promises a byte that never comes
            promised = len(reply.body) or 1
            self.wfile.write(_head(reply, promised) + reply.body[: promised // 2])
            self.close_connection = True
        elif fault.delivery is Delivery.SLOW:
            self._trickle(reply, fault.seconds / PIECES)
        else:
            self.owner.closing.wait(fault.seconds)
            self._send(reply)

    def _trickle(self, reply: Reply, pause: float) -> None:
        self.wfile.write(_head(reply, len(reply.body)))
        size = max(1, -(-len(reply.body) // PIECES))
        for start in range(0, len(reply.body), size):
            self.owner.closing.wait(pause)
            self.wfile.write(reply.body[start : start + size])

    def _reset(self) -> None:
        """Close with a lingering time of zero, which TCP makes a reset of."""
        zero = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, zero)
        os.close(self.connection.detach())
        self.close_connection = True


def _reply(owner: Listener, request: Request, fault: Fault | None) -> Reply:
    if fault is None or fault.needs_answer:
        answered = owner.answer(request)
        if fault is None or fault.reply is None:
            return answered
    if fault.reply is None:
        return Reply(503)  # never sent: the connection is reset
    headers = {**owner.common_headers(request), **fault.reply.headers}
    return Reply(fault.reply.status, headers, fault.reply.body)


def _head(reply: Reply, length: int) -> bytes:
    headers = {"date": formatdate(usegmt=True), **reply.headers}
    if reply.status != 204:
        headers["content-length"] = str(length)
    lines = [f"HTTP/1.1 {reply.status} {reply.reason}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

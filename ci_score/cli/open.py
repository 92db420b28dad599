"""`ci-score open`: shows traces side by side in Perfetto, which runs in the browser."""

from __future__ import annotations

import re
import shutil
import threading
import webbrowser
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import click

from ci_score.cli.console import say
from ci_score.errors import WrongUseError

PERFETTO = "https://ui.perfetto.dev"
# Perfetto's page may read from this port of the machine and no other.
PORT = 9001
PIECE = 1024 * 1024
NSIGHT_ENDINGS = (".sqlite", ".nsys-rep", ".sqlite.gz")


@click.command("open")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--no-browser", is_flag=True, help="Only print the addresses.")
def command(traces: Sequence[Path], no_browser: bool) -> None:
    """Open TRACES (files, or folders with one trace each) side by side in Perfetto.

    The traces stay on this machine: a small server on 127.0.0.1 hands them to Perfetto's page. It
    stops when each trace was fetched, or with Ctrl-C. Each tab is called what its file's path has
    of its own, such as base-trace.json. For Nsight's files it prints the command of `nsys-ui`
    instead.

    \b
    Examples:
      ci-score open base.json.gz head.json.gz
      ci-score open base/ head/ --no-browser
    """
    files = [_one_trace(path) for path in traces]
    for file in files:
        if file.name.endswith(NSIGHT_ENDINGS):
            say(f"this is Nsight's: nsys-ui {click.format_filename(file)}")
    shown = [file for file in files if not file.name.endswith(NSIGHT_ENDINGS)]
    if shown:
        serve(shown, PORT, (lambda _url: False) if no_browser else webbrowser.open)


def _one_trace(path: Path) -> Path:
    if path.is_file():
        return path
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name[0] != ".")
    if len(files) != 1:
        raise WrongUseError(f"{path}: it holds {len(files)} files; name the trace")
    return files[0]


def _labels(files: Sequence[Path]) -> list[str]:
    """What to call each of them: the folders and the name that are not the same for all."""
    paths = [file.absolute().parts for file in files]
    shared = 0
    while (
        all(len(path) > shared + 1 for path in paths) and len({path[shared] for path in paths}) < 2
    ):
        shared += 1
    # Perfetto shows a tab's address as it is, so it has no character that an address must encode.
    labels = [re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(path[shared:]))[-80:] for path in paths]
    if len(set(labels)) < len(labels):
        return [f"{number}-{label}" for number, label in enumerate(labels, start=1)]
    return labels


def serve(files: Sequence[Path], port: int, show: Callable[[str], object]) -> None:
    """Serves the files to Perfetto's page until each was fetched once."""
    named = {str(number): file for number, file in enumerate(files)}
    waiting, own_host = set(named), f"127.0.0.1:{port}"
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        """Serves the named traces, and no other file."""

        def do_GET(self) -> None:
            """One of the traces, or 403 or 404."""
            number = self.path.strip("/").partition("/")[0]
            # A page of anybody's may have its own name point to this machine, and read the answer.
            if self.headers.get_all("Host") != [own_host]:
                self.send_error(403)
                return
            file = named.get(number)
            if file is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", PERFETTO)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(file.stat().st_size))
            self.end_headers()
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, self.wfile, PIECE)
            waiting.discard(number)
            if not waiting:
                done.set()

        def log_message(self, *_arguments: object) -> None:
            """Prints no line for each request."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise WrongUseError(
            f"port {port} is taken ({error.strerror}); free it, Perfetto reads from no other port"
        ) from None
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for number, label in enumerate(_labels(files)):
            # The page calls its tab after the last part of the address.
            address = f"http://127.0.0.1:{port}/{number}/{label}"
            url = f"{PERFETTO}/#!/?url={quote(address, safe='')}"
            say(f"{label}: {url}")
            show(url)
        done.wait()
        server.shutdown()

"""`ci-score open`: traces side by side in Perfetto, which runs in the browser."""

from __future__ import annotations

import shutil
import threading
import webbrowser
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import click

from ci_score.cli.voice import say
from ci_score.errors import WrongUseError

PERFETTO = "https://ui.perfetto.dev"
# The only port of this machine that Perfetto's page may read from.
PORT = 9001
PIECE = 1024 * 1024
NSIGHT_ENDINGS = (".sqlite", ".nsys-rep", ".sqlite.gz")


@click.command("open")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--no-browser", is_flag=True, help="Only print the addresses.")
def command(traces: Sequence[Path], no_browser: bool) -> None:
    """Open TRACES (files, or folders with one trace each) side by side in Perfetto.

    The traces stay on this machine: a small server on 127.0.0.1 hands them to Perfetto's page, and
    ends when each was fetched or with Ctrl-C. Nsight's files are for `nsys-ui`, which is named.

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
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.name[0] != ".")
    if len(found) != 1:
        raise WrongUseError(f"{path}: it holds {len(found)} files; name the trace")
    return found[0]


def serve(files: Sequence[Path], port: int, show: Callable[[str], object]) -> None:
    """Hands the files to Perfetto's page until each was fetched once."""
    waiting = set(range(len(files)))
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        """Gives the named traces to Perfetto, and nothing else to anybody."""

        def do_GET(self) -> None:
            """One of the traces, or 404."""
            number = self.path.strip("/").partition("/")[0]
            if not number.isdigit() or int(number) >= len(files):
                self.send_error(404)
                return
            file = files[int(number)]
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", PERFETTO)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(file.stat().st_size))
            self.end_headers()
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, self.wfile, PIECE)
            waiting.discard(int(number))
            if not waiting:
                done.set()

        def log_message(self, *_arguments: object) -> None:
            """A page that loads is no news."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise WrongUseError(
            f"port {port} is taken ({error.strerror}); close the other one, Perfetto reads no other"
        ) from None
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for number, file in enumerate(files):
            address = f"http://127.0.0.1:{port}/{number}/{quote(file.name)}"
            url = f"{PERFETTO}/#!/?url={quote(address, safe='')}"
            say(f"{file.name}: {url}")
            show(url)
        done.wait()
        server.shutdown()

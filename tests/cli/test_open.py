"""`ci-score open` hands the named traces to Perfetto's page, and nothing else to anybody."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest
import requests

from ci_score.cli import execute
from ci_score.cli.open import _labels, serve
from ci_score.errors import WrongUseError

Out = pytest.CaptureFixture[str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def address_in(url: str) -> str:
    return unquote(url.partition("?url=")[2])


def test_open__serves_each_trace_once_and_ends(tmp_path: Path) -> None:
    """The page of Perfetto may read them; another path of the machine is not there."""
    for name in ("base.json", "head.json"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    shown: list[str] = []
    opened = threading.Event()

    def show(url: str) -> None:
        shown.append(url)
        if len(shown) == 2:
            opened.set()

    files = [tmp_path / "base.json", tmp_path / "head.json"]
    server = threading.Thread(target=serve, args=(files, free_port(), show))
    server.start()
    assert opened.wait(10)
    first, second = map(address_in, shown)
    assert requests.get(first.replace("/0/base.json", "/etc/passwd"), timeout=10).status_code == 404
    assert requests.get(first.replace("/0/", "/7/"), timeout=10).status_code == 404
    assert requests.get(first.replace("/0/", "/²/"), timeout=10).status_code == 404
    for host in ("evil.example:9001", "127.0.0.1", "localhost"):
        rebound = requests.get(first, headers={"Host": host}, timeout=10)
        assert (rebound.status_code, "base" in rebound.text) == (403, False)
    answer = requests.get(first, timeout=10)
    assert answer.text == "base.json"
    assert answer.headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
    assert requests.get(second, timeout=10).text == "head.json"
    server.join(10)
    assert not server.is_alive()


@pytest.mark.parametrize(
    ("files", "labels"),
    [
        (["perf/base/trace.json", "perf/head/trace.json"], ["base-trace.json", "head-trace.json"]),
        (["base.json.gz", "head.json.gz"], ["base.json.gz", "head.json.gz"]),
        (["a/one.json", "one.json"], ["a-one.json", "one.json"]),
        (["out/über ein/trace.json"], ["trace.json"]),
        (["a b/x.json", "a?b/x.json"], ["1-a-b-x.json", "2-a-b-x.json"]),
        (["x.json", "x.json"], ["1-x.json", "2-x.json"]),
    ],
)
def test_open__calls_each_tab_what_is_its_own(files: list[str], labels: list[str]) -> None:
    """Perfetto's tab has the last part of the address as it stands, so nothing in it is encoded."""
    assert _labels([Path(file) for file in files]) == labels


def test_open__a_taken_port_is_said(tmp_path: Path) -> None:
    """Perfetto reads from one port only, so another one would be of no use."""
    trace = tmp_path / "trace.json"
    trace.touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(WrongUseError, match=f"port {port} is taken"):
            serve([trace], port, print)


def test_open__names_the_tool_of_nsight(tmp_path: Path, capsys: Out) -> None:
    """Perfetto cannot read a database of Nsight."""
    (tmp_path / "run.sqlite").touch()
    assert execute(["open", str(tmp_path / "run.sqlite")]) == 0
    assert "nsys-ui" in capsys.readouterr().err


def test_open__a_folder_holds_one_trace(tmp_path: Path, capsys: Out) -> None:
    """Which of several is meant is the user's to say."""
    (tmp_path / "a.json").touch()
    (tmp_path / "b.json").touch()
    assert execute(["open", str(tmp_path)]) == 2
    assert "it holds 2 files" in capsys.readouterr().err

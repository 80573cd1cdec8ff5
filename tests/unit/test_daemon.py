"""lab.node: how a daemon is started, fails to, answers and ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.node import Daemon, DidNotStart, Node

#: A program with bitcoind's options for RPC; MODE is what it does instead of a node's work.
PROGRAM = """\
import http.server, json, os, sys, time
options = dict(word[1:].partition("=")[::2] for word in sys.argv[1:])
mode = os.environ.get("MODE", "")
print(mode, os.environ.get("FIRST", ""), *sys.argv[1:], flush=True)
if mode == "ends":
    sys.exit("Error: the disk is full")
if mode == "mute":
    time.sleep(60)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        calls = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps([{"id": c["id"], "result": c["method"]} for c in calls]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        self.wfile.flush()
        if calls[0]["method"] == "stop":
            os._exit(3)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(options["rpcport"])), Handler)
if mode == "slow":
    time.sleep(1)
open(options["rpccookiefile"], "w").write("__cookie__:x")
server.serve_forever()
"""
PORT = 18790


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program, as one file that can be run."""
    file = tmp_path / "bitcoind"
    file.write_text(f"#!{sys.executable}\n{PROGRAM}")
    file.chmod(0o755)
    return file


def node(program: Path, tmp_path: Path, timeout: float) -> Node:
    """A node of regtest that is this program."""
    return Node(
        tmp_path,
        tmp_path,
        engine="leveldb",
        chain="regtest",
        port=PORT,
        bitcoind=program,
        timeout=timeout,
    )


@pytest.mark.parametrize("mode", ["", "slow"])
def test_answers_and_stops(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """It is waited for until it answers; its exit status is told."""
    monkeypatch.setenv("MODE", mode)
    (tmp_path / "cookie").write_text("of an earlier run")
    with node(program, tmp_path, 30) as running:
        assert running.call("getblockcount") == "getblockcount"
        assert running.stop() == 3
    words = running.log.read_text().split()
    assert {"-chain=regtest", "-dbbackend=leveldb", "-rpcbind=127.0.0.1", "-nodebuglogfile"} <= set(
        words
    )


@pytest.mark.parametrize(
    ("mode", "timeout", "words"),
    [("ends", 30, "ended with 1: Error: the disk is full"), ("mute", 0.5, "no answer in 0 s: ")],
)
def test_does_not_start(
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    timeout: float,
    words: str,
) -> None:
    """The exception has its last words, and nothing of it is left."""
    monkeypatch.setenv("MODE", mode)
    with pytest.raises(DidNotStart, match=words):
        node(program, tmp_path, timeout)


def test_environment_and_what_comes_first(program: Path, tmp_path: Path) -> None:
    """Both reach the program; killing it twice is no error."""
    marker = tmp_path / "first"
    daemon = Daemon(
        [sys.executable, str(program)],
        tmp_path,
        "-x=1",
        port=PORT,
        environment={"FIRST": "seen"},
        first=marker.touch,
    )
    try:
        while "-x=1" not in daemon.log.read_text():
            assert daemon.process.poll() is None
        assert marker.exists()
        assert "seen" in daemon.log.read_text()
    finally:
        daemon.kill()
        daemon.kill()

"""The page's web server against what nobody should send: it answers others all the while."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.page import PAGE, Server, collected

GOOD = b"GET /status.json HTTP/1.1\r\nHost: attic.local\r\nConnection: close\r\n\r\n"
ATTACKER = "127.0.0.2"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PATHS = [
    "/../../../../etc/passwd",
    "/static/../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "/static/%2e%2e%2f%2e%2e%2flighttpd.conf",
    "/static/..%5c..%5cetc",
    "/static//etc/passwd",
    "/history",
    "/history.new",
    "/facts",
    "/static/",
    "/static",
    "/status.json/",
    "/status.json/x",
    "/status.json%00.html",
    "/.%00./",
    "/static/%c0%ae%c0%ae/passwd",
    "/cgi-bin/sh",
    "/server-status",
    "/~root/",
    "/static/page.js~",
    "/static/.htaccess",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A node at the tip."""
    work = tmp_path_factory.mktemp("server")
    folder = collected(work / "node", "tip")
    (folder.parent / "secret").write_text("secret words")
    with Server(work, folder) as running:
        yield running


def status(answer: bytes) -> int:
    """The number in an answer's first line."""
    match = re.match(rb"HTTP/1\.[01] ([0-9]{3}) ", answer)
    return int(match[1]) if match else 0


def well(server: Server) -> float:
    """The page is there for somebody else; seconds that took."""
    begun = time.monotonic()
    answer = server.ask(GOOD)
    assert status(answer) == 200
    assert b'"schema": 1' in answer
    assert server.process
    assert server.process.poll() is None
    return time.monotonic() - begun


def test_headers(server: Server) -> None:
    """Each kind of file has its type and the policy."""
    kinds = {
        "/": "text/html; charset=utf-8",
        "/index.html": "text/html; charset=utf-8",
        "/status.json": "application/json",
        "/metrics": "text/plain; version=0.0.4; charset=utf-8",
        "/static/page.js": "text/javascript; charset=utf-8",
        "/static/page.css": "text/css; charset=utf-8",
        "/static/uPlot.iife.min.js": "text/javascript; charset=utf-8",
        "/static/icon.svg": "image/svg+xml",
    }
    for path, kind in kinds.items():
        answer = server.ask(f"GET {path} HTTP/1.0\r\nHost: 192.168.1.7\r\n\r\n".encode())
        head = answer.partition(b"\r\n\r\n")[0].decode()
        assert status(answer) == 200
        assert f"Content-Type: {kind}" in head
        for name, value in HEADERS.items():
            assert f"{name}: {value}" in head
        assert "Server:" not in head
        assert "Set-Cookie" not in head


def test_before_the_first_look(tmp_path: Path) -> None:
    """Who comes before the collector has looked sees that the node starts, not a refusal."""
    folder = tmp_path / "status"
    folder.mkdir()
    shutil.copy(PAGE / "starting.html", folder / "index.html")
    with Server(tmp_path, folder) as running:
        answer = running.ask(b"GET / HTTP/1.0\r\nHost: attic.local\r\n\r\n")
        assert status(answer) == 200
        assert b"The node is starting." in answer
        for path in (b"/status.json", b"/metrics"):
            missing = running.ask(b"GET " + path + b" HTTP/1.0\r\nHost: attic.local\r\n\r\n")
            assert status(missing) == 404


def test_names_of_the_node(server: Server) -> None:
    """A web site of the Internet that leads here (DNS rebinding) is given nothing."""
    cases = {
        "attic.local": 200,
        "attic.local:80": 200,
        "attic": 200,
        "192.168.1.7": 200,
        "[fe80::1]": 200,
        "attic.fritz.box": 200,
        "evil.example": 403,
        "192.168.1.7.nip.io": 403,
        "local.evil.com": 403,
        "attic.local.evil.com": 403,
    }
    for host, expected in cases.items():
        answer = server.ask(f"GET /status.json HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert status(answer) == expected, host
        assert (b"schema" in answer) == (expected == 200)


def requests() -> Iterator[bytes]:
    """1,200 requests, the same at each run."""
    dice = random.Random(25)
    for method in (
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "TRACE",
        "CONNECT",
        "PROPFIND",
        "X" * 300,
    ):
        for path in PATHS:
            yield f"{method} {path} HTTP/1.1\r\nHost: attic\r\n\r\n".encode()
    for length in (4000, 8192, 65536, 1000000):
        yield b"GET /" + b"a" * length + b" HTTP/1.1\r\nHost: attic\r\n\r\n"
        yield b"GET / HTTP/1.1\r\nHost: attic\r\nX: " + b"a" * length + b"\r\n\r\n"
        yield b"GET / HTTP/1.1\r\nHost: " + b"a" * length + b"\r\n\r\n"
        yield b"GET / HTTP/1.1\r\nHost: attic\r\n" + b"A: b\r\n" * (length // 6) + b"\r\n"
        yield (
            b"POST / HTTP/1.1\r\nHost: attic\r\nContent-Length: 99999999999\r\n\r\n" + b"a" * length
        )
        body = b"%x\r\n" % length + b"a" * length + b"\r\n0\r\n\r\n"
        yield b"POST / HTTP/1.1\r\nHost: attic\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    yield from (
        b"GET / HTTP/1.1\r\nHost: attic\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: attic\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: attic\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 64,
        b"GET / HTTP/1.1\r\nHost: attic\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n"
        b"Connection: Upgrade, HTTP2-Settings\r\n\r\n",
        b"GET / HTTP/1.1\nHost: attic\n\n",
        b"GET  /  HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300,
        b"",
        b"\r\n" * 5000,
        b"GET / HTTP/1.1\r\nHost: attic\r\nRange: bytes=" + b"0-1," * 900 + b"2-3\r\n\r\n",
        GOOD * 300,
    )
    known = 9 * len(PATHS) + 4 * 6 + 13
    for _ in range(1200 - known):
        kind = dice.randrange(4)
        if kind == 0:
            yield dice.randbytes(dice.randrange(1, 3000))
        elif kind == 1:
            text = bytearray(GOOD)
            for _ in range(dice.randrange(1, 12)):
                text[dice.randrange(len(text))] = dice.randrange(256)
            yield bytes(text)
        elif kind == 2:
            code = b"".join(b"%%%02x" % dice.randrange(256) for _ in range(dice.randrange(1, 90)))
            yield b"GET /static/" + code + b" HTTP/1.1\r\nHost: attic\r\n\r\n"
        else:
            yield GOOD[: dice.randrange(len(GOOD))]


def test_hostile_requests(server: Server) -> None:
    """None of them gets at another file, or takes the server down."""
    count = 0
    for count, request in enumerate(requests(), 1):
        answer = server.ask(request, ATTACKER)
        assert b"root:" not in answer
        assert b"secret words" not in answer
        assert b"lighttpd" not in answer.lower()
        assert b"progress 9" not in answer
        if count % 100 == 0:
            well(server)
    assert count >= 1000
    assert well(server) < 30
    print(count, "requests,", server.memory())
    assert server.memory()["VmHWM"] < 12 * 1024


def test_slow_requests(server: Server) -> None:
    """200 connections that say nothing more, or a byte at a time, keep nobody else out."""
    slow = [server.connect(ATTACKER) for _ in range(200)]
    for stream in slow[:100]:
        stream.sendall(b"GET / HTTP/1.1\r\nHost: attic\r\nX-")
    for _ in range(3):
        for stream in slow[100:]:
            with contextlib.suppress(OSError):
                stream.sendall(b"G")
        assert well(server) < 30
    # more than the server takes: there is room again when the silent ones have had their time
    slow += [server.connect(ATTACKER) for _ in range(200)]
    assert well(server) < 60
    print("400 slow connections,", server.memory())
    assert server.memory()["VmHWM"] < 12 * 1024
    for stream in slow:
        stream.close()

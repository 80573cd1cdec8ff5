"""The pure parts of the Robot library, and its guest agent client on a made-up agent."""

from __future__ import annotations

import base64
import json
import socket
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "robot/lib"))

from guest_agent import GuestAgent, GuestAgentError
from parsing import exposure, listening_sockets, mebibytes, partition_offset

TCP = """\
  sl  local_address rem_address   st tx_queue
   0: 0100007F:208C 00000000:0000 0A 00000000:00000000
   1: 00000000:208D 00000000:0000 0A 00000000:00000000
   2: 0F02000A:8DA6 6402000A:208D 01 00000000:000000ED
"""
TCP6 = """\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:208C 00000000000000000000000000000000:0000 0A 0
   1: 00000000000000000000000000000000:208D 00000000000000000000000000000000:0000 0A 0
   2: 0000000000000000FFFF00000100007F:0016 00000000000000000000000000000000:0000 0A 0
"""
UDP = """\
   sl  local_address rem_address   st tx_queue
  204: 0F02000A:0044 00000000:0000 07 00000000:00000000
"""


def test_listening_sockets() -> None:
    """Loopback and any, IPv4, IPv6 and mapped; connections do not count."""
    assert listening_sockets("tcp", TCP) == ["tcp any 8333", "tcp loopback 8332"]
    assert listening_sockets("tcp", TCP6) == [
        "tcp any 8333",
        "tcp loopback 22",
        "tcp loopback 8332",
    ]
    assert listening_sockets("udp", UDP) == ["udp any 68"]


def test_partition_offset() -> None:
    """The partition is found by name, in bytes."""
    partitions = [{"name": "boot", "start": 2048}, {"name": "root-a", "start": 133120}]
    text = json.dumps({"partitiontable": {"sectorsize": 512, "partitions": partitions}})
    assert partition_offset(text, "boot") == 1048576
    with pytest.raises(ValueError, match="no partition named data"):
        partition_offset(text, "data")


def test_exposure() -> None:
    """The score stands in the last line."""
    text = "✗ PrivateNetwork=  has access 0.5\n\n→ Overall exposure level for a.service: 1.4 OK"
    assert exposure(text) == 1.4
    with pytest.raises(ValueError, match="no overall exposure"):
        exposure("nothing")


@pytest.mark.parametrize(
    ("text", "value"), [("32M", 32), ("1.5G", 1536), ("65536K", 64), ("1048576", 1)]
)
def test_mebibytes(text: str, value: float) -> None:
    """systemd's sizes."""
    assert mebibytes(text) == value


def test_mebibytes_refuses() -> None:
    """No guess at a word."""
    with pytest.raises(ValueError, match="not a size"):
        mebibytes("much")


def serve(path: Path, answers: dict[str, list[dict[str, object]]]) -> None:
    """A made-up guest agent: each command's answers in order, syncs echoed."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def loop() -> None:
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as reader:
                # left over from a connection that was given up
                connection.sendall(b'{"return": "stale"}\n')
                for line in reader:
                    request = json.loads(line.lstrip(b"\xff"))
                    command = request["execute"]
                    if command == "guest-sync-delimited":
                        answer: dict[str, object] = {"return": request["arguments"]["id"]}
                        connection.sendall(b"\xff")
                    else:
                        answer = answers[command].pop(0)
                    connection.sendall(json.dumps(answer).encode() + b"\n")

    threading.Thread(target=loop, daemon=True).start()


def test_guest_agent(tmp_path: Path) -> None:
    """A command is started, polled, and its output decoded."""
    out = base64.b64encode(b"hello\n").decode()
    serve(
        tmp_path / "ga",
        {
            "guest-ping": [{"return": {}}],
            "guest-exec": [{"return": {"pid": 7}}, {"error": {"desc": "disabled"}}],
            "guest-exec-status": [
                {"return": {"exited": False}},
                {"return": {"exited": True, "exitcode": 3, "out-data": out}},
            ],
        },
    )
    agent = GuestAgent(tmp_path / "ga")
    agent.wait(5)
    result = agent.run("exit 3", 5)
    assert (result.status, result.stdout, result.stderr) == (3, "hello\n", "")
    with pytest.raises(GuestAgentError, match="disabled"):
        agent.run("true", 5)


def test_guest_agent_absent(tmp_path: Path) -> None:
    """No socket: an error after the time-out, not a hang."""
    with pytest.raises(GuestAgentError, match="no answer"):
        GuestAgent(tmp_path / "none").wait(0)

"""The pure parts of the Robot library, and its shell client on the real unit's command."""

from __future__ import annotations

import configparser
import json
import shlex
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from lab.guest_shell import UNIT, GuestShell, GuestShellError, Result, kernel_options, parse
from lab.parsing import (
    exposure,
    kernel_options_lost,
    listening_sockets,
    mebibytes,
    partition_offset,
)

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
  205: 00000000:A28C 00000000:0000 07 00000000:00000000
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


def test_kernel_options_lost() -> None:
    """A later line counts; off is off whether said or not."""
    wanted = "CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_D=y\n# CONFIG_D is not set\n"
    config = "CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n"
    assert kernel_options_lost(wanted, config) == ["CONFIG_B=m"]


def test_mebibytes_refuses() -> None:
    """No guess at a word."""
    with pytest.raises(ValueError, match="not a size"):
        mebibytes("much")


def serve(path: Path, directory: Path) -> None:
    """The unit's own command on a UNIX socket, a fresh connection each."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT.read_text().replace("\\\n", " "))  # a line may go on in the next
    command = shlex.split(unit["Service"]["ExecStart"].replace("$$", "$"))
    command[2] = command[2].replace("/run/guest-shell", str(directory))
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def loop() -> None:
        while True:
            connection, _ = server.accept()
            with connection:
                # left over from a connection that was given up
                connection.sendall(b"1 0 c3RhbGU= .\n")
                end = connection.fileno()
                subprocess.run(command, stdin=end, stdout=end, check=False)

    threading.Thread(target=loop, daemon=True).start()


def test_guest_shell(tmp_path: Path) -> None:
    """Status and both outputs come back, whatever the bytes; a slow script times out."""
    serve(tmp_path / "sh", tmp_path / "work")
    shell = GuestShell(tmp_path / "sh")
    shell.wait(5)
    result = shell.run("echo 'a  b'; printf '\\303\\244' >&2; exit 3", 5)
    assert (result.status, result.stdout, result.stderr) == (3, "a  b\n", "ä")
    assert shell.run("cat", 5) == Result(0, "", ""), "a script must not read the requests"
    assert len(shell.run("head -c 300000 /dev/zero | tr '\\0' x", 20).stdout) == 300000
    with pytest.raises(GuestShellError, match="no answer after 1 s"):
        shell.run("sleep 3", 1)
    assert shell.run("exit 7", 5).status == 7


def test_guest_shell_absent(tmp_path: Path) -> None:
    """No socket: an error after the time-out, not a hang."""
    with pytest.raises(GuestShellError, match="no answer"):
        GuestShell(tmp_path / "none").wait(0)


def test_kernel_options() -> None:
    """They fit x86's and arm64's kernel command line (2048) beside the image's own."""
    assert len(kernel_options()) < 1500
    assert "\n" not in kernel_options()


@pytest.mark.parametrize("line", ["", "x 0 a b .", "1 0 !! YQ== .", "1 0 YQ==", "[    1.0] hello"])
def test_parse_refuses(line: str) -> None:
    """A half line or anything else on the port is no answer."""
    assert parse(line) is None

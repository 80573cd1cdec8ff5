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
    cache_mebibytes,
    comes_after,
    exposure,
    file_system_mebibytes,
    is_mounted,
    jemalloc_option,
    kernel_options_lost,
    lines_without,
    listening_sockets,
    listens_on,
    login_shell,
    mebibytes,
    memory_in_use,
    name_servers,
    open_accounts,
    partition_offset,
    partition_span,
    sectors_of,
    user_options,
    value_of,
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
    partitions = [
        {"name": "boot", "start": 2048, "size": 131072},
        {"name": "root-a", "start": 133120, "size": 4096},
    ]
    text = json.dumps({"partitiontable": {"sectorsize": 512, "partitions": partitions}})
    assert partition_offset(text, "boot") == 1048576
    assert partition_span(text, "root-a") == (133120 * 512, 4096 * 512)
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


MOUNTS = """\
/dev/vda2 / squashfs ro,relatime 0 0
/dev/vda4 /var f2fs rw,noatime 0 0
/dev/vda1 /boot vfat rodent,umask=0077 0 0
fuse.x /x fuse.x rw 0 0
"""


@pytest.mark.parametrize(
    ("point", "mode", "kind", "mounted"),
    [
        ("/", "ro", "", True),
        ("/", "rw", "", False),
        ("/var", "rw", "f2fs", True),
        ("/var", "rw", "ext4", False),
        ("/boot", "ro", "", False),
        ("/x", "rw", "", False),
        ("/none", "rw", "", False),
    ],
)
def test_is_mounted(point: str, mode: str, kind: str, mounted: bool) -> None:
    """The path, the first option and the kind, each as a whole."""
    assert is_mounted(MOUNTS, point, mode, kind) == mounted


def test_file_system_mebibytes() -> None:
    """One file system; an output that is none is no size."""
    head = "Filesystem 1M-blocks Used Available Capacity Mounted on\n"
    assert file_system_mebibytes(f"{head}/dev/vda4 7000 10 6990 1% /var") == 7000
    with pytest.raises(ValueError, match="0 file systems"):
        file_system_mebibytes(head)


def test_memory_in_use() -> None:
    """Free pages on the processors' lists are used, but not by others."""
    meminfo = "MemTotal: 10240 kB\nMemFree:  2048 kB\nBuffers: 1024 kB\nCached: 1024 kB\n"
    meminfo += "SwapCached: 5 kB\nSReclaimable: 1000 kB\n"
    zoneinfo = "Node 0\n  pages free 3\n              count: 200\n              count: 312\n"
    memory = memory_in_use(meminfo, zoneinfo, "RssFile: 1 kB\nRssAnon:   2047 kB\n")
    # 10240 - 5096 = 5144 KiB, lists of 2048 KiB
    assert memory == {"daemon": 1, "used": 5, "others": 2}
    with pytest.raises(ValueError, match="no RssAnon"):
        memory_in_use(meminfo, zoneinfo, "RssFile: 1 kB\n")


def test_listens_on() -> None:
    """A listening socket with this address; a connection from it is none."""
    assert listens_on(TCP, "127.0.0.1:8332")
    assert not listens_on(TCP, "127.0.0.1:8333")
    assert not listens_on(TCP, "10.0.2.15:36262")
    bound = TCP.replace("00000000:208D", "0F02000A:208D")
    assert listens_on(bound, "10.0.2.15:8333")
    assert not listens_on(TCP, "10.0.2.15:8333")


def test_value_of() -> None:
    """One line, from its beginning."""
    assert value_of("a=1\ndbcache=150\nxdbcache=2\n", "dbcache") == "150"
    with pytest.raises(ValueError, match="0 times"):
        value_of("#dbcache=1\n", "dbcache")
    with pytest.raises(ValueError, match="2 times"):
        value_of("a=1\na=2\n", "a")


def test_lines_of_configurations() -> None:
    """Settings that a test changes, and those that every node has."""
    assert lines_without("a=1\nreindex=1\nreindexed=1\n# a\n", ("reindex", "b")) == [
        "a=1",
        "reindexed=1",
        "# a",
    ]
    text = "# x\nchain=main\nincludeconf=/x\nlisten=0\na=10\nmaxconnections=12\n"
    assert user_options(text) == ["a=10", "maxconnections=12"]


def test_cache_mebibytes() -> None:
    """The sum, rounded; a log without is an error."""
    log = (
        "Cache configuration:\n* Using 2.0 MiB for x\n* Using 8.3 MiB for y (z)\nUsing 9 MiB for\n"
    )
    assert cache_mebibytes(log) == 10
    assert cache_mebibytes(f"{log}* Using 0.3 MiB for z") == 11
    with pytest.raises(ValueError, match="no cache"):
        cache_mebibytes("")


def test_sectors_of() -> None:
    """Each extent from its first sector on, moved by the partition's place."""
    text = """Filesystem type is: ef53
File size of a is 9000 (24 blocks of 512 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..      15:        100..       115:     16:
   1:       16..      23:        300..       307:      8:        116: last,eof
a: 2 extents found
"""
    assert sectors_of(text, 1000) == [1100, 1108, 1300]
    assert sectors_of("a: 0 extents found", 1000) == []


def test_accounts() -> None:
    """A hash, or nothing, can be logged in with; a star and an exclamation mark cannot."""
    assert open_accounts("root:*:1::\nbin:!!:1::\na::1::\nb:$6$x:1::\n") == ["a", "b"]
    passwd = "root:x:0:0::/root:/bin/sh\nbitcoin:x:8:8::/:/sbin/nologin\n"
    assert login_shell(passwd, "bitcoin") == "/sbin/nologin"
    with pytest.raises(ValueError, match="no user nobody"):
        login_shell(passwd, "nobody")


def test_name_servers() -> None:
    """Behind the link's name, IPv6 too."""
    assert name_servers("Global:\nLink 2 (eth0):\n") == []
    assert name_servers("Global: 1.1.1.1\nLink 2 (eth0): fe80::1 9.9.9.9\n") == [
        "1.1.1.1",
        "fe80::1",
        "9.9.9.9",
    ]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a\nDone\nStarted x", True),
        ("Started x\nDone\n", False),
        ("Started x\nDone\nStarted x", False),
        ("a\nStarted x", False),
        ("Done\n", False),
    ],
)
def test_comes_after(text: str, after: bool) -> None:
    """After the words, and not before; without the words it is neither."""
    assert comes_after(text, "Started (x|y)", "Done") == after


def test_jemalloc_option() -> None:
    """One value; a program without jemalloc prints none."""
    assert jemalloc_option('  opt.narenas: 1\n  opt.dss: "x"\n', "narenas") == "1"
    with pytest.raises(ValueError, match="0 values"):
        jemalloc_option("Bitcoin Core\n", "narenas")

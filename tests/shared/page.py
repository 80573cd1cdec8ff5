"""The node's page in made-up states, and its web server with the image's settings.

`collected` makes a node's files, has `cairn-status` look at them, and returns the folder that the
server gives out. `Server` is lighttpd with `overlay/usr/share/cairn/lighttpd.conf`, in which only
the two folders are others, on a port of 127.0.0.1 that systemd's program hands over.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.node import free_port
from lab.paths import ROOT
from tests.shared.commands import program

#: Markup, quotes of all kinds, what awk and JSON treat as special.
EVIL = """</span><script>alert(1)</script><img src=x onerror=alert(2)>&amp;"'\\\\u003c{{version}}"""
SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-status"
PAGE = ROOT / "overlay/usr/share/cairn/page"
UPTIME = 90000
CHAIN: dict[str, Any] = {
    "chain": "main",
    "blocks": 958126,
    "headers": 958126,
    "bestblockhash": f"{958126:064x}",
    "mediantime": 1700000000,
    "verificationprogress": 0.9999987,
    "initialblockdownload": False,
    "size_on_disk": 2117340032,
    "pruned": True,
    "warnings": [],
}
SYNC = CHAIN | {
    "blocks": 402113,
    "verificationprogress": 0.1712,
    "initialblockdownload": True,
}


@dataclass
class State:
    """What a node's daemon and files say; see STATES."""

    active: str = "active"
    sub: str = "running"
    chain: Mapping[str, Any] | None = None
    error: str = "error: Could not connect to the server"
    peers: tuple[str, ...] = ("ipv4", "ipv4", "ipv4", "ipv6", "onion", "onion", "i2p")
    files: Mapping[str, str] = field(default_factory=dict)
    core: str = "/Satoshi:31.0.0/"
    hostname: str = "attic"


#: A sync of ten hours, as the collector's history has it.
PROGRESS = "chain main\nstep 300\n" + "".join(
    f"progress {UPTIME - 36000 + at * 300} {200000 + at * 1684} {20000000 + at * 1260000}\n"
    for at in range(120)
)
STATES = {
    "starting": State(
        "activating", "start", error="error code: -28\nerror message:\nVerifying blocks…"
    ),
    "syncing": State(chain=SYNC, files={"run/cairn/status/history": PROGRESS}),
    "tip": State(chain=CHAIN),
    "stopped": State(
        "inactive",
        "dead",
        files={
            "run/cairn/bitcoind.report": "bitcoind failed to start 5 times in a row (last: Error:"
            " secret words); it stays stopped, and nothing has been changed."
            " See journalctl -u bitcoind; a reboot tries again.\n"
        },
    ),
    "rebuilding": State(
        chain=SYNC, files={"var/lib/cairn/rebuild": "begun=1\nchain=main\nwhat=Corruption: x\n"}
    ),
    "disk-full": State(
        "inactive",
        "dead",
        files={
            "run/cairn/bitcoind.report": "The data partition is full; bitcoind stays stopped."
            " Keep fewer blocks with prune= in node.conf (0 keeps all, 550 the fewest) or use a"
            " larger disk, then reboot.\n"
        },
    ),
    "no-network": State(chain=CHAIN, peers=()),
    "update": State(
        chain=CHAIN,
        files={
            "run/cairn/update.report": "The USB stick has version 9.0.0 (0.1.0 runs). To install"
            " it, leave the stick in and restart the node; remove the stick if you do not want"
            " that.\n"
        },
    ),
    "hostile": State(
        chain=CHAIN | {"warnings": [EVIL]},
        peers=("ipv4", EVIL),
        core=EVIL,
        hostname=EVIL,
        files={
            "run/cairn/node-tune.report": EVIL + "\n",
            "run/cairn/wallet.steps": f"= {EVIL}\n{EVIL}\n",
            "usr/lib/os-release": f'IMAGE_VERSION="{EVIL}"\n',
        },
    ),
}
HEALTH = {
    "schema": 1,
    "uptime_seconds": UPTIME - 20,
    "temperature_celsius": 51.2,
    "undervoltage_now": False,
    "undervoltage_since_boot": False,
    "throttled_now": False,
    "boot_firmware_date": "2024-09-10",
    "unclean_shutdowns": 3,
    "counted_since": "2026-01-02",
    "written_bytes": 1234567890123,
    "written_bytes_last_day": 12345678901,
}


def answers(state: State) -> dict[str, str]:
    """What the daemon answers to each command, as bitcoin-cli prints it."""
    if state.chain is None:
        return {}
    found: dict[str, Any] = {
        "getblockchaininfo": state.chain,
        "getpeerinfo": [
            {
                "id": number,
                "addr": "192.0.2.1:8333",
                "network": network,
                "subver": f"/{EVIL}\n  {{/",
                "inbound": number == 0,
            }
            for number, network in enumerate(state.peers)
        ],
        "getmempoolinfo": {
            "loaded": True,
            "size": 48211,
            "bytes": 26300211,
            "usage": 142200112,
            "maxmempool": 300000000,
            "mempoolminfee": 0.00001234,
        },
        "getnetworkinfo": {"version": 310000, "subversion": state.core},
    }
    for height in range(958126, 958096, -1):
        found[f"getblockheader {height:064x}"] = {
            "hash": f"{height:064x}",
            "height": height,
            "time": 1700003600 + (height - 958126) * 590 + height * 7919 % 500,
            "nTx": 2000 + height % 700,
            "previousblockhash": f"{height - 1:064x}",
        }
    return {command: json.dumps(answer, indent=2) for command, answer in found.items()}


def collected(
    root: Path, name: str, shell: str = "dash", more: Mapping[str, str] | None = None
) -> Path:
    """One look of the collector at a node in that state; returns /run/cairn/status.

    `more` has further files, or others in place of the state's.
    """
    state = STATES[name]
    health = "".join(f'  "{key}": {json.dumps(value)},\n' for key, value in HEALTH.items())
    files = {
        "proc/sys/kernel/hostname": state.hostname + "\n",
        "proc/sys/kernel/osrelease": "6.18.34\n",
        "proc/uptime": f"{UPTIME}.10 1.0\n",
        "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 5000000 kB\n",
        "usr/lib/os-release": 'IMAGE_VERSION="0.1.0"\n',
        "run/cairn/health.json": f'{{\n{health}  "attention": [],\n  "disks": []\n}}\n',
        "run/cairn/node-conf.records": "chain main\nmdns 1\noption - prune=2000\nsshkey x\n",
        "run/bitcoind/tuned.conf": "prune=550\ndbcache=289\npar=4\n",
    }
    for path, text in (files | dict(state.files) | dict(more or {})).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    folder = root / "run/cairn/status"
    folder.mkdir(exist_ok=True)
    (root / "var").mkdir(exist_ok=True)
    if not (folder / "index.html").exists():  # tmpfiles.d
        shutil.copy(PAGE / "starting.html", folder / "index.html")
    shutil.copytree(PAGE, root / "usr/share/cairn/page", dirs_exist_ok=True)
    said = [f"ActiveState={state.active}", f"SubState={state.sub}", "StatusText="]
    program(root / "bin/systemctl", "\n".join(f"echo '{line}'" for line in said))
    replies = root / "answers"
    replies.mkdir(exist_ok=True)
    for command, answer in answers(state).items():
        (replies / command).write_text(answer)
    (root / "error").write_text(state.error)
    cli = program(
        root / "bin/cli",
        f'[ ! -e "{replies}/$*" ] || exec cat "{replies}/$*"\ncat "{root}/error" >&2\nexit 1',
    )
    result = subprocess.run(
        [*shell.split(), str(SCRIPT), "--once", "--root", str(root)],
        check=False,
        capture_output=True,
        env={**os.environ, "NODE_CLI": str(cli), "PATH": f"{root}/bin:{os.environ['PATH']}"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == b""
    return folder


def npm(source: str) -> Path:
    """The pinned tarball of an npm package."""
    command = [str(ROOT / "support/npm-source"), str(ROOT / source)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


def member(tarball: Path, name: str) -> bytes:
    """One file of it."""
    with tarfile.open(tarball) as archive:
        file = archive.extractfile(f"package/{name}")
        assert file
        return file.read()


class Server:
    """The page's web server on 127.0.0.1, for a `with` statement."""

    def __init__(self, work: Path, status: Path) -> None:
        """Settings and static files are put into `work`; `status` is what it gives out."""
        static = work / "static"
        shutil.copytree(PAGE, static, dirs_exist_ok=True)
        plots = npm("package/uplot/source.env")
        for name in ("uPlot.iife.min.js", "uPlot.min.css"):
            (static / name).write_bytes(member(plots, f"dist/{name}"))
        text = (ROOT / "overlay/usr/share/cairn/lighttpd.conf").read_text()
        for old, new in (("/run/cairn/status", status), ("/usr/share/cairn/page", static)):
            assert f'"{old}' in text
            text = text.replace(f'"{old}', f'"{new}')
        self.settings = work / "lighttpd.conf"
        self.settings.write_text(text)
        self.log = work / "lighttpd.log"
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        """Started, and answering."""
        lighttpd = shutil.which("lighttpd", path=os.environ["PATH"] + ":/usr/sbin")
        assert lighttpd, "lighttpd is missing; run 'make bootstrap'"
        command = ["systemd-socket-activate", "-l", f"127.0.0.1:{self.port}", lighttpd]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "-D", "-f", str(self.settings)], stdout=log, stderr=log
            )
        end = time.monotonic() + 60
        while True:
            try:
                if self.ask(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").startswith(
                    b"HTTP"
                ):
                    return self
            except OSError:
                pass
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.2)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ended, by its own process."""
        assert self.process
        self.process.kill()
        self.process.wait()

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection from an address of the loopback network."""
        return socket.create_connection(("127.0.0.1", self.port), 60, (source, 0))

    def ask(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """The whole answer to these bytes; what the server cut off is "" or its beginning."""
        with self.connect(source) as stream:
            parts = []
            try:
                stream.sendall(request)
                stream.shutdown(socket.SHUT_WR)
                while part := stream.recv(65536):
                    parts.append(part)
            except (ConnectionResetError, BrokenPipeError):
                pass
            return b"".join(parts)

    def memory(self) -> dict[str, int]:
        """Resident memory in KiB: all, and its own without the files that are mapped."""
        assert self.process
        text = Path(f"/proc/{self.process.pid}/status").read_text().split("\n")
        found = dict(line.split(":", 1) for line in text if ":" in line)
        return {name: int(found[name].split()[0]) for name in ("VmRSS", "RssAnon", "VmHWM")}

"""Runs the real daemon on node.conf files, as the unit does, where nothing can leave unseen.

usage: unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc \\
           python3 cage.py REPOSITORY BITCOIND     (as root)

Reads one case a line from standard input, writes one observation a line to standard output, both
JSON. A case:
  conf     the bytes of node.conf, in Latin-1
  files    more files by their absolute path: what earlier boots have left on the data partition
  seconds  how long to look at what leaves, after the daemon is up (default 1.5)
  stop     true: end it with SIGTERM, as systemd does (default: SIGKILL)
An observation:
  records, conf, tuned   what node-config and node-tune wrote
  up       whether the daemon came up; said: the end of its standard error
  rpc      answers of getblockchaininfo and getnetworkinfo; none if rpcwhitelist= forbids them
  listens  addresses with their ports, "udp " in front where it is no TCP
  left     [protocol, address, port] of each packet to an address that is not loopback's
  asked    [address, port] of each TCP connection over loopback, but RPC's
  ran      commands that the daemon gave to a shell; made: files outside of its own folders

The tree is the image's where it matters: the overlay lies over /usr, bitcoind is user 833 with no
capability and writes below /var/lib/bitcoind and /run/bitcoind/rpc only. The command is ExecStart=
of the unit, word by word. Each daemon has a network namespace of its own, with an interface that
has addresses and default routes of both families, a gateway, and a name server behind it that
never answers. All packets are recorded from before the start. Addresses of the proxies in the
files are this machine's, and a SOCKS server behind them takes each connection and ends it.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import http.client
import ipaddress
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.hostile.core_network import PORTS, RPC_PORTS

TOOLS = Path("/run/tools")
UID = 833
CLONE_NEWNET = 0x40000000
START_SECONDS = 120
GATEWAY, RESOLVER = "198.51.100.1", "192.0.2.53"
#: Addresses that files name as proxies; tor.lan is the second.
PROXIES = ("127.0.0.1", "192.168.1.60")
PROXY_PORTS = (9050, 7656)
#: A cable whose other end is nobody's. The kernel is kept from speaking for itself where that
#: comes from: no duplicate address detection, no router solicitations, no IPv6 on the other end. It
#: has no ARP, so that every packet leaves.
NETWORK = f"""
link set lo up
link add cairn0 type veth peer name cairn1
link set cairn0 addrgenmode none
link set cairn1 addrgenmode none
link set cairn0 up arp off
link set cairn1 up arp off
addr add 198.51.100.2/24 dev cairn0
addr add 2001:db8:5::2/64 dev cairn0 nodad
addr add {PROXIES[1]}/32 dev lo
route add default via {GATEWAY} dev cairn0
route add default via 2001:db8:5::1 dev cairn0
"""
#: Peers of each network that the daemon hears of, so that it need not wait for its seeds.
PEERS = [
    ("5.6.7.8", None),
    ("2a05:d014:1::8", None),
    ("pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion", None),
    ("udhdrtrcetjm5sxzskjyr5ztpeszydbh4dpl3pl4utgqqw2v4jna.b32.i2p", 0),
]
#: A shell that notes what the daemon lets it run.
SHELL = """#!/usr/bin/busybox sh
[ -z "${CAIRN_RAN-}" ] || printf '%s\\n' "$*" >>"$CAIRN_RAN"
exec /usr/bin/dash "$@"
"""
ETC = {
    "resolv.conf": f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "hosts": f"127.0.0.1 localhost\n{PROXIES[1]} tor.lan\n",
    "passwd": f"root:x:0:0::/:/bin/sh\nbitcoin:x:{UID}:{UID}::/var/lib/bitcoind:/bin/false\n",
    "group": f"root:x:0:\nbitcoin:x:{UID}:\n",
}
MEMINFO = "MemTotal: 1000000 kB\nMemFree: 900000 kB\nMemAvailable: 900000 kB\n"
FRESH = ("/boot", "/var/lib", "/run/bitcoind", "/run/cairn", "/run/systemd", "/tmp")


def mount(*words: str) -> None:
    """Mounts, or ends."""
    subprocess.run(["mount", *words], check=True)


def furnish(root: Path, bitcoind: Path) -> None:
    """Makes this mount namespace the image's; of the host's tree nothing can be written."""
    mount("-t", "tmpfs", "tmpfs", "/run")
    (TOOLS / "usr/bin").mkdir(parents=True)
    (TOOLS / "etc").mkdir()
    shutil.copy(bitcoind, TOOLS / "usr/bin/bitcoind")
    (TOOLS / "usr/bin/sh").write_text(SHELL)
    (TOOLS / "usr/bin/systemd-notify").write_text("#!/usr/bin/busybox true\n")
    for path in (TOOLS / "usr/bin").iterdir():
        path.chmod(0o755)
    for name, text in ETC.items():
        (TOOLS / "etc" / name).write_text(text)
    (TOOLS / "meminfo").write_text(MEMINFO)
    mount("-t", "overlay", "-o", f"lowerdir={TOOLS}/usr:{root}/overlay/usr:/usr", "usr", "/usr")
    mount("-t", "overlay", "-o", f"lowerdir={TOOLS}/etc:/etc", "etc", "/etc")
    mount("--bind", str(TOOLS / "meminfo"), "/proc/meminfo")
    mount("-o", "remount,bind,ro", "/")
    for folder in ("/boot", "/var/lib", "/tmp", "/dev/shm"):
        mount("-t", "tmpfs", "tmpfs", folder)


def command() -> list[str]:
    """ExecStart= of the unit."""
    text = Path("/usr/lib/systemd/system/bitcoind.service").read_text().replace("\\\n", " ")
    found = re.search(r"(?m)^ExecStart=(.+)$", text)
    assert found
    return shlex.split(found.group(1).replace("$$", "$"))


def tidy(case: dict[str, object]) -> None:
    """The state at a boot, before node-config: /boot with its file, and what a boot remembers."""
    for name in FRESH:
        folder = Path(name)
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink()
    Path("/boot/node.conf").write_bytes(str(case["conf"]).encode("latin-1"))
    for path in ("/var/lib/cairn", "/var/lib/bitcoind", "/run/bitcoind", "/run/bitcoind/rpc"):
        Path(path).mkdir(exist_ok=True)
    for path in ("/var/lib/bitcoind", "/run/bitcoind/rpc"):
        os.chown(path, UID, UID)
        Path(path).chmod(0o750)
    os.chown("/run/bitcoind", 0, UID)
    for name, text in dict(case.get("files", {})).items():  # type: ignore[call-overload]
        Path(name).write_text(text)
    Path("/run/ran").write_text("")
    Path("/run/ran").chmod(0o666)


def everything() -> set[str]:
    """All files but those in the daemon's own folders."""
    found: set[str] = set()
    for name in (*FRESH, "/dev/shm"):
        for folder, below, files in os.walk(name):
            if folder in ("/var/lib/bitcoind", "/run/bitcoind/rpc"):
                below.clear()
            else:
                found |= {f"{folder}/{file}" for file in (*files, *below)}
    return found


# -- the network ---------------------------------------------------------------------------
class Capture(threading.Thread):
    """Records what this network namespace sends."""

    def __init__(self) -> None:
        """Opens the socket; from here on nothing is missed."""
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        self.left: set[tuple[str, str, int]] = set()
        self.asked: set[tuple[str, int]] = set()

    def run(self) -> None:
        """Until the process ends."""
        while True:
            data, (_, _, kind, *_) = self.socket.recvfrom(65535)
            if kind == socket.PACKET_OUTGOING:
                self.note(data)

    def note(self, data: bytes) -> None:
        """One packet."""
        if data[0] >> 4 == 4:
            protocol, target = data[9], ipaddress.ip_address(data[16:20])
            body = data[(data[0] & 15) * 4 :]
        else:
            protocol, target = data[6], ipaddress.ip_address(data[24:40])
            body = data[40:]
        port = struct.unpack("!H", body[2:4])[0] if protocol in (6, 17) else 0
        # Of the kernel, not of any program: joining groups of neighbours (IGMP; MLD behind a
        # hop-by-hop header) for each address, neighbour discovery (ICMPv6 133 to 136), and what
        # it answers or refuses itself over loopback.
        if protocol in (0, 2) and target.is_multicast:
            return
        if protocol == 58 and (body[0] in (133, 134, 135, 136) or target.is_loopback):
            return
        if not target.is_loopback and str(target) not in PROXIES:
            name = {6: "tcp", 17: "udp"}.get(protocol, f"protocol {protocol}")
            self.left.add((name, str(target), port))
        elif protocol == 6 and body[13] & 0x12 == 2:  # SYN without ACK
            self.asked.add((str(target), port))


def socks(port: int) -> None:
    """A SOCKS server whose peers all end the connection after a word of theirs."""

    def serve(server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(1)
                connection.recv(260)
                connection.sendall(b"\x05\x00")
                connection.recv(600)
                connection.sendall(b"\x05\x00\x00\x01\0\0\0\0\0\0")
                connection.recv(16)

    for address in PROXIES:
        server = socket.create_server((address, port))
        threading.Thread(target=serve, args=(server,), daemon=True).start()


def sockets() -> set[str]:
    """Who can be reached: listening TCP sockets, UDP and raw sockets without a partner."""
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6"):
        path = Path(f"/proc/thread-self/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            _, local, remote, state, *_ = line.split()
            if (state != "0A") if table[:3] == "tcp" else (int(remote.split(":")[0], 16) != 0):
                continue
            words, port = local.split(":")
            packed = b"".join(
                struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8)
            )
            address = str(ipaddress.ip_address(packed))
            address = f"[{address}]" if ":" in address else address
            kind = "" if table[:3] == "tcp" else f"{table.rstrip('6')} "
            found.add(f"{kind}{address}:{int(port, 16)}")
    return found - {f"{address}:{port}" for address in PROXIES for port in PROXY_PORTS}


def ask(port: int, calls: list[tuple[str, list[object]]]) -> list[dict[str, object]]:
    """One batch over RPC, with the cookie; no answers where that user may not ask (403)."""
    batch = [{"id": i, "method": name, "params": what} for i, (name, what) in enumerate(calls)]
    login = base64.b64encode(Path("/run/bitcoind/rpc/cookie").read_bytes()).decode()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request("POST", "/", json.dumps(batch), {"Authorization": f"Basic {login}"})
    response = client.getresponse()
    if response.status == http.HTTPStatus.FORBIDDEN:
        return []
    return [answer["result"] or answer["error"] for answer in json.loads(response.read())]


# -- one case --------------------------------------------------------------------------------
def limits() -> None:
    """LimitNOFILE= and UMask= of the unit."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    os.umask(0o027)


def run(case: dict[str, object]) -> dict[str, object]:
    """Makes bitcoind's configuration, starts it, looks, and ends it."""
    tidy(case)
    for script in ("/usr/bin/node-config", "/usr/bin/node-tune"):
        subprocess.run([script], check=True, capture_output=True)
    records = Path("/run/cairn/node-conf.records").read_text(encoding="latin-1")
    seen: dict[str, object] = {
        "records": [line.split(" ", 1) for line in records.splitlines()],
        "conf": Path("/run/bitcoind/bitcoin.conf").read_text(encoding="latin-1"),
        "tuned": Path("/run/bitcoind/tuned.conf").read_text(),
    }
    before = everything()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace")
    Path("/proc/sys/net/ipv6/conf/default/router_solicitations").write_text("0")
    subprocess.run(["ip", "-batch", "-"], input=NETWORK.encode(), check=True)
    for port in PROXY_PORTS:
        socks(port)
    capture = Capture()
    capture.start()
    drop = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs"]
    with Path("/run/stderr").open("wb") as stderr:
        daemon = subprocess.Popen(
            [*drop, "--bounding-set=-all", "--inh-caps=-all", *command()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={"PATH": "/usr/bin:/usr/sbin", "CAIRN_RAN": "/run/ran"},
            preexec_fn=limits,
            cwd="/",
        )
    end = time.monotonic() + START_SECONDS
    while not (up := "systemd-notify --ready" in Path("/run/ran").read_text()):
        if daemon.poll() is not None or time.monotonic() > end:
            break
        time.sleep(0.02)
    if up:
        seen["listens"] = sorted(sockets())
        chain = re.search(r"(?m)^chain (.+)$", records)
        name = chain.group(1) if chain else "main"
        own = re.search(r"(?m)^option \S+ rpcport=(\d+)$", records)
        port = int(own.group(1)) if own else RPC_PORTS[name]
        calls: list[tuple[str, list[object]]] = [("getblockchaininfo", []), ("getnetworkinfo", [])]
        for address, at in PEERS:
            calls.append(("addpeeraddress", [address, PORTS[name] if at is None else at]))
        seen["rpc"] = ask(port, calls)
        end = time.monotonic() + float(str(case.get("seconds", 1.5)))
        while up and time.monotonic() < end:
            up = daemon.poll() is None
            time.sleep(0.02)
        seen["listens"] = sorted({*sockets(), *seen["listens"]})  # type: ignore[misc]
        capture.asked = {(address, at) for address, at in capture.asked if at != port}
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM if case.get("stop") else signal.SIGKILL)
    daemon.wait(60)
    said = Path("/run/stderr").read_text(encoding="latin-1")[-600:]
    seen |= {"up": up, "said": said, "left": sorted(capture.left), "asked": sorted(capture.asked)}
    seen["ran"] = [line for line in Path("/run/ran").read_text().splitlines() if line]
    seen["made"] = sorted(everything() - before)
    return seen


def main() -> None:
    """A process for each case: with it its network namespace goes."""
    furnish(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                answer = run(json.loads(line))
            except Exception as error:
                answer = {"failed": repr(error)}
            print(json.dumps(answer), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()

"""tor=only and a wallet through Tor, in a Tor network of this machine's own (TestingTorNetwork).

usage: unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc \\
           python3 -m tests.hostile.tor_stage REPOSITORY BITCOIND     (as root)

Two network namespaces with a cable between them. In this one is the node: node.conf, node-config,
the packet filter, Tor and bitcoind, as the image has them, at their own paths and as their own
users (wallet_stage.py). In the other, "world", are the relays and directory authorities, another
node, and a wallet's computer. What the node sends through the cable is recorded from before its
rules are loaded. Writes one JSON object to standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile import cage, wallet_stage
from tests.hostile.wallet_stage import cookie, folders, furnish, settle

NODE, WORLD, ROUTER = "198.51.100.2", "198.51.100.1", "192.168.77.1"
WORLD_RPC = 18555
AUTHORITIES, RELAYS = 3, 3
#: The wallet's computer has two Tors: one with the client's key, one without.
SOCKS_WITH, SOCKS_WITHOUT = 9150, 9151
TESTING = """TestingTorNetwork 1
AssumeReachable 1
PathsNeededToBuildCircuits 0.25
TestingDirAuthVoteExit *
TestingDirAuthVoteHSDir *
TestingDirAuthVoteGuard *
V3AuthNIntervalsValid 2
"""
AUTHORITY = """AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
ContactInfo nobody@example.org
TestingV3AuthInitialVotingInterval 10
TestingV3AuthInitialVoteDelay 3
TestingV3AuthInitialDistDelay 3
V3AuthVotingInterval 20
V3AuthVoteDelay 3
V3AuthDistDelay 3
TestingMinExitFlagThreshold 0
"""
CABLE = f"""
link set lo up
link add cairn0 type veth peer name cairn1 netns world
addr add {NODE}/24 dev cairn0
addr add 192.168.77.2/24 dev cairn0
addr add fd00:5::2/64 dev cairn0 nodad
link set cairn0 up
route add default via {WORLD} dev cairn0
"""
FAR_END = f"""
link set lo up
addr add {WORLD}/24 dev cairn1
addr add {ROUTER}/24 dev cairn1
addr add fd00:5::1/64 dev cairn1 nodad
link set cairn1 up
"""
IN_WORLD = ["ip", "netns", "exec", "world"]


def until(what: str, done: Callable[[], Any], seconds: float = 240) -> Any:  # noqa: ANN401
    """Waits for something; its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if value := done():
                return value
        except (OSError, RuntimeError, KeyError, ValueError):
            pass
        time.sleep(1)
    raise RuntimeError(f"not in {seconds} s: {what}")


def note(text: str) -> None:
    """A line for who watches."""
    print(f"{time.monotonic():.0f} {text}", file=sys.stderr, flush=True)


# -- the Tor network ---------------------------------------------------------------------------
def torrc(name: str, lines: str) -> Path:
    """A Tor's folder with its file."""
    folder = Path("/run/tors") / name
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    text = f"{TESTING}DataDirectory {folder}/data\nLog notice file {folder}/log\n{lines}"
    (folder / "torrc").write_text(text)
    return folder


def start(folder: Path) -> None:
    """A Tor in the world."""
    command = [
        *IN_WORLD,
        "tor",
        "--defaults-torrc",
        "/dev/null",
        "-f",
        f"{folder}/torrc",
        "--quiet",
    ]
    subprocess.Popen(command, stdin=subprocess.DEVNULL)


def relay(name: str, port: int, more: str = "") -> Path:
    """A relay's folder."""
    return torrc(
        name,
        f"Nickname {name}\nAddress {WORLD}\nORPort {WORLD}:{port}\nDirPort {WORLD}:{port + 1}\n"
        f"SocksPort 0\nExitRelay 1\nExitPolicyRejectPrivate 0\nExitPolicy accept *:*\n{more}",
    )


def network() -> list[str]:
    """Makes the authorities and starts all relays; the lines that name the authorities."""
    lines = []
    for index in range(AUTHORITIES):
        name, port = f"auth{index}", 7000 + 10 * index
        folder = relay(name, port, AUTHORITY)
        data = folder / "data/keys"
        data.mkdir(parents=True)
        for path in (data, data.parent):
            path.chmod(0o700)
        words = ["tor-gencert", "--create-identity-key", "-m", "12", "-a", f"{WORLD}:{port + 1}"]
        words += ["-i", f"{data}/authority_identity_key", "-s", f"{data}/authority_signing_key"]
        words += ["-c", f"{data}/authority_certificate", "--passphrase-fd", "0"]
        subprocess.run(words, input=b"x\n", check=True, capture_output=True)
        listed = subprocess.run(
            [
                *(*IN_WORLD, "tor", "--list-fingerprint", "--defaults-torrc", "/dev/null"),
                *("--dirauthority", f"x orport={port} {WORLD}:{port + 1} {'F' * 40}"),
                *("--quiet", "-f", f"{folder}/torrc"),
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        print_of = re.sub(r"^\S+ ", "", listed.strip().splitlines()[-1]).replace(" ", "")
        certificate = (data / "authority_certificate").read_text()
        identity = re.search(r"(?m)^fingerprint ([0-9A-F]+)$", certificate)
        assert identity, certificate
        lines.append(
            f"DirAuthority {name} orport={port} v3ident={identity[1]} {WORLD}:{port + 1} {print_of}"
        )
    for index in range(RELAYS):
        relay(f"relay{index}", 7100 + 10 * index)
    return lines


def join(authorities: list[str], *names: str) -> None:
    """Starts these Tors with the network's authorities."""
    for name in names:
        folder = Path("/run/tors") / name
        with (folder / "torrc").open("a") as file:
            file.write("".join(f"{line}\n" for line in authorities))
        start(folder)


def bootstrapped(log: Path) -> bool:
    """Whether a Tor has a way through the network."""
    return "Bootstrapped 100%" in log.read_text(errors="replace")


# -- the two nodes -----------------------------------------------------------------------------
def node_tor(authorities: list[str]) -> None:
    """The image's Tor: cairn-tor as its user, only that the network is this machine's."""
    test = Path("/run/tools/testing-tor")
    extra = "/run/tools/testing.torrc"
    Path(extra).write_text(TESTING + "".join(f"{line}\n" for line in authorities))
    # one file more behind the product's two
    test.write_text(
        '#!/bin/sh\ncat "$2" "$4" ' + f"{extra} >/run/cairn/tor/torrc\n"
        "exec tor --defaults-torrc /dev/null -f /run/cairn/tor/torrc\n"
    )
    test.chmod(0o755)
    for path, mode in (("/run/cairn/tor", 0o755), ("/var/lib/cairn/tor", 0o700)):
        Path(path).mkdir()
        os.chown(path, 840, 840)
        Path(path).chmod(mode)
    drop = ["setpriv", "--reuid=840", "--regid=840", "--clear-groups", "--no-new-privs"]
    drop += ["--bounding-set=-all", "--inh-caps=-all"]
    subprocess.Popen(
        [*drop, "/usr/lib/cairn/cairn-tor"],
        stdin=subprocess.DEVNULL,
        stdout=Path("/run/tor.log").open("wb"),  # noqa: SIM115 - Tor's from here on
        stderr=subprocess.STDOUT,
        env={"PATH": "/usr/bin:/usr/sbin", "CAIRN_TOR": str(test)},
    )
    subprocess.run([*drop, "/usr/lib/cairn/cairn-tor", "--onion"], check=True)


def world_node() -> None:
    """Another bitcoind, with a Tor of its own."""
    Path("/run/world").mkdir()
    words = [*IN_WORLD, "/usr/bin/bitcoind", "-regtest", "-datadir=/run/world", "-server=1"]
    words += [f"-rpcport={WORLD_RPC}", "-rpccookiefile=/run/world/cookie", "-listen=1"]
    words += ["-proxy=127.0.0.1:9050", "-onlynet=onion", "-listenonion=1", "-dbcache=4"]
    words += ["-torcontrol=127.0.0.1:9051", "-bind=127.0.0.1:18445=onion", "-debug=tor"]
    log = Path("/run/world.log").open("wb")  # noqa: SIM115 - the daemon's from here on
    subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def world(method: str, *params: object) -> Any:  # noqa: ANN401 - JSON
    """RPC of that node."""
    words = [*IN_WORLD, "curl", "-s", "--user", Path("/run/world/cookie").read_text()]
    words += ["-d", json.dumps({"id": 1, "method": method, "params": params})]
    said = subprocess.run(
        [*words, f"http://127.0.0.1:{WORLD_RPC}/"], check=True, capture_output=True, text=True
    ).stdout
    answer = json.loads(said)
    if answer["error"]:
        raise RuntimeError(str(answer["error"]))
    return answer["result"]


def onion_rpc(port: int, login: str, onion: str, method: str) -> str:
    """A wallet's call through a Tor of its computer; the answer, or curl's status."""
    words = [*IN_WORLD, "curl", "-s", "-m", "60", "-x", f"socks5h://127.0.0.1:{port}"]
    words += ["--user", login, "-d", json.dumps({"id": 1, "method": method, "params": []})]
    words += ["-w", " %{http_code}", f"http://{onion}:18443/"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return f"{done.returncode} {done.stdout}"


# -- what leaves -------------------------------------------------------------------------------
class Capture(cage.Capture):
    """All but ARP: this cable has a neighbour, which is asked for its address."""

    def note(self, data: bytes) -> None:
        """One packet; ARP is no IP."""
        if data[0] >> 4 in (4, 6):
            super().note(data)


def attempt() -> None:
    """What must not leave: as each user, names, time, web, peers, ping; both families."""
    targets = [(WORLD, 53), (WORLD, 123), (ROUTER, 53), ("fd00:5::1", 53), ("203.0.113.7", 123)]
    for uid in (0, cage.UID, 834, 835, 841):
        child = os.fork()
        if child == 0:
            if uid:
                os.setgroups([])
                os.setuid(uid)
            for host, port in targets:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
                        probe.settimeout(0.3)
                        probe.connect((host, port))
                        probe.send(b"x")
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe,
            ):
                probe.settimeout(0.3)
                probe.connect((WORLD, 7001))  # where Tor may go, and nobody else
            os._exit(0)
        os.waitpid(child, 0)
    child = os.fork()
    if child == 0:  # Tor's user may open connections, and send nothing else
        os.setgroups([])
        os.setuid(840)
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            probe.sendto(b"x", (WORLD, 53))
        os._exit(0)
    os.waitpid(child, 0)


#: A client in the world: from which address, to which; says what it was told.
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[2], 22), 10, (sys.argv[1], 0)) as connection:
    print(connection.recv(5).decode())
"""


def answered() -> list[str]:
    """What comes back to the owner's network, and to elsewhere."""
    server = socket.create_server(("0.0.0.0", 22))
    server.settimeout(12)
    told = []
    for source, target in ((ROUTER, "192.168.77.2"), (WORLD, NODE)):
        client = subprocess.Popen(
            [*IN_WORLD, sys.executable, "-c", CLIENT, source, target],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            connection.sendall(b"hello")
            connection.close()
        told.append(client.communicate()[0].strip())
    return told


def main() -> None:
    """All steps."""
    furnish(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    folders()
    subprocess.run(["ip", "netns", "add", "world"], check=True)
    Path("/proc/sys/net/ipv6/conf/default/router_solicitations").write_text("0")
    subprocess.run(["ip", "-batch", "-"], input=CABLE.encode(), check=True)
    subprocess.run([*IN_WORLD, "ip", "-batch", "-"], input=FAR_END.encode(), check=True)
    authorities = network()
    torrc("world", "SocksPort 9050\nControlPort 9051\nCookieAuthentication 1\n")
    torrc("without", f"SocksPort {SOCKS_WITHOUT}\n")
    clients = [f"auth{i}" for i in range(AUTHORITIES)] + [f"relay{i}" for i in range(RELAYS)]
    join(authorities, *clients, "world", "without")
    seen: dict[str, Any] = {}

    capture = Capture()
    capture.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.sendto(b"x", (WORLD, 9))
    time.sleep(0.5)
    seen["without rules"] = sorted(capture.left)
    Path("/boot/node.conf").write_text("regtest=1\ntor=only\nwalletaccess=tor\nwalletshow=1\n")
    settle()
    seen["report"] = Path("/run/cairn/node-conf.report").read_text()
    subprocess.run(["/usr/lib/cairn/cairn-tor-firewall"], check=True)
    capture.left.clear()
    node_tor(authorities)
    process = wallet_stage.daemon("-debug=tor")
    note("the node is up")
    world_node()
    until("the network", lambda: bootstrapped(Path("/run/tors/without/log")))
    until("the node's Tor", lambda: bootstrapped(Path("/run/tor.log")))
    note("Tor is up")

    def own_onion(ask: Callable[[str], Any]) -> list[str]:
        return [
            a["address"] for a in ask("getnetworkinfo")["localaddresses"] if "onion" in a["address"]
        ]

    node = until("the node's onion", lambda: own_onion(cookie))[0]
    other = until("the other's onion", lambda: own_onion(world))[0]
    note(f"{node} {other}")
    cookie("addnode", f"{other}:18444", "add")
    world("addnode", f"{node}:18444", "add")

    def peers() -> list[tuple[str, bool]] | None:
        found = [(p["network"], p["inbound"]) for p in cookie("getpeerinfo") if p["version"]]
        return sorted(found) if {i for _, i in found} == {True, False} else None

    seen["peers"] = until("the nodes' connections", peers, 400)
    world("generatetodescriptor", 5, "raw(51)")
    until("the blocks", lambda: cookie("getblockcount") == 5, 120)
    note("peers")

    # the wallet, as the screen tells it
    show = dict(
        line.split(" ", 1) for line in Path("/run/cairn/wallet/show").read_text().splitlines()
    )
    onion = Path("/run/cairn/tor/rpc-onion").read_text().strip()
    login = f"wallet:{show['password']}"
    folder = torrc("with", f"SocksPort {SOCKS_WITH}\nClientOnionAuthDir /run/tors/auth\n")
    Path("/run/tors/auth").mkdir(mode=0o700)
    line = f"{onion.removesuffix('.onion')}:descriptor:x25519:{show['onion-client']}\n"
    Path("/run/tors/auth/node.auth_private").write_text(line)
    Path("/run/tors/auth/node.auth_private").chmod(0o600)
    join(authorities, "with")
    until("the wallet's Tor", lambda: bootstrapped(folder / "log"))
    seen["with key"] = until(
        "RPC by the onion",
        lambda: (said := onion_rpc(SOCKS_WITH, login, onion, "uptime")).endswith("200") and said,
    )
    seen["not on the list"] = onion_rpc(SOCKS_WITH, login, onion, "stop")
    seen["wrong password"] = onion_rpc(SOCKS_WITH, "wallet:x", onion, "uptime")
    seen["without key"] = onion_rpc(SOCKS_WITHOUT, login, onion, "uptime")
    seen["other onion without key"] = subprocess.run(
        [
            *(*IN_WORLD, "curl", "-s", "-m", "20", f"telnet://{node}:18444"),
            *("-x", f"socks5h://127.0.0.1:{SOCKS_WITHOUT}"),
        ],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    ).returncode
    note(f"wallet {seen}")

    attempt()
    note("attempts")
    seen["answered"] = answered()
    note(f"answered {seen['answered']} {sorted(capture.left)}")
    # names and seeds that bitcoind would look up, and a peer outside of Tor
    cookie("addnode", f"{WORLD}:7001", "onetry")
    time.sleep(5)
    seen["left"] = sorted(capture.left)
    seen["listens"] = sorted(cage.sockets())
    key = Path("/var/lib/bitcoind/regtest/onion_v3_private_key").read_bytes()
    wallet_stage.stopped(process)
    process = wallet_stage.daemon()
    seen["same onion"] = until("its onion again", lambda: own_onion(cookie))[0] == node and (
        key == Path("/var/lib/bitcoind/regtest/onion_v3_private_key").read_bytes()
    )
    process.kill()
    print(json.dumps(seen))


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        for name in ("/run/bitcoind.log", "/run/tor.log", "/run/world.log"):
            note(f"{name}: " + "\n".join(Path(name).read_text(errors="replace").splitlines()[-8:]))
        raise

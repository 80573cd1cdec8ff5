"""cairn-bitcoind-verdict against logs in which peers, proxies, names and requests have their say.

Each log is seeded: lines as Core formats them with some log options, into which Core's own
fatal sentences were put by others. The verdict reads the daemon's standard error only; here the
whole log is put there as well, so that nothing rests on the two streams being apart. With such
a log nothing may be rebuilt, set aside, refused or held; with the true words at its end the
verdict must be the same as without the log.
"""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.node import free_port
from lab.paths import ROOT
from tests.shared.verdict import SHELLS, Unit

LOGS = 420
FATAL = "A fatal internal error occurred, see  for details: "
ADVICE = "Please restart with -reindex or -reindex-chainstate to recover."
# Core's sentences, and what must follow from them when they are its own
TRUE = {
    "Error: /var/lib/bitcoind/chainstate holds a database of leveldb, not of lmdb: start with "
    "-dbbackend=leveldb, convert it with 'bitcoin-dbconvert DATADIR --to lmdb', or start with "
    "-reindex to build it anew": "held",
    f"Error: {FATAL}System error while flushing: Fatal LMDB error: /x: I/O error": "held",
    f"Error: {FATAL}Disk space is too low!": "held",
    "Error: Unsupported chainstate database format found. Please restart with -reindex-chainstate. "
    "This will rebuild the chainstate database.": "held",
    "You need to rebuild the database using -reindex to go back to unpruned mode.  This will "
    f"redownload the entire blockchain.\n{ADVICE}": "held",
    "Error: Prune: last wallet synchronisation goes beyond pruned data. You need to -reindex "
    "(download the whole blockchain again in case of a pruned node)": "held",
    "Error: Invalid or corrupt peers.dat (Checksum mismatch, data corrupted). If you believe this "
    "is a bug, please report it to https://x. As a workaround, you can move the file "
    '("/x/peers.dat") out of the way (rename, move, or delete) to have a new one created on the '
    "next start.": "aside",
    "Error: Settings file could not be read:\n- Settings file /x/settings.json does not contain "
    "valid JSON. This is probably caused by disk corruption or a crash": "aside",
    "Error: SQLiteDatabase: Failed to execute statement to verify database: database disk image is "
    "malformed": "held",
    "Error: Error opening an index: Fatal LevelDB error: Corruption: checksum": "held",
    f"Error opening coins database.\n{ADVICE}": "rebuilt",
    f"Error loading databases.\n{ADVICE}": "rebuilt",
    "Error: Error reading from database, shutting down.": "rebuilt",
    f"Error: {FATAL}System error while flushing: Fatal LevelDB error: Corruption: bad": "rebuilt",
    "EXCEPTION: 15dbwrapper_error       \nFatal LMDB error: Corruption: page checksum": "rebuilt",
    f"Corrupted block database detected.\n{ADVICE}": "rebuilt twice",
    f"Error: {FATAL}Failed to read block.": "rebuilt twice",
    "Error: Unable to bind to 192.0.2.1:8333 on this computer (bind returned error x (99))\n"
    "Error: Failed to listen on any port. Use -listen=0 if you want this.": "waits",
    "Error: Invalid -proxy address or hostname: 'no.such.name:9050'": "waits",
    "Error: Unable to parse -maxuploadtarget: 'abc'": "refused",
}
# Sentences that the log has without any stream's help, and earlier verdicts looked for
FAKES = [
    *(line for words in TRUE for line in words.split("\n")),
    "Fatal LevelDB error: Corruption: block checksum mismatch: /x/chainstate/5.ldb",
    "Fatal LMDB error: Corruption: page checksum mismatch in /x/lmdb; restart",
    "Input/output error",
    "no space left on device",
    "I/O error, dev vda, sector 4711 op 0x1:(WRITE)",
    "database disk image is malformed",
    "holds a database of leveldb, not of lmdb",
    "invalid or corrupt peers.dat",
    "bitcoin-dbconvert: Fatal LMDB error: /x: I/O error",
    "[error] Fatal LevelDB error: Corruption: x",
    "Done loading",
]
# Who puts text into the log, and how Core writes it there (category, level, text)
PLACES = [
    ("net", "debug", "receive version message: {}: version 70016, blocks=1, us=127.0.0.1:8333"),
    ("net", "debug", "Received addr: 1 addresses (1 processed) from peer=3 {}"),
    ("net", "info", "New outbound-full-relay v2 peer connected: version: 70016, peer=1{}"),
    ("net", "debug", "received: {} (12 bytes) peer=7"),
    ("i2p", "debug", "Error connecting to x.b32.i2p:0: {}"),
    ("i2p", "info", 'Unexpected reply to "HELLO VERSION": "{}"'),
    ("", "info", 'I2P: Unexpected reply to "SESSION CREATE": "{}"'),
    ("tor", "debug", "tor: Received unexpected async reply: {}"),
    ("tor", "warning", "Authentication failed: {}"),
    ("proxy", "debug", "Socks5() connect to {}:8333 failed: general failure"),
    ("http", "debug", "Received a POST request for {} from 127.0.0.1:40000"),
    ("rpc", "debug", "ThreadRPCServer method={} user=__cookie__"),
    ("walletdb", "debug", "LogStatistics {}"),
    ("", "info", "[{}] Wallet file version = 10500, last client version = 1"),
    ("", "warning", "[{}] Unable to find the wallet's birthday"),
    ("mempoolrej", "debug", "aa was not accepted: {}"),
    ("validation", "error", "ConnectBlock: Consensus::CheckTxInputs: bb, bad-txns, {}"),
    ("", "error", "ProcessNewBlock: AcceptBlock FAILED ({})"),
    ("", "warning", "Cannot load banlist /x/banlist.json: {}"),
    ("addrman", "debug", "Added 1 addresses from {}"),
    ("", "info", "Command-line arg: uacomment={}"),
    ("", "info", "Config file arg: proxy={}"),
    ("cmpctblock", "debug", "Initialized PartiallyDownloadedBlock {}"),
    ("zmq", "debug", "zmq: Publish {} to tcp://127.0.0.1:28332"),
    ("", "info", "Loaded 7 addresses from {}  3ms"),
]


def escaped(text: str) -> str:
    """As Core's LogEscapeMessage: all control characters but the line feed."""
    return "".join(
        f"\\x{ord(c):02x}" if (c < " " and c != "\n") or c == "\x7f" else c for c in text
    )


class Writer:
    """Writes log lines with one combination of log options."""

    def __init__(self, rng: random.Random) -> None:
        """Chooses the options."""
        self.rng = rng
        self.stamps, self.threads, self.places, self.levels, self.limit = (
            rng.random() < 0.4 for _ in range(5)
        )

    def line(self, category: str, level: str, text: str, escape: bool = True) -> str:
        """One message."""
        prefix = "[*] " if self.limit and self.rng.random() < 0.5 else ""
        if self.stamps:
            prefix += "2026-11-24T09:38:03Z "
        if self.threads:
            prefix += f"[{self.rng.choice(['msghand', 'net', 'init', 'b-http.0', 'i2paccept'])}] "
        if self.places:
            prefix += "[net_processing.cpp:3610] [ProcessMessage] "
        if self.levels or category or level != "info":
            shown = category or ("all" if self.levels else "")
            if self.levels or not category or level != "debug":
                shown += f":{level}" if shown else level
            prefix += f"[{shown}] "
        return prefix + (escaped(text) if escape else text)


def put_in(rng: random.Random, fake: str) -> str:
    """A fake sentence as somebody would send it."""
    dress: list[Callable[[str], str]] = [
        lambda t: t,
        lambda t: f"/{t}/",
        lambda t: f"x\r{t}\r",
        lambda t: f"\x1b[2K\x1b[1G{t}\x1b[0m",
        lambda t: f"{t}\x00{t}",
        lambda t: f"\u202e{t}\u2028{t}",
        lambda t: f"\\n{t}\\n",
        lambda t: t.upper(),
        lambda t: f"{'A' * rng.choice([120, 2000, 50000])}{t}",
        lambda t: f"{t}{'é' * rng.choice([3, 900])}",
        lambda t: f"'; touch /tmp/x; $(reboot) `id` {t}",
        lambda t: f"%s%n{t}&\\1",
        lambda t: f"\t{t}\t{t}",
        lambda t: f"Error: {t}",
        lambda t: f"[error] {t}",
        lambda t: f"x\x0b{t}\x0c{t}\x85{t}",
    ]
    return rng.choice(dress)(fake)


def hostile_log(seed: int) -> tuple[random.Random, str]:
    """A log of some dozen lines."""
    rng = random.Random(seed)
    writer = Writer(rng)
    lines = [writer.line("", "info", "init message: Loading block index…")]
    for _ in range(rng.randint(5, 25)):
        category, level, text = rng.choice(PLACES)
        escape = rng.random() < 0.8  # and as if Core did not
        fake = put_in(rng, rng.choice(FAKES))
        lines.append(writer.line(category, level, text.replace("{}", fake), escape))
    # one that was cut off
    cut = lines.pop()
    lines.append(cut[: rng.randint(1, len(cut))])
    return rng, "\n".join(lines) + "\n"


GOOD_PEERS = b"\xfa\xbf\xb5\xda" + b"p" * 60
GOOD_PEERS += hashlib.sha256(hashlib.sha256(GOOD_PEERS).digest()).digest()


def prepare(unit: Unit) -> None:
    """Good data, and options of the user's, which could be refused."""
    records = "chain main\nchain-directory \noption - dbcache=400\n"
    unit.path("run/cairn/node-conf.records").write_text(records)
    unit.path("var/lib/bitcoind/peers.dat").write_bytes(GOOD_PEERS)
    unit.path("var/lib/bitcoind/settings.json").write_text('{"wallet": ["purse"]}\n')


def nothing_happened(unit: Unit) -> None:
    """The node goes on, and all is where it was."""
    assert not unit.held
    assert not unit.wanted
    assert not unit.rebuild.exists()
    assert not unit.refused
    assert not unit.path("run/cairn/bitcoind.look").exists()
    assert not unit.path("run/cairn/bitcoind.retry").exists()
    assert unit.path("var/lib/bitcoind/peers.dat").read_bytes() == GOOD_PEERS
    assert unit.path("var/lib/bitcoind/settings.json").exists()


@pytest.mark.parametrize("seed", range(LOGS))
def test_hostile_log(tmp_path: Path, seed: int) -> None:
    """Nothing but "bitcoind ended with …", for each kind of end, up or not."""
    rng, log = hostile_log(seed)
    unit = Unit(tmp_path, SHELLS[seed % 2])
    prepare(unit)
    # damage that a look would find
    unit.check = (3, "chainstate: Fatal LevelDB error: Corruption: x\n", "")
    if seed % 3 == 0:
        unit.path("run/cairn/bitcoind.up").write_text("0\n")
    ends = [("signal", "KILL"), ("core-dump", "ABRT"), ("exit-code", "1"), ("timeout", "TERM")]
    report = unit.ends(log.encode("utf-8", "surrogatepass"), *rng.choice(ends))
    assert report.startswith("bitcoind ended with ")
    nothing_happened(unit)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("number", range(len(TRUE)))
def test_true_words_in_a_hostile_log(tmp_path: Path, number: int, shell: str) -> None:
    """They lead to the same as by themselves."""
    words, outcome = list(TRUE.items())[number]
    unit = Unit(tmp_path, shell)
    prepare(unit)
    unit.free_kib = 1_000_000
    unit.check = (3, "chainstate: Fatal LevelDB error: Corruption: x\n", "")
    if outcome == "aside":
        for name in ("peers.dat", "settings.json"):
            unit.path(f"var/lib/bitcoind/{name}").write_text("torn")
    log = hostile_log(1000 + number)[1].replace("\x00", "?")
    end = ("signal", "ABRT") if "EXCEPTION" in words or "reading from" in words else ()
    for _ in range(2 if outcome == "rebuilt twice" else 1):
        unit.ends(f"{log}\n{words}".encode("utf-8", "surrogatepass"), *end)
        if outcome in ("aside", "rebuilt"):
            assert not unit.wanted
            unit.starts()
    assert unit.held is (outcome == "held")
    assert unit.wanted is outcome.startswith("rebuilt")
    assert unit.refused is (outcome == "refused")
    assert unit.path("run/cairn/bitcoind.retry").exists() is (outcome == "waits")
    aside = [p.name for p in unit.path("var/lib/bitcoind/x").parent.glob("*.damaged")]
    assert len(aside) == (1 if outcome == "aside" else 0)


def message(command: bytes, payload: bytes) -> bytes:
    """A message of the P2P protocol on regtest."""
    check = hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    return struct.pack("<4s12sI4s", b"\xfa\xbf\xb5\xda", command, len(payload), check) + payload


def hostile_peer(port: int, agents: list[str]) -> None:
    """Connects once for each of these user agents, and sends nonsense after it."""
    for agent in agents:
        text = agent.encode()[:250]
        payload = struct.pack("<iQq", 70016, 1, int(time.time())) + bytes(52)
        payload += struct.pack("<Q", 7) + bytes([len(text)]) + text + struct.pack("<i?", 1, True)
        with socket.create_connection(("127.0.0.1", port), 10) as peer:
            peer.sendall(message(b"version", payload))
            peer.sendall(message(b"Error: Fatal", text))
            peer.sendall(message(b"tx", text) + message(b"block", text))
            time.sleep(0.3)


def hostile_server(server: socket.socket, replies: list[str]) -> None:
    """Answers each connection with one of these lines, as an I2P router or Tor would."""
    for reply in replies * 50:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            try:
                connection.recv(1000)
                connection.sendall(reply.encode()[:60000] + b"\n")
            except OSError:
                pass


@pytest.fixture
def servers() -> Iterator[list[socket.socket]]:
    """Two listening sockets."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    yield sockets
    for one in sockets:
        one.close()


def test_real_daemon_says_nothing_of_others(tmp_path: Path, servers: list[socket.socket]) -> None:
    """With all log categories, a hostile peer, I2P router, Tor and RPC client: the log has
    their words, standard error does not, and the verdict does nothing."""
    bitcoind = ROOT / "out/core/bin/bitcoind"
    fakes = [fake for fake in FAKES if len(fake) < 200]
    data = tmp_path / "data"
    data.mkdir()
    for server in servers:
        threading.Thread(target=hostile_server, args=(server, fakes), daemon=True).start()
    port, rpc = free_port(), free_port()
    options = [
        *("-regtest", "-printtoconsole=1", "-nodebuglogfile", "-logtimestamps=0", "-debug=1"),
        *(f"-datadir={data}", f"-bind=127.0.0.1:{port}", f"-rpcport={rpc}", "-listenonion=1"),
        *(f"-i2psam=127.0.0.1:{servers[0].getsockname()[1]}", "-logratelimit=0"),
        *(f"-torcontrol=127.0.0.1:{servers[1].getsockname()[1]}", "-dnsseed=0", "-fixedseeds=0"),
        "-uacomment=Error opening coins database.",
    ]
    log, err = tmp_path / "log", tmp_path / "err"
    with log.open("wb") as out, err.open("wb") as errors:
        daemon = subprocess.Popen([str(bitcoind), *options], stdout=out, stderr=errors)
        try:
            deadline = time.monotonic() + 120
            while b"Done loading" not in log.read_bytes():
                assert daemon.poll() is None, err.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            hostile_peer(port, fakes)
            for fake in fakes:
                request = f"POST /{fake.replace(' ', '_')} HTTP/1.1\r\nHost: x\r\n\r\n"
                with socket.create_connection(("127.0.0.1", rpc), 10) as client:
                    client.sendall(request.encode())
                    client.recv(100)
            time.sleep(2)
        finally:
            daemon.kill()
            daemon.wait()
    text = log.read_text(errors="replace")
    assert "Fatal LevelDB error: Corruption: block checksum mismatch" in text
    assert err.read_bytes() == b""
    unit = Unit(tmp_path / "unit")
    prepare(unit)
    for words in (err.read_bytes(), log.read_bytes()[-60000:]):
        assert unit.ends(words, "signal", "KILL").startswith("bitcoind ended with ")
        nothing_happened(unit)

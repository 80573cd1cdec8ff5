"""Thousands of generated node.conf files: nothing listens, leaves, prunes or wipes that should not.

Each file is made from wishes of an owner, written well or with the slips that people and
computers make. Two judges look at the bitcoin.conf that comes of it, with a model of Core's own
parser (core_model.py):
- Core: of a file that bitcoind itself would take, Cairn makes nothing that is more open.
- The owner: a wish for privacy, for all blocks or against a rebuild is kept, or the node is off
  the network, or in doubt about pruning (node-tune then deletes nothing).
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.core_model import CHAINS, Core, CoreError, Outcome, outcome

LIBRARY = ROOT / "overlay/usr/lib/cairn"
TABLE = {
    (row := line.split("\t"))[0]: row
    for line in (ROOT / "overlay/usr/share/cairn/options.tsv").read_text().splitlines()
    if not line.startswith("#")
}
DENIED = {name for name, row in TABLE.items() if "deny" in row[4] or row[4].startswith("own:")}
COUNT, SEED = 3000, 21
OWN = re.compile(
    r"^\s*(hostname|sshkey|ip|gateway|dns|filesystem|datadisk|erase|mdns|page|update|updateurl)\s*="
)

# wish: lines of which one is taken
PRIVATE = [
    "proxy=127.0.0.1:9050",
    "proxy=192.168.1.60:9050",
    "onion=127.0.0.1:9050",
    "onlynet=ipv4",
    "connect=192.168.1.5",
    "connect=0",
    "noconnect=1",
    "networkactive=0",
    "nonetworkactive=1",
    "dnsseed=0",
    "dns=0",
    "proxy=127.0.0.1:9050=onion",
]
INBOUND = ["listen=0", "nolisten=1", "bind=127.0.0.1", "bind=127.0.0.1:8444", "listenonion=0"]
KEEP = ["prune=0", "noprune=1"]
HIDE = ["mdns=0", "mdns=false", "page=0"]
OTHER = [
    "prune=600",
    "prune=2000",
    "dbcache=300",
    "maxconnections=20",
    "maxmempool=60",
    "server=1",
    "txindex=1",
    "reindex=0",
    "reindex=1",
    "reindex-chainstate=1",
    "listen=1",
    "listen=true",
    "hostname=attic",
    "hostname=localhost",
    "ip=192.168.1.50/24",
    "gateway=192.168.1.1",
    "dns=9.9.9.9",
    "filesystem=f2fs",
    "updateurl=https://example.org/cairn/",
    "update=auto",
    "datadisk=auto",
    "erase=S6XNNS0T123456",
    "debug=net",
    "rpcbind=127.0.0.1",
    "rpcbind=0.0.0.0",
    "rpcallowip=0.0.0.0/0",
    "blocknotify=reboot",
    "datadir=/tmp",
    "includeconf=/etc/passwd",
    "wallet=/etc/passwd",
    "loadblock=/dev/zero",
    "rest=1",
    "uacomment=home",
    "addnode=192.0.2.7",
    "port=8444",
    "port=8332",
    "rpcport=22",
    "rpcport=8444",
    "whitebind=0.0.0.0:80",
    "zmqpubrawblock=tcp://127.0.0.1:28332",
    "zmqpubrawblock=tcp://0.0.0.0:28332",
    "blockfilterindex=1",
    "peerblockfilters=1",
    "listenonion=1",
    "natpmp=1",
    "discover=0",
    "externalip=192.0.2.9",
    "forcednsseed=1",
    "onlynet=onion",
    "help=1",
    "assumevalid=0",
    "maxuploadtarget=500M",
    "noreindex=0",
    "noprune=0",
    "main.prune=600",
    "# a comment",
    "",
]
CHAIN = ["chain=main", "signet=1", "regtest=1", "chain=regtest", "testnet=1", "chain=testnet4"]
# what a line may be stuck to when the end between them is lost
BEFORE = ["dbcache=300", "server=1", "hostname=node", "wallet=w", "deprecatedrpc=x", "lang=de"]
BEFORE += ["rpcwhitelist=me:getinfo", "torpassword=x", "addnode=192.0.2.7", "daemon=1"]
GARBAGE = [
    lambda r: bytes(r.randrange(1, 256) for _ in range(r.randrange(1, 40))).replace(b"\n", b""),
    lambda r: bytes(r.choice(b"abcnoprxy=#[].-\"' \t") for _ in range(r.randrange(1, 30))),
]


def slip(line: str, rng: random.Random) -> bytes:
    """The line as it may arrive: never one that is a comment, or another good line."""
    name, equals, value = line.partition("=")
    at = rng.randrange(len(name)) if name else 0
    # of the kind of name that nobody knows nothing about prune can be told
    kind = rng.randrange(17 if "prune" in line else 18)
    if kind == 0:
        name = name[:at] + name[at] + name[at:]
    elif kind == 1:
        at = at or int(name == "mdns")  # dns= is another good line
        name = name[:at] + name[at + 1 :]
    elif kind == 2:
        name = name[:at] + name[at + 1 : at + 2] + name[at : at + 1] + name[at + 2 :]
    elif kind == 3:
        name = name.upper() if rng.random() < 0.5 else name.capitalize()
    elif kind == 4:
        name = rng.choice(["-", "--", "main.", "test.", '"', ";", "\u00a0", "\ufeff", "."]) + name
    elif kind == 5:
        return f'{name}="{value}"'.encode()
    elif kind == 6:
        return f"{name}{rng.choice([' ', ':', ' : ', '=>'])}{value}".encode()
    elif kind == 7:
        return name.encode()
    elif kind == 8:
        value = rng.choice(["", "yes", "off", "-1", "0x0", "1e3", "none", "2 3", "99999999999999"])
    elif kind == 9:
        value += rng.choice(["\f", "\v", "\x01", " x", "\u00a0", ";"])
    elif kind == 10:
        return f"[{name}{equals}{value}]".encode()
    elif kind == 11:
        return f"[mainnet]\n{line}".encode()
    elif kind == 12:
        return f"[main\n{line}".encode()
    elif kind == 13:
        return f"[ main ]\r\n{line}".encode()
    elif kind == 14:
        return line.encode("utf-16-le")
    elif kind == 16:
        glue = rng.choice([" ", "  ", ";", " -", "\v", "\u2028", "\u0085", ' "', " main."])
        return f"{rng.choice(BEFORE)}{glue}{line}".encode()
    elif kind == 17:
        name = rng.choice(["tunnel", "anonymous", "hidden", "darknet", "p", "socksserver", ""])
    else:
        name = "".join(rng.choice(["\u200b", "\u00ad"]) + c if c == name[at] else c for c in name)
    return f"{name}{equals}{value}".encode()


def dress(line: str, rng: random.Random) -> bytes:
    """Good variants of a good line."""
    if "=" in line and not line.startswith("#") and rng.random() < 0.3:
        name, _, value = line.partition("=")
        pad = [rng.choice(["", " ", "\t", "  "]) for _ in range(4)]
        line = f"{pad[0]}{name}{pad[1]}={pad[2]}{value}{pad[3]}"
        line += rng.choice(["", "", "# said so", " # and=more"])
    return line.encode()


@dataclass
class Case:
    """A file, and what its owner wished of it."""

    data: bytes
    wishes: list[str] = field(default_factory=list)
    mangled: bool = False
    last: bytes | None = None


def generate(count: int, seed: int) -> list[Case]:
    """Files of wishes and noise; a third of them without a slip."""
    rng = random.Random(seed)
    cases = []
    for _ in range(count):
        wishes = [rng.choice(PRIVATE) for _ in range(rng.choice([0, 1, 1, 2]))]
        wishes += [rng.choice(INBOUND) for _ in range(rng.choice([0, 0, 1]))]
        wishes += [rng.choice(KEEP) for _ in range(rng.choice([0, 0, 1]))]
        wishes += [rng.choice(HIDE) for _ in range(rng.choice([0, 0, 1]))]
        wishes += [rng.choice(CHAIN) for _ in range(rng.choice([0, 0, 0, 1, 1]))]
        lines = wishes + [rng.choice(OTHER) for _ in range(rng.randrange(6))]
        rng.shuffle(lines)
        slips = rng.choice([0, 0, 0, 1, 1, 2])
        bad = set(rng.sample(range(len(lines)), min(slips, len(lines)))) if lines else set()
        parts: list[bytes] = []
        for index, line in enumerate(lines):
            if rng.random() < 0.12:
                parts.append(rng.choice([b"[main]", b"[test]", b"[regtest]", b"[signet]"]))
            broken = index in bad and line and not line.startswith("#")
            parts.append(slip(line, rng) if broken else dress(line, rng))
            if rng.random() < 0.04:
                parts.append(rng.choice(GARBAGE)(rng))
        end = rng.choice([b"\n", b"\n", b"\n", b"\r\n", b"\r"])
        data = end.join(parts) + rng.choice([b"", end])
        if rng.random() < 0.1:
            data = b"\xef\xbb\xbf" + data
        if rng.random() < 0.02:
            data = data.decode("latin-1").encode("utf-16")
        cases.append(Case(data, wishes, bool(bad)))
    return cases


BATCH = """
set -eu
node_conf_here={library}
. {library}/node-conf.sh
mkdir -p {folder}/work {folder}/var/lib/cairn
for file in {folder}/*.in; do
	base=${{file%.in}}
	rm -f {folder}/var/lib/cairn/node.conf
	[ ! -e "$base.last" ] || mv "$base.last" {folder}/var/lib/cairn/node.conf
	node_conf_parse {folder} "$file" {folder}/work {known}
	bitcoin_conf {folder} {folder}/work/records >"$base.conf"
	mv {folder}/work/records "$base.records"
done
"""


@dataclass
class Result:
    """What Cairn made of a file."""

    conf: str
    records: list[tuple[str, str]]

    def of(self, name: str) -> list[str]:
        """The values of a record."""
        return [value for key, value in self.records if key == name]


def tools(shell: str, folder: Path) -> dict[str, str]:
    """With busybox, its awk, sed and grep, as in the image."""
    if shell.startswith("busybox"):
        folder.mkdir()
        for name in "awk cat cmp cut grep head mkdir mv rm sed tail tr wc".split():  # noqa: SIM905
            (folder / name).symlink_to(shutil.which("busybox") or "busybox")
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def parse(cases: list[Case], folder: Path, shell: str, known: Path) -> list[Result]:
    """Runs the parser on all files, in two processes."""

    def run(part: int) -> None:
        below = folder / str(part)
        below.mkdir()
        for index in range(part, len(cases), 2):
            (below / f"{index:05}.in").write_bytes(cases[index].data)
            if (last := cases[index].last) is not None:
                (below / f"{index:05}.last").write_bytes(last)
        script = BATCH.format(library=LIBRARY, folder=below, known=known)
        subprocess.run([*shell.split(), "-c", script], check=True, env=environment)

    environment = tools(shell, folder / "bin")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
    results = []
    for index in range(len(cases)):
        base = folder / str(index % 2) / f"{index:05}"
        # the daemon reads bytes
        records = base.with_suffix(".records").read_text(encoding="latin-1").splitlines()
        pairs = [(line.partition(" ")[0], line.partition(" ")[2]) for line in records]
        results.append(Result(base.with_suffix(".conf").read_text(encoding="latin-1"), pairs))
    return results


def behind(result: Result, known: set[str]) -> Outcome:
    """What a daemon does with the generated file and Cairn's defaults behind it."""
    core = Core(known)
    core.read(result.conf)
    core.read((ROOT / "overlay/usr/share/cairn/defaults.conf").read_text())
    return outcome(core)


def users_own(case: Case, known: set[str]) -> Outcome | None:
    """What bitcoind would do with the user's file itself; None if it would end."""
    text = case.data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        return None
    lines = [line for line in text.split("\n") if not OWN.match(line)]
    core = Core(known, words=True)
    try:
        core.read("\n".join(lines))
        core.read("listenonion=0\n")
        return outcome(core)
    except CoreError:
        return None


def always(result: Result, now: Outcome, names: set[str]) -> None:
    """What holds for every file."""
    lines = [line for line in result.conf.splitlines() if not line.startswith("#")]
    assert [line for line in lines if line.startswith("chain=")] == [f"chain={now.chain}"]
    assert result.of("chain") == [now.chain]
    folder = {"main": "", "test": "/testnet3"}.get(now.chain, f"/{now.chain}")
    assert result.of("chain-directory") == [folder]
    options = [line for line in lines if not line.startswith(("[", "includeconf="))]
    for line in options:
        name = line.split("=")[0]
        name = name if name in names else name.removeprefix("no")
        assert name in names
        assert name not in DENIED, line
    assert all(line in [f"[{chain}]" for chain in CHAINS] for line in lines if line[0] == "[")
    assert now.rpc == ()
    assert all(address.startswith("tcp://127.0.0.1:") for address in now.zmq)
    assert not [line for line in options if "/dev/" in line or "/etc/" in line]
    # once.conf, not this file, carries it
    assert not now.reindex
    assert not now.reindex_chainstate
    if result.of("network") == ["off"]:
        assert not now.active
        assert not now.listen
    if result.of("network") == ["outbound"]:
        assert not now.listen
    if not now.active and result.of("network") == ["off"]:
        assert result.of("note")


def judge_of_core(result: Result, now: Outcome, core: Outcome | None) -> None:
    """Nothing is more open, and less is kept, than with the user's own file."""
    if core is None:
        return
    if now.active:
        assert now.chain == core.chain
        assert core.active
        assert now.proxies == core.proxies
        assert now.onion == core.onion
        assert now.onlynet == core.onlynet
        assert now.connect in (core.connect, ())
        assert not now.dnsseed or core.dnsseed
        assert not now.dns or core.dns
        if now.listen:
            assert core.listen
            assert set(now.binds) <= {*core.binds, "0.0.0.0", "[::]"}
            assert not core.binds or set(now.binds) <= set(core.binds)
        assert not now.listenonion or core.listenonion
        assert not now.natpmp or core.natpmp
    if now.chain == core.chain:
        once = result.of("once")
        assert "reindex" not in once or core.reindex
        assert "reindex-chainstate" not in once or core.reindex_chainstate
        if core.prune is not None and now.prune != 0 and not result.of("prune-doubt"):
            assert now.prune == core.prune


def judge_of_owner(case: Case, result: Result, now: Outcome) -> None:
    """A wish is kept on the chain that it was made for, or the node is careful."""
    sections = re.search(rb"\[(main|test|regtest|signet)\]", case.data)
    chains = {wish for wish in case.wishes if wish in CHAIN}
    if now.active and len(chains) == 1:
        wish = chains.pop()
        named = wish.split("=")[1] if wish.startswith("chain") else wish.split("=")[0]
        assert now.chain == {"testnet": "test"}.get(named, named)
    # below a good section of another chain a wish is none
    if sections:
        return
    for wish in case.wishes:
        if wish in PRIVATE and now.active:
            name, _, value = wish.partition("=")
            if name == "proxy":
                # of two the last is taken, as Core does; a wrong one leads nowhere
                assert now.proxies
            elif name == "onion":
                assert now.onion == value
            elif name == "onlynet":
                assert value in now.onlynet
            elif name in ("connect", "noconnect"):
                assert now.connect is not None
            elif name == "dns":
                assert not now.dns
            else:
                assert name == "dnsseed", wish
                assert not now.dnsseed
        if wish in INBOUND and now.active and now.listen:
            name, _, value = wish.partition("=")
            assert name in ("bind", "listenonion"), wish
            assert name != "bind" or value in now.binds
        if wish in HIDE:
            assert not result.of(wish.split("=")[0]), wish
        if wish in KEEP:
            assert now.prune == 0 or (now.prune is None and result.of("prune-doubt")), wish


def names_of(bitcoind: Path, folder: Path) -> Path:
    """The names that node-config asks the daemon for, and ZeroMQ's."""
    command = [str(bitcoind), f"-datadir={folder}", "-help-debug"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^  -([a-z0-9-]+)", text, re.MULTILINE)
    names += [name for name in TABLE if name.startswith("zmq")]
    (folder / "known").write_text("\n".join(names) + "\n")
    return folder / "known"


@pytest.fixture(scope="session")
def bitcoind() -> Path:
    """The daemon that the host lane built."""
    path = Path(os.environ.get("CAIRN_BITCOIND", ROOT / "out/core/bin/bitcoind"))
    assert path.exists(), "bitcoind is not built; run 'make core'"
    return path


@pytest.mark.slow  # thousands of files
@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_generated_files(bitcoind: Path, tmp_path: Path, shell: str) -> None:
    """3,000 files, each judged by Core's rules and by its owner's wishes.

    busybox, which takes three times as long, gets each third of them; all with CAIRN_THOROUGH=1.
    """
    known = names_of(bitcoind, tmp_path)
    names = set(known.read_text().split())
    hidden = {name for name, row in TABLE.items() if row[4] in ("ignored", "hidden")}
    stride = 3 if shell != "dash" and not os.environ.get("CAIRN_THOROUGH") else 1
    cases = generate(COUNT, SEED)[::stride]
    counts = {"kept": 0, "off": 0, "core takes it": 0, "doubt": 0, "good": 0}
    failures = []
    for index, (case, result) in enumerate(
        zip(cases, parse(cases, tmp_path, shell, known), strict=True)
    ):
        try:
            now = behind(result, names)
            core = users_own(case, names | hidden)
            always(result, now, names | hidden)
            judge_of_core(result, now, core)
            judge_of_owner(case, result, now)
        except (AssertionError, CoreError) as error:
            failures.append(f"{index}: {error!r:.300}\n  {case.data!r}\n{result.conf}")
            continue
        counts["kept"] += now.active
        counts["off"] += result.of("network") == ["off"]
        counts["core takes it"] += core is not None
        counts["doubt"] += bool(result.of("prune-doubt"))
        counts["good"] += bool(result.of("good"))
    print(counts)
    assert not failures, f"{len(failures)} files:\n" + "\n".join(failures[:10])
    # the judges have seen enough of each kind
    assert min(counts.values()) > len(cases) / 12


def taken_off(data: bytes, size: int) -> bool:
    """Whether what is behind SIZE bytes is whole lines that owners take out again."""
    whole = size == 0 or b"\n" in (data[size - 1 : size + 1]).replace(b"\r", b"\n")
    line = rb"[ \t]*(#.*|(erase|reindex(-chainstate)?)[ \t]*=.*)?"
    return whole and all(re.fullmatch(line, text) for text in re.split(rb"[\r\n]", data[size:]))


@pytest.mark.slow  # the same, cut
@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_generated_files_cut_short(bitcoind: Path, tmp_path: Path, shell: str) -> None:
    """The beginning of the last good file, of any length, is not believed."""
    known = names_of(bitcoind, tmp_path)
    names = set(known.read_text().split())
    hidden = {name for name, row in TABLE.items() if row[4] in ("ignored", "hidden")}
    rng = random.Random(SEED)
    cases = []
    for case in generate(COUNT // 4, SEED + 2):
        data = case.data.rstrip()
        if case.mangled or not data or b"\0" in data:
            continue
        size = rng.randrange(len(data))
        if taken_off(case.data, size):
            continue
        cases.append(Case(data[:size], case.wishes, last=case.data))
    assert len(cases) > COUNT / 20
    for case, result in zip(cases, parse(cases, tmp_path, shell, known), strict=True):
        now = behind(result, names | hidden)
        always(result, now, names | hidden)
        assert result.of("note"), case
        assert result.of("prune-doubt"), case
        assert not result.of("good"), case
        assert not result.of("once"), case
        assert now.prune is None, case
        if set(case.wishes) & {*PRIVATE, *INBOUND}:
            assert not now.active, case


# -- the daemon itself ----------------------------------------------------------------------
def real_cases(count: int, seed: int) -> list[Case]:
    """Files for the daemon: without names to look up or addresses that are not here."""
    rng = random.Random(seed)
    wishes = [line for line in PRIVATE + INBOUND + KEEP + CHAIN if "onion" not in line]
    cases: list[Case] = []
    while len(cases) < count:
        lines = rng.sample(wishes, rng.randrange(1, 4)) + rng.sample(OTHER, 3)
        bad = rng.randrange(len(lines)) if rng.random() < 0.4 else -1
        parts = [slip(ln, rng) if i == bad else dress(ln, rng) for i, ln in enumerate(lines)]
        cases.append(Case(b"\n".join(parts) + b"\n", lines, bad >= 0))
    return cases


def daemon(case: Case, folder: Path, bitcoind: Path) -> str:
    """Runs node-config and bitcoind on a file; returns what differs from the model, or "".

    Where the file leaves the network on, the command line switches it off: nothing is contacted.
    """
    (folder / "boot").mkdir(parents=True)
    (folder / "boot/node.conf").write_bytes(case.data)
    (folder / "usr/share").mkdir(parents=True)
    shutil.copytree(ROOT / "overlay/usr/share/cairn", folder / "usr/share/cairn")
    (folder / "run/bitcoind").mkdir(parents=True)
    (folder / "run/bitcoind/tuned.conf").write_text("dbcache=100\n")
    script = ROOT / "overlay/usr/bin/node-config"
    command = [str(script), "--root", str(folder), "--bitcoind", str(bitcoind)]
    subprocess.run(command, check=True, capture_output=True)
    conf = (folder / "run/bitcoind/bitcoin.conf").read_text(encoding="latin-1")
    # without fetching anything there is nothing to rebuild
    (folder / "run/bitcoind/once.conf").write_text("")
    names = set(TABLE) | {"includeconf"}
    now = behind(Result(conf, []), names)
    data = folder / "data"
    data.mkdir()
    port = 20000 + (os.getpid() * 7 + int(folder.name) * 2) % 20000
    cookie = data / "cookie"
    ports = [f"-port={port}", f"-rpcport={port + 1}", f"-rpccookiefile={cookie}"]
    common = [f"-conf={folder}/run/bitcoind/bitcoin.conf", f"-datadir={data}"]
    quiet = ["-networkactive=0"] if now.active else []
    # addresses that a file names may be another test's
    quiet += ["-listen=0", "-nobind", "-nowhitebind", "-listenonion=0"] if now.listen else []
    with (folder / "log").open("w") as log:
        command = [str(bitcoind), *common, *ports, *quiet, "-printtoconsole=1"]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 120
        while "Done loading" not in (said := (folder / "log").read_text(errors="replace")):
            if process.poll() is not None:
                return f"bitcoind ended: {said[-300:]}"
            if time.monotonic() > deadline:
                return "bitcoind did not start"
            time.sleep(0.1)
        client = [str(bitcoind.parent / "bitcoin-cli"), *common, f"-rpcport={port + 1}"]
        client += [f"-rpccookiefile={cookie}"]

        def ask(method: str) -> dict[str, object]:
            answer = subprocess.run([*client, method], check=True, capture_output=True)
            return dict(json.loads(answer.stdout))

        network, chain = ask("getnetworkinfo"), ask("getblockchaininfo")
    finally:
        process.terminate()
        process.wait(60)
    found = {
        "network": network["networkactive"],
        "chain": chain["chain"],
        "prune": chain["pruned"],
        "proxies": {
            str(net["name"]): str(net["proxy"])
            for net in network["networks"]  # type: ignore[attr-defined]
            if net["proxy"] and net["name"] in ("ipv4", "ipv6")
        },
        "reachable": {
            str(net["name"])
            for net in network["networks"]  # type: ignore[attr-defined]
            if net["reachable"] and net["name"] in ("ipv4", "ipv6")
        },
        "notified": "reboot" in said,
    }
    expected = {
        "network": False,
        "chain": now.chain,
        "prune": bool(now.prune),
        "proxies": {net: way for net, way in now.proxies if net in ("ipv4", "ipv6")},
        "reachable": {"ipv4", "ipv6"} & (now.onlynet or {"ipv4", "ipv6"}),
        "notified": False,
    }
    return "" if found == expected else f"{found} instead of {expected}\n{conf}"


def run_daemons(count: int, seed: int, folder: Path, bitcoind: Path) -> None:
    """Two at a time."""
    cases = real_cases(count, seed)
    with ThreadPoolExecutor(2) as pool:
        places = [folder / str(index) for index in range(count)]
        said = list(pool.map(daemon, cases, places, [bitcoind] * count))
    wrong = [f"{case.data!r}\n  {text}" for case, text in zip(cases, said, strict=True) if text]
    assert not wrong, "\n".join(wrong)


def test_real_daemon(bitcoind: Path, tmp_path: Path) -> None:
    """The model is right about the daemon that the image has."""
    run_daemons(16, SEED, tmp_path, bitcoind)


@pytest.mark.long
def test_real_daemon_at_length(bitcoind: Path, tmp_path: Path) -> None:
    """The same with many files."""
    run_daemons(300, SEED + 1, tmp_path, bitcoind)

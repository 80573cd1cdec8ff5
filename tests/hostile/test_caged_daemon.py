"""The real daemon on generated node.conf files: what it does, not what it would do.

Each file goes the way that it goes on a node: node-config and node-tune read it, bitcoind is
started as the unit starts it (cage.py), in a network namespace of its own in which every packet
is recorded. Two judges look at what is seen:
- The model of Core (core_model.py, core_network.py): the daemon listens on what the settings in
  force say and nothing else, sends to nobody else, and prunes as they say.
- The owner: what was wished in the file, well written or not, is kept.

A file takes 2.4 s (two at a time, on two cores shared with a build): 1.5 s of looking at what
leaves, 0.33 s of processor time for scripts and daemon, and waiting. The 48 files of the fast part
take a minute with that, all 3,000 of the long part an hour: one tenth of them is one test.
CAGES=N in the environment is how many run at a time, default 2: most of the time is waiting.
Needs root, for the namespaces.
"""

from __future__ import annotations

import json
import os
import queue
import random
import re
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from lab.paths import ROOT
from tests.hostile.cage import GATEWAY, PROXIES, RESOLVER
from tests.hostile.core_model import CHAINS, Core, CoreError, Outcome, outcome
from tests.hostile.core_network import PCP, PORTS, Network, network, split
from tests.hostile.rights import superuser
from tests.hostile.test_node_conf import (
    COUNT,
    INBOUND,
    KEEP,
    PRIVATE,
    SEED,
    TABLE,
    Case,
    Result,
    behind,
    bitcoind,
    generate,
    judge_of_owner,
)

__all__ = ["bitcoind"]  # a fixture
CAGES = int(os.environ.get("CAGES", "2"))
SECTION = re.compile(rb"\[(main|test|testnet4|regtest|signet)\]")
#: What Core says of a name that is well formed and not known; verdict.tsv has it, too.
UNKNOWN = re.compile(
    r"^Error: Invalid -(proxy|onion) address or hostname: '[0-9A-Za-z_.-]*[A-Za-z][0-9A-Za-z_.-]*'",
    re.MULTILINE,
)
#: What the unit has the daemon run, given to a shell.
OURS = re.compile(
    r"(-c (-- )?)?systemd-notify (--ready --status=running|STOPPING=1)"
    r"|(-c (-- )?)?/usr/lib/cairn/cairn-bitcoind-stop --watch (\$PPID &|\d+)"
)
ARCHIVE = {f"/var/lib/cairn/prune.{chain}": "0\n" for chain in CHAINS}
#: Owners' programs, each of which would leave a file.
PROGRAM = "touch /run/bitcoind/rpc/owned /var/lib/bitcoind/owned"
TOR = "192.168.1.60:9050"


@dataclass
class File:
    """A node.conf, what its owner wished, and what earlier boots have left."""

    case: Case
    files: dict[str, str] = field(default_factory=dict)
    #: no packet may leave, whatever the model says, and without network no server be asked
    silent: bool = False


def of(*lines: str, wishes: list[str] | None = None, silent: bool = False, **files: str) -> File:
    """A file of these lines; `private` and `conf` are files of the data partition."""
    names = {"private": "/var/lib/cairn/private", "conf": "/var/lib/cairn/node.conf"}
    data = "".join(f"{line}\n" for line in lines).encode()
    memory = {names[name]: text for name, text in files.items()}
    return File(Case(data, wishes or []), memory, silent)


#: What the generated files have not: memories of earlier boots, programs, names, real slips.
SHAPES = [
    of(),
    of(f"proxy={TOR}", "listen=1", "addnode=seed.example.org", "seednode=192.0.2.8"),
    of(f"proxy={TOR}=onion", "onlynet=onion", "dnsseed=0", silent=True),
    of("proxy=tor.lan:9050", "addnode=192.0.2.7", wishes=["proxy=192.168.1.60:9050"]),
    of("onion=127.0.0.1:9050", "onlynet=onion", silent=True),
    of("onlynet=onion", "listenonion=1", silent=True),
    of("onlynet=tor", silent=True),
    of("onlynet=i2p", "i2psam=127.0.0.1:7656", "i2pacceptincoming=1", silent=True),
    of("networkactive=0", "natpmp=1", "listen=1", silent=True),
    of("networkactive=0", "listenonion=1", "listen=1", "onion=127.0.0.1:9050", silent=True),
    of("networkactive=0", f"i2psam={TOR[:-4]}7656", "addnode=seed.example.org", silent=True),
    of("proxyy=127.0.0.1:9050", "natpmp=1", f"i2psam={TOR[:-4]}7656", silent=True),
    of("maxconnections=many", silent=True),
    of("maxconnections=0", "dnsseed=0", silent=True),
    of("noconnect=1", "fixedseeds=1", silent=True),
    of("regtest=1", "[main]", f"proxy={TOR}", "[regtest]", "connect=192.168.1.5"),
    of("dbcahe=300", private="proxy\n", silent=True),
    of("dbcache=300", conf=f"dbcache=300\nproxy={TOR}\n", silent=True),
    of("whitebind=noban@127.0.0.1:8500", "bind=198.51.100.2:8600"),
    of("prune=0", "txindex=1", "disablewallet=1", wishes=["prune=0"]),
    File(Case(b"dbcache=300\nprun=600\n"), ARCHIVE),
    of(
        "regtest=1",
        *(f"{name}={PROGRAM}" for name in ("startupnotify", "shutdownnotify", "blocknotify")),
        *(f"{name}={PROGRAM}" for name in ("alertnotify", "walletnotify", "signer")),
        *("wallet=/tmp/outside", "wallet=../../outside", "walletdir=/tmp", "debuglogfile=/tmp/log"),
        *("pid=/tmp/pid", "blocksdir=/tmp", "ipcbind=unix:/tmp/socket", "rpccookiefile=/tmp/c"),
        "includeconf=/tmp/x.conf",
        silent=True,
    ),
]


# -- running them -----------------------------------------------------------------------------
def observe(files: list[File], bitcoind: Path) -> list[dict[str, object]]:
    """What the cages saw, in the order of the files."""
    work: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(files)):
        work.put(index)
    seen: list[dict[str, object]] = [{} for _ in files]
    command = [*superuser(), "unshare", "--mount", "--uts", "--ipc", "--pid", "--fork"]
    command += ["--kill-child", "--mount-proc", sys.executable]
    command += [str(Path(__file__).with_name("cage.py")), str(ROOT), str(bitcoind)]

    def look() -> None:
        with subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as cage:
            assert cage.stdin
            assert cage.stdout
            while True:
                try:
                    index = work.get_nowait()
                except queue.Empty:
                    break
                file = files[index]
                case = {
                    "conf": file.case.data.decode("latin-1"),
                    "files": file.files,
                    "stop": b"notify" in file.case.data,
                }
                cage.stdin.write(json.dumps(case) + "\n")
                cage.stdin.flush()
                seen[index] = json.loads(cage.stdout.readline() or '{"failed": "the cage ended"}')
            cage.stdin.close()

    threads = [threading.Thread(target=look) for _ in range(CAGES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


# -- the judges ---------------------------------------------------------------------------------
def in_force(seen: dict[str, object]) -> tuple[Core, Outcome]:
    """The model of Core with all files that this daemon was given."""
    core = Core(set(TABLE) | {"includeconf"})
    core.read(str(seen["conf"]).replace("tor.lan", PROXIES[1]))
    core.read(str(seen["tuned"]))
    core.read((ROOT / "overlay/usr/share/cairn/defaults.conf").read_text())
    return core, outcome(core)


def judge_of_model(seen: dict[str, object], now: Outcome, model: Network) -> None:
    """The daemon does what its settings say, and no more."""
    assert set(seen["listens"]) == model.listens  # type: ignore[call-overload]
    for protocol, host, port in seen["left"]:  # type: ignore[attr-defined]
        sent = f"sent to {host}, {protocol} {port}"
        assert model.may_send(protocol, host, port, RESOLVER, GATEWAY), sent
    for host, port in seen["asked"]:  # type: ignore[attr-defined]
        assert model.may_ask(host, port), f"asked {host}, port {port}"
    answers: list[Any] = list(seen["rpc"])  # type: ignore[call-overload]
    if not answers:
        # the owner's whitelist has no place for the cookie's user, who is node-cli, too
        assert re.search("(?m)^rpcwhitelist=", str(seen["conf"])), "RPC refuses the node's own user"
        return
    chain, net, *heard = answers
    assert all(answer["success"] for answer in heard), "it has heard of no peers"
    assert chain["chain"] == now.chain
    assert net["networkactive"] == now.active
    assert chain["pruned"] == bool(now.prune)
    automatic = now.prune if now.prune and now.prune > 1 else None
    assert chain.get("prune_target_size") == (automatic * 1024 * 1024 if automatic else None)
    ways = {entry["name"]: entry["proxy"] for entry in net["networks"]}
    for name in ("ipv4", "ipv6"):
        assert ways[name] == dict(now.proxies).get(name, ""), name


def judge_of_traces(seen: dict[str, object]) -> None:
    """No program but the unit's own runs, and nothing is written elsewhere."""
    assert seen["made"] == []
    ran = cast("list[str]", seen["ran"])
    assert all(OURS.fullmatch(line) for line in ran), ran


def broken(wish: str, wishes: list[str], sent: tuple[str, str, int]) -> bool:
    """Whether a packet is against a wish.

    Core reaches a peer of the own network directly, also with a proxy; here it is one that the
    file names. 192.0.2.0/24 counts as such, and the files have no other address to addnode=.
    """
    name, _, value = wish.partition("=")
    protocol, host, port = sent
    to_name_server = (host, port) == (RESOLVER, 53)
    peers = [split(line.partition("=")[2], 0)[0] for line in wishes if line.startswith("connect=")]
    named = protocol == "tcp" and host in (*peers, "192.0.2.7")
    if wish in ("networkactive=0", "nonetworkactive=1"):
        return True
    if "natpmp=1" in wishes and (protocol, host, port) == ("udp", GATEWAY, PCP):
        return False
    if name == "proxy" and not value.endswith("=onion"):
        return not named
    if name in ("connect", "noconnect"):
        return not named
    if name == "onlynet":
        return ":" in host
    return name == "dnsseed" and to_name_server


def judge_of_wishes(file: File, seen: dict[str, object], model: Network) -> None:
    """What leaves, who may come in and what is pruned, by the owner's words alone."""
    left = [tuple(sent) for sent in seen["left"]]  # type: ignore[attr-defined]
    if file.silent:
        assert not left
        assert model.active or not seen["asked"]
    chain = (seen["rpc"] or [{"pruned": False}])[0]  # type: ignore[index]
    if file.files == ARCHIVE and not re.search(rb"prune\s*=\s*[1-9]", file.case.data):
        assert not chain["pruned"], "an archive node is pruned"
    # below a good section of another chain a wish is none
    if SECTION.search(file.case.data):
        return
    wishes = [*file.case.wishes]
    if re.search(rb"(?m)^[ \t]*natpmp[ \t]*=[ \t]*1", file.case.data):
        wishes.append("natpmp=1")
    for wish in wishes:
        assert not [sent for sent in left if wish in PRIVATE and broken(wish, wishes, sent)], wish
        if wish in KEEP:
            # without automatic pruning nothing is deleted
            assert not chain.get("automatic_pruning"), wish
        listens = [str(at) for at in seen["listens"]]  # type: ignore[attr-defined]
        if wish in ("listen=0", "nolisten=1"):
            ports = {int(at.rpartition(":")[2]) for at in listens}
            assert not ports & set(PORTS.values()), wish
        if wish.startswith("bind=127.0.0.1"):
            assert not [at for at in listens if not at.startswith(("127.0.0.1:", "[::1]:"))], wish


def judge(file: File, seen: dict[str, object]) -> str:
    """All of them; what is wrong, or ""."""
    try:
        assert "failed" not in seen, seen["failed"]
        if not seen["up"] and UNKNOWN.search(str(seen["said"])):
            # a name that no server knows: the node waits for it, and has asked for nothing else
            assert {*map(tuple, seen["left"])} <= {("udp", RESOLVER, 53)}  # type: ignore[call-overload]
            assert not seen["asked"]
            return ""
        assert seen["up"], f"bitcoind ended: {seen['said']}"
        core, now = in_force(seen)
        model = network(core, now)
        judge_of_model(seen, now, model)
        judge_of_traces(seen)
        judge_of_wishes(file, seen, model)
        pairs = cast("list[list[object]]", seen["records"])
        records = [(str(pair[0]), str(pair[-1])) for pair in pairs]
        if not file.files:
            # without tuned.conf: what is asked for in doubt about prune is not the owner's
            made = Result(str(seen["conf"]), records)
            judge_of_owner(file.case, made, behind(made, {*TABLE, "includeconf"}))
    except (AssertionError, CoreError, KeyError) as error:
        shown = {key: seen.get(key) for key in ("listens", "left", "asked", "ran", "made")}
        return f"{file.case.data!r} {file.files}\n  {error!r:.300}\n  {shown}\n{seen.get('conf')}"
    return ""


def check(files: list[File], bitcoind: Path) -> Counter[str]:
    """Runs and judges them all; counts what kinds there were."""
    seen = observe(files, bitcoind)
    wrong = [said for file, what in zip(files, seen, strict=True) if (said := judge(file, what))]
    kinds: Counter[str] = Counter()
    for what in seen:
        kinds["files"] += 1
        kinds["something left"] += bool(what.get("left"))
        left = cast("list[list[object]]", what.get("left", []))
        kinds["the name server was asked"] += [*("udp", RESOLVER), 53] in left
        kinds["a proxy was asked"] += bool(what.get("asked"))
        kinds["silent"] += not what.get("left") and not what.get("asked")
        kinds["nobody can connect"] += len(what.get("listens", [])) == 2  # type: ignore[arg-type]
        kinds["prunes by itself"] += "prune_target_size" in str(what.get("rpc"))
    print(dict(kinds))
    assert not wrong, f"{len(wrong)} of {len(files)} files:\n" + "\n".join(wrong[:20])
    return kinds


def generated() -> list[File]:
    """The files that test_generated_files gives to the model; a fourth on an archive node."""
    return [
        File(case, ARCHIVE if index % 4 == 3 else {})
        for index, case in enumerate(generate(COUNT, SEED))
    ]


def chosen(count: int) -> list[File]:
    """So many of them, and among these each wish with a slip and without one."""
    wanted = {(wish, slipped) for wish in PRIVATE + INBOUND + KEEP for slipped in (False, True)}
    picked: list[File] = []
    others: list[File] = []
    for file in sorted(generated(), key=lambda file: -len(set(file.case.wishes))):
        here = {(wish, file.case.mangled) for wish in file.case.wishes} & wanted
        wanted -= here
        (picked if here else others).append(file)
    assert not wanted
    return (picked + random.Random(SEED).sample(others, count))[:count]


def test_daemon_in_a_cage(bitcoind: Path) -> None:
    """Nothing listens, leaves, prunes or runs that should not; with each kind of wish."""
    kinds = check(SHAPES + chosen(26), bitcoind)
    # the cage would have seen it
    assert min(kinds.values()) >= 3


@pytest.mark.long
@pytest.mark.parametrize("tenth", range(10))
def test_daemon_in_a_cage_at_length(bitcoind: Path, tenth: int) -> None:
    """All files that the model has judged."""
    kinds = check(generated()[tenth::10], bitcoind)
    # the cage would have seen it; a proxy is asked in one file of twenty
    assert min(kinds.values()) >= COUNT / 10 / 60

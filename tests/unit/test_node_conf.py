"""node.conf fails safe: what each kind of line leads to, good, mistyped, lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.unit.test_node_config import KEY, SHELLS, Node

TABLE = [
    line.split("\t")
    for line in (ROOT / "overlay/usr/share/cairn/options.tsv").read_text().splitlines()
    if not line.startswith("#")
]
CLOSED = ["networkactive=0", "listen=0", "listenonion=0", "natpmp=0", "i2pacceptincoming=0"]
DIRECTORY = {"main": "", "test": "/testnet3", "signet": "/signet"}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """The shells that run it."""
    return str(request.param)


@pytest.fixture
def node(tmp_path: Path, root: Path) -> Node:
    """A node whose bitcoind knows all options of the table, ZeroMQ too."""
    names = "".join(f"  -{row[0]}=<x>\\n" for row in TABLE)
    program = tmp_path / "bitcoind"
    program.write_text(f"#!/bin/sh\nprintf '{names}'\n")
    program.chmod(0o755)
    (tmp_path / "var/lib/cairn").mkdir(parents=True)
    return Node(tmp_path, root / "overlay/usr/bin/node-config", program)


def closed(node: Node) -> bool:
    """Whether bitcoind starts without network: nothing else may say otherwise."""
    lines = node.read("run/bitcoind/bitcoin.conf").splitlines()
    off = "networkactive=0" in lines
    if off:
        assert not [line for line in lines if line.startswith(("bind=", "whitebind=", "listen=1"))]
        assert [line for line in lines if "networkactive" in line] == ["networkactive=0"]
    return off


# -- the table -----------------------------------------------------------------------
def test_table_lists_every_option(bitcoind: Path, tmp_path: Path) -> None:
    """An option that a new version of Core brings has to be judged first."""
    command = [str(bitcoind), f"-datadir={tmp_path}", "-help-debug"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = {
        line[3:].split("=")[0].split(" ")[0]
        for line in text.splitlines()
        if line.startswith("  -") and line[3] != " "
    }
    assert len(names) > 150
    assert names <= {row[0] for row in TABLE}


def test_table_is_well_formed() -> None:
    """Six columns, no name twice."""
    assert {len(row) for row in TABLE} == {6}
    assert len({row[0] for row in TABLE}) == len(TABLE)
    assert all(int(row[2]) < int(row[3]) for row in TABLE if row[1] == "int")


def test_debug_categories(bitcoind: Path, tmp_path: Path) -> None:
    """Core refuses a category that it does not know; the table has the same."""
    command = [str(bitcoind), f"-datadir={tmp_path}", "-help-debug"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = " ".join(text.split())
    listed = text.split("Other valid values for <category> are: ")[1].split(". This option")[0]
    row = next(row for row in TABLE if row[0] == "debug")
    words = {word.strip() for word in listed.split(",")}
    assert words < {*row[2].split("|"), "ipc"}
    assert set(row[2].split("|")) - words <= {"0", "1", "all", "none", "qt", "ipc", "zmq"}


# -- which chain -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "chain"),
    [
        ("", "main"),
        ("signet=1", "signet"),
        ("signet=true", "signet"),
        ("signet=0", "main"),
        ("signet=false", "main"),
        ("testnet=1", "test"),
        ("testnet4=1", "testnet4"),
        ("regtest=1", "regtest"),
        ("noregtest=1", "main"),
        ("chain=main", "main"),
        ("chain = signet # x", "signet"),
        ("chain=test", "test"),
    ],
)
def test_chain(node: Node, shell: str, text: str, chain: str) -> None:
    """Every way to write it ends as one record and as chain= for bitcoind."""
    assert node.run(f"# x\n{text}\n", shell) == ""
    assert node.records("chain") == [chain]
    assert node.records("chain-directory") == [DIRECTORY.get(chain, f"/{chain}")]
    assert node.options() == ([] if chain == "main" else [f"chain={chain}"])


@pytest.mark.parametrize(
    ("records", "chain", "folder"),
    [("", "main", ""), ("chain test\nchain-directory /testnet3\n", "test", "/testnet3")],
)
def test_chain_for_scripts(
    tmp_path: Path, shell: str, records: str, chain: str, folder: str
) -> None:
    """node-tune, cairn-convert and the verdict ask these two functions."""
    (tmp_path / "run/cairn").mkdir(parents=True)
    if records:
        (tmp_path / "run/cairn/node-conf.records").write_text(records)
    library = ROOT / "overlay/usr/lib/cairn/database-engine.sh"
    script = f'. {library}; echo "$(node_chain {tmp_path})+$(database_chain {tmp_path})"'
    said = subprocess.run([*shell.split(), "-c", script], check=True, capture_output=True)
    assert said.stdout.decode().strip() == f"{chain}+{folder}"


@pytest.mark.parametrize(
    "text", ["chain=sigent", "signet=yes", "[main]\nsignet=1", "signet=1\nregtest=1"]
)
def test_chain_in_doubt(node: Node, shell: str, text: str) -> None:
    """On a chain that was not meant the node goes nowhere."""
    assert "The network is off: line" in node.run(text, shell)
    assert closed(node)


# -- how lines are read --------------------------------------------------------------------
@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfprune=700\nhostname=attic\n",
        b"# x\rprune=700\rhostname=attic\r",
        b"prune=700\r\nhostname=attic\r\n",
        b"\tprune\t=\t0700 # MiB\n\n hostname = attic",
    ],
)
def test_line_ends_and_blanks(node: Node, shell: str, data: bytes) -> None:
    """What editors leave in a file does not change what it says."""
    assert node.run(data, shell) == ""
    assert node.options() == ["prune=700"]
    assert node.read("run/cairn/hostname") == "attic\n"


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("reindex=1", "reindex=1\n"),
        ("reindex=0", ""),
        ("noreindex=1", ""),
        ("reindex=0\n[main]\nreindex=1", "reindex=1\n"),
        ("[main]\nreindex=1", "reindex=1\n"),
        ("reindex=1\n[main]\nreindex=0", ""),
        ("[regtest]\nreindex=1", ""),
        ("[regtest\nreindex=1", ""),
        ("[mainnet]\nreindex=1", ""),
        ("reindex=true", ""),
        ("reindex=2", ""),
        ("noreindex=0", ""),
        ("reindex-chainstate=1", ""),
        ("prune=600\nreindex-chainstate=1", ""),
        ("prune=0\nreindex-chainstate=1", "reindex-chainstate=1\n"),
        ("reindex-chainstate=1\n[main]\nprune=0", "reindex-chainstate=1\n"),
        ("prune=0\nreindex=1\nreindex-chainstate=1", "reindex=1\n"),
    ],
)
def test_reindex(node: Node, text: str, once: str) -> None:
    """Nothing is wiped unless it is asked for on this chain, in so many words."""
    node.run(text)
    assert node.read("run/bitcoind/once.conf") == once
    assert not [line for line in node.options() if "reindex" in line]


def test_reindex_chainstate_once(node: Node, shell: str) -> None:
    """It is carried out once; the marker of one is not the other's."""
    text = "prune=0\nreindex-chainstate=1\n"
    node.run(text, shell)
    started = ROOT / "overlay/usr/lib/cairn/cairn-bitcoind-started"
    command = [*shell.split(), str(started), "--root", str(node.path)]
    subprocess.run(command, check=True)
    assert "reindex-chainstate=1 was carried out already" in node.run(text, shell)
    assert node.read("run/bitcoind/once.conf") == ""
    node.run("prune=0\nreindex=1\n", shell)
    assert node.read("run/bitcoind/once.conf") == "reindex=1\n"


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("# none\n", True),
        # a file with a mistake elsewhere is a file without reindex=1 all the same
        ("maxconection=40\n", True),
        ("dbcache=abc\n", True),
        ("[tset]\nprune=600\n", True),
        # its line may be there, in some form
        ("reindxe=1\n", False),
        ("reindex\n", False),
        ("reindex=yes please\n", False),
        ("-reindex=1\n", False),
        ("# reindex=1\nmain.reindex=1\n", False),
        ("noreindex=0\n", False),
        ("reindex-chianstate=1\n", False),
        ("Re-Index=1\n", False),
        ("dbcache=400reindex=1\n", False),
        ("[tset]\nreindex=1\n", False),
        ("prune=600\0reindex=1\n", False),
        ("\u00e9reindex=1\n", False),
        ("x=1\n" * 101, False),
        ("", False),
    ],
)
def test_reindex_may_be_asked_for_again(node: Node, shell: str, text: str, again: bool) -> None:
    """After its line was taken out of a file that need not be good in all else."""
    marker = node.path / "var/lib/cairn/reindex-done.main"
    marker.write_text("reindex\n")
    node.run(text, shell)
    assert marker.exists() is not again


@pytest.mark.parametrize("awk", ["awk", "busybox awk"])
@pytest.mark.parametrize("reason", ["", "cut", "absent", "ignored"])
def test_reindex_of_a_file_in_doubt(tmp_path: Path, awk: str, reason: str) -> None:
    """A file that is not there as a whole may have lost the line."""
    file = tmp_path / "node.conf"
    file.write_text("dbcache=400\n")
    library = ROOT / "overlay/usr/lib/cairn"
    command = [*awk.split(), "-v", f"table={ROOT / 'overlay/usr/share/cairn/options.tsv'}"]
    conf = ("node-conf-values", "node-conf-rejected", "node-conf-end", "node-conf")
    for name in ("chain-ports", *conf):
        command += ["-f", str(library / f"{name}.awk")]
    if reason:
        command += ["-v", f"{reason}={file}"]
    records = subprocess.run([*command, file], check=True, capture_output=True, text=True).stdout
    assert ("without-once 1\n" in records) is (reason == "")


def test_lost_file_does_not_wipe_again(node: Node, shell: str) -> None:
    """The file with reindex=1, carried out long ago, comes back with the boot partition."""
    marker = node.path / "var/lib/cairn/reindex-done"
    marker.write_text("reindex\n")
    for data in (None, b"", b"reindxe=1\n", b"reindex=1\n\0", b"reindex=1\n"):
        (node.path / "boot/node.conf").unlink(missing_ok=True)
        node.run(data, shell)
        assert node.read("run/bitcoind/once.conf") == "", data
    node.run("# taken out\n", shell)
    assert not marker.exists()


REFUSED = [
    ("noprune=0", "negated option takes 1 only"),
    ("noreindex=0", "negated option takes 1 only"),
    ("nodebug=0", "negated option takes 1 only"),
    ("wallet=/home/me/w.dat", "wallet folder"),
    ("wallet=../w", "wallet folder"),
    ("wallet=a/../../w", "wallet folder"),
    ("help=1", "print a text and end"),
    ("help-debug=1", "print a text and end"),
    ("version=1", "print a text and end"),
    ("maxsigcachesize=100000", "from 0 to 1024"),
    ("mocktime=-1", "from 0 to"),
    ("prune=-1", "from 0 to"),
    ("prune=-0", "from 0 to"),
    ("prune=6e2", "from 0 to"),
    ("limitclustercount=65", "from 1 to 64"),
    ("blockmaxweight=4000001", "to 4000000"),
    ("blockreservedweight=100", "from 2000"),
    ("peertimeout=0", "from 1"),
    ("dbmapsize=0", "from 1"),
    ("minrelaytxfee=cheap", "amount of bitcoin"),
    ("maxuploadtarget=abc", "takes a number"),
    ("uacomment=a/b", "takes one of"),
    ("debug=everything", "takes one of"),
    ("loglevel=loud", "takes one of"),
    ("dbbackend=rocksdb", "takes one of"),
    ("addresstype=taproot", "takes one of"),
    ("rpcauth=me", "USER:SALT"),
    ("assumevalid=" + "f" * 65, "at most 64"),
    ("acceptnonstdtxn=1", "is for test chains"),
    ("peerblockfilters=1", "needs blockfilterindex=1"),
    ("test=addrman", "Core's own tests"),
    ("stopafterblockimport=1", "would end"),
    ("loadblock=/dev/zero", "takes a file below"),
    ("loadblock=/boot/../dev/mmcblk0", "takes a file below"),
    ("loadblock=blk.dat", "takes a file below"),
    ("ip=127.0.0.1/8", "address of this machine"),
    ("ip=224.0.0.5/24", "address of this machine"),
    ("ip=0.0.0.0/24", "address of this machine"),
    ("ip=192.168.1.0/24", "address of this machine"),
    ("ip=192.168.1.255/24", "address of this machine"),
    ("ip=192.168.1.5/1", "address of this machine"),
    ("ip=192.168.1.5/32", "address of this machine"),
    ("ip=192.168.1.05/24", "address of this machine"),
    ("ip=::1/64", "address of this machine"),
    ("ip=ff02::1/64", "address of this machine"),
    ("ip=fd00::5/8", "address of this machine"),
    ("gateway=224.0.0.1", "not an IP address of a machine"),
    ("zmqpubrawblock=tcp://0.0.0.0:28332", "stays on loopback"),
    ("zmqpubrawblock=tcp://192.168.1.5:28332", "stays on loopback"),
    ("zmqpubrawblock=tcp://*:28332", "stays on loopback"),
    ("zmqpubrawblock=ipc:///tmp/x", "stays on loopback"),
    ("zmqpubrawblock=tcp://127.0.0.1:0", "stays on loopback"),
    ("zmqpubrawblock=tcp://127.0.0.1:8332", "this node's port for RPC"),
    ("zmqpubrawblock=tcp://[::1]:8333", "this node's port for other nodes"),
    ("rpcbind=127.0.0.1:9999", "RPC stays on loopback"),
    ("rpcallowip=127.0.0.0/7", "RPC stays on loopback"),
    ("server=0", "rely on Cairn's value"),
    ("daemon=1", "the service sets it"),
    ("asmap=ip_asn.map", "takes 0 or 1"),
]


@pytest.mark.parametrize(("line", "words"), REFUSED, ids=[line[:40] for line, _ in REFUSED])
def test_refused(node: Node, line: str, words: str) -> None:
    """Values that would end bitcoind or open something; they are not about privacy."""
    report = node.run(f"maxconnections=7\n{line}\n")
    assert report.startswith('node.conf line 2: "')
    assert words in report
    assert len(report.splitlines()) == 1
    assert node.options() == ["maxconnections=7"]
    assert not (node.path / "run/systemd/network/10-node-conf.network").exists()


def test_secrets_are_not_shown(node: Node, shell: str) -> None:
    """The screen hangs on a wall."""
    report = node.run("rpcpassword=hunter2\nrpcauth=me:hunter3\nrpcuser=bob\n", shell)
    assert len(report.splitlines()) == 3
    assert "hunter" not in report
    assert "bob" not in report


PRIVATE_KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACDhidden0hidden1hidden2hidden3hidden4hidden5AAAAKDhidden6hi
AAAEhidden7==
-----END OPENSSH PRIVATE KEY-----
"""
PUTTY_KEY = """PuTTY-User-Key-File-3: ssh-ed25519
Private-Lines: 1
Rhidden8hidden9
Private-MAC: hidden10
"""


@pytest.mark.parametrize("before", ["", "sshkey=", "walletkey = "])
@pytest.mark.parametrize("key", [PRIVATE_KEY, PUTTY_KEY, PRIVATE_KEY.replace("\n", " ") + "\n"])
def test_private_key_is_not_shown(node: Node, shell: str, before: str, key: str) -> None:
    """It was pasted in place of the .pub file; what stands below it counts."""
    report = node.run(f"{before}{key}hostname=attic\nprunee=hidden\n", shell)
    assert "This is a private key. Take it off the card and make a new pair;" in report
    assert report.count("hidden") == 1
    assert '"prunee=hidden": bitcoind has no option' in report
    assert "b3Bl" not in report
    assert node.read("run/cairn/hostname") == "attic\n"
    # without its first or its last line, and its text alone
    for text in (key.partition("\n")[2], key.rpartition("-----END")[0] or key):
        report = node.run(f"{before}{text}\nprunee=shown\n", shell)
        assert "hidden0" not in report
        assert "shown" in report


@pytest.mark.parametrize(
    "line",
    [
        "rpcpassword: hunter2",
        "rpcpasword=hunter2",
        "main.rpcpassword=hunter2",
        "RPCPASSWORD hunter2",
        "wifipassword = hunter2",
        "hostname=a rpcpassword=hunter2",
        "wpa_psk=hunter2",
        "[pass hunter2]",
        "rpcauht=me:hunter2",
        "rpcauth me:hunter2",
        "-rpcauth=me:hunter2",
        "rpcusr hunter2",
        "updateurl=https://me:hunter2@example.org/",
        "[moon]\ntorpassword=hunter2",
    ],
)
def test_what_may_be_a_password_is_not_shown(node: Node, line: str) -> None:
    """Also where the name has a slip, or stands in front of something else than '='."""
    report = node.run(f"{line}\n")
    assert "node.conf line" in report
    assert "..." in report
    assert "hunter" not in report


def test_a_thousand_bad_lines(node: Node, shell: str) -> None:
    """A wrong file does not keep the node from starting, or fill its screen."""
    report = node.run("".join(f"x{i}y=q\n" for i in range(8000)), shell)
    assert len(report.splitlines()) < 110
    assert "is it the right file?" in report
    assert closed(node)


# -- a mistyped privacy line ------------------------------------------------------------------
MISTYPED = [
    "onlynet=tor",
    "onlynet=ipv4,onion",
    "only net=onion",
    "onlynets=onion",
    "onlynet onion",
    "onlynet",
    "Onlynet=onion",
    "proxyy=127.0.0.1:9050",
    "prxoy=127.0.0.1:9050",
    "Proxy=127.0.0.1:9050",
    "PROXY=127.0.0.1:9050",
    "-proxy=127.0.0.1:9050",
    "--proxy=127.0.0.1:9050",
    'proxy="127.0.0.1:9050"',
    '"proxy=127.0.0.1:9050"',
    "'proxy'=127.0.0.1:9050",
    "proxy=",
    "proxy=#127.0.0.1:9050",
    "proxy:127.0.0.1:9050",
    "proxy 127.0.0.1:9050",
    "proxy=127.0.0.1:99050",
    "proxy=127.0.0.1:0",
    "proxy=192.168.1.600:9050",
    "proxy=9050",
    "proxy=socks5://127.0.0.1:9050",
    "proxy=127.0.0.1:9050=tor",
    "proxy=127.0.0.1:9050=",
    "noproxy=0",
    "proxy=127.0.0.1:9050\nnoproxy=1",
    "proxy=127.0.0.1:9050\nproxy=0",
    "proxy=127.0.0.1:9050\n[main]\nproxy=192.168.1.5:9050",
    "torproxy=127.0.0.1:9050",
    "socks=127.0.0.1:9050",
    "tor=127.0.0.1:9050",
    "main.proxy=127.0.0.1:9050",
    "[mainnet]\nproxy=127.0.0.1:9050",
    "[Main]\nproxy=127.0.0.1:9050",
    "[main\nproxy=127.0.0.1:9050",
    "[ main ]\nproxy=127.0.0.1:9050",
    "[testnet]\nproxy=127.0.0.1:9050",
    "[proxy=127.0.0.1:9050]",
    "[main] proxy=127.0.0.1:9050",
    ";proxy=127.0.0.1:9050",
    "export proxy=127.0.0.1:9050",
    "pro\u200bxy=127.0.0.1:9050",
    "\u0440roxy=127.0.0.1:9050",
    "\uff50\uff52\uff4f\uff58\uff59=127.0.0.1:9050",
    "\u00a0proxy=127.0.0.1:9050",
    "x=1\n\ufeffproxy=127.0.0.1:9050",
    "proxy\f=127.0.0.1:9050",
    "proxy=127.0.0.1:9050\f",
    "proxy=" + " " * 5000 + "127.0.0.1:9050",
    "onion=",
    "onion=9050",
    "onion=127.0.0.1:9050\nonion=127.0.0.1:9051",
    "onions=127.0.0.1:9050",
    "noion=127.0.0.1:9050",
    "onlynet=onion\nlistenonion=1\nlisten=no\nbind=1",
    "onlynet=onion",
    "onlynet=onion\nonion=0",
    "onlynet=onion\nproxy=127.0.0.1:9050=ipv4",
    "onlynet=onion\nproxy=127.0.0.1:9050\n[main]\nonlynet=ipv4",
    "onlynet=onion\nproxy=127.0.0.1:9050\nnoonlynet=1",
    "onlynet=i2p",
    "onlynet=cjdns",
    "i2psam=",
    "i2psam=127.0.0.1:99999",
    "i2p=127.0.0.1:7656",
    "connect=",
    "Connect=192.168.1.5",
    "conect=192.168.1.5",
    "connect=192.168.1.5 192.168.1.6",
    "signet=1\nconnect=192.168.1.5",
    "connect=192.168.1.5\nnoconnect=1",
    "networkactive=off",
    "networkactive=no",
    "networkactive",
    "network active=0",
    "network-active=0",
    "networkactive=0\nnetworkactive=1",
    "dnsseed=no",
    "dnsseeds=0",
    "dnseed=0",
    "nodnsseed=0",
    "dnsseed=0\n[main]\ndnsseed=off",
    "dns=no",
    "fixedseeds=off",
    "proxyrandomize=yes",
    "privatebroadcast=yes",
    "walletbroadcast=no",
    # what another file says is not known
    "includeconf=private.conf",
    "conf=/boot/bitcoin.conf",
    "settings=/boot/settings.json",
    "datadir=/boot/bitcoin",
    "nosettings=1",
    "[test]\nincludeconf=private.conf",
    # in the value, where a line end was lost
    "dbcache=300 proxy=127.0.0.1:9050",
    "server=1 proxy=127.0.0.1:9051",
    "addnode=192.0.2.7 onlynet=onion",
    "hostname=node onlynet=ipv4",
    "prune=550;proxy=127.0.0.1:9051",
    "daemon=1 -proxy=127.0.0.1:9051",
    "daemon=1 noconnect=1",
    "net=onion",
    "=127.0.0.1:9050",
    "192.168.1.60:9050",
    "rest=127.0.0.1:9150",
    "rest=abc.onion",
    "dbcache=300\u2028proxy=127.0.0.1:9051",
    "dbcache=300\u0085proxy=127.0.0.1:9051",
    "dbcache=300\vproxy=127.0.0.1:9051",
    "dbcache=300\u2028prxoy=127.0.0.1:9051",
    "deprecatedrpc=x proxy=127.0.0.1:9051",
    "rpcwhitelist=me:getinfo onlynet=ipv6",
    "wallet=w\u2028dnsseed=0",
    "wallet=proxy=127.0.0.1:9051",
    "torpassword=x noconnect = 1",
    "lang=de proxy=127.0.0.1:9051",
    f"sshkey={KEY} proxy=127.0.0.1:9051",
    # nor does a blank stand there, as where a line was appended to a file without an end of line
    "dbcache=300proxy=127.0.0.1:1080",
    "reindex=1proxy = 127.0.0.1:1080",
    "prune=0\nreindex-chainstate=1proxy=127.0.0.1:1080",
    "prune=550connect=192.0.2.7",
    "listen=1proxy=127.0.0.1:1080",
    "maxconnections=20nodnsseed=1",
    "addnode=192.0.2.7proxy=127.0.0.1:9051",
    "addnode=node.exampleonlynet=ipv4",
    "proxy=192.0.2.7onlynet=onion",
    "wallet=savingsproxy=127.0.0.1:1080",
    "torpassword=secretnetworkactive=0",
    "rpcwhitelist=me:getinfowalletbroadcast=0",
    f"sshkey={KEY}proxy=127.0.0.1:1080",
    "hostname=atticconnect=0",
    "ip=192.168.1.50/24proxy=127.0.0.1:1080",
    # like nothing that is known
    "socksproxi=127.0.0.1:9051",
    "anonymous=1",
    "use tor=1",
    "gateway proxi=1",
    "x",
    # no connections at all
    "maxconnections=O",
    "maxconnections=many",
    "maxconnections=yes",
    "maxconnections=>20",
    'maxconnections="20"',
    "maxconections=0",
    "maxconnections=-1",
    "maxconnections",
    "maxconnections 0",
    "main.maxconnections=none",
    "maxconnections=20\nmaxconnections=0",
]


@pytest.mark.parametrize("text", MISTYPED, ids=[repr(text)[:50] for text in MISTYPED])
def test_mistyped_privacy(node: Node, text: str) -> None:
    """Whatever it was meant to be, the node does not go out, and a sentence says why."""
    report = node.run(f"maxmempool=60\n{text}\n")
    assert closed(node)
    assert report.startswith("The network is off: line ")
    assert "maxmempool=60" in node.options()


@pytest.mark.parametrize(
    "data", [b"proxy=127.0.0.1:9050\n\x00", b"prune=600\n" * 7000, "proxy=x\n".encode("utf-16")]
)
def test_file_ignored_as_a_whole(node: Node, shell: str, data: bytes) -> None:
    """It may have said anything."""
    assert "The network is off until node.conf is corrected." in node.run(data, shell)
    assert closed(node)


INBOUND = [
    "listen=no",
    "listne=0",
    "listen",
    "bind=192.168.1.500",
    "bind=localhost",
    "bind=192.168.1.5\nlisten=0",
    "signet=1\nbind=192.168.1.5",
    "whitebind=192.168.1.5",
    "whitebind=192.168.1.5:1023",
    "bind=0.0.0.0:80",
    "bind=[::]:22",
    "bind=127.0.0.1:8332",
    "discover=no",
    "natpmp=off",
    "externalip=a b",
    "dbcache=300listen=0",
    "addnode=192.0.2.7bind=192.168.1.5",
]


@pytest.mark.parametrize("text", INBOUND, ids=[repr(text)[:50] for text in INBOUND])
def test_mistyped_inbound(node: Node, text: str) -> None:
    """Nobody comes in who may have been meant to stay out; the node itself may go out."""
    report = node.run(f"maxmempool=60\n{text}\n")
    assert report.startswith("Nobody can connect to this node: line ")
    assert not closed(node)
    lines = node.read("run/bitcoind/bitcoin.conf").splitlines()
    assert set(CLOSED[1:]) < set(lines)
    assert not [line for line in lines if line.startswith(("bind=", "whitebind=", "listen=1"))]


OPEN = [
    "prunee=600",
    "maxconnection=40",
    "maxconnections=+40",
    "maxconnections=040x",
    "maxconnections=1e3",
    "port=70000",
    # SSH's and the page's, which are for neighbours only; bitcoind has no right to them
    "port=22",
    "port=80",
    "rpcport=22",
    # of another part of the node
    "rpcport=8333",
    "port=8332",
    "reindex=2",
    "reindex-chainstate=1",  # not about chain=
    "dbcahce=400",
    "hostname=my_node",
    "hostname=localhost",
    "sshkey=x",
    "gateway=1",
    "rest=maybe",
    "addnode=a b",
    "rpcpassword=hunter2",
    "uacomment=a/b",
    "rpcuser=bob",
    "[moon]",
    "upnp=0",
    "paytxfee=1",
    "maxconections=40",
    "maxconnections 40",
    "main.dbcache=300",
    "-dbcache=300",
    "Dbcache=300",
    "dbcache=much # gr\u00f6\u00dfer, wie bei onion",
    "hostnam=attic",
    "ssh-key=x",
    "wallet=my dbcache=300",
    "dbcache=300maxmempool=60",
    "archive=1",
    "pruning=0",
]


@pytest.mark.parametrize("text", OPEN)
def test_other_mistakes_leave_the_network(node: Node, text: str) -> None:
    """A slip that has nothing to do with privacy does not take the node off the network."""
    report = node.run(f"{text}\n")
    assert report.startswith("node.conf line 1: ")
    assert node.records("network") == ["on"]
    assert not closed(node)


#: Lines, and those that bitcoind gets: what has another's port is left out.
PORTS = {
    "port=9000\nrpcport=9000": ["port=9000"],
    "rpcport=9000\nport=9000": ["port=9000"],
    # one way round is as good as the other
    "port=8332\nrpcport=8333": ["port=8332", "rpcport=8333"],
    "port=9000\nrpcport=8333": ["port=9000", "rpcport=8333"],
    "rpcport=9000\nzmqpubrawtx=tcp://127.0.0.1:9000": ["rpcport=9000"],
    # several topics share an address
    "zmqpubrawtx=tcp://127.0.0.1:28332\nzmqpubhashtx=tcp://127.0.0.1:28332": [
        "zmqpubrawtx=tcp://127.0.0.1:28332",
        "zmqpubhashtx=tcp://127.0.0.1:28332",
    ],
    # RPC is on loopback only
    "bind=192.168.1.50:8332": ["bind=192.168.1.50:8332"],
    "whitebind=0.0.0.0:8334": ["whitebind=0.0.0.0:8334"],
    "port=8444\nbind=127.0.0.1:8444": ["port=8444", "bind=127.0.0.1:8444"],
    "tor=1\nrpcport=9050": ["proxy=127.0.0.1:9050"],
    "tor=1\nzmqpubrawtx=tcp://127.0.0.1:8334": ["proxy=127.0.0.1:9050"],
    "rpcport=9050": ["rpcport=9050"],
    "regtest=1\n[regtest]\nrpcport=18444": [],
    "regtest=1\n[regtest]\nrpcport=8333": ["rpcport=8333"],
}


@pytest.mark.parametrize("text", PORTS, ids=lambda text: text.replace("\n", " "))
def test_a_port_has_one_user(node: Node, text: str) -> None:
    """bitcoind would end otherwise; nobody comes in or goes out for it who did not before."""
    expected = PORTS[text]
    report = node.run(f"{text}\n")
    own = ("listen=1", "listenonion=1", "torcontrol=", "bind=127.0.0.1:8334=onion", "chain=", "[")
    assert [line for line in node.options() if not line.startswith(own)] == expected
    asked = [line for line in text.split("\n") if not line.startswith(("[", "tor=", "regtest="))]
    left_out = len(asked) - len([line for line in asked if line in expected])
    assert report.count("is this node's port for") == left_out == len(report.splitlines())
    assert node.records("network") == ["on"]


#: Lines, and the words of the one sentence about them
WALLETS = {
    "walletshow=1": "Line 1 of node.conf, walletshow=1, shows nothing",
    "walletshow=true": "Line 1 of node.conf, walletshow=1, shows nothing",
    "walletshow=0": "",
    "walletshow=1\nwalletaccess=rpc": "",
    f"walletshow=1\nwalletkey={KEY}": "",
    "walletaccess=rpc\ndisablewallet=1": "Line 2 of node.conf, disablewallet=1, leaves bitcoind",
    "walletaccess=rpc\n[main]\ndisablewallet=1": "Line 3 of node.conf, disablewallet=1, leaves",
    f"disablewallet=1\nwalletkey={KEY}": "Line 1 of node.conf, disablewallet=1, leaves bitcoind",
    "walletaccess=rpc\ndisablewallet=0": "",
    "walletaccess=rpc\n[signet]\ndisablewallet=1": "",
    "disablewallet=1": "",
}


@pytest.mark.parametrize("text", WALLETS, ids=lambda text: text.replace("\n", " ")[:60])
def test_wallet_lines_that_come_to_nothing(node: Node, text: str) -> None:
    """They are good lines, which stay in force; a sentence says what they lack."""
    report = node.run(f"{text}\n")
    assert report.startswith(WALLETS[text])
    assert len(report.splitlines()) == (1 if WALLETS[text] else 0)
    assert node.records("good") == ["1"]
    assert not closed(node)


#: Good lines, one that cannot be used, and the record that is withdrawn for it
ERASE, RPCAUTH = "datadisk=S6XNNS0T1\nerase=S6XNNS0T1", "rpcauth=me:0a1b$2c3d"
WITHDRAWN = [
    *((ERASE, line, "erase") for line in ("erase=no", "noerase=1", "erase", "[main]\nerase=0")),
    *((ERASE, line, "erase") for line in ("eraes=0", "main.erase=0", "er\u0430se=no")),
    *((ERASE, line, "erase") for line in ("hostname=a erase=no", "x=1\n" * 101)),
    *(("walletshow=1", line, "walletshow") for line in ("walletshow=0", "walletshow no")),
    *(("walletshow=1", line, "walletshow") for line in ("nowalletshow=1", "WalletShow=0")),
    *(("walletaccess=tor", line, "walletaccess") for line in ("walletaccess=0", "walletacess=no")),
    *((f"walletkey={KEY}", line, "walletkey") for line in ("walletkey=0", "nowalletkey=1")),
    (f"walletkey={KEY}", "walletkeys: none", "walletkey"),
    *((f"sshkey={KEY}", line, "sshkey") for line in ("sshkey=no", "nosshkey", "main.sshkey=0")),
    *(("reindex=1", line, "once") for line in ("reindex=0", "noreindex=1", "main.reindex=0")),
    *((RPCAUTH, line, "option") for line in ("rpcwhitelst=me:getblockcount", "rpcwhitelist me:x")),
    *((RPCAUTH, line, "option") for line in ("RpcWhitelist=me:x", "[moon]\nrpcwhitelist=me:x")),
    *((RPCAUTH, line, "option") for line in ("rpcwhitelistdefault=yes", "rpcwhitelist=")),
]


@pytest.mark.parametrize(("good", "bad", "record"), WITHDRAWN, ids=lambda text: repr(text)[:40])
def test_a_line_that_says_no(node: Node, good: str, bad: str, record: str) -> None:
    """What it may have been meant to forbid or to limit is not carried out, in either order."""
    what = {"option": "rpcauth", "once": "reindex"}.get(record, record)
    said = {
        "erase": "No disk is erased: line",
        "walletshow": "The screen shows no password for wallets: line",
        "reindex": "The chain is not rebuilt: line",
        "walletaccess": "No wallet is let in by walletaccess=: line",
        "walletkey": "No wallet is let in by walletkey=: line",
    }.get(what, f"Nobody can log in with {what}=: line")
    assert said not in node.run(f"{good}\n")
    assert [line for line in node.records(record) if what != "rpcauth" or "rpcauth" in line]
    report = node.run(f"{good}\n{bad}\n")
    assert said in report
    if what == "rpcauth":
        assert "may have been meant to limit that." in report
    assert not [line for line in node.records(record) if what != "rpcauth" or "rpcauth" in line]
    if what == "walletkey":
        assert node.records("walletaccess") == []
    assert "rpcauth" not in node.read("run/bitcoind/bitcoin.conf")


def test_what_withdraws_nothing(node: Node, shell: str) -> None:
    """One bad key among good ones, the same said twice, and a slip somewhere else."""
    good = f"{ERASE}\nwalletshow=1\nwalletaccess=rpc\nwalletkey={KEY}\nsshkey={KEY}\nreindex=1\n"
    good += f"rpcwhitelist=me:getblockcount\n{RPCAUTH}\n"
    assert "S6XNNS0T1" not in node.run(f"{good}erase=S6XNNS0T1\nwalletshow=1\n", shell)
    for bad in ("", "sshkey=x\nwalletkey=ssh-dss AAAA\nwalletkey=\ndbcahce=300\nreindex=yes\n"):
        report = node.run(good + bad, shell)
        assert "may have been meant" not in report
        assert node.records("erase") == ["S6XNNS0T1"]
        assert node.records("walletaccess") == ["rpc", "ssh"]
        assert node.records("walletkey") == node.records("sshkey") == [KEY]
        assert node.records("walletshow") == ["1"]
        assert node.records("once") == ["reindex"]
        assert RPCAUTH in node.options()


@pytest.mark.parametrize("value", ["rpc,tor", "tor, rpc", "rpc tor"])
def test_two_ways_in_one_line(node: Node, shell: str, value: str) -> None:
    """The sentence says how to write it."""
    report = node.run(f"walletaccess={value}\n", shell)
    assert "write two lines, walletaccess=rpc and walletaccess=tor; the line is ignored." in report
    assert node.records("walletaccess") == []


@pytest.mark.parametrize(
    ("text", "off"),
    [
        *((f"walletaccess={value}", False) for value in ("rpc,tor", "Tor", "rpc tor", "onion")),
        *(
            (line, False)
            for line in ("walletacces=tor", "walletaccess: tor", "[main]\nwalletaccess=tor")
        ),
        *((f"walletaccess={value}", True) for value in ("tor=1", "tor proxy=1", "rpc\u2028tor")),
        *((line, True) for line in ("access=tor", "walletaccess=tor\ntor=yes")),
    ],
)
def test_tor_for_a_wallet_only(node: Node, text: str, off: bool) -> None:
    """A slip near walletaccess=tor lets nobody in; Bitcoin's connections are not meant."""
    assert "; the line is ignored." in node.run(f"walletkey=x\n{text}\n")
    assert closed(node) is off
    if "\ntor" not in text:
        assert node.records("walletaccess") == []


@pytest.mark.parametrize("ip", ["ip=192.168.1.50", "IP=192.168.1.50/24", "ip 192.168.1.50/24"])
def test_lines_that_need_a_good_ip(node: Node, shell: str, ip: str) -> None:
    """What is wrong with the others is the line of ip=; the node asks its router instead."""
    report = node.run(f"dns=9.9.9.9\n{ip}\ngateway=192.168.1.1\n", shell).splitlines()
    assert len(report) == 3
    for line in (report[0], report[2]):
        assert line.endswith(
            ": ip= in line 2 cannot be used, so this line is not either; the line is ignored."
        )
    assert not closed(node)
    assert node.records("good") == []
    assert not (node.path / "run/systemd/network/10-node-conf.network").exists()
    # one that is wrong itself may be a slip near dns=0
    node.run(f"{ip}\ndns=no\n", shell)
    assert closed(node)


@pytest.mark.parametrize("line", ["natpmp=1", "listenonion=1", "i2pacceptincoming=1"])
@pytest.mark.parametrize("off", ["networkactive=0", "[main]\nnetworkactive=0"])
def test_nobody_is_asked_without_network(node: Node, shell: str, line: str, off: str) -> None:
    """Core asks the router, Tor and I2P for a way in even so."""
    report = node.run(f"listen=1\ni2psam=192.168.1.60:7656\n{line}\n{off}\n", shell)
    assert "and networkactive=0 forbids that; the line is ignored." in report
    lines = node.read("run/bitcoind/bitcoin.conf").splitlines()
    assert line not in lines
    assert "i2pacceptincoming=0" in lines
    assert "networkactive=0" in lines


def test_i2p_is_asked_for_peers_only_with_network(node: Node, shell: str) -> None:
    """i2pacceptincoming=1 is Core's default."""
    i2p = "i2psam=192.168.1.60:7656"
    assert node.run(f"{i2p}\n", shell) == ""
    assert node.options() == [i2p]
    assert node.run(f"networkactive=0\n{i2p}\n[signet]\nport=9000\n", shell) == ""
    assert node.options() == ["i2pacceptincoming=0", "networkactive=0", i2p]


GOOD = [
    ("proxy=192.168.1.60:9050", ["proxy=192.168.1.60:9050"]),
    ("proxy=tor.lan:9050", ["proxy=tor.lan:9050"]),
    ("proxy=[fd00::5]:9050", ["proxy=[fd00::5]:9050"]),
    ("proxy=unix:/run/tor/socks", ["proxy=unix:/run/tor/socks"]),
    ("proxy=127.0.0.1:9050=IPv4", ["proxy=127.0.0.1:9050=ipv4"]),
    ("proxy=0", ["noproxy=1"]),
    ("proxy=127.0.0.1:9050\nonlynet=Onion", ["proxy=127.0.0.1:9050", "onlynet=onion"]),
    ("networkactive=0", ["networkactive=0"]),
    ("networkactive=false", ["networkactive=0"]),
    ("nonetworkactive=1", ["networkactive=0"]),
    ("connect=0", ["noconnect=1"]),
    ("signet=1\nnoconnect=1", ["chain=signet", "noconnect=1"]),
    ("dnsseed=0", ["dnsseed=0"]),
    ("dns=0", ["dns=0"]),
    ("[test]\nproxy=127.0.0.1:9050\n[main]\nproxy=127.0.0.1:9050", None),
    ("proxy=127.0.0.1:9050\n[signet]\nproxy=127.0.0.1:9051", None),
]


@pytest.mark.parametrize(("text", "options"), GOOD, ids=[text[:40] for text, _ in GOOD])
def test_good_privacy(node: Node, text: str, options: list[str] | None) -> None:
    """Good lines pass, without a sentence, as bitcoind has to read them."""
    assert node.run(f"{text}\n") == ""
    assert options is None or node.options() == options


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("chain=signet\n[main]\nproxy=127.0.0.1:9050", "proxy=127.0.0.1:9050, counts on main only"),
        ("[test]\nproxy=127.0.0.1:9050\nproxy=127.0.0.1:9051", "counts on test only"),
        ("[signet]\nnoconnect=1", "noconnect=1, counts on signet only"),
    ],
)
def test_privacy_of_another_chain(node: Node, shell: str, text: str, words: str) -> None:
    """A line that counts elsewhere is good, and the owner hears that it has no effect here."""
    report = node.run(f"{text}\n", shell)
    assert words in report
    assert len(report.splitlines()) == 1
    assert not closed(node)
    assert node.records("good") == ["1"]


def test_lost_file(node: Node, shell: str) -> None:
    """A node that had a proxy stays off the open network until a good file says otherwise."""
    assert node.run("proxy=192.168.1.60:9050\nonlynet=onion\n", shell) == ""
    assert not closed(node)
    (node.path / "boot/node.conf").unlink()
    assert "the last good node.conf had proxy=" in node.run(None, shell)
    assert closed(node)
    for data in (b"", b"\n \r\n", b"hostname=attic\nx\n", b"proxy=192.168.1.60:9050\nx\n"):
        node.run(data, shell)
        assert closed(node), data
        assert set(node.read("var/lib/cairn/private").split()) == {"onlynet", "proxy"}
    assert node.run("proxy=192.168.1.60:9050\n# end\n", shell) == ""
    assert not closed(node)
    assert node.read("var/lib/cairn/private") == "proxy\n"
    assert node.run("# all in the open\n", shell) == ""
    assert not closed(node)
    assert not (node.path / "var/lib/cairn/private").exists()
    (node.path / "boot/node.conf").unlink()
    node.run(None, shell)
    assert not closed(node)


WHOLE = "prune=50000\nhostname=attic\nrpcauth=me:0a1b$2c3d\nproxy=192.168.1.60:9050\n"


@pytest.mark.parametrize("size", [0, 10, 11, 12, 26, 51, 60, len(WHOLE) - 2])
def test_cut_file(node: Node, shell: str, size: int) -> None:
    """What a torn FAT leaves of a file opens nothing, prunes nothing and forgets nothing."""
    marker = node.path / "var/lib/cairn/reindex-done"
    assert node.run(WHOLE, shell) == ""
    last = node.path / "var/lib/cairn/node.conf"
    assert last.read_text() == WHOLE
    assert last.stat().st_mode & 0o777 == 0o600
    marker.write_text("reindex\n")
    assert "looks cut short. The network is off." in node.run(WHOLE[:size], shell)
    assert closed(node)
    assert node.records("good") == []
    assert node.records("prune") == []
    assert node.records("prune-doubt")
    assert not [line for line in node.options() if "prune" in line]
    assert node.read("var/lib/cairn/private") == "proxy\n"
    assert last.read_text() == WHOLE
    assert marker.exists()
    assert node.run(WHOLE, shell) == ""
    assert not closed(node)
    # taken out on purpose
    assert node.run(WHOLE.split("proxy")[0] + "# end\n", shell) == ""
    assert not closed(node)


def test_cut_file_without_privacy(node: Node, shell: str) -> None:
    """It stays on the network; blocks are not deleted or the database rebuilt because of it."""
    node.run("hostname=attic\nreindex=0 \nprune=50000\n", shell)
    assert "looks cut short. Copy" in node.run("hostname=attic\nreindex=0 \nprune=5000", shell)
    assert node.records("network") == ["on"]
    assert node.records("prune-doubt")
    node.run("dbcache=300\nreindex=1\ndbcache=300\n", shell)
    node.run("dbcache=300\nreindex=1\n", shell)
    assert node.records("once") == []
    # on a chain that is not in force now, and with the line ends of old editors
    for text in ("# x\n[signet]\nproxy=127.0.0.1:9050\n", "# x\r[test]\rnoconnect = 1\r"):
        node.run(text, shell)
        node.run(text[:4], shell)
        assert closed(node), text


TAKEN_OFF = ["walletshow=1", "erase=S6XNNS0T123456", "reindex=1", "reindex-chainstate = 1 # x"]
TAKEN_OFF += ["walletaccess=tor", f"walletkey={KEY}", f"sshkey={KEY}", "rpcauth=me:0a1b$2c3d"]
TAKEN_OFF += ["# a comment", "\n \n", f"sshkey={KEY}\n# x\nwalletshow=1\nreindex=1"]
STAYS_CUT = ["page=0", "reindex=0", "noreindex=1", "rpcwhitelist=me:getblockcount", "filters=1"]
STAYS_CUT += ["walletshow=1\nprune=0", "[main]\nreindex=1", "norpcauth=1", "datadisk=system"]


@pytest.mark.parametrize("lines", [*TAKEN_OFF, *STAYS_CUT], ids=lambda text: repr(text)[:40])
def test_lines_taken_off_the_end(node: Node, shell: str, lines: str) -> None:
    """What owners are told to take out again, or what only lets somebody in, may be gone."""
    end = "\r\n" if shell == "dash" else "\n"
    kept = f"tor=1{end}prune=0"
    whole = f"{kept}\n{lines}\n".replace("\r", "").replace("\n", end)
    for rest in (kept, kept + end):
        node.run(whole, shell)
        assert node.records("good") == ["1"]
        report = node.run(rest, shell)
        assert ("looks cut short" in report) is (lines in STAYS_CUT)
        assert closed(node) is (lines in STAYS_CUT)
        if lines in TAKEN_OFF:
            assert report == ""
            assert node.records("prune") == ["0"]
            assert node.records("update") == ["notify"]
            assert node.records("without-once") == ["1"]
    # in the middle of a line
    if lines.strip():
        for size in (len(kept) - 1, len(kept + end) + 1):
            node.run(whole, shell)
            assert "looks cut short" in node.run(whole[:size], shell)
            assert closed(node)


def broken(node: Node, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """From here on, a command does this instead; for dash, which takes it from PATH."""
    folder = node.path / "broken"
    folder.mkdir()
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize("text", ["exit 1", '/usr/bin/tail "$@" | head -n 1; exit 1'])
def test_lines_not_read_again(node: Node, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What is gone from the end is not taken for harmless because it could not be looked at."""
    node.run(WHOLE, "dash")
    broken(node, monkeypatch, "tail", text)
    assert "looks cut short" in node.run(WHOLE.split("hostname", maxsplit=1)[0], "dash")
    assert closed(node)


@pytest.mark.parametrize("name", ["sort", "paste", "tr"])
def test_memory_loses_no_name(node: Node, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file with a bad line takes nothing from what is remembered, also where a command fails."""
    node.run("proxy=192.168.1.60:9050\nonlynet=onion\n", "dash")
    text = 'case $* in -d*) exec /usr/bin/tr "$@" ;; esac; exit 1'
    broken(node, monkeypatch, name, text)
    node.run("proxy=192.168.1.60:9050\nx\n", "dash")
    assert set(node.read("var/lib/cairn/private").split()) == {"onlynet", "proxy"}


def test_all_lines_taken_off(node: Node, shell: str) -> None:
    """An empty file is what is left; there was nothing in it to lose."""
    node.run("walletaccess=rpc\nwalletshow=1\n", shell)
    assert node.run("", shell) == "node.conf is empty; the node runs with its defaults.\n"
    node.run("uacomment=a b", shell)
    assert "looks cut short" in node.run("uacomment=a ", shell)


@pytest.mark.parametrize("text", ["proxy=192.168.1.60:9050", "proxy=192.168.1.60:9050\n\n"])
def test_blank_end_is_no_cut(node: Node, shell: str, text: str) -> None:
    """An editor takes blank lines off the end; a line more is none, either."""
    node.run("proxy=192.168.1.60:9050\r\n \n", shell)
    node.run("proxy=192.168.1.60:9050\n\n\n", shell)
    assert node.run(text, shell) == ""
    assert node.run(f"{text}\nprune=600\n", shell) == ""
    assert not closed(node)


def test_lost_file_on_the_second_boot(node: Node, shell: str) -> None:
    """On the first one the data partition's folder comes after node-config."""
    (node.path / "var/lib/cairn").rmdir()
    node.run("proxy=192.168.1.60:9050\n", shell)
    (node.path / "var/lib/cairn").mkdir(parents=True)
    started = ROOT / "overlay/usr/lib/cairn/cairn-bitcoind-started"
    subprocess.run([*shell.split(), str(started), "--root", str(node.path)], check=True)
    assert node.read("var/lib/cairn/node.conf") == "proxy=192.168.1.60:9050\n"
    assert (node.path / "var/lib/cairn/node.conf").stat().st_mode & 0o777 == 0o600
    (node.path / "boot/node.conf").unlink()
    node.run(None, shell)
    assert closed(node)


def test_lost_file_of_another_chain(node: Node, shell: str) -> None:
    """Without its file a signet node would be one of mainnet: it goes nowhere."""
    assert node.run("signet=1\n", shell) == ""
    (node.path / "boot/node.conf").unlink()
    assert "had chain=" in node.run(None, shell)
    assert closed(node)


def test_main_in_so_many_words(node: Node, shell: str) -> None:
    """The chain is there, and it is main: that of the last good file is not missed."""
    node.run("signet=1\n", shell)
    node.run("chain=main\ndbcahe=300\n", shell)
    assert not closed(node)
    node.run("signet=1\n", shell)
    node.run("signet=0\ndbcahe=300\n", shell)
    assert closed(node)


@pytest.mark.parametrize(
    "name", ["node.conf.txt", "NODE.CONF.TXT", "node.conf~", "FSCK0000.REC", "fsck0001.rec"]
)
def test_file_under_another_name(node: Node, shell: str, name: str) -> None:
    """The owner has written something, and the node cannot tell what."""
    (node.path / "boot").mkdir()
    (node.path / "boot" / name).write_text("proxy=127.0.0.1:9050\n")
    assert node.run(None, shell).startswith(
        f"There is no node.conf on the boot partition, but {name}"
    )
    assert closed(node)
    assert node.run("# end\n", shell) == ""
    assert not closed(node)


@pytest.mark.parametrize("memory", ["", "prune.main", "private", "node.conf"])
def test_boot_partition_of_a_new_node(node: Node, shell: str, memory: str) -> None:
    """Without it and without a memory nothing is known of what the owner wants."""
    (node.path / "proc/self").mkdir(parents=True)
    (node.path / "proc/self/mountinfo").write_text("22 1 8:1 / / ro - erofs x ro\n")
    if memory:
        text = {"prune.main": "600\n", "private": "proxy\n"}.get(memory, "# x\n")
        (node.path / "var/lib/cairn" / memory).write_text(text)
    assert node.run(None, shell)
    assert closed(node) is (memory in ("", "private"))


TORN = [b"", b"\n", b"proxy", b"proxy\n\0", b"pro\0xy\n", b"\0" * 6, b"Proxy\n", b"pro\xffy\n"]
TORN += [b"proxy\nx\n", b"proxy\nx", b" proxy\n", b"proxy \n", b"proxy\r\n", b"proxy  dns\n"]


@pytest.mark.parametrize("data", TORN)
def test_memory_of_privacy_is_torn(node: Node, shell: str, data: bytes) -> None:
    """There was something; what it was is not known. Only a good file ends that."""
    memory = node.path / "var/lib/cairn/private"
    memory.write_bytes(data)
    for text in (None, "", "dbcahe=300\n", "proxy=127.0.0.1:9050\ndbcahe=300\n"):
        assert "cannot be read any more" in node.run(text, shell)
        assert closed(node), text
        assert memory.read_bytes() == data
    assert node.run("proxy=127.0.0.1:9050\n", shell) == ""
    assert not closed(node)
    assert memory.read_text() == "proxy\n"
    memory.write_bytes(data)
    assert node.run("dbcache=300\n", shell) == ""
    assert not closed(node)
    assert not memory.exists()


@pytest.mark.parametrize("data", [" 0\n", "0 0\n", "00\n", "0\r\n", "0"])
def test_torn_archive_is_none(node: Node, shell: str, data: str) -> None:
    """Such a node runs with prune=1, with which Core refuses an index."""
    (node.path / "var/lib/cairn/prune.main").write_text(data)
    assert "needs all blocks" in node.run("txindex=1\n", shell)


def test_lost_line_of_no_connections(node: Node, shell: str) -> None:
    """maxconnections=0 is a wish for privacy, too."""
    node.run("maxconnections=0\n", shell)
    assert node.read("var/lib/cairn/private") == "maxconnections\n"
    node.run("dbcahce=300\n", shell)
    assert closed(node)


def test_memory_survives_a_refusal(node: Node, shell: str) -> None:
    """While bitcoind refuses the options, what they were is not forgotten."""
    node.run("proxy=192.168.1.60:9050\n", shell)
    (node.path / "run/cairn/bitcoind.refused").write_text("Error: no\n")
    node.run("proxy=192.168.1.60:9050\n", shell)
    assert closed(node)
    assert node.records("option") == []
    assert node.read("var/lib/cairn/private") == "proxy\n"


# -- lines of a Core user's file -----------------------------------------------------------------
HARMLESS = [
    ("server=1", []),
    ("server=true", []),
    ("daemon=0", []),
    ("nodaemon=1", []),
    ("listen=true", ["listen=1"]),
    ("rpcbind=127.0.0.1", []),
    ("rpcbind=::1", []),
    ("rpcallowip=127.0.0.1", []),
    ("rpcallowip=127.0.0.0/8", []),
    ("nodebuglogfile=1", []),
    ("printtoconsole=1", []),
    ("asmap=1", ["asmap=1"]),
    ("addnode=[fe80::1%eth0]", ["addnode=[fe80::1%eth0]"]),
    ("addnode=node.example.org", ["addnode=node.example.org"]),
    ("min=1\nlang=de\nsplash=0", []),
    ("checkpoints=1", []),
    ("dbcache=450\ndbcache=450", ["dbcache=450"]),
    ("maxuploadtarget=5G", ["maxuploadtarget=5G"]),
    ("uacomment=home node 1", ["uacomment=home node 1"]),
    ("debug=net\ndebug=tor", ["debug=net", "debug=tor"]),
    ("blockfilterindex=basic\npeerblockfilters=1", None),
    ("prune=0\ntxindex=1", ["prune=0", "txindex=1"]),
    ("wallet=main\nwallet=folder/cold", ["wallet=main", "wallet=folder/cold"]),
    ("fallbackfee=0.00001", ["fallbackfee=0.00001"]),
    ("whitelist=noban,in@192.168.1.0/24", ["whitelist=noban,in@192.168.1.0/24"]),
    ("whitebind=noban@0.0.0.0:8333", ["whitebind=noban@0.0.0.0:8333"]),
    ("bind=127.0.0.1:8334=onion", ["bind=127.0.0.1:8334=onion"]),
    ("rpcauth=me:0a1b$2c3d", ["rpcauth=me:0a1b$2c3d"]),
    ("zmqpubrawblock=tcp://127.0.0.1:28332", ["zmqpubrawblock=tcp://127.0.0.1:28332"]),
    ("zmqpubhashtx=tcp://[::1]:28333", ["zmqpubhashtx=tcp://[::1]:28333"]),
    ("zmqpubrawblockhwm=10000", ["zmqpubrawblockhwm=10000"]),
    ("noassumevalid=1", ["noassumevalid=1"]),
    ("rest=1", ["rest=1"]),
]


@pytest.mark.parametrize(("text", "options"), HARMLESS, ids=[text[:40] for text, _ in HARMLESS])
def test_harmless(node: Node, text: str, options: list[str] | None) -> None:
    """They pass without a warning, and mean to bitcoind what they say."""
    assert node.run(f"{text}\n") == ""
    assert options is None or node.options() == options


def test_two_spaces_in_a_key(node: Node, shell: str) -> None:
    """As some programs write it."""
    assert node.run(f"sshkey={KEY.replace(' ', '  ', 1)}\n", shell) == ""
    assert node.read("run/cairn/authorized_keys") == f"{KEY}\n"


def test_records_are_for_the_service_only(node: Node) -> None:
    """They have what rpcauth= says."""
    node.run("rpcauth=me:0a1b$2c3d\n")
    assert (node.path / "run/cairn/node-conf.records").stat().st_mode & 0o777 == 0o640


def test_archive_may_index(node: Node, shell: str) -> None:
    """A node that keeps all blocks from earlier may have an index without prune=0."""
    (node.path / "var/lib/cairn/prune.main").write_text("0\n")
    assert node.run("txindex=1\n", shell) == ""
    assert node.options() == ["txindex=1"]


@pytest.mark.parametrize(
    ("text", "prune", "doubt"),
    [
        ("prune=600", ["600"], False),
        ("prune=0", ["0"], False),
        ("noprune=1", ["0"], False),
        ("dbcache=400", [], False),
        ("prune=600\n[main]\nprune=700", ["700"], False),
        ("prune=600\n[signet]\nprune=0", ["600"], False),
        ("prune=O", [], True),
        ("prune=100", [], True),
        ("Prune=0", [], True),
        ("prnue=0", [], True),
        ("prune 0", [], True),
        ("main.prune=0", [], True),
        ("[mainnet]\nprune=0", [], True),
        ("prune=600\nprune=0", [], True),
        ("prune=600\nnoprune=1", [], True),
        ("prune=0\nprune=600", ["0"], False),
        ("noprune=0", [], True),
        ("pruning=0", [], True),
        ("prunning=0", [], True),
        ("archive=1", [], True),
        ("dbcache=300 prune=0", [], True),
        ("dbcache=300\u2028noprune=1", [], True),
        ("wallet=x prune=0", [], True),
        ("includeconf=more.conf", [], True),
        ("conf=more.conf", [], True),
        ("settings=x", [], True),
        ("datadir=/x", [], True),
        ("fastprune=yes", [], False),
    ],
)
def test_prune_records(node: Node, text: str, prune: list[str], doubt: bool) -> None:
    """What the user asked for, or that it is not sure."""
    node.run(f"{text}\n")
    assert node.records("prune") == prune
    assert bool(node.records("prune-doubt")) is doubt
    if doubt:
        assert not [line for line in node.options() if "prune" in line]


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("blocksinmemory=0", False),
        ("noblocksinmemory=1", False),
        ("maxmempool=x", False),
        ("prune=x", False),
        *((text, True) for text in ("blocksinmemory=no", "blockinmemory=0", "BlocksInMemory 0")),
        *((text, True) for text in ("coinstatsindex=yes", "blockfilterindx=1")),
        *((text, True) for text in ("includeconf=more.conf", "dbcache=300\u2028blocksinmemory=0")),
        *((f"dbcache=300{gap}blocksinmemory=0", True) for gap in (" ", "")),
        ("uacomment=xblocksinmemory=0", True),
        # no such wish: a number of MiB, an index that is not wanted, a word in a value
        *((f"blocksinmemory={value}", False) for value in ("20000", "128M", "100 MiB")),
        ("blockinmemory=100", False),
        ("blocksinmemory=100\nblocksinmemory=200", False),
        *((text, False) for text in ("coinstatsindex=no", "debug=coinstatsindex", "filters=2")),
        ("dbcache=300 blocksinmemory=100", False),
    ],
)
def test_stored_in_doubt(node: Node, text: str, doubt: bool) -> None:
    """A line that may have been meant to have each block of the first sync stored."""
    node.run(f"{text}\n")
    assert bool(node.records("store-doubt")) is doubt


def test_a_doubt_about_storing_wins(node: Node) -> None:
    """No other line says how much waits in memory, as none says how much is pruned in doubt."""
    node.run("blocksinmemory=100\n")
    assert "blocksinmemory=100" in node.options()
    node.run("blocksinmemory=100\nblocksinmemory=0\n")
    assert node.records("store-doubt")
    assert not [line for line in node.options() if "blocksinmemory" in line]
    node.run("blocksinmemory=0\nblocksinmemory=100\n")
    assert "blocksinmemory=0" in node.options()


@pytest.mark.parametrize(
    ("text", "asked", "doubt"),
    [
        ("filters=1", ["1"], False),
        ("filters=0", ["0"], False),
        ("blockfilterindex=0", ["0"], False),
        ("noblockfilterindex=1", ["0"], False),
        ("blockfilterindex=1", [], False),
        *((text, [], True) for text in ("filter=1", "filters=2", "filterrs=1", "conf=more.conf")),
        *((f"dbcache=300{gap}filters=1", [], True) for gap in (" ", "")),
        ("filters=0\nprune=x", ["0"], False),
        ("filters=0\nfilters=1", [], True),
        *((text, [], True) for text in ("blockfilterindex=basc", "peerblockfilters=1")),
        ("cfilters=1", [], True),
        ("", [], False),
    ],
)
def test_filters_in_doubt(node: Node, text: str, asked: list[str], doubt: bool) -> None:
    """What is asked for, that nothing is, or that a line may have been about it."""
    node.run(f"{text}\n")
    assert node.records("filters") == asked
    assert bool(node.records("filters-doubt")) is doubt


def test_zeromq_is_on_in_both_lanes() -> None:
    """Lightning nodes and payment servers need it; the defaults of the two builds agree."""
    script = (ROOT / "support/core-build").read_text()
    assert "${CAIRN_ZMQ:-ON}" in script
    assert "${CAIRN_ZMQ:-OFF}" not in script
    config = (ROOT / "package/bitcoind-chainstate/Config.in").read_text()
    option = config.split("config BR2_PACKAGE_BITCOIND_CHAINSTATE_ZMQ\n")[1].split("config ")[0]
    assert "\tdefault y\n\tselect BR2_PACKAGE_ZEROMQ\n" in option
    assert "libzmq3-dev\n" in (ROOT / "support/host-packages.txt").read_text()


# -- updates: asked for, or not; what cannot be understood asks nobody --------------------


@pytest.mark.parametrize(
    ("text", "mode", "url"),
    [
        ("", "notify", []),
        ("update=off", "off", []),
        ("updateurl=https://example.org/cairn/", "notify", ["https://example.org/cairn/"]),
        (
            "update = auto\r\nupdateurl=http://192.0.2.7:8080/c.raucb # x",
            "auto",
            ["http://192.0.2.7:8080/c.raucb"],
        ),
        ("updateurl=https://[2001:db8::7]/a/", "notify", ["https://[2001:db8::7]/a/"]),
        # what may have been meant to forbid it, does
        ("updateurl=https://example.org/\nupdat=off", "off", []),
        ("updateurl=https://example.org/\nupdate off", "off", []),
        ("updateurl=https://example.org/\nnoupdate=1", "off", []),
        ("updateurl=https://example.org/\nupdate=never", "off", []),
        ("updateurl=https://example.org/\nupdate=auto\nupdate=off", "off", []),
        ("updateurl=https://example.org/\nUpdate=off", "off", []),
        ("updateurl=https://example.org/\nuacomment=a update=off", "off", []),
        ("updateurl=https://example.org/\nup\u200bdate=off", "off", []),
        ("updateurl=https://example.org/\n[main]\nupdate=off", "off", []),
        ("updateurl=https://example.org/\nnetworkactive=O", "notify", []),
        ("updateurl=https://example.org/\nmaxconections=7", "notify", ["https://example.org/"]),
    ],
)
def test_updates(node: Node, shell: str, text: str, mode: str, url: list[str]) -> None:
    """Asked for, or not; a line that cannot be used asks nobody."""
    node.run(text, shell)
    assert node.records("update") == [mode]
    assert node.records("updateurl") == url


def test_updates_and_a_torn_file(node: Node) -> None:
    """The line that forbids them may be what is missing."""
    node.run("updateurl=https://example.org/\nprune=700\nupdate=off\n")
    node.run("updateurl=https://example.org/\nprune=700\n")
    assert node.records("update") == ["off"]
    assert node.records("updateurl") == []

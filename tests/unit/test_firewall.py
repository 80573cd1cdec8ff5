"""cairn-firewall: which rules follow from node.conf; a failure leaves the strictest."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import superuser
from tests.unit.test_node_config import applets

SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-firewall"
SHARE = ROOT / "overlay/usr/share/cairn"
SHELLS = ["dash", "busybox sh"]
KEY = "sshkey ssh-ed25519 AAAA me"
#: What the script prints first for any node
BASE = (SHARE / "firewall.nft").read_text()
#: A rule that opens ports
OPEN = re.compile(r"(?m)^\t\t(\w+) dport \{? ?([\d, ]+?) ?\}? accept")
ALL = {"mdns 1", "page 1", KEY}


def path(shell: str) -> str:
    """With busybox's shell its commands, too, as in the image."""
    return (f"{applets()}:" if shell.startswith("busybox") else "") + os.environ["PATH"]


@dataclass
class Made:
    """A root directory with what node-config has left there."""

    path: Path

    def write(self, name: str, text: str) -> Path:
        """A file below the root."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def node(self, records: Iterable[str], conf: str = "", page: bool = True) -> None:
        """The records of node.conf, and the daemon's bitcoin.conf."""
        lines = ["chain main", "network on", *records]
        self.write("run/cairn/node-conf.records", "".join(f"{line}\n" for line in lines))
        self.write("run/bitcoind/bitcoin.conf", f"chain=main\n{conf}\n")
        if page:
            self.write("usr/lib/systemd/system/cairn-page.service", "")

    def rules(self, shell: str) -> str:
        """What is added to the base for this node."""
        command = [*shell.split(), str(SCRIPT), "--root", str(self.path), "--print"]
        environment = {**os.environ, "PATH": path(shell)}
        made = subprocess.run(command, check=True, capture_output=True, env=environment)
        text = made.stdout.decode()
        assert text.startswith(BASE)
        return text.removeprefix(BASE)

    def load(self, shell: str, nft: str) -> tuple[int, str]:
        """Loads with this command instead of nft; status and the screen's sentence."""
        self.write("nft", f"#!/bin/sh\n{nft}\n").chmod(0o755)
        result = subprocess.run(
            [*shell.split(), str(SCRIPT), "--root", str(self.path)],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path(shell), "CAIRN_NFT": str(self.path / "nft")},
        )
        report = self.path / "run/cairn/firewall.report"
        said = report.read_text() if report.exists() else ""
        assert result.stderr == said
        return result.returncode, said


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """An empty root directory."""
    (tmp_path / "run/cairn").mkdir(parents=True)
    return Made(tmp_path)


def opened(rules: str) -> set[tuple[str, str]]:
    """Each port that rules open, as `22/tcp`, and the chain in which they do."""
    found = set()
    for chain, body in re.findall(r"(?m)^\tchain (\w+) \{\n(.*?)^\t\}", rules, re.DOTALL):
        for protocol, ports in OPEN.findall(body):
            found |= {(f"{port}/{protocol}", chain) for port in ports.split(", ")}
    return found


def nft_takes(text: str) -> None:
    """The real nft, and this machine's kernel, understand the rules."""
    command = [*superuser(), "unshare", "--net", "nft", "--check", "--file", "-"]
    result = subprocess.run(command, check=False, input=text, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, ""), text


@pytest.mark.parametrize("shell", SHELLS)
def test_what_node_conf_switches_on(made: Made, shell: str) -> None:
    """All combinations of the keys, with and without a page in the image."""
    keys = ["mdns 1", "page 1", KEY, "image"]
    for count in range(len(keys) + 1):
        for chosen in itertools.combinations(keys, count):
            (made.path / "usr/lib/systemd/system/cairn-page.service").unlink(missing_ok=True)
            made.node(set(chosen) - {"image"}, page="image" in chosen)
            rules = made.rules(shell)
            wanted = {("8333/tcp", "everybody")}
            if "mdns 1" in chosen:
                wanted.add(("5353/udp", "neighbours"))
            if KEY in chosen:
                wanted.add(("22/tcp", "neighbours"))
            if {"page 1", "image"} <= set(chosen):
                wanted.add(("80/tcp", "neighbours"))
            assert opened(rules) == wanted
            assert ("ip protocol 2 accept" in rules) == ("mdns 1" in chosen)
            nft_takes(BASE + rules)


@pytest.mark.parametrize("shell", SHELLS)
def test_each_key_for_ssh_opens_it(made: Made, shell: str) -> None:
    """walletkey= alone is a way in, too."""
    for key in ("sshkey ssh-ed25519 AAAA me", "walletkey ssh-ed25519 AAAA me"):
        made.node([key], "listen=0")
        assert opened(made.rules(shell)) == {("22/tcp", "neighbours")}


@pytest.mark.parametrize("shell", SHELLS)
def test_with_tor_nobody_comes_in_the_clear(made: Made, shell: str) -> None:
    """Whatever the daemon's file says."""
    for tor in ("tor 1", "tor only"):
        made.node([tor], "bind=0.0.0.0\nwhitebind=0.0.0.0:8400\nlisten=1")
        assert opened(made.rules(shell)) == set()


#: Lines of bitcoin.conf, and the ports that are open to everybody and to the local network
PEERS = {
    "": ("8333", ""),
    "bind=0.0.0.0\nbind=[::]": ("8333", ""),
    "port=18000\nbind=0.0.0.0\nbind=[::]": ("18000", ""),
    "listen=0": ("", ""),
    "networkactive=0": ("", ""),
    "networkactive=0\nlisten=0\nbind=0.0.0.0": ("", ""),
    "nolisten=1": ("", ""),
    "nolisten=2": ("", ""),
    "proxy=127.0.0.1:9050": ("", ""),
    "proxy=127.0.0.1:9050\nlisten=1": ("8333", ""),
    "connect=192.0.2.7": ("", ""),
    "maxconnections=0": ("", ""),
    "bind=127.0.0.1": ("", ""),
    "bind=[::1]:8400": ("", ""),
    "bind=127.0.0.1:8334=onion": ("", ""),
    "bind=192.168.1.50:8334=onion": ("", "8334"),
    "bind=192.168.1.50": ("8333", ""),
    "bind=192.168.1.50:8400\nbind=[fd00::50]:8401\nbind=fd00::51": ("8400 8401 8333", ""),
    "bind=192.168.1.50:8400\nwhitebind=noban,relay@192.168.1.50:8402": ("8400 8402", ""),
    "whitebind=192.168.1.50:8402": ("8402", ""),
    "[main]\nport=18000": ("18000", ""),
    "port=18000\n[main]\nport=18001": ("18001", ""),
    "[regtest]\nport=18001\nbind=192.168.1.50:99": ("8333", ""),
    "regtest=1": ("18444", ""),
    "chain=signet\nport=9900": ("38333", ""),
    "bind=192.168.1.50:80": ("", ""),
    "bind=192.168.1.50:22\nwhitebind=192.168.1.50:80\nbind=192.168.1.51": ("8333", ""),
    "bind=192.168.1.50:80=onion": ("", ""),
    "testnet4=1\n[testnet4]\nport=48000": ("48000", ""),
    "testnet=1\nbind=192.168.1.50:99": ("18333", ""),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_ports_of_peers(made: Made, shell: str) -> None:
    """Where bitcoind listens, by Core's own rules; never for loopback."""
    for conf, (everybody, neighbours) in PEERS.items():
        made.node([], conf)
        wanted = {(f"{port}/tcp", "everybody") for port in everybody.split()}
        wanted |= {(f"{port}/tcp", "neighbours") for port in neighbours.split()}
        assert opened(made.rules(shell)) == wanted, conf


#: What node-config would never let through
HOSTILE = [
    "port=8333 accept; tcp dport 1-65535",
    "port=99999",
    "port=0",
    "port=-1",
    "port=08333",
    "port=$(reboot)",
    "bind=192.168.1.50:0",
    "bind=192.168.1.50:99999",
    "whitebind=192.168.1.50:123456",
    "chain=}",
    "chain=mainnet",
]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_not_understood(made: Made, shell: str) -> None:
    """No rule is made of it: the strictest rules stay, and the screen says so."""
    for conf in HOSTILE:
        made.node(ALL, conf)
        status, said = made.load(shell, f"cat >>{made.path}/loaded")
        assert status == 0
        assert said.startswith("The firewall lets nobody in"), conf
        assert (made.path / "loaded").read_text() == BASE
        (made.path / "loaded").unlink()


@pytest.mark.parametrize("shell", SHELLS)
def test_loaded_in_one_piece(made: Made, shell: str) -> None:
    """First the strictest rules, then those for this node, each as one transaction."""
    made.node(ALL)
    assert made.load(shell, f"cat >>{made.path}/loaded; echo == >>{made.path}/loaded") == (0, "")
    strict, full, rest = (made.path / "loaded").read_text().split("==\n")
    assert (strict, rest) == (BASE, "")
    assert full == BASE + made.rules(shell)
    assert (made.path / "run/cairn/firewall.loaded").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_rules_that_the_kernel_refuses(made: Made, shell: str) -> None:
    """The strictest stay in force."""
    made.node(ALL)
    nft = 'grep -q "dport 22 accept" || exit 0; printf "no \\033 limit\\nhere\\n" >&2; exit 1'
    status, said = made.load(shell, nft)
    assert status == 0
    assert said.startswith("The firewall lets nobody in, neither other nodes nor you (no  limit).")
    assert (made.path / "run/cairn/firewall.loaded").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_no_rules_no_network(made: Made, shell: str) -> None:
    """Where nft or the kernel can do nothing, systemd-networkd is not started."""
    made.node(ALL)
    status, said = made.load(shell, "echo no such thing >&2; exit 1")
    assert status == 1
    assert said.startswith("There is no firewall (no such thing), so the network stays off.")
    assert not (made.path / "run/cairn/firewall.loaded").exists()
    unit = "overlay/usr/lib/systemd/system/systemd-networkd.service.d/cairn.conf"
    assert "\nConditionPathExists=/run/cairn/firewall.loaded\n" in (ROOT / unit).read_text()
    # later on, rules are in force already
    made.write("run/cairn/firewall.loaded", "")
    status, said = made.load(shell, "echo busy >&2; exit 1")
    assert status == 1
    assert said.startswith("The firewall could not be changed (busy): the rules from before")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("records", [None, "", "chain main\n"])
def test_what_may_leave(made: Made, shell: str, records: str | None) -> None:
    """Where nobody knows what the owner wants, nothing leaves."""
    if records is not None:
        made.write("run/cairn/node-conf.records", records)
    status, said = made.load(shell, f"cat >>{made.path}/loaded")
    strictest = BASE + (SHARE / "firewall-nowhere.nft").read_text()
    assert (made.path / "loaded").read_text() == strictest
    assert status == 0
    assert said.startswith("The firewall lets nobody in")
    nft_takes(strictest)


def test_the_table_of_the_owners_page(made: Made) -> None:
    """docs/use/network.md has the ports that are open with everything switched on, and no other."""
    page = (ROOT / "docs/use/network.md").read_text()
    who = {"everybody": "everybody", "local network": "neighbours"}
    who["neighbours by link-local address"] = "input"
    rows = re.findall(r"(?m)^\| (\d+/\w+) \| [^|]+ \| ([^|]+) \|", page)
    written = {(port, "input" if port == "68/udp" else who[name]) for port, name in rows}
    made.node(ALL)
    dhcp = set(re.findall(r"udp dport (\d+) accept", BASE))
    assert dhcp == {"68", "546"}
    everything = opened(made.rules("dash")) | {(f"{port}/udp", "input") for port in dhcp}
    assert written == everything
    for networks in re.findall(r"elements = \{(.*)\}", BASE):
        assert all(network in page for network in re.findall(r"[\da-f.:]+/\d+", networks))
    awk = (ROOT / "overlay/usr/lib/cairn/chain-ports.awk").read_text()
    ports = re.findall(r'p2p_port\["\w+"\] = (\d+)', awk)
    assert len(ports) == 5
    assert all(port in page for port in ports)


def test_one_local_network() -> None:
    """What is let out with tor=only is let in by the firewall: two files, one list of networks."""
    tor = (ROOT / "overlay/usr/lib/cairn/cairn-tor-firewall").read_text()
    private = re.search(r'private="(.*)"', tor)
    local = re.search(r"chain local \{(.*?)\n\t\}", tor, re.S)
    assert private and local
    let_out = {*private[1].split(", "), *re.findall(r"[\da-f]+::/\d+", local[1])}
    let_in = ", ".join(re.findall(r"elements = \{ (.*) \}", BASE)).split(", ")
    assert let_out == set(let_in)


def test_wrong_option() -> None:
    """Usage."""
    result = subprocess.run([SCRIPT, "--flush"], check=False, capture_output=True, text=True)
    assert result.returncode == 2
    assert "usage: cairn-firewall" in result.stderr

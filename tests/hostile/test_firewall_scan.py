"""The firewall's rules in the kernel: a port scan from the Internet and from the local network.

Real listeners on many ports, in network namespaces that the test makes, with the rules that
cairn-firewall loads by the real nft; compared with the table of docs/use/network.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import superuser

HERE = ROOT / "tests/hostile"
KEY = "sshkey ssh-ed25519 AAAA me"
#: Where each scan comes from: the column "Who" of the table
EVERYBODY, NEIGHBOUR = {"everybody"}, {"everybody", "local network"}
FROM = {
    "near4": NEIGHBOUR,
    "near6": NEIGHBOUR,
    "link6": NEIGHBOUR | {"neighbours by link-local address"},
    "global6": EVERYBODY,
    "far4": EVERYBODY,
    "far6": EVERYBODY,
}


def table() -> dict[str, str]:
    """Who may connect to what, as the page says."""
    page = (ROOT / "docs/use/network.md").read_text()
    return dict(re.findall(r"(?m)^\| (\d+/\w+) \| [^|]+ \| ([^|]+) \|", page))


def scanned(root: Path, shell: str, *records: str) -> list[list[str]]:
    """What the scanner says of a node with these records, in words."""
    for name in ("run/cairn", "run/bitcoind", "usr/lib/systemd/system"):
        (root / name).mkdir(parents=True)
    lines = ["chain main", "network on", *records]
    (root / "run/cairn/node-conf.records").write_text("".join(f"{line}\n" for line in lines))
    (root / "run/bitcoind/bitcoin.conf").write_text("chain=main\nbind=0.0.0.0\nbind=[::]\n")
    (root / "usr/lib/systemd/system/cairn-page.service").touch()
    firewall = f"{shell} {ROOT}/overlay/usr/lib/cairn/cairn-firewall"
    command = [*superuser(), "unshare", "--net", "--mount", str(HERE / "scan.sh"), str(root)]
    command += [firewall, f"{sys.executable} {HERE}/scan.py"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert (result.returncode, result.stderr) == (0, "")
    return [line.split() for line in result.stdout.splitlines()]


def found(lines: list[list[str]], name: str, answer: str = "open answers") -> set[str]:
    """The ports with this answer in one scan."""
    return {
        f"{line[2]}/{line[1]}" for line in lines if line[0] == name and line[3] in answer.split()
    }


def number(lines: list[list[str]], name: str, kind: str) -> int:
    """How many of its tries were answered."""
    return next(int(line[3]) for line in lines if line[:2] == [name, kind])


@pytest.mark.parametrize("shell", ["dash"])
def test_port_scan(tmp_path: Path, shell: str) -> None:
    """Open is what the table says, from each place; and ICMP, limits, what may leave."""
    lines = scanned(tmp_path, shell, "mdns 1", "page 1", KEY)
    listed = table()
    assert len(listed) == 6
    for name, places in FROM.items():
        # a DHCP server answers from its own port
        wanted = {port for port, who in listed.items() if who in places} - {"68/udp"}
        assert found(lines, name) == wanted, name
        # Nothing else says anything, but the two ports for which somebody may wait.
        refused = {"22/tcp", "80/tcp"} if name in {"global6", "far6"} else set()
        assert found(lines, name, "refused") == refused, name
    assert found(lines, "near4-67") == found(lines, "near4") | {"68/udp"}
    # the node itself reaches all of its own
    assert {"8332/tcp", "9050/tcp", "28332/tcp", "53/udp"} <= found(lines, "loopback")
    for name in ("far4", "link6"):
        assert 20 <= number(lines, name, "ping") <= 60
    # one token more comes every 3 s; another try of its own counts as well
    assert 20 <= number(lines, "often", "connect") < 30
    assert number(lines, "out-before", "connect") == number(lines, "out", "connect") == 1
    # so many connections to the page an address may have, and no more; each its own
    assert [number(lines, name, "connect") for name in ("crowd4", "crowd6")] == [32, 32]
    assert number(lines, "crowd4", "other") == 1
    assert [number(lines, name, "connect") for name in ("after4", "after6")] == [30, 30]
    # node.conf was not read: nobody comes in, nothing goes out
    for name in ("strict4", "strict6"):
        assert found(lines, name) == set(), name
    assert number(lines, "out-strict", "connect") == 0


def test_port_scan_of_a_quiet_node(tmp_path: Path) -> None:
    """Without a key, a page and a name only peers come in."""
    lines = scanned(tmp_path, "busybox sh")
    for name in FROM:
        assert found(lines, name) - {"546/udp"} == {"8333/tcp"}, name

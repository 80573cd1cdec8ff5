"""The node on a network that is not its friend: addresses, redirects, SSH's limits."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import superuser

NETWORKS = ROOT / "overlay/usr/lib/systemd/network"
NODE_CONFIG = ROOT / "overlay/usr/bin/node-config"
#: 52:54:00:12:34:56 as EUI-64 has it
MAC = "5054:ff:fe12:3456"


@pytest.mark.parametrize(
    ("lines", "asks", "servers"),
    [
        ("", "DHCPv6 is asked by attic", "2001:db8:1::53"),
        ("mdns=0\n", "DHCPv6 is asked", "2001:db8:1::53"),
        ("ip=192.168.1.9/24\n", "", "2001:db8:1::53"),
        ("ip=192.168.1.9/24\ndns=192.168.1.53\n", "", "192.168.1.53"),
    ],
)
def test_addresses_and_dhcp(tmp_path: Path, lines: str, asks: str, servers: str) -> None:
    """What the real systemd-networkd makes of a router's prefix: no address carries the MAC.

    The name is told to a DHCP server only where mDNS tells it, too, and with ip= none is asked.
    With dns= the router's DNS server is not asked either.
    """
    shutil.copytree(NETWORKS, tmp_path / "network")
    tmp_path.chmod(0o755)
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/node.conf").write_text(f"maxconnections=20\n{lines}")
    subprocess.run([str(NODE_CONFIG), "--root", str(tmp_path)], check=True, capture_output=True)
    run = tmp_path / "run/systemd/network"
    run.mkdir(exist_ok=True)
    for path in (*(tmp_path / "network").glob("*.network"), *run.glob("*.network")):
        path.write_text(path.read_text().replace("Kind=!*", "Kind=veth"))
    command = [*superuser(), "unshare", "--net", "--mount", "--uts"]
    command += [str(ROOT / "tests/hostile/slaac.sh"), str(tmp_path / "network"), str(run)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    addresses = re.findall(r"inet6 ([0-9a-f:]+)/64 scope (\w+) ?(temporary)?", shown)
    assert {(scope, temporary) for _, scope, temporary in addresses} == {
        ("global", ""),
        ("global", "temporary"),
        ("link", ""),
    }
    assert MAC not in shown
    assert [line for line in shown.splitlines() if line.startswith("DHCP")] == (
        [asks] if asks else []
    )
    assert re.findall(r"(?m)^names are asked of (.*)$", shown) == [servers]


def test_redirects_and_source_routes_are_off() -> None:
    """On ports that are there when the settings are applied, and on those that come later."""
    settings = ROOT / "overlay/usr/lib/sysctl.d/50-cairn.conf"
    # --prefix: a network namespace has its own; the rest of the file is this machine's
    script = f"""set -eu
        ip link add before type veth peer name before2
        /usr/lib/systemd/systemd-sysctl --prefix=/net {settings}
        ip link add after type veth peer name after2
        for port in all default lo before after; do
            cd /proc/sys/net/ipv4/conf/$port
            grep . accept_redirects secure_redirects send_redirects accept_source_route
            cd /proc/sys/net/ipv6/conf/$port
            grep . accept_redirects accept_source_route
        done
        cat /proc/sys/net/ipv6/conf/after/use_tempaddr /proc/sys/net/ipv6/conf/after/addr_gen_mode
    """
    command = [*superuser(), "unshare", "--net", "sh", "-c", script]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert shown[-2:] == ["2", "3"]
    assert len(shown) == 5 * 6 + 2
    assert {line.split(":")[1] for line in shown[:-2]} == {"0"}


def sshd_config(user: str = "") -> dict[str, str]:
    """sshd's settings for everybody, or those that a user alone has: keys in small letters."""
    text = (ROOT / "overlay/usr/share/cairn/sshd_config").read_text()
    parts = re.split(r"(?m)^Match User (\w+)$", text)
    text = {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}[user]
    assert "Match" not in text
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {key.lower(): value for key, value in (line.split(None, 1) for line in lines)}


def test_ssh_forwards_nothing_but_the_nodes_ports() -> None:
    """RPC by the ports of the daemon's source, ZeroMQ by those of the docs, all on loopback."""
    config = sshd_config()
    assert config["allowtcpforwarding"] == "local"
    ports = {"8332", "18332", "48332", "38332", "18443"}
    hosts = {"127.0.0.1", "localhost", "[::1]"}
    # a wallet's key: RPC
    wallet = sshd_config("wallet")
    assert set(wallet["permitopen"].split()) == {f"{h}:{p}" for h in hosts for p in ports}
    assert wallet["maxsessions"] == "0"
    # it forwards no more than the others in any other way either
    rest = {"authorizedkeysfile", "maxsessions", "forcecommand", "permittty", "permitopen"}
    assert set(wallet) == rest
    docs = (ROOT / "docs/use/configure.md").read_text()
    ports |= set(re.findall(r"zmqpub\w+=tcp://127\.0\.0\.1:(\d+)", docs))
    assert len(ports) == 7
    assert set(config["permitopen"].split()) == {f"{h}:{p}" for h in hosts for p in ports}
    assert config["permitlisten"] == "none"
    for key in ("allowstreamlocalforwarding", "allowagentforwarding", "x11forwarding"):
        assert config[key] == "no"
    assert config["permittunnel"] == config["gatewayports"] == "no"
    assert config["subsystem"] == "sftp internal-sftp"


def test_ssh_keeps_the_door_free() -> None:
    """Connections without a key are few and short."""
    config = sshd_config()
    assert int(config["logingracetime"]) <= 30
    begin, rate, full = map(int, config["maxstartups"].split(":"))
    assert begin <= 5
    assert rate >= 30
    assert full <= 10
    assert int(config["persourcemaxstartups"]) < full / 2
    # ssh-agent offers its keys one by one: with too few tries the right one comes too late
    assert 3 <= int(config["maxauthtries"]) <= 6
    assert int(config["maxsessions"]) <= 4

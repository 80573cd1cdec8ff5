"""tor=: what bitcoind and Tor are told, and what may leave the machine."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.paths import ROOT

SHELLS = ["dash", "busybox sh"]
AWKS = ["mawk", "busybox awk"]
LIBRARY = ROOT / "overlay/usr/lib/cairn"
ONION = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"
PROXY = "- proxy=127.0.0.1:9050"
LISTENS = ["- listen=1", "- listenonion=1", "- torcontrol=127.0.0.1:9051"]
BIND = "- bind=127.0.0.1:8334=onion"
ONLY = [PROXY, "- onlynet=onion", "- dnsseed=0"]


def parse(text: str | bytes, awk: str = "mawk", **variables: str) -> dict[str, list[str]]:
    """The records that the parser makes of a node.conf."""
    words = awk.split()
    words += ["-v", f"table={ROOT / 'overlay/usr/share/cairn/options.tsv'}"]
    for name in (
        "known",
        "ignored",
        "absent",
        "remembered",
        "archives",
        "cut",
        "lost",
        "forgotten",
    ):
        words += ["-v", f"{name}={variables.get(name, '')}"]
    words += ["-f", str(LIBRARY / "chain-ports.awk")]
    for part in ("-values", "-end", "-rejected", ""):
        words += ["-f", str(LIBRARY / f"node-conf{part}.awk")]
    data = text.encode() if isinstance(text, str) else text
    said = subprocess.run(words, input=data, check=True, capture_output=True)
    records: dict[str, list[str]] = {}
    for line in said.stdout.decode("latin-1").splitlines():
        name, _, value = line.partition(" ")
        records.setdefault(name, []).append(value)
    return records


@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("tor=1", [PROXY, *LISTENS, BIND]),
        ("tor=true", [PROXY, *LISTENS, BIND]),
        ("tor = only # all of it", [*ONLY, *LISTENS, BIND]),
        ("tor=0", []),
        ("tor=false", []),
        # who restricts what comes in, is followed: no onion service, and nothing on 8333
        ("tor=1\nlisten=0", [PROXY, "- listen=0"]),
        ("tor=1\nlistenonion=0", [PROXY, "- listenonion=0"]),
        ("tor=1\nconnect=192.0.2.7", [PROXY, "- connect=192.0.2.7"]),
        ("tor=1\nmaxconnections=0", [PROXY, "- maxconnections=0"]),
        ("tor=only\nlistenonion=0\nlisten=0", [*ONLY, "- listenonion=0", "- listen=0"]),
        ("tor=1\nnetworkactive=0", [PROXY, "- networkactive=0"]),
        ("tor=only\ndnsseed=0", [*ONLY[:2], *LISTENS, BIND, "- dnsseed=0"]),
        # on a test chain bind= counts in the chain's section only
        (
            "signet=1\ntor=1",
            [PROXY, *LISTENS, "signet bind=127.0.0.1:38334=onion"],
        ),
        (
            "regtest=1\ntor=only\nport=18000\n[regtest]\nprune=600",
            [*ONLY, *LISTENS, "regtest bind=127.0.0.1:18445=onion", "regtest prune=600"],
        ),
    ],
)
def test_options_of_bitcoind(awk: str, text: str, options: list[str]) -> None:
    """What bitcoind is told; port= above the sections counts on main only."""
    records = parse(text, awk)
    found = [option for option in records.get("option", []) if "port=18000" not in option]
    assert found == options
    assert records["network"] == ["on"]
    assert ("lock" in records) == ("only" in text)


CONTRADICTIONS = [
    *("proxy=192.168.1.60:9050", "onion=192.168.1.60:9050", "onion=0", "onlynet=ipv4", "proxy=0"),
    *("i2psam=127.0.0.1:7656", "noonion=1", "noproxy=1", "[main]\nproxy=192.168.1.60:9050"),
]
#: others would come in over the network itself
IN_THE_CLEAR = ["listen=1\nlistenonion=0", "listen=1\nnolistenonion=1", "listenonion=0\nlisten=1"]
INBOUND = [
    "bind=0.0.0.0",
    "whitebind=0.0.0.0:8333",
    "externalip=192.0.2.1",
    "natpmp=1",
    "discover=1",
]


@pytest.mark.parametrize("awk", AWKS)
def test_nobody_comes_in_but_through_tor(awk: str) -> None:
    """Without an onion service there is no way in, and listen=1 is no other one."""
    for tor, lines in itertools.product(("1", "only"), IN_THE_CLEAR):
        records = parse(f"tor={tor}\n{lines}\n", awk)
        assert records["network"] == ["outbound"], lines
        assert "- listen=1" not in records["option"]
        assert "forbids that" in records["rejected"][0]
        assert "good" not in records


@pytest.mark.parametrize("awk", AWKS)
def test_contradictions_close(awk: str) -> None:
    """A line that says otherwise where the node goes leaves it without network."""
    for tor, line in itertools.product(("1", "only"), CONTRADICTIONS):
        for text in (
            f"tor={tor}\n{line}\n",
            f"{line}\n" if "[" in line else f"{line}\ntor={tor}\n",
        ):
            if "tor=" not in text:
                continue
            records = parse(text, awk)
            assert records["network"] == ["off"], text
            assert records["lock"] == ["1"], text
            assert "contradicts tor=" in records["rejected"][0], text
    for tor, line in itertools.product(("1", "only"), INBOUND):
        records = parse(f"tor={tor}\n{line}\n", awk)
        assert records["network"] == ["outbound"], line
        assert not [
            option for option in records["option"] if "listen" in option or "bind" in option
        ]


SLIPS = [
    *("tor=yes", "tor=", "tor=2", "tor=Only", "tor=onli", "tor=on", "tor=1 only", "tor=-1", "tor"),
    *("Tor=1", "TOR=only", "tr=1", "torr=only", "toronly=1", "onlytor=1", "usetor=1", "t0r=1"),
    *("to r=1", "tor=only\ntor=1", "tor=1\ntor=only", "[main]\ntor=only", "-tor=1"),
    *(
        "tor=only x",
        "tor=only; ",
        "tor=only,1",
        "tor=${only}",
        "tor=`only`",
        "tor=on\u0142y",
        "rot=only",
    ),
    *(
        "tor==only",
        "tor:only",
        "main.tor=only",
        "tor=0\ntor=only",
        "hostname=atortor=only",
        "xtor=1",
    ),
]


@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize("line", ["tor=1", "tor=only", "tor=0"])
def test_the_same_again_is_no_slip(awk: str, line: str) -> None:
    """Two lines that say the same leave nothing to be guessed."""
    once, twice = parse(line, awk), parse(f"{line}\n{line}\n", awk)
    for name in ("network", "lock", "good"):
        assert twice.get(name) == once.get(name), name
    assert "rejected" not in twice


@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize("line", SLIPS)
def test_unknown_values_close(awk: str, line: str) -> None:
    """Whatever is not 1, only or 0 closes the network, and nothing leaves."""
    records = parse(line, awk)
    assert records["network"] == ["off"]
    assert records["lock"] == ["1"]
    assert "good" not in records


@pytest.mark.parametrize("awk", AWKS)
def test_what_is_remembered(awk: str) -> None:
    """A file that lost tor= does not open the network; a good one without it does."""
    assert parse("tor=1", awk)["private"] == ["tor"]
    assert parse("tor=only", awk)["private"] == ["tor toronly"]
    for known, text in (
        ("tor", "dbcahe=1"),
        ("tor toronly", "dbcahe=1"),
        ("tor toronly", "tor=1\ndbcahe=1"),
    ):
        records = parse(text, awk, remembered=known)
        assert (records["network"], records["lock"]) == (["off"], ["1"]), text
    records = parse("", awk, remembered="tor toronly", absent="There is no node.conf.")
    assert (records["network"], records["lock"]) == (["off"], ["1"])
    assert parse("dbcache=300", awk, remembered="tor toronly")["network"] == ["on"]
    assert "lock" not in parse("tor=1", awk, remembered="tor toronly")


def test_cut_short(tmp_path: Path) -> None:
    """The last good file had tor=, and this one is its beginning."""
    last = tmp_path / "node.conf"
    last.write_text("dbcache=300\ntor=only\n")
    records = parse("dbcache=300\n", cut=str(last))
    assert (records["network"], records["lock"]) == (["off"], ["1"])


# -- the packet filter -----------------------------------------------------------------------
@dataclass
class Machine:
    """A root directory with records, and nft and ip that note what they are told."""

    path: Path
    shell: list[str]
    fails: bool = False
    missing: bool = False  # there is no table
    said: list[str] = field(default_factory=list)

    def write(self, name: str, text: str) -> Path:
        """Puts a file below the machine's root."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs cairn-tor-firewall."""
        log = self.path / "log"
        log.write_text("")
        status = 1 if self.fails else 0
        # as nft does, it accepts nothing, too
        nft = self.write(
            "nft",
            f'#!/bin/sh\necho "nft $*" >>{log}\n/bin/cat >>{log}\n'
            f"[ $1 != list ] || exit {1 if self.missing else status}\nexit {status}\n",
        )
        link = self.write("ip", f'#!/bin/sh\necho "ip $*" >>{log}\n')
        nft.chmod(0o755)
        link.chmod(0o755)
        script = LIBRARY / "cairn-tor-firewall"
        result = subprocess.run(
            [*self.shell, str(script), "--root", str(self.path), *words],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={
                "PATH": f"{self.path}/bin:/usr/bin:/bin",
                "CAIRN_NFT": str(nft),
                "CAIRN_IP": str(link),
            },
        )
        self.said = log.read_text().splitlines()
        return result


@pytest.fixture(params=SHELLS)
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    """A machine with two links."""
    made = Machine(tmp_path, request.param.split())
    for link in ("lo", "end0", "end1"):
        made.write(f"sys/class/net/{link}/type", "1\n")
    return made


RECORDS = "chain main\nnetwork on\n"


def test_no_rules_without_tor_only(machine: Machine) -> None:
    """Then what was there before is taken away, and a missing nft is no failure."""
    machine.write("run/cairn/node-conf.records", RECORDS)
    assert machine.run().returncode == 0
    assert machine.said == ["nft list table inet cairn_tor", "nft delete table inet cairn_tor"]
    machine.fails = True
    assert machine.run().returncode == 0
    assert machine.run("--print").stdout == ""


def test_rules_for_tor_only(machine: Machine) -> None:
    """One table, replaced in one step; Tor's user may go out if Tor runs, and nobody else."""
    machine.write("run/cairn/node-conf.records", RECORDS + "tor only\nlock 1\n")
    machine.write("run/cairn/torrc", "SocksPort 127.0.0.1:9050\n")
    result = machine.run()
    assert (result.returncode, result.stderr) == (0, "")
    assert machine.said[0] == "nft -f -"
    loaded = machine.said[1:-1]
    assert machine.said[-1] == "nft list table inet cairn_tor"
    assert loaded == machine.run("--print").stdout.splitlines()
    assert "policy drop;" in "\n".join(loaded)
    (machine.path / "run/cairn/torrc").unlink()
    assert "skuid" not in machine.run("--print").stdout


@pytest.mark.parametrize("records", [None, "", "chain main\n", "network off\nlock 1\n"])
def test_rules_in_doubt(machine: Machine, records: str | None) -> None:
    """Nobody knows what the owner wants: nothing leaves."""
    if records is not None:
        machine.write("run/cairn/node-conf.records", records)
    assert machine.run().returncode == 0
    assert machine.said[0] == "nft -f -"
    assert "skuid" not in "\n".join(machine.said)


def test_rules_that_do_not_load(machine: Machine) -> None:
    """No rules, no network: the links go down, and the unit has failed."""
    machine.write("run/cairn/node-conf.records", RECORDS + "lock 1\n")
    machine.fails = True
    result = machine.run()
    assert result.returncode == 1
    assert "the node has no network" in result.stderr
    assert machine.said[-2:] == ["ip link set end0 down", "ip link set end1 down"]


@pytest.mark.parametrize("printed", ["", "echo table inet cairn_tor;"])
def test_rules_that_are_not_made(machine: Machine, printed: str) -> None:
    """Of nothing, or a part of the rules, nothing is in force: no network."""
    machine.write("run/cairn/node-conf.records", RECORDS + "lock 1\n")
    machine.write("bin/cat", f"#!/bin/sh\n{printed} exit 1\n").chmod(0o755)
    result = machine.run()
    assert result.returncode == 1
    assert "the node has no network" in result.stderr
    assert machine.said == ["ip link set end0 down", "ip link set end1 down"]


def test_rules_that_are_not_there(machine: Machine) -> None:
    """nft has ended well, and there is no table: no network."""
    machine.write("run/cairn/node-conf.records", RECORDS + "lock 1\n")
    machine.missing = True
    assert machine.run().returncode == 1
    assert machine.said[-2:] == ["ip link set end0 down", "ip link set end1 down"]


def test_lock_that_cannot_be_looked_for(machine: Machine) -> None:
    """Is there, as far as anybody knows."""
    machine.write("run/cairn/node-conf.records", RECORDS + "tor only\nlock 1\n")
    grep = machine.write("bin/grep", '#!/bin/sh\n[ "$1" != -qx ] || exit 2\nexec /bin/grep "$@"\n')
    grep.chmod(0o755)
    assert machine.run().returncode == 0
    assert machine.said[0] == "nft -f -"


def test_the_network_needs_the_rules() -> None:
    """systemd-networkd is not started when the unit has failed, and Tor's user is the rules'."""
    units = ROOT / "overlay/usr/lib/systemd/system"
    drop_in = (units / "systemd-networkd.service.d/cairn.conf").read_text()
    assert "\nRequires=cairn-tor-firewall.service\nAfter=cairn-tor-firewall.service\n" in drop_in
    # read again with node.conf; a network that is up stays, unless the rules cannot be loaded
    unit = (units / "cairn-tor-firewall.service").read_text()
    assert not re.search("(?m)^(RemainAfterExit|PartOf)=", unit)
    wanted = r"(?m)^Wants=.*\bcairn-tor-firewall\.service"
    assert re.search(wanted, (units / "node-config.service").read_text())
    assert "\nOnFailure=cairn-no-network.target\n" in unit
    off = (units / "cairn-no-network.target").read_text()
    assert re.search(r"(?m)^Conflicts=.*\bsystemd-networkd\.service", off)
    users = (ROOT / "overlay/usr/lib/sysusers.d/cairn.conf").read_text()
    assert "u cairn-tor    840 " in users
    assert "meta skuid 840 " in (LIBRARY / "cairn-tor-firewall").read_text()
    assert "User=cairn-tor\n" in (units / "cairn-tor.service").read_text()


# -- Tor -------------------------------------------------------------------------------------
KEY = "C2K66BPMZ34O56RZNRAMCCGK2LFFN4XZXFRFQ4VGJGJ5GFYRGQDQ"
SERVICE = (
    "SocksPort 0\nHiddenServiceDir /var/lib/cairn/tor/rpc\nHiddenServicePort 8332 127.0.0.1:8332\n"
)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("key", [None, "", KEY[1:], KEY.lower(), f"{KEY}A", f"x {KEY}"])
def test_no_onion_service_without_a_clients_key(
    tmp_path: Path, shell: str, key: str | None
) -> None:
    """Without one Tor would let everybody in; what is left of an older one goes."""
    tor = Machine(tmp_path, shell.split())
    tor.write("run/cairn/torrc", SERVICE)
    (tmp_path / "run/cairn/tor").mkdir()
    old = tor.write("var/lib/cairn/tor/rpc/authorized_clients/old.auth", "descriptor:x25519:OLD\n")
    if key is not None:
        tor.write("run/cairn/wallet/onion-client.pub", f"{key}\n")
    command = [*tor.shell, str(LIBRARY / "cairn-tor"), "--root", str(tmp_path)]
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "CAIRN_TOR": "echo started"},
    )
    assert result.returncode == 0
    assert "Tor runs without that service" in result.stderr
    assert f"-f {tmp_path}/run/cairn/tor/torrc" in result.stdout
    assert "HiddenService" in SERVICE
    assert "HiddenService" not in (tmp_path / "run/cairn/tor/torrc").read_text()
    assert not old.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_clients_key_is_in_place_first(tmp_path: Path, shell: str) -> None:
    """One client, and files that nobody else reads; its address is for the screen."""
    tor = Machine(tmp_path, shell.split())
    tor.write("run/cairn/torrc", SERVICE)
    tor.write("run/cairn/wallet/onion-client.pub", f"{KEY}\n")
    (tmp_path / "run/cairn/tor").mkdir()
    command = [*tor.shell, str(LIBRARY / "cairn-tor"), "--root", str(tmp_path)]
    said = subprocess.check_output(
        command, text=True, env={"PATH": "/usr/bin:/bin", "CAIRN_TOR": "echo started"}
    )
    assert said.startswith("started --defaults-torrc")
    service = tmp_path / "var/lib/cairn/tor/rpc"
    clients = service / "authorized_clients"
    assert [path.name for path in clients.iterdir()] == ["wallet.auth"]
    assert (clients / "wallet.auth").read_text() == f"descriptor:x25519:{KEY}\n"
    assert service.stat().st_mode & 0o777 == clients.stat().st_mode & 0o777 == 0o700
    (service / "hostname").write_text(f"{ONION}\n")
    subprocess.run([*command, "--onion"], check=True)
    assert (tmp_path / "run/cairn/tor/rpc-onion").read_text() == f"{ONION}\n"

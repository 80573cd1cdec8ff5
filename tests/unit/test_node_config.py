"""node-config: what the user may write, and what becomes of it."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from lab.node import free_port
from lab.paths import ROOT

BINDS = ("bind=0.0.0.0", "bind=[::]")
LIBRARY = ROOT / "overlay/usr/lib/cairn"
SHELLS = ["dash", "busybox sh"]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3333333333333333333333333333333333333333333 me@home"


@cache
def applets() -> str:
    """A folder with the commands of the image, which are busybox's."""
    folder = Path(tempfile.mkdtemp(prefix="applets"))
    atexit.register(shutil.rmtree, folder)
    names = "awk cat chmod cmp cut grep head mkdir mktemp mv paste readlink rm sed sort"
    for name in (names + " sha256sum sync tail touch tr wc").split():
        (folder / name).symlink_to("/usr/bin/busybox")
    return str(folder)


@dataclass
class Node:
    """A root directory on which node-config runs."""

    path: Path
    script: Path
    bitcoind: Path
    broken: bool = False  # a program of node-config's says why it fails

    def run(self, text: str | bytes | None, shell: str = "busybox sh") -> str:
        """Writes node.conf, runs node-config, returns the report."""
        tools = f"{applets()}:" if shell.startswith("busybox") else ""
        boot = self.path / "boot"
        boot.mkdir(exist_ok=True)
        if text is not None:
            data = text if isinstance(text, bytes) else text.encode()
            (boot / "node.conf").write_bytes(data)
        bitcoind = ["--bitcoind", str(self.bitcoind)]
        result = subprocess.run(
            [*shell.split(), str(self.script), "--root", str(self.path), *bitcoind],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": tools + os.environ["PATH"]},
        )
        assert result.returncode == 0, result.stderr
        report = self.read("run/cairn/node-conf.report")
        assert result.stderr.endswith(report)
        assert self.broken or result.stderr == report
        return report

    def read(self, name: str) -> str:
        """A file below the node's root."""
        return (self.path / name).read_text()

    def options(self) -> list[str]:
        """The user's part of the generated bitcoin.conf, and the chain if it is not main."""
        text = self.read("run/bitcoind/bitcoin.conf")
        # for a test chain listening.awk adds them in a section of their own
        text = re.sub(r"(?m)^\[\w+\]\nbind=0\.0\.0\.0\n", "", text)
        own = ("#", "includeconf=", "chain=main", *BINDS)
        return [line for line in text.splitlines() if not line.startswith(own)]

    def records(self, name: str) -> list[str]:
        """The values of one record."""
        lines = self.read("run/cairn/node-conf.records").splitlines()
        return [line.partition(" ")[2] for line in lines if line.split(" ")[0] == name]


@pytest.fixture
def node(tmp_path: Path, root: Path, bitcoind: Path) -> Node:
    """A node with an empty root directory."""
    return Node(tmp_path, root / "overlay/usr/bin/node-config", bitcoind)


@pytest.mark.parametrize("shell", SHELLS)
def test_good_file(node: Node, shell: str) -> None:
    """Everything a user may say, said right."""
    report = node.run(
        "\ufeffhostname=attic\r\n"
        f"sshkey={KEY}\r\nsshkey={KEY}2\r\n"
        "ip=192.168.1.50/24 # fixed\r\ngateway=192.168.1.1\r\ndns=9.9.9.9\r\n"
        "\tprune = 2000\r\nnolisten=1\r\nregtest=1\r\n"
        "[regtest]\r\naddnode=192.0.2.7:8333\r\naddnode=192.0.2.8\r\nprune=600",
        shell,
    )
    assert report == ""
    assert node.options() == [
        "chain=regtest",
        "prune=2000",
        "listen=0",
        "[regtest]",
        "addnode=192.0.2.7:8333",
        "addnode=192.0.2.8",
        "prune=600",
    ]
    assert node.read("run/cairn/hostname") == "attic\n"
    assert node.read("run/cairn/authorized_keys") == f"{KEY}\n{KEY}2\n"
    assert (node.path / "run/cairn/authorized_keys").stat().st_mode & 0o777 == 0o600
    assert (node.path / "run/bitcoind/bitcoin.conf").stat().st_mode & 0o777 == 0o640
    network = node.read("run/systemd/network/10-node-conf.network")
    for line in ("Address=192.168.1.50/24", "Gateway=192.168.1.1", "DNS=9.9.9.9"):
        assert f"\n{line}\n" in network
    assert network.endswith("\n[IPv6AcceptRA]\nDHCPv6Client=no\nUseDNS=no\n")


CLOSED = ["networkactive=0", *(f"{n}=0" for n in ["listen", "listenonion", "natpmp"])]
CLOSED += ["i2pacceptincoming=0"]
BAD = [
    # line, words of the report
    ("prunee=550", "no option of that name"),
    ("noprunee=1", "no option of that name"),
    ("prune=100", "at least 550"),
    ("prune=lots", "whole number"),
    ("dbcache=2", "from 4 to"),
    ("dbcache=", "whole number"),
    ("port=70000", "from 1024 to 65535"),
    ("rpcport=22", "from 1024 to 65535"),
    ("rpcport=8333", "8333 is this node's port for other nodes; choose another one"),
    ("port=8332", "8332 is this node's port for RPC; choose another one"),
    ("bind=192.168.1.50:80", "from 1024 on"),
    ("whitebind=noban@[fd00::5]:22", "from 1024 on"),
    ("listen=yes", "takes 0 or 1"),
    ("regtest", "there is no '='"),
    ("-prune=550", "without the leading hyphen"),
    ("chain=mainnet", "takes main, test"),
    ("main.prune=550", "below its [section]"),
    ("Prune=550", "write the option's name in small letters: prune="),
    ("SSHKEY=ssh-ed25519", "write the option's name in small letters: sshkey="),
    ("PRUNEE=550", "not an option's name"),
    ("; a comment", "a comment begins with #"),
    ("// a=comment", "a comment begins with #"),
    ("prune=100GB", "in MiB, without a unit"),
    ("=550", "not an option's name"),
    ("minimumchainwork=many", "hexadecimal"),
    ("onlynet=tor", "takes ipv4, ipv6"),
    ("proxy=a b", "takes an address"),
    ("rpcallowip=0.0.0.0/0", "RPC stays on loopback"),
    ("rpcbind=0.0.0.0", "RPC stays on loopback"),
    ("rpcpassword=secret", "RPC stays on loopback"),
    ("datadir=/tmp", "may write"),
    ("includeconf=/etc/passwd", "may write"),
    ("alertnotify=reboot", "runs no other program"),
    ("walletnotify=x", "runs no other program"),
    ("daemon=1", "the service sets it"),
    ("txindex=1", "needs all blocks"),
    ("reindex-chainstate=1", "needs reindex=1 instead"),
    ("datadisk=", "takes auto, system"),
    ("datadisk=/dev/sda", "takes auto, system"),
    ("datadisk=S1;S2", "takes auto, system"),
    ("erase=", "takes a disk's serial number"),
    ("erase=yes", "takes the serial number"),
    ("erase=auto", "takes the serial number"),
    ("update=", "takes auto, notify or off"),
    ("update=yes", "takes auto, notify or off"),
    ("update=Auto", "takes auto, notify or off"),
    ("updateurl=", "takes the address of a bundle"),
    ("updateurl=example.org/cairn/", "takes the address of a bundle"),
    ("updateurl=ftp://example.org/cairn/", "takes the address of a bundle"),
    ("updateurl=https://example.org", "takes the address of a bundle"),
    ("updateurl=https://me:secret@example.org/", "takes the address of a bundle"),
    ("updateurl=https://example.org/`reboot`", "takes the address of a bundle"),
    ("updateurl=file:///etc/passwd", "takes the address of a bundle"),
    ("hostname=my_node", "a host name has"),
    ("hostname=-x", "a host name has"),
    ("hostname=localhost", "a meaning of its own"),
    ("hostname=LOCAL", "a meaning of its own"),
    ("hostname=ip6-loopback", "a meaning of its own"),
    ("hostname=test", "a meaning of its own"),
    ("hostname=wpad", "a meaning of its own"),
    ("sshkey=hello", "not an OpenSSH public key"),
    ('sshkey=command="x" ' + KEY, "not an OpenSSH public key"),
    ("ip=192.168.1.50", "with its prefix"),
    ("ip=192.168.1.500/24", "with its prefix"),
    ("ip=fd00:::1/64", "with its prefix"),
    ("ip=1.2.3.4/33", "with its prefix"),
    ("dns=nine", "not an IP address"),
    ("gateway=1.2.3.4", "only together with ip="),
    ("[mainnet]", "unknown section"),
    ("x" * 5000 + "=1", "longer than 4096"),
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "words"), BAD, ids=[line[:24] for line, _ in BAD])
def test_bad_line(node: Node, shell: str, line: str, words: str) -> None:
    """Each bad line is reported with its number and ignored; the others count."""
    report = node.run(f"# first\nmaxconnections=7\n{line}\n", shell).splitlines()
    assert len(report) <= 2
    assert report[-1].startswith("node.conf line 3: ")
    assert words in report[-1]
    closed = [option for option in CLOSED if option in node.options()]
    assert bool(closed) == (len(report) == 2)
    assert [option for option in node.options() if option not in CLOSED] == ["maxconnections=7"]


def test_second_value_of_a_single_key(node: Node) -> None:
    """The first host name counts, and so does the first chain."""
    report = node.run("hostname=a\nhostname=b\nregtest=1\nsignet=1\n")
    assert "line 2" in report
    assert "line 4" in report
    assert node.read("run/cairn/hostname") == "a\n"
    assert node.options() == ["chain=regtest", *CLOSED]


def test_full_node_may_index(node: Node) -> None:
    """With prune=0 the transaction index is allowed."""
    assert node.run("prune=0\ntxindex=1\n") == ""
    assert node.options() == ["prune=0", "txindex=1"]


def test_unknown_section_hides_its_lines(node: Node) -> None:
    """Nothing below an unknown section counts, the next known one does."""
    report = node.run("[moon]\ndbcache=600\n[main]\ndbcache=700\n")
    assert len(report.splitlines()) == 2
    assert node.options() == ["[main]", "dbcache=700"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "There is no node.conf"),
        (b"\x00\x01\x02prune=600\n", "not a text file"),
        (b"prune=600\n" * 10000, "larger than 64 KiB"),
    ],
)
def test_unusable_file(node: Node, shell: str, data: bytes | None, words: str) -> None:
    """No file, garbage, far too much: defaults and one sentence; without network if the
    file may have said something about it."""
    assert words in node.run(data, shell)
    assert node.options() == ([] if data is None else CLOSED)
    assert node.read("run/cairn/hostname") == "cairn\n"
    assert not (node.path / "run/cairn/authorized_keys").exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("mounted", "words"),
    [
        ("/boot", "There is no node.conf"),
        ("/var", "The boot partition, with node.conf, is not there"),
    ],
)
def test_boot_partition_is_missing(node: Node, shell: str, mounted: str, words: str) -> None:
    """A partition that was not mounted is told from one without the file."""
    (node.path / "proc/self").mkdir(parents=True)
    (node.path / "proc/self/mountinfo").write_text(
        f"22 1 8:1 / / ro - erofs x ro\n23 22 8:2 / {mounted} rw - ext4 y rw\n"
    )
    assert node.run(None, shell).startswith(words)


def test_random_bytes_never_stop_the_node(node: Node) -> None:
    """Text-like garbage yields reports, never a failure."""
    garbage = bytes(range(1, 256)) * 20
    assert "ignored" in node.run(garbage)


def test_taken_back(node: Node) -> None:
    """What is no longer in the file is gone after the next run."""
    node.run(f"sshkey={KEY}\nip=10.0.0.2/8\nhostname=x\n")
    node.run("# nothing\n")
    assert not (node.path / "run/cairn/authorized_keys").exists()
    assert not (node.path / "run/systemd/network/10-node-conf.network").exists()
    assert node.read("run/cairn/hostname") == "cairn\n"


def test_refused_options(node: Node) -> None:
    """After bitcoind refused them, the options are left out and the network is off."""
    (node.path / "run/cairn").mkdir(parents=True)
    (node.path / "run/cairn/bitcoind.refused").write_text("Error: Invalid -proxy address\n")
    report = node.run("signet=1\nproxy=nowhere\n")
    assert "Invalid -proxy address" in report
    assert node.options() == ["chain=signet", *CLOSED]


@pytest.mark.parametrize("shell", SHELLS)
def test_refusal_ends_with_a_corrected_file(node: Node, shell: str) -> None:
    """A reboot is not needed; the same file stays refused, and starts no reindex."""
    text = "proxy=nowhere\nreindex=1\n"
    node.run(text, shell)
    records = node.read("run/cairn/node-conf.records").splitlines()
    (said,) = [record for record in records if record.startswith("sum ")]
    refused = node.path / "run/cairn/bitcoind.refused"
    refused.write_text(f"Error: Invalid -proxy address\n{said}\n")
    for _ in range(2):
        report = node.run(text, shell)
        assert "(Error: Invalid -proxy address)" in report
        assert node.options() == CLOSED
        assert node.read("run/bitcoind/once.conf") == ""
        assert said in node.read("run/cairn/node-conf.records")
    assert "refused" not in node.run("proxy=192.168.1.60:9050\nreindex=1\n", shell)
    assert "proxy=192.168.1.60:9050" in node.options()
    assert node.read("run/bitcoind/once.conf") == "reindex=1\n"
    assert not refused.exists()


def test_reindex_once(node: Node) -> None:
    """reindex=1 counts until it was carried out, and again after it was taken out."""
    done = node.path / "var/lib/cairn/reindex-done"
    done.parent.mkdir(parents=True)
    assert node.run("reindex=1\n") == ""
    assert node.read("run/bitcoind/once.conf") == "reindex=1\n"
    done.touch()
    assert "carried out already" in node.run("reindex=1\n")
    assert node.read("run/bitcoind/once.conf") == ""
    node.run("# nothing\n")
    assert not done.exists()
    assert node.options() == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("old", ["", "reindex\n", None])
def test_reindex_once_for_each_chain(node: Node, shell: str, old: str | None) -> None:
    """One chain's is not another's; a note without a chain, from an older image, is main's."""
    started = LIBRARY / "cairn-bitcoind-started"
    state = node.path / "var/lib/cairn"
    state.mkdir(parents=True)

    def given(text: str) -> bool:
        report = node.run(text, shell)
        once = node.read("run/bitcoind/once.conf") == "reindex=1\n"
        assert ("carried out already" in report) is (not once and "reindex=1" in text)
        subprocess.run([*shell.split(), started, "--root", node.path], check=True)
        return once

    if old is None:
        assert given("reindex=1\n")
        assert (state / "reindex-done.main").read_text() == "reindex\n"
    else:
        (state / "reindex-done").write_text(old)
    assert not given("reindex=1\n")
    assert given("chain=signet\nreindex=1\n")
    assert not given("chain=signet\nreindex=1\n")
    assert not given("reindex=1\n")
    # taken out on the one: the other's stays
    assert not given("chain=signet\n")
    assert not given("reindex=1\n")
    assert not given("# none\n")
    assert not list(state.glob("reindex-done*"))
    assert given("reindex=1\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_reindex_is_a_first_sync_again(node: Node, shell: str) -> None:
    """For node-tune, until it has ended once more; on mainnet, and each time that it is given."""
    state = node.path / "var/lib/cairn"
    state.mkdir(parents=True)
    marker, rebuild = state / "initial-sync-done", state / "rebuild"

    def stays(text: str) -> bool:
        marker.touch()
        node.run(text, shell)
        return marker.exists()

    assert stays("# none\n")
    assert stays("chain=signet\nreindex=1\n")
    assert not stays("reindex=1\n")
    # There it says that an automatic rebuild has reached the tip, too.
    rebuild.write_text("begun=1600000000\nchain=main\nwhat=x\n")
    assert stays("reindex=1\n")
    rebuild.unlink()
    (state / "reindex-done.main").write_text("reindex\n")
    assert stays("reindex=1\n")


def test_automatic_rebuild(node: Node) -> None:
    """It is given until it has begun, whatever became of the user's own reindex=1."""
    wanted = node.path / "var/lib/cairn/rebuild-wanted"
    wanted.parent.mkdir(parents=True)
    wanted.touch()
    assert node.run("# nothing\n") == ""
    assert node.read("run/bitcoind/once.conf") == "reindex=1 # automatic\n"
    node.run("reindex=1\n")
    assert node.read("run/bitcoind/once.conf") == "reindex=1\nreindex=1 # automatic\n"
    (wanted.parent / "reindex-done.main").write_text("reindex\n")
    node.run("reindex=1\n")
    assert node.read("run/bitcoind/once.conf") == "reindex=1 # automatic\n"
    wanted.unlink()
    node.run("")
    assert node.read("run/bitcoind/once.conf") == ""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("wanted", "chain", "given"),
    [
        ("", "main", True),
        ("", "signet", False),
        ("main\n", "signet", False),
        ("signet\n", "signet", True),
        ("signet\n", "main", False),
        ("\0garbage", "main", False),
    ],
)
def test_rebuild_of_another_chain(
    node: Node, shell: str, wanted: str, chain: str, given: bool
) -> None:
    """A rebuild is given to the chain that it was meant for; an old request is for main."""
    file = node.path / "var/lib/cairn/rebuild-wanted"
    file.parent.mkdir(parents=True)
    file.write_text(wanted)
    node.run(f"chain={chain}\n", shell)
    assert node.read("run/bitcoind/once.conf") == ("reindex=1 # automatic\n" if given else "")


@pytest.mark.parametrize(
    ("line", "bound"),
    [
        ("", True),
        ("prune=600", True),
        ("maxconnections=40", True),
        ("maxconnections=0", False),
        ("bind=192.0.2.1", False),
        ("listen=0", False),
        ("nolisten=1", False),
        ("connect=192.0.2.1", False),
        ("proxy=192.0.2.1:9050", False),
        ("maxconnections=0", False),
        ("whitebind=192.0.2.1:8333", False),
        ("listen=1\nproxy=192.0.2.1:9050", True),
        ("regtest=1", True),
        ("regtest=1\n[regtest]\nlisten=0", False),
        ("[main]\nport=8444", True),
        ("[main]\nbind=192.0.2.1", False),
        ("[regtest]\nbind=192.0.2.1", True),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_binds(node: Node, shell: str, line: str, bound: bool) -> None:
    """The node listens on its port only, unless the user or Core's rules say otherwise.

    tests/hostile/test_listening.py asks the daemon.
    """
    node.run(line, shell)
    assert all(bind in node.read("run/bitcoind/bitcoin.conf") for bind in BINDS) is bound


def test_check(node: Node, tmp_path: Path) -> None:
    """--check reports on a file and writes nothing."""
    file = tmp_path / "mine.conf"
    command = [str(node.script), "--bitcoind", str(node.bitcoind), "--check", str(file)]
    missing = subprocess.run(command, check=False, capture_output=True, text=True)
    assert missing.returncode == 2
    assert "there is no file" in missing.stderr
    file.write_text("prune=1\nprune=5\n")
    bad = subprocess.run(command, check=False, capture_output=True, text=True)
    assert bad.returncode == 1
    assert bad.stdout.startswith("node.conf line 2: ")
    file.write_text("prune=600\n")
    assert subprocess.run(command, check=False).returncode == 0
    assert not (tmp_path / "run").exists()


def test_template_is_valid(node: Node, root: Path) -> None:
    """The file that ships says nothing, and each of its examples is accepted."""
    template = (root / "board/common/node.conf").read_text()
    assert node.run(template) == ""
    assert node.options() == []
    examples = [
        line[1:] for line in template.splitlines() if line.startswith("#") and line[1:2].isalpha()
    ]
    examples = [KEY.join(("sshkey=", "")) if "sshkey" in line else line for line in examples]
    assert len(examples) > 6
    assert node.run("\n".join(examples)) == ""


def test_wrong_option(node: Node) -> None:
    """Usage errors end with 2."""
    for arguments in (["--fast"], ["--root"]):
        result = subprocess.run(
            [str(node.script), *arguments], check=False, capture_output=True, text=True
        )
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 1


def start_daemon(node: Node, tmp_path: Path) -> list[str]:
    """Starts bitcoind with the generated file, returns its log once it is up."""
    port = free_port()
    data = tmp_path / "data"
    data.mkdir()
    command = [str(node.bitcoind), f"-conf={node.path}/run/bitcoind/bitcoin.conf"]
    command += [f"-datadir={data}", "-listen=0", "-dnsseed=0", f"-rpcport={port}"]
    command += ["-connect=0", f"-rpccookiefile={data}/cookie", "-printtoconsole=1"]
    with (tmp_path / "log").open("w") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            text = (tmp_path / "log").read_text()
            if "Done loading" in text or daemon.poll() is not None:
                return text.splitlines()
            time.sleep(0.1)
        raise AssertionError("bitcoind neither started nor ended")
    finally:
        daemon.terminate()
        daemon.wait(60)


def test_real_daemon_starts_on_what_is_left(node: Node, root: Path, tmp_path: Path) -> None:
    """With all bad lines in one file the daemon starts, and the user's value wins."""
    share = node.path / "usr/share/cairn"
    share.mkdir(parents=True)
    (share / "defaults.conf").write_text(
        (root / "overlay/usr/share/cairn/defaults.conf").read_text()
    )
    (node.path / "run/bitcoind").mkdir(parents=True)
    (node.path / "run/bitcoind/tuned.conf").write_text("prune=999\nmaxmempool=60\n")
    # not those that bring doubt about prune
    doubt = ("[", "datadir", "includeconf")
    lines = [line for line, _ in BAD if not line.startswith(doubt) and "prun" not in line.lower()]
    node.run("\n".join(["regtest=1", "listen=0", "prune=777", *lines, "[moon]", "dbcache=8"]))
    log = "\n".join(start_daemon(node, tmp_path))
    assert "Done loading" in log
    assert "Prune configured to target 777 MiB" in log
    assert "maxmempool" in log


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", ["bitcoin-conf.awk", "listening.awk"])
@pytest.mark.parametrize("text", [None, "NR == 3 { exit 1 } { print }", "END { exit 2 }"])
def test_a_program_that_fails(
    node: Node, tmp_path: Path, shell: str, program: str, text: str | None
) -> None:
    """bitcoin.conf is whole, or one without network; a card that fails opens nothing."""
    copied = tmp_path / "image"
    for folder in ("usr/lib/cairn", "usr/share/cairn"):
        shutil.copytree(ROOT / "overlay" / folder, copied / folder)
    shutil.copytree(ROOT / "overlay/usr/share/cairn", node.path / "usr/share/cairn")
    node.script = copied / "usr/bin/node-config"
    node.script.parent.mkdir()
    shutil.copy(ROOT / "overlay/usr/bin/node-config", node.script)
    node.broken = True
    awk = copied / "usr/lib/cairn" / program
    if text is None:
        awk.unlink()
    else:
        awk.write_text(text + "\n")
    report = node.run("proxy=192.168.1.60:9050\nprune=0\nlisten=0\nsignet=1\n", shell)
    assert "bitcoind's options could not be made of node.conf" in report
    assert node.records("network") == ["off"]
    assert node.records("lock") == ["1"]
    assert node.options() == ["networkactive=0", "listen=0", "chain=signet"]
    assert node.records("prune-doubt")


@pytest.mark.parametrize("shell", SHELLS)
def test_page(node: Node, shell: str) -> None:
    """The page is wanted unless a line says, or may have said, that it is not."""
    wanted = node.path / "run/cairn/page.on"
    (node.path / "var/lib/cairn").mkdir(parents=True, exist_ok=True)
    cases = {
        "": True,
        "page=1": True,
        "prune=600": True,
        "page=0": False,
        "page=false": False,
        "page=off": False,
        "pagee=0": False,
        "dbcahe=100": True,
        # the network is off, and the page says why
        "proxyy=192.0.2.7": True,
        "moonphase=1": False,
        "[main]\npage=0": False,
    }
    for text, expected in cases.items():
        node.run(text + "\n", shell)
        assert wanted.exists() == expected, text
        for memory in ("node.conf", "private"):
            (node.path / "var/lib/cairn" / memory).unlink(missing_ok=True)
    # what the last good file said counts when this one is lost
    node.run("page=0\n", shell)
    (node.path / "boot/node.conf").unlink()
    node.run(None, shell)
    assert not wanted.exists()
    node.run("page=1\n", shell)
    assert wanted.exists()

"""Wallets' access: keys of node.conf, the password and key that the node makes, the screen."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.unit.test_tor import AWKS, ONION, SHELLS, parse

LIBRARY = ROOT / "overlay/usr/lib/cairn"
SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3333333333333333333333333333333333333333333 me@home"
OWN = ("walletaccess", "walletkey", "walletshow", "filters", "rpcport")
NOTHING: dict[str, list[str]] = {}


# -- node.conf -------------------------------------------------------------------------------
@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("walletaccess=rpc", {"walletaccess": ["rpc"], "rpcport": ["8332"]}),
        (
            f"walletaccess=tor\nwalletaccess=rpc\nwalletkey={SSH}\nwalletkey={SSH}2\nsignet=1",
            {
                "walletaccess": ["rpc", "ssh", "tor"],
                "walletkey": [SSH, f"{SSH}2"],
                "rpcport": ["38332"],
            },
        ),
        (
            "walletaccess=tor\nwalletshow=1\nfilters=true\nrpcport=9000",
            {
                "walletaccess": ["rpc", "tor"],
                "walletshow": ["1"],
                "filters": ["1"],
                "rpcport": ["9000"],
            },
        ),
        ("walletshow=0\nfilters=false", {**NOTHING, "filters": ["0"]}),
        ("wallet=rpc\ntor=0", NOTHING),  # Core's own option
    ],
)
def test_keys(awk: str, text: str, records: dict[str, list[str]]) -> None:
    """What may be said; no way in is opened that was not asked for."""
    found = parse(text, awk)
    assert {name: found[name] for name in OWN if name in found} == records
    assert found["good"] == ["1"]


BAD = [
    *(
        "walletaccess=",
        "walletaccess=ssh",
        "walletaccess=1",
        "walletaccess=rpc,tor",
        "walletaccess",
    ),
    *("walletaccess=RPC", "[main]\nwalletaccess=rpc", "walletacces=rpc", "Walletaccess=rpc"),
    *("walletaccess=rpc tor", "walletkey=", "walletkey=x", f'walletkey=command="x" {SSH}'),
    *(f"[regtest]\nwalletkey={SSH}", f"walletkey={SSH} prune=0", f"sshkeywallet={SSH}"),
    *("walletshow=yes", "walletshow=2", "walletshow=on", "filters=2", "filters=basic", "filter=1"),
]


@pytest.mark.parametrize("awk", AWKS)
def test_unknown_values_open_nothing(awk: str) -> None:
    """A line that cannot be used gives nobody access, and shows nothing."""
    for text in BAD:
        found = parse(text, awk)
        assert [name for name in OWN if name in found] == [], text
        assert "good" not in found and len(found["rejected"]) >= 1, text


@pytest.mark.parametrize("awk", AWKS)
def test_filters_and_cores_options(awk: str) -> None:
    """What contradicts filters=1 is left out, since Core would end over it."""
    for line in ("blockfilterindex=0", "noblockfilterindex=1", "peerblockfilters=0"):
        found = parse(f"filters=1\n{line}\n", awk)
        assert "option" not in found, line
        assert "contradicts filters=1" in found["rejected"][0]
        assert found["network"] == ["on"]


# -- cairn-wallet ----------------------------------------------------------------------------
@dataclass
class Node:
    """A root directory with records of node.conf."""

    path: Path
    shell: str

    def run(self, records: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs cairn-wallet."""
        for folder in ("run/cairn", "run/bitcoind", "var/lib/cairn"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        (self.path / "run/cairn/node-conf.records").write_text(records)
        return subprocess.run(
            [*self.shell.split(), str(LIBRARY / "cairn-wallet"), "--root", str(self.path)],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )

    def read(self, name: str) -> str:
        """A file below the root."""
        return (self.path / name).read_text()

    def conf(self) -> dict[str, str]:
        """The options in wallet.conf."""
        lines = self.read("run/bitcoind/wallet.conf").splitlines()
        return dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    def mode(self, name: str) -> int:
        """Rights of a file."""
        return (self.path / name).stat().st_mode & 0o777


@pytest.fixture(params=SHELLS)
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    """A node without a password yet."""
    return Node(tmp_path, request.param)


RPC = "chain main\nnetwork on\nwalletaccess rpc\nrpcport 8332\n"
TOR = f"{RPC}walletaccess tor\n"


def test_nobody_without_the_lines(node: Node) -> None:
    """Nothing is made, and what an earlier boot of another file left is taken back."""
    assert node.run("chain main\nnetwork on\n").returncode == 0
    assert node.conf() == {}
    assert not (node.path / "var/lib/cairn/wallet").exists()
    node.run(f"{TOR}walletshow 1\n")
    assert node.conf() and node.read("run/cairn/wallet/show")
    node.run("chain main\nnetwork on\nwalletshow 1\n")
    assert node.conf() == {}
    left = [path.name for path in (node.path / "run/cairn/wallet").iterdir()]
    assert left == [] and not (node.path / "run/cairn/wallet.report").exists()


def test_password(node: Node) -> None:
    """Random, root's alone, the same at the next boot; bitcoind has a salted hash of it."""
    assert node.run(RPC).returncode == 0
    password = node.read("var/lib/cairn/wallet/rpc-password").strip()
    assert len(password) == 32
    assert node.mode("var/lib/cairn/wallet/rpc-password") == 0o600
    assert node.mode("var/lib/cairn/wallet") == 0o700
    assert node.mode("run/bitcoind/wallet.conf") == 0o640
    for _ in range(2):
        user, salt, digest = node.conf()["rpcauth"].replace("$", ":").split(":")
        assert user == "wallet"
        assert digest == hmac.new(salt.encode(), password.encode(), hashlib.sha256).hexdigest()
        assert password not in node.read("run/bitcoind/wallet.conf")
        node.run(RPC)
        assert node.read("var/lib/cairn/wallet/rpc-password").strip() == password


@pytest.mark.parametrize("broken", ["", "x\n", "0" * 31 + "\n", "\x00" * 33, "$(id)\n"])
def test_password_that_cannot_be_read(node: Node, broken: str) -> None:
    """It is made anew, and the owner is told."""
    node.run(RPC)
    (node.path / "var/lib/cairn/wallet/rpc-password").write_text(broken)
    assert node.run(RPC).returncode == 0
    assert len(node.read("var/lib/cairn/wallet/rpc-password")) == 33
    assert "was made anew" in node.read("run/cairn/wallet.report")


def test_list_of_methods(node: Node) -> None:
    """Nothing on it spends or changes the node; other users keep what they had."""
    node.run(RPC)
    listed = node.conf()["rpcwhitelist"].removeprefix("wallet:").split(",")
    forbidden = "send sign dump key stop generate ban node pass encrypt psbt prune rescan import"
    for word in forbidden.split():
        named = [name for name in listed if word in name]
        assert named == {"send": ["sendrawtransaction"], "import": ["importdescriptors"]}.get(
            word, []
        )
    assert len(set(listed)) == len(listed)
    assert node.conf()["rpcwhitelistdefault"] == "0"
    for option in ("rpcwhitelist=bob:uptime", "rpcwhitelistdefault=1", "rpcwhitelistdefault=0"):
        node.run(f"{RPC}option - {option}\n")
        assert "rpcwhitelistdefault" not in node.conf()
        assert node.conf()["rpcwhitelist"]


def test_key_of_the_onion_service(node: Node) -> None:
    """The two halves belong together; only the public one is readable for others."""
    assert node.run(TOR).returncode == 0
    private = node.read("var/lib/cairn/wallet/onion-client").strip()
    public = node.read("run/cairn/wallet/onion-client.pub").strip()
    head = bytes.fromhex("302e020100300506032b656e04220420")
    key = head + base64.b32decode(private + "====")
    said = subprocess.run(
        ["openssl", "pkey", "-inform", "DER", "-noout", "-text"],
        input=key,
        check=True,
        capture_output=True,
    ).stdout.decode()
    shown = "".join(said.split("pub:")[1].split()).replace(":", "")
    assert base64.b32decode(public + "====").hex() == shown
    assert node.mode("var/lib/cairn/wallet/onion-client") == 0o600
    node.run(TOR)
    assert node.read("var/lib/cairn/wallet/onion-client").strip() == private


STEPS = "run/cairn/wallet.steps"
#: Records, and what the steps for them name
WAYS = {
    RPC: ("walletkey=", "wallet@%h", "8332"),
    f"{RPC}sshkey {SSH}\n": ("root@%h",),
    f"{RPC}walletaccess ssh\nwalletkey {SSH}\nsshkey {SSH}\n": ("wallet@%h",),
    RPC.replace("8332", "18443"): ("-L 18443:127.0.0.1:18443", "port 18443"),
    TOR: ("ClientOnionAuthDir", "while node.conf has walletshow=1", "= Through Tor"),
    f"{TOR}walletshow 1\n": ("the password that the node's screen shows",),
}


def test_steps_for_the_page(node: Node) -> None:
    """How to connect, for everybody in the local network: no secret, no address; of root's making.

    The page's collector takes so many lines of a way, of this length (cairn-status.awk).
    """
    for records, named in WAYS.items():
        assert node.run(records).returncode == 0
        text = node.read(STEPS)
        assert all(words in text for words in named), text
        assert ("= Through Tor" in text) == ("walletaccess tor" in records)
        assert ("Without a key nobody" in text) == ("key " not in records)
        lines = text.splitlines()
        assert lines[0].startswith("= ")
        assert max(map(len, lines)) <= 300
        assert len(lines) <= 20
        kept = node.path / "var/lib/cairn/wallet"
        secrets = [path.read_text().strip() for path in kept.iterdir()]
        secrets += [node.conf()["rpcauth"], node.conf()["rpcauth"].split("$")[1], SSH.split()[1]]
        assert [secret for secret in secrets if secret in text] == []
        assert node.mode(STEPS) == 0o644
    # a link in its place is replaced, not followed
    (node.path / STEPS).unlink()
    (node.path / "elsewhere").write_text("kept")
    (node.path / STEPS).symlink_to(node.path / "elsewhere")
    node.run(RPC)
    assert not (node.path / STEPS).is_symlink()
    assert node.read("elsewhere") == "kept"


def test_no_steps_without_access(node: Node) -> None:
    """They go with the lines in node.conf, and where what they lead to could not be made."""
    node.run(TOR)
    assert (node.path / STEPS).exists()
    node.run("chain main\nnetwork on\n")
    assert not (node.path / STEPS).exists()
    node.run(TOR)
    result = node.run(TOR, PATH=f"{broken_tools(node)}:{os.environ['PATH']}")
    assert result.returncode == 0
    assert not (node.path / STEPS).exists()


def broken_tools(node: Node) -> Path:
    """A folder with programs that fail, for the front of PATH."""
    tools = node.path / "tools"
    tools.mkdir()
    for tool in ("openssl", "sha256sum"):
        (tools / tool).write_text("#!/bin/sh\nexit 1\n")
        (tools / tool).chmod(0o755)
    return tools


def test_without_openssl(node: Node) -> None:
    """Nobody gets in, and the screen says so."""
    result = node.run(TOR, PATH=f"{broken_tools(node)}:{os.environ['PATH']}")
    assert result.returncode == 0
    assert node.conf() == {}
    assert node.read("run/cairn/wallet.report").startswith("Wallets cannot connect")


@pytest.mark.parametrize("tool", ["head", "od", "tr"])
def test_without_random_bits(node: Node, tool: str) -> None:
    """No password that others can work out: a new one each time, or nobody gets in."""
    tools = node.path / "tools"
    tools.mkdir()
    (tools / tool).write_text("#!/bin/sh\nexit 1\n")
    (tools / tool).chmod(0o755)
    made = []
    for _ in range(2):
        assert node.run(RPC, PATH=f"{tools}:{os.environ['PATH']}").returncode == 0
        password = node.path / "var/lib/cairn/wallet/rpc-password"
        made += [node.conf()["rpcauth"], password.read_text()] if node.conf() else []
        password.unlink(missing_ok=True)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("failing", ["option", "rpcwhitelist"])
def test_lists_that_cannot_be_read(node: Node, failing: str) -> None:
    """Other users get no more because it is not known whether the owner has lists."""
    tools = node.path / "tools"
    tools.mkdir()
    for tool in ("sed", "grep"):
        (tools / tool).write_text(
            f'#!/bin/sh\ncase $* in *{failing}*) exit 1 ;; esac\nexec /usr/bin/{tool} "$@"\n'
        )
        (tools / tool).chmod(0o755)
    records = f"{RPC}option - rpcwhitelist=bob:uptime\n"
    assert node.run(records, PATH=f"{tools}:{os.environ['PATH']}").returncode == 0
    assert node.conf() == {}
    assert node.read("run/cairn/wallet.report").startswith("Wallets cannot connect")


# -- the screen ------------------------------------------------------------------------------
def screen(node: Node, page: int) -> list[str]:
    """The rows of a page; none if there is no such page."""
    command = [*node.shell.split(), str(LIBRARY / "cairn-wallet-screen"), "--root", str(node.path)]
    said = subprocess.run([*command, str(page)], check=False, capture_output=True, text=True)
    assert said.returncode == (0 if said.stdout else 1)
    return said.stdout.splitlines()


def test_screen(node: Node) -> None:
    """Text and codes fit 80x24, and are there only while node.conf asks for them."""
    node.run(TOR)
    assert [screen(node, page) for page in (1, 2, 3)] == [[], [], []]
    node.run(f"{TOR}walletshow 1\n")
    assert node.mode("run/cairn/wallet/show") == 0o640
    assert screen(node, 3) == []  # Tor has no address yet
    (node.path / "run/cairn/tor").mkdir()
    (node.path / "run/cairn/tor/rpc-onion").write_text(f"{ONION}\n")
    (node.path / "proc/sys/kernel").mkdir(parents=True)
    (node.path / "proc/sys/kernel/hostname").write_text("a" * 63 + "\n")
    text = "\n".join(screen(node, 1))
    assert ONION in text
    assert node.read("var/lib/cairn/wallet/rpc-password").strip() in text
    assert node.read("var/lib/cairn/wallet/onion-client").strip() in text
    for page in (1, 2, 3):
        rows = screen(node, page)
        assert 10 < len(rows) <= 24
        assert max(map(len, rows)) <= 80 + (page == 1) * 40
        if page > 1:
            assert set("".join(rows[1:])) == set(" \u2580\u2584\u2588")


def test_a_pipe_for_an_address(node: Node) -> None:
    """Tor's user, who writes the onion's address, cannot hold the screen up."""
    node.run(f"{TOR}walletshow 1\n")
    (node.path / "run/cairn/tor").mkdir()
    os.mkfifo(node.path / "run/cairn/tor/rpc-onion")
    started = time.monotonic()
    assert screen(node, 3) == []
    assert time.monotonic() - started < 60

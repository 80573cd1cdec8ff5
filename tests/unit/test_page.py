"""cairn-status: status.json, metrics and the page's text in made-up states of a node."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lab.paths import ROOT
from tests.shared.page import EVIL, SCRIPT, STATES, UPTIME, State, collected

SCHEMA = json.loads((ROOT / "docs/design/status.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SENTENCES = {
    "starting": "Starting: Verifying blocks.",
    "syncing": "Synchronising: block 402,113 of 958,126, about 2 days left.",
    "tip": "Up to date: block 958,126.",
    "stopped": "The node is not running; the reason is below.",
    "rebuilding": "Rebuilding a damaged database: block 402,113 of 958,126.",
    "disk-full": "The node is not running; the reason is below.",
    "no-network": "Up to date: block 958,126.",
    "update": "Up to date: block 958,126.",
    "hostile": "Up to date: block 958,126.",
}


def figures(folder: Path) -> dict[str, Any]:
    """What status.json says, which fits the schema."""
    found = json.loads((folder / "status.json").read_text())
    assert [error.message for error in VALIDATOR.iter_errors(found)] == []
    assert isinstance(found, dict)
    return found


class Markup(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        """Reads the page."""
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element and the names of its attributes."""
        self.elements.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        """Notes text."""
        self.text += data


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize("name", STATES)
def test_states(tmp_path: Path, name: str, shell: str) -> None:
    """Each state: one sentence, the schema, a page without JavaScript, metrics."""
    folder = collected(tmp_path, name, shell)
    assert sorted(path.name for path in folder.iterdir()) == [
        "history",
        "index.html",
        "metrics",
        "status.json",
    ]
    found = figures(folder)
    assert found["sentence"] == found["text"]["sentence"] == SENTENCES[name]
    page = Markup((folder / "index.html").read_text())
    assert SENTENCES[name] in page.text
    assert "{{" not in page.text.replace("{{version}}", "")
    for sentence in found["warnings"] + found["reports"]:
        assert sentence in page.text
    assert ("The USB stick has version 9.0.0" in page.text) == (name == "update")
    lines = (folder / "metrics").read_text().splitlines()
    form = r"cairn_[a-z_]+(\{[a-z]+=\"[a-z0-9]+\"\})? -?[0-9]+(\.[0-9]+)?"
    assert all(line.startswith("# ") or re.fullmatch(form, line) for line in lines)
    state = next(line for line in lines if line.endswith(" 1") and "cairn_state" in line)
    assert state == f'cairn_state{{state="{found["state"]}"}} 1'


def test_before_the_first_look() -> None:
    """The folder has a page from the beginning; test_states: the collector's takes its place."""
    lines = (ROOT / "overlay/usr/lib/tmpfiles.d/cairn.conf").read_text().splitlines()
    rows = [line.split() for line in lines if line.startswith("C") and "/status/" in line]
    assert [row[1:5] for row in rows] == [["/run/cairn/status/index.html", "0644", "root", "root"]]
    text = (ROOT / "overlay" / rows[0][6].lstrip("/")).read_text()
    page = Markup(text)
    assert "The node is starting." in page.text and "{{" not in text
    # without JavaScript it is loaded again, too
    assert ("meta", ("http-equiv", "content")) in page.elements
    assert [one for one in page.elements if one[0] == "script"] == [("script", ("src", "defer"))]
    links = re.findall('(?:href|src)="([^"]*)"', text)
    shown = ROOT / "overlay/usr/share/cairn/page"
    assert all(link.startswith("/static/") for link in links)
    assert all((shown / link.removeprefix("/static/")).exists() for link in links)


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_hostile_text_is_text(tmp_path: Path, shell: str) -> None:
    """Whatever says markup: the page has the same elements, and shows it as it is."""
    honest = Markup((collected(tmp_path / "a", "tip", shell) / "index.html").read_text())
    folder = collected(tmp_path / "b", "hostile", shell)
    page = Markup((folder / "index.html").read_text())
    extra = {"li", "h3", "ol"}
    assert [one for one in page.elements if one[0] not in extra] == [
        one for one in honest.elements if one[0] not in extra
    ]
    assert {one for one in page.elements if one[0] in extra} == {(one, ()) for one in extra}
    found = figures(folder)
    assert found["text"]["hostname"] == EVIL
    assert found["core_version"] == EVIL
    assert found["wallet"] == [{"title": EVIL, "steps": [EVIL]}]
    assert found["peers_other"] == 1
    assert found["peers"] == 2
    assert "<script>alert" not in (folder / "index.html").read_text()
    assert EVIL in page.text


def test_figures(tmp_path: Path) -> None:
    """What the tip's figures are."""
    found = figures(collected(tmp_path, "tip"))
    expected = {
        "state": "tip",
        "chain": "main",
        "pruned": True,
        "blocks": 958126,
        "peers": 7,
        "peers_in": 1,
        "peers_ipv4": 3,
        "peers_onion": 2,
        "mempool_transactions": 48211,
        "temperature_celsius": 51.2,
        "unclean_shutdowns": 3,
        "prune_mib": 2000,
        "version": "0.1.0",
        "warnings": found["warnings"],
    }
    assert {key: found[key] for key in expected} == expected
    assert len(found["history"]["blocks"]) == 24
    assert found["history"]["blocks"][0][0] == 958126
    assert (
        found["text"]["peers"] == "7: 3 over IPv4, 1 over IPv6, 2 over Tor, 1 over I2P; 1 came in"
    )
    assert found["text"]["temperature"] == "51 °C"


MESSAGE = (
    "There is a message about the disk for the data; the node's screen and node-status show it."
)
DONE = "Put a # in front of erase= in node.conf: it is done."
#: What datadisk.report says, and what the page may say of it
DISKS = {
    DONE: DONE,
    "datadisk= in node.conf cannot be used; the data stay on SSD (serial hunter2, 512 GB).": (
        "datadisk= in node.conf cannot be used; the data stay where they are."
    ),
    (
        "datadisk= in node.conf is not the disk with the data, which stay on hunter2 (without a"
        " serial number, 512 GB). To move them, write datadisk=system first."
    ): (
        "datadisk= in node.conf is not the disk with the data, which stay where they are. To move"
        " them, write datadisk=system first."
    ),
    "There is no room for the data on the system's disk; they stay where they are. Write a card": (
        "There is no room for the data on the system's disk; they stay where they are. Write a card"
    ),
    "There is no room for the data on the disk sda (serial hunter2): 9.0 GB are needed,": MESSAGE,
    "Copying the data to the system's disk failed: cp: can't open 'wallets/hunter2'": MESSAGE,
    f"{DONE} hunter2": MESSAGE,
}


def test_nothing_secret_is_shown(tmp_path: Path) -> None:
    """Lines of node.conf, Core's words, names of wallets and unknown reports stay on the screen."""
    for name, text in {
        "node-conf": 'node.conf line 3: "rpcpassword=hunter2": not for node.conf.\nhunter2\n',
        "bitcoind": "A wallet is damaged (last: hunter2); scp /var/lib/bitcoind/hunter2/x .\n",
        "wallet": "user hunter2\n",
        "update": "Version 2 is there: node-update install http://hunter2.onion/c installs it\n",
        "datadisk": "".join(f"{line}\n" for line in DISKS),
    }.items():
        file = tmp_path / f"run/cairn/{name}.report"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    folder = collected(tmp_path, "tip")
    assert not [path for path in folder.iterdir() if "hunter2" in path.read_text()]
    assert "Line 3 of node.conf cannot be used" in (folder / "index.html").read_text()
    assert "node-update install URL installs it" in (folder / "index.html").read_text()
    known = list(DISKS.values())
    assert [line for line in figures(folder)["reports"] if line in known] == known
    assert "192.0.2.1" not in (folder / "status.json").read_text()


#: What bitcoind.report says, and what the page may say of it
REPORTED = {
    "bitcoind ended with exit-code (1): Error: Error loading hunter2: x; see journalctl.": (
        "bitcoind ended and is started again; the node's screen has its words."
    ),
    "A wallet is damaged (Error loading hunter2 (2).dat: x); bitcoind stays stopped and ...": (
        "A wallet is damaged; bitcoind stays stopped and has changed nothing. Restore it from your"
        " backup; until then put disablewallet=1 into node.conf and reboot: the node runs without"
        " wallets."
    ),
    "The card or disk fails (sda hunter2); bitcoind stays stopped. scp hunter2": (
        "The card or disk fails; bitcoind stays stopped. The node's screen says how to save the"
        " wallets."
    ),
    "bitcoind ended 9 times in 15 minutes (last: hunter2); it stays stopped": (
        "bitcoind ended several times within minutes; it stays stopped, and nothing has been"
        " changed. The node's screen says why; a reboot tries again."
    ),
    "Words that no rule is for: hunter2": (
        "There is a message about bitcoind; the node's screen and node-status show it."
    ),
}


@pytest.mark.parametrize("awk", ["mawk", "busybox awk"])
def test_the_daemons_report_in_our_words(tmp_path: Path, awk: str) -> None:
    """Only sentences that are known pass, and nothing that was put into them."""
    (tmp_path / "report").write_text("".join(f"{line}\n" for line in REPORTED))
    library = SCRIPT.parent
    words = [*awk.split(), "-f", str(library / "cairn-status-bitcoind.awk")]
    said = subprocess.run(
        [*words, str(library / "verdict.tsv"), str(tmp_path / "report")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.splitlines() == list(REPORTED.values())


def test_each_sentence_of_the_verdict_has_its_words(tmp_path: Path) -> None:
    """Of verdict.tsv none is shown as a message that the page knows nothing of."""
    table = SCRIPT.parent / "verdict.tsv"
    lines = [line for line in table.read_text().splitlines() if line.startswith("say\t")]
    report = "".join(line.split("\t")[2].format(said="a", copy="b") + "\n" for line in lines)
    (tmp_path / "report").write_text(report)
    words = ["mawk", "-f", str(SCRIPT.parent / "cairn-status-bitcoind.awk"), str(table)]
    said = subprocess.run([*words, str(tmp_path / "report")], check=True, capture_output=True)
    assert len(said.stdout.splitlines()) == len(lines) > 10
    assert b"There is a message" not in said.stdout


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_the_screen_shows_a_password(tmp_path: Path, shell: str) -> None:
    """The page says so as long as walletshow=1 is in force, and never has the password itself."""
    records = "run/cairn/node-conf.records"
    script = SCRIPT.parent / "cairn-wallet"
    for more, shown in (("walletshow 1\n", True), ("", False)):
        text = f"chain main\nnetwork on\nrpcport 8332\nwalletaccess rpc\nwalletaccess tor\n{more}"
        for name in ("run/cairn", "run/bitcoind", "var/lib/cairn"):
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / records).write_text(text)
        subprocess.run([*shell.split(), str(script), "--root", str(tmp_path)], check=True)
        folder = collected(tmp_path, "tip", shell, {records: text})
        said = [one for one in figures(folder)["reports"] if "password" in one]
        assert len(said) == shown
        assert all(one.startswith("The node's screen shows the password for") for one in said)
        for name in ("rpc-password", "onion-client"):
            secret = (tmp_path / "var/lib/cairn/wallet" / name).read_text().strip()
            assert not [path for path in folder.iterdir() if secret in path.read_text()]


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_ways_to_connect_a_wallet(tmp_path: Path, shell: str) -> None:
    """The steps that cairn-wallet has written; without them, how to get some."""
    records = "run/cairn/node-conf.records"
    for mdns, node in (("mdns 1\n", "attic.local"), ("", "NODE, where NODE is the node's address")):
        text = f"chain main\nnetwork on\n{mdns}rpcport 8332\nwalletaccess rpc\nwalletaccess tor\n"
        for folder in ("run/cairn", "run/bitcoind", "var/lib/cairn"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / records).write_text(text)
        script = SCRIPT.parent / "cairn-wallet"
        subprocess.run([*shell.split(), str(script), "--root", str(tmp_path)], check=True)
        ways = figures(collected(tmp_path, "tip", shell, {records: text}))["wallet"]
        assert [way["title"].split(",")[0] for way in ways] == ["Through SSH", "Through Tor"]
        steps = [step for way in ways for step in way["steps"]]
        assert f"ssh -N -L 8332:127.0.0.1:8332 wallet@{node}" in steps[1]
        assert len(steps) == 6 and "%h" not in "".join(steps)
    (tmp_path / "run/cairn/wallet.steps").unlink()
    for key, first in (("", "Put your SSH key"), ("sshkey x\n", "Let wallets in")):
        ways = figures(collected(tmp_path, "tip", shell, {records: f"chain main\n{key}"}))["wallet"]
        assert [way["steps"][0][: len(first)] for way in ways] == [first]


def test_compact_block_filters_are_a_way(tmp_path: Path) -> None:
    """While node-tune lets the node serve them, and peers can come in."""
    tuned = "blockfilterindex=1\npeerblockfilters=1\nprune=0\n"
    for said, step in {
        "mdns 1\n": "In the wallet, name this node as its peer: port 8333 of attic.local",
        "mdns 1\noption - port=9\n": "In the wallet, name this node as its peer: port 9 of"
        " attic.local",
        "option - listen=0\n": "",
        "option - prune=550\n": "",
        "tor 1\n": "",
    }.items():
        files = {"run/cairn/node-conf.records": f"chain main\n{said}"}
        files["run/bitcoind/tuned.conf"] = tuned
        ways = figures(collected(tmp_path, "tip", more=files))["wallet"]
        assert [way["steps"] for way in ways[1:]] == ([[step]] if step else [])


def test_history_is_bounded(tmp_path: Path) -> None:
    """A long sync keeps its first and newest points, with more time between them."""
    folder = collected(tmp_path, "syncing")
    points = "".join(f"progress {at * 30} {at} {at * 1000}\n" for at in range(1, 241))
    (folder / "history").write_text(f"chain main\nstep 30\n{points}")
    again = tmp_path / "run/cairn/status/history"
    text = again.read_text()
    folder = collect_with(tmp_path, text)
    found = figures(folder)["history"]["progress"]
    assert len(found) == 121
    assert found[0][0] == 30
    assert found[-1][0] == UPTIME
    assert "step 60\n" in again.read_text()
    # a file of another form, such as one cut short, takes nothing down
    for broken in ("progress 1 x\nblock\nstep 0\nknown\n", "\x00\xff" * 100, "progress"):
        figures(collect_with(tmp_path, broken))


def collect_with(root: Path, history: str) -> Path:
    """One look with this history."""
    folder = root / "run/cairn/status"
    (folder / "history").write_bytes(history.encode("latin-1"))
    kept = STATES["syncing"]
    try:
        STATES["syncing"] = State(chain=kept.chain)
        return collected(root, "syncing")
    finally:
        STATES["syncing"] = kept

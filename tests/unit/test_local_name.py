"""What the node shows in the local network: mdns=, page=, the announced name and its memory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.unit.test_node_config import SHELLS, Node

TABLE = ROOT / "overlay/usr/share/cairn/options.tsv"
MDNS = "run/systemd/resolved.conf.d/mdns.conf"
PAGE = "run/systemd/dnssd/cairn-page.dnssd"
UNIT = "usr/lib/systemd/system/cairn-page.service"
MEMORY = "var/lib/cairn/name"


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """The shells that run it."""
    return str(request.param)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with a page in its image, and a bitcoind that knows all options."""
    program = tmp_path / "bitcoind"
    names = f"sed -n 's/^\\([a-z][^\\t]*\\)\\t.*/  -\\1=<x>/p' {TABLE}"
    program.write_text(f"#!/bin/sh\n{names}\n")
    program.chmod(0o755)
    (tmp_path / "var/lib/cairn").mkdir(parents=True)
    (tmp_path / UNIT).parent.mkdir(parents=True)
    (tmp_path / UNIT).touch()
    return Node(tmp_path, ROOT / "overlay/usr/bin/node-config", program)


def shown(node: Node) -> set[str]:
    """What is on, by the records; the files agree with them."""
    on = {name for name in ("mdns", "page") if node.records(name) == ["1"]}
    assert (node.path / MDNS).exists() == ("mdns" in on)
    assert (node.path / PAGE).exists() == ({"mdns", "page"} <= on)
    return on


#: Lines, and what is on with them
LINES = {
    "# x": {"mdns", "page"},
    "mdns=1\npage=1": {"mdns", "page"},
    "mdns=0": {"page"},
    "mdns = false # x": {"page"},
    "page=0": {"mdns"},
    "mdns=0\npage=0": set(),
    # dns= is another option; an error in it switches the network off, and may be meant as mdns=
    "dns=0": {"mdns", "page"},
    "ip=192.168.1.50/24\ndns=9.9.9.9": {"mdns", "page"},
    # what cannot be used, and may have been meant to switch it off
    "mdns=O": {"page"},
    "mdns=": {"page"},
    "mdns": {"page"},
    "nomdns=1": {"page"},
    "mdsn=0": {"page"},
    "MDNS=0": {"page"},
    "-mdns=0": {"page"},
    "[main]\nmdns=0": {"page"},
    "mdns=1\nmdns=0": {"mdns", "page"},
    "dbcache=400mdns=0": {"page"},
    "hostname=attic mdns=0": {"page"},
    "addnode=192.0.2.7page=0": {"mdns"},
    "pag=0": {"mdns"},
    "page=no": {"mdns"},
    # nothing leaves that nobody has asked for; the page is an answer
    "tor=only": {"page"},
    "announce=0": set(),
    "mdn\u00a0s=0": set(),
    # nothing that these two are about
    # with the network off no announcement leaves
    "proxy=nowhere:x": {"page"},
    "prunee=550": {"mdns", "page"},
}


@pytest.mark.parametrize("text", LINES, ids=lambda text: text.replace("\n", " "))
def test_lines(node: Node, text: str) -> None:
    """On unless it is switched off, or may have been meant to be."""
    report = node.run(text + "\n", "dash")
    if text == "mdns=1\nmdns=0":  # the first counts, and the second is in doubt
        assert shown(node) == {"page"}
        return
    assert shown(node) == LINES[text]
    network = node.records("network")
    if text == "tor=only":  # as the owner has asked for: nothing to say
        assert report == ""
    if "mdns" in text.lower() and not text.startswith(("dbcache", "hostname")):
        # It is no misspelt dns=, which would be about privacy; stuck to a value it may be.
        assert network == ["on"]
    if network == ["on"] and "ignored" in report and LINES[text] != {"mdns", "page"}:
        assert "may have been meant to switch that off" in report


def test_lines_by_busybox(node: Node) -> None:
    """The same parser by the other awk, for one of each kind."""
    for text in ("# x", "mdns=0", "mdns=O", "dbcache=400mdns=0", "tor=only"):
        node.run(text + "\n", "busybox sh")
        assert shown(node) == LINES[text], text


def test_a_lost_file_shows_no_more(node: Node, shell: str) -> None:
    """What the last good file switched off stays off until a file can be read again."""
    node.run("mdns=0\n", shell)
    assert node.read("var/lib/cairn/private") == "mdns\n"
    (node.path / "boot/node.conf").unlink()
    report = node.run(None, shell)
    assert shown(node) == {"page"}
    assert "The node does not announce its name: the last good node.conf had mdns=" in report
    # the network is not what that line was about
    assert node.records("network") == ["on"]
    node.run("# good\n", shell)
    assert shown(node) == {"mdns", "page"}
    assert not (node.path / "var/lib/cairn/private").exists()


@pytest.mark.parametrize("data", [b"\x00", b"prune=600\n" * 10000])
def test_a_file_that_is_none(node: Node, shell: str, data: bytes) -> None:
    """It may have said anything."""
    node.run(data, shell)
    assert shown(node) == set()


def test_a_damaged_memory(node: Node) -> None:
    """Something was switched off, and nobody knows what."""
    (node.path / "var/lib/cairn/private").write_text("\x00\n")
    node.run(None, "dash")
    assert shown(node) == set()


def test_no_page_is_announced_that_is_not_there(node: Node) -> None:
    """An image without the page."""
    (node.path / UNIT).unlink()
    node.run("# x\n", "dash")
    assert (node.path / MDNS).exists()
    assert not (node.path / PAGE).exists()


def test_what_is_announced(node: Node) -> None:
    """By the machine's name, on port 80; readable for systemd-resolved's user."""
    node.run("# x\n", "dash")
    assert node.read(MDNS) == "[Resolve]\nMulticastDNS=yes\n"
    assert node.read(PAGE) == "[Service]\nName=%H\nType=_http._tcp\nPort=80\n"
    for name in (MDNS, PAGE):
        assert (node.path / name).stat().st_mode & 0o777 == 0o644
        assert (node.path / name).parent.stat().st_mode & 0o777 == 0o755
    # off in what the image has, so that nothing is announced where node-config has not run
    assert "\nMulticastDNS=no\n" in (ROOT / f"overlay/usr/lib/{MDNS[4:-9]}cairn.conf").read_text()


#: What is remembered, hostname=, and the name at the next boot
REMEMBERED = [
    ("cairn cairn7\n", "", "cairn7"),
    ("cairn cairn7\n", "cairn", "cairn7"),
    ("attic2 attic9\n", "attic2", "attic9"),
    # another name in node.conf ends it
    ("cairn cairn7\n", "attic", "attic"),
    # not as it was written
    ("cairn cairn7", "", "cairn"),
    ("cairn cairn7\n\n", "", "cairn"),
    ("cairn cairn07\n", "", "cairn"),
    ("cairn cairn12345\n", "", "cairn"),
    ("cairn cairn\n", "", "cairn"),
    ("cairn router\n", "", "cairn"),
    ("cairn cairn7.local\n", "", "cairn"),
    ("cairn cairn7 x\n", "", "cairn"),
    ("cairn \x1b[2J\n", "", "cairn"),
    ("", "", "cairn"),
]


@pytest.mark.parametrize(("memory", "wanted", "name"), REMEMBERED)
def test_remembered_name(node: Node, memory: str, wanted: str, name: str) -> None:
    """A node keeps the name that it took, for as long as hostname= is the same."""
    (node.path / MEMORY).write_text(memory)
    node.run(f"hostname={wanted}\n" if wanted else "# x\n", "dash")
    assert node.read("run/cairn/hostname") == f"{name}\n"


def look(root: Path, shell: str, looks: int, *names: str) -> str:
    """cairn-name looks so often; systemd-resolved has each of the names for the same time.

    What is no answer (``! why``) is an error of busctl's. Returns what was said on standard error.
    """
    (root / "names").write_text("".join(f"{name}\n" * (looks // len(names)) for name in names))
    busctl = root / "busctl"
    busctl.write_text(
        f"#!/bin/sh\nIFS= read -r line <{root}/names; sed -i 1d {root}/names\n"
        f"[ -s {root}/names ] || touch {root}/over\n"
        'case $line in "! "*) printf "%s\\n" "${line#! }" >&2; exit 1 ;; esac\n'
        'printf "%s\\n" "$line"\n'
    )
    sleep = root / "sleep"
    sleep.write_text(f"#!/bin/sh\n[ ! -e {root}/over ]\n")
    for file in (busctl, sleep):
        file.chmod(0o755)
    (root / "over").unlink(missing_ok=True)
    result = subprocess.run(
        [*shell.split(), str(ROOT / "overlay/usr/lib/cairn/cairn-name"), "--root", str(root)],
        check=False,  # the end of the sleep is an error
        env={**os.environ, "CAIRN_BUSCTL": str(busctl), "CAIRN_SLEEP": str(sleep)},
        stderr=subprocess.PIPE,
        text=True,
    )
    return result.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine that is named cairn, by its node.conf."""
    for name in ("run/cairn", "var/lib/cairn", "proc/sys/kernel"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "run/cairn/node-conf.records").write_text("network on\nhostname cairn\n")
    (tmp_path / "proc/sys/kernel/hostname").write_text("cairn\n")
    return tmp_path


def names(root: Path) -> tuple[str, str, str]:
    """The machine's name, the one on the screen, and what is remembered."""
    files = ("proc/sys/kernel/hostname", "run/cairn/mdns-name", MEMORY)
    found = [(root / name).read_text().strip() if (root / name).exists() else "" for name in files]
    return found[0], found[1], found[2]


def test_the_name_that_was_asked_for(machine: Path, shell: str) -> None:
    """Nothing needs to be remembered."""
    look(machine, shell, 12, 's "cairn"')
    assert names(machine) == ("cairn", "cairn", "")


def test_another_machine_has_the_name(machine: Path, shell: str) -> None:
    """The new one is the machine's at once, and remembered when it stays."""
    look(machine, shell, 3, 's "cairn7"')
    assert names(machine) == ("cairn7", "cairn7", "")
    look(machine, shell, 10, 's "cairn7"')
    assert names(machine) == ("cairn7", "cairn7", "cairn cairn7")
    assert (machine / MEMORY).stat().st_mode & 0o777 == 0o644


def test_somebody_who_claims_each_name(machine: Path) -> None:
    """Does not have the card written for ever, nor the name grow without an end."""
    look(machine, "dash", 40, *(f's "cairn{number}"' for number in range(2, 42)))
    assert names(machine) == ("cairn41", "cairn41", "")
    look(machine, "dash", 55, *(f's "cairn{number}"' for number in range(50, 55)))
    assert names(machine)[2] == "cairn cairn52"
    look(machine, "dash", 11, 's "cairn123456"')
    assert names(machine)[0] == "cairn54"


@pytest.mark.parametrize(
    "said", ["", "Failed to get property", 's "router"', 's "cairn7\\033[2J"', 's "cairn7"x', "s x"]
)
def test_no_name(machine: Path, said: str) -> None:
    """What is no number behind the name is not taken over."""
    look(machine, "dash", 2, said)
    assert names(machine) == ("cairn", "", "")


TIMED_OUT = "! Call failed: Connection timed out"
NO_BUS = "! Failed to connect to bus: No such file or directory"


def test_why_there_is_no_name(machine: Path, shell: str) -> None:
    """A bus that does not answer is told once, with what that means."""
    said = look(machine, shell, 8, TIMED_OUT)
    assert said.splitlines() == [
        "cairn-name: systemd-resolved does not say by which name this node is found in the network"
        " (Call failed: Connection timed out), so the screen may show none, or the one from before."
        " Your data are as they were. It is asked again every 30 s; use the node's address, and"
        " restart it if this stays."
    ]
    assert names(machine) == ("cairn", "", "")


#: What systemd-resolved says, one look each; what is told of it
TOLD = {
    "another reason is told, too": (
        [TIMED_OUT, TIMED_OUT, NO_BUS, NO_BUS],
        ["timed out", "to bus"],
    ),
    "the same again after an answer": (
        [TIMED_OUT, TIMED_OUT, 's "cairn"', TIMED_OUT, TIMED_OUT],
        ["timed out", "timed out"],
    ),
    "not before systemd-resolved is on the bus": ([NO_BUS, 's "cairn"', 's "cairn"'], []),
    "an answer without a name": (['s ""', 's ""'], ['(s "")']),
    "an empty answer": (["", ""], ["(an empty answer)"]),
    "no reason": (["! ", "! "], ["(busctl ended with an error)"]),
    "nothing that moves a cursor": (["! a\x1b[2Jb", "! a\x1b[2Jb"], ["(a?[2Jb)"]),
    "another machine's name is an answer": (['s "router"', 's "router"'], []),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_is_told(machine: Path, case: str) -> None:
    """Each reason once, unless it worked in between."""
    answers, expected = TOLD[case]
    told = look(machine, "dash", len(answers), *answers).splitlines()
    assert len(told) == len(expected), told
    for line, words in zip(told, expected, strict=True):
        assert words in line

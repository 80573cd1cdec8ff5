"""update= and updateurl= in node.conf: asked for, or not; what cannot be understood asks nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import program
from tests.unit.test_node_config import SHELLS, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose bitcoind knows all options of the table."""
    table = (ROOT / "overlay/usr/share/cairn/options.tsv").read_text().splitlines()
    names = [line.split("\t")[0] for line in table if not line.startswith("#")]
    said = "".join(f"  -{name}=<x>\\n" for name in names)
    (tmp_path / "var/lib/cairn").mkdir(parents=True)
    bitcoind = program(tmp_path / "bitcoind", f"printf '{said}'")
    return Node(tmp_path, ROOT / "overlay/usr/bin/node-config", bitcoind)


@pytest.mark.parametrize("shell", SHELLS)
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

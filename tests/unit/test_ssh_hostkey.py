"""cairn-ssh-hostkey: one key for the life of a node, whatever fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import program

SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-ssh-hostkey"


class Node:
    """A root folder with what the script reads, and a folder for commands that fail."""

    def __init__(self, root: Path, shell: str) -> None:
        """The folder of the key is there (tmpfiles.d)."""
        self.root = root
        self.shell = shell.split()
        self.key = root / "var/lib/cairn/ssh/ssh_host_ed25519_key"
        self.key.parent.mkdir(parents=True)
        (root / "proc/sys/kernel").mkdir(parents=True)
        (root / "proc/sys/kernel/hostname").write_text("attic\n")

    def run(self) -> subprocess.CompletedProcess[str]:
        """Runs the script."""
        return subprocess.run(
            [*self.shell, str(SCRIPT), "--root", str(self.root)],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin"},
        )


@pytest.fixture(params=["dash", "busybox sh"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    """A node without a key."""
    return Node(tmp_path, request.param)


def test_made_once(node: Node) -> None:
    """For root alone, with the node's name, and the same ever after."""
    assert node.run().stdout.startswith("made a new SSH host key: 256 SHA256:")
    key = node.key.read_bytes()
    assert node.key.stat().st_mode & 0o777 == 0o600
    assert node.key.with_suffix(".pub").read_text().endswith(" attic\n")
    assert (node.run().stdout, node.run().returncode) == ("", 0)
    assert node.key.read_bytes() == key
    assert len(list(node.key.parent.iterdir())) == 2


def test_on_the_disk_before_it_is_used(node: Node) -> None:
    """The content before it gets its name, and the name before the script ends."""
    log = node.root / "log"
    program(node.root / "bin/sync", f'echo "sync ${{1##*/}}" >>{log}\nexec /usr/bin/sync "$@"')
    program(node.root / "bin/mv", f'echo "mv ${{2##*/}}" >>{log}\nexec /usr/bin/mv "$@"')
    node.run()
    name = node.key.name
    done = log.read_text().splitlines()
    assert done == [f"sync {name}.new", f"mv {name}", f"mv {name}.pub", "sync ssh"]


@pytest.mark.parametrize("left", ["empty", "zeros", "cut", "torn"])
def test_no_key_is_replaced(node: Node, left: str) -> None:
    """What was read and is no key, and what a cut left beside it."""
    node.run()
    key = node.key.read_bytes()
    middle = key[:130] + b"QQQQ" + key[134:]
    node.key.write_bytes({"empty": b"", "zeros": bytes(400), "cut": key[:200]}.get(left, middle))
    node.key.with_name(f"{node.key.name}.new").write_bytes(b"")
    assert node.run().stdout.startswith("made a new SSH host key")
    assert node.key.read_bytes() not in (key, middle)
    assert node.run().stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        'echo "Load key: Input/output error" >&2; exit 255',
        'echo "Load key: memory allocation failed" >&2; exit 255',
        "kill -9 $$",
        "exit 127",
    ],
)
def test_a_key_that_cannot_be_looked_at_stays(node: Node, words: str) -> None:
    """Another one would be taken for another machine."""
    node.run()
    key = node.key.read_bytes()
    program(node.root / "bin/ssh-keygen", f'[ "$1" != -y ] || {{ {words}; }}\nexit 1')
    result = node.run()
    assert "could not be looked at and stays as it is" in result.stdout
    assert result.returncode == 0
    assert node.key.read_bytes() == key


def test_no_key_can_be_made(node: Node) -> None:
    """The script fails, and sshd is not started without one."""
    program(node.root / "bin/ssh-keygen", "exit 1")
    assert node.run().returncode != 0
    assert not node.key.exists()

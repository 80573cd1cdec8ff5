"""cairn-ssh-hostkey: one key for the life of the node."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT

SHELLS = ["dash", "busybox sh"]
SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-ssh-hostkey"
KEYGEN = shutil.which("ssh-keygen")
KEY = "var/lib/cairn/ssh/ssh_host_ed25519_key"


def run(root: Path, shell: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Runs it; ``path``: folders that come first."""
    return subprocess.run(
        [*shell.split(), str(SCRIPT), "--root", str(root)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{path}{os.environ['PATH']}"},
    )


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A root directory with what the script needs."""
    (tmp_path / KEY).parent.mkdir(parents=True)
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/hostname").write_text("cairn\n")
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("before", [None, ""])
def test_a_key_is_made_once(node: Path, shell: str, before: str | None) -> None:
    """Also in place of an empty file; the second start takes the same."""
    if before is not None:
        (node / KEY).write_text(before)
    first = run(node, shell)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("made a new SSH host key: 256 SHA256:")
    key = (node / KEY).read_bytes()
    assert run(node, shell).stdout == ""
    assert (node / KEY).read_bytes() == key
    assert sorted(file.name for file in (node / KEY).parent.iterdir()) == [
        "ssh_host_ed25519_key",
        "ssh_host_ed25519_key.pub",
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_an_error_that_passes(node: Path, tmp_path: Path, shell: str) -> None:
    """ssh-keygen fails once, as with too little memory: the key stays the node's."""
    assert run(node, shell).returncode == 0
    key = (node / KEY).read_bytes()
    fake = tmp_path / "bin/ssh-keygen"
    fake.parent.mkdir()
    once = tmp_path / "once"
    fake.write_text(f'#!/bin/sh\n[ -e {once} ] || {{ : >{once}; exit 255; }}\nexec {KEYGEN} "$@"\n')
    fake.chmod(0o755)
    assert run(node, shell, f"{fake.parent}:").returncode == 0
    assert once.exists()
    assert (node / KEY).read_bytes() == key


@pytest.mark.parametrize("shell", SHELLS)
def test_an_unusable_key_is_kept(node: Path, shell: str) -> None:
    """A node that cannot be reached any more helps nobody: there is another key, and a word."""
    (node / KEY).write_text("garbage\n")
    (node / KEY).chmod(0o600)
    result = run(node, shell)
    assert result.returncode == 0
    assert "could not be used" in result.stderr
    assert (node / f"{KEY}.unusable").read_text() == "garbage\n"
    assert "PRIVATE KEY" in (node / KEY).read_text()

"""The marker of cairn-datadisk on a real ext4 whose superblock a power cut has torn."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import captured, program

LIB = ROOT / "overlay/usr/lib/cairn"
SECTOR = 512
#: Both are in the first 4 KiB: the label in one sector, the checksum in the next.
SUPERBLOCK = (2, 3)
OLD, NEW = "mk-0123abcd-9f9f", "at-0123abcd"


def partition(path: Path, label: str) -> bytes:
    """A data partition of the system's disk, as systemd-repart makes a small one."""
    with path.open("wb") as file:
        file.truncate(64 << 20)
    assert captured("mkfs.ext4", "-q", "-F", "-L", "data", str(path)).returncode == 0
    for text in (OLD, label) if label != OLD else (OLD,):
        assert captured("e2label", str(path), text).returncode == 0
    return path.read_bytes()


def shell(root: Path, script: str) -> str:
    """Output of a script that has the functions, as cairn-datadisk has."""
    functions = f'root={root} work={root} system_part=p4; . "{LIB}/datadisk-facts.sh"'
    text = f'set -eu; {functions}; . "{LIB}/datadisk-move.sh"; {script}'
    # Tools get the partition as /dev/p4.
    for tool in ("e2label", "fsck.ext4"):
        real = shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin")
        arguments = '"$1" "$2"' if tool == "fsck.ext4" else '"$1" ${2+"$2"}'
        change = 'for a; do shift; case $a in /dev/*) a=$root$a ;; esac; set -- "$@" "$a"; done'
        program(root / "bin" / tool, f"root={root}; {change}; exec {real} {arguments}")
    program(root / "bin/udevadm", "exit 0")
    env = {"PATH": f"{root}/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    result = captured("dash", "-c", text, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("backups", [False, True])
@pytest.mark.parametrize("written", [*itertools.product([False, True], repeat=2)])
def test_torn(tmp_path: Path, written: tuple[bool, bool], backups: bool) -> None:
    """Whichever sectors were written: the marker is the old or the new one, and can be written."""
    (tmp_path / "dev").mkdir()
    device = tmp_path / "dev/p4"
    before = partition(device, OLD)
    assert captured("e2label", str(device), NEW).returncode == 0
    after = device.read_bytes()
    changed = {
        at // SECTOR
        for at in range(0, len(after), SECTOR)
        if before[at : at + SECTOR] != after[at : at + SECTOR]
    }
    assert changed >= set(SUPERBLOCK)
    torn = bytearray(before)
    for sector in sorted(changed):
        place = slice(sector * SECTOR, (sector + 1) * SECTOR)
        if written[SUPERBLOCK.index(sector)] if sector in SUPERBLOCK else backups:
            torn[place] = after[place]
    device.write_bytes(torn)
    # udev knows of no file system
    fact = shell(tmp_path, "datadisk_system_fact p4").rstrip("\n").split("\t")
    assert fact[4] == (NEW if written[0] else OLD)
    shell(tmp_path, f"set_label p4 {NEW}")
    assert captured("e2label", str(device)).stdout.strip() == NEW
    assert captured("fsck.ext4", "-n", "-f", str(device)).returncode == 0

"""lab/disks.py: a content is what util-linux takes it for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.disks import BUSES, CONTENTS, Disk
from tests.shared.commands import captured

SIGNATURES = {
    "blank": "",
    "ones": "",
    "noise": "",
    "ext4": "ext4",
    "gpt": "gpt gpt PMBR",
    "empty gpt": "gpt gpt PMBR",
    "NTFS": "ntfs",
    "LUKS": "crypto_LUKS",
    "LVM": "LVM2_member",
}


@pytest.mark.parametrize("content", CONTENTS)
def test_contents(tmp_path: Path, content: str) -> None:
    """Each is recognised, the same each time."""
    disk = Disk(tmp_path / "x.img", "S1")
    disk.make(100 << 20, content)
    said = captured("wipefs", "-n", "--noheadings", "-O", "TYPE", str(disk.image))
    assert set(said.stdout.split()) - {"dos"} == set(SIGNATURES[content].split()), said.stderr
    before = disk.digest()
    assert disk.image.stat().st_size == 100 << 20
    with disk.image.open("r+b") as file:
        file.seek(50 << 20)
        file.write(b"x")
    assert disk.digest() != before


@pytest.mark.parametrize("bus", BUSES)
def test_buses(tmp_path: Path, bus: str) -> None:
    """QEMU is told file and serial number."""
    options = Disk(tmp_path / "x.img", "S1", bus).options(3)
    assert options[1].endswith(f"file={tmp_path}/x.img")
    assert options[-1].endswith(",drive=more3,serial=S1")

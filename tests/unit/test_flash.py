"""support/flash on loop devices: what it writes and what it reads back.

What it refuses is in tests/hostile/test_flash_disks.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.flashing import (
    MIB,
    OLD,
    attach,
    detach,
    flash,
    make_image,
    run,
    shim,
    write_sum,
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A small image with a hole in the middle."""
    return make_image(tmp_path / "cairn-test.img")


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device of 600 MiB, full of an earlier life's data at its start."""
    disk = tmp_path / "disk"
    disk.write_bytes(OLD)
    os.truncate(disk, 600 * MIB)
    device = attach(disk)
    yield device
    detach(device)


def add_block_map(image: Path) -> None:
    """IMAGE.bmap, and its sum in IMAGE.sha256, as support/image makes them."""
    block_map = Path(f"{image}.bmap")
    run("bmaptool", "-q", "create", "-o", str(block_map), str(image))
    write_sum(image, block_map)


def test_missing_image(tmp_path: Path) -> None:
    """The sentence names the make target."""
    result = flash(tmp_path / "cairn-rpi5.img", "/dev/null")
    assert result.returncode == 1
    assert "build it with 'make rpi5'" in result.stderr


@pytest.mark.parametrize("tool", ["bmaptool", "dd"])
def test_writes_and_verifies(image: Path, loop: str, tmp_path: Path, tool: str) -> None:
    """The image's bytes are on the device; with a block map its holes are left alone."""
    if tool == "bmaptool":
        add_block_map(image)
    result = flash(image, loop, f"{loop}\n", FORCE="1")
    assert result.returncode == 0, result.stderr
    assert "reading it back" in result.stderr
    with (tmp_path / "disk").open("rb") as stream:
        written = stream.read(5 * MIB)
    wanted = image.read_bytes()
    for megabyte in (1, 3):  # those with content, beside the tables
        part = slice(megabyte * MIB, (megabyte + 1) * MIB)
        assert written[part] == wanted[part]
    hole = b"\xee" if tool == "bmaptool" else b"\0"
    assert written[2 * MIB : 3 * MIB] == hole * MIB


@pytest.mark.parametrize("tool", ["bmaptool", "dd"])
def test_bad_card(image: Path, loop: str, tmp_path: Path, tool: str) -> None:
    """A device that returns other bytes than it was given."""
    if tool == "bmaptool":
        add_block_map(image)
    path = shim(
        tmp_path / "bin",
        "dd",
        'case "$*" in *iflag=direct*) REAL "$@" | tr a b ;; *) REAL "$@" ;; esac\n',
    )
    result = flash(image, loop, f"{loop}\n", path=path, FORCE="1")
    assert result.returncode == 1
    assert "was not read back as it was" in result.stderr


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_under_both_shells(image: Path, loop: str, tmp_path: Path, shell: str) -> None:
    """The script has no word of another shell."""
    result = flash(image, loop, f"{loop}\n", prefix=tuple(shell.split()), FORCE="1")
    assert result.returncode == 0, result.stderr

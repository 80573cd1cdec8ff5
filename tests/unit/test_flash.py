"""support/flash on loop devices: what it refuses, what it writes, what it reads back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def run(*command: str, text: str | None = None) -> str:
    """Runs a command that has to work and returns its output."""
    result = subprocess.run(command, check=False, capture_output=True, text=True, input=text)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout.strip()


def flash(
    image: Path,
    device: str,
    answer: str = "",
    path: str = "",
    prefix: tuple[str, ...] = (),
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """Runs support/flash; `path` goes in front of PATH, `prefix` in front of the command."""
    environment = {**os.environ, **env}
    if path:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    command = [*prefix, str(ROOT / "support/flash"), str(image), device]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, input=answer, env=environment
    )


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A small image with a hole in the middle."""
    path = tmp_path / "cairn-test.img"
    with path.open("wb") as stream:
        stream.write(os.urandom(MIB))
        stream.seek(3 * MIB)
        stream.write(os.urandom(MIB))
    return path


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device of 600 MiB, full of an earlier life's data at its start."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    disk = tmp_path / "disk"
    disk.write_bytes(b"\xee" * 8 * MIB)
    os.truncate(disk, 600 * MIB)
    command = ["losetup", "-f", "--show", "-P", str(disk)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        pytest.skip(f"no loop device can be made here: {result.stderr.strip()}")
    device = result.stdout.strip()
    yield device
    subprocess.run(["losetup", "-d", device], check=False)


def refused(result: subprocess.CompletedProcess[str], words: str, disk: Path) -> None:
    """One sentence, exit status 1, and the disk is as it was."""
    assert result.returncode == 1
    assert words in result.stderr
    assert disk.read_bytes()[: 8 * MIB] == b"\xee" * 8 * MIB, "the disk was written to"


def test_missing_image(tmp_path: Path) -> None:
    """The sentence names the make target."""
    result = flash(tmp_path / "cairn-rpi5.img", "/dev/null")
    assert result.returncode == 1
    assert "build it with 'make rpi5'" in result.stderr


@pytest.mark.parametrize("device", ["/dev/null", "/dev/there-is-none", "disk"])
def test_no_block_device(image: Path, tmp_path: Path, device: str) -> None:
    """Character devices, files and names that do not exist."""
    result = flash(image, device if device.startswith("/") else str(tmp_path / device))
    assert result.returncode == 1
    assert "is no block device" in result.stderr


def test_not_removable(image: Path, loop: str, tmp_path: Path) -> None:
    """Without FORCE=1, with a wrong answer and with none at all."""
    refused(flash(image, loop), "is not removable", tmp_path / "disk")
    refused(flash(image, loop, "yes\n", FORCE="1"), "nothing was written", tmp_path / "disk")
    refused(flash(image, loop, FORCE="1"), "nothing was written", tmp_path / "disk")


def test_mounted(image: Path, loop: str, tmp_path: Path) -> None:
    """Mounted somewhere, or as part of the running system."""
    run("mkfs.ext4", "-q", "-F", loop)
    (tmp_path / "mnt").mkdir()
    script = f'mount {loop} "$0" && shift && exec "$@"'
    for where, words in (
        (tmp_path / "mnt", "unmount it first"),
        (Path("/boot"), "holds the system"),
    ):
        prefix = ("unshare", "-m", "sh", "-c", script, str(where), "--")
        result = flash(image, loop, f"{loop}\n", prefix=prefix, FORCE="1")
        assert result.returncode == 1
        assert words in result.stderr


def test_read_only(image: Path, tmp_path: Path, loop: str) -> None:
    """As a card with its lock slid."""
    run("blockdev", "--setro", loop)
    try:
        refused(flash(image, loop, f"{loop}\n", FORCE="1"), "is read-only", tmp_path / "disk")
    finally:
        run("blockdev", "--setrw", loop)


def test_too_small(image: Path, tmp_path: Path, loop: str) -> None:
    """Image and the least data partition must fit."""
    os.truncate(tmp_path / "disk", 512 * MIB)
    run("losetup", "-c", loop)
    refused(flash(image, loop, f"{loop}\n", FORCE="1"), "are the least", tmp_path / "disk")


def test_partition(image: Path, loop: str) -> None:
    """A partition is not what the firmware boots from."""
    run("sfdisk", "-q", loop, text="label: gpt\nsize=64M\n")
    run("partx", "-u", loop)
    if not Path(f"{loop}p1").exists():
        pytest.skip("no device nodes for the partitions of loop devices here")
    result = flash(image, f"{loop}p1", f"{loop}p1\n", FORCE="1")
    assert result.returncode == 1
    assert "not a whole disk" in result.stderr


@pytest.mark.parametrize("tool", ["bmaptool", "dd"])
def test_writes_and_verifies(image: Path, loop: str, tmp_path: Path, tool: str) -> None:
    """The image's bytes are on the device; with a block map its holes are left alone."""
    if tool == "bmaptool":
        run("bmaptool", "-q", "create", "-o", f"{image}.bmap", str(image))
    result = flash(image, loop, f"{loop}\n", FORCE="1")
    assert result.returncode == 0, result.stderr
    assert "reading it back" in result.stderr
    written, wanted = (tmp_path / "disk").read_bytes()[: 4 * MIB], image.read_bytes()
    assert written[:MIB] == wanted[:MIB]
    assert written[3 * MIB :] == wanted[3 * MIB :]
    hole = b"\xee" if tool == "bmaptool" else b"\0"
    assert written[MIB : 3 * MIB] == hole * 2 * MIB


@pytest.mark.parametrize("tool", ["bmaptool", "dd"])
def test_bad_card(image: Path, loop: str, tmp_path: Path, tool: str) -> None:
    """A device that returns other bytes than it was given."""
    if tool == "bmaptool":
        run("bmaptool", "-q", "create", "-o", f"{image}.bmap", str(image))
    shims = tmp_path / "shims"
    shims.mkdir()
    dd = shutil.which("dd")
    (shims / "dd").write_text(
        f'#!/bin/sh\ncase "$*" in *iflag=direct*) {dd} "$@" | tr a b ;; *) {dd} "$@" ;; esac\n'
    )
    (shims / "dd").chmod(0o755)
    result = flash(image, loop, f"{loop}\n", path=str(shims), FORCE="1")
    assert result.returncode == 1
    assert "did not keep what was written" in result.stderr

"""The slow disk to measure on: it is as slow as asked for, and keeps what is written."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists(),
    reason="needs root, FUSE and loop devices",
)

#: Those with a pid file.
DAEMONS = ("nbdkit", "qsd")


def slow_disk(root: Path, word: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs support/slow-disk with a small disk of 5 ms."""
    return subprocess.run(
        [str(root / "support/slow-disk"), word, str(folder)],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "SLOW_SIZE": "64M", "SLOW_DELAY": "5ms"},
    )


def test_slow_disk(root: Path, tmp_path: Path) -> None:
    """Each read that misses the page cache takes at least the delay; down removes it all."""
    result = slow_disk(root, "up", tmp_path)
    assert result.returncode == 0, result.stderr
    try:
        assert (tmp_path / "mnt").is_mount()
        path = tmp_path / "mnt/file"
        path.write_bytes(os.urandom(1 << 20))
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            start = time.monotonic()
            for block in range(0, 256, 16):
                os.pread(stream.fileno(), 4096, block * 4096)
            assert time.monotonic() - start > 16 * 0.005
        pids = [(tmp_path / f"{name}.pid").read_text().strip() for name in DAEMONS]
    finally:
        result = slow_disk(root, "down", tmp_path)
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "mnt").is_mount()
    assert not (tmp_path / "disk.img").exists()
    deadline = time.monotonic() + 30
    while any(Path("/proc", pid).exists() for pid in pids):
        assert time.monotonic() < deadline, "its daemons still run"
        time.sleep(0.1)
    assert slow_disk(root, "down", tmp_path).returncode == 0


def test_what_was_noted_before_a_crash(root: Path, tmp_path: Path) -> None:
    """Numbers that are somebody else's by now: neither process nor loop device is touched."""
    folder = tmp_path / "slow"
    folder.mkdir()
    image = tmp_path / "other.img"
    image.write_bytes(bytes(1 << 20))
    attach = ["losetup", "-f", "--show", str(image)]
    loop = subprocess.run(attach, check=True, capture_output=True, text=True).stdout
    try:
        with subprocess.Popen(["sleep", "600"]) as other:
            try:
                (folder / "loop").write_text(loop)
                for name in DAEMONS:
                    (folder / f"{name}.pid").write_text(f"{other.pid}\n")
                result = slow_disk(root, "down", folder)
                assert (result.returncode, result.stderr) == (0, "")
                time.sleep(0.2)
                assert other.poll() is None
            finally:
                other.kill()
        shown = ["losetup", "-nO", "BACK-FILE", loop.strip()]
        said = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
        assert said.strip() == str(image)
    finally:
        subprocess.run(["losetup", "-d", loop.strip()], check=False)
    assert list(folder.iterdir()) == []


def test_wrong_word(root: Path, tmp_path: Path) -> None:
    """One sentence."""
    result = slow_disk(root, "sideways", tmp_path)
    assert result.returncode == 1
    assert "unknown word 'sideways'" in result.stderr

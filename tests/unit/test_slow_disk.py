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
    finally:
        result = slow_disk(root, "down", tmp_path)
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "mnt").is_mount()
    assert not (tmp_path / "disk.img").exists()
    assert slow_disk(root, "down", tmp_path).returncode == 0


def test_wrong_word(root: Path, tmp_path: Path) -> None:
    """One sentence."""
    result = slow_disk(root, "sideways", tmp_path)
    assert result.returncode == 1
    assert "unknown word 'sideways'" in result.stderr

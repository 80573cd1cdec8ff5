"""Shared by the unit tests of Cairn's scripts."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.paths import ROOT


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def bitcoind(root: Path) -> Path:
    """The daemon that the host lane built."""
    path = Path(os.environ.get("CAIRN_BITCOIND", root / "out/core/bin/bitcoind"))
    assert path.exists(), "bitcoind is not built; run 'make core'"
    return path


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in RAM, where there is one: for files that are written again and again."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture
def qemu_io() -> Callable[..., None]:
    """An NBD client: runs commands of qemu-io on the disk behind a socket.

    Nothing is flushed unless a command says so: with `-t writeback` no write is, and `abort`
    ends the program without the flush of a close (and with a signal: no status to check).
    """

    def run(socket: Path, *commands: str) -> None:
        command = ["qemu-io", "-t", "writeback", "-f", "raw", f"nbd+unix:///?socket={socket}"]
        subprocess.run(
            [*command, *(part for line in (*commands, "abort") for part in ("-c", line))],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
        )

    return run

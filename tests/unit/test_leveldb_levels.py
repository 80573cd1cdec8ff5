"""bench/leveldb-levels: what patches 0021 and 0022 are for, with few coins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # compiles a program, and writes hundreds of MB with it


def bench(root: Path, folder: Path, coins: str) -> subprocess.CompletedProcess[str]:
    """Runs `support/bench-leveldb` in that folder with so many coins."""
    command = [str(root / "support/bench-leveldb"), str(folder), coins]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("coins", ["300000", "600000"])
def test_half_is_written(root: Path, memory: Path, coins: str) -> None:
    """In mainnet's proportions Cairn's levels write less than half of what LevelDB's do.

    Compared is with LevelDB without compactions for lookups, which write more yet, by chance. At
    the tip it takes a write buffer that is large for its coins, and LevelDB's smallest is to
    300,000 what 37 MiB are to mainnet's (docs/reports/microbenchmarks.md).
    """
    result = bench(root, memory, coins)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines()]
    written = {
        (row[0], row[1]): float(row[2]) for row in rows if len(row) == 7 and row[2][0].isdigit()
    }
    assert len(written) == 6
    for flushes in ("initial sync", "at the tip"):
        theirs = written["LevelDB's, no compactions for lookups", flushes]
        assert written["Cairn's", flushes] < theirs / 2


def test_usage(root: Path, tmp_path: Path) -> None:
    """Too few coins are refused with one sentence."""
    result = bench(root, tmp_path, "10")
    assert result.returncode == 1
    assert "with 100000 coins or more" in result.stderr

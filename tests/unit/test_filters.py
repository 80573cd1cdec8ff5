"""filters=1: where node-tune lets bitcoind make compact block filters, and where not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT

SHELLS = ["dash", "busybox sh"]
LIBRARY = ROOT / "overlay/usr/lib/cairn"
#: As node-tune does it, with the room for blocks as an argument; note() says the sentence.
SCRIPT = """
for part in memory.sh database-engine.sh prune-target.sh filters.sh; do . "$1/$part"; done
note() { echo "note $*"; }
storage_mib=$4
filters_choice "$2" /var/lib/bitcoind "$3"
echo "filters=$filters $filters_mib"
"""
RECORDS = "chain main\nchain-directory \nnetwork on\nfilters 1\n"
ON, OFF = "filters=1 13312", "filters= 0"


def choice(
    root: Path, shell: str, records: str = RECORDS, mib: int = 40000, size: int = 60000
) -> str:
    """What it says on a machine with these records, so much room, and a disk of this size."""
    (root / "run/cairn").mkdir(parents=True, exist_ok=True)
    (root / "run/cairn/node-conf.records").write_text(records)
    command = [*shell.split(), "-euc", SCRIPT, "sh", str(LIBRARY), str(root), str(mib), str(size)]
    return subprocess.check_output(command, text=True).strip()


@pytest.mark.parametrize("shell", SHELLS)
def test_room(tmp_path: Path, shell: str) -> None:
    """A new node has filters if they and its blocks fit."""
    assert choice(tmp_path, shell, "chain main\n") == OFF
    assert choice(tmp_path, shell) == ON
    assert choice(tmp_path, shell, mib=13312 + 550) == ON
    small = choice(tmp_path, shell, mib=13312 + 549)
    assert "they need 13 GiB" in small and small.endswith(OFF)
    assert choice(tmp_path, shell, f"{RECORDS}prune 30000\n").endswith(OFF)
    assert choice(tmp_path, shell, mib=-5).endswith(OFF)


@pytest.mark.parametrize("shell", SHELLS)
def test_blocks_that_are_gone(tmp_path: Path, shell: str) -> None:
    """Later only where each run made filters, all blocks are kept, or the chain is fetched anew."""
    blocks = tmp_path / "var/lib/bitcoind/blocks"
    blocks.mkdir(parents=True)
    (blocks / "blk00007.dat").touch()
    late = choice(tmp_path, shell)
    assert "blocks that they are made of are gone" in late and late.endswith(OFF)
    assert choice(tmp_path, shell, f"{RECORDS}prune 0\n") == "filters=1 0"
    (tmp_path / "run/bitcoind").mkdir()
    (tmp_path / "run/bitcoind/once.conf").write_text("reindex=1\n")
    assert choice(tmp_path, shell) == ON
    (tmp_path / "run/bitcoind/once.conf").write_text("")
    (tmp_path / "var/lib/cairn").mkdir()
    (tmp_path / "var/lib/cairn/filters.signet").write_text("1\n")
    assert choice(tmp_path, shell).endswith(OFF)
    (tmp_path / "var/lib/cairn/filters.main").write_text("1\n")
    assert choice(tmp_path, shell) == ON


@pytest.mark.parametrize("shell", SHELLS)
def test_filters_go_on_in_doubt(tmp_path: Path, shell: str) -> None:
    """A node.conf that is lost ends none: what they lack after a run without them may be gone."""
    (tmp_path / "var/lib/cairn").mkdir(parents=True)
    mark = tmp_path / "var/lib/cairn/filters.main"
    for doubt in ("absent 1", "unread 1", "prune-doubt A line.", "filters-doubt 1"):
        records = f"chain main\nchain-directory \n{doubt}\n"
        mark.unlink(missing_ok=True)
        assert choice(tmp_path, shell, records) == OFF
        mark.write_text("1\n")
        kept = choice(tmp_path, shell, records)
        assert kept.startswith("note Compact block filters go on as before")
        assert kept.endswith("\nfilters=kept 13312")
        assert choice(tmp_path, shell, f"{records}filters 1\n") == ON
        assert choice(tmp_path, shell, f"{records}filters 0\n") == OFF
    assert choice(tmp_path, shell, "").endswith("\nfilters=kept 13312")
    # what the disk has had room for, if its size cannot be read
    assert choice(tmp_path, shell, mib=-17408, size=0) == "filters=1 0"
    assert choice(tmp_path, shell, mib=-17408).endswith(OFF)
    # taken out of a file that can be read
    assert choice(tmp_path, shell, "chain main\nchain-directory \n") == OFF

"""filters=1: a wallet's library syncs headers and filters from the real node and finds a coin.

Needs Go 1.19 or newer (Debian's golang-go), which fetches the library's modules; their hashes are
in tests/bip157/go.sum.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.paths import ROOT
from tests.hostile.stage import played

pytestmark = pytest.mark.long  # fetches and compiles the client, and waits for a peer in vain

#: It connects, and waits in vain for a peer that has all blocks.
NO_HEADERS = "no headers and filters in time"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the stage saw: it is played once."""
    program = tmp_path_factory.mktemp("client") / "bip157"
    subprocess.run(
        ["go", "build", "-mod=readonly", "-trimpath", "-o", str(program), "."],
        check=True,
        cwd=ROOT / "tests/bip157",
        env={**os.environ, "CGO_ENABLED": "0"},
    )
    return played("filters_stage", str(program))


def test_a_coin_is_found(seen: dict[str, Any]) -> None:
    """By its script alone: block 102 pays 7 coins to it, block 112 spends them."""
    assert seen["whole"]["report"] == ""
    assert "COMPACT_FILTERS" in seen["whole"]["services"]
    assert seen["whole"]["found"] == {"height": 111, "matches": [102], "balance": 700_000_000}
    assert seen["whole"]["spent"] == {"height": 112, "matches": [102, 112], "balance": 0}


def test_a_pruning_node_is_no_source_of_headers(seen: dict[str, Any]) -> None:
    """It serves filters, but this library asks for headers where all blocks are."""
    assert "COMPACT_FILTERS" in seen["pruned"]["services"]
    assert "NETWORK" not in seen["pruned"]["services"]
    assert seen["pruned"]["found"]["failed"].startswith(NO_HEADERS)


def test_wrong_words() -> None:
    """One sentence, and status 2."""
    program = Path(ROOT / "tests/bip157")
    for words in ([], ["127.0.0.1:1", "/nonexistent", "xyz", "1"], ["a", "b", "00", "-1"]):
        done = subprocess.run(
            ["go", "run", ".", *words], check=False, capture_output=True, text=True, cwd=program
        )
        assert done.returncode != 0
        assert "exit status 2" in done.stderr

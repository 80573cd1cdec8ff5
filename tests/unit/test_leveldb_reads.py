"""bench/reads.py: what patches 0049 to 0051 are for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bench import reads
from lab.paths import ROOT
from tests.unit.test_bench import needs_root


def test_page_in_the_repository() -> None:
    """The page in docs/ is that of the results beside it."""
    kept = ROOT / "docs/reports/reads.json"
    assert reads.page(json.loads(kept.read_text())) == kept.with_suffix(".md").read_text()


def test_results_in_the_repository() -> None:
    """They are of each variant, and of as many coins as the project's aim names."""
    results = json.loads((ROOT / "docs/reports/reads.json").read_text())
    assert results["coins"] >= 8_000_000
    rows = [(row["bits"], row["memory_mib"], row["variant"]) for row in results["reads"]]
    assert rows == [
        (bits, mib, variant)
        for bits in reads.BITS
        for mib in reads.MEMORY
        for variant in (reads.VARIANTS if bits == reads.PRODUCT_BITS else (reads.WITH_BITS,))
    ]
    assert [row["variant"] for row in results["waits"]] == list(reads.WAITS)


@pytest.mark.slow  # compiles a program, and writes hundreds of MB with it
@needs_root
def test_less_is_read(root: Path, tmp_path: Path) -> None:
    """A hit reads less with the patches, and a scan needs no more requests."""
    out = tmp_path / "reads.md"
    options = ["--coins", "1000000", "--lookups", "2000", "--out", str(out)]
    command = [str(root / "support/bench-reads"), str(tmp_path / "disk"), *options]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    results = json.loads(out.with_suffix(".json").read_text())
    asked = (reads.MEMORY[1], reads.PRODUCT_BITS)
    rows = {
        row["variant"]: row for row in results["reads"] if (row["memory_mib"], row["bits"]) == asked
    }
    assert rows["all"]["hit"]["kib"] < rows["as-it-was"]["hit"]["kib"] / 2
    assert rows["all"]["hit"]["requests"] < rows["random"]["hit"]["requests"]
    assert rows["all"]["scan"]["requests"] < 1.2 * rows["as-it-was"]["scan"]["requests"]
    waits = {row["variant"]: row["most_ms"] for row in results["waits"]}
    assert waits.keys() == reads.WAITS.keys()

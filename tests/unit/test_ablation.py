"""bench/ablation: its patches fit the source they are for, exactly."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT

FOLDER = ROOT / "bench/ablation"
BIP30 = FOLDER / "bip30-off.patch"
STOCK = FOLDER / "no-seek-compaction.patch"
OTHERS = sorted(set(FOLDER.glob("*.patch")) - {BIP30, STOCK})
CACHE = [FOLDER / "prune-empties-cache.patch", FOLDER / "full-scan.patch"]


@pytest.mark.parametrize(
    ("variant", "patches"),
    [
        ("core-stock", [BIP30]),
        ("core-stock", [BIP30, STOCK]),
        ("core", [BIP30, *CACHE]),
        *(("core", [patch]) for patch in [BIP30, *OTHERS]),
        *(("core", [BIP30, patch]) for patch in OTHERS),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(p.stem for p in value),
)
def test_applies(root: Path, tmp_path: Path, variant: str, patches: list[Path]) -> None:
    """Without fuzz, alone and as they are used together."""
    source = root / "out" / variant / "source"
    for patch in patches:
        for name in re.findall(r"^--- a/(\S+)$", patch.read_text(), re.MULTILINE):
            if not (tmp_path / name).exists():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, tmp_path / name)
        result = subprocess.run(
            ["patch", "-d", str(tmp_path), "-p1", "--forward", "--fuzz=0", "-i", str(patch)],
            check=False,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout

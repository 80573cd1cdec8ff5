"""support/screenshot: the picture of the screen in docs/ is what node-status prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from lab.paths import ROOT

SCREEN = ROOT / "docs/reports/screen.svg"


def test_picture_in_the_repository(tmp_path: Path) -> None:
    """Made again, it is the same; it has the screen's lines."""
    made = tmp_path / "screen.svg"
    subprocess.run([sys.executable, str(ROOT / "support/screenshot"), str(made)], check=True)
    assert made.read_text() == SCREEN.read_text(), "run support/screenshot"
    lines = re.findall(r"<text [^>]*>([^<]*)</text>", made.read_text())
    assert lines[0] == "=== Cairn node attic ==="
    assert "address     192.168.1.50" in lines
    assert any(line.startswith("! node.conf line 7: ") for line in lines)
    assert all(len(line) < 90 for line in lines)  # 79, and what XML has as &quot;


def test_picture_cannot_be_written(tmp_path: Path) -> None:
    """One sentence."""
    command = [sys.executable, str(ROOT / "support/screenshot"), str(tmp_path / "no/folder.svg")]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("screenshot: no picture was made (")

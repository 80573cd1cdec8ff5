"""What holds the house together: one version."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def test_version(root: Path, tmp_path: Path) -> None:
    """One line in VERSION, which os-release on the image has."""
    version = (root / "VERSION").read_text()
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+\n", version)
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/share/cairn").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    script = root / "board/common/post-build.sh"
    subprocess.run([str(script), str(tmp_path), "rpi5"], check=True)
    lines = (tmp_path / "etc/os-release").read_text().splitlines()
    words = dict(line.replace('"', "").split("=", 1) for line in lines)
    assert words["VERSION"] == words["VERSION_ID"] == version.strip()
    assert words["PRETTY_NAME"] == f"Cairn {version.strip()}"

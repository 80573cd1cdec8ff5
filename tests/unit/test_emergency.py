"""cairn-emergency: what the owner sees when the boot cannot go on."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.shared.commands import program


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ("var.mount loaded failed failed /var\nx.service loaded", "var.mount, x.service"),
        ("", "see"),
        ("\x1b[2Jlabel\x9b\u202e.mount loaded failed", "?[2Jlabel"),
    ],
)
def test_each_console_says_it(
    root: Path, tmp_path: Path, shell: str, failed: str, words: str
) -> None:
    """One sentence that names what failed, also where one console is gone."""
    active = tmp_path / "sys/class/tty/console/active"
    active.parent.mkdir(parents=True)
    active.write_text("tty1 gone/x ttyS0\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "units").write_text(failed)
    script = root / "overlay/usr/lib/cairn/cairn-emergency"
    program(tmp_path / "systemctl", f'cat "{tmp_path}/units"')
    env = {**os.environ, "CAIRN_SYSTEMCTL": str(tmp_path / "systemctl")}
    command = [*shell.split(), str(script), "--root", str(tmp_path)]
    said = subprocess.run(command, check=True, env=env, capture_output=True, text=True).stdout
    assert len(said.splitlines()) == 1
    assert words in said
    assert re.fullmatch("[ -~]*\n", said)
    for console in ("tty1", "ttyS0"):
        assert f"! {said.strip()}" in (tmp_path / "dev" / console).read_text()

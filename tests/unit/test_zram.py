"""cairn-zram-swap: the size that the kernel is told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import program

SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-zram-swap"


@pytest.mark.parametrize("awk", ["busybox awk", "mawk"])
@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize(
    ("ram", "size"),
    [
        (480_000, 245_760_000),
        (4_000_000, 2_048_000_000),
        (6_000_001, 3_072_000_000),
        (8_388_608, 4_294_967_296),
        (16_500_000, 4_294_967_296),
    ],
)
def test_half_of_the_memory(tmp_path: Path, shell: str, awk: str, ram: int, size: int) -> None:
    """In bytes and digits only, also beyond what 32 bits count."""
    for name in ("sys/block/zram0/comp_algorithm", "sys/block/zram0/disksize", "proc/swaps"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: {ram:>15} kB\n")
    for tool in ("modprobe", "mkswap", "swapon"):
        program(tmp_path / "bin" / tool, f'echo "{tool} $*" >>{tmp_path}/called')
    program(tmp_path / "bin/awk", f'exec {awk} "$@"')
    subprocess.run(
        [*shell.split(), str(SCRIPT), "--root", str(tmp_path)],
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
    )
    assert (tmp_path / "sys/block/zram0/disksize").read_text() == f"{size}\n"
    called = (tmp_path / "called").read_text().splitlines()
    assert called[1:] == ["mkswap /dev/zram0", "swapon -p 100 /dev/zram0"]

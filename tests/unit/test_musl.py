"""patches/musl: what the patched functions do, compiled by the host's compiler."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the function is x86_64's")
def test_memcpy(root: Path, tmp_path: Path) -> None:
    """Each size, place and overlap that memmove() may ask for; tests/musl/memcpy.c."""
    (patch,) = (root / "patches/musl").glob("0001-*.patch")
    source = tmp_path / "src/string/x86_64/memcpy.c"
    # of the file that is removed there is none here
    text = patch.read_text().partition("diff --git a/src/string/x86_64/memcpy.s")[0]
    subprocess.run(["patch", "-p1", "-s"], input=text, text=True, check=True, cwd=tmp_path)
    # musl's own options for it; the alias would take the place of the host's memcpy()
    command = ["cc", "-O2", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-c"]
    command += ["-Dmemcpy=musl_memcpy", "-o", str(tmp_path / "memcpy.o"), str(source)]
    subprocess.run(command, check=True)
    program = tmp_path / "check"
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
    command += [str(root / "tests/musl/memcpy.c"), str(tmp_path / "memcpy.o")]
    subprocess.run(command, check=True)
    result = subprocess.run([str(program)], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert int(result.stdout) > 1_000_000

"""LMDB with patches/liblmdb: damaged bytes are errors or harmless, never wrong data.

The work is done by the C programs beside this file, compiled against out/lmdb; what each
case does stands at their beginning.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # compiles LMDB and three programs, cuts it at each write


@pytest.fixture(scope="session")
def programs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the compiled programs."""
    subprocess.run([str(root / "support/lmdb-build")], check=True)
    target = tmp_path_factory.mktemp("lmdb")
    lmdb = root / "out/lmdb"
    for name in ("damage", "usage", "powercut"):
        command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{lmdb}/include"]
        command += ["-Wl,--wrap=pwrite,--wrap=writev,--wrap=fdatasync"] * (name == "powercut")
        command += ["-o", str(target / name), str(Path(__file__).with_name(f"{name}.c"))]
        subprocess.run([*command, str(lmdb / "lib/liblmdb.a")], check=True)
    return target


def damage(programs: Path, folder: Path, kind: str) -> dict[str, int]:
    """Runs `damage` and returns the number of cases by outcome."""
    result = subprocess.run(
        [str(programs / "damage"), str(folder), kind], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    counts = {name: int(number) for number, name in re.findall(r", (\d+) ([a-z ]+)", result.stdout)}
    assert counts["wrong"] == counts["crashed"] == 0
    return counts


def test_every_byte_flipped(programs: Path, memory: Path) -> None:
    """A flipped bit is found, or it is in a page that holds nothing."""
    counts = damage(programs, memory, "flip")
    assert counts["detected"] > 20000
    assert counts["harmless"] > 20000
    # The newest meta page: the snapshot before is used, and it is said.
    assert counts["older snapshot"] > 1000
    assert counts["bus error"] == 0


def test_pages_replaced(programs: Path, memory: Path) -> None:
    """Lost, erased and misplaced pages are found, also those with a right checksum."""
    counts = damage(programs, memory, "pages")
    assert counts["detected"] > 100
    assert counts["bus error"] == 0


def test_file_cut(programs: Path, memory: Path) -> None:
    """A file that lost its end gives an error, not a SIGBUS."""
    counts = damage(programs, memory, "cut")
    assert counts["detected"] > 100
    assert counts["bus error"] == 0


def test_meta_page_torn(programs: Path, memory: Path) -> None:
    """After a power cut in a commit the environment opens, before or after that commit."""
    counts = damage(programs, memory, "torn")
    assert counts["harmless"] > 100
    assert counts["older snapshot"] > 100
    assert counts["detected"] == counts["bus error"] == 0


def test_damaged_while_open(programs: Path, memory: Path) -> None:
    """Damage is found in pages that were read before; only a file cut now is a SIGBUS."""
    counts = damage(programs, memory, "live")
    assert counts["detected"] > 0


@pytest.mark.parametrize("kind", ["sync", "nometasync", "torn"])
def test_power_cut(programs: Path, memory: Path, kind: str) -> None:
    """At every write of 30 commits: it opens by itself, and no commit is lost that counts."""
    result = subprocess.run(
        [str(programs / "powercut"), str(memory), kind], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    counts = {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", result.stdout)}
    assert counts["cuts"] > 1000
    assert counts["wrong"] == 0
    assert (counts["the one before"] > 0) == (kind == "nometasync")
    assert (counts["meta pages repaired"] > 0) == (kind == "torn")


@pytest.mark.parametrize("kind", ["open", "copy", "race", "spill"])
def test_usage(programs: Path, tmp_path: Path, kind: str) -> None:
    """Readers beside commits, large transactions, copies, and what open refuses."""
    result = subprocess.run(
        [str(programs / "usage"), str(tmp_path), kind], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""

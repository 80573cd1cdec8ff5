"""support/bmap: the block map of an image, and what bmaptool and support/flash make of it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import captured

BMAP = str(ROOT / "support/bmap")
MIB = 1 << 20


def image_of(path: Path, size: int, content: dict[int, bytes]) -> Path:
    """A sparse image of that many MiB, with bytes at some offsets in MiB."""
    with path.open("wb") as stream:
        stream.truncate(size * MIB)
        for at, data in content.items():
            stream.seek(at * MIB)
            stream.write(data)
    return path


def made(image: Path) -> str:
    """Its map."""
    done = captured(BMAP, str(image), f"{image}.bmap")
    assert (done.returncode, done.stderr) == (0, "")
    return Path(f"{image}.bmap").read_text()


def copied(image: Path, disk: Path) -> bytes:
    """What bmaptool writes of the image. A file is emptied by it first, as a disk is not."""
    command = ["bmaptool", "-q", "copy", "--bmap", f"{image}.bmap", str(image), str(disk)]
    subprocess.run(command, check=True, capture_output=True)
    return disk.read_bytes()


def test_zeros_that_count_are_written(tmp_path: Path) -> None:
    """Only long runs of zeros keep what the disk held: free space, but for its first MiB."""
    content = {0: b"table", 3: os.urandom(MIB), 40: b"x", 75: b"y", 109: b"end"}
    image = image_of(tmp_path / "image", 110, content)
    text = made(image)
    # 41..74 and 76..108 are runs of 34 and 33 MiB; 4..39 is one of 36.
    spans = re.findall(r">(\d+)-(\d+)<", text)
    written = [(int(first) // 256, (int(last) + 1) // 256) for first, last in spans]
    assert written == [(0, 5), (40, 42), (75, 77), (109, 110)]
    # support/flash reads the sums of the ranges with this.
    (expression,) = re.findall(r"'(s/\.\*<Range .*/p)'", (ROOT / "support/flash").read_text())
    told = captured("sed", "-n", expression, f"{image}.bmap").stdout.splitlines()
    wanted = image.read_bytes()
    sums = [hashlib.sha256(wanted[a * MIB : b * MIB]).hexdigest() for a, b in written]
    assert told == [f"{total} {' '.join(span)}" for total, span in zip(sums, spans, strict=True)]
    short = image_of(tmp_path / "short", 33, {0: b"a", 32: b"b"})
    made(short)
    assert copied(short, tmp_path / "disk") == short.read_bytes()


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, MIB, MIB + 1, 2 * MIB + 4096])
def test_any_size(tmp_path: Path, size: int) -> None:
    """bmaptool takes the map and writes the whole image."""
    image = tmp_path / "image"
    image.write_bytes(os.urandom(size))
    made(image)
    assert copied(image, tmp_path / "disk") == image.read_bytes()


def test_the_same_map(tmp_path: Path) -> None:
    """Holes in the file, or zeros that are written there: it makes no difference."""
    image = image_of(tmp_path / "a", 60, {0: b"x", 50: b"y"})
    (tmp_path / "b").write_bytes(image.read_bytes())
    assert (tmp_path / "b").stat().st_blocks > image.stat().st_blocks
    assert made(image) == made(tmp_path / "b")


def test_a_map_that_was_changed(tmp_path: Path) -> None:
    """bmaptool notices: the map has a sum of itself."""
    image = image_of(tmp_path / "a", 2, {0: b"x"})
    text = made(image)
    Path(f"{image}.bmap").write_text(text.replace(">0-511<", ">0-510<"))
    done = captured("bmaptool", "-q", "copy", "--bmap", f"{image}.bmap", str(image), "/dev/null")
    assert done.returncode != 0


def test_what_is_no_image(tmp_path: Path) -> None:
    """One sentence."""
    (tmp_path / "empty").touch()
    for words in (["none", "map"], ["empty", "map"], ["empty"]):
        done = captured(BMAP, *(str(tmp_path / word) for word in words))
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("bmap: ")
    assert not (tmp_path / "map").exists()

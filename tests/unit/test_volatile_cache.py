"""The disk with a volatile write cache, alone and behind nbdkit."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.volatile_cache import POLICIES, SECTOR, VolatileCache
from lab.volatile_disk import VolatileDisk

SECTORS = 64


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A small disk, each sector filled with zeros."""
    path = tmp_path / "disk"
    path.write_bytes(bytes(SECTORS * SECTOR))
    return path


def fill(number: int, sectors: int = 1) -> bytes:
    """Content that tells which write it is from."""
    return bytes([number]) * (SECTOR * sectors)


def contents(image: Path) -> list[int]:
    """The first byte of each sector; each must be of one write as a whole."""
    data = image.read_bytes()
    parts = [data[i : i + SECTOR] for i in range(0, len(data), SECTOR)]
    assert all(len(set(part)) == 1 for part in parts)
    return [part[0] for part in parts]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_flushed_survives(image: Path, policy: str) -> None:
    """Whatever happens to later writes."""
    for seed in range(50):
        image.write_bytes(bytes(SECTORS * SECTOR))
        disk = VolatileCache(str(image), seed)
        disk.write(0, fill(1, 8))
        disk.flush()
        disk.write(4 * SECTOR, fill(2, 8), fua=True)
        disk.write(16 * SECTOR, fill(3, 4))
        assert disk.read(0, 24 * SECTOR)[16 * SECTOR :: SECTOR] == bytes([3] * 4 + [0] * 4)
        outcome = disk.cut(policy)
        found = contents(image)
        assert found[:12] == [1] * 4 + [2] * 8
        assert set(found[16:20]) <= {0, 3}
        assert found[20:] == [0] * (SECTORS - 20)
        assert outcome.sectors == 4
        assert outcome.writes == 1
        assert outcome.kept == found.count(3)


def test_requests_by_number(image: Path) -> None:
    """Those that are named are left, older versions under a lost one; nothing changes meanwhile."""
    disk = VolatileCache(str(image))
    disk.write(0, fill(9))
    disk.flush()
    for number, sector in ((1, 4), (2, 4), (3, 8)):
        disk.write(sector * SECTOR, fill(number, 2))
    first, second, third = disk.requests()
    for alive, expected in (
        ({first, third}, {4: 1, 5: 1, 8: 3, 9: 3}),
        ({second}, {4: 2, 5: 2}),
        (set(), {}),
    ):
        outcome, survivors = disk.survivors_of("some", alive.__contains__)
        assert {sector: data[0] for sector, data in survivors.items()} == expected
        assert (outcome.policy, outcome.writes, outcome.sectors) == ("some", 3, 4)
        assert outcome.kept + outcome.mixed == len(expected)
    disk.flush()
    assert disk.requests() == []


def test_policies(image: Path) -> None:
    """Each does what its name says, over many seeds."""
    seen: dict[str, set[tuple[int, ...]]] = {policy: set() for policy in POLICIES}
    for policy in POLICIES:
        for seed in range(300):
            image.write_bytes(bytes(SECTORS * SECTOR))
            disk = VolatileCache(str(image), seed)
            disk.write(0, fill(1, 3))
            disk.write(1 * SECTOR, fill(2, 1))
            disk.cut(policy)
            seen[policy].add(tuple(contents(image)[:3]))
    assert seen["keep-all"] == {(1, 2, 1)}
    assert seen["drop-all"] == {(0, 0, 0)}
    # none, the first, the second, both
    assert seen["drop-some"] == {(0, 0, 0), (1, 1, 1), (0, 2, 0), (1, 2, 1)}
    assert seen["reorder"] == {(a, b, c) for a in (0, 1) for b in (0, 1, 2) for c in (0, 1)}
    # the first to some sector; or the first, and nothing of the second
    assert seen["torn"] == {(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)}


def test_unit_of_4096(image: Path) -> None:
    """What the disk writes as one is of one moment."""
    for seed in range(100):
        image.write_bytes(bytes(SECTORS * SECTOR))
        disk = VolatileCache(str(image), seed, unit=4096)
        disk.write(0, fill(1, 16))
        disk.write(0, fill(2, 16))
        disk.cut("reorder")
        found = contents(image)
        assert len(set(found[:8])) == len(set(found[8:16])) == 1


def test_a_lying_disk_loses_what_was_flushed(image: Path) -> None:
    """The negative control."""
    disk = VolatileCache(str(image), lies=True)
    disk.write(0, fill(1))
    disk.write(SECTOR, fill(1), fua=True)
    disk.flush()
    assert disk.read(0, SECTOR) == fill(1)
    disk.cut("drop-all")
    assert contents(image) == [0] * SECTORS


def test_same_seed_same_outcome(tmp_path: Path) -> None:
    """Any failure can be replayed."""
    results = []
    for run in range(2):
        path = tmp_path / str(run)
        path.write_bytes(bytes(SECTORS * SECTOR))
        disk = VolatileCache(str(path), 7)
        requests = random.Random(1)
        for number in range(1, 200):
            disk.write(requests.randrange(SECTORS) * SECTOR, fill(number))
            if number % 70 == 0:
                disk.flush()
        disk.cut("reorder")
        results.append(path.read_bytes())
    assert results[0] == results[1]


def test_reads_see_all_writes(image: Path) -> None:
    """Compared with a plain array: any offsets, a cache that overflows, zeros, flushes."""
    requests = random.Random(2)
    disk = VolatileCache(str(image), 3, capacity=8 * SECTOR)
    expected = bytearray(SECTORS * SECTOR)
    for _ in range(2000):
        begin = requests.randrange(len(expected))
        count = requests.randrange(1, min(5000, len(expected) - begin) + 1)
        what = requests.randrange(10)
        if what < 5:
            data = requests.randbytes(count)
            disk.write(begin, data, fua=what == 0)
            expected[begin : begin + count] = data
        elif what == 5:
            disk.zero(begin, count)
            expected[begin : begin + count] = bytes(count)
        elif what == 6:
            disk.flush()
        else:
            assert disk.read(begin, count) == expected[begin : begin + count]
    disk.flush()
    assert image.read_bytes() == expected


def test_zeros_over_a_large_range(tmp_path: Path) -> None:
    """They are on the medium at once, holes of the image stay holes, cached writes are gone."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(64 << 20)
        for offset in (0, 5 << 20, 40 << 20):
            file.seek(offset)
            file.write(b"x" * (2 << 20))
    disk = VolatileCache(str(path))
    disk.write(8 << 20, b"y" * SECTOR)
    disk.write(33 << 20, b"z" * SECTOR)
    disk.zero(1 << 20, 32 << 20)
    disk.cut("keep-all")
    data = path.read_bytes()
    assert data[: 1 << 20] == b"x" * (1 << 20)
    assert data.count(0, 1 << 20, 33 << 20) == 32 << 20
    assert data[33 << 20 : (33 << 20) + SECTOR] == b"z" * SECTOR
    assert data[40 << 20 : 42 << 20] == b"x" * (2 << 20)
    assert path.stat().st_blocks * 512 < 16 << 20


def test_unknown_policy(image: Path) -> None:
    """One sentence that names the known ones."""
    with pytest.raises(ValueError, match="unknown policy 'x'; these are known: keep-all"):
        VolatileCache(str(image)).cut("x")


@pytest.mark.skipif(not shutil.which("nbdkit"), reason="needs nbdkit")
def test_behind_nbdkit(tmp_path: Path, qemu_io: Callable[..., None]) -> None:
    """Writes with and without flush through a real NBD client; a cut ends the server."""
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(4 << 20))
    disk = VolatileDisk(image, tmp_path, seed=5)
    disk.start()
    assert disk.process
    try:
        script = ["write -P 1 0 64k", "flush", "write -f -P 2 64k 64k", "write -P 3 128k 64k"]
        qemu_io(disk.socket, *script, "read -P 3 128k 64k")
        assert disk.ask("stats")["sectors"] == 128
        with pytest.raises(AssertionError, match="unknown policy"):
            disk.ask("cut sideways")
        assert disk.cut("drop-all") == {
            "policy": "drop-all",
            "seed": 5,
            "writes": 1,
            "sectors": 128,
            "kept": 0,
            "mixed": 0,
        }
    finally:
        if disk.process:
            disk.process.kill()
            disk.process.wait()
    data = image.read_bytes()
    assert data[: 64 << 10] == bytes([1]) * (64 << 10)
    assert data[64 << 10 : 128 << 10] == bytes([2]) * (64 << 10)
    assert not any(data[128 << 10 :])

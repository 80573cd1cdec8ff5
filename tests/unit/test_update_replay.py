"""Power cuts during updates: the FAT reader, what is judged, and a few cuts without a machine.

mtools plays the kernel here; the real one, and hundreds of cuts: tests/powerloss/update_replay.py.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.fat import DamagedError, Fat, unpack
from lab.paths import ROOT
from lab.request_trace import Writer
from tests.powerloss import reconstruct, update_disk, update_replay
from tests.powerloss.mounts import run
from tests.powerloss.update_disk import BEFORE, NEW, RUNS, STARTS, BadError, Node

# -- the reader --------------------------------------------------------------------------


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    """A boot partition as the product's, with some files."""
    folder = tmp_path / "files"
    (folder / "loader/entries").mkdir(parents=True)
    (folder / "loader/entries/cairn-a+3.conf").write_text("title x\n")
    (folder / "empty").touch()
    (folder / "kernel_2712.img").write_bytes(os.urandom(100_000))
    for number in range(40):
        (folder / f"a long name of some file, number {number}").write_text(str(number))
    run(str(ROOT / "board/common/boot-partition.sh"), str(folder), str(tmp_path / "boot"))
    return tmp_path / "boot"


def tree(image: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """All that can be read."""
    fat = Fat(image)
    try:
        return fat.tree()
    finally:
        fat.close()


def test_reads_what_mtools_wrote(boot: Path, tmp_path: Path) -> None:
    """Long names, folders, empty files; what was deleted and renamed; an offset."""
    files, damaged = tree(boot)
    folder = tmp_path / "files"
    expected = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert (files, damaged) == (expected, {})
    run("mdel", "-i", str(boot), "::a long name of some file, number 7")
    run("mren", "-i", str(boot), "::loader/entries/cairn-a+3.conf", "cairn-a+2-1.conf")
    files, damaged = tree(boot)
    del expected["a long name of some file, number 7"]
    expected["loader/entries/cairn-a+2-1.conf"] = expected.pop("loader/entries/cairn-a+3.conf")
    assert (files, damaged) == (expected, {})
    image = tmp_path / "image"
    image.write_bytes(bytes(4096) + boot.read_bytes())
    assert Fat(image, 4096).tree()[0] == expected


def entry_of(boot: Path, short: bytes) -> int:
    """Where a short name's entry is in the image."""
    return boot.read_bytes().index(short)


def patch(boot: Path, offset: int, data: bytes) -> None:
    """Writes into the image."""
    with boot.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_what_is_damaged_is_not_there(boot: Path) -> None:
    """A chain that is too short, that meets a free cluster, or a folder that contains itself."""
    at = entry_of(boot, b"KERNEL~1IMG")
    patch(boot, at + 28, struct.pack("<I", 200_000))
    files, damaged = tree(boot)
    assert "kernel_2712.img" not in files
    assert "too early" in damaged["kernel_2712.img"]
    (low,) = struct.unpack("<H", boot.read_bytes()[at + 26 : at + 28])
    head = boot.read_bytes()[:64]
    (reserved,) = struct.unpack_from("<H", head, 14)
    patch(boot, reserved * 512 + (low + 3) * 4, bytes(4))
    assert "is free" in tree(boot)[1]["kernel_2712.img"]
    patch(boot, reserved * 512 + (low + 3) * 4, struct.pack("<I", low))
    patch(boot, at + 28, struct.pack("<I", 0xFFFFFFFF))
    patch(boot, at + 11, b"\x10")
    assert "kernel_2712.img/" in tree(boot)[1], "a folder whose chain is a ring"
    patch(boot, 510, b"\0\0")
    with pytest.raises(DamagedError, match="no FAT32"):
        Fat(boot)


def shape(image: Path) -> list[str]:
    """What is not as it was made."""
    fat = Fat(image)
    try:
        return [line for line in fat.shape() if not line.endswith(": ends")]
    finally:
        fat.close()


def test_shape_of_the_clusters(boot: Path) -> None:
    """What a writer meets: each fault of the clusters is told apart."""
    assert shape(boot) == []
    head = boot.read_bytes()[:64]
    reserved: int
    size: int
    (reserved,), (size,) = struct.unpack_from("<H", head, 14), struct.unpack_from("<I", head, 36)
    kernel = entry_of(boot, b"KERNEL~1IMG")
    (first,) = struct.unpack("<H", boot.read_bytes()[kernel + 26 : kernel + 28])
    loader = entry_of(boot, b"LOADER  ")
    (folder,) = struct.unpack("<H", boot.read_bytes()[loader + 26 : loader + 28])
    whole = boot.read_bytes()

    def faults(*patches: tuple[int, bytes]) -> list[str]:
        boot.write_bytes(whole)
        for offset, data in patches:
            patch(boot, offset, data)
        return shape(boot)

    def table(copy: int, cluster: int) -> int:
        return (reserved + copy * size) * 512 + cluster * 4

    one = faults((table(0, folder), bytes(4)))
    assert "loader/: leads to a free cluster" in one
    assert "table 1 differs" in one
    cut = [(table(copy, first + 3), bytes(4)) for copy in range(2)]
    free = "kernel_2712.img: leads to a free cluster, too short"
    assert faults(*cut) == [free, "clusters of no name"]
    ends = [(table(copy, first + 3), b"\xff\xff\xff\x0f") for copy in range(2)]
    assert faults(*ends) == ["kernel_2712.img: ends, too short", "clusters of no name"]
    assert faults((kernel + 28, bytes(4))) == ["kernel_2712.img: ends, too long"]
    ring = [(table(copy, first + 3), struct.pack("<I", first)) for copy in range(2)]
    assert "kernel_2712.img: is a ring, too short" in faults(*ring)
    out = [(table(copy, first + 3), b"\0\0\xff\x0e") for copy in range(2)]
    assert "kernel_2712.img: leads out, too short" in faults(*out)
    other = entry_of(boot, b"ALONGN~1")
    assert "one cluster of a long name of some file, number 0, kernel_2712.img" in faults(
        (other + 26, struct.pack("<H", first))
    )
    assert faults((kernel, b"\xe5")) == ["clusters of no name"]


def test_long_names_that_fit_no_entry(boot: Path) -> None:
    """The short name counts then."""
    at = entry_of(boot, b"KERNEL~1IMG")
    patch(boot, at, b"KERNEL~9IMG")
    files, _ = tree(boot)
    assert "kernel_2712.img" not in files
    assert "KERNEL~9.IMG" in files


def test_names_that_no_file_can_have(boot: Path, tmp_path: Path) -> None:
    """What a damaged directory says leads nowhere out of the folder, and is damaged."""
    folder = tmp_path / "deep/er/folder"
    names = (b"../../EVTXT", b"/TMP/EV TXT", b"        TXT", b"A\0B     TXT")
    for number, name in enumerate(names):
        image = tmp_path / f"boot{number}"
        reconstruct.copy(boot, image)
        patch(image, entry_of(image, b"KERNEL~1IMG"), name)
        before = {path for path in tmp_path.rglob("*") if folder not in path.parents}
        damaged = unpack(image, 0, folder)
        folders = {folder, *folder.parents}
        after = {path for path in tmp_path.rglob("*") if folder not in path.parents}
        assert after - before <= folders, name
        assert "kernel_2712.img" not in {path.name for path in folder.iterdir()}
        assert ("a name that is none" in damaged.values()) is (name != b"        TXT"), damaged
    assert not Path("/TMP").exists()


def test_a_file_and_a_folder_of_one_name(boot: Path, tmp_path: Path) -> None:
    """Only one of them can be there; the other is damaged."""
    # In small letters, by the byte behind the attributes
    patch(boot, entry_of(boot, b"KERNEL~1IMG"), b"LOADER     \x20\x08")
    damaged = unpack(boot, 0, tmp_path / "folder")
    assert list(damaged.values()) == ["a file and a folder of one name"], damaged


def test_nothing_of_a_boot_before_is_left(boot: Path, tmp_path: Path) -> None:
    """Also where there is no file system any more."""
    folder = tmp_path / "folder"
    assert unpack(boot, 0, folder) == {}
    assert (folder / "loader/entries/cairn-a+3.conf").read_text() == "title x\n"
    patch(boot, 510, b"\0\0")
    with pytest.raises(DamagedError):
        unpack(boot, 0, folder)
    assert not folder.exists()


# -- what is judged ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk for each board, BOARD.img."""
    folder = tmp_path_factory.mktemp("disks")
    for board in update_disk.BOARDS:
        update_disk.make(folder / f"{board}.img", board, folder / "work")
    return folder


@pytest.fixture(params=update_disk.BOARDS)
def node(request: pytest.FixtureRequest, disks: Path, tmp_path: Path) -> Node:
    """A copy of it."""
    reconstruct.copy(disks / f"{request.param}.img", tmp_path / "disk.img")
    return Node(tmp_path / "disk.img", request.param, tmp_path / "node")


def mtools(node: Node, name: str, *words: str) -> None:
    """Runs one of them on the boot partition."""
    run(name, "-i", f"{node.image}@@{STARTS['boot']}", *words)


def put(node: Node, tmp_path: Path, name: str, data: bytes) -> None:
    """A file of the boot partition, in place of what is there."""
    (tmp_path / "put").write_bytes(data)
    mtools(node, "mcopy", "-o", str(tmp_path / "put"), f"::{name}")


def find(image: Path, data: bytes, begin: int) -> int:
    """Where bytes first stand in an image, from a place on."""
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        found = memory.find(data, begin)
    assert found >= 0
    return found


def judged(node: Node, version: str = "") -> str:
    """What update_replay says: the version that boots, or the outcome that is bad."""
    try:
        slot, found, mended = update_replay.judge(node, update_replay.Known(version=version))
    except BadError as error:
        return error.outcome
    assert not mended
    return f"{found} in {slot}"


def test_as_made(node: Node) -> None:
    """What runs; and that the new version was said to stay is noticed."""
    assert judged(node) == f"{RUNS} in a"
    assert judged(node, NEW) == "lost"


def test_shape(node: Node, tmp_path: Path) -> None:
    """Disks that differ in what an update meets have different ones; random bytes do not count."""
    kernel = f"slot-b/{update_disk.KERNELS[node.board]}"

    def now() -> str:
        assert judged(node) == f"{RUNS} in a"
        return node.shape()

    found = [now()]
    assert now() == found[0]
    for data in (b"\xff" + bytes(2000), os.urandom(2000)):
        put(node, tmp_path, kernel, data)
        found.append(now())
    assert found[1] == found[2] != found[0]
    put(node, tmp_path, "slot-b/release", b"version=3\n")
    found.append(now())
    with node.image.open("r+b") as disk:
        disk.seek(STARTS["root-b"] + 5000)
        disk.write(b"x")
    found.append(now())
    mtools(node, "mdel", f"::{kernel}")
    found.append(now())
    assert not node.torn
    # A name that says more than it has
    name = find(node.image, b"RELEASE    ", find(node.image, b"SLOT-B     ", STARTS["boot"]))
    with node.image.open("r+b") as disk:
        disk.seek(name + 28)
        disk.write(struct.pack("<I", 70_000))
    found.append(now())
    assert node.torn
    assert len(set(found)) == len(found) - 1


def test_bad_disks(node: Node, tmp_path: Path) -> None:
    """Each fault by its name."""
    whole = tmp_path / "whole.img"
    reconstruct.copy(node.image, whole)
    kernel = f"slot-a/{update_disk.KERNELS[node.board]}"
    other = update_disk.OTHERS[node.board][-1]
    first = "config.txt" if node.board == "rpi5" else "loader/entries/cairn-a.conf"
    kernel_of = update_disk.content(BEFORE, "kernel", update_disk.KERNEL_BYTES)
    other_of = update_disk.content(BEFORE, other, update_disk.FILE_BYTES)

    def torn_root() -> None:
        with node.image.open("r+b") as disk:
            disk.seek(STARTS["root-a"] + 5000)
            disk.write(b"x")

    def damaged_data() -> None:
        wallet = update_disk.content("data", "lib/bitcoind/wallets/w/wallet.dat", 4096)
        with node.image.open("r+b") as disk:
            disk.seek(find(node.image, wallet, STARTS["data"]))
            disk.write(b"x")

    faults: dict[str, list[Callable[[], None]]] = {
        "wrong": [
            lambda: put(node, tmp_path, kernel, kernel_of),
            lambda: put(node, tmp_path, kernel, b"half"),
            lambda: put(node, tmp_path, f"slot-a/{other}", other_of),
            torn_root,
        ],
        "lost": [
            lambda: mtools(node, "mdel", "::node.conf"),
            lambda: put(node, tmp_path, "node.conf", b"other\n"),
            damaged_data,
        ],
        "stuck": [
            lambda: put(node, tmp_path, first, b""),
            lambda: mtools(node, "mdeltree", "::slot-a"),
        ],
    }
    for outcome, makers in faults.items():
        for number, fault in enumerate(makers):
            reconstruct.overwrite(whole, node.image)
            fault()
            found = judged(node)
            if node.board == "x86_64" and outcome == "stuck":
                # The other entry is taken then, which is an old version here.
                outcome = "wrong"
            assert found == outcome, f"{outcome} {number}"


# -- a few cuts --------------------------------------------------------------------------


def update(node: Node, tmp_path: Path, writer: Writer, *, in_place: bool) -> None:
    """The last steps of an update of a Raspberry Pi, each synced, as a trace."""
    before = tmp_path / "before.img"
    reconstruct.copy(node.image, before)
    made = update_disk.bundle(tmp_path / "bundle", "rpi5", NEW)

    def step(*, flush: bool = True) -> None:
        update_replay.changes(before, node.image, writer)
        if flush:
            writer.flush()
        reconstruct.overwrite(node.image, before)

    writer.mark('{"stage": "install"}')
    mtools(node, "mdel", "::slot-b/good")
    step()
    with node.image.open("r+b") as disk:
        disk.seek(STARTS["root-b"])
        disk.write(update_disk.root_of(NEW))
    step()
    mtools(node, "mdeltree", "::slot-b")
    step()
    mtools(node, "mmd", "::slot-b")
    line = f"root=PARTLABEL=root-b rauc.slot=b {update_disk.CMDLINE}\n"
    config = (made / "boot/config.txt").read_text().replace("slot-a/", "slot-b/")
    mtools(node, "mmd", "::slot-b/overlays")
    for path in sorted((made / "boot").rglob("*")):
        if path.is_file():
            data = config.encode() if path.name == "config.txt" else path.read_bytes()
            put(node, tmp_path, f"slot-b/{path.relative_to(made / 'boot')}", data)
    put(node, tmp_path, "slot-b/cmdline.txt", line.encode())
    put(node, tmp_path, "slot-b/good", b"")
    step()
    if in_place:
        # Cluster and size change before the content is there.
        put(node, tmp_path, "config.txt", b"")
        step()
        put(node, tmp_path, "config.txt", config.encode())
        step()
    else:
        put(node, tmp_path, "config.new", config.encode())
        step()
        # As Linux does: the old entry gets the new beginning and size, within one sector.
        old, new = (
            find(node.image, name, STARTS["boot"]) for name in (b"CONFIG  TXT", b"CONFIG  NEW")
        )
        with node.image.open("r+b") as disk:
            for begin, end in ((20, 22), (26, 32)):
                disk.seek(new + begin)
                data = disk.read(end - begin)
                disk.seek(old + begin)
                disk.write(data)
            disk.seek(new)
            disk.write(b"\xe5")
        step()
    writer.mark(json.dumps({"version": NEW}))
    writer.close()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_few_cuts(disks: Path, tmp_path: Path, in_place: bool) -> None:
    """None is bad; with config.txt rewritten in place, some are."""
    base, trace = disks / "rpi5.img", tmp_path / "trace"
    node = Node(tmp_path / "disk.img", "rpi5", tmp_path / "node")
    reconstruct.copy(base, node.image)
    update(node, tmp_path, Writer(str(trace)), in_place=in_place)
    assert judged(node, NEW) == f"{NEW} in b"
    index = reconstruct.index(trace)
    medium = reconstruct.Medium(base, trace, tmp_path / "medium", 1, lies=False)
    medium.acknowledged = known = update_replay.Known()
    found = set()
    end = index.records
    for number in range(24):
        # The last records are where it is decided; all policies take turns.
        position = end - 24 + number if number % 2 else end * (number + 1) // 24
        policy = reconstruct.cut_policies()[number % 4]
        position = max(position, medium.position)
        medium.make(reconstruct.State(position, number, policy, 1), tmp_path / "state")
        state = Node(tmp_path / "state", "rpi5", tmp_path / "node")
        found.add(judged(state, known.version))
    if in_place:
        assert "stuck" in found
    else:
        assert found == {f"{RUNS} in a", f"{NEW} in b"}


def test_each_request_alone(disks: Path, tmp_path: Path) -> None:
    """Before each flush, each request is lost alone and left alone; --only makes one of them."""
    base, trace = disks / "rpi5.img", tmp_path / "trace"
    writer = Writer(str(trace))
    writer.mark('{"stage": "install"}')
    for offset in (0, 512, 1024):
        writer.write(STARTS["root-b"] + offset, b"x" * 512)
    writer.flush()
    writer.write(STARTS["root-b"], b"y" * 512)
    writer.flush()
    writer.mark('{"version": "2.0.0"}')
    writer.close()
    index = reconstruct.index(trace)
    for only, expected in ((None, 8), (3, 1)):
        options = argparse.Namespace(policy=None, only=only, seed=1)
        medium = reconstruct.Medium(base, trace, tmp_path / "medium", 1, lies=False)
        found = {}
        for state, outcome, _ in update_replay.made(medium, [], index, options, tmp_path):
            path = tmp_path / f"state-{state.number}"
            with path.open("rb") as disk:
                disk.seek(STARTS["root-b"])
                found[state.number] = disk.read(1536)[::512].count(b"x")
            assert outcome.policy == state.policy
            path.unlink()
        assert len(found) == expected
        # of three requests two or one, of the last none or one
        assert found[3] == 1

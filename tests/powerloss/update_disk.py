"""A node's disk for power cuts during an update: how it is made, and what boots from what is left.

The layout is the product's (board/common/genimage.cfg), with smaller partitions: boot (FAT, made by
boot-partition.sh), root-a, root-b, data (ext4). A kernel, a device tree and a root file system are
random bytes here, one set for each version, so that it can be told of which version they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from lab import fat, sparse
from lab.fat import DamagedError
from lab.paths import ROOT
from lab.pi_firmware import Boot, NothingBootsError, PiFirmware
from tests.powerloss import mounts
from tests.powerloss.mounts import MountError, run
from tests.shared import systemd_boot

BOARDS = ("rpi5", "x86_64")
#: What runs at first, what it is updated to, and what is in the other slot before
RUNS, NEW, BEFORE = "1.0.0", "2.0.0", "0.9.0"
MIB = 1 << 20
#: Partitions in MiB, in their order; boot and data are as large as the product's, data the least:
#: a smaller one has no second superblock, without which a torn superblock cannot be mended.
SIZES = {"boot": 256, "root-a": 4, "root-b": 4, "data": mounts.SIZE >> 20}
#: Where each begins, in bytes: on whole MiB, behind the partition table
STARTS = {name: MIB * (1 + sum(list(SIZES.values())[:number])) for number, name in enumerate(SIZES)}
#: Bytes of an image; the last MiB has the second partition table.
SIZE = MIB * (2 + sum(SIZES.values()))
#: Bytes of a root file system, a kernel, and each smaller file beside it
ROOT_BYTES, KERNEL_BYTES, FILE_BYTES = 3 * MIB - 8192, 700_001, 30_011
KERNELS = {"rpi5": "kernel_2712.img", "x86_64": "linux"}
OTHERS = {
    "rpi5": ("bcm2712-rpi-5-b.dtb", "overlays/README", "overlays/bcm2712d0.dtbo"),
    "x86_64": ("microcode.img",),
}
CMDLINE = "rootfstype=erofs ro quiet console=tty0"
#: The owner's: on the boot partition, and on the data partition
NODE_CONF = b"hostname=attic\nprune=5000\n" * 40
KEPT = {"lib/bitcoind/wallets/w/wallet.dat": 300_000, "lib/bitcoind/blocks/blk00000.dat": 900_000}


def content(version: str, name: str, size: int) -> bytes:
    """A file of a version: the same bytes each time."""
    return random.Random(f"{version}/{name}").randbytes(size)


def root_of(version: str) -> bytes:
    """A root file system."""
    return content(version, "root", ROOT_BYTES)


def bundle(folder: Path, board: str, version: str) -> Path:
    """A bundle as RAUC mounts it, in a new folder; returns that."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "boot").mkdir(parents=True)
    root = root_of(version)
    (folder / "root.img").write_bytes(root)
    (folder / "release").write_text(
        f"version={version}\nboard={board}\ndata-format=1\ndata-reads=1\nroot-size={len(root)}\n"
        f"root-sha256={hashlib.sha256(root).hexdigest()}\n"
    )
    (folder / "boot/cmdline").write_text(CMDLINE + "\n")
    (folder / "boot" / KERNELS[board]).write_bytes(content(version, "kernel", KERNEL_BYTES))
    for name in OTHERS[board]:
        (folder / "boot" / name).parent.mkdir(exist_ok=True)
        (folder / "boot" / name).write_bytes(content(version, name, FILE_BYTES))
    if board == "rpi5":
        shutil.copy(ROOT / "board/rpi5/config.txt", folder / "boot")
    return folder


def boot_files(folder: Path, board: str) -> None:
    """The boot partition of a node that was updated once: a runs and is good, b was."""
    for slot, version in (("a", RUNS), ("b", BEFORE)):
        made = bundle(folder.with_name("bundle"), board, version)
        target = folder / f"slot-{slot}"
        shutil.copytree(made / "boot", target)
        shutil.copy(made / "release", target)
        line = f"root=PARTLABEL=root-{slot} rauc.slot={slot} {CMDLINE}"
        if board == "rpi5":
            (target / "cmdline.txt").write_text(line + "\n")
            config = (target / "config.txt").read_text()
            config = config.replace("os_prefix=slot-a/", f"os_prefix=slot-{slot}/")
            (target / "config.txt").write_text(config)
            (target / "good").touch()
        else:
            entries = folder / "loader/entries"
            entries.mkdir(parents=True, exist_ok=True)
            (entries / f"cairn-{slot}.conf").write_text(
                f"title Cairn {version}\nversion {2 if slot == 'a' else 1}\nsort-key cairn\n"
                f"linux /slot-{slot}/linux\ninitrd /slot-{slot}/microcode.img\noptions {line}\n"
            )
    if board == "rpi5":
        shutil.copy(folder / "slot-a/config.txt", folder)
    (folder / "node.conf").write_bytes(NODE_CONF)


def make(image: Path, board: str, work: Path) -> None:
    """A new disk on which version RUNS runs; ``work``: a folder for what it is made of."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "boot").mkdir(parents=True)
    boot_files(work / "boot", board)
    run(str(ROOT / "board/common/boot-partition.sh"), str(work / "boot"), str(work / "boot.vfat"))
    image.unlink(missing_ok=True)
    with image.open("wb") as disk:
        disk.truncate(SIZE)
    lines = ["label: gpt"] + [
        f"start={STARTS[name] // 512}, size={size * 2048}, name={name}"
        for name, size in SIZES.items()
    ]
    subprocess.run(["sfdisk", "-q", str(image)], input="\n".join(lines), text=True, check=True)
    data = work / "data"
    for name, size in KEPT.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(content("data", name, size))
    (data / "lib/cairn/update").mkdir(parents=True)
    (data / "lib/cairn/node.conf").write_bytes(NODE_CONF)
    with (work / "data.ext4").open("wb") as file:
        file.truncate(SIZES["data"] * MIB)
    run(*mounts.MKFS, "-d", str(data), str(work / "data.ext4"))
    with image.open("r+b") as disk:
        for name, version in (("root-a", RUNS), ("root-b", BEFORE)):
            disk.seek(STARTS[name])
            disk.write(root_of(version))
    for name, file_name in (("boot", "boot.vfat"), ("data", "data.ext4")):
        words = ["bs=1M", "conv=notrunc,sparse", f"seek={STARTS[name] // MIB}", "status=none"]
        run("dd", f"if={work / file_name}", f"of={image}", *words)


# -- what boots --------------------------------------------------------------------------


class BadError(Exception):
    """What must never be: ``outcome`` is one of report.OUTCOMES, the text says what."""

    def __init__(self, outcome: str, text: str) -> None:
        """``outcome``: lost, wrong or stuck."""
        super().__init__(text)
        self.outcome = outcome


@dataclass
class Started:
    """What a boot came to."""

    slot: str
    version: str
    line: str
    """the kernel's command line"""


@dataclass
class Node:
    """A disk in an image, or in a part of one, with its board's boot loader."""

    image: Path
    board: str
    work: Path
    """a folder for copies of the boot partition"""
    offset: int = 0
    asked: str = ""
    """argument of the restart that was asked for, which a power cut forgets"""
    damaged: dict[str, str] = field(default_factory=dict)
    """files of the boot partition that could not be read at the last boot"""
    line: str = ""
    """the kernel's command line of the last boot"""
    torn: bool = False
    """whether shape() found a name whose clusters are not its own, or not as many as it says"""

    def _unpack(self) -> Path:
        folder = self.work / "boot"
        try:
            self.damaged = fat.unpack(self.image, self.offset + STARTS["boot"], folder)
        except DamagedError as error:
            raise BadError("stuck", str(error)) from error
        return folder

    def boot(self) -> Started:
        """Power on, or the restart that was asked for: the boot loader, then what it starts.

        On a PC the loader's change is written to the disk. Raises BadError.
        """
        folder = self._unpack()
        started = self._boot_pi(folder) if self.board == "rpi5" else self._boot_pc(folder)
        if (folder / "node.conf").is_file():
            if (folder / "node.conf").read_bytes() != NODE_CONF:
                raise BadError("lost", "node.conf has another content")
        else:
            raise BadError("lost", f"node.conf cannot be read: {self.damaged.get('node.conf')}")
        self.line = started.line
        return started

    def _boot_pi(self, folder: Path) -> Started:
        firmware = PiFirmware(folder)
        firmware.restart(self.asked)
        self.asked = ""
        try:
            boot: Boot = firmware.boot()
        except NothingBootsError as error:
            raise BadError("stuck", str(error)) from error
        others = {OTHERS["rpi5"][0]: boot.tree, OTHERS["rpi5"][-1]: boot.overlay}
        return self._judge(boot.kernel, others, boot.command_line)

    def _boot_pc(self, folder: Path) -> Started:
        self.asked = ""
        for path in (folder / "loader/entries").glob("*.conf"):
            # What is no text is no entry for systemd-boot; the model reads text.
            path.write_text(path.read_bytes().decode("ascii", "ignore"))
        before = {path.name for path in (folder / "loader/entries").glob("*.conf")}
        if (entry := systemd_boot.start(folder)) is None:
            raise BadError("stuck", "no entry that can be started")
        after = {path.name for path in (folder / "loader/entries").glob("*.conf")}
        for old in before - after:
            (new,) = after - before
            place = f"{self.image}@@{self.offset + STARTS['boot']}"
            run("mren", "-i", place, f"::loader/entries/{old}", new)
        others = {}
        if "initrd" in entry.values:
            path = folder / entry.values["initrd"].lstrip("/")
            if not path.is_file():
                raise BadError("stuck", f"{entry.name} names an initrd that is not there")
            others[path.name] = path.read_bytes()
        kernel = (folder / entry.values["linux"].lstrip("/")).read_bytes()
        return self._judge(kernel, others, entry.values.get("options", ""))

    def _judge(self, kernel: bytes, others: dict[str, bytes], line: str) -> Started:
        slots = [
            word[-1] for word in line.split() if word in {f"root=PARTLABEL=root-{s}" for s in "ab"}
        ]
        if not slots:
            raise BadError("stuck", f"the command line names no root: '{line}'")
        slot = slots[-1]
        with self.image.open("rb") as disk:
            disk.seek(self.offset + STARTS[f"root-{slot}"])
            root = disk.read(ROOT_BYTES)
        found = {"root": _version(root, "root"), "kernel": _version(kernel, "kernel")}
        found |= {name: _version(data, name) for name, data in others.items()}
        if len(set(found.values())) != 1 or "torn" in found.values():
            said = ", ".join(f"{name} {version}" for name, version in found.items())
            raise BadError("wrong", f"slot {slot}: {said}")
        return Started(slot, found["root"], line)

    def shape(self) -> str:
        """What a further update meets, after boot() and check_data(), as a digest.

        The boot partition's names and clusters; of its files the text, or which version's they are;
        which versions the root file systems are of; and the update's notes on the data partition.
        """
        boot = self.work / "boot"
        table = fat.Fat(self.image, self.offset + STARTS["boot"])
        try:
            lines = table.shape()
        finally:
            table.close()
        self.torn = any(
            not line.startswith(("table ", "clusters of no name")) and not line.endswith(": ends")
            for line in lines
        )
        for path in sorted(path for path in boot.rglob("*") if path.is_file()):
            data = path.read_bytes()
            names = ("kernel", path.name)
            known = [version for name in names if (version := _version(data, name)) != "torn"]
            torn = data.hex() if data.isascii() else "torn"
            lines.append(f"{path.relative_to(boot)} {(known or [torn])[0]}")
        for slot in "ab":
            with self.image.open("rb") as disk:
                disk.seek(self.offset + STARTS[f"root-{slot}"])
                lines.append(f"root-{slot} {_version(disk.read(ROOT_BYTES), 'root')}")
        notes = self.work / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        run("debugfs", "-R", f"rdump lib/cairn/update {notes}", str(self.work / "data.ext4"))
        for path in sorted(path for path in notes.rglob("*") if path.is_file()):
            lines.append(f"{path.relative_to(notes)} {path.read_bytes().hex()}")
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def check_data(self) -> bool:
        """The boot's fsck of the data partition; True if that mended something. BadError."""
        part, copy = self.work / "data.ext4", self.work / "copy"
        begin, size = self.offset + STARTS["data"], SIZES["data"] * MIB
        part.unlink(missing_ok=True)
        with self.image.open("r+b") as disk, part.open("w+b") as file:
            file.truncate(size)
            copy_range(disk.fileno(), begin, file.fileno(), 0, size)
            # e2fsck's own offset is forgotten when it opens the file again after the journal.
            try:
                mended = mounts.repair(part)
            except MountError as error:
                raise BadError("lost", str(error)) from error
            copy_range(file.fileno(), 0, disk.fileno(), begin, size)
        try:
            for name, size in KEPT.items():
                copy.unlink(missing_ok=True)
                run("debugfs", "-R", f"dump {name} {copy}", str(part))
                if not copy.exists() or copy.read_bytes() != content("data", name, size):
                    raise BadError("lost", f"{name} on the data partition is not what it was")
        except MountError as error:
            raise BadError("lost", str(error)) from error
        return mended


def copy_range(source: int, begin: int, target: int, at: int, size: int) -> None:
    """A part of one open file into another, so that holes stay holes."""
    end = begin
    for first, last in (*sparse.data(source, begin, begin + size), (begin + size, begin + size)):
        sparse.write_zeros(target, at + end - begin, at + first - begin)
        for offset in range(first, last, MIB):
            data = os.pread(source, min(MIB, last - offset), offset)
            os.pwrite(target, data, at + offset - begin)
        end = last


_KNOWN: dict[str, str] = {}


def _version(data: bytes, name: str) -> str:
    """Which version's file this is, or "torn"."""
    if not _KNOWN:
        for version in (BEFORE, RUNS, NEW):
            files = {"root": ROOT_BYTES, "kernel": KERNEL_BYTES}
            files |= dict.fromkeys([*OTHERS["rpi5"], *OTHERS["x86_64"]], FILE_BYTES)
            for file, size in files.items():
                digest = hashlib.sha256(content(version, file, size)).hexdigest()
                _KNOWN[f"{file} {digest}"] = version
    return _KNOWN.get(f"{name} {hashlib.sha256(data).hexdigest()}", "torn")


def describe(node: Node) -> str:
    """The boot partition's names, for the log of a failure."""
    folder = node.work / "boot"
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return json.dumps({"files": names, "damaged": node.damaged})

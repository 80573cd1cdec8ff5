"""Disks beside a machine's own: image files with a serial number, and what may stand on them.

A content is written as the tools of the world write it, as far as util-linux recognises it.
"""

from __future__ import annotations

import hashlib
import random
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: Where a disk is plugged in: QEMU's options, of which {0} is its number and {1} its serial number.
BUSES = {
    "virtio": "-device virtio-blk-pci,drive=more{0},serial={1}",
    "nvme": "-device nvme,drive=more{0},serial={1}",
    "usb": (
        "-device qemu-xhci,id=xhci{0} -device usb-storage,bus=xhci{0}.0,drive=more{0},serial={1}"
    ),
    "scsi": (
        "-device virtio-scsi-pci,id=scsi{0} -device scsi-hd,bus=scsi{0}.0,drive=more{0},serial={1}"
    ),
}


@dataclass
class Disk:
    """One disk: an image file that outlives the machines it is plugged into."""

    image: Path
    serial: str
    bus: str = "virtio"

    def options(self, number: int) -> list[str]:
        """Of QEMU; the number is another one for each disk of a machine."""
        drive = f"if=none,id=more{number},format=raw,discard=unmap,file={self.image}"
        return ["-drive", drive, *BUSES[self.bus].format(number, self.serial).split()]

    def make(self, size: int, content: str) -> None:
        """A new image of that many bytes; see CONTENTS."""
        self.image.parent.mkdir(parents=True, exist_ok=True)
        self.image.unlink(missing_ok=True)
        with self.image.open("wb") as file:
            file.truncate(size)
        CONTENTS[content](self.image)

    def digest(self) -> str:
        """SHA-256 of all its bytes."""
        with self.image.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _write(image: Path, offset: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _run(*command: str, text: str = "") -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, input=text)


def blank(_image: Path) -> None:
    """Zeros."""


def ones(image: Path) -> None:
    """Erased flash that reads as ones, in the first 4 MiB."""
    _write(image, 0, b"\xff" * (4 << 20))


def ext4(image: Path) -> None:
    """A file system on the whole disk."""
    _run("mkfs.ext4", "-q", "-F", "-L", "photos", str(image))


def gpt(image: Path) -> None:
    """A partition table with a file system in its partition."""
    _run("sfdisk", "-q", str(image), text="label: gpt\nstart=2048, name=photos\n")
    ext4_at = image.with_suffix(".part")
    with ext4_at.open("wb") as file:
        file.truncate(64 << 20)
    ext4(ext4_at)
    _write(image, 1 << 20, ext4_at.read_bytes())
    ext4_at.unlink()


def empty_gpt(image: Path) -> None:
    """A partition table without partitions, as Windows initialises a disk."""
    _run("sfdisk", "-q", str(image), text="label: gpt\n")


def ntfs(image: Path) -> None:
    """NTFS: boot sector, and the records of the MFT and of the volume's name."""
    sectors = image.stat().st_size // 512
    boot = bytearray(512)
    boot[0:3] = b"\xeb\x52\x90"
    boot[3:11] = b"NTFS    "
    struct.pack_into("<HB", boot, 0x0B, 512, 8)
    boot[0x15] = 0xF8
    struct.pack_into("<HHI", boot, 0x18, 63, 255, 0)
    struct.pack_into("<I", boot, 0x24, 0x800080)
    struct.pack_into("<QQQ", boot, 0x28, sectors - 1, 4, sectors // 16)
    struct.pack_into("<bxxxb", boot, 0x40, -10, 1)
    struct.pack_into("<Q", boot, 0x48, 0x1234567890ABCDEF)
    boot[510:512] = b"\x55\xaa"
    _write(image, 0, bytes(boot))
    # Records of 1 KiB from cluster 4 on. Each has one attribute, the end of the list.
    for number in range(16):
        record = bytearray(1024)
        record[0:4] = b"FILE"
        struct.pack_into("<H", record, 20, 56)
        struct.pack_into("<II", record, 24, 64, 1024)
        struct.pack_into("<I", record, 56, 0xFFFFFFFF)
        _write(image, 4 * 4096 + number * 1024, bytes(record))


def luks(image: Path) -> None:
    """The header of an encrypted disk, and behind it what looks like noise."""
    header = bytearray(592)
    header[0:8] = b"LUKS\xba\xbe\x00\x01"
    header[8:11] = b"aes"
    header[40:51] = b"xts-plain64"
    header[72:78] = b"sha256"
    struct.pack_into(">II", header, 104, 4096, 64)
    header[168:204] = b"0f1e2d3c-4b5a-4678-9abc-def012345678"
    _write(image, 0, bytes(header))
    _write(image, 2 << 20, random.Random(1).randbytes(1 << 20))


def lvm(image: Path) -> None:
    """A physical volume."""
    label = bytearray(512)
    label[0:8] = b"LABELONE"
    struct.pack_into("<Q", label, 8, 1)
    label[24:32] = b"LVM2 001"
    label[32:64] = b"abcdef0123456789abcdef0123456789"
    struct.pack_into("<I", label, 20, 32)
    crc = 0xF597A6CF
    for byte in label[20:]:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    struct.pack_into("<I", label, 16, crc)
    _write(image, 512, bytes(label))


def noise(image: Path) -> None:
    """Encrypted without a header (dm-crypt): no signature at all."""
    _write(image, 0, random.Random(2).randbytes(4 << 20))


CONTENTS: dict[str, Callable[[Path], None]] = {
    "blank": blank,
    "ones": ones,
    "ext4": ext4,
    "gpt": gpt,
    "empty gpt": empty_gpt,
    "NTFS": ntfs,
    "LUKS": luks,
    "LVM": lvm,
    "noise": noise,
}

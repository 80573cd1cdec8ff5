"""support/flash: disks that must not be overwritten, and images that must not be written.

Real loop devices; where the kind of hardware matters, lsblk's answer about it is faked. Each
refusal is checked against the disk's bytes.
"""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared import flashing
from tests.shared.commands import captured
from tests.shared.flashing import (
    EOF,
    MIB,
    OLD,
    attach,
    detach,
    fake_lsblk,
    flash,
    refused,
    run,
    shim,
)

GIB = 1 << 30
#: lsblk's answers about kinds of hardware.
BACKUP_DISK = {"RM": "0", "HOTPLUG": "1", "TYPE": "disk", "MODEL": "My Passport"}
CARD = {"RM": "1", "HOTPLUG": "1", "TYPE": "disk", "MODEL": "SD Card Reader"}
NVME = {"RM": "0", "HOTPLUG": "0", "TYPE": "disk", "MODEL": "Samsung SSD 990", "SERIAL": "S7XYZ"}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A small image as support/image leaves it."""
    return flashing.make_image(tmp_path / "cairn-test.img")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The file behind the loop device: 600 MiB, an earlier life's data at its start."""
    path = tmp_path / "disk"
    path.write_bytes(OLD)
    os.truncate(path, 600 * MIB)
    flashing.WATCHED.clear()
    yield flashing.watch(path)
    flashing.WATCHED.clear()  # it is removed


@pytest.fixture
def loop(disk: Path) -> Iterator[str]:
    """The device under test."""
    device = attach(disk, "-P")
    yield device
    detach(device)


@pytest.fixture
def parted(loop: str, disk: Path) -> str:
    """The device with two partitions, which have nodes."""
    table = "label: gpt\nfirst-lba: 16384\nsize=32M,name=photos\nsize=32M\n"
    run("sfdisk", "-q", str(disk), text=table)
    run("partx", "-a", loop)
    if not Path(f"{loop}p2").exists():
        pytest.skip("no device nodes for the partitions of loop devices here")
    return loop


def written(disk: Path, image: Path) -> bool:
    """Whether the image's bytes are on the disk."""
    content = image.read_bytes()
    with disk.open("rb") as stream:
        return stream.read(len(content)) == content


# Which disk is written without a question


@pytest.mark.parametrize("answer", [None, EOF, "\n", "y\n", "yes\n", "YES\n", "1000 GB\n"])
def test_usb_backup_disk_is_asked_for(
    image: Path, loop: str, disk: Path, tmp_path: Path, answer: str | None
) -> None:
    """RM=0, HOTPLUG=1: no terminal, no answer and a careless answer all mean no."""
    path = fake_lsblk(tmp_path / "bin", **BACKUP_DISK, SERIAL="WX11D 94K")
    refused(flash(image, loop, answer, path=path), "nothing was written")


@pytest.mark.parametrize("answer", ["WX11D 94K\n", "  WX11D 94K \n"])
def test_usb_disk_with_its_serial_number_typed(
    image: Path, loop: str, disk: Path, tmp_path: Path, answer: str
) -> None:
    """The serial number, with a space in it, is the deliberate answer."""
    path = fake_lsblk(tmp_path / "bin", **BACKUP_DISK, SERIAL="WX11D 94K  ")
    result = flash(image, loop, answer, path=path)
    assert result.returncode == 0, result.stderr
    assert written(disk, image)


def test_the_answer_does_not_come_from_a_pipe(
    image: Path, loop: str, disk: Path, tmp_path: Path
) -> None:
    """What a program says is no answer, even if it is the right word."""
    path = fake_lsblk(tmp_path / "bin", **BACKUP_DISK, SERIAL="WX11")
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    result = subprocess.run(
        [str(ROOT / "support/flash"), str(image), loop],
        check=False,
        capture_output=True,
        text=True,
        input=f"WX11\n{loop}\n",
        env=environment,
    )
    assert result.returncode == 1
    assert "nothing was written" in result.stderr
    assert not written(disk, image)


@pytest.mark.parametrize("serial", ["", "0", "y", "yes", "000", "   "])
def test_serial_number_that_is_none(
    image: Path, loop: str, disk: Path, tmp_path: Path, serial: str
) -> None:
    """Without a serial number worth the name, the device's name is asked for."""
    path = fake_lsblk(tmp_path / "bin", **BACKUP_DISK, SERIAL=serial)
    refused(flash(image, loop, f"{serial}\n", path=path), "nothing was written")
    assert flash(image, loop, f"{loop}\n", path=path).returncode == 0
    assert written(disk, image)


def test_small_card_is_not_asked_for(image: Path, loop: str, disk: Path, tmp_path: Path) -> None:
    """RM=1 and 64 GiB at most: written without a question, and shown all the same."""
    path = fake_lsblk(tmp_path / "bin", **CARD, SERIAL="2011")
    result = flash(image, loop, path=path)
    assert result.returncode == 0, result.stderr
    assert "SD Card Reader" in result.stderr
    assert written(disk, image)


@pytest.mark.parametrize(("size", "asked"), [(64 * GIB, False), (64 * GIB + 512, True)])
def test_large_card_is_asked_for(
    image: Path, loop: str, disk: Path, tmp_path: Path, size: int, asked: bool
) -> None:
    """A disk that calls itself removable, too, from 64 GiB on."""
    os.truncate(disk, size)
    run("losetup", "-c", loop)
    result = flash(image, loop, path=fake_lsblk(tmp_path / "bin", **CARD))
    assert (result.returncode == 1) is asked, result.stderr
    with disk.open("rb") as stream:
        assert (stream.read(len(OLD)) == OLD) is asked


@pytest.mark.parametrize(
    "hardware", [NVME, {**BACKUP_DISK, "HOTPLUG": "0"}, {"RM": "", "HOTPLUG": ""}]
)
def test_built_in_disk(
    image: Path, loop: str, disk: Path, tmp_path: Path, hardware: dict[str, str]
) -> None:
    """Needs FORCE=1 and the answer; what lsblk does not know counts as built in."""
    path = fake_lsblk(tmp_path / "bin", **hardware)
    refused(flash(image, loop, f"{loop}\n", path=path), "FORCE=1")
    refused(flash(image, loop, path=path, FORCE="1"), "nothing was written")
    refused(flash(image, loop, "yes\n", path=path, FORCE="1"), "nothing was written")
    right = hardware.get("SERIAL", loop)
    assert flash(image, loop, f"{right}\n", path=path, FORCE="1").returncode == 0
    assert written(disk, image)


@pytest.mark.parametrize("force", ["", "0", "yes", "2"])
def test_other_words_in_force(image: Path, loop: str, disk: Path, force: str) -> None:
    """Only FORCE=1 is FORCE=1."""
    refused(flash(image, loop, f"{loop}\n", FORCE=force), "FORCE=1")


def test_unknown_disk_is_refused(image: Path, loop: str, disk: Path, tmp_path: Path) -> None:
    """lsblk that fails means that nothing is known, not that nothing is mounted."""
    for column in ("TYPE", "MOUNTPOINTS"):
        path = fake_lsblk(tmp_path / "bin", **{**CARD, column: "FAIL"})
        result = flash(image, loop, path=path)
        refused(result, "")


# What is shown


def test_what_is_shown(image: Path, parted: str, disk: Path, tmp_path: Path) -> None:
    """Model, serial number, size, and each partition with label and file system."""
    run("mkfs.ext4", "-q", "-L", "HOLIDAY", f"{parted}p1")
    run("mkfs.vfat", "-n", "OLD BOOT", f"{parted}p2")
    path = fake_lsblk(tmp_path / "bin", **BACKUP_DISK, SERIAL="WX11")
    result = flash(image, parted, EOF, path=path)
    refused(result, "nothing was written")
    for words in ("My Passport", "WX11", "629 MB", "ext4", "HOLIDAY", "vfat", "OLD BOOT", "photos"):
        assert words in result.stderr, words


def test_no_escape_sequence_is_shown(image: Path, parted: str, disk: Path, tmp_path: Path) -> None:
    """A label of another machine's cannot clear the screen with the question on it."""
    run("mkfs.ext4", "-q", "-L", "A\x1b[2JB", f"{parted}p1")
    path = fake_lsblk(
        tmp_path / "bin", **{**BACKUP_DISK, "MODEL": "X\x1b[1A"}, SERIAL="\x1b[8mWX11"
    )
    result = flash(image, parted, EOF, path=path)
    refused(result, "nothing was written")
    assert "\x1b" not in result.stderr


# Disks that are in use


def test_mounted_partition(image: Path, parted: str, disk: Path, tmp_path: Path) -> None:
    """The mount points are named; a card is no exception."""
    run("mkfs.ext4", "-q", f"{parted}p1")
    where = tmp_path / "mnt of mine"
    where.mkdir()
    prefix = (
        "unshare",
        "-m",
        "sh",
        "-c",
        f'mount -o ro,noload {parted}p1 "$0" && exec "$@"',
        str(where),
    )
    path = fake_lsblk(tmp_path / "bin", **CARD)
    result = flash(image, parted, f"{parted}\n", path=path, prefix=prefix)
    refused(result, "unmount it first")
    assert "mnt of mine" in result.stderr


def test_mounted_where_lsblk_cannot_see_it(
    image: Path, parted: str, disk: Path, tmp_path: Path
) -> None:
    """Another name space, or the second disk of a btrfs: the kernel says that it is in use."""
    run("mkfs.ext4", "-q", f"{parted}p1")
    where = tmp_path / "mnt"
    where.mkdir()
    run("mount", "-o", "ro,noload", f"{parted}p1", str(where))
    try:
        path = fake_lsblk(tmp_path / "bin", **CARD, MOUNTPOINTS="")
        refused(flash(image, parted, path=path), "in use")
    finally:
        run("umount", str(where))


def test_swap(image: Path, parted: str, disk: Path, tmp_path: Path) -> None:
    """Swap is memory of the running system."""
    run("mkswap", "-q", f"{parted}p2")
    if subprocess.run(["swapon", f"{parted}p2"], check=False, capture_output=True).returncode:
        pytest.skip("swap cannot be switched on here")
    try:
        result = flash(image, parted, path=fake_lsblk(tmp_path / "bin", **CARD))
        refused(result, "holds the system")
    finally:
        run("swapoff", f"{parted}p2")


@pytest.mark.parametrize("where", ["/", "/boot/efi", "/usr", "[SWAP]", "\\x0a/\\x0a/mnt"])
def test_disk_of_the_running_system(
    image: Path, loop: str, disk: Path, tmp_path: Path, where: str
) -> None:
    """Refused, whatever is answered."""
    path = fake_lsblk(tmp_path / "bin", **CARD, MOUNTPOINTS=where)
    refused(flash(image, loop, f"{loop}\n", path=path, FORCE="1"), "holds the system")


@pytest.mark.parametrize("kind", ["crypt", "lvm", "raid1", "mpath", "dm"])
def test_volume_on_the_disk(image: Path, loop: str, disk: Path, tmp_path: Path, kind: str) -> None:
    """LVM, RAID, encryption: their disk is not mounted, and yet in use."""
    lsblk = tmp_path / "bin"
    fake_lsblk(lsblk, **{key: value for key, value in CARD.items() if key != "TYPE"})
    text = (lsblk / "lsblk").read_text()
    tree = f"""case "$*" in
-d*TYPE*) echo disk; exit ;;
*TYPE*) printf 'disk\\npart\\n{kind}\\n'; exit ;;
esac
"""
    (lsblk / "lsblk").write_text(text.replace("exec ", tree + "exec ", 1))
    refused(flash(image, loop, path=str(lsblk)), "switch that off first")


def test_disk_that_holds_the_image(parted: str, disk: Path, tmp_path: Path) -> None:
    """The image would be overwritten by itself."""
    run("mkfs.ext4", "-q", f"{parted}p1")
    where = tmp_path / "mnt"
    where.mkdir()
    run("mount", f"{parted}p1", str(where))
    try:
        image = flashing.make_image(where / "cairn-test.img")
        run("mount", "-o", "remount,ro", str(where))  # so that ext4 itself writes nothing
        path = fake_lsblk(tmp_path / "bin", **CARD)
        refused(flash(image, parted, path=path), "holds the image itself")
    finally:
        run("umount", str(where))


# Loop devices that stand for something else


def test_loop_device_on_the_image(image: Path, tmp_path: Path) -> None:
    """Also by another name of the file."""
    link = tmp_path / "link.img"
    os.link(image, link)
    flashing.write_sum(link)
    before = run("sha256sum", str(image))
    device = attach(image)
    try:
        result = flash(link, device, f"{device}\n", FORCE="1")
    finally:
        detach(device)
    assert result.returncode == 1
    assert "the image itself" in result.stderr.splitlines()[-1]
    assert run("sha256sum", str(image)) == before


def test_loop_device_on_a_device(image: Path, loop: str, disk: Path) -> None:
    """Writing to it would write to the disk behind it, whatever that one holds."""
    second = attach(Path(loop))
    try:
        refused(flash(image, second, f"{second}\n", FORCE="1"), loop)
        refused(flash(image, loop, f"{loop}\n", FORCE="1"), second)
    finally:
        detach(second)


def test_two_loop_devices_on_one_file(image: Path, loop: str, disk: Path) -> None:
    """The other one may be mounted."""
    second = attach(disk)
    try:
        refused(flash(image, loop, f"{loop}\n", FORCE="1"), second)
    finally:
        detach(second)


def test_loop_device_on_a_file_that_is_gone(image: Path, loop: str, disk: Path) -> None:
    """What is written to it cannot be found again."""
    kept = disk.with_name("kept")
    os.link(disk, kept)
    disk.unlink()
    flashing.WATCHED[:] = [kept]
    refused(flash(image, loop, f"{loop}\n", FORCE="1"), "removed")


# Names


@pytest.mark.parametrize(
    "device",
    [
        "/dev/null",
        "/dev/there-is-none",
        "disk",
        "",
        " ",
        ".",
        "-a",
        "/dev",
        "/dev/loop0 /dev/loop1",
    ],
)
def test_no_block_device(image: Path, tmp_path: Path, device: str) -> None:
    """Character devices, files, folders, several names at once, and options."""
    (tmp_path / "disk").write_bytes(OLD)
    refused(flash(image, device.replace("disk", str(tmp_path / "disk"))), "")


def test_partition(image: Path, parted: str, disk: Path, tmp_path: Path) -> None:
    """A partition is not what the firmware boots from; its disk is named."""
    path = fake_lsblk(tmp_path / "bin", RM="1", HOTPLUG="1")
    result = flash(image, f"{parted}p1", path=path)
    refused(result, f"the disk {parted} ")


@pytest.mark.parametrize(
    "device",
    [
        "/dev/no such; touch {mark}",
        "x'; touch {mark}; '",
        'x"; touch {mark}; "',
        "$(shell touch {mark})",
        "`touch {mark}`",
        "$$(touch {mark})",
        "/dev/a /dev/b",
        "x & touch {mark}",
    ],
)
def test_words_in_make_variables(tmp_path: Path, device: str) -> None:
    """DEV= and BOARD= are words, not commands, and reach support/flash in one piece."""
    mark = tmp_path / "mark"
    device = device.replace("{mark}", str(mark))
    for words in ([f"DEV={device}"], [f"BOARD={device}", "DEV=/dev/null"]):
        result = captured("make", "-C", str(ROOT), "flash", *words)
        assert result.returncode != 0
        assert not mark.exists(), f"{words} was run as a command"
        assert "flash: " in result.stderr
        if len(words) == 2:
            assert device in result.stderr


@pytest.mark.parametrize("words", [[], ["DEV="], ["DEV= "]])
def test_make_flash_without_a_device(words: list[str]) -> None:
    """One sentence that says how."""
    result = captured("make", "-C", str(ROOT), "flash", *words)
    assert result.returncode == 2
    assert "say which card or disk: make flash BOARD=x86_64 DEV=/dev/sdX" in result.stderr


# Images that must not be written


def damaged(image: Path, kind: str) -> Path:
    """The image, or a file in its place, that is wrong in one way; its sum is right."""
    if kind == "empty":
        image.write_bytes(b"")
    elif kind == "text":
        image.write_text("404: Not Found\n" * 400000)
    elif kind == "zeros":
        image.write_bytes(bytes(5 * MIB))
    elif kind == "odd":
        os.truncate(image, 5 * MIB + 7)
    elif kind == "truncated":
        os.truncate(image, 4 * MIB)
    elif kind == "no boot partition":
        run("sfdisk", "-q", str(image), text="label: gpt\nsize=1M,name=data\n")
    elif kind == "dos":
        run("sfdisk", "-q", str(image), text="label: dos\nsize=1M\n")
    elif kind in {"primary table", "backup table"}:
        with image.open("r+b") as stream:
            stream.seek(1100 if kind == "primary table" else 5 * MIB - 512)
            stream.write(b"x")
    elif kind == "xz by name":
        content = lzma.compress(image.read_bytes())
        image = image.with_name("cairn-test.img.xz")
        image.write_bytes(content)
    elif kind == "xz":
        image.write_bytes(lzma.compress(image.read_bytes()))
    elif kind == "gz":
        image.write_bytes(gzip.compress(image.read_bytes()))
    flashing.write_sum(image)
    return image


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", "is empty"),
        ("text", "no partition table"),
        ("zeros", "no partition table"),
        ("dos", "no partition table"),
        ("no boot partition", "no image of Cairn"),
        ("odd", "is damaged"),
        ("truncated", "is damaged"),
        ("primary table", "is damaged"),
        ("backup table", "is damaged"),
        ("xz by name", "xz -dk"),
        ("xz", "is compressed"),
        ("gz", "is compressed"),
    ],
)
def test_bad_image(
    image: Path, loop: str, disk: Path, tmp_path: Path, kind: str, words: str
) -> None:
    """Found before anything is wiped, also on a card."""
    path = fake_lsblk(tmp_path / "bin", **CARD)
    refused(flash(damaged(image, kind), loop, path=path), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be checked"),
        ("", "cannot be checked"),
        ("no sum\n", "cannot be checked"),
        ("0" * 64 + "  another.img\n", "cannot be checked"),
        ("0" * 64 + "  cairn-test.img\n", "differs from"),
        ("{sum}  ../../etc/passwd\n" + "0" * 64 + " *cairn-test.img\n", "differs from"),
        ("{sum}  cairn-test.img.xz\n", "cannot be checked"),
        ("{sum}  cairn-test.img\n" + "0" * 64 + "  cairn-test.img\n", "differs from"),
    ],
)
def test_checksum(
    image: Path, loop: str, disk: Path, tmp_path: Path, text: str | None, words: str
) -> None:
    """No sum, another file's, a wrong one, or two of them: nothing is wiped."""
    sums = Path(f"{image}.sha256")
    right = sums.read_text().split()[0]
    if text is None:
        sums.unlink()
    else:
        sums.write_text(text.replace("{sum}", right))
    refused(flash(image, loop, path=fake_lsblk(tmp_path / "bin", **CARD)), words)


def test_changed_image(image: Path, loop: str, disk: Path, tmp_path: Path) -> None:
    """One bit, far from the partition table."""
    with image.open("r+b") as stream:
        stream.seek(int(3.5 * MIB))
        byte = stream.read(1)[0]
        stream.seek(-1, 1)
        stream.write(bytes([byte ^ 1]))
    refused(flash(image, loop, path=fake_lsblk(tmp_path / "bin", **CARD)), "differs from")


def test_foreign_block_map(image: Path, loop: str, disk: Path, tmp_path: Path) -> None:
    """A map that is not the image's would leave parts of it out."""
    block_map = Path(f"{image}.bmap")
    run("bmaptool", "-q", "create", "-o", str(block_map), str(image))
    flashing.write_sum(image, block_map)
    block_map.write_text(block_map.read_text().replace("<MappedBlocksCount>", "<Mapped>"))
    refused(flash(image, loop, path=fake_lsblk(tmp_path / "bin", **CARD)), "block map")


def test_block_map_without_a_sum_is_not_used(
    image: Path, loop: str, disk: Path, tmp_path: Path
) -> None:
    """The whole image is written instead."""
    Path(f"{image}.bmap").write_text("<bmap/>")
    result = flash(image, loop, path=fake_lsblk(tmp_path / "bin", **CARD))
    assert result.returncode == 0, result.stderr
    assert written(disk, image)


def test_image_that_is_no_file(loop: str, disk: Path, tmp_path: Path) -> None:
    """A folder, and a device."""
    refused(flash(tmp_path, loop), "is no file")
    refused(flash("/dev/null", loop), "is no file")


def test_image_larger_than_the_disk(loop: str, disk: Path, tmp_path: Path) -> None:
    """The image alone, and the image with the least data partition."""
    path = fake_lsblk(tmp_path / "bin", **CARD)
    image = flashing.make_image(tmp_path / "cairn-test.img", 100)
    refused(flash(image, loop, path=path), "are the least")
    os.truncate(disk, 20 * MIB)
    run("losetup", "-c", loop)
    refused(flash(image, loop, path=path), "are the least")


def test_large_sectors(image: Path, disk: Path, tmp_path: Path) -> None:
    """The image's partition table counts in 512 bytes: such a disk would not start."""
    device = attach(disk, "-b", "4096")
    try:
        result = flash(image, device, path=fake_lsblk(tmp_path / "bin", **CARD))
        refused(result, "sectors of 4096 bytes")
    finally:
        detach(device)


# What changes while it works


def test_disk_exchanged_while_it_asks(image: Path, loop: str, disk: Path, tmp_path: Path) -> None:
    """The stick is pulled at the question, and a backup disk gets its name."""
    other = flashing.watch(tmp_path / "other")
    other.write_bytes(OLD)
    os.truncate(other, 600 * MIB)

    def exchange() -> None:
        run("losetup", "-d", loop)
        run("losetup", loop, str(other))

    result = flash(image, loop, f"{loop}\n", asked=exchange, FORCE="1")
    refused(result, "another disk")


def test_mounted_while_it_asks(image: Path, parted: str, disk: Path, tmp_path: Path) -> None:
    """As desktops do with what was just plugged in."""
    run("mkfs.ext4", "-q", f"{parted}p1")
    where = tmp_path / "mnt"
    where.mkdir()

    def mount() -> None:
        run("mount", "-o", "ro,noload", f"{parted}p1", str(where))

    try:
        result = flash(image, parted, f"{parted}\n", asked=mount, FORCE="1")
        refused(result, "unmount it first")
    finally:
        run("umount", str(where))


def test_disk_gone_while_it_asks(image: Path, loop: str, disk: Path) -> None:
    """No plain file is made in its place."""
    result = flash(image, loop, f"{loop}\n", asked=lambda: detach(loop), FORCE="1")
    refused(result, "")


@pytest.mark.parametrize("tool", ["bmaptool", "dd"])
def test_disk_vanishes_while_it_is_written(
    loop: str, disk: Path, tmp_path: Path, tool: str
) -> None:
    """The sentence says what became of the disk."""
    image = flashing.make_image(tmp_path / "cairn-test.img", 40)
    if tool == "bmaptool":
        block_map = Path(f"{image}.bmap")
        run("bmaptool", "-q", "create", "-o", str(block_map), str(image))
        flashing.write_sum(image, block_map)
    path = fake_lsblk(tmp_path / "bin", **CARD)
    vanish = f'truncate -s 1M "{disk}"; losetup -c {loop}; exec REAL "$@"\n'
    when = "copy" if tool == "bmaptool" else "nocreat"
    shim(tmp_path / "bin", tool, f'case "$*" in *{when}*) ;; *) exec REAL "$@" ;; esac\n{vanish}')
    result = flash(image, loop, path=path)
    assert result.returncode == 1
    assert "what it held is lost" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("tool", ["bmaptool", "dd"])
def test_write_error(tmp_path: Path, tool: str) -> None:
    """A disk that takes the first 16 MiB only."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    image = flashing.make_image(tmp_path / "cairn-test.img", 40)
    if tool == "bmaptool":
        block_map = Path(f"{image}.bmap")
        run("bmaptool", "-q", "create", "-o", str(block_map), str(image))
        flashing.write_sum(image, block_map)
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small))
    try:
        backing = small / "disk"
        backing.touch()
        os.truncate(backing, 600 * MIB)
        device = attach(backing)
        try:
            with (small / "ballast").open("wb") as stream:
                stream.write(bytes(15 * MIB))
            path = fake_lsblk(tmp_path / "bin", **CARD)
            result = flash(image, device, path=path)
        finally:
            detach(device)
    finally:
        run("umount", str(small))
    assert result.returncode == 1
    assert "what it held is lost" in result.stderr.splitlines()[-1]


def test_read_error_afterwards(image: Path, loop: str, tmp_path: Path) -> None:
    """A disk that takes everything and gives nothing back."""
    path = fake_lsblk(tmp_path / "bin", **CARD)
    shim(tmp_path / "bin", "dd", 'case "$*" in *iflag=direct*) exit 1 ;; esac\nexec REAL "$@"\n')
    result = flash(image, loop, path=path)
    assert result.returncode == 1
    assert "was not read back" in result.stderr.splitlines()[-1]

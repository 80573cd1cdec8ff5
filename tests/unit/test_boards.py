"""Board configurations, Buildroot patches, and what is on a board's disk image.

With CAIRN_IMAGE (set by `make test IMAGE=FILE`) the real image's partitions are looked
into; without it post-image.sh runs on made-up build results. What needs a Buildroot tree
is skipped, and so counted, when there is none (BUILDROOT, or out/buildroot of a build).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import boards, sparse
from lab.paths import ROOT

CONFIGS = ROOT / "buildroot-external/configs"

BOARDS = boards.names()
MIB = 1 << 20
# Options of config.txt that the Raspberry Pi 5's boot loader documents and we use
CONFIG_TXT = {
    "arm_64bit": "[01]",
    "os_prefix": r"[a-z0-9-]+/",
    "kernel": r"[A-Za-z0-9_.-]+",
    "auto_initramfs": "[01]",
    "camera_auto_detect": "[01]",
    "display_auto_detect": "[01]",
    "enable_uart": "[01]",
    "uart_2ndstage": "[01]",
    "disable_fw_kms_setup": "[01]",
    "disable_splash": "[01]",
}
# What the packages of microcode and their licences leave, below the folder of build results
MICROCODE = {
    "intel-ucode/06-55-04": b"intel 1",
    "intel-ucode/06-9e-09": b"intel 2",
    "amd-ucode/microcode_amd.bin": b"amd 1",
    "amd-ucode/microcode_amd_fam17h.bin": b"amd 2",
    "amd-ucode/README": b"no microcode",
    "packages/intel-microcode-1/license": b"licence of one",
    "packages/linux-firmware-1/LICENSE.amd-ucode": b"licence of the other",
}
OPTION = re.compile(r"^(?:# )?((?:BR2|CONFIG)_\w+)(?:=| is not set$)")


def options(path: Path) -> list[str]:
    """The options a configuration file sets or unsets, in order."""
    return [match[1] for line in path.read_text().splitlines() if (match := OPTION.match(line))]


def tree() -> Path:
    """A Buildroot tree, or the test is skipped."""
    for path in (os.environ.get("BUILDROOT", ""), str(ROOT / "out/buildroot")):
        if path and (Path(path) / "support/kconfig").is_dir():
            return Path(path)
    pytest.skip("no Buildroot tree here; give one with BUILDROOT=DIR")


@pytest.mark.parametrize("board", BOARDS)
def test_defconfig_is_short(board: str) -> None:
    """A board says what is special about it, common.config the rest; nothing twice."""
    path = CONFIGS / f"{board}_defconfig"
    assert len(path.read_text().splitlines()) <= 40
    common, own = options(CONFIGS / "common.config"), options(path)
    assert len(set(common)) == len(common)
    assert len(set(own)) == len(own)
    assert not set(common) & set(own)


def test_downloads_obey_the_proxy() -> None:
    """Without the option libcurl goes around Tor in silence; no board or fragment takes it back."""
    common, *others = (CONFIGS / "common.config", *CONFIGS.glob("*_defconfig"))
    others += (ROOT / "board").glob("*/*.config")
    option = "BR2_PACKAGE_LIBCURL_PROXY_SUPPORT"
    assert f"{option}=y" in common.read_text().splitlines()
    assert [path for path in others if option in options(path)] == []


@pytest.mark.parametrize("board", BOARDS)
def test_kernel_fragment(board: str) -> None:
    """No option twice, unless the board takes back what is common."""
    files = [ROOT / "board" / name / "kernel.config" for name in ("common", board)]
    common, own = (options(file) for file in files)
    assert len(set(common)) == len(common)
    assert len(set(own)) == len(own)
    text = "".join(file.read_text() for file in files)
    same = [name for name in own if len(set(re.findall(rf"(?m)^{name}=.*$", text))) == 1]
    assert not set(common) & set(same), "the same twice"


@pytest.mark.parametrize(
    "path",
    sorted([*CONFIGS.iterdir(), *(ROOT / "board").glob("*/debug-*.config")]),
    ids=lambda path: path.name,
)
def test_buildroot_knows_the_options(path: Path) -> None:
    """A name that Buildroot dropped would be ignored in silence."""
    files = [*tree().rglob("Config*"), *(ROOT / "package").rglob("Config.in")]
    known = set()
    for file in files:
        if file.is_file():
            known |= set(re.findall(r"(?m)^\s*(?:menu)?config (BR2_\w+)", file.read_text()))
    assert not set(options(path)) - known


def test_patches_apply(tmp_path: Path) -> None:
    """patches/buildroot/ applies in order, without fuzz, to the files of the release."""
    if not os.environ.get("BUILDROOT"):
        pytest.skip("no unpatched Buildroot tree; give one with BUILDROOT=DIR")
    source = Path(os.environ["BUILDROOT"])
    patches = sorted((ROOT / "patches/buildroot").glob("*.patch"))
    assert patches
    for patch in patches:
        for name in re.findall(r"(?m)^--- a/(\S+)", patch.read_text()):
            target = tmp_path / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, target)
        command = ["patch", "-d", str(tmp_path), "-p1", "-s", "-F0", "-i", str(patch)]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        assert result.returncode == 0, f"{patch.name}: {result.stdout}"


# -- the disk ---------------------------------------------------------------------------


@dataclass
class Disk:
    """An image, the board it is for, and its partition table."""

    path: Path
    board: str
    partitions: dict[str, dict[str, int | str]]
    first_block: int
    real: bool

    @classmethod
    def open(cls, path: Path, real: bool) -> Disk:
        """Reads the partition table; the file's name tells the board."""
        command = ["sfdisk", "--json", str(path)]
        output = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        table = output["partitiontable"]
        partitions = {entry["name"]: entry for entry in table["partitions"]}
        board = boards.of_image(path)
        assert board, f"{path} is no cairn-BOARD.img"
        return cls(path, board.name, partitions, int(table["firstlba"]), real)

    def boot(self, name: str) -> bytes:
        """A file of the boot partition."""
        offset = int(self.partitions["boot"]["start"]) * 512
        command = ["mcopy", "-n", "-i", f"{self.path}@@{offset}", f"::{name}", "-"]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def boot_names(self) -> set[str]:
        """All files of the boot partition."""
        offset = int(self.partitions["boot"]["start"]) * 512
        command = ["mdir", "-b", "-/", "-i", f"{self.path}@@{offset}", "::"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        names = {line.removeprefix("::/") for line in text.splitlines()}
        return {name for name in names if name and not name.endswith("/")}


def device_tree(path: Path, model: str) -> None:
    """Compiles a device tree with this model to `path`."""
    source = f'/dts-v1/; / {{ model = "{model}"; compatible = "brcm,bcm2712"; }};'
    command = ["dtc", "-q", "-O", "dtb", "-o", str(path)]
    subprocess.run(command, check=True, input=source.encode())


def made_up(board: str, directory: Path) -> Path:
    """post-image.sh on build results that only look like it."""
    (directory / "efi-part/EFI/BOOT").mkdir(parents=True)
    (directory / "efi-part/EFI/BOOT/bootx64.efi").write_bytes(b"MZ" + bytes(62))
    (directory / "bzImage").write_bytes(bytes(0x1FE) + b"\x55\xaa" + b"\0\0HdrS" + bytes(4 * MIB))
    (directory / "Image").write_bytes(bytes(56) + b"ARM\x64" + bytes(4 * MIB))
    device_tree(directory / "bcm2712-rpi-5-b.dtb", "Raspberry Pi 5")
    device_tree(directory / "bcm2712-d-rpi-5-b.dtb", "Raspberry Pi 5 D0")
    for source in boards.read(board).boot_files.values():
        if source and not (directory / source).exists():
            (directory / source).parent.mkdir(parents=True, exist_ok=True)
            (directory / source).write_bytes(bytes(4 * MIB))
    packages = directory / "packages"
    for name, content in MICROCODE.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    (directory / "rootfs.erofs").write_bytes(b"root" * (MIB // 4))
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": "1700000000",
        "BUILD_DIR": str(packages),
    }
    command = [str(ROOT / "board/common/post-image.sh"), str(directory), board]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return directory / f"cairn-{board}.img"


def test_a_kernel_without_its_root_ends() -> None:
    """Whatever it lacks, a panic ends its boot: it does not wait for a partition for ever.

    Linux takes a value for rootwait since 6.6 (init/do_mounts.c: rootwait_timeout_setup).
    """
    words = (ROOT / "board/common/cmdline").read_text().split()
    values = dict(word.partition("=")[::2] for word in words)
    assert words.count("rootwait") == 0
    assert 60 <= int(values["rootwait"]) <= 300, "a USB disk needs its time, an owner has little"
    assert 0 < int(values["panic"]) <= 30
    kernel = re.search(
        r'KERNEL_CUSTOM_VERSION_VALUE="(\d+)\.(\d+)', (CONFIGS / "common.config").read_text()
    )
    assert kernel
    assert (int(kernel[1]), int(kernel[2])) >= (6, 6)


def data_ranges(path: Path) -> list[tuple[int, int]]:
    """Begin and length of what is no hole in a sparse file."""
    with path.open("rb") as stream:
        parts = sparse.data(stream.fileno(), 0, path.stat().st_size)
        return [(begin, end - begin) for begin, end in parts]


def same_bytes(first: Path, second: Path) -> bool:
    """Whether two files have the same bytes; what is a hole in both, nearly all, is not read."""
    if first.stat().st_size != second.stat().st_size:
        return False
    with first.open("rb") as one, second.open("rb") as other:
        return all(
            os.pread(one.fileno(), length, begin) == os.pread(other.fileno(), length, begin)
            for begin, length in (*data_ranges(first), *data_ranges(second))
        )


def test_same_bytes(tmp_path: Path) -> None:
    """A byte where the other file has a hole, or behind its end, is a difference."""
    paths = [tmp_path / name for name in ("first", "second")]
    for path in paths:
        path.write_bytes(b"boot")
        os.truncate(path, 300 * MIB)
    assert same_bytes(*paths)
    with paths[1].open("r+b") as stream:
        stream.seek(200 * MIB)
        stream.write(b"x")
    assert not same_bytes(*paths)
    assert not same_bytes(*reversed(paths))
    with paths[0].open("r+b") as stream:
        stream.seek(200 * MIB)
        stream.write(b"x")
    assert same_bytes(*paths)
    os.truncate(paths[0], 301 * MIB)
    assert not same_bytes(*paths)


@pytest.mark.parametrize("board", BOARDS)
def test_same_inputs_same_image(board: str, tmp_path: Path) -> None:
    """Nothing of the time of the build, nor of its directory, is in the image."""
    first = made_up(board, tmp_path / "first")
    time.sleep(2.1)  # FAT's clock has steps of two seconds
    second = made_up(board, tmp_path / "second directory")
    assert same_bytes(first, second)


def boot_partition(tmp_path: Path, folder: Path, name: str) -> bytes:
    """The beginning of the boot partition, with all that is in it, made from a folder."""
    image = tmp_path / name
    command = [str(ROOT / "board/common/boot-partition.sh"), str(folder), str(image)]
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    subprocess.run(command, check=True, env={**os.environ, "PATH": path}, capture_output=True)
    with image.open("rb") as stream:
        return stream.read(8 * MIB)


def test_order_of_a_folder(tmp_path: Path) -> None:
    """The boot partition does not tell in which order the build machine's disk names files."""
    names = [f"slot-a/file-{n}" for n in range(12)] + ["EFI/BOOT/BOOTX64.EFI", "node.conf"]
    made, listed = [], []
    # Two kinds of file system, too, where the machine has them
    places = [tmp_path / "a", tmp_path / "b"]
    if Path("/dev/shm").is_dir():
        places.append(Path(tempfile.mkdtemp(dir="/dev/shm")))
    try:
        for number, place in enumerate(places):
            for name in names if number % 2 else reversed(names):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(name)
            for path in (*place.rglob("*"), place):
                os.utime(path, (1_700_000_000, 1_700_000_000))
            listed.append(tuple(os.listdir(place / "slot-a")))  # noqa: PTH208
            made.append(boot_partition(tmp_path, place, f"boot-{number}.vfat"))
    finally:
        for place in places[2:]:
            shutil.rmtree(place)
    assert len(set(made)) == 1
    # Where the order is that of making, the folders were indeed different.
    assert len(places) == 2 or len(set(listed)) > 1


def test_times_of_the_boot_partition(tmp_path: Path) -> None:
    """Those of the folder, directories included, and not those of the build."""
    (tmp_path / "boot/slot-a").mkdir(parents=True)
    (tmp_path / "boot/slot-a/linux").write_text("kernel")
    for path in (tmp_path / "boot/slot-a/linux", tmp_path / "boot/slot-a"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    boot_partition(tmp_path, tmp_path / "boot", "boot.vfat")
    command = ["mdir", "-i", str(tmp_path / "boot.vfat"), "::slot-a"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    times = re.findall(r"(?m)^(\.|\.\.|linux) .* (\d{4}-\d\d-\d\d +\d\d:\d\d)", listing)
    assert {name for name, _ in times} == {".", "..", "linux"}
    assert {" ".join(when.split()) for _, when in times} == {"2023-11-14 22:13"}


IMAGE = boards.of_image(Path(os.environ.get("CAIRN_IMAGE", "")))
REAL = [f"image-{IMAGE.name}"] if IMAGE else []
DISKS = [*BOARDS, *REAL]
PI = [name for name in DISKS if name.endswith("rpi5")]
PC = [name for name in DISKS if name.endswith("x86_64")]


@pytest.fixture(scope="module")
def disk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Disk:
    """Each board's made-up image, and the real one if there is one."""
    if request.param in BOARDS:
        return Disk.open(made_up(request.param, tmp_path_factory.mktemp("board")), real=False)
    return Disk.open(Path(os.environ["CAIRN_IMAGE"]), real=True)


@pytest.mark.parametrize("disk", DISKS, indirect=True)
def test_partitions(disk: Disk) -> None:
    """Boot, two equal root slots, all on the 1 MiB grid, in this order."""
    assert list(disk.partitions) == ["boot", "root-a", "root-b"]
    for entry in disk.partitions.values():
        assert int(entry["start"]) % 2048 == 0
        assert int(entry["size"]) % 2048 == 0
    slots = [disk.partitions[name] for name in ("root-a", "root-b")]
    assert slots[0]["size"] == slots[1]["size"]
    assert slots[0]["type"] == slots[1]["type"]
    assert str(slots[0]["type"]).lower() == boards.read(disk.board).meta["ROOT_TYPE"]
    assert disk.partitions["boot"]["type"] == "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"


@pytest.mark.parametrize("disk", REAL, indirect=True)
def test_first_usable_block(disk: Disk) -> None:
    """Windows moves the entries of a table with another one, and old firmware loses the Pi's card.

    raspberrypi/rpi-eeprom#585, pengutronix/genimage#262. The genimage of Debian has 2048, so that
    only the product's image, with Buildroot's genimage, can be asked.
    """
    assert disk.first_block == 34


@pytest.mark.parametrize("disk", DISKS, indirect=True)
def test_command_line(disk: Disk) -> None:
    """root= names a partition that the image has, and holds an erofs file system."""
    meta = boards.read(disk.board).meta
    if meta["QEMU_CMDLINE"]:
        text = disk.boot(meta["QEMU_CMDLINE"]).decode()
        assert len(text.splitlines()) == 1, "the firmware reads the first line only"
    else:
        entry = disk.boot("loader/entries/cairn-a+3.conf").decode()
        text = dict(line.split(" ", 1) for line in entry.splitlines())["options"]
    words = dict(word.partition("=")[::2] for word in text.split())
    name = words["root"].removeprefix("PARTLABEL=")
    assert name in disk.partitions
    assert words["rootfstype"] == "erofs"
    if disk.real:
        with disk.path.open("rb") as stream:
            stream.seek(int(disk.partitions[name]["start"]) * 512 + 1024)
            assert struct.unpack("<I", stream.read(4))[0] == 0xE0F5E1E2


@pytest.mark.parametrize("disk", DISKS, indirect=True)
def test_boot_partition(disk: Disk) -> None:
    """Exactly the files that the firmware, the loader and the user need."""
    assert disk.boot_names() == boards.read(disk.board).boot_files.keys() | {"node.conf"}
    assert disk.boot("node.conf") == (ROOT / "board/common/node.conf").read_bytes()


@pytest.mark.parametrize("disk", DISKS, indirect=True)
def test_kernel(disk: Disk) -> None:
    """The magic numbers that the firmware looks for; neither empty nor absurdly large."""
    kernel = disk.boot(boards.read(disk.board).meta["KERNEL"])
    if disk.board == "rpi5":
        assert kernel[56:60] == b"ARM\x64"
    elif disk.board == "x86_64":
        assert kernel[0x1FE:0x200] == b"\x55\xaa"
        assert kernel[0x202:0x206] == b"HdrS"
        assert disk.boot("EFI/BOOT/BOOTX64.EFI")[:2] == b"MZ"
    assert 3 * MIB < len(kernel) < 64 * MIB


@pytest.mark.parametrize("disk", PI, indirect=True)
def test_raspberry_pi_firmware(disk: Disk, tmp_path: Path) -> None:
    """config.txt's syntax and keys, what it names exists, and the device trees are valid."""
    settings = {}
    for line in disk.boot("config.txt").decode("ascii").splitlines():
        assert len(line) <= 98, "the boot loader cuts longer lines"
        if not line or line.startswith("#") or line == "[all]":
            continue
        name, separator, value = line.partition("=")
        assert separator, line
        assert re.fullmatch(CONFIG_TXT[name], value), line
        settings[name] = value
    names = disk.boot_names()
    prefix = settings["os_prefix"]
    assert prefix + settings["kernel"] in names
    assert f"{prefix}overlays/README" in names, "the firmware would look outside of the slot"
    assert f"{prefix}overlays/bcm2712d0.dtbo" in names
    for name in ("bcm2712-rpi-5-b", "bcm2712d0-rpi-5-b"):
        path = tmp_path / f"{name}.dtb"
        path.write_bytes(disk.boot(f"{prefix}{name}.dtb"))
        for node_property, wanted in (("model", "Raspberry Pi 5"), ("compatible", "brcm,bcm2712")):
            command = ["fdtget", str(path), "/", node_property]
            said = subprocess.run(command, check=True, capture_output=True, text=True)
            assert wanted in said.stdout


@pytest.mark.parametrize("disk", PC, indirect=True)
def test_loader(disk: Disk) -> None:
    """systemd-boot starts at once, and counts the tries of an entry."""
    assert "timeout 0" in disk.boot("loader/loader.conf").decode()
    entry = disk.boot("loader/entries/cairn-a+3.conf").decode()
    assert "linux /slot-a/linux" in entry.splitlines()


@pytest.mark.parametrize("disk", PC, indirect=True)
def test_microcode(disk: Disk, tmp_path: Path) -> None:
    """The loader hands over an archive with each maker's file, and the licences are beside it."""
    entry = disk.boot("loader/entries/cairn-a+3.conf").decode()
    assert "initrd /slot-a/microcode.img" in entry.splitlines()
    command = ["cpio", "-i", "--quiet", "--no-absolute-filenames"]
    archive = disk.boot("slot-a/microcode.img")
    subprocess.run(command, check=True, cwd=tmp_path, input=archive)
    folder = tmp_path / "kernel/x86/microcode"
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    if disk.real:
        assert all(len(content) > 100_000 for content in found.values())
        # a header's version, and the magic number of AMD's container
        assert found["GenuineIntel.bin"][:4] == struct.pack("<I", 1)
        assert found["AuthenticAMD.bin"][:4] == struct.pack("<I", 0x00414D44)
    else:
        assert found["GenuineIntel.bin"] == b"intel 1intel 2"
        assert found["AuthenticAMD.bin"] == b"amd 1amd 2"
    assert found.keys() == {"GenuineIntel.bin", "AuthenticAMD.bin"}
    for maker in ("intel", "amd"):
        # Intel's has no word "licence"
        wanted = b"binary form" if disk.real else b"licence of"
        assert wanted in disk.boot(f"licenses/{maker}-microcode.txt")


# -- the root file system of a real image -------------------------------------------------

PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
DT_FLAGS, DT_FLAGS_1, BIND_NOW, NOW, PIE = 30, 0x6FFFFFFB, 8, 1, 0x08000000


@dataclass
class Elf:
    """What hardening left in a program's headers."""

    kind: int
    headers: dict[int, tuple[int, ...]]
    flags: int
    flags_1: int

    @classmethod
    def parse(cls, data: bytes) -> Elf:
        """Reads a 64-bit little-endian ELF file."""
        kind = struct.unpack_from("<H", data, 16)[0]
        offset, size, count = (
            struct.unpack_from("<Q", data, 32)[0],
            *struct.unpack_from("<HH", data, 54),
        )
        headers: dict[int, tuple[int, ...]] = {}
        for number in range(count):
            entry = struct.unpack_from("<IIQQQQQQ", data, offset + number * size)
            headers.setdefault(entry[0], entry)
        flags = {DT_FLAGS: 0, DT_FLAGS_1: 0}
        if PT_DYNAMIC in headers:
            _, _, start, _, _, length, _, _ = headers[PT_DYNAMIC]
            for at in range(start, start + length, 16):
                tag, value = struct.unpack_from("<QQ", data, at)
                if tag in flags:
                    flags[tag] = value
        return cls(kind, headers, flags[DT_FLAGS], flags[DT_FLAGS_1])


@pytest.fixture(scope="module")
def root_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked root file system of the image under test."""
    if not REAL:
        pytest.skip("no Buildroot image; give one with IMAGE=out/BOARD/cairn-BOARD.img")
    disk = Disk.open(Path(os.environ["CAIRN_IMAGE"]), real=True)
    directory = tmp_path_factory.mktemp("root")
    entry = disk.partitions["root-a"]
    with disk.path.open("rb") as stream, (directory / "root.erofs").open("wb") as copy:
        stream.seek(int(entry["start"]) * 512)
        copy.write(stream.read(int(entry["size"]) * 512))
    target = directory / "files"
    command = [
        "fsck.erofs",
        f"--extract={target}",
        "--preserve-perms",
        str(directory / "root.erofs"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return target


# The compiler's run-time libraries are made before Buildroot's flags apply to anything.
# musl binds at once whatever an object says; their tables just stay writable.
GCC_LIBRARIES = ("libatomic.so", "libgcc_s.so", "libstdc++.so")


def test_programs_are_hardened(root_files: Path) -> None:
    """Position independent, relocations read-only and bound at once, no executable stack."""
    bad = []
    for path in sorted(root_files.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.suffix in {".ko", ".efi", ".stub"}:
            continue
        data = path.read_bytes()
        if data[:4] != b"\x7fELF":
            continue
        elf = Elf.parse(data)
        if PT_DYNAMIC not in elf.headers:
            continue
        name = path.relative_to(root_files)
        stack = elf.headers.get(PT_GNU_STACK, (0, 1))[1]
        if elf.kind != 3:
            bad.append(f"{name}: not position independent")
        if PT_GNU_RELRO not in elf.headers and name.name != "libc.so":
            bad.append(f"{name}: no RELRO")
        bound = elf.flags & BIND_NOW or elf.flags_1 & NOW
        if not bound and not name.name.startswith(("libc.so", *GCC_LIBRARIES)):
            bad.append(f"{name}: lazy binding")
        if stack & 1:
            bad.append(f"{name}: executable stack")
    assert not bad


def test_thread_stacks(root_files: Path) -> None:
    """musl takes the size from this header; bitcoind-chainstate.mk says why 8 MiB."""
    elf = Elf.parse((root_files / "usr/bin/bitcoind").read_bytes())
    assert elf.headers[PT_GNU_STACK][6] == 8 * MIB


def test_nobody_can_log_in(root_files: Path) -> None:
    """No password anywhere, no key, no program that would ask for one."""
    for line in (root_files / "etc/shadow").read_text().splitlines():
        name, password = line.split(":")[:2]
        assert password.startswith(("*", "!")), f"{name} has a password, or an empty one"
    assert not list(root_files.glob("etc/ssh/ssh_host*"))
    assert not list(root_files.rglob("authorized_keys"))
    for name in ("getty", "login", "su", "telnetd", "passwd"):
        assert not (root_files / "usr/bin" / name).exists(), name


def test_no_setuid(root_files: Path) -> None:
    """Nothing in the image lends its owner's rights."""
    listing = subprocess.run(
        ["find", str(root_files), "-perm", "/6000", "-type", "f"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert listing == ""


def test_overlay_is_in_the_image(root_files: Path) -> None:
    """Every file of overlay/, byte by byte."""
    overlay = ROOT / "overlay"
    for path in sorted(overlay.rglob("*")):
        if path.is_file() and not path.is_symlink():
            assert (root_files / path.relative_to(overlay)).read_bytes() == path.read_bytes()

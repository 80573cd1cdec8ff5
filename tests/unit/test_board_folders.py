"""A board is a folder and a defconfig: a third one, which nothing else of the tree knows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab import boards
from lab.paths import ROOT
from tests import run as runner
from tests.shared.commands import captured, program

TYPE = "72ec70a6-cf74-40e6-bd49-4bda08e8f224"
META = f"""# A board of the tests
TITLE="the third board"
ARCH="riscv64"
HOST_LANE="no"
BOOT_BACKEND="tryboot"
ROOT_TYPE="{TYPE}"
CMDLINE="reboot=w"
CONSOLE="console=tty0 console=ttySIF0,115200"
KERNEL="slot-a/kernel"
BOOT_FILES="
	Image.gz:slot-a/kernel
	slot-a/options
	slot-a/cmdline
	slot-a/release"
QEMU_MACHINE="virt,aclint=on"
QEMU_CPU="rv64"
QEMU_ACCEL="auto"
QEMU_VIRTIO="device"
QEMU_FIRMWARE=""
QEMU_CMDLINE="slot-a/options"
QEMU_CONSOLE="console=ttyS0"
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A copy of the tree with a third board: its folder and its defconfig."""
    repo = tmp_path / "repo"
    for name in ("support", "board", "buildroot-external", "lab"):
        shutil.copytree(ROOT / name, repo / name)
    for folder in ("overlay/usr/share/cairn", "overlay/usr/lib/cairn"):
        (repo / folder).mkdir(parents=True)
    for name in (
        *("Makefile", "VERSION", "overlay/usr/share/cairn/data-format"),
        "overlay/usr/lib/cairn/slot-files.sh",
    ):
        shutil.copy(ROOT / name, repo / name)
    (repo / "docs/reports").mkdir(parents=True)
    (repo / "board/third").mkdir()
    (repo / "board/third/meta").write_text(META)
    (repo / "board/third/boot.sh").write_text('slot a >"$binaries/boot/slot-a/options"\n')
    (repo / "buildroot-external/configs/third_defconfig").write_text("BR2_riscv=y\n")
    return repo


def say(repo: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the copy; programs in tools/ beside it come first."""
    path = f"{repo.parent / 'tools'}:{os.environ['PATH']}:/usr/sbin:/sbin"
    environment = {**os.environ, "CAIRN_CACHE": str(repo.parent / "cache"), **env, "PATH": path}
    return captured(*command, folder=repo, env=environment)


def image_of(repo: Path) -> Path:
    """The third board's image, as post-image.sh lays it out."""
    binaries = repo / "out/third/build/images"
    binaries.mkdir(parents=True)
    (binaries / "Image.gz").write_bytes(bytes(3 << 20))
    (binaries / "rootfs.erofs").write_bytes(bytes(1 << 20))
    script = str(repo / "board/common/post-image.sh")
    result = say(repo, script, str(binaries), "third", SOURCE_DATE_EPOCH="1700000000")
    assert result.returncode == 0, result.stderr
    return binaries / "cairn-third.img"


def fake_qemu(repo: Path, arch: str) -> None:
    """A QEMU that prints its arguments, one a line."""
    program(repo.parent / f"tools/qemu-system-{arch}", 'printf "%s\\n" "${0##*/}" "$@"')


def test_make_knows_it(repo: Path) -> None:
    """`make help` lists it, `make third` builds it, and an unknown board's message names it."""
    said = say(repo, "make", "help").stdout
    assert "  third              the image for the third board, out/third/cairn-third.img" in said
    assert "support/image third" in say(repo, "make", "--dry-run", "third").stdout
    assert "BOARD is one of: rpi5 third x86_64" in say(repo, "support/run-image", "x").stderr


def test_image_and_qemu(repo: Path) -> None:
    """Partition type, boot files, and QEMU's command line are those of its meta."""
    image = image_of(repo)
    table = json.loads(say(repo, "sfdisk", "--json", str(image)).stdout)["partitiontable"]
    assert [entry["type"].lower() for entry in table["partitions"][1:]] == [TYPE, TYPE]
    files = sorted(
        str(p.relative_to(image.parent / "boot")) for p in image.parent.rglob("boot/*/*")
    )
    assert files == [f"slot-a/{name}" for name in ("cmdline", "kernel", "options", "release")]
    fake_qemu(repo, "riscv64")
    copy = repo.parent / "disk.img"  # its name does not say which board it is for
    shutil.copy(image, copy)
    result = say(repo, "support/qemu", "--image", str(copy), "--append", "quiet")
    words = result.stdout.splitlines()
    assert " ".join(words[:7]) == (
        "qemu-system-riscv64 -machine virt,aclint=on -accel tcg,thread=multi -cpu rv64"
    ), result.stderr
    common = (repo / "board/common/cmdline").read_text().strip()
    version = (repo / "VERSION").read_text().strip()
    assert words[words.index("-append") + 1] == (
        f"root=PARTLABEL=root-a rauc.slot=a cairn.version={version} {common} reboot=w"
        " console=ttyS0 quiet"
    )
    assert "virtio-blk-device,drive=disk0" in words
    left = [
        runner.board_options(boards.of_image(Path(name)))
        for name in ("out/x86_64/cairn-x86_64.img", "out/rpi5/cairn-rpi5.img", "cairn-dev.img")
    ]
    late = ["--variable", "LATE_BUS:usb"]
    assert left == [late, ["--exclude", "uefi", *late], ["--exclude", "buildroot"]]


def test_two_boards_of_one_type(repo: Path) -> None:
    """A copied image does not tell which: the sentence asks for it, and --board says it."""
    image = image_of(repo)
    shutil.copytree(repo / "board/third", repo / "board/fourth")
    fake_qemu(repo, "riscv64")
    copy = repo.parent / "disk.img"
    shutil.copy(image, copy)
    result = say(repo, "support/qemu", "--image", str(copy))
    assert result.returncode == 1
    assert "say which with --board: fourth third" in result.stderr
    for arguments in (["--image", str(copy), "--board", "third"], ["--image", str(image)]):
        assert say(repo, "support/qemu", *arguments).stdout.startswith("qemu-system-riscv64\n")


def test_report(repo: Path) -> None:
    """It has a column, with the size of its own kernel; boards that were not built have none."""
    image = image_of(repo)
    shutil.copy(image, repo / "out/third")
    (repo / "out/third/cairn-third.img.xz").write_bytes(bytes(1 << 20))
    (repo / "out/third/build/show-info.json").write_text("{}")
    (repo / "out/third/build/build").mkdir()
    (repo / "out/third/build/build/build-time.log").touch()
    result = say(repo, sys.executable, "support/image-report", PYTHONPATH=str(repo))
    assert result.returncode == 0, result.stderr
    assert "| Figure | third |" in result.stdout
    assert "| kernel | 3.0 MiB |" in result.stdout
    assert "rpi5 was not built" in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('QEMU_CPU="rv64"\n', "", "has no key QEMU_CPU; board/keys.tsv says what it is for"),
        ("QEMU_CPU", "QEMU_CPUS", "has the key QEMU_CPUS, which board/keys.tsv does not know"),
        ('ARCH="riscv64"\n', 'ARCH="a"\nARCH="b"\n', "has the key ARCH twice"),
        ('HOST_LANE="no"', 'HOST_LANE="maybe"', 'has "maybe" for HOST_LANE; board/keys.tsv says'),
        ('KERNEL="slot-a/kernel"', 'KERNEL=""', 'has "" for KERNEL; board/keys.tsv says'),
        ('ARCH="riscv64"', 'ARCH="$(id)"', 'has a line 3 that is not NAME="value"; correct it'),
        ('ARCH="riscv64"', 'ARCH="`id`"', 'has a line 3 that is not NAME="value"; correct it'),
        ('ARCH="riscv64"', 'ARCH="x"; id', 'has a line 3 that is not NAME="value"; correct it'),
        ('ARCH="riscv64"', "ARCH=x", 'has a line 3 that is not NAME="value"; correct it'),
        ('ttyS0"\n', "ttyS0\n", "has a last value without a quote at its end; add it"),
        ('ARCH="riscv64"', "exit 0", 'has a line 3 that is not NAME="value"; correct it'),
    ],
)
def test_wrong_meta(repo: Path, old: str, new: str, words: str) -> None:
    """One sentence with file and key, the same from the shell and from Python."""
    meta = repo / "board/third/meta"
    meta.write_text(META.replace(old, new))
    result = say(repo, "support/buildroot-config", "third")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1, result.stderr
    assert f"board/third/meta {words}" in result.stderr
    with pytest.raises(boards.BoardError) as caught:
        boards.read("third", repo)
    assert str(caught.value) == result.stderr.strip().removeprefix("buildroot-config: ")


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_shell_and_python_read_the_same(shell: str) -> None:
    """Every key of every board; and the host lane is one board's."""
    keys = [
        line.split("\t")[0]
        for line in (ROOT / "board/keys.tsv").read_text().splitlines()
        if not line.startswith("#")
    ]
    show = "; ".join(f"echo ${{{key}}}" for key in keys)
    for name in boards.names():
        script = (
            f"ROOT='{ROOT}'; die() {{ echo \"$@\" >&2; exit 1; }}; . '{ROOT}/support/board.sh';"
            f" board_meta {name}; {show}; host_board"
        )
        result = say(ROOT, *shell.split(), "-euc", script)
        assert result.returncode == 0, result.stderr
        board = boards.read(name)
        assert result.stdout.splitlines() == [*board.meta.values(), boards.host_lane().name]
        assert list(board.meta) == keys
        assert board.kernel


def test_boot_file_that_is_missing(repo: Path) -> None:
    """What BOOT_FILES names and nobody makes stops the layout."""
    meta = repo / "board/third/meta"
    binaries = repo / "images"
    binaries.mkdir()
    (binaries / "Image.gz").touch()
    (binaries / "rootfs.erofs").touch()
    script = str(repo / "board/common/post-image.sh")
    for old, new, words in (
        ('slot-a/release"', 'slot-a/other"', "board/third/boot.sh wrote no slot-a/other"),
        ("Image.gz:", "Image.xz:", "Buildroot made no Image.xz"),
    ):
        meta.write_text(META.replace(old, new))
        result = say(repo, script, str(binaries), "third", SOURCE_DATE_EPOCH="0")
        assert result.returncode == 1
        assert words in result.stderr


def test_other_slot_in_qemu(repo: Path, tmp_path: Path) -> None:
    """--slot b boots the files of slot-b; another word is refused."""
    image = image_of(repo)
    fake_qemu(repo, "riscv64")
    boot = f"{image}@@{1 << 20}"
    for name, text in (("kernel", "kernel of b"), ("options", "root=PARTLABEL=root-b")):
        (tmp_path / name).write_text(text)
        copied = say(repo, "mcopy", "-i", boot, str(tmp_path / name), f"::slot-b/{name}")
        assert copied.returncode == 0, copied.stderr
    qemu = ["support/qemu", "--image", str(image), "--slot"]
    words = say(repo, *qemu, "b").stdout.splitlines()
    assert "root-b" in words[words.index("-append") + 1]
    assert Path(words[words.index("-kernel") + 1]).read_text() == "kernel of b"
    assert "--slot takes a or b" in say(repo, *qemu, "c").stderr

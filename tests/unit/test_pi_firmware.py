"""The model of the Raspberry Pi's boot loader: the rules that its sources name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.pi_firmware import NothingBootsError, PiFirmware

FILES = ("kernel_2712.img", "bcm2712-rpi-5-b.dtb", "overlays/README", "overlays/bcm2712d0.dtbo")


@pytest.fixture
def firmware(tmp_path: Path) -> PiFirmware:
    """Two slots; config.txt has the first."""
    for slot in "ab":
        folder = tmp_path / f"slot-{slot}"
        (folder / "overlays").mkdir(parents=True)
        for name in FILES:
            (folder / name).write_text(f"{name} of {slot}")
        (folder / "cmdline.txt").write_text(f"root=PARTLABEL=root-{slot} ro\nsecond line\n")
    (tmp_path / "config.txt").write_text("[all]\nos_prefix=slot-a/\nkernel=kernel_2712.img\n")
    (tmp_path / "tryboot.txt").write_text("os_prefix=slot-b/\nkernel=kernel_2712.img\n")
    return PiFirmware(tmp_path)


def test_ordinary_boot(firmware: PiFirmware) -> None:
    """config.txt; the tree, and what this stepping needs; the first line of cmdline.txt."""
    boot = firmware.boot()
    assert (boot.config, boot.prefix, boot.tryboot) == ("config.txt", "slot-a/", False)
    assert boot.kernel == b"kernel_2712.img of a"
    assert boot.tree == b"bcm2712-rpi-5-b.dtb of a"
    assert boot.overlay == b"overlays/bcm2712d0.dtbo of a"
    assert boot.command_line == "root=PARTLABEL=root-a ro"
    assert (boot.root, boot.slot) == ("root-a", "a")
    first = PiFirmware(firmware.folder, "C1").boot()
    assert (first.tree, first.overlay) == (boot.tree, b"")


def test_slot_of_another_root(firmware: PiFirmware) -> None:
    """QEMU is told whose kernel to start, also where that is to mount something else."""
    (firmware.folder / "slot-a/cmdline.txt").write_text("root=PARTLABEL=root-a root=/nowhere\n")
    assert firmware.boot().slot == "a"


def test_overlay_of_the_slot(firmware: PiFirmware) -> None:
    """Only beside a README; else one outside of the slots counts, and without any Linux panics."""
    (firmware.folder / "overlays").mkdir()
    (firmware.folder / "overlays/bcm2712d0.dtbo").write_text("shared")
    assert firmware.boot().overlay == b"overlays/bcm2712d0.dtbo of a"
    (firmware.folder / "slot-a/overlays/README").unlink()
    assert firmware.boot().overlay == b"shared"
    (firmware.folder / "overlays/bcm2712d0.dtbo").unlink()
    with pytest.raises(NothingBootsError, match="no overlays/bcm2712d0"):
        firmware.boot()
    assert PiFirmware(firmware.folder, "C1").boot().overlay == b""


@pytest.mark.parametrize(
    ("argument", "config"),
    [
        ("0 tryboot", "tryboot.txt"),
        ("tryboot", "tryboot.txt"),
        ("0 tryboots", "config.txt"),
        ("0", "config.txt"),
        ("", "config.txt"),
    ],
)
def test_one_shot(firmware: PiFirmware, argument: str, config: str) -> None:
    """The flag is for one boot, and is cleared before anything is read."""
    firmware.restart(argument)
    assert firmware.boot().config == config
    assert firmware.boot().config == "config.txt"


def test_cleared_even_if_the_trial_does_not_start(firmware: PiFirmware) -> None:
    """A trial without a kernel, or without its file, is over, too."""
    for broken in ("slot-b/kernel_2712.img", "tryboot.txt"):
        (firmware.folder / broken).unlink()
        firmware.restart("0 tryboot")
        with pytest.raises(NothingBootsError):
            firmware.boot()
        assert firmware.boot().root == "root-a"


def test_power_cut(firmware: PiFirmware) -> None:
    """Without power the flag is forgotten."""
    firmware.restart("0 tryboot")
    firmware.power_cut()
    assert firmware.boot().config == "config.txt"


def test_trial_is_told(firmware: PiFirmware) -> None:
    """Linux finds it in the device tree."""
    firmware.restart("0 tryboot")
    assert firmware.boot().tryboot


@pytest.mark.parametrize("missing", ["kernel_2712.img", "bcm2712-rpi-5-b.dtb"])
def test_prefix_without_its_files_is_ignored(firmware: PiFirmware, missing: str) -> None:
    """The names then count without it, and nothing lies there."""
    (firmware.folder / "slot-a" / missing).unlink()
    with pytest.raises(NothingBootsError):
        firmware.boot()
    (firmware.folder / "overlays").mkdir()
    for name in FILES:
        (firmware.folder / name).write_text("outside")
    boot = firmware.boot()
    assert (boot.prefix, boot.kernel, boot.command_line) == ("", b"outside", "")


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("os_prefix=slot-a/\nos_prefix=slot-b/\n", "b"),
        ("os_prefix=slot-b/\r\n", "b"),
        ("#os_prefix=slot-a/\nos_prefix=slot-b/\n", "b"),
        ("os_prefix=slot-b/\n[none]\nos_prefix=slot-a/\n", "b"),
        ("os_prefix=slot-b/\n[pi4]\nos_prefix=slot-a/\n", "b"),
        ("os_prefix=slot-a/\n[pi5]\nos_prefix=slot-b/\n", "b"),
        ("[tryboot]\nos_prefix=slot-b/\n[all]\n", ""),
        ("os_prefix=slot-a/\n[tryboot]\nos_prefix=slot-b/\n", "a"),
        ("[pi4]\nkernel=none.img\n[all]\nos_prefix=slot-b/\n", "b"),
        ("[none]\n[tryboot]\n[all]\nos_prefix=slot-b/\n", "b"),
        ("x" * 100 + "\nos_prefix=slot-b/\n", "b"),
        ("os_prefix=slot-b/" + " " * 90 + "x\n", "b"),
    ],
)
def test_lines_and_filters(firmware: PiFirmware, text: str, slot: str) -> None:
    """Later lines override, filters combine until [all], long lines are cut."""
    (firmware.folder / "config.txt").write_text(text)
    assert firmware.settings(text, trial=False).get("os_prefix", "") == (slot and f"slot-{slot}/")
    if slot:
        assert firmware.boot().root == f"root-{slot}"


def test_tryboot_filter_in_a_trial(firmware: PiFirmware) -> None:
    """It is true when the flag was set."""
    text = "os_prefix=slot-a/\n[tryboot]\nos_prefix=slot-b/\n"
    assert firmware.settings(text, trial=True)["os_prefix"] == "slot-b/"


def test_names_have_no_case(firmware: PiFirmware) -> None:
    """FAT finds CONFIG.TXT, too."""
    (firmware.folder / "config.txt").rename(firmware.folder / "CONFIG.TXT")
    (firmware.folder / "slot-a").rename(firmware.folder / "SLOT-A")
    assert firmware.boot().root == "root-a"


def test_absolute_name(firmware: PiFirmware) -> None:
    """It goes around the prefix."""
    (firmware.folder / "common.img").write_text("common")
    (firmware.folder / "config.txt").write_text("os_prefix=slot-a/\nkernel=/common.img\n")
    boot = firmware.boot()
    assert (boot.kernel, boot.root) == (b"common", "root-a")


def test_nothing_there(tmp_path: Path) -> None:
    """An empty partition starts nothing."""
    with pytest.raises(NothingBootsError, match="no kernel"):
        PiFirmware(tmp_path).boot()

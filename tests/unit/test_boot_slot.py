"""cairn-boot-slot and cairn-boot-files: which slot boots, in each state."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab import fat
from lab.paths import ROOT
from tests.shared.commands import program
from tests.shared.update_node import BOARDS, UpdateNode

SHELLS = ["dash", "busybox sh"]


@pytest.fixture(params=BOARDS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> UpdateNode:
    """Each board's node, with version 1.0.0 in slot a."""
    return UpdateNode(tmp_path / "node", request.param)


def install(node: UpdateNode, version: str = "2.0.0") -> None:
    """What RAUC does, up to the slot that is to be tried."""
    node.run("node-update", "install", "--no-reboot", node.file(node.bundle(version)))


def states(node: UpdateNode) -> tuple[str, str, str]:
    """Primary slot, and whether a and b may boot."""
    a, b = (node.slots("get-state", slot) for slot in "ab")
    return node.slots("get-primary"), a, b


def test_as_flashed(node: UpdateNode) -> None:
    """Slot a runs and stays; b is nothing."""
    assert node.slots("get-current") == "a"
    assert states(node) == ("a", "good", "bad")
    node.slots("committed")
    node.slots("on-trial", status=1)
    assert node.slots("reboot") == "reboot"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_whole_update(node: UpdateNode, shell: str) -> None:
    """Filled, armed, tried, good; and back again in the same way."""
    install(node)
    assert states(node) == ("b", "good", "good")
    started = node.restarted(node.run("cairn-boot-slot", "reboot", shell=shell))
    assert (started.slot, started.version) == ("b", "2.0.0")
    node.slots("on-trial")
    node.slots("committed", status=1)
    assert node.slots("get-primary") == "a", "whatever happens now, the old one boots"
    assert node.slots("reboot") == "reboot", "no second trial"
    node.run("cairn-boot-slot", "set-state", "b", "good", shell=shell)
    assert states(node) == ("b", "good", "good")
    node.slots("committed")
    node.slots("on-trial", status=1)
    assert node.cut().version == "2.0.0"
    install(node, "3.0.0")
    started = node.restarted(node.slots("reboot"))
    assert (started.slot, started.version) == ("a", "3.0.0")


def test_a_trial_is_one_boot(node: UpdateNode) -> None:
    """What is not called good is not started a second time, however it ends."""
    install(node)
    assert node.restarted(node.slots("reboot")).slot == "b"
    assert node.cut().version == "1.0.0"
    assert node.cut().version == "1.0.0"
    node.slots("committed")


def test_restart_of_another_kind(node: UpdateNode) -> None:
    """A plain restart tries it on a PC; a Raspberry Pi needs the word."""
    install(node)
    assert node.boot().slot == ("a" if node.board == "rpi5" else "b")


def test_arming_is_taken_back(node: UpdateNode) -> None:
    """set-primary of the slot that runs: nothing is tried."""
    install(node)
    node.slots("set-primary", "a")
    assert node.slots("get-primary") == "a"
    assert node.restarted(node.slots("reboot")).version == "1.0.0"


def test_what_runs_is_not_given_up(node: UpdateNode) -> None:
    """Neither the running slot, nor during a trial the one behind it."""
    assert "it cannot be given up" in node.slots("set-state", "a", "bad", status=1)
    assert "can be good" in node.slots("set-state", "b", "good", status=1)
    install(node)
    node.restarted(node.slots("reboot"))
    assert "falls back to" in node.slots("set-state", "a", "bad", status=1)
    assert "not known to be good" in node.slots("set-primary", "a", status=1)
    assert node.cut().version == "1.0.0"


def test_nothing_to_arm(node: UpdateNode) -> None:
    """An empty slot, or one that is not complete, is not armed."""
    assert "no complete system" in node.slots("set-primary", "b", status=1)
    install(node)
    node.slots("set-state", "b", "bad")
    (node.boot_folder / "slot-b/release").unlink()
    assert "no complete system" in node.slots("set-primary", "b", status=1)
    assert node.cut().version == "1.0.0"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["get-state"],
        ["get-state", "c"],
        ["get-state", "../a"],
        ["set-primary"],
        ["set-primary", "A"],
        ["set-state", "b"],
        ["set-state", "b", "excellent"],
        ["format"],
    ],
)
def test_mistyped(node: UpdateNode, words: list[str]) -> None:
    """Status 2, a sentence, and nothing is changed."""
    before = {path: path.stat().st_mtime_ns for path in node.boot_folder.rglob("*")}
    assert "cairn-boot-slot" in node.slots(*words, status=2)
    assert before == {path: path.stat().st_mtime_ns for path in node.boot_folder.rglob("*")}


def test_unknown_machines(node: UpdateNode) -> None:
    """Without a backend, or with a root that is no slot, nothing is known and nothing done."""
    node.write("proc/cmdline", "root=/dev/sda2 quiet\n")
    assert "names no slot" in node.slots("get-current", status=1)
    (node.path / "usr/share/cairn/boot-backend").unlink()
    assert "cannot change its slot" in node.slots("get-primary", status=1)


def test_first_boots_of_a_card(node: UpdateNode) -> None:
    """Not known to be good, and no other slot: no trial; then it is good."""
    node.never_good()
    node.slots("on-trial", status=1)
    node.slots("committed", status=1)
    assert node.slots("get-state", "a") == "good"
    node.slots("set-state", "a", "good")
    node.slots("committed")
    if node.board == "x86_64":
        entries = (node.boot_folder / "loader/entries").iterdir()
        assert [path.name for path in entries] == ["cairn-a.conf"]


def test_entries_of_strangers(tmp_path: Path) -> None:
    """Other systems' entries, and names that only look like ours, are not counted or touched."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    for name in ("debian.conf", "cairn-c.conf", "cairn-a+x.conf", "cairn-b+.conf", "cairn-ab.conf"):
        node.write(f"boot/loader/entries/{name}", "title x\nversion 99\nlinux /x\n")
    assert states(node) == ("a", "good", "bad")
    install(node)
    assert states(node)[0] == "b"
    assert (node.boot_folder / "loader/entries/debian.conf").exists()


# -- the slot's folder ------------------------------------------------------------------


def files(
    node: UpdateNode, bundle: Path, slot: str = "b", status: int = 1, written: bool = True
) -> str:
    """cairn-boot-files, with the root file system in place if it is written."""
    device = node.path / f"dev/root.{slot}"
    if written:
        device.write_bytes((bundle / "root.img").read_bytes() + bytes(4096))
    words = [slot, str(bundle), str(device)]
    return node.run("cairn-boot-files", *words, status=status)


def with_overlay(bundle: Path) -> Path:
    """A bundle with one.dtbo among its overlays, on any board; their folder."""
    overlays = bundle / "boot/overlays"
    overlays.mkdir(exist_ok=True)
    (overlays / "one.dtbo").write_text("one")
    return overlays


def test_folder_of_a_slot(node: UpdateNode) -> None:
    """All files of the bundle, with what is the slot's own; an old folder goes first."""
    node.write("boot/slot-b/left-from-before", "x")
    files(node, node.bundle("2.0.0"), status=0)
    names = {path.name for path in (node.boot_folder / "slot-b").iterdir()}
    assert {"release", "cmdline"} < names
    assert "left-from-before" not in names
    if node.board == "rpi5":
        text = node.read("boot/slot-b/cmdline.txt")
        assert text.startswith("root=PARTLABEL=root-b rauc.slot=b cairn.version=2.0.0 rootfs")
        assert "\nos_prefix=slot-b/\n" in node.read("boot/slot-b/config.txt")
    assert node.slots("get-state", "b") == "bad", "nothing names it yet"


@pytest.mark.parametrize("inside", [True, False])
def test_no_folder_is_made_that_is_there(node: UpdateNode, inside: bool) -> None:
    """Those of the image are filled again: a new one is what a power cut tears."""
    bundle = node.bundle("2.0.0")
    overlays = with_overlay(bundle)
    node.write("boot/slot-b/overlays/old.dtbo", "x")
    node.write("boot/slot-b/.hidden", "x")
    folders = [node.boot_folder / name for name in ("slot-b", "slot-b/overlays")]
    numbers = [folder.stat().st_ino for folder in folders]
    if not inside:
        # A version without overlays leaves the empty folder.
        shutil.rmtree(overlays)
    files(node, bundle, status=0)
    assert [folder.stat().st_ino for folder in folders] == numbers
    names = {path.name for path in folders[1].iterdir()}
    assert names == ({path.name for path in overlays.iterdir()} if inside else set())
    assert not (folders[0] / ".hidden").exists()


@pytest.mark.parametrize("name", ["slot-b", "slot-b/overlays"])
def test_folder_that_a_power_cut_tore(node: UpdateNode, name: str) -> None:
    """Its name is listed, and nothing is found by it, as by that of a dangling link here."""
    bundle = node.bundle("2.0.0")
    with_overlay(bundle)
    folder = node.boot_folder / name
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to("nothing")
    words = f"the folder {name} of the boot partition is damaged; have another computer check"
    assert words in files(node, bundle)
    assert words in node.read("run/cairn/update.why")
    assert not (node.boot_folder / "slot-b/release").exists()


def test_folders_of_the_image(tmp_path: Path) -> None:
    """Both slots have the same folders, and all have room for many names: two hundred entries."""
    content = tmp_path / "boot"
    for name in ("slot-a/overlays/README", "loader/entries/a.conf", "config.txt"):
        (content / name).parent.mkdir(parents=True, exist_ok=True)
        (content / name).write_text("x")
    image = tmp_path / "boot.vfat"
    script = str(ROOT / "board/common/boot-partition.sh")
    subprocess.run([script, str(content), str(image)], check=True)
    disk = fat.Fat(image)
    rooms: dict[str, int] = {}

    def walk(name: str, cluster: int) -> None:
        rooms[name] = len(disk.chain(cluster or disk.root)) // fat.ENTRY
        for entry in disk.entries(cluster):
            if entry.folder and entry.name not in (".", ".."):
                walk(f"{name}/{entry.name}", entry.cluster)

    walk("", 0)
    disk.close()
    slots = {f"/slot-{slot}{name}" for slot in "ab" for name in ("", "/overlays")}
    assert rooms.keys() == {"", "/loader", "/loader/entries"} | slots
    assert all(room >= 200 for room in rooms.values()), rooms


def test_written_is_read_back(node: UpdateNode) -> None:
    """A disk that gives back something else: no files, and nothing to boot."""
    bundle = node.bundle("2.0.0")
    device = node.path / "dev/root.b"
    device.write_bytes((bundle / "root.img").read_bytes()[:-1] + b"x")
    words = ["b", str(bundle), str(device)]
    assert "the disk may fail" in node.run("cairn-boot-files", *words, status=1)
    assert not (node.boot_folder / "slot-b").exists()


def test_never_onto_another_disk(node: UpdateNode, tmp_path: Path) -> None:
    """Not the boot partition of another node either, whose folder of the slot may be its own."""
    other = UpdateNode(tmp_path / "other", node.board)
    with node.boot_of(other):
        assert "is another disk's" in files(node, node.bundle("2.0.0"))


def test_never_into_what_boots(node: UpdateNode) -> None:
    """The running slot, and one that something names, are not written."""
    bundle = node.bundle("2.0.0")
    assert "it is not written" in files(node, bundle, "a", written=False)
    install(node)
    assert "can still be booted" in files(node, node.bundle("3.0.0"), written=False)
    assert node.restarted(node.slots("reboot")).version == "2.0.0"


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ({"root_size": "1e3"}, "how large its root is"),
        ({"root_size": "999999999999999"}, "how large its root is"),
        ({"root_sha256": "abc"}, "what it is"),
        ({"version": "2; reboot"}, "what it is"),
        ({"version": ""}, "what it is"),
    ],
)
def test_strange_release(node: UpdateNode, release: dict[str, str], words: str) -> None:
    """What a release must not say."""
    assert words in files(node, node.bundle("2.0.0", **release))
    assert not (node.boot_folder / "slot-b").exists()


@pytest.mark.parametrize("name", ["a b", "$(reboot)", "good", "release", "-rf"])
def test_strange_names(node: UpdateNode, name: str) -> None:
    """Files that a slot's folder must not have."""
    bundle = node.bundle("2.0.0")
    (bundle / "boot" / name).write_text("x")
    if name == "-rf":
        files(node, bundle, status=0)
        assert (node.boot_folder / "slot-b/-rf").exists()
        return
    assert "does not belong" in files(node, bundle)
    assert not (node.boot_folder / "slot-b/release").exists()


def test_links_and_folders(node: UpdateNode) -> None:
    """Neither goes to the boot partition."""
    bundle = node.bundle("2.0.0")
    (bundle / "boot/link").symlink_to("/etc/shadow")
    assert "more than files" in files(node, bundle)
    bundle = node.bundle("2.0.0")
    (bundle / "boot/folder").mkdir()
    assert "more than files" in files(node, bundle)


def test_overlays(node: UpdateNode) -> None:
    """The one folder that a slot may have; the next filling of the slot makes it anew."""
    bundle = node.bundle("2.0.0")
    overlays = bundle / "boot/overlays"
    overlays.mkdir(exist_ok=True)
    for path in overlays.iterdir():
        path.unlink()
    (overlays / "one.dtbo").write_text("one")
    files(node, bundle, status=0)
    made = node.boot_folder / "slot-b/overlays"
    assert {path.name: path.read_text() for path in made.iterdir()} == {"one.dtbo": "one"}
    (overlays / "one.dtbo").rename(overlays / "two.dtbo")
    files(node, bundle, status=0)
    assert [path.name for path in made.iterdir()] == ["two.dtbo"]


@pytest.mark.parametrize("what", ["link", "folder", "name", "itself"])
def test_strange_overlays(node: UpdateNode, what: str) -> None:
    """No links, and no folder in that folder."""
    bundle = node.bundle("2.0.0")
    overlays = bundle / "boot/overlays"
    overlays.mkdir(exist_ok=True)
    if what == "link":
        (overlays / "link").symlink_to("/etc/shadow")
    elif what == "folder":
        (overlays / "overlays").mkdir()
    elif what == "name":
        (overlays / "a b").write_text("x")
    else:
        shutil.rmtree(overlays)
        overlays.symlink_to("/etc")
    assert "more than files" in (said := files(node, bundle)) or "does not belong" in said
    assert not (node.boot_folder / "slot-b/release").exists()


def test_full_boot_partition(node: UpdateNode) -> None:
    """Said in KiB, before anything is written."""
    program(node.tools / "df", "echo head; echo x 262144 262044 100 99% /boot")
    assert "has 100 KiB for it" in files(node, node.bundle("2.0.0"))
    assert not (node.boot_folder / "slot-b").exists()
    assert node.cut().version == "1.0.0"


# -- FAT after a power cut ----------------------------------------------------------------


def test_left_beside(node: UpdateNode) -> None:
    """A temporary file with other content goes; one with the same may share clusters, and stays."""
    target = "config.txt" if node.board == "rpi5" else "loader/entries/cairn-b.conf"
    install(node)
    node.restarted(node.slots("reboot"))
    real = node.boot_folder / target
    if not real.exists():
        real.write_text("old\n")
    node.write(f"boot/{target}.new", "half of")
    node.write(f"boot/{target}.new1", real.read_text())
    node.slots("set-state", "b", "good")
    assert not (node.boot_folder / f"{target}.new").exists()
    assert (node.boot_folder / f"{target}.new1").exists()
    assert node.cut().version == "2.0.0"
    node.slots("committed")


def test_folder_goes_file_by_file(node: UpdateNode) -> None:
    """The disk knows that a name is gone before the next one goes."""
    bundle = node.bundle("2.0.0")
    files(node, bundle, status=0)
    number = sum(path.is_file() for path in (node.boot_folder / "slot-b").rglob("*"))
    log = node.path / "log"
    for name in ("rm", "sync"):
        program(node.tools / name, f'echo {name} "$@" >>{log}\nexec {shutil.which(name)} "$@"')
    files(node, bundle, status=0)
    folder = f"{node.boot_folder}/slot-b"
    said = log.read_text().splitlines()
    removed = [at for at, line in enumerate(said) if line.startswith(f"rm -f {folder}/")]
    assert len(removed) == number
    assert all(said[at + 1] == f"sync {Path(said[at].split()[-1]).parent}" for at in removed)


def test_disk_that_does_not_take_the_files(node: UpdateNode) -> None:
    """A sync that fails is said, to the screen, too; nothing names the slot."""
    program(
        node.tools / "sync",
        f'case $* in *cmdline*) exit 1 ;; esac\nexec {shutil.which("sync")} "$@"',
    )
    assert "the boot partition cannot be written" in files(node, node.bundle("2.0.0"))
    assert "the boot partition cannot be written" in node.read("run/cairn/update.why")
    assert node.slots("get-state", "b") == "bad"


# -- boots that are counted ---------------------------------------------------------------


def test_cut_before_the_counted_entry_is_gone(tmp_path: Path) -> None:
    """The lasting entry counts: the slot stays, and the rest is removed by the next word."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    entries = node.boot_folder / "loader/entries"
    install(node)
    node.restarted(node.slots("reboot"))
    counted = (entries / "cairn-b+0-1.conf").read_text()
    node.slots("set-state", "b", "good")
    assert " cairn.trial" in counted, "a trial's kernel knows what it is"
    assert "cairn.trial" not in (entries / "cairn-b.conf").read_text()
    (entries / "cairn-b+0-1.conf").write_text(counted)
    assert node.cut().version == "2.0.0"
    node.slots("on-trial", status=1)
    node.slots("committed")
    node.slots("set-state", "b", "good")
    assert not (entries / "cairn-b+0-1.conf").exists()
    # A rollback of this slot is a trial again, although its lasting entry is there.
    node.slots("set-primary", "a")
    assert node.restarted(node.slots("reboot")).version == "1.0.0"
    node.slots("committed", status=1)
    node.slots("on-trial")


def test_firmware_that_renames_nothing(tmp_path: Path) -> None:
    """The trial takes its own try away, so that it is the last one."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    node.renames = False
    install(node)
    assert node.restarted(node.slots("reboot")).version == "2.0.0"
    assert node.cut().version == "2.0.0", "the premise: such a firmware starts it again"
    node.slots("spend")
    assert node.cut().version == "1.0.0"
    node.slots("spend")
    assert node.cut().version == "1.0.0", "of a slot that stays nothing is taken"


def test_tries_that_cannot_be_taken(tmp_path: Path) -> None:
    """Status 3: whoever asks must not restart."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    node.renames = False
    install(node)
    node.restarted(node.slots("reboot"))
    program(node.tools / "sync", "exit 1")
    assert "could not be written" in node.slots("spend", status=3)

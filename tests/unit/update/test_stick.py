"""Bundles on a USB stick.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

import re

import pytest

from lab.paths import ROOT
from tests.shared.commands import program
from tests.shared.update_node import LIBRARY, UpdateNode
from tests.unit.update.steps import SHELLS, install, plug, records


def test_stick(node: UpdateNode) -> None:
    """Offered; after a restart with it installed, but not in the first ten minutes."""
    plug(node, "2.0.0", "1.5.0")
    assert "reboot" not in node.run("cairn-update", "--stick").splitlines()
    assert "has version 2.0.0 (1.0.0 runs)" in node.screen()
    node.run("cairn-update", "--stick")
    assert node.slots("get-primary") == "a", "the same boot"
    assert node.cut().version == "1.0.0"
    node.write("proc/uptime", "60.0 1\n")
    assert "less than 10 minutes ago" in node.run("cairn-update", "--stick")
    assert node.slots("get-primary") == "a"
    node.write("proc/uptime", "660.0 1\n")
    assert node.restarted(node.run("cairn-update", "--stick")).version == "2.0.0"
    node.trial()
    # It is still plugged in: no loop, and the screen goes on saying what has become of it.
    assert node.run("cairn-update", "--stick") == ""
    assert node.slots("get-primary") == "b"
    assert node.screen().startswith("Version 2.0.0 is in use now.")
    # As for who builds without raising the version, and waits for the node to take it.
    node.cut()
    assert "has version 2.0.0, which runs already" in " ".join(
        node.run("cairn-update", "--stick").split()
    )
    assert node.run("cairn-update", "--stick") == ""


@pytest.mark.parametrize(
    ("report", "quiet"),
    [
        ("", False),
        ("No update was looked for: x.", False),
        ("The update was not installed: version 1.0.0 runs already. Nothing has changed.", False),
        ("Version 1.0.0-rc1 did not stay: x. The node runs 1.0.0 as before;", False),
        ("Version 1.0.0 is in use now.", True),
        ("Version 1.0.0 is being tried, which takes some minutes", True),
        ("The trial of version 1.0.0 could not be judged (signal);", True),
    ],
)
def test_stick_with_the_version_that_runs(pi: UpdateNode, report: str, quiet: bool) -> None:
    """It is said, also behind what has been said of others; not over what became of it."""
    plug(pi, "1.0.0")
    if report:
        pi.write("run/cairn/update.report", f"{report}\n")
    pi.run("cairn-update", "--stick")
    words = "The USB stick has version 1.0.0, which runs already."
    assert pi.screen().startswith(report if quiet else words)
    pi.write("run/cairn/update.report", "Version 3.0.0 is there (1.0.0 runs).\n")
    assert (pi.run("cairn-update", "--stick") == "") != quiet, "once in a boot"


def test_stick_with_the_version_that_runs_beside_another(pi: UpdateNode) -> None:
    """What is tried at the next restart stays on the screen, and what is being written."""
    plug(pi, "1.0.0")
    install(pi, "--no-reboot", pi.file(pi.bundle("2.0.0")))
    assert pi.run("cairn-update", "--stick") == ""
    assert pi.screen().startswith("Version 2.0.0 is installed and is tried at the next restart")


def test_stick_whose_version_did_not_stay(node: UpdateNode) -> None:
    """The offer comes again, and why it failed stays in front of it."""
    plug(node, "2.0.0")
    node.run("cairn-update", "--stick")
    node.cut()
    assert node.restarted(node.run("cairn-update", "--stick")).version == "2.0.0"
    node.write("failed-units", "x.service loaded failed failed x\n")
    said = node.trial()
    assert node.run("cairn-update", "--stick") == "", "the version that is on trial"
    assert node.restarted(said).version == "1.0.0"
    node.write("failed-units", "")
    node.trial()
    node.run("cairn-update", "--stick")
    assert node.screen().startswith("Version 2.0.0 did not stay: failed: x.service.")
    assert "as they were. The USB stick has version 2.0.0 (1.0.0 runs)." in node.screen()


@pytest.mark.parametrize(
    ("kind", "mounted"), [("vfat", True), ("exfat", True), ("ext4", False), ("f2fs", False)]
)
def test_what_is_mounted(pi: UpdateNode, kind: str, mounted: bool) -> None:
    """FAT and exFAT, as what udev says that they are; reading ext4 may write to a disk."""
    plug(pi, "2.0.0", kind=kind)
    pi.run("cairn-update", "--stick")
    pi.run("node-update", "check")
    said = pi.read("mounted").splitlines()
    assert len(said) == (2 if mounted else 0)
    assert all(line.startswith(f"-t {kind} -o ro,nodev,nosuid,noexec ") for line in said)
    rule = (ROOT / "overlay/usr/lib/udev/rules.d/70-cairn-update.rules").read_text()
    assert 'ENV{ID_FS_TYPE}=="vfat|exfat"' in rule


def test_stick_is_pulled(pi: UpdateNode) -> None:
    """An offer is forgotten when the stick has gone."""
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    plug(pi)
    pi.cut()
    pi.run("cairn-update", "--stick")
    plug(pi, "2.0.0")
    pi.cut()
    pi.run("cairn-update", "--stick")
    assert "leave the stick in and restart" in pi.screen()
    assert pi.slots("get-primary") == "a"


def test_stick_and_a_disk_that_cannot_be_written(pi: UpdateNode) -> None:
    """The offer cannot be remembered, so it says what else can be done."""
    plug(pi, "2.0.0")
    (pi.path / "var/lib/cairn/update").touch()
    said = " ".join(pi.run("cairn-update", "--stick").split())
    assert "cannot be written, so it is not installed by itself" in said


def test_stick_waits_until_it_can_be(pi: UpdateNode) -> None:
    """The reason is said, and a later look installs it; what it came to stays on the screen."""
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    pi.cut()
    (pi.boot_folder / "slot-a/good").unlink()
    assert "not known to be good yet" in pi.run("cairn-update", "--stick")
    (pi.boot_folder / "slot-a/good").touch()
    (pi.path / "bundles/stick-2.0.0/short").touch()
    pi.run("cairn-update", "--stick", status=1)
    assert "was not installed" in pi.screen()
    assert pi.run("cairn-update", "--stick") == ""
    assert "was not installed" in pi.screen()
    pi.cut()
    assert "leave the stick in" in " ".join(pi.run("cairn-update", "--stick").split())
    timer = (LIBRARY.parent / "systemd/system/cairn-update-stick.timer").read_text()
    looks = [int(at) for at in re.findall(r"(?m)^OnBootSec=(\d+)min$", timer)]
    assert looks[0] <= 1
    assert any(10 < at <= 12 for at in looks)
    assert max(looks) > 180, "what a trial may take (cairn-trial)"


def test_stick_of_others(pi: UpdateNode) -> None:
    """Another board's, an older version, links, and files that are no bundles."""
    plug(pi, "2.0.0", board="x86_64")
    assert "none that is whole and signed for this node (board rpi5)" in " ".join(
        pi.run("cairn-update", "--stick").split()
    )
    assert "no file that is whole" in pi.run("node-update", "check")
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    plug(pi, "2.0.0", board="x86_64")
    pi.cut()
    pi.run("cairn-update", "--stick")
    assert not (pi.path / "var/lib/cairn/update/stick").exists(), "that offer is forgotten"
    plug(pi, "0.9")
    assert "not installed by itself" in " ".join(pi.run("cairn-update", "--stick").split())
    plug(pi, "2.0.0")
    (pi.path / "stick/cairn-2.0.0.raucb").rename(pi.path / "stick/x.bin")
    (pi.path / "stick/cairn-x.raucb").symlink_to("x.bin")
    pi.write("stick/cairn-y.raucb", "/nowhere\n")
    assert pi.run("cairn-update", "--stick").count("Version") == 0
    (pi.path / "stick/cairn-y.raucb").unlink()
    pi.cut()
    assert pi.run("cairn-update", "--stick") == ""


@pytest.mark.parametrize("signal", ["INT", "HUP", "TERM"])
@pytest.mark.parametrize("shell", SHELLS)
def test_check_that_is_interrupted(pi: UpdateNode, shell: str, signal: str) -> None:
    """The stick does not stay mounted, or no look could mount it, and the offer was forgotten."""
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    offered = pi.read("var/lib/cairn/update/stick")
    rauc = (pi.tools / "rauc").rename(pi.tools / "rauc.real")
    program(pi.tools / "rauc", f'case "$*" in *http*) kill -{signal} 0 ;; esac\nexec {rauc} "$@"')
    records(pi, "notify")
    pi.run("node-update", "check", shell=shell, status=None)
    assert not list((pi.path / "run/cairn").glob("stick*"))
    pi.run("cairn-update", "--stick")
    assert pi.read("var/lib/cairn/update/stick") == offered


def test_stick_of_the_unit_is_left_to_it(pi: UpdateNode) -> None:
    """Removing the folder would take a mount in another name space away."""
    (pi.path / "run/cairn/stick").mkdir(parents=True)
    records(pi, "off", "")
    pi.run("cairn-update", "--window")
    pi.run("node-update", "check")
    assert (pi.path / "run/cairn/stick").is_dir()


def test_stick_that_is_taken_away(pi: UpdateNode) -> None:
    """Its sentence goes, too, but not what was said of a trial, nor another's sentence."""
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    plug(pi)
    pi.run("cairn-update", "--stick")
    assert not (pi.path / "run/cairn/update.report").exists()
    pi.write("var/lib/cairn/update/last", "Version 3.0.0 did not stay: x.\n")
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    assert "The USB stick has version 2.0.0" in pi.screen()
    plug(pi)
    pi.run("cairn-update", "--stick")
    assert pi.screen() == "Version 3.0.0 did not stay: x.\n"
    pi.write("run/cairn/update.report", "Version 1.0.0 is in use now.\n")
    pi.run("cairn-update", "--stick")
    assert pi.screen() == "Version 1.0.0 is in use now.\n"

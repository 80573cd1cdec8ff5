"""A version on trial: what ends it, and what makes it good.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.shared.commands import program
from tests.shared.update_node import UpdateNode, times
from tests.unit.update.steps import SHELLS, begun, install, on_trial


def falls_back(node: UpdateNode, said: str, words: str) -> None:
    """The trial ends, the old version runs and says why."""
    assert words in said
    assert node.restarted(said).version == "1.0.0"
    node.trial()
    assert "Version 2.0.0 did not stay" in node.screen()
    assert words in node.screen()
    node.run("node-update", "status")
    assert node.cut().version == "1.0.0"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("failed-units", "cairn-page.service loaded failed failed x\n", "cairn-page.service"),
        ("state", "maintenance\n", "emergency mode"),
        ("state", "starting\n", "boot was not complete"),
        ("rpc", "1 0 Loading block index\n", "no answer from bitcoind"),
        ("rpc", "0 999\n", "has block 999, and had 1000 before"),
        ("run/cairn/bitcoind.hold", "", "held back"),
        ("run/cairn/firewall.report", "The firewall lets nobody in.\n", "firewall"),
        ("run/cairn/tor-firewall.report", "The rules could not be loaded.\n", "firewall"),
    ],
)
def test_bad_trial(node: UpdateNode, name: str, text: str, words: str) -> None:
    """Each reason, and where it is shown."""
    on_trial(node)
    node.write(name, text)
    said = node.trial()
    if not name.startswith("run/"):
        node.make_tools()
    assert words in node.read("dev/tty1")
    falls_back(node, said, words)


def test_emergency_mode_with_a_job_that_waits(node: UpdateNode) -> None:
    """systemd calls that boot unfinished; such a job is that for the name of the data partition."""
    on_trial(node)
    node.write("state", "initializing\n")
    node.write("emergency", "active\n")
    said = node.trial()
    assert "emergency mode" in node.screen()
    node.write("state", "running\n")
    falls_back(node, said, "emergency mode")


def test_firewall_that_was_so_before(pi: UpdateNode) -> None:
    """It is no fault of the version, which may be what mends it."""
    pi.write("run/cairn/firewall.report", "The firewall lets nobody in.\n")
    on_trial(pi)
    pi.write("run/cairn/firewall.report", "The firewall lets nobody in.\n")
    pi.trial()
    assert pi.screen().startswith("Version 2.0.0 is in use now.")


@pytest.mark.parametrize(
    ("before", "after", "good"),
    [
        ("network on\nsum 00ab\n", "network off\nsum 00ab\n", False),
        ("network on\nsum 00ab\n", "network outbound\nsum 00ab\n", False),
        ("network outbound\nsum none\n", "network off\nsum none\n", False),
        ("network outbound\nsum none\n", "network outbound\nsum none\n", True),
        # The new version knows a line that the old one did not.
        ("network off\nsum 00ab\n", "network on\nsum 00ab\n", True),
        ("network off\nsum 00ab\n", "network off\nsum 00ab\n", True),
        # The owner has written another file meanwhile, or it cannot be read.
        ("network on\nsum 00ab\n", "network off\nsum 00cd\n", True),
        ("network on\nsum 00ab\n", "network off\n", True),
        ("network on\n", "network off\n", True),
    ],
)
def test_network_of_the_same_node_conf(pi: UpdateNode, before: str, after: str, good: bool) -> None:
    """A version that has less of it than the one before does not stay."""
    pi.write("run/cairn/node-conf.records", before)
    on_trial(pi)
    pi.write("run/cairn/node-conf.records", after)
    said = pi.trial()
    if good:
        assert pi.screen().startswith("Version 2.0.0 is in use now.")
    else:
        falls_back(pi, said, "cannot use a line of node.conf")


def test_network_after_a_rollback(pi: UpdateNode) -> None:
    """An older version may not know a line; the network is off then, as is documented."""
    on_trial(pi)
    pi.trial()
    pi.write("run/cairn/node-conf.records", "network on\nsum 00ab\n")
    pi.restarted(pi.run("node-update", "rollback"))
    pi.write("run/cairn/node-conf.records", "network off\nsum 00ab\n")
    pi.trial()
    assert pi.screen().startswith("Version 1.0.0 is in use now.")


@pytest.mark.parametrize("state", ["active", "activating"])
def test_rpc_that_the_owner_has_limited(pi: UpdateNode, state: str) -> None:
    """A bitcoind that runs and refuses the question (rpcwhitelist=) is one that runs."""
    on_trial(pi)
    pi.write("rpc", "403 0\n")
    pi.write("bitcoind-state", state + "\n")
    said = pi.trial()
    if state == "active":
        assert pi.screen().startswith("Version 2.0.0 is in use now.")
    else:
        falls_back(pi, said, "no answer from bitcoind")


def test_bitcoind_that_is_busy_is_asked_once_a_minute(pi: UpdateNode) -> None:
    """Each question keeps one of its threads until it is answered."""
    on_trial(pi)
    program(
        pi.tools / "node-cli",
        f'echo "$*" >>{pi.path}/questions; echo "timeout reached" >&2; exit 1',
    )
    pi.time_passes(5)
    pi.trial(CAIRN_TRIAL_TIME="5300")
    assert len(pi.read("questions").splitlines()) in (5, 6)


def test_held_back_before_too(pi: UpdateNode) -> None:
    """Then it is not the version's failure, and is not counted as one."""
    pi.write("run/cairn/bitcoind.hold", "")
    on_trial(pi)
    pi.write("run/cairn/bitcoind.hold", "")
    falls_back(pi, pi.trial(), "held back")
    assert pi.read("var/lib/cairn/update/failed") == ""


def test_trial_is_said(pi: UpdateNode) -> None:
    """Who sees the new number shall not pull the plug."""
    on_trial(pi)
    assert "Version 2.0.0 is being tried" in pi.trial()


def test_data_partition_not_mounted(node: UpdateNode) -> None:
    """Nothing is written below /var then, which is the root file system's."""
    on_trial(node)
    before = node.read("var/lib/cairn/update/trial")
    node.write("proc/mounts", "/dev/root / erofs ro 0 0\n")
    said = node.trial()
    assert "data partition was not mounted" in said
    assert node.read("var/lib/cairn/update/trial") == before
    assert node.restarted(said).version == "1.0.0"
    node.trial()
    assert "it did not come up" in node.screen()


def test_on_its_way(node: UpdateNode) -> None:
    """Below the height of before, but growing: waits, and then it is good."""
    on_trial(node)
    node.write("rpc", "0 900\n")
    node.time_passes(5, f'read -r s h <{node.path}/rpc; echo "$s $((h + 50))" >{node.path}/rpc')
    node.trial(CAIRN_TRIAL_TIME="6000")
    assert node.cut().version == "2.0.0"


def test_short_of_the_tip_when_the_time_is_up(node: UpdateNode) -> None:
    """Good if it grew during the trial."""
    on_trial(node)
    node.write("rpc", "0 100\n")
    node.time_passes(60, f'read -r s h <{node.path}/rpc; echo "$s $((h + 1))" >{node.path}/rpc')
    node.trial(CAIRN_TRIAL_TIME="5600", CAIRN_TRIAL_LONGEST="10800")
    assert node.cut().version == "2.0.0"


def test_progress_gets_more_time_but_not_for_ever(pi: UpdateNode) -> None:
    """bitcoind that verifies has until the longest time; one that stands still ten minutes."""
    on_trial(pi)
    clock = f"{pi.path}/proc/uptime"
    moving = f'echo "1 0 Verifying $(cut -d. -f1 {clock})" >{pi.path}/rpc'
    for doing, least, most in ((moving, 10800, 10900), ("", 5600, 6300)):
        pi.write("proc/uptime", "5000.00 1\n")
        pi.write("rpc", "1 0 Verifying\n")
        pi.time_passes(60, doing)
        pi.trial(CAIRN_TRIAL_TIME="5000", CAIRN_TRIAL_LONGEST="10800")
        assert least <= float(pi.read("proc/uptime").split()[0]) <= most


@pytest.mark.parametrize("words", ["Replaying blocks…", ""])
@pytest.mark.parametrize(("cpu", "longer"), [("3000000000", True), ("2000000000", False)])
def test_work_is_progress(pi: UpdateNode, words: str, cpu: str, longer: bool) -> None:
    """Of a bitcoind that says the same for an hour, or of a check before /var is mounted."""
    on_trial(pi)
    pi.write("proc/uptime", "100.00 1\n")
    pi.write("rpc", f"1 0 {words}\n")
    if not words:
        pi.write("proc/mounts", "/dev/root / erofs ro 0 0\n")
    pi.write("used", "0\n")
    # bitcoind's, and units that have not run: they are not added
    pi.time_passes(
        60,
        f"""read -r used <{pi.path}/used; used=$((used + {cpu})); echo $used >{pi.path}/used
        printf '%s\n\n[not set]\n\n18446744073709551615\n' $used >{pi.path}/cpu""",
    )
    pi.trial(CAIRN_TRIAL_TIME="600", CAIRN_TRIAL_LONGEST="2400")
    end = float(pi.read("proc/uptime").split()[0])
    assert 2400 <= end < 2500 if longer else end < 1300


def test_boot_partition_not_mounted(node: UpdateNode) -> None:
    """The loader's word is enough to know that it is a trial, and a bad one."""
    on_trial(node)
    with node.boot_not_mounted():
        said = node.trial()
    falls_back(node, said, "the boot partition was not mounted")


def test_boot_partition_not_mounted_and_no_word(pi: UpdateNode) -> None:
    """An EEPROM that does not say what it read: one restart tells, and no more than one."""
    on_trial(pi)
    flag = pi.path / "proc/device-tree/chosen/bootloader/tryboot"
    flag.unlink()
    with pi.boot_not_mounted():
        said = pi.trial()
    assert "in use now" not in said
    falls_back(pi, said, "the boot partition was not mounted")
    # the same in a version that is good, but for the note of it
    assert pi.restarted(install(pi, "--again")).version == "2.0.0"
    pi.slots("set-state", "b", "good")
    pi.cut()
    flag.unlink()
    with pi.boot_not_mounted():
        said = pi.trial()
        assert said.splitlines()[-1] == "reboot"
        flag.unlink(missing_ok=True)
        assert "reboot" not in pi.trial().splitlines()
    assert pi.cut().version == "2.0.0"
    assert "in use now" in pi.trial()


def test_neither_partition_mounted_and_no_word(node: UpdateNode) -> None:
    """A trial that nothing names: a restart leads back. If the loader tells, there is none."""
    on_trial(node)
    node.slots("unread", status=1)
    flag = node.path / "proc/device-tree/chosen/bootloader/tryboot"
    node.write("proc/mounts", "/dev/root / erofs ro 0 0\n")
    if node.board == "rpi5":
        flag.unlink()
        with node.boot_not_mounted():
            said = node.trial()
        assert "neither the boot nor the data partition was mounted" in said
        assert node.restarted(said).version == "1.0.0"
        node.trial()
        assert "Version 2.0.0 did not stay: it did not come up" in node.screen()
    else:
        assert node.cut().version == "1.0.0"
        node.trial()
    # of a version that stays
    node.write("proc/mounts", "/dev/root / erofs ro 0 0\n")
    flag.parent.mkdir(parents=True, exist_ok=True)
    flag.write_bytes(bytes(4))
    with node.boot_not_mounted():
        assert "reboot" not in node.trial().splitlines()


def test_trial_before_there_is_run_cairn(node: UpdateNode) -> None:
    """A boot that ends before systemd-tmpfiles runs: it is said, and ended."""
    on_trial(node)
    shutil.rmtree(node.path / "run")
    node.write("state", "maintenance\n")
    said = node.trial()
    assert "emergency mode" in node.read("dev/tty1")
    assert "emergency mode" in node.screen()
    assert node.restarted(said).version == "1.0.0"
    assert node.restarted(install(node, "--again")).version == "2.0.0"
    shutil.rmtree(node.path / "run")
    (node.path / "run").touch()  # nothing can be written there
    said = node.run("cairn-trial", "--ended", SERVICE_RESULT="signal")
    (node.path / "run").unlink()
    assert node.restarted(said).version == "1.0.0"


def test_screen_that_cannot_be_written(node: UpdateNode) -> None:
    """The trial ends all the same."""
    on_trial(node)
    node.write("failed-units", "x.service loaded failed failed x\n")
    (node.path / "run/cairn/update.report.new").mkdir(parents=True)
    assert node.restarted(node.trial()).version == "1.0.0"


@pytest.mark.parametrize("part", ["version", "files"])
def test_system_of_two_disks(node: UpdateNode, part: str) -> None:
    """The card of another node is plugged in, whose partitions have the same names."""
    on_trial(node)
    if part == "version":
        node.write("usr/lib/os-release", f"IMAGE_VERSION=1.9.0\nVARIANT_ID={node.board}\n")
    else:
        text = node.read("boot/slot-b/release")
        node.write("boot/slot-b/release", text.replace("version=2.0.0", "version=1.9.0"))
    said = node.trial()
    assert "another node's" in said
    assert node.restarted(said).version == "1.0.0"


@pytest.fixture(params=["flashed", "one slot", "same slot", "on trial"])
def other(request: pytest.FixtureRequest, node: UpdateNode, tmp_path: Path) -> UpdateNode:
    """Another node of the board, whose disk is plugged in, too."""
    there = UpdateNode(tmp_path / "other", node.board)
    if request.param == "flashed":
        there.never_good(boot=False)
    elif request.param != "one slot":
        on_trial(there)
        if request.param == "same slot":
            there.trial()
    return there


def test_trial_with_the_boot_partition_of_another_node(node: UpdateNode, other: UpdateNode) -> None:
    """The loader's word is enough to know that it is a trial, and a bad one."""
    on_trial(node)
    with node.boot_of(other):
        said = node.trial()
    falls_back(node, said, "the boot partition and the root file system are not on one disk")


ALONE = (
    "The boot partition is left alone: the boot partition and the root file system are not on one"
    " disk; unplug a disk that was another node's, and restart.\n"
)


@pytest.mark.parametrize("slot", ["a", "b"])
def test_boot_partition_of_another_node(node: UpdateNode, other: UpdateNode, slot: str) -> None:
    """Without a trial it is said, and nothing is written; without that disk, all goes on."""
    on_trial(node)
    if slot == "b":
        node.trial()
        third = node.file(node.bundle("3.0.0"))
        assert node.restarted(install(node, third)).slot == "a"
    assert node.cut().slot == slot
    state = node.path / "var/lib/cairn/update"
    before = times(state)
    with node.boot_of(other):
        assert "reboot" not in node.trial().splitlines()
        assert node.screen() == ALONE
        for words in (["set-state", {"a": "b", "b": "a"}[slot], "bad"], ["set-primary", slot]):
            assert "was left as it is" in node.slots(*words, status=1)
        for words in (
            ["status"],
            ["rollback"],
            ["reboot"],
            ["install", node.file(node.bundle("4.0.0"))],
        ):
            said = node.run("node-update", *words, status=None)
            assert "is not on the disk of the root file system; unplug" in said, words
        assert times(state) == before
    node.cut()
    node.trial()
    assert node.screen().startswith(f"Version {'2' if slot == 'a' else '3'}.0.0 did not stay")


def test_root_of_another_node(node: UpdateNode) -> None:
    """The same for a root file system of another version than the files of the boot partition."""
    on_trial(node)
    node.cut()
    node.write("usr/lib/os-release", f"IMAGE_VERSION=1.9.0\nVARIANT_ID={node.board}\n")
    places = [node.boot_folder, node.path / "var/lib/cairn/update"]
    before = [times(place) for place in places]
    node.trial()
    assert node.screen().startswith("The boot partition is left alone: the ")
    assert node.screen().endswith("; unplug a disk that was another node's, and restart.\n")
    assert before == [times(place) for place in places]
    node.cut()
    node.trial()
    assert node.screen().startswith("Version 2.0.0 did not stay")


def test_boot_partition_of_another_node_and_no_word(pi: UpdateNode, tmp_path: Path) -> None:
    """An EEPROM that does not say what it read: that disk is no reason to restart."""
    there = UpdateNode(tmp_path / "other", "rpi5")
    on_trial(pi)
    (pi.path / "proc/device-tree/chosen/bootloader/tryboot").unlink()
    with pi.boot_of(there):
        assert "reboot" not in pi.trial().splitlines()
        assert pi.screen() == ALONE
    assert pi.cut().version == "1.0.0"


@pytest.mark.parametrize("version", ["1.0.0", "9.0.0"])
def test_kernel_of_another_node(tmp_path: Path, version: str) -> None:
    """A PC started another disk's loader, and its kernel a slot here that stays no more.

    It would do so at each restart.
    """
    node = UpdateNode(tmp_path / "node", "x86_64")
    on_trial(node)
    node.trial()
    node.slots("set-state", "a", "bad")
    node.write("proc/cmdline", f"root=PARTLABEL=root-a cairn.version={version} ro\n")
    node.write("usr/lib/os-release", "IMAGE_VERSION=1.0.0\nVARIANT_ID=x86_64\n")
    mounts = node.read("proc/self/mountinfo")
    node.write("proc/self/mountinfo", mounts.replace("179:3", "179:2"))
    before = times(node.boot_folder)
    assert "reboot" not in node.trial().splitlines()
    assert times(node.boot_folder) == before
    assert node.cut().version == "2.0.0"


def test_kernel_of_another_node_with_what_is_to_be_tried(tmp_path: Path) -> None:
    """It is not judged, and does not stay for that: the next start by its own loader is the trial.

    Here the loader of the other disk has a lasting entry of that slot.
    """
    node = UpdateNode(tmp_path / "node", "x86_64")
    install(node, "--no-reboot")
    node.write("proc/cmdline", "root=PARTLABEL=root-b cairn.version=2.0.0 ro\n")
    node.write("usr/lib/os-release", "IMAGE_VERSION=2.0.0\nVARIANT_ID=x86_64\n")
    mounts = node.read("proc/self/mountinfo")
    node.write("proc/self/mountinfo", mounts.replace("179:2", "179:3"))
    before = times(node.boot_folder)
    said = node.trial()
    assert "Version 2.0.0 is not being tried: another entry of the loader's menu" in said
    assert "or another disk's loader. Unplug such a disk" in said
    assert "reboot" not in said.splitlines()
    assert times(node.boot_folder) == before
    assert node.cut().version == "2.0.0"
    assert "in use now" in node.trial()


def test_boot_partition_without_the_slot_that_runs(node: UpdateNode) -> None:
    """Not one that was not mounted: it is said, and nothing is written."""
    shutil.rmtree(node.boot_folder / "slot-a")
    before = times(node.boot_folder)
    assert "reboot" not in node.trial().splitlines()
    assert "has nothing of the slot that runs; unplug" in node.screen()
    assert times(node.boot_folder) == before


def test_unit_that_had_failed_before(node: UpdateNode) -> None:
    """No fault of the new version; another one is."""
    line = "{}.service loaded failed failed x\n"
    node.write("failed-units", line.format(r"dev-disk-by\x2dlabel-x"))
    node.write("state", "degraded\n")
    on_trial(node)
    node.write("failed-units", line.format(r"dev-disk-by\x2dlabel-x") + line.format("new"))
    said = node.trial()
    assert "failed: new.service)" in said
    node.write("failed-units", line.format(r"dev-disk-by\x2dlabel-x"))
    falls_back(node, said, "failed: new.service")
    assert node.restarted(install(node, "--again")).version == "2.0.0"
    node.trial()
    assert node.cut().version == "2.0.0"


def test_unit_that_had_failed_before_and_a_late_data_disk(node: UpdateNode) -> None:
    """Which units had failed is read from the data partition, so there is no verdict before it."""
    line = "{}.service loaded failed failed x\n"
    node.write("failed-units", line.format("early"))
    on_trial(node)
    mounts = node.read("proc/mounts")
    node.write("proc/mounts", "/dev/root / erofs ro 0 0\n")
    (node.path / "later").write_text(mounts)
    program(node.tools / "sleep", f"cp {node.path}/later {node.path}/proc/mounts")
    assert "reboot" not in node.trial(CAIRN_TRIAL_TIME="90000").splitlines()
    assert node.screen().startswith("Version 2.0.0 is in use now.")
    # The time limit ends it all the same, and says what may be the cause.
    node.write("failed-units", "")
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    node.write("failed-units", line.format("early"))
    node.write("proc/mounts", "/dev/root / erofs ro 0 0\n")
    said = node.trial()
    assert "data partition was not mounted; failed: early.service)" in said
    assert node.restarted(said).version == "2.0.0"


def test_failed_units_are_noted_before_anything_is_armed(pi: UpdateNode) -> None:
    """A PC may try it as soon as RAUC has armed it, if the power fails then."""
    pi.write("failed-units", "early.service loaded failed failed x\n")
    bundle = pi.bundle("2.0.0")
    (bundle / "slow").touch()
    with begun(pi, pi.file(bundle)):
        assert pi.read("var/lib/cairn/update/failed-units") == "early.service\n"


NETWORK = r"systemd\x2dnetworkd.service"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("starts", [True, False])
def test_unit_whose_time_was_up(pi: UpdateNode, starts: bool, shell: str) -> None:
    """A slow machine: one more start, with what needs it, and no third one."""
    on_trial(pi)
    for name in (NETWORK, "firewall.service"):
        pi.write(f"result-{name}", "timeout\n")
    pi.write("required-by", "needs-it.service\n\n")
    lines = f"{NETWORK} loaded failed failed x\nfirewall.service loaded failed failed x\n"
    pi.write("failed-units", lines)
    if starts:
        pi.write("starts", "")
    said = pi.trial(shell=shell, CAIRN_TRIAL_TIME="90000")
    assert pi.read("started") == f"start -- {NETWORK} firewall.service needs-it.service\n"
    if starts:
        assert pi.screen().startswith("Version 2.0.0 is in use now.")
    else:
        assert f"failed: {NETWORK}, firewall.service);" in said
        assert pi.restarted(said).version == "1.0.0"


def test_unit_that_failed_beside_one_whose_time_was_up(pi: UpdateNode) -> None:
    """It is bad at once."""
    on_trial(pi)
    pi.write("result-slow.service", "timeout\n")
    lines = "slow.service loaded failed failed x\nbad.service loaded failed failed x\n"
    pi.write("failed-units", lines)
    said = pi.trial(CAIRN_TRIAL_TIME="90000")
    assert "failed: slow.service, bad.service);" in said
    assert pi.restarted(said).version == "1.0.0"
    assert pi.read("started") == ""


LOOP = "{}.service loaded activating auto-restart x\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_unit_that_is_started_again_and_again(node: UpdateNode, shell: str) -> None:
    """Such as sshd, without which the owner could not go back: not good; it never "fails"."""
    on_trial(node)
    node.write("failed-units", LOOP.format("bitcoind") + LOOP.format("cairn-sshd"))
    said = node.trial(shell=shell)
    assert "again and again: cairn-sshd.service);" in said
    node.write("failed-units", "")
    falls_back(node, said, "again and again: cairn-sshd.service")
    # One that did so before is no fault of the new version, and bitcoind is asked itself.
    node.write("failed-units", LOOP.format("bitcoind") + LOOP.format("cairn-link"))
    assert node.restarted(install(node, "--again")).version == "2.0.0"
    assert node.read("var/lib/cairn/update/failed-units") == "cairn-link.service\n"
    node.trial()
    assert node.cut().version == "2.0.0"


@pytest.mark.parametrize("at", [30, 0])
def test_good_for_a_minute(pi: UpdateNode, at: int) -> None:
    """One good look is not enough: it may be one between two starts. Each ends the minute."""
    on_trial(pi)
    pi.write("once", LOOP.format("cairn-sshd"))
    clock = f"{pi.path}/proc/uptime"
    pi.write("proc/uptime", "5000 1\n")
    pi.time_passes(
        10,
        after=f"""read -r now _ <{clock}; : >{pi.path}/failed-units
        [ $now != $((5000 + {at})) ] || cp {pi.path}/once {pi.path}/failed-units""",
    )
    # also when the time is up meanwhile
    pi.trial(CAIRN_TRIAL_STEADY="60", CAIRN_TRIAL_TIME="5040", CAIRN_TRIAL_LONGEST="5040")
    assert pi.screen().startswith("Version 2.0.0 is in use now.")
    assert pi.read("proc/uptime").split()[0] == str(5060 + (at + 10 if at else 0))


def test_systemd_that_does_not_answer(pi: UpdateNode) -> None:
    """Not knowing which units have failed is not knowing that none has."""
    on_trial(pi)
    program(pi.tools / "systemctl", "[ $1 = is-system-running ] && echo running")
    falls_back(pi, pi.trial(), "systemd did not answer")


def test_restart_by_force(pi: UpdateNode) -> None:
    """If the usual way does not work."""
    on_trial(pi)
    pi.write("state", "starting\n")
    pi.write("proc/uptime", "1.0 1\n")
    program(
        pi.tools / "sleep",
        f"rm -f {pi.path}/usr/share/cairn/boot-backend\necho 99999.0 1 >{pi.path}/proc/uptime",
    )
    assert pi.trial(CAIRN_TRIAL_TIME="600").splitlines()[-1] == "reboot"


@pytest.mark.parametrize("name", ["paste", "sync"])
def test_disk_that_hangs(pi: UpdateNode, name: str) -> None:
    """Whatever waits for it cannot be ended; the trial ends all the same, by force."""
    on_trial(pi)
    pi.write("failed-units", "x.service loaded failed failed x\n")
    program(pi.tools / name, "exec sleep 100")
    text = (pi.tools / "systemctl").read_text()
    assert "--force) echo reboot" in text
    (pi.tools / "systemctl").write_text(
        text.replace("--force) echo reboot", "--force) echo $2 by force; kill -9 0")
    )
    limit = {"paste": "CAIRN_TRIAL_HANG", "sync": "CAIRN_TRIAL_END_HANG"}[name]
    words = {limit: "2", "CAIRN_TRIAL_TIME": "90000"}
    assert pi.trial(status=-9, **words).splitlines()[-1] == "reboot by force"
    assert pi.cut().version == "1.0.0"


def test_trial_that_ends_in_time(node: UpdateNode) -> None:
    """No restart is left behind, and other disks are not waited for."""
    on_trial(node)
    program(node.tools / "sync", '[ $# -gt 0 ] || exit 1\nexec /bin/sync "$@"')
    said = node.trial(CAIRN_TRIAL_HANG="3")
    assert node.screen().startswith("Version 2.0.0 is in use now.")
    assert "reboot" not in said.splitlines()


def test_firmware_that_renames_nothing(tmp_path: Path) -> None:
    """systemd-boot starts the same entry again then; the trial itself makes sure that it is one."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    node.renames = False
    on_trial(node)
    node.write("failed-units", "x.service loaded failed failed x\n")
    said = node.trial()
    node.write("failed-units", "")
    falls_back(node, said, "x.service")
    # and one whose power fails as soon as it is looked at
    assert node.restarted(install(node, "--again")).version == "2.0.0"
    program(node.tools / "sleep", "kill -9 0")
    node.write("rpc", "1 0 Loading\n")
    node.trial(status=-9, CAIRN_TRIAL_TIME="90000")
    assert node.cut().version == "1.0.0"


def test_a_trial_that_cannot_be_ended(tmp_path: Path) -> None:
    """With such a firmware and a /boot that cannot be written: no restart, and it is said."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    node.renames = False
    on_trial(node)
    node.write("failed-units", "x.service loaded failed failed x\n")
    program(node.tools / "sync", "exit 1")
    said = node.trial()
    assert "reboot" not in said.splitlines()
    assert "a restart would start it again" in node.screen()
    said = node.run("cairn-trial", "--ended", SERVICE_RESULT="signal")
    assert "reboot" not in said.splitlines()
    (node.tools / "sync").unlink()
    assert node.restarted(node.trial()).version == "1.0.0"


def test_good_but_for_the_last_file(node: UpdateNode) -> None:
    """What stays is not called bad because a file of the trial could not be removed."""
    on_trial(node)
    last = "tryboot.txt" if node.board == "rpi5" else "cairn-b+0-1.conf"
    program(node.tools / "rm", f'case $* in *{last}) exit 1 ;; esac\nexec /bin/rm "$@"')
    assert "reboot" not in node.trial().splitlines()
    assert node.screen().startswith("Version 2.0.0 is in use now.")
    (node.tools / "rm").unlink()
    assert node.cut().version == "2.0.0"
    node.trial()
    node.slots("committed")


def test_cut_while_it_becomes_good(tmp_path: Path) -> None:
    """A PC with both entries of slot b: the version is in use, and a failing unit is no loop."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    on_trial(node)
    entries = node.boot_folder / "loader/entries"
    shutil.copy(entries / "cairn-b+0-1.conf", entries / "cairn-b.conf")
    assert node.cut().version == "2.0.0"
    node.write("failed-units", "x.service loaded failed failed x\n")
    assert "reboot" not in node.trial().splitlines()
    assert node.screen().startswith("Version 2.0.0 is in use now.")
    assert not (entries / "cairn-b+0-1.conf").exists()


def test_shutdown_during_a_trial(node: UpdateNode) -> None:
    """By the owner: no verdict, no reboot; the old version comes, and it counts as a failure."""
    on_trial(node)
    node.write("state", "stopping\n")
    assert "reboot" not in node.trial().splitlines()
    node.write("state", "running\n")
    assert node.cut().version == "1.0.0"
    node.trial()
    assert "2.0.0 1\n" in node.read("var/lib/cairn/update/failed")


def test_script_that_ends_in_an_error(node: UpdateNode) -> None:
    """Only during a trial, and only if it was an error."""
    assert node.run("cairn-trial", "--ended", SERVICE_RESULT="signal") == ""
    on_trial(node)
    assert node.run("cairn-trial", "--ended", SERVICE_RESULT="success") == ""
    said = node.run("cairn-trial", "--ended", SERVICE_RESULT="signal")
    assert node.restarted(said).version == "1.0.0"

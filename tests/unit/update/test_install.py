"""node-update: what an owner asks for, and what is not installed.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.shared.commands import program
from tests.shared.update_node import UpdateNode
from tests.unit.update.steps import SHELLS, begun, fails, install, on_trial, plug, records


@pytest.mark.parametrize("shell", SHELLS)
def test_update(node: UpdateNode, shell: str) -> None:
    """Installed, tried, good, said; and rolled back on request."""
    assert "beside it   nothing" in node.run("node-update", "status", shell=shell)
    said = install(node, shell=shell)
    assert "Version 2.0.0 is installed" in said
    assert node.read("var/lib/cairn/update/trial").splitlines() == [
        *("slot=b", "phase=going", "version=2.0.0", "from=1.0.0", "height=1000", "chain=main")
    ]
    assert node.restarted(said).version == "2.0.0"
    assert "trial       runs" in node.run("node-update", "status", shell=shell)
    node.run("cairn-trial", "--pause", "0", shell=shell)
    assert node.screen().startswith("Version 2.0.0 is in use now.")
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    assert node.cut().version == "2.0.0"
    said = node.run("node-update", "status", shell=shell)
    assert "running     2.0.0 in slot b" in said
    assert "beside it   1.0.0 in slot a" in said
    assert node.restarted(node.run("node-update", "rollback", shell=shell)).version == "1.0.0"
    node.trial()
    assert node.cut().version == "1.0.0"


def test_without_a_restart(node: UpdateNode) -> None:
    """--no-reboot leaves it to node-update reboot."""
    said = install(node, "--no-reboot")
    assert "\nreboot" not in said
    assert "waiting     2.0.0, which node-update reboot tries" in node.run("node-update", "status")
    assert node.restarted(node.run("node-update", "reboot")).version == "2.0.0"


@pytest.mark.parametrize("shell", SHELLS)
def test_change_of_mind(node: UpdateNode, shell: str) -> None:
    """cancel: what runs starts at each restart, and the same version can be installed again."""
    install(node, "--no-reboot")
    said = node.run("node-update", "cancel", shell=shell)
    assert "Version 2.0.0 is not tried at the next restart any more. Version 1.0.0 stays." in said
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    assert "waiting" not in node.run("node-update", "status", shell=shell)
    assert "nothing is installed" in node.run("node-update", "reboot", status=1, shell=shell)
    assert node.cut().version == "1.0.0"
    node.trial()
    assert not node.read("var/lib/cairn/update/failed")
    assert "no other version" in node.run("node-update", "cancel", status=1, shell=shell)
    assert node.restarted(install(node)).version == "2.0.0"
    assert "on trial" in node.run("node-update", "cancel", status=1, shell=shell)
    node.trial()
    assert node.cut().version == "2.0.0"


def test_change_of_mind_that_comes_too_late(node: UpdateNode) -> None:
    """The restart has been asked for, and a Raspberry Pi would find nothing to try."""
    said = install(node)
    node.write("state", "stopping\n")
    assert "being shut down" in node.run("node-update", "cancel", status=1)
    node.write("state", "running\n")
    assert node.restarted(said).version == "2.0.0"


@pytest.mark.parametrize("by_itself", [False, True])
def test_change_of_mind_and_an_installation_that_was_killed(
    node: UpdateNode, by_itself: bool
) -> None:
    """It was armed before that was noted: taken back, and counted if nobody had asked for it."""
    install(node, "--no-reboot")
    version = "2.0.0" if by_itself else ""
    node.write("var/lib/cairn/update/trial", f"slot=b\nphase=writing\nversion={version}\nover=\n")
    said = node.run("node-update", "cancel")
    assert "Version 2.0.0 is not tried at the next restart any more." in said
    assert node.slots("get-primary") == "a"
    assert node.read("var/lib/cairn/update/failed") == ("2.0.0 1\n" if by_itself else "")
    assert node.cut().version == "1.0.0"
    node.trial()
    assert not node.screen()


def test_change_of_mind_behind_a_killed_installation_that_cannot_be_written(
    node: UpdateNode,
) -> None:
    """The note stays until nothing is armed any more; a third failure is said."""
    install(node, "--no-reboot")
    noted = "slot=b\nphase=writing\nversion=2.0.0\nover=\n"
    node.write("var/lib/cairn/update/trial", noted)
    node.write("var/lib/cairn/update/failed", "2.0.0 2\n")
    fails(node, "rm", "*/boot/*")
    assert "may still be tried" in node.run("node-update", "cancel", status=1)
    assert node.read("var/lib/cairn/update/trial") == noted
    assert node.read("var/lib/cairn/update/failed") == "2.0.0 2\n"
    if node.cut().version == "1.0.0":
        # A PC tries it.
        node.trial()
        assert "version 2.0.0 may still be tried" in node.screen()
        assert node.read("var/lib/cairn/update/trial") == noted
        (node.tools / "rm").unlink()
        said = node.run("node-update", "cancel")
        assert "Version 1.0.0 stays. Version 2.0.0 has failed three times" in said
        assert node.read("var/lib/cairn/update/failed") == "2.0.0 3\n"


def test_change_of_mind_that_cannot_be_written(node: UpdateNode) -> None:
    """Said, and it can still be tried; another restart goes on with it."""
    install(node, "--no-reboot")
    fails(node, "rm", "*/boot/*")
    said = node.run("node-update", "cancel", status=1)
    assert "The boot partition cannot be written, so version 2.0.0 may still be tried" in said
    assert "not tried" not in said
    assert node.slots("get-primary") == "b"
    (node.tools / "rm").unlink()
    assert node.restarted(node.run("node-update", "reboot")).version == "2.0.0"


def test_change_of_mind_that_a_start_cannot_write(pi: UpdateNode) -> None:
    """The screen says so at each start, and the note stays."""
    install(pi, "--no-reboot")
    trial = pi.read("var/lib/cairn/update/trial").replace("phase=installed", "phase=cancelled")
    pi.write("var/lib/cairn/update/trial", trial)
    fails(pi, "rm", "*/boot/*")
    assert pi.cut().version == "1.0.0"
    pi.trial()
    assert pi.screen().startswith("The boot partition cannot be written, so version 2.0.0 may")
    assert pi.read("var/lib/cairn/update/trial") == trial


def test_failure_while_another_version_waits(node: UpdateNode) -> None:
    """It is not tried any more then, and that is said."""
    install(node, "--no-reboot")
    bundle = node.bundle("3.0.0", "unsigned")
    (bundle / "signed").unlink()
    said = install(node, node.file(bundle, "bundles/unsigned.raucb"), status=1)
    assert "Version 2.0.0 is not tried at the next restart any more." in said
    assert "Nothing has changed" not in said
    assert node.slots("get-primary") == "a"


def test_without_a_boot_partition(node: UpdateNode) -> None:
    """It is no other disk's, and nothing is known of the other slot."""
    on_trial(node)
    node.trial()
    words = "the boot partition is not mounted; restart the node"
    with node.boot_not_mounted():
        assert f"beside it   not known: {words}" in node.run("node-update", "status")
        for command in ("reboot", "cancel", "rollback"):
            assert words in node.run("node-update", command, status=1)
        assert words in install(node, "--again", status=1)


def test_start_without_a_boot_partition_while_a_version_waits(pi: UpdateNode) -> None:
    """What became of it is said by the first start that can see it, and nothing is counted."""
    install(pi, "--no-reboot")
    assert pi.cut().version == "1.0.0"
    with pi.boot_not_mounted():
        pi.trial()
        assert "did not stay" not in pi.screen()
    assert not pi.read("var/lib/cairn/update/failed")
    pi.trial()
    assert pi.screen().startswith("Version 2.0.0 is installed and is tried at the next restart")


def test_failure_and_then_a_start_without_a_boot_partition(node: UpdateNode) -> None:
    """The version that was good once is no failure for that; the next start judges it."""
    on_trial(node)
    node.trial()
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    assert node.cut().version == "2.0.0"
    with node.boot_not_mounted():
        node.trial()
    assert not node.read("var/lib/cairn/update/failed")
    node.trial()
    assert node.screen().startswith("Version 1.0.0 did not stay")
    assert not node.read("var/lib/cairn/update/failed")


def test_power_cut_in_a_change_of_mind(node: UpdateNode) -> None:
    """The next start goes on with it, unless the loader was faster; a failure is none of it."""
    install(node, "--no-reboot")
    program(
        node.tools / "rm",
        'case "$*" in */trial*) kill -9 $PPID; exit 1 ;; esac; exec /usr/bin/rm "$@"',
    )
    node.run("node-update", "cancel", status=None)
    (node.tools / "rm").unlink()
    assert "phase=cancelled" in node.read("var/lib/cairn/update/trial")
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.screen().startswith("Version 2.0.0 is not tried at the next restart any more.")
    assert not node.read("var/lib/cairn/update/failed")
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    install(node, "--no-reboot")
    program(node.tools / "rm", f'case "$*" in {node.path}/boot/*) kill -9 $PPID ;; esac; exit 1')
    node.run("node-update", "cancel", status=None)
    (node.tools / "rm").unlink()
    assert node.slots("get-primary") == "b"
    if node.cut().version == "2.0.0":
        assert node.cut().version == "1.0.0"
        node.trial()
        assert node.screen().startswith("Version 2.0.0 did not stay")
    else:
        node.trial()
        assert node.screen().startswith("Version 2.0.0 is not tried at the next restart any more.")
    assert node.slots("get-primary") == "a"


def test_change_of_mind_while_the_restart_is_prepared(node: UpdateNode) -> None:
    """bitcoind may take a minute to say its height: nothing can be taken back meanwhile."""
    install(node, "--no-reboot")
    cli = node.tools / "node-cli"
    slow = f": >{node.path}/begun; while [ ! -e {node.path}/go ]; do sleep 0.1; done\n"
    program(cli, slow + cli.read_text())
    with begun(node, command=("node-update", "reboot")) as first:
        assert "is under way; nothing was changed" in node.run("node-update", "cancel", status=1)
        (node.path / "go").touch()
        said = first.communicate(timeout=60)[0]
    assert node.restarted(said).version == "2.0.0"


def test_reboot_during_a_trial(node: UpdateNode) -> None:
    """It would note the version before as what is tried, and this one's failure would be lost."""
    on_trial(node)
    noted = node.read("var/lib/cairn/update/trial")
    assert "is on trial; wait" in node.run("node-update", "reboot", status=1)
    assert node.read("var/lib/cairn/update/trial") == noted


def test_rollback_in_a_shutdown(node: UpdateNode) -> None:
    """Its note would say that what is being tried is not."""
    on_trial(node)
    node.trial()
    said = node.run("node-update", "rollback")
    noted = node.read("var/lib/cairn/update/trial")
    node.write("state", "stopping\n")
    again = node.run("node-update", "rollback", "--no-reboot", status=1)
    assert "being shut down; nothing was changed" in again
    assert node.read("var/lib/cairn/update/trial") == noted
    node.write("state", "running\n")
    assert node.restarted(said).version == "1.0.0"


def test_nothing_to_reboot_into(node: UpdateNode) -> None:
    """Nor to roll back to; also on a new card, which is no trial."""
    assert "nothing is installed" in node.run("node-update", "reboot", status=1)
    assert "no version to go back to" in node.run("node-update", "rollback", status=1)
    node.never_good()
    assert "nothing is installed" in node.run("node-update", "reboot", status=1)


def test_no_rollback_to_what_was_never_tried(node: UpdateNode) -> None:
    """A version that waits for its restart is newer, and not one to go back to."""
    install(node, "--no-reboot")
    assert "no version to go back to" in node.run("node-update", "rollback", status=1)


def test_no_rollback_while_an_update_is_written(pi: UpdateNode) -> None:
    """It would restart in the middle, or arm what is about to be written over."""
    on_trial(pi)
    pi.trial()
    bundle = pi.bundle("3.0.0")
    (bundle / "slow").touch()
    with begun(pi, pi.file(bundle)) as first:
        for command in ("rollback", "reboot", "cancel"):
            said = pi.run("node-update", command, status=1)
            assert "another update, a rollback or its restart is under way" in said
        (pi.path / "go").touch()
        said = first.communicate(timeout=60)[0]
    assert pi.restarted(said).version == "3.0.0"


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ([], 2, "usage"),
        (["installs", "x"], 2, "usage"),
        (["install"], 2, "which file"),
        (["install", "--downgrde", "x"], 2, "unknown option"),
        (["install", "a", "b"], 2, "not two"),
        (["install", "/nowhere/cairn.raucb"], 1, "there is no file"),
        (["install", "/etc"], 1, "there is no file"),
        (["install", "ftp://example.org/c.raucb"], 1, "no address that can be used"),
        (["install", "file:///etc/passwd"], 1, "no address that can be used"),
        (["check", "/nowhere/cairn.raucb"], 1, "there is no file"),
        (["check", "/etc"], 1, "there is no file"),
        (["check", "ftp://example.org/c.raucb"], 1, "no address that can be used"),
        (["status", "x"], 2, "usage"),
        (["rollback", "2.0.0"], 2, "unknown option"),
        (["reboot", "now"], 2, "usage"),
        (["cancel", "2.0.0"], 2, "usage"),
        (["cancel"], 1, "no other version"),
        (["check", "a", "b"], 2, "usage"),
    ],
)
def test_mistyped(pi: UpdateNode, words: list[str], status: int, sentence: str) -> None:
    """Said, and nothing is begun."""
    assert sentence in pi.run("node-update", *words, status=status)
    assert not (pi.path / "var/lib/cairn/update").exists()
    assert pi.cut().version == "1.0.0"


def refused(node: UpdateNode, words: str, *options: str, **release: str) -> None:
    """A bundle that is refused before anything is written, with these words on the screen."""
    before = node.read("dev/root.b")
    version = release.pop("version", "2.0.0")
    file = node.file(node.bundle(version, "bundle", **release))
    said = install(node, *options, file, status=1)
    assert words in said
    assert words in node.screen()
    assert "Nothing has changed" in node.screen()
    assert node.read("dev/root.b") == before
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    assert node.slots("get-primary") == "a"


def test_versions(pi: UpdateNode) -> None:
    """Older and same ones, only on request."""
    refused(pi, "is older than 1.0.0", version="0.9.9")
    refused(pi, "is older than 1.0.0", version="1.0.0-rc1")
    refused(pi, "is older than 1.0.0", "--again", version="0.9.9")
    refused(pi, "runs already", version="1.0.0")
    refused(pi, "runs already", "--downgrade", version="1.0")
    for option, version in (("--downgrade", "0.9.9"), ("--again", "1.0.0")):
        install(pi, option, "--no-reboot", pi.file(pi.bundle(version)))
        assert f"waiting     {version}" in pi.run("node-update", "status")


def test_versions_that_cannot_be_compared(pi: UpdateNode) -> None:
    """An older one is not let in because of that."""
    program(pi.tools / "awk", 'case "$*" in *rank*) exit 1 ;; esac\nexec /usr/bin/awk "$@"')
    refused(pi, "cannot be told whether version 0.9.9 is newer", version="0.9.9")


def test_data_formats(pi: UpdateNode) -> None:
    """What cannot read the data is refused always, what closes the way back without the word."""
    pi.write("usr/share/cairn/data-format", "data-format=3\ndata-reads=2\n")
    refused(pi, "cannot read the data", data_format="2", data_reads="2")
    refused(pi, "cannot read the data", "--downgrade", version="0.5", data_format="2")
    refused(pi, "cannot read the data", "--new-format", data_format="9", data_reads="4")
    refused(pi, "no way back", data_format="4", data_reads="3")
    install(pi, "--new-format", "--no-reboot", pi.file(pi.bundle("2.0.0", "b", data_format="4")))


@pytest.mark.parametrize(
    "release",
    [
        {"board": ""},
        {"data_format": ""},
        {"data_reads": ""},
        {"data_format": "1x"},
        {"data_format": "01"},
        {"data_format": "99999"},
        {"data_reads": "2"},
        {"data_format": "-1"},
        {"version": "2.0.0$(reboot)"},
        {"version": "2 0"},
        {"version": "v" * 65},
        {"version": ""},
    ],
)
def test_strange_declarations(pi: UpdateNode, release: dict[str, str]) -> None:
    """A bundle that does not say clearly what it is."""
    refused(pi, "does not say which version", **release)


def test_wrong_signature_or_board(pi: UpdateNode) -> None:
    """RAUC takes neither."""
    bundle = pi.bundle("2.0.0")
    (bundle / "signed").unlink()
    assert "not signed for this node" in install(pi, pi.file(bundle), status=1)
    for content in ("", "cairn-x86_64\n", "cairn-rpi5x\n"):
        bundle = pi.bundle("2.0.0")
        (bundle / "signed").write_text(content)
        assert "for another board (Compatible mismatch" in install(pi, pi.file(bundle), status=1)
        assert pi.slots("get-primary") == "a"
    # It is asked before RAUC compares the boards.
    refused(pi, "is for another board", version="0.1", board="x86_64")


def test_ends_in_the_middle(node: UpdateNode) -> None:
    """Slot b is torn then, and nothing names it; the next one is installed as usual."""
    bundle = node.bundle("2.0.0")
    (bundle / "short").touch()
    assert "could not be read to its end" in install(node, node.file(bundle), status=1)
    assert node.cut().version == "1.0.0"
    on_trial(node)


def test_what_is_left_of_a_broken_download(pi: UpdateNode) -> None:
    """The version to go back to is overwritten first, and its end is said."""
    on_trial(pi)
    pi.trial()
    pi.cut()
    bundle = pi.bundle("3.0.0")
    # refused before anything is written: it is kept
    (bundle / "signed").unlink()
    assert "Nothing has changed" in install(pi, pi.file(bundle), status=1)
    bundle = pi.bundle("3.0.0", root_size=str(2048 * 512 + 1))
    said = " ".join(install(pi, pi.file(bundle), status=1).split())
    assert "needs 1 MiB, and this disk has 1 MiB for it" in said
    assert pi.slots("get-state", "a") == "good"
    bundle = pi.bundle("3.0.0")
    (bundle / "short").touch()
    said = " ".join(install(pi, pi.file(bundle), status=1).split())
    assert "version 1.0.0, which was kept to go back to, is gone." in said
    assert pi.cut().version == "2.0.0"


def free_of(node: UpdateNode, free: int) -> None:
    """The boot partition has ``free`` KiB left beside the files that it has now."""
    used = f"$(du -sk {node.boot_folder} | cut -f1)"
    now = subprocess.check_output(["du", "-sk", node.boot_folder], text=True).split()[0]
    program(node.tools / "df", f"echo head; echo x 0 0 $(({now} + {free} - {used}))")


def test_full_boot_partition(node: UpdateNode) -> None:
    """Refused before anything is written over; the room of the files that go counts."""
    on_trial(node)
    node.trial()
    kept = node.read("dev/root.a")
    free_of(node, 100)
    file = node.file(node.bundle("3.0.0"))
    said = " ".join(install(node, file, status=1).split())
    assert "KiB are needed; remove files of your own from it. Nothing has changed." in said
    assert node.slots("get-state", "a") == "good"
    assert node.read("dev/root.a") == kept
    (node.boot_folder / "slot-a/extra").write_bytes(bytes(2 << 20))
    free_of(node, 100)
    assert node.restarted(install(node, file)).version == "3.0.0"


def test_rauc_is_killed(pi: UpdateNode) -> None:
    """It says no more then, and that is no wrong signature."""
    file = pi.file(pi.bundle("2.0.0"))
    for words, said in (("", "it ended without a reason"), ("Failed to x", "Failed to x")):
        program(pi.tools / "rauc", f"echo '{words}'\nexit 1")
        assert f"RAUC says: {said}." in " ".join(install(pi, file, status=1).split())


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("proc/uptime", "599.9 1\n", "less than 10 minutes ago"),
        ("at-work", "node-convert@lmdb.service loaded activating start x\n", "being converted"),
        ("state", "stopping\n", "being shut down"),
        ("bitcoind-state", "deactivating\n", "are being written"),
    ],
)
def test_not_now(pi: UpdateNode, name: str, text: str, words: str) -> None:
    """In the first ten minutes, at a shutdown, and while bitcoind writes its cache."""
    pi.write(name, text)
    refused(pi, words)


def test_not_during_a_trial(node: UpdateNode) -> None:
    """The old slot is what a trial falls back to."""
    on_trial(node)
    said = install(node, node.file(node.bundle("3.0.0")), status=1)
    assert "not known to be good yet" in said
    assert node.cut().version == "1.0.0"


def test_two_at_once(pi: UpdateNode) -> None:
    """The second one is refused, and takes nothing from the first."""
    bundle = pi.bundle("2.0.0")
    (bundle / "slow").touch()
    with begun(pi, pi.file(bundle)) as first:
        assert "another update" in install(pi, pi.file(pi.bundle("3.0.0", "third")), status=1)
        pi.file(pi.bundle("3.0.0", "third"), "served")
        records(pi, "auto")
        pi.run("cairn-update", "--window")
        assert pi.screen().startswith("An update is being written."), "the first one has the screen"
        (pi.path / "go").touch()
        said = first.communicate(timeout=60)[0]
    assert pi.restarted(said).version == "2.0.0"


@pytest.mark.parametrize("how", ["Ctrl-C", "connection"])
def test_what_does_not_stop_an_installation(node: UpdateNode, how: str) -> None:
    """The keys and the end of the SSH session: it goes on, and restarts."""
    bundle = node.bundle("2.0.0")
    (bundle / "slow").touch()
    with begun(node, node.file(bundle)) as process:
        if how == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        else:
            os.killpg(process.pid, signal.SIGHUP)
            assert process.stdout
            process.stdout.close()
        (node.path / "go").touch()
        process.wait(timeout=60)
    assert "phase=going\n" in node.read("var/lib/cairn/update/trial")
    assert node.screen().startswith("Version 2.0.0 is installed")


def test_installation_that_is_stopped(node: UpdateNode) -> None:
    """As by systemd, when a unit's time is up: said, taken back, and it keeps no other one out."""
    bundle = node.bundle("2.0.0")
    (bundle / "slow").touch()
    with begun(node, node.file(bundle)) as process:
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(timeout=60) == 1
    assert node.screen().startswith("The update was not installed:")
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    assert node.slots("get-primary") == "a"
    on_trial(node)


def test_killed_installation_leaves_no_lock(pi: UpdateNode) -> None:
    """Nor does one that is killed, once all of it is gone."""
    bundle = pi.bundle("2.0.0")
    (bundle / "slow").touch()
    with begun(pi, pi.file(bundle)) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
    on_trial(pi)


def test_failure_after_arming(node: UpdateNode) -> None:
    """RAUC says that it has failed, so the next restart tries nothing."""
    bundle = node.bundle("2.0.0")
    (bundle / "late").touch()
    said = install(node, node.file(bundle), status=1)
    assert "RAUC says: Error while writing status file. Nothing has changed." in said
    assert node.slots("get-primary") == "a"
    assert node.cut().version == "1.0.0"


def test_reason_of_a_hook(node: UpdateNode) -> None:
    """The screen says what cairn-boot-files has found, not that a hook has failed."""
    bundle = node.bundle("2.0.0")
    release = (bundle / "release").read_text()
    (bundle / "root.img").write_text("what the disk gives back is something else\n" * 50)
    assert "root-sha256" in release
    assert "the disk may fail" in install(node, node.file(bundle), status=1)
    assert "the disk may fail" in node.screen()


#: RAUC's words with those of OpenSSL 3.6
NOT_YET = (
    "signature verification failed: Verify error: certificate is not yet valid or the system clock"
    " is incorrect"
)


def words_of(pi: UpdateNode, words: str) -> str:
    """A bundle of which RAUC says this; its file."""
    bundle = pi.bundle("2.0.0")
    (bundle / "words").write_text(f"{words}\n")
    return pi.file(bundle)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "signature verification failed: Verify error: certificate is not yet valid",
            "before the first day",
        ),
        (
            "signature verification failed: Verify error: certificate has expired",
            "has ended; take a bundle that was signed later",
        ),
        (
            "signature verification failed: Verify error: self-signed certificate",
            "not signed for this node (signature verification failed",
        ),
        (
            "Invalid bundle format: Failed to read signature: failed to read from remote server",
            "the server did not send the whole bundle (Invalid",
        ),
        (
            "Invalid bundle format: Signature size (1091) exceeds bundle size",
            "it is damaged or not whole (Invalid",
        ),
        (
            "Compatible mismatch: Expected cairn-rpi5 but bundle manifest has cairn-x86_64",
            "it is for another board (Compatible mismatch",
        ),
        ("Failed to check dm-verity: no nbd", "RAUC says: Failed to check dm-verity: no nbd."),
    ],
)
def test_words_of_rauc(pi: UpdateNode, words: str, sentence: str) -> None:
    """Which are about the clock, about the signature, or about something else."""
    file = words_of(pi, words)
    program(pi.tools / "rauc", f"echo '  0% started'\necho '{words}'\necho finished\nexit 1")
    assert sentence in install(pi, file, status=1)
    program(pi.tools / "rauc", f"echo 'LastError: {words}'\necho 'Installing x failed'\nexit 1")
    assert sentence in install(pi, file, status=1)


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        ("network on", "connect the node to a network whose time servers set the clock"),
        ("network on\nlock 1", "with tor=only: write tor=1 in its place for one start"),
        ("network off\nlock 1", "while the network is off: correct node.conf and restart"),
    ],
)
def test_clock_without_time_servers(pi: UpdateNode, lines: str, advice: str) -> None:
    """What to do about it never makes the node connect without Tor."""
    file = words_of(pi, f"{NOT_YET}\nfinished")
    pi.write("run/cairn/node-conf.records", f"chain main\n{lines}\n")
    assert advice in install(pi, file, status=1)


def test_clock_before_the_certificate(pi: UpdateNode) -> None:
    """Neither a stick nor an address is passed over in silence, and the offer is not forgotten."""
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    offer = pi.read("var/lib/cairn/update/stick")
    (pi.path / "bundles/stick-2.0.0/words").write_text(f"{NOT_YET}\n")
    pi.cut()
    assert "cannot be used now: the node's clock says 2" in pi.run("cairn-update", "--stick")
    assert pi.read("var/lib/cairn/update/stick") == offer
    assert "on the USB stick: the node's clock says" in pi.run("node-update", "check")
    pi.file(pi.path / "bundles/stick-2.0.0", "served")
    records(pi, "auto")
    pi.run("cairn-update", "--window")
    assert "No update was looked for: the node's clock says" in pi.screen()
    # a time server has answered
    (pi.path / "bundles/stick-2.0.0/words").unlink()
    assert pi.restarted(pi.run("cairn-update", "--stick")).version == "2.0.0"


#: What a log of RAUC's may have above its last line
LOG = """rauc-Message: 22:18:21.246: Reading bundle: /run/cairn/stick/cairn-not yet valid.raucb
rauc-Message: 22:18:21.246: Reading bundle: /run/cairn/stick/cairn-
signature verification failed: Verify error: certificate is not yet valid
.raucb
rauc-nbd-Message: 22:18:21.246: redirected from http://x.onion/a to http://x.onion/has expired
rauc-nbd-Message: 22:18:21.246: nbd server received HTTP ETag: "\\"certificate is not yet valid\\""
"""


@pytest.mark.parametrize(
    "last",
    [
        "Invalid bundle format: Signature size (12568922651469867084) exceeds bundle size",
        "Failed to stream bundle http://x.onion/not yet valid: certificate has expired",
        "signature verification failed: Verify error: self-signed certificate",
    ],
)
def test_clock_by_words_of_others(pi: UpdateNode, last: str) -> None:
    """A file's name and a server's answer do not make the node tell its owner to do without Tor."""
    plug(pi, "2.0.0")
    (pi.path / "bundles/stick-2.0.0/words").write_text(f"{LOG}{last}\n")
    pi.file(pi.path / "bundles/stick-2.0.0", "served")
    network = "network on\nlock 1\ntor only\nprivate tor\n"
    pi.write("run/cairn/node-conf.records", f"{network}update notify\nupdateurl http://x.onion/a\n")
    said = pi.run("cairn-update", "--stick")
    assert "none that is whole and signed for this node" in " ".join(said.split())
    said += pi.run("cairn-update", "--window")
    assert "cannot be read, or is not signed for this node" in " ".join(said.split())
    said += pi.run("node-update", "check", status=1)
    (pi.path / "bundles/stick-2.0.0/words").write_text(f"{LOG}{last}\nfinished\n")
    said += install(pi, "http://x.onion/not yet valid", status=1)
    for words in ("clock", "tor=1", "has ended"):
        assert words not in said


def test_partitions_of_another_disk(pi: UpdateNode) -> None:
    """Links are made to the disk that the system runs from; without its slots nothing is done."""
    install(pi, "--no-reboot")
    assert (pi.path / "dev/cairn/root-b").readlink() == Path("../mmcblk0p3")
    pi.write("sys/devices/mmcblk0/mmcblk0p3/uevent", "PARTNAME=other\n")
    assert "were not found on the system's disk" in install(pi, status=1)


def test_boot_partition_of_another_disk(node: UpdateNode) -> None:
    """Another node's card in a reader: its slots are not written over, nor given up."""
    on_trial(node)
    node.trial()
    files = {path: path.stat().st_mtime_ns for path in node.boot_folder.rglob("*")}
    (node.path / "sys/devices/sdz/sdz1").mkdir(parents=True)
    (node.path / "sys/dev/block/8:1").symlink_to(node.path / "sys/devices/sdz/sdz1")
    text = node.read("proc/self/mountinfo")
    node.write("proc/self/mountinfo", text.replace("179:1 / /boot", "8:1 / /boot"))
    said = install(node, node.file(node.bundle("3.0.0")), status=1)
    assert "unplug a disk that was another node's" in said
    assert "unplug a disk" in node.run("node-update", "rollback", status=1)
    assert files == {path: path.stat().st_mtime_ns for path in node.boot_folder.rglob("*")}

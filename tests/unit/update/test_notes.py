"""The notes of a trial that are missing, old or damaged: what cairn-trial makes of them.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.shared.commands import program
from tests.shared.update_node import UpdateNode
from tests.unit.update.steps import fails, install, on_trial


@contextmanager
def read_only_data(node: UpdateNode) -> Iterator[None]:
    """What is on the data partition can be read and not changed meanwhile."""
    for name in ("mv", "rm", "mkdir", "touch", "sync"):
        fails(node, name, f"*{node.path}/var/lib/cairn/*")
    yield
    for name in ("mv", "rm", "mkdir", "touch", "sync"):
        (node.tools / name).unlink()


def test_change_of_mind_that_cannot_be_noted(node: UpdateNode) -> None:
    """What was never tried has not failed, also if its note is still there."""
    install(node, "--no-reboot")
    with read_only_data(node):
        node.run("node-update", "cancel")
    assert "phase=installed" in node.read("var/lib/cairn/update/trial")
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.screen().startswith("Version 2.0.0 is not tried at the next restart any more.")
    assert not node.read("var/lib/cairn/update/failed")
    assert not node.read("var/lib/cairn/update/trial")


def test_failure_beside_the_note_of_another_version(node: UpdateNode) -> None:
    """The note could not be written any more: the version that was tried counts."""
    install(node, "--no-reboot")
    noted = node.read("var/lib/cairn/update/trial")
    with read_only_data(node):
        said = install(node, node.file(node.bundle("2.1.0", "other")))
    assert node.read("var/lib/cairn/update/trial") == noted
    assert node.restarted(said).version == "2.1.0"
    assert node.cut().version == "1.0.0"
    node.trial()
    if node.board == "rpi5":
        # Its loader does not say whether it has had its try.
        assert node.screen().startswith("Version 2.1.0 is installed and is tried at the next")
        assert node.restarted(node.run("node-update", "reboot")).version == "2.1.0"
        assert node.cut().version == "1.0.0"
        node.trial()
    assert node.screen().startswith("Version 2.1.0 did not stay")
    assert node.read("var/lib/cairn/update/failed") == "2.1.0 1\n"


def test_failure_without_a_version_in_its_note(node: UpdateNode) -> None:
    """It is that of the slot."""
    on_trial(node)
    node.write("var/lib/cairn/update/trial", "slot=b\nphase=going\n")
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.screen().startswith("Version 2.0.0 did not stay")
    assert node.read("var/lib/cairn/update/failed") == "2.0.0 1\n"


@pytest.mark.parametrize("version", ["2.0.0", "0.9"])
def test_cuts_behind_the_arming_and_behind_the_trial(tmp_path: Path, version: str) -> None:
    """A PC tries it, and it stays, though neither was noted; the way back is not forgotten."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    node.write("var/lib/cairn/node.conf", "mdns=0\n")
    node.write("var/lib/cairn/update/node.conf", "older=1\n")
    cli = node.tools / "node-cli"
    before = cli.read_text()
    program(cli, "kill -9 0")
    words = ("--downgrade", node.file(node.bundle(version)))
    node.run("node-update", "install", *words, status=None)
    cli.write_text(before)
    assert "phase=writing" in node.read("var/lib/cairn/update/trial")
    assert node.cut().version == version
    fails(node, "mkdir", "*lib/cairn/update*", how="kill -9 0")
    node.run("cairn-trial", "--pause", "0", status=None)
    (node.tools / "mkdir").unlink()
    assert node.cut().version == version
    node.trial()
    assert node.screen().startswith(f"Version {version} is in use now.")
    assert node.read("var/lib/cairn/update/node.conf") == "mdns=0\n"
    left = "version=1.0.0\n" if version == "0.9" else ""
    assert node.read("var/lib/cairn/update/gone-back") == left
    assert not node.read("var/lib/cairn/update/trial")


def test_used_entry_that_could_not_be_removed(tmp_path: Path) -> None:
    """It is of a trial that was good: a rollback later, it says nothing of a failure."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    on_trial(node)
    fails(node, "rm", "*b+0-1.conf*")
    node.trial()
    assert node.cut().version == "2.0.0"
    node.trial()
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    node.trial()
    assert (node.boot_folder / "loader/entries/cairn-b+0-1.conf").exists()
    (node.tools / "rm").unlink()
    assert node.cut().version == "1.0.0"
    node.trial()
    assert not node.screen()
    # The next one of that slot is told from it.
    assert node.restarted(node.run("node-update", "rollback")).version == "2.0.0"
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.screen().startswith("Version 2.0.0 did not stay")


def test_reason_of_a_trial_that_was_never_told(pi: UpdateNode) -> None:
    """It is not that of the next one."""
    on_trial(pi)
    pi.trial()
    with read_only_data(pi):
        said = pi.run("node-update", "rollback")
    assert pi.restarted(said).version == "1.0.0"
    pi.write("failed-units", "x.service loaded failed failed x\n")
    assert pi.restarted(pi.trial()).version == "2.0.0"
    pi.write("failed-units", "")
    pi.trial()
    assert "x.service" in pi.read("var/lib/cairn/update/reason")
    assert pi.restarted(pi.run("node-update", "rollback")).version == "1.0.0"
    assert pi.cut().version == "2.0.0"
    pi.trial()
    assert pi.screen().startswith("Version 1.0.0 did not stay: it did not come up, or was switched")


@pytest.mark.parametrize("height", ["abc", "-1", "99999999999999999999", "", "1000000000"])
@pytest.mark.parametrize("name", ["tip", "trial"])
def test_height_that_is_none(node: UpdateNode, name: str, height: str) -> None:
    """Damaged: nothing has to be reached, instead of what no node ever reaches."""
    if name == "tip":
        node.write("var/lib/cairn/update/tip", f"height={height}\nchain=main\n")
        node.write("rpc", "28 0 Loading\n")
    on_trial(node)
    node.write("rpc", "0 7\n")
    if name == "trial":
        noted = node.read("var/lib/cairn/update/trial")
        node.write(
            "var/lib/cairn/update/trial", noted.replace("height=1000\n", f"height={height}\n")
        )
    node.trial()
    assert node.screen().startswith("Version 2.0.0 is in use now.")


def answers(node: UpdateNode, chain: str, height: int) -> None:
    """What bitcoind says from now on."""
    program(
        node.tools / "node-cli",
        f"""printf '{{\\n  "chain": "{chain}",\\n  "blocks": {height},\\n}}\\n'""",
    )


@pytest.mark.parametrize("name", ["trial", "tip"])
def test_height_of_another_chain(node: UpdateNode, name: str) -> None:
    """The owner has changed chain= and updates in the same restart."""
    if name == "tip":
        node.write("var/lib/cairn/update/tip", "height=1000\nchain=main\n")
        node.write("rpc", "28 0 Loading\n")
    on_trial(node)
    assert "\nheight=1000\nchain=main\n" in node.read("var/lib/cairn/update/trial")
    answers(node, "regtest", 5)
    node.trial()
    assert node.screen().startswith("Version 2.0.0 is in use now.")
    assert node.read("var/lib/cairn/update/tip") == "height=5\nchain=regtest\n"


@pytest.mark.parametrize("noted", ["chain=main\n", "chain=\n", ""])
def test_height_that_is_not_reached(node: UpdateNode, noted: str) -> None:
    """Of the same chain, or of one that an older version has not noted."""
    on_trial(node)
    trial = node.read("var/lib/cairn/update/trial")
    node.write("var/lib/cairn/update/trial", trial.replace("chain=main\n", noted))
    node.write("run/cairn/node-conf.records", "")
    answers(node, "main", 0)
    assert node.restarted(node.trial()).version == "1.0.0"


@pytest.fixture
def chosen(tmp_path: Path) -> UpdateNode:
    """A PC on which 2.0.0 has proved itself; ``in_the_menu`` starts the other one."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    on_trial(node)
    node.trial()
    return node


@contextmanager
def taken_away(file: Path) -> Iterator[None]:
    """The loader does not find this file."""
    away = file.rename(file.parent / "away")
    yield
    away.rename(file)


def in_the_menu(node: UpdateNode, slot: str) -> str:
    """The owner chooses this slot on the loader's screen; the version that runs then."""
    with taken_away(node.boot_folder / f"slot-{'a' if slot == 'b' else 'b'}/linux"):
        return node.cut().version


def test_version_that_the_owner_has_chosen_in_the_menu(chosen: UpdateNode) -> None:
    """Nothing waits for a trial then, and the next restart starts the other one: it is said."""
    assert in_the_menu(chosen, "a") == "1.0.0"
    chosen.trial()
    said = chosen.run("node-update", "cancel", status=1)
    assert "Version 2.0.0 has proved itself, and it is what the next restart starts" in said
    assert "not tried" not in said
    assert chosen.cut().version == "2.0.0"


def test_entry_beside_that_of_the_trial(chosen: UpdateNode) -> None:
    """A version that one goes back to has two in the menu, and only one of them is the trial."""
    chosen.run("node-update", "rollback", "--no-reboot")
    (trial,) = (chosen.boot_folder / "loader/entries").glob("cairn-a+1*.conf")
    with taken_away(trial):
        in_the_menu(chosen, "a")
    said = chosen.trial()
    assert (
        "Version 1.0.0 is not being tried: another entry of the loader's menu has started" in said
    )
    assert "reboot" not in said.splitlines()
    assert chosen.cut().version == "1.0.0"
    assert "Version 1.0.0 is in use now" in chosen.trial()


def test_installation_that_fails_after_a_choice_in_the_menu(chosen: UpdateNode) -> None:
    """The other version comes in any case, so nothing is said of it."""
    assert in_the_menu(chosen, "a") == "1.0.0"
    bundle = chosen.bundle("3.0.0")
    (bundle / "signed").unlink()
    said = install(chosen, chosen.file(bundle), status=1)
    assert said.rstrip().endswith("Nothing has changed.")


def test_version_that_the_owner_has_chosen_before_the_other_one_was_noted(
    chosen: UpdateNode,
) -> None:
    """It did stay, and node.conf stays the one that it needs."""
    chosen.write("boot/node.conf", "filters=1\n")
    assert chosen.restarted(chosen.run("node-update", "rollback", "--node-conf")).version == "1.0.0"
    put_back = chosen.read("boot/node.conf")
    fails(chosen, "mkdir", "*lib/cairn/update*", how="kill -9 0")
    chosen.run("cairn-trial", "--pause", "0", status=None)
    (chosen.tools / "mkdir").unlink()
    chosen.slots("committed")
    assert in_the_menu(chosen, "b") == "2.0.0"
    chosen.trial()
    said = "Version 1.0.0 has proved itself, and it is what the next restart starts"
    assert chosen.screen().startswith(said)
    assert said in chosen.run("node-update", "cancel", status=1)
    assert chosen.read("boot/node.conf") == put_back
    assert chosen.cut().version == "1.0.0"
    chosen.trial()
    assert chosen.screen().startswith("Version 1.0.0 is in use now.")
    assert chosen.read("boot/node.conf") == put_back
    assert not chosen.read("var/lib/cairn/update/trial")


def test_cut_while_a_version_is_given_up_that_was_noted_as_installed(tmp_path: Path) -> None:
    """A PC's owner has pulled the plug instead of node-update reboot: it has been tried."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    install(node, "--no-reboot")
    assert node.cut().version == "2.0.0"
    assert node.cut().version == "1.0.0"
    fails(node, "mv", "*/update/failed.new*", how="kill -9 0")
    node.run("cairn-trial", "--pause", "0", status=None)
    (node.tools / "mv").unlink()
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.screen().startswith("Version 2.0.0 did not stay")
    assert node.read("var/lib/cairn/update/failed") == "2.0.0 1\n"


@pytest.mark.parametrize("behind", ["failed", "last"])
def test_cut_while_a_failure_is_counted(node: UpdateNode, behind: str) -> None:
    """It is counted, and what has become of it is said; nothing is armed any more."""
    on_trial(node)
    assert node.cut().version == "1.0.0"
    fails(node, "mv", f"*/update/{behind}.new*", how="kill -9 0")
    node.run("cairn-trial", "--pause", "0", status=None)
    (node.tools / "mv").unlink()
    assert node.slots("get-primary") == "a"
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.screen().startswith("Version 2.0.0 did not stay")
    # Between the count and the end of the note it counts twice.
    count = "1" if behind == "failed" else "2"
    assert node.read("var/lib/cairn/update/failed") == f"2.0.0 {count}\n"
    assert not node.read("var/lib/cairn/update/trial")


def test_version_that_is_tried_although_that_cannot_be_noted(node: UpdateNode) -> None:
    """The sentence names the one in the slot, not that of the note."""
    on_trial(node)
    node.trial()
    node.run("node-update", "rollback", "--no-reboot")
    with read_only_data(node):
        install(node, "--no-reboot", node.file(node.bundle("3.0.0")))
        said = node.run("node-update", "reboot")
    assert "so a failure of version 3.0.0 would not be remembered" in said


def test_rollback_that_stays_prepared(node: UpdateNode) -> None:
    """An installation over it could not take it back: the next start does not, either."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "filters=1\n")
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    noted = node.read("var/lib/cairn/update/trial")
    fails(node, "rm", "*/boot/*")
    said = install(node, node.file(node.bundle("3.0.0")), status=1)
    assert "so the rollback that was prepared stays as it is" in said
    assert node.read("var/lib/cairn/update/trial") == noted


def test_cancel_that_a_start_has_to_go_on_with(node: UpdateNode) -> None:
    """An installation that cannot take the rollback back does not undo the cancel."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "filters=1\n")
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    fails(node, "rm", "*/boot/*")
    node.run("node-update", "cancel", status=1)
    install(node, node.file(node.bundle("3.0.0")), status=1)
    assert "\nphase=cancelled\n" in node.read("var/lib/cairn/update/trial")


def test_restart_that_is_refused(node: UpdateNode) -> None:
    """systemd is busy with another one: what was not tried has not failed."""
    install(node, "--no-reboot")
    node.write("state", "stopping\n")
    assert "being shut down" in node.run("node-update", "reboot", status=1)
    node.write("state", "running\n")
    # As systemctl fails then: cairn-boot-slot ends in an error.
    backend = node.path / "usr/share/cairn/boot-backend"
    cli = node.tools / "node-cli"
    before = cli.read_text()
    program(cli, f"mv {backend} {backend}.away\n{before}")
    said = node.run("node-update", "reboot", status=1)
    backend.with_name("boot-backend.away").rename(backend)
    assert "The node could not be restarted, so version 2.0.0 is not tried yet" in said
    assert "\nphase=installed\n" in node.read("var/lib/cairn/update/trial")
    cli.write_text(before)
    assert node.restarted(node.run("node-update", "reboot")).version == "2.0.0"


def test_sentence_of_before_is_gone_after_a_rollback(node: UpdateNode) -> None:
    """One that was accepted is something else that happened."""
    on_trial(node)
    node.trial()
    node.write("var/lib/cairn/update/last", "Version 1.0.0 did not stay: x.\n")
    node.run("node-update", "rollback", "--no-reboot")
    assert not node.read("var/lib/cairn/update/last")

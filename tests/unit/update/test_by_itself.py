"""What update=auto and a stick do not install, and what is known of an update afterwards."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from lab.paths import ROOT
from tests.shared.commands import program
from tests.shared.update_node import UpdateNode
from tests.unit.update.steps import SHELLS, begun, install, on_trial, plug, records

WORDS = ROOT / "overlay/usr/lib/cairn/update-words.sh"


def window(node: UpdateNode, version: str, status: int | None = 0) -> str:
    """The nightly look, with update=auto and that version at the address."""
    node.write("served", f"{node.bundle(version, f'served-{version}')}\n")
    records(node, "auto")
    return node.run("cairn-update", "--window", status=status)


def gone_back(node: UpdateNode) -> None:
    """Version 2.0.0 was in use, and the owner has gone back to 1.0.0, which stays."""
    on_trial(node)
    node.trial()
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    node.trial()
    assert "Version 1.0.0 is in use now" in node.screen()


def test_what_was_gone_back_from_stays_away(node: UpdateNode) -> None:
    """Neither the night nor a stick brings it again; a newer one comes, and it is kept in mind."""
    gone_back(node)
    assert window(node, "2.0.0") == ""
    plug(node, "2.0.0")
    for _ in range(2):
        node.boot()
        node.run("cairn-trial", "--pause", "0")
        node.run("cairn-update", "--stick")
        assert "it is not installed by itself" in node.screen()
    plug(node)
    assert "gone back   from 2.0.0, which is not" in node.run("node-update", "status")
    assert node.restarted(window(node, "2.1.0", status=None)).version == "2.1.0"
    node.trial()
    assert "gone back" not in node.run("node-update", "status")


def test_gone_back_from_before_it_was_noted(node: UpdateNode) -> None:
    """The power failed when the version before was armed, and nothing was noted of its trial."""
    on_trial(node)
    node.trial()
    node.run("node-update", "rollback", "--no-reboot")
    (node.path / "var/lib/cairn/update/trial").unlink()
    started = node.restarted(node.run("node-update", "reboot"))
    (node.path / "var/lib/cairn/update/trial").unlink()
    assert started.version == "1.0.0"
    node.trial()
    assert node.read("var/lib/cairn/update/gone-back") == "version=2.0.0\n"
    assert window(node, "2.0.0") == ""


def test_what_was_gone_back_from_by_hand(node: UpdateNode) -> None:
    """The owner may install it again, and when it stays, all is as before."""
    gone_back(node)
    assert node.restarted(install(node)).version == "2.0.0"
    # Still on trial: it is not known whether it stays.
    assert node.read("var/lib/cairn/update/gone-back") == "version=2.0.0\n"
    node.trial()
    assert node.read("var/lib/cairn/update/gone-back") == ""


def test_between_the_two(node: UpdateNode) -> None:
    """A version in between may come by itself; the one gone back from does not then, either."""
    gone_back(node)
    assert node.restarted(window(node, "1.5.0", status=None)).version == "1.5.0"
    node.trial()
    assert window(node, "2.0.0") == ""


def test_a_downgrade_is_one_too(node: UpdateNode) -> None:
    """The older version is what the owner has asked for."""
    bundle = node.file(node.bundle("0.9.0"))
    assert node.restarted(install(node, "--downgrade", bundle)).version == "0.9.0"
    node.trial()
    assert window(node, "1.0.0") == ""


def test_back_and_back_again(node: UpdateNode) -> None:
    """None of those that the owner has left comes again."""
    gone_back(node)
    bundle = node.file(node.bundle("0.9.0"))
    assert node.restarted(install(node, "--downgrade", bundle)).version == "0.9.0"
    node.trial()
    assert window(node, "2.0.0") == ""
    assert window(node, "1.0.0") == ""
    assert "gone back   from 1.0.0, which" in node.run("node-update", "status")
    assert node.restarted(window(node, "1.5.0", status=None)).version == "1.5.0"
    node.trial()
    assert node.read("var/lib/cairn/update/gone-back") == "version=2.0.0\n"


def test_a_rollback_that_does_not_stay(node: UpdateNode) -> None:
    """The node runs what it ran, which nobody has gone back from."""
    on_trial(node)
    node.trial()
    started = node.restarted(node.run("node-update", "rollback"))
    assert started.version == "1.0.0"
    node.write("failed-units", "x.service loaded failed failed x\n")
    assert node.restarted(node.trial()).version == "2.0.0"
    node.write("failed-units", "")
    node.trial()
    assert node.read("var/lib/cairn/update/gone-back") == ""


def test_the_hook_knows_it(node: UpdateNode) -> None:
    """What an address has can be another version when it is written."""
    gone_back(node)
    bundle = str(node.bundle("2.0.0"))

    def allowed(by_itself: str, status: int) -> str:
        return node.run(
            "cairn-update-allowed",
            status=status,
            RAUC_BUNDLE_MOUNT_POINT=bundle,
            CAIRN_UPDATE_BY_ITSELF=by_itself,
        )

    assert "gone back from version 2.0.0" in allowed("1", 1)
    allowed("", 0)


def test_one_that_is_killed_each_night(node: UpdateNode) -> None:
    """The node was not restarted meanwhile; after three times nothing begins it any more."""
    records(node, "auto")
    bundle = node.bundle("2.0.0")
    (bundle / "slow").touch()
    node.write("served", f"{bundle}\n")
    for _ in range(3):
        with begun(node) as look:
            os.killpg(look.pid, signal.SIGKILL)
    assert node.read("var/lib/cairn/update/failed") == "2.0.0 2\n"
    said = node.run("cairn-update", "--window", status=1)
    assert "version 2.0.0 has failed three times" in said
    assert node.run("cairn-update", "--window") == ""


def test_not_while_bitcoind_starts(node: UpdateNode) -> None:
    """By itself, within two hours; later, too, it has to have the tip that was noted."""
    node.write("rpc", "28 0 Verifying blocks\n")
    node.write("proc/uptime", "7000.00 1.00\n")
    assert "bitcoind is still starting. Nothing has changed." in window(node, "2.0.0", status=1)
    node.write("proc/uptime", "7300.00 1.00\n")
    node.write("var/lib/cairn/update/tip", "height=1000\nchain=main\n")
    assert node.restarted(window(node, "2.0.0", status=None)).version == "2.0.0"
    node.write("rpc", "0 0\n")
    node.trial()
    assert "(the node has block 0, and had 1000 before)" in node.screen()


def test_the_tip_of_another_chain(pi: UpdateNode) -> None:
    """It says nothing of this one."""
    pi.write("rpc", "28 0 Verifying blocks\n")
    pi.write("var/lib/cairn/update/tip", "height=4000000\nchain=test\n")
    pi.restarted(install(pi))
    pi.write("rpc", "0 5\n")
    pi.trial()
    assert "Version 2.0.0 is in use now" in pi.screen()


def test_the_tip_is_noted(node: UpdateNode) -> None:
    """When an update is installed, and when it stays."""
    on_trial(node)
    assert node.read("var/lib/cairn/update/tip") == "height=1000\nchain=main\n"
    node.write("rpc", "0 1005\n")
    node.trial()
    assert node.read("var/lib/cairn/update/tip") == "height=1005\nchain=main\n"


def test_in_the_journal(pi: UpdateNode) -> None:
    """What an owner does over SSH; what a unit prints is there already."""
    program(pi.tools / "logger", f'echo "$*" >>{pi.path}/logged')
    install(pi, "--no-reboot")
    logged = pi.read("logged")
    assert "-t node-update -- An update is being written." in logged
    assert "-t node-update -- Version 2.0.0 is installed" in logged
    window(pi, "3.0.0", status=None)
    pi.write("logged", "")
    pi.run("node-update", "install", "--again", "nothing", status=1, JOURNAL_STREAM="8:1")
    pi.trial(JOURNAL_STREAM="8:1")
    assert pi.read("logged") == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_how_far_it_is(pi: UpdateNode, shell: str) -> None:
    """Each further tenth is on the screen; all that RAUC says is passed on."""
    said = "installing\n  0% Installing\n  9% Checking\n 20% Checking done.\n\\x\n 46% Copying\n"
    screens = []
    for end in range(1, len(said.splitlines()) + 1):
        done = subprocess.run(
            [*shell.split(), "-c", f"root={pi.path}; . {WORDS}; update_progress"],
            check=True,
            capture_output=True,
            text=True,
            input="".join(said.splitlines(keepends=True)[:end]),
        )
        screens.append(pi.screen().partition("plug. ")[2].strip())
    assert done.stdout == said
    assert screens == ["", "", "", "20 % are done.", "20 % are done.", "46 % are done."]


def test_what_an_earlier_night_has_said(pi: UpdateNode) -> None:
    """It goes when it is not true any more."""
    strange = pi.bundle("2.0.0", "strange")
    (strange / "signed").unlink()
    records(pi, "notify")
    newer = pi.bundle("3.0.0", "newer")
    for bundle, words in ((strange, "No update was looked for"), (newer, "is there")):
        pi.write("served", f"{bundle}\n")
        pi.run("cairn-update", "--window")
        assert words in pi.screen()
        pi.write("served", f"{pi.bundle('1.0.0', 'same')}\n")
        pi.run("cairn-update", "--window")
        assert not (pi.path / "run/cairn/update.report").exists()


def test_what_waits_for_the_owners_restart(node: UpdateNode) -> None:
    """The night goes on saying so; a newer one is named."""
    install(node, "--no-reboot")
    node.write("served", f"{node.bundle('2.0.0')}\n")
    records(node, "notify")
    assert node.run("cairn-update", "--window") == ""
    assert "is installed and is tried at the next restart" in node.screen()
    node.write("served", f"{node.bundle('3.0.0')}\n")
    assert "3.0.0" in node.run("cairn-update", "--window")


def test_address_in_a_line_that_cannot_be_used(pi: UpdateNode) -> None:
    """Nobody says that there is no such line."""
    records(pi, "off", "")
    said = pi.run("node-update", "check")
    assert said.startswith("no address to ask: node.conf has no updateurl=, or a line of it ")

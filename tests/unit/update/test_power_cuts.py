"""A power cut before a command of an update or a rollback.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.shared.commands import program
from tests.shared.update_node import BOARDS, UpdateNode
from tests.unit.update.steps import begun, on_trial, records

#: The owner's node.conf, and that of before the update when it is put back
OWN = "filters=1\n"
KEPT = "hostname=attic\n# put back by node-update\n"


def update_with_a_cut(node: UpdateNode, at: int) -> int:
    """The owner's command and the trial, up to a cut before command ``at``; how many there were."""
    node.cut_before(at)
    said = node.run("node-update", "install", node.file(node.bundle("2.0.0")), status=None)
    if at == 0 or len(node.read("count")) < at:
        assert node.restarted(said).version == "2.0.0"
        node.run("cairn-trial", "--pause", "0", status=None)
    return node.no_cut()


def cuts(run: Callable[[str, int], UpdateNode], least: int) -> Iterator[tuple[int, UpdateNode]]:
    """Nodes on which ``run`` was cut before each of its commands in turn: which one, and the node.

    ``run`` gets the name of a node to be made, and before which command to cut, 0 for nowhere.
    There have to be more than ``least`` commands.
    """
    number = run("count", 0).no_cut()
    assert number > least
    for at in range(1, number + 1):
        node = run(f"cut{at}", at)
        node.no_cut()
        yield at, node
        shutil.rmtree(node.path)
    print(f"{number} commands")


def updated(path: Path, board: str) -> UpdateNode:
    """A node that has been updated to 2.0.0, and whose owner has written a node.conf after that."""
    node = UpdateNode(path, board)
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", OWN)
    return node


def settled(node: UpdateNode) -> None:
    """The boot after a cut is judged, with one restart at most."""
    said = node.trial()
    if "\nreboot" in f"\n{said}":
        node.restarted(said)
        assert "\nreboot" not in node.trial(), "one restart, and no loop"
    node.slots("committed")


@pytest.mark.long
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("part", range(4))
def test_power_cuts(board: str, part: int, tmp_path: Path) -> None:
    """Before each command of a whole update: one of the two versions boots, and both its halves.

    After it the same update succeeds. The kernel's order of writes is not seen here, only the
    scripts'.
    """
    number = update_with_a_cut(UpdateNode(tmp_path / "count", board), 0)
    assert number > 100
    seen: set[str] = set()
    for at in range(1 + part, number + 1, 4):
        node = UpdateNode(tmp_path / f"cut{at}", board)
        assert update_with_a_cut(node, at) >= at - 3
        seen.add(node.cut().version)
        settled(node)
        if node.slots("get-current") == "a":
            said = node.run("node-update", "install", "--again", node.file(node.bundle("2.0.0")))
            assert node.restarted(said).version == "2.0.0", at
            node.trial()
        assert node.cut().version == "2.0.0", at
        shutil.rmtree(node.path)
    print(f"{board}: {number} commands")
    assert seen == {"1.0.0", "2.0.0"}


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--node-conf"]])
@pytest.mark.parametrize("board", BOARDS)
def test_power_cuts_of_a_rollback(board: str, options: list[str], tmp_path: Path) -> None:
    """Before each command of a rollback and its trial: neither of the two versions is lost.

    The kept node.conf is there with the version that it was put back for, or while that is armed.
    """

    def rolled_back(name: str, at: int) -> UpdateNode:
        node = updated(tmp_path / name, board)
        node.cut_before(at)
        said = node.run("node-update", "rollback", *options, status=None)
        if at == 0 or len(node.read("count")) < at:
            assert node.restarted(said).version == "1.0.0"
            node.run("cairn-trial", "--pause", "0", status=None)
        return node

    seen: set[str] = set()
    for at, node in cuts(rolled_back, 30):
        seen.add(node.cut().version)
        settled(node)
        kept = options and node.slots("get-primary") == "a"
        assert node.read("boot/node.conf") == (KEPT if kept else OWN), at
        left = {node.cut().version, node.restarted(node.run("node-update", "rollback")).version}
        assert left == {"1.0.0", "2.0.0"}, at
    assert seen == {"1.0.0", "2.0.0"}


@pytest.mark.long
@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("board", BOARDS)
def test_power_cuts_of_a_change_of_mind(board: str, rollback: bool, tmp_path: Path) -> None:
    """Before each command of `cancel`: it is carried out in the end, or what waited is tried.

    That is no failure of the version that waited, and node.conf is that of what runs.
    """

    def cancelled(name: str, at: int) -> UpdateNode:
        if rollback:
            node = updated(tmp_path / name, board)
            node.run("node-update", "rollback", "--node-conf", "--no-reboot")
        else:
            node = UpdateNode(tmp_path / name, board)
            node.write("boot/node.conf", OWN)
            node.run("node-update", "install", "--no-reboot", node.file(node.bundle("2.0.0")))
        node.cut_before(at)
        node.run("node-update", "cancel", status=None)
        return node

    present, waits = ("2.0.0", "1.0.0") if rollback else ("1.0.0", "2.0.0")
    for at, node in cuts(cancelled, 10):
        version = node.cut().version
        settled(node)
        assert not node.read("var/lib/cairn/update/failed"), at
        if version == present and node.slots("get-primary") != node.slots("get-current"):
            # The cut came before anything was written: it waits as before.
            node.run("node-update", "cancel")
        kept = rollback and node.slots("get-current") == "a"
        assert node.read("boot/node.conf") == (KEPT if kept else OWN), at
        assert node.cut().version in {present, waits}, at


@pytest.mark.long
def test_power_cuts_after_a_power_cut(pi: UpdateNode, tmp_path: Path) -> None:
    """An installation by itself that was cut off counts once, whenever the power fails again."""
    (pi.bundle("2.0.0") / "slow").touch()
    pi.file(pi.path / "bundles/bundle", "served")
    records(pi, "auto")
    with begun(pi):
        pass
    pi.cut()
    kept = tmp_path / "kept"
    shutil.copytree(pi.path, kept, symlinks=True)
    pi.cut_before(0)
    pi.trial()
    number = pi.no_cut()
    assert number > 30
    for at in range(1, number + 1):
        shutil.rmtree(pi.path)
        shutil.copytree(kept, pi.path, symlinks=True)
        pi.cut_before(at)
        pi.run("cairn-trial", "--pause", "0", status=None)
        pi.no_cut()
        pi.cut()
        pi.trial()
        assert pi.read("var/lib/cairn/update/failed") in {"", "2.0.0 1\n"}, at
    assert pi.read("var/lib/cairn/update/failed")


def at_put_back(node: UpdateNode, command: str) -> None:
    """Runs a shell command once: when the kept node.conf is in place, and nothing else is done."""
    program(
        node.tools / "sync",
        f"""/usr/bin/sync "$@" || exit 1
        grep -q 'put back' {node.boot_folder}/node.conf || exit 0
        [ -e {node.path}/put-back ] || {{ : >{node.path}/put-back; {command}; }}""",
    )


def test_power_cut_before_a_rollback_is_armed(node: UpdateNode) -> None:
    """The replaced node.conf comes back, the screen says so once, and it can be begun again."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", OWN)
    at_put_back(node, "kill -9 0")
    node.run("node-update", "rollback", "--node-conf", status=None)
    assert node.read("boot/node.conf") == KEPT
    assert node.cut().version == "2.0.0"
    node.trial()
    assert node.read("boot/node.conf") == OWN
    assert node.screen() == (
        "The rollback to version 1.0.0 was interrupted before its restart. Your own node.conf is in"
        " place and counts from the next restart on. Begin the rollback again.\n"
    )
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    node.cut()
    node.trial()
    assert node.screen() == ""
    said = node.run("node-update", "rollback", "--node-conf")
    assert node.restarted(said).version == "1.0.0"
    node.trial()
    assert node.cut().version == "1.0.0"
    assert node.read("boot/node.conf") == KEPT


def test_closed_terminal_in_a_rollback(node: UpdateNode) -> None:
    """It goes on to the restart."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", OWN)
    at_put_back(node, "kill -HUP 0; kill -INT 0; kill -PIPE 0")
    said = node.run("node-update", "rollback", "--node-conf")
    assert (node.path / "put-back").exists()
    assert node.restarted(said).version == "1.0.0"
    assert node.read("boot/node.conf") == KEPT


def test_some_power_cuts(node: UpdateNode, tmp_path: Path) -> None:
    """The same at a few places, chosen by a seed that the test prints."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    for at in (chosen.randrange(1, 60) for _ in range(3)):
        twin = UpdateNode(tmp_path / f"cut{at}-{chosen.random()}", node.board)
        twin.cut_before(at)
        twin.run("node-update", "install", twin.file(twin.bundle("2.0.0")), status=None)
        twin.no_cut()
        assert twin.cut().version in {"1.0.0", "2.0.0"}


def test_rewriting_in_place_would_be_noticed(pi: UpdateNode) -> None:
    """The negative control: a config.txt that is truncated first and then written."""
    on_trial(pi)
    (pi.boot_folder / "config.txt").write_text("")
    with pytest.raises(AssertionError, match="no kernel"):
        pi.cut()

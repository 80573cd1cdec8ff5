"""A power cut before a command of an update or a rollback.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.shared.update_node import BOARDS, UpdateNode
from tests.unit.update.steps import on_trial


def update_with_a_cut(node: UpdateNode, at: int) -> int:
    """The owner's command and the trial, up to a cut before command ``at``; how many there were."""
    node.cut_before(at)
    said = node.run("node-update", "install", node.file(node.bundle("2.0.0")), status=None)
    if at == 0 or len(node.read("count")) < at:
        assert node.restarted(said).version == "2.0.0"
        node.run("cairn-trial", "--pause", "0", status=None)
    return node.no_cut()


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
@pytest.mark.parametrize("board", BOARDS)
def test_power_cuts_of_a_rollback(board: str, tmp_path: Path) -> None:
    """Before each command of a rollback and its trial: neither of the two versions is lost."""

    def updated(name: str, at: int) -> UpdateNode:
        node = UpdateNode(tmp_path / name, board)
        on_trial(node)
        node.trial()
        node.cut_before(at)
        said = node.run("node-update", "rollback", status=None)
        if at == 0 or len(node.read("count")) < at:
            assert node.restarted(said).version == "1.0.0"
            node.run("cairn-trial", "--pause", "0", status=None)
        return node

    number = updated("count", 0).no_cut()
    assert number > 30
    seen: set[str] = set()
    for at in range(1, number + 1):
        node = updated(f"cut{at}", at)
        node.no_cut()
        seen.add(node.cut().version)
        settled(node)
        left = {node.cut().version, node.restarted(node.run("node-update", "rollback")).version}
        assert left == {"1.0.0", "2.0.0"}, at
        shutil.rmtree(node.path)
    print(f"{board}: {number} commands")
    assert seen == {"1.0.0", "2.0.0"}


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

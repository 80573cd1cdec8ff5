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
from tests.unit.update.steps import install, on_trial


@contextmanager
def read_only_data(node: UpdateNode) -> Iterator[None]:
    """What is on the data partition can be read and not changed meanwhile."""
    for name in ("mv", "rm", "mkdir", "touch", "sync"):
        program(
            node.tools / name,
            f'case "$*" in *{node.path}/var/lib/cairn/*) exit 1 ;; esac\n'
            f'exec /usr/bin/{name} "$@"',
        )
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
    program(
        node.tools / "mkdir",
        'case "$*" in *lib/cairn/update*) kill -9 0 ;; esac; exec /usr/bin/mkdir "$@"',
    )
    node.trial(status=None)
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
    program(node.tools / "rm", 'case "$*" in *b+0-1.conf*) exit 1 ;; esac; exec /usr/bin/rm "$@"')
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

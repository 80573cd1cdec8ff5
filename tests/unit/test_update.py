"""Updates from end to end: node-update, the trial and its outcome, stick, window, power cuts.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import program
from tests.shared.update_node import BOARDS, LIBRARY, Started, UpdateNode

SHELLS = ["dash", "busybox sh"]


@pytest.fixture(params=BOARDS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> UpdateNode:
    """Each board's node, with version 1.0.0 in slot a."""
    return UpdateNode(tmp_path / "node", request.param)


@pytest.fixture
def pi(tmp_path: Path) -> UpdateNode:
    """One board's, for what is the same on all."""
    return UpdateNode(tmp_path / "node", "rpi5")


def install(node: UpdateNode, *words: str, status: int = 0, shell: str = "dash") -> str:
    """node-update install of the bundle, or of another one that is named last."""
    source = words[-1] if words and not words[-1].startswith("--") else ""
    options = words[:-1] if source else words
    source = source or node.file(node.bundle("2.0.0"))
    return node.run("node-update", "install", *options, source, status=status, shell=shell)


def on_trial(node: UpdateNode) -> Started:
    """Version 2.0.0 is installed, and its trial has begun."""
    started = node.restarted(install(node))
    assert started.version == "2.0.0"
    return started


# -- the owner's commands ---------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_update(node: UpdateNode, shell: str) -> None:
    """Installed, tried, good, said; and rolled back on request."""
    assert "beside it   nothing" in node.run("node-update", "status", shell=shell)
    said = install(node, shell=shell)
    assert "Version 2.0.0 is installed" in said
    assert node.read("var/lib/cairn/update/trial").splitlines() == [
        *("slot=b", "phase=going", "version=2.0.0", "from=1.0.0", "height=1000")
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
    assert "next boot   tries 2.0.0" in node.run("node-update", "status")
    assert node.restarted(node.run("node-update", "reboot")).version == "2.0.0"


def test_nothing_to_reboot_into(node: UpdateNode) -> None:
    """Nor to roll back to."""
    assert "nothing is installed" in node.run("node-update", "reboot", status=1)
    assert "no version to go back to" in node.run("node-update", "rollback", status=1)


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
        assert "another update is being installed" in pi.run("node-update", "rollback", status=1)
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
        (["status", "x"], 2, "usage"),
        (["rollback", "2.0.0"], 2, "unknown option"),
        (["reboot", "now"], 2, "usage"),
        (["check", "a", "b"], 2, "usage"),
    ],
)
def test_mistyped(pi: UpdateNode, words: list[str], status: int, sentence: str) -> None:
    """Said, and nothing is begun."""
    assert sentence in pi.run("node-update", *words, status=status)
    assert not (pi.path / "var/lib/cairn/update").exists()
    assert pi.cut().version == "1.0.0"


# -- what is not installed ----------------------------------------------------------------


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
        assert f"tries {version}" in pi.run("node-update", "status")


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


@contextmanager
def begun(node: UpdateNode, source: str) -> Iterator[subprocess.Popen[str]]:
    """node-update install with RAUC in the middle of writing."""
    command = ["dash", str(ROOT / "overlay/usr/bin/node-update"), "--root", str(node.path)]
    with subprocess.Popen(
        [*command, "install", source],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=node.environment(),
        start_new_session=True,
    ) as process:
        end = time.monotonic() + 60
        while not (node.path / "begun").exists():
            assert time.monotonic() < end, process.poll()
            time.sleep(0.05)
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


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


def test_clock_before_the_certificate(pi: UpdateNode) -> None:
    """Neither a stick nor an address is passed over in silence, and the offer is not forgotten."""
    plug(pi, "2.0.0")
    pi.run("cairn-update", "--stick")
    offer = pi.read("var/lib/cairn/update/stick")
    (pi.path / "bundles/stick-2.0.0/words").write_text(
        "Verify error: certificate is not yet valid\n"
    )
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


# -- the network -------------------------------------------------------------------------

URL = "https://example.org/cairn/"


@pytest.mark.parametrize(
    ("records", "by"),
    [
        ("network on\n", ""),
        ("network outbound\nprivate listen\n", ""),
        ("network on\nprivate mdns page\n", ""),
        ("network on\ntor 1\nprivate tor\n", "socks5h://127.0.0.1:9050"),
        (
            "network on\noption - proxy=192.168.1.60:9050\nprivate proxy\n",
            "socks5h://192.168.1.60:9050",
        ),
        ("network off\nlock 1\n", None),
        ("network off\ntor 1\n", None),
        ("network on\nprivate onlynet\noption - onlynet=ipv6\n", None),
        ("network on\nprivate connect\n", None),
        ("network on\nprivate onion\noption - onion=192.168.1.60:9050\n", None),
        ("network on\noption - proxy=192.168.1.60:9050=onion\nprivate proxy\n", None),
        ("network on\noption - proxy=unix:/run/x\nprivate proxy\n", None),
        ("network on\noption - proxy=1.2.3.4:1\noption main proxy=5.6.7.8:1\n", None),
        ("network on\nprivate somethingnew\n", None),
        ("", None),
    ],
)
def test_way_of_a_download(pi: UpdateNode, records: str, by: str | None) -> None:
    """Through Tor or the owner's proxy; where neither can be told, not at all."""
    pi.file(pi.bundle("2.0.0"), "served")
    pi.write("run/cairn/node-conf.records", records)
    url = URL + "c.raucb"
    install(pi, "--no-reboot", url, status=0 if by is not None else 1)
    asked = pi.read("asked")
    assert asked == ("" if by is None else f"install {url} by {by}\n")


@pytest.mark.parametrize(
    ("tor", "host", "word"),
    [
        ("only", "example.org", "end in .onion"),
        ("only", "192.168.1.9", "end in .onion"),
        ("only", "abc.onion", ""),
        ("1", "example.org", ""),
        ("1", "abc.onion:80", ""),
        ("1", "192.168.1.9:8000", "own network"),
        ("1", "172.31.0.1", "own network"),
        ("1", "172.32.0.1", ""),
        ("1", "[fd00::1]:80", "own network"),
        ("1", "nas.local", "own network"),
        ("1", "localhost", "own network"),
    ],
)
def test_what_tor_does_not_reach(pi: UpdateNode, tor: str, host: str, word: str) -> None:
    """It is said, and not taken for a fault of the file."""
    pi.file(pi.bundle("2.0.0"), "served")
    pi.write("run/cairn/node-conf.records", f"network on\ntor {tor}\nprivate tor\n")
    said = install(pi, "--no-reboot", f"http://{host}/c.raucb", status=1 if word else 0)
    assert word in said
    assert (pi.read("asked") == "") == bool(word)


def test_onion_address(pi: UpdateNode) -> None:
    """It is of no use without Tor, and asking the name server for it would tell."""
    pi.write("run/cairn/node-conf.records", "network on\n")
    for host in ("abc.onion", "ABC.Onion", "abc.onion:80", "abc.onion.", "me@abc.onion."):
        assert "needs tor=" in install(pi, f"http://{host}/c.raucb", status=1)
    assert pi.read("asked") == ""


def records(node: UpdateNode, mode: str, url: str = URL) -> None:
    """What node.conf says of updates."""
    text = f"network on\nupdate {mode}\n" + (f"updateurl {url}\n" if url else "")
    node.write("run/cairn/node-conf.records", text)


def test_notify(node: UpdateNode) -> None:
    """The screen says what there is; nothing is written."""
    node.file(node.bundle("2.0.0"), "served")
    records(node, "notify")
    assert "reboot" not in node.run("cairn-update", "--window").splitlines()
    assert node.read("asked") == f"info {URL}cairn-{node.board}.raucb by \n"
    assert "Version 2.0.0 is there (1.0.0 runs)" in node.screen()
    assert node.slots("get-primary") == "a"


def test_auto(node: UpdateNode) -> None:
    """Installed and tried without anybody."""
    node.file(node.bundle("2.0.0"), "served")
    records(node, "auto")
    assert node.restarted(node.run("cairn-update", "--window")).version == "2.0.0"


@pytest.mark.parametrize("mode", ["auto", "notify"])
@pytest.mark.parametrize("version", ["1.0.0", "0.9", "1.0.0-rc1"])
def test_nothing_newer(pi: UpdateNode, mode: str, version: str) -> None:
    """No word, no write."""
    pi.file(pi.bundle(version), "served")
    records(pi, mode)
    assert pi.run("cairn-update", "--window") == ""
    assert pi.screen() == ""


@pytest.mark.parametrize(("mode", "url"), [("off", URL), ("notify", ""), ("auto", ""), ("", URL)])
def test_nobody_is_asked(pi: UpdateNode, mode: str, url: str) -> None:
    """With update=off, without an address, and where node.conf was not read."""
    records(pi, mode, url)
    pi.run("cairn-update", "--window")
    (pi.path / "run/cairn/node-conf.records").unlink()
    pi.run("cairn-update", "--window")
    assert pi.read("asked") == ""


def test_unsigned_at_the_address(pi: UpdateNode) -> None:
    """It is said, as an update that does not come is one that the owner waits for."""
    bundle = pi.bundle("2.0.0")
    (bundle / "signed").unlink()
    pi.file(bundle, "served")
    records(pi, "auto")
    pi.run("cairn-update", "--window")
    assert "not signed for this node" in pi.screen()


def test_auto_makes_no_exceptions(pi: UpdateNode) -> None:
    """A new data format is the owner's decision."""
    pi.file(pi.bundle("2.0.0", "b", data_format="2", data_reads="1"), "served")
    records(pi, "auto")
    pi.run("cairn-update", "--window", status=1)
    assert "no way back" in pi.screen()
    assert pi.slots("get-primary") == "a"


def test_auto_and_a_disk_that_cannot_be_written(pi: UpdateNode) -> None:
    """A failure could not be counted, and it would be tried each night: nothing is installed."""
    pi.file(pi.bundle("2.0.0"), "served")
    records(pi, "auto")
    (pi.path / "var/lib/cairn/update").touch()
    pi.run("cairn-update", "--window", status=1)
    assert "a failure would not be remembered" in pi.screen()
    assert pi.slots("get-primary") == "a"
    # The owner may.
    assert pi.restarted(install(pi)).version == "2.0.0"


def test_window_waits(pi: UpdateNode) -> None:
    """A clock that jumps to the night in the first minutes does not use up the night."""
    pi.file(pi.bundle("2.0.0"), "served")
    records(pi, "auto")
    pi.write("proc/uptime", "500.0 1\n")
    pi.time_passes(60)
    said = pi.run("cairn-update", "--window", CAIRN_UPDATE_WAITS="60")
    assert "not installed" not in said
    assert pi.restarted(said).version == "2.0.0"


def test_check(pi: UpdateNode) -> None:
    """Prints, and changes nothing."""
    pi.file(pi.bundle("2.0.0"), "served")
    records(pi, "off")
    assert "version 2.0.0, newer" in pi.run("node-update", "check")
    assert "version 2.0.0" in pi.run("node-update", "check", "https://example.org/x.raucb")
    records(pi, "off", "")
    assert "no updateurl=" in pi.run("node-update", "check")
    assert pi.screen() == ""


# -- the trial ------------------------------------------------------------------------------


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


@pytest.mark.parametrize("part", ["version", "boot", "files"])
def test_system_of_two_disks(node: UpdateNode, part: str) -> None:
    """The card of another node is plugged in, whose partitions have the same names."""
    on_trial(node)
    if part == "version":
        node.write("usr/lib/os-release", f"IMAGE_VERSION=1.9.0\nVARIANT_ID={node.board}\n")
    elif part == "files":
        text = node.read("boot/slot-b/release")
        node.write("boot/slot-b/release", text.replace("version=2.0.0", "version=1.9.0"))
    else:
        (node.path / "sys/devices/sdz/sdz1").mkdir(parents=True)
        (node.path / "sys/dev/block/8:1").symlink_to(node.path / "sys/devices/sdz/sdz1")
        text = node.read("proc/self/mountinfo")
        node.write("proc/self/mountinfo", text.replace("179:1 / /boot", "8:1 / /boot"))
    said = node.trial()
    assert "another node's" in said
    assert node.restarted(said).version == "1.0.0"


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


def test_three_failures(node: UpdateNode) -> None:
    """Then nothing tries it by itself, and the owner's word does; success forgets them."""
    for count in (1, 2, 3):
        assert node.restarted(install(node)).version == "2.0.0"
        assert node.cut().version == "1.0.0"
        node.trial()
        assert f"2.0.0 {count}\n" in node.read("var/lib/cairn/update/failed")
    assert "failed three times" in node.screen()
    assert "failed      2.0.0, 3 times" in node.run("node-update", "status")
    assert "has failed three times" in install(node, status=1)
    node.file(node.bundle("2.0.0"), "served")
    records(node, "auto")
    assert "reboot" not in node.run("cairn-update", "--window")
    node.file(node.bundle("2.0.1"), "served")
    assert "reboot" in node.run("cairn-update", "--window")
    node.boot_folder.joinpath("tryboot.txt").unlink(missing_ok=True)
    if node.slots("get-primary") == "b":
        node.slots("set-primary", "a")
    assert node.restarted(install(node, "--again")).version == "2.0.0"
    node.trial()
    assert node.read("var/lib/cairn/update/failed") == ""


def test_first_boots_of_a_card(node: UpdateNode) -> None:
    """Good as soon as bitcoind answers: a unit that fails, once or always, keeps no update out."""
    node.never_good()
    node.write("failed-units", "x.service loaded failed failed x\n")
    node.write("state", "degraded\n")
    # What looks bad at first is looked at again.
    node.write("run/cairn/bitcoind.hold", "")
    program(node.tools / "sleep", f"rm {node.path}/run/cairn/bitcoind.hold")
    assert "reboot" not in node.trial()
    node.slots("committed")
    assert node.screen() == ""
    on_trial(node)


def test_shutdown_in_the_first_boot_of_a_card(pi: UpdateNode) -> None:
    """It says nothing, and the next boot looks again."""
    (pi.boot_folder / "slot-a/good").unlink()
    pi.write("state", "stopping\n")
    assert pi.trial() == ""
    pi.slots("committed", status=1)


def test_rollback_and_its_data(node: UpdateNode) -> None:
    """Not to a version that cannot read what the newer one has written."""
    on_trial(node)
    node.write("usr/share/cairn/data-format", "data-format=2\ndata-reads=1\n")
    node.run("cairn-trial", "--note")
    assert node.read("var/lib/cairn/update/data-format") == "data-format=2\n"
    node.trial()
    said = node.run("node-update", "rollback", status=1)
    assert "cannot read the data" in said
    assert node.cut().version == "2.0.0"


def test_data_format_is_noted_before_it_is_written(node: UpdateNode) -> None:
    """A trial that ends in any way has noted it; the version before says what that means."""
    node.run("cairn-trial", "--note")
    assert node.read("var/lib/cairn/update/data-format") == "data-format=1\n"
    file = node.file(node.bundle("2.0.0", "b", data_format="2"))
    assert node.restarted(install(node, "--new-format", file)).version == "2.0.0"
    node.write("usr/share/cairn/data-format", "data-format=2\ndata-reads=1\n")
    node.run("cairn-trial", "--note")
    node.write("usr/share/cairn/data-format", "data-format=1\ndata-reads=1\n")
    assert node.cut().version == "1.0.0"
    node.run("cairn-trial", "--note")
    assert node.read("var/lib/cairn/update/data-format") == "data-format=2\n"
    node.trial()
    assert "may already be in its format, which 1.0.0 cannot read" in node.screen()
    said = install(node, "--downgrade", node.file(node.bundle("0.9")), status=1)
    assert "cannot read the data" in said


def test_data_format_that_cannot_be_noted(pi: UpdateNode) -> None:
    """bitcoind is not started with it: its unit requires this one."""
    pi.write("usr/share/cairn/data-format", "data-format=2\ndata-reads=1\n")
    (pi.path / "var/lib/cairn/update").touch()
    assert "bitcoind is not started" in pi.run("cairn-trial", "--note", status=1)
    units = LIBRARY.parent / "systemd/system"
    unit = (units / "bitcoind.service").read_text()
    for word in ("Requires", "After"):
        assert f"\n{word}=cairn-format-note.service\n" in unit
    assert "cairn-trial --note\n" in (units / "cairn-format-note.service").read_text()


def test_cut_in_the_trial_of_a_rollback(node: UpdateNode) -> None:
    """The old version has proved itself long ago: it is kept, and can be gone back to."""
    on_trial(node)
    node.trial()
    for _ in range(4):
        assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
        assert node.cut().version == "2.0.0"
        node.trial()
        assert "Version 1.0.0 did not stay" in node.screen()
        assert "node-update rollback tries it again" in node.screen()
    assert node.read("var/lib/cairn/update/failed") == ""
    node.slots("committed")
    assert node.slots("get-primary") == "b"
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    node.trial()
    assert node.cut().version == "1.0.0"


@pytest.mark.parametrize("note", ["phase=writing\n", ""])
def test_tried_before_it_was_noted(tmp_path: Path, note: str) -> None:
    """A PC armed it, and the power failed before `trial` said so: it is counted."""
    node = UpdateNode(tmp_path / "node", "x86_64")
    install(node, "--no-reboot")
    trial = node.path / "var/lib/cairn/update/trial"
    trial.write_text(note)
    assert node.cut().version == "2.0.0"
    node.write("failed-units", "x.service loaded failed failed x\n")
    assert node.restarted(node.trial()).version == "1.0.0"
    node.write("failed-units", "")
    node.trial()
    assert "Version 2.0.0 did not stay: failed: x.service." in node.screen()
    assert node.read("var/lib/cairn/update/failed") == "2.0.0 1\n"
    assert not (node.path / "var/lib/cairn/update/reason").exists()
    assert not trial.exists()
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.read("var/lib/cairn/update/failed") == "2.0.0 1\n", "it is counted once"


def test_armed_before_it_was_noted(pi: UpdateNode) -> None:
    """On a Raspberry Pi the version that runs comes back; nothing is left to be tried."""
    install(pi, "--no-reboot")
    pi.write("var/lib/cairn/update/trial", "phase=writing\n")
    assert pi.cut().version == "1.0.0"
    pi.trial()
    assert "interrupted while it was being written" in pi.screen()
    assert pi.slots("get-primary") == "a"
    assert "nothing is installed" in pi.run("node-update", "reboot", status=1)
    assert not (pi.path / "var/lib/cairn/update/trial").exists()
    pi.cut()
    pi.trial()
    assert pi.screen() == "", "it is said once"


def test_armed_and_never_noted(node: UpdateNode) -> None:
    """node-update reboot takes slot and version from what is armed, and a failure is counted."""
    install(node, "--no-reboot")
    (node.path / "var/lib/cairn/update/trial").unlink()
    assert node.restarted(node.run("node-update", "reboot")).version == "2.0.0"
    noted = node.read("var/lib/cairn/update/trial")
    assert noted.startswith("slot=b\nphase=going\nversion=2.0.0\n")
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.read("var/lib/cairn/update/failed") == "2.0.0 1\n"


def test_failure_that_is_history(node: UpdateNode) -> None:
    """A rollback that fails once and then succeeds: the first one is not told of any more."""
    on_trial(node)
    node.trial()
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    assert node.cut().version == "2.0.0"
    node.trial()
    assert node.screen().startswith("Version 1.0.0 did not stay")
    node.cut()
    node.trial()
    assert node.screen().startswith("Version 1.0.0 did not stay"), "until something else happens"
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    node.write("var/lib/cairn/update/last", "Version 1.0.0 did not stay: x.\n")  # of another day
    node.trial()
    assert node.screen().startswith("Version 1.0.0 is in use now.")
    node.cut()
    node.trial()
    assert node.screen() == ""


def test_node_conf_of_before(node: UpdateNode) -> None:
    """Kept at the installation, and put back on request only."""
    on_trial(node)
    node.trial()
    kept = node.path / "var/lib/cairn/update/node.conf"
    assert kept.stat().st_mode & 0o777 == 0o600
    node.write("boot/node.conf", "hostname=attic\nkey-of-2.0=1\n")
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    assert "key-of-2.0" in node.read("boot/node.conf")
    node.trial()
    said = node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert node.read("boot/node.conf") == "hostname=attic\n# put back by node-update\n"
    # The owner's own one is not lost, also not by doing it twice.
    replaced = node.path / "var/lib/cairn/update/node.conf.replaced"
    assert "node.conf.replaced" in said
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert "key-of-2.0" in replaced.read_text()
    assert replaced.stat().st_mode & 0o777 == 0o600


def test_node_conf_of_before_is_less_private(pi: UpdateNode) -> None:
    """It is not put back, and which lines it lacks is said: a line at the end, or another one."""
    on_trial(pi)
    pi.trial()
    pi.write("boot/node.conf", "tor=only\nhostname=attic\n")
    pi.write("run/cairn/node-conf.records", "network on\ntor only\nprivate tor toronly\nlock 1\n")
    said = pi.run("node-update", "rollback", "--node-conf", "--no-reboot", status=1)
    assert "less private: it lacks what the present one has in these lines: tor toronly." in said
    # What is remembered counts where the present file says nothing; what cannot be read is no "no".
    pi.write("run/cairn/node-conf.records", "network off\n")
    pi.write("var/lib/cairn/private", "page\n")
    assert "these lines: page." in pi.run("node-update", "rollback", "--node-conf", status=1)
    pi.write("var/lib/cairn/private", "torn")
    assert "cannot be told" in pi.run("node-update", "rollback", "--node-conf", status=1)
    assert pi.read("boot/node.conf") == "tor=only\nhostname=attic\n"
    assert pi.slots("get-primary") == "b"
    # It has the same.
    pi.write("var/lib/cairn/private", "tor toronly\n")
    pi.write("var/lib/cairn/update/node.conf", "tor=only\n")
    pi.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert pi.read("boot/node.conf") == "tor=only\n# put back by node-update\n"


@pytest.mark.parametrize("edited", [False, True])
def test_node_conf_comes_back(node: UpdateNode, edited: bool) -> None:
    """If the version that it was put back for does not stay; but not over one that is newer."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "page=0\n")
    assert node.restarted(node.run("node-update", "rollback", "--node-conf")).version == "1.0.0"
    assert node.read("boot/node.conf").startswith("hostname=attic\n")
    if edited:
        node.write("boot/node.conf", "page=0\nmdns=0\n")
    assert node.cut().version == "2.0.0"
    node.trial()
    assert "did not stay" in node.screen()
    assert node.read("boot/node.conf") == ("page=0\nmdns=0\n" if edited else "page=0\n")


@pytest.mark.parametrize("how", ["unsigned", "late", "cut"])
def test_update_that_fails_keeps_the_kept_node_conf(node: UpdateNode, how: str) -> None:
    """The version beside may need it still."""
    on_trial(node)
    node.trial()
    node.write("var/lib/cairn/node.conf", "key-of-2.0=1\n")
    bundle = node.bundle("3.0.0")
    if how == "unsigned":
        (bundle / "signed").unlink()
    elif how == "late":
        (bundle / "late").touch()
    else:
        (bundle / "signed").unlink()
        node.write("var/lib/cairn/update/trial", "phase=writing\n")
        node.write("var/lib/cairn/update/node.conf.next", "key-of-2.0=1\n")
        node.trial()
    if how != "cut":
        install(node, node.file(bundle), status=1)
    assert node.read("var/lib/cairn/update/node.conf") == "hostname=attic\n"
    assert not (node.path / "var/lib/cairn/update/node.conf.next").exists()
    install(node, "--no-reboot", node.file(node.bundle("3.0.0")))
    assert node.read("var/lib/cairn/update/node.conf") == "key-of-2.0=1\n"


# -- a USB stick ------------------------------------------------------------------------------


def plug(node: UpdateNode, *versions: str, board: str = "", kind: str = "vfat") -> None:
    """A stick with a bundle of each version in its root; none: no stick."""
    shutil.rmtree(node.path / "stick", ignore_errors=True)
    folder = node.path / "sys/devices/pci/usb1/sda/sda1"
    link = node.path / "sys/class/block/sda1"
    link.unlink(missing_ok=True)
    program(
        node.tools / "udevadm",
        f"case $* in *sda1*) echo ID_FS_TYPE={kind} ;; esac",
    )
    program(
        node.tools / "mount",
        f"echo $* >>{node.path}/mounted\n"
        f"for point; do :; done; rmdir $point && ln -s {node.path}/stick $point",
    )
    program(node.tools / "umount", '[ ! -L "$1" ] || rm "$1"')
    if not versions:
        return
    folder.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    for version in versions:
        bundle = node.bundle(version, f"stick-{version}")
        if board:
            (bundle / "signed").write_text(f"cairn-{board}\n")
        node.file(bundle, f"stick/cairn-{version}.raucb")


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


# -- power cuts -----------------------------------------------------------------------------


def update_with_a_cut(node: UpdateNode, at: int) -> int:
    """The owner's command and the trial, up to a cut before command ``at``; how many there were."""
    node.cut_before(at)
    said = node.run("node-update", "install", node.file(node.bundle("2.0.0")), status=None)
    if at == 0 or len(node.read("count")) < at:
        assert node.restarted(said).version == "2.0.0"
        node.run("cairn-trial", "--pause", "0", status=None)
    return node.no_cut()


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
        said = node.trial()
        if "\nreboot" in f"\n{said}":
            node.restarted(said)
            assert "\nreboot" not in node.trial(), "one restart, and no loop"
        node.slots("committed")
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
        said = node.trial()
        if "\nreboot" in f"\n{said}":
            node.restarted(said)
            assert "\nreboot" not in node.trial(), "one restart, and no loop"
        node.slots("committed")
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

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
        assert "Compatible mismatch" in install(pi, pi.file(bundle), status=1)
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


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("proc/uptime", "599.9 1\n", "less than 10 minutes ago"),
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


# -- the network -------------------------------------------------------------------------

URL = "https://example.org/cairn/"


@pytest.mark.parametrize(
    ("records", "by"),
    [
        ("network on\n", ""),
        ("network outbound\nprivate listen\n", ""),
        ("network on\nprivate mdns page\n", ""),
        ("network on\ntor 1\nprivate tor\n", "socks5h://127.0.0.1:9050"),
        ("network on\ntor only\nlock 1\n", "socks5h://127.0.0.1:9050"),
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
    program(
        node.tools / "sleep",
        f"""read -r s h <{node.path}/rpc; echo "$s $((h + 50))" >{node.path}/rpc
        awk '{{ $1 += 5; print }}' {node.path}/proc/uptime >{node.path}/uptime.new
        mv {node.path}/uptime.new {node.path}/proc/uptime""",
    )
    node.trial(CAIRN_TRIAL_TIME="6000")
    assert node.cut().version == "2.0.0"


def test_short_of_the_tip_when_the_time_is_up(node: UpdateNode) -> None:
    """Good if it grew during the trial."""
    on_trial(node)
    node.write("rpc", "0 100\n")
    clock = f"{node.path}/proc/uptime"
    program(
        node.tools / "sleep",
        f"""read -r s h <{node.path}/rpc; echo "$s $((h + 1))" >{node.path}/rpc
        awk '{{ $1 += 60; print }}' {clock} >{clock}.new; mv {clock}.new {clock}""",
    )
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
        program(
            pi.tools / "sleep",
            f"{doing}\nawk '{{ $1 += 60; print }}' {clock} >{clock}.new; mv {clock}.new {clock}",
        )
        pi.trial(CAIRN_TRIAL_TIME="5000", CAIRN_TRIAL_LONGEST="10800")
        assert least <= float(pi.read("proc/uptime").split()[0]) <= most


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
    """Good as soon as it works; a failing unit starts no loop."""
    if node.board == "rpi5":
        (node.boot_folder / "slot-a/good").unlink()
    else:
        entries = node.boot_folder / "loader/entries"
        (entries / "cairn-a.conf").rename(entries / "cairn-a+3.conf")
    node.boot()
    node.write("failed-units", "x.service loaded failed failed x\n")
    assert "reboot" not in node.trial()
    node.slots("committed", status=1)
    node.write("failed-units", "")
    node.trial()
    node.slots("committed")
    assert node.screen() == ""


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
    assert node.read("boot/node.conf") == "hostname=attic\n"
    # The owner's own one is not lost, also not by doing it twice.
    replaced = node.path / "var/lib/cairn/update/node.conf.replaced"
    assert "node.conf.replaced" in said
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert "key-of-2.0" in replaced.read_text()
    assert replaced.stat().st_mode & 0o777 == 0o600


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
    # It is still plugged in: no loop.
    node.run("cairn-update", "--stick")
    assert node.slots("get-primary") == "b"


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
    assert pi.run("cairn-update", "--stick") == ""
    plug(pi, "0.9")
    assert "not installed by itself" in " ".join(pi.run("cairn-update", "--stick").split())
    plug(pi, "2.0.0")
    (pi.path / "stick/cairn-2.0.0.raucb").rename(pi.path / "stick/x.bin")
    (pi.path / "stick/cairn-x.raucb").symlink_to("x.bin")
    pi.write("stick/cairn-y.raucb", "/nowhere\n")
    assert pi.run("cairn-update", "--stick").count("Version") == 0


# -- power cuts -----------------------------------------------------------------------------


def update_with_a_cut(node: UpdateNode, at: int) -> int:
    """The owner's command and the trial, up to a cut before command ``at``; how many there were."""
    node.cut_before(at)
    said = node.run("node-update", "install", node.file(node.bundle("2.0.0")), status=None)
    if at == 0 or len(node.read("count")) < at:
        assert node.restarted(said).version == "2.0.0"
        node.run("cairn-trial", "--pause", "0", status=None)
    return node.no_cut()


@pytest.mark.slow
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


@pytest.mark.slow
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

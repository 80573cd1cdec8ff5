"""The address in updateurl=: the way of a download, update=notify and update=auto, the window.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

import pytest

from tests.shared.commands import program
from tests.shared.update_node import UpdateNode
from tests.unit.update.steps import URL, begun, install, on_trial, records


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
    ("value", "by"),
    [
        ("127.0.0.1", "127.0.0.1:9050"),
        ("127.0.0.1:9150", "127.0.0.1:9150"),
        ("tor.lan", "tor.lan:9050"),
        ("tor.lan:9150", "tor.lan:9150"),
        ("::1", "[::1]:9050"),
        ("fd00::9150", "[fd00::9150]:9050"),
        ("[::1]", "[::1]:9050"),
        ("[::1]:9150", "[::1]:9150"),
    ],
)
def test_port_of_a_proxy(pi: UpdateNode, value: str, by: str) -> None:
    """The proxy that Core asks, and no other port of that machine."""
    pi.file(pi.bundle("2.0.0"), "served")
    records(pi, "notify")
    lines = pi.read("run/cairn/node-conf.records")
    pi.write("run/cairn/node-conf.records", f"{lines}private proxy\noption - proxy={value}\n")
    pi.run("cairn-update", "--window")
    assert pi.read("asked") == f"info {URL}cairn-rpi5.raucb by socks5h://{by}\n"


@pytest.mark.parametrize(
    ("failing", "records"),
    [
        ("private", "network on\nprivate onlynet\noption - onlynet=onion\n"),
        ("network", "network off\nlock 1\n"),
        ("tor", "network on\ntor 1\n"),
    ],
)
def test_records_that_cannot_be_read(pi: UpdateNode, failing: str, records: str) -> None:
    """What is not known of the network does not become a download in the clear."""
    pi.file(pi.bundle("2.0.0"), "served")
    pi.write("run/cairn/node-conf.records", records)
    program(
        pi.tools / "sed",
        f'case "$*" in *"s/^{failing} "*) exit 1 ;; esac\nexec /usr/bin/sed "$@"',
    )
    assert "node.conf was not read" in install(pi, "--no-reboot", URL + "c.raucb", status=1)
    assert pi.read("asked") == ""


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
def test_why_it_did_not_stay(pi: UpdateNode, mode: str) -> None:
    """No look of a later night hides it."""
    bundle = pi.bundle("2.0.0")
    pi.file(bundle, "served")
    records(pi, "auto")
    pi.restarted(pi.run("cairn-update", "--window"))
    pi.write("failed-units", "x.service loaded failed failed x\n")
    assert pi.restarted(pi.trial()).version == "1.0.0"
    pi.write("failed-units", "")
    pi.trial()
    before = "Version 2.0.0 did not stay: failed: x.service."
    assert pi.screen().startswith(before)
    # The address cannot be reached, must not be asked, has it still, or it cannot be installed.
    records(pi, mode)
    (bundle / "words").write_text("no answer\n")
    pi.run("cairn-update", "--window")
    assert pi.screen().startswith(before)
    assert "as they were. No update was looked for: what updateurl= leads to" in pi.screen()
    lines = pi.read("run/cairn/node-conf.records")
    pi.write("run/cairn/node-conf.records", f"{lines}private i2p\n")
    pi.run("cairn-update", "--window")
    assert pi.screen().startswith(before)
    assert "No update was looked for: the lines of node.conf" in pi.screen()
    records(pi, mode)
    (bundle / "words").unlink()
    pi.write("proc/uptime", "60.0 1\n")
    pi.run("cairn-update", "--window", status=None)
    assert pi.screen().startswith(before)
    words = "less than 10 minutes ago" if mode == "auto" else "Version 2.0.0 is there"
    assert words in pi.screen()


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


@pytest.mark.parametrize(
    ("curl", "reason"),
    [
        # curl 8.21 with OpenSSL 3.6, as in the images, and older ones
        (
            "SSL certificate OpenSSL verify result: certificate has expired (10)",
            "certificate has expired;",
        ),
        (
            "SSL certificate OpenSSL verify result: certificate is not yet valid or the system"
            " clock is incorrect (9)",
            "certificate is not yet valid or the system clock is incorrect;",
        ),
        (
            "SSL certificate problem: unable to get local issuer certificate",
            "unable to get local issuer certificate;",
        ),
        ("SSL certificate problem: self-signed certificate", "self-signed certificate;"),
        (
            "SSL: certificate subject name 'write tor=1' does not match target hostname 'x.org'",
            "it is of another name;",
        ),
        ("SSL peer certificate or SSH remote key was not OK", "it cannot be verified;"),
        ("Could not resolve host: certificate.example.org", ""),
    ],
)
def test_certificate_of_the_server(pi: UpdateNode, curl: str, reason: str) -> None:
    """It is not taken for the one that signed the bundle: neither the clock nor the file is it."""
    bundle = pi.bundle("2.0.0")
    log = (
        f"rauc-nbd-Message: 22:18:37.091: request failed: {curl} (retrying 5/5)\n"
        "rauc-nbd-Message: 22:18:38.098: request failed (no more retries)\n"
        f"Failed to stream bundle {URL}{'x' * 200}: failed to configure streaming: server not"
        " responding\n"
    )
    (bundle / "words").write_text(log)
    pi.file(bundle, "served")
    records(pi, "notify")
    pi.run("cairn-update", "--window")
    window = pi.screen()
    assert window.startswith("No update was looked for: ")
    check = pi.run("node-update", "check", status=1)
    (bundle / "words").write_text(f"{log}finished\n")
    install(pi, URL, status=1)
    by_hand = pi.screen()
    assert by_hand.strip().endswith("Nothing has changed.")
    words = f"the HTTPS server's own certificate is not accepted ({reason} the node's clock says 2"
    for said in (window, check, by_hand):
        assert (words in said) == bool(reason)
        for other in ("bundle's certificate", "signed it", "tor=1"):
            assert other not in said
    if not reason:
        for said in (window, check, by_hand):
            assert "no usable answer comes from that address; check it and the network" in said
        return
    # a RAUC that has curl's words in its own sentence
    (bundle / "words").write_text(f"Failed to download bundle {URL}: Transfer failed: {curl}\n")
    assert words in pi.run("node-update", "check", status=1)


def test_auto_makes_no_exceptions(pi: UpdateNode) -> None:
    """A new data format is the owner's decision."""
    pi.file(pi.bundle("2.0.0", "b", data_format="2", data_reads="1"), "served")
    records(pi, "auto")
    pi.run("cairn-update", "--window", status=1)
    assert "no way back" in pi.screen()
    assert pi.slots("get-primary") == "a"
    assert pi.read("var/lib/cairn/update/failed") == "", "nothing was written"


def test_auto_and_a_download_that_breaks_off(pi: UpdateNode) -> None:
    """It has cost the version to go back to: three nights, and not one more; by hand as often."""
    on_trial(pi)
    pi.trial()
    bundle = pi.bundle("3.0.0")
    (bundle / "short").touch()
    file = pi.file(bundle, "served")
    install(pi, file, status=1)
    assert pi.read("var/lib/cairn/update/failed") == "", "somebody is there"
    for night in (1, 2, 3, 4):
        pi.write("dev/root.a", "")
        records(pi, "auto")
        pi.run("cairn-update", "--window", status=None)
        assert pi.read("var/lib/cairn/update/failed") == f"3.0.0 {min(night, 3)}\n"
        assert (pi.read("dev/root.a") == "") == (night == 4)
    assert "Version 3.0.0 has failed three times and is not tried again by itself." in pi.screen()
    assert pi.cut().version == "2.0.0"


GONE = "written; version 1.0.0, which was kept to go back to, is gone"


@pytest.fixture
def updated(node: UpdateNode) -> UpdateNode:
    """Version 2.0.0 is in use, 1.0.0 beside it; 3.0.0 is served, and RAUC is slow with it."""
    on_trial(node)
    node.trial()
    bundle = node.bundle("3.0.0")
    (bundle / "slow").touch()
    node.file(bundle, "served")
    records(node, "auto")
    return node


@pytest.mark.parametrize("by_itself", [True, False])
def test_power_cut_that_costs_the_version_before(updated: UpdateNode, *, by_itself: bool) -> None:
    """The next start says so, once."""
    with begun(updated, "" if by_itself else str(updated.path / "served")):
        pass
    assert updated.cut().version == "2.0.0"
    updated.trial()
    assert GONE in updated.screen()
    updated.cut()
    updated.trial()
    assert "interrupted" not in updated.screen()
    assert "no version to go back to" in updated.run("node-update", "rollback", status=1)


def test_power_cut_before_it_was_written(updated: UpdateNode) -> None:
    """It has cost nothing, and without the boot partition nothing is said of it, or undone."""
    updated.write("var/lib/cairn/update/trial", "phase=writing\nover=1.0.0\n")
    assert updated.cut().version == "2.0.0"
    with updated.boot_not_mounted():
        updated.trial()
        assert "interrupted" not in updated.screen()
    updated.trial()
    assert "while it was being written; nothing has changed" in updated.screen()
    assert updated.restarted(updated.run("node-update", "rollback")).version == "1.0.0"


def test_power_cut_over_a_version_that_never_stayed(node: UpdateNode) -> None:
    """Its loss is none: it was not kept to go back to."""
    on_trial(node)
    node.write("failed-units", "x.service loaded failed failed x\n")
    assert node.restarted(node.trial()).version == "1.0.0"
    node.write("failed-units", "")
    node.trial()
    bundle = node.bundle("3.0.0")
    (bundle / "slow").touch()
    with begun(node, node.file(bundle)):
        pass
    node.cut()
    node.trial()
    assert "while it was being written; nothing has changed" in node.screen()


@pytest.mark.parametrize("second", ["cut", "refused"])
def test_killed_and_begun_again(updated: UpdateNode, second: str) -> None:
    """What the first has cost is said after the second: nobody was told."""
    file = str(updated.path / "served")
    with begun(updated, file):
        pass
    if second == "cut":
        with begun(updated, file):
            pass
        updated.cut()
        updated.trial()
        assert GONE in updated.screen()
        return
    bundle = updated.bundle("3.1.0")
    (bundle / "signed").unlink()
    install(updated, updated.file(bundle), status=1)
    assert "version 1.0.0, which was kept to go back to, is gone." in updated.screen()


@pytest.mark.parametrize("by_itself", [True, False])
def test_power_cut_while_it_is_written(node: UpdateNode, *, by_itself: bool) -> None:
    """It counts if nobody had asked for it, and is not begun a fourth time by itself."""
    bundle = node.bundle("2.0.0")
    (bundle / "slow").touch()
    file = node.file(bundle, "served")
    records(node, "auto")
    for cut in (1, 2, 3):
        with begun(node, "" if by_itself else file):
            pass
        assert node.cut().version == "1.0.0"
        node.trial()
        screen = node.screen()
        assert screen.startswith("An update was interrupted while it was being written; nothing")
        given_up = "Version 2.0.0 has failed three times and is not tried again by itself."
        assert (given_up in screen) == (by_itself and cut == 3)
        assert node.read("var/lib/cairn/update/failed") == (f"2.0.0 {cut}\n" if by_itself else "")
        records(node, "auto")
    (node.path / "begun").unlink()
    (bundle / "slow").unlink()
    node.run("cairn-update", "--window")
    assert node.slots("get-primary") == ("a" if by_itself else "b")


def test_by_hand_after_one_by_itself_that_left_its_note(pi: UpdateNode) -> None:
    """The data partition cannot be written any more: what the owner has asked for is tried."""
    bundle = pi.bundle("2.0.0")
    (bundle / "slow").touch()
    file = pi.file(bundle, "served")
    records(pi, "auto")
    with begun(pi):
        pass
    (bundle / "slow").unlink()
    (pi.path / "var/lib/cairn/update/trial.new").mkdir()
    assert pi.restarted(install(pi, file)).version == "2.0.0"


def test_auto_and_a_shutdown(pi: UpdateNode) -> None:
    """It ends an installation, and says nothing about the version."""
    bundle = pi.bundle("2.0.0")
    (bundle / "slow").touch()
    pi.file(bundle, "served")
    records(pi, "auto")
    # systemd ends the unit then.
    program(pi.tools / "sleep", f"echo stopping >{pi.path}/state\nkill -TERM $PPID\nexit 1")
    pi.run("cairn-update", "--window", status=1)
    assert pi.screen().startswith("The update was not installed:")
    assert pi.read("dev/root.b") != ""
    assert pi.read("var/lib/cairn/update/failed") == ""


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


def test_auto_while_bitcoind_is_held_back(pi: UpdateNode) -> None:
    """Its trial could only fail, and would not be counted: each night again. The owner may."""
    pi.file(pi.bundle("2.0.0"), "served")
    records(pi, "auto")
    pi.write("run/cairn/bitcoind.hold", "")
    pi.write("var/lib/cairn/update/last", "Version 2.0.0 did not stay: x.\n")
    said = pi.run("cairn-update", "--window")
    assert "reboot" not in said.splitlines()
    assert pi.screen().startswith("Version 2.0.0 did not stay: x. ")
    assert "Version 2.0.0 is there (1.0.0 runs). It is not installed by itself" in pi.screen()
    assert f"node-update install {URL}cairn-rpi5.raucb installs it." in pi.screen()
    assert pi.read("asked").startswith("info ")
    assert "install" not in pi.read("asked"), "nothing was written"
    assert pi.restarted(install(pi)).version == "2.0.0"


@pytest.mark.parametrize("until", ["writing", "installed"])
def test_auto_and_a_disk_that_fills_up(node: UpdateNode, until: str) -> None:
    """The trial cannot be noted any more, so there is none; by hand there is one all the same."""
    node.file(node.bundle("2.0.0"), "served")
    records(node, "auto")
    trial = node.path / "var/lib/cairn/update/trial"
    program(
        node.tools / "mv",
        f'/usr/bin/mv "$@" || exit\n! grep -qs phase={until} {trial} || mkdir -p {trial}.new',
    )
    said = node.run("cairn-update", "--window", status=1)
    assert "reboot" not in said.splitlines()
    assert node.screen() == (
        "The update was not installed: the data partition cannot be written, so a failure would "
        "not be remembered. Nothing has changed.\n"
    )
    assert node.slots("get-primary") == "a"
    assert not trial.exists()
    assert node.cut().version == "1.0.0"
    node.trial()
    assert node.screen() == "", "nothing of an update that was interrupted"
    (trial.parent / "trial.new").rmdir()
    assert node.restarted(install(node)).version == "2.0.0"


def test_window_waits(pi: UpdateNode) -> None:
    """A clock that jumps to the night in the first minutes does not use up the night."""
    pi.file(pi.bundle("2.0.0"), "served")
    records(pi, "auto")
    pi.write("proc/uptime", "500.0 1\n")
    pi.time_passes(60)
    said = pi.run("cairn-update", "--window", CAIRN_UPDATE_WAITS="60")
    assert "not installed" not in said
    assert pi.restarted(said).version == "2.0.0"


def test_window_does_not_wait_for_a_trial(node: UpdateNode) -> None:
    """The trial waits for a complete boot, of which the unit that waits would be a part."""
    on_trial(node)
    node.file(node.bundle("3.0.0"), "served")
    records(node, "auto")
    node.time_passes(60, before=f": >{node.path}/slept")
    assert node.run("cairn-update", "--window", CAIRN_UPDATE_WAITS="60") == ""
    assert not (node.path / "slept").exists()
    assert node.read("asked") == ""


def test_check(pi: UpdateNode) -> None:
    """Prints, and changes nothing."""
    pi.file(pi.bundle("2.0.0"), "served")
    records(pi, "off")
    assert "version 2.0.0, newer" in pi.run("node-update", "check")
    assert "version 2.0.0" in pi.run("node-update", "check", "https://example.org/x.raucb")
    file = pi.file(pi.bundle("3.0.0", "file"))
    # A file needs no way through the network.
    for lines in ("network on\nlock 1\ntor only\nprivate tor\n", "network off\n", ""):
        pi.write("run/cairn/node-conf.records", lines)
        assert f"{file}: version 3.0.0, newer" in pi.run("node-update", "check", file)
    records(pi, "off", "")
    assert "no updateurl=" in pi.run("node-update", "check")
    assert pi.screen() == ""

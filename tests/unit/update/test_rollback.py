"""Back to the version before, by failures or by the owner: the data format and node.conf.

The node, its RAUC and its boot loader: tests/shared/update_node.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.commands import program
from tests.shared.update_node import LIBRARY, UpdateNode
from tests.unit.update.steps import SHELLS, fails, install, on_trial, records


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


def test_failures_of_a_version_that_is_the_same_number(pi: UpdateNode) -> None:
    """2.10 is another version than 2.1: neither refused, counted nor forgotten with it."""
    pi.write("var/lib/cairn/update/failed", "2.1 3\n")
    file = pi.file(pi.bundle("2.10"))
    assert pi.restarted(install(pi, file)).version == "2.10"
    assert pi.cut().version == "1.0.0"
    pi.trial()
    assert pi.read("var/lib/cairn/update/failed") == "2.1 3\n2.10 1\n"
    assert pi.restarted(install(pi, file)).version == "2.10"
    pi.trial()
    assert pi.read("var/lib/cairn/update/failed") == "2.1 3\n"


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
    node.write("boot/node.conf", "hostname=attic\nfilters=1\n")
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    assert "filters" in node.read("boot/node.conf")
    node.trial()
    said = node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert node.read("boot/node.conf") == "hostname=attic\n# put back by node-update\n"
    # The owner's own one is not lost, also not by doing it twice.
    replaced = node.path / "var/lib/cairn/update/node.conf.replaced"
    assert "node.conf.replaced" in said
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert "filters" in replaced.read_text()
    assert replaced.stat().st_mode & 0o777 == 0o600


def test_node_conf_of_before_is_less_private(pi: UpdateNode) -> None:
    """It is not put back, and which lines it lacks is said: a line at the end, or another one."""
    on_trial(pi)
    pi.trial()
    pi.write("boot/node.conf", "tor=only\nhostname=attic\n")
    pi.write("run/cairn/node-conf.records", "network on\ntor only\nprivate tor toronly\nlock 1\n")
    said = pi.run("node-update", "rollback", "--node-conf", "--no-reboot", status=1)
    assert "or had at the last start, in these lines: tor toronly. Nothing was changed" in said
    # What is remembered counts where the present file says nothing; what cannot be read is no "no".
    pi.write("boot/node.conf", "hostname=attic\n# mine\n")
    pi.write("run/cairn/node-conf.records", "network off\n")
    pi.write("var/lib/cairn/private", "page\n")
    assert "these lines: page." in pi.run("node-update", "rollback", "--node-conf", status=1)
    pi.write("var/lib/cairn/private", "torn")
    assert "cannot be told" in pi.run("node-update", "rollback", "--node-conf", status=1)
    assert pi.read("boot/node.conf") == "hostname=attic\n# mine\n"
    assert pi.slots("get-primary") == "b"
    # It has the same.
    pi.write("var/lib/cairn/private", "tor toronly\n")
    pi.write("var/lib/cairn/update/node.conf", "tor=only\n")
    pi.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert pi.read("boot/node.conf") == "tor=only\n# put back by node-update\n"


@pytest.mark.parametrize(
    ("tool", "failing", "left"),
    [
        ("awk", "update-conf.awk", "0"),
        ("sed", "s/^private ", ""),
        ("awk", "put back", "0"),
        ("awk", "put back", "1"),
    ],
)
def test_node_conf_of_before_that_cannot_be_judged(
    pi: UpdateNode, tool: str, failing: str, left: str
) -> None:
    """A command that fails, if only at the last use of it, leaves the present file."""
    on_trial(pi)
    pi.trial()
    kept = "tor=only\n" if left else "hostname=attic\n"
    pi.write("var/lib/cairn/update/node.conf", kept)
    pi.write("boot/node.conf", "tor=only\n# mine\n")
    pi.write("run/cairn/node-conf.records", "network on\ntor only\nprivate tor toronly\n")
    count = pi.tools / "count"
    count.write_text("x" * int(left or 0))
    program(
        pi.tools / tool,
        f'case "$*" in *"{failing}"*)\n'
        f"[ -s {count} ] || exit 1; printf %s $(cut -c2- {count}) >{count} ;; esac\n"
        f'exec /usr/bin/{tool} "$@"',
    )
    pi.run("node-update", "rollback", "--node-conf", "--no-reboot", status=1)
    assert pi.read("boot/node.conf") == "tor=only\n# mine\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("present", "kept", "lacks"),
    [
        ("tor=only\n", "hostname=attic\n", "tor toronly"),
        ("tor=only\n", "tor=1\n", "toronly"),
        ("page=0\n", "mdns=0\n", "page"),
        (
            "onlynet=onion\nonion=192.0.2.1:9050\n",
            "onlynet=ipv4\nonion=192.0.2.1:9050\n",
            "onlynet",
        ),
        ("onlynet=ipv4\nonlynet=ipv6\n", "onlynet=ipv4\n", "onlynet"),
        ("chain=signet\n", "chain=regtest\n", "chain"),
        ("connect=0\n", "connect=192.0.2.1\n", "connect"),
        ("proxy=192.0.2.1:9050\n", "proxy=192.0.2.1:9050\npage=0\n", ""),
        ("", "hostname=attic\n", ""),
    ],
)
def test_node_conf_of_before_and_what_was_written_since(
    pi: UpdateNode, shell: str, present: str, kept: str, lacks: str
) -> None:
    """The present file counts as it is now, not as the last boot has read it."""
    on_trial(pi)
    pi.trial()
    pi.write("var/lib/cairn/update/node.conf", kept)
    pi.write("boot/node.conf", present)
    said = pi.run(
        *("node-update", "rollback", "--node-conf", "--no-reboot"),
        shell=shell,
        status=1 if lacks else 0,
    )
    if lacks:
        assert f"in these lines: {lacks}. Nothing was changed" in said
    assert pi.read("boot/node.conf") == (present if lacks else f"{kept}# put back by node-update\n")


@pytest.mark.parametrize(
    ("present", "line"),
    [("hostname=attic\ntor=2\n", " (line 2)"), ("host\0name=attic\n", ""), (None, "")],
)
def test_node_conf_that_cannot_be_understood(
    pi: UpdateNode, present: str | None, line: str
) -> None:
    """It may have asked for anything: it stays, and so does one of another name."""
    on_trial(pi)
    pi.trial()
    name = "boot/node.conf" if present else "boot/node.conf.txt"
    present = present or "tor=only\n"
    (pi.boot_folder / "node.conf").unlink()
    pi.write(name, present)
    said = pi.run("node-update", "rollback", "--node-conf", "--no-reboot", status=1)
    assert f"cannot be understood as a whole{line}, so" in said
    assert pi.read(name) == present
    assert [file.name for file in pi.boot_folder.glob("node.conf*")] == [Path(name).name]
    assert pi.slots("get-primary") == "b"


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOldOldOldOldOldOldOldOldOldOldOldOldOldOldOld1 "
OTHER = KEY.replace("Old", "New")
URL_LINE = "updateurl=https://example.org/"


def rollback_to(node: UpdateNode, kept: str, present: str, status: int = 0, **names: str) -> str:
    """rollback --node-conf with these two files; ``names``: what else is in /var/lib/cairn."""
    on_trial(node)
    node.trial()
    node.write("var/lib/cairn/update/node.conf", kept)
    node.write("boot/node.conf", present)
    for name, text in names.items():
        node.write(f"var/lib/cairn/{name.replace('_', '.')}", text)
    said = node.run("node-update", "rollback", "--node-conf", "--no-reboot", status=status)
    if status:
        assert node.read("boot/node.conf") == present
        assert node.slots("get-primary") == "b"
        assert not (node.path / "var/lib/cairn/update/node.conf.replaced").exists()
    return said


@pytest.mark.parametrize("awk", ["mawk", "busybox awk"])
def test_node_conf_of_before_and_what_is_done_once(pi: UpdateNode, awk: str) -> None:
    """Its line has been carried out long ago: it gets a # in front, however the lines end."""
    program(pi.tools / "awk", f'exec {awk} "$@"')
    kept = "erase=S6X1\rdatadisk=S6X1\r\n\n reindex = 1\n[main]\nreindex-chainstate=0\nnoreindex=1"
    kept = f"\ufeff{kept}\n# reindex=1\n"
    said = rollback_to(pi, kept, "filters=1\n", prune_main="0\n")
    assert "got a # in front" in said
    assert "again: erase= reindex= reindex-chainstate=\n" in said
    assert (pi.boot_folder / "node.conf").read_bytes().decode() == (
        "\ufeff#erase=S6X1\rdatadisk=S6X1\r\n\n# reindex = 1\n[main]\n#reindex-chainstate=0\n"
        "noreindex=1\n# reindex=1\n# put back by node-update\n"
    )
    assert "got a #" not in pi.run("node-update", "rollback", "--node-conf", "--no-reboot")


@pytest.mark.parametrize(
    ("kept", "present", "words"),
    [
        (f"sshkey={KEY}stolen", f"sshkey={OTHER}", f"by these lines: sshkey=...{KEY[-18:]}stolen."),
        (f"walletkey={KEY}mine", "filters=1", f"by these lines: walletkey=...{KEY[-20:]}mine."),
        ("walletaccess=tor", "walletaccess=rpc", "by these lines: walletaccess=tor."),
        ("walletaccess=rpc", "filters=1", "by these lines: walletaccess=rpc."),
        ("walletshow=1", "walletshow=0", "by these lines: walletshow=1."),
        ("rpcauth=alice:ab$cd", "rpcauth=bob:ab$cd", "by these lines: rpcauth=alice:...."),
        ("rpcwhitelistdefault=0", "filters=1", "by these lines: rpcwhitelistdefault=0."),
        ("wallet=x\nrest=1", "filters=1", "by these lines: wallet=x, rest=1."),
        ("natpmp=1", "filters=1", "by these lines: natpmp=1."),
        ("natpmp=1", "natpmp=0", "in these lines: natpmp."),
        ("whitebind=noban@0.0.0.0:8444", "whitebind=0.0.0.0:8444", "in these lines: whitebind."),
        (URL_LINE, "filters=1", f"by these lines: {URL_LINE}."),
        (
            f"{URL_LINE}\nupdate=auto",
            f"{URL_LINE}\nupdate=off",
            f"by these lines: {URL_LINE}, update=auto.",
        ),
        (f"sshkey={KEY}me pin=0", "filters=1", "me pin=0."),
        (f"{URL_LINE}\nupdate=auto", f"{URL_LINE}\nupdate=notify", "by these lines: update=auto."),
        # no more than the present one
        (f"{URL_LINE}\nupdate=auto", f"{URL_LINE}\nupdate=auto", ""),
        ("filters=1", "rpcwhitelistdefault=0", ""),
        (f"{URL_LINE}\nupdate=off", "filters=1", ""),
        (f"sshkey={KEY}me", f"sshkey={KEY}I\nsshkey={OTHER}you", ""),
        ("tor=1\nlisten=1\nrest=0", "filters=1", ""),
        ("walletaccess=tor", "walletaccess=tor\nwalletaccess=rpc", ""),
    ],
)
def test_node_conf_of_before_lets_in_more(
    pi: UpdateNode, kept: str, present: str, words: str
) -> None:
    """A key that was taken out is not put in again; the sentence names the lines."""
    said = rollback_to(pi, kept + "\n", present + "\n", 1 if words else 0)
    if words:
        assert f"{words} Nothing was changed; go back without --node-conf" in said


def test_node_conf_of_before_lacks_a_limit(pi: UpdateNode) -> None:
    """What its users may ask is limited by other lines than theirs."""
    login = "rpcauth=alice:ab$cd\n"
    limit = "rpcwhitelist=alice:getblock\n"
    assert "in these lines: rpcwhitelist." in rollback_to(pi, login, login + limit, 1)


@pytest.mark.parametrize("table", ["", "-\n"])
def test_node_conf_of_before_without_the_table(pi: UpdateNode, tmp_path: Path, table: str) -> None:
    """Without the list of options it is not known which lines let somebody in."""
    empty = tmp_path / "table"
    if table:
        empty.write_text(table)
    program(
        pi.tools / "awk",
        f"""case "$*" in *update-conf.awk*) shift 2; set -- -v table={empty} "$@" ;; esac
        exec /usr/bin/awk "$@" """,
    )
    assert "cannot be told" in rollback_to(pi, "rest=1\n", "filters=1\n", 1)


@pytest.mark.parametrize(
    ("kept", "present", "before", "fewer"),
    [
        ("prune=550", "prune=0", "0\n", "prune=550, and the node keeps prune=0."),
        ("prune=550", "prune=20000", "", "prune=550, and the node keeps prune=20000."),
        ("prune=550", "filters=1", "0\n", "prune=550, and the node keeps prune=0."),
        ("prune=550", "filters=1", "1\n", "prune=550, and the node keeps prune=1."),
        ("prune=550", "filters=1", "torn", "prune=550, and the node keeps what cannot be read"),
        ("prune=1", "prune=0", "", "prune=1, and the node keeps prune=0."),
        ("hostname=x", "prune=20000", "20000\n", "no prune=, and the node keeps prune=20000."),
        ("hostname=x", "prune=0", "", "no prune=, and the node keeps prune=0."),
        ("hostname=x", "", "20000\n", "no prune=, and the node keeps prune=20000."),
        (
            "chain=signet\nprune=550",
            "prune=550",
            "3000\n",
            "prune=550, and the node keeps prune=3000",
        ),
        ("prune=0", "prune=550", "torn", ""),
        ("prune=1", "prune=20000", "20000\n", ""),
        ("prune=20000", "prune=550", "", ""),
        ("prune=550", "filters=1", "", ""),
        ("hostname=x", "filters=1", "20000\n", ""),
        ("hostname=x\ntxindex=1", "prune=0", "0\n", ""),
        ("hostname=x", "prune=550", "550\n", ""),
    ],
)
def test_node_conf_of_before_keeps_fewer_blocks(
    pi: UpdateNode, kept: str, present: str, before: str, fewer: str
) -> None:
    """What was deleted is gone, so it is not put back if it might be fewer."""
    noted = {"prune_signet" if "signet" in kept else "prune_main": before} if before else {}
    said = rollback_to(pi, kept + "\n", present and present + "\n", 1 if fewer else 0, **noted)
    if fewer:
        assert f"would delete blocks: it has {fewer}" in said
        assert "correct prune= in /var/lib/cairn/update/node.conf" in said


def test_kept_node_conf_that_cannot_be_understood(pi: UpdateNode) -> None:
    """The older version may know its line, which may then do anything."""
    said = rollback_to(pi, "hostname=attic\nkey-of-1.0=1\n", "filters=1\n", 1)
    assert "cannot use a line (line 2) of the kept node.conf" in said
    assert "cannot be told" in said


@pytest.mark.parametrize("edited", [False, True])
def test_node_conf_comes_back(node: UpdateNode, edited: bool) -> None:
    """If the version that it was put back for does not stay; but not over one that is newer."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "filters=1\n")
    assert node.restarted(node.run("node-update", "rollback", "--node-conf")).version == "1.0.0"
    assert node.read("boot/node.conf").startswith("hostname=attic\n")
    if edited:
        node.write("boot/node.conf", "filters=1\nmdns=0\n")
    assert node.cut().version == "2.0.0"
    node.trial()
    assert "did not stay" in node.screen()
    assert node.read("boot/node.conf") == ("filters=1\nmdns=0\n" if edited else "filters=1\n")
    # That boot may have read the other one before; the next ones have not.
    back = "Your own node.conf is in place and counts from the next restart on."
    assert (back in node.screen()) is not edited
    node.cut()
    node.trial()
    assert "did not stay" in node.screen()
    assert back not in node.screen()


def conf_cannot_be_synced(node: UpdateNode) -> None:
    """The boot partition fails where node.conf is written; until tools/sync is removed."""
    fails(node, "sync", "*boot/node.conf*")


def test_node_conf_that_cannot_come_back(node: UpdateNode) -> None:
    """Each start tries it again and says so, until it is there."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "filters=1\n")
    assert node.restarted(node.run("node-update", "rollback", "--node-conf")).version == "1.0.0"
    conf_cannot_be_synced(node)
    for _ in range(2):
        assert node.cut().version == "2.0.0"
        node.trial()
        assert "Version 1.0.0 did not stay" in node.screen()
        assert "node.conf is still the one from before the update; yours is" in node.screen()
        assert "put-back=1\n" in node.read("var/lib/cairn/update/trial")
        assert node.read("boot/node.conf").startswith("hostname=attic\n")
    (node.tools / "sync").unlink()
    assert node.cut().version == "2.0.0"
    node.trial()
    assert "Your own node.conf is in place" in node.screen()
    assert node.read("boot/node.conf") == "filters=1\n"
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    assert node.read("var/lib/cairn/update/failed") == ""


@pytest.mark.parametrize("by_itself", [False, True])
def test_node_conf_comes_back_before_an_installation(node: UpdateNode, by_itself: bool) -> None:
    """The rollback that it was replaced for is never tried, and its note is overwritten."""

    def installed(status: int) -> str:
        if not by_itself:
            return install(node, "--no-reboot", node.file(node.bundle("3.0.0")), status=status)
        node.file(node.bundle("3.0.0"), "served")
        records(node, "auto")
        return node.run("cairn-update", "--window", status=status)

    rollback_to(node, "hostname=attic\n", "filters=1\n")
    noted = node.read("var/lib/cairn/update/trial")
    assert "put-back=1\n" in noted
    conf_cannot_be_synced(node)
    said = installed(1)
    assert "your node.conf, which a rollback has replaced, cannot come back" in said
    assert node.read("var/lib/cairn/update/trial") == noted.replace("=installed", "=cancelled")
    assert node.read("boot/node.conf").startswith("hostname=attic\n")
    (node.tools / "sync").unlink()
    assert "Your own node.conf is in place" in installed(0)
    assert node.read("boot/node.conf") == "filters=1\n"
    assert "version=3.0.0\n" in node.read("var/lib/cairn/update/trial")


def node_config(node: UpdateNode) -> None:
    """What node-config and, later, cairn-bitcoind-started note of a good file at a start."""
    for name in ("run/cairn/node-conf.good", "var/lib/cairn/node.conf"):
        node.write(name, node.read("boot/node.conf"))


def test_node_conf_that_comes_back_is_the_last_good_one(node: UpdateNode) -> None:
    """It is not taken for the other one cut short, and the next version keeps it for this one."""
    own = "hostname=attic\n"
    rollback_to(node, f"{own}proxy=192.0.2.1:9050\n", own)
    assert node.restarted(node.run("node-update", "reboot")).version == "1.0.0"
    node_config(node)
    assert node.cut().version == "2.0.0"
    # The start reads the file when cairn-trial runs already, and waits for it.
    (node.path / "run/cairn/node-conf.records").unlink()
    program(
        node.tools / "sleep",
        f"cat {node.path}/boot/node.conf >{node.path}/var/lib/cairn/node.conf\n"
        f"cat {node.path}/boot/node.conf >{node.path}/run/cairn/node-conf.good\n"
        f": >{node.path}/run/cairn/node-conf.records",
    )
    node.trial()
    (node.tools / "sleep").unlink()
    assert node.read("boot/node.conf") == own
    for name in ("run/cairn/node-conf.good", "var/lib/cairn/node.conf"):
        assert node.read(name) == own
        assert (node.path / name).stat().st_mode & 0o777 == 0o600
    install(node, "--no-reboot", node.file(node.bundle("3.0.0")))
    assert node.read("var/lib/cairn/update/node.conf") == own


def test_last_good_node_conf_for_which_there_is_no_room(node: UpdateNode) -> None:
    """None is noted then: the owner's file is not taken for the beginning of the other one."""
    own = "hostname=attic\n"
    rollback_to(node, f"{own}proxy=192.0.2.1:9050\n", own)
    node_config(node)
    fails(node, "sync", "*/cairn/node.conf.new")
    assert "Your own node.conf is in place" in node.run("node-update", "cancel")
    assert not node.read("var/lib/cairn/node.conf")
    assert node.read("run/cairn/node-conf.good") == own


def test_last_good_node_conf_that_is_another_one_stays(node: UpdateNode) -> None:
    """The owner has written it after the rollback was prepared."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    node_config(node)
    node.write("var/lib/cairn/node.conf", "hostname=loft\n")
    node.run("node-update", "cancel")
    assert node.read("var/lib/cairn/node.conf") == "hostname=loft\n"
    assert node.read("run/cairn/node-conf.good") == "filters=1\n"


def test_kept_node_conf_changes_after_a_rollback_is_prepared(node: UpdateNode) -> None:
    """The owner's own file comes back, and no second rollback overwrites its copy."""
    own = "filters=1\n"
    rollback_to(node, "hostname=attic\n", own)
    node.write("var/lib/cairn/update/node.conf", "hostname=cellar\n")
    said = node.run("node-update", "rollback", "--node-conf", "--no-reboot", status=1)
    assert "a rollback is prepared already, with the kept node.conf as it was then" in said
    assert node.read("var/lib/cairn/update/node.conf.replaced") == own
    assert "Your own node.conf is in place" in node.run("node-update", "cancel")
    assert node.read("boot/node.conf") == own
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert node.read("boot/node.conf").startswith("hostname=cellar\n")
    assert node.read("var/lib/cairn/update/node.conf.replaced") == own


def test_node_conf_that_the_owner_has_written_meanwhile_stays(node: UpdateNode) -> None:
    """And it is said where the one from before is."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    node.write("boot/node.conf", "hostname=loft\n")
    said = node.run("node-update", "cancel")
    assert "node.conf was changed meanwhile and stays; the one from before is" in said
    assert node.read("boot/node.conf") == "hostname=loft\n"
    assert node.read("var/lib/cairn/update/node.conf.replaced") == "filters=1\n"


@pytest.mark.parametrize("program_name", ["sync", "mv"])
def test_power_cut_behind_a_rollback_that_an_installation_takes_back(
    node: UpdateNode, program_name: str
) -> None:
    """Nothing was tried, so nothing "did not stay"."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    program(
        node.tools / program_name,
        'case "$*" in */boot*) kill -KILL $PPID; exit 1 ;; esac\n'
        f'exec /usr/bin/{program_name} "$@"',
    )
    node.run("node-update", "install", node.file(node.bundle("3.0.0")), status=None)
    (node.tools / program_name).unlink()
    node.cut()
    said = node.trial()
    assert "did not stay" not in said + node.screen()
    assert node.read("boot/node.conf") == "filters=1\n"


def test_installation_that_fails_after_a_prepared_rollback(node: UpdateNode) -> None:
    """The rollback's restart is taken back before its node.conf, and the sentence says so."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    fails(node, "mv", "*/node.conf")
    bundle = node.bundle("3.0.0")
    install(node, node.file(bundle), status=1)
    assert node.slots("get-primary") == "b", "2.0.0, which node.conf is for, comes next"
    (node.tools / "mv").unlink()
    (bundle / "signed").unlink()
    said = install(node, node.file(bundle), status=1)
    assert "The rollback that was prepared is taken back. Your own node.conf is in place" in said
    assert "Nothing has changed" not in said
    assert node.read("boot/node.conf") == "filters=1\n"


def test_failure_after_a_prepared_rollback_and_another_node_conf(node: UpdateNode) -> None:
    """Of the rollback nothing is left, which is said although no file has to come back."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    node.write("boot/node.conf", "hostname=third\n")
    bundle = node.bundle("3.0.0")
    (bundle / "signed").unlink()
    said = install(node, node.file(bundle), status=1)
    assert "The rollback that was prepared is taken back. node.conf was changed meanwhile" in said
    assert "Nothing has changed" not in said


def test_rollback_that_is_cancelled(node: UpdateNode) -> None:
    """The owner's node.conf comes back, at the latest with the next start that can write it."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    fails(node, "mv", "*/node.conf")
    said = node.run("node-update", "cancel")
    assert "is not tried at the next restart any more." in said
    assert "node.conf is still the one from before the update" in said
    assert node.slots("get-primary") == node.slots("get-current")
    (node.tools / "mv").unlink()
    present = node.cut().version
    node.trial()
    assert node.read("boot/node.conf") == "filters=1\n"
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert node.read("boot/node.conf").startswith("hostname=attic\n")
    said = node.run("node-update", "cancel")
    assert f"Version {present} stays. Your own node.conf is in place" in said
    assert node.read("boot/node.conf") == "filters=1\n"
    assert not (node.path / "var/lib/cairn/update/trial").exists()
    # It was good, and still is one to go back to.
    assert node.restarted(node.run("node-update", "rollback")).version != present


def test_node_conf_that_was_not_there(node: UpdateNode) -> None:
    """What is remembered of the kept one would be missed: it stays, and that is said before."""
    on_trial(node)
    node.trial()
    (node.boot_folder / "node.conf").unlink()
    node.write("var/lib/cairn/update/node.conf.replaced", "of=another rollback\n")
    said = node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    assert "there is no node.conf, so the kept one stays, whatever becomes of the rollback" in said
    node.run("node-update", "cancel")
    assert node.read("boot/node.conf") == "hostname=attic\n# put back by node-update\n"
    assert node.read("var/lib/cairn/update/node.conf.replaced") == "of=another rollback\n"
    assert not node.read("var/lib/cairn/update/trial")


@pytest.mark.parametrize("returns", [True, False])
def test_node_conf_that_is_in_place_although_its_writing_failed(
    node: UpdateNode, returns: bool
) -> None:
    """Nothing is armed then, and the owner's comes back, at the latest with the next start."""
    count = node.path / "failing"
    count.write_text("x" if returns else "xx")
    program(
        node.tools / "sync",
        f'case "$*" in */boot/node.conf" "*|*/boot/node.conf*/boot) if [ -s {count} ]; then\n'
        f"printf %s $(cut -c2- {count}) >{count}; exit 1; fi ;; esac\n"
        'exec /usr/bin/sync "$@"',
    )
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "filters=1\n")
    said = node.run("node-update", "rollback", "--node-conf", status=1)
    back = "Your own node.conf is in place"
    missing = "yours is /var/lib/cairn/update/node.conf.replaced"
    assert "the new node.conf could not be written. " + (back if returns else "The boot") in said
    assert (missing in said) is not returns
    assert node.slots("get-primary") == "b"
    (node.tools / "sync").unlink()
    node.cut()
    node.trial()
    assert node.read("boot/node.conf") == "filters=1\n"
    assert not node.read("var/lib/cairn/update/trial")


def failing_sync(node: UpdateNode) -> None:
    """Behind the renaming of node.conf, until tools/sync is removed."""
    fails(node, "sync", '*/boot/node.conf" "*|*/boot/node.conf*/boot')


def test_node_conf_that_was_not_there_and_is_perhaps_written(node: UpdateNode) -> None:
    """There is no old one that could still be there, and nothing is armed."""
    on_trial(node)
    node.trial()
    (node.boot_folder / "node.conf").unlink()
    failing_sync(node)
    said = node.run("node-update", "rollback", "--node-conf", "--no-reboot", status=1)
    assert "the new node.conf could not be written, or not for certain" in said
    assert "still there" not in said
    assert "I/O error" not in said
    assert node.slots("get-primary") == "b"


def test_node_conf_that_is_removed_after_a_rollback_is_prepared(node: UpdateNode) -> None:
    """The note of the file that was replaced is not taken for one of the next rollback."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    (node.boot_folder / "node.conf").unlink()
    said = node.run("node-update", "rollback", "--node-conf", "--no-reboot", status=1)
    assert "a rollback is prepared already" in said
    node.run("node-update", "cancel")
    node.run("node-update", "rollback", "--node-conf", "--no-reboot")
    node.run("node-update", "cancel")
    assert node.read("boot/node.conf") == "hostname=attic\n# put back by node-update\n"


def test_rollback_with_the_node_conf_of_one_that_is_prepared(node: UpdateNode) -> None:
    """It is not taken for the owner's own: how that comes back is said."""
    rollback_to(node, "hostname=attic\n", "filters=1\n")
    hint = "to go back with yours, take that back first (node-update cancel)"
    assert hint in node.run("node-update", "rollback", "--no-reboot")
    node.run("node-update", "cancel")
    assert hint not in node.run("node-update", "rollback", "--no-reboot")
    assert node.read("boot/node.conf") == "filters=1\n"


def test_rollback_that_cannot_be_armed(node: UpdateNode) -> None:
    """The owner is told that node.conf is in place again."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "filters=1\n")
    fails(node, "mv", "*tryboot.txt|*+1.conf")
    said = node.run("node-update", "rollback", "--node-conf", status=1)
    assert said.rstrip().endswith(
        "Your own node.conf is in place and counts from the next restart on."
    )
    assert node.read("boot/node.conf") == "filters=1\n"


def test_rollback_that_is_refused_leaves_the_sentence(node: UpdateNode) -> None:
    """What became of the last one is shown by each start until something else happens."""
    on_trial(node)
    node.trial()
    assert node.restarted(node.run("node-update", "rollback")).version == "1.0.0"
    assert node.cut().version == "2.0.0"
    node.trial()
    node.write("boot/node.conf", "tor=only\n")
    node.run("node-update", "rollback", "--node-conf", status=1)
    node.cut()
    node.trial()
    assert node.screen().startswith("Version 1.0.0 did not stay")


def test_node_conf_that_an_earlier_rollback_replaced(node: UpdateNode) -> None:
    """It is for another version: a trial that it was not replaced for does not bring it back."""
    on_trial(node)
    node.trial()
    node.write("boot/node.conf", "filters=1\n")
    assert node.restarted(node.run("node-update", "rollback", "--node-conf")).version == "1.0.0"
    node.trial()
    assert node.restarted(node.run("node-update", "rollback")).version == "2.0.0"
    assert node.cut().version == "1.0.0"
    node.trial()
    assert "Version 2.0.0 did not stay" in node.screen()
    assert node.read("boot/node.conf") == "hostname=attic\n# put back by node-update\n"


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

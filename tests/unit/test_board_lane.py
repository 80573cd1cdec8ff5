"""The board lane without a board: SSH, the serial port, what is set aside, what a board lacks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from robot.api import SkipExecution

from lab import set_aside
from lab.board import Board, Forwarder, Words
from lab.guest_shell import GuestShellError, Result
from lab.machine import Machine
from lab.paths import ROOT
from lab.serial_log import SerialLog, open_port
from lab.ssh_shell import Host, SshShell, reason, remote_command
from lab.under_test import Need
from tests.robot.lib.session import Session, needs_of
from tests.shared.commands import captured, program

OWN = """\
# a node
hostname=attic
sshkey=ssh-ed25519 AAAA= you   # mine
ip=192.168.1.50/24
dns=192.168.1.1
dns=0
proxy=192.168.1.60:9050
[signet]
prune=550
"""


# -- words ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("attic", "attic", 22),
        ("attic.local:2222", "attic.local", 2222),
        ("192.168.1.50", "192.168.1.50", 22),
        ("fe80::1", "fe80::1", 22),
        ("[fe80::1%eth0]:2222", "fe80::1%eth0", 2222),
    ],
)
def test_host(text: str, name: str, port: int) -> None:
    """A name or an address of either kind, with or without a port; written with it."""
    host = Host.parse(text)
    assert (host.name, host.port) == (name, port)
    assert Host.parse(str(host)) == host
    assert Host.parse(text, 8333).port == (8333 if port == 22 else port)


@pytest.mark.parametrize(
    "text", ["", "root@attic", "a b", "-oProxyCommand=x", "attic:0", "a:99999"]
)
def test_no_host(text: str) -> None:
    """What ssh would take for something else, or nobody can reach."""
    with pytest.raises(ValueError):
        Host.parse(text)


def test_words() -> None:
    """A blank word is none."""
    words = Words.read({"BOARD_HOST": "attic", "BOARD_POWER": " relay 3 ", "BOARD_KEY": " "})
    assert words == Words(host="attic", power="relay 3")


# -- SSH -----------------------------------------------------------------------------


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshShell:
    """A client whose `ssh` runs the command on this machine, with a socket as the real one's."""
    body = """\
socket='' last=''
for word; do
	case $word in ControlPath=*) socket=${word#ControlPath=} ;; esac
	last=$word
done
case " $* " in
*" ControlMaster=yes "*)
	[ ! -e "$REFUSE" ] || { cat "$REFUSE" >&2; exit 255; }
	: >"$socket"
	exec sleep 60
	;;
esac
[ -e "$socket" ] || exit 255
exec sh -c "$last"
"""
    program(tmp_path / "bin/ssh", body)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("REFUSE", str(tmp_path / "refuse"))
    return SshShell(Host("attic"), known_hosts=tmp_path / "known hosts")


def test_ssh_runs_scripts(ssh: SshShell) -> None:
    """Status and output as they are; whatever is quoted; no input."""
    assert ssh.run("echo 'it''s' \"$((1 + 1))\"; echo x >&2; exit 3", 20) == Result(
        3, "its 2\n", "x\n"
    )
    assert ssh.run("cat; exit 0", 20) == Result(0, "", "")
    # 255 is what the client says when it has no connection
    assert ssh.run("exit 255", 20).status == 254
    assert ssh.connected()
    ssh.close()
    assert not ssh.connected()


def test_ssh_files(ssh: SshShell, tmp_path: Path) -> None:
    """Bytes as they are, in a path that is not."""
    data = bytes(range(256)) * 5000
    path = str(tmp_path / "it's a file")
    ssh.send(data, path, 20)
    assert ssh.fetch(path, 20) == data
    with pytest.raises(GuestShellError, match="cannot be read"):
        ssh.fetch(f"{path}.none", 20)
    ssh.close()


def test_ssh_says_why(ssh: SshShell, tmp_path: Path) -> None:
    """A key that is not accepted, another host key, an answer that does not come."""
    (tmp_path / "refuse").write_text("root@attic: Permission denied (publickey).\n")
    with pytest.raises(GuestShellError, match="does not accept the key"):
        ssh.run("true", 20)
    (tmp_path / "refuse").write_text("@ REMOTE HOST IDENTIFICATION HAS CHANGED! @\nx\n")
    with pytest.raises(GuestShellError, match="host key is another one"):
        ssh.wait(0)
    (tmp_path / "refuse").unlink()
    with pytest.raises(GuestShellError, match="no answer after 1 s"):
        ssh.run("sleep 5", 1)
    ssh.close()
    assert reason("") == "the client said nothing"


def test_ssh_notices_the_end(ssh: SshShell) -> None:
    """A connection that has ended is made again by the next request."""
    ssh.run("true", 20)
    assert ssh.master is not None
    ssh.master.kill()
    ssh.wait_for_the_end(20)
    assert not ssh.connected()
    assert ssh.run("echo again", 20).stdout == "again\n"
    ssh.close()


def test_remote_command_does_without_the_shell_of_root() -> None:
    """It is one line for any shell, and what it runs is sh."""
    done = subprocess.run(
        ["bash", "-c", remote_command("printf %s 'a\nb'; exit 7")], check=False, capture_output=True
    )
    assert (done.returncode, done.stdout) == (7, b"a\nb")


# -- the serial port -----------------------------------------------------------------


def test_serial_port(tmp_path: Path) -> None:
    """What comes is in the log, from the last start on; a port that comes back is read again."""
    near, far = os.openpty()
    link = tmp_path / "serial"
    link.symlink_to(os.ttyname(far))
    log = SerialLog(str(link), tmp_path / "log/serial.log")
    log.mark()  # of nothing: the report cuts the power without a log
    log.start()
    os.write(near, b"before\r\n")
    wait_for(log, "before")
    log.mark()
    os.write(near, b"\x1b[1mafter\x1b[0m\r\n")
    wait_for(log, "after")
    assert "before" not in log.text()
    os.close(far)
    os.close(near)
    near, far = os.openpty()
    link.unlink()
    link.symlink_to(os.ttyname(far))
    deadline = time.monotonic() + 20
    while "again" not in log.text() and time.monotonic() < deadline:
        os.write(near, b"again\r\n")
        time.sleep(0.1)
    assert "again" in log.text()
    log.stop()
    os.close(far)
    os.close(near)


def wait_for(log: SerialLog, words: str) -> None:
    """At most 20 s."""
    deadline = time.monotonic() + 20
    while words not in log.text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert words in log.text()


def test_no_serial_port(tmp_path: Path) -> None:
    """None there, or a speed that no port has."""
    with pytest.raises(OSError):
        SerialLog(str(tmp_path / "none"), tmp_path / "log").start()
    with pytest.raises(ValueError, match="115200 is the usual one"):
        open_port("/dev/null,fast")


# -- what is set aside ---------------------------------------------------------------


class Node:
    """A made-up node's folders, and commands that would do something to this machine."""

    def __init__(self, root: Path) -> None:
        """With wallets, what scripts remember, and node.conf."""
        self.root = root
        for path, text in {
            "var/lib/bitcoind/wallets/savings": "keys",
            "var/lib/bitcoind/chainstate/CURRENT": "old",
            "var/lib/cairn/ssh/key": "host",
            "var/lib/cairn/health/counts": "counts",
            "var/lib/cairn/prune.main": "0",
            "var/lib/cairn/probe/result": "fast",
            "var/lib/cairn/.hidden": "h",
            "boot/node.conf": OWN,
        }.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for name in ("systemctl", "mount", "sync"):
            program(root / "bin" / name, f'echo "{name} $*" >>{root}/asked')
        program(root / "bin/df", "printf 'x\\n/dev/x 9 9 %s 9 /var\\n' ${FREE:-99999}")

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """With these folders in the place of /var/lib and /boot."""
        for folder in ("/var/lib", "/boot"):
            script = script.replace(folder, f"{self.root}{folder}")
        path = f"{self.root}/bin:{os.environ['PATH']}"
        shell = shutil.which("dash") or "sh"
        return subprocess.run(
            [shell, "-c", script],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path, **environment},
        )

    def files(self) -> dict[str, str]:
        """All files below the folders, with their text."""
        return {
            str(file.relative_to(self.root)): file.read_text()
            for folder in ("var", "boot")
            for file in (self.root / folder).rglob("*")
            if file.is_file()
        }


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """One."""
    return Node(tmp_path / "node")


def test_take_and_back(node: Node) -> None:
    """All is as before; in between nothing of the owner's is where the tests work."""
    before = node.files()
    assert node.run(set_aside.TAKE).returncode == 0
    assert "systemctl stop" in (node.root / "asked").read_text().splitlines()[0]
    during = node.files()
    assert during["var/lib/cairn/ssh/key"] == "host"
    assert during["var/lib/cairn-aside/bitcoind/wallets/savings"] == "keys"
    assert not [name for name in during if name.startswith("var/lib/bitcoind")]
    assert sorted(name for name in during if name.startswith("var/lib/cairn/")) == [
        "var/lib/cairn/health/counts",
        "var/lib/cairn/ssh/key",
    ]
    # what tests leave
    (node.root / "var/lib/bitcoind/wallets").mkdir(parents=True)
    (node.root / "var/lib/bitcoind/wallets/purse").write_text("test")
    (node.root / "var/lib/cairn/rebuild").write_text("now")
    (node.root / "new.conf").write_text("networkactive=0\n")
    assert node.run(set_aside.write_conf(str(node.root / "new.conf"))).returncode == 0
    assert (node.root / "boot/node.conf").read_text() == "networkactive=0\n"
    assert node.run(set_aside.back(keep=False)).returncode == 0
    assert node.files() == before


def test_back_deletes_nothing_after_an_interruption(node: Node) -> None:
    """Somebody may have used the node since: a wallet of that time is kept."""
    before = node.files()
    node.run(set_aside.TAKE)
    (node.root / "var/lib/bitcoind/wallets").mkdir(parents=True)
    (node.root / "var/lib/bitcoind/wallets/new").write_text("money")
    assert node.run(set_aside.back(keep=True)).returncode == 0
    after = node.files()
    assert after.pop("var/lib/cairn-aside.tests/bitcoind/wallets/new") == "money"
    assert after == before


@pytest.mark.parametrize("at", ["cairn-aside.new/bitcoind", "cairn-aside.new/cairn"])
def test_take_that_was_cut_off(node: Node, at: str) -> None:
    """Half of it is aside: nothing is taken once more, and the whole comes back."""
    before = node.files()
    broken = set_aside.TAKE.replace("sync\nmv $aside.new $aside\nsync\n", "exit 9\n")
    if at.endswith("cairn"):
        broken = broken.replace("mv /var/lib/bitcoind $aside.new/bitcoind\n", "exit 9\n")
    assert node.run(broken).returncode == 9
    again = node.run(set_aside.TAKE)
    assert again.returncode == 1 and "already" in again.stderr
    assert node.run(set_aside.back(keep=True)).returncode == 0
    assert node.files() == before


#: Each command counts down in a file, and at zero all is killed before it runs. They are functions
#: because busybox's sh does not look for its own commands in PATH.
CUT = """\
step() {
	read -r left <ROOT/steps
	echo $((left - 1)) >ROOT/steps
	[ "$left" -gt 0 ] || kill -9 0
}
"""


class CutNode(Node):
    """One whose power fails, and which starts then."""

    def __init__(self, root: Path, shell: str) -> None:
        """``shell``: what runs the scripts."""
        super().__init__(root)
        self.shell = shell.split()
        self.own = self.files()
        self.cut = CUT.replace("ROOT", str(root))
        for name in ("cp", "mv", "rm", "mkdir", "rmdir", "cmp", "grep"):
            self.cut += f'{name}() {{ step; command {name} "$@"; }}\n'
        for name in ("systemctl", "mount", "sync", "df"):
            self.cut += f'{name}() {{ step; {root}/bin/{name} "$@"; }}\n'

    def run_until(self, script: str, steps: int) -> bool:
        """Runs it, but for what comes after so many commands; whether it was cut off."""
        (self.root / "steps").write_text(f"{steps}\n")
        for folder in ("/var/lib", "/boot"):
            script = script.replace(folder, f"{self.root}{folder}")
        done = subprocess.run(
            [*self.shell, "-c", self.cut + script],
            check=False,
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        assert done.returncode in (0, -9), done.stderr
        return done.returncode != 0

    def start(self) -> None:
        """It starts: the owner's chain never without what belongs to it. It makes what is missing.

        What the tests have left is damaged, and is to be rebuilt.
        """
        now = self.files()
        if now.get("var/lib/bitcoind/chainstate/CURRENT") == "old":
            for name in ("boot/node.conf", "var/lib/cairn/prune.main"):
                assert now.get(name) == self.own[name]
            assert "var/lib/cairn/rebuild-wanted" not in now
        elif (self.root / "var/lib/bitcoind").exists():
            (self.root / "var/lib/cairn/rebuild-wanted").write_text("main")
        for name in ("var/lib/bitcoind/blocks", "var/lib/cairn/probe"):
            (self.root / name).mkdir(parents=True, exist_ok=True)

    def has_aside(self) -> bool:
        """Whether there is anything to put back, or to tidy up."""
        ends = ("", ".new", ".done")
        return any((self.root / f"var/lib/cairn-aside{end}").exists() for end in ends)

    def is_whole(self) -> None:
        """The owner has all again, and nothing else but what was moved out of the way."""
        now = self.files()
        kept = {name for name in now if name.startswith("var/lib/cairn-aside.tests")}
        assert {name: text for name, text in now.items() if name not in kept} == self.own
        assert not self.has_aside()


SHELLS = pytest.mark.parametrize(
    ("shell", "keep"), [("dash", False), ("dash", True), ("busybox sh", False)]
)


@SHELLS
def test_power_cut_while_it_is_put_back(tmp_path: Path, shell: str, keep: bool) -> None:
    """At each command, then at another one of the next attempt: all comes back in the end."""
    node, saved = CutNode(tmp_path / "node", shell), tmp_path / "saved"
    assert not node.run_until(set_aside.TAKE, 999)
    (node.root / "new.conf").write_text("prune=550\n")
    assert not node.run_until(set_aside.write_conf(str(node.root / "new.conf")), 999)
    node.start()
    (node.root / "var/lib/cairn/prune.main").write_text("550")
    (node.root / "var/lib/cairn/reindex-done.main").touch()
    shutil.copytree(node.root, saved)
    for steps in range(999):
        cut = node.run_until(set_aside.back(keep), steps)
        if not cut:
            break
        for more in (steps * 7 % 23, 999):
            node.start()
            if node.has_aside():
                cut = node.run_until(set_aside.back(True), more)
        assert not cut or not node.has_aside()
        node.is_whole()
        # nothing of the tests' was deleted
        assert not keep or "550" in node.files().values()
        shutil.rmtree(node.root)
        shutil.copytree(saved, node.root)
    assert steps > 20
    node.is_whole()


@SHELLS
def test_power_cut_while_it_is_taken(tmp_path: Path, shell: str, keep: bool) -> None:
    """At each command; what was not synced is empty then. node.conf is the owner's all along."""
    node, saved = CutNode(tmp_path / "node", shell), tmp_path / "saved"
    shutil.copytree(node.root, saved)
    for steps in range(999):
        cut = node.run_until(set_aside.TAKE, steps)
        if not cut:
            break
        asked = (node.root / "asked").read_text() if (node.root / "asked").exists() else ""
        new = node.root / "var/lib/cairn-aside.new"
        if "\nsync" not in asked and new.exists():
            for file in new.iterdir():
                if file.is_file():
                    file.write_text("")
        moved, only_new = (new / "bitcoind").exists(), new.exists()
        if moved:
            node.start()
        before = (node.root / "boot/node.conf").stat().st_ino
        if node.has_aside():
            assert not node.run_until(set_aside.back(keep), 999)
        if only_new:
            assert (node.root / "boot/node.conf").stat().st_ino == before
        node.is_whole()
        shutil.rmtree(node.root)
        shutil.copytree(saved, node.root)
    assert steps > 8


@pytest.mark.parametrize("command", ["cp", "mv", "cmp", "sync", "mount"])
def test_node_conf_that_cannot_be_written(node: Node, command: str) -> None:
    """The only copy of the owner's, and its data, stay where they are; later all comes back."""
    before = node.files()
    assert node.run(set_aside.TAKE).returncode == 0
    (node.root / "boot/node.conf").write_text("prune=550\n")
    (node.root / "new.conf").write_text("dbcache=5\n")
    during = node.files()
    usual = node.root / "bin" / command
    kept = usual.read_text() if usual.exists() else ""
    program(usual, "echo 'no space' >&2; exit 1")
    for script in (set_aside.write_conf(f"{node.root}/new.conf"), set_aside.back(keep=False)):
        done = node.run(script)
        assert done.returncode == 1
        assert "written" in done.stderr
        left = node.files()
        # mv was done already when cmp, or the last sync, says no
        left["boot/node.conf"] = during["boot/node.conf"]
        assert left == during
    usual.unlink()
    if kept:
        program(usual, kept)
    assert node.run(set_aside.back(keep=False)).returncode == 0
    assert node.files() == before


def test_empty_copy_of_node_conf(node: Node) -> None:
    """It is never made node.conf, and nothing is moved."""
    assert node.run(set_aside.TAKE).returncode == 0
    (node.root / "var/lib/cairn-aside/node.conf").write_text("")
    during = node.files()
    done = node.run(set_aside.back(keep=True))
    assert done.returncode == 1 and "is empty" in done.stderr
    assert node.files() == during


def test_take_refuses(node: Node) -> None:
    """Without room, or without a node.conf to keep: nothing is changed."""
    before = node.files()
    done = node.run(set_aside.TAKE, FREE="100")
    assert done.returncode == 1 and "only 100 MiB are free" in done.stderr
    assert node.run(set_aside.back(keep=True)).returncode == 1
    (node.root / "boot/node.conf").unlink()
    assert node.run(set_aside.TAKE).returncode == 1
    assert node.files() == {name: text for name, text in before.items() if "boot" not in name}
    assert not (node.root / "asked").exists()


def test_conf_for_tests() -> None:
    """The way in stays; nothing else of the owner's; no network unless the tests name a peer."""
    text = set_aside.conf_for_tests(OWN, "prune=550\n[regtest]\nprune=1\n")
    assert text.splitlines() == [
        "hostname=attic",
        "sshkey=ssh-ed25519 AAAA= you   # mine",
        "ip=192.168.1.50/24",
        "dns=192.168.1.1",
        "networkactive=0",
        "prune=550",
        "[regtest]",
        "prune=1",
    ]
    # the data are looked for where they are, and nothing is erased for the tests
    kept = set_aside.conf_for_tests("datadisk=S1\nerase=S1\n", "")
    assert kept.splitlines() == ["datadisk=S1", "networkactive=0"]
    assert "networkactive" not in set_aside.conf_for_tests(OWN, "connect=10.0.2.100:8333\n")
    assert set_aside.settings_of(OWN) == {"dns", "proxy", "prune"}
    assert set_aside.settings_of("#prune=1\n\nsshkey=ssh-ed25519 AAAA= x\n") == set()


class Ssh:
    """root's shell on the made-up node, which has another boot after each reboot."""

    def __init__(self, node: Node) -> None:
        """Nothing was asked yet."""
        self.node = node
        self.boots = 0

    def run(self, script: str, timeout: float) -> Result:
        """Runs it there."""
        if "boot_id" in script:
            return Result(0, f"boot {self.boots}\n", "")
        if "serial-number" in script:
            return Result(0, "", "")
        if script.endswith("reboot"):
            self.boots += 1
            return Result(0, "", "")
        done = self.node.run(script.replace("/run/", f"{self.node.root}/run-"))
        return Result(done.returncode, done.stdout, done.stderr)

    def send(self, data: bytes, path: str, timeout: float) -> None:
        """Writes a file there."""
        Path(path.replace("/run/", f"{self.node.root}/run-")).write_bytes(data)

    def wait(self, timeout: float) -> None:
        """It is up at once."""

    def wait_for_the_end(self, seconds: float) -> None:
        """It goes down at once."""

    def close(self) -> None:
        """There is no connection."""


def given_up(node: Node, monkeypatch: pytest.MonkeyPatch, word: str) -> tuple[Board, Ssh]:
    """A board that is this node; ``word``: BOARD_MAY_WIPE."""
    made, ssh = Board(Words(host="attic", may_wipe=word)), Ssh(node)
    for name in ("run", "send", "wait", "wait_for_the_end", "close"):
        monkeypatch.setattr(made.ssh, name, getattr(ssh, name))
    return made, ssh


def test_suite_on_data_of_its_own(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the beginning of a suite to its end, with a new node.conf in the middle."""
    before = node.files()
    made, ssh = given_up(node, monkeypatch, "yes")
    made.begin("prune=550\n", [], 10)
    made.power_on()
    made.wait(10)
    conf = (node.root / "boot/node.conf").read_text()
    assert conf.endswith("networkactive=0\nprune=550\n") and "sshkey=" in conf
    assert "proxy" not in conf
    made.shut_down(10)
    made.put_node_conf(b"dbcache=5\n")
    made.power_on()
    made.wait(10)
    assert "dbcache=5" in (node.root / "boot/node.conf").read_text()
    with pytest.raises(AssertionError, match="might not be reached"):
        made.put_node_conf(b"ip=10.0.2.77/24\n")
    # a run that is cut off here: the next one does not begin, and deletes nothing
    other, _ = given_up(node, monkeypatch, "yes")
    with pytest.raises(AssertionError, match="make board-restore BOARD_HOST=attic"):
        other.begin(None, [], 10)
    made.kill()
    assert node.files() == before
    assert ssh.boots == 3


def test_suite_without_consent(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is touched."""
    before = node.files()
    made, ssh = given_up(node, monkeypatch, "")
    made.begin(None, [], 10)
    made.power_on()
    made.wait(10)
    with pytest.raises(AssertionError):
        made.put_node_conf(b"prune=550\n")
    made.kill()
    assert node.files() == before
    assert ssh.boots == 1
    assert not (node.root / "asked").exists()


# -- what a board lacks --------------------------------------------------------------


class Answers:
    """A shell that answers by what is in the script."""

    def __init__(self, **said: str) -> None:
        """``number``: the serial number; ``conf``: node.conf."""
        self.said = said

    def run(self, script: str, timeout: float) -> Result:
        """As the board would."""
        answer = self.said.get("number" if "serial-number" in script else "conf", "")
        return Result(0, answer, "")


def board(monkeypatch: pytest.MonkeyPatch, words: Words, **said: str) -> Board:
    """One that answers so."""
    made = Board(words)
    monkeypatch.setattr(made.ssh, "run", Answers(**said).run)
    return made


def test_lacks_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the owner does not say is not done. A virtual machine lacks nothing."""
    bare = board(monkeypatch, Words(host="attic"), number="10000000abcdef", conf=OWN)
    assert [need for need in Need if not bare.lacks(need)] == []
    assert "BOARD_MAY_WIPE='10000000abcdef'" in bare.lacks(Need.DATA)
    assert "dns, proxy, prune" in bare.lacks(Need.SETTINGS)
    machine = Machine()
    assert [need for need in Need if machine.lacks(need)] == []


def test_lacks_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word allows what it is for; never another disk, hardware, or network."""
    words = Words(
        host="attic", power="p", serial="/dev/null", feeder="10.0.0.2", may_wipe="10000000abcdef"
    )
    full = board(monkeypatch, words, number="10000000abcdef", conf="sshkey=ssh-ed25519 A b\n")
    never = [need for need in Need if full.lacks(need)]
    assert never == [Need.DISK, Need.HARDWARE, Need.NETWORK]


@pytest.mark.parametrize(
    ("number", "word", "given_up"),
    [
        ("10000000abcdef", "10000000abcdef", True),
        ("10000000abcdef", "yes", False),
        ("10000000abcdef", "10000000abcde0", False),
        ("", "yes", True),
        ("", "true", False),
        ("a'b", "yes", True),
    ],
)
def test_consent_is_for_one_machine(
    monkeypatch: pytest.MonkeyPatch, number: str, word: str, given_up: bool
) -> None:
    """The word of another machine gives nothing up; one without a number has the word yes."""
    made = board(monkeypatch, Words(host="attic", may_wipe=word), number=number)
    assert (made.lacks(Need.DATA) == "") == given_up


def test_needs_of_node_conf() -> None:
    """A text that would cut the way off, or make another file system, is for a virtual machine."""
    assert needs_of("prune=550\n") == [Need.DATA]
    assert needs_of("hostname=x\nip=10.0.2.77/24\n") == [Need.DATA, Need.NETWORK]
    assert needs_of("filesystem=f2fs\n") == [Need.DISK]
    assert needs_of("datadisk=S1\nerase=S1\n") == [Need.DISK]
    assert needs_of("hex:7f45") == [Need.DISK]


def test_skip_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's log has the need and the reason."""
    session = Session()
    monkeypatch.setattr(
        Session, "machine", property(lambda _: board(monkeypatch, Words(host="attic")))
    )
    with pytest.raises(SkipExecution, match="the power switch: BOARD_POWER= names no command"):
        session.need(Need.POWER)


def test_feeder_of_node_conf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place on QEMU's network is replaced; one peer a port."""
    made = board(monkeypatch, Words(host="attic", feeder="192.168.1.7"))
    made.ports = [18660, 18661]
    text = "connect=10.0.2.100:8333\nconnect=10.0.2.100:8334\nbind=10.0.2.15\n"
    assert made.with_feeder(text) == (
        "connect=192.168.1.7:18660\nconnect=192.168.1.7:18661\nbind=10.0.2.15\n"
    )
    made.words = Words(host="attic", feeder="[fd00::7]:9000")
    assert made.with_feeder("connect=10.0.2.100:8334") == "connect=[fd00::7]:9001"


def test_forwarder() -> None:
    """Connections of the board are handed on, others are not taken."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        inner = server.getsockname()[1]
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            outer = free.getsockname()[1]
        for client, taken in (("127.0.0.1", True), ("10.9.8.7", False)):
            forwarder = Forwarder("127.0.0.2", [(outer, inner)], client)
            assert reaches("127.0.0.2", outer, server) is taken
            forwarder.stop()
    # somebody else's address: nothing is listened on
    assert Forwarder("192.0.2.1", [(outer, inner)], "127.0.0.1").processes == []


def reaches(address: str, port: int, server: socket.socket) -> bool:
    """Whether a connection to the first comes out at the second."""
    server.settimeout(2)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as client:
            client.bind(("127.0.0.1", 0))
            try:
                client.connect((address, port))
            except ConnectionRefusedError:  # socat has not begun
                time.sleep(0.1)
                continue
            try:
                server.accept()[0].close()
            except TimeoutError:
                return False
            return True
    return False


def test_power_command(tmp_path: Path) -> None:
    """A shell runs it, with the state as its last word; its failure is told."""
    said = tmp_path / "it is"
    made = Board(Words(host="attic", power=f"printf '%s|' relay \"it's 3\" >'{said}'"))
    made.switch("off")
    assert said.read_text() == "relay|it's 3|off|"
    # the example of docs/develop/board-lane.md, for a word in the middle of another one
    inner = f"printf %s relay/\\$1/x >'{said}'"
    made.words = Words(host="attic", power=f'sh -c "{inner}" relay')
    made.switch("on")
    assert said.read_text() == "relay/on/x"
    made.words = Words(host="attic", power="echo no relay >&2; exit 4; #")
    with pytest.raises(AssertionError, match=r"failed \(4\): no relay"):
        made.switch("on")


def test_no_key(tmp_path: Path) -> None:
    """A file that is not there is told before anything is tried."""
    with pytest.raises(ValueError, match="BOARD_KEY: there is no file"):
        Board(Words(host="attic", key=str(tmp_path / "none")))


# -- the power switch of a board that QEMU plays -------------------------------------


def test_play_power(tmp_path: Path) -> None:
    """On once, again by itself after its end, and off for good."""
    (tmp_path / "tests/board").mkdir(parents=True)
    power = shutil.copy(ROOT / "tests/board/play-power", tmp_path / "tests/board/play-power")
    said = 'echo "$*" >>"$0.asked"; echo "char device redirected to /dev/pts/99 (label serial0)"'
    program(tmp_path / "support/qemu", f"{said}\nexec sh -c 'sleep 60; :' qemu \"$@\"")
    played = tmp_path / "a board"
    played.mkdir()
    (played / "options").write_text("--append\nquiet x\n")
    asked, pid = tmp_path / "support/qemu.asked", played / "qemu.pid"

    def switch(state: str) -> None:
        subprocess.run([power, str(played), state], check=True, timeout=60)

    switch("on")
    switch("on")
    assert (played / "serial").readlink() == Path("/dev/pts/99")
    assert asked.read_text().splitlines() == [
        f"--image {played}/disk.img --serial pty --append quiet x"
    ]
    first = pid.read_text().strip()
    subprocess.run(["kill", "-9", first], check=True)
    deadline = time.monotonic() + 60
    while (last := pid.read_text().strip()) in ("", first) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert last != first
    switch("off")
    assert not pid.exists()
    starts = len(asked.read_text().splitlines())
    time.sleep(1)
    assert len(asked.read_text().splitlines()) == starts
    state = captured("ps", "-o", "stat=", "-p", last).stdout.strip()
    assert state == "" or state.startswith("Z")
    switch("off")

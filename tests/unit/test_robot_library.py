"""The Robot libraries without a machine: what they choose, their shell scripts, their examples.

The scripts for the guest are run by this machine's sh; commands that it may not have, or that would
do something to it, are replaced by ones of the test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from robot.libdocpkg import LibraryDocumentation

from lab.guest_shell import Result
from lab.limits import Traffic
from lab.paths import ROOT
from lab.serial_log import since_power_on
from tests.robot.lib import Damage as damage
from tests.robot.lib import Figures as figures
from tests.robot.lib import Kernel as kernel
from tests.robot.lib import Node as node
from tests.robot.lib import PowerLoss as powerloss
from tests.robot.lib import Units as units
from tests.robot.lib import UpdateCuts as updatecuts
from tests.robot.lib.CairnVM import CairnVM
from tests.robot.lib.Contents import ALLOWED, beyond, compare
from tests.robot.lib.CutLog import CutLog
from tests.robot.lib.Feeder import ports_of_peers
from tests.robot.lib.Files import Files
from tests.robot.lib.session import Session, decode, poll, session

Fake = Callable[[str, str], None]
LIBRARIES = (
    *("CairnVM", "Contents", "Damage", "DataDisks", "Feeder", "Figures", "Files", "Health"),
    *("Kernel", "Network", "Node", "Page", "PowerLoss", "Units", "UpdateCuts"),
    *("Updates", "Wallets"),
)


# -- what is shared ------------------------------------------------------------------


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        """It begins somewhere."""
        self.time = 1000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        """Seconds."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Lets them pass."""
        self.sleeps.append(seconds)
        self.time += seconds


def test_poll() -> None:
    """The first answer counts; between two questions twice the time of an answer, at least 1 s."""
    clock, answers = Clock(), iter([None, None, "yes", "no"])

    def ask() -> str | None:
        clock.time += 0.2 if len(clock.sleeps) == 0 else 3
        return next(answers)

    assert poll(ask, 60, clock.now, clock.sleep) == "yes"
    assert clock.sleeps == [1.0, pytest.approx(6.0)]


def test_poll_gives_up() -> None:
    """After the time, and not before it was asked at least once."""
    clock = Clock()
    assert poll(lambda: None, 5, clock.now, clock.sleep) is None
    assert 5 < sum(clock.sleeps) <= 7
    clock = Clock()
    assert poll(lambda: 0, -1, clock.now, clock.sleep) == 0
    assert poll(lambda: None, -1, clock.now, clock.sleep) is None
    assert clock.sleeps == []


def test_decode() -> None:
    """JSON, or the words themselves."""
    assert decode('{"a": 1}') == {"a": 1}
    assert decode("6") == 6
    assert decode("00ff") == "00ff"


# -- choices -------------------------------------------------------------------------


def test_aims_and_policies() -> None:
    """Each aim meets each policy; another seed begins with another policy."""
    pairs = {(powerloss.aim_of(number), powerloss.policy_of(number, 1)) for number in range(20)}
    assert len(pairs) == 20
    assert powerloss.aim_of(5) == "flush"
    assert [powerloss.policy_of(0, seed) for seed in (0, 1, 4)] == ["reorder", "torn", "reorder"]


def test_random_number() -> None:
    """It depends on seed and number, and is in the range."""
    numbers = [powerloss.random_number(1, number, 3, 25) for number in range(50)]
    assert numbers == [powerloss.random_number(1, number, 3, 25) for number in range(50)]
    assert len(set(numbers)) == 50
    assert all(3 <= number <= 25 for number in numbers)
    assert powerloss.random_number(2, 0, 3, 25) != numbers[0]


@pytest.mark.parametrize(
    ("end", "height", "flushed", "expected"),
    [
        ("up", 500, ["400", "500"], "recovered"),
        ("up", 499, ["400", "500"], "lost"),
        ("up", 0, [], "recovered"),
        ("held", 0, ["500"], "held"),
        ("rebuilt", 0, ["500"], "rebuilt"),
    ],
)
def test_end_of_a_lying_disk(end: str, height: int, flushed: list[str], expected: str) -> None:
    """A node that is up has lost something if it is below the last flush that was acknowledged."""
    assert powerloss.lying_end(end, height, flushed) == expected


@pytest.mark.parametrize(
    ("ends", "harm"),
    [([], False), (["recovered"], False), (["recovered", "lost"], True), (["held"], True)],
)
def test_lies_are_found_out(ends: list[str], harm: bool) -> None:
    """One bad end is enough; no cut is none."""
    library = powerloss.PowerLoss()
    library.ends = ends
    if harm:
        library.the_lies_should_have_been_found_out()
    else:
        with pytest.raises(AssertionError, match="was not found out"):
            library.the_lies_should_have_been_found_out()


@pytest.mark.parametrize(
    ("console", "answers", "end"),
    [
        ("", False, ""),
        ("", True, "up"),
        ("! A database is damaged (x", True, "rebuilt"),
        ("! A database is damaged (x", False, ""),
        ("bitcoind stays stopped", False, "held"),
        ("bitcoind stays stopped", True, "up"),
        ("! The node cannot start", True, "no boot"),
    ],
)
def test_boot_end(console: str, answers: bool, end: str) -> None:
    """What the console says, and whether the node answers."""
    assert damage.boot_end(console, answers) == end


@pytest.mark.parametrize(
    ("height", "pruned", "blocks"),
    [(14131, 0, 1100), (1200, 1000, 200), (5, 5, 1), (0, 0, 1), (900, 901, 0)],
)
def test_blocks_to_verify(height: int, pruned: int, blocks: int) -> None:
    """Those that Core fetches ahead, if they are not pruned; at least one, if there is one."""
    assert node.blocks_to_verify(height, pruned) == blocks


def test_nesting() -> None:
    """Arrays in arrays, and a tree of scripts."""
    assert node.nested_array(3) == "[[[]]]"
    assert node.nested_descriptor("k", 2) == "tr(k,{pk(k),{pk(k),pk(k)}})"
    assert json.loads(node.nested_array(100))


def test_ports_of_peers() -> None:
    """Behind the feeder's own two."""
    assert ports_of_peers(18655, 3) == "18660 18661 18662"


def test_suites_have_ports_of_their_own() -> None:
    """The feeder's two, its peers' and each suite's: one that is in use fails, after minutes."""
    files = [ROOT / "tests/robot/resources/node.resource", *ROOT.glob("tests/robot/*.robot")]
    lines = "\n".join(path.read_text() for path in files)
    ports = re.findall(r"^\$\{(\w+_PORT)\} +\$\{(\d+)\}", lines, re.M)
    found = {name: int(port) for name, port in ports}
    feeder = found.pop("FEEDER_PORT")
    used = [feeder, feeder + 1, *(int(port) for port in ports_of_peers(feeder, 8).split())]
    assert len(found) > 1
    assert not set(found.values()) & set(used)
    assert len(set(found.values())) == len(found)


def test_least_seconds() -> None:
    """By requests or by bytes, whatever takes longer."""
    card = "iops-read=1,iops-write=10,bps-read=1,bps-write=100"
    assert figures.least_seconds(Traffic(0, 100, 50, 0), card) == 5
    assert figures.least_seconds(Traffic(0, 900, 50, 0), card) == 9


def test_largest_size() -> None:
    """Of each setting the last line counts."""
    text = "A=100M\nA=8M\nB=16M\n#B=99M\n"
    assert units.largest_size(text, "A|B") == 16


def test_missing_lines() -> None:
    """Whole lines: a longer one is another setting."""
    text = "permittunnel no\nmaxsessions 40\n"
    assert units.missing_lines(text, ("permittunnel no", "maxsessions 4")) == ["maxsessions 4"]


def test_other_values() -> None:
    """The value stands behind the last colon."""
    text = "/proc/sys/a:0\n/proc/sys/b:1\n/proc/sys/c:0:1:0\n/proc/sys/d:10"
    assert kernel.other_values(text, "0") == ["/proc/sys/b:1", "/proc/sys/d:10"]


def test_names_matched() -> None:
    """A pattern that matches no setting would make a test of nothing."""
    text = "/proc/sys/net/ipv4/conf/all/x:0\n/proc/sys/kernel/panic:10"
    assert kernel.names_matched(text, ("net.ipv4.conf.*.x", "kernel.panic"))
    assert not kernel.names_matched(text, ("net.ipv4.conf.*.x", "net.ipv4.conf.*.y"))
    assert not kernel.names_matched("", ("kernel.panic",))


def test_cut_log(tmp_path: Path) -> None:
    """A line a cut: recovered, lost, wrong, and stuck if the test ends before the node is up."""
    path = tmp_path / "cuts.jsonl"
    log = CutLog(lambda: path)
    log.begin(engine="lmdb", flushed=7)
    log.end(7)
    log.begin(engine="lmdb", flushed=7)
    log.end(6)
    log.begin(engine="lmdb", flushed=7)
    log.end_test("it did not come up")
    log.end_test("nothing began")
    log.begin(engine="lmdb", flushed=7)
    log.wrong("another's kernel")
    cuts = [json.loads(line) for line in path.read_text().splitlines()]
    assert [cut["outcome"] for cut in cuts] == ["recovered", "lost", "stuck", "wrong"]
    assert [cut.get("height") for cut in cuts] == [7, 6, None, None]
    assert cuts[2]["message"] == "it did not come up"
    with pytest.raises(AssertionError, match="no recovery has begun"):
        log.end(1)


def test_each_stage_of_an_update_with_each_policy() -> None:
    """Twenty cuts have them all, whatever the seed."""
    stages, policies = updatecuts.STAGES, powerloss.POLICIES
    for seed in range(4):
        pairs = {
            (stages[number % len(stages)], powerloss.policy_of(number, seed))
            for number in range(len(stages) * len(policies))
        }
        assert len(pairs) == len(stages) * len(policies)


@pytest.mark.parametrize(
    ("console", "begun"),
    [
        ("Welcome to Cairn 9.1.0!\n=== power on ===\nEFI stub\n", False),
        ("=== power on ===\nWelcome to \x1b[1mCairn 9.2.0\x1b[0m!\n", True),
        ("=== power on ===\nWelcome to Cairn 9.2", False),
        ("=== power on ===\nWelcome to Cairn 9.1.0!\n", None),
    ],
)
def test_version_that_has_begun(
    monkeypatch: pytest.MonkeyPatch, console: str, begun: bool | None
) -> None:
    """Its greeting since the last start counts; that of another version is a failure."""
    process = SimpleNamespace(poll=lambda: None)
    machine = SimpleNamespace(serial_log=lambda: since_power_on(console), process=process)
    monkeypatch.setattr(Session, "virtual", machine)
    cuts = updatecuts.UpdateCuts()
    if begun is None:
        with pytest.raises(AssertionError, match=r"version 9\.1\.0 is started"):
            cuts._system_has_begun("9.2.0", 0)
    else:
        assert cuts._system_has_begun("9.2.0", 0) is begun
    if begun is False:
        process.poll = lambda: 0
        with pytest.raises(AssertionError, match="it had ended before the cut"):
            cuts._system_has_begun("9.2.0", 60)


# -- scripts for the guest -----------------------------------------------------------


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Keywords reach this machine's sh; the function puts a command there before all others."""
    programs = tmp_path / "programs"
    programs.mkdir()

    def result(_: Session, script: str, timeout: float = 120) -> Result:
        path = f"PATH={programs}:$PATH\n"
        done = subprocess.run(
            ["sh", "-c", path + script], check=False, capture_output=True, text=True, timeout=60
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def put(name: str, body: str) -> None:
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)

    monkeypatch.setattr(Session, "result", result)
    monkeypatch.setattr(Session, "seconds", lambda _, seconds: 0.0)
    return put


def test_guest_should_refuse(fake: Fake) -> None:
    """It fails, with these words on stderr."""
    vm = CairnVM()
    vm.guest_should_refuse("echo it is Read-only >&2; false", "Read-only")
    with pytest.raises(AssertionError, match="succeeded"):
        vm.guest_should_refuse("echo Read-only >&2", "Read-only")
    with pytest.raises(AssertionError, match="did not say 'Read-only', but: No space"):
        vm.guest_should_refuse("echo Read-only; echo No space >&2; false", "Read-only")


def test_guest_should_succeed_within(fake: Fake) -> None:
    """The output, or the last error."""
    vm = CairnVM()
    assert vm.guest_should_succeed_within(1, "echo a; echo") == "a"
    with pytest.raises(AssertionError, match="'exit 3' did not succeed in 1"):
        vm.guest_should_succeed_within(1, "exit 3")


def test_files(fake: Fake, tmp_path: Path) -> None:
    """Patterns, links that lead nowhere, empty files."""
    files = Files()
    (tmp_path / "full").write_text("kept\n")
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("nowhere")
    files.files_should_exist(f"{tmp_path}/full", f"{tmp_path}/empty")
    files.files_should_exist_with_content(f"{tmp_path}/full")
    files.files_should_be_empty_or_missing(f"{tmp_path}/empty", f"{tmp_path}/none")
    files.files_should_not_exist(f"{tmp_path}/none", f"{tmp_path}/none*")
    files.file_should_be(f"{tmp_path}/full", "kept")
    files.file_should_contain(f"{tmp_path}/full", "ep")
    with pytest.raises(AssertionError, match="empty is missing or empty"):
        files.files_should_exist_with_content(f"{tmp_path}/full", f"{tmp_path}/empty")
    with pytest.raises(AssertionError, match="there is no"):
        files.files_should_exist(f"{tmp_path}/none")
    with pytest.raises(AssertionError, match="/full"):
        files.files_should_not_exist(f"{tmp_path}/f*")
    with pytest.raises(AssertionError, match="/link"):
        files.files_should_not_exist(f"{tmp_path}/link")
    with pytest.raises(AssertionError, match="/full"):
        files.files_should_be_empty_or_missing(f"{tmp_path}/empty", f"{tmp_path}/full")
    with pytest.raises(AssertionError, match="has 'kept', not 'kep'"):
        files.file_should_be(f"{tmp_path}/full", "kep")


def test_programs_of_scripts(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this machine are enough, or the missing ones are named."""
    fake("blockdev", "")
    words = {"sed": {"a"}, "blockdev": {"b"}}
    monkeypatch.setattr("lab.command_words.of_overlay", lambda overlay: words)
    Files().programs_of_scripts_should_exist()
    words["no-such-program"] = {"c"}
    with pytest.raises(AssertionError, match="no such program: no-such-program"):
        Files().programs_of_scripts_should_exist()


def test_write_file(fake: Fake, tmp_path: Path) -> None:
    """The line as it is, whatever is in it."""
    fake("sync", "")
    Files().write_file(f"{tmp_path}/a", "it's $(x) \\n %s")
    assert (tmp_path / "a").read_text() == "it's $(x) \\n %s\n"


def test_modes(fake: Fake, tmp_path: Path) -> None:
    """What anybody can write is found; a link and a folder like /tmp are not."""
    files = Files()
    (tmp_path / "here").mkdir()
    (tmp_path / "here/link").symlink_to("x")
    (tmp_path / "here/tmp").mkdir()
    (tmp_path / "here/tmp").chmod(0o1777)
    files.nothing_should_be_writable_for_all(f"{tmp_path}/here")
    (tmp_path / "here/open").touch()
    (tmp_path / "here/open").chmod(0o666)
    with pytest.raises(AssertionError, match="here/open"):
        files.nothing_should_be_writable_for_all(f"{tmp_path}/here")
    owner, group = (tmp_path / "here/open").owner(), (tmp_path / "here/open").group()
    files.mode_should_be(f"{tmp_path}/here/open", f"666 {owner} {group}")
    with pytest.raises(AssertionError, match="has the mode 666"):
        files.mode_should_be(f"{tmp_path}/here/open", f"644 {owner} {group}")


def test_journal(fake: Fake) -> None:
    """Words as they are, patterns as extended regular expressions; none is an error."""
    fake("journalctl", '[ "$*" = "-b --no-pager -o cat -u a" ] && printf "x (1)\\ny\\ny2\\n"')
    fake("systemctl", "echo LoadState=loaded")
    library = units.Units()
    library.journal_should_contain("a", "x (1)")
    library.journal_should_match("a", r"^x \(1|nothing")
    library.wait_for_journal("a", "^y", times=2)
    library.journal_should_not_contain("a", "x (2)")
    library.no_more_messages_should_come("a", "y|z", 0)
    assert library.journal_lines("a", "y") == "y\ny2"
    with pytest.raises(AssertionError, match=r"has no 'x \(2\)'"):
        library.journal_should_contain("a", "x (2)")
    with pytest.raises(AssertionError):
        library.journal_should_match("a", "^1")
    with pytest.raises(AssertionError):
        library.wait_for_journal("a", "^y", times=3)
    with pytest.raises(AssertionError):
        library.journal_should_not_contain("a", "y2")
    with pytest.raises(AssertionError):
        library.no_more_messages_should_come("a", "nothing", 0)


@pytest.mark.parametrize("said", ["", "echo LoadState=not-found", "echo LoadState=masked"])
def test_unit_that_is_not_there(fake: Fake, said: str) -> None:
    """It has no bad messages, and the properties of one that is off: that proves nothing."""
    fake("journalctl", "echo x")
    fake(
        "systemctl",
        f'case "$*" in *LoadState) {said or ":"} ;; *) echo ActiveState=inactive ;; esac',
    )
    library = units.Units()
    with pytest.raises(AssertionError, match="there is no unit b@"):
        library.journal_should_not_contain("b@*", "y")
    with pytest.raises(AssertionError, match="there is no unit b:"):
        library.property_should_be("b", "ActiveState", "inactive")


@pytest.mark.parametrize("said", ["", "-- No entries --"])
def test_unit_that_said_nothing(fake: Fake, said: str) -> None:
    """systemd itself says of each unit that runs that it does."""
    fake("systemctl", "printf 'LoadState=loaded\\n\\nLoadState=loaded\\n'")
    fake("journalctl", f"printf %s '{said}'")
    with pytest.raises(AssertionError, match="has nothing of a@"):
        units.Units().journal_should_not_contain("a@*", "y")


def test_more_messages(fake: Fake, tmp_path: Path) -> None:
    """A message that comes in the meantime is seen."""
    fake("journalctl", f"echo y >>{tmp_path}/log; cat {tmp_path}/log")
    with pytest.raises(AssertionError, match="wrote 1 more messages"):
        units.Units().no_more_messages_should_come("a", "y", 0)


def test_states(fake: Fake) -> None:
    """The whole state, and a process that is another one."""
    fake(
        "systemctl",
        'case "$*" in "is-active a") ;; *SubState) echo SubState=dead-before-auto-restart ;;'
        ' "is-active b") exit 3 ;; *LoadState) echo LoadState=loaded ;;'
        ' "show c -p"*) echo "$4=5" ;; *) echo MainPID=12 ;; esac',
    )
    library = units.Units()
    library.wait_for_another_process("a", 11)
    for unit, pid in (("a", 12), ("b", 11)):
        with pytest.raises(AssertionError):
            library.wait_for_another_process(unit, pid)
    library.wait_for_sub_state("a", "failed", "dead-before-auto-restart")
    with pytest.raises(AssertionError):
        library.wait_for_sub_state("a", "failed", "dead")
    library.property_should_be("c", "X", "5")
    library.property_should_be_at_least("c", "X", 5)
    library.property_should_be_below("c", "X", 6)
    for keyword, value in (
        (library.property_should_be_at_least, 6),
        (library.property_should_be_below, 5),
    ):
        with pytest.raises(AssertionError):
            keyword("c", "X", value)
    with pytest.raises(AssertionError):
        library.property_should_be("c", "X", "6")


def test_system_is_running(fake: Fake) -> None:
    """No failed unit, and no restart of bitcoind."""
    show = 'case "$*" in *LoadState) echo LoadState=loaded ;; show*) echo NRestarts={} ;; {} esac'
    fake("systemctl", show.format(0, ""))
    units.Units().system_is_running()
    fake("systemctl", show.format(1, ""))
    with pytest.raises(AssertionError, match="restarted 1 times"):
        units.Units().system_is_running()
    fake("systemctl", show.format(0, "list*) echo x.service ;;"))
    with pytest.raises(AssertionError, match=r"x\.service"):
        units.Units().system_is_running()


def test_answer_of_the_end_of_the_sync(tmp_path: Path) -> None:
    """What cairn-sync-done reads, to its user only."""
    script = tmp_path / "answer"
    script.write_text(units.ANSWER.replace("834", "$(id -u)"))
    text = subprocess.run(["sh", script], check=True, capture_output=True, text=True).stdout
    assert text == '{\n  "chain": "main",\n  "initialblockdownload": false\n'
    script.write_text(units.ANSWER.replace("834", "-1"))
    assert subprocess.run(["sh", script], check=False, capture_output=True).returncode == 1


def test_flip(tmp_path: Path) -> None:
    """One bit in each 4 KiB; LMDB's first two pages stay; a file that is not there is no error."""
    (tmp_path / "a.ldb").write_bytes(bytes(10000))
    (tmp_path / "data.mdb").write_bytes(bytes([7]) * 4096 * 100)
    (tmp_path / "small").write_bytes(b"x")
    script = damage.FLIP.format(folder=tmp_path, files="*.ldb data.mdb small none*")
    output = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout
    changed = {
        name: {at: byte for at, byte in enumerate((tmp_path / name).read_bytes()) if byte != old}
        for name, old in (("a.ldb", 0), ("data.mdb", 7), ("small", ord("x")))
    }
    assert changed["a.ldb"] == {2048: 4, 6144: 4}
    assert changed["data.mdb"] == {page * 4096 + 2048: 3 for page in range(2, 81)}
    assert changed["small"] == {}
    assert (tmp_path / "a.ldb").stat().st_size == 10000
    assert output.split() == ["flipped"] * 81


def test_ruin(tmp_path: Path) -> None:
    """What there is of both engines; with none of them nothing comes into being."""
    script = damage.RUIN.format(folder=tmp_path)
    subprocess.run(["sh", "-c", script], check=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "MANIFEST-000001").write_bytes(bytes(100))
    (tmp_path / "lmdb").mkdir()
    (tmp_path / "lmdb/data.mdb").write_bytes(bytes(100 * 4096))
    subprocess.run(["sh", "-c", script], check=True)
    manifest = (tmp_path / "MANIFEST-000001").read_bytes()
    assert manifest == bytes(8) + b"garbage" + bytes(85)
    data = (tmp_path / "lmdb/data.mdb").read_bytes()
    assert len(data) == 100 * 4096
    assert (data[: 2 * 4096], data[66 * 4096 :]) == (bytes(2 * 4096), bytes(34 * 4096))
    assert bytes(64 * 4096) != data[2 * 4096 : 66 * 4096]


@pytest.mark.parametrize(
    ("newest", "since", "ahead"), [("0", "old", True), ("1", "old", False), ("0", "new", False)]
)
def test_ahead(fake: Fake, tmp_path: Path, newest: str, since: str, ahead: bool) -> None:
    """The newest undo data are in an older file than the newest block, and young."""
    blocks = tmp_path / "blocks"
    blocks.mkdir()
    for name in ("blk00000.dat", "rev00000.dat"):
        (blocks / name).touch()
    (tmp_path / "since").touch()
    fake("sleep", "")
    stamp = "202001010000" if since == "old" else "203001010000"
    fake(
        "node-cli",
        f'[ "$2" = false ] || {{ touch -t {stamp} {tmp_path}/since; touch {blocks}/blk00001.dat'
        f" {blocks}/rev0000{newest}.dat; }}",
    )
    script = powerloss.AHEAD.format(blocks=blocks, since=tmp_path / "since")
    # The undo data that were there already are older than those of the newest file.
    fake("ls", f'[ "$1" = -t ] && exec echo rev0000{newest}.dat; exec /bin/ls "$@"')
    assert (session.result(script).status == 0) == ahead


def test_flush(fake: Fake) -> None:
    """The height, and nothing else."""
    fake("node-cli", """printf '{\\n  "height": 123,\\n  "bestblock": "00ab"\\n}\\n'""")
    assert session.run(powerloss.FLUSH) == "123"


def test_hidden(fake: Fake, tmp_path: Path) -> None:
    """A view that cannot be looked into is not one without the file."""
    fake("pidof", f"echo {os.getpid()}")
    files = Files()
    files.file_should_be_hidden_from("x", f"{tmp_path}/none")
    with pytest.raises(AssertionError):
        files.file_should_be_hidden_from("x", str(tmp_path))
    fake("pidof", "exit 1")
    with pytest.raises(AssertionError):
        files.file_should_be_hidden_from("x", f"{tmp_path}/none")


def test_kernel_said(fake: Fake) -> None:
    """Each of the words, not one of them."""
    fake("dmesg", "printf '[ 1] RAMDISK: [mem 0x1]\\n[ 2] Freeing\\n'")
    kernel.Kernel().kernel_should_have_said("RAMDISK:", "Freeing")
    with pytest.raises(AssertionError, match="memory"):
        kernel.Kernel().kernel_should_have_said("RAMDISK:", "Freeing initrd memory")


def test_users_options(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, in order."""
    fake("cat", "printf '# x\\nincludeconf=/x\\nchain=main\\nlisten=0\\na=1\\n'")
    Files().users_options_should_be("a=1")
    with pytest.raises(AssertionError):
        Files().users_options_should_be("a=1", "b=1")
    with pytest.raises(AssertionError):
        Files().users_options_should_be()


@pytest.mark.parametrize(("mine", "theirs", "height"), [("aa", "aa", 7), ("aa", "bb", None)])
def test_coins(monkeypatch: pytest.MonkeyPatch, mine: str, theirs: str, height: int | None) -> None:
    """The same hash at the same height."""
    asked = []

    def feeder(_: Session, *arguments: str) -> dict[str, object]:
        asked.append(arguments)
        return {"bestblock": "x", "muhash": theirs, "txouts": 3}

    answer = {"height": 7, "bestblock": "x", "muhash": mine, "txouts": 3}
    monkeypatch.setattr(Session, "rpc", lambda *_: answer)
    monkeypatch.setattr(Session, "feeder", feeder)
    if height is None:
        with pytest.raises(AssertionError, match="muhash at height 7 is aa here and bb"):
            node.Node().coins_should_equal_the_stock_nodes()
    else:
        assert node.Node().coins_should_equal_the_stock_nodes() == height
    assert asked == [("gettxoutsetinfo", "muhash", "7")]


@pytest.mark.parametrize(
    ("answer", "keyword", "right", "wrong"),
    [
        ({"networkactive": False}, "network_should_be", ["off"], ["on"]),
        ({"networkactive": True}, "network_should_be", ["on"], ["off"]),
        ({"networkactive": True}, "network_should_be", ["on"], ["up"]),
        ({"prune_target_size": 576716800}, "prune_target_should_be", [550], [551]),
        ({"maxmempool": 5000000}, "mempool_limit_should_be", [5], [4]),
        (910, "height_should_be", [910], [911]),
    ],
)
def test_answers(
    monkeypatch: pytest.MonkeyPatch,
    answer: object,
    keyword: str,
    right: list[object],
    wrong: list[object],
) -> None:
    """What bitcoind answers is what is expected, or not."""
    monkeypatch.setattr(Session, "rpc", lambda *_: answer)
    getattr(node.Node(), keyword)(*right)
    with pytest.raises(AssertionError):
        getattr(node.Node(), keyword)(*wrong)


# -- documentation -------------------------------------------------------------------


def test_each_keyword_has_an_example(tmp_path: Path) -> None:
    """That Robot would take: its names and arguments are checked by a dry run."""
    calls = []
    for name in LIBRARIES:
        library = LibraryDocumentation(str(ROOT / f"tests/robot/lib/{name}.py"))
        assert library.keywords
        for keyword in library.keywords:
            example = keyword.doc.partition("\nExample:\n")[2]
            lines = [line.removeprefix("| ") for line in example.strip().splitlines()]
            assert any(keyword.name.lower() in line.lower() for line in lines), keyword.name
            calls.append(f"{name} {keyword.name}\n" + "".join(f"    {line}\n" for line in lines))
    imports = "".join(f"Library    {ROOT}/tests/robot/lib/{name}.py\n" for name in LIBRARIES)
    suite = tmp_path / "examples.robot"
    suite.write_text(f"*** Settings ***\n{imports}*** Test Cases ***\n{''.join(calls)}")
    command = [sys.executable, "-m", "robot", "--dryrun", "--outputdir", str(tmp_path), str(suite)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_all_libraries_are_imported() -> None:
    """Each library is in what the suites share, or in the suite that needs it."""
    texts = [path.read_text() for path in (ROOT / "tests/robot").rglob("*.r*o*")]
    for name in LIBRARIES:
        assert any(f"lib/{name}.py" in text for text in texts), name
    libraries = [path.stem for path in (ROOT / "tests/robot/lib").glob("[A-Z]*.py")]
    assert sorted(libraries) == sorted([*LIBRARIES, "CutLog"])


def units_in_suites() -> set[str]:
    """The units that suites name to keywords, as files are named: systemd-fsck@.service."""
    members = [getattr(units.Units, name) for name in dir(units.Units)]
    about_units = [
        member.__name__.replace("_", " ").title()
        for member in members
        if callable(member) and "unit" in getattr(member, "__annotations__", {})
    ]
    assert {"Journal Should Not Contain", "Property Of", "Wait For Unit"} <= set(about_units)
    call = rf"(?m)^(?: .*)?    (?:{'|'.join(about_units)})    (\S+)"
    suites = [*(ROOT / "tests/robot").rglob("*.r*o*"), *(ROOT / "bench").glob("*.robot")]
    found = {name for path in suites for name in re.findall(call, path.read_text())}
    found -= {"${EMPTY}"}  # systemd itself, or the whole journal
    types = r"\.(service|socket|target|timer|mount)$"
    named = {name if re.search(types, name) else f"{name}.service" for name in found}
    return {re.sub(r"@.*\.", "@.", name) for name in named}


def test_units_in_suites_are_there() -> None:
    """A dry run does not find a unit that was renamed; systemd would, hours later, or never."""
    files = {path.name for path in (ROOT / "overlay/usr/lib/systemd/system").iterdir()}
    named = units_in_suites()
    ours = {name for name in named if name.startswith(("bitcoind", "cairn-", "node-"))}
    assert len(ours) > 10
    assert ours <= files
    allowed = (ALLOWED / "units").read_text()
    assert beyond(sorted(named - ours), allowed) == ["multi-user.target"]


def test_beyond_an_allow_list() -> None:
    """Stars, comments and blank lines; the list of units has each of ours."""
    allowed = "# a.service is not wanted\n\nsystemd-*.socket\nb.service\n"
    found = ["a.service", "b.service", "systemd-x.socket", "systemd-x.service"]
    assert beyond(found, allowed) == ["a.service", "systemd-x.service"]
    ours = [
        path.name
        for path in (ROOT / "overlay/usr/lib/systemd/system").iterdir()
        if path.suffix in {".service", ".timer", ".socket"}
    ]
    assert len(ours) > 5
    assert beyond(ours, (ALLOWED / "units").read_text()) == []
    with pytest.raises(AssertionError, match="nothing was found"):
        compare([], "units")

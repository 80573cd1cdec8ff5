"""bitcoind-verdict: what the unit makes of the daemon's end."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SHELLS = ["dash", "busybox sh"]
DAY = 24 * 60 * 60
LEVELDB = "[error] Fatal LevelDB error: Corruption: block checksum mismatch: /x/chainstate/5.ldb"
LMDB = "[error] Fatal LMDB error: Corruption: page checksum mismatch in /x/lmdb; restart"
# how the kernel names the data partition and its disk
MOUNTS = "/dev/root / erofs ro 0 0\n/dev/{} /var ext4 {},noatime 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
EIO = "I/O error, dev vda, sector 4711 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2"


@dataclass
class Unit:
    """A root directory in which bitcoind has ended."""

    root: Path
    overlay: Path
    shell: str = "dash"
    kernel: str = ""
    mounts: str = MOUNTS.format("vda4", "rw")
    env: dict[str, str] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """A file below the root directory, whose folder exists."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def rebuild(self) -> Path:
        """The note of an automatic rebuild."""
        return self.path("var/lib/cairn/rebuild")

    @property
    def held(self) -> bool:
        """Whether the unit may not start again."""
        return self.path("run/cairn/bitcoind.hold").exists()

    @property
    def wanted(self) -> bool:
        """Whether the next start rebuilds."""
        return self.path("var/lib/cairn/rebuild-wanted").exists()

    def ends(self, log: str, result: str = "exit-code", status: str = "1") -> str:
        """Lets bitcoind end with these last lines; returns the report, one line."""
        report = self.path("run/cairn/bitcoind.report")
        self.path("proc/mounts").write_text(self.mounts)
        self.path("log").write_text(f"Using SQLite Version 3.40.1\n{log}\nShutdown done\n")
        self.path("kernel").write_text(f"EXT4-fs (vda4): mounted filesystem\n{self.kernel}\n")
        config = self.path("run/bitcoind/bitcoin.conf")
        if not config.exists():
            config.write_text("")
        self.path("var/lib/cairn/x")
        env = {
            **os.environ,
            "CAIRN_ROOT": str(self.root),
            "CAIRN_LOG": str(self.root / "log"),
            "CAIRN_KERNEL_LOG": str(self.root / "kernel"),
            "CAIRN_NODE_CONFIG": f"touch {self.root}/configured",
            "CAIRN_SYSTEMCTL": f"touch {self.root}/asked --",
            "SERVICE_RESULT": result,
            "EXIT_STATUS": status,
            **self.env,
        }
        script = self.overlay / "usr/lib/cairn/bitcoind-verdict"
        command = [*self.shell.split(), str(script)]
        said = subprocess.run(
            command, check=True, env=env, capture_output=True, text=True, cwd=self.root
        )
        assert not report.exists() or said.stdout == report.read_text() or result == "success"
        text = report.read_text() if report.exists() else ""
        assert len(text.splitlines()) <= 1
        return text


@pytest.fixture(params=SHELLS)
def unit(root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Unit:
    """A unit on a healthy disk, with each of the shells."""
    return Unit(tmp_path, root / "overlay", request.param)


OTHER = "Error: /x/chainstate holds a database of leveldb, not of lmdb: start with -reindex"
UNPRUNED = "Error: You need to rebuild the database using -reindex to go back to unpruned mode."
WALLET_PRUNED = (
    "Error: Prune: last wallet synchronisation goes beyond pruned data. You need to -reindex"
)
INDEX_PRUNED = "Error: coinstatsindex best block of the index goes beyond pruned data. Please"
BANLIST = (
    "[warning] Cannot load banlist /x/banlist.json: Settings file /x/banlist.json does not "
    "contain valid JSON. This is probably caused by disk corruption or a crash"
)
CASES = [
    # log line, service result, held back?, words of the report
    ("Error: Disk space is too low!", "exit-code", True, "data partition is full"),
    ('Error: Disk space is low for "/x"', "exit-code", True, "data partition is full"),
    ("[error] IO error: /x/7.log: No space left on device", "exit-code", True, "partition is full"),
    ("Fatal LMDB error: /x: No space left on device", "exit-code", True, "partition is full"),
    (OTHER, "exit-code", True, "systemctl start node-convert@lmdb"),
    ("Error: /x was written by another version of LMDB; -reindex", "exit-code", True, "the image"),
    ("Unsupported chainstate database format found.", "exit-code", True, "the image that you had"),
    (UNPRUNED, "exit-code", True, "node.conf has prune=0"),
    (WALLET_PRUNED, "exit-code", True, "disablewallet=1"),
    (INDEX_PRUNED, "exit-code", True, "Take coinstatsindex="),
    (BANLIST, "timeout", False, "bitcoind ended with timeout"),
    ("", "oom-kill", False, "ran out of memory"),
    ("", "signal", False, "bitcoind ended with signal"),
    ("Error: Unable to bind to 0.0.0.0:8333", "exit-code", False, "Unable to bind"),
    # what a rebuild itself says is no damage
    ("Removing unusable blk?????.dat for -reindex with -prune", "signal", False, "with signal"),
    ("Opening LevelDB in /x/indexes/coinstatsindex/db", "signal", False, "with signal"),
]


@pytest.mark.parametrize(("line", "result", "held", "words"), CASES)
def test_verdict(unit: Unit, line: str, result: str, held: bool, words: str) -> None:
    """Each end gets its sentence; only a hopeless one holds the service back."""
    assert words in unit.ends(line, result, "KILL" if result == "signal" else "1")
    assert unit.held is held
    assert not unit.rebuild.exists()


DAMAGED = [
    "Error: Corrupted block database detected. Please restart with -reindex",
    "Error: Error opening coins database.",
    "Error: Error loading databases.",
    "[error] Unable to replay blocks. You will need to rebuild the database using -reindex",
    "[error] You will need to restart bitcoind with the -reindex-chainstate or -reindex",
    "Error: A fatal internal error occurred, see debug.log for details: Failed to read block.",
    "Error: Corrupt block found indicating potential hardware failure.",
    "Fatal LMDB error: Corruption: a page of /x/lmdb cannot be read: the file was cut short",
    LEVELDB,
    LMDB,
]


@pytest.mark.parametrize("line", DAMAGED)
def test_damage_is_rebuilt(unit: Unit, line: str) -> None:
    """The next start rebuilds, with the settings of a first sync; nothing is held."""
    done = unit.path("var/lib/cairn/initial-sync-done")
    done.touch()
    report = unit.ends(line)
    assert report.startswith("A database is damaged (")
    # without Core's advice
    said = line.removeprefix("[error] ").partition("; ")[0]
    assert f"({said});" in report
    assert "wallet and settings are kept" in report
    assert not unit.held
    assert unit.wanted
    assert not done.exists()
    begun, what = unit.rebuild.read_text().splitlines()
    assert abs(int(begun.removeprefix("begun=")) - time.time()) < DAY
    assert what == f"what={said}"
    assert unit.rebuild.stat().st_mode & 0o777 == 0o644
    assert (unit.root / "configured").exists()
    assert (unit.root / "asked").exists()


@pytest.mark.parametrize(
    ("stamp", "synced", "again"),
    [
        ("begun={-1}", True, False),
        ("begun={-29}", True, False),
        ("begun={-31}", True, True),
        # has not reached the tip since: no clock can be so wrong
        ("begun={-31}", False, False),
        # the clock was ahead then, or is behind now
        ("begun={+400}", True, False),
        ("garbage", True, False),
        ("", True, False),
    ],
)
def test_one_rebuild_in_a_while(unit: Unit, stamp: str, synced: bool, again: bool) -> None:
    """A second damage soon after the first is the device's fault: held, and said."""
    days = int(stamp[7:-1]) if "{" in stamp else 0
    text = f"begun={int(time.time()) + days * DAY}\nwhat=x\n" if "{" in stamp else stamp
    unit.rebuild.write_text(text)
    if synced:
        unit.path("var/lib/cairn/initial-sync-done").touch()
    report = unit.ends(LEVELDB)
    assert unit.held is not again
    assert unit.wanted is again
    if not again:
        assert "damaged again" in report
        assert "reindex=1 into node.conf" in report
        assert unit.rebuild.read_text() == text


def test_crash_during_a_rebuild(unit: Unit) -> None:
    """It is no damage: the rebuild goes on with what is noted."""
    unit.ends(LMDB)
    noted = unit.rebuild.read_text()
    unit.ends("Wiping LMDB in /x\nRemoving unusable blk?????.dat for -reindex", "signal", "KILL")
    assert not unit.held
    assert unit.wanted
    assert unit.rebuild.read_text() == noted


def test_rebuild_that_cannot_be_noted(unit: Unit) -> None:
    """A rebuild that would be forgotten is not begun."""
    unit.path("var/lib/cairn/rebuild.new/x").mkdir(parents=True)
    assert "cannot be written" in unit.ends(LEVELDB)
    assert unit.held
    assert not unit.wanted


FAILING = [
    # data partition, kernel's line
    ("vda4", EIO),
    ("vda4", "critical medium error, dev vda, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1"),
    ("vda4", "critical space allocation error, dev vda, sector 8 op 0x1:(WRITE) flags 0x0"),
    ("vda4", "Buffer I/O error on dev vda4, logical block 5, lost sync page write"),
    ("vda4", "EXT4-fs error (device vda4): ext4_find_entry:1493: inode #2: reading directory"),
    ("vda4", "EXT4-fs (vda4): Remounting filesystem read-only"),
    ("vda4", "Aborting journal on device vda4-8."),
    ("mmcblk0p4", "I/O error, dev mmcblk0, sector 8 op 0x0:(READ) flags 0x0"),
    ("nvme0n1p4", "I/O error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0"),
    ("sda4", "F2FS-fs (sda4): Remounting filesystem read-only"),
]


@pytest.mark.parametrize(("partition", "line"), FAILING)
@pytest.mark.parametrize(("result", "status"), [("exit-code", "1"), ("core-dump", "ABRT")])
def test_failing_device(unit: Unit, partition: str, line: str, result: str, status: str) -> None:
    """What the kernel says of the device comes before what the database says of its data."""
    unit.kernel = line
    unit.mounts = MOUNTS.format(partition, "rw")
    report = unit.ends(LEVELDB, result, status)
    assert report.startswith("The card or disk fails (")
    assert line[:40] in report
    assert "Replace the card or disk." in report
    assert unit.held
    assert not unit.rebuild.exists()


def test_wallets_are_named(unit: Unit) -> None:
    """Who has a wallet is told how to save it, who has none is not."""
    unit.kernel = EIO
    assert "wallet" not in unit.ends("")
    for folder in ("w", "wallets/x", "regtest/y"):
        unit.path(f"var/lib/bitcoind/{folder}/wallet.dat").touch()
    assert (
        "First copy the wallet to another computer (scp -r root@NODE:/var/lib/bitcoind/w "
        "root@NODE:/var/lib/bitcoind/regtest/y root@NODE:/var/lib/bitcoind/wallets/x .). Replace"
    ) in unit.ends("")


@pytest.mark.parametrize(
    "line",
    [
        "I/O error, dev sda, sector 8 op 0x0:(READ) flags 0x0",
        "I/O error, dev vda, sector 8 op 0x3:(DISCARD) flags 0x800",
        "I/O error, dev vdaa, sector 8 op 0x0:(READ) flags 0x0",
        "EXT4-fs error (device sdb1): ext4_find_entry:1493: inode #2",
        "EXT4-fs (vda4): recovery complete",
    ],
)
def test_other_words_of_the_kernel(unit: Unit, line: str) -> None:
    """Another disk, a refused discard, a replayed journal: the data device is fine."""
    unit.kernel = line
    unit.ends(LEVELDB)
    assert unit.wanted


@pytest.mark.parametrize(
    "line",
    [
        "[error] Fatal LevelDB error: IO error: /x/000007.ldb: Input/output error",
        "[error] Fatal LMDB error: /x/lmdb: Read-only file system",
        "[warning] x\nError: SQLiteDatabase: disk I/O error",
    ],
)
def test_failing_device_by_its_errors(unit: Unit, line: str) -> None:
    """The daemon's own error numbers are enough."""
    assert "The card or disk fails (" in unit.ends(line)
    assert unit.held


def test_read_only_partition(unit: Unit) -> None:
    """So is a data partition that the kernel made read-only."""
    unit.mounts = MOUNTS.format("mmcblk0p4", "ro")
    assert "The card or disk fails (mmcblk0p4 is read-only)" in unit.ends("", "signal", "BUS")
    assert unit.held


@pytest.mark.parametrize(("result", "status"), [("signal", "KILL"), ("oom-kill", "KILL")])
def test_killed_on_a_device_with_errors(unit: Unit, result: str, status: str) -> None:
    """What ended it from outside is not the device's doing."""
    unit.kernel = EIO
    assert "fails" not in unit.ends("", result, status)
    assert not unit.held


@pytest.mark.parametrize(
    "line",
    [
        "Error: Failed to load database path '/x/wallets/a'. Data is not in recognized format.",
        "Error: SQLiteDatabase: Unable to obtain the schema: database disk image is malformed",
        "Error: Error loading /x/wallets/a/wallet.dat: Wallet corrupted",
        "Error: SQLiteDatabase: Failed to execute statement: file is not a database",
    ],
)
def test_wallet_is_not_touched(unit: Unit, line: str) -> None:
    """A damaged wallet is said, and never the reason for a rebuild."""
    report = unit.ends(line)
    assert report.startswith(f"A wallet is damaged ({line}")
    assert "disablewallet=1" in report
    assert unit.held
    assert not unit.rebuild.exists()


@pytest.mark.parametrize(
    "line",
    [
        "[error] Fatal LevelDB error: Corruption: bad block: /x/indexes/coinstatsindex/db/5.ldb",
        "Error: Error opening an index: Fatal LMDB error: Corruption: /x",
        "[error] Cannot read current coinstatsindex state; index may be corrupted",
        "Error: best block of coinstatsindex not found. Please rebuild the index.",
    ],
)
def test_optional_index(unit: Unit, line: str) -> None:
    """A pruned node cannot build it alone: the chain stays, the owner decides."""
    assert "An optional index is damaged (" in unit.ends(line)
    assert unit.held
    assert not unit.rebuild.exists()


@pytest.mark.parametrize(
    ("chain", "folder"),
    [
        ("chain main\nchain-directory \n", "var/lib/bitcoind"),
        ("chain regtest\nchain-directory /regtest\n", "var/lib/bitcoind/regtest"),
    ],
)
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("peers.dat", "Error: Invalid or corrupt peers.dat (Checksum mismatch, data corrupted)."),
        (
            "settings.json",
            "Error: Settings file /x/settings.json does not contain valid JSON. This is probably "
            "caused by disk corruption or a crash, and can be fixed by removing the file",
        ),
    ],
)
def test_files_that_core_makes_anew(
    unit: Unit, chain: str, folder: str, name: str, line: str
) -> None:
    """They are set aside; where that fails, the owner is asked."""
    unit.path("run/cairn/node-conf.records").write_text(chain)
    file = unit.path(f"{folder}/{name}")
    file.write_text("torn")
    assert "is set aside" in unit.ends(line)
    assert not unit.held
    assert not file.exists()
    assert file.with_name(f"{name}.damaged").read_text() == "torn"
    assert f"{folder}/{name} is damaged and cannot be moved" in unit.ends(line)
    assert unit.held
    assert not unit.rebuild.exists()


@pytest.mark.parametrize(
    ("result", "kept"),
    # a start that the hold refuses (ExecCondition=) changes nothing; a clean stop clears
    [("exec-condition", True), ("success", False)],
)
def test_report_of_an_earlier_run(unit: Unit, result: str, kept: bool) -> None:
    """It stands as long as what it says."""
    report = unit.path("run/cairn/bitcoind.report")
    report.write_text("A database is damaged\n")
    script = unit.overlay / "usr/lib/cairn/bitcoind-verdict"
    env = {**os.environ, "CAIRN_ROOT": str(unit.root), "SERVICE_RESULT": result}
    subprocess.run([*unit.shell.split(), str(script)], check=True, env=env)
    assert report.exists() is kept


@pytest.mark.parametrize(
    ("conf", "log", "refused"),
    [
        ("option - proxy=x\n", "Error: Invalid -proxy address or hostname: 'x'\n", True),
        ("chain regtest\n", "Error: Unable to bind to 0.0.0.0:8333\n", False),
        ("option - proxy=x\n", "Done loading\nError: A fatal internal error occurred\n", False),
    ],
)
def test_refused_options(unit: Unit, conf: str, log: str, refused: bool) -> None:
    """Only before it was up, and only with options of the user's, are these blamed."""
    unit.path("run/cairn/node-conf.records").write_text(f"network on\n{conf}")
    first = unit.ends(log)
    assert (first == "") is refused
    assert (unit.root / "run/cairn/bitcoind.refused").exists() is refused
    assert (unit.root / "configured").exists() is refused
    # the second failure in a row is not blamed on the user again
    assert unit.ends(log)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("once", "done", "left"),
    [
        ("", False, True),
        ("reindex=1\n", True, False),
        ("reindex=1 # automatic\n", False, False),
        ("reindex=1\nreindex=1 # automatic\n", True, False),
        ("reindex-chainstate=1\n", True, False),
    ],
)
def test_started(root: Path, tmp_path: Path, shell: str, once: str, done: bool, left: bool) -> None:
    """What was given once is not given again; only the user's line is remembered."""
    unit = Unit(tmp_path, root / "overlay", shell)
    file = unit.path("run/bitcoind/once.conf")
    file.write_text(once)
    wanted = unit.path("var/lib/cairn/rebuild-wanted")
    wanted.touch()
    script = unit.overlay / "usr/lib/cairn/bitcoind-started"
    subprocess.run([*shell.split(), str(script), "--root", str(tmp_path)], check=True)
    assert file.read_text() == ""
    assert (tmp_path / "var/lib/cairn/reindex-done").exists() is done
    assert wanted.exists() is left

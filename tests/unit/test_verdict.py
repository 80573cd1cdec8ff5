"""What cairn-bitcoind-verdict, -look and cairn-data-look make of the daemon's end."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from tests.shared.verdict import MOUNTS, SHELLS, Unit

DAY = 24 * 60 * 60
FATAL = "Error: A fatal internal error occurred, see  for details: "
ADVICE = "Please restart with -reindex or -reindex-chainstate to recover."
COINS = f"Error opening coins database.\n{ADVICE}"
LEVELDB = (
    "chainstate: Fatal LevelDB error: Corruption: block checksum mismatch: /x/chainstate/5.ldb"
)
LMDB = "chainstate: Fatal LMDB error: Corruption: page checksum mismatch in /x/lmdb; restart"
EIO = "I/O error, dev vda, sector 4711 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2"
PEERS = (
    "Error: Invalid or corrupt peers.dat (Checksum mismatch, data corrupted). If you believe this "
    "is a bug, please report it to https://github.com/bitcoin/bitcoin/issues. As a workaround, "
    'you can move the file ("/x/peers.dat") out of the way (rename, move, or delete) to have a '
    "new one created on the next start."
)
SETTINGS = (
    "Error: Settings file could not be read:\n- Settings file /x/settings.json does not contain "
    "valid JSON. This is probably caused by disk corruption or a crash, and can be fixed by "
    "removing the file, which will reset settings to default values."
)


@pytest.fixture(params=SHELLS)
def unit(tmp_path: Path, request: pytest.FixtureRequest) -> Unit:
    """A unit on a healthy disk, with each of the shells."""
    return Unit(tmp_path, request.param)


def damaged(what: str) -> tuple[int, str, str]:
    """What bitcoin-dbconvert says of a damaged database."""
    return (3, f"{what}\n", "checking chainstate: 1 %, 7 records, 3 MB/s, about 2 s left\n")


OTHER = (
    "Error: /x/chainstate holds a database of leveldb, not of lmdb: start with -dbbackend=leveldb, "
    "convert it with 'bitcoin-dbconvert DATADIR --to lmdb', or start with -reindex to build it anew"
)
UNPRUNED = (
    "You need to rebuild the database using -reindex to go back to unpruned mode.  "
    f"This will redownload the entire blockchain.\n{ADVICE}"
)
WALLET_PRUNED = (
    "Error: Prune: last wallet synchronisation goes beyond pruned data. You need to -reindex "
    "(download the whole blockchain again in case of a pruned node)"
)
INDEX_PRUNED = (
    "Error: coinstatsindex best block of the index goes beyond pruned data. Please disable the "
    "index or reindex (which will download the whole blockchain again)"
)
VERSION = (
    "Error: Unsupported chainstate database format found. Please restart with "
    "-reindex-chainstate. This will rebuild the chainstate database."
)
CASES = [
    # last words, service result, held back?, words of the report
    (OTHER, "exit-code", True, "systemctl start node-convert@lmdb"),
    (VERSION, "exit-code", True, "the image that you had"),
    (UNPRUNED, "exit-code", True, "node.conf has prune=0"),
    (WALLET_PRUNED, "exit-code", True, "disablewallet=1"),
    (INDEX_PRUNED, "exit-code", True, "Put a # in front of coinstatsindex="),
    ("", "timeout", False, "bitcoind ended with timeout"),
    ("", "oom-kill", False, "ran out of memory"),
    ("", "signal", False, "bitcoind ended with signal"),
    ("", "watchdog", False, "bitcoind ended with watchdog"),
    ("Error: Unable to bind to 0.0.0.0:8333 on this computer.", "exit-code", False, "Unable to b"),
]


@pytest.mark.parametrize(("words", "result", "held", "report"), CASES)
def test_verdict(unit: Unit, words: str, result: str, held: bool, report: str) -> None:
    """Each end gets its sentence; only a hopeless one holds the service back."""
    assert report in unit.ends(words, result, "KILL" if result == "signal" else "1")
    assert unit.held is held
    assert not unit.rebuild.exists()


@pytest.mark.parametrize("records", ["filters 1\n", "absent 1\n"])
def test_filters_that_cannot_be_made(unit: Unit, records: str) -> None:
    """What node-tune asked for by itself is given up, and bitcoind starts again without it."""
    words = INDEX_PRUNED.replace("coinstatsindex", "basic block filter index")
    mark = unit.path("var/lib/cairn/filters.main")
    mark.write_text("1\n")
    unit.path("run/cairn/node-conf.records").write_text(f"chain main\nchain-directory \n{records}")
    tuned = unit.path("run/bitcoind/tuned.conf")
    tuned.write_text("prune=550\nblockfilterindex=1\n")
    unit.ends(words)
    assert not unit.held
    assert not mark.exists()
    # another index is the owner's to take out, and filters are not ended by it
    mark.write_text("1\n")
    assert "Put a # in front of" in unit.ends(INDEX_PRUNED)
    assert mark.exists()
    mark.write_text("1\n")
    tuned.write_text("prune=550\n")
    assert "Put a # in front of" in unit.ends(words)
    assert unit.held
    assert mark.exists()


@pytest.mark.parametrize(
    "words",
    [
        f"{FATAL}Disk space is too low!",
        'Error: Error: Disk space is low for "/x"',
        f"{FATAL}System error while flushing: Fatal LevelDB error: IO error: /x/7.log: No space "
        "left on device",
    ],
)
def test_full(unit: Unit, words: str) -> None:
    """The words alone are not enough, and not needed."""
    assert "full" not in unit.ends(words)
    assert not unit.held
    assert not unit.refused
    unit.free_kib = 1_000_000
    assert "data partition is full" in unit.ends(words)
    assert unit.held


def test_full_by_df(unit: Unit) -> None:
    """A database that cannot be opened for want of space is not a damaged one."""
    unit.free_kib = 50_000
    assert "data partition is full" in unit.ends(COINS)
    assert unit.held
    assert not unit.path("run/cairn/bitcoind.look").exists()


def test_full_in_order(unit: Unit) -> None:
    """Core ends with status 0 and no word when less than 100 MiB are left: it is said why."""
    unit.comes_up()
    unit.free_kib = 102_399
    said = unit.ends("", "success", "0")
    assert "The data partition is full; bitcoind stays stopped." in said
    assert "0 keeps all" in said
    assert not unit.held
    # the next start may find room, and takes the sentence away
    assert unit.starts() == said
    unit.comes_up()
    assert unit.report == ""
    unit.free_kib = 102_400
    assert unit.ends("", "success", "0") == ""


DATABASE = [
    COINS,
    f"Error: {COINS}",
    f"Error opening block database.\n{ADVICE}",
    f"Error loading databases.\n{ADVICE}",
    "Error: Error reading from database, shutting down.",
    f"{FATAL}System error while flushing: Fatal LevelDB error: Corruption: bad entry in block",
    "\n\n************************\nEXCEPTION: 15dbwrapper_error       \nFatal LevelDB error: "
    "Corruption: block checksum mismatch: /x/5.ldb       \nbitcoin in scheduler       \n",
]


@pytest.mark.parametrize(
    ("words", "found"), [*((words, LEVELDB) for words in DATABASE), (COINS, LMDB)]
)
def test_damage_is_rebuilt(unit: Unit, words: str, found: str) -> None:
    """Once a look has found it, with the settings of a first sync; nothing is held."""
    done = unit.path("var/lib/cairn/initial-sync-done")
    done.touch()
    unit.check = damaged(found)
    unit.path("run/cairn/node-conf.records").write_text("chain signet\nchain-directory /signet\n")
    assert "all databases are read and checked" in unit.ends(words, "signal", "ABRT")
    assert not unit.wanted
    report = unit.starts()
    said = found.partition("; ")[0]
    assert report.startswith(f"A database is damaged ({said});")
    assert "wallet and settings are kept" in report
    assert unit.path("checked").read_text().endswith(" --check --chain signet\n")
    assert not unit.held
    assert unit.wanted
    assert not done.exists()
    assert unit.path("var/lib/cairn/rebuild-wanted").read_text() == "signet\n"
    begun, chain, what = unit.rebuild.read_text().splitlines()
    assert chain == "chain=signet"
    assert abs(int(begun.removeprefix("begun=")) - time.time()) < DAY
    assert what == f"what={said}"
    assert unit.rebuild.stat().st_mode & 0o777 == 0o644
    assert (unit.root / "configured").exists()
    # node-tune again, for the cache of a first sync
    asked = (unit.root / "asked").read_text().splitlines()
    assert asked[-3:] == [
        "start node-tune.service",
        "start cairn-wallet.service",
        "--no-block start cairn-sync-done.timer",
    ]
    # once
    unit.starts()
    assert not unit.held


@pytest.mark.parametrize("words", [DATABASE[0], DATABASE[-1]])
def test_sound_databases_are_kept(unit: Unit, words: str) -> None:
    """Whatever the daemon says; in the end it stays stopped, and the owner decides."""
    for attempt in range(1, 6):
        assert not unit.held
        unit.ends(words, "signal", "ABRT", look=True)
        assert attempt == 5 or "read and are sound" in unit.report
    assert "failed to start 5 times in a row" in unit.report
    assert "put reindex=1 into node.conf" in unit.report
    assert unit.held
    assert not unit.wanted


@pytest.mark.parametrize(
    ("status", "error", "held", "report"),
    [
        (1, "Fatal LevelDB error: IO error: /x/5.ldb: Input/output error.", True, "disk fails ("),
        (1, "Fatal LMDB error: /x/data.mdb: I/O error.", True, "The card or disk fails ("),
        (1, "Fatal LMDB error: /x was written by another version of LMDB; use", True, "the image"),
        (1, "A node is running on /x; stop it first.", False, "they could not be checked (bit"),
        (124, "", False, "could not be checked"),
        (0, "KILLED", False, "the check was ended before it was done"),
    ],
)
def test_look_that_proves_nothing(
    unit: Unit, status: int, error: str, held: bool, report: str
) -> None:
    """Nothing is rebuilt; what hinders it is said."""
    unit.check = (status, "", f"bitcoin-dbconvert: {error}\n")
    if error == "KILLED":
        unit.env["CAIRN_SYSTEMCTL"] = "false"
    assert report in unit.ends(COINS, look=True)
    assert unit.held is held
    assert not unit.wanted


def test_image_without_converter(unit: Unit) -> None:
    """Then the daemon itself is the second witness."""
    unit.check = (2, "", "bitcoin-dbconvert: unknown option --check\n")
    assert "to see whether that is so" in unit.ends(COINS, look=True)
    assert not unit.wanted
    assert unit.ends(COINS, look=True).startswith("A database is damaged (Error opening coins")
    assert unit.wanted


CHAIN = [
    f"Corrupted block database detected.\n{ADVICE}",
    f"Error initializing block database.\n{ADVICE}",
    "Unable to replay blocks. You will need to rebuild the database using -reindex-chainstate..",
    f"{FATAL}Failed to read block.",
    f"{FATAL}Corrupt block found indicating potential hardware failure.",
    f"{FATAL}Failed to read block 00ab from disk",
]


@pytest.mark.parametrize("words", CHAIN)
def test_second_witness(unit: Unit, words: str) -> None:
    """What no look at the databases can show is so if the next run ends with the same words."""
    said = words.removeprefix(FATAL).splitlines()[0]
    assert f"damaged ({said}). It is started again" in unit.ends(words, look=True)
    assert not unit.wanted
    # another end between them
    unit.ends("", "signal", "SEGV", look=True)
    unit.ends(words, look=True)
    assert not unit.wanted
    # a clean one, too
    unit.ends("", "success", look=True)
    unit.ends(words, look=True)
    assert not unit.wanted
    assert unit.ends(words).startswith(f"A database is damaged ({said});")
    assert unit.wanted
    assert not unit.held


@pytest.mark.parametrize("look", [False, True])
def test_nothing_is_rebuilt_on_the_word_of_a_trial(unit: Unit, look: bool) -> None:
    """It may be the new version that is damaged; held back, it does not stay."""
    unit.path("usr/share/cairn/boot-backend").write_text("tryboot\n")
    unit.path("proc/cmdline").write_text("root=PARTLABEL=root-b ro\n")
    (unit.root / "boot/slot-a").mkdir(parents=True)
    (unit.root / "boot/slot-b").mkdir()
    unit.path("boot/config.txt").write_text("os_prefix=slot-a/\n")
    unit.path("boot/slot-a/good").touch()
    flag = unit.path("proc/device-tree/chosen/bootloader/tryboot")
    flag.write_bytes(bytes([0, 0, 0, 1]))
    done = unit.path("var/lib/cairn/initial-sync-done")
    done.touch()
    if look:
        unit.check = damaged(LEVELDB)
        unit.ends(COINS)
        unit.starts()
    else:
        unit.ends(CHAIN[0], look=True)
        unit.ends(CHAIN[0])
    assert "Nothing is rebuilt while a version is tried" in unit.report
    assert unit.held
    assert not unit.wanted
    assert not unit.rebuild.exists()
    assert done.exists()


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
    unit.check = damaged(LEVELDB)
    report = unit.ends(COINS, look=True)
    assert unit.held is not again
    assert unit.wanted is again
    if not again:
        assert "damaged again" in report
        assert "reindex=1 into node.conf" in report
        assert unit.rebuild.read_text() == text


def test_crash_during_a_rebuild(unit: Unit) -> None:
    """It is no damage: the rebuild goes on with what is noted."""
    unit.check = damaged(LMDB)
    unit.ends(COINS, look=True)
    noted = unit.rebuild.read_text()
    unit.ends("", "signal", "KILL", look=True)
    assert not unit.held
    assert unit.wanted
    assert unit.rebuild.read_text() == noted


def test_rebuild_that_cannot_be_noted(unit: Unit) -> None:
    """A rebuild that would be forgotten is not begun."""
    unit.path("var/lib/cairn/rebuild.new/x").mkdir(parents=True)
    unit.check = damaged(LEVELDB)
    assert "cannot be written" in unit.ends(COINS, look=True)
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
    report = unit.ends(COINS, result, status)
    assert report.startswith("The card or disk fails (")
    assert line[:40] in report
    assert "Replace the card or disk." in report
    assert unit.held
    assert not unit.rebuild.exists()


def test_wallets_are_named(unit: Unit) -> None:
    """Who has a wallet is told how to save it, who has none is not."""
    unit.kernel = EIO
    assert "wallet" not in unit.ends("")
    unit.path("run/cairn/bitcoind.hold").unlink()
    for folder in ("w", "wallets/0", "wallets/1", "wallets/2", "regtest/wallets/a/y"):
        unit.path(f"var/lib/bitcoind/{folder}/wallet.dat").touch()
    assert (
        "First copy the wallet to another computer (scp -r root@NODE:/var/lib/bitcoind/w "
        "root@NODE:/var/lib/bitcoind/wallets root@NODE:/var/lib/bitcoind/regtest/wallets .). "
        "Replace"
    ) in unit.ends("")


def test_wallets_behind_links(unit: Unit) -> None:
    """User bitcoin chooses what is there: links are not followed, and cost no time."""
    data = unit.path("var/lib/bitcoind/x").parent
    for number in range(300):
        (data / f"l{number}").symlink_to(data)
    unit.path("var/lib/bitcoind/w/wallet.dat").touch()
    unit.path("var/lib/bitcoind/ok/new\nline/wallet.dat").touch()
    unit.kernel = EIO
    begun = time.monotonic()
    assert (
        "(scp -r root@NODE:/var/lib/bitcoind/w root@NODE:/var/lib/bitcoind/ok .). Replace"
    ) in unit.ends("")
    assert time.monotonic() - begun < 10


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
    unit.check = damaged(LEVELDB)
    unit.ends(COINS, look=True)
    assert unit.wanted


@pytest.mark.parametrize(
    "line",
    [
        f"{FATAL}System error while flushing: Fatal LevelDB error: IO error: /x: I/O error",
        f"{FATAL}System error while flushing: Fatal LMDB error: /x/lmdb: Read-only file system",
        "Warning: x\nError: SQLiteDatabase: Failed to execute statement: disk I/O error",
    ],
)
def test_failing_device_by_its_errors(unit: Unit, line: str) -> None:
    """The daemon's own error numbers are enough, in musl's words and in glibc's."""
    assert "The card or disk fails (" in unit.ends(line)
    assert unit.held


def test_device_that_fails_in_the_look(unit: Unit) -> None:
    """What the kernel says while all is read comes before what was found."""
    unit.check = damaged(LEVELDB)
    unit.ends(COINS)
    unit.kernel = EIO
    assert unit.starts().startswith("The card or disk fails (")
    assert unit.held
    assert not unit.wanted


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
        "Error: SQLiteDatabase: Failed to fetch sqlite wallet schema version: not a database",
        "Error: Error loading /x/wallets/a/wallet.dat: Wallet corrupted",
        "Error: SQLiteDatabase: Unexpected application id. Expected 1, got 2",
    ],
)
def test_wallet_is_not_touched(unit: Unit, line: str) -> None:
    """A damaged wallet is said, and never the reason for a rebuild."""
    report = unit.ends(line)
    assert report.startswith(f"A wallet is damaged ({line.removeprefix('Error: ')}")
    assert "disablewallet=1" in report
    assert unit.held
    assert not unit.rebuild.exists()


@pytest.mark.parametrize(
    "line",
    [
        "Error: Error opening an index: Fatal LMDB error: Corruption: /x",
        "Error: best block of basic block filter index not found. Please rebuild the index.",
    ],
)
def test_optional_index(unit: Unit, line: str) -> None:
    """A pruned node cannot build it alone: the chain stays, the owner decides."""
    assert "An optional index is damaged (" in unit.ends(line)
    assert unit.held
    assert not unit.rebuild.exists()


def test_optional_index_by_the_look(unit: Unit) -> None:
    """The chain's own databases come first; an index alone never starts a rebuild."""
    index = "indexes/coinstatsindex/db: Fatal LevelDB error: Corruption: bad block: /x"
    unit.check = damaged(index)
    words = "Error: Error reading from database, shutting down."
    assert f"An optional index is damaged ({index});" in unit.ends(words, look=True)
    assert unit.held
    assert not unit.wanted
    unit.path("run/cairn/bitcoind.hold").unlink()
    unit.check = damaged(f"{index}\n{LEVELDB}")
    assert f"A database is damaged ({LEVELDB});" in unit.ends(words, look=True)
    assert unit.wanted


def peers(body: bytes) -> bytes:
    """A list of peers as Core writes it."""
    return body + hashlib.sha256(hashlib.sha256(body).digest()).digest()


GOOD = {"peers.dat": peers(bytes(range(256))), "settings.json": b'{ "wallet": ["purse"] }\n'}
TORN = {
    "peers.dat": [b"", b"x" * 30, peers(b"y" * 900)[:-1], peers(b"y" * 900)[1:], bytes(900)],
    "settings.json": [b"", b'{"wallet": ["pu', b"[1]", b'{"a":1,"a":2}', b'{"a":"\0"}', b"{}\0"],
}
WORDS = {"peers.dat": PEERS, "settings.json": SETTINGS}


@pytest.mark.parametrize(
    ("name", "torn"), [(name, torn) for name, some in TORN.items() for torn in some]
)
def test_files_that_core_makes_anew(unit: Unit, name: str, torn: bytes) -> None:
    """They are set aside, below the chain's own folder; the owner reads of it."""
    unit.path("run/cairn/node-conf.records").write_text("chain regtest\nchain-directory /regtest\n")
    file = unit.path(f"var/lib/bitcoind/regtest/{name}")
    unit.path(f"var/lib/bitcoind/{name}").write_bytes(torn)
    file.write_bytes(torn)
    assert "may be damaged: it is checked before" in unit.ends(WORDS[name])
    assert file.exists()
    assert "is set aside" in unit.starts()
    unit.comes_up()
    assert "is set aside" in unit.report
    assert not unit.held
    assert not file.exists()
    assert file.with_name(f"{name}.damaged").read_bytes() == torn
    assert unit.path(f"var/lib/bitcoind/{name}").exists()
    assert not unit.rebuild.exists()


@pytest.mark.parametrize("name", WORDS)
def test_good_file_is_kept(unit: Unit, name: str) -> None:
    """Whatever the daemon says of it; a link or a pipe in its place is not read."""
    file = unit.path(f"var/lib/bitcoind/{name}")
    file.write_bytes(GOOD[name])
    assert "a check does not find it so" in unit.ends(WORDS[name], look=True)
    assert file.read_bytes() == GOOD[name]
    file.unlink()
    outside = unit.path("outside")
    outside.write_text("torn")
    file.symlink_to(outside)
    assert "a check does not find it so" in unit.ends(WORDS[name], look=True)
    assert file.is_symlink()
    file.unlink()
    assert "a check does not find it so" in unit.ends(WORDS[name], look=True)
    assert not unit.held
    # three starts failed; the fifth is the last
    unit.ends(WORDS[name], look=True)
    assert "failed to start 5 times in a row" in unit.ends(WORDS[name], look=True)
    assert unit.held


def test_file_that_cannot_be_moved(unit: Unit) -> None:
    """The owner is asked."""
    file = unit.path("var/lib/bitcoind/peers.dat")
    file.write_text("torn")
    unit.path("var/lib/bitcoind/peers.dat.damaged/peers.dat/x").touch()
    assert "/peers.dat is damaged and cannot be moved" in unit.ends(PEERS, look=True)
    assert unit.held


RESULTS = [
    ("exit-code", "1"),
    ("signal", "KILL"),
    ("core-dump", "ABRT"),
    ("timeout", "TERM"),
    ("oom-kill", "KILL"),
    ("watchdog", "ABRT"),
    ("protocol", "0"),
    ("resources", "203"),
]


@pytest.mark.parametrize(("result", "status"), RESULTS)
def test_no_endless_loop_before_it_is_up(unit: Unit, result: str, status: str) -> None:
    """Whatever it ends with, the fifth start in a row is the last, however slow they are."""
    for attempt in range(1, 6):
        assert not unit.held
        unit.uptime += 100_000
        report = unit.ends("", result, status)
        assert unit.held is (attempt == 5)
    assert "failed to start 5 times in a row" in report
    assert "a reboot tries again" in report
    # what was found stands, also when systemd asks again
    assert unit.ends("", result, status) == report


@pytest.mark.parametrize(("result", "status"), RESULTS)
def test_no_endless_loop_of_crashes(unit: Unit, result: str, status: str) -> None:
    """A node that gets up may crash, but not five times in half an hour."""
    steps = [600, 600, 600, 600, 100, 100]
    for attempt, step in enumerate(steps, 1):
        unit.path("run/cairn/bitcoind.up").touch()
        unit.uptime += step
        unit.ends("", result, status)
        assert unit.held is (attempt == len(steps)), attempt
    assert "bitcoind ended 5 times in 30 minutes" in unit.report


def test_getting_up_ends_the_count(unit: Unit) -> None:
    """Also a clean stop."""
    for _ in range(3):
        for _ in range(4):
            unit.starts()
            unit.uptime += 1000
            unit.ends("", "signal", "SEGV")
        unit.starts()
        unit.comes_up()
        unit.uptime += 1000
        unit.ends("", "signal", "SEGV")
        assert not unit.held
    unit.ends("", "success")
    assert not unit.path("run/cairn/bitcoind.ends").exists()


@pytest.mark.parametrize(
    ("result", "kept"),
    # a start that the hold refuses (ExecCondition=) changes nothing; a clean stop clears
    [("exec-condition", True), ("success", False)],
)
def test_report_of_an_earlier_run(unit: Unit, result: str, kept: bool) -> None:
    """It stands as long as what it says."""
    report = unit.path("run/cairn/bitcoind.report")
    report.write_text("A database is damaged\n")
    unit.run("cairn-bitcoind-verdict", SERVICE_RESULT=result)
    assert report.exists() is kept


@pytest.mark.parametrize(
    ("conf", "words", "up", "refused"),
    [
        ("option - proxy=x\n", "Error: Unable to parse -maxuploadtarget: 'abc'", False, True),
        ("chain regtest\n", "Error: Unable to bind to 0.0.0.0:8333", False, False),
        ("option - proxy=x\n", f"{FATAL}Failed to write block.", True, False),
        ("option - proxy=x\n", "", False, False),
    ],
)
def test_refused_options(unit: Unit, conf: str, words: str, up: bool, refused: bool) -> None:
    """Only before it was up, with an error, and with options of the user's, are these blamed."""
    unit.path("run/cairn/node-conf.records").write_text(f"network on\n{conf}")
    unit.starts()
    if up:
        unit.comes_up()
    first = unit.ends(words)
    assert (first == "") is refused
    assert unit.refused is refused
    assert (unit.root / "configured").exists() is refused
    if refused:
        text = unit.path("run/cairn/bitcoind.refused").read_text()
        assert text.splitlines()[0] == words
    # the second failure in a row is not blamed on the user again
    assert unit.ends(words)


LISTEN = "Error: Failed to listen on any port. Use -listen=0 if you want this."
LATE = [
    # Core's words, as the real daemon prints them
    "Error: Unable to bind to 192.0.2.1:18444 on this computer (bind returned error Cannot assign "
    f"requested address (99))\n{LISTEN}",
    "Error: Unable to bind to [2001:db8::1]:8333 on this computer (bind returned error Address "
    f"not available (99))\n{LISTEN}",
    "Error: Cannot resolve -bind address: 'fe80::1%eth7'",
    "Error: Cannot resolve -whitebind address: '[fe80::1%eth0]:8333'",
    "Error: Cannot resolve -externalip address: 'no.such.name'",
    "Error: Cannot resolve -externalip address: 'fe80::1%eth7'",
    "Error: Invalid -proxy address or hostname: 'no.such.name:9050'",
    "Error: Invalid -onion address or hostname: 'tor-box:9050'",
    "Error: Invalid -i2psam address or hostname: 'attic.lan'",
]
NEVER = [
    "Error: Cannot resolve -bind address: 'no.such.name'",
    "Error: Cannot resolve -externalip address: '1.2.3.4.5'",
    "Error: Invalid -proxy address or hostname: '1.2.3.4.5:9050'",
    "Error: Invalid -proxy address or hostname, ends with '=': 'x='",
    f"Error: Unable to bind to 10.0.2.15:22 on this computer (bind returned error (13))\n{LISTEN}",
]


@pytest.mark.parametrize("words", LATE)
def test_address_that_is_not_there_yet(unit: Unit, words: str) -> None:
    """It is no refused option: the node is started again, as long as it takes, and says so."""
    unit.path("run/cairn/node-conf.records").write_text("option - proxy=no.such.name:9050\n")
    for _ in range(7):
        unit.starts()
        report = unit.ends(words)
        assert report.startswith("The node waits for its network: ")
        assert not unit.held
        assert not unit.refused
    slept = unit.path("slept").read_text().split()
    # a minute between two starts
    assert sum(map(int, slept)) == 60 * 6
    # not when the machine's addresses change
    unit.path("slept").unlink()
    unit.addresses += "2: eth0 inet 192.0.2.1/24 brd 192.0.2.255 scope global eth0\n"
    unit.starts()
    assert unit.path("slept").read_text() == "15\n"
    unit.comes_up()
    assert unit.report == ""


@pytest.mark.parametrize("words", NEVER)
def test_address_that_never_comes(unit: Unit, words: str) -> None:
    """An address that cannot be one is a refused option, as before."""
    unit.path("run/cairn/node-conf.records").write_text("option - proxy=x\n")
    unit.ends(words)
    assert unit.refused


@pytest.mark.parametrize("words", [OTHER, WALLET_PRUNED, *CHAIN, LATE[0]])
@pytest.mark.parametrize("real", ["Error: Error loading /x/w: Wallet is new", None])
def test_name_with_a_line_break(unit: Unit, words: str, real: str | None) -> None:
    """Core's words in the name of a wallet, in a warning, are not Core's."""
    warning = f"Warning: Skipping -wallet path that doesn't exist. Failed to load '/x/\n{words}\n'."
    end = ("exit-code", "1") if real else ("signal", "KILL")
    for _ in range(2):
        unit.starts()
        unit.ends(f"{warning}\n{real or ''}", *end)
        assert "node waits" not in unit.report
        assert not unit.held
        # of a start that succeeded
        unit.path("run/cairn/bitcoind.stderr").write_text(f"{warning}\n")
        unit.comes_up()
        unit.ends(f"{warning}\n", *end)
        assert not unit.held
        assert not unit.wanted


def test_start_is_new(unit: Unit) -> None:
    """What an earlier run left is not taken for this one's."""
    unit.starts()
    unit.comes_up()
    unit.path("run/cairn/bitcoind.stderr").write_text(OTHER + "\n")
    unit.starts()
    assert not unit.path("run/cairn/bitcoind.up").exists()
    assert not unit.path("run/cairn/bitcoind.stderr").exists()


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
def test_started(unit: Unit, once: str, done: bool, left: bool) -> None:
    """What was given once is not given again; only the user's line is remembered."""
    file = unit.path("run/bitcoind/once.conf")
    file.write_text(once)
    wanted = unit.path("var/lib/cairn/rebuild-wanted")
    wanted.touch()
    unit.comes_up()
    assert file.read_text() == ""
    assert unit.path("var/lib/cairn/reindex-done.main").exists() is done
    assert wanted.exists() is left


@pytest.mark.parametrize(
    ("wanted", "chain", "left"),
    [("", "main", False), ("", "signet", True), ("signet\n", "signet", False)],
)
def test_started_on_another_chain(unit: Unit, wanted: str, chain: str, left: bool) -> None:
    """The request for a rebuild waits until its own chain is up."""
    unit.path("run/cairn/node-conf.records").write_text(f"chain {chain}\nchain-directory /x\n")
    unit.path("run/bitcoind/once.conf").write_text("reindex=1\n")
    file = unit.path("var/lib/cairn/rebuild-wanted")
    file.write_text(wanted)
    unit.comes_up()
    assert file.exists() is left


def test_look_at_another_chain(unit: Unit) -> None:
    """What was damaged on one chain is not looked for, nor rebuilt, on another."""
    unit.check = damaged(LEVELDB)
    unit.ends(COINS)
    unit.path("run/cairn/node-conf.records").write_text("chain signet\nchain-directory /signet\n")
    unit.starts()
    assert not unit.wanted
    assert not unit.path("run/cairn/bitcoind.look").exists()


@pytest.mark.parametrize("once", ["reindex=1\n", "reindex=1 # automatic\n"])
def test_started_with_a_full_data_partition(unit: Unit, once: str) -> None:
    """That nothing can be noted is said; it ends no healthy daemon, nor is the wipe repeated."""
    file = unit.path("run/bitcoind/once.conf")
    file.write_text(once)
    unit.path("var/lib/cairn/rebuild-wanted/x").mkdir(parents=True)
    for name in ("reindex-done", "reindex-done.main"):
        unit.path(f"var/lib/cairn/{name}.new/x").mkdir(parents=True)
        unit.path(f"var/lib/cairn/{name}/x").mkdir(parents=True)
    said = unit.run("cairn-bitcoind-started", both=True)
    assert file.read_text() == ""
    assert ("cannot be written" in said) is (once == "reindex=1\n")


BEGUN = [LATE[0], LATE[1], LATE[2], LATE[3], LATE[8]]


@pytest.mark.parametrize("words", LATE)
@pytest.mark.parametrize("once", ["reindex=1\n", "reindex=1 # automatic\n"])
def test_late_network_and_reindex(unit: Unit, words: str, once: str) -> None:
    """Core wipes before it binds: once is enough. Before it, the request is still to be met."""
    file = unit.path("run/bitcoind/once.conf")
    file.write_text(once)
    wanted = unit.path("var/lib/cairn/rebuild-wanted")
    wanted.write_text("main\n")
    unit.ends(words)
    done = [name.name for name in wanted.parent.glob("reindex-done*")]
    if words in BEGUN:
        assert file.read_text() == ""
        assert not wanted.exists()
        assert bool(done) is (once == "reindex=1\n")
    else:
        assert file.read_text() == once
        assert wanted.exists()
        assert not done


def test_crash_of_a_reindex(unit: Unit) -> None:
    """Of an end that says nothing of how far it was, the request is kept."""
    file = unit.path("run/bitcoind/once.conf")
    file.write_text("reindex=1\n")
    unit.ends("", "signal", "KILL")
    assert file.read_text() == "reindex=1\n"


SURROUNDINGS = [
    "Cannot obtain a lock on directory /x/y. Bitcoin Core is probably already running.",
    "Cannot write to directory '/x/y'; check permissions.",
    'Specified data directory "/x/y" does not exist.',
    "Not enough file descriptors available. 150 available, 160 required.",
    "Unable to create the PID file '/x/y.pid': No space left on device",
    "Initialization sanity check failed. Bitcoin Core is shutting down.",
    "Unable to bind to 0.0.0.0:8333 on this computer. Bitcoin Core is probably already running."
    f"\n{LISTEN}",
    "Listening for incoming connections failed (listen returned error Address in use (98))",
    "Error loading w: Wallet requires newer version of Bitcoin Core",
    "Error loading w: Wallet is a legacy wallet. Please migrate to a descriptor wallet using the "
    "migration tool (migratewallet RPC).",
    "Error loading w: External signer wallet being loaded without external signer support compiled",
    "Unrecognized descriptor found. Loading wallet w\n\nThe wallet might have been created on a "
    "newer version.",
]


@pytest.mark.parametrize("words", SURROUNDINGS)
def test_error_that_no_option_makes(unit: Unit, words: str) -> None:
    """It is counted; the user's options stay in force, and with them the network."""
    unit.path("run/cairn/node-conf.records").write_text("option - proxy=x\n")
    for attempt in range(1, 6):
        assert not unit.held
        report = unit.ends(f"Error: {words}")
        assert words[:20] in report
        assert not unit.refused
        assert unit.held is (attempt == 5)


def test_refusal_names_its_file(unit: Unit) -> None:
    """So that a corrected one is told from it."""
    unit.path("run/cairn/node-conf.records").write_text("option - proxy=x\nsum 12ab\n")
    unit.ends("Error: Unable to parse -maxuploadtarget: 'abc'")
    said = unit.path("run/cairn/bitcoind.refused").read_text().splitlines()
    assert said == ["Error: Unable to parse -maxuploadtarget: 'abc'", "sum 12ab"]


@pytest.mark.parametrize("words", [DATABASE[4], DATABASE[-1]])
def test_no_endless_doubt(unit: Unit, words: str) -> None:
    """A node that gets up each time, and whose databases are sound, stops in the end."""
    for _ in range(5):
        assert not unit.held
        unit.starts()
        unit.comes_up()
        unit.uptime += 4000
        report = unit.ends(words, "signal", "ABRT", look=True)
    assert unit.held
    assert "5 times" in report
    assert "reindex=1" in report
    assert not unit.wanted


def test_no_endless_doubt_of_a_look_that_shows_nothing(unit: Unit) -> None:
    """So do looks that could not be done."""
    unit.check = (124, "", "")
    for _ in range(5):
        assert not unit.held
        unit.starts()
        unit.comes_up()
        unit.uptime += 20000
        unit.ends("Error: Error reading from database, shutting down.", look=True)
    assert unit.held


def test_no_endless_doubt_of_a_block(unit: Unit) -> None:
    """Two ends of one kind, and something else between them, without an end."""
    words = [f"{FATAL}Failed to read block.", f"{FATAL}Failed to disconnect block."]
    for attempt in range(5):
        assert not unit.held
        unit.starts()
        unit.comes_up()
        unit.uptime += 4000
        unit.ends(words[attempt % 2])
    assert unit.held
    assert not unit.wanted


def test_second_witness_of_another_block(unit: Unit) -> None:
    """Which block it is does not matter."""
    for letter in "ab":
        assert not unit.wanted
        unit.starts()
        unit.comes_up()
        unit.uptime += 4000
        unit.ends(f"{FATAL}Failed to read block {letter * 64} from disk")
    assert unit.wanted


@pytest.mark.parametrize("words", CHAIN)
@pytest.mark.parametrize(
    "warning",
    [
        "Warning: Skipping -wallet path that doesn't exist. Failed to load '/x/\n{}\n'.",
        "Warning: Ignoring duplicate -wallet " + "x" * 3000 + "\n{}\n.",
    ],
)
def test_damage_in_a_warning(unit: Unit, words: str, warning: str) -> None:
    """Whoever named the wallet may have written it: it counts as an end, and rebuilds nothing."""
    unit.path("run/cairn/node-conf.records").write_text("option - proxy=x\n")
    for attempt in range(1, 6):
        assert not unit.held
        unit.ends(warning.format(words.removesuffix(f"\n{ADVICE}")))
        assert not unit.wanted
        assert not unit.refused
        assert unit.held is (attempt == 5)


@pytest.mark.parametrize("digits", ["9" * 13, "9" * 20, "9" * 200])
def test_rebuild_begun_at_no_date(unit: Unit, digits: str) -> None:
    """A number that no shell can read is a recent rebuild."""
    unit.rebuild.write_text(f"begun={digits}\nwhat=x\n")
    unit.path("var/lib/cairn/initial-sync-done").touch()
    unit.check = damaged(LEVELDB)
    assert "damaged again" in unit.ends(COINS, look=True)
    assert unit.held
    assert not unit.wanted

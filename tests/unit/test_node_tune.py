"""node-tune on made-up /proc and /sys trees."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.plan import PRODUCT, SCENARIOS

SHELLS = ["dash", "busybox sh"]
TABLE = [
    line.split("\t")
    for line in (Path(__file__).parent / "node-tune.tsv").read_text().splitlines()
    if not line.startswith("#")
]
RESULT = "var/lib/cairn/probe/result"
# class: disk's place below /sys/devices, partition's name, rotational, card type
DEVICES = {
    "sd": ("platform/soc/mmc0/mmc0:0001/block/mmcblk0", "mmcblk0p4", "0", "SD"),
    "emmc": ("platform/soc/mmc1/mmc1:0001/block/mmcblk0", "mmcblk0p4", "0", "MMC"),
    "usb": ("pci0000:00/usb2/2-1/host0/target0:0:0/0:0:0:0/block/sda", "sda4", "1", ""),
    "sata": ("pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda", "sda4", "0", ""),
    "hdd": ("pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda", "sda4", "1", ""),
    "nvme": ("pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", "nvme0n1p4", "0", ""),
    "virtio": ("pci0000:00/0000:00:03.0/virtio1/block/vda", "vda4", "1", ""),
}


@dataclass
class Machine:
    """A root directory that looks like a machine, and node-tune run on it."""

    path: Path
    script: Path

    def write(self, name: str, text: str) -> None:
        """Puts a file below the machine's root."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def converter(self) -> None:
        """bitcoin-dbconvert, which shows that the image has LMDB."""
        self.write("usr/bin/bitcoin-dbconvert", "")
        (self.path / "usr/bin/bitcoin-dbconvert").chmod(0o755)

    def disk(self, kind: str, mib: int, whole: bool = False) -> None:
        """A disk of a class with the data partition (or none) mounted at /var."""
        place, partition, rotational, card = DEVICES[kind]
        disk = self.path / "sys/devices" / place
        for file, text in {
            "queue/rotational": rotational,
            "size": str((mib + 1200) * 2048),
        }.items():
            self.write(str((disk / file).relative_to(self.path)), text + "\n")
        if card:
            self.write(str((disk / "device/type").relative_to(self.path)), card + "\n")
        if not whole:
            below = (disk / partition).relative_to(self.path)
            self.write(str(below / "partition"), "4\n")
            self.write(str(below / "size"), f"{mib * 2048}\n")
        self.mount("8:4", disk if whole else disk / partition)

    def mount(self, number: str, device: Path) -> None:
        """Makes /sys/dev/block/NUMBER point at the device and mounts it at /var."""
        link = self.path / "sys/dev/block" / number
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(device, link.parent))
        self.write(
            "proc/self/mountinfo",
            "21 1 0:20 / /run rw - tmpfs tmpfs rw\n"
            "22 1 8:2 / / ro,relatime - erofs /dev/root ro\n"
            f"30 22 {number} / /var rw,noatime - ext4 /dev/data rw\n"
            "31 22 0:33 / /var/lib/other rw - tmpfs tmpfs rw\n",
        )

    def speed(self, write: str, read: str, sync: str, disk: str = "") -> str:
        """What cairn-probe keeps of this disk; its folder in /sys/block is made, too."""
        device = (self.path / "sys/dev/block/8:4").resolve().parent
        link = self.path / "sys/block" / device.name
        link.parent.mkdir(exist_ok=True)
        if not link.exists():
            link.symlink_to(device)
        words = f"/{(device / 'size').read_text().strip()}///////"
        disk = disk or hashlib.sha256(words.encode()).hexdigest()[:16]
        text = (
            f"cairn-probe 1\ndisk={disk}\nwrite_kib_per_s={write}\nreads_per_s={read}\n"
            f"sync_us={sync}\nwritten_kib=114688\nend\n"
        )
        self.write(RESULT, text)
        return text

    def records(self, text: str, chain: str = "main") -> None:
        """What node-config read in node.conf."""
        below = "" if chain == "main" else f"/{chain}"
        head = f"chain {chain}\nchain-directory {below}\n"
        self.write("run/cairn/node-conf.records", head + text)

    def memory(self, mib: int) -> None:
        """MemTotal."""
        self.write("proc/meminfo", f"MemTotal:  {mib * 1024} kB\nMemFree:  1 kB\n")

    def run(self, shell: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs node-tune on this machine."""
        return subprocess.run(
            [*shell.split(), str(self.script), "--root", str(self.path), *options],
            check=False,
            capture_output=True,
            text=True,
        )

    def settings(self) -> dict[str, str]:
        """What tuned.conf says."""
        lines = (self.path / "run/bitcoind/tuned.conf").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    def report(self) -> str:
        """The notes for the status screen."""
        return (self.path / "run/cairn/node-tune.report").read_text()


@pytest.fixture
def machine(tmp_path: Path, root: Path) -> Machine:
    """A machine with 4 cores and nothing else."""
    made = Machine(tmp_path, root / "overlay/usr/bin/node-tune")
    made.write("sys/devices/system/cpu/online", "0-3\n")
    made.memory(1950)
    made.records("")
    return made


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_table(machine: Machine, shell: str, row: list[str]) -> None:
    """Every row of the table, in both phases."""
    ram, kind, disk, prune, connections, mempool, batch, waiting, sync, tip, dirty = row
    machine.memory(int(ram))
    machine.disk(kind, int(disk))
    machine.write("proc/sys/vm/dirty_bytes", "0")
    machine.write("proc/sys/vm/dirty_background_bytes", "0")
    for dbcache, memory in ((sync, {"blocksinmemory": waiting}), (tip, {})):
        result = machine.run(shell, "--apply")
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        assert machine.settings() == {
            "prune": prune,
            "maxconnections": connections,
            "maxmempool": mempool,
            "dbbackend": "leveldb",
            "dbsync": "flush",
            "dbbatchsize": batch,
            "dbcache": dbcache,
            "par": "4",
            **memory,
        }
        machine.write("var/lib/cairn/initial-sync-done", "")
    vm = machine.path / "proc/sys/vm"
    assert int((vm / "dirty_bytes").read_text()) == int(dirty) * 1048576
    assert int((vm / "dirty_background_bytes").read_text()) == int(dirty) * 1048576 // 3
    explained = machine.run(shell, "--explain").stdout
    assert f", {kind} (" in explained


def test_the_benchmark_has_this_memory(machine: Machine) -> None:
    """What `make bench` gives to a card with 1 GiB is what node-tune would give."""
    machine.disk("sd", 29000)
    product = next(variant for variant in PRODUCT if variant.name == "leveldb")
    stock = next(variant for variant in PRODUCT if variant.name == "stock")
    for scenario in SCENARIOS:
        if scenario.name in ("sd-1g", "large"):
            assert scenario.memory
            machine.memory(scenario.memory)
            machine.run("dash")
            chosen = machine.settings()
            dbcache, waiting = int(chosen["dbcache"]), int(chosen["blocksinmemory"])
            assert scenario.memory_of(product) == (dbcache, waiting)
            # as much for stock, which keeps no blocks in memory
            assert scenario.memory_of(stock) == (dbcache + waiting, 0)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("records", "waiting", "words"),
    [
        ("prune 600\n", "69", "are never written"),
        ("prune 0\n", "0", "all blocks are stored, none is pruned"),
        ("prune 1\n", "0", "all blocks are stored, none is pruned"),
        ("filters 1\n", "0", "all blocks are stored, as the filters need them"),
        # a disk that keeps the whole chain: pruning would delete nothing
        ("", "0", "all blocks are stored, there is room for the whole chain"),
        ("prune 876543\n", "69", "are never written"),
        ("store-doubt 1\nprune 600\n", "0", "as node.conf may say where it cannot be used"),
    ],
)
def test_blocks_that_cannot_wait(
    machine: Machine, shell: str, records: str, waiting: str, words: str
) -> None:
    """Where all blocks are stored, none waits in memory, and the coins have all of it."""
    machine.disk("sata", 2000000)
    machine.memory(950)
    machine.records(records)
    assert machine.run(shell).returncode == 0
    chosen = machine.settings()
    assert (chosen["blocksinmemory"], int(chosen["dbcache"])) == (waiting, 279 - int(waiting))
    assert words in (machine.path / "run/bitcoind/tuned.conf").read_text()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("doubt", ["absent 1\n", "unread 1\n", "prune-doubt It is.\n", None])
def test_blocks_are_stored_as_before(machine: Machine, shell: str, doubt: str | None) -> None:
    """What the last good node.conf asked for holds while there is none that can be read."""
    machine.disk("sd", 29000)
    machine.write("var/lib/cairn/prune.main", "4781\n")

    def waiting(last_good: str, doubt: str | None) -> int:
        machine.write("var/lib/cairn/node.conf", last_good)
        machine.records(doubt or "")
        if doubt is None:
            (machine.path / "run/cairn/node-conf.records").unlink()
        assert machine.run(shell).returncode == 0
        return int(machine.settings()["blocksinmemory"])

    assert waiting("maxconnections=20\n", doubt) > 0
    for line in ("blocksinmemory=0", " noblocksinmemory=1", "[main]\nblockfilterindex=1"):
        assert waiting(f"# a\n{line}\n", doubt) == 0
        assert waiting(f"# a\n{line}\n", "network on\n") > 0
        # as the parser reads it: an editor's mark, other ends of lines
        assert waiting(f"\ufeff{line}\n", doubt) == 0
        assert waiting(f"a=1\r{line}\r", doubt) == 0
        assert "Each block of the first sync is stored" in machine.report()
    for line in ("#blocksinmemory=0", "blocksinmemory=256", "coinstatsindex=0", "txindex=1"):
        assert waiting(f"{line}\n", doubt) > 0
    if doubt:  # a line that can be used decides
        now = f"{doubt}option - blocksinmemory=200\n"
        assert waiting("blocksinmemory=0\n", now) > 0
    assert "Each block of" not in machine.report()


FAST = ("51200", "3500", "8000")
#: prune= and vm.dirty_bytes (MiB) of a disk of 476000 MiB that nobody measured, with 7900 of RAM
UNMEASURED = {"usb": ("212636", 48), "sata": ("340217", 256)}


def outcome(machine: Machine, shell: str) -> tuple[str, int]:
    """prune=, and vm.dirty_bytes in MiB."""
    machine.write("proc/sys/vm/dirty_bytes", "0")
    machine.write("proc/sys/vm/dirty_background_bytes", "0")
    result = machine.run(shell, "--apply")
    assert result.returncode == 0
    assert result.stderr == ""
    dirty = int((machine.path / "proc/sys/vm/dirty_bytes").read_text()) // 1048576
    return machine.settings()["prune"], dirty


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("kind", "figures", "prune", "dirty", "words"),
    [
        ("usb", FAST, "340217", 256, "settings for sata instead of usb"),
        ("usb", ("51199", "3500", "8000"), "212636", 48, "settings for usb"),
        ("usb", ("51200", "3499", "8000"), "212636", 48, "settings for usb"),
        ("usb", ("51200", "3500", "8001"), "212636", 48, "settings for usb"),
        ("usb", ("99999999", "99999999", "1"), "340217", 256, "settings for sata instead of usb"),
        ("usb", ("1", "1", "99999999"), "212636", 48, "settings for usb"),
        # what is about wear stays
        ("sata", ("29296", "9000", "500"), "340217", 48, "settings for sd instead of sata"),
        ("sata", ("90000", "1499", "500"), "340217", 48, "settings for sd instead of sata"),
        ("sata", ("29297", "1500", "99999999"), "340217", 256, "settings for sata"),
    ],
)
def test_a_measured_disk(
    machine: Machine,
    shell: str,
    kind: str,
    figures: tuple[str, str, str],
    prune: str,
    dirty: int,
    words: str,
) -> None:
    """At the thresholds, and far from them; --explain says what decided."""
    machine.memory(7900)
    machine.disk(kind, 476000)
    assert outcome(machine, shell) == UNMEASURED[kind]
    assert "not measured: there is no result" in machine.run(shell, "--explain").stdout
    machine.speed(*figures)
    assert outcome(machine, shell) == (prune, dirty)
    explained = machine.run(shell, "--explain").stdout
    assert re.search(rf"(?m)^measured: writes \d+\.\d MiB/s, .*; {words}$", explained)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("kind", ["sd", "emmc", "nvme", "virtio", "hdd"])
def test_where_speed_changes_nothing(machine: Machine, shell: str, kind: str) -> None:
    """A result that is there all the same does not count."""
    machine.memory(7900)
    machine.disk(kind, 476000)
    before = outcome(machine, shell)
    for figures in (FAST, ("1", "1", "99999999")):
        machine.speed(*figures)
        assert outcome(machine, shell) == before
    words = f"not measured: nothing depends on it for {kind}"
    assert words in machine.run(shell, "--explain").stdout


NO_NUMBERS = ["", "0", "-1", "007", "nan", "inf", "1e9", "0x9", "9.9", "123456789", "$(id)", "9 9"]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("number", NO_NUMBERS)
def test_a_hostile_number(machine: Machine, number: str, place: int) -> None:
    """One figure that is none: the class decides, in silence."""
    machine.memory(7900)
    machine.disk("usb", 476000)
    figures = ["99999999", "99999999", "1"]
    figures[place] = number
    machine.speed(figures[0], figures[1], figures[2])
    assert outcome(machine, SHELLS[0]) == UNMEASURED["usb"]
    assert outcome(machine, SHELLS[1]) == UNMEASURED["usb"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("how", ["cut", "longer", "huge", "other", "link", "pipe", "folder", "odd"])
def test_a_hostile_result(machine: Machine, shell: str, how: str) -> None:
    """A file that is not as cairn-probe writes it is not opened, or does not count."""
    machine.memory(7900)
    machine.disk("usb", 476000)
    text = machine.speed(*FAST)
    file = machine.path / RESULT
    if how == "cut":
        file.write_text(text[:-4])
    elif how == "longer":
        file.write_text(text + "end\n")
    elif how == "huge":
        file.write_text(text + "#" * 100000)
    elif how == "other":
        machine.speed(*FAST, disk="0123456789abcdef")
    elif how == "odd":
        file.write_bytes(text.encode().replace(b"51200", b"51200\0\xff\x1b[2J"))
    else:
        file.unlink()
        if how == "link":
            machine.write("etc/shadow", text)
            file.symlink_to(machine.path / "etc/shadow")
        elif how == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
    assert outcome(machine, shell) == UNMEASURED["usb"]
    assert "not measured" in machine.run(shell, "--explain").stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("then", ["lost", "slow"])
def test_no_measurement_deletes_blocks(machine: Machine, shell: str, then: str) -> None:
    """A node that came up with an SSD's share keeps it when the result is lost or differs."""
    machine.memory(7900)
    machine.disk("usb", 476000)
    machine.speed(*FAST)
    assert outcome(machine, shell)[0] == "340217"
    machine.write("var/lib/cairn/prune.main", "340217\n")  # as cairn-bitcoind-started notes it
    if then == "lost":
        (machine.path / RESULT).unlink()
    else:
        machine.speed("1", "1", "99999999")
    assert outcome(machine, shell) == ("340217", 48)
    # what the owner asked for once is another matter: the rule is the table's
    machine.write("var/lib/cairn/prune.main", "300000\n")
    assert outcome(machine, shell)[0] == "212636"
    machine.records("prune 600\n")
    assert outcome(machine, shell)[0] == "600"


MAPS = {"sd": "64", "emmc": "64", "usb": "64", "hdd": "64"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("kind", DEVICES)
def test_engine_by_class(machine: Machine, shell: str, kind: str) -> None:
    """Without data LevelDB; with LMDB's, its map by the storage class."""
    machine.disk(kind, 100000)
    machine.converter()
    assert machine.run(shell).returncode == 0
    assert machine.settings()["dbbackend"] == "leveldb"
    assert "dbmapsize" not in machine.settings()
    machine.write("var/lib/bitcoind/chainstate/lmdb/data.mdb", "")
    assert machine.run(shell).returncode == 0
    assert machine.settings()["dbbackend"] == "lmdb"
    assert machine.settings()["dbmapsize"] == MAPS.get(kind, "256")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("chain", "below"), [("main", ""), ("signet", "/signet")])
@pytest.mark.parametrize(
    ("kind", "found", "engine"),
    [
        ("nvme", "CURRENT", "leveldb"),
        ("sd", "lmdb/data.mdb", "lmdb"),
        ("sd", "", "leveldb"),
        ("nvme", "", "leveldb"),
        # both, one of them left behind
        ("nvme", "CURRENT lmdb/data.mdb outdated.lmdb", "leveldb"),
        ("sd", "CURRENT lmdb/data.mdb outdated.leveldb", "lmdb"),
        # left behind, and the other one is gone: bitcoind goes on with it
        ("nvme", "lmdb/data.mdb outdated.lmdb", "lmdb"),
        ("nvme", "CURRENT lmdb/lock.mdb outdated.leveldb", "leveldb"),
        # what is left of one whose removal was interrupted
        ("nvme", "lmdb/data.mdb outdated.leveldb 000005.ldb", "lmdb"),
        ("nvme", "lmdb/data.mdb CURRENT outdated.leveldb 000005.ldb", "lmdb"),
    ],
)
def test_engine_by_data(
    machine: Machine, shell: str, chain: str, below: str, kind: str, found: str, engine: str
) -> None:
    """What is there decides, for the chain that the node is on."""
    machine.disk(kind, 100000)
    machine.converter()
    machine.records("", chain)
    for file in found.split():
        machine.write(f"var/lib/bitcoind{below}/chainstate/{file}", "")
    assert machine.run(shell).returncode == 0
    assert machine.settings()["dbbackend"] == engine


#: MiB beside what tuned.conf sets. System: 56 used by all but bitcoind, and the journal's 32
#: (docs/reports/images.md, journald.conf.d). bitcoind: 127 anonymous memory beyond its cache,
#: mempool and batches in sd-1g (docs/reports/performance.md), and mainnet's block index, 0.93
#: million of 208 bytes. Tor: docs/design/tuning.md.
SYSTEM, DAEMON, TOR = 128, 320, 64
SIZES = [*range(460, 1000, 60), *range(1000, 4200, 240), 7900, 15900, 32000, 65536]


@pytest.mark.parametrize("tor", [False, True], ids=["", "Tor"])
@pytest.mark.parametrize("done", [False, True], ids=["sync", "tip"])
@pytest.mark.parametrize("ram", SIZES)
def test_memory_is_not_spent_twice(machine: Machine, ram: int, done: bool, tor: bool) -> None:
    """All reserves together leave an eighth of the memory to the page cache.

    Machines of less than 900 MiB count on a quarter more, from swap: half of RAM, packed 2:1. The
    smallest have nothing to spare for Tor: bitcoind gets its least, and the screen has said why.
    """
    machine.memory(ram)
    if tor:
        machine.write("run/cairn/torrc", "SocksPort 127.0.0.1:9050\n")
    machine.disk("sd", 29000)
    if done:
        machine.write("var/lib/cairn/initial-sync-done", "")
    assert machine.run("dash").returncode == 0
    chosen = {name: int(value) for name, value in machine.settings().items() if value.isdigit()}
    peers = chosen["maxconnections"] * 3 // 2
    batches = 2 * chosen["dbbatchsize"] // 1048576
    used = SYSTEM + DAEMON + peers + batches + chosen["maxmempool"] + chosen["dbcache"]
    used += chosen.get("blocksinmemory", 0)
    there = ram + (ram // 4 if ram < 900 else 0)
    if tor and ram < 900:
        assert used + TOR + ram // 8 <= there or chosen["dbcache"] == 16
        assert "a node needs 1 GB" in machine.report()
    else:
        assert used + (TOR if tor else 0) + ram // 8 <= there
    assert chosen["dbcache"] <= oversized(ram)
    assert chosen["maxmempool"] >= 5  # Core's least
    assert chosen["maxconnections"] >= 12  # ten to others, one for a test, one feeler


def oversized(ram: int) -> int:
    """The largest dbcache of which Core does not warn (ShouldWarnOversizedDbCache)."""
    return 450 if ram < 2048 else ram * 75 // 100


def test_the_rule_is_cores(root: Path) -> None:
    """The rule above is the source's: Core reads MemTotal itself, a test cannot give it less."""
    source = root / "out/core/source/src"
    if not source.exists():  # beside the daemon that another tree built
        source = Path(os.environ["CAIRN_BITCOIND"]).parents[1] / "source/src"
    rule = "(total_ram < 2_GiB) ? DEFAULT_DB_CACHE : (total_ram / 100) * 75"
    assert rule in (source / "node/caches.h").read_text()
    assert "DEFAULT_DB_CACHE{DEFAULT_KERNEL_CACHE}" in (source / "node/caches.h").read_text()
    assert "DEFAULT_KERNEL_CACHE{450_MiB}" in (source / "kernel/caches.h").read_text()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("chosen", [False, True], ids=["by data", "by node.conf"])
@pytest.mark.parametrize(("disk", "prune"), [(29000, 550), (58000, 1882), (476000, 196252)])
def test_room_for_lmdb(machine: Machine, shell: str, chosen: bool, disk: int, prune: int) -> None:
    """LMDB's file takes more room than LevelDB's tables; where it will not fit, that is said."""
    machine.disk("sd", disk)
    machine.converter()
    if chosen:
        machine.write("run/bitcoind/bitcoin.conf", "dbbackend=lmdb\n")
    else:
        machine.write("var/lib/bitcoind/chainstate/lmdb/data.mdb", "")
    assert machine.run(shell).returncode == 0
    assert machine.settings()["prune"] == str(prune)
    words = "in LMDB mainnet's coins alone need about 48 GiB and will not fit"
    assert (words in machine.report()) == (disk < 30000)


def test_table_is_complete() -> None:
    """All RAM sizes and all classes are in the table."""
    assert {(row[0], row[1]) for row in TABLE} == {
        (ram, kind) for ram in ("950", "1950", "3900", "7900", "15900") for kind in DEVICES
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_whole_disk(machine: Machine, shell: str) -> None:
    """A file system on an unpartitioned disk is found, too."""
    machine.disk("nvme", 98800, whole=True)
    assert "nvme (nvme0n1, 100000 MiB)" in machine.run(shell, "--explain").stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_device_mapper(machine: Machine, shell: str) -> None:
    """Below a mapped device, the disk under it decides."""
    machine.disk("sd", 29000)
    (machine.path / "sys/dev/block/8:4").unlink()
    mapped = machine.path / "sys/devices/virtual/block/dm-0"
    machine.write("sys/devices/virtual/block/dm-0/size", f"{28000 * 2048}\n")
    (mapped / "slaves").mkdir()
    partition = machine.path / "sys/devices" / DEVICES["sd"][0] / "mmcblk0p4"
    (mapped / "slaves/mmcblk0p4").symlink_to(partition)
    machine.mount("8:4", mapped)
    assert "sd (mmcblk0, 28000 MiB)" in machine.run(shell, "--explain").stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_readable(tmp_path: Path, root: Path, shell: str) -> None:
    """An empty /proc and /sys: careful values, a sentence for each gap, exit 0."""
    blind = Machine(tmp_path, root / "overlay/usr/bin/node-tune")
    assert blind.run(shell).returncode == 0
    settings = blind.settings()
    assert settings["prune"] == "550"
    assert settings["par"] == "1"
    assert settings["maxconnections"] == "20"
    assert settings["dbcache"] == "240"
    for words in (
        "size of the memory",
        "number of processors",
        "kind of storage",
        "size of the data disk",
    ):
        assert words in blind.report()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("online", "par"),
    [("0", "1"), ("0-3,5", "5"), ("0-63", "15"), ("x", "1"), ("0-3,y", "1"), ("3-0", "1")],
)
def test_cores(machine: Machine, shell: str, online: str, par: str) -> None:
    """Range lists, Core's limit, nonsense."""
    machine.disk("sd", 29000)
    machine.write("sys/devices/system/cpu/online", online + "\n")
    assert machine.run(shell).returncode == 0
    assert machine.settings()["par"] == par
    assert ("number of processors" in machine.report()) == (par == "1" and online != "0")


@pytest.mark.parametrize("shell", SHELLS)
def test_too_small(machine: Machine, shell: str) -> None:
    """Too little RAM and disk: the least values and a clear sentence each."""
    machine.memory(480)
    machine.disk("sd", 7000)
    assert machine.run(shell).returncode == 0
    assert machine.settings()["prune"] == "550"
    assert machine.settings()["dbcache"] == "36"
    assert "480 MiB of memory; a node needs 1 GB" in machine.report()
    assert "use a disk of 32 GB or more" in machine.report()


@pytest.mark.parametrize("shell", SHELLS)
def test_explain_writes_nothing(machine: Machine, shell: str) -> None:
    """--explain only prints."""
    machine.disk("sd", 29000)
    before = sorted(machine.path.rglob("*"))
    assert "dbcache" in machine.run(shell, "--explain").stdout
    assert sorted(machine.path.rglob("*")) == before


@pytest.mark.parametrize("shell", SHELLS)
def test_unwritable_output(machine: Machine, shell: str) -> None:
    """The old file stays, and one sentence says why."""
    machine.disk("sd", 29000)
    assert machine.run(shell).returncode == 0
    before = machine.settings()
    machine.memory(7900)
    (machine.path / "run/bitcoind/tuned.conf.new").mkdir()
    result = machine.run(shell)
    assert result.returncode == 1
    assert "cannot be written" in result.stderr
    assert machine.settings() == before


@pytest.mark.parametrize("shell", SHELLS)
def test_full_disk(machine: Machine, shell: str) -> None:
    """A write that fails half-way: the old file stays and no temporary one is left."""
    machine.disk("sd", 29000)
    old = machine.path / "run/bitcoind/tuned.conf"
    machine.write("run/bitcoind/tuned.conf", "prune=600\n")
    result = subprocess.run(
        [*shell.split(), str(machine.script), "--root", str(machine.path)],
        check=False,
        capture_output=True,
        text=True,
        # SIGXFSZ stays ignored, as in Python, so that the write fails instead
        restore_signals=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert result.returncode == 1
    assert "cannot be written" in result.stderr
    assert old.read_text() == "prune=600\n"
    assert [file.name for file in old.parent.iterdir()] == ["tuned.conf"]


@pytest.mark.parametrize("shell", SHELLS)
def test_output_is_no_file(machine: Machine, shell: str) -> None:
    """A directory or a device is never replaced by, or filled with, the settings."""
    machine.disk("sd", 29000)
    pipe = machine.path / "pipe"
    os.mkfifo(pipe)
    for output in (machine.path, pipe):
        result = machine.run(shell, "--output", str(output))
        assert result.returncode == 1
        assert "is not a file" in result.stderr
    assert pipe.is_fifo()
    assert not list(machine.path.glob("**/*.new"))


@pytest.mark.parametrize("shell", SHELLS)
def test_output_without_directory(
    machine: Machine, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare file name means the current directory; the result is readable by all."""
    machine.disk("sd", 29000)
    monkeypatch.chdir(machine.path)
    assert machine.run(shell, "--output", "mine.conf").returncode == 0
    assert "prune=4781\n" in Path("mine.conf").read_text()
    assert Path("mine.conf").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("shell", SHELLS)
def test_report_cannot_be_written(machine: Machine, shell: str) -> None:
    """The node still gets its settings, the kernel its limits, stderr the notes."""
    machine.memory(480)
    machine.disk("sd", 29000)
    (machine.path / "run/cairn/node-tune.report").mkdir(parents=True)
    machine.write("proc/sys/vm/dirty_bytes", "0")
    machine.write("proc/sys/vm/dirty_background_bytes", "0")
    result = machine.run(shell, "--apply")
    assert result.returncode == 0
    assert "node-tune.report cannot be written" in result.stderr
    assert "a node needs 1 GB" in result.stderr
    assert machine.settings()["prune"] == "4781"
    assert int((machine.path / "proc/sys/vm/dirty_bytes").read_text()) == 30 * 1048576


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("size", [None, "", "many\n"])
def test_size_unreadable(machine: Machine, shell: str, size: str | None) -> None:
    """A missing, empty or odd size file: the least prune target, not a failure."""
    machine.disk("sd", 29000)
    file = machine.path / "sys/devices" / DEVICES["sd"][0] / "mmcblk0p4/size"
    file.unlink()
    if size is not None:
        file.write_text(size)
    result = machine.run(shell)
    assert result.returncode == 0
    assert machine.settings()["prune"] == "550"
    assert result.stderr == machine.report()
    assert "size of the data disk cannot be read" in machine.report()


@pytest.mark.parametrize("shell", SHELLS)
def test_card_without_type(machine: Machine, shell: str) -> None:
    """An MMC device that does not say what it is counts as a card, silently."""
    machine.disk("emmc", 58000)
    (machine.path / "sys/devices" / DEVICES["emmc"][0] / "device/type").unlink()
    result = machine.run(shell, "--explain")
    assert ", sd (mmcblk0, 58000 MiB)" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_unknown_device(machine: Machine, shell: str) -> None:
    """A device of no known class: its size counts, its share is a card's; one sentence."""
    disk = machine.path / "sys/devices/vbd-51712/block/xvda"
    machine.write(str((disk / "size").relative_to(machine.path)), f"{100000 * 2048}\n")
    machine.mount("202:0", disk)
    assert machine.run(shell).returncode == 0
    assert machine.settings()["prune"] == "37796"
    assert machine.report().count("\n") == 1
    assert "kind of storage below /var/lib/bitcoind is not known" in machine.report()


@pytest.mark.parametrize("shell", SHELLS)
def test_longest_mount_wins(machine: Machine, shell: str) -> None:
    """/var and not /; and a directory whose name merely begins alike is another one."""
    machine.disk("nvme", 98800)
    info = (machine.path / "proc/self/mountinfo").read_text()
    more = "40 22 9:9 / /var/lib/bitcoi rw - ext4 x rw\n41 1 9:8 / / rw - ext4 y rw\n"
    machine.write("proc/self/mountinfo", info + more)
    assert "nvme (nvme0n1, 98800 MiB)" in machine.run(shell, "--explain").stdout


def test_udev_rules_need_no_later_file(root: Path) -> None:
    """Rules files are read by name: what 60-persistent-storage sets is not there yet."""
    rules = root / "overlay/usr/lib/udev/rules.d/60-cairn-storage.rules"
    assert rules.name < "60-persistent-storage.rules"
    used = re.findall(r"^[^#\n]*?ENV\{(\w+)\}", rules.read_text(), re.MULTILINE)
    assert used == ["DEVTYPE"]


@pytest.mark.parametrize("shell", SHELLS)
def test_wrong_option(machine: Machine, shell: str) -> None:
    """Usage errors end with 2."""
    assert machine.run(shell, "--fast").returncode == 2
    assert "unknown option '--fast'" in machine.run(shell, "--fast").stderr
    assert machine.run(shell, "--output").returncode == 2


ABSENT, DOUBT = "absent 1\n", "prune-doubt Line 3 cannot be used.\n"


@pytest.mark.parametrize(
    ("before", "records", "size", "blocks", "prune"),
    [
        # an archive node stays one, until a readable file says another number
        ("0", "", True, True, "0"),
        ("0", ABSENT, True, True, "0"),
        ("0", DOUBT, True, True, "0"),
        ("0", None, True, True, "0"),
        ("0", "", False, True, "0"),
        ("0", "prune 600\n", True, True, "600"),
        ("0", "prune 1\n", True, True, "1"),
        # one that prunes keeps in doubt what it kept
        ("9000", "", True, True, "4781"),
        ("9000", ABSENT, True, True, "9000"),
        ("9000", DOUBT, True, True, "9000"),
        ("9000", None, True, True, "9000"),
        ("9000", "", False, True, "9000"),
        ("600", DOUBT, True, True, "4781"),
        ("600", DOUBT, False, True, "600"),
        ("1", "", True, True, "4781"),
        ("1", DOUBT, True, True, "1"),
        # a note that cannot be read, or none beside blocks of an older Cairn
        ("", ABSENT, True, True, "1"),
        ("60x", ABSENT, True, True, "1"),
        ("60x", "", True, True, "1"),
        (None, ABSENT, True, True, "1"),
        (None, "", False, True, "1"),
        (None, "", True, True, "4781"),
        # a new node has nothing to lose, but may have been meant to keep all
        (None, ABSENT, True, False, "4781"),
        (None, "", False, False, "550"),
        (None, DOUBT, True, False, "1"),
        (None, "prune 0\n", True, False, "0"),
    ],
)
def test_prune_in_doubt(
    machine: Machine,
    before: str | None,
    records: str | None,
    size: bool,
    blocks: bool,
    prune: str,
) -> None:
    """Nothing is deleted that was kept before, unless the owner says so."""
    machine.disk("sd", 29000)
    if not size:
        (machine.path / "sys/devices" / DEVICES["sd"][0] / "mmcblk0p4/size").unlink()
    if records is None:
        (machine.path / "run/cairn/node-conf.records").unlink()
    else:
        machine.records(records)
    if before is not None:
        machine.write("var/lib/cairn/prune.main", before + "\n" if before else "")
    if blocks:
        machine.write("var/lib/bitcoind/blocks/blk00000.dat", "x")
    assert machine.run("busybox sh").returncode == 0
    assert machine.settings()["prune"] == prune
    asked = records is not None and records.startswith("prune ")
    assert (machine.report() == "") == (asked or prune == "4781")


@pytest.mark.parametrize("shell", SHELLS)
def test_prune_is_remembered_for_each_chain(machine: Machine, shell: str) -> None:
    """What bitcoind came up with is noted; a signet that prunes says nothing about mainnet."""
    machine.disk("sd", 29000)
    machine.write("run/bitcoind/once.conf", "")
    (machine.path / "var/lib/cairn").mkdir(parents=True)
    started = machine.script.parent.parent / "lib/cairn/cairn-bitcoind-started"

    def boot(records: str, chain: str = "main") -> str:
        machine.records(records, chain)
        assert machine.run(shell).returncode == 0
        command = [*shell.split(), str(started), "--root", str(machine.path)]
        subprocess.run(command, check=True)
        return machine.settings()["prune"]

    assert boot("prune 0\noption - prune=0\n") == "0"
    assert boot("prune 600\n", "signet") == "600"
    assert boot(ABSENT) == "0"
    assert boot(DOUBT, "signet") == "4781"
    assert boot("prune 700\n") == "700"
    assert boot("") == "4781"
    assert (machine.path / "var/lib/cairn/prune.main").read_text() == "4781\n"
    assert not list(machine.path.glob("var/lib/cairn/*.new"))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "torn",
    ["", "\n", "x\n", "0", "0\r\n", " 0\n", "0 \n", "0 0\n", "00\n", "0\n0\n", "9" * 20 + "\n"],
)
def test_torn_memory_of_prune(machine: Machine, shell: str, torn: str) -> None:
    """All blocks may have been kept: nothing is deleted until the owner says what he wants."""
    machine.disk("sd", 29000)
    machine.write("var/lib/cairn/prune.main", torn)
    started = machine.script.parents[1] / "lib/cairn/cairn-bitcoind-started"
    command = [*shell.split(), str(started), "--root", str(machine.path)]
    for records in ("", ABSENT, DOUBT):
        machine.records(records)
        result = machine.run(shell)
        assert result.returncode == 0
        assert "umber" not in result.stderr
        assert machine.settings()["prune"] == "1"
        assert "No block is deleted" in machine.report()
        subprocess.run(command, check=True)
        assert (machine.path / "var/lib/cairn/prune.main").read_bytes() == torn.encode()
    machine.records("prune 600\n")
    assert machine.run(shell).returncode == 0
    assert machine.settings()["prune"] == "600"
    subprocess.run(command, check=True)
    assert (machine.path / "var/lib/cairn/prune.main").read_text() == "600\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_unknown_storage_prunes_no_more(machine: Machine, shell: str) -> None:
    """A disk whose kind cannot be read gets a card's smaller share: not of what is there."""
    machine.disk("nvme", 98000)
    (machine.path / "var/lib/cairn").mkdir(parents=True)
    machine.write("var/lib/cairn/prune.main", "59000\n")
    assert machine.run(shell).returncode == 0
    known = int(machine.settings()["prune"])
    (machine.path / "proc/self/mountinfo").unlink()
    assert machine.run(shell).returncode == 0
    assert known < 59000
    assert machine.settings()["prune"] == "59000"

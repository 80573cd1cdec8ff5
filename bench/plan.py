"""What `make bench` compares: scenarios, variants of the daemon, and the claims to be judged."""

from __future__ import annotations

from dataclasses import dataclass, field

#: A microSD card of the better sort: read and write requests and bytes a second. Application
#: performance class A1 asks for 1,500 random reads and 500 random writes a second, A2 for 4,000 and
#: 2,000 with a command queue (SD Association); between them lies what the Pi's card reader gets.
SD = {
    "SLOW_DELAY": "0",
    "SLOW_LIMITS": "iops-read=2000,iops-write=700,bps-read=80000000,bps-write=25000000",
}


#: What is synced: options of support/chaingen. "small" is for scenarios in which an engine writes
#: so much that the standard chain, 2.2 GB, would take hours on a card.
#: "large" and "tip" have a sixth of mainnet's coins; the last 144 blocks of "tip" are a day, full
#: by weight (1.1 MB each, as nothing is signed), and need no -assumevalid. Of a chain with a day,
#: only that is measured: its blocks come one by one, as at the tip.
CHAINS = {
    "standard": (),
    "small": ("-blocks=500", "-utxos=750000"),
    "large": ("-blocks=6000", "-utxos=30000000"),
    "tip": (
        "-blocks=3600",
        "-utxos=30000000",
        "-txs=3500",
        "-scripts=open",
        "-day=144",
        "-dayold=33",
    ),
}


#: Peers of a node that syncs from strangers: Core connects to eight that relay everything, and asks
#: them for blocks. Their rates are made up: each second one half as fast, together 118 Mbit/s.
STRANGERS = (4, 4, 2, 2, 1, 1, 0.5, 0.25)


@dataclass(frozen=True)
class Scenario:
    """Under what limits, and with how much cache, each variant syncs."""

    name: str
    title: str
    disk: dict[str, str] | None  # environment of support/slow-disk, None: no limit
    memory: int | None  # MiB for the daemon and its page cache, None: no limit
    dbcache: int  # MiB
    chain: str = "standard"  # of CHAINS
    alone: bool = False  # hours long, or about one part: only if it is named
    also: tuple[str, ...] = ()  # variants besides the product's, if none is named
    size: str = "6G"  # of the disk
    waiting: int = 0  # MiB for blocks that wait to be connected, if the daemon keeps them in memory
    off_cache: bool = True  # whether they are taken off dbcache, as node-tune does
    peers: tuple[float, ...] = ()  # MiB/s of each peer, at most; none: one without a limit

    def memory_of(self, variant: Variant) -> tuple[int, int]:
        """MiB of -dbcache, and of -blocksinmemory or 0, with which the variant runs."""
        waiting = round(self.waiting * variant.waiting) if variant.keeps_blocks else 0
        return (self.dbcache - self.off_cache * waiting) * variant.cache, waiting


@dataclass(frozen=True)
class Variant:
    """A build of the daemon with its options."""

    name: str
    title: str
    build: tuple[str, ...] = ()  # arguments of support/core-build
    options: tuple[str, ...] = ()  # of bitcoind
    environment: dict[str, str] = field(default_factory=dict)  # of bitcoind
    sysctl: dict[str, str] = field(default_factory=dict)  # files below /proc/sys
    queue: dict[str, str] = field(default_factory=dict)  # of the disk, below /sys/block/*/queue
    cache: int = 1  # times the scenario's dbcache
    waiting: float = 1  # times the scenario's waiting
    mount: str = ""  # options of the file system, mount(8)'s -o
    image: bool = False  # the daemon of the host lane's board, with its C library; no build

    @property
    def folder(self) -> str:
        """Where support/core-build puts it, below out/."""
        words = [word for word in self.build if word != "--with"]
        return "-".join(["core", *[word.removeprefix("--") for word in words]])

    @property
    def keeps_blocks(self) -> bool:
        """Whether blocks of the initial sync may wait in memory and are never stored."""
        return "--stock" not in self.build and "-blocksinmemory=0" not in self.options

    @property
    def base(self) -> str:
        """The product's variant with the same engine: what a candidate or setting is judged by."""
        return "lmdb" if set(LMDB) <= set(self.options) else "leveldb"


@dataclass(frozen=True)
class Claim:
    """What somebody measured elsewhere, and what shows it here: base / variant of a figure."""

    text: str
    source: str
    low: float  # the claim, as a ratio: 1.3 is "30 % more work in the same time"
    high: float
    base: str  # the variant without
    variant: str  # the variant with it
    scenarios: tuple[str, ...]
    figure: str = "sync_s"


#: ``waiting`` is what node-tune gives to blocks that wait, a quarter of the memory for coins and
#: them. In the scaled scenarios only the cache is in proportion to the chain: blocks are not
#: smaller there, and get 32 MiB, nine full ones.
SCENARIOS = [
    Scenario("sd-1g", "SD card, 1 GiB of memory, dbcache=338", SD, 1024, 338, waiting=84),
    Scenario(
        "sd-scaled",
        "SD card, 320 MiB of memory, dbcache=4",
        SD,
        320,
        4,
        "small",
        waiting=32,
        off_cache=False,
    ),
    Scenario(
        "fast", "disk without limit, 2 GiB of memory, dbcache=450", None, 2048, 450, waiting=112
    ),
    Scenario(
        "fast-scaled",
        "disk without limit, 320 MiB, dbcache=4",
        None,
        320,
        4,
        "small",
        waiting=32,
        off_cache=False,
    ),
    Scenario(
        "peers",
        "SD card, 1 GiB, eight peers of 0.25 to 4 MiB/s",
        SD,
        1024,
        338,
        alone=True,
        also=("wide-window",),
        waiting=84,
        peers=STRANGERS,
    ),
    Scenario(
        "large",
        "SD card, 1 GiB, 30 million coins",
        SD,
        1024,
        338,
        "large",
        alone=True,
        size="12G",
        waiting=84,
    ),
    Scenario(
        "tip",
        "a day at the tip, 30 million coins, disk without limit, 384 MiB of memory, dbcache=63",
        None,
        384,
        63,
        "tip",
        alone=True,
        also=("stock-no-seek",),
        size="12G",
    ),
]

#: Regtest never stops checking for BIP 30, mainnet does: all builds have this patch.
BIP30 = ("--with", "bip30-off")
LEVELDB = ("-dbbackend=leveldb",)
LMDB = ("-dbbackend=lmdb",)

#: The first is what the others are compared with.
PRODUCT = [
    Variant("stock", "stock Core (LevelDB)", ("--stock", *BIP30)),
    Variant("leveldb", "Cairn, LevelDB", BIP30, LEVELDB),
    Variant("lmdb", "Cairn, LMDB", BIP30, LMDB),
]
#: What upstream has mended since the pinned release.
UPSTREAM = [
    Variant(
        "stock-no-seek",
        "stock Core, no compactions because of lookups (as in v31.1)",
        ("--stock", *BIP30, "--with", "no-seek-compaction"),
    ),
]
#: Cairn without one of its parts, or without what upstream already has.
ABLATIONS = [
    Variant("blocks-stored", "all blocks stored", BIP30, (*LEVELDB, "-blocksinmemory=0")),
    Variant(
        "wide-window",
        "1,024 blocks ahead asked for",
        (*BIP30, "--with", "wide-window"),
        LEVELDB,
    ),
    Variant("no-fetcher", "no input fetcher", BIP30, (*LEVELDB, "-inputfetchthreads=0")),
    Variant(
        "no-dirty-list",
        "no dirty list",
        (*BIP30, "--with", "prune-empties-cache", "--with", "full-scan"),
        LEVELDB,
    ),
    Variant(
        "unbuffered", "unbuffered block IO", (*BIP30, "--with", "unbuffered-block-io"), LEVELDB
    ),
    Variant("fixed-levels", "LevelDB's own levels", (*BIP30, "--with", "fixed-levels"), LEVELDB),
    Variant("filter-parts", "filters of 2 KiB", (*BIP30, "--with", "filter-parts"), LEVELDB),
    Variant(
        "small-write-buffer",
        "write buffers of 2 MiB",
        (*BIP30, "--with", "small-write-buffer"),
        LEVELDB,
    ),
]
#: What might become a patch of Cairn's, if it pays.
CANDIDATES = [
    Variant(
        "verify-fetch",
        "startup verification on several threads",
        (*BIP30, "--with", "verify-fetch"),
        LEVELDB,
    ),
    Variant(
        "give-back",
        "scans of LevelDB give back pages",
        (*BIP30, "--with", "scans-give-back"),
        LEVELDB,
    ),
    Variant("not-wiped", "streams not wiped", (*BIP30, "--with", "streams-not-wiped"), LEVELDB),
    Variant("cached-hashes", "hashes of coins kept", (*BIP30, "--with", "cached-hashes"), LEVELDB),
    Variant("x86-64-v3", "instructions of x86-64-v3", (*BIP30, "--with", "x86-64-v3"), LEVELDB),
]
#: One setting each that is not node-tune's or the image's: what it would cost or bring.
TUNINGS = [
    Variant("batch-8", "dbbatchsize 8 MiB", BIP30, (*LEVELDB, f"-dbbatchsize={8 << 20}")),
    Variant("batch-64", "dbbatchsize 64 MiB", BIP30, (*LEVELDB, f"-dbbatchsize={64 << 20}")),
    Variant("prune-2000", "prune=2000", BIP30, (*LEVELDB, "-prune=2000")),
    Variant("par-1", "one thread", BIP30, (*LEVELDB, "-par=1")),
    Variant("sync-commit", "dbsync=commit", BIP30, (*LEVELDB, "-dbsync=commit")),
    Variant("sync-none", "dbsync=none", BIP30, (*LEVELDB, "-dbsync=none")),
    Variant("double-cache", "twice the cache", BIP30, LEVELDB, cache=2),
    Variant("waiting-8th", "an eighth of blocksinmemory", BIP30, LEVELDB, waiting=1 / 8),
    Variant("waiting-quarter", "a quarter of blocksinmemory", BIP30, LEVELDB, waiting=1 / 4),
    Variant("waiting-double", "twice blocksinmemory", BIP30, LEVELDB, waiting=2),
    Variant(
        "dirty-48",
        "48 MiB may be dirty",
        BIP30,
        LEVELDB,
        sysctl={"vm/dirty_bytes": str(48 << 20), "vm/dirty_background_bytes": str(16 << 20)},
    ),
    Variant("ahead-16", "read-ahead 16 KiB", BIP30, LEVELDB, queue={"read_ahead_kb": "16"}),
    Variant("ahead-128", "read-ahead 128 KiB", BIP30, LEVELDB, queue={"read_ahead_kb": "128"}),
    Variant("deadline", "mq-deadline", BIP30, LEVELDB, queue={"scheduler": "mq-deadline"}),
    Variant("bfq", "bfq", BIP30, LEVELDB, queue={"scheduler": "bfq"}),
    Variant("commit-60", "journal every 60 s", BIP30, LEVELDB, mount="commit=60"),
    # glibc asks for them by madvise(): the kernel's own setting is "madvise"
    Variant(
        "huge-pages",
        "huge pages",
        BIP30,
        LEVELDB,
        environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
    ),
    Variant("small-tables", "tables of 8 MiB", (*BIP30, "--with", "small-tables"), LEVELDB),
    Variant("lmdb-step", "LMDB, dbmapsize=512", BIP30, (*LMDB, "-dbmapsize=512")),
    Variant("lmdb-commit", "LMDB, dbsync=commit", BIP30, (*LMDB, "-dbsync=commit")),
    Variant("lmdb-none", "LMDB, dbsync=none", BIP30, (*LMDB, "-dbsync=none")),
]
#: Apart from the tunings, for its first build only counts for the next (docs/develop/bench.md).
PROFILED = [
    Variant(
        "profiled", "profile-guided optimization", (*BIP30, "--with", "profile-guided"), LEVELDB
    ),
]
#: The same patches on two C libraries, with no patch for measuring.
LIBRARIES = [
    Variant("glibc", "Cairn on glibc, host lane", (), LEVELDB),
    Variant("musl", "Cairn on musl, x86_64 image", (), LEVELDB, image=True),
]
#: Names that stand for several variants, compare.py's --variant.
GROUPS = {
    "product": PRODUCT,
    "upstream": UPSTREAM,
    "ablations": ABLATIONS,
    "candidates": CANDIDATES,
    "tunings": TUNINGS,
    "libraries": LIBRARIES,
    "profiled": PROFILED,
}
VARIANTS = [variant for members in GROUPS.values() for variant in members]

CLAIMS = [
    Claim(
        "coins cache with a dirty list: 32 % (dbcache=16384), 8.8 % (450), both with prune=550",
        "bitcoin/bitcoin#28280",
        1.088,
        1.32,
        "no-dirty-list",
        "leveldb",
        ("fast", "sd-1g"),
    ),
    Claim(
        "buffered block IO: 7 % of a sync",
        "bitcoin/bitcoin#31551",
        1.07,
        1.07,
        "unbuffered",
        "leveldb",
        ("fast",),
    ),
    Claim(
        "input fetcher: 10 to 26 %",
        "bitcoin/bitcoin#31132",
        1.10,
        1.26,
        "no-fetcher",
        "leveldb",
        ("fast-scaled", "sd-scaled"),
    ),
    Claim(
        "streams not wiped: sync 1.34 times as fast (Raspberry Pi 5, dbcache=2048, prune=550)",
        "bitcoin/bitcoin#30987",
        1.34,
        1.34,
        "leveldb",
        "not-wiped",
        ("fast-scaled",),
    ),
    Claim(
        "LMDB against LevelDB: sync 1.4 times as fast",
        "the project's aim",
        1.4,
        1.4,
        "leveldb",
        "lmdb",
        ("fast", "fast-scaled"),
    ),
    Claim(
        "LMDB against LevelDB: startup verification 4.6 times as fast",
        "the project's aim",
        4.6,
        4.6,
        "leveldb",
        "lmdb",
        ("fast-scaled", "sd-1g"),
        "verify_s",
    ),
]

"""One sync of one daemon under limits, and everything that is measured on the way."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from bench.plan import Scenario, Variant
from lab import boards
from lab.limits import Disk, MemoryGroup, Settings
from lab.node import Daemon
from lab.paths import ROOT
from lab.rpc import RpcError

#: What startup verifies, as in the project's aims: Core's -checkblocks=288 -checklevel=3.
VERIFY_BLOCKS = 288
#: Seconds without a new block after which a sync is given up.
STALLED = 900
RPC_PORT = 18990
#: The board whose processor this machine has, too, and its image's files as Buildroot leaves them.
BOARD = boards.host_lane().name
IMAGE_TREE = Path(os.environ.get("IMAGE_TREE", ROOT / "out" / BOARD / "build/target"))


class RunError(Exception):
    """The daemon did not do what is to be measured; the text says what it did."""


@dataclass(frozen=True)
class Chain:
    """What is synced: bench/chaingen's summary, the ports of the peers that serve it, its file."""

    summary: dict[str, Any]
    ports: list[int]
    path: Path

    @property
    def connect(self) -> list[str]:
        """Options of bitcoind with which it syncs from them."""
        return [f"-connect=127.0.0.1:{port}" for port in self.ports]


class Measured(Daemon):
    """One start of a variant's daemon in a group; its log gives the times."""

    def __init__(
        self, variant: Variant, datadir: Path, run: Path, group: MemoryGroup, *options: str
    ) -> None:
        """Starts it; ``run``: a folder off the measured disk, for the log and the cookie."""
        super().__init__(
            [*command_of(variant), f"-datadir={datadir}"],
            run,
            *options,
            "-logtimemicros",
            "-listen=0",
            port=RPC_PORT,
            environment=variant.environment,
            limit=group.join,
        )
        self.peak_anonymous = self.peak_at_end = 0  # KiB

    def lines(self, patience: float = STALLED) -> Iterator[str]:
        """Lines of the log as they come; RunError when it ends, or says nothing for so long."""
        heard = time.monotonic()
        with self.log.open(errors="replace") as stream:
            rest = ""
            while True:
                ended = self.process.poll() is not None
                text = rest + stream.read()
                *whole, rest = text.split("\n")
                yield from whole
                if whole:
                    heard = time.monotonic()
                elif ended or time.monotonic() - heard > patience:
                    what = f"ended with {self.process.returncode}" if ended else "came to a stop"
                    raise RunError(f"bitcoind {what}; see {self.log}")
                else:
                    self._sample()
                    time.sleep(0.1)

    def until(self, pattern: str) -> tuple[float, re.Match[str]]:
        """Waits for a line; seconds from the start to the line's own time, and the match."""
        for line in self.lines():
            match = re.search(pattern, line)
            if match:
                return datetime.fromisoformat(line.split()[0]).timestamp() - self.began, match
        raise AssertionError("lines() ends by an exception")

    def _status(self) -> dict[str, int]:
        """Memory figures of /proc/PID/status in KiB; empty when it has ended."""
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return {}
        return {m[1]: int(m[2]) for m in re.finditer(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}

    def io(self, field: str) -> int:
        """A field of /proc/PID/io, in bytes."""
        text = Path(f"/proc/{self.process.pid}/io").read_text()
        return int(text.partition(f"\n{field}: ")[2].split()[0])

    def _sample(self) -> None:
        self.peak_anonymous = max(self.peak_anonymous, self._status().get("RssAnon", 0))

    def usage(self) -> dict[str, float]:
        """So far: processor seconds; MiB of resident memory at most, and deleted before written."""
        self._sample()
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return {
            "cpu_s": cpu,
            "rss_mib": self._status()["VmHWM"] / 1024,
            "rss_anonymous_mib": self.peak_anonymous / 1024,
            "unwritten_mib": self.io("cancelled_write_bytes") / 2**20,
        }

    def stop_time(self) -> float:
        """Asks it to end; the seconds until it has. Its last flush counts for ``peak_at_end``."""
        began = time.monotonic()
        self.peak_at_end = self._status().get("VmHWM", 0)
        self.call("stop")
        self.close()
        while self.process.poll() is None:
            self.peak_at_end = max(self.peak_at_end, self._status().get("VmHWM", 0))
            if time.monotonic() - began > STALLED:
                raise RunError(f"bitcoind does not stop in {STALLED} s; see {self.log}")
            time.sleep(0.01)
        if status := self.process.returncode:
            raise RunError(f"bitcoind stopped with {status}; see {self.log}")
        return time.monotonic() - began


def drop_caches() -> None:
    """What is read next comes from the device."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")


class Stolen:
    """What a virtual machine's host gives to others: processor time that was wanted here."""

    def __init__(self) -> None:
        """From now on."""
        self._before = self._ticks()

    @staticmethod
    def _ticks() -> list[int]:
        # proc_stat(5): user nice system idle iowait irq softirq steal
        with Path("/proc/stat").open() as stream:
            return [int(word) for word in stream.readline().split()[1:9]]

    def percent(self) -> float:
        """Of all processor time since then."""
        spent = [now - then for now, then in zip(self._ticks(), self._before, strict=True)]
        return 100 * spent[7] / max(1, sum(spent))


def bench_log(log: Path) -> dict[str, float]:
    """Seconds of the parts of connecting blocks, from -debug=bench's last running totals."""
    parts = {
        "Fork checks": "fork_checks_s",
        "Connect total": "connect_s",
        "Connect block": "total_s",
    }
    found: dict[str, float] = {}
    pattern = re.compile(r"- (Fork checks|Connect total|Connect block): .*\[([0-9.]+)s")
    with log.open(errors="replace") as stream:
        for line in stream:
            match = pattern.search(line)
            if match:
                found[parts[match[1]]] = float(match[2])
    return found


def of_blocks(node: Measured) -> dict[str, float]:
    """MiB that came from peers, and of blocks that were to wait in memory and did not fit."""
    figures = {"received_mib": node.call("getnettotals")["totalbytesrecv"] / 2**20}
    memory = node.call("getblockchaininfo").get("blocks_in_memory")
    return figures | ({"spilled_mib": memory["stored_bytes"] / 2**20} if memory else {})


def binary_of(variant: Variant) -> Path:
    """The daemon that support/core-build makes of it, or the one of the image."""
    if variant.image:
        return IMAGE_TREE / "usr/bin/bitcoind"
    return ROOT / "out" / variant.folder / "bin/bitcoind"


def command_of(variant: Variant) -> list[str]:
    """What starts it: the image's daemon by the image's own loader, with its libraries."""
    binary = binary_of(variant)
    if not variant.image:
        return [str(binary)]
    libraries = f"{IMAGE_TREE}/usr/lib:{IMAGE_TREE}/lib"
    return [str(loader()), "--library-path", libraries, str(binary)]


def loader() -> Path:
    """The image's dynamic loader, which is its C library, too. Raises RunError."""
    found = sorted((IMAGE_TREE / "lib").glob("ld-musl-*.so.1"))
    if not found:
        raise RunError(f"there is no image in {IMAGE_TREE}; build it with 'make {BOARD}'")
    return found[0]


@dataclass
class Bench:
    """What a run has: an empty disk, limits, and one start of the daemon after the other."""

    variant: Variant
    run: Path  # folder off the disk, for the log and the cookie
    disk: Disk
    cache: list[str]  # the scenario's options of bitcoind
    figures: dict[str, Any]
    _stack: ExitStack
    _group: MemoryGroup | None = None

    def limit(self, memory: int | None) -> None:
        """From the next start on: so many MiB for the daemon and its page cache, None: no limit."""
        self._group = MemoryGroup(memory)
        self._stack.callback(self._group.close)

    def start(self, *options: str) -> Measured:
        """A start of the daemon that prunes, on regtest, with the variant's options."""
        assert self._group
        common = ["-regtest", "-dnsseed=0", "-prune=550", "-maxmempool=5"]
        common += [f"-par={os.cpu_count()}", *self.variant.options]
        node = Measured(self.variant, self.disk.path, self.run, self._group, *common, *options)
        self._stack.callback(node.kill)
        return node

    def check_coins(self, node: Measured, summary: dict[str, Any]) -> None:
        """Compares the UTXO set with the chain's. Raises RunError."""
        result = node.call("gettxoutsetinfo", "muhash")
        if result["muhash"] != summary["muhash"]:
            raise RunError(f"{self.variant.name} has other coins than the chain: {result}")
        self.figures["coins_equal"] = True


@contextmanager
def bench_of(scenario: Scenario, variant: Variant, folder: Path) -> Iterator[Bench]:
    """A run with the variant's settings of the kernel; all is ended and removed at its end.

    Raises RunError, also for what bitcoind's RPC or the system says in between; LimitError.
    """
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    dbcache, waiting = scenario.memory_of(variant)
    cache = [f"-dbcache={dbcache}"]
    if waiting:
        cache.append(f"-blocksinmemory={waiting}")
    figures = {"load": os.getloadavg()[0]}
    with ExitStack() as stack:
        disk = Disk(folder / "disk", scenario.disk, scenario.size, variant.mount)
        stack.callback(disk.close)
        kernel = Settings()
        stack.callback(kernel.restore)
        try:
            for name, value in variant.sysctl.items():
                kernel.set(Path("/proc/sys") / name, value)
            for name, value in variant.queue.items():
                kernel.set(disk.queue / name, value)
            yield Bench(variant, run, disk, cache, figures, stack)
        except (RpcError, OSError, HTTPException, subprocess.SubprocessError) as error:
            raise RunError(f"{variant.name} in {scenario.name}: {error}") from error


def measure(
    scenario: Scenario, variant: Variant, chain: Chain, folder: Path, *, check: bool
) -> dict[str, Any]:
    """One run from an empty disk; its figures. Raises RunError, LimitError.

    ``check``: also compare the UTXO set with the chain's.
    """
    summary = chain.summary
    top, tip = summary["height"], summary["best_block"]
    # The chain is of 2011: to its end the node is in its initial sync, as on mainnet to today.
    common = [f"-assumevalid={tip}"]
    at_top = rf"UpdateTip: new best={tip} height={top} "
    with bench_of(scenario, variant, folder) as bench:
        bench.limit(scenario.memory)
        disk, figures, cache = bench.disk, bench.figures, bench.cache
        drop_caches()
        before, stolen = disk.traffic(), Stolen()
        node = bench.start(*common, *chain.connect, *cache, "-debug=bench")
        figures["sync_s"], _ = node.until(at_top)
        figures["stolen_percent"] = stolen.percent()
        figures |= node.usage()
        figures |= of_blocks(node)
        figures["stop_s"] = node.stop_time()
        figures["rss_stopped_mib"] = node.peak_at_end / 1024
        began = time.monotonic()
        disk.sync()
        figures["stop_s"] += time.monotonic() - began
        sync = disk.traffic() - before
        figures |= {"written_mib": sync.written / 2**20, "flushes": sync.flushes}
        figures |= {"writes": sync.writes, "written_per_block_kib": sync.written / 1024 / top}
        figures |= bench_log(node.log)
        drop_caches()
        node = bench.start(*common, "-connect=0", *cache)
        figures["restart_s"], _ = node.until("Done loading")
        node.stop_time()
        drop_caches()
        if scenario.memory_of(variant)[1]:
            # The full blocks were never stored: there is nothing like stock's to verify.
            node = bench.start(*common, "-connect=0", *cache)
        else:
            # The newest blocks of a chain with made signatures are empty: the full ones count.
            blocks = summary["tail"] + VERIFY_BLOCKS
            verify = ["-dbcache=450", f"-checkblocks={blocks}", "-checklevel=3"]
            before = disk.traffic()
            node = bench.start(*common, "-connect=0", *verify)
            first, _ = node.until(rf"Verifying last {blocks} blocks at level 3")
            last, found = node.until(
                r"Verification: No coin database inconsistencies in last (\d+) blocks \((\d+)"
            )
            figures["verify_s"] = last - first
            figures["verify_cpu_s"] = node.usage()["cpu_s"]
            figures["verify_read_mib"] = (disk.traffic() - before).read / 2**20
            figures |= {"verified_blocks": int(found[1]), "verified_transactions": int(found[2])}
        # before that it takes no command, not even to stop
        node.until("Done loading")
        if check:
            bench.check_coins(node, summary)
        node.stop_time()
    return figures

"""One sync of one daemon under limits, and everything that is measured on the way."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import tip
from bench.plan import Scenario, Variant
from lab import boards
from lab.block_server import Chain as Blocks
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
    """What is synced: bench/chaingen's summary, the port of the peer that serves it, its file."""

    summary: dict[str, Any]
    port: int
    path: Path


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
        self.peak_anonymous = 0

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

    def _sample(self) -> None:
        self.peak_anonymous = max(self.peak_anonymous, self._status().get("RssAnon", 0))

    def usage(self) -> dict[str, float]:
        """So far: processor seconds; MiB of resident memory at most, and deleted before written."""
        self._sample()
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        io = Path(f"/proc/{self.process.pid}/io").read_text()
        unwritten = int(io.rpartition("cancelled_write_bytes: ")[2])
        return {
            "cpu_s": cpu,
            "rss_mib": self._status()["VmHWM"] / 1024,
            "rss_anonymous_mib": self.peak_anonymous / 1024,
            "unwritten_mib": unwritten / 2**20,
        }

    def stop_time(self) -> float:
        """Asks it to end; the seconds until it has."""
        began = time.monotonic()
        if status := self.stop(STALLED):
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


def measure(
    scenario: Scenario, variant: Variant, chain: Chain, folder: Path, *, check: bool
) -> dict[str, Any]:
    """One run from an empty disk; its figures. Raises RunError, LimitError.

    ``check``: also compare the UTXO set with the chain's.
    """
    summary = chain.summary
    top, tip = summary["height"], summary["best_block"]
    common = ["-regtest", "-dnsseed=0", "-maxtipage=2000000000", "-prune=550", "-maxmempool=5"]
    cache = f"-dbcache={scenario.dbcache * variant.cache}"
    common += [f"-par={os.cpu_count()}", f"-assumevalid={tip}", *variant.options]
    at_top = rf"UpdateTip: new best={tip} height={top} "
    figures: dict[str, Any] = {"load": os.getloadavg()[0]}
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    group = MemoryGroup(scenario.memory)
    disk = Disk(folder / "disk", scenario.disk, scenario.size, variant.mount)
    kernel = Settings()
    daemon: Measured | None = None

    def start(*options: str) -> Measured:
        nonlocal daemon
        daemon = Measured(variant, disk.path, run, group, *common, *options)
        return daemon

    try:
        for name, value in variant.sysctl.items():
            kernel.set(Path("/proc/sys") / name, value)
        for name, value in variant.queue.items():
            kernel.set(disk.queue / name, value)
        drop_caches()
        before, stolen = disk.traffic(), Stolen()
        node = start(f"-connect=127.0.0.1:{chain.port}", cache, "-debug=bench")
        figures["sync_s"], _ = node.until(at_top)
        figures["stolen_percent"] = stolen.percent()
        figures |= node.usage()
        figures["stop_s"] = node.stop_time()
        began = time.monotonic()
        disk.sync()
        figures["stop_s"] += time.monotonic() - began
        sync = disk.traffic() - before
        figures |= {"written_mib": sync.written / 2**20, "flushes": sync.flushes}
        figures |= {"writes": sync.writes, "written_per_block_kib": sync.written / 1024 / top}
        figures |= bench_log(node.log)
        drop_caches()
        node = start("-connect=0", cache)
        figures["restart_s"], _ = node.until("Done loading")
        node.stop_time()
        drop_caches()
        # The newest blocks of a chain with made signatures are empty: the full ones count.
        blocks = summary["tail"] + VERIFY_BLOCKS
        before = disk.traffic()
        node = start("-connect=0", "-dbcache=450", f"-checkblocks={blocks}", "-checklevel=3")
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
            result = node.call("gettxoutsetinfo", "muhash")
            if result["muhash"] != summary["muhash"]:
                raise RunError(f"{variant.name} has other coins than the chain: {result}")
            figures["coins_equal"] = True
        node.stop_time()
    except (RpcError, OSError) as error:
        raise RunError(f"{variant.name} in {scenario.name}: {error}") from error
    finally:
        if daemon:
            daemon.kill()
        kernel.restore()
        disk.close()
        group.close()
    return figures


def measure_tip(
    scenario: Scenario, variant: Variant, chain: Chain, folder: Path, *, check: bool
) -> dict[str, Any]:
    """The chain but for its last day is synced without limits, then comes the day, as at the tip.

    Figures of the day only. Raises RunError, LimitError. ``check``: as in measure().
    """
    summary = chain.summary
    top = summary["height"]
    base = top - scenario.day
    blocks = Blocks(chain.path)
    now = tip.block_time(blocks.headers[base])
    common = ["-regtest", "-dnsseed=0", "-prune=550", "-maxmempool=5", f"-par={os.cpu_count()}"]
    common += [f"-dbcache={scenario.dbcache * variant.cache}", *variant.options]
    figures: dict[str, Any] = {"load": os.getloadavg()[0]}
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    groups = [MemoryGroup(None)]
    disk = Disk(folder / "disk", scenario.disk, scenario.size, variant.mount)
    daemon: Measured | None = None
    try:
        catching_up = [f"-connect=127.0.0.1:{chain.port}", "-maxtipage=2000000000"]
        daemon = Measured(variant, disk.path, run, groups[0], *common, *catching_up)
        daemon.until(rf"UpdateTip: new best=\S+ height={base} ")
        daemon.stop_time()
        groups.append(MemoryGroup(scenario.memory))
        drop_caches()
        daemon = Measured(
            variant, disk.path, run, groups[1], *common, "-connect=0", f"-mocktime={now}"
        )
        daemon.until("Done loading")
        stolen = Stolen()
        figures |= tip.day(daemon, disk, blocks, base + 1, top)
        figures["tip_stolen_percent"] = stolen.percent()
        figures["tip_rss_mib"] = daemon.usage()["rss_mib"]
        if check:
            result = daemon.call("gettxoutsetinfo", "muhash")
            if result["muhash"] != summary["muhash"]:
                raise RunError(f"{variant.name} has other coins than the chain: {result}")
            figures["coins_equal"] = True
        daemon.stop_time()
    except (RpcError, OSError, tip.TipError) as error:
        raise RunError(f"{variant.name} in {scenario.name}: {error}") from error
    finally:
        if daemon:
            daemon.kill()
        disk.close()
        for group in groups:
            group.close()
    return figures

"""A day at the tip: what a node that has caught up reads and writes, block by block.

Core flushes the coins every 50 to 70 minutes (DATABASE_WRITE_INTERVAL_MIN and _MAX,
validation.h). The day runs on mock time: each block comes at its own time, and a flush when Core
would make it. Between two blocks the databases may do what they like until they have nothing left
to do, and the disk gets all of it: a node at the tip has ten minutes for that, in which the kernel
writes back whatever is dirty (after 30 s, vm.dirty_expire_centisecs).
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.plan import Scenario, Variant
from bench.run_node import Chain, Measured, RunError, Stolen, bench_of, drop_caches
from lab.block_server import Chain as Blocks
from lab.limits import Disk
from lab.p2p import read_compact_size

#: Seconds without a byte written by the daemon after which it has nothing left to do.
QUIET = 1.0
#: Seconds after which it is taken to be never done. The largest compactions take less.
PATIENCE = 900
#: Where a header has its time.
TIME = 68
DAY_BLOCKS = 144


def settle(node: Measured, disk: Disk) -> None:
    """Waits until the databases have nothing left to do; then all of it is on the disk."""
    end = time.monotonic() + PATIENCE
    last, heard = -1, time.monotonic()
    while time.monotonic() - heard < QUIET:
        if time.monotonic() > end:
            raise RunError(f"bitcoind has written for {PATIENCE} s without a pause; see {node.log}")
        time.sleep(QUIET / 10)
        written = node.io("wchar")
        if written != last:
            last, heard = written, time.monotonic()
    disk.sync()


def block_time(header: bytes) -> int:
    """Seconds since 1970."""
    return int(struct.unpack_from("<I", header, TIME)[0])


def transactions(block: bytes) -> int:
    """How many it has: the CompactSize behind its header of 80 bytes."""
    return read_compact_size(block, 80)[0]


def day(node: Measured, disk: Disk, blocks: Blocks, first: int, last: int) -> dict[str, float]:
    """Gives the node the blocks ``first`` to ``last``; figures a day, or a block.

    Raises RunError, RpcError.
    """
    count = last - first + 1
    settle(node, disk)
    before, spent, connected = disk.traffic(), [], 0
    for height in range(first, last + 1):
        node.call("setmocktime", block_time(blocks.headers[height]) + 1)
        block = bytes(blocks.block(height)[0])
        connected += transactions(block)
        data = block.hex()
        start = time.monotonic()
        answer = node.call("submitblock", data)
        spent.append(time.monotonic() - start)
        if answer is not None:
            raise RunError(f"bitcoind does not take block {height}: {answer}; see {node.log}")
        settle(node, disk)
    traffic = disk.traffic() - before
    days = count / DAY_BLOCKS
    size = sum(end - start for start, end in blocks.places[first : last + 1])
    return {
        "tip_written_mib": traffic.written / 2**20 / days,
        "tip_flushes": traffic.flushes / days,
        "tip_reads": traffic.reads / count,
        "tip_read_kib": traffic.read / 2**10 / count,
        "tip_block_ms": 1000 * median(spent),
        "tip_blocks_mib": size / 2**20 / days,
        "tip_transactions": connected / days,
    }


def measure_tip(
    scenario: Scenario, variant: Variant, chain: Chain, folder: Path, *, check: bool
) -> dict[str, Any]:
    """The chain but for its last day is synced without limits, then comes the day, as at the tip.

    Figures of the day only. Raises RunError, LimitError. ``check``: as in run_node.measure().
    """
    top = chain.summary["height"]
    base = top - chain.summary["day"]
    blocks = Blocks(chain.path)
    with bench_of(scenario, variant, folder) as bench:
        bench.limit(None)
        node = bench.start(*bench.cache, *chain.connect, "-maxtipage=2000000000")
        node.until(rf"UpdateTip: new best=\S+ height={base} ")
        node.stop_time()
        bench.limit(scenario.memory)
        drop_caches()
        now = f"-mocktime={block_time(blocks.headers[base])}"
        node = bench.start(*bench.cache, "-connect=0", now)
        node.until("Done loading")
        stolen = Stolen()
        bench.figures |= day(node, bench.disk, blocks, base + 1, top)
        bench.figures["tip_stolen_percent"] = stolen.percent()
        bench.figures["tip_rss_mib"] = node.usage()["rss_mib"]
        if check:
            bench.check_coins(node, chain.summary)
        node.stop_time()
    return bench.figures

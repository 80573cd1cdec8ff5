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
from typing import TYPE_CHECKING

from lab.block_server import Chain as Blocks
from lab.limits import Disk

if TYPE_CHECKING:
    from bench.run_node import Measured

#: Seconds without a byte written by the daemon after which it has nothing left to do.
QUIET = 1.0
#: Seconds after which it is taken to be never done. The largest compactions take less.
PATIENCE = 900
#: Where a header has its time.
TIME = 68
DAY_BLOCKS = 144


class TipError(Exception):
    """The node did not take a block; the text says which."""


def written_by(process: int) -> int:
    """Bytes that it asked the kernel to write so far: `wchar` of /proc/PID/io."""
    text = Path(f"/proc/{process}/io").read_text()
    return int(text.partition("wchar: ")[2].split()[0])


def settle(node: Measured, disk: Disk) -> None:
    """Waits until the databases have nothing left to do; then all of it is on the disk."""
    end = time.monotonic() + PATIENCE
    last, heard = -1, time.monotonic()
    while time.monotonic() - heard < QUIET:
        if time.monotonic() > end:
            raise TipError(f"bitcoind has written for {PATIENCE} s without a pause; see {node.log}")
        time.sleep(QUIET / 10)
        written = written_by(node.process.pid)
        if written != last:
            last, heard = written, time.monotonic()
    disk.sync()


def block_time(header: bytes) -> int:
    """Seconds since 1970."""
    return int(struct.unpack_from("<I", header, TIME)[0])


def day(node: Measured, disk: Disk, blocks: Blocks, first: int, last: int) -> dict[str, float]:
    """Gives the node the blocks ``first`` to ``last``; figures a day, or a block.

    Raises TipError, RpcError.
    """
    count = last - first + 1
    settle(node, disk)
    before, spent = disk.traffic(), []
    for height in range(first, last + 1):
        node.call("setmocktime", block_time(blocks.headers[height]) + 1)
        data = blocks.block(height)[0].hex()
        start = time.monotonic()
        answer = node.call("submitblock", data)
        spent.append(time.monotonic() - start)
        if answer is not None:
            raise TipError(f"bitcoind does not take block {height}: {answer}; see {node.log}")
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
    }

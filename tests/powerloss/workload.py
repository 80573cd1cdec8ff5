"""What a node does while its disk is traced: sync, flush, write a wallet, stop, be killed.

All that it told its user is a mark in the trace (reconstruct.Acknowledged). On mainnet it
syncs real blocks. On regtest blocks arrive while it runs, it prunes (Core prunes mainnet
from height 100000 only), and once the chain changes below it. A chain with a deep part is there
before, and blocks arrive when the node has caught up.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab.node import Node
from lab.rpc import RpcError
from tests.powerloss.source import ANYONE, ANYONE_ELSE, DEEP, LARGES, Source

#: Starts of the daemon; each other one ends by a kill, so that a start after a crash without
#: a power cut is in the trace, too. Each start makes tables of LevelDB's logs.
PHASES = 10
#: The coins of a flush are sorted part by part; -dbbatchsize is no more than that.
BATCHES = "-dbbatchsize=20000"
#: Seconds that a step waits for a chain that does not grow, at most.
STANDS_STILL = 1.0
#: Shares of the looks at a file's dirty pages that write them; each file has one of these. If all
#: files were written at once, a flush of the disk would save what the node had forgotten to sync.
SHARES = 0.0, 0.1, 1.0
#: Blocks that another chain replaces, on regtest.
REORG = 7
#: Blocks before the large ones from which on nothing is flushed until they are there
NEAR = 30
#: With a deep part: height at the end of each start, and of the last one so many above the top that
#: the chain had. The large coins come in the third.
DEEP_PHASES = 300, LARGES.start - 2 * NEAR, LARGES.stop + 1, 850, DEEP - 50, DEEP + 60, DEEP + 400
TIP_PHASES = 10, 60, 150
#: A cache in which all large coins wait for one flush
LARGE_CACHE = "-dbcache=180"

Mark = Callable[[dict[str, object]], None]


class Workload:
    """One node with one data directory."""

    def __init__(self, mark: Mark, source: Source, seed: int) -> None:
        """``mark`` is called with what was acknowledged, right after the answer."""
        self._mark = mark
        self._source = source
        self._random = random.Random(seed)
        self._addresses: list[str] = []
        self._labels = 0
        self._stage = ""
        self._flushed = -1
        self._wallet = ""
        self._tries = 0

    def sync_to(self, node: Node, height: int) -> None:
        """Steps until that height is flushed; TimeoutError after ten minutes."""
        deadline = time.monotonic() + 600
        while (done := self.step(node)) < height:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the node is at {done} of {height} blocks after 10 minutes")

    def step(self, node: Node) -> int:
        """Some blocks, perhaps a wallet write, perhaps pruning, then a flush; its height."""
        deep = self._source.deep >= 0
        arrives = self._source.grows
        if deep:
            height = node.call("getblockcount")
            arrives = height >= self._source.first_top
            self._pass_large(node, height)
        if arrives:
            self._source.generate(self._random.randint(1, 5 if deep else 20))
        if arrives and self._random.random() < 0.5:
            self._stand_still(node)
        else:
            time.sleep(self._random.uniform(0, 0.3))
        if self._random.random() < 0.4:
            self._write_wallet(node)
        if arrives and self._random.random() < 0.3:
            # Never more than what is 288 blocks below the tip
            pruned = max(1, node.call("getblockcount") - 300)
            self._mark({"pruned": pruned})
            with contextlib.suppress(RpcError):
                node.call("pruneblockchain", pruned)
        return self._flush(node)

    def _pass_large(self, node: Node, height: int) -> None:
        """Flushes not before the node has all blocks with large coins, so that they are one flush;
        at most ten seconds.
        """
        deadline = time.monotonic() + 10
        while LARGES.start - NEAR <= height < LARGES.stop and time.monotonic() < deadline:
            time.sleep(0.05)
            height = node.call("getblockcount")

    def _stand_still(self, node: Node) -> None:
        """Waits until the chain grows no more, at most a second: the next block is withheld, or
        there is none. Where it is withheld, undo data of the newest blocks was written a moment
        ago, to an older file than that of the block that came last.
        """
        height, before = node.call("getblockcount"), -1
        deadline = time.monotonic() + STANDS_STILL
        while height != before and time.monotonic() < deadline:
            time.sleep(0.05)
            height, before = node.call("getblockcount"), height

    def reorganize(self, node: Node) -> None:
        """Regtest: a longer chain replaces the newest blocks."""
        rpc = self._source.rpc
        self._source.generate(REORG, descriptor=ANYONE)
        top = self._source.height()
        self._source.remember(top - REORG, top)
        fork = rpc.call("getblockhash", top - REORG)
        # From here on the node may have either chain. It need not have flushed what they share.
        if self._flushed > top - REORG:
            self._mark({"height": top - REORG, "block": fork})
        rpc.call("invalidateblock", rpc.call("getblockhash", top - REORG + 1))
        self._source.generate(REORG + 2, descriptor=ANYONE_ELSE)
        tip = rpc.call("getbestblockhash")
        deadline = time.monotonic() + 60
        while node.call("getbestblockhash") != tip:
            if time.monotonic() > deadline:
                raise TimeoutError("the node does not follow the longer chain")
            time.sleep(0.05)
        self._flush(node)

    def _flush(self, node: Node) -> int:
        # Answered after all coins are in the database, and that is synced.
        self._mark({"writing": True})
        answer = node.call("gettxoutsetinfo", "none")
        height = self._flushed = int(answer["height"])
        self._mark({"height": height, "block": answer["bestblock"]})
        if (stage := self._source.stage(height)) != self._stage:
            self._stage = stage
            self._mark({"stage": stage})
        return height

    def _write_wallet(self, node: Node) -> None:
        if not self._wallet:
            # Where the power failed while it was made, it may be there, or a part of it.
            self._tries += 1
            wallets = node.call("listwallets") or [f"savings-{self._tries}"]
            if wallets[0].endswith(f"-{self._tries}"):
                node.call("createwallet", wallets[0], False, False, "", False, True, True)
            self._wallet = wallets[0]
            self._mark({"wallet": self._wallet})
        self._labels += 1
        label = f"label {self._labels}"
        if self._addresses and self._random.random() < 0.5:
            address = self._random.choice(self._addresses)
            node.call("setlabel", address, label)
        else:
            address = node.call("getnewaddress", label)
            self._addresses.append(address)
        self._mark({"labels": {address: self._labels}})
        if self._random.random() < 0.2:
            # Another file that is rewritten, settings.json's way
            node.call("setban", f"192.0.2.{self._labels % 255}", "add", 86400)


@contextlib.contextmanager
def written_back(folder: Path, seed: int) -> Iterator[None]:
    """Lets the kernel write the files' dirty pages at any moment, not only when synced.

    It does so by itself after seconds or under memory pressure. Here those of a third of the files
    are written within the tenth of a second, so that the disk has much that was written and not
    flushed; those of another third stay in memory. Seed and name decide which files these are.
    """
    end = threading.Event()
    chance = random.Random(seed)
    shares: dict[str, float] = {}

    def write_back() -> None:
        while not end.wait(chance.uniform(0.01, 0.1)):
            try:
                paths = list(folder.rglob("*"))
            except OSError:  # folders come and go, too, and in the end the power
                continue
            for path in paths:
                if path.name not in shares:
                    shares[path.name] = random.Random(f"{seed}/{path.name}").choice(SHARES)
                if chance.random() >= shares[path.name]:
                    continue
                # Files come and go.
                with contextlib.suppress(OSError):
                    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                    try:
                        # Starts writing what is dirty, and waits for nothing
                        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                    finally:
                        os.close(file)

    thread = threading.Thread(target=write_back, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def connections(peers: Sequence[int]) -> list[str]:
    """Options of a node that has these P2P ports of this machine for peers."""
    return [f"-connect=127.0.0.1:{peer}" for peer in peers]


def phases(source: Source, top: int) -> list[tuple[int, list[str]]]:
    """For each start of the daemon: the height up to which it syncs, and more options."""
    if source.deep < 0:
        return [(top * (phase + 1) // PHASES, []) for phase in range(PHASES)]
    heights = [*DEEP_PHASES, *(source.first_top + more for more in TIP_PHASES)]
    return [(height, [LARGE_CACHE] * (height == LARGES.stop + 1)) for height in heights]


def run(
    datadir: Path,
    start: Callable[..., Node],
    mark: Mark,
    source: Source,
    peers: Sequence[int],
    top: int,
    seed: int,
    say: Callable[[str], None],
) -> int:
    """The whole workload: syncs from the P2P ports ``peers`` up to height ``top``, or the chain's
    own where it has a deep part.

    ``start(datadir, option...)`` starts the daemon; ``say`` gets progress. Returns the height
    that it reached, which is larger.
    """
    datadir.mkdir(parents=True, exist_ok=True)
    workload = Workload(mark, source, seed)
    height = 0
    for phase, (end, more) in enumerate(phases(source, top)):
        mark({"phase": phase})
        with (
            written_back(datadir, seed + phase),
            start(datadir, BATCHES, *more, *connections(peers)) as node,
        ):
            workload.sync_to(node, end)
            if source.grows and phase == (PHASES // 2 if source.deep < 0 else PHASES - 2):
                workload.reorganize(node)
            height = max(height, node.call("getblockcount"))
            if phase % 2 == 0 or phase == PHASES - 1:
                node.stop()
        say(f"recorded phase {phase + 1} of {PHASES}, height {height}")
    return height


def mark_on(ask: Callable[[str], object]) -> Mark:
    """Marks go to the disk's control socket; ``ask`` sends a command to it."""

    def mark(facts: dict[str, object]) -> None:
        ask("mark " + json.dumps(facts))

    return mark

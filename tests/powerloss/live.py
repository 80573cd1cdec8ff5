"""Power cuts while the node runs, one after another on the same disk.

The same workload, disk, check and report as of replay.py, with a real cut each time and the
daemon's real recovery in between: slower, and it needs no trust in a reconstruction.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.node import Node
from lab.volatile_disk import VolatileDisk
from tests.powerloss import mounts, reconstruct
from tests.powerloss.check import Chain, check
from tests.powerloss.source import STAGES, Source
from tests.powerloss.workload import BATCHES, LARGE_CACHE, Workload, connections, written_back

#: What a cut is aimed at: the daemon's start, any moment after it, the moment after a flush, or
#: while the coins are written.
AIMS = ("start", "sync", "flush", "write")
#: Seconds to the cut, at least and at most: from mounting (start), or from when the node answers
#: (sync, flush; a flush that is acknowledged is waited for after that).
SECONDS = 0.5, 6.0
#: Seconds that a start or an acknowledgement is waited for; without one, the cut is made anyway.
PATIENCE = 20
#: Seconds after a flush was asked for, at most: a small one takes some hundredths, the largest one.
WRITING = 0.02, 0.1, 1.0
#: Cuts at the tip of a chain with a deep part after which another node begins to sync it.
CUTS_AT_TIP = 10
#: Caches of which each cut has one: coins are written often, or many at once.
CACHES = "-dbcache=4", LARGE_CACHE


class Campaign:
    """One node on one disk."""

    def __init__(
        self,
        work: Path,
        start: Callable[..., Node],
        source: Source,
        peers: Sequence[int],
        seed: int,
    ) -> None:
        """``start(datadir, option...)`` starts the daemon, ``peers`` are ports of its peers."""
        self._work, self._start, self._source = work, start, source
        self._options = [BATCHES, *connections(peers)]
        self._random = random.Random(seed)
        self._chain = Chain(source.muhash, [])
        self._remembered = -1
        self._image = work / "disk.img"
        self._disk = VolatileDisk(self._image, work, seed)
        self._node: Node | None = None
        self._off = threading.Event()
        self._up = threading.Event()
        self._flushed = threading.Event()
        self._begun = threading.Event()
        self.checked_with: Sequence[int] = ()
        """with a deep part: ports of the peers that a checked node goes on with"""
        self.top_every = 1
        """with a deep part: one checked node in so many syncs to the top"""
        self._cuts = self._at_tip = 0
        self._writes = False
        self._new()

    def _new(self) -> None:
        """An empty disk."""
        self._known = reconstruct.Acknowledged()
        self._at_tip = 0
        if self._source.deep >= 0:
            self._source.begin_again()
        self._workload = Workload(self._mark, self._source, self._random.randrange(1 << 30))
        mounts.make_file_system(self._image)

    def _mark(self, facts: dict[str, object]) -> None:
        # With the power, the node would be off, too: what it says later is not heard.
        if not self._off.is_set():
            self._known.learn(json.dumps(facts))
            if "writing" in facts:
                self._writes = True
                self._begun.set()
            if "height" in facts:
                self._writes = False
                self._flushed.set()

    def _work_on(self, datadir: Path, more: Sequence[str]) -> None:
        """Until the power fails, which ends it with one error or another."""
        with (
            contextlib.suppress(Exception),
            self._start(datadir, *self._options, *more) as node,
        ):
            self._node = node
            self._up.set()
            while not self._off.is_set():
                self._workload.step(node)

    def _wait(self, aim: str) -> None:
        """Returns at the moment of the cut."""
        if aim != "start":
            self._up.wait(PATIENCE)
        time.sleep(self._random.uniform(*SECONDS))
        if aim == "flush":
            self._flushed.clear()
            self._flushed.wait(PATIENCE)
        elif aim == "write":
            self._begun.clear()
            self._begun.wait(PATIENCE)
            time.sleep(self._random.uniform(0, self._random.choice(WRITING)))

    def cut(self) -> dict[str, Any]:
        """Starts the node, cuts the power, checks a copy of the disk; the result."""
        policy = self._random.choice(reconstruct.cut_policies())
        aim = self._random.choice(AIMS)
        more = [self._random.choice(CACHES)] if self._source.deep >= 0 else []
        self._off.clear()
        self._up.clear()
        self._writes = False
        begin = time.monotonic()
        mounts.repair(self._image)
        with mounts.volatile(self._disk, self._work) as mount:
            datadir = mount / "lib/bitcoind"
            datadir.mkdir(parents=True, exist_ok=True)
            worker = threading.Thread(target=self._work_on, args=(datadir, more))
            with written_back(datadir, self._random.randrange(1 << 30)):
                worker.start()
                try:
                    self._wait(aim)
                finally:  # an interrupt is an early cut: the file system must not stay in use
                    self._off.set()
                    stage, writing = self._source.stage(self._known.height), self._writes
                    outcome = self._disk.cut(policy)
                    if self._node:
                        self._node.process.kill()
                    worker.join()
                    self._node = None
        top = self._source.height()
        self._source.remember(self._remembered + 1, top)
        if not self.checked_with:
            self._chain.blocks += self._source.blocks(top, self._remembered + 1)
        self._remembered = self._chain.top = top
        self._chain.deep = self._source.deep
        to_the_top = bool(self.checked_with) and self._cuts % self.top_every == 0
        self._cuts += 1
        reconstruct.copy(self._image, self._work / "state")
        verdict = check(
            self._work / "state",
            self._work / "checked",
            self._start,
            self._known,
            self._chain,
            self.checked_with,
            to_the_top=to_the_top,
        )
        result = {
            "aim": aim,
            "stage": stage,
            "writing": writing,
            "to_the_top": to_the_top,
            **outcome,
            **dataclasses.asdict(verdict),
            "acknowledged": self._known.height,
            "seconds": round(time.monotonic() - begin, 1),
        }
        self._at_tip += stage == STAGES[-1]
        if verdict.outcome != "recovered" or self._at_tip > CUTS_AT_TIP:
            # What is lost once would be missed again.
            self._new()
        return result

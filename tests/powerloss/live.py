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
from tests.powerloss.source import Source
from tests.powerloss.workload import BATCHES, Workload, connections, written_back

#: What a cut is aimed at: the daemon's start, any moment after it, or the moment after a flush.
AIMS = ("start", "sync", "flush")
#: Seconds to the cut, at least and at most: from mounting (start), or from when the node answers
#: (sync, flush; a flush that is acknowledged is waited for after that).
SECONDS = 0.5, 6.0
#: Seconds that a start or an acknowledgement is waited for; without one, the cut is made anyway.
PATIENCE = 20


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
        self._image = work / "disk.img"
        self._disk = VolatileDisk(self._image, work, seed)
        self._node: Node | None = None
        self._off = threading.Event()
        self._up = threading.Event()
        self._flushed = threading.Event()
        self._new()

    def _new(self) -> None:
        """An empty disk."""
        self._known = reconstruct.Acknowledged()
        self._workload = Workload(self._mark, self._source, self._random.randrange(1 << 30))
        mounts.make_file_system(self._image)

    def _mark(self, facts: dict[str, object]) -> None:
        # With the power, the node would be off, too: what it says later is not heard.
        if not self._off.is_set():
            self._known.learn(json.dumps(facts))
            if "height" in facts:
                self._flushed.set()

    def _work_on(self, datadir: Path) -> None:
        """Until the power fails, which ends it with one error or another."""
        with (
            contextlib.suppress(Exception),
            self._start(datadir, *self._options) as node,
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

    def cut(self) -> dict[str, Any]:
        """Starts the node, cuts the power, checks a copy of the disk; the result."""
        policy = self._random.choice(reconstruct.cut_policies())
        aim = self._random.choice(AIMS)
        self._off.clear()
        self._up.clear()
        begin = time.monotonic()
        mounts.repair(self._image)
        with mounts.volatile(self._disk, self._work) as mount:
            datadir = mount / "lib/bitcoind"
            datadir.mkdir(parents=True, exist_ok=True)
            worker = threading.Thread(target=self._work_on, args=(datadir,))
            with written_back(datadir, self._random.randrange(1 << 30)):
                worker.start()
                try:
                    self._wait(aim)
                finally:  # an interrupt is an early cut: the file system must not stay in use
                    self._off.set()
                    outcome = self._disk.cut(policy)
                    if self._node:
                        self._node.process.kill()
                    worker.join()
                    self._node = None
        top = self._source.height()
        self._source.remember(len(self._chain.blocks), top)
        self._chain.blocks += self._source.blocks(top, len(self._chain.blocks))
        reconstruct.copy(self._image, self._work / "state")
        verdict = check(
            self._work / "state", self._work / "checked", self._start, self._known, self._chain
        )
        if verdict.outcome != "recovered":
            # What is lost once would be missed again.
            self._new()
        return {
            "aim": aim,
            **outcome,
            **dataclasses.asdict(verdict),
            "acknowledged": self._known.height,
            "seconds": round(time.monotonic() - begin, 1),
        }

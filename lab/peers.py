"""Several peers on loopback that hand on one feeder's blocks, out of order.

usage: .venv/bin/python -m lab.peers --feeder P [--seed S] [--share F] [--behind N] [--pace N]
                                      PORT...

  --feeder P   P2P port on 127.0.0.1 of the stock daemon, see support/feeder
  --seed S     with a block's hash decides which blocks are withheld and for how long, default 1
  --share F    share of the blocks that are withheld, default 0.01
  --behind N   a withheld block comes after 1 to N others, default 600; Core fetches 1024 ahead
  --pace N     blocks a second at most, of all peers together; default 0, no limit. A made chain
               would be synced in a few seconds
  PORT...      ports on 127.0.0.1, each a peer of its own

A node that syncs from one honest peer gets its blocks almost in the order of the chain. With
several it stores blocks in later files while an earlier one is still missing, and the undo data
of the earlier files is written much later than their blocks. These peers make that happen all
the time. A block is withheld on all of them alike. It is handed on when enough others were, or
when none came for a second: the node is at the tip, or has fetched all that it may fetch ahead,
and would hang up on a peer that stalls it for two.

Prints `peers=PORT...` when it listens. Ctrl-C or SIGTERM ends it; then it prints how many blocks
were handed on and how many of them came late.
Exit status: 0; 1 and one sentence when a port is in use or the feeder does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Iterable

from lab.p2p import HEAD, HEADER, PAYLOAD_MAX, block_inv, head, sha256d, until_signal, word_of

#: Commands of messages with a block, whole or compact; both begin with its header
BLOCKS = {"block", "cmpctblock"}
#: Seconds without a block after which nothing is withheld any longer
IDLE = 1.0
#: Seconds between looks for that
STEP = 0.1
#: Blocks after which one that was withheld may be so again
AGAIN = 1000


class Gate:
    """Which blocks are withheld, and until when; one for all peers."""

    def __init__(self, seed: int, share: float, behind: int, pace: float = 0) -> None:
        """See the head of this file."""
        self._seed, self._share, self._behind, self._pace = seed, share, behind, pace
        self._next = 0.0
        """when the next block may be handed on, on the loop's clock"""
        self.passed = 0
        """blocks that were handed on so far"""
        self.late = 0
        """blocks that were withheld so far"""
        self._held: dict[bytes, tuple[int, asyncio.Future[None]]] = {}
        self._came: dict[bytes, int] = {}
        """by hash of a block that was withheld: how many had been handed on when it was"""

    def delay(self, name: bytes) -> int:
        """After how many other blocks the one of that hash comes; 0 for most."""
        chance = random.Random(f"{self._seed}/{name.hex()}")
        return chance.randint(1, self._behind) if chance.random() < self._share else 0

    async def wait(self, name: bytes) -> None:
        """Returns when the block of that hash may be handed on, for most at once.

        On all peers alike: one that waits already is waited for, however often it is asked for.
        One that came is not withheld again soon: a node whose power fails every few seconds would
        wait for the same block each time, and get no further.
        """
        came = self._came.get(name)
        soon = came is not None and self.passed < came + AGAIN
        if name not in self._held and not soon and (delay := self.delay(name)):
            future = asyncio.get_running_loop().create_future()
            self._held[name] = self.passed + delay, future
            self.late += 1
        if name in self._held:
            await asyncio.shield(self._held[name][1])
        if self._pace:
            now = asyncio.get_running_loop().time()
            self._next = max(now, self._next + 1 / self._pace)
            await asyncio.sleep(self._next - now)
        self.passed += 1
        self._open(self.passed)

    def _open(self, passed: int | None) -> None:
        """Hands on what is due; None: all of it."""
        for name, (due, future) in list(self._held.items()):
            if passed is None or due <= passed:
                del self._held[name]
                self._came[name] = self.passed
                future.set_result(None)

    async def run(self) -> None:
        """Opens it when no block has come for a while; never returns."""
        before, idle = -1, 0.0
        while True:
            await asyncio.sleep(STEP)
            idle = idle + STEP if self.passed == before else 0.0
            before = self.passed
            if idle >= IDLE:
                self._open(None)


class Relay:
    """All connections."""

    def __init__(self, feeder: int, gate: Gate) -> None:
        """``feeder``: its port."""
        self._feeder, self._gate = feeder, gate
        self._nodes: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest = b""

    def _later(self, work: asyncio.Task[None]) -> None:
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one node's connection until one side hangs up."""
        peer: asyncio.StreamWriter | None = None
        try:
            first = await reader.readexactly(HEAD.size)
            # P2P's version 2 begins with random bytes; then the node tries version 1.
            if not first[4:].startswith(b"version\0"):
                return
            source, peer = await asyncio.open_connection("127.0.0.1", self._feeder)
            peer.write(first)
            done, pending = await asyncio.wait(
                [
                    asyncio.ensure_future(_copy(reader, peer)),
                    asyncio.ensure_future(self._hand_on(source, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in pending:
                task.cancel()
            await asyncio.gather(*done, *pending, return_exceptions=True)
        except (EOFError, OSError):
            pass  # one of them hung up
        finally:
            self._nodes.discard(writer)
            for end in (writer, peer):
                if end:
                    end.close()

    async def _hand_on(self, source: asyncio.StreamReader, node: asyncio.StreamWriter) -> None:
        """The feeder's messages to a node."""
        while True:
            begin = await source.readexactly(HEAD.size)
            magic, command, size, _ = HEAD.unpack(begin)
            if size > PAYLOAD_MAX:
                raise EOFError
            payload = await source.readexactly(size)
            word = word_of(command)
            if word in BLOCKS:
                name = sha256d(payload[:HEADER])
                self._later(asyncio.ensure_future(self._block(name, node, begin + payload)))
                # The task begins, and with it the order of what is not withheld.
                await asyncio.sleep(0)
            else:
                node.write(begin + payload)
            await node.drain()
            if word == "verack":
                self._nodes.add(node)
                self._announce(magic, [node])
            elif word == "headers" and size > HEADER:
                self._newest = sha256d(payload[-HEADER - 1 : -1])
                self._announce(magic, self._nodes)

    async def _block(self, name: bytes, node: asyncio.StreamWriter, message: bytes) -> None:
        await self._gate.wait(name)
        if not node.is_closing():
            node.write(message)

    def _announce(self, magic: bytes, nodes: Iterable[asyncio.StreamWriter]) -> None:
        """Says on all connections that this peer has the newest block that any was told of.

        A node that is far behind asks one peer for headers; of the others it has to hear that they
        have the blocks, or it fetches none from them.
        """
        if not self._newest:
            return
        payload = block_inv(self._newest)
        for node in nodes:
            if not node.is_closing():
                node.write(head(magic, "inv", payload) + payload)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A node's messages to the feeder, as they are."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def run(feeder: int, ports: list[int], gate: Gate) -> None:
    """Serves until a signal comes; OSError if a port is in use or there is no feeder."""
    relay = Relay(feeder, gate)
    servers = [await asyncio.start_server(relay.connected, "127.0.0.1", port) for port in ports]
    names = [str(server.sockets[0].getsockname()[1]) for server in servers]
    _, writer = await asyncio.open_connection("127.0.0.1", feeder)
    writer.close()
    print(f"peers={' '.join(names)}", flush=True)
    opening = asyncio.ensure_future(gate.run())
    await until_signal()
    opening.cancel()
    print(f"{gate.passed} blocks were handed on, {gate.late} of them were withheld first")


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--feeder", type=int, required=True, help="the feeder's P2P port")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--share", type=float, default=0.01, help="of blocks, default 0.01")
    parser.add_argument("--behind", type=int, default=600, help="other blocks, default 600")
    parser.add_argument("--pace", type=float, default=0, help="blocks a second, default no limit")
    parser.add_argument("ports", type=int, nargs="+", help="ports on 127.0.0.1")
    options = parser.parse_args()
    if not 0 <= options.share <= 1 or not 1 <= options.behind <= 1000:
        parser.error("--share is from 0 to 1, --behind from 1 to 1000")
    if options.pace < 0:
        parser.error("--pace is 0 or more")
    gate = Gate(options.seed, options.share, options.behind, options.pace)
    try:
        asyncio.run(run(options.feeder, options.ports, gate))
    except OSError as error:
        print(f"peers: {error}; start the feeder first, or give other ports", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

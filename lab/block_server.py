"""A peer on loopback that serves the blocks of one file to nodes, and does nothing else.

usage: .venv/bin/python -m lab.block_server FILE [--port P] [--blocks N] [--rate R]
                                           [--announce S] [--prepare]
  FILE      blocks from genesis on, each after the one it builds on, in the format of bitcoind's
            block files (magic, length, block): what bench/chaingen writes, or tests/data unpacked
  --port P  TCP port on 127.0.0.1, default 18555; 0 takes a free one. Ctrl-C or SIGTERM ends it
  --blocks N  how many blocks of the file there are for the node, genesis included; default all
  --rate R  MiB/s at most to each node that is connected, default 0: no limit. Several of these
            programs with different rates are the peers of a node that syncs from strangers
  --announce S  seconds between announcements of the last block, default 0: none. A node asks only
            one peer for headers, and others for blocks when they have announced one
  --prepare  reads and hashes all blocks before it listens, so that no node waits for that

Prints `port=P blocks=N tip=HASH` when it listens. A node connects with
`-connect=127.0.0.1:P`; P2P's version 2 is answered by hanging up, upon which the node tries
version 1. It checks no rules but that blocks are a chain: a full node, as
support/feeder starts, would have to validate them first.

A node gets the first block when it has all headers. Otherwise it would connect blocks
before it knows the one of -assumevalid, and check scripts that it is to skip. With --announce
it gets blocks at once, as it may have the headers of another peer.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from lab.p2p import (
    HEAD,
    HEADER,
    PAYLOAD_MAX,
    block_inv,
    compact_size,
    head,
    read_compact_size,
    sha256d,
    until_signal,
    word_of,
)

VERSION = 70016
NODE_NETWORK, NODE_WITNESS = 1, 8
MSG_WITNESS_BLOCK = 0x40000002
HEADERS_MAX = 2000


class ChainError(Exception):
    """The file is no chain; the text says where and why."""


class Chain:
    """Where the blocks are in the file."""

    def __init__(self, path: Path, blocks: int | None = None) -> None:
        """Reads all headers, or those of the first ``blocks``."""
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size < 8 + HEADER:
                raise ChainError(f"{path} has no block; give the file that chaingen wrote")
            data = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        self.data = memoryview(data)
        self.magic = bytes(self.data[:4])
        self.headers: list[bytes] = []
        self.places: list[tuple[int, int]] = []  # start and end of each block
        self.heights: dict[bytes, int] = {}  # by hash
        self.checksums: dict[int, bytes] = {}
        at, tip = 0, bytes(32)
        while at < len(data) and len(self.headers) != blocks:
            magic, size = struct.unpack_from("<4sI", data, at) if at + 8 <= len(data) else (b"", 0)
            start = at + 8
            at = start + size
            header = data[start : start + HEADER]
            if magic != self.magic or size < HEADER or at > len(data) or header[4:36] != tip:
                where = f"block {len(self.headers)}, at byte {start - 8}, of {path}"
                raise ChainError(f"{where} is cut off or does not follow the one before")
            tip = sha256d(header)
            self.heights[tip] = len(self.headers)
            self.headers.append(header)
            self.places.append((start, at))
        self.tip = tip

    def block(self, height: int) -> tuple[memoryview, bytes]:
        """A block, and the checksum of the message that carries it."""
        start, end = self.places[height]
        block = self.data[start:end]
        if height not in self.checksums:
            self.checksums[height] = sha256d(block)[:4]
        return block, self.checksums[height]

    def prepare(self) -> None:
        """Reads and hashes all blocks, so that the first node waits no longer than the next."""
        for height in range(len(self.places)):
            self.block(height)


@dataclass
class Peer:
    """One node that is connected."""

    chain: Chain
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    rate: float = 0
    has_headers: bool = False
    waiting: list[int] = field(default_factory=list)  # heights, until it has the headers

    async def send(
        self, command: str, payload: bytes | memoryview = b"", checksum: bytes = b""
    ) -> None:
        """Sends a message; waits while the node has not read what was sent before."""
        self.writer.write(head(self.chain.magic, command, payload, checksum))
        self.writer.write(payload)
        await self.writer.drain()

    async def receive(self) -> tuple[str, bytes]:
        """The next message; EOFError when it is none of this network's P2P version 1."""
        magic, command, size, checksum = HEAD.unpack(await self.reader.readexactly(HEAD.size))
        if magic != self.chain.magic or size > PAYLOAD_MAX:
            raise EOFError
        payload = await self.reader.readexactly(size)
        if sha256d(payload)[:4] != checksum:
            raise EOFError
        return word_of(command), payload

    async def serve(self) -> None:
        """Answers until the node hangs up."""
        while True:
            command, payload = await self.receive()
            if command == "version":
                await self.greet()
            elif command == "ping":
                await self.send("pong", payload)
            elif command == "getheaders":
                await self.send_headers(payload)
            elif command == "getdata":
                await self.send_blocks(payload)

    async def greet(self) -> None:
        """Answers the node's version message."""
        address = bytes(26)
        services = NODE_NETWORK | NODE_WITNESS
        payload = struct.pack("<iQq", VERSION, services, int(time.time())) + address + address
        payload += os.urandom(8) + b"\x0e/cairn:feeder/"
        payload += struct.pack("<i?", len(self.chain.headers) - 1, False)
        await self.send("version", payload)
        await self.send("verack")

    async def announce(self, seconds: float) -> None:
        """Announces the last block again and again."""
        while True:
            await asyncio.sleep(seconds)
            await self.send("inv", block_inv(self.chain.tip))

    async def send_headers(self, payload: bytes) -> None:
        """Answers getheaders: what follows the first block of the locator that is known."""
        count, at = read_compact_size(payload, 4)
        locator = [payload[at + 32 * n : at + 32 * n + 32] for n in range(count)]
        known = next(
            (self.chain.heights[name] for name in locator if name in self.chain.heights), 0
        )
        headers = self.chain.headers[known + 1 : known + 1 + HEADERS_MAX]
        parts = b"".join(header + b"\0" for header in headers)
        await self.send("headers", compact_size(len(headers)) + parts)
        if known + 1 + len(headers) == len(self.chain.headers):
            self.has_headers = True
            waiting, self.waiting = self.waiting, []
            for height in waiting:
                await self.send_block(height)

    async def send_blocks(self, payload: bytes) -> None:
        """Answers getdata: the blocks, with `notfound` for anything else."""
        count, at = read_compact_size(payload, 0)
        missing = b""
        absent = 0
        for n in range(count):
            item = payload[at + 36 * n : at + 36 * n + 36]
            height = self.chain.heights.get(item[4:])
            if int.from_bytes(item[:4], "little") != MSG_WITNESS_BLOCK or height is None:
                missing += item
                absent += 1
            elif self.has_headers:
                await self.send_block(height)
            else:
                self.waiting.append(height)
        if missing:
            await self.send("notfound", compact_size(absent) + missing)

    async def send_block(self, height: int) -> None:
        """Sends one block, not faster than the rate says."""
        block, checksum = self.chain.block(height)
        if self.rate:
            await asyncio.sleep(len(block) / (self.rate * 2**20))
        await self.send("block", block, checksum)


async def run(chain: Chain, port: int, rate: float = 0, announce: float = 0) -> None:
    """Serves until a signal comes."""
    peers: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            peers.add(task)
            task.add_done_callback(peers.discard)
        # A node that has the announced block has its headers, perhaps of another peer.
        peer = Peer(chain, reader, writer, rate, has_headers=bool(announce))
        try:
            async with asyncio.TaskGroup() as tasks:
                if announce:
                    tasks.create_task(peer.announce(announce))
                await peer.serve()
        except* (EOFError, OSError, IndexError, struct.error):
            pass  # it hung up, or speaks something else
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    port = server.sockets[0].getsockname()[1]
    tip = chain.tip[::-1].hex()
    print(f"port={port} blocks={len(chain.headers)} tip={tip}", flush=True)
    await until_signal()
    server.close()
    for task in peers:
        task.cancel()


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Serves the blocks of a file to nodes, by P2P.")
    parser.add_argument("file", type=Path, help="file of blocks, from genesis on")
    parser.add_argument("--port", type=int, default=18555, help="port on 127.0.0.1 (18555)")
    parser.add_argument("--blocks", type=int, help="how many blocks there are, default all")
    parser.add_argument("--rate", type=float, default=0, help="MiB/s to each node, 0: no limit")
    parser.add_argument("--prepare", action="store_true", help="read and hash all of it first")
    parser.add_argument("--announce", type=float, default=0, help="seconds, 0: never")
    options = parser.parse_args()
    if options.rate < 0 or options.announce < 0:
        parser.error("--rate and --announce are 0 or more")
    try:
        chain = Chain(options.file, options.blocks)
        if options.prepare:
            chain.prepare()
        asyncio.run(run(chain, options.port, options.rate, options.announce))
    except ChainError as error:
        print(f"block_server: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"block_server: {error}; give another file or --port", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Peers that hand on a feeder's blocks out of order."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lab import peers
from lab.p2p import HEAD, HEADER, MSG_BLOCK, head, sha256d
from lab.peers import Gate, Relay

MAGIC = b"\xf9\xbe\xb4\xd9"
COUNT = 400
BLOCKS = [number.to_bytes(4, "little") * (HEADER // 4) + b"transactions" for number in range(COUNT)]
NAMES = [sha256d(block[:HEADER]) for block in BLOCKS]


def message(command: str, payload: bytes = b"") -> bytes:
    """As a P2P node sends it."""
    return head(MAGIC, command, payload) + payload


async def read(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The next message's command and payload."""
    _, command, size, checksum = HEAD.unpack(await reader.readexactly(HEAD.size))
    payload = await reader.readexactly(size)
    assert checksum == sha256d(payload)[:4]
    return command.rstrip(b"\0").decode(), payload


def test_a_seed_decides_which_blocks_come_late() -> None:
    """About the share that is asked for, up to so many blocks; another seed chooses others."""
    delays = [Gate(1, 0.1, 50).delay(name) for name in NAMES]
    assert delays == [Gate(1, 0.1, 50).delay(name) for name in NAMES]
    assert delays != [Gate(2, 0.1, 50).delay(name) for name in NAMES]
    late = [delay for delay in delays if delay]
    assert COUNT * 0.05 < len(late) < COUNT * 0.2
    assert 1 <= min(late) < 10 < 40 < max(late) <= 50


def test_a_block_comes_after_as_many_others() -> None:
    """Also where several connections ask for it; then it comes on each."""
    gate = Gate(1, 0.05, 40)
    order: list[int] = []

    async def take(number: int) -> None:
        await gate.wait(NAMES[number])
        order.append(number)

    async def take_all() -> None:
        tasks = []
        for number in range(COUNT):
            tasks += [asyncio.ensure_future(take(number)) for _ in range(1 + number % 2)]
            await asyncio.sleep(0)
        opening = asyncio.ensure_future(gate.run())
        await asyncio.gather(*tasks)
        opening.cancel()

    asyncio.run(take_all())
    assert sorted(set(order)) == list(range(COUNT))
    assert len(order) == COUNT + COUNT // 2 == gate.passed
    for number in range(COUNT - 60):
        if delay := gate.delay(NAMES[number]):
            before = order[: order.index(number)]
            assert delay - 2 <= sum(other > number for other in before) <= delay + 2
    assert order != sorted(order)
    assert gate.late == sum(gate.delay(name) > 0 for name in NAMES)


def test_nothing_is_withheld_where_no_block_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node at the tip, or one that may fetch no more, gets what is missing."""
    monkeypatch.setattr(peers, "IDLE", 0.2)
    gate = Gate(1, 1, 40)

    async def take() -> float:
        opening = asyncio.ensure_future(gate.run())
        begin = asyncio.get_running_loop().time()
        await asyncio.wait_for(asyncio.gather(*(gate.wait(name) for name in NAMES[:3])), 10)
        opening.cancel()
        return asyncio.get_running_loop().time() - begin

    assert 0.2 <= asyncio.run(take()) < 5


def test_a_block_that_came_is_not_withheld_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose power fails all the time gets further."""
    monkeypatch.setattr(peers, "IDLE", 0.2)
    monkeypatch.setattr(peers, "AGAIN", 3)

    async def take() -> list[int]:
        gate = Gate(1, 1, 40)
        opening = asyncio.ensure_future(gate.run())
        late = []
        for number in (0, 0, 0, 1, 0):
            await asyncio.wait_for(gate.wait(NAMES[number]), 10)
            late.append(gate.late)
        opening.cancel()
        return late

    assert asyncio.run(take()) == [1, 1, 1, 2, 3]


def test_a_pace() -> None:
    """So many blocks a second and no more, in their order."""
    order: list[int] = []

    async def take() -> float:
        gate = Gate(1, 0, 40, pace=100)

        async def one(number: int) -> None:
            await gate.wait(NAMES[number])
            order.append(number)

        begin = asyncio.get_running_loop().time()
        await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(50))), 30)
        return asyncio.get_running_loop().time() - begin

    assert asyncio.run(take()) > 0.45
    assert order == list(range(50))


async def feed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A feeder: answers `version`, `getheaders` (the last two) and `getdata` (every block)."""
    while True:
        try:
            command, _ = await read(reader)
        except (EOFError, OSError):
            writer.close()
            return
        if command == "version":
            writer.write(message("version", b"feeder") + message("verack"))
        elif command == "getheaders":
            headers = b"".join(block[:HEADER] + b"\0" for block in BLOCKS[-2:])
            writer.write(message("headers", b"\2" + headers))
        elif command == "getdata":
            writer.write(b"".join(message("block", block) for block in BLOCKS))


#: Talks to two peers, whose ports it is given.
Client = Callable[[int, int], Awaitable[Any]]


@pytest.fixture
def relayed() -> Callable[[Client], Any]:
    """Runs a client against two peers; it is called with their ports."""

    async def run(client: Client) -> Any:  # noqa: ANN401 (the client's own)
        feeder = await asyncio.start_server(feed, "127.0.0.1", 0)
        gate = Gate(1, 0.05, 40)
        relay = Relay(feeder.sockets[0].getsockname()[1], gate)
        servers = [await asyncio.start_server(relay.connected, "127.0.0.1", 0) for _ in range(2)]
        opening = asyncio.ensure_future(gate.run())
        try:
            return await asyncio.wait_for(
                client(*(server.sockets[0].getsockname()[1] for server in servers)), 30
            )
        finally:
            opening.cancel()
            for server in (feeder, *servers):
                server.close()

    return lambda client: asyncio.run(run(client))


def test_peers(relayed: Callable[[Client], Any]) -> None:
    """Each passes on what the feeder says; each says that it has the newest block; all blocks come
    whole, some of them late."""

    async def client(first: int, second: int) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", first)
        other, other_writer = await asyncio.open_connection("127.0.0.1", second)
        for stream, end in ((reader, writer), (other, other_writer)):
            end.write(message("version", b"node"))
            assert await read(stream) == ("version", b"feeder")
            assert await read(stream) == ("verack", b"")
        writer.write(message("getheaders"))
        command, payload = await read(reader)
        assert (command, payload[-HEADER - 1 :]) == ("headers", BLOCKS[-1][:HEADER] + b"\0")
        said = ("inv", b"\1" + struct.pack("<I", MSG_BLOCK) + NAMES[-1])
        assert await read(reader) == await read(other) == said
        # One that connects later hears it, too.
        third, third_writer = await asyncio.open_connection("127.0.0.1", second)
        third_writer.write(message("version", b"node"))
        assert [await read(third) for _ in range(3)][-1] == said
        writer.write(message("getdata"))
        blocks: list[bytes] = []
        while len(blocks) < COUNT:
            command, payload = await read(reader)
            assert command == "block"
            blocks.append(payload)
        for end in (writer, other_writer, third_writer):
            end.close()
        return blocks

    blocks = relayed(client)
    assert sorted(blocks) == sorted(BLOCKS)
    assert blocks != BLOCKS
    places = [blocks.index(block) for block in BLOCKS]
    assert max(place - number for number, place in enumerate(places)) > 20


def test_version_2_is_refused(relayed: Callable[[Client], Any]) -> None:
    """The node tries version 1 then."""

    async def client(first: int, _: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", first)
        writer.write(bytes(range(64)))
        answer = await reader.read()
        writer.close()
        return answer

    assert relayed(client) == b""

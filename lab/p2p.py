"""Bitcoin's P2P protocol, version 1, as far as peers on loopback speak it."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import struct

#: Head of a message: network, command, size, checksum
HEAD = struct.Struct("<4s12sI4s")
#: Bytes of a block's header, whose hash is the block's name; in `headers` a zero follows each
HEADER = 80
#: Bytes of the largest message that is taken; Core's limit is 4,000,000
PAYLOAD_MAX = 4_000_000
#: Type of an inventory entry that is a block
MSG_BLOCK = 2


def sha256d(data: bytes | memoryview) -> bytes:
    """Bitcoin's double hash."""
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def head(magic: bytes, command: str, payload: bytes | memoryview, checksum: bytes = b"") -> bytes:
    """What stands before this payload; ``checksum``: the payload's, if it is known."""
    return HEAD.pack(magic, command.encode(), len(payload), checksum or sha256d(payload)[:4])


def word_of(command: bytes) -> str:
    """The command in a head, as text."""
    return command.rstrip(b"\0").decode("ascii", "replace")


def block_inv(name: bytes) -> bytes:
    """Payload of the `inv` that announces the block of that hash."""
    return b"\1" + struct.pack("<I", MSG_BLOCK) + name


def compact_size(number: int) -> bytes:
    """Bitcoin's variable length number, up to 65535."""
    return bytes([number]) if number < 253 else b"\xfd" + struct.pack("<H", number)


def read_compact_size(data: bytes, at: int) -> tuple[int, int]:
    """The number at that place, and the place behind it."""
    first = data[at]
    if first < 253:
        return first, at + 1
    size = {253: 2, 254: 4, 255: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


async def until_signal() -> None:
    """Returns when the program is to end: at Ctrl-C or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()

"""The requests that a disk served, in their order, as a file.

A record is a head of 13 bytes (little endian: kind, 1 byte; offset, 8; length, 4) and, for
writes and marks, `length` bytes:

    w, W   write, W with FUA: the data
    z, Z   zeros, Z with FUA: no data, `length` zeros from `offset`
    f      flush
    m      mark: text, which says what the machine's user had been told by then
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lab.volatile_cache import VolatileCache

_HEAD = struct.Struct("<cQI")
_KINDS = b"wWzZfm"


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One request, or a mark."""

    kind: str
    offset: int = 0
    length: int = 0
    data: bytes = b""

    def apply(self, disk: VolatileCache) -> None:
        """Does to the disk what was asked then."""
        match self.kind:
            case "w" | "W":
                disk.write(self.offset, self.data, fua=self.kind == "W")
            case "z" | "Z":
                disk.zero(self.offset, self.length, fua=self.kind == "Z")
            case "f":
                disk.flush()


class Writer:
    """Appends records to a new file."""

    def __init__(self, path: str) -> None:
        """Replaces a file that is there."""
        self._file: BinaryIO = Path(path).open("wb")  # noqa: SIM115 (closed by close())

    def _add(self, kind: bytes, offset: int, length: int, data: bytes = b"") -> None:
        self._file.write(_HEAD.pack(kind, offset, length))
        self._file.write(data)

    def write(self, offset: int, data: bytes, *, fua: bool = False) -> None:
        """A write of data."""
        self._add(b"W" if fua else b"w", offset, len(data), data)

    def zero(self, offset: int, count: int, *, fua: bool = False) -> None:
        """A write of zeros, or a discard that reads as zeros."""
        self._add(b"Z" if fua else b"z", offset, count)

    def flush(self) -> None:
        """A flush of the disk's cache."""
        self._add(b"f", 0, 0)

    def mark(self, text: str) -> None:
        """Text at this point."""
        data = text.encode()
        self._add(b"m", 0, len(data), data)

    def close(self) -> None:
        """The file is whole after this."""
        self._file.close()


def read(path: str | Path, *, data: bool = True) -> Iterator[Record]:
    """All records; with ``data`` False, that of writes is skipped, not that of marks.

    Raises ValueError where the file is no trace or ends within a record.
    """
    with Path(path).open("rb") as stream:
        size = Path(path).stat().st_size
        while head := stream.read(_HEAD.size):
            if len(head) < _HEAD.size or head[0] not in _KINDS:
                raise ValueError(f"{path} is damaged before byte {stream.tell()}; record it again")
            kind, offset, length = _HEAD.unpack(head)
            content = b""
            if kind in b"wWm":
                if stream.tell() + length > size:
                    raise ValueError(f"{path} ends within a record; record it again")
                if data or kind == b"m":
                    content = stream.read(length)
                else:
                    stream.seek(length, 1)
            yield Record(kind.decode(), offset, length, content)

"""Which tables of a LevelDB database its manifest knows: what a cut left of a sorted write.

Such a write makes its tables first, and one record of the manifest adds them all. Tables that no
record adds are of a write that was cut off before that, or of a compaction.
"""

from __future__ import annotations

import struct
from pathlib import Path

#: Of the format of LevelDB's logs, db/log_format.h
BLOCK, HEAD = 32768, struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
#: Tags of db/version_edit.cc
COMPARATOR, COMPACT_POINTER, DELETED, NEW = 1, 5, 6, 7
NUMBERS = (2, 3, 4, 9)
#: A table ends in this, table/format.h.
MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)


def records(data: bytes) -> list[bytes]:
    """The records of a log, up to the first that is not there as a whole."""
    found: list[bytes] = []
    parts = b""
    at = 0
    while at + HEAD.size <= len(data):
        if BLOCK - at % BLOCK < HEAD.size:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = HEAD.unpack_from(data, at)
        at += HEAD.size
        if kind not in (FULL, FIRST, MIDDLE, LAST) or at + length > len(data):
            break
        parts = (b"" if kind in (FULL, FIRST) else parts) + data[at : at + length]
        at += length
        if kind in (FULL, LAST):
            found.append(parts)
    return found


class _Reader:
    """Of one record."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self) -> None:
        length = self.number()
        self.at += length


def edit(record: bytes) -> tuple[set[int], set[int]]:
    """Numbers of the tables that a record of the manifest adds and removes."""
    reader = _Reader(record)
    added: set[int] = set()
    removed: set[int] = set()
    while reader.at < len(record):
        tag = reader.number()
        if tag == COMPARATOR:
            reader.text()
        elif tag in NUMBERS:
            reader.number()
        elif tag == COMPACT_POINTER:
            reader.number()
            reader.text()
        elif tag == DELETED:
            reader.number()
            removed.add(reader.number())
        elif tag == NEW:
            reader.number()
            added.add(reader.number())
            reader.number()
            reader.text()
            reader.text()
        else:
            raise ValueError(f"unknown tag {tag} in a manifest")
    return added, removed


def known(manifest: bytes) -> set[int]:
    """The tables of the state that a manifest describes."""
    tables: set[int] = set()
    for record in records(manifest):
        added, removed = edit(record)
        tables = tables - removed | added
    return tables


def left_over(database: Path) -> int:
    """How many whole tables a database has beyond those that its manifest knows.

    Only those newer than all that it knows, for older ones are a compaction's that were not deleted
    yet. 0 where there is no manifest.
    """
    try:
        manifest = database / (database / "CURRENT").read_text().strip()
        state = known(manifest.read_bytes())
    except (OSError, ValueError, IndexError):
        return 0
    newest = max(state, default=0)
    count = 0
    for path in database.glob("*.ldb"):
        if int(path.stem) > newest:
            with path.open("rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(max(0, size - len(MAGIC)))
                count += stream.read() == MAGIC
    return count

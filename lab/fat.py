"""Reads a FAT32 file system in an image, as a boot loader does: what cannot be read is not there.

Nothing is mended or guessed. A directory ends at the first entry that was never used; a long name
counts if its parts fit the entry behind them; a file is readable if its chain of clusters is as
long as its size says, stays inside the file system, and meets no free cluster. (Microsoft, "FAT32
File System Specification", 1.03.) A chain may go on behind the size, as for most boot loaders.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENTRY = 32
FREE, DIRECTORY, LABEL, LONG = 0xE5, 0x10, 0x08, 0x0F
#: From here on a cluster's number says that the chain ends, or that the cluster is bad
LAST = 0x0FFFFFF7
#: Deeper than any path of a boot partition; a damaged folder may contain itself.
DEPTH = 4
#: In bytes, of Linux (limits.h)
NAME_MAX = 255
#: Bytes of a directory, at most (specification: 65536 entries)
DIRECTORY_MAX = 65536 * ENTRY


class DamagedError(Exception):
    """A file or directory cannot be read; the text says why."""


@dataclass(frozen=True)
class Entry:
    """A file or folder, as its directory describes it."""

    name: str
    folder: bool
    cluster: int
    size: int


class Fat:
    """A file system; the image stays open and is only read."""

    def __init__(self, image: Path, offset: int = 0) -> None:
        """``offset``: of the partition, in bytes. Raises DamagedError."""
        self._file = os.open(image, os.O_RDONLY)
        self._offset = offset
        try:
            self._read_layout()
        except BaseException:
            self.close()
            raise

    def _read_layout(self) -> None:
        head = self._read(0, 512)
        sector, self.per_cluster, reserved, self._copies = struct.unpack_from("<HBHB", head, 11)
        (sectors,) = struct.unpack_from("<I", head, 32)
        size, _, _, self.root = struct.unpack_from("<IHHI", head, 36)
        if head[510:] != b"\x55\xaa" or sector != 512 or not self.per_cluster or not size:
            raise DamagedError("there is no FAT32 file system")
        data = reserved + self._copies * size
        self.cluster_size = sector * self.per_cluster
        self._data = data * sector
        self.clusters = (sectors - data) // self.per_cluster + 2
        self._tables = reserved * sector
        self._table = memoryview(self._read(self._tables, size * sector)).cast("I")

    def close(self) -> None:
        """Closes the image."""
        os.close(self._file)

    def _read(self, offset: int, count: int) -> bytes:
        return os.pread(self._file, count, self._offset + offset)

    def content(self, cluster: int, size: int) -> bytes:
        """The first ``size`` bytes of a chain of clusters. Raises DamagedError."""
        parts, left = [], size
        while left > 0:
            if not 2 <= cluster < self.clusters:
                raise DamagedError(f"a chain ends {left} bytes too early, at cluster {cluster}")
            following = self._table[cluster] & 0x0FFFFFFF
            if not following:
                raise DamagedError(f"cluster {cluster} is free")
            parts.append(
                self._read(self._data + (cluster - 2) * self.cluster_size, self.cluster_size)
            )
            left -= self.cluster_size
            cluster = following
        return b"".join(parts)[:size]

    def chain(self, cluster: int) -> bytes:
        """A directory's bytes: all of its chain. Raises DamagedError."""
        length, at = 0, cluster
        while at < LAST:
            if not 2 <= at < self.clusters or length > DIRECTORY_MAX:
                raise DamagedError(f"the chain of a directory breaks at cluster {at}")
            length += self.cluster_size
            at = self._table[at] & 0x0FFFFFFF
        return self.content(cluster, length)

    def entries(self, cluster: int = 0) -> Iterator[Entry]:
        """Those of a directory, the root's by itself. Raises DamagedError."""
        long: list[bytes] = []
        directory = self.chain(cluster or self.root)
        for at in range(0, len(directory), ENTRY):
            raw = directory[at : at + ENTRY]
            if raw[0] == 0:
                return
            if raw[0] == FREE:
                long = []
            elif raw[11] & 0x3F == LONG:
                long.append(raw)
            elif raw[11] & LABEL:
                long = []
            else:
                name = _long_name(long, raw[:11]) or _short_name(raw)
                long = []
                high, low, size = struct.unpack("<20xH4xHI", raw)
                if name not in (".", ".."):
                    folder = bool(raw[11] & DIRECTORY)
                    yield Entry(name, folder, high << 16 | low, 0 if folder else size)

    def tree(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """All files by path, and what cannot be read, with the reason."""
        files: dict[str, bytes] = {}
        damaged: dict[str, str] = {}
        self._walk(0, "", files, damaged, 0)
        return files, damaged

    def shape(self) -> list[str]:
        """What a writer meets, besides what files contain; a line for each fact.

        The names and how their chains of clusters end, clusters that two names lead to or none, and
        tables that differ. What is as it should be ends with ": ends".
        """
        owners: dict[int, list[str]] = {}
        lines = self._shape(self.root, "", owners, 0)
        for names in sorted({tuple(names) for names in owners.values() if len(names) > 1}):
            lines.append(f"one cluster of {', '.join(names)}")
        used = {at for at in range(2, self.clusters) if self._table[at] & 0x0FFFFFFF}
        if used - owners.keys():
            lines.append("clusters of no name")
        lines += [f"table {number} differs" for number in self._other_tables()]
        return lines

    def _shape(
        self, cluster: int, path: str, owners: dict[int, list[str]], depth: int
    ) -> list[str]:
        clusters, ending = self._clusters(cluster)
        for at in clusters:
            owners.setdefault(at, []).append(path or "/")
        lines = [f"{path or '/'}: {ending}"]
        try:
            entries = sorted(self.entries(cluster), key=lambda entry: entry.name)
        except DamagedError:
            return lines
        for entry in entries:
            name = path + entry.name
            if entry.folder and depth < DEPTH and entry.cluster:
                lines += self._shape(entry.cluster, f"{name}/", owners, depth + 1)
                continue
            clusters, ending = self._clusters(entry.cluster) if entry.cluster else ([], "ends")
            for at in clusters:
                owners.setdefault(at, []).append(name)
            wanted = -(-entry.size // self.cluster_size)
            long = len(clusters) > wanted
            size = "" if len(clusters) == wanted else f", too {'long' if long else 'short'}"
            lines.append(f"{name}: {ending}{size}")
        return lines

    def _clusters(self, cluster: int) -> tuple[list[int], str]:
        """Those of a chain, and how it ends."""
        found: dict[int, None] = {}  # in their order
        ending = "ends"
        while cluster < LAST:
            if not 2 <= cluster < self.clusters:
                ending = "leads out" if cluster else "leads to a free cluster"
                break
            if cluster in found:
                ending = "is a ring"
                break
            found[cluster] = None
            cluster = self._table[cluster] & 0x0FFFFFFF
        return list(found), ending

    def _other_tables(self) -> Iterator[int]:
        size = self._table.nbytes
        for number in range(1, self._copies):
            if self._read(self._tables + number * size, size) != self._table.tobytes():
                yield number

    def _walk(
        self, cluster: int, path: str, files: dict[str, bytes], damaged: dict[str, str], depth: int
    ) -> None:
        try:
            for entry in self.entries(cluster):
                name = path + entry.name
                if not _is_name(entry.name):
                    damaged[name] = "a name that is none"
                    continue
                if entry.folder:
                    if depth < DEPTH and entry.cluster:
                        self._walk(entry.cluster, f"{name}/", files, damaged, depth + 1)
                    continue
                try:
                    # The first of two entries of the same name counts, as for who looks for it.
                    files.setdefault(name, self.content(entry.cluster, entry.size))
                except DamagedError as error:
                    damaged.setdefault(name, str(error))
        except DamagedError as error:
            damaged[path or "/"] = str(error)


def unpack(image: Path, offset: int, folder: Path) -> dict[str, str]:
    """All files that can be read, in a new folder; what cannot, with the reason.

    ``offset``: of the partition, in bytes. Raises DamagedError, and OSError if the folder cannot be
    written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    fat = Fat(image, offset)
    try:
        files, damaged = fat.tree()
    finally:
        fat.close()
    for name, data in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            damaged[name] = "a file and a folder of one name"
    return damaged


def _is_name(name: str) -> bool:
    """Whether a file can have it: what lies in a damaged directory may lead elsewhere."""
    return 0 < len(os.fsencode(name)) <= NAME_MAX and not {"/", "\0"} & set(name)


def _short_name(raw: bytes) -> str:
    base, end = (part.decode("ascii", "replace").rstrip() for part in (raw[:8], raw[8:11]))
    # Bits that Linux and Windows write for names in small letters
    base = base.lower() if raw[12] & 0x08 else base
    end = end.lower() if raw[12] & 0x10 else end
    return f"{base}.{end}" if end else base


def _long_name(parts: list[bytes], short: bytes) -> str:
    """The name of entries that stand before that of the short one, or "" if they do not fit it."""
    if not parts or not parts[0][0] & 0x40:
        return ""
    total = 0
    for byte in short:
        total = ((total & 1) << 7 | total >> 1) + byte & 0xFF
    if [part[0] & 0x3F for part in parts] != list(range(len(parts), 0, -1)):
        return ""
    if any(part[13] != total for part in parts):
        return ""
    units = b"".join(part[1:11] + part[14:26] + part[28:32] for part in reversed(parts))
    return units.decode("utf-16-le", "replace").split("\0")[0]

"""What a benchmark's daemon may use: memory, by a control group, and a device of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.paths import ROOT

CGROUPS = Path("/sys/fs/cgroup")
SECTOR = 512  # bytes, in /sys/block/*/stat whatever the device has
MIB = 1 << 20


class LimitError(Exception):
    """The limits cannot be set; the text says what to do."""


class MemoryGroup:
    """A control group whose processes, and the page cache they fill, get so much memory."""

    def __init__(self, mib: int | None) -> None:
        """``mib``: the limit in MiB, None for none. Raises LimitError."""
        self._path: Path | None = None
        if mib is None:
            return
        # Version 2, or version 1 where the memory controller still is there.
        if "memory" in _words(CGROUPS / "cgroup.controllers"):
            parent, limit = CGROUPS, "memory.max"
            switch = CGROUPS / "cgroup.subtree_control"
        else:
            parent, limit, switch = CGROUPS / "memory", "memory.limit_in_bytes", None
        path = parent / f"cairn-bench-{os.getpid()}"
        try:
            if switch and "memory" not in _words(switch):
                switch.write_text("+memory")
            path.mkdir(exist_ok=True)
            (path / limit).write_text(str(mib * MIB))
        except OSError as error:
            raise LimitError(
                f"the memory cannot be limited ({error}); run as root, on a system with control"
                " groups, or choose a scenario without a limit"
            ) from None
        self._path = path

    def join(self) -> None:
        """Puts the calling process into the group: for Popen's preexec_fn."""
        if self._path:
            (self._path / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> None:
        """Removes the group; its processes must have ended."""
        if self._path:
            self._path.rmdir()


class Settings:
    """Files of /proc/sys and /sys that are written, and get their old values back."""

    def __init__(self) -> None:
        """Nothing is changed yet."""
        self._before: list[tuple[Path, str]] = []

    def set(self, path: Path, value: str) -> None:
        """Raises LimitError where the kernel does not take it."""
        try:
            # A choice among several shows the present one in brackets. vm.dirty_bytes is 0 where
            # vm.dirty_ratio holds, and goes back to it only by setting that.
            text = path.read_text().strip()
            before = (path, text.partition("[")[2].partition("]")[0] or text)
            ratio = path.with_name(path.name.replace("bytes", "ratio"))
            if text == "0" and ratio != path:
                before = (ratio, ratio.read_text().strip())
            path.write_text(value)
        except OSError as error:
            raise LimitError(f"this kernel does not take {value} in {path} ({error})") from None
        self._before.append(before)

    def restore(self) -> None:
        """In reverse order."""
        for path, value in reversed(self._before):
            path.write_text(value)
        self._before.clear()


def _words(path: Path) -> list[str]:
    """The words of a file, none when there is no such file."""
    try:
        return path.read_text().split()
    except OSError:
        return []


@dataclass(frozen=True)
class Traffic:
    """What a device was asked for so far."""

    read: int  # bytes
    written: int  # bytes
    writes: int  # requests
    flushes: int  # requests to empty its cache
    reads: int = 0  # requests

    @classmethod
    def parse(cls, stat: str) -> Traffic:
        """What a device's file /sys/block/*/stat says."""
        # Documentation/block/stat.rst: read I/Os are field 1, sectors read 3, write I/Os, merges,
        # sectors are fields 5 to 7, flushes 16
        fields = [int(field) for field in stat.split()]
        flushes = fields[15] if len(fields) > 15 else 0
        return cls(fields[2] * SECTOR, fields[6] * SECTOR, fields[4], flushes, fields[0])

    def __sub__(self, before: Traffic) -> Traffic:
        """What came between."""
        return Traffic(
            self.read - before.read,
            self.written - before.written,
            self.writes - before.writes,
            self.flushes - before.flushes,
            self.reads - before.reads,
        )


class Disk:
    """An empty ext4 file system on a loop device, as fast as the disk below or limited."""

    def __init__(
        self, folder: Path, limits: dict[str, str] | None, size: str = "6G", mount: str = ""
    ) -> None:
        """Makes it in ``folder`` and mounts it on ``mnt`` there.

        ``limits``: the environment of support/slow-disk; None: no limit. ``mount``: more options
        of the file system. Raises LimitError.
        """
        self._folder = folder
        self.path = folder / "mnt"
        try:
            self._script(limits, size, "up", mount)
            command = ["findmnt", "-no", "SOURCE", str(self.path)]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
        except BaseException:  # half made, or somebody does not want to wait: nothing is left
            self.close()
            raise
        source = found.stdout.strip()
        block = Path("/sys/block") / Path(source).name
        self._stat, self.queue = block / "stat", block / "queue"

    def _script(self, limits: dict[str, str] | None, size: str, word: str, mount: str = "") -> None:
        environment = {**os.environ, "SLOW_SIZE": size, "SLOW_MOUNT": mount}
        environment |= {"SLOW_LIMITS": ""} if limits is None else limits
        result = subprocess.run(
            [str(ROOT / "support/slow-disk"), word, str(self._folder)],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        if result.returncode:
            raise LimitError(result.stderr.strip() or "support/slow-disk failed")

    def traffic(self) -> Traffic:
        """What reached the device up to now."""
        return Traffic.parse(self._stat.read_text())

    def sync(self) -> None:
        """Writes what the page cache still has."""
        subprocess.run(["sync", "-f", str(self.path)], check=True)

    def close(self) -> None:
        """Unmounts and removes it."""
        self._script(None, "0", "down")

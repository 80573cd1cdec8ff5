"""systemd-boot, as far as it chooses an entry and counts its tries (systemd 262, boot.c)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

#: cairn-b+1.conf, cairn-b+0-1.conf, cairn-b.conf (boot_entry_parse_tries)
NAME = re.compile(r"(?P<id>.+?)(?:\+(?P<left>\d+)(?:-(?P<done>\d+))?)?\.conf")


@dataclass
class Entry:
    """A file of loader/entries."""

    path: Path
    name: str
    left: int | None
    """tries left, None for an entry that is not counted"""
    done: int
    values: dict[str, str]

    def order(self) -> tuple[bool, str, list[int], str, int, int]:
        """boot_entry_compare(): without tries left last; sort-key; version and name downwards."""
        number = [-int(part) for part in re.findall(r"\d+", self.values.get("version", ""))]
        name = "".join(chr(0x10FFFF - ord(letter)) for letter in self.name)
        left = 0 if self.left is None else -self.left
        return (self.left == 0, self.values.get("sort-key", "~"), number, name, left, self.done)


def entries(boot: Path) -> list[Entry]:
    """Those of a boot partition, the one that is started first."""
    found = []
    for path in (boot / "loader/entries").glob("*.conf"):
        match = NAME.fullmatch(path.name)
        assert match
        lines = [line.split(" ", 1) for line in path.read_text().splitlines() if " " in line]
        values = {key: value.strip() for key, value in lines}
        if "linux" not in values or not (boot / values["linux"].lstrip("/")).is_file():
            continue
        left = int(match["left"]) if match["left"] else None
        found.append(Entry(path, match["id"], left, int(match["done"] or 0), values))
    return sorted(found, key=Entry.order)


def start(boot: Path, renames: bool = True) -> Entry | None:
    """Chooses an entry and takes a try from it (boot_entry_bump_counters).

    ``renames``: can the firmware rename a file? systemd-boot goes on if it cannot.
    """
    if not (found := entries(boot)):
        return None
    entry = found[0]
    if entry.left is not None and renames:
        left, done = max(entry.left - 1, 0), entry.done + 1
        entry.path.rename(entry.path.with_name(f"{entry.name}+{left}-{done}.conf"))
    return entry

"""Boards, the folders board/*/ that have a file meta; board/keys.tsv explains their keys.

The shell reads the same files through support/board.sh, and says the same sentences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.paths import ROOT

#: A comment, an empty line, or NAME="value", which may go over several lines.
ENTRY = re.compile(r'#.*\n|\n|([A-Z_]+)="([^"$`\\]*)"\n')


class BoardError(Exception):
    """A meta cannot be used; the sentence names file and key."""


@dataclass(frozen=True)
class Board:
    """A board: its name and the values of its meta, white space as single spaces."""

    name: str
    meta: dict[str, str]

    @property
    def image(self) -> str:
        """Name of its image's file."""
        return f"cairn-{self.name}.img"

    @property
    def boot_files(self) -> dict[str, str]:
        """Files of the boot partition but node.conf, and each one's source in Buildroot's images.

        The source is empty if boot.sh writes the file.
        """
        pairs = (word.rpartition(":") for word in self.meta["BOOT_FILES"].split())
        return {file: source for source, _, file in pairs}

    @property
    def kernel(self) -> str:
        """Name of the kernel in Buildroot's images folder."""
        return self.boot_files.get(self.meta["KERNEL"], "")


def read(name: str, root: Path = ROOT) -> Board:
    """The board of that name. Raises BoardError."""
    patterns = dict(
        line.split("\t")[:2]
        for line in (root / "board/keys.tsv").read_text().splitlines()
        if not line.startswith("#")
    )
    file, text = f"board/{name}/meta", (root / "board" / name / "meta").read_text()
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        if not (entry := ENTRY.match(text, position)):
            number = text.count("\n", 0, position) + 1
            raise BoardError(f'{file} has a line {number} that is not NAME="value"; correct it')
        position = entry.end()
        key = entry[1]
        if key is None:
            continue
        if key not in patterns:
            raise BoardError(
                f"{file} has the key {key}, which board/keys.tsv does not know;"
                " correct or remove it"
            )
        if key in values:
            raise BoardError(f"{file} has the key {key} twice; remove one of them")
        values[key] = " ".join(entry[2].split())
        if not re.fullmatch(patterns[key], values[key]):
            raise BoardError(
                f'{file} has "{values[key]}" for {key}; board/keys.tsv says what is allowed'
            )
    for key in patterns:
        if key not in values:
            raise BoardError(f"{file} has no key {key}; board/keys.tsv says what it is for")
    return Board(name, values)


def names(root: Path = ROOT) -> list[str]:
    """All boards, in alphabetical order."""
    return sorted(path.parent.name for path in root.glob("board/*/meta"))


def of_image(image: Path, root: Path = ROOT) -> Board | None:
    """The board whose image has this file name; None for the development image and others."""
    name = image.name.removeprefix("cairn-").removesuffix(".img")
    return read(name, root) if name in names(root) and image.name == f"cairn-{name}.img" else None


def host_lane(root: Path = ROOT) -> Board:
    """The board of the host lane. Raises BoardError unless there is exactly one."""
    found = [
        board for name in names(root) if (board := read(name, root)).meta["HOST_LANE"] == "yes"
    ]
    if len(found) != 1:
        said = " ".join(board.name for board in found) or "none"
        raise BoardError(
            f'one board has the host lane, and HOST_LANE is "yes" in board/*/meta of: {said}'
        )
    return found[0]

"""Boards, the folders board/*/ that have a file meta; board/keys.tsv explains their keys.

Read and checked by support/board.sh, as for the shell: one reader, the same sentences.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.paths import ROOT


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
    """The board of that name, as support/board.sh reads it. Raises BoardError."""
    script = 'die() { echo "$*" >&2; exit 1; }; ROOT=$1; . "$0"; board_meta "$2"; board_values'
    reader = str(ROOT / "support/board.sh")
    result = subprocess.run(
        ["sh", "-euc", script, reader, str(root), name], check=False, capture_output=True, text=True
    )
    if result.returncode:
        raise BoardError(result.stderr.strip())
    pairs = (line.partition("\t") for line in result.stdout.splitlines())
    return Board(name, {key: value for key, _, value in pairs})


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

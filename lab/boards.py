"""Boards, the folders board/*/ that have a file meta; board/keys.tsv explains their keys.

support/board.sh reads and checks them, for the shell and for Python.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.paths import ROOT

#: What board.sh wants to have, and one of its functions. Arguments: this checkout, the one whose
#: boards are meant, the function, and its own arguments.
ASK = """
die() { printf '%s\\n' "$*" >&2; exit 1; }
ROOT=$2; . "$1/support/board.sh"; shift 2; "$@"
"""


class BoardError(Exception):
    """A meta cannot be used; the text is board.sh's sentence, which names file and key."""


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


def _ask(root: Path, *words: str) -> str:
    """What a function of support/board.sh prints. Raises BoardError with its sentence."""
    result = subprocess.run(
        ["sh", "-euc", ASK, "board.sh", str(ROOT), str(root), *words],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise BoardError(result.stderr.strip())
    return result.stdout


def read(name: str, root: Path = ROOT) -> Board:
    """The board of that name. Raises BoardError."""
    lines = _ask(root, "board_values", name).removesuffix("\n").split("\n")
    pairs = (line.split("\t", 1) for line in lines)
    return Board(name, {key: value for key, value in pairs})


def names(root: Path = ROOT) -> list[str]:
    """All boards, in alphabetical order."""
    return _ask(root, "boards").split()


def of_image(image: Path, root: Path = ROOT) -> Board | None:
    """The board whose image has this file name; None for the development image and others."""
    name = image.name.removeprefix("cairn-").removesuffix(".img")
    return read(name, root) if name in names(root) and image.name == f"cairn-{name}.img" else None


def host_lane(root: Path = ROOT) -> Board:
    """The board of the host lane. Raises BoardError unless there is exactly one."""
    return read(_ask(root, "host_board").strip(), root)

"""What the build of a board left, and the files that are published of it.

Nothing here is run, and no link is followed: what a build left is other projects' work, too, and
whoever signs may have keys that it never saw.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from support import bundle_sign
from support.release_inputs import Keys, ReleaseError

#: What a build leaves in out/BOARD and is published, by the end of its name.
MADE = (".img.xz", ".img.bmap", ".cdx.json")
#: The certificates that its image trusts, below out/BOARD.
KEYRINGS = "build/target/etc/rauc"


def sha256(path: Path) -> str:
    """A file's sum."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def left(tree: Path, board: str, name: str) -> Path:
    """A file in the clone's out/BOARD, and no link to anything else, keys perhaps."""
    path = tree / "out" / board / name
    if path.resolve() != tree.parent.resolve() / tree.name / "out" / board / name:
        raise ReleaseError(f"the build of {board} left a link as {name}; no release was made")
    if not path.is_file():
        raise ReleaseError(f"the build of {board} left no {name}; no release was made")
    return path


def check_keyring(tree: Path, board: str, keyring: Path) -> None:
    """The image trusts for updates what is published with it, and nothing else."""
    folder = tree / "out" / board / KEYRINGS
    found = [left(tree, board, f"{KEYRINGS}/{path.name}") for path in folder.glob("*.pem")]
    if [path.read_bytes() for path in found] != [keyring.read_bytes()]:
        names = " and ".join(sorted(path.name for path in found)) or "no keyring"
        raise ReleaseError(
            f"the image of {board} trusts other certificates for updates than {keyring} has"
            f" ({names} in its /etc/rauc); no release was made"
        )


def collect(tree: Path, board: str, version: str, keyring: Path, folder: Path) -> None:
    """Copies a board's files into `folder`, under the names that are published."""
    check_keyring(tree, board, keyring)
    name = f"cairn-{version}-{board}"
    for end in MADE:
        shutil.copyfile(left(tree, board, f"cairn-{board}{end}"), folder / f"{name}{end}")
    # What support/flash compares the unpacked image with
    sums = f"{sha256(left(tree, board, f'cairn-{board}.img'))}  {name}.img\n"
    sums += f"{sha256(folder / f'{name}.img.bmap')}  {name}.img.bmap\n"
    (folder / f"{name}.img.sha256").write_text(sums)


def bundle(tree: Path, board: str, version: str, keys: Keys, folder: Path) -> None:
    """Puts the bundle of a board into `folder`, signed."""
    source = left(tree, board, f"cairn-{board}.raucb")
    target = folder / f"cairn-{version}-{board}.raucb"
    words = (keys.bundle_key, keys.bundle_cert, keys.keyring)
    try:
        bundle_sign.sign(source, target, board, version, words)
    except bundle_sign.SigningError as error:
        raise ReleaseError(
            f"the bundle of {board} could not be signed ({error}); no release was made"
        ) from None

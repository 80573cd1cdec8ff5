"""Where things are in this checkout."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

#: The checkout. No other file counts its parents.
ROOT = Path(__file__).resolve().parents[1]
#: All that is built or measured.
OUT = ROOT / "out"


def folder_for_sockets(owner: object) -> Path:
    """A new folder that is removed with its owner, or when the program ends.

    Its path is short, as sockets need it, wherever the repository lies.
    """
    folder = Path(tempfile.mkdtemp(prefix="cairn-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder

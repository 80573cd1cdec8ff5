"""Where things are in this checkout."""

from __future__ import annotations

from pathlib import Path

#: The checkout. No other file counts its parents.
ROOT = Path(__file__).resolve().parents[1]
#: All that is built or measured.
OUT = ROOT / "out"

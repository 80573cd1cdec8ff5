"""Keys and certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def openssl(*words: str | Path) -> None:
    """Runs openssl; fails if it fails."""
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def new_certificate(folder: Path, name: str, *more: str | Path, days: int = 900) -> Path:
    """A new RSA key, NAME.key, and its certificate, NAME.pem, which is returned.

    It is signed by itself, unless ``more``, options of ``openssl req``, names an authority (-CA).
    """
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days)]
    made = folder / f"{name}.pem"
    openssl(*words, "-subj", f"/CN={name}", *more, "-keyout", folder / f"{name}.key", "-out", made)
    return made

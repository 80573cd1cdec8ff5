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


def new_authority(folder: Path, name: str = "ca", *more: str | Path, days: int = 900) -> Path:
    """The same for a certificate authority."""
    return new_certificate(
        folder, name, "-addext", "basicConstraints=critical,CA:true", *more, days=days
    )


def new_request(
    folder: Path,
    use: str = "codeSigning,emailProtection",
    usage: str = "critical,digitalSignature",
) -> Path:
    """A new RSA key, bundle.key, and a request for its certificate, bundle.csr; returns that.

    ``use``: extendedKeyUsage, ``usage``: keyUsage; none if empty.
    """
    words = ["-addext", f"keyUsage={usage}"] if usage else []
    words += ["-addext", f"extendedKeyUsage={use}"] if use else []
    made = folder / "bundle.csr"
    openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bundles", *words),
        *("-keyout", folder / "bundle.key", "-out", made),
    )
    return made


def sign_request(request: Path, authority: Path, target: Path, days: int = 900) -> None:
    """Has the authority whose certificate that is, NAME.pem beside NAME.key, sign a request."""
    openssl(
        *("x509", "-req", "-days", str(days), "-copy_extensions", "copy", "-CAcreateserial"),
        *("-CA", authority, "-CAkey", authority.with_suffix(".key"), "-in", request),
        *("-out", target),
    )


def new_pair(folder: Path, *use_and_usage: str, ca_use: str = "") -> Path:
    """An authority (ca.*) and what it signed (bundle.*), in a new folder, which is returned.

    ``use_and_usage``: as for new_request(); ``ca_use``: the authority's extendedKeyUsage.
    """
    folder.mkdir()
    authority = new_authority(
        folder, "ca", *(["-addext", f"extendedKeyUsage={ca_use}"] if ca_use else [])
    )
    sign_request(new_request(folder, *use_and_usage), authority, folder / "bundle.pem")
    return folder

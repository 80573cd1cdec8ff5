"""Signs a bundle that a build has made, with this machine's openssl and nothing of the build.

A bundle of format verity is a payload (a file system, with the tree of its sums), the signature
with the manifest in it (CMS), and eight bytes with the signature's size. A build signs with keys of
its own, which nobody trusts. Here the manifest is taken out and signed again: no program that a
build made runs where the release's keys are.

The signature has no attributes, a signing time among them: the same manifest and the same RSA key
make the same bytes. RAUC reads a signing time only with use-bundle-signing-time, which nodes do not
set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

#: RAUC's default limit for a signature, in bytes (DEFAULT_MAX_BUNDLE_SIGNATURE_SIZE).
MOST = 0x10000
#: openssl's settings for a token. The PIN stays in the environment, which others cannot read.
ENGINE = """openssl_conf = top
[top]
engines = engines
[engines]
pkcs11 = pkcs11
[pkcs11]
engine_id = pkcs11
init = 0
"""


class SigningError(Exception):
    """A bundle cannot be signed; the text says why, in half a sentence."""


def is_uri(text: str) -> bool:
    """Whether a key or a certificate is in a token."""
    return text.startswith("pkcs11:")


def openssl(*words: str | Path, given: bytes, env: dict[str, str] | None = None) -> bytes:
    """What `openssl cms` makes of `given`. It asks for a passphrase at the terminal."""
    command = ["openssl", "cms", *(str(word) for word in words)]
    done = subprocess.run(command, check=False, input=given, capture_output=True, env=env)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SigningError(said[-1] if said else f"openssl's exit status {done.returncode}")
    return done.stdout


def signature(manifest: bytes, key: str, cert: str | Path, keyring: Path) -> bytes:
    """The signature of a manifest, which images with that keyring take.

    key: a file, or a PKCS#11 URI; then RAUC_PKCS11_MODULE names the token's library, default
    p11-kit's, and RAUC_PKCS11_PIN has its PIN. Raises SigningError.
    """
    words = ["-sign", "-binary", "-nodetach", "-noattr", "-md", "sha256", "-outform", "DER"]
    words += ["-signer", str(cert), "-inkey", key]
    env = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if is_uri(key):
            names = {"MODULE_PATH": "RAUC_PKCS11_MODULE", "PIN": "RAUC_PKCS11_PIN"}
            lines = [f"{name} = $ENV::{word}\n" for name, word in names.items() if env.get(word)]
            env["OPENSSL_CONF"] = f"{folder}/openssl.cnf"
            Path(folder, "openssl.cnf").write_text(ENGINE + "".join(lines))
            words += ["-engine", "pkcs11", "-keyform", "engine"]
        made = openssl(*words, given=manifest, env=env)
    # Of this machine's own certificates none counts.
    words = ["-verify", "-binary", "-inform", "DER", "-no-CApath", "-no-CAstore"]
    if openssl(*words, "-CAfile", keyring, given=made) != manifest:
        raise SigningError("the signature is of another manifest")
    return made


def manifest_of(bundle: Path) -> tuple[int, bytes]:
    """The payload's size and the manifest of a bundle, whoever signed it. Raises SigningError."""
    size = bundle.stat().st_size
    with bundle.open("rb") as stream:
        stream.seek(max(0, size - 8))
        length = int.from_bytes(stream.read(8), "big")
        if not 0 < length <= min(MOST, size - 8):
            raise SigningError(f"{bundle.name} is no bundle")
        stream.seek(size - 8 - length)
        signed = stream.read(length)
    words = ["-verify", "-noverify", "-binary", "-inform", "DER"]
    return size - 8 - length, openssl(*words, given=signed)


def section(manifest: bytes, name: str) -> set[str]:
    """The lines of a section of a manifest."""
    found: set[str] = set()
    inside = False
    for line in manifest.decode(errors="replace").splitlines():
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif inside:
            found.add(line)
    return found


def sign(
    source: Path, target: Path, board: str, version: str, keys: tuple[str, str | Path, Path]
) -> None:
    """Writes `target`: the bundle `source` of that board and version, signed with these keys.

    keys: as for signature(). Raises SigningError.
    """
    payload, manifest = manifest_of(source)
    for name, line in (
        ("update", f"compatible=cairn-{board}"),
        ("update", f"version={version}"),
        ("bundle", "format=verity"),
    ):
        if line not in section(manifest, name):
            raise SigningError(f"{source.name} does not say '{line}' of itself")
    made = signature(manifest, *keys)
    shutil.copyfile(source, target)
    with target.open("r+b") as stream:
        stream.truncate(payload)
        stream.seek(payload)
        stream.write(made + len(made).to_bytes(8, "big"))

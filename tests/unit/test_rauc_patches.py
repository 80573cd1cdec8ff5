"""patches/rauc on the program that Buildroot built: the same content makes the same bundle.

It is out/BOARD/build/host/bin/rauc, or what CAIRN_RAUC names; without one, the tests are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from lab.paths import OUT, ROOT

EPOCH = "1790000000"
MANIFEST = """[update]
compatible=cairn-x
version=1.2.3
[bundle]
format=verity
[image.rootfs]
filename=root.img
"""


@pytest.fixture
def rauc() -> str:
    """The patched program."""
    found = [os.environ.get("CAIRN_RAUC", ""), *map(str, OUT.glob("*/build/host/bin/rauc"))]
    for name in found:
        if name and os.access(name, os.X_OK):
            return name
    pytest.skip("no patched rauc here; build an image, or name one with CAIRN_RAUC")


@pytest.fixture
def keys() -> Path:
    """This clone's development keys, which are RSA."""
    subprocess.run([str(ROOT / "support/dev-keys")], check=True, capture_output=True)
    return OUT / "keys"


def bundle(rauc: str, keys: Path, folder: Path, content: bytes, epoch: str | None) -> Path:
    """A bundle made in a folder, with SOURCE_DATE_EPOCH or without."""
    (folder / "content").mkdir(parents=True)
    (folder / "content/root.img").write_bytes(content)
    (folder / "content/manifest.raucm").write_text(MANIFEST)
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    env = {name: word for name, word in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    env |= {"PATH": path} | ({"SOURCE_DATE_EPOCH": epoch} if epoch else {})
    command = [rauc, "bundle", f"--key={keys}/dev-bundle.key", f"--cert={keys}/dev-bundle.pem"]
    command += [f"--keyring={keys}/dev-ca.pem", "--mksquashfs-args=-all-root -no-xattrs -quiet"]
    command += [str(folder / "content"), str(folder / "x.raucb")]
    subprocess.run(command, check=True, env=env, capture_output=True)
    return folder / "x.raucb"


def told(rauc: str, keys: Path, path: Path) -> tuple[str, str]:
    """The salt that a bundle names, and its signing time."""
    command = [rauc, "info", f"--keyring={keys}/dev-ca.pem", str(path)]
    info = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (salt,) = re.findall(r"Verity Salt: +'([0-9a-f]{64})'", info)
    data = path.read_bytes()
    signature = data[-8 - int.from_bytes(data[-8:], "big") : -8]
    command = ["openssl", "cms", "-cmsout", "-print", "-inform", "DER"]
    shown = subprocess.run(command, check=True, capture_output=True, input=signature).stdout
    (when,) = re.findall(rb"signingTime.*\n.*\n +UTCTIME:(.*)", shown)
    return salt, when.decode().strip()


def test_the_same_bundle(rauc: str, keys: Path, tmp_path: Path) -> None:
    """At another time and in another folder: the same bytes, and RAUC takes them."""
    content = os.urandom(300_000)
    first = bundle(rauc, keys, tmp_path / "a", content, EPOCH)
    time.sleep(1.1)
    second = bundle(rauc, keys, tmp_path / "another folder/deeper", content, EPOCH)
    assert first.read_bytes() == second.read_bytes()
    assert told(rauc, keys, first)[1] == "Sep 21 14:13:20 2026 GMT"


def test_other_content_has_another_salt(rauc: str, keys: Path, tmp_path: Path) -> None:
    """One byte is enough; without SOURCE_DATE_EPOCH the salt is drawn, as upstream does."""
    content = os.urandom(300_000)
    other = content[:-1] + bytes([content[-1] ^ 1])
    salts = [
        told(rauc, keys, bundle(rauc, keys, tmp_path / str(number), data, epoch))[0]
        for number, (data, epoch) in enumerate(
            [(content, EPOCH), (other, EPOCH), (content, None), (content, None)]
        )
    ]
    assert len(set(salts)) == 4

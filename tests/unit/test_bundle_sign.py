"""support/bundle_sign.py: a real bundle, signed again, is what a real RAUC takes, as nodes do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.paths import ROOT
from support import bundle_sign, release_inputs
from support.bundle_sign import SigningError
from tests.shared.certificates import new_authority, new_pair, new_request, sign_request
from tests.shared.commands import captured, program

MANIFEST = (
    "[update]\ncompatible=cairn-rpi5\nversion=1.2.3\n[bundle]\nformat=verity\n"
    "[image.rootfs]\nfilename=root.img\n"
)


def keys(folder: Path) -> tuple[str, Path, Path]:
    """As the functions take them."""
    return str(folder / "bundle.key"), folder / "bundle.pem", folder / "ca.pem"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release's keys."""
    return new_pair(tmp_path_factory.mktemp("ours") / "keys")


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build's own keys, and x.raucb, which it made with them."""
    folder = new_pair(tmp_path_factory.mktemp("build") / "keys")
    (folder / "content").mkdir()
    (folder / "content/root.img").write_bytes(os.urandom(100_000))
    (folder / "content/manifest.raucm").write_text(MANIFEST)
    words = [f"--key={folder}/bundle.key", f"--cert={folder}/bundle.pem"]
    words += [f"--keyring={folder}/ca.pem", f"{folder}/content", f"{folder}/x.raucb"]
    subprocess.run(["rauc", "bundle", *words], check=True, capture_output=True)
    return folder


def node(folder: Path, keyring: Path, bundle: Path) -> tuple[int, str]:
    """What RAUC says of a bundle with a node's settings: its exit status, and all its words."""
    (folder / "system.conf").write_text(
        "[system]\ncompatible=cairn-rpi5\nbootloader=noop\n"
        f"[keyring]\npath={keyring}\ncheck-purpose=codesign\n"
    )
    done = captured("rauc", f"--conf={folder}/system.conf", "info", str(bundle))
    return done.returncode, done.stdout + done.stderr


def test_signed_again(ours: Path, build: Path, tmp_path: Path) -> None:
    """Nodes take it, and before they did not; payload and manifest are the build's to the byte."""
    made = [tmp_path / "a.raucb", tmp_path / "b.raucb"]
    for target in made:
        bundle_sign.sign(build / "x.raucb", target, "rpi5", "1.2.3", keys(ours))
    assert made[0].read_bytes() == made[1].read_bytes()
    assert node(tmp_path, ours / "ca.pem", build / "x.raucb")[0] != 0
    assert node(tmp_path, build / "ca.pem", made[0])[0] != 0
    status, said = node(tmp_path, ours / "ca.pem", made[0])
    assert status == 0, said
    assert "'cairn-rpi5'" in said
    old, new = (bundle_sign.manifest_of(path) for path in (build / "x.raucb", made[0]))
    assert old == new
    size = old[0]
    assert made[0].read_bytes()[:size] == (build / "x.raucb").read_bytes()[:size]
    assert b"verity-hash=" in old[1]


@pytest.mark.parametrize(
    ("board", "version", "words"),
    [("x86_64", "1.2.3", "'compatible=cairn-x86_64'"), ("rpi5", "1.2.4", "'version=1.2.4'")],
)
def test_of_another_board_or_version(
    ours: Path, build: Path, tmp_path: Path, board: str, version: str, words: str
) -> None:
    """Not signed: the signature says what a bundle is for."""
    with pytest.raises(SigningError, match=words):
        bundle_sign.sign(build / "x.raucb", tmp_path / "x", board, version, keys(ours))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:7],
        lambda data: data[:-1],
        lambda data: data[:-8] + bytes(8),
        lambda data: data[:-8] + b"\xff" * 8,
        lambda data: data[:-8] + (0x20000).to_bytes(8, "big"),
        lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    ],
)
def test_what_is_no_bundle(
    ours: Path, build: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """A length that cannot be, or a signature that does not hold: refused, nothing is written."""
    bad = tmp_path / "bad.raucb"
    bad.write_bytes(change((build / "x.raucb").read_bytes()))
    with pytest.raises(SigningError):
        bundle_sign.sign(bad, tmp_path / "x", "rpi5", "1.2.3", keys(ours))
    assert not (tmp_path / "x").exists()


def test_keys_that_nodes_do_not_trust(ours: Path, build: Path) -> None:
    """Noticed by whoever signs: another authority's, and a key of another certificate."""
    key, cert, keyring = keys(ours)
    for words in ((key, cert, build / "ca.pem"), (str(build / "bundle.key"), cert, keyring)):
        with pytest.raises(SigningError):
            bundle_sign.signature(b"[update]\n", *words)


@pytest.mark.parametrize(
    ("use", "usage", "ca_use", "words"),
    [
        ("codeSigning,emailProtection", "critical,digitalSignature", "", ""),
        ("codeSigning,emailProtection", "", "", ""),
        ("emailProtection,codeSigning", "digitalSignature", "codeSigning,emailProtection", ""),
        ("emailProtection", "critical,digitalSignature", "", "is not for codeSigning"),
        ("", "critical,digitalSignature", "", "is not for codeSigning"),
        ("msCodeInd,emailProtection", "critical,digitalSignature", "", "is not for codeSigning"),
        ("codeSigning,emailProtection", "nonRepudiation", "", "is not for digitalSignature"),
        (
            "codeSigning,emailProtection",
            "critical,digitalSignature",
            "emailProtection",
            "is not for signing code",
        ),
        ("codeSigning", "critical,digitalSignature", "", "is not for emailProtection"),
    ],
)
def test_what_a_certificate_is_for(
    build: Path, tmp_path: Path, use: str, usage: str, ca_use: str, words: str
) -> None:
    """A release is refused before it is built exactly where nodes would refuse its bundles.

    The last one they would take; but not whoever verifies by hand.
    """
    folder = new_pair(tmp_path / "keys", use, usage, ca_use=ca_use)
    key, cert, keyring = keys(folder)
    release = release_inputs.Keys(keyring, key, str(cert), Path(), Path())
    if words:
        with pytest.raises(release_inputs.ReleaseError, match=words):
            release_inputs.try_bundle_keys(ROOT, release, rehearsal=False)
    else:
        release_inputs.try_bundle_keys(ROOT, release, rehearsal=False)
    if use == "codeSigning":
        return
    target = tmp_path / "x.raucb"
    bundle_sign.sign(build / "x.raucb", target, "rpi5", "1.2.3", (key, cert, keyring))
    status, said = node(tmp_path, keyring, target)
    assert (status == 0) == (not words), said


@pytest.mark.parametrize(
    ("days", "authority_days", "lasts"),
    [(181, 900, True), (179, 900, False), (900, 181, True), (900, 179, False)],
)
def test_how_long_a_bundle_can_be_installed(
    tmp_path: Path, days: int, authority_days: int, lasts: bool
) -> None:
    """A release's for 180 days, by certificate and authority; a rehearsal's is for today.

    The keyring has another authority that lasts, as during a rotation.
    """
    authority = new_authority(tmp_path, "ca", days=authority_days)
    other = new_authority(tmp_path, "new")
    sign_request(new_request(tmp_path), authority, tmp_path / "bundle.pem", days=days)
    keyring = tmp_path / "keyring.pem"
    keyring.write_text(authority.read_text() + other.read_text())
    key, cert, _ = keys(tmp_path)
    release = release_inputs.Keys(keyring, key, str(cert), Path(), Path())
    release_inputs.try_bundle_keys(ROOT, release, rehearsal=True)
    if lasts:
        release_inputs.try_bundle_keys(ROOT, release, rehearsal=False)
    else:
        with pytest.raises(release_inputs.ReleaseError, match="ends within 180 days"):
            release_inputs.try_bundle_keys(ROOT, release, rehearsal=False)


def test_only_openssl_is_run(
    ours: Path, build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's own; nothing that lies beside the bundle."""
    (tmp_path / "bin").mkdir()
    program(
        tmp_path / "bin/openssl",
        f'echo "$@" >>{tmp_path}/log\nPATH=/usr/bin:/bin exec openssl "$@"\n',
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    bundle_sign.sign(build / "x.raucb", tmp_path / "x.raucb", "rpi5", "1.2.3", keys(ours))
    words = [line.split()[:2] for line in (tmp_path / "log").read_text().splitlines()]
    assert words == [["cms", "-verify"], ["cms", "-sign"], ["cms", "-verify"]]

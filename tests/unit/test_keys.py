"""support/dev-keys and support/keyring-check: what an image built here trusts, and a release not.

The certificates are made by openssl for each test; the scripts run in a small copy of the
repository, so that the keys of this clone stay as they are.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import captured, program

FILES = ("dev-bundle.key", "dev-bundle.pem", "dev-ca.key", "dev-ca.pem", "dev-sums", "dev-sums.pub")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A small repository with both scripts."""
    repo = tmp_path / "repo with a space"
    (repo / "support").mkdir(parents=True)
    for name in ("dev-keys", "keyring-check", "common.sh", "board.sh"):
        shutil.copy(ROOT / "support" / name, repo / "support")
    return repo


def made(repo: Path) -> Path:
    """The development keys' folder."""
    done = captured(str(repo / "support/dev-keys"))
    assert done.returncode == 0, done.stderr
    return repo / "out/keys"


def subject(certificate: Path) -> str:
    """The subject of a certificate."""
    command = ["openssl", "x509", "-in", str(certificate), "-noout", "-subject"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def authority(
    path: Path, *, name: str = "Cairn updates 1", days: int = 3000, ca: bool = True
) -> str:
    """A certificate, in a file; returns its text."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", str(days), "-subj", f"/O=Cairn/CN={name}"]
    command += ["-addext", f"basicConstraints=critical,CA:{'true' if ca else 'false'}"]
    command += ["-keyout", f"{path}.key", "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path.read_text()


def test_keys_are_made_once(repo: Path) -> None:
    """All of them, readable for the owner alone where secret; a second run changes nothing."""
    keys = made(repo)
    assert sorted(path.name for path in keys.iterdir()) == list(FILES)
    for name in FILES:
        mode = stat.S_IMODE((keys / name).stat().st_mode)
        assert mode == (0o644 if name.endswith(("pem", "pub")) else 0o600), name
    for name in ("dev-ca.pem", "dev-bundle.pem"):
        assert "DEVELOPMENT" in subject(keys / name)
    before = {name: (keys / name).read_bytes() for name in FILES}
    done = captured(str(repo / "support/dev-keys"))
    assert (done.returncode, done.stderr) == (0, "")
    assert {name: (keys / name).read_bytes() for name in FILES} == before
    assert list((repo / "out").iterdir()) == [keys]


def test_a_bundle_can_be_signed(repo: Path, tmp_path: Path) -> None:
    """What the key signs, the authority's certificate verifies."""
    keys = made(repo)
    data = tmp_path / "manifest"
    data.write_text("[update]\ncompatible=cairn-rpi5\n")
    signed = tmp_path / "signed"
    sign = ["openssl", "cms", "-sign", "-binary", "-nodetach", "-outform", "DER", "-in", str(data)]
    sign += ["-signer", str(keys / "dev-bundle.pem"), "-inkey", str(keys / "dev-bundle.key")]
    subprocess.run([*sign, "-out", str(signed)], check=True)
    verify = ["openssl", "cms", "-verify", "-binary", "-inform", "DER", "-in", str(signed)]
    verify += ["-CAfile", str(keys / "dev-ca.pem"), "-purpose", "smimesign"]
    done = subprocess.run(verify, check=True, capture_output=True)
    assert done.stdout == data.read_bytes()


@pytest.mark.parametrize(
    ("fault", "anew"),
    [("missing", "dev-bundle"), ("swapped", "dev-bundle"), ("empty", "dev-sums"), ("another", "")],
)
def test_damaged_keys_are_made_anew(repo: Path, fault: str, anew: str) -> None:
    """The authority stays as long as it is whole: nodes take bundles of no other one."""
    keys = made(repo)
    old = {name: (keys / name).read_bytes() for name in FILES}
    if fault == "missing":
        (keys / "dev-bundle.key").unlink()
    elif fault == "swapped":
        shutil.copy(keys / "dev-ca.key", keys / "dev-bundle.key")
    elif fault == "empty":
        (keys / "dev-sums").write_text("")
    else:
        authority(keys / "dev-ca.pem", name="Another")
        (keys / "dev-ca.pem.key").unlink()
    done = captured(str(repo / "support/dev-keys"))
    assert done.returncode == 0, done.stderr
    now = {name: (keys / name).read_bytes() for name in FILES}
    if anew:
        assert "flashed anew" not in done.stderr
        assert {name for name in FILES if now[name] != old[name]} == {
            name for name in FILES if name.startswith(anew)
        }
        assert not (repo / "out/keys.1").exists()
    else:
        assert "until they are flashed anew. The old keys are in out/keys.1" in done.stderr
        kept = repo / "out/keys.1"
        assert (kept / "dev-ca.key").read_bytes() == old["dev-ca.key"]
        assert all(now[name] != old[name] for name in FILES if "sums" not in name)
    (keys / "dev-ca.key").unlink()
    assert captured(str(repo / "support/dev-keys")).stderr == "", "it has nothing to sign"


def test_openssl_that_fails(repo: Path, tmp_path: Path) -> None:
    """A program that fails leaves the old keys, and nothing half made."""
    keys = made(repo)
    old = {name: (keys / name).read_bytes() for name in FILES}
    program(tmp_path / "bin/openssl", "echo 'no space left' >&2\nexit 1")
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = captured(str(repo / "support/dev-keys"), env=env)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("are unchanged: no space left")
    assert {name: (keys / name).read_bytes() for name in FILES} == old
    assert list((repo / "out").iterdir()) == [keys]


def check(repo: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and error of keyring-check."""
    done = captured(str(repo / "support/keyring-check"), *arguments)
    return done.returncode, done.stderr


def test_a_development_keyring_is_for_images_built_here(repo: Path) -> None:
    """A release refuses it, alone and among others."""
    keyring = made(repo) / "dev-ca.pem"
    assert check(repo, str(keyring)) == (0, "")
    status, said = check(repo, "--release", str(keyring))
    assert status == 1
    assert "has a development certificate (CN=Cairn DEVELOPMENT CA,O=Cairn)" in said
    both = repo / "both.pem"
    both.write_text(authority(repo / "ca.pem") + keyring.read_text())
    assert check(repo, "--release", str(repo / "ca.pem")) == (0, "")
    assert check(repo, "--release", str(both))[0] == 1


def test_a_keyring_that_lasts(repo: Path) -> None:
    """During a rotation the old authority may be about to end, if a new one is there."""
    old = authority(repo / "old.pem", days=90)
    assert check(repo, str(repo / "old.pem")) == (0, "")
    status, said = check(repo, "--release", str(repo / "old.pem"))
    assert status == 1
    assert "ends within a year" in said
    (repo / "both.pem").write_text(old + authority(repo / "new.pem", name="Cairn updates 2"))
    assert check(repo, "--release", str(repo / "both.pem")) == (0, "")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no file", "cannot be read"),
        ("empty", "has no certificate in it"),
        ("noise", "has no certificate in it"),
        ("cut off", "must be whole and in PEM"),
        ("private", "has a private key in it"),
        ("signer", "is of no certificate authority (CN=Signer,O=Cairn)"),
    ],
)
def test_what_is_no_keyring(repo: Path, fault: str, words: str) -> None:
    """One sentence for each."""
    file = repo / "keyring.pem"
    good = authority(repo / "ca.pem")
    key = Path(f"{repo}/ca.pem.key").read_text()
    texts = {
        "empty": "",
        "noise": "\x00\xff-----BEGIN\n",
        "cut off": good[: len(good) // 2],
        "private": good + key,
        "signer": authority(repo / "signer.pem", name="Signer", ca=False),
    }
    if fault in texts:
        file.write_text(texts[fault])
    status, said = check(repo, str(file))
    assert status == 1
    assert words in said
    assert len(said.splitlines()) == 1

"""support/version: what nodes would not read as a version is refused before it is flashed."""

from __future__ import annotations

import hashlib
import os
import shutil
import string
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import captured, program

WORDS = "take no bundle of such a version: write one of at most 64 letters, digits and . + ~ -,"
ODD = ["0.1.1_2", "2.0.0 mine", "0.1.0\r", "1.0\n2.0", "1.0é", "", "1" * 65]
#: Those of a file's lines that are a version for an update's scripts, and for support/version.
READ = r"""
. "$1/overlay/usr/lib/cairn/slot-files.sh"
while IFS= read -r word; do
	printf 'version=%s\n' "$word" >release
	printf '%s\n' "$(update_value release version)" >>node
	printf '%s\n' "$("$1/support/version" release 2>/dev/null)" >>ours
done <words
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A copy of what builds."""
    repo = tmp_path / "repo"
    for name in ("support", "board"):
        shutil.copytree(ROOT / name, repo / name, ignore=shutil.ignore_patterns("__pycache__"))
    (repo / "overlay/usr/share/cairn").mkdir(parents=True)
    shutil.copy(ROOT / "overlay/usr/share/cairn/data-format", repo / "overlay/usr/share/cairn")
    return repo


def test_as_nodes_read_it(tmp_path: Path) -> None:
    """Each character, and the length: what they read is let through, and nothing else."""
    words = [f"1{sign}0" for sign in string.printable if sign not in "\n\r\x0b\x0c"]
    words += ["1" * 64, "1" * 65, "1.0é", "1.0\r"]
    (tmp_path / "words").write_bytes("".join(f"{word}\n" for word in words).encode())
    done = captured("sh", "-euc", READ, "sh", str(ROOT), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    node = (tmp_path / "node").read_bytes()
    assert node.count(b"\n") == len(words)
    assert len([line for line in node.splitlines() if line]) == 10 + 2 * 26 + len(".+~-") + 1
    assert (tmp_path / "ours").read_bytes() == node
    # that of a bundle's manifest, once more
    update = (ROOT / "overlay/usr/lib/cairn/cairn-update").read_text()
    assert r"'\([0-9A-Za-z.+~-]\{1,64\}\)'" in update


@pytest.mark.parametrize("version", ODD)
def test_a_build_is_refused(repo: Path, tmp_path: Path, version: str) -> None:
    """Before the hour that it takes, and by what writes the version into an image."""
    (repo / "VERSION").write_bytes(f"{version}\n".encode())
    (tmp_path / "images").mkdir()
    for words in (
        ["support/image", "x86_64"],
        ["support/os-release", "x86_64"],
        ["support/os-release", "--image"],
        ["board/common/post-image.sh", str(tmp_path / "images"), "x86_64"],
    ):
        env = {**os.environ, "CAIRN_CACHE": str(tmp_path / "cache")}
        done = captured(str(repo / words[0]), *words[1:], env=env)
        assert (done.returncode, done.stdout) == (1, ""), words
        (line,) = done.stderr.splitlines()
        assert line.startswith("version: VERSION says '") and WORDS in line
    assert not (repo / "out").exists()
    assert list((tmp_path / "images").iterdir()) == []


@pytest.mark.parametrize("version", [word.replace("\n", "\nversion=") for word in ODD])
def test_a_bundle_is_refused(tmp_path: Path, version: str) -> None:
    """Of an image that has such a version already."""
    slot = tmp_path / "boot/slot-a"
    slot.mkdir(parents=True)
    (tmp_path / "rootfs.erofs").write_bytes(b"root")
    digest = hashlib.sha256(b"root").hexdigest()
    release = f"version={version}\ndata-format=1\ndata-reads=1\nroot-sha256={digest}\n"
    (slot / "release").write_bytes(release.encode())
    for file in (slot / "cmdline", tmp_path / "key"):
        file.touch()
    for name in ("rauc", "mksquashfs"):
        program(tmp_path / "bin" / name, f"touch {tmp_path}/run")
    names = ("CAIRN_BUNDLE_KEY", "CAIRN_BUNDLE_CERT", "CAIRN_KEYRING")
    env = {**os.environ, **dict.fromkeys(names, str(tmp_path / "key")), "CAIRN_RAUC": "rauc"}
    env["PATH"] = f"{tmp_path}/bin:{os.environ['PATH']}"
    words = ["x86_64", str(tmp_path), str(tmp_path / "new/x.raucb")]
    done = captured(str(ROOT / "support/bundle"), *words, env=env)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"version: {slot}/release says '") and WORDS in line
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "new").exists()

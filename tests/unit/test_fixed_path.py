"""support/fixed_path.py: a tree at a path that is not its own, and nothing of it outside."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
from pathlib import Path

import pytest

from support import fixed_path
from tests.shared.commands import program


def place(tmp_path: Path, name: str = "tree") -> fixed_path.Place:
    """A tree with a file, a cache, and room for mounts."""
    tree = tmp_path / name
    tree.mkdir(parents=True)
    (tree / "own").write_text(name)
    return fixed_path.Place(tree, tmp_path / "cache", tmp_path / "room")


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    """What a command said."""
    return subprocess.run(words, check=False, capture_output=True, text=True)


def test_inside_and_outside(tmp_path: Path) -> None:
    """The command sees one path, host name and environment; the machine sees none of this."""
    there = place(tmp_path, "a name with blanks")
    script = "pwd -P; hostname; umask; cat own; ls /mnt; env; touch made /mnt/cache/kept ~/gone"
    before = sorted(path.name for path in fixed_path.BASE.iterdir())
    done = run(fixed_path.command(there, {"A": "b c"}, ["sh", "-c", script]))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["/mnt/cairn", "cairn", "0022", "a name with blankscache"]
    assert lines[4:6] == ["cairn", "home"]
    variables = dict(line.split("=", 1) for line in lines[6:])
    assert set(variables) - {"PWD", "OLDPWD", "SHLVL", "_"} == {"A", "PATH", "HOME", "CAIRN_CACHE"}
    assert (variables["A"], variables["HOME"]) == ("b c", "/mnt/home")
    assert sorted(path.name for path in fixed_path.BASE.iterdir()) == before
    assert socket.gethostname() != "cairn"
    assert (there.tree / "made").stat().st_uid == os.getuid()
    assert (there.cache / "kept").exists()
    assert list(there.room.iterdir()) == []


def test_exit_status(tmp_path: Path) -> None:
    """It is the command's; a program that does not exist has a sentence."""
    there = place(tmp_path)
    assert run(fixed_path.command(there, {}, ["sh", "-c", "exit 7"])).returncode == 7
    done = run(fixed_path.command(there, {}, ["no-such-program"]))
    assert done.returncode != 0
    assert "no-such-program" in done.stderr


def test_inputs_are_read_only(tmp_path: Path) -> None:
    """A key, a keyring, a folder: seen under their names, and not changed."""
    there = place(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("one")
    (tmp_path / "key").write_text("secret")
    there.inputs = {"keys": tmp_path / "folder", "a.key": tmp_path / "key"}
    script = "cat /mnt/keys/file /mnt/a.key; echo x >/mnt/a.key; echo x >/mnt/keys/file; exit 0"
    done = run(fixed_path.command(there, {}, ["sh", "-c", script]))
    assert done.stdout == "onesecret"
    assert (tmp_path / "key").read_text() == "secret"
    assert (tmp_path / "folder/file").read_text() == "one"


def test_orders_are_not_on_the_command_line(tmp_path: Path) -> None:
    """A token's PIN is in a file that only the user can read, and that is gone at once."""
    there = place(tmp_path)
    words = fixed_path.command(there, {"RAUC_PKCS11_PIN": "123456"}, ["ls", str(tmp_path)])
    assert not any("123456" in word for word in words)
    orders = Path(words[-1])
    assert orders.stat().st_mode & 0o777 == 0o600
    assert orders.name not in run(words).stdout.split()


def test_with_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sudo makes the namespace, the command is the user's again, with no other rights."""
    if os.geteuid() != 0:
        pytest.skip("root plays sudo here")
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(fixed_path, "way", lambda: "sudo")
    monkeypatch.setattr(os, "getuid", lambda: nobody.pw_uid)
    monkeypatch.setattr(os, "getgid", lambda: nobody.pw_gid)
    there = place(tmp_path)
    script = "id -u; id -g; touch ~/mine && echo yes; grep CapEff /proc/self/status"
    words = fixed_path.command(there, {}, ["sh", "-c", script])
    assert words[0] == "sudo"
    done = run(words[1:])
    assert done.stdout.split() == [
        *(str(nobody.pw_uid), str(nobody.pw_gid), "yes", "CapEff:", "0" * 16)
    ], done.stderr


@pytest.mark.parametrize(
    ("unshare", "sudo", "expected"),
    [("exit 0", None, "user"), ("exit 1", "exit 0", "sudo"), ("exit 1", "exit 1", None)],
)
def test_the_way_of_a_user(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unshare: str,
    sudo: str | None,
    expected: str | None,
) -> None:
    """A namespace of the user's own, else sudo's, else one sentence."""
    program(tmp_path / "unshare", unshare)
    if sudo:
        program(tmp_path / "sudo", sudo)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if expected:
        assert fixed_path.way() == expected
    else:
        with pytest.raises(fixed_path.NamespaceError, match="lets no ordinary user make"):
            fixed_path.way()


def test_network() -> None:
    """Proxies and certificates go with it; what chooses content does not."""
    here = {"https_proxy": "p", "NO_PROXY": "n", "PIP_CERT": "c", "npm_config_cafile": "f"}
    other = {"CFLAGS": "-O3", "PATH": "/opt/bin", "LD_PRELOAD": "x", "SOURCE_DATE_EPOCH": "1"}
    assert fixed_path.of_the_network(here | other) == here

"""support/ and the Makefile for a normal Debian user: PATH, folders with a space, rights."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import run as runner
from tests.shared.commands import captured, program

#: PATH of a normal user on Debian, as /etc/profile sets it.
USER_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
FOLDERS = ("support", "package", "patches", "buildroot-external", "board", "bench")
#: Somebody who is not root: a stranger to what the tests make, or a normal user who runs them.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] * (os.geteuid() == 0)


@pytest.fixture
def repo(root: Path) -> Iterator[Path]:
    """A copy of what the scripts read, in a folder with a space that every user can read."""
    with tempfile.TemporaryDirectory(prefix="cairn user ") as name:
        folder = Path(name) / "my repo"
        for part in FOLDERS:
            shutil.copytree(root / part, folder / part)
        shutil.copy(root / "Makefile", folder)
        Path(name).chmod(0o755)
        yield folder


def run(
    command: list[str], folder: Path, path: str = USER_PATH, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder with a user's environment, and nobody at the terminal."""
    environment = {"HOME": str(folder / "home"), "PATH": path, **env}
    return captured(*command, folder=folder, env=environment)


def shims(folder: Path, **scripts: str) -> str:
    """A PATH in which some commands are scripts of ours."""
    tools = folder.parent / "tools"
    tools.mkdir(exist_ok=True)
    tools.chmod(0o755)
    for name, script in scripts.items():
        program(tools / name.replace("_", "-").replace("cxx", "c++"), script)
    return f"{tools}:{USER_PATH}"


def common(repo: Path, words: str) -> str:
    """What a script that sources common.sh prints."""
    probe = repo / "support/probe"
    probe.write_text(f'set -eu\n. "$(dirname "$0")/common.sh"\n{words}\n')
    result = run(["sh", str(probe)], repo)
    assert result.returncode == 0, result.stderr
    return result.stdout


def one_sentence(result: subprocess.CompletedProcess[str], words: str) -> None:
    """The script ends with one line that has these words; make adds its own."""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]
    assert result.returncode, result.stderr
    assert len(lines) == 1, result.stderr
    assert words in lines[0]


@pytest.mark.parametrize(
    "command", [["support/flash", "none.img", "x"], ["make", "flash", "DEV=x"]]
)
def test_folders_of_root_are_not_in_path(repo: Path, command: list[str]) -> None:
    """blockdev, sfdisk and mkfs.vfat are found all the same."""
    one_sentence(run(command, repo), "does not exist; build it")


def test_commands_of_python_programs(repo: Path) -> None:
    """make exports the same PATH to those that are no shell scripts."""
    (repo / "Makefile").write_text(
        (repo / "Makefile").read_text() + "\nprobe: ; @sfdisk --version\n"
    )
    result = run(["make", "probe"], repo)
    assert "sfdisk from" in result.stdout, result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["support/image", "x86_64"],
        ["support/buildroot-config", "--show", "rpi5"],
    ],
)
def test_buildroot_in_a_folder_with_a_space(repo: Path, command: list[str]) -> None:
    """It cannot work there, and says so before it downloads anything."""
    one_sentence(run(command, repo), f"with a space in its path ({repo}); clone Cairn into another")
    assert not (repo / "home").exists()


def test_path_with_a_space(repo: Path) -> None:
    """Windows' folders, which WSL adds to PATH, are kept from Buildroot."""
    said = common(repo, 'PATH="$PATH:/mnt/c/Program Files/x"\nbuildroot_env\necho "$PATH"')
    assert said.startswith("/usr/local/bin:/usr/bin:")
    assert " " not in said


@pytest.mark.parametrize("name", ["a b", "a,b", "a.b[c]*", "a'b"])
def test_digest_does_not_depend_on_the_folder(root: Path, tmp_path: Path, name: str) -> None:
    """The same tree in another folder is not built again."""
    digests = []
    for folder in (tmp_path / "plain", tmp_path / name):
        shutil.copytree(root / "support", folder / "support")
        shutil.copytree(root / "package", folder / "package")
        digests.append(common(folder, 'digest_tree "$ROOT/package"'))
    assert digests[0] == digests[1]


def test_lmdb_in_a_folder_with_a_space(root: Path, repo: Path) -> None:
    """Compiled and installed there."""
    (repo / ".venv").symlink_to(root / ".venv")
    cache = os.environ.get("CAIRN_CACHE", str(Path.home() / ".cache/cairn"))
    result = run(["support/lmdb-build"], repo, CAIRN_CACHE=cache)
    assert result.returncode == 0, result.stderr
    assert (repo / "out/lmdb/lib/liblmdb.a").is_file()
    assert (repo / "out/lmdb/include/lmdb.h").is_file()


@pytest.mark.parametrize("script", ["chaingen", "core-tsan"])
def test_libraries_in_a_folder_with_a_space(repo: Path, script: str) -> None:
    """Each library is one word of the compiler's."""
    tree = repo / "out/core" / ("build/lib" if script == "chaingen" else "tsan")
    tree.mkdir(parents=True)
    for name in ("bitcoin_common", "secp256k1", "univalue"):
        (tree / f"lib{name}.a").touch()
    (tree / "build.ninja").touch()
    (repo / "support/core-build").write_text("#!/bin/sh\n")
    words = repo.parent / "words"
    record = f"printf '%s\\n' \"$@\" >'{words}'; exit 1"
    path = shims(repo, cxx=record, ccache=record, cmake="", ninja="", cmp="")
    assert run([f"support/{script}"], repo, path).returncode == 1
    found = words.read_text().splitlines()
    assert [word for word in found if word.endswith(".a")] == [
        str(tree / f"lib{name}.a") for name in ("bitcoin_common", "secp256k1", "univalue")
    ]


def test_feeder_in_a_folder_with_a_space(repo: Path) -> None:
    """The command line for RPC has the daemon's path in one piece."""
    result = run(["support/feeder", "info", "--dir", str(repo / "f")], repo)
    line = result.stdout.splitlines()[2].removeprefix("cli=")
    words = shlex.split(line)
    assert words[:2] == [str(repo / "out/core-stock/bin/bitcoin-cli"), f"-datadir={repo}/f"]


@contextmanager
def read_only(repo: Path) -> Iterator[list[str]]:
    """Gives the beginning of a command that can write nothing in the repository."""
    folders = [] if NOBODY else [repo, *(path for path in repo.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield NOBODY
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize("command", ["bootstrap", "core-build", "run-image x86_64", "lmdb-build"])
def test_read_only_checkout(repo: Path, command: str) -> None:
    """One sentence that says who cannot write where."""
    image = repo / "out/x86_64/cairn-x86_64.img"
    image.parent.mkdir(parents=True)
    image.touch()
    script, *arguments = command.split()
    path = shims(repo, genimage="", ninja="", cmake="", ccache="", cxx="")
    with read_only(repo) as nobody:
        result = run([*nobody, f"support/{script}", *arguments], repo, path)
    one_sentence(result, "cannot write to ")


def test_flash_in_a_read_only_checkout(repo: Path) -> None:
    """It writes to nothing but the disk."""
    with read_only(repo) as nobody:
        result = run([*nobody, "make", "flash", "DEV=x"], repo)
    one_sentence(result, "does not exist; build it")


def test_clean_of_another_users_files(repo: Path) -> None:
    """Not a line for each file."""
    (repo / "out").mkdir()
    (repo / "out/file").touch()
    # a folder of one's own that may not be written is as bad as another user's
    with read_only(repo) as nobody:
        result = run([*nobody, "make", "clean"], repo)
    one_sentence(result, "sudo make clean")
    assert (repo / "out/file").exists()


def test_clean_keeps_the_keys(repo: Path) -> None:
    """A node takes updates of no others."""
    for name in ("keys", "keys.1", "keyson", "rpi5/build"):
        (repo / "out" / name).mkdir(parents=True)
    for _ in range(2):
        assert run(["make", "clean"], repo).returncode == 0
        assert sorted(path.name for path in (repo / "out").iterdir()) == ["keys", "keys.1"]
    shutil.rmtree(repo / "out")
    assert run(["make", "clean"], repo).returncode == 0


@pytest.mark.parametrize("sudo", ["exit 1", None])
def test_root_is_refused(repo: Path, sudo: str | None) -> None:
    """The reason is not lost in a log, and the network is not blamed."""
    (repo / "out").mkdir()
    (repo / "out").chmod(0o777)
    room = "echo; echo disk 1 1 99999 1% /"  # where the tests run may have less
    path = shims(
        repo, df=room, dpkg_query="exit 1", apt_get="exit 1", **({"sudo": sudo} if sudo else {})
    )
    if not sudo and shutil.which("sudo"):
        pytest.skip("sudo is installed here")
    result = run([*NOBODY, "support/bootstrap"], repo, path)
    one_sentence(result, "sudo refused" if sudo else "there is no sudo")


def test_lint_without_git(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unpacked archive, or another user's clone."""
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    with pytest.raises(runner.StageError, match="use a git clone of your own"):
        runner.tracked()

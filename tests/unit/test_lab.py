"""Where Python modules of this repository find each other, and which folder takes from which."""

from __future__ import annotations

import ast
import asyncio
import gc
import graphlib
import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lab import block_server, paths, updates
from lab.machine import Machine
from lab.paths import ROOT
from lab.serial_log import POWER_ON
from lab.ssh_shell import Host, SshShell
from tests.run import tracked
from tests.shared.commands import captured, program
from tests.style_checks import python_files

#: Apart, so that this file has no part in what it looks for.
SEARCH_PATH = ".".join(("sys", "path"))
#: A checkout that is found by counting the folders above a file.
PARENTS = re.compile(r"__file__.*\.parent(s\[[1-9]|\.parent)")


def programs() -> list[Path]:
    """All Python files, with a suffix or without, that git has or would take."""
    files = tracked()
    return [file for file in files if file.suffix == ".py"] + python_files(files)


def imports(file: Path) -> set[str]:
    """The modules that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def folder_of(module: str) -> str:
    """The folder of this repository that has the module; empty for one of somebody else."""
    place = Path(*module.split("."))
    for path in (place, place.parent):
        if (ROOT / path).with_suffix(".py").is_file():
            return str(path.parent)
    return ""


def test_the_package_is_this_checkouts(root: Path) -> None:
    """Not that of another one whose .venv is used here: it would test the other one's files."""
    assert Path(paths.__file__) == Path(__file__).resolve().parents[2] / "lab/paths.py"
    assert (root / "pyproject.toml").is_file()


def test_nobody_sets_a_search_path_or_looks_for_the_checkout() -> None:
    """Modules are found by pyproject.toml, and the checkout by lab/paths.py."""
    files = programs()
    assert ROOT / "support/profile" in files
    assert [file for file in files if SEARCH_PATH in file.read_text()] == []
    counting = {file for file in files if PARENTS.search(file.read_text())}
    assert counting == {ROOT / "lab/paths.py", Path(__file__).resolve()}


def test_console_since_the_last_power_on(tmp_path: Path) -> None:
    """What earlier boots have shown is left out, and so are the colours."""
    machine = Machine()
    machine.directory = tmp_path
    said = f"\n{POWER_ON}\nlogin:\n{POWER_ON}\n\x1b[0;1;31mFailed\x1b[0m to start\n"
    machine.serial.write_text(said)
    assert machine.serial_log() == "\nFailed to start\n"
    with pytest.raises(AssertionError, match="no machine runs"):
        machine.wait(0)


def test_folders_for_sockets_are_removed() -> None:
    """With the machine or the board's session that has them, or at the end of the program."""
    machine, shell = Machine(), SshShell(Host("attic"))
    folders = [machine.sockets, shell.folder]
    for folder in folders:
        (folder / "socket").touch()
        assert len(str(folder)) < 60
    del machine, shell
    gc.collect()
    assert [folder for folder in folders if folder.exists()] == []
    code = "from lab.machine import Machine; m = Machine(); print(m.sockets, m.sockets.is_dir())"
    name, there = captured(sys.executable, "-c", code).stdout.split()
    assert (there, Path(name).exists()) == ("True", False)


def test_daemon_that_does_not_answer(tmp_path: Path) -> None:
    """It tells its options, or the boot would end there, and does nothing else."""
    daemon = program(tmp_path / "usr/bin/bitcoind", 'echo "options of $0"')
    (tmp_path / updates.UNITS).mkdir(parents=True)
    updates.breaks(tmp_path, "bitcoind", 300)
    text = daemon.read_text().replace("/usr/bin/", f"{tmp_path}/usr/bin/")
    mute = program(tmp_path / "mute", text.replace("sleep 1000000", "echo mute"))
    said = captured(str(mute), "-datadir=/x", "-help-debug").stdout
    assert said == f"options of {daemon}.real\n"
    assert captured(str(mute), "-datadir=/var/lib/bitcoind").stdout == "mute\n"
    assert os.access(daemon, os.X_OK)


def test_no_folder_takes_from_one_that_takes_from_it() -> None:
    """And lab takes from no other one: of what is installed, only from what reaches a machine."""
    taken: dict[str, set[str]] = defaultdict(set)
    for file in programs():
        folder = str(file.parent.relative_to(ROOT))
        for module in imports(file):
            if source := folder_of(module):
                taken[folder] |= {source} - {folder}
            elif folder == "lab":
                assert module.split(".")[0] in sys.stdlib_module_names | {"nbdkit", "qemu"}, file
    assert {"lab", "tests/shared"} <= taken["tests/unit"]
    assert not taken["lab"]
    list(graphlib.TopologicalSorter(taken).static_order())


@pytest.mark.parametrize(("rate", "waits"), [(0, []), (0.5, [2.0])])
def test_rate_of_a_block_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, waits: list[float]
) -> None:
    """A block of 1 MiB takes as long as the rate says."""
    file = tmp_path / "blocks"
    file.write_bytes(b"\xfa\xbf\xb5\xda" + (1 << 20).to_bytes(4, "little") + bytes(1 << 20))
    sent: list[bytes] = []
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        assert not sent
        waited.append(seconds)

    async def drain() -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)
    writer = cast(asyncio.StreamWriter, SimpleNamespace(write=sent.append, drain=drain))
    reader = cast(asyncio.StreamReader, None)
    asyncio.run(block_server.Peer(block_server.Chain(file), reader, writer, rate).send_block(0))
    assert waited == waits
    assert len(b"".join(sent)) == 24 + (1 << 20)

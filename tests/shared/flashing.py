"""Runs support/flash on loop devices, with an answer typed at a terminal of its own.

Used by tests/hostile/test_flash_disks.py and tests/unit/test_flash.py.
"""

from __future__ import annotations

import hashlib
import os
import pty
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import program

MIB = 1 << 20
#: What a disk under test holds in its first 8 MiB before anything happens to it.
OLD = b"\xee" * 8 * MIB
#: Files whose bytes must be the same after a refusal; each test names its own (watch).
WATCHED: list[Path] = []
#: Ctrl-D: the end of what is typed.
EOF = "\x04"


def run(*command: str, text: str | None = None) -> str:
    """Runs a command that has to work and returns its output."""
    result = subprocess.run(command, check=False, capture_output=True, text=True, input=text)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout.strip()


def make_image(path: Path, megabytes: int = 5) -> Path:
    """An image with Cairn's partitions, a hole in the middle, and its sum beside it."""
    with path.open("wb") as stream:
        stream.truncate(megabytes * MIB)
    table = "label: gpt\nfirst-lba: 2048\nsize=1M,name=boot\nsize=1M,name=root-a\n"
    run("sfdisk", "-q", str(path), text=table)
    with path.open("r+b") as stream:
        stream.seek(MIB)
        stream.write(os.urandom(MIB))
        stream.seek((megabytes - 2) * MIB)
        stream.write(os.urandom(MIB))
    write_sum(path)
    return path


def watch(disk: Path) -> Path:
    """Makes `refused` look at a file; it returns the file."""
    WATCHED.append(disk)
    return disk


def content(disk: Path) -> str:
    """One hash of all bytes of a sparse file, in which a hole is as good as zeros."""
    digest = hashlib.sha256()
    with disk.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        at = 0
        while at < size:
            try:
                at = os.lseek(stream.fileno(), at, os.SEEK_DATA) // 4096 * 4096
            except OSError:
                break
            if any(block := os.pread(stream.fileno(), 65536, at)):
                for start in range(0, len(block), 4096):
                    if any(part := block[start : start + 4096]):
                        digest.update(b"%d " % (at + start) + part)
            at += len(block)
    return digest.hexdigest()


class Result(subprocess.CompletedProcess[str]):
    """What support/flash said, and what the watched files held before."""

    before: dict[Path, str]


def write_sum(*files: Path) -> None:
    """FILE.sha256 of the first file, with the sums of all, as support/image writes it."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    Path(f"{files[0]}.sha256").write_text("".join(lines))


def attach(disk: Path, *options: str) -> str:
    """A loop device on a file; skips the test, with the reason, where there are none."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    command = ["losetup", "-f", "--show", *options, str(disk)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        pytest.skip(f"no loop device can be made here: {result.stderr.strip()}")
    return result.stdout.strip()


def detach(device: str) -> None:
    """Takes a loop device and its partitions away."""
    subprocess.run(["losetup", "-d", device], check=False, stderr=subprocess.DEVNULL)


def fake_lsblk(folder: Path, **columns: str) -> str:
    """A folder for PATH with an lsblk that answers single columns of any device as told.

    `MOUNTPOINTS="/"` makes the device look mounted there; "FAIL" makes the question fail.
    Everything else is answered by the real one.
    """
    cases = "\n".join(
        f"*' {name} '*) "
        + ("exit 1 ;;" if value == "FAIL" else f"printf '%s\\n' '{value}'; exit ;;")
        for name, value in columns.items()
    )
    script = f'case " $* " in\n{cases}\nesac\nexec /usr/bin/lsblk "$@"'
    program(folder / "lsblk", script)
    return str(folder)


def shim(folder: Path, name: str, script: str) -> str:
    """A folder for PATH with one command replaced; `REAL` in the script is the real one."""
    real = run("sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin command -v {name}")
    program(folder / name, script.replace("REAL", real))
    return str(folder)


def flash(
    image: Path | str,
    device: str,
    answer: str | None = None,
    path: str = "",
    prefix: tuple[str, ...] = (),
    asked: Callable[[], None] | None = None,
    **env: str,
) -> Result:
    """Runs support/flash; `path` goes in front of PATH, `prefix` in front of the command.

    `answer` is typed at a terminal; without one there is no terminal but /dev/null. `asked`
    is called when the question is on the screen, before the answer is given.
    """
    environment = {**os.environ, "FORCE": "", **env}
    if path:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    command = [*prefix, str(ROOT / "support/flash"), str(image), device]
    before = {file: content(file) for file in WATCHED}
    if answer is None:
        status, said = without_terminal(command, environment)
    else:
        status, said = at_terminal(command, environment, answer, asked)
    result = Result(command, status, "", said)
    result.before = before
    return result


def without_terminal(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Exit status and stderr of a command that nobody can answer."""
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=environment,
    )
    return result.returncode, result.stderr


def at_terminal(
    command: list[str],
    environment: dict[str, str],
    answer: str,
    asked: Callable[[], None] | None,
) -> tuple[int, str]:
    """The same of a command to which something is typed when it asks."""
    master, slave = pty.openpty()
    said: list[str] = []
    seen = threading.Event()

    def read() -> None:
        assert process.stderr
        while letters := os.read(process.stderr.fileno(), 4096).decode(errors="replace"):
            said.append(letters)
            if "to go on" in "".join(said):
                seen.set()
        seen.set()

    process = subprocess.Popen(
        command, stdin=slave, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    reader = threading.Thread(target=read)
    reader.start()
    try:
        seen.wait(60)
        if asked:
            asked()
        os.write(master, answer.encode())
        process.wait(120)
    finally:
        process.kill()
        reader.join()
        os.close(master)
        os.close(slave)
    return process.wait(), "".join(said)


def refused(result: Result, words: str) -> None:
    """Exit status 1, one last sentence with these words, and all disks as they were."""
    for disk, before in result.before.items():
        assert content(disk) == before, f"{disk} was written to: {result.stderr}"
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1, result.stderr
    assert words in last, result.stderr
    assert last.startswith("flash: ") or "flash: " in last, result.stderr

"""What several of these tests do on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.paths import ROOT
from tests.shared.commands import program
from tests.shared.update_node import Started, UpdateNode

SHELLS = ["dash", "busybox sh"]


def install(node: UpdateNode, *words: str, status: int = 0, shell: str = "dash") -> str:
    """node-update install of the bundle, or of another one that is named last."""
    source = words[-1] if words and not words[-1].startswith("--") else ""
    options = words[:-1] if source else words
    source = source or node.file(node.bundle("2.0.0"))
    return node.run("node-update", "install", *options, source, status=status, shell=shell)


def on_trial(node: UpdateNode) -> Started:
    """Version 2.0.0 is installed, and its trial has begun."""
    started = node.restarted(install(node))
    assert started.version == "2.0.0"
    return started


def fails(node: UpdateNode, name: str, words: str, how: str = "exit 1") -> None:
    """This command does ``how`` with arguments that match ``words``, a pattern of the shell's.

    Until the file of that name in ``node.tools`` is removed.
    """
    program(
        node.tools / name,
        f'case "$*" in {words}) {how} ;; esac\nexec {shutil.which(name)} "$@"',
    )


@contextmanager
def begun(
    node: UpdateNode, source: str = "", command: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """node-update install, or without a source the nightly look, with RAUC in the middle of it.

    ``command``: another one, which makes the file ``begun`` when it is in the middle.
    """
    by_itself = ("cairn-update", "--window")
    name, *words = command or (("node-update", "install", source) if source else by_itself)
    folder = "bin" if name.startswith("node-") else "lib/cairn"
    script = ROOT / "overlay/usr" / folder / name
    (node.path / "begun").unlink(missing_ok=True)
    with subprocess.Popen(
        ["dash", str(script), "--root", str(node.path), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=node.environment(),
        start_new_session=True,
    ) as process:
        end = time.monotonic() + 60
        while not (node.path / "begun").exists():
            assert time.monotonic() < end, process.poll()
            time.sleep(0.05)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


URL = "https://example.org/cairn/"


def records(node: UpdateNode, mode: str, url: str = URL) -> None:
    """What node.conf says of updates."""
    text = f"chain main\nnetwork on\nupdate {mode}\n" + (f"updateurl {url}\n" if url else "")
    node.write("run/cairn/node-conf.records", text)


def plug(node: UpdateNode, *versions: str, board: str = "", kind: str = "vfat") -> None:
    """A stick with a bundle of each version in its root; none: no stick."""
    shutil.rmtree(node.path / "stick", ignore_errors=True)
    folder = node.path / "sys/devices/pci/usb1/sda/sda1"
    link = node.path / "sys/class/block/sda1"
    link.unlink(missing_ok=True)
    program(
        node.tools / "udevadm",
        f"case $* in *sda1*) echo ID_FS_TYPE={kind} ;; esac",
    )
    program(
        node.tools / "mount",
        f"echo $* >>{node.path}/mounted\n"
        f"for point; do :; done; rmdir $point && ln -s {node.path}/stick $point",
    )
    program(node.tools / "umount", '[ ! -L "$1" ] || rm "$1"')
    if not versions:
        return
    folder.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    for version in versions:
        bundle = node.bundle(version, f"stick-{version}")
        if board:
            (bundle / "signed").write_text(f"cairn-{board}\n")
        node.file(bundle, f"stick/cairn-{version}.raucb")

"""The data partition on this machine: made and mounted as the product does it. Needs root.

All of it runs in namespaces of its own (enter_namespaces), so that the kernel takes down
mounts, loop devices and daemons, however the program ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.paths import ROOT
from lab.volatile_disk import VolatileDisk

#: overlay/usr/lib/repart.d/80-data.conf: the least that the product's data partition has
SIZE = 512 << 20
#: What systemd-repart gives to mkfs.ext4
MKFS = ["mkfs.ext4", "-q", "-L", "data", "-I", "256", "-m", "0"]
MKFS += ["-E", "nodiscard,lazy_itable_init=1", "-b", "4096", "-T", "default"]
#: overlay/etc/fstab
OPTIONS = "rw,noatime,nodev,nosuid,noexec"
_MARK = "CAIRN_POWERLOSS_NAMESPACE"


#: Room in memory for the images of some workers
SCRATCH = 4 << 30


class MountError(Exception):
    """The file system needs a hand; the text says what was tried and what it said."""


def enter_namespaces() -> None:
    """Runs this program again in mount and PID namespaces of its own, unless it is there.

    Ends it with one sentence where that is not allowed.
    """
    if os.environ.get(_MARK):
        return
    if os.geteuid():
        sys.exit("powerloss: mounting needs root; run it as root or with sudo")
    os.environ[_MARK] = "1"
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder with a short path, in memory where half of that has room for it."""
    with tempfile.TemporaryDirectory(prefix="powerloss-") as name:
        memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if memory < 2 * SCRATCH:
            yield Path(name)
            return
        run("mount", "-t", "tmpfs", "-o", f"mode=700,size={SCRATCH}", "tmpfs", name)
        try:
            yield Path(name)
        finally:
            run("umount", "-l", name)


def run(*command: str) -> str:
    """Output of a command; MountError if it fails."""
    result = subprocess.run(
        command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if result.returncode:
        raise MountError(f"{command[0]} ended with {result.returncode}: {result.stdout.strip()}")
    return result.stdout


def make_file_system(image: Path) -> None:
    """A new image with an empty data partition's file system, as on the first boot."""
    image.unlink(missing_ok=True)
    with image.open("wb") as stream:
        stream.truncate(SIZE)
    run(*MKFS, str(image))


def repair(image: Path) -> bool:
    """What systemd-fsck does at boot; True if something but the journal had to be mended.

    With what the kernel's command line asks for, ``fsck.repair=``, in systemd-fsck's words.
    MountError if it wants a hand: the boot would end in the emergency shell.
    """
    line = (ROOT / "board/common/cmdline").read_text().split()
    (how,) = (word.partition("=")[2] for word in line if word.startswith("fsck.repair="))
    result = subprocess.run(
        ["fsck.ext4", {"preen": "-a", "yes": "-y", "no": "-n"}[how], str(image)],
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if result.returncode > 1:
        raise MountError(f"fsck ended with {result.returncode}: {result.stdout.strip()}")
    return result.returncode == 1


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """The image's file system, mounted on the folder."""
    folder.mkdir(exist_ok=True)
    run("mount", "-o", f"loop,{OPTIONS}", str(image), str(folder))
    try:
        yield folder
    finally:
        run("umount", str(folder))


@contextmanager
def volatile(disk: VolatileDisk, work: Path) -> Iterator[Path]:
    """The file system on a volatile disk: nbdkit, nbdfuse, a loop device.

    Inside the context the disk may be cut; the file system then only gives errors. If it was
    not, the end of the context unmounts it in order.
    """
    fuse, folder = work / "fuse", work / "mnt"
    fuse.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    disk.start()
    with (work / "nbdfuse.log").open("wb") as log:
        client = subprocess.Popen(
            ["nbdfuse", "-C", "4", str(fuse / "disk"), "--unix", str(disk.socket)],
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + 20
        while not (fuse / "disk").exists():
            if client.poll() is not None or time.monotonic() > deadline:
                raise MountError(f"nbdfuse did not start; see {work}/nbdfuse.log")
            time.sleep(0.05)
        loop = run("losetup", "-f", "--show", "--direct-io=on", str(fuse / "disk")).strip()
        try:
            run("mount", "-o", OPTIONS, loop, str(folder))
        finally:
            # In use, it goes away with the mount; otherwise now.
            run("losetup", "-d", loop)
        try:
            yield folder
        finally:
            if disk.process:
                run("umount", str(folder))
            else:
                run("umount", "-l", str(folder))
    finally:
        client.kill()
        client.wait()
        subprocess.run(["fusermount3", "-uzq", str(fuse)], check=False)
        disk.stop()

"""A virtual machine: a disk image in a folder of its own, run by support/qemu.

It has QMP for its power, the serial console in serial.log, and a shell (guest_shell.py). What goes
wrong is an AssertionError, with a sentence for whoever reads the test's log.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from qemu.qmp import QMPClient, QMPError

from lab.guest_shell import GuestShell, GuestShellError
from lab.parsing import partition_offset
from lab.paths import ROOT, folder_for_sockets
from lab.serial_log import POWER_ON, since_power_on
from lab.under_test import Need, UnderTest
from lab.volatile_disk import VolatileDisk

#: Files beside an image that is booted without its boot loader.
SIDECARS = ("vmlinuz", "initrd", "cmdline")


def run_host(*command: str, text: str = "") -> str:
    """Output of a command of this machine; ``text`` is its input. Fails if it fails."""
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, input=text
    )
    if result.returncode:
        raise AssertionError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


class Machine(UnderTest):
    """One machine, off until power_on(). It lacks nothing that a test may need."""

    def __init__(self) -> None:
        """Nothing runs yet, and there is no disk: see new_disk()."""
        self.process: subprocess.Popen[bytes] | None = None
        self.directory = Path()
        self.options: list[str] = []
        """of support/qemu"""
        self.extra: list[str] = []
        """of QEMU itself: what else is plugged in"""
        self.volatile: VolatileDisk | None = None
        """what serves the disk, if it is to lose what was not flushed"""
        self.sockets = folder_for_sockets(self)
        self.guest_shell = GuestShell(self.sockets / "sh")

    @property
    def shell(self) -> GuestShell:
        """Over a port of the virtual machine's own: nothing listens for it."""
        return self.guest_shell

    @property
    def ways_in(self) -> frozenset[str]:
        """None."""
        return frozenset()

    @property
    def has_feeder(self) -> bool:
        """Whether it was given the ports of one."""
        return "--feeder" in self.options

    def lacks(self, need: Need) -> str:
        """Nothing."""
        return ""

    @property
    def image(self) -> Path:
        """The disk."""
        return self.directory / "disk.img"

    @property
    def serial(self) -> Path:
        """What the serial console has shown since the disk is there."""
        return self.directory / "serial.log"

    def new_disk(self, image: Path, directory: Path, size: str) -> None:
        """A fresh copy of an image, grown to that size (truncate's words), in a new folder."""
        self.directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        run_host("cp", "--sparse=always", str(image), str(self.image))
        run_host("truncate", "-s", size, str(self.image))
        for part in SIDECARS:
            if Path(f"{image}.{part}").exists():
                Path(f"{self.image}.{part}").symlink_to(f"{image}.{part}")

    # -- power -----------------------------------------------------------------------

    def power_on(self) -> None:
        """Starts it with the disk it has, and waits for nothing."""
        self.shell.close()
        for path in self.sockets.iterdir():
            path.unlink()
        with self.serial.open("a") as log:
            log.write(f"\n{POWER_ON}\n")
        command = [str(ROOT / "support/qemu"), "--image", str(self.image)]
        if self.volatile:
            self.volatile.start()
            command += ["--nbd", str(self.volatile.socket)]
        command += ["--qmp", str(self.sockets / "qmp"), "--shell", str(self.shell.path)]
        command += ["--serial", "chardev:serial0", *self.options, "--"]
        command += ["-chardev", f"file,id=serial0,path={self.serial},append=on", *self.extra]
        with (self.directory / "qemu.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self, seconds: float) -> None:
        """Waits at most so long until the shell answers."""
        assert self.process, "no machine runs"
        try:
            self.shell.wait(seconds)
        except GuestShellError as error:
            state = "QEMU ended" if self.process.poll() is not None else "QEMU runs"
            log = self.serial
            log = log.relative_to(ROOT) if log.is_relative_to(ROOT) else log
            raise AssertionError(
                f"the guest did not come up ({state}); see {log}: {error}"
            ) from error

    def shut_down(self, seconds: float) -> None:
        """Shuts the guest down cleanly and waits at most so long until the machine is off."""
        assert self.process, "no machine runs"
        self.shell.power_down()
        self._ends(seconds, "the guest did not shut down")

    def press_power_button(self, seconds: float) -> None:
        """Presses it once, and waits at most so long until the guest has switched itself off."""
        assert self.process, "no machine runs"
        self.qmp("system_powerdown")
        self._ends(seconds, "the guest did not switch itself off after its power button")

    def ends(self, seconds: float) -> None:
        """Waits at most so long until it ends by itself, which a reset makes it do."""
        self._ends(seconds, "the machine has not been reset")

    def _ends(self, seconds: float, otherwise: str) -> None:
        assert self.process, "no machine runs"
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(otherwise) from error
        self.kill()  # ended already; its disk has not

    def cut(self, policy: str) -> dict[str, Any]:
        """Ends it between two instructions; what became of unflushed writes, if volatile.

        On other disks all survives that the guest had handed over: the host keeps it.
        """
        assert self.process, "no machine runs"
        outcome = self.volatile.cut(policy) if self.volatile else {}
        with contextlib.suppress(OSError, QMPError, EOFError):
            self.qmp("quit")
        self.kill()
        return outcome

    def kill(self) -> None:
        """Ends it, if it runs."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()
        self.process = None
        if self.volatile:
            self.volatile.stop()

    # -- what is plugged in ----------------------------------------------------------

    def qmp(self, command: str, arguments: dict[str, Any] | None = None) -> None:
        """Has QEMU carry out a command."""

        async def send() -> None:
            client = QMPClient("cairn")
            await client.connect(str(self.sockets / "qmp"))
            try:
                await client.execute(command, arguments)
            finally:
                with contextlib.suppress(QMPError):
                    await client.disconnect()

        asyncio.run(send())

    def plug_cable(self, plugged: bool, seconds: float) -> None:
        """Plugs the network's cable in, or pulls it; waits at most so long for QEMU's start."""
        deadline = time.monotonic() + seconds
        while not (self.sockets / "qmp").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.qmp("set_link", {"name": "net0", "up": plugged})

    def break_disk(self, kind: str, errno: int, sectors: list[int]) -> None:
        """From now on requests of a kind (read, write, flush) fail; of these sectors, if any."""
        rule = {"event": "none", "iotype": kind, "errno": errno, "once": False}
        rules = [{**rule, "sector": sector} for sector in sectors] or [rule]
        node = {"driver": "blkdebug", "node-name": "disk0-bad", "image": "disk0-file"}
        self.qmp("blockdev-add", {**node, "inject-error": rules})
        raw = {"driver": "raw", "node-name": "disk0-raw", "discard": "unmap", "file": "disk0-bad"}
        self.qmp("blockdev-reopen", {"options": [raw]})

    # -- the disk of a machine that is off -------------------------------------------

    def partition(self, name: str) -> int:
        """Where the disk's partition of that name begins, in bytes; the machine must be off."""
        assert self.process is None, "the machine must be off"
        return partition_offset(run_host("sfdisk", "--json", str(self.image)), name)

    def erase_data_partition(self) -> None:
        """Zeroes it: the last one, as far as the copy of the partition table behind it."""
        offset = self.partition("data")
        length = self.image.stat().st_size - offset - (1 << 20)
        hole = ["--offset", str(offset), "--length", str(length)]
        run_host("fallocate", "--punch-hole", *hole, str(self.image))

    def put_node_conf(self, data: bytes) -> None:
        """Writes node.conf on the boot partition."""
        boot = f"{self.image}@@{self.partition('boot')}"
        file = self.directory / "node.conf"
        file.write_bytes(data)
        run_host("mcopy", "-o", "-i", boot, str(file), "::node.conf")

    def delete_node_conf(self) -> None:
        """Removes node.conf from the boot partition."""
        run_host("mdel", "-i", f"{self.image}@@{self.partition('boot')}", "::node.conf")

    # -- serial console --------------------------------------------------------------

    def serial_log(self) -> str:
        """What the serial console has shown since the last power-on, without escapes."""
        return since_power_on(self.serial.read_text(errors="replace"))

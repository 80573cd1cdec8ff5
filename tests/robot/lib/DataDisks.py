"""Robot Framework library: disks beside the one that the machine starts from.

A disk is an image file in out/robot/disks with a serial number. It outlives the machines: what is
plugged in counts from the next start on. The first one plugged in is at the first port.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time

from robot.api.deco import keyword, library

from lab.disks import Disk
from lab.paths import ROOT
from lab.under_test import Need
from tests.robot.lib.CairnVM import CairnVM
from tests.robot.lib.session import session

FOLDER = ROOT / "out/robot/disks"
#: Stands for a wallet.
MARK = "/var/lib/bitcoind/wallets/mark"
#: Which disk the data are on: the mounted partition, and what udev knows of its disk.
WHERE = """
set -eu
dev=$(readlink -f /dev/cairn/data)
grep -q "^$dev /var " /proc/mounts
udevadm info --query=property --name="$dev"
"""


def serial_of(properties: str) -> str:
    """The serial number in what udev says of a partition; "" if its disk has none."""
    found: dict[str, str] = dict(re.findall(r"(?m)^(ID_SERIAL(?:_SHORT)?)=(.*)$", properties))
    return found.get("ID_SERIAL_SHORT", found.get("ID_SERIAL", ""))


@library(scope="GLOBAL", auto_keywords=False)
class DataDisks:
    """Disks that are plugged in, moved to other ports, copied, and compared."""

    def __init__(self) -> None:
        """No disk yet."""
        self.disks: dict[str, Disk] = {}
        self.late_bus = ""
        self.digests: dict[str, str] = {}
        self.plugged: list[str] = []

    def _plug(self) -> None:
        session.need(Need.DISK)
        options: list[str] = []
        for number, name in enumerate(self.plugged):
            options += self.disks[name].options(number)
        session.virtual.extra = options

    @keyword
    def new_data_disk(
        self,
        name: str,
        serial: str,
        content: str = "blank",
        bus: str = "virtio",
        mebibytes: int = 1024,
    ) -> None:
        """Makes a disk and plugs it in behind the others; one of that name is replaced.

        ``serial``: its serial number. ``content``: blank (default), ones, ext4, gpt, empty gpt,
        NTFS, LUKS, LVM or noise (lab/disks.py). ``bus``: virtio (default), nvme, usb or scsi.
        ``mebibytes``: its size, default 1024. Its bytes are remembered for
        `Disk Should Be Unchanged`.

        Fails if a tool of this machine is missing that the content is made with.

        Example:
        | New Data Disk    ssd    S1    bus=nvme
        | New Data Disk    photos    S2    NTFS
        """
        disk = Disk(FOLDER / f"{name}.img", serial, bus)
        disk.make(mebibytes << 20, content)
        self.disks[name] = disk
        self.digests[name] = disk.digest()
        self.plug_in(name)

    @keyword
    def plug_in(self, name: str, bus: str | None = None) -> None:
        """Plugs a disk in behind the others, from the next start on.

        ``bus``: another one than before, default the same. Fails if there is no such disk.

        Example:
        | New Data Disk    ssd    S1
        | Unplug    ssd
        | Plug In    ssd    usb
        """
        if bus:
            self.disks[name].bus = bus
        self.plugged = [other for other in self.plugged if other != name] + [name]
        self._plug()

    @keyword
    def unplug(self, *names: str) -> None:
        """Unplugs these disks, or all if none is named, from the next start on.

        Example:
        | Unplug    ssd
        | Unplug
        """
        gone = names or tuple(self.plugged)
        self.plugged = [name for name in self.plugged if name not in gone]
        self._plug()

    @keyword
    def copy_data_disk(self, name: str, copy: str, serial: str) -> None:
        """Makes a copy of a disk with another serial number and plugs it in behind the others.

        Fails if there is no disk ``name``.

        Example:
        | New Data Disk    ssd    S1
        | Copy Data Disk    ssd    clone    S2
        """
        disk = Disk(FOLDER / f"{copy}.img", serial, self.disks[name].bus)
        shutil.copyfile(self.disks[name].image, disk.image)
        self.disks[copy] = disk
        self.digests[copy] = disk.digest()
        self.plug_in(copy)

    @keyword
    def remember_disk(self, name: str) -> None:
        """Remembers a disk's bytes as they are now; the machine must be off.

        Fails if there is no such disk.

        Example:
        | New Data Disk    ssd    S1
        | Remember Disk    ssd
        """
        assert session.virtual.process is None, "the machine must be off"
        self.digests[name] = self.disks[name].digest()

    @keyword
    def disk_should_be_unchanged(self, name: str) -> None:
        """A disk has the same bytes as when it was made or remembered.

        The machine may run: what it has written is in the file. Fails if a byte differs.

        Example:
        | New Data Disk    photos    S2    ext4
        | Disk Should Be Unchanged    photos
        """
        if self.disks[name].digest() != self.digests[name]:
            raise AssertionError(f"the disk {name} has been written to")

    @keyword
    def data_should_be_on(self, serial: str, timeout: float = 240) -> None:
        """/var is mounted from a disk with this serial number; "system" is the one without any.

        Waits for it at most ``timeout`` seconds, default 240. Fails if it is another one.

        Example:
        | Data Should Be On    S1
        | Data Should Be On    system
        """
        CairnVM().wait_until_it_answers()
        found = serial_of(session.until(WHERE, timeout)) or "system"
        if found != serial and (serial, found) != ("system", "SYSTEM"):
            raise AssertionError(f"the data are on {found}, not on {serial}")

    @keyword
    def leave_a_mark(self, text: str) -> None:
        """Writes a file of user bitcoin among the wallets, and syncs it.

        Fails if the data are not mounted.

        Example:
        | Leave A Mark    first
        """
        session.run(f"mkdir -p {MARK} && echo {shlex.quote(text)} >{MARK}/text")
        session.run(f"chown -R bitcoin {MARK} && chmod 700 {MARK} && sync")

    @keyword
    def mark_should_be(self, text: str) -> None:
        """The file of `Leave A Mark` has this text, and still belongs to user bitcoin.

        Fails if not, or if there is none.

        Example:
        | Leave A Mark    first
        | Mark Should Be    first
        """
        found = session.run(f"cat {MARK}/text && stat -c %U:%a {MARK}").split("\n")
        if found != [text, "bitcoin:700"]:
            raise AssertionError(f"the mark is {found}")

    @keyword
    def node_should_wait(self, words: str, timeout: float = 300) -> None:
        """The console shows these words, and the data are not mounted: the node waits.

        ``timeout``: for the words, default 300 s. Fails if /var is mounted all the same.

        Example:
        | Node Should Wait    is missing
        """
        CairnVM().wait_for_serial(words, timeout)
        CairnVM().wait_until_it_answers()
        session.run("! grep -q ' /var ' /proc/mounts && ! test -e /dev/cairn/data")

    @keyword
    def plug_in_while_it_runs(self, name: str) -> None:
        """Plugs a disk into the running machine, in the port of `Have A Free Port`.

        Fails if there is no such disk or port, or QEMU does not take it.

        Example:
        | New Data Disk    ssd    S1
        | Have A Free Port    usb
        | Start VM    datadisk    datadisk=S1    wait=${False}
        | Plug In While It Runs    ssd
        """
        disk = self.disks[name]
        node = {"driver": "raw", "node-name": f"late-{name}"}
        file = {"driver": "file", "filename": str(disk.image)}
        session.virtual.qmp("blockdev-add", {**node, "discard": "unmap", "file": file})
        driver = "usb-storage" if self.late_bus == "usb" else "scsi-hd"
        device = {"driver": driver, "bus": "late.0"}
        session.virtual.qmp(
            "device_add", {**device, "drive": f"late-{name}", "serial": disk.serial}
        )

    @keyword
    def have_a_free_port(self, bus: str = "scsi") -> None:
        """The next start has a free port for `Plug In While It Runs`, of a scsi or usb bus.

        Example:
        | Have A Free Port    usb
        """
        self._plug()
        self.late_bus = bus
        controller = "qemu-xhci,id=late" if bus == "usb" else "virtio-scsi-pci,id=late"
        session.virtual.extra += ["-device", controller]

    @keyword
    def cut_power_when_shown(self, words: str, later: float = 0, timeout: float = 300) -> None:
        """Cuts the power some seconds after the console has shown these words.

        ``later``: seconds, default 0; ``timeout``: for the words, default 300 s. Fails if they are
        not shown.

        Example:
        | Cut Power When Shown    Making the data partition    later=1.5
        """
        session.need(Need.POWER)
        CairnVM().wait_for_serial(words, timeout)
        time.sleep(later)
        session.virtual.cut("keep-all")

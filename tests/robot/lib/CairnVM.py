"""Robot Framework library: starts the machine under test and reaches into it.

The machine is a virtual one (lab/machine.py), the image copied (sparsely) to out/robot/vm/NAME, of
which one runs at a time; or it is a board (lab/board.py). A test that needs what the machine has
not is skipped, with the reason. Times are in seconds; time-outs are for emulation (TCG) and are
multiplied by TIMEOUT_FACTOR (Robot variable, default 1).
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from robot.api import logger
from robot.api.deco import keyword, library

from lab import boards
from lab.board import Board
from lab.guest_shell import GuestShellError, Result, kernel_options
from lab.paths import ROOT
from lab.under_test import Need
from lab.volatile_disk import VolatileDisk
from tests.robot.lib.session import needs_of, said, session


@library(scope="GLOBAL", auto_keywords=False)
class CairnVM:
    """Power, cable, disk, console and shell of one node."""

    @keyword
    def test_needs(self, *needs: str) -> None:
        """Skips the test, with the reason, if the machine has not what it needs.

        ``needs``: words of lab/under_test.py that no other keyword of the test stands for: a
        network of its own, data of its own, the image's settings, a crash. A virtual machine has
        all of them.

        Fails if there is no such word.

        Example:
        | Test Needs    the image's settings    a crash
        """
        session.need(*(Need(need) for need in needs))

    # -- power -----------------------------------------------------------------------

    @keyword("Start VM")
    def start_vm(
        self,
        name: str,
        node_conf: str | None = None,
        memory: int = 1024,
        smp: int = 2,
        disk_size: str = "8G",
        feeder: int | str | None = None,
        volatile: bool = False,
        seed: int = 0,
        lies: bool = False,
        screen: bool = False,
        measured: bool = False,
        bus: str = "virtio",
        watchdog: str = "",
        web: int | str | None = None,
        wait: bool = True,
    ) -> None:
        """Starts a fresh copy of the image; one that still runs is ended first.

        A board is restarted as it is. With ``node_conf`` or ``feeder`` its owner's data must have
        been given up; with one of the options ``memory`` to ``lies`` the suite is skipped.

        ``name``: of its folder in out/robot/vm. ``node_conf``: text of node.conf, default the
        image's own file. ``memory``: MiB, default 1024. ``smp``: processors, default 2.
        ``disk_size``: what the disk grows to, with a unit as in truncate(1), default 8G.
        ``feeder``: port of a feeder, or the ports of its peers in one word; default none.
        ``volatile``: the disk has a volatile write cache (lab/nbd_disk.py) with this ``seed``;
        ``lies``: it ignores flushes. ``screen``: the status screen is also drawn on tty1.
        ``bus``: where that disk is plugged in: virtio (default), nvme or usb. ``measured``: where
        cairn-probe measures it, on USB, or SCSI for the development image, whose kernel knows no
        USB. ``watchdog``: QEMU's name of a watchdog device; default none.
        ``web``: port of this machine by which the guest's page is reached; default none.
        ``wait``: until its shell answers, see `Wait Until It Answers`; default yes.

        Fails if there is no image (Robot variable IMAGE), or if the guest does not come up.

        Example:
        | Start VM    tune2    dbcache=123\\n    memory=2048
        """
        self.kill_vm()
        if isinstance(session.machine, Board):
            if volatile or lies:
                session.need(Need.DISK)
            if bus != "virtio" or watchdog or web or (memory, smp, disk_size) != (1024, 2, "8G"):
                session.need(Need.HARDWARE)
            if feeder is not None:
                session.need(Need.FEEDER)
            if node_conf:
                session.need(*needs_of(node_conf))
            ports = [int(port) for port in str(feeder or "").split()]
            session.machine.begin(node_conf or None, ports, session.seconds(180))
            self.power_on(wait)
            return
        image = Path(session.variable("IMAGE", str(ROOT / "out/devimage/cairn-dev.img"))).resolve()
        if not image.is_file():
            raise AssertionError(f"the image {image} does not exist; run 'make devimage'")
        machine = session.virtual
        machine.new_disk(image, ROOT / "out/robot/vm" / name, disk_size)
        options = ["--memory", str(memory), "--smp", str(smp)]
        board = boards.of_image(image)
        if board:  # the copy's name does not say it
            options += ["--board", board.name]
        if measured:
            bus = "usb" if board else "scsi"
        options += ["--append", kernel_options(screen), "--bus", bus]
        if watchdog:
            options += ["--watchdog", watchdog]
        if feeder is not None:
            options += ["--feeder", str(feeder)]
        if web is not None:
            options += ["--web", str(web)]
        machine.options = options
        disk = VolatileDisk(machine.image, machine.sockets, seed, lies=lies)
        machine.volatile = disk if volatile else None
        if node_conf is not None:
            self.put_node_conf(node_conf)
        self.power_on(wait)

    @keyword
    def kind_of_boot(self) -> str:
        """What the boot of `Start VM` is called in a figure's name.

        Returns ``first boot``, which makes the data partition; on a board that is not given up,
        ``boot of a used disk``.

        Example:
        | ${boot}=    Kind Of Boot
        """
        return "boot of a used disk" if session.machine.lacks(Need.DISK) else "first boot"

    @keyword
    def power_on(self, wait: bool = True) -> None:
        """Starts the present machine again with the disk it has.

        ``wait``: until its shell answers, default yes. Fails if the guest does not come up.

        Example:
        | Power On    wait=False
        """
        session.machine.power_on()
        if wait:
            self.wait_until_it_answers()

    @keyword
    def wait_until_it_answers(self) -> None:
        """Waits for the shell of a machine that has been switched on, at most 180 s.

        On one with a feeder the timer that looks for the end of the initial sync is stopped: the
        tests' blocks, all of them old, are at their end from the first on, and ten minutes after
        boot the daemon would be restarted in the middle of some test.

        Fails with the place of the console's log if the guest does not come up.

        Example:
        | Power On    wait=False
        | Pull Cable
        | Wait Until It Answers
        """
        session.machine.wait(session.seconds(180))
        if session.machine.has_feeder:
            session.run("systemctl stop cairn-sync-done.timer")

    @keyword
    def press_power_button(self) -> None:
        """Presses the power button once and waits until the machine has switched itself off.

        QEMU only hands the press on; a guest that does not listen runs on. Fails if the machine is
        not off after 180 s.

        Example:
        | Press Power Button
        | Power On
        """
        session.need(Need.HARDWARE)
        session.virtual.press_power_button(session.seconds(180))

    @keyword
    def machine_should_reset_itself(self, seconds: float) -> None:
        """The machine is reset by its own hardware within ``seconds``; it is off then.

        Fails if it runs on.

        Example:
        | Machine Should Reset Itself    60
        """
        session.need(Need.HARDWARE)
        session.virtual.ends(session.seconds(seconds))

    @keyword
    def shut_down(self) -> None:
        """Shuts the guest down cleanly and waits until the machine is off.

        A board goes on until it is switched on again, which restarts it then. Fails if the machine
        is not off after 180 s.

        Example:
        | Shut Down
        """
        session.machine.shut_down(session.seconds(180))

    @keyword
    def reboot(self, wait: bool = True) -> None:
        """Shuts down cleanly and starts the same disk again.

        ``wait``: until its shell answers, default yes. Fails as `Shut Down` and `Power On` do.

        Example:
        | Reboot
        """
        self.shut_down()
        self.power_on(wait)

    @keyword
    def cut_power(self, policy: str = "drop-some") -> dict[str, Any]:
        """Ends the machine between two instructions, as a pulled plug does.

        On a volatile disk ``policy`` (default drop-some) says what happens to unflushed writes:
        drop-all, drop-some, reorder or torn, see lab/volatile_cache.py; returns what did. On others
        all survives that the guest had handed to the disk, because the host's page cache keeps it.

        Fails if no machine runs. Skips the test on a board without a command for its power.

        Example:
        | Cut Power    torn
        """
        session.need(Need.POWER)
        outcome = session.machine.cut(policy)
        logger.info(f"cut: {outcome}")
        return outcome

    @keyword
    def cut_power_during(
        self, script: str, seconds: float, policy: str, repeat: bool = False
    ) -> list[str]:
        """Cuts the power some seconds after a script was started in the guest.

        It is cut in the middle if it still runs; with ``repeat`` (default no) it is run again and
        again until then. ``seconds`` are multiplied as time-outs are; ``policy``: see `Cut Power`.
        Returns what it printed, for each run that ended successfully before and printed something.

        Fails if no machine runs; not if the script does.

        Example:
        | ${said}=    Cut Power During    systemctl restart bitcoind    4.5    torn
        """
        session.need(Need.POWER)
        finished: list[str] = []
        deadline = time.monotonic() + session.seconds(seconds)
        while (rest := deadline - time.monotonic()) > 0:
            with contextlib.suppress(GuestShellError):
                result = session.machine.shell.run(script, rest)
                if result.status == 0 and (output := result.stdout.strip()):
                    finished.append(output)
            if not repeat:
                break
        time.sleep(max(0.0, deadline - time.monotonic()))
        self.cut_power(policy)
        return finished

    @keyword("Kill VM")
    def kill_vm(self) -> None:
        """Ends the machine, if one runs. For teardowns.

        A board gets back its owner's data, if they were set aside, and runs on.

        Example:
        | Kill VM
        """
        session.machine.kill()

    # -- network ---------------------------------------------------------------------

    @keyword
    def plug_cable(self, plugged: bool = True) -> None:
        """Plugs the network's cable in, or pulls it; also of a machine that begins to boot.

        Fails if QEMU does not take the command after 20 s.

        Example:
        | Plug Cable
        """
        session.need(Need.NETWORK)
        session.virtual.plug_cable(plugged, session.seconds(20))

    @keyword
    def pull_cable(self) -> None:
        """Pulls the network's cable. Fails as `Plug Cable` does.

        Example:
        | Pull Cable
        """
        self.plug_cable(False)

    # -- disk ------------------------------------------------------------------------

    @keyword
    def break_disk(self, kind: str, errno: int = 5, sectors: list[int] | None = None) -> None:
        """From now on the disk fails: QEMU's blkdebug is put below the running machine.

        ``kind``: of the requests that fail: read, write or flush. ``errno``: what the host says,
        default 5 (EIO); 28 is ENOSPC. ``sectors`` (of 512 bytes, counted from the disk's beginning)
        limits it to requests that touch one of them, default no limit.
        The next start has the healthy disk again.

        Fails if QEMU refuses it.

        Example:
        | Break Disk    write    28
        """
        session.need(Need.DISK)
        session.virtual.break_disk(kind, errno, sectors or [])

    @keyword
    def let_disk_lie(self, lies: bool = True) -> None:
        """From now on the volatile disk acknowledges flushes and ignores them, or not.

        Fails if the machine has no volatile disk.

        Example:
        | Let Disk Lie
        """
        session.need(Need.DISK)
        assert session.virtual.volatile, "the machine has no volatile disk"
        session.virtual.volatile.ask(f"lies {'yes' if lies else 'no'}")

    @keyword
    def erase_data_partition(self) -> None:
        """Zeroes the data partition; the machine must be off.

        All of it: of a file system whose beginning is lost, fsck finds the rest by itself.
        Fails if the machine runs.

        Example:
        | Cut Power
        | Erase Data Partition
        """
        session.need(Need.DISK)
        session.virtual.erase_data_partition()

    @keyword
    def put_node_conf(self, text: str) -> None:
        """Writes node.conf on the boot partition; the machine must be off.

        A text in the form ``hex:0001ff`` is written as these bytes. Fails if the machine runs.

        Example:
        | Put Node Conf    prune=2000\\nmaxconnections=11\\n
        """
        session.need(*needs_of(text))
        hexadecimal = text.startswith("hex:")
        session.machine.put_node_conf(bytes.fromhex(text[4:]) if hexadecimal else text.encode())

    @keyword
    def delete_node_conf(self) -> None:
        """Removes node.conf from the boot partition; the machine must be off.

        Fails if the machine runs, or if there is no such file.

        Example:
        | Delete Node Conf
        """
        session.need(Need.DISK)
        session.virtual.delete_node_conf()

    # -- shell -----------------------------------------------------------------------

    @keyword
    def guest(self, script: str, timeout: float = 120) -> str:
        """Runs a command in the guest; returns its output without the last line's end.

        ``timeout``: seconds, default 120. Fails if the command does, or does not end in time.

        Example:
        | ${text}=    Guest    node-tune --explain
        """
        return session.run(script, timeout)

    @keyword
    def guest_result(self, script: str, timeout: float = 120) -> Result:
        """Runs a command in the guest that may fail; returns its status, stdout and stderr.

        ``timeout``: seconds, default 120. Fails only if it does not end in time.

        Example:
        | Guest Result    systemctl start bitcoind
        """
        return session.result(script, timeout)

    @keyword
    def guest_should_refuse(self, script: str, words: str, timeout: float = 120) -> None:
        """Runs a command in the guest that must fail and say these words on stderr.

        ``timeout``: seconds, default 120. Fails if the command succeeds, says something else, or
        does not end in time.

        Example:
        | Guest Should Refuse    touch /usr/x    Read-only
        """
        result = session.result(script, timeout)
        if not result.status:
            raise AssertionError(f"'{script}' succeeded; it should have failed with '{words}'")
        if words not in result.stderr:
            raise AssertionError(f"'{script}' did not say '{words}', but: {said(result)}")

    @keyword
    def guest_should_succeed_within(self, seconds: float, script: str) -> str:
        """Repeats a command until it succeeds; returns its output.

        ``seconds``: after which no further try is made. The guest is left alone between two tries
        for twice as long as the answer took, at least a second. Fails with the last error.

        Example:
        | Guest Should Succeed Within    30    test -e /run/cairn/status
        """
        return session.until(script, seconds)

    # -- serial console --------------------------------------------------------------

    @keyword
    def serial_log(self) -> str:
        """What the serial console has shown since the last power-on, without escapes.

        Example:
        | ${console}=    Serial Log
        """
        session.need(Need.CONSOLE)
        return session.machine.serial_log()

    @keyword
    def wait_for_serial(self, words: str, timeout: float = 60) -> None:
        """Waits until the serial console has shown these words.

        ``timeout``: seconds, default 60. Fails if they are not shown by then.

        Example:
        | Wait For Serial    === Cairn node attic ===    timeout=240
        """
        deadline = time.monotonic() + session.seconds(timeout)
        while words not in self.serial_log():
            if time.monotonic() > deadline:
                raise AssertionError(f"the serial console did not show '{words}'")
            time.sleep(0.5)

"""A board on somebody's desk, or any machine that runs an image of Cairn, as a machine under test.

The shell is SSH with a key that node.conf names. The power is a command of the owner's, the console
a serial port. Nothing of the tests is on the board, and what they may do there the owner says: see
docs/develop/board-lane.md.

A restart that a suite asks for is a reboot by SSH. A board that a suite has shut down goes on until
it is to start again: only then node.conf can be written, and only so a board without a power switch
comes back.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lab import set_aside
from lab.guest_shell import GuestShellError
from lab.paths import OUT
from lab.serial_log import SerialLog
from lab.ssh_shell import Host, SshShell
from lab.under_test import FEEDER, FEEDER_PORT, Need, UnderTest

#: Seconds without power: what is stored in capacitors keeps a board alive for a moment.
OFF_SECONDS = 5
#: bitcoind may take 15 minutes to write its cache, and longer while it makes progress.
STOP_SECONDS = 1800
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
#: How a machine is told apart from others: the Raspberry Pi's serial number, a PC's.
SERIAL_NUMBER = """\
for f in /proc/device-tree/serial-number /sys/class/dmi/id/product_serial; do
	[ ! -r $f ] || s=$(tr -d '\\0\\n' <$f)
	[ -z "${s:-}" ] || break
done
printf %s "${s:-}"
"""


@dataclass(frozen=True)
class Words:
    """What the owner says about a board, in the environment: BOARD_HOST and so on."""

    host: str = ""
    key: str = ""
    power: str = ""
    serial: str = ""
    feeder: str = ""
    may_wipe: str = ""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Words:
        """The variables; what is not set, or blank, is empty."""
        return cls(
            *(environment.get(f"BOARD_{word.name.upper()}", "").strip() for word in fields(cls))
        )


class Forwarder:
    """Hands what comes to an address of this machine on to the feeder, which is on loopback.

    Only connections from one address are taken.
    """

    def __init__(self, address: str, ports: list[tuple[int, int]], client: str) -> None:
        """``ports``: of ``address``, and of the loopback; ``client``: who may connect.

        An address that this machine does not have is left alone: somebody else hands on what comes
        there. Raises AssertionError if a port is taken.
        """
        self.processes: list[subprocess.Popen[bytes]] = []
        six = ":" in address
        family, width = (socket.AF_INET6, 128) if six else (socket.AF_INET, 32)
        for outer, inner in ports:
            with socket.socket(family) as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    attempt.bind((address, outer))
                except OSError as error:
                    if error.errno == 99:  # EADDRNOTAVAIL
                        return
                    self.stop()
                    raise AssertionError(
                        f"the feeder cannot be offered on {Host(address, outer)}: {error.strerror};"
                        " give another port with BOARD_FEEDER=ADDRESS:PORT"
                    ) from error
            bound, range_of = (f"[{address}]", f"[{client}]") if six else (address, client)
            listen = f"TCP{6 if six else 4}-LISTEN:{outer},bind={bound},range={range_of}/{width}"
            self.processes.append(
                subprocess.Popen(
                    ["socat", f"{listen},fork,reuseaddr", f"TCP4:127.0.0.1:{inner}"],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

    def stop(self) -> None:
        """Takes nothing any more."""
        for process in self.processes:
            process.terminate()
            process.wait()
        self.processes = []


class Board(UnderTest):
    """One board. It is never known to be new: what is on it is its owner's."""

    def __init__(self, words: Words, directory: Path = OUT / "robot/board") -> None:
        """``directory``: for the console's log. Raises ValueError for a host that is none."""
        self.words = words
        self.directory = directory
        key = Path(words.key).expanduser() if words.key else None
        if key and not key.is_file():
            raise ValueError(f"BOARD_KEY: there is no file {key}")
        self.ssh = SshShell(Host.parse(words.host), key)
        self.serial = SerialLog(words.serial, directory / "serial.log") if words.serial else None
        self.off = False
        """the power was cut"""
        self.taken = False
        """the owner's data are set aside"""
        self.boot, self.last_boot = "", ""
        """the id of the boot in which it was seen, and of the one that is to end"""
        self.number: str | None = None
        """the machine's, once it was asked for it"""
        self.forwarder: Forwarder | None = None
        self.ports: list[int] = []
        """of the feeder's peers on this machine's loopback"""

    # -- what it is ------------------------------------------------------------------

    @property
    def shell(self) -> SshShell:
        """root's, by key."""
        return self.ssh

    @property
    def ways_in(self) -> frozenset[str]:
        """The SSH server, which runs because node.conf names a key."""
        return frozenset({"tcp any 22"})

    @property
    def has_feeder(self) -> bool:
        """Whether the suite was given one."""
        return bool(self.ports)

    def lacks(self, need: Need) -> str:
        """Why it cannot give what a test needs; empty if it can. Asks the board where it must."""
        match need:
            case Need.DISK:
                return "a board's disk cannot be exchanged, or written while it is off"
            case Need.HARDWARE:
                return "a board has the memory and the processor that it has"
            case Need.NETWORK:
                return "a board is in its owner's network"
            case Need.CONSOLE:
                return "" if self.serial else "BOARD_SERIAL= names no serial port"
            case Need.POWER:
                return "" if self.words.power else "BOARD_POWER= names no command for the power"
            case Need.FEEDER if not self.words.feeder:
                return "BOARD_FEEDER= names no address at which the board reaches this machine"
            case Need.FEEDER | Need.DATA:
                return self._refuses_data()
            case Need.SETTINGS:
                return "" if self.taken else self._own_settings()
            case Need.CRASH:
                if not self.words.power and self._refuses_data():
                    return "neither BOARD_POWER= nor BOARD_MAY_WIPE= allows what a crash may cost"
        return ""

    def _refuses_data(self) -> str:
        """Why the node's data cannot be set aside; empty if they can."""
        if self.taken:
            return ""
        if self.number is None:
            self.number = self.run(SERIAL_NUMBER)
        printable = re.fullmatch(r"[!-&(-~][ -&(-~]*", self.number)
        word = self.number if printable else "yes"
        if not self.words.may_wipe:
            return f"the node's data are its owner's; BOARD_MAY_WIPE='{word}' gives them up"
        if self.words.may_wipe != word:
            return (
                f"BOARD_MAY_WIPE={self.words.may_wipe} is not for this machine, whose word is"
                f" '{word}'"
            )
        return ""

    def _own_settings(self) -> str:
        names = set_aside.settings_of(self.run("cat /boot/node.conf 2>/dev/null || true"))
        return f"node.conf has settings of its own: {', '.join(sorted(names))}" if names else ""

    def run(self, script: str, timeout: float = 120) -> str:
        """Output of a script on the board. Raises AssertionError if it fails."""
        try:
            result = self.ssh.run(script, timeout)
        except GuestShellError as error:
            raise AssertionError(str(error)) from error
        if result.status:
            raise AssertionError(f"the board says: {(result.stderr or result.stdout).strip()}")
        return result.stdout.rstrip("\n")

    # -- a suite begins and ends -----------------------------------------------------

    def begin(self, node_conf: str | None, ports: list[int], seconds: float) -> None:
        """A suite begins: it is reached, and if its owner gave it up, its data are set aside.

        ``node_conf``: what the suite wants to have there, which needs Need.DATA. ``ports``: of the
        feeder's peers. Its start comes after this, with power_on().
        """
        if self.serial:
            try:
                self.serial.start()
            except Exception as error:  # termios.error is no OSError
                raise AssertionError(f"BOARD_SERIAL={self.words.serial}: {error}") from error
        self.reach(seconds)
        if left := self.run(f"for d in {set_aside.ASIDE}*; do [ ! -e $d ] || echo $d; done"):
            raise AssertionError(
                f"data that an earlier run set aside are still there ({left.split()[0]});"
                f" put them back with 'make board-restore BOARD_HOST={self.words.host}'"
            )
        if self._refuses_data():
            assert node_conf is None, "node.conf is the owner's"
            return
        self.offer_feeder(ports)
        self.run(set_aside.TAKE, STOP_SECONDS)
        self.taken = True
        self.put_node_conf((node_conf or "").encode())

    def reach(self, seconds: float) -> None:
        """Waits until it answers, and switches it on first if it can be switched."""
        try:
            self.ssh.wait(15 if self.words.power else seconds)
        except GuestShellError as error:
            if not self.words.power:
                raise AssertionError(str(error)) from error
            self.switch("on")
            self.wait(seconds)
        self.boot = self.run(BOOT_ID)

    def offer_feeder(self, ports: list[int]) -> None:
        """Hands connections of the board on to these ports of the loopback."""
        self.ports = ports
        if not ports:
            return
        feeder = Host.parse(self.words.feeder, ports[0])
        # "ADDRESS PORT ADDRESS PORT" of the client and of the server
        board = self.run("echo $SSH_CONNECTION").split()[2]
        pairs = [(feeder.port + number, port) for number, port in enumerate(ports)]
        self.forwarder = Forwarder(feeder.name, pairs, board)

    def kill(self) -> None:
        """The suite has ended: the owner's data and node.conf are put back, and it runs."""
        try:
            if self.off:
                self.power_on()
            if self.taken:
                self.reach(900)
                self.run(set_aside.back(keep=False), STOP_SECONDS)
                self.taken = False
                self.power_on()
                self.wait(900)
        except AssertionError as error:
            if not self.taken:
                raise
            raise AssertionError(
                f"the node's own data are still set aside: {error}; put them back with"
                f" 'make board-restore BOARD_HOST={self.words.host}'"
            ) from error
        finally:
            if self.forwarder:
                self.forwarder.stop()
            self.forwarder, self.ports = None, []
            if self.serial:
                self.serial.stop()
            self.ssh.close()

    # -- power -----------------------------------------------------------------------

    def switch(self, state: str) -> None:
        """Has the owner's command switch the power on or off. Raises AssertionError."""
        command = f"{self.words.power} {state}"
        try:
            done = subprocess.run(
                ["sh", "-c", command],
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
            )
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"BOARD_POWER: '{command}' did not end in 120 s") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise AssertionError(f"BOARD_POWER: '{command}' failed ({done.returncode}): {said}")

    def power_on(self) -> None:
        """Starts it: by its power if that was cut, otherwise by a reboot.

        A reboot takes as long as bitcoind needs to stop.
        """
        if self.off:
            self._mark()
            self.switch("on")
            self.off = False
            return
        self.last_boot = self.run(BOOT_ID)
        self.run("systemctl --no-block reboot")
        self.ssh.wait_for_the_end(STOP_SECONDS)
        self._mark()

    def _mark(self) -> None:
        if self.serial:
            self.serial.mark()

    def wait(self, seconds: float) -> None:
        """Waits at most so long until the shell answers, in another boot than the last one."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.ssh.wait(max(0.0, deadline - time.monotonic()))
            except GuestShellError as error:
                raise AssertionError(
                    f"the board did not come up in {seconds:.0f} s: {error}"
                ) from error
            with contextlib.suppress(AssertionError):
                self.boot = self.run(BOOT_ID, 30)
                if self.boot != self.last_boot:
                    return
            self.ssh.close()
            if time.monotonic() > deadline:
                raise AssertionError(f"the board did not restart in {seconds:.0f} s")
            time.sleep(2)

    def shut_down(self, seconds: float) -> None:
        """Nothing yet: it is shut down when it is to start again, see above."""

    def cut(self, policy: str) -> dict[str, Any]:
        """Cuts the power, for some seconds at least. What its disk kept is not known."""
        assert self.words.power, "there is no command for the power"
        # A connection that is silent would be waited for.
        self.ssh.close()
        self.last_boot = self.boot
        self.switch("off")
        self.off = True
        time.sleep(OFF_SECONDS)
        return {}

    # -- node.conf, console ----------------------------------------------------------

    def put_node_conf(self, data: bytes) -> None:
        """Writes node.conf: the owner's lines about the machine, and these.

        Raises AssertionError if the power is cut, if the owner's file is not kept, or if a line
        would change how the machine is reached.
        """
        assert not self.off, "a board's node.conf cannot be written while it is off"
        wanted = data.decode()
        if changed := [line for line in wanted.splitlines() if set_aside.is_machines(line)]:
            raise AssertionError(f"the board might not be reached any more with: {changed}")
        if self.ports:
            wanted = self.with_feeder(wanted)
        own = self.run(f"cat {set_aside.ASIDE}/node.conf")
        text = set_aside.conf_for_tests(own, wanted)
        try:
            self.ssh.send(text.encode(), "/run/node.conf.tests", 60)
        except GuestShellError as error:
            raise AssertionError(str(error)) from error
        self.run(set_aside.write_conf("/run/node.conf.tests"))

    def with_feeder(self, text: str) -> str:
        """A text of node.conf with the feeder's place on this network, not on QEMU's."""
        feeder = Host.parse(self.words.feeder, self.ports[0])

        def place(match: re.Match[str]) -> str:
            return str(Host(feeder.name, feeder.port + int(match[1]) - FEEDER_PORT))

        return re.sub(rf"{re.escape(FEEDER)}:(\d+)", place, text)

    def serial_log(self) -> str:
        """What the console has shown since the last start."""
        assert self.serial, "there is no serial port"
        return self.serial.text()

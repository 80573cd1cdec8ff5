"""A machine under test: what the suites ask of it, whatever it is.

There are two: a virtual machine (machine.py), and a board on somebody's desk (board.py). The suites
do not know which one they have. They say what they need; a machine says what it lacks, and why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Protocol

from lab.guest_shell import Result

#: The feeder, as the suites write it into node.conf: its place on QEMU's network.
FEEDER = "10.0.2.100"
FEEDER_PORT = 8333


class Need(Enum):
    """What a test may need and not every machine can give; the values are the suites' words."""

    DISK = "a disk of its own"
    """another image, one that is new, broken, or changed while the machine is off"""
    HARDWARE = "hardware of its own"
    """as much memory, as many processors, and a disk as large as the test wants"""
    NETWORK = "a network of its own"
    """its addresses and name servers, and a cable to pull"""
    CONSOLE = "the console"
    """what the serial console has shown"""
    POWER = "the power switch"
    """the power can be cut"""
    FEEDER = "a feeder"
    """the node reaches block servers on this machine"""
    DATA = "data of its own"
    """a node.conf, databases and wallets that nobody will miss"""
    SETTINGS = "the image's settings"
    """node.conf has nothing that changes what bitcoind does"""
    CRASH = "a crash"
    """what the node has not flushed may be lost"""


class Shell(Protocol):
    """A shell of root's in the machine, one request at a time."""

    def run(self, script: str, timeout: float) -> Result:
        """Status and output of a shell script. Raises GuestShellError without an answer."""

    def wait(self, timeout: float) -> None:
        """Waits until it answers; raises GuestShellError after `timeout` seconds."""

    def close(self) -> None:
        """Ends the connection, if there is one."""

    def send(self, data: bytes, path: str, timeout: float) -> None:
        """Writes a file. Raises GuestShellError if that fails."""

    def fetch(self, path: str, timeout: float) -> bytes:
        """Reads a file. Raises GuestShellError if that fails."""


class UnderTest(ABC):
    """One machine. What goes wrong is an AssertionError, with a sentence for the test's log."""

    @property
    @abstractmethod
    def shell(self) -> Shell:
        """The way in."""

    @property
    @abstractmethod
    def ways_in(self) -> frozenset[str]:
        """What listens for `shell` only, as `tcp any 22`."""

    @property
    @abstractmethod
    def has_feeder(self) -> bool:
        """Whether its node.conf names a feeder now."""

    @abstractmethod
    def lacks(self, need: Need) -> str:
        """Why it cannot give what a test needs; empty if it can."""

    @abstractmethod
    def power_on(self) -> None:
        """Starts it, and does not wait until it is up."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Waits at most so long until the shell answers after a start."""

    @abstractmethod
    def shut_down(self, seconds: float) -> None:
        """Shuts it down cleanly, at most in this time; node.conf may be written then."""

    @abstractmethod
    def cut(self, policy: str) -> dict[str, Any]:
        """Cuts the power; what became of unflushed writes, if that is known."""

    @abstractmethod
    def kill(self) -> None:
        """The suite has ended: nothing of it runs on or is left behind."""

    @abstractmethod
    def put_node_conf(self, data: bytes) -> None:
        """Writes node.conf of a machine that was shut down."""

    @abstractmethod
    def serial_log(self) -> str:
        """What the serial console has shown since the last start, without escapes."""

"""The tests' shell in the guest, over a virtio port.

No image carries it. The unit (guest-shell.service) is handed to the guest's
systemd as a credential on the kernel command line, and its port exists only when
support/qemu is given --shell: only whoever runs the virtual machine can do either. The
host lane's Debian knows no such credentials; its development image has the unit as a file.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import shlex
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.paths import ROOT

UNIT = ROOT / "lab/guest-shell.service"
#: Bytes of a file in one request; the unit's shell reads a request byte by byte.
CHUNK = 30_000


class GuestShellError(Exception):
    """The shell did not answer."""


@dataclass
class Result:
    """What a command in the guest did."""

    status: int
    stdout: str
    stderr: str


def kernel_options(screen: bool = False) -> str:
    """Words for the kernel command line that start the shell in the guest.

    Without ``screen``, the status screen is not drawn on the display, which the machine has
    not: it took a tenth of an emulated processor. The serial console keeps its own.
    """
    lines = [line for line in UNIT.read_text().splitlines() if not line.startswith("#")]
    unit = base64.b64encode("\n".join([*lines, ""]).encode()).decode()
    credential = f"systemd.set_credential_binary=systemd.extra-unit.{UNIT.name}:{unit}"
    masked = "" if screen else " systemd.mask=node-status@tty1.service"
    return f"systemd.wants={UNIT.name} {credential}{masked}"


def parse(line: str) -> tuple[int, Result] | None:
    """One answer of the shell: its request's number and result; None if it is none."""
    words = line.split(" ")
    if len(words) != 5 or words[4] != ".":
        return None
    try:
        number, status = int(words[0]), int(words[1])
        out, err = (base64.b64decode(word, validate=True) for word in words[2:4])
    except ValueError:
        return None
    return number, Result(status, out.decode(errors="replace"), err.decode(errors="replace"))


def until_answered(ask: Callable[[], object], timeout: float, pause: float) -> None:
    """Asks again, with pauses in between, until it is no GuestShellError any more.

    ``timeout``, ``pause``: seconds. Raises the last error after the time-out.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            ask()
            return
        except GuestShellError:
            if time.monotonic() > deadline:
                raise
            time.sleep(pause)


class GuestShell:
    """Talks to one guest over its UNIX socket, one request at a time.

    The connection is kept: when it ends, the shell in the guest reads an end of file, is
    started anew by systemd half a second later, and what is sent in between is lost.
    """

    def __init__(self, path: Path) -> None:
        """Remembers the socket's path; nothing is connected yet."""
        self.path = path
        self.stream: socket.socket | None = None
        self.pending = b""
        # Not from 1 on: an answer to an earlier test run must not match.
        self.numbers = itertools.count(int(time.time()) % 1_000_000 * 1000)

    def close(self) -> None:
        """Ends the connection, if there is one."""
        if self.stream is not None:
            self.stream.close()
        self.stream, self.pending = None, b""

    def _line(self, deadline: float) -> str:
        """The next line from the guest."""
        assert self.stream is not None
        while b"\n" not in self.pending:
            self.stream.settimeout(max(0.001, deadline - time.monotonic()))
            data = self.stream.recv(65536)
            if not data:
                raise ConnectionResetError("the connection was closed")
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _request(self, script: str, timeout: float) -> Result:
        """Sends one script and returns its result; late answers to others are dropped."""
        number = next(self.numbers)
        deadline = time.monotonic() + timeout
        try:
            if self.stream is None:
                self.stream = socket.socket(socket.AF_UNIX)
                self.stream.connect(str(self.path))
            # The empty line ends what an earlier request may have left unfinished.
            code = base64.b64encode(script.encode()).decode()
            self.stream.settimeout(timeout)
            self.stream.sendall(f"\n{number} {code}\n".encode())
            while True:
                answer = parse(self._line(deadline))
                if answer and answer[0] == number:
                    return answer[1]
        except TimeoutError as error:
            raise GuestShellError(f"no answer after {timeout:.0f} s: {script}") from error
        except OSError as error:
            self.close()
            raise GuestShellError(f"no answer from the guest: {error}") from error

    def wait(self, timeout: float) -> None:
        """Waits until the shell answers; raises GuestShellError after `timeout` seconds."""
        # QEMU keeps it until the guest opens the port.
        until_answered(lambda: self._request("true", 6), timeout, 0.5)

    def run(self, script: str, timeout: float) -> Result:
        """Runs a shell script in the guest and returns its status and output."""
        return self._request(script, timeout)

    def send(self, data: bytes, path: str, timeout: float) -> None:
        """Writes a file of the guest; its name is there at once, its text piece by piece."""
        file, how = shlex.quote(path), ">"
        for at in range(0, max(1, len(data)), CHUNK):
            piece = base64.b64encode(data[at : at + CHUNK]).decode()
            result = self.run(f"echo {piece} | base64 -d {how}{file}", timeout)
            if result.status:
                raise GuestShellError(f"{path} cannot be written: {result.stderr.strip()}")
            how = ">>"

    def fetch(self, path: str, timeout: float) -> bytes:
        """Reads a file of the guest."""
        result = self.run(f"base64 {shlex.quote(path)}", timeout)
        if result.status:
            raise GuestShellError(f"{path} cannot be read: {result.stderr.strip()}")
        return base64.b64decode(result.stdout)

    def power_down(self) -> None:
        """Asks the guest to shut down; it may not answer any more."""
        with contextlib.suppress(GuestShellError):
            self._request("systemctl --no-block poweroff", 5)

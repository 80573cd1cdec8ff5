"""A serial console's log: how a file has it, and how it comes out of a serial port.

The port of a board is a device such as /dev/ttyUSB0, with the speed behind a comma if it is not
115200: /dev/ttyUSB0,57600. One that goes away (a USB adapter that is pulled) is opened again.
"""

from __future__ import annotations

import os
import re
import select
import termios
import threading
from pathlib import Path

POWER_ON = "=== power on ==="
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SPEED = "115200"


def since_power_on(text: str) -> str:
    """What a console has shown since the last start, without escapes."""
    return ESCAPES.sub("", text.rpartition(POWER_ON)[2])


def open_port(port: str) -> int:
    """A descriptor of a serial port, which hands over what comes as it is.

    Raises OSError or termios.error if there is no such port, ValueError for an unknown speed.
    """
    device, _, speed = port.partition(",")
    code = getattr(termios, f"B{speed or SPEED}", None)
    if code is None:
        raise ValueError(f"{speed} is no speed of a serial port; 115200 is the usual one")
    # Not blocked by a port whose other end is not ready, and not made this process' terminal
    descriptor = os.open(device, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        settings = termios.tcgetattr(descriptor)
        settings[0] = termios.IGNBRK
        settings[1] = 0
        settings[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
        settings[3] = 0
        settings[4] = settings[5] = code
        termios.tcsetattr(descriptor, termios.TCSANOW, settings)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(descriptor: int) -> bytes:
    """What has come through a port, after 0.2 s at most. Raises OSError if the port is gone."""
    if not select.select([descriptor], [], [], 0.2)[0]:
        return b""
    try:
        data = os.read(descriptor, 4096)
    except BlockingIOError:
        return b""
    if not data:
        raise OSError("the port was closed")
    return data


class SerialLog:
    """Writes to a file what comes from a serial port, from start() to stop()."""

    def __init__(self, port: str, path: Path) -> None:
        """``port``: device, and speed; ``path``: of the file, which is begun anew."""
        self.port, self.path = port, path
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins. Raises OSError or termios.error if there is no such port at this time."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"")
        descriptor = open_port(self.port)
        self._end.clear()
        self._thread = threading.Thread(target=self._copy, args=(descriptor,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends, if it was begun."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def mark(self) -> None:
        """The machine is started now. Without a log that was begun there is nothing to mark."""
        if self._thread is None:
            return
        with self.path.open("ab") as log:
            log.write(f"\n{POWER_ON}\n".encode())

    def text(self) -> str:
        """What came since the last mark, without escapes."""
        return since_power_on(self.path.read_text(errors="replace"))

    def _copy(self, descriptor: int) -> None:
        port: int | None = descriptor
        while not self._end.is_set():
            try:
                if port is None:
                    port = open_port(self.port)
                data = read(port)
            except (OSError, termios.error):
                if port is not None:
                    os.close(port)
                port = None
                self._end.wait(0.2)
                continue
            if data:
                with self.path.open("ab") as log:
                    log.write(data)
        if port is not None:
            os.close(port)

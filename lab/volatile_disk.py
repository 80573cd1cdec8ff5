"""A disk image behind lab/nbd_disk.py: starts it, cuts its power, stops it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from lab.paths import ROOT

PLUGIN = ROOT / "lab/nbd_disk.py"


class VolatileDisk:
    """One disk; off until start()."""

    def __init__(
        self,
        image: Path,
        sockets: Path,
        seed: int,
        *,
        lies: bool = False,
        trace: Path | None = None,
    ) -> None:
        """``sockets`` is a folder with a short path; ``seed`` rises by one with each start.

        ``trace``: file for all requests since the last start.
        """
        self.image = image
        self.socket = sockets / "nbd"
        self.control = sockets / "disk"
        self.seed = seed
        self.lies = lies
        self.trace = trace
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serves the image on its socket."""
        command = ["nbdkit", "-f", "-U", str(self.socket), "python", str(PLUGIN)]
        command += [f"image={self.image}", f"control={self.control}", f"seed={self.seed}"]
        command += ["lies=yes"] * self.lies
        command += [f"trace={self.trace}"] if self.trace else []
        self.seed += 1
        # Of the disk before: not to be taken for this one's.
        self.socket.unlink(missing_ok=True)
        self.control.unlink(missing_ok=True)
        log = self.image.with_name("disk.log")
        # nbdkit's Python is not that of .venv, which finds this package by itself.
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with log.open("ab") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        deadline = time.monotonic() + 20
        while not (self.socket.exists() and self.control.exists()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the disk did not start; see {log}")
            time.sleep(0.05)

    def ask(self, command: str) -> dict[str, Any]:
        """Sends a command to the plugin and returns its answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.control))
            stream = client.makefile("rw")
            stream.write(command + "\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.readline())
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer

    def cut(self, policy: str) -> dict[str, Any]:
        """The power fails; returns what became of what was not flushed."""
        outcome = self.ask(f"cut {policy}")
        assert self.process
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            # It has answered, so the medium is as it will stay. nbdkit waits for its clients and
            # for Python's threads, and on a busy host has been seen to wait for ever.
            self.process.kill()
            self.process.wait()
        self.process = None
        return outcome

    def stop(self) -> None:
        """Ends the server when the machine is off; what it was not asked to flush is kept."""
        if self.process and self.process.poll() is None:
            self.cut("keep-all")
        self.process = None

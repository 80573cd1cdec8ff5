"""A small client for the QEMU guest agent: the tests' shell in the guest.

The agent runs in the guest only while the virtio port `org.qemu.guest_agent.0` exists,
and only whoever runs the virtual machine can give it one: no ssh, no password.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class GuestAgentError(Exception):
    """The agent did not answer, or refused a command."""


@dataclass
class Result:
    """What a command in the guest did."""

    status: int
    stdout: str
    stderr: str


class GuestAgent:
    """Talks to one agent over its UNIX socket, one request at a time."""

    def __init__(self, path: Path) -> None:
        """Remembers the socket's path; nothing is connected yet."""
        self.path = path

    def _request(self, command: str, arguments: dict[str, Any], timeout: float) -> Any:  # noqa: ANN401 (JSON)
        """Sends one request on a fresh connection and returns the answer's value.

        guest-sync-delimited first: the agent may still hold half a request, or answers,
        of a connection that was given up.
        """
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(timeout)
            try:
                stream.connect(str(self.path))
                token = random.randrange(1 << 30)
                sync = {"execute": "guest-sync-delimited", "arguments": {"id": token}}
                stream.sendall(b"\xff" + json.dumps(sync).encode() + b"\n")
                reader = stream.makefile("rb")
                while True:
                    line = reader.readline()
                    if not line:
                        raise GuestAgentError("the connection was closed")
                    with contextlib.suppress(ValueError):
                        if json.loads(line.split(b"\xff")[-1]).get("return") == token:
                            break
                request = {"execute": command, "arguments": arguments}
                stream.sendall(json.dumps(request).encode() + b"\n")
                answer = json.loads(reader.readline())
            except (OSError, ValueError) as error:
                raise GuestAgentError(f"no answer from the guest agent: {error}") from error
        if "error" in answer:
            raise GuestAgentError(answer["error"].get("desc", "refused"))
        return answer.get("return")

    def wait(self, timeout: float) -> None:
        """Waits until the agent answers; raises GuestAgentError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._request("guest-ping", {}, 3)
                return
            except GuestAgentError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def run(self, script: str, timeout: float) -> Result:
        """Runs a shell script in the guest and returns its status and output."""
        arguments = {"path": "/bin/sh", "arg": ["-c", script], "capture-output": True}
        pid = self._request("guest-exec", arguments, 30)["pid"]
        deadline = time.monotonic() + timeout
        pause = 0.05
        while True:
            state = self._request("guest-exec-status", {"pid": pid}, 30)
            if state["exited"]:
                break
            if time.monotonic() > deadline:
                raise GuestAgentError(f"still running after {timeout:.0f} s: {script}")
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

        def text(name: str) -> str:
            return base64.b64decode(state.get(name, "")).decode(errors="replace")

        return Result(
            state.get("exitcode", 128 + state.get("signal", 0)), text("out-data"), text("err-data")
        )

    def power_down(self) -> None:
        """Asks the guest to shut down; it does not answer any more."""
        with contextlib.suppress(GuestAgentError):
            self._request("guest-shutdown", {"mode": "powerdown"}, 5)

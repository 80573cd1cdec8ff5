"""A shell of root's over SSH, by the system's own client.

Only a key opens it. The node's host key is taken the first time and kept in known_hosts, below
out/board; a node with another key is refused from then on. One connection is kept, and each request
is a session of it: a node accepts few new connections at a time (overlay/usr/share/cairn).
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lab.guest_shell import GuestShellError, Result, until_answered
from lab.paths import OUT, folder_for_sockets

KNOWN_HOSTS = OUT / "board/known_hosts"
#: The client's own status: it did not get through. A script that ends with it is given another.
NO_SESSION = 255
#: Where a node's programs are; sshd's own list need not have all of them.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Host:
    """A name or an address, and a port."""

    name: str
    port: int = 22

    @classmethod
    def parse(cls, text: str, port: int = 22) -> Host:
        """`node`, `node:2222`, `192.168.1.50`, `[fe80::1%eth0]:2222` or `fe80::1`.

        ``port``: if the text has none. Raises ValueError for anything else.
        """
        form = r"\[(?P<six>[^\]\s]+)\](:(?P<port>\d+))?|(?P<bare>[^:\s@]+)(:(?P<port2>\d+))?"
        if text.count(":") > 1 and not text.startswith("["):
            text = f"[{text}]"
        match = re.fullmatch(form, text)
        if not match or text.startswith("-"):
            raise ValueError(
                f"'{text}' is no host: write a name or an address, or either and :PORT"
            )
        port = int(match["port"] or match["port2"] or port)
        if not 0 < port < 65536:
            raise ValueError(f"{port} is no port: write a number from 1 to 65535")
        return cls(match["six"] or match["bare"], port)

    def __str__(self) -> str:
        """As `parse` reads it, always with the port."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{name}:{self.port}"


def remote_command(script: str) -> str:
    """The command line for sshd, which gives it to root's shell, whichever that is."""
    return (
        f"PATH={PATH}; export PATH; sh -c {shlex.quote(script)} </dev/null; s=$?;"
        f" [ $s -ne {NO_SESSION} ] || s=254; exit $s"
    )


class SshShell:
    """root's shell on one node."""

    def __init__(
        self, host: Host, key: Path | None = None, known_hosts: Path = KNOWN_HOSTS
    ) -> None:
        """``key``: file of the private key, default those of the user and of the user's agent."""
        self.host = host
        self.key = key
        self.known_hosts = known_hosts
        self.folder = folder_for_sockets(self)
        self.socket = self.folder / "ssh"
        self.log = self.folder / "ssh.log"
        self.master: subprocess.Popen[bytes] | None = None

    def command(self, *more: str) -> list[str]:
        """The client's command line; ``more``: options before the host."""
        command = ["ssh", "-F", "none", "-T", "-p", str(self.host.port), "-l", "root"]
        options = [
            "BatchMode=yes",
            "ConnectTimeout=20",
            "StrictHostKeyChecking=accept-new",
            # White space in a path ends the file's name, unless it is in quotes
            f'UserKnownHostsFile="{self.known_hosts}"',
            "GlobalKnownHostsFile=none",
            "PreferredAuthentications=publickey",
            # An emulated or busy node may be silent for a while; one without power is.
            "ServerAliveInterval=15",
            "ServerAliveCountMax=4",
            f"ControlPath={self.socket}",
        ]
        if self.key:
            command += ["-i", str(self.key)]
            options.append("IdentitiesOnly=yes")
        for option in options:
            command += ["-o", option]
        return [*command, *more, "--", self.host.name]

    def close(self) -> None:
        """Ends the connection, if there is one."""
        if self.master is not None:
            self.master.terminate()
            self.master.wait()
        self.master = None
        self.socket.unlink(missing_ok=True)

    def connected(self) -> bool:
        """Whether the connection that was made is still there."""
        return self.master is not None and self.master.poll() is None

    def connect(self, timeout: float) -> None:
        """Makes the connection, if there is none. Raises GuestShellError."""
        if self.connected():
            return
        self.close()
        self.known_hosts.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + timeout
        with self.log.open("wb") as log:
            self.master = subprocess.Popen(
                self.command("-N", "-o", "ControlMaster=yes"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while not self.socket.exists():
            if self.master.poll() is not None:
                said = self.log.read_text(errors="replace")
                self.close()
                raise GuestShellError(f"no way into {self.host} by SSH: {reason(said)}")
            if time.monotonic() > deadline:
                self.close()
                raise GuestShellError(f"{self.host} did not answer by SSH in {timeout:.0f} s")
            time.sleep(0.05)

    def _session(self, script: str, timeout: float, data: bytes = b"") -> tuple[int, bytes, bytes]:
        """Runs a command line of sshd's; its input is ``data``."""
        deadline = time.monotonic() + timeout
        self.connect(timeout)
        command = [*self.command("-o", "ControlMaster=no"), script]
        # Without its connection it would make one of its own, as if nothing had happened.
        command[1:1] = ["-o", "ProxyCommand=false"]
        try:
            done = subprocess.run(
                command,
                input=data,
                check=False,
                capture_output=True,
                timeout=max(1.0, deadline - time.monotonic()),
            )
        except subprocess.TimeoutExpired as error:
            raise GuestShellError(f"no answer after {timeout:.0f} s: {script}") from error
        if done.returncode == NO_SESSION:
            self.close()
            said = reason(done.stderr.decode(errors="replace"))
            raise GuestShellError(f"the connection to {self.host} ended: {said}")
        return done.returncode, done.stdout, done.stderr

    def run(self, script: str, timeout: float) -> Result:
        """Runs a shell script and returns its status and output."""
        status, out, err = self._session(remote_command(script), timeout)
        return Result(status, out.decode(errors="replace"), err.decode(errors="replace"))

    def wait(self, timeout: float) -> None:
        """Waits until the shell answers; raises GuestShellError after `timeout` seconds."""
        # Two seconds between: sshd counts connections that bring no key
        until_answered(lambda: self.run("true", 30), timeout, 2)

    def wait_for_the_end(self, seconds: float) -> None:
        """Waits at most so long until the other side has ended the connection."""
        if self.master is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.master.wait(seconds)
        self.close()

    def send(self, data: bytes, path: str, timeout: float) -> None:
        """Writes a file."""
        status, _, err = self._session(f"PATH={PATH}; cat >{shlex.quote(path)}", timeout, data)
        if status:
            raise GuestShellError(f"{path} cannot be written: {err.decode(errors='replace')}")

    def fetch(self, path: str, timeout: float) -> bytes:
        """Reads a file."""
        status, out, err = self._session(f"PATH={PATH}; cat {shlex.quote(path)}", timeout)
        if status:
            raise GuestShellError(f"{path} cannot be read: {err.decode(errors='replace')}")
        return out


def reason(said: str) -> str:
    """The line of the client's messages that says what is the matter, with what to do about it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any("HOST IDENTIFICATION HAS CHANGED" in line for line in lines):
        return (
            "its host key is another one than before; if the card was written anew, remove the"
            f" node's line from {KNOWN_HOSTS.relative_to(OUT.parent)}"
        )
    if any("Permission denied" in line for line in lines):
        return "it does not accept the key; node.conf needs its .pub line as sshkey=, see BOARD_KEY"
    return lines[-1] if lines else "the client said nothing"

"""A bitcoind on this machine, for tests without a virtual machine."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import time
from pathlib import Path

from lab.chains import CHAINS, OFFLINE, SMALL
from lab.rpc import Rpc, RpcError


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class DidNotStart(Exception):
    """The node ended, or did not answer in time; the text is its last words."""


class Node(Rpc):
    """One daemon, started at once; use it as a context: it is killed at the end."""

    def __init__(
        self,
        datadir: Path,
        run: Path,
        *options: str,
        engine: str,
        chain: str,
        port: int,
        bitcoind: Path,
        timeout: float = 120,
    ) -> None:
        """Starts it and waits until it is up, at most ``timeout`` seconds.

        ``run``: folder off the disk under test, for the cookie and the log; ``port``: of RPC.
        Raises DidNotStart.
        """
        self.log = run / "bitcoind.log"
        super().__init__(port, run / "cookie")
        self._cookie.unlink(missing_ok=True)
        command = [str(bitcoind), f"-datadir={datadir}", f"-dbbackend={engine}"]
        command += [
            *SMALL,
            *OFFLINE,
            *CHAINS[chain],
            *options,
            f"-rpcport={port}",
            "-rpcbind=127.0.0.1",
        ]
        command += [f"-rpccookiefile={self._cookie}", "-rpcallowip=127.0.0.1"]
        command += ["-printtoconsole=1", "-nodebuglogfile", "-logtimestamps=0"]
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
        try:
            self._wait(timeout)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Node:
        """The node, up."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kills it."""
        self.kill()

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            if self.process.poll() is not None:
                raise DidNotStart(f"ended with {self.process.returncode}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise DidNotStart(f"no answer in {timeout:.0f} s: {self.last_words()}")
            with contextlib.suppress(RpcError, OSError, ValueError, http.client.HTTPException):
                self.call("uptime")
                return
            time.sleep(0.05)

    def last_words(self) -> str:
        """Errors of the log, or else its last lines."""
        lines = self.log.read_text(errors="replace").splitlines()
        return " | ".join([line for line in lines if "rror" in line][-3:] or lines[-3:])

    def stop(self) -> None:
        """Asks it to end and waits."""
        self.call("stop")
        self.process.wait(300)

    def kill(self) -> None:
        """Ends it without a chance to write."""
        self.close()
        self.process.kill()
        self.process.wait()

"""A bitcoind on this machine, for tests and benchmarks without a virtual machine."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.chains import CHAINS, OFFLINE, SMALL
from lab.rpc import Rpc, RpcError


class DidNotStart(Exception):
    """The node ended, or did not answer in time; the text is its last words."""


class Daemon(Rpc):
    """One run of bitcoind: its process, its log, and its RPC as soon as it answers."""

    def __init__(
        self,
        command: list[str],
        run: Path,
        *options: str,
        port: int,
        environment: Mapping[str, str] | None = None,
        first: Callable[[], None] | None = None,
    ) -> None:
        """Starts it and waits for nothing.

        ``command``: the program, with the loader in front of it, if any; ``run``: folder off the
        disk under test, for the cookie and the log; ``port``: of RPC; ``environment``: besides this
        process's; ``first``: is run in the new process before the program.
        """
        self.log = run / "bitcoind.log"
        super().__init__(port, run / "cookie")
        self._cookie.unlink(missing_ok=True)
        line = [*command, *options, f"-rpccookiefile={self._cookie}", f"-rpcport={port}"]
        line += ["-rpcbind=127.0.0.1", "-rpcallowip=127.0.0.1"]
        line += ["-printtoconsole=1", "-nodebuglogfile"]
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **(environment or {})},
                preexec_fn=first,
            )

    def stop(self, seconds: float = 300) -> int:
        """Asks it to end and waits, at most so long; its exit status."""
        self.call("stop")
        self.close()
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Ends it without a chance to write, if it runs."""
        self.close()
        self.process.kill()
        self.process.wait()


class Node(Daemon):
    """A daemon on a small chain, started at once; use it as a context: it is killed at the end."""

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
        """Starts it and waits until it is up, at most ``timeout`` seconds. Raises DidNotStart."""
        super().__init__(
            [str(bitcoind), f"-datadir={datadir}", f"-dbbackend={engine}"],
            run,
            *SMALL,
            *OFFLINE,
            *CHAINS[chain],
            *options,
            "-logtimestamps=0",
            port=port,
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

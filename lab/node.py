"""A bitcoind on this machine, for tests without a virtual machine and for benchmarks."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from lab.chains import CHAINS, OFFLINE, SMALL
from lab.rpc import Rpc, RpcError


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class DidNotStart(Exception):
    """The node ended, or did not answer in time; the text is its last words."""


class Daemon(Rpc):
    """One start of bitcoind, with its RPC and its log; as a context, it is killed at the end."""

    def __init__(
        self,
        command: Sequence[str],
        run: Path,
        *options: str,
        port: int,
        environment: Mapping[str, str] | None = None,
        limit: Callable[[], object] | None = None,
    ) -> None:
        """Starts it and waits for nothing.

        ``command``: the daemon, with what starts it and its data directory; ``options``: what else
        it is told; ``run``: folder off the disk under test, for the cookie and bitcoind.log;
        ``port``: of RPC; ``environment``: what is different in its environment, default nothing;
        ``limit``: called in the daemon's process before the daemon runs, as MemoryGroup.join.
        """
        self.log = run / "bitcoind.log"
        super().__init__(port, run / "cookie")
        self._cookie.unlink(missing_ok=True)
        words = [*command, f"-rpccookiefile={self._cookie}", *options]
        words += [f"-rpcport={port}", "-rpcbind=127.0.0.1", "-rpcallowip=127.0.0.1"]
        words += ["-printtoconsole=1", "-nodebuglogfile"]
        self.began = time.time()
        """when it was started, in seconds since 1970"""
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **(environment or {})},
                preexec_fn=limit,
            )

    def __enter__(self) -> Self:
        """The daemon."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kills it."""
        self.kill()

    def wait(self, timeout: float) -> None:
        """Waits until it answers, at most ``timeout`` seconds. Raises DidNotStart."""
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

    def stop(self, timeout: float = 300) -> int:
        """Asks it to end; its exit status. Raises TimeoutExpired after ``timeout`` seconds."""
        self.call("stop")
        self.close()
        return self.process.wait(timeout)

    def kill(self) -> None:
        """Ends it without a chance to write, if it runs."""
        self.close()
        self.process.kill()
        self.process.wait()


class Node(Daemon):
    """A daemon with small databases on one of lab.chains, without a network."""

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

        ``run``, ``port``: see Daemon; ``options`` come after those of the chain. Raises
        DidNotStart.
        """
        command = [str(bitcoind), f"-datadir={datadir}", f"-dbbackend={engine}"]
        common = [*SMALL, *OFFLINE, *CHAINS[chain]]
        super().__init__(command, run, *common, *options, "-logtimestamps=0", port=port)
        try:
            self.wait(timeout)
        except BaseException:
            self.kill()
            raise

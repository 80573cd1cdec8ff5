"""A bitcoind on this machine, for the power-loss tests without a virtual machine."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Small databases: LevelDB's logs become tables often, LMDB's map grows often.
SMALL = ["-dbcache=4", "-maxmempool=5", "-dbmapsize=1", "-keypool=4"]
SMALL += ["-maxsigcachesize=1"]
#: An old chain, checked from its first block; nothing but loopback.
OFFLINE = ["-listen=0", "-dnsseed=0", "-minimumchainwork=0x00", "-assumevalid=0"]
OFFLINE += ["-maxtipage=2000000000", "-persistmempool=0"]
#: By chain. Block files are small: blocks that come early are in later files than the tip's, and
#: on regtest some files are pruned.
CHAINS = {
    "main": ["-fastprune", "-prune=550"],
    "regtest": ["-chain=regtest", "-fastprune", "-prune=1"],
}
#: After this long a connection for RPC is not used again.
IDLE_SECONDS = 20


class RpcError(Exception):
    """The node's answer is an error; the text is its own."""


class DidNotStart(Exception):
    """The node ended, or did not answer in time; the text is its last words."""


class Rpc:
    """JSON-RPC of a daemon on this machine."""

    def __init__(self, port: int, cookie: Path) -> None:
        """``cookie``: the daemon's file with user and password."""
        self._port = port
        self._cookie = cookie
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    def _post(self, body: object) -> Any:  # noqa: ANN401 (JSON)
        cookie = base64.b64encode(self._cookie.read_bytes().strip()).decode()
        # The daemon closes one that was idle for 30 s (-rpcservertimeout).
        if time.monotonic() - self._used > IDLE_SECONDS:
            self.close()
        if not self._connection:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        headers = {"Authorization": f"Basic {cookie}"}
        try:
            self._connection.request("POST", "/", json.dumps(body), headers)
            answer = json.loads(self._connection.getresponse().read())
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()
        return answer

    def call(self, method: str, *parameters: object) -> Any:  # noqa: ANN401 (JSON)
        """An RPC's result; raises RpcError."""
        return self.batch([(method, *parameters)])[0]

    def batch(self, calls: list[tuple[object, ...]]) -> list[Any]:
        """The results of several RPCs in one request; RpcError if one of them fails."""
        answers = self._post(
            [
                {"id": number, "method": name, "params": parameters}
                for number, (name, *parameters) in enumerate(calls)
            ]
        )
        if isinstance(answers, dict):
            raise RpcError(answers["error"]["message"])
        results = []
        for answer in sorted(answers, key=lambda a: a["id"]):
            if answer.get("error"):
                raise RpcError(answer["error"]["message"])
            results.append(answer["result"])
        return results

    def close(self) -> None:
        """Ends the connection; the next call makes another."""
        if self._connection:
            self._connection.close()
        self._connection = None


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

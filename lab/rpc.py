"""JSON-RPC of a bitcoind on this machine."""

from __future__ import annotations

import base64
import http.client
import json
import time
from pathlib import Path
from typing import Any

#: After this long a connection for RPC is not used again.
IDLE_SECONDS = 20


class RpcError(Exception):
    """The node's answer is an error; the text is its own."""


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

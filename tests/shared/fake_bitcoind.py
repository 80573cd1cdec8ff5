"""A stand-in for bitcoind, for tests of what starts one: its cookie, its log, two of its RPCs.

Options of its own: -fakeend=STATUS ends it at once, with an error in the log; -fakesilent=SECONDS
passes before it listens; -fakewarm=N answers so many requests like a daemon that still loads;
-fakestatus=STATUS is what it ends with after stop. It says its options and the variable FAKE of
its environment in the log. All others are ignored.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def log(line: str) -> None:
    """A line as with -logtimemicros."""
    print(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), line, flush=True)


def main(options: dict[str, str]) -> int:
    """Runs until it is stopped; its exit status."""
    log(f"options {' '.join(sys.argv[1:])}")
    log(f"FAKE={os.environ.get('FAKE', '')}")
    if "fakeend" in options:
        log("Error: Unable to open the fake database")
        return int(options["fakeend"])
    time.sleep(float(options.get("fakesilent", 0)))
    cookie = "__cookie__:secret"
    warm = iter(range(int(options.get("fakewarm", 0))))

    class Handler(BaseHTTPRequestHandler):
        """Batches of uptime and stop."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """One batch."""
            calls = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told = base64.b64encode(cookie.encode()).decode()
            allowed = self.headers["Authorization"] == f"Basic {told}"
            loading = next(warm, None) is not None
            answers = []
            for call in calls:
                error = {"code": -28, "message": "Loading block index…"} if loading else None
                if call["method"] not in ("uptime", "stop"):
                    error = {"code": -32601, "message": "Method not found"}
                answers.append({"id": call["id"], "result": 1, "error": error})
                if not error and call["method"] == "stop":
                    threading.Thread(target=server.shutdown).start()
            body = json.dumps(answers).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Length", str(len(body) if allowed else 0))
            self.end_headers()
            self.wfile.write(body if allowed else b"")

        def log_message(self, *_: object) -> None:
            """Its log is the daemon's."""

    server = HTTPServer(("127.0.0.1", int(options["rpcport"])), Handler)
    Path(options["rpccookiefile"]).write_text(cookie)
    log("UpdateTip: new best=ab height=7 version=0x20000000")
    log("Done loading")
    server.serve_forever(0.01)
    log("Shutdown: done")
    return int(options.get("fakestatus", 0))


if __name__ == "__main__":
    pairs = (word.lstrip("-").partition("=") for word in sys.argv[1:])
    sys.exit(main({name: value for name, _, value in pairs}))

"""A BIP157 client against the real node with filters=1: node.conf, scripts, bitcoind.

usage: unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc \\
           python3 -m tests.hostile.filters_stage REPOSITORY BITCOIND CLIENT     (as root)

CLIENT is the program of tests/bip157. The tree is the image's where it matters, as in cage.py, and
nothing leaves: the network namespace has loopback only. Writes one JSON object to standard output:
what the client has found, by the node's settings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.hostile.cage import TOOLS
from tests.hostile.wallet_stage import cookie, daemon, folders, furnish, mine, settle, stopped

PORT = 18444
SECONDS = "90"
CLIENT = TOOLS / "bip157"


def client(script: str) -> dict[str, Any]:
    """What the client finds of a script, with nothing from an earlier run; or why it does not."""
    folder = Path("/tmp/client")
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir()
    words = [str(CLIENT), f"127.0.0.1:{PORT}", str(folder), script, SECONDS]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip()}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def play(options: list[str]) -> dict[str, Any]:
    """A coin for an address of its own, then spent: what the client finds before and after."""
    process = daemon("-fallbackfee=0.0001", *options)
    services = cookie("getnetworkinfo")["localservicesnames"]
    mine(101)
    target = cookie("getnewaddress", wallet="owner")
    script = cookie("getaddressinfo", target, wallet="owner")["scriptPubKey"]
    sent = cookie("sendtoaddress", target, 7, wallet="owner")
    mine(10)
    seen: dict[str, Any] = {"services": services, "found": client(script)}
    coins = cookie("gettransaction", sent, True, True, wallet="owner")["decoded"]["vout"]
    (vout,) = [coin["n"] for coin in coins if coin["scriptPubKey"]["hex"] == script]
    elsewhere = cookie("getnewaddress", wallet="owner")
    rules = {"add_inputs": False, "subtractFeeFromOutputs": [0], "fee_rate": 5}
    inputs = [{"txid": sent, "vout": vout}]
    draft = cookie("walletcreatefundedpsbt", inputs, {elsewhere: 7}, 0, rules, wallet="owner")
    signed = cookie("walletprocesspsbt", draft["psbt"], wallet="owner")["hex"]
    cookie("sendrawtransaction", signed)
    mine(1)
    seen["spent"] = client(script)
    stopped(process)
    return seen


def main() -> None:
    """With all blocks, and on a node that prunes."""
    # read first: folders of the host are covered by the image's afterwards
    program = Path(sys.argv[3]).read_bytes()
    furnish(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    CLIENT.write_bytes(program)
    CLIENT.chmod(0o755)
    folders()
    seen: dict[str, Any] = {}
    # Without a disk of a known size node-tune gives a pruning node no filters (test_filters.py):
    # what it would have written is given to the daemon here.
    for name, lines, options in (
        ("whole", "filters=1\n[regtest]\nprune=0", []),
        ("pruned", "[regtest]\nprune=550", ["-blockfilterindex=1", "-peerblockfilters=1"]),
    ):
        subprocess.run(["find", "/var/lib/bitcoind", "-mindepth", "1", "-delete"], check=True)
        subprocess.run(["rm", "-f", "/var/lib/cairn/filters.regtest"], check=True)
        Path("/boot/node.conf").write_text(f"regtest=1\n{lines}\n")
        settle()
        report = Path("/run/cairn/node-conf.report").read_text()
        seen[name] = {"report": report, **play(options)}
    print(json.dumps(seen))


if __name__ == "__main__":
    main()

"""Robot Framework library: the feeder, a stock bitcoind on this machine's loopback.

The node under test gets its blocks from it (support/feeder). One at a time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from robot.api.deco import keyword, library

from lab.machine import run_host
from lab.paths import ROOT
from lab.under_test import Need
from tests.robot.lib import script_blocks
from tests.robot.lib.session import session

#: Ports of the peers begin so far behind the feeder's, which has this one and the next; a campaign
#: (tests/powerloss/campaign.py) gives each feeder ten.
PEERS_BEHIND = 5


def ports_of_peers(port: int, number: int) -> str:
    """In one word, as support/feeder and support/qemu take them."""
    return " ".join(str(port + PEERS_BEHIND + peer) for peer in range(number))


@library(scope="GLOBAL", auto_keywords=False)
class Feeder:
    """Start, stop and questions."""

    def _start(self, directory: Path, port: int, network: str, *more: str) -> None:
        session.need(Need.FEEDER)
        options = ["--dir", str(directory), "--port", str(port), "--network", network]
        session.feeder_options = options
        run_host(str(ROOT / "support/feeder"), "start", *options, *more)

    @keyword
    def ports_of_peers(self, port: int, number: int = 3) -> str:
        """Ports for the peers of the feeder on this port, for `Start Feeder` and `Start VM`.

        ``number``: of peers, default 3. Returns them in one word, with blanks.

        Example:
        | ${ports}=    Ports Of Peers    18655    number=2
        """
        return ports_of_peers(port, number)

    @keyword
    def start_feeder(
        self, port: int = 18655, network: str = "main", peers: str = "", seed: int = 1
    ) -> None:
        """Starts the stock daemon and waits until it has all blocks.

        ``port``: for P2P, default 18655; RPC is on the next one. ``network``: main (default) has
        the real blocks, regtest an empty chain. ``peers``: ports on which peers hand on its blocks,
        out of order as ``seed`` (default 1) says; default no peers.

        Fails if the daemon was not built, or a port is in use.

        Example:
        | Start Feeder    18655    peers=18660 18661    seed=7
        """
        directory = ROOT / f"out/robot/feeder-{network}-{port}"
        self._start(directory, port, network, "--peers", peers, "--seed", str(seed))

    @keyword
    def start_bench_feeder(
        self, port: int, *options: str, peers: str = "", seed: int = 1
    ) -> dict[str, Any]:
        """Starts the stock daemon with a bench chain on regtest; waits until it has all blocks.

        ``options``: of support/chaingen, default its standard chain. ``port``, ``peers``,
        ``seed``: see `Start Feeder`. Returns the chain's summary, such as its ``height``. Its
        scripts are open: no node has to skip them.

        Fails if the chain cannot be made, and as `Start Feeder` does.

        Example:
        | ${chain}=    Start Bench Feeder    18655    -blocks=500    -txs=300
        """
        directory = ROOT / f"out/robot/feeder-bench-{port}"
        directory.mkdir(parents=True, exist_ok=True)
        blocks = directory / "chain.blk"
        command = [str(ROOT / "support/chaingen"), f"-out={blocks}", "-scripts=open", *options]
        chain: dict[str, Any] = json.loads(run_host(*command))
        more = ["--blocks", str(blocks), "--top", str(chain["height"])]
        more += ["--peers", peers, "--seed", str(seed)]
        self._start(directory, port, "regtest", *more)
        return chain

    @keyword
    def feed_script_heavy_blocks(self) -> int:
        """Gives the feeder (regtest) the blocks of script_blocks.py; returns their number.

        Those that it has from an earlier run stay. Fails if it refuses one.

        Example:
        | ${top}=    Feed Script Heavy Blocks
        """
        chain = script_blocks.blocks()
        for number, block in enumerate(chain, 1):
            answer = session.feeder("-stdin", "submitblock", text=block.hex())
            if answer not in ("", None, "duplicate"):
                raise AssertionError(f"the stock daemon refuses block {number}: {answer}")
        return len(chain)

    @keyword
    def stop_feeder(self) -> None:
        """Stops the feeder and its peers, if one was started, and waits for it.

        Example:
        | Stop Feeder
        """
        if session.feeder_options:
            run_host(str(ROOT / "support/feeder"), "stop", *session.feeder_options)

    @keyword("Feeder")
    def feeder_rpc(self, method: str, *arguments: str, text: str = "") -> Any:  # noqa: ANN401
        """Calls an RPC method of the feeder; returns its answer, decoded if it is JSON.

        With ``-stdin``, ``text`` (default empty) is an argument, too. Fails with the daemon's
        error.

        Example:
        | ${hash}=    Feeder    getblockhash    9
        """
        return session.feeder(method, *arguments, text=text)

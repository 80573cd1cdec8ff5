"""Robot Framework library: what the node says by RPC, and whether its data are right.

Times are in seconds; time-outs are multiplied by TIMEOUT_FACTOR, as in the library CairnVM.
"""

from __future__ import annotations

from typing import Any

from robot.api.deco import keyword, library

from lab.parsing import cache_mebibytes, value_of
from tests.robot.lib.session import session

#: The other engine of the databases, and a file of each in chainstate.
OTHER_ENGINE = {"leveldb": "lmdb", "lmdb": "leveldb"}
ENGINE_FILE = {"leveldb": "CURRENT", "lmdb": "lmdb"}
#: Core fetches at most 1024 blocks ahead (BLOCK_DOWNLOAD_WINDOW): so many, and some more, may not
#: have been synced when the power failed.
UNSYNCED_MAX = 1100


def nested_array(depth: int) -> str:
    """A JSON array in an array, and so on."""
    return "[" * depth + "]" * depth


def nested_descriptor(key: str, depth: int) -> str:
    """A taproot descriptor with so many branches in one another; all scripts ask for one key."""
    branches = f"{{pk({key})," * depth
    return f"tr({key},{branches}pk({key}){'}' * depth})"


def blocks_to_verify(height: int, prune_height: int) -> int:
    """How many of the newest blocks may not have been synced, and have not been pruned.

    0 where the newest block itself is in no file, for it was deep in the initial sync.
    """
    if prune_height > height:
        return 0
    return max(1, min(UNSYNCED_MAX, height - prune_height))


@library(scope="GLOBAL", auto_keywords=False)
class Node:
    """Questions to bitcoind in the guest."""

    @keyword
    def node(self, method: str, *arguments: str, timeout: float = 120) -> Any:  # noqa: ANN401
        """Calls an RPC method of the node; returns its answer, decoded if it is JSON.

        ``arguments`` must not contain a single quote. ``timeout``: seconds, default 120. Fails with
        the daemon's error.

        Example:
        | ${pruned}=    Node    pruneblockchain    500
        """
        return session.rpc(method, *arguments, timeout=timeout)

    # -- up, and how far -------------------------------------------------------------

    @keyword("Wait For RPC")
    def wait_for_rpc(self, timeout: float = 120) -> None:
        """Waits until bitcoind's unit is active and its RPC answers.

        ``timeout``: seconds, default 120. Fails with the last error.

        Example:
        | Wait For RPC    timeout=240
        """
        session.until("systemctl is-active bitcoind && node-cli getblockcount", timeout)

    @keyword
    def wait_for_height(self, height: int, timeout: float = 300) -> None:
        """Waits until the node's chain has at least this height.

        ``timeout``: seconds, default 300. Fails if it has not by then.

        Example:
        | Wait For Height    2000    timeout=600
        """
        session.until(f'h=$(node-cli getblockcount) && echo "$h" && [ "$h" -ge {height} ]', timeout)

    @keyword
    def height_should_be(self, height: int) -> None:
        """The node's chain has exactly this height now.

        Example:
        | Height Should Be    14131
        """
        found = session.rpc("getblockcount")
        if found != height:
            raise AssertionError(f"the node is at height {found}, not at {height}")

    @keyword
    def network_should_be(self, state: str) -> None:
        """The node's network is on, or off: it connects to nobody, and nobody to it.

        ``state``: on or off. Fails if it is the other one.

        Example:
        | Network Should Be    off
        """
        if state not in ("on", "off"):
            raise AssertionError(f"a network is on or off, not '{state}'")
        active = session.rpc("getnetworkinfo")["networkactive"]
        if active is not (state == "on"):
            raise AssertionError(f"the node's network is not {state}")

    # -- coins and blocks ------------------------------------------------------------

    @keyword("Coins Should Equal The Stock Node's")
    def coins_should_equal_the_stock_nodes(self) -> int:
        """The coins, by hash and number, are the feeder's at the height at which this node is.

        Returns this height: it is flushed now. Fails with the first difference.

        Example:
        | ${flushed}=    Coins Should Equal The Stock Node's
        """
        ours = session.rpc("gettxoutsetinfo", "muhash")
        height = int(ours["height"])
        theirs = session.feeder("gettxoutsetinfo", "muhash", str(height))
        for field in ("bestblock", "muhash", "txouts"):
            if ours[field] != theirs[field]:
                raise AssertionError(
                    f"{field} at height {height} is {ours[field]} here and {theirs[field]} on the"
                    " stock node"
                )
        return height

    @keyword
    def blocks_and_undo_data_should_be_whole(self, height: int) -> None:
        """Those below this height that may not have been synced when the power failed.

        Core fetches 1024 blocks ahead; at its start it looks at the newest six only. The node must
        be one that prunes. Fails if a block or undo data are lost.

        Example:
        | Blocks And Undo Data Should Be Whole    ${flushed}
        """
        depth = blocks_to_verify(height, session.rpc("getblockchaininfo")["pruneheight"])
        # 0 would be all blocks.
        if depth and session.rpc("verifychain", "2", str(depth)) is not True:
            raise AssertionError("blocks or undo data are lost")

    @keyword
    def prune_target_should_be(self, mebibytes: int) -> None:
        """Block files are deleted beyond so many MiB.

        Fails if bitcoind does not prune, or beyond another size.

        Example:
        | Prune Target Should Be    550
        """
        found = session.rpc("getblockchaininfo")["prune_target_size"]
        if found != mebibytes << 20:
            raise AssertionError(f"bitcoind prunes beyond {found} bytes, not {mebibytes} MiB")

    @keyword
    def mempool_limit_should_be(self, megabytes: int) -> None:
        """The mempool may have so many MB (of 1000000 bytes).

        Example:
        | Mempool Limit Should Be    ${mempool}
        """
        found = session.rpc("getmempoolinfo")["maxmempool"]
        if found != megabytes * 1_000_000:
            raise AssertionError(f"the mempool may have {found} bytes, not {megabytes} MB")

    @keyword
    def number_of_block_files(self, chain: str) -> int:
        """How many block files the node has of this chain, such as regtest.

        Fails if it has none.

        Example:
        | ${before}=    Number Of Block Files    regtest
        """
        folder = "" if chain == "main" else f"{chain}/"
        return len(session.run(f"ls /var/lib/bitcoind/{folder}blocks/blk*").split())

    # -- databases -------------------------------------------------------------------

    @keyword
    def engine_should_be(self, engine: str) -> None:
        """All open databases have this engine, and only this one has files of the coins.

        ``engine``: leveldb or lmdb. Fails if not.

        Example:
        | Engine Should Be    leveldb
        """
        engines = {database["backend"] for database in session.rpc("getdbinfo")}
        if engines != {engine}:
            raise AssertionError(f"the databases are of {', '.join(sorted(engines))}, not {engine}")
        file = ENGINE_FILE[OTHER_ENGINE[engine]]
        session.run(f"test ! -e /var/lib/bitcoind/chainstate/{file}")

    @keyword
    def other_engine(self) -> str:
        """The engine that the node's databases do not have: lmdb or leveldb.

        Example:
        | ${other}=    Other Engine
        """
        return OTHER_ENGINE[session.rpc("getdbinfo")[0]["backend"]]

    # -- what it was tuned to --------------------------------------------------------

    @keyword
    def tuned(self, name: str) -> str:
        """The value that node-tune chose for an option of bitcoind.

        Fails if it chose none.

        Example:
        | ${dbcache}=    Tuned    dbcache
        """
        return value_of(session.run("cat /run/bitcoind/tuned.conf"), name)

    @keyword
    def measured(self, name: str) -> int:
        """A figure that cairn-probe has kept of the data disk, such as written_kib.

        Fails if there is no result.

        Example:
        | ${written}=    Measured    written_kib
        """
        return int(value_of(session.run("cat /var/lib/cairn/probe/result"), name))

    @keyword
    def cache_in_use(self) -> int:
        """The sum of bitcoind's database caches in MiB, as its log has them since boot.

        Fails if the log names none.

        Example:
        | ${cache}=    Cache In Use
        """
        return cache_mebibytes(
            session.run("journalctl -b --no-pager -o cat -u bitcoind | grep ' MiB for '")
        )

    @keyword
    def should_have_grown(self, before: float, after: float, factor: float) -> None:
        """The second number is more than ``factor`` times the first.

        Example:
        | Should Have Grown    ${before}    ${after}    factor=1.3
        """
        if not after > factor * before:
            raise AssertionError(f"{after} is not more than {factor} times {before}")

    # -- nesting ---------------------------------------------------------------------

    @keyword
    def nested_array_should_come_back(self, depth: int) -> None:
        """RPC reads and writes a JSON array in an array, this many times.

        Fails if the answer (of echojson) has not the array that was sent.

        Example:
        | Nested Array Should Come Back    500
        """
        array = nested_array(depth)
        answer = "".join(session.run(f"node-cli echojson '{array}'").split())
        if answer != f"[{array}]":
            raise AssertionError(f"the node answered {answer}")

    @keyword
    def nested_descriptor(self, key: str, depth: int = 127) -> str:
        """A taproot descriptor whose tree of scripts has so many branches in one another.

        ``key``: the public key, in hexadecimal, that all of its scripts ask for. ``depth``: default
        127; with the root, these are the 128 levels that taproot allows at most.

        Example:
        | ${descriptor}=    Nested Descriptor    ${KEY}    depth=127
        """
        return nested_descriptor(key, depth)

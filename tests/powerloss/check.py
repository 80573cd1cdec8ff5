"""Whether a data partition after a power cut is as good as its node had promised."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.node import DidNotStart, Node
from lab.rpc import RpcError
from tests.powerloss import mounts, tables
from tests.powerloss.reconstruct import Acknowledged

#: Blocks that the node must be able to add after it came up.
MORE = 10
#: Seconds that it may take for that; of a chain that it gets from its peers, for the next block.
PATIENCE = 60
#: Seconds after which it is told of peers again that it hung up on
ASK_AGAIN = 3.0


@dataclasses.dataclass
class Chain:
    """The truth, from the stock daemon."""

    coins: dict[str, str]
    """muhash by block hash, of all blocks that were ever in the chain"""
    blocks: list[str]
    """by height, in hexadecimal; none where the node gets them from peers"""
    deep: int = -1
    """height of the last block that a node need not have in a file, for it was further below the
    top than that; -1: it stores all"""
    top: int = 0
    """height of the peers' chain"""


@dataclasses.dataclass
class Verdict:
    """One of report.OUTCOMES, and why."""

    outcome: str
    detail: str = ""
    height: int = -1
    """at which the node came up"""
    mended: bool = False
    """fsck did more than to replay the journal"""
    tables: int = 0
    """LevelDB: whole tables of the coins that no record of the manifest adds"""
    reached: int = -1
    """height at the end, with the right coins"""


class _Failure(Exception):
    """outcome, sentence"""


def check(
    image: Path,
    folder: Path,
    start: Callable[..., Node],
    acknowledged: Acknowledged,
    chain: Chain,
    peers: Sequence[int] = (),
    *,
    to_the_top: bool = False,
) -> Verdict:
    """Boots the image as the product would: fsck, mount, the daemon; asks it what it has.

    ``folder``: mount point; ``start(datadir, option...)`` starts the daemon. With ``peers``, P2P
    ports on 127.0.0.1, it goes on with their blocks, ``to_the_top`` or for some. Changes the image.
    """
    verdict = Verdict("recovered")
    try:
        verdict.mended = mounts.repair(image)
        with mounts.mounted(image, folder):
            datadir = folder / "lib/bitcoind"
            if not datadir.exists():
                if acknowledged.height >= 0:
                    raise _Failure("lost", "the data directory is gone")
                # Before the first start had made it; systemd does, each time.
                datadir.mkdir(parents=True)
            verdict.tables = sum(map(tables.left_over, datadir.glob("**/chainstate")))
            # What it has is looked at before it gets more.
            with start(datadir, *(["-networkactive=0"] if peers else [])) as node:
                verdict.height = _coins(node, acknowledged, chain)
                _wallet(node, acknowledged)
                if peers:
                    _syncs(node, verdict.height, chain, peers, to_the_top=to_the_top)
                else:
                    _goes_on(node, verdict.height, chain)
                verdict.reached = _muhash(node, chain)
    except _Failure as failure:
        verdict.outcome, verdict.detail = failure.args
    except (mounts.MountError, DidNotStart) as error:
        verdict.outcome, verdict.detail = "stuck", str(error)
    except RpcError as error:
        verdict.outcome, verdict.detail = "wrong", f"the node says: {error}"
    except OSError as error:
        verdict.outcome, verdict.detail = "stuck", f"the node or its disk failed: {error}"
    return verdict


def _coins(node: Node, acknowledged: Acknowledged, chain: Chain) -> int:
    """The chain has what was acknowledged, the coins are those of its tip; its height.

    The tip may rise meanwhile: blocks whose coins were not flushed are connected again.
    """
    height = _muhash(node, chain)
    if height < acknowledged.height:
        raise _Failure("lost", f"height {height}, {acknowledged.height} was acknowledged")
    if acknowledged.height >= 0:
        block = node.call("getblockhash", acknowledged.height)
        if block != acknowledged.block:
            raise _Failure("lost", f"block {acknowledged.block} is not in the chain any more")
    # Each block that is not pruned is there and whole, and its undo data, too.
    first = node.call("getblockchaininfo")["pruneheight"]
    if chain.deep >= 0 and first > max(chain.deep, acknowledged.pruned) + 1 and height > chain.deep:
        raise _Failure("lost", f"the first block in a file is {first}, of height {height}")
    # The tip itself need not be in a file.
    if first <= height and not node.call("verifychain", 2, max(1, height - first) if first else 0):
        raise _Failure("wrong", f"verifychain: {node.last_words()}")
    return height


def _muhash(node: Node, chain: Chain) -> int:
    """The coins are those of the tip; its height. Flushes."""
    answer = node.call("gettxoutsetinfo", "muhash")
    block, height = answer["bestblock"], int(answer["height"])
    if block not in chain.coins:
        raise _Failure("wrong", f"block {block} at height {height} is not of the chain")
    if answer["muhash"] != chain.coins[block]:
        raise _Failure("wrong", f"muhash {answer['muhash']} of the coins at height {height}")
    return height


def _wallet(node: Node, acknowledged: Acknowledged) -> None:
    """The wallet is loaded and has every address, with the last label or a later one."""
    if not acknowledged.wallet:
        return
    loaded = acknowledged.wallet in node.call("listwallets")
    if not loaded:
        try:
            node.call("loadwallet", acknowledged.wallet)
        except RpcError as error:
            raise _Failure("lost", f"wallet '{acknowledged.wallet}': {error}") from None
    addresses = list(acknowledged.labels)
    answers = node.batch([("getaddressinfo", address) for address in addresses])
    for address, answer in zip(addresses, answers, strict=True):
        wanted = acknowledged.labels[address]
        label = "".join(answer["labels"])
        if not answer["ismine"] or not label or int(label.split()[1]) < wanted:
            raise _Failure("lost", f"address {address} has '{label}', not 'label {wanted}'")
    if not loaded:
        raise _Failure("lost", "the wallet is whole, but not in settings.json any more")


def _goes_on(node: Node, height: int, chain: Chain) -> None:
    """It takes the next blocks and writes the coins."""
    top = min(height + MORE, len(chain.blocks) - 1)
    node.batch([("submitblock", chain.blocks[h]) for h in range(height + 1, top + 1)])
    # What it has already it connects by itself, soon.
    deadline = time.monotonic() + PATIENCE
    while (reached := node.call("getblockcount")) < top:
        if time.monotonic() > deadline:
            raise _Failure("wrong", f"it stays at {reached} when it is given block {reached + 1}")
        time.sleep(0.05)


def _syncs(
    node: Node, height: int, chain: Chain, peers: Sequence[int], *, to_the_top: bool
) -> None:
    """It gets the next blocks from its peers, or all."""
    node.call("setnetworkactive", True)
    top = chain.top if to_the_top else min(height + MORE, chain.top)
    before, since, asked = height, time.monotonic(), 0.0
    while (reached := node.call("getblockcount")) < top:
        now = time.monotonic()
        if reached > before:
            before, since = reached, now
        if now > since + PATIENCE:
            raise _Failure("wrong", f"it stays at {reached} of the {top} blocks that peers offer")
        if now > asked + ASK_AGAIN:
            # Version 1 of P2P: see lab/peers.py.
            there = {peer["addr"] for peer in node.call("getpeerinfo")}
            for address in (f"127.0.0.1:{port}" for port in peers):
                if address not in there:
                    node.call("addnode", address, "onetry", False)
            asked = now
        time.sleep(0.05)

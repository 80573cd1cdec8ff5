"""The stock daemon that feeds the node under test, and what is true of its chain."""

from __future__ import annotations

import hashlib
import random
import struct

from lab.rpc import Rpc

BATCH = 500
#: Depth at which a block reward can be spent.
MATURE = 100
#: Coins that a block of a made chain adds, and spends when there are more than KEPT.
ADDED, SPENT, KEPT = 300, 290, 6000
#: Scripts that anyone can spend, as descriptors: of a chain, and of another one.
ANYONE, ANYONE_ELSE = "raw(51)", "raw(52)"

#: Transaction, number of the output, value
Coin = tuple[bytes, int, int]


def transaction(coins: list[Coin], values: list[int]) -> bytes:
    """Spends coins of anyone, makes coins of anyone."""
    parts = [struct.pack("<I", 2), _count(len(coins))]
    parts += [struct.pack("<32sIBI", name, n, 0, 0xFFFFFFFF) for name, n, _ in coins]
    parts.append(_count(len(values)))
    parts += [struct.pack("<qBB", value, 1, 0x51) for value in values]
    return b"".join([*parts, struct.pack("<I", 0)])


def _count(number: int) -> bytes:
    return bytes([number]) if number < 0xFD else b"\xfd" + struct.pack("<H", number)


class Source:
    """The feeder."""

    def __init__(self, rpc: Rpc, chain: str, seed: int) -> None:
        """``rpc``: of the daemon; regtest's chain is made here, from the seed."""
        self.rpc = rpc
        self.grows = chain == "regtest"
        self.muhash: dict[str, str] = {}
        """of the coins, by block hash"""
        self._random = random.Random(seed)
        self._coins: list[Coin] = []
        self._rewards: list[Coin] = []

    def height(self) -> int:
        """Of its tip."""
        return int(self.rpc.call("getblockcount"))

    def generate(self, count: int, *, descriptor: str = "") -> None:
        """So many blocks more, full of coins; with a descriptor, they are empty."""
        if descriptor:
            self.rpc.call("generatetodescriptor", count, descriptor)
            return
        for _ in range(count):
            spends = []
            if len(self._rewards) >= MATURE:
                spends.append(self._spend([self._rewards.pop(0)], ADDED))
            if len(self._coins) > KEPT:
                self._random.shuffle(self._coins)
                spent = [self._coins.pop() for _ in range(SPENT)]
                spends.append(self._spend(spent, 1))
            block = self.rpc.call("generateblock", ANYONE, spends)["hash"]
            reward = self.rpc.call("getblock", block, 2)["tx"][0]
            value = round(reward["vout"][0]["value"] * 100_000_000)
            self._rewards.append((bytes.fromhex(reward["txid"])[::-1], 0, value))

    def _spend(self, coins: list[Coin], parts: int) -> str:
        value = sum(value for _, _, value in coins) // parts
        spend = transaction(coins, [value] * parts)
        name = hashlib.sha256(hashlib.sha256(spend).digest()).digest()
        # Not to be spent in the same block: appended after the choice of what it spends.
        self._coins += [(name, n, value) for n in range(parts)]
        return spend.hex()

    def remember(self, first: int, last: int) -> None:
        """Looks up the coins at these heights, in the stock daemon's index of them."""
        for begin in range(first, last + 1, BATCH):
            heights = range(begin, min(begin + BATCH, last + 1))
            for answer in self.rpc.batch([("gettxoutsetinfo", "muhash", h) for h in heights]):
                self.muhash[answer["bestblock"]] = answer["muhash"]

    def blocks(self, last: int, first: int = 0) -> list[str]:
        """The chain's blocks in hexadecimal, by height."""
        found: list[str] = []
        for begin in range(first, last + 1, BATCH):
            heights = range(begin, min(begin + BATCH, last + 1))
            names = self.rpc.batch([("getblockhash", height) for height in heights])
            found += self.rpc.batch([("getblock", name, 0) for name in names])
        return found

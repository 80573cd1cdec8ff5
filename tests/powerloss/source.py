"""The stock daemon that feeds the node under test, and what is true of its chain."""

from __future__ import annotations

import hashlib
import random
import struct

from lab.chains import MARGIN
from lab.p2p import compact_size
from lab.rpc import Rpc

BATCH = 500
#: Depth at which a block reward can be spent.
MATURE = 100
#: Coins that a block of a made chain adds, and spends when there are more than KEPT.
ADDED, SPENT, KEPT = 300, 290, 6000
#: Scripts that anyone can spend, as descriptors: of a chain, and of another one.
ANYONE, ANYONE_ELSE = "raw(51)", "raw(52)"
#: Such a script, and one of 8.9 kB: coins are as large as their scripts, and data that is dropped
#: again costs no processor time.
SMALL, LARGE = b"\x51", b"\x4d\x08\x02%s\x75" % bytes(520) * 17 + b"\x51"
#: A chain whose first part is deep: heights of its blocks from the first with coins on. Blocks of
#: LARGES have this many large coins: 71 MB in all, of which LevelDB makes three tables, 32 MiB each
#: at most (DBWRAPPER_MAX_FILE_SIZE), if they are flushed at once. Coins that are spent before are
#: never written: these are spent from SPENT_FROM on. Above FULL blocks are empty.
DEEP, LARGES, FULL, LARGE_COINS = 1000, range(600, 680), 1100, 100
SPENT_FROM = 780
#: A chain is deep for the last blocks before the first that is stored, too; but these come together
#: with stored ones, and count as the transition.
EDGE = 100
#: What a node syncs: blocks that are in no file, the first that are, and what is mined meanwhile.
STAGES = ("deep", "transition", "tip")
#: Of the first block; each has ten minutes. Wallets, which are made now, are younger than all of
#: them: a node stores what a wallet may have to read.
FIRST_TIME, SPACING = 1_700_000_000, 600

#: Transaction, number of the output, value
Coin = tuple[bytes, int, int]


def transaction(coins: list[Coin], values: list[int], script: bytes = SMALL) -> bytes:
    """Spends coins of anyone, makes coins of anyone, with that script each."""
    parts = [struct.pack("<I", 2), compact_size(len(coins))]
    parts += [struct.pack("<32sIBI", name, n, 0, 0xFFFFFFFF) for name, n, _ in coins]
    parts.append(compact_size(len(values)))
    parts += [struct.pack("<q", value) + compact_size(len(script)) + script for value in values]
    return b"".join([*parts, struct.pack("<I", 0)])


class Source:
    """The feeder."""

    def __init__(self, rpc: Rpc, chain: str, seed: int) -> None:
        """``rpc``: of the daemon; regtest's chain is made here, from the seed."""
        self.rpc = rpc
        self.grows = chain != "main"
        self.deep = -1
        """of its height: the last block that the node keeps in no file; -1 where it keeps all"""
        self.first_top = 0
        """with a deep part: the chain's height when the node begins to sync it"""
        self.muhash: dict[str, str] = {}
        """of the coins, by block hash"""
        self._random = random.Random(seed)
        self._coins: list[Coin] = []
        self._large: list[Coin] = []
        self._spends_large = False
        self._rewards: list[Coin] = []

    def height(self) -> int:
        """Of its tip."""
        return int(self.rpc.call("getblockcount"))

    def make_deep(self) -> None:
        """A new chain with more blocks on top of the deep ones than a node keeps in no file."""
        for height in range(1, FULL + 1):
            self.rpc.call("setmocktime", FIRST_TIME + height * SPACING)
            self._spends_large = height >= SPENT_FROM
            self.generate(1, large=height in LARGES)
        while (height := self.height()) < DEEP + MARGIN:
            # A block may be two hours younger than the clock, and is not older than others.
            self.rpc.call("setmocktime", FIRST_TIME + (height + 10) * SPACING)
            self.generate(min(10, DEEP + MARGIN - height), descriptor=ANYONE, keep=True)
        self.rpc.call("setmocktime", 0)
        self.begin_again()

    def begin_again(self) -> None:
        """A node begins to sync the chain as it is."""
        self.first_top = self.height()
        self.deep = self.first_top - MARGIN - 1

    def stage(self, height: int) -> str:
        """Which of STAGES a node is in; none where the chain has no deep part."""
        if self.deep < 0:
            return ""
        return STAGES[(height >= self.deep - EDGE) + (height >= self.first_top)]

    def generate(
        self, count: int, *, descriptor: str = "", large: bool = False, keep: bool = False
    ) -> None:
        """So many blocks more, full of coins, or of large ones.

        With a descriptor, they are empty; ``keep``: what they reward with is spent some time.
        """
        if descriptor:
            blocks = self.rpc.call("generatetodescriptor", count, descriptor)
            for block in blocks if keep else ():
                self._keep_reward(block)
            return
        for _ in range(count):
            spends = []
            if len(self._rewards) >= MATURE and large:
                spends.append(self._spend([self._rewards.pop(0)], LARGE_COINS, LARGE))
            elif len(self._rewards) >= MATURE:
                spends.append(self._spend([self._rewards.pop(0)], ADDED))
            if self._large and self._spends_large:
                spent, self._large = self._large[:SPENT], self._large[SPENT:]
                spends.append(self._spend(spent, 1))
            elif len(self._coins) > KEPT:
                self._random.shuffle(self._coins)
                spent = [self._coins.pop() for _ in range(SPENT)]
                spends.append(self._spend(spent, 1))
            self._keep_reward(self.rpc.call("generateblock", ANYONE, spends)["hash"])

    def _keep_reward(self, block: str) -> None:
        reward = self.rpc.call("getblock", block, 1)["tx"][0]
        value = round(self.rpc.call("gettxout", reward, 0)["value"] * 100_000_000)
        self._rewards.append((bytes.fromhex(reward)[::-1], 0, value))

    def _spend(self, coins: list[Coin], parts: int, script: bytes = SMALL) -> str:
        value = sum(value for _, _, value in coins) // parts
        spend = transaction(coins, [value] * parts, script)
        name = hashlib.sha256(hashlib.sha256(spend).digest()).digest()
        # Not to be spent in the same block: appended after the choice of what it spends.
        made = [(name, n, value) for n in range(parts)]
        if script == LARGE:
            self._large += made
        else:
            self._coins += made
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

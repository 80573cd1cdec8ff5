"""Robot Framework library: power cuts at moments that a seed chooses, and what must hold after.

The library remembers one test's cuts, and appends what became of each to the file of the Robot
variable CUT_LOG (default out/robot/cuts.jsonl). Moments are seconds after something was begun;
those of cuts during a script are multiplied by TIMEOUT_FACTOR, as time-outs are.
"""

from __future__ import annotations

import contextlib
import random
import time

from robot.api import logger
from robot.api.deco import keyword, library

from tests.robot.lib.CairnVM import CairnVM
from tests.robot.lib.CutLog import LoggedCuts
from tests.robot.lib.Damage import Damage
from tests.robot.lib.Node import OTHER_ENGINE, Node
from tests.robot.lib.session import ERRORS, session
from tests.robot.lib.Units import Units

POLICIES = ("reorder", "torn", "drop-all", "drop-some")
AIMS = ("flush", "ahead", "sync", "restart", "boot")
#: Its answer says that the coins up to this height have been written and flushed.
FLUSH = """node-cli gettxoutsetinfo none | sed -n 's/.*"height": \\([0-9]*\\).*/\\1/p'"""
#: All but the 288 blocks that Core keeps.
PRUNE = "node-cli pruneblockchain $(($(node-cli getblockcount) - 290)) >/dev/null"
#: What is cut by aim; the other aims are in PowerLoss.
SCRIPTS = {"flush": FLUSH, "sync": "sleep 60", "restart": "systemctl restart bitcoind"}
#: Lets the node fetch blocks until a block file is begun, at most twenty seconds, and takes it off
#: the network: a fast machine would be at the top before the next try. Succeeds if the newest undo
#: data, younger than a file, is in an older file than the newest block is.
AHEAD = """\
cd {blocks} || exit 1
blk=$(ls blk*.dat | tail -n 1)
n=0
node-cli setnetworkactive true >/dev/null
while [ "$(ls blk*.dat | tail -n 1)" = $blk ] && [ $n -lt 100 ]; do
	sleep 0.2
	n=$((n + 1))
done
node-cli setnetworkactive false >/dev/null
sleep 1
rev=$(ls -t rev*.dat | head -n 1)
blk=$(ls blk*.dat | tail -n 1)
rev_number=$(echo $rev | cut -c 4-)
blk_number=$(echo $blk | cut -c 4-)
[ $rev -nt {since} ] && [ $rev_number != $blk_number ]
"""


def random_number(seed: int, number: int, low: float, high: float) -> float:
    """A number in a range that depends on ``seed`` and ``number`` alone."""
    return random.Random(f"{seed} {number}").uniform(low, high)


def aim_of(number: int) -> str:
    """What a cut is to hit: all in turn."""
    return AIMS[number % len(AIMS)]


def policy_of(number: int, seed: int = 0) -> str:
    """What becomes of unflushed writes; another pairing with aims in each round, by each seed."""
    return POLICIES[(number + seed) % len(POLICIES)]


def lying_end(end: str, height: int, flushed: list[str]) -> str:
    """The end of a boot, and for a node that is up whether it has what it said was flushed."""
    if end != "up":
        return end
    return "lost" if flushed and height < int(flushed[-1]) else "recovered"


@library(scope="TEST", auto_keywords=False)
class PowerLoss(LoggedCuts):
    """One test's cuts."""

    def __init__(self) -> None:
        """No cut yet; the library listens for the end of the test."""
        super().__init__("cuts.jsonl")
        self.engine, self.filesystem, self.seed, self.flushed = "", "", 0, 0
        self.aim, self.policy = "", ""
        self.ends: list[str] = []

    def _cut(self, script: str, first: float, last: float, repeat: bool) -> None:
        """Between so many seconds after the script was started, as aim and policy say."""
        moment = random_number(self.seed, self.number, first, last)
        answers = CairnVM().cut_power_during(script, moment, self.policy, repeat)
        if answers:
            self.flushed = int(answers[-1])

    def _flush(self) -> int:
        return int(session.run(FLUSH))

    # -- cuts ------------------------------------------------------------------------

    @keyword
    def begin_cuts(self, engine: str, filesystem: str, seed: int, flushed: int = 0) -> None:
        """The test's cuts begin, or begin again; the next one is number 0.

        ``engine``: of the databases, ``filesystem``: of the data partition, for the report.
        ``seed``: of moments and policies. ``flushed``: height that is known to be flushed, default
        0.

        Example:
        | Begin Cuts    leveldb    ext4    seed=1    flushed=500
        """
        self.engine, self.filesystem, self.seed, self.flushed = engine, filesystem, seed, flushed
        self.number = 0

    @keyword
    def cut_power_at_the_next_aim(self) -> None:
        """One cut at a random moment, within 8 s, after something was begun.

        The aims in turn: a flush, which is repeated; blocks that are stored ahead; nothing but the
        sync; a restart of bitcoind; the boot (within 25 s). The policies in turn: reorder, torn,
        drop-all, drop-some, from another one on with each seed. Remembers what was flushed.

        Example:
        | Cut Power At The Next Aim
        """
        self.aim, self.policy = aim_of(self.number), policy_of(self.number, self.seed)
        if self.aim == "ahead":
            # Near the top of the chain it may not come to that, and deep below it no block is in a
            # file; the cut is one after a flush then.
            chain = session.rpc("getblockchaininfo")
            with contextlib.suppress(*ERRORS):
                if chain["pruneheight"] <= chain["blocks"]:
                    self.wait_until_blocks_are_stored_ahead(60)
            self.flushed = self._flush()
            CairnVM().cut_power(self.policy)
        elif self.aim == "boot":
            CairnVM().reboot(wait=False)
            time.sleep(random_number(self.seed, self.number, 3, 25))
            CairnVM().cut_power(self.policy)
        else:
            self._cut(SCRIPTS[self.aim], 0.3, 8, repeat=self.aim == "flush")

    @keyword
    def cut_power_during_a_conversion(self) -> None:
        """One cut at a random moment, from 1 to 12 s after the other engine was asked for.

        Example:
        | Cut Power During A Conversion
        """
        self.engine = session.rpc("getdbinfo")[0]["backend"]
        self.aim, self.policy = "conversion", policy_of(self.number)
        script = f"systemctl start node-convert@{OTHER_ENGINE[self.engine]}"
        self._cut(script, 1, 12, repeat=False)

    @keyword
    def cut_power_while_pruning(self) -> None:
        """One cut at a random moment, from 1 to 12 s after the node began to prune and flush.

        It does so again and again. Remembers what was flushed.

        Example:
        | Cut Power While Pruning
        """
        self.aim, self.policy = "prune", policy_of(self.number)
        self._cut(f"{PRUNE}; {FLUSH}", 1, 12, repeat=True)

    @keyword
    def cut_power_after_a_flush(self) -> None:
        """One cut as soon as the node has flushed its coins, with blocks stored ahead of them.

        To be used after `Wait Until Blocks Are Stored Ahead`.

        Example:
        | Wait Until Blocks Are Stored Ahead
        | Cut Power After A Flush
        """
        self.aim, self.policy = "ahead", policy_of(0, self.seed)
        self.flushed = self._flush()
        CairnVM().cut_power(self.policy)

    @keyword
    def cut_power_when_the_console_shows(self, words: str, policy: str) -> None:
        """Cuts the power once the console shows these words, and switches it on again.

        ``policy``: see `Cut Power`. The machine has not booted again yet. Fails if the words do not
        come within 180 s.

        Example:
        | Cut Power When The Console Shows    Grow File System    drop-some
        """
        vm = CairnVM()
        vm.wait_for_serial(words, 180)
        vm.cut_power(policy)
        vm.power_on(wait=False)

    @keyword
    def wait_until_blocks_are_stored_ahead(self, seconds: float = 300) -> None:
        """A block is withheld, and later ones are in later files than the tip's undo data.

        No more blocks come then, and the guest's kernel writes nothing by itself: what the node
        does not sync is not on the disk. ``seconds``: default 300. Fails if it has not come to that
        by then.

        Example:
        | Wait Until Blocks Are Stored Ahead
        """
        session.run("echo 0 >/proc/sys/vm/dirty_writeback_centisecs && touch /run/ahead")
        session.until(AHEAD.format(blocks="/var/lib/bitcoind/blocks", since="/run/ahead"), seconds)

    # -- what must hold --------------------------------------------------------------

    @keyword
    def recover(self) -> None:
        """Switches the machine on; what must hold after a power cut holds.

        The node comes up by itself, with all that was known to be flushed and the stock node's
        coins; no unit has failed; no blocks and undo data are lost. Then all up to its height is
        flushed. Fails with what does not hold; the cut's outcome goes to the file CUT_LOG.

        Example:
        | Cut Power While Pruning
        | Recover
        """
        self.log.begin(
            engine=self.engine,
            filesystem=self.filesystem,
            aim=self.aim,
            policy=self.policy,
            seed=self.seed,
            number=self.number,
            flushed=self.flushed,
        )
        node = Node()
        CairnVM().power_on()
        node.wait_for_rpc()
        height = int(session.rpc("getblockcount"))
        self.log.end(height)
        if height < self.flushed:
            raise AssertionError(
                f"blocks that were flushed are lost: {self.flushed} were, the node is at {height}"
            )
        Units().system_is_running()
        self.flushed = node.coins_should_equal_the_stock_nodes()
        node.blocks_and_undo_data_should_be_whole(self.flushed)
        self.number += 1

    # -- a disk that lies ------------------------------------------------------------

    @keyword
    def cut_power_of_a_lying_disk(self) -> None:
        """Has the disk ignore flushes for 12 s, cuts the power, and remembers how the boot ends.

        Every second cut reorders what was not written, the others tear it. Shows the end on this
        machine's console: recovered, lost, or as in `What The Boot Ends In`. Fails if the machine
        neither comes up nor says why.

        Example:
        | Cut Power Of A Lying Disk
        """
        vm = CairnVM()
        vm.let_disk_lie()
        number = len(self.ends)
        answers = vm.cut_power_during(FLUSH, 12, policy_of(number % 2), repeat=True)
        vm.power_on(wait=False)
        end = Damage().what_the_boot_ends_in()
        height = int(session.rpc("getblockcount")) if end == "up" else 0
        self.ends.append(lying_end(end, height, answers))
        logger.info(f"{number}: {self.ends[-1]}", also_console=True)

    @keyword
    def the_lies_should_have_been_found_out(self) -> None:
        """At least one of the cuts by `Cut Power Of A Lying Disk` ended in other than recovered.

        Fails if the cuts did no harm, or if there were none.

        Example:
        | The Lies Should Have Been Found Out
        """
        if all(end == "recovered" for end in self.ends):
            raise AssertionError("a disk that ignores flushes was not found out")

"""Options of bitcoind for the chains that tests run it on."""

from __future__ import annotations

#: Small databases: LevelDB's logs become tables often, LMDB's map grows often.
SMALL = ["-dbcache=4", "-maxmempool=5", "-dbmapsize=1", "-keypool=4"]
SMALL += ["-maxsigcachesize=1"]
#: An old chain, checked from its first block; nothing but loopback.
OFFLINE = ["-listen=0", "-dnsseed=0", "-minimumchainwork=0x00", "-assumevalid=0"]
OFFLINE += ["-maxtipage=2000000000", "-persistmempool=0"]
#: By chain. Block files are small: blocks that come early are in later files than the tip's, and
#: on regtest some files are pruned. "deep" is regtest, too: of blocks further than MARGIN below the
#: best header the node keeps none, and those that wait have room for some seconds of them.
CHAINS = {
    "main": ["-fastprune", "-prune=550"],
    "regtest": ["-chain=regtest", "-fastprune", "-prune=1"],
    "deep": [
        "-chain=regtest",
        "-fastprune",
        "-prune=550",
        "-blocksinmemory=32",
        "-maxtipage=86400",  # blocks are kept in memory in the initial sync only
    ],
}
#: Two weeks of blocks, Core's node::StoreMargin() with the smallest -prune
MARGIN = 2016


def network(chain: str) -> str:
    """What Core calls the network of one of CHAINS, which is also its folder's name."""
    return "main" if chain == "main" else "regtest"

#!/usr/bin/env python3
"""Power cuts without machines: thousands of disks from the trace of one node.

usage: tests/powerloss/replay.py record --engine E [--chain C] [--blocks N] [--seed N]
       tests/powerloss/replay.py check  --engine E [--chain C] [--states N] [--seed N] [--lies]
                                        [--policy P] [--only STATE [--keep FILE]] [--top-every N]
                                        [--add]
       tests/powerloss/replay.py run    --engine E ...   both, then 100 states with --lies
       tests/powerloss/replay.py live   --engine E [--chain C] [--states CUTS]   real cuts: live.py

record syncs real blocks with bitcoind on a disk with a volatile cache (lab/nbd_disk.py), writes a
wallet, and keeps each request and each acknowledgement. The blocks come from several peers, out
of order (lab/peers.py). With --chain regtest they are made ones, full of coins, some are pruned,
and once another chain takes over. With --chain deep the node comes from far below the top of a
chain of more than two weeks of blocks: first it stores no block, then all, then it is at the tip;
check has it fetch the next blocks from such peers, too, and in one state of --top-every all blocks.
check makes disks of the trace as a power cut could have left
them, at any moment, with any part of what was not flushed; for each it runs fsck, mounts it, starts
bitcoind and compares height, coins, blocks and wallet.

Needs root, and support/feeder with what it needs. Everything is below out/powerloss/ENGINE-CHAIN:
trace, base.img, chain.json, blocks.dat, replay.json, replay.md (lies.* with --lies; live.*).
Exit status: 0 as expected (all states recovered; with --lies: some did not), 1 not, 2 wrong
options, and one sentence for what keeps it from running.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.chains import CHAINS, network
from lab.node import DidNotStart
from lab.paths import OUT, ROOT
from lab.rpc import Rpc, RpcError
from lab.volatile_disk import VolatileDisk
from tests.powerloss import mounts, reconstruct, report, workload
from tests.powerloss.check import Chain
from tests.powerloss.live import Campaign
from tests.powerloss.mounts import MountError
from tests.powerloss.source import ANYONE, Source
from tests.powerloss.states import aimed, check_states, folder_of, say, starter, stoppable

#: Blocks beyond the recorded node's height that are looked up, too: more than it fetches
#: ahead, and more than check adds.
SPARE = 1100
#: Blocks to sync, the default and the most: support/feeder's real blocks end soon after.
BLOCKS = {"main": (12000, 13000), "regtest": (800, 5000)}
#: Before each block in a file of regtest's
MAGIC = bytes.fromhex("fabfb5da")
#: Blocks a second that a node syncs with a deep part. Without a limit it would take a few seconds.
PACE = 60
LIES_STATES = 100
#: From which the node gets its blocks, out of order: see lab/peers.py.
PEERS = 3


def ports_of_peers(options: argparse.Namespace, group: int = 0) -> list[int]:
    """Behind the feeder's two ports and the workers'; those of a second group behind these."""
    first = options.port + 2 + options.workers + PEERS * group
    return [first + number for number in range(PEERS)]


@contextlib.contextmanager
def feeder(folder: Path, options: argparse.Namespace, *more: str) -> Iterator[Rpc]:
    """The stock daemon with the chain, in a new folder, and its peers; its RPC.

    ``more``: options of support/feeder.
    """
    chain, port = network(options.chain), options.port
    words = ["--dir", str(folder), "--port", str(port), "--network", chain, *more]
    words += ["--peers", " ".join(map(str, ports_of_peers(options))), "--seed", str(options.seed)]
    if subprocess.run([ROOT / "support/feeder", "start", *words], check=False).returncode:
        sys.exit("powerloss: the feeder did not start; see its message above")
    try:
        yield Rpc(port + 1, folder / ("" if chain == "main" else chain) / ".cookie")
    finally:
        subprocess.run([ROOT / "support/feeder", "stop", *words], check=False)
        say("peers: " + (folder / "peers.log").read_text().splitlines()[-1])


@contextlib.contextmanager
def fast_peers(folder: Path, options: argparse.Namespace) -> Iterator[list[int]]:
    """More peers of a feeder that runs, without a pace; their ports."""
    ports = ports_of_peers(options, 1)
    command = [sys.executable, "-m", "lab.peers", "--feeder", str(options.port), "--share", "0.05"]
    command += ["--behind", "40", "--seed", str(options.seed), *map(str, ports)]
    with (folder / "fast-peers.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield ports
    finally:
        process.terminate()
        process.wait()


def paced(options: argparse.Namespace) -> list[str]:
    """Options of the feeder whose blocks a node takes that is to be cut."""
    return ["--pace", str(PACE)] if options.chain == "deep" else []


def record(options: argparse.Namespace) -> int:
    """Makes the trace."""
    default, most = BLOCKS.get(options.chain, (0, 0))
    blocks = options.blocks or default
    if default and not workload.PHASES <= blocks <= most:
        raise ValueError(f"--blocks is from {workload.PHASES} to {most}")
    if options.blocks and not default:
        raise ValueError(f"--blocks is not for --chain {options.chain}, which is made as it is")
    folder = folder_of(options)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    mounts.make_file_system(folder / "base.img")
    with mounts.scratch() as work, feeder(work / "feeder", options, *paced(options)) as rpc:
        source = Source(rpc, options.chain, options.seed)
        if options.chain == "deep":
            say("making the chain")
            source.make_deep()
            blocks = source.height()
        say(f"recording {options.engine}, {options.chain}, {blocks} blocks")
        reconstruct.copy(folder / "base.img", work / "disk.img")
        trace = folder / "trace.new"
        disk = VolatileDisk(work / "disk.img", work, options.seed, trace=trace)
        with mounts.volatile(disk, work) as mount:
            height = workload.run(
                mount / "lib/bitcoind",
                starter(options, work, options.port + 2),
                workload.mark_on(disk.ask),
                source,
                ports_of_peers(options),
                blocks,
                options.seed,
                say,
            )
            say(json.dumps(disk.ask("stats")))
        if source.grows:
            source.generate(20, descriptor=ANYONE)
        top = min(height + SPARE, source.height())
        source.remember(0, top)
        chain = Chain(source.muhash, source.blocks(top), source.deep, top)
        if options.chain == "deep":
            with (folder / "blocks.dat").open("wb") as stream:
                for block in map(bytes.fromhex, chain.blocks):
                    stream.write(MAGIC + len(block).to_bytes(4, "little") + block)
            chain.blocks = []
        (folder / "chain.json").write_text(json.dumps(dataclasses.asdict(chain)))
        trace.rename(folder / "trace")
    return 0


def checked(options: argparse.Namespace) -> int:
    """The trace's states; those of a chain with a deep part go on from peers."""
    blocks = folder_of(options) / "blocks.dat"
    if options.chain != "deep" or not blocks.exists():
        return check_states(options)
    top = str(json.loads((folder_of(options) / "chain.json").read_text())["top"])
    words = ("--blocks", str(blocks), "--top", top)
    with mounts.scratch() as work, feeder(work / "feeder", options, *words):
        return check_states(options, ports_of_peers(options))


def live(options: argparse.Namespace) -> int:
    """Real cuts, on a made chain that never ends."""
    if options.chain == "main":
        options.chain = "regtest"
    results: list[dict[str, Any]] = []
    begin = time.monotonic()
    folder_of(options).mkdir(parents=True, exist_ok=True)
    with (
        mounts.scratch() as work,
        feeder(work / "feeder", options, *paced(options)) as rpc,
        fast_peers(work, options) as fast,
    ):
        source = Source(rpc, options.chain, options.seed)
        if options.chain == "deep":
            say("making the chain")
            source.make_deep()
        start = starter(options, work, options.port + 2)
        campaign = Campaign(work, start, source, ports_of_peers(options), options.seed)
        if options.chain == "deep":
            campaign.checked_with = fast
            campaign.top_every = options.top_every
        with stoppable(results):
            for number in range(options.states):
                result = {"number": number, **campaign.cut()}
                results.append(result)
                say(
                    f"cut {number}: {report.OUTCOMES[result['outcome']]}, {result['policy']},"
                    f" {result['stage']} {result['aim']},"
                    f" height {result['height']}, {result['acknowledged']} acknowledged,"
                    f" {result['sectors']} sectors not flushed {result['detail']}"
                )
                if result["outcome"] != "recovered":
                    shutil.copy(work / "bitcoind.log", folder_of(options) / f"live-{number}.log")
    facts = {
        "engine": options.engine,
        "chain": options.chain,
        "seed": options.seed,
        "cuts": len(results),
        **aimed(results),
        "seconds": round(time.monotonic() - begin),
    }
    say("\n" + report.markdown(report.write(folder_of(options), "live", facts, results)))
    return int(any(result["outcome"] != "recovered" for result in results))


def run(options: argparse.Namespace) -> int:
    """A new trace, its states, and the negative control."""
    record(options)
    status = checked(options)
    options.lies, options.states = True, min(options.states, LIES_STATES)
    return checked(options) or status


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    actions = {"record": record, "check": checked, "run": run, "live": live}
    parser.add_argument("action", choices=actions)
    parser.add_argument("--engine", choices=["leveldb", "lmdb"], required=True)
    parser.add_argument("--states", type=int, default=2000, help="default 2000")
    parser.add_argument("--seed", type=int, default=1, help="of recording and states, default 1")
    parser.add_argument("--chain", choices=CHAINS, default="main", help="default main")
    parser.add_argument("--blocks", type=int, help=f"to sync, default and most: {BLOCKS}")
    parser.add_argument(
        "--top-every", type=int, default=4, metavar="N", help="--chain deep: see above, default 4"
    )
    parser.add_argument("--lies", action="store_true", help="the disk ignores flushes")
    parser.add_argument("--add", action="store_true", help="to the results so far")
    parser.add_argument("--policy", choices=reconstruct.cut_policies(), help="only this one")
    parser.add_argument("--only", type=int, metavar="STATE", help="only the state of that number")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="with --only: keep its image")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="default: processors")
    parser.add_argument("--port", type=int, default=18600, help="first of 8 + workers, 18600")
    parser.add_argument("--bitcoind", type=Path, default=OUT / "core/bin/bitcoind")
    options = parser.parse_args()
    if min(options.states, options.workers, options.top_every) < 1:
        parser.error("--states, --workers and --top-every are 1 or more")
    if options.keep and options.only is None:
        parser.error("--keep needs --only")
    if not options.bitcoind.exists():
        parser.error(f"{options.bitcoind} is missing; build it with 'make core'")
    options.run = actions[options.action]
    return options


def main() -> int:
    """Runs the command line; returns the exit status."""
    options = arguments()
    mounts.enter_namespaces()
    # A shell's script has programs in the background ignore it; here it ends with the results.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return 130
    except (ValueError, RuntimeError, OSError, MountError, DidNotStart, RpcError) as error:
        print(f"powerloss: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

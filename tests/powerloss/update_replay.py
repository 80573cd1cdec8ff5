#!/usr/bin/env python3
"""Power cuts during updates: disks from the trace of a whole update, and what boots from each.

usage: tests/powerloss/update_replay.py record --board BOARD [--image FILE] [--seed N]
       tests/powerloss/update_replay.py check  --board BOARD [--states N] [--seed N] [--policy P]
                                               [--only STATE] [--every] [--repeat N]
                                               [--control WHAT]
       tests/powerloss/update_replay.py run    --board BOARD [--states N] [--seed N] ...
                     both, and then 400 states of each negative control, which must be caught

record makes a disk with the product's partitions (update_disk.py), on which version 1.0.0 runs in
slot a and 0.9.0 is in slot b. A machine (update_guest.py) installs 2.0.0 by node-update, the boot
loader's model takes the try, and a second machine judges the trial by cairn-trial. All that reaches
the disk goes through a write cache that is recorded (lab/nbd_disk.py), requests and flushes.

check makes disks of the trace as a power cut could have left them, at any moment, with any part of
what was not flushed. The board's boot loader (lab/pi_firmware.py, systemd_boot.py) reads the boot
partition by a FAT reader of its own (lab/fat.py).

Most states are drawn by the seed. Others are of each moment just before a flush: of what is not
flushed then, each request alone is lost (lose-one), and each alone is left (keep-one). This finds
what relies on an order. Bad is:

  stuck   nothing boots, now or after a second cut, or the same update does not succeed afterwards
  wrong   kernel, device tree, command line and root file system are not of one version, whole
  lost    node.conf, or what lies on the data partition, is not what it was; or the old version
          boots although the new one was said to stay

Then one disk of each shape (Node.shape(): all that a further update meets) goes on in a machine:
cairn-trial, and the same update again, up to the new version that stays. This takes most of the
time: half a minute of an emulated processor for each. --repeat says how many at most, default 40:
those first in which a name of the boot partition has lost its clusters, or some of them. Which
others, and which disk of a shape, is drawn by the seed.

Options: --image: development image, default out/devimage/cairn-dev.img, or one for x86_64, whose
kernel runs the machines. --states: default 200; --every: instead each position of the trace with
each policy. --seed: of the recording and of the states, default
1. --control overwrite: fat_put writes files in place; unsynced: nothing is synced; folders: the
slot's folders are removed and made anew, and a torn one stops a further update only: record and
check with it show that faults are found.

Needs root. Results: out/powerloss/BOARD-update/update.json and .md (every.*, CONTROL.*).
Exit status: 0 as expected (nothing bad; with --control: something), 1 not, 2 wrong options.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from lab import request_trace
from lab.paths import OUT
from lab.volatile_cache import SECTOR, Outcome
from lab.volatile_disk import VolatileDisk
from tests.powerloss import mounts, reconstruct, report, update_disk
from tests.powerloss.mounts import MountError
from tests.powerloss.states import say
from tests.powerloss.update_disk import NEW, RUNS, SIZE, BadError, Node
from tests.powerloss.update_guest import CONTROLS, Guest, GuestError, kernel_of

#: What is done to each request before a flush, see above
AIMED = ("lose-one", "keep-one")
#: States of each negative control in `run`: one file that is written in place is torn in about one
#: cut of a hundred.
CONTROL_STATES = 400
#: Machines, one after the other, after which a state must be done: the trial, the update, its trial
ROUNDS = 4
#: Disks that one machine gets; they lie in memory.
BATCH = 50
#: Controls that are of use: a PC's entries are new files, so none is ever written in place.
CONTROLS_OF = {"rpi5": ("overwrite", "unsynced", "folders"), "x86_64": ("unsynced", "folders")}
#: Those that only a further update meets
REPEATED = ("folders",)


@dataclasses.dataclass
class Known(reconstruct.Acknowledged):
    """What the node had said: the version that stays, if it had said so."""

    version: str = ""

    def learn(self, text: str) -> None:
        """Takes in a mark."""
        self.version = json.loads(text).get("version", self.version)


def folder_of(options: argparse.Namespace) -> Path:
    """Where a board's trace and results are."""
    return OUT / "powerloss" / f"{options.board}-update"


def named(options: argparse.Namespace, name: str) -> Path:
    """A file there, a control's apart."""
    return folder_of(options) / f"{options.control}{'-' * bool(options.control)}{name}"


# -- recording ---------------------------------------------------------------------------


def recorded(
    guest: Guest, mode: str, image: Path, work: Path, trace: Path, seed: int, line: str = ""
) -> str:
    """Runs a machine on the image, whose requests go to ``trace``; its result.

    ``line``: the kernel's command line of a trial.
    """
    disk = VolatileDisk(image, work, seed, trace=trace)
    disk.start()
    try:
        drive = f"file.driver=nbd,file.server.type=unix,file.server.path={disk.socket}"
        results = guest.run(mode, drive, line, mark=lambda text: disk.ask(f"mark {text}"))
        say(f"{mode}: {json.dumps(disk.ask('stats'))}")
        disk.cut("keep-all")
    finally:
        disk.stop()
    return results.get(0, "nothing")


def changes(before: Path, after: Path, writer: request_trace.Writer) -> int:
    """Appends what differs between two images as writes, a sector each; how many?"""
    count = 0
    with before.open("rb") as old, after.open("rb") as new:
        for offset in range(0, SIZE, 1 << 20):
            a, b = old.read(1 << 20), new.read(1 << 20)
            if a == b:
                continue
            for at in range(0, 1 << 20, SECTOR):
                if a[at : at + SECTOR] != b[at : at + SECTOR]:
                    writer.write(offset + at, b[at : at + SECTOR])
                    count += 1
    return count


def record(options: argparse.Namespace) -> int:
    """Makes the trace of an update, from `node-update install` to the version that stays."""
    folder = folder_of(options)
    folder.mkdir(parents=True, exist_ok=True)
    say(f"recording an update of {options.board} {options.control}")
    with mounts.scratch() as work:
        kernel = kernel_of(options.image, work)
        guest = Guest(kernel, options.board, work, options.control)
        disk, before = work / "disk.img", work / "before.img"
        update_disk.make(disk, options.board, work / "make")
        reconstruct.copy(disk, named(options, "base.img"))
        try:
            said = recorded(guest, "install", disk, work, work / "first", options.seed)
            argument = re.fullmatch(r"reboot ?(.*)", said)
            if not argument:
                raise GuestError(f"the update was not installed: {said}; {guest.last_words()}")
            # The loader takes the try: on a PC it renames the entry.
            reconstruct.copy(disk, before)
            node = Node(disk, options.board, work / "node", asked=argument[1])
            started = node.boot()
            if (started.slot, started.version) != ("b", NEW):
                raise GuestError(f"the restart came to {started}")
            writer = request_trace.Writer(str(work / "loader"))
            writer.mark('{"stage": "trial"}')
            say(f"the boot loader changed {changes(before, disk, writer)} sectors")
            writer.close()
            second = work / "second"
            said = recorded(guest, "trial", disk, work, second, options.seed + 1, node.line)
            if said != "done":
                raise GuestError(f"the trial was not good: {said}; {guest.last_words()}")
        finally:
            if guest.log.exists():
                shutil.copy(guest.log, named(options, "guest.log"))
        with named(options, "trace").open("wb") as whole:
            for part in ("first", "loader", "second"):
                whole.write((work / part).read_bytes())
    return 0


# -- checking ----------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """One state on its way to the new version."""

    result: dict[str, Any]
    node: Node
    slot: str = ""
    version: str = ""
    shape: str = ""


def judge(node: Node, known: Known) -> tuple[str, str, bool]:
    """Slot and version that boot after the cut, and whether fsck mended. Raises BadError."""
    first = node.boot()
    if first.version not in {RUNS, NEW}:
        raise BadError("wrong", f"version {first.version} boots")
    if known.version == NEW and first.version != NEW:
        raise BadError("lost", f"{first.version} boots, and {NEW} was said to stay")
    return first.slot, first.version, node.check_data()


def after_another_cut(case: Case, work: Path) -> None:
    """The power fails again during the boot that judge() began. Raises BadError."""
    copy = work / "second"
    reconstruct.overwrite(case.node.image, copy)
    second = Node(copy, case.node.board, work / "second.d").boot()
    if second.version not in {RUNS, NEW}:
        raise BadError("wrong", f"version {second.version} boots after a second cut")


def fail(case: Case, error: Exception) -> None:
    """Notes what is bad."""
    case.result["outcome"] = error.outcome if isinstance(error, BadError) else "stuck"
    case.result["detail"] = " ".join(str(error).split())[:300]
    where = update_disk.describe(case.node)
    say(f"state {case.result['number']}: {case.result['outcome']}: {case.result['detail']} {where}")


def place(case: Case, big: Path, index: int) -> None:
    """Moves a state's disk to its place among those of one machine."""
    image = case.node.image
    with image.open("rb") as old, big.open("r+b") as new:
        update_disk.copy_range(old.fileno(), 0, new.fileno(), index * SIZE, SIZE)
    image.unlink()
    case.node.image, case.node.offset = big, index * SIZE


def repeat(cases: list[Case], guest: Guest, work: Path) -> None:
    """The same update again, on each state's disk, until the new version stays."""
    big = work / "big"
    with big.open("wb") as file:
        file.truncate(SIZE * len(cases))
    for index, case in enumerate(cases):
        place(case, big, index)
    left = cases
    for number in range(ROUNDS):
        if not left:
            break
        plan = "".join(
            f"{case.result['number']} {case.node.offset} {case.slot} {case.version}"
            f" {case.node.line}\n"
            for case in left
        )
        say(f"{len(left)} disks go on, round {number + 1}")
        results = guest.run("repeat", f"file.filename={big},file.driver=file,cache=unsafe", plan)
        again = []
        for case in left:
            said = results.get(case.result["number"], "nothing")
            try:
                if not said.startswith(("reboot", "done")):
                    raise BadError("stuck", f"the update did not succeed afterwards: {said}")
                case.node.asked = said.removeprefix("reboot").strip() if said != "done" else ""
                started = case.node.boot()
                case.slot, case.version = started.slot, started.version
                if said == "done" and (case.slot, case.version) != ("b", NEW):
                    raise BadError("stuck", f"{NEW} was to stay, and {case.version} boots")
                if said == "done":
                    case.node.check_data()
                    case.result["rounds"] = number + 1
                else:
                    again.append(case)
            except (BadError, MountError) as error:
                fail(case, error)
        left = again
    for case in left:
        fail(case, BadError("stuck", f"the update did not come to an end in {ROUNDS} rounds"))
    big.unlink()


def every(
    index: reconstruct.Index, seed: int, policies: tuple[str, ...]
) -> list[reconstruct.State]:
    """Each position from the first mark on, with each policy."""
    states: list[reconstruct.State] = []
    for position in range(index.starts_at, index.records + 1):
        for policy in policies:
            stage = index.stage_at(position)
            states.append(reconstruct.State(position, len(states), policy, seed, stage))
    return states


def made(
    medium: reconstruct.Medium,
    states: list[reconstruct.State],
    index: reconstruct.Index,
    options: argparse.Namespace,
    work: Path,
    wanted: Container[int] | None = None,
) -> Iterator[tuple[reconstruct.State, Outcome, str]]:
    """Makes work/state-NUMBER for each state, and those of AIMED before each flush.

    ``wanted``: only those of these numbers. The state of a number is the same with and without it.
    """
    if options.only is not None:
        wanted = {options.only}
    flushes = [p for places in index.stages.values() for p in places.flushes]
    aimed = [] if options.policy else sorted(set(flushes))
    planned: list[tuple[int, reconstruct.State | None]] = [(s.position, s) for s in states]
    planned += [(position, None) for position in aimed]
    number = len(states)
    for position, state in sorted(planned, key=lambda item: (item[0], item[1] is None)):
        if state:
            if wanted is None or state.number in wanted:
                yield state, *medium.make(state, work / f"state-{state.number}")
            continue
        medium.advance(position)
        stage = index.stage_at(position)
        requests = medium.disk.requests()
        for request, policy in itertools.product(requests, AIMED):
            state = reconstruct.State(position, number, policy, options.seed, stage)
            number += 1
            if wanted is None or state.number in wanted:
                alive = {request} if policy == "keep-one" else set(requests) - {request}
                outcome, survivors = medium.disk.survivors_of(policy, alive.__contains__)
                yield state, outcome, medium.write(survivors, work / f"state-{state.number}")


def cases(
    states: list[reconstruct.State],
    index: reconstruct.Index,
    options: argparse.Namespace,
    work: Path,
    wanted: Container[int] | None = None,
) -> Iterator[Case]:
    """Makes and judges the states, or those ``wanted``; the caller removes each disk.

    One that is bad has no version; its result says what is bad.
    """
    base, trace = named(options, "base.img"), named(options, "trace")
    medium = reconstruct.Medium(base, trace, work / "medium", options.seed, lies=False)
    medium.acknowledged = known = Known()
    for state, outcome, digest in made(medium, states, index, options, work, wanted):
        result = {**dataclasses.asdict(state), **dataclasses.asdict(outcome)}
        result |= {"outcome": "recovered", "detail": "", "seed": state.seed, "digest": digest}
        image = work / f"state-{state.number}"
        case = Case(result, Node(image, options.board, work / "node"))
        try:
            slot, version, result["mended"] = judge(case.node, known)
            case.shape = case.node.shape()
            after_another_cut(case, work)
            case.slot, case.version = slot, version
        except (BadError, MountError) as error:
            fail(case, error)
        yield case


def go_on(
    states: list[reconstruct.State],
    index: reconstruct.Index,
    options: argparse.Namespace,
    work: Path,
    results: dict[int, dict[str, Any]],
    chosen: set[int],
) -> None:
    """Makes the states ``chosen`` again and has them updated; into ``results``, by number."""
    guest = Guest(kernel_of(options.image, work), options.board, work)
    guest.log.touch()
    waiting: list[Case] = []
    try:
        for case in cases(states, index, options, work, chosen):
            case.result = results[case.result["number"]]
            waiting.append(case)
            if len(waiting) == BATCH:
                repeat(waiting, guest, work)
                waiting = []
        if waiting:
            repeat(waiting, guest, work)
    finally:
        shutil.copy(guest.log, named(options, "repeat.log"))


def check(options: argparse.Namespace) -> int:
    """Makes and judges the states; the exit status."""
    trace = named(options, "trace")
    if not trace.exists():
        raise ValueError(f"there is no trace of {options.board}; make one with 'record'")
    policies = (options.policy,) if options.policy else reconstruct.cut_policies()
    index = reconstruct.index(trace)
    states = reconstruct.plan(index, options.states, options.seed, policies)
    if options.every:
        states = every(index, options.seed, policies)
    say(
        f"{options.board} {options.control}: {len(states)} states of {index.records} records and"
        f" {index.flush_count} flushes, seed {options.seed}"
    )
    begin = time.monotonic()
    results: list[dict[str, Any]] = []
    booted: Counter[str] = Counter()
    shapes: dict[str, list[int]] = {}
    torn: set[str] = set()
    with mounts.scratch() as work:
        for case in cases(states, index, options, work):
            results.append(case.result)
            if case.version:
                booted[case.version] += 1
                shapes.setdefault(case.shape, []).append(case.result["number"])
                torn |= {case.shape} if case.node.torn else set()
            case.node.image.unlink()
        say(f"{len(results)} states judged, of {len(shapes)} shapes, {len(torn)} with a torn name")
        if options.repeat and shapes:
            chance = random.Random(options.seed)
            order = chance.sample(sorted(torn), len(torn))
            order += chance.sample(sorted(shapes.keys() - torn), len(shapes) - len(torn))
            chosen = {chance.choice(shapes[shape]) for shape in order[: options.repeat]}
            go_on(states, index, options, work, {r["number"]: r for r in results}, chosen)
    facts = {
        "engine": options.board,
        "chain": "update",
        "seed": options.seed,
        "records": index.records,
        "flushes": index.flush_count,
        "states": len(results),
        "different disks": len({result["digest"] for result in results}),
        **{f"booted {version}": count for version, count in sorted(booted.items())},
        "shapes": len(shapes),
        "of them with a torn name": len(torn),
        "updated again": sum("rounds" in result for result in results),
        "seconds": round(time.monotonic() - begin),
        "sha256 of the trace": hashlib.sha256(trace.read_bytes()).hexdigest(),
    }
    bad = sum(result["outcome"] != "recovered" for result in results)
    if options.only is not None:
        say(json.dumps(results[0], indent=1))
    else:
        name = options.control or ("every" if options.every else "update")
        rows = report.write(folder_of(options), name, facts, results)
        say("\n" + report.markdown(rows))
        say("\n".join(f"{key}: {value}" for key, value in facts.items()))
    if options.control and not bad:
        say(f"powerloss: the fault '{options.control}' was not caught: the check sees nothing")
    return int(bool(bad) != bool(options.control))


def run(options: argparse.Namespace) -> int:
    """A new trace, its states, and the negative controls."""
    record(options)
    status = check(options)
    repeat, options.states, options.every = options.repeat, CONTROL_STATES, False
    for control in CONTROLS_OF[options.board]:
        options.control = control
        options.repeat = repeat if control in REPEATED else 0
        record(options)
        status = check(options) or status
    return status


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    actions = {"record": record, "check": check, "run": run}
    parser.add_argument("action", choices=actions)
    parser.add_argument("--board", choices=update_disk.BOARDS, required=True)
    parser.add_argument("--image", type=Path, default=OUT / "devimage/cairn-dev.img")
    parser.add_argument("--states", type=int, default=200, help="default 200")
    parser.add_argument("--every", action="store_true", help="each position with each policy")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--policy", choices=reconstruct.cut_policies(), help="only this one")
    parser.add_argument("--only", type=int, metavar="STATE", help="only the state of that number")
    parser.add_argument("--repeat", type=int, default=40, metavar="N", help="default 40")
    parser.add_argument("--control", choices=CONTROLS, default="", help="a negative control")
    options = parser.parse_args()
    if options.states < 1 or options.repeat < 0:
        parser.error("--states is 1 or more, --repeat 0 or more")
    if not options.image.exists():
        parser.error(f"{options.image} is missing; make it with 'make devimage'")
    options.run = actions[options.action]
    return options


def main() -> int:
    """Runs the command line; returns the exit status."""
    options = arguments()
    mounts.enter_namespaces()
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError, BadError, GuestError, MountError) as error:
        print(f"powerloss: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

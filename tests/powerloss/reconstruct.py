"""Disks as a power cut could have left them, made from a trace: no machine runs.

A state is a position in the trace (so many records had been served), a policy for what was
not flushed then, and a number to draw from. plan() chooses states; Medium makes them, in
the order of their positions, by serving the trace to a disk of its own once.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import json
import os
import random
import subprocess
from pathlib import Path

from lab import request_trace, sparse
from lab.volatile_cache import CACHE_BYTES, POLICIES, Outcome, VolatileCache

#: How far from a flush or a mark a position that is aimed at it lies, in records.
NEAR = 4
#: What a write has that ends one of LevelDB's tables (table/format.h), and how many records later
#: the manifest's record that adds it is on the disk, about: the file, its name, the record itself.
TABLE, ADDED_AFTER = bytes.fromhex("57fb808b247547db"), 12
#: What LMDB's first two pages have, one of which makes a transaction count, and how long before
#: that its other pages are written.
META, WRITTEN_BEFORE = bytes.fromhex("dec0efbe"), 6
#: Bytes of the cache of a disk that ignores flushes: it loses the newest, not everything.
LIES_CACHE = 2 << 20
#: Bytes that are copied at once: they stay in a processor's cache.
COPIED = 1 << 18


@dataclasses.dataclass(frozen=True, order=True)
class State:
    """What to reconstruct; sorts by position."""

    position: int
    number: int
    policy: str
    seed: int
    """of the campaign"""
    stage: str = ""
    """of the node (source.STAGES), where the chain has more than one"""
    writing: bool = False
    """while the coins were written: a flush was asked for, and not acknowledged yet"""

    def chance(self) -> random.Random:
        """Where the policy draws from: of this state alone, in whatever order they are made."""
        return random.Random(f"{self.seed}/{self.number}")


@dataclasses.dataclass
class Acknowledged:
    """What the node had told its user; each holds at any later moment."""

    height: int = -1
    block: str = ""
    """hash of the block at that height"""
    wallet: str = ""
    """name of a wallet that is loaded at each start"""
    labels: dict[str, int] = dataclasses.field(default_factory=dict)
    """by address of the wallet: number that its label ends in; a later one is larger"""
    pruned: int = 0
    """up to this height it was allowed to prune"""

    def learn(self, text: str) -> None:
        """Takes in a mark: a JSON object of the fields above; labels are added."""
        for name, value in json.loads(text).items():
            if name == "labels":
                self.labels.update(value)
            elif name == "pruned":
                self.pruned = max(self.pruned, value)
            elif name in {"height", "block", "wallet"}:
                setattr(self, name, value)


@dataclasses.dataclass
class Places:
    """Positions that a cut can be aimed at."""

    flushes: list[int] = dataclasses.field(default_factory=list)
    """just before a flush"""
    open: list[int] = dataclasses.field(default_factory=list)
    """where something is not flushed"""
    marks: list[int] = dataclasses.field(default_factory=list)
    """just after a mark"""
    writing: list[int] = dataclasses.field(default_factory=list)
    """while the coins are written, where something is not flushed: LevelDB's tables or LMDB's
    pages are there, and the record or page that makes them count is not, or not flushed"""
    steps: list[int] = dataclasses.field(default_factory=list)
    """of the flushes, those while the coins are written"""
    commits: list[range] = dataclasses.field(default_factory=list)
    """from where all that is new is written, to where it counts, about"""


@dataclasses.dataclass
class Index:
    """Where what happens in a trace."""

    records: int = 0
    starts_at: int = 0
    """position of the first mark: there was nothing to lose before it"""
    stages: dict[str, Places] = dataclasses.field(default_factory=dict)
    """by the node's stage, in the order in which they began"""
    changes: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    """positions at which a stage begins"""
    writes: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    """first and last position of each write of the coins"""
    flush_count: int = 0

    def stage_at(self, position: int) -> str:
        """Which stage the node was in."""
        return next(name for begin, name in reversed(self.changes) if begin <= position)

    def writing_at(self, position: int) -> bool:
        """Whether the coins were being written."""
        begins = bisect.bisect_right(self.writes, (position, self.records))
        return begins > 0 and position <= self.writes[begins - 1][1]


def index(path: Path) -> Index:
    """Reads a trace for plan(); ValueError when it has no mark."""
    found = Index()
    unflushed = 0
    marks: list[int] = []
    flushes: list[int] = []
    unflushed_at: list[int] = []
    begun: int | None = None
    changes: list[tuple[int, str]] = []
    commits: list[range] = []
    for record in request_trace.read(path):
        if TABLE in record.data:
            commits.append(range(found.records, found.records + ADDED_AFTER))
        elif META in record.data:
            commits.append(range(found.records - WRITTEN_BEFORE, found.records + 3))
        if record.kind == "f":
            flushes.append(found.records)
            unflushed = 0
        unflushed += record.kind in "wz"
        found.records += 1
        if unflushed:
            unflushed_at.append(found.records)
        if record.kind == "m":
            marks.append(found.records)
            facts = json.loads(record.data)
            if "writing" in facts:
                begun = found.records
            elif "height" in facts and begun is not None:
                found.writes.append((begun, found.records - 1))
                begun = None
            if "stage" in facts:
                changes.append((found.records, facts["stage"]))
    if not (marks and flushes and unflushed_at):
        raise ValueError(f"{path} lacks marks, flushes or writes; record it again")
    found.flush_count = len(flushes)
    found.starts_at = marks[0]
    # The node is in its first stage before it says so, after its first flush.
    found.changes = [(found.starts_at, changes[0][1] if changes else ""), *changes[1:]]
    for kind, positions in (("flushes", flushes), ("open", unflushed_at), ("marks", marks)):
        for position in positions:
            if position < found.starts_at:
                continue
            places = found.stages.setdefault(found.stage_at(position), Places())
            getattr(places, kind).append(position)
            if kind != "marks" and found.writing_at(position):
                (places.writing if kind == "open" else places.steps).append(position)
    for commit in commits:
        if commit.start >= found.starts_at and found.writing_at(commit.stop - 1):
            found.stages[found.stage_at(commit.start)].commits.append(commit)
    return found


def plan(found: Index, count: int, seed: int, policies: tuple[str, ...]) -> list[State]:
    """``count`` states, sorted by position; the same for the same arguments.

    Of ten, four are anywhere where something is not flushed, four near a flush (most before
    it: then most is unflushed), and two just after a mark, when what was acknowledged is
    youngest. Of a trace that says when coins are written, two of each four are then, one of them
    where they begin to count. The policies take turns, and so do the node's stages. A longer plan
    begins with the shorter one's numbers.
    """
    chance = random.Random(seed)
    states = []
    for number in range(count):
        turn = number // len(policies)
        places = list(found.stages.values())[turn % len(found.stages)]
        what = turn // len(found.stages) % 10
        if places.commits and what in (3, 7):
            position = chance.choice(chance.choice(places.commits))
        elif places.writing and what == 2:
            position = chance.choice(places.writing)
        elif places.steps and what == 6:
            # Above, a large write counts as many requests; here, as its few steps.
            position = chance.choice(places.steps) + chance.randint(0, 1)
        elif what < 4:
            position = chance.choice(places.open)
        elif what < 8:
            position = chance.choice(places.flushes) - chance.randint(-1, NEAR)
        else:
            position = chance.choice(places.marks) + chance.randint(0, NEAR)
        position = min(max(position, found.starts_at), found.records)
        policy = policies[number % len(policies)]
        stage, writing = found.stage_at(position), found.writing_at(position)
        states.append(State(position, number, policy, seed, stage, writing))
    return sorted(states)


class Medium:
    """The disk of the trace at a position that only grows."""

    def __init__(self, base: Path, trace: Path, medium: Path, seed: int, *, lies: bool) -> None:
        """``base``: the image that the trace began with; ``medium``: file for this object.

        ``seed``: of the campaign, decides what a full cache writes. ``lies``: flushes are
        ignored, and the cache is small.
        """
        copy(base, medium)
        self.path = medium
        self.position = 0
        self.acknowledged = Acknowledged()
        capacity = LIES_CACHE if lies else CACHE_BYTES
        self.disk = VolatileCache(str(medium), seed, lies=lies, capacity=capacity)
        self._records = request_trace.read(trace)

    def advance(self, position: int) -> None:
        """Serves requests up to that position; ValueError if it lies back or behind the end."""
        if position < self.position:
            raise ValueError(f"position {position} was passed at {self.position}")
        while self.position < position:
            try:
                record = next(self._records)
            except StopIteration:
                raise ValueError(f"the trace ends at {self.position}") from None
            if record.kind == "m":
                self.acknowledged.learn(record.data.decode())
            else:
                record.apply(self.disk)
            self.position += 1

    def make(self, state: State, image: Path) -> tuple[Outcome, str]:
        """Writes the disk of that state; returns figures, and a digest of what is on it.

        States with equal digests are the same disk.
        """
        self.advance(state.position)
        outcome, survivors = self.disk.survivors(state.policy, state.chance())
        return outcome, self.write(survivors, image)

    def write(self, survivors: dict[int, bytes], image: Path) -> str:
        """Writes the disk with what survives a cut now; a digest of what is on it."""
        overwrite(self.path, image)
        digest = hashlib.sha256(f"{self.disk.flushes}".encode())
        file = os.open(image, os.O_WRONLY)
        try:
            for offset, data in self.disk.runs(survivors):
                os.pwrite(file, data, offset)
                digest.update(b"%d %d " % (offset, len(data)) + data)
        finally:
            os.close(file)
        return digest.hexdigest()[:16]


def copy(source: Path, target: Path) -> None:
    """A sparse copy; shares the blocks where the file system can."""
    subprocess.run(["cp", "--sparse=auto", "--reflink=auto", str(source), str(target)], check=True)


def overwrite(source: Path, target: Path) -> None:
    """As copy(), but the target's pages are used again: half the work of new ones in memory."""
    if not target.exists():
        copy(source, target)
        return
    buffer = memoryview(bytearray(COPIED))
    with source.open("rb", buffering=0) as old, target.open("r+b", buffering=0) as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        position = 0
        for begin, end in (*sparse.data(old.fileno(), 0, size), (size, size)):
            sparse.write_zeros(new.fileno(), position, begin)
            for offset in range(begin, end, COPIED):
                piece = buffer[: min(COPIED, end - offset)]
                os.preadv(old.fileno(), [piece], offset)
                os.pwrite(new.fileno(), piece, offset)
            position = end


def cut_policies() -> tuple[str, ...]:
    """The policies that lose something."""
    return tuple(policy for policy in POLICIES if policy != "keep-all")

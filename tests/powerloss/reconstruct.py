"""Disks as a power cut could have left them, made from a trace: no machine runs.

A state is a position in the trace (so many records had been served), a policy for what was
not flushed then, and a number to draw from. plan() chooses states; Medium makes them, in
the order of their positions, by serving the trace to a disk of its own once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import subprocess
from pathlib import Path

from lab import request_trace
from lab.volatile_cache import CACHE_BYTES, POLICIES, Outcome, VolatileCache

#: How far from a flush or a mark a position that is aimed at it lies, in records.
NEAR = 4
#: Bytes of the cache of a disk that ignores flushes: it loses the newest, not everything.
LIES_CACHE = 2 << 20


@dataclasses.dataclass(frozen=True, order=True)
class State:
    """What to reconstruct; sorts by position."""

    position: int
    number: int
    policy: str
    seed: int
    """of the campaign"""

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

    def learn(self, text: str) -> None:
        """Takes in a mark: a JSON object of the fields above; labels are added."""
        for name, value in json.loads(text).items():
            if name == "labels":
                self.labels.update(value)
            elif name in {"height", "block", "wallet"}:
                setattr(self, name, value)


@dataclasses.dataclass
class Index:
    """Where what happens in a trace."""

    records: int = 0
    flushes: list[int] = dataclasses.field(default_factory=list)
    """positions just before a flush"""
    open: list[int] = dataclasses.field(default_factory=list)
    """positions at which something is not flushed"""
    marks: list[int] = dataclasses.field(default_factory=list)
    """positions just after a mark"""
    starts_at: int = 0
    """position of the first mark: there was nothing to lose before it"""


def index(path: Path) -> Index:
    """Reads a trace for plan(); ValueError when it has no mark."""
    found = Index()
    unflushed = 0
    for record in request_trace.read(path, data=False):
        if record.kind == "f":
            found.flushes.append(found.records)
            unflushed = 0
        unflushed += record.kind in "wz"
        found.records += 1
        if unflushed:
            found.open.append(found.records)
        if record.kind == "m":
            found.marks.append(found.records)
    if not (found.marks and found.flushes and found.open):
        raise ValueError(f"{path} lacks marks, flushes or writes; record it again")
    found.starts_at = found.marks[0]
    found.flushes = [position for position in found.flushes if position >= found.starts_at]
    found.open = [position for position in found.open if position >= found.starts_at]
    return found


def plan(found: Index, count: int, seed: int, policies: tuple[str, ...]) -> list[State]:
    """``count`` states, sorted by position; the same for the same arguments.

    Of ten, four are anywhere where something is not flushed, four near a flush (most before
    it: then most is unflushed), and two just after a mark, when what was acknowledged is
    youngest. The policies take
    turns. A longer plan begins with the shorter one's numbers.
    """
    chance = random.Random(seed)
    states = []
    for number in range(count):
        what = number // len(policies) % 10
        if what < 4:
            position = chance.choice(found.open)
        elif what < 8:
            position = chance.choice(found.flushes) - chance.randint(-1, NEAR)
        else:
            position = chance.choice(found.marks) + chance.randint(0, NEAR)
        position = min(max(position, found.starts_at), found.records)
        states.append(State(position, number, policies[number % len(policies)], seed))
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
        copy(self.path, image)
        digest = hashlib.sha256(f"{self.disk.flushes}".encode())
        file = os.open(image, os.O_WRONLY)
        try:
            for offset, data in self.disk.runs(survivors):
                os.pwrite(file, data, offset)
                digest.update(b"%d %d " % (offset, len(data)) + data)
        finally:
            os.close(file)
        return outcome, digest.hexdigest()[:16]


def copy(source: Path, target: Path) -> None:
    """A sparse copy; shares the blocks where the file system can."""
    subprocess.run(["cp", "--sparse=auto", "--reflink=auto", str(source), str(target)], check=True)


def cut_policies() -> tuple[str, ...]:
    """The policies that lose something."""
    return tuple(policy for policy in POLICIES if policy != "keep-all")

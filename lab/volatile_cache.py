"""A disk with a volatile write cache: what a power cut leaves of it.

Killing a virtual machine loses nothing that it has written, because the host keeps it. A
real disk keeps in RAM what it was not asked to flush. This model has two layers:

    image file    what is on the medium: survives
    cache         sectors written since: per sector each version, oldest first

A flush, or a write with FUA for its own sectors, moves the newest versions to the
medium. cut() decides for each sector what the medium has of it, by a policy and a seed;
the same seed after the same requests gives the same outcome.

What a disk promises, and this one keeps unless `lies` is set: what was flushed survives.
What it does not promise: any order among the rest, or that a write is there as a whole.
A sector is written as a whole or not at all, except in the policy "torn".
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable, Iterator

from lab import sparse

#: Smallest unit that a disk writes, and at which writes are torn.
SECTOR = 512
#: A disk's cache is small; what exceeds this goes to the medium in any order.
CACHE_BYTES = 64 << 20
#: Larger ranges of zeros go to the medium at once: whole-disk discards of mkfs.
ZERO_BYTES = 1 << 20

POLICIES = ("keep-all", "drop-all", "drop-some", "reorder", "torn")

#: Contents of a sector that were written and not flushed: number of the request, content.
Versions = list[tuple[int, bytes]]
#: Which of a sector's versions survives, None for what is on the medium.
Choice = Callable[[int, Versions], int | None]


@dataclasses.dataclass
class Outcome:
    """What a cut did, for the log."""

    policy: str
    seed: int
    writes: int
    """Requests with at least one version in the cache."""
    sectors: int
    """Sectors that were not flushed."""
    kept: int
    """Of these, on the medium with their newest content."""
    mixed: int
    """Of these, on the medium with an older content than the newest, but not the oldest."""


class VolatileCache:
    """The disk. Not thread-safe: one request at a time."""

    def __init__(
        self,
        path: str,
        seed: int = 0,
        *,
        lies: bool = False,
        unit: int = SECTOR,
        capacity: int = CACHE_BYTES,
    ) -> None:
        """Opens the image file.

        ``lies``: flushes and FUA are acknowledged and ignored, as by broken cards.
        ``unit``: bytes that the disk writes as one, 512 or 4096.
        ``capacity``: bytes of the cache.
        """
        if unit % SECTOR:
            raise ValueError(f"a unit of {unit} bytes is no multiple of {SECTOR}")
        self.file = os.open(path, os.O_RDWR)
        self.seed = seed
        self.random = random.Random(seed)
        self.lies = lies
        self.unit = unit
        self.capacity = capacity
        self.serial = 0
        #: by sector; oldest version first
        self.cache: dict[int, Versions] = {}
        self.flushes = 0

    @property
    def size(self) -> int:
        """Bytes of the disk."""
        return os.fstat(self.file).st_size

    def read(self, offset: int, count: int) -> bytes:
        """The newest content, from the cache or the medium."""
        data = bytearray(os.pread(self.file, count, offset))
        if self.cache:
            for sector in range(offset // SECTOR, (offset + count - 1) // SECTOR + 1):
                if versions := self.cache.get(sector):
                    begin = sector * SECTOR - offset
                    part = versions[-1][1]
                    if begin < 0:
                        part, begin = part[-begin:], 0
                    part = part[: count - begin]
                    data[begin : begin + len(part)] = part
        return bytes(data)

    def write(self, offset: int, data: bytes, *, fua: bool = False) -> None:
        """A request; ``fua``: it is on the medium when this returns."""
        if offset % SECTOR or len(data) % SECTOR:
            # The edges of what is no whole sector
            begin = offset - offset % SECTOR
            end = -(-(offset + len(data)) // SECTOR) * SECTOR
            whole = bytearray(self.read(begin, end - begin))
            whole[offset - begin : offset - begin + len(data)] = data
            offset, data = begin, bytes(whole)
        self.serial += 1
        first = offset // SECTOR
        if fua and not self.lies:
            os.pwrite(self.file, data, offset)
            for sector in range(first, first + len(data) // SECTOR):
                self.cache.pop(sector, None)
            return
        view = memoryview(data)
        for index in range(len(data) // SECTOR):
            part = bytes(view[index * SECTOR : (index + 1) * SECTOR])
            self.cache.setdefault(first + index, []).append((self.serial, part))
        if len(self.cache) * SECTOR > self.capacity:
            self._write_back()

    def zero(self, offset: int, count: int, *, fua: bool = False) -> None:
        """Writes zeros."""
        if count < ZERO_BYTES or offset % SECTOR or count % SECTOR:
            self.write(offset, bytes(count), fua=fua)
            return
        # holes of the image file stay holes: most of a new disk is
        sparse.write_zeros(self.file, offset, offset + count)
        first, last = offset // SECTOR, (offset + count) // SECTOR
        for sector in [s for s in self.cache if first <= s < last]:
            del self.cache[sector]

    def flush(self) -> None:
        """All that was written is on the medium when this returns."""
        self.flushes += 1
        if self.lies:
            return
        self._to_medium({s: v[-1][1] for s, v in self.cache.items()})
        self.cache.clear()

    def cut(self, policy: str) -> Outcome:
        """The power fails: writes the outcome to the medium and forgets the cache."""
        outcome, survivors = self.survivors(policy, self.random)
        self._to_medium(survivors)
        self.cache.clear()
        return outcome

    def survivors(self, policy: str, chance: random.Random) -> tuple[Outcome, dict[int, bytes]]:
        """What a cut now would leave: its figures, and what it writes, by sector.

        Changes neither the cache nor the medium. ``chance``: where the choice comes from.
        """
        if policy not in POLICIES:
            raise ValueError(f"unknown policy '{policy}'; these are known: {', '.join(POLICIES)}")
        requests = self.requests()
        choose = getattr(self, "_" + policy.replace("-", "_"))(requests, chance)
        return self._survivors(policy, len(requests), choose)

    def requests(self) -> list[int]:
        """Numbers of the requests with something that was not flushed, oldest first."""
        return sorted({serial for versions in self.cache.values() for serial, _ in versions})

    def survivors_of(
        self, policy: str, alive: Callable[[int], bool]
    ) -> tuple[Outcome, dict[int, bytes]]:
        """As survivors(), if of those requests that ``alive`` names all is left, of others nothing.

        ``policy``: a name for the outcome.
        """
        return self._survivors(
            policy, len(self.requests()), lambda _sector, versions: self._newest(versions, alive)
        )

    def _survivors(
        self, policy: str, requests: int, choose: Choice
    ) -> tuple[Outcome, dict[int, bytes]]:
        outcome = Outcome(policy, self.seed, requests, len(self.cache), 0, 0)
        survivors: dict[int, bytes] = {}
        for sector in sorted(self.cache):
            versions = self.cache[sector]
            kept = choose(sector, versions)
            if kept is None:
                continue
            survivors[sector] = versions[kept][1]
            if kept == len(versions) - 1:
                outcome.kept += 1
            else:
                outcome.mixed += 1
        return outcome, survivors

    # -- policies: each returns a function that says which version of a sector survives

    def _keep_all(self, _requests: list[int], _chance: random.Random) -> Choice:
        return lambda _sector, versions: len(versions) - 1

    def _drop_all(self, _requests: list[int], _chance: random.Random) -> Choice:
        return lambda _sector, _versions: None

    def _drop_some(self, requests: list[int], chance: random.Random) -> Choice:
        """Each request survives as a whole or not at all."""
        share = chance.random()
        alive = {serial for serial in requests if chance.random() < share}
        return lambda _sector, versions: self._newest(versions, alive.__contains__)

    def _reorder(self, _requests: list[int], chance: random.Random) -> Choice:
        """Each unit of the disk is as it was at any moment, on its own."""
        share = chance.random()
        moments: dict[int, set[int]] = {}
        for sector, versions in self.cache.items():
            moments.setdefault(sector * SECTOR // self.unit, set()).update(s for s, _ in versions)
        chosen = {
            unit: 0 if chance.random() < share else chance.choice(sorted(moments[unit]))
            for unit in sorted(moments)
        }

        def choose(sector: int, versions: Versions) -> int | None:
            moment = chosen[sector * SECTOR // self.unit]
            return self._newest(versions, lambda s: s <= moment)

        return choose

    def _torn(self, requests: list[int], chance: random.Random) -> Choice:
        """All requests up to one survive; that one only from its start to some sector."""
        if not requests:
            return self._drop_all(requests, chance)
        last = chance.choice(requests)
        sectors = sorted(
            sector
            for sector, versions in self.cache.items()
            if any(serial == last for serial, _ in versions)
        )
        end = sectors[chance.randrange(len(sectors))]

        def choose(sector: int, versions: Versions) -> int | None:
            return self._newest(versions, lambda s: s < last or (s == last and sector < end))

        return choose

    # -- helpers

    @staticmethod
    def _newest(versions: Versions, alive: Callable[[int], bool]) -> int | None:
        for index in range(len(versions) - 1, -1, -1):
            if alive(versions[index][0]):
                return index
        return None

    @staticmethod
    def runs(sectors: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
        """Joins neighbouring sectors: (offset, content)."""
        run: list[bytes] = []
        begin = previous = -2
        for sector in sorted(sectors):
            if sector != previous + 1 and run:
                yield begin * SECTOR, b"".join(run)
                run = []
            if not run:
                begin = sector
            run.append(sectors[sector])
            previous = sector
        if run:
            yield begin * SECTOR, b"".join(run)

    def _to_medium(self, sectors: dict[int, bytes]) -> None:
        for begin, data in self.runs(sectors):
            os.pwrite(self.file, data, begin)

    def _write_back(self) -> None:
        """The cache is full: some of it goes to the medium, in no order."""
        chosen = self.random.sample(sorted(self.cache), len(self.cache) // 4)
        self._to_medium({s: self.cache[s][-1][1] for s in chosen})
        for sector in chosen:
            del self.cache[sector]

"""bitcoin-dbconvert, cut at any step: what is left is a whole set, and everybody uses the same one.

steps.c, beside this file, writes down what the converter does to names, and ends it before a
given step. The states of a power cut follow from that: of the steps that no sync has brought to the
disk, any may be missing.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.node import Node, free_port
from lab.paths import ROOT

pytestmark = pytest.mark.slow  # the converter, ended at each third of its steps
#: Each step; otherwise each third one, which is what CI has time for.
THOROUGH = bool(os.environ.get("CAIRN_THOROUGH"))

ENGINES = ["leveldb", "lmdb"]
#: The node's databases, relative to its chain's folder.
DATABASES = ["chainstate", "blocks/index", "indexes/txindex"]
OPTIONS = ["-txindex", "-prune=0", "-fastprune=0"]
#: The converter's status when steps.c has ended it.
ENDED = 99


def other(engine: str) -> str:
    """The one that is not meant."""
    return ENGINES[1 - ENGINES.index(engine)]


@dataclass
class Machine:
    """A root folder like that of the image, with a node's data, and programs to work on it."""

    path: Path
    programs: Path
    steps: Path

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.path / "var/lib/bitcoind"

    def databases(self) -> list[Path]:
        """Where the databases are."""
        return [self.data / "regtest" / name for name in DATABASES]

    def copy(self, path: Path) -> Machine:
        """Another machine with the same data."""
        shutil.rmtree(path, ignore_errors=True)
        command = ["cp", "-a", "--sparse=always", "--reflink=auto", str(self.path), str(path)]
        subprocess.run(command, check=True)
        return Machine(path, self.programs, self.steps)

    def node(self, engine: str) -> Node:
        """The daemon, up."""
        bitcoind = self.programs / "bitcoind"
        return Node(
            self.data,
            self.path,
            *OPTIONS,
            engine=engine,
            chain="regtest",
            port=free_port(),
            bitcoind=bitcoind,
        )

    def coins(self, engine: str) -> tuple[int, str]:
        """Height and hash of all coins that the daemon has with this engine."""
        with self.node(engine) as node:
            answer = node.call("gettxoutsetinfo", "muhash")
            node.stop()
        return answer["height"], answer["muhash"]

    def convert(
        self, *options: str, log: Path | None = None, end: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """The converter; its steps go to ``log``, and it ends before step ``end``, if given."""
        environment = dict(os.environ)
        if log:
            environment["LD_PRELOAD"] = str(self.steps)
            environment |= {"STEPS_FOLDER": str(self.data / "regtest"), "STEPS_LOG": str(log)}
            environment["STEPS_END"] = str(end)
        program = str(self.programs / "bitcoin-dbconvert")
        command = [program, str(self.data), "--chain=regtest", *options]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)

    def chosen(self) -> str:
        """The engine that node-tune sets."""
        (self.path / "usr/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(self.programs / "bitcoin-dbconvert", self.path / "usr/bin")
        (self.path / "run/cairn").mkdir(parents=True, exist_ok=True)
        records = "chain regtest\nchain-directory /regtest\n"
        (self.path / "run/cairn/node-conf.records").write_text(records)
        script = ROOT / "overlay/usr/lib/cairn/database-engine.sh"
        words = f'. "{script}"; database_engine "{self.path}" /var/lib/bitcoind nvme'
        command = ["sh", "-eu", "-c", f"{words}; echo $database_engine"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def shape(self) -> tuple[tuple[bool, ...], ...]:
        """What tells which databases are used: they and their markers."""
        names = ("CURRENT", "lmdb/data.mdb", "outdated.leveldb", "outdated.lmdb")
        return tuple(tuple((path / n).exists() for n in names) for path in self.databases())

    def listing(self) -> tuple[str, ...]:
        """All names."""
        top = self.data / "regtest"
        return tuple(sorted(str(path.relative_to(top)) for path in top.rglob("*")))

    def left_of(self, engine: str) -> list[Path]:
        """Files of this engine, and what the converter works with."""
        found = []
        for path in self.databases():
            for entry in path.iterdir():
                name = entry.name
                if name.startswith("convert.") or name == f"outdated.{engine}":
                    found.append(entry)
                elif name.startswith("outdated."):
                    continue
                elif (engine == "lmdb") == name.startswith("lmdb"):
                    found.append(entry)
        return found


@pytest.fixture(scope="session")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """steps.c, compiled."""
    path = tmp_path_factory.mktemp("steps") / "steps.so"
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(path)]
    subprocess.run([*command, str(Path(__file__).with_name("steps.c")), "-ldl"], check=True)
    return path


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where the daemon and the converter are."""
    path = Path(os.environ.get("CAIRN_BITCOIND", ROOT / "out/core/bin/bitcoind"))
    assert path.exists(), "bitcoind is not built; run 'make core'"
    return path.parent


@pytest.fixture(params=ENGINES)
def machine(memory: Path, programs: Path, steps: Path, request: pytest.FixtureRequest) -> Machine:
    """A node with some blocks and all of its databases, stopped."""
    made = Machine(memory / "made", programs, steps)
    made.data.mkdir(parents=True)
    with made.node(request.param) as node:
        node.call("generatetodescriptor", 120, "raw(51)")
        while not node.call("getindexinfo")["txindex"]["synced"]:
            pass
        node.stop()
    return made


@dataclass
class Check:
    """Whether a state is as it must be."""

    memory: Path
    source: str
    coins: tuple[int, str]
    started: dict[tuple[str, object], tuple[int, str]] = field(default_factory=dict)
    seen: set[tuple[str, ...]] = field(default_factory=set)

    def __call__(self, state: Machine, what: str) -> None:
        """All who choose an engine choose the same, it is whole, and the conversion goes on."""
        if (listing := state.listing()) in self.seen:
            return
        self.seen.add(listing)
        engine, shape = state.chosen(), state.shape()
        if (engine, shape) not in self.started:
            started = state.copy(self.memory / "started")
            self.started[engine, shape] = started.coins(engine)
            # The daemon has gone on with it, and the conversion goes on from there.
            self.finish(started, f"{what}, and a start with {engine}")
        assert self.started[engine, shape] == self.coins, what
        self.finish(state, what)

    def finish(self, state: Machine, what: str) -> None:
        """A second run ends with the target's databases and nothing else."""
        target = other(self.source)
        result = state.convert("--to", target, "--remove-source")
        nothing = "There is nothing to convert" in result.stderr
        assert result.returncode == (1 if nothing else 0), f"{what}: {result.stderr}"
        assert state.left_of(self.source) == [], what
        assert not any((path / f"outdated.{target}").exists() for path in state.databases()), what
        assert state.chosen() == target, what
        key = (target, state.shape())
        if key not in self.started or not nothing:
            assert state.coins(target) == self.coins, what


def lines(log: Path) -> list[list[str]]:
    """The steps in steps.c's log."""
    return [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []


def verified(steps: list[list[str]]) -> int:
    """The number of steps until all databases are converted and verified, and on the disk."""
    done = [n for n, step in enumerate(steps) if step[0] == "rename" and "convert.done" in step[2]]
    return next(n for n in range(done[-1], len(steps)) if steps[n][0] == "sync") + 1


def test_ended_at_each_step(machine: Machine, memory: Path, request: pytest.FixtureRequest) -> None:
    """The converter is killed before each of its steps once all is verified, and some before."""
    source = request.node.callspec.params["machine"]
    target = other(source)
    check = Check(memory, source, machine.coins(source))
    log = memory / "log"
    whole = machine.copy(memory / "whole")
    result = whole.convert("--to", target, "--remove-source", log=log)
    assert result.returncode == 0, result.stderr
    assert len(re.findall("records converted and verified", result.stderr)) == len(DATABASES)
    assert whole.coins(target) == check.coins
    steps = lines(log)
    begin = verified(steps)
    stride = 1 if THOROUGH else 3
    for end in [*range(1, begin, max(1, begin // 6)), *range(begin, len(steps) + 1, stride)]:
        state = machine.copy(memory / "state")
        assert (
            state.convert("--to", target, "--remove-source", log=log, end=end).returncode == ENDED
        )
        check(state, f"ended before step {end} of {len(steps)}: {steps[end - 1]}")


def apply(step: list[str], old: Path, new: Path) -> None:
    """Does on another machine what the converter did; what it needs may be missing there."""
    word, *paths = step
    path, *more = [new / Path(name).relative_to(old) for name in paths]
    if word == "create" and path.parent.is_dir():
        path.touch()
    elif word == "mkdir" and path.parent.is_dir():
        path.mkdir(exist_ok=True)
    elif word == "rename" and path.exists() and more[0].parent.is_dir():
        if path.is_dir() and more[0].is_dir() and any(more[0].iterdir()):
            return
        path.rename(more[0])
    elif word == "unlink":
        path.unlink(missing_ok=True)
    elif word == "rmdir" and path.is_dir() and not any(path.iterdir()):
        path.rmdir()


def pending(steps: list[list[str]]) -> list[int]:
    """Which of these steps no sync of their folder has brought to the disk."""
    left: list[int] = []
    for number, (word, *paths) in enumerate(steps):
        if word == "sync":
            left = [n for n in left if str(Path(steps[n][-1]).parent) != paths[0]]
        else:
            left.append(number)
    return left


def test_power_cut_at_each_step(
    machine: Machine, memory: Path, request: pytest.FixtureRequest
) -> None:
    """Of the steps that were not synced, any may be missing: none, all, one, the first, some."""
    source = request.node.callspec.params["machine"]
    target = other(source)
    check = Check(memory, source, machine.coins(source))
    log = memory / "log"
    whole = machine.copy(memory / "whole")
    assert whole.convert("--to", target, "--remove-source", log=log).returncode == 0
    steps = lines(log)
    begin = verified(steps)
    # The names' part of what follows; the content of the files is on the disk by then.
    base = machine.copy(memory / "base")
    log.unlink()
    ended = base.convert("--to", target, "--remove-source", log=log, end=begin + 1)
    assert ended.returncode == ENDED
    old, new = whole.data, memory / "state/var/lib/bitcoind"
    chance = random.Random(1)
    states: set[tuple[int, ...]] = set()
    for end in range(0, len(steps) - begin + 1, 1 if THOROUGH else 3):
        done = steps[begin : begin + end]
        lost = pending(done)
        choices = [set(), set(lost), set(lost[1:]), set(lost[:-1]), set(lost[:1]), set(lost[-1:])]
        choices += [set(chance.sample(lost, chance.randint(0, len(lost)))) for _ in range(2)]
        for missing in choices:
            left = tuple(n for n in range(end) if n not in missing and done[n][0] != "sync")
            if left in states:
                continue
            states.add(left)
            state = base.copy(memory / "state")
            for n in left:
                apply(done[n], old, new)
            check(state, f"cut at {end}, without {[done[n] for n in sorted(missing)]}")
    assert len(check.seen) > (20 if THOROUGH else 8)

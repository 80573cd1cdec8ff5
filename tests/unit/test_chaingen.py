"""bench/chaingen and lab/block_server.py: a stock node takes the chain, and gets the same coins."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.node import free_port
from tests.shared.commands import captured

pytestmark = pytest.mark.slow  # compiles the generator, syncs chains
SMALL = ("-blocks=300", "-txs=20", "-utxos=6000")


@dataclass
class Bench:
    """The generator, and a chain of each kind of scripts."""

    root: Path
    folder: Path

    def make(self, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs the generator; the chain is the file of that name."""
        script = str(self.root / "support/chaingen")
        return captured(script, f"-out={self.folder / name}", *options)

    def chain(self, scripts: str) -> tuple[Path, dict[str, Any]]:
        """A small chain and its summary, made once."""
        path, summary = self.folder / scripts, self.folder / f"{scripts}.json"
        if not path.exists():
            result = self.make(scripts, *SMALL, f"-scripts={scripts}")
            assert result.returncode == 0, result.stderr
            summary.write_text(result.stdout)
        return path, json.loads(summary.read_text())


@pytest.fixture(scope="session")
def bench(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The generator, compiled."""
    subprocess.run([str(root / "support/chaingen"), "-help"], check=True, stdout=subprocess.DEVNULL)
    return Bench(root, tmp_path_factory.mktemp("chaingen"))


@contextmanager
def feeder(root: Path, chain: Path) -> Iterator[str]:
    """The peer with that chain; yields the port."""
    command = [sys.executable, "-m", "lab.block_server", str(chain), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            fields = dict(word.split("=") for word in process.stdout.readline().split())
            yield fields["port"]
        finally:
            process.terminate()
    assert process.returncode == 0


@contextmanager
def source(root: Path, chain: Path, way: str) -> Iterator[tuple[str, ...]]:
    """The daemon's options to get the blocks from the peer, or from the file."""
    if way == "loadblock":
        yield f"-loadblock={chain}", "-connect=0"
    else:
        with feeder(root, chain) as port:
            yield (f"-connect=127.0.0.1:{port}",)


@dataclass
class Node:
    """The stock daemon, running on a chain of its own."""

    cli: list[str]
    process: subprocess.Popen[bytes]

    def rpc(self, *command: str) -> Any:  # noqa: ANN401 # JSON
        """The answer to a call."""
        result = subprocess.run([*self.cli, *command], check=True, capture_output=True, text=True)
        return json.loads(result.stdout)


@contextmanager
def node(root: Path, folder: Path, *options: str) -> Iterator[Node]:
    """Runs the stock daemon."""
    port = free_port()
    programs = root / "out/core-stock/bin"
    common = ["-regtest", f"-datadir={folder}", f"-rpcport={port}"]
    quiet = ["-listen=0", "-dnsseed=0", "-natpmp=0", "-printtoconsole=0"]
    process = subprocess.Popen([str(programs / "bitcoind"), *common, *quiet, *options])
    running = Node([str(programs / "bitcoin-cli"), *common, "-rpcwait"], process)
    try:
        yield running
        subprocess.run([*running.cli, "stop"], check=True, stdout=subprocess.DEVNULL)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def same_coins(running: Node, summary: dict[str, Any]) -> None:
    """The node gets to the tip, and to the generator's own sum of the coins."""
    running.rpc("waitforblock", summary["best_block"], "60000")
    info = running.rpc("gettxoutsetinfo", "muhash")
    assert info["height"] == summary["height"]
    assert info["bestblock"] == summary["best_block"]
    assert info["txouts"] == summary["utxos"] >= 6000
    assert info["muhash"] == summary["muhash"]
    assert running.rpc("getchaintxstats")["txcount"] == summary["transactions"]


def test_same_options_same_bytes(bench: Bench) -> None:
    """The chain is a function of its options; another seed is another one."""
    path, summary = bench.chain("signed")
    again = bench.make("again", *SMALL)
    assert again.returncode == 0
    assert (bench.folder / "again").read_bytes() == path.read_bytes()
    assert json.loads(again.stdout) == summary
    assert summary["bytes"] == path.stat().st_size
    other = bench.make("other", *SMALL, "-seed=2")
    assert json.loads(other.stdout)["best_block"] != summary["best_block"]


def share(summary: dict[str, Any], age: int) -> float:
    """The share of inputs up to that age in blocks."""
    return float(
        sum(step["share"] for step in summary["input_ages"] if step.get("to", 5000) <= age)
    )


def test_lives_of_coins(bench: Bench) -> None:
    """Four in five inputs are younger than a day, as on mainnet; -old=100 has no such habit."""
    summary = bench.chain("signed")[1]
    assert 0.75 < share(summary, 144) < 0.98
    assert sum(step["inputs"] for step in summary["input_ages"]) == summary["inputs"]
    old = json.loads(bench.make("old", *SMALL, "-old=100").stdout)
    assert share(old, 6) < share(summary, 6) * 0.6


@pytest.mark.parametrize("way", ["feeder", "loadblock"])
def test_assumed_valid(bench: Bench, root: Path, tmp_path: Path, way: str) -> None:
    """Signatures made up: a node that assumes the chain valid skips them."""
    path, summary = bench.chain("signed")
    assumed = f"-assumevalid={summary['best_block']}"
    with source(root, path, way) as blocks, node(root, tmp_path, assumed, *blocks) as running:
        same_coins(running, summary)


def test_signatures_are_made_up(bench: Bench, root: Path, tmp_path: Path) -> None:
    """A node that checks scripts stops at the first of them."""
    path, _ = bench.chain("signed")
    with feeder(root, path) as port, node(root, tmp_path, f"-connect=127.0.0.1:{port}") as running:
        end = time.monotonic() + 60
        while running.rpc("getblockcount") < 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        while not any(tip["status"] == "invalid" for tip in running.rpc("getchaintips")):
            assert time.monotonic() < end
            time.sleep(0.1)
        assert running.rpc("getblockcount") == 200


@pytest.mark.parametrize("way", ["feeder", "loadblock"])
def test_open_scripts_are_valid(bench: Bench, root: Path, tmp_path: Path, way: str) -> None:
    """With nothing to sign every script is checked, also by a second node and a pruning one."""
    path, summary = bench.chain("open")
    with source(root, path, way) as blocks:
        for number, option in enumerate(("-prune=550", "-prune=0")):
            folder = tmp_path / str(number)
            folder.mkdir()
            with node(root, folder, "-assumevalid=0", option, *blocks) as running:
                same_coins(running, summary)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-blocks=many"], "-blocks=many is out of range; give a whole number from 1 to"),
        (["-utxos=5"], "-utxos=5 is out of range"),
        (["-scripts=none"], "-scripts=none is unknown; use signed or open"),
        (["-blcoks=5"], "Invalid parameter -blcoks=5; -help lists the options"),
        (["-out="], "-out= is missing"),
        (["-out=/nowhere/chain"], "the file '/nowhere/chain.new' cannot be written"),
        (["-blocks=2", "-txs=2"], "too many for so few transactions; raise -blocks= or -txs="),
    ],
)
def test_wrong_options(bench: Bench, options: list[str], sentence: str) -> None:
    """One sentence, and no file."""
    result = bench.make("wrong", *options)
    assert result.returncode == 1
    assert sentence in result.stderr.splitlines()[-1]
    assert not list(bench.folder.glob("wrong*"))


def test_feeder_refuses_what_is_no_chain(bench: Bench, root: Path, tmp_path: Path) -> None:
    """A file that is cut off, or none."""
    path, _ = bench.chain("open")
    cut = tmp_path / "cut"
    cut.write_bytes(path.read_bytes()[:-1])
    for file, sentence in ((cut, "is cut off"), (tmp_path / "none", "No such file")):
        command = [sys.executable, "-m", "lab.block_server", str(file)]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        assert result.returncode == 1
        assert sentence in result.stderr
        assert len(result.stderr.splitlines()) == 1

"""lab/node.py and the daemon that bench/ measures: start, wait, log, stop, with a stand-in."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from bench import plan, run_node
from bench.run_node import Measured, RunError
from lab.limits import MemoryGroup
from lab.node import Daemon, DidNotStart, Node, free_port
from lab.paths import ROOT
from lab.rpc import RpcError
from tests.shared.commands import program

FAKE = [sys.executable, str(ROOT / "tests/shared/fake_bitcoind.py")]


@pytest.fixture
def bitcoind(tmp_path: Path) -> Path:
    """The stand-in as one program."""
    return program(tmp_path / "bitcoind", f"exec '{FAKE[0]}' '{FAKE[1]}' \"$@\"")


def node(bitcoind: Path, folder: Path, *options: str, timeout: float = 60) -> Node:
    """A node of lab/ on the made-up chain of tests."""
    return Node(
        folder / "data",
        folder,
        *options,
        engine="lmdb",
        chain="regtest",
        port=free_port(),
        bitcoind=bitcoind,
        timeout=timeout,
    )


def uses(cmdline: Path, folder: Path) -> bool:
    """Whether the process of this file of /proc has its cookie in the folder."""
    try:
        return f"-rpccookiefile={folder}/cookie" in cmdline.read_text(errors="replace")
    except OSError:
        return False


def test_node_starts_and_stops(bitcoind: Path, tmp_path: Path) -> None:
    """It is up when it is there, has its options and a cookie off the data, and ends by itself."""
    (tmp_path / "cookie").write_text("of an earlier start")
    with node(bitcoind, tmp_path, "-prune=0") as up:
        assert up.call("uptime") == 1
        with pytest.raises(RpcError, match="Method not found"):
            up.call("no such thing")
        assert up.stop() == 0
    said = up.log.read_text()
    options = said.splitlines()[0].split(" options ")[1].split()
    assert {"-dbbackend=lmdb", "-chain=regtest", "-dbcache=4", "-listen=0"} <= set(options)
    # what a test asks for comes later, so it counts
    assert options.index("-prune=1") < options.index("-prune=0")
    assert options.count("-logtimestamps=0") == options.count("-nodebuglogfile") == 1
    assert f"-rpccookiefile={tmp_path}/cookie" in options
    assert "Shutdown: done" in said


def test_node_is_waited_for(bitcoind: Path, tmp_path: Path) -> None:
    """First nobody listens, then it says that it loads."""
    began = time.monotonic()
    with node(bitcoind, tmp_path, "-fakesilent=0.5", "-fakewarm=3"):
        assert time.monotonic() - began > 0.5


def test_node_ends_early(bitcoind: Path, tmp_path: Path) -> None:
    """The sentence has its status and the error of its log."""
    with pytest.raises(DidNotStart, match=r"ended with 3: .*Error: Unable to open the fake"):
        node(bitcoind, tmp_path, "-fakeend=3")


@pytest.mark.parametrize("option", ["-fakesilent=60", "-fakewarm=1000000"])
def test_node_does_not_answer(bitcoind: Path, tmp_path: Path, option: str) -> None:
    """It is given up, and killed."""
    with pytest.raises(DidNotStart, match="no answer in 3 s: "):
        node(bitcoind, tmp_path, option, timeout=3)
    listed = [file for file in Path("/proc").glob("[0-9]*/cmdline") if uses(file, tmp_path)]
    assert not listed


def test_context_kills(bitcoind: Path, tmp_path: Path) -> None:
    """Whatever happens inside; twice is as good as once."""
    with pytest.raises(ZeroDivisionError), node(bitcoind, tmp_path) as up:
        raise ZeroDivisionError
    assert up.process.returncode == -9
    up.kill()
    assert "Shutdown" not in up.log.read_text()


def test_environment_and_limit(tmp_path: Path) -> None:
    """The one is added to this process's, the other runs in the daemon's process."""
    joined = tmp_path / "joined"
    with Daemon(
        FAKE,
        tmp_path,
        port=free_port(),
        environment={"FAKE": "yes"},
        limit=lambda: joined.write_text(str(os.getpid())),
    ) as daemon:
        daemon.wait(60)
        assert joined.read_text() == str(daemon.process.pid)
        assert "FAKE=yes" in daemon.log.read_text()
    assert "FAKE" not in os.environ


@pytest.fixture
def variant(monkeypatch: pytest.MonkeyPatch) -> plan.Variant:
    """One whose daemon is the stand-in."""
    monkeypatch.setattr(run_node, "command_of", lambda _: FAKE)
    monkeypatch.setattr(run_node, "RPC_PORT", free_port())
    return plan.Variant("fake", "", environment={"FAKE": "measured"})


def test_measured(tmp_path: Path, variant: plan.Variant) -> None:
    """Times are those of the log's lines; what it used is known while it runs."""
    group = MemoryGroup(None)
    daemon = Measured(variant, tmp_path / "data", tmp_path, group, "-fakesilent=0.5")
    try:
        seconds, found = daemon.until(r"UpdateTip: new best=(\w+) height=7 ")
        assert 0.5 < seconds < 60
        assert found[1] == "ab"
        daemon.until("FAKE=measured")
        options = daemon.until(" options (.*)")[1][1].split()
        assert {"-listen=0", "-logtimemicros", f"-datadir={tmp_path}/data"} <= set(options)
        usage = daemon.usage()
        assert usage["rss_mib"] >= usage["rss_anonymous_mib"] > 1
        assert 0 < daemon.stop_time() < 60
    finally:
        daemon.kill()


def test_measured_ends_otherwise(tmp_path: Path, variant: plan.Variant) -> None:
    """Before the line that is waited for, in silence, or with a status after stop."""
    group = MemoryGroup(None)
    early = Measured(variant, tmp_path, tmp_path, group, "-fakeend=4")
    with pytest.raises(RunError, match=rf"bitcoind ended with 4; see {tmp_path}/bitcoind.log"):
        early.until("Done loading")
    with Measured(variant, tmp_path, tmp_path, group, "-fakestatus=5") as late:
        with pytest.raises(RunError, match="came to a stop"):
            list(late.lines(patience=1))
        late.wait(60)
        with pytest.raises(RunError, match="stopped with 5"):
            late.stop_time()

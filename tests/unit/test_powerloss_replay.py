"""Traces of a disk, the states that are made of them, and the report."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import request_trace, rpc
from lab.paths import ROOT
from lab.request_trace import Record
from lab.volatile_cache import CACHE_BYTES, SECTOR, VolatileCache
from lab.volatile_disk import VolatileDisk
from tests.powerloss import reconstruct, report
from tests.powerloss.source import transaction
from tests.powerloss.workload import written_back

SECTORS = 64
POLICIES = reconstruct.cut_policies()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A small disk."""
    path = tmp_path / "base"
    path.write_bytes(random.Random(0).randbytes(SECTORS * SECTOR))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Some hundred requests of all kinds, with marks."""
    chance = random.Random(3)
    path = tmp_path / "trace"
    writer = request_trace.Writer(str(path))
    for number in range(400):
        begin = chance.randrange(SECTORS * SECTOR)
        count = chance.randrange(1, min(5000, SECTORS * SECTOR - begin) + 1)
        what = chance.randrange(10)
        if what < 6:
            writer.write(begin, chance.randbytes(count), fua=what == 0)
        elif what == 6:
            writer.zero(begin, count, fua=chance.random() < 0.5)
        elif what == 7:
            writer.flush()
        else:
            writer.mark(json.dumps({"height": number, "block": f"b{number}"}))
    writer.close()
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Each kind of record; without data, too."""
    path = tmp_path / "trace"
    writer = request_trace.Writer(str(path))
    writer.write(512, b"abc")
    writer.write(1 << 40, b"", fua=True)
    writer.zero(0, 1 << 30)
    writer.zero(7, 8, fua=True)
    writer.flush()
    writer.mark("height ä")
    writer.close()
    expected = [
        Record("w", 512, 3, b"abc"),
        Record("W", 1 << 40, 0),
        Record("z", 0, 1 << 30),
        Record("Z", 7, 8),
        Record("f"),
        Record("m", 0, 9, "height ä".encode()),
    ]
    assert list(request_trace.read(path)) == expected
    expected[0] = Record("w", 512, 3)
    assert list(request_trace.read(path, data=False)) == expected


def test_a_damaged_trace_is_refused(tmp_path: Path, trace: Path) -> None:
    """One sentence that says what to do."""
    cut = tmp_path / "cut"
    cut.write_bytes(trace.read_bytes()[:-1])
    with pytest.raises(ValueError, match="ends within a record; record it again"):
        list(request_trace.read(cut))
    cut.write_bytes(b"x" * 50)
    with pytest.raises(ValueError, match="is damaged before byte 13; record it again"):
        list(request_trace.read(cut))
    cut.write_bytes(b"")
    with pytest.raises(ValueError, match="lacks marks, flushes or writes"):
        reconstruct.index(cut)


@pytest.mark.parametrize("lies", [False, True])
def test_a_state_is_what_a_cut_leaves(
    tmp_path: Path, base: Path, trace: Path, lies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes as from a disk that serves the trace up to there and loses its power."""
    monkeypatch.setattr(reconstruct, "LIES_CACHE", 8 * SECTOR)
    records = list(request_trace.read(trace))
    states = reconstruct.plan(reconstruct.index(trace), 80, 5, POLICIES)
    medium = reconstruct.Medium(base, trace, tmp_path / "medium", 5, lies=lies)
    image, other = tmp_path / "image", tmp_path / "other"
    for state in states:
        outcome, _ = medium.make(state, image)
        shutil.copy(base, other)
        capacity = 8 * SECTOR if lies else CACHE_BYTES
        disk = VolatileCache(str(other), 5, lies=lies, capacity=capacity)
        for record in records[: state.position]:
            record.apply(disk)
        disk.random = state.chance()
        assert disk.cut(state.policy) == outcome
        assert image.read_bytes() == other.read_bytes()
        heights = [json.loads(r.data)["height"] for r in records[: state.position] if r.kind == "m"]
        assert medium.acknowledged.height == heights[-1]


def test_a_state_alone_is_the_same(tmp_path: Path, base: Path, trace: Path) -> None:
    """Without the ones before it: a failure can be looked at again."""
    states = reconstruct.plan(reconstruct.index(trace), 40, 1, POLICIES)
    medium = reconstruct.Medium(base, trace, tmp_path / "medium", 1, lies=False)
    digests = {state.number: medium.make(state, tmp_path / "image")[1] for state in states}
    assert len(set(digests.values())) > 20
    for state in states[::7]:
        alone = reconstruct.Medium(base, trace, tmp_path / "alone", 1, lies=False)
        assert alone.make(state, tmp_path / "image")[1] == digests[state.number]


def test_positions_only_grow(tmp_path: Path, base: Path, trace: Path) -> None:
    """Going back, or too far, is an error."""
    medium = reconstruct.Medium(base, trace, tmp_path / "medium", 1, lies=False)
    medium.advance(10)
    with pytest.raises(ValueError, match="position 9 was passed at 10"):
        medium.advance(9)
    with pytest.raises(ValueError, match="the trace ends at 400"):
        medium.advance(401)


def test_plan(trace: Path) -> None:
    """Sorted, the same for a seed, another for another; a longer one contains a shorter one."""
    index = reconstruct.index(trace)
    assert index.records == 400
    states = reconstruct.plan(index, 400, 1, POLICIES)
    assert states == sorted(states) == reconstruct.plan(index, 400, 1, POLICIES)
    assert set(reconstruct.plan(index, 100, 1, POLICIES)) < set(states)
    assert [s.position for s in reconstruct.plan(index, 400, 2, POLICIES)] != [
        s.position for s in states
    ]
    assert {state.policy for state in states} == set(POLICIES)
    assert all(index.starts_at <= state.position <= index.records for state in states)
    assert sum(state.position in index.open for state in states) > 200


def test_acknowledged() -> None:
    """Later marks count; labels are added; other facts are for people."""
    known = reconstruct.Acknowledged()
    known.learn('{"phase": 1}')
    assert known == reconstruct.Acknowledged()
    known.learn('{"height": 5, "block": "b"}')
    known.learn('{"wallet": "w"}')
    known.learn('{"labels": {"a": 1}}')
    known.learn('{"labels": {"b": 2}}')
    known.learn('{"labels": {"a": 3}}')
    assert known == reconstruct.Acknowledged(5, "b", "w", {"a": 3, "b": 2})


@pytest.mark.skipif(not shutil.which("nbdkit"), reason="needs nbdkit")
def test_the_disk_writes_a_trace(tmp_path: Path, qemu_io: Callable[..., None]) -> None:
    """Requests of a real NBD client and marks, in their order."""
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 20))
    disk = VolatileDisk(image, tmp_path, 1, trace=tmp_path / "trace")
    disk.start()
    for script in (["write -P 1 0 4k", "flush"], ["write -f -P 2 4k 4k"], ["write -z 8k 4k"]):
        qemu_io(disk.socket, *script)
        disk.ask(f"mark {script[0]}")
    disk.cut("drop-all")
    found = [(r.kind, r.offset, r.length) for r in request_trace.read(tmp_path / "trace")]
    writes = [record for record in found if record[0] != "f"]
    assert writes == [
        ("w", 0, 4096),
        ("m", 0, 15),
        ("W", 4096, 4096),
        ("m", 0, 19),
        ("z", 8192, 4096),
        ("m", 0, 14),
    ]
    assert found[1][0] == "f"


def test_some_files_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel writes by itself a flush of the disk saves, whatever the node forgot."""
    names = [f"rev{number:05}.dat" for number in range(60)]
    for name in names:
        (tmp_path / name).touch()
    written: dict[int, set[str]] = {}

    def write(file: int, *_: int) -> None:
        written[seed].add(Path(f"/proc/self/fd/{file}").readlink().name)

    monkeypatch.setattr(os, "posix_fadvise", write)
    for seed in (1, 2):
        written[seed] = set()
        with written_back(tmp_path, seed):
            time.sleep(0.5)
        assert 10 < len(written[seed]) < 55
    assert written[1] != written[2]


def test_transaction() -> None:
    """As Bitcoin serializes it, with counts of one byte and of three."""
    name = bytes(range(32))
    assert transaction([(name, 3, 10)], [4, 5]).hex() == (
        "02000000" + "01" + name.hex() + "03000000" + "00" + "ffffffff"
        "02" + "0400000000000000" + "0151" + "0500000000000000" + "0151" + "00000000"
    )
    assert transaction([(name, 0, 1)] * 300, [1]).hex()[8:14] == "fd2c01"


def test_report(tmp_path: Path) -> None:
    """One row a policy and their sum, for people and for programs."""
    ends = [("torn", "lost"), ("drop-all", "recovered"), ("torn", "recovered"), ("torn", "stuck")]
    results = [{"policy": policy, "outcome": outcome} for policy, outcome in ends]
    rows = report.write(tmp_path, "replay", {"engine": "lmdb"}, results)
    assert [list(row.values()) for row in rows] == [
        ["drop-all", 1, 1, 0, 0, 0],
        ["torn", 3, 1, 1, 0, 1],
        ["all", 4, 2, 1, 0, 1],
    ]
    assert (tmp_path / "replay.md").read_text() == (
        "- engine: lmdb\n\n"
        "| Policy | cuts | recovered | lost | wrong data | did not start |\n"
        "|---|--:|--:|--:|--:|--:|\n"
        "| drop-all | 1 | 1 | 0 | 0 | 0 |\n"
        "| torn | 3 | 1 | 1 | 0 | 1 |\n"
        "| all | 4 | 2 | 1 | 0 | 1 |\n"
    )
    written = json.loads((tmp_path / "replay.json").read_text())
    assert written["results"] == results
    assert written["rows"] == rows
    with pytest.raises(ValueError, match="unknown outcome 'odd'"):
        report.table([{"policy": "torn", "outcome": "odd"}])


def test_page_of_several_results(tmp_path: Path) -> None:
    """Each row of each result, and what was run; a later result of a run replaces the first."""
    results = [{"policy": "torn", "outcome": "recovered"}, {"policy": "torn", "outcome": "lost"}]
    facts = {"engine": "lmdb", "chain": "main", "seed": 7}
    replay, machines = tmp_path / "replay.json", tmp_path / "machines-lmdb-ext4.json"
    report.write(tmp_path, "replay", facts, results[:1])
    page = tmp_path / "report.md"
    report.add([replay], page)
    report.write(tmp_path, "replay", facts, results)
    report.write(tmp_path, "machines-lmdb-ext4", facts, results[:1])
    report.add([replay, machines], page)
    report.add([replay], page, "patch 0025")
    text = page.read_text()
    assert text.count("| replay, lmdb, main | torn |") == 1
    assert text.count("| replay without patch 0025, lmdb, main | torn |") == 1
    assert "| replay, lmdb, main | torn | 2 | 1 | 1 | 0 | 0 |" in text
    assert "| machines, lmdb, main | all | 1 | 1 | 0 | 0 | 0 |" in text
    assert "| replay, lmdb, main | seed 7 |" in text


def test_report_in_the_repository() -> None:
    """The page in docs/ is that of the tables beside it."""
    kept = ROOT / "docs/reports/power-loss.json"
    assert report.page(json.loads(kept.read_text())) == kept.with_suffix(".md").read_text()


class OneAnswer(http.server.BaseHTTPRequestHandler):
    """Answers once a connection and closes it without saying so, as the daemon does after 30 s."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """The answer to a batch of one call."""
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps([{"id": 0, "result": 7, "error": None}]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_an_idle_connection_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a node that was left alone for long seems to have ended."""
    cookie = tmp_path / "cookie"
    cookie.write_text("user:password")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneAnswer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = rpc.Rpc(server.server_port, cookie)
        assert client.call("getblockcount") == 7
        time.sleep(0.2)
        with pytest.raises((OSError, http.client.HTTPException)):
            client.call("getblockcount")
        monkeypatch.setattr(rpc, "IDLE_SECONDS", 0.1)
        for _ in range(2):
            assert client.call("getblockcount") == 7
            time.sleep(0.2)
        server.shutdown()

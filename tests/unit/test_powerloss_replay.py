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
from typing import Any

import pytest

from lab import request_trace, rpc
from lab.chains import CHAINS, MARGIN, network
from lab.paths import ROOT
from lab.request_trace import Record
from lab.volatile_cache import CACHE_BYTES, SECTOR, VolatileCache
from lab.volatile_disk import VolatileDisk
from tests.powerloss import reconstruct, report, tables, workload
from tests.powerloss.source import DEEP, LARGE, LARGES, STAGES, Source, transaction
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
    assert sum(state.position in index.stages[""].open for state in states) > 200


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """A trace of a node that goes through all stages, and says when it writes coins."""
    path = tmp_path / "staged"
    writer = request_trace.Writer(str(path))
    writer.mark('{"phase": 0}')
    for stage in STAGES:
        for number in range(20):
            writer.write(512 * number, bytes(512))
            writer.mark('{"writing": true}')
            writer.write(0, b"table".ljust(504) + reconstruct.TABLE)
            writer.flush()
            for _ in range(3):
                writer.write(512, bytes(512))
            writer.flush()
            writer.mark(json.dumps({"height": number, "block": "b"}))
            writer.mark(json.dumps({"stage": stage}))
            writer.flush()
            for _ in range(30):
                writer.write(1024, bytes(512))
    writer.close()
    return path


def test_index_of_stages(staged: Path) -> None:
    """What the node had said by a position, and whether a flush was asked for and not finished."""
    index = reconstruct.index(staged)
    assert list(index.stages) == list(STAGES)
    assert len(index.writes) == 60
    for begin, end in index.writes:
        assert not index.writing_at(begin - 1)
        assert index.writing_at(begin)
        assert index.writing_at(end)
        assert not index.writing_at(end + 1)
    assert index.stage_at(index.starts_at) == "deep"
    assert index.stage_at(index.records) == "tip"
    for places in index.stages.values():
        assert set(places.writing) < set(places.open)
        assert set(places.steps) < set(places.flushes)
        # One that ends behind the write is of something else, such as a compaction.
        assert all(index.writing_at(commit.stop - 1) for commit in places.commits)


def test_plan_of_stages(staged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage has its share, and much of it is while coins are written."""
    monkeypatch.setattr(reconstruct, "ADDED_AFTER", 4)
    index = reconstruct.index(staged)
    # The first of a stage comes before the node says so.
    assert [len(places.commits) for places in index.stages.values()] == [21, 20, 19]
    states = reconstruct.plan(index, 1200, 1, POLICIES)
    assert set(reconstruct.plan(index, 300, 1, POLICIES)) < set(states)
    for stage in STAGES:
        some = [state for state in states if state.stage == stage]
        # A position behind a mark may be in the next one.
        assert 380 < len(some) < 420
        assert {state.policy for state in some} == set(POLICIES)
        assert sum(state.writing for state in some) > 120
    assert all(state.writing == index.writing_at(state.position) for state in states)


def test_a_trace_without_stages(trace: Path) -> None:
    """All of it is one, without a name."""
    index = reconstruct.index(trace)
    assert list(index.stages) == [""]
    states = reconstruct.plan(index, 100, 1, POLICIES)
    assert {(state.stage, state.writing) for state in states} == {("", False)}


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
    known.learn('{"pruned": 9}')
    known.learn('{"pruned": 7}')
    assert known == reconstruct.Acknowledged(5, "b", "w", {"a": 3, "b": 2}, 9)


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
    large = transaction([(name, 0, 1)], [1], LARGE)
    assert large[-4 - len(LARGE) - 3 : -4] == b"\xfd" + len(LARGE).to_bytes(2, "little") + LARGE
    # As Core's limits have it: of a script, and of a push
    assert 8000 < len(LARGE) <= 10_000
    assert LARGE.startswith(b"\x4d" + (520).to_bytes(2, "little"))


class FakeRpc:
    """A stock daemon whose chain is a height."""

    def __init__(self) -> None:
        """It has the first block."""
        self.height = 0
        self.times: list[int] = []

    def call(self, method: str, *parameters: Any) -> Any:  # noqa: ANN401 (JSON)
        """As far as a source asks."""
        if method == "generateblock":
            self.height += 1
            return {"hash": str(self.height)}
        if method == "generatetodescriptor":
            blocks = [str(self.height + number + 1) for number in range(parameters[0])]
            self.height += parameters[0]
            return blocks
        if method == "getblock":
            return {"tx": [f"{int(parameters[0]):064x}"]}
        if method == "setmocktime":
            self.times.append(parameters[0])
        return {"getblockcount": self.height, "gettxout": {"value": 50.0}}.get(method)


def test_a_deep_chain() -> None:
    """As many blocks as it takes, older than any wallet, and the stages of a node that syncs it."""
    rpc = FakeRpc()
    source = Source(rpc, "deep", 1)  # type: ignore[arg-type]
    assert source.stage(5) == ""
    source.make_deep()
    assert rpc.height == source.first_top == DEEP + MARGIN
    assert source.deep == DEEP - 1
    assert rpc.times[-1] == 0
    assert max(rpc.times) < time.time() - 30 * 86400
    stages = [source.stage(height) for height in range(rpc.height + 10)]
    assert list(dict.fromkeys(stages)) == list(STAGES)
    assert stages[source.deep] == stages[source.first_top - 1] == "transition"
    assert stages[source.first_top] == "tip"
    ends = [height for height, _ in workload.phases(source, 0)]
    assert ends == sorted(ends)
    assert [len(more) for end, more in workload.phases(source, 0) if end > LARGES.start] == [
        *(1,),
        *[0] * 7,
    ]
    # Another node, later
    source.generate(5)
    source.begin_again()
    assert source.deep == DEEP + 4


@pytest.mark.parametrize(("flushed", "marks"), [(95, 0), (93, 0), (96, 1), (100, 1)])
def test_another_chain_takes_back_what_was_acknowledged(
    flushed: int, marks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only of blocks that it replaces: what is below them is flushed only if it was said to be."""
    said: list[dict[str, object]] = []
    rpc = FakeRpc()
    rpc.height = 95
    source = Source(rpc, "deep", 1)  # type: ignore[arg-type]
    monkeypatch.setattr(source, "remember", lambda *_: None)
    load = workload.Workload(said.append, source, 1)
    load._flushed = flushed

    monkeypatch.setattr(load, "_flush", lambda _: flushed)
    load.reorganize(rpc)  # type: ignore[arg-type]
    assert [facts["height"] for facts in said] == [95] * marks


def test_networks() -> None:
    """Each chain has Core's name of its network."""
    assert {chain: network(chain) for chain in CHAINS} == {
        "main": "main",
        "regtest": "regtest",
        "deep": "regtest",
    }


def log_of(*contents: bytes) -> bytes:
    """A file in the format of LevelDB's logs."""
    data = b""
    for content in contents:
        first = True
        while True:
            room = tables.BLOCK - len(data) % tables.BLOCK
            if room < tables.HEAD.size:
                data += bytes(room)
                continue
            part, content = content[: room - tables.HEAD.size], content[room - tables.HEAD.size :]
            kind = {
                (True, True): tables.FULL,
                (True, False): tables.FIRST,
                (False, False): tables.MIDDLE,
                (False, True): tables.LAST,
            }[first, not content]
            data += tables.HEAD.pack(0, len(part), kind) + part
            first = False
            if not content:
                break
    return data


def test_records_of_a_log() -> None:
    """Also those that go on in the next blocks; the last one may be cut off."""
    contents = [b"a" * 10, b"b" * 32740, b"c" * 100_000, b"d"]
    data = log_of(*contents)
    assert tables.records(data) == contents
    for end in range(1, 9):
        assert tables.records(data[:-end]) == contents[:-1]
    assert tables.records(data + bytes(40)) == contents


def test_tables_that_no_record_adds(tmp_path: Path) -> None:
    """Whole ones that are newer than all that the manifest knows."""

    def new(*numbers: int) -> bytes:
        return b"".join(b"\x07\x00" + bytes([n]) + b"\x80\x01" + b"\x01a\x01b" for n in numbers)

    first = b"\x01\x03cmp" + b"\x02\x05\x03\x06\x04\x07\x09\x00" + new(5, 6)
    second = b"\x05\x01\x01k" + b"\x06\x00\x05" + new(8)
    manifest = log_of(first, second)
    assert tables.known(manifest) == {6, 8}
    assert tables.known(manifest[:-1]) == {5, 6}
    assert tables.left_over(tmp_path) == 0
    (tmp_path / "CURRENT").write_text("MANIFEST-000004\n")
    (tmp_path / "MANIFEST-000004").write_bytes(manifest)
    for number in (5, 6, 8):
        (tmp_path / f"{number:06}.ldb").write_bytes(tables.MAGIC)
    assert tables.left_over(tmp_path) == 0
    (tmp_path / "000009.ldb").write_bytes(b"content" + tables.MAGIC)
    (tmp_path / "000010.ldb").write_bytes(b"content" + tables.MAGIC[:-1])
    assert tables.left_over(tmp_path) == 1
    (tmp_path / "MANIFEST-000004").write_bytes(manifest[:-1])
    assert tables.left_over(tmp_path) == 2
    (tmp_path / "MANIFEST-000004").write_bytes(log_of(b"\x63"))
    assert tables.left_over(tmp_path) == 0


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
    staged = [{**result, "stage": "deep"} for result in results[:2]]
    assert [list(row.values()) for row in report.table([*staged, *results[2:]])][2:] == [
        ["all", 4, 2, 1, 0, 1],
        ["all, deep", 2, 1, 1, 0, 0],
    ]
    with pytest.raises(ValueError, match="unknown outcome 'odd'"):
        report.table([{"policy": "torn", "outcome": "odd"}])


def test_a_copy_into_an_old_image(tmp_path: Path) -> None:
    """The image is the medium's, whatever was in it, and however long it was."""
    chance = random.Random(1)
    medium, image = tmp_path / "medium", tmp_path / "image"
    for size in (5 << 20, 5 << 20, 3 << 20, 6 << 20, (4 << 20) + 5):
        for file in (medium, image) if image.exists() else (medium,):
            with file.open("r+b" if file is image else "wb") as stream:
                for _ in range(12):
                    stream.seek(chance.randrange(size - (600 << 10)))
                    stream.write(chance.randbytes(chance.choice((1, 5000, 600 << 10))))
                if file is medium:
                    stream.truncate(size)
        reconstruct.overwrite(medium, image)
        assert image.read_bytes() == medium.read_bytes()


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
    queue = f"patches {report.patches()}"
    assert f"| replay, lmdb, main | seed 7; {queue} |" in text
    report.add([replay], page, note="in the rain")
    assert f"| replay, lmdb, main | seed 7; {queue}; note in the rain |" in page.read_text()


def test_further_cuts_of_a_run(tmp_path: Path) -> None:
    """They are added up; if the daemon's patches are others, it is said how many were of which."""
    results = [{"policy": "torn", "outcome": "recovered"}]
    facts = {"engine": "lmdb", "chain": "main", "seed": 7, "states": 2, "aimed at sync": 1}
    first, page = tmp_path / "replay.json", tmp_path / "report.md"
    report.write(tmp_path, "replay", facts, results * 2)
    report.add([first], page, more=True)
    report.write(tmp_path, "replay", {**facts, "seed": 8, "records": 3}, results * 2)
    report.add([first], page, more=True)
    (run,) = json.loads(page.with_suffix(".json").read_text())
    assert [list(row.values()) for row in run["rows"]] == [
        ["torn", 4, 4, 0, 0, 0],
        ["all", 4, 4, 0, 0, 0],
    ]
    assert run["facts"] == {
        **{"seed": "7, 8", "states": 4, "aimed at sync": 2, "records": "3"},
        "patches": report.patches(),
    }
    kept = page.with_suffix(".json")
    kept.write_text(kept.read_text().replace(report.patches(), "0123456789abcdef"))
    report.add([first], page, more=True)
    (run,) = json.loads(kept.read_text())
    assert run["facts"]["patches"] == f"0123456789abcdef: 4, {report.patches()}: 2"
    report.add([first], page, more=True)
    (run,) = json.loads(kept.read_text())
    assert run["facts"]["patches"] == f"0123456789abcdef: 4, {report.patches()}: 4"
    assert run["rows"][-1]["cuts"] == 8


def test_cuts_of_machines_during_updates(tmp_path: Path) -> None:
    """As the suite writes them: one board, with a row for each stage; of two boards: an error."""
    cuts, page = tmp_path / "update-cuts.jsonl", tmp_path / "report.md"
    cut = {"engine": "rpi5", "stage": "trial", "policy": "torn", "seed": 3, "outcome": "wrong"}
    cuts.write_text(f"{json.dumps(cut)}\n{json.dumps({**cut, 'outcome': 'recovered'})}\n")
    report.add([cuts], page)
    assert "| machines, rpi5, update | all, trial | 2 | 1 | 0 | 1 | 0 |" in page.read_text()
    cuts.write_text(f"{json.dumps(cut)}\n{json.dumps({**cut, 'engine': 'x86_64'})}\n")
    with pytest.raises(ValueError, match="cuts of 2 boards"):
        report.add([cuts], page)


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

"""Makes and checks the states of a trace, on all processors, and reports them."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import resource
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

from lab.node import Node
from lab.paths import OUT
from lab.volatile_cache import POLICIES
from tests.powerloss import mounts, reconstruct, report
from tests.powerloss.check import Chain, check


def say(text: str) -> None:
    """Progress."""
    print(text, flush=True)


@contextlib.contextmanager
def stoppable(results: Sequence[object]) -> Iterator[None]:
    """An interrupt ends what is done inside; if there are results by then, it ends only that."""
    try:
        yield
    except KeyboardInterrupt:
        if not results:
            raise
        say("stopped; the results so far:")


def folder_of(options: argparse.Namespace) -> Path:
    """Where an engine's trace and results are."""
    return OUT / "powerloss" / f"{options.engine}-{options.chain}"


def starter(options: argparse.Namespace, run: Path, port: int) -> partial[Node]:
    """A function that starts the daemon on a data directory: (datadir, option...) -> Node."""
    what = {"engine": options.engine, "chain": options.chain, "bitcoind": options.bitcoind}
    return partial(_start, run=run, port=port, **what)


def _start(datadir: Path, *more: str, **keywords: Any) -> Node:  # noqa: ANN401
    return Node(datadir, keywords.pop("run"), *more, **keywords)


def check_states(options: argparse.Namespace, peers: Sequence[int] = ()) -> int:
    """Makes and checks states of the trace, and reports; ``peers``: see check()."""
    folder = folder_of(options)
    if not (folder / "trace").exists():
        raise ValueError(f"there is no trace of {options.engine}; make one with 'record'")
    policies = (options.policy,) if options.policy else reconstruct.cut_policies()
    index = reconstruct.index(folder / "trace")
    states = reconstruct.plan(index, options.states, options.seed, policies)
    if options.only is not None:
        states = [state for state in states if state.number == options.only]
        if not states:
            raise ValueError(f"--only is from 0 to {options.states - 1}, see --states")
    chain = Chain(**json.loads((folder / "chain.json").read_text()))
    say(f"{options.engine}: {len(states)} states of {index.records} records, seed {options.seed}")
    begin = time.monotonic()
    results: list[dict[str, Any]] = []
    queue: multiprocessing.Queue[Any] = multiprocessing.Queue()
    with mounts.scratch() as work:
        workers = [
            multiprocessing.Process(
                target=_worker,
                args=(n, options, states[n :: options.workers], chain, peers, work / str(n), queue),
            )
            for n in range(options.workers)
        ]
        for worker in workers:
            worker.start()
        try:
            with stoppable(results):
                _collect(workers, queue, results, len(states), options)
        finally:
            for worker in workers:
                worker.terminate()
                worker.join()
    name = "lies" if options.lies else "replay"
    seconds = round(time.monotonic() - begin)
    digests = [_sha256(folder / "trace")]
    failed = any(result["outcome"] != "recovered" for result in results)
    seeds, count = str(options.seed), len(states)
    if options.add:
        before = json.loads((folder / f"{name}.json").read_text())
        digests = list(dict.fromkeys([*before["sha256 of the trace"].split(", "), *digests]))
        results += before["results"]
        seeds, count = f"{before['seed']}, {seeds}", count + before["states planned"]
        seconds += before["seconds"]
    facts = {
        "engine": options.engine,
        "chain": options.chain,
        "disk": "ignores flushes" if options.lies else "honest",
        "seed": seeds,
        "records": index.records,
        "flushes": index.flush_count,
        "states": len(results),
        "states planned": count,
        "different disks": len({result["digest"] for result in results}),
        **aimed(results),
        "mended by fsck": sum(result["mended"] for result in results),
        "seconds": seconds,
        "processor seconds a state": round(sum(r["cpu"] for r in results) / len(results), 2),
        "sha256 of the trace": ", ".join(digests),
    }
    if options.only is not None:
        say(json.dumps(results[0], indent=1))
    else:
        rows = report.write(folder, name, facts, sorted(results, key=_order))
        say("\n" + report.markdown(rows))
        say("\n".join(f"{key}: {value}" for key, value in facts.items()))
    if options.lies and not failed:
        say("powerloss: a disk that ignores flushes lost nothing: the check sees nothing")
    return int(failed != options.lies)


def aimed(results: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Of a run with phases: how many cuts were where it matters."""
    if not any(result.get("stage") for result in results):
        return {}
    facts = {
        "while coins were written": sum(result["writing"] for result in results),
        "with tables that no record adds": sum(result["tables"] > 0 for result in results),
        "with several of them": sum(result["tables"] > 1 for result in results),
        "synced to the top": sum(result["to_the_top"] for result in results),
    }
    return {name: count for name, count in facts.items() if count}


def _worker(
    number: int,
    options: argparse.Namespace,
    states: list[reconstruct.State],
    chain: Chain,
    peers: Sequence[int],
    work: Path,
    results: multiprocessing.Queue[Any],
) -> None:
    """Makes and checks its share of the states."""
    folder = folder_of(options)
    work.mkdir()
    start = starter(options, work, options.port + 2 + number)
    medium = reconstruct.Medium(
        folder / "base.img", folder / "trace", work / "medium", options.seed, lies=options.lies
    )
    for state in states:
        begin, used = time.monotonic(), _cpu()
        outcome, digest = medium.make(state, work / "state")
        if options.keep:
            reconstruct.copy(work / "state", options.keep)
        to_the_top = bool(peers) and state.number // len(POLICIES) % options.top_every == 0
        verdict = check(
            work / "state",
            work / "mnt",
            start,
            medium.acknowledged,
            chain,
            peers,
            to_the_top=to_the_top,
        )
        if verdict.outcome != "recovered" and (work / "bitcoind.log").exists():
            kept = folder / f"{'lies' if options.lies else 'replay'}-{state.number}.log"
            shutil.copy(work / "bitcoind.log", kept)
        (work / "bitcoind.log").unlink(missing_ok=True)
        results.put(
            {
                **dataclasses.asdict(state),
                **dataclasses.asdict(outcome),
                **dataclasses.asdict(verdict),
                "seed": state.seed,
                "to_the_top": to_the_top,
                "acknowledged": medium.acknowledged.height,
                "digest": digest,
                "seconds": round(time.monotonic() - begin, 3),
                "cpu": round(_cpu() - used, 3),
            }
        )


def _collect(
    workers: list[multiprocessing.Process],
    queue: multiprocessing.Queue[Any],
    results: list[dict[str, Any]],
    count: int,
    options: argparse.Namespace,
) -> None:
    """Gathers results until all are there; says each failure, and now and then how far it is."""
    begin = told = time.monotonic()
    while len(results) < count:
        try:
            results.append(result := queue.get(timeout=5))
        except Empty:
            if any(worker.exitcode for worker in workers):
                raise RuntimeError("a worker failed; see its message above") from None
            continue
        if result["outcome"] != "recovered" and not options.lies:
            say(
                f"state {result['number']}: {report.OUTCOMES[result['outcome']]}:"
                f" {result['detail']} (position {result['position']}, policy {result['policy']};"
                f" again with: check --engine {options.engine} --chain {options.chain}"
                f" --states {options.states} --seed {options.seed} --only {result['number']})"
            )
        now = time.monotonic()
        if now - told > 10 or len(results) == count:
            told = now
            bad = sum(result["outcome"] != "recovered" for result in results)
            pace = (now - begin) / len(results)
            say(f"{len(results)} of {count} states, {bad} not recovered, {pace:.2f} s a state")


def _order(result: dict[str, Any]) -> tuple[int, int]:
    return result["seed"], result["number"]


def _cpu() -> float:
    """Seconds of processor time of this process and the children it waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

#!/usr/bin/env python3
"""Power cuts of whole machines, many of them: the suite `powerloss` again and again.

usage: campaign.py [--cuts N] [--seed S] [--jobs J] [--engine leveldb|lmdb] [--filesystem F]
                   [--image FILE] [--in-no-file]

  --cuts N        cuts for each engine, default 200
  --seed S        first seed, default 1; each machine has its own, counted from here
  --jobs J        machines at a time, default: one a processor
  --engine E      only this one
  --filesystem F  ext4 (default), or f2fs on a Buildroot image
  --image FILE    image, default: the development image
  --in-no-file    blocks are in no file as long as they are deep below the top

Results: out/powerloss/machines-ENGINE-FILESYSTEM.json and .md, tables. They are written after each
machine, so an interrupted campaign leaves what it has. What a machine that failed has left is
in out/robot/vm/, its log in out/powerloss/ENGINE-SEED/.
Exit status: 0 if each node recovered with all that was flushed, else 1.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import queue
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.paths import ROOT
from tests.powerloss import report

OUT = ROOT / "out/powerloss"
ENGINES = {"leveldb": "LevelDB", "lmdb": "LMDB"}
#: Cuts of one machine. The real blocks last for about this many; then it has to reach the
#: top, and its coins are compared.
CUTS_A_MACHINE = 8
#: Each machine's feeder and its peers have eight ports, from here on, ten apart.
FIRST_PORT = 18700


def machine(engine: str, seed: int, cuts: int, port: int, options: argparse.Namespace) -> bool:
    """Runs one machine with this many cuts; its results are in cuts.jsonl of its folder."""
    folder = OUT / f"{engine}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cuts.jsonl").unlink(missing_ok=True)
    variables = {
        "IMAGE": options.image.resolve(),
        "CUTS": cuts,
        "SEED": seed,
        "MACHINE": f"powerloss-{engine}-{seed}",
        "FILESYSTEM": options.filesystem,
        "FEEDER_PORT": port,
        "CUT_LOG": folder / "cuts.jsonl",
        # Neighbours on the same processors
        "TIMEOUT_FACTOR": 2,
        "SMP": 1,
        "TO_THE_TOP": True,
    }
    command = [sys.executable, "-m", "robot", "--outputdir", str(folder), "--suite", "powerloss"]
    test = f"{ENGINES[engine]} Survives Power Cuts"
    command += ["--test", test + " While Blocks Are In No File" * options.in_no_file]
    for name, value in variables.items():
        command += ["--variable", f"{name}:{value}"]
    with (folder / "console.log").open("wb") as log:
        result = subprocess.run(
            [*command, "tests/robot"], cwd=ROOT, check=False, stdout=log, stderr=log
        )
    if result.returncode == 0:
        disk = ROOT / "out/robot/vm" / str(variables["MACHINE"]) / "disk.img"
        disk.unlink(missing_ok=True)
    return result.returncode == 0


def collect(seeds: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
    """All cuts so far."""
    found = []
    for engine, seed, _ in seeds:
        path = OUT / f"{engine}-{seed}/cuts.jsonl"
        if path.exists():
            found += [json.loads(line) for line in path.read_text().splitlines()]
    return found


def write(cuts: list[dict[str, Any]], failed: list[str], options: argparse.Namespace) -> list[str]:
    """Writes the results of each engine; returns the tables."""
    tables = []
    for engine in ENGINES:
        results = [cut for cut in cuts if cut["engine"] == engine]
        if not results:
            continue
        seconds = [cut["seconds"] for cut in results if cut["outcome"] == "recovered"]
        facts = {
            "engine": engine,
            "chain": "main, deep" if options.in_no_file else "main",
            "file system": options.filesystem,
            "image": options.image.name,
            "blocks": "in no file until near the top" if options.in_no_file else "stored",
            "first seed": options.seed,
            "machines": len({cut["seed"] for cut in results}),
            "machines that failed": ", ".join(f for f in failed if f.startswith(engine)) or "none",
            "median seconds to recover": statistics.median(seconds) if seconds else "none",
        }
        name = f"machines-{engine}-{options.filesystem}"
        report.write(OUT, name, facts, results)
        tables.append((OUT / f"{name}.md").read_text())
    return tables


def main() -> int:
    """Runs the campaign and prints its table."""
    parser = argparse.ArgumentParser(description="Cuts the power of many machines.")
    parser.add_argument("--cuts", type=int, default=200, help="cuts for each engine")
    parser.add_argument("--seed", type=int, default=1, help="first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="machines at a time")
    parser.add_argument("--engine", choices=list(ENGINES), help="only this one")
    parser.add_argument("--filesystem", choices=["ext4", "f2fs"], default="ext4")
    default = ROOT / "out/devimage/cairn-dev.img"
    parser.add_argument("--image", type=Path, default=default, help="image under test")
    parser.add_argument("--in-no-file", action="store_true", help="blocks deep below the top")
    options = parser.parse_args()
    if not options.image.is_file():
        print(f"the image {options.image} does not exist; run 'make devimage'", file=sys.stderr)
        return 1
    work = [
        (engine, options.seed + first // CUTS_A_MACHINE, min(CUTS_A_MACHINE, options.cuts - first))
        for first in range(0, options.cuts, CUTS_A_MACHINE)
        for engine in ([options.engine] if options.engine else ENGINES)
    ]
    ports: queue.SimpleQueue[int] = queue.SimpleQueue()
    for job in range(options.jobs):
        ports.put(FIRST_PORT + 10 * job)

    def run(item: tuple[str, int, int]) -> tuple[tuple[str, int, int], bool]:
        port = ports.get()
        try:
            return item, machine(*item, port, options)
        finally:
            ports.put(port)

    begin = time.monotonic()
    done: list[tuple[str, int, int]] = []
    failed: list[str] = []
    tables: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for item, good in map(
            concurrent.futures.Future.result,
            concurrent.futures.as_completed([pool.submit(run, item) for item in work]),
        ):
            done.append(item)
            if not good:
                failed.append(f"{item[0]}-{item[1]}")
            cuts = collect(done)
            minutes = (time.monotonic() - begin) / 60
            rest = minutes / len(done) * (len(work) - len(done))
            print(
                f"{len(cuts)} cuts, {len(done)} of {len(work)} machines, {len(failed)} failed, "
                f"{minutes:.0f} min, {rest:.0f} to go",
                flush=True,
            )
            tables = write(cuts, failed, options)
    print("\n".join(tables))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

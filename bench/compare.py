#!/usr/bin/env python3
"""Syncs a chain with stock Core and with Cairn's, in turn, under the same limits.

usage: bench/compare.py [--scenario NAME]... [--variant NAME]... [--runs N] [--seconds S]
                        [--anew] [--out FILE] [--list]
  --scenario NAME  of bench/plan.py; default all but those of hours, "large" and "tip"
  --variant NAME   of bench/plan.py; default stock, leveldb, lmdb ("product"); "ablations"
                   stands for the builds without one part, "candidates" for those with one more,
                   "tunings" for one other setting each, "libraries" for the daemons of both lanes,
                   "profiled" for profile-guided optimization
  --runs N         rounds; each has every variant in every scenario once, default 3
  --seconds S      begins no round that would probably end later than this, default no end
  --out FILE       results so far, in JSON, rewritten after each run; a file that is there is gone
                   on with if the chains are the same, and if the scenarios that are run have no
                   runs of another machine; runs of a daemon that is no longer the one of its
                   variant are left out of them; default out/bench/results.json
  --anew           leaves out all earlier runs of the scenarios that are run
  --list           prints scenarios and variants

Needs root, for control groups, loop devices and file systems. Builds what is missing with
support/core-build, 5 to 20 minutes each, and makes the chains with support/chaingen, in
out/bench, again when their options or bench/chaingen have changed. Then bench/performance.py makes
the report.
Environment: IMAGE_TREE  the files of an image for this machine's processor, for the variant
"musl"; default out/BOARD/build/target of the host lane's board (board/*/meta)
Errors: no root, results of another machine, a daemon that ends: one sentence, exit 1; what was
measured before is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.plan import CHAINS, GROUPS, SCENARIOS, VARIANTS, Scenario, Variant
from bench.run_node import Chain, RunError, binary_of, loader, measure
from bench.tip import measure_tip
from lab.limits import LimitError
from lab.paths import ROOT

OUT = ROOT / "out/bench"
#: Figures that are printed as they come.
SAID = ("sync_s", "written_mib", "tip_written_mib", "tip_reads", "tip_block_ms")


class BenchError(Exception):
    """The benchmark cannot go on; the text says why and what to do."""


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"--> {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def first_line(*command: str) -> str:
    """The first line that a command prints."""
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    return result.stdout.strip().split("\n")[0]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    models = [
        line.partition(":")[2].strip() for line in cpuinfo.splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "virtual": "hypervisor" in cpuinfo,
        "kernel": platform.release().split("-")[0],
        "compiler": first_line("c++", "--version"),
    }


def load(path: Path) -> dict[str, Any]:
    """A JSON file, empty when there is none."""
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be read ({error}); remove it or name another") from None


def load_results(path: Path) -> dict[str, Any]:
    """What was measured so far, empty when there is none."""
    results = load(path)
    if results and not {"machines", "chains", "runs"} <= results.keys():
        raise BenchError(f"{path} has no results of this version; remove it or name another")
    return results


def origin(options: tuple[str, ...]) -> dict[str, Any]:
    """What a chain is made with: the options, and the SHA-256 of bench/chaingen."""
    sources = sorted((ROOT / "bench/chaingen").glob("*.[ch]*"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources))
    return {"options": list(options), "sources": digest.hexdigest()}


def make_chain(name: str, options: tuple[str, ...], folder: Path) -> tuple[Path, dict[str, Any]]:
    """A chain and its summary; made when it is not there, or was made otherwise."""
    path = folder / f"{name}.blk"
    described = path.with_suffix(".json")
    made_with = origin(options)
    if not path.exists() or load(described).get("made_with") != made_with:
        say(f"making the chain '{name}'")
        described.unlink(missing_ok=True)
        command = [str(ROOT / "support/chaingen"), f"-out={path}", *options]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        keep(json.loads(made.stdout) | {"made_with": made_with}, described)
    return path, load(described)


def facts(summary: dict[str, Any]) -> dict[str, Any]:
    """What tells a chain from another one; another generator may make the same."""
    return {key: value for key, value in summary.items() if key not in {"input_ages", "made_with"}}


@contextmanager
def feeder(path: Path, summary: dict[str, Any], rate: float = 0) -> Iterator[int]:
    """A peer that serves the chain, without the day whose blocks come one by one; its port.

    ``rate``: MiB/s at most. Such a peer is one of several, and announces its chain, as a node asks
    only one for headers.
    """
    command = [sys.executable, "-m", "lab.block_server", str(path), "--port", "0"]
    command += ["--blocks", str(summary["height"] + 1 - summary.get("day", 0)), "--prepare"]
    if rate:
        command += ["--rate", str(rate), "--announce", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            if not line.startswith("port="):
                raise BenchError(f"the feeder did not start with {path}; see its words above")
            yield int(line.split()[0].partition("=")[2])
        finally:
            process.terminate()


def chosen(options: argparse.Namespace) -> tuple[list[Scenario], list[Variant]]:
    """What the command line names, in the plan's order."""
    wanted = set(options.scenario or [item.name for item in SCENARIOS if not item.alone])
    also = {name for item in SCENARIOS if item.name in wanted for name in item.also}
    names = set(options.variant or ["product", *also])
    for group, members in GROUPS.items():
        if group in names:
            names = names - {group} | {variant.name for variant in members}
    unknown = (names - {v.name for v in VARIANTS}) | (wanted - {s.name for s in SCENARIOS})
    if unknown:
        raise BenchError(f"unknown: {', '.join(sorted(unknown))}; --list has the names")
    return (
        [scenario for scenario in SCENARIOS if scenario.name in wanted],
        [variant for variant in VARIANTS if variant.name in names],
    )


def keep(results: dict[str, Any], store: Path) -> None:
    """Writes a JSON file; a power cut leaves the old or the new one."""
    store.with_suffix(".new").write_text(json.dumps(results, indent=1) + "\n")
    store.with_suffix(".new").rename(store)


def fingerprint(variant: Variant) -> str:
    """SHA-256 of what is measured: the daemon, and the C library that comes with it."""
    files = [binary_of(variant), *([loader()] if variant.image else [])]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def still_valid(
    runs: list[dict[str, Any]], scenarios: set[str], daemons: dict[str, str]
) -> list[dict[str, Any]]:
    """The runs without those that would be mixed with others of another daemon, and without what
    is then alone in its round.

    ``scenarios``: those that are run again, ``daemons``: the variants that are, and the SHA-256 of
    what they are now. The report says of the others that they are of an earlier build.
    """
    outdated = [
        run
        for run in runs
        if run["scenario"] in scenarios
        and daemons.get(run["variant"]) not in (None, run.get("daemon"))
    ]
    kept = [run for run in runs if run not in outdated]
    # What is left of a round is worth keeping if it compares something.
    torn = {(run["scenario"], run["round"]) for run in outdated}
    left = Counter((run["scenario"], run["round"]) for run in kept)
    alone = {key for key in torn if left[key] == 1}
    kept = [run for run in kept if (run["scenario"], run["round"]) not in alone]
    if len(kept) < len(runs):
        say(f"leaves out {len(runs) - len(kept)} runs: of daemons built otherwise, or left alone")
    return kept


def known_machine(results: dict[str, Any], scenarios: set[str], store: Path) -> int:
    """The number of this machine among those of the results, to which it is added.

    The figures of a scenario are of one machine. Raises BenchError if they were of two.
    """
    machines: list[dict[str, Any]] = results.setdefault("machines", [])
    here = machine()
    if here not in machines:
        machines.append(here)
    number = machines.index(here)
    for run in results.get("runs", []):
        if run["scenario"] in scenarios and run["machine"] != number:
            raise BenchError(
                f"{run['scenario']} in {store} was measured on another machine; name another file"
                " with --out, or measure it here --anew, which drops those runs"
            )
    return number


def rounds(options: argparse.Namespace, results: dict[str, Any], store: Path) -> None:
    """All runs; results are stored after each."""
    scenarios, variants = chosen(options)
    named = {scenario.name for scenario in scenarios}
    if options.anew:
        runs = results.get("runs", [])
        results["runs"] = [run for run in runs if run["scenario"] not in named]
    here = known_machine(results, named, store)
    for variant in variants:
        if not variant.image:
            subprocess.run([str(ROOT / "support/core-build"), *variant.build], check=True)
    names = {scenario.chain: CHAINS[scenario.chain] for scenario in scenarios}
    chains = {name: make_chain(name, words, OUT) for name, words in names.items()}
    for name, (_, summary) in chains.items():
        known = results.setdefault("chains", {}).setdefault(name, facts(summary))
        if known != facts(summary):
            raise BenchError(f"{store} is of another chain '{name}'; name another file with --out")
    daemons = {v.name: fingerprint(v) for v in variants}
    runs = results["runs"] = still_valid(results.get("runs", []), named, daemons)
    # A round's number is one for all its variants: only what ran in turn is compared.
    first = Counter(scenario.name for scenario in scenarios)
    for run in runs:
        if run["scenario"] in first:
            first[run["scenario"]] = max(first[run["scenario"]], run["round"] + 1)
    seen = {(run["scenario"], run["variant"]) for run in runs}
    began = time.monotonic()
    with ExitStack() as stack:
        served = {}
        for name, peers in {(scenario.chain, scenario.peers) for scenario in scenarios}:
            path, summary = chains[name]
            ports = [stack.enter_context(feeder(path, summary, rate)) for rate in peers or (0,)]
            served[name, peers] = Chain(summary, ports, path)
        for done in range(options.runs):
            spent = time.monotonic() - began
            if options.seconds and done and spent + spent / done > options.seconds:
                say(f"stops after {done} rounds: another one would pass {options.seconds} s")
                return
            for scenario in scenarios:
                # Each begins a round in turn: what drifts with time hits all alike.
                number = first[scenario.name] + done
                turn = number % len(variants)
                for variant in variants[turn:] + variants[:turn]:
                    say(f"{scenario.name}, {variant.name}, round {number}")
                    chain = served[scenario.chain, scenario.peers]
                    new = (scenario.name, variant.name) not in seen
                    run_it = measure_tip if chain.summary.get("day") else measure
                    figures = run_it(scenario, variant, chain, OUT / "work", check=new)
                    seen.add((scenario.name, variant.name))
                    say(", ".join(f"{key} {figures[key]:.0f}" for key in SAID if key in figures))
                    run = {"round": number, "scenario": scenario.name, "variant": variant.name}
                    run |= {"machine": here, "daemon": daemons[variant.name]}
                    runs.append(run | {key: round(value, 3) for key, value in figures.items()})
                    keep(results, store)


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Syncs a chain with stock Core and with Cairn's.")
    parser.add_argument("--scenario", action="append", help="limits, default all")
    parser.add_argument("--variant", action="append", help="build, default those of the product")
    parser.add_argument("--runs", type=int, default=3, help="rounds (3)")
    parser.add_argument("--seconds", type=int, default=0, help="begin no round that ends later")
    parser.add_argument("--anew", action="store_true", help="drop earlier runs of the scenarios")
    parser.add_argument("--out", type=Path, default=OUT / "results.json", help="results")
    parser.add_argument("--list", action="store_true", help="print scenarios and variants")
    options = parser.parse_args()
    if options.list:
        listed: list[Scenario | Variant] = [*SCENARIOS, *VARIANTS]
        for item in listed:
            print(f"{item.name:14} {item.title}")
        return 0
    OUT.mkdir(parents=True, exist_ok=True)
    # The daemon and the disk are removed on the way out, also if the terminal is gone.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        if os.geteuid():
            raise BenchError("root is needed, for control groups and loop devices; run it as root")
        rounds(options, load_results(options.out), options.out)
    except (BenchError, LimitError, RunError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("compare.py: stopped; what was measured before is kept", file=sys.stderr)
        return 130
    except subprocess.CalledProcessError as error:
        print(f"compare.py: {Path(error.cmd[0]).name} failed, see its words above", file=sys.stderr)
        return 1
    except (OSError, subprocess.SubprocessError) as error:
        kept = "what was measured before is kept"
        print(f"compare.py: {error}; {kept}, the run that was going on is lost", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

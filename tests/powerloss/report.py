"""What power cuts did, as a table: of reconstructed states, of a live campaign, of machines.

usage: report.py [--to FILE.md] [--without WHAT] [--note TEXT] [--more] FILE...

  --to FILE.md    default docs/reports/power-loss.md
  --without WHAT  the results are of a daemon that lacks this, such as 'patch 0025': they are
                  rows of their own, which show that the cuts find what WHAT mends
  --note TEXT     what else has to be known of these results, one of the facts
  --more          the results are further cuts of a run that is in the page: they are added up. If
                  the daemon's patches are others, the page says how many cuts were of which

FILE is a .json that write() has written, or update-cuts.jsonl of the Robot suite `update`.

Adds these results to the page; those of the same run, by name, engine and
chain, are replaced. Beside the page, in FILE.json, are the tables of all runs, so that
campaigns of different days can stand in one page.
Errors: a file that cannot be read or is none of these: one sentence, exit 1, nothing changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.paths import ROOT

#: How a cut can end, and the column's title. Only the first is good.
OUTCOMES = {
    "recovered": "recovered",
    "lost": "lost",
    "wrong": "wrong data",
    "stuck": "did not start",
}

#: Facts that say how much, and are added up with --more; others stand beside each other.
COUNTS = {
    *("states", "states planned", "different disks", "while coins were written"),
    *("with tables that no record adds", "with several of them", "synced to the top"),
    *("mended by fsck", "seconds", "cuts"),
}


def patches() -> str:
    """Which patches the daemon and its engines have: the beginning of a SHA-256 of them all."""
    digest = hashlib.sha256()
    for name in ("bitcoind-chainstate", "liblmdb"):
        for patch in sorted((ROOT / "patches" / name).glob("*.patch")):
            digest.update(patch.read_bytes())
    return digest.hexdigest()[:16]


def table(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a policy, and their sum; each result has "policy" and "outcome" (OUTCOMES).

    Where results have a "stage", one row for each stage, too; these come last.
    """
    counts: dict[str, Counter[str]] = {}
    for result in results:
        if result["outcome"] not in OUTCOMES:
            raise ValueError(f"unknown outcome '{result['outcome']}'; use {', '.join(OUTCOMES)}")
        rows = [result["policy"], "all"]
        if result.get("stage"):
            rows.append(f"all, {result['stage']}")
        for row in rows:
            counts.setdefault(row, Counter())[result["outcome"]] += 1
    return _rows(counts)


def _rows(counts: dict[str, Counter[str]]) -> list[dict[str, Any]]:
    """The rows of a table: how often each outcome was, by policy, the sums last."""
    rows = sorted(counts, key=lambda row: (row.startswith("all"), row))
    return [
        {"policy": row, "cuts": counts[row].total(), **{o: counts[row][o] for o in OUTCOMES}}
        for row in rows
    ]


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table for people."""
    lines = ["| Policy | cuts | " + " | ".join(OUTCOMES.values()) + " |"]
    lines.append("|---|" + "--:|" * (1 + len(OUTCOMES)))
    lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(
    folder: Path, name: str, facts: dict[str, Any], results: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Writes NAME.json (facts, rows, all results) and NAME.md into the folder; returns the rows.

    ``facts``: what was run (engine, seed, figures), in the order in which they shall be shown.
    """
    rows = table(results)
    folder.mkdir(parents=True, exist_ok=True)
    everything = {**facts, "rows": rows, "results": results}
    (folder / f"{name}.json").write_text(json.dumps(everything, indent=1) + "\n")
    head = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    (folder / f"{name}.md").write_text(f"{head}\n\n{markdown(rows)}")
    return rows


def of_machines(file: Path) -> dict[str, Any]:
    """The cuts of machines during updates (tests/robot/lib/UpdateCuts.py), as write() writes."""
    cuts = [json.loads(line) for line in file.read_text().splitlines()]
    if len(boards := {cut["engine"] for cut in cuts}) != 1:
        raise ValueError(f"{file.name} has cuts of {len(boards)} boards, not of one")
    if any("stage" not in cut for cut in cuts):
        raise ValueError(f"{file.name} has cuts of no update")
    return {
        "engine": boards.pop(),
        "chain": "update",
        "seeds": ", ".join(sorted({str(cut["seed"]) for cut in cuts})),
        "rows": table(cuts),
    }


def summary(file: Path, without: str = "", note: str = "") -> dict[str, Any]:
    """Of a file of results: the run's name, its facts and its rows.

    ``without``: what the daemon lacked on purpose, a part of the name; ``note``: one more fact.
    """
    cuts = file.suffix == ".jsonl"
    results = of_machines(file) if cuts else json.loads(file.read_text())
    name = "machines" if cuts else file.stem.split("-")[0]
    name += f" without {without}" if without else ""
    return {
        "run": f"{name}, {results['engine']}, {results['chain']}",
        "rows": results["rows"],
        "facts": {
            key: value
            for key, value in results.items()
            if key not in ("engine", "chain", "rows", "results")
        }
        | {"patches": patches()}
        | ({"note": note} if note else {}),
    }


def daemons(run: dict[str, Any], more: dict[str, Any]) -> str:
    """The fact "patches" of both together: how many cuts were of which, if that is not the same."""
    cuts: dict[str, int] = {}
    for side in (run, more):
        (everything,) = [row["cuts"] for row in side["rows"] if row["policy"] == "all"]
        for daemon in side["facts"].get("patches", "unknown").split(", "):
            queue, _, number = daemon.partition(": ")
            cuts[queue] = cuts.get(queue, 0) + int(number or everything)
    if len(cuts) == 1:
        return next(iter(cuts))
    return ", ".join(f"{queue}: {number}" for queue, number in cuts.items())


def together(run: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Two summaries of the same run as one."""
    counts: dict[str, Counter[str]] = {}
    for row in [*run["rows"], *more["rows"]]:
        counts.setdefault(row["policy"], Counter()).update({o: row[o] for o in OUTCOMES})
    facts: dict[str, Any] = {}
    for key in [*run["facts"], *more["facts"]]:
        values = [side["facts"][key] for side in (run, more) if key in side["facts"]]
        if key in COUNTS or key.startswith("aimed at "):
            facts[key] = sum(values)
        elif key == "patches":
            facts[key] = daemons(run, more)
        else:
            facts[key] = ", ".join(dict.fromkeys(str(value) for value in values))
    return {"run": run["run"], "rows": _rows(counts), "facts": facts}


def page(runs: Iterable[dict[str, Any]]) -> str:
    """One page of several runs (summary()): what was run, and what became of each cut."""
    facts, rows = [], []
    for run in runs:
        known = dict(run["facts"])
        known.setdefault("patches", "not noted")
        said = "; ".join(f"{key} {value}" for key, value in known.items())
        facts.append(f"| {run['run']} | {said} |")
        for row in run["rows"]:
            values = (row["policy"], row["cuts"], *(row[outcome] for outcome in OUTCOMES))
            rows.append("| " + " | ".join([run["run"], *(str(value) for value in values)]) + " |")
    lines = [
        "# Power-loss report",
        "",
        "Made by `tests/powerloss/report.py` from the results of `make powerloss-replay`,",
        "`tests/powerloss/replay.py live`, `make powerloss` and `make powerloss-update`; what is",
        "checked and what the policies are: [power-loss-tests.md](../develop/power-loss-tests.md).",
        "A cut is a state of a recorded disk (replay, update, every), a running daemon on this",
        "kernel (live) or a whole machine (machines). Negative controls: a disk that ignores",
        "flushes (lies), a daemon that lacks a patch (without), in which the cuts must find what",
        "the patch mends, and updates that write in place, do not sync, or make a slot's folders",
        "anew (overwrite, unsynced, folders).",
        "",
        "| Run | policy | cuts | " + " | ".join(OUTCOMES.values()) + " |",
        "|---|---|" + "--:|" * (1 + len(OUTCOMES)),
        *rows,
        "",
        "| Run | of what |",
        "|---|---|",
        *facts,
    ]
    return "\n".join(lines) + "\n"


def add(
    files: Iterable[Path], target: Path, without: str = "", note: str = "", *, more: bool = False
) -> None:
    """Adds these results to the page ``target`` and to the tables beside it.

    ``without``, ``note``: see summary(). ``more``: to the runs that are there (together()).
    """
    kept = target.with_suffix(".json")
    runs = {run["run"]: run for run in (json.loads(kept.read_text()) if kept.exists() else [])}
    for file in files:
        run = summary(file, without, note)
        before = runs.get(run["run"]) if more else None
        runs[run["run"]] = together(before, run) if before else run
    text = page(runs.values())
    kept.write_text(json.dumps(list(runs.values()), indent=1) + "\n")
    target.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Adds results of power cuts to the report.")
    page_of_all = ROOT / "docs/reports/power-loss.md"
    parser.add_argument("--to", type=Path, default=page_of_all, help="the page")
    parser.add_argument("--without", default="", help="what the daemon lacked on purpose")
    parser.add_argument("--note", default="", help="what else has to be known of the results")
    parser.add_argument("--more", action="store_true", help="further cuts of runs in the page")
    parser.add_argument("files", type=Path, nargs="+", help="of results")
    options = parser.parse_args()
    try:
        add(options.files, options.to, options.without, options.note, more=options.more)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"report: these results cannot be added: {error}; the page is as it was")

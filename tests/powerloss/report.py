"""What power cuts did, as a table: of reconstructed states, of a live campaign, of machines.

usage: report.py FILE.json... >docs/power-loss-report.md

Joins results that write() has written into one page of Markdown.
Errors: a file that cannot be read or is none of these: one sentence, exit 1.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: How a cut can end, and the column's title. Only the first is good.
OUTCOMES = {
    "recovered": "recovered",
    "lost": "lost",
    "wrong": "wrong data",
    "stuck": "did not start",
}


def table(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a policy, and their sum; each result has "policy" and "outcome" (OUTCOMES)."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        if result["outcome"] not in OUTCOMES:
            raise ValueError(f"unknown outcome '{result['outcome']}'; use {', '.join(OUTCOMES)}")
        for row in (result["policy"], "all"):
            counts.setdefault(row, Counter())[result["outcome"]] += 1
    rows = sorted(counts, key=lambda row: (row == "all", row))
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


def page(files: Iterable[Path]) -> str:
    """One page of several results: what was run, and what became of each cut."""
    runs, rows = [], []
    for file in files:
        results = json.loads(file.read_text())
        name = f"{file.stem.split('-')[0]}, {results['engine']}, {results['chain']}"
        skipped = ("engine", "chain", "rows", "results")
        facts = "; ".join(f"{k} {v}" for k, v in results.items() if k not in skipped)
        runs.append(f"| {name} | {facts} |")
        for row in results["rows"]:
            rows.append("| " + " | ".join([name, *(str(value) for value in row.values())]) + " |")
    head = "| Run | policy | cuts | " + " | ".join(OUTCOMES.values()) + " |"
    lines = ["# Power-loss report", "", "Made by `tests/powerloss/report.py` from the results of"]
    lines += [
        "`make powerloss-replay` and `make powerloss`; [power-loss.md](power-loss.md) says what"
    ]
    lines += ['is checked and what the policies are. "lies" is the negative control: a disk that']
    lines += ["ignores flushes.", "", head, "|---|---|" + "--:|" * (1 + len(OUTCOMES)), *rows, ""]
    lines += ["| Run | of what |", "|---|---|", *runs]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("report: name the results, out/powerloss/*/*.json")
    try:
        print(page(Path(name) for name in sys.argv[1:]), end="")
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"report: these are no results of power cuts: {error}")

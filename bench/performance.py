#!/usr/bin/env python3
"""Makes docs/reports/performance.md, with its plots, from the results of bench/compare.py.

usage: bench/performance.py [RESULTS.json] [--out FILE]
  RESULTS.json  default out/bench/results.json
  --out FILE    default docs/reports/performance.md; beside it are plots, performance-*.svg,
                and a copy of the results, performance.json, which a later run can add to:
                copy it back

Every figure is a median over the rounds. A ratio is the median of the ratios round by round,
base to variant, with the smallest and the largest: larger than 1 is better than the base.
Errors: results that are missing or of another program: one sentence, exit 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import wrap
from typing import Any

from bench.plan import (
    ABLATIONS,
    CANDIDATES,
    CLAIMS,
    LIBRARIES,
    PRODUCT,
    PROFILED,
    SCENARIOS,
    TUNINGS,
    UPSTREAM,
    VARIANTS,
    Claim,
    Scenario,
    Variant,
)
from lab.paths import ROOT

#: What has a row in the second table of a scenario.
SETTINGS = [*CANDIDATES, *TUNINGS, *PROFILED]
#: What the tables call a variant.
TITLES = {variant.name: variant.title for variant in VARIANTS}
#: Variants by name.
BY_NAME = {variant.name: variant for variant in VARIANTS}
#: Which build of the daemon a variant is: several have one, with other options.
BUILDS = {variant.name: (variant.folder, variant.image) for variant in VARIANTS}
#: Figures of the tables: key, heading, decimals, and whether a ratio says something.
FIGURES = [
    ("sync_s", "sync, s", 0, True),
    ("cpu_s", "CPU, s", 0, True),
    ("stolen_percent", "taken by the host, %", 0, False),
    ("rss_mib", "peak RSS, MiB", 0, True),
    ("rss_stopped_mib", "peak RSS with the last flush, MiB", 0, True),
    ("rss_anonymous_mib", "of it anonymous, MiB", 0, False),
    ("received_mib", "received, MiB", 0, False),
    ("written_mib", "written, MiB", 0, True),
    ("spilled_mib", "of it blocks that did not fit into memory, MiB", 0, False),
    ("unwritten_mib", "deleted before written, MiB", 0, False),
    ("written_per_block_kib", "a block, KiB", 0, False),
    ("flushes", "flushes of the device", 0, False),
    ("stop_s", "last flush and stop, s", 1, True),
    ("restart_s", "restart, s", 1, True),
    ("verify_s", "startup verification, s", 1, True),
    ("verify_cpu_s", "CPU until then, s", 1, False),
    ("verify_read_mib", "read until then, MiB", 0, False),
    ("tip_written_mib", "written a day, MiB", 0, True),
    ("tip_blocks_mib", "of it the day's blocks, MiB", 0, False),
    ("tip_transactions", "transactions a day", 0, False),
    ("tip_flushes", "flushes of the device a day", 0, False),
    ("tip_reads", "reads a block, requests", 0, True),
    ("tip_read_kib", "reads a block, KiB", 0, True),
    ("tip_block_ms", "time a block, ms", 0, True),
    ("tip_rss_mib", "peak RSS of the day, MiB", 0, True),
    ("tip_stolen_percent", "taken by the host in the day, %", 0, False),
]
#: The project's aims, as ratios of stock to each engine: figure, scenario, least ratio. Those with
#: the memory that is named, and those with a cache that is to the coins what it is to mainnet's.
AIMS = [
    ("sync_s", "sd-1g", 2.0, "sync on an SD card with 1 GiB"),
    ("sync_s", "sd-scaled", 3.0, "sync on an SD card, cache in proportion"),
    ("sync_s", "fast", 1.3, "sync without limits of the disk"),
    ("sync_s", "fast-scaled", 1.3, "sync without limits of the disk, cache in proportion"),
    ("verify_s", "sd-scaled", 1.0, "startup verification, of blocks that were all stored"),
    ("verify_s", "fast-scaled", 1.0, "startup verification, of blocks that were all stored"),
    ("written_mib", "sd-1g", 4.0, "bytes written"),
    ("written_mib", "sd-scaled", 4.0, "bytes written, cache in proportion"),
    ("rss_mib", "sd-1g", 1.0, "peak RSS"),
    ("rss_mib", "sd-scaled", 1.0, "peak RSS, cache in proportion"),
    ("tip_written_mib", "tip", 5.0, "bytes written a day at the tip"),
]

#: Transactions of mainnet up to February 2026: chainTxData in the pinned source's chainparams.cpp.
MAINNET_TRANSACTIONS = 1_315_805_869
#: And of one of its days: 5.4011 a second, the same line.
MAINNET_TRANSACTIONS_A_DAY = 466_656
#: What a day at the tip may write, in GB.
MOST_A_DAY = 1.5


@dataclass(frozen=True)
class Ratio:
    """Base to variant, over the rounds that have both."""

    middle: float
    least: float
    most: float
    rounds: int

    def __str__(self) -> str:
        """Median, and the spread when there is one."""
        spread = f" ({self.least:.2f} to {self.most:.2f})" if self.rounds > 1 else ""
        return f"{self.middle:.2f}{spread}"


class Results:
    """The runs of one file, by scenario, variant and round."""

    def __init__(self, data: dict[str, Any]) -> None:
        """Raises KeyError when it is something else."""
        self.machines: list[dict[str, Any]] = data["machines"]
        self.chains: dict[str, dict[str, Any]] = data["chains"]
        self._runs: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
        self._newest: dict[tuple[str, bool], str | None] = {}
        for run in data["runs"]:
            if run["variant"] not in BUILDS:
                continue  # the plan has it no more
            self._newest[BUILDS[run["variant"]]] = run.get("daemon")
            self._runs.setdefault((run["scenario"], run["variant"]), {})[run["round"]] = run

    def runs(self, scenario: str, variant: str) -> dict[int, dict[str, Any]]:
        """By round."""
        return self._runs.get((scenario, variant), {})

    def measured_on(self, scenario: str) -> set[int]:
        """Which of the machines has runs of it."""
        return {
            run["machine"]
            for (name, _), by_round in self._runs.items()
            for run in by_round.values()
            if name == scenario
        }

    def outdated(self, scenario: str, variant: str) -> bool:
        """Whether its runs there are of another daemon than the newest run of its build anywhere,
        which may be a run of another variant. What is built of the same source with one patch more
        or less has no newer run itself: it is as old as the product's daemon in its rounds.
        """
        rounds = self.runs(scenario, variant)
        stock = "--stock" in BY_NAME[variant].build
        beside = [variant] if stock else [variant, *(item.name for item in PRODUCT[1:])]
        return any(
            run.get("daemon") != self._newest[BUILDS[name]]
            for name in beside
            for number, run in self.runs(scenario, name).items()
            if number in rounds
        )

    def value(self, scenario: str, variant: str, figure: str) -> float | None:
        """The median over the rounds."""
        values = [run[figure] for run in self.runs(scenario, variant).values() if figure in run]
        return median(values) if values else None

    def together(self, scenario: str, base: str, variant: str) -> set[int]:
        """The rounds that have both."""
        return self.runs(scenario, base).keys() & self.runs(scenario, variant).keys()

    def ratio(self, scenario: str, base: str, variant: str, figure: str) -> Ratio | None:
        """Of rounds that have both, none if there are none."""
        bases, others = self.runs(scenario, base), self.runs(scenario, variant)
        ratios = [
            bases[number][figure] / others[number][figure]
            for number in self.together(scenario, base, variant)
            if bases[number].get(figure) and others[number].get(figure)
        ]
        if not ratios:
            return None
        return Ratio(median(ratios), min(ratios), max(ratios), len(ratios))

    def variants(self, scenario: str, among: list[Variant]) -> list[str]:
        """Those measured in it, in the plan's order."""
        return [variant.name for variant in among if self.runs(scenario, variant.name)]


def table(results: Results, scenario: Scenario, variants: list[str]) -> list[str]:
    """A table of the figures that were measured: one row each, one column a variant."""
    base = variants[0]
    lines = ["| | " + " | ".join(TITLES[name] for name in variants) + " |"]
    lines.append("|---|" + "---:|" * len(variants))
    counts = (str(len(results.runs(scenario.name, name))) for name in variants)
    lines.append("| rounds | " + " | ".join(counts) + " |")
    for key, heading, decimals, compare in FIGURES:
        values = {name: results.value(scenario.name, name, key) for name in variants}
        if all(value is None for value in values.values()):
            continue  # older than the figure
        cells = []
        for name, value in values.items():
            cell = "" if value is None else f"{value:.{decimals}f}"
            ratio = results.ratio(scenario.name, base, name, key)
            if compare and ratio and name != base:
                cell += f"; **{ratio}**"
            cells.append(cell)
        lines.append(f"| {heading} | " + " | ".join(cells) + " |")
    return lines


def settings(results: Results, scenario: Scenario) -> list[str]:
    """A table of candidates and tunings: one row each, ratios to the product's daemon. Below it
    those that are in no round with the product any more, as its runs there are newer.
    """
    bases = {variant.name: variant.base for variant in SETTINGS}
    measured = results.variants(scenario.name, SETTINGS)
    names = [name for name in measured if results.together(scenario.name, bases[name], name)]
    shown = [
        (key, heading)
        for key, heading, _, compare in FIGURES
        if compare and any(results.value(scenario.name, name, key) is not None for name in names)
    ]
    lines = []
    if names:
        lines += ["With one setting or patch that is not the product's: the product's figure"]
        lines += ["divided by this one's, with the same engine; larger than 1 is better than"]
        lines += ["the product.", ""]
        lines += ["| Setting or patch | rounds | " + " | ".join(head for _, head in shown) + " |"]
        lines += ["|---|" + "---:|" * (len(shown) + 1)]
    for name in names:
        cells = [
            str(results.ratio(scenario.name, bases[name], name, key) or "") for key, _ in shown
        ]
        rounds = len(results.together(scenario.name, bases[name], name))
        lines += [f"| {TITLES[name]} | {rounds} | " + " | ".join(cells) + " |"]
    if names:
        lines += [""]
    alone = [TITLES[name] for name in measured if name not in names]
    if alone:
        text = f"In no round of the product that is here: {', '.join(alone)}."
        lines += [*wrap(text, width=90), ""]
    return lines


def verdict(claim: Claim, ratio: Ratio) -> str:
    """In words, what the ratio says of the claim."""
    if ratio.least <= 1.0 <= ratio.most and ratio.middle < claim.low:
        return "not seen: the rounds lie on both sides of 1"
    if ratio.middle < 1.0:
        return "the opposite"
    if ratio.middle < claim.low:
        return "smaller"
    return "as claimed" if ratio.middle <= claim.high * 1.05 else "larger"


def claims(results: Results) -> list[str]:
    """The table of what others measured."""
    titles = {scenario.name: scenario.title for scenario in SCENARIOS}
    lines = ["| Claim | source | conditions here | ratio here | verdict |", "|---|---|---|---|---|"]
    for claim in CLAIMS:
        for scenario in claim.scenarios:
            ratio = results.ratio(scenario, claim.base, claim.variant, claim.figure)
            if ratio:
                old = results.outdated(scenario, claim.variant)
                lines.append(
                    f"| {claim.text} | {claim.source} | {titles[scenario]} | {ratio} | "
                    f"{verdict(claim, ratio)}{', earlier build' if old else ''} |"
                )
    return lines


def aims(results: Results) -> list[str]:
    """The project's aims and what was reached with each engine."""
    lines = ["| Aim, stock / Cairn | scenario | LevelDB | LMDB |", "|---|---|---|---|"]
    for figure, scenario, least, text in AIMS:
        cells = []
        for engine in ("leveldb", "lmdb"):
            stored = figure.startswith("verify_") and engine == "leveldb"
            name = "blocks-stored" if stored else engine
            ratio = results.ratio(scenario, "stock", name, figure)
            met = "" if not ratio else ": reached" if ratio.middle >= least else ": not reached"
            age = ", earlier build" if results.outdated(scenario, name) else ""
            cells.append(f"{ratio}{met}{age}" if ratio else "not measured")
        lines.append(f"| {text} ≥ {least} | {scenario} | " + " | ".join(cells) + " |")
    return lines


def card(results: Results) -> list[str]:
    """What a sync and a year at the tip write to a card, as if mainnet were like the chains."""
    lines = []
    for scenario in SCENARIOS:
        chain = results.chains.get(scenario.chain)
        for variant in PRODUCT:
            rounds = len(results.runs(scenario.name, variant.name))
            title = f"{variant.title}, {rounds} round{'s' if rounds > 1 else ''}"
            written = results.value(scenario.name, variant.name, "written_mib")
            if chain and written and scenario.disk:
                each = written * 2**20 / chain["transactions"]
                lines += [
                    f"| a sync | {scenario.name} | {title} | {each:.0f} bytes a transaction"
                    f" | {each * MAINNET_TRANSACTIONS / 1e9:,.0f} GB |"
                ]
            day = results.value(scenario.name, variant.name, "tip_written_mib")
            count = results.value(scenario.name, variant.name, "tip_transactions")
            if day and count:
                each = day * 2**20 / count
                daily = each * MAINNET_TRANSACTIONS_A_DAY / 1e9
                met = "" if variant.name == "stock" else f" (aim: at most {MOST_A_DAY})"
                lines += [
                    f"| a year at the tip | {scenario.name} | {title} |"
                    f" {each:,.0f} bytes a transaction | {daily:.2f} GB a day{met},"
                    f" {daily * 365:,.0f} GB |"
                ]
    if not lines:
        return []
    return [
        "## What it means for a card",
        "",
        "| What is written in | scenario | variant | measured | on mainnet |",
        "|---|---|---|---|---|",
        *lines,
        "",
        "- A sync: the bytes that the device got, divided by the chain's transactions, times the",
        f"  {MAINNET_TRANSACTIONS:,} of mainnet up to February 2026. That is an extrapolation: the",
        "  chains have fewer coins, and few blocks that are not full. One peer sent them in order,",
        "  except in `peers`.",
        "- In `sd-1g` nearly all coins fit into the cache, as they do not on mainnet: that row is",
        "  the least that a sync can write. In `sd-scaled` the cache is as small as the chain, and",
        "  a little more ([bench.md](../develop/bench.md#limits)).",
        "- A year at the tip: the bytes that the device got in the day, divided by the day's",
        f"  transactions, times mainnet's {MAINNET_TRANSACTIONS_A_DAY:,} a day, times 365. That",
        "  is an extrapolation, too: of one day, with a sixth of mainnet's coins.",
        "- A card's maker gives the bytes that may be written to it (TBW), if at all; divide.",
        "",
    ]


def plot(results: Results, figure: str, title: str, path: Path) -> None:
    """Bars of one figure, scenario by scenario, whiskers over the rounds."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    # The same results give the same bytes.
    matplotlib.rcParams |= {"svg.hashsalt": "cairn", "svg.fonttype": "none", "font.size": 9}
    shown = [s for s in SCENARIOS if len(results.variants(s.name, PRODUCT)) > 1]
    figure_plot, axes = plt.subplots(figsize=(7, 3))
    width = 0.8 / len(PRODUCT)
    for place, variant in enumerate(PRODUCT):
        bars, low, high, at = [], [], [], []
        for index, scenario in enumerate(shown):
            runs = results.runs(scenario.name, variant.name).values()
            values = [run[figure] for run in runs if figure in run]
            if values:
                middle = median(values)
                bars.append(middle)
                low.append(middle - min(values))
                high.append(max(values) - middle)
                at.append(index + (place - (len(PRODUCT) - 1) / 2) * width)
        axes.bar(at, bars, width * 0.9, yerr=[low, high], capsize=2, label=variant.title)
    axes.set_xticks(range(len(shown)), [scenario.name for scenario in shown])
    axes.set_ylabel(title)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure_plot.tight_layout()
    figure_plot.savefig(path, metadata={"Date": None})
    plt.close(figure_plot)


def machines(results: Results) -> list[str]:
    """What was measured where, one line a machine that has runs."""
    lines = []
    for number, facts in enumerate(results.machines):
        text = ", ".join(f"{key} {value}" for key, value in facts.items())
        names = [s.name for s in SCENARIOS if number in results.measured_on(s.name)]
        if names:
            lines += [f"- Machine of {', '.join(names)}: {text}"]
    return lines


def page(results: Results) -> str:
    """The report, in Markdown."""
    lines = ["# Performance", ""]
    lines += [
        "Made by `bench/performance.py` from runs of `make bench`; what is measured, and how:"
    ]
    lines += ["[bench.md](../develop/bench.md).", ""]
    lines += machines(results)
    lines += [
        f"- Chain '{name}': {chain['bytes'] / 1e9:.2f} GB, {chain['height']} blocks,"
        f" {chain['transactions']} transactions, {chain['inputs']} inputs, {chain['utxos']} UTXOs"
        f" at the end, seed {chain['seed']} ([bench-chain.md](../develop/bench-chain.md))"
        for name, chain in results.chains.items()
    ]
    lines += ["- Figures are medians of the rounds. In bold: the first column's figure divided by"]
    lines += ["  this one's in the same round, larger than 1 is better; in brackets its range.", ""]
    lines += ["## Aims", "", *aims(results), ""]
    lines += card(results)
    lines += ["![Seconds of a sync](performance-sync.svg)", ""]
    lines += ["![MiB written in a sync](performance-written.svg)", ""]
    for scenario in SCENARIOS:
        groups = [[*PRODUCT, *UPSTREAM, *ABLATIONS], LIBRARIES]
        tables = [names for group in groups if (names := results.variants(scenario.name, group))]
        if not tables:
            continue
        lines += [f"## {scenario.name}: {scenario.title}", ""]
        for names in tables:
            lines += [f"Chain '{scenario.chain}'."]
            old = [name for name in names if results.outdated(scenario.name, name)]
            if old:
                lines += [f"Of an earlier build than in other scenarios: {', '.join(old)}."]
            lines += [""]
            lines += [*table(results, scenario, names), ""]
        lines += settings(results, scenario)
    lines += ["## What others measured, measured here", "", *claims(results), ""]
    return "\n".join(lines)


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Makes the report of a benchmark.")
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "out/bench/results.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/reports/performance.md")
    options = parser.parse_args()
    try:
        text = options.results.read_text()
        results = Results(json.loads(text))
        options.out.write_text(page(results))
        options.out.with_suffix(".json").write_text(text)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(
            f"performance.py: {options.results} are no results of bench/compare.py"
            f" ({type(error).__name__}: {error}); run make bench first",
            file=sys.stderr,
        )
        return 1
    plot(results, "sync_s", "seconds", options.out.with_name(f"{options.out.stem}-sync.svg"))
    plot(
        results,
        "written_mib",
        "MiB written",
        options.out.with_name(f"{options.out.stem}-written.svg"),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

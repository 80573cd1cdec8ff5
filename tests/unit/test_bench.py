"""bench/: a run of the stock daemon is measured, and results become a report."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import compare, performance, plan, run_node, tip
from lab.limits import CGROUPS, LimitError, MemoryGroup, Settings
from lab.paths import ROOT
from tests.shared.commands import captured, program

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(),
    reason="needs root and loop devices",
)
FIGURES = {"sync_s": 100.0, "written_mib": 1000.0, "rss_mib": 500.0, "verify_s": 10.0}


def results(**factors: list[float]) -> dict[str, Any]:
    """Made-up results of one scenario: stock, and variants so many times as good, by round."""
    runs = []
    for number in range(3):
        where = {"round": number, "scenario": "fast", "machine": 0}
        runs.append({**where, "variant": "stock", **FIGURES})
        for name, values in factors.items():
            figures = {key: value / values[number] for key, value in FIGURES.items()}
            runs.append({**where, "variant": name, **figures})
    chain = {"bytes": 10**9, "height": 9, "transactions": 8, "inputs": 7, "utxos": 6, "seed": 5}
    machines = [{"processor": "P", "cores": 2}]
    return {"machines": machines, "chains": {"standard": chain}, "runs": runs}


def test_card() -> None:
    """Bytes of a sync and of a year: the figure that was measured, times what it stands for."""
    data = results()
    assert performance.card(performance.Results(data)) == []
    data["chains"] = {
        name: {**data["chains"]["standard"], "transactions": 2**20} for name in ("standard", "tip")
    }
    day = {"tip_transactions": 2**19}
    data["runs"] = [
        {"round": 0, "scenario": "sd-1g", "variant": "leveldb", "written_mib": 1000.0},
        {"round": 0, "scenario": "tip", "variant": "leveldb", "tip_written_mib": 1000.0, **day},
        {"round": 0, "scenario": "tip", "variant": "stock", "tip_written_mib": 10_000.0, **day},
    ]
    text = "\n".join(performance.card(performance.Results(data)))
    assert "| Cairn, LevelDB, 1 round | 1000 bytes a transaction | 1,316 GB |" in text
    daily = "0.93 GB a day (aim: at most 1.5), 341 GB"
    assert f"| Cairn, LevelDB, 1 round | 2,000 bytes a transaction | {daily} |" in text
    stock = "| stock Core (LevelDB), 1 round | 20,000 bytes a transaction"
    assert f"{stock} | 9.33 GB a day, 3,407 GB |" in text


def test_transactions_of_a_block() -> None:
    """A CompactSize of one byte, and of three."""
    assert tip.transactions(bytes(80) + b"\xfc" + bytes(9)) == 252
    assert tip.transactions(bytes(80) + b"\xfd\x04\x03" + bytes(9)) == 0x304


def test_folders() -> None:
    """Each build has a folder, the one that support/core-build uses."""
    assert plan.Variant("", "").folder == "core"
    assert plan.Variant("", "", ("--stock", "--with", "a")).folder == "core-stock-a"
    assert plan.Variant("", "", ("--with", "a", "--with", "b")).folder == "core-a-b"
    for variant in plan.VARIANTS:
        for name in [word for word in variant.build if not word.startswith("--")]:
            assert (ROOT / f"bench/ablation/{name}.patch").exists()


def test_plan_is_consistent() -> None:
    """Claims and aims speak of scenarios, variants and figures that are there."""
    scenarios = {scenario.name for scenario in plan.SCENARIOS}
    variants = {variant.name for variant in plan.VARIANTS}
    figures = {figure[0] for figure in performance.FIGURES}
    for claim in plan.CLAIMS:
        assert {claim.base, claim.variant} <= variants
        assert set(claim.scenarios) <= scenarios
        assert claim.figure in figures
    assert {scenario for _, scenario, _, _ in performance.AIMS} <= scenarios
    assert {figure for figure, _, _, _ in performance.AIMS} <= figures


def test_ratios() -> None:
    """The median of the ratios by round, not the ratio of medians; rounds that both have."""
    data = performance.Results(results(leveldb=[2.0, 1.0, 4.0]))
    ratio = data.ratio("fast", "stock", "leveldb", "sync_s")
    assert ratio == performance.Ratio(2.0, 1.0, 4.0, 3)
    assert str(ratio) == "2.00 (1.00 to 4.00)"
    assert data.ratio("fast", "stock", "lmdb", "sync_s") is None
    assert data.ratio("fast", "stock", "leveldb", "restart_s") is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((1.2, 1.15, 1.3), "as claimed"),
        ((1.05, 1.02, 1.08), "smaller"),
        ((1.01, 0.9, 1.1), "not seen"),
        ((0.9, 0.8, 0.95), "the opposite"),
        ((1.5, 1.4, 1.6), "larger"),
    ],
)
def test_verdicts(values: tuple[float, float, float], words: str) -> None:
    """A claim of 10 to 26 %."""
    claim = plan.Claim("", "", 1.10, 1.26, "a", "b", ())
    assert performance.verdict(claim, performance.Ratio(*values, 3)).startswith(words)


def test_page() -> None:
    """Medians, ratios, aims and claims are on the page; no column for what was not run."""
    text = performance.page(performance.Results(results(leveldb=[2.0] * 3, lmdb=[0.5] * 3)))
    assert "| sync, s | 100 | 50; **2.00 (2.00 to 2.00)** | 200; **0.50 (0.50 to 0.50)** |" in text
    assert "sync without limits of the disk ≥ 1.3 | fast | 2.00 (2.00 to 2.00): reached" in text
    assert "0.50 (0.50 to 0.50): not reached" in text
    assert "not measured" in text
    assert "the opposite" in text
    assert "no dirty list" not in text
    assert "| rounds | 3 | 3 | 3 |" in text


def test_page_of_settings() -> None:
    """Tunings are compared with the product, the daemons of the two lanes with each other."""
    runs = results(leveldb=[2.0] * 3, **{"par-1": [1.0] * 3, "musl": [0.9] * 3, "glibc": [1.0] * 3})
    text = performance.page(performance.Results(runs))
    assert "| one thread | 3 | 0.50 (0.50 to 0.50) |" in text
    assert "| | Cairn on glibc, host lane | Cairn on musl, x86_64 image |" in text
    assert "111; **0.90 (0.90 to 0.90)**" in text
    assert "| | stock Core (LevelDB) | Cairn, LevelDB |\n" in text


def test_page_of_earlier_builds() -> None:
    """A daemon that another variant of the same build has newer is old, and so is one with a build
    of its own that ran beside it; a setting that ran in no round of the product has no row of
    ratios that are not there.
    """
    data = results(leveldb=[2.0] * 3, **{"no-fetcher": [1.0] * 3, "fixed-levels": [1.0] * 3})
    for run in data["runs"]:
        run["daemon"] = {"stock": "a", "fixed-levels": "b"}.get(run["variant"], "old")
    alone = {"scenario": "fast", "machine": 0, "variant": "par-1", "daemon": "old", **FIGURES}
    data["runs"].append({"round": 3, **alone})
    data["runs"].append({**alone, "round": 0, "variant": "lmdb"})
    data["runs"].append({**alone, "round": 0, "variant": "of another plan"})
    text = performance.page(performance.Results(data))
    assert "Of an earlier build" not in text
    assert "| one thread |" not in text
    assert "In no round of the product that is here: one thread." in text
    data["runs"].append({**alone, "round": 0, "scenario": "sd-1g", "variant": "lmdb"})
    data["runs"][-1]["daemon"] = "new"
    text = performance.page(performance.Results(data))
    old = "leveldb, lmdb, no-fetcher, fixed-levels"
    assert f"Of an earlier build than in other scenarios: {old}.\n" in text


def test_settings_of_the_kernel(tmp_path: Path) -> None:
    """They come back as they were: choices, and sizes that replace a ratio."""
    files = {"scheduler": "[none] mq-deadline bfq", "dirty_bytes": "0", "dirty_ratio": "20"}
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    settings = Settings()
    settings.set(tmp_path / "scheduler", "bfq")
    settings.set(tmp_path / "dirty_bytes", "1000000")
    assert (tmp_path / "scheduler").read_text() == "bfq"
    assert (tmp_path / "dirty_bytes").read_text() == "1000000"
    (tmp_path / "dirty_ratio").write_text("0")  # as the kernel has it then
    settings.restore()
    assert (tmp_path / "scheduler").read_text() == "none"
    assert (tmp_path / "dirty_ratio").read_text() == "20"
    with pytest.raises(LimitError, match="this kernel does not take"):
        settings.set(tmp_path / "nothing", "1")


def test_daemon_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started by the image's own loader; without an image: one sentence."""
    monkeypatch.setattr(run_node, "IMAGE_TREE", tmp_path)
    variant = plan.Variant("", "", image=True)
    with pytest.raises(run_node.RunError, match="make x86_64"):
        run_node.command_of(variant)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/ld-musl-x86_64.so.1").touch()
    words = run_node.command_of(variant)
    assert words[0] == str(tmp_path / "lib/ld-musl-x86_64.so.1")
    assert words[-1] == str(tmp_path / "usr/bin/bitcoind")


def command(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a script of bench/."""
    return captured(sys.executable, str(ROOT / "bench" / script), *options)


@pytest.mark.parametrize("text", ["", "[]", '{"machines": []}'])
def test_no_results(tmp_path: Path, text: str) -> None:
    """One sentence; no page."""
    file = tmp_path / "results.json"
    file.write_text(text)
    result = command("performance.py", str(file), "--out", str(tmp_path / "page.md"))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "run make bench first" in result.stderr
    assert not (tmp_path / "page.md").exists()


def test_report_is_remade(tmp_path: Path) -> None:
    """The copy of the results beside the page gives the same page and plots."""
    # installs what draws the plots
    listing = subprocess.run(
        [str(ROOT / "support/bench"), "--list"], check=True, capture_output=True, text=True
    )
    assert "fast-scaled " in listing.stdout
    file = tmp_path / "results.json"
    file.write_text(json.dumps(results(leveldb=[2.0, 1.0, 4.0])))
    first, second = tmp_path / "a.md", tmp_path / "b.md"
    assert command("performance.py", str(file), "--out", str(first)).returncode == 0
    again = command("performance.py", str(tmp_path / "a.json"), "--out", str(second))
    assert again.returncode == 0
    assert first.read_text() == second.read_text()
    for name in ("sync.svg", "written.svg"):
        plots = [(tmp_path / f"{page}-{name}").read_text() for page in "ab"]
        assert plots[0] == plots[1]
        assert "stock Core" in plots[0]


def test_unknown_names(tmp_path: Path) -> None:
    """One sentence with the names; --list has all of them."""
    result = command("compare.py", "--variant", "best", "--out", str(tmp_path / "x.json"))
    assert result.returncode == 1
    assert "best" in result.stderr or "root is needed" in result.stderr
    listing = command("compare.py", "--list").stdout
    names = [s.name for s in plan.SCENARIOS] + [v.name for v in plan.VARIANTS]
    assert all(f"{name} " in listing for name in names)


def test_page_in_the_repository() -> None:
    """The page in docs/ is that of the results beside it, with rows that have figures only."""
    kept = ROOT / "docs/reports/performance.json"
    page = performance.page(performance.Results(json.loads(kept.read_text())))
    assert page == kept.with_suffix(".md").read_text()


@needs_root
def test_memory_group() -> None:
    """What a process in it fills counts, and cannot be more; the group goes away."""
    if not (CGROUPS / "memory").exists() and not (CGROUPS / "cgroup.subtree_control").exists():
        pytest.skip("no control groups")
    group = MemoryGroup(50)
    try:
        hungry = [sys.executable, "-c", "x = bytearray(200 << 20); print(len(x))"]
        result = subprocess.run(hungry, check=False, capture_output=True, preexec_fn=group.join)
        assert result.returncode == -9
    finally:
        group.close()
    assert subprocess.run(hungry, check=False, capture_output=True).returncode == 0


def test_chain_that_is_made_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other options or another generator make it anew; that alone makes it no other chain."""
    monkeypatch.setattr(compare, "ROOT", tmp_path)
    program(tmp_path / "support/chaingen", f"echo x >>{tmp_path}/made; echo '{{\"height\": 9}}'")
    generator = tmp_path / "bench/chaingen/coins.cpp"
    generator.parent.mkdir(parents=True)
    generator.write_text("1")
    (tmp_path / "a.blk").touch()

    def made(*options: str) -> int:
        path, summary = compare.make_chain("a", options, tmp_path)
        assert (path, compare.facts(summary)) == (tmp_path / "a.blk", {"height": 9})
        return (tmp_path / "made").read_text().count("x")

    assert [made("-a"), made("-a"), made("-a", "-b"), made("-a", "-b")] == [1, 1, 2, 2]
    generator.write_text("2")
    assert [made("-a", "-b"), made("-a", "-b")] == [3, 3]
    # of a version that did not note it
    (tmp_path / "a.json").write_text('{"height": 9}')
    assert made("-a", "-b") == 4
    (tmp_path / "a.blk").unlink()
    (tmp_path / "support/chaingen").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(subprocess.CalledProcessError):
        made("-a", "-b")


@pytest.mark.slow  # builds a daemon to measure with, and syncs with it
@needs_root
def test_measure(tmp_path: Path) -> None:
    """The stock daemon syncs a small chain; each figure of the report is measured."""
    small = ("-blocks=300", "-txs=20", "-utxos=6000")
    path, summary = compare.make_chain("tiny", small, tmp_path)
    assert compare.make_chain("tiny", small, tmp_path) == (path, summary)
    scenario = plan.Scenario("small", "", None, None, 8)
    stock = plan.Variant("stock", "", ("--stock",))
    dirty = Path("/proc/sys/vm/dirty_bytes")
    with compare.feeder(path, summary) as port:
        served = run_node.Chain(summary, [port], path)
        figures = run_node.measure(scenario, stock, served, tmp_path / "work", check=True)
        tuned = plan.Variant(
            "tuned",
            "",
            ("--stock",),
            cache=2,
            mount="commit=60",
            sysctl={"vm/dirty_bytes": str(48 << 20)},
            queue={"read_ahead_kb": "16"},
        )
        before = dirty.read_text()
        with (
            compare.feeder(path, summary, 20) as slow,
            compare.feeder(path, summary, 50) as quick,
        ):
            several = run_node.Chain(summary, [slow, quick], path)
            again = run_node.measure(scenario, tuned, several, tmp_path / "work", check=False)
        assert dirty.read_text() == before
    assert again.keys() | {"coins_equal"} == figures.keys()
    assert figures["coins_equal"] is True
    assert figures["verified_blocks"] == summary["tail"] + run_node.VERIFY_BLOCKS
    assert figures["verified_transactions"] > run_node.VERIFY_BLOCKS
    for key, *_ in performance.FIGURES:
        if key.startswith("tip_") or key == "spilled_mib":  # stock stores all blocks
            continue
        # a small chain's files may all live long enough; a host may have nothing else to do
        may_be_none = key in ("unwritten_mib", "stolen_percent")
        assert figures[key] > 0 or (may_be_none and figures[key] == 0), key
    assert figures["written_mib"] > summary["bytes"] / 2**20
    assert figures["flushes"] >= 1
    # a chain that the coins are not of
    wrong = run_node.Chain({**summary, "muhash": "0" * 64}, served.ports, path)
    with (
        compare.feeder(path, summary) as port,
        pytest.raises(run_node.RunError, match="other coins"),
    ):
        wrong = run_node.Chain(wrong.summary, [port], path)
        run_node.measure(scenario, stock, wrong, tmp_path / "work", check=True)
    assert not (tmp_path / "work/disk/mnt").is_mount()


@pytest.mark.slow  # builds a daemon to measure with
@needs_root
def test_measure_tip(tmp_path: Path) -> None:
    """Two hours at the tip: each block comes at its own time, and the coins are the chain's."""
    words = ("-blocks=150", "-txs=20", "-utxos=3000", "-scripts=open", "-day=12")
    path, summary = compare.make_chain("tiny", words, tmp_path)
    assert summary["day"] == 12
    scenario = plan.Scenario("small", "", None, None, 8)
    stock = plan.Variant("stock", "", ("--stock",))
    with compare.feeder(path, summary) as port:
        served = run_node.Chain(summary, [port], path)
        figures = tip.measure_tip(scenario, stock, served, tmp_path / "work", check=True)
    assert figures["coins_equal"] is True
    for key, *_ in performance.FIGURES:
        may_be_none = key in ("tip_stolen_percent", "tip_reads", "tip_read_kib")
        assert not key.startswith("tip_") or figures[key] > 0 or may_be_none, key
    # twelve times as much a day, and more than the blocks alone
    assert figures["tip_written_mib"] > figures["tip_blocks_mib"]
    assert not (tmp_path / "work/disk/mnt").is_mount()


def test_long_scenarios_are_named() -> None:
    """They run only if somebody asks for them, with the variants that they add."""
    options = argparse.Namespace(scenario=None, variant=None)
    scenarios, variants = compare.chosen(options)
    assert not {"tip", "large"} & {scenario.name for scenario in scenarios}
    assert "stock-no-seek" not in {variant.name for variant in variants}
    options.scenario = ["tip"]
    scenarios, variants = compare.chosen(options)
    assert [scenario.name for scenario in scenarios] == ["tip"]
    names = {variant.name for variant in variants}
    assert names == {"stock", "stock-no-seek", "leveldb", "lmdb"}
    options.variant = ["leveldb"]
    assert [variant.name for variant in compare.chosen(options)[1]] == ["leveldb"]


def test_results_are_kept(tmp_path: Path) -> None:
    """A file that cannot be read is not written over."""
    store = tmp_path / "results.json"
    store.write_text(json.dumps(results()))
    assert compare.load_results(store)["runs"]
    store.write_text("{")
    with pytest.raises(compare.BenchError, match="remove it or name another"):
        compare.load_results(store)
    store.write_text('{"machine": {}, "chains": {}, "runs": []}')
    with pytest.raises(compare.BenchError, match="no results of this version"):
        compare.load_results(store)


def test_results_of_another_machine(tmp_path: Path) -> None:
    """A scenario is of one machine; others may be added on another one, and the page names both."""
    data = results(leveldb=[2.0] * 3)
    store = tmp_path / "results.json"
    with pytest.raises(compare.BenchError, match=r"fast in .* another machine; .* --anew"):
        compare.known_machine(data, {"fast", "peers"}, store)
    assert compare.known_machine(data, {"peers"}, store) == 1
    assert data["machines"][1] == compare.machine()
    assert compare.known_machine(data, {"peers"}, store) == 1
    text = performance.page(performance.Results(data))
    assert "\n- Machine of fast: processor P, cores 2\n- Chain" in text
    data["runs"].append({**data["runs"][0], "scenario": "peers", "machine": 1})
    text = performance.page(performance.Results(data))
    assert "\n- Machine of fast: processor P, cores 2\n- Machine of peers: processor " in text
    assert compare.known_machine({}, {"fast"}, store) == 0


def test_runs_of_other_builds() -> None:
    """They are left out where the variant is run again; those of the others stay."""
    first, second, third = ({"scenario": "fast", "round": number} for number in (1, 2, 3))
    runs: list[dict[str, Any]] = [
        {**first, "variant": "leveldb", "daemon": "new"},
        {**first, "variant": "stock", "daemon": "any"},
        {**second, "variant": "leveldb", "daemon": "old"},
        {**second, "variant": "stock", "daemon": "any"},
        {**second, "variant": "lmdb", "daemon": "old"},
        {"scenario": "sd-1g", "round": 2, "variant": "leveldb", "daemon": "old"},
    ]
    daemons = {"stock": "any", "leveldb": "new"}
    kept = compare.still_valid(runs, {"fast"}, daemons)
    assert kept == [run for run in runs if run != runs[2]]
    # with nothing left to be compared with in its round, a run goes, too
    runs.append({**third, "variant": "leveldb"})
    runs.append({**third, "variant": "stock", "daemon": "any"})
    assert compare.still_valid(runs, {"fast"}, daemons) == kept
    # one that was made alone stays
    alone = [{**third, "variant": "stock", "daemon": "any"}]
    assert compare.still_valid(alone, {"fast"}, daemons) == alone


def test_earlier_builds_are_named() -> None:
    """Where a scenario has runs of another daemon than the variant's newest."""
    data = results(leveldb=[2.0] * 3)
    for run in data["runs"]:
        run["daemon"] = "old"
    assert "earlier build" not in performance.page(performance.Results(data))
    data["runs"].append({**data["runs"][-1], "scenario": "sd-1g", "daemon": "new"})
    text = performance.page(performance.Results(data))
    assert text.count("Of an earlier build than in other scenarios: leveldb.") == 1

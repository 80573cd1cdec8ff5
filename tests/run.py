#!/usr/bin/env python3
"""Runs Cairn's checks and ends with `N passed, N failed, N skipped`.

usage: tests/run.py [--check | --only STAGE] [--image FILE] [--suite NAME]
  --check       the inner loop: lint, unit and hostile, without the tests marked `slow` or `long`
  --only STAGE  one stage
  --image FILE  image under test (robot), default the development image
  --suite NAME  one Robot suite

Prints its stages first, with the time that each took in the last whole run on this machine
(out/test/times.json, which a whole run writes at its end); no figure where there is none.

Stages, in order (each builds what it needs; all results below out/test/):
  lint        shellcheck, actionlint, ruff, mypy, rules of the house (script length, width of
              lines, patch headers, patch queues as git writes them), links and spelling
  unit        pytest on Cairn's own scripts (tests/unit)
  hostile     generated node.conf files, logs and disks that mean harm (tests/hostile)
  browser     the node's page in Chromium (tests/browser), screenshots in out/page
  core        Bitcoin Core's unit tests on the patched source, with each database engine;
              those of the input fetcher with the thread sanitizer, too
  functional  Bitcoin Core's functional tests named in tests/core/functional.txt, likewise
  robot       Robot Framework suites against the image booted in QEMU (out/robot/)

Environment: CAIRN_TEST_UNTIL  Unix time after which no further robot test is begun; the rest
counts as skipped. Default: none. BOARD_HOST  a board, on which the Robot suites run instead of in
QEMU, see docs/develop/board-lane.md; the other words BOARD_… are about it.

A stage that cannot even start (a build error, say) counts as one failure and the
following stages still run. Exit status: 0 when nothing failed, 1 otherwise.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab import boards
from lab.board import Board, Words
from lab.paths import OUT, ROOT
from tests import stage_times
from tests.doc_checks import broken_links, unlisted_patches, unlisted_paths
from tests.style_checks import python_files, robot_logic, wide_lines

RESULTS = OUT / "test"
TIMES = RESULTS / "times.json"
BIN = Path(sys.executable).parent
SCRIPT_LINES_MAX = 300
#: How Boost.Test and Python say what failed, among all that the code under test prints.
FAILURE = re.compile(r"error: in |^[\w.]+(Error|Exception)\b")
FAILURE_LINES_MAX = 10
#: Suites in the order in which they are run; where time is short, the last are left out.
SUITES = [
    "boot",
    "sync",
    "service",
    "health",
    "recovery",
    "powerloss",
    "config",
    "network",
    "page",
    "tune",
    "scripts",
    "datadisk",
    "update",
    "image",
]
#: Words that codespell takes for misspelt ones: Core's "lates", parts of words in tests and tables.
SPELLED_RIGHT = "archiv,conect,lates,ure,wit"
#: Not our words, or no words.
NOT_PROSE = {".patch", ".xz", ".json", ".svg", ".hash"}
PATCH_HEADER = ("What:", "Why:", "Upstream status:", "How to drop:")


@dataclass
class Tally:
    """Number of checks by outcome."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Tally) -> None:
        """Adds another tally to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        """The words of the closing line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class StageError(Exception):
    """A stage could not be carried out; the text says why."""


def build(*command: str) -> None:
    """Runs a build script of support/ and raises StageError if it fails."""
    if subprocess.run([str(ROOT / "support" / command[0]), *command[1:]], check=False).returncode:
        raise StageError(f"support/{' '.join(command)} failed, see its message above")


def say_why(log: str) -> None:
    """Prints the lines of a test's log that say what failed, or else the last ones."""
    lines = log.rstrip().splitlines()
    said: list[str] = []
    quoted = False
    for line in lines:
        if quoted or FAILURE.search(line):
            said.append(line)
            # Core's wait_until quotes the source of what it waited for, some lines of it.
            quoted = not line.startswith("'''") if quoted else line.endswith("''''")
    for line in (said or lines[-5:])[:FAILURE_LINES_MAX]:
        print(f"    {line}")


def junit(path: Path) -> Tally:
    """Counts the outcomes in a JUnit XML file; prints what failed, and why tests were skipped."""
    if not path.exists():
        raise StageError(f"{path.relative_to(ROOT)} was not written")
    tally = Tally()
    skipped: dict[str, list[str]] = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            tally.failed += 1
            print(f"FAILED: {case.get('classname', '')} {case.get('name', '')}")
            say_why(case.findtext("system-out", ""))
        elif "skipped" in kinds or case.get("status") in {"disabled", "notrun"}:
            tally.skipped += 1
            child = case.find("skipped")
            why = (child.get("message") if child is not None else None) or "no reason given"
            skipped.setdefault(" ".join(why.split()), []).append(case.get("name", ""))
        else:
            tally.passed += 1
    for why, names in skipped.items():
        print(f"skipped: {names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {why}")
    return tally


def finished(report: Path, status: int, failures: int) -> Tally:
    """Counts the outcomes in the JUnit XML file of a program that has ended.

    ``status``: its exit status; ``failures``: the one with which it says that tests have failed.
    Raises StageError if it ended otherwise or ran no test: what it did not run is not counted.
    """
    tally = junit(report)
    if status not in {0, failures} or (status and not tally.failed):
        raise StageError(f"{report.name} may lack tests: what wrote it ended with status {status}")
    if tally == Tally():
        raise StageError(f"{report.name} has no test")
    return tally


def check(name: str, problems: list[str]) -> Tally:
    """One lint check: passed when there are no problems, which are printed."""
    for problem in problems:
        print(f"{name}: {problem}")
    return Tally(failed=1) if problems else Tally(passed=1)


def tracked() -> list[Path]:
    """All files of the repository: tracked, or new and not ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if listing.returncode:
        said = listing.stderr.strip().splitlines()
        raise StageError(
            f"git cannot list this checkout's files ({said[0]}); use a git clone of your own"
        )
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def is_shell(path: Path) -> bool:
    """Whether a file is a shell script, by suffix or first line."""
    if path.suffix == ".sh":
        return True
    with path.open("rb") as stream:
        return bool(re.match(rb"#!.*\b(ba|da)?sh\b", stream.readline()))


def output_of(command: list[str]) -> list[str]:
    """Lines a checker prints when it finds fault; none when it is content."""
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return (result.stdout + result.stderr).splitlines() if result.returncode else []


def lint(_: argparse.Namespace) -> Tally:
    """Static checks of the repository's own files."""
    files = tracked()
    scripts = [path for path in files if not path.is_symlink() and is_shell(path)]
    tally = check("shellcheck", output_of(["shellcheck", "-x", *map(str, scripts)]))
    workflows = sorted(str(path) for path in ROOT.glob(".github/workflows/*.yml"))
    tally.add(check("workflows", output_of([str(ROOT / "support/workflow-lint"), *workflows])))
    long = [
        f"{path.relative_to(ROOT)} has {count} lines, {SCRIPT_LINES_MAX} are the limit; split it"
        for path in scripts
        if (count := len(path.read_text().splitlines())) >= SCRIPT_LINES_MAX
    ]
    tally.add(check("length", long))
    tally.add(check("width", wide_lines(ROOT, files)))
    tally.add(check("robot", robot_logic(ROOT, files)))
    lax = [
        f"{path.relative_to(ROOT)} does not say `set -eu`"
        for path in scripts
        if path.suffix != ".sh" and "set -eu" not in path.read_text()
    ]
    tally.add(check("set -eu", lax))
    python = [".", *map(str, python_files(files))]
    tally.add(check("ruff", output_of([str(BIN / "ruff"), "check", *python])))
    tally.add(check("ruff format", output_of([str(BIN / "ruff"), "format", "--check", *python])))
    # What is checked, and how strictly, is in mypy.ini.
    tally.add(check("types", output_of([str(BIN / "mypy")])))
    headers = []
    for path in sorted([*ROOT.glob("patches/*/*.patch"), *ROOT.glob("bench/*/*.patch")]):
        text = path.read_text(errors="replace").split("\ndiff --git")[0]
        headers += [
            f"{path.relative_to(ROOT)} has no '{word}' in its header"
            for word in PATCH_HEADER
            if word not in text
        ]
    tally.add(check("patch headers", headers))
    # Fetches the pinned sources when they are not in the cache, as the stages after this one do.
    tally.add(check("patch queues", output_of([str(ROOT / "support/core-patches"), "--check"])))
    tally.add(check("patch table", output_of([str(ROOT / "support/core-table"), "--check"])))
    keywords = [str(BIN / "python"), str(ROOT / "support/keyword-docs"), "--check"]
    tally.add(check("keyword docs", output_of(keywords)))
    tally.add(check("links", broken_links(ROOT, files)))
    tally.add(check("files of a node", unlisted_paths(ROOT)))
    tally.add(check("patches of a node", unlisted_patches(ROOT)))
    words = [
        str(path.relative_to(ROOT))
        for path in files
        if path.suffix not in NOT_PROSE and not path.is_symlink()
    ]
    spelling = [str(BIN / "codespell"), "--ignore-words-list", SPELLED_RIGHT, *words]
    tally.add(check("spelling", output_of(spelling)))
    return tally


def pytest(folder: str, options: argparse.Namespace, daemons: bool = True) -> Tally:
    """pytest on a folder of tests/, with the real daemons where a test asks for them.

    Without `daemons` no test of the folder does, and none is compiled.
    Tests marked `long` are left out, with --check also those marked `slow`. Each processor has a
    file of tests at a time: those of one file share what they made, and a port.
    """
    if daemons:
        build("core-build")
        build("core-build", "--stock")
    report = RESULTS / f"{folder}.xml"
    report.unlink(missing_ok=True)
    result = subprocess.run(
        [
            *(str(BIN / "pytest"), "-q", "-p", "no:cacheprovider", f"--junitxml={report}"),
            *("-n", str(os.cpu_count() or 1), "--dist", "loadfile"),
            *("-m", "not slow and not long" if options.check else "not long"),
            f"tests/{folder}",
        ],
        cwd=ROOT,
        check=False,
        env={
            **os.environ,
            "CAIRN_BITCOIND": str(OUT / "core/bin/bitcoind"),
            "CAIRN_IMAGE": str(Path(options.image).resolve()) if options.image else "",
        },
    )
    return finished(report, result.returncode, 1)


def unit(options: argparse.Namespace) -> Tally:
    """pytest on Cairn's own scripts."""
    return pytest("unit", options)


def hostile(options: argparse.Namespace) -> Tally:
    """pytest on input that is meant to do harm."""
    return pytest("hostile", options)


def browser(options: argparse.Namespace) -> Tally:
    """pytest on the node's page in a browser."""
    return pytest("browser", options, daemons=False)


def unit_suites(engine: str) -> Tally:
    """All suites of test_bitcoin with the databases on another engine than the default."""
    binary = OUT / "core/build/bin/test_bitcoin"
    # Boost prints the tree of tests to stderr: suites without indentation, with a star if
    # they are enabled in this build.
    listing = subprocess.run([binary, "--list_content"], capture_output=True, text=True).stderr
    suites = [line[:-1] for line in listing.splitlines() if line[:1] > " " and line[-1] == "*"]
    if not suites:
        raise StageError("test_bitcoin lists no suites")

    def run(suite: str) -> tuple[str, int]:
        command = [str(binary), f"--run_test={suite}", "--catch_system_errors=no"]
        log = RESULTS / f"core-{engine}" / f"{suite}.log"
        with log.open("w") as stream:
            command += ["--", f"-dbbackend={engine}"]
            result = subprocess.run(command, check=False, stdout=stream, stderr=subprocess.STDOUT)
        return suite, result.returncode

    (RESULTS / f"core-{engine}").mkdir(exist_ok=True)
    tally = Tally()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for suite, status in pool.map(run, suites):
            if status == 0:
                tally.passed += 1
            else:
                tally.failed += 1
                print(f"FAILED: {suite} with {engine} (see out/test/core-{engine}/{suite}.log)")
                say_why((RESULTS / f"core-{engine}/{suite}.log").read_text(errors="replace"))
    return tally


def thread_sanitizer() -> Tally:
    """The tests of what runs on several threads; one more check: no data race."""
    report, races = RESULTS / "core-tsan.xml", RESULTS / "core-tsan.log"
    report.unlink(missing_ok=True)
    command = [str(ROOT / "support/core-tsan"), "--log_format=JUNIT", f"--log_sink={report}"]
    with races.open("w") as log:
        clean = not subprocess.run(command, check=False, stdout=log, stderr=log).returncode
    tally = junit(report)
    if clean:
        tally.passed += 1
    elif not tally.failed:
        tally.failed += 1
        print("FAILED: the thread sanitizer found a data race (see out/test/core-tsan.log)")
        say_why(races.read_text(errors="replace"))
    return tally


def core(_: argparse.Namespace) -> Tally:
    """Bitcoin Core's own unit tests, each suite a test, with LevelDB and with LMDB."""
    build("core-build", "--tests")
    # Boost.Test colours its errors in files, too.
    os.environ["BOOST_TEST_COLOR_OUTPUT"] = "no"
    report = RESULTS / "core.xml"
    report.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(OUT / "core/build"), "--output-junit", str(report)]
    command += ["-j", str(os.cpu_count() or 1), "--output-on-failure", "--no-tests=error"]
    # Of a long output the report would have the beginning only, and not the error.
    command += ["--test-output-size-failed", str(1 << 30)]
    with (RESULTS / "core.log").open("w") as log:
        result = subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT)
    tally = finished(report, result.returncode, 8)
    tally.add(unit_suites("lmdb"))
    tally.add(thread_sanitizer())
    return tally


def functional(_: argparse.Namespace) -> Tally:
    """Bitcoin Core's functional tests of our list, with LevelDB and with LMDB."""
    build("core-build", "--tests")
    tally = functional_with("leveldb")
    tally.add(functional_with("lmdb"))
    return tally


def functional_with(engine: str) -> Tally:
    """The list once, by upstream's runner, on a daemon whose default is this engine."""
    listing = (ROOT / "tests/core/functional.txt").read_text().splitlines()
    names = [line.split("#")[0].strip() for line in listing]
    names = [name for name in names if name]
    report = RESULTS / f"functional-{engine}.csv"
    daemon = RESULTS / f"bitcoind-{engine}"
    daemon.write_text(f'#!/bin/sh\nexec "{OUT}/core/build/bin/bitcoind" -dbbackend={engine} "$@"\n')
    daemon.chmod(0o755)
    report.unlink(missing_ok=True)
    command = [sys.executable, str(OUT / "core/build/test/functional/test_runner.py"), *names]
    command += ["--jobs", str((os.cpu_count() or 1) * 2), "--quiet", f"--resultsfile={report}"]
    command += [f"--tmpdirprefix={RESULTS}"]
    environment = {**os.environ, "BITCOIND": str(daemon)}
    output = RESULTS / f"functional-{engine}.log"
    with output.open("w") as log:
        subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT, env=environment)
    if not report.exists():
        raise StageError(
            f"upstream's test runner wrote no result, see out/test/functional-{engine}.log"
        )
    said = output.read_text(errors="replace")
    tally = Tally()
    with report.open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["test"] == "ALL":
                continue
            if row["status"] == "Passed":
                tally.passed += 1
            elif row["status"] == "Skipped":
                tally.skipped += 1
            else:
                tally.failed += 1
                print(f"FAILED: {row['test']} (see out/test/functional-{engine}.log)")
                _, _, rest = said.partition(f" - {row['test']} failed, Duration: ")
                # up to the next test's heading, or to the table at the end
                say_why(re.split(r"\n\d+/\d+ - |\nTEST +\|", rest, maxsplit=1)[0])
    missing = len(names) - tally.passed - tally.failed - tally.skipped
    if missing > 0:
        print(f"FAILED: {missing} functional tests of the list were not run with {engine}")
        tally.failed += missing
    return tally


def board_options(board: boards.Board | None) -> list[str]:
    """Options of robot for an image of this board: what it cannot be tested for, and its buses.

    None: on the development image.
    """
    if board is None:
        return ["--exclude", "buildroot"]
    # Without firmware in QEMU, the image's boot loader is not run.
    unknown = [] if board.meta["QEMU_FIRMWARE"] else ["--exclude", "uefi"]
    return [*unknown, "--variable", "LATE_BUS:usb"]


def reach(words: Words) -> list[str]:
    """Options of robot for a board, once it was reached and has said whose image it has."""
    try:
        board = Board(words)
        board.reach(540)  # as patient as the suites are with a machine that is booting
        name = board.run("sed -n 's/^VARIANT_ID=//p' /etc/os-release").strip('"')
        board.ssh.close()
    except (AssertionError, ValueError) as error:
        raise StageError(f"the board cannot be tested: {error}") from error
    if words.feeder:
        build("core-build", "--stock")
    image = f"an image for {name}" if name in boards.names() else "the development image"
    print(f"{words.host} has {image}. Each suite begins with a restart of the node.", flush=True)
    left = board_options(boards.read(name) if name in boards.names() else None)
    return [*left, "--variable", "IMAGE_CONF:"]


def image_options(options: argparse.Namespace) -> list[str]:
    """Options of robot for an image in QEMU, which is made if none is given."""
    build("core-build")
    build("core-build", "--stock")
    image = options.image
    if image is None:
        build("devimage")
        image = OUT / "devimage/cairn-dev.img"
    image = Path(image).resolve()
    if not image.is_file():
        raise StageError(f"the image {image} does not exist; give IMAGE=FILE")
    return ["--variable", f"IMAGE:{image}", *board_options(boards.of_image(image))]


def robot(options: argparse.Namespace) -> Tally:
    """The Robot Framework suites on the image, or on a board."""
    words = Words.read(os.environ)
    if words.host and options.image:
        raise StageError("BOARD_HOST= and IMAGE= exclude each other: a board has its own image")
    machine = reach(words) if words.host else image_options(options)
    target = OUT / "robot"
    shutil.rmtree(target, ignore_errors=True)
    command = [str(BIN / "robot"), "--outputdir", str(target), "--xunit", "xunit.xml"]
    command += ["--name", "Robot"]
    if until := os.environ.get("CAIRN_TEST_UNTIL"):
        command += ["--listener", f"{ROOT / 'tests/robot/lib/deadline.py'}:{until}"]
    command += ["--console", "dotted" if os.environ.get("CI") else "verbose"]
    # Emulated machines were seen to take from 20 to 150 s to boot, as their host was busy. Patience
    # costs nothing unless a test fails.
    command += ["--variable", "TIMEOUT_FACTOR:3"]
    command += machine
    if options.suite:
        command += ["--suite", options.suite]
    else:
        command += ["--exclude", "long"]
    suites = [f"tests/robot/{name}.robot" for name in SUITES]
    subprocess.run([*command, *suites], cwd=ROOT, check=False)
    if options.image and (target / "figures.json").exists():
        # For support/image-report; another suite's figures of the same image stay.
        image = Path(options.image).resolve()
        kept = image.parent / "figures.json"
        figures = {}
        if kept.exists() and kept.stat().st_mtime > image.stat().st_mtime:
            figures = json.loads(kept.read_text())
        figures |= json.loads((target / "figures.json").read_text())
        kept.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    return junit(target / "xunit.xml")


STAGES: dict[str, Callable[[argparse.Namespace], Tally]] = {
    "lint": lint,
    "unit": unit,
    "hostile": hostile,
    "browser": browser,
    "core": core,
    "functional": functional,
    "robot": robot,
}
#: Stages of the inner loop, `make check`
CHECK = ("lint", "unit", "hostile")


@dataclass
class Outcome:
    """What a stage came to."""

    stage: str
    tally: Tally
    seconds: float
    carried_out: bool


def carry_out(name: str, options: argparse.Namespace) -> Outcome:
    """Runs a stage; one that cannot be carried out counts as a failed check."""
    print(f"== {name}", flush=True)
    start = time.monotonic()
    try:
        tally, carried_out = STAGES[name](options), True
    except StageError as error:
        print(f"FAILED: {name}: {error}")
        tally, carried_out = Tally(failed=1), False
    return Outcome(name, tally, time.monotonic() - start, carried_out)


def main() -> int:
    """Runs the stages asked for and prints the sum."""
    parser = argparse.ArgumentParser(description="Runs Cairn's checks.")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--check", action="store_true", help="the inner loop")
    part.add_argument("--only", choices=list(STAGES), help="run one stage")
    parser.add_argument("--image", help="image under test (robot), default: development image")
    parser.add_argument("--suite", help="run one Robot suite")
    options = parser.parse_args()
    # Debian leaves the folders of sfdisk and mkfs out of a normal user's PATH.
    os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"
    try:
        RESULTS.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"run.py: no results can be written ({error}); use a clone of your own")
        return 1
    kind = "check" if options.check else "test"
    names = [options.only] if options.only else list(CHECK) if options.check else list(STAGES)
    print(stage_times.announce(names, stage_times.read(TIMES, kind)), flush=True)
    start = time.monotonic()
    outcomes = [carry_out(name, options) for name in names]
    if not options.only and not options.suite:
        times = {outcome.stage: outcome.seconds for outcome in outcomes if outcome.carried_out}
        stage_times.keep(TIMES, kind, times | {"all": time.monotonic() - start})
    total = Tally()
    lines = []
    for outcome in outcomes:
        total.add(outcome.tally)
        lines.append(f"{outcome.stage:<11} {outcome.tally}  ({outcome.seconds:.0f} s)")
    print("\n".join(["", *lines]))
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())

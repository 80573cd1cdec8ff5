"""bitcoind-verdict: what the unit makes of the daemon's end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

CASES = [
    # log line, service result, held back?, words of the report
    (
        "Error: Corrupted block database detected. Please restart with -reindex",
        "exit-code",
        True,
        "Put reindex=1 into node.conf",
    ),
    (
        "[error] Fatal LevelDB error: Corruption: block checksum mismatch: /x/000005.ldb",
        "exit-code",
        True,
        "A database is damaged",
    ),
    ("Error: Error opening coins database.", "exit-code", True, "A database is damaged"),
    ("Error: Disk space is too low!", "exit-code", True, "data partition is full"),
    (
        "Fatal LevelDB error: IO error: /x/000007.log: No space left on device",
        "exit-code",
        True,
        "data partition is full",
    ),
    (
        "Fatal LMDB error: Corruption: page checksum mismatch in /x/lmdb; check the device",
        "exit-code",
        True,
        "A database is damaged",
    ),
    (
        "Fatal LMDB error: /x/lmdb: No space left on device; free some space and restart",
        "exit-code",
        True,
        "data partition is full",
    ),
    (
        "Error: /x/chainstate holds a database of leveldb, not of lmdb: start with -reindex",
        "exit-code",
        True,
        "systemctl start node-convert@lmdb",
    ),
    (
        "[warning] Cannot load banlist /x/banlist.json: Settings file /x/banlist.json does not "
        "contain valid JSON. This is probably caused by disk corruption or a crash",
        "timeout",
        False,
        "bitcoind ended with timeout",
    ),
    ("", "oom-kill", False, "ran out of memory"),
    ("", "signal", False, "bitcoind ended with signal"),
    ("Error: Unable to bind to 0.0.0.0:8333", "exit-code", False, "Unable to bind"),
]


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize(("line", "result", "held", "words"), CASES)
def test_verdict(
    root: Path, tmp_path: Path, shell: str, line: str, result: str, held: bool, words: str
) -> None:
    """Each end gets its sentence; only a hopeless one holds the service back."""
    run = tmp_path / "run/cairn"
    run.mkdir(parents=True)
    log = tmp_path / "log"
    log.write_text(f"UpdateTip: new best=1\n{line}\nShutdown done\n")
    script = root / "overlay/usr/lib/cairn/bitcoind-verdict"
    env = {**os.environ, "CAIRN_ROOT": str(tmp_path), "CAIRN_LOG": str(log)}
    env |= {"SERVICE_RESULT": result, "EXIT_STATUS": "1"}
    subprocess.run([*shell.split(), str(script)], check=True, env=env, capture_output=True)
    report = (run / "bitcoind.report").read_text()
    assert words in report
    assert len(report.splitlines()) == 1
    assert (run / "bitcoind.hold").exists() is held


def report_after(root: Path, tmp_path: Path, result: str) -> Path:
    """Runs it with this SERVICE_RESULT on the report of an earlier run; its path."""
    report = tmp_path / "run/cairn/bitcoind.report"
    report.parent.mkdir(parents=True)
    report.write_text("A database is damaged\n")
    script = root / "overlay/usr/lib/cairn/bitcoind-verdict"
    env = {**os.environ, "CAIRN_ROOT": str(tmp_path), "SERVICE_RESULT": result}
    subprocess.run([str(script)], check=True, env=env)
    return report


def test_held_back_keeps_the_report(root: Path, tmp_path: Path) -> None:
    """A start that the hold refuses (ExecCondition=) changes nothing."""
    report = report_after(root, tmp_path, "exec-condition")
    assert report.read_text() == "A database is damaged\n"


def test_clean_end_clears_the_report(root: Path, tmp_path: Path) -> None:
    """After a clean stop nothing of an earlier failure is shown."""
    assert not report_after(root, tmp_path, "success").exists()


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
@pytest.mark.parametrize(
    ("conf", "log", "refused"),
    [
        ("proxy=x\n", "Error: Invalid -proxy address or hostname: 'x'\n", True),
        ("regtest=1\n", "Error: Unable to bind to 0.0.0.0:8333\n", False),
        ("proxy=x\n", "Done loading\nError: A fatal internal error occurred\n", False),
    ],
)
def test_refused_options(
    root: Path, tmp_path: Path, shell: str, conf: str, log: str, refused: bool
) -> None:
    """Only before it was up, and only with options of the user's, are these blamed."""
    (tmp_path / "run/cairn").mkdir(parents=True)
    (tmp_path / "run/bitcoind").mkdir()
    (tmp_path / "run/bitcoind/bitcoin.conf").write_text(f"# x\nincludeconf=/a\n{conf}")
    (tmp_path / "log").write_text(log)
    called = tmp_path / "called"
    env = {**os.environ, "CAIRN_ROOT": str(tmp_path), "CAIRN_LOG": str(tmp_path / "log")}
    env |= {"SERVICE_RESULT": "exit-code", "EXIT_STATUS": "1"}
    env |= {"CAIRN_NODE_CONFIG": f"touch {called}"}
    script = root / "overlay/usr/lib/cairn/bitcoind-verdict"
    for _ in range(2):
        subprocess.run([*shell.split(), str(script)], check=True, env=env, capture_output=True)
    assert (tmp_path / "run/cairn/bitcoind.refused").exists() is refused
    assert called.exists() is refused
    # the second failure in a row is not blamed on the user again
    assert (tmp_path / "run/cairn/bitcoind.report").exists()

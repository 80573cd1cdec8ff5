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
        "reindex-chainstate=1",
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


def test_clean_end_clears_the_report(root: Path, tmp_path: Path) -> None:
    """After a clean stop nothing of an earlier failure is shown."""
    run = tmp_path / "run/cairn"
    run.mkdir(parents=True)
    (run / "bitcoind.report").write_text("old\n")
    script = root / "overlay/usr/lib/cairn/bitcoind-verdict"
    env = {**os.environ, "CAIRN_ROOT": str(tmp_path), "SERVICE_RESULT": "success"}
    subprocess.run([str(script)], check=True, env=env)
    assert not (run / "bitcoind.report").exists()

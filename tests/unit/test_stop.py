"""bitcoind-stop: asks once, waits, reports progress."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_waits_for_the_end_and_reports(root: Path, tmp_path: Path, shell: str) -> None:
    """The daemon gets one SIGTERM; each time it has written more, more time is asked for."""
    notify = tmp_path / "bin/systemd-notify"
    notify.parent.mkdir()
    notify.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/notified\n')
    notify.chmod(0o755)
    daemon = subprocess.Popen(
        [
            "/bin/sh",
            "-c",
            f"trap 'echo asked >>{tmp_path}/asked; sleep 13; exit' TERM; "
            f"touch {tmp_path}/ready; while :; do sleep 0.1; done",
        ]
    )
    written = tmp_path / f"proc/{daemon.pid}/io"
    written.parent.mkdir(parents=True)
    written.write_text("rchar: 1\nwrite_bytes: 5242880\ncancelled_write_bytes: 0\n")
    while not (tmp_path / "ready").exists():  # asked before, it would end at once
        assert daemon.poll() is None
        time.sleep(0.1)
    path = f"{notify.parent}:{os.environ['PATH']}"
    stop = subprocess.Popen(
        [*shell.split(), str(root / "overlay/usr/lib/cairn/bitcoind-stop"), str(daemon.pid)],
        env={**os.environ, "PATH": path, "CAIRN_ROOT": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    written.write_text("write_bytes: 7340032\n")
    daemon.wait(30)
    said, _ = stop.communicate(timeout=10)
    assert stop.returncode == 0
    assert (tmp_path / "asked").read_text() == "asked\n"
    notified = (tmp_path / "notified").read_text()
    assert notified.count("EXTEND_TIMEOUT_USEC=900000000") == 2
    assert "7 MiB written" in notified
    assert "do not pull the plug" in notified
    assert said.count("7 MiB written since start") == 1


def test_already_gone(root: Path) -> None:
    """A daemon that has ended by itself is no error."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    script = root / "overlay/usr/lib/cairn/bitcoind-stop"
    assert subprocess.run([str(script), str(gone.pid)], check=False).returncode == 0

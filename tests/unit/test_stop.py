"""bitcoind-stop: asks once, waits, reports progress."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_waits_for_the_end_and_reports(root: Path, tmp_path: Path, shell: str) -> None:
    """The daemon gets one SIGTERM; while it writes, systemd is asked for more time."""
    notify = tmp_path / "bin/systemd-notify"
    notify.parent.mkdir()
    notify.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/notified\n')
    notify.chmod(0o755)
    daemon = subprocess.Popen(
        [
            "/bin/sh",
            "-c",
            f"trap 'echo asked >>{tmp_path}/asked; i=0; while [ $i -lt 30 ]; do "
            f"dd if=/dev/zero of={tmp_path}/data bs=64k count=4 conv=fsync 2>/dev/null; "
            "sleep 0.1; i=$((i + 1)); done; exit' TERM; while :; do sleep 0.1; done",
        ]
    )
    time.sleep(0.3)
    stop = subprocess.Popen(
        [*shell.split(), str(root / "overlay/usr/lib/cairn/bitcoind-stop"), str(daemon.pid)],
        env={**os.environ, "PATH": f"{notify.parent}:{os.environ['PATH']}"},
    )
    daemon.wait(30)
    assert stop.wait(10) == 0
    assert (tmp_path / "asked").read_text() == "asked\n"
    assert "EXTEND_TIMEOUT_USEC=900000000" in (tmp_path / "notified").read_text()


def test_already_gone(root: Path) -> None:
    """A daemon that has ended by itself is no error."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    script = root / "overlay/usr/lib/cairn/bitcoind-stop"
    assert subprocess.run([str(script), str(gone.pid)], check=False).returncode == 0

"""Plays a stage: a module of this folder that acts as root in namespaces of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lab.paths import ROOT
from tests.hostile.rights import superuser

BITCOIND = Path(os.environ.get("CAIRN_BITCOIND") or ROOT / "out/core/bin/bitcoind")
UNSHARE = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
UNSHARE += ["--mount-proc"]


def played(name: str, *words: str, seconds: float = 900) -> dict[str, Any]:
    """What tests.hostile.``name`` saw with the real daemon: the JSON in its last line.

    ``words``: more of its arguments. The test fails if the stage does, and is skipped where nobody
    can be root.
    """
    stage = [sys.executable, "-m", f"tests.hostile.{name}", str(ROOT), str(BITCOIND), *words]
    done = subprocess.run(
        [*superuser(), *UNSHARE, *stage],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result

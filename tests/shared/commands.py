"""Runs commands that may fail, for tests that look at what these say."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def captured(
    *command: str, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Exit status, standard output and standard error of a command with nobody at the terminal.

    ``folder``: where it runs, default this process's; ``env``: its whole environment, default
    this process's.
    """
    return subprocess.run(
        command,
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=env,
    )


def program(path: Path, text: str) -> Path:
    """Writes a shell script that can be run, and its folder if it is missing; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path

"""What tests that act as several users, or in namespaces of their own, run their commands with."""

from __future__ import annotations

import os
import subprocess

import pytest


def superuser() -> list[str]:
    """The beginning of a command that root runs; a test that cannot have it is skipped."""
    if os.geteuid() == 0:
        return []
    asked = ["sh", "-c", "sudo -n true"]  # there may be none
    if subprocess.run(asked, check=False, capture_output=True).returncode == 0:
        return ["sudo", "-n"]
    pytest.skip("acts as root and as other users: run it as root, or allow sudo without a password")
    return []


def stranger() -> tuple[list[str], int]:
    """The beginning of a command that somebody runs who is not root, and who that is."""
    if os.geteuid() != 0:
        return [], os.geteuid()
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], 65534

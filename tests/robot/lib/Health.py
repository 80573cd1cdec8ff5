"""Robot Framework library: the machine's health, of the guest and of a made-up Raspberry Pi.

A made-up Raspberry Pi is a folder of the guest with what /proc, /sys and the firmware of a real one
have (tests/shared/made_up_pi.py). The image's own collector runs on it.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from robot.api.deco import keyword, library

from tests.robot.lib.session import session
from tests.shared import made_up_pi

#: Its folder in the guest, in RAM
FOLDER = "/tmp/pi"
FILE = "/run/cairn/health/health.json"


def archive(changes: dict[str, str]) -> str:
    """The made-up machine as a tar archive in base64; ``changes`` are files with another text."""
    stream = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        made_up_pi.make(path)
        for name in ("run/cairn/health", "var/lib/cairn/health"):
            (path / name).mkdir(parents=True, exist_ok=True)
        for name, text in changes.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        with tarfile.open(fileobj=stream, mode="w:gz") as tar:
            tar.add(path, ".")
    return base64.b64encode(stream.getvalue()).decode()


def fitting(text: str) -> dict[str, Any]:
    """The file's content. Raises AssertionError if it is not what the schema says."""
    found = json.loads(text)
    if errors := [error.message for error in made_up_pi.VALIDATOR.iter_errors(found)]:
        raise AssertionError(f"health.json does not fit docs/design/health.schema.json: {errors}")
    assert isinstance(found, dict)
    return found


@library(scope="GLOBAL", auto_keywords=False)
class Health:
    """What cairn-health finds, and what the screen makes of it."""

    @keyword
    def health(self) -> dict[str, Any]:
        """The guest's own health.json.

        Fails if there is none, or if it does not fit the schema.

        Example:
        | ${health}=    Health
        """
        return fitting(session.until("cat /run/cairn/health.json", 90))

    @keyword
    def health_of_a_made_up_raspberry_pi(self, *changes: str) -> dict[str, Any]:
        """What the guest's collector finds on a made-up Raspberry Pi, at its first look.

        ``changes``: files that have another text there, as FILE=TEXT. Fails if the collector does,
        or if what it writes does not fit the schema.

        Example:
        | ${health}=    Health Of A Made Up Raspberry Pi    proc/uptime=77.01 9.00
        """
        files = dict(change.split("=", 1) for change in changes)
        session.run(
            f"rm -rf {FOLDER} && mkdir {FOLDER} && cd {FOLDER} &&"
            f" printf %s {archive(files)} | base64 -d | gunzip | tar x"
        )
        session.run(f"/usr/lib/cairn/cairn-health --root {FOLDER} --once")
        return fitting(session.run(f"cat {FOLDER}{FILE}"))

    @keyword
    def show_the_health_of_a_made_up_raspberry_pi(self, *changes: str) -> None:
        """The guest's screen shows that machine instead of its own, until the next boot.

        ``changes``: as in `Health Of A Made Up Raspberry Pi`; the time since the start is the
        guest's, for the screen ignores what is old.

        Example:
        | Show The Health Of A Made Up Raspberry Pi    sys/class/thermal/thermal_zone0/temp=90000
        """
        session.run("systemctl stop cairn-health")
        uptime = session.run("cat /proc/uptime")
        self.health_of_a_made_up_raspberry_pi(*changes, f"proc/uptime={uptime}")
        session.run(
            f"mkdir -p {Path(FILE).parent} && cp {FOLDER}{FILE} {FILE}.new && mv {FILE}.new {FILE}"
        )

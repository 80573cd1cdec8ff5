"""The suites and the report on a board that QEMU plays: SSH by port forwarding, power by a script.

Half an hour under emulation, by `make board-play`, or `pytest -m long tests/board` of .venv.
The development image must be there, or CAIRN_IMAGE= must name another one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import OUT, ROOT
from tests.board.played import IMAGE, Played

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    """A board that runs; it is off at the end."""
    image = Path(os.environ.get("CAIRN_IMAGE") or IMAGE)
    if not image.is_file():
        pytest.skip(f"there is no image {image}: run 'make devimage'")
    (OUT / "board/known_hosts").unlink(missing_ok=True)
    board = Played(OUT / "board/play")
    board.make(image)
    board.switch("on")
    yield board
    board.switch("off")


def suite(name: str, words: dict[str, str]) -> dict[str, str]:
    """Runs a suite on the board; what became of each test, with the reason of one skipped."""
    command = [sys.executable, "tests/run.py", "--only", "robot", "--suite", name]
    subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, **words})
    found = {}
    for test in ET.parse(OUT / "robot/output.xml").getroot().iter("test"):
        status = test.find("status")
        assert status is not None
        found[test.get("name", "")] = f"{status.get('status')} {status.text or ''}".strip()
    return found


def test_boot(played: Played) -> None:
    """All of it, with a reboot by SSH, the console by a serial port, and a power cut."""
    found = suite("boot", played.words())
    assert len(found) > 15
    assert set(found.values()) == {"PASS"}, found


def test_service(played: Played) -> None:
    """What would change the owner's data is skipped, and so is what is about QEMU's network."""
    found = suite("service", played.words())
    skipped = {name: said for name, said in found.items() if said.startswith("SKIP")}
    assert set(found) - set(skipped) == {name for name, said in found.items() if said == "PASS"}
    assert len(found) - len(skipped) >= 12
    assert len(skipped) == 5, skipped
    assert all("BOARD_MAY_WIPE='yes'" in said or "network" in said for said in skipped.values())


def test_without_power_and_console(played: Played) -> None:
    """Never a pass without having looked: each of these tests is skipped, with the word."""
    words = played.words()
    del words["BOARD_POWER"], words["BOARD_SERIAL"]
    found = suite("boot", words)
    assert found["A Power Cut Keeps The Data"].startswith("SKIP it needs the power switch")
    assert found["Nobody Is Asked To Log In"].startswith("SKIP it needs the console")
    assert found["Second Boot Keeps The Data"] == "PASS"


def test_report(played: Played) -> None:
    """A page with a power cut in it, and with nothing private."""
    words = {**played.words(), "CUTS": "1", "MINUTES": "1"}
    done = subprocess.run(
        [sys.executable, "support/board-report"],
        check=False,
        cwd=ROOT,
        env={**os.environ, **words},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    made = re.search(r"made (out/board-report-\S+\.md)", done.stderr)
    assert made
    page = (ROOT / made[1]).read_text()
    assert re.search(r"14131 blocks in \d", page), page
    assert re.search(r"\| 1 \| \d+ s \| \d+ s \| .* came back by itself, no failed unit \|", page)
    assert "temperature: not available: " in page  # QEMU has no sensor
    assert not re.search(r"127\.0\.0\.1|10\.0\.2\.\d+|AAAAC3|([0-9a-f]{2}:){5}", page)

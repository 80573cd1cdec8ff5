"""The Robot Framework listener that keeps the suites within a time."""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests import run

SUITE = """\
*** Settings ***
Suite Setup       Create File    {marker}
Suite Teardown    Remove File    {marker}
Test Teardown     File Should Exist    {marker}
Library           OperatingSystem

*** Test Cases ***
First
    Sleep    {pause} s

Second
    Log    Said
"""


@pytest.mark.parametrize(
    ("rest", "pause", "outcomes"),
    [(60, 0, ["PASS", "PASS"]), (-1, 0, ["SKIP", "SKIP"]), (12, 14, ["PASS", "SKIP"])],
)
def test_deadline(tmp_path: Path, rest: float, pause: float, outcomes: list[str]) -> None:
    """What was begun is finished; the others are skipped, and a suite of such is not set up."""
    suite, marker = tmp_path / "a.robot", tmp_path / "marker"
    suite.write_text(SUITE.format(marker=marker, pause=pause))
    listener = f"{ROOT}/tests/robot/lib/deadline.py:{time.time() + rest}"
    command = [sys.executable, "-m", "robot", "--outputdir", str(tmp_path)]
    result = subprocess.run(
        [*command, "--listener", listener, str(suite)], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    tests = list(ET.parse(tmp_path / "output.xml").getroot().iter("test"))
    states = [test.find("status") for test in tests]
    assert [state.get("status") for state in states if state is not None] == outcomes
    assert ("no time was left for it" in result.stdout) == ("SKIP" in outcomes)
    assert ("Create File" in (tmp_path / "output.xml").read_text()) == (outcomes[0] == "PASS")


def test_all_suites_are_run() -> None:
    """The order that tests/run.py has names each suite there is."""
    assert sorted(run.SUITES) == sorted(
        path.stem for path in (ROOT / "tests/robot").glob("*.robot")
    )

"""Robot Framework library: writes down what became of each power cut, for the report.

One line of JSON a cut is appended to the file of the Robot variable CUT_LOG (default
out/robot/cuts.jsonl), when the node is up again or the test has failed; tests/powerloss
makes tables of it (outcomes: report.py there).
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn

from lab.paths import ROOT


@library(scope="TEST", auto_keywords=False)
class CutLog:
    """Keywords around one recovery at a time."""

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(self) -> None:
        """No recovery has begun; the library listens for the end of the test."""
        self.ROBOT_LIBRARY_LISTENER = self
        self.cut: dict[str, str | int | float] | None = None
        self.since = 0.0

    def _write(self, outcome: str) -> None:
        assert self.cut is not None
        default = str(ROOT / "out/robot/cuts.jsonl")
        path = Path(str(BuiltIn().get_variable_value("${CUT_LOG}", default)))
        self.cut |= {"seconds": round(time.monotonic() - self.since, 1), "outcome": outcome}
        with path.open("a") as file:
            file.write(json.dumps(self.cut) + "\n")
        self.cut = None

    @keyword
    def begin_recovery(self, **facts: str) -> None:
        """The power was cut and comes back now; ``facts`` describe the cut."""
        numbers = {"seed", "number", "flushed"}
        self.cut = {key: int(value) if key in numbers else value for key, value in facts.items()}
        self.since = time.monotonic()

    @keyword
    def end_recovery(self, height: int) -> None:
        """The node answers, at this height."""
        assert self.cut is not None, "no recovery has begun"
        self.cut["height"] = int(height)
        lost = int(height) < int(self.cut["flushed"])
        self._write("lost" if lost else "recovered")

    def end_test(self, _data: object, result: object) -> None:
        """A test that ends in the middle of a recovery is one that did not come up."""
        if self.cut is not None:
            self.cut["message"] = str(getattr(result, "message", ""))
            self._write("stuck")

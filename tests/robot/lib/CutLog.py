"""Writes down what became of each power cut, for the report.

One line of JSON a cut is appended to a file, when the node is up again or the test has failed;
tests/powerloss makes tables of it (outcomes: report.py there).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from lab.paths import ROOT
from tests.robot.lib.session import session


class CutLog:
    """One recovery at a time."""

    def __init__(self, path: Callable[[], Path]) -> None:
        """``path``: says where to write, when there is something to write."""
        self._path = path
        self._cut: dict[str, str | int | float] | None = None
        self._since = 0.0

    def begin(self, **facts: str | int) -> None:
        """The power was cut and comes back now; ``facts`` describe the cut, one is ``flushed``."""
        self._cut = {**facts}
        self._since = time.monotonic()

    def end(self, height: int) -> None:
        """The node answers, at this height: all is there if it is not below ``flushed``."""
        assert self._cut is not None, "no recovery has begun"
        self._cut["height"] = height
        lost = height < int(self._cut["flushed"])
        self._write("lost" if lost else "recovered")

    def wrong(self, message: str) -> None:
        """The node answers, and something else than its blocks is not as it has to be."""
        assert self._cut is not None, "no recovery has begun"
        self._cut["message"] = message
        self._write("wrong")

    def end_test(self, message: str) -> None:
        """A test that ends in the middle of a recovery is one that did not come up."""
        if self._cut is not None:
            self._cut["message"] = message
            self._write("stuck")

    def _write(self, outcome: str) -> None:
        assert self._cut is not None
        self._cut |= {"seconds": round(time.monotonic() - self._since, 1), "outcome": outcome}
        with self._path().open("a") as file:
            file.write(json.dumps(self._cut) + "\n")
        self._cut = None


class LoggedCuts:
    """What a library of one test's cuts begins with: its log, the cuts' number, the test's end."""

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(self, name: str) -> None:
        """No cut yet; ``name``: of the log in out/robot, unless the variable CUT_LOG has a path."""
        self.ROBOT_LIBRARY_LISTENER = self
        default = str(ROOT / "out/robot" / name)
        self.log = CutLog(lambda: Path(session.variable("CUT_LOG", default)))
        self.number = 0

    def end_test(self, _data: object, result: object) -> None:
        """Of a recovery that did not end, the test's message is kept."""
        self.log.end_test(str(getattr(result, "message", "")))

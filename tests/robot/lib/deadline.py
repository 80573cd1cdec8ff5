"""Robot Framework listener: from some moment on no further test is begun.

usage: robot --listener tests/robot/lib/deadline.py:SECONDS ...
  SECONDS  Unix time of that moment

Tests that were not begun by then are skipped, and say so; suites that were not begun start no
machine. What runs already is finished.
"""

from __future__ import annotations

import time
from typing import Any


class deadline:
    """The listener."""

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(self, seconds: str) -> None:
        """``seconds``: Unix time, as the command line has it."""
        self._seconds = float(seconds)

    def _over(self) -> bool:
        return time.time() > self._seconds

    def start_suite(self, data: Any, result: object) -> None:  # noqa: ANN401
        """No machine for tests that will not be begun."""
        if data.tests and self._over():
            data.setup = None
            data.teardown = None

    def start_test(self, data: Any, result: object) -> None:  # noqa: ANN401
        """In place of what the test does."""
        if self._over():
            data.setup = None
            data.teardown = None
            data.body.clear()
            data.body.create_keyword(name="Skip", args=["no time was left for it"])

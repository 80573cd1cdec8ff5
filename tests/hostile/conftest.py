"""Settings of the suite of hostile input."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Names the mark of what is too long for CI."""
    config.addinivalue_line("markers", "long: minutes; run with `pytest -m long tests/hostile`")

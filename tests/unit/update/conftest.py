"""The nodes that are updated: tests/shared/update_node.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.update_node import BOARDS, UpdateNode


@pytest.fixture(params=BOARDS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> UpdateNode:
    """Each board's node, with version 1.0.0 in slot a."""
    return UpdateNode(tmp_path / "node", request.param)


@pytest.fixture
def pi(tmp_path: Path) -> UpdateNode:
    """One board's, for what is the same on all."""
    return UpdateNode(tmp_path / "node", "rpi5")

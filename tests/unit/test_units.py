"""What systemd makes of our units together: how long a shutdown may take."""

from __future__ import annotations

import re

import pytest

from lab.paths import ROOT

UNITS = ROOT / "overlay/usr/lib/systemd/system"


@pytest.mark.parametrize("target", ["reboot", "poweroff", "halt"])
def test_a_shutdown_waits_for_bitcoind(target: str) -> None:
    """bitcoind gets more time as long as it writes; systemd's own 30 minutes would cut it off."""
    text = (UNITS / f"{target}.target.d/cairn.conf").read_text()
    (hours,) = re.findall(r"(?m)^JobTimeoutSec=(\d+)h$", text)
    # bitcoind alone may take a quarter of an hour without writing anything.
    assert int(hours) >= 2

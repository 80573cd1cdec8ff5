"""What systemd makes of our units together: which are started, and how long a shutdown may take."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT

SYSTEMD = ROOT / "overlay/usr/lib/systemd"
UNITS = SYSTEMD / "system"
RULES = ROOT / "overlay/usr/lib/udev/rules.d"


@pytest.fixture(scope="module")
def enabled(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the preset has started, as TARGET.wants/UNIT, where systemd makes the links."""
    root = tmp_path_factory.mktemp("image")
    shutil.copytree(SYSTEMD, root / "usr/lib/systemd", symlinks=True)
    command = ["systemctl", f"--root={root}", "preset-all"]
    subprocess.run(command, check=True, capture_output=True)
    links = Path(root, "etc/systemd/system").rglob("*.wants/*")
    return [f"{link.parent.name}/{link.name}" for link in links]


def test_each_line_of_the_preset_counts(enabled: list[str]) -> None:
    """A name that is only a link to another unit is passed over by systemd, without a word."""
    lines = (SYSTEMD / "system-preset/00-cairn.preset").read_text().splitlines()
    names = [line.split()[1] for line in lines if line.startswith("enable ")]
    ours = [name for name in names if (UNITS / name).exists()]
    assert len(ours) > 15
    started = {re.sub("@.*[.]", "@.", link.split("/")[1]) for link in enabled}
    assert not set(ours) - started


def test_a_display_has_the_status_screen(enabled: list[str]) -> None:
    """systemd starts it on serial consoles by itself, and on a display only if that is enabled."""
    assert "getty.target.wants/node-status@tty1.service" in enabled
    # Without that, systemd would wait for the device, and bitcoind with it.
    assert "BindsTo=dev-%i.device" in (UNITS / "node-status@.service").read_text().splitlines()
    rules = (RULES / "70-cairn-console.rules").read_text().splitlines()
    assert 'SUBSYSTEM=="tty", KERNEL=="tty1", TAG+="systemd"' in rules


@pytest.mark.parametrize("target", ["reboot", "poweroff", "halt"])
def test_a_shutdown_waits_for_bitcoind(target: str) -> None:
    """bitcoind gets more time as long as it writes; systemd's own 30 minutes would cut it off."""
    text = (UNITS / f"{target}.target.d/cairn.conf").read_text()
    (hours,) = re.findall(r"(?m)^JobTimeoutSec=(\d+)h$", text)
    # bitcoind alone may take a quarter of an hour without writing anything.
    assert int(hours) >= 2


@pytest.mark.parametrize("unit", ["cairn-trial", "cairn-update", "cairn-update-stick"])
def test_the_boot_partition_outlives_who_writes_to_it(unit: str) -> None:
    """Nothing else orders them: boot.mount is `nofail`, so that no target waits for it."""
    text = (UNITS / f"{unit}.service").read_text()
    assert re.search(r"(?m)^After=.*\bboot\.mount\b", text)


def test_the_watchdog_does_not_bite_a_slow_disk() -> None:
    """PID 1 makes folders on the data partition for PrivateTmp=, and waits there with everybody."""
    manager = (SYSTEMD / "system.conf.d/cairn.conf").read_text()
    (minutes,) = re.findall(r"(?m)^RuntimeWatchdogSec=(\d+)min$", manager)
    assert int(minutes) >= 1


def test_a_stick_that_comes_and_goes_fails_no_unit() -> None:
    """udev starts this one as often as it sees a stick; a refused start would end a trial."""
    text = (UNITS / "cairn-update-stick.service").read_text()
    assert "StartLimitIntervalSec=0" in text.splitlines()


@pytest.mark.parametrize("unit", ["cairn-status", "node-status@"])
def test_what_shows_the_node_reaches_nobody(unit: str) -> None:
    """It reads what peers say, and the screen what wallets connect with."""
    lines = (UNITS / f"{unit}.service").read_text().splitlines()
    assert "IPAddressDeny=any" in lines
    assert not [
        line for line in lines if line.startswith("IPAddressAllow=") and line[15:] != "localhost"
    ]


@pytest.mark.parametrize("unit", ["cairn-status", "node-status@"])
def test_what_shows_the_name_sees_it_change(unit: str) -> None:
    """cairn-name gives another one while they run; a name space of its own keeps the old one."""
    assert "ProtectHostname=yes" not in (UNITS / f"{unit}.service").read_text().splitlines()

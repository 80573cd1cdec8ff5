"""cairn-health on made-up /proc, /sys and firmware: figures, counts that outlive a boot, null."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.paths import ROOT
from tests.shared import made_up_pi
from tests.shared.made_up_pi import (
    BITS,
    BOOTS,
    COUNTS,
    DISK,
    LOADER,
    SCHEMA,
    VALIDATOR,
    ZONE,
)

SHELLS = ["dash", "busybox sh"]


@dataclass
class Machine:
    """A root directory that looks like a machine, and cairn-health run on it."""

    path: Path
    shell: list[str] = field(default_factory=lambda: ["dash"])

    def write(self, name: str, data: str | bytes) -> Path:
        """Puts a file below the machine's root."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
        return file

    def boot(self, number: int = 0, uptime: int = 60, sectors: int = 0) -> None:
        """A start of the machine, or a later moment of the same boot."""
        for name, text in made_up_pi.moment(number, uptime, sectors).items():
            self.write(name, text)

    def start(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Starts the collector."""
        script = ROOT / "overlay/usr/lib/cairn/cairn-health"
        command = [*self.shell, str(script), "--root", str(self.path), *options]
        return subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **environment})

    def health(self) -> dict[str, Any]:
        """What the file says, which fits the schema."""
        found = json.loads((self.path / "run/cairn/health/health.json").read_text())
        assert [error.message for error in VALIDATOR.iter_errors(found)] == []
        assert isinstance(found, dict)
        return found

    def look(self, complaint: str = "", **environment: str) -> dict[str, Any]:
        """One look; the service is killed after it, as by a crash or a power cut."""
        process = self.start("--once", **environment)
        said = process.communicate(timeout=30)[1].decode()
        assert process.returncode == 0, said
        assert complaint in said if complaint else said == ""
        return self.health()

    def stop(self) -> None:
        """A run that ends as at a clean stop."""
        file = self.path / "run/cairn/health/health.json"
        file.unlink(missing_ok=True)
        process = self.start()
        end = time.monotonic() + 20
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=20)[1] == b""
        assert process.returncode == 0

    def counts(self) -> dict[str, str]:
        """What is on the data partition."""
        lines = (self.path / COUNTS).read_text().splitlines()[1:-1]
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture(params=SHELLS)
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    """The same in both shells."""
    return pi(tmp_path, request.param)


def pi(path: Path, shell: str) -> Machine:
    """A Raspberry Pi in its first boot."""
    made = bare(path, shell)
    made_up_pi.make(path)
    made.boot()
    return made


def bare(path: Path, shell: str) -> Machine:
    """A machine of which nothing is known."""
    for name in ("run/cairn/health", "var/lib/cairn/health", "proc", "sys"):
        (path / name).mkdir(parents=True)
    return Machine(path, shell.split())


def test_all_figures(machine: Machine) -> None:
    """A machine that tells everything."""
    machine.boot(sectors=4096, uptime=100)
    machine.write("run/cairn/link/state", "end0 - 40 2\neth1 90 - 0\n")
    found = machine.look()
    disks = {disk["name"]: disk for disk in found.pop("disks")}
    assert found.pop("counted_since") == time.strftime("%Y-%m-%d", time.gmtime())
    assert found == {
        "schema": 1,
        "uptime_seconds": 100,
        "temperature_celsius": 51.2,
        "temperature_limit_celsius": 82.0,
        "undervoltage_now": False,
        "undervoltage_since_boot": False,
        "throttled_now": False,
        "throttled_since_boot": False,
        "boot_firmware_date": "2024-09-10",
        "clock_set": True,
        "gateway_silent_seconds": 10,
        "link_restarts": 2,
        "last_link_restart_seconds_ago": 60,
        "unclean_shutdowns": 0,
        "running_seconds": 100,
        "written_bytes": 2097152,
        "written_bytes_last_day": None,
        "filesystem_errors": 0,
        "attention": ["link"],
    }
    assert disks["mmcblk0"] == {
        "name": "mmcblk0",
        "kind": "emmc",
        "data": True,
        "written_bytes_since_boot": 2097152,
        "failed_commands": None,
        "timed_out_commands": None,
        "life_used_percent": 20,
        "reserve": "normal",
    }
    assert disks["sda"]["kind"] == "usb"
    assert (disks["sda"]["failed_commands"], disks["sda"]["timed_out_commands"]) == (31, 0)
    assert disks["sda"]["written_bytes_since_boot"] is None
    # for others to read, and nobody's serial number in it
    file = machine.path / "run/cairn/health/health.json"
    assert file.stat().st_mode & 0o777 == 0o644
    assert "1234abcd" not in file.read_text() + (machine.path / COUNTS).read_text()


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_known(tmp_path: Path, shell: str) -> None:
    """Without any source all is null, nothing needs attention, and nothing is written down."""
    machine = bare(tmp_path, shell)
    found = machine.look()
    known = {"schema": 1, "uptime_seconds": 0, "attention": [], "disks": []}
    assert found == dict.fromkeys(SCHEMA["properties"]) | known
    assert not (tmp_path / COUNTS).exists()


@pytest.mark.parametrize(
    ("name", "text", "attention", "figures"),
    [
        (f"{ZONE}/temp", "82000\n", ["hot"], {"temperature_celsius": 82.0}),
        (
            "sys/class/thermal/cooling_device0/cur_state",
            "3\n",
            ["throttled"],
            {"throttled_now": True, "throttled_since_boot": True},
        ),
        (
            "sys/class/hwmon/hwmon0/in0_lcrit_alarm",
            "1\n",
            ["undervoltage"],
            {"undervoltage_now": True, "undervoltage_since_boot": True},
        ),
        (
            "run/cairn/undervoltage/x",
            "",
            ["undervoltage"],
            {"undervoltage_now": False, "undervoltage_since_boot": True},
        ),
        (
            BITS,
            "50000\n",
            ["undervoltage"],
            {"undervoltage_since_boot": True, "throttled_since_boot": True, "throttled_now": False},
        ),
        (
            BITS,
            "f000f\n",
            ["undervoltage", "throttled"],
            {"undervoltage_now": True, "throttled_now": True},
        ),
        (
            "sys/devices/system/cpu/cpu3/thermal_throttle/package_throttle_count",
            "7\n",
            [],
            {"throttled_since_boot": True, "throttled_now": False},
        ),
        (
            "sys/fs/ext4/mmcblk0p4/errors_count",
            "3\n",
            ["filesystem-errors"],
            {"filesystem_errors": 3},
        ),
        (f"{DISK}/device/iotmo_cnt", "0x2\n", ["disk-timeouts"], {}),
        (f"{DISK}/device/life_time", "0x0a 0x01\n", ["disk-worn:mmcblk0"], {}),
        (f"{DISK}/device/life_time", "0x01 0x0b\n", ["disk-worn:mmcblk0"], {}),
        (f"{DISK}/device/life_time", "0x00 0x00\n", [], {}),
        (f"{DISK}/device/pre_eol_info", "0x02\n", ["disk-worn:mmcblk0"], {}),
        # timeouts of another disk than the data's are not the owner's first care
        ("sys/devices/pci0/usb2/2-1/host0/block/sda/device/iotmo_cnt", "0x9\n", [], {}),
        ("usr/share/cairn/built", "9999999999\n", ["clock"], {"clock_set": False}),
    ],
)
def test_attention(
    machine: Machine, name: str, text: str, attention: list[str], figures: dict[str, object]
) -> None:
    """What the owner should look at, from each source."""
    machine.boot(uptime=700)
    machine.write(name, text)
    found = machine.look()
    assert found["attention"] == attention
    assert {key: found[key] for key in figures} == figures


def test_the_past_of_this_boot_is_remembered(machine: Machine) -> None:
    """An alarm that is over stays an alarm of this boot, also when the collector starts anew."""
    alarm = machine.write("sys/class/hwmon/hwmon0/in0_lcrit_alarm", "1\n")
    machine.look()
    alarm.write_text("0\n")
    found = machine.look()
    assert (found["undervoltage_now"], found["undervoltage_since_boot"]) == (False, True)


@pytest.mark.parametrize(
    ("synchronized", "folder", "hctosys", "state"),
    [
        (True, True, "0", True),
        (False, True, "0", False),
        (False, True, "1", True),
        (False, False, "0", None),
        (False, False, None, None),
    ],
)
def test_clock(
    machine: Machine, synchronized: bool, folder: bool, hctosys: str | None, state: bool | None
) -> None:
    """Set from the network or by a clock with a battery; unknown without timesyncd."""
    timesync = machine.path / "run/systemd/timesync"
    if not synchronized:
        (timesync / "synchronized").unlink()
    if not folder:
        timesync.rmdir()
    if hctosys is not None:
        machine.write("sys/class/rtc/rtc0/hctosys", hctosys + "\n")
    machine.boot(uptime=700)
    found = machine.look()
    assert found["clock_set"] is state
    assert found["attention"] == (["clock"] if state is False else [])
    assert (found["counted_since"] is None) == (state is not True)


HOSTILE = {
    "nothing": b"",
    "binary": bytes(range(256)) * 4,
    "number with NUL": b"4\x002\n",
    "huge file": b"7" * (1 << 20),
    "huge number": b"99999999999999999999999\n",
    "negative": b"-17\n",
    "words": b'1"},"x":{"\n',
    "octal": b"0100\n",
    "command": b"$(touch pwned)`touch pwned`\n",
    "expression": b"a[$(touch pwned)]\n",
}
#: Files of which each has a figure of its own, and the key of what must not be known then.
SOURCES = {
    f"{ZONE}/temp": "temperature_celsius",
    f"{ZONE}/trip_point_1_temp": "temperature_limit_celsius",
    "sys/class/hwmon/hwmon0/in0_lcrit_alarm": "undervoltage_now",
    "sys/class/thermal/cooling_device0/cur_state": "throttled_now",
    LOADER: "boot_firmware_date",
    "sys/fs/ext4/mmcblk0p4/errors_count": "filesystem_errors",
    f"{DISK}/stat": "written_bytes",
    BITS: "throttled_since_boot",
    f"{DISK}/device/life_time": "",
    f"{DISK}/device/pre_eol_info": "",
    f"{DISK}/device/ioerr_cnt": "",
    "usr/share/cairn/built": "",
    "run/cairn/link/state": "",
}
#: What all figures depend on.
BASES = [f"{DISK}/{name}" for name in ("size", "device/serial", "device/type")]
BASES += [f"proc/{name}" for name in ("uptime", "sys/kernel/random/boot_id", "self/mountinfo")]


def obstruct(place: Path) -> Iterator[str]:
    """Puts what is no file in a file's place."""
    place.unlink()
    yield "absent"
    place.mkdir()
    yield "a folder"
    place.rmdir()
    place.symlink_to("nowhere")
    yield "a link"
    place.unlink()


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_figures(tmp_path: Path, shell: str) -> None:
    """What is no figure is null; nothing is made up of it and nothing is run."""
    machine = pi(tmp_path, shell)
    for what, data in HOSTILE.items():
        for source in SOURCES:
            machine.write(source, data)
        found = machine.look()
        # a temperature may be below zero, and the firmware's bits are hexadecimal
        known = {"temperature_celsius"} if what == "negative" else set()
        if what == "octal":
            known = {"throttled_now", "throttled_since_boot", "undervoltage_now"}
        assert {key for key in SOURCES.values() if key and found[key] is not None} == known, what
        disk = found["disks"][0]
        assert (disk["life_used_percent"], disk["reserve"]) == (None, None)
        assert disk["failed_commands"] is None
    for places in zip(*(obstruct(tmp_path / source) for source in SOURCES), strict=True):
        found = machine.look()
        assert [key for key in SOURCES.values() if key and found[key] is not None] == [], places
    for source in SOURCES:
        if not source.startswith("run"):
            os.mkfifo(tmp_path / source)
    machine.look()
    assert not list(tmp_path.rglob("pwned"))
    assert not Path("pwned").exists()


@pytest.mark.parametrize("source", BASES)
def test_hostile_bases(machine: Machine, source: str) -> None:
    """Figures may be lost, nothing else; counts never jump."""
    machine.boot(0, 60, 100)
    machine.look()
    for data in HOSTILE.values():
        machine.write(source, data)
        found = machine.look()
        assert found["written_bytes"] in (None, 51200)
        assert found["unclean_shutdowns"] in (None, 0)
    for _ in obstruct(machine.path / source):
        machine.look()
    assert not list(machine.path.rglob("pwned"))
    assert not Path("pwned").exists()


def test_bytes_outlive_boots(machine: Machine) -> None:
    """The kernel's counter begins at 0 with each boot, and the sum does not."""
    machine.boot(0, 60, 1000)
    assert machine.look()["written_bytes"] == 512000
    machine.boot(0, 120, 3000)  # the same boot goes on: the collector was started anew
    assert machine.look()["written_bytes"] == 1536000
    machine.stop()
    machine.boot(1, 60, 500)
    found = machine.look()
    assert (found["written_bytes"], found["running_seconds"]) == (1792000, 180)
    machine.stop()
    machine.boot(2, 60, 5000)  # more than when the last boot ended
    assert machine.look()["written_bytes"] == 4352000
    assert machine.look()["unclean_shutdowns"] == 0


def test_a_disk_that_is_plugged_in_again(machine: Machine) -> None:
    """Its counter begins at 0 within a boot."""
    machine.boot(0, 60, 1000)
    machine.stop()
    machine.boot(0, 90, 10)
    assert machine.look()["written_bytes"] == 1010 * 512


def test_counters_of_64_bits(machine: Machine) -> None:
    """A counter beyond 32 bits is no wrap, and one at the limit of what is taken neither."""
    machine.boot(0, 60, 2**32 - 1)
    machine.stop()
    machine.boot(0, 90, 2**32 + 1)
    assert machine.look()["written_bytes"] == (2**32 + 1) * 512
    machine.stop()
    machine.boot(0, 120, 10**15 - 1)
    assert machine.look()["written_bytes"] == (10**15 - 1) * 512


def test_unclean_shutdowns(machine: Machine) -> None:
    """A boot whose end nobody noted was cut off; a crash of the collector is none of these."""
    for number, uncleans in [(0, 0), (0, 0), (1, 1), (2, 2), (2, 2)]:
        machine.boot(number)
        assert machine.look()["unclean_shutdowns"] == uncleans
    machine.stop()
    assert machine.counts()["clean"] == "1"
    machine.boot(3)
    assert machine.look()["unclean_shutdowns"] == 2
    assert machine.counts()["clean"] == "0"
    machine.boot(4)
    assert machine.look()["unclean_shutdowns"] == 3


def test_a_stop_of_the_service_only(machine: Machine) -> None:
    """Stopped and started within a boot, then the plug is pulled."""
    machine.stop()
    machine.look()
    machine.boot(1)
    assert machine.look()["unclean_shutdowns"] == 1


def test_at_most_once_an_hour(machine: Machine) -> None:
    """The data partition is written at the first look of a boot, and then an hour later."""
    machine.boot(0, 60, 100)
    machine.look()
    first = (machine.path / COUNTS).stat().st_ino, machine.counts()
    for uptime, sectors in [(61, 200), (1000, 300), (3659, 400)]:
        machine.boot(0, uptime, sectors)
        assert machine.look()["written_bytes"] == sectors * 512
        assert ((machine.path / COUNTS).stat().st_ino, machine.counts()) == first
    machine.boot(0, 3660, 500)
    machine.look()
    assert machine.counts()["written"] == str(500 * 512)
    assert machine.counts()["uptime"] == "3660"
    assert not (machine.path / f"{COUNTS}.new").exists()


def test_bytes_of_a_day(machine: Machine) -> None:
    """The last 24 hours of running, whatever the clock says."""
    day = 86400
    machine.boot(0, 60, 0)
    machine.look()
    machine.boot(0, day, 2000)
    assert machine.look()["written_bytes_last_day"] == 2000 * 512
    machine.stop()
    machine.boot(1, day - 1, 3000)
    assert machine.look()["written_bytes_last_day"] == 2000 * 512
    machine.boot(1, 2 * day, 4000)  # over 48 hours
    assert machine.look()["written_bytes_last_day"] == 2000 * 512


def test_clock_set_back(machine: Machine) -> None:
    """Dates of the counts stay, and nothing is counted twice or backwards."""
    shims = machine.path / "bin"
    real = subprocess.run(
        ["sh", "-c", "command -v date"], check=True, capture_output=True, text=True
    ).stdout.strip()
    path = f"{shims}:{os.environ['PATH']}"
    for uptime, clock in [(60, 1800000000), (120, 1760000000), (180, 5), (240, 1900000000)]:
        machine.write(
            "bin/date", f'#!/bin/sh\n[ "$1" != +%s ] || {{ echo {clock}; exit; }}\n{real} "$@"\n'
        ).chmod(0o755)
        machine.boot(0, uptime, uptime)
        found = machine.look(PATH=path)
        assert found["counted_since"] == "2027-01-15"
        assert (found["running_seconds"], found["written_bytes"]) == (uptime, uptime * 512)
        assert found["clock_set"] is (clock > 1700000000)


def test_another_disk(machine: Machine) -> None:
    """Counts that were copied to another disk are not that disk's."""
    machine.boot(0, 60, 1000)
    machine.look()
    machine.write(f"{DISK}/device/serial", "0x9999\n")
    machine.boot(1, 60, 10)
    found = machine.look()
    assert (found["written_bytes"], found["unclean_shutdowns"]) == (5120, 0)
    assert found["running_seconds"] == 60


def test_a_disk_that_cannot_be_told(machine: Machine) -> None:
    """Its counts are not known; those of before stay, and go on when it can be told again."""
    machine.boot(0, 60, 1000)
    machine.stop()
    (machine.path / "sys/dev/block/179:4").unlink()
    machine.boot(1, 60, 70)
    found = machine.look()
    assert found["written_bytes"] is None
    assert found["unclean_shutdowns"] == 0
    (machine.path / "sys/dev/block/179:4").symlink_to(f"../../../{DISK}/mmcblk0p4")
    machine.boot(1, 90, 80)
    assert machine.look()["written_bytes"] == 1080 * 512


def good_counts(machine: Machine) -> bytes:
    """A file of two boots."""
    machine.boot(0, 60, 1000)
    machine.look()
    machine.boot(1, 60, 1000)
    assert machine.look()["unclean_shutdowns"] == 1
    return (machine.path / COUNTS).read_bytes()


def test_damaged_counts(machine: Machine) -> None:
    """Counting begins anew with what is not a whole file of ours; no part of it is believed."""
    good = good_counts(machine)
    machine.boot(2, 60, 10)
    cut = [good[:end] for end in (0, 1, 14, 15, 40, len(good) - 5, len(good) - 2)]
    changed = [
        good.replace(b"written=", b"written=-"),
        good.replace(b"unclean=1", b"unclean=99999999999999999999"),
        good.replace(b"unclean=1", b"unclean=0x1"),
        good.replace(b"unclean=1", b"unclean=01"),
        good.replace(b"unclean=1\n", b""),
        good.replace(b"unclean=1", b"unclean=$(touch pwned)"),
        good.replace(b"unclean=1", b"unclean=1\x00"),
        good.replace(b"last_day=", b"last_day=-1"),
        good.replace(b"disk=", b"disk=x"),
        good.replace(b"cairn-health 1", b"cairn-health 2"),
        good + b"\0" * 5000,
        os.urandom(700),
        b"\0" * len(good),
    ]
    for data in cut + changed:
        machine.write(COUNTS, data)
        found = machine.look()
        assert (found["written_bytes"], found["unclean_shutdowns"]) == (5120, 0), data
        assert machine.counts()["boot"] == BOOTS[2]
    machine.write(COUNTS, good)
    assert machine.look()["unclean_shutdowns"] == 2


@pytest.mark.parametrize("target", ["good", "nowhere", "fifo"])
def test_counts_that_are_a_link(machine: Machine, target: str) -> None:
    """Is not followed for reading nor for writing: it is replaced."""
    good = good_counts(machine)
    machine.boot(2, 60, 10)
    other = machine.path / "other"
    if target == "good":
        other.write_bytes(good)
    elif target == "fifo":
        os.mkfifo(other)
    for name in (COUNTS, f"{COUNTS}.new"):
        (machine.path / name).unlink(missing_ok=True)
        (machine.path / name).symlink_to(other)
    assert machine.look()["unclean_shutdowns"] == 0
    assert not (machine.path / COUNTS).is_symlink()
    assert target != "good" or other.read_bytes() == good
    assert target != "nowhere" or not other.exists()


def test_counts_that_cannot_be_written(machine: Machine) -> None:
    """One sentence; the rest of the figures is there all the same."""
    (machine.path / "var/lib/cairn/health").rmdir()
    found = machine.look("cannot be written")
    assert found["temperature_celsius"] == 51.2


def test_a_half_written_file_is_never_seen(machine: Machine) -> None:
    """health.json is written beside and renamed."""
    machine.look()
    before = machine.path / "run/cairn/health/health.json"
    inode = before.stat().st_ino
    machine.write("run/cairn/health/health.json.new", "{" * 10000)
    machine.look()
    assert before.stat().st_ino != inode
    assert not (machine.path / "run/cairn/health/health.json.new").exists()


def test_forged_link_states(machine: Machine) -> None:
    """The file is the link watcher's: what it says can only be figures."""
    machine.boot(0, 1000)
    for text, restarts, silent in [
        ("end0 - 2000 1\n", 1, 0),
        ("end0 99999999999999999999 - 1\n", 1, 0),
        ("end0 -5 -5 -5\n", 0, 0),
        ("end0 900 - 0 more\n", 0, 0),
        ('"end0": 900 - 0\n' + "x 1 1 1\n" * 20000, 585, 999),
    ]:
        machine.write("run/cairn/link/state", text)
        found = machine.look()
        assert found["gateway_silent_seconds"] == silent, text
        assert abs(found["link_restarts"] - restarts) < 80, text


@pytest.mark.parametrize("arguments", [["--fast"], ["--interval"], ["--root"]])
def test_wrong_option(arguments: list[str]) -> None:
    """Usage errors end with 2, or with the shell's own status for a value that is not there."""
    command = [str(ROOT / "overlay/usr/lib/cairn/cairn-health"), *arguments]
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


def test_schema_is_checked() -> None:
    """The schema refuses what it should: a wrong type, a missing and an unknown key."""
    good: dict[str, Any] = dict.fromkeys(SCHEMA["properties"]) | {
        "schema": 1,
        "uptime_seconds": 0,
        "attention": [],
        "disks": [],
    }
    assert VALIDATOR.is_valid(good)
    changes: list[dict[str, Any]] = [
        {"schema": 2},
        {"uptime_seconds": None},
        {"temperature_celsius": "51"},
        {"clock_set": 1},
        {"written_bytes": -1},
        {"written_bytes": 1.5},
        {"counted_since": "yesterday"},
        {"attention": ["panic"]},
        {"attention": ["hot", "hot"]},
        {"disks": [{"name": "sda"}]},
        {"more": 1},
    ]
    for change in changes:
        assert not VALIDATOR.is_valid(good | change), change
    del good["clock_set"]
    assert not VALIDATOR.is_valid(good)

"""The power button: which devices are listened to, what is heard, and what is done then."""

from __future__ import annotations

import os
import re
import shlex
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import superuser
from tests.shared.commands import captured, program

OVERLAY = ROOT / "overlay"
UNIT = OVERLAY / "usr/lib/systemd/system/cairn-power-button@.service"
RULE = OVERLAY / "usr/lib/udev/rules.d/70-cairn-power-button.rules"
SCRIPT = OVERLAY / "usr/lib/cairn/cairn-power-button"
#: linux/input-event-codes.h
EV_KEY, EV_SW = 1, 5
KEY_A, KEY_POWER, KEY_SLEEP, SW_LID = 30, 116, 142, 0
RELEASED, PRESSED, REPEATED = 0, 1, 2
#: A file system of devices in which the button is all that there is.
STAGE = """
mount -t tmpfs none /dev
mkdir /dev/input
mount --bind "$1" /dev/input
shift
exec "$@"
"""


def setting(name: str) -> str:
    """A setting of the unit that stands there once."""
    text = UNIT.read_text().replace("\\\n", " ")
    (value,) = re.findall(rf"(?m)^{name}=(.*)$", text)
    return str(value)


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("common/busybox.fragment", ["ACPID"]),
        ("common/kernel.config", ["INPUT", "INPUT_EVDEV"]),
        ("x86_64/kernel.config", ["ACPI", "ACPI_BUTTON"]),
        ("rpi5/kernel.config", ["KEYBOARD_GPIO", "GPIO_BRCMSTB", "PINCTRL_BCM2712"]),
    ],
)
def test_drivers(file: str, options: list[str]) -> None:
    """Built in: from the first moment on, and nothing that has to be loaded."""
    lines = (ROOT / "board" / file).read_text().splitlines()
    assert not [option for option in options if f"CONFIG_{option}=y" not in lines]


@pytest.mark.parametrize(
    ("phys", "listens"),
    [
        # drivers/acpi/button.c: HID/button/input0
        ("PNP0C0C/button/input0", True),
        ("LNXPWRBN/button/input0", True),
        ("PNP0C0E/button/input0", False),  # sleep
        ("PNP0C0D/button/input0", False),  # lid
        # drivers/input/keyboard/gpio_keys.c
        ("gpio-keys/input0", True),
        # keyboards, on USB and on a PC's own port
        ("usb-0000:00:14.0-2/input0", False),
        ("usb-0000:00:14.0-2/input1", False),
        ("isa0060/serio0/input0", False),
        ("", False),
    ],
)
def test_devices(phys: str, listens: bool) -> None:
    """The machine's own buttons, and no keyboard."""
    text = RULE.read_text().replace("\\\n", " ")
    (rule,) = [line for line in text.splitlines() if line and not line.startswith("#")]
    (patterns,) = re.findall(r'ATTRS\{phys\}=="([^"]*)"', rule)
    assert any(fnmatchcase(phys, pattern) for pattern in patterns.split("|")) == listens
    assert 'ENV{SYSTEMD_WANTS}+="cairn-power-button@%k.service"' in rule
    assert 'TAG+="systemd"' in rule


def test_unit() -> None:
    """It is there as long as its button is, early, again after an end, and not beside a logind."""
    assert setting("BindsTo") == setting("After") == "dev-input-%i.device"
    assert setting("DefaultDependencies") == "no"
    assert setting("Conflicts") == setting("Before") == "shutdown.target"
    assert setting("Restart") == "always"
    # Ten seconds apart: systemd gives up after five starts within ten.
    assert setting("RestartSec") == "10s"
    assert setting("ConditionPathExists") == "!/usr/lib/systemd/systemd-logind"
    # One button, read only, where acpid looks first.
    assert setting("BindReadOnlyPaths") == "/dev/input/%I:/dev/input/event0"
    assert setting("DeviceAllow") == "/dev/input/%I r"
    assert setting("CapabilityBoundingSet") == ""
    # What would wait for /var, whose disk may be the reason for a press.
    assert "PrivateTmp" not in UNIT.read_text()


def test_action(tmp_path: Path) -> None:
    """Shut down, whole and by systemd; if that is refused, so does the script's status say."""
    env = {**os.environ, "CAIRN_SYSTEMCTL": str(program(tmp_path / "systemctl", 'echo "$@"'))}
    said = captured("sh", str(SCRIPT), env=env)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[1:] == ["--no-block poweroff"]
    program(tmp_path / "systemctl", "exit 4")
    assert captured("sh", str(SCRIPT), env=env).returncode == 4


class Button:
    """acpid as the unit runs it, with a pipe in the place of the button's device."""

    def __init__(self, folder: Path) -> None:
        """``folder``: for the device, and for what is said and done."""
        self.said, self.done = folder / "said", folder / "done"
        self.done.touch()
        devices = folder / "input"
        devices.mkdir()
        os.mkfifo(devices / "event0")
        systemctl = program(folder / "systemctl", f'echo "$@" >>{shlex.quote(str(self.done))}')
        command = shlex.split(setting("ExecStart").replace("/usr/", f"{OVERLAY}/usr/"))
        assert command[0].endswith("/usr/sbin/acpid")
        stage = ["unshare", "--mount", "sh", "-euc", STAGE, "sh", str(devices)]
        acpid = ["env", f"CAIRN_SYSTEMCTL={systemctl}", "busybox", "acpid", *command[1:]]
        with self.said.open("wb") as out:
            self.process = subprocess.Popen([*superuser(), *stage, *acpid], stdout=out, stderr=out)
        # For reading, too: the pipe has two ends before acpid opens it.
        self.device = os.open(devices / "event0", os.O_RDWR)

    def event(self, kind: int, code: int, value: int) -> None:
        """What the kernel hands out: a time, and these three."""
        os.write(self.device, struct.pack("@llHHi", 0, 0, kind, code, value))

    def wait(self, runs: int) -> list[str]:
        """What was done once there were so many runs, or after 20 s."""
        for _ in range(200):
            if len(self.done.read_text().splitlines()) >= runs:
                break
            assert self.process.poll() is None, self.said.read_text()
            time.sleep(0.1)
        return self.done.read_text().splitlines()

    def end(self) -> None:
        """Ends acpid."""
        self.process.terminate()
        self.process.wait(20)
        os.close(self.device)


@contextmanager
def button(folder: Path) -> Iterator[Button]:
    """A button, until the end of the block."""
    made = Button(folder)
    try:
        yield made
    finally:
        made.end()


def test_only_a_press_of_power_counts(tmp_path: Path) -> None:
    """No other key, no lid, no release, no repetition; none of which is logged either."""
    with button(tmp_path) as pressed:
        for value in (PRESSED, REPEATED, RELEASED):
            pressed.event(EV_KEY, KEY_A, value)
            pressed.event(EV_KEY, KEY_SLEEP, value)
            pressed.event(EV_SW, SW_LID, value)
        pressed.event(EV_KEY, KEY_POWER, RELEASED)
        pressed.event(EV_KEY, KEY_POWER, REPEATED)
        # Events are handled in order: with the answer to this one, those before have had theirs.
        pressed.event(EV_KEY, KEY_POWER, PRESSED)
        assert pressed.wait(1) == ["--no-block poweroff"]
        pressed.event(EV_KEY, KEY_POWER, PRESSED)
        assert pressed.wait(2) == ["--no-block poweroff"] * 2
    said = pressed.said.read_text().splitlines()
    assert sorted(set(said)) == [
        "acpid: cairn-power-button",
        "the power button was pressed; shutting down",
    ]
    assert len(said) == 4

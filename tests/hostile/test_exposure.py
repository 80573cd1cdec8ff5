"""How much harm each of our services could do: `systemd-analyze security`, without a system."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT

UNITS = ROOT / "overlay/usr/lib/systemd/system"
#: Above this a unit says in itself how much and why: "# Exposure up to N.N: reason".
BOUND = 3.0
#: Links are masks (to /dev/null).
OURS = sorted(path.name for path in UNITS.glob("*.service") if not path.is_symlink())
DROP_INS = sorted(path.parent.name for path in UNITS.glob("*.service.d/*.conf"))


def exposure(root: Path, unit: str) -> float:
    """The score of a unit in a root folder: 0.0 (locked up) to 10.0."""
    command = ["systemd-analyze", "security", "--offline=true", f"--root={root}", "--no-pager"]
    said = subprocess.run([*command, unit], check=False, capture_output=True, text=True)
    match = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said.stdout)
    assert match, said.stdout + said.stderr
    return float(match[1])


def allowed(text: str) -> float:
    """What a unit's text says it may score."""
    match = re.search(r"(?m)^# Exposure up to ([0-9.]+): \S+ \S+ \S+", text)
    return float(match[1]) if match else BOUND


def text_of(folder: str) -> str:
    """The drop-ins of a folder."""
    return "".join(path.read_text() for path in (UNITS / folder).glob("*.conf"))


def base_of(folder: str) -> str:
    """The file that a folder of drop-ins is for; one of an instance is for a template."""
    return re.sub(r"@.*\.service", "@.service", folder.removesuffix(".d"))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The overlay's units, and the machine's own that have drop-ins of ours."""
    root = tmp_path_factory.mktemp("image")
    shutil.copytree(ROOT / "overlay/usr/lib/systemd", root / "usr/lib/systemd", symlinks=True)
    for folder in DROP_INS:
        base = base_of(folder)
        if (there := Path("/usr/lib/systemd/system") / base).exists():
            shutil.copy(there, root / "usr/lib/systemd/system" / base)
    return root


@pytest.mark.parametrize("unit", OURS)
def test_unit(image: Path, unit: str) -> None:
    """Each unit of ours is confined, or says why it is not."""
    bound = allowed((UNITS / unit).read_text())
    assert exposure(image, unit.replace("@.", "@x.")) <= bound


@pytest.mark.parametrize("folder", [name for name in DROP_INS if "Exec" in text_of(name)])
def test_drop_in(image: Path, folder: str) -> None:
    """Where a drop-in runs something in a unit of systemd's, likewise."""
    if not (image / "usr/lib/systemd/system" / base_of(folder)).exists():
        pytest.skip(f"this machine's systemd has no {base_of(folder)}")
    assert exposure(image, folder.removesuffix(".d")) <= allowed(text_of(folder))


def test_the_rights_of_root_are_counted() -> None:
    """No unit that runs as root keeps all capabilities, or one to read or write any file.

    That right is what would make a link worth planting.
    """
    for unit in OURS:
        text = (UNITS / unit).read_text()
        bound = re.findall(r"(?m)^CapabilityBoundingSet=(.*)$", text)
        if unit == "cairn-sshd.service":
            continue
        # Several lines add up; an empty one would take all away.
        assert bound, unit
        assert len(bound) == 1 or all(bound), unit
        rights = set(" ".join(bound).split())
        if unit == "node-tune.service":  # asks for files of user bitcoin, and opens none
            rights.discard("CAP_DAC_READ_SEARCH")
        if unit == "cairn-datadisk.service":  # copies all files, before any user runs a program
            rights.discard("CAP_DAC_READ_SEARCH")
        assert not {right for right in rights if right.startswith("CAP_DAC")}, unit

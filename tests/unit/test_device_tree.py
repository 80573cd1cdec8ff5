"""The patches on Linux for the Raspberry Pi 5, and the device trees that come out of them.

The text of the patches is looked at everywhere. The trees are those of the image (CAIRN_IMAGE), of
out/rpi5, or made here from a kernel's source (CAIRN_LINUX=DIR, unpacked and without our patches);
without any of them those tests are skipped, and so counted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import boards
from lab.paths import ROOT

PATCHES = sorted((ROOT / "patches/linux").glob("*.patch"))
#: Mainline's names of the two steppings' trees, and the names that the firmware asks for
TREES = {"bcm2712-rpi-5-b": "bcm2712-rpi-5-b", "bcm2712-d-rpi-5-b": "bcm2712d0-rpi-5-b"}
#: What the firmware adds to the first tree on the second stepping
OVERLAY = ROOT / "board/rpi5/dts/broadcom/bcm2712d0.dtso"
DTS = "arch/arm64/boot/dts/broadcom"
SOC, RP1 = "/soc@107c000000", "/axi/pcie@1000120000/rp1_nexus/pci-ep-bus@1"
#: Degrees at which the fan goes to the next of the levels that follow (of 255)
FAN = {50.0: 75, 60.0: 125, 67.5: 175, 75.0: 255}


# -- the text of the patches --------------------------------------------------------------


def parts(patch: Path) -> tuple[str, str]:
    """A patch's header, and what it adds to files other than descriptions and build rules."""
    header, _, rest = patch.read_text().partition("\n---\n")
    added = []
    for file in rest.split("\ndiff --git ")[1:]:
        if re.match(r"a/\S+\.(?:dtsi?|[ch]) ", file):
            added += [line[1:] for line in file.splitlines() if re.match(r"\+(?!\+\+ )", line)]
    return header, "\n".join(added)


def numbers(code: str) -> set[str]:
    """Each number that says something of the hardware: hexadecimal, or of three digits and more."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"]*\"|@[0-9a-f]+", " ", code, flags=re.DOTALL)
    found = re.findall(r"(?<![\w])(?:0x[0-9a-fA-F]+|\d{3,})\b", code)
    return {number for number in found if not re.fullmatch("0x0+", number)}


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.name[:4])
def test_numbers_have_a_source(patch: Path) -> None:
    """The header names each number of the code, after "Numbers:", and where it is from."""
    header, code = parts(patch)
    section = re.search(r"\nNumbers: (.*?)\n\n", header, flags=re.DOTALL)
    assert section, "no 'Numbers:' in the header"
    missing = {number for number in numbers(code) if not re.search(rf"\b{number}\b", section[1])}
    assert not missing
    if numbers(code):
        assert "raspberrypi/linux" in section[1]


def test_numbers_are_seen() -> None:
    """What the test above looks for, and what it leaves alone."""
    code = 'reg = <0x7d200000 0x0 0x604>;\nfan@45000 { t = <50000>; pin = "gpio450"; }; /* 0x99 */'
    assert numbers(code) == {"0x7d200000", "0x604", "50000"}


def test_patches_are_a_series() -> None:
    """Numbered from one on, as Buildroot applies them, each signed off as upstream wants it."""
    assert [path.name[:4] for path in PATCHES] == [f"{n:04}" for n in range(1, len(PATCHES) + 1)]
    for path in PATCHES:
        assert "\nSigned-off-by: " in parts(path)[0], path.name


# -- the device trees ---------------------------------------------------------------------


def compile_tree(source: Path, includes: Path, target: Path) -> list[str]:
    """Compiles one tree, or an overlay; what dtc warned of."""
    preprocess = ["gcc", "-E", "-nostdinc", "-undef", "-D__DTS__", "-x", "assembler-with-cpp"]
    preprocess += ["-I", str(source.parent), "-I", str(includes), str(source)]
    text = subprocess.run(preprocess, check=True, capture_output=True).stdout
    command = ["dtc", "-@", "-b", "0", "-O", "dtb", "-o", str(target)]
    done = subprocess.run(command, check=False, input=text, capture_output=True)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    return sorted(re.findall(r"Warning .*", said))


def compiled(source: Path, includes: Path, folder: Path) -> dict[str, list[str]]:
    """Compiles both trees from a source to `folder`; what dtc warned of, by tree."""
    return {
        name: compile_tree(source / DTS / f"{name}.dts", includes, folder / f"{name}.dtb")
        for name in TREES
    }


@pytest.fixture(scope="module")
def linux() -> Path:
    """A kernel's source."""
    path = Path(os.environ.get("CAIRN_LINUX", ""))
    if not (path / DTS).is_dir():
        pytest.skip("no kernel source; give one, without our patches, with CAIRN_LINUX=DIR")
    return path


@pytest.fixture(scope="module")
def patched(linux: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the patches touch, and those beside them, with all patches applied."""
    folder = tmp_path_factory.mktemp("linux")
    shutil.copytree(linux / DTS, folder / DTS)
    for patch in PATCHES:
        for name in re.findall(r"(?m)^--- a/(\S+)", patch.read_text()):
            if not (folder / name).exists() and (linux / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(linux / name, folder / name)
        command = ["patch", "-d", str(folder), "-p1", "-s", "-F0", "-i", str(patch)]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        assert result.returncode == 0, f"{patch.name}: {result.stdout}"
    return folder


def test_no_new_warnings(linux: Path, patched: Path, tmp_path: Path) -> None:
    """dtc says of the trees with the patches what it says of them without."""
    includes = linux / "scripts/dtc/include-prefixes"
    folders = [tmp_path / name for name in ("before", "after")]
    for folder in folders:
        folder.mkdir()
    assert compiled(linux, includes, folders[0]) == compiled(patched, includes, folders[1])


@pytest.fixture(scope="module")
def trees(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Both compiled trees by mainline's names, and the overlay as "overlay"."""
    folder = tmp_path_factory.mktemp("trees")
    image = Path(os.environ.get("CAIRN_IMAGE", ""))
    board = boards.of_image(image)
    built = ROOT / "out/rpi5/build/images"
    if board and board.name == "rpi5":
        start = subprocess.run(
            ["partx", "-g", "-o", "START", "-n", "1", str(image)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        files = {f"{asked_for}.dtb": f"{name}.dtb" for name, asked_for in TREES.items()}
        files["overlays/bcm2712d0.dtbo"] = "bcm2712d0.dtbo"
        for asked_for, name in files.items():
            command = ["mcopy", "-n", "-i", f"{image}@@{int(start) * 512}"]
            command += [f"::slot-a/{asked_for}", str(folder / name)]
            subprocess.run(command, check=True)
    elif all((built / name).exists() for name in (*(f"{t}.dtb" for t in TREES), "bcm2712d0.dtbo")):
        folder = built
    else:
        source: Path = request.getfixturevalue("linux")
        includes = source / "scripts/dtc/include-prefixes"
        compiled(request.getfixturevalue("patched"), includes, folder)
        compile_tree(OVERLAY, includes, folder / "bcm2712d0.dtbo")
    found = {name: folder / f"{name}.dtb" for name in TREES}
    return found | {"overlay": folder / "bcm2712d0.dtbo"}


def test_overlay_makes_the_second_tree(trees: dict[str, Path], tmp_path: Path) -> None:
    """The first stepping's tree with it is that of the second, property for property."""
    merged = tmp_path / "merged.dtb"
    command = ["fdtoverlay", "-i", str(trees["bcm2712-rpi-5-b"]), "-o", str(merged)]
    subprocess.run([*command, str(trees["overlay"])], check=True)
    first, second = (
        subprocess.run(
            ["dtc", "-q", "-s", "-I", "dtb", "-O", "dts", str(path)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for path in (merged, trees["bcm2712-d-rpi-5-b"])
    )
    assert first == second


def get(tree: Path, node: str, name: str, kind: str = "x") -> str:
    """A property's value as fdtget prints it, numbers in hexadecimal."""
    command = ["fdtget", "-t", kind, str(tree), node, name]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def labelled(tree: Path, label: str) -> str:
    """The path of the node with this label; the trees are compiled with their labels."""
    return get(tree, "/__symbols__", label, "s")


@pytest.mark.parametrize("name", TREES)
def test_watchdog(trees: dict[str, Path], name: str) -> None:
    """What bcm2835-pm binds to, and no bridge that would make power domains."""
    node = f"{SOC}/watchdog@7d200000"
    assert "brcm,bcm2835-pm-wdt" in get(trees[name], node, "compatible", "s")
    assert get(trees[name], node, "reg") == "7d200000 604"
    assert get(trees[name], node, "reg-names", "s") == "pm"


@pytest.mark.parametrize("name", TREES)
def test_random(trees: dict[str, Path], name: str) -> None:
    """What iproc-rng200 binds to."""
    node = f"{SOC}/rng@7d208000"
    assert get(trees[name], node, "compatible", "s") == "brcm,bcm2711-rng200"
    assert get(trees[name], node, "reg") == "7d208000 28"


@pytest.mark.parametrize("name", TREES)
def test_temperature(trees: dict[str, Path], name: str) -> None:
    """The sensor, its coefficients, and the limits above which something happens."""
    tree, monitor = trees[name], f"{SOC}/avs-monitor@7d542000"
    assert get(tree, monitor, "reg") == "7d542000 f00"
    assert "syscon" in get(tree, monitor, "compatible", "s").split()
    assert get(tree, f"{monitor}/thermal", "compatible", "s") == "brcm,bcm2711-thermal"
    zone = labelled(tree, "cpu_thermal")
    sensor = get(tree, f"{monitor}/thermal", "phandle")
    assert get(tree, zone, "thermal-sensors") == sensor
    assert get(tree, zone, "coefficients", "i") == "-550 450000"
    assert get(tree, labelled(tree, "cpu_crit"), "temperature", "u") == "110000"
    assert get(tree, labelled(tree, "cpu_passive"), "temperature", "u") == "80000"


@pytest.mark.parametrize("name", TREES)
def test_fan(trees: dict[str, Path], name: str) -> None:
    """Off at idle, on from 50 °C, full at 75 °C; each step of the fan at one temperature."""
    tree = trees[name]
    controller, fan = f"{RP1}/pwm@4009c000", labelled(tree, "cooling_fan")
    assert get(tree, controller, "reg") == "0 4009c000 0 100"
    assert get(tree, controller, "status", "s") == "okay"
    assert get(tree, controller, "assigned-clock-rates", "u") == "50000000"
    phandle = get(tree, controller, "phandle", "u")
    assert get(tree, fan, "pwms", "u") == f"{phandle} 3 41566 1", "channel, ns, inverted"
    pins = labelled(tree, "fan_default_state")
    assert get(tree, controller, "pinctrl-0") == get(tree, pins, "phandle")
    assert get(tree, pins, "function", "s") == "pwm1"
    assert get(tree, pins, "pins", "s") == "gpio45"
    levels = [int(level) for level in get(tree, fan, "cooling-levels", "u").split()]
    assert levels == [0, *FAN.values()]
    zone = labelled(tree, "cpu_thermal")
    steps = {}
    for step in ("slow", "medium", "fast", "full"):
        trip, device = labelled(tree, f"fan_{step}"), f"{zone}/cooling-maps/map-fan-{step}"
        assert get(tree, device, "trip") == get(tree, trip, "phandle")
        which, lowest, highest = get(tree, device, "cooling-device", "u").split()
        assert which == get(tree, fan, "phandle", "u")
        assert lowest == highest
        steps[int(get(tree, trip, "temperature", "u")) / 1000] = levels[int(lowest)]
        assert get(tree, trip, "hysteresis", "u") == "5000"
        assert get(tree, trip, "type", "s") == "active"
    assert steps == FAN


@pytest.mark.parametrize("name", TREES)
def test_clock(trees: dict[str, Path], name: str) -> None:
    """The firmware's real-time clock is its child, where the driver looks for the mailbox."""
    node = labelled(trees[name], "rtc")
    assert node == f"{SOC}/firmware/rtc"
    assert get(trees[name], node, "compatible", "s") == "raspberrypi,firmware-rtc"


def test_stepping_d0(trees: dict[str, Path]) -> None:
    """Pin controllers and the debug port are those of the stepping that the tree is for."""
    expected = {
        "bcm2712-rpi-5-b": ("c0", "30", "20", "121"),
        "bcm2712-d-rpi-5-b": ("d0", "20", "1c", "120"),
    }
    for name, (stepping, main, always_on, interrupt) in expected.items():
        tree = trees[name]
        for label, kind, address, length in (
            ("pinctrl", "pinctrl", "7d504100", main),
            ("pinctrl_aon", "aon-pinctrl", "7d510700", always_on),
        ):
            node = labelled(tree, label)
            assert get(tree, node, "compatible", "s") == f"brcm,bcm2712{stepping}-{kind}"
            assert get(tree, node, "reg") == f"{address} {length}"
        assert get(tree, labelled(tree, "uart10"), "interrupts", "u").split()[1] == interrupt


@pytest.mark.parametrize("name", TREES)
def test_nvme_slot(trees: dict[str, Path], name: str) -> None:
    """The slot is on without a line in config.txt, and stays at PCIe generation 2."""
    node = labelled(trees[name], "pcie1")
    assert get(trees[name], node, "status", "s") == "okay"
    assert get(trees[name], node, "max-link-speed", "u") == "2"

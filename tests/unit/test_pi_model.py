"""The image's kernel on QEMU's raspi3b: watchdog, temperature, the request for a trial boot.

QEMU has no Raspberry Pi 5. Its model of the Raspberry Pi 3 has the firmware's mailbox, the block
with the watchdog and a sensor, which the same drivers serve: what is seen here is that they find
their devices and say the right things to them. The kernel, that board's device tree and the
programs are those of the Buildroot build (out/rpi5/build, or CAIRN_PI_BUILD=DIR, a folder with
images/, target/ and build/linux-VERSION/); without one, or where QEMU lacks the machine, the tests
are skipped, and so counted.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.paths import ROOT

BUILD = Path(os.environ.get("CAIRN_PI_BUILD", ROOT / "out/rpi5/build"))
QEMU = "qemu-system-aarch64"
DTS = "arch/arm64/boot/dts/broadcom/bcm2837-rpi-3-b.dts"
MIB = 1 << 20
#: Seconds that a boot up to the end of /init may take, of some 20 on an idle machine under TCG
PATIENCE = 400
#: The mailbox's tag for the flags of the next boot, and the flag for a trial (patches/linux)
TAG, TRYBOOT = 0x00038064, 1
#: What /init runs: the programs, and libraries by these patterns
PROGRAMS = ("usr/bin/busybox", "usr/bin/systemctl")
LIBRARIES = ("usr/lib/*.so*", "usr/lib/systemd/libsystemd-shared-*.so")
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
exec >/dev/console 2>&1
echo "model: $(tr -d '\\0' </proc/device-tree/model)"
dmesg | grep -i -E 'raspberrypi-firmware|bcm2835-wdt' | sed 's/^/kernel: /'
for zone in /sys/class/thermal/thermal_zone*; do
	echo "temperature: $(cat $zone/type) $(cat $zone/temp)"
done
for file in /dev/watchdog*; do echo "device: $file"; done
case $(cat /proc/cmdline) in
*cairn.do=bite*)
	echo "watchdog: started, and nobody feeds it"
	exec 3>/dev/watchdog0
	echo >&3
	sleep 60
	echo "watchdog: nothing happened" ;;
*cairn.do=tryboot*) systemctl reboot --force --force --reboot-argument='0 tryboot' ;;
*cairn.do=reboot*) systemctl reboot --force --force ;;
esac
echo "init: end"
sleep 1000
"""


def missing() -> str:
    """Why there is nothing to test with, or an empty string."""
    if not shutil.which(QEMU):
        return f"no {QEMU}"
    if b"raspi3b" not in subprocess.check_output([QEMU, "-machine", "help"]):
        return "this QEMU has no raspi3b"
    for name in ("images/Image", f"build/linux-[0-9]*/{DTS}", *(f"target/{p}" for p in PROGRAMS)):
        if not any(BUILD.glob(name)):
            return f"no {name} of a build of the rpi5 image (make rpi5, or CAIRN_PI_BUILD=DIR)"
    return ""


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(reason := missing()), reason=reason)]


@pytest.fixture(scope="module")
def initramfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with /init, the image's shell and its systemctl."""
    folder = tmp_path_factory.mktemp("initramfs")
    tree = folder / "tree"
    for name in ("proc", "sys", "dev", "run", "bin", "usr/bin", "usr/lib/systemd"):
        (tree / name).mkdir(parents=True)
    (tree / "lib").symlink_to("usr/lib")
    target = BUILD / "target"
    for path in [*(target / p for p in PROGRAMS), *(f for p in LIBRARIES for f in target.glob(p))]:
        shutil.copy2(path, tree / path.relative_to(target), follow_symlinks=False)
    (tree / "bin/busybox").symlink_to("/usr/bin/busybox")
    (tree / "bin/systemctl").symlink_to("/usr/bin/systemctl")
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    command = ["cpio", "--quiet", "-H", "newc", "-o"]
    archive = folder / "initramfs.cpio"
    with archive.open("wb") as stream:
        subprocess.run(command, check=True, cwd=tree, input=names.encode(), stdout=stream)
    return archive


@pytest.fixture(scope="module")
def device_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Raspberry Pi 3's device tree from the kernel's source; the image does not have it."""
    # linux-headers-VERSION has one, too
    (source,) = BUILD.glob(f"build/linux-[0-9]*/{DTS}")
    path = tmp_path_factory.mktemp("dtb") / "bcm2837-rpi-3-b.dtb"
    preprocess = ["gcc", "-E", "-nostdinc", "-undef", "-D__DTS__", "-x", "assembler-with-cpp"]
    folders = [source.parent, source.parents[5] / "scripts/dtc/include-prefixes"]
    preprocess += [word for folder in folders for word in ("-I", str(folder))]
    text = subprocess.run([*preprocess, str(source)], check=True, capture_output=True).stdout
    subprocess.run(["dtc", "-q", "-O", "dtb", "-o", str(path)], check=True, input=text)
    return path


@dataclass
class Run:
    """What a machine said on its serial port, what QEMU traced, and its memory at the end."""

    console: list[str]
    trace: str
    memory: Path

    def after(self, prefix: str) -> list[str]:
        """The lines of /init that begin so, without that beginning."""
        return [line.removeprefix(prefix) for line in self.console if line.startswith(prefix)]

    def messages(self) -> list[tuple[int, ...]]:
        """The flags' messages to the firmware that are still in memory: tag, sizes, value."""
        wanted, found = struct.pack("<I", TAG), []
        with self.memory.open("rb") as stream:
            memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            place = memory.find(wanted)
            while place != -1:
                words = struct.unpack("<4I", memory[place : place + 16])
                if words[1] == 4:  # bytes of value: not the driver's code, which has the tag, too
                    found.append(words)
                place = memory.find(wanted, place + 4)
        return found


@dataclass
class Pi:
    """A Raspberry Pi 3 of QEMU's."""

    folder: Path
    kernel: Path
    device_tree: Path
    initramfs: Path

    def boot(self, what: str) -> Run:
        """Boots once; ends with the first reset that the guest asks for."""
        serial, trace = self.folder / "serial", self.folder / "trace"
        memory = self.folder / "memory"
        memory.touch()
        os.truncate(memory, 1024 * MIB)  # what the model has, neither more nor less
        command = [QEMU, "-machine", "raspi3b,memory-backend=ram", "-display", "none"]
        command += ["-object", f"memory-backend-file,id=ram,size=1G,share=on,mem-path={memory}"]
        command += ["-kernel", str(self.kernel), "-initrd", str(self.initramfs)]
        command += ["-dtb", str(self.device_tree), "-no-reboot"]
        command += ["-append", f"earlycon=pl011,0x3f201000 console=ttyAMA0,115200 cairn.do={what}"]
        command += ["-serial", f"file:{serial}", "-serial", "null", "-monitor", "none"]
        command += ["-trace", "bcm2835_mbox_property", "-d", "unimp", "-D", str(trace)]
        subprocess.run(command, check=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        lines = serial.read_text(errors="replace").splitlines()
        return Run([line.strip() for line in lines], trace.read_text(), memory)


@pytest.fixture
def pi(tmp_path: Path, device_tree: Path, initramfs: Path) -> Pi:
    """A machine with the image's kernel."""
    return Pi(tmp_path, BUILD / "images/Image", device_tree, initramfs)


def test_watchdog_and_temperature(pi: Pi) -> None:
    """The drivers find their devices; a watchdog that nobody feeds resets the machine.

    QEMU's model does not count: it resets when the watchdog is started. So this shows that the
    right registers are written, not how long they wait.
    """
    run = pi.boot("bite")
    assert run.after("model: ") == ["Raspberry Pi 3 Model B"]
    assert "/dev/watchdog0" in run.after("device: ")
    temperatures = [line.split() for line in run.after("temperature: ")]
    assert [kind for kind, _ in temperatures] == ["cpu-thermal"]
    assert 10_000 < int(temperatures[0][1]) < 110_000
    assert run.after("watchdog: ") == ["started, and nobody feeds it"]
    assert run.after("init: ") == []


def test_trial_boot_is_asked_for(pi: Pi) -> None:
    """`reboot '0 tryboot'`, as systemd does it, sends the tag with the flag, once."""
    run = pi.boot("tryboot")
    assert f"tag:0x{TAG:08x}" in run.trace
    assert {words[3] for words in run.messages()} == {TRYBOOT}


def test_plain_restart_sets_no_flag(pi: Pi) -> None:
    """A restart without the word leaves the next boot alone."""
    run = pi.boot("reboot")
    assert "bcm2835_mbox_property" in run.trace
    assert f"{TAG:08x}" not in run.trace
    assert run.messages() == []

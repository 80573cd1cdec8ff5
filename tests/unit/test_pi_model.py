"""The image's kernel on QEMU's raspi3b: watchdog, temperature, the request for a trial boot.

QEMU has no Raspberry Pi 5. Its model of the Raspberry Pi 3 has the firmware's mailbox, the block
with the watchdog and a sensor, which the same drivers serve: what is seen here is that they find
their devices and say the right things to them. The kernel, that board's device tree, the shell and
the compiler are those of the Buildroot build (out/rpi5/build, or CAIRN_PI_BUILD=DIR, a folder with
images/, target/, host/ and build/linux-VERSION/); without one, or where QEMU lacks the machine, the
tests are skipped, and so counted.
"""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import struct
import subprocess
import time
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
#: What /init runs, and its C library
PROGRAMS = ("usr/bin/busybox", "usr/lib/libc.so", "usr/lib/ld-musl-aarch64.so.1")
COMPILER = "host/bin/aarch64-linux-gcc"
#: What systemd does at the end of `reboot '0 tryboot'`. Its own program has instructions that the
#: Raspberry Pi 3 lacks. 142: reboot(2), with its two magic numbers and the command RESTART2.
RESTART = """
static void reboot(const char *argument)
{
	register long number __asm__("x8") = 142, magic __asm__("x0") = 0xfee1dead;
	register long magic2 __asm__("x1") = 672274793, command __asm__("x2") = 0xa1b2c3d4;
	register const char *text __asm__("x3") = argument;
	__asm__ volatile("svc 0" : "+r"(magic) : "r"(number), "r"(magic2), "r"(command), "r"(text));
}

void _start(void)
{
	reboot(ARGUMENT);
	for (;;)
		;
}
"""
ARGUMENTS = {"tryboot": "0 tryboot", "reboot": "0 tryboots"}
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
*cairn.do=tryboot*) restart-tryboot ;;
*cairn.do=reboot*) restart-reboot ;;
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
    for name in ("images/Image", f"build/linux-[0-9]*/{DTS}", COMPILER, "target/usr/bin/busybox"):
        if not any(BUILD.glob(name)):
            return f"no {name} of a build of the rpi5 image (make rpi5, or CAIRN_PI_BUILD=DIR)"
    return ""


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(reason := missing()), reason=reason)]


@pytest.fixture(scope="module")
def initramfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with /init, the image's shell and the programs that restart."""
    folder = tmp_path_factory.mktemp("initramfs")
    tree = folder / "tree"
    for name in ("proc", "sys", "dev", "run", "bin", "usr/bin", "usr/lib/systemd"):
        (tree / name).mkdir(parents=True)
    (tree / "lib").symlink_to("usr/lib")
    for name in PROGRAMS:
        shutil.copy2(BUILD / "target" / name, tree / name, follow_symlinks=False)
    (tree / "bin/busybox").symlink_to("/usr/bin/busybox")
    for name, argument in ARGUMENTS.items():
        command = [str(BUILD / COMPILER), "-march=armv8-a", "-O1", "-static", "-nostdlib"]
        command += ["-fno-stack-protector", "-no-pie", f'-DARGUMENT="{argument}"', "-x", "c", "-"]
        command += ["-o", str(tree / f"bin/restart-{name}")]
        subprocess.run(command, check=True, input=RESTART.encode())
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
                # Four bytes of value, and a request (0) or the answer to one (bit 31): the kernel's
                # code has the tag, too.
                if words[1] == 4 and words[2] & ~(1 << 31) <= 4:
                    found.append(words)
                place = memory.find(wanted, place + 4)
        return found


@dataclass
class Pi:
    """A Raspberry Pi 3 of QEMU's."""

    folder: Path
    kernel: Path
    kernel_build: Path
    device_tree: Path
    initramfs: Path

    def boot(self, what: str, stop_at: str = "") -> Run:
        """Boots once; ends with the first reset that the guest asks for.

        ``stop_at``: it ends before this function of the kernel runs, if that is earlier: what is
        in memory then is not yet written over.
        """
        serial, trace = self.folder / "serial", self.folder / "trace"
        memory = self.folder / "memory"
        memory.touch()
        os.truncate(memory, 1024 * MIB)  # what the model has, neither more nor less
        command = [QEMU, "-machine", "raspi3b,memory-backend=ram", "-display", "none"]
        command += ["-object", f"memory-backend-file,id=ram,size=1G,share=on,mem-path={memory}"]
        command += ["-kernel", str(self.kernel), "-initrd", str(self.initramfs)]
        command += ["-dtb", str(self.device_tree), "-no-reboot"]
        command += ["-append", f"nokaslr console=ttyAMA0,115200 cairn.do={what}"]
        command += ["-serial", f"file:{serial}", "-serial", "null", "-monitor", "none"]
        command += ["-trace", "bcm2835_mbox_property", "-d", "unimp", "-D", str(trace)]
        socket_path = self.folder / "gdb"
        command += ["-chardev", f"socket,id=gdb,path={socket_path},server=on,wait=off"]
        command += ["-gdb", "chardev:gdb"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as machine:
            try:
                if stop_at:
                    stop_before(self.address(stop_at), socket_path)
                else:
                    assert machine.wait(PATIENCE) == 0
            finally:
                machine.kill()
        lines = serial.read_text(errors="replace").splitlines()
        return Run([line.strip() for line in lines], trace.read_text(), memory)

    def address(self, name: str) -> int:
        """Where a function of the kernel is."""
        lines = (self.kernel_build / "System.map").read_text().splitlines()
        return next(int(line.split()[0], 16) for line in lines if line.split()[2] == name)


def stop_before(address: int, path: Path) -> None:
    """Runs a machine up to an instruction, by the remote serial protocol of its debugger's stub."""
    with socket.socket(socket.AF_UNIX) as stub:
        stub.settimeout(PATIENCE)
        deadline = time.monotonic() + 30
        while stub.connect_ex(str(path)):
            assert time.monotonic() < deadline, "QEMU's debugger stub does not answer"
            time.sleep(0.1)
        # It says first that the machine stands still (T02); T05 is a breakpoint.
        for packet, wanted in ((f"Z1,{address:x},4", b"$OK#"), ("c", b"$T05")):
            stub.sendall(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())
            answer = b""
            while wanted not in answer:
                received = stub.recv(4096)
                assert received, f"QEMU ended; before that its stub said {answer!r}"
                answer += received
            stub.sendall(b"+")


@pytest.fixture
def pi(tmp_path: Path, device_tree: Path, initramfs: Path) -> Pi:
    """A machine with the image's kernel."""
    (build,) = BUILD.glob("build/linux-[0-9]*")
    return Pi(tmp_path, BUILD / "images/Image", build, device_tree, initramfs)


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
    """`reboot '0 tryboot'` sends the tag with the flag."""
    # the next message to the firmware, a restart's, stands in the same place
    run = pi.boot("tryboot", stop_at="rpi_firmware_shutdown")
    assert f"tag:0x{TAG:08x}" in run.trace
    assert {words[3] for words in run.messages()} == {TRYBOOT}


def test_another_restart_sets_no_flag(pi: Pi) -> None:
    """A restart with another word, however like it, leaves the next boot alone."""
    run = pi.boot("reboot")
    assert "bcm2835_mbox_property" in run.trace
    assert f"{TAG:08x}" not in run.trace
    assert run.messages() == []

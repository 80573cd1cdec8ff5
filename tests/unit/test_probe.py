"""cairn-probe: what it has fio do, what it believes, and how little it does otherwise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.limits import Disk, LimitError
from lab.paths import ROOT
from tests.shared.commands import program

SHELLS = ["dash", "busybox sh"]
SCRIPT = ROOT / "overlay/usr/lib/cairn/cairn-probe"
FOLDER = "var/lib/cairn/probe"
USB = "sys/devices/pci0000:00/usb2/2-1/host0/target0:0:0/0:0:0:0/block/sda"
SATA = "sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda"
#: What is measured by the stand-in for fio: KiB and milliseconds of each part.
GOOD = {"write": ("98304", "1000"), "read": ("64000", "2000"), "sync": ("4000", "2000")}


def terse(name: str, kib: str, took: str, error: str = "0", version: str = "3") -> str:
    """A line of fio's terse output, version 3, with what cairn-probe looks at (fio's HOWTO)."""
    fields = ["0"] * 130
    fields[:5] = [version, "fio-3.41", name, "0", error]
    first = 5 if name == "read" else 46
    fields[first], fields[first + 3] = kib, took
    return ";".join(fields) + "\n"


@dataclass
class Machine:
    """A root directory that looks like a machine, and cairn-probe run on it."""

    path: Path
    shell: list[str] = field(default_factory=lambda: ["dash"])

    def write(self, name: str, text: str) -> Path:
        """Puts a file below the machine's root."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def disk(self, place: str, model: str = "Stick") -> None:
        """The data disk, mounted on /var, with its links in /sys."""
        self.write(f"{place}/size", "1000000000\n")
        self.write(f"{place}/queue/rotational", "0\n")
        self.write(f"{place}/device/model", f"{model}\n")
        self.write(f"{place}/sda4/partition", "4\n")
        self.write(f"{place}/sda4/size", "900000000\n")
        for link, target in {
            "sys/block/sda": f"../../{place}",
            "sys/dev/block/8:4": f"../../../{place}/sda4",
        }.items():
            (self.path / link).parent.mkdir(parents=True, exist_ok=True)
            (self.path / link).unlink(missing_ok=True)
            (self.path / link).symlink_to(target)
        self.write("proc/self/mountinfo", "30 22 8:4 / /var rw - ext4 /dev/data rw\n")

    def fio(self, text: str) -> None:
        """A stand-in for fio: a shell script, which may call answer for what fio would print."""
        for name, (kib, took) in GOOD.items():
            if not (self.path / f"say-{name}").exists():
                self.write(f"say-{name}", terse(name, kib, took))
        program(
            self.path / "fio",
            f'all=$*\necho "$all" >>{self.path}/calls\n'
            f"answer() {{ case $all in *name=write*) cat {self.path}/say-write ;;\n"
            f"*) cat {self.path}/say-read {self.path}/say-sync ;; esac; }}\n{text}",
        )

    def run(self, **environment: str) -> str:
        """Runs it; returns what it said, and looks at what it has left."""
        result = subprocess.run(
            [*self.shell, str(SCRIPT), "--root", str(self.path)],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "CAIRN_FIO": str(self.path / "fio"), **environment},
        )
        assert result.returncode == 0, result.stderr
        assert {file.name for file in (self.path / FOLDER).iterdir()} <= {"result", "tries"}
        assert not (self.path / "run/cairn/probe/doing").exists()
        return result.stdout

    def result(self) -> dict[str, str]:
        """What is kept; nothing if there is no result."""
        file = self.path / FOLDER / "result"
        if not file.exists():
            return {}
        lines = file.read_text().splitlines()
        assert lines[0] == "cairn-probe 1"
        assert lines[-1] == "end"
        return dict(line.split("=") for line in lines[1:-1])

    def calls(self) -> list[str]:
        """How fio was called."""
        file = self.path / "calls"
        return file.read_text().splitlines() if file.exists() else []


def machine_in(path: Path, shell: str) -> Machine:
    """A new machine with a USB disk; fio is a stand-in."""
    made = Machine(path, shell.split())
    for name in (FOLDER, "run/cairn/probe", "var/lib/bitcoind"):
        (path / name).mkdir(parents=True)
    made.disk(USB)
    made.fio("answer")
    return made


@pytest.fixture(params=SHELLS)
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    """The same in both shells."""
    return machine_in(tmp_path, request.param)


def test_measures_once(machine: Machine) -> None:
    """Three figures are kept; the next boot leaves disk and result alone."""
    said = machine.run()
    assert said == (
        "The data disk (sda) was measured: writes 96.0 MiB/s, 8000 reads of 4 KiB a second, "
        "2.0 ms for a synced write; settings for sata instead of usb.\n"
    )
    found = machine.result()
    assert re.fullmatch("[0-9a-f]{16}", found.pop("disk"))
    assert found == {
        "write_kib_per_s": "98304",
        "reads_per_s": "8000",
        "sync_us": "2000",
        "written_kib": "102304",
    }
    assert (machine.path / FOLDER / "result").stat().st_mode & 0o777 == 0o644
    assert len(machine.calls()) == 2
    assert machine.run() == ""
    assert len(machine.calls()) == 2


def test_what_fio_is_asked_for(machine: Machine) -> None:
    """Past the page cache, bounded in bytes and time, and only where something was written."""
    machine.write("say-write", terse("write", "12288", "5100"))
    machine.write("say-sync", terse("sync", "4096", "2000"))
    machine.run()
    first, second = machine.calls()
    trial = f"--filename={machine.path}/{FOLDER}/trial"
    assert trial in first
    assert trial in second
    assert "--size=96m --direct=1 --end_fsync=1 --runtime=4" in first
    assert "--name=read --rw=randread --size=12288k --direct=1 --time_based=1" in second
    assert "--name=sync --stonewall --rw=write --size=12288k --fdatasync=1" in second
    assert "--runtime=2" in second
    # both tries together, with what they ask for at most
    assert 2 * (96 + 16) < 256


def test_no_more_is_synced_than_16_mebibytes(machine: Machine) -> None:
    """Of a file that has all of its 96."""
    machine.run()
    assert "--size=98304k" in machine.calls()[1]
    assert "--size=16384k --fdatasync=1" in machine.calls()[1]


HOSTILE = ["", "0", "-5", "nan", "inf", "1e9", "0x10", "1.5", "123456789", " 7", "7 ", "$(id)"]


@pytest.mark.parametrize("number", HOSTILE)
@pytest.mark.parametrize("part", GOOD)
@pytest.mark.parametrize("place", [0, 1], ids=["bytes", "time"])
def test_numbers_that_are_none(tmp_path: Path, part: str, place: int, number: str) -> None:
    """Not whole, not positive, or too long: no result."""
    machine = machine_in(tmp_path, "dash")
    values = [*GOOD[part]]
    values[place] = number
    machine.write(f"say-{part}", terse(part, *values))
    assert "fio did not come to an end, or to none that is understood" in machine.run()
    assert machine.result() == {}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "fio: something is odd\n" + terse("write", *GOOD["write"]),
        terse("write", *GOOD["write"]) * 2,
        terse("other", *GOOD["write"]),
        terse("write", *GOOD["write"], error="22"),  # O_DIRECT refused
        terse("write", *GOOD["write"], version="5"),
        terse("write", *GOOD["write"])[:90],
        "3;fio-3.41;write;0;0;1;2;3\n",
        "\0\xff;;;\n",
        terse("write", "98305", "1000"),  # more than asked for
    ],
)
def test_output_that_is_not_understood(machine: Machine, line: str) -> None:
    """Cut short, another version, an error, twice: no result."""
    machine.write("say-write", line)
    assert "its class decides" in machine.run()
    assert machine.result() == {}


@pytest.mark.parametrize("end", ["exit 1", "kill -9 $$", "answer; exit 3"])
def test_fio_fails(machine: Machine, end: str) -> None:
    """A failure is none of the boot's; and after two there is no third."""
    machine.fio(end)
    for _ in range(2):
        assert "its class decides" in machine.run()
    assert len(machine.calls()) == 2
    assert "tried twice" in machine.run()
    assert len(machine.calls()) == 2
    # another disk is another matter
    machine.disk(USB, "Another")
    machine.fio("answer")
    assert "was measured" in machine.run()


def test_fio_is_missing(machine: Machine) -> None:
    """As in an image without it."""
    assert "its class decides" in machine.run(CAIRN_FIO=str(machine.path / "none"))


def test_fio_hangs(machine: Machine) -> None:
    """It is ended, long before the 20 seconds that the unit has."""
    machine.fio("exec sleep 60")
    begin = time.monotonic()
    assert "its class decides" in machine.run()
    assert 12 < time.monotonic() - begin < 17


def test_a_machine_that_falls_over(machine: Machine) -> None:
    """A cut in the middle leaves the file; the next boot removes it, and the third does not try."""
    machine.fio(f"head -c 9000 /dev/zero >{machine.path}/{FOLDER}/trial; kill -9 $PPID; answer")
    command = [*machine.shell, str(SCRIPT), "--root", str(machine.path)]
    environment = {**os.environ, "CAIRN_FIO": str(machine.path / "fio")}
    # a stand-in for timeout that stays the parent's only child: the script itself is killed
    program(machine.path / "bin/timeout", 'shift 3; exec "$@"')
    if machine.shell[0] == "busybox":
        pytest.skip("busybox has a timeout of its own")
    environment["PATH"] = f"{machine.path}/bin:{environment['PATH']}"
    for tries in (1, 2):
        result = subprocess.run(command, check=False, capture_output=True, env=environment)
        assert result.returncode == -9
        assert (machine.path / FOLDER / "trial").exists()
        assert f" {tries}\n" in (machine.path / FOLDER / "tries").read_text()
    assert "tried twice" in machine.run()


def test_leftovers_go(machine: Machine) -> None:
    """Also where a result is there already."""
    machine.run()
    machine.write(f"{FOLDER}/trial", "x" * 1000)
    machine.write(f"{FOLDER}/result.new", "")
    machine.write("run/cairn/probe/doing", "writing\n")
    assert machine.run() == ""
    assert len(machine.calls()) == 2


def test_another_disk_is_measured(machine: Machine) -> None:
    """The result is of one disk; a copy of the data on another one gets its own."""
    machine.run()
    first = machine.result()["disk"]
    machine.disk(USB, "Another")
    assert "was measured" in machine.run()
    assert machine.result()["disk"] != first


@pytest.mark.parametrize(
    ("name", "extra", "words"),
    [
        ("mmcblk0", "device/type", "kind of storage (sd)"),
        ("nvme0n1", "x", "kind of storage (nvme)"),
        ("vda", "x", "kind of storage (virtio)"),
        ("xvda", "x", "kind of storage (unknown)"),
    ],
)
def test_where_nothing_depends_on_it(machine: Machine, name: str, extra: str, words: str) -> None:
    """Nothing is written, not even that it was tried."""
    place = f"sys/devices/pci0000:00/block/{name}"
    machine.write(f"{place}/{extra}", "SD\n")
    machine.write(f"{place}/{name}p4/partition", "4\n")
    (machine.path / "sys/dev/block/8:4").unlink()
    (machine.path / "sys/dev/block/8:4").symlink_to(f"../../../{place}/{name}p4")
    assert words in machine.run()
    assert machine.calls() == []
    assert list((machine.path / FOLDER).iterdir()) == []


def test_a_rotating_disk(machine: Machine) -> None:
    """Known without measuring."""
    machine.disk(SATA)
    machine.write(f"{SATA}/queue/rotational", "1\n")
    assert "kind of storage (hdd)" in machine.run()
    assert machine.calls() == []


def test_a_full_disk(machine: Machine) -> None:
    """Less than 1 GiB free: nothing is written."""
    program(machine.path / "bin/df", "echo Filesystem; echo x 9000000 8000000 1048575 99% /var")
    if machine.shell[0] == "busybox":
        pytest.skip("busybox has a df of its own")
    assert "nearly full" in machine.run(PATH=f"{machine.path}/bin:{os.environ['PATH']}")
    assert machine.calls() == []


def test_data_elsewhere(machine: Machine) -> None:
    """The result is not kept on another partition than bitcoind's data."""
    other = "sys/devices/pci0000:00/nvme/nvme0/nvme0n1"
    machine.write(f"{other}/nvme0n1p1/partition", "1\n")
    (machine.path / "sys/dev/block/9:1").symlink_to(f"../../../{other}/nvme0n1p1")
    info = (machine.path / "proc/self/mountinfo").read_text()
    machine.write("proc/self/mountinfo", f"{info}31 30 9:1 / /var/lib/bitcoind rw - ext4 x rw\n")
    assert "not measured" in machine.run()
    assert machine.calls() == []


def test_nothing_readable(tmp_path: Path) -> None:
    """An empty /proc and /sys."""
    for name in (FOLDER, "run/cairn/probe"):
        (tmp_path / name).mkdir(parents=True)
    assert "not measured" in Machine(tmp_path).run()


def test_wrong_option() -> None:
    """Usage errors end with 2."""
    result = subprocess.run(["dash", str(SCRIPT), "--fast"], check=False, capture_output=True)
    assert result.returncode == 2
    assert b"unknown option '--fast'" in result.stderr


def test_its_unit_ends_before_its_time() -> None:
    """fio has 14 seconds, the script 17, and one more before it is killed.

    The unit has minutes: its time includes that for its sandbox, and a unit that failed ends the
    trial of an update.
    """
    text = SCRIPT.read_text()
    assert "${CAIRN_PROBE_SECONDS:-14}" in text
    unit = (ROOT / "overlay/usr/lib/systemd/system/cairn-probe.service").read_text()
    assert "\nExecStart=-/usr/bin/timeout -k 1 17 /usr/lib/cairn/cairn-probe\n" in unit
    assert "\nTimeoutStartSec=5min\n" in unit
    assert "\nBefore=node-tune.service\n" in unit
    # fio calls nice(), and ends where that is not allowed
    assert re.findall("(?m)^SystemCallFilter=(.*)$", unit)[-1] == "setpriority"
    limit = re.search(r"(?m)^LimitFSIZE=(\d+)M$", unit)
    assert limit
    assert f"--size={limit[1]}m" in text


@pytest.fixture
def stick(tmp_path: Path) -> Iterator[Disk]:
    """A disk that writes 2 MB a second (support/slow-disk)."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("needs root, FUSE and loop devices")
    try:
        disk = Disk(tmp_path / "disk", {"SLOW_LIMITS": "bps-total=2000000"}, size="3G")
    except LimitError as error:
        pytest.skip(str(error))
    yield disk
    disk.close()


@pytest.mark.skipif(not shutil.which("fio"), reason="needs fio")
@pytest.mark.slow
def test_real_fio_on_a_slow_stick(stick: Disk) -> None:
    """At 2 MB a second it takes less than 20 seconds, writes little, and is recognised."""
    machine = machine_in(stick.path / "root", "dash")
    stick.sync()
    before, begin = stick.traffic(), time.monotonic()
    said = machine.run(CAIRN_FIO="fio")
    took = time.monotonic() - begin
    stick.sync()
    assert "settings for usb." in said, said
    assert took < 17
    assert int(machine.result()["write_kib_per_s"]) < 2500
    assert (stick.traffic() - before).written < 32 << 20
    print(f"{took:.1f} s: {said}", file=sys.stderr)


@pytest.mark.skipif(not shutil.which("fio"), reason="needs fio")
@pytest.mark.slow
def test_real_fio_is_understood(machine: Machine) -> None:
    """On this machine's disk, as fast as it is."""
    said = machine.run(CAIRN_FIO="fio")
    if "was measured" not in said:
        result = subprocess.run(
            ["dd", "if=/dev/zero", f"of={machine.path}/x", "bs=4k", "count=1", "oflag=direct"],
            check=False,
            capture_output=True,
        )
        assert result.returncode != 0, said  # no O_DIRECT here, therefore no result
        return
    assert 0 < int(machine.result()["written_kib"]) <= 114688

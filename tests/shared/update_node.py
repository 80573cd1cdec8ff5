"""A node in a folder, which can be updated: boot partition, two slots, what boots, and a RAUC.

The boot loader is a model of the board's (lab/pi_firmware.py, systemd_boot.py). The kernel of a
version is a file that names it, and so is its root file system; a boot with two different ones is
what must never be. RAUC is played by a shell script that does what RAUC does in this order (RAUC's
src/install.c: signature, pre-install handler, board, slot bad, image, slot hook, slot primary).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.paths import ROOT
from lab.pi_firmware import NothingBootsError, PiFirmware
from tests.shared import systemd_boot
from tests.shared.commands import program

BOARDS = {"rpi5": "tryboot", "x86_64": "systemd-boot"}
LIBRARY = ROOT / "overlay/usr/lib/cairn"
#: What a bundle has for the slot's folder, beside texts
FILES = {
    "rpi5": (
        *("kernel_2712.img", "bcm2712-rpi-5-b.dtb"),
        *("overlays/README", "overlays/bcm2712d0.dtbo"),
    ),
    "x86_64": ("linux", "microcode.img"),
}
CMDLINE = "rootfstype=erofs ro quiet console=tty0"
#: Commands that change something, or stand where the scripts do
COUNTED = ["awk", "cat", "chmod", "cmp", "cp", "head", "mkdir", "mv", "rm", "rmdir", "sed", "sync"]
COUNTED += ["tee", "touch"]
APPLETS = "awk cat chmod cmp cp cut date df du grep head ln ls mkdir mktemp mv paste readlink rm"
APPLETS += " rmdir sed sha256sum sleep sort stat sync tail tee touch tr wc"


@dataclass
class Started:
    """What a boot came to."""

    slot: str
    kernel: str
    root: str
    """version of each; "torn" for what is none"""

    @property
    def version(self) -> str:
        """The version of both."""
        assert self.kernel == self.root, f"kernel {self.kernel} with the root of {self.root}"
        return self.root


class UpdateNode:
    """Its root folder is ``path``; version 1.0.0 runs in slot a and is good."""

    def __init__(self, path: Path, board: str) -> None:
        """``board``: rpi5 or x86_64."""
        self.path, self.board = path, board
        self.boot_folder = path / "boot"
        self.firmware = PiFirmware(self.boot_folder)
        self.tools = path / "bin"
        for name in ("run/cairn", "var/lib/cairn", "dev", "boot", "proc", "bundles"):
            (path / name).mkdir(parents=True)
        self.write("usr/share/cairn/boot-backend", BOARDS[board] + "\n")
        self.write("usr/share/cairn/data-format", "data-format=1\ndata-reads=1\n")
        self.write("proc/sys/kernel/random/boot_id", "boot-0\n")
        self.write("sys/class/tty/console/active", "tty1\n")
        self.write("dev/tty1", "")
        self.write("boot/node.conf", "hostname=attic\n")
        self.write("var/lib/cairn/node.conf", "hostname=attic\n")
        self.write("run/cairn/node-conf.records", "chain main\nnetwork on\n")
        self.boots = 0
        self.renames = True
        """a PC's firmware can rename files"""
        self.disk()
        self.make_tools()
        self.fill("a", "1.0.0")
        self.name_slot("a")
        self.boot()

    def write(self, name: str, text: str) -> None:
        """A file below the root folder."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def read(self, name: str) -> str:
        """A file below the root folder, "" if there is none."""
        file = self.path / name
        return file.read_text() if file.exists() else ""

    def disk(self) -> None:
        """The system's disk in sysfs, with its partitions."""
        disk = self.path / "sys/devices/mmcblk0"
        (self.path / "sys/dev/block").mkdir(parents=True)
        (self.path / "sys/class/block").mkdir(parents=True)
        for number, label in enumerate(("boot", "root-a", "root-b", "data"), 1):
            folder = disk / f"mmcblk0p{number}"
            folder.mkdir(parents=True)
            (folder / "partition").write_text(f"{number}\n")
            (folder / "uevent").write_text(f"PARTNAME={label}\n")
            (folder / "size").write_text("2048\n")
            for place in (f"dev/block/179:{number}", f"class/block/{folder.name}"):
                (self.path / "sys" / place).symlink_to(folder)
            self.write(f"dev/mmcblk0p{number}", "")
        (self.path / "sys/class/block/mmcblk0").symlink_to(disk)

    def make_tools(self) -> None:
        """systemctl, node-cli, RAUC and the like; each does what a file tells it."""
        root = self.path
        self.write("state", "running\n")
        self.write("failed-units", "")
        self.write("rpc", "0 1000\n")
        program(
            self.tools / "systemctl",
            f"""case $1 in
            --force) echo reboot ;;
            is-system-running) cat {root}/state ;;
            is-active) cat {root}/emergency 2>/dev/null || echo inactive ;;
            list-units) case $* in *node-convert*) cat {root}/at-work 2>/dev/null ;;
                *) cat {root}/failed-units ;; esac ;;
            start) echo "$*" >>{root}/started
                [ ! -e {root}/starts ] || : >{root}/failed-units ;;
            show) case $* in
                *CPUUsageNSec*) cat {root}/cpu 2>/dev/null; exit ;;
                *"-p Result "*) cat {root}/result-$6 2>/dev/null || echo exit-code; exit ;;
                *RequiredBy*) cat {root}/required-by 2>/dev/null; exit ;; esac
                cat {root}/bitcoind-state 2>/dev/null || echo active ;;
            esac""",
        )
        program(
            self.tools / "node-cli",
            f"""read -r status height words <{root}/rpc
            [ $status != 403 ] || {{ echo "error: server returned HTTP error 403" >&2; exit 1; }}
            [ $status = 0 ] || {{ echo "error code: -28"; echo "error message: $words"; exit 28; }}
            printf '{{\\n  "chain": "main",\\n  "blocks": %s,\\n}}\\n' "$height" """,
        )
        program(
            self.tools / "rauc",
            f"""set -eu
            slots() {{ {LIBRARY}/cairn-boot-slot --root {root} "$@"; }}
            what=$1
            [ $1 = install ] || shift
            case $2 in
            http*) echo "$what $2 by $all_proxy" >>{root}/asked; file={root}/served ;;
            *) file=$2 ;; esac
            folder=$(cat "$file")
            [ ! -f "$folder/words" ] || {{ cat "$folder/words" "$folder/words" >&2; exit 1; }}
            case $what in info)
                [ -f "$folder/signed" ] || exit 1
                echo "RAUC_MF_COMPATIBLE='$(cat $folder/signed)'"
                echo "RAUC_MF_VERSION='$(sed -n s/^version=//p $folder/release)'"
                exit ;; esac
            trap 'echo finished' EXIT
            [ -f "$folder/signed" ] || {{ echo signature verification failed; exit 1; }}
            export RAUC_BUNDLE_MOUNT_POINT=$folder
            set -- install $folder
            {LIBRARY}/cairn-update-allowed --root {root}
            said=$(cat $folder/signed)
            [ "$said" = "cairn-{self.board}" ] || {{ echo "Compatible mismatch"; exit 1; }}
            slot=b; [ "$(slots get-current)" = a ] || slot=a
            slots set-state $slot bad
            cat $2/root.img >{root}/dev/root.$slot
            [ ! -e $2/short ] || exit 1
            [ ! -e $2/slow ] || {{ : >{root}/begun; while [ ! -e {root}/go ]; do sleep 0.1; done; }}
            {LIBRARY}/cairn-boot-files --root {root} $slot $2 {root}/dev/root.$slot
            slots set-primary $slot
            [ ! -e $2/late ] || {{ echo Error while writing status file; exit 1; }}""",
        )
        program(self.tools / "udevadm", "exit 0")

    def time_passes(self, seconds: int, before: str = "", after: str = "") -> None:
        """Each ``sleep`` of a script takes so long by /proc/uptime, and runs these commands."""
        clock = f"{self.path}/proc/uptime"
        on = f"awk '{{ $1 += {seconds}; print }}' {clock} >{clock}.new; mv {clock}.new {clock}"
        program(self.tools / "sleep", f"{before}\n{on}\n{after}")

    # -- bundles -------------------------------------------------------------------------

    def bundle(self, version: str, name: str = "bundle", /, **release: str) -> Path:
        """A bundle as RAUC mounts it. ``release``: other lines of that file, _ for -."""
        folder = self.path / "bundles" / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "boot").mkdir(parents=True)
        (folder / "root.img").write_text(f"root of {version}\n" * 50)
        content = (folder / "root.img").read_bytes()
        values = {
            "version": version,
            "board": self.board,
            "data-format": "1",
            "data-reads": "1",
            "root-size": str(len(content)),
            "root-sha256": hashlib.sha256(content).hexdigest(),
            **{key.replace("_", "-"): value for key, value in release.items()},
        }
        (folder / "release").write_text("".join(f"{k}={v}\n" for k, v in values.items()))
        (folder / "signed").write_text(f"cairn-{self.board}\n")
        (folder / "boot/cmdline").write_text(CMDLINE + "\n")
        for file in FILES[self.board]:
            (folder / "boot" / file).parent.mkdir(exist_ok=True)
            (folder / "boot" / file).write_text(f"kernel of {version}\n" * 20)
        if self.board == "rpi5":
            config = (ROOT / "board/rpi5/config.txt").read_text()
            (folder / "boot/config.txt").write_text(config)
        return folder

    def file(self, bundle: Path, name: str = "bundles/bundle.raucb") -> str:
        """The bundle's file; this RAUC mounts the folder that it names."""
        self.write(name, f"{bundle}\n")
        return str(self.path / name)

    def fill(self, slot: str, version: str) -> None:
        """As post-image.sh fills a slot; names it nowhere."""
        bundle = self.bundle(version, "flashed")
        folder = self.boot_folder / f"slot-{slot}"
        shutil.copytree(bundle / "boot", folder)
        shutil.copy(bundle / "release", folder)
        if self.board == "rpi5":
            (folder / "cmdline.txt").write_text(f"root=PARTLABEL=root-{slot} {CMDLINE}\n")
        shutil.copy(bundle / "root.img", self.path / f"dev/root.{slot}")

    def name_slot(self, slot: str) -> None:
        """The one that boots, and is good."""
        if self.board == "rpi5":
            shutil.copy(self.boot_folder / f"slot-{slot}/config.txt", self.boot_folder)
            (self.boot_folder / f"slot-{slot}/good").touch()
            return
        self.write(
            f"boot/loader/entries/cairn-{slot}.conf",
            f"title Cairn\nversion 1\nsort-key cairn\nlinux /slot-{slot}/linux\n"
            f"options root=PARTLABEL=root-{slot} {CMDLINE}\n",
        )

    def never_good(self, *, boot: bool = True) -> None:
        """Slot a as a new card has it, booted: it has not been found good yet."""
        if self.board == "rpi5":
            (self.boot_folder / "slot-a/good").unlink()
        else:
            entries = self.boot_folder / "loader/entries"
            (entries / "cairn-a.conf").rename(entries / "cairn-a+3.conf")
        if boot:
            self.boot()

    @contextmanager
    def boot_not_mounted(self) -> Iterator[None]:
        """/boot is an empty folder meanwhile, which the loader cannot know."""
        away = self.path / "boot-partition"
        self.boot_folder.rename(away)
        self.boot_folder.mkdir()
        mounts = self.read("proc/self/mountinfo")
        self.write("proc/self/mountinfo", mounts.splitlines()[0] + "\n")
        yield
        self.write("proc/self/mountinfo", mounts)
        self.boot_folder.rmdir()
        away.rename(self.boot_folder)

    @contextmanager
    def boot_of(self, other: UpdateNode) -> Iterator[None]:
        """/boot is that of another node meanwhile, whose disk is sdz; nothing of it may change."""
        if not (self.path / "sys/devices/sdz").exists():
            (self.path / "sys/devices/sdz/sdz1").mkdir(parents=True)
            (self.path / "sys/dev/block/8:1").symlink_to(self.path / "sys/devices/sdz/sdz1")
        away = self.path / "boot-partition"
        self.boot_folder.rename(away)
        self.boot_folder.symlink_to(other.boot_folder)
        mounts = self.read("proc/self/mountinfo")
        self.write("proc/self/mountinfo", mounts.replace("179:1 / /boot", "8:1 / /boot"))
        before = times(other.boot_folder)
        yield
        assert times(other.boot_folder) == before
        self.write("proc/self/mountinfo", mounts)
        self.boot_folder.unlink()
        away.rename(self.boot_folder)

    # -- power ---------------------------------------------------------------------------

    def boot(self) -> Started:
        """Power on: the boot loader, then the beginning of a boot of Linux."""
        if self.board == "rpi5":
            try:
                boot = self.firmware.boot()
            except NothingBootsError as error:
                raise AssertionError(str(error)) from error
            kernel, line = boot.kernel.decode(), boot.command_line
            assert boot.tree == boot.kernel, "a device tree of another version"
            assert boot.overlay == boot.kernel, "an overlay of another version"
            flag = self.path / "proc/device-tree/chosen/bootloader/tryboot"
            flag.parent.mkdir(parents=True, exist_ok=True)
            flag.write_bytes(bytes([0, 0, 0, boot.tryboot]))
        else:
            entry = systemd_boot.start(self.boot_folder, self.renames)
            assert entry, "no entry that can be started"
            kernel = (self.boot_folder / entry.values["linux"].lstrip("/")).read_text()
            line = entry.values["options"]
        root = [word for word in line.split() if word.startswith("root=PARTLABEL=root-")][-1]
        slot = root[-1]
        self.boots += 1
        shutil.rmtree(self.path / "run", ignore_errors=True)
        self.write("run/cairn/node-conf.records", "chain main\nnetwork on\n")
        self.write("proc/cmdline", line + "\n")
        self.write("proc/uptime", "5000.00 1.00\n")
        self.write("proc/sys/kernel/random/boot_id", f"boot-{self.boots}\n")
        self.write("proc/mounts", "/dev/mmcblk0p4 /var ext4 rw,noatime 0 0\n")
        number = {"a": 2, "b": 3}[slot]
        self.write(
            "proc/self/mountinfo",
            f"1 0 179:{number} / / ro - erofs /dev/root ro\n"
            "2 1 179:1 / /boot ro - vfat /dev/mmcblk0p1 ro\n",
        )
        started = Started(
            slot, version_of(kernel, 20), version_of(self.read(f"dev/root.{slot}"), 50)
        )
        self.write("usr/lib/os-release", f"IMAGE_VERSION={started.root}\nVARIANT_ID={self.board}\n")
        return started

    def cut(self) -> Started:
        """The plug is pulled and put back."""
        self.firmware.power_cut()
        return self.boot()

    def restarted(self, output: str) -> Started:
        """The restart that a script has asked for, with its argument, if it has."""
        last = output.strip().splitlines()[-1]
        assert last.split()[0] == "reboot", output
        self.firmware.restart(last.removeprefix("reboot").strip())
        return self.boot()

    # -- scripts -------------------------------------------------------------------------

    def environment(self, **words: str) -> dict[str, str]:
        """Of a script: its tools, and words of the test's."""
        return {
            "PATH": f"{self.tools}:/usr/sbin:/usr/bin:/sbin:/bin",
            "NODE_CLI": str(self.tools / "node-cli"),
            "CAIRN_SYSTEMCTL": str(self.tools / "systemctl"),
            "CAIRN_RAUC": str(self.tools / "rauc"),
            "CAIRN_LOGGER": str(self.tools / "logger"),
            "CAIRN_TRIAL_STEADY": "0",
            "CAIRN_UPDATE_WAITS": "0",
            **words,
        }

    def run(
        self, name: str, *words: str, shell: str = "dash", status: int | None = 0, **env: str
    ) -> str:
        """Runs one of Cairn's scripts; its output and errors. ``status`` None: any."""
        folder = ROOT / "overlay/usr/bin" if name.startswith("node-") else LIBRARY
        command = [*shell.split(), str(folder / name), "--root", str(self.path), *words]
        result = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(**env),
            timeout=120,
            start_new_session=True,
        )
        assert status is None or result.returncode == status, result.stdout
        return result.stdout

    def slots(self, *words: str, status: int | None = 0) -> str:
        """cairn-boot-slot."""
        return self.run("cairn-boot-slot", *words, status=status).strip()

    def screen(self) -> str:
        """The sentence on the screen."""
        return self.read("run/cairn/update.report")

    def trial(self, status: int = 0, shell: str = "dash", **env: str) -> str:
        """cairn-trial, which has seconds for what a node has minutes for."""
        words = {"CAIRN_TRIAL_TIME": "0", "CAIRN_TRIAL_LONGEST": "0", **env}
        return self.run("cairn-trial", "--pause", "0", shell=shell, status=status, **words)

    # -- power cuts ----------------------------------------------------------------------

    def cut_before(self, number: int) -> None:
        """The next run of a script ends, with all its children, before its command ``number``.

        0: never. Those of a pipe count in any order.
        """
        (self.path / "count").unlink(missing_ok=True)
        for name in COUNTED:
            program(
                self.tools / name,
                f"""echo >>{self.path}/count
                n=$(/usr/bin/wc -l <{self.path}/count)
                [ {number} = 0 ] || [ $n -lt {number} ] || kill -9 0
                exec {shutil.which(name)} "$@" """,
            )

    def no_cut(self) -> int:
        """Takes that back; how many commands were begun?"""
        for name in COUNTED:
            (self.tools / name).unlink()
        return len(self.read("count"))


def times(folder: Path) -> dict[Path, int]:
    """All that is in a folder, and when it was changed, in ns."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def version_of(text: str, lines: int) -> str:
    """What a kernel or root file system says it is, if it is whole."""
    found = text.splitlines()
    if len(found) != lines or len(set(found)) != 1 or not text.endswith("\n"):
        return "torn"
    return found[0].rpartition(" ")[2]

"""The machine in which updates are recorded and repeated: update_guest.sh in an initramfs.

Kernel and modules are the development image's, or those of an image for x86_64 that is named; the
commands are this machine's busybox. Cairn's scripts are overlay/'s, with these in the place of what
is not there: which partitions are the slots' (datadisk-facts.sh), systemctl, node-cli and RAUC,
which does in this order what RAUC does (its src/install.c: pre-install handler, slot bad, image,
slot's hook, slot primary).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from lab import boards
from lab.parsing import partition_offset
from lab.paths import ROOT
from tests.powerloss.mounts import run
from tests.powerloss.update_disk import NEW, STARTS, bundle

#: Those that the guest needs, if the kernel has them as modules; each brings what it depends on.
MODULES = (
    *("virtio_pci", "virtio_blk", "loop", "ext4", "vfat"),
    *("nls_cp437", "nls_iso8859-1", "nls_ascii", "nls_utf8"),
)
#: Seconds without a word from the machine
PATIENCE = 600
#: Negative controls: what is appended to fat.sh
CONTROLS = {
    "": "",
    "overwrite": 'fat_put() { cat >"$1" && sync "$1" "${1%/*}"; }\n',
    "unsynced": "sync() { :; }\n",
    "folders": """fat_empty() {
	[ -e "$1" ] || return 0
	find "$1" -type f | while read -r fat_gone; do rm "$fat_gone" && sync "$1"; done
	rm -r "$1" && sync "${1%/*}"
}
""",
}
#: What is appended to datadisk-facts.sh
FACTS = """
datadisk_system_disk() { echo vda; }
datadisk_find() { cat "/parts/$2"; }
datadisk_is_on() { :; }
"""
SCRIPTS = {
    "usr/bin/systemctl": r"""#!/bin/sh
case $1 in
is-system-running) echo running ;;
show) echo active ;;
reboot) printf '%s\n' "${2#--reboot-argument=}" >/run/reboot ;;
esac
""",
    "usr/bin/node-cli": r"""#!/bin/sh
printf '{\n  "chain": "main",\n  "blocks": 1000,\n}\n'
""",
    "usr/bin/rauc": r"""#!/bin/sh
set -eu
[ "$1" = install ]
bundle=$(cat "$2")
export RAUC_BUNDLE_MOUNT_POINT="$bundle"
cd /usr/lib/cairn
./cairn-update-allowed
slot=b
[ "$(./cairn-boot-slot get-current)" = a ] || slot=a
echo "status=pending" >/run/cairn/rauc.status
./cairn-boot-slot set-state $slot bad
dd if="$bundle/root.img" of=/dev/cairn/root-$slot bs=128k conv=fsync 2>/dev/null
./cairn-boot-files $slot "$bundle" /dev/cairn/root-$slot
./cairn-boot-slot set-primary $slot
echo "status=ok" >/run/cairn/rauc.status
""",
}


class GuestError(Exception):
    """The machine did not do what it was to do; the text says what it did."""


@contextlib.contextmanager
def _root_of(image: Path, folder: Path) -> Iterator[Path]:
    """An image's root file system, mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    offset = partition_offset(run("sfdisk", "--json", str(image)), "root-a")
    run("mount", "-o", f"loop,ro,offset={offset}", str(image), str(folder))
    try:
        yield folder
    finally:
        run("umount", str(folder))


def kernel_of(image: Path, work: Path) -> Path:
    """An image's kernel; in ``work``/modules.d are its modules, in ``work``/modules their order."""
    kernel = work / "vmlinuz"
    beside = image.with_name(image.name + ".vmlinuz")
    if beside.exists():
        shutil.copy(beside, kernel)
    else:
        offset = partition_offset(run("sfdisk", "--json", str(image)), "boot")
        run("mcopy", "-n", "-i", f"{image}@@{offset}", "::slot-a/linux", str(kernel))
    (work / "modules.d").mkdir()
    order: list[str] = []
    with _root_of(image, work / "root") as root:
        (folder,) = (root / "usr/lib/modules").iterdir()
        needs: dict[str, list[str]] = {}
        for line in (folder / "modules.dep").read_text().splitlines():
            name, _, others = line.partition(":")
            needs[name] = others.split()
        by_name = {Path(name).name.split(".")[0].replace("-", "_"): name for name in needs}
        for module in MODULES:
            # One that is not there is built in.
            if wanted := by_name.get(module.replace("-", "_")):
                for path in [*reversed(needs[wanted]), wanted]:
                    if (plain := Path(path).name.removesuffix(".xz")) in order:
                        continue
                    shutil.copy(folder / path, work / "modules.d" / Path(path).name)
                    if path.endswith(".xz"):
                        run("unxz", str(work / "modules.d" / Path(path).name))
                    order.append(plain)
    (work / "modules").write_text("".join(f"{name}\n" for name in order))
    return kernel


class Guest:
    """Runs on a kernel of kernel_of(); each run is a machine of its own."""

    def __init__(self, kernel: Path, board: str, work: Path, control: str = "") -> None:
        """``work``: with the modules of kernel_of(). ``control``: one of CONTROLS."""
        self.kernel, self.work = kernel, work
        self.log = work / "guest.log"
        self.tree = work / "tree"
        self._fill(board, CONTROLS[control])

    def last_words(self) -> str:
        """The end of the machine's console, which goes with the folder that it lies in."""
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "its last words were:\n" + "\n".join(said.splitlines()[-15:])

    def _fill(self, board: str, control: str) -> None:
        tree = self.tree
        shutil.rmtree(tree, ignore_errors=True)
        for name in ("usr/bin", "usr/lib", "proc", "sys", "dev", "parts"):
            (tree / name).mkdir(parents=True)
        for name in ("bin", "lib"):
            (tree / name).symlink_to(f"usr/{name}")
        (tree / "lib64").symlink_to("usr/lib")
        busybox = shutil.which("busybox") or ""
        if not busybox:
            raise GuestError("busybox is missing; run support/bootstrap")
        # Debian's busybox has no flock, the images' has.
        for program in (busybox, shutil.which("flock") or ""):
            shutil.copy(program, tree / "usr/bin")
            for word in run("ldd", program).split():
                if word.startswith("/"):
                    target = tree / word[1:]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(word, target)
        for name in run(busybox, "--list").split():
            if not (tree / "usr/bin" / name).exists():
                (tree / "usr/bin" / name).symlink_to("busybox")
        shutil.copytree(ROOT / "overlay/usr/lib/cairn", tree / "usr/lib/cairn")
        shutil.copy(ROOT / "overlay/usr/bin/node-update", tree / "usr/bin")
        for name, text in SCRIPTS.items():
            (tree / name).unlink(missing_ok=True)
            (tree / name).write_text(text)
            (tree / name).chmod(0o755)
        for name, text in (("fat.sh", control), ("datadisk-facts.sh", FACTS)):
            with (tree / "usr/lib/cairn" / name).open("a") as script:
                script.write(text)
        for name in ("cairn-trial", "cairn-boot-slot"):
            (tree / "usr/bin" / name).symlink_to(f"../lib/cairn/{name}")
        shutil.copytree(ROOT / "overlay/usr/share/cairn", tree / "usr/share/cairn")
        backend = boards.read(board).meta["BOOT_BACKEND"]
        (tree / "usr/share/cairn/boot-backend").write_text(backend + "\n")
        bundle(tree / "bundle", board, NEW)
        (tree / "bundle.raucb").write_text("/bundle\n")
        (tree / "board").write_text(board + "\n")
        (tree / "sizes").write_text("".join(f"{name}={at}\n" for name, at in STARTS.items()))
        shutil.copytree(self.work / "modules.d", tree / "modules.d")
        shutil.copy(self.work / "modules", tree)
        shutil.copy(ROOT / "tests/powerloss/update_guest.sh", tree / "init")
        (tree / "init").chmod(0o755)

    def run(
        self, mode: str, drive: str, plan: str = "", mark: Callable[[str], object] | None = None
    ) -> dict[int, str]:
        """Runs a mode of update_guest.sh on a drive (QEMU's word for its file); the results.

        ``mark``: is given each mark, as soon as the machine has said it. Raises GuestError.
        """
        (self.tree / "mode").write_text(mode + "\n")
        (self.tree / "plan").write_text(plan)
        archive = self.work / "initramfs"
        names = "".join(f"{path.relative_to(self.tree)}\n" for path in self.tree.rglob("*"))
        with archive.open("wb") as file:
            subprocess.run(
                ["cpio", "--quiet", "-o", "-H", "newc"],
                cwd=self.tree,
                input=names.encode(),
                stdout=file,
                check=True,
            )
        accel = run(str(ROOT / "support/qemu-accel"), "x86_64", str(self.kernel)).split()[-1]
        command = ["qemu-system-x86_64", "-machine", "q35", "-accel", accel, "-cpu", "max"]
        command += ["-m", "768", "-nodefaults", "-no-reboot", "-display", "none"]
        command += ["-serial", "stdio", "-kernel", str(self.kernel), "-initrd", str(archive)]
        command += ["-append", "console=ttyS0 quiet panic=-1 max_loop=8"]
        command += ["-drive", f"if=virtio,format=raw,discard=ignore,{drive}"]
        results: dict[int, str] = {}
        finished = False
        with (
            self.log.open("a") as log,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            ) as machine,
        ):
            assert machine.stdout
            timer = threading.Timer(PATIENCE, machine.kill)
            timer.start()
            for line in machine.stdout:
                timer.cancel()
                timer = threading.Timer(PATIENCE, machine.kill)
                timer.start()
                log.write(line)
                word, _, text = line.strip().partition(" ")
                if word == "MARK" and mark:
                    json.loads(text)
                    mark(text)
                elif word == "RESULT":
                    number, _, what = text.partition(" ")
                    # The first one counts: a failure is not forgotten.
                    results.setdefault(int(number), what)
                finished = finished or word == "FINISHED"
            timer.cancel()
        if not finished:
            raise GuestError(f"the machine did not come to an end; {self.last_words()}")
        return results
